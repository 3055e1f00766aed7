/* SPDX-License-Identifier: BSD-2-Clause */
/* Bucket pages: page type "lladd.hash.bucket".
 *
 *   32 u48 the table's root page
 *   38 u8  level
 *   39 u8  flags (1: overflow page, 2: closed)
 *   40 u48 bucket
 *   46 u16 length of every key, 0: any
 *   48 u48 next page of the chain, 0: none
 *   54 u16 length of every value, 0: any
 *   56 u16 slots
 *   58 u16 slots with an element
 *   60 u16 slots with a ghost
 *   62 u16 end of the entries (var.c)
 *   64     entries: fixed.c, var.c
 *
 * A page of level n and bucket b holds the keys with a hash equal to b modulo 2^n. Level and
 * bucket are on the page, so a thread with an outdated number of buckets sees that it has the
 * wrong page.
 *
 * A bucket has at most one entry for a key: an element, or a ghost, which keeps the bytes of a
 * removed element. Only a split, a merge, a rebuild or a clearing moves an entry to another
 * slot. The thread then holds the page exclusively, and keeps all entries that undo may need.
 *
 *   put      redo u16 slot, entry            undo (logical) u64 root, u8 flags, u16 key length,
 *                                            key, old value (of a new key: none)
 *   remove   redo u16 slot, u8 1             undo (logical) u64 root, u8 flags, key
 *   mark     redo u16 slot, u8 is a ghost    no undo: compensates remove, and put of a new key
 *   restore  redo u16 slot, entry            no undo: compensates put of a key with an old value
 *   format   redo head, entries              no undo
 *   narrow   redo u8 level, u8 how, bitmaps  no undo: entries go (split, merge, clearing)
 *   widen    redo u8 level, entries          no undo: entries come (split, merge)
 *   slot     redo u16 slot, entry or u16 0   undo (page) the same: for a table of one transaction
 *   bytes    redo runs of bytes              undo (page) the same: bytes.c
 *
 * hash.c says why mark and restore need no undo; split.c says why format, narrow and widen need
 * none. */
#include "operations/hash/table.h"

#include <lladd/log_read.h>
#include <string.h>

/* The longest entry in a record, and the longest redo bytes of `narrow`. */
#define ENTRY_BYTES (HB_VAR_HEAD + 2 * LL_HASH_INLINE_MAX)
#define NARROW_BYTES (2u + 2u * (HB_PAGE_MAX / 4 / 8))

enum { NARROW_TRIMS = 1, NARROW_CLOSES = 2 };

/* ---- pages ----------------------------------------------------------------------------------- */

bool ll_hash__head_fine(struct lladd_view v)
{
    const unsigned char *p = v.bytes;
    if (p[HB_LEVEL] > HB_LEVEL_MAX || lladd_get48(p + HB_BUCKET) >> p[HB_LEVEL] ||
        p[HB_FLAGS] & ~(HB_OVERFLOW | HB_CLOSED) || hb_get(p, HB_KEY) > LL_HASH_INLINE_MAX ||
        hb_get(p, HB_VALUE) > LL_HASH_INLINE_MAX)
        return false;
    return hb_is_fixed(p) ? ll_hash__fixed_head_fine(v) : ll_hash__var_head_fine(v);
}

bool ll_hash__fine(struct lladd_view v)
{
    return ll_hash__head_fine(v) &&
           (hb_is_fixed(v.bytes) ? ll_hash__fixed_fine(v) : ll_hash__var_fine(v));
}

size_t ll_hash__pack_size(bool fixed, const struct hb_entry *e)
{
    return (fixed ? 2u : HB_VAR_HEAD) + HB_LEN(e->key_len) + HB_LEN(e->value_len);
}

void ll_hash__pack(unsigned char *to, bool fixed, const struct hb_entry *e)
{
    lladd_put16(to, e->tag);
    if (!fixed) {
        lladd_put16(to + 2, e->key_len);
        lladd_put16(to + 4, e->value_len);
        lladd_put16(to + 6, e->cap);
    }
    to += fixed ? 2 : HB_VAR_HEAD;
    lladd_copy(to, e->key, HB_LEN(e->key_len));
    lladd_copy(to + HB_LEN(e->key_len), e->value, HB_LEN(e->value_len));
}

static size_t packed(const unsigned char *page, const unsigned char *p, size_t n)
{
    return hb_is_fixed(page) ? ll_hash__fixed_packed(page, p, n) : ll_hash__var_packed(p, n);
}

/* Bytes that a packed entry takes on a page of the variable layout. */
static uint32_t var_need(const unsigned char *p)
{
    return HB_VAR_HEAD + HB_LEN(lladd_get16(p + 2)) + lladd_get16(p + 6);
}

