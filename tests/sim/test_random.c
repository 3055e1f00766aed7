/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The random mode.
 * - A correct subject passes.
 * - A broken subject fails soon, and the token repeats the failure.
 * - Every fault that was possible has happened.
 * - The same seed gives the same run, and another seed gives another run.
 */
#include "app_subject.h"
#include "verdicts.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUBJECTS "small", "counters", "prepared", "records"

static struct text text;

static struct lladd_sim_random_report *at_random(const struct lladd_sim_subject *s,
                                                 const struct lladd_sim_bounds *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_random_report *r = NULL;
    int rc = lladd_sim_random(s, b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", s->name, err.message);
    return r;
}

static uint64_t fired(const struct lladd_sim_random_report *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_fired; i++)
        if (strcmp(r->fired[i].name, name) == 0)
            return r->fired[i].fired;
    ck_abort_msg("there is no fault \"%s\"", name);
}

/* ---- correct workloads pass -------------------------------------------------------------- */

static const char *const subjects[] = {SUBJECTS};

START_TEST(what_is_right_passes)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.states = 6000;
    struct lladd_sim_random_report *r = at_random(lladd_sim_subject_find(subjects[_i]), &b);
    expect_passed(r);
    ck_assert_uint_ge(r->states, b.states);
    ck_assert_uint_ge(r->workloads, 3);
    ck_assert_uint_gt(r->disturbed, 100);
    ck_assert_uint_gt(r->depth_states[3], 100);
    static const char *const faults[] = {"the process dies",
                                         "power fails",
                                         "a name is lost",
                                         "the log is cut",
                                         "recovery is crashed",
                                         "recovery is crashed again",
                                         "a write has not arrived",
                                         "an error in recovery",
                                         "a sync fails",
                                         "crash after a write of the log",
                                         "crash when a transaction commits"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        ck_assert_msg(fired(r, faults[i]) > 0, "%s: \"%s\" never happened", r->subject, faults[i]);
    lladd_sim_random_free(r);
}
END_TEST

START_TEST(a_seed_is_always_the_same)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_sim_random_report *r[3];
    b.states = 1000;
    for (int i = 0; i < 3; i++) {
        b.seed = i < 2 ? 5 : 6;
        r[i] = at_random(lladd_sim_subject_find("counters"), &b);
    }
    ck_assert_uint_eq(r[0]->calls, r[1]->calls);
    ck_assert_uint_eq(r[0]->runs, r[1]->runs);
    ck_assert_mem_eq(r[0]->depth_states, r[1]->depth_states, sizeof r[0]->depth_states);
    unsigned differ = 0;
    for (uint32_t i = 0; i < r[0]->n_fired; i++) {
        ck_assert_uint_eq(r[0]->fired[i].fired, r[1]->fired[i].fired);
        differ += r[0]->fired[i].fired != r[2]->fired[i].fired;
    }
    ck_assert_uint_gt(differ, 5);
    for (int i = 0; i < 3; i++)
        lladd_sim_random_free(r[i]);
}
END_TEST

/* ---- a workload that draws --------------------------------------------------------------- */

/* Runs the app's workload with drawn numbers, and notes the changes as the subject does. */
static int drawing_run(void *ctx, struct lladd_sim *sim, struct lladd_db *db,
                       struct lladd_error *err)
{
    struct app *app = ctx;
    for (uint64_t n = 1 + lladd_sim_random_u64(sim) % 20; n > 0; n--) {
        struct lladd_root_value v;
        struct lladd_txn *txn;
        unsigned char bytes[8];
        lladd_op_id op;
        int rc = lladd_root_get(db, "app", &v, err);
        if (!rc)
            rc = lladd_op_lookup(db, app->op.name, 1, &op);
        if (!rc)
            rc = lladd_sim_begin(sim, db, NULL, &txn, err);
        if (rc)
            return rc;
        lladd_put64(bytes, lladd_sim_random_u64(sim) % 1000);
        rc = lladd_update(txn, op, lladd_page_of(v.a), bytes, sizeof bytes);
        if (!rc)
            rc = lladd_sim_note(sim, txn, bytes, sizeof bytes);
        if (rc) {
            *err = *lladd_txn_error(txn);
            int aborted = lladd_sim_abort(sim, txn);
            return aborted ? aborted : rc;
        }
        bool commit = lladd_sim_random_u64(sim) % 4 != 0;
        rc = commit ? lladd_sim_commit(sim, txn) : lladd_sim_abort(sim, txn);
        if (rc)
            return rc;
    }
    return 0;
}

