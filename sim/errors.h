/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_ERRORS_H
#define LL_SIM_ERRORS_H
/* What errors.c is made of besides: features of recoveries (features.c). */
#include "sim/sim_private.h"

enum { LL_SIM_FEATURE_WORDS = 4 }; /* 64 features each: 128 of events, then those of calls */

static inline void ll_sim_feature_put(uint64_t *features, unsigned i)
{
    features[i / 64 % LL_SIM_FEATURE_WORDS] |= UINT64_C(1) << i % 64;
}

/* A crash of the workload, and what the recovery from it does. */
struct ll_sim_point {
    uint32_t calls;
    bool kill;
    uint64_t features[LL_SIM_FEATURE_WORDS];
};
/* Takes at most `most` of them, so that together they do as much as they can: each time the one
 * that adds most, the first of these; none that adds nothing. Returns how many. */
uint32_t ll_sim_features_cover(const struct ll_sim_point *, uint32_t n, struct ll_sim_point *out,
                               uint32_t most);

#endif
