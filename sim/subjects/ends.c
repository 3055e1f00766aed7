/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ends: hash tables that are destroyed in steps. The pages of the tables hold few elements, and
 * some values are blobs of several pages. So a step truncates a blob, or frees a bucket with its
 * chain. Transactions make steps, and commit, roll back, roll back to a savepoint, or stay open.
 * Meanwhile other transactions allocate pages. One table is destroyed completely.
 *
 * A cell is a table. It is whole ('w'), or partly destroyed ('s'; the length is the number of pages
 * left), or absent.
 */
#include "sim/subjects/cells.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/hash.h>

#include <string.h>

#define ROOT "ends"
#define TAKEN "ends.taken"

enum { TABLES = 2, KEYS = 10, LONGEST = 9000, TAKES = 3 };

static int fill(struct lladd_txn *txn, struct lladd_hash *h)
{
    static const unsigned char value[LONGEST];
    for (unsigned key = 0; key < KEYS; key++) {
        size_t len = key == 3 || key == 8 ? LONGEST - key : 800;
        TRY(lladd_hash_insert(txn, h, &key, sizeof key, value, len));
    }
    return 0;
}

static int make(struct lladd_db *db, struct lladd_txn *txn, unsigned cell)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_hash *h;
    lladd_pageno root;
    TRY(lladd_hash_create(txn, NULL, &root));
    TRY(lladd_root_set(txn, ll_sim_root_name(ROOT, cell, name),
                       (struct lladd_root_value){root.v, 0}));
    TRY(lladd_hash_open(db, root, LLADD_HASH_LOGICAL, &h, lladd_txn_error_out(txn)));
    int rc = fill(txn, h);
    lladd_hash_close(h);
    return rc;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    lladd_blob_bulk_from(db, UINT64_MAX);
    int rc = 0;
    for (unsigned cell = 0; cell < TABLES && !rc; cell++)
        rc = make(db, txn, cell);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init(void *ctx, void *model)
{
    struct ll_sim_cells *c = model;
    (void)ctx;
    for (unsigned cell = 0; cell < TABLES; cell++)
        c->at[cell] = (struct ll_sim_cell){'w', 0};
}

/* ---- the workload ------------------------------------------------------------------------ */

static int count_page(void *arg, lladd_pageno page)
{
    (void)page;
    ++*(uint32_t *)arg;
    return 0;
}

/* Makes a step that frees at most this many pages. *left is what lladd_hash_destroy_some returns:
 * 0 after the last step, which also removes the name. Does nothing if the table is gone. */
static int step(struct ll_sim_work *w, struct lladd_txn *txn, unsigned cell, uint64_t pages,
                uint64_t *left)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    lladd_pageno root;
    uint32_t n = 0;
    *left = 0;
    TRY(ll_sim_ith_page(w->db, ROOT, cell, &root, w->err));
    if (root.v == LLADD_NO_PAGE)
        return 0;
    TRY(lladd_hash_destroy_some(txn, root, pages, left));
    if (*left)
        TRY(lladd_hash_destroy_pages(w->db, root, count_page, &n, lladd_txn_error_out(txn)));
    else
        TRY(lladd_root_delete(txn, ll_sim_root_name(ROOT, cell, name)));
    return ll_sim_cell_note(w, txn, cell, *left ? 's' : 0, n);
}

/* Makes the table again, if it does not exist when `run` begins. */
static int makes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(make(w->db, txn, 0));
    TRY(ll_sim_cell_note(w, txn, 0, 'w', 0));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    uint64_t left;
    TRY(step(w, txn, 0, 2, &left));
    return lladd_sim_abort(w->sim, txn);
}

static int a_step(struct ll_sim_work *w, struct lladd_txn *txn)
{
    uint64_t left;
    TRY(step(w, txn, 0, 2, &left));
    return lladd_sim_commit(w->sim, txn);
}

/* Makes two steps and rolls back the second. */
static int one_of_two(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id sp;
    lladd_pageno root;
    uint64_t left;
    TRY(step(w, txn, 0, 1, &left));
    TRY(lladd_savepoint(txn, &sp));
    TRY(ll_sim_ith_page(w->db, ROOT, 0, &root, w->err));
    TRY(left ? lladd_hash_destroy_some(txn, root, 4, &left) : 0);
    TRY(lladd_rollback_to(txn, sp));
    return lladd_sim_commit(w->sim, txn);
}

