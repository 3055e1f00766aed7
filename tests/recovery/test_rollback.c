/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rollback under difficult conditions (REC-3): no memory, no disk space, long chains, a
 * compensation that fails, and compensations that use an operation for the first time in the
 * database, or that log more than the change that they undo.
 */
#include "db_fixture.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

/* ---- operations with unusual compensations ----------------------------------------------- */

/* "test.late" is test.put under another name, which only a compensation uses. */
static struct lladd_op late;
static size_t filling; /* filler bytes in the records that `compensate` writes */

/* Undo bytes: u64 page, u16 cell, u64 value. */
static int late_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    const unsigned char *p = undo.data;
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {lladd_get16(p + 8), 0, filling};
    lladd_pageno where = lladd_page_of(lladd_get64(p));
    lladd_op_id id;
    struct lladd_action outer, inner;
    lladd_savepoint_id sp;
    int rc = lladd_op_lookup(lladd_txn_db(txn), "test.late", 1, &id);
    if (!rc)
        rc = lladd_nta_begin(txn, &outer);
    if (!rc)
        rc = lladd_savepoint(txn, &sp);
    if (!rc)
        rc = lladd_nta_begin(txn, &inner);
    args.value = 1;
    if (!rc)
        rc = lladd_update(txn, id, where, &args, sizeof args);
    if (!rc)
        rc = cell_bump(txn, cell_of(where, lladd_get16(p + 8)), 7);
    if (!rc)
        rc = lladd_nta_abort(txn, &inner);
    if (!rc)
        rc = lladd_rollback_to(txn, sp);
    args.value = lladd_get64(p + 10); /* read after the calls: they must not change it */
    if (!rc)
        rc = lladd_update(txn, id, where, &args, sizeof args);
    return rc ? rc : lladd_nta_end(txn, &outer, LLADD_NO_OP, NULL, 0);
}

static bool undo_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return kind == LLADD_SPAN_UNDO && s.len == RESTORE_BYTES;
}

static const struct lladd_op needy = {
    .struct_size = sizeof needy,
    .name = "test.needy",
    .version = 1,
    .record_max = RESTORE_BYTES,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = undo_validate,
    .compensate = late_compensate,
    .undo_log_max = 8192,
    .undo_pages_max = 1,
};

/* Like test.late, but undo_log_max is too small for what `compensate` writes. */
static struct lladd_op stingy;

/* While `mute` is true, its `compensate` fails and sets no error. */
static bool mute;
static struct lladd_op silent;

static int silent_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    return mute ? LLADD_NOT_FOUND : late_compensate(ctx, txn, undo);
}

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    late = test_wide;
    late.name = "test.late";
    late.record_max = 2048;
    filling = 0;
    ok_db(&r, lladd_register_op(&r.options, &late, &r.err));
    ok_db(&r, lladd_register_op(&r.options, &needy, &r.err));
    stingy = needy;
    stingy.name = "test.stingy";
    stingy.undo_log_max = 8;
    ok_db(&r, lladd_register_op(&r.options, &stingy, &r.err));
    silent = needy;
    silent.name = "test.silent";
    silent.compensate = silent_compensate;
    ok_db(&r, lladd_register_op(&r.options, &silent, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* Sets a cell in an action that closes with the logical undo of `op`. */
static void put_undone_by(const char *op, struct lladd_txn *txn, struct cell c, uint64_t value)
{
    lladd_op_id id = LLADD_NO_OP;
    ck_assert_int_eq(lladd_op_lookup(r.db, op, 1, &id), 0);
    unsigned char undo[RESTORE_BYTES];
    struct lladd_action action;
    restore_encode(undo, c, cell_get(r.db, c));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, c, value));
    ok(txn, lladd_nta_end(txn, &action, id, undo, sizeof undo));
}

static void needy_put(struct lladd_txn *txn, struct cell c, uint64_t value)
{
    put_undone_by("test.needy", txn, c, value);
}

/* ---- cases ------------------------------------------------------------------------------- */

