/* SPDX-License-Identifier: BSD-2-Clause */
/* Bw-trees in memory, beside the B+tree (logged, in memory) and a B+tree without transactions, log
 * and deletions that is synchronised by optimistic lock coupling (engines/olc.c). Keys and values
 * have 8 bytes. Prints JSON lines; see docs/structures-bwtree.md.
 *
 *   bench-bwtree [MILLIONS] [case]...   MILLIONS: rows, 10 by default
 *
 *   insert   random insertions by one and two threads; lookups right afterwards, and again
 *   ordered  ascending insertions by one and two threads
 *   mixed    a million rows, then five lookups for each insertion, by 1, 2 and 8 threads
 *   chains   mixed, by one and two threads, for chains of 2 to 32 deltas; only the Bw-tree
 *   races    mixed, by 8 threads: how often a compare-and-swap failed; only the Bw-tree */
#include "common.h"
#include "engines/engine.h"

#include <lladd/btree.h>
#include <lladd/bwtree.h>
#include <lladd/device.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "bwtree"
#define MILLION UINT64_C(1000000)
enum { RUNS = 3, THREADS_MAX = 8, BATCH = 1000 };

extern const struct bench_engine bench_engine_olc;

/* The tree that is being measured. */
static struct lladd_device *device;
static struct lladd_db *db;
static struct lladd_bwtree *bw;
static struct lladd_btree *bt;
static struct bench_db *olc;
static char dir[256];
static uint32_t leaf_chain;

int bench_failed(const char *engine, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", engine, what, why);
    return BENCH_FAILED;
}

/* A transaction of a thread, with some rows. */
struct batch {
    struct lladd_txn *txn;
    int rows;
};

struct subject {
    const char *name;
    void (*open)(void);
    void (*close)(void);
    void (*insert)(struct batch *, uint64_t key, uint64_t value);
    void (*end)(struct batch *); /* nullable */
    bool (*get)(uint64_t key, uint64_t *value);
};

/* ---- subjects -------------------------------------------------------------------------------- */

static void open_db(void)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    bench_must(lladd_device_memory(&device), "device");
    o.device = device;
    o.cache_bytes = UINT64_C(2) << 30;
    bench_must(lladd_open(NULL, &o, &db, NULL), "open");
}

static void close_db(void)
{
    bench_must(lladd_close(db), "close");
    lladd_device_close(device);
}

static void bw_open(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.key_size = o.value_size = 8;
    o.leaf_chain = leaf_chain;
    open_db();
    bench_must(lladd_bwtree_open_volatile(db, &o, &bw, NULL), "open_volatile");
}

static void bw_close(void)
{
    lladd_bwtree_close(bw);
    close_db();
}

static void bw_insert(struct batch *b, uint64_t key, uint64_t value)
{
    (void)b;
    key = __builtin_bswap64(key);
    bench_must(lladd_bwtree_insert(bw, &key, 8, &value, 8, NULL), "insert");
}

static bool bw_get(uint64_t key, uint64_t *value)
{
    key = __builtin_bswap64(key);
    return lladd_bwtree_get(bw, &key, 8, value, 8, NULL, NULL) == 0;
}

static void bt_open(void)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_txn *txn;
    lladd_pageno root;
    o.key_size = o.value_size = 8;
    open_db();
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    bench_must(lladd_btree_create(txn, &o, &root), "create");
    bench_must(lladd_commit(txn), "commit");
    bench_must(lladd_btree_open(db, root, &bt, NULL), "open");
}

static void bt_close(void)
{
    lladd_btree_close(bt);
    close_db();
}

static void bt_end(struct batch *b)
{
    if (b->txn)
        bench_must(lladd_commit(b->txn), "commit");
    *b = (struct batch){NULL, 0};
}

static void bt_insert(struct batch *b, uint64_t key, uint64_t value)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.durability = LLADD_DURABLE_LATER;
    if (!b->txn)
        bench_must(lladd_begin(db, &o, &b->txn, NULL), "begin");
    key = __builtin_bswap64(key);
    bench_must(lladd_btree_insert(b->txn, bt, &key, 8, &value, 8), "insert");
    if (++b->rows == BATCH)
        bt_end(b);
}

static bool bt_get(uint64_t key, uint64_t *value)
{
    key = __builtin_bswap64(key);
    return lladd_btree_get(bt, &key, 8, value, 8, NULL, NULL) == 0;
}

static void olc_open(void)
{
    struct bench_setup s = {.dir = dir, .key_size = 8, .value_size = 8};
    bench_make_dir(dir);
    bench_must(bench_engine_olc.open(&s, &olc), "open");
}

