/* SPDX-License-Identifier: BSD-2-Clause */
/* The root page: page type "lladd.btree". It identifies the tree, and names the top node.
 *
 *   32 u32 layout: 1
 *   36 u32 0; 1: no tree: its creation has not ended, or was rolled back, or it has been destroyed
 *   40 u32 length of every key, 0: any
 *   44 u32 length of every value, 0: any
 *   48 u48 the top node
 *   54 u16 its level
 *   56 u48 page for the next top node, 0: none
 *   62 u48 first page of the free list (free.c), 0: none
 *   68 u32 pages in it
 *
 *   format   redo u32 key size, u32 value size, u64 top node   no undo
 *   top      redo u64 top node, u16 level                      no undo; there is no spare page then
 *   spare    redo u64, undo u64: the spare page
 *   free     redo, undo u64 first free page, u32 free pages
 *   create   redo u32 0, undo u32 1: the tree exists
 *   destroy  redo u32 1, undo u32: it does not exist */
#include "operations/btree/tree.h"

#define FORMAT_BYTES 16u
#define FREE_BYTES 12u

static bool sizes_fine(const unsigned char *p)
{
    return lladd_get32(p) <= BT_KEY_MAX && lladd_get32(p + 4) <= BT_PAGE_MAX / 4;
}

static bool page_fine(const unsigned char *p)
{
    return lladd_get64(p) != 0 && !(lladd_get64(p) >> 48);
}

static bool format_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    const unsigned char *p = s.data;
    return kind == LLADD_SPAN_REDO && s.len == FORMAT_BYTES && sizes_fine(p) && page_fine(p + 8);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    lladd_put32(page->bytes + BR_LAYOUT, BR_LAYOUT_KNOWN);
    lladd_put32(page->bytes + BR_STATE, 1);
    memcpy(page->bytes + BR_KEY, p, 8);
    lladd_put48(page->bytes + BR_TOP, lladd_get64(p + 8));
}

static bool top_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    const unsigned char *p = s.data;
    return kind == LLADD_SPAN_REDO && s.len == 10 && page_fine(p) &&
           lladd_get16(p + 8) <= BT_LEVEL_MAX;
}

static void top_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    lladd_put48(page->bytes + BR_TOP, lladd_get64(p));
    memcpy(page->bytes + BR_TOP + 6, p + 8, 2);
    lladd_put48(page->bytes + BR_SPARE, 0);
}

static int spare_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    memcpy(lladd_draft_redo(d, 8), args.data, 8);
    lladd_put64(lladd_draft_undo(d, 8), lladd_get48(v.bytes + BR_SPARE));
    return 0;
}

static bool spare_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 8 && !(lladd_get64(s.data) >> 48);
}

static void spare_apply(struct lladd_page *page, struct lladd_span bytes)
{
    lladd_put48(page->bytes + BR_SPARE, lladd_get64(bytes.data));
}

static int draft_state(struct lladd_view v, uint32_t state, struct lladd_draft *d)
{
    lladd_put32(lladd_draft_redo(d, 4), state);
    memcpy(lladd_draft_undo(d, 4), v.bytes + BR_STATE, 4);
    return 0;
}

static int create_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                          struct lladd_draft *d)
{
    (void)ctx;
    (void)args;
    return draft_state(v, 0, d);
}

static int free_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    memcpy(lladd_draft_redo(d, FREE_BYTES), args.data, FREE_BYTES);
    unsigned char *undo = lladd_draft_undo(d, FREE_BYTES);
    lladd_put64(undo, lladd_get48(v.bytes + BR_FREE));
    memcpy(undo + 8, v.bytes + BR_FREE + 6, 4);
    return 0;
}

static bool free_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    const unsigned char *p = s.data;
    return s.len == FREE_BYTES && !(lladd_get64(p) >> 48) &&
           (lladd_get64(p) == 0) == (lladd_get32(p + 8) == 0);
}

static void free_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    lladd_put48(page->bytes + BR_FREE, lladd_get64(p));
    memcpy(page->bytes + BR_FREE + 6, p + 8, 4);
}

