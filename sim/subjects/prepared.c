/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prepared: two-phase commit. Transactions that are prepared, and then committed, rolled back, or
 * left in doubt; with checkpoints and other transactions between the phases.
 *
 * Each works on a counter of its own, but all counters are on one page: what is in doubt must not
 * be disturbed by its neighbours' rolling back.
 */
#include "sim/subjects/subjects.h"

#include <lladd/records.h>

#include <string.h>

enum { COUNTERS = 5 };

struct contents {
    int64_t counter[COUNTERS];
};

struct step {
    uint32_t counter;
    int32_t delta;
};

struct work {
    struct lladd_sim *sim;
    struct lladd_db *db;
    struct lladd_error *err;
    lladd_pageno page;
};

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static uint32_t place_of(uint32_t counter)
{
    return 16 + counter * 700;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, 1, &first, err);
}

static int add(struct work *w, struct lladd_txn *txn, uint32_t counter, int32_t delta)
{
    struct step s = {counter, delta};
    int rc = lladd_counter_add(txn, w->page, place_of(counter), delta);
    if (rc) {
        *w->err = *lladd_txn_error(txn);
        return rc;
    }
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int begin(struct work *w, uint32_t counter, int32_t delta, struct lladd_txn **txn)
{
    TRY(lladd_sim_begin(w->sim, w->db, NULL, txn, w->err));
    return add(w, *txn, counter, delta);
}

static int prepare(struct work *w, struct lladd_txn *txn, unsigned char id)
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
    struct work w = {.sim = sim, .db = db, .err = err};
    struct lladd_txn *kept, *dropped, *doubtful, *other;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.page, err));
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

static void apply(void *ctx, void *model, struct lladd_span note)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    c->counter[s.counter] += s.delta;
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < COUNTERS; i++)
        rc = lladd_sink_printf(sink, "%lld ", (long long)c->counter[i]);
    return rc;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &page, err));
    for (uint32_t i = 0; i < COUNTERS; i++)
        TRY(lladd_counter_get(db, page, place_of(i), &c.counter[i], err));
    return write_down(&c, sink);
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    (void)lladd_sink_printf(sink, "adds %d to counter %u", s.delta, s.counter);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &page, err));
    return fn(arg, page);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_prepared = {
    .struct_size = sizeof ll_sim_subject_prepared,
    .name = "prepared",
    .about = "two-phase commit: prepared, then committed, rolled back, or in doubt",
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = pages,
    .operations = operations,
    .repeats = true,
};
