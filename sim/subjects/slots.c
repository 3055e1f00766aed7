/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slots: a full slotted page. A deleted record leaves a ghost, and a record that has shrunk leaves
 * slack. When a transaction needs room, ghosts and slack are purged, except those that an open
 * transaction may need for undo. Records that no longer fit in their place move on the page.
 */
#include "sim/subjects/cells.h"

enum { LONGEST = 1200 };
#define NEW_PAGE "slots.new"

static int store_on(struct ll_sim_work *w, struct lladd_txn *txn, lladd_pageno page, unsigned cell,
                    char letter, size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_slotted_alloc(txn, page, bytes, len, 0, &w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

static int store(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                 size_t len)
{
    return store_on(w, txn, w->first, cell, letter, len);
}

static int change(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                  size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_slotted_set(txn, w->rid[cell], bytes, len, 0));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

/* Like change(), but in three calls: one for the length, one for the second half, and one for the
 * first half. */
static int change_in_pieces(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell,
                            char letter, size_t len)
{
    unsigned char bytes[LONGEST];
    uint32_t half = (uint32_t)len / 2;
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_slotted_resize(txn, w->rid[cell], len));
    TRY(lladd_slotted_write(txn, w->rid[cell], half, bytes + half, len - half));
    TRY(lladd_slotted_write(txn, w->rid[cell], 0, bytes, half));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

static int give_up(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    TRY(lladd_slotted_free(txn, w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_make(db, 1, &page, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_slotted_format(txn, page, 7);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Fills nearly all of the page. */
static int stores(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(store(w, txn, 0, 'a', 900));
    TRY(store(w, txn, 1, 'b', 900));
    TRY(store(w, txn, 2, 'c', 900));
    TRY(store(w, txn, 3, 'd', 900));
    TRY(store(w, txn, 4, 'e', 100));
    return lladd_sim_commit(w->sim, txn);
}

static int makes_room(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(give_up(w, txn, 0));
    TRY(change(w, txn, 1, 'f', 400));
    return lladd_sim_commit(w->sim, txn);
}

/* The room that this transaction has freed stays reserved for its undo. The next transaction can
 * use only the room that makes_room() has freed. */
static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 3, 'o', 600));
    return give_up(w, txn, 4);
}

/* Needs the room of the first record's ghost and of the second record's slack. */
static int needs_room(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(store(w, txn, 5, 'g', 1100));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(give_up(w, txn, 5));
    TRY(change_in_pieces(w, txn, 2, 'x', 700));
    TRY(store(w, txn, 6, 'x', 60));
    return lladd_sim_abort(w->sim, txn);
}

static int makes_a_page(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_pageno page;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_slotted_format(txn, page, 8));
    TRY(lladd_root_set(txn, NEW_PAGE, (struct lladd_root_value){page.v, 0}));
    TRY(store_on(w, txn, page, 7, 'h', 33));
    TRY(change_in_pieces(w, txn, 1, 'i', 350));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, stores));
    TRY(ll_sim_in_txn(&w, makes_room));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, needs_room));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, makes_a_page);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_records_dump(db, NEW_PAGE, ll_sim_cells_see_slotted, sink, err);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_records_each(db, NEW_PAGE, fn, arg, err);
}

static const char *const operations[] = {"lladd.slotted.format", "lladd.slotted.alloc",
                                         "lladd.slotted.free",   "lladd.slotted.set",
                                         "lladd.slotted.purge",  NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.slotted.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {"lladd.slotted.purge", LL_SIM_NO_UNDO, "only what no undo needs is purged"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_slots = {
    .struct_size = sizeof ll_sim_subject_slots,
    .name = "slots",
    .about = "a full slotted page: ghosts, slack, purging, records written in pieces",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
