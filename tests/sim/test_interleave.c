/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crash and interleaving together. A correct subject passes in every schedule with one or two
 * preemptions, and at every crash of each schedule. A bug that needs both a crash and an
 * interleaving is found, and a token repeats the failure. The bug is not found if the threads run
 * one after the other. If the threads fail without a crash, the report says so.
 */
#include <check.h>
#include <lladd/dst.h>
#include <lladd/sim.h>
#include <lladd/sync.h>
#include <stdlib.h>
#include <string.h>

/* ---- exploring --------------------------------------------------------------------------- */

static struct lladd_sim_bounds bounds(uint32_t preemptions)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.depth = 1;
    b.preemptions = preemptions ? preemptions : UINT32_MAX;
    return b;
}

static struct lladd_sim_report *interleave(const struct lladd_sim_subject *s,
                                           const struct lladd_sim_bounds *b)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r = NULL;
    int rc = lladd_sim_interleave(s, b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", s->name, err.message);
    return r;
}

static void expect_passed(const struct lladd_sim_report *r)
{
    for (uint32_t i = 0; i < r->n_failures; i++)
        ck_abort_msg("%s: %s: %s, token %s", r->subject,
                     lladd_sim_oracle_name(r->failures[i].oracle), r->failures[i].message,
                     r->failures[i].token);
}

static struct {
    char bytes[100000];
    size_t len;
} story;

static int take_text(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    ck_assert_uint_lt(story.len + len, sizeof story.bytes);
    memcpy(story.bytes + story.len, bytes, len);
    story.len += len;
    story.bytes[story.len] = '\0';
    return 0;
}

/* Asserts that the only failure is that of this oracle, and that its token repeats the failure and
 * its history. */
static void expect_caught(const struct lladd_sim_subject *s, const struct lladd_sim_bounds *b,
                          const struct lladd_sim_report *r, enum lladd_sim_oracle oracle)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sink sink = {NULL, take_text, 0};
    struct lladd_sim_report *again;
    ck_assert_uint_eq(r->n_failures, 1);
    const struct lladd_sim_failure *f = r->failures;
    ck_assert_msg(f->oracle == oracle, "%s instead of %s: %s", lladd_sim_oracle_name(f->oracle),
                  lladd_sim_oracle_name(oracle), f->message);
    ck_assert_str_ne(f->token, "");
    ck_assert_uint_le(strlen(f->token), LLADD_SIM_TOKEN_MAX);
    story.len = 0;
    int rc = lladd_sim_replay(s, b, f->token, &sink, &again, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_uint_eq(again->n_failures, 1);
    ck_assert_uint_eq(again->failures->oracle, oracle);
    ck_assert_str_eq(again->failures->message, f->message);
    ck_assert_uint_eq(again->failures->depth, f->depth);
    ck_assert_str_eq(again->failures->token, f->token);
    ck_assert_ptr_nonnull(strstr(story.bytes, lladd_sim_oracle_name(oracle)));
    lladd_sim_report_free(again);
}

/* ---- correct workloads pass -------------------------------------------------------------- */

/* TWO is the number of preemptions, as many as the time allows; ./runtests tries two for all
 * subjects. Under a sanitizer it is one, which is enough to run every step. */
#ifdef LL_TEST_SHORT
#define TWO 1
#define SCHEDULES 50
#else
#define TWO 2
#define SCHEDULES 5000
#endif

static const struct {
    const char *name;
    uint32_t preemptions;
    uint64_t schedules, recordings;
} right[] = {{"threads.commit", TWO, SCHEDULES, SCHEDULES / 250}, /* its log is short */
             {"threads.wait", TWO, SCHEDULES, SCHEDULES / 100},
             {"threads.locks", TWO, SCHEDULES, SCHEDULES / 100},
             {"threads.abort", 1, 1000, 50},
             {"threads.prepare", 1, 2000, 300},
             {"threads.background", 1, 300, 20},
             {"threads.values", 1, 100, 1},
             {"threads.bulk", 1, 300, 20},
             {"threads.trees", 1, 3000, 50},
             {"threads.merge", 1, 3000, 50},
             {"dtable.managed.threads", 1, 300, 20},
             {"dtable.managed.levels.threads", 1, 3000, 100},
#ifndef LL_TEST_SHORT /* these take as long as all others; ./runtests simulates them, too */
             {"threads.checkpoint", 1, 300, 30},
             {"threads.writeback", 1, 100, 5},
             {"replica.threads", 1, 3000, 50},
#endif
             {"dtable.managed.snapshots.threads", 1, 2000, 20},
             {"dtable.managed.versions.threads", 1, 2000, 5}};

