/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A logged Bw-tree is opened while the transaction that makes it is rolled back: the rollback comes
 * at each point of the call.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/dst.h>
#include <lladd/sync.h>

static struct fixture r;
static struct lladd_txn *maker;
static bool opening;
static unsigned left; /* points until the rollback */
static int opened, aborted;

static unsigned roll_back_there(void *ctx, const struct lladd_dst_turn *turn)
{
    (void)ctx;
    return turn->current && opening && left > 0 && --left == 0 ? 1 : 0;
}

static void *opens(void *arg)
{
    struct lladd_bwtree *tree;
    (void)arg;
    opening = true;
    opened = lladd_bwtree_open(r.db, "new", &tree, NULL);
    opening = false;
    return NULL;
}

static void *rolls_back(void *arg)
{
    (void)arg;
    aborted = lladd_abort(maker);
    return NULL;
}

static void *both(void *arg)
{
    struct lladd_thread threads[2];
    (void)arg;
    if (lladd_thread_start(&threads[0], opens, NULL) ||
        lladd_thread_start(&threads[1], rolls_back, NULL))
        lladd_dst_stop();
    for (int i = 0; i < 2; i++)
        lladd_thread_join(&threads[i]);
    return NULL;
}

START_TEST(a_tree_that_is_rolled_back_is_not_opened)
{
    struct lladd_dst_schedule cfg = {
        .turn = roll_back_there, .points = UINT32_MAX, .steps_max = 1000000};
    struct lladd_dst_fibers *fibers;
    struct lladd_dst dst = {0};
    unsigned n = 0;
    fixture_init(&r, 0);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    do {
        left = ++n;
        maker = fixture_begin(&r);
        ok(maker, lladd_bwtree_create(maker, "new", NULL));
        ok_db(&r, lladd_dst_run(fibers, &dst, both, NULL, &r.err));
        ck_assert_int_eq(aborted, 0);
        ck_assert_msg(opened == LLADD_BUSY || opened == LLADD_NOT_FOUND, "point %u: %d", n,
                      opened);
    } while (left == 0);
    ck_assert_uint_gt(n, 5);
    lladd_dst_fibers_free(fibers);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("logged Bw-trees, in every order");
    TCase *c = tcase_create("orders");
    tcase_add_test(c, a_tree_that_is_rolled_back_is_not_opened);
    suite_add_tcase(s, c);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
