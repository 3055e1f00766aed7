/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix: the cost of accessing a cached page. One JSON line per case, medians of five runs.
 *
 *     bench-fix [quick]    quick: fewer rounds
 *
 * hit   fixes a page, reads its page LSN and unfixes it. The order is random, and all pages are in
 *       the cache. With two threads each has half of the pages.
 * bare  does two atomic operations and a read, at frames with known addresses: a lower bound for
 *       any buffer manager on this machine. Runs of hit and bare alternate.
 * miss  fixes and unfixes the pages of a file that is four times as large as the cache. The file is
 *       in memory, so only the buffer manager and the copying of pages are measured.
 * open  opens and closes the buffer manager, without and with the read of one page.
 */
#include "common.h"

#include "buffer/buffer.h"

#include <lladd/sync.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, THREADS = 2 };

static uint64_t hit_rounds = 20000000;
static uint64_t miss_rounds = 400000;
static uint64_t open_rounds = 200000;
static struct ll_env env;
static struct ll_poison poison = {.healthy = 1};

static int may_write(void *ctx, lladd_pageno n, lladd_lsn lsn, lladd_lsn *durable,
                     struct lladd_error *err)
{
    (void)ctx, (void)n, (void)lsn, (void)err;
    durable->v = UINT64_MAX;
    return 0;
}

static struct ll_buffer_config config(struct lladd_device *dev, enum ll_frames frames,
                                      uint64_t budget, bool create)
{
    struct ll_buffer_config c;
    memset(&c, 0, sizeof c);
    c.env = &env;
    c.poison = &poison;
    c.dev = dev;
    c.name = "pages";
    c.page_size = PAGE;
    c.budget = budget;
    c.salt = 1;
    c.frames = frames;
    c.recovery.may_write = may_write;
    c.create = create;
    return c;
}

static struct ll_buffer *open_buffer(struct lladd_device *dev, enum ll_frames frames,
                                     uint64_t budget, bool create)
{
    struct ll_buffer_config c = config(dev, frames, budget, create);
    struct ll_buffer *b;
    bench_must(ll_buffer_open(&c, &b, NULL), "open");
    return b;
}

static const char *name_of(enum ll_frames frames)
{
    return frames == LL_FRAMES_RESERVED ? "reserved" : "heap";
}

/* ---- hits ---- */

enum { ORDER = 1 << 17 };

struct visitor {
    struct ll_buffer *b;
    uint64_t sum;
    unsigned how;
    uint32_t *order;          /* ORDER page numbers */
    struct ll_frame **frames; /* for bare: the frames of all pages */
};

/* Returns random page numbers. Reading the array is sequential and costs little. */
static uint32_t *make_order(uint64_t first, uint64_t pages)
{
    uint32_t *order = malloc(ORDER * sizeof *order);
    uint64_t state = first;
    bench_must(order ? 0 : LLADD_NO_MEMORY, "memory");
    for (uint64_t i = 0; i < ORDER; i++)
        order[i] = (uint32_t)(first + bench_random(&state) % pages);
    return order;
}

static void *visit(void *arg)
{
    struct visitor *v = arg;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < hit_rounds; i++) {
        struct ll_frame *f;
        lladd_pageno n = lladd_page_of(v->order[i % ORDER]);
        int rc = ll_buffer_fix(v->b, n, v->how, &f, NULL);
        if (rc)
            bench_must(rc, "fix");
        sum += lladd_get64(f->page.bytes + 8);
        ll_buffer_unfix(v->b, f, v->how);
    }
    v->sum = sum;
    return NULL;
}

/* The latches of the frames are free, so their words may be counted up and down again. */
static void *visit_bare(void *arg)
{
    struct visitor *v = arg;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < hit_rounds; i++) {
        struct ll_frame *f = v->frames[v->order[i % ORDER]];
        uint64_t word = lladd_atomic_load64(&f->latch);
        if (!lladd_atomic_cas64(&f->latch, &word, word + 1))
            bench_must(LLADD_BUSY, "bare");
        sum += lladd_get64(f->page.bytes + 8);
        (void)lladd_atomic_sub64(&f->latch, 1);
    }
    v->sum = sum;
    return NULL;
}