START_TEST(a_compensation_may_log_longer_records_than_its_operation)
{
    begin_case(_i);
    filling = 900; /* makes the records of the compensation longer than all earlier records */
    fixture_set(&r, at(0), 5);
    struct lladd_txn *txn = fixture_begin(&r);
    needy_put(txn, at(0), 6);
    needy_put(txn, at(1), 7);
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 5);
    fixture_expect(&r, at(1), 0);
    fixture_free(&r);
}
END_TEST

START_TEST(an_abort_needs_no_memory)
{
    enum { PAGES = 40, ROUNDS = 12 };
    lladd_pageno pages[PAGES];
    begin_case(_i);
    fixture_pages(&r, pages, PAGES);
    struct lladd_txn *txn = fixture_begin(&r);
    /* More log than the ring holds, so the rollback reads files. */
    for (unsigned i = 0; i < PAGES * ROUNDS; i++)
        ok(txn, cell_put_wide(txn, cell_of(pages[i % PAGES], i / PAGES), i + 1, 300));
    ok(txn, cell_bump(txn, at(3), 9));
    ok(txn, cells_transfer(txn, at(4), at(5), 2));
    needy_put(txn, at(0), 6);
    fault_alloc_fail(&r.mem, 1, true);
    int rc = lladd_abort(txn);
    (void)lladd_db_error(r.db, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert_uint_gt(fault_alloc_fired(&r.mem), 0); /* an allocation failed without any effect */
    fault_alloc_fail(&r.mem, 0, false);
    for (unsigned i = 0; i < PAGES * ROUNDS; i++)
        fixture_expect(&r, cell_of(pages[i % PAGES], i / PAGES), 0);
    for (unsigned i = 0; i < 6; i++)
        fixture_expect(&r, at(i), 0);
    fixture_reopen(&r);
    for (unsigned i = 0; i < PAGES * ROUNDS; i++)
        fixture_expect(&r, cell_of(pages[i % PAGES], i / PAGES), 0);
    fixture_free(&r);
}
END_TEST

/* Aborts a transaction that an earlier process has prepared. This process has logged nothing and
 * read no page. _i: bit 0, the earlier process was killed; bit 1, recovery is instant; bit 2, the
 * transaction has changed more pages than the cache holds. */
START_TEST(an_abort_of_what_is_in_doubt_needs_no_memory)
{
    enum { PAGES = 60 };
    lladd_pageno pages[PAGES];
    unsigned used = _i & 4 ? PAGES : 1;
    struct lladd_gid gid = gid_of("doubt");
    fixture_init(&r, 0);
    r.options.cache_bytes = fixture_small_cache(0);
    if (_i & 2)
        r.options.recovery = LLADD_RECOVER_INSTANT;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < used; i++)
        ok(txn, cell_put(txn, cell_of(pages[i], 7), 7));
    done(lladd_prepare(txn, &gid));
    if (_i & 1)
        fixture_crash(&r, &fault_kill);
    else
        fixture_close(&r);
    fixture_open(&r);
    txn = fixture_claim(&r, "doubt");
    fault_alloc_fail(&r.mem, 1, true);
    int rc = lladd_abort(txn);
    (void)lladd_db_error(r.db, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    fault_alloc_fail(&r.mem, 0, false);
    for (unsigned i = 0; i < used; i++)
        fixture_expect(&r, cell_of(pages[i], 7), 0);
    fixture_reopen(&r);
    for (unsigned i = 0; i < used; i++)
        fixture_expect(&r, cell_of(pages[i], 7), 0);
    fixture_free(&r);
}
END_TEST

/* The first write-back of many pages happens during the abort. Before, a checkpoint has written
 * only the page of the oldest change, and the cache is full of pages with newer changes. */
START_TEST(an_abort_that_writes_pages_back_needs_no_memory)
{
    enum { PAGES = 400 };
    static lladd_pageno pages[PAGES];
    struct lladd_stats stats = {.struct_size = sizeof stats};
    fixture_init(&r, (unsigned)_i);
    r.options.cache_bytes = 1u << 20;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    fixture_reopen(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, cell_of(pages[0], 7), 7));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    for (unsigned i = 1; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 7), 0);
    ck_assert_int_eq(lladd_stats_get(r.db, &stats), 0);
    for (uint64_t i = PAGES - (stats.pages_read - stats.evictions); i < PAGES; i++)
        ok(txn, cell_put(txn, cell_of(pages[i], 7), 7));
    fault_alloc_fail(&r.mem, 1, true);
    int rc = lladd_abort(txn);
    (void)lladd_db_error(r.db, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    fault_alloc_fail(&r.mem, 0, false);
    for (unsigned i = 0; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 7), 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_partial_rollback_needs_no_memory)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    struct lladd_action action;
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_bump(txn, at(1), 5));
    needy_put(txn, at(2), 6);
    fault_alloc_fail(&r.mem, 1, true);
    ok(txn, lladd_nta_abort(txn, &action));
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    ok(txn, lladd_rollback_to(txn, sp));
    fault_alloc_fail(&r.mem, 0, false);
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

