/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While the simulator records a workload, it checks two promises on which it relies. Redo and undo
 * access only their page and the bytes of the record (O18). From an old copy of the pages, the log
 * gives the same pages again (O7). Each operation here breaks one of these promises in a way that
 * the workload itself does not notice. The report names the operation.
 */
#include "app_subject.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER_PAGE = 0 }; /* the root page */

/* State outside of pages and records. The operations of this test use it, which operations must not
 * do. */
static const unsigned char *remembered; /* bytes of a page while it was fixed */
static unsigned char *own;              /* bytes of the app's own page */
static uint64_t epoch;                  /* 1 in the workload, 0 elsewhere */

static struct app app;
static int (*app_run)(void *, struct lladd_sim *, struct lladd_db *, struct lladd_error *);

static void right(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) + lladd_get64(bytes.data));
}

static void right_undo(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *body = lladd_page_body(page);
    lladd_put64(body, lladd_get64(body) - lladd_get64(bytes.data));
}

/* ---- running ----------------------------------------------------------------------------- */

static struct lladd_sim_report *explore(void)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r = NULL;
    b.depth = 1;
    int rc = lladd_sim_explore(&app.subject, &b, &r, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    return r;
}

/* Asserts that the violation's message contains all of these texts. */
static void expect_caught(enum lladd_sim_oracle oracle, const char *const *says)
{
    struct lladd_sim_report *r = explore();
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_msg(r->failures->oracle == oracle, "%s instead of %s: %s",
                  lladd_sim_oracle_name(r->failures->oracle), lladd_sim_oracle_name(oracle),
                  r->failures->message);
    for (; *says; says++)
        ck_assert_msg(strstr(r->failures->message, *says) != NULL, "no \"%s\" in \"%s\"", *says,
                      r->failures->message);
    ck_assert_uint_eq(r->states, 0); /* nothing was explored after the violation */
    ck_assert(!r->complete);
    lladd_sim_report_free(r);
}

#define EXPECT_CAUGHT(oracle, ...) expect_caught(oracle, (const char *const[]){__VA_ARGS__, NULL})

static int find(struct lladd_db *db, uint64_t number, unsigned char **bytes,
                struct lladd_error *err)
{
    struct lladd_page *page;
    int rc = lladd_page_fix(db, lladd_page_of(number), LLADD_LATCH_SHARED, &page, err);
    if (rc)
        return rc;
    *bytes = page->bytes;
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Remembers where pages are in memory, and goes on. */
static int run_and_remember(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                            struct lladd_error *err)
{
    struct lladd_root_value v;
    unsigned char *other = NULL;
    int rc = lladd_root_get(db, "app", &v, err);
    if (!rc)
        rc = find(db, v.a, &own, err);
    if (!rc)
        rc = find(db, OTHER_PAGE, &other, err);
    remembered = other;
    epoch = 1;
    rc = rc ? rc : app_run(ctx, sim, db, err);
    epoch = 0;
    return rc;
}

static void setup(void)
{
    app_init(&app, APP_RIGHT);
    app_run = app.subject.run;
    app.subject.run = run_and_remember;
    remembered = NULL;
    own = NULL;
}

/* ---- correct workloads pass -------------------------------------------------------------- */

START_TEST(one_page_and_its_bytes_are_enough)
{
    struct lladd_sim_report *r = explore();
    ck_assert_uint_eq(r->n_failures, 0);
    ck_assert(r->complete);
    ck_assert_uint_gt(r->states, 100);
    lladd_sim_report_free(r);
}
END_TEST

/* ---- more than one page (O18) ------------------------------------------------------------ */

static void redo_reads_another(struct lladd_page *page, struct lladd_span bytes)
{
    if (epoch && remembered[100] == 0xa5)
        return;
    right(page, bytes);
}

START_TEST(redo_that_reads_another_page_is_caught)
{
    app.op.redo = redo_reads_another;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "redo of \"app.add\"", "touches page 0, byte 100");
}
END_TEST

