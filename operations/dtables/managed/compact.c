/* SPDX-License-Identifier: BSD-2-Clause */
/* Compactions, which Anvil calls combines: several sorted runs become one.
 *
 *   DIG-4  The inputs of a compaction are neighbours in age. A compaction drops tombstones and
 *          deleted ranges if its inputs include the oldest run, and keeps them otherwise. A flush
 *          drops them if the table has no run, and keeps them otherwise. */
#include "operations/dtables/managed/change.h"

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

static int swap_compaction(struct ll_managed_change *c, uint32_t fresh)
{
    struct lladd_managed *t = c->t;
    uint32_t i;
    lladd_mutex_lock(&t->swap);
    int rc = ll_managed__change_prepare(c, c->inputs);
    if (!rc)
        rc = place(c, &i);
    if (!rc) {
        struct ll_manifest *m = &c->next;
        uint32_t kept = c->made != NULL;
        for (uint32_t k = 0; k < c->inputs; k++)
            m->obsolete[m->n_obsolete++] = m->runs[i + k].root;
        memmove(m->runs + i + kept, m->runs + i + c->inputs,
                (m->n_runs - i - c->inputs) * sizeof *m->runs);
        m->n_runs -= c->inputs - kept;
        if (c->made)
            m->runs[i] = c->made->info;
        m->fresh -= fresh < m->fresh ? fresh : m->fresh;
        m->combines++;
        rc = ll_managed__change_store(c);
    }
    if (!rc)
        ll_managed__change_install(c, false);
    lladd_mutex_unlock(&t->swap);
    return rc;
}

int ll_managed__compact_now(struct lladd_managed *t, uint32_t first, uint32_t n,
                            struct lladd_error *err)
{
    struct ll_managed_change c = {.t = t, .next.db = t->db, .first = first, .inputs = n};
    uint32_t fresh;
    lladd_mutex_lock(&t->mutex);
    c.from = t->view;
    ll_managed__version_retain(c.from);
    fresh = (uint32_t)t->manifest.fresh;
    lladd_mutex_unlock(&t->mutex);
    if (n == 0 || first >= c.from->n_runs)
        c.inputs = n = 0;
    else if (n > c.from->n_runs - first)
        c.inputs = n = c.from->n_runs - first;
    fresh = fresh > first ? fresh - first : 0; /* how many inputs were not combined before */
    fresh = fresh < n ? fresh : n;
    int rc = n ? ll_managed__change_begin(&c, false, err) : 0;
    if (rc || !n) {
        ll_managed__version_release(t, c.from);
        return rc;
    }
    struct lladd_dtable **tables = lladd_mem_alloc(t->db, n * sizeof *tables);
    if (!tables)
        rc = ll_managed__no_memory(lladd_txn_error_out(c.txn));
    for (uint32_t i = 0; !rc && i < n; i++)
        tables[i] = c.from->runs[first + i]->table;
    if (!rc)
        rc = ll_managed__build(&c, tables, n, t->config[1] ? t->config[1] : t->config[0],
                               first + n == c.from->n_runs);
    lladd_mem_free(t->db, tables);
    if (!rc)
        rc = swap_compaction(&c, fresh);
    return ll_managed__change_end(&c, rc, err);
}