/* Bytes that are free once the page is compacted. */
static uint32_t var_room(struct lladd_view v)
{
    uint32_t taken = ll_hash__var_use(v.bytes, v.size).taken, of = ll_hash__var_bytes(v.size);
    return taken < of ? of - taken : 0;
}

/* Is this packed entry valid, and may it be stored in that slot? The caller has checked the
 * page. */
static bool store_fits(struct lladd_view v, uint32_t slot, const unsigned char *p, size_t n)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS);
    if (packed(v.bytes, p, n) != n || n == 0)
        return false;
    if (hb_is_fixed(v.bytes))
        return slot < slots;
    struct hb_entry e;
    uint32_t room = var_room(v), need = var_need(p);
    if (slot == slots && slots < UINT16_MAX - 1)
        return room >= need + HB_VAR_DIR;
    if (slot >= slots)
        return false;
    if (ll_hash__var_entry(v.bytes, v.size, slot, &e))
        room += HB_VAR_HEAD + HB_LEN(e.key_len) + e.cap;
    return room >= need;
}

static void store(unsigned char *page, uint32_t size, uint32_t slot, const unsigned char *p)
{
    if (hb_is_fixed(page))
        ll_hash__fixed_store(page, slot, p);
    else
        ll_hash__var_store(page, size, slot, p);
}

/* Are these packed entries valid, and do they fit on the page besides those present? */
static bool fill_fits(struct lladd_view v, const unsigned char *p, size_t n)
{
    uint32_t slots = hb_get(v.bytes, HB_SLOTS);
    uint32_t used = hb_get(v.bytes, HB_LIVE) + hb_get(v.bytes, HB_GHOSTS);
    bool fixed = hb_is_fixed(v.bytes);
    uint64_t room = fixed ? slots - used : var_room(v), need = 0;
    while (n > 0) {
        size_t len = packed(v.bytes, p, n);
        if (len == 0)
            return false;
        need += fixed ? 1 : var_need(p) + HB_VAR_DIR;
        p += len;
        n -= len;
    }
    return need <= room;
}

static void fill(struct lladd_page *page, const unsigned char *p, size_t n)
{
    if (hb_is_fixed(page->bytes)) {
        ll_hash__fixed_fill(page->bytes, p, n);
        return;
    }
    while (n > 0) {
        struct hb_place place;
        struct hb_key nothing = {.len = 0};
        size_t len = ll_hash__var_packed(p, n);
        ll_hash__var_find(page->bytes, page->size, &nothing, &place);
        ll_hash__var_store(page->bytes, page->size, place.free, p);
        p += len;
        n -= len;
    }
}

/* ---- format, narrow, widen ------------------------------------------------------------------- */

static bool format_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (kind != LLADD_SPAN_REDO || s.len < HB_HEAD_BYTES)
        return false;
    /* The page: this head, then zeros. */
    unsigned char head[HB_ENTRIES] = {0};
    memcpy(head + HB_ROOT, p, HB_HEAD_BYTES);
    bool fixed = hb_is_fixed(head);
    uint32_t key = hb_get(head, HB_KEY), value = hb_get(head, HB_VALUE);
    if (head[HB_LEVEL] > HB_LEVEL_MAX || lladd_get48(head + HB_BUCKET) >> head[HB_LEVEL] ||
        head[HB_FLAGS] & ~(HB_OVERFLOW | HB_CLOSED) || key > LL_HASH_INLINE_MAX ||
        value > LL_HASH_INLINE_MAX)
        return false;
    uint64_t room = fixed ? ll_hash__fixed_slots(v.size, key, value) : ll_hash__var_bytes(v.size);
    p += HB_HEAD_BYTES;
    for (size_t n = s.len - HB_HEAD_BYTES; n > 0;) {
        size_t len = packed(head, p, n);
        uint64_t need = len == 0 ? UINT64_MAX : fixed ? 1 : var_need(p) + HB_VAR_DIR;
        if (need > room)
            return false;
        room -= need;
        p += len;
        n -= len;
    }
    return room > 0 || s.len > HB_HEAD_BYTES;
}

static int format_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    (void)v;
    const struct hb_fill *f = args.data;
    if (args.len != sizeof *f)
        return lladd_error_set(draft->error, LLADD_BAD_ARGUMENT,
                               "a bucket can be formatted only by its table");
    unsigned char *redo = lladd_draft_redo(draft, HB_HEAD_BYTES + f->len);
    if (!redo)
        return lladd_error_set(draft->error, LLADD_TOO_LARGE, "%zu bytes of a bucket", f->len);
    memcpy(redo, f->head, HB_HEAD_BYTES);
    if (f->len)
        memcpy(redo + HB_HEAD_BYTES, f->packed, f->len);
    return 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data; /* the page is zeros: lladd_op.formats */
    memcpy(page->bytes + HB_ROOT, p, HB_HEAD_BYTES);
    if (hb_is_fixed(page->bytes))
        ll_hash__fixed_clear(page->bytes, page->size);
    else
        ll_hash__var_clear(page->bytes, page->size);
    fill(page, p + HB_HEAD_BYTES, redo.len - HB_HEAD_BYTES);
}

