/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * credit: many threads, and a log buffer with room for the log credit of only a few of them.
 *
 * All threads put elements into one small hash table, which the setup has begun to fill. Some
 * threads have to make room in the table. Only one thread at a time does so: it holds the mutex
 * `shape` and takes log credit several times. If a thread kept credit while it waits for the mutex,
 * the mutex's holder could wait for that credit. That would be a deadlock.
 */
#include "sim/subjects/cells.h"

#include <lladd/hash.h>
#include <lladd/records.h>

#include <string.h>

#define ROOT "table"

enum { FILLED = 3, LEN = 900, THREADS = 16 };

struct work {
    struct ll_sim_work base;
    struct lladd_hash *hash;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_ring_bytes = 64u << 10;
    o->cache_bytes = 1u << 20;
    return 0;
}

static int fill(struct work *w, struct lladd_txn *txn, unsigned cell, char letter)
{
    unsigned char key[4], value[LEN];
    memset(key, (int)cell, sizeof key);
    ll_sim_fill(value, cell, letter, LEN);
    TRY(lladd_hash_put(txn, w->hash, key, sizeof key, value, LEN));
    return w->base.sim ? ll_sim_cell_note(&w->base, txn, cell, letter, LEN) : 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct work w = {.base = {.db = db, .err = err}};
    struct lladd_txn *txn;
    lladd_pageno root;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_hash_create(txn, &o, &root);
    if (!rc)
        rc = lladd_root_set(txn, ROOT, (struct lladd_root_value){root.v, 0});
    if (!rc)
        rc = lladd_hash_open(db, root, LLADD_HASH_LOGICAL, &w.hash, lladd_txn_error_out(txn));
    for (unsigned cell = 0; cell < FILLED && !rc; cell++)
        rc = fill(&w, txn, cell, 's');
    lladd_hash_close(w.hash);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = 0; cell < FILLED; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', LEN};
}

static int open_table(struct work *w, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value v;
    *w = (struct work){.base = {.db = db, .err = err}};
    TRY(lladd_root_get(db, ROOT, &v, err));
    return lladd_hash_open(db, lladd_page_of(v.a), LLADD_HASH_LOGICAL, &w->hash, err);
}

static int put_one(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                   struct lladd_error *err)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct work w;
    struct lladd_txn *txn;
    (void)ctx;
    o.durability = LLADD_DURABLE_LATER;
    TRY(open_table(&w, db, err));
    w.base.sim = sim;
    int rc = lladd_sim_begin(sim, db, &o, &txn, err);
    if (!rc) {
        rc = fill(&w, txn, FILLED + thread, 't');
        rc = rc ? ll_sim_give_up(sim, txn, rc, err) : lladd_sim_commit(sim, txn);
    }
    lladd_hash_close(w.hash);
    return rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    struct ll_sim_cells c;
    struct work w;
    int rc;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(open_table(&w, db, err));
    while ((rc = lladd_hash_cursor_next(w.hash, &walk, &key, &value, err)) == 0)
        if (!ll_sim_cells_see(&c, value.data, value.len)) {
            rc = lladd_error_set(err, LLADD_BAD_STATE,
                                 "an element is there twice, or was never put");
            break;
        }
    lladd_hash_cursor_close(w.hash, &walk);
    lladd_hash_close(w.hash);
    return rc == LLADD_END ? ll_sim_cells_write(&c, sink) : rc;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w;
    (void)ctx;
    TRY(open_table(&w, db, err));
    int rc = lladd_hash_check(w.hash, err);
    lladd_hash_close(w.hash);
    return rc;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct work w;
    (void)ctx;
    TRY(open_table(&w, db, err));
    int rc = lladd_hash_pages(w.hash, fn, arg, err);
    lladd_hash_close(w.hash);
    return rc;
}

static const char *const operations[] = {"lladd.hash.put", NULL};

const struct lladd_sim_subject ll_sim_subject_threads_credit = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.credit",
    .about = "threads fill a hash table; the log buffer has room for few credits",
    .configure = configure,
    .setup = setup,
    .threads = THREADS,
    .run_thread = put_one,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
};
