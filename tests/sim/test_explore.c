/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recovery simulator. A correct workload passes in every explored crash state. If a workload or
 * the library is broken, the oracle that is meant for this mistake reports it. If the failure
 * belongs to one run, a token repeats it. Tokens that are not valid for the subject are refused
 * with a reason.
 */
#include "app_subject.h"
#include "verdicts.h"

#include <check.h>
#include <lladd/dst.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct text text;

/* ---- exploring --------------------------------------------------------------------------- */

static struct lladd_sim_report *explore(const struct lladd_sim_subject *s,
                                        const struct lladd_sim_bounds *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r = NULL;
    int rc = lladd_sim_explore(s, b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", s->name, err.message);
    return r;
}

/* ---- correct workloads pass -------------------------------------------------------------- */

/* The test explores so many states of each subject; each subject has at least as many.
 * sim/all_subjects explores more. */
#ifdef LL_TEST_SHORT
#define STATES 500
#define INSTANT_STATES 150
#else
#define STATES 2000
#define INSTANT_STATES 500
#endif

START_TEST(every_subject_recovers_from_every_crash)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 2;
    b.states = STATES;
    const struct lladd_sim_subject *s = lladd_sim_subjects()[_i];
    struct lladd_sim_report *r = explore(s, &b);
    if (r->n_failures)
        expect_passed(r);
    ck_assert_uint_ge(r->states, STATES);
    /* A low limit, because a recovery that writes images has many crash states, which use up the
     * bound. */
    ck_assert_uint_gt(r->depth_states[1], 3);
    ck_assert_uint_gt(r->depth_states[2], STATES / 6);
    ck_assert_uint_eq(r->depth_states[1] + r->depth_states[2], r->states);
    ck_assert_uint_gt(r->kill_states, STATES / 25);
#ifndef LL_TEST_SHORT /* few states may all be of the first crash points */
    ck_assert_uint_gt(r->worlds_seen, 10);
#endif
    lladd_sim_report_free(r);
}
END_TEST

/* The same exploration with instant recovery: databases open before their pages are redone, and
 * crash while redo is pending. A record that is older than an image of its page is not redone, so
 * some paths of redo need not run. */
START_TEST(every_subject_recovers_instantly)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 2;
    b.states = INSTANT_STATES;
    b.flags = LLADD_SIM_INSTANT | LLADD_SIM_NO_COVERAGE;
    struct lladd_sim_report *r = explore(lladd_sim_subjects()[_i], &b);
    if (r->n_failures)
        expect_passed(r);
    ck_assert_uint_ge(r->states, r->complete ? 300 : INSTANT_STATES);
    lladd_sim_report_free(r);
}
END_TEST

/* A database on a device that does not tear pages is recovered on a device that does, and the other
 * way round. The recording is rebuilt with the options of the workload (O7). Otherwise a database
 * with a small cache and without LLADD_OPT_ATOMIC_PAGES would log images of the pages that it
 * evicts after redo. */
START_TEST(options_change_between_runs)
{
    static const char *const names[] = {"counters", "records", "writeback.redo"};
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 3;
    b.states = STATES;
    b.flags = LLADD_SIM_ATOMIC_PAGES | LLADD_SIM_TURNS | LLADD_SIM_NO_COVERAGE |
              (_i % 2 ? LLADD_SIM_INSTANT : 0);
    struct lladd_sim_report *r = explore(lladd_sim_subject_find(names[_i / 2]), &b);
    if (r->n_failures)
        expect_passed(r);
    ck_assert_uint_gt(r->depth_states[3], STATES / 10);
    lladd_sim_report_free(r);
}
END_TEST

/* The process dies twice, and then the power fails. The name of a used segment comes back, although
 * a recovery had seen that the name was gone (ll_log__settle_names in log/directory.c). */
START_TEST(a_third_crash_finds_names_that_were_never_durable)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 3;
    b.states = 4000;
    b.flags = LLADD_SIM_NO_COVERAGE;
    struct lladd_sim_report *r = explore(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_eq(r->n_failures, 0);
    ck_assert_uint_eq(r->states, 4000);
    ck_assert_uint_gt(r->depth_states[3], 2000);
    ck_assert(!r->complete);
    lladd_sim_report_free(r);
}
END_TEST

