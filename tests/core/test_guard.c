/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded transactions: one thread uses a transaction until another thread takes it over. Then the
 * calls of the first thread are refused, even after the other thread has ended the transaction.
 * xa/test_takeover.c tests takeovers during lock waits and actions.
 */
#include "db_fixture.h"

#include <lladd/op.h>
#include <lladd/records.h>
#include <lladd/sync.h>

#include <errno.h>

static struct fixture r;
static lladd_pageno page;

static void opened(void)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    struct lladd_txn *t;
    ok_db(&r, lladd_begin(r.db, NULL, &t, &r.err));
    ck_assert_int_eq(lladd_page_alloc(t, &page), 0);
    ck_assert_int_eq(lladd_page_format(t, page, "lladd.bytes"), 0);
    ck_assert_int_eq(lladd_commit(t), 0);
}

static struct lladd_txn *guarded(void)
{
    struct lladd_txn *t;
    ok_db(&r, lladd_begin(r.db, NULL, &t, &r.err));
    ck_assert_int_eq(lladd_txn_take(t, false, 0), 0);
    ck_assert_int_eq(lladd_counter_add(t, page, 64, 1), 0);
    return t;
}

static int64_t counted(void)
{
    int64_t v = 0;
    ok_db(&r, lladd_counter_get(r.db, page, 64, &v, &r.err));
    return v;
}

static void in_a_thread(void *(*fn)(void *), void *arg)
{
    struct lladd_thread thread;
    ck_assert_int_eq(lladd_thread_start(&thread, fn, arg), 0);
    lladd_thread_join(&thread);
}

static void *finds_it_guarded(void *arg)
{
    struct lladd_txn *t = arg;
    lladd_savepoint_id sp;
    ck_assert_int_eq(lladd_counter_add(t, page, 64, 1), LLADD_TAKEN);
    ck_assert_int_eq(lladd_savepoint(t, &sp), LLADD_TAKEN);
    ck_assert_int_eq(lladd_commit(t), LLADD_TAKEN);
    ck_assert_int_eq(lladd_abort(t), LLADD_TAKEN);
    ck_assert_int_eq(lladd_txn_error(t)->code, LLADD_TAKEN);
    ck_assert_uint_eq(lladd_txn_id(t).v, 0);
    return NULL;
}

static void *takes_and_aborts(void *arg)
{
    ck_assert_int_eq(lladd_txn_take(arg, true, UINT64_MAX), 0);
    ck_assert_int_eq(lladd_counter_add(arg, page, 64, 1), 0);
    ck_assert_int_eq(lladd_abort(arg), 0);
    return NULL;
}

START_TEST(one_thread_uses_it_until_another_takes_it)
{
    opened();
    struct lladd_txn *t = guarded();
    in_a_thread(finds_it_guarded, t);
    ck_assert_int_eq(counted(), 1);
    in_a_thread(takes_and_aborts, t);
    ck_assert_int_eq(counted(), 0);
    /* No other thread can use the handle until this thread releases it. */
    for (int i = 0; i < 4; i++) {
        struct lladd_txn *next = guarded();
        ck_assert_ptr_ne(next, t);
        finds_it_guarded(t);
        ck_assert_int_eq(lladd_txn_take(t, false, 0), LLADD_CLOSED);
        ck_assert_int_eq(lladd_commit(next), 0);
    }
    lladd_txn_drop(t);
    ck_assert_int_eq(counted(), 4);
    fixture_free(&r);
}
END_TEST

static void *takes_and_commits(void *arg)
{
    ck_assert_int_eq(lladd_txn_take(arg, false, 0), 0);
    ck_assert_int_eq(lladd_commit(arg), 0);
    return NULL;
}

START_TEST(a_transaction_that_was_given_back_needs_no_drop)
{
    opened();
    struct lladd_txn *t = guarded();
    ck_assert(lladd_txn_give(t));
    ck_assert(!lladd_txn_give(t));
    finds_it_guarded(t);
    in_a_thread(takes_and_commits, t);
    ck_assert_int_eq(counted(), 1);
    struct lladd_txn *next;
    ok_db(&r, lladd_begin(r.db, NULL, &next, &r.err));
    ck_assert_ptr_eq(next, t); /* the handle is reused, and is not guarded */
    in_a_thread(takes_and_commits, next);
    fixture_free(&r);
}
END_TEST

