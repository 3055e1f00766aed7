/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SNAPSHOT_H
#define LLADD_SNAPSHOT_H
/**
 * @file
 * @brief Snapshots: LSNs up to which all commits are visible, for multi-version structures.
 *
 * The library keeps the list of snapshots that are held. A data structure with row versions keeps
 * the versions that the oldest snapshot needs. Any thread may make these calls.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/** Takes a snapshot at the LSN of the newest commit; this commit and all earlier commits are
 *  visible. After an open the LSN may be slightly above the last commit, but it is below any new
 *  commit. The snapshot is held until lladd_snapshot_release; if two calls return the same LSN,
 *  release this LSN twice. LLADD_NO_MEMORY. */
LLADD_API int lladd_snapshot_acquire(struct lladd_db *, lladd_lsn *out, struct lladd_error *);
/** Releases a snapshot. LLADD_BAD_ARGUMENT: no snapshot is held at this LSN. */
LLADD_API int lladd_snapshot_release(struct lladd_db *, lladd_lsn);
/** Returns the LSN of the oldest snapshot that is held or, if no snapshot is held, the LSN of the
 *  newest commit. */
LLADD_API lladd_lsn lladd_snapshot_oldest(struct lladd_db *);

#ifdef __cplusplus
}
#endif
#endif
