/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OPERATIONS_MANAGED_CHANGE_H
#define LLADD_OPERATIONS_MANAGED_CHANGE_H
/* A change of a managed table's manifest: a system transaction that ends with a new manifest and,
 * if it commits, a new version (change.c). Flushes (flush.c), compactions (compact.c) and the
 * freeing of replaced runs (reclaim.c) are such changes.
 *
 * Everything that can fail is done before the commit: when the transaction commits, the new run is
 * open and the memory for the version is allocated. */
#include "operations/dtables/managed/managed.h"

struct ll_managed_change {
    struct lladd_managed *t;
    struct lladd_txn *txn;
    struct ll_manifest next;
    struct ll_version *view;
    struct ll_managed_run *made; /* the new run; NULL: there was nothing to store */
    struct ll_version *from;     /* the input, with a reference */
    uint32_t first, inputs;  /* of a compaction: from->runs[first...] */
    bool ended;              /* the transaction has ended */
    lladd_lsn commit;
    struct lladd_error why; /* code not 0: it was aborted */
};

/* ---- run_build.c ---- */

/* Builds a run of the rows and ranges of n tables, newest first, in the transaction of the change,
 * and opens it as c->made. With `drop`, leaves out tombstones and ranges (DIG-4). */
int ll_managed__build(struct ll_managed_change *, struct lladd_dtable *const *tables, size_t n,
                      const struct lladd_dtable_config *, bool drop);

/* ---- change.c ---- */

/* Begins the transaction. */
int ll_managed__change_begin(struct ll_managed_change *, bool frees_log, struct lladd_error *);
/* Allocates the version, and copies the manifest to start from. Under `swap`. */
int ll_managed__change_prepare(struct ll_managed_change *, uint32_t obsolete);
/* Stores the next manifest and commits, or rolls back; both under `swap`. */
int ll_managed__change_store(struct ll_managed_change *);
/* Makes the new version current. After the commit, under `swap`. */
void ll_managed__change_install(struct ll_managed_change *, bool flush);
/* Releases everything. If rc is an error, rolls back first. */
int ll_managed__change_end(struct ll_managed_change *, int rc, struct lladd_error *);
/* Add a run or a memtable to a version under construction, with a reference. */
void ll_managed__version_add_run(struct ll_version *, struct ll_managed_run *);
void ll_managed__version_add_mem(struct ll_version *, struct ll_memtable *);

#endif
