/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dtable.managed.unlogged: the rows of a managed dTable are in no journal. A source has a fixed
 * stream of transactions, each with a position. The workload sends the first ones, also during a
 * flush (Anvil: digest), with rollbacks and an abort. After each crash the table must have exactly
 * the rows of the stream up to its position. Then the source sends the rest.
 *
 * The transactions begin outside of lladd_sim_begin, because their commits promise no rows.
 */
#include "sim/subjects/managed_tables.h"
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <lladd/dtable_managed.h>

enum { KEYS = 7, LAST = 10, SETUP = 2 };
#define NAME "rows"

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    o->log_segment_min = o->log_segment_max = 32u << 10;
    return lladd_managed_register(o, err);
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* Transaction n of the source puts n into two rows, and deletes another row. Each fourth
 * transaction first deletes a range of rows. */
enum { STEPS = 4 };
struct step {
    uint32_t key, to, number; /* to: deletes the rows from `key` up to, but not including, `to` */
};

static struct step step_of(uint32_t n, unsigned i)
{
    const struct step steps[STEPS] = {{n % 4 ? 0 : 2, n % 4 ? 0 : 5, n},
                                      {0, 0, n},
                                      {1 + n % (KEYS - 1), 0, n},
                                      {1 + (n + 2) % (KEYS - 1), 0, 0}};
    return steps[i];
}

static struct lladd_managed_position position_of(uint32_t n)
{
    return (struct lladd_managed_position){n ? 10 * n : 0, n ? 10 * n - 5 : 0};
}

/* Puts the rows of transaction n. */
static int take(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    struct lladd_managed_position p = position_of(n);
    TRY(lladd_managed_position_set(txn, t, &p));
    for (unsigned i = 0; i < STEPS; i++) {
        struct step s = step_of(n, i);
        struct lladd_dtable_key key = lladd_dtable_u32(s.key), to = lladd_dtable_u32(s.to);
        unsigned char bytes[4];
        lladd_put32(bytes, s.number);
        struct lladd_dtable_value v = s.number ? lladd_dtable_value_of(bytes, sizeof bytes)
                                               : lladd_dtable_tombstone();
        TRY(s.to ? lladd_managed_delete_range(txn, t, &key, &to)
                 : lladd_managed_put(txn, t, &key, &v));
    }
    return 0;
}

/* The rows after the first n transactions; 0: no row. */
static void rows_after(uint32_t n, uint32_t numbers[KEYS])
{
    for (uint32_t k = 0; k < KEYS; k++)
        numbers[k] = 0;
    for (uint32_t i = 1; i <= n; i++)
        for (unsigned k = 0; k < STEPS; k++) {
            struct step s = step_of(i, k);
            for (uint32_t key = s.key; key < s.to; key++)
                numbers[key] = 0;
            if (!s.to)
                numbers[s.key] = s.number;
        }
}

/* ---- the workload ---------------------------------------------------------------------------- */

static int in_txn(struct lladd_db *db, struct lladd_managed *t, uint32_t n,
                  int (*what)(struct lladd_txn *, struct lladd_managed *, uint32_t n),
                  struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = what(txn, t, n);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : 0;
}

static int send(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    TRY(take(txn, t, n));
    return lladd_commit(txn);
}

/* Sends n, and takes back n + 1. Does not wait for the log. */
static int send_partly(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    lladd_savepoint_id here;
    lladd_lsn lsn;
    TRY(take(txn, t, n));
    TRY(lladd_savepoint(txn, &here));
    TRY(take(txn, t, n + 1));
    TRY(lladd_rollback_to(txn, here));
    return lladd_commit_async(txn, &lsn);
}

static int give_up(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    TRY(take(txn, t, n));
    return lladd_abort(txn);
}

/* Sends n and n + 1 in a transaction during which the table is flushed. */
static int send_slowly(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    TRY(take(txn, t, n));
    TRY(lladd_managed_digest(t, lladd_txn_error_out(txn)));
    TRY(take(txn, t, n + 1));
    return lladd_commit(txn);
}

static int tidy_up(struct lladd_managed *t, struct lladd_error *err)
{
    bool more = true;
    while (more)
        TRY(lladd_managed_maintain(t, &more, err));
    return 0;
}

