/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pages: transactions allocate, format and free pages. They commit, roll back, are prepared, or
 * stay open. A rollback needs the pages that its transaction has freed, so no other transaction may
 * get such a page before the commit is durable. Soon after the commit, another transaction gets it.
 *
 * A cell is a page with a name in the catalogue of roots.
 */
#include "sim/subjects/cells.h"

#include <string.h>

enum { CELLS = 12, AT = 1000, LEN = 40 };
#define PREFIX "page"

/* ---- the workload ------------------------------------------------------------------------ */

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno page;
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_page_format(txn, page, "lladd.bytes"));
    TRY(lladd_bytes_set(txn, page, AT, bytes, LEN));
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, cell, name),
                       (struct lladd_root_value){page.v, 0}));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, LEN) : 0;
}

static int drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    return ll_sim_cell_drop(w, txn, PREFIX, cell);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    int rc = 0;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    for (unsigned cell = 0; !rc && cell < 4; cell++)
        rc = make(&w, txn, cell, 'a');
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int replaces(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 0));
    TRY(make(w, txn, 4, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    return make(w, txn, 5, 'o');
}

static int makes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 6, 'c'));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 4));
    TRY(make(w, txn, 7, 'x'));
    TRY(drop(w, txn, 7));
    return lladd_sim_abort(w->sim, txn);
}

/* Frees a page, allocates another, rolls back both to a savepoint, and allocates a third. */
static int changes_its_mind(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(drop(w, txn, 6));
    TRY(make(w, txn, 8, 'y'));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(make(w, txn, 9, 'd'));
    return lladd_sim_commit(w->sim, txn);
}

/* A prepared transaction has freed a page. `other` must get neither this page nor a page that the
 * open transaction has freed. */
static int in_doubt(struct ll_sim_work *w)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = 4, .data = "free"};
    struct lladd_txn *txn, *other;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = drop(w, txn, 2);
    if (!rc)
        rc = lladd_sim_prepare(w->sim, txn, &gid);
    if (!rc)
        rc = lladd_sim_begin(w->sim, w->db, NULL, &other, lladd_txn_error_out(txn));
    if (rc)
        return ll_sim_give_up(w->sim, txn, rc, w->err);
    rc = make(w, other, 10, 'e');
    if (rc)
        return ll_sim_give_up(w->sim, other, rc, w->err);
    TRY(lladd_sim_commit(w->sim, other));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, replaces));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, makes));
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, changes_its_mind));
    return in_doubt(&w);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        unsigned char bytes[LEN];
        lladd_pageno page;
        TRY(ll_sim_ith_page(db, PREFIX, cell, &page, err));
        if (page.v == LLADD_NO_PAGE)
            continue;
        TRY(lladd_bytes_get(db, page, AT, bytes, LEN, err));
        if (!ll_sim_cells_see(&c, bytes, LEN) || !c.at[cell].letter)
            return lladd_error_set(err, LLADD_BAD_STATE, "page %llu is not the one of cell %u",
                                   (unsigned long long)page.v, cell);
    }
    return ll_sim_cells_write(&c, sink);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = 0; cell < 4; cell++)
        c->at[cell] = (struct ll_sim_cell){'a', LEN};
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_ith_each(db, PREFIX, CELLS, fn, arg, err);
}

static const char *const operations[] = {"lladd.map.take", "lladd.map.free", "lladd.bytes.format",
                                         "lladd.root.put", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.bytes.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_pages = {
    .struct_size = sizeof ll_sim_subject_pages,
    .name = "pages",
    .about = "pages allocated, formatted, freed, and allocated again",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
