/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of snapshots that are held, for multi-version structures. */
#include "db/db_private.h"

#include <lladd/snapshot.h>

int lladd_snapshot_acquire(struct lladd_db *db, lladd_lsn *out, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->misc);
    /* `visible` is the LSN of the newest commit. After an open it is the LSN of the last
     * checkpoint, if that LSN is higher. `visible` advances under the commit mutex, after the
     * participants' `logged` callbacks. So all commits up to the value read here are visible.
     * `visible` never decreases, so the list stays sorted. */
    uint64_t lsn = lladd_atomic_load64(&core->txns.visible);
    size_t n = core->snapshots.len;
    struct ll_snapshot *newest = n ? ll_vec_at(&core->snapshots, n - 1) : NULL;
    if (!newest || newest->lsn != lsn)
        newest = ll_vec_push(&core->snapshots);
    if (newest) {
        newest->lsn = lsn;
        newest->count++;
        *out = lladd_lsn_of(lsn);
    }
    lladd_mutex_unlock(&core->misc);
    return newest ? 0 : ll_fail(err, LLADD_NO_MEMORY, "out of memory for a snapshot");
}

int lladd_snapshot_release(struct lladd_db *db, lladd_lsn lsn)
{
    struct ll_core *core = &db->core;
    int rc = LLADD_BAD_ARGUMENT;
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; rc && i < core->snapshots.len; i++) {
        struct ll_snapshot *s = ll_vec_at(&core->snapshots, i);
        if (s->lsn != lsn.v)
            continue;
        rc = 0;
        if (--s->count == 0)
            ll_vec_remove(&core->snapshots, i);
    }
    lladd_mutex_unlock(&core->misc);
    return rc;
}

lladd_lsn lladd_snapshot_oldest(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    lladd_mutex_lock(&core->misc);
    uint64_t lsn = core->snapshots.len ? ((struct ll_snapshot *)ll_vec_at(&core->snapshots, 0))->lsn
                                       : lladd_atomic_load64(&core->txns.visible);
    lladd_mutex_unlock(&core->misc);
    return lladd_lsn_of(lsn);
}
