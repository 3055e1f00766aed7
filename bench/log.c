/* SPDX-License-Identifier: BSD-2-Clause */
/* The log layer alone: appends; durable commits by 1 to 64 threads, compared with a bare loop of
 * equally large writes; asynchronous commits; opening and closing; scans. Prints JSON lines; see
 * docs/benchmarks.md.
 *
 *   bench-log [case]...   cases: append commit threads async open recover scan; default: all */
#include "common.h"

#include "log/log.h"
#include "log/log_format.h"

#include <fcntl.h>
#include <lladd/sync.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH "log"
#define SECOND UINT64_C(1000000000)

enum { PAYLOAD = 100, SLICE_NS = 100000000 };

/* ---- a log ------------------------------------------------------------------------------- */

struct subject {
    struct ll_env env;
    struct ll_poison poison;
    struct ll_log_config cfg;
    struct lladd_device *dev;
    struct ll_log *log;
    char dir[256];
};

static void subject_init(struct subject *s, const char *dir, uint64_t ring)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(s, 0, sizeof *s);
    ll_env_init(&s->env, NULL, NULL, dir != NULL);
    if (dir)
        bench_must(lladd_device_posix(dir, true, &s->dev, &err), "device");
    else
        bench_must(lladd_device_memory(&s->dev), "device");
    ll_poison_init(&s->poison);
    s->cfg = (struct ll_log_config){.env = &s->env,
                                    .poison = &s->poison,
                                    .dev = s->dev,
                                    .uuid = "a benched log",
                                    .incarnation = 1,
                                    .segment_min = 1 << 20,
                                    .segment_max = 64 << 20,
                                    .ring_bytes = ring};
    int rc = ll_log_create(&s->cfg, &s->log, &err);
    if (rc) {
        fprintf(stderr, "bench: %s\n", err.message);
        exit(1);
    }
}

static void subject_free(struct subject *s)
{
    ll_log_close(s->log);
    lladd_device_close(s->dev);
}

static const unsigned char payload[PAYLOAD];

static lladd_lsn append(struct ll_log *log, struct ll_credit *credit, lladd_lsn prev)
{
    struct ll_record rec = {.kind = LL_REC_UPDATE,
                            .flags = LL_REC_UNDO_PAGE,
                            .page = prev.v & 1023,
                            .op = 1,
                            .prev = prev,
                            .txn = prev,
                            .page_prev = prev,
                            .redo = {payload, PAYLOAD}};
    bench_must(ll_log_credit(log, credit, ll_record_bound(PAYLOAD, 0), NULL), "credit");
    ll_log_reserve(log, credit, &rec, true);
    ll_log_publish(log, &rec);
    return rec.lsn;
}

static void truncate_all(struct ll_log *log, lladd_lsn lsn)
{
    bench_must(ll_log_force(log, lsn, NULL), "force");
    bench_must(ll_log_truncate(log, ll_log_durable(log), NULL), "truncate");
}

/* ---- append, not waiting ----------------------------------------------------------------- */

enum { APPENDS = 4000000, TRUNCATE_EVERY = 65536 };

struct appender {
    struct ll_log *log;
    uint64_t count;
    bool truncates;
    pthread_t thread;
};

static void *appender_run(void *arg)
{
    struct appender *a = arg;
    struct ll_credit credit = {0};
    lladd_lsn prev = {0};
    for (uint64_t i = 1; i <= a->count; i++) {
        prev = append(a->log, &credit, prev);
        if (i % 64 == 0)
            ll_log_credit_trim(a->log, &credit);
        if (a->truncates && i % TRUNCATE_EVERY == 0)
            truncate_all(a->log, prev);
    }
    ll_log_credit_return(a->log, &credit);
    return NULL;
}

static double run_appenders(struct ll_log *log, int threads)
{
    struct appender a[2];
    uint64_t start = bench_now_ns();
    for (int i = 0; i < threads; i++) {
        a[i] = (struct appender){
            .log = log, .count = APPENDS / (uint64_t)threads, .truncates = i == 0};
        if (i > 0)
            bench_must(pthread_create(&a[i].thread, NULL, appender_run, &a[i]), "thread");
    }
    appender_run(&a[0]);
    for (int i = 1; i < threads; i++)
        bench_must(pthread_join(a[i].thread, NULL), "join");
    return (double)APPENDS / (double)(bench_now_ns() - start) * 1000;
}

