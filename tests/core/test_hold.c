/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holds, and raised pins. Both keep log from being truncated. The library knows a hold, and the LSN
 * to which a pin was raised, in memory only.
 */
#include "db_fixture.h"

#include <lladd/inspect.h>
#include <lladd/log_read.h>

static struct fixture r;
static lladd_pageno page;

static void much_log(void)
{
    for (unsigned i = 0; i < 20; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(page, 1), i, 2000));
        done(lladd_commit(txn));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
}

/* The log is at its limit, and only a pin keeps it. The pin can be raised, and after that updates
 * succeed again. The raised pin is durable after a checkpoint; a crash before the checkpoint brings
 * the lower pin back. */
START_TEST(a_pin_is_raised_at_the_log_limit)
{
    enum { LIMIT = 512 << 10 };
    struct lladd_pinner who;
    int rc = 0;
    fixture_init(&r, (unsigned)_i);
    r.options.log_segment_min = r.options.log_segment_max = 8192;
    r.options.log_limit_bytes = LIMIT;
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_lsn here = lladd_lsn_of(fixture_stats(&r).log_tail);
    ok_db(&r, lladd_pin_set(r.db, "archive", here, &r.err));
    while (!rc) {
        struct lladd_txn *txn = fixture_begin(&r);
        rc = cell_put_wide(txn, cell_of(page, 1), 7, 2000);
        if (rc)
            lladd_abort(txn);
        else
            done(lladd_commit(txn));
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    lladd_lsn later = lladd_durable_lsn(r.db);
    ok_db(&r, lladd_pin_set(r.db, "archive", later, &r.err));
    if (!(_i & FIXTURE_FILES)) {
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
        ck_assert_uint_eq(who.lsn.v, here.v);
        ok_db(&r, lladd_pin_set(r.db, "archive", later, &r.err));
    }
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, here.v);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.name, "archive");
    ck_assert_uint_eq(who.lsn.v, later.v);
    /* A clean close makes a raised pin durable, even if nothing else has changed. */
    fixture_reopen(&r);
    lladd_lsn newest = lladd_durable_lsn(r.db);
    ok_db(&r, lladd_pin_set(r.db, "archive", newest, &r.err));
    fixture_reopen(&r);
    much_log();
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_uint_eq(who.lsn.v, newest.v);
    fixture_free(&r);
}
END_TEST

START_TEST(a_hold_keeps_the_log_until_it_is_released_and_writes_nothing)
{
    struct lladd_log_hold *hold, *other;
    struct lladd_pinner who;
    lladd_lsn low;
    fixture_init(&r, (unsigned)_i);
    r.options.log_segment_min = r.options.log_segment_max = 8192;
    fixture_open(&r);
    page = fixture_page(&r);
    much_log();
    uint64_t oldest = fixture_stats(&r).log_oldest;
    ok_db(&r, lladd_log_keep(r.db, "backup", lladd_lsn_of(0), &hold, &r.err));
    much_log();
    uint64_t tail = fixture_stats(&r).log_tail;
    ok_db(&r, lladd_log_keep(r.db, "backup", lladd_lsn_of(tail), &other, &r.err));
    ck_assert_uint_eq(fixture_stats(&r).log_tail, tail);
    much_log();
    ck_assert_uint_eq(fixture_stats(&r).log_oldest, oldest);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.kind, "hold");
    ck_assert_str_eq(who.name, "backup");
    ck_assert_uint_eq(who.lsn.v, oldest);
    ok_db(&r, lladd_log_needed(r.db, &low, &r.err));
    ck_assert_uint_gt(low.v, tail);
    /* A raised hold keeps less log. A hold is never lowered. */
    ck_assert_uint_eq(lladd_log_hold_raise(hold, low).v, low.v);
    ck_assert_uint_eq(lladd_log_hold_raise(hold, lladd_lsn_of(8)).v, low.v);
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, oldest);
    ck_assert_uint_le(fixture_stats(&r).log_oldest, tail);
    lladd_log_release(other);
    lladd_log_release(NULL);
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, tail);
    ck_assert_uint_le(fixture_stats(&r).log_oldest, low.v);
    /* A hold is not stored, so after a crash there is none. */
    lladd_log_release(hold);
    ok_db(&r, lladd_log_keep(r.db, "backup", lladd_lsn_of(0), &hold, &r.err));
    lladd_log_release(hold);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_ne(who.kind, "hold");
    /* Wrong holds are refused. */
    ck_assert_int_eq(lladd_log_keep(r.db, "", lladd_lsn_of(0), &hold, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_log_keep(r.db, "past", lladd_lsn_of(8), &hold, &r.err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_log_keep(r.db, "future", lladd_lsn_of(1ull << 40), &hold, &r.err),
                     LLADD_OUT_OF_RANGE);
    fixture_free(&r);
}
END_TEST

static int on_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    ck_abort_msg("%s: %s", f->file, f->message);
    return 0;
}

/* The database must not be open. */
static void verify(void)
{
    struct lladd_inspect *view;
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ok_db(&r, lladd_inspect_verify(view, on_finding, NULL, NULL, &r.err));
    lladd_inspect_close(view);
}

/* A crash leaves a gap in the log. (A gap here is a range of LSNs that no record has.) A pin at the
 * start of the gap keeps the log from the end of the gap on. No record of this log may be
 * missing. */
START_TEST(a_pin_in_a_gap_of_the_log)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry first;
    struct lladd_log_hold *hold;
    fixture_init(&r, (unsigned)_i);
    r.options.log_segment_min = r.options.log_segment_max = 8192;
    fixture_open(&r);
    page = fixture_page(&r);
    much_log();
    lladd_lsn end = lladd_durable_lsn(r.db);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_pin_set(r.db, "archive", end, &r.err));
    much_log();
    much_log();
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, end.v);
    for (unsigned i = 0; i < 3; i++) {
        ok_db(&r, lladd_pin_set(r.db, "archive", end, &r.err));
        ok_db(&r, lladd_log_keep(r.db, "reader", end, &hold, &r.err));
        ok_db(&r, lladd_log_open(r.db, end, NULL, &cursor, &r.err));
        ok_db(&r, lladd_log_next(cursor, &first, &r.err));
        ck_assert_uint_ge(first.lsn.v, fixture_stats(&r).log_oldest);
        lladd_log_close(cursor);
        lladd_log_release(hold);
        if (i == 1)
            fixture_crash(&r, &fault_power);
        else
            fixture_close(&r);
        verify();
        fixture_open(&r);
    }
    ck_assert_int_eq(lladd_pin_set(r.db, "archive", lladd_lsn_of(end.v - 8), &r.err),
                     LLADD_OUT_OF_RANGE);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hold");
    TCase *tc = tcase_create("all");
    /* The library has no threads here. Otherwise one of them might take a checkpoint, which stores
     * the raised pin, before the crash. */
    tcase_add_loop_test(tc, a_pin_is_raised_at_the_log_limit, 0, FIXTURE_THREADS);
    tcase_add_loop_test(tc, a_hold_keeps_the_log_until_it_is_released_and_writes_nothing, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_pin_in_a_gap_of_the_log, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
