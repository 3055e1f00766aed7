/* SPDX-License-Identifier: BSD-2-Clause */
/* The paper's figures (section 5), and what data structures do at their best, against Berkeley DB
 * in the same run.
 *
 *   bench-figures [--n N[,N...]] [--engine NAME[,NAME...]] [--runs N] [--dir DIR] [case]...
 *
 *   insert    Figure INSERT: N inserts of a 4-byte key and a 4-byte value in one transaction, from
 *             creation to clean close. N = 100,000, 1,000,000, 5,000,000
 *   recno     the same with record numbers: N elements in order
 *   threads   Figure THREADS: 500,000 lookups split over 1, 2, 8, 64, 250 threads
 *   lookup    1,000,000 and 5,000,000 keys and values of 8 bytes: inserts, lookups, many at a time
 *   large     elements of 100 bytes, ten and more times the cache: random updates, and the pages
 *             that each costs
 *
 * Without a case, all. Engines take turns, so that all see the same machine; each figure is the
 * median of the runs. An engine that is not there, or not capable, is named. */
#include "common.h"
#include "engines/engine.h"

#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "figures"
#define CACHE (UINT64_C(1) << 30)
#define BATCH 4096u
#define ENGINES_MAX 32

struct plan {
    const struct bench_engine *engine[ENGINES_MAX];
    int n_engines;
    uint64_t n[8];
    int n_sizes;
    int runs;
};

