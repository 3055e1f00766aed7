/* SPDX-License-Identifier: BSD-2-Clause */
/* W6: one process runs transactions and kills itself; another process opens the database. */
#include "driver.h"

#include "common.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNTOUCHED 0u /* versions of updates begin with 1 */

static uint64_t first_seed(const struct cell *c)
{
    return (uint64_t)c->run + 77;
}

int run_transactions_and_die(const struct cell *c)
{
    struct row r = row_init("transactions");
    struct bench_db *db;
    struct bench_thread *t;
    struct meter m;
    uint64_t seed = first_seed(c), retries = 0;
    int rc = cell_open(c, c->records, &db);
    rc = rc ? rc : cell_join(c, db, &t);
    meter_start(&m, c, db);
    for (uint64_t k = 0; !rc && k < c->n; k++) {
        uint64_t i = bench_random(&seed) % c->records;
        rc = cell_update(c, db, t, i, (uint32_t)k + 1, &retries);
    }
    if (rc)
        return rc;
    meter_stop(&m, c, db, &r);
    r.ops = c->n;
    cell_send(c, &r);
    return kill(getpid(), SIGKILL);
}

/* Every record that was written must have its last value. */
static int check_all(const struct cell *c, struct bench_db *db, struct bench_thread *t)
{
    unsigned char value[4096], wanted[4096];
    uint32_t *last = calloc(c->records, sizeof *last);
    uint64_t seed = first_seed(c), lost = 0;
    char text[64];
    int rc = last ? 0 : BENCH_FAILED;
    for (uint64_t k = 0; !rc && k < c->n; k++)
        last[bench_random(&seed) % c->records] = (uint32_t)k + 1;
    for (uint64_t i = 0; !rc && i < c->records; i++) {
        if (last[i] == UNTOUCHED)
            continue;
        cell_value(c, i, last[i], wanted);
        rc = c->engine->lookup(db, t, cell_key(c, i), value);
        lost += !rc && memcmp(value, wanted, c->value_size) != 0;
    }
    free(last);
    snprintf(text, sizeof text, "%llu updates were lost", (unsigned long long)lost);
    return rc || !lost ? rc : bench_failed(c->engine->name, "recovery", text);
}

/* Measures from before the open until the first read has returned. */
int run_recovery(const struct cell *c)
{
    unsigned char value[4096];
    struct row r = row_init(c->c->name);
    struct bench_db *db;
    struct bench_thread *t;
    struct meter m;
    uint64_t seed = first_seed(c);
    meter_start(&m, c, NULL);
    int rc = cell_open(c, c->records, &db);
    rc = rc ? rc : cell_join(c, db, &t);
    rc = rc ? rc : c->engine->lookup(db, t, cell_key(c, bench_random(&seed) % c->records), value);
    if (rc)
        return rc;
    meter_stop(&m, c, db, &r);
    r.ops = c->n;
    r.log_bytes = NAN; /* the parent puts the log bytes of the transactions here */
    rc = check_all(c, db, t);
    if (rc)
        return rc;
    cell_leave(c, db, t);
    uint64_t t0 = bench_now_ns();
    rc = c->engine->close(db);
    r.close_s = (double)(bench_now_ns() - t0) / 1e9;
    if (!rc)
        cell_send(c, &r);
    return rc;
}
