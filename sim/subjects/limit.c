/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * limit: the log has a byte limit and reaches it, because an open transaction prevents its
 * truncation. Other transactions are then refused, and the open transaction, which has also filled
 * the log, is rolled back. Recovery has the same options, so when a recovery crashes, the next one
 * finds the log as full as before. Open, rollback, checkpoint and close must not return
 * LLADD_LOG_FULL (REC-3).
 */
#include "sim/subjects/amounts.h"

#include <lladd/extension.h>

enum { SEGMENT = 4 << 10, SEGMENTS = 32, MOST = 400, FILLER = 700 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = o->log_segment_max = SEGMENT;
    o->log_limit_bytes = SEGMENTS * SEGMENT;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 2, &first, err);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter)
{
    TRY(lladd_counter_add(txn, lladd_page_of(w->first.v + counter), 0, 1));
    return ll_sim_amount_note(w, txn, counter, 1);
}

/* Runs a transaction with a long note, so that few calls fill the log. If the log is full, rolls
 * the transaction back and sets *full. */
static int commit_one(struct ll_sim_work *w, bool *full)
{
    static const unsigned char filler[FILLER];
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = lladd_log_note(txn, "sim.note", lladd_span_of(filler, FILLER), NULL);
    if (!rc)
        rc = add(w, txn, 0);
    *full = rc == LLADD_LOG_FULL;
    if (*full)
        return lladd_sim_abort(w->sim, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : lladd_sim_commit(w->sim, txn);
}

static int fill(struct ll_sim_work *w, struct lladd_txn *holder)
{
    bool full = false;
    int rc = add(w, holder, 1);
    for (unsigned i = 0; !rc && !full && i < MOST; i++) {
        rc = i % 4 == 0 ? add(w, holder, 1) : commit_one(w, &full);
        full = full || rc == LLADD_LOG_FULL;
        rc = rc == LLADD_LOG_FULL ? 0 : rc;
    }
    if (!rc && !full)
        rc = lladd_error_set(w->err, LLADD_BAD_STATE, "the log has not become full");
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *holder;
    bool full = false;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_sim_begin(sim, db, NULL, &holder, err));
    int rc = fill(&w, holder);
    if (rc)
        return ll_sim_give_up(sim, holder, rc, err);
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_sim_abort(sim, holder));
    TRY(lladd_checkpoint(db, err));
    TRY(commit_one(&w, &full));
    return full ? lladd_error_set(err, LLADD_LOG_FULL, "a checkpoint has freed no log space") : 0;
}

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){lladd_page_of(first.v + counter), 0};
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, 2, place_of, sink, err);
}

/* In each recovered database a transaction may be refused, but can then be rolled back. After a
 * checkpoint there must be room for a new transaction. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_counter_add(txn, w.first, 0, 1);
    if (rc && rc != LLADD_LOG_FULL)
        return ll_sim_give_up(NULL, txn, rc, err);
    TRY(lladd_abort(txn));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    rc = lladd_counter_add(txn, w.first, 0, 1);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_limit = {
    .struct_size = sizeof ll_sim_subject_limit,
    .name = "limit",
    .about = "a log that reaches its limit, and recoveries with the same limit",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .go_on = go_on,
    .repeats = true,
};