/* No record was logged, so the abort of the action needs no space, and none was reserved. (Found by
 * the simulator: the first update of an action failed for lack of memory, and the abort of the
 * action poisoned the handle.) */
START_TEST(a_rollback_of_nothing_needs_no_memory)
{
    begin_case(_i);
    fixture_reopen(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    struct lladd_action action;
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &action));
    fault_alloc_fail(&r.mem, 1, true);
    ck_assert_int_eq(cell_put(txn, at(0), 1), LLADD_NO_MEMORY);
    ok(txn, lladd_nta_abort(txn, &action));
    ok(txn, lladd_rollback_to(txn, sp));
    fault_alloc_fail(&r.mem, 0, false);
    ok(txn, cell_put(txn, at(0), 2));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 2);
    fixture_free(&r);
}
END_TEST

/* The disk becomes full while transactions are open. Then all are rolled back. The compensation
 * uses an operation that has no number in the log yet. If `reopened` is true, this session has
 * taken no checkpoint, but the log space for a checkpoint must be reserved. */
static void abort_on_full_disk(unsigned kind, bool reopened, bool closing)
{
    enum { TXNS = 40 };
    struct lladd_txn *txn[TXNS];
    begin_case((int)kind);
    r.options.log_limit_bytes = UINT64_MAX;
    if (reopened)
        fixture_reopen(&r);
    unsigned n = 0;
    fault_device_capacity(r.fd, fault_device_bytes(r.fd) + (400u << 10));
    for (bool full = false; n < TXNS && !full; n++) {
        txn[n] = fixture_begin(&r);
        int rc = 0;
        for (unsigned i = 0; !rc && i < 40; i++) {
            rc = cell_put_wide(txn[n], at(n), i + 1, 60);
            if (!rc)
                rc = cell_bump(txn[n], at(n), 1);
        }
        full = rc != 0;
        if (!full)
            continue;
        ck_assert_int_eq(rc, LLADD_NO_SPACE);
        ck_assert_int_eq(lladd_db_error(r.db, NULL), 0);
    }
    ck_assert_msg(n > 1 && n < TXNS, "the disk was full after %u transactions", n);
    if (!closing)
        while (n)
            done(lladd_abort(txn[--n]));
    fixture_close(&r);
    fixture_open(&r); /* while the disk is still full */
    for (unsigned i = 0; i < TXNS; i++)
        fixture_expect(&r, at(i), 0);
    fixture_close(&r);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    fixture_set(&r, at(0), 1);
    fixture_free(&r);
}

START_TEST(aborts_and_close_succeed_on_a_full_disk)
{
    abort_on_full_disk(_i & 4 ? FIXTURE_RESERVED : 0, _i & 1, _i & 2);
}
END_TEST

