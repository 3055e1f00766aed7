/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_INSTANT_H
#define LL_RECOVERY_INSTANT_H
/* Instant recovery: redo of a page when it is first fetched, and of the rest step by step. What is
 * declared in core.h besides is for those who use a handle that is not through with it. */
#include "recovery/analysis.h"

/* Instead of ll_redo, with the log started and nobody else at work: the rest of the index is made,
 * and the buffer manager will ask. *begun false: it has to be the other way (no memory for an
 * index, say), and nothing has changed. */
int ll_instant_begin(struct ll_core *, struct ll_analysis *, bool *begun, struct lladd_error *);

#endif
