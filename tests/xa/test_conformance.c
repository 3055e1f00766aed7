/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conformance to X/Open's state tables (C193, chapter 6). The test makes every call in every state,
 * with every flag and every pair of flags.
 *
 * The tables below are the oracle. They were written from the standard, not from xa/. A situation
 * has the state of the resource manager (R0, R1: table 6-2), the state of the calling thread's
 * association with branch X (T0, T1, T2: table 6-3), and the state of X (S0 to S5: table 6-4). It
 * also says whether another thread has an active or a suspended association with X, and whether the
 * caller is active in another branch. (Table 6-5 is about asynchronous calls. There are none: a
 * call with TMASYNC gets XAER_ASYNC.)
 *
 * The cases are tried twice. With `threads=each`, the standard's rule, an association belongs to
 * one thread. With `threads=any` all threads of the process are one thread of control for xa_end
 * and TMRESUME: if one of them may make one of these calls, because it is in T1 or T2, the others
 * may make it, too.
 *
 * Every situation is set up in a real database, and every call is made in it. The code of the call
 * and the situation afterwards are compared with the oracle: an error changes nothing, and a
 * success changes what the tables say. The test prints the number of cases, which must be at least
 * 5000.
 */
#include "xa_fixture.h"
#include "xa/xa_private.h"

#include <lladd/sync.h>
#include <stdio.h>

static struct fixture b;
static XID x, y;
static char each_info[] = "dir=db;wait=0", any_info[] = "dir=db;wait=0;threads=any";
static char *info = each_info;
static bool any_thread;

/* ---- the other thread of control ------------------------------------------------------------- */

/* A thread that makes calls one after the other. They need a thread of their own, because
 * associations belong to threads. */
static struct {
    struct lladd_thread thread;
    struct lladd_mutex mutex;
    struct lladd_cond changed;
    int (*call)(XID *, int, long);
    int (*open)(char *, int, long);
    XID *xid;
    long flags;
    int rc;
    bool wanted, stop;
} other;

static void *serve(void *arg)
{
    (void)arg;
    lladd_mutex_lock(&other.mutex);
    while (!other.stop) {
        if (!other.wanted) {
            lladd_cond_wait(&other.changed, &other.mutex);
            continue;
        }
        lladd_mutex_unlock(&other.mutex);
        int rc = other.open ? other.open(info, RMID, TMNOFLAGS)
                            : other.call(other.xid, RMID, other.flags);
        lladd_mutex_lock(&other.mutex);
        other.rc = rc;
        other.wanted = false;
        lladd_cond_broadcast(&other.changed);
    }
    lladd_mutex_unlock(&other.mutex);
    return NULL;
}

static int ask(int (*call)(XID *, int, long), int (*open)(char *, int, long), long flags)
{
    lladd_mutex_lock(&other.mutex);
    other.call = call;
    other.open = open;
    other.xid = &x;
    other.flags = flags;
    other.wanted = true;
    lladd_cond_broadcast(&other.changed);
    while (other.wanted)
        lladd_cond_wait(&other.changed, &other.mutex);
    int rc = other.rc;
    lladd_mutex_unlock(&other.mutex);
    return rc;
}

static int theirs(int (*call)(XID *, int, long), long flags)
{
    return ask(call, NULL, flags);
}

/* ---- situations ------------------------------------------------------------------------------ */

enum branch { S0, S1, S2, S3, S4, S5, BRANCHES };
/* T2M: the other thread has suspended its association with TMMIGRATE. T2O: the caller has suspended
 * its own association with TMMIGRATE. T1M: like T2M, but the caller has also joined the branch;
 * this is only an outcome of a call. */
enum mine { T0, T1, T2, T2M, T2O, MINES, T1M };
enum them { ALONE, ACTIVE, SUSPENDED, THEMS };

struct situation {
    bool open; /* R1 */
    enum branch s;
    enum mine t;
    enum them them;
    bool elsewhere; /* the caller is active in another branch */
    bool recovered; /* with S3 and S5: the branch was in this state before the database was
                     * opened */
    bool aborted;   /* with S5: the branch was rolled back */
    bool scan;      /* a recovery scan is open */
};

/* Returns true if the situation is possible. At most one association is active, and a prepared
 * branch has no association. */
