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

/** Counters since the handle was opened, and present sizes. A name that begins with "log" counts
 *  bytes of log, unless it names another unit. */
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
        recovery_analysis_ns, recovery_redo_ns; /**< recovery_analysis_ns and recovery_redo_ns are
                                                     parts of recovery_ns; redo means page redo */
    uint64_t lost_writes;     /**< number of reads of a page that was older than this handle's last
                               write of the page; the library repaired the page, or the read
                               returned an error */
    uint64_t pages_pending;    /**< pages that instant recovery has still to redo */
    uint64_t log_limit_bytes; /**< lladd_options.log_limit_bytes; UINT64_MAX: no limit */
    uint64_t losers_left;     /**< lladd_losers_left */
    uint64_t recovery_memory; /**< bytes that instant recovery uses besides the cache now */
    uint64_t recovery_memory_most; /**< the largest recovery_memory so far;
                                        lladd_options.recovery_bytes limits it */
    uint64_t recovered_early; /**< records that instant recovery redid before lladd_open returned,
                                   because their pages did not fit into the redo index; part of
                                   recovered_redone */
};
/** Fills as much as out->struct_size says. Also possible on a poisoned handle. Any thread. The
 *  counters are read one after the other, so they may be as of different moments. */
LLADD_API int lladd_stats_get(struct lladd_db *, struct lladd_stats *);
/** Receives a statistic with its name ("log.syncs", "op.counter.add.count"), which is valid during
 *  the call. */
typedef int lladd_stat_fn(void *ctx, const char *name, uint64_t value);
/** Calls fn for every statistic, including those of operations. If fn does not return 0, stops and
 *  returns that value. Any thread. */
LLADD_API int lladd_stat_each(struct lladd_db *, lladd_stat_fn *, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
