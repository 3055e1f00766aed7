/* SPDX-License-Identifier: BSD-2-Clause */
/* The core's hot paths, measured through the public interface. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-core [case]...   default: all cases
 *
 *   large    a transaction that updates ten times the cache
 *   set      updates of 8 bytes in one long transaction
 *   begin    short transactions
 *   redo     recovery of two million updates
 *   first    the time from opening a crashed database until the first read
 *   loser    recovery of a large loser, which is a transaction that a crash has interrupted
 *   reopen   opening and closing
 *   crash    recovery of a small database */
#include "common.h"

#include <errno.h>
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <lladd/lock.h>
#include <lladd/log_read.h>
#include <lladd/op.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BENCH "core"

static struct lladd_db *open_memory(struct lladd_device *dev, struct lladd_options *o)
{
    struct lladd_db *db;
    struct lladd_error err = LLADD_ERROR_INIT;
    o->device = dev;
    if (lladd_open(NULL, o, &db, &err)) {
        fprintf(stderr, "bench: open: %s\n", err.message);
        exit(1);
    }
    return db;
}

/* Makes n formatted pages of plain bytes; returns their numbers. */
static lladd_pageno *make_pages(struct lladd_db *db, size_t n)
{
    lladd_pageno *pages = calloc(n, sizeof *pages);
    struct lladd_txn *txn;
    if (!pages)
        exit(1);
    for (size_t i = 0; i < n;) {
        bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
        for (size_t k = 0; k < 1000 && i < n; k++, i++) {
            bench_must(lladd_page_alloc(txn, &pages[i]), "page_alloc");
            bench_must(lladd_bytes_format(txn, pages[i]), "bytes_format");
        }
        bench_must(lladd_commit(txn), "commit");
    }
    return pages;
}

static void bench_set(void)
{
    enum { PAGES = 1000, N = 200000 }; /* 13 MB of log: segments are reused, not created */
    struct bench_figure ns = {.n = 0}, instructions = {.n = 0}, bytes = {.n = 0};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    o.log_limit_bytes = UINT64_MAX;
    o.checkpoint_bytes = UINT64_MAX;
    struct lladd_db *db = open_memory(dev, &o);
    lladd_pageno *pages = make_pages(db, PAGES);
    for (int run = -1; run < BENCH_RUNS; run++) { /* the first run warms up */
        struct lladd_txn *txn;
        struct lladd_stats a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
        uint64_t seed = (uint64_t)run + 2;
        bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
        for (int i = 0; i < PAGES; i++) /* page images are logged here, and caches are warmed */
            bench_must(lladd_bytes_set(txn, pages[i], 0, &seed, 8), "set");
        bench_must(lladd_stats_get(db, &a), "stats");
        uint64_t i0 = bench_instructions(), t0 = bench_now_ns();
        for (int i = 0; i < N; i++) {
            uint64_t v = bench_random(&seed);
            bench_must(lladd_bytes_set(txn, pages[v % PAGES], (uint32_t)(v >> 32) % 500 * 8, &v, 8),
                       "set");
        }
        double took = (double)(bench_now_ns() - t0) / N;
        double executed = (double)(bench_instructions() - i0) / N;
        bench_must(lladd_stats_get(db, &b), "stats");
        if (run >= 0) {
            bench_add(&ns, took);
            bench_add(&instructions, executed);
            bench_add(&bytes, (double)(b.log_bytes - a.log_bytes) / N);
        }
        bench_must(lladd_commit(txn), "commit");
        bench_must(lladd_checkpoint(db, NULL), "checkpoint");
    }
    bench_print(BENCH, "set 8 bytes, 1000 cached pages, one long transaction", "ns", &ns, "<= 80",
                "19");
    if (bench_median(&instructions) > 0) /* not every machine counts them */
        bench_print(BENCH, "set 8 bytes, instructions", "instructions", &instructions, "<= 300",
                    "67");
    bench_print(BENCH, "set 8 bytes, log bytes", "bytes", &bytes, "<= 64", NULL);
    free(pages);
    bench_must(lladd_close(db), "close");
    lladd_device_close(dev);
}