static void olc_close(void)
{
    bench_must(bench_engine_olc.close(olc), "close");
    bench_remove_dir(dir);
}

static void olc_insert(struct batch *b, uint64_t key, uint64_t value)
{
    (void)b;
    bench_must(bench_engine_olc.insert(olc, NULL, key, &value), "insert");
}

static bool olc_get(uint64_t key, uint64_t *value)
{
    return bench_engine_olc.lookup(olc, NULL, key, value) == 0;
}

static const struct subject subjects[] = {
    {"Bw-tree", bw_open, bw_close, bw_insert, NULL, bw_get},
    {"B+tree, logged", bt_open, bt_close, bt_insert, bt_end, bt_get},
    {"OLC B+tree", olc_open, olc_close, olc_insert, NULL, olc_get},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* ---- threads --------------------------------------------------------------------------------- */

/* Row i has a key that no other row has, in no order. */
static uint64_t key_of(uint64_t i)
{
    i = (i ^ i >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ i >> 27) * UINT64_C(0x94d049bb133111eb);
    return i ^ i >> 31;
}

struct job {
    struct lladd_thread thread;
    const struct subject *s;
    void (*work)(const struct job *);
    uint64_t from, to;
    unsigned id;
};

static uint64_t next_block; /* for ascending keys */

static void insert_random(const struct job *j)
{
    struct batch b = {NULL, 0};
    for (uint64_t i = j->from; i < j->to; i++)
        j->s->insert(&b, key_of(i), i);
    if (j->s->end)
        j->s->end(&b);
}

/* The threads take blocks of 64 keys in turn, so all insert at the end. */
static void insert_ordered(const struct job *j)
{
    enum { BLOCK = 64 };
    struct batch b = {NULL, 0};
    for (uint64_t n = j->from; n < j->to; n += BLOCK) {
        uint64_t first = lladd_atomic_add64(&next_block, BLOCK);
        for (uint64_t i = first; i < first + BLOCK; i++)
            j->s->insert(&b, i, i);
    }
    if (j->s->end)
        j->s->end(&b);
}

static uint64_t rows_before; /* number of rows that lookups choose from */

static void look(const struct subject *s, uint64_t *seed)
{
    uint64_t value, i = bench_random(seed) % rows_before;
    bench_must(s->get(key_of(i), &value) && value == i ? 0 : LLADD_BUG, "get");
}

static void read_random(const struct job *j)
{
    uint64_t seed = j->id + 1;
    for (uint64_t i = j->from; i < j->to; i++)
        look(j->s, &seed);
}

static void read_and_insert(const struct job *j)
{
    struct batch b = {NULL, 0};
    uint64_t seed = j->id + 1;
    for (uint64_t i = j->from; i < j->to; i++)
        if (i % 6 == 0)
            j->s->insert(&b, key_of(rows_before + i), rows_before + i);
        else
            look(j->s, &seed);
    if (j->s->end)
        j->s->end(&b);
}

static void *work(void *arg)
{
    const struct job *j = arg;
    j->work(j);
    return NULL;
}

/* Operations a second. */
static double run(const struct subject *s, void (*fn)(const struct job *), uint64_t n,
                  unsigned threads)
{
    static struct job jobs[THREADS_MAX];
    uint64_t t0 = bench_now_ns();
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (struct job){
            .s = s, .work = fn, .from = n / threads * i, .to = n / threads * (i + 1), .id = i};
        bench_must(lladd_thread_start(&jobs[i].thread, work, &jobs[i]), "thread");
    }
    for (unsigned i = 0; i < threads; i++)
        lladd_thread_join(&jobs[i].thread);
    return (double)(n / threads * threads) * 1e9 / (double)(bench_now_ns() - t0);
}

static void print(const struct subject *s, const char *what, unsigned threads,
                  const struct bench_figure *f, const char *target)
{
    char text[200];
    snprintf(text, sizeof text, "%s: %s, %u thread%s", s->name, what, threads,
             threads == 1 ? "" : "s");
    bench_print(BENCH, text, "1/s", f, s == subjects ? target : NULL, NULL);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void bench_insert(const struct subject *s, uint64_t n)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct bench_figure in = {.n = 0}, after = {.n = 0}, again = {.n = 0};
        for (int i = 0; i < RUNS; i++) {
            s->open();
            bench_add(&in, run(s, insert_random, n, threads));
            rows_before = n / threads * threads;
            bench_add(&after, run(s, read_random, n / 2, threads));
            (void)run(s, read_random, n, threads);
            bench_add(&again, run(s, read_random, n / 2, threads));
            s->close();
        }
        print(s, "random insertions", threads, &in, threads == 1 ? ">= 1500000" : NULL);
        print(s, "lookups right afterwards", threads, &after, threads == 1 ? ">= 2500000" : NULL);
        print(s, "lookups later", threads, &again, threads == 1 ? ">= 3000000" : NULL);
    }
}

