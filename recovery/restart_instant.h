/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_INSTANT_H
#define LL_RECOVERY_INSTANT_H
/* Instant recovery: redo of a page when it is first fetched, and of the rest step by step. What is
 * declared in core.h besides is for those who use a handle that is not through with it. */
#include "recovery/redo.h"

/* Instead of ll_redo, with the log started and nobody else at work: the rest of the index is made,
 * and the buffer manager will ask. Pages that it had no room for are redone now. *begun false: it
 * has to be the other way (no memory for an index, say), and nothing has changed. */
int ll_instant_begin(struct ll_core *, struct ll_analysis *, struct ll_redo *, bool *begun,
                     struct lladd_error *);
/* The transaction is about to be taken back: which pages behind the log that needs. */
void ll_instant_expect(struct ll_core *, struct ll_log_cursor *, const struct lladd_txn *);
/* When all such are known: the pages are redone now, if one pass over the log is faster than to
 * redo each when it is fetched. */
int ll_instant_redo_expected(struct ll_core *, struct ll_redo *, struct lladd_error *);

#endif
