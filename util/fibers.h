/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_FIBERS_H
#define LL_UTIL_FIBERS_H
/* The cooperative scheduler of instrumented builds, for sync.c. Other builds have no scheduler; in
 * them LL_SCHEDULED is false. */
#include "util/held.h"

#include <lladd/dst.h>

#ifdef LLADD_DST
/* Does the calling thread run in a fiber of a run? */
#define LL_SCHEDULED (lladd_dst_entered != NULL && lladd_dst_entered->fibers != NULL)
#else
#define LL_SCHEDULED false
#endif

/* Except for ll_sync_swap_held, call these functions only if LL_SCHEDULED. */

/* Sleeps. Returns true when ll_fibers_wake wakes this address and a bit matches; false after `ns`
 * nanoseconds. ns 0: no limit. `why` and `name` (nullable) are for reports. */
bool ll_fibers_sleep(enum lladd_dst_point why, const void *on, const char *name, uint32_t bits,
                     uint64_t ns);
/* Wakes up to n of the fibers that sleep on the address and share a bit with `bits`. */
void ll_fibers_wake(const void *on, int n, uint32_t bits);
void ll_fibers_yield(void);
/* Returns 0 or LLADD_NO_THREAD. *number is never 0, because the first fiber of the run has the
 * number 0. */
int ll_fibers_start(void *(*fn)(void *), void *arg, uint64_t *number);
void ll_fibers_join(uint64_t number);
uint64_t ll_fibers_self(void);

/* In sync.c. Saves the running thread's `ll_held` in *from, and sets `ll_held` to *to. */
void ll_sync_swap_held(struct ll_held *from, const struct ll_held *to);

#endif
