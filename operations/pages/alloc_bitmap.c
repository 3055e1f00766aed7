/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocation bitmaps: page type "lladd.map".
 *
 * Each bitmap covers a fixed range of `span` pages and is the first page of that range. (In the
 * first range page 0 is the root page and page 1 is the bitmap.) The place of a page's bitmap is
 * computed, so reading one page tells whether a page is in use (BUF-5).
 *
 *   32 u32 span, the number of pages covered; must fit the page size
 *   36     zeros
 *   64     the `high` bits of span pages, in 64-bit words, little-endian
 *          the `low` bits, likewise
 *
 *   high low   LLADD_USE_
 *     0   0    NONE    free
 *     0   1    RAW     allocated, without page header
 *     1   0    PAGED   allocated
 *     1   1    FREED   freed by a transaction; free as soon as nothing reserves it (reservation.c)
 *
 * Taking a page changes NONE or FREED to RAW or PAGED; undo changes the page to NONE. Freeing a
 * page changes it to FREED; undo restores the old state. No transaction takes a FREED page while
 * the freeing may still be rolled back. Undo changes only the bits of its own pages, so later
 * changes of other pages' bits stay (OP-5).
 *
 * `prepare` chooses the pages under the bitmap's latch, so concurrent transactions cannot choose
 * the same page. */
#include "operations/pages/alloc_bitmap.h"

#include <string.h>

#define RANGE_BYTES 8u /* u32 index, u32 count */

static uint32_t words_of(uint32_t page_size)
{
    return ll_bitmap_span(page_size) / 64;
}
static uint32_t plane_at(uint32_t page_size, bool low)
{
    return LLADD_PAGE_HEADER + LL_MAP_HEAD + (low ? ll_bitmap_span(page_size) / 8 : 0);
}
static uint64_t word_of(const unsigned char *page, uint32_t page_size, bool low, uint32_t w)
{
    return lladd_get64(page + plane_at(page_size, low) + 8 * w);
}

enum lladd_page_use ll_operations__bitmap_use(struct lladd_view map, uint32_t index)
{
    uint64_t high = word_of(map.bytes, map.size, false, index / 64) >> index % 64 & 1;
    uint64_t low = word_of(map.bytes, map.size, true, index / 64) >> index % 64 & 1;
    return (enum lladd_page_use)(high << 1 | low);
}

/* Bits of word w that lie in [from, to). */
static uint64_t bits_in(uint32_t w, uint32_t from, uint32_t to)
{
    uint64_t base = (uint64_t)w * 64, bits = UINT64_MAX;
    if (from > base)
        bits &= from - base >= 64 ? 0 : UINT64_MAX << (from - base);
    if (to < base + 64)
        bits &= to <= base ? 0 : UINT64_MAX >> (base + 64 - to);
    return bits;
}

static void set_use(struct lladd_page *page, uint32_t index, uint32_t n, unsigned use)
{
    unsigned char *high = page->bytes + plane_at(page->size, false);
    unsigned char *low = page->bytes + plane_at(page->size, true);
    for (uint32_t w = index / 64; (uint64_t)w * 64 < (uint64_t)index + n; w++) {
        uint64_t bits = bits_in(w, index, index + n);
        uint64_t h = lladd_get64(high + 8 * w), l = lladd_get64(low + 8 * w);
        lladd_put64(high + 8 * w, use & 2 ? h | bits : h & ~bits);
        lladd_put64(low + 8 * w, use & 1 ? l | bits : l & ~bits);
    }
}

/* May the pages [index, index + n) be taken or freed? False if one of them is the root page or the
 * bitmap, or is in another group. */
static bool range_fine(struct lladd_view map, uint32_t index, uint32_t n)
{
    uint32_t span = ll_bitmap_span(map.size), first = map.number.v == 1 ? 2 : 1;
    return n > 0 && index >= first && index < span && n <= span - index;
}

/* ---- format ---------------------------------------------------------------------------------- */

static bool is_place_of_map(struct lladd_view page)
{
    return page.number.v != 0 && ll_bitmap_system(page.size, page.number);
}

/* Refuses the pages for which `validate` would refuse the record. */
static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    (void)args;
    if (is_place_of_map(page))
        return 0;
    return ll_operations__on(draft->error, page.number,
                             lladd_error_set(draft->error, LLADD_BAD_ARGUMENT,
                                             "page %llu cannot hold an allocation bitmap",
                                             (unsigned long long)page.number.v));
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len == 0 && is_place_of_map(page);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)redo;
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    lladd_put32(lladd_page_body(page), ll_bitmap_span(page->size));
    set_use(page, 0, page->number.v == 1 ? 2 : 1, LLADD_USE_PAGED);
}

const struct lladd_op ll_operations__map_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.map.format",
    .version = 1,
    .page_type = "lladd.map",
    .formats = true,
    .record_max = 0,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- take ------------------------------------------------------------------------------------ */