static void bench_begin(void)
{
    enum { PAGES = 1000, N = 1000000 };
    struct bench_figure rate = {.n = 0};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_txn_options t = {.struct_size = sizeof t, .durability = LLADD_DURABLE_LATER};
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct lladd_db *db = open_memory(dev, &o);
    lladd_pageno *pages = make_pages(db, PAGES);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t seed = (uint64_t)run + 1;
        unsigned char value[100];
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < N; i++) {
            struct lladd_txn *txn;
            uint64_t v = bench_random(&seed);
            memset(value, (int)v, sizeof value);
            bench_must(lladd_begin(db, &t, &txn, NULL), "begin");
            bench_must(lladd_bytes_set(txn, pages[v % PAGES], (uint32_t)(v >> 32) % 39 * 100, value,
                                 sizeof value),
                       "set");
            bench_must(lladd_commit(txn), "commit");
        }
        bench_add(&rate, N * 1e9 / (double)(bench_now_ns() - t0));
    }
    bench_print(BENCH, "begin, set 100 bytes, commit without waiting, one thread", "1/s", &rate,
                ">= 3000000", NULL);
    free(pages);
    bench_must(lladd_close(db), "close");
    lladd_device_close(dev);
}

struct recovered {
    double redo, whole; /* updates per second of redo alone, and of the recovery as a whole */
};

/* Recovers the crashed database in a child process. The changes that recovery makes stay in the
 * child, so the next run finds the same state. */
static struct recovered recover_in_child(struct lladd_device *dev, struct lladd_options *o,
                                         uint64_t updates)
{
    struct recovered r = {0, 0};
    int ends[2], status = 1;
    if (pipe(ends))
        exit(1);
    pid_t child = fork();
    if (child < 0)
        exit(1);
    if (child == 0) {
        struct lladd_stats s = {.struct_size = sizeof s};
        struct lladd_db *db = open_memory(dev, o);
        bench_must(lladd_stats_get(db, &s), "stats");
        if (s.recovered_redone < updates)
            _exit(1);
        r.redo = (double)updates * 1e9 / (double)s.recovery_redo_ns;
        r.whole = (double)updates * 1e9 / (double)s.recovery_ns;
        _exit(write(ends[1], &r, sizeof r) != (ssize_t)sizeof r);
    }
    if (waitpid(child, &status, 0) != child || status ||
        read(ends[0], &r, sizeof r) != (ssize_t)sizeof r) {
        fprintf(stderr, "bench: recovery failed\n");
        exit(1);
    }
    close(ends[0]);
    close(ends[1]);
    return r;
}

static void bench_redo_of(size_t n_pages, const char *what)
{
    enum { N = 2000000 };
    struct bench_figure redo[2] = {{.n = 0}, {.n = 0}}, whole[2] = {{.n = 0}, {.n = 0}};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    o.cache_bytes = 128u << 20;
    o.log_limit_bytes = o.checkpoint_bytes = UINT64_MAX;
    struct lladd_db *db = open_memory(dev, &o);
    lladd_pageno *pages = make_pages(db, n_pages);
    struct lladd_txn *txn;
    uint64_t seed = 1;
    unsigned char value[100];
    bench_must(lladd_checkpoint(db, NULL), "checkpoint");
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    for (int i = 0; i < N; i++) {
        uint64_t v = bench_random(&seed);
        memset(value, (int)v, sizeof value);
        value[0] = (unsigned char)i;
        value[99] = (unsigned char)(i >> 8);
        bench_must(lladd_bytes_set(txn, pages[v % n_pages], (uint32_t)(v >> 32) % 39 * 100, value,
                                   sizeof value),
                   "set");
    }
    bench_must(lladd_commit(txn), "commit");
    /* Another commit follows, because its seal says that the log was durable up to here. Without
     * this seal, recovery would write the log and the pages once more (REC-4 in
     * docs/wal-rules.md). */
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    bench_must(lladd_bytes_set(txn, pages[0], 0, &seed, 8), "set");
    bench_must(lladd_commit(txn), "commit");
    lladd_db_kill(db);
    for (int run = 0; run < 2 * BENCH_RUNS; run++) {
        o.redo_threads = run % 2 ? 1 : 0;
        struct recovered r = recover_in_child(dev, &o, N);
        bench_add(&redo[run % 2], r.redo);
        bench_add(&whole[run % 2], r.whole);
    }
    static const char *const threads[2] = {"all processors", "one thread"};
    for (int i = 0; i < 2; i++) {
        char name[160];
        snprintf(name, sizeof name, "redo alone, %s, %s", what, threads[i]);
        bench_print(BENCH, name, "records/s", &redo[i], ">= 10000000", "40 to 120 million");
        snprintf(name, sizeof name, "recovery as a whole, %s, %s", what, threads[i]);
        bench_print(BENCH, name, "records/s", &whole[i], NULL, NULL);
    }
    free(pages);
    lladd_device_close(dev);
}

