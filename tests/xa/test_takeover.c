/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread of the transaction manager ends, rolls back and resumes branches in which other threads
 * work, as it does when a transaction takes too long. The other threads wait for a lock, are in a
 * call, have a nested top action open, or have ended. Runs under TSan, too.
 */
#include "xa_fixture.h"

#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/op.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <stdio.h>

enum { WORKERS = 4, ROUNDS = 60 };

static struct fixture b;
static char any_info[] = "dir=db;threads=any;wait=0", each_info[] = "dir=db;wait=0";

static void begin_case(void)
{
    fixture_init(&b);
    ck_assert_int_eq(lladd_lock_register(&b.options, &b.err), 0);
}

static void end_case(void)
{
    fixture_close(&b);
    lladd_options_release(&b.options);
    fixture_free(&b);
}

static int lock(struct lladd_txn *txn, uint64_t timeout)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(1)), LLADD_LOCK_X, timeout);
}

/* ---- a wait for a lock ----------------------------------------------------------------------- */

static uint32_t ended; /* true if the other thread's association has been ended; atomic */

/* Runs in a thread with a branch that another thread has ended: calls on its transaction are
 * refused, and the thread's next branch works. */
static void find_it_taken(struct lladd_txn *txn)
{
    XID x = fixture_xid("late"), y = fixture_xid("next");
    ck_assert_int_eq(lladd_counter_add(txn, b.page, 64, 1), LLADD_TAKEN);
    ck_assert_int_eq(lladd_commit(txn), LLADD_TAKEN);
    ck_assert_int_eq(lladd_txn_error(txn)->code, LLADD_TAKEN);
    while (!lladd_atomic_load32(&ended))
        lladd_yield();
    ck_assert_ptr_null(lladd_xa_txn(RMID));
    ck_assert_int_eq(xa_end(&x, RMID, TMSUCCESS), XAER_NOTA);
    ck_assert_int_eq(lladd_counter_add(txn, b.page, 64, 1), LLADD_TAKEN); /* the handle is still
                                                                           * valid */
    ck_assert_int_eq(xa_start(&y, RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(lock(lladd_xa_txn(RMID), LLADD_LOCK_TRY), LLADD_BUSY);
    fixture_add_in(&b, lladd_xa_txn(RMID), 1, 1);
    ck_assert_int_eq(xa_end(&y, RMID, TMSUCCESS), XA_OK);
    ck_assert_int_eq(xa_commit(&y, RMID, TMONEPHASE), XA_OK);
}

static void *wait_for_a_lock(void *arg)
{
    XID x = fixture_xid("late");
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_start(&x, RMID, TMNOFLAGS), XA_OK);
    struct lladd_txn *txn = lladd_xa_txn(RMID);
    fixture_add_in(&b, txn, 0, 1);
    ck_assert_int_eq(lock(txn, LLADD_LOCK_FOREVER), LLADD_TAKEN);
    find_it_taken(txn);
    if (arg == each_info)
        ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

static void until_one_waits(void)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    do {
        lladd_yield();
        ck_assert_int_eq(lladd_lock_stats_get(lladd_xa_db(RMID), &s, &b.err), 0);
    } while (s.waiting == 0);
}

/* The holder of the lock ends only after the test has joined the waiting thread. So without the
 * takeover the wait would last for ever. */
START_TEST(a_branch_that_waits_for_a_lock_is_ended_and_rolled_back)
{
    char *info = _i ? each_info : any_info;
    XID x = fixture_xid("late");
    struct lladd_thread thread;
    struct lladd_txn *in_the_way;
    begin_case();
    lladd_atomic_store32(&ended, 0);
    fixture_open_as(&b, RMID, info);
    ck_assert_int_eq(lladd_begin(lladd_xa_db(RMID), NULL, &in_the_way, &b.err), 0);
    ck_assert_int_eq(lock(in_the_way, LLADD_LOCK_TRY), 0);
    ck_assert_int_eq(lladd_thread_start(&thread, wait_for_a_lock, info), 0);
    until_one_waits();
    if (info == each_info) {
        gives(XAER_PROTO, xa_end(&x, RMID, TMFAIL)); /* the other thread is associated */
        gives(XAER_PROTO, xa_rollback(&x, RMID, TMNOFLAGS));
        gives(XA_OK, lladd_xa_abandon(RMID, &x));
        gives(XAER_PROTO, lladd_xa_abandon(RMID, &x));
    } else {
        gives(XA_RBROLLBACK, xa_end(&x, RMID, TMFAIL));
    }
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    lladd_atomic_store32(&ended, 1);
    lladd_thread_join(&thread);
    gives(XAER_NOTA, lladd_xa_abandon(RMID, &x));
    ck_assert_int_eq(lladd_abort(in_the_way), 0);
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    ck_assert_int_eq(fixture_get(&b, 1), 1);
    end_case();
}
END_TEST

/* ---- a nested top action --------------------------------------------------------------------- */

static void *end_by_force(void *arg)
{
    ck_assert_int_eq(xa_end(arg, RMID, TMFAIL), XA_RBROLLBACK);
    lladd_atomic_store32(&ended, 1);
    return NULL;
}

/* The end of the branch waits for the end of the action, because other transactions may have seen
 * the action's changes. */
START_TEST(an_open_top_action_is_finished_first)
{
    XID x = fixture_xid("nested");
    struct lladd_action action;
    struct lladd_thread thread;
    begin_case();
    lladd_atomic_store32(&ended, 0);
    fixture_open_as(&b, RMID, any_info);
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    struct lladd_txn *txn = lladd_xa_txn(RMID);
    fixture_add_in(&b, txn, 0, 1);
    ck_assert_int_eq(lladd_nta_begin(txn, &action), 0);
    ck_assert_int_eq(lladd_thread_start(&thread, end_by_force, &x), 0);
    while (!lladd_txn_stopped(txn))
        lladd_yield();
    fixture_add_in(&b, txn, 1, 1);
    ck_assert_uint_eq(lladd_atomic_load32(&ended), 0);
    ck_assert_int_eq(lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0), 0);
    ck_assert_int_eq(lladd_counter_add(txn, b.page, 64, 1), LLADD_TAKEN);
    lladd_thread_join(&thread);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    ck_assert_int_eq(fixture_get(&b, 1), 1); /* the closed top action stays */
    end_case();
}
END_TEST

