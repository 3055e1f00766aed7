/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bwtree: a logged Bw-tree with pages of about three rows, so that a dozen rows cause splits.
 * Transactions commit, roll back, roll back in part, and stay open, between flushes and
 * checkpoints.
 *
 * bwtree.doubt: transactions that have changed the tree are prepared. The tree is flushed before
 * they are committed, rolled back, or left in doubt.
 *
 * bwtree.threads: two threads change one leaf; one of them rolls back. A third one changes it, too,
 * and flushes twice.
 */
#include "sim/subjects/cells.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>

#include <string.h>

#define NAME "cells"

enum { LONGEST = 200, FIRST = 4, END = 8 };

struct work {
    struct ll_sim_work base;
    struct lladd_bwtree *tree;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    return lladd_bwtree_register(o, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static size_t key_of(unsigned cell, unsigned char *out)
{
    out[0] = (unsigned char)cell;
    memset(out + 1, 'k', cell % 3);
    return 1 + cell % 3;
}

static int fill(struct work *w, struct lladd_txn *txn, unsigned cell, char letter, size_t len)
{
    unsigned char key[LONGEST], value[LONGEST];
    size_t key_len = key_of(cell, key);
    ll_sim_fill(value, cell, letter, len);
    TRY(lladd_bwtree_txn_put(txn, w->tree, key, key_len, value, len));
    return w->base.sim ? ll_sim_cell_note(&w->base, txn, cell, letter, len) : 0;
}

static int fill_range(struct work *w, struct lladd_txn *txn, unsigned from, unsigned end,
                      char letter, size_t len)
{
    for (unsigned cell = from; cell < end; cell++)
        TRY(fill(w, txn, cell, letter, len));
    return 0;
}

static int clear(struct work *w, struct lladd_txn *txn, unsigned cell)
{
    unsigned char key[LONGEST];
    size_t key_len = key_of(cell, key);
    TRY(lladd_bwtree_txn_delete(txn, w->tree, key, key_len));
    return ll_sim_cell_note(&w->base, txn, cell, 0, 0);
}

static int open_tree(struct work *w)
{
    return lladd_bwtree_open(w->base.db, NAME, &w->tree, w->base.err);
}

static int create(struct lladd_txn *txn, const char *name)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.page_bytes = 256;
    o.leaf_chain = 2;
    o.inner_chain = 1;
    return lladd_bwtree_create(txn, name, &o);
}

static int make(struct work *w)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(w->base.db, NULL, &txn, w->base.err));
    int rc = create(txn, NAME);
    return rc ? ll_sim_give_up(NULL, txn, rc, w->base.err) : lladd_commit(txn);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(make(&w));
    TRY(open_tree(&w));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = fill_range(&w, txn, FIRST, END, 's', 60);
    rc = rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
    lladd_bwtree_close(w.tree);
    return rc;
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = FIRST; cell < END; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', 60};
}

/* ---- one thread ------------------------------------------------------------------------------ */

static int stays_open(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill(w, txn, 2, 'o', 90));
    return clear(w, txn, 5);
}

static int grows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill_range(w, txn, 10, 16, 'g', 70));
    TRY(fill(w, txn, 4, 'g', 90));
    return lladd_sim_commit(base->sim, txn);
}

static int rolls_back_in_part(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    lladd_savepoint_id here;
    TRY(fill(w, txn, 16, 'p', 40));
    TRY(lladd_sim_savepoint(base->sim, txn, &here));
    TRY(fill_range(w, txn, 17, 20, 'q', 80));
    TRY(clear(w, txn, 10));
    TRY(lladd_sim_rollback_to(base->sim, txn, here));
    TRY(fill(w, txn, 11, 'p', 10));
    return lladd_sim_commit(base->sim, txn);
}

static int rolls_back(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill_range(w, txn, 20, 24, 'r', 80));
    TRY(create(txn, "rolled back"));
    TRY(clear(w, txn, 12));
    TRY(fill(w, txn, 12, 'r', 20));
    return lladd_sim_abort(base->sim, txn);
}

static int shrinks(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 10; cell < 14; cell++)
        TRY(clear(w, txn, cell));
    TRY(create(txn, "second"));
    TRY(fill(w, txn, 14, 'h', 30));
    return lladd_sim_commit(base->sim, txn);
}

static int grows_again(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(fill_range((struct work *)base, txn, 24, 30, 'a', 100));
    return lladd_sim_commit(base->sim, txn);
}

static int run_steps(struct work *w)
{
    TRY(ll_sim_in_txn(&w->base, stays_open));
    TRY(ll_sim_in_txn(&w->base, grows));
    TRY(lladd_bwtree_flush(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, rolls_back_in_part));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, rolls_back));
    TRY(lladd_bwtree_flush(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, shrinks));
    TRY(lladd_bwtree_flush(w->base.db, w->base.err));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    return ll_sim_in_txn(&w->base, grows_again);
}

static int in_tree(struct work *w, int (*steps)(struct work *))
{
    TRY(open_tree(w));
    int rc = steps(w);
    lladd_bwtree_close(w->tree);
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    return in_tree(&w, run_steps);
}

/* ---- in doubt -------------------------------------------------------------------------------- */

