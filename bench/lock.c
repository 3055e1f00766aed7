/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks: a pair of lock and unlock, transactions with ten row locks and without locks, two threads
 * that lock different names or the same name. Prints JSON lines; see docs/benchmarks.md.
 *
 *   bench-lock [case]...   cases: pair rows threads contended; default: all */
#include "common.h"

#include <lladd/device.h>
#include <lladd/lock.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <string.h>

#define BENCH "lock"
#define PAIRS 1000000u
#define TXNS 100000u
#define ROWS 10u

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    lladd_pageno page[2];
};

static void open_fixture(struct fixture *b)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    bench_must(lladd_device_memory(&b->dev), "device");
    o.device = b->dev;
    o.durability = LLADD_DURABLE_LATER; /* commits do not wait for a sync of the log */
    bench_must(lladd_lock_register(&o, &err), "register");
    bench_must(lladd_open(NULL, &o, &b->db, &err), "open");
    lladd_options_release(&o);
    bench_must(lladd_begin(b->db, NULL, &txn, &err), "begin");
    for (int i = 0; i < 2; i++) {
        bench_must(lladd_page_alloc(txn, &b->page[i]), "page");
        bench_must(lladd_bytes_format(txn, b->page[i]), "format");
    }
    bench_must(lladd_commit(txn), "commit");
}

static void close_fixture(struct fixture *b)
{
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    return txn;
}

static void lock_row(struct lladd_txn *txn, uint64_t table, uint64_t row, enum lladd_lock_mode mode)
{
    bench_must(lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(table), lladd_lock_id(row)),
                                  mode, LLADD_LOCK_WAIT),
               "lock");
}

/* Locks and unlocks rows of one table, one after the other; the table stays locked with IS. */
static double pairs(struct fixture *b, uint64_t table)
{
    struct lladd_txn *txn = begin(b);
    uint64_t t0 = bench_now_ns();
    for (uint64_t i = 0; i < PAIRS; i++) {
        lock_row(txn, table, i, LLADD_LOCK_S);
        bench_must(lladd_lock_release(txn, LLADD_LOCK_NAME(lladd_lock_id(table), lladd_lock_id(i))),
                   "unlock");
    }
    double took = (double)(bench_now_ns() - t0);
    bench_must(lladd_commit(txn), "commit");
    return took / PAIRS;
}

static double flat_pairs(struct fixture *b)
{
    struct lladd_txn *txn = begin(b);
    uint64_t t0 = bench_now_ns();
    for (uint64_t i = 0; i < PAIRS; i++) {
        struct lladd_lock_part part = lladd_lock_id(i);
        struct lladd_lock_name name = {&part, 1};
        bench_must(lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_WAIT), "lock");
        bench_must(lladd_lock_release(txn, name), "unlock");
    }
    double took = (double)(bench_now_ns() - t0);
    bench_must(lladd_commit(txn), "commit");
    return took / PAIRS;
}

/* Requests a lock that is already held, again and again. */
static double held(struct fixture *b)
{
    struct lladd_txn *txn = begin(b);
    lock_row(txn, 1, 1, LLADD_LOCK_X);
    uint64_t t0 = bench_now_ns();
    for (uint64_t i = 0; i < PAIRS; i++)
        lock_row(txn, 1, 1, LLADD_LOCK_X);
    double took = (double)(bench_now_ns() - t0);
    bench_must(lladd_commit(txn), "commit");
    return took / PAIRS;
}

static void bench_pair(void)
{
    struct bench_figure flat = {.n = 0}, row = {.n = 0}, again = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        open_fixture(&b);
        bench_add(&flat, flat_pairs(&b));
        bench_add(&row, pairs(&b, 1));
        bench_add(&again, held(&b));
        close_fixture(&b);
    }
    bench_print(BENCH, "lock and unlock, no other transaction", "ns", &flat, "<= 150", NULL);
    bench_print(BENCH, "lock and unlock a row of a table, no other transaction", "ns", &row,
                "<= 150", NULL);
    bench_print(BENCH, "lock a row that is held already", "ns", &again, NULL, NULL);
}

