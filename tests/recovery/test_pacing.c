/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A checkpoint that is due makes pauses between its writes. The checkpoint goes on as the log grows
 * and time passes. It makes no more pauses when a thread waits for the checkpoint, when the log
 * fills, and at the close. The test controls the clock, so a pause that nothing ends lasts for
 * ever.
 */
#include "db_fixture.h"

#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdlib.h>

enum { PAGES = 60, PAGE = 4096, INTERVAL = 1280 << 10, LIMIT = 5800 << 10, SECOND = 1000000000 };

static const char flush[] = "checkpoint.before_flush", pause_[] = "checkpoint.pause",
                  control[] = "checkpoint.before_control";

static struct fixture r;
static lladd_pageno pages[PAGES];

static void write_log(unsigned i)
{
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put_wide(txn, cell_of(pages[0], 40), i, 1500));
    done(lladd_commit(txn));
}

/* Writes log until a checkpoint is due; the checkpointer stops in front of its flush. */
static void await_due(void)
{
    uint64_t passed = test_world_passed(&r.world, flush);
    struct lladd_stats s;
    unsigned i = 0;
    do {
        write_log(i++);
        s = fixture_stats(&r);
    } while (s.log_tail - s.checkpoint_lsn < INTERVAL);
    /* Each commit wakes the checkpointer if a checkpoint is due. The checkpointer may miss this
     * while it ends the previous checkpoint, so more commits follow. */
    while (test_world_passed(&r.world, flush) == passed) {
        write_log(i++);
        for (unsigned k = 0; k < 10000 && test_world_passed(&r.world, flush) == passed; k++)
            lladd_yield();
    }
    ck_assert(test_world_await(&r.world, flush, 1));
}

static void open_with_dirty_pages(unsigned kind, uint64_t limit)
{
    fixture_init(&r, kind);
    r.options.cache_bytes = 512 << 10; /* a batch is a small part of the pages */
    r.options.checkpoint_bytes = INTERVAL;
    r.options.log_limit_bytes = limit;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    for (unsigned i = 0; i < PAGES; i++)
        fixture_set(&r, cell_of(pages[i], 0), i + 1);
}

static void expect_pages(void)
{
    for (unsigned i = 0; i < PAGES; i++)
        fixture_expect(&r, cell_of(pages[i], 0), i + 1);
}

/* The first checkpoint that is due writes no page, because all pages were dirtied after the
 * checkpoint before it. The second one writes them all. When this function returns, the second
 * checkpoint is in its first pause, and the log does not grow. */
static void begin_pause(uint64_t limit)
{
    open_with_dirty_pages(FIXTURE_THREADS, limit);
    test_world_stop_at(&r.world, flush);
    await_due();
    uint64_t before = fixture_stats(&r).checkpoints;
    test_world_release(&r.world, flush);
    while (fixture_stats(&r).checkpoints == before)
        lladd_yield();
    test_world_advance(&r.world, SECOND);
    test_world_stop_at(&r.world, flush);
    await_due();
    test_world_stop_at(&r.world, pause_);
    test_world_release(&r.world, flush);
    ck_assert(test_world_await(&r.world, pause_, 1));
    struct lladd_stats s = fixture_stats(&r);
    ck_assert_uint_ge(s.checkpoint_pages, PAGES);
    ck_assert_uint_gt(s.checkpoint_written, 0);
    ck_assert_uint_lt(s.checkpoint_written, s.checkpoint_pages);
    test_world_release(&r.world, pause_);
}

static void end_case(void)
{
    fixture_reopen(&r);
    expect_pages();
    fixture_free(&r);
}

