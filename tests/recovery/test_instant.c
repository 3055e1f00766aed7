/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instant recovery: the database is open while its pages have pending redo. A thread that fetches a
 * page gets the contents that the page has at the end of the log. This must hold for undo before
 * open returns, for new transactions, for background steps, and for pages that are freed and used
 * again. It must hold after failed reads, after a lack of memory, and after another crash. No log
 * is truncated before the last page is redone.
 */
#include "db_fixture.h"
#include "recovery/core.h"

#include <lladd/bulk.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 40, ROUNDS = 5, BLOCK = 4096 };

static struct fixture r;
static lladd_pageno pages[PAGES];

/* ---- helpers ---- */

static uint64_t pages_pending(void)
{
    return fixture_stats(&r).pages_pending;
}

static void add_everywhere(struct lladd_txn *txn, unsigned index, uint64_t delta)
{
    for (unsigned i = 0; i < PAGES; i++)
        ok(txn, cell_add(txn, cell_of(pages[i], index), (int64_t)(delta + i)));
}

/* Writes more log than a cursor caches. */
static void write_filler(void)
{
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 0; i < 4000; i++)
        ok(txn, cell_add(txn, cell_of(pages[0], 2), 1));
    done(lladd_commit(txn));
}

/* After recovery, cell 0 of each page must be ROUNDS * (10 + the page's index), and cell 1 must be
 * 0. */
static void write_history(bool far_apart)
{
    fixture_pages(&r, pages, PAGES);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_add(loser, cell_of(pages[0], 1), 1000));
    ok(loser, cell_add(loser, cell_of(pages[1], 1), 1000));
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct lladd_txn *txn = fixture_begin(&r);
        add_everywhere(txn, 0, 10);
        done(lladd_commit(txn));
        if (far_apart)
            write_filler();
    }
}

static void expect_history(void)
{
    for (unsigned i = 0; i < PAGES; i++) {
        fixture_expect(&r, cell_of(pages[i], 0), (uint64_t)ROUNDS * (10 + i));
        fixture_expect(&r, cell_of(pages[i], 1), 0);
    }
}

static void begin_history(unsigned kind, bool far_apart)
{
    fixture_init(&r, kind);
    r.options.recovery = LLADD_RECOVER_INSTANT;
    r.options.checkpoint_bytes = 1u << 30;
    r.options.log_segment_max = 1u << 20;
    fixture_open(&r);
    write_history(far_apart);
}

static void begin_case(unsigned kind)
{
    begin_history(kind, false);
}

/* Writes a history, crashes, and opens the database by instant recovery. */
static void begin_pending(unsigned kind)
{
    begin_case(kind & ~(unsigned)FIXTURE_FILES);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
}

static void damage_page(unsigned i)
{
    unsigned char noise[512];
    memset(noise, 0xee, sizeof noise);
    fixture_file_write(&r, "pages", noise, sizeof noise, pages[i].v * BLOCK + 512);
}

/* ---- reads ---- */

START_TEST(a_page_is_redone_when_it_is_fetched)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    uint64_t left = pages_pending();
    ck_assert_uint_ge(left, PAGES - 2); /* undo has fetched the loser's pages */
    ck_assert_uint_lt(left, PAGES + 4);
    for (unsigned i = 2; i < PAGES; i++) {
        fixture_expect(&r, cell_of(pages[i], 0), (uint64_t)ROUNDS * (10 + i));
        ck_assert_uint_eq(pages_pending(), --left);
    }
    expect_history();
    ck_assert_uint_ge(fixture_stats(&r).recovered_redone, ROUNDS * PAGES);
    fixture_free(&r);
}
END_TEST

/* REC-1. Undo is complete when open returns; it has fetched only the pages that it needs. */
START_TEST(losers_are_gone_when_open_returns)
{
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    fixture_crash(&r, &fault_kill);
    fixture_want_trace(&r);
    fixture_open(&r);
    ck_contains(r.trace, "when pages are fetched");
    ck_contains(r.trace, "undone: transaction");
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 1);
    ck_assert_uint_gt(pages_pending(), 0);
    fixture_expect(&r, cell_of(pages[1], 1), 0);
    expect_history();
    fixture_free(&r);
}
END_TEST

