/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads change one leaf of a Bw-tree while it is consolidated and split, or leaves while they
 * are merged, in every order with two switches between them; and three threads in random orders. A
 * switch may come before each access to a shared word, so each thread is parked in the middle of
 * each step while the others go on: a split without its index term and an unfinished merge are
 * completed by another thread, and a thread that comes late with a compare-and-swap gives up or
 * tries again. After each run the tree has what it must have.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/dst.h>
#include <lladd/sync.h>
#include <sim/schedule.h>

enum { KEYS = 512, THREADS = 3, STEPS = 10 };
#ifdef LL_TEST_SHORT
enum { SHARE = 4 };
#else
enum { SHARE = 1 };
#endif

static struct fixture r;
static struct lladd_bwtree *tree;
static int n_threads;
static uint32_t key_size; /* 0: keys of any length, so that the tree stores them otherwise */
static struct lladd_bwtree_stats sum; /* of all runs */
static bool present[KEYS];            /* before the threads run */
static uint64_t wrong;

/* What each thread does with which keys. No two threads have the same key, so the result is known.
 * SCAN walks up, or down if the key is not 0. */
struct step {
    enum { END, INSERT, DELETE, GET, SCAN } what;
    uint64_t key;
};
struct job {
    struct step steps[STEPS];
};
struct task {
    uint64_t first, last, distance; /* keys that are there before */
    struct job jobs[THREADS];
    bool merges, many; /* are pages merged; several at a time? */
    uint64_t gone[2];  /* of the keys, the first and the last one that are deleted before */
};

/* The keys lie close together, in one or two leaves of four rows. */
static const struct task splits = {
    10, 60, 10,
    {{{{INSERT, 11}, {INSERT, 13}, {GET, 20}}},
     {{{INSERT, 15}, {DELETE, 20}, {INSERT, 17}}},
     {{{DELETE, 10}, {INSERT, 12}, {GET, 30}}}},
    false, false, {0, 0}};

/* The second leaf has the keys from 50 on. It is merged into the first one, while that gets a row,
 * is split and is read. */
static const struct task merges = {
    10, 60, 10,
    {{{{DELETE, 60}, {DELETE, 50}, {INSERT, 55}, {GET, 40}}},
     {{{DELETE, 30}, {DELETE, 40}, {DELETE, 20}, {INSERT, 51}, {INSERT, 52}}},
     {{{SCAN, 0}, {SCAN, 1}, {INSERT, 45}, {INSERT, 46}}}},
    true, false, {0, 0}};

/* Three levels and more. Leaves and inner pages are merged and split at one place, and numbers of
 * pages are used again. */
static const struct task deep = {
    4, 160, 4,
    {{{{DELETE, 80}, {DELETE, 84}, {DELETE, 88}, {DELETE, 92}, {DELETE, 96}, {DELETE, 100},
       {INSERT, 81}, {INSERT, 82}, {INSERT, 83}, {SCAN, 1}}},
     {{{DELETE, 104}, {DELETE, 108}, {DELETE, 112}, {DELETE, 116}, {DELETE, 120}, {DELETE, 124},
       {INSERT, 93}, {INSERT, 94}, {INSERT, 95}, {INSERT, 97}}},
     {{{SCAN, 0}, {DELETE, 72}, {DELETE, 76}, {INSERT, 85}, {INSERT, 86}, {INSERT, 87},
       {INSERT, 89}, {SCAN, 1}, {DELETE, 68}, {DELETE, 64}}}},
    true, true, {0, 0}};

/* A parent with the most children that it can have, in trees with short keys: merges of its
 * children and its split exclude one another. */
static const struct task crowded = {
    4, 76, 4,
    {{{{DELETE, 24}, {DELETE, 28}, {DELETE, 32}, {DELETE, 36}, {DELETE, 20}, {GET, 40}}},
     {{{INSERT, 41}, {INSERT, 42}, {INSERT, 43}, {INSERT, 45}, {INSERT, 46}, {INSERT, 47},
       {SCAN, 1}, {INSERT, 49}}},
     {{{DELETE, 56}, {DELETE, 60}, {DELETE, 64}, {SCAN, 0}, {DELETE, 68}, {INSERT, 57},
       {INSERT, 58}, {INSERT, 59}}}},
    true, true, {0, 0}};

/* The leaf from 176 on loses all rows, and is merged into the leaf before it. Two splits before it
 * make it the middle child of its parent, which is split there, and is not the root. */
