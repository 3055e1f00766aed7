/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to locks when a transaction ends, is prepared, or rolls back to a savepoint.
 *
 * A commit releases the locks once the commit record has its LSN, before the record is durable.
 * Still, no acknowledged result depends on a commit that a crash could lose. A transaction that
 * gets one of the locks next commits at a higher LSN, so its commit is durable only if the first
 * commit is durable, too. A transaction that logs nothing waits until what it may have read is
 * durable (TXN-1). */
#include "operations/lock/table.h"

void ll_operations__lock_release(struct ll_locker *l, struct ll_lock_hold *h)
{
    ll_operations__lock_hold_drop(l, h); /* comes first: it uses the lock, which lock_weaken may
                                          * free */
    ll_operations__lock_weaken(h, LLADD_LOCK_NONE);
    ll_operations__lock_hold_spare(l, h);
}

/* Releases the newest hold first, so that names are released before their ancestors (LOCK-3). */
static void release_all(struct ll_locker *l)
{
    for (struct ll_lock_hold *h = l->newest, *older; h; h = older) {
        older = h->older;
        ll_operations__lock_weaken(h, LLADD_LOCK_NONE);
        ll_operations__lock_hold_spare(l, h);
    }
    l->newest = l->oldest = NULL;
    l->near = NULL;
    l->n_holds = 0;
    l->n_replaced = 0;
    memset(l->buckets, 0, l->n_buckets * sizeof(struct ll_lock_hold *));
}

static void committed(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    release_all(state);
    ll_operations__locker_rest(state);
}

static void aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    release_all(state);
    ll_operations__locker_rest(state);
}

/* ---- savepoints ------------------------------------------------------------------------------ */

static void soften(struct ll_lock_hold *h, unsigned mode)
{
    if (mode != h->mode)
        ll_operations__lock_weaken(h, mode);
}

/* Undoes the upgrades since savepoint `to`. A serialisable transaction keeps the part of the
 * stronger mode that protects reads. */
static void take_back_upgrades(struct ll_locker *l, lladd_savepoint_id to)
{
    while (l->n_replaced && l->replaced[l->n_replaced - 1].since > to) {
        const struct ll_lock_replaced *r = &l->replaced[--l->n_replaced];
        struct ll_lock_hold *h = r->hold;
        if (!h)
            continue;
        unsigned kept = l->serialisable ? ll_operations__lock_reading[h->mode] : LLADD_LOCK_NONE;
        h->replaced--;
        h->changed = r->changed;
        soften(h, ll_operations__lock_join[r->mode][kept]);
    }
}

static void rolled_back_to(void *ctx, void *state, struct lladd_txn *txn, lladd_savepoint_id to)
{
    struct ll_locker *l = state;
    (void)ctx;
    (void)txn;
    take_back_upgrades(l, to);
    for (struct ll_lock_hold *h = l->newest, *older; h && h->since > to; h = older) {
        older = h->older;
        if (l->serialisable)
            soften(h, ll_operations__lock_reading[h->mode]);
        else
            ll_operations__lock_release(l, h);
    }
}

/* ---- two-phase commit ------------------------------------------------------------------------ */

static int prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    (void)ctx;
    (void)txn;
    return ll_operations__lock_blob(state, sink);
}

static void prepared(void *ctx, void *state, struct lladd_txn *txn)
{
    struct ll_locker *l = state;
    (void)ctx;
    lladd_atomic_store64(&l->txn, lladd_txn_id(txn).v);
    lladd_atomic_store32(&l->state, LL_LOCKER_PREPARED);
    l->n_replaced = 0; /* a prepared transaction has no savepoints */
    for (struct ll_lock_hold *h = l->newest, *older; h && !l->serialisable; h = older) {
        older = h->older;
        h->replaced = 0;
        unsigned left = ll_operations__lock_writing[h->mode];
        if (left)
            soften(h, left);
        else
            ll_operations__lock_release(l, h);
    }
}

static int in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    (void)ctx;
    return ll_operations__lock_unblob(
        lladd_extension_state(lladd_txn_db(txn), &ll_operations__lock_extension), txn, blob);
}

const struct lladd_participant ll_operations__lock_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lock",
    .version = 1,
    .prepare = prepare,
    .in_doubt = in_doubt,
    .aborted = aborted,
    .rolled_back_to = rolled_back_to,
    .prepared = prepared,
    .committed = committed,
};
