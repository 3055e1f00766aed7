/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations and the core:
 * - defaults for callbacks that an operation does not have;
 * - promises that debug builds check before they log a record;
 * - page images of every kind;
 * - stored bytes that `validate` no longer accepts;
 * - the printing of records.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

static void begin_with(const struct lladd_op *op, unsigned kind)
{
    fixture_init(&r, kind);
    if (op)
        ok_db(&r, lladd_register_op(&r.options, op, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
}

static lladd_op_id id_of(const char *name)
{
    lladd_op_id id = LLADD_NO_OP;
    ck_assert_int_eq(lladd_op_lookup(r.db, name, 0, &id), 0);
    return id;
}

/* ---- latches --------------------------------------------------------------------------------- */

START_TEST(update_page_is_refused_on_a_page_held_shared)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    struct lladd_page *held;
    begin_with(NULL, (unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_credit(txn, r.ids.put, 1));
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_SHARED, &held, &r.err));
    refused(txn, LLADD_BAD_STATE, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "held shared"));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "LLADD_LATCH_EXCLUSIVE"));
    lladd_page_unfix(r.db, held, LLADD_LATCH_SHARED);
    fixture_expect(&r, at(3), 0);
    /* The refused call has changed nothing. The same call succeeds if the caller has the latch that
     * the call requires. */
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held, &r.err));
    ok(txn, lladd_update_page(txn, r.ids.put, held, &args, sizeof args));
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    done(lladd_commit(txn));
    fixture_expect(&r, at(3), 77);
    fixture_free(&r);
}
END_TEST

/* ---- without prepare ------------------------------------------------------------------------- */

/* "test.xor" has no `prepare`: its arguments become the redo bytes and the undo bytes. */
static bool xor_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 10 && lladd_get16(s.data) < CELLS;
}

static void xor_apply(struct lladd_page *p, struct lladd_span s)
{
    const unsigned char *b = s.data;
    unsigned char *cell = lladd_page_body(p) + cell_offset(lladd_get16(b));
    lladd_put64(cell, lladd_get64(cell) ^ lladd_get64(b + 2));
}

static const struct lladd_op xor_op = {
    .struct_size = sizeof xor_op,
    .name = "test.xor",
    .version = 1,
    .page_type = "test.cells",
    .record_max = 20,
    .undo_kind = LLADD_UNDO_PAGE,
    .validate = xor_validate,
    .redo = xor_apply,
    .undo = xor_apply,
};

START_TEST(an_operation_may_do_without_prepare)
{
    unsigned char args[12] = {0};
    begin_with(&xor_op, (unsigned)_i);
    lladd_put16(args, 3);
    lladd_put64(args + 2, 0xff);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_update(txn, id_of("test.xor"), page, args, 10));
    fixture_expect(&r, at(3), 0xff);
    refused(txn, LLADD_TOO_LARGE, lladd_update(txn, id_of("test.xor"), page, args, 12));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, id_of("test.xor"), page, args, 9));
    lladd_put16(args, CELLS);
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, id_of("test.xor"), page, args, 10));
    done(lladd_abort(txn));
    fixture_expect(&r, at(3), 0);
    fixture_free(&r);
}
END_TEST

/* "test.mark" formats a page, and writes its argument, an even byte, to the page. Recovery and the
 * forward call both give `validate` a page of zeros with the new type. */
static bool mark_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && s.len == 1 && *(const unsigned char *)s.data % 2 == 0 &&
           v.type != 0 && lladd_view_body(v)[0] == 0 && lladd_view_body(v)[4000] == 0;
}

static void mark_redo(struct lladd_page *p, struct lladd_span s)
{
    memset(lladd_page_body(p), 0, lladd_body_size(p->size));
    lladd_put64(lladd_page_body(p), *(const unsigned char *)s.data);
}

static const struct lladd_op mark_op = {
    .struct_size = sizeof mark_op,
    .name = "test.mark",
    .version = 1,
    .page_type = "test.cells",
    .formats = true,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = mark_validate,
    .redo = mark_redo,
};

