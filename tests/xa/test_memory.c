/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lack of memory. In each call the n-th allocation fails, for every n; first it fails alone, and
 * then with all later ones. The call either succeeds, or returns an error and changes nothing, so
 * that it can be repeated. At the end nothing leaks. (A commit in one phase that fails is a
 * rollback.)
 */
#include "xa_fixture.h"

#include "xa/xa_private.h"

#include <errno.h>
#include <stdio.h>

static struct fixture b;
static XID held, kept;

/* ---- states in which the calls are made ------------------------------------------------------ */

/* Before a restart, `held` has been prepared and `kept` has got a heuristic outcome. So `held` is
 * in doubt, and the outcome of `kept` is remembered. */
static void remains(void)
{
    fixture_open(&b);
    fixture_prepared(&b, &held, 0, 1);
    fixture_prepared(&b, &kept, 1, 1);
    gives(XA_OK, lladd_xa_heuristic(RMID, &kept, LLADD_OUTCOME_ABORT));
    fixture_crash(&b, &fixture_power);
}

static void open_with_remains(void)
{
    remains();
    fixture_open(&b);
}

static void just_open(void)
{
    fixture_open(&b);
}

static void idle(void)
{
    fixture_open(&b);
    fixture_work(&b, &held, 0, 1);
}