START_TEST(threads_recover_from_every_crash_of_every_schedule)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find(right[_i].name);
    struct lladd_sim_bounds b = bounds(right[_i].preemptions);
    struct lladd_sim_report *r = interleave(s, &b);
    expect_passed(r);
    ck_assert(r->complete);
    ck_assert_uint_ge(r->schedules, right[_i].schedules);
    ck_assert_uint_ge(r->recordings, right[_i].recordings);
    ck_assert_uint_lt(r->recordings, r->schedules);
    ck_assert_uint_gt(r->states, r->recordings);
    ck_assert_uint_gt(r->turns, 50);
    ck_assert_uint_eq(r->preemptions, right[_i].preemptions);
    lladd_sim_report_free(r);
}
END_TEST

/* Crashes in recovery, and random schedules with points at accesses to shared words. */
START_TEST(deeper_and_at_random)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find("threads.commit");
    struct lladd_sim_bounds b = bounds(1);
    b.depth = 2;
    struct lladd_sim_report *deep = interleave(s, &b);
    b = bounds(3);
    b.flags = LLADD_SIM_RANDOM_SCHEDULES;
    b.schedules = 300;
    struct lladd_sim_report *random = interleave(s, &b);
    expect_passed(deep);
    expect_passed(random);
    ck_assert_uint_gt(deep->depth_states[2], deep->depth_states[1]);
    ck_assert_uint_eq(random->schedules, 300);
    ck_assert_uint_gt(random->turns, 2 * deep->turns);
    ck_assert(deep->complete && !random->complete);
    lladd_sim_report_free(deep);
    lladd_sim_report_free(random);
}
END_TEST

/* The log buffer has credit for only a few of the threads. No thread may wait while it keeps
 * credit. */
START_TEST(few_credits_are_enough)
{
    static const char *const names[] = {"threads.credit", "threads.ring"};
    const struct lladd_sim_subject *s = lladd_sim_subject_find(names[_i]);
    struct lladd_sim_bounds b = bounds(3);
    b.flags = LLADD_SIM_RANDOM_SCHEDULES | (_i ? LLADD_SIM_NO_POWER : 0); /* fewer crash states */
    b.schedules = 60;
    struct lladd_sim_report *r = interleave(s, &b);
    expect_passed(r);
    ck_assert_uint_eq(r->schedules, 60);
    ck_assert_uint_gt(r->recordings, 50);
    lladd_sim_report_free(r);
}
END_TEST

/* Two threads in a structure without latches: every access to a shared word is a point. */
START_TEST(a_tree_without_latches_at_random)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find("threads.bwtree");
    struct lladd_sim_bounds b = bounds(4);
    b.flags = LLADD_SIM_RANDOM_SCHEDULES;
    b.schedules = 2000;
    struct lladd_sim_report *r = interleave(s, &b);
    expect_passed(r);
    ck_assert_uint_eq(r->schedules, 2000);
    ck_assert_uint_gt(r->turns, 100);
    lladd_sim_report_free(r);
}
END_TEST

/* A deadlock report names what each thread waits for, and the thread that holds it. */
START_TEST(a_deadlock_over_log_credit_has_names)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find("threads.credit");
    struct lladd_sim_bounds b = bounds(3);
    b.planted = UINT64_C(1) << LLADD_BUG_CREDIT_HELD;
    b.flags = LLADD_SIM_RANDOM_SCHEDULES;
    b.schedules = 2000;
    struct lladd_sim_report *r = interleave(s, &b);
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_uint_eq(r->failures->oracle, LLADD_SIM_O_DEADLOCK);
    ck_assert_ptr_nonnull(strstr(r->failures->message, "wait for mutex \"hash table shape\""));
    ck_assert_ptr_nonnull(strstr(r->failures->message, "\"log space\""));
    lladd_sim_report_free(r);
}
END_TEST

/* The schedules with one preemption have all crashes of those without preemption, and the schedules
 * with two have all crashes of both. A state that one schedule has visited is not visited again in
 * another schedule. */
START_TEST(states_are_shared_by_all_schedules)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find("threads.commit");
    uint64_t states[3], seen[3];
    for (uint32_t p = 0; p <= TWO; p++) {
        struct lladd_sim_bounds b = bounds(p);
        struct lladd_sim_report *r = interleave(s, &b);
        expect_passed(r);
        states[p] = r->states;
        seen[p] = r->worlds_seen;
        lladd_sim_report_free(r);
    }
    for (uint32_t p = 1; p <= TWO; p++)
        ck_assert_uint_gt(states[p], states[p - 1]);
    ck_assert_uint_gt(seen[TWO], seen[0]);
}
END_TEST

