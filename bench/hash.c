/* SPDX-License-Identifier: BSD-2-Clause */
/* Linear hash tables: insertions with their splits, with logical and with physical undo; lookups
 * one by one, many per call and by two threads; log bytes and pages. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-hash [case]...   cases: insert create physical many threads log space; default: all */
#include "common.h"

#include <lladd/device.h>
#include <lladd/hash.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "hash"
#define MILLION 1000000u

struct fixture {
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_hash *hash;
    lladd_pageno root;
    uint32_t width; /* of keys and of values */
};

static void open_fixture(struct fixture *b, uint32_t width)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    b->width = width;
    bench_must(lladd_device_memory(&b->dev), "device");
    o.device = b->dev;
    o.cache_bytes = UINT64_C(2) << 30;
    o.log_limit_bytes = o.checkpoint_bytes = UINT64_MAX;
    bench_must(lladd_open(NULL, &o, &b->db, &err), "open");
}

static void make_table(struct fixture *b, struct lladd_txn *txn, unsigned flags)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = o.value_size = b->width;
    bench_must(lladd_hash_create(txn, &o, &b->root), "create");
    bench_must(lladd_hash_open(b->db, b->root, flags, &b->hash, NULL), "open");
}

static struct lladd_txn *begin(struct fixture *b)
{
    struct lladd_txn *txn;
    bench_must(lladd_begin(b->db, NULL, &txn, NULL), "begin");
    return txn;
}

static void close_fixture(struct fixture *b)
{
    lladd_hash_close(b->hash);
    bench_must(lladd_close(b->db), "close");
    lladd_device_close(b->dev);
}

/* Inserts the keys from 0 to n - 1. */
static void insert(struct fixture *b, struct lladd_txn *txn, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        bench_must(lladd_hash_insert(txn, b->hash, &i, b->width, &i, b->width), "insert");
}

#define BATCH 256u

static void insert_many(struct fixture *b, struct lladd_txn *txn, uint64_t n)
{
    static struct lladd_hash_element e[BATCH];
    static uint64_t key[BATCH];
    for (uint64_t i = 0; i < n; i += BATCH) {
        uint64_t some = n - i < BATCH ? n - i : BATCH;
        for (uint64_t k = 0; k < some; k++) {
            key[k] = i + k;
            e[k] = (struct lladd_hash_element){&key[k], b->width, &key[k], b->width};
        }
        bench_must(lladd_hash_insert_many(txn, b->hash, e, some, NULL), "insert_many");
    }
}

typedef void insert_fn(struct fixture *, struct lladd_txn *, uint64_t n);

/* Inserts n keys into a new table, in one transaction; returns the seconds that the insertions
 * took. `create`: that transaction also creates the table, and the time includes the creation. */
static double filled_by(insert_fn *fn, struct fixture *b, uint32_t width, uint64_t n,
                        unsigned flags, bool create)
{
    open_fixture(b, width);
    struct lladd_txn *txn = begin(b);
    uint64_t t0 = bench_now_ns();
    make_table(b, txn, flags);
    if (!create) {
        bench_must(lladd_commit(txn), "commit");
        txn = begin(b);
        t0 = bench_now_ns();
    }
    fn(b, txn, n);
    double took = (double)(bench_now_ns() - t0) / 1e9;
    bench_must(lladd_commit(txn), "commit");
    return took;
}

static double filled(struct fixture *b, uint32_t width, uint64_t n, unsigned flags, bool create)
{
    return filled_by(insert, b, width, n, flags, create);
}

