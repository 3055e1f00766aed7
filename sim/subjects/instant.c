/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * instant: databases that open before their pages are redone. While pages have pending redo, there
 * are rollbacks, new transactions, evictions from a cache of a few pages, pages that are freed and
 * reused, checkpoints, and another crash.
 *
 * There are three variants. instant.tight has memory for the records of only a few pages, so the
 * other pages are redone before open returns. instant.long has much to roll back, so the pages for
 * the rollback are redone before it begins. redo.shares has full redo, with the pages divided among
 * threads: records of one page are redone before earlier records of another page, and a crash may
 * come in between.
 *
 * The contents are counters. Their undo and redo are not idempotent, so a record that is redone
 * twice or not at all shows in the sum. Some pages have one counter each. One more counter is on
 * the guest page, which is allocated and freed.
 */
#include "sim/subjects/subjects.h"

#include <string.h>

enum { PAGES = 7, AT = 640, GUEST = PAGES, LONG = 150 };

#define ROOT "sim.guest"

struct contents {
    int64_t counter[PAGES + 1];
    int64_t guest; /* 1: the guest page exists */
};

/* A step of a transaction: adds to a counter, or allocates or frees the guest page. */
struct step {
    uint32_t counter;
    int32_t comes; /* 1: the guest page is allocated, -1: freed */
    int64_t delta;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->recovery = LLADD_RECOVER_INSTANT;
    o->cache_bytes = 80 << 10;
    o->log_segment_min = o->log_segment_max = 4 << 10;
    return 0;
}

static int configure_shares(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    TRY(configure(ctx, o, err));
    o->recovery = LLADD_RECOVER_FULL;
    o->redo_threads = 3;
    return 0;
}

static int configure_tight(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    TRY(configure(ctx, o, err));
    o->recovery_bytes = 2 << 10;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, PAGES, &first, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int note(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t counter, int32_t comes,
                int64_t delta)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.counter = counter;
    s.comes = comes;
    s.delta = delta;
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int add(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t page, int64_t delta)
{
    TRY(lladd_counter_add(txn, lladd_page_of(w->first.v + page), AT, delta));
    return note(w, txn, page, 0, delta);
}

static int guest_comes(struct ll_sim_work *w, struct lladd_txn *txn, int64_t with)
{
    lladd_pageno page;
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_bytes_format(txn, page));
    TRY(lladd_counter_add(txn, page, AT, with));
    TRY(lladd_root_set(txn, ROOT, (struct lladd_root_value){page.v, 0}));
    return note(w, txn, GUEST, 1, with);
}

static int guest_goes(struct ll_sim_work *w, struct lladd_txn *txn)
{
    struct lladd_root_value v;
    TRY(lladd_root_get(w->db, ROOT, &v, lladd_txn_error_out(txn)));
    TRY(lladd_page_free(txn, lladd_page_of(v.a)));
    TRY(lladd_root_delete(txn, ROOT));
    return note(w, txn, GUEST, -1, 0);
}

static int begins(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (uint32_t p = 0; p < PAGES; p++)
        TRY(add(w, txn, p, 1 + p));
    TRY(guest_comes(w, txn, 50));
    return lladd_sim_commit(w->sim, txn);
}

static int goes_on(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(guest_goes(w, txn));
    TRY(add(w, txn, 5, 300));
    TRY(add(w, txn, 6, 300));
    TRY(add(w, txn, 5, 40));
    return lladd_sim_commit(w->sim, txn);
}

static int ends(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(guest_comes(w, txn, 60));
    TRY(add(w, txn, 3, 7000));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(add(w, txn, 0, 100000));
    TRY(add(w, txn, 1, 100000));
    TRY(add(w, txn, 0, 200000));
    return add(w, txn, 2, 100000);
}

/* Makes more records than recovery reads one by one for a rollback. */
static int stays_open_for_long(struct ll_sim_work *w, struct lladd_txn *txn)
{
    for (uint32_t i = 0; i < LONG; i++)
        TRY(add(w, txn, i % 3, 1000000));
    return stays_open(w, txn);
}

static int run_with(struct lladd_sim *sim, struct lladd_db *db,
                    int (*loser)(struct ll_sim_work *, struct lladd_txn *), struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(ll_sim_in_txn(&w, begins));
    TRY(lladd_checkpoint(db, err));
    TRY(ll_sim_in_txn(&w, loser));
    TRY(ll_sim_in_txn(&w, goes_on));
    return ll_sim_in_txn(&w, ends);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    return run_with(sim, db, stays_open, err);
}

