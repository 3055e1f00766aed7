/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of the schedule of levels beside measurements: how many tuples a second a table takes,
 * for many sizes of C0. docs/levels.md derives the model.
 *
 * The costs of a tuple are measured first, with one thread and large merges: to put it, to merge it
 * from memory into a run, and to merge it from a run into another one. The model has no other
 * figure of this machine. A table is then loaded with n tuples for each R; C0 is as large as this R
 * needs. A copied tuple counts once for each run that it is written to. */
#include "lladd.h"

#include "common.h"

#include <stdio.h>
#include <unistd.h>

enum { CALIBRATE = 1000000, RUNS_MAX = 8, WORKERS = 2 };
#define ALL_MEMORY (UINT64_C(1) << 40)

/* Nanoseconds of processor time for a tuple, and what it takes in a memtable. */
struct costs {
    double put, from_memory, from_run, memory_bytes;
};

struct point {
    double r;        /* of the model */
    double measured; /* R at the end */
    uint64_t memory_bytes;
    double rate, copies, bytes; /* copies: runs that a tuple was written to; bytes: written to runs
                                   for a tuple */
};

/* ---- costs ----------------------------------------------------------------------------------- */

static void put_all(struct weather_table *b, const struct weather_tuple *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i += WEATHER_BATCH)
        weather_table_put(b, t + i, to - i < WEATHER_BATCH ? to - i : WEATHER_BATCH);
}

static double digest(struct weather_table *b)
{
    uint64_t since = bench_cpu_ns();
    bench_must(lladd_managed_digest(b->t, NULL), "digest");
    return (double)(bench_cpu_ns() - since);
}

static struct costs costs_of(const struct weather_tuple *t, size_t n)
{
    struct weather_table_setup s = {.unlogged = true,
                                    .config = weather_pages,
                                    .schedule = LLADD_MANAGED_NEVER,
                                    .memory_bytes = ALL_MEMORY,
                                    .block_bytes = ALL_MEMORY};
    struct lladd_managed_stats stats = {.struct_size = sizeof stats};
    struct costs c = {.put = 0};
    char dir[256];
    n = n < CALIBRATE ? n : CALIBRATE;
    bench_make_dir(dir);
    struct weather_table *b = weather_table_open(dir, &s);
    uint64_t since = bench_cpu_ns();
    put_all(b, t, 0, n / 2);
    c.put = (double)(bench_cpu_ns() - since) / (double)(n / 2);
    bench_must(lladd_managed_stats_get(b->t, &stats, NULL, 0, NULL), "stats");
    c.memory_bytes = (double)stats.pending_bytes / (double)(n / 2);
    c.from_memory = digest(b) / (double)(n / 2);
    put_all(b, t, n / 2, n);
    (void)digest(b);
    since = bench_cpu_ns();
    bench_must(lladd_managed_combine(b->t, 0, NULL), "combine");
    c.from_run = (double)(bench_cpu_ns() - since) / (double)n;
    weather_table_close(b);
    bench_remove_dir(dir);
    return c;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Runs that a tuple is written to while a table grows from nothing until it has R: those that
 * digests make, and those that combines make. R grows as the square root of the size, so its mean
 * is two thirds of the last one. */
static double digested(double r)
{
    return 1 + r / 3;
}

static double combined(double r)
{
    return r * 2 / 3;
}

/* Tuples a second. The writer, the digests and the combines have a thread each, and share the
 * processors. */
static double model(const struct costs *c, double r, double processors)
{
    double digests = c->from_memory + (digested(r) - 1) * c->from_run;
    double combines = combined(r) * c->from_run;
    double slowest = (c->put + digests + combines) / (processors < 3 ? processors : 3);
    slowest = slowest > c->put ? slowest : c->put;
    slowest = slowest > digests ? slowest : digests;
    slowest = slowest > combines ? slowest : combines;
    return 1e9 / slowest;
}

/* ---- measurements ---------------------------------------------------------------------------- */

/* Adds the rows and bytes of runs that are newer than *newest. */
static void look(struct weather_table *b, uint64_t *newest, struct point *p)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_run runs[RUNS_MAX];
    uint64_t before = *newest;
    bench_must(lladd_managed_stats_get(b->t, &s, runs, RUNS_MAX, NULL), "stats");
    for (uint64_t i = 0; i < s.runs && i < RUNS_MAX; i++) {
        if (runs[i].generation <= before)
            continue;
        *newest = runs[i].generation > *newest ? runs[i].generation : *newest;
        p->copies += (double)runs[i].rows;
        p->bytes += (double)runs[i].bytes;
    }
    p->measured = s.level_bytes ? (double)s.run_bytes / (double)s.level_bytes : 0;
}

static void measure(const struct weather_tuple *t, size_t n, uint64_t memory, struct point *p)
{
    struct weather_table_setup s = {.unlogged = true,
                                    .config = weather_pages,
                                    .schedule = LLADD_MANAGED_LEVELS,
                                    .memory_bytes = p->memory_bytes,
                                    .page_bytes = memory / 16,
                                    .block_bytes = memory / 4,
                                    .threads = WORKERS};
    char dir[256];
    uint64_t newest = 0;
    bench_make_dir(dir);
    struct weather_table *b = weather_table_open(dir, &s);
    uint64_t since = bench_now_ns();
    for (size_t i = 0; i < n; i += WEATHER_BATCH) {
        weather_table_put(b, t + i, n - i < WEATHER_BATCH ? n - i : WEATHER_BATCH);
        look(b, &newest, p);
    }
    p->rate = (double)n / ((double)(bench_now_ns() - since) / 1e9);
    p->copies /= (double)n;
    p->bytes /= (double)n;
    weather_table_close(b);
    bench_remove_dir(dir);
}

static void print(const struct point *p, const struct costs *c, double processors)
{
    printf("{\"bench\":\"" BENCH_WEATHER "\",\"levels\":{\"r\":%.2f,\"r_measured\":%.2f,"
           "\"memory_mib\":%.2f,\"rate\":%.0f,\"rate_model\":%.0f,\"copies\":%.2f,"
           "\"copies_model\":%.2f,\"bytes\":%.1f,\"paper_mb\":%.0f}}\n",
           p->r, p->measured, (double)p->memory_bytes / 1048576, p->rate,
           model(c, p->r, processors), p->copies, digested(p->r) + combined(p->r), p->bytes,
           p->rate * WEATHER_TUPLE * (1 + 4 * p->r) / 1e6);
    (void)fflush(stdout);
}

void weather_model(const struct weather_tuple *t, size_t n, uint64_t memory)
{
    static const double rs[] = {2, 3, 4.5, 7, 10, 15, 20, 30};
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double processors = online > 0 ? (double)online : 1;
    struct costs c = costs_of(t, n);
    printf("{\"bench\":\"" BENCH_WEATHER "\",\"costs\":{\"tuples\":%zu,\"processors\":%.0f,"
           "\"put_ns\":%.0f,\"from_memory_ns\":%.0f,\"from_run_ns\":%.0f,\"memory_bytes\":%.1f}}\n",
           n, processors, c.put, c.from_memory, c.from_run, c.memory_bytes);
    for (size_t i = 0; i < sizeof rs / sizeof rs[0]; i++) {
        struct point p = {.r = rs[i]};
        p.memory_bytes = (uint64_t)(c.memory_bytes * (double)n / (rs[i] * rs[i]));
        measure(t, n, memory, &p);
        print(&p, &c, processors);
    }
}
