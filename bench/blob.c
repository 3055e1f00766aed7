/* SPDX-License-Identifier: BSD-2-Clause */
/* Blobs: storing, replacing and reading; values are logged or written past the log. Prints JSON
 * lines; see docs/benchmarks.md.
 *
 *   bench-blob [case]...   cases: store replace read; default: all
 *
 * `store` and `replace` work on files, with a commit per value. Logged writes and writes past the
 * log alternate, so that both meet the same load of the device. From the size at which both take
 * equally long, writes should go past the log. `replace` also counts, with a device in memory, the
 * log bytes of a replacement that is written past the log. `read` reads a cached blob, so it
 * measures no I/O. */
#include "common.h"

#include <lladd/blob.h>
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "blob"

enum { LARGEST = 4 << 20, READ = 16 << 20 };

struct fixture {
    char dir[256];
    struct lladd_device *dev;
    struct lladd_db *db;
    unsigned char *bytes;
};

static void open_db(struct fixture *b, bool files)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    char name[300];
    memset(b, 0, sizeof *b);
    b->bytes = malloc(READ);
    if (!b->bytes)
        exit(1);
    for (size_t i = 0; i < READ; i++)
        b->bytes[i] = (unsigned char)(i * 7 + (i >> 8));
    o.log_limit_bytes = UINT64_MAX;
    o.cache_bytes = 64u << 20;
    if (files) {
        bench_make_dir(b->dir);
        (void)snprintf(name, sizeof name, "%s/db", b->dir);
    } else {
        bench_must(lladd_device_memory(&b->dev), "device");
        o.device = b->dev;
    }
    if (lladd_open(files ? name : NULL, &o, &b->db, &err)) {
        fprintf(stderr, "bench: open: %s\n", err.message);
        exit(1);
    }
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    if (b->dev)
        lladd_device_close(b->dev);
    else
        bench_remove_dir(b->dir);
    free(b->bytes);
}

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    return txn;
}

/* Returns microseconds per value. Each value is stored or replaced in a transaction of its own. */
static double one_value(struct fixture *b, size_t len, bool replace, uint64_t bulk_from, int n)
{
    lladd_pageno root = {0};
    struct lladd_txn *txn = begin(b);
    lladd_blob_bulk_from(b->db, bulk_from);
    bench_must(lladd_blob_create(txn, b->bytes, len, &root), "create");
    bench_must(lladd_commit(txn), "commit");
    uint64_t t0 = bench_now_ns();
    for (int i = 0; i < n; i++) {
        txn = begin(b);
        if (replace)
            bench_must(lladd_blob_replace(txn, root, b->bytes + i + 1, len), "replace");
        else
            bench_must(lladd_blob_create(txn, b->bytes + i + 1, len, &root), "create");
        bench_must(lladd_commit(txn), "commit");
    }
    double took = (double)(bench_now_ns() - t0) / n / 1000;
    bench_must(lladd_checkpoint(b->db, NULL), "checkpoint");
    return took;
}

static void both_ways(bool replace)
{
    static const size_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct bench_figure logged = {.n = 0}, past = {.n = 0};
        struct fixture b;
        char text[100];
        int n = sizes[s] > 100000 ? 8 : 20;
        open_db(&b, true);
        for (int run = -1; run < BENCH_RUNS; run++) { /* the first run warms up */
            double l = one_value(&b, sizes[s], replace, UINT64_MAX, n);
            double p = one_value(&b, sizes[s], replace, 1, n);
            if (run >= 0) {
                bench_add(&logged, l);
                bench_add(&past, p);
            }
        }
        close_db(&b);
        (void)snprintf(text, sizeof text, "%s and commit %zu KiB, logged",
                       replace ? "replace" : "store", sizes[s] >> 10);
        bench_print(BENCH, text, "microseconds", &logged, NULL, NULL);
        (void)snprintf(text, sizeof text, "%s and commit %zu KiB, past the log",
                       replace ? "replace" : "store", sizes[s] >> 10);
        bench_print(BENCH, text, "microseconds", &past, NULL, NULL);
    }
}

static void bench_store(void)
{
    both_ways(false);
}

static void bench_replace(void)
{
    struct bench_figure log = {.n = 0};
    struct fixture b;
    both_ways(true);
    open_db(&b, false);
    lladd_pageno root;
    struct lladd_txn *txn = begin(&b);
    bench_must(lladd_blob_create(txn, b.bytes, LARGEST, &root), "create");
    bench_must(lladd_commit(txn), "commit");
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct lladd_stats before = {.struct_size = sizeof before}, after = before;
        bench_must(lladd_stats_get(b.db, &before), "stats");
        txn = begin(&b);
        bench_must(lladd_blob_replace(txn, root, b.bytes + run, LARGEST), "replace");
        bench_must(lladd_commit(txn), "commit");
        bench_must(lladd_stats_get(b.db, &after), "stats");
        bench_add(&log, (double)(after.log_bytes - before.log_bytes));
    }
    close_db(&b);
    bench_print(BENCH, "replace 4 MiB past the log: log bytes", "bytes", &log, NULL, NULL);
}

static void bench_read(void)
{
    enum { N = 200000, PART = 100 };
    struct bench_figure all = {.n = 0}, part = {.n = 0};
    struct fixture b;
    uint64_t seed = 1;
    unsigned char out[PART];
    open_db(&b, false);
    lladd_pageno root;
    struct lladd_txn *txn = begin(&b);
    bench_must(lladd_blob_create(txn, b.bytes, READ, &root), "create");
    bench_must(lladd_commit(txn), "commit");
    for (int run = -1; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        bench_must(lladd_blob_read(b.db, root, 0, b.bytes, READ, NULL, NULL), "read");
        uint64_t t1 = bench_now_ns();
        for (int i = 0; i < N; i++)
            bench_must(lladd_blob_read(b.db, root, bench_random(&seed) % (READ - PART), out, PART,
                                       NULL, NULL),
                       "read");
        uint64_t t2 = bench_now_ns();
        if (run >= 0) {
            bench_add(&all, READ * 1000.0 / (double)(t1 - t0));
            bench_add(&part, (double)(t2 - t1) / N);
        }
    }
    close_db(&b);
    bench_print(BENCH, "read 16 MiB, cached", "MB/s", &all, NULL, NULL);
    bench_print(BENCH, "read 100 bytes at random of 16 MiB, cached", "ns", &part, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"store", bench_store}, {"replace", bench_replace}, {"read", bench_read}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run();
    }
    return 0;
}