/* Keys in an order that means nothing: a bijection of the numbers below 2^32. */
static uint64_t mixed(uint64_t i)
{
    uint32_t x = (uint32_t)i;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static void print(const char *engine, const char *what, uint64_t n, const char *unit,
                  const struct bench_figure *f)
{
    char text[160];
    if (n)
        snprintf(text, sizeof text, "%s, %llu: %s", what, (unsigned long long)n, engine);
    else
        snprintf(text, sizeof text, "%s: %s", what, engine);
    bench_print(BENCH, text, unit, f, NULL, NULL);
}

static bool capable(const struct bench_engine *e, const char *what, bool can)
{
    if (!can)
        fprintf(stderr, "figures: %s: %s skipped, it has no such call\n", what, e->name);
    return can;
}

/* ---- one run --------------------------------------------------------------------------------- */

struct run {
    char dir[256];
    struct bench_setup setup;
    struct bench_db *db;
};

static void run_open(struct run *r, const struct bench_engine *e, uint64_t n, uint32_t key,
                     uint32_t value, uint64_t cache)
{
    bench_make_dir(r->dir);
    r->setup = (struct bench_setup){.dir = r->dir,
                                    .cache_bytes = cache,
                                    .expected = n,
                                    .key_size = key,
                                    .value_size = value,
                                    .threads = 1};
    bench_must(e->open(&r->setup, &r->db), e->name);
}

static void run_close(struct run *r, const struct bench_engine *e)
{
    bench_must(e->close(r->db), "close");
    bench_remove_dir(r->dir);
}

static void load(struct run *r, const struct bench_engine *e, uint64_t n)
{
    unsigned char value[256] = {0};
    struct bench_txn *txn;
    bench_must(e->begin(r->db, &txn), "begin");
    for (uint64_t i = 0; i < n; i++) {
        memcpy(value, &i, r->setup.value_size < 8 ? r->setup.value_size : 8);
        bench_must(e->insert(r->db, txn, mixed(i), value), "insert");
    }
    bench_must(e->commit(r->db, txn), "commit");
}

/* ---- insert, recno --------------------------------------------------------------------------- */

static double insert_once(const struct bench_engine *e, uint64_t n, double *log_bytes)
{
    struct run r;
    uint64_t log = 0, in = 0, out = 0, t0 = bench_now_ns();
    run_open(&r, e, n, 4, 4, CACHE);
    load(&r, e, n);
    e->io(r.db, &log, &in, &out);
    *log_bytes = (double)log / (double)n;
    bench_must(e->close(r.db), "close");
    double seconds = (double)(bench_now_ns() - t0) / 1e9;
    bench_remove_dir(r.dir);
    return seconds;
}

static double fill_once(const struct bench_engine *e, uint64_t n, double *log_bytes)
{
    struct run r;
    struct bench_txn *txn;
    uint32_t *values = malloc(BATCH * sizeof *values);
    bench_must(values ? 0 : -1, "no memory");
    uint64_t log = 0, in = 0, out = 0, t0 = bench_now_ns();
    run_open(&r, e, n, 8, 4, CACHE);
    bench_must(e->begin(r.db, &txn), "begin");
    for (uint64_t at = 0; at < n; at += BATCH) {
        uint64_t m = n - at < BATCH ? n - at : BATCH;
        for (uint64_t i = 0; i < m; i++)
            values[i] = (uint32_t)(at + i + 1);
        bench_must(e->fill(r.db, txn, at, m, values), "fill");
    }
    bench_must(e->commit(r.db, txn), "commit");
    e->io(r.db, &log, &in, &out);
    *log_bytes = (double)log / (double)n;
    bench_must(e->close(r.db), "close");
    double seconds = (double)(bench_now_ns() - t0) / 1e9;
    bench_remove_dir(r.dir);
    free(values);
    return seconds;
}

static void figure(const struct plan *p, const char *what, bool arrays,
                   double (*once)(const struct bench_engine *, uint64_t, double *))
{
    for (int s = 0; s < p->n_sizes; s++) {
        struct bench_figure rate[ENGINES_MAX], log[ENGINES_MAX];
        memset(rate, 0, sizeof rate);
        memset(log, 0, sizeof log);
        for (int run = 0; run < p->runs; run++)
            for (int i = 0; i < p->n_engines; i++) {
                double bytes;
                if ((p->engine[i]->fill != NULL) == arrays) {
                    bench_add(&rate[i], (double)p->n[s] / once(p->engine[i], p->n[s], &bytes));
                    bench_add(&log[i], bytes);
                }
            }
        for (int i = 0; i < p->n_engines; i++) {
            if (rate[i].n == 0)
                continue;
            print(p->engine[i]->name, what, p->n[s], "1/s", &rate[i]);
            char text[64];
            snprintf(text, sizeof text, "%s, log bytes each", what);
            print(p->engine[i]->name, text, p->n[s], "bytes", &log[i]);
        }
    }
}

static void bench_insert(const struct plan *p)
{
    figure(p, "insert int to int, create to close", false, insert_once);
}

static void bench_recno(const struct plan *p)
{
    figure(p, "record numbers, create to close", true, fill_once);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define LOOKUPS 500000u

struct reader {
    const struct bench_engine *engine;
    struct bench_db *db;
    pthread_t thread;
    pthread_barrier_t *start;
    uint64_t n, count, seed, wrong;
};

static void *read_some(void *arg)
{
    struct reader *r = arg;
    uint64_t value = 0;
    pthread_barrier_wait(r->start);
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t k = bench_random(&r->seed) % r->n;
        if (r->engine->lookup(r->db, mixed(k), &value) || value != k)
            r->wrong++;
    }
    return NULL;
}

static double read_with(const struct bench_engine *e, struct bench_db *db, uint64_t n,
                        unsigned threads)
{
    struct reader *r = calloc(threads, sizeof *r);
    pthread_barrier_t start;
    bench_must(r ? pthread_barrier_init(&start, NULL, threads + 1) : -1, "threads");
    for (unsigned i = 0; i < threads; i++) {
        r[i] = (struct reader){.engine = e, .db = db, .start = &start, .n = n,
                               .count = LOOKUPS / threads, .seed = i + 1};
        bench_must(pthread_create(&r[i].thread, NULL, read_some, &r[i]), "pthread_create");
    }
    pthread_barrier_wait(&start);
    uint64_t t0 = bench_now_ns(), wrong = 0;
    for (unsigned i = 0; i < threads; i++) {
        bench_must(pthread_join(r[i].thread, NULL), "pthread_join");
        wrong += r[i].wrong;
    }
    double seconds = (double)(bench_now_ns() - t0) / 1e9;
    bench_must(wrong ? -1 : 0, "a lookup gave something else");
    pthread_barrier_destroy(&start);
    free(r);
    return seconds;
}

static void bench_threads(const struct plan *p)
{
    static const unsigned threads[] = {1, 2, 8, 64, 250};
    enum { N = 500000, STEPS = sizeof threads / sizeof *threads };
    for (int i = 0; i < p->n_engines; i++) {
        const struct bench_engine *e = p->engine[i];
        struct bench_figure f[STEPS], scaling = {.n = 0}, flat = {.n = 0};
        struct run r;
        if (e->fill || !capable(e, "threads", e->lookup != NULL))
            continue;
        memset(f, 0, sizeof f);
        run_open(&r, e, N, 8, 8, CACHE);
        load(&r, e, N);
        for (int run = 0; run < p->runs; run++) {
            double t[STEPS];
            for (int k = 0; k < STEPS; k++) {
                t[k] = read_with(e, r.db, N, threads[k]);
                bench_add(&f[k], t[k] * 1e3);
            }
            bench_add(&scaling, t[0] / t[1]);
            bench_add(&flat, t[STEPS - 1] / t[1]);
        }
        run_close(&r, e);
        for (int k = 0; k < STEPS; k++) {
            char text[80];
            snprintf(text, sizeof text, "500,000 lookups, %u threads", threads[k]);
            print(e->name, text, 0, "ms", &f[k]);
        }
        print(e->name, "lookups, one thread by two", 0, "scaling", &scaling);
        print(e->name, "lookups, 250 threads by two", 0, "ratio", &flat);
    }
}

/* ---- lookup ---------------------------------------------------------------------------------- */

static void look(const struct bench_engine *e, uint64_t n, struct bench_figure *insert,
                 struct bench_figure *single, struct bench_figure *many, struct bench_figure *ratio)
{
    enum { COUNT = 1000000, GROUP = 64 };
    struct run r;
    uint64_t seed = 7, value = 0, t0, keys[GROUP], values[GROUP], wrong = 0;
    unsigned char found[GROUP];
    run_open(&r, e, n, 8, 8, CACHE);
    t0 = bench_now_ns();
    load(&r, e, n);
    bench_add(insert, (double)n / ((double)(bench_now_ns() - t0) / 1e9));
    t0 = bench_now_ns();
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t k = bench_random(&seed) % n;
        wrong += e->lookup(r.db, mixed(k), &value) || value != k;
    }
    double one = COUNT / ((double)(bench_now_ns() - t0) / 1e9);
    bench_add(single, one);
    if (e->lookup_many) {
        t0 = bench_now_ns();
        for (unsigned i = 0; i < COUNT; i += GROUP) {
            for (unsigned k = 0; k < GROUP; k++)
                keys[k] = mixed(bench_random(&seed) % n);
            wrong += e->lookup_many(r.db, keys, GROUP, values, found) != 0;
            for (unsigned k = 0; k < GROUP; k++)
                wrong += !found[k];
        }
        double group = COUNT / ((double)(bench_now_ns() - t0) / 1e9);
        bench_add(many, group);
        bench_add(ratio, group / one);
    }
    bench_must(wrong ? -1 : 0, "a lookup gave something else");
    run_close(&r, e);
}