/* Returns nanoseconds per fix and unfix of one thread; with `frames`, per access of bare. */
static double time_hits(struct ll_buffer *b, uint64_t pages, unsigned how, unsigned threads,
                        struct ll_frame **frames)
{
    struct visitor v[THREADS];
    struct lladd_thread t[THREADS];
    void *(*fn)(void *) = frames ? visit_bare : visit;
    memset(t, 0, sizeof t);
    for (unsigned i = 0; i < threads; i++) {
        uint64_t n = pages / threads;
        v[i] = (struct visitor){b, 0, how, make_order(i * n, n), frames};
    }
    uint64_t start = ll_now_ns(&env);
    for (unsigned i = 1; i < threads; i++)
        bench_must(lladd_thread_start(&t[i], fn, &v[i]), "thread");
    (void)fn(&v[0]);
    for (unsigned i = 1; i < threads; i++)
        lladd_thread_join(&t[i]);
    double ns = (double)(ll_now_ns(&env) - start) / (double)hit_rounds;
    for (unsigned i = 0; i < threads; i++)
        free(v[i].order);
    return ns;
}

static void bench_latch(struct ll_buffer *b, enum ll_frames frames, uint64_t pages, unsigned how,
                        struct ll_frame **all)
{
    struct bench_figure one = {.n = 0}, scaling = {.n = 0}, bare = {.n = 0};
    char what[96];
    const char *kind = how ? "exclusive" : "shared";
    unsigned long long n = pages;
    (void)time_hits(b, pages, how, 1, NULL);
    for (int r = 0; r < BENCH_RUNS; r++) { /* in turns: all meet the same load of the machine */
        double alone = time_hits(b, pages, how, 1, NULL);
        bench_add(&one, alone);
        bench_add(&scaling, 2 * alone / time_hits(b, pages, how, 2, NULL));
        bench_add(&bare, time_hits(b, pages, how, 1, all));
    }
    (void)snprintf(what, sizeof what, "fix and unfix %s, %llu cached pages, %s frames", kind, n,
                   name_of(frames));
    bench_print("fix", what, "ns", &one, pages == 1000 ? "<= 15" : "<= 45",
                pages == 1000 ? "6 to 8" : "27");
    (void)snprintf(what, sizeof what, "%s, %llu pages, %s: two threads, different pages", kind, n,
                   name_of(frames));
    bench_print("fix", what, "scaling", &scaling, ">= 1.8", "1.91");
    if (how == LL_FIX_EXCLUSIVE)
        return;
    (void)snprintf(what, sizeof what, "two atomics and a read of the page, %llu pages, %s frames",
                   n, name_of(frames));
    bench_print("fix", what, "ns", &bare, NULL, NULL);
}

static void bench_hits(enum ll_frames frames, uint64_t pages)
{
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct ll_buffer *b = open_buffer(dev, frames, (pages + 2000) * (PAGE + 200), true);
    struct ll_frame **all = malloc(pages * sizeof *all);
    bench_must(all ? 0 : LLADD_NO_MEMORY, "memory");
    for (uint64_t n = 0; n < pages; n++) {
        unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_FRESH;
        bench_must(ll_buffer_fix(b, lladd_page_of(n), how, &all[n], NULL), "fix");
        lladd_put64(all[n]->page.bytes + 8, 1);
        ll_buffer_unfix(b, all[n], LL_FIX_EXCLUSIVE);
    }
    for (unsigned how = LL_FIX_SHARED; how <= LL_FIX_EXCLUSIVE; how++)
        bench_latch(b, frames, pages, how, all);
    free(all);
    ll_buffer_close(b);
    lladd_device_close(dev);
}

/* ---- misses ---- */

