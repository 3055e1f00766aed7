/* SPDX-License-Identifier: BSD-2-Clause */
/* xa_prepare, xa_commit, xa_rollback, xa_forget: how branches end (table 6-4 of C193).
 *
 * A branch that has ended is removed: calls with its XID return XAER_NOTA, and a recovering
 * transaction manager presumes abort. */
#include "xa/xa_private.h"

struct work {
    struct lladd_db *db;
    struct lladd_txn *txn;
    const struct lladd_gid *gid;
    enum lladd_outcome outcome;
    bool read_only; /* the branch has written nothing: it was committed instead of prepared */
    struct lladd_error err;
};

#define ANY_STATE 0xffu
#define IN(state) (1u << (state))

/* Finds the branch, and waits until it is not busy. XAER_NOTA if there is no such branch;
 * XAER_PROTO if its state is not in `allowed`, or it has an association; XA_RETRY with `nowait` if
 * it is busy. */
static int find(struct ll_xa__rm *rm, const XID *xid, unsigned allowed, bool nowait,
                struct ll_xa__branch **out)
{
    if (!ll_xa__xid_ok(xid))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "the XID is missing or invalid");
    int rc = ll_xa__healthy(rm);
    if (rc)
        return rc;
    struct lladd_gid gid = ll_xa__gid(xid);
    struct ll_xa__branch *b = NULL;
    rc = ll_xa__branch_idle(rm, &gid, nowait, &b);
    if (!rc)
        rc = ll_xa__healthy(rm); /* the handle may have been poisoned meanwhile */
    if (rc)
        return rc;
    if (!b)
        return ll_xa__say(rm, XAER_NOTA, LLADD_NOT_FOUND, "no such branch");
    if (!(allowed & IN(b->state)))
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "the branch is in a state in which this cannot be done");
    if (b->assocs)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "a thread has an association, perhaps suspended, with the branch");
    *out = b;
    return XA_OK;
}

/* Claims the transaction of a branch that has been in doubt since the open. */
static int claim(struct ll_xa__rm *rm, struct ll_xa__branch *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (b->txn)
        return XA_OK;
    int rc = lladd_in_doubt_claim(rm->store->db, &b->gid, &b->txn, &err);
    if (!rc)
        return XA_OK;
    b->txn = NULL;
    if (rc == LLADD_HEUR_COMMITTED || rc == LLADD_HEUR_ABORTED) { /* a program has called
                                                                   * lladd_heuristic_end */
        b->state = LL_XA__HEURISTIC;
        b->heuristic = rc == LLADD_HEUR_COMMITTED ? XA_HEURCOM : XA_HEURRB;
        return ll_xa__say_error(rm, b->heuristic, &err);
    }
    if (rc == LLADD_NOT_FOUND) { /* a program has called lladd_in_doubt_claim and ended the
                                  * transaction */
        ll_xa__branch_remove(rm->store, b);
        return ll_xa__say_error(rm, XAER_NOTA, &err);
    }
    return ll_xa__say_error(rm, rc == LLADD_BUSY ? XA_RETRY : XAER_RMERR, &err);
}

/* Runs a long step without the mutex. The branch is busy until done() or failed(). */
static int step(struct ll_xa__rm *rm, struct ll_xa__branch *b, int (*what)(struct work *),
                struct work *work)
{
    work->db = rm->store->db;
    work->txn = b->txn;
    work->gid = &b->gid;
    b->busy = true;
    lladd_mutex_unlock(&ll_xa__all.mutex);
    /* Waits at most briefly: the thread that worked in the branch last has given the transaction
     * back, or another thread has taken it over, or the handle is poisoned. */
    int rc = work->txn ? lladd_txn_take(work->txn, true, UINT64_MAX) : 0;
    if (!rc)
        rc = what(work);
    lladd_mutex_lock(&ll_xa__all.mutex);
    return rc;
}

static int do_prepare(struct work *w)
{
    w->read_only = lladd_txn_id(w->txn).v == 0;
    return w->read_only ? lladd_commit(w->txn) : lladd_prepare(w->txn, w->gid);
}

static int do_commit(struct work *w)
{
    return lladd_commit(w->txn);
}

static int do_abort(struct work *w)
{
    return lladd_abort(w->txn);
}

static int do_forget(struct work *w)
{
    return lladd_heuristic_forget(w->db, w->gid, &w->err);
}

static int do_decide(struct work *w)
{
    return lladd_heuristic_end(w->txn, w->outcome);
}

static void done(struct ll_xa__rm *rm, struct ll_xa__branch *b, bool gone)
{
    b->busy = false;
    if (gone)
        ll_xa__branch_remove(rm->store, b);
    else if (b->txn)
        (void)lladd_txn_give(b->txn); /* returns true: the branch was busy, so no other thread has
                                       * taken the transaction */
    lladd_cond_broadcast(&rm->store->changed);
}

/* Called when a step has returned an error. If the handle is poisoned, the branch loses its
 * transaction: the failed call has released it, or the close of the database does. After recovery
 * the branch is committed, rolled back, or in doubt. */
static int failed(struct ll_xa__rm *rm, struct ll_xa__branch *b, int xa_code)
{
    int rc = ll_xa__healthy(rm);
    if (rc)
        b->txn = NULL;
    else
        rc = ll_xa__say_error(rm, xa_code, lladd_txn_error(b->txn));
    done(rm, b, false);
    return rc;
}

/* ---- phase one ------------------------------------------------------------------------------- */

