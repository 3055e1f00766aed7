/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Heuristic outcomes: an administrator's decision is durable. The database remembers the outcome
 * through crashes, clean stops, checkpoints and truncations of the log, until a call forgets the
 * outcome. Until then the coordinator gets the outcome, and the global id stays in use.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/inspect.h>
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

static int claim_fails(const char *name)
{
    struct lladd_gid gid = gid_of(name);
    struct lladd_txn *txn;
    return lladd_in_doubt_claim(r.db, &gid, &txn, &r.err);
}

struct list {
    unsigned n;
    struct lladd_heuristic_info info[8];
};

static int add(void *ctx, const struct lladd_heuristic_info *info)
{
    struct list *l = ctx;
    ck_assert_uint_lt(l->n, 8);
    l->info[l->n++] = *info;
    return 0;
}

static struct list remembered(void)
{
    struct list l = {0};
    ok_db(&r, lladd_heuristic_each(r.db, add, &l, &r.err));
    return l;
}

static void forget(const char *name, int want)
{
    struct lladd_gid gid = gid_of(name);
    ck_assert_int_eq(lladd_heuristic_forget(r.db, &gid, &r.err), want);
}

static void check_both(const struct lladd_heuristic_info *before)
{
    struct list l = remembered();
    ck_assert_uint_eq(l.n, 2);
    ck_assert_uint_eq(fixture_in_doubt(&r).n, 0);
    for (unsigned i = 0; i < 2; i++) {
        unsigned k = memcmp(&l.info[i].gid, &before[0].gid, sizeof l.info[i].gid) ? 1 : 0;
        ck_assert_mem_eq(&l.info[i], &before[k], sizeof l.info[i]);
    }
    ck_assert_int_eq(claim_fails("kept"), LLADD_HEUR_COMMITTED);
    ck_assert_int_eq(claim_fails("gone"), LLADD_HEUR_ABORTED);
    fixture_expect(&r, at(0), 1);
    fixture_expect(&r, at(1), 0);
}

/* Writes so much log that checkpoints truncate the segments that contain the decisions. Asserts
 * that these segments were truncated. */
static void push_log(void)
{
    lladd_lsn from = lladd_lsn_of(fixture_stats(&r).log_tail);
    for (unsigned i = 0; i < 60; i++) {
        struct lladd_txn *other = fixture_begin(&r);
        ok(other, cell_put_wide(other, at(9), i, 2000));
        done(lladd_commit(other));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, from.v);
}

