/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mistakes of an operation's author that no crash reveals:
 * - a logical undo that takes more than the operation declares (O19);
 * - a wait that only the waiting thread could end (O17);
 * - an update that needs log space for which the caller has not asked.
 * The report names each of them.
 */
#include "verdicts.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

enum { STEPS = 3, RECORD_LOG = 128 + 16 };

/* The mistake that a case makes. */
struct limits {
    unsigned pages;      /* number of pages that compensate fixes at a time */
    bool forgets;        /* the workload does not ask for log space */
    bool waits;          /* the workload waits for a lock of its own thread */
    uint64_t timeout;    /* of that wait */
    bool waits_in_doubt; /* after recovery, waits for the lock of a transaction in doubt */
    struct lladd_op add, plain;
    struct lladd_sim_subject subject;
};

/* ---- the operations ----------------------------------------------------------------------- */

/* Adds to the first word of a page; the undo subtracts. */
static void plain_redo(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) + lladd_get64(bytes.data));
}

static void plain_undo(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) - lladd_get64(bytes.data));
}

static bool plain_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == 8;
}

/* Redo: the amount. Undo: the amount and the place. */
static int add_prepare(void *ctx, struct lladd_view page, struct lladd_span args,
                       struct lladd_draft *d)
{
    (void)ctx;
    memcpy(lladd_draft_redo(d, 8), args.data, 8);
    unsigned char *undo = lladd_draft_undo(d, 16);
    memcpy(undo, args.data, 8);
    lladd_put64(undo + 8, page.number.v);
    return 0;
}

static bool add_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    return s.len == (kind == LLADD_SPAN_UNDO ? 16 : 8);
}

static int hold(struct lladd_db *db, unsigned pages, struct lladd_error *err)
{
    struct lladd_page *held[2];
    unsigned n = 0;
    int rc = 0;
    while (!rc && n < pages) {
        rc = lladd_page_fix(db, lladd_page_of(n), LLADD_LATCH_SHARED, &held[n], err);
        n += !rc;
    }
    while (n-- > 0)
        lladd_page_unfix(db, held[n], LLADD_LATCH_SHARED);
    return rc;
}

/* Subtracts in STEPS updates. */
static int add_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const struct limits *l = ctx;
    const unsigned char *bytes = undo.data;
    uint64_t left = lladd_get64(bytes);
    unsigned char args[8];
    lladd_op_id plain;
    TRY(hold(lladd_txn_db(txn), l->pages, lladd_txn_error_out(txn)));
    TRY(lladd_op_lookup(lladd_txn_db(txn), "limits.plain", 1, &plain));
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t part = i + 1 < STEPS ? 1 : left;
        lladd_put64(args, 0 - part);
        TRY(lladd_update(txn, plain, lladd_page_of(lladd_get64(bytes + 8)), args, sizeof args));
        left -= part;
    }
    return 0;
}

/* ---- the subject -------------------------------------------------------------------------- */

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    struct limits *l = ctx;
    TRY(lladd_register_op(o, &l->plain, err));
    TRY(lladd_register_op(o, &l->add, err));
    return lladd_lock_register(o, err);
}

static int find(struct lladd_db *db, lladd_pageno *page, struct lladd_error *err)
{
    struct lladd_root_value v = {0, 0};
    int rc = lladd_root_get(db, "limits", &v, err);
    *page = lladd_page_of(v.a);
    return rc;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    (void)ctx;
    TRY(lladd_begin(db, NULL, &txn, err));
    TRY(lladd_page_alloc(txn, &page));
    TRY(lladd_bytes_format(txn, page));
    TRY(lladd_root_set(txn, "limits", (struct lladd_root_value){page.v, 0}));
    return lladd_commit(txn);
}

static int add(struct lladd_sim *sim, struct lladd_txn *txn, const char *op, uint64_t delta)
{
    unsigned char bytes[8];
    lladd_pageno page;
    lladd_op_id id;
    lladd_put64(bytes, delta);
    TRY(find(lladd_txn_db(txn), &page, lladd_txn_error_out(txn)));
    TRY(lladd_op_lookup(lladd_txn_db(txn), op, 1, &id));
    TRY(lladd_update(txn, id, page, bytes, sizeof bytes));
    return lladd_sim_note(sim, txn, bytes, sizeof bytes);
}