static void *end_if_it_can_be(void *arg)
{
    ck_assert_int_eq(xa_end(arg, RMID, TMSUCCESS), XAER_RMERR);
    ck_assert_int_eq(xa_end(arg, RMID, TMSUSPEND), XAER_RMERR);
    return NULL;
}

/* The failed call has changed nothing, so the thread can go on. */
START_TEST(without_tmfail_a_call_is_waited_for_as_long_as_the_open_string_says)
{
    XID x = fixture_xid("nested");
    struct lladd_action action;
    struct lladd_thread thread;
    begin_case();
    fixture_open_as(&b, RMID, any_info);
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    struct lladd_txn *txn = lladd_xa_txn(RMID);
    ck_assert_int_eq(lladd_nta_begin(txn, &action), 0);
    ck_assert_int_eq(lladd_thread_start(&thread, end_if_it_can_be, &x), 0);
    lladd_thread_join(&thread);
    ck_assert_ptr_eq(lladd_xa_txn(RMID), txn);
    fixture_add_in(&b, txn, 0, 1);
    ck_assert_int_eq(lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0), 0);
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    end_case();
}
END_TEST

/* A thread that ends inside an action blocks no other thread. */
static void *end_inside(void *arg)
{
    struct lladd_action action;
    ck_assert_int_eq(xa_start(arg, RMID, TMNOFLAGS), XA_OK);
    fixture_add_in(&b, lladd_xa_txn(RMID), 0, 1);
    ck_assert_int_eq(lladd_nta_begin(lladd_xa_txn(RMID), &action), 0);
    fixture_add_in(&b, lladd_xa_txn(RMID), 0, 2);
    return NULL;
}

START_TEST(a_thread_that_ends_in_an_action_holds_nothing_up)
{
    XID x = fixture_xid("gone");
    struct lladd_thread thread;
    begin_case();
    fixture_open_as(&b, RMID, any_info);
    ck_assert_int_eq(lladd_thread_start(&thread, end_inside, &x), 0);
    lladd_thread_join(&thread);
    gives(XA_OK, xa_rollback(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 0);
    end_case();
}
END_TEST

/* ---- many, at any moment --------------------------------------------------------------------- */

enum fate { PENDING, COMMITTED, ROLLED_BACK, MOVED };

struct worker {
    struct lladd_thread thread;
    unsigned number;
    uint32_t round;         /* atomic: the number of branches begun */
    uint32_t fates[ROUNDS]; /* atomic */
    int64_t sum;
};
static struct worker workers[WORKERS];

static XID round_xid(unsigned worker, unsigned round)
{
    char name[32];
    snprintf(name, sizeof name, "%u/%u", worker, round);
    return fixture_xid(name);
}

static void *work_until_taken(void *arg)
{
    struct worker *w = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        XID x = round_xid(w->number, round);
        int64_t added = 0;
        int rc;
        ck_assert_int_eq(xa_start(&x, RMID, TMNOFLAGS), XA_OK);
        struct lladd_txn *txn = lladd_xa_txn(RMID);
        lladd_atomic_store32(&w->round, round + 1);
        while (txn && (rc = lladd_counter_add(txn, b.page, 64 + w->number * 8, 1)) == 0)
            added++;
        if (txn)
            ck_assert_int_eq(rc, LLADD_TAKEN);
        while (lladd_atomic_load32(&w->fates[round]) == PENDING)
            lladd_yield();
        if (lladd_atomic_load32(&w->fates[round]) != ROLLED_BACK)
            w->sum += added;
        if (lladd_atomic_load32(&w->fates[round]) == MOVED)
            w->sum++;
    }
    return NULL;
}

