/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SNAPSHOT_H
#define LLADD_SNAPSHOT_H
/**
 * @file
 * @brief Snapshots: LSNs up to which all commits are visible, for multi-version structures.
 *
 * The library keeps the list of snapshots that are held. A structure with row versions keeps what
 * the oldest one still needs. Any thread may make these calls.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/** The LSN of the newest commit; all earlier commits are visible, too. After recovery or an open it
 *  may be slightly above the last commit, but it is below any new one. The snapshot is held until
 *  lladd_snapshot_release; a snapshot taken n times is released n times. LLADD_NO_MEMORY. */
LLADD_API int lladd_snapshot_acquire(struct lladd_db *, lladd_lsn *out, struct lladd_error *);
/** Releases a snapshot. LLADD_BAD_ARGUMENT: none is held at this LSN. */
LLADD_API int lladd_snapshot_release(struct lladd_db *, lladd_lsn);
/** The oldest snapshot held; the newest commit if none is held. */
LLADD_API lladd_lsn lladd_snapshot_oldest(struct lladd_db *);

#ifdef __cplusplus
}
#endif
#endif