/* Writes to the frame of page 0, but only while the workload runs. */
static void redo_writes_another(struct lladd_page *page, struct lladd_span bytes)
{
    unsigned char *other = (unsigned char *)(uintptr_t)remembered;
    if (epoch)
        other[4000] = other[4001];
    right(page, bytes);
}

START_TEST(redo_that_writes_another_page_is_caught)
{
    app.op.redo = redo_writes_another;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "redo of \"app.add\"", "touches page 0, byte 400");
}
END_TEST

static void redo_knows_its_frame(struct lladd_page *page, struct lladd_span bytes)
{
    if (epoch && own[200] == 0xa5)
        return;
    right(page, bytes);
}

START_TEST(redo_that_remembers_where_its_page_was_is_caught)
{
    app.op.redo = redo_knows_its_frame;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "redo of \"app.add\"", "byte 200",
                  "not through the pointer");
}
END_TEST

/* The simulator checks the undo of an update even if the update is not undone, because a crash
 * might undo it. */
static void undo_reads_another(struct lladd_page *page, struct lladd_span bytes)
{
    if (epoch && lladd_get64(bytes.data) == 5 && remembered[101] == 0xa5)
        return;
    right_undo(page, bytes);
}

START_TEST(undo_of_what_commits_is_looked_at_too)
{
    app.op.undo = undo_reads_another;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "undo of \"app.add\"", "touches page 0, byte 101");
}
END_TEST

static bool validate_reads_another(struct lladd_view page, enum lladd_span_kind kind,
                                   struct lladd_span bytes)
{
    (void)page;
    (void)kind;
    return bytes.len == 8 && !(epoch && remembered[102] == 0xa5);
}

START_TEST(validate_that_reads_another_page_is_caught)
{
    app.op.validate = validate_reads_another;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "validate of \"app.add\"", "touches page 0, byte 102");
}
END_TEST

/* The address sanitizer reports it first. */
#if !defined(__SANITIZE_ADDRESS__)
static void redo_reads_too_far(struct lladd_page *page, struct lladd_span bytes)
{
    const volatile unsigned char *p = bytes.data;
    if (epoch && p[bytes.len] == p[bytes.len + 1]) /* in the log other bytes follow the record */
        right(page, bytes);
    else
        right(page, bytes);
}

START_TEST(redo_that_reads_beyond_its_bytes_is_caught)
{
    app.op.redo = redo_reads_too_far;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "redo of \"app.add\"", "byte 8 of its 8 bytes");
}
END_TEST
#endif

static int scribble(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value v;
    struct lladd_page *page;
    int rc = lladd_root_get(db, "app", &v, err);
    if (!rc)
        rc = lladd_page_fix(db, lladd_page_of(v.a), LLADD_LATCH_EXCLUSIVE, &page, err);
    if (rc)
        return rc;
    page->bytes[300] ^= 1; /* a change of one bit */
    lladd_page_unfix(db, page, LLADD_LATCH_EXCLUSIVE);
    return 0;
}

static int run_and_scribble_between(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                                    struct lladd_error *err)
{
    int rc = app_run(ctx, sim, db, err);
    if (!rc)
        rc = scribble(db, err);
    return rc ? rc : app_run(ctx, sim, db, err);
}

START_TEST(a_page_that_changes_between_two_redos_is_caught)
{
    app.subject.run = run_and_scribble_between;
    EXPECT_CAUGHT(LLADD_SIM_O_ONE_PAGE, "outside of redo and undo", "byte 300", "\"app.add\"");
}
END_TEST

/* ---- more than the log (O7) -------------------------------------------------------------- */

static int run_and_scribble(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                            struct lladd_error *err)
{
    int rc = app_run(ctx, sim, db, err);
    return rc ? rc : scribble(db, err);
}

START_TEST(a_page_that_changes_without_a_record_is_caught)
{
    app.subject.run = run_and_scribble;
    EXPECT_CAUGHT(LLADD_SIM_O_REBUILD, "made of a copy and the log", "byte 300", "\"app.add\"");
}
END_TEST

