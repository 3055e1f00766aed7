/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Redo gives the same contents with one thread and with several, with a cache for few pages and for
 * all pages, and if no thread can be created. If redo fails at several records, the error at the
 * lowest LSN is reported, whichever thread finds its error first.
 */
#include "db_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 200, ROUNDS = 8 };

/* Under the thread sanitizer, redo by one thread is not tested. */
#ifdef __SANITIZE_THREAD__
enum { THREAD_COUNTS = 1 };
#else
enum { THREAD_COUNTS = 2 };
#endif

static struct fixture r;
static lladd_pageno pages[PAGES];

/* ---- helpers ---- */

static void begin_case_of(unsigned kind, uint32_t page_size)
{
    fixture_init(&r, kind);
    r.options.page_size = page_size;
    r.options.checkpoint_bytes = 1u << 30;
    r.options.log_ring_bytes = 1u << 20;
    r.options.log_segment_max = 1u << 20;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
}

static void begin_case(unsigned kind)
{
    begin_case_of(kind, 4096);
}

/* Writes more than 4 MiB of log, so that several threads divide the pages. Adjacent records are
 * about one page, two pages, or many pages. */
static void write_history(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < PAGES; i++) {
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, cell_add(txn, cell_of(pages[i], 0), i));
            ok(txn, cell_add(txn, cell_of(pages[i], 0), 1));
            ok(txn, cell_add(txn, cell_of(pages[0], 4), 1));
            ok(txn, cell_put_wide(txn, cell_of(pages[i], 1), round, 1800));
            done(lladd_commit_async(txn, NULL));
        }
    }
    fixture_set(&r, cell_of(pages[0], 5), 1);
    ck_assert_uint_gt(fixture_stats(&r).redo_bytes, 4u << 20);
}

static void expect_history(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        fixture_expect(&r, cell_of(pages[i], 0), (uint64_t)(i + 1) * ROUNDS);
        fixture_expect(&r, cell_of(pages[i], 1), ROUNDS - 1);
    }
    fixture_expect(&r, cell_of(pages[0], 4), (uint64_t)PAGES * ROUNDS);
    fixture_expect(&r, cell_of(pages[0], 5), 1);
}

/* ---- cases ---- */

/* Each worker holds the pages of several records at a time. In a small cache it holds fewer pages,
 * so that the other workers have room. */
START_TEST(redo_in_a_cache_of_any_size_repeats_the_same_history)
{
    static const uint32_t threads[] = {8, 1};
    for (unsigned small = 0; small < 2; small++) {
        for (unsigned t = 0; t < THREAD_COUNTS; t++) {
            begin_case(FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0));
            write_history();
            fixture_crash(&r, &fault_power);
            r.options.redo_threads = threads[t];
            r.options.cache_bytes = small ? fixture_small_cache(r.kind) : 4u << 20;
            fixture_open(&r);
            ck_assert_uint_ge(fixture_stats(&r).recovered_redone, 4u * PAGES * ROUNDS);
            ck_assert_uint_le(fixture_stats(&r).recovery_redo_ns, fixture_stats(&r).recovery_ns);
            expect_history();
            fixture_free(&r);
        }
    }
}
END_TEST

/* A disk is slow: while a thread waits for a page, the other threads have many turns. */
static void read_slowly(void *ctx, uint64_t number, unsigned kind, const char *name)
{
#ifdef LL_TEST_SHORT
    enum { TURNS = 5 };
#else
    enum { TURNS = 20 };
#endif
    (void)ctx;
    (void)number;
    for (unsigned i = 0; kind == FAULT_PREAD && strcmp(name, "pages") == 0 && i < TURNS; i++)
        ck_assert_int_eq(sched_yield(), 0);
}

/* The cache has at most 7 frames, fewer than workers are asked for. Each worker latches at least
 * one page, and a page that is being read has a frame. */
START_TEST(redo_by_more_threads_than_the_cache_has_frames)
{
    begin_case_of(FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0), 16384);
    write_history();
    fixture_crash(&r, &fault_power);
    r.options.redo_threads = 8;
    r.options.cache_bytes = _i ? 136u << 10 : 128u << 10;
    fault_device_hook(r.fd, read_slowly, NULL);
    fixture_open(&r);
    fault_device_hook(r.fd, NULL, NULL);
    ck_assert_uint_ge(fixture_stats(&r).recovered_redone, 4u * PAGES * ROUNDS);
    expect_history();
    fixture_free(&r);
}
END_TEST

/* Each page lies in a region of its own, so that its frame costs three times the memory of a page,
 * and the cache has room for fewer pages than the workers may hold together. A worker that holds
 * none may find no frame. */
