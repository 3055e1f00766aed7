/* SPDX-License-Identifier: BSD-2-Clause */
/* Managed tables and transactions.
 *
 * A transaction's first call on any table acquires a snapshot: the newest visible commit, which the
 * core keeps for the transaction. For each table that it calls, the transaction has a *use*, with
 * the version that the transaction reads. When the transaction first writes to the table, the use
 * gets a part of the memtable that is current at this moment. When the `logged` callback stores the
 * commit in the part, the part's row versions become visible to snapshots that include this commit.
 *
 *   USE-1  If a transaction in progress has a part in a memtable, the current version has this
 *          memtable.
 *   USE-2  When a part has ended, its memtable may be freed unless a reference keeps it. A use has
 *          a reference to the memtable of its part. */
#include "operations/dtables/managed/managed.h"

/* ---- uses ------------------------------------------------------------------------------------ */

void ll_managed__use_drop(struct ll_use *u)
{
    enum { KEPT = 4096 };
    struct lladd_managed *t = u->t;
    if (lladd_atomic_sub64(&u->refs, 1) != 1)
        return;
    ll_managed__version_release(t, u->view);
    ll_managed__mem_drop(u->target);
    if (u->cap_scratch > KEPT) {
        lladd_mem_free(t->db, u->scratch);
        u->scratch = NULL;
        u->cap_scratch = 0;
    }
    lladd_mutex_lock(&t->mutex);
    u->next = t->free_uses;
    t->free_uses = u;
    t->users--;
    lladd_mutex_unlock(&t->mutex);
}

static int new_use(struct lladd_txn *txn, struct ll_managed_txn *x, struct lladd_managed *t,
                   struct ll_use **out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_version *view = NULL;
    lladd_mutex_lock(&t->mutex);
    struct ll_use *u = t->free_uses;
    bool closing = t->closing;
    if (u)
        t->free_uses = u->next;
    if (!closing) {
        view = ll_managed__version_for(t, x->snapshot);
        t->users += view != NULL;
    }
    lladd_mutex_unlock(&t->mutex);
    if (view && !u) {
        u = lladd_mem_alloc(t->db, sizeof *u);
        if (u)
            memset(u, 0, sizeof *u);
    }
    if (view && u) {
        *u = (struct ll_use){.base = {.kind = &ll_managed__table_class,
                                      .db = t->db,
                                      .order = t->order,
                                      .ranges = 1}, /* not 0, because there may be deleted ranges */
                             .t = t,
                             .next = x->uses,
                             .refs = 1,
                             .snapshot = x->snapshot,
                             .view = view,
                             .scratch = u->scratch,
                             .cap_scratch = u->cap_scratch};
        *out = x->uses = u;
        return 0;
    }
    ll_managed__version_release(t, view);
    lladd_mutex_lock(&t->mutex);
    t->users -= view != NULL;
    if (u) {
        u->next = t->free_uses;
        t->free_uses = u;
    }
    lladd_mutex_unlock(&t->mutex);
    if (view)
        return ll_managed__no_memory(err);
    return closing ? lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", t->name)
                   : lladd_error_set(err, LLADD_CONFLICT,
                                     "table \"%s\" was opened after the transaction's snapshot",
                                     t->name);
}

/* Called before a transaction acquires its snapshot. No retired version is released until
 * end_joining, because it is not known yet which versions the snapshot needs. Returns memory for
 * the transaction's state, if there is some for reuse, or NULL. */
static struct ll_managed_txn *begin_joining(struct ll_managed *all)
{
    lladd_mutex_lock(&all->mutex);
    struct ll_managed_txn *x = all->free_txns;
    if (x)
        all->free_txns = x->next;
    all->joining++;
    lladd_mutex_unlock(&all->mutex);
    return x;
}

