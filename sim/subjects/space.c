/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space: the disk becomes full. Transactions commit until one is refused. Meanwhile another
 * transaction stays open; it is the loser in each recovery. Each recovery is crashed in turn. The
 * disk gets no larger for the recoveries, and the simulator removes no files to make room. Every
 * recovery must still open the database (REC-3).
 */
#include "sim/subjects/amounts.h"

enum { COUNTERS = 2, HELD = 3, MOST = 400 };
enum { SEGMENT = 4 << 10, ROOM = 6 * SEGMENT };
/* So many that the records of one transaction together are longer than a disk sector. */
enum { ADDS = 14 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = SEGMENT;
    o->log_segment_max = 2 * SEGMENT;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, COUNTERS + HELD, &first, err);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter)
{
    TRY(lladd_counter_add(txn, lladd_page_of(w->first.v + counter), 0, 1));
    return ll_sim_amount_note(w, txn, counter, 1);
}

/* Not noted for the model, because this transaction is always rolled back. */
static int add_held(struct ll_sim_work *w, struct lladd_txn *holder, uint32_t n)
{
    return lladd_counter_add(holder, lladd_page_of(w->first.v + COUNTERS + n % HELD), 0, 1);
}

/* Runs a transaction. If the disk is full, rolls the transaction back and sets *full. */
static int commit_one(struct ll_sim_work *w, uint32_t counter, bool *full)
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = 0;
    for (unsigned i = 0; !rc && i < ADDS; i++)
        rc = add(w, txn, counter);
    *full = rc == LLADD_NO_SPACE;
    if (*full)
        return lladd_sim_abort(w->sim, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *holder;
    bool full = false;
    int rc = 0;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_sim_begin(sim, db, NULL, &holder, err));
    for (unsigned i = 0; !rc && !full && i < MOST; i++) {
        rc = i % 3 < 2 ? add_held(&w, holder, i) : commit_one(&w, i % COUNTERS, &full);
        full |= rc == LLADD_NO_SPACE;
    }
    /* It is no failure if the disk has not become full, because in the contract checks it never
     * does. */
    return rc && rc != LLADD_NO_SPACE ? ll_sim_give_up(sim, holder, rc, err) : 0;
}

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){lladd_page_of(first.v + counter), 0};
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, COUNTERS, place_of, sink, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    int64_t value;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &first, err));
    for (uint32_t i = 0; i < HELD; i++) {
        TRY(lladd_counter_get(db, lladd_page_of(first.v + COUNTERS + i), 0, &value, err));
        if (value != 0)
            return lladd_error_set(err, LLADD_BUG, "counter of held page %u: %lld, not 0", i,
                                   (long long)value);
    }
    return 0;
}

/* A new transaction may be refused, because there may be no space. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_counter_add(txn, w.first, 0, 1);
    if (rc && rc != LLADD_NO_SPACE)
        return ll_sim_give_up(NULL, txn, rc, err);
    return rc ? lladd_abort(txn) : lladd_commit(txn);
}

/* A transaction that is rolled back. Its update may be refused, as in go_on; the rollback may
 * not. */
static int meanwhile(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_txn *txn;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = add_held(&w, txn, 0);
    return rc && rc != LLADD_NO_SPACE ? ll_sim_give_up(NULL, txn, rc, err) : lladd_abort(txn);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_space = {
    .struct_size = sizeof ll_sim_subject_space,
    .name = "space",
    .about = "a full disk, and recoveries that crash on it",
    .configure = configure,
    .setup = setup,
    .run = run,
    .check = check,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .go_on = go_on,
    .meanwhile = meanwhile,
    .repeats = true,
    .disk_room = ROOM,
};