static bool widen_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    /* Without added entries, only the header is checked. */
    bool fine = s.len == 1 ? ll_hash__head_fine(v) : s.len > 1 && ll_hash__fine(v);
    return fine && kind == LLADD_SPAN_REDO && p[0] <= HB_LEVEL_MAX &&
           !(lladd_get48(v.bytes + HB_BUCKET) >> p[0]) && fill_fits(v, p + 1, s.len - 1);
}

static int widen_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    const struct hb_fill *f = args.data;
    unsigned char *redo = lladd_draft_redo(draft, 1 + f->len);
    if (redo) {
        redo[0] = (unsigned char)f->level;
        if (f->len)
            memcpy(redo + 1, f->packed, f->len);
    }
    return redo && widen_validate(v, LLADD_SPAN_REDO, lladd_span_of(redo, 1 + f->len))
               ? 0
               : lladd_error_set(draft->error, LLADD_PAGE_FULL, "the bucket has no room");
}

static void widen_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    page->bytes[HB_LEVEL] = p[0];
    page->bytes[HB_FLAGS] &= (unsigned char)~HB_CLOSED;
    fill(page, p + 1, redo.len - 1);
}

static bool narrow_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (kind != LLADD_SPAN_REDO || s.len < 2 || !ll_hash__fine(v) || p[0] > HB_LEVEL_MAX ||
        p[1] & ~(NARROW_TRIMS | NARROW_CLOSES) || lladd_get48(v.bytes + HB_BUCKET) >> p[0])
        return false;
    size_t map = (hb_get(v.bytes, HB_SLOTS) + 7) / 8;
    bool trims = p[1] & NARROW_TRIMS;
    return s.len == 2 + map * (trims ? 2 : 1) && !(trims && hb_is_fixed(v.bytes));
}

static int narrow_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    const struct hb_narrow *n = args.data;
    size_t map = (hb_get(v.bytes, HB_SLOTS) + 7) / 8;
    unsigned char *redo = lladd_draft_redo(draft, 2 + map * (n->trim ? 2 : 1));
    if (!redo)
        return lladd_error_set(draft->error, LLADD_CORRUPT_PAGE, "a bucket of %u slots",
                               hb_get(v.bytes, HB_SLOTS));
    redo[0] = (unsigned char)n->level;
    redo[1] = (unsigned char)((n->trim ? NARROW_TRIMS : 0) | (n->close ? NARROW_CLOSES : 0));
    memcpy(redo + 2, n->drop, map);
    if (n->trim)
        memcpy(redo + 2 + map, n->trim, map);
    return 0;
}

static void narrow_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    size_t map = (hb_get(page->bytes, HB_SLOTS) + 7) / 8;
    page->bytes[HB_LEVEL] = p[0];
    if (p[1] & NARROW_CLOSES)
        page->bytes[HB_FLAGS] |= HB_CLOSED;
    if (hb_is_fixed(page->bytes))
        ll_hash__fixed_drop(page->bytes, p + 2);
    else
        ll_hash__var_drop(page->bytes, page->size, p + 2, p[1] & NARROW_TRIMS ? p + 2 + map : NULL);
}

/* ---- one entry ------------------------------------------------------------------------------- */

static bool store_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    return kind == LLADD_SPAN_REDO && s.len > 2 && ll_hash__fine(v) &&
           store_fits(v, lladd_get16(p), p + 2, s.len - 2);
}

static void store_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    store(page->bytes, page->size, lladd_get16(p), p + 2);
}

static bool mark_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    struct hb_entry e;
    return kind == LLADD_SPAN_REDO && s.len == 3 && p[2] <= 1 && ll_hash__fine(v) &&
           lladd_get16(p) < hb_get(v.bytes, HB_SLOTS) && ll_hash__entry(v, lladd_get16(p), &e);
}

static void mark_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    unsigned char *bytes = page->bytes, *at;
    uint32_t slot = lladd_get16(p);
    if (hb_is_fixed(bytes))
        at = bytes + HB_ENTRIES +
             (size_t)slot * (2 + hb_get(bytes, HB_KEY) + hb_get(bytes, HB_VALUE));
    else
        at = bytes + page->size - (size_t)HB_VAR_DIR * (slot + 1);
    uint16_t tag = lladd_get16(at);
    if (!!(tag & HB_GHOST) == p[2])
        return;
    lladd_put16(at, tag ^ HB_GHOST);
    hb_set(bytes, HB_LIVE, hb_get(bytes, HB_LIVE) + (p[2] ? -1u : 1u));
    hb_set(bytes, HB_GHOSTS, hb_get(bytes, HB_GHOSTS) + (p[2] ? 1u : -1u));
}

