/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of one length: page type "lladd.fixed".
 *
 *   32 u16 size of a record
 *   34 u16 number of slots
 *   36 u16 slots in use, including the freed slots
 *   38 u16 freed slots
 *   40 u64 zero
 *   48 bits of the slots in use, in 64-bit words, little-endian
 *      bits of the freed slots, in as many words
 *      the records, one after the other
 *
 * As on slotted pages, freeing only marks a record. The record's bytes stay for undo, and its slot
 * is reused only when no transaction reserves the slot (reservation.c). An alloc can reuse a freed
 * slot without a purge. Undo of that alloc leaves the slot unused.
 *
 *   lladd.fixed.format redo u16 size of a record, u16 slots           no undo
 *   lladd.fixed.alloc  redo u16 slot, bytes (none: zeros)             undo u16 slot
 *   lladd.fixed.free   redo u16 slot                                  undo u16 slot
 *   lladd.fixed.set    redo u16 slot, u16 offset, bytes               undo the same fields
 *   lladd.fixed.add    see increment.c */
#include "operations/operations_private.h"

#include <string.h>

enum {
    FIXED_SIZE = LLADD_PAGE_HEADER,
    FIXED_SLOTS = LLADD_PAGE_HEADER + 2,
    FIXED_USED = LLADD_PAGE_HEADER + 4,
    FIXED_GIVEN = LLADD_PAGE_HEADER + 6,
    FIXED_PLANES = LLADD_PAGE_HEADER + 16
};

#define SET_HEAD 4u

struct alloc_args {
    struct ll_operations *ops;
    const unsigned char *bytes;
    uint32_t slot, size; /* out */
};

struct set_args {
    const unsigned char *bytes;
    uint32_t slot, offset, len;
};

static uint32_t get(const unsigned char *page, unsigned field)
{
    return lladd_get16(page + field);
}
static uint32_t plane_bytes(uint32_t slots)
{
    return (slots + 63) / 64 * 8;
}
static uint32_t record_at(const unsigned char *page, uint32_t slot)
{
    return FIXED_PLANES + 2 * plane_bytes(get(page, FIXED_SLOTS)) + slot * get(page, FIXED_SIZE);
}
static uint64_t plane_word(const unsigned char *page, bool given, uint32_t w)
{
    return lladd_get64(page + FIXED_PLANES + (given ? plane_bytes(get(page, FIXED_SLOTS)) : 0) +
                       8 * w);
}
static bool bit(const unsigned char *page, bool given, uint32_t slot)
{
    return plane_word(page, given, slot / 64) >> slot % 64 & 1;
}
static void set_bit(unsigned char *page, bool given, uint32_t slot, bool v)
{
    unsigned char *p =
        page + FIXED_PLANES + (given ? plane_bytes(get(page, FIXED_SLOTS)) : 0) + slot / 64 * 8;
    uint64_t mask = UINT64_C(1) << slot % 64, w = lladd_get64(p);
    unsigned field = given ? FIXED_GIVEN : FIXED_USED;
    uint16_t count = (uint16_t)get(page, field);
    if (!!(w & mask) == v)
        return;
    lladd_put64(p, w ^ mask);
    lladd_put16(page + field, (uint16_t)(v ? count + 1 : count - 1));
}

static uint32_t slots_for(uint32_t page_size, uint32_t size)
{
    uint32_t room = page_size - FIXED_PLANES;
    uint32_t slots = size ? room / size : 0;
    while (slots && 2 * plane_bytes(slots) + slots * size > room)
        slots--;
    return slots < UINT16_MAX ? slots : UINT16_MAX - 1;
}

