/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trees: B+trees with pages that hold about three rows, so that a dozen rows cause splits. There
 * are three kinds of trees: for rows of fixed length, for rows of any length, and for rows with
 * long keys. With long keys, inner nodes hold only three children, so the tree has several levels.
 * Two transactions stay open while others split the leaves that they have changed. Removals,
 * replacements and splits are rolled back. A transaction makes a tree, destroys another, and rolls
 * back.
 *
 * trees.loaded: a loaded tree takes the place of another tree. The leaves of the loaded tree are
 * changed and split. Loads are discarded, rolled back, and open at the crash.
 *
 * trees.merge: leaves lose their rows and are merged. Meanwhile another transaction, which has
 * removed one of the rows and changed another, stays open. Splits use the pages of the merged
 * leaves again, in transactions that commit and roll back.
 *
 * threads.merge: two threads remove the rows of neighbouring leaves; one of them rolls back. A
 * third one walks through the tree.
 *
 * threads.trees: two threads split the same leaf; one of them rolls back. A third one walks through
 * the tree in both directions.
 */
#include "sim/subjects/cells.h"

#include <lladd/btree.h>
#include <lladd/bytes.h>
#include <lladd/pages.h>

#include <string.h>

#define ROOT "tree"

enum { LONGEST = 1000 };

struct kind {
    uint32_t key_size, value_size;
    bool alone;   /* no transaction stays open before the tree is destroyed */
    bool loads;   /* another tree, which is loaded, takes the tree's place */
    bool shrinks; /* leaves are merged */
    unsigned end; /* the setup makes the rows of the cells from 4 to `end` - 1 */
};
static const struct kind fixed = {300, 700, false, false, false, 6};
static const struct kind any = {0, 0, false, false, false, 6};
static const struct kind tall = {960, 40, true, false, false, 6};
static const struct kind loaded = {300, 700, false, true, false, 6};
static const struct kind merge = {300, 700, false, false, true, 16};

struct work {
    struct ll_sim_work base;
    const struct kind *kind;
    struct lladd_btree *tree;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_ring_bytes = 16 * 4096;
    return 0;
}

/* Long keys differ in their last byte, others in their first. */
static size_t key_of(const struct kind *k, unsigned cell, unsigned char *out)
{
    size_t len = k->key_size ? k->key_size : 4 + cell % 3 * 20;
    memset(out, 'k', len);
    out[k->alone ? len - 1 : 0] = (unsigned char)cell;
    return len;
}

/* ---- steps ------------------------------------------------------------------------------- */

static int fill(struct work *w, struct lladd_txn *txn, unsigned cell, char letter, size_t any_len)
{
    unsigned char key[LONGEST], value[LONGEST];
    size_t key_len = key_of(w->kind, cell, key);
    size_t len = w->kind->value_size ? w->kind->value_size : any_len;
    ll_sim_fill(value, cell, letter, len);
    int rc = lladd_btree_insert(txn, w->tree, key, key_len, value, len);
    if (rc == LLADD_EXISTS)
        rc = lladd_btree_put(txn, w->tree, key, key_len, value, len);
    if (rc)
        return rc;
    return w->base.sim ? ll_sim_cell_note(&w->base, txn, cell, letter, len) : 0;
}

/* Inserts five short rows in one call. */
static int fill_many(struct work *w, struct lladd_txn *txn, unsigned first, char letter)
{
    enum { N = 5, LEN = 10 };
    unsigned char keys[N][LONGEST], values[N][LEN];
    struct lladd_btree_row rows[N];
    for (unsigned i = 0; i < N; i++) {
        ll_sim_fill(values[i], first + i, letter, LEN);
        rows[i] =
            (struct lladd_btree_row){keys[i], key_of(w->kind, first + i, keys[i]), values[i], LEN};
    }
    TRY(lladd_btree_insert_many(txn, w->tree, rows, N, NULL));
    for (unsigned i = 0; i < N; i++)
        TRY(ll_sim_cell_note(&w->base, txn, first + i, letter, LEN));
    return 0;
}

static int clear(struct work *w, struct lladd_txn *txn, unsigned cell)
{
    unsigned char key[LONGEST];
    size_t key_len = key_of(w->kind, cell, key);
    TRY(lladd_btree_delete(txn, w->tree, key, key_len));
    return ll_sim_cell_note(&w->base, txn, cell, 0, 0);
}

static int make(const struct kind *k, struct lladd_txn *txn, const char *name, lladd_pageno *root)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    o.key_size = k->key_size;
    o.value_size = k->value_size;
    TRY(lladd_btree_create(txn, &o, root));
    return lladd_root_set(txn, name, (struct lladd_root_value){root->v, 0});
}

