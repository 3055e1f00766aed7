/* SPDX-License-Identifier: BSD-2-Clause */
/* W11, for engines with ordered keys: loads many records in small transactions, looks records up,
 * and scans them. */
#include "driver.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>

#define SCAN 100u   /* records */
#define SAMPLED 64u /* every 64th lookup is timed */

/* ---- loading --------------------------------------------------------------------------------- */

static int load_some(struct worker *w, uint64_t from, uint64_t to)
{
    unsigned char value[4096];
    const struct cell *c = w->cell;
    struct bench_txn *txn;
    int rc = c->engine->begin(w->db, w->thread, &txn);
    if (rc)
        return rc;
    for (uint64_t i = from; !rc && i < to; i++) {
        cell_value(c, i, 0, value);
        rc = c->engine->insert(w->db, txn, cell_key(c, i), value);
    }
    return cell_end(c, w->db, txn, rc);
}

static int load_all(struct worker *w)
{
    const struct cell *c = w->cell;
    int rc = 0;
    while (!rc && w->ops < c->n) {
        uint64_t to = w->ops + c->c->txn_ops < c->n ? w->ops + c->c->txn_ops : c->n;
        uint64_t t0 = bench_now_ns();
        rc = load_some(w, w->ops, to);
        hist_add(&w->hist, bench_now_ns() - t0);
        w->retries += rc == BENCH_AGAIN;
        w->ops = rc ? w->ops : to;
        rc = rc == BENCH_AGAIN ? 0 : rc;
    }
    return rc;
}

/* The row's time excludes open and close; its written bytes and syncs include both. The percentiles
 * are those of transactions. */
int run_load(const struct cell *c)
{
    struct row r = row_init(c->c->name), whole = row_init("");
    struct bench_db *db;
    struct meter m;
    meter_start(&m, c, NULL);
    int rc = cell_open(c, c->n, &db);
    rc = rc ? rc : workers_run(c, db, load_all, NULL, &r);
    uint64_t t0 = bench_now_ns();
    rc = rc ? rc : c->engine->close(db);
    r.close_s = (double)(bench_now_ns() - t0) / 1e9;
    if (rc)
        return rc;
    meter_stop(&m, c, NULL, &whole);
    r.device_bytes = whole.device_bytes;
    r.written_bytes = whole.written_bytes;
    r.syncs = whole.syncs;
    cell_send(c, &r);
    return 0;
}

/* ---- lookups --------------------------------------------------------------------------------- */

static int look(struct worker *w, uint64_t i)
{
    unsigned char value[4096], wanted[4096];
    const struct cell *c = w->cell;
    int rc = c->engine->lookup(w->db, w->thread, cell_key(c, i), value);
    cell_value(c, i, 0, wanted);
    if (rc || memcmp(value, wanted, 8) != 0)
        return bench_failed(c->engine->name, "lookup", "it returned a wrong value");
    return 0;
}

static int look_some(struct worker *w)
{
    const struct cell *c = w->cell;
    int rc = 0;
    for (; !rc && w->ops < c->n; w->ops++) {
        uint64_t t0 = w->ops % SAMPLED ? 0 : bench_now_ns();
        rc = look(w, bench_random(&w->seed) % c->records);
        if (t0)
            hist_add(&w->hist, bench_now_ns() - t0);
    }
    return rc;
}

/* ---- scans ----------------------------------------------------------------------------------- */

static uint64_t number_of(const struct cell *c, const unsigned char *value)
{
    uint64_t i = 0;
    memcpy(&i, value, c->value_size < sizeof i ? c->value_size : sizeof i);
    return i;
}

/* Fails unless the scan begins with record `first` and its keys ascend. */
static int check_scan(const struct cell *c, uint64_t first, const unsigned char *values,
                      uint32_t seen)
{
    bool right = seen > 0 && number_of(c, values) == first;
    for (uint32_t i = 1; i < seen && right; i++) {
        uint64_t before = number_of(c, values + (size_t)(i - 1) * c->value_size);
        right = cell_key(c, before) < cell_key(c, number_of(c, values + (size_t)i * c->value_size));
    }
    return right ? 0 : bench_failed(c->engine->name, "scan", "it returned a wrong value");
}

static int scan_some(struct worker *w)
{
    const struct cell *c = w->cell;
    unsigned char *values = malloc((size_t)SCAN * c->value_size);
    int rc = values ? 0 : BENCH_FAILED;
    for (; !rc && w->ops < c->n; w->ops++) {
        uint64_t first = bench_random(&w->seed) % c->records, t0 = bench_now_ns();
        uint32_t seen = 0;
        rc = c->engine->scan(w->db, w->thread, cell_key(c, first), SCAN, values, &seen);
        hist_add(&w->hist, bench_now_ns() - t0);
        rc = rc ? rc : check_scan(c, first, values, seen);
    }
    free(values);
    return rc;
}

/* ---- shared ---------------------------------------------------------------------------------- */

/* Reads all records once, in order. */
static int warm(const struct cell *c, struct bench_db *db)
{
    struct worker w = {.cell = c, .db = db};
    unsigned char *values = malloc((size_t)c->records * c->value_size);
    uint32_t seen = 0;
    int rc = values ? cell_join(c, db, &w.thread) : BENCH_FAILED;
    if (!rc)
        rc = c->engine->scan(db, w.thread, 0, (uint32_t)c->records, values, &seen);
    if (!rc && seen != c->records)
        rc = bench_failed(c->engine->name, "scan", "records are missing");
    if (!rc)
        cell_leave(c, db, w.thread);
    free(values);
    return rc;
}

int run_ordered_lookups(const struct cell *c)
{
    return workers_run_warm(c, warm, look_some);
}

int run_scans(const struct cell *c)
{
    return workers_run_warm(c, warm, scan_some);
}
