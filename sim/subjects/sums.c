/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sums: increments of fields in records. The records are on a slotted page, on a page of
 * fixed-length records, and in a heap, where one record has moved to another page. Several
 * transactions add to one field; they commit, roll back, roll back to a savepoint, and stay open.
 * Meanwhile another transaction stores records on the slotted page. The page is then compacted, so
 * the record has moved on the page when undo runs.
 */
#include "sim/subjects/amounts.h"

#include <lladd/bytes.h>
#include <lladd/heap.h>
#include <string.h>

#include "sim/subjects/cells.h"

#define SLOTTED "sums.slotted"
#define FIXED "sums.fixed"
#define HEAP "sums.heap"
#define RECORD "sums.record"

/* Counters 0 and 1 are fields of the slotted record, 2 and 3 of the fixed-length record. Counter
 * HOME is a field of a heap record, counter MOVED of a heap record that has moved. */
enum { LEN = 24, AT = 3, AT_SECOND = 14, HOME = 4, MOVED = 5, LARGE = 1500, FILLER = 900 };

struct work {
    struct ll_sim_work base;
    lladd_pageno root; /* of the heap */
    struct lladd_heap *heap;
    struct lladd_rid slotted, fixed, of_heap[2];
};

static struct lladd_rid rid_of(struct lladd_root_value v)
{
    return (struct lladd_rid){lladd_page_of(v.a), (uint32_t)v.b, LEN};
}

static int find(struct work *w)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_db *db = w->base.db;
    struct lladd_root_value v;
    TRY(lladd_root_get(db, SLOTTED, &v, w->base.err));
    w->slotted = rid_of(v);
    TRY(lladd_root_get(db, FIXED, &v, w->base.err));
    w->fixed = rid_of(v);
    TRY(ll_sim_root_page(db, HEAP, &w->root, w->base.err));
    for (unsigned i = 0; i < 2; i++) {
        TRY(lladd_root_get(db, ll_sim_root_name(RECORD, i, name), &v, w->base.err));
        w->of_heap[i] = rid_of(v);
    }
    return 0;
}

/* ---- setup ------------------------------------------------------------------------------- */

static int keep(struct lladd_txn *txn, const char *name, struct lladd_rid rid)
{
    return lladd_root_set(txn, name, (struct lladd_root_value){rid.page.v, rid.slot});
}

/* Stores a record that makes_room() shrinks later, the record with counters, and a large one. */
static int make_slotted(struct lladd_txn *txn, const unsigned char *zeros)
{
    lladd_pageno page;
    struct lladd_rid rid, other;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_slotted_format(txn, page, 0));
    TRY(lladd_slotted_alloc(txn, page, zeros, FILLER, 0, &other));
    TRY(lladd_slotted_alloc(txn, page, zeros, LEN, 0, &rid));
    TRY(lladd_slotted_alloc(txn, page, zeros, LARGE, 0, &other));
    return keep(txn, SLOTTED, rid);
}

static int make_fixed(struct lladd_txn *txn, const unsigned char *zeros)
{
    lladd_pageno page;
    struct lladd_rid rid;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_fixed_format(txn, page, LEN));
    TRY(lladd_fixed_alloc(txn, page, zeros, &rid));
    TRY(lladd_fixed_alloc(txn, page, zeros, &rid));
    return keep(txn, FIXED, rid);
}

/* The second record grows and no longer fits on its page, so it moves. Then it shrinks. */
static int fill_heap(struct lladd_txn *txn, struct lladd_heap *heap, const unsigned char *zeros)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    struct lladd_rid rid[2], other;
    TRY(lladd_heap_insert(txn, heap, zeros, LEN, &rid[0]));
    TRY(lladd_heap_insert(txn, heap, zeros, LARGE, &other));
    TRY(lladd_heap_insert(txn, heap, zeros, 8, &rid[1]));
    TRY(lladd_heap_insert(txn, heap, zeros, LARGE, &other));
    TRY(lladd_heap_set(txn, heap, rid[1], zeros, LARGE));
    TRY(lladd_heap_set(txn, heap, rid[1], zeros, LEN));
    for (unsigned i = 0; i < 2; i++)
        TRY(keep(txn, ll_sim_root_name(RECORD, i, name), rid[i]));
    return 0;
}

