/* SPDX-License-Identifier: BSD-2-Clause */
/* Many changes: W1 inserts, W2 arrays, W7 more data than the cache holds, W9 rollback. */
#include "driver.h"

#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 4096u  /* elements per call, for calls that take several */
#define SAMPLED 64u  /* every 64th operation is timed: the clock costs as much as an operation */
#define CHECKED 1000u

/* ---- W1: inserts, from creation to clean close ----------------------------------------------- */

static int insert_all(struct worker *w, uint64_t from, uint64_t to)
{
    unsigned char value[4096];
    const struct cell *c = w->cell;
    struct bench_txn *txn;
    int rc = c->engine->begin(w->db, w->thread, &txn);
    if (rc)
        return rc;
    for (uint64_t i = from; !rc && i < to; i++) {
        uint64_t t0 = i % SAMPLED ? 0 : bench_now_ns();
        cell_value(c, i, 0, value);
        rc = c->engine->insert(w->db, txn, cell_key(c, i), value);
        if (t0)
            hist_add(&w->hist, bench_now_ns() - t0);
    }
    return cell_end(c, w->db, txn, rc);
}

/* One transaction per thread, repeated until it succeeds. */
static int insert_share(struct worker *w)
{
    const struct cell *c = w->cell;
    uint64_t from = c->n * w->index / c->threads, to = c->n * (w->index + 1) / c->threads;
    int rc;
    while ((rc = insert_all(w, from, to)) == BENCH_AGAIN)
        w->retries++;
    w->ops = to - from;
    return rc;
}

/* Stops the meter after the close, so that the row includes the close. */
static int close_and_send(const struct cell *c, struct bench_db *db, const struct meter *m,
                          struct row *r)
{
    uint64_t t0 = bench_now_ns();
    int rc = c->engine->close(db);
    r->close_s = (double)(bench_now_ns() - t0) / 1e9;
    meter_stop(m, c, NULL, r);
    if (!rc)
        cell_send(c, r);
    return rc;
}

int run_insert(const struct cell *c)
{
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    struct meter m;
    meter_start(&m, c, NULL);
    int rc = cell_open(c, c->n, &db);
    if (!rc)
        rc = workers_run(c, db, insert_share, NULL, &r);
    return rc ? rc : close_and_send(c, db, &m, &r);
}

/* ---- W2: elements 0, 1, 2 ... ---------------------------------------------------------------- */

static int fill_some(const struct cell *c, struct bench_db *db, struct bench_txn *txn,
                     uint64_t first, uint64_t count, const unsigned char *values)
{
    int rc = 0;
    if (c->engine->fill)
        return c->engine->fill(db, txn, first, count, values);
    for (uint64_t i = 0; !rc && i < count; i++)
        rc = c->engine->insert(db, txn, first + i, values + i * c->value_size);
    return rc;
}

static int fill(const struct cell *c, struct bench_db *db, struct bench_thread *t, uint64_t n)
{
    const uint32_t size = c->value_size;
    struct bench_txn *txn;
    unsigned char *values = malloc((size_t)BATCH * size);
    int rc = values ? c->engine->begin(db, t, &txn) : BENCH_FAILED;
    for (uint64_t at = 0; !rc && at < n; at += BATCH) {
        uint64_t m = n - at < BATCH ? n - at : BATCH;
        for (uint64_t i = 0; i < m; i++)
            cell_value(c, at + i + 1, 0, values + i * size);
        rc = fill_some(c, db, txn, at, m, values);
    }
    free(values);
    return rc ? rc : c->engine->commit(db, txn);
}

static int fill_share(struct worker *w)
{
    w->ops = w->cell->n;
    return fill(w->cell, w->db, w->thread, w->cell->n);
}

int run_fill(const struct cell *c)
{
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    struct meter m;
    meter_start(&m, c, NULL);
    int rc = cell_open(c, c->n, &db);
    if (!rc)
        rc = workers_run(c, db, fill_share, NULL, &r);
    return rc ? rc : close_and_send(c, db, &m, &r);
}

int load_fill(const struct cell *c)
{
    struct bench_db *db;
    struct bench_thread *t;
    int rc = cell_open(c, c->records, &db);
    if (!rc)
        rc = cell_join(c, db, &t);
    if (!rc)
        rc = fill(c, db, t, c->records);
    if (rc)
        return rc;
    cell_leave(c, db, t);
    return c->engine->close(db);
}

