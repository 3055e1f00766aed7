/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads use one database. They update the same and different pages, commit in all ways,
 * abort, and use savepoints. Meanwhile there are evictions, checkpoints, a log at its limit, and
 * readers of pages and of the log. The database must have exactly the committed changes, even after
 * a crash. Runs under TSan, too.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <lladd/snapshot.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, PAGES = 48 };

static struct fixture r;
static lladd_pageno pages[PAGES];
static uint32_t stop; /* atomic */

/* The task of a thread, and its results. */
struct worker {
    struct lladd_thread thread;
    unsigned index;
    unsigned rounds;
    uint64_t seed;
    int64_t sums[PAGES]; /* the sum of committed additions to each page */
    uint64_t commits, aborts, full;
    lladd_lsn last;
};

static void start(struct worker *w, void *(*fn)(void *), unsigned rounds)
{
    for (unsigned i = 0; i < THREADS; i++) {
        memset(&w[i], 0, sizeof w[i]);
        w[i].index = i;
        w[i].rounds = rounds;
        w[i].seed = i + 1;
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, fn, &w[i]), 0);
    }
}

static void join(struct worker *w)
{
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&w[i].thread);
}

static void begin_case(unsigned kind)
{
    fixture_init(&r, kind | FIXTURE_THREADS);
    r.options.cache_bytes = fixture_small_cache(kind);
    r.options.checkpoint_bytes = 24u << 10;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    lladd_atomic_store32(&stop, 0);
}

/* An assertion for threads: not every version of Check allows ck_assert in several threads. */
#define must(call) \
    do { \
        int must_rc = (call); \
        if (must_rc) { \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, must_rc); \
            abort(); \
        } \
    } while (0)

static struct lladd_txn *begin(void)
{
    struct lladd_txn *txn;
    must(lladd_begin(r.db, NULL, &txn, NULL));
    return txn;
}

/* ---- committing and aborting ------------------------------------------------------------- */

/* Runs one transaction, which adds to random pages and rolls some additions back. Returns false if
 * it has aborted. */
static bool one_transaction(struct worker *w)
{
    struct lladd_txn *txn = begin();
    int64_t mine[PAGES] = {0};
    unsigned n = 1 + (unsigned)(seeded_next(&w->seed) % 6);
    for (unsigned i = 0; i < n; i++) {
        unsigned p = (unsigned)(seeded_next(&w->seed) % PAGES), q = (p + 1) % PAGES;
        int64_t delta = (int64_t)(seeded_next(&w->seed) % 100);
        lladd_savepoint_id sp;
        switch (seeded_next(&w->seed) % 5) {
        case 0:
            must(cell_bump(txn, cell_of(pages[p], 0), delta));
            mine[p] += delta;
            break;
        case 1:
            must(cells_transfer(txn, cell_of(pages[p], 0), cell_of(pages[q], 0), delta));
            mine[p] -= delta;
            mine[q] += delta;
            break;
        case 2:
            must(lladd_savepoint(txn, &sp));
            must(cell_add(txn, cell_of(pages[p], 0), delta));
            must(cell_bump(txn, cell_of(pages[q], 0), delta));
            must(lladd_rollback_to(txn, sp));
            break;
        case 3:
            must(cell_put_wide(txn, cell_of(pages[p], 8 + w->index), (uint64_t)delta, 200));
            break;
        default:
            must(cell_add(txn, cell_of(pages[p], 0), delta));
            mine[p] += delta;
        }
    }
    if (seeded_next(&w->seed) % 4 == 0) {
        must(lladd_abort(txn));
        w->aborts++;
        return false;
    }
    if (seeded_next(&w->seed) % 3 == 0)
        must(lladd_commit(txn));
    else
        must(lladd_commit_async(txn, &w->last));
    for (unsigned p = 0; p < PAGES; p++)
        w->sums[p] += mine[p];
    w->commits++;
    return true;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < w->rounds; i++)
        one_transaction(w);
    if (w->last.v)
        must(lladd_wait_durable(r.db, w->last, NULL));
    return NULL;
}

static void expect_sums(const struct worker *w)
{
    for (unsigned p = 0; p < PAGES; p++) {
        int64_t sum = 0;
        for (unsigned i = 0; i < THREADS; i++)
            sum += w[i].sums[p];
        fixture_expect(&r, cell_of(pages[p], 0), (uint64_t)sum);
    }
}

