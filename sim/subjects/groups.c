/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * groups: the page file outgrows its first allocation bitmap. The setup allocates nearly all pages
 * of the first bitmap's group, and makes the file longer than the group. The first extent of the
 * workload does not fit into the group, so the second group gets a bitmap. The transaction that
 * allocated the extent rolls back, which leaves this bitmap empty.
 *
 * A cell is an extent with a name in the catalogue of roots. Its first and last page are written.
 */
#include "sim/subjects/cells.h"

#include <lladd/bulk.h>
#include <string.h>

enum { CELLS = 3, TAKEN = 16100 /* of 16128 */, EXTENT = 40, LEN = 60 };
#define PREFIX "group"

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno first;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_extent_alloc(txn, TAKEN, LLADD_EXTENT_PAGED, &first);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    return lladd_pages_extend(db, lladd_extent_max(db) + 1 + (CELLS + 1) * EXTENT, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int write_page(struct lladd_txn *txn, lladd_pageno page, const unsigned char *bytes)
{
    TRY(lladd_bytes_format(txn, page));
    return lladd_bytes_set(txn, page, 0, bytes, LEN);
}

static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char bytes[LEN];
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno first;
    ll_sim_fill(bytes, cell, letter, LEN);
    TRY(lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_PAGED, &first));
    TRY(write_page(txn, first, bytes));
    TRY(write_page(txn, lladd_page_of(first.v + EXTENT - 1), bytes));
    TRY(lladd_root_set(txn, ll_sim_root_name(PREFIX, cell, name),
                       (struct lladd_root_value){first.v, 0}));
    return ll_sim_cell_note(w, txn, cell, letter, LEN);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 0, 'x'));
    return lladd_sim_abort(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    return make(w, txn, 1, 'o');
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 2, 'a'));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(ll_sim_in_txn(&w, stays_open));
    return ll_sim_in_txn(&w, commits);
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_page(struct lladd_db *db, lladd_pageno page, unsigned cell, struct ll_sim_cells *c,
                     struct lladd_error *err)
{
    unsigned char bytes[LEN];
    memset(&c->at[cell], 0, sizeof c->at[cell]);
    TRY(lladd_bytes_get(db, page, 0, bytes, LEN, err));
    if (ll_sim_cells_see(c, bytes, LEN) && c->at[cell].letter)
        return 0;
    return lladd_error_set(err, LLADD_BAD_STATE, "page %llu is not the one of cell %u",
                           (unsigned long long)page.v, cell);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        lladd_pageno first;
        TRY(ll_sim_ith_page(db, PREFIX, cell, &first, err));
        if (first.v == LLADD_NO_PAGE)
            continue;
        TRY(read_page(db, first, cell, &c, err));
        TRY(read_page(db, lladd_page_of(first.v + EXTENT - 1), cell, &c, err));
    }
    return ll_sim_cells_write(&c, sink);
}

static bool is_owned(const lladd_pageno first[CELLS], uint64_t page)
{
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (first[cell].v <= page && page < first[cell].v + EXTENT)
            return true;
    return false;
}

/* Checks the pages of the second group for leaks. The first group has too many pages. */
static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first[CELLS];
    uint64_t begin = lladd_extent_max(db) + 1, end = begin + 4 * EXTENT;
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++)
        TRY(ll_sim_ith_page(db, PREFIX, cell, &first[cell], err));
    for (uint64_t p = begin; p < end && p < lladd_page_count(db); p++) {
        enum lladd_page_use use;
        TRY(lladd_page_use_get(db, lladd_page_of(p), &use, err));
        if (use != LLADD_USE_SYSTEM && is_owned(first, p) != (use == LLADD_USE_PAGED))
            return lladd_error_set(err, LLADD_BAD_STATE, "page %llu has the wrong use: %d",
                                   (unsigned long long)p, (int)use);
    }
    return 0;
}

static const char *const operations[] = {"lladd.map.format", "lladd.map.take", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.map.format", LL_SIM_NO_UNDO, "an empty map means the same as no map"}, {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_groups = {
    .struct_size = sizeof ll_sim_subject_groups,
    .name = "groups",
    .about = "a page file that outgrows its first allocation bitmap",
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .operations = operations,
    .excuses = excuses,
};