static bool possible(const struct situation *c)
{
    int active = (c->t == T1) + (c->them == ACTIVE);
    if (any_thread && !c->open)
        return false; /* all threads would be in R0; threads=each tries R0 */
    if (c->elsewhere && c->t == T1)
        return false;
    if (!c->open)
        return c->s == S0 && c->t == T0 && c->them == ALONE && !c->elsewhere && !c->recovered &&
               !c->aborted && !c->scan;
    if ((c->recovered && c->s != S3 && c->s != S5) || (c->aborted && c->s != S5))
        return false;
    if (c->t == T2M && c->them != ALONE)
        return false; /* T2M itself says what the other thread has done */
    switch (c->s) {
    case S1:
        return active == 1;
    case S2:
        return active == 0;
    case S4:
        return active <= 1 && c->t != T2M && c->t != T2O;
    default:
        return c->t == T0 && c->them == ALONE;
    }
}

/* ---- the oracle ------------------------------------------------------------------------------ */

/* The call blocks. The standard has no code for this outcome. With wait=0 in the open string the
 * call does not wait, and returns this code. */
enum { BLOCKS = XAER_RMERR };

enum call {
    OPEN,
    OPEN_OTHER,
    CLOSE,
    START,
    END,
    PREPARE,
    COMMIT,
    ROLLBACK,
    RECOVER,
    FORGET,
    COMPLETE,
    CALLS
};
static const char *const call_names[] = {"xa_open",    "xa_open (other string)",
                                         "xa_close",   "xa_start",
                                         "xa_end",     "xa_prepare",
                                         "xa_commit",  "xa_rollback",
                                         "xa_recover", "xa_forget",
                                         "xa_complete"};

/* Which flags a call may be given (C193, chapter 5). */
static const unsigned long allowed[CALLS] = {
    [START] = TMJOIN | TMRESUME | TMNOWAIT, [END] = TMSUSPEND | TMMIGRATE | TMSUCCESS | TMFAIL,
    [COMMIT] = TMONEPHASE | TMNOWAIT,       [RECOVER] = TMSTARTRSCAN | TMENDRSCAN,
    [COMPLETE] = TMMULTIPLE | TMNOWAIT,
};

#define HEUR 1000 /* XA_HEURCOM or XA_HEURRB */

/* Table 6-4, for the calls that end branches without associations: the code of a call in each
 * state, and the next state. */
struct ending {
    int code;
    enum branch to;
};
enum ending_row { ROW_PREPARE, ROW_COMMIT, ROW_ONE_PHASE, ROW_ROLLBACK, ROW_FORGET, ROWS };
static const struct ending endings[ROWS][BRANCHES] = {
    [ROW_PREPARE] = {{XAER_NOTA, S0},
                     {XAER_PROTO, S1},
                     {XA_OK, S3},
                     {XAER_PROTO, S3},
                     {XAER_PROTO, S4},
                     {XAER_PROTO, S5}},
    [ROW_COMMIT] = {{XAER_NOTA, S0},
                    {XAER_PROTO, S1},
                    {XAER_PROTO, S2},
                    {XA_OK, S0},
                    {XAER_PROTO, S4},
                    {HEUR, S5}},
    [ROW_ONE_PHASE] = {{XAER_NOTA, S0},
                       {XAER_PROTO, S1},
                       {XA_OK, S0},
                       {XAER_PROTO, S3},
                       {XAER_PROTO, S4},
                       {HEUR, S5}},
    [ROW_ROLLBACK] =
        {{XAER_NOTA, S0}, {XAER_PROTO, S1}, {XA_OK, S0}, {XA_OK, S0}, {XA_OK, S0}, {HEUR, S5}},
    [ROW_FORGET] = {{XAER_NOTA, S0},
                    {XAER_PROTO, S1},
                    {XAER_PROTO, S2},
                    {XAER_PROTO, S3},
                    {XAER_PROTO, S4},
                    {XA_OK, S0}},
};

/* Table 6-4, for the calls that begin associations. The caller has no association. */
static const int starting[BRANCHES] = {XA_OK,      XAER_DUPID, XAER_DUPID,
                                       XAER_DUPID, XAER_DUPID, XAER_DUPID};
static const int joining[BRANCHES] = {XAER_NOTA,  BLOCKS,        XA_OK,
                                      XAER_PROTO, XA_RBROLLBACK, XAER_PROTO};

