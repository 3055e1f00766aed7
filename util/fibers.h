/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_FIBERS_H
#define LL_UTIL_FIBERS_H
/* The cooperative scheduler of instrumented builds, as sync.c uses it. In other builds it does not
 * exist, and LL_SCHEDULED is a constant. */
#include "util/held.h"

#include <lladd/dst.h>

#ifdef LLADD_DST
/* Does the calling code run in a fiber? */
#define LL_SCHEDULED (lladd_dst_entered != NULL && lladd_dst_entered->fibers != NULL)
#else
#define LL_SCHEDULED false
#endif

/* Call these functions only if LL_SCHEDULED. */

/* Sleeps until ll_fibers_wake on the same address with a matching bit (true), or until `ns` have
 * passed (false; 0: no limit). `why` and `name` (nullable) are for reports. */
bool ll_fibers_sleep(enum lladd_dst_point why, const void *on, const char *name, uint32_t bits,
                     uint64_t ns);
/* Wakes up to n of the fibers asleep on the address. */
void ll_fibers_wake(const void *on, int n, uint32_t bits);
void ll_fibers_yield(void);
/* 0 or LLADD_NO_THREAD; *number is never 0. */
int ll_fibers_start(void *(*fn)(void *), void *arg, uint64_t *number);
void ll_fibers_join(uint64_t number);
uint64_t ll_fibers_self(void);

/* sync.c: saves what the running thread holds to *from; from now on it holds *to. */
void ll_sync_swap_held(struct ll_held *from, const struct ll_held *to);

#endif