START_TEST(a_compensation_may_use_an_operation_for_the_first_time_on_a_full_disk)
{
    begin_case(_i ? FIXTURE_RESERVED : 0);
    fixture_reopen(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    needy_put(txn, at(0), 6);
    /* No file can grow any more, and the existing space is used up. */
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    struct lladd_txn *glutton = fixture_begin(&r);
    int rc = 0;
    while (!rc)
        rc = cell_put_wide(glutton, at(1), 1, 1000);
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    while ((rc = cell_put(glutton, at(1), 2)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    done(lladd_abort(txn));
    done(lladd_abort(glutton));
    fixture_expect(&r, at(0), 0);
    fixture_expect(&r, at(1), 0);
    fixture_close(&r);
    fixture_open(&r);
    fixture_expect(&r, at(0), 0);
    fixture_free(&r);
}
END_TEST

/* The operation declares less log than its undo needs, so too little was reserved. The error names
 * the operation and the field. When the disk has room again, the rollback succeeds. */
START_TEST(an_undo_log_max_that_was_too_small_is_named_when_space_runs_out)
{
    enum { CELLS_USED = 8, ROUNDS = 100 };
    struct lladd_error err = LLADD_ERROR_INIT;
    begin_case(_i ? FIXTURE_RESERVED : 0);
    filling = 900;
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < ROUNDS; i++)
        put_undone_by("test.stingy", txn, at(i % CELLS_USED), i + 1);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    struct lladd_txn *glutton = fixture_begin(&r);
    int rc = 0;
    while (!rc)
        rc = cell_put_wide(glutton, at(CELLS_USED), 1, 1000);
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    while ((rc = cell_put(glutton, at(CELLS_USED), 2)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_db_error(r.db, &err), LLADD_UNDO_FAILED);
    ck_contains(err.message, "undo_log_max of \"test.stingy\" is 8, its compensate has written ");
    struct lladd_db *db = r.db;
    r.db = NULL;
    ck_assert_int_eq(lladd_close(db), LLADD_UNDO_FAILED);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    for (unsigned i = 0; i <= CELLS_USED; i++)
        fixture_expect(&r, at(i), 0);
    fixture_set(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

/* `compensate` fails without setting an error. Then the message is that of the code, not that of an
 * earlier refused call. When `compensate` no longer fails, the rollback succeeds. */
START_TEST(a_compensate_that_fails_without_an_error)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    begin_case(0);
    struct lladd_txn *txn = fixture_begin(&r);
    put_undone_by("test.silent", txn, at(0), 5);
    ck_assert_int_ne(lladd_update(txn, 60000, at(0).page, NULL, 0), 0);
    ck_assert_str_ne(lladd_txn_error(txn)->message, "");
    mute = true;
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_db_error(r.db, &err), LLADD_UNDO_FAILED);
    ck_contains(err.message, "operation \"test.silent\": ");
    ck_contains(err.message, lladd_code_text(LLADD_NOT_FOUND));
    mute = false;
    struct lladd_db *db = r.db;
    r.db = NULL;
    ck_assert_int_eq(lladd_close(db), LLADD_UNDO_FAILED);
    fixture_open(&r);
    fixture_expect(&r, at(0), 0);
    fixture_free(&r);
}
END_TEST

/* A prepared transaction can be committed or aborted on a full disk. */
START_TEST(what_is_prepared_can_be_ended_on_a_full_disk)
{
    begin_case(_i & 2 ? FIXTURE_RESERVED : 0);
    struct lladd_gid gid = gid_of("full"), other = gid_of("other");
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 6));
    ok(txn, lladd_prepare(txn, &gid));
    struct lladd_txn *second = fixture_begin(&r);
    ok(second, cell_bump(second, at(2), 6));
    ok(second, lladd_prepare(second, &other));
    if (_i & 1) {
        fixture_reopen(&r);
        ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
        ok_db(&r, lladd_in_doubt_claim(r.db, &other, &second, &r.err));
    }
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    struct lladd_txn *glutton = fixture_begin(&r);
    int rc;
    while ((rc = cell_put_wide(glutton, at(1), 1, 1000)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    while ((rc = cell_put(glutton, at(1), 2)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    done(lladd_commit(txn));
    done(lladd_abort(second));
    fixture_close(&r);
    fixture_open(&r);
    fixture_expect(&r, at(0), 6);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    fixture_free(&r);
}
END_TEST

/* A transaction that was refused because the disk is full can still commit its earlier changes. */
START_TEST(a_commit_succeeds_on_a_full_disk)
{
    begin_case(_i ? FIXTURE_RESERVED : 0);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 6));
    int rc;
    while ((rc = cell_put_wide(txn, at(1), 1, 1000)) == 0) {
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    while ((rc = cell_put(txn, at(1), 2)) == 0) {
    }
    done(lladd_commit(txn));
    fixture_close(&r);
    fixture_open(&r);
    fixture_expect(&r, at(0), 6);
    fixture_free(&r);
}
END_TEST

/* ---- a compensation fails ---------------------------------------------------------------- */

START_TEST(a_compensation_that_fails_poisons_and_opening_again_repeats_it)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    begin_case(_i);
    fixture_set(&r, at(0), 50);
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    ok(txn, cells_transfer(txn, at(0), at(1), 20));
    ok(other, cell_put(other, at(2), 1));
    lladd_lsn id = lladd_txn_id(txn);
    test_transfer_fails = LLADD_NOT_FOUND;
    ck_assert_int_eq(lladd_abort(txn), LLADD_UNDO_FAILED); /* also ends the transaction's handle */
    ck_assert_int_eq(lladd_db_error(r.db, &err), LLADD_UNDO_FAILED);
    char text[40];
    snprintf(text, sizeof text, "transaction %llu", (unsigned long long)id.v);
    ck_contains(err.message, text);
    ck_contains(err.message, "test.transfer");
    ck_contains(err.message, "told to fail by the test");
    ck_assert_uint_ne(err.lsn.v, 0);
    /* Every thread gets the error. */
    ck_assert_int_eq(cell_put(other, at(2), 2), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_commit(other), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_begin(r.db, NULL, &txn, &err), LLADD_UNDO_FAILED);
    uint64_t value;
    ck_assert_int_eq(cell_read(r.db, at(0), &value, &err), LLADD_UNDO_FAILED);
    struct lladd_db *db = r.db;
    r.db = NULL;
    ck_assert_int_eq(lladd_close(db), LLADD_UNDO_FAILED);
    /* Open fails, too, and its error names the transaction and the LSN. Trying again is safe. */
    bool needs_undo = true;
    for (int i = 0; i < 3 && needs_undo; i++) {
        int rc = fixture_try_open(&r);
        if (rc == 0) { /* the transfer was not durable, so it needs no undo */
            needs_undo = false;
            continue;
        }
        ck_assert_int_eq(rc, LLADD_UNDO_FAILED);
        ck_contains(r.err.message, text);
        ck_assert_uint_ne(r.err.lsn.v, 0);
    }
    test_transfer_fails = 0;
    if (!r.db)
        fixture_open(&r);
    fixture_expect(&r, at(0), 50);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_compensation_that_fails_at_open_names_its_transaction)
{
    begin_case(_i);
    fixture_set(&r, at(0), 50);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_transfer(txn, at(0), at(1), 20));
    ok(txn, cell_put(txn, at(3), 3));
    char text[40];
    snprintf(text, sizeof text, "transaction %llu", (unsigned long long)lladd_txn_id(txn).v);
    fixture_set(&r, at(2), 1); /* makes all earlier records durable */
    fixture_crash(&r, &fault_kill);
    test_transfer_fails = LLADD_BUSY;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(fixture_try_open(&r), LLADD_UNDO_FAILED);
        ck_contains(r.err.message, text);
    }
    test_transfer_fails = 0;
    fixture_open(&r);
    fixture_expect(&r, at(0), 50);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 1);
    fixture_expect(&r, at(3), 0);
    fixture_free(&r);
}
END_TEST

