/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two or three transactions commit concurrently, in every schedule with a limited number of
 * preemptions at latches, waits and wake-ups, or at accesses to shared words as well. Each commit
 * is durable when it returns. All commits are there after the run. In some schedules one sync makes
 * several commits durable. With a planted bug, the leader of a group forgets transactions that came
 * too late for the group. Then one of these transactions waits for ever, and the simulator reports
 * it.
 */
#include "testops.h"

#include "support/test_world.h"

#include <check.h>
#include <lladd/dst.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <sim/schedule.h>
#include <string.h>

enum { WRITERS_MAX = 3 };

/* The schedules to explore. With an argument the program runs the long ones. */
static const struct bounds {
    unsigned writers, preemptions;
    uint32_t points;
    unsigned schedules; /* minimum */
} bounds[] = {{2, 0, 0, 2},
              {2, 1, 0, 50},
              {2, 2, 0, 500},
              {2, 1, UINT32_MAX, 500},
              {3, 1, 0, 500},
              /* long */
              {3, 2, 0, 10000},
              {2, 2, UINT32_MAX, 50000}};

enum { BOUNDS = sizeof bounds / sizeof bounds[0], BOUNDS_SHORT = 5 };

static const struct bounds *now;
static struct test_world world;
static struct lladd_db *db;
static lladd_pageno page;
static struct lladd_error err;
static unsigned early; /* number of acknowledgements that came before the commit was durable */
static unsigned groups[8];

static void observe(void *ctx, const struct lladd_dst_event *e)
{
    (void)ctx;
    early += e->what == LLADD_DST_ACKNOWLEDGE && e->lsn.v >= e->durable.v;
}

static void *write_one(void *arg)
{
    const unsigned *cell = arg;
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), 0);
    ck_assert_int_eq(cell_add(txn, cell_of(page, *cell), 1), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    return NULL;
}

static void open_on(struct lladd_device *device)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.flags = LLADD_OPT_NO_THREADS;
    o.frames = LLADD_FRAMES_HEAP;
    o.device = device;
    o.world = &world.world;
    o.cache_bytes = 64u << 10;
    o.log_ring_bytes = 128u << 10;
    o.log_segment_min = o.log_segment_max = 16u << 10;
    ck_assert_int_eq(lladd_register_extension(&o, &test_extension, &err), 0);
    int rc = lladd_open(NULL, &o, &db, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    lladd_options_release(&o);
}

static uint64_t groups_so_far(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    return s.log_groups;
}

static void *commit_together(void *arg)
{
    struct lladd_thread threads[WRITERS_MAX];
    static unsigned cells[WRITERS_MAX] = {0, 1, 2};
    struct lladd_txn *txn;
    open_on(arg);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, &page), 0);
    ck_assert_int_eq(cells_format(txn, page), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    uint64_t before = groups_so_far();
    for (unsigned i = 0; i < now->writers; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], write_one, &cells[i]), 0);
    for (unsigned i = 0; i < now->writers; i++)
        lladd_thread_join(&threads[i]);
    groups[groups_so_far() - before]++;
    lladd_db_kill(db);
    return NULL;
}

/* Checks what the process leaves if it dies now. */
static void expect_all(struct lladd_device *device)
{
    open_on(device);
    for (unsigned i = 0; i < now->writers; i++)
        ck_assert_uint_eq(cell_get(db, cell_of(page, i)), 1);
    ck_assert_int_eq(lladd_close(db), 0);
}

struct result {
    unsigned schedules, deadlocks;
};

/* Explores all schedules, or as many as it takes to find a deadlock. */
static struct result explore(const struct bounds *which, uint64_t planted)
{
    struct result result = {0, 0};
    struct ll_all_choices all;
    struct ll_schedule policy;
    struct lladd_dst_fibers *fibers;
    struct lladd_dst dst = {.observe = observe, .planted = planted};
    now = which;
    early = 0;
    memset(groups, 0, sizeof groups);
    test_world_init(&world, 7);
    ll_all_choices_init(&all);
    ll_schedule_init(&policy, LL_SCHEDULE_BOUNDED, now->preemptions, 0, ll_all_choices_choose,
                     &all);
    struct lladd_dst_schedule cfg = {
        .ctx = &policy, .turn = ll_schedule_turn, .points = now->points};
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    do {
        struct lladd_device *device;
        ck_assert_int_eq(lladd_device_memory(&device), 0);
        test_world_free(&world);
        test_world_init(&world, 7);
        ll_schedule_begin(&policy);
        int rc = lladd_dst_run(fibers, &dst, commit_together, device, &err);
        result.schedules++;
        result.deadlocks += rc == LLADD_DEADLOCK;
        ck_assert_msg(rc == 0 || (planted && rc == LLADD_DEADLOCK), "%s", err.message);
        if (rc == 0 && result.schedules % 16 == 1)
            expect_all(device);
        if (rc == 0)
            lladd_device_close(device); /* otherwise it would be leaked, together with what the
                                         * fibers hold */
    } while (ll_all_choices_next(&all) && !result.deadlocks);
    ck_assert(!all.differs && !all.no_memory);
    ll_all_choices_free(&all);
    lladd_dst_fibers_free(fibers);
    test_world_free(&world);
    return result;
}

START_TEST(commits_are_right_in_every_schedule)
{
    struct result result = explore(&bounds[_i], 0);
    ck_assert_uint_eq(result.deadlocks, 0);
    ck_assert_uint_eq(early, 0);
    ck_assert_uint_ge(result.schedules, now->schedules);
    unsigned all = 0;
    for (unsigned n = 1; n <= now->writers; n++)
        all += groups[n];
    ck_assert_uint_eq(all, result.schedules);
    ck_assert_uint_gt(groups[now->writers], 0); /* one sync after the other */
    if (now->preemptions >= now->writers - 1)   /* every thread but the leader runs in between */
        ck_assert_uint_gt(groups[1], 0);        /* one sync for all */
}
END_TEST

START_TEST(a_leader_that_forgets_the_next_one_is_found)
{
    struct result result = explore(&bounds[1], UINT64_C(1) << LLADD_BUG_WAKE);
    ck_assert_uint_eq(result.deadlocks, 1);
    ck_assert_ptr_nonnull(strstr(err.message, "waits for condition or word"));
}
END_TEST

int main(int argc, char **argv)
{
    (void)argv;
    bool longer = argc > 1;
    Suite *suite = suite_create("group commit");
    TCase *t = tcase_create("group commit");
    tcase_add_loop_test(t, commits_are_right_in_every_schedule, longer ? BOUNDS_SHORT : 0,
                        longer ? BOUNDS : BOUNDS_SHORT);
    tcase_add_test(t, a_leader_that_forgets_the_next_one_is_found);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