START_TEST(what_threads_commit_is_there_and_survives)
{
    struct worker w[THREADS];
    begin_case((unsigned)_i);
    start(w, work, 150);
    join(w);
    expect_sums(w);
    struct lladd_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.active, 0);
    ck_assert_uint_gt(s.evictions, 0);
    ck_assert_uint_gt(s.checkpoints, 1);
    ck_assert_uint_gt(w[0].aborts, 0);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    expect_sums(w);
    fixture_free(&r);
}
END_TEST

/* While threads work, the device makes a copy of what a power failure would leave. */
struct catcher {
    struct lladd_device *caught;
    uint64_t at;
    uint32_t done;
};

static void catch_state(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct catcher *c = ctx;
    (void)kind;
    (void)name;
    if (number == c->at && lladd_atomic_exchange32(&c->done, 1) == 0)
        fault_device_crash(r.fd, &fault_power, c->caught);
}

START_TEST(a_crash_among_threads_leaves_whole_transactions)
{
    for (unsigned k = 0; k < 6; k++) {
        struct worker w[THREADS];
        struct catcher c = {.at = 200 + 173 * k};
        begin_case(_i ? FIXTURE_RESERVED : 0);
        ck_assert_int_eq(lladd_device_memory(&c.caught), 0);
        uint64_t calls = fault_device_calls(r.fd, FAULT_ANY | FAULT_CLOSE);
        c.at += calls;
        fault_device_hook(r.fd, catch_state, &c);
        start(w, work, 60);
        join(w);
        fault_device_hook(r.fd, NULL, NULL);
        lladd_db_kill(r.db);
        r.db = NULL;
        if (c.done) {
            fault_device_free(r.fd);
            lladd_device_close(r.base);
            r.base = c.caught;
            r.fd = fault_device_new(r.base);
            r.options.device = fault_device_dev(r.fd);
            fixture_open(&r);
            /* Transfers do not change the sum of all cells 0. The other additions are positive, and
             * the crash may have lost some of them. */
            int64_t least = 0, most = 0, sum = 0;
            for (unsigned p = 0; p < PAGES; p++) {
                sum += (int64_t)cell_get(r.db, cell_of(pages[p], 0));
                for (unsigned i = 0; i < THREADS; i++)
                    most += w[i].sums[p];
            }
            ck_assert_int_ge(sum, least);
            ck_assert_int_le(sum, most);
            fixture_set(&r, cell_of(pages[0], 30), 1);
        } else {
            lladd_device_close(c.caught);
        }
        fixture_free(&r);
    }
}
END_TEST

/* ---- readers and checkpoints beside them ------------------------------------------------- */

/* A reader must never see a torn number. The writers set cell 20 only to multiples of K, so every
 * number that a reader gets must be a multiple of K. */
enum { K = 0x01010101 };

static void *read_pages(void *arg)
{
    struct worker *w = arg;
    while (!lladd_atomic_load32(&stop)) {
        unsigned p = (unsigned)(seeded_next(&w->seed) % PAGES);
        uint64_t v;
        must(cell_read(r.db, cell_of(pages[p], 20), &v, NULL));
        must(v % K ? LLADD_CORRUPT_PAGE : 0);
        lladd_page_prefetch(r.db, pages[p], 2);
        lladd_prefetch_line(r.db, pages[p], 100);
        lladd_prefetch_lines(r.db, pages[p], 100, 100);
        w->commits++;
    }
    return NULL;
}

static void *set_multiples(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < w->rounds; i++) {
        struct lladd_txn *txn = begin();
        unsigned p = (i * THREADS + w->index) % PAGES;
        must(cell_put(txn, cell_of(pages[p], 20), (uint64_t)i * K));
        if (i % 5 == 0)
            must(lladd_abort(txn));
        else
            must(lladd_commit_async(txn, NULL));
    }
    return NULL;
}

static void *take_checkpoints(void *arg)
{
    struct worker *w = arg;
    while (!lladd_atomic_load32(&stop)) {
        must(lladd_checkpoint(r.db, NULL));
        w->commits++;
    }
    return NULL;
}