/* An operation that is not one of the library's. */
START_TEST(a_stranger_s_operation_passes)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, APP_RIGHT);
    b.depth = 2;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    expect_passed(r);
    ck_assert(r->complete);
    bool met = false;
    for (uint32_t i = 0; i < r->n_coverage; i++) {
        const struct lladd_sim_coverage *c = &r->coverage[i];
        if (strcmp(c->op, "app.add") != 0)
            continue;
        met = true;
        ck_assert_uint_eq(c->runs, 3);
        for (unsigned p = 0; p <= LLADD_SIM_CRASH_1; p++)
            ck_assert_msg(c->paths[p] > 0, "%s", lladd_sim_path_name((enum lladd_sim_path)p));
        ck_assert_uint_eq(c->missing, 0);
    }
    ck_assert(met);
    lladd_sim_report_free(r);
}
END_TEST

/* A second exploration gives the same result. */
START_TEST(exploring_is_deterministic)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_sim_report *r[2];
    b.depth = 2;
    for (int i = 0; i < 2; i++)
        r[i] = explore(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_eq(r[0]->states, r[1]->states);
    ck_assert_uint_eq(r[0]->endings, r[1]->endings);
    ck_assert_uint_eq(r[0]->choices, r[1]->choices);
    lladd_sim_report_free(r[0]);
    lladd_sim_report_free(r[1]);
}
END_TEST

/* ---- the reduction ----------------------------------------------------------------------- */

static enum lladd_sim_oracle verdict(const struct lladd_sim_subject *s, uint32_t flags,
                                     uint64_t planted, uint64_t *states)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 1;
    b.flags = flags | LLADD_SIM_NO_COVERAGE;
    b.planted = planted;
    struct lladd_sim_report *r = explore(s, &b);
    enum lladd_sim_oracle o = r->n_failures ? r->failures->oracle : LLADD_SIM_O_NONE;
    *states = r->states;
    lladd_sim_report_free(r);
    return o;
}

#ifdef LL_TEST_SHORT
enum { BUGS_APART = 4 };
#else
enum { BUGS_APART = 1 };
#endif

/* The simulator varies the version of one page at a time. This gives the same verdict as all
 * combinations of versions, with and without planted bugs. The test uses atomic pages only: where
 * pages may tear, recovery fills them from images, so their versions on disk make no difference. */
START_TEST(the_reduction_and_the_full_product_agree)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    const uint32_t one = LLADD_SIM_ATOMIC_PAGES, all = one | LLADD_SIM_FULL_PRODUCT;
    uint64_t reduced, full;
    ck_assert_int_eq(verdict(s, one, 0, &reduced), LLADD_SIM_O_NONE);
    ck_assert_int_eq(verdict(s, all, 0, &full), LLADD_SIM_O_NONE);
    ck_assert_uint_gt(full, reduced);
    for (uint64_t bug = 0; bug < LLADD_BUGS; bug += BUGS_APART) {
        enum lladd_sim_oracle a = verdict(s, one, LLADD_BUG_MASK(bug), &reduced);
        enum lladd_sim_oracle b = verdict(s, all, LLADD_BUG_MASK(bug), &full);
        ck_assert_msg((a == LLADD_SIM_O_NONE) == (b == LLADD_SIM_O_NONE),
                      "bug %u: %s with the reduction, %s without", (unsigned)bug,
                      lladd_sim_oracle_name(a), lladd_sim_oracle_name(b));
    }
}
END_TEST

/* ---- bugs are caught --------------------------------------------------------------------- */

static const struct {
    enum app_fault fault;
    enum lladd_sim_oracle oracle;
    bool token;
} faults[] = {
    {APP_UNDO_WRITES_OLD, LLADD_SIM_O_LOST, true},  {APP_FORGETS_NOTE, LLADD_SIM_O_CONTENTS, true},
    {APP_CHECK_COMPLAINS, LLADD_SIM_O_CHECK, true}, {APP_LEAKS_PAGE, LLADD_SIM_O_LEAK, true},
    {APP_RANDOM, LLADD_SIM_O_DETERMINISM, false},   {APP_FAILS, LLADD_SIM_O_WORKLOAD, false},
    {APP_NEVER_RUN, LLADD_SIM_O_COVERAGE, false},   {APP_IMPURE, LLADD_SIM_O_DETERMINISM, false},
    {APP_LEAKS_MEMORY, LLADD_SIM_O_MEMORY, true},   {APP_LOOPS, LLADD_SIM_O_LOOP, false},
};

