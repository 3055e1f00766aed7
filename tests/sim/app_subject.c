/* SPDX-License-Identifier: BSD-2-Clause */
/* See app_subject.h. */
#include "app_subject.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <sched.h>
#include <signal.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* ---- the operation: adds to the first word of a page -------------------------------------- */

static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *d)
{
    const struct app *app = ctx;
    uint64_t delta = lladd_get64(args.data);
    if (app->fault == APP_SPEECHLESS || app->fault == APP_REFUSED)
        return LLADD_PAGE_FULL;
    lladd_put64(lladd_draft_redo(d, 8), delta);
    if (app->fault == APP_NO_UNDO)
        return 0;
    bool broken = app->fault == APP_UNDO_WRITES_OLD;
    lladd_put64(lladd_draft_undo(d, 8), broken ? lladd_get64(lladd_view_body(page)) : delta);
    return 0;
}

static bool add_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == 8;
}

static void add_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) + lladd_get64(redo.data));
}

static void add_ever_more(struct lladd_page *page, struct lladd_span redo)
{
    static uint64_t more;
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) + lladd_get64(redo.data) + more++);
}

static void add_undo(struct lladd_page *page, struct lladd_span undo)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) - lladd_get64(undo.data));
}

static void write_old(struct lladd_page *page, struct lladd_span undo)
{
    lladd_put64(lladd_page_body(page), lladd_get64(undo.data));
}

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    struct app *app = ctx;
    if (app->fault == APP_WAITS)
        TRY(lladd_lock_register(o, err));
    return lladd_register_op(o, &app->op, err);
}

/* ---- the database ------------------------------------------------------------------------ */

static int find(struct lladd_db *db, lladd_pageno *page, struct lladd_error *err)
{
    struct lladd_root_value v = {0, 0};
    int rc = lladd_root_get(db, "app", &v, err);
    *page = lladd_page_of(v.a);
    return rc;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    const struct app *app = ctx;
    struct lladd_page *held;
    struct lladd_txn *txn;
    lladd_pageno page;
    if (app->fault == APP_SETUP_SPEECHLESS)
        return LLADD_BUSY;
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_bytes_format(txn, page));
    TRY(lladd_root_set(txn, "app", (struct lladd_root_value){page.v, 0}));
    TRY(lladd_commit(txn));
    return app->fault == APP_SETUP_HOLDS ? lladd_page_fix(db, page, LLADD_LATCH_SHARED, &held, err)
                                         : 0;
}

static int add(struct lladd_sim *sim, struct lladd_db *db, struct lladd_txn *txn, uint64_t delta,
               bool say)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    unsigned char bytes[8];
    lladd_pageno page;
    lladd_op_id op;
    lladd_put64(bytes, delta);
    TRY(find(db, &page, err));
    TRY(lladd_op_lookup(db, "app.add", 1, &op));
    TRY(lladd_update(txn, op, page, bytes, sizeof bytes));
    return say ? lladd_sim_note(sim, txn, bytes, sizeof bytes) : 0;
}

static int lock(struct lladd_txn *txn)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(7)), LLADD_LOCK_X,
                              LLADD_LOCK_FOREVER);
}