/* Overwrites random elements in one transaction; each run writes other values than before. */
static int overwrite_share(struct worker *w)
{
    unsigned char value[4096];
    const struct cell *c = w->cell;
    struct bench_txn *txn;
    int rc = c->engine->begin(w->db, w->thread, &txn);
    for (uint64_t k = 0; !rc && k < c->n; k++) {
        uint64_t i = bench_random(&w->seed) % c->records, t0 = k % SAMPLED ? 0 : bench_now_ns();
        cell_value(c, i + (uint64_t)(c->run + 1) * c->records + k, (uint32_t)c->run + 1, value);
        rc = c->engine->update(w->db, txn, cell_key(c, i), value);
        if (t0)
            hist_add(&w->hist, bench_now_ns() - t0);
    }
    w->ops = c->n;
    return rc ? rc : c->engine->commit(w->db, txn);
}

int run_overwrite(const struct cell *c)
{
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    struct meter m;
    meter_start(&m, c, NULL);
    int rc = cell_open(c, c->records, &db);
    if (!rc)
        rc = workers_run(c, db, overwrite_share, NULL, &r);
    return rc ? rc : close_and_send(c, db, &m, &r);
}

/* ---- W7: a small cache ----------------------------------------------------------------------- */

static int update_in_one(struct worker *w, uint64_t first_version)
{
    unsigned char value[4096];
    const struct cell *c = w->cell;
    struct bench_txn *txn;
    int rc = c->engine->begin(w->db, w->thread, &txn);
    if (rc)
        return rc;
    for (uint64_t j = 0; !rc && j < c->c->txn_ops; j++) {
        uint64_t i = bench_random(&w->seed) % c->records, t0 = bench_now_ns();
        cell_value(c, i, (uint32_t)(first_version + j), value);
        rc = c->engine->update(w->db, txn, cell_key(c, i), value);
        hist_add(&w->hist, bench_now_ns() - t0);
    }
    return cell_end(c, w->db, txn, rc);
}

static int update_some(struct worker *w)
{
    int rc = 0;
    while (!rc && w->ops < w->cell->n) {
        while ((rc = update_in_one(w, w->ops + 1)) == BENCH_AGAIN)
            w->retries++;
        w->ops += w->cell->c->txn_ops;
    }
    return rc;
}

/* The row's time includes only the updates. Its written bytes and syncs include the close, too. */
int run_large(const struct cell *c)
{
    struct row r = row_init(c->c->name), whole = row_init("");
    struct bench_db *db;
    struct meter m;
    int rc = cell_open(c, c->records, &db);
    if (rc)
        return rc;
    meter_start(&m, c, NULL);
    rc = workers_run(c, db, update_some, NULL, &r);
    if (rc)
        return rc;
    uint64_t t0 = bench_now_ns();
    rc = c->engine->close(db);
    r.close_s = (double)(bench_now_ns() - t0) / 1e9;
    meter_stop(&m, c, NULL, &whole);
    r.device_bytes = whole.device_bytes;
    r.written_bytes = whole.written_bytes;
    r.syncs = whole.syncs;
    if (!rc)
        cell_send(c, &r);
    return rc;
}

/* ---- W9: rollback ---------------------------------------------------------------------------- */

static int check_undone(const struct cell *c, struct bench_db *db, struct bench_thread *t)
{
    unsigned char value[4096], wanted[4096];
    int rc = 0;
    for (uint64_t i = 0; !rc && i < c->records && i < CHECKED; i++) {
        cell_value(c, i, 0, wanted);
        rc = c->engine->lookup(db, t, cell_key(c, i), value);
        if (!rc && memcmp(value, wanted, c->value_size) != 0)
            rc = bench_failed(c->engine->name, "rollback", "an update is still there");
    }
    return rc;
}

int run_rollback(const struct cell *c)
{
    unsigned char value[4096];
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    struct bench_thread *t;
    struct bench_txn *txn;
    struct meter m;
    uint64_t seed = (uint64_t)c->run + 1;
    int rc = cell_open(c, c->records, &db);
    rc = rc ? rc : cell_join(c, db, &t);
    rc = rc ? rc : c->engine->begin(db, t, &txn);
    for (uint64_t k = 0; !rc && k < c->n; k++) {
        uint64_t i = bench_random(&seed) % c->records;
        cell_value(c, i, (uint32_t)k + 1, value);
        rc = c->engine->update(db, txn, cell_key(c, i), value);
    }
    if (rc)
        return rc;
    meter_start(&m, c, db);
    rc = c->engine->abort(db, txn);
    meter_stop(&m, c, db, &r);
    r.ops = c->n;
    rc = rc ? rc : check_undone(c, db, t);
    if (rc)
        return rc;
    cell_leave(c, db, t);
    rc = c->engine->close(db);
    if (!rc)
        cell_send(c, &r);
    return rc;
}
