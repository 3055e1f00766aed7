/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heuristic: an administrator commits some prepared transactions and aborts others. The library
 * remembers the outcomes. A checkpoint copies them, and one of them is forgotten.
 *
 * Before it is prepared, each transaction rolls back to a savepoint, and rolls back a top action.
 */
#include "sim/subjects/amounts.h"

#include <lladd/extension.h>
#include <string.h>

enum { COUNTERS = 4 };

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){first, 40 + counter * 900};
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int32_t delta)
{
    struct ll_sim_place p = place_of(w->first, counter);
    TRY(lladd_counter_add(txn, p.page, p.offset, delta));
    return ll_sim_amount_note(w, txn, counter, delta);
}

static struct lladd_gid gid_of(unsigned char id)
{
    struct lladd_gid gid = {.format = 3, .gtrid_length = 3, .bqual_length = 1, .data = "heu"};
    gid.data[3] = id;
    return gid;
}

/* Adds 1 and 10 to the counter. In between, adds an amount and rolls back to a savepoint, and adds
 * an amount in a top action and rolls the action back. */
static int change(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter)
{
    struct lladd_action action;
    lladd_savepoint_id here;
    TRY(add(w, txn, counter, 1));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(add(w, txn, counter, 500));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(lladd_nta_begin(txn, &action));
    TRY(lladd_counter_add(txn, w->first, place_of(w->first, counter).offset, 7000));
    TRY(lladd_nta_abort(txn, &action));
    return add(w, txn, counter, 10);
}

static int prepared(struct ll_sim_work *w, uint32_t counter, struct lladd_txn **txn)
{
    struct lladd_gid gid = gid_of((unsigned char)('a' + counter));
    TRY(lladd_sim_begin(w->sim, w->db, NULL, txn, w->err));
    int rc = change(w, *txn, counter);
    if (!rc)
        rc = lladd_sim_prepare(w->sim, *txn, &gid);
    if (rc)
        *w->err = *lladd_txn_error(*txn);
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *kept, *gone, *late;
    struct lladd_gid first = gid_of('a');
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(prepared(&w, 0, &kept));
    TRY(prepared(&w, 1, &gone));
    TRY(lladd_sim_heuristic_end(sim, kept, LLADD_OUTCOME_COMMIT));
    TRY(lladd_sim_heuristic_end(sim, gone, LLADD_OUTCOME_ABORT));
    TRY(prepared(&w, 2, &late));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_sim_heuristic_forget(sim, db, &first, err));
    return lladd_sim_heuristic_end(sim, late, LLADD_OUTCOME_ABORT);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, COUNTERS, place_of, sink, err);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_heuristic = {
    .struct_size = sizeof ll_sim_subject_heuristic,
    .name = "heuristic",
    .about = "prepared transactions that an administrator ends; outcomes remembered and forgotten",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