static void bench_redo(void)
{
    bench_redo_of(10000, "200 updates of 100 bytes and a page image for each of 10000 pages");
    bench_redo_of(1000, "2000 updates of 100 bytes and a page image for each of 1000 pages");
}

/* ---- until the first read ---- */

struct opened {
    double first, all; /* milliseconds until the first read, and until all is redone and written */
};

static struct opened open_in_child(struct lladd_device *dev, struct lladd_options *o,
                                   lladd_pageno page)
{
    struct opened r = {0, 0};
    int ends[2], status = 1;
    if (pipe(ends))
        exit(1);
    pid_t child = fork();
    if (child < 0)
        exit(1);
    if (child == 0) {
        uint64_t value, t0 = bench_now_ns();
        struct lladd_db *db = open_memory(dev, o);
        bench_must(lladd_bytes_get(db, page, 0, &value, sizeof value, NULL), "get");
        r.first = (double)(bench_now_ns() - t0) / 1e6;
        bench_must(lladd_close(db), "close");
        r.all = (double)(bench_now_ns() - t0) / 1e6;
        _exit(write(ends[1], &r, sizeof r) != (ssize_t)sizeof r);
    }
    if (waitpid(child, &status, 0) != child || status ||
        read(ends[0], &r, sizeof r) != (ssize_t)sizeof r) {
        fprintf(stderr, "bench: opening failed\n");
        exit(1);
    }
    close(ends[0]);
    close(ends[1]);
    return r;
}

/* Writes 64 MiB of log after the last checkpoint, and a transaction that a crash interrupts. */
static struct lladd_db *write_log(struct lladd_device *dev, struct lladd_options *o,
                                  lladd_pageno *pages, size_t n_pages)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_db *db = open_memory(dev, o);
    struct lladd_txn *txn, *open;
    uint64_t seed = 1;
    unsigned char value[100];
    bench_must(lladd_begin(db, NULL, &open, NULL), "begin");
    for (int i = 0; i < 100; i++)
        bench_must(lladd_bytes_set(open, pages[i], 3900, &seed, 8), "set");
    do {
        bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
        for (int i = 0; i < 1000; i++) {
            uint64_t v = bench_random(&seed);
            memset(value, (int)v, sizeof value);
            bench_must(lladd_bytes_set(txn, pages[v % n_pages], (uint32_t)(v >> 32) % 38 * 100,
                                       value, sizeof value),
                       "set");
        }
        bench_must(lladd_commit(txn), "commit");
        bench_must(lladd_stats_get(db, &s), "stats");
    } while (s.redo_bytes < 64u << 20);
    return db;
}

static void bench_first_read(void)
{
    enum { N_PAGES = 10000 };
    struct bench_figure first[2] = {{.n = 0}, {.n = 0}}, all[2] = {{.n = 0}, {.n = 0}};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    o.cache_bytes = 128u << 20;
    o.log_limit_bytes = o.checkpoint_bytes = UINT64_MAX;
    struct lladd_db *db = open_memory(dev, &o);
    lladd_pageno *pages = make_pages(db, N_PAGES);
    bench_must(lladd_close(db), "close");
    db = write_log(dev, &o, pages, N_PAGES);
    lladd_db_kill(db);
    for (int run = 0; run < 2 * BENCH_RUNS; run++) {
        o.recovery = run % 2 ? LLADD_RECOVER_FULL : LLADD_RECOVER_INSTANT;
        struct opened r = open_in_child(dev, &o, pages[N_PAGES / 2]);
        bench_add(&first[run % 2], r.first);
        bench_add(&all[run % 2], r.all);
    }
    static const char *const how[2] = {"instant", "full"};
    for (int i = 0; i < 2; i++) {
        char name[160];
        snprintf(name, sizeof name,
                 "%s recovery, 64 MiB of log, 10000 pages: open and the first read", how[i]);
        bench_print(BENCH, name, "milliseconds", &first[i], i ? NULL : "<= 200", NULL);
        snprintf(name, sizeof name,
                 "%s recovery, 64 MiB of log, 10000 pages: until all is redone and written",
                 how[i]);
        bench_print(BENCH, name, "milliseconds", &all[i], NULL, NULL);
    }
    free(pages);
    lladd_device_close(dev);
}

