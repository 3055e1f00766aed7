/* SPDX-License-Identifier: BSD-2-Clause */
/* Bucket pages of tables in which all keys have one length, and all values have one length. The
 * slots follow each other without gaps. Each slot is
 *
 *   u16 tag (0: empty), key, value
 *
 * The 15 bits of the hash in an entry's tag select its home slot. The entry is in its home slot or
 * in a later one (with wrap-around), and no slot from the home to the entry is empty. A search
 * therefore ends at the first empty slot. A removed element leaves a ghost, so its slot is not
 * empty. ll_hash__fixed_drop empties slots, and moves later entries nearer to their homes to keep
 * the invariant. Redo needs no hash function: the tags give the homes. */
#include "operations/hash/page.h"

#include <string.h>

static uint32_t slot_size(const unsigned char *page)
{
    return 2 + hb_get(page, HB_KEY) + hb_get(page, HB_VALUE);
}

uint32_t ll_hash__fixed_slots(uint32_t page_size, uint32_t key_size, uint32_t value_size)
{
    uint32_t n = (page_size - HB_ENTRIES) / (2 + key_size + value_size);
    return n < UINT16_MAX ? n : UINT16_MAX - 1;
}

bool ll_hash__fixed_head_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS);
    return slots && HB_ENTRIES + slots * slot_size(v.bytes) <= v.size;
}

bool ll_hash__fixed_fine(struct lladd_view v)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS), size = slot_size(v.bytes), live = 0, ghosts = 0;
    for (uint32_t i = 0; i < slots; i++) {
        uint16_t tag = lladd_get16(v.bytes + HB_ENTRIES + (size_t)i * size);
        if (tag == HB_GHOST)
            return false;
        live += tag && !(tag & HB_GHOST);
        ghosts += tag & HB_GHOST ? 1 : 0;
    }
    return live == hb_get(v.bytes, HB_LIVE) && ghosts == hb_get(v.bytes, HB_GHOSTS);
}

bool ll_hash__fixed_entry(const unsigned char *page, uint32_t slot, struct hb_entry *out)
{
    const unsigned char *p = page + HB_ENTRIES + (size_t)slot * slot_size(page);
    out->tag = lladd_get16(p);
    out->key_len = (uint16_t)hb_get(page, HB_KEY);
    out->value_len = out->cap = (uint16_t)hb_get(page, HB_VALUE);
    out->key = p + 2;
    out->value = p + 2 + out->key_len;
    return out->tag != 0;
}

void ll_hash__fixed_find(const unsigned char *page, const struct hb_key *key, struct hb_place *out)
{
    uint32_t slots = hb_get(page, HB_SLOTS), size = slot_size(page), len = key->len;
    uint32_t i = ll_hash__fixed_home(key->tag, slots);
    const unsigned char *p = page + HB_ENTRIES + (size_t)i * size;
    *out = (struct hb_place){HB_NONE, HB_NONE, HB_NONE};
    for (uint32_t n = slots; n > 0; n--) {
        uint16_t tag = lladd_get16(p);
        if (tag == 0) {
            out->free = i;
            return;
        }
        if ((tag & (HB_GHOST - 1)) == key->tag && ll_hash__same_key(p + 2, key->bytes, len)) {
            out->slot = i;
            return;
        }
        if (tag & HB_GHOST && out->ghost == HB_NONE)
            out->ghost = i;
        p += size;
        if (++i == slots) {
            i = 0;
            p = page + HB_ENTRIES;
        }
    }
}

void ll_hash__fixed_clear(unsigned char *page, uint32_t size)
{
    hb_set(page, HB_SLOTS,
           ll_hash__fixed_slots(size, hb_get(page, HB_KEY), hb_get(page, HB_VALUE)));
}

size_t ll_hash__fixed_packed(const unsigned char *page, const unsigned char *p, size_t n)
{
    size_t size = slot_size(page);
    return n >= size && (lladd_get16(p) & (HB_GHOST - 1)) ? size : 0;
}

