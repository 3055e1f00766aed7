/* SPDX-License-Identifier: BSD-2-Clause */
/* Expandable arrays: single elements and ranges. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-array [case]...   cases: fill overwrite get range; default: all
 *
 * Everything is cached, and the log is in memory, so no I/O is measured. */
#include "common.h"

#include <lladd/array.h>
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "array"

enum { N = 200000, RANGE = 10000 };

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    lladd_pageno root;
    struct lladd_array *array;
    struct lladd_txn *txn;
};

static void begin(struct fixture *b)
{
    bench_must(lladd_begin(b->db, NULL, &b->txn, NULL), "begin");
}

static void commit(struct fixture *b)
{
    bench_must(lladd_commit(b->txn), "commit");
}

static void open_db(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    bench_must(lladd_device_memory(&b->dev), "device");
    o.device = b->dev;
    o.log_limit_bytes = UINT64_MAX;
    o.checkpoint_bytes = UINT64_MAX;
    if (lladd_open(NULL, &o, &b->db, &err)) {
        fprintf(stderr, "bench: open: %s\n", err.message);
        exit(1);
    }
}

static void make(struct fixture *b, uint32_t size)
{
    begin(b);
    bench_must(lladd_array_create(b->txn, size, N, &b->root), "create");
    commit(b);
    bench_must(lladd_array_open(b->db, b->root, &b->array, NULL), "array_open");
}

/* The checkpoint lets log segments be reused instead of created, as in a database that has been in
 * use for a while. */
static void unmake(struct fixture *b)
{
    lladd_array_close(b->array);
    begin(b);
    bench_must(lladd_array_destroy(b->txn, b->root), "destroy");
    commit(b);
    bench_must(lladd_checkpoint(b->db, NULL), "checkpoint");
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

static void fill(struct fixture *b, uint64_t add)
{
    for (uint64_t i = 0; i < N; i++) {
        uint64_t v = i + add;
        bench_must(lladd_array_set(b->txn, b->array, i, &v), "set");
    }
}

static void print(const char *what, uint32_t size, const struct bench_figure *f, const char *target)
{
    char text[100];
    (void)snprintf(text, sizeof text, "%s, elements of %u bytes", what, size);
    bench_print(BENCH, text, "1/s", f, target, NULL);
}

/* Each run fills a new array, so that its time includes formatting the pages. */
static void bench_fill(uint32_t size)
{
    struct bench_figure rate = {.n = 0};
    struct fixture b;
    open_db(&b);
    for (int run = -1; run < BENCH_RUNS; run++) { /* the first run warms up */
        make(&b, size);
        uint64_t t0 = bench_now_ns();
        begin(&b);
        fill(&b, 1);
        if (run >= 0)
            bench_add(&rate, N * 1e9 / (double)(bench_now_ns() - t0));
        commit(&b);
        unmake(&b);
    }
    close_db(&b);
    print("fill from the front, one long transaction", size, &rate, ">= 8000000");
}

static void bench_overwrite(uint32_t size)
{
    struct bench_figure rate = {.n = 0};
    struct fixture b;
    uint64_t seed = 1;
    open_db(&b);
    make(&b, size);
    begin(&b);
    fill(&b, 1);
    commit(&b);
    for (int run = -1; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        begin(&b);
        for (int i = 0; i < N; i++) {
            uint64_t v = bench_random(&seed);
            bench_must(lladd_array_set(b.txn, b.array, v % N, &v), "set");
        }
        if (run >= 0)
            bench_add(&rate, N * 1e9 / (double)(bench_now_ns() - t0));
        commit(&b);
        bench_must(lladd_checkpoint(b.db, NULL), "checkpoint");
    }
    unmake(&b);
    close_db(&b);
    print("overwrite at random, one long transaction", size, &rate, ">= 4000000");
}

static void bench_get(uint32_t size)
{
    struct bench_figure rate = {.n = 0};
    struct fixture b;
    uint64_t seed = 1, sum = 0;
    open_db(&b);
    make(&b, size);
    begin(&b);
    fill(&b, 1);
    commit(&b);
    for (int run = -1; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < N; i++) {
            uint64_t v = 0;
            bench_must(lladd_array_get(b.array, bench_random(&seed) % N, &v, NULL), "get");
            sum += v;
        }
        if (run >= 0)
            bench_add(&rate, N * 1e9 / (double)(bench_now_ns() - t0));
    }
    if (sum == 0)
        bench_must(-1, "reading the values");
    unmake(&b);
    close_db(&b);
    print("get at random", size, &rate, NULL);
}

static void bench_range(uint32_t size)
{
    struct bench_figure set = {.n = 0}, get = {.n = 0};
    unsigned char *bytes = malloc((size_t)RANGE * size);
    if (!bytes)
        exit(1);
    struct fixture b;
    open_db(&b);
    for (int run = -1; run < BENCH_RUNS; run++) { /* the first run warms up */
        make(&b, size);
        for (size_t i = 0; i < (size_t)RANGE * size; i++)
            bytes[i] = (unsigned char)(i * 7 + 1);
        uint64_t t0 = bench_now_ns();
        begin(&b);
        for (uint64_t i = 0; i < N; i += RANGE)
            bench_must(lladd_array_set_range(b.txn, b.array, i, RANGE, bytes), "set_range");
        uint64_t t1 = bench_now_ns();
        commit(&b);
        uint64_t t2 = bench_now_ns();
        for (uint64_t i = 0; i < N; i += RANGE)
            bench_must(lladd_array_get_range(b.array, i, RANGE, bytes, NULL), "get_range");
        uint64_t t3 = bench_now_ns();
        if (run >= 0) {
            bench_add(&set, N * 1e9 / (double)(t1 - t0));
            bench_add(&get, N * 1e9 / (double)(t3 - t2));
        }
        unmake(&b);
    }
    close_db(&b);
    free(bytes);
    print("set_range of 10000, a new array, one long transaction", size, &set, ">= 13000000");
    print("get_range of 10000", size, &get, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint32_t size);
    } cases[] = {{"fill", bench_fill},
                 {"overwrite", bench_overwrite},
                 {"get", bench_get},
                 {"range", bench_range}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        for (uint32_t size = 4; wanted && size <= 8; size += 4)
            cases[c].run(size);
    }
    return 0;
}
