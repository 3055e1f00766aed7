/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of a manifest: see change.h.
 *
 *   DIG-3  A flush removes a memtable from the version if three conditions hold (`fill`): the
 *          memtable is not the newest one, no transaction writes to it, and its newest commit is
 *          not after the cutoff.
 *
 * One thread at a time changes a table: it holds `swap` while it stores and commits a manifest and
 * replaces the version. `mutex`, a leaf, protects what readers see. */
#include "operations/dtables/managed/change.h"

int ll_managed__change_begin(struct ll_managed_change *c, bool frees_log, struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.system = true;
    o.frees_log = frees_log;
    o.durability = LLADD_DURABLE_LATER; /* a later commit makes this one durable too */
    return lladd_begin(c->t->db, &o, &c->txn, err);
}

bool ll_managed__change_claim(struct ll_managed_change *c)
{
    for (uint32_t i = 0; i < c->inputs; i++)
        if (c->from->runs[c->first + i]->input)
            return false;
    for (uint32_t i = 0; i < c->inputs; i++)
        c->from->runs[c->first + i]->input = true;
    c->claimed = true;
    return true;
}

void ll_managed__change_unclaim(struct ll_managed_change *c)
{
    lladd_mutex_lock(&c->t->mutex);
    for (uint32_t i = 0; c->claimed && i < c->inputs; i++)
        c->from->runs[c->first + i]->input = false;
    lladd_mutex_unlock(&c->t->mutex);
    c->claimed = false;
    c->inputs = 0;
}

/* Rolls the change back. Closes the new run first, because the rollback frees its pages. */
static int give_up(struct ll_managed_change *c, int rc)
{
    struct lladd_managed *t = c->t;
    ll_managed__holds_close(c);
    ll_managed__older_close(c);
    ll_managed__run_discard(t, c->made);
    c->made = NULL;
    if (c->ended)
        return lladd_db_error(t->db, &c->why); /* poisoned */
    c->why = *lladd_txn_error(c->txn);
    c->ended = true;
    return lladd_abort(c->txn) ? lladd_db_error(t->db, &c->why) : rc;
}

int ll_managed__change_end(struct ll_managed_change *c, int rc, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    if (rc && c->txn && !c->why.code)
        rc = give_up(c, rc);
    if (rc && err && c->why.code)
        *err = c->why;
    ll_managed__change_unclaim(c);
    ll_managed__holds_end(c);
    ll_managed__older_end(c);
    ll_managed__version_release(t, c->from);
    if (rc)
        ll_managed__version_release(t, c->view);
    ll_managed__manifest_free(&c->next);
    return rc;
}

int ll_managed__change_store(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    int rc = ll_managed__row_write(c->txn, t->all, t->name, &c->next);
    if (!rc)
        rc = lladd_commit_async(c->txn, &c->commit);
    c->ended = rc == 0 || lladd_code_root(rc) == LLADD_ROOT_POISONED;
    if (rc)
        return give_up(c, rc);
    struct ll_manifest old = t->manifest;
    lladd_mutex_lock(&t->mutex); /* needed because statistics read the manifest */
    ll_managed__position_stored(t, c->commit);
    t->manifest = c->next;
    lladd_mutex_unlock(&t->mutex);
    lladd_atomic_store64(&t->fresh, c->next.fresh);
    c->next = old;
    return 0;
}

void ll_managed__version_add_run(struct ll_version *v, struct ll_managed_run *r)
{
    lladd_atomic_add64(&r->refs, 1);
    v->runs[v->n_runs++] = r;
}

void ll_managed__version_add_mem(struct ll_version *v, struct ll_memtable *m)
{
    lladd_atomic_add64(&m->refs, 1);
    v->mems[v->n_mems++] = m;
}

/* Fills in the next version, without the flushed memtables and without the inputs. A flush's new
 * run becomes the first one; a compaction's new run replaces the inputs. Called under `swap` and
 * the mutex. */