static void *tries_to_take(void *arg)
{
    ck_assert_int_eq(lladd_txn_take(arg, true, 0), LLADD_TIMEOUT);
    ck_assert_int_eq(lladd_txn_take(arg, false, 0), LLADD_TIMEOUT);
    return NULL;
}

static int in_a_call_of_mine(struct lladd_txn *t)
{
    LLADD_USE(t);
    in_a_thread(tries_to_take, t);
    return lladd_counter_add(t, page, 64, 1);
}

START_TEST(a_taker_waits_for_a_call_and_an_open_action)
{
    opened();
    struct lladd_txn *t = guarded();
    struct lladd_action action;
    ck_assert_int_eq(in_a_call_of_mine(t), 0);
    ck_assert_int_eq(lladd_nta_begin(t, &action), 0);
    in_a_thread(tries_to_take, t);
    ck_assert_int_eq(lladd_nta_abort(t, &action), 0);
    in_a_thread(takes_and_commits, t);
    ck_assert_int_eq(counted(), 2);
    lladd_txn_drop(t);
    fixture_free(&r);
}
END_TEST

static void *takes_what_is_poisoned(void *arg)
{
    struct lladd_txn *t = *(struct lladd_txn **)arg;
    int rc = lladd_txn_take(t, true, UINT64_MAX);
    if (rc == 0) {
        rc = lladd_abort(t);
        lladd_txn_drop(t);
    }
    ck_assert_int_eq(rc, lladd_db_error(r.db, NULL));
    return NULL;
}

/* On a poisoned handle no top action can end. A thread has an action open. With _i 0 the thread
 * tries to end the action; with _i 1 it makes no more calls. In neither case may a thread that
 * takes the transaction wait for the action. */
START_TEST(no_taker_waits_for_an_action_on_a_poisoned_handle)
{
    opened();
    struct lladd_txn *t = guarded(), *other;
    struct lladd_action action;
    ck_assert_int_eq(lladd_nta_begin(t, &action), 0);
    ok_db(&r, lladd_begin(r.db, NULL, &other, &r.err));
    ck_assert_int_eq(lladd_counter_add(other, page, 128, 1), 0);
    fault_device_fail(r.fd, 1, FAULT_SYNC, EIO, true);
    ck_assert_int_ne(lladd_commit(other), 0);
    fault_device_fail(r.fd, 0, FAULT_SYNC, 0, false);
    int poison = lladd_db_error(r.db, NULL);
    ck_assert_int_ne(poison, 0);
    if (_i == 0)
        ck_assert_int_eq(lladd_nta_abort(t, &action), poison);
    in_a_thread(takes_what_is_poisoned, &t);
    fixture_crash(&r, &fault_kill);
    fixture_free(&r);
}
END_TEST

START_TEST(a_transaction_that_was_never_taken_is_not_guarded)
{
    struct lladd_use use = {0};
    struct lladd_txn *t;
    opened();
    ok_db(&r, lladd_begin(r.db, NULL, &t, &r.err));
    ck_assert_int_eq(lladd_use_begin(t, &use), 0);
    ck_assert_ptr_null(use.txn);
    ck_assert_int_eq(lladd_use_begin(NULL, &use), 0);
    ck_assert(!lladd_txn_stopped(t) && !lladd_txn_stopped(NULL));
    ck_assert_int_eq(lladd_txn_take(NULL, false, 0), LLADD_CLOSED);
    in_a_thread(takes_and_commits, t);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("guard");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, one_thread_uses_it_until_another_takes_it);
    tcase_add_test(tc, a_transaction_that_was_given_back_needs_no_drop);
    tcase_add_test(tc, a_taker_waits_for_a_call_and_an_open_action);
    tcase_add_loop_test(tc, no_taker_waits_for_an_action_on_a_poisoned_handle, 0, 2);
    tcase_add_test(tc, a_transaction_that_was_never_taken_is_not_guarded);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