START_TEST(a_page_is_not_formatted_with_bytes_that_recovery_would_refuse)
{
    begin_with(&mark_op, (unsigned)_i);
    fixture_set(&r, at(0), 7);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, id_of("test.mark"), page, "\3", 1));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_update(txn, id_of("test.mark"), page, "\2\2", 2));
    fixture_expect(&r, at(0), 7);
    ok(txn, lladd_update(txn, id_of("test.mark"), page, "\2", 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 2);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 2);
    fixture_free(&r);
}
END_TEST

/* A prepare that fails without setting an error. */
static int dumb_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                        struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    (void)args;
    (void)d;
    return LLADD_NOT_FOUND;
}

START_TEST(a_prepare_that_says_nothing_is_given_a_message)
{
    struct lladd_op op = xor_op;
    op.prepare = dumb_prepare;
    begin_with(&op, (unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_NOT_FOUND, lladd_update(txn, id_of("test.xor"), page, "", 0));
    ck_contains(lladd_txn_error(txn)->message, "test.xor");
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST

/* ---- page images ----------------------------------------------------------------------------- */

/* A page type with random contents, so that page images cannot be packed. Its `hole` is invalid. */
static void odd_hole(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    (void)v;
    *begin = 8;
    *end = 100;
}

static bool noise_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)kind;
    return s.len == 8;
}

/* With this seed the contents are not random, so that page images can be packed. */
enum { SILENCE = 0 };

static void fill_body(uint64_t seed, void *body, size_t len)
{
    if (seed == SILENCE)
        memset(body, 7, len);
    else
        seeded_fill(seed, body, len);
}

static void noise_redo(struct lladd_page *p, struct lladd_span s)
{
    fill_body(lladd_get64(s.data), lladd_page_body(p), lladd_body_size(p->size));
}

static int noise_prepare(void *ctx, struct lladd_view v, struct lladd_span args,
                         struct lladd_draft *d)
{
    (void)ctx;
    (void)v;
    memcpy(lladd_draft_redo(d, 8), args.data, 8);
    return 0;
}

static const struct lladd_page_type noise_page = {
    .struct_size = sizeof noise_page,
    .name = "test.noise",
    .version = 1,
    .hole = odd_hole,
};

static const struct lladd_op noise_format = {
    .struct_size = sizeof noise_format,
    .name = "test.noise.format",
    .version = 1,
    .page_type = "test.noise",
    .formats = true,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = noise_prepare,
    .validate = noise_validate,
    .redo = noise_redo,
};

static const struct lladd_op noise_change = {
    .struct_size = sizeof noise_change,
    .name = "test.noise.change",
    .version = 1,
    .page_type = "test.noise",
    .record_max = 8,
    .undo_kind = LLADD_UNDO_NONE,
    .prepare = noise_prepare,
    .validate = noise_validate,
    .redo = noise_redo,
};

static void expect_noise(lladd_pageno where, uint64_t seed)
{
    struct lladd_page *p;
    unsigned char *want = malloc(4096);
    fill_body(seed, want, lladd_body_size(4096));
    ok_db(&r, lladd_page_fix(r.db, where, LLADD_LATCH_SHARED, &p, &r.err));
    ck_assert_mem_eq(lladd_view_body(lladd_page_view(p)), want, lladd_body_size(4096));
    lladd_page_unfix(r.db, p, LLADD_LATCH_SHARED);
    free(want);
}

static void open_noisy(unsigned kind)
{
    fixture_init(&r, kind);
    ok_db(&r, lladd_register_page_type(&r.options, &noise_page, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &noise_format, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &noise_change, &r.err));
    fixture_open(&r);
}