static double time_misses(struct ll_buffer *b, uint64_t pages, bool dirty)
{
    unsigned how = dirty ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED;
    uint64_t start = ll_now_ns(&env);
    for (uint64_t i = 0; i < miss_rounds; i++) {
        struct ll_frame *f;
        bench_must(ll_buffer_fix(b, lladd_page_of(i % pages), how, &f, NULL), "fix");
        if (dirty) {
            ll_buffer_dirty(b, f, lladd_lsn_of(1));
            lladd_put64(f->page.bytes + 64, i);
        }
        ll_buffer_unfix(b, f, how);
    }
    return (double)(ll_now_ns(&env) - start) / (double)miss_rounds;
}

static void bench_misses(enum ll_frames frames)
{
    enum { PAGES = 16384 };
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct ll_buffer *b = open_buffer(dev, frames, PAGES / 4 * (uint64_t)PAGE, true);
    for (uint64_t n = 0; n < PAGES; n++) {
        struct ll_frame *f;
        unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_FRESH;
        bench_must(ll_buffer_fix(b, lladd_page_of(n), how, &f, NULL), "fix");
        ll_buffer_dirty(b, f, lladd_lsn_of(1));
        lladd_put64(f->page.bytes + 8, 1);
        ll_buffer_unfix(b, f, LL_FIX_EXCLUSIVE);
    }
    for (int dirty = 0; dirty <= 1; dirty++) {
        struct bench_figure ns = {.n = 0};
        char what[96];
        for (int r = 0; r < BENCH_RUNS; r++)
            bench_add(&ns, time_misses(b, PAGES, dirty));
        (void)snprintf(what, sizeof what, "miss that evicts a %s page, in memory, %s frames",
                       dirty ? "dirty" : "clean", name_of(frames));
        bench_print("fix", what, "ns", &ns, NULL, NULL);
    }
    ll_buffer_close(b);
    lladd_device_close(dev);
}

/* ---- open ---- */

static void bench_open(enum ll_frames frames, uint64_t rounds)
{
    struct bench_figure ns = {.n = 0}, touched = {.n = 0};
    char what[96];
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct ll_buffer *b = open_buffer(dev, frames, 8 << 20, true);
    bench_must(ll_buffer_extend(b, 8, NULL), "extend");
    ll_buffer_close(b);
    for (int r = 0; r < BENCH_RUNS; r++) {
        uint64_t start = ll_now_ns(&env);
        for (uint64_t i = 0; i < rounds; i++)
            ll_buffer_close(open_buffer(dev, frames, 8 << 20, false));
        uint64_t middle = ll_now_ns(&env);
        for (uint64_t i = 0; i < rounds; i++) {
            struct ll_frame *f;
            b = open_buffer(dev, frames, 8 << 20, false);
            bench_must(ll_buffer_fix(b, lladd_page_of(i % 8), LL_FIX_SHARED, &f, NULL), "fix");
            ll_buffer_unfix(b, f, LL_FIX_SHARED);
            ll_buffer_close(b);
        }
        bench_add(&ns, (double)(middle - start) / (double)rounds);
        bench_add(&touched, (double)(ll_now_ns(&env) - middle) / (double)rounds);
    }
    (void)snprintf(what, sizeof what, "open and close the buffer manager, %s frames",
                   name_of(frames));
    bench_print("fix", what, "ns", &ns, NULL, NULL);
    (void)snprintf(what, sizeof what, "open and close the buffer manager, one page read, %s frames",
                   name_of(frames));
    bench_print("fix", what, "ns", &touched, NULL, NULL);
    lladd_device_close(dev);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "quick") == 0) {
        hit_rounds /= 20;
        miss_rounds /= 10;
        open_rounds /= 20;
    }
    ll_env_init(&env, NULL, NULL, false);
    for (enum ll_frames f = LL_FRAMES_RESERVED; f <= LL_FRAMES_HEAP; f++) {
        bench_hits(f, 1000);
        bench_hits(f, 100000);
        bench_misses(f);
        bench_open(f, f == LL_FRAMES_HEAP ? open_rounds : open_rounds / 20);
    }
    return 0;
}
