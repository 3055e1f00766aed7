/* SPDX-License-Identifier: BSD-2-Clause */
/* Commits through the public interface, on files: begin, set 100 bytes, commit.
 *
 *   bench-commit [case]...   cases: one threads async branches; default: all
 *
 * `one` runs the library and a bare loop of equally large writes in turns of 100 ms, so that both
 * meet the same load of the machine; it prints the rates of both, the difference in processor time,
 * and the syncs, groups and log bytes of a commit. `threads` prints, for each number of threads,
 * the rate and its ratio to the rate of one thread in the bare loop, which is measured just before.
 * `async` commits without waiting for each sync, with at most 1000 commits in flight. `branches`
 * does both phases of two-phase commit, with one thread, and with 64 threads that share syncs of
 * the log. */
#include "common.h"

#include <fcntl.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH "commit"
#define VALUE 100
#define SLICE_NS 100000000ull
#define RUN_NS 1000000000ull

struct fixture {
    char dir[256];
    struct lladd_db *db;
    lladd_pageno pages[64];
    int bare; /* the preallocated file that the bare loop writes */
    uint64_t bare_at;
};

static void fixture_open(struct fixture *r)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    char name[300];
    bench_make_dir(r->dir);
    snprintf(name, sizeof name, "%s/db", r->dir);
    if (lladd_open(name, &o, &r->db, &err)) {
        fprintf(stderr, "bench: open: %s\n", err.message);
        exit(1);
    }
    bench_must(lladd_begin(r->db, NULL, &txn, NULL), "begin");
    for (int i = 0; i < 64; i++) {
        bench_must(lladd_page_alloc(txn, &r->pages[i]), "page_alloc");
        bench_must(lladd_bytes_format(txn, r->pages[i]), "bytes_format");
    }
    bench_must(lladd_commit(txn), "commit");
    snprintf(name, sizeof name, "%s/bare", r->dir);
    r->bare = open(name, O_CREAT | O_RDWR, 0600);
    char *zeros = calloc(1, 1 << 20);
    for (int i = 0; zeros && i < 64; i++)
        bench_must(pwrite(r->bare, zeros, 1 << 20, (off_t)i << 20) != 1 << 20, "preallocate");
    free(zeros);
    bench_must(fsync(r->bare), "fsync");
    r->bare_at = 0;
}

static void fixture_close(struct fixture *r)
{
    bench_must(lladd_close(r->db), "close");
    close(r->bare);
    bench_remove_dir(r->dir);
}

static struct lladd_txn *one_change(struct fixture *r, uint64_t v, uint32_t slot)
{
    unsigned char value[VALUE];
    struct lladd_txn *txn;
    memset(value, (int)v, sizeof value);
    memcpy(value, &v, sizeof v);
    bench_must(lladd_begin(r->db, NULL, &txn, NULL), "begin");
    bench_must(lladd_bytes_set(txn, r->pages[slot % 64], slot / 64 % 39 * VALUE, value, VALUE),
               "set");
    return txn;
}

static void one_commit(struct fixture *r, uint64_t v, uint32_t slot)
{
    bench_must(lladd_commit(one_change(r, v, slot)), "commit");
}

/* Runs a branch of a distributed transaction. The prepare syncs the log, and so does the commit. */
static void one_branch(struct fixture *r, uint64_t v, uint32_t slot)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = 12};
    struct lladd_txn *txn = one_change(r, v, slot);
    memcpy(gid.data, &v, sizeof v);
    memcpy(gid.data + sizeof v, &slot, sizeof slot);
    bench_must(lladd_prepare(txn, &gid), "prepare");
    bench_must(lladd_commit(txn), "commit");
}

static void one_bare(struct fixture *r, size_t bytes)
{
    static const unsigned char zeros[4096];
    if (r->bare_at + bytes > 64u << 20)
        r->bare_at = 0;
    bench_must(pwrite(r->bare, zeros, bytes, (off_t)r->bare_at) != (ssize_t)bytes, "pwrite");
    bench_must(fdatasync(r->bare), "fdatasync");
    r->bare_at += bytes;
}

