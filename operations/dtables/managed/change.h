/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OPERATIONS_MANAGED_CHANGE_H
#define LLADD_OPERATIONS_MANAGED_CHANGE_H
/* A change of a managed table's manifest: a system transaction that stores a new manifest. If the
 * transaction of a flush (flush.c) or compaction (compact.c) commits, a new version is installed.
 * The freeing of replaced runs (reclaim.c) and alterations (alter.c) change only the manifest.
 *
 * Everything that can fail is done before the commit: when the transaction commits, the new run is
 * open, and memory for the version is allocated. */
#include "operations/dtables/managed/managed.h"

/* The rows of one open snapshot (hold.c). */
struct ll_managed_hold {
    uint64_t snapshot;
    struct ll_managed_run *made; /* what the memtables had for it; NULL: nothing */
    struct ll_version *view;
};

/* An open snapshot that reads the runs which the change replaces (difference.c). */
struct ll_managed_older {
    uint64_t snapshot;
    struct ll_version *was;      /* its held version, with a reference; NULL: it has none */
    uint32_t first, n;           /* runs of `was` that have what it sees of the inputs */
    struct ll_managed_run *made; /* its difference; NULL: it sees what the next newer one sees */
};

/* A held version, with a reference, and the version that takes its place. */
struct ll_managed_heir {
    struct ll_version *was, *view; /* was NULL: it is a new one; view NULL: nothing takes its
                                    * place */
};

struct ll_managed_change {
    struct lladd_managed *t;
    struct lladd_txn *txn;
    struct ll_manifest next;
    struct ll_version *view;
    struct ll_managed_run *made; /* the new run; NULL: there was nothing to store */
    struct ll_version *from;     /* the version that is flushed or compacted, with a reference */
    uint32_t first, inputs;  /* the runs that it replaces: `inputs` runs, beginning with
                              * from->runs[first] */
    bool claimed;            /* these runs are marked as inputs (LEV-1) */
    bool flush;              /* it is a flush */
    struct lladd_managed_position position; /* of a flush of an unlogged table: up to the cutoff */
    struct ll_managed_hold *holds; /* of a flush: for open snapshots, the oldest first */
    uint32_t n_holds;
    struct ll_managed_older *older; /* snapshots that need differences, the oldest first */
    struct ll_managed_heir *heirs;
    uint32_t n_older, n_heirs;
    uint64_t cutoff; /* of a flush */
    uint64_t age[2]; /* of the new run: as in struct ll_managed_run */
    uint64_t keys; /* of a flush: keys in the memtables when it began */
    uint64_t read; /* rows that earlier builds of the change have read */
    bool ended;              /* the transaction has ended */
    lladd_lsn commit;
    struct lladd_error why; /* code not 0: the change failed, and its transaction has ended */
};

/* ---- run_build.c ---- */

/* Builds a run of the rows and ranges of n tables, the newest first, in the transaction of the
 * change, and opens it as *made. Leaves out tombstones and ranges if `drop` is set (DIG-4). If
 * nothing is left, builds no run, and *made does not change. */
int ll_managed__build(struct ll_managed_change *, struct lladd_dtable *const *tables, size_t n,
                      const struct lladd_dtable_config *, bool drop, struct ll_managed_run **made);

/* Does the error mean that the configuration refuses the rows? */
bool ll_managed__is_refusal(int rc);
/* Returns the configuration of new runs; NULL: a linear_dtable. */
const struct lladd_dtable_config *ll_managed__config(const struct lladd_managed *, bool flush);
int ll_managed__run_begin(struct ll_managed_change *, const struct lladd_dtable_config *,
                          struct lladd_dtable_run_builder **out);
/* Finishes a run to which n rows and ranges were added. If n is 0 or rc is an error, discards the
 * run, and *root does not change. Returns rc, or the error of the call. */
int ll_managed__run_end(struct ll_managed_change *, struct lladd_dtable_run_builder *, int rc,
                        uint64_t n, lladd_pageno *root);
/* Opens a run that was built. */
int ll_managed__run_made(struct ll_managed_change *, lladd_pageno root,
                         struct ll_managed_run **made);

/* ---- flush.c ---- */

/* Like ll_managed__build, for what the memtables of c->from have in (after, upto], followed by the
 * first `runs` runs. */
int ll_managed__build_rows(struct ll_managed_change *, uint64_t after, uint64_t upto, uint32_t runs,
                           bool drop, struct ll_managed_run **made);

/* ---- hold.c ---- */

/* Chooses the open snapshots for which a flush with this cutoff has to build runs. Called after the
 * cutoff was read (HLD-3). */
int ll_managed__holds_begin(struct ll_managed_change *, uint64_t cutoff, struct lladd_error *);
/* Builds their runs. Each counts as c->keys rows in the progress of the flush. */
int ll_managed__holds_build(struct ll_managed_change *);
/* Allocates the held versions. Called under `swap`. */
int ll_managed__holds_prepare(struct ll_managed_change *);
/* Lists the runs as obsolete in c->next. */
void ll_managed__holds_store(struct ll_managed_change *);
/* Makes the held versions available to readers. Called under the mutex, before the version
 * changes. */
void ll_managed__holds_install(struct ll_managed_change *);
/* Closes runs that were built by a change that is about to be rolled back. */
void ll_managed__holds_close(struct ll_managed_change *);
/* Drops the change's references to the runs, and frees its memory. */
void ll_managed__holds_end(struct ll_managed_change *);

/* ---- difference.c ---- */

/* Chooses the open snapshots for which a merge has to build differences. They take the place of the
 * runs that ll_managed__holds_begin has chosen. Called when c->age and the inputs are known. */
int ll_managed__older_begin(struct ll_managed_change *, struct lladd_error *);
/* Builds the differences. Called after the new run was built. */
int ll_managed__older_build(struct ll_managed_change *);
/* The functions from here on correspond to those of hold.c. */
int ll_managed__older_prepare(struct ll_managed_change *);
void ll_managed__older_store(struct ll_managed_change *);
void ll_managed__older_install(struct ll_managed_change *);
void ll_managed__older_close(struct ll_managed_change *);
void ll_managed__older_end(struct ll_managed_change *);

/* ---- change.c ---- */

int ll_managed__change_begin(struct ll_managed_change *, bool frees_log, struct lladd_error *);
/* Marks the runs that the change replaces. False, and nothing is marked, if another merge reads one
 * of them. Called under the mutex. */
bool ll_managed__change_claim(struct ll_managed_change *);
/* Takes the marks back. From then on the change replaces no run. */
void ll_managed__change_unclaim(struct ll_managed_change *);
/* Replaces the inputs in c->next by the new run, if there is one. Called after
 * ll_managed__change_prepare. */
int ll_managed__change_replace(struct ll_managed_change *);
/* Allocates the new version, and copies the manifest into c->next, with room for the inputs in the
 * list of obsolete runs. Called under `swap`. */
int ll_managed__change_prepare(struct ll_managed_change *);
/* Stores c->next and commits, or rolls back. Called under `swap`. */
int ll_managed__change_store(struct ll_managed_change *);
/* Makes the new version current. Called after the commit, under `swap`. */
void ll_managed__change_install(struct ll_managed_change *);
/* Rolls back if rc is an error and the change was begun. Then releases everything, and returns
 * rc. */
int ll_managed__change_end(struct ll_managed_change *, int rc, struct lladd_error *);
/* Add a run or a memtable to a version under construction, with a reference. */
void ll_managed__version_add_run(struct ll_version *, struct ll_managed_run *);
void ll_managed__version_add_mem(struct ll_version *, struct ll_memtable *);

#endif
