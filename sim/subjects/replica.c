/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replica: two unlogged managed dTables follow a source. The source has a fixed stream of events:
 * transactions that interleave, one that aborts, one that is spilled to a blob, one that deletes
 * ranges. The workload applies the stream, flushes the tables (Anvil: digest) at different times,
 * and tells the source what it may forget. The source remembers that in the store of the
 * simulation, which loses nothing in a crash.
 *
 * After each crash, each table must have the rows of the stream up to its own position, and the
 * replica must not ask for an event that the source has forgotten. Then the source sends the rest.
 *
 * replica.threads: a thread applies the stream, another one flushes a table, and a third one reads.
 * The reader must see the rows of the stream up to some position, in both tables.
 *
 * The local transactions begin outside of lladd_sim_begin, because their commits promise no rows.
 */
#include "sim/subjects/managed_tables.h"
#include "sim/subjects/subjects.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/replica.h>
#include <lladd/ship.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 6, TABLES = 2, SETUP = 6 };
#define NAME "r"
#define FORGOTTEN "forgotten."

static const char *const tables[TABLES + 1] = {"rows", "more", NULL};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->log_segment_min = o->log_segment_max = 32u << 10;
    return lladd_replica_register(o, err);
}

/* ---- the stream ------------------------------------------------------------------------------ */

enum {
    BEGIN = LLADD_REPLICA_BEGIN,
    COMMIT = LLADD_REPLICA_COMMIT,
    ABORT = LLADD_REPLICA_ABORT,
    PUT = LLADD_REPLICA_PUT,
    DELETE = LLADD_REPLICA_DELETE,
    RANGE = LLADD_REPLICA_DELETE_RANGE,
    MARK = LLADD_REPLICA_MARK
};

/* Event i has the position 10 (i + 1). */
static const struct event {
    unsigned kind, txn, table, key, number; /* number: of PUT the value, of RANGE the end */
} stream[] = {
    {BEGIN, 1, 0, 0, 0}, {PUT, 1, 0, 1, 1},    {BEGIN, 2, 0, 0, 0},  {PUT, 2, 1, 1, 2},
    {PUT, 2, 0, 2, 2},   {COMMIT, 2, 0, 0, 0}, /* the setup ends here */
    {PUT, 1, 1, 2, 1},   {BEGIN, 3, 0, 0, 0},  {PUT, 3, 0, 3, 3},    {COMMIT, 1, 0, 0, 0},
    {RANGE, 3, 1, 1, 3}, {ABORT, 3, 0, 0, 0},  {MARK, 0, 0, 0, 0},   {BEGIN, 4, 0, 0, 0},
    {PUT, 4, 0, 2, 4},   {PUT, 4, 1, 3, 4},    {BEGIN, 5, 0, 0, 0},  {DELETE, 5, 0, 1, 0},
    {RANGE, 5, 1, 1, 3}, {COMMIT, 5, 0, 0, 0}, {PUT, 4, 0, 4, 4},    {PUT, 4, 0, 5, 4},
    {COMMIT, 4, 0, 0, 0}, {BEGIN, 6, 0, 0, 0}, {PUT, 6, 0, 1, 6},    {COMMIT, 6, 0, 0, 0},
    {BEGIN, 7, 0, 0, 0}, {PUT, 7, 1, 1, 7},    {COMMIT, 7, 0, 0, 0}};
enum { EVENTS = sizeof stream / sizeof stream[0] };

static uint64_t position_of(size_t i)
{
    return 10 * (i + 1);
}

static struct lladd_replica_event event_of(size_t i, unsigned char value[4])
{
    const struct event *from = &stream[i];
    struct lladd_replica_event e = {.kind = (enum lladd_replica_kind)from->kind,
                                    .position = position_of(i),
                                    .txn = from->txn};
    if (from->kind < PUT || from->kind > RANGE)
        return e;
    e.table = tables[from->table];
    e.key = lladd_dtable_u32(from->key);
    lladd_put32(value, from->number);
    if (from->kind == PUT)
        e.after = lladd_dtable_value_of(value, 4);
    if (from->kind == RANGE)
        e.to = lladd_dtable_u32(from->number);
    return e;
}

