/* SPDX-License-Identifier: BSD-2-Clause */
/* A histogram of latencies. */
#include "driver.h"

#include <math.h>

/* 32 buckets per power of two. */
#define STEPS 32u
#define STEP_BITS 5

static unsigned bucket_of(uint64_t ns)
{
    if (ns < STEPS)
        return (unsigned)ns;
    unsigned top = 63 - (unsigned)__builtin_clzll(ns);
    return (top - STEP_BITS + 1) * STEPS + (unsigned)(ns >> (top - STEP_BITS)) % STEPS;
}

static double middle_of(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket;
    unsigned top = bucket / STEPS + STEP_BITS - 1;
    return ldexp(STEPS + bucket % STEPS + 0.5, (int)top - STEP_BITS);
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count++;
    h->bucket[bucket_of(ns)]++;
}

void hist_merge(struct hist *h, const struct hist *other)
{
    h->count += other->count;
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        h->bucket[i] += other->bucket[i];
}

double hist_us(const struct hist *h, double quantile)
{
    if (h->count == 0)
        return NAN;
    uint64_t wanted = (uint64_t)ceil(quantile * (double)h->count), seen = 0;
    unsigned i = 0;
    for (; i < HIST_BUCKETS - 1 && seen + h->bucket[i] < wanted; i++)
        seen += h->bucket[i];
    return middle_of(i) / 1e3;
}
