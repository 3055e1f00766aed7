/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rounds: one small transaction, repeated, in a log of the smallest segments, which are reused in
 * turn. The end of the log is therefore often followed by old records from an earlier use of the
 * segment. These records are complete and lie where a new record could begin.
 */
#include "sim/subjects/amounts.h"

enum { ROUNDS = 60, CHECKPOINT_EVERY = 12 };

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(lladd_counter_add(txn, w->first, 0, 1));
    return ll_sim_amount_note(w, txn, 0, 1);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn));
    return lladd_sim_abort(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    for (unsigned i = 1; i <= ROUNDS; i++) {
        bool last = i % CHECKPOINT_EVERY == 0;
        TRY(ll_sim_in_txn(&w, last ? rolls_back : commits));
        if (last)
            TRY(lladd_checkpoint(db, err));
    }
    return 0;
}

static struct ll_sim_place place_of(lladd_pageno first, uint32_t counter)
{
    (void)counter;
    return (struct ll_sim_place){first, 0};
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    (void)ctx;
    return ll_sim_amounts_read(db, 1, place_of, sink, err);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_rounds = {
    .struct_size = sizeof ll_sim_subject_rounds,
    .name = "rounds",
    .about = "one small transaction, repeated, in log segments that are reused in turn",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    LL_SIM_AMOUNTS_MODEL,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .repeats = true,
};
