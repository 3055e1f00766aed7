/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions shared by the workloads. They run in the child; the parent calls row_init too. */
#include "driver.h"

#include "common.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Records per transaction while loading. Uncommitted changes must fit into part of the cache, and
 * each record may change a page of its own. WiredTiger, with its pages of 32 KiB, writes changes of
 * a larger transaction to a side file, and takes many times as long. */
#define PIECE_MAX 100000u
#define PIECE_BYTES 65536u

/* A bijection of the numbers below 2^32. */
static uint64_t mixed(uint64_t i)
{
    uint32_t x = (uint32_t)i;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

uint64_t cell_key(const struct cell *c, uint64_t i)
{
    return c->engine->numbered || c->c->in_order ? i : mixed(i);
}

struct bench_setup cell_setup(const struct cell *c, uint64_t expected)
{
    return (struct bench_setup){.dir = c->dir,
                                .cache_bytes = c->cache,
                                .expected = expected,
                                .txn_ops = c->c->txn_ops ? c->c->txn_ops : c->n,
                                .key_size = c->key_size,
                                .value_size = c->value_size,
                                .threads = c->threads,
                                .level = c->c->level,
                                .keep_log = c->c->keep_log};
}

int cell_open(const struct cell *c, uint64_t expected, struct bench_db **out)
{
    struct bench_setup s = cell_setup(c, expected);
    return c->engine->open(&s, out);
}

int cell_join(const struct cell *c, struct bench_db *db, struct bench_thread **out)
{
    *out = NULL;
    return c->engine->join ? c->engine->join(db, out) : 0;
}

void cell_leave(const struct cell *c, struct bench_db *db, struct bench_thread *t)
{
    if (t && c->engine->leave)
        c->engine->leave(db, t);
}

/* The value begins with the record's number, so that a lookup can be checked. The rest is
 * pseudo-random and depends on the version, so that an engine that logs only changed bytes must log
 * nearly all of it. */
void cell_value(const struct cell *c, uint64_t i, uint32_t version, void *value)
{
    unsigned char *out = value;
    uint32_t at = c->value_size < sizeof i ? c->value_size : sizeof i;
    uint64_t x = (i << 32 | version) + 1;
    memcpy(out, &i, at);
    while (at < c->value_size) {
        uint64_t word = (x += 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        uint32_t n = c->value_size - at < sizeof word ? c->value_size - at : sizeof word;
        memcpy(out + at, &word, n);
        at += n;
    }
}

int cell_end(const struct cell *c, struct bench_db *db, struct bench_txn *txn, int rc)
{
    if (!rc)
        return c->engine->commit(db, txn);
    if (rc == BENCH_AGAIN && c->engine->abort(db, txn))
        return BENCH_FAILED;
    return rc;
}

int cell_update(const struct cell *c, struct bench_db *db, struct bench_thread *t, uint64_t i,
                uint32_t version, uint64_t *retries)
{
    unsigned char value[4096];
    struct bench_txn *txn;
    const struct bench_engine *e = c->engine;
    cell_value(c, i, version, value);
    for (;;) {
        int rc = e->begin(db, t, &txn);
        if (!rc)
            rc = e->update(db, txn, cell_key(c, i), value);
        rc = cell_end(c, db, txn, rc);
        if (rc != BENCH_AGAIN)
            return rc;
        ++*retries;
    }
}

static int load_piece(const struct cell *c, struct bench_db *db, struct bench_thread *t,
                      uint64_t from, uint64_t to)
{
    unsigned char value[4096];
    struct bench_txn *txn;
    const struct bench_engine *e = c->engine;
    int rc = e->begin(db, t, &txn);
    if (rc)
        return rc;
    for (uint64_t i = from; !rc && i < to; i++) {
        cell_value(c, i, 0, value);
        rc = e->insert(db, txn, cell_key(c, i), value);
    }
    return cell_end(c, db, txn, rc);
}

int load_records(const struct cell *c)
{
    struct cell loading = *c;
    struct bench_case kind = *c->c;
    struct bench_db *db = NULL;
    struct bench_thread *t;
    kind.level = BENCH_OS; /* enough while loading: the close makes everything durable */
    kind.keep_log = false;
    loading.c = &kind;
    int rc = cell_open(&loading, c->records, &db);
    if (!rc)
        rc = cell_join(c, db, &t);
    uint64_t piece = c->cache / PIECE_BYTES < PIECE_MAX ? c->cache / PIECE_BYTES : PIECE_MAX;
    for (uint64_t at = 0; !rc && at < c->records; at += piece)
        do
            rc = load_piece(c, db, t, at, at + piece < c->records ? at + piece : c->records);
        while (rc == BENCH_AGAIN);
    if (rc)
        return rc;
    cell_leave(c, db, t);
    return c->engine->close(db);
}

/* ---- meters and rows ------------------------------------------------------------------------- */

static void io_of(const struct cell *c, struct bench_db *db, double *log, double *in, double *out)
{
    uint64_t bytes = 0, pages_in = 0, pages_out = 0;
    *log = *in = *out = NAN;
    if (!c->engine->io)
        return;
    if (db)
        c->engine->io(db, &bytes, &pages_in, &pages_out);
    *log = (double)bytes;
    *in = (double)pages_in;
    *out = (double)pages_out;
}

void meter_start(struct meter *m, const struct cell *c, struct bench_db *db)
{
    io_of(c, db, &m->log0, &m->read0, &m->written0);
    count_read(&m->counts0);
    m->device0 = count_device_bytes(c->dir);
    m->cpu0 = bench_cpu_ns();
    m->t0 = bench_now_ns();
}

void meter_stop(const struct meter *m, const struct cell *c, struct bench_db *db, struct row *r)
{
    struct counts now;
    double log, in, out;
    r->elapsed_s = (double)(bench_now_ns() - m->t0) / 1e9;
    r->device_bytes = count_device_bytes(c->dir) - m->device0;
    if (c->engine->apart && db)
        return;
    r->cpu_us = (double)(bench_cpu_ns() - m->cpu0) / 1e3;
    count_read(&now);
    r->syncs = (double)(now.syncs - m->counts0.syncs);
    r->written_bytes = (double)(now.written_bytes - m->counts0.written_bytes);
    io_of(c, db, &log, &in, &out);
    if (c->engine->io && db) {
        r->log_bytes = log - m->log0;
        r->pages_read = in - m->read0;
        r->pages_written = out - m->written0;
    } else if (c->engine->log_files) {
        r->log_bytes = (double)(now.log_bytes - m->counts0.log_bytes);
    }
}

struct row row_init(const char *name)
{
    struct row r = {.elapsed_s = NAN, .cpu_us = NAN, .p50_us = NAN, .p99_us = NAN,
                    .p999_us = NAN, .log_bytes = NAN, .written_bytes = NAN, .device_bytes = NAN,
                    .syncs = NAN, .pages_read = NAN, .pages_written = NAN, .close_s = NAN,
                    .peak_mib = NAN, .slice_s = NAN, .mark_from_s = NAN, .mark_to_s = NAN};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

void row_latencies(struct row *r, const struct hist *h)
{
    r->p50_us = hist_us(h, 0.5);
    r->p99_us = hist_us(h, 0.99);
    r->p999_us = hist_us(h, 0.999);
}

void cell_send(const struct cell *c, struct row *r)
{
    struct rusage used;
    const char *at = (const char *)r;
    size_t left = sizeof *r;
    if (!c->engine->apart && getrusage(RUSAGE_SELF, &used) == 0)
        r->peak_mib = (double)used.ru_maxrss / 1024;
    while (left > 0) {
        ssize_t n = write(c->rows, at, left);
        bench_must(n > 0 ? 0 : -1, "sending a row");
        at += n;
        left -= (size_t)n;
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

struct crew {
    pthread_barrier_t start;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    uint32_t busy; /* workers that are not done */
    worker_fn *fn;
};

struct seat {
    struct worker w;
    struct crew *crew;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct seat *s = arg;
    s->w.rc = cell_join(s->w.cell, s->w.db, &s->w.thread);
    memset(&s->w.hist, 0, sizeof s->w.hist); /* touches its pages before the measurement */
    pthread_barrier_wait(&s->crew->start);
    if (!s->w.rc)
        s->w.rc = s->crew->fn(&s->w);
    bench_must(pthread_mutex_lock(&s->crew->mutex), "mutex");
    if (--s->crew->busy == 0)
        bench_must(pthread_cond_signal(&s->crew->done), "signal");
    bench_must(pthread_mutex_unlock(&s->crew->mutex), "mutex");
    cell_leave(s->w.cell, s->w.db, s->w.thread);
    return NULL;
}

static void await_work(struct crew *crew)
{
    bench_must(pthread_mutex_lock(&crew->mutex), "mutex");
    while (crew->busy > 0)
        bench_must(pthread_cond_wait(&crew->done, &crew->mutex), "wait");
    bench_must(pthread_mutex_unlock(&crew->mutex), "mutex");
}

/* Measures from the moment when all threads exist until the last thread has returned from `fn`. So
 * creating and joining threads is excluded. An engine's `join` may be partly included, because the
 * meter starts before the threads meet at the barrier. */
int workers_run(const struct cell *c, struct bench_db *db, worker_fn *fn, void *shared,
                struct row *r)
{
    struct crew crew = {.fn = fn, .busy = c->threads, .mutex = PTHREAD_MUTEX_INITIALIZER,
                        .done = PTHREAD_COND_INITIALIZER};
    struct seat *seats = calloc(c->threads, sizeof *seats);
    struct hist *all = calloc(1, sizeof *all);
    struct meter m;
    int rc = 0;
    bench_must(seats && all ? pthread_barrier_init(&crew.start, NULL, c->threads + 1) : -1,
               "threads");
    for (uint32_t i = 0; i < c->threads; i++) {
        seats[i].crew = &crew;
        seats[i].w = (struct worker){
            .cell = c, .db = db, .shared = shared, .index = i,
            .seed = (uint64_t)c->run * 1000003 + i + 1};
        bench_must(pthread_create(&seats[i].thread, NULL, work, &seats[i]), "pthread_create");
    }
    meter_start(&m, c, db);
    pthread_barrier_wait(&crew.start);
    await_work(&crew);
    meter_stop(&m, c, db, r);
    for (uint32_t i = 0; i < c->threads; i++)
        bench_must(pthread_join(seats[i].thread, NULL), "pthread_join");
    for (uint32_t i = 0; i < c->threads; i++) {
        rc = rc ? rc : seats[i].w.rc;
        r->ops += seats[i].w.ops;
        r->retries += seats[i].w.retries;
        hist_merge(all, &seats[i].w.hist);
    }
    row_latencies(r, all);
    pthread_barrier_destroy(&crew.start);
    free(all);
    free(seats);
    return rc;
}

int workers_run_warm(const struct cell *c, int (*warm)(const struct cell *, struct bench_db *),
                     worker_fn *fn)
{
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    int rc = cell_open(c, c->records, &db);
    rc = rc ? rc : warm(c, db);
    rc = rc ? rc : workers_run(c, db, fn, NULL, &r);
    rc = rc ? rc : c->engine->close(db);
    if (!rc)
        cell_send(c, &r);
    return rc;
}
