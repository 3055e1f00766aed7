/* SPDX-License-Identifier: BSD-2-Clause */
/* See testops.h. */
#include "testops.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

int test_transfer_fails;

/* ---- the page type ----------------------------------------------------------------------- */

static unsigned char *cell_at(struct lladd_page *page, unsigned index)
{
    return lladd_page_body(page) + cell_offset(index);
}

static bool cells_check(struct lladd_view page)
{
    const unsigned char *body = lladd_view_body(page);
    for (uint32_t i = CELL_STRIDE * CELLS; i < lladd_body_size(page.size); i++)
        if (body[i])
            return false;
    return true;
}

static void cells_hole(struct lladd_view page, uint32_t *begin, uint32_t *end)
{
    *begin = LLADD_PAGE_HEADER + CELL_STRIDE * CELLS;
    *end = page.size;
}

const struct lladd_page_type test_cells = {
    .struct_size = sizeof test_cells,
    .name = "test.cells",
    .version = 1,
    .hole = cells_hole,
    .check = cells_check,
};

/* ---- operations on one page -------------------------------------------------------------- */

struct cell_args {
    unsigned index;
    uint64_t value;
    size_t filling;
};

static bool format_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_REDO && s.len == 0;
}

static void format_redo(struct lladd_page *page, struct lladd_span redo)
{
    (void)redo;
    memset(lladd_page_body(page), 0, lladd_body_size(page->size));
}

/* u16 cell, u64 value */
enum { CELL_BYTES = 10 };

static bool cell_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len >= CELL_BYTES && lladd_get16(s.data) < CELLS;
}

static void put_cell(unsigned char *p, unsigned index, uint64_t value)
{
    lladd_put16(p, (uint16_t)index);
    lladd_put64(p + 2, value);
}

static int refuse(struct lladd_draft *d, const struct cell_args *a)
{
    return lladd_error_set(d->error, LLADD_BAD_ARGUMENT, "there is no cell %u", a->index);
}

static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *d)
{
    (void)ctx;
    (void)page;
    const struct cell_args *a = args.data;
    if (a->index >= CELLS)
        return refuse(d, a);
    put_cell(lladd_draft_redo(d, CELL_BYTES), a->index, a->value);
    put_cell(lladd_draft_undo(d, CELL_BYTES), a->index, a->value);
    return 0;
}

static void add_redo(struct lladd_page *page, struct lladd_span redo)
{
    const unsigned char *p = redo.data;
    unsigned char *cell = cell_at(page, lladd_get16(p));
    lladd_put64(cell, lladd_get64(cell) + lladd_get64(p + 2));
}

static void add_undo(struct lladd_page *page, struct lladd_span undo)
{
    const unsigned char *p = undo.data;
    unsigned char *cell = cell_at(page, lladd_get16(p));
    lladd_put64(cell, lladd_get64(cell) - lladd_get64(p + 2));
}

static int put_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *d)
{
    (void)ctx;
    const struct cell_args *a = args.data;
    if (a->index >= CELLS)
        return refuse(d, a);
    unsigned char *redo = lladd_draft_redo(d, CELL_BYTES + a->filling);
    unsigned char *undo = redo ? lladd_draft_undo(d, CELL_BYTES + a->filling) : NULL;
    if (!undo)
        return lladd_error_set(d->error, LLADD_TOO_LARGE, "too much filling");
    put_cell(redo, a->index, a->value);
    put_cell(undo, a->index, lladd_get64(lladd_view_body(page) + cell_offset(a->index)));
    memset(redo + CELL_BYTES, 'r', a->filling);
    memset(undo + CELL_BYTES, 'u', a->filling);
    return 0;
}

static void put_apply(struct lladd_page *page, struct lladd_span bytes)
{
    const unsigned char *p = bytes.data;
    lladd_put64(cell_at(page, lladd_get16(p)), lladd_get64(p + 2));
}

static int poke_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    (void)page;
    const struct cell_args *a = args.data;
    if (a->index >= CELLS)
        return refuse(d, a);
    put_cell(lladd_draft_redo(d, CELL_BYTES), a->index, a->value);
    return 0;
}

static const struct lladd_field cell_fields[] = {
    {"cell", LLADD_FIELD_U16}, {"value", LLADD_FIELD_I64}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field wide_fields[] = {{"cell", LLADD_FIELD_U16},
                                                 {"value", LLADD_FIELD_I64},
                                                 {"filling", LLADD_FIELD_REST},
                                                 {NULL, LLADD_FIELD_END}};

const struct lladd_op test_format = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.cells.format",
    .version = 1,
    .page_type = "test.cells",
    .formats = true,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = format_validate,
    .redo = format_redo,
};

const struct lladd_op test_add = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.add",
    .version = 1,
    .page_type = "test.cells",
    .redo_fields = cell_fields,
    .undo_fields = cell_fields,
    .record_max = 2 * CELL_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = add_prepare,
    .validate = cell_validate,
    .redo = add_redo,
    .undo = add_undo,
};