static int open_tree(struct work *w)
{
    struct lladd_root_value v;
    TRY(lladd_root_get(w->base.db, ROOT, &v, w->base.err));
    w->base.first = lladd_page_of(v.a);
    return lladd_btree_open(w->base.db, w->base.first, &w->tree, w->base.err);
}

static int first_rows(struct work *w)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(w->base.db, NULL, &txn, w->base.err));
    int rc = 0;
    for (unsigned cell = 4; cell < w->kind->end && !rc; cell++)
        rc = fill(w, txn, cell, 's', 700);
    return rc ? ll_sim_give_up(NULL, txn, rc, w->base.err) : lladd_commit(txn);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(w.kind, txn, ROOT, &w.base.first);
    if (rc)
        return ll_sim_give_up(NULL, txn, rc, err);
    TRY(lladd_commit(txn));
    TRY(open_tree(&w));
    rc = first_rows(&w);
    lladd_btree_close(w.tree);
    return rc;
}

static void init(void *ctx, void *model)
{
    const struct kind *k = ctx;
    struct ll_sim_cells *c = model;
    for (unsigned cell = 4; cell < k->end; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', k->value_size ? k->value_size : 700};
}

/* ---- the workload ------------------------------------------------------------------------ */

/* Inserts a row and removes one. Other transactions split the leaf. */
static int stays_open(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill(w, txn, 2, 'o', 900));
    if (w->kind->key_size == 0) {
        TRY(fill(w, txn, 7, 'o', 10));
        TRY(fill_many(w, txn, 31, 'o'));
    }
    return clear(w, txn, 5);
}

/* Replaces a row (in trees.any by a shorter one), and inserts a row at the end. */
static int stays_open_too(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill(w, txn, 4, 'p', 60));
    return fill(w, txn, 30, 'p', 500);
}

static int grows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 10; cell < 16; cell++)
        TRY(fill(w, txn, cell, 'g', cell % 2 ? 900 : 30));
    if (w->kind->key_size == 0)
        TRY(fill_many(w, txn, 22, 'g'));
    TRY(fill(w, txn, 3, 'g', 900));
    TRY(fill(w, txn, 6, 'g', 400));
    return lladd_sim_commit(base->sim, txn);
}

static int rolls_back(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 20; cell < 22; cell++)
        TRY(fill(w, txn, cell, 'r', 800));
    TRY(clear(w, txn, 10));
    TRY(fill(w, txn, 10, 'r', 20));
    TRY(fill(w, txn, 11, 'r', 10));
    TRY(fill(w, txn, 12, 'r', 50));
    return lladd_sim_abort(base->sim, txn);
}

static int shrinks(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 11; cell < 14; cell++)
        TRY(clear(w, txn, cell));
    TRY(fill(w, txn, 10, 'k', 40));
    return lladd_sim_commit(base->sim, txn);
}

/* The room of removed rows is no longer reserved for undo, so it is used for other rows. */
static int grows_again(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 16; cell < 20; cell++)
        TRY(fill(w, txn, cell, 'a', 800));
    return lladd_sim_commit(base->sim, txn);
}

static int makes_and_destroys(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    lladd_pageno root;
    TRY(make(w->kind, txn, "other tree", &root));
    TRY(lladd_btree_destroy(txn, base->first));
    return lladd_sim_abort(base->sim, txn);
}

/* ---- loading ----------------------------------------------------------------------------- */

static int begin_load(struct work *w, struct lladd_txn *txn, struct lladd_btree_loader **out)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    o.key_size = w->kind->key_size;
    o.value_size = w->kind->value_size;
    return lladd_btree_load_begin(txn, &o, out);
}

static int add_row(struct work *w, struct lladd_btree_loader *l, unsigned cell, char letter)
{
    unsigned char key[LONGEST], value[LONGEST];
    size_t key_len = key_of(w->kind, cell, key);
    ll_sim_fill(value, cell, letter, w->kind->value_size);
    return lladd_btree_load_add(l, key, key_len, value, w->kind->value_size);
}

/* Loads `rows` rows: the even cells from 2 on. If `root` is NULL, or after an error, discards the
 * load. */
static int load(struct work *w, struct lladd_txn *txn, unsigned rows, char letter,
                lladd_pageno *root)
{
    struct lladd_btree_loader *l;
    TRY(begin_load(w, txn, &l));
    int rc = 0;
    for (unsigned i = 0; i < rows && !rc; i++)
        rc = add_row(w, l, 2 + 2 * i, letter);
    if (!rc && root)
        rc = lladd_btree_load_finish(l, root);
    if (!rc && root)
        return 0;
    int back = lladd_btree_load_discard(l);
    return rc ? rc : back;
}