static void count(unsigned char *page, uint16_t tag, int by)
{
    unsigned field = tag & HB_GHOST ? HB_GHOSTS : HB_LIVE;
    if (tag)
        hb_set(page, field, hb_get(page, field) + (uint32_t)by);
}

void ll_hash__fixed_store(unsigned char *page, uint32_t slot, const unsigned char *packed)
{
    uint32_t size = slot_size(page);
    unsigned char *p = page + HB_ENTRIES + (size_t)slot * size;
    uint16_t was = lladd_get16(p), is = lladd_get16(packed);
    lladd_copy(p, packed, size);
    if (was)
        count(page, was, -1);
    count(page, is, 1);
}

void ll_hash__fixed_empty(unsigned char *page, uint32_t slot)
{
    uint32_t size = slot_size(page);
    unsigned char *p = page + HB_ENTRIES + (size_t)slot * size;
    count(page, lladd_get16(p), -1);
    memset(p, 0, size);
}

struct lay {
    unsigned char *first;
    uint32_t slots, size;
};

static inline struct lay lay_of(unsigned char *page)
{
    return (struct lay){page + HB_ENTRIES, hb_get(page, HB_SLOTS), slot_size(page)};
}
static inline unsigned char *at(const struct lay *l, uint32_t i)
{
    return l->first + (size_t)i * l->size;
}

/* The first empty slot in [home, end), with wrap-around; `end` if there is none. */
static inline uint32_t empty_from(const struct lay *l, uint32_t home, uint32_t end)
{
    uint32_t i = home;
    while (i != end && lladd_get16(at(l, i)))
        i = i + 1 == l->slots ? 0 : i + 1;
    return i;
}

void ll_hash__fixed_fill(unsigned char *page, const unsigned char *p, size_t n)
{
    struct lay l = lay_of(page);
    uint32_t added[2] = {0, 0}; /* elements, ghosts */
    for (; n >= l.size; n -= l.size, p += l.size) {
        uint16_t tag = lladd_get16(p);
        uint32_t home = ll_hash__fixed_home(tag, l.slots), before = home ? home - 1 : l.slots - 1;
        uint32_t i = empty_from(&l, home, before);
        if (lladd_get16(at(&l, i)))
            break;
        lladd_copy(at(&l, i), p, l.size);
        added[tag >> 15]++;
    }
    hb_set(page, HB_LIVE, hb_get(page, HB_LIVE) + added[0]);
    hb_set(page, HB_GHOSTS, hb_get(page, HB_GHOSTS) + added[1]);
}

/* Avoids a call of memset for a dozen bytes, which would be slow. */
static inline void wipe(unsigned char *p, uint32_t size)
{
    static const unsigned char zeros[32];
    if (size <= sizeof zeros)
        lladd_copy(p, zeros, size);
    else
        memset(p, 0, size);
}

/* One bit for each slot of a page. The largest page with the shortest entries has the most. */
enum { PAGE_MOST = 65536, SLOT_LEAST = 4, WORDS = PAGE_MOST / SLOT_LEAST / 64 };

