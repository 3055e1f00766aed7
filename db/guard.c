/* SPDX-License-Identifier: BSD-2-Clause */
/* Guarded transactions: a transaction's user is the thread that may make calls on it. Another
 * thread, the taker, can become the user (lladd_txn_take). If the user is in a call, the taker
 * waits for the end of the call.
 *
 * `inside` works like a mutex. The user takes `inside` at its outermost call, and keeps `inside`
 * until that call has returned and no top action is open. So a taker never rolls a structure back
 * in the middle of a change. On a poisoned handle nothing is rolled back and no top action ends, so
 * the user releases `inside` when the call returns. While the transaction is guarded, only the
 * thread that holds `inside` changes `user`. A taker counts itself in `takers` before it tries to
 * take `inside`, so the next release of `inside` wakes the taker. The handle is reference-counted:
 * a thread that has lost the transaction can pass the handle to calls even then. */
#include "db/db_private.h"

#include <limits.h>

/* A read that must see another thread's atomic exchange is an atomic read-modify-write, too. */
static uint32_t look32(uint32_t *p)
{
    return lladd_atomic_add32(p, 0);
}

static void leave(struct lladd_txn *txn)
{
    lladd_atomic_exchange64(&txn->inside, 0);
    if (look32(&txn->takers) == 0)
        return;
    lladd_atomic_add32(&txn->left, 1);
    lladd_word_wake(&txn->left, INT_MAX, UINT32_MAX);
}

int lladd_use_begin(struct lladd_txn *txn, struct lladd_use *use)
{
    use->txn = NULL;
    if (!txn)
        return 0;
    /* Checked here because a structure may take mutexes before the core checks the call. */
    if (LL_UNLIKELY(!lladd_atomic_load32(&txn->core->poison->healthy))) {
        int rc = lladd_check_process(ll_db_of(txn->core), &txn->err);
        if (rc)
            return rc;
    }
    if (LL_LIKELY(!lladd_atomic_load64(&txn->user)))
        return 0;
    uint64_t self = lladd_thread_self(), none = 0;
    if (lladd_atomic_load64(&txn->inside) == self) {
        txn->calls++;
        use->txn = txn;
        return 0;
    }
    do {
        if (lladd_atomic_load64(&txn->user) != self || lladd_atomic_load32(&txn->stops))
            return LLADD_TAKEN;
        none = 0; /* Until the exchange succeeds, another thread is taking the transaction, or is
                   * about to be refused. */
    } while (!lladd_atomic_cas64(&txn->inside, &none, self) && (lladd_yield(), true));
    if (lladd_atomic_load64(&txn->user) != self) {
        leave(txn);
        return LLADD_TAKEN;
    }
    lladd_atomic_add32(&txn->refs, 1);
    txn->calls = 1;
    use->txn = txn;
    return 0;
}

bool ll_txn_seen(const struct lladd_txn *txn)
{
    uint64_t user = lladd_atomic_load64(&txn->user);
    if (LL_LIKELY(!user))
        return true;
    uint64_t self = lladd_thread_self();
    return user == self || lladd_atomic_load64(&txn->inside) == self;
}

void lladd_use_end(struct lladd_use *use)
{
    struct lladd_txn *txn = use->txn;
    if (!txn || --txn->calls)
        return;
    if (txn->n_actions && ll_core_check(txn->core, NULL) == 0)
        return;
    leave(txn);
    ll_txn_unref(txn);
}

bool lladd_txn_stopped(const struct lladd_txn *txn)
{
    return txn && lladd_atomic_load32(&txn->stops) != 0;
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* A taker wakes up after this time to check whether the handle is poisoned, because poisoning does
 * not wake takers. */
#define POLL_NS UINT64_C(100000000)

/* Waits for `inside`; LLADD_TIMEOUT after wait_ns. On a poisoned handle, the call returns the
 * poison's code after one wait of at most POLL_NS. */
static int get_inside(struct lladd_txn *txn, uint64_t self, uint64_t wait_ns)
{
    struct lladd_db *db = txn->core->db;
    uint64_t now = lladd_now_ns(db);
    uint64_t end = wait_ns < UINT64_MAX - now ? now + wait_ns : UINT64_MAX;
    for (bool waited = false;; waited = true) {
        uint64_t none = 0;
        uint32_t left = look32(&txn->left);
        if (lladd_atomic_cas64(&txn->inside, &none, self))
            return 0;
        int rc = waited ? ll_core_check(txn->core, NULL) : 0;
        if (rc)
            return rc;
        now = lladd_now_ns(db);
        if (now >= end)
            return LLADD_TIMEOUT;
        lladd_word_wait(&txn->left, left, UINT32_MAX, end - now < POLL_NS ? end - now : POLL_NS);
    }
}

static int take(struct lladd_txn *txn, uint64_t self, bool stop, uint64_t wait_ns)
{
    lladd_atomic_add32(&txn->takers, 1);
    if (stop)
        lladd_atomic_add32(&txn->stops, 1);
    int rc = get_inside(txn, self, wait_ns);
    bool inside = !rc;
    if (inside && txn->magic == LL_TXN_MAGIC) {
        uint64_t user = lladd_atomic_load64(&txn->user);
        if (user != self && user != LL_NO_USER)
            lladd_atomic_add32(&txn->refs, 1); /* a reference for the thread that loses the
                                                * transaction */
        lladd_atomic_store64(&txn->user, self);
    } else if (inside) {
        rc = LLADD_CLOSED;
    }
    if (stop)
        lladd_atomic_add32(&txn->stops, UINT32_MAX);
    lladd_atomic_add32(&txn->takers, UINT32_MAX);
    if (inside)
        leave(txn);
    return rc;
}

int lladd_txn_take(struct lladd_txn *txn, bool stop, uint64_t wait_ns)
{
    if (!txn)
        return LLADD_CLOSED;
    uint64_t self = lladd_thread_self();
    if (lladd_atomic_load64(&txn->user) == 0) {
        if (txn->magic != LL_TXN_MAGIC)
            return LLADD_CLOSED;
        lladd_atomic_store64(&txn->inside, 0);
        lladd_atomic_store32(&txn->refs, 1);
        txn->calls = 0;
        lladd_atomic_store64(&txn->user, self);
        return 0;
    }
    if (lladd_atomic_load64(&txn->inside) == self) /* this thread is in a call or a top action */
        return lladd_atomic_load64(&txn->user) == self ? 0 : LLADD_BAD_STATE;
    return take(txn, self, stop, wait_ns);
}

bool lladd_txn_give(struct lladd_txn *txn)
{
    uint64_t self = lladd_thread_self();
    bool in = lladd_atomic_load64(&txn->inside) == self;
    if (!in) {
        int rc;
        lladd_atomic_add32(&txn->takers, 1);
        do
            rc = get_inside(txn, self, UINT64_MAX);
        while (rc && lladd_atomic_load64(&txn->user) == self); /* poisoned, and a taker has `inside`
                                                                * now */
        lladd_atomic_add32(&txn->takers, UINT32_MAX);
        if (rc)
            return false;
    }
    bool mine = lladd_atomic_load64(&txn->user) == self;
    if (mine)
        lladd_atomic_store64(&txn->user, LL_NO_USER);
    txn->calls = 0;
    leave(txn);
    if (in)
        ll_txn_unref(txn); /* the reference of the call that has not returned */
    return mine;
}

void lladd_txn_drop(struct lladd_txn *txn)
{
    ll_txn_unref(txn);
}
