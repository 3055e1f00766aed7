/* SPDX-License-Identifier: BSD-2-Clause */
/* Root pages of lists, page type "lladd.list", and the operations of lists.
 *
 *   32 link to the first item
 *   42 link to the last item
 *   52 u16 number of heaps
 *   54 u16 zero
 *   56 u64 each: the root pages of heaps with the items; new items go to the first heap
 *
 * A link is u48 page (0: none), u16 slot, u16 turn. An item is a record of one of the heaps:
 *
 *    0 link to the previous item
 *   10 link to the next item
 *   20 u16 turn: distinguishes successive items in a slot
 *   22 u8  1 if the item is removed, else 0
 *   23 its bytes
 *
 *   lladd.list.format  redo u64 heap                          no undo
 *   lladd.list.ends    redo item (first), item (last)         undo the same fields
 *   lladd.list.heaps   redo any number of u64 heap            undo the same fields
 *   lladd.list.link    redo u16 slot, u8 which, item          undo the same fields
 *   lladd.list.mark    redo u16 slot, u8 removed              undo the same fields
 *   lladd.list.insert  no redo                                undo (logical) item: removes it
 *
 * In log records an item is u64 page, u16 slot, u16 turn. `which` is the link's offset in the
 * record: 0 previous, 10 next. Link and mark change records on slotted pages; the operations of
 * slotted pages store items and change their bytes. */
#include "operations/list/list.h"
#include "operations/records/slotted.h"

#include <string.h>

#define LOGGED 12u /* size of an item in a log record */
#define LINK_HEAD 3u
#define MARK_BYTES 3u

static void log_item(unsigned char *p, struct lladd_item i)
{
    lladd_put64(p, ll_list_none(i) ? 0 : i.page.v);
    lladd_put32(p + 8, ll_list_none(i) ? 0 : i.slot);
}
static struct lladd_item logged(const unsigned char *p)
{
    struct lladd_item i = {lladd_page_of(lladd_get64(p)), lladd_get32(p + 8)};
    return i.page.v ? i : LLADD_ITEM_NONE;
}
static bool item_fine(const unsigned char *p)
{
    return lladd_get64(p) < UINT64_C(1) << 48;
}

/* ---- format, ends, heaps --------------------------------------------------------------------- */

static int format_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                          struct lladd_draft *draft)
{
    (void)ctx;
    (void)page;
    unsigned char *redo = lladd_draft_redo(draft, args.len);
    if (args.len)
        memcpy(redo, args.data, args.len);
    return 0;
}

/* lladd_page_format passes no heap; a page that it formats is a list that can have no items. */
static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && (s.len == 0 || s.len == 8);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
    memcpy(page->bytes + LIST_HEAP, redo.data ? redo.data : "", redo.len);
    lladd_put16(page->bytes + LIST_HEAPS, redo.len != 0);
}

static int ends_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    const struct ll_list_ends *e = args.data;
    (void)ctx;
    struct ll_list_ends was = ll_list_ends_of(page.bytes);
    unsigned char *redo = lladd_draft_redo(draft, 2 * LOGGED);
    unsigned char *undo = lladd_draft_undo(draft, 2 * LOGGED);
    log_item(redo, e->first);
    log_item(redo + LOGGED, e->last);
    log_item(undo, was.first);
    log_item(undo + LOGGED, was.last);
    return 0;
}

static bool ends_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)page;
    (void)kind;
    return s.len == 2 * LOGGED && item_fine(p) && item_fine(p + LOGGED);
}

static void ends_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    ll_list_put(page->bytes + LIST_FIRST, logged(p));
    ll_list_put(page->bytes + LIST_LAST, logged(p + LOGGED));
}

static uint32_t heaps_of(struct lladd_view v)
{
    uint32_t n = lladd_get16(v.bytes + LIST_HEAPS);
    return n < LIST_HEAPS_MAX ? n : LIST_HEAPS_MAX;
}

static int heaps_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                         struct lladd_draft *draft)
{
    const struct ll_list_heaps *a = args.data;
    size_t was = 8 * heaps_of(page);
    (void)ctx;
    unsigned char *redo = lladd_draft_redo(draft, 8 * (size_t)a->n);
    for (uint32_t i = 0; i < a->n; i++)
        lladd_put64(redo + 8 * (size_t)i, a->heap[i]);
    memcpy(lladd_draft_undo(draft, was), page.bytes + LIST_HEAP, was);
    return 0;
}