static void bench_append(void)
{
    for (int threads = 1; threads <= 2; threads++) {
        struct bench_figure f = {.n = 0};
        struct subject s;
        subject_init(&s, NULL, 1 << 20);
        run_appenders(s.log, threads); /* warms up: creates segments and pages */
        for (int run = 0; run < BENCH_RUNS; run++)
            bench_add(&f, run_appenders(s.log, threads));
        subject_free(&s);
        bench_print(BENCH, threads == 1 ? "append-100B-1-thread" : "append-100B-2-threads",
                    "million/s", &f, threads == 1 ? ">=10" : "at least as with 1",
                    threads == 1 ? "43" : "10-44");
    }
}

/* ---- a bare loop of the same writes ------------------------------------------------------ */

struct bare {
    int fd;
    uint64_t off, size;
    char path[300];
};

static void bare_init(struct bare *b, const char *dir)
{
    static unsigned char zeros[1 << 20];
    snprintf(b->path, sizeof b->path, "%s/bare", dir);
    b->fd = open(b->path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    b->off = 0;
    b->size = 16u << 20;
    for (uint64_t off = 0; off < b->size; off += sizeof zeros)
        bench_must(pwrite(b->fd, zeros, sizeof zeros, (off_t)off) != sizeof zeros, "pwrite");
    bench_must(fdatasync(b->fd), "fdatasync");
}

static void bare_free(struct bare *b)
{
    close(b->fd);
    unlink(b->path);
}

/* A write as long as a commit of one record: the record and its seal. */
static void bare_commit(struct bare *b)
{
    unsigned char bytes[192];
    memset(bytes, (int)b->off, sizeof bytes);
    if (b->off + sizeof bytes > b->size)
        b->off = 0;
    bench_must(pwrite(b->fd, bytes, sizeof bytes, (off_t)b->off) != sizeof bytes, "pwrite");
    bench_must(fdatasync(b->fd), "fdatasync");
    b->off += sizeof bytes;
}

struct cost {
    double rate; /* per second */
    double cpu;  /* microseconds of the process per operation */
};

static struct cost bare_slice(struct bare *b)
{
    uint64_t start = bench_now_ns(), cpu = bench_cpu_ns(), n = 0;
    while (bench_now_ns() - start < SLICE_NS) {
        bare_commit(b);
        n++;
    }
    return (struct cost){(double)n * 1e9 / (double)(bench_now_ns() - start),
                         (double)(bench_cpu_ns() - cpu) / 1000 / (double)n};
}

/* ---- durable commits by many threads ----------------------------------------------------- */

struct committer {
    struct ll_log *log;
    uint64_t *go; /* 0 hold, 1 commit, 2 end */
    uint64_t done;
    pthread_t thread;
};

static void *committer_run(void *arg)
{
    struct committer *c = arg;
    struct ll_credit credit = {0};
    lladd_lsn prev = {0};
    for (;;) {
        uint64_t go = lladd_atomic_load64(c->go);
        if (go == 2)
            break;
        if (go == 0) {
            usleep(1000);
            continue;
        }
        prev = append(c->log, &credit, prev);
        ll_log_credit_trim(c->log, &credit);
        bench_must(ll_log_force(c->log, prev, NULL), "force");
        lladd_atomic_add64(&c->done, 1);
    }
    ll_log_credit_return(c->log, &credit);
    return NULL;
}

static uint64_t total(struct committer *c, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += lladd_atomic_load64(&c[i].done);
    return sum;
}

static struct cost commit_slice(struct committer *c, int n, uint64_t *go)
{
    struct ll_log_stats before, after;
    ll_log_stats(c[0].log, &before);
    uint64_t start = bench_now_ns(), cpu = bench_cpu_ns(), done = total(c, n);
    lladd_atomic_store64(go, 1);
    usleep(SLICE_NS / 1000);
    uint64_t now = bench_now_ns(), end_cpu = bench_cpu_ns();
    done = total(c, n) - done;
    lladd_atomic_store64(go, 0);
    usleep(3000);
    ll_log_stats(c[0].log, &after);
    if (n == 1 && after.syncs - before.syncs != after.groups - before.groups)
        bench_must(-1, "one sync per commit");
    return (struct cost){(double)done * 1e9 / (double)(now - start),
                         (double)(end_cpu - cpu) / 1000 / (double)(done ? done : 1)};
}

/* Alternates slices of the bare loop and of the log. Prints the log's rate. Unless `quiet`, prints
 * also the ratio of this rate to the bare rate. With one thread, prints also the bare rate and the
 * difference in CPU time. */
static void compare_commits(int threads, bool quiet)
{
    struct bench_figure rate = {.n = 0}, ratio = {.n = 0}, over = {.n = 0}, bare_rate = {.n = 0};
    struct committer c[64];
    struct bare b;
    struct subject s;
    char dir[256], what[64];
    uint64_t go = 0;
    bench_make_dir(dir);
    bare_init(&b, dir);
    subject_init(&s, dir, 1 << 20);
    for (int i = 0; i < threads; i++) {
        c[i] = (struct committer){.log = s.log, .go = &go};
        bench_must(pthread_create(&c[i].thread, NULL, committer_run, &c[i]), "thread");
    }
    for (int i = 0; i < 2 * BENCH_RUNS + 2; i++) {
        struct cost bare = bare_slice(&b);
        struct cost log = commit_slice(c, threads, &go);
        bench_must(ll_log_truncate(s.log, ll_log_durable(s.log), NULL), "truncate");
        if (i < 2)
            continue; /* warming up */
        bench_add(&rate, log.rate);
        bench_add(&bare_rate, bare.rate);
        bench_add(&ratio, log.rate / bare.rate);
        bench_add(&over, log.cpu - bare.cpu);
    }
    lladd_atomic_store64(&go, 2);
    for (int i = 0; i < threads; i++)
        bench_must(pthread_join(c[i].thread, NULL), "join");
    subject_free(&s);
    bare_free(&b);
    bench_remove_dir(dir);
    snprintf(what, sizeof what, "durable-commits-%d-threads", threads);
    bench_print(BENCH, what, "1/s", &rate, NULL, NULL);
    if (threads == 1) {
        bench_print(BENCH, "bare-pwrite-fdatasync", "1/s", &bare_rate, NULL, NULL);
        bench_print(BENCH, "durable-commit-cpu-above-bare", "us", &over, "<=5", NULL);
    }
    if (!quiet) {
        snprintf(what, sizeof what, "durable-commits-%d-threads-to-bare", threads);
        bench_print(BENCH, what, "ratio", &ratio, threads == 64 ? ">=15" : NULL,
                    threads == 64 ? "20-25" : NULL);
    }
}

/* ---- one thread, many commits in flight -------------------------------------------------- */

enum { WINDOW = 1000, ASYNC = 2000000 };

static double async_run(struct ll_log *log)
{
    static lladd_lsn window[WINDOW];
    struct ll_credit credit = {0};
    lladd_lsn prev = {0};
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < ASYNC; i++) {
        if (i >= WINDOW)
            bench_must(ll_log_force(log, window[i % WINDOW], NULL), "force");
        prev = append(log, &credit, prev);
        window[i % WINDOW] = prev;
    }
    bench_must(ll_log_force(log, prev, NULL), "force");
    ll_log_credit_return(log, &credit);
    return (double)ASYNC / (double)(bench_now_ns() - start) * 1000;
}