static void *follow_log(void *arg)
{
    struct worker *w = arg;
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    must(lladd_log_open(r.db, lladd_lsn_of(0), "test.put", &cursor, NULL));
    while (!lladd_atomic_load32(&stop)) {
        int rc = lladd_log_next(cursor, &e, NULL);
        if (rc == LLADD_END) {
            lladd_yield();
        } else if (rc == LLADD_OUT_OF_RANGE) { /* a checkpoint has truncated the record, because no
                                                * pin keeps it */
            lladd_log_close(cursor);
            must(lladd_log_open(r.db, lladd_lsn_of(0), "test.put", &cursor, NULL));
        } else {
            must(rc);
            size_t len = e.redo.len ? e.redo.len : e.undo.len; /* a CLR has only undo bytes */
            must(strcmp(e.op, "test.put") == 0 && len == 10 ? 0 : LLADD_CORRUPT_LOG);
            w->commits++;
        }
    }
    lladd_log_close(cursor);
    return NULL;
}

static void *look_around(void *arg)
{
    struct worker *w = arg;
    while (!lladd_atomic_load32(&stop)) {
        struct lladd_stats s = {.struct_size = sizeof s};
        struct lladd_pinner who;
        lladd_lsn snapshot;
        char tag[32];
        must(lladd_stats_get(r.db, &s));
        must(lladd_log_pinner(r.db, &who, NULL));
        must(lladd_snapshot_acquire(r.db, &snapshot, NULL));
        must(lladd_snapshot_oldest(r.db).v <= snapshot.v ? 0 : LLADD_BUG);
        must(lladd_snapshot_release(r.db, snapshot));
        must(lladd_object_applied_lsn(r.db).v <= s.log_tail + (1u << 30) ? 0 : LLADD_BUG);
        int rc = lladd_pin_set(r.db, "looker", lladd_durable_lsn(r.db), NULL);
        if (rc != LLADD_OUT_OF_RANGE) { /* otherwise a checkpoint has truncated the log before the
                                         * call */
            must(rc);
            must(lladd_pin_clear(r.db, "looker", NULL));
        }
        /* Adds names to the catalogue while checkpoints scan it. */
        if (w->commits < 300) {
            snprintf(tag, sizeof tag, "tag.%llu", (unsigned long long)w->commits);
            struct lladd_txn *txn = begin();
            must(lladd_log_note(txn, tag, lladd_span_of("x", 1), NULL));
            must(lladd_commit_async(txn, NULL));
        }
        w->commits++;
    }
    return NULL;
}

START_TEST(readers_and_checkpoints_do_not_hinder_writers)
{
    struct worker w[THREADS];
    struct worker others[4];
    void *(*const what[4])(void *) = {read_pages, take_checkpoints, follow_log, look_around};
    begin_case((unsigned)_i);
    memset(others, 0, sizeof others);
    for (unsigned i = 0; i < 4; i++) {
        others[i].seed = 100 + i;
        ck_assert_int_eq(lladd_thread_start(&others[i].thread, what[i], &others[i]), 0);
    }
    start(w, set_multiples, 300);
    join(w);
    lladd_atomic_store32(&stop, 1);
    for (unsigned i = 0; i < 4; i++)
        lladd_thread_join(&others[i].thread);
    ck_assert_uint_gt(others[0].commits, 0);
    ck_assert_uint_gt(others[1].commits, 0);
    fixture_reopen(&r);
    for (unsigned p = 0; p < PAGES; p++)
        ck_assert_uint_eq(cell_get(r.db, cell_of(pages[p], 20)) % K, 0);
    fixture_free(&r);
}
END_TEST

/* ---- commit order ------------------------------------------------------------------------ */

/* Only one thread at a time calls each callback, so these variables need not be atomic. */
static uint64_t last_logged, n_logged, badly_logged;
static uint64_t last_durable, n_durable, badly_durable;

static void on_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    (void)state;
    badly_logged += commit.v <= last_logged;
    last_logged = commit.v;
    n_logged++;
}

static void on_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)state;
    badly_durable += commit.v <= last_durable || lladd_durable_lsn(db).v <= commit.v;
    last_durable = commit.v;
    n_durable++;
}

static const struct lladd_participant watcher = {
    .struct_size = sizeof watcher,
    .name = "test.order",
    .version = 1,
    .logged = on_logged,
    .durable = on_durable,
};

static void *commit_watched(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < w->rounds; i++) {
        struct lladd_txn *txn = begin();
        lladd_lsn snapshot;
        must(lladd_txn_join(txn, &watcher, w));
        must(cell_add(txn, cell_of(pages[w->index], 0), 1));
        must(lladd_commit_async(txn, &w->last));
        must(lladd_snapshot_acquire(r.db, &snapshot, NULL));
        must(snapshot.v >= w->last.v ? 0 : LLADD_BUG); /* a snapshot includes each commit that has
                                                        * returned */
        must(lladd_snapshot_release(r.db, snapshot));
        if (i % 16 == 0)
            must(lladd_wait_durable(r.db, w->last, NULL));
    }
    return NULL;
}

