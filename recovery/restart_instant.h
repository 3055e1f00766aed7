/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_RESTART_INSTANT_H
#define LL_RECOVERY_RESTART_INSTANT_H
/* Instant recovery: redoes a page when it is first fetched, and the other pages in steps. These
 * functions are for recovery itself; core.h declares the functions that a handle needs until redo
 * is complete. */
#include "recovery/redo.h"

/* Called instead of ll_redo, when the log is started and no other thread is running. Completes the
 * index that analysis has begun; from then on the buffer manager asks for pending redo. Pages for
 * which the index has no room are redone before this function returns. *begun false: instant
 * recovery is not possible (for example without memory for an index), and no page has changed. */
int ll_instant_begin(struct ll_core *, struct ll_analysis *, struct ll_redo *, bool *begun,
                     struct lladd_error *);
/* Marks (ll_redo_index_mark) the pages with pending redo that the rollback of the transaction will
 * fetch. */
void ll_instant_expect(struct ll_core *, struct ll_log_cursor *, const struct lladd_txn *);
/* Called after the last ll_instant_expect. Redoes the marked pages now, if one pass over the log is
 * faster than redo at each fetch. */
int ll_instant_redo_expected(struct ll_core *, struct ll_redo *, struct lladd_error *);

#endif