START_TEST(a_workload_may_draw)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, APP_RIGHT);
    app.subject.run = drawing_run;
    b.states = 3000;
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_msg(r->n_failures == 0, "%s, token %s", r->failures->message, r->failures->token);
    ck_assert_uint_gt(r->calls, 100);
    lladd_sim_random_free(r);
}
END_TEST

/* ---- bugs are caught --------------------------------------------------------------------- */

static const struct {
    enum app_fault fault;
    enum lladd_sim_oracle oracle;
} faults[] = {
    {APP_UNDO_WRITES_OLD, LLADD_SIM_O_CONTENTS},
    {APP_FORGETS_NOTE, LLADD_SIM_O_CONTENTS},
    {APP_CHECK_COMPLAINS, LLADD_SIM_O_CHECK},
    {APP_LEAKS_PAGE, LLADD_SIM_O_LEAK},
};

static void expect_told(const struct lladd_sim_subject *s, const struct lladd_sim_bounds *b,
                        const struct lladd_sim_failure *f)
{
    expect_again(s, b, f, &text);
    ck_assert_ptr_nonnull(strstr(text.bytes, "objects: "));
}

START_TEST(a_broken_operation_is_caught_within_1000_states)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, faults[_i].fault);
    b.states = 1000;
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_uint_eq(r->n_failures, 1);
    /* Wrong contents may equal the contents at another time, which is LLADD_SIM_O_LOST. */
    ck_assert_msg(
        r->failures->oracle == faults[_i].oracle ||
            (faults[_i].oracle == LLADD_SIM_O_CONTENTS && r->failures->oracle == LLADD_SIM_O_LOST),
        "%s: %s", lladd_sim_oracle_name(r->failures->oracle), r->failures->message);
    expect_told(&app.subject, NULL, r->failures);
    lladd_sim_random_free(r);
}
END_TEST

/* What the bounds exclude, the reduction of a failure excludes, too. */
START_TEST(a_token_keeps_the_bounds)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    b.planted = UINT64_C(1) << LLADD_BUG_CLR;
    b.flags = LLADD_SIM_NO_POWER;
    b.seed = 7;
    struct lladd_sim_random_report *r = at_random(s, &b);
    ck_assert_uint_eq(fired(r, "power fails"), 0);
    ck_assert_uint_eq(r->n_failures, 1);
    expect_told(s, &b, r->failures);
    ck_assert_ptr_null(strstr(text.bytes, "power fails"));
    lladd_sim_random_free(r);
}
END_TEST

/* ---- shrinking --------------------------------------------------------------------------- */

/* A subject in which dump number `slow_after` waits for `nanoseconds`. */
static struct {
    struct app app;
    int (*dump)(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
    uint64_t dumps, slow_after, nanoseconds, seed;
} slow;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int slow_dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    if (++slow.dumps == slow.slow_after) {
        uint64_t until = now_ns() + slow.nanoseconds;
        while (now_ns() < until) {
        }
    }
    return slow.dump(ctx, db, to, err);
}

/* Returns the number of dumps. */
static uint64_t slow_run(uint64_t states, uint64_t milliseconds, uint64_t slow_after,
                         struct lladd_sim_random_report **out)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    slow.dumps = 0;
    slow.slow_after = slow_after;
    slow.nanoseconds = milliseconds * 1000000;
    b.seed = slow.seed;
    b.states = states;
    b.milliseconds = milliseconds;
    *out = at_random(&slow.app.subject, &b);
    return slow.dumps;
}

