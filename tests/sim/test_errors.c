/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call fails in turn, either once or for ever. A correct workload survives each failure. If a
 * library ignores an error, or makes promises after an error, the oracle O8 reports it, and the
 * token repeats the failure.
 */
#include "app_subject.h"
#include "verdicts.h"

#include <check.h>
#include <lladd/dst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct text text;

/* ---- running ----------------------------------------------------------------------------- */

static struct lladd_sim_errors_report *errors(const struct lladd_sim_subject *s,
                                              const struct lladd_sim_bounds *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_errors_report *r = NULL;
    int rc = lladd_sim_errors(s, b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", s->name, err.message);
    return r;
}

/* The token repeats the failure, and its history shows where the fault was. */
static void expect_told(const struct lladd_sim_subject *s, const struct lladd_sim_bounds *b,
                        const struct lladd_sim_failure *f)
{
    expect_again(s, b, f, &text);
    ck_assert_ptr_nonnull(strstr(text.bytes, "FAULT: "));
    ck_assert_ptr_nonnull(strstr(text.bytes, f->message));
}

/* ---- correct workloads pass -------------------------------------------------------------- */

/* Every sixth call fails. Under a sanitizer, which only looks for memory errors, it is every
 * thirtieth. The nightly run (sim/errors_deep) tries each call, as far as its time allows. */
#ifdef LL_TEST_SHORT
#define EVERY 30
#else
#define EVERY 6
#endif

START_TEST(every_subject_survives_errors)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.points = 3;
    b.every = EVERY;
    struct lladd_sim_errors_report *r = errors(lladd_sim_subjects()[_i], &b);
    expect_passed(r);
    ck_assert(r->complete);
    ck_assert_uint_gt(r->points, 0);
    ck_assert_uint_gt(r->runs, 1800 / EVERY);
    ck_assert_uint_gt(r->states, 1200 / EVERY);
    for (unsigned k = 0; k < LLADD_SIM_FAULTS; k++) {
        const struct lladd_sim_fault_counts *c = &r->faults[k];
        ck_assert_int_eq(c->once > 0, c->chances > 0);
        ck_assert_uint_eq(c->returned + c->absorbed, c->once + c->for_ever);
        ck_assert(!c->hole);
    }
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(every_call_fails)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.points = 2;
    struct lladd_sim_errors_report *r = errors(lladd_sim_subject_find("counters"), &b);
    expect_passed(r);
    ck_assert(r->complete);
    ck_assert_uint_eq(r->points, 2);
    for (unsigned k = 0; k < LLADD_SIM_FAULTS; k++)
        ck_assert_uint_eq(r->faults[k].once, r->faults[k].chances);
    /* Faults that must not poison, and faults that must. */
    ck_assert_uint_eq(r->faults[LLADD_SIM_FAULT_MEMORY].poisoned, 0);
    ck_assert_uint_eq(r->faults[LLADD_SIM_FAULT_SPACE].poisoned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_SYNC].poisoned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_SYNC].recovery, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_SYNC].close, 0);
    ck_assert_uint_eq(r->faults[LLADD_SIM_FAULT_SYNC_ELSEWHERE].returned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_SYNC_LATE].returned, 0);
    /* Calls that creation makes. */
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_MKDIR].returned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_UNLINK].returned, 0);
    lladd_sim_errors_free(r);
}
END_TEST

