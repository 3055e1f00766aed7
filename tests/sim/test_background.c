/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole library runs with its own threads and those of the program, all as fibers. Group
 * commit, the log worker, the checkpointer and the page writer take part. Every schedule ends and
 * loses nothing, and the same seed gives the same schedule.
 */
#include "db_fixture.h"

#include <lladd/dst.h>
#include <lladd/sync.h>
#include <sim/schedule.h>
#include <string.h>

enum { WRITERS = 2, TXNS = 12, PAGES = 8, CELLS_USED = 4 };

static struct fixture r;
static struct lladd_dst dst;
static struct lladd_error err;

struct work {
    lladd_pageno pages[PAGES];
    uint64_t sums[PAGES]; /* amounts committed on the page */
    struct lladd_mutex rows[PAGES];
    uint64_t seed;
    uint64_t groups, checkpoints, written; /* at the end */
};

struct writer {
    struct work *work;
    unsigned number;
    struct lladd_thread thread;
};

static uint64_t next_of(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Adds to cells of two pages that no other thread uses meanwhile. Every fourth transaction is
 * rolled back. */
static void one_transaction(struct work *w, uint64_t *state, unsigned i)
{
    unsigned a = (unsigned)(next_of(state) % PAGES), b = (unsigned)(next_of(state) % PAGES);
    unsigned low = a < b ? a : b, high = a < b ? b : a;
    unsigned cell = (unsigned)(next_of(state) % CELLS_USED);
    lladd_mutex_lock(&w->rows[low]);
    if (high != low)
        lladd_mutex_lock(&w->rows[high]);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, cell_of(w->pages[low], cell), 1));
    ok(txn, cell_put_wide(txn, cell_of(w->pages[high], CELLS_USED), i, 1000));
    ok(txn, cell_bump(txn, cell_of(w->pages[high], cell), 2));
    if (i % 4 == 3) {
        done(lladd_abort(txn));
    } else {
        done(lladd_commit(txn));
        w->sums[low] += 1;
        w->sums[high] += 2;
    }
    if (high != low)
        lladd_mutex_unlock(&w->rows[high]);
    lladd_mutex_unlock(&w->rows[low]);
}

static void *write_some(void *arg)
{
    struct writer *me = arg;
    uint64_t state = me->work->seed * 8 + me->number;
    for (unsigned i = 0; i < TXNS; i++)
        one_transaction(me->work, &state, i);
    return NULL;
}

static void expect_sums(const struct work *w)
{
    for (unsigned i = 0; i < PAGES; i++) {
        uint64_t sum = 0;
        for (unsigned c = 0; c < CELLS_USED; c++)
            sum += cell_get(r.db, cell_of(w->pages[i], c));
        ck_assert_uint_eq(sum, w->sums[i]);
    }
}

static void *live(void *arg)
{
    struct work *w = arg;
    struct writer writers[WRITERS];
    fixture_open(&r);
    fixture_pages(&r, w->pages, PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        ck_assert_int_eq(lladd_mutex_init(&w->rows[i], LLADD_RANK_EXTENSION + i, "row"), 0);
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.work = w, .number = i};
        ck_assert_int_eq(lladd_thread_start(&writers[i].thread, write_some, &writers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        lladd_thread_join(&writers[i].thread);
    expect_sums(w);
    struct lladd_stats stats = fixture_stats(&r);
    w->groups = stats.log_groups;
    w->checkpoints = stats.checkpoints;
    w->written = stats.pages_written;
    fixture_reopen(&r);
    expect_sums(w);
    fixture_close(&r);
    for (unsigned i = 0; i < PAGES; i++)
        lladd_mutex_destroy(&w->rows[i]);
    return NULL;
}

/* A small configuration, so that every background thread has work. */
static void set_up(unsigned kind)
{
    fixture_init(&r, kind | FIXTURE_THREADS);
    r.options.device = r.base; /* the outer device has locks that are not scheduled */
    r.options.cache_bytes = fixture_small_cache(kind);
    r.options.log_segment_min = 4096;
    r.options.log_segment_max = 16384;
    r.options.log_ring_bytes = 131072;
    r.options.checkpoint_bytes = 12288;
}

static int run(uint64_t seed, enum ll_schedule_policy how, uint32_t points, struct work *w,
               struct lladd_dst_run_stats *stats)
{
    struct ll_seeded_choices seeded = {seed};
    struct ll_schedule policy;
    struct lladd_dst_fibers *fibers;
    memset(w, 0, sizeof *w);
    memset(&dst, 0, sizeof dst);
    w->seed = seed;
    set_up(seed % 2 ? FIXTURE_RESERVED : 0);
    ll_schedule_init(&policy, how, how == LL_SCHEDULE_PCT ? 4 : UINT32_MAX, 20000,
                     ll_seeded_choices_choose, &seeded);
    struct lladd_dst_schedule cfg = {.ctx = &policy, .turn = ll_schedule_turn, .points = points};
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    int rc = lladd_dst_run(fibers, &dst, live, w, &err);
    lladd_dst_run_stats_get(fibers, stats);
    lladd_dst_fibers_free(fibers);
    fixture_free(&r);
    return rc;
}

/* _i % 2: the scheduler chooses at random at each point, or by random priorities. _i / 2: the
 * points are only at latches, waits and the device, or also at every access to a shared word. */
START_TEST(a_hundred_schedules_end_and_lose_nothing)
{
    enum ll_schedule_policy how = _i % 2 ? LL_SCHEDULE_PCT : LL_SCHEDULE_BOUNDED;
    uint32_t points = _i / 2 ? UINT32_MAX : 0;
    uint64_t checkpoints = 0, written = 0, least = UINT64_MAX, most = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct work first, second;
        struct lladd_dst_run_stats a, b;
        int rc = run(seed, how, points, &first, &a);
        ck_assert_msg(rc == 0, "seed %d: %s", (int)seed, err.message);
        /* The checkpointer and the page writer run from the start. */
        ck_assert_uint_ge(a.fibers, 1 + WRITERS + 2 * 2);
        checkpoints += first.checkpoints;
        written += first.written;
        least = first.groups < least ? first.groups : least;
        most = first.groups > most ? first.groups : most;
        if (seed % 5)
            continue;
        ck_assert_int_eq(run(seed, how, points, &second, &b), 0);
        ck_assert_mem_eq(&a, &b, sizeof a);
        ck_assert_mem_eq(first.sums, second.sums, sizeof first.sums);
        ck_assert_uint_eq(first.groups, second.groups);
        ck_assert_uint_eq(first.written, second.written);
    }
    ck_assert_uint_gt(checkpoints, 100); /* more checkpoints than the one at creation */
    ck_assert_uint_gt(written, 2 * 100); /* only a few, because a paced checkpoint waits between its
                                          * writes */
    ck_assert_uint_lt(least, most); /* how many transactions share a group depends on the
                                     * schedule */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("background");
    TCase *t = tcase_create("background");
    tcase_add_loop_test(t, a_hundred_schedules_end_and_lose_nothing, 0, 4);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