static int the_rest(struct ll_sim_work *w, struct lladd_txn *txn)
{
    uint64_t left = 1;
    while (left)
        TRY(step(w, txn, 0, 6, &left));
    return lladd_sim_commit(w->sim, txn);
}

/* Rolls back if the table is busy because another open transaction has destroyed a part of it. */
static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    uint64_t left;
    int rc = step(w, txn, 1, 4, &left);
    return rc == LLADD_BUSY ? lladd_sim_abort(w->sim, txn) : rc;
}

/* Allocates pages and formats them. It must not get pages that a step has freed as long as the step
 * can be undone. */
static int takes_pages(struct ll_sim_work *w, struct lladd_txn *txn)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    for (unsigned i = 0; i < TAKES; i++) {
        lladd_pageno page;
        TRY(ll_sim_ith_page(w->db, TAKEN, i, &page, w->err));
        if (page.v != LLADD_NO_PAGE)
            continue;
        TRY(lladd_page_alloc(txn, &page));
        TRY(lladd_bytes_format(txn, page));
        TRY(lladd_root_set(txn, ll_sim_root_name(TAKEN, i, name),
                           (struct lladd_root_value){page.v, 0}));
    }
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    lladd_pageno root;
    (void)ctx;
    TRY(ll_sim_ith_page(db, ROOT, 0, &root, err));
    if (root.v == LLADD_NO_PAGE)
        TRY(ll_sim_in_txn(&w, makes));
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(ll_sim_in_txn(&w, a_step));
    TRY(ll_sim_in_txn(&w, rolls_back));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, one_of_two));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, takes_pages));
    return ll_sim_in_txn(&w, the_rest);
}

/* ---- dump and check ---------------------------------------------------------------------- */

/* Opens a table. If it is partly destroyed, sets *out to NULL. */
static int look(struct lladd_db *db, lladd_pageno root, struct lladd_hash **out,
                struct lladd_error *err)
{
    int rc = lladd_hash_open(db, root, LLADD_HASH_LOGICAL, out, err);
    if (rc == LLADD_DESTROYED)
        *out = NULL;
    return rc == LLADD_DESTROYED ? 0 : rc;
}

static int table_pages(struct lladd_db *db, lladd_pageno root, int (*fn)(void *, lladd_pageno),
                       void *arg, struct lladd_error *err)
{
    struct lladd_hash *h;
    TRY(look(db, root, &h, err));
    int rc = h ? lladd_hash_pages(h, fn, arg, err)
               : lladd_hash_destroy_pages(db, root, fn, arg, err);
    lladd_hash_close(h);
    return rc;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell < TABLES; cell++) {
        struct lladd_hash *h;
        lladd_pageno root;
        TRY(ll_sim_ith_page(db, ROOT, cell, &root, err));
        if (root.v == LLADD_NO_PAGE)
            continue;
        TRY(look(db, root, &h, err));
        int rc = h ? lladd_hash_check(h, err) : 0;
        lladd_hash_close(h);
        TRY(rc);
    }
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct ll_sim_cells c;
    (void)ctx;
    memset(&c, 0, sizeof c);
    for (unsigned cell = 0; cell < TABLES; cell++) {
        struct lladd_hash *h;
        lladd_pageno root;
        TRY(ll_sim_ith_page(db, ROOT, cell, &root, err));
        if (root.v == LLADD_NO_PAGE)
            continue;
        TRY(look(db, root, &h, err));
        lladd_hash_close(h);
        c.at[cell].letter = h ? 'w' : 's';
        if (!h)
            TRY(lladd_hash_destroy_pages(db, root, count_page, &c.at[cell].len, err));
    }
    return ll_sim_cells_write(&c, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    (void)ctx;
    for (unsigned cell = 0; cell < TABLES; cell++) {
        lladd_pageno root;
        TRY(ll_sim_ith_page(db, ROOT, cell, &root, err));
        if (root.v != LLADD_NO_PAGE)
            TRY(table_pages(db, root, fn, arg, err));
    }
    return ll_sim_ith_each(db, TAKEN, TAKES, fn, arg, err);
}

static const char *const operations[] = {"lladd.hash.bytes", "lladd.map.free", NULL};

const struct lladd_sim_subject ll_sim_subject_ends = {
    .struct_size = sizeof ll_sim_subject_ends,
    .name = "ends",
    .about = "hash tables that are destroyed in steps",
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .model_init = init,
    .pages = pages,
    .operations = operations,
};
