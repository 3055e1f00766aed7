/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many open transactions (TXN-1): many aborts need no more memory than one, and the statistics
 * count every open transaction. Tested on every device, frame provider and thread mode.
 */
#include "db_fixture.h"

static struct fixture r;
static lladd_pageno page;

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
}

static void end_case(void)
{
    fixture_free(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* An abort makes a cursor of the log, which later aborts reuse. So many aborts need no more memory
 * than one. */
START_TEST(aborts_take_turns_with_one_cursor)
{
    enum { MANY = 100 };
    struct lladd_txn *txn[MANY];
    begin_case(_i);
    for (unsigned i = 0; i < MANY; i++) {
        txn[i] = fixture_begin(&r);
        ok(txn[i], cell_add(txn[i], at(i % CELLS), 1));
        lladd_savepoint_id before; /* makes the transaction allocate memory of its own */
        ok(txn[i], lladd_savepoint(txn[i], &before));
        ok(txn[i], lladd_savepoint_release(txn[i], before));
    }
    done(lladd_abort(txn[0]));
    uint64_t blocks = fault_alloc_live(&r.mem);
    for (unsigned i = 1; i < MANY; i++)
        done(lladd_abort(txn[i]));
    ck_assert_uint_lt(fault_alloc_live(&r.mem), blocks + MANY / 2);
    end_case();
}
END_TEST

START_TEST(statistics_know_what_is_open_and_in_doubt)
{
    enum { OPEN = 20, PREPARED = 7, GUARDED = 3 };
    struct lladd_txn *txn[OPEN];
    begin_case(_i);
    uint64_t begun = fixture_stats(&r).begun;
    for (unsigned i = 0; i < OPEN; i++) {
        txn[i] = fixture_begin(&r);
        ok(txn[i], cell_add(txn[i], at(i % CELLS), 1));
        ck_assert_uint_eq(fixture_stats(&r).active, i + 1);
        ck_assert_uint_eq(fixture_stats(&r).begun, begun + i + 1);
    }
    for (unsigned i = 0; i < PREPARED; i++) {
        struct lladd_gid gid = {.format = 1, .gtrid_length = 1, .data = {(unsigned char)i}};
        ok(txn[i], lladd_prepare(txn[i], &gid));
        ck_assert_uint_eq(fixture_stats(&r).in_doubt, i + 1);
    }
    for (unsigned i = 0; i < PREPARED; i++) {
        done(i % 2 ? lladd_commit(txn[i]) : lladd_abort(txn[i]));
        ck_assert_uint_eq(fixture_stats(&r).in_doubt, PREPARED - i - 1);
        ck_assert_uint_eq(fixture_stats(&r).active, OPEN - i - 1);
    }
    for (unsigned i = PREPARED; i < OPEN; i++) {
        if (i < PREPARED + GUARDED) /* guards the transaction, so the handle is valid until it is
                                     * dropped */
            ck_assert_int_eq(lladd_txn_take(txn[i], false, 0), 0);
        done(lladd_abort(txn[i]));
        ck_assert_uint_eq(fixture_stats(&r).active, OPEN - i - 1);
    }
    for (unsigned i = PREPARED; i < PREPARED + GUARDED; i++)
        lladd_txn_drop(txn[i]);
    struct lladd_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.active, 0);
    ck_assert_uint_eq(s.in_doubt, 0);
    ck_assert_uint_eq(s.begun, begun + OPEN);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("many transactions");
    TCase *tc = tcase_create("many");
    tcase_add_loop_test(tc, aborts_take_turns_with_one_cursor, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, statistics_know_what_is_open_and_in_doubt, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
