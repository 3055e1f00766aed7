/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Silent damage. The files of a database are changed; the test tries a sample of all possible
 * changes. Each change is detected or repaired, or there is a known reason why it cannot be
 * detected. If a library accepts wrong bytes, the simulator reports this, and the token repeats the
 * failure.
 */
#include "verdicts.h"

#include <check.h>
#include <lladd/dst.h>
#include <lladd/sim.h>
#include <stdlib.h>
#include <string.h>

#define SUBJECTS "small", "counters", "prepared", "records"

static struct text text;

static struct lladd_sim_damage_report *damage_with(const char *subject, uint64_t states,
                                                   uint64_t planted, uint32_t flags)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_damage_report *r = NULL;
    b.states = states;
    b.planted = planted;
    b.flags |= flags;
    int rc = lladd_sim_damage(lladd_sim_subject_find(subject), &b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", subject, err.message);
    return r;
}

static struct lladd_sim_damage_report *damage(const char *subject, uint64_t states,
                                              uint64_t planted)
{
    return damage_with(subject, states, planted, 0);
}

static void expect_nothing_wrong(const struct lladd_sim_damage_report *r)
{
    expect_passed(r);
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++)
        ck_assert_uint_eq(r->counts[k][LLADD_SIM_WRONG], 0);
}

static uint64_t ended(const struct lladd_sim_damage_report *r, enum lladd_sim_damage_end end)
{
    uint64_t n = 0;
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++)
        n += r->counts[k][end];
    return n;
}

/* ---- correct workloads pass -------------------------------------------------------------- */

START_TEST(nothing_goes_unnoticed)
{
    static const char *const subjects[] = {SUBJECTS};
    struct lladd_sim_damage_report *r = damage(subjects[_i], 4000, 0);
    expect_nothing_wrong(r);
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++) {
        uint64_t n = 0;
        for (unsigned e = 0; e < LLADD_SIM_DAMAGE_ENDS; e++)
            n += r->counts[k][e];
        ck_assert_msg(n > 0, "no damage of kind %s",
                      lladd_sim_damage_name((enum lladd_sim_damage_kind)k));
    }
    ck_assert_uint_gt(ended(r, LLADD_SIM_REPAIRED), 50);
    ck_assert_uint_gt(ended(r, LLADD_SIM_DETECTED), 200);
    ck_assert_uint_gt(r->by_open, 0);
    ck_assert_uint_gt(r->by_read, 0);
    ck_assert_uint_gt(r->by_inspection, 0);
    lladd_sim_damage_free(r);
}
END_TEST

/* A sample of every subject. */
START_TEST(no_subject_is_deceived)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    b.states = 200;
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); *s; s++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_sim_damage_report *r = NULL;
        int rc = lladd_sim_damage(*s, &b, &r, &err);
        ck_assert_msg(rc == 0, "%s: %s", (*s)->name, err.message);
        expect_nothing_wrong(r);
        lladd_sim_damage_free(r);
    }
}
END_TEST

START_TEST(the_same_again_is_the_same)
{
    struct lladd_sim_damage_report *a = damage("small", 500, 0), *b = damage("small", 500, 0);
    ck_assert_uint_eq(a->done, b->done);
    ck_assert_mem_eq(a->counts, b->counts, sizeof a->counts);
    ck_assert(!a->complete);
    lladd_sim_damage_free(a);
    lladd_sim_damage_free(b);
}
END_TEST

/* ---- bugs are caught --------------------------------------------------------------------- */

/* In each row: a planted bug with which the library misses a certain damage, and a subject and a
 * number of damages that reveal the bug. */
static const struct {
    enum lladd_bug bug;
    const char *subject;
    uint64_t states;
    uint32_t flags;
} credulous[] = {
    {LLADD_BUG_RECORD_CRC, "small", 4000, 0},
    {LLADD_BUG_PAGE_CRC, "small", 4000, 0},
    {LLADD_BUG_WATERMARK, "small", 4000, 0},
    {LLADD_BUG_STALE_RECORD, "prepared", 40000, 0},
    /* Atomic pages, because the images of the next checkpoint would overwrite the torn tail. */
    {LLADD_BUG_LSN_REUSE, "counters", 40000, LLADD_SIM_ATOMIC_PAGES},
};

START_TEST(a_library_that_misses_damage_is_caught)
{
    uint64_t planted = UINT64_C(1) << credulous[_i].bug;
    struct lladd_sim_damage_report *r =
        damage_with(credulous[_i].subject, credulous[_i].states, planted, credulous[_i].flags);
    ck_assert_uint_eq(r->n_failures, 1);
    ck_assert_uint_eq(ended(r, LLADD_SIM_WRONG), 1);
    /* The token repeats the failure with the same message, and writes the history. */
    const struct lladd_sim_subject *s = lladd_sim_subject_find(credulous[_i].subject);
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *again;
    b.planted = planted;
    b.flags |= credulous[_i].flags;
    expect_again(s, &b, r->failures, &text);
    ck_assert_ptr_nonnull(strstr(text.bytes, "WRONG"));
    /* Without the bug there is no failure. */
    int rc = lladd_sim_replay(s, NULL, r->failures->token, NULL, &again, &err);
    ck_assert(rc == LLADD_BAD_ARGUMENT || (rc == 0 && again->n_failures == 0));
    lladd_sim_report_free(again);
    lladd_sim_damage_free(r);
}
END_TEST

/* ---- bounds ------------------------------------------------------------------------------ */

/* Counting the damages takes time, too. */
START_TEST(time_is_a_bound)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_damage_report *r;
    b.milliseconds = 1;
    ck_assert_int_eq(lladd_sim_damage(lladd_sim_subject_find("small"), &b, &r, &err), 0);
    ck_assert(!r->complete);
    ck_assert_uint_eq(r->done, 0);
    lladd_sim_damage_free(r);
}
END_TEST

/* ---- texts ------------------------------------------------------------------------------- */

START_TEST(the_report_in_words)
{
    struct lladd_sim_damage_report *r = damage("small", 300, 0);
    ck_assert_int_eq(lladd_sim_damage_text(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "subject small, damage mode: passed so far"));
    for (unsigned k = 0; k < LLADD_SIM_DAMAGE_KINDS; k++)
        ck_assert_ptr_nonnull(
            strstr(text.bytes, lladd_sim_damage_name((enum lladd_sim_damage_kind)k)));
    for (unsigned i = 0; i < LLADD_SIM_REASONS; i++)
        ck_assert_int_eq(strstr(text.bytes, lladd_sim_reason_text((enum lladd_sim_reason)i)) !=
                             NULL,
                         r->reasons[i] != 0);
    ck_assert_int_eq(lladd_sim_damage_json(r, text_fresh(&text)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "{\"subject\":\"small\",\"mode\":\"damage\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\"failures\":[]}"));
    lladd_sim_damage_free(r);
}
END_TEST

int main(void)
{
    static const char *const subjects[] = {SUBJECTS};
    Suite *s = suite_create("damage");
    TCase *t = tcase_create("damage");
    tcase_add_loop_test(t, nothing_goes_unnoticed, 0, sizeof subjects / sizeof subjects[0]);
    tcase_add_test(t, no_subject_is_deceived);
    tcase_add_test(t, the_same_again_is_the_same);
    tcase_add_loop_test(t, a_library_that_misses_damage_is_caught, 0,
                        sizeof credulous / sizeof credulous[0]);
    tcase_add_test(t, the_report_in_words);
    tcase_add_test(t, time_is_a_bound);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