const struct lladd_op test_put = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.put",
    .version = 1,
    .page_type = "test.cells",
    .redo_fields = cell_fields,
    .undo_fields = cell_fields,
    .record_max = 2 * CELL_BYTES,
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = cell_validate,
    .redo = put_apply,
    .undo = put_apply,
};

const struct lladd_op test_wide = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.wide",
    .version = 1,
    .page_type = "test.cells",
    .redo_fields = wide_fields,
    .undo_fields = wide_fields,
    .record_max = 2 * (CELL_BYTES + WIDE_MAX),
    .undo_kind = LLADD_UNDO_PAGE,
    .prepare = put_prepare,
    .validate = cell_validate,
    .redo = put_apply,
    .undo = put_apply,
};

const struct lladd_op test_poke = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.poke",
    .version = 1,
    .page_type = "test.cells",
    .redo_fields = cell_fields,
    .record_max = CELL_BYTES,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = poke_prepare,
    .validate = cell_validate,
    .redo = put_apply,
};

/* ---- logical undo ------------------------------------------------------------------------ */

/* The undo bytes of test.bump: page, cell, delta */
enum { BUMP_BYTES = 18 };

static bool bump_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    if (kind == LLADD_SPAN_UNDO)
        return s.len == BUMP_BYTES && lladd_get16((const unsigned char *)s.data + 8) < CELLS;
    return cell_validate(page, kind, s);
}

static int bump_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    const struct cell_args *a = args.data;
    if (a->index >= CELLS)
        return refuse(d, a);
    put_cell(lladd_draft_redo(d, CELL_BYTES), a->index, a->value);
    unsigned char *undo = lladd_draft_undo(d, BUMP_BYTES);
    lladd_put64(undo, page.number.v);
    put_cell(undo + 8, a->index, a->value);
    return 0;
}

/* The compensation is not idempotent. If a crash comes after the first update, recovery undoes this
 * update before it runs the compensation again (OP-5). */
static int bump_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    const unsigned char *p = undo.data;
    struct cell c = cell_of(lladd_page_of(lladd_get64(p)), lladd_get16(p + 8));
    int64_t delta = (int64_t)lladd_get64(p + 10), half = delta / 2;
    int rc = cell_add(txn, c, -half);
    return rc ? rc : cell_add(txn, c, half - delta);
}

const struct lladd_op test_bump = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.bump",
    .version = 1,
    .page_type = "test.cells",
    .redo_fields = cell_fields,
    .record_max = CELL_BYTES + BUMP_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .prepare = bump_prepare,
    .validate = bump_validate,
    .redo = add_redo,
    .compensate = bump_compensate,
    .undo_log_max = 1024,
    .undo_pages_max = 1,
};

void transfer_encode(unsigned char out[TRANSFER_BYTES], struct cell from, struct cell to,
                     int64_t amount)
{
    lladd_put64(out, from.page.v);
    lladd_put16(out + 8, (uint16_t)from.index);
    lladd_put64(out + 10, to.page.v);
    lladd_put16(out + 18, (uint16_t)to.index);
    lladd_put64(out + 20, (uint64_t)amount);
}

static bool transfer_validate(struct lladd_view page, enum lladd_span_kind kind,
                              struct lladd_span s)
{
    const unsigned char *p = s.data;
    (void)page;
    return kind == LLADD_SPAN_UNDO && s.len == TRANSFER_BYTES && lladd_get16(p + 8) < CELLS &&
           lladd_get16(p + 18) < CELLS;
}

static int transfer_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    const unsigned char *p = undo.data;
    if (test_transfer_fails)
        return lladd_error_set(lladd_txn_error_out(txn), test_transfer_fails,
                               "told to fail by the test");
    struct cell from = cell_of(lladd_page_of(lladd_get64(p)), lladd_get16(p + 8));
    struct cell to = cell_of(lladd_page_of(lladd_get64(p + 10)), lladd_get16(p + 18));
    int64_t amount = (int64_t)lladd_get64(p + 20);
    int rc = cell_add(txn, to, -amount);
    return rc ? rc : cell_add(txn, from, amount);
}

const struct lladd_op test_transfer = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.transfer",
    .version = 1,
    .record_max = TRANSFER_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = transfer_validate,
    .compensate = transfer_compensate,
    .undo_log_max = 512,
    .undo_pages_max = 1,
};

void restore_encode(unsigned char out[RESTORE_BYTES], struct cell c, uint64_t value)
{
    lladd_put64(out, c.page.v);
    put_cell(out + 8, c.index, value);
}

static bool restore_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return kind == LLADD_SPAN_UNDO && s.len == RESTORE_BYTES &&
           lladd_get16((const unsigned char *)s.data + 8) < CELLS;
}

