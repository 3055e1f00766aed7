/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prepared: two-phase commit. Transactions are prepared, and then committed, rolled back, or left
 * in doubt, with checkpoints and other transactions between the phases.
 *
 * Each transaction changes a counter of its own, but all counters are on one page. The rollback of
 * one transaction must not change the counter of a transaction in doubt.
 */
#include "sim/subjects/amounts.h"

#include <string.h>

enum { COUNTERS = 5 };

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    return (struct ll_sim_place){first, 16 + counter * 700};
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int32_t delta)
{
    struct ll_sim_place p = place_of(w->first, counter);
    int rc = lladd_counter_add(txn, p.page, p.offset, delta);
    if (rc) {
        *w->err = *lladd_txn_error(txn);
        return rc;
    }
    return ll_sim_amount_note(w, txn, counter, delta);
}

static int begin(struct ll_sim_work *w, uint32_t counter, int32_t delta, struct lladd_txn **txn)
{
    TRY(lladd_sim_begin(w->sim, w->db, NULL, txn, w->err));
    return add(w, *txn, counter, delta);
}

static int prepare(struct ll_sim_work *w, struct lladd_txn *txn, unsigned char id)
{
    struct lladd_gid gid = {.format = 7, .gtrid_length = 4, .bqual_length = 1};
    memcpy(gid.data, "gid-", 4);
    gid.data[4] = id;
    int rc = lladd_sim_prepare(w->sim, txn, &gid);
    if (rc)
        *w->err = *lladd_txn_error(txn);
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *kept, *dropped, *doubtful, *other;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(begin(&w, 0, 1000, &kept));
    TRY(begin(&w, 1, 2000, &dropped));
    TRY(begin(&w, 2, 3000, &doubtful));
    TRY(add(&w, kept, 0, 1));
    TRY(prepare(&w, kept, 'a'));
    TRY(prepare(&w, dropped, 'b'));
    TRY(begin(&w, 3, 40, &other));
    TRY(lladd_sim_commit(sim, other));
    TRY(prepare(&w, doubtful, 'c'));
    TRY(lladd_checkpoint(db, err));
    TRY(lladd_sim_commit(sim, kept));
    TRY(begin(&w, 4, 50, &other));
    TRY(lladd_sim_abort(sim, dropped));
    TRY(lladd_sim_commit(sim, other));
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, COUNTERS, place_of, sink, err);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_prepared = {
    .struct_size = sizeof ll_sim_subject_prepared,
    .name = "prepared",
    .about = "two-phase commit: prepared, then committed, rolled back, or in doubt",
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .repeats = true,
};
