/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_FIBERS_H
#define LL_UTIL_FIBERS_H
/* The cooperative scheduler of instrumented builds, as sync.c uses it. In lladd nothing of it
 * exists, and LL_SCHEDULED is a constant. */
#include "util/held.h"

#include <lladd/dst.h>

#ifdef LLADD_DST
/* Does the calling code run in a fiber? */
#define LL_SCHEDULED (lladd_dst_entered != NULL && lladd_dst_entered->fibers != NULL)
#else
#define LL_SCHEDULED false
#endif

/* All of them only if LL_SCHEDULED. */

/* Sleeps until ll_fibers_wake on the same address with a matching bit: true; or `ns` (0: for ever)
 * passed: false. `why` and `name` (nullable) are for reports. */
bool ll_fibers_sleep(enum lladd_dst_point why, const void *on, const char *name, uint32_t bits,
                     uint64_t ns);
/* Up to n of those who sleep on it may go on. */
void ll_fibers_wake(const void *on, int n, uint32_t bits);
void ll_fibers_yield(void);
/* 0 or LLADD_NO_THREAD; *number is never 0. */
int ll_fibers_start(void *(*fn)(void *), void *arg, uint64_t *number);
void ll_fibers_join(uint64_t number);
uint64_t ll_fibers_self(void);

/* sync.c: what the running thread holds goes to *from; from now on it holds *to. */
void ll_sync_swap_held(struct ll_held *from, const struct ll_held *to);

#endif