static const struct task divided = {
    8, 384, 8,
    {{{{DELETE, 176}, {DELETE, 184}, {DELETE, 192}, {DELETE, 200}, {INSERT, 177}, {GET, 208}}},
     {{{INSERT, 145}, {INSERT, 146}, {INSERT, 147}, {INSERT, 148}, {INSERT, 149}, {INSERT, 150},
       {INSERT, 151}}},
     {{{GET, 184}, {GET, 176}, {GET, 208}, {INSERT, 185}}}},
    true, false, {152, 168}};

static const struct task *task;
static bool steady[KEYS]; /* there before, and no thread changes them */

/* A walk meets each row that no thread changes, and no row twice. */
static int scan(bool down)
{
    struct lladd_bwtree_cursor *c;
    struct lladd_span key;
    uint64_t at = down ? KEYS : 0;
    int rc = lladd_bwtree_cursor_open(tree, &c, NULL);
    while (!rc && (rc = down ? lladd_bwtree_cursor_prev(c, NULL)
                             : lladd_bwtree_cursor_next(c, NULL)) == 0) {
        uint64_t k;
        rc = lladd_bwtree_cursor_row(c, &key, NULL, NULL);
        memcpy(&k, key.data, sizeof k);
        k = __builtin_bswap64(k);
        wrong += down ? k >= at : k <= at;
        for (uint64_t i = (down ? k : at) + 1; i < (down ? at : k); i++)
            wrong += steady[i];
        at = k;
    }
    for (uint64_t i = down ? 0 : at + 1; i < (down ? at : KEYS); i++)
        wrong += steady[i];
    lladd_bwtree_cursor_close(c);
    return rc == LLADD_END ? 0 : rc;
}

static int do_step(const struct step *s)
{
    uint64_t key = __builtin_bswap64(s->key), value = s->key;
    switch (s->what) {
    case INSERT:
        return lladd_bwtree_insert(tree, &key, 8, &value, 8, NULL);
    case DELETE:
        return lladd_bwtree_delete(tree, &key, 8, NULL);
    case SCAN:
        return scan(s->key != 0);
    default:
        return lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, NULL);
    }
}

static bool is_change(const struct step *s)
{
    return s->what == INSERT || s->what == DELETE;
}

static void *work(void *arg)
{
    const struct job *job = arg;
    for (const struct step *s = job->steps; s < job->steps + STEPS && s->what != END; s++) {
        int rc = do_step(s);
        wrong += rc != 0 && !(s->what == GET && rc == LLADD_NOT_FOUND);
        /* A thread finds its own change. */
        struct step look = {GET, s->key};
        if (is_change(s))
            wrong += do_step(&look) != (s->what == INSERT ? 0 : LLADD_NOT_FOUND);
    }
    return NULL;
}

static void *all(void *arg)
{
    struct lladd_thread threads[THREADS];
    (void)arg;
    for (int i = 0; i < n_threads; i++)
        if (lladd_thread_start(&threads[i], work, (void *)(uintptr_t)&task->jobs[i]))
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
    /* Four rows; where keys of any length are not merged, two. */
    o.page_bytes = key_size || !task->merges ? 64 : 128;
    o.leaf_chain = 2;
    o.inner_chain = 1;
    ck_assert_int_eq(lladd_bwtree_open_volatile(r.db, &o, &tree, &r.err), 0);
    memset(present, 0, sizeof present);
    for (uint64_t k = task->first; k <= task->last; k += task->distance) {
        struct step s = {INSERT, k};
        ck_assert_int_eq(do_step(&s), 0);
        present[k] = true;
    }
    for (uint64_t k = task->gone[0]; k && k <= task->gone[1]; k += task->distance) {
        struct step s = {DELETE, k};
        ck_assert_int_eq(do_step(&s), 0);
        present[k] = false;
    }
    memcpy(steady, present, sizeof steady);
    for (int i = 0; i < n_threads; i++)
        for (int k = 0; k < STEPS; k++)
            if (is_change(&task->jobs[i].steps[k]))
                steady[task->jobs[i].steps[k].key] = false;
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
    sum.merges += s.merges;
    sum.merges_failed += s.merges_failed;
}

static void expect_contents(void)
{
    for (int i = 0; i < n_threads; i++)
        for (int k = 0; k < STEPS; k++) {
            const struct step *s = &task->jobs[i].steps[k];
            if (is_change(s))
                present[s->key] = s->what == INSERT;
        }
    for (uint64_t k = 0; k < KEYS; k++) {
        struct step look = {GET, k};
        ck_assert_int_eq(do_step(&look), present[k] ? 0 : LLADD_NOT_FOUND);
    }
    ck_assert_msg(lladd_bwtree_check(tree, &r.err) == 0, "%s", r.err.message);
}