START_TEST(participants_see_the_commits_of_all_threads_in_lsn_order)
{
    struct worker w[THREADS];
    last_logged = n_logged = badly_logged = 0;
    last_durable = n_durable = badly_durable = 0;
    fixture_init(&r, (unsigned)_i | FIXTURE_THREADS);
    ok_db(&r, lladd_register_participant(&r.options, &watcher, &r.err));
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    start(w, commit_watched, 300);
    join(w);
    fixture_close(&r);
    ck_assert_uint_eq(n_logged, THREADS * 300);
    ck_assert_uint_eq(n_durable, THREADS * 300);
    ck_assert_uint_eq(badly_logged, 0);
    ck_assert_uint_eq(badly_durable, 0);
    fixture_free(&r);
}
END_TEST

/* ---- a log at its limit ------------------------------------------------------------------ */

static void *fill_log(void *arg)
{
    struct worker *w = arg;
    while (w->commits < w->rounds) {
        struct lladd_txn *txn = begin();
        int rc = 0;
        for (unsigned k = 0; !rc && k < 3; k++)
            rc = cell_put_wide(txn, cell_of(pages[w->index], k), w->commits, 1500);
        if (rc) { /* aborts and tries again, because an open transaction keeps the log */
            must(rc == LLADD_LOG_FULL ? 0 : rc);
            w->full++;
            must(lladd_abort(txn));
            lladd_yield();
            continue;
        }
        must(lladd_commit_async(txn, NULL));
        w->commits++;
    }
    return NULL;
}

START_TEST(at_the_log_s_limit_writers_wait_for_a_checkpoint)
{
    struct worker w[THREADS];
    fixture_init(&r, (unsigned)_i | FIXTURE_THREADS);
    r.options.log_limit_bytes = 384u << 10;
    r.options.log_segment_max = 16u << 10;
    r.options.checkpoint_bytes = 128u << 10;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    start(w, fill_log, 150);
    join(w);
    ck_assert_uint_le(fixture_stats(&r).log_disk_bytes, 384u << 10);
    fixture_reopen(&r);
    fixture_free(&r);
}
END_TEST

START_TEST(at_the_log_s_limit_an_option_gives_an_error_instead)
{
    fixture_init(&r, (unsigned)_i);
    r.options.flags |= LLADD_OPT_LOG_FULL_ERROR;
    r.options.log_limit_bytes = 256u << 10;
    r.options.log_segment_max = 16u << 10;
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    struct lladd_txn *txn = fixture_begin(&r);
    int rc = 0;
    unsigned n = 0;
    for (; rc == 0 && n < 1000; n++)
        rc = cell_put_wide(txn, cell_of(pages[0], n % 8), n, 1500);
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ck_assert_str_ne(lladd_txn_error(txn)->message, "");
    ck_assert_int_eq(lladd_code_root(rc), LLADD_ROOT_RETRY);
    done(lladd_abort(txn)); /* the log has room for the rollback */
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(pages[0], 0), 7);
    fixture_reopen(&r);
    fixture_expect(&r, cell_of(pages[0], 0), 7);
    fixture_free(&r);
}
END_TEST

/* A transaction needs log space. The transaction itself keeps the log, so no checkpoint can free
 * any. The transaction must get an error, and not wait for ever. */
START_TEST(a_transaction_longer_than_the_log_s_limit_gets_an_error)
{
    fixture_init(&r, (unsigned)_i);
    r.options.log_limit_bytes = 256u << 10;
    r.options.log_segment_max = 16u << 10;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    struct lladd_txn *txn = fixture_begin(&r);
    int rc = 0;
    for (unsigned n = 0; rc == 0 && n < 1000; n++)
        rc = cell_put_wide(txn, cell_of(pages[0], n % 8), n, 1500);
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    done(lladd_abort(txn));
    fixture_set(&r, cell_of(pages[0], 0), 7);
    fixture_free(&r);
}
END_TEST

/* ---- prepared transactions --------------------------------------------------------------- */