START_TEST(a_page_that_cannot_be_packed_is_imaged_as_it_is)
{
    unsigned char seed[8];
    lladd_pageno where = lladd_page_of(9);
    open_noisy((unsigned)_i);
    page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_put64(seed, 1);
    ok(txn, lladd_update(txn, id_of("test.noise.format"), where, seed, 8));
    done(lladd_commit(txn));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    uint64_t images = fixture_stats(&r).page_images, tail = fixture_stats(&r).log_tail;
    txn = fixture_begin(&r);
    lladd_put64(seed, 2);
    ok(txn, lladd_update(txn, id_of("test.noise.change"), where, seed, 8));
    done(lladd_commit(txn));
    ok_db(&r, lladd_checkpoint(r.db, &r.err)); /* writes the page */
    ck_assert_uint_eq(fixture_stats(&r).page_images, images + 1);
    ck_assert_uint_gt(fixture_stats(&r).log_tail - tail, 4000);
    expect_noise(where, 2);
    fixture_crash(&r, &fault_power);
    if (!r.dir) { /* also damages the page, as a torn write would */
        size_t len;
        unsigned char *bytes = fixture_file(&r, "pages", &len);
        memset(bytes + where.v * 4096 + 1000, 0, 500);
        fixture_file_write(&r, "pages", bytes, len, 0);
        free(bytes);
    }
    fixture_open(&r);
    expect_noise(where, 2);
    fixture_free(&r);
}
END_TEST

/* Changes each page in a transaction of its own, so that the images of the pages are logged one
 * after the other. */
static void fill_pages(const char *op, uint64_t first, unsigned n, uint64_t seed)
{
    unsigned char bytes[8];
    lladd_put64(bytes, seed);
    for (unsigned i = 0; i < n; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_update(txn, id_of(op), lladd_page_of(first + i), bytes, 8));
        done(lladd_commit(txn));
    }
}

/* After many images that could not be packed, the library tries to pack only some images, until one
 * can be packed. */
START_TEST(pages_that_cannot_be_packed_are_tried_now_and_then)
{
    enum { NOISY = 40, SILENT = 48, TRIED = 16 };
    const uint64_t noisy = 100, silent = 200;
    open_noisy((unsigned)_i);
    page = fixture_page(&r);
    fill_pages("test.noise.format", noisy, NOISY, 1);
    fill_pages("test.noise.format", silent, SILENT, SILENCE);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    uint64_t images = fixture_stats(&r).page_images, tail = fixture_stats(&r).log_tail;
    fill_pages("test.noise.change", noisy, NOISY, 2);
    ok_db(&r, lladd_checkpoint(r.db, &r.err)); /* writes the pages */
    ck_assert_uint_eq(fixture_stats(&r).page_images, images + NOISY);
    ck_assert_uint_gt(fixture_stats(&r).log_tail - tail, (uint64_t)NOISY * 4000);
    tail = fixture_stats(&r).log_tail;
    fill_pages("test.noise.change", silent, SILENT, SILENCE);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_eq(fixture_stats(&r).page_images, images + NOISY + SILENT);
    ck_assert_uint_lt(fixture_stats(&r).log_tail - tail, (uint64_t)(TRIED + SILENT / 4) * 4096);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < NOISY; i++)
        expect_noise(lladd_page_of(noisy + i), 2);
    for (unsigned i = 0; i < SILENT; i++)
        expect_noise(lladd_page_of(silent + i), SILENCE);
    fixture_free(&r);
}
END_TEST

/* ---- contracts (debug builds) ---------------------------------------------------------------- */

#ifdef LLADD_DEBUG
static unsigned calls;

static void impure_redo(struct lladd_page *p, struct lladd_span s)
{
    xor_apply(p, s);
    lladd_page_body(p)[8] = (unsigned char)++calls; /* depends neither on the page nor on the redo
                                                     * bytes */
}

static void careless_redo(struct lladd_page *p, struct lladd_span s)
{
    xor_apply(p, s);
    p->bytes[8]++; /* changes the page header, which only the core may change */
}

static void hole_redo(struct lladd_page *p, struct lladd_span s)
{
    xor_apply(p, s);
    /* Depends on bytes of the hole, which images omit. */
    lladd_page_body(p)[0] = lladd_page_body(p)[CELL_STRIDE * CELLS + 5];
}

