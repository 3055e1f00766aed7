/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * steal: a cache of a few pages and a log of small segments. Pages with uncommitted updates are
 * written back to make room for other pages. A transaction that began early stays open while other
 * transactions commit, the log is truncated, and segments are reused. Then the early transaction is
 * rolled back, through several segments of the log.
 *
 * A cell is a text on a page of its own.
 */
#include "sim/subjects/cells.h"

enum { PAGES = 24, CELLS = 9, LEN = 100 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->cache_bytes = 80 << 10;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    o->checkpoint_bytes = 8 << 10;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int fill(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_bytes_set(txn, lladd_page_of(w->first.v + cell), 300, bytes, LEN));
    return ll_sim_cell_note(w, txn, cell, letter, LEN);
}

/* Reads other pages, so that the pages of the cells are evicted from the cache. */
static int look_elsewhere(struct ll_sim_work *w)
{
    for (unsigned p = CELLS; p < PAGES; p++) {
        unsigned char byte;
        TRY(lladd_bytes_get(w->db, lladd_page_of(w->first.v + p), 0, &byte, 1, w->err));
    }
    return 0;
}

static int fill_all(struct ll_sim_work *w, struct lladd_txn *txn, unsigned from, char letter)
{
    for (unsigned cell = from; cell < CELLS; cell += 3)
        TRY(fill(w, txn, cell, letter));
    return 0;
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill_all(w, txn, 0, 'a'));
    return lladd_sim_commit(w->sim, txn);
}

static int commits_again(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill_all(w, txn, 0, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return fill_all(w, txn, 1, 'o');
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *early;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_sim_begin(sim, db, NULL, &early, err));
    int rc = fill_all(&w, early, 2, 'e');
    if (rc)
        return ll_sim_give_up(sim, early, rc, err);
    TRY(look_elsewhere(&w));
    TRY(ll_sim_in_txn(&w, commits));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(look_elsewhere(&w));
    TRY(lladd_sim_abort(sim, early));
    return ll_sim_in_txn(&w, commits_again);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, CELLS, 300, 0, LEN, sink, err);
}

static const char *const operations[] = {"lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_steal = {
    .struct_size = sizeof ll_sim_subject_steal,
    .name = "steal",
    .about = "a tiny cache and tiny segments: uncommitted pages on disk, segments that are reused",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
