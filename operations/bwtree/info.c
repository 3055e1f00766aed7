/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of the page type "lladd.bwtree", which say where the pages of trees are:
 *
 *   BW_INFO_STORE     one a database: the marks, the next number of a tree, segments
 *   BW_INFO_SEGMENTS  more segments
 *   BW_INFO_TREE      one a tree: its options
 *   BW_INFO_MAP       the addresses of a tree's pages
 *
 * They are ordinary pages in the cache. docs/structures-bwtree.md has their bytes. Two operations
 * change them: one formats a page, one sets bytes.
 */
#include "operations/bwtree/stored.h"

/* A longer change takes several records. */
enum { PIECE = 1024, FORMAT_BYTES = 4 + BW_INFO_HEAD - BW_INFO_OWN };

static bool known_kind(const unsigned char *body)
{
    unsigned kind = lladd_get16(body);
    return kind > 0 && kind < BW_INFO_KINDS && lladd_get16(body + 2) > 0;
}

/* ---- format ---------------------------------------------------------------------------------- */

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == FORMAT_BYTES && known_kind(s.data);
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    const unsigned char *from = redo.data;
    memset(body, 0, lladd_body_size(page->size));
    memcpy(body, from, 4);
    memcpy(body + BW_INFO_OWN, from + 4, BW_INFO_HEAD - BW_INFO_OWN);
}

static const struct lladd_field format_fields[] = {{"kind", LLADD_FIELD_U16},
                                                   {"version", LLADD_FIELD_U16},
                                                   {"bytes", LLADD_FIELD_REST},
                                                   {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_bwtree__info_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.bwtree.format",
    .version = 1,
    .page_type = "lladd.bwtree",
    .formats = true,
    .redo_fields = format_fields,
    .record_max = FORMAT_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

/* ---- set ------------------------------------------------------------------------------------- */

struct set_args {
    uint32_t offset;
    const void *bytes;
    size_t len;
};

static int set_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *draft)
{
    const struct set_args *set = args.data;
    (void)ctx;
    unsigned char *redo = lladd_draft_redo(draft, 2 + set->len);
    unsigned char *undo = lladd_draft_undo(draft, 2 + set->len);
    lladd_put16(redo, (uint16_t)set->offset);
    lladd_put16(undo, (uint16_t)set->offset);
    memcpy(redo + 2, set->bytes, set->len);
    memcpy(undo + 2, lladd_view_body(page) + set->offset, set->len);
    return 0;
}

/* Kind and version never change. */
static bool set_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    if (s.len < 2 || s.len > 2 + PIECE)
        return false;
    uint32_t offset = lladd_get16(s.data);
    return offset >= BW_INFO_NEXT && offset + (s.len - 2) <= lladd_body_size(page.size);
}

static void set_apply(struct lladd_page *page, struct lladd_span s)
{
    const unsigned char *from = s.data;
    memcpy(lladd_page_body(page) + lladd_get16(from), from + 2, s.len - 2);
}

static const struct lladd_field set_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"bytes", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};

const struct lladd_op ll_bwtree__info_set = {
    .struct_size = sizeof(struct lladd_op),
    .name = "lladd.bwtree.set",
    .version = 1,
    .page_type = "lladd.bwtree",
    .redo_fields = set_fields,
    .undo_fields = set_fields,
    .record_max = 2 * (2 + PIECE),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = set_prepare,
    .validate = set_validate,
    .redo = set_apply,
    .undo = set_apply,
};

/* ---- page types ------------------------------------------------------------------------------ */

static bool info_check(struct lladd_view v)
{
    return known_kind(lladd_view_body(v));
}

static void info_describe(void *ctx, struct lladd_sink *sink, struct lladd_view v)
{
    static const char *const names[BW_INFO_KINDS] = {"", "store", "segments", "tree", "map"};
    const unsigned char *body = lladd_view_body(v);
    (void)ctx;
    if (!known_kind(body))
        return;
    lladd_sink_printf(sink, "%s, version %u, next page %llu\n", names[lladd_get16(body)],
                      lladd_get16(body + 2),
                      (unsigned long long)lladd_get64(body + BW_INFO_NEXT));
    for (uint32_t at = BW_INFO_HEAD; at + BW_ENTRY <= lladd_body_size(v.size); at += BW_ENTRY)
        if (lladd_get64(body + at))
            lladd_sink_printf(sink, "%u: %llx %llx\n", (at - BW_INFO_HEAD) / BW_ENTRY,
                              (unsigned long long)lladd_get64(body + at),
                              (unsigned long long)lladd_get64(body + at + 8));
}

const struct lladd_page_type ll_bwtree__info_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.bwtree",
    .version = 1,
    .check = info_check,
    .describe = info_describe,
};

const struct lladd_page_type ll_bwtree__segment_page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.bwtree.segment",
    .version = 1,
};

/* ---- calls ----------------------------------------------------------------------------------- */

static int update(struct lladd_txn *txn, const struct lladd_op *op, lladd_pageno page,
                  const void *args, size_t len, bool undo)
{
    lladd_op_id id;
    int rc = lladd_op_lookup(lladd_txn_db(txn), op->name, op->version, &id);
    if (rc)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                               "the database was opened without lladd_bwtree_register");
    return undo ? lladd_update(txn, id, page, args, len)
                : lladd_log_redo_only(txn, id, page, args, len);
}

int ll_bwtree__info_new(struct lladd_txn *txn, enum bw_info_kind kind, const unsigned char *own,
                        lladd_pageno *out)
{
    unsigned char redo[FORMAT_BYTES];
    lladd_put16(redo, (uint16_t)kind);
    lladd_put16(redo + 2, BW_VERSION);
    memcpy(redo + 4, own, BW_INFO_HEAD - BW_INFO_OWN);
    TRY(lladd_page_alloc(txn, out));
    return update(txn, &ll_bwtree__info_format, *out, redo, sizeof redo, true);
}

int ll_bwtree__info_put(struct lladd_txn *txn, lladd_pageno page, uint32_t offset,
                        const void *bytes, size_t len, bool undo)
{
    const unsigned char *from = bytes;
    while (len > 0) {
        struct set_args set = {offset, from, len < PIECE ? len : PIECE};
        TRY(update(txn, &ll_bwtree__info_set, page, &set, sizeof set, undo));
        offset += (uint32_t)set.len;
        from += set.len;
        len -= set.len;
    }
    return 0;
}

int ll_bwtree__info_get(struct lladd_db *db, lladd_pageno n, enum bw_info_kind kind,
                        unsigned char *body, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(lladd_page_fix(db, n, LLADD_LATCH_SHARED, &page, err));
    struct lladd_view v = lladd_page_view(page);
    bool right = lladd_page_is(db, v, ll_bwtree__info_page.name);
    memcpy(body, lladd_view_body(v), lladd_body_size(v.size));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (!right || lladd_get16(body) != kind)
        return lladd_error_set(err, LLADD_CORRUPT_PAGE,
                               "page %llu is not the page of a Bw-tree that is expected there",
                               (unsigned long long)n.v);
    if (lladd_get16(body + 2) > BW_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "page %llu of a Bw-tree has version %u, this library knows versions "
                               "up to %d",
                               (unsigned long long)n.v, lladd_get16(body + 2), BW_VERSION);
    return 0;
}
