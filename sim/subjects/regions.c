/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regions: extents of all three kinds, with entries in the catalogue of regions. They are made and
 * destroyed by transactions that commit, roll back, roll back to a savepoint, and stay open. The
 * first transaction also makes the catalogue.
 *
 * A cell is a region. The region's tag contains the cell's number and letter. The cell's length is
 * the region's number of pages.
 */
#include "sim/subjects/cells.h"

#include <lladd/hash.h>
#include <string.h>

enum { CELLS = 8 };

/* ---- finding ----------------------------------------------------------------------------- */

static unsigned cell_of(const struct lladd_region *r)
{
    return (unsigned)(r->tag >> 8);
}

struct search {
    unsigned cell;
    struct lladd_region found; /* `pages` is 0 if the region was not found */
};

static int is_it(void *ctx, const struct lladd_region *r)
{
    struct search *s = ctx;
    if (cell_of(r) == s->cell)
        s->found = *r;
    return 0;
}

static int find(struct ll_sim_work *w, unsigned cell, struct lladd_region *out)
{
    struct search s = {.cell = cell};
    TRY(lladd_region_each(w->db, is_it, &s, w->err));
    *out = s.found;
    return 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

/* Makes the region unless it exists. */
static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, unsigned kind,
                uint32_t pages, char letter)
{
    struct lladd_region r;
    lladd_pageno first;
    TRY(find(w, cell, &r));
    if (r.pages)
        return 0;
    TRY(lladd_region_create(txn, pages, kind, (uint64_t)cell << 8 | (unsigned char)letter, &first));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, pages) : 0;
}

/* Destroys the region if it exists. */
static int drop(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    struct lladd_region r;
    TRY(find(w, cell, &r));
    if (r.pages == 0)
        return 0;
    TRY(lladd_region_destroy(txn, r.first));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

static int makes_the_first(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 0, LLADD_EXTENT_PAGED, 3, 'a'));
    TRY(make(w, txn, 1, LLADD_EXTENT_RAW, 5, 'b'));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 1));
    return make(w, txn, 2, LLADD_EXTENT_PAGED, 2, 'o');
}

static int changes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(make(w, txn, 3, LLADD_EXTENT_BULK, 4, 'c'));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(drop(w, txn, 0));
    TRY(make(w, txn, 4, LLADD_EXTENT_RAW, 1, 'x'));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(make(w, txn, 5, LLADD_EXTENT_PAGED, 1, 'd'));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 3));
    TRY(make(w, txn, 6, LLADD_EXTENT_PAGED, 6, 'x'));
    TRY(drop(w, txn, 5));
    return lladd_sim_abort(w->sim, txn);
}

static int destroys(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(drop(w, txn, 5));
    TRY(drop(w, txn, 0));
    TRY(make(w, txn, 7, LLADD_EXTENT_RAW, 2, 'e'));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, makes_the_first));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, changes));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, destroys);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int see(void *ctx, const struct lladd_region *r)
{
    struct ll_sim_cells *c = ctx;
    unsigned cell = cell_of(r);
    if (cell >= CELLS || c->at[cell].letter)
        return LLADD_BAD_STATE;
    c->at[cell] = (struct ll_sim_cell){(char)(r->tag & 0xff), (uint32_t)r->pages};
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    int rc = lladd_region_each(db, see, &c, err);
    if (rc == LLADD_BAD_STATE)
        lladd_error_set(err, rc, "a region was never made, or is listed twice");
    return rc ? rc : ll_sim_cells_write(&c, sink);
}

/* A lookup by the region's first page must return the same facts as the list. */
static int ask(void *ctx, const struct lladd_region *r)
{
    struct ll_sim_work *w = ctx;
    struct lladd_region got;
    TRY(lladd_region_get(w->db, r->first, &got, w->err));
    return got.pages == r->pages && got.kind == r->kind && got.tag == r->tag
               ? 0
               : lladd_error_set(w->err, LLADD_BAD_STATE,
                                 "a lookup of a region returns other values than the list");
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    (void)ctx;
    return lladd_region_each(db, ask, &w, err);
}

struct listing {
    int (*fn)(void *arg, lladd_pageno);
    void *arg;
};

static int list(void *ctx, const struct lladd_region *r)
{
    const struct listing *l = ctx;
    for (uint64_t i = 0; i < r->pages; i++)
        TRY(l->fn(l->arg, lladd_page_of(r->first.v + i)));
    return 0;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct listing l = {fn, arg};
    struct lladd_hash *catalogue;
    lladd_pageno root;
    (void)ctx;
    TRY(lladd_region_each(db, list, &l, err));
    TRY(ll_sim_root_page(db, LLADD_REGIONS_ROOT, &root, err));
    if (root.v == LLADD_NO_PAGE)
        return 0;
    TRY(lladd_hash_open(db, root, LLADD_HASH_LOGICAL, &catalogue, err));
    int rc = lladd_hash_pages(catalogue, fn, arg, err);
    lladd_hash_close(catalogue);
    return rc;
}

static const char *const operations[] = {"lladd.map.take", "lladd.map.free", NULL};

const struct lladd_sim_subject ll_sim_subject_regions = {
    .struct_size = sizeof ll_sim_subject_regions,
    .name = "regions",
    .about = "extents that are listed, with their sizes",
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = pages,
    .operations = operations,
};