struct search {
    const struct ll_bitmap_take *take;
    struct lladd_view map;
    bool reuse; /* may FREED pages be taken? No until all losers are rolled back */
    uint32_t chunk;
    uint64_t held[LL_RESERVATION_WORDS];
};

static uint64_t available(struct search *s, uint32_t w)
{
    uint64_t high = word_of(s->map.bytes, s->map.size, false, w);
    uint64_t low = word_of(s->map.bytes, s->map.size, true, w);
    uint64_t free = ~(high | low), freed = s->reuse ? high & low : 0;
    if (freed) {
        uint32_t chunk = w / LL_RESERVATION_WORDS;
        if (s->chunk != chunk)
            ll_operations__held(&s->take->ops->alloc.holds, s->map.number, chunk, NULL, s->held);
        s->chunk = chunk;
        free |= freed & ~s->held[w % LL_RESERVATION_WORDS];
    }
    return free & bits_in(w, 0, s->take->limit);
}

static bool find_one(struct search *s, uint32_t *index)
{
    uint32_t n = words_of(s->map.size);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t w = (s->take->hint + i) % n;
        uint64_t free = available(s, w);
        if (free) {
            *index = w * 64 + (uint32_t)__builtin_ctzll(free);
            return true;
        }
    }
    return false;
}

/* First fit. On failure *longest is the length of the longest free run. */
static bool find_run(struct search *s, uint32_t *index, uint32_t *longest)
{
    uint32_t n = words_of(s->map.size), run = 0;
    *longest = 0;
    for (uint32_t w = 0; w < n; w++) {
        uint64_t free = available(s, w);
        for (uint32_t i = 0; i < 64; i++) {
            if (i == 0 && free == UINT64_MAX && run + 64 < s->take->n) {
                run += 64;
                break;
            }
            run = free >> i & 1 ? run + 1 : 0;
            if (run > *longest)
                *longest = run;
            if (run == s->take->n) {
                *index = w * 64 + i + 1 - run;
                return true;
            }
        }
        if (run > *longest)
            *longest = run;
    }
    return false;
}

static int take_prepare(void *ctx, struct lladd_view map, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    struct ll_bitmap_take *take = (struct ll_bitmap_take *)(uintptr_t)args.data;
    struct search s = {.take = take,
                       .map = map,
                       .reuse = !ll_operations__recovering(take->ops),
                       .chunk = UINT32_MAX};
    take->longest = 0;
    if (!(take->n == 1 ? find_one(&s, &take->index) : find_run(&s, &take->index, &take->longest)))
        return LLADD_PAGE_FULL; /* the caller tries another bitmap */
    unsigned char *redo = lladd_draft_redo(draft, RANGE_BYTES + 1);
    unsigned char *undo = lladd_draft_undo(draft, RANGE_BYTES);
    lladd_put32(redo, take->index);
    lladd_put32(redo + 4, take->n);
    redo[8] = (unsigned char)take->use;
    memcpy(undo, redo, RANGE_BYTES);
    return 0;
}

static bool take_validate(struct lladd_view map, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (s.len != (kind == LLADD_SPAN_REDO ? RANGE_BYTES + 1 : RANGE_BYTES))
        return false;
    if (kind == LLADD_SPAN_REDO && p[8] != LLADD_USE_RAW && p[8] != LLADD_USE_PAGED)
        return false;
    return range_fine(map, lladd_get32(p), lladd_get32(p + 4));
}

bool ll_bitmap_taken(const struct lladd_log_entry *e, uint32_t *index, uint32_t *n)
{
    const unsigned char *p = e->redo.data;
    if (!e->op || strcmp(e->op, ll_operations__map_take.name) != 0 ||
        e->redo.len != RANGE_BYTES + 1)
        return false;
    *index = lladd_get32(p);
    *n = lladd_get32(p + 4);
    return true;
}

static void take_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    set_use(page, lladd_get32(p), lladd_get32(p + 4), p[8]);
}

static void take_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    set_use(page, lladd_get32(p), lladd_get32(p + 4), LLADD_USE_NONE);
}

static const struct lladd_field range_use_fields[] = {{"index", LLADD_FIELD_U32},
                                                      {"count", LLADD_FIELD_U32},
                                                      {"use", LLADD_FIELD_U8},
                                                      {NULL, LLADD_FIELD_END}};