/* ---- a large loser ---- */

/* Protects each change of bytes by a loser with a lock on the changed page. */
static int lock_page(struct lladd_txn *txn, uint64_t page)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(page)), LLADD_LOCK_X,
                              LLADD_LOCK_TRY);
}
static int protect(void *ctx, struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    uint32_t offset, len;
    (void)ctx;
    return lladd_logged_bytes(e, &offset, &len) ? lock_page(txn, e->page) : LLADD_NOT_FOUND;
}
static const struct lladd_participant protector = {
    .struct_size = sizeof protector, .name = "bench.protector", .version = 1, .protect = protect};

/* Writes one transaction of `updates` updates, spread over the pages. A crash interrupts it. */
static void write_loser(struct lladd_device *dev, struct lladd_options *o, lladd_pageno *pages,
                        size_t n_pages, unsigned updates)
{
    struct lladd_db *db = open_memory(dev, o);
    struct lladd_txn *txn;
    uint64_t seed = 1;
    unsigned char value[100];
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    for (unsigned i = 0; i < updates; i++) {
        uint64_t v = bench_random(&seed);
        memset(value, (int)v, sizeof value);
        bench_must(lladd_bytes_set(txn, pages[v % n_pages], (uint32_t)(v >> 32) % 38 * 100, value,
                             sizeof value),
                   "set");
    }
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    bench_must(lladd_bytes_set(txn, pages[n_pages], 0, &seed, 8), "set");
    bench_must(lladd_commit(txn), "commit");
    lladd_db_kill(db);
}

enum { LOSER_PAGES = 10000, LOSER_UPDATES = 1000000, LOSER_WAYS = 3 };

/* Recovers the loser in three ways, which take turns. */
static void recover_loser(struct lladd_device *dev, struct lladd_options *without,
                          struct lladd_options *with, lladd_pageno page, const char *cache)
{
    struct bench_figure first[LOSER_WAYS] = {{.n = 0}}, all[LOSER_WAYS] = {{.n = 0}};
    for (int run = 0; run < LOSER_WAYS * BENCH_RUNS; run++) {
        int way = run % LOSER_WAYS;
        struct lladd_options *use = way ? without : with;
        use->recovery = way == 2 ? LLADD_RECOVER_FULL : LLADD_RECOVER_INSTANT;
        struct opened r = open_in_child(dev, use, page);
        bench_add(&first[way], r.first);
        bench_add(&all[way], r.all);
    }
    static const char *const how[LOSER_WAYS] = {"instant recovery, undo after open",
                                                "instant recovery, undo before open",
                                                "full recovery"};
    for (int i = 0; i < LOSER_WAYS; i++) {
        char name[160];
        snprintf(name, sizeof name, "a loser of %d updates%s, %s: open and the first read",
                 LOSER_UPDATES, cache, how[i]);
        bench_print(BENCH, name, "milliseconds", &first[i], NULL, NULL);
        snprintf(name, sizeof name,
                 "a loser of %d updates%s, %s: until all is undone and written", LOSER_UPDATES,
                 cache, how[i]);
        bench_print(BENCH, name, "milliseconds", &all[i], NULL, NULL);
    }
}

