/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of snapshots that are held, for multi-version structures. */
#include "db/db_private.h"

#include <lladd/snapshot.h>
#include <string.h>

int lladd_snapshot_acquire(struct lladd_db *db, lladd_lsn *out, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->misc);
    if (core->n_snapshots == core->cap_snapshots) {
        size_t cap = core->cap_snapshots ? core->cap_snapshots * 2 : 8;
        struct ll_snapshot *p = ll_resize(&core->env, core->snapshots, cap * sizeof *p);
        if (!p) {
            lladd_mutex_unlock(&core->misc);
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a snapshot");
        }
        core->snapshots = p;
        core->cap_snapshots = cap;
    }
    /* `visible` advances under the commit mutex, after the participants' `logged` callbacks: all
     * commits up to the value read here are visible. `visible` never decreases, so the list stays
     * sorted. */
    uint64_t lsn = lladd_atomic_load64(&core->txns.visible);
    if (core->n_snapshots && core->snapshots[core->n_snapshots - 1].lsn == lsn) {
        core->snapshots[core->n_snapshots - 1].count++;
    } else {
        core->snapshots[core->n_snapshots].lsn = lsn;
        core->snapshots[core->n_snapshots++].count = 1;
    }
    lladd_mutex_unlock(&core->misc);
    *out = lladd_lsn_of(lsn);
    return 0;
}

int lladd_snapshot_release(struct lladd_db *db, lladd_lsn lsn)
{
    struct ll_core *core = &db->core;
    int rc = LLADD_BAD_ARGUMENT;
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; i < core->n_snapshots; i++) {
        if (core->snapshots[i].lsn != lsn.v)
            continue;
        rc = 0;
        if (--core->snapshots[i].count == 0) {
            core->n_snapshots--;
            memmove(&core->snapshots[i], &core->snapshots[i + 1],
                    (core->n_snapshots - i) * sizeof core->snapshots[0]);
        }
        break;
    }
    lladd_mutex_unlock(&core->misc);
    return rc;
}

lladd_lsn lladd_snapshot_oldest(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    lladd_mutex_lock(&core->misc);
    uint64_t lsn =
        core->n_snapshots ? core->snapshots[0].lsn : lladd_atomic_load64(&core->txns.visible);
    lladd_mutex_unlock(&core->misc);
    return lladd_lsn_of(lsn);
}