/* The old tree has the cells 4 and 5. The load contains the even cells, so 5 becomes empty. */
static int takes_its_place(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    enum { ROWS = 7 };
    lladd_pageno root;
    TRY(load(w, txn, ROWS, 'l', &root));
    TRY(lladd_btree_destroy(txn, base->first));
    TRY(lladd_root_set(txn, ROOT, (struct lladd_root_value){root.v, 0}));
    TRY(ll_sim_cell_note(base, txn, 5, 0, 0));
    for (unsigned i = 0; i < ROWS; i++)
        TRY(ll_sim_cell_note(base, txn, 2 + 2 * i, 'l', w->kind->value_size));
    return lladd_sim_commit(base->sim, txn);
}

/* Splits leaves of the loaded tree. */
static int changes_the_loaded(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 3; cell < 9; cell += 2)
        TRY(fill(w, txn, cell, 'c', 0));
    TRY(fill(w, txn, 10, 'c', 0));
    TRY(clear(w, txn, 12));
    return lladd_sim_commit(base->sim, txn);
}

static int loads_in_vain(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    lladd_pageno root;
    TRY(load(w, txn, 5, 'd', NULL));
    TRY(load(w, txn, 5, 'v', &root));
    TRY(lladd_root_set(txn, "other tree", (struct lladd_root_value){root.v, 0}));
    return lladd_sim_abort(base->sim, txn);
}

static int loads_and_stays_open(struct ll_sim_work *base, struct lladd_txn *txn)
{
    lladd_pageno root;
    return load((struct work *)base, txn, 5, 'o', &root);
}

static int load_steps(struct work *w)
{
    TRY(ll_sim_in_txn(&w->base, takes_its_place));
    lladd_btree_close(w->tree);
    w->tree = NULL;
    TRY(open_tree(w));
    TRY(ll_sim_in_txn(&w->base, changes_the_loaded));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, loads_in_vain));
    return ll_sim_in_txn(&w->base, loads_and_stays_open);
}

/* ---- merges ------------------------------------------------------------------------------ */

static int clear_range(struct work *w, struct lladd_txn *txn, unsigned from, unsigned end)
{
    for (unsigned cell = from; cell < end; cell++)
        TRY(clear(w, txn, cell));
    return 0;
}

/* Removes a row, which becomes a ghost, and changes another. Other transactions remove the other
 * rows of these leaves. */
static int holds_rows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear(w, txn, 8));
    return fill(w, txn, 12, 'h', 0);
}

static int removes(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(clear_range((struct work *)base, txn, 4, 8));
    return lladd_sim_commit(base->sim, txn);
}

/* Merges the leaves that the previous transaction has made empty. */
static int removes_more(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(clear_range((struct work *)base, txn, 9, 12));
    return lladd_sim_commit(base->sim, txn);
}

/* Removes the rows of more leaves, so that they are merged, and splits leaves with their pages. */
static int merges_and_rolls_back(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear_range(w, txn, 13, 16));
    for (unsigned cell = 16; cell < 19; cell++)
        TRY(fill(w, txn, cell, 'm', 0));
    return lladd_sim_abort(base->sim, txn);
}

static int splits_again(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 20; cell < 24; cell++)
        TRY(fill(w, txn, cell, 'n', 0));
    return lladd_sim_commit(base->sim, txn);
}

static int run_merges(struct work *w)
{
    TRY(ll_sim_in_txn(&w->base, holds_rows));
    TRY(ll_sim_in_txn(&w->base, removes));
    TRY(ll_sim_in_txn(&w->base, removes_more));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, merges_and_rolls_back));
    return ll_sim_in_txn(&w->base, splits_again);
}

static int run_steps(struct work *w)
{
    if (w->kind->loads)
        return load_steps(w);
    if (w->kind->shrinks)
        return run_merges(w);
    if (!w->kind->alone) {
        TRY(ll_sim_in_txn(&w->base, stays_open));
        TRY(ll_sim_in_txn(&w->base, stays_open_too));
    }
    TRY(ll_sim_in_txn(&w->base, grows));
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, rolls_back));
    if (w->kind->alone)
        return ll_sim_in_txn(&w->base, makes_and_destroys);
    TRY(ll_sim_in_txn(&w->base, shrinks));
    return ll_sim_in_txn(&w->base, grows_again);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}, .kind = ctx};
    TRY(open_tree(&w));
    int rc = run_steps(&w);
    lladd_btree_close(w.tree);
    return rc;
}

/* ---- several threads --------------------------------------------------------------------- */