static bool heaps_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len % 8 == 0 && s.len <= 8 * LIST_HEAPS_MAX;
}

static void heaps_apply(struct lladd_page *page, struct lladd_span bytes)
{
    memset(page->bytes + LIST_HEAP, 0, 8 * LIST_HEAPS_MAX);
    if (bytes.len)
        memcpy(page->bytes + LIST_HEAP, bytes.data, bytes.len);
    lladd_put16(page->bytes + LIST_HEAPS, (uint16_t)(bytes.len / 8));
}

/* ---- items: link, mark ----------------------------------------------------------------------- */

bool ll_operations__list_find(struct lladd_view v, struct lladd_item item, struct lladd_record *out)
{
    return lladd_slotted_record(v, LINK_SLOT(item), out) && out->len >= ITEM_BYTES &&
           lladd_get16(out->bytes + ITEM_TURN) == LINK_TURN(item);
}

static int no_item(struct lladd_draft *draft, struct lladd_view page, struct lladd_item item)
{
    return ll_operations__on(draft->error, page.number,
                             lladd_error_set(draft->error, LLADD_NOT_FOUND,
                                             "there is no item in slot %u of page %llu",
                                             LINK_SLOT(item), (unsigned long long)page.number.v));
}

static unsigned char *record_of(struct lladd_page *page, uint32_t slot)
{
    return page->bytes + slot_get(page->bytes, slot).at;
}

static bool slot_has_item(struct lladd_view v, uint32_t slot)
{
    struct lladd_record r;
    return lladd_slotted_record(v, slot, &r) && r.len >= ITEM_BYTES;
}

static int link_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    const struct ll_list_link *a = args.data;
    struct lladd_record r;
    (void)ctx;
    if (!ll_operations__list_find(page, a->item, &r))
        return no_item(draft, page, a->item);
    unsigned char *redo = lladd_draft_redo(draft, LINK_HEAD + LOGGED);
    unsigned char *undo = lladd_draft_undo(draft, LINK_HEAD + LOGGED);
    lladd_put16(redo, (uint16_t)LINK_SLOT(a->item));
    redo[2] = (unsigned char)a->which;
    memcpy(undo, redo, LINK_HEAD);
    log_item(redo + LINK_HEAD, a->to);
    log_item(undo + LINK_HEAD, ll_list_item(r.bytes + a->which));
    return 0;
}

static bool link_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)kind;
    return s.len == LINK_HEAD + LOGGED && (p[2] == ITEM_PREV || p[2] == ITEM_NEXT) &&
           item_fine(p + LINK_HEAD) && slot_has_item(page, lladd_get16(p));
}

static void link_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    ll_list_put(record_of(page, lladd_get16(p)) + p[2], logged(p + LINK_HEAD));
}

static int mark_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *draft)
{
    const struct ll_list_mark *a = args.data;
    struct lladd_record r;
    (void)ctx;
    if (!ll_operations__list_find(page, a->item, &r))
        return no_item(draft, page, a->item);
    unsigned char *redo = lladd_draft_redo(draft, MARK_BYTES);
    unsigned char *undo = lladd_draft_undo(draft, MARK_BYTES);
    lladd_put16(redo, (uint16_t)LINK_SLOT(a->item));
    redo[2] = a->gone;
    memcpy(undo, redo, 2);
    undo[2] = r.bytes[ITEM_GONE];
    return 0;
}

static bool mark_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len == MARK_BYTES && slot_has_item(page, lladd_get16(s.data));
}

static void mark_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    record_of(page, lladd_get16(p))[ITEM_GONE] = p[2];
}

/* ---- insert ---------------------------------------------------------------------------------- */

static bool insert_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_UNDO && s.len == LOGGED && item_fine(s.data);
}

