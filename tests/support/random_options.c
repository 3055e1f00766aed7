/* SPDX-License-Identifier: BSD-2-Clause */
/* See random_options.h. */
#include "support/random_options.h"

#include "support/fixtures.h"

#include <stdio.h>

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return seeded_next(rng) % n;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void random_options(uint64_t seed, uint64_t limit, struct lladd_options *o)
{
    static const uint32_t pages[] = {4096, 4096, 8192, 16384};
    static const uint64_t memory[] = {0, 0, 64, 1024, 4096, 16384};
    uint64_t rng = seed;
    o->page_size = pages[below(&rng, sizeof pages / sizeof *pages)];
    o->log_ring_bytes = larger((uint64_t)131072 << below(&rng, 3), 16ull * o->page_size);
    o->log_segment_min = (uint64_t)4096 << below(&rng, 5);
    o->log_segment_max = o->log_segment_min << below(&rng, 4);
    o->cache_bytes = larger((uint64_t)262144 << below(&rng, 3), 48ull * o->page_size);
    o->checkpoint_bytes = below(&rng, 2) ? 0 : (uint64_t)65536 << below(&rng, 5);
    uint64_t least = larger(16 * o->log_segment_max, 616ull * o->page_size);
    least = larger(larger(least, 4 * o->log_ring_bytes), limit);
    o->log_limit_bytes = below(&rng, 3) ? least << below(&rng, 2) : UINT64_MAX;
    o->frames = (enum lladd_frames)below(&rng, 3);
    if (!LL_TEST_CAN_RESERVE && o->frames == LLADD_FRAMES_RESERVED)
        o->frames = LLADD_FRAMES_AUTO;
    o->redo_threads = (uint32_t)below(&rng, 4);
    o->recovery = below(&rng, 2) ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    o->recovery_bytes = memory[below(&rng, sizeof memory / sizeof *memory)];
}

void random_options_print(uint64_t seed, const struct lladd_options *o)
{
    printf("seed %llu: pages of %u, ring %llu, segments %llu to %llu, limit %lld, cache %llu, "
           "checkpoint %llu, frames %d, recovery %d with %llu, %u threads of redo\n",
           (unsigned long long)seed, o->page_size, (unsigned long long)o->log_ring_bytes,
           (unsigned long long)o->log_segment_min, (unsigned long long)o->log_segment_max,
           (long long)o->log_limit_bytes, (unsigned long long)o->cache_bytes,
           (unsigned long long)o->checkpoint_bytes, (int)o->frames, (int)o->recovery,
           (unsigned long long)o->recovery_bytes, o->redo_threads);
    (void)fflush(stdout); /* a case that fails does not flush its output */
}
