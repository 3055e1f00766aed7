/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inventory: a heap has so many pages that its inventory needs another page. A top action chains
 * this page to the first inventory page. The setup fills the first inventory page, and every page
 * that it lists.
 */
#include "sim/subjects/cells.h"

#include <lladd/extension.h>
#include <lladd/heap.h>
#include <string.h>

enum { LEN = 4000 /* a record fills a page */, ENTRIES = 505 /* on an inventory page */ };
#define HEAP "inventory.heap"

/* Fills all but one of the pages that the first inventory page can list. */
static int fill_up(struct lladd_txn *txn, struct lladd_heap *heap, struct lladd_rid *last)
{
    unsigned char bytes[LEN];
    memset(bytes, 0, LEN);
    for (unsigned n = 0; n + 1 < ENTRIES; n++)
        TRY(lladd_heap_insert(txn, heap, bytes, LEN, last));
    return 0;
}

/* After an error, too, the caller closes the heap. */
static int make(struct lladd_db *db, struct lladd_heap **heap, struct lladd_rid *last,
                struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno root;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_heap_create_open(txn, &root, heap);
    if (!rc)
        rc = lladd_root_set(txn, HEAP, (struct lladd_root_value){root.v, 0});
    if (!rc)
        rc = fill_up(txn, *heap, last);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static int insert(struct lladd_txn *txn, struct lladd_heap *heap)
{
    unsigned char bytes[LEN];
    struct lladd_rid rid;
    memset(bytes, 0, LEN);
    return lladd_heap_insert(txn, heap, bytes, LEN, &rid);
}

/* Deletes a record, and stores another on the last page that the inventory page can list. */
static int give_up(struct lladd_db *db, struct lladd_heap *heap, struct lladd_rid last,
                   struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_heap_delete(txn, heap, last);
    if (!rc)
        rc = insert(txn, heap);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Stores a record. The heap searches all pages for room, and marks full pages in its inventory. */
static int settle(struct lladd_db *db, struct lladd_heap *heap, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = insert(txn, heap);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Truncates the log of the setup, which each recovery would otherwise have to read. */
static int tidy_up(struct lladd_db *db, struct lladd_error *err)
{
    bool more = true;
    TRY(lladd_checkpoint(db, err));
    while (more)
        TRY(lladd_maintain(db, &more, err));
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_heap *heap = NULL;
    struct lladd_rid last;
    (void)ctx;
    int rc = make(db, &heap, &last, err);
    if (!rc)
        rc = give_up(db, heap, last, err);
    if (!rc)
        rc = settle(db, heap, err);
    lladd_heap_close(heap);
    return rc ? rc : tidy_up(db, err);
}

/* After a crash before the commit, the log contains all or a part of the top action. */
static int grows(struct ll_sim_work *w, struct lladd_txn *txn)
{
    enum { CELL = 0, SHORT = 300 };
    unsigned char bytes[SHORT];
    struct lladd_heap *heap;
    ll_sim_fill(bytes, CELL, 'a', SHORT);
    TRY(lladd_heap_open(w->db, w->first, &heap, lladd_txn_error_out(txn)));
    int rc = lladd_heap_insert(txn, heap, bytes, SHORT, &w->rid[CELL]);
    lladd_heap_close(heap);
    TRY(rc);
    TRY(ll_sim_cell_note(w, txn, CELL, 'a', SHORT));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_root_page(db, HEAP, &w.first, err));
    return ll_sim_in_txn(&w, grows);
}

/* ---- dump and check ---------------------------------------------------------------------- */

struct reading {
    struct lladd_db *db;
    struct lladd_error *err;
    struct ll_sim_cells cells;
    unsigned n; /* number of pages found */
};

/* Reads only pages that the workload has added. The setup has filled too many pages to read. */
static int read_page(void *arg, lladd_pageno number)
{
    struct reading *r = arg;
    struct lladd_page *page;
    if (r->n++ <= ENTRIES)
        return 0;
    TRY(lladd_page_fix(r->db, number, LLADD_LATCH_SHARED, &page, r->err));
    struct lladd_view v = lladd_page_view(page);
    bool ours = !lladd_page_is(r->db, v, "lladd.slotted") || ll_sim_cells_see_slotted(&r->cells, v);
    lladd_page_unfix(r->db, page, LLADD_LATCH_SHARED);
    return ours ? 0 : lladd_error_set(r->err, LLADD_BAD_STATE, "a record that was never stored");
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct reading r;
    lladd_pageno heap;
    (void)ctx;
    memset(&r, 0, sizeof r);
    r.db = db;
    r.err = err;
    TRY(ll_sim_root_page(db, HEAP, &heap, err));
    TRY(ll_sim_heap_each(db, heap, read_page, &r, err));
    return ll_sim_cells_write(&r.cells, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno heap;
    (void)ctx;
    TRY(ll_sim_root_page(db, HEAP, &heap, err));
    return ll_sim_heap_each(db, heap, fn, arg, err);
}

static const char *const operations[] = {"lladd.heap.link", "lladd.heap.append",
                                         "lladd.heap.format", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.heap.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_inventory = {
    .struct_size = sizeof ll_sim_subject_inventory,
    .name = "inventory",
    .about = "a heap with an inventory that outgrows its page",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