START_TEST(steps_redo_the_rest_and_take_a_checkpoint)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    uint64_t from = fixture_stats(&r).checkpoint_lsn;
    ck_assert_uint_gt(pages_pending(), 0);
    ck_assert_uint_gt(fixture_stats(&r).redo_bytes, 0);
    fixture_maintain(&r);
    ck_assert_uint_eq(pages_pending(), 0);
    ck_assert_uint_gt(fixture_stats(&r).checkpoint_lsn, from);
    expect_history();
    uint64_t images = fixture_stats(&r).page_images;
    fixture_crash(&r, &fault_power); /* the next open redoes only these images */
    fixture_open(&r);
    ck_assert_uint_le(pages_pending(), images);
    expect_history();
    fixture_free(&r);
}
END_TEST

/* A checkpoint is taken at the end of recovery, even if it was a user's thread that fetched the
 * last page with pending redo. */
START_TEST(a_checkpoint_is_taken_when_users_have_redone_all_pages)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    uint64_t from = fixture_stats(&r).checkpoint_lsn;
    for (uint64_t n = 0; pages_pending(); n++) {
        struct lladd_page *p;
        if (lladd_page_fix(r.db, lladd_page_of(n), LLADD_LATCH_SHARED, &p, &r.err) == 0)
            lladd_page_unfix(r.db, p, LLADD_LATCH_SHARED);
        ck_assert_uint_lt(n, 10000);
    }
    ck_assert_uint_eq(fixture_stats(&r).checkpoint_lsn, from);
    fixture_maintain(&r);
    ck_assert_uint_gt(fixture_stats(&r).checkpoint_lsn, from);
    expect_history();
    uint64_t images = fixture_stats(&r).page_images;
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_le(pages_pending(), images); /* the pages of which the checkpoint has logged
                                                 * images */
    fixture_free(&r);
}
END_TEST

/* The log is kept until redo is complete. A checkpoint that is requested earlier waits for it. */
START_TEST(a_checkpoint_and_close_wait_for_redo)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    ck_assert_uint_gt(pages_pending(), 0);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_eq(pages_pending(), 0);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    expect_history();
    fixture_set(&r, cell_of(pages[3], 5), 8);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_gt(pages_pending(), 0);
    fixture_close(&r); /* REC-2 */
    fixture_open(&r);
    ck_assert_uint_eq(pages_pending(), 0);
    ck_assert_uint_eq(fixture_stats(&r).recovered_records, 0);
    expect_history();
    fixture_expect(&r, cell_of(pages[3], 5), 8);
    fixture_free(&r);
}
END_TEST

/* ---- meanwhile ---- */

static void work_meanwhile(unsigned round)
{
    struct lladd_txn *txn = fixture_begin(&r), *other = fixture_begin(&r);
    ok(txn, cell_add(txn, cell_of(pages[4 + round], 2), 1));
    ok(other, cell_add(other, cell_of(pages[5], 1), 77));
    ok(txn, cell_add(txn, cell_of(pages[20], 2), 1));
    done(lladd_commit(txn));
    ok(other, cell_add(other, cell_of(pages[30], 1), 77));
    done(lladd_abort(other));
}

/* Each crash comes during the recovery from the previous crash, with transactions in between. The
 * last recovery is full, or instant again. */
START_TEST(crashes_while_redo_is_pending)
{
    enum { CRASHES = 4 };
    for (unsigned full = 0; full < 2; full++) {
        begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
        for (unsigned c = 0; c < CRASHES; c++) {
            ck_assert_uint_gt(pages_pending(), PAGES / 2);
            work_meanwhile(c);
            struct lladd_txn *loser = fixture_begin(&r);
            ok(loser, cell_add(loser, cell_of(pages[8], 1), 5));
            ok(loser, cell_add(loser, cell_of(pages[31], 1), 5));
            fixture_crash(&r, c % 2 ? &fault_kill : &fault_power);
            if (full && c == CRASHES - 1)
                r.options.recovery = LLADD_RECOVER_FULL;
            fixture_open(&r);
        }
        ck_assert(full ? pages_pending() == 0 : pages_pending() > PAGES / 2);
        expect_history();
        fixture_expect(&r, cell_of(pages[20], 2), CRASHES);
        for (unsigned c = 0; c < CRASHES; c++)
            fixture_expect(&r, cell_of(pages[4 + c], 2), 1);
        fixture_free(&r);
    }
}
END_TEST

/* The cache holds only few of the pages, so redone pages are written back and read again. */
START_TEST(pages_come_and_go_in_a_small_cache)
{
    unsigned kind = (unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES);
    begin_case(kind);
    fixture_crash(&r, &fault_power);
    r.options.cache_bytes = fixture_small_cache(kind);
    fixture_open(&r);
    for (unsigned i = 0; i < PAGES; i += 3)
        fixture_set(&r, cell_of(pages[i], 6), i);
    expect_history();
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    expect_history();
    for (unsigned i = 0; i < PAGES; i += 3)
        fixture_expect(&r, cell_of(pages[i], 6), i);
    fixture_free(&r);
}
END_TEST

