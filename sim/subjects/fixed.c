/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fixed: records of one length, on a nearly full page and on a new page. Several transactions
 * store, change and delete records on one page. One transaction rolls back, and one stays open.
 */
#include "sim/subjects/cells.h"

enum { SIZE = 500, AT_HOME = 8 /* number of slots on a page */ };
#define NEW_PAGE "fixed.new"

static int store_on(struct ll_sim_work *w, struct lladd_txn *txn, lladd_pageno page, unsigned cell,
                    char letter)
{
    unsigned char bytes[SIZE];
    ll_sim_fill(bytes, cell, letter, SIZE);
    TRY(lladd_fixed_alloc(txn, page, bytes, &w->rid[cell]));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, SIZE) : 0;
}

static int store(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    return store_on(w, txn, w->first, cell, letter);
}

static int change(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[SIZE];
    ll_sim_fill(bytes, cell, letter, SIZE);
    TRY(lladd_fixed_set(txn, w->rid[cell], 0, bytes, SIZE));
    return ll_sim_cell_note(w, txn, cell, letter, SIZE);
}

static int give_up(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    TRY(lladd_fixed_free(txn, w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_make(db, 1, &page, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_fixed_format(txn, page, SIZE);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int stores(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned cell = 0; cell < 5; cell++)
        TRY(store(w, txn, cell, 'a'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(give_up(w, txn, 0));
    TRY(change(w, txn, 1, 'o'));
    return store(w, txn, 5, 'o');
}

static int changes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 2, 'b'));
    TRY(give_up(w, txn, 3));
    TRY(store(w, txn, 6, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

/* Record 7 may get the slot of record 3, but not that of record 0, which is reserved for the undo
 * of the open transaction. */
static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(store(w, txn, 7, 'x'));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(give_up(w, txn, 4));
    TRY(change(w, txn, 2, 'x'));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(change(w, txn, 6, 'x'));
    TRY(give_up(w, txn, 2));
    return lladd_sim_abort(w->sim, txn);
}

static int makes_a_page(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_pageno page;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_fixed_format(txn, page, SIZE));
    TRY(lladd_root_set(txn, NEW_PAGE, (struct lladd_root_value){page.v, 0}));
    TRY(store_on(w, txn, page, 9, 'c'));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, stores));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, changes));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, makes_a_page);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static bool see_all(struct ll_sim_cells *c, struct lladd_view v)
{
    struct lladd_record r;
    if (lladd_fixed_size(v) != SIZE || lladd_fixed_slots(v) < AT_HOME)
        return false;
    for (uint32_t slot = 0; slot < lladd_fixed_slots(v); slot++)
        if (lladd_fixed_record(v, slot, &r) && !ll_sim_cells_see(c, r.bytes, r.len))
            return false;
    return true;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_records_dump(db, NEW_PAGE, see_all, sink, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_records_each(db, NEW_PAGE, fn, arg, err);
}

static const char *const operations[] = {"lladd.fixed.format", "lladd.fixed.alloc",
                                         "lladd.fixed.free", "lladd.fixed.set", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.fixed.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_fixed = {
    .struct_size = sizeof ll_sim_subject_fixed,
    .name = "fixed",
    .about = "records of one length",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
