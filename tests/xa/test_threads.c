/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads of control, with several rmids, branches that migrate, and tightly coupled threads
 * that take turns. No thread waits for ever. Runs under TSan, too.
 */
#include "xa_fixture.h"

#include <lladd/sync.h>
#include <stdio.h>

enum { THREADS = 6, ROUNDS = 40, BATONS = 4 };

static struct fixture b;

/* ---- each thread has its own branches, under three rmids ------------------------------------- */

struct worker {
    struct lladd_thread thread;
    unsigned number;
    int64_t sum;
};

static void one_branch(struct worker *w, int rmid, unsigned round)
{
    char name[32];
    XID x;
    snprintf(name, sizeof name, "%u/%u", w->number, round);
    x = fixture_xid(name);
    ck_assert_int_eq(xa_start(&x, rmid, TMNOFLAGS), XA_OK);
    struct lladd_txn *txn = lladd_xa_txn(rmid);
    ck_assert_ptr_nonnull(txn);
    fixture_add_in(&b, txn, w->number, round + 1);
    ck_assert_int_eq(xa_end(&x, rmid, TMSUSPEND), XA_OK);
    ck_assert_ptr_null(lladd_xa_txn(rmid));
    ck_assert_int_eq(xa_start(&x, rmid, TMRESUME), XA_OK);
    ck_assert_ptr_eq(lladd_xa_txn(rmid), txn);
    ck_assert_int_eq(xa_end(&x, rmid, TMSUCCESS), XA_OK);
    switch (round % 4) {
    case 0:
        ck_assert_int_eq(xa_commit(&x, rmid, TMONEPHASE), XA_OK);
        w->sum += round + 1;
        break;
    case 1:
        ck_assert_int_eq(xa_rollback(&x, rmid, TMNOFLAGS), XA_OK);
        break;
    default:
        ck_assert_int_eq(xa_prepare(&x, rmid, TMNOFLAGS), XA_OK);
        ck_assert_int_eq(round % 4 == 2 ? xa_commit(&x, rmid, TMNOFLAGS)
                                        : xa_rollback(&x, rmid, TMNOFLAGS),
                         XA_OK);
        w->sum += round % 4 == 2 ? round + 1 : 0;
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    int rmid = RMID + (int)(w->number % 3);
    /* This thread has not opened the rmid yet. */
    ck_assert_int_eq(xa_start(&(XID){0}, rmid, TMNOFLAGS), XAER_PROTO);
    ck_assert_int_eq(xa_open("dir=db", rmid, TMNOFLAGS), XA_OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        XID found[THREADS];
        one_branch(w, rmid, round);
        ck_assert_int_ge(xa_recover(found, THREADS, rmid, TMSTARTRSCAN | TMENDRSCAN), 0);
    }
    ck_assert_int_eq(xa_close("", rmid, TMNOFLAGS), XA_OK);
    return NULL;
}

START_TEST(threads_have_branches_of_their_own)
{
    struct worker w[THREADS];
    fixture_init(&b);
    ck_assert_int_eq(lladd_xa_options(RMID + 1, &b.options), 0);
    ck_assert_int_eq(lladd_xa_options(RMID + 2, &b.options), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i};
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&w[i].thread);
    fixture_open(&b);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(fixture_get(&b, i), w[i].sum);
    fixture_close(&b);
    ck_assert_int_eq(lladd_xa_options(RMID + 1, NULL), 0);
    ck_assert_int_eq(lladd_xa_options(RMID + 2, NULL), 0);
    fixture_free(&b);
}
END_TEST

/* ---- branches that migrate ------------------------------------------------------------------- */

/* Each branch is suspended with TMMIGRATE. A thread resumes the branch and adds to a counter, or
 * finds that another thread has resumed it. */
static uint64_t moves;