/* ---- bugs are caught --------------------------------------------------------------------- */

static const struct {
    const char *subject;
    enum lladd_bug bug;
    enum lladd_sim_oracle oracle;
    bool random; /* found in a second at random; exploring all schedules would take too long here */
} bugs[] = {
    {"threads.commit", LLADD_BUG_GROUP_LATE, LLADD_SIM_O_LOST, false},
    {"threads.commit", LLADD_BUG_GROUP_LATE, LLADD_SIM_O_LOST, true},
    {"threads.commit", LLADD_BUG_WAKE, LLADD_SIM_O_DEADLOCK, false},
    {"threads.checkpoint", LLADD_BUG_UNDO_LATE, LLADD_SIM_O_OPEN, false},
    {"threads.background", LLADD_BUG_IN_FLIGHT, LLADD_SIM_O_CONTENTS, true},
    {"threads.credit", LLADD_BUG_CREDIT_HELD, LLADD_SIM_O_DEADLOCK, true},
};

static struct lladd_sim_bounds bounds_for(int i)
{
    struct lladd_sim_bounds b = bounds(2);
    b.planted = UINT64_C(1) << bugs[i].bug;
    if (bugs[i].random) {
        b.flags = LLADD_SIM_RANDOM_SCHEDULES;
        b.schedules = 20000;
    }
    return b;
}

START_TEST(what_takes_a_crash_and_an_interleaving_is_caught)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find(bugs[_i].subject);
    struct lladd_sim_bounds b = bounds_for(_i);
    struct lladd_sim_report *r = interleave(s, &b), *again = interleave(s, &b);
    expect_caught(s, &b, r, bugs[_i].oracle);
    ck_assert_ptr_nonnull(strstr(story.bytes, "[thread 1]"));
    ck_assert_ptr_nonnull(strstr(story.bytes, "[thread 2]"));
    /* A second exploration has the same result. */
    ck_assert_uint_eq(r->schedules, again->schedules);
    ck_assert_uint_eq(r->states, again->states);
    ck_assert_str_eq(r->failures->token, again->failures->token);
    lladd_sim_report_free(r);
    lladd_sim_report_free(again);
}
END_TEST

START_TEST(and_is_not_caught_with_one_thread_after_the_other)
{
    const struct lladd_sim_subject *s = lladd_sim_subject_find(bugs[_i].subject);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_bounds b = bounds_for(_i);
    struct lladd_sim_report *r;
    b.flags = LLADD_SIM_NO_COVERAGE;
    b.depth = 1;
    ck_assert_int_eq(lladd_sim_explore(s, &b, &r, &err), 0);
    expect_passed(r);
    ck_assert(r->complete);
    lladd_sim_report_free(r);
    /* The first schedule has no preemption and does not reveal the bug either. */
    b = bounds_for(_i);
    b.preemptions = UINT32_MAX;
    b.schedules = 1;
    b.flags = 0;
    r = interleave(s, &b);
    expect_passed(r);
    lladd_sim_report_free(r);
}
END_TEST

/* ---- threads that do something wrong ------------------------------------------------------- */

struct wrong {
    struct lladd_mutex a, b;
    unsigned runs;
};

static int crosswise(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                     struct lladd_error *err)
{
    struct wrong *w = ctx;
    struct lladd_mutex *first = thread ? &w->b : &w->a, *second = thread ? &w->a : &w->b;
    (void)sim;
    (void)db;
    (void)err;
    while (!lladd_mutex_trylock(first)) /* this lock order is not checked */
        lladd_yield();
    lladd_dst_reach(LLADD_DST_DEVICE);
    bool both = lladd_mutex_trylock(second);
    if (both)
        lladd_mutex_unlock(second);
    lladd_mutex_unlock(first);
    return both ? 0 : LLADD_BUSY;
}

static int waits_for_ever(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                          struct lladd_error *err)
{
    static const uint32_t word = 0;
    (void)ctx;
    (void)sim;
    (void)db;
    (void)err;
    if (thread == 0)
        lladd_word_wait(&word, 0, 1, 0);
    return 0;
}

static int goes_on_for_ever(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                            struct lladd_error *err)
{
    (void)ctx;
    (void)sim;
    (void)db;
    (void)err;
    while (thread == 1)
        lladd_yield();
    return 0;
}

static int never_the_same(void *ctx, struct lladd_sim *sim, struct lladd_db *db, unsigned thread,
                          struct lladd_error *err)
{
    struct wrong *w = ctx;
    struct lladd_txn *txn;
    if (thread == 1)
        return 0;
    for (unsigned i = 0; i < w->runs; i++) {
        int rc = lladd_sim_begin(sim, db, NULL, &txn, err);
        if (rc || (rc = lladd_sim_abort(sim, txn)) != 0)
            return rc;
    }
    w->runs++;
    return 0;
}