static void end_joining(struct ll_managed *all, struct ll_managed_txn *x)
{
    lladd_mutex_lock(&all->mutex);
    all->joining--;
    x->next = all->txns;
    x->at = &all->txns;
    if (x->next)
        x->next->at = &x->next;
    all->txns = x;
    lladd_mutex_unlock(&all->mutex);
}

/* Called if the transaction could not join. Releases the versions that were kept meanwhile. */
static void give_up_joining(struct ll_managed *all)
{
    lladd_mutex_lock(&all->mutex);
    all->joining--;
    lladd_mutex_unlock(&all->mutex);
    ll_managed__retire_all(all);
}

static int new_txn(struct lladd_txn *txn, struct ll_managed *all, struct ll_managed_txn **out)
{
    lladd_lsn snapshot;
    struct ll_managed_txn *x = begin_joining(all);
    int rc = lladd_snapshot_acquire(all->db, &snapshot, lladd_txn_error_out(txn));
    if (rc) {
        give_up_joining(all);
        lladd_mem_free(all->db, x);
        return rc;
    }
    if (!x)
        x = lladd_mem_alloc(all->db, sizeof *x);
    if (x) {
        *x = (struct ll_managed_txn){.all = all, .snapshot = snapshot.v};
        rc = lladd_txn_join(txn, &ll_managed__participant, x);
    } else {
        rc = ll_managed__no_memory(lladd_txn_error_out(txn));
    }
    if (rc) {
        give_up_joining(all);
        (void)lladd_snapshot_release(all->db, snapshot); /* cannot fail: it was acquired above */
        lladd_mem_free(all->db, x);
        return rc;
    }
    end_joining(all, x);
    *out = x;
    return 0;
}

int ll_managed__use(struct lladd_txn *txn, struct lladd_managed *t, struct ll_use **out)
{
    TRY(lladd_check_process(t->db, lladd_txn_error_out(txn)));
    struct ll_managed_txn *x = lladd_txn_joined(txn, &ll_managed__participant);
    if (lladd_txn_db(txn) != t->db)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_OTHER_DATABASE,
                               "the transaction is of another database than table \"%s\"", t->name);
    TRY(x ? 0 : new_txn(txn, t->all, &x));
    for (struct ll_use *u = x->uses; u; u = u->next)
        if (u->t == t) {
            *out = u;
            return 0;
        }
    return new_use(txn, x, t, out);
}

/* ---- end of a transaction -------------------------------------------------------------------- */

void ll_managed__txn_forget(struct ll_managed *all, struct ll_managed_txn *x)
{
    for (struct ll_use *u = x->uses, *next; u; u = next) {
        next = u->next;
        ll_managed__use_drop(u);
    }
    lladd_mutex_lock(&all->mutex);
    *x->at = x->next;
    if (x->next)
        x->next->at = x->at;
    x->next = all->free_txns;
    all->free_txns = x;
    lladd_mutex_unlock(&all->mutex);
    /* The snapshot kept versions of all tables: also of tables that the transaction did not use,
     * and that may never be used again. */
    ll_managed__retire_all(all);
}

static void ends(struct ll_managed_txn *x)
{
    /* Cannot fail: only this code releases the snapshot. */
    (void)lladd_snapshot_release(x->all->db, lladd_lsn_of(x->snapshot));
    ll_managed__txn_forget(x->all, x);
}

/* A part to which the journal has given no commit has nothing in the log. Takes such parts back. */
static void committed(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    struct ll_managed_txn *x = state;
    (void)ctx;
    (void)db;
    (void)commit;
    for (struct ll_use *u = x->uses; u; u = u->next) {
        if (!u->part)
            continue;
        if (lladd_atomic_load64(&u->part->commit) == 0)
            ll_managed__mem_end(u->t, u->part, LL_MANAGED_TAKEN_BACK);
        ll_managed__nudge(u->t);
    }
    ends(x);
}

