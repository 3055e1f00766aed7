/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of subjects, and what they share. */
#include "sim/subjects/subjects.h"

#include <lladd/pages.h>
#include <lladd/records.h>

#include <string.h>

#define ROOT "sim.pages"

static const struct lladd_sim_subject *const all[] = {
    &ll_sim_subject_actions,
    &ll_sim_subject_arrays,
    &ll_sim_subject_blobs,
    &ll_sim_subject_bulk,
    &ll_sim_subject_bytes,
    &ll_sim_subject_counters,
    &ll_sim_subject_extents,
    &ll_sim_subject_fixed,
    &ll_sim_subject_formats,
    &ll_sim_subject_groups,
    &ll_sim_subject_heaps,
    &ll_sim_subject_inventory,
    &ll_sim_subject_lists,
    &ll_sim_subject_pages,
    &ll_sim_subject_prepared,
    &ll_sim_subject_promises,
    &ll_sim_subject_records,
    &ll_sim_subject_roots,
    &ll_sim_subject_slots,
    &ll_sim_subject_small,
    &ll_sim_subject_steal,
    NULL,
};

const struct lladd_sim_subject *const *lladd_sim_subjects(void)
{
    return all;
}

const struct lladd_sim_subject *lladd_sim_subject_find(const char *name)
{
    for (const struct lladd_sim_subject *const *s = all; *s; s++)
        if (strcmp((*s)->name, name) == 0)
            return *s;
    return NULL;
}

int ll_sim_pages_make(struct lladd_db *db, uint64_t n, lladd_pageno *first, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = lladd_extent_alloc(txn, n, LLADD_EXTENT_PAGED, first);
    for (uint64_t i = 0; !rc && i < n; i++)
        rc = lladd_bytes_format(txn, lladd_page_of(first->v + i));
    if (!rc)
        rc = lladd_root_set(txn, ROOT, (struct lladd_root_value){first->v, n});
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

int ll_sim_pages_count(struct lladd_db *db, lladd_pageno *first, uint64_t *n,
                       struct lladd_error *err)
{
    struct lladd_root_value v;
    int rc = lladd_root_get(db, ROOT, &v, err);
    *first = lladd_page_of(rc ? 0 : v.a);
    *n = rc ? 0 : v.b;
    return rc;
}

int ll_sim_pages_find(struct lladd_db *db, lladd_pageno *first, struct lladd_error *err)
{
    uint64_t n;
    return ll_sim_pages_count(db, first, &n, err);
}

int ll_sim_give_up(struct lladd_sim *sim, struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    /* A commit that has failed like that has used it up; what is left is rolled back by close, or
     * by recovery. */
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        return lladd_error_set(err, rc, "%s", lladd_code_text(rc));
    *err = *lladd_txn_error(txn);
    int aborted = sim ? lladd_sim_abort(sim, txn) : lladd_abort(txn);
    return aborted ? aborted : rc;
}