static void apply(unsigned txn, unsigned table, uint32_t numbers[KEYS])
{
    for (size_t i = 0; i < EVENTS; i++) {
        const struct event *e = &stream[i];
        if (e->txn != txn || e->table != table || e->kind < PUT || e->kind > RANGE)
            continue;
        for (unsigned k = e->key; k < (e->kind == RANGE ? e->number : e->key + 1); k++)
            numbers[k] = e->kind == PUT ? e->number : 0;
    }
}

/* The rows of a table after the commits up to the position; 0: no row. */
static void rows_after(uint64_t position, unsigned table, uint32_t numbers[KEYS])
{
    memset(numbers, 0, KEYS * sizeof *numbers);
    for (size_t i = 0; i < EVENTS && position_of(i) <= position; i++)
        if (stream[i].kind == COMMIT)
            apply(stream[i].txn, table, numbers);
}

/* ---- the workload ---------------------------------------------------------------------------- */

static int open_replica(struct lladd_db *db, struct lladd_replica **r, struct lladd_error *err)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    o.tables = tables;
    o.buffer_bytes = 150; /* two changes */
    return lladd_replica_open(db, NAME, &o, r, err);
}

/* Closes the replica. Returns rc, or the error of the close if rc is 0. */
static int close_replica(struct lladd_replica *r, int rc, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    int closed = lladd_replica_close(r, rc ? &own : err);
    return rc ? rc : closed;
}

/* Applies the events before event `end` that the replica asks for. */
static int send_upto(struct lladd_replica *r, size_t end, struct lladd_error *err)
{
    uint64_t from;
    TRY(lladd_replica_from(r, &from));
    for (size_t i = 0; i < end; i++) {
        unsigned char value[4];
        struct lladd_replica_event e = event_of(i, value);
        if (e.position >= from)
            TRY(lladd_replica_apply(r, &e, 1, NULL, err));
    }
    return 0;
}

static int flush(struct lladd_db *db, unsigned table, struct lladd_error *err)
{
    struct lladd_managed *t;
    bool more = true;
    TRY(lladd_managed_open(db, tables[table], &t, err));
    int rc = lladd_managed_digest(t, err);
    while (!rc && more)
        rc = lladd_managed_maintain(t, &more, err);
    int closed = lladd_managed_close(t, rc ? NULL : err);
    return rc ? rc : closed;
}

/* The source forgets what it may. */
static int forget(struct lladd_replica *r, struct lladd_error *err)
{
    struct lladd_store *store = lladd_sim_store();
    struct lladd_iovec none = {"", 0};
    char name[32];
    uint64_t position;
    TRY(lladd_replica_durable(r, &position, err));
    (void)snprintf(name, sizeof name, FORGOTTEN "%u", (unsigned)position);
    int rc = store->ops->put(store, name, &none, 1, err);
    return rc == LLADD_EXISTS ? 0 : rc;
}

static int setup_in(void *ctx, struct lladd_txn *txn)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    (void)ctx;
    o.type = LLADD_DTABLE_U32;
    o.schedule = LLADD_MANAGED_LEVELS;
    o.flags = LLADD_MANAGED_UNLOGGED;
    TRY(lladd_managed_create(txn, tables[0], &o));
    return lladd_managed_create(txn, tables[1], &o);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_replica *r;
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = setup_in(ctx, txn);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    TRY(open_replica(db, &r, err));
    return close_replica(r, send_upto(r, SETUP, err), err);
}