static void aborted(void *ctx, void *state, struct lladd_db *db)
{
    struct ll_managed_txn *x = state;
    (void)ctx;
    (void)db;
    for (struct ll_use *u = x->uses; u; u = u->next) {
        if (u->part && u->t->unlogged) {
            ll_managed__unlogged_end(u, LL_MANAGED_TAKEN_BACK);
            ll_managed__nudge(u->t);
        } else if (u->part && !u->told) {
            ll_managed__mem_end(u->t, u->part, LL_MANAGED_TAKEN_BACK);
        }
    }
    ends(x);
}

static void undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    struct ll_managed_txn *x = state;
    struct lladd_txn_now now;
    (void)ctx;
    (void)since;
    if (lladd_txn_now_get(txn, &now))
        return; /* poisoned: the transaction does not end */
    for (struct ll_use *u = x->uses; u; u = u->next)
        if (u->part) {
            ll_managed__mem_undo(u->part, now.undone);
            if (u->t->unlogged)
                ll_managed__position_undo(u, now.undone);
            u->puts++;
        }
}

const struct lladd_participant ll_managed__participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.managed",
    .version = 1,
    .aborted = aborted,
    .undone = undone,
    .committed = committed,
};

/* ---- calls from the journal ------------------------------------------------------------------ */

/* Called on open. The entries of one committed transaction become one part. */
static int replay(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct lladd_managed *t = ctx;
    struct ll_memtable *m = t->view->mems[0];
    struct ll_mem_part *p = t->replayed;
    if (e->commit.v <= t->manifest.cutoff)
        return 0;
    if (!p || p->commit != e->commit.v) {
        lladd_mutex_lock(&t->mutex);
        p = ll_managed__mem_part(m);
        lladd_mutex_unlock(&t->mutex);
        if (!p)
            return ll_managed__no_memory(err);
        ll_managed__mem_end(t, p, e->commit.v);
        t->replayed = p;
    }
    uint64_t bytes = p->bytes;
    TRY(ll_managed__restore(t, p, e, err));
    lladd_atomic_count64(&t->pending_bytes, p->bytes - bytes);
    lladd_atomic_count64(&t->pending_rows, 1);
    lladd_atomic_max64(&t->newest, e->commit.v);
    lladd_atomic_max64(&m->newest, e->commit.v);
    return 0;
}

static int pending(void *ctx, void **state, const struct lladd_journal_entry *e,
                   struct lladd_error *err)
{
    struct lladd_managed *t = ctx;
    if (!*state) {
        lladd_mutex_lock(&t->mutex);
        *state = ll_managed__mem_part(t->view->mems[0]);
        lladd_mutex_unlock(&t->mutex);
    }
    return *state ? ll_managed__restore(t, *state, e, err) : ll_managed__no_memory(err);
}

/* Called under the latch of the commit order. Gives all versions of the part their commit
 * (MEM-3). */
static void logged(void *ctx, void *state, uint64_t tag, lladd_lsn commit)
{
    (void)tag;
    if (state)
        ll_managed__mem_end(ctx, state, commit.v);
}

static void owner_aborted(void *ctx, void *state, uint64_t tag)
{
    (void)tag;
    if (!state)
        return;
    ll_managed__mem_end(ctx, state, LL_MANAGED_TAKEN_BACK);
    ll_managed__nudge(ctx);
}

static void digest(void *ctx, uint64_t tag, lladd_lsn upto)
{
    struct lladd_managed *t = ctx;
    (void)tag;
    (void)upto;
    lladd_atomic_store32(&t->asked, 1);
    lladd_mutex_lock(&t->mutex);
    lladd_cond_broadcast(&t->changed); /* a flush in progress waits no longer (level.c) */
    lladd_mutex_unlock(&t->mutex);
    ll_managed__wake(t->all);
}

const struct lladd_journal_owner ll_managed__owner = {
    .struct_size = sizeof(struct lladd_journal_owner),
    .replay = replay,
    .pending = pending,
    .logged = logged,
    .aborted = owner_aborted,
    .digest = digest,
};
