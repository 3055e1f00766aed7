/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prepared transactions:
 * - what they may contain, and which transactions may not be prepared;
 * - failures in phase two;
 * - checkpoints and crashes between all steps;
 * - global ids that are used again;
 * - the number of log syncs.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static void begin_case(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
}

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Makes a transaction with savepoints, to some of which it rolls back, and with nested top actions,
 * which are closed or aborted. */
static struct lladd_txn *intricate(void)
{
    struct lladd_action outer;
    lladd_savepoint_id kept, dropped;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    ok(txn, lladd_savepoint(txn, &kept));
    ok(txn, cell_put(txn, at(1), 2));
    ok(txn, lladd_savepoint(txn, &dropped));
    ok(txn, cell_put(txn, at(2), 3));
    ok(txn, cells_transfer(txn, at(5), at(6), 7));
    ok(txn, lladd_rollback_to(txn, dropped));
    ok(txn, cells_transfer(txn, at(3), at(4), 9));
    ok(txn, lladd_nta_begin(txn, &outer));
    ok(txn, cell_put(txn, at(7), 5));
    ok(txn, lladd_nta_abort(txn, &outer));
    ok(txn, lladd_savepoint_release(txn, kept));
    ok(txn, cell_bump(txn, at(8), 10));
    return txn;
}

static void expect_intricate(bool there)
{
    fixture_expect(&r, at(0), there ? 1 : 0);
    fixture_expect(&r, at(1), there ? 2 : 0);
    fixture_expect(&r, at(2), 0);
    fixture_expect(&r, at(3), there ? (uint64_t)-9 : 0);
    fixture_expect(&r, at(4), there ? 9 : 0);
    fixture_expect(&r, at(5), 0);
    fixture_expect(&r, at(6), 0);
    fixture_expect(&r, at(7), 0);
    fixture_expect(&r, at(8), there ? 10 : 0);
}

START_TEST(savepoints_and_top_actions_inside_survive)
{
    for (int commit = 0; commit < 2; commit++) {
        struct lladd_gid gid = gid_of("a");
        begin_case(_i);
        struct lladd_txn *txn = intricate();
        ok(txn, lladd_prepare(txn, &gid));
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        expect_intricate(true);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        txn = fixture_claim(&r, "a");
        done(commit ? lladd_commit(txn) : lladd_abort(txn));
        expect_intricate(commit);
        fixture_reopen(&r);
        expect_intricate(commit);
        fixture_free(&r);
    }
}
END_TEST

/* ---- transactions that may not be prepared --------------------------------------------------- */

START_TEST(what_is_finished_read_only_or_poisoned_is_not_prepared)
{
    struct lladd_gid gid = gid_of("a");
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_action action;
    begin_case(_i & FIXTURE_RESERVED);
    ck_assert_int_eq(lladd_prepare(NULL, &gid), LLADD_CLOSED);
    struct lladd_txn *txn = fixture_begin(&r);
    done(lladd_commit(txn));
    ck_assert_int_eq(lladd_prepare(txn, &gid), LLADD_CLOSED);
    txn = fixture_begin(&r);
    done(lladd_abort(txn));
    ck_assert_int_eq(lladd_prepare(txn, &gid), LLADD_CLOSED);
    o.read_only = true;
    txn = fixture_begin_with(&r, &o);
    refused(txn, LLADD_READ_ONLY, lladd_prepare(txn, &gid));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    ok(txn, lladd_nta_begin(txn, &action));
    refused(txn, LLADD_OPEN_ACTION, lladd_prepare(txn, &gid));
    ok(txn, lladd_nta_abort(txn, &action));
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    ok(txn, cell_put(txn, at(0), 1));
    struct lladd_txn *other = fixture_begin(&r);
    ok(other, cell_put(other, at(1), 1));
    fault_device_fail(r.fd, 1, FAULT_WRITES, EIO, true);
    ck_assert_int_eq(lladd_prepare(txn, &gid), LLADD_WRITE_FAILED);
    gid = gid_of("b");
    ck_assert_int_eq(lladd_prepare(other, &gid), LLADD_WRITE_FAILED);
    fault_device_fail(r.fd, 0, 0, 0, false);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    fixture_expect(&r, at(0), 0);
    fixture_free(&r);
}
END_TEST

/* ---- phase two ------------------------------------------------------------------------------- */

/* If the commit fails for lack of memory, the transaction stays prepared, and the commit can be
 * tried again. */
START_TEST(phase_two_can_be_tried_again)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        begin_case(_i & (FIXTURE_RESERVED | FIXTURE_FILES));
        struct lladd_txn *txn = fixture_prepared(&r, "a", at(0), 1);
        fault_alloc_fail(&r.mem, n, false);
        int rc = lladd_commit(txn);
        fired = fault_alloc_fired(&r.mem) > 0;
        fault_alloc_fail(&r.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
            done(lladd_commit(txn));
        }
        ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
        fixture_expect(&r, at(0), 1);
        fixture_free(&r);
    }
}
END_TEST

/* Open reserves the memory for the rollback of a transaction in doubt (REC-3). So a lack of memory
 * does not make the rollback fail and does not poison the handle. */