/* Is the header valid, so that slots may be looked at? */
static bool head_fine(struct lladd_view v)
{
    uint32_t size = get(v.bytes, FIXED_SIZE);
    return size > 0 && size <= LLADD_FIXED_MAX && get(v.bytes, FIXED_SLOTS) > 0 &&
           get(v.bytes, FIXED_SLOTS) <= slots_for(v.size, size);
}
static bool live(struct lladd_view v, uint32_t slot)
{
    return head_fine(v) && slot < get(v.bytes, FIXED_SLOTS) && bit(v.bytes, false, slot) &&
           !bit(v.bytes, true, slot);
}

static int no_record(struct lladd_error *err, lladd_pageno page, uint32_t slot)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "there is no record in slot %u of page %llu", slot,
                                             (unsigned long long)page.v));
}

/* ---- format ---------------------------------------------------------------------------------- */

static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    uint32_t size = args.len == 4 ? lladd_get32(args.data) : 0;
    uint32_t slots = size <= LLADD_FIXED_MAX ? slots_for(page.size, size) : 0;
    if (slots == 0)
        return ll_operations__on(
            draft->error, page.number,
            lladd_error_set(draft->error, LLADD_BAD_ARGUMENT,
                            "records of %u bytes: a record has 1 to %u bytes, and must fit a page",
                            size, LLADD_FIXED_MAX));
    unsigned char *redo = lladd_draft_redo(draft, 4);
    lladd_put16(redo, (uint16_t)size);
    lladd_put16(redo + 2, (uint16_t)slots);
    return 0;
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (kind != LLADD_SPAN_REDO || s.len != 4)
        return false;
    uint32_t size = lladd_get16(s.data), slots = lladd_get16((const unsigned char *)s.data + 2);
    return size > 0 && size <= LLADD_FIXED_MAX && slots > 0 && slots <= slots_for(page.size, size);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(page->bytes + FIXED_SIZE, redo.data, 4);
}

static const struct lladd_field format_fields[] = {
    {"size", LLADD_FIELD_U16}, {"slots", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__fixed_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.fixed.format",
    .version = 1,
    .page_type = "lladd.fixed",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 4,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- alloc ----------------------------------------------------------------------------------- */

/* Finds a slot that is unused, or (when all losers are rolled back) freed and not reserved. */
static bool find_slot(struct ll_operations *ops, struct lladd_view v, uint32_t *slot)
{
    uint32_t slots = get(v.bytes, FIXED_SLOTS);
    bool reuse = !ll_operations__recovering(ops), any = get(v.bytes, FIXED_USED) < slots;
    for (uint32_t w = 0; any && w * 64 < slots; w++) {
        uint64_t free = ~plane_word(v.bytes, false, w);
        if (free && w * 64 + (uint32_t)__builtin_ctzll(free) < slots) {
            *slot = w * 64 + (uint32_t)__builtin_ctzll(free);
            return true;
        }
    }
    for (uint32_t w = 0; reuse && get(v.bytes, FIXED_GIVEN) && w * 64 < slots; w++) {
        uint64_t given = plane_word(v.bytes, true, w), held[LL_RESERVATION_WORDS];
        if (!given)
            continue;
        ll_operations__held(&ops->records, v.number, w / LL_RESERVATION_WORDS, NULL, held);
        given &= ~held[w % LL_RESERVATION_WORDS];
        if (given && w * 64 + (uint32_t)__builtin_ctzll(given) < slots) {
            *slot = w * 64 + (uint32_t)__builtin_ctzll(given);
            return true;
        }
    }
    return false;
}

static int alloc_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    (void)ctx;
    struct alloc_args *a = (struct alloc_args *)(uintptr_t)args.data;
    if (!head_fine(page))
        return ll_operations__on(
            draft->error, page.number,
            lladd_error_set(draft->error, LLADD_CORRUPT_PAGE,
                            "page %llu: invalid header: expected fixed-length records that fit",
                            (unsigned long long)page.number.v));
    if (!find_slot(a->ops, page, &a->slot))
        return LLADD_PAGE_FULL;
    a->size = get(page.bytes, FIXED_SIZE);
    uint32_t n = a->bytes ? a->size : 0;
    unsigned char *redo = lladd_draft_redo(draft, 2 + n);
    lladd_put16(redo, (uint16_t)a->slot);
    if (n)
        memcpy(redo + 2, a->bytes, n);
    lladd_put16(lladd_draft_undo(draft, 2), (uint16_t)a->slot);
    return 0;
}

static bool alloc_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (s.len < 2 || !head_fine(page) || lladd_get16(s.data) >= get(page.bytes, FIXED_SLOTS))
        return false;
    if (kind == LLADD_SPAN_UNDO)
        return s.len == 2;
    return !live(page, lladd_get16(s.data)) &&
           (s.len == 2 || s.len - 2 == get(page.bytes, FIXED_SIZE));
}