static void fill(struct ll_managed_change *c)
{
    const struct ll_version *now = c->t->view;
    struct ll_version *v = c->view;
    uint32_t skipped = 0;
    v->cutoff = c->t->manifest.cutoff;
    for (uint32_t i = 0; i < now->n_mems; i++) {
        struct ll_memtable *m = now->mems[i];
        if (i == 0 || !c->flush || lladd_atomic_load64(&m->writers) ||
            lladd_atomic_load64(&m->newest) > v->cutoff)
            ll_managed__version_add_mem(v, m);
    }
    if (c->made && c->flush)
        ll_managed__version_add_run(v, c->made);
    for (uint32_t i = 0; i < now->n_runs; i++) {
        struct ll_managed_run *r = now->runs[i];
        bool input = false;
        for (uint32_t k = 0; k < c->inputs; k++)
            input = input || c->from->runs[c->first + k] == r;
        if (!input) {
            ll_managed__version_add_run(v, r);
            continue;
        }
        r->obsolete = true;
        if (skipped++ == 0 && c->made && !c->flush)
            ll_managed__version_add_run(v, c->made);
    }
}

int ll_managed__change_prepare(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    c->view = ll_managed__version_new(t->db, t->view->n_mems + 1, t->view->n_runs + 1);
    if (!c->view || ll_managed__holds_prepare(c) || ll_managed__older_prepare(c) ||
        ll_managed__manifest_copy(&t->manifest, c->inputs + c->n_holds + c->n_older, &c->next))
        return ll_managed__no_memory(lladd_txn_error_out(c->txn));
    ll_managed__holds_store(c);
    ll_managed__older_store(c);
    c->next.generation += c->made != NULL;
    if (c->made)
        c->made->info.generation = t->manifest.generation;
    return 0;
}

/* Sets *out to the index of the first input in the runs of the new manifest. This may be larger
 * than c->first, because flushes may have added newer runs. */
static int place(const struct ll_managed_change *c, uint32_t *out)
{
    const struct ll_manifest *m = &c->next;
    uint32_t i = 0, k = 0;
    while (i < m->n_runs && m->runs[i].generation != c->from->runs[c->first]->info.generation)
        i++;
    *out = i;
    while (k < c->inputs && i + k < m->n_runs &&
           m->runs[i + k].generation == c->from->runs[c->first + k]->info.generation)
        k++;
    return k == c->inputs
               ? 0
               : lladd_error_set(lladd_txn_error_out(c->txn), LLADD_BAD_RECORD,
                                 "table \"%s\": its description lacks a run that was combined",
                                 c->t->name);
}

int ll_managed__change_replace(struct ll_managed_change *c)
{
    struct ll_manifest *m = &c->next;
    uint32_t i, kept = c->made != NULL;
    TRY(place(c, &i));
    for (uint32_t k = 0; k < c->inputs; k++)
        m->obsolete[m->n_obsolete++] = m->runs[i + k].root;
    memmove(m->runs + i + kept, m->runs + i + c->inputs,
            (m->n_runs - i - c->inputs) * sizeof *m->runs);
    m->n_runs -= c->inputs - kept;
    if (c->made)
        m->runs[i] = c->made->info;
    return 0;
}

void ll_managed__change_install(struct ll_managed_change *c)
{
    struct lladd_managed *t = c->t;
    struct ll_version *gone;
    lladd_mutex_lock(&t->mutex);
    ll_managed__holds_install(c);
    ll_managed__older_install(c);
    fill(c);
    ll_managed__version_set(t, c->view, &gone);
    lladd_mutex_unlock(&t->mutex);
    ll_managed__version_release(t, gone);
    if (c->made)
        ll_managed__run_drop(c->made); /* the version has its own reference */
}

/* ---- changing only the manifest -------------------------------------------------------------- */

int ll_managed__manifest_edit(struct lladd_managed *t,
                              int (*edit)(void *ctx, struct lladd_txn *, struct ll_manifest *),
                              void *ctx, lladd_lsn *commit, struct lladd_error *err)
{
    struct ll_managed_change c = {.t = t, .next.db = t->db};
    TRY(ll_managed__change_begin(&c, false, err));
    lladd_mutex_lock(&t->swap);
    int rc = 0;
    if (ll_managed__manifest_copy(&t->manifest, 0, &c.next))
        rc = ll_managed__no_memory(lladd_txn_error_out(c.txn));
    if (!rc)
        rc = edit(ctx, c.txn, &c.next);
    if (!rc)
        rc = ll_managed__change_store(&c);
    lladd_mutex_unlock(&t->swap);
    if (commit)
        *commit = c.commit;
    return ll_managed__change_end(&c, rc, err);
}
