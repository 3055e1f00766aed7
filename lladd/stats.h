/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_STATS_H
#define LLADD_STATS_H
/**
 * @file
 * @brief Statistics of a database handle, as a struct and by name.
 * @ingroup lladd
 */
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/** Counters since the handle was opened, and present sizes. `log_tail`, `log_durable`, `log_oldest`
 *  and `checkpoint_lsn` are LSNs. `log_waits` counts waits for log space. `log_disk_bytes` is the
 *  size of the segment files, with those kept for reuse. `undo_reserved` is reserved log space, in
 *  bytes. */
struct lladd_stats {
    size_t struct_size; /**< set by the caller: sizeof(struct lladd_stats) */
    uint64_t begun, committed, aborted, prepared, active, in_doubt;
    uint64_t log_tail, log_durable, log_oldest, log_bytes, log_records, log_groups, log_syncs,
        log_segments, log_disk_bytes, log_waits, undo_reserved;
    uint64_t checkpoints, checkpoint_lsn,
        redo_bytes; /**< log since the last checkpoint's redo start */
    uint64_t pages, cache_hits, cache_misses, pages_read, pages_written, page_syncs, evictions,
        repairs, dirty_pages, cache_bytes, page_images;
    uint64_t recovered_records, recovered_redone, recovered_undone_txns, recovery_ns,
        recovery_analysis_ns, recovery_redo_ns; /**< `recovery_ns` includes the other two.
                                                     `recovery_redo_ns` is the time for the redo of
                                                     pages, without that of objects */
    uint64_t lost_writes;     /**< reads that returned an older version of a page than this handle
                                   had last written. The library rebuilt the page, or the call that
                                   needed the page returned an error */
    uint64_t pages_pending;    /**< pages that instant recovery has still to redo */
    uint64_t log_limit_bytes; /**< lladd_options.log_limit_bytes; UINT64_MAX: no limit */
    uint64_t losers_left;     /**< lladd_losers_left */
    uint64_t recovery_memory; /**< bytes that instant recovery uses besides the cache now */
    uint64_t recovery_memory_most; /**< the largest `recovery_memory` so far;
                                        lladd_options.recovery_bytes limits it */
    uint64_t recovered_early; /**< records that instant recovery redid in a pass over the log before
                                   lladd_open returned, because their pages did not fit into the
                                   redo index, or because undo needed the pages; part of
                                   `recovered_redone` */
    uint64_t checkpoint_written, checkpoint_pages; /**< of the running checkpoint or, if none runs,
                                                        of the last one: dirty pages that it has
                                                        written so far, and dirty pages that it has
                                                        to write in all */
    uint64_t pages_given; /**< pages that were rebuilt from the copy of an extension, such as an
                               archive (lladd_extension.base_of) */
};
/** Fills as much as out->struct_size says. Also possible on a poisoned handle. Any thread. The
 *  counters are read one after the other, so two counters may have their values from different
 *  moments. */
LLADD_API int lladd_stats_get(struct lladd_db *, struct lladd_stats *);
/** Receives a statistic with its name ("log.syncs", "op.counter.add.count"), which is valid during
 *  the call. */
typedef int lladd_stat_fn(void *ctx, const char *name, uint64_t value);
/** Calls `fn` for every statistic, including those of operations. If `fn` does not return 0, stops
 *  and returns that value. Any thread. */
LLADD_API int lladd_stat_each(struct lladd_db *, lladd_stat_fn *, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
