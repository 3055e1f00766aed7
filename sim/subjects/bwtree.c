/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.bwtree: two threads change one leaf of a Bw-tree while it is consolidated and split, and
 * then delete most rows, so that leaves are merged. They insert rows again, into pages that have
 * the numbers of merged ones. The tree is in memory, and belongs to an extension, which makes it
 * for each handle. Each thread finds its own changes; the one that ends last checks the tree. A
 * tree has no latches, so only random schedules switch threads within its calls: at accesses to
 * shared words.
 *
 * Between its changes of the tree each thread commits a text on a page of its own, so that there
 * are crashes and device errors while the tree is in use.
 */
#include "sim/subjects/cells.h"

#include <lladd/bwtree.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <lladd/sync.h>

enum { THREADS = 2, EACH = 4, BEFORE = 5, STEP = 10, LEN = 40, AT = 200 };
enum { FIRST = 2 * STEP, SECOND = 4 * STEP }; /* the threads put their rows after these keys */

struct index {
    struct lladd_bwtree *tree;
    uint32_t ended; /* atomic: number of threads */
};

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, THREADS, &first, err);
}

static int put(struct lladd_bwtree *tree, uint64_t k, struct lladd_error *err)
{
    uint64_t key = __builtin_bswap64(k);
    return lladd_bwtree_put(tree, &key, sizeof key, &k, sizeof k, err);
}

/* ---- the extension --------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct index *x = lladd_mem_alloc(db, sizeof *x);
    int rc = x ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    (void)ctx;
    if (rc)
        return rc;
    *x = (struct index){NULL, 0};
    o.key_size = o.value_size = 8;
    o.page_bytes = 64; /* four rows */
    o.leaf_chain = 2;
    o.inner_chain = 1;
    rc = lladd_bwtree_open_volatile(db, &o, &x->tree, err);
    for (uint64_t k = 1; !rc && k <= BEFORE; k++)
        rc = put(x->tree, k * STEP, err);
    if (rc) {
        lladd_bwtree_close(x->tree);
        lladd_mem_free(db, x);
        return rc;
    }
    *state = x;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct index *x = state;
    (void)ctx;
    lladd_bwtree_close(x->tree);
    lladd_mem_free(db, x);
}

static const struct lladd_extension extension = {
    .struct_size = sizeof extension,
    .name = "sim.bwtree",
    .version = 1,
    .attach = attach,
    .detach = detach,
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    return lladd_register_extension(o, &extension, err);
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Has the tree the key, or not, as it should? */
static int expect(struct lladd_bwtree *tree, uint64_t k, bool present, struct lladd_error *err)
{
    uint64_t key = __builtin_bswap64(k), value;
    int rc = lladd_bwtree_get(tree, &key, sizeof key, &value, sizeof value, NULL, err);
    if (rc == (present ? 0 : LLADD_NOT_FOUND))
        return 0;
    return lladd_error_set(err, LLADD_BUG, "a Bw-tree %s key %u",
                           present ? "has lost" : "has kept", (unsigned)k);
}

/* A thread's row number i after key `from`, between those of the other thread. */
static uint64_t nth(uint64_t from, unsigned thread, uint64_t i)
{
    return from + 1 + THREADS * i + thread;
}

static int add(struct lladd_bwtree *tree, unsigned thread, uint64_t from, struct lladd_error *err)
{
    for (uint64_t i = 0; i < EACH; i++) {
        TRY(put(tree, nth(from, thread, i), err));
        TRY(expect(tree, nth(from, thread, i), true, err));
    }
    return 0;
}

static int take_away(struct lladd_bwtree *tree, uint64_t k, struct lladd_error *err)
{
    uint64_t key = __builtin_bswap64(k);
    TRY(lladd_bwtree_delete(tree, &key, sizeof key, err));
    return expect(tree, k, false, err);
}

/* Deletes the thread's rows but the last one. */
static int take_most(struct lladd_bwtree *tree, unsigned thread, struct lladd_error *err)
{
    TRY(take_away(tree, (thread + 2) * STEP, err));
    for (uint64_t i = 0; i + 1 < EACH; i++)
        TRY(take_away(tree, nth(FIRST, thread, i), err));
    return expect(tree, nth(FIRST, thread, EACH - 1), true, err);
}

static int commit(struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                  struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    unsigned char bytes[LEN];
    struct lladd_txn *txn;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    ll_sim_fill(bytes, thread, 'a', LEN);
    int rc = lladd_bytes_set(txn, lladd_page_of(w.first.v + thread), AT, bytes, LEN);
    if (rc)
        return ll_sim_give_up(sim, txn, rc, err);
    TRY(ll_sim_cell_note(&w, txn, thread, 'a', LEN));
    return lladd_sim_commit(sim, txn);
}

static int check_all(struct lladd_bwtree *tree, struct lladd_error *err)
{
    int rc = lladd_bwtree_check(tree, err);
    for (uint64_t k = 1; !rc && k <= (BEFORE + 1) * STEP; k++) {
        bool gone = k == 2 * STEP || k == 3 * STEP;
        bool kept = k > FIRST + THREADS * (EACH - 1) && k <= FIRST + THREADS * EACH;
        bool added = k > SECOND && k <= SECOND + THREADS * EACH;
        bool before = k % STEP == 0 && k <= BEFORE * STEP;
        rc = expect(tree, k, kept || added || (before && !gone), err);
    }
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
               struct lladd_error *err)
{
    struct index *x = lladd_extension_state(db, &extension);
    (void)ctx;
    TRY(add(x->tree, thread, FIRST, err));
    TRY(commit(sim, db, thread, err));
    TRY(take_most(x->tree, thread, err));
    TRY(add(x->tree, thread, SECOND, err));
    return lladd_atomic_add32(&x->ended, 1) + 1 < THREADS ? 0 : check_all(x->tree, err);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_cells_dump_bytes(db, THREADS, AT, 0, LEN, sink, err);
}

static const char *const operations[] = {"lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_threads_bwtree = {
    .struct_size = sizeof(struct lladd_sim_subject),
    .name = "threads.bwtree",
    .about = "two threads change leaves of a Bw-tree in memory that are split and merged",
    .configure = configure,
    .setup = setup,
    .dump = dump,
    LL_SIM_CELLS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .threads = THREADS,
    .run_thread = run,
};