static const struct lladd_field range_fields[] = {
    {"index", LLADD_FIELD_U32}, {"count", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__map_take = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.map.take",
    .version = 1,
    .page_type = "lladd.map",
    .redo_fields = range_use_fields,
    .undo_fields = range_fields,
    .record_max = 2 * RANGE_BYTES + 1,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = take_prepare,
    .validate = take_validate,
    .redo = take_redo,
    .undo = take_undo,
};

/* ---- free ------------------------------------------------------------------------------------ */

static int refuse(struct lladd_draft *draft, struct lladd_view map, uint32_t index, int code,
                  const char *why)
{
    lladd_pageno page = ll_bitmap_numbered(map.size, ll_bitmap_group(map.size, map.number), index);
    return ll_operations__on(draft->error, page,
                             lladd_error_set(draft->error, code, "page %llu cannot be freed: %s",
                                             (unsigned long long)page.v, why));
}

static int free_prepare(void *ctx, struct lladd_view map, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    const struct ll_bitmap_free *f = args.data;
    enum lladd_page_use use = ll_operations__bitmap_use(map, f->index);
    for (uint32_t i = 0; i < f->n; i++) {
        enum lladd_page_use now = ll_operations__bitmap_use(map, f->index + i);
        if (now == LLADD_USE_NONE || now == LLADD_USE_FREED)
            return refuse(draft, map, f->index + i, LLADD_OUT_OF_RANGE, "it is not allocated");
        if (now == LLADD_USE_RAW && !f->raw)
            return refuse(draft, map, f->index + i, LLADD_WRONG_TYPE, "it belongs to a raw extent");
        if (now != use)
            return refuse(draft, map, f->index + i, LLADD_WRONG_TYPE,
                          "the range is partly raw and partly paged");
    }
    unsigned char *redo = lladd_draft_redo(draft, RANGE_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, RANGE_BYTES + 1);
    lladd_put32(redo, f->index);
    lladd_put32(redo + 4, f->n);
    memcpy(undo, redo, RANGE_BYTES);
    undo[8] = (unsigned char)use;
    return 0;
}

static bool free_validate(struct lladd_view map, enum lladd_span_kind kind, struct lladd_span s)
{
    return take_validate(map, kind == LLADD_SPAN_REDO ? LLADD_SPAN_UNDO : LLADD_SPAN_REDO, s);
}

static void free_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    set_use(page, lladd_get32(p), lladd_get32(p + 4), LLADD_USE_FREED);
}

const struct lladd_op ll_operations__map_free = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.map.free",
    .version = 1,
    .page_type = "lladd.map",
    .redo_fields = range_fields,
    .undo_fields = range_use_fields,
    .record_max = 2 * RANGE_BYTES + 1,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = free_prepare,
    .validate = free_validate,
    .redo = free_redo,
    .undo = take_redo,
};

/* ---- the page type --------------------------------------------------------------------------- */

static bool map_check(struct lladd_view map)
{
    uint32_t span = ll_bitmap_span(map.size);
    if (lladd_get32(lladd_view_body(map)) != span || map.number.v == 0 ||
        !ll_bitmap_system(map.size, map.number))
        return false;
    for (uint32_t i = 4; i < LL_MAP_HEAD; i++)
        if (lladd_view_body(map)[i] != 0)
            return false;
    return ll_operations__bitmap_use(map, 0) == LLADD_USE_PAGED &&
           (map.number.v != 1 || ll_operations__bitmap_use(map, 1) == LLADD_USE_PAGED);
}

/* If a transaction takes a FREED page and rolls back, the page becomes NONE. Both states mean
 * "free", so the mask makes them equal. */
static void map_mask(void *ctx, struct lladd_page *map)
{
    (void)ctx;
    unsigned char *high = map->bytes + plane_at(map->size, false);
    unsigned char *low = map->bytes + plane_at(map->size, true);
    for (uint32_t w = 0; w < words_of(map->size); w++) {
        uint64_t freed = lladd_get64(high + 8 * w) & lladd_get64(low + 8 * w);
        lladd_put64(high + 8 * w, lladd_get64(high + 8 * w) & ~freed);
        lladd_put64(low + 8 * w, lladd_get64(low + 8 * w) & ~freed);
    }
}

static void map_describe(void *ctx, struct lladd_sink *sink, struct lladd_view map)
{
    (void)ctx;
    static const char *const names[] = {"free", "raw", "paged", "freed"};
    uint32_t span = ll_bitmap_span(map.size);
    uint64_t base = ll_bitmap_group(map.size, map.number) * span;
    uint32_t count[4] = {0};
    for (uint32_t i = 0; i < span; i++)
        count[ll_operations__bitmap_use(map, i)]++;
    lladd_sink_printf(sink, "pages %llu to %llu: %u paged, %u raw, %u freed, %u free\n",
                      (unsigned long long)base, (unsigned long long)(base + span - 1),
                      count[LLADD_USE_PAGED], count[LLADD_USE_RAW], count[LLADD_USE_FREED],
                      count[LLADD_USE_NONE]);
    for (uint32_t i = 0; i < span;) {
        enum lladd_page_use use = ll_operations__bitmap_use(map, i);
        uint32_t from = i;
        while (i < span && ll_operations__bitmap_use(map, i) == use)
            i++;
        if (use != LLADD_USE_NONE)
            lladd_sink_printf(sink, "  %llu..%llu %s\n", (unsigned long long)(base + from),
                              (unsigned long long)(base + i - 1), names[use]);
    }
}

const struct lladd_page_type ll_operations__map_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.map",
    .version = 1,
    .check = map_check,
    .mask = map_mask,
    .describe = map_describe,
};