static void *migrate(void *arg)
{
    struct worker *w = arg;
    ck_assert_int_eq(xa_open("dir=db", RMID, TMNOFLAGS), XA_OK);
    for (unsigned round = 0; round < ROUNDS * BATONS; round++) {
        char name[16];
        snprintf(name, sizeof name, "baton %u", round % BATONS);
        XID x = fixture_xid(name);
        int rc = xa_start(&x, RMID, TMRESUME);
        ck_assert(rc == XA_OK || rc == XAER_PROTO);
        if (rc)
            continue;
        fixture_add_in(&b, lladd_xa_txn(RMID), round % BATONS, 1);
        lladd_atomic_add64(&moves, 1);
        w->sum++;
        ck_assert_int_eq(xa_end(&x, RMID, TMSUSPEND | TMMIGRATE), XA_OK);
    }
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

START_TEST(branches_migrate_from_thread_to_thread)
{
    struct worker w[THREADS];
    XID x[BATONS];
    int64_t sum = 0, found = 0;
    moves = 0;
    fixture_init(&b);
    fixture_open(&b);
    for (unsigned i = 0; i < BATONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "baton %u", i);
        x[i] = fixture_xid(name);
        gives(XA_OK, xa_start(&x[i], RMID, TMNOFLAGS));
        gives(XA_OK, xa_end(&x[i], RMID, TMSUSPEND | TMMIGRATE));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i};
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, migrate, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        lladd_thread_join(&w[i].thread);
        sum += w[i].sum;
    }
    for (unsigned i = 0; i < BATONS; i++) {
        gives(XA_OK, xa_start(&x[i], RMID, TMRESUME));
        gives(XA_OK, xa_end(&x[i], RMID, TMSUCCESS));
        gives(XA_OK, xa_prepare(&x[i], RMID, TMNOFLAGS));
        gives(XA_OK, xa_commit(&x[i], RMID, TMNOFLAGS));
        found += fixture_get(&b, i);
    }
    ck_assert_int_gt(sum, 0);
    ck_assert_int_eq(found, sum);
    fixture_free(&b);
}
END_TEST

/* ---- tightly coupled threads ----------------------------------------------------------------- */

static void *take_turns(void *arg)
{
    struct worker *w = arg;
    XID x = fixture_xid("shared");
    ck_assert_int_eq(xa_open("dir=db", RMID, TMNOFLAGS), XA_OK);
    for (unsigned round = 0; round < ROUNDS; round++) {
        int rc = xa_start(&x, RMID, round % 2 ? TMJOIN | TMNOWAIT : TMJOIN);
        ck_assert(rc == XA_OK || (round % 2 && rc == XA_RETRY));
        if (rc)
            continue;
        fixture_add_in(&b, lladd_xa_txn(RMID), 0, 1);
        w->sum++;
        ck_assert_int_eq(xa_end(&x, RMID, TMSUCCESS), XA_OK);
    }
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

START_TEST(a_join_waits_for_its_turn)
{
    struct worker w[THREADS];
    XID x = fixture_xid("shared");
    int64_t sum = 0;
    fixture_init(&b);
    fixture_open(&b);
    fixture_work(&b, &x, 0, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i};
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, take_turns, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        lladd_thread_join(&w[i].thread);
        sum += w[i].sum;
    }
    ck_assert_int_ge(sum, THREADS * ROUNDS / 2);
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), sum);
    fixture_free(&b);
}
END_TEST

/* ---- limits of waits, and what belongs to a thread ------------------------------------------- */

static int other_rc[6];

