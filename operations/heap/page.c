/* SPDX-License-Identifier: BSD-2-Clause */
/* Inventory pages of heaps: page type "lladd.heap". The number of the first one is the heap's id.
 *
 *   32 u64 next inventory page, 0: none
 *   40 u64 the heap's first inventory page
 *   48 u32 entries in use
 *   52 u32 zero
 *   56     entries of 8 bytes:
 *            +0 u48 a slotted page
 *            +6 u8  hint
 *            +7 u8  zero
 *
 * A hint says how much room the page had at the last update of the hint, in 256ths of a page,
 * rounded down; 255 means 255 or more. Ghosts and slack (slotted_page.c) count as room. A hint need
 * not be right and is never undone. A thread that finds less room than the hint says lowers the
 * hint.
 *
 *   lladd.heap.format  redo u64 first inventory page             no undo
 *   lladd.heap.append  redo u16 index, u16 n, u64 first page     undo u16 index, u16 n
 *   lladd.heap.link    redo u64 next                             undo u64 next
 *   lladd.heap.hint    redo u16 index, u8 hint                   no undo
 *
 * Undo of an append removes the last entries. These are the appended ones, because a heap has one
 * append at a time, in a nested top action or in the transaction that creates the heap
 * (space.c). */
#include "operations/heap/heap.h"
#include "operations/shared/link.h"

#include <string.h>

#define COUNT_AT (LLADD_PAGE_HEADER + 16u)
#define APPEND_BYTES 12u

uint32_t ll_operations__inventory_count(struct lladd_view v)
{
    uint32_t n = lladd_get32(v.bytes + COUNT_AT), max = ll_inventory_max(v.size);
    return n < max ? n : max;
}

struct ll_inventory_entry ll_operations__inventory_entry(struct lladd_view v, uint32_t index)
{
    const unsigned char *p = v.bytes + INVENTORY_ENTRIES + index * INVENTORY_ENTRY;
    struct ll_inventory_entry e = {lladd_page_of(lladd_get48(p)), p[6]};
    return e;
}

/* ---- format ---------------------------------------------------------------------------------- */

static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    unsigned char *redo = lladd_draft_redo(draft, 8);
    if (args.len == 8)
        memcpy(redo, args.data, 8);
    else
        lladd_put64(redo, page.number.v);
    return 0;
}

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 8;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(lladd_page_body(page) + 8, redo.data, 8);
}

static const struct lladd_field format_fields[] = {{"heap", LLADD_FIELD_PAGE},
                                                   {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__heap_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.heap.format",
    .version = 1,
    .page_type = "lladd.heap",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- append ---------------------------------------------------------------------------------- */

static int append_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    const struct ll_heap_append *a = args.data;
    uint32_t count = ll_operations__inventory_count(page);
    if (count != a->expected)
        return LLADD_CONFLICT;
    if (a->n > ll_inventory_max(page.size) - count)
        return LLADD_PAGE_FULL;
    unsigned char *redo = lladd_draft_redo(draft, APPEND_BYTES);
    lladd_put16(redo, (uint16_t)count);
    lladd_put16(redo + 2, (uint16_t)a->n);
    lladd_put64(redo + 4, a->first.v);
    memcpy(lladd_draft_undo(draft, 4), redo, 4);
    return 0;
}

static bool append_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (s.len != (kind == LLADD_SPAN_REDO ? APPEND_BYTES : 4u))
        return false;
    uint32_t index = lladd_get16(p), n = lladd_get16(p + 2);
    uint32_t count = ll_operations__inventory_count(page);
    if (kind == LLADD_SPAN_UNDO)
        return index + n == count;
    uint64_t first = lladd_get64(p + 4);
    return index == count && n <= ll_inventory_max(page.size) - count && first > 0 &&
           first <= (UINT64_C(1) << 48) - n;
}

static void append_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    uint32_t index = lladd_get16(p), n = lladd_get16(p + 2);
    unsigned char *e = page->bytes + INVENTORY_ENTRIES + index * INVENTORY_ENTRY;
    for (uint32_t i = 0; i < n; i++, e += INVENTORY_ENTRY) {
        lladd_put48(e, lladd_get64(p + 4) + i);
        e[6] = UINT8_MAX;
        e[7] = 0;
    }
    lladd_put32(page->bytes + COUNT_AT, index + n);
}