/* Each key depends on the value of the previous lookup, so the processor cannot overlap lookups. */
static double looked_up(struct fixture *b, uint64_t n, uint64_t keys, uint64_t seed)
{
    uint64_t value = 0, t0 = bench_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = (bench_random(&seed) + value) % keys;
        bench_must(lladd_hash_get(b->hash, &key, b->width, &value, sizeof value, NULL, NULL),
                   "get");
        bench_must(value != key ? LLADD_BUG : 0, "values");
    }
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void bench_insert(void)
{
    struct bench_figure inserts = {.n = 0}, many = {.n = 0}, gets = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        bench_add(&many,
                  MILLION / filled_by(insert_many, &b, 8, MILLION, LLADD_HASH_LOGICAL, false));
        close_fixture(&b);
        bench_add(&inserts, MILLION / filled(&b, 8, MILLION, LLADD_HASH_LOGICAL, false));
        bench_add(&gets, MILLION / looked_up(&b, MILLION, MILLION, (uint64_t)run + 1));
        close_fixture(&b);
    }
    bench_print(BENCH,
                "insert, 8-byte keys and values, 1 million in one transaction, splits included",
                "1/s", &inserts, ">= 4000000", "12 million");
    bench_print(BENCH, "insert_many, 256 at a time, 1 million in one transaction", "1/s", &many,
                ">= 4000000", "12 million");
    bench_print(BENCH, "get, 8-byte keys and values, 1 million", "1/s", &gets, ">= 5000000",
                "6 to 7 million, dependent lookups");
}

static void bench_create(unsigned flags, const char *what)
{
    struct bench_figure inserts = {.n = 0};
    for (int run = 0; run < BENCH_RUNS; run++) {
        struct fixture b;
        bench_add(&inserts, MILLION / filled(&b, 4, MILLION, flags, flags == LLADD_HASH_LOGICAL));
        close_fixture(&b);
    }
    bench_print(BENCH, what, "1/s", &inserts, NULL, NULL);
}

static double looked_up_many(struct fixture *b, uint64_t n, uint64_t keys, uint64_t seed)
{
    static struct lladd_hash_query q[BATCH];
    static uint64_t key[BATCH], value[BATCH];
    uint64_t t0 = bench_now_ns();
    for (uint64_t done = 0; done < n; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            key[i] = bench_random(&seed) % keys;
            q[i] = (struct lladd_hash_query){
                .key = &key[i], .key_len = 8, .buf = &value[i], .size = 8};
        }
        bench_must(lladd_hash_get_many(b->hash, q, BATCH, NULL), "get_many");
        for (size_t i = 0; i < BATCH; i++)
            bench_must(q[i].rc || value[i] != key[i] ? LLADD_BUG : 0, "values");
    }
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void bench_many(void)
{
    enum { KEYS = 5 * MILLION, N = 2 * MILLION };
    struct bench_figure one = {.n = 0}, many = {.n = 0}, times = {.n = 0};
    struct fixture b;
    (void)filled(&b, 8, KEYS, LLADD_HASH_LOGICAL, false);
    for (int run = 0; run < BENCH_RUNS; run++) {
        bench_add(&one, N / looked_up(&b, N, KEYS, (uint64_t)run + 1));
        bench_add(&many, N / looked_up_many(&b, N, KEYS, (uint64_t)run + 100));
        bench_add(&times, many.sample[run] / one.sample[run]);
    }
    close_fixture(&b);
    bench_print(BENCH, "get, 8-byte keys and values, 5 million", "1/s", &one, NULL, NULL);
    bench_print(BENCH, "get_many, 256 at a time, 5 million", "1/s", &many, NULL,
                "16 to 48 million");
    bench_print(BENCH, "get_many compared with get, 5 million", "times", &times, ">= 3", NULL);
}

struct looker {
    struct lladd_thread thread;
    struct fixture *fixture;
    uint64_t n, seed;
};

static void *look(void *arg)
{
    struct looker *l = arg;
    (void)looked_up(l->fixture, l->n, MILLION / 2, l->seed);
    return NULL;
}

static double by_threads(struct fixture *b, unsigned n)
{
    struct looker l[2];
    uint64_t t0 = bench_now_ns();
    for (unsigned i = 0; i < n; i++) {
        l[i] = (struct looker){.fixture = b, .n = 2 * MILLION / n, .seed = i + 1};
        bench_must(lladd_thread_start(&l[i].thread, look, &l[i]), "thread");
    }
    for (unsigned i = 0; i < n; i++)
        lladd_thread_join(&l[i].thread);
    return (double)(bench_now_ns() - t0) / 1e9;
}

static void bench_threads(void)
{
    struct bench_figure times = {.n = 0};
    struct fixture b;
    (void)filled(&b, 8, MILLION / 2, LLADD_HASH_LOGICAL, false);
    for (int run = 0; run < BENCH_RUNS; run++) {
        double one = by_threads(&b, 1);
        bench_add(&times, one / by_threads(&b, 2));
    }
    close_fixture(&b);
    bench_print(BENCH, "get by two threads compared with one, 500 thousand keys", "times", &times,
                ">= 1.7", "2");
}