static void alloc_redo(struct lladd_page *page, struct lladd_span redo)
{
    uint32_t slot = lladd_get16(redo.data);
    unsigned char *record = page->bytes + record_at(page->bytes, slot);
    set_bit(page->bytes, false, slot, true);
    set_bit(page->bytes, true, slot, false);
    if (redo.len > 2)
        memcpy(record, (const unsigned char *)redo.data + 2, redo.len - 2);
    else
        memset(record, 0, get(page->bytes, FIXED_SIZE));
}

static void alloc_undo(struct lladd_page *page, struct lladd_span undo)
{
    set_bit(page->bytes, false, lladd_get16(undo.data), false);
    set_bit(page->bytes, true, lladd_get16(undo.data), false);
}

static const struct lladd_field slot_fields[] = {{"slot", LLADD_FIELD_U16},
                                                 {NULL, LLADD_FIELD_END}};
static const struct lladd_field alloc_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__fixed_alloc = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.fixed.alloc",
    .version = 1,
    .page_type = "lladd.fixed",
    .redo_fields = alloc_fields,
    .undo_fields = slot_fields,
    .record_max = 4 + LLADD_FIXED_MAX,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = alloc_prepare,
    .validate = alloc_validate,
    .redo = alloc_redo,
    .undo = alloc_undo,
};

/* ---- free ------------------------------------------------------------------------------------ */

static int free_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    uint32_t slot = lladd_get32(args.data);
    if (!live(page, slot))
        return no_record(draft->error, page.number, slot);
    lladd_put16(lladd_draft_redo(draft, 2), (uint16_t)slot);
    lladd_put16(lladd_draft_undo(draft, 2), (uint16_t)slot);
    return 0;
}

static bool free_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (s.len != 2 || !head_fine(page) || lladd_get16(s.data) >= get(page.bytes, FIXED_SLOTS))
        return false;
    return bit(page.bytes, false, lladd_get16(s.data)) &&
           bit(page.bytes, true, lladd_get16(s.data)) == (kind == LLADD_SPAN_UNDO);
}

static void free_redo(struct lladd_page *page, struct lladd_span redo)
{
    set_bit(page->bytes, true, lladd_get16(redo.data), true);
}

static void free_undo(struct lladd_page *page, struct lladd_span undo)
{
    set_bit(page->bytes, true, lladd_get16(undo.data), false);
}

const struct lladd_op ll_operations__fixed_free = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.fixed.free",
    .version = 1,
    .page_type = "lladd.fixed",
    .redo_fields = slot_fields,
    .undo_fields = slot_fields,
    .record_max = 4,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = free_prepare,
    .validate = free_validate,
    .redo = free_redo,
    .undo = free_undo,
};

/* ---- set ------------------------------------------------------------------------------------- */

