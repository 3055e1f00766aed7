/* SPDX-License-Identifier: BSD-2-Clause */
/* xa_start and xa_end: states T0, T1 and T2 of table 6-3 of the XA standard (C193), and S0, S1, S2
 * and S4 of table 6-4.
 *
 * One thread at a time uses a transaction, so tightly coupled threads work one after the other, as
 * C193 allows. A thread that joins or resumes while another thread is active waits for the xa_end
 * of the active thread. With TMNOWAIT the thread does not wait and gets XA_RETRY. If the wait takes
 * longer than the time `wait` of the open string, the thread gets XAER_RMERR.
 *
 * With `threads=any` any thread may end and resume another thread's association, for example a
 * thread of the transaction manager when a transaction takes too long. If the working thread is in
 * a call, xa_end waits for the end of that call, at most for `wait`; with TMFAIL it waits without
 * limit, and a wait for a lock in that call ends with an error. Afterwards every call of the
 * working thread with its transaction handle returns LLADD_TAKEN. The handle is kept until that
 * thread starts, joins or resumes a branch under the rmid, or ends, or the database is closed. */
#include "xa/xa_private.h"

#include <lladd/extension.h>

static int rolled_back_only(struct ll_xa__rm *rm)
{
    return ll_xa__say(rm, XA_RBROLLBACK, LLADD_BAD_STATE, "the branch can only be rolled back");
}

static int begin(struct ll_xa__rm *rm, const struct lladd_gid *gid)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_xa__store *s = rm->store;
    struct ll_xa__branch *b = ll_xa__branch_add(s, gid);
    if (!b || !ll_xa__assoc_add(b, rm)) {
        if (b)
            ll_xa__branch_remove(s, b);
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory for a branch");
    }
    o.owner = s->spec.owner;
    if (lladd_begin(s->db, &o, &b->txn, &err)) {
        ll_xa__branch_remove(s, b);
        return ll_xa__say_error(rm, XAER_RMERR, &err);
    }
    b->state = LL_XA__ACTIVE;
    (void)lladd_txn_take(b->txn, false, 0); /* returns 0, because no other thread knows the
                                             * transaction */
    return XA_OK;
}

/* Waits until no thread is active in the branch and the branch is not busy. Looks *b up again after
 * each wait, because the branch may have been replaced meanwhile. */
static int wait_turn(struct ll_xa__rm *rm, const struct lladd_gid *gid, bool nowait,
                     struct ll_xa__branch **b)
{
    struct ll_xa__store *s = rm->store;
    uint64_t end = lladd_now_ns(s->db) + s->spec.wait_ns;
    while (*b && (ll_xa__active(*b) || (*b)->busy)) {
        const struct ll_xa__assoc *a = ll_xa__active(*b);
        if (a && a->thread == lladd_thread_self())
            return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                              "this thread is associated with the branch under another rmid");
        if (nowait)
            return ll_xa__say(rm, XA_RETRY, LLADD_BUSY, "another thread works on the branch");
        uint64_t now = lladd_now_ns(s->db);
        if (now >= end)
            return ll_xa__say(rm, XAER_RMERR, LLADD_TIMEOUT,
                              "another thread has been working on the branch for too long");
        (void)lladd_cond_wait_for(&s->changed, &ll_xa__all.mutex, end - now);
        if (s->opening || !s->db)
            return ll_xa__say(rm, XAER_RMFAIL, LLADD_CLOSED, "the database has failed meanwhile");
        *b = ll_xa__branch_find(s, gid);
    }
    return XA_OK;
}

static int resume(struct ll_xa__rm *rm, const struct lladd_gid *gid, bool nowait,
                  struct ll_xa__branch *b)
{
    if (!ll_xa__resumable(b, rm))
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "this thread has no suspended association to resume");
    int rc = wait_turn(rm, gid, nowait, &b);
    struct ll_xa__assoc *mine = rc || !b ? NULL : ll_xa__resumable(b, rm);
    if (rc)
        return rc;
    if (!mine) /* another thread has resumed or ended the association during the wait */
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "another thread has resumed or ended the association");
    if (b->state == LL_XA__ROLLBACK_ONLY) {
        ll_xa__assoc_remove(mine);
        return rolled_back_only(rm);
    }
    mine->thread = lladd_thread_self();
    mine->suspended = mine->migrates = false;
    (void)lladd_txn_take(b->txn, false, UINT64_MAX); /* returns 0 at once: the thread that was
                                                      * active has given the transaction back */
    return XA_OK;
}

