/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roots: names are set and removed, before and after the catalogue has grown by a page. A top
 * action chains the new page to the first page. The new page stays in the chain even if the
 * transaction rolls back.
 *
 * A cell is a name. Its value contains the letter.
 */
#include "sim/subjects/cells.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

enum { CELLS = 10, FILLERS = 46 }; /* 50 names fit on a page */

static int put(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_root_value v = {(uint64_t)letter, cell};
    TRY(lladd_root_set(txn, ll_sim_root_name("cell", cell, name), v));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, 1) : 0;
}

static int take_away(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    TRY(lladd_root_delete(txn, ll_sim_root_name("cell", cell, name)));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    char name[LLADD_ROOT_NAME_MAX + 1];
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = put(&w, txn, 0, 'a');
    if (!rc)
        rc = put(&w, txn, 1, 'a');
    for (unsigned i = 0; !rc && i < FILLERS; i++)
        rc = lladd_root_set(txn, ll_sim_root_name("filler", i, name),
                            (struct lladd_root_value){i, 0});
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(put(w, txn, 0, 'b'));
    TRY(take_away(w, txn, 1));
    TRY(put(w, txn, 2, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

/* Fills the last entry of the first page and the first entry of the second. (A removed name keeps
 * its entry.) */
static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(put(w, txn, 3, 'o'));
    return put(w, txn, 4, 'o');
}

static int goes_on(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(put(w, txn, 5, 'c'));
    TRY(put(w, txn, 1, 'c'));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(put(w, txn, 6, 'x'));
    TRY(take_away(w, txn, 0));
    TRY(take_away(w, txn, 5));
    return lladd_sim_abort(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, commits));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, goes_on));
    return ll_sim_in_txn(&w, rolls_back);
}

/* ---- dump and check ---------------------------------------------------------------------- */

struct seen {
    struct ll_sim_cells cells;
    unsigned fillers;
};

static int see(void *ctx, const char *name, struct lladd_root_value v)
{
    struct seen *s = ctx;
    unsigned cell = (unsigned)v.b;
    char own[LLADD_ROOT_NAME_MAX + 1];
    if (strncmp(name, "filler.", 7) == 0) {
        s->fillers++;
        return 0;
    }
    if (cell >= CELLS || strcmp(name, ll_sim_root_name("cell", cell, own)) != 0 ||
        s->cells.at[cell].letter)
        return LLADD_BAD_STATE;
    s->cells.at[cell] = (struct ll_sim_cell){(char)v.a, 1};
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct seen s;
    (void)ctx;
    memset(&s, 0, sizeof s);
    TRY(lladd_root_each(db, see, &s, err));
    if (s.fillers != FILLERS)
        return lladd_error_set(err, LLADD_BAD_STATE, "%u of %u names are left", s.fillers, FILLERS);
    return ll_sim_cells_write(&s.cells, sink);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[0] = c->at[1] = (struct ll_sim_cell){'a', 1};
}

/* The chain of pages begins at page 0, which is a system page and not allocated. Each page's body
 * begins with the number of the next page; 0 ends the chain (docs/disk-format.md). */
static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno at = lladd_page_of(0);
    (void)ctx;
    for (uint64_t i = 0; i < lladd_page_count(db); i++) {
        struct lladd_page *page;
        TRY(lladd_page_fix(db, at, LLADD_LATCH_SHARED, &page, err));
        at = lladd_page_of(lladd_get64(lladd_view_body(lladd_page_view(page))));
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        if (at.v == 0)
            return 0;
        TRY(fn(arg, at));
    }
    return lladd_error_set(err, LLADD_BAD_STATE, "the chain of root pages does not end");
}

static const char *const operations[] = {"lladd.root.put", "lladd.root.link", "lladd.root.format",
                                         NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.root.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_roots = {
    .struct_size = sizeof ll_sim_subject_roots,
    .name = "roots",
    .about = "the catalogue of names, when it outgrows its page",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