START_TEST(a_broken_subject_is_caught)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, faults[_i].fault);
    b.depth = 2;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    const struct lladd_sim_failure *f = expect_caught(r, faults[_i].oracle);
    ck_assert_int_eq(f->token[0] != '\0', faults[_i].token);
    if (faults[_i].token) {
        expect_again(&app.subject, NULL, f, &text);
        ck_assert_ptr_nonnull(strstr(text.bytes, "transaction 1: begin"));
        ck_assert_ptr_nonnull(strstr(text.bytes, "Crash 1, before call"));
        ck_assert_ptr_nonnull(strstr(text.bytes, "recovery: analysis"));
        ck_assert_ptr_nonnull(strstr(text.bytes, f->message));
    }
    lladd_sim_report_free(r);
}
END_TEST

/* A path that never runs is named, and can be excused by name with a reason. */
START_TEST(an_excuse_is_accepted)
{
    static const struct lladd_sim_excuse excuses[] = {
        {"app.add", 1u << LLADD_SIM_REDO_CLR, "all is committed"}, {NULL, 0, NULL}};
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, APP_NEVER_ABORTS);
    b.depth = 1;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    ck_assert_str_eq(expect_caught(r, LLADD_SIM_O_COVERAGE)->message,
                     "operation \"app.add\": never reached: redo-clr");
    lladd_sim_report_free(r);
    app.subject.excuses = excuses;
    r = explore(&app.subject, &b);
    expect_passed(r);
    ck_assert(r->complete);
    lladd_sim_report_free(r);
}
END_TEST

/* If an operation is never undone, its undo cannot run, and the coverage does not require it. */
START_TEST(what_cannot_happen_needs_no_excuse)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, APP_NO_UNDO);
    b.depth = 2;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    expect_passed(r);
    ck_assert(r->complete);
    lladd_sim_report_free(r);
}
END_TEST

/* The library's own operations count only in subjects that name them. */
static int run_with_a_page(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                           struct lladd_error *err)
{
    struct app *app = ctx;
    struct lladd_txn *txn;
    lladd_pageno page;
    int rc = lladd_sim_begin(sim, db, NULL, &txn, err);
    if (!rc)
        rc = lladd_page_alloc(txn, &page);
    if (!rc)
        rc = lladd_sim_commit(sim, txn);
    return rc ? rc : app->run(ctx, sim, db, err);
}

START_TEST(operations_of_the_library_need_no_excuse)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, APP_RIGHT);
    app.subject.run = run_with_a_page;
    app.subject.pages = NULL;
    app.subject.operations = NULL;
    b.depth = 1;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    expect_passed(r);
    ck_assert(r->complete);
    uint64_t missed = 0;
    for (uint32_t i = 0; i < r->n_coverage; i++)
        missed += strcmp(r->coverage[i].op, "lladd.map.take") == 0 && r->coverage[i].runs > 0 &&
                  r->coverage[i].paths[LLADD_SIM_REDO_CLR] == 0;
    ck_assert_uint_eq(missed, 1);
    lladd_sim_report_free(r);
    app_init(&app, APP_NEVER_ABORTS);
    app.subject.operations = NULL;
    r = explore(&app.subject, &b);
    expect_caught(r, LLADD_SIM_O_COVERAGE);
    lladd_sim_report_free(r);
}
END_TEST

START_TEST(what_goes_on_for_ever_is_stopped)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.calls_max = 155; /* enough for the setup, not for a run */
    struct lladd_sim_report *r = explore(lladd_sim_subject_find("counters"), &b);
    expect_caught(r, LLADD_SIM_O_LOOP);
    ck_assert(!r->complete);
    lladd_sim_report_free(r);
}
END_TEST

START_TEST(bounds_are_kept)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.flags = LLADD_SIM_NO_KILL;
    b.states = 100;
    struct lladd_sim_report *r = explore(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_eq(r->states, 100);
    ck_assert_uint_eq(r->kill_states, 0);
    ck_assert(!r->complete);
    ck_assert_uint_eq(r->n_failures, 0); /* an exploration that is cut off does not report missing
                                          * coverage */
    lladd_sim_report_free(r);
    b.flags = LLADD_SIM_NO_POWER | LLADD_SIM_NO_COVERAGE;
    b.states = 0;
    b.depth = 1;
    r = explore(lladd_sim_subject_find("counters"), &b);
    ck_assert_uint_eq(r->kill_states, r->states);
    ck_assert_uint_le(r->states, r->calls + 1);
    ck_assert(r->complete);
    lladd_sim_report_free(r);
}
END_TEST