static int put_rows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 10; cell < 13; cell++)
        TRY(fill(w, txn, cell, 't', 700));
    return lladd_sim_commit(base->sim, txn);
}

/* Splits the leaf that the other thread splits, too, and rolls back. */
static int put_and_abort(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear(w, txn, 5));
    for (unsigned cell = 6; cell < 8; cell++)
        TRY(fill(w, txn, cell, 'u', 700));
    return lladd_sim_abort(base->sim, txn);
}

static int remove_rows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    TRY(clear_range((struct work *)base, txn, 7, 10));
    return lladd_sim_commit(base->sim, txn);
}

/* Merges the leaf that remove_rows() has made empty. */
static int remove_more(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear_range(w, txn, 13, 16));
    TRY(fill(w, txn, 24, 'q', 0));
    return lladd_sim_commit(base->sim, txn);
}

/* Removes the rows between those of the other thread, and rolls back. */
static int remove_and_abort(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear_range(w, txn, 10, 13));
    for (unsigned cell = 25; cell < 28; cell++)
        TRY(fill(w, txn, cell, 'v', 0));
    return lladd_sim_abort(base->sim, txn);
}

/* Walks in both directions. Each walk must meet the row of cell 4 once; no thread changes it. */
static int read_rows(struct work *w)
{
    struct lladd_btree_cursor *c;
    struct lladd_span key;
    unsigned met[2] = {0, 0};
    int rc = 0;
    TRY(lladd_btree_cursor_open(w->tree, &c, w->base.err));
    for (int down = 0; down < 2 && (rc == 0 || rc == LLADD_END); down++)
        while ((rc = down ? lladd_btree_cursor_prev(c, w->base.err)
                          : lladd_btree_cursor_next(c, w->base.err)) == 0 &&
               (rc = lladd_btree_cursor_row(c, &key, NULL, w->base.err)) == 0)
            met[down] += *(const unsigned char *)key.data == 4;
    lladd_btree_cursor_close(c);
    if (rc == LLADD_END && (met[0] != 1 || met[1] != 1))
        return lladd_error_set(w->base.err, LLADD_BAD_STATE,
                               "a walk has not met cell 4 exactly once");
    return rc == LLADD_END ? 0 : rc;
}

static int run_thread(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                      struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}, .kind = ctx};
    TRY(open_tree(&w));
    bool merges = w.kind->shrinks;
    int rc = thread == 0   ? ll_sim_in_txn(&w.base, merges ? remove_rows : put_rows)
             : thread == 1 ? ll_sim_in_txn(&w.base, merges ? remove_and_abort : put_and_abort)
                           : read_rows(&w);
    if (!rc && merges && thread == 0)
        rc = ll_sim_in_txn(&w.base, remove_more);
    lladd_btree_close(w.tree);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_tree(struct work *w, struct ll_sim_cells *c)
{
    struct lladd_btree_cursor *cursor;
    struct lladd_span key, value;
    unsigned char want[LONGEST];
    bool ours = true;
    TRY(lladd_btree_cursor_open(w->tree, &cursor, w->base.err));
    int rc = 0;
    while (ours && (rc = lladd_btree_cursor_next(cursor, w->base.err)) == 0) {
        rc = lladd_btree_cursor_row(cursor, &key, &value, w->base.err);
        if (rc)
            break;
        ours = ll_sim_cells_see(c, value.data, value.len);
        size_t len = ours ? key_of(w->kind, *(const unsigned char *)value.data - '0', want) : 0;
        ours = ours && key.len == len && memcmp(key.data, want, len) == 0;
    }
    lladd_btree_cursor_close(cursor);
    if (!ours)
        return lladd_error_set(w->base.err, LLADD_BAD_STATE, "a row that was never put");
    return rc == LLADD_END ? 0 : rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    struct ll_sim_cells c;
    memset(&c, 0, sizeof c);
    TRY(open_tree(&w));
    int rc = read_tree(&w, &c);
    lladd_btree_close(w.tree);
    return rc ? rc : ll_sim_cells_write(&c, sink);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    TRY(open_tree(&w));
    int rc = lladd_btree_check(w.tree, err);
    lladd_btree_close(w.tree);
    return rc;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    TRY(open_tree(&w));
    int rc = lladd_btree_pages(w.tree, fn, arg, err);
    lladd_btree_close(w.tree);
    return rc;
}

#define NO_UNDO(op) \
    { \
        op, LL_SIM_NO_UNDO, "any prefix of the records of a split or merge leaves a valid tree" \
    }
#define STEP(op) \
    { \
        op, LL_SIM_NO_UNDO, "a redo-only step of a compensation, which may run again" \
    }