START_TEST(outcomes_are_remembered_until_they_are_forgotten)
{
    struct lladd_gid gid = gid_of("kept");
    begin_case(_i);
    (void)fixture_prepared(&r, "kept", at(0), 1);
    (void)fixture_prepared(&r, "gone", at(1), 2);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    done(lladd_heuristic_end(fixture_claim(&r, "kept"), LLADD_OUTCOME_COMMIT));
    done(lladd_heuristic_end(fixture_claim(&r, "gone"), LLADD_OUTCOME_ABORT));
    struct list l = remembered();
    ck_assert_uint_eq(l.n, 2);
    ck_assert_int_eq(l.info[0].outcome, LLADD_OUTCOME_COMMIT);
    ck_assert_int_eq(l.info[1].outcome, LLADD_OUTCOME_ABORT);
    ck_assert_mem_eq(&l.info[0].gid, &gid, sizeof gid);
    ck_assert_int_gt(l.info[0].decided_us, 0);
    for (unsigned round = 0; round < 6; round++) {
        if (round % 3 == 0)
            fixture_crash(&r, &fault_power);
        else if (round % 3 == 1)
            fixture_close(&r);
        if (round % 3 == 2)
            push_log();
        else
            fixture_open(&r);
        check_both(l.info);
    }
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(3), 3));
    refused(txn, LLADD_EXISTS, lladd_prepare(txn, &gid)); /* the id is in use */
    ck_contains(lladd_txn_error(txn)->message, "heuristic");
    forget("kept", 0);
    forget("kept", LLADD_NOT_FOUND);
    ck_assert_int_eq(claim_fails("kept"), LLADD_NOT_FOUND);
    ok(txn, lladd_prepare(txn, &gid));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(remembered().n, 1);
    forget("gone", 0);
    push_log();
    fixture_reopen(&r);
    ck_assert_uint_eq(remembered().n, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(only_what_is_prepared_is_decided_upon)
{
    struct lladd_gid bad = gid_of("x"), unknown = gid_of("unknown");
    bad.format = -1;
    begin_case(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, at(0), 1));
    refused(txn, LLADD_BAD_STATE, lladd_heuristic_end(txn, LLADD_OUTCOME_COMMIT));
    ok(txn, lladd_prepare(txn, &unknown));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_heuristic_end(txn, (enum lladd_outcome)0));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_heuristic_end(txn, (enum lladd_outcome)3));
    done(lladd_commit(txn));
    ck_assert_int_eq(lladd_heuristic_end(NULL, LLADD_OUTCOME_COMMIT), LLADD_CLOSED);
    ck_assert_int_eq(lladd_heuristic_forget(r.db, &bad, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_heuristic_forget(r.db, NULL, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_heuristic_forget(r.db, &unknown, &r.err), LLADD_NOT_FOUND);
    ck_assert_uint_eq(remembered().n, 0);
    fixture_free(&r);
}
END_TEST

/* After a crash during the call, the transaction must be decided and remembered, or in doubt as
 * before. If the call has returned 0 (`acknowledged`), it must be decided. */
static void expect_one_of_two(bool commit, bool acknowledged)
{
    struct list l = remembered();
    ck_assert_uint_eq(l.n + fixture_in_doubt(&r).n, 1);
    ck_assert(!acknowledged || l.n == 1);
    fixture_expect(&r, at(0), l.n && !commit ? 0 : 1);
    enum lladd_outcome outcome = commit ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT;
    if (l.n)
        ck_assert_int_eq(l.info[0].outcome, outcome);
    if (l.n == 0)
        done(lladd_heuristic_end(fixture_claim(&r, "a"), outcome));
    forget("a", 0);
    fixture_expect(&r, at(0), commit);
}

START_TEST(a_crash_at_any_step_leaves_all_or_nothing)
{
    enum lladd_outcome outcome = _i & 1 ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT;
    const struct fault_crash how = {_i & 2 ? FAULT_KILL : FAULT_POWER, 0, false};
    bool crashed = true;
    for (uint64_t n = 1; crashed; n++) {
        begin_case(0);
        (void)fixture_prepared(&r, "a", at(0), 1);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        struct lladd_txn *txn = fixture_claim(&r, "a");
        fault_device_crash_at(r.fd, n);
        int rc = lladd_heuristic_end(txn, outcome);
        if (rc == 0)
            (void)lladd_checkpoint(r.db, NULL); /* the crash may come here */
        crashed = fault_device_crashed(r.fd);
        fixture_crash(&r, &how);
        fixture_open(&r);
        expect_one_of_two(outcome == LLADD_OUTCOME_COMMIT, rc == 0);
        fixture_free(&r);
    }
}
END_TEST

/* After a crash during a forget, the outcome may still be remembered, unless the call has returned
 * 0. */
START_TEST(a_crash_while_forgetting_leaves_it_remembered_or_forgotten)
{
    bool crashed = true;
    for (uint64_t n = 1; crashed; n++) {
        struct lladd_gid gid = gid_of("a");
        begin_case(0);
        done(lladd_heuristic_end(fixture_prepared(&r, "a", at(0), 1), LLADD_OUTCOME_COMMIT));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fault_device_crash_at(r.fd, n);
        int rc = lladd_heuristic_forget(r.db, &gid, NULL);
        if (rc == 0)
            (void)lladd_checkpoint(r.db, NULL);
        crashed = fault_device_crashed(r.fd);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        ck_assert(rc != 0 || remembered().n == 0);
        fixture_expect(&r, at(0), 1);
        fixture_free(&r);
    }
}
END_TEST

/* If the call fails for lack of memory, the transaction stays in doubt. */
START_TEST(without_memory_it_stays_in_doubt)
{
    for (uint64_t n = 1;; n++) {
        begin_case(_i & FIXTURE_RESERVED);
        struct lladd_txn *txn = fixture_prepared(&r, "a", at(0), 1);
        fault_alloc_fail(&r.mem, n, false);
        int rc = lladd_heuristic_end(txn, _i & 1 ? LLADD_OUTCOME_COMMIT : LLADD_OUTCOME_ABORT);
        uint64_t fired = fault_alloc_fired(&r.mem);
        fault_alloc_fail(&r.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
            ck_assert_uint_eq(remembered().n, 0);
            done(lladd_heuristic_end(txn, LLADD_OUTCOME_COMMIT));
        }
        ck_assert_uint_eq(remembered().n, 1);
        fixture_free(&r);
        if (!fired)
            break;
    }
}
END_TEST

/* A library version that would lose the outcomes must not be able to open the database. */
START_TEST(the_control_file_says_that_there_are_outcomes)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    struct list l = {0};
    begin_case(_i);
    fixture_close(&r);
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    ck_assert_uint_eq(info.incompatible, 0);
    lladd_inspect_close(view);
    fixture_open(&r);
    done(lladd_heuristic_end(fixture_prepared(&r, "a", at(0), 1), LLADD_OUTCOME_ABORT));
    fixture_crash(&r, &fault_kill);
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    ck_assert_uint_eq(info.incompatible & 1, 1);
    ck_assert_int_eq(lladd_inspect_heuristics(view, add, &l), 0);
    ck_assert_uint_eq(l.n, 1);
    ck_assert_int_eq(l.info[0].outcome, LLADD_OUTCOME_ABORT);
    lladd_inspect_close(view);
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heuristic");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, outcomes_are_remembered_until_they_are_forgotten, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, only_what_is_prepared_is_decided_upon, 0, FIXTURE_KINDS);
    tcase_add_loop_test(tc, a_crash_at_any_step_leaves_all_or_nothing, 0, 4);
    tcase_add_test(tc, a_crash_while_forgetting_leaves_it_remembered_or_forgotten);
    tcase_add_loop_test(tc, without_memory_it_stays_in_doubt, 0, 4);
    tcase_add_loop_test(tc, the_control_file_says_that_there_are_outcomes, 0, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