static const struct {
    int (*run_thread)(void *, struct lladd_sim *, struct lladd_db *, unsigned,
                      struct lladd_error *);
    enum lladd_sim_oracle oracle;
    bool token;
} wrongs[] = {{crosswise, LLADD_SIM_O_WORKLOAD, true},
              {waits_for_ever, LLADD_SIM_O_DEADLOCK, true},
              {goes_on_for_ever, LLADD_SIM_O_LOOP, true},
              {never_the_same, LLADD_SIM_O_DETERMINISM, false}};

static struct lladd_sim_subject subject_of(struct wrong *w, int i)
{
    struct lladd_sim_subject s = {.struct_size = sizeof s, .name = "wrong", .ctx = w};
    memset(w, 0, sizeof *w);
    ck_assert_int_eq(lladd_mutex_init(&w->a, LLADD_RANK_LEAF, "a"), 0);
    ck_assert_int_eq(lladd_mutex_init(&w->b, LLADD_RANK_LEAF, "b"), 0);
    s.threads = 2;
    s.run_thread = wrongs[i].run_thread;
    return s;
}

START_TEST(threads_that_do_wrong_are_reported)
{
    struct wrong w;
    struct lladd_sim_subject s = subject_of(&w, _i);
    struct lladd_sim_bounds b = bounds(2);
    struct lladd_sim_report *r = interleave(&s, &b);
    if (wrongs[_i].token)
        expect_caught(&s, &b, r, wrongs[_i].oracle);
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_uint_eq(r->failures->oracle, wrongs[_i].oracle);
    ck_assert_uint_eq(r->failures->depth, 0);
    lladd_sim_report_free(r);
    lladd_mutex_destroy(&w.a);
    lladd_mutex_destroy(&w.b);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------ */

static void expect_refused(const struct lladd_sim_subject *s, const char *why)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    ck_assert_int_eq(lladd_sim_interleave(s, NULL, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_msg(strstr(err.message, why), "%s", err.message);
    ck_assert_ptr_null(r);
}

START_TEST(bad_subjects_and_tokens_are_refused)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    struct lladd_sim_subject s = *lladd_sim_subject_find("threads.commit");
    expect_refused(lladd_sim_subject_find("bytes"), "has no threads");
    s.threads = LLADD_SIM_THREADS_MAX + 1;
    expect_refused(&s, "2 to 16 threads");
    s.threads = 2;
    s.run_thread = NULL;
    expect_refused(&s, "run");
    /* A token of another subject. */
    struct lladd_sim_bounds b = bounds_for(0);
    struct lladd_sim_report *found = interleave(lladd_sim_subject_find("threads.commit"), &b);
    ck_assert_uint_eq(found->n_failures, 1);
    ck_assert_int_eq(lladd_sim_replay(lladd_sim_subject_find("threads.wait"), &b,
                                      found->failures->token, NULL, &r, &err),
                     LLADD_BAD_ARGUMENT);
    /* Without the bug there is no failure. */
    b.planted = 0;
    ck_assert_int_eq(lladd_sim_replay(lladd_sim_subject_find("threads.commit"), &b,
                                      found->failures->token, NULL, &r, &err),
                     0);
    ck_assert_uint_eq(r->n_failures, 0);
    lladd_sim_report_free(r);
    lladd_sim_report_free(found);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interleave");
    TCase *t = tcase_create("interleave");
    tcase_add_loop_test(t, threads_recover_from_every_crash_of_every_schedule, 0,
                        sizeof right / sizeof right[0]);
    tcase_add_test(t, deeper_and_at_random);
    tcase_add_loop_test(t, few_credits_are_enough, 0, 2);
    tcase_add_test(t, a_tree_without_latches_at_random);
    tcase_add_test(t, a_deadlock_over_log_credit_has_names);
    tcase_add_test(t, states_are_shared_by_all_schedules);
    tcase_add_loop_test(t, what_takes_a_crash_and_an_interleaving_is_caught, 0,
                        sizeof bugs / sizeof bugs[0]);
    tcase_add_loop_test(t, and_is_not_caught_with_one_thread_after_the_other, 0,
                        sizeof bugs / sizeof bugs[0]);
    tcase_add_loop_test(t, threads_that_do_wrong_are_reported, 0, sizeof wrongs / sizeof wrongs[0]);
    tcase_add_test(t, bad_subjects_and_tokens_are_refused);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