START_TEST(misuse_by_the_workload_is_an_error)
{
    struct app app;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    app_init(&app, APP_LOOSE);
    ck_assert_int_eq(lladd_sim_explore(&app.subject, NULL, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_null(r);
    ck_assert_str_ne(err.message, "");
}
END_TEST

START_TEST(bad_subjects_and_bounds_are_refused)
{
    struct app app;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_sim_report *r;
    app_init(&app, APP_RIGHT);
    b.depth = LLADD_SIM_DEPTH_MAX + 1;
    ck_assert_int_eq(lladd_sim_explore(&app.subject, &b, &r, &err), LLADD_BAD_ARGUMENT);
    b.depth = 1;
    b.flags = 1u << 31;
    ck_assert_int_eq(lladd_sim_explore(&app.subject, &b, &r, &err), LLADD_BAD_ARGUMENT);
    b.flags = 0;
    app.subject.run = NULL;
    ck_assert_int_eq(lladd_sim_explore(&app.subject, &b, &r, &err), LLADD_BAD_ARGUMENT);
    app_init(&app, APP_RIGHT);
    app.subject.model_dump = NULL;
    ck_assert_int_eq(lladd_sim_explore(&app.subject, &b, &r, &err), LLADD_BAD_ARGUMENT);
    app.subject.struct_size = 3;
    ck_assert_int_eq(lladd_sim_explore(&app.subject, &b, &r, &err), LLADD_BAD_ARGUMENT);
}
END_TEST

/* ---- shrinking --------------------------------------------------------------------------- */

static unsigned times(const char *what)
{
    unsigned n = 0;
    for (const char *at = text.bytes; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* A failure that was made smaller has only the crashes that it needs, and almost none of the writes
 * that were pending at these crashes survive. */
START_TEST(a_failure_is_made_smaller)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("records");
    struct app app;
    app_init(&app, APP_UNDO_WRITES_OLD);
    struct lladd_sim_report *r = explore(&app.subject, &b);
    expect_again(&app.subject, &b, expect_caught(r, LLADD_SIM_O_LOST), &text);
    ck_assert_uint_eq(r->failures->depth, 1);
    ck_assert_uint_eq(times("Crash "), 1);
    ck_assert_uint_eq(times("survived: "), 0);
    lladd_sim_report_free(r);
    /* Redo without compensation records. The failure that is found needs a second crash, because
     * the recovery from the first one has logged these records. */
    b.planted = UINT64_C(1) << LLADD_BUG_REDO_CLR;
    b.depth = 2;
    r = explore(s, &b);
    expect_again(s, &b, expect_caught(r, LLADD_SIM_O_CONTENTS), &text);
    ck_assert_uint_eq(r->failures->depth, 2);
    ck_assert_uint_eq(times("Crash "), r->failures->depth);
    ck_assert_uint_le(times("survived: "), 2);
    lladd_sim_report_free(r);
}
END_TEST

/* An undo may have caused wrong contents, so the undos of the recovery are named. */
START_TEST(wrong_contents_name_what_was_undone)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    b.planted = UINT64_C(1) << LLADD_BUG_UNDO_NEXT;
    b.depth = 2;
    struct lladd_sim_report *r = explore(s, &b);
    expect_again(s, &b, expect_caught(r, LLADD_SIM_O_CONTENTS), &text);
    ck_assert_ptr_nonnull(strstr(r->failures->message, "; undone: lladd.counter.add"));
    lladd_sim_report_free(r);
}
END_TEST

/* What the bounds exclude, the reduction of a failure excludes, too. */
START_TEST(a_smaller_failure_keeps_to_the_bounds)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, APP_UNDO_WRITES_OLD);
    b.flags = LLADD_SIM_NO_POWER;
    struct lladd_sim_report *r = explore(&app.subject, &b);
    expect_again(&app.subject, NULL, expect_caught(r, LLADD_SIM_O_LOST), &text);
    ck_assert_uint_eq(times("power fails"), 0);
    ck_assert_uint_gt(times("the process dies"), 0);
    lladd_sim_report_free(r);
}
END_TEST

/* ---- bounds ------------------------------------------------------------------------------ */

/* The simulator checks the time limit even while it finds nothing new, and during long rows of
 * states. */
START_TEST(time_is_a_bound)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = LLADD_SIM_DEPTH_MAX;
    b.milliseconds = 50;
    struct lladd_sim_report *r = explore(lladd_sim_subject_find("groups"), &b);
    ck_assert_uint_eq(r->n_failures, 0);
    ck_assert(!r->complete);
    ck_assert_uint_ge(r->nanoseconds, 50000000);
    lladd_sim_report_free(r);
}
END_TEST

