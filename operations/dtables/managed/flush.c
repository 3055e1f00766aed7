/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushes, which Anvil calls digests: memtables become a sorted run.
 *
 *   DIG-1  The cutoff C is a visible commit. If the flush adds a memtable, C is read before
 *          transactions can write to this memtable. A transaction that writes to it therefore
 *          commits after C. The versions up to C in the older memtables no longer change.
 *          With LLADD_MANAGED_LEVELS a flush may also read the newest run, and replace it.
 *   DIG-2  One transaction builds the run, discards the journal's entries up to C and stores the
 *          manifest. After a crash there is either the run or the entries.
 *
 * The same transaction builds runs for open snapshots that are older than C: see hold.c and
 * difference.c. */
#include "operations/dtables/managed/change.h"

/* If a version has this many memtables, a flush adds none: flushes that keep failing would
 * otherwise add memtables without limit. An unlogged table has one writer, so three memtables are
 * enough: the one that is written to, the one in which the writer's present transaction began, and
 * the one that is flushed. */
enum { MEMTABLES = 8, MEMTABLES_UNLOGGED = 3 };

/* What a flush begins with. */
struct taken {
    uint64_t bytes, rows; /* of the transactions that have ended */
    uint32_t asked;       /* has the journal asked for it? */
};

/* Notes what the flush takes, and whether it absorbs the newest run: it does not if there is no row
 * to store. Called under the mutex. */
static void take(struct ll_managed_change *c, uint64_t cutoff, const struct taken *taken)
{
    struct lladd_managed *t = c->t;
    uint64_t keys = 0;
    c->position = t->manifest.position;
    ll_managed__position_upto(c->from, cutoff, &c->position);
    for (uint32_t i = 0; i < c->from->n_mems; i++)
        keys += c->from->mems[i]->keys;
    c->keys = keys;
    if (keys)
        t->row_memory = (double)taken->bytes / (double)keys;
    t->flush = (struct ll_managed_merge){
        .rows = keys * (1 + c->n_holds), .bytes = taken->bytes, .urgent = taken->asked != 0};
    c->inputs = lladd_atomic_load64(&t->newest) > c->from->cutoff && ll_managed__level_absorbs(t);
    if (!ll_managed__change_claim(c))
        c->inputs = 0;
    if (c->inputs) {
        t->flush.rows += c->from->runs[0]->info.rows;
        t->flush.absorbed = c->from->runs[0]->info.bytes;
    }
    c->age[1] = ++t->flushes;
    c->age[0] = c->inputs ? c->from->runs[0]->age[0] : c->age[1];
}

/* Starts a flush (DIG-1). c->from becomes the version to flush, and *cutoff the cutoff. */
static int freeze(struct ll_managed_change *c, const struct taken *taken, uint64_t *cutoff,
                  struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    struct ll_memtable *m = NULL;
    struct ll_version *v = NULL, *gone = NULL;
    lladd_lsn now;
    TRY(lladd_snapshot_acquire(t->db, &now, err));
    (void)lladd_snapshot_release(t->db, now); /* cannot fail: this thread has just acquired the
                                               * snapshot */
    *cutoff = now.v;
    TRY(ll_managed__holds_begin(c, *cutoff, err));
    lladd_mutex_lock(&t->swap);
    int rc = 0;
    if (t->view->n_mems < (t->unlogged ? MEMTABLES_UNLOGGED : MEMTABLES)) {
        v = ll_managed__version_new(t->db, t->view->n_mems + 1, t->view->n_runs);
        rc = v ? ll_managed__mem_new(t->db, &t->order, &m) : LLADD_NO_MEMORY;
    }
    lladd_mutex_lock(&t->mutex);
    if (m) {
        v->cutoff = t->view->cutoff;
        v->mems[v->n_mems++] = m;
        for (uint32_t i = 0; i < t->view->n_mems; i++)
            ll_managed__version_add_mem(v, t->view->mems[i]);
        for (uint32_t i = 0; i < t->view->n_runs; i++)
            ll_managed__version_add_run(v, t->view->runs[i]);
        ll_managed__version_set(t, v, &gone);
        v = NULL;
    }
    c->from = t->view;
    ll_managed__version_retain(c->from);
    if (!rc)
        take(c, *cutoff, taken);
    lladd_mutex_unlock(&t->mutex);
    lladd_mutex_unlock(&t->swap);
    ll_managed__version_release(t, gone);
    ll_managed__version_release(t, v);
    return rc ? ll_managed__no_memory(err) : 0;
}

/* Discards the journal's entries up to the cutoff. Called before the run is built, because the
 * discard fails at once if another transaction is changing the tag. */
static int discard(struct ll_managed_change *c, uint64_t cutoff)
{
    lladd_lsn newest;
    int rc = lladd_journal_newest(c->t->db, c->t->tag, &newest, lladd_txn_error_out(c->txn));
    if (rc || newest.v == 0)
        return rc;
    return lladd_journal_discard(c->txn, c->t->tag,
                                 lladd_lsn_of(newest.v < cutoff ? newest.v : cutoff));
}