static void bench_log(bool create, const char *what)
{
    struct bench_figure bytes = {.n = 0};
    struct lladd_stats s = {.struct_size = sizeof s};
    struct fixture b;
    (void)filled(&b, 4, MILLION, LLADD_HASH_LOGICAL, create);
    bench_must(lladd_stats_get(b.db, &s), "stats");
    bench_add(&bytes, (double)s.log_bytes / MILLION);
    close_fixture(&b);
    bench_print(BENCH, what, "bytes", &bytes, "<= 90", NULL);
}

/* ---- space ----------------------------------------------------------------------------------- */

enum { SPACE_KEYS = 20000 };

static uint64_t pages_of(struct fixture *b)
{
    struct lladd_hash_stats s = {.struct_size = sizeof s};
    bench_must(lladd_hash_stats_get(b->hash, &s, NULL), "stats");
    return s.pages;
}

/* lengths[key] and `length` are the length of the value plus 1; 0: the key is absent. */
static void put_some(struct fixture *b, uint16_t *lengths, uint64_t key, uint16_t length)
{
    static const unsigned char bytes[400];
    struct lladd_txn *txn = begin(b);
    bench_must(lladd_hash_put(txn, b->hash, &key, sizeof key, bytes, length - 1u), "put");
    bench_must(lladd_commit(txn), "commit");
    lengths[key] = length;
}

static void churn(struct fixture *b, uint16_t *lengths, uint64_t n, uint64_t *seed)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = bench_random(seed) % SPACE_KEYS;
        if (!lengths[key] || bench_random(seed) % 2) {
            put_some(b, lengths, key, (uint16_t)(21 + bench_random(seed) % 280));
            continue;
        }
        struct lladd_txn *txn = begin(b);
        bench_must(lladd_hash_delete(txn, b->hash, &key, sizeof key), "remove");
        bench_must(lladd_commit(txn), "commit");
        lengths[key] = 0;
    }
}

static void space_fixture(struct fixture *b)
{
    open_fixture(b, 0);
    struct lladd_txn *txn = begin(b);
    make_table(b, txn, 0);
    bench_must(lladd_commit(txn), "commit");
}

/* Pages after random puts and removals, compared with a new table that gets the same rows. */
static void bench_space(void)
{
    struct bench_figure times = {.n = 0};
    uint16_t *lengths = calloc(SPACE_KEYS, sizeof *lengths);
    struct fixture old, fresh;
    uint64_t seed = 1;
    bench_must(lengths ? 0 : LLADD_NO_MEMORY, "memory");
    space_fixture(&old);
    for (int run = 0; run < BENCH_RUNS; run++) {
        churn(&old, lengths, 5 * SPACE_KEYS, &seed);
        space_fixture(&fresh);
        for (uint64_t key = 0; key < SPACE_KEYS; key++)
            if (lengths[key])
                put_some(&fresh, lengths, key, lengths[key]);
        bench_add(&times, (double)pages_of(&old) / (double)pages_of(&fresh));
        close_fixture(&fresh);
    }
    close_fixture(&old);
    free(lengths);
    bench_print(BENCH,
                "pages after random changes, compared with a table filled once, values of 20 to "
                "300 bytes",
                "times", &times, "<= 2", NULL);
}

static void all_creates(void)
{
    bench_create(LLADD_HASH_LOGICAL, "insert, 4-byte keys and values, in the creating transaction");
}
static void all_physical(void)
{
    bench_create(LLADD_HASH_PHYSICAL, "insert, 4-byte keys and values, physical undo");
}
static void all_logs(void)
{
    bench_log(false, "log bytes per insertion of 4-byte keys and values, splits included");
    bench_log(true, "log bytes per insertion, in the creating transaction");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"insert", bench_insert}, {"create", all_creates},    {"physical", all_physical},
                 {"many", bench_many},     {"threads", bench_threads}, {"log", all_logs},
                 {"space", bench_space}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (wanted)
            cases[i].run();
    }
    return 0;
}
