/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of a ring, each on one page. */
#include "page.h"

/* ---- page types ---------------------------------------------------------------------------- */

bool head_sane(struct lladd_view page)
{
    const unsigned char *body = lladd_view_body(page);
    uint16_t pages = lladd_get16(body + PAGES);
    return pages >= 1 && LIST + 8u * pages <= lladd_body_size(page.size) &&
           lladd_get16(body + SLOTS) >= 1 && lladd_get16(body + SIZE) >= 1 &&
           lladd_get16(body + SIZE) <= RING_ITEM_MAX;
}

bool items_sane(struct lladd_view page)
{
    const unsigned char *body = lladd_view_body(page);
    uint16_t size = lladd_get16(body), slots = lladd_get16(body + 2);
    return size >= 1 && size <= RING_ITEM_MAX && slots >= 1 &&
           slot_at(body, slots) <= lladd_body_size(page.size);
}

const struct lladd_page_type ring_head_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = RING_HEAD,
    .version = 1,
    .check = head_sane,
};

/* [items_page] */
const struct lladd_page_type ring_items_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = RING_ITEMS,
    .version = 1,
    .check = items_sane,
};
/* [/items_page] */

/* ---- formats: the record has the constant numbers of the new page ---------------------------- */

static bool head_format_validate(struct lladd_view page, enum lladd_span_kind kind,
                                 struct lladd_span bytes)
{
    return kind == LLADD_SPAN_REDO && bytes.len >= 6 &&
           LIST + bytes.len - 6 <= lladd_body_size(page.size);
}

static void head_format_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    memcpy(body + SIZE, redo.data, 6);
    memcpy(body + LIST, (const unsigned char *)redo.data + 6, redo.len - 6);
}

static const struct lladd_field head_format_fields[] = {{"size", LLADD_FIELD_U16},
                                                        {"slots", LLADD_FIELD_U16},
                                                        {"pages", LLADD_FIELD_U16},
                                                        {"list", LLADD_FIELD_REST},
                                                        {NULL, LLADD_FIELD_END}};
const struct lladd_op ring_head_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ring.format",
    .version = 1,
    .page_type = RING_HEAD,
    .formats = true,
    .redo_fields = head_format_fields,
    .record_max = 1u << 16,
    .record_pages = 1,
    .undo_kind = LLADD_UNDO_NONE, /* the page was free before */
    .validate = head_format_validate,
    .redo = head_format_redo,
};

/* [items_format] The record has the size of an item and the number of slots. */
static bool items_format_validate(struct lladd_view page, enum lladd_span_kind kind,
                                  struct lladd_span bytes)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && bytes.len == 4;
}

static void items_format_redo(struct lladd_page *page, struct lladd_span redo)
{
    memcpy(lladd_page_body(page), redo.data, 4);
}

static const struct lladd_field items_format_fields[] = {{"size", LLADD_FIELD_U16},
                                                         {"slots", LLADD_FIELD_U16},
                                                         {NULL, LLADD_FIELD_END}};
const struct lladd_op ring_items_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ring.items.format",
    .version = 1,
    .page_type = RING_ITEMS,
    .formats = true,
    .redo_fields = items_format_fields,
    .record_max = 4,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = items_format_validate,
    .redo = items_format_redo,
};
/* [/items_format] */

/* ---- set: one slot ------------------------------------------------------------------------- */

/* [set] The arguments are the redo bytes: slot, state, item. The undo bytes are the previous
 * contents of the slot. The transaction has a lock on the item, so no other transaction changes the
 * slot before the transaction ends. */
static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    const unsigned char *body = lladd_view_body(page);
    size_t item = 1u + lladd_get16(body), slot = slot_at(body, lladd_get16(args.data));
    (void)ctx;
    unsigned char *redo = lladd_draft_redo(draft, args.len);
    unsigned char *undo = redo ? lladd_draft_undo(draft, 2 + item) : NULL;
    if (!undo)
        return lladd_error_set(draft->error, LLADD_TOO_LARGE, "the item is too large");
    memcpy(redo, args.data, args.len);
    memcpy(undo, args.data, 2);
    memcpy(undo + 2, body + slot, item);
    return 0;
}

