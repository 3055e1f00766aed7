/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bytes: plain bytes, written by three operations: for few bytes, for many bytes, and for a range
 * in which only some parts change. A cell has 600 bytes of a page. A text fills the first of these
 * bytes.
 */
#include "sim/subjects/cells.h"

#include <string.h>

enum { PAGES = 2, ON_PAGE = 6, STRIDE = 640, LONGEST = 600 };

static lladd_pageno page_of(const struct ll_sim_work *w, unsigned cell)
{
    return lladd_page_of(w->first.v + cell / ON_PAGE);
}

static uint32_t place_of(unsigned cell)
{
    return cell % ON_PAGE * STRIDE;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

/* Fills a cell. `len` must not be less than before, since bytes after `len` are not cleared. */
static int fill(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_bytes_set(txn, page_of(w, cell), place_of(cell), bytes, len));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

/* Writes two cells of one page by one record. The cells between them stay unchanged. */
static int fill_two(struct ll_sim_work *w, struct lladd_txn *txn, const unsigned cell[2],
                    char letter, size_t len)
{
    unsigned char bytes[ON_PAGE * STRIDE];
    lladd_pageno page = page_of(w, cell[0]);
    TRY(lladd_bytes_get(w->db, page, 0, bytes, sizeof bytes, w->err));
    for (unsigned i = 0; i < 2; i++)
        ll_sim_fill(bytes + place_of(cell[i]), cell[i], letter, len);
    TRY(lladd_bytes_set_range(txn, page, 0, bytes, sizeof bytes));
    TRY(ll_sim_cell_note(w, txn, cell[0], letter, len));
    return ll_sim_cell_note(w, txn, cell[1], letter, len);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill(w, txn, 0, 'a', 500));
    TRY(fill_two(w, txn, (unsigned[]){1, 3}, 'b', 90));
    TRY(fill(w, txn, 6, 'c', 20));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill(w, txn, 2, 'o', 300));
    TRY(fill_two(w, txn, (unsigned[]){7, 9}, 'o', 70));
    return fill(w, txn, 10, 'o', 9);
}

static int goes_on(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(fill(w, txn, 0, 'd', 600));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(fill_two(w, txn, (unsigned[]){1, 3}, 'x', 400));
    TRY(fill(w, txn, 6, 'x', 200));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(fill(w, txn, 6, 'e', 130));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(fill_two(w, txn, (unsigned[]){0, 4}, 'y', 600));
    TRY(fill(w, txn, 1, 'y', 555));
    TRY(fill(w, txn, 6, 'y', 130));
    return lladd_sim_abort(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, commits));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, goes_on));
    return ll_sim_in_txn(&w, rolls_back);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_cell(struct lladd_db *db, const struct ll_sim_work *w, unsigned cell,
                     struct ll_sim_cells *c, struct lladd_error *err)
{
    unsigned char bytes[LONGEST];
    size_t len = LONGEST;
    TRY(lladd_bytes_get(db, page_of(w, cell), place_of(cell), bytes, LONGEST, err));
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    if (len == 0 || (ll_sim_cells_see(c, bytes, len) && c->at[cell].letter))
        return 0;
    return lladd_error_set(err, LLADD_BAD_STATE, "cell %u is filled with different bytes", cell);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db};
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(ll_sim_pages_find(db, &w.first, err));
    for (unsigned cell = 0; cell < PAGES * ON_PAGE; cell++)
        TRY(read_cell(db, &w, cell, &c, err));
    return ll_sim_cells_write(&c, sink);
}

static const char *const operations[] = {"lladd.set", "lladd.set.long", "lladd.set_range", NULL};

const struct lladd_sim_subject ll_sim_subject_bytes = {
    .struct_size = sizeof ll_sim_subject_bytes,
    .name = "bytes",
    .about = "plain bytes: few, many, and parts of a range",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