static void append_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    uint32_t index = lladd_get16(p), n = lladd_get16(p + 2);
    memset(page->bytes + INVENTORY_ENTRIES + index * INVENTORY_ENTRY, 0, n * INVENTORY_ENTRY);
    lladd_put32(page->bytes + COUNT_AT, index);
}

static const struct lladd_field append_fields[] = {{"index", LLADD_FIELD_U16},
                                                   {"count", LLADD_FIELD_U16},
                                                   {"first", LLADD_FIELD_PAGE},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field append_undo_fields[] = {
    {"index", LLADD_FIELD_U16}, {"count", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__heap_append = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.heap.append",
    .version = 1,
    .page_type = "lladd.heap",
    .redo_fields = append_fields,
    .undo_fields = append_undo_fields,
    .record_max = APPEND_BYTES + 4,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = append_prepare,
    .validate = append_validate,
    .redo = append_redo,
    .undo = append_undo,
};

/* ---- link ------------------------------------------------------------------------------------ */

const struct lladd_op ll_operations__heap_link = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.heap.link",
    .version = 1,
    .page_type = "lladd.heap",
    LL_LINK_OP,
};

/* ---- hint ------------------------------------------------------------------------------------ */

static int hint_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    (void)ctx;
    const struct ll_heap_hint *h = args.data;
    if (h->index >= ll_operations__inventory_count(page))
        return LLADD_NOT_FOUND; /* the entry has been rolled back, and needs no hint */
    unsigned char *redo = lladd_draft_redo(draft, 3);
    lladd_put16(redo, (uint16_t)h->index);
    redo[2] = (unsigned char)h->hint;
    return 0;
}

static bool hint_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len == 3 &&
           lladd_get16(s.data) < ll_operations__inventory_count(page);
}

static void hint_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    page->bytes[INVENTORY_ENTRIES + lladd_get16(p) * INVENTORY_ENTRY + 6] = p[2];
}

static const struct lladd_field hint_fields[] = {
    {"index", LLADD_FIELD_U16}, {"hint", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__heap_hint = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.heap.hint",
    .version = 1,
    .page_type = "lladd.heap",
    .redo_fields = hint_fields,
    .record_max = 3,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = hint_prepare,
    .validate = hint_validate,
    .redo = hint_redo,
};

/* ---- the page type --------------------------------------------------------------------------- */

static bool heap_check(struct lladd_view v)
{
    uint32_t n = lladd_get32(v.bytes + COUNT_AT);
    if (n > ll_inventory_max(v.size) || lladd_get32(v.bytes + COUNT_AT + 4) != 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (ll_operations__inventory_entry(v, i).page.v == 0)
            return false;
    return true;
}

/* Masks the hints, because they are not undone. */
static void heap_mask(void *ctx, struct lladd_page *page)
{
    (void)ctx;
    for (uint32_t i = 0; i < ll_inventory_max(page->size); i++)
        page->bytes[INVENTORY_ENTRIES + i * INVENTORY_ENTRY + 6] = 0;
}

static void heap_hole(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    *begin = INVENTORY_ENTRIES + ll_operations__inventory_count(v) * INVENTORY_ENTRY;
    *end = v.size;
}

static void heap_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    lladd_sink_printf(
        sink, "heap %llu, next %llu, %u pages\n", (unsigned long long)ll_inventory_heap(v).v,
        (unsigned long long)ll_inventory_next(v).v, ll_operations__inventory_count(v));
    for (uint32_t i = 0; i < ll_operations__inventory_count(v); i++) {
        struct ll_inventory_entry e = ll_operations__inventory_entry(v, i);
        lladd_sink_printf(sink, "  %u: page %llu, room %u/256\n", i, (unsigned long long)e.page.v,
                          e.hint);
    }
}

const struct lladd_page_type ll_operations__heap_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.heap",
    .version = 1,
    .hole = heap_hole,
    .check = heap_check,
    .mask = heap_mask,
    .describe = heap_describe,
};
