/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of control that end without xa_end or xa_close.
 *
 * XA has no notification of a thread's end. But the system reuses thread numbers, and a new thread
 * must not find the state of an ended thread. So each thread that opens an rmid or starts, joins or
 * resumes a branch sets a thread-specific value with a destructor, which runs at the thread's end.
 * The destructor ends the thread's associations as xa_end with TMFAIL does: the branches can only
 * be rolled back, because the thread may have done only a part of the work. The destructor also
 * closes the rmids that the thread has opened, except with `threads=any`. An association that the
 * thread has suspended for migration stays, with the thread number 0. */
#include "xa/xa_private.h"

/* Called with the mutex. Returns an rm that has state of the thread, or NULL. Waits while another
 * thread opens or closes the rm's database, and then searches again. */
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
            lladd_txn_drop(txn); /* Another thread has just taken the transaction. That thread will
                                  * find no association, so it will not drop this thread's reference
                                  * to the handle. */
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

/* The library may be unloaded while threads still run; then their destructors must not be
 * called. */
__attribute__((destructor)) static void unmark(void)
{
    if (ll_xa__all.marks)
        tss_delete(ll_xa__all.mark);
}