static int make_heap(struct lladd_txn *txn, const unsigned char *zeros)
{
    struct lladd_heap *heap;
    lladd_pageno root;
    TRY(lladd_heap_create_open(txn, &root, &heap));
    int rc = lladd_root_set(txn, HEAP, (struct lladd_root_value){root.v, 0});
    if (!rc)
        rc = fill_heap(txn, heap, zeros);
    lladd_heap_close(heap);
    return rc;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    static const unsigned char zeros[LARGE];
    struct lladd_txn *txn;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = make_slotted(txn, zeros);
    if (!rc)
        rc = make_fixed(txn, zeros);
    if (!rc)
        rc = make_heap(txn, zeros);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int add(struct ll_sim_work *base, struct lladd_txn *txn, uint32_t counter, int64_t delta)
{
    struct work *w = (struct work *)base;
    uint32_t at = counter % 2 ? AT_SECOND : AT;
    int rc = counter < 2      ? lladd_slotted_add(txn, w->slotted, at, delta)
             : counter < HOME ? lladd_fixed_add(txn, w->fixed, at, delta)
                              : lladd_heap_add(txn, w->heap, w->of_heap[counter - HOME], AT, delta);
    return rc ? rc : ll_sim_amount_note(base, txn, counter, delta);
}

static int add_to_all(struct ll_sim_work *w, struct lladd_txn *txn, int64_t delta)
{
    for (uint32_t counter = 0; counter < LL_SIM_AMOUNTS; counter++)
        TRY(add(w, txn, counter, delta));
    return 0;
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn, 0, 1000));
    TRY(add(w, txn, 2, 2000));
    TRY(add(w, txn, HOME, 3000));
    TRY(add(w, txn, MOVED, 4000));
    return add(w, txn, 0, -7);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add_to_all(w, txn, 3));
    return lladd_sim_commit(w->sim, txn);
}

/* Shrinks a record and stores another one, for which the page must be compacted. It is no failure
 * if the page is full. */
static int makes_room(struct ll_sim_work *base, struct lladd_txn *txn)
{
    static const unsigned char zeros[FILLER + 300];
    struct work *w = (struct work *)base;
    struct lladd_rid first = {w->slotted.page, 0, FILLER}, other;
    int rc = lladd_slotted_resize(txn, first, 8);
    if (!rc)
        rc = lladd_slotted_alloc(txn, w->slotted.page, zeros, 700, 0, &other);
    if (rc && rc != LLADD_PAGE_FULL)
        return rc;
    return lladd_sim_commit(base->sim, txn);
}

static int fills(struct ll_sim_work *base, struct lladd_txn *txn)
{
    static const unsigned char zeros[FILLER];
    struct work *w = (struct work *)base;
    struct lladd_rid other;
    int rc = lladd_slotted_alloc(txn, w->slotted.page, zeros, FILLER - 100, 0, &other);
    if (rc && rc != LLADD_PAGE_FULL)
        return rc;
    return lladd_sim_commit(base->sim, txn);
}

static int rolls_back_in_part(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(add(w, txn, 1, 50));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(add(w, txn, 1, 60));
    TRY(add(w, txn, 3, 70));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(add(w, txn, 3, -5));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add_to_all(w, txn, -90));
    return lladd_sim_abort(w->sim, txn);
}

static int run_all(struct ll_sim_work *w)
{
    TRY(ll_sim_in_txn(w, stays_open));
    TRY(ll_sim_in_txn(w, makes_room));
    TRY(ll_sim_in_txn(w, commits));
    TRY(lladd_checkpoint(w->db, w->err));
    TRY(ll_sim_in_txn(w, fills));
    TRY(ll_sim_in_txn(w, rolls_back_in_part));
    TRY(ll_sim_in_txn(w, rolls_back));
    return ll_sim_in_txn(w, commits);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.base = {.sim = sim, .db = db, .err = err}};
    (void)ctx;
    TRY(find(&w));
    TRY(lladd_heap_open(db, w.root, &w.heap, err));
    int rc = run_all(&w.base);
    lladd_heap_close(w.heap);
    return rc;
}

/* ---- dump and check ---------------------------------------------------------------------- */

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    struct ll_sim_amounts a = {{0}};
    unsigned char bytes[LEN];
    size_t len = 0;
    (void)ctx;
    TRY(find(&w));
    TRY(lladd_slotted_read(db, w.slotted, bytes, LEN, &len, NULL, err));
    a.of[0] = (int64_t)lladd_get64(bytes + AT);
    a.of[1] = (int64_t)lladd_get64(bytes + AT_SECOND);
    TRY(lladd_fixed_read(db, w.fixed, bytes, LEN, err));
    a.of[2] = (int64_t)lladd_get64(bytes + AT);
    a.of[3] = (int64_t)lladd_get64(bytes + AT_SECOND);
    TRY(lladd_heap_open(db, w.root, &w.heap, err));
    int rc = 0;
    for (unsigned i = 0; i < 2 && !rc; i++) {
        rc = lladd_heap_read(w.heap, w.of_heap[i], AT, bytes, 8, err);
        a.of[HOME + i] = rc ? 0 : (int64_t)lladd_get64(bytes);
    }
    lladd_heap_close(w.heap);
    TRY(rc);
    return ll_sim_amounts_dump(NULL, &a, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    struct work w = {.base = {.db = db, .err = err}};
    (void)ctx;
    TRY(find(&w));
    TRY(fn(arg, w.slotted.page));
    TRY(fn(arg, w.fixed.page));
    return ll_sim_heap_each(db, w.root, fn, arg, err);
}

static const char *const operations[] = {"lladd.slotted.add", "lladd.fixed.add", NULL};

const struct lladd_sim_subject ll_sim_subject_sums = {
    .struct_size = sizeof ll_sim_subject_sums,
    .name = "sums",
    .about = "increments on fields of records, by several transactions at a time",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = pages,
    .operations = operations,
};
