/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * promises: commits of every durability, with several transactions at a time. Commits are durable,
 * durable in the operating system only, durable later, or asynchronous with a later wait. A system
 * transaction commits while a user's transaction is open; then the user's transaction is rolled
 * back. A pin keeps the log from the LSN of a note on.
 *
 * A cell is a text. The log must not be truncated beyond the pin.
 */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <lladd/log_read.h>

enum { CELLS = 8, LEN = 30, STRIDE = 500 };
#define PIN "promises.pin"

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int fill(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_bytes_set(txn, w->first, cell * STRIDE, bytes, LEN));
    return ll_sim_cell_note(w, txn, cell, letter, LEN);
}

static int begin(struct ll_sim_work *w, enum lladd_durability durability, bool system,
                 struct lladd_txn **txn)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.durability = durability;
    o.system = system;
    return lladd_sim_begin(w->sim, w->db, &o, txn, w->err);
}

/* Makes one change in a transaction with these options, and commits. */
static int change(struct ll_sim_work *w, enum lladd_durability durability, bool system,
                  unsigned cell, char letter)
{
    struct lladd_txn *txn;
    TRY(begin(w, durability, system, &txn));
    int rc = fill(w, txn, cell, letter);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : lladd_sim_commit(w->sim, txn);
}

/* Logs a note, pins the log at the note, and stores its LSN as a root. */
static int pin(struct ll_sim_work *w)
{
    struct lladd_txn *txn;
    lladd_lsn lsn = {0};
    TRY(begin(w, LLADD_DURABLE, false, &txn));
    int rc = lladd_log_note(txn, "sim.note", lladd_span_of("here", 4), &lsn);
    if (!rc)
        rc = lladd_root_set(txn, PIN, (struct lladd_root_value){lsn.v, 0});
    if (!rc)
        rc = lladd_pin_set(w->db, PIN, lsn, lladd_txn_error_out(txn));
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *user, *quick;
    lladd_lsn ordered;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(pin(&w));
    TRY(begin(&w, LLADD_DURABLE, false, &user));
    TRY(fill(&w, user, 0, 'u'));
    TRY(change(&w, LLADD_DURABLE_LATER, true, 1, 's'));
    TRY(change(&w, LLADD_DURABLE_OS, false, 2, 'o'));
    TRY(begin(&w, LLADD_DURABLE, false, &quick));
    TRY(fill(&w, quick, 3, 'q'));
    TRY(lladd_sim_commit_async(sim, quick, &ordered));
    TRY(change(&w, LLADD_DURABLE_LATER, false, 4, 'l'));
    TRY(lladd_sim_wait_durable(sim, db, ordered, err));
    TRY(lladd_checkpoint(db, err));
    TRY(change(&w, LLADD_DURABLE_LATER, false, 5, 'm'));
    TRY(lladd_sim_abort(sim, user));
    TRY(lladd_checkpoint(db, err));
    return change(&w, LLADD_DURABLE, true, 6, 't');
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, CELLS, 0, STRIDE, LEN, sink, err);
}

/* Checks that the log still contains the note at the pin. */
static int read_note(struct lladd_db *db, lladd_lsn at, struct lladd_error *err)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e = {0};
    TRY(lladd_log_open(db, at, "sim.note", &cursor, err));
    int rc = lladd_log_next(cursor, &e, err);
    lladd_log_close(cursor);
    if (rc && rc != LLADD_END)
        return rc;
    if (rc || e.lsn.v != at.v)
        return lladd_error_set(err, LLADD_BAD_STATE, "the log no longer has the note at LSN %llu",
                               (unsigned long long)at.v);
    return 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value v;
    (void)ctx;
    int rc = lladd_root_get(db, PIN, &v, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    return read_note(db, lladd_lsn_of(v.a), err);
}

static const char *const operations[] = {"lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_promises = {
    .struct_size = sizeof ll_sim_subject_promises,
    .name = "promises",
    .about = "commits of every durability, system transactions, notes, a pin",
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