static void bench_loser(void)
{
    struct lladd_options o = LLADD_OPTIONS_INIT, with = LLADD_OPTIONS_INIT;
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    o.cache_bytes = 128u << 20;
    o.log_limit_bytes = o.checkpoint_bytes = UINT64_MAX;
    struct lladd_db *db = open_memory(dev, &o);
    lladd_pageno *pages = make_pages(db, LOSER_PAGES + 1);
    bench_must(lladd_close(db), "close");
    write_loser(dev, &o, pages, LOSER_PAGES, LOSER_UPDATES);
    with = o;
    bench_must(lladd_lock_register(&with, NULL), "locks");
    bench_must(lladd_register_participant(&with, &protector, NULL), "protector");
    recover_loser(dev, &o, &with, pages[LOSER_PAGES], "");
    o.cache_bytes = with.cache_bytes = 16u << 20;
    recover_loser(dev, &o, &with, pages[LOSER_PAGES], ", a cache for 40 % of the pages");
    lladd_options_release(&with);
    free(pages);
    lladd_device_close(dev);
}

/* The options a simulator would use. */
static struct lladd_options small_options(void)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS;
    o.frames = LLADD_FRAMES_HEAP;
    o.cache_bytes = 256u << 10;
    o.log_segment_min = o.log_segment_max = o.log_ring_bytes = 64u << 10;
    return o;
}

static void bench_reopen(void)
{
    enum { N = 20000 };
    struct bench_figure small = {.n = 0}, large = {.n = 0};
    struct lladd_options o = small_options();
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    struct lladd_db *db = open_memory(dev, &o);
    free(make_pages(db, 8));
    bench_must(lladd_close(db), "close");
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < N; i++)
            bench_must(lladd_close(open_memory(dev, &o)), "close");
        bench_add(&small, (double)(bench_now_ns() - t0) / N / 1000);
    }
    bench_print(BENCH, "open and close a small database in memory, heap frames, no threads",
                "microseconds", &small, "<= 4", "1");
    lladd_device_close(dev);

    char dir[256];
    bench_make_dir(dir);
    struct lladd_options big = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    bench_must(lladd_open(dir, &big, &db, &err), "open");
    free(make_pages(db, 100000));
    bench_must(lladd_close(db), "close");
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t t0 = bench_now_ns();
        bench_must(lladd_open(dir, &big, &db, &err), "open");
        bench_add(&large, (double)(bench_now_ns() - t0) / 1e6);
        bench_must(lladd_close(db), "close");
    }
    bench_print(BENCH, "open after a clean close, 100000 pages on disk", "milliseconds", &large,
                "< 10", NULL);
    bench_remove_dir(dir);
}

/* ---- repeated crashes ---------------------------------------------------------------------- */

struct crashed {
    struct crashed_file {
        char name[64];
        unsigned char *bytes;
        uint64_t size;
    } files[16];
    size_t n;
    const char *folder; /* the directory that is being listed, with its slash */
};

static int note_file(void *ctx, const char *name)
{
    struct crashed *c = ctx;
    if (strcmp(name, "log") == 0)
        return 0;
    if (c->n == sizeof c->files / sizeof c->files[0])
        return -ENOSPC;
    struct crashed_file *f = &c->files[c->n++];
    int len = snprintf(f->name, sizeof f->name, "%s%s", c->folder, name);
    return len < 0 || (size_t)len >= sizeof f->name ? -ENAMETOOLONG : 0;
}

static void take_files(struct lladd_device *dev, struct crashed *c)
{
    c->folder = "";
    bench_must(dev->ops->list(dev, "", note_file, c), "list");
    c->folder = "log/";
    bench_must(dev->ops->list(dev, "log", note_file, c), "list");
    for (size_t i = 0; i < c->n; i++) {
        struct crashed_file *f = &c->files[i];
        struct lladd_file *file;
        bench_must(dev->ops->open(dev, f->name, LLADD_OPEN_READ_ONLY, &file), "open");
        bench_must(dev->ops->size(dev, file, &f->size), "size");
        f->bytes = malloc(f->size + 1);
        if (!f->bytes || dev->ops->pread(dev, file, f->bytes, f->size, 0) != (int64_t)f->size)
            bench_must(LLADD_NO_MEMORY, "read");
        bench_must(dev->ops->close(dev, file), "close");
    }
}

static struct lladd_device *put_files(const struct crashed *c)
{
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    bench_must(dev->ops->mkdir(dev, "log"), "mkdir");
    for (size_t i = 0; i < c->n; i++) {
        const struct crashed_file *f = &c->files[i];
        struct lladd_iovec all = {f->bytes, f->size};
        struct lladd_file *file;
        bench_must(dev->ops->open(dev, f->name, LLADD_OPEN_CREATE, &file), "create");
        bench_must(dev->ops->pwritev(dev, file, &all, 1, 0), "write");
        bench_must(dev->ops->close(dev, file), "close");
    }
    return dev;
}