static int work(struct lladd_db *db, struct lladd_replica *r, struct lladd_error *err)
{
    TRY(send_upto(r, 10, err)); /* both tables have rows that are not flushed */
    TRY(flush(db, 0, err));
    TRY(forget(r, err));
    TRY(send_upto(r, 13, err)); /* the mark stores the state */
    TRY(lladd_checkpoint(db, err));
    TRY(forget(r, err));
    TRY(send_upto(r, 22, err)); /* transaction 4 is spilled, and open */
    TRY(flush(db, 1, err));
    TRY(forget(r, err));
    TRY(send_upto(r, 23, err));
    TRY(forget(r, err));
    TRY(flush(db, 0, err));
    TRY(lladd_replica_apply(r, NULL, 0, NULL, err)); /* stores the state */
    TRY(forget(r, err));
    TRY(lladd_checkpoint(db, err));
    TRY(forget(r, err));
    return send_upto(r, 28, err);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_replica *r;
    (void)ctx;
    (void)sim;
    TRY(open_replica(db, &r, err));
    return close_replica(r, work(db, r, err), err);
}

/* ---- what a recovered replica has ------------------------------------------------------------ */

static int compare_in(struct lladd_txn *txn, struct lladd_managed *t, unsigned table,
                      uint64_t position)
{
    uint32_t numbers[KEYS], is;
    rows_after(position, table, numbers);
    for (uint32_t k = 0; k < KEYS; k++) {
        TRY(ll_sim_managed_number(txn, t, k, &is));
        if (is != numbers[k])
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                   "row %u of table \"%s\" is not that of the stream at position "
                                   "%u",
                                   (unsigned)k, tables[table], (unsigned)position);
    }
    return lladd_commit(txn);
}

/* Compares a table with the stream up to a position; 0: up to the table's own. */
static int compare(struct lladd_db *db, unsigned table, uint64_t position, struct lladd_error *err)
{
    struct lladd_managed_position at = {position, 0};
    struct lladd_managed *t;
    struct lladd_txn *txn;
    TRY(lladd_managed_open(db, tables[table], &t, err));
    if (!position)
        TRY(lladd_managed_position_get(t, false, &at, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = compare_in(txn, t, table, at.commit);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : 0);
    return lladd_managed_close(t, err);
}

static int see_forgotten(void *ctx, const char *name, uint64_t size)
{
    uint64_t *most = ctx, position = strtoull(name + strlen(FORGOTTEN), NULL, 10);
    (void)size;
    if (position > *most)
        *most = position;
    return 0;
}

static int check_replica(struct lladd_db *db, struct lladd_replica *r, struct lladd_error *err)
{
    struct lladd_store *store = lladd_sim_store();
    struct lladd_replica_info i = {.struct_size = sizeof i};
    uint64_t forgotten = 0;
    TRY(lladd_replica_info_get(r, &i, NULL, 0, err));
    TRY(store->ops->list(store, FORGOTTEN, see_forgotten, &forgotten, err));
    if (i.from < forgotten)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "events from %u on are needed; the source has forgotten those "
                               "before %u",
                               (unsigned)i.from, (unsigned)forgotten);
    if (i.applied < i.consistent_from) /* one table is ahead of the other */
        return lladd_replica_wait(r, 0, 0, err) == LLADD_TIMEOUT
                   ? 0
                   : lladd_error_set(err, LLADD_BAD_STATE, "readers do not wait");
    for (unsigned t = 0; t < TABLES; t++)
        TRY(compare(db, t, i.applied, err));
    return 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_replica *r;
    (void)ctx;
    for (unsigned t = 0; t < TABLES; t++)
        TRY(compare(db, t, 0, err));
    TRY(open_replica(db, &r, err));
    return close_replica(r, check_replica(db, r, err), err);
}

/* Sends the rest of the stream, and compares all. */
static int finish(struct lladd_db *db, struct lladd_replica *r, struct lladd_error *err)
{
    TRY(send_upto(r, EVENTS, err));
    TRY(lladd_replica_wait(r, position_of(EVENTS - 1), 0, err));
    for (unsigned t = 0; t < TABLES; t++)
        TRY(compare(db, t, position_of(EVENTS - 1), err));
    for (unsigned t = 0; t < TABLES; t++)
        TRY(flush(db, t, err));
    return forget(r, err);
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_replica *r;
    TRY(open_replica(db, &r, err));
    TRY(close_replica(r, finish(db, r, err), err));
    return check(ctx, db, err);
}