static void bench_one(void)
{
    struct bench_figure cpu = {.n = 0}, rate = {.n = 0}, bare_rate = {.n = 0}, writes = {.n = 0},
                        syncs = {.n = 0}, bytes = {.n = 0};
    struct fixture r;
    fixture_open(&r);
    for (int i = 0; i < 100; i++)
        one_commit(&r, (uint64_t)i, 0);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t n[2] = {0, 0}, ns[2] = {0, 0}, used[2] = {0, 0};
        struct lladd_stats a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
        size_t size = 448; /* bytes of a bare write: a guess, then the log bytes of a commit */
        bench_must(lladd_stats_get(r.db, &a), "stats");
        for (int slice = 0; slice < 10; slice++) {
            int k = slice % 2;
            uint64_t t0 = bench_now_ns(), c0 = bench_cpu_ns(), end = t0 + SLICE_NS;
            while (bench_now_ns() < end) {
                if (k)
                    one_bare(&r, size);
                else
                    one_commit(&r, n[0], 0);
                n[k]++;
            }
            ns[k] += bench_now_ns() - t0;
            used[k] += bench_cpu_ns() - c0;
            bench_must(lladd_stats_get(r.db, &b), "stats");
            if (!k)
                size = (size_t)((b.log_bytes - a.log_bytes) / n[0]);
        }
        bench_add(&cpu, ((double)used[0] / (double)n[0] - (double)used[1] / (double)n[1]) / 1000);
        bench_add(&rate, (double)n[0] * 1e9 / (double)ns[0]);
        bench_add(&bare_rate, (double)n[1] * 1e9 / (double)ns[1]);
        bench_add(&syncs, (double)(b.log_syncs - a.log_syncs) / (double)n[0]);
        bench_add(&writes, (double)(b.log_groups - a.log_groups) / (double)n[0]);
        bench_add(&bytes, (double)(b.log_bytes - a.log_bytes) / (double)n[0]);
    }
    bench_print(BENCH, "durable, one thread: processor time above a bare loop", "microseconds",
                &cpu, "<= 5", NULL);
    bench_print(BENCH, "durable, one thread", "1/s", &rate, NULL, NULL);
    bench_print(BENCH, "bare pwrite and fdatasync of as many bytes", "1/s", &bare_rate, NULL, NULL);
    bench_print(BENCH, "durable, one thread: syncs per commit", "count", &syncs, "1", NULL);
    bench_print(BENCH, "durable, one thread: groups written per commit", "count", &writes, "1",
                NULL);
    bench_print(BENCH, "durable, one thread: log bytes per commit", "bytes", &bytes, NULL, NULL);
    fixture_close(&r);
}

struct worker {
    struct fixture *fixture;
    struct lladd_thread thread;
    void (*one)(struct fixture *, uint64_t v, uint32_t slot);
    uint64_t end, n;
    uint32_t index;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    while (bench_now_ns() < w->end) {
        w->one(w->fixture, w->n, w->index);
        w->n++;
    }
    return NULL;
}

static double rate_of(struct fixture *r, unsigned threads,
                      void (*one)(struct fixture *, uint64_t, uint32_t))
{
    struct worker *w = calloc(threads, sizeof *w);
    uint64_t t0 = bench_now_ns(), n = 0;
    if (!w)
        exit(1);
    for (unsigned i = 0; i < threads; i++) {
        w[i].fixture = r;
        w[i].one = one;
        w[i].index = i;
        w[i].end = t0 + RUN_NS;
        bench_must(lladd_thread_start(&w[i].thread, work, &w[i]), "thread");
    }
    for (unsigned i = 0; i < threads; i++) {
        lladd_thread_join(&w[i].thread);
        n += w[i].n;
    }
    free(w);
    return (double)n * 1e9 / (double)(bench_now_ns() - t0);
}

static double bare_rate_of(struct fixture *r)
{
    uint64_t t0 = bench_now_ns(), n = 0;
    for (; bench_now_ns() < t0 + RUN_NS / 2; n++)
        one_bare(r, 448);
    return (double)n * 1e9 / (double)(bench_now_ns() - t0);
}