/* Nanoseconds per transaction that locks `rows` rows and then writes once. */
static double transactions(struct fixture *b, uint32_t rows)
{
    uint64_t t0 = bench_now_ns();
    for (uint64_t i = 0; i < TXNS; i++) {
        struct lladd_txn *txn = begin(b);
        for (uint32_t k = 0; k < rows; k++)
            lock_row(txn, 1, i * 31 + k * 7, LLADD_LOCK_X);
        bench_must(lladd_bytes_set(txn, b->page[0], (uint32_t)(i % 100) * 8, &i, 8), "set");
        bench_must(lladd_commit(txn), "commit");
    }
    return (double)(bench_now_ns() - t0) / TXNS;
}

static void bench_rows(void)
{
    struct bench_figure without = {.n = 0}, more = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        open_fixture(&b);
        transactions(&b, ROWS); /* warms up: afterwards nothing grows any more */
        double bare = transactions(&b, 0), locked = transactions(&b, ROWS);
        bench_add(&without, bare);
        bench_add(&more, locked - bare);
        close_fixture(&b);
    }
    bench_print(BENCH, "transaction, one small write, no locks", "ns", &without, NULL, NULL);
    bench_print(BENCH, "10 row locks, time added to a transaction", "ns", &more, "<= 2000",
                NULL);
}

/* ---- two threads ----------------------------------------------------------------------------- */

struct worker {
    struct lladd_thread thread;
    struct fixture *b;
    uint64_t table;
    uint32_t slot;
};

static void *make_pairs(void *arg)
{
    struct worker *w = arg;
    (void)pairs(w->b, w->table);
    return NULL;
}

/* Each transaction locks row 1 of the thread's table, and writes the thread's own page. */
static void *meet(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = 0; i < TXNS; i++) {
        struct lladd_txn *txn = begin(w->b);
        lock_row(txn, w->table, 1, LLADD_LOCK_X);
        bench_must(lladd_bytes_set(txn, w->b->page[w->slot], 0, &i, 8), "set");
        bench_must(lladd_commit(txn), "commit");
    }
    return NULL;
}

/* Returns the seconds that two threads take; `same`: both use one table, otherwise each its own. */
static double together(struct fixture *b, void *(*fn)(void *), bool same)
{
    struct worker w[2];
    uint64_t t0 = bench_now_ns();
    for (uint32_t i = 0; i < 2; i++) {
        w[i] = (struct worker){.b = b, .table = same ? 1 : 1 + i, .slot = i};
        bench_must(lladd_thread_start(&w[i].thread, fn, &w[i]), "thread");
    }
    for (int i = 0; i < 2; i++)
        lladd_thread_join(&w[i].thread);
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void bench_threads(void)
{
    struct bench_figure apart = {.n = 0}, rows = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        open_fixture(&b);
        bench_add(&apart, 2 * PAIRS / together(&b, make_pairs, false));
        bench_add(&rows, 2 * PAIRS / together(&b, make_pairs, true));
        close_fixture(&b);
    }
    bench_print(BENCH, "pairs of two threads, a table each", "1/s", &apart, NULL, NULL);
    bench_print(BENCH, "pairs of two threads, the same rows read", "1/s", &rows, NULL, NULL);
}

static void bench_contended(void)
{
    struct bench_figure apart = {.n = 0}, same = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        open_fixture(&b);
        bench_add(&apart, 2 * TXNS / together(&b, meet, false));
        bench_add(&same, 2 * TXNS / together(&b, meet, true));
        close_fixture(&b);
    }
    bench_print(BENCH, "transactions of two threads, a row each", "1/s", &apart, NULL, NULL);
    bench_print(BENCH, "transactions of two threads, the same row", "1/s", &same, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } cases[] = {{"pair", bench_pair},
                 {"rows", bench_rows},
                 {"threads", bench_threads},
                 {"contended", bench_contended}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int a = argc > 1 ? 1 : 0; a < argc; a++)
            if (argc == 1 || strcmp(argv[a], cases[i].name) == 0)
                cases[i].fn();
    return 0;
}
