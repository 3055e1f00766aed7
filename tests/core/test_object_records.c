/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Object records of classes that recovery redoes first, and log space that is reserved for an
 * object record.
 */
#include "db_fixture.h"

#include <lladd/bytes.h>
#include <lladd/sync.h>
#include <stddef.h>
#include <string.h>

static struct fixture r;

/* What recovery calls, in order: a letter for each redo, an upper-case letter for an undo, and a
 * star for each question about the durable LSN. */
static struct {
    char calls[64];
    size_t n;
} seen;

static void note(char c)
{
    if (seen.n + 1 < sizeof seen.calls)
        seen.calls[seen.n++] = c;
}

static lladd_lsn durable(void *ctx, struct lladd_db *db)
{
    (void)ctx, (void)db;
    note('*');
    return lladd_lsn_of(0);
}

static int redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                struct lladd_span bytes)
{
    (void)ctx, (void)db, (void)lsn, (void)object;
    note(*(const char *)bytes.data);
    return 0;
}

static int undo(void *ctx, struct lladd_db *db, struct lladd_txn *txn, lladd_lsn lsn,
                uint64_t object, struct lladd_span bytes)
{
    (void)ctx, (void)db, (void)txn, (void)lsn, (void)object;
    if (bytes.len)
        note((char)(*(const char *)bytes.data - 'a' + 'A'));
    return 0;
}

static const struct lladd_object_class rows = {.struct_size = sizeof rows,
                                               .name = "test.rows",
                                               .version = 1,
                                               .durable_lsn = durable,
                                               .redo = redo,
                                               .undo = undo};
static const struct lladd_object_class places = {.struct_size = sizeof places,
                                                 .name = "test.places",
                                                 .version = 1,
                                                 .redo = redo,
                                                 .first = true};

static void begin(unsigned kind)
{
    memset(&seen, 0, sizeof seen);
    fixture_init(&r, kind);
    ok_db(&r, lladd_register_class(&r.options, &rows, &r.err));
    ok_db(&r, lladd_register_class(&r.options, &places, &r.err));
    fixture_open(&r);
}

static void log_one(struct lladd_txn *txn, const struct lladd_object_class *c, const char *text)
{
    struct lladd_span s = lladd_span_of(text, 1), none = {NULL, 0};
    struct lladd_token token;
    ok(txn, lladd_log_object(txn, c, 1, s, c->undo ? s : none, &token, NULL));
    lladd_object_applied(txn, &token);
}

START_TEST(a_class_that_comes_first_is_redone_before_the_others)
{
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r), *loser = fixture_begin(&r);
    lladd_savepoint_id here;
    log_one(txn, &rows, "a");
    log_one(txn, &places, "p");
    ok(txn, lladd_savepoint(txn, &here));
    log_one(txn, &rows, "b");
    ok(txn, lladd_rollback_to(txn, here));
    log_one(loser, &rows, "c");
    log_one(loser, &places, "q"); /* redone though its transaction is lost */
    done(lladd_commit(txn));
    memset(&seen, 0, sizeof seen);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    seen.calls[12] = 0; /* later questions do not matter */
    const char *from = strchr(seen.calls, 'p');
    ck_assert_ptr_nonnull(from);
    ck_assert_ptr_eq(strchr(seen.calls, 'a'), strpbrk(seen.calls, "abcABC"));
    ck_assert_int_eq(strncmp(from, "pq*abBcC", 8), 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_class_that_comes_first_has_redo_and_no_undo)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_object_class c = places;
    c.undo = undo;
    ck_assert_int_eq(lladd_register_class(&o, &c, &err), LLADD_BAD_REGISTRATION);
    c.undo = NULL;
    c.redo = NULL;
    c.durable_lsn = durable;
    ck_assert_int_eq(lladd_register_class(&o, &c, &err), LLADD_BAD_REGISTRATION);
    c = places;
    c.undo = undo;
    c.struct_size = offsetof(struct lladd_object_class, first); /* as from an older header */
    ck_assert_int_eq(lladd_register_class(&o, &c, &err), 0);
    lladd_options_release(&o);
}
END_TEST

/* ---- space that is reserved ------------------------------------------------------------------ */

enum { LIMIT = 256 << 10, LONG = 3000 };

static unsigned char bytes[LONG];

/* It never lets the log be truncated. The background threads ask it, too, so it notes nothing. */
static lladd_lsn all_of_it(void *ctx, struct lladd_db *db)
{
    (void)ctx, (void)db;
    return lladd_lsn_of(0);
}

static const struct lladd_object_class hoard = {.struct_size = sizeof hoard,
                                                .name = "test.hoard",
                                                .version = 1,
                                                .durable_lsn = all_of_it,
                                                .redo = redo,
                                                .undo = undo};

/* Logs until the log is full. */
static void *fill(void *unused)
{
    struct lladd_txn *txn = fixture_begin(&r);
    struct lladd_span s = lladd_span_of(bytes, LONG);
    struct lladd_token token;
    int rc = 0;
    (void)unused;
    while (rc == 0) {
        rc = lladd_log_object_credit(txn, &hoard, LONG, 0);
        if (rc)
            break;
        ok(txn, lladd_log_object(txn, &hoard, 2, s, lladd_span_of(NULL, 0), &token, NULL));
        lladd_object_applied(txn, &token);
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    done(lladd_abort(txn));
    return NULL;
}

START_TEST(an_object_record_with_credit_does_not_wait_for_log)
{
    struct lladd_span s = lladd_span_of(bytes, LONG), none = {NULL, 0};
    struct lladd_thread thread;
    struct lladd_token token;
    memset(bytes, 'x', sizeof bytes);
    memset(&seen, 0, sizeof seen);
    fixture_init(&r, (unsigned)_i);
    r.options.log_limit_bytes = LIMIT;
    ok_db(&r, lladd_register_class(&r.options, &hoard, &r.err));
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_object_credit(txn, &hoard, LONG, LONG));
    ck_assert_int_eq(lladd_thread_start(&thread, fill, NULL), 0);
    lladd_thread_join(&thread);
    ok(txn, lladd_log_object(txn, &hoard, 3, s, s, &token, NULL));
    lladd_object_applied(txn, &token);
    seen.n = 0;
    done(lladd_abort(txn));
    ck_assert_int_eq(seen.calls[0], 'x' - 'a' + 'A');
    txn = fixture_begin(&r);
    refused(txn, LLADD_BAD_ARGUMENT, lladd_log_object_credit(txn, &places, 1, 0));
    refused(txn, LLADD_TOO_LARGE, lladd_log_object_credit(txn, &hoard, 1, SIZE_MAX));
    refused(txn, LLADD_TOO_LARGE, lladd_log_object(txn, &hoard, 1, lladd_span_of(bytes, 1 << 30),
                                                   none, &token, NULL));
    done(lladd_abort(txn));
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("object records");
    TCase *c = tcase_create("object records");
    tcase_add_loop_test(c, a_class_that_comes_first_is_redone_before_the_others, 0, FIXTURE_KINDS);
    tcase_add_test(c, a_class_that_comes_first_has_redo_and_no_undo);
    tcase_add_loop_test(c, an_object_record_with_credit_does_not_wait_for_log, 0, FIXTURE_KINDS);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