/* Returns the number of dumps before a failure that is found within `states` states. A row of
 * crashes goes on beyond the bound, so this function lowers the bound until the failure is no
 * longer found. Returns 0 if the first row already has the failure. */
static uint64_t dumps_without_failure(uint64_t states)
{
    struct lladd_sim_random_report *r;
    while (--states > 0) {
        uint64_t dumps = slow_run(states, 0, 0, &r);
        bool fails = r->n_failures > 0;
        lladd_sim_random_free(r);
        if (!fails)
            return dumps;
    }
    return 0;
}

/* Lets one dump use up all the time. This dump is a quarter of the way from `found` to `all` dumps.
 * Doubles the time until the search finds the failure and reaches that dump. Returns the number of
 * dumps. */
static uint64_t slow_reduction(uint64_t found, uint64_t all)
{
    struct lladd_sim_random_report *r;
    uint64_t slow_after = found + (all - found) / 4, dumps = 0;
    bool in_time = false;
    for (uint64_t milliseconds = 500; !in_time; milliseconds *= 2) {
        dumps = slow_run(300, milliseconds, slow_after, &r);
        in_time = r->n_failures && dumps >= slow_after;
        if (in_time)
            expect_told(&slow.app.subject, NULL, r->failures);
        lladd_sim_random_free(r);
    }
    return dumps;
}

/* The reduction of a failure uses up the time. Few dumps follow, and the token is valid. With some
 * seeds the slow dump is in the search and not in the reduction; such a seed tests nothing, and the
 * next one is tried. */
START_TEST(reductions_end_in_time)
{
    struct lladd_sim_random_report *r;
    app_init(&slow.app, APP_UNDO_WRITES_OLD);
    slow.dump = slow.app.subject.dump;
    slow.app.subject.dump = slow_dump;
    uint64_t all = 0, found = 0, dumps = 0;
    for (slow.seed = 1; dumps == all; slow.seed++) {
        ck_assert_uint_lt(slow.seed, 100);
        all = slow_run(300, 0, 0, &r);
        uint64_t states = r->n_failures ? r->states : 1;
        lladd_sim_random_free(r);
        found = dumps_without_failure(states);
        dumps = found ? slow_reduction(found, all) : all;
    }
    ck_assert_uint_lt(dumps, found + (all - found) / 2);
}
END_TEST

/* The reduced failure needs one repetition, the subject's own sizes and one crash, and its token
 * says so. */
START_TEST(a_failure_is_made_smaller)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    b.planted = UINT64_C(1) << LLADD_BUG_LOSER;
    b.seed = 1 + (uint64_t)_i;
    struct lladd_sim_random_report *r = at_random(s, &b);
    ck_assert_uint_eq(r->n_failures, 1);
    expect_told(s, &b, r->failures);
    ck_assert_ptr_nonnull(strstr(text.bytes, "`run` 1 times, cache 262144, segments 8192, "));
    ck_assert_ptr_nonnull(strstr(text.bytes, "The workload of subject \"counters\":"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "recovery: analysis"));
    ck_assert_ptr_null(strstr(text.bytes, "An error in the recovery"));
    ck_assert_ptr_null(strstr(text.bytes, "Crash 2"));
    ck_assert_uint_eq(r->failures->depth, 1);
    lladd_sim_random_free(r);
}
END_TEST

/* Most tokens are a row of choices. An error in recovery cannot be such a choice. So the token of
 * such a failure has the numbers from which everything was drawn. */
START_TEST(what_is_no_row_of_choices_is_told_by_its_numbers)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    const struct lladd_sim_subject *s = lladd_sim_subject_find("counters");
    b.planted = UINT64_C(1) << LLADD_BUG_SYNC_AGAIN;
    unsigned found = 0;
    for (b.seed = 1; found < 3; b.seed++) { /* the layout of the log decides which seeds find the
                                             * bug */
        ck_assert_uint_le(b.seed, 100);
        struct lladd_sim_random_report *r = at_random(s, &b);
        if (r->n_failures) {
            expect_told(s, &b, r->failures);
            if (strstr(text.bytes, "An error in the recovery, in its call ")) {
                ck_assert_ptr_nonnull(strstr(text.bytes, "recovery: analysis"));
                ck_assert_ptr_nonnull(strstr(text.bytes, "The workload is crashed after call "));
                found++;
            }
        }
        lladd_sim_random_free(r);
    }
}
END_TEST