/* Puts rows that no run may get, for the transaction ends after the flush. */
static int stay_open(struct lladd_txn *txn, struct lladd_managed *t, uint32_t n)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(take(txn, t, n));
    TRY(lladd_managed_digest(t, err));
    TRY(tidy_up(t, err));
    TRY(lladd_checkpoint(lladd_txn_db(txn), err));
    return lladd_abort(txn);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    TRY(ll_sim_managed_make(db, NAME, LLADD_MANAGED_LEVELS, LLADD_MANAGED_UNLOGGED, &t, err));
    for (uint32_t n = 1; n <= SETUP; n++)
        TRY(in_txn(db, t, n, send, err));
    TRY(lladd_managed_digest(t, err));
    return lladd_managed_close(t, err);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    (void)ctx;
    (void)sim;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(db, t, 3, send_partly, err));
    TRY(in_txn(db, t, 4, give_up, err));
    TRY(in_txn(db, t, 4, send_slowly, err));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_managed_digest(t, err));
    TRY(in_txn(db, t, 6, send, err));
    TRY(lladd_managed_digest(t, err));
    TRY(in_txn(db, t, 7, send_partly, err));
    TRY(lladd_managed_combine(t, 0, err));
    TRY(in_txn(db, t, 8, send, err));
    return in_txn(db, t, 9, stay_open, err);
}

/* ---- what a recovered table has -------------------------------------------------------------- */

/* Sets *n to the number of the newest transaction of which the table has the rows. It must be that
 * of the position, unless the workload has returned an error and its handle goes on: then the table
 * may have rows in memory. */
static int reached(struct lladd_txn *txn, struct lladd_managed *t, uint32_t *n)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed_position p, durable;
    TRY(ll_sim_managed_number(txn, t, 0, n));
    TRY(lladd_managed_stats_get(t, &s, NULL, 0, err));
    TRY(lladd_managed_position_get(t, false, &p, err));
    TRY(lladd_managed_position_get(t, true, &durable, err));
    uint32_t stored = (uint32_t)(p.commit / 10);
    if (p.commit != position_of(stored).commit || p.from != position_of(stored).from)
        return lladd_error_set(err, LLADD_BAD_STATE, "a position that was never put there");
    if (durable.commit > p.commit || durable.from > p.from || stored < SETUP)
        return lladd_error_set(err, LLADD_BAD_STATE, "a position has gone back");
    return *n == stored || (s.pending_bytes && *n > stored)
               ? 0
               : lladd_error_set(err, LLADD_BAD_STATE, "rows up to %u, but the position is %u",
                                 10 * *n, 10 * stored);
}

static int check_rows(struct lladd_txn *txn, struct lladd_managed *t, uint32_t least)
{
    uint32_t n, numbers[KEYS], number;
    TRY(reached(txn, t, &n));
    rows_after(n, numbers);
    for (uint32_t i = 0; i < KEYS; i++) {
        TRY(ll_sim_managed_number(txn, t, i, &number));
        if (number != numbers[i])
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                                   "row %u is not that of the source at the position %u", i,
                                   10 * n);
    }
    if (n < least)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_STATE,
                               "only %u transactions are there", n);
    return lladd_commit(txn);
}

static int check_upto(struct lladd_db *db, uint32_t least, struct lladd_error *err)
{
    struct lladd_managed *t;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(in_txn(db, t, least, check_rows, err));
    return lladd_managed_close(t, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    return check_upto(db, SETUP, err);
}

static int newest(struct lladd_db *db, struct lladd_managed *t, uint32_t *n,
                  struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = reached(txn, t, n);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Sends the rest of the stream. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_managed *t;
    uint32_t n;
    (void)ctx;
    TRY(lladd_managed_open(db, NAME, &t, err));
    TRY(newest(db, t, &n, err));
    while (n < LAST)
        TRY(in_txn(db, t, ++n, send, err));
    TRY(in_txn(db, t, LAST, check_rows, err));
    TRY(lladd_managed_digest(t, err));
    TRY(tidy_up(t, err));
    TRY(lladd_managed_close(t, err));
    return check_upto(db, LAST, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    TRY(lladd_managed_pages(db, fn, arg, err));
    return ll_sim_journal_pages(db, fn, arg, err);
}

static const char *const operations[] = {NULL};

const struct lladd_sim_subject ll_sim_subject_managed_unlogged = {
    .struct_size = sizeof ll_sim_subject_managed_unlogged,
    .name = "dtable.managed.unlogged",
    .about = "an unlogged managed dTable: its rows are those of the source up to its position",
    .configure = configure,
    .setup = setup,
    .run = run,
    .check = check,
    .go_on = go_on,
    .pages = pages,
    .operations = operations,
};