static void bench_lookup(const struct plan *p)
{
    static const uint64_t sizes[] = {1000000, 5000000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int i = 0; i < p->n_engines; i++) {
            const struct bench_engine *e = p->engine[i];
            struct bench_figure f[4];
            if (e->fill || !capable(e, "lookup", e->lookup != NULL))
                continue;
            memset(f, 0, sizeof f);
            for (int run = 0; run < p->runs; run++)
                look(e, sizes[s], &f[0], &f[1], &f[2], &f[3]);
            print(e->name, "insert 8 to 8 bytes in one transaction", sizes[s], "1/s", &f[0]);
            print(e->name, "lookup, one thread", sizes[s], "1/s", &f[1]);
            if (f[2].n) {
                print(e->name, "lookup, 64 at a time", sizes[s], "1/s", &f[2]);
                print(e->name, "lookup, 64 at a time by one at a time", sizes[s], "ratio", &f[3]);
            }
        }
}

/* ---- larger than the cache ------------------------------------------------------------------- */

static void load_in_pieces(struct run *r, const struct bench_engine *e, uint64_t n)
{
    enum { PIECE = 100000 };
    unsigned char value[100] = {0};
    for (uint64_t at = 0; at < n; at += PIECE) {
        struct bench_txn *txn;
        bench_must(e->begin(r->db, &txn), "begin");
        for (uint64_t i = at; i < n && i < at + PIECE; i++) {
            memcpy(value, &i, 8);
            bench_must(e->insert(r->db, txn, i, value), "insert");
        }
        bench_must(e->commit(r->db, txn), "commit");
    }
}

