/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * records: records of any length on a slotted page. Transactions store, change, lengthen and delete
 * records on one page. One transaction rolls back, and one stays open.
 *
 * A cell is a record.
 */
#include "sim/subjects/cells.h"

#include <lladd/records.h>

#include <string.h>

enum { LONGEST = 60 };

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_make(db, 1, &page, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_slotted_format(txn, page, 1);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int store(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                 size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_slotted_alloc(txn, w->first, bytes, len, 1, &w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

static int change(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                  size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_slotted_set(txn, w->rid[cell], bytes, len, 1));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

static int give_up(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    TRY(lladd_slotted_free(txn, w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

static int stores(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(store(w, txn, 0, 'a', 20));
    TRY(store(w, txn, 1, 'b', 40));
    TRY(store(w, txn, 2, 'c', 10));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 1, 'x', 60));
    TRY(give_up(w, txn, 0));
    TRY(store(w, txn, 3, 'y', 30));
    return lladd_sim_abort(w->sim, txn);
}

static int changes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 1, 'd', 12));
    TRY(give_up(w, txn, 2));
    TRY(store(w, txn, 4, 'e', 33));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 0, 'z', 50));
    TRY(store(w, txn, 5, 'z', 8));
    return 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, stores));
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    return ll_sim_in_txn(&w, changes);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_records_dump(db, NULL, ll_sim_cells_see_slotted, sink, err);
}

static const char *const operations[] = {"lladd.slotted.alloc", "lladd.slotted.free",
                                         "lladd.slotted.set", NULL};

const struct lladd_sim_subject ll_sim_subject_records = {
    .struct_size = sizeof ll_sim_subject_records,
    .name = "records",
    .about = "records of any length on a slotted page",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