static bool set_validate(struct lladd_view page, enum lladd_span_kind kind,
                         struct lladd_span bytes)
{
    const unsigned char *body = lladd_view_body(page);
    (void)kind;
    return items_sane(page) && bytes.len == SET_HEAD + (size_t)lladd_get16(body) &&
           lladd_get16(bytes.data) < lladd_get16(body + 2);
}

static void set_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    const unsigned char *b = redo.data;
    memcpy(body + slot_at(body, lladd_get16(b)), b + 2, redo.len - 2);
}
/* [/set] */

static const struct lladd_field set_fields[] = {{"slot", LLADD_FIELD_U16},
                                                {"state", LLADD_FIELD_U8},
                                                {"item", LLADD_FIELD_REST},
                                                {NULL, LLADD_FIELD_END}};
const struct lladd_op ring_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ring.set",
    .version = 1,
    .page_type = RING_ITEMS,
    .redo_fields = set_fields,
    .undo_fields = set_fields,
    .record_max = 2 * (SET_HEAD + RING_ITEM_MAX),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_redo,
    .undo = set_redo,
};

/* ---- move: the numbers of the head page ------------------------------------------------------ */

/* [move] Redo adds and undo subtracts, because other transactions change the numbers, too. The
 * operation has no `prepare`, so its arguments are both the redo bytes and the undo bytes. */
static bool move_validate(struct lladd_view page, enum lladd_span_kind kind,
                          struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len == MOVE;
}

static void move_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    for (int at = NEXT; at <= COUNT; at += 8)
        lladd_put64(body + at,
                    lladd_get64(body + at) + lladd_get64((const char *)redo.data + at));
}

static void move_undo(struct lladd_page *page, struct lladd_span undo)
{
    unsigned char *body = lladd_page_body(page);
    for (int at = NEXT; at <= COUNT; at += 8)
        lladd_put64(body + at,
                    lladd_get64(body + at) - lladd_get64((const char *)undo.data + at));
}
/* [/move] */

static const struct lladd_field move_fields[] = {{"next", LLADD_FIELD_I64},
                                                 {"first", LLADD_FIELD_I64},
                                                 {"count", LLADD_FIELD_I64},
                                                 {NULL, LLADD_FIELD_END}};
const struct lladd_op ring_move = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ring.move",
    .version = 1,
    .page_type = RING_HEAD,
    .redo_fields = move_fields,
    .undo_fields = move_fields,
    .record_max = 2 * MOVE,
    .undo_kind = LLADD_UNDO_PAGE,
    .validate = move_validate,
    .redo = move_redo,
    .undo = move_undo,
};

/* ---- put: the end of a top action, undone as a whole ----------------------------------------- */

static bool put_validate(struct lladd_view page, enum lladd_span_kind kind,
                         struct lladd_span bytes)
{
    (void)page; /* a logical undo has no page */
    return kind == LLADD_SPAN_UNDO && bytes.len == UNDO;
}

static const struct lladd_field put_fields[] = {{"ring", LLADD_FIELD_PAGE},
                                                {"number", LLADD_FIELD_U64},
                                                {NULL, LLADD_FIELD_END}};
/* [put_op] The undo of a put is not the inverse of its two records: other transactions may have put
 * items since, so the next number does not decrease, and the slot becomes a gap. */
const struct lladd_op ring_put_op = {
    .struct_size = sizeof(struct lladd_op),
    .name = "example.ring.put",
    .version = 1,
    .undo_fields = put_fields,
    .record_max = UNDO,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = put_validate,
    .compensate = ring_put_back,
    .undo_log_max = SET_LOG + MOVE_LOG, /* one record of each operation */
    .undo_pages_max = 2,                /* the head page and a page of slots */
};
/* [/put_op] */
