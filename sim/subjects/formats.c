/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * formats: new pages of each type that is formatted without arguments, by transactions that commit,
 * roll back and stay open. Pages are freed, and another transaction formats them as another type.
 * The old contents of a page must not matter, whether they are torn or not.
 *
 * A cell is a page with a name in the catalogue of roots. Its letter stands for the type.
 */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <string.h>

enum { CELLS = 10, TYPES = 4 };
#define PREFIX "format"
static const char *const types[TYPES] = {"lladd.bytes", "lladd.slotted", "lladd.heap",
                                         "lladd.root"};

static char letter_of(unsigned type)
{
    return (char)('a' + type);
}

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, unsigned type)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno page;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_page_format(txn, page, types[type]));
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, cell, name),
                       (struct lladd_root_value){page.v, 0}));
    return ll_sim_cell_note(w, txn, cell, letter_of(type), 1);
}

static int drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    return ll_sim_cell_drop(w, txn, PREFIX, cell);
}

static int makes_all(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (unsigned type = 0; type < TYPES; type++)
        TRY(make(w, txn, type, type));
    return lladd_sim_commit(w->sim, txn);
}

static int gives_some_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    TRY(drop(w, txn, 3));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return make(w, txn, 5, 3);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 6, 2));
    TRY(drop(w, txn, 0));
    return lladd_sim_abort(w->sim, txn);
}

static int makes_another(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 7, 0));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, makes_all));
    TRY(ll_sim_in_txn(&w, gives_some_back));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, makes_another);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int look(struct lladd_db *db, lladd_pageno number, struct ll_sim_cell *cell,
                struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(lladd_page_fix(db, number, LLADD_LATCH_SHARED, &page, err));
    for (unsigned type = 0; type < TYPES; type++)
        if (lladd_page_is(db, lladd_page_view(page), types[type]))
            *cell = (struct ll_sim_cell){letter_of(type), 1};
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno page;
        TRY(ll_sim_ith_page(db, PREFIX, cell, &page, err));
        if (page.v != LLADD_NO_PAGE)
            TRY(look(db, page, &c.at[cell], err));
    }
    return ll_sim_cells_write(&c, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_ith_each(db, PREFIX, CELLS, fn, arg, err);
}

static const char *const operations[] = {"lladd.bytes.format", "lladd.slotted.format",
                                         "lladd.heap.format", "lladd.root.format", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"*", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"}, {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_formats = {
    .struct_size = sizeof ll_sim_subject_formats,
    .name = "formats",
    .about = "new pages of each type that is formatted without arguments",
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
