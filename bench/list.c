/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: append, insert, walk, use as a queue. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-list [case]...   cases: append insert walk queue; default: all
 *
 * Everything is cached, and the log is in memory, so no I/O is measured. Items have 100 bytes. */
#include "common.h"

#include <lladd/device.h>
#include <lladd/list.h>
#include <lladd/lladd.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "list"

enum { N = 50000, ITEM = 100 };

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    lladd_pageno root;
    struct lladd_list *list;
    struct lladd_item *item;
    unsigned char bytes[ITEM];
};

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    return txn;
}

static void open_db(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(b, 0, sizeof *b);
    bench_must(lladd_device_memory(&b->dev), "device");
    o.device = b->dev;
    o.log_limit_bytes = UINT64_MAX;
    o.checkpoint_bytes = UINT64_MAX;
    o.cache_bytes = 64u << 20;
    if (lladd_open(NULL, &o, &b->db, &err)) {
        fprintf(stderr, "bench: open: %s\n", err.message);
        exit(1);
    }
    b->item = calloc(N, sizeof *b->item);
    if (!b->item)
        exit(1);
}

static void close_db(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
    free(b->item);
}

static void make(struct fixture *b)
{
    struct lladd_txn *txn = begin(b);
    bench_must(lladd_list_create(txn, &b->root), "create");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_list_open(b->db, b->root, &b->list, NULL), "list_open");
}

/* The checkpoint lets log segments be reused instead of created. */
static void unmake(struct fixture *b)
{
    lladd_list_close(b->list);
    struct lladd_txn *txn = begin(b);
    bench_must(lladd_list_destroy(txn, b->root), "destroy");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_checkpoint(b->db, NULL), "checkpoint");
}

static void fill(struct fixture *b, bool anywhere)
{
    struct lladd_txn *txn = begin(b);
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) {
        struct lladd_item after = i ? b->item[bench_random(&seed) % (uint64_t)i] : LLADD_ITEM_NONE;
        if (anywhere)
            bench_must(lladd_list_insert(txn, b->list, after, b->bytes, ITEM, &b->item[i]),
                       "insert");
        else
            bench_must(lladd_list_append(txn, b->list, b->bytes, ITEM, &b->item[i]), "append");
    }
    bench_must(lladd_commit(txn), "commit");
}

static void bench_fill(bool anywhere, const char *what)
{
    struct bench_figure ns = {.n = 0}, log = {.n = 0};
    struct fixture b;
    char text[100];
    open_db(&b);
    for (int run = -1; run < BENCH_RUNS; run++) { /* the first run warms up */
        struct lladd_stats before = {.struct_size = sizeof before}, after = before;
        make(&b);
        bench_must(lladd_stats_get(b.db, &before), "stats");
        uint64_t t0 = bench_now_ns();
        fill(&b, anywhere);
        uint64_t t1 = bench_now_ns();
        bench_must(lladd_stats_get(b.db, &after), "stats");
        if (run >= 0) {
            bench_add(&ns, (double)(t1 - t0) / N);
            bench_add(&log, (double)(after.log_bytes - before.log_bytes) / N);
        }
        unmake(&b);
    }
    close_db(&b);
    bench_print(BENCH, what, "ns", &ns, NULL, NULL);
    (void)snprintf(text, sizeof text, "%s: log bytes", what);
    bench_print(BENCH, text, "bytes", &log, NULL, NULL);
}

static void bench_append(void)
{
    bench_fill(false, "append 100 bytes, one long transaction");
}

static void bench_insert(void)
{
    bench_fill(true, "insert 100 bytes anywhere, one long transaction");
}

static void bench_walk(void)
{
    struct bench_figure ns = {.n = 0};
    struct fixture b;
    open_db(&b);
    make(&b);
    fill(&b, false);
    for (int run = -1; run < BENCH_RUNS; run++) {
        struct lladd_item at = LLADD_ITEM_NONE;
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < N; i++)
            bench_must(lladd_list_next(b.list, at, &at, b.bytes, ITEM, NULL, NULL), "next");
        if (run >= 0)
            bench_add(&ns, (double)(bench_now_ns() - t0) / N);
    }
    unmake(&b);
    close_db(&b);
    bench_print(BENCH, "the next item of a walk", "ns", &ns, NULL, NULL);
}

/* Each transaction removes the first item and appends one; it does not wait for the device. */
static void bench_queue(void)
{
    struct lladd_txn_options t = {.struct_size = sizeof t, .durability = LLADD_DURABLE_LATER};
    struct bench_figure ns = {.n = 0};
    struct fixture b;
    open_db(&b);
    make(&b);
    fill(&b, false);
    for (int run = -1; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < N; i++) {
            struct lladd_item first, last;
            struct lladd_txn *txn;
            bench_must(lladd_begin(b.db, &t, &txn, NULL), "begin");
            bench_must(lladd_list_next(b.list, LLADD_ITEM_NONE, &first, NULL, 0, NULL, NULL),
                       "next");
            bench_must(lladd_list_delete(txn, b.list, first), "remove");
            bench_must(lladd_list_append(txn, b.list, b.bytes, ITEM, &last), "append");
            bench_must(lladd_commit(txn), "commit");
        }
        if (run >= 0)
            bench_add(&ns, (double)(bench_now_ns() - t0) / N);
        bench_must(lladd_checkpoint(b.db, NULL), "checkpoint");
    }
    unmake(&b);
    close_db(&b);
    bench_print(BENCH, "remove the first item, append one, commit later", "ns", &ns, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"append", bench_append},
                 {"insert", bench_insert},
                 {"walk", bench_walk},
                 {"queue", bench_queue}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        if (wanted)
            cases[c].run();
    }
    return 0;
}
