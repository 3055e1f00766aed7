/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * small: the workload for measuring the simulator's speed, with 8 pages, 2 transactions and 40
 * records. Both transactions add to a counter on each page at least twice. The first one commits;
 * the second one stays open.
 */
#include "sim/subjects/subjects.h"

#include <string.h>

enum { PAGES = 8, RECORDS = 20 };

struct contents {
    int64_t counter[PAGES];
};

struct step {
    uint32_t page;
    int32_t delta;
};

/* One log segment is large enough for the workload. Other subjects test several segments. */
static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->cache_bytes = 128u << 10;
    o->log_segment_min = o->log_segment_max = 16u << 10;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

static int add(struct lladd_sim *sim, struct lladd_txn *txn, lladd_pageno first, uint32_t i)
{
    struct step s = {i % PAGES, (int32_t)(1u << i % 16)};
    int rc = lladd_counter_add(txn, lladd_page_of(first.v + s.page), 64, s.delta);
    return rc ? rc : lladd_sim_note(sim, txn, &s, sizeof s);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn[2];
    lladd_pageno first;
    (void)ctx;
    int rc = ll_sim_pages_find(db, &first, err);
    for (unsigned t = 0; !rc && t < 2; t++)
        rc = lladd_sim_begin(sim, db, NULL, &txn[t], err);
    for (uint32_t i = 0; !rc && i < 2 * RECORDS; i++) {
        rc = add(sim, txn[i % 2], first, i / 2 + i % 2);
        if (rc)
            *err = *lladd_txn_error(txn[i % 2]);
    }
    if (!rc)
        rc = lladd_sim_commit(sim, txn[0]);
    return rc;
}

static void apply(void *ctx, void *model, struct lladd_span note)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    c->counter[s.page] += s.delta;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return lladd_sink_write(sink, model, sizeof(struct contents));
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    lladd_pageno first;
    (void)ctx;
    int rc = ll_sim_pages_find(db, &first, err);
    for (uint32_t p = 0; !rc && p < PAGES; p++)
        rc = lladd_counter_get(db, lladd_page_of(first.v + p), 64, &c.counter[p], err);
    return rc ? rc : lladd_sink_write(sink, &c, sizeof c);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

const struct lladd_sim_subject ll_sim_subject_small = {
    .struct_size = sizeof ll_sim_subject_small,
    .name = "small",
    .about = "8 pages, 2 transactions, 40 records: what bench/sim.c measures",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_apply = apply,
    .model_dump = model_dump,
    .operations = operations,
    .repeats = true,
};
