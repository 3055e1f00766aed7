/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes: page type "lladd.btree.node".
 *
 *   32 u48 the tree's root page
 *   38 u8  level, 0: leaf
 *   39 u8  flags (1: closed)
 *   40 u48 right link: the next node of the level, 0: none
 *   46 u16 slots
 *   48 u16 slots with a ghost
 *   50 u16 bytes that all keys of the node have in common
 *   52 u16 bytes of entries, including dropped entries
 *   54 u16 length of the low fence
 *   56 u16 length of the high fence, 65535: none
 *   58 u48 spare page (spare.c), 0: none
 *   64     slots, in the order of the keys: u32 head, u16 offset of the entry
 *          free, zeros
 *          entries: u16 key length (+ 32768: ghost), u16 value length (+ 32768: a blob has the
 *          value), u16 room for the value, key, value, unused room
 *          the high fence, then the low fence, up to the page's end
 *
 * A node holds the keys k with low fence <= k < high fence. The fences meet: the high fence of a
 * node is the low fence of the node at its right link (BPT-1, BPT-2). A closed page is no node at
 * present. The head of a key is its four bytes after the common prefix, as a big-endian number;
 * most comparisons need only heads.
 *
 * A ghost is an entry without a row: the row was removed, or its insertion was undone. The ghost
 * keeps its bytes as long as an undo may need them (BPT-3).
 *
 * In an inner node the value is the u48 number of a child, which holds the keys from the entry's
 * key up to the next entry's key. The first entry has an empty key, which stands for the low fence.
 *
 * A dropped entry keeps its bytes until a compaction. It begins with 65535 in place of the key
 * length; the u16 length of the whole entry follows. */
#include "operations/btree/node.h"

#define DROPPED UINT16_MAX

uint32_t ll_btree__common(struct bt_key a, struct bt_key b)
{
    uint32_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && a.bytes[i] == b.bytes[i])
        i++;
    return i;
}

