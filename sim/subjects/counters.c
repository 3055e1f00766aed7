/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counters: additions to integers, and changes of bytes, in transactions that commit, roll back,
 * roll back to savepoints, and stay open.
 *
 * The undo of an addition is not idempotent, so a compensation record that is lost or repeated
 * shows in the sum. (If the undo restored an old value, this would not show.)
 */
#include "sim/subjects/subjects.h"

#include <string.h>

enum { PAGES = 3, COUNTERS = 4, AT_TEXT = 512, TEXT = 24 };

/* Each page has some counters, and a text in another sector. */
struct contents {
    int64_t counter[PAGES][COUNTERS];
    char text[PAGES][TEXT];
};

/* A step of a transaction. */
struct step {
    uint32_t page, counter;
    int64_t delta; /* 0: sets the text */
    char text[TEXT];
};

/* Counters are in different sectors. */
static uint32_t place_of(uint32_t counter)
{
    return counter * 640;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t page, uint32_t counter,
               int64_t delta)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.page = page;
    s.counter = counter;
    s.delta = delta;
    int rc = lladd_counter_add(txn, lladd_page_of(w->first.v + page), place_of(counter), delta);
    return rc ? rc : lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int set(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t page, const char *text)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.page = page;
    memcpy(s.text, text, strlen(text));
    int rc = lladd_bytes_set(txn, lladd_page_of(w->first.v + page), AT_TEXT, s.text, TEXT);
    return rc ? rc : lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn, 0, 0, 5));
    TRY(add(w, txn, 1, 1, 7));
    TRY(set(w, txn, 0, "first"));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back_in_part(struct ll_sim_work *w, struct lladd_txn *txn)
{
    lladd_savepoint_id here;
    TRY(add(w, txn, 2, 2, 100));
    TRY(lladd_sim_savepoint(w->sim, txn, &here));
    TRY(add(w, txn, 0, 1, 40));
    TRY(set(w, txn, 1, "never seen"));
    TRY(lladd_sim_rollback_to(w->sim, txn, here));
    TRY(add(w, txn, 0, 1, 3));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(set(w, txn, 0, "taken back"));
    TRY(add(w, txn, 0, 0, 1000));
    TRY(add(w, txn, 1, 1, -1000));
    return lladd_sim_abort(w->sim, txn);
}

/* Stays open. The commit of the next transaction also makes the records of this one durable. */
static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn, 0, 2, 77));
    TRY(add(w, txn, 1, 3, 78));
    return set(w, txn, 2, "open");
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, commits));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, stays_open));
    TRY(ll_sim_in_txn(&w, rolls_back_in_part));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, rolls_back));
    return ll_sim_in_txn(&w, commits);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

/* ---- the model --------------------------------------------------------------------------- */

static void apply(void *ctx, void *model, struct lladd_span note)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    if (s.delta)
        c->counter[s.page][s.counter] += s.delta;
    else
        memcpy(c->text[s.page], s.text, TEXT);
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    return lladd_sink_write(sink, c, sizeof *c);
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    lladd_pageno first;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &first, err));
    for (uint32_t p = 0; p < PAGES; p++) {
        lladd_pageno page = lladd_page_of(first.v + p);
        for (uint32_t i = 0; i < COUNTERS; i++)
            TRY(lladd_counter_get(db, page, place_of(i), &c.counter[p][i], err));
        TRY(lladd_bytes_get(db, page, AT_TEXT, c.text[p], TEXT, err));
    }
    return write_down(&c, sink);
}

static void describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, note.data, sizeof s);
    if (s.delta)
        (void)lladd_sink_printf(sink, "adds %lld to counter %u of page %u", (long long)s.delta,
                                s.counter, s.page);
    else
        (void)lladd_sink_printf(sink, "writes \"%.*s\" on page %u", TEXT, s.text, s.page);
}

static const char *const operations[] = {"lladd.counter.add", "lladd.set", NULL};

const struct lladd_sim_subject ll_sim_subject_counters = {
    .struct_size = sizeof ll_sim_subject_counters,
    .name = "counters",
    .about = "additions and bytes: commits, rollbacks, savepoints, checkpoints",
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = ll_sim_pages_each,
    .operations = operations,
    .repeats = true,
};