#define SUBJECT(subject, text, which, ops, without) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof(struct lladd_sim_subject), \
        .name = text, \
        .about = "B+trees: " about_##which, \
        .ctx = (void *)(uintptr_t)&which, \
        .configure = configure, \
        .setup = setup, \
        .run = run, \
        .check = check, \
        .dump = dump, \
        LL_SIM_CELLS_MODEL, \
        .model_init = init, \
        .pages = pages, \
        .operations = ops, \
        .excuses = without, \
    }

#define SUBJECT_OF_THREADS(subject, text, told, which, ops, without) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof(struct lladd_sim_subject), \
        .name = text, \
        .about = "B+trees: " told, \
        .ctx = (void *)(uintptr_t)&which, \
        .configure = configure, \
        .setup = setup, \
        .threads = 3, \
        .run_thread = run_thread, \
        .check = check, \
        .dump = dump, \
        LL_SIM_CELLS_MODEL, \
        .model_init = init, \
        .pages = pages, \
        .operations = ops, \
        .excuses = without, \
    }

static const char *const fixed_ops[] = {
    "lladd.btree.node.format", "lladd.btree.spare", "lladd.btree.fill",       "lladd.btree.narrow",
    "lladd.btree.index",       "lladd.btree.put",   "lladd.btree.remove",     "lladd.btree.mark",
    "lladd.btree.restore",     "lladd.btree.top",   "lladd.btree.root.spare", NULL};
static const struct lladd_sim_excuse excuses[] = {NO_UNDO("lladd.btree.node.format"),
                                                  NO_UNDO("lladd.btree.fill"),
                                                  NO_UNDO("lladd.btree.narrow"),
                                                  NO_UNDO("lladd.btree.index"),
                                                  NO_UNDO("lladd.btree.top"),
                                                  NO_UNDO("lladd.btree.clear"),
                                                  STEP("lladd.btree.mark"),
                                                  STEP("lladd.btree.restore"),
                                                  NO_UNDO("lladd.btree.format"),
                                                  NO_UNDO("lladd.btree.unindex"),
                                                  NO_UNDO("lladd.btree.widen"),
                                                  NO_UNDO("lladd.btree.close"),
                                                  {NULL, 0, NULL}};
static const char *const any_ops[] = {"lladd.btree.insert",
                                      "lladd.btree.rows",
                                      "lladd.btree.put",
                                      "lladd.btree.remove",
                                      "lladd.btree.restore",
                                      "lladd.btree.clear",
                                      NULL};
static const char *const tall_ops[] = {"lladd.btree.format",
                                       "lladd.btree.create",
                                       "lladd.btree.destroy",
                                       "lladd.btree.fill",
                                       "lladd.btree.index",
                                       "lladd.btree.top",
                                       NULL};

static const char *const merge_ops[] = {
    "lladd.btree.unindex",   "lladd.btree.widen",  "lladd.btree.close",
    "lladd.btree.root.free", "lladd.btree.spare",  "lladd.btree.clear",
    "lladd.btree.put",       "lladd.btree.remove", NULL};
static const char *const merge_threads_ops[] = {"lladd.btree.remove", "lladd.btree.widen", NULL};

#define about_merge "merges, and pages that are used again"
#define about_fixed "splits, and undo by key"
#define about_any "keys and values of any length"
static const char *const threads_ops[] = {"lladd.btree.put", "lladd.btree.narrow", NULL};
static const char *const loaded_ops[] = {"lladd.btree.format", "lladd.btree.top",
                                         "lladd.btree.fill", "lladd.btree.narrow", NULL};
#define about_loaded "a load, and changes of what was loaded"
#define about_threads "two threads split a leaf while a third one walks"
#define about_tall "several levels of inner nodes"
SUBJECT(ll_sim_subject_trees, "trees", fixed, fixed_ops, excuses);
SUBJECT(ll_sim_subject_trees_any, "trees.any", any, any_ops, excuses);
SUBJECT(ll_sim_subject_trees_tall, "trees.tall", tall, tall_ops, excuses);
SUBJECT(ll_sim_subject_trees_loaded, "trees.loaded", loaded, loaded_ops, excuses);
SUBJECT(ll_sim_subject_trees_merge, "trees.merge", merge, merge_ops, excuses);
SUBJECT_OF_THREADS(ll_sim_subject_threads_trees, "threads.trees", about_threads, fixed, threads_ops,
                   excuses);
SUBJECT_OF_THREADS(ll_sim_subject_threads_merge, "threads.merge",
                   "threads remove the rows of neighbouring leaves", merge, merge_threads_ops,
                   excuses);
