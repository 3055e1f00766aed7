/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_RESTART_INSTANT_H
#define LL_RECOVERY_RESTART_INSTANT_H
/* Instant recovery: redo of a page when it is first fetched, and of the rest in steps. This is for
 * recovery itself; core.h declares what a handle needs until redo is complete. */
#include "recovery/redo.h"

/* Replaces ll_redo; the log is started, and there is no other thread. Completes the index; from
 * then on the buffer manager asks for pending redo. Pages without room in the index are redone now.
 * *begun false: instant recovery is not possible (for example, no memory for an index), and nothing
 * has changed. */
int ll_instant_begin(struct ll_core *, struct ll_analysis *, struct ll_redo *, bool *begun,
                     struct lladd_error *);
/* Marks the pages with pending redo that the rollback of the transaction will fetch. */
void ll_instant_expect(struct ll_core *, struct ll_log_cursor *, const struct lladd_txn *);
/* After all marks: redoes the marked pages now, if one pass over the log is faster than redo at
 * each fetch. */
int ll_instant_redo_expected(struct ll_core *, struct ll_redo *, struct lladd_error *);

#endif