static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    (void)ctx;
    const struct set_args *a = args.data;
    if (!live(page, a->slot))
        return no_record(draft->error, page.number, a->slot);
    uint32_t size = get(page.bytes, FIXED_SIZE);
    if (a->offset > size || a->len > size - a->offset)
        return ll_operations__on(draft->error, page.number,
                                 lladd_error_set(draft->error, LLADD_OUT_OF_RANGE,
                                                 "bytes %u to %llu of a record of %u bytes",
                                                 a->offset,
                                                 (unsigned long long)a->offset + a->len, size));
    const unsigned char *now = page.bytes + record_at(page.bytes, a->slot) + a->offset;
    size_t skip, n = ll_operations__differ(now, a->bytes, a->len, &skip);
    unsigned char *redo = lladd_draft_redo(draft, SET_HEAD + n);
    unsigned char *undo = lladd_draft_undo(draft, SET_HEAD + n);
    lladd_put16(redo, (uint16_t)a->slot);
    lladd_put16(redo + 2, (uint16_t)(a->offset + skip));
    memcpy(undo, redo, SET_HEAD);
    if (n) {
        memcpy(redo + SET_HEAD, a->bytes + skip, n);
        memcpy(undo + SET_HEAD, now + skip, n);
    }
    return 0;
}

static bool set_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    return s.len >= SET_HEAD && live(page, lladd_get16(p)) &&
           lladd_get16(p + 2) + (s.len - SET_HEAD) <= get(page.bytes, FIXED_SIZE);
}

static void set_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    memcpy(page->bytes + record_at(page->bytes, lladd_get16(p)) + lladd_get16(p + 2), p + SET_HEAD,
           bytes.len - SET_HEAD);
}

static const struct lladd_field set_fields[] = {{"slot", LLADD_FIELD_U16},
                                                {"offset", LLADD_FIELD_U16},
                                                {"bytes", LLADD_FIELD_REST},
                                                {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__fixed_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.fixed.set",
    .version = 1,
    .page_type = "lladd.fixed",
    .redo_fields = set_fields,
    .undo_fields = set_fields,
    .record_max = 2 * (SET_HEAD + LLADD_FIXED_MAX),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_apply,
    .undo = set_apply,
};

/* ---- the page type --------------------------------------------------------------------------- */

static bool fixed_check(struct lladd_view v)
{
    uint32_t used = 0, given = 0;
    if (!head_fine(v) || lladd_get64(v.bytes + FIXED_USED + 4) != 0)
        return false;
    uint32_t slots = get(v.bytes, FIXED_SLOTS);
    for (uint32_t w = 0; w * 64 < slots; w++) {
        uint64_t u = plane_word(v.bytes, false, w), g = plane_word(v.bytes, true, w);
        uint64_t beyond = slots - w * 64 < 64 ? UINT64_MAX << (slots - w * 64) : 0;
        if ((g & ~u) || (u & beyond))
            return false;
        used += (uint32_t)__builtin_popcountll(u);
        given += (uint32_t)__builtin_popcountll(g);
    }
    return used == get(v.bytes, FIXED_USED) && given == get(v.bytes, FIXED_GIVEN);
}

/* Masks what may differ between equivalent pages: the contents of slots without a record, and
 * whether such a slot is unused or freed. */
static void fixed_mask(void *ctx, struct lladd_page *page)
{
    unsigned char *p = page->bytes;
    struct lladd_view v = {p, page->size, 0, page->number};
    (void)ctx;
    if (!head_fine(v))
        return;
    for (uint32_t s = 0; s < get(p, FIXED_SLOTS); s++) {
        if (bit(p, true, s))
            set_bit(p, false, s, false);
        set_bit(p, true, s, false);
        if (!bit(p, false, s))
            memset(p + record_at(p, s), 0, get(p, FIXED_SIZE));
    }
}

static void fixed_hole(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    *begin = *end = v.size;
    if (head_fine(v))
        *begin = record_at(v.bytes, get(v.bytes, FIXED_SLOTS));
}

static void fixed_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    lladd_sink_printf(sink, "%u records of %u bytes, %u used, %u of them freed\n",
                      get(v.bytes, FIXED_SLOTS), get(v.bytes, FIXED_SIZE), get(v.bytes, FIXED_USED),
                      get(v.bytes, FIXED_GIVEN));
}