static int destroy_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                           struct lladd_draft *d)
{
    (void)ctx;
    (void)args;
    return draft_state(v, 1, d);
}

static bool state_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 4 && lladd_get32(s.data) <= 1;
}

static void state_apply(struct lladd_page *page, struct lladd_span bytes)
{
    memcpy(page->bytes + BR_STATE, bytes.data, 4);
}

static const struct lladd_field format_fields[] = {{"key_size", LLADD_FIELD_U32},
                                                   {"value_size", LLADD_FIELD_U32},
                                                   {"top", LLADD_FIELD_PAGE},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field top_fields[] = {
    {"top", LLADD_FIELD_PAGE}, {"level", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field spare_fields[] = {{"page", LLADD_FIELD_PAGE},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field free_fields[] = {
    {"first", LLADD_FIELD_PAGE}, {"pages", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field state_fields[] = {{"destroyed", LLADD_FIELD_U32},
                                                  {NULL, LLADD_FIELD_END}};

#define ROOT_OP(most, how) \
    .struct_size = sizeof(struct lladd_op), .version = 1, .page_type = "lladd.btree", \
    .record_max = (most), .validate = how##_validate, .redo_fields = how##_fields

const struct lladd_op ll_btree__root_format = {
    .name = "lladd.btree.format",
    ROOT_OP(FORMAT_BYTES, format),
    .formats = true,
    .undo_kind = LLADD_UNDO_NONE,
    .redo = format_redo,
};
const struct lladd_op ll_btree__root_top = {
    .name = "lladd.btree.top",
    ROOT_OP(10, top),
    .undo_kind = LLADD_UNDO_NONE,
    .redo = top_redo,
};
const struct lladd_op ll_btree__root_spare = {
    .name = "lladd.btree.root.spare",
    ROOT_OP(16, spare),
    .undo_fields = spare_fields,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = spare_prepare,
    .redo = spare_apply,
    .undo = spare_apply,
};
const struct lladd_op ll_btree__root_create = {
    .name = "lladd.btree.create",
    ROOT_OP(8, state),
    .undo_fields = state_fields,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = create_prepare,
    .redo = state_apply,
    .undo = state_apply,
};
const struct lladd_op ll_btree__root_free = {
    .name = "lladd.btree.root.free",
    ROOT_OP(2 * FREE_BYTES, free),
    .undo_fields = free_fields,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = free_prepare,
    .redo = free_apply,
    .undo = free_apply,
};
const struct lladd_op ll_btree__root_destroy = {
    .name = "lladd.btree.destroy",
    ROOT_OP(8, state),
    .undo_fields = state_fields,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = destroy_prepare,
    .redo = state_apply,
    .undo = state_apply,
};

static bool root_check(struct lladd_view v)
{
    const unsigned char *p = v.bytes;
    return lladd_get32(p + BR_LAYOUT) == BR_LAYOUT_KNOWN && lladd_get32(p + BR_STATE) <= 1 &&
           sizes_fine(p + BR_KEY) && lladd_get16(p + BR_TOP + 6) <= BT_LEVEL_MAX &&
           lladd_get48(p + BR_TOP) != 0 &&
           (lladd_get48(p + BR_FREE) == 0) == (lladd_get32(p + BR_FREE + 6) == 0);
}

static void root_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    (void)ctx;
    const unsigned char *p = v.bytes;
    lladd_sink_printf(sink, "keys of %u bytes, values of %u (0: any)%s\n", lladd_get32(p + BR_KEY),
                      lladd_get32(p + BR_VALUE), lladd_get32(p + BR_STATE) ? ", no tree" : "");
    lladd_sink_printf(sink, "top node %llu, level %u, spare page %llu\n",
                      (unsigned long long)lladd_get48(p + BR_TOP), lladd_get16(p + BR_TOP + 6),
                      (unsigned long long)lladd_get48(p + BR_SPARE));
    lladd_sink_printf(sink, "%u free pages, the first one %llu\n", lladd_get32(p + BR_FREE + 6),
                      (unsigned long long)lladd_get48(p + BR_FREE));
}

const struct lladd_page_type ll_btree__root_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.btree",
    .version = 1,
    .check = root_check,
    .describe = root_describe,
};