static void bench_async(void)
{
    struct bench_figure f = {.n = 0};
    struct subject s;
    char dir[256];
    bench_make_dir(dir);
    subject_init(&s, dir, 1 << 20);
    async_run(s.log);
    for (int run = 0; run < BENCH_RUNS; run++) {
        bench_must(ll_log_truncate(s.log, ll_log_durable(s.log), NULL), "truncate");
        bench_add(&f, async_run(s.log));
    }
    subject_free(&s);
    bench_remove_dir(dir);
    bench_print(BENCH, "async-window-1000", "million/s", &f, ">=1.5", "4.6");
}

/* ---- open and close ---------------------------------------------------------------------- */

static void bench_open(void)
{
    enum { OPENS = 100000 };
    struct bench_figure f = {.n = 0};
    struct subject s;
    struct ll_log_start start = {.clean = true};
    struct ll_credit credit = {0};
    subject_init(&s, NULL, 65536);
    append(s.log, &credit, lladd_lsn_of(0));
    bench_must(ll_log_finish(s.log, &start.end, NULL), "finish");
    ll_log_newest_segment(s.log, &start.segment, &start.segment_bytes);
    start.from = start.watermark = start.end;
    ll_log_close(s.log);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t begin = bench_now_ns();
        for (int i = 0; i < OPENS; i++) {
            lladd_lsn end;
            bench_must(ll_log_open(&s.cfg, &start, &s.log, NULL), "open");
            bench_must(ll_log_start(s.log, NULL), "start");
            bench_must(ll_log_finish(s.log, &end, NULL), "finish");
            ll_log_close(s.log);
        }
        bench_add(&f, (double)(bench_now_ns() - begin) / OPENS);
    }
    lladd_device_close(s.dev);
    bench_print(BENCH, "open-start-close-clean-memory", "ns", &f, "<=1200", NULL);
}