/* With wait=0 xa_end does not wait for a call that is in progress in the branch; so it is
 * repeated. */
static void until_ended(XID *x, long how)
{
    int rc;
    while ((rc = xa_end(x, RMID, how)) == XAER_RMERR)
        lladd_yield();
    ck_assert_int_eq(rc, how == TMFAIL ? XA_RBROLLBACK : XA_OK);
}

static uint32_t end_round(struct worker *w, unsigned round)
{
    XID x = round_xid(w->number, round);
    switch (round % 4) {
    case 0:
        until_ended(&x, TMFAIL);
        ck_assert_int_eq(xa_prepare(&x, RMID, TMNOFLAGS), XAER_PROTO);
        ck_assert_int_eq(xa_rollback(&x, RMID, TMNOFLAGS), XA_OK);
        return ROLLED_BACK;
    case 1:
        until_ended(&x, TMSUCCESS);
        ck_assert_int_eq(xa_commit(&x, RMID, TMONEPHASE), XA_OK);
        return COMMITTED;
    case 2:
        until_ended(&x, TMSUCCESS);
        int rc = xa_prepare(&x, RMID, TMNOFLAGS);
        ck_assert(rc == XA_OK || rc == XA_RDONLY);
        if (rc == XA_OK)
            ck_assert_int_eq(xa_commit(&x, RMID, TMNOFLAGS), XA_OK);
        return COMMITTED;
    default:
        until_ended(&x, round % 8 == 3 ? TMSUSPEND : TMSUSPEND | TMMIGRATE);
        ck_assert_int_eq(xa_prepare(&x, RMID, TMNOFLAGS), XAER_PROTO);
        ck_assert_int_eq(xa_start(&x, RMID, TMRESUME), XA_OK);
        fixture_add_in(&b, lladd_xa_txn(RMID), w->number, 1);
        ck_assert_int_eq(xa_end(&x, RMID, TMSUCCESS), XA_OK);
        ck_assert_int_eq(xa_commit(&x, RMID, TMONEPHASE), XA_OK);
        return MOVED;
    }
}

/* A thread of the transaction manager, which ends the branches of one worker. */
static void *reap(void *arg)
{
    struct worker *w = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        while (lladd_atomic_load32(&w->round) != round + 1)
            lladd_yield();
        lladd_atomic_store32(&w->fates[round], end_round(w, round));
    }
    return NULL;
}

START_TEST(branches_are_ended_at_any_moment)
{
    struct lladd_thread reapers[WORKERS];
    begin_case();
    fixture_open_as(&b, RMID, any_info);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.number = i};
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work_until_taken, &workers[i]), 0);
        ck_assert_int_eq(lladd_thread_start(&reapers[i], reap, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        lladd_thread_join(&workers[i].thread);
        lladd_thread_join(&reapers[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        ck_assert_int_eq(fixture_get(&b, i), workers[i].sum);
    end_case();
}
END_TEST

/* ---- calls that the standard gives to one thread only ---------------------------------------- */

static int other_rc[3];

static void *end_what_migrates(void *arg)
{
    XID x = fixture_xid("moved");
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    other_rc[0] = xa_end(&x, RMID, TMSUCCESS);
    other_rc[1] = xa_start(&x, RMID, TMRESUME);
    other_rc[2] = xa_end(&x, RMID, TMSUCCESS);
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

/* X/Open's table 6-3. A thread without an association (T0) may resume the branch, but not end it.
 * The thread that has suspended the branch (T2) may do both. */
START_TEST(what_migrates_is_ended_by_a_thread_that_has_it)
{
    XID x = fixture_xid("moved");
    struct lladd_thread thread;
    begin_case();
    fixture_open_as(&b, RMID, each_info);
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    gives(XA_OK, xa_end(&x, RMID, TMSUSPEND | TMMIGRATE));
    ck_assert_int_eq(lladd_thread_start(&thread, end_what_migrates, each_info), 0);
    lladd_thread_join(&thread);
    ck_assert_int_eq(other_rc[0], XAER_PROTO);
    ck_assert_int_eq(other_rc[1], XA_OK);
    ck_assert_int_eq(other_rc[2], XA_OK);
    gives(XAER_PROTO, xa_end(&x, RMID, TMSUCCESS)); /* this thread was in T2, and now is in T0 */
    gives(XA_OK, xa_start(&x, RMID, TMJOIN));
    gives(XA_OK, xa_end(&x, RMID, TMSUSPEND | TMMIGRATE));
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("takeover");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_branch_that_waits_for_a_lock_is_ended_and_rolled_back, 0, 2);
    tcase_add_test(tc, an_open_top_action_is_finished_first);
    tcase_add_test(tc, without_tmfail_a_call_is_waited_for_as_long_as_the_open_string_says);
    tcase_add_test(tc, a_thread_that_ends_in_an_action_holds_nothing_up);
    tcase_add_test(tc, branches_are_ended_at_any_moment);
    tcase_add_test(tc, what_migrates_is_ended_by_a_thread_that_has_it);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