static void forgetful_undo(struct lladd_page *p, struct lladd_span s)
{
    (void)p;
    (void)s;
}

static void destructive_undo(struct lladd_page *p, struct lladd_span s)
{
    xor_apply(p, s);
    p->bytes[8]++;
}

static bool first_cell_is_small(struct lladd_view v)
{
    return lladd_get64(lladd_view_body(v) + cell_offset(3)) < 1000;
}

static bool refuses_undo(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && xor_validate(v, kind, s);
}

static unsigned validations;
static bool refuses_later(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return validations++ == 0 && xor_validate(v, kind, s);
}

static void broken_promise(struct lladd_op op, const char *what)
{
    unsigned char args[10];
    lladd_put16(args, 3);
    lladd_put64(args + 2, UINT64_C(0x123456789));
    validations = 0;
    begin_with(&op, 0);
    uint64_t tail = fixture_stats(&r).log_tail;
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_BUG, lladd_update(txn, id_of("test.xor"), page, args, 10));
    ck_contains(lladd_txn_error(txn)->message, what);
    ck_contains(lladd_txn_error(txn)->message, "test.xor");
    fixture_expect(&r, at(3), 0);
    ck_assert_uint_le(fixture_stats(&r).log_tail, tail + 128); /* logs at most the name of the
                                                                * operation */
    ok(txn, cell_put(txn, at(3), 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(3), 1);
    fixture_free(&r);
}

START_TEST(broken_promises_are_found_before_anything_is_logged)
{
    struct lladd_op op = xor_op;
    op.redo = impure_redo;
    broken_promise(op, "not pure");
    op = xor_op;
    op.redo = hole_redo;
    broken_promise(op, "not pure");
    op = xor_op;
    op.redo = careless_redo;
    broken_promise(op, "page header");
    op = xor_op;
    op.undo = forgetful_undo;
    broken_promise(op, "undo does not reverse redo");
    op = xor_op;
    op.undo = destructive_undo;
    broken_promise(op, "undo changes the page header");
    op = xor_op;
    op.check = first_cell_is_small;
    broken_promise(op, "check does not hold after redo");
    op = xor_op;
    op.validate = refuses_undo;
    broken_promise(op, "validate refuses the undo bytes");
    op = xor_op;
    op.validate = refuses_later;
    broken_promise(op, "validate refuses the redo bytes");
}
END_TEST

/* A redo may write arbitrary values to bytes that its operation masks. */
static void stamping_redo(struct lladd_page *p, struct lladd_span s)
{
    xor_apply(p, s);
    lladd_page_body(p)[cell_offset(9)] = (unsigned char)++calls;
}

static void mask_stamp(void *ctx, struct lladd_page *p)
{
    (void)ctx;
    lladd_page_body(p)[cell_offset(9)] = 0;
}

START_TEST(masked_bytes_may_differ)
{
    struct lladd_op op = xor_op;
    unsigned char args[10] = {0};
    op.redo = stamping_redo;
    op.mask = mask_stamp;
    begin_with(&op, (unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_update(txn, id_of("test.xor"), page, args, 10));
    done(lladd_commit(txn));
    fixture_free(&r);
}
END_TEST
#endif

/* ---- bytes that validate refuses at open (OP-7) ---------------------------------------------- */

static bool picky_now(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return xor_validate(v, kind, s) && lladd_get64((const unsigned char *)s.data + 2) != 0xbad;
}

/* The application has changed what `validate` accepts, but not the version. Open must return a data
 * error, and not crash. */
START_TEST(bytes_that_validate_no_longer_accepts_are_a_data_error)
{
    struct lladd_op picky = xor_op;
    unsigned char args[10];
    begin_with(&xor_op, (unsigned)_i);
    lladd_put16(args, 3);
    lladd_put64(args + 2, 0xbad);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_update(txn, id_of("test.xor"), page, args, 10));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    picky.validate = picky_now;
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &picky, &r.err));
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_RECORD);
        ck_contains(r.err.message, "test.xor");
        ck_contains(r.err.message, "LSN");
        ck_assert_uint_eq(r.err.page.v, page.v);
        ck_assert_uint_ne(r.err.lsn.v, 0);
    }
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_extension(&r.options, &test_extension, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &xor_op, &r.err));
    fixture_open(&r);
    fixture_expect(&r, at(3), 0xbad);
    fixture_free(&r);
}
END_TEST