static int insert_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    return ll_operations__list_undo(txn, logged(undo.data));
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field format_fields[] = {{"heap", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};
static const struct lladd_field ends_fields[] = {
    {"first_page", LLADD_FIELD_PAGE}, {"first_slot", LLADD_FIELD_U16},
    {"first_turn", LLADD_FIELD_U16},  {"last_page", LLADD_FIELD_PAGE},
    {"last_slot", LLADD_FIELD_U16},   {"last_turn", LLADD_FIELD_U16},
    {NULL, LLADD_FIELD_END}};
static const struct lladd_field link_fields[] = {
    {"slot", LLADD_FIELD_U16},    {"link", LLADD_FIELD_U8},     {"to_page", LLADD_FIELD_PAGE},
    {"to_slot", LLADD_FIELD_U16}, {"to_turn", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field mark_fields[] = {
    {"slot", LLADD_FIELD_U16}, {"removed", LLADD_FIELD_U8}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field heaps_fields[] = {{"heaps", LLADD_FIELD_REST},
                                                  {NULL, LLADD_FIELD_END}};
static const struct lladd_field insert_fields[] = {{"page", LLADD_FIELD_PAGE},
                                                   {"slot", LLADD_FIELD_U16},
                                                   {"turn", LLADD_FIELD_U16},
                                                   {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_operations__list_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.format",
    .version = 1,
    .page_type = "lladd.list",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = format_prepare,
    .validate = format_validate,
    .redo = format_redo,
};

const struct lladd_op ll_operations__list_ends = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.ends",
    .version = 1,
    .page_type = "lladd.list",
    .redo_fields = ends_fields,
    .undo_fields = ends_fields,
    .record_max = 4 * LOGGED,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = ends_prepare,
    .validate = ends_validate,
    .redo = ends_apply,
    .undo = ends_apply,
};

const struct lladd_op ll_operations__list_heaps = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.heaps",
    .version = 1,
    .page_type = "lladd.list",
    .redo_fields = heaps_fields,
    .undo_fields = heaps_fields,
    .record_max = 2 * 8 * LIST_HEAPS_MAX,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = heaps_prepare,
    .validate = heaps_validate,
    .redo = heaps_apply,
    .undo = heaps_apply,
};

const struct lladd_op ll_operations__list_link = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.link",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = link_fields,
    .undo_fields = link_fields,
    .record_max = 2 * (LINK_HEAD + LOGGED),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = link_prepare,
    .validate = link_validate,
    .redo = link_apply,
    .undo = link_apply,
};

const struct lladd_op ll_operations__list_mark = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.mark",
    .version = 1,
    .page_type = "lladd.slotted",
    .redo_fields = mark_fields,
    .undo_fields = mark_fields,
    .record_max = 2 * MARK_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = mark_prepare,
    .validate = mark_validate,
    .redo = mark_apply,
    .undo = mark_apply,
};

/* The logical undo of an insertion logs at most one mark. */
const struct lladd_op ll_operations__list_insert = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.list.insert",
    .version = 1,
    .undo_fields = insert_fields,
    .record_max = LOGGED,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = insert_validate,
    .compensate = insert_compensate,
    .undo_log_max = 128 + 2 * MARK_BYTES,
    .undo_pages_max = 1,
};

/* ---- the page type --------------------------------------------------------------------------- */

static bool list_check(struct lladd_view v)
{
    return lladd_get16(v.bytes + LIST_HEAPS) <= LIST_HEAPS_MAX &&
           lladd_get16(v.bytes + LIST_HEAPS + 2) == 0;
}

static void list_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    struct ll_list_ends e = ll_list_ends_of(v.bytes);
    (void)ctx;
    if (ll_list_none(e.first))
        lladd_sink_printf(sink, "no items");
    else
        lladd_sink_printf(sink, "items from page %llu, slot %u to page %llu, slot %u",
                          (unsigned long long)e.first.page.v, LINK_SLOT(e.first),
                          (unsigned long long)e.last.page.v, LINK_SLOT(e.last));
    lladd_sink_printf(sink, ", in heaps");
    for (uint32_t i = 0; i < heaps_of(v); i++)
        lladd_sink_printf(sink, " %llu",
                          (unsigned long long)lladd_get64(v.bytes + LIST_HEAP + 8 * (size_t)i));
    lladd_sink_printf(sink, "\n");
}

const struct lladd_page_type ll_operations__list_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.list",
    .version = 1,
    .check = list_check,
    .describe = list_describe,
};