static void bench_threads(void)
{
    static const unsigned counts[] = {1, 2, 8, 32, 64};
    enum { N = sizeof counts / sizeof counts[0] };
    struct bench_figure rate[N] = {{.n = 0}}, ratio[N] = {{.n = 0}};
    struct fixture r;
    fixture_open(&r);
    for (int run = 0; run < BENCH_RUNS; run++) {
        for (int i = 0; i < N; i++) {
            double bare = bare_rate_of(&r), mine = rate_of(&r, counts[i], one_commit);
            bench_add(&rate[i], mine);
            bench_add(&ratio[i], mine / bare);
        }
    }
    for (int i = 0; i < N; i++) {
        char what[96];
        const char *threads = counts[i] == 1 ? "thread" : "threads";
        snprintf(what, sizeof what, "durable, %u %s", counts[i], threads);
        bench_print(BENCH, what, "1/s", &rate[i], NULL, NULL);
        snprintf(what, sizeof what,
                 "durable, %u %s: rate as a multiple of the bare one-thread rate", counts[i],
                 threads);
        bench_print(BENCH, what, "ratio", &ratio[i], counts[i] == 64 ? ">= 15" : NULL,
                    counts[i] == 64 ? "20 to 25" : NULL);
    }
    fixture_close(&r);
}

/* Commits in two phases, each of which syncs the log, with one thread and with 64 threads that
 * share these syncs. */
static void bench_branches(void)
{
    struct bench_figure alone = {.n = 0}, many = {.n = 0}, ratio = {.n = 0}, forces = {.n = 0};
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    struct fixture r;
    fixture_open(&r);
    for (int run = 0; run < BENCH_RUNS; run++) {
        double one = rate_of(&r, 1, one_branch);
        bench_must(lladd_stats_get(r.db, &before), "stats");
        double all = rate_of(&r, 64, one_branch);
        bench_must(lladd_stats_get(r.db, &after), "stats");
        bench_add(&alone, one);
        bench_add(&many, all);
        bench_add(&ratio, all / one);
        bench_add(&forces, (double)(after.log_syncs - before.log_syncs) /
                               (double)(after.committed - before.committed));
    }
    bench_print(BENCH, "branches, prepared and committed, 1 thread", "1/s", &alone, NULL, NULL);
    bench_print(BENCH, "branches, prepared and committed, 64 threads", "1/s", &many, NULL, NULL);
    bench_print(BENCH, "branches, 64 threads: rate as a multiple of the rate of 1 thread", "ratio",
                &ratio, ">= 10", NULL);
    bench_print(BENCH, "branches, 64 threads: log syncs per branch", "count", &forces, NULL, NULL);
    fixture_close(&r);
}

static void bench_async(void)
{
    enum { N = 1000000, WINDOW = 1000 };
    struct bench_figure rate = {.n = 0};
    struct fixture r;
    fixture_open(&r);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        lladd_lsn previous = {0}; /* end of the previous half window */
        for (int i = 0; i < N; i++) {
            unsigned char value[VALUE];
            struct lladd_txn *txn;
            lladd_lsn lsn;
            memset(value, i, sizeof value);
            memcpy(value, &i, sizeof i);
            bench_must(lladd_begin(r.db, NULL, &txn, NULL), "begin");
            bench_must(
                lladd_bytes_set(txn, r.pages[i % 64], (uint32_t)i / 64 % 39 * VALUE, value, VALUE),
                "set");
            bench_must(lladd_commit_async(txn, &lsn), "commit_async");
            if (i % (WINDOW / 2) == WINDOW / 2 - 1) {
                bench_must(lladd_wait_durable(r.db, previous, NULL), "wait");
                previous = lsn;
            }
        }
        bench_must(lladd_wait_durable(r.db, previous, NULL), "wait");
        bench_add(&rate, N * 1e9 / (double)(bench_now_ns() - t0));
    }
    bench_print(BENCH, "durable, one thread, asynchronous commit, at most 1000 in flight", "1/s",
                &rate, ">= 1500000", "4.6 million");
    fixture_close(&r);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"one", bench_one},
                 {"threads", bench_threads},
                 {"async", bench_async},
                 {"branches", bench_branches}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (wanted)
            cases[i].run();
    }
    return 0;
}
