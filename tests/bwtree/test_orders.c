/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads change one leaf of a Bw-tree while it is consolidated and split, in every order with
 * two switches between them; and three threads in random orders. A switch may come before each
 * access to a shared word, so each thread is parked in the middle of each step while the others go
 * on: a split without its index term is completed by another thread, and a thread that comes late
 * with a compare-and-swap gives up or tries again. After each run the tree has what it must have.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/dst.h>
#include <lladd/sync.h>
#include <sim/schedule.h>

enum { KEYS = 64, THREADS = 3, STEPS = 3 };

static struct fixture r;
static struct lladd_bwtree *tree;
static int n_threads;
static uint32_t key_size; /* 0: keys of any length, so that the tree stores them otherwise */
static struct lladd_bwtree_stats sum; /* of all runs */
static bool present[KEYS];            /* before the threads run */
static uint64_t wrong;

/* What each thread does with which keys. No two threads have the same key, so the result is known.
 * The keys lie close together, in one or two leaves of four rows. */
struct step {
    enum { INSERT, DELETE, GET } what;
    uint64_t key;
};
static const struct step jobs[THREADS][STEPS] = {
    {{INSERT, 11}, {INSERT, 13}, {GET, 20}},
    {{INSERT, 15}, {DELETE, 20}, {INSERT, 17}},
    {{DELETE, 10}, {INSERT, 12}, {GET, 30}},
};

static int do_step(const struct step *s)
{
    uint64_t key = __builtin_bswap64(s->key), value = s->key;
    switch (s->what) {
    case INSERT:
        return lladd_bwtree_insert(tree, &key, 8, &value, 8, NULL);
    case DELETE:
        return lladd_bwtree_delete(tree, &key, 8, NULL);
    default:
        return lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, NULL);
    }
}

static void *work(void *arg)
{
    const struct step *steps = arg;
    for (int i = 0; i < STEPS; i++) {
        int rc = do_step(&steps[i]);
        wrong += rc != 0 && !(steps[i].what == GET && rc == LLADD_NOT_FOUND);
        /* A thread finds its own change. */
        struct step look = {GET, steps[i].key};
        if (steps[i].what != GET)
            wrong += do_step(&look) != (steps[i].what == INSERT ? 0 : LLADD_NOT_FOUND);
    }
    return NULL;
}

static void *all(void *arg)
{
    struct lladd_thread threads[THREADS];
    (void)arg;
    for (int i = 0; i < n_threads; i++)
        if (lladd_thread_start(&threads[i], work, (void *)(uintptr_t)jobs[i]))
            lladd_dst_stop();
    for (int i = 0; i < n_threads; i++)
        lladd_thread_join(&threads[i]);
    return NULL;
}

static void prepare(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.key_size = key_size;
    o.value_size = 8;
    o.page_bytes = 64; /* four rows, or two */
    o.leaf_chain = 2;
    o.inner_chain = 1;
    ck_assert_int_eq(lladd_bwtree_open_volatile(r.db, &o, &tree, &r.err), 0);
    memset(present, 0, sizeof present);
    for (uint64_t k = 10; k <= 60; k += 10) {
        struct step s = {INSERT, k};
        ck_assert_int_eq(do_step(&s), 0);
        present[k] = true;
    }
}

static void add_counts(void)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &r.err), 0);
    sum.splits += s.splits;
    sum.splits_failed += s.splits_failed;
    sum.updates_failed += s.updates_failed;
    sum.terms_failed += s.terms_failed;
    sum.consolidations_failed += s.consolidations_failed;
    sum.helped += s.helped;
}

static void expect_contents(void)
{
    for (int i = 0; i < n_threads; i++)
        for (int k = 0; k < STEPS; k++)
            if (jobs[i][k].what != GET)
                present[jobs[i][k].key] = jobs[i][k].what == INSERT;
    for (uint64_t k = 0; k < KEYS; k++) {
        struct step look = {GET, k};
        ck_assert_int_eq(do_step(&look), present[k] ? 0 : LLADD_NOT_FOUND);
    }
    ck_assert_msg(lladd_bwtree_check(tree, &r.err) == 0, "%s", r.err.message);
}