/* A token belongs to one version of the workload. */
START_TEST(a_token_of_another_workload_is_refused)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *again;
    struct app app, other;
    app_init(&app, APP_UNDO_WRITES_OLD);
    app_init(&other, APP_FORGETS_NOTE);
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_int_eq(lladd_sim_replay(&other.subject, NULL, r->failures->token, NULL, &again, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "another version"));
    lladd_sim_random_free(r);
}
END_TEST

/* A workload that always fails is never crashed. The search must end nevertheless. */
START_TEST(bounds_count_where_there_is_no_crash)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, APP_FAILS);
    b.states = 30;
    b.failures = UINT32_MAX;
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_uint_eq(r->states, 0);
    ck_assert_uint_le(r->workloads, 31);
    ck_assert_uint_ge(r->n_failures, 1);
    ck_assert_int_eq(r->failures->oracle, LLADD_SIM_O_WORKLOAD);
    lladd_sim_random_free(r);
}
END_TEST

/* After they were made smaller, many failures are the same. */
START_TEST(the_same_failure_is_told_once)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, APP_UNDO_WRITES_OLD);
    b.failures = 20;
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_uint_ge(r->n_failures, 1);
    ck_assert_uint_lt(r->n_failures, 20);
    for (uint32_t i = 0; i < r->n_failures; i++)
        for (uint32_t k = 0; k < i; k++)
            ck_assert_str_ne(r->failures[i].token, r->failures[k].token);
    lladd_sim_random_free(r);
}
END_TEST

START_TEST(a_token_of_no_sense_is_refused)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *again;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct app app;
    app_init(&app, APP_CHECK_COMPLAINS);
    b.states = 1000;
    struct lladd_sim_random_report *r = at_random(&app.subject, &b);
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_int_eq(lladd_sim_replay(lladd_sim_subject_find("small"), NULL, r->failures->token,
                                      NULL, &again, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "not of subject \"small\""));
    lladd_sim_random_free(r);
}
END_TEST

/* ---- texts ------------------------------------------------------------------------------- */

START_TEST(the_report_in_words)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.states = 500;
    struct lladd_sim_random_report *r = at_random(lladd_sim_subject_find("small"), &b);
    ck_assert_int_eq(lladd_sim_random_text(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "subject small, at random: passed so far"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "the process dies"));
    ck_assert_int_eq(lladd_sim_random_json(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "{\"subject\":\"small\",\"mode\":\"random\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\"the log is cut\":["));
    lladd_sim_random_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("random");
    TCase *t = tcase_create("random");
    tcase_add_loop_test(t, what_is_right_passes, 0, sizeof subjects / sizeof subjects[0]);
    tcase_add_test(t, a_seed_is_always_the_same);
    tcase_add_test(t, a_workload_may_draw);
    tcase_add_loop_test(t, a_broken_operation_is_caught_within_1000_states, 0,
                        sizeof faults / sizeof faults[0]);
    tcase_add_test(t, a_token_keeps_the_bounds);
    tcase_add_test(t, a_token_of_no_sense_is_refused);
    tcase_add_test(t, reductions_end_in_time);
    tcase_add_loop_test(t, a_failure_is_made_smaller, 0, 3);
    tcase_add_test(t, the_same_failure_is_told_once);
    tcase_add_test(t, what_is_no_row_of_choices_is_told_by_its_numbers);
    tcase_add_test(t, a_token_of_another_workload_is_refused);
    tcase_add_test(t, bounds_count_where_there_is_no_crash);
    tcase_add_test(t, the_report_in_words);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