struct paging {
    struct lladd_db *db;
    int (*fn)(void *, lladd_pageno);
    void *arg;
    struct lladd_error *err;
};

static int blob_pages(void *ctx, const char *name, struct lladd_root_value value)
{
    struct paging *p = ctx;
    return strncmp(name, "replica:", 8) == 0
               ? lladd_blob_pages(p->db, lladd_page_of(value.a), p->fn, p->arg, p->err)
               : 0;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct paging p = {db, fn, arg, err};
    (void)ctx;
    TRY(lladd_managed_pages(db, fn, arg, err));
    TRY(lladd_root_each(db, blob_pages, &p, err));
    return ll_sim_journal_pages(db, fn, arg, err);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* If `busy` is LLADD_BUSY, lets the other threads go on, and returns true. */
static bool again(int busy)
{
    if (busy == LLADD_BUSY)
        lladd_yield();
    return busy == LLADD_BUSY;
}

static int applies(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_replica *r;
    int rc;
    while (again(rc = open_replica(db, &r, err)))
        ; /* another thread is closing a table */
    TRY(rc);
    return close_replica(r, send_upto(r, EVENTS - 3, err), err);
}

static int open_table(struct lladd_db *db, unsigned table, struct lladd_managed **t,
                      struct lladd_error *err)
{
    int rc;
    while (again(rc = lladd_managed_open(db, tables[table], t, err)))
        ; /* another thread is opening or closing it */
    return rc;
}

static int flushes(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    TRY(open_table(db, 0, &t, err));
    int rc = lladd_managed_digest(t, err);
    if (rc == LLADD_BUSY)
        rc = 0; /* the replica is flushing it */
    int closed = lladd_managed_close(t, rc ? NULL : err);
    return rc ? rc : closed;
}

static int read_in(struct lladd_txn *txn, struct lladd_managed *const open[TABLES])
{
    uint32_t is[TABLES][KEYS], should[TABLES][KEYS];
    for (unsigned t = 0; t < TABLES; t++)
        for (uint32_t k = 0; k < KEYS; k++)
            TRY(ll_sim_managed_number(txn, open[t], k, &is[t][k]));
    for (size_t i = 0; i < EVENTS; i++) {
        for (unsigned t = 0; t < TABLES; t++)
            rows_after(position_of(i), t, should[t]);
        if (memcmp(is, should, sizeof is) == 0)
            return lladd_commit(txn);
    }
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                           "a reader sees rows that the source never had together");
}

static int reads(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *open[TABLES];
    struct lladd_txn *txn;
    for (unsigned t = 0; t < TABLES; t++)
        TRY(open_table(db, t, &open[t], err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = read_in(txn, open);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : 0);
    for (unsigned t = 0; t < TABLES; t++)
        TRY(lladd_managed_close(open[t], err));
    return 0;
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    (void)ctx;
    (void)sim;
    return thread == 0 ? applies(db, err) : thread == 1 ? flushes(db, err) : reads(db, err);
}

static const char *const operations[] = {NULL};

#define SUBJECT(subject, name_, about_, ...) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof subject, \
        .name = name_, \
        .about = about_, \
        .configure = configure, \
        .setup = setup, \
        .check = check, \
        .go_on = go_on, \
        .pages = pages, \
        .operations = operations, \
        __VA_ARGS__}

SUBJECT(ll_sim_subject_replica, "replica",
        "unlogged dTables that follow a source: whole transactions, and where it must go on",
        .run = run);
SUBJECT(ll_sim_subject_replica_threads, "replica.threads",
        "a replica is written by one thread, flushed by another, and read by a third",
        .threads = 3, .run_thread = run_thread);