/* A transaction in doubt is decided while its pages still have pending redo. */
START_TEST(a_transaction_in_doubt_is_decided_while_redo_is_pending)
{
    for (unsigned commits = 0; commits < 2; commits++) {
        begin_case((unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES));
        (void)fixture_prepared(&r, "half", cell_of(pages[9], 3), 33);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        ck_assert_uint_eq(fixture_in_doubt(&r).n, 1);
        struct lladd_txn *txn = fixture_claim(&r, "half");
        done(commits ? lladd_commit(txn) : lladd_abort(txn));
        fixture_expect(&r, cell_of(pages[9], 3), commits ? 33 : 0);
        expect_history();
        fixture_free(&r);
    }
}
END_TEST

/* ---- pages that are used again ---- */

/* BUF-6. A page with pending redo is freed, allocated again and formatted. Redo of its former use
 * must not overwrite it. */
START_TEST(a_page_with_pending_redo_is_freed_and_used_again)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 10; i < 20; i++)
        ok(txn, lladd_page_free(txn, pages[i]));
    done(lladd_commit(txn));
    lladd_pageno again[10];
    fixture_pages(&r, again, 10);
    unsigned same = 0;
    for (unsigned i = 0; i < 10; i++) {
        fixture_set(&r, cell_of(again[i], 0), 100 + i);
        same += again[i].v >= pages[10].v && again[i].v <= pages[19].v;
    }
    ck_assert_uint_gt(same, 0);
    fixture_maintain(&r);
    ck_assert_uint_eq(pages_pending(), 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 10; i++)
            fixture_expect(&r, cell_of(again[i], 0), 100 + i);
        fixture_expect(&r, cell_of(pages[25], 0), (uint64_t)ROUNDS * 35);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
    }
    fixture_free(&r);
}
END_TEST

/* BUF-4. A thread formats a page with pending redo. After it has fixed the page and before it logs
 * the format record, maintenance redoes all other pages. If no format record is logged before the
 * next crash, the page must have its old contents after it. */
START_TEST(a_page_is_pending_until_its_format_is_logged)
{
    for (unsigned logged = 0; logged < 2; logged++) {
        struct ll_frame *f;
        bool more;
        begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
        struct lladd_txn *txn = fixture_begin(&r);
        struct ll_buffer *buffer = txn->core->buffer;
        unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_FRESH; /* as a format does */
        ok_db(&r, ll_buffer_fix(buffer, pages[12], how, &f, &r.err));
        for (unsigned i = 0; i < 100; i++)
            ok_db(&r, lladd_maintain(r.db, &more, &r.err));
        uint64_t left = pages_pending();
        ll_buffer_unfix(buffer, f, LL_FIX_EXCLUSIVE);
        if (logged)
            ok(txn, cells_format(txn, pages[12]));
        done(lladd_commit(txn));
        if (logged)
            fixture_maintain(&r);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        if (logged)
            fixture_expect(&r, cell_of(pages[12], 0), 0);
        else
            expect_history();
        ck_assert_uint_eq(left, 1);
        fixture_free(&r);
    }
}
END_TEST

/* A page with pending redo becomes a raw page and is written in bulk. Redo must not overwrite
 * it. */
