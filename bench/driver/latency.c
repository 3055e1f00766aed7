/* SPDX-License-Identifier: BSD-2-Clause */
/* W8: latency of durable commits while checkpoints run. The first phase, at full load and with one
 * checkpoint, gives the peak rate and the curve of the throughput. Three phases at half of the peak
 * follow: without checkpoints; with one checkpoint after the other; and, after the database was
 * opened again, with a checkpoint after every NATURAL bytes of log. The engine itself starts these
 * last checkpoints, if it can. At half load each commit has a time at which it should begin, and
 * its latency counts from that time: a commit that starts late because the previous one was slow
 * counts the delay too. */
#include "driver.h"

#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS 100000000u /* between two checkpoints, or two looks at the log */
#define NATURAL (UINT64_C(16) << 20)
#define SECOND 1000000000u

struct load {
    uint64_t begun, length_ns;
    uint64_t interval_ns; /* between commits of one thread; 0: no pause */
    uint64_t slice_ns;
    uint32_t slices[ROW_SLICES];
};

static int wait_until(uint64_t at)
{
    struct timespec t = {.tv_sec = (time_t)(at / SECOND), .tv_nsec = (long)(at % SECOND)};
    int rc;
    do
        rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    while (rc == EINTR);
    return rc;
}

static int commit_at_times(struct worker *w)
{
    struct load *l = w->shared;
    const struct cell *c = w->cell;
    uint64_t end = l->begun + l->length_ns;
    uint64_t due = l->begun + l->interval_ns * w->index / c->threads;
    uint64_t share = c->records / c->threads;
    int rc = 0;
    for (;;) {
        uint64_t now = bench_now_ns();
        if (l->interval_ns && due > now && due < end)
            rc = wait_until(due);
        else if (!l->interval_ns)
            due = now;
        if (rc || due >= end)
            return rc ? bench_failed("driver", "sleep", strerror(rc)) : 0;
        uint64_t i = bench_random(&w->seed) % (share ? share : 1) * c->threads + w->index;
        rc = cell_update(c, w->db, w->thread, i, (uint32_t)w->ops + 1, &w->retries);
        if (rc)
            return rc;
        now = bench_now_ns();
        hist_add(&w->hist, now - due);
        uint64_t slice = (now - l->begun) / l->slice_ns;
        if (slice < ROW_SLICES)
            __atomic_fetch_add(&l->slices[slice], 1, __ATOMIC_RELAXED);
        w->ops++;
        due += l->interval_ns;
    }
}

/* ---- the thread that takes checkpoints ------------------------------------------------------- */

struct keeper {
    const struct bench_engine *engine;
    struct bench_db *db;
    uint64_t first_at, end;
    bool once;
    uint64_t every; /* bytes of log between two checkpoints; 0: one after the other */
    double from_s, to_s; /* the first checkpoint, in seconds after `begun` */
    uint64_t begun;
    int rc;
    pthread_t thread;
};

/* Waits until `every` bytes of log have been written since *seen, or the phase ends. */
static int wait_for_log(const struct keeper *k, uint64_t *seen)
{
    struct counts now;
    int rc = 0;
    for (count_read(&now); !rc && now.log_bytes - *seen < k->every && bench_now_ns() < k->end;
         count_read(&now))
        rc = wait_until(bench_now_ns() + PAUSE_NS);
    *seen = now.log_bytes;
    return rc;
}

static void *keep(void *arg)
{
    struct keeper *k = arg;
    struct counts at;
    count_read(&at);
    int rc = wait_until(k->first_at);
    for (uint64_t n = 0; !rc && bench_now_ns() < k->end && !(k->once && n); n++) {
        rc = wait_for_log(k, &at.log_bytes);
        if (rc || bench_now_ns() >= k->end)
            break;
        uint64_t t0 = bench_now_ns();
        rc = k->engine->checkpoint(k->db);
        if (n == 0) {
            k->from_s = (double)(t0 - k->begun) / 1e9;
            k->to_s = (double)(bench_now_ns() - k->begun) / 1e9;
        }
        uint64_t next = bench_now_ns() + PAUSE_NS;
        rc = rc ? rc : wait_until(next < k->end ? next : k->end);
    }
    k->rc = rc;
    return NULL;
}

enum checkpoints { NEVER, ONCE, ALWAYS, BY_LOG };

static int phase(const struct cell *c, struct bench_db *db, const char *name, double rate,
                 enum checkpoints when, double *reached)
{
    struct row r = row_init(name);
    uint64_t length = c->seconds * SECOND;
    struct load l = {.begun = bench_now_ns(), .length_ns = length,
                     .slice_ns = length / (ROW_SLICES / 2)};
    l.interval_ns = rate > 0 ? (uint64_t)((double)SECOND * c->threads / rate) : 0;
    struct keeper k = {.engine = c->engine, .db = db, .begun = l.begun, .once = when == ONCE,
                       .first_at = l.begun + (when == ONCE ? length / 3 : 0),
                       .every = when == BY_LOG ? NATURAL : 0,
                       .end = l.begun + length};
    if (when != NEVER)
        bench_must(pthread_create(&k.thread, NULL, keep, &k), "pthread_create");
    int rc = workers_run(c, db, commit_at_times, &l, &r);
    if (when != NEVER) {
        bench_must(pthread_join(k.thread, NULL), "pthread_join");
        rc = rc ? rc : k.rc;
        r.mark_from_s = k.from_s;
        r.mark_to_s = k.to_s;
    }
    r.slice_s = (double)l.slice_ns / 1e9;
    r.n_slices = ROW_SLICES / 2;
    memcpy(r.slices, l.slices, sizeof r.slices);
    *reached = (double)r.ops / r.elapsed_s;
    if (!rc)
        cell_send(c, &r);
    return rc;
}

/* If the cell's seconds are too few for INTERVALS checkpoints, the phase lasts as long as that many
 * checkpoints take, but at most ten times the cell's seconds. The duration follows from
 * LOG_A_COMMIT, an estimate of the log bytes of a commit. */
static int run_natural(const struct cell *c, double rate)
{
    enum { LOG_A_COMMIT = 160, INTERVALS = 3 };
    struct bench_setup s = cell_setup(c, c->records);
    struct cell longer = *c;
    struct bench_db *db;
    double unused;
    uint64_t seconds = 1 + (uint64_t)(INTERVALS * (double)NATURAL / (LOG_A_COMMIT * rate));
    if (c->seconds > 1 && seconds > c->seconds)
        longer.seconds = seconds < 10 * c->seconds ? seconds : 10 * c->seconds;
    s.checkpoint_log = NATURAL;
    int rc = c->engine->open(&s, &db);
    rc = rc ? rc : phase(&longer, db, "half-load-natural", rate,
                         c->engine->checkpoints ? NEVER : BY_LOG, &unused);
    return rc ? rc : c->engine->close(db);
}

int run_latency(const struct cell *c)
{
    double peak = 0, half;
    struct bench_db *db;
    int rc = cell_open(c, c->records, &db);
    rc = rc ? rc : phase(c, db, "peak", 0, ONCE, &peak);
    rc = rc ? rc : phase(c, db, "half-load", peak / 2, NEVER, &half);
    rc = rc ? rc : phase(c, db, "half-load-checkpoints", peak / 2, ALWAYS, &half);
    rc = rc ? rc : c->engine->close(db);
    return rc ? rc : run_natural(c, peak / 2);
}