uint32_t ll_btree__prefix(const struct bt_fences *f)
{
    return f->open_end ? 0 : ll_btree__common(f->low, f->high);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool head_fine(struct lladd_view v)
{
    const unsigned char *p = v.bytes;
    uint32_t low = bt_get(p, BT_LOW), high = bt_get(p, BT_HIGH), slots = bt_get(p, BT_SLOTS);
    uint32_t most = ll_btree__key_max(v.size);
    return p[BT_LEVEL] <= BT_LEVEL_MAX && !(p[BT_FLAGS] & ~BT_CLOSED) && low <= most &&
           (high <= most || high == BT_OPEN_END) && bt_get(p, BT_GHOSTS) <= slots &&
           BT_SLOT_AREA + (uint64_t)BT_SLOT * slots + bt_get(p, BT_USED) <= bt_end(p, v.size);
}

static bool lengths_fine(const struct bt_entry *e, uint32_t size)
{
    uint32_t value = BT_LEN(e->value_len);
    return BT_LEN(e->key_len) <= ll_btree__key_max(size) && value <= e->cap &&
           (!(e->value_len & BT_BLOB) || value == BT_REF) &&
           bt_entry_size(BT_LEN(e->key_len), e->cap) <= ll_btree__entry_max(size);
}

/* Is the entry in the area of entries, with valid lengths? */
static bool entry_fine(struct lladd_view v, uint32_t slot, struct bt_entry *e)
{
    const unsigned char *p = v.bytes;
    uint32_t end = bt_end(p, v.size), at = lladd_get16(bt_slot_at(p, slot) + 4);
    if (at < end - bt_get(p, BT_USED) || at + BT_ENTRY_HEAD > end)
        return false;
    *e = bt_entry_of(p, slot);
    if (!lengths_fine(e, v.size) || at + bt_entry_size(BT_LEN(e->key_len), e->cap) > end)
        return false;
    return p[BT_LEVEL] == 0 || (e->value_len == BT_CHILD && e->cap == BT_CHILD &&
                                !(e->key_len & BT_GHOST) && (slot > 0 || e->key_len == 0));
}

/* Are the keys in order, between the fences, with their heads in the slots? */
static bool slots_fine(struct lladd_view v, const struct bt_fences *f)
{
    const unsigned char *p = v.bytes;
    uint32_t slots = bt_get(p, BT_SLOTS), prefix = bt_get(p, BT_PREFIX), ghosts = 0;
    struct bt_key before = f->low;
    int least = 0; /* the first key may be equal to the low fence */
    for (uint32_t i = 0; i < slots; i++) {
        struct bt_entry e;
        if (!entry_fine(v, i, &e))
            return false;
        struct bt_key key = bt_entry_key(&e);
        ghosts += (e.key_len & BT_GHOST) != 0;
        if (lladd_get32(bt_slot_at(p, i)) != bt_head(key, prefix))
            return false;
        if (i > 0 || p[BT_LEVEL] == 0) { /* the first key of an inner node stands for the fence */
            if (bt_compare(key, before) < least)
                return false;
            before = key;
        }
        least = 1;
    }
    return ghosts == bt_get(p, BT_GHOSTS) && (f->open_end || bt_compare(before, f->high) < 0);
}

/* The bytes of the entry, or dropped entry, that begins there; 0 if it is not valid. */
static uint32_t bytes_at(const unsigned char *p, uint32_t at, uint32_t end, bool *dropped)
{
    if (end - at < 4)
        return 0;
    *dropped = lladd_get16(p + at) == DROPPED;
    if (!*dropped && end - at < BT_ENTRY_HEAD)
        return 0;
    uint32_t n = *dropped ? lladd_get16(p + at + 2)
                          : bt_entry_size(BT_LEN(lladd_get16(p + at)), lladd_get16(p + at + 4));
    return n >= BT_ENTRY_HEAD && n <= end - at ? n : 0;
}

/* Number of bytes of a page for which bits are kept on the stack: one bit for each byte. */
#define WINDOW 16384u

/* Marks the first bytes of entries in the window that begins at `from`, and counts the entries.
 * `at`: the first of these entries. Returns the first entry of a later window, or the end of the
 * area; 0 if the area does not divide into entries. */
static uint32_t mark_starts(struct lladd_view v, uint32_t from, uint32_t at, uint64_t *bits,
                            uint32_t *live)
{
    uint32_t end = bt_end(v.bytes, v.size);
    while (at < end && at - from < WINDOW) {
        bool dropped;
        uint32_t n = bytes_at(v.bytes, at, end, &dropped);
        if (n == 0)
            return 0;
        if (!dropped) {
            bits[(at - from) / 64] |= UINT64_C(1) << (at - from) % 64;
            ++*live;
        }
        at += n;
    }
    return at;
}

/* Does the area consist of the slots' entries and of dropped ones? The slots' keys differ, and so
 * do the slots' offsets. So it is enough that each offset is the first byte of an entry, and that
 * there are as many entries, without the dropped ones, as slots. */
static bool area_fine(struct lladd_view v)
{
    const unsigned char *p = v.bytes;
    uint32_t slots = bt_get(p, BT_SLOTS), end = bt_end(p, v.size), live = 0;
    uint64_t bits[WINDOW / 64];
    for (uint32_t from = end - bt_get(p, BT_USED), at = from; at < end; from += WINDOW) {
        memset(bits, 0, sizeof bits);
        at = mark_starts(v, from, at, bits, &live);
        if (at == 0)
            return false;
        for (uint32_t i = 0; i < slots; i++) {
            uint32_t in = lladd_get16(bt_slot_at(p, i) + 4) - from;
            if (in < WINDOW && !(bits[in / 64] >> in % 64 & 1))
                return false;
        }
    }
    return live == slots;
}

bool ll_btree__fine(struct lladd_view v)
{
    if (!head_fine(v))
        return false;
    struct bt_fences f = bt_fences_of(v.bytes, v.size);
    return bt_get(v.bytes, BT_PREFIX) == ll_btree__prefix(&f) &&
           (f.open_end || bt_compare(f.low, f.high) < 0) && slots_fine(v, &f) && area_fine(v);
}

/* ---- room ------------------------------------------------------------------------------------ */

uint32_t ll_btree__gap(const unsigned char *page, uint32_t size)
{
    return bt_end(page, size) - bt_get(page, BT_USED) - BT_SLOT_AREA -
           BT_SLOT * bt_get(page, BT_SLOTS);
}

uint32_t ll_btree__room(const unsigned char *page, uint32_t size)
{
    uint32_t slots = bt_get(page, BT_SLOTS), used = 0;
    for (uint32_t i = 0; i < slots; i++) {
        struct bt_entry e = bt_entry_of(page, i);
        used += bt_entry_size(BT_LEN(e.key_len), e.cap);
    }
    return bt_end(page, size) - BT_SLOT_AREA - BT_SLOT * slots - used;
}

/* ---- entries in records ---------------------------------------------------------------------- */

size_t ll_btree__pack_size(const struct bt_entry *e)
{
    return BT_ENTRY_HEAD + BT_LEN(e->key_len) + BT_LEN(e->value_len);
}

void ll_btree__pack(unsigned char *to, const struct bt_entry *e)
{
    uint32_t key = BT_LEN(e->key_len);
    lladd_put16(to, e->key_len);
    lladd_put16(to + 2, e->value_len);
    lladd_put16(to + 4, e->cap);
    lladd_copy(to + BT_ENTRY_HEAD, e->key, key);
    lladd_copy(to + BT_ENTRY_HEAD + key, e->value, BT_LEN(e->value_len));
}

size_t ll_btree__unpack(const unsigned char *p, size_t n, struct bt_entry *out)
{
    if (n < BT_ENTRY_HEAD)
        return 0;
    *out = (struct bt_entry){.key_len = lladd_get16(p),
                             .value_len = lladd_get16(p + 2),
                             .cap = lladd_get16(p + 4),
                             .key = p + BT_ENTRY_HEAD};
    out->value = out->key + BT_LEN(out->key_len);
    size_t len = ll_btree__pack_size(out);
    return BT_LEN(out->value_len) <= out->cap && len <= n ? len : 0;
}

size_t ll_btree__pack_short(unsigned char *to, const struct bt_entry *e, uint32_t prefix)
{
    unsigned char *p = to + 4;
    uint32_t key = BT_LEN(e->key_len) - prefix, value = BT_LEN(e->value_len);
    bool roomy = e->cap != value;
    lladd_put16(to, (uint16_t)(key | (e->key_len & BT_GHOST) | (roomy ? BT_ROOMY : 0)));
    lladd_put16(to + 2, e->value_len);
    if (roomy) {
        lladd_put16(p, e->cap);
        p += 2;
    }
    lladd_copy(p, e->key + prefix, key);
    lladd_copy(p + key, e->value, value);
    return (size_t)(p - to) + key + value;
}

size_t ll_btree__unpack_short(const unsigned char *p, size_t n, struct bt_entry *out)
{
    uint32_t roomy = n < 4 ? 0 : lladd_get16(p) & BT_ROOMY, head = roomy ? 6 : 4;
    if (n < head)
        return 0;
    *out = (struct bt_entry){.key_len = (uint16_t)(lladd_get16(p) & ~BT_ROOMY),
                             .value_len = lladd_get16(p + 2),
                             .key = p + head};
    out->cap = roomy ? lladd_get16(p + 4) : BT_LEN(out->value_len);
    out->value = out->key + BT_LEN(out->key_len);
    size_t len = head + BT_LEN(out->key_len) + BT_LEN(out->value_len);
    return BT_LEN(out->value_len) <= out->cap && len <= n ? len : 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void mark_dropped(unsigned char *page, uint32_t at)
{
    uint32_t n = bt_entry_size(BT_LEN(lladd_get16(page + at)), lladd_get16(page + at + 4));
    lladd_put16(page + at, DROPPED);
    lladd_put16(page + at + 2, (uint16_t)n);
}

/* Moves the live entries together, from the first byte of the area on; returns their end. Slots
 * name entries, but an entry does not name its slot. So meanwhile each entry has the number of its
 * slot in place of its key length, and the slot has the key length in place of the head. */
static uint32_t gather(unsigned char *page, uint32_t size, uint32_t from)
{
    uint32_t slots = bt_get(page, BT_SLOTS), end = bt_end(page, size), to = from;
    for (uint32_t i = 0; i < slots; i++) {
        unsigned char *slot = bt_slot(page, i), *e = page + lladd_get16(slot + 4);
        lladd_put32(slot, lladd_get16(e));
        lladd_put16(e, (uint16_t)i);
    }
    for (uint32_t at = from, n; at < end; at += n) {
        uint32_t i = lladd_get16(page + at);
        n = lladd_get16(page + at + 2);
        if (i == DROPPED)
            continue;
        unsigned char *slot = bt_slot(page, i);
        uint32_t key_len = lladd_get32(slot);
        n = bt_entry_size(BT_LEN(key_len), lladd_get16(page + at + 4));
        lladd_put16(page + at, (uint16_t)key_len);
        memmove(page + to, page + at, n);
        lladd_put16(slot + 4, (uint16_t)to);
        to += n;
    }
    return to;
}

static void set_heads(unsigned char *page, uint32_t prefix)
{
    for (uint32_t i = 0; i < bt_get(page, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(page, i);
        lladd_put32(bt_slot(page, i), bt_head(bt_entry_key(&e), prefix));
    }
}

/* Moves the entries so that they end at byte `end`, without gaps. */
static void gather_at(unsigned char *page, uint32_t size, uint32_t end)
{
    uint32_t from = bt_end(page, size) - bt_get(page, BT_USED);
    uint32_t used = gather(page, size, from) - from, slots = bt_get(page, BT_SLOTS);
    memmove(page + end - used, page + from, used);
    for (uint32_t i = 0; i < slots; i++) {
        unsigned char *at = bt_slot(page, i) + 4;
        lladd_put16(at, (uint16_t)(lladd_get16(at) + (end - used) - from));
    }
    uint32_t begin = BT_SLOT_AREA + BT_SLOT * slots;
    memset(page + begin, 0, end - used - begin);
    bt_set(page, BT_USED, used);
}

void ll_btree__compact(unsigned char *page, uint32_t size)
{
    gather_at(page, size, bt_end(page, size));
    set_heads(page, bt_get(page, BT_PREFIX));
}

/* Writes an entry before the present entries. The caller has checked that the gap has enough
 * room. */
static uint32_t write_entry(unsigned char *page, uint32_t size, const struct bt_entry *e)
{
    uint32_t n = bt_entry_size(BT_LEN(e->key_len), e->cap), used = bt_get(page, BT_USED) + n;
    uint32_t at = bt_end(page, size) - used, len = (uint32_t)ll_btree__pack_size(e);
    ll_btree__pack(page + at, e);
    memset(page + at + len, 0, n - len);
    bt_set(page, BT_USED, used);
    return at;
}

void ll_btree__add(unsigned char *page, uint32_t size, uint32_t slot, const struct bt_entry *e)
{
    uint32_t need = BT_SLOT + bt_entry_size(BT_LEN(e->key_len), e->cap);
    uint32_t slots = bt_get(page, BT_SLOTS);
    if (ll_btree__gap(page, size) < need)
        ll_btree__compact(page, size);
    uint32_t at = write_entry(page, size, e);
    unsigned char *p = bt_slot(page, slot);
    memmove(p + BT_SLOT, p, (size_t)BT_SLOT * (slots - slot));
    lladd_put32(p, bt_head(bt_entry_key(e), bt_get(page, BT_PREFIX)));
    lladd_put16(p + 4, (uint16_t)at);
    bt_set(page, BT_SLOTS, slots + 1);
    bt_set(page, BT_GHOSTS, bt_get(page, BT_GHOSTS) + ((e->key_len & BT_GHOST) != 0));
}

void ll_btree__set_ghost(unsigned char *page, uint32_t slot, bool ghost)
{
    unsigned char *e = page + lladd_get16(bt_slot(page, slot) + 4);
    uint32_t key_len = lladd_get16(e);
    if (((key_len & BT_GHOST) != 0) == ghost)
        return;
    lladd_put16(e, (uint16_t)(key_len ^ BT_GHOST));
    bt_set(page, BT_GHOSTS, bt_get(page, BT_GHOSTS) + (ghost ? 1u : UINT32_MAX));
}

void ll_btree__change(unsigned char *page, uint32_t size, uint32_t slot, const struct bt_entry *e)
{
    unsigned char *p = bt_slot(page, slot), *old = page + lladd_get16(p + 4);
    uint32_t len = BT_LEN(e->value_len), cap = lladd_get16(old + 4);
    ll_btree__set_ghost(page, slot, (e->key_len & BT_GHOST) != 0);
    if (len <= cap) {
        unsigned char *value = old + BT_ENTRY_HEAD + BT_LEN(e->key_len);
        lladd_put16(old + 2, e->value_len);
        lladd_copy(value, e->value, len);
        memset(value + len, 0, cap - len);
        return;
    }
    /* The old entry goes, so that a compaction may use its room. */
    uint32_t slots = bt_get(page, BT_SLOTS) - 1, ghosts = bt_get(page, BT_GHOSTS);
    mark_dropped(page, lladd_get16(p + 4));
    memmove(p, p + BT_SLOT, (size_t)BT_SLOT * (slots - slot));
    memset(bt_slot(page, slots), 0, BT_SLOT);
    bt_set(page, BT_SLOTS, slots);
    bt_set(page, BT_GHOSTS, ghosts - ((e->key_len & BT_GHOST) != 0));
    ll_btree__add(page, size, slot, e);
}

void ll_btree__drop(unsigned char *page, uint32_t from, uint32_t to)
{
    uint32_t slots = bt_get(page, BT_SLOTS), ghosts = bt_get(page, BT_GHOSTS);
    for (uint32_t i = from; i < to; i++) {
        uint32_t at = lladd_get16(bt_slot(page, i) + 4);
        ghosts -= (lladd_get16(page + at) & BT_GHOST) != 0;
        mark_dropped(page, at);
    }
    memmove(bt_slot(page, from), bt_slot(page, to), (size_t)BT_SLOT * (slots - to));
    memset(bt_slot(page, slots - (to - from)), 0, (size_t)BT_SLOT * (to - from));
    bt_set(page, BT_SLOTS, slots - (to - from));
    bt_set(page, BT_GHOSTS, ghosts);
}

void ll_btree__trim(unsigned char *page, uint32_t slot)
{
    unsigned char *e = page + lladd_get16(bt_slot(page, slot) + 4);
    uint32_t key = BT_LEN(lladd_get16(e)), value = BT_LEN(lladd_get16(e + 2));
    uint32_t rest = lladd_get16(e + 4) - value;
    if (rest < BT_ENTRY_HEAD) /* too short for the mark of a dropped entry */
        return;
    unsigned char *gap = e + BT_ENTRY_HEAD + key + value;
    lladd_put16(e + 4, (uint16_t)value);
    lladd_put16(gap, DROPPED);
    lladd_put16(gap + 2, (uint16_t)rest);
}

void ll_btree__set_high(unsigned char *page, uint32_t size, struct bt_key high, bool open_end)
{
    uint32_t end = size - bt_get(page, BT_LOW) - (open_end ? 0 : high.len);
    gather_at(page, size, end);
    if (!open_end)
        memcpy(page + end, high.bytes, high.len);
    bt_set(page, BT_HIGH, open_end ? BT_OPEN_END : high.len);
    struct bt_fences f = bt_fences_of(page, size);
    bt_set(page, BT_PREFIX, ll_btree__prefix(&f));
    set_heads(page, bt_get(page, BT_PREFIX));
}

void ll_btree__clear(unsigned char *page, uint32_t size, const struct bt_fences *f)
{
    memset(page + BT_SLOT_AREA, 0, size - BT_SLOT_AREA);
    lladd_copy(page + size - f->low.len, f->low.bytes, f->low.len);
    if (!f->open_end)
        lladd_copy(page + size - f->low.len - f->high.len, f->high.bytes, f->high.len);
    bt_set(page, BT_SLOTS, 0);
    bt_set(page, BT_GHOSTS, 0);
    bt_set(page, BT_USED, 0);
    bt_set(page, BT_LOW, f->low.len);
    bt_set(page, BT_HIGH, f->open_end ? BT_OPEN_END : f->high.len);
    bt_set(page, BT_PREFIX, ll_btree__prefix(f));
}
