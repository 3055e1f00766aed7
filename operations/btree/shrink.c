/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of merges. None of them is undone: see merge.c.
 *
 *   unindex  redo u16 slot: an inner node loses a child
 *   widen    redo u64 right node, its contents as in fill: the left node of a merge gets its
 *            entries, its high fence and its right link; the right node becomes the spare page
 *   close    redo u64 next page of the free list, 0: none; the page is closed and has no entries */
#include "operations/btree/tree.h"

#define WIDEN_HEAD 8u

/* ---- unindex --------------------------------------------------------------------------------- */

static bool unindex_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len == 2 && ll_btree__fine(v) && v.bytes[BT_LEVEL] > 0 &&
           lladd_get16(s.data) > 0 && lladd_get16(s.data) < bt_get(v.bytes, BT_SLOTS);
}

static void unindex_redo(struct lladd_page *page, struct lladd_span redo)
{
    uint32_t slot = lladd_get16(redo.data);
    ll_btree__drop(page->bytes, slot, slot + 1);
}

/* ---- widen ----------------------------------------------------------------------------------- */

uint32_t ll_btree__together(const unsigned char *left, const unsigned char *right, uint32_t size)
{
    struct bt_fences a = bt_fences_of(left, size), b = bt_fences_of(right, size);
    uint32_t first_key = right[BT_LEVEL] > 0 ? b.low.len : 0;
    return BT_SLOT_AREA + a.low.len + b.high.len + first_key + bt_held_bytes(left, size) +
           bt_held_bytes(right, size);
}

static struct lladd_span contents_of(struct lladd_span s)
{
    return lladd_span_of((const unsigned char *)s.data + WIDEN_HEAD, s.len - WIDEN_HEAD);
}

/* Bytes that the node's entries take, with their slots. The record has been checked. */
static uint64_t entry_bytes(const struct bt_fill *f)
{
    uint64_t sum = f->level > 0 ? f->fences.low.len : 0;
    const unsigned char *p = f->packed;
    for (size_t left = f->len, n; left > 0; left -= n, p += n) {
        struct bt_entry e;
        n = ll_btree__unpack(p, left, &e);
        sum += BT_SLOT + bt_entry_size(BT_LEN(e.key_len), e.cap);
    }
    return sum;
}

static bool widen_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    struct bt_fill f;
    if (kind != LLADD_SPAN_REDO || s.len < WIDEN_HEAD || lladd_get64(s.data) >> 48 ||
        !ll_btree__fine(v) || !ll_btree__fill_fine(v, contents_of(s), false, &f))
        return false;
    struct bt_fences b = bt_fences_of(v.bytes, v.size);
    return !f.closed && f.level == v.bytes[BT_LEVEL] &&
           f.root.v == lladd_get48(v.bytes + BT_ROOT) && (f.level == 0 || f.len > 0) &&
           !b.open_end && bt_compare(b.high, f.fences.low) == 0 &&
           BT_SLOT_AREA + (uint64_t)b.low.len + f.fences.high.len + bt_held_bytes(v.bytes, v.size) +
                   entry_bytes(&f) <=
               v.size;
}

static int widen_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    const struct bt_widen *w = args.data;
    size_t len = WIDEN_HEAD + ll_btree__fill_size(&w->right);
    unsigned char *p = lladd_draft_redo(d, len);
    if (!p)
        return lladd_error_set(d->error, LLADD_BUG, "%zu bytes for a node", len);
    lladd_put64(p, w->page.v);
    ll_btree__fill_write(p + WIDEN_HEAD, &w->right);
    return widen_validate(v, LLADD_SPAN_REDO, lladd_span_of(p, len))
               ? 0
               : lladd_error_set(d->error, LLADD_BUG, "two nodes cannot be merged");
}

static void widen_redo(struct lladd_page *page, struct lladd_span redo)
{
    struct bt_fill f;
    struct lladd_view v = {page->bytes, page->size, 0, page->number};
    if (!ll_btree__fill_read(v, contents_of(redo), false, &f))
        return;
    lladd_put48(page->bytes + BT_RIGHT, f.right.v);
    lladd_put48(page->bytes + BT_SPARE, lladd_get64(redo.data));
    ll_btree__set_high(page->bytes, page->size, f.fences.high, f.fences.open_end);
    const unsigned char *p = f.packed;
    for (size_t left = f.len, n; left > 0; left -= n, p += n) {
        struct bt_entry e;
        n = ll_btree__unpack(p, left, &e);
        if (f.level > 0 && p == f.packed) { /* the fence stands for the first key */
            e.key = f.fences.low.bytes;
            e.key_len = (uint16_t)f.fences.low.len;
        }
        ll_btree__add(page->bytes, page->size, bt_get(page->bytes, BT_SLOTS), &e);
    }
}

/* ---- close ----------------------------------------------------------------------------------- */

static bool close_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_REDO && s.len == 8 && !(lladd_get64(s.data) >> 48);
}

static void close_redo(struct lladd_page *page, struct lladd_span redo)
{
    const struct bt_fences none = {.open_end = true};
    page->bytes[BT_FLAGS] = BT_CLOSED;
    lladd_put48(page->bytes + BT_RIGHT, lladd_get64(redo.data));
    lladd_put48(page->bytes + BT_SPARE, 0);
    ll_btree__clear(page->bytes, page->size, &none);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static const struct lladd_field unindex_fields[] = {{"slot", LLADD_FIELD_U16},
                                                    {NULL, LLADD_FIELD_END}};
static const struct lladd_field widen_fields[] = {{"page", LLADD_FIELD_PAGE}, BT_FILL_FIELDS};
static const struct lladd_field close_fields[] = {{"next", LLADD_FIELD_PAGE},
                                                  {NULL, LLADD_FIELD_END}};

#define SHRINK_OP(most, how) \
    .struct_size = sizeof(struct lladd_op), .version = 1, .page_type = "lladd.btree.node", \
    .record_max = (most), .validate = how##_validate, .redo_fields = how##_fields, \
    .undo_kind = LLADD_UNDO_NONE, .redo = how##_redo

const struct lladd_op ll_btree__unindex = {
    .name = "lladd.btree.unindex",
    SHRINK_OP(2, unindex),
};
const struct lladd_op ll_btree__widen = {
    .name = "lladd.btree.widen",
    SHRINK_OP(BT_PAGE_MAX, widen),
    .prepare = widen_prepare,
    .record_pages = 1,
};
const struct lladd_op ll_btree__close = {
    .name = "lladd.btree.close",
    SHRINK_OP(8, close),
};