/* Writes root and flags, with which the undo bytes of put and remove begin. */
static unsigned char *put_undo(const struct hb_change *c, struct lladd_draft *d, unsigned flags,
                               size_t more)
{
    unsigned char *undo = lladd_draft_undo(d, HB_UNDO_HEAD + more);
    if (undo) {
        lladd_put64(undo, c->table->root.v);
        undo[8] = (unsigned char)(flags | (c->key.len & HB_BLOB ? HB_FLAG_KEY : 0));
    }
    return undo ? undo + HB_UNDO_HEAD : NULL;
}

static int answer(struct hb_change *c, struct lladd_draft *d, enum hb_answer a)
{
    c->answer = a;
    d->error->code = LLADD_BUSY; /* the caller acts on the answer; no message is needed */
    return LLADD_BUSY;
}

static int too_long(struct lladd_draft *d)
{
    return lladd_error_set(d->error, LLADD_BUG, "an entry is longer than its operation's record");
}

static inline void fullness(struct hb_change *c, struct lladd_view v)
{
    if (hb_is_fixed(v.bytes)) {
        c->full = hb_get(v.bytes, HB_LIVE);
        c->of = hb_get(v.bytes, HB_SLOTS);
        c->empty = c->of - c->full - hb_get(v.bytes, HB_GHOSTS);
        return;
    }
    struct hb_use use = ll_hash__var_use(v.bytes, v.size);
    c->of = ll_hash__var_bytes(v.size);
    c->full = use.live;
    c->empty = use.taken < c->of ? c->of - use.taken : 0;
}

/* The amount that an entry adds to `full`. */
static inline uint32_t share_of(struct lladd_view v, const struct hb_entry *e)
{
    return hb_is_fixed(v.bytes)
               ? 1
               : HB_VAR_HEAD + HB_VAR_DIR + HB_LEN(e->key_len) + HB_LEN(e->value_len);
}

/* Checks that this is the right page, and finds the key's place. HB_DONE: *place is set. */
static inline enum hb_answer look(struct hb_change *c, struct lladd_view v, struct hb_place *place)
{
    const struct ll_hash_table *t = c->table;
    c->answer = HB_DONE;
    c->gone_key = c->gone_value = lladd_page_of(0);
    if (!c->chain && !ll_hash__is_bucket(t, v, c->hash))
        return HB_MOVED; /* If the chain is latched, the caller has checked the page. */
    fullness(c, v);
    if (lladd_get48(v.bytes + HB_NEXT) && !c->chain)
        return HB_CHAINED;
    ll_hash__find(v, &c->key, place);
    return HB_DONE;
}

/* Copies a value out for lladd_hash_insert_if_absent. */
static void copy_old(struct hb_change *c, const struct hb_entry *e)
{
    c->old_len = HB_LEN(e->value_len);
    c->old_blob = (e->value_len & HB_BLOB) != 0;
    if (c->old && !c->old_blob)
        memcpy(c->old, e->value, c->old_len < c->old_size ? c->old_len : c->old_size);
}

static void note_blobs(struct hb_change *c, const struct hb_entry *e, bool key)
{
    if (key && e->key_len & HB_BLOB)
        c->gone_key = lladd_page_of(lladd_get64(e->key + HB_KEY_REF - 8));
    if (e->value_len & HB_BLOB)
        c->gone_value = lladd_page_of(lladd_get64(e->value + HB_VALUE_REF - 8));
}

static int draft_entry(struct hb_change *c, struct lladd_view v, struct lladd_draft *d,
                       struct hb_entry *e)
{
    bool fixed = c->table->fixed; /* the caller has checked that the page has the same layout */
    unsigned char *redo = lladd_draft_redo(d, 2 + ll_hash__pack_size(fixed, e));
    if (!redo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)c->slot);
    ll_hash__pack(redo + 2, fixed, e);
    /* In the fixed layout all entries have one length, so the slot is enough. */
    if (!fixed && (!ll_hash__var_fine(v) || !store_fits(v, c->slot, redo + 2, d->redo_len - 2)))
        return answer(c, d, HB_FULL);
    return 0;
}

/* The slot for the key's entry: its own, or that of a ghost that no undo needs, or an empty one. */
static uint32_t slot_for(const struct hb_change *c, struct lladd_view v, const struct hb_place *p)
{
    if (p->slot != HB_NONE)
        return p->slot;
    return p->ghost != HB_NONE && ll_hash__may_reuse(c->table, v, p->ghost) ? p->ghost : p->free;
}

