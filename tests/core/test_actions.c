/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nested top actions, and a lighter mechanism: an undo-only record followed by redo-only records
 * (OP-4, OP-5, OP-6). An open action is undone physically. A closed action is undone by its logical
 * undo, even if other transactions have changed the same cells in between. The tests simulate
 * crashes at different moments of an action.
 */
#include "db_fixture.h"

#include <string.h>

static struct fixture r;
static lladd_pageno page[3];

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    fixture_pages(&r, page, 3);
}

static void end_case(void)
{
    fixture_free(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page[0], i);
}

static struct cell on(unsigned p, unsigned i)
{
    return cell_of(page[p], i);
}

/* ---- closing ----------------------------------------------------------------------------- */

/* Another transaction changes the cells after the action has closed. So the undo must add the
 * amount back. To restore the old values would be wrong. */
START_TEST(a_closed_action_is_taken_back_logically_after_others_have_worked_there)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    ok(txn, cells_transfer(txn, on(0, 0), on(1, 0), 20));
    ok(other, cell_add(other, on(0, 0), 100));
    ok(other, cells_transfer(other, on(1, 0), on(2, 0), 5));
    done(lladd_commit(other));
    done(lladd_abort(txn));
    fixture_expect(&r, on(0, 0), 100);
    fixture_expect(&r, on(1, 0), (uint64_t)-5);
    fixture_expect(&r, on(2, 0), 5);
    fixture_reopen(&r);
    fixture_expect(&r, on(0, 0), 100);
    end_case();
}
END_TEST

START_TEST(a_closed_action_survives_a_crash_and_is_taken_back_logically)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    ok(txn, cells_transfer(txn, on(0, 0), on(1, 0), 20));
    ok(other, cell_add(other, on(0, 0), 100));
    done(lladd_commit(other));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, on(0, 0), 100);
    fixture_expect(&r, on(1, 0), 0);
    end_case();
}
END_TEST

START_TEST(an_action_without_undo_stays_when_its_transaction_aborts)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 2));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ok(txn, cell_put(txn, at(2), 3));
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 0);
    fixture_expect(&r, at(1), 2);
    fixture_expect(&r, at(2), 0);
    end_case();
}
END_TEST

/* An outer action has closed with a logical undo. Then the logical undos of its inner actions are
 * not run. */
START_TEST(a_closed_action_inside_a_closed_one_is_covered_by_the_outer_undo)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action outer;
    unsigned char undo[TRANSFER_BYTES];
    ok(txn, lladd_nta_begin(txn, &outer));
    ok(txn, cells_transfer(txn, at(0), at(1), 4));
    ok(txn, cells_transfer(txn, at(1), at(2), 4));
    transfer_encode(undo, at(0), at(2), 4);
    ok(txn, lladd_nta_end(txn, &outer, r.ids.transfer, undo, sizeof undo));
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 4);
    done(lladd_abort(txn));
    for (unsigned i = 0; i < 3; i++)
        fixture_expect(&r, at(i), 0);
    end_case();
}
END_TEST

START_TEST(a_closed_action_inside_one_taken_back_goes_by_its_logical_undo)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    struct lladd_action outer;
    ok(txn, lladd_nta_begin(txn, &outer));
    ok(txn, cell_put(txn, at(5), 9));
    ok(txn, cells_transfer(txn, at(0), at(1), 4));
    ok(other, cell_add(other, at(0), 50));
    done(lladd_commit(other));
    ok(txn, lladd_nta_abort(txn, &outer));
    fixture_expect(&r, at(0), 50);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(5), 0);
    ok(txn, cell_put(txn, at(6), 1));
    done(lladd_commit(txn));
    fixture_expect(&r, at(6), 1);
    end_case();
}
END_TEST

START_TEST(aborting_a_transaction_takes_back_its_open_actions)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action a, b, c;
    ok(txn, cell_add(txn, at(0), 1));
    ok(txn, lladd_nta_begin(txn, &a));
    ok(txn, cell_add(txn, at(0), 10));
    ok(txn, lladd_nta_begin(txn, &b));
    ok(txn, cell_add(txn, at(0), 100));
    ok(txn, cells_transfer(txn, at(1), at(2), 7));
    ok(txn, lladd_nta_begin(txn, &c));
    done(lladd_abort(txn));
    for (unsigned i = 0; i < 3; i++)
        fixture_expect(&r, at(i), 0);
    end_case();
}
END_TEST

