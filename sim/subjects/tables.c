/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables: hash tables with pages that hold about three elements, so that a dozen elements cause
 * splits, merges and overflow chains. There are four kinds of tables. Two have logical undo: one
 * for elements of fixed length, one for elements of any length. The third has physical undo. The
 * fourth is on large pages. One transaction stays open while others split the bucket that it has
 * inserted into. Removals, replacements and splits are rolled back. A transaction makes a table,
 * destroys another, and rolls back.
 */
#include "sim/subjects/cells.h"

#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/pages.h>

#include <string.h>

#define ROOT "table"

enum { LONGEST = 1000 };

struct kind {
    uint32_t key_size, value_size;
    unsigned flags;
    uint32_t page_size;
};
static const struct kind fixed = {300, 900, LLADD_HASH_LOGICAL, 0};
static const struct kind any = {0, 0, LLADD_HASH_LOGICAL, 0};
static const struct kind physical = {300, 900, LLADD_HASH_PHYSICAL, 0};
static const struct kind large = {1000, 1000, LLADD_HASH_LOGICAL, 8192};

struct work {
    struct ll_sim_work base;
    const struct kind *kind;
    struct lladd_hash *hash;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    const struct kind *k = ctx;
    (void)err;
    o->log_ring_bytes = 16 * (k->page_size ? k->page_size : 4096);
    if (k->page_size) {
        o->page_size = k->page_size;
        o->cache_bytes = 1u << 20;
    }
    return 0;
}

static size_t key_of(const struct kind *k, unsigned cell, unsigned char *out)
{
    size_t len = k->key_size ? k->key_size : 4 + cell % 3 * 20;
    memset(out, (int)cell, len);
    return len;
}

/* ---- steps ------------------------------------------------------------------------------- */

static int fill(struct work *w, struct lladd_txn *txn, unsigned cell, char letter, size_t any_len)
{
    unsigned char key[LONGEST], value[LONGEST];
    size_t key_len = key_of(w->kind, cell, key);
    size_t len = w->kind->value_size ? w->kind->value_size : any_len;
    ll_sim_fill(value, cell, letter, len);
    TRY(lladd_hash_put(txn, w->hash, key, key_len, value, len));
    return w->base.sim ? ll_sim_cell_note(&w->base, txn, cell, letter, len) : 0;
}

static int clear(struct work *w, struct lladd_txn *txn, unsigned cell)
{
    unsigned char key[LONGEST];
    size_t key_len = key_of(w->kind, cell, key);
    TRY(lladd_hash_delete(txn, w->hash, key, key_len));
    return ll_sim_cell_note(&w->base, txn, cell, 0, 0);
}

static int make(const struct kind *k, struct lladd_txn *txn, unsigned flags, const char *name,
                lladd_pageno *root, struct lladd_hash **out)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = k->key_size;
    o.value_size = k->value_size;
    TRY(lladd_hash_create_open(txn, &o, flags, root, out));
    return lladd_root_set(txn, name, (struct lladd_root_value){root->v, 0});
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make(w.kind, txn, w.kind->flags, ROOT, &w.base.first, &w.hash);
    for (unsigned cell = 0; cell < 2 && !rc; cell++)
        rc = fill(&w, txn, cell, 's', 700);
    lladd_hash_close(w.hash);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

static void init(void *ctx, void *model)
{
    const struct kind *k = ctx;
    struct ll_sim_cells *c = model;
    for (unsigned cell = 0; cell < 2; cell++)
        c->at[cell] = (struct ll_sim_cell){'s', k->value_size ? k->value_size : 700};
}

/* ---- the workload ------------------------------------------------------------------------ */

/* Runs before any element is removed. The page is then full of elements, and is split without a
 * chain. */
static int splits(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 15; cell < 18; cell++)
        TRY(fill(w, txn, cell, 'v', 900));
    return lladd_sim_commit(base->sim, txn);
}

/* Inserts an element, removes one and replaces one. Other transactions move the inserted element by
 * a split. */
static int stays_open(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill(w, txn, 2, 'o', 900));
    TRY(clear(w, txn, 1));
    return fill(w, txn, 0, 'o', 60);
}