START_TEST(redo_of_pages_far_apart_by_many_threads)
{
    enum { APART = 48, REGION = 512 };
    fixture_init(&r, FIXTURE_THREADS | FIXTURE_RESERVED);
    r.options.page_size = 4096;
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    for (unsigned i = 0; i < APART; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        lladd_pageno first;
        ok(txn, lladd_extent_alloc(txn, REGION, LLADD_EXTENT_PAGED, &first));
        done(lladd_commit(txn));
        fixture_pages(&r, &pages[i], 1);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct lladd_txn *txn = fixture_begin(&r);
        for (unsigned i = 0; i < APART; i++)
            ok(txn, cell_add(txn, cell_of(pages[i], 0), 1));
        done(lladd_commit_async(txn, NULL));
    }
    fixture_set(&r, cell_of(pages[0], 5), 1);
    fixture_crash(&r, &fault_power);
    r.options.redo_threads = 8;
    r.options.cache_bytes = 512u << 10;
    fault_device_hook(r.fd, read_slowly, NULL);
    fixture_open(&r);
    fault_device_hook(r.fd, NULL, NULL);
    for (unsigned i = 0; i < APART; i++)
        fixture_expect(&r, cell_of(pages[i], 0), ROUNDS);
    fixture_free(&r);
}
END_TEST

/* BUF-6. Two pages have lost their last writes. The reported error does not depend on which thread
 * finds its page first. */
START_TEST(the_error_at_the_lowest_lsn_is_reported)
{
    static const uint32_t threads[] = {1, 4};
    struct lladd_error first = LLADD_ERROR_INIT;
    size_t len;
    begin_case(FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0));
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* logs no images, which would repair the pages */
    fixture_reopen(&r);
    unsigned char *old = fixture_file(&r, "pages", &len);
    ck_assert_ptr_nonnull(old);
    for (unsigned i = 0; i < PAGES; i++)
        fixture_set(&r, cell_of(pages[i], 2), i);
    fixture_forget_log(&r, pages[0]); /* so that the pages cannot be rebuilt from the log */
    write_history();
    fixture_crash(&r, &fault_power);
    for (unsigned i = 150; i < PAGES; i += 7)
        fixture_file_write(&r, "pages", old + pages[i].v * 4096, 4096, pages[i].v * 4096);
    free(old);
    for (unsigned t = 0; t < 2; t++) {
        r.options.redo_threads = threads[t];
        ck_assert_int_eq(fixture_try_open(&r), LLADD_CORRUPT_PAGE);
        ck_contains(r.err.message, "a write was lost");
        ck_assert_uint_eq(r.err.page.v, pages[150].v);
        if (t == 0)
            first = r.err;
        ck_assert_uint_eq(r.err.lsn.v, first.lsn.v);
        ck_assert_str_eq(r.err.message, first.message);
    }
    fixture_free(&r);
}
END_TEST

#ifdef __GLIBC__
/* No thread can be created, because its stack would not fit into the address space. So the thread
 * that opens the database does all the work. */
START_TEST(without_other_threads_one_thread_redoes_all_pages)
{
    pthread_attr_t attr, before;
    begin_case(FIXTURE_THREADS);
    write_history();
    fixture_crash(&r, &fault_power);
    r.options.redo_threads = 4;
    fixture_want_trace(&r);
    ck_assert_int_eq(pthread_getattr_default_np(&before), 0);
    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, SIZE_MAX / 16 * 15 & ~(size_t)0xffff), 0);
    ck_assert_int_eq(pthread_setattr_default_np(&attr), 0);
    /* Redo succeeds. Then open fails, because the background threads cannot be started. */
    ck_assert_int_eq(fixture_try_open(&r), LLADD_NO_THREAD);
    ck_contains(r.trace, "redo: from");
    ck_contains(r.trace, " 0 pages without a base");
    ck_assert_int_eq(pthread_setattr_default_np(&before), 0);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_attr_destroy(&before);
    fixture_open(&r);
    expect_history();
    fixture_free(&r);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("redo");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, redo_in_a_cache_of_any_size_repeats_the_same_history, 0, 2);
    tcase_add_loop_test(tc, redo_by_more_threads_than_the_cache_has_frames, 0, 2);
    tcase_add_test(tc, redo_of_pages_far_apart_by_many_threads);
    tcase_add_loop_test(tc, the_error_at_the_lowest_lsn_is_reported, 0, 2);
#ifdef __GLIBC__
    tcase_add_test(tc, without_other_threads_one_thread_redoes_all_pages);
#endif
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