/* An operation that is not one of the library's. */
START_TEST(a_stranger_s_operation_passes)
{
    struct app app;
    app_init(&app, APP_RIGHT);
    struct lladd_sim_errors_report *r = errors(&app.subject, NULL);
    expect_passed(r);
    ck_assert(r->complete);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_MEMORY].once, 20);
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(the_same_again_is_the_same)
{
    struct lladd_sim_errors_report *r[2];
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.every = 3;
    for (int i = 0; i < 2; i++)
        r[i] = errors(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_eq(r[0]->runs, r[1]->runs);
    ck_assert_uint_eq(r[0]->states, r[1]->states);
    ck_assert_int_eq(memcmp(r[0]->faults, r[1]->faults, sizeof r[0]->faults), 0);
    lladd_sim_errors_free(r[0]);
    lladd_sim_errors_free(r[1]);
}
END_TEST

/* ---- bugs are caught --------------------------------------------------------------------- */

/* Whatever the kind of the sync that fails, the planted bug shows. */
static const enum lladd_sim_fault syncs[] = {LLADD_SIM_FAULT_SYNC, LLADD_SIM_FAULT_SYNC_LOST,
                                             LLADD_SIM_FAULT_SYNC_REVERTED};

START_TEST(every_failing_sync_must_be_noticed)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    char begin[40];
    b.planted = UINT64_C(1) << LLADD_BUG_PAGE_SYNC_ERROR;
    b.failures = UINT32_MAX;
    struct lladd_sim_errors_report *r = errors(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_gt(r->n_failures, 3);
    snprintf(begin, sizeof begin, "%s (once)", lladd_sim_fault_name(syncs[_i]));
    bool met = false;
    for (uint32_t i = 0; i < r->n_failures; i++)
        met |= r->failures[i].oracle == LLADD_SIM_O_ERRORS &&
               strncmp(r->failures[i].message, begin, strlen(begin)) == 0;
    ck_assert(met);
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(a_workload_that_ignores_an_error_is_caught)
{
    struct app app;
    app_init(&app, APP_IGNORES);
    struct lladd_sim_errors_report *r = errors(&app.subject, NULL);
    const struct lladd_sim_failure *f = expect_caught(r, LLADD_SIM_O_ERRORS);
    ck_assert_ptr_nonnull(strstr(f->message, "the workload returned 0 although the commit of "
                                             "transaction 1 had returned "));
    expect_told(&app.subject, NULL, f);
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(a_workload_that_fails_by_itself_is_told)
{
    struct app app;
    app_init(&app, APP_FAILS);
    struct lladd_sim_errors_report *r = errors(&app.subject, NULL);
    (void)expect_caught(r, LLADD_SIM_O_WORKLOAD);
    ck_assert(!r->complete);
    lladd_sim_errors_free(r);
}
END_TEST

/* ---- bounds, tokens, reports ------------------------------------------------------------- */

START_TEST(bounds_are_kept)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    b.states = 50;
    b.points = 1;
    struct lladd_sim_errors_report *r = errors(s, &b);
    ck_assert_uint_eq(r->points, 1);
    ck_assert_uint_ge(r->states, 50);
    ck_assert_uint_lt(r->states, 60);
    ck_assert(!r->complete);
    ck_assert_uint_eq(r->n_failures, 0);
    lladd_sim_errors_free(r);
}
END_TEST

/* The kind is a part of the token, so a token with another kind is refused as damaged. */
START_TEST(tokens_of_errors_are_checked)
{
    struct app app;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *again;
    char token[LLADD_SIM_TOKEN_MAX + 1];
    app_init(&app, APP_IGNORES);
    struct lladd_sim_errors_report *r = errors(&app.subject, NULL);
    strcpy(token, r->failures->token);
    token[0] = 'A'; /* the first bits of the token are its kind */
    ck_assert_int_eq(lladd_sim_replay(&app.subject, NULL, token, NULL, &again, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_ptr_null(again);
    ck_assert_ptr_nonnull(strstr(err.message, "damaged"));
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(reports_say_what_failed)
{
    struct app app;
    app_init(&app, APP_IGNORES);
    struct lladd_sim_errors_report *r = errors(&app.subject, NULL);
    ck_assert_int_eq(lladd_sim_errors_text(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "errors in subject app: FAILED"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "O8 errors objects: "));
    ck_assert_ptr_nonnull(strstr(text.bytes, r->failures->token));
    ck_assert_int_eq(lladd_sim_errors_json(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "{\"mode\":\"errors\",\"subject\":\"app\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "{\"fault\":\"sync-reverted\",\"chances\":"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\"oracle\":\"O8 errors\""));
    ck_assert_ptr_eq(strchr(text.bytes, '\n'), text.bytes + text.len - 1);
    lladd_sim_errors_free(r);
    app_init(&app, APP_RIGHT);
    r = errors(&app.subject, NULL);
    ck_assert_int_eq(lladd_sim_errors_text(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "errors in subject app: passed\n"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "never possible: append"));
    lladd_sim_errors_free(r);
}
END_TEST

/* The time limit also ends the choice of recoveries, before the first fault. */
START_TEST(time_is_a_bound)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.milliseconds = 1;
    struct lladd_sim_errors_report *r = errors(lladd_sim_subject_find("groups"), &b);
    expect_passed(r);
    ck_assert(!r->complete);
    ck_assert_uint_eq(r->runs, 0);
    lladd_sim_errors_free(r);
}
END_TEST

START_TEST(faults_have_names_of_their_own)
{
    for (unsigned i = 0; i < LLADD_SIM_FAULTS; i++)
        for (unsigned k = 0; k < i; k++)
            ck_assert_str_ne(lladd_sim_fault_name((enum lladd_sim_fault)i),
                             lladd_sim_fault_name((enum lladd_sim_fault)k));
    ck_assert_str_eq(lladd_sim_fault_name(LLADD_SIM_FAULTS), "?");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("errors");
    TCase *tc = tcase_create("all");
    int subjects = 0;
    while (lladd_sim_subjects()[subjects])
        subjects++;
    tcase_add_loop_test(tc, every_subject_survives_errors, 0, subjects);
    tcase_add_test(tc, every_call_fails);
    tcase_add_test(tc, a_stranger_s_operation_passes);
    tcase_add_test(tc, the_same_again_is_the_same);
    tcase_add_loop_test(tc, every_failing_sync_must_be_noticed, 0, sizeof syncs / sizeof *syncs);
    tcase_add_test(tc, a_workload_that_ignores_an_error_is_caught);
    tcase_add_test(tc, a_workload_that_fails_by_itself_is_told);
    tcase_add_test(tc, bounds_are_kept);
    tcase_add_test(tc, time_is_a_bound);
    tcase_add_test(tc, tokens_of_errors_are_checked);
    tcase_add_test(tc, reports_say_what_failed);
    tcase_add_test(tc, faults_have_names_of_their_own);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
