/* SPDX-License-Identifier: BSD-2-Clause */
/* Derives the plan of a round from its seed. */
#include "support/fixtures.h"
#include "world.h"

#include <string.h>

const char *const feature_names[] = {"power",   "limit",  "full",  "threads", "instant",
                                     "journal", "managed", "blobs", "doubt",   "pins",
                                     "losers",  "atomic", "switch", "relaxed", "time",  NULL};

uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t state = a;
    state = seeded_next(&state) ^ b;
    state = seeded_next(&state) ^ c;
    state = seeded_next(&state) ^ d;
    return seeded_next(&state);
}

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return seeded_next(rng) % n;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static unsigned draw_features(uint64_t *rng, unsigned allowed)
{
    /* The probability of each feature, in percent. Features that end work early or slow it down are
     * rarer. */
    static const unsigned often[] = {40, 40, 25, 30, 40, 60, 35, 50, 60, 30, 75, 15, 15, 40, 25};
    unsigned f = 0;
    for (unsigned i = 0; i < sizeof often / sizeof *often; i++)
        f |= below(rng, 100) < often[i] ? 1u << i : 0;
    if (f & WITH_SWITCH) /* this feature switches ATOMIC_PAGES, so WITH_ATOMIC must be drawn, too */
        f |= WITH_ATOMIC;
    return f & allowed;
}

static void draw_sizes(struct plan *p, uint64_t *rng)
{
    static const uint32_t pages[] = {4096, 4096, 4096, 4096, 8192, 16384, 65536};
    struct lladd_options *o = &p->o;
    o->page_size = pages[below(rng, sizeof pages / sizeof *pages)];
    o->log_ring_bytes = larger((uint64_t)65536 << below(rng, 5), 16ull * o->page_size);
    o->log_segment_min = (uint64_t)4096 << below(rng, 6);
    o->log_segment_max = o->log_segment_min << below(rng, 5);
    o->cache_bytes = larger((uint64_t)262144 << below(rng, 4), 48ull * o->page_size);
    o->checkpoint_bytes = below(rng, 2) ? 0 : (uint64_t)65536 << below(rng, 5);
    o->log_limit_bytes = below(rng, 2) ? 0 : UINT64_MAX;
    if (p->features & WITH_LIMIT) {
        uint64_t least = larger(16 * o->log_segment_max, 616ull * o->page_size);
        least = larger(larger(least, 4 * o->log_ring_bytes), 1u << 20);
        o->log_limit_bytes = least << below(rng, 2);
        /* When a file grows, the device adds up the sizes of all files, so there must not be too
         * many segments. */
        while (o->log_segment_max < o->log_limit_bytes / 2048)
            o->log_segment_max *= 2;
        o->flags |= LLADD_OPT_LOG_FULL_ERROR;
    }
    o->frames = (enum lladd_frames)below(rng, 3);
    if (sizeof(void *) < 8 && o->frames == LLADD_FRAMES_RESERVED)
        o->frames = LLADD_FRAMES_AUTO; /* the address space is too small */
    o->redo_threads = (uint32_t)below(rng, 4);
}

void plan_draw(struct plan *p, uint64_t seed, unsigned features)
{
    uint64_t rng = seed;
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->features = draw_features(&rng, features);
    p->o = (struct lladd_options)LLADD_OPTIONS_INIT;
    if (!(p->features & WITH_THREADS))
        p->o.flags |= LLADD_OPT_NO_THREADS;
    draw_sizes(p, &rng);
    p->cycles = 2 + (unsigned)below(&rng, 5);
    p->steps = 4u << below(&rng, 6);
    if (p->features & WITH_LIMIT)
        p->steps *= 8;
    p->keep_journal = 4u << below(&rng, 7);
    p->value_max = 16u << below(&rng, 8);
    p->entry_max = 32u << below(&rng, 8);
    p->blob_max = 1024u << below(&rng, 6);
    p->losers = p->features & WITH_LOSERS ? 1 + (unsigned)below(&rng, 4) : 0;
    p->loser_size = 1u << below(&rng, 9);
    /* The memory of instant recovery. It has room for no page, for some pages or, with the default
     * 0, for all pages. */
    static const uint64_t memory[] = {0, 0, 64, 1024, 4096, 16384};
    p->o.recovery_bytes = memory[below(&rng, sizeof memory / sizeof *memory)];
}

void plan_print(const struct plan *p, FILE *out)
{
    (void)fprintf(out,
                  "pages of %u, ring %llu, segments %llu to %llu, limit %lld, cache %llu, "
                  "checkpoint %llu, recovery %llu, flags %u;",
                  p->o.page_size, (unsigned long long)p->o.log_ring_bytes,
                  (unsigned long long)p->o.log_segment_min,
                  (unsigned long long)p->o.log_segment_max, (long long)p->o.log_limit_bytes,
                  (unsigned long long)p->o.cache_bytes, (unsigned long long)p->o.checkpoint_bytes,
                  (unsigned long long)p->o.recovery_bytes, p->o.flags);
    for (unsigned i = 0; feature_names[i]; i++) {
        if (p->features & (1u << i))
            (void)fprintf(out, " %s", feature_names[i]);
    }
    (void)fputc('\n', out);
}