static int ask(struct lladd_db *db, struct lladd_txn *txn, unsigned records)
{
    lladd_op_id op;
    TRY(lladd_op_lookup(db, "app.add", 1, &op));
    return lladd_log_credit(txn, op, records);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct app *app = ctx;
    struct lladd_txn *open, *txn;
    app->runs++;
    if (app->fault == APP_CRASHES && raise(SIGABRT) == 0)
        return LLADD_BUG;
    while (app->fault == APP_HANGS)
        (void)sched_yield();
    while (app->fault == APP_LOOPS) {
        TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
        TRY(add(sim, db, txn, 1, true));
        TRY(lladd_sim_commit(sim, txn));
    }
    if (app->fault == APP_FAILS)
        return lladd_error_set(err, LLADD_BUSY, "the workload fails as the test wants");
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(lladd_sim_begin(sim, db, NULL, &open, err));
    if (app->fault == APP_WAITS) {
        TRY(lock(txn));
        TRY(lock(open));
    }
    if (app->fault == APP_NO_CREDIT_MAX)
        TRY(ask(db, txn, 3));
    int rc = add(sim, db, open, 100, true);
    while (rc && app->fault == APP_REFUSED)
        rc = add(sim, db, open, 100, true);
    if (rc && app->fault == APP_SPEECHLESS)
        return rc;
    if (rc)
        return lladd_error_set(err, rc, "%s", lladd_txn_error(open)->message);
    TRY(add(sim, db, txn, app->fault == APP_RANDOM ? app->runs : 5, true));
    TRY(add(sim, db, txn, 7, app->fault != APP_FORGETS_NOTE));
    rc = lladd_sim_commit(sim, txn);
    if (app->fault == APP_IGNORES)
        return 0;
    if (rc)
        return rc;
    if (app->fault == APP_LOOSE)
        return lladd_sim_note(sim, txn, "x", 1) ? 0 : LLADD_BUSY;
    return app->fault == APP_NEVER_ABORTS ? lladd_sim_commit(sim, open)
                                          : lladd_sim_abort(sim, open);
}

static int sum_of(struct lladd_db *db, uint64_t *sum, struct lladd_error *err)
{
    unsigned char bytes[8];
    lladd_pageno page;
    TRY(find(db, &page, err));
    TRY(lladd_bytes_get(db, page, 0, bytes, sizeof bytes, err));
    *sum = lladd_get64(bytes);
    return 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    const struct app *app = ctx;
    uint64_t sum;
    TRY(sum_of(db, &sum, err));
    if (app->fault == APP_LEAKS_MEMORY && !lladd_mem_alloc(db, 10))
        return LLADD_NO_MEMORY;
    if (app->fault == APP_CHECK_SPEECHLESS && sum == 12)
        return LLADD_BAD_STATE;
    if (app->fault == APP_CHECK_COMPLAINS && sum == 12)
        return lladd_error_set(err, LLADD_BAD_STATE, "the sum is 12, and check refuses it");
    return 0;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    uint64_t sum;
    (void)ctx;
    TRY(sum_of(db, &sum, err));
    return lladd_sink_printf(sink, "sum %llu", (unsigned long long)sum);
}

static void apply(void *ctx, void *model, struct lladd_span note)
{
    uint64_t *sum = model;
    (void)ctx;
    *sum += lladd_get64(note.data);
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const uint64_t *sum = model;
    (void)ctx;
    return lladd_sink_printf(sink, "sum %llu", (unsigned long long)*sum);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    const struct app *app = ctx;
    lladd_pageno page;
    TRY(find(db, &page, err));
    return app->fault == APP_LEAKS_PAGE ? 0 : fn(arg, page);
}

static const char *const operations[] = {"app.add", NULL};
static const char *const one_more[] = {"app.add", "app.subtract", NULL};

void app_init(struct app *app, enum app_fault fault)
{
    *app = (struct app){.fault = fault, .run = run};
    app->op = (struct lladd_op){
        .struct_size = sizeof app->op,
        .name = "app.add",
        .version = 1,
        .ctx = app,
        .page_type = "lladd.bytes",
        .record_max = fault == APP_SMALL_RECORD ? 8 : 16,
        .undo_kind = fault == APP_NO_UNDO ? LLADD_UNDO_NONE : LLADD_UNDO_PAGE,
        .prepare = add_prepare,
        .validate = add_validate,
        .redo = fault == APP_IMPURE ? add_ever_more : add_redo,
        .undo = fault == APP_NO_UNDO           ? NULL
                : fault == APP_UNDO_WRITES_OLD ? write_old
                                               : add_undo,
    };
    app->subject = (struct lladd_sim_subject){
        .struct_size = sizeof app->subject,
        .name = "app",
        .ctx = app,
        .configure = configure,
        .setup = setup,
        .run = run,
        .check = check,
        .dump = dump,
        .model_size = fault == APP_NO_UNDO ? 0 : sizeof(uint64_t),
        .model_apply = apply,
        .model_dump = model_dump,
        .pages = pages,
        .repeats = true,
        .operations = fault == APP_NEVER_RUN ? one_more : operations,
    };
}