static int draft_put_undo(struct hb_change *c, struct lladd_draft *d, unsigned flags,
                          struct lladd_span key, struct lladd_span value)
{
    unsigned char *undo = put_undo(c, d, flags, 2 + key.len + value.len);
    if (!undo)
        return too_long(d);
    lladd_put16(undo, (uint16_t)key.len);
    lladd_copy(undo + 2, key.data, key.len);
    lladd_copy(undo + 2 + key.len, value.data, value.len);
    return 0;
}

static __attribute__((noinline)) int put_closely(struct hb_change *c, struct lladd_view v,
                                                 struct lladd_draft *d)
{
    struct hb_place place;
    struct hb_entry old = {.tag = 0};
    enum hb_answer a = look(c, v, &place);
    if (a != HB_DONE)
        return answer(c, d, a);
    bool there = place.slot != HB_NONE && ll_hash__entry(v, place.slot, &old);
    bool ghost = there && old.tag & HB_GHOST, element = there && !ghost;
    if (element && c->only) {
        copy_old(c, &old);
        return answer(c, d, HB_PRESENT);
    }
    if (ghost && !c->revive && ll_hash__held(c->table, c->hash))
        return answer(c, d, HB_REVIVE);
    c->slot = slot_for(c, v, &place);
    if (c->slot == HB_NONE)
        return answer(c, d, HB_FULL);
    if (!element && c->key.len & HB_BLOB && !lladd_get64(c->key.ref + HB_KEY_REF_SAME))
        return answer(c, d, HB_KEYLESS);
    /* The blob of a ghost's key was destroyed with the element. */
    struct hb_entry fresh = {element ? old.key : c->key.bytes,
                             c->value,
                             c->key.tag,
                             c->key.len,
                             c->value_len,
                             HB_LEN(c->value_len)};
    if (element)
        note_blobs(c, &old, false);
    c->full += share_of(v, &fresh) - (element ? share_of(v, &old) : 0);
    c->inserted = !element;
    TRY(draft_entry(c, v, d, &fresh));
    if (!element && !(ghost && c->revive)) /* undo need not restore a ghost without a reservation */
        return draft_put_undo(c, d, HB_FLAG_NOTHING,
                              lladd_span_of(c->key.bytes, HB_LEN(c->key.len)),
                              lladd_span_of(NULL, 0));
    unsigned flags = (ghost ? HB_FLAG_GHOST : 0u) | (old.value_len & HB_BLOB ? HB_FLAG_VALUE : 0u);
    return draft_put_undo(c, d, flags, lladd_span_of(old.key, HB_LEN(old.key_len)),
                          lladd_span_of(old.value, HB_LEN(old.value_len)));
}

static int put_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                       struct lladd_draft *d)
{
    (void)ctx;
    struct hb_change *c = *(struct hb_change *const *)args.data;
    return __builtin_expect(ll_hash__insert_usual(c, v, d), 1) ? 0 : put_closely(c, v, d);
}

static int remove_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *d)
{
    (void)ctx;
    struct hb_change *c = *(struct hb_change *const *)args.data;
    struct hb_place place;
    struct hb_entry e;
    enum hb_answer a = look(c, v, &place);
    if (a == HB_DONE &&
        (place.slot == HB_NONE || !ll_hash__entry(v, place.slot, &e) || e.tag & HB_GHOST))
        a = HB_ABSENT;
    if (a != HB_DONE)
        return answer(c, d, a);
    c->slot = place.slot;
    c->full -= share_of(v, &e);
    note_blobs(c, &e, true);
    unsigned char *redo = lladd_draft_redo(d, 3);
    unsigned char *undo = put_undo(c, d, 0, HB_LEN(e.key_len));
    if (!undo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)c->slot);
    redo[2] = 1;
    lladd_copy(undo, e.key, HB_LEN(e.key_len));
    return 0;
}

static int mark_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    const struct hb_mark *m = args.data;
    unsigned char *redo = lladd_draft_redo(d, 3);
    lladd_put16(redo, (uint16_t)m->slot);
    redo[2] = m->ghost;
    return 0;
}

static int restore_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                           struct lladd_draft *d)
{
    (void)ctx;
    const struct hb_restore *r = args.data;
    bool fixed = hb_is_fixed(v.bytes);
    unsigned char *redo = lladd_draft_redo(d, 2 + ll_hash__pack_size(fixed, &r->entry));
    if (!redo)
        return too_long(d);
    lladd_put16(redo, (uint16_t)r->slot);
    ll_hash__pack(redo + 2, fixed, &r->entry);
    /* For the fixed layout, store_fits reads nothing but the head. */
    bool fine = fixed ? ll_hash__head_fine(v) : ll_hash__fine(v);
    return fine && store_fits(v, r->slot, redo + 2, d->redo_len - 2)
               ? 0
               : lladd_error_set(d->error, LLADD_CORRUPT_PAGE,
                                 "page %llu has no room for the element that undo restores",
                                 (unsigned long long)v.number.v);
}

