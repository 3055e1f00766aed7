/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fix: what a page of the cache costs. One JSON line per case, medians of five runs.
 *
 *     bench-fix [quick]
 *
 * hit: fix, look at the page LSN, unfix; pages in random order, all cached. With two threads each
 * has half of the pages. miss: the file is four times the cache and in memory, so that what is
 * measured is the buffer manager and one copy. open: open and close, with nothing in between.
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

static lladd_lsn gate_durable(void *ctx)
{
    (void)ctx;
    return lladd_lsn_of(UINT64_MAX);
}

static int gate_force(void *ctx, lladd_lsn lsn, struct lladd_error *err)
{
    (void)ctx, (void)lsn, (void)err;
    return 0;
}

static struct ll_buffer_config config(struct lladd_device *dev, enum ll_frames frames,
                                      uint64_t budget, bool create)
{
    struct ll_buffer_config c;
    memset(&c, 0, sizeof c);
    c.env = &env;
    c.dev = dev;
    c.name = "pages";
    c.page_size = PAGE;
    c.budget = budget;
    c.salt = 1;
    c.frames = frames;
    c.gate.durable_lsn = gate_durable;
    c.gate.force = gate_force;
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

struct visitor {
    struct ll_buffer *b;
    uint64_t first, pages, rounds, sum;
    unsigned how;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;
    uint64_t x = 88172645463325252u + v->first;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < v->rounds; i++) {
        struct ll_frame *f;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t n = v->first + ((x >> 32) * v->pages >> 32);
        bench_must(ll_buffer_fix(v->b, lladd_page_of(n), v->how, &f, NULL), "fix");
        sum += lladd_get64(f->page.bytes + 8);
        ll_buffer_unfix(v->b, f, v->how);
    }
    v->sum = sum;
    return NULL;
}

/* Nanoseconds for one fix and unfix, per thread. */
static double time_hits(struct ll_buffer *b, uint64_t pages, unsigned how, unsigned threads)
{
    struct visitor v[THREADS];
    struct lladd_thread t[THREADS];
    memset(t, 0, sizeof t);
    for (unsigned i = 0; i < threads; i++) {
        v[i] = (struct visitor){b, i * (pages / threads), pages / threads, hit_rounds, 0, how};
    }
    uint64_t start = ll_now_ns(&env);
    for (unsigned i = 1; i < threads; i++)
        bench_must(lladd_thread_start(&t[i], visit, &v[i]), "thread");
    (void)visit(&v[0]);
    for (unsigned i = 1; i < threads; i++)
        lladd_thread_join(&t[i]);
    return (double)(ll_now_ns(&env) - start) / (double)hit_rounds;
}

static void bench_hits(enum ll_frames frames, uint64_t pages)
{
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct ll_buffer *b = open_buffer(dev, frames, (pages + 2000) * (PAGE + 200), true);
    for (uint64_t n = 0; n < pages; n++) {
        struct ll_frame *f;
        unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_FRESH;
        bench_must(ll_buffer_fix(b, lladd_page_of(n), how, &f, NULL), "fix");
        lladd_put64(f->page.bytes + 8, 1);
        ll_buffer_unfix(b, f, LL_FIX_EXCLUSIVE);
    }
    for (unsigned how = LL_FIX_SHARED; how <= LL_FIX_EXCLUSIVE; how++) {
        struct bench_figure one = {.n = 0}, scaling = {.n = 0};
        char what[96];
        const char *kind = how ? "exclusive" : "shared";
        (void)time_hits(b, pages, how, 1);
        for (int r = 0; r < BENCH_RUNS; r++) { /* alternating: both see the same machine */
            double alone = time_hits(b, pages, how, 1);
            bench_add(&one, alone);
            bench_add(&scaling, 2 * alone / time_hits(b, pages, how, 2));
        }
        (void)snprintf(what, sizeof what, "fix and unfix %s, %llu cached pages, %s frames", kind,
                       (unsigned long long)pages, name_of(frames));
        bench_print("fix", what, "ns", &one, pages == 1000 ? "<= 15" : "<= 45",
                    pages == 1000 ? "6 to 8" : "27");
        (void)snprintf(what, sizeof what, "%s, %llu pages, %s: two threads, different pages", kind,
                       (unsigned long long)pages, name_of(frames));
        bench_print("fix", what, "scaling", &scaling, ">= 1.8", "1.91");
    }
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
    (void)snprintf(what, sizeof what, "the same with one page read, %s frames", name_of(frames));
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