static void *interfere(void *arg)
{
    XID x = fixture_xid("held");
    char *info = arg;
    ck_assert_int_eq(xa_open(info, RMID, TMNOFLAGS), XA_OK);
    other_rc[0] = xa_start(&x, RMID, TMJOIN | TMNOWAIT);
    other_rc[1] = xa_start(&x, RMID, TMJOIN); /* the call waits as long as `wait` in the open string
                                               * says */
    other_rc[2] = xa_end(&x, RMID, TMSUCCESS);
    other_rc[3] = xa_rollback(&x, RMID, TMNOFLAGS);
    other_rc[4] = xa_prepare(&x, RMID, TMNOFLAGS);
    other_rc[5] = xa_start(&x, RMID, TMRESUME);
    ck_assert_ptr_null(lladd_xa_txn(RMID));
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

START_TEST(a_branch_in_use_is_not_taken_away)
{
    static const int want[] = {XA_RETRY,   XAER_RMERR, XAER_PROTO,
                               XAER_PROTO, XAER_PROTO, XAER_PROTO};
    static char info[] = "dir=db;wait=0";
    struct lladd_thread thread;
    XID x = fixture_xid("held");
    fixture_init(&b);
    fixture_open_as(&b, RMID, info);
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    ck_assert_int_eq(lladd_thread_start(&thread, interfere, info), 0);
    lladd_thread_join(&thread);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(other_rc[i], want[i]);
    gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
    gives(XA_OK, xa_commit(&x, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    fixture_free(&b);
}
END_TEST

static void *use_what_is_open(void *arg)
{
    XID x = fixture_xid("any");
    (void)arg;
    ck_assert_int_eq(xa_start(&x, RMID, TMNOFLAGS), XA_OK);
    fixture_add_in(&b, lladd_xa_txn(RMID), 0, 1);
    ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XAER_PROTO);
    ck_assert_int_eq(xa_end(&x, RMID, TMSUCCESS), XA_OK);
    return NULL;
}

START_TEST(an_open_for_any_thread_is_one_for_all)
{
    struct lladd_thread thread;
    XID x = fixture_xid("any");
    fixture_init(&b);
    fixture_open_as(&b, RMID, "dir=db;threads=any");
    ck_assert_int_eq(lladd_thread_start(&thread, use_what_is_open, NULL), 0);
    lladd_thread_join(&thread);
    gives(XA_OK, xa_prepare(&x, RMID, TMNOFLAGS));
    gives(XA_OK, xa_commit(&x, RMID, TMNOFLAGS));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    fixture_free(&b);
}
END_TEST

/* ---- threads that end inside a branch -------------------------------------------------------- */

static void *begin_and_end(void *arg)
{
    XID held = fixture_xid("held"), slept = fixture_xid("slept"), moved = fixture_xid("moved");
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_start(&moved, RMID, TMNOFLAGS), XA_OK);
    fixture_add_in(&b, lladd_xa_txn(RMID), 0, 1);
    ck_assert_int_eq(xa_end(&moved, RMID, TMSUSPEND | TMMIGRATE), XA_OK);
    ck_assert_int_eq(xa_start(&slept, RMID, TMNOFLAGS), XA_OK);
    fixture_add_in(&b, lladd_xa_txn(RMID), 1, 1);
    ck_assert_int_eq(xa_end(&slept, RMID, TMSUSPEND), XA_OK);
    ck_assert_int_eq(xa_start(&held, RMID, TMNOFLAGS), XA_OK);
    fixture_add_in(&b, lladd_xa_txn(RMID), 2, 1);
    return NULL;
}

/* A new thread may get the number of an ended thread. The new thread has no associations. */
static void *is_new(void *arg)
{
    XID held = fixture_xid("held");
    ck_assert_ptr_null(lladd_xa_txn(RMID));
    ck_assert_int_eq(xa_end(&held, RMID, TMSUCCESS), XAER_PROTO);
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    ck_assert_int_eq(xa_end(&held, RMID, TMSUCCESS), XAER_PROTO);
    return NULL;
}

/* If a thread has ended inside a branch, the branch can only be rolled back, because its work may
 * be incomplete. Associations that the thread has suspended with TMMIGRATE stay. */
START_TEST(a_thread_that_ends_leaves_no_association)
{
    struct lladd_thread thread;
    XID held = fixture_xid("held"), slept = fixture_xid("slept"), moved = fixture_xid("moved");
    static char strings[2][32] = {"dir=db", "dir=db;threads=any"};
    char *info = strings[_i];
    fixture_init(&b);
    fixture_open_as(&b, RMID, info);
    ck_assert_int_eq(lladd_thread_start(&thread, begin_and_end, info), 0);
    lladd_thread_join(&thread);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(lladd_thread_start(&thread, is_new, info), 0);
        lladd_thread_join(&thread);
    }
    gives(XA_RBROLLBACK, xa_start(&held, RMID, TMJOIN));
    gives(XAER_PROTO, xa_prepare(&held, RMID, TMNOFLAGS));
    gives(XA_OK, xa_rollback(&held, RMID, TMNOFLAGS));
    gives(XAER_PROTO, xa_commit(&slept, RMID, TMONEPHASE));
    gives(XA_OK, xa_rollback(&slept, RMID, TMNOFLAGS));
    gives(XA_OK, xa_start(&moved, RMID, TMRESUME));
    gives(XA_OK, xa_end(&moved, RMID, TMSUCCESS));
    gives(XA_OK, xa_commit(&moved, RMID, TMONEPHASE));
    ck_assert_int_eq(fixture_get(&b, 0), 1);
    ck_assert_int_eq(fixture_get(&b, 1), 0);
    ck_assert_int_eq(fixture_get(&b, 2), 0);
    fixture_free(&b); /* no other thread has RMID open, so this closes the database */
}
END_TEST