static int prepare(struct work *w, unsigned cell, unsigned char id, struct lladd_txn **txn)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 1, .data = {id}};
    TRY(lladd_sim_begin(w->base.sim, w->base.db, NULL, txn, w->base.err));
    int rc = fill_range(w, *txn, cell, cell + 3, (char)id, 80);
    if (!rc)
        rc = clear(w, *txn, FIRST + (unsigned)(id - 'a'));
    if (!rc)
        rc = lladd_sim_prepare(w->base.sim, *txn, &gid);
    return rc ? ll_sim_give_up(w->base.sim, *txn, rc, w->base.err) : 0;
}

static int doubt_steps(struct work *w)
{
    struct lladd_txn *kept, *dropped, *doubtful;
    TRY(prepare(w, 10, 'a', &kept));
    TRY(prepare(w, 20, 'b', &dropped));
    TRY(prepare(w, 30, 'c', &doubtful));
    TRY(lladd_bwtree_flush(w->base.db, w->base.err));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(lladd_sim_commit(w->base.sim, kept));
    TRY(lladd_sim_abort(w->base.sim, dropped));
    return lladd_bwtree_flush(w->base.db, w->base.err);
}

static int run_doubt(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                     struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    return in_tree(&w, doubt_steps);
}

/* ---- several threads ------------------------------------------------------------------------- */

static int puts_rows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(fill_range((struct work *)base, txn, 10, 13, 't', 70));
    return lladd_sim_commit(base->sim, txn);
}

static int puts_and_aborts(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear(w, txn, 5));
    TRY(fill_range(w, txn, 13, 15, 'u', 70));
    return lladd_sim_abort(base->sim, txn);
}

static int puts_one(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(fill((struct work *)base, txn, 9, 'v', 20));
    return lladd_sim_commit(base->sim, txn);
}

/* The second flush does not write what the first one has written. */
static int flushes(struct work *w)
{
    TRY(ll_sim_in_txn(&w->base, puts_one));
    TRY(lladd_bwtree_flush(w->base.db, w->base.err));
    return lladd_bwtree_flush(w->base.db, w->base.err);
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    TRY(open_tree(&w));
    int rc = thread == 0   ? ll_sim_in_txn(&w.base, puts_rows)
             : thread == 1 ? ll_sim_in_txn(&w.base, puts_and_aborts)
                           : flushes(&w);
    lladd_bwtree_close(w.tree);
    return rc;
}

/* ---- dump and check -------------------------------------------------------------------------- */

static int read_tree(struct work *w, struct ll_sim_cells *c)
{
    struct lladd_bwtree_cursor *cursor;
    struct lladd_span key, value;
    unsigned char want[LONGEST];
    bool ours = true;
    TRY(lladd_bwtree_cursor_open(w->tree, &cursor, w->base.err));
    int rc = 0;
    while (ours && (rc = lladd_bwtree_cursor_next(cursor, w->base.err)) == 0) {
        rc = lladd_bwtree_cursor_row(cursor, &key, &value, w->base.err);
        if (rc)
            break;
        ours = ll_sim_cells_see(c, value.data, value.len);
        size_t len = ours ? key_of(*(const unsigned char *)value.data - '0', want) : 0;
        ours = ours && key.len == len && memcmp(key.data, want, len) == 0;
    }
    lladd_bwtree_cursor_close(cursor);
    if (!ours)
        return lladd_error_set(w->base.err, LLADD_BAD_STATE, "a row that was never put");
    return rc == LLADD_END ? 0 : rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(open_tree(&w));
    int rc = read_tree(&w, &c);
    lladd_bwtree_close(w.tree);
    return rc ? rc : ll_sim_cells_write(&c, sink);
}

static int check_tree(struct work *w)
{
    return lladd_bwtree_check(w->tree, w->base.err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    (void)ctx;
    return in_tree(&w, check_tree);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    return lladd_bwtree_pages(db, fn, arg, err);
}

static const char *const operations[] = {"lladd.bwtree", "lladd.bwtree.store", "lladd.bwtree.set",
                                         "lladd.bwtree.format", NULL};
static const char *const rows_only[] = {"lladd.bwtree", NULL};
static const struct lladd_sim_excuse excuses[] = {
    {"lladd.bwtree.format", LL_SIM_NO_UNDO, "a page that was formatted is freed"},
    {"lladd.bwtree.set", LL_SIM_NO_UNDO, "addresses and marks are never undone"},
    {"lladd.bwtree.store", LL_SIM_NO_UNDO, "pages in the store stay there"},
    {NULL, 0, NULL}};

#define SUBJECT(subject, text, told, ops, ...) \
    const struct lladd_sim_subject subject = {.struct_size = sizeof(struct lladd_sim_subject), \
                                              .name = text, \
                                              .about = told, \
                                              .configure = configure, \
                                              .setup = setup, \
                                              .check = check, \
                                              .dump = dump, \
                                              LL_SIM_CELLS_MODEL, \
                                              .model_init = init, \
                                              .pages = pages, \
                                              .operations = ops, \
                                              .excuses = excuses, \
                                              __VA_ARGS__}

SUBJECT(ll_sim_subject_bwtree, "bwtree", "a logged Bw-tree: splits, flushes, undo by key",
        operations, .run = run);
SUBJECT(ll_sim_subject_bwtree_doubt, "bwtree.doubt",
        "a logged Bw-tree: flushed while transactions are prepared", rows_only, .run = run_doubt);
SUBJECT(ll_sim_subject_bwtree_threads, "bwtree.threads",
        "a logged Bw-tree: two threads change a leaf while a third one flushes", rows_only,
        .threads = 3, .run_thread = run_thread);
