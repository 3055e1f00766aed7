/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of a thread that holds a page: a call that may wait is refused, in every build, and several
 * pages change together without any wait.
 */
#include "db_fixture.h"

#include <lladd/log_read.h>
#include <stdlib.h>

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

/* Every call that may wait returns the error at once, whether or not it would have to wait; and
 * changes nothing. */
START_TEST(what_may_wait_is_refused_while_a_page_is_held)
{
    const enum lladd_latch latch = _i & 1 ? LLADD_LATCH_EXCLUSIVE : LLADD_LATCH_SHARED;
    struct lladd_log_need needs[] = {{0, 1}, {LLADD_NO_OP, 1}};
    struct lladd_page *held;
    struct lladd_txn *other = NULL;
    struct lladd_action action;
    lladd_savepoint_id sp;
    begin_case(_i);
    lladd_pageno second = fixture_page(&r);
    struct cell far = cell_of(second, 1);
    needs[0].op = r.ids.put;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 7)); /* there is credit left */
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 8));
    ok_db(&r, lladd_page_fix(r.db, page, latch, &held, &r.err));
    refused(txn, LLADD_BAD_STATE, cell_put(txn, far, 1));
    ck_contains(lladd_txn_error(txn)->message, "lladd_log_credit_all");
    refused(txn, LLADD_BAD_STATE, cell_put(txn, at(0), 1));
    refused(txn, LLADD_BAD_STATE, cell_poke(txn, far, 1));
    refused(txn, LLADD_BAD_STATE, lladd_log_credit(txn, r.ids.put, 1));
    refused(txn, LLADD_BAD_STATE, lladd_log_credit_all(txn, needs, 2));
    refused(txn, LLADD_BAD_STATE, lladd_log_undo_only(txn, r.ids.restore, &far, 8));
    refused(txn, LLADD_BAD_STATE,
            lladd_log_note(txn, "test.note", lladd_span_of(&far, sizeof far), NULL));
    refused(txn, LLADD_BAD_STATE, lladd_nta_end(txn, &action, r.ids.restore, &far, 8));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, &action));
    refused(txn, LLADD_BAD_STATE, lladd_rollback_to(txn, sp));
    refused(txn, LLADD_BAD_STATE, lladd_commit(txn));
    refused(txn, LLADD_BAD_STATE, lladd_abort(txn));
    ck_assert_int_eq(lladd_begin(r.db, NULL, &other, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_maintain(r.db, NULL, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_wait_durable(r.db, lladd_lsn_of(0), &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_close(r.db), LLADD_BAD_STATE);
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    lladd_page_unfix(r.db, held, latch);
    fixture_expect(&r, far, 0);
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, cell_put(txn, far, 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 7);
    fixture_expect(&r, at(1), 8);
    fixture_expect(&r, far, 1);
    end_case();
}
END_TEST

/* The proper order: all log space, the latches, all records, the end of the action. */
START_TEST(pages_change_together_with_the_end_of_an_action)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 77, 0};
    struct lladd_log_need needs[LLADD_LOG_NEEDS_MAX + 1] = {{0, 2}, {LLADD_NO_OP, 1}};
    struct lladd_page *held[2];
    struct lladd_action action;
    begin_case(_i);
    lladd_pageno second = fixture_page(&r);
    needs[0].op = r.ids.put;
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_TOO_LARGE, lladd_log_credit_all(txn, needs, LLADD_LOG_NEEDS_MAX + 1));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_log_credit_all(txn, needs, 2));
    ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
    ok_db(&r, lladd_page_fix(r.db, second, LLADD_LATCH_EXCLUSIVE, &held[1], &r.err));
    ok(txn, lladd_update_page(txn, r.ids.put, held[0], &args, sizeof args));
    ok(txn, lladd_update_page(txn, r.ids.put, held[1], &args, sizeof args));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    lladd_page_unfix(r.db, held[1], LLADD_LATCH_EXCLUSIVE);
    lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    done(lladd_abort(txn));
    fixture_expect(&r, at(3), 77);
    fixture_expect(&r, cell_of(second, 3), 77);
    end_case();
}
END_TEST

/* The log is full again and again, and checkpoints wait for the pages that the thread holds: an
 * update beside one is refused and takes no space; the proper order takes it before there is a
 * page. */
START_TEST(pages_change_together_at_the_log_limit)
{
    enum { ROUNDS = 1500, LIMIT = 32 * 16384 };
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {3, 0, 600};
    struct lladd_page *held[2];
    struct lladd_log_need need = {0, 2};
    fixture_init(&r, (unsigned)_i);
    r.options.log_ring_bytes = 128u << 10;
    r.options.log_segment_min = r.options.log_segment_max = 16384;
    r.options.log_limit_bytes = LIMIT;
    r.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&r);
    page = fixture_page(&r);
    lladd_pageno second = fixture_page(&r);
    need.op = r.ids.wide;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put(txn, at(0), i));
        ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
        refused(txn, LLADD_BAD_STATE, cell_put(txn, cell_of(second, 0), i));
        lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
        args.value = i;
        ok(txn, lladd_log_credit_all(txn, &need, 1));
        ok_db(&r, lladd_page_fix(r.db, page, LLADD_LATCH_EXCLUSIVE, &held[0], &r.err));
        ok_db(&r, lladd_page_fix(r.db, second, LLADD_LATCH_EXCLUSIVE, &held[1], &r.err));
        ok(txn, lladd_update_page(txn, r.ids.wide, held[0], &args, sizeof args));
        ok(txn, lladd_update_page(txn, r.ids.wide, held[1], &args, sizeof args));
        lladd_page_unfix(r.db, held[1], LLADD_LATCH_EXCLUSIVE);
        lladd_page_unfix(r.db, held[0], LLADD_LATCH_EXCLUSIVE);
        ok(txn, lladd_log_credit(txn, r.ids.put, 0));
        done(lladd_commit(txn));
    }
    ck_assert_uint_gt(lladd_durable_lsn(r.db).v, 2 * LIMIT);
    ck_assert_uint_le(fixture_stats(&r).log_disk_bytes, LIMIT);
    fixture_expect(&r, at(0), ROUNDS - 1);
    fixture_expect(&r, at(3), ROUNDS - 1);
    fixture_expect(&r, cell_of(second, 3), ROUNDS - 1);
    fixture_expect(&r, cell_of(second, 0), 0);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("held pages");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, what_may_wait_is_refused_while_a_page_is_held, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, pages_change_together_with_the_end_of_an_action, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, pages_change_together_at_the_log_limit, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
