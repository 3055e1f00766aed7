/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_SUBJECTS_H
#define LL_SIM_SUBJECTS_H
/* The subjects for the library's own operations. Of the library they use only public headers, as an
 * application's subjects would. */
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sim.h>

/* One line for each subject. */
#define LL_SIM_SUBJECTS(X) \
    X(actions) \
    X(archive) \
    X(archive_filtered) \
    X(arrays) \
    X(backup) \
    X(backup_outside) \
    X(blobs) \
    X(bulk) \
    X(bulk_scrubbed) \
    X(bwtree) \
    X(bwtree_doubt) \
    X(bwtree_threads) \
    X(bytes) \
    X(columns) \
    X(counters) \
    X(dtable) \
    X(dtable_columns) \
    X(ends) \
    X(expire) \
    X(extents) \
    X(extents_scrubbed) \
    X(fixed) \
    X(formats) \
    X(full) \
    X(groups) \
    X(heaps) \
    X(instant) \
    X(instant_long) \
    X(instant_tight) \
    X(redo_shares) \
    X(restore) \
    X(inventory) \
    X(journal) \
    X(journal_moves) \
    X(limit) \
    X(lists) \
    X(managed) \
    X(managed_levels) \
    X(managed_levels_threads) \
    X(managed_ranges) \
    X(managed_settings) \
    X(managed_snapshots) \
    X(managed_snapshots_threads) \
    X(managed_threads) \
    X(managed_unlogged) \
    X(managed_versions) \
    X(managed_versions_threads) \
    X(locks) \
    X(losers) \
    X(objects) \
    X(pages) \
    X(prepared) \
    X(heuristic) \
    X(promises) \
    X(records) \
    X(regions) \
    X(replica) \
    X(replica_threads) \
    X(roots) \
    X(rounds) \
    X(slots) \
    X(small) \
    X(space) \
    X(stale) \
    X(steal) \
    X(sums) \
    X(tables) \
    X(tables_any) \
    X(tables_large) \
    X(tables_physical) \
    X(threads_abort) \
    X(threads_background) \
    X(threads_bulk) \
    X(threads_bwtree) \
    X(threads_checkpoint) \
    X(threads_commit) \
    X(threads_credit) \
    X(threads_locks) \
    X(threads_merge) \
    X(threads_prepare) \
    X(threads_ring) \
    X(threads_trees) \
    X(threads_values) \
    X(threads_wait) \
    X(threads_writeback) \
    X(trees) \
    X(trees_any) \
    X(trees_loaded) \
    X(trees_merge) \
    X(trees_tall) \
    X(writeback_clean) \
    X(writeback_limit) \
    X(writeback_redo)

#define LL_SIM_SUBJECT(name) extern const struct lladd_sim_subject ll_sim_subject_##name;
LL_SIM_SUBJECTS(LL_SIM_SUBJECT)
#undef LL_SIM_SUBJECT

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* ---- a running workload ------------------------------------------------------------------ */

enum { LL_SIM_CELLS = 40 }; /* see cells.h */

struct ll_sim_work {
    struct lladd_sim *sim; /* NULL in a setup: changes of a setup are not noted */
    struct lladd_db *db;
    struct lladd_error *err;
    const void *ctx;    /* the subject's, if it uses this member */
    lladd_pageno first; /* the first of the subject's pages */
    struct lladd_rid rid[LL_SIM_CELLS];
};

/* Begins a transaction and calls `what`, which ends the transaction or leaves it open. */
int ll_sim_in_txn(struct ll_sim_work *, int (*what)(struct ll_sim_work *, struct lladd_txn *));

/* Called after a call on a transaction has failed: copies the transaction's error to *err and
 * aborts it. Returns rc, or the error of the abort. */
int ll_sim_give_up(struct lladd_sim *, struct lladd_txn *, int rc, struct lladd_error *);

/* ---- where a subject's pages are --------------------------------------------------------- */

/* Allocates `n` consecutive pages, and stores the first page's number and n as a root. */
int ll_sim_pages_make(struct lladd_db *, uint64_t n, lladd_pageno *first, struct lladd_error *);
int ll_sim_pages_count(struct lladd_db *, lladd_pageno *first, uint64_t *n, struct lladd_error *);
int ll_sim_pages_find(struct lladd_db *, lladd_pageno *first, struct lladd_error *);
/* Fills the first 3000 bytes of the pages `from` to `to` - 1 with noise, so that their images are
 * long. */
int ll_sim_pages_noise(struct lladd_db *, uint64_t from, uint64_t to, struct lladd_error *);
/* For the member `pages` of subjects with no pages but those of ll_sim_pages_make: calls fn for
 * each of these pages. */
int ll_sim_pages_each(void *ctx, struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                      struct lladd_error *);

/* For the member `pages` of subjects that use the journal: calls fn for each page of the journal's
 * catalogue. */
int ll_sim_journal_pages(struct lladd_db *, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *);
/* Sets *page to the page number in a root; LLADD_NO_PAGE if the root does not exist. */
int ll_sim_root_page(struct lladd_db *, const char *name, lladd_pageno *, struct lladd_error *);

/* Writes "prefix.i", the name of the i-th of several roots, to `out` and returns it. */
const char *ll_sim_root_name(const char *prefix, unsigned i, char out[LLADD_ROOT_NAME_MAX + 1]);
int ll_sim_ith_page(struct lladd_db *, const char *prefix, unsigned i, lladd_pageno *,
                    struct lladd_error *);
/* Calls fn for the pages in the roots "prefix.0" to "prefix.n-1", as far as these roots exist. */
int ll_sim_ith_each(struct lladd_db *, const char *prefix, unsigned n,
                    int (*fn)(void *arg, lladd_pageno), void *arg, struct lladd_error *);

#endif