static int restore_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    const unsigned char *p = undo.data;
    return cell_poke(txn, cell_of(lladd_page_of(lladd_get64(p)), lladd_get16(p + 8)),
                     lladd_get64(p + 10));
}

const struct lladd_op test_restore = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.restore",
    .version = 1,
    .record_max = RESTORE_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = restore_validate,
    .compensate = restore_compensate,
    .undo_log_max = 256,
    .undo_pages_max = 1,
};

/* ---- all of it --------------------------------------------------------------------------- */

static const struct lladd_op *const ops[] = {&test_format,   &test_add,     &test_put,
                                             &test_poke,     &test_bump,    &test_wide,
                                             &test_transfer, &test_restore, NULL};
static const struct lladd_page_type *const types[] = {&test_cells, NULL};

const struct lladd_extension test_extension = {
    .struct_size = sizeof test_extension,
    .name = "test",
    .version = 1,
    .ops = ops,
    .page_types = types,
};

static lladd_op_id id_of(struct lladd_db *db, const struct lladd_op *op)
{
    lladd_op_id id = LLADD_NO_OP;
    ck_assert_int_eq(lladd_op_lookup(db, op->name, op->version, &id), 0);
    return id;
}

struct test_ids test_ids_of(struct lladd_db *db)
{
    return (struct test_ids){
        .format = id_of(db, &test_format),
        .add = id_of(db, &test_add),
        .put = id_of(db, &test_put),
        .poke = id_of(db, &test_poke),
        .bump = id_of(db, &test_bump),
        .transfer = id_of(db, &test_transfer),
        .restore = id_of(db, &test_restore),
        .wide = id_of(db, &test_wide),
    };
}

/* ---- for the tests ----------------------------------------------------------------------- */

/* Looks the operation up by name each time. The ids are not known yet when recovery runs a
 * compensation. */
static int update(struct lladd_txn *txn, const struct lladd_op *op, struct cell c, uint64_t value,
                  size_t filling)
{
    struct cell_args a = {c.index, value, filling};
    lladd_op_id id;
    int rc = lladd_op_lookup(lladd_txn_db(txn), op->name, op->version, &id);
    return rc ? rc : lladd_update(txn, id, c.page, &a, sizeof a);
}

int cells_format(struct lladd_txn *txn, lladd_pageno page)
{
    lladd_op_id id;
    int rc = lladd_op_lookup(lladd_txn_db(txn), test_format.name, 1, &id);
    return rc ? rc : lladd_update(txn, id, page, NULL, 0);
}

int cell_add(struct lladd_txn *txn, struct cell c, int64_t delta)
{
    return update(txn, &test_add, c, (uint64_t)delta, 0);
}

int cell_put(struct lladd_txn *txn, struct cell c, uint64_t value)
{
    return update(txn, &test_put, c, value, 0);
}

int cell_put_wide(struct lladd_txn *txn, struct cell c, uint64_t value, size_t len)
{
    return update(txn, &test_wide, c, value, len);
}

int cell_poke(struct lladd_txn *txn, struct cell c, uint64_t value)
{
    return update(txn, &test_poke, c, value, 0);
}

int cell_bump(struct lladd_txn *txn, struct cell c, int64_t delta)
{
    return update(txn, &test_bump, c, (uint64_t)delta, 0);
}

int cells_transfer(struct lladd_txn *txn, struct cell from, struct cell to, int64_t amount)
{
    struct lladd_action action;
    unsigned char undo[TRANSFER_BYTES];
    lladd_op_id id;
    int rc = lladd_op_lookup(lladd_txn_db(txn), test_transfer.name, 1, &id);
    if (!rc)
        rc = lladd_nta_begin(txn, &action);
    if (rc)
        return rc;
    rc = cell_add(txn, from, -amount);
    if (!rc)
        rc = cell_add(txn, to, amount);
    transfer_encode(undo, from, to, amount);
    if (!rc)
        rc = lladd_nta_end(txn, &action, id, undo, sizeof undo);
    if (rc) {
        struct lladd_error why = *lladd_txn_error(txn);
        int undone = lladd_nta_abort(txn, &action);
        *lladd_txn_error_out(txn) = why;
        rc = undone ? undone : rc;
    }
    return rc;
}

int cell_read(struct lladd_db *db, struct cell c, uint64_t *out, struct lladd_error *err)
{
    struct lladd_page *page;
    int rc = lladd_page_fix(db, c.page, LLADD_LATCH_SHARED, &page, err);
    if (rc)
        return rc;
    *out = lladd_get64(lladd_view_body(lladd_page_view(page)) + cell_offset(c.index));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

uint64_t cell_get(struct lladd_db *db, struct cell c)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t value = 0;
    int rc = cell_read(db, c, &value, &err);
    ck_assert_msg(rc == 0, "page %llu: %s", (unsigned long long)c.page.v, err.message);
    return value;
}