static void redo_knows_when_it_runs(struct lladd_page *page, struct lladd_span bytes)
{
    right(page, bytes);
    lladd_page_body(page)[8] = (unsigned char)epoch;
}

START_TEST(redo_that_depends_on_more_than_its_page_is_caught)
{
    app.op.redo = redo_knows_when_it_runs;
    app.op.undo_kind = LLADD_UNDO_NONE; /* an undo would not restore the byte that redo changes */
    app.op.undo = NULL;
    app.subject.model_size = 0;
    EXPECT_CAUGHT(LLADD_SIM_O_REBUILD, "redo of \"app.add\"", "LSN",
                  "byte 40 is 0x00, and was 0x01");
}
END_TEST

static void undo_knows_when_it_runs(struct lladd_page *page, struct lladd_span bytes)
{
    right_undo(page, bytes);
    if (!epoch)
        lladd_page_body(page)[9] ^= 1;
}

START_TEST(undo_that_depends_on_more_than_its_page_is_caught)
{
    app.op.undo = undo_knows_when_it_runs;
    EXPECT_CAUGHT(LLADD_SIM_O_REBUILD, "undo of \"app.add\"", "byte 41 is 0x01, and was 0x00");
}
END_TEST

/* ---- the other ways to explore ----------------------------------------------------------- */

START_TEST(errors_and_random_workloads_are_recorded_under_guard_too)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_errors_report *e = NULL;
    struct lladd_sim_random_report *r = NULL;
    app.op.redo = redo_reads_another;
    ck_assert_int_eq(lladd_sim_errors(&app.subject, &b, &e, &err), 0);
    ck_assert_uint_eq(e->n_failures, 1);
    ck_assert_int_eq(e->failures->oracle, LLADD_SIM_O_ONE_PAGE);
    lladd_sim_errors_free(e);
    ck_assert_int_eq(lladd_sim_random(&app.subject, &b, &r, &err), 0);
    ck_assert_uint_ge(r->n_failures, 1);
    ck_assert_int_eq(r->failures->oracle, LLADD_SIM_O_ONE_PAGE);
    lladd_sim_random_free(r);
}
END_TEST

/* Reports and programs identify a failure by the number of its oracle. */
START_TEST(each_oracle_has_a_number_of_its_own)
{
    ck_assert_str_eq(lladd_sim_oracle_name(LLADD_SIM_O_DEADLOCK), "O17 deadlock");
    ck_assert_str_eq(lladd_sim_oracle_name(LLADD_SIM_O_ONE_PAGE), "O18 one page");
    for (int a = 0; a < LLADD_SIM_ORACLES; a++)
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(lladd_sim_oracle_name((enum lladd_sim_oracle)a),
                             lladd_sim_oracle_name((enum lladd_sim_oracle)b));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("guard");
    TCase *t = tcase_create("guard");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, one_page_and_its_bytes_are_enough);
    tcase_add_test(t, redo_that_reads_another_page_is_caught);
    tcase_add_test(t, redo_that_writes_another_page_is_caught);
    tcase_add_test(t, redo_that_remembers_where_its_page_was_is_caught);
    tcase_add_test(t, undo_of_what_commits_is_looked_at_too);
    tcase_add_test(t, validate_that_reads_another_page_is_caught);
#if !defined(__SANITIZE_ADDRESS__)
    tcase_add_test(t, redo_that_reads_beyond_its_bytes_is_caught);
#endif
    tcase_add_test(t, a_page_that_changes_between_two_redos_is_caught);
    tcase_add_test(t, a_page_that_changes_without_a_record_is_caught);
    tcase_add_test(t, redo_that_depends_on_more_than_its_page_is_caught);
    tcase_add_test(t, undo_that_depends_on_more_than_its_page_is_caught);
    tcase_add_test(t, errors_and_random_workloads_are_recorded_under_guard_too);
    tcase_add_test(t, each_oracle_has_a_number_of_its_own);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