static int expect_ending(const struct situation *c, enum ending_row row, struct situation *to)
{
    const struct ending *e = &endings[row][c->s];
    if (c->t != T0 || c->them != ALONE)
        return XAER_PROTO; /* no branch is ended while it has associations */
    to->s = e->to;
    if (e->to == S0)
        to->recovered = to->aborted = false;
    return e->code == HEUR ? (c->aborted ? XA_HEURRB : XA_HEURCOM) : e->code;
}

static int expect_start(const struct situation *c, unsigned long f, struct situation *to)
{
    if ((f & TMJOIN) && (f & TMRESUME))
        return XAER_INVAL;
    if (c->t == T1 || c->elsewhere)
        return XAER_PROTO; /* a thread can work in only one branch at a time */
    if (!(f & (TMJOIN | TMRESUME))) {
        if (starting[c->s] == XA_OK)
            to->s = S1, to->t = T1;
        return starting[c->s];
    }
    if (c->s == S0)
        return XAER_NOTA;
    if ((f & TMJOIN) && (c->t == T2 || c->t == T2O))
        return XAER_PROTO; /* the caller has an association, which it must resume */
    /* true if the call may resume the association of the other thread */
    bool theirs = any_thread && c->t == T0 && c->them == SUSPENDED;
    if ((f & TMRESUME) && c->t == T0 && !theirs)
        return XAER_PROTO;
    int code = joining[c->s];
    if (c->them == ACTIVE)
        code = BLOCKS; /* only one thread can work in a branch at a time */
    if (code == BLOCKS && (f & TMNOWAIT))
        return XA_RETRY;
    if (code == XA_OK)
        to->s = S1, to->t = (f & TMJOIN) && c->t == T2M ? T1M : T1;
    if (code == XA_RBROLLBACK && (f & TMRESUME))
        to->t = T0; /* as C193 says: the call has not associated the thread */
    if ((code == XA_OK || code == XA_RBROLLBACK) && (f & TMRESUME) && theirs)
        to->them = ALONE;
    return code;
}

/* The caller has no association. The call acts on the association of the other thread, as if that
 * thread made the call. */
static int end_for_them(const struct situation *c, unsigned long how, bool migrates, bool failed,
                        struct situation *to)
{
    bool suspended = c->t == T2M || c->them == SUSPENDED;
    if (!(c->them == ACTIVE || (suspended && how != TMSUSPEND)))
        return XAER_PROTO;
    if (c->t == T2M && c->them == ALONE)
        to->t = T0;
    to->them = ALONE;
    if (how == TMSUSPEND && !failed) {
        to->t = migrates ? T2M : c->t;
        to->them = migrates ? ALONE : SUSPENDED;
    }
    to->s = failed ? S4 : S2;
    return failed ? XA_RBROLLBACK : XA_OK;
}

static int expect_end(const struct situation *c, unsigned long f, struct situation *to)
{
    unsigned long how = f & (TMSUSPEND | TMSUCCESS | TMFAIL);
    if (how != TMSUSPEND && how != TMSUCCESS && how != TMFAIL)
        return XAER_INVAL;
    if ((f & TMMIGRATE) && how != TMSUSPEND)
        return XAER_INVAL;
    if (c->s == S0)
        return XAER_NOTA;
    bool failed = how == TMFAIL || c->s == S4;
    if (c->t == T0 || c->t == T2M)
        return any_thread ? end_for_them(c, how, f & TMMIGRATE, failed, to) : XAER_PROTO;
    if (how == TMSUSPEND && c->t != T1)
        return XAER_PROTO;
    bool left = c->them == ACTIVE; /* the other thread is still in the branch */
    to->t = how == TMSUSPEND && !failed ? (f & TMMIGRATE ? T2O : T2) : T0;
    to->s = failed ? S4 : left ? S1 : S2;
    return failed ? XA_RBROLLBACK : XA_OK;
}

static int expect_recover(const struct situation *c, unsigned long f, struct situation *to)
{
    if (!(f & TMSTARTRSCAN) && !c->scan)
        return XAER_INVAL;
    to->scan = !(f & TMENDRSCAN);
    return c->s == S3 || c->s == S5; /* the open scan has returned nothing yet */
}