static void suspended(void)
{
    fixture_open(&b);
    gives(XA_OK, xa_start(&held, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    gives(XA_OK, xa_end(&held, RMID, TMSUSPEND));
}

static void device_has_failed(void)
{
    open_with_remains();
    fault_device_fail(b.fd, 1, FAULT_WRITES, EIO, true);
    gives(XAER_RMFAIL, xa_commit(&held, RMID, TMNOFLAGS));
    fault_device_fail(b.fd, 0, 0, 0, false);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int open_it(void)
{
    return xa_open("dir=db", RMID, TMNOFLAGS);
}
static int start(void)
{
    return xa_start(&held, RMID, TMNOFLAGS);
}
static int join(void)
{
    return xa_start(&held, RMID, TMJOIN);
}
static int resume(void)
{
    return xa_start(&held, RMID, TMRESUME);
}
static int prepare(void)
{
    return xa_prepare(&held, RMID, TMNOFLAGS);
}
static int commit(void)
{
    return xa_commit(&held, RMID, TMNOFLAGS);
}
static int commit_in_one_phase(void)
{
    return xa_commit(&held, RMID, TMONEPHASE);
}
static int rollback(void)
{
    return xa_rollback(&held, RMID, TMNOFLAGS);
}
static int decide(void)
{
    return lladd_xa_heuristic(RMID, &held, LLADD_OUTCOME_COMMIT);
}
static int forget(void)
{
    return xa_forget(&kept, RMID, TMNOFLAGS);
}
/* Leaves the scan open. */
static int recover(void)
{
    XID found[3];
    int n = xa_recover(found, 3, RMID, TMSTARTRSCAN);
    return n == 2 ? XA_OK : n;
}

static const struct row {
    const char *name;
    void (*before)(void);
    int (*call)(void);
    int fails;    /* code of the call if memory is lacking */
    int again;    /* code of the call when it is repeated with memory */
    int64_t held; /* value of counter 0 after the last call. (The branch `held` adds to this
                   * counter.) If the first call succeeds and `again` is an error, the value is not
                   * checked */
    bool frugal;  /* it is no failure if the call allocates nothing */
} rows[] = {
    {"xa_open", remains, open_it, XAER_RMERR, XA_OK, 1, false},
    {"xa_open, after a failure", device_has_failed, open_it, XAER_RMFAIL, XA_OK, 1, false},
    {"xa_start", just_open, start, XAER_RMERR, XA_OK, 0, false},
    {"TMJOIN", idle, join, XAER_RMERR, XA_OK, 1, false},
    {"TMRESUME", suspended, resume, XAER_RMERR, XA_OK, 1, true},
    {"xa_prepare", idle, prepare, XAER_RMERR, XA_OK, 1, false},
    {"xa_commit", open_with_remains, commit, XA_RETRY, XA_OK, 1, true},
    {"TMONEPHASE", idle, commit_in_one_phase, XA_RBOTHER, XAER_NOTA, 0, false},
    {"xa_rollback", open_with_remains, rollback, XAER_RMERR, XA_OK, 0, false},
    {"xa_recover", open_with_remains, recover, XAER_RMERR, XA_OK, 1, false},
    {"lladd_xa_heuristic", open_with_remains, decide, XAER_RMERR, XA_OK, 1, false},
    {"xa_forget", open_with_remains, forget, XAER_RMERR, XA_OK, 1, true},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Returns whether the call made an allocation that failed. */
static bool without(const struct row *r, uint64_t n, bool forever)
{
    fixture_init(&b);
    held = fixture_xid("held");
    kept = fixture_xid("kept");
    r->before();
    fault_alloc_fail(&b.mem, n, forever);
    int rc = r->call();
    bool fired = fault_alloc_fired(&b.mem) != 0;
    fault_alloc_fail(&b.mem, 0, false);
    ck_assert_msg(rc == XA_OK || (fired && rc == r->fails), "%s without allocation %llu: %d",
                  r->name, (unsigned long long)n, rc);
    if (rc)
        gives(r->again, r->call());
    if (rc || r->again == XA_OK)
        ck_assert_int_eq(fixture_get(&b, 0), r->held);
    ck_assert_int_eq(fixture_get(&b, 1), 0);
    rc = xa_end(&held, RMID, TMSUCCESS);
    ck_assert(rc == XA_OK || rc == XAER_PROTO || rc == XAER_NOTA);
    fixture_free(&b);
    return fired;
}

START_TEST(each_call_without_memory)
{
    for (int forever = 0; forever < 2; forever++) {
        uint64_t n = 1;
        while (without(&rows[_i], n, forever))
            n++;
        ck_assert(n > 1 || rows[_i].frugal);
    }
}
END_TEST

/* With many branches the table of branches grows. If it cannot grow, its chains get longer. */
START_TEST(a_table_that_cannot_grow_finds_all_the_same)
{
    enum { MANY = 200 };
    XID x[MANY];
    uint64_t refused = 0;
    fixture_init(&b);
    fixture_open(&b);
    for (unsigned i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        x[i] = fixture_xid(name);
        fault_alloc_fail(&b.mem, 1, false);
        if (xa_start(&x[i], RMID, TMNOFLAGS)) {
            refused++;
            fault_alloc_fail(&b.mem, 0, false);
            gives(XA_OK, xa_start(&x[i], RMID, TMNOFLAGS));
        }
        fault_alloc_fail(&b.mem, 0, false);
        gives(XA_OK, xa_end(&x[i], RMID, TMSUCCESS));
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_lt(refused, MANY); /* a call succeeds if only the growth of the table fails */
    for (unsigned i = 0; i < MANY; i++)
        gives(XA_OK, xa_commit(&x[i], RMID, TMONEPHASE));
    fixture_free(&b);
}
END_TEST

enum { UNUSED = RMID + 100 };

START_TEST(an_rmid_needs_memory_itself)
{
    struct fault_alloc mem;
    struct lladd_options options = LLADD_OPTIONS_INIT;
    char info[] = "dir=db";
    fault_alloc_init(&mem);
    ll_xa__all.memory = &mem.mem;
    fault_alloc_fail(&mem, 1, true);
    ck_assert_int_eq(xa_open(info, UNUSED, TMNOFLAGS), XAER_RMERR);
    ck_assert_int_eq(lladd_xa_options(UNUSED, &options), LLADD_NO_MEMORY);
    ck_assert_int_eq(lladd_xa_error(UNUSED, NULL), 0);
    ck_assert_uint_eq(fault_alloc_live(&mem), 0);
    fault_alloc_fail(&mem, 0, false);
    ck_assert_int_eq(lladd_xa_options(UNUSED, &options), 0);
    ck_assert_uint_eq(fault_alloc_live(&mem), 1);
    ck_assert_int_eq(lladd_xa_options(UNUSED, NULL), 0);
    ck_assert_uint_eq(fault_alloc_live(&mem), 0);
    ll_xa__all.memory = NULL;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("memory");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, each_call_without_memory, 0, ROWS);
    tcase_add_test(tc, a_table_that_cannot_grow_finds_all_the_same);
    tcase_add_test(tc, an_rmid_needs_memory_itself);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