int ll_managed__build_rows(struct ll_managed_change *c, uint64_t after, uint64_t upto,
                           uint32_t runs, bool drop, struct ll_managed_run **made)
{
    struct lladd_managed *t = c->t;
    const struct ll_version *v = c->from;
    uint32_t n = v->n_mems + runs;
    struct ll_snapshot_iter *slices = lladd_mem_alloc(t->db, v->n_mems * sizeof *slices);
    struct lladd_dtable **tables = lladd_mem_alloc(t->db, n * sizeof *tables);
    int rc = slices && tables ? 0 : ll_managed__no_memory(lladd_txn_error_out(c->txn));
    for (uint32_t i = 0; !rc && i < v->n_mems; i++) {
        ll_managed__snapshot_iter(&slices[i], t, v->mems[i], after, upto);
        tables[i] = &slices[i].base;
    }
    for (uint32_t i = 0; !rc && i < runs; i++)
        tables[v->n_mems + i] = v->runs[i]->table;
    if (!rc)
        rc = ll_managed__build(c, tables, n, t->config[0], drop, made);
    lladd_mem_free(t->db, slices);
    lladd_mem_free(t->db, tables);
    return rc;
}

static int build_flush(struct ll_managed_change *c, uint64_t cutoff)
{
    const struct ll_version *v = c->from;
    bool oldest = v->n_runs == c->inputs; /* no run is older than the new one (DIG-4) */
    TRY(ll_managed__holds_build(c));
    TRY(ll_managed__build_rows(c, v->cutoff, cutoff, c->inputs,
                               oldest || (c->inputs && LLADD_PLANTED(LLADD_BUG_DROP_EARLY)),
                               &c->made));
    return ll_managed__older_build(c);
}

static int swap_flush(struct ll_managed_change *c, uint64_t cutoff)
{
    struct lladd_managed *t = c->t;
    if (LLADD_PLANTED(LLADD_BUG_ABSORB_KEEPS))
        ll_managed__change_unclaim(c);
    lladd_mutex_lock(&t->swap);
    int rc = ll_managed__change_prepare(c);
    if (!rc && c->inputs) {
        rc = ll_managed__change_replace(c);
        c->next.fresh -= !c->made && c->next.fresh > 0;
    } else if (!rc && c->made) {
        memmove(c->next.runs + 1, c->next.runs, c->next.n_runs++ * sizeof *c->next.runs);
        c->next.runs[0] = c->made->info;
        c->next.fresh++;
    }
    if (!rc) {
        c->next.position = c->position;
        c->next.cutoff = cutoff;
        c->next.digests++;
        rc = ll_managed__change_store(c);
    }
    if (!rc)
        ll_managed__change_install(c);
    lladd_mutex_unlock(&t->swap);
    return rc;
}

/* Subtracts what was flushed from the memory in use. */
static void give_back(struct lladd_managed *t, const struct taken *taken)
{
    lladd_mutex_lock(&t->mutex);
    lladd_atomic_sub64(&t->pending_bytes, taken->bytes);
    lladd_atomic_sub64(&t->pending_rows, taken->rows);
    t->flush.bytes = 0;
    lladd_mutex_unlock(&t->mutex);
}

int ll_managed__flush_now(struct lladd_managed *t, struct lladd_error *err)
{
    struct ll_managed_change c = {.t = t, .next.db = t->db, .flush = true};
    struct taken taken = {.bytes = lladd_atomic_load64(&t->pending_bytes),
                          .rows = lladd_atomic_load64(&t->pending_rows)};
    uint64_t cutoff = 0;
    lladd_mutex_lock(&t->mutex);
    bool any = lladd_atomic_load64(&t->newest) > t->view->cutoff ||
               taken.bytes >= t->manifest.memory_bytes;
    lladd_mutex_unlock(&t->mutex);
    taken.asked = lladd_atomic_load32(&t->asked);
    lladd_atomic_store32(&t->asked, 0);
    if (!any)
        return 0;
    int rc = freeze(&c, &taken, &cutoff, err);
    c.cutoff = cutoff;
    if (!rc)
        rc = ll_managed__older_begin(&c, err);
    if (!rc)
        rc = ll_managed__change_begin(&c, true, err); /* true is frees_log, because the journal can
                                                       * release log space after the flush */
    if (!rc)
        rc = discard(&c, cutoff);
    if (!rc)
        rc = build_flush(&c, cutoff);
    if (!rc)
        rc = swap_flush(&c, cutoff);
    rc = ll_managed__change_end(&c, rc, err);
    if (rc) { /* the journal does not repeat its request */
        if (taken.asked)
            lladd_atomic_store32(&t->asked, 1);
        return rc;
    }
    give_back(t, &taken);
    ll_managed__retire(t);
    return 0;
}