/* Returns the code of the call; *to is the situation after it. */
static int expected(const struct situation *c, enum call call, unsigned long f,
                    struct situation *to)
{
    *to = *c;
    if (!c->open && call != OPEN && call != OPEN_OTHER && call != CLOSE)
        return XAER_PROTO;
    if (f & TMASYNC)
        return XAER_ASYNC;
    if (f & ~allowed[call])
        return XAER_INVAL;
    switch (call) {
    case OPEN:
        to->open = true;
        return XA_OK;
    case OPEN_OTHER:
        return XAER_INVAL; /* the other thread has opened the rmid with another string */
    case CLOSE:
        if (c->open && (c->t == T1 || c->t == T2 || c->elsewhere))
            return XAER_PROTO;
        if (any_thread && (c->t != T0 || c->them != ALONE))
            return XAER_PROTO; /* the close would also be a close for the other thread */
        to->open = to->scan = false;
        to->t = c->t == T2O ? T2M : c->t;
        return XA_OK;
    case START:
        return expect_start(c, f, to);
    case END:
        return expect_end(c, f, to);
    case PREPARE:
        return expect_ending(c, ROW_PREPARE, to);
    case COMMIT:
        return expect_ending(c, f & TMONEPHASE ? ROW_ONE_PHASE : ROW_COMMIT, to);
    case ROLLBACK:
        return expect_ending(c, ROW_ROLLBACK, to);
    case FORGET:
        return expect_ending(c, ROW_FORGET, to);
    case RECOVER:
        return expect_recover(c, f, to);
    default:
        return XAER_INVAL; /* no asynchronous call is outstanding */
    }
}

/* ---- the resource manager's state ------------------------------------------------------------ */

/* All of the resource manager's state that a call can change, as a situation. */
static struct situation observed(void)
{
    struct situation c = {0};
    struct lladd_gid gid = ll_xa__gid(&x), gid_y = ll_xa__gid(&y);
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(RMID);
    ck_assert_ptr_nonnull(rm);
    struct ll_xa__opening *o = ll_xa__opening_of(rm);
    const struct ll_xa__branch *bx = ll_xa__branch_find(rm->store, &gid);
    const struct ll_xa__branch *by = ll_xa__branch_find(rm->store, &gid_y);
    ck_assert_uint_eq(rm->store->n_branches, (bx ? 1u : 0u) + (by ? 1u : 0u));
    ck_assert_uint_eq(rm->calls, 0);
    c.open = o != NULL;
    c.scan = o && o->scanning;
    c.elsewhere = by && ll_xa__active(by) != NULL;
    bool adrift = false, own = false;
    for (const struct ll_xa__assoc *a = bx ? bx->assocs : NULL; a; a = a->next) {
        if (a->migrates)
            adrift = true, own |= a->thread == lladd_thread_self();
        else if (a->thread == lladd_thread_self())
            c.t = a->suspended ? T2 : T1;
        else
            c.them = a->suspended ? SUSPENDED : ACTIVE;
    }
    if (adrift)
        c.t = c.t == T1 ? T1M : own ? T2O : T2M;
    if (bx) {
        ck_assert(!bx->busy);
        c.s = bx->state == LL_XA__PREPARED        ? S3
              : bx->state == LL_XA__ROLLBACK_ONLY ? S4
              : bx->state == LL_XA__HEURISTIC     ? S5
              : ll_xa__active(bx)                 ? S1
                                                  : S2;
        c.aborted = c.s == S5 && bx->heuristic == XA_HEURRB;
        c.recovered = c.s == S3 && !bx->txn;
    }
    lladd_mutex_unlock(&ll_xa__all.mutex);
    return c;
}

static bool equal(const struct situation *a, const struct situation *c)
{
    bool recovered = a->s == S5 || a->recovered == c->recovered; /* not observable in S5 */
    return a->open == c->open && a->s == c->s && a->t == c->t && a->them == c->them &&
           a->elsewhere == c->elsewhere && a->aborted == c->aborted && a->scan == c->scan &&
           recovered;
}

/* ---- setting up a situation ------------------------------------------------------------------ */

static void open_both(void)
{
    gives(XA_OK, xa_open(info, RMID, TMNOFLAGS));
    ck_assert_int_eq(ask(NULL, lladd_xa_switch.xa_open_entry, 0), XA_OK);
}

/* Ends all associations and branches, in any situation. The calls that do not apply fail, and
 * change nothing. */
