/* SPDX-License-Identifier: BSD-2-Clause */
/* Figure 13 of the Anvil paper: the benefit of a filter. Looks up present keys, absent keys and a
 * mix, in a linear_dtable with and without a bloom_dtable over it, in memory and from the device.
 * Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-bloom [ROWS]   default: four million
 *
 * The paper's keys are 2i. A linear_dtable stores only the distance of such keys; it calculates
 * from the distance whether a key is absent. So irregular keys are measured too: 4i, plus 2 for
 * half of the keys. The value of row i is i. "Cold": the first lookups after opening, with nothing
 * in any cache. */
#include "common_dtable.h"

#include <stdio.h>
#include <stdlib.h>

#define BENCH "bloom"
enum { LOOKUPS = 1000000, COLD = 500, KINDS = 3 };

static uint32_t rows = 4000000;

struct load {
    const char *keys;
    bool irregular;
};
static const char *const kinds[KINDS] = {"of existing keys", "of absent keys", "of either"};

/* The key of row i; no row has this key plus 1. */
static uint32_t key_of(const struct load *l, uint32_t i)
{
    return l->irregular ? 4 * i + 2 * (i * UINT32_C(2654435761) >> 31) : 2 * i;
}

struct fixture {
    char dir[256];
    struct lladd_db *db;
    struct lladd_dtable *table;
    lladd_pageno root;
};

static void open_it(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    bench_must(lladd_open(b->dir, &o, &b->db, NULL), "open");
    lladd_dtable_cache_limit(b->db, UINT64_C(1) << 30);
    if (b->root.v)
        bench_must(lladd_dtable_run_open(b->db, b->root, &b->table, NULL), "open a run");
}

static void close_it(struct fixture *b)
{
    lladd_dtable_close(b->table);
    bench_must(lladd_close(b->db), "close");
}

static void build(struct fixture *b, const struct load *l, const char *config)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn;
    *b = (struct fixture){.table = NULL};
    bench_make_dir(b->dir);
    open_it(b);
    o.type = LLADD_DTABLE_U32;
    o.text = config;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_dtable_run_begin(txn, &o, &run), "begin a run");
    for (uint32_t i = 0; i < rows; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(key_of(l, i));
        struct lladd_dtable_value value = lladd_dtable_value_of(&i, sizeof i);
        bench_must(lladd_dtable_run_add(run, &key, &value), "add");
    }
    bench_must(lladd_dtable_run_finish(run, &b->root), "finish");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_dtable_run_open(b->db, b->root, &b->table, NULL), "open a run");
}

/* Nanoseconds per lookup. */
static double look_up(struct fixture *b, const struct load *l, int kind, uint32_t n, uint64_t *seed)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    uint64_t wrong = 0, t0 = bench_now_ns();
    for (uint32_t k = 0; k < n; k++) {
        uint64_t chance = bench_random(seed);
        uint32_t i = (uint32_t)((chance >> 1) % rows);
        uint32_t absent = kind < 2 ? kind == 1 : (uint32_t)(chance & 1);
        struct lladd_dtable_key key = lladd_dtable_u32(key_of(l, i) + absent);
        bench_must(lladd_dtable_lookup(b->table, &key, &pin, &v, NULL), "lookup");
        wrong += bench_dtable_seen(&v) != !absent;
        wrong += !absent && *(const uint32_t *)v.bytes.data != i;
    }
    double took = (double)(bench_now_ns() - t0) / n;
    lladd_dtable_unpin(&pin);
    bench_must(wrong ? -1 : 0, "finding the rows that exist, and no others");
    return took;
}

/* The figures of one table, with a filter or without: f[kind][cold]. */
struct figures {
    struct bench_figure f[KINDS][2];
};

static void measure(const struct load *l, const char *config, struct figures *out)
{
    struct fixture b;
    uint64_t seed = 1;
    build(&b, l, config);
    for (int kind = 0; kind < KINDS; kind++)
        for (int run = -1; run < BENCH_RUNS; run++) {
            double took = look_up(&b, l, kind, LOOKUPS, &seed);
            if (run >= 0) /* the first run fills the cache */
                bench_add(&out->f[kind][0], took);
        }
    for (int kind = 0; kind < KINDS; kind++)
        for (int run = 0; run < BENCH_RUNS; run++) {
            close_it(&b);
            bench_drop_cached(b.dir);
            open_it(&b);
            bench_add(&out->f[kind][1], look_up(&b, l, kind, COLD, &seed));
        }
    close_it(&b);
    bench_remove_dir(b.dir);
}

static void print(const struct load *l, const struct figures *without, const struct figures *with)
{
    static const char *const targets[KINDS][2] = {{">= 0.95", ">= 0.95"}, {">= 3", ">= 10"}, {0}};
    for (int kind = 0; kind < KINDS; kind++)
        for (int cold = 0; cold < 2; cold++) {
            struct bench_figure times = {.n = 0};
            const struct bench_figure *w = &with->f[kind][cold], *o = &without->f[kind][cold];
            const char *how = cold ? "cold" : "warm";
            char name[120];
            (void)snprintf(name, sizeof name, "%s keys, lookup %s, %s: linear", l->keys,
                           kinds[kind], how);
            bench_print(BENCH, name, "ns", o, NULL, NULL);
            (void)snprintf(name, sizeof name, "%s keys, lookup %s, %s: bloom over linear", l->keys,
                           kinds[kind], how);
            bench_print(BENCH, name, "ns", w, NULL, NULL);
            (void)snprintf(name, sizeof name, "%s keys, lookup %s, %s: times faster", l->keys,
                           kinds[kind], how);
            bench_add(&times, bench_median(o) / bench_median(w));
            bench_print(BENCH, name, "times", &times, targets[kind][cold], NULL);
        }
}

int main(int argc, char **argv)
{
    static const struct load loads[] = {{"regular", false}, {"irregular", true}};
    rows = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rows;
    bench_must(rows > 0 && rows <= UINT32_MAX / 4 ? 0 : -1, "checking the number of rows");
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        struct figures without = {0}, with = {0};
        measure(&loads[i], "class(dt) linear_dtable", &without);
        measure(&loads[i], "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]",
                &with);
        print(&loads[i], &without, &with);
    }
    return 0;
}
