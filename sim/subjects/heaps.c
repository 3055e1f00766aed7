/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heaps: records are stored and deleted, and records that grow move to another page. One heap grows
 * by a top action. A second heap is made and filled by a transaction that rolls back. A third heap
 * is destroyed.
 */
#include "sim/subjects/cells.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/heap.h>
#include <string.h>

enum { LONGEST = 3500, HEAPS = 3 };
static const char *const names[HEAPS] = {"heap.old", "heap.new", "heap.doomed"};

/* ---- the workload ------------------------------------------------------------------------ */

struct work {
    struct ll_sim_work base;
    struct lladd_heap *heap; /* "heap.old" */
};

static struct lladd_heap *heap_of(struct ll_sim_work *w)
{
    return ((struct work *)w)->heap;
}

static int store_in(struct ll_sim_work *w, struct lladd_txn *txn, struct lladd_heap *heap,
                    unsigned cell, char letter, size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_heap_insert(txn, heap, bytes, len, &w->rid[cell]));
    return w->sim ? ll_sim_cell_note(w, txn, cell, letter, len) : 0;
}

static int store(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                 size_t len)
{
    return store_in(w, txn, heap_of(w), cell, letter, len);
}

static int change(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, char letter,
                  size_t len)
{
    unsigned char bytes[LONGEST];
    ll_sim_fill(bytes, cell, letter, len);
    TRY(lladd_heap_set(txn, heap_of(w), w->rid[cell], bytes, len));
    return ll_sim_cell_note(w, txn, cell, letter, len);
}

static int give_up(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell)
{
    TRY(lladd_heap_delete(txn, heap_of(w), w->rid[cell]));
    return ll_sim_cell_note(w, txn, cell, 0, 0);
}

/* Makes a heap with one record, or without records if `len` is 0. */
static int make(struct ll_sim_work *w, struct lladd_txn *txn, unsigned which, unsigned cell,
                char letter, size_t len)
{
    struct lladd_heap *heap;
    lladd_pageno root;
    TRY(lladd_heap_create_open(txn, &root, &heap));
    int rc = lladd_root_set(txn, names[which], (struct lladd_root_value){root.v, 0});
    if (!rc && len)
        rc = store_in(w, txn, heap, cell, letter, len);
    lladd_heap_close(heap);
    return rc;
}

static int make_both(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 0, 0, 0, 0));
    return make(w, txn, 2, 20, 'd', 30);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make_both(&w, txn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Fills two pages. */
static int stores(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(store(w, txn, 0, 'a', 1900));
    TRY(store(w, txn, 1, 'b', 1900));
    TRY(store(w, txn, 2, 'c', 1900));
    return lladd_sim_commit(w->sim, txn);
}

/* Record 0 becomes longer than its page has room for, so it moves to another page. */
static int moves(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 0, 'd', 3000));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(give_up(w, txn, 1));
    return store(w, txn, 3, 'o', 700);
}

static int gives_up(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(give_up(w, txn, 2));
    TRY(store(w, txn, 4, 'e', 100));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w, txn, 1, 21, 'x', 3000));
    TRY(give_up(w, txn, 0));
    return lladd_sim_abort(w->sim, txn);
}

static int destroys(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_pageno heap;
    TRY(ll_sim_root_page(w->db, names[2], &heap, lladd_txn_error_out(txn)));
    TRY(lladd_heap_destroy(txn, heap));
    TRY(lladd_root_delete(txn, names[2]));
    TRY(ll_sim_cell_note(w, txn, 20, 0, 0));
    TRY(make(w, txn, 1, 22, 'f', 50));
    return lladd_sim_commit(w->sim, txn);
}