/* ---- a long rollback --------------------------------------------------------------------- */

#define LONG_PAGES 4
#define LONG_UPDATES 1500 /* several times as many as the ring holds */

static void long_bytes(unsigned i, unsigned char *out)
{
    for (unsigned k = 0; k < 100; k++)
        out[k] = (unsigned char)(i * 31 + k * 7 + 1);
}

static void long_pages(lladd_pageno *pages)
{
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < LONG_PAGES; i++) {
        ok(txn, lladd_page_alloc(txn, &pages[i]));
        ok(txn, lladd_bytes_format(txn, pages[i]));
    }
    done(lladd_commit(txn));
}

/* Asserts that all bytes that the transaction has changed are zero again. */
static void long_check(const lladd_pageno *pages)
{
    static unsigned char zeros[4000], now[4000];
    for (unsigned i = 0; i < LONG_PAGES; i++) {
        ok_db(&r, lladd_bytes_get(r.db, pages[i], 0, now, sizeof now, &r.err));
        ck_assert_mem_eq(now, zeros, sizeof now);
    }
}

/* A rollback reads records in advance, to prefetch their pages. If one of these reads fails, its
 * page is not prefetched. If the read of the next record to undo fails, the rollback fails. */
START_TEST(a_read_that_fails_in_a_long_rollback_loses_nothing)
{
    unsigned char bytes[100];
    unsigned went_on = 0, gave_up = 0;
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        lladd_pageno pages[LONG_PAGES];
        fixture_init(&r, (unsigned)_i);
        fixture_open(&r);
        long_pages(pages);
        struct lladd_txn *txn = fixture_begin(&r);
        for (unsigned i = 0; i < LONG_UPDATES; i++) {
            long_bytes(i, bytes);
            ok(txn,
               lladd_bytes_set(txn, pages[i % LONG_PAGES], i * 97 % 3900, bytes, sizeof bytes));
        }
        fault_device_only(r.fd, "log/");
        fault_device_fail(r.fd, n, FAULT_PREAD, EIO, false);
        int rc = lladd_abort(txn);
        fired = fault_device_fired(r.fd) > 0;
        fault_device_fail(r.fd, 0, 0, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_UNDO_FAILED);
            fixture_crash(&r, &fault_kill);
            fixture_open(&r);
            gave_up++;
        } else {
            went_on += fired;
        }
        long_check(pages);
        fixture_free(&r);
    }
    ck_assert_uint_gt(went_on, 0);
    ck_assert_uint_gt(went_on + gave_up, 2);
}
END_TEST

