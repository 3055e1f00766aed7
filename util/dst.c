/* SPDX-License-Identifier: BSD-2-Clause */
/* The struct lladd_dst that observes the calling thread. Instrumented builds only (lladd/dst.h).
 * Each thread has its own variable, for all handles. */
#include <lladd/dst.h>

#ifdef LLADD_DST

__thread struct lladd_dst *lladd_dst_entered;

struct lladd_dst *lladd_dst_enter(struct lladd_dst *dst)
{
    struct lladd_dst *before = lladd_dst_entered;
    lladd_dst_entered = dst;
    return before;
}

struct lladd_dst *lladd_dst_current(void)
{
    return lladd_dst_entered;
}

#endif