static int run_long(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    (void)ctx;
    return run_with(sim, db, stays_open_for_long, err);
}

/* ---- while pages have pending redo -------------------------------------------------------- */

/* Changes pages with pending redo, and changes them back. Allocates a page, which may also have
 * pending redo, and frees it. */
static int change(struct lladd_db *db, struct lladd_txn *txn, struct lladd_error *err)
{
    lladd_pageno first, page;
    TRY(ll_sim_pages_find(db, &first, err));
    TRY(lladd_counter_add(txn, lladd_page_of(first.v + 5), AT, 1));
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_bytes_format(txn, page));
    TRY(lladd_counter_add(txn, page, AT, 9));
    TRY(lladd_counter_add(txn, lladd_page_of(first.v + 1), AT, 10));
    TRY(lladd_counter_add(txn, lladd_page_of(first.v + 5), AT, -1));
    TRY(lladd_counter_add(txn, lladd_page_of(first.v + 1), AT, -10));
    return lladd_page_free(txn, page);
}

static int meanwhile(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    for (int commits = 1; commits >= 0; commits--) {
        struct lladd_txn *txn;
        TRY(lladd_begin(db, NULL, &txn, err));
        int rc = change(db, txn, err);
        if (!rc && !commits && !(rc = ll_sim_pages_find(db, &first, err)))
            rc = lladd_counter_add(txn, lladd_page_of(first.v + 6), AT, 5);
        if (rc)
            return ll_sim_give_up(NULL, txn, rc, err);
        TRY(commits ? lladd_commit(txn) : lladd_abort(txn));
    }
    return 0;
}

/* ---- the model --------------------------------------------------------------------------- */

static void apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    c->guest += s.comes;
    c->counter[s.counter] = s.comes < 0 ? 0 : c->counter[s.counter] + s.delta;
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    for (uint32_t i = 0; i <= PAGES; i++)
        TRY(lladd_sink_printf(sink, "%lld ", (long long)c->counter[i]));
    return lladd_sink_printf(sink, "%s", c->guest ? "guest" : "");
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    lladd_pageno first, guest;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(ll_sim_pages_find(db, &first, err));
    for (uint32_t p = 0; p < PAGES; p++)
        TRY(lladd_counter_get(db, lladd_page_of(first.v + p), AT, &c.counter[p], err));
    TRY(ll_sim_root_page(db, ROOT, &guest, err));
    if (guest.v != LLADD_NO_PAGE) {
        c.guest = 1;
        TRY(lladd_counter_get(db, guest, AT, &c.counter[GUEST], err));
    }
    return write_down(&c, sink);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno guest;
    TRY(ll_sim_pages_each(ctx, db, fn, arg, err));
    TRY(ll_sim_root_page(db, ROOT, &guest, err));
    return guest.v == LLADD_NO_PAGE ? 0 : fn(arg, guest);
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    if (s.comes)
        (void)lladd_sink_printf(sink, "the guest %s", s.comes > 0 ? "comes" : "goes");
    else
        (void)lladd_sink_printf(sink, "adds %lld to counter %u", (long long)s.delta, s.counter);
}

static const char *const operations[] = {"lladd.counter.add", NULL};

#define SUBJECT(subject, text, how, ...) \
    const struct lladd_sim_subject subject = { \
        .struct_size = sizeof(struct lladd_sim_subject), \
        .name = text, \
        .about = how, \
        __VA_ARGS__, \
        .setup = setup, \
        .dump = dump, \
        .model_size = sizeof(struct contents), \
        .model_apply = apply, \
        .model_dump = model_dump, \
        .describe = describe, \
        .pages = pages, \
        .operations = operations, \
    }

SUBJECT(ll_sim_subject_instant, "instant", "databases that open before their pages are redone",
        .configure = configure, .meanwhile = meanwhile, .run = run);
SUBJECT(ll_sim_subject_instant_tight, "instant.tight",
        "instant recovery with memory for the records of a few pages", .configure = configure_tight,
        .meanwhile = meanwhile, .run = run);
SUBJECT(ll_sim_subject_instant_long, "instant.long",
        "instant recovery with much to roll back before open", .configure = configure,
        .meanwhile = meanwhile, .run = run_long);
SUBJECT(ll_sim_subject_redo_shares, "redo.shares",
        "pages are shared out for redo, and redone one share after the other",
        .configure = configure_shares, .run = run);