static int join(struct ll_xa__rm *rm, const struct lladd_gid *gid, bool nowait,
                struct ll_xa__branch *b)
{
    const struct ll_xa__assoc *a = ll_xa__mine(b, rm);
    if (a)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "this thread has a suspended association with the branch: resume it");
    int rc = wait_turn(rm, gid, nowait, &b);
    if (rc)
        return rc;
    if (!b)
        return ll_xa__say(rm, XAER_NOTA, LLADD_NOT_FOUND, "the branch has ended meanwhile");
    if (b->state == LL_XA__ROLLBACK_ONLY)
        return rolled_back_only(rm);
    if (b->state != LL_XA__ACTIVE)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE, "the branch is prepared or completed");
    if (!ll_xa__assoc_add(b, rm))
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory");
    (void)lladd_txn_take(b->txn, false, UINT64_MAX); /* returns 0 at once: the thread that was
                                                      * active has given the transaction back */
    return XA_OK;
}

static int start(struct ll_xa__rm *rm, const XID *xid, unsigned long flags)
{
    bool nowait = flags & TMNOWAIT;
    unsigned long how = flags & (TMJOIN | TMRESUME);
    if (!ll_xa__xid_ok(xid) || how == (TMJOIN | TMRESUME))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "xa_start: no XID, or both TMJOIN and TMRESUME");
    int rc = ll_xa__healthy(rm);
    if (rc)
        return rc;
    if (ll_xa__current(rm))
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "this thread is associated with a branch already");
    if (!ll_xa__thread_mark())
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory for a thread's mark");
    ll_xa__let_go(rm, lladd_thread_self()); /* the thread is about to get another transaction */
    struct lladd_gid gid = ll_xa__gid(xid);
    struct ll_xa__branch *b = ll_xa__branch_find(rm->store, &gid);
    if (!how && b)
        return ll_xa__say(rm, XAER_DUPID, LLADD_EXISTS, "the XID is in use");
    if (!how)
        return begin(rm, &gid);
    if (!b)
        return ll_xa__say(rm, XAER_NOTA, LLADD_NOT_FOUND, "no such branch");
    return how == TMJOIN ? join(rm, &gid, nowait, b) : resume(rm, &gid, nowait, b);
}

int ll_xa__start(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMJOIN | TMRESUME | TMNOWAIT, &rm);
    return rc ? rc : ll_xa__leave(rm, start(rm, xid, (unsigned long)flags));
}

/* ---- xa_end ---------------------------------------------------------------------------------- */

/* Returns the association that xa_end ends: the association of the calling thread. If that thread
 * has none and `threads=any` is set: the association of another thread, preferably of the active
 * thread. NULL: T0. */
static struct ll_xa__assoc *to_end(const struct ll_xa__branch *b, const struct ll_xa__rm *rm,
                                   unsigned long how)
{
    struct ll_xa__assoc *a = ll_xa__mine(b, rm);
    if (a || !rm->store->spec.any_thread)
        return a;
    a = ll_xa__active(b);
    if (a)
        return a->rm == rm ? a : NULL;
    return how == TMSUSPEND ? NULL : ll_xa__resumable(b, rm);
}

/* Takes the branch's transaction from the active thread, and ends the thread's association, unless
 * the end of the thread has removed it meanwhile. */
static int take_away(struct ll_xa__rm *rm, struct ll_xa__branch *b, bool stop)
{
    struct ll_xa__store *s = rm->store;
    struct lladd_txn *txn = b->txn;
    b->busy = true;
    lladd_mutex_unlock(&ll_xa__all.mutex);
    int rc = lladd_txn_take(txn, stop, stop ? UINT64_MAX : s->spec.wait_ns);
    if (!rc)
        (void)lladd_txn_give(txn); /* returns true: the branch is busy, so no other thread has taken
                                    * the transaction */
    lladd_mutex_lock(&ll_xa__all.mutex);
    b->busy = false;
    lladd_cond_broadcast(&s->changed);
    if (rc) {
        int ill = ll_xa__healthy(rm);
        return ill ? ill
                   : ll_xa__say(rm, XAER_RMERR, rc,
                                "the thread that works on the branch has been in a call for too "
                                "long");
    }
    struct ll_xa__assoc *a = ll_xa__active(b);
    if (a)
        ll_xa__assoc_taken(a);
    return XA_OK;
}