/* ---- one slot, before and after -------------------------------------------------------------- */

/* Drafts put or remove (c->op) for a page of the fixed layout, with the slot's old contents as
 * undo. */
static int slot_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    const struct hb_change *c = *(struct hb_change *const *)args.data;
    struct hb_entry old;
    TRY(c->op->prepare(NULL, v, args, d));
    uint32_t slot = c->slot;
    bool was = ll_hash__fixed_entry(v.bytes, slot, &old);
    size_t size = 2 + ll_hash__pack_size(true, &old);
    if (c->op == &ll_hash__remove) {
        struct hb_entry ghost = old;
        ghost.tag |= HB_GHOST;
        unsigned char *redo = lladd_draft_redo(d, size);
        lladd_put16(redo, (uint16_t)slot);
        ll_hash__pack(redo + 2, true, &ghost);
    }
    unsigned char *undo = lladd_draft_undo(d, was ? size : 4);
    if (!undo)
        return too_long(d);
    lladd_put16(undo, (uint16_t)slot);
    if (was)
        ll_hash__pack(undo + 2, true, &old);
    else
        lladd_put16(undo + 2, 0);
    return 0;
}

static bool slot_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    if (s.len < 4 || !ll_hash__fine(v) || !hb_is_fixed(v.bytes) ||
        lladd_get16(p) >= hb_get(v.bytes, HB_SLOTS))
        return false;
    return lladd_get16(p + 2) == 0 ? s.len == 4 : packed(v.bytes, p + 2, s.len - 2) == s.len - 2;
}

static void slot_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    if (lladd_get16(p + 2) == 0)
        ll_hash__fixed_empty(page->bytes, lladd_get16(p));
    else
        ll_hash__fixed_store(page->bytes, lladd_get16(p), p + 2);
}

/* ---- compensation ---------------------------------------------------------------------------- */

/* Parses undo bytes; false: they are invalid. */
static bool parse_undo(struct lladd_span s, enum hb_undo_what what, lladd_pageno *root,
                       struct hb_undo *out)
{
    const unsigned char *p = s.data;
    bool put = what == HB_UNDO_PUT;
    size_t head = put ? HB_PUT_UNDO_HEAD : HB_UNDO_HEAD;
    if (s.len < head || p[8] >= 2 * (put ? HB_FLAG_NOTHING : HB_FLAG_GHOST))
        return false;
    unsigned flags = p[8];
    size_t n = s.len - head, key = put ? lladd_get16(p + HB_UNDO_HEAD) : n;
    if (key > n || key > LL_HASH_INLINE_MAX || n - key > LL_HASH_INLINE_MAX ||
        (flags & HB_FLAG_NOTHING && key != n))
        return false;
    *root = lladd_page_of(lladd_get64(p));
    *out = (struct hb_undo){
        .what = flags & HB_FLAG_NOTHING ? HB_UNDO_INSERT : what,
        .key = p + head,
        .value = p + head + key,
        .key_len = (uint16_t)(key | (flags & HB_FLAG_KEY ? HB_BLOB : 0)),
        .value_len = (uint16_t)((n - key) | (flags & HB_FLAG_VALUE ? HB_BLOB : 0)),
        .ghost = (flags & HB_FLAG_GHOST) != 0};
    return (!(out->key_len & HB_BLOB) || key == HB_KEY_REF) &&
           (!(out->value_len & HB_BLOB) || n - key == HB_VALUE_REF);
}

static bool undo_fine(struct lladd_span s, enum hb_undo_what what)
{
    lladd_pageno root;
    struct hb_undo u;
    return parse_undo(s, what, &root, &u);
}
static bool put_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO ? store_validate(v, kind, s) : undo_fine(s, HB_UNDO_PUT);
}
static bool insert_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO ? store_validate(v, kind, s) : undo_fine(s, HB_UNDO_INSERT);
}
static bool remove_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO ? mark_validate(v, kind, s) : undo_fine(s, HB_UNDO_REMOVE);
}