/* ---- the layout of its bytes ----------------------------------------------------------------- */

/* Registers the operations of the tests again, with this operation in place of test.put. */
static void register_again(const struct lladd_op *put)
{
    static const struct lladd_op *const others[] = {
        &test_format, &test_add, &test_poke, &test_bump, &test_transfer, &test_restore, &test_wide};
    lladd_options_release(&r.options);
    ok_db(&r, lladd_register_page_type(&r.options, &test_cells, &r.err));
    ok_db(&r, lladd_register_op(&r.options, put, &r.err));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ok_db(&r, lladd_register_op(&r.options, others[i], &r.err));
}

static void expect_other_layout(const struct lladd_op *put, const char *says)
{
    register_again(put);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(fixture_try_open(&r), LLADD_BAD_REGISTRATION);
        ck_contains(r.err.message, "\"test.put\" version 1");
        ck_contains(r.err.message, says);
        ck_assert_uint_ne(r.err.lsn.v, 0);
    }
}

/* An operation is registered with other types or names of fields, or with one field more or less,
 * but the log has records of the old layout. Open is refused after a crash. It is also refused
 * after a close, when only the checkpoint names the operation. */
START_TEST(other_fields_under_the_same_version_are_refused_at_open)
{
    static const struct lladd_field types[] = {
        {"cell", LLADD_FIELD_U32}, {"value", LLADD_FIELD_I64}, {NULL, LLADD_FIELD_END}};
    static const struct lladd_field names[] = {
        {"cell", LLADD_FIELD_U16}, {"delta", LLADD_FIELD_I64}, {NULL, LLADD_FIELD_END}};
    static const struct lladd_field more[] = {{"cell", LLADD_FIELD_U16},
                                              {"value", LLADD_FIELD_I64},
                                              {"when", LLADD_FIELD_U64},
                                              {NULL, LLADD_FIELD_END}};
    static const struct lladd_field less[] = {{"cell", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};
    struct lladd_op put = test_put;
    begin_with(NULL, (unsigned)_i);
    fixture_set(&r, at(3), 5);
    for (int closed = 0; closed < 2; closed++) {
        if (closed)
            fixture_close(&r);
        else
            fixture_crash(&r, &fault_kill);
        put.undo_fields = test_put.undo_fields;
        put.redo_fields = types;
        expect_other_layout(&put, "redo field 1 ");
        put.redo_fields = names;
        expect_other_layout(&put, "redo field 2 ");
        put.redo_fields = more;
        expect_other_layout(&put, "redo field 3 ");
        put.redo_fields = less;
        expect_other_layout(&put, "redo field 2 ");
        put.redo_fields = test_put.redo_fields;
        put.undo_fields = names;
        expect_other_layout(&put, "undo field 2 ");
        register_again(&test_put);
        fixture_open(&r);
        fixture_expect(&r, at(3), 5);
    }
    fixture_free(&r);
}
END_TEST

#ifdef LLADD_DEBUG
/* If the undo bytes were not made by `prepare`, the library compares them with the fields before it
 * logs them. */
START_TEST(undo_fields_that_do_not_describe_the_undo_are_a_bug)
{
    static const struct lladd_field fields[] = {
        {"page", LLADD_FIELD_PAGE}, {"cell", LLADD_FIELD_U16}, {NULL, LLADD_FIELD_END}};
    struct lladd_op restore = test_restore;
    struct lladd_action action;
    unsigned char undo[RESTORE_BYTES];
    restore.name = "test.fields";
    restore.undo_fields = fields;
    begin_with(&restore, (unsigned)_i);
    restore_encode(undo, at(3), 0);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(3), 7));
    lladd_op_id id = id_of("test.fields");
    refused(txn, LLADD_BUG, lladd_nta_end(txn, &action, id, undo, sizeof undo));
    ck_contains(lladd_txn_error(txn)->message, "\"test.fields\": undo_fields");
    refused(txn, LLADD_BUG, lladd_log_undo_only(txn, id, undo, sizeof undo));
    refused(txn, LLADD_BUG, lladd_log_undo_only(txn, id, undo, 9));
    ok(txn, lladd_nta_abort(txn, &action));
    done(lladd_commit(txn));
    fixture_expect(&r, at(3), 0);
    fixture_free(&r);
}
END_TEST
#endif