static void bench_ordered(const struct subject *s, uint64_t n)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct bench_figure in = {.n = 0};
        for (int i = 0; i < RUNS; i++) {
            s->open();
            next_block = 0;
            bench_add(&in, run(s, insert_ordered, n, threads));
            s->close();
        }
        print(s, "ascending insertions", threads, &in, threads == 1 ? ">= 4000000" : NULL);
    }
}

static double mixed(const struct subject *s, uint64_t n, unsigned threads)
{
    uint64_t first = n < MILLION ? n : MILLION;
    (void)run(s, insert_random, first, 1);
    rows_before = first;
    return run(s, read_and_insert, n, threads);
}

static void bench_mixed(const struct subject *s, uint64_t n)
{
    static const unsigned threads[] = {1, 2, 8};
    static const char *const targets[] = {">= 2500000", ">= 4200000", ">= 5000000"};
    for (int t = 0; t < 3; t++) {
        struct bench_figure f = {.n = 0};
        for (int i = 0; i < RUNS; i++) {
            s->open();
            bench_add(&f, mixed(s, n, threads[t]));
            s->close();
        }
        print(s, "5 lookups for each insertion", threads[t], &f, targets[t]);
    }
}

static void bench_chains(const struct subject *s, uint64_t n)
{
    if (s != subjects)
        return;
    for (leaf_chain = 2; leaf_chain <= 32; leaf_chain *= 2)
        for (unsigned threads = 1; threads <= 2; threads++) {
            struct bench_figure f = {.n = 0};
            char what[100];
            for (int i = 0; i < RUNS; i++) {
                s->open();
                bench_add(&f, mixed(s, n, threads));
                s->close();
            }
            snprintf(what, sizeof what, "5 lookups for each insertion, chains of %u", leaf_chain);
            print(s, what, threads, &f, NULL);
        }
    leaf_chain = 0;
}

static void print_rate(const char *what, uint64_t failed, uint64_t succeeded)
{
    struct bench_figure f = {.n = 0};
    bench_add(&f, 100.0 * (double)failed / (double)(failed + succeeded ? failed + succeeded : 1));
    bench_print(BENCH, what, "%", &f, NULL, NULL);
}

static void bench_races(const struct subject *s, uint64_t n)
{
    struct lladd_bwtree_stats st = {.struct_size = sizeof st};
    if (s != subjects)
        return;
    s->open();
    (void)mixed(s, n, 8);
    bench_must(lladd_bwtree_stats_get(bw, &st, NULL), "stats");
    print_rate("Bw-tree: failed updates, 8 threads", st.updates_failed, st.updates);
    print_rate("Bw-tree: failed splits, 8 threads", st.splits_failed, st.splits);
    print_rate("Bw-tree: failed consolidations, 8 threads", st.consolidations_failed,
               st.consolidations);
    print_rate("Bw-tree: failed index terms, 8 threads", st.terms_failed, st.terms);
    struct bench_figure bytes = {.n = 0};
    bench_add(&bytes, (double)st.memory / (double)st.rows);
    bench_print(BENCH, "Bw-tree: memory for each row of 16 bytes", "bytes", &bytes, NULL, NULL);
    s->close();
}

static const struct {
    const char *name;
    void (*fn)(const struct subject *, uint64_t n);
} cases[] = {{"insert", bench_insert},
             {"ordered", bench_ordered},
             {"mixed", bench_mixed},
             {"chains", bench_chains},
             {"races", bench_races}};

int main(int argc, char **argv)
{
    char *end;
    uint64_t n = argc > 1 ? (uint64_t)(strtod(argv[1], &end) * (double)MILLION) : 0;
    int first = n ? 2 : 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool wanted = argc == first;
        for (int i = first; i < argc; i++)
            wanted = wanted || strcmp(argv[i], cases[c].name) == 0;
        for (int s = 0; wanted && s < SUBJECTS; s++)
            cases[c].fn(&subjects[s], n ? n : 10 * MILLION);
    }
    return 0;
}