/* ---- tokens ------------------------------------------------------------------------------ */

static void refused(const struct lladd_sim_subject *s, const char *token, const char *why)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    ck_assert_int_eq(lladd_sim_replay(s, NULL, token, NULL, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_null(r);
    ck_assert_msg(strstr(err.message, why) != NULL, "\"%s\": %s", token, err.message);
}

START_TEST(a_token_that_is_none_is_refused)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    char token[LLADD_SIM_TOKEN_MAX + 1], longer[LLADD_SIM_TOKEN_MAX + 2];
    app_init(&app, APP_UNDO_WRITES_OLD);
    struct lladd_sim_report *r = explore(&app.subject, &b);
    memcpy(token, expect_caught(r, LLADD_SIM_O_LOST)->token, sizeof token);
    lladd_sim_report_free(r);

    refused(lladd_sim_subject_find("counters"), token, "not of subject");
    /* The same name with another workload. */
    struct app right;
    app_init(&right, APP_NO_UNDO);
    refused(&right.subject, token, "another version");
    refused(&app.subject, "", "cut off");
    refused(&app.subject, "AQ", "cut off");
    refused(&app.subject, "what is this?", "character 5");
    memset(longer, 'A', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    refused(&app.subject, longer, "at most 64");
    /* Every letter counts. */
    for (size_t i = 0; i < strlen(token); i++) {
        char damaged[LLADD_SIM_TOKEN_MAX + 1];
        memcpy(damaged, token, sizeof damaged);
        damaged[i] = damaged[i] == 'B' ? 'C' : 'B';
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_sim_report *none;
        ck_assert_int_eq(lladd_sim_replay(&app.subject, NULL, damaged, NULL, &none, &err),
                         LLADD_BAD_ARGUMENT);
    }
}
END_TEST

/* ---- reports ----------------------------------------------------------------------------- */

START_TEST(reports_say_what_was_seen)
{
    struct app app;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    app_init(&app, APP_UNDO_WRITES_OLD);
    struct lladd_sim_report *r = explore(&app.subject, &b);
    ck_assert_int_eq(lladd_sim_report_text(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "subject app: FAILED"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "O1 lost objects: the commit of transaction 1"));
    ck_assert_ptr_nonnull(strstr(text.bytes, r->failures->token));
    ck_assert_int_eq(lladd_sim_report_json(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "{\"subject\":\"app\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\"oracle\":\"O1 lost\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\"op\":\"app.add\""));
    ck_assert_ptr_eq(strchr(text.bytes, '\n'), text.bytes + text.len - 1);
    lladd_sim_report_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("explore");
    TCase *tc = tcase_create("all");
    int subjects = 0;
    while (lladd_sim_subjects()[subjects])
        subjects++;
    tcase_add_loop_test(tc, every_subject_recovers_from_every_crash, 0, subjects);
    tcase_add_loop_test(tc, every_subject_recovers_instantly, 0, subjects);
    tcase_add_test(tc, a_third_crash_finds_names_that_were_never_durable);
    tcase_add_loop_test(tc, options_change_between_runs, 0, 6);
    tcase_add_test(tc, a_stranger_s_operation_passes);
    tcase_add_test(tc, exploring_is_deterministic);
    tcase_add_test(tc, the_reduction_and_the_full_product_agree);
    tcase_add_loop_test(tc, a_broken_subject_is_caught, 0, sizeof faults / sizeof *faults);
    tcase_add_test(tc, what_goes_on_for_ever_is_stopped);
    tcase_add_test(tc, a_failure_is_made_smaller);
    tcase_add_test(tc, wrong_contents_name_what_was_undone);
    tcase_add_test(tc, a_smaller_failure_keeps_to_the_bounds);
    tcase_add_test(tc, time_is_a_bound);
    tcase_add_test(tc, bounds_are_kept);
    tcase_add_test(tc, misuse_by_the_workload_is_an_error);
    tcase_add_test(tc, bad_subjects_and_bounds_are_refused);
    tcase_add_test(tc, a_token_that_is_none_is_refused);
    tcase_add_test(tc, reports_say_what_was_seen);
    TCase *coverage = tcase_create("coverage");
    tcase_add_test(coverage, an_excuse_is_accepted);
    tcase_add_test(coverage, what_cannot_happen_needs_no_excuse);
    tcase_add_test(coverage, operations_of_the_library_need_no_excuse);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, coverage);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