START_TEST(what_was_in_doubt_is_rolled_back_without_memory)
{
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        struct lladd_gid gid = gid_of("a");
        begin_case(_i & (FIXTURE_RESERVED | FIXTURE_FILES));
        struct lladd_txn *txn = intricate();
        ok(txn, lladd_prepare(txn, &gid));
        if (checkpoint)
            ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        expect_intricate(true); /* also reads the page into the cache */
        txn = fixture_claim(&r, "a");
        fault_alloc_fail(&r.mem, 1, true);
        int rc = lladd_abort(txn);
        fault_alloc_fail(&r.mem, 0, false);
        ck_assert_int_eq(rc, 0);
        expect_intricate(false);
        fixture_reopen(&r);
        expect_intricate(false);
        fixture_free(&r);
    }
}
END_TEST

/* The device fails at some step of phase two, which poisons the handle. After the next open the
 * transaction is decided or still in doubt. */
START_TEST(after_an_error_of_the_device_it_is_decided_or_in_doubt)
{
    bool fired = true;
    unsigned doubtful = 0;
    for (uint64_t n = 1; fired; n++) {
        begin_case(0);
        struct lladd_txn *txn = fixture_prepared(&r, "a", at(0), 1);
        fault_device_fail(r.fd, n, FAULT_WRITES, EIO, true);
        int rc = _i ? lladd_commit(txn) : lladd_abort(txn);
        fired = fault_device_fired(r.fd) > 0;
        fault_device_fail(r.fd, 0, 0, 0, false);
        ck_assert(rc == 0 || fired);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        unsigned still = fixture_in_doubt(&r).n;
        doubtful += still;
        ck_assert(!(_i && rc == 0 && still)); /* an acknowledged commit stays committed */
        if (still)
            done(_i ? lladd_commit(fixture_claim(&r, "a")) : lladd_abort(fixture_claim(&r, "a")));
        fixture_expect(&r, at(0), _i ? 1 : 0);
        fixture_free(&r);
    }
    ck_assert_uint_gt(doubtful, 0);
}
END_TEST

/* ---- checkpoints and crashes between all steps ----------------------------------------------- */

/* The number of steps so far. A checkpoint comes after step `checkpoint_at`, a crash after step
 * `crash_at`. */
static unsigned step, checkpoint_at, crash_at;

static bool crashed_here(void)
{
    step++;
    if (step == checkpoint_at)
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    if (step != crash_at)
        return false;
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    return true;
}

/* Runs the steps of a transaction until the crash. Returns the state that the transaction must
 * have: 0 absent, 1 in doubt, 2 decided, 3 decided without a crash. */
static int live(bool commit)
{
    struct lladd_gid gid = gid_of("a");
    struct lladd_txn *txn = fixture_begin(&r);
    if (crashed_here())
        return 0;
    ok(txn, cell_put(txn, at(0), 1));
    if (crashed_here())
        return 0;
    ok(txn, cells_transfer(txn, at(1), at(2), 3));
    if (crashed_here())
        return 0;
    ok(txn, lladd_prepare(txn, &gid));
    if (crashed_here())
        return 1;
    fixture_set(&r, at(9), 4); /* another transaction, which commits durably */
    if (crashed_here())
        return 1;
    done(commit ? lladd_commit(txn) : lladd_abort(txn));
    fixture_set(&r, at(9), 5); /* makes the end of the transaction durable, because an abort does
                                * not sync */
    return crashed_here() ? 2 : 3;
}

START_TEST(checkpoints_and_crashes_may_come_between_all_steps)
{
    bool commit = _i & 1;
    for (checkpoint_at = 0; checkpoint_at <= 6; checkpoint_at++)
        for (crash_at = 1; crash_at <= 6; crash_at++) {
            begin_case(_i & FIXTURE_RESERVED ? FIXTURE_RESERVED : 0);
            step = 0;
            int state = live(commit);
            ck_assert_uint_eq(fixture_in_doubt(&r).n, state == 1);
            if (state == 1 && commit)
                done(lladd_commit(fixture_claim(&r, "a")));
            else if (state == 1)
                done(lladd_abort(fixture_claim(&r, "a")));
            fixture_set(&r, at(9), 6);
            uint64_t want = state && commit;
            fixture_expect(&r, at(0), want);
            fixture_expect(&r, at(2), want * 3);
            fixture_crash(&r, &fault_kill);
            fixture_open(&r);
            ck_assert_uint_eq(fixture_in_doubt(&r).n, 0); /* a crash does not bring it back */
            fixture_expect(&r, at(0), want);
            fixture_expect(&r, at(1), (uint64_t)0 - want * 3);
            fixture_free(&r);
        }
}
END_TEST

/* ---- a checkpoint in the middle of rolling back ---------------------------------------------- */

/* An operation with an undo that takes a checkpoint. Then the device fails, so that later records
 * are lost. */
static unsigned checkpoints;

static int checkpoint_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    if (checkpoints++)
        return 0; /* runs again after the restart, without a checkpoint */
    int rc = lladd_checkpoint(r.db, lladd_txn_error_out(txn));
    fault_device_crash_at(r.fd, 1);
    return rc;
}

