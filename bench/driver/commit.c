/* SPDX-License-Identifier: BSD-2-Clause */
/* W3 and W4: transactions of one update each. */
#include "driver.h"

#include "common.h"

#include <stdlib.h>

#define WINDOW 1000u /* commits in flight */

/* Each thread has records of its own, so no locks are needed. */
static uint64_t own_record(struct worker *w)
{
    const struct cell *c = w->cell;
    uint64_t share = c->records / c->threads;
    return bench_random(&w->seed) % (share ? share : 1) * c->threads + w->index;
}

struct bounds {
    uint64_t each;    /* transactions per thread; 0: until the time is over */
    uint64_t seconds;
};

/* True when the number is reached or, without a number, the time is over. */
static bool over(const struct bounds *b, uint64_t begun, uint64_t done)
{
    return b->each ? done >= b->each : bench_now_ns() - begun >= b->seconds * 1000000000u;
}

static struct bounds bounds_of(const struct cell *c)
{
    uint64_t each = c->n ? (c->n + c->threads - 1) / c->threads : 0;
    return (struct bounds){.each = each, .seconds = c->seconds};
}

static int commit_some(struct worker *w)
{
    const struct bounds *b = w->shared;
    uint64_t begun = bench_now_ns();
    int rc = 0;
    while (!rc && !over(b, begun, w->ops)) {
        uint64_t t0 = bench_now_ns();
        rc = cell_update(w->cell, w->db, w->thread, own_record(w), (uint32_t)w->ops + 1,
                         &w->retries);
        hist_add(&w->hist, bench_now_ns() - t0);
        w->ops++;
    }
    return rc;
}

static int run_with(const struct cell *c, worker_fn *fn)
{
    struct row r = row_init(c->c->name);
    struct bounds b = bounds_of(c);
    struct bench_db *db;
    int rc = cell_open(c, c->records, &db);
    if (!rc)
        rc = workers_run(c, db, fn, &b, &r);
    if (rc)
        return rc;
    uint64_t t0 = bench_now_ns();
    rc = c->engine->close(db);
    r.close_s = (double)(bench_now_ns() - t0) / 1e9;
    if (!rc)
        cell_send(c, &r);
    return rc;
}

int run_commits(const struct cell *c)
{
    return run_with(c, commit_some);
}

/* ---- without waiting ------------------------------------------------------------------------- */

struct flight {
    uint64_t ticket, begun;
};

static int land(struct worker *w, const struct flight *f)
{
    int rc = w->cell->engine->wait(w->db, f->ticket);
    hist_add(&w->hist, bench_now_ns() - f->begun);
    return rc;
}

static int take_off(struct worker *w, struct flight *f)
{
    unsigned char value[4096];
    const struct cell *c = w->cell;
    struct bench_txn *txn;
    uint64_t i = own_record(w);
    f->begun = bench_now_ns();
    cell_value(c, i, (uint32_t)w->ops + 1, value);
    int rc = c->engine->begin(w->db, w->thread, &txn);
    if (!rc)
        rc = c->engine->update(w->db, txn, cell_key(c, i), value);
    return rc ? rc : c->engine->commit_async(w->db, txn, &f->ticket);
}

/* At most WINDOW commits are in flight. Returns when all are durable. */
static int commit_async_some(struct worker *w)
{
    const struct bounds *b = w->shared;
    struct flight *flights = calloc(WINDOW, sizeof *flights);
    uint64_t begun = bench_now_ns(), landed = 0;
    int rc = flights ? 0 : BENCH_FAILED;
    while (!rc && !over(b, begun, w->ops)) {
        if (w->ops - landed == WINDOW)
            rc = land(w, &flights[landed++ % WINDOW]);
        if (!rc)
            rc = take_off(w, &flights[w->ops++ % WINDOW]);
    }
    while (!rc && landed < w->ops)
        rc = land(w, &flights[landed++ % WINDOW]);
    free(flights);
    return rc;
}

int run_async(const struct cell *c)
{
    return run_with(c, commit_async_some);
}
