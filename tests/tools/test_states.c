/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `lladd verify` reports about structures after a crash. The test explores crash states of
 * each subject of the simulator. In each state `verify` must report no damaged structure, whether
 * transactions are in doubt or not. By day the test explores the first 400 states of each subject.
 * With LLADD_NIGHTLY it explores all states, or as many as half a minute allows.
 */
#include "tool.h"

#include <check.h>
#include <lladd/dtable_managed.h>
#include <lladd/lock.h>
#include <lladd/sim.h>
#include <stdlib.h>
#include <string.h>

/* The subject that is being explored. The test explores a copy, which has the same context. */
static const struct lladd_sim_subject *original;
static uint64_t looked_at, structures;

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    int rc = original->configure ? original->configure(ctx, o, err) : 0;
    if (!rc) /* as the lladd command does */
        rc = lladd_lock_register(o, err);
    return rc ? rc : lladd_managed_register(o, err);
}

static int see(void *ctx, const struct lladd_finding *f)
{
    struct lladd_error *err = ctx;
    if (f->kind != LLADD_FINDING_DAMAGE)
        return 0;
    return lladd_error_set(err, LLADD_CORRUPT_PAGE, "verify calls it damaged: %s", f->message);
}

static int look(struct lladd_db *db, struct lladd_error *err)
{
    struct tool t = {.verb = "verify"};
    struct tool_structures s = {.others = 0};
    int rc = tool_structures_check(&t, db, see, err, &s, err);
    looked_at++;
    for (int i = 0; i < TOOL_KINDS; i++)
        structures += s.checked[i];
    return rc;
}

/* Called while transactions are in doubt, if there are any. */
static int in_doubt(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    int rc = look(db, err);
    return rc || !original->in_doubt ? rc : original->in_doubt(ctx, db, err);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    int rc = look(db, err);
    return rc || !original->check ? rc : original->check(ctx, db, err);
}

static void explore(const struct lladd_sim_subject *subject)
{
    struct lladd_sim_subject copy = *subject;
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r = NULL;
    original = subject;
    copy.configure = configure;
    copy.in_doubt = in_doubt;
    copy.check = check;
    b.depth = 2;
    if (getenv("LLADD_NIGHTLY"))
        b.milliseconds = 30000;
    else
        b.states = 400;
    b.flags = LLADD_SIM_NO_COVERAGE;
    int rc = lladd_sim_explore(&copy, &b, &r, &err);
    ck_assert_msg(rc == 0, "%s: %s", subject->name, err.message);
    ck_assert_msg(r->n_failures == 0, "%s: %s", subject->name,
                  r->n_failures ? r->failures[0].message : "");
    lladd_sim_report_free(r);
}

/* In the states after simulated crashes, the check of structures finds no damage. */
START_TEST(no_damage_is_found_after_crashes)
{
    for (const struct lladd_sim_subject *const *s = lladd_sim_subjects(); *s; s++)
        explore(*s);
    ck_assert_uint_gt(looked_at, 10000);
    ck_assert_uint_gt(structures, 1000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("states");
    TCase *t = tcase_create("states");
    tcase_add_test(t, no_damage_is_found_after_crashes);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