/* Adds to a page that it keeps fixed. */
static int add_held(struct lladd_sim *sim, struct lladd_txn *txn, uint64_t delta, bool forgets)
{
    struct lladd_db *db = lladd_txn_db(txn);
    unsigned char bytes[8];
    struct lladd_page *held;
    lladd_pageno page;
    lladd_op_id id;
    lladd_put64(bytes, delta);
    TRY(find(db, &page, lladd_txn_error_out(txn)));
    TRY(lladd_op_lookup(db, "limits.plain", 1, &id));
    if (!forgets)
        TRY(lladd_log_credit(txn, id, 1));
    TRY(lladd_page_fix(db, page, LLADD_LATCH_EXCLUSIVE, &held, lladd_txn_error_out(txn)));
    int rc = lladd_update_page(txn, id, held, bytes, sizeof bytes);
    lladd_page_unfix(db, held, LLADD_LATCH_EXCLUSIVE);
    if (!rc)
        rc = lladd_log_credit(txn, id, 0);
    return rc ? rc : lladd_sim_note(sim, txn, bytes, sizeof bytes);
}

static int lock(struct lladd_txn *txn, uint64_t timeout)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(7), lladd_lock_bytes("key", 3)),
                      LLADD_LOCK_X, timeout);
}

static const struct lladd_gid gid = {.format = 1, .gtrid_length = 1, .data = {'g'}};

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    const struct limits *l = ctx;
    struct lladd_txn *open, *txn;
    TRY(lladd_sim_begin(sim, db, NULL, &txn, err));
    TRY(lladd_sim_begin(sim, db, NULL, &open, err));
    TRY(lock(open, LLADD_LOCK_WAIT));
    TRY(add(sim, open, "limits.add", 100));
    TRY(add(sim, txn, "limits.add", 5));
    TRY(add_held(sim, txn, 7, l->forgets));
    if (l->waits) {
        int rc = lock(txn, l->timeout);
        if (l->timeout == LLADD_LOCK_FOREVER || rc != LLADD_TIMEOUT)
            return rc;
    }
    TRY(lladd_sim_commit(sim, txn));
    return l->waits_in_doubt ? lladd_sim_prepare(sim, open, &gid) : lladd_sim_abort(sim, open);
}

