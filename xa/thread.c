/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of control that end without xa_end or xa_close.
 *
 * The standard has no call for that, and says of nobody that he would notice. But the number of a
 * thread is given to a new one when it has ended, and what hangs on a number must not be found by
 * its next bearer. So each thread that opens an instance or starts a branch leaves a mark with the
 * system, which calls us when the thread ends: what it was associated with can only be rolled back,
 * since nobody knows how far its work has come (an xa_end with TMFAIL), and what it had opened it
 * has closed. An association that it had suspended for others to resume is not its any more. */
#include "xa/xa_private.h"

/* Under the mutex. Waits while somebody opens the database again; the rm is looked up anew then. */
static struct ll_xa__rm *left_by(uint64_t thread)
{
    struct ll_xa__rm *rm = ll_xa__all.rms;
    while (rm) {
        if (!ll_xa__knows(rm, thread)) {
            rm = rm->next;
        } else if (rm->store->opening) {
            lladd_cond_wait(&ll_xa__all.opened, &ll_xa__all.mutex);
            rm = ll_xa__all.rms;
        } else {
            break;
        }
    }
    return rm;
}

static void leave_pending(struct ll_xa__rm *rm, uint64_t thread)
{
    struct ll_xa__assoc *a;
    while ((a = ll_xa__tied(rm, thread)) != NULL) {
        struct lladd_txn *txn = a->suspended ? NULL : a->branch->txn;
        if (a->branch->state == LL_XA__ACTIVE)
            a->branch->state = LL_XA__ROLLBACK_ONLY;
        ll_xa__assoc_remove(a);
        if (txn && !lladd_txn_give(txn))
            lladd_txn_drop(txn); /* another thread has just taken it, and finds no association */
    }
    ll_xa__disown(rm, thread);
    ll_xa__let_go(rm, thread);
    lladd_cond_broadcast(&rm->store->changed);
    struct ll_xa__opening *o = rm->openings;
    while (o && o->thread != thread)
        o = o->next;
    if (o)
        ll_xa__opening_end(rm, o);
}

static void ended(void *all)
{
    uint64_t self = lladd_thread_self();
    struct ll_xa__rm *rm;
    (void)all;
    lladd_mutex_lock(&ll_xa__all.mutex);
    while ((rm = left_by(self)) != NULL) {
        rm->calls++;
        leave_pending(rm, self);
        ll_xa__rm_settle(rm);
    }
    lladd_mutex_unlock(&ll_xa__all.mutex);
}

bool ll_xa__thread_mark(void)
{
    struct ll_xa__all *all = &ll_xa__all;
    all->marks = all->marks || tss_create(&all->mark, ended) == thrd_success;
    return all->marks && tss_set(all->mark, all) == thrd_success;
}

/* We may be unloaded while threads go on. */
__attribute__((destructor)) static void unmark(void)
{
    if (ll_xa__all.marks)
        tss_delete(ll_xa__all.mark);
}