/* An operation that writes at another place than its records declare (offset_first). Its bytes:
 * u16, the declared offset, any number; u64, which is XORed with the page's first number. */
static bool wild_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)kind;
    return s.len == 10;
}

static void wild_apply(struct lladd_page *p, struct lladd_span s)
{
    unsigned char *at = lladd_page_body(p);
    lladd_put64(at, lladd_get64(at) ^ lladd_get64((const unsigned char *)s.data + 2));
}

static const struct lladd_op wild = {
    .struct_size = sizeof wild,
    .name = "test.wild",
    .version = 1,
    .page_type = "lladd.bytes",
    .record_max = 20,
    .undo_kind = LLADD_UNDO_PAGE,
    .validate = wild_validate,
    .redo = wild_apply,
    .undo = wild_apply,
    .offset_first = true,
};

START_TEST(a_wrong_offset_in_a_record_only_wastes_a_prefetch)
{
    lladd_pageno pages[LONG_PAGES];
    lladd_op_id id;
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_op(&r.options, &wild, &r.err));
    fixture_open(&r);
    long_pages(pages);
    ok_db(&r, lladd_op_lookup(r.db, wild.name, 1, &id));
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < 200; i++) {
        unsigned char args[10];
        lladd_put16(args, (uint16_t)(UINT16_MAX - 77 * i));
        lladd_put64(args + 2, i + 1);
        ok(txn, lladd_update(txn, id, pages[i % LONG_PAGES], args, sizeof args));
    }
    done(lladd_abort(txn));
    long_check(pages);
    fixture_free(&r);
}
END_TEST