/* Reads what a transaction in doubt has locked. */
static int in_doubt(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    const struct limits *l = ctx;
    struct lladd_txn_options reads = {.struct_size = sizeof reads, .read_only = true};
    struct lladd_txn *txn;
    if (!l->waits_in_doubt)
        return 0;
    TRY(lladd_begin(db, &reads, &txn, err));
    int rc = lock(txn, LLADD_LOCK_WAIT);
    if (rc)
        *err = *lladd_txn_error(txn);
    int ended = lladd_abort(txn);
    return rc ? rc : ended;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    unsigned char bytes[8];
    lladd_pageno page;
    (void)ctx;
    TRY(find(db, &page, err));
    TRY(lladd_bytes_get(db, page, 0, bytes, sizeof bytes, err));
    return lladd_sink_printf(sink, "sum %llu", (unsigned long long)lladd_get64(bytes));
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

/* ---- cases -------------------------------------------------------------------------------- */

static struct limits limits;

static void begin(void)
{
    limits = (struct limits){.timeout = LLADD_LOCK_FOREVER};
    limits.plain = (struct lladd_op){.struct_size = sizeof limits.plain,
                                     .name = "limits.plain",
                                     .version = 1,
                                     .page_type = "lladd.bytes",
                                     .record_max = 16,
                                     .undo_kind = LLADD_UNDO_PAGE,
                                     .validate = plain_validate,
                                     .redo = plain_redo,
                                     .undo = plain_undo};
    limits.add = (struct lladd_op){.struct_size = sizeof limits.add,
                                   .name = "limits.add",
                                   .version = 1,
                                   .ctx = &limits,
                                   .page_type = "lladd.bytes",
                                   .record_max = 24,
                                   .undo_kind = LLADD_UNDO_LOGICAL,
                                   .prepare = add_prepare,
                                   .validate = add_validate,
                                   .redo = plain_redo,
                                   .compensate = add_compensate,
                                   .undo_log_max = STEPS * RECORD_LOG,
                                   .undo_pages_max = 1};
    limits.subject = (struct lladd_sim_subject){.struct_size = sizeof limits.subject,
                                                .name = "limits",
                                                .ctx = &limits,
                                                .configure = configure,
                                                .setup = setup,
                                                .run = run,
                                                .dump = dump,
                                                .model_size = sizeof(uint64_t),
                                                .model_apply = apply,
                                                .model_dump = model_dump,
                                                .in_doubt = in_doubt};
}

static struct lladd_sim_report *explore(void)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r = NULL;
    b.depth = 1;
    b.flags = LLADD_SIM_NO_COVERAGE;
    int rc = lladd_sim_explore(&limits.subject, &b, &r, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    return r;
}

static void passes(void)
{
    struct lladd_sim_report *r = explore();
    expect_passed(r);
    ck_assert(r->complete);
    lladd_sim_report_free(r);
}

/* Asserts that the only violation is that of this oracle, and that its message contains all of
 * these texts. */
static void caught(enum lladd_sim_oracle oracle, const char *const *says)
{
    struct lladd_sim_report *r = explore();
    const struct lladd_sim_failure *f = expect_caught(r, oracle);
    for (; *says; says++)
        ck_assert_msg(strstr(f->message, *says) != NULL, "no \"%s\" in \"%s\"", *says, f->message);
    lladd_sim_report_free(r);
}

#define CAUGHT(oracle, ...) caught(oracle, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(what_is_declared_is_enough)
{
    passes();
}
END_TEST

START_TEST(an_undo_log_max_that_is_too_small_is_measured)
{
    limits.add.undo_log_max = 8;
    CAUGHT(LLADD_SIM_O_UNDO_MAX, "compensate of \"limits.add\" has written ",
           "its undo_log_max is 8");
    limits.add.undo_log_max = 100; /* enough for one step of compensate, but not for all */
    CAUGHT(LLADD_SIM_O_UNDO_MAX, "compensate of \"limits.add\" has written ");
}
END_TEST

START_TEST(an_undo_pages_max_that_is_too_small_is_measured)
{
    limits.pages = 2;
    limits.add.undo_pages_max = 2;
    passes();
    limits.add.undo_pages_max = 1;
    CAUGHT(LLADD_SIM_O_UNDO_MAX,
           "compensate of \"limits.add\" has had 2 pages fixed at a time; its undo_pages_max is 1");
}
END_TEST

START_TEST(a_wait_for_oneself_is_named)
{
    limits.waits = true;
    CAUGHT(LLADD_SIM_O_DEADLOCK, "the only thread waits for ever", "{7, \"key\"}",
           "in the way is transaction #1");
    limits.timeout = 1000000000; /* the time is virtual, so it passes at once */
    passes();
}
END_TEST

START_TEST(a_wait_for_what_is_in_doubt_is_named)
{
    limits.waits_in_doubt = true;
    CAUGHT(LLADD_SIM_O_DEADLOCK, "{7, \"key\"}", "prepared");
}
END_TEST

START_TEST(log_space_that_was_not_asked_for_is_not_there)
{
    limits.forgets = true;
    CAUGHT(LLADD_SIM_O_WORKLOAD, "\"limits.plain\"", "lladd_log_credit");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("limits");
    TCase *t = tcase_create("limits");
    tcase_add_checked_fixture(t, begin, NULL);
    tcase_add_test(t, what_is_declared_is_enough);
    tcase_add_test(t, an_undo_log_max_that_is_too_small_is_measured);
    tcase_add_test(t, an_undo_pages_max_that_is_too_small_is_measured);
    tcase_add_test(t, a_wait_for_oneself_is_named);
    tcase_add_test(t, a_wait_for_what_is_in_doubt_is_named);
    tcase_add_test(t, log_space_that_was_not_asked_for_is_not_there);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