static void clear(void)
{
    gives(XA_OK, xa_open(info, RMID, TMNOFLAGS));
    (void)xa_end(&y, RMID, TMSUCCESS);
    (void)xa_end(&x, RMID, TMSUCCESS);
    (void)theirs(lladd_xa_switch.xa_end_entry, TMSUCCESS);
    (void)xa_start(&x, RMID, TMRESUME); /* resumes an association of the other thread */
    (void)xa_end(&x, RMID, TMSUCCESS);
    (void)xa_rollback(&y, RMID, TMNOFLAGS);
    (void)xa_rollback(&x, RMID, TMNOFLAGS);
    (void)xa_forget(&x, RMID, TMNOFLAGS);
    gives(0, xa_recover(NULL, 0, RMID, TMSTARTRSCAN | TMENDRSCAN));
}

static void leave_by(enum mine t)
{
    if (t == T2)
        gives(XA_OK, xa_end(&x, RMID, TMSUSPEND));
    else if (t == T2O)
        gives(XA_OK, xa_end(&x, RMID, TMSUSPEND | TMMIGRATE));
    else if (t == T0)
        gives(XA_OK, xa_end(&x, RMID, TMSUCCESS));
}

/* Makes the associations of S1, S2 and S4. The active thread comes last. */
static void associate(const struct situation *c)
{
    if (c->t == T2M) {
        ck_assert_int_eq(theirs(lladd_xa_switch.xa_start_entry, TMNOFLAGS), XA_OK);
        ck_assert_int_eq(theirs(lladd_xa_switch.xa_end_entry, TMSUSPEND | TMMIGRATE), XA_OK);
        return;
    }
    gives(XA_OK, xa_start(&x, RMID, TMNOFLAGS));
    fixture_add(&b, 0, 1);
    leave_by(c->them == ALONE && c->t == T1 ? T1 : c->t == T2 || c->t == T2O ? c->t : T0);
    if (c->them != ALONE)
        ck_assert_int_eq(theirs(lladd_xa_switch.xa_start_entry, TMJOIN), XA_OK);
    if (c->them == SUSPENDED)
        ck_assert_int_eq(theirs(lladd_xa_switch.xa_end_entry, TMSUSPEND), XA_OK);
    if (c->them == SUSPENDED && c->t == T1)
        gives(XA_OK, xa_start(&x, RMID, TMJOIN));
}

/* Sets the branch to S4, as a call of a third thread would. */
static void doom(void)
{
    struct lladd_gid gid = ll_xa__gid(&x);
    lladd_mutex_lock(&ll_xa__all.mutex);
    ll_xa__branch_find(ll_xa__rm_find(RMID)->store, &gid)->state = LL_XA__ROLLBACK_ONLY;
    lladd_mutex_unlock(&ll_xa__all.mutex);
}

static void reopen(void)
{
    gives(XA_OK, xa_close("", RMID, TMNOFLAGS));
    ck_assert_int_eq(ask(NULL, lladd_xa_switch.xa_close_entry, 0), XA_OK);
    ck_assert_ptr_null(lladd_xa_db(RMID));
    open_both();
}

