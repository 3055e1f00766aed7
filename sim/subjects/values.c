/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.values: a hash table with blobs as values, for lladd_sim_interleave. One thread replaces
 * values, in transactions; one of these rolls back. The other thread reads values without locks, by
 * key and by a walk. In every schedule this thread must find each element once, with a whole value:
 * the old one or the new one.
 */
#include "sim/subjects/cells.h"

#include <lladd/hash.h>
#include <lladd/pages.h>

#include <string.h>

#define ROOT "table"

/* A value's first bytes are in the root page of its blob, the rest on other pages. */
enum { CELLS = 2, LEN = 6000 };

struct work {
    struct ll_sim_work base;
    struct lladd_hash *hash;
};

static int fill(struct work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char value[LEN];
    ll_sim_fill(value, cell, letter, LEN);
    TRY(lladd_hash_put(txn, w->hash, &cell, sizeof cell, value, LEN));
    return w->base.sim ? ll_sim_cell_note(&w->base, txn, cell, letter, LEN) : 0;
}

static int open_table(struct work *w)
{
    TRY(ll_sim_root_page(w->base.db, ROOT, &w->base.first, w->base.err));
    return lladd_hash_open(w->base.db, w->base.first, LLADD_HASH_LOGICAL, &w->hash, w->base.err);
}

static int make(struct work *w, struct lladd_txn *txn)
{
    TRY(lladd_hash_create(txn, NULL, &w->base.first));
    TRY(lladd_root_set(txn, ROOT, (struct lladd_root_value){w->base.first.v, 0}));
    TRY(lladd_hash_open(w->base.db, w->base.first, LLADD_HASH_LOGICAL, &w->hash,
                        lladd_txn_error_out(txn)));
    int rc = 0;
    for (unsigned cell = 0; cell < CELLS && !rc; cell++)
        rc = fill(w, txn, cell, 's');
    lladd_hash_close(w->hash);
    return rc;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(&w, txn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = 0; cell < CELLS; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', LEN};
}

/* ---- the threads ------------------------------------------------------------------------- */

static int put(struct work *w, unsigned cell, char letter, bool keep)
{
    struct lladd_sim *sim = w->base.sim;
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(sim, w->base.db, NULL, &txn, w->base.err));
    int rc = fill(w, txn, cell, letter);
    if (rc)
        return ll_sim_give_up(sim, txn, rc, w->base.err);
    return keep ? lladd_sim_commit(sim, txn) : lladd_sim_abort(sim, txn);
}

static int write_values(struct work *w)
{
    TRY(put(w, 0, 'a', true));
    TRY(put(w, 1, 'b', false));
    return put(w, 0, 'c', true);
}

static int look_at(struct work *w, unsigned cell)
{
    unsigned char value[LEN];
    struct ll_sim_cells c;
    size_t len = 0;
    memset(&c, 0, sizeof c);
    TRY(lladd_hash_get(w->hash, &cell, sizeof cell, value, LEN, &len, w->base.err));
    if (len != LEN || !ll_sim_cells_see(&c, value, len) || !c.at[cell].letter)
        return lladd_error_set(w->base.err, LLADD_BAD_STATE, "a value is not whole");
    return 0;
}

static int walk(struct work *w, struct ll_sim_cells *c)
{
    struct lladd_hash_cursor at = {{0}, NULL, 0};
    struct lladd_span key, value;
    bool fine = true;
    int rc;
    memset(c, 0, sizeof *c);
    while (fine && (rc = lladd_hash_cursor_next(w->hash, &at, &key, &value, w->base.err)) == 0)
        fine = ll_sim_cells_see(c, value.data, value.len);
    lladd_hash_cursor_close(w->hash, &at);
    for (unsigned cell = 0; cell < CELLS && fine && rc == LLADD_END; cell++)
        fine = c->at[cell].letter != 0;
    if (!fine)
        return lladd_error_set(w->base.err, LLADD_BAD_STATE,
                               "a walk misses a value, or has one twice, or half of one");
    return rc == LLADD_END ? 0 : rc;
}

static int read_values(struct work *w)
{
    struct ll_sim_cells c;
    TRY(look_at(w, 0));
    return walk(w, &c);
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    TRY(open_table(&w));
    int rc = thread ? read_values(&w) : write_values(&w);
    lladd_hash_close(w.hash);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    struct ll_sim_cells c;
    (void)ctx;
    TRY(open_table(&w));
    int rc = walk(&w, &c);
    lladd_hash_close(w.hash);
    return rc ? rc : ll_sim_cells_write(&c, sink);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    (void)ctx;
    TRY(open_table(&w));
    int rc = lladd_hash_check(w.hash, err);
    lladd_hash_close(w.hash);
    return rc;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    (void)ctx;
    TRY(open_table(&w));
    int rc = lladd_hash_pages(w.hash, fn, arg, err);
    lladd_hash_close(w.hash);
    return rc;
}

static const char *const operations[] = {"lladd.hash.put", NULL};

const struct lladd_sim_subject ll_sim_subject_threads_values = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.values",
    .about = "values in blobs, put by one thread and read by another without locks",
    .setup = setup,
    .threads = 2,
    .run_thread = run_thread,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
};
