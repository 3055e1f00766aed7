/* SPDX-License-Identifier: BSD-2-Clause */
/* W5: lookups of cached records, one key and many keys per call. */
#include "driver.h"

#include "common.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLED 64u /* every 64th operation is timed */
#define GROUP 64u   /* lookups per call */

static int look(struct worker *w, uint64_t i)
{
    const struct cell *c = w->cell;
    unsigned char value[4096];
    uint64_t found = 0;
    int rc = c->engine->lookup(w->db, w->thread, cell_key(c, i), value);
    memcpy(&found, value, c->value_size < sizeof found ? c->value_size : sizeof found);
    return rc == 0 && found == i
               ? 0
               : bench_failed(c->engine->name, "lookup", "the key is absent or has a wrong value");
}

/* Brings everything into the engine's cache. */
static int warm(const struct cell *c, struct bench_db *db)
{
    struct worker w = {.cell = c, .db = db};
    int rc = cell_join(c, db, &w.thread);
    for (uint64_t i = 0; !rc && i < c->records; i++)
        rc = look(&w, i);
    cell_leave(c, db, w.thread);
    return rc;
}

static uint64_t share_of(const struct worker *w)
{
    const struct cell *c = w->cell;
    return c->n / c->threads + (w->index < c->n % c->threads);
}

static int look_some(struct worker *w)
{
    const struct cell *c = w->cell;
    uint64_t n = share_of(w);
    int rc = 0;
    for (; !rc && w->ops < n; w->ops++) {
        uint64_t t0 = w->ops % SAMPLED ? 0 : bench_now_ns();
        rc = look(w, bench_random(&w->seed) % c->records);
        if (t0)
            hist_add(&w->hist, bench_now_ns() - t0);
    }
    return rc;
}

static int look_group(struct worker *w, unsigned char *values)
{
    const struct cell *c = w->cell;
    uint64_t wanted[GROUP], keys[GROUP];
    unsigned char found[GROUP];
    const size_t size = c->value_size, head = size < 8 ? size : 8;
    for (unsigned k = 0; k < GROUP; k++) {
        wanted[k] = bench_random(&w->seed) % c->records;
        keys[k] = cell_key(c, wanted[k]);
    }
    int rc = c->engine->lookup_many(w->db, keys, GROUP, values, found);
    for (unsigned k = 0; !rc && k < GROUP; k++)
        if (!found[k] || memcmp(values + k * size, &wanted[k], head) != 0)
            rc = bench_failed(c->engine->name, "lookup_many", "a key is absent or its value wrong");
    return rc;
}

static int look_groups(struct worker *w)
{
    const struct cell *c = w->cell;
    unsigned char *values = malloc((size_t)GROUP * c->value_size);
    int rc = values ? 0 : BENCH_FAILED;
    for (uint64_t n = share_of(w); !rc && w->ops < n; w->ops += GROUP) {
        uint64_t t0 = bench_now_ns();
        rc = look_group(w, values);
        hist_add(&w->hist, (bench_now_ns() - t0) / GROUP);
    }
    free(values);
    return rc;
}

int run_lookups(const struct cell *c)
{
    return workers_run_warm(c, warm, look_some);
}

int run_lookups_many(const struct cell *c)
{
    return workers_run_warm(c, warm, look_groups);
}