static int grows(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    for (unsigned cell = 10; cell < 14; cell++)
        TRY(fill(w, txn, cell, 'g', cell % 2 ? 900 : 30));
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

/* The room of removed elements is no longer reserved for undo, so the table shrinks now. */
static int shrinks_again(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(fill(w, txn, 14, 'm', 40));
    TRY(clear(w, txn, 14));
    TRY(clear(w, txn, 10));
    return lladd_sim_commit(base->sim, txn);
}

/* Stays open. With physical undo, no other transaction may use the table meanwhile, so this is the
 * last one. */
static int goes_on(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    TRY(clear(w, txn, 13));
    for (unsigned cell = 24; cell < 26; cell++)
        TRY(fill(w, txn, cell, 'x', 800));
    return 0;
}

static int makes_and_destroys(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    struct lladd_hash *other = NULL;
    lladd_pageno root;
    int rc = make(w->kind, txn, w->kind->flags, "other table", &root, &other);
    lladd_hash_close(other);
    TRY(rc);
    TRY(lladd_hash_destroy(txn, base->first));
    return lladd_sim_abort(base->sim, txn);
}

/* Splits a table that the transaction has made. Such a split is undone physically. */
static int makes_and_fills(struct ll_sim_work *base, struct lladd_txn *txn)
{
    struct work *w = (struct work *)base;
    struct work other = {.base = {.db = base->db, .err = base->err}, .kind = w->kind};
    lladd_pageno root;
    int rc = make(w->kind, txn, LLADD_HASH_LOGICAL, "other table", &root, &other.hash);
    for (unsigned cell = 30; cell < 34 && !rc; cell++)
        rc = fill(&other, txn, cell, 'y', 0);
    lladd_hash_close(other.hash);
    return rc ? rc : lladd_sim_abort(base->sim, txn);
}

static int open_table(struct work *w)
{
    struct lladd_root_value v;
    TRY(lladd_root_get(w->base.db, ROOT, &v, w->base.err));
    w->base.first = lladd_page_of(v.a);
    return lladd_hash_open(w->base.db, w->base.first, w->kind->flags, &w->hash, w->base.err);
}

static int run_steps(struct work *w)
{
    bool alone = w->kind->flags == LLADD_HASH_PHYSICAL;
    if (w->kind == &any || w->kind == &large)
        TRY(ll_sim_in_txn(&w->base, splits));
    if (!alone)
        TRY(ll_sim_in_txn(&w->base, stays_open));
    TRY(ll_sim_in_txn(&w->base, grows));
    if (w->kind->page_size) /* the other kinds of tables test the steps that follow */
        return ll_sim_in_txn(&w->base, makes_and_fills);
    TRY(lladd_checkpoint(w->base.db, w->base.err));
    TRY(ll_sim_in_txn(&w->base, rolls_back));
    if (alone) {
        TRY(ll_sim_in_txn(&w->base, makes_and_destroys));
        return ll_sim_in_txn(&w->base, goes_on);
    }
    TRY(ll_sim_in_txn(&w->base, shrinks));
    return ll_sim_in_txn(&w->base, shrinks_again);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}, .kind = ctx};
    TRY(open_table(&w));
    int rc = run_steps(&w);
    lladd_hash_close(w.hash);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int read_table(struct work *w, struct ll_sim_cells *c)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    unsigned char want[LONGEST];
    int rc;
    bool ours = true;
    while (ours && (rc = lladd_hash_cursor_next(w->hash, &walk, &key, &value, w->base.err)) == 0) {
        ours = ll_sim_cells_see(c, value.data, value.len);
        size_t len = ours ? key_of(w->kind, *(const unsigned char *)value.data - '0', want) : 0;
        ours = ours && key.len == len && memcmp(key.data, want, len) == 0;
    }
    lladd_hash_cursor_close(w->hash, &walk);
    if (!ours)
        return lladd_error_set(w->base.err, LLADD_BAD_STATE, "an element that was never put");
    return rc == LLADD_END ? 0 : rc;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    struct ll_sim_cells c;
    memset(&c, 0, sizeof c);
    TRY(open_table(&w));
    int rc = read_table(&w, &c);
    lladd_hash_close(w.hash);
    return rc ? rc : ll_sim_cells_write(&c, sink);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    TRY(open_table(&w));
    int rc = lladd_hash_check(w.hash, err);
    lladd_hash_close(w.hash);
    return rc;
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}, .kind = ctx};
    TRY(open_table(&w));
    int rc = lladd_hash_pages(w.hash, fn, arg, err);
    lladd_hash_close(w.hash);
    return rc;
}

#define NO_UNDO(op) \
    { \
        op, LL_SIM_NO_UNDO, "any prefix of the records of a split or merge leaves a valid table" \
    }
#define STEP(op) \
    { \
        op, LL_SIM_NO_UNDO, "a redo-only step of a compensation, which may run again" \
    }

#define SUBJECT(subject, text, which, ops, without) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof(struct lladd_sim_subject), \
        .name = text, \
        .about = "hash tables: " about_##which, \
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

static const char *const fixed_ops[] = {"lladd.hash.bucket.format", "lladd.hash.put",
                                        "lladd.hash.remove",
                                        "lladd.hash.mark",          "lladd.hash.restore",
                                        "lladd.hash.narrow",        "lladd.hash.widen",
                                        "lladd.hash.buckets",       NULL};
static const struct lladd_sim_excuse excuses[] = {
    NO_UNDO("lladd.hash.bucket.format"),
    NO_UNDO("lladd.hash.narrow"),
    NO_UNDO("lladd.hash.widen"),
    NO_UNDO("lladd.hash.buckets"),
    STEP("lladd.hash.mark"),
    STEP("lladd.hash.restore"),
    NO_UNDO("lladd.hash.format"),
    {NULL, 0, NULL}};
static const char *const any_ops[] = {"lladd.hash.put", "lladd.hash.remove",
                                      "lladd.hash.restore",
                                      "lladd.hash.narrow",
                                      NULL};
static const char *const physical_ops[] = {"lladd.hash.slot",          "lladd.hash.bytes",
                                           "lladd.hash.format",        "lladd.hash.destroy",
                                           "lladd.hash.bucket.format", NULL};
static const char *const large_ops[] = {"lladd.hash.bucket.format", "lladd.hash.narrow",
                                        "lladd.hash.widen", "lladd.hash.bytes", NULL};

#define about_fixed "splits, merges, chains, and undo by key"
#define about_any "keys and values of any length"
#define about_physical "undo byte by byte, in tables of one transaction"
#define about_large "on large pages"
SUBJECT(ll_sim_subject_tables, "tables", fixed, fixed_ops, excuses);
SUBJECT(ll_sim_subject_tables_any, "tables.any", any, any_ops, excuses);
SUBJECT(ll_sim_subject_tables_physical, "tables.physical", physical, physical_ops, excuses);
SUBJECT(ll_sim_subject_tables_large, "tables.large", large, large_ops, excuses);