/* An action that logs nothing closes without a record, and may be the first in its transaction. */
START_TEST(empty_actions_cost_nothing)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action a, b;
    ok(txn, lladd_nta_begin(txn, &a));
    ok(txn, lladd_nta_begin(txn, &b));
    ok(txn, lladd_nta_end(txn, &b, LLADD_NO_OP, NULL, 0));
    ok(txn, lladd_nta_abort(txn, &a));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    done(lladd_commit(txn));
    /* If an empty action closes with a logical undo, the undo is logged, and is run by an abort. So
     * such an action works like an undo-only record. */
    txn = fixture_begin(&r);
    unsigned char undo[TRANSFER_BYTES];
    transfer_encode(undo, at(0), at(1), 3);
    ok(txn, lladd_nta_begin(txn, &a));
    ok(txn, lladd_nta_end(txn, &a, r.ids.transfer, undo, sizeof undo));
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 3);
    fixture_expect(&r, at(1), (uint64_t)-3);
    end_case();
}
END_TEST

/* ---- misuse ------------------------------------------------------------------------------ */

START_TEST(commit_and_prepare_inside_an_open_action_are_refused)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    struct lladd_gid gid = gid_of("g");
    lladd_lsn lsn;
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(1), 1));
    refused(txn, LLADD_OPEN_ACTION, lladd_commit(txn));
    refused(txn, LLADD_OPEN_ACTION, lladd_commit_async(txn, &lsn));
    refused(txn, LLADD_OPEN_ACTION, lladd_prepare(txn, &gid));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    done(lladd_commit(txn));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 1);
    end_case();
}
END_TEST

START_TEST(only_the_innermost_open_action_can_be_ended)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action a, b, never = {{0}};
    ok(txn, lladd_nta_begin(txn, &a));
    ok(txn, lladd_nta_begin(txn, &b));
    refused(txn, LLADD_BAD_STATE, lladd_nta_end(txn, &a, LLADD_NO_OP, NULL, 0));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, &a));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, &never));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, NULL));
    ok(txn, lladd_nta_abort(txn, &b));
    refused(txn, LLADD_BAD_STATE, lladd_nta_abort(txn, &b));
    ok(txn, lladd_nta_end(txn, &a, LLADD_NO_OP, NULL, 0));
    done(lladd_commit(txn));
    end_case();
}
END_TEST

START_TEST(wrong_undo_for_an_action_is_refused_and_the_action_stays_open)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    unsigned char undo[1000] = {0};
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_put(txn, at(0), 1));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_nta_end(txn, &action, 9999, undo, TRANSFER_BYTES));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_nta_end(txn, &action, r.ids.put, undo, 10));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_nta_end(txn, &action, LLADD_NO_OP, undo, 10));
    refused(txn, LLADD_TOO_LARGE,
            lladd_nta_end(txn, &action, r.ids.transfer, undo, TRANSFER_BYTES + 1));
    ok(txn, lladd_nta_abort(txn, &action));
    fixture_expect(&r, at(0), 0);
    done(lladd_commit(txn));
    end_case();
}
END_TEST

/* ---- the lighter mechanism (LLADD paper, section 2.4) ------------------------------------- */

static void undo_only(struct lladd_txn *txn, struct cell c, uint64_t value)
{
    unsigned char undo[RESTORE_BYTES];
    restore_encode(undo, c, value);
    ok(txn, lladd_log_undo_only(txn, r.ids.restore, undo, sizeof undo));
}

START_TEST(an_undo_only_record_takes_back_redo_only_ones)
{
    begin_case(_i);
    fixture_set(&r, at(0), 5);
    struct lladd_txn *txn = fixture_begin(&r);
    undo_only(txn, at(0), 5);
    ok(txn, cell_poke(txn, at(0), 6));
    ok(txn, cell_poke(txn, at(0), 7));
    fixture_expect(&r, at(0), 7);
    done(lladd_abort(txn));
    fixture_expect(&r, at(0), 5);
    end_case();
}
END_TEST

/* The undo-only record is followed by none or some of the changes that it undoes. The compensation
 * must work in each case. */
START_TEST(an_undo_only_record_works_after_any_prefix_of_what_follows_it)
{
    for (unsigned prefix = 0; prefix < 3; prefix++) {
        begin_case(_i);
        fixture_set(&r, at(0), 5);
        struct lladd_txn *txn = fixture_begin(&r);
        undo_only(txn, at(0), 5);
        for (unsigned i = 0; i < prefix; i++)
            ok(txn, cell_poke(txn, at(0), 6 + i));
        fixture_set(&r, at(1), 1); /* its commit makes all earlier records durable */
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, at(0), 5);
        end_case();
    }
}
END_TEST