static void bench_large(const struct plan *p)
{
    enum { N = 10000000, UPDATES = 200000, EACH = 100 };
    for (int i = 0; i < p->n_engines; i++) {
        const struct bench_engine *e = p->engine[i];
        struct bench_figure rate = {.n = 0}, reads = {.n = 0}, writes = {.n = 0};
        unsigned char value[100] = {0};
        uint64_t seed = 3, log, in0 = 0, out0 = 0, in = 0, out = 0;
        struct run r;
        run_open(&r, e, N, 8, sizeof value, 64u << 20);
        load_in_pieces(&r, e, N);
        for (int run = 0; run < p->runs; run++) {
            e->io(r.db, &log, &in0, &out0);
            uint64_t t0 = bench_now_ns();
            for (unsigned k = 0; k < UPDATES; k += EACH) {
                struct bench_txn *txn;
                bench_must(e->begin(r.db, &txn), "begin");
                for (unsigned j = 0; j < EACH; j++) {
                    uint64_t key = bench_random(&seed) % N;
                    memcpy(value, &key, 8);
                    value[8] = (unsigned char)run;
                    bench_must(e->update(r.db, txn, key, value), "update");
                }
                bench_must(e->commit(r.db, txn), "commit");
            }
            e->io(r.db, &log, &in, &out);
            bench_add(&rate, UPDATES / ((double)(bench_now_ns() - t0) / 1e9));
            bench_add(&reads, (double)(in - in0) / UPDATES);
            bench_add(&writes, (double)(out - out0) / UPDATES);
        }
        run_close(&r, e);
        print(e->name, "10 million x 100 bytes, cache 64 MiB, updates", 0, "1/s", &rate);
        print(e->name, "10 million x 100 bytes, cache 64 MiB, pages read", 0, "each", &reads);
        print(e->name, "10 million x 100 bytes, cache 64 MiB, pages written", 0, "each", &writes);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "bench-figures [--n N,...] [--engine NAME,...] [--runs N] [--dir DIR] [case]...\n"
            "cases: insert recno threads lookup large; none: all\n");
    for (int i = 0; bench_engines[i]; i++)
        fprintf(status ? stderr : stdout, "  %s %s (%s)\n", bench_engines[i]->name,
                bench_engines[i]->version(), bench_engines[i]->settings);
    for (int i = 0; bench_engines_missing[i]; i++)
        fprintf(status ? stderr : stdout, "  skipped: %s\n", bench_engines_missing[i]);
    exit(status);
}

static void take_engines(struct plan *p, char *list)
{
    p->n_engines = 0;
    for (char *name = strtok(list, ","); name && p->n_engines < ENGINES_MAX;
         name = strtok(NULL, ",")) {
        const struct bench_engine *e = bench_engine_find(name);
        if (!e) {
            fprintf(stderr, "figures: no engine \"%s\"\n", name);
            usage(2);
        }
        p->engine[p->n_engines++] = e;
    }
}

static void take_sizes(struct plan *p, char *list)
{
    p->n_sizes = 0;
    for (char *n = strtok(list, ","); n && p->n_sizes < 8; n = strtok(NULL, ",")) {
        p->n[p->n_sizes] = strtoull(n, NULL, 10);
        if (p->n[p->n_sizes++] == 0)
            usage(2);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"n", required_argument, NULL, 'n'},
                                            {"engine", required_argument, NULL, 'e'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const struct {
        const char *name;
        void (*run)(const struct plan *);
    } cases[] = {{"insert", bench_insert},
                 {"recno", bench_recno},
                 {"threads", bench_threads},
                 {"lookup", bench_lookup},
                 {"large", bench_large}};
    struct plan p = {.n = {100000, 1000000, 5000000}, .n_sizes = 3, .runs = BENCH_RUNS};
    int c;
    for (; bench_engines[p.n_engines]; p.n_engines++)
        p.engine[p.n_engines] = bench_engines[p.n_engines];
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'n')
            take_sizes(&p, optarg);
        else if (c == 'e')
            take_engines(&p, optarg);
        else if (c == 'r')
            p.runs = atoi(optarg) > 0 && atoi(optarg) <= 64 ? atoi(optarg) : BENCH_RUNS;
        else if (c == 'd')
            bench_must(setenv("TMPDIR", optarg, 1), "setenv");
        else
            usage(c == 'h' ? 0 : 2);
    }
    for (int i = 0; bench_engines_missing[i]; i++)
        fprintf(stderr, "figures: skipped: %s\n", bench_engines_missing[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool wanted = optind == argc;
        for (int a = optind; a < argc; a++)
            wanted |= strcmp(argv[a], cases[i].name) == 0;
        if (wanted)
            cases[i].run(&p);
    }
    return 0;
}