static void run_once(struct lladd_dst_fibers *fibers)
{
    struct lladd_dst dst = {0};
    prepare();
    wrong = 0;
    int rc = lladd_dst_run(fibers, &dst, all, NULL, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert_uint_eq(wrong, 0);
    add_counts();
    expect_contents();
    lladd_bwtree_close(tree);
}

static struct lladd_dst_fibers *begin_case(void *ctx,
                                           unsigned (*turn)(void *, const struct lladd_dst_turn *))
{
    struct lladd_dst_schedule cfg = {
        .ctx = ctx, .turn = turn, .points = UINT32_MAX, .steps_max = 100000};
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
    if (task->merges)
        ck_assert_uint_gt(sum.merges, 0);
    if (task->many)
        ck_assert_uint_gt(sum.merges_failed, 0);
    if (task->merges)
        return;
    ck_assert_uint_gt(sum.updates_failed, 0);
    ck_assert_uint_gt(sum.consolidations_failed, 0);
    ck_assert_uint_gt(sum.splits_failed, 0);
    ck_assert_uint_gt(sum.helped, 0);
}

START_TEST(two_threads_in_every_order)
{
    static const struct {
        const struct task *task;
        unsigned switches;
    } all_of[] = {{&splits, 2}, {&merges, SHARE > 1 ? 1 : 2}, {&divided, 1}, {&deep, 1},
                  {&crowded, 1}};
    struct ll_all_choices choices;
    struct ll_schedule policy;
    unsigned runs = 0;
    task = all_of[_i].task;
    n_threads = 2;
    key_size = 8;
    ll_all_choices_init(&choices);
    ll_schedule_init(&policy, LL_SCHEDULE_BOUNDED, all_of[_i].switches, 0, ll_all_choices_choose,
                     &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy, ll_schedule_turn);
    do {
        ll_schedule_begin(&policy);
        run_once(fibers);
        runs++;
    } while (ll_all_choices_next(&choices));
    ck_assert(!choices.differs && !choices.no_memory);
    ck_assert_uint_gt(runs, all_of[_i].switches > 1 ? 1000 : 100);
    ll_all_choices_free(&choices);
    end_case(fibers);
}
END_TEST

static const struct {
    const struct task *task;
    uint32_t key_size, turns; /* of a run, roughly */
    unsigned runs;
} cases[] = {{&splits, 8, 300, 5000},   {&splits, 0, 400, 2500},  {&merges, 8, 400, 2000},
             {&merges, 0, 400, 2000},   {&deep, 8, 2000, 400},    {&deep, 0, 2000, 400},
             {&crowded, 8, 1000, 400},  {&crowded, 0, 1000, 400}, {&divided, 8, 500, 800}};
enum { CASES = sizeof cases / sizeof *cases };

static void begin_random(int i)
{
    n_threads = 3;
    task = cases[i].task;
    key_size = cases[i].key_size;
}

/* A few switches: a thread is parked at any point until the others have ended. */
START_TEST(three_threads_in_random_orders)
{
    struct ll_seeded_choices choices = {.state = 1};
    struct ll_schedule policy;
    begin_random(_i);
    ll_schedule_init(&policy, LL_SCHEDULE_PCT, 6, cases[_i].turns, ll_seeded_choices_choose,
                     &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy, ll_schedule_turn);
    for (unsigned i = 0; i < cases[_i].runs / SHARE; i++) {
        ll_schedule_begin(&policy);
        run_once(fibers);
    }
    end_case(fibers);
}
END_TEST

struct hasty {
    struct ll_seeded_choices choices;
    int one_in;
};

static unsigned switch_often(void *ctx, const struct lladd_dst_turn *turn)
{
    struct hasty *h = ctx;
    if (turn->current && ll_seeded_choices_choose(&h->choices, 0, (unsigned)h->one_in))
        return 0;
    return (unsigned)ll_seeded_choices_choose(&h->choices, 0, turn->n);
}

/* Many switches: a thread meets each half-done step of the others. */
START_TEST(three_threads_that_switch_often)
{
    struct hasty hasty = {.choices = {.state = 1}};
    begin_random(_i);
    struct lladd_dst_fibers *fibers = begin_case(&hasty, switch_often);
    for (unsigned i = 0; i < cases[_i].runs / SHARE; i++) {
        hasty.one_in = 2 + (int)(i % 20 * (i % 20));
        run_once(fibers);
    }
    end_case(fibers);
    ck_assert(task->merges || sum.terms_failed > 0);
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
    tcase_add_loop_test(c, two_threads_in_every_order, 0, 5);
    tcase_add_loop_test(c, three_threads_in_random_orders, 0, CASES);
    tcase_add_loop_test(c, three_threads_that_switch_often, 0, CASES);
    tcase_add_loop_test(c, a_rival_does_not_prevent_consolidations, 1, 6);
    suite_add_tcase(s, c);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