static void *prepare_same(void *arg)
{
    struct worker *w = arg;
    struct lladd_gid gid = gid_of("contended");
    for (unsigned i = 0; i < w->rounds; i++) {
        struct lladd_txn *txn = begin();
        must(cell_add(txn, cell_of(pages[w->index], 0), 1));
        int rc = lladd_prepare(txn, &gid);
        if (rc == LLADD_EXISTS) {
            must(lladd_abort(txn));
            w->aborts++;
            continue;
        }
        must(rc);
        must(i % 3 ? lladd_commit(txn) : lladd_abort(txn));
        w->commits += i % 3 != 0;
    }
    return NULL;
}

START_TEST(one_global_id_belongs_to_one_thread_at_a_time)
{
    struct worker w[THREADS];
    begin_case((unsigned)_i);
    start(w, prepare_same, 100);
    join(w);
    for (unsigned i = 0; i < THREADS; i++)
        fixture_expect(&r, cell_of(pages[i], 0), w[i].commits);
    fixture_free(&r);
}
END_TEST

/* Several threads may use a transaction, one at a time. */
static void *go_on_with(void *arg)
{
    must(cell_add(arg, cell_of(pages[0], 0), 10));
    return NULL;
}

START_TEST(a_transaction_may_move_between_threads)
{
    struct lladd_thread t = {0};
    begin_case((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_add(txn, cell_of(pages[0], 0), 1));
    ck_assert_int_eq(lladd_thread_start(&t, go_on_with, txn), 0);
    lladd_thread_join(&t);
    ok(txn, cell_add(txn, cell_of(pages[0], 0), 100));
    done(lladd_commit(txn));
    fixture_expect(&r, cell_of(pages[0], 0), 111);
    fixture_free(&r);
}
END_TEST

/* The device fails while many threads work. Each gets the error, and none waits for ever. */
static void *work_until_poisoned(void *arg)
{
    struct worker *w = arg;
    for (;;) {
        struct lladd_txn *txn;
        int rc = lladd_begin(r.db, NULL, &txn, NULL);
        if (!rc) {
            rc = cell_add(txn, cell_of(pages[seeded_next(&w->seed) % PAGES], 0), 1);
            int end = rc ? lladd_abort(txn) : lladd_commit(txn);
            rc = rc ? rc : end;
        }
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
            return NULL;
        /* If a log segment cannot be made in advance, the handle is not poisoned yet. */
        must(rc == 0 || lladd_code_root(rc) == LLADD_ROOT_RESOURCE ? 0 : rc);
        w->commits += rc == 0;
    }
}

START_TEST(a_device_that_fails_reaches_every_thread)
{
    for (unsigned k = 0; k < 5; k++) {
        struct worker w[THREADS];
        begin_case(_i ? FIXTURE_RESERVED : 0);
        fault_device_fail(r.fd, 20 + 31 * k, FAULT_SYNC, EIO, true);
        start(w, work_until_poisoned, 0);
        join(w);
        ck_assert_int_eq(lladd_db_error(r.db, &r.err), LLADD_WRITE_FAILED);
        struct lladd_db *db = r.db;
        r.db = NULL;
        ck_assert_int_eq(lladd_close(db), LLADD_WRITE_FAILED);
        fault_device_power_cycle(r.fd, &fault_power);
        fixture_open(&r);
        uint64_t acked = 0, there = 0;
        for (unsigned i = 0; i < THREADS; i++)
            acked += w[i].commits;
        for (unsigned p = 0; p < PAGES; p++)
            there += cell_get(r.db, cell_of(pages[p], 0));
        ck_assert_uint_ge(there, acked);
        ck_assert_uint_le(there, acked + THREADS);
        fixture_free(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *tc = tcase_create("all");
#define LOOP(test, n) tcase_add_loop_test(tc, test, 0, n)
    LOOP(what_threads_commit_is_there_and_survives, 4);
    LOOP(a_crash_among_threads_leaves_whole_transactions, 2);
    LOOP(readers_and_checkpoints_do_not_hinder_writers, 4);
    LOOP(participants_see_the_commits_of_all_threads_in_lsn_order, 2);
    LOOP(at_the_log_s_limit_writers_wait_for_a_checkpoint, 4);
    LOOP(at_the_log_s_limit_an_option_gives_an_error_instead, FIXTURE_KINDS);
    LOOP(a_transaction_longer_than_the_log_s_limit_gets_an_error, FIXTURE_KINDS);
    LOOP(one_global_id_belongs_to_one_thread_at_a_time, 4);
    LOOP(a_transaction_may_move_between_threads, 4);
    LOOP(a_device_that_fails_reaches_every_thread, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