START_TEST(a_page_with_pending_redo_becomes_one_of_a_raw_extent)
{
    begin_case((unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES));
    struct lladd_txn *txn = fixture_begin(&r);
    for (unsigned i = 10; i < 30; i++)
        ok(txn, lladd_page_free(txn, pages[i]));
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_gt(pages_pending(), 0);

    enum { RAW = 8 };
    unsigned char bytes[RAW * BLOCK], found[RAW * BLOCK];
    lladd_pageno first;
    memset(bytes, 0x5a, sizeof bytes);
    txn = fixture_begin(&r);
    ok(txn, lladd_extent_alloc(txn, RAW, LLADD_EXTENT_RAW, &first));
    ck_assert_uint_ge(first.v, pages[10].v);
    ck_assert_uint_le(first.v + RAW, pages[29].v + 1);
    ok(txn, lladd_bulk_write(txn, first, RAW, NULL, bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    for (unsigned round = 0; round < 3; round++) {
        ok_db(&r, lladd_bulk_read(r.db, first, RAW, true, found, &r.err));
        ck_assert_mem_eq(bytes, found, sizeof bytes);
        if (round == 0)
            fixture_maintain(&r); /* redoes the pending pages */
        else
            fixture_crash(&r, &fault_power), fixture_open(&r);
    }
    fixture_free(&r);
}
END_TEST

/* Bulk reads must return the contents as of the log's end too. */
START_TEST(pages_with_pending_redo_are_read_in_bulk)
{
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    unsigned char found[BLOCK], *page = found + LLADD_PAGE_HEADER;
    uint64_t left = pages_pending();
    ok_db(&r, lladd_bulk_read(r.db, pages[7], 1, false, found, &r.err));
    ck_assert_uint_eq(page[cell_offset(0)], ROUNDS * 17);
    ck_assert_uint_eq(pages_pending(), left - 1);
    fixture_free(&r);
}
END_TEST

/* A thread reads pages in bulk while it has log credit in hand. Other threads may need this credit
 * to write pages. */
START_TEST(a_thread_with_credit_reads_pages_with_pending_redo)
{
    enum { N = 3 };
    unsigned char *found = malloc((size_t)N * BLOCK);
    begin_pending((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_credit(txn, r.ids.put, 1));
    ok_db(&r, lladd_bulk_read(r.db, pages[7], N, false, found, &r.err));
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    done(lladd_abort(txn));
    ck_assert_uint_eq(found[LLADD_PAGE_HEADER + cell_offset(0)], ROUNDS * 17);
    free(found);
    fixture_free(&r);
}
END_TEST

/* ---- failures ---- */

/* If reads of the log fail while a thread fetches a page, the thread gets the error. The page's
 * redo stays pending, and the next fetch succeeds. */
START_TEST(a_read_fails_while_a_page_is_redone)
{
    unsigned refused = 0;
    for (uint64_t n = 1;; n++) {
        begin_history((unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES), true);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        uint64_t left = pages_pending(), value = 0;
        fault_device_only(r.fd, "log/");
        fault_device_fail(r.fd, n, FAULT_PREAD, 5, true);
        int rc = cell_read(r.db, cell_of(pages[12], 0), &value, &r.err);
        uint64_t fired = fault_device_fired(r.fd);
        fault_device_fail(r.fd, 0, 0, 0, false);
        if (fired) {
            ck_assert_int_eq(rc, LLADD_READ_FAILED);
            ck_assert_uint_eq(pages_pending(), left);
        }
        ck_assert_int_eq(lladd_db_error(r.db, &r.err), 0);
        expect_history();
        fixture_free(&r);
        if (!fired)
            break;
        refused++;
        ck_assert_uint_lt(n, 50);
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* If a read fails in a step of redo (here in the steps that a checkpoint takes), the caller gets
 * the error, and the next step goes on. If the log was only read ahead, a failed read may have no
 * effect. */
START_TEST(a_read_fails_in_a_step)
{
    unsigned refused = 0;
    for (uint64_t n = 1; n < 200; n += 7) {
        begin_history((unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES), true);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        uint64_t from = fixture_stats(&r).checkpoint_lsn;
        fault_device_fail(r.fd, n, FAULT_PREAD, 5, true);
        int rc = lladd_checkpoint(r.db, &r.err);
        uint64_t fired = fault_device_fired(r.fd);
        fault_device_fail(r.fd, 0, 0, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_READ_FAILED);
            ck_assert_uint_gt(fired, 0);
            ck_assert_uint_gt(pages_pending(), 0);
            ck_assert_uint_eq(fixture_stats(&r).checkpoint_lsn, from);
            refused++;
        } else {
            ck_assert_uint_eq(pages_pending(), 0);
        }
        fixture_maintain(&r);
        ck_assert_uint_eq(pages_pending(), 0);
        expect_history();
        fixture_free(&r);
        if (!fired)
            break;
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* If there is no memory for the redo index, recovery is full. */
START_TEST(an_allocation_fails)
{
    unsigned instantly = 0, fully = 0;
    for (uint64_t n = 1;; n++) {
        begin_case(0);
        fixture_crash(&r, &fault_power);
        fault_alloc_fail(&r.mem, n, false);
        int rc = fixture_try_open(&r);
        bool fired = fault_alloc_fired(&r.mem) != 0;
        fault_alloc_fail(&r.mem, 0, false);
        if (rc) { /* opening again completes what was begun (REC-3) */
            ck_assert(rc == LLADD_NO_MEMORY || rc == LLADD_UNDO_FAILED);
            fixture_open(&r);
        } else {
            instantly += pages_pending() > 0;
            fully += pages_pending() == 0;
        }
        expect_history();
        fixture_free(&r);
        if (!fired)
            break;
    }
    ck_assert_uint_gt(instantly, 0);
    ck_assert_uint_gt(fully, 0);
}
END_TEST

/* BUF-2, BUF-5. A torn page is rebuilt from its image when it is fetched. */
START_TEST(a_torn_page_is_rebuilt_when_it_is_fetched)
{
    begin_case((unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES));
    fixture_crash(&r, &fault_power);
    damage_page(15);
    fixture_open(&r);
    expect_history();
    fixture_free(&r);
}
END_TEST

/* A damaged page without a base is an error for threads that fetch it, and for checkpoints, but for
 * no other call. If the page is free, no call fails. */
START_TEST(a_page_without_a_base_matters_only_if_it_is_in_use)
{
    for (unsigned freed = 0; freed < 2; freed++) {
        fixture_init(&r, (unsigned)_i & ~(unsigned)(FIXTURE_THREADS | FIXTURE_FILES));
        r.options.recovery = LLADD_RECOVER_INSTANT;
        r.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* so that no page images are logged */
        fixture_open(&r);
        fixture_pages(&r, pages, 2);
        for (unsigned i = 1; i <= 300; i++) { /* the log with the format record is truncated */
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, cell_put_wide(txn, cell_of(pages[1], 2), i, WIDE_MAX / 2));
            done(lladd_commit(txn));
            if (i % 100 == 0) /* the truncated segment is reused or removed */
                ok_db(&r, lladd_checkpoint(r.db, &r.err));
        }
        fixture_maintain(&r);
        fixture_set(&r, cell_of(pages[0], 0), 5);
        fixture_set(&r, cell_of(pages[1], 0), 6);
        if (freed) {
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, lladd_page_free(txn, pages[0]));
            done(lladd_commit(txn));
        }
        fixture_crash(&r, &fault_power);
        damage_page(0);
        fixture_open(&r);
        fixture_expect(&r, cell_of(pages[1], 0), 6);
        if (freed) {
            fixture_maintain(&r);
            ck_assert_uint_eq(pages_pending(), 0);
        } else {
            uint64_t value;
            for (unsigned twice = 0; twice < 2; twice++) {
                ck_assert_int_eq(cell_read(r.db, cell_of(pages[0], 0), &value, &r.err),
                                 LLADD_CORRUPT_PAGE);
                ck_assert_uint_eq(r.err.page.v, pages[0].v);
                ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_CORRUPT_PAGE);
            }
            ck_assert_uint_eq(pages_pending(), 1);
            fixture_set(&r, cell_of(pages[1], 1), 7);
            struct lladd_db *db = r.db;
            r.db = NULL;
            ck_assert_int_eq(lladd_close(db), LLADD_CORRUPT_PAGE);
            r.options.recovery = LLADD_RECOVER_FULL;
            ck_assert_int_eq(fixture_try_open(&r), LLADD_CORRUPT_PAGE);
        }
        fixture_free(&r);
    }
}
END_TEST

/* ---- threads ---- */

enum { READERS = 3 };

static void *read_and_change(void *arg)
{
    unsigned who = *(unsigned *)arg;
    for (unsigned i = 0; i < PAGES; i++) {
        unsigned p = (i * 7 + who * 11) % PAGES;
        ck_assert_uint_eq(cell_get(r.db, cell_of(pages[p], 0)), (uint64_t)ROUNDS * (10 + p));
        struct lladd_txn *txn;
        struct lladd_error err = LLADD_ERROR_INIT;
        ck_assert_int_eq(lladd_begin(r.db, NULL, &txn, &err), 0);
        ok(txn, cell_add(txn, cell_of(pages[p], 3), 1));
        done(i % 4 ? lladd_commit_async(txn, NULL) : lladd_abort(txn));
    }
    return NULL;
}

/* Several threads fetch and change pages while the background thread redoes them. In some cases the
 * background thread is delayed, so that the other threads fetch the pages first. */
START_TEST(threads_fetch_pages_while_they_are_redone)
{
    pthread_t thread[READERS];
    unsigned who[READERS];
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_FILES);
    fixture_crash(&r, &fault_power);
    bool held = _i & FIXTURE_THREADS && _i & FIXTURE_RESERVED;
    if (held)
        test_world_stop_at(&r.world, "recovery.step");
    fixture_open(&r);
    if (held) /* when the readers begin, the background thread must have begun, because they may
               * leave it nothing to do */
        ck_assert(test_world_await(&r.world, "recovery.step", 1));
    for (unsigned i = 0; i < READERS; i++) {
        who[i] = i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_and_change, &who[i]), 0);
    }
    if (held)
        test_world_release(&r.world, "recovery.step");
    for (unsigned i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t sum = 0;
        for (unsigned i = 0; i < PAGES; i++)
            sum += cell_get(r.db, cell_of(pages[i], 3));
        ck_assert_uint_eq(sum, READERS * (PAGES - PAGES / 4));
        expect_history();
        fixture_reopen(&r);
    }
    fixture_free(&r);
}
END_TEST