/* Recovery undoes all losers in one thread. If a loser kept log credit after a step, the other
 * losers might never get the credit for their steps. */
START_TEST(more_losers_than_the_log_buffer_has_credits)
{
    enum { LOSERS = 400 };
    static struct lladd_txn *losers[LOSERS];
    lladd_pageno pages[LOSERS];
    fixture_init(&r, (unsigned)_i);
    r.options.log_ring_bytes = 128u << 10;
    fixture_open(&r);
    fixture_pages(&r, pages, LOSERS);
    for (unsigned i = 0; i < LOSERS; i++) {
        losers[i] = fixture_begin(&r);
        ok(losers[i], cell_put(losers[i], cell_of(pages[i], 1), i + 1));
    }
    for (unsigned i = 0; i < LOSERS; i++) /* a second record of each loser */
        ok(losers[i], cell_put(losers[i], cell_of(pages[i], 2), i + 1));
    fixture_set(&r, cell_of(pages[0], 0), 5); /* makes all earlier records durable */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, cell_of(pages[0], 0), 5);
    for (unsigned i = 0; i < LOSERS; i++) {
        fixture_expect(&r, cell_of(pages[i], 1), 0);
        fixture_expect(&r, cell_of(pages[i], 2), 0);
    }
    fixture_free(&r);
}
END_TEST

/* ---- a smaller log buffer than before ---------------------------------------------------- */

static unsigned objects_undone;

static int count_undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn lsn,
                      uint64_t object, struct lladd_span undo)
{
    (void)ctx;
    (void)db;
    (void)txn;
    (void)lsn;
    (void)object;
    (void)undo;
    objects_undone++;
    return 0;
}

static int no_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                   struct lladd_span redo)
{
    (void)ctx;
    (void)db;
    (void)lsn;
    (void)object;
    (void)redo;
    return 0;
}

static const struct lladd_object_class long_class = {
    .struct_size = sizeof long_class,
    .name = "test.long",
    .version = 1,
    .redo = no_redo,
    .undo = count_undo,
};

/* The longest record is a quarter of the log buffer, and the compensation record of an object may
 * be as long. The next open asks for a smaller buffer. _i: bit 0, the transaction is in doubt; bit
 * 1, the smaller buffer could give the credit, but the record has no room where the buffer wraps
 * around. */
START_TEST(a_long_undo_and_a_smaller_ring)
{
    enum { LONG = 500 << 10 };
    struct lladd_gid gid = gid_of("doubt");
    struct lladd_token token;
    lladd_lsn lsn;
    unsigned char *bytes = calloc(1, LONG);
    fixture_init(&r, 0);
    r.options.log_ring_bytes = 4u << 20;
    ok_db(&r, lladd_register_class(&r.options, &long_class, &r.err));
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_object(txn, &long_class, 1, lladd_span_of(NULL, 0),
                             lladd_span_of(bytes, LONG), &token, &lsn));
    lladd_object_applied(txn, &token);
    free(bytes);
    if (_i & 1)
        done(lladd_prepare(txn, &gid));
    else
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_crash(&r, &fault_kill);
    r.options.log_ring_bytes = _i & 2 ? 1u << 20 : 256u << 10;
    objects_undone = 0;
    fixture_open(&r);
    if (_i & 1)
        done(lladd_abort(fixture_claim(&r, "doubt")));
    ck_assert_uint_gt(objects_undone, 0);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* The longest catalogue record of a name: two lists of 255 fields with names of 63 bytes. */
enum { FIELDS = 255, FIELD_NAME = 63 };
static char field_names[FIELDS][FIELD_NAME + 1];
static struct lladd_field many_fields[FIELDS + 1];

static bool any_bytes(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)kind, (void)s;
    return true;
}

static void changes_nothing(struct lladd_page *p, struct lladd_span s)
{
    (void)p, (void)s;
}