/* Joins a branch in which a thread works until the thread ends. The join returns XA_RBROLLBACK. */
static void *join_what_is_held(void *arg)
{
    XID held = fixture_xid("held");
    int rc;
    ck_assert_int_eq(xa_open(arg, RMID, TMNOFLAGS), XA_OK);
    while ((rc = xa_start(&held, RMID, TMJOIN)) == XAER_NOTA)
        lladd_yield(); /* the branch has not begun yet */
    ck_assert_int_eq(rc, XA_RBROLLBACK);
    ck_assert_int_eq(xa_rollback(&held, RMID, TMNOFLAGS), XA_OK);
    return NULL;
}

START_TEST(threads_that_end_close_what_they_have_opened)
{
    struct lladd_thread dies, waits;
    char info[] = "dir=db";
    for (unsigned i = 0; i < ROUNDS; i++) {
        fixture_init(&b);
        ck_assert_int_eq(lladd_thread_start(&waits, join_what_is_held, info), 0);
        while (!lladd_xa_db(RMID))
            lladd_yield(); /* otherwise the thread that ends might close the database for both */
        ck_assert_int_eq(lladd_thread_start(&dies, begin_and_end, info), 0);
        lladd_thread_join(&dies);
        lladd_thread_join(&waits);
        ck_assert_ptr_null(lladd_xa_db(RMID));
        fixture_free(&b);
    }
}
END_TEST

/* ---- many threads open and close ------------------------------------------------------------- */

static void *open_and_close(void *arg)
{
    struct worker *w = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        ck_assert_int_eq(xa_open("dir=db", RMID, TMNOFLAGS), XA_OK);
        char name[32];
        snprintf(name, sizeof name, "oc %u/%u", w->number, round);
        XID x = fixture_xid(name);
        ck_assert_int_eq(xa_start(&x, RMID, TMNOFLAGS), XA_OK);
        ck_assert_int_eq(xa_end(&x, RMID, TMSUCCESS), XA_OK);
        ck_assert_int_eq(xa_commit(&x, RMID, TMONEPHASE), XA_OK);
        ck_assert_int_eq(xa_close("", RMID, TMNOFLAGS), XA_OK);
    }
    return NULL;
}

START_TEST(threads_open_and_close_as_they_like)
{
    struct worker w[THREADS];
    fixture_init(&b);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.number = i};
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, open_and_close, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&w[i].thread);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, threads_have_branches_of_their_own);
    tcase_add_test(tc, branches_migrate_from_thread_to_thread);
    tcase_add_test(tc, a_join_waits_for_its_turn);
    tcase_add_test(tc, a_branch_in_use_is_not_taken_away);
    tcase_add_test(tc, an_open_for_any_thread_is_one_for_all);
    tcase_add_loop_test(tc, a_thread_that_ends_leaves_no_association, 0, 2);
    tcase_add_test(tc, threads_that_end_close_what_they_have_opened);
    tcase_add_test(tc, threads_open_and_close_as_they_like);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