static int ignore(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    (void)ctx;
    (void)rec;
    (void)err;
    return 0;
}

/* The log's part of a recovery: list segments, scan 40 records, look past the end, truncate,
 * continue in a new segment. The simulator does this for each crash state. */
static void bench_recover(void)
{
    enum { OPENS = 20000 };
    struct bench_figure f = {.n = 0};
    struct subject s;
    struct ll_log_start start = {.from = {LL_LOG_FIRST_LSN}, .watermark = {LL_LOG_FIRST_LSN}};
    struct ll_credit credit = {0};
    lladd_lsn prev = {0};
    subject_init(&s, NULL, 65536);
    ll_log_close(s.log);
    lladd_device_close(s.dev);
    bench_must(lladd_device_memory(&s.dev), "device");
    s.cfg.dev = s.dev;
    s.cfg.segment_min = s.cfg.segment_max = 65536;
    bench_must(ll_log_create(&s.cfg, &s.log, NULL), "create");
    for (int i = 0; i < 40; i++)
        prev = append(s.log, &credit, prev);
    bench_must(ll_log_force(s.log, prev, NULL), "force");
    ll_log_close(s.log);
    for (int run = 0; run < BENCH_RUNS; run++) {
        uint64_t begin = bench_now_ns();
        for (int i = 0; i < OPENS; i++) {
            s.cfg.incarnation++;
            bench_must(ll_log_open(&s.cfg, &start, &s.log, NULL), "open");
            bench_must(ll_log_scan(s.log, ignore, NULL, NULL), "scan");
            bench_must(ll_log_start(s.log, NULL), "start");
            ll_log_close(s.log);
        }
        bench_add(&f, (double)(bench_now_ns() - begin) / OPENS);
    }
    lladd_device_close(s.dev);
    bench_print(BENCH, "open-scan-start-close-crashed-memory", "ns", &f, NULL, NULL);
}

/* The speed of reading a long log. */
static void bench_scan(void)
{
    enum { RECORDS = 1000000 };
    struct bench_figure f = {.n = 0};
    struct subject s;
    struct ll_log_start start = {.from = {LL_LOG_FIRST_LSN}, .clean = true};
    struct ll_credit credit = {0};
    lladd_lsn prev = {0};
    subject_init(&s, NULL, 1 << 20);
    for (int i = 0; i < RECORDS; i++)
        prev = append(s.log, &credit, prev);
    ll_log_credit_return(s.log, &credit);
    bench_must(ll_log_finish(s.log, &start.end, NULL), "finish");
    ll_log_close(s.log);
    for (int run = 0; run < BENCH_RUNS; run++) {
        bench_must(ll_log_open(&s.cfg, &start, &s.log, NULL), "open");
        uint64_t begin = bench_now_ns();
        bench_must(ll_log_scan(s.log, ignore, NULL, NULL), "scan");
        bench_add(&f, RECORDS * 1e3 / (double)(bench_now_ns() - begin));
        ll_log_close(s.log);
    }
    lladd_device_close(s.dev);
    bench_print(BENCH, "scan-100B-records", "million/s", &f, NULL, NULL);
}

/* ---- */

static void bench_commit(void)
{
    compare_commits(1, true);
}

static void bench_threads(void)
{
    const int threads[] = {2, 8, 32, 64};
    for (unsigned i = 0; i < sizeof threads / sizeof threads[0]; i++)
        compare_commits(threads[i], false);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"append", bench_append},
                 {"commit", bench_commit},
                 {"threads", bench_threads},
                 {"async", bench_async},
                 {"open", bench_open},
                 {"recover", bench_recover},
                 {"scan", bench_scan}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], cases[i].name) == 0;
        if (wanted)
            cases[i].run();
    }
    return 0;
}