/* After the last page is redone, the background thread takes a checkpoint, so that a later crash
 * does not need this redo again. */
START_TEST(the_background_thread_ends_with_a_checkpoint)
{
    begin_case(FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0));
    fixture_crash(&r, &fault_power);
    test_world_stop_at(&r.world, "checkpoint.before_flush");
    fixture_open(&r);
    ck_assert(test_world_await(&r.world, "checkpoint.before_flush", 1));
    ck_assert_uint_eq(pages_pending(), 0);
    test_world_release(&r.world, "checkpoint.before_flush");
    expect_history();
    fixture_free(&r);
}
END_TEST

/* Any call may be made while the checkpoint at the end of recovery is taken. */
START_TEST(a_handle_is_asked_while_recovery_is_checkpointed)
{
    enum { TIMES = 20 };
    unsigned char uuid[16], again[16];
    fixture_init(&r, FIXTURE_THREADS | (_i ? FIXTURE_RESERVED : 0));
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    lladd_db_uuid(r.db, uuid);
    write_history(false);
    fixture_crash(&r, &fault_power);
    test_world_stop_at(&r.world, "checkpoint.before_control");
    fixture_open(&r);
    ck_assert(test_world_await(&r.world, "checkpoint.before_control", 1));
    test_world_release(&r.world, "checkpoint.before_control");
    for (unsigned i = 0; i < TIMES; i++) {
        lladd_db_uuid(r.db, again);
        ck_assert_mem_eq(uuid, again, 16);
        ck_assert_uint_eq(lladd_page_size(r.db), BLOCK);
        ck_assert_uint_gt(lladd_page_count(r.db), PAGES);
        ck_assert_int_eq(lladd_db_error(r.db, &r.err), 0);
        ck_assert_uint_lt(fixture_stats(&r).redo_bytes, 1u << 30);
    }
    expect_history();
    fixture_free(&r);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("instant recovery");
    TCase *c = tcase_create("all");
    tcase_add_loop_test(c, a_page_is_redone_when_it_is_fetched, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, losers_are_gone_when_open_returns, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, steps_redo_the_rest_and_take_a_checkpoint, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_checkpoint_is_taken_when_users_have_redone_all_pages, 0,
                        FIXTURE_THREADS);
    tcase_add_loop_test(c, a_checkpoint_and_close_wait_for_redo, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, crashes_while_redo_is_pending, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, pages_come_and_go_in_a_small_cache, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_transaction_in_doubt_is_decided_while_redo_is_pending, 0,
                        FIXTURE_THREADS);
    tcase_add_loop_test(c, a_page_with_pending_redo_is_freed_and_used_again, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_page_is_pending_until_its_format_is_logged, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_page_with_pending_redo_becomes_one_of_a_raw_extent, 0,
                        FIXTURE_THREADS);
    tcase_add_loop_test(c, pages_with_pending_redo_are_read_in_bulk, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_thread_with_credit_reads_pages_with_pending_redo, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_read_fails_while_a_page_is_redone, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_read_fails_in_a_step, 0, FIXTURE_THREADS);
    tcase_add_test(c, an_allocation_fails);
    tcase_add_loop_test(c, a_torn_page_is_rebuilt_when_it_is_fetched, 0, FIXTURE_THREADS);
    tcase_add_loop_test(c, a_page_without_a_base_matters_only_if_it_is_in_use, 0, FIXTURE_THREADS);
    suite_add_tcase(s, c);
    c = tcase_create("threads");
    tcase_add_loop_test(c, threads_fetch_pages_while_they_are_redone, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, the_background_thread_ends_with_a_checkpoint, 0, 2);
    tcase_add_loop_test(c, a_handle_is_asked_while_recovery_is_checkpointed, 0, 2);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
