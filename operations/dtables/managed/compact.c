/* SPDX-License-Identifier: BSD-2-Clause */
/* Compactions, which Anvil calls combines: several sorted runs become one.
 *
 *   DIG-4  The inputs of a compaction are neighbours in age. A compaction drops tombstones and
 *          deleted ranges if its inputs include the oldest run, and keeps them otherwise. A flush
 *          drops them if the table has no run, or only the run that it absorbs; otherwise it keeps
 *          them. */
#include "operations/dtables/managed/change.h"

static int swap_compaction(struct ll_managed_change *c, uint32_t fresh)
{
    struct lladd_managed *t = c->t;
    lladd_mutex_lock(&t->swap);
    int rc = ll_managed__change_prepare(c);
    if (!rc)
        rc = ll_managed__change_replace(c);
    if (!rc) {
        struct ll_manifest *m = &c->next;
        m->fresh -= fresh < m->fresh ? fresh : m->fresh;
        m->combines++;
        rc = ll_managed__change_store(c);
    }
    if (!rc)
        ll_managed__change_install(c);
    lladd_mutex_unlock(&t->swap);
    return rc;
}

/* Chooses the inputs: the newest n runs, or all if there are fewer; 0: the runs that are due.
 * *fresh is the number of inputs that no compaction has made. False if a flush absorbs one of
 * them. */
static bool choose(struct ll_managed_change *c, uint32_t n, uint32_t *fresh)
{
    struct lladd_managed *t = c->t;
    uint32_t first = 0;
    lladd_mutex_lock(&t->mutex);
    c->from = t->view;
    ll_managed__version_retain(c->from);
    if (n == 0)
        n = ll_managed__combine_due(t, &first);
    uint64_t newer = t->manifest.fresh > first ? t->manifest.fresh - first : 0;
    n = n < c->from->n_runs - first ? n : c->from->n_runs - first;
    c->first = first;
    c->inputs = n;
    *fresh = newer < n ? (uint32_t)newer : n;
    bool free = ll_managed__change_claim(c);
    if (n) {
        c->age[0] = c->from->runs[first + n - 1]->age[0];
        c->age[1] = c->from->runs[first]->age[1];
    }
    t->compaction = (struct ll_managed_merge){.rows = 0};
    for (uint32_t i = 0; i < n; i++)
        t->compaction.rows += c->from->runs[first + i]->info.rows;
    for (uint32_t i = 0; i < first; i++)
        t->compaction.newer += c->from->runs[i]->info.bytes;
    lladd_mutex_unlock(&t->mutex);
    return free;
}

int ll_managed__compact_now(struct lladd_managed *t, uint32_t n, struct lladd_error *err)
{
    struct ll_managed_change c = {.t = t, .next.db = t->db};
    uint32_t fresh;
    int rc = choose(&c, n, &fresh)
                 ? 0
                 : lladd_error_set(err, LLADD_BUSY,
                                   "table \"%s\": a digest is merging one of these runs", t->name);
    n = c.inputs;
    if (!rc && n)
        rc = ll_managed__older_begin(&c, err);
    if (!rc && n)
        rc = ll_managed__change_begin(&c, false, err);
    if (rc || !n)
        return ll_managed__change_end(&c, rc, err);
    struct lladd_dtable **tables = lladd_mem_alloc(t->db, n * sizeof *tables);
    if (!tables)
        rc = ll_managed__no_memory(lladd_txn_error_out(c.txn));
    for (uint32_t i = 0; !rc && i < n; i++)
        tables[i] = c.from->runs[c.first + i]->table;
    if (!rc)
        rc = ll_managed__build(&c, tables, n, ll_managed__config(t, false),
                               c.first + n == c.from->n_runs, &c.made);
    lladd_mem_free(t->db, tables);
    if (!rc)
        rc = ll_managed__older_build(&c);
    if (!rc)
        rc = swap_compaction(&c, fresh);
    return ll_managed__change_end(&c, rc, err);
}