static void pin(void)
{
    ok_db(&r, lladd_pin_set(r.db, "pin", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
}

static void explicit_checkpoint(void)
{
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_eq(fixture_stats(&r).dirty_pages, 0);
}

/* A thread that waits for the checkpoint ends the pauses of the checkpoint. If _i is 0, the thread
 * waits to take a checkpoint of its own; if _i is 1, to set a pin. */
START_TEST(a_thread_that_waits_ends_the_pauses)
{
    static void (*const wait[])(void) = {explicit_checkpoint, pin};
    begin_pause(UINT64_MAX);
    uint64_t before = fixture_stats(&r).checkpoints;
    wait[_i]();
    ck_assert_uint_gt(fixture_stats(&r).checkpoints, before);
    end_case();
}
END_TEST

START_TEST(the_close_ends_the_pauses)
{
    begin_pause(UINT64_MAX);
    uint64_t passed = test_world_passed(&r.world, control);
    fixture_close(&r);
    ck_assert_uint_ge(test_world_passed(&r.world, control), passed + 1);
    fixture_open(&r);
    end_case();
}
END_TEST

/* Returns true if the log, together with the pages that are still to be written, takes half of its
 * limit. */
static bool fills(struct lladd_stats *s)
{
    *s = fixture_stats(&r);
    return s->log_tail - s->log_oldest + (s->checkpoint_pages - s->checkpoint_written) * PAGE >
           LIMIT / 2;
}

/* The log fills before it has grown by half of an interval. So the pauses end early. */
START_TEST(a_log_that_fills_ends_the_pauses)
{
    begin_pause(LIMIT);
    uint64_t passed = test_world_passed(&r.world, control);
    struct lladd_stats first = fixture_stats(&r), s;
    test_world_stop_at(&r.world, control);
    for (unsigned i = 0; test_world_passed(&r.world, control) == passed; i++) {
        if (fills(&s))
            lladd_yield();
        else
            write_log(i);
    }
    ck_assert(test_world_await(&r.world, control, 1));
    ck_assert_uint_lt(fixture_stats(&r).log_tail - first.log_tail, INTERVAL / 2);
    test_world_release(&r.world, control);
    end_case();
}
END_TEST

/* When half of the interval's log is written (_i is 0), or half of its time has passed (_i is 1),
 * the checkpoint has written all its pages. */
START_TEST(progress_follows_log_and_time)
{
    begin_pause(UINT64_MAX);
    test_world_stop_at(&r.world, control);
    uint64_t tail = fixture_stats(&r).log_tail;
    if (_i)
        test_world_advance(&r.world, SECOND / 2);
    for (unsigned i = 0; !_i && fixture_stats(&r).log_tail - tail < INTERVAL; i++)
        write_log(i);
    ck_assert(test_world_await(&r.world, control, 1));
    test_world_release(&r.world, control);
    end_case();
}
END_TEST

/* When a quarter of the interval has passed, half of the pages are written and the checkpointer
 * makes a pause again. */
START_TEST(a_quarter_of_the_time_writes_half_of_the_pages)
{
    begin_pause(UINT64_MAX);
    uint64_t half = fixture_stats(&r).checkpoint_pages / 2;
    test_world_advance(&r.world, SECOND / 4);
    while (fixture_stats(&r).checkpoint_written < half)
        lladd_yield();
    test_world_stop_at(&r.world, pause_);
    ck_assert(test_world_await(&r.world, pause_, 1));
    ck_assert_uint_lt(fixture_stats(&r).checkpoint_written, fixture_stats(&r).checkpoint_pages);
    test_world_release(&r.world, pause_);
    end_case();
}
END_TEST

START_TEST(no_pause_without_threads)
{
    open_with_dirty_pages(0, UINT64_MAX);
    uint64_t before = fixture_stats(&r).checkpoints;
    for (unsigned i = 0; fixture_stats(&r).checkpoints < before + 2; i++) {
        write_log(i);
        ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
        ck_assert_uint_lt(i, 1000);
    }
    struct lladd_stats s = fixture_stats(&r);
    ck_assert_uint_ge(s.checkpoint_pages, PAGES - 1);
    ck_assert_uint_eq(s.checkpoint_written, s.checkpoint_pages);
    ck_assert_uint_eq(test_world_passed(&r.world, pause_), 0);
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pacing");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, a_thread_that_waits_ends_the_pauses, 0, 2);
    tcase_add_test(t, the_close_ends_the_pauses);
    tcase_add_test(t, a_log_that_fills_ends_the_pauses);
    tcase_add_loop_test(t, progress_follows_log_and_time, 0, 2);
    tcase_add_test(t, a_quarter_of_the_time_writes_half_of_the_pages);
    tcase_add_test(t, no_pause_without_threads);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