START_TEST(undo_only_records_are_rolled_back_to_a_savepoint_like_others)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id sp;
    undo_only(txn, at(0), 0);
    ok(txn, cell_poke(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    undo_only(txn, at(0), 1);
    ok(txn, cell_poke(txn, at(0), 2));
    undo_only(txn, at(1), 0);
    ok(txn, cell_poke(txn, at(1), 2));
    ok(txn, lladd_rollback_to(txn, sp));
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
    done(lladd_commit(txn));
    fixture_reopen(&r);
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST

/* ---- logical undo of updates ------------------------------------------------------------- */

START_TEST(a_logical_undo_commutes_with_what_others_did)
{
    begin_case(_i);
    struct lladd_txn *a = fixture_begin(&r), *b = fixture_begin(&r);
    ok(a, cell_bump(a, at(0), 7));
    ok(b, cell_bump(b, at(0), 30));
    ok(a, cell_bump(a, at(0), 9));
    done(lladd_commit(b));
    done(lladd_abort(a));
    fixture_expect(&r, at(0), 30);
    end_case();
}
END_TEST

/* Many compensations run, each in a top action of its own. Then the transaction goes on. */
START_TEST(compensations_leave_the_transaction_as_it_was_at_the_savepoint)
{
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_action action;
    lladd_savepoint_id sp;
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, cell_add(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &sp));
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 5; i++)
            ok(txn, cell_bump(txn, at(i), 3));
        ok(txn, cells_transfer(txn, on(1, 0), on(2, 0), 1));
        ok(txn, lladd_rollback_to(txn, sp));
        fixture_expect(&r, at(0), 1);
        fixture_expect(&r, at(4), 0);
        fixture_expect(&r, on(1, 0), 0);
    }
    /* The action is the innermost open action again. */
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    done(lladd_commit(txn));
    ck_assert_uint_lt(fixture_stats(&r).undo_reserved, 64u << 10); /* no actions are left open */
    fixture_expect(&r, at(0), 1);
    end_case();
}
END_TEST

/* A compensation is a part of a transaction's rollback, so it must not end the transaction. */
static int ending_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    int *codes = ctx;
    struct lladd_gid gid = gid_of("c");
    lladd_lsn lsn;
    (void)undo;
    codes[0] = lladd_commit(txn);
    codes[1] = lladd_abort(txn);
    codes[2] = lladd_prepare(txn, &gid);
    codes[3] = lladd_commit_async(txn, &lsn);
    return 0;
}

static bool any_undo(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)s;
    return kind == LLADD_SPAN_UNDO;
}

static int leaving_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    struct lladd_action action;
    (void)ctx;
    (void)undo;
    return lladd_nta_begin(txn, &action);
}

static void run_odd_compensation(int kind,
                                 int (*compensate)(void *, struct lladd_txn *, struct lladd_span),
                                 int *codes, int expected)
{
    struct lladd_op op = {.struct_size = sizeof op,
                          .name = "test.odd",
                          .version = 1,
                          .ctx = codes,
                          .record_max = 8,
                          .undo_kind = LLADD_UNDO_LOGICAL,
                          .validate = any_undo,
                          .compensate = compensate,
                          .undo_log_max = 256,
                          .undo_pages_max = 1};
    lladd_op_id id = LLADD_NO_OP;
    fixture_init(&r, (unsigned)kind);
    ok_db(&r, lladd_register_op(&r.options, &op, &r.err));
    fixture_open(&r);
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.odd", 0, &id), 0);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_undo_only(txn, id, "", 0));
    ck_assert_int_eq(lladd_abort(txn), expected);
    if (expected) {
        lladd_db_kill(r.db);
        r.db = NULL;
    }
    fixture_free(&r);
}

START_TEST(a_compensation_cannot_end_its_transaction)
{
    int codes[4] = {0};
    run_odd_compensation(_i, ending_compensate, codes, 0);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(codes[i], LLADD_BAD_STATE);
}
END_TEST

START_TEST(a_compensation_that_leaves_an_action_open_has_failed)
{
    run_odd_compensation(_i, leaving_compensate, NULL, LLADD_UNDO_FAILED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("actions");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(a_closed_action_is_taken_back_logically_after_others_have_worked_there);
    LOOP(a_closed_action_survives_a_crash_and_is_taken_back_logically);
    LOOP(an_action_without_undo_stays_when_its_transaction_aborts);
    LOOP(a_closed_action_inside_a_closed_one_is_covered_by_the_outer_undo);
    LOOP(a_closed_action_inside_one_taken_back_goes_by_its_logical_undo);
    LOOP(aborting_a_transaction_takes_back_its_open_actions);
    LOOP(empty_actions_cost_nothing);
    LOOP(commit_and_prepare_inside_an_open_action_are_refused);
    LOOP(only_the_innermost_open_action_can_be_ended);
    LOOP(wrong_undo_for_an_action_is_refused_and_the_action_stays_open);
    LOOP(an_undo_only_record_takes_back_redo_only_ones);
    LOOP(an_undo_only_record_works_after_any_prefix_of_what_follows_it);
    LOOP(undo_only_records_are_rolled_back_to_a_savepoint_like_others);
    LOOP(a_logical_undo_commutes_with_what_others_did);
    LOOP(compensations_leave_the_transaction_as_it_was_at_the_savepoint);
    LOOP(a_compensation_cannot_end_its_transaction);
    LOOP(a_compensation_that_leaves_an_action_open_has_failed);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