/* Makes a crashed database of eight pages. Since the last checkpoint there were five commits and a
 * transaction that did not end: 43 records and eight page images. */
static void crash(struct lladd_device *dev, struct lladd_options *o)
{
    enum { PAGES = 8 };
    struct lladd_txn *loser, *txn;
    struct lladd_db *db = open_memory(dev, o);
    lladd_pageno *pages = make_pages(db, PAGES);
    bench_must(lladd_close(db), "close");
    db = open_memory(dev, o);
    bench_must(lladd_begin(db, NULL, &loser, NULL), "begin");
    for (uint32_t k = 0; k < 5; k++) {
        uint64_t value = k;
        bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
        for (size_t i = 0; i < PAGES - 1; i++)
            bench_must(lladd_bytes_set(txn, pages[i], k * 64, &value, 8), "set");
        if (k < 3)
            bench_must(lladd_bytes_set(loser, pages[PAGES - 1], k * 64, &value, 8), "set");
        bench_must(lladd_commit(txn), "commit");
    }
    lladd_db_kill(db);
    free(pages);
}

static void bench_crash(void)
{
    enum { N = 5000 };
    struct bench_figure us = {.n = 0};
    struct crashed c = {.n = 0};
    struct lladd_options o = small_options();
    struct lladd_device *dev;
    bench_must(lladd_device_memory(&dev), "device");
    crash(dev, &o);
    take_files(dev, &c);
    lladd_device_close(dev);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t ns = 0;
        for (int i = 0; i < N; i++) {
            dev = put_files(&c);
            uint64_t t0 = bench_now_ns();
            lladd_db_kill(open_memory(dev, &o));
            ns += bench_now_ns() - t0;
            lladd_device_close(dev);
        }
        bench_add(&us, (double)ns / N / 1000);
    }
    bench_print(BENCH,
                "recover a small crashed database in memory (38 updates, 8 pages) and drop it",
                "microseconds", &us, NULL, NULL);
    for (size_t i = 0; i < c.n; i++)
        free(c.files[i].bytes);
}

/* Measures how far memory exceeds the budget in a transaction that updates ten times the cache. */
static void bench_large(void)
{
    enum { BUDGET = 32 << 20, PAGES = 10 * BUDGET / 4096 };
    struct bench_figure over = {.n = 0}, rate = {.n = 0};
    char dir[256];
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    struct rusage u;
    bench_make_dir(dir);
    o.cache_bytes = BUDGET;
    bench_must(lladd_open(dir, &o, &db, &err), "open");
    lladd_pageno *pages = make_pages(db, PAGES);
    bench_must(lladd_begin(db, NULL, &txn, NULL), "begin");
    uint64_t t0 = bench_now_ns();
    for (int i = 0; i < PAGES; i++)
        for (uint32_t k = 0; k < 4; k++)
            bench_must(lladd_bytes_set(txn, pages[i], k * 1000, &t0, 8), "set");
    bench_must(lladd_commit(txn), "commit");
    bench_add(&rate, 4.0 * PAGES * 1e9 / (double)(bench_now_ns() - t0));
    getrusage(RUSAGE_SELF, &u);
    bench_add(&over, (double)u.ru_maxrss / 1024 - BUDGET / 1048576.0);
    free(pages);
    bench_must(lladd_close(db), "close");
    bench_remove_dir(dir);
    bench_print(BENCH, "one transaction over ten times the cache, peak memory beyond the budget",
                "MiB", &over, "<= 32", NULL);
    bench_print(BENCH, "one transaction over ten times the cache, updates", "1/s", &rate, NULL,
                NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"large", bench_large},
                 {"set", bench_set},
                 {"begin", bench_begin},
                 {"redo", bench_redo},
                 {"first", bench_first_read},
                 {"loser", bench_loser},
                 {"reopen", bench_reopen},
                 {"crash", bench_crash}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (wanted)
            cases[i].run();
    }
    return 0;
}