static int undo_change(struct lladd_txn *txn, struct lladd_span s, enum hb_undo_what what)
{
    lladd_pageno root;
    struct hb_undo u;
    return parse_undo(s, what, &root, &u)
               ? ll_hash__undo(txn, root, &u)
               : lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_RECORD,
                                 "hash table: invalid undo record: expected a key and a value");
}
static int put_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return undo_change(txn, undo, HB_UNDO_PUT);
}
static int insert_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return undo_change(txn, undo, HB_UNDO_INSERT);
}
static int remove_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return undo_change(txn, undo, HB_UNDO_REMOVE);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field format_fields[] = {{"head", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field store_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"entry", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field mark_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"ghost", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field key_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                {"flags", LLADD_FIELD_U8},
                                                {"key", LLADD_FIELD_REST},
                                                {NULL, LLADD_FIELD_END}};
static const struct lladd_field value_fields[] = {{"root", LLADD_FIELD_PAGE},
                                                  {"flags", LLADD_FIELD_U8},
                                                  {"key", LLADD_FIELD_BYTES16},
                                                  {"value", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field narrow_fields[] = {{"level", LLADD_FIELD_U8},
                                                   {"how", LLADD_FIELD_U8},
                                                   {"slots", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field widen_fields[] = {
    {"level", LLADD_FIELD_U8}, {"entries", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};

#define BUCKET_OP(op_name, most, ...) \
    { \
        .struct_size = sizeof(struct lladd_op), .name = op_name, .version = 1, \
        .page_type = "lladd.hash.bucket", .record_max = (most), __VA_ARGS__ \
    }
#define FORMAT_OP(op_name, how) \
    BUCKET_OP(op_name, HB_PAGE_MAX, .record_pages = 1, .credit_max = 3, .formats = true, \
              .redo_fields = format_fields, \
              .undo_kind = LLADD_UNDO_NONE, .prepare = (how), \
              .validate = format_validate, .redo = format_redo)
#define WIDEN_OP(op_name, how) \
    BUCKET_OP(op_name, HB_PAGE_MAX, .record_pages = 1, .redo_fields = widen_fields, \
              .undo_kind = LLADD_UNDO_NONE, \
              .prepare = (how), .validate = widen_validate, .redo = widen_redo)
#define NARROW_OP(op_name, how) \
    BUCKET_OP(op_name, NARROW_BYTES, .record_pages = 1, .redo_fields = narrow_fields, \
              .undo_kind = LLADD_UNDO_NONE, .prepare = (how), \
              .validate = narrow_validate, .redo = narrow_redo)
/* A compensation logs at most one record. The longest is that of `restore`. It is no longer than
 * the undo bytes of `put`: slot and entry head take no more bytes than HB_PUT_UNDO_HEAD. */
_Static_assert(2 + HB_VAR_HEAD <= HB_PUT_UNDO_HEAD, "undo bytes are as long as what restores them");
#define UNDO_LOG(bytes) (128 + (bytes))
/* A search of a chain latches up to three pages: the head, the page just searched, the next one. */
#define PUT_OP(op_name, how) \
    BUCKET_OP(op_name, 2 + ENTRY_BYTES + HB_PUT_UNDO_HEAD + 2 * LL_HASH_INLINE_MAX, \
              .redo_fields = store_fields, .undo_fields = value_fields, \
              .undo_kind = LLADD_UNDO_LOGICAL, .prepare = (how), .validate = put_validate, \
              .redo = store_redo, .compensate = put_compensate, \
              .undo_log_max = UNDO_LOG(2 + ENTRY_BYTES), .undo_log_base = UNDO_LOG(0), \
              .undo_pages_max = 3)
#define RESTORE_OP(op_name, how) \
    BUCKET_OP(op_name, 2 + ENTRY_BYTES, .redo_fields = store_fields, .undo_kind = LLADD_UNDO_NONE, \
              .prepare = (how), .validate = store_validate, .redo = store_redo)

const struct lladd_op ll_hash__bucket_format =
    FORMAT_OP("lladd.hash.bucket.format", format_prepare);
const struct lladd_op ll_hash__widen = WIDEN_OP("lladd.hash.widen", widen_prepare);
const struct lladd_op ll_hash__narrow = NARROW_OP("lladd.hash.narrow", narrow_prepare);
const struct lladd_op ll_hash__put = PUT_OP("lladd.hash.put", put_prepare);
const struct lladd_op ll_hash__restore = RESTORE_OP("lladd.hash.restore", restore_prepare);

const struct lladd_op ll_hash__remove =
    BUCKET_OP("lladd.hash.remove", 3 + HB_UNDO_HEAD + LL_HASH_INLINE_MAX,
              .redo_fields = mark_fields, .undo_fields = key_fields,
              .undo_kind = LLADD_UNDO_LOGICAL, .prepare = remove_prepare,
              .validate = remove_validate, .redo = mark_redo, .compensate = remove_compensate,
              .undo_log_max = UNDO_LOG(3), .undo_pages_max = 3);

const struct lladd_op ll_hash__slot = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.hash.slot",
    .version = 1,
    .page_type = "lladd.hash.bucket",
    .redo_fields = store_fields,
    .undo_fields = store_fields,
    .record_max = 2 * (2 + ENTRY_BYTES),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = slot_prepare,
    .validate = slot_validate,
    .redo = slot_apply,
    .undo = slot_apply,
};

const struct lladd_op ll_hash__mark = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.hash.mark",
    .version = 1,
    .page_type = "lladd.hash.bucket",
    .redo_fields = mark_fields,
    .record_max = 3,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = mark_prepare,
    .validate = mark_validate,
    .redo = mark_redo,
};

/* Operations of earlier versions, which recovery may meet. They are not logged any more, so they
 * have no `prepare`. Their records have the form of the records of put, or of the operation above
 * with the same name. Only the undo bytes of `insert` differ: they have the form of the undo bytes
 * of remove. */
enum { OLD_INSERT, OLD_REPLACE, OLD_REPLACE_SHORT };
const struct lladd_op ll_hash__old[] = {
    [OLD_INSERT] =
        BUCKET_OP("lladd.hash.insert", 2 + ENTRY_BYTES + HB_UNDO_HEAD + LL_HASH_INLINE_MAX,
                  .redo_fields = store_fields, .undo_fields = key_fields,
                  .undo_kind = LLADD_UNDO_LOGICAL, .validate = insert_validate, .redo = store_redo,
                  .compensate = insert_compensate, .undo_log_max = UNDO_LOG(3),
                  .undo_pages_max = 3),
    [OLD_REPLACE] = PUT_OP("lladd.hash.replace", NULL),
    [OLD_REPLACE_SHORT] = PUT_OP("lladd.hash.replace.short", NULL),
    RESTORE_OP("lladd.hash.restore.short", NULL),
    FORMAT_OP("lladd.hash.bucket.format.long", NULL),
    NARROW_OP("lladd.hash.narrow.long", NULL),
    WIDEN_OP("lladd.hash.widen.long", NULL),
};

bool lladd_hash_logged_key(const struct lladd_log_entry *e, lladd_pageno *root,
                           struct lladd_span *key)
{
    static const struct {
        const struct lladd_op *op;
        enum hb_undo_what what;
    } by_key[] = {{&ll_hash__put, HB_UNDO_PUT},
                  {&ll_hash__remove, HB_UNDO_REMOVE},
                  {&ll_hash__old[OLD_INSERT], HB_UNDO_INSERT},
                  {&ll_hash__old[OLD_REPLACE], HB_UNDO_PUT},
                  {&ll_hash__old[OLD_REPLACE_SHORT], HB_UNDO_PUT}};
    for (size_t i = 0; i < sizeof by_key / sizeof by_key[0]; i++) {
        struct hb_undo u;
        const struct lladd_op *op = by_key[i].op;
        if (!e->op || strcmp(e->op, op->name) != 0 || e->op_version != op->version)
            continue;
        if (!parse_undo(e->undo, by_key[i].what, root, &u) || u.key_len & HB_BLOB)
            return false;
        *key = lladd_span_of(u.key, u.key_len);
        return true;
    }
    return false;
}

/* ---- the page type --------------------------------------------------------------------------- */

static bool bucket_check(struct lladd_view v)
{
    return ll_hash__fine(v);
}

static void bucket_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    const unsigned char *p = v.bytes;
    lladd_sink_printf(sink, "root %llu, bucket %llu of 2^%u%s, next %llu\n",
                      (unsigned long long)lladd_get48(p + HB_ROOT),
                      (unsigned long long)lladd_get48(p + HB_BUCKET), p[HB_LEVEL],
                      p[HB_FLAGS] & HB_OVERFLOW ? ", overflow page" : "",
                      (unsigned long long)lladd_get48(p + HB_NEXT));
    lladd_sink_printf(sink, "%u slots, %u elements, %u ghosts\n", hb_get(p, HB_SLOTS),
                      hb_get(p, HB_LIVE), hb_get(p, HB_GHOSTS));
    for (uint32_t i = 0; ll_hash__head_fine(v) && i < hb_get(p, HB_SLOTS); i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e))
            continue;
        lladd_sink_printf(sink, "%u: tag 0x%04x%s, key %u%s", i, e.tag & (HB_GHOST - 1),
                          e.tag & HB_GHOST ? " ghost" : "", HB_LEN(e.key_len),
                          e.key_len & HB_BLOB ? " (blob)" : "");
        for (uint32_t k = 0; k < HB_LEN(e.key_len) && k < 16; k++)
            lladd_sink_printf(sink, "%s%02x", k ? "" : " ", e.key[k]);
        lladd_sink_printf(sink, ", value %u%s\n", HB_LEN(e.value_len),
                          e.value_len & HB_BLOB ? " (blob)" : "");
    }
}

const struct lladd_page_type ll_hash__bucket_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.hash.bucket",
    .version = 1,
    .check = bucket_check,
    .describe = bucket_describe,
};