static inline void set_bit(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}
static inline void clear_bit(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* The first bit in [from, end) that is set in bits XOR flip; `end` if there is none. */
static inline uint32_t first_bit(const uint64_t *bits, uint64_t flip, uint32_t from, uint32_t end)
{
    for (uint32_t w = from / 64; from < end; from = ++w * 64) {
        uint64_t word = (bits[w] ^ flip) >> from % 64;
        if (word) {
            uint32_t i = from + (uint32_t)__builtin_ctzll(word);
            return i < end ? i : end;
        }
    }
    return end;
}

/* The first empty slot from `home` on, with wrap-around, before `i`; i if there is none. */
static inline uint32_t empty_before(const uint64_t *taken, uint32_t home, uint32_t i,
                                    uint32_t slots)
{
    if (home <= i)
        return first_bit(taken, UINT64_MAX, home, i);
    uint32_t to = first_bit(taken, UINT64_MAX, home, slots);
    return to < slots ? to : first_bit(taken, UINT64_MAX, 0, i);
}

struct order {
    uint64_t taken[WORDS]; /* slots with an entry */
    uint64_t away[WORDS];  /* slots with an entry that is not in its home */
};

/* Moves each entry of [from, end) to the first empty slot between its home and the entry, if there
 * is one. Returns whether any entry has moved. */
static bool move_up(const struct lay *l, struct order *o, uint32_t from, uint32_t end)
{
    bool moved = false;
    for (uint32_t i = first_bit(o->away, 0, from, end); i < end;
         i = first_bit(o->away, 0, i + 1, end)) {
        unsigned char *p = at(l, i);
        uint32_t home = ll_hash__fixed_home(lladd_get16(p), l->slots);
        uint32_t to = empty_before(o->taken, home, i, l->slots);
        if (to == i)
            continue;
        lladd_copy(at(l, to), p, l->size);
        wipe(p, l->size);
        clear_bit(o->taken, i);
        clear_bit(o->away, i);
        set_bit(o->taken, to);
        if (to != home)
            set_bit(o->away, to);
        moved = true;
    }
    return moved;
}

/* The states of up to 64 slots from the i-th on. Computed without branches on the contents, which
 * the processor would mispredict. */
struct word {
    uint64_t taken, empty, ghosts, away, drop;
};

static inline struct word word_of(const struct lay *l, uint32_t i, const unsigned char *drop)
{
    struct word w = {.taken = 0};
    uint32_t n = l->slots - i < 64 ? l->slots - i : 64;
    const unsigned char *p = at(l, i + n);
    for (uint32_t k = i + n; k-- > i;) { /* backwards: the bit of the first slot is the lowest */
        p -= l->size;
        uint16_t tag = lladd_get16(p);
        w.taken = 2 * w.taken + (tag != 0);
        w.ghosts = 2 * w.ghosts + (tag >> 15);
        w.away = 2 * w.away + (ll_hash__fixed_home(tag, l->slots) != k);
    }
    w.empty = ~w.taken & UINT64_MAX >> (64 - n);
    w.drop = n > 56 ? lladd_get64(drop + i / 8) : lladd_get_few(drop + i / 8, (n + 7) / 8);
    w.drop &= w.taken;
    return w;
}

void ll_hash__fixed_drop(unsigned char *page, const unsigned char *drop)
{
    struct lay l = lay_of(page);
    struct order o;
    uint32_t gone = 0, ghosts = 0, first = HB_NONE, empty = HB_NONE;
    for (uint32_t i = 0; i < l.slots; i += 64) {
        struct word w = word_of(&l, i, drop);
        for (uint64_t d = w.drop; d; d &= d - 1)
            wipe(at(&l, i + (uint32_t)__builtin_ctzll(d)), l.size);
        gone += (uint32_t)__builtin_popcountll(w.drop);
        ghosts += (uint32_t)__builtin_popcountll(w.drop & w.ghosts);
        first = w.drop ? i + 63 - (uint32_t)__builtin_clzll(w.drop) : first;
        empty = w.empty ? i + 63 - (uint32_t)__builtin_clzll(w.empty) : empty;
        o.taken[i / 64] = w.taken & ~w.drop;
        o.away[i / 64] = w.away & w.taken & ~w.drop;
    }
    if (first == HB_NONE)
        return;
    hb_set(page, HB_LIVE, hb_get(page, HB_LIVE) - (gone - ghosts));
    hb_set(page, HB_GHOSTS, hb_get(page, HB_GHOSTS) - ghosts);
    /* Entries do not cross a slot that was empty before, so one round that begins at such a slot
     * restores the invariant. Without such a slot, entries may have to move again. */
    uint32_t from = empty != HB_NONE ? empty : first;
    bool moved;
    do {
        moved = move_up(&l, &o, from, l.slots);
        moved = move_up(&l, &o, 0, from) || moved;
    } while (moved && empty == HB_NONE);
}