static int end_theirs(struct ll_xa__rm *rm, struct ll_xa__branch *b, uint64_t thread,
                      unsigned long flags)
{
    struct ll_xa__assoc *rest = NULL;
    if (flags & TMSUSPEND) {
        rest = ll_xa__assoc_add(b, rm);
        if (!rest)
            return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory");
        rest->thread = thread;
        rest->suspended = true;
        rest->migrates = flags & TMMIGRATE;
    }
    int rc = take_away(rm, b, flags & TMFAIL);
    const struct ll_xa__assoc *there = b->assocs;
    while (there && there != rest)
        there = there->next;
    if (there && (rc || b->state != LL_XA__ACTIVE || ll_xa__healthy(rm) != XA_OK))
        ll_xa__assoc_remove(rest); /* the association is still in the list: the end of its thread
                                    * has not removed it */
    return rc;
}

/* Ends or suspends the calling thread's association, or ends a suspended association. */
static void end_own(struct ll_xa__branch *b, struct ll_xa__assoc *a, unsigned long flags,
                    bool stays)
{
    if (!a->suspended)
        (void)lladd_txn_give(b->txn); /* returns true: the branch is not busy, so no thread has
                                       * taken the transaction */
    if (!stays) {
        ll_xa__assoc_remove(a); /* also if the handle is poisoned, because the database is not
                                 * reopened while an association is active */
        return;
    }
    a->suspended = true;
    a->migrates = flags & TMMIGRATE;
}

static int end(struct ll_xa__rm *rm, const XID *xid, unsigned long flags)
{
    unsigned long how = flags & ~(unsigned long)TMMIGRATE;
    bool one = how == TMSUCCESS || how == TMFAIL || how == TMSUSPEND;
    if (!ll_xa__xid_ok(xid) || !one || ((flags & TMMIGRATE) && how != TMSUSPEND))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "xa_end: no XID, or not one of TMSUCCESS, TMFAIL, TMSUSPEND[|TMMIGRATE]");
    struct lladd_gid gid = ll_xa__gid(xid);
    struct ll_xa__branch *b = NULL;
    int rc = ll_xa__branch_idle(rm, &gid, false, &b);
    if (rc)
        return rc;
    if (!b)
        return ll_xa__say(rm, XAER_NOTA, LLADD_NOT_FOUND, "no such branch");
    struct ll_xa__assoc *a = to_end(b, rm, how);
    if (!a)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "this thread is not associated with the branch");
    if (how == TMSUSPEND && a->suspended)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE, "the association is suspended already");
    bool theirs = !a->suspended && a->thread != lladd_thread_self();
    if (theirs && (rc = end_theirs(rm, b, a->thread, flags)) != 0)
        return rc;
    int failed = ll_xa__healthy(rm);
    if (how == TMFAIL)
        b->state = LL_XA__ROLLBACK_ONLY;
    bool only_back = b->state == LL_XA__ROLLBACK_ONLY;
    if (!theirs)
        end_own(b, a, flags, how == TMSUSPEND && !failed && !only_back);
    lladd_cond_broadcast(&rm->store->changed);
    return failed ? failed : only_back ? rolled_back_only(rm) : XA_OK;
}

int ll_xa__end(XID *xid, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc =
        ll_xa__enter(rmid, flags, TMSUCCESS | TMFAIL | TMSUSPEND | TMMIGRATE, &rm);
    return rc ? rc : ll_xa__leave(rm, end(rm, xid, (unsigned long)flags));
}

/* ---- a branch that its thread has abandoned ------------------------------------------------ */

static int abandon(struct ll_xa__rm *rm, const XID *xid)
{
    if (!ll_xa__xid_ok(xid))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "the XID is missing or invalid");
    struct lladd_gid gid = ll_xa__gid(xid);
    struct ll_xa__branch *b = NULL;
    int rc = ll_xa__branch_idle(rm, &gid, false, &b);
    if (rc)
        return rc;
    if (!b)
        return ll_xa__say(rm, XAER_NOTA, LLADD_NOT_FOUND, "no such branch");
    if (!b->assocs)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "no thread is associated with the branch");
    b->state = LL_XA__ROLLBACK_ONLY;
    if (ll_xa__active(b)) /* the active association may be under any rmid */
        rc = take_away(rm, b, true);
    while (!rc && b->assocs)
        ll_xa__assoc_remove(b->assocs);
    lladd_cond_broadcast(&rm->store->changed);
    return rc;
}

int lladd_xa_abandon(int rmid, const struct xid_t *xid)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, TMNOFLAGS, TMNOFLAGS, &rm);
    return rc ? rc : ll_xa__leave(rm, abandon(rm, xid));
}