/* If an operation has no fields, the log has no layout of its records. So fields may be added
 * later. */
START_TEST(fields_may_be_described_later)
{
    struct lladd_op silent = test_put;
    silent.redo_fields = silent.undo_fields = NULL;
    begin_with(NULL, (unsigned)_i);
    fixture_set(&r, at(3), 5);
    fixture_crash(&r, &fault_kill);
    register_again(&silent);
    fixture_open(&r);
    fixture_expect(&r, at(3), 5);
    fixture_close(&r);
    register_again(&test_put);
    fixture_open(&r);
    fixture_set(&r, at(3), 6);
    fixture_free(&r);
}
END_TEST

/* ---- printing -------------------------------------------------------------------------------- */

struct text {
    char bytes[1200];
    size_t len, max;
};

static int add_text(void *ctx, const void *bytes, size_t len)
{
    struct text *t = ctx;
    if (t->len + len > t->max)
        return LLADD_NO_SPACE;
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = 0;
    return 0;
}

static const char *printed(const struct lladd_field *fields, const void *bytes, size_t len,
                           bool fits)
{
    static struct text t;
    t = (struct text){.max = sizeof t.bytes - 1};
    struct lladd_sink sink = {.ctx = &t, .write = add_text};
    ck_assert_int_eq(lladd_fields_print(fields, lladd_span_of(bytes, len), &sink), fits);
    return t.bytes;
}

START_TEST(fields_of_every_type_are_printed)
{
    static const struct lladd_field all[] = {{"a", LLADD_FIELD_U8},   {"b", LLADD_FIELD_U16},
                                             {"c", LLADD_FIELD_U32},  {"d", LLADD_FIELD_U64},
                                             {"e", LLADD_FIELD_I64},  {"f", LLADD_FIELD_PAGE},
                                             {"g", LLADD_FIELD_LSN},  {"h", LLADD_FIELD_BYTES16},
                                             {"i", LLADD_FIELD_TEXT}, {NULL, LLADD_FIELD_END}};
    static const struct lladd_field rest[] = {{"x", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}};
    static const struct lladd_field odd[] = {{"x", LLADD_FIELD_END}, {NULL, LLADD_FIELD_END}};
    unsigned char b[64];
    b[0] = 255;
    lladd_put16(b + 1, 65535);
    lladd_put32(b + 3, UINT32_MAX);
    lladd_put64(b + 7, UINT64_MAX);
    lladd_put64(b + 15, (uint64_t)-5);
    lladd_put64(b + 23, 7);
    lladd_put64(b + 31, 8);
    lladd_put16(b + 39, 3);
    memcpy(b + 41, "k\"\x01", 3);
    memcpy(b + 44, "text\\", 5);
    ck_assert_str_eq(printed(all, b, 49, true),
                     "a=255 b=65535 c=4294967295 d=18446744073709551615 e=-5 f=7 g=8 "
                     "h=\"k\\\"\\x01\" i=\"text\\\\\"");
    ck_assert_str_eq(printed(rest, "\x00\xff\x10", 3, true), "x=00ff10");
    ck_assert_str_eq(printed(rest, "", 0, true), "x=");
    for (size_t len = 0; len < 44; len++)
        (void)printed(all, b, len, false); /* must not read beyond the given bytes */
    lladd_put16(b + 39, 1000);
    (void)printed(all, b, 49, false);
    (void)printed(odd, b, 4, false);
    ck_assert_str_eq(printed(NULL, "", 0, true), "");
    (void)printed(NULL, "abc", 3, false);
}
END_TEST

