/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of statistics. The scheduler counts the locks and the accesses to shared words. A call
 * of lladd_stats_get makes as many of these with many open transactions as with one.
 */
#include "db_fixture.h"

#include <lladd/dst.h>
#include <string.h>

enum { MANY = 100 };

static struct fixture r;
static struct lladd_dst_fibers *fibers;

static uint64_t steps(void)
{
    struct lladd_dst_run_stats s;
    lladd_dst_run_stats_get(fibers, &s);
    return s.steps;
}

static int ignore(void *ctx, const struct lladd_in_doubt_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

struct cost {
    uint64_t stats, walk; /* lladd_in_doubt_each looks at each transaction */
};

static struct cost cost_now(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    uint64_t before = steps();
    ck_assert_int_eq(lladd_stats_get(r.db, &s), 0);
    uint64_t between = steps();
    ok_db(&r, lladd_in_doubt_each(r.db, ignore, NULL, &r.err));
    return (struct cost){between - before, steps() - between};
}

static void *open_many(void *arg)
{
    struct lladd_txn *txn[MANY];
    struct cost one, many;
    (void)arg;
    fixture_open(&r);
    lladd_pageno page = fixture_page(&r);
    for (unsigned i = 0; i < MANY; i++) {
        txn[i] = fixture_begin(&r);
        ok(txn[i], cell_add(txn[i], cell_of(page, i % CELLS), 1));
        if (i == 0)
            one = cost_now();
    }
    many = cost_now();
    for (unsigned i = 0; i < MANY; i++)
        done(lladd_abort(txn[i]));
    fixture_close(&r);
    ck_assert_uint_ge(many.walk, one.walk + MANY - 1); /* each visit to a transaction was counted */
    ck_assert_uint_gt(one.stats, 0);
    ck_assert_uint_eq(many.stats, one.stats);
    return NULL;
}

START_TEST(statistics_cost_the_same_however_many_are_open)
{
    static struct lladd_dst dst;
    struct lladd_dst_schedule cfg = {.points = UINT32_MAX};
    struct lladd_error err = LLADD_ERROR_INIT;
    fixture_init(&r, 0);
    r.options.device = r.base; /* the outer device has locks that are not scheduled */
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    int rc = lladd_dst_run(fibers, &dst, open_many, NULL, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    lladd_dst_fibers_free(fibers);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("statistics");
    TCase *t = tcase_create("statistics");
    tcase_add_test(t, statistics_cost_the_same_however_many_are_open);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
