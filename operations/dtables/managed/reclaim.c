/* SPDX-License-Identifier: BSD-2-Clause */
/* Frees runs that a compaction has replaced, when no version has them any more.
 *
 *   DIG-5  A replaced run is listed in the manifest as obsolete until its pages are freed. A crash
 *          therefore loses no pages. */
#include "operations/dtables/managed/managed.h"

static int free_run(void *ctx, struct lladd_txn *txn, struct ll_manifest *m)
{
    const struct ll_managed_run *r = ctx;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_obsolete; i++)
        if (m->obsolete[i].v != r->info.root.v)
            m->obsolete[n++] = m->obsolete[i];
    m->n_obsolete = n;
    return lladd_dtable_run_free(txn, r->info.root);
}

/* Frees one run. The run's pages are reused only when the commit of this call is durable. By then
 * the commit that replaced the run is durable too. */
int ll_managed__reclaim_now(struct lladd_managed *t, struct lladd_error *err)
{
    lladd_mutex_lock(&t->mutex);
    struct ll_managed_run *r = t->ready;
    if (r)
        t->ready = r->next;
    lladd_mutex_unlock(&t->mutex);
    if (!r)
        return 0;
    int rc = ll_managed__manifest_edit(t, free_run, r, NULL, err);
    lladd_mutex_lock(&t->mutex);
    t->free_failed = rc != 0;
    if (rc) { /* Moves the run to the end of the list, so that other runs are tried before it. */
        struct ll_managed_run **last = &t->ready;
        while (*last)
            last = &(*last)->next;
        r->next = NULL;
        *last = r;
    }
    lladd_mutex_unlock(&t->mutex);
    if (!rc)
        lladd_mem_free(t->db, r);
    return rc;
}