static int prepare(struct ll_xa__rm *rm, const XID *xid)
{
    struct work work = {.txn = NULL};
    struct ll_xa__branch *b;
    int rc = find(rm, xid, IN(LL_XA__ACTIVE), false, &b);
    if (rc)
        return rc;
    if (step(rm, b, do_prepare, &work))
        return failed(rm, b, XAER_RMERR);
    b->state = LL_XA__PREPARED;
    done(rm, b, work.read_only);
    return work.read_only ? XA_RDONLY : XA_OK;
}

int ll_xa__prepare(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMNOFLAGS, &rm);
    return rc ? rc : ll_xa__leave(rm, prepare(rm, xid));
}

/* ---- phase two ------------------------------------------------------------------------------- */

/* Called when a one-phase commit has returned an error: rolls the branch back, as C193 demands. */
static int give_up(struct ll_xa__rm *rm, struct ll_xa__branch *b)
{
    const struct lladd_error why = *lladd_txn_error(b->txn);
    struct work work = {.txn = NULL};
    if (step(rm, b, do_abort, &work))
        return failed(rm, b, XAER_RMERR);
    done(rm, b, true);
    bool again = lladd_code_root(why.code) == LLADD_ROOT_RETRY;
    return ll_xa__say_error(
        rm, why.code == LLADD_DEADLOCK ? XA_RBDEADLOCK : again ? XA_RBTRANSIENT : XA_RBOTHER, &why);
}

static int commit(struct ll_xa__rm *rm, const XID *xid, bool one_phase, bool nowait)
{
    struct work work = {.txn = NULL};
    struct ll_xa__branch *b;
    unsigned wanted = IN(one_phase ? LL_XA__ACTIVE : LL_XA__PREPARED) | IN(LL_XA__HEURISTIC);
    int rc = find(rm, xid, wanted, nowait, &b);
    if (rc)
        return rc;
    if (b->state == LL_XA__HEURISTIC)
        return b->heuristic;
    rc = claim(rm, b);
    if (rc)
        return rc;
    rc = step(rm, b, do_commit, &work);
    if (rc && one_phase && ll_xa__healthy(rm) == XA_OK)
        return give_up(rm, b);
    if (rc)
        return failed(rm, b, XA_RETRY);
    done(rm, b, true);
    return XA_OK;
}

int ll_xa__commit(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMONEPHASE | TMNOWAIT, &rm);
    if (rc)
        return rc;
    rc = commit(rm, xid, flags & TMONEPHASE, flags & TMNOWAIT);
    return ll_xa__leave(rm, rc);
}

static int rollback(struct ll_xa__rm *rm, const XID *xid)
{
    struct work work = {.txn = NULL};
    struct ll_xa__branch *b;
    int rc = find(rm, xid, ANY_STATE, false, &b);
    if (rc)
        return rc;
    if (b->state == LL_XA__HEURISTIC)
        return b->heuristic;
    rc = claim(rm, b);
    if (rc)
        return rc == XA_RETRY ? XAER_RMERR : rc; /* xa_rollback may not return XA_RETRY */
    if (step(rm, b, do_abort, &work))
        return failed(rm, b, XAER_RMERR);
    done(rm, b, true);
    return XA_OK;
}

int ll_xa__rollback(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMNOFLAGS, &rm);
    return rc ? rc : ll_xa__leave(rm, rollback(rm, xid));
}

static int forget(struct ll_xa__rm *rm, const XID *xid)
{
    struct work work = {.err = LLADD_ERROR_INIT};
    struct ll_xa__branch *b;
    int rc = find(rm, xid, IN(LL_XA__HEURISTIC), false, &b);
    if (rc)
        return rc;
    rc = step(rm, b, do_forget, &work);
    done(rm, b, !rc || rc == LLADD_NOT_FOUND); /* a program may have called
                                                * lladd_heuristic_forget */
    if (ll_xa__healthy(rm))
        return XAER_RMFAIL;
    if (!rc)
        return XA_OK;
    return ll_xa__say_error(rm, rc == LLADD_NOT_FOUND ? XAER_NOTA : XAER_RMERR, &work.err);
}

int ll_xa__forget(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMNOFLAGS, &rm);
    return rc ? rc : ll_xa__leave(rm, forget(rm, xid));
}

/* ---- an administrator ----------------------------------------------------------------------- */

static int decide(struct ll_xa__rm *rm, const XID *xid, enum lladd_outcome outcome)
{
    struct work work = {.outcome = outcome};
    struct ll_xa__branch *b;
    int rc = find(rm, xid, IN(LL_XA__PREPARED) | IN(LL_XA__HEURISTIC), false, &b);
    if (rc)
        return rc;
    if (b->state == LL_XA__HEURISTIC)
        return b->heuristic;
    rc = claim(rm, b);
    if (rc)
        return rc;
    if (step(rm, b, do_decide, &work))
        return failed(rm, b, XAER_RMERR);
    b->txn = NULL;
    b->state = LL_XA__HEURISTIC;
    b->heuristic = outcome == LLADD_OUTCOME_COMMIT ? XA_HEURCOM : XA_HEURRB;
    done(rm, b, false);
    return XA_OK;
}

int lladd_xa_heuristic(int rmid, const struct xid_t *xid, enum lladd_outcome outcome)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, TMNOFLAGS, TMNOFLAGS, &rm);
    if (rc)
        return rc;
    if (outcome != LLADD_OUTCOME_COMMIT && outcome != LLADD_OUTCOME_ABORT)
        return ll_xa__leave(rm, ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                                           "invalid outcome: expected commit or abort"));
    return ll_xa__leave(rm, decide(rm, xid, outcome));
}