const struct lladd_page_type ll_operations__fixed_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.fixed",
    .version = 1,
    .hole = fixed_hole,
    .check = fixed_check,
    .mask = fixed_mask,
    .describe = fixed_describe,
};

/* ---- calls ----------------------------------------------------------------------------------- */

int lladd_fixed_format(struct lladd_txn *txn, lladd_pageno page, uint32_t size)
{
    LLADD_USE(txn);
    unsigned char bytes[4];
    lladd_put32(bytes, size);
    return lladd_update(txn, LL_OP_FIXED_FORMAT, page, bytes, sizeof bytes);
}

int lladd_fixed_alloc(struct lladd_txn *txn, lladd_pageno page, const void *bytes,
                      struct lladd_rid *out)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct alloc_args a = {.ops = ll_operations_of(db), .bytes = bytes};
    int rc = lladd_update(txn, LL_OP_FIXED_ALLOC, page, &a, sizeof a);
    if (!rc)
        *out = (struct lladd_rid){page, a.slot, a.size};
    return rc;
}

int lladd_fixed_free(struct lladd_txn *txn, struct lladd_rid rid)
{
    LLADD_USE(txn);
    unsigned char slot[4];
    lladd_put32(slot, rid.slot);
    int rc = rid.slot < UINT16_MAX ? ll_operations__reserve_record(txn, rid.page, rid.slot) : 0;
    return rc ? rc : lladd_update(txn, LL_OP_FIXED_FREE, rid.page, slot, sizeof slot);
}

/* Prefetches the page's header and, if rid.size gives their place, bytes of the record. */
static void touch(struct lladd_db *db, struct lladd_rid rid, uint32_t offset, size_t len)
{
    uint32_t slots = slots_for(lladd_page_size(db), rid.size);
    bool known = rid.slot < slots && offset <= rid.size && len <= rid.size - offset;
    uint32_t at =
        FIXED_PLANES - LLADD_PAGE_HEADER + 2 * plane_bytes(slots) + rid.slot * rid.size + offset;
    lladd_prefetch_lines(db, rid.page, at, known ? (uint32_t)len : 0);
}

int lladd_fixed_set(struct lladd_txn *txn, struct lladd_rid rid, uint32_t offset, const void *bytes,
                    size_t len)
{
    LLADD_USE(txn);
    if (txn)
        touch(lladd_txn_db(txn), rid, offset, len);
    struct set_args a = {bytes, rid.slot, offset, len < UINT32_MAX ? (uint32_t)len : UINT32_MAX};
    return lladd_update(txn, LL_OP_FIXED_SET, rid.page, &a, sizeof a);
}

uint32_t lladd_fixed_size(struct lladd_view v)
{
    return get(v.bytes, FIXED_SIZE);
}

uint32_t lladd_fixed_slots(struct lladd_view v)
{
    return head_fine(v) ? get(v.bytes, FIXED_SLOTS) : 0;
}

bool lladd_fixed_record(struct lladd_view v, uint32_t slot, struct lladd_record *out)
{
    if (!live(v, slot))
        return false;
    *out = (struct lladd_record){v.bytes + record_at(v.bytes, slot), get(v.bytes, FIXED_SIZE), 0};
    return true;
}

int lladd_fixed_read(struct lladd_db *db, struct lladd_rid rid, void *out, size_t size,
                     struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    touch(db, rid, 0, rid.size);
    TRY(ll_operations__fix(db, rid.page, ll_operations__fixed_page.name, LLADD_LATCH_SHARED, &page,
                           err));
    int rc = 0;
    if (lladd_fixed_record(lladd_page_view(page), rid.slot, &r))
        memcpy(out, r.bytes, r.len < size ? r.len : size);
    else
        rc = no_record(err, rid.page, rid.slot);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}