static const struct lladd_op checkpointing = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.checkpointing",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = checkpoint_compensate,
    .undo_log_max = 256,
    .undo_pages_max = 1,
};

/* The checkpoint is taken while a prepared transaction is being rolled back. If bit 0 of _i is set,
 * one change is already undone; otherwise none is. After the crash the transaction may be in doubt
 * again only if no change was undone. The transaction must never be committed. */
START_TEST(a_checkpoint_while_it_is_rolled_back_does_not_revive_it)
{
    bool first_undone = _i & 1;
    struct lladd_gid gid = gid_of("a");
    lladd_op_id op;
    fixture_init(&r, _i & 2 ? FIXTURE_RESERVED : 0);
    ck_assert_int_eq(lladd_register_op(&r.options, &checkpointing, &r.err), 0);
    fixture_open(&r);
    page = fixture_page(&r);
    ck_assert_int_eq(lladd_op_lookup(r.db, checkpointing.name, 1, &op), 0);
    checkpoints = 0;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    if (!first_undone)
        ok(txn, lladd_log_undo_only(txn, op, "x", 1));
    ok(txn, cells_transfer(txn, at(1), at(2), 3));
    if (first_undone)
        ok(txn, lladd_log_undo_only(txn, op, "x", 1));
    ok(txn, lladd_prepare(txn, &gid));
    (void)lladd_abort(txn); /* meanwhile the device fails */
    ck_assert_uint_eq(checkpoints, 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, first_undone);
    if (first_undone)
        done(lladd_abort(fixture_claim(&r, "a")));
    for (int life = 0; life < 2; life++) {
        for (unsigned i = 0; i < 3; i++)
            fixture_expect(&r, at(i), 0);
        ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
        fixture_reopen(&r);
    }
    ck_assert_uint_eq(checkpoints, 2); /* the undo has run exactly once more */
    fixture_free(&r);
}
END_TEST

/* ---- ids ------------------------------------------------------------------------------------- */

/* After a restart, a transaction may get the id of a transaction before the restart. */
START_TEST(an_id_can_be_used_again_after_a_restart)
{
    begin_case(_i);
    for (unsigned round = 1; round <= 5; round++) {
        struct lladd_gid gid = gid_of("a");
        struct lladd_txn *txn = fixture_prepared(&r, "a", at(round), round), *second;
        lladd_lsn id = lladd_txn_id(txn);
        if (round % 2) {
            fixture_crash(&r, &fault_power);
            fixture_open(&r);
            txn = fixture_claim(&r, "a");
            ck_assert_uint_eq(lladd_txn_id(txn).v, id.v);
        }
        second = fixture_begin(&r);
        ok(second, cell_put(second, at(20), round));
        refused(second, LLADD_EXISTS, lladd_prepare(second, &gid));
        done(lladd_abort(second));
        done(round == 3 ? lladd_abort(txn) : lladd_commit(txn));
        if (round % 2 == 0)
            fixture_reopen(&r);
    }
    for (unsigned round = 1; round <= 5; round++)
        fixture_expect(&r, at(round), round == 3 ? 0 : round);
    fixture_free(&r);
}
END_TEST

/* ---- cost ------------------------------------------------------------------------------------ */

/* A prepare syncs the log once, a commit once, an abort not at all. */
START_TEST(prepare_and_commit_cost_two_forces_and_no_more)
{
    begin_case(_i & ~FIXTURE_THREADS);
    fixture_set(&r, at(0), 1);
    uint64_t before = fixture_stats(&r).log_syncs;
    for (unsigned i = 1; i <= 10; i++) {
        struct lladd_txn *txn = fixture_prepared(&r, "a", at(0), i);
        ck_assert_uint_eq(fixture_stats(&r).log_syncs, before + 1);
        done(lladd_commit(txn));
        ck_assert_uint_eq(fixture_stats(&r).log_syncs, before + 2);
        before += 2;
    }
    struct lladd_txn *txn = fixture_prepared(&r, "a", at(0), 99);
    done(lladd_abort(txn));
    ck_assert_uint_eq(fixture_stats(&r).log_syncs, before + 1);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("doubt");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, savepoints_and_top_actions_inside_survive, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, what_is_finished_read_only_or_poisoned_is_not_prepared, 0, 4);
    tcase_add_loop_test(tc, phase_two_can_be_tried_again, 0, 4);
    tcase_add_loop_test(tc, what_was_in_doubt_is_rolled_back_without_memory, 0, 4);
    tcase_add_loop_test(tc, after_an_error_of_the_device_it_is_decided_or_in_doubt, 0, 2);
    tcase_add_loop_test(tc, checkpoints_and_crashes_may_come_between_all_steps, 0, 4);
    tcase_add_loop_test(tc, a_checkpoint_while_it_is_rolled_back_does_not_revive_it, 0, 4);
    tcase_add_loop_test(tc, an_id_can_be_used_again_after_a_restart, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, prepare_and_commit_cost_two_forces_and_no_more, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