static const struct lladd_op long_named = {
    .struct_size = sizeof long_named,
    .name = "test.longnamed",
    .version = 1,
    .record_max = 510,
    .redo_fields = many_fields,
    .undo_fields = many_fields,
    .undo_kind = LLADD_UNDO_NONE,
    .validate = any_bytes,
    .redo = changes_nothing,
};

static void open_with(const struct lladd_options *o)
{
    ok_db(&r, lladd_open(NULL, o, &r.db, &r.err));
}

/* Each checkpoint logs all names again. One name is no longer registered, and its record is longer
 * than the longest record of the buffer for which this open asks. In the rounds this record comes
 * at many places of the buffer, including its end. */
START_TEST(a_name_no_longer_registered_and_a_smaller_ring)
{
    enum { ROUNDS = 60 };
    struct lladd_root_value value = {0, 0};
    lladd_op_id id;
    for (unsigned i = 0; i < FIELDS; i++) {
        snprintf(field_names[i], sizeof field_names[i], "%063u", i);
        many_fields[i] = (struct lladd_field){.type = LLADD_FIELD_U8, .name = field_names[i]};
    }
    fixture_init(&r, 0);
    struct lladd_options without = r.options, with;
    without.registry = NULL; /* test.wide needs a larger buffer */
    with = without;
    with.log_ring_bytes = 1u << 20;
    without.log_ring_bytes = 64u << 10;
    ok_db(&r, lladd_register_op(&with, &long_named, &r.err));
    open_with(&with);
    ok_db(&r, lladd_op_lookup(r.db, long_named.name, long_named.version, &id));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_update(txn, id, lladd_page_of(0), "x", 1));
    ok(txn, lladd_root_set(txn, "round", value));
    done(lladd_commit(txn));
    fixture_close(&r);
    open_with(&without);
    for (unsigned i = 0; i < ROUNDS; i++) {
        txn = fixture_begin(&r);
        value.a = i;
        ok(txn, lladd_root_set(txn, "round", value));
        done(lladd_commit(txn));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    }
    fixture_close(&r);
    open_with(&without);
    ok_db(&r, lladd_root_get(r.db, "round", &value, &r.err));
    ck_assert_uint_eq(value.a, ROUNDS - 1);
    fixture_close(&r);
    lladd_options_release(&with);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rollback");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, more_losers_than_the_log_buffer_has_credits, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_compensation_may_log_longer_records_than_its_operation, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(tc, an_abort_needs_no_memory, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, an_abort_of_what_is_in_doubt_needs_no_memory, 0, 8);
    tcase_add_loop_test(tc, an_abort_that_writes_pages_back_needs_no_memory, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_partial_rollback_needs_no_memory, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_rollback_of_nothing_needs_no_memory, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, aborts_and_close_succeed_on_a_full_disk, 0, 8);
    tcase_add_loop_test(tc, a_compensation_may_use_an_operation_for_the_first_time_on_a_full_disk,
                        0, 2);
    tcase_add_loop_test(tc, a_long_undo_and_a_smaller_ring, 0, 4);
    tcase_add_test(tc, a_name_no_longer_registered_and_a_smaller_ring);
    tcase_add_test(tc, a_compensate_that_fails_without_an_error);
    tcase_add_loop_test(tc, an_undo_log_max_that_was_too_small_is_named_when_space_runs_out, 0, 2);
    tcase_add_loop_test(tc, what_is_prepared_can_be_ended_on_a_full_disk, 0, 4);
    tcase_add_loop_test(tc, a_commit_succeeds_on_a_full_disk, 0, 2);
    tcase_add_loop_test(tc, a_compensation_that_fails_poisons_and_opening_again_repeats_it, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_compensation_that_fails_at_open_names_its_transaction, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_read_that_fails_in_a_long_rollback_loses_nothing, FIXTURE_RESERVED,
                        FIXTURE_RESERVED + 1);
    tcase_add_loop_test(tc, a_wrong_offset_in_a_record_only_wastes_a_prefetch, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