static int run_all(struct ll_sim_work *w)
{
    TRY(ll_sim_in_txn(w, stores));
    TRY(ll_sim_in_txn(w, moves));
    TRY(ll_sim_in_txn(w, stays_open));
    TRY(lladd_checkpoint(w->db, w->err));
    TRY(ll_sim_in_txn(w, gives_up));
    TRY(ll_sim_in_txn(w, rolls_back));
    return ll_sim_in_txn(w, destroys);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    TRY(ll_sim_root_page(db, names[0], &w.base.first, err));
    TRY(lladd_heap_open(db, w.base.first, &w.heap, err));
    int rc = run_all(&w.base);
    lladd_heap_close(w.heap);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_heap(struct lladd_db *db, lladd_pageno root, struct ll_sim_cells *c,
                     struct lladd_error *err)
{
    struct lladd_heap_cursor cursor;
    struct lladd_heap *heap;
    struct lladd_record r;
    struct lladd_rid rid;
    bool ours = true;
    int rc = 0;
    TRY(lladd_heap_open(db, root, &heap, err));
    lladd_heap_cursor_open(heap, &cursor);
    while (ours && (rc = lladd_heap_cursor_next(&cursor, &rid, &r, err)) == 0)
        ours = ll_sim_cells_see(c, r.bytes, r.len);
    lladd_heap_cursor_close(&cursor);
    lladd_heap_close(heap);
    if (!ours)
        return lladd_error_set(err, LLADD_BAD_STATE, "there is a record that was never stored");
    return rc == LLADD_END ? 0 : rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned which = 0; which < HEAPS; which++) {
        lladd_pageno heap;
        TRY(ll_sim_root_page(db, names[which], &heap, err));
        if (heap.v != LLADD_NO_PAGE)
            TRY(read_heap(db, heap, &c, err));
    }
    return ll_sim_cells_write(&c, sink);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    c->at[20] = (struct ll_sim_cell){'d', 30};
}

/* Calls fn for an inventory page and for the pages that it lists (docs/disk-format.md). The body of
 * an inventory page has the fields u64 next inventory page, u64 heap, u32 number of entries, four
 * more bytes, and then the entries. An entry has eight bytes; the first six are a page number. The
 * entries are copied before fn is called, because fn may fix the page itself. */
static int inventory(struct lladd_db *db, lladd_pageno at, uint64_t *next,
                     int (*fn)(void *, lladd_pageno), void *arg, struct lladd_error *err)
{
    enum { ENTRY = 8, SOME = 64 };
    unsigned char entries[SOME * ENTRY];
    struct lladd_page *page;
    int rc = fn(arg, at);
    for (uint32_t i = 0, n = 1; !rc && i < n;) {
        TRY(lladd_page_fix(db, at, LLADD_LATCH_SHARED, &page, err));
        const unsigned char *body = lladd_view_body(lladd_page_view(page));
        n = lladd_get32(body + 16);
        *next = lladd_get64(body);
        uint32_t end = n - i < SOME ? n : i + SOME;
        memcpy(entries, body + 24 + (size_t)ENTRY * i, (size_t)ENTRY * (end - i));
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        for (const unsigned char *e = entries; !rc && i < end; i++, e += ENTRY)
            rc = fn(arg, lladd_page_of(lladd_get48(e)));
    }
    return rc;
}

int ll_sim_heap_each(struct lladd_db *db, lladd_pageno heap, int (*fn)(void *, lladd_pageno),
                     void *arg, struct lladd_error *err)
{
    uint64_t next = heap.v;
    for (uint64_t i = 0; next != 0 && i < lladd_page_count(db); i++)
        TRY(inventory(db, lladd_page_of(next), &next, fn, arg, err));
    return next ? lladd_error_set(err, LLADD_BAD_STATE, "the inventory does not end") : 0;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    for (unsigned which = 0; which < HEAPS; which++) {
        lladd_pageno heap;
        TRY(ll_sim_root_page(db, names[which], &heap, err));
        if (heap.v != LLADD_NO_PAGE)
            TRY(ll_sim_heap_each(db, heap, fn, arg, err));
    }
    return 0;
}

static const char *const operations[] = {"lladd.heap.format", "lladd.heap.append",
                                         "lladd.heap.hint", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.heap.format", LL_SIM_NO_UNDO, "formatting is not undone: the page was free before"},
    {"lladd.heap.hint", LL_SIM_NO_UNDO, "a hint may be wrong, and is not undone"},
    {NULL, 0, NULL}};

const struct lladd_sim_subject ll_sim_subject_heaps = {
    .struct_size = sizeof ll_sim_subject_heaps,
    .name = "heaps",
    .about = "heaps: records that move, heaps that grow, are made and destroyed",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
    .excuses = excuses,
};