START_TEST(a_sink_that_has_failed_swallows_the_rest)
{
    struct text t = {.max = 5};
    struct lladd_sink sink = {.ctx = &t, .write = add_text};
    ck_assert_int_eq(lladd_sink_write(&sink, "abc", 3), 0);
    ck_assert_int_eq(lladd_sink_printf(&sink, "%s", "def"), LLADD_NO_SPACE);
    ck_assert_int_eq(lladd_sink_write(&sink, "g", 1), LLADD_NO_SPACE);
    ck_assert_str_eq(t.bytes, "abc");
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    t = (struct text){.max = sizeof t.bytes - 1};
    sink = (struct lladd_sink){.ctx = &t, .write = add_text};
    ck_assert_int_eq(lladd_sink_printf(&sink, "%s", longer), 0);
    ck_assert_uint_ge(t.len, 500); /* the text is long, or cut off without an overflow */
    ck_assert_uint_lt(t.len, sizeof longer - 1);
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_error_set(&err, LLADD_BUSY, "%s and %d", "text", 5), LLADD_BUSY);
    ck_assert_str_eq(err.message, "text and 5");
    ck_assert_int_eq(err.code, LLADD_BUSY);
    ck_assert_int_eq(lladd_error_set(NULL, LLADD_BUSY, "no listener"), LLADD_BUSY);
    /* The macro records the file and line where it is used; the function does not. */
    int line = __LINE__ + 1;
    lladd_error_set(&err, LLADD_BUSY, "here");
    ck_assert_int_eq(err.line, line);
    ck_assert_str_eq(err.source, __FILE__);
    ck_assert_int_eq((lladd_error_set)(&err, LLADD_BUSY, "%d", 7), LLADD_BUSY);
    ck_assert_str_eq(err.message, "7");
    ck_assert_str_eq(err.source, "extension");
    ck_assert_int_eq((lladd_error_set)(NULL, LLADD_BUSY, "no listener"), LLADD_BUSY);
}
END_TEST

/* An error that an operation's `prepare` sets has the file and line in the operation. */
START_TEST(an_error_of_prepare_names_its_source_line)
{
    begin_with(NULL, 0);
    struct lladd_txn *txn = fixture_begin(&r);
    struct cell nowhere = {page, CELLS};
    refused(txn, LLADD_BAD_ARGUMENT, cell_add(txn, nowhere, 1));
    const struct lladd_error *err = lladd_txn_error(txn);
    ck_assert_ptr_nonnull(strstr(err->message, "there is no cell"));
    ck_assert_ptr_nonnull(strstr(err->source, "testops.c"));
    ck_assert_int_gt(err->line, 0);
    ok(txn, lladd_abort(txn));
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("operations");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(update_page_is_refused_on_a_page_held_shared);
    LOOP(an_operation_may_do_without_prepare);
    LOOP(a_page_is_not_formatted_with_bytes_that_recovery_would_refuse);
    LOOP(a_prepare_that_says_nothing_is_given_a_message);
    LOOP(a_page_that_cannot_be_packed_is_imaged_as_it_is);
    LOOP(pages_that_cannot_be_packed_are_tried_now_and_then);
#ifdef LLADD_DEBUG
    tcase_add_test(tc, broken_promises_are_found_before_anything_is_logged);
    LOOP(masked_bytes_may_differ);
    LOOP(undo_fields_that_do_not_describe_the_undo_are_a_bug);
#endif
    LOOP(bytes_that_validate_no_longer_accepts_are_a_data_error);
    LOOP(other_fields_under_the_same_version_are_refused_at_open);
    LOOP(fields_may_be_described_later);
    tcase_add_test(tc, fields_of_every_type_are_printed);
    tcase_add_test(tc, a_sink_that_has_failed_swallows_the_rest);
    tcase_add_test(tc, an_error_of_prepare_names_its_source_line);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