static void drive(const struct situation *c)
{
    clear();
    if (c->s == S1 || c->s == S2 || c->s == S4)
        associate(c);
    if (c->s == S4)
        doom();
    if (c->s == S3 || c->s == S5)
        fixture_prepared(&b, &x, 0, 1);
    if (c->s == S5)
        gives(XA_OK, lladd_xa_heuristic(RMID, &x,
                                        c->aborted ? LLADD_OUTCOME_ABORT : LLADD_OUTCOME_COMMIT));
    if (c->recovered)
        reopen();
    if (c->elsewhere)
        gives(XA_OK, xa_start(&y, RMID, TMNOFLAGS));
    if (c->scan)
        gives(0, xa_recover(NULL, 0, RMID, TMSTARTRSCAN));
    if (!c->open)
        gives(XA_OK, xa_close("", RMID, TMNOFLAGS));
    struct situation is = observed();
    ck_assert_msg(equal(&is, c), "not driven into S%d T%d", (int)c->s, (int)c->t);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int make(enum call call, XID *xid, long flags)
{
    static char other_info[] = "dir=other";
    XID found[2];
    int handle = 1, value;
    switch (call) {
    case OPEN:
        return xa_open(info, RMID, flags);
    case OPEN_OTHER:
        return xa_open(other_info, RMID, flags);
    case CLOSE:
        return xa_close("", RMID, flags);
    case START:
        return xa_start(xid, RMID, flags);
    case END:
        return xa_end(xid, RMID, flags);
    case PREPARE:
        return xa_prepare(xid, RMID, flags);
    case COMMIT:
        return xa_commit(xid, RMID, flags);
    case ROLLBACK:
        return xa_rollback(xid, RMID, flags);
    case RECOVER:
        return xa_recover(found, 2, RMID, flags);
    case FORGET:
        return xa_forget(xid, RMID, flags);
    default:
        return xa_complete(&handle, &value, RMID, flags);
    }
}

/* codes_seen has a bit for each code that was expected: 20 for XA_RBROLLBACK, 10 + code for other
 * successes, -code for errors. */
static unsigned long cases, codes_seen;

static void note(int code)
{
    codes_seen |= 1ul << (code < 0 ? -code : code == XA_RBROLLBACK ? 20 : 10 + code);
}

/* Makes one call; returns whether the situation has to be set up again. */
static bool one_case(const struct situation *c, enum call call, unsigned long flags)
{
    struct situation want, is;
    int code = expected(c, call, flags, &want);
    if (any_thread && call == CLOSE && code == XA_OK)
        return false; /* the call closes for all threads, so no state is left to observe
                       * (test_open.c tests it) */
    int got = make(call, &x, (long)flags);
    cases++;
    note(code);
    ck_assert_msg(got == code,
                  "R%d T%d S%d them=%d elsewhere=%d recovered=%d: %s(%#lx) gives %d, not %d",
                  c->open, (int)c->t, (int)c->s, (int)c->them, c->elsewhere, c->recovered,
                  call_names[call], flags, got, code);
    is = observed();
    ck_assert_msg(equal(&is, &want),
                  "R%d T%d S%d them=%d elsewhere=%d: after %s(%#lx), %d: R%d T%d S%d them=%d, "
                  "wanted R%d T%d S%d them=%d",
                  c->open, (int)c->t, (int)c->s, (int)c->them, c->elsewhere, call_names[call],
                  flags, got, is.open, (int)is.t, (int)is.s, (int)is.them, want.open, (int)want.t,
                  (int)want.s, (int)want.them);
    if (code < 0)
        ck_assert_msg(equal(&want, c), "the oracle lets an error change something");
    return !equal(&want, c) || code >= 0;
}

static const unsigned long bits[] = {TMASYNC,    TMONEPHASE, TMFAIL,    TMNOWAIT,
                                     TMRESUME,   TMSUCCESS,  TMSUSPEND, TMSTARTRSCAN,
                                     TMENDRSCAN, TMMULTIPLE, TMJOIN,    TMMIGRATE};
enum { BITS = sizeof bits / sizeof *bits };

static void every_flag(const struct situation *c, enum call call)
{
    if (one_case(c, call, TMNOFLAGS))
        drive(c);
    for (unsigned i = 0; i < BITS; i++)
        for (unsigned k = i; k < BITS; k++)
            if (one_case(c, call, bits[i] | bits[k]))
                drive(c);
    /* All flags that a call may be given, at once. Then an undefined bit. */
    if (one_case(c, call, allowed[call]))
        drive(c);
    if (one_case(c, call, 0x00010000ul))
        drive(c);
}

/* ---- XIDs ------------------------------------------------------------------------------------ */

static void wrong_xids(const struct situation *c, enum call call, unsigned long flags)
{
    XID bad[7];
    XID *list[8] = {NULL};
    for (unsigned i = 0; i < 7; i++) {
        bad[i] = x;
        list[i + 1] = &bad[i];
    }
    bad[0].formatID = -1;
    bad[1].gtrid_length = 0;
    bad[2].gtrid_length = 65;
    bad[3].gtrid_length = -1;
    bad[4].bqual_length = 65;
    bad[5].bqual_length = -1;
    bad[6].gtrid_length = (long)(1ul << 31);
    for (unsigned i = 0; i < 8; i++, cases++) {
        int code = c->open ? XAER_INVAL : XAER_PROTO;
        ck_assert_int_eq(make(call, list[i], (long)flags), code);
        struct situation is = observed();
        ck_assert(equal(&is, c));
    }
}

/* XIDs that differ from X slightly are the XIDs of other branches, which do not exist. */
static void similar_xids(const struct situation *c, enum call call, unsigned long flags)
{
    XID like[5];
    if (!c->open || call == START)
        return;
    for (unsigned i = 0; i < 5; i++)
        like[i] = x;
    like[0].formatID++;
    like[1].gtrid_length--;
    like[1].bqual_length++;
    like[2].bqual_length--;
    like[3].data[0] ^= 1;
    like[4].data[x.gtrid_length + x.bqual_length - 1] ^= 1;
    for (unsigned i = 0; i < 5; i++, cases++) {
        ck_assert_int_eq(make(call, &like[i], (long)flags), XAER_NOTA);
        struct situation is = observed();
        ck_assert(equal(&is, c));
    }
}

static void every_xid(const struct situation *c)
{
    static const struct {
        enum call call;
        unsigned long flags;
    } with[] = {{START, TMNOFLAGS},   {START, TMJOIN},  {START, TMRESUME}, {END, TMSUCCESS},
                {END, TMFAIL},        {END, TMSUSPEND}, {PREPARE, 0},      {COMMIT, 0},
                {COMMIT, TMONEPHASE}, {ROLLBACK, 0},    {FORGET, 0}};
    for (unsigned i = 0; i < sizeof with / sizeof *with; i++) {
        wrong_xids(c, with[i].call, with[i].flags);
        similar_xids(c, with[i].call, with[i].flags);
    }
}

/* ---- all cases ------------------------------------------------------------------------------- */

static void every_case(const struct situation *c)
{
    drive(c);
    for (unsigned call = 0; call < CALLS; call++)
        every_flag(c, (enum call)call);
    every_xid(c);
}

static void begin_suite(bool any)
{
    any_thread = any;
    info = any ? any_info : each_info;
    cases = codes_seen = 0;
    fixture_init(&b);
    x = fixture_xid("the branch");
    y = fixture_xid("elsewhere");
    memset(&other, 0, sizeof other);
    ck_assert_int_eq(lladd_mutex_init(&other.mutex, LLADD_RANK_EXTENSION - 1, "other"), 0);
    ck_assert_int_eq(lladd_cond_init(&other.changed), 0);
    ck_assert_int_eq(lladd_thread_start(&other.thread, serve, NULL), 0);
    open_both();
}

static void end_suite(void)
{
    clear();
    ck_assert_int_eq(ask(NULL, lladd_xa_switch.xa_close_entry, 0), XA_OK);
    lladd_mutex_lock(&other.mutex);
    other.stop = true;
    lladd_cond_broadcast(&other.changed);
    lladd_mutex_unlock(&other.mutex);
    lladd_thread_join(&other.thread);
    lladd_cond_destroy(&other.changed);
    lladd_mutex_destroy(&other.mutex);
    fixture_free(&b);
}

START_TEST(every_call_in_every_state_with_every_flag)
{
    unsigned situations = 0;
    begin_suite(_i == 1);
    for (unsigned n = 0; n < 32 * BRANCHES * MINES * THEMS; n++) {
        struct situation c = {.open = n & 1,
                              .elsewhere = n & 2,
                              .recovered = n & 4,
                              .aborted = n & 8,
                              .scan = n & 16};
        c.s = (enum branch)(n / 32 % BRANCHES);
        c.t = (enum mine)(n / (32 * BRANCHES) % MINES);
        c.them = (enum them)(n / (32 * BRANCHES * MINES));
        if (!possible(&c))
            continue;
        every_case(&c);
        situations++;
    }
    end_suite();
    printf("threads=%s: %u situations, %lu cases\n", any_thread ? "any" : "each", situations,
           cases);
    ck_assert_uint_ge(situations, 40);
    ck_assert_uint_ge(cases, 5000);
    /* Every code of the tables is among the codes seen. */
    unsigned long want = 1ul << 10 | 1ul << (10 + XA_RETRY) | 1ul << (10 + XA_HEURCOM) |
                         1ul << (10 + XA_HEURRB) | 1ul << 20 | 1ul << -XAER_ASYNC |
                         1ul << -XAER_RMERR | 1ul << -XAER_NOTA | 1ul << -XAER_INVAL |
                         1ul << -XAER_PROTO | 1ul << -XAER_DUPID;
    ck_assert_uint_eq(codes_seen & want, want);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conformance");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, every_call_in_every_state_with_every_flag, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