static void run_once(struct lladd_dst_fibers *fibers, struct ll_schedule *policy)
{
    struct lladd_dst dst = {0};
    prepare();
    wrong = 0;
    ll_schedule_begin(policy);
    int rc = lladd_dst_run(fibers, &dst, all, NULL, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert_uint_eq(wrong, 0);
    add_counts();
    expect_contents();
    lladd_bwtree_close(tree);
}

static struct lladd_dst_fibers *begin_case(struct ll_schedule *policy)
{
    struct lladd_dst_schedule cfg = {
        .ctx = policy, .turn = ll_schedule_turn, .points = UINT32_MAX, .steps_max = 100000};
    struct lladd_dst_fibers *fibers;
    fixture_init(&r, 0);
    fixture_open(&r);
    memset(&sum, 0, sizeof sum);
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    return fibers;
}

static void end_case(struct lladd_dst_fibers *fibers)
{
    lladd_dst_fibers_free(fibers);
    fixture_free(&r);
    /* Every race was met. */
    ck_assert_uint_gt(sum.splits, 0);
    ck_assert_uint_gt(sum.updates_failed, 0);
    ck_assert_uint_gt(sum.consolidations_failed, 0);
    ck_assert_uint_gt(sum.splits_failed, 0);
    ck_assert_uint_gt(sum.helped, 0);
}

START_TEST(two_threads_in_every_order)
{
    struct ll_all_choices choices;
    struct ll_schedule policy;
    unsigned runs = 0;
    n_threads = 2;
    key_size = 8;
    ll_all_choices_init(&choices);
    ll_schedule_init(&policy, LL_SCHEDULE_BOUNDED, 2, 0, ll_all_choices_choose, &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy);
    do {
        run_once(fibers, &policy);
        runs++;
    } while (ll_all_choices_next(&choices));
    ck_assert(!choices.differs && !choices.no_memory);
    ck_assert_uint_gt(runs, 1000);
    ll_all_choices_free(&choices);
    end_case(fibers);
}
END_TEST

START_TEST(three_threads_in_random_orders)
{
    enum { RUNS = 20000 };
    struct ll_seeded_choices choices = {.state = 1};
    struct ll_schedule policy;
    n_threads = 3;
    key_size = _i ? 0 : 8;
    ll_schedule_init(&policy, LL_SCHEDULE_PCT, 6, 600, ll_seeded_choices_choose, &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy);
    for (unsigned i = 0; i < RUNS; i++)
        run_once(fibers, &policy);
    end_case(fibers);
    ck_assert_uint_gt(sum.terms_failed, 0);
}
END_TEST

/* ---- two threads on one key ------------------------------------------------------------------ */

enum { PUTS = 200, CHAIN = 8, LONGEST = 2 * CHAIN + 4, PAGE_LEAST = 150 };

static uint64_t longest; /* number of deltas */

static void *puts_one_key(void *arg)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    (void)arg;
    for (uint64_t i = 0; i < PUTS; i++) {
        wrong += lladd_bwtree_put(tree, "12345678", 8, &i, 8, NULL) != 0;
        wrong += lladd_bwtree_stats_get(tree, &s, NULL) != 0;
        longest = s.deltas > longest ? s.deltas : longest;
    }
    return NULL;
}

static void *two_on_one_key(void *arg)
{
    struct lladd_thread threads[2];
    (void)arg;
    for (int i = 0; i < 2; i++)
        if (lladd_thread_start(&threads[i], puts_one_key, NULL))
            lladd_dst_stop();
    for (int i = 0; i < 2; i++)
        lladd_thread_join(&threads[i]);
    return NULL;
}

/* Switches to the other thread at a number of points after a thread has allocated a page. */
struct rival {
    unsigned distance, left;
    uint64_t bytes;
};

static unsigned switch_after_pages(void *ctx, const struct lladd_dst_turn *turn)
{
    struct rival *v = ctx;
    uint64_t bytes = fault_alloc_bytes(&r.mem);
    if (bytes > v->bytes + PAGE_LEAST)
        v->left = v->distance;
    v->bytes = bytes;
    return v->left > 0 && --v->left == 0 && turn->current;
}

/* At each consolidation another thread changes the page before the compare-and-swap. Chains stay
 * short nevertheless. */
START_TEST(a_rival_does_not_prevent_consolidations)
{
    struct rival rival = {.distance = (unsigned)_i};
    struct lladd_dst_schedule cfg = {
        .ctx = &rival, .turn = switch_after_pages, .points = UINT32_MAX, .steps_max = 1000000};
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct lladd_dst_fibers *fibers;
    struct lladd_dst dst = {0};
    fixture_init(&r, 0);
    fixture_open(&r);
    o.key_size = o.value_size = 8;
    o.leaf_chain = CHAIN;
    ck_assert_int_eq(lladd_bwtree_open_volatile(r.db, &o, &tree, &r.err), 0);
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    wrong = longest = 0;
    rival.bytes = fault_alloc_bytes(&r.mem);
    int rc = lladd_dst_run(fibers, &dst, two_on_one_key, NULL, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_ge(longest, CHAIN - 1);
    ck_assert_uint_le(longest, LONGEST);
    ck_assert_msg(lladd_bwtree_check(tree, &r.err) == 0, "%s", r.err.message);
    lladd_bwtree_close(tree);
    lladd_dst_fibers_free(fibers);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Bw-trees, in every order");
    TCase *c = tcase_create("orders");
    tcase_add_test(c, two_threads_in_every_order);
    tcase_add_loop_test(c, three_threads_in_random_orders, 0, 2);
    tcase_add_loop_test(c, a_rival_does_not_prevent_consolidations, 1, 6);
    suite_add_tcase(s, c);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
