/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages and extents. Allocation is part of the transaction. Freed pages are reused as soon as no
 * rollback can need them, and not earlier. No page has two owners. Wrong calls are refused and
 * change nothing.
 */
#include "op_fixture.h"

#include "operations/pages/alloc_bitmap.h"
#include "support/holder.h"

#include <lladd/blob.h>
#include <lladd/bulk.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}
static void teardown(void)
{
    fixture_free(&b);
}

static enum lladd_page_use use_of(lladd_pageno page)
{
    enum lladd_page_use use = LLADD_USE_SYSTEM;
    ok_db(&b, lladd_page_use_get(b.db, page, &use, &b.err));
    return use;
}

static lladd_pageno alloc(struct lladd_txn *txn)
{
    lladd_pageno page = {0};
    ok(txn, lladd_page_alloc(txn, &page));
    return page;
}

static lladd_pageno extent(struct lladd_txn *txn, uint64_t n, unsigned flags)
{
    lladd_pageno first = {0};
    ok(txn, lladd_extent_alloc(txn, n, flags, &first));
    return first;
}

/* ---- allocation and its undo ----------------------------------------------------------------- */

START_TEST(a_new_database_has_nothing_allocated)
{
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    ck_assert_int_eq(use_of(lladd_page_of(0)), LLADD_USE_SYSTEM);
    ck_assert_int_eq(use_of(lladd_page_of(1)), LLADD_USE_SYSTEM);
    ck_assert_int_eq(use_of(lladd_page_of(2)), LLADD_USE_NONE);
    ck_assert_int_eq(use_of(lladd_page_of(1u << 30)), LLADD_USE_NONE);
    ck_assert_uint_eq(lladd_extent_max(b.db), 16127); /* the pages of one bitmap, without the
                                                       * bitmap's own page */
}
END_TEST

START_TEST(committed_allocations_stay_and_aborted_ones_go)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno kept = alloc(txn);
    commit(txn);
    txn = fixture_begin(&b);
    lladd_pageno gone = alloc(txn);
    ck_assert_uint_ne(gone.v, kept.v);
    abort_txn(txn);
    ck_assert_int_eq(use_of(kept), LLADD_USE_PAGED);
    ck_assert_int_eq(use_of(gone), LLADD_USE_NONE);
    fixture_crash(&b);
    ck_assert_int_eq(use_of(kept), LLADD_USE_PAGED);
    ck_assert_int_eq(use_of(gone), LLADD_USE_NONE);
    ck_assert_uint_eq(fixture_pages_used(&b), 1);
}
END_TEST

START_TEST(a_crash_takes_back_what_was_not_committed)
{
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    lladd_pageno kept = alloc(txn), gone = alloc(other);
    lladd_pageno run = extent(other, 7, LLADD_EXTENT_PAGED);
    commit(txn);
    ck_assert_int_eq(use_of(gone), LLADD_USE_PAGED);
    fixture_crash(&b);
    ck_assert_int_eq(use_of(kept), LLADD_USE_PAGED);
    ck_assert_int_eq(use_of(gone), LLADD_USE_NONE);
    for (uint64_t i = 0; i < 7; i++)
        ck_assert_int_eq(use_of(lladd_page_of(run.v + i)), LLADD_USE_NONE);
}
END_TEST

START_TEST(rollback_to_a_savepoint_frees_what_came_after)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    lladd_pageno first = alloc(txn);
    ok(txn, lladd_savepoint(txn, &sp));
    lladd_pageno second = alloc(txn);
    ok(txn, lladd_page_free(txn, first));
    ok(txn, lladd_rollback_to(txn, sp));
    ck_assert_int_eq(use_of(first), LLADD_USE_PAGED);
    ck_assert_int_eq(use_of(second), LLADD_USE_NONE);
    commit(txn);
    ck_assert_int_eq(use_of(first), LLADD_USE_PAGED);
    /* The free was rolled back, so no allocation gets the page. */
    txn = fixture_begin(&b);
    for (int i = 0; i < 200; i++)
        ck_assert_uint_ne(alloc(txn).v, first.v);
    abort_txn(txn);
}
END_TEST

/* ---- freeing --------------------------------------------------------------------------------- */

START_TEST(freed_pages_come_back_after_the_commit_and_not_before)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_pageno page = alloc(txn);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_page_free(txn, page));
    ck_assert_int_eq(use_of(page), LLADD_USE_FREED);
    for (int i = 0; i < 100; i++) { /* until the commit, no transaction gets the page */
        other = fixture_begin(&b);
        ck_assert_uint_ne(alloc(other).v, page.v);
        commit(other);
        ck_assert_uint_ne(alloc(txn).v, page.v);
    }
    commit(txn);
    uint64_t pages = lladd_page_count(b.db);
    other = fixture_begin(&b);
    bool again = false;
    while (!again && lladd_page_count(b.db) == pages)
        again = alloc(other).v == page.v;
    ck_assert(again);
    commit(other);
    ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
}
END_TEST

START_TEST(a_commit_that_is_not_durable_frees_nothing_yet)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    lladd_pageno page = alloc(txn);
    lladd_lsn lsn;
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_page_free(txn, page));
    ck_assert_int_eq(lladd_commit_async(txn, &lsn), 0);
    other = fixture_begin(&b);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_ne(alloc(other).v, page.v);
    fixture_crash(&b); /* the commit is lost */
    ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
}
END_TEST

/* ---- freeing with relaxed durability --------------------------------------------------------- */

enum { LONG_EXTENT = 500, MIB = 256 /* pages */ };

static struct lladd_txn *begin_relaxed(void)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn = NULL;
    o.durability = LLADD_DURABLE_LATER;
    ck_assert_int_eq(lladd_begin(b.db, &o, &txn, &b.err), 0);
    return txn;
}

/* Commits a transaction with relaxed durability. The commit becomes durable only by a later sync
 * that has another reason. With kind 1 the commit is made by lladd_commit_async. */
static void commit_relaxed(struct lladd_txn *txn, int kind)
{
    lladd_lsn lsn;
    ok(txn, kind ? lladd_commit_async(txn, &lsn) : lladd_commit(txn));
}

/* Each transaction frees an extent and allocates another. The file must stay small. */
START_TEST(relaxed_commits_give_extents_back)
{
    lladd_pageno live = {0};
    if (_i >= 2) { /* with the library's threads */
        fixture_free(&b);
        fixture_init_threads(&b);
        fixture_open(&b);
    }
    for (int i = 0; i < 60; i++) {
        struct lladd_txn *txn = begin_relaxed();
        if (live.v)
            ok(txn, lladd_extent_free(txn, live, LONG_EXTENT));
        live = extent(txn, LONG_EXTENT, LLADD_EXTENT_PAGED);
        commit_relaxed(txn, _i % 2);
    }
    ck_assert_uint_le(lladd_page_count(b.db), 16 * MIB);
}
END_TEST

START_TEST(relaxed_commits_give_single_pages_back)
{
    enum { LIVE = 100 };
    lladd_pageno live[LIVE] = {{0}};
    for (int i = 0; i < 150; i++) {
        struct lladd_txn *txn = begin_relaxed();
        for (int k = 0; k < LIVE; k++) {
            if (live[k].v)
                ok(txn, lladd_page_free(txn, live[k]));
            live[k] = alloc(txn);
        }
        commit_relaxed(txn, _i);
    }
    ck_assert_uint_le(lladd_page_count(b.db), 8 * MIB);
}
END_TEST

/* _i 0: the contents of the blobs are logged; 1: they are not. */
START_TEST(relaxed_commits_give_blobs_back)
{
    static unsigned char bytes[300000];
    lladd_pageno blob;
    lladd_blob_bulk_from(b.db, _i ? 10000 : UINT64_MAX);
    struct lladd_txn *txn = begin_relaxed();
    ok(txn, lladd_blob_create(txn, bytes, sizeof bytes, &blob));
    commit_relaxed(txn, 0);
    for (int i = 0; i < 150; i++) {
        memset(bytes, i, sizeof bytes);
        lladd_pageno old = blob;
        txn = begin_relaxed();
        ok(txn, lladd_blob_create(txn, bytes, sizeof bytes, &blob));
        ok(txn, lladd_blob_destroy(txn, old));
        commit_relaxed(txn, 0);
    }
    ck_assert_uint_le(lladd_page_count(b.db), 16 * MIB);
}
END_TEST

/* The device has room for little more than two extents. So each allocation needs pages that an
 * earlier commit has freed. To use these, it needs a sync that makes that commit durable. */
START_TEST(no_space_is_reported_if_no_commit_is_pending)
{
    lladd_pageno live = {0};
    fault_device_capacity(b.fd, fault_device_bytes(b.fd) + (2 * LONG_EXTENT + MIB) * 4096);
    for (int i = 0; i < 20; i++) {
        struct lladd_txn *txn = begin_relaxed();
        if (live.v)
            ok(txn, lladd_extent_free(txn, live, LONG_EXTENT));
        live = extent(txn, LONG_EXTENT, LLADD_EXTENT_PAGED);
        commit_relaxed(txn, _i);
    }
    /* `txn` frees one extent and allocates the other one. While it is open, its freed pages cannot
     * be allocated, so another transaction gets LLADD_NO_SPACE. */
    struct lladd_txn *txn = begin_relaxed(), *other = begin_relaxed();
    ok(txn, lladd_extent_free(txn, live, LONG_EXTENT));
    ok(txn, lladd_extent_alloc(txn, LONG_EXTENT, LLADD_EXTENT_PAGED, &live));
    refuses(other, LLADD_NO_SPACE, lladd_extent_alloc(other, LONG_EXTENT, 0, &live));
    abort_txn(other);
    abort_txn(txn);
    fault_device_capacity(b.fd, UINT64_MAX);
}
END_TEST

static uint32_t syncs; /* number of syncs of the log; atomic */

static void count_syncs(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    (void)ctx;
    (void)number;
    if (kind == FAULT_SYNC && strncmp(name, "log", 3) == 0)
        (void)lladd_atomic_add32(&syncs, 1);
}

/* To reuse freed space, the library syncs only when much space has been freed. A sync for every
 * extent would defeat the purpose of relaxed durability. */
START_TEST(few_freed_pages_cause_no_sync)
{
    enum { SHORT_EXTENT = 8, TIMES = 2000 };
    lladd_pageno live = {0};
    lladd_atomic_store32(&syncs, 0);
    fault_device_hook(b.fd, count_syncs, NULL);
    for (int i = 0; i < TIMES; i++) {
        struct lladd_txn *txn = begin_relaxed();
        if (live.v)
            ok(txn, lladd_extent_free(txn, live, SHORT_EXTENT));
        live = extent(txn, SHORT_EXTENT, LLADD_EXTENT_PAGED);
        commit_relaxed(txn, 0);
    }
    fault_device_hook(b.fd, NULL, NULL);
    /* A sync is due after 4 MiB of freed pages, which are 128 extents. The factor 2 allows for the
     * syncs that precede the cache's writes of pages. */
    ck_assert_uint_le(lladd_atomic_load32(&syncs), 2 * TIMES * SHORT_EXTENT / (4 * MIB));
    ck_assert_uint_le(lladd_page_count(b.db), 8 * MIB);
}
END_TEST

START_TEST(an_aborted_free_gives_the_page_back_with_its_contents)
{
    lladd_pageno page = fixture_page(&b, "lladd.bytes");
    char got[6] = "";
    struct lladd_txn *txn = fixture_begin(&b), *other;
    ok(txn, lladd_bytes_set(txn, page, 0, "alive", 6));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_page_free(txn, page));
    other = fixture_begin(&b);
    for (int i = 0; i < 50; i++)
        ok(other, lladd_bytes_format(other, alloc(other)));
    commit(other);
    if (_i)
        abort_txn(txn);
    else
        fixture_crash(&b);
    ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
    ok_db(&b, lladd_bytes_get(b.db, page, 0, got, 6, &b.err));
    ck_assert_str_eq(got, "alive");
    txn = fixture_begin(&b);
    ok(txn, lladd_page_free(txn, page));
    commit(txn);
}
END_TEST

/* After a durable commit, the library drops from the cache the pages that the transaction has
 * freed. It must not drop a page that is still in use because its free was rolled back. */
START_TEST(a_free_that_was_rolled_back_drops_no_page)
{
    lladd_pageno page = fixture_page(&b, "lladd.bytes"), gone = fixture_page(&b, "lladd.bytes");
    lladd_savepoint_id sp;
    char got[6] = "";
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_bytes_set(txn, page, 0, "dirty", 6));
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_page_free(txn, page));
    ok(txn, lladd_rollback_to(txn, sp));
    ok(txn, lladd_page_free(txn, gone));
    commit(txn);
    txn = fixture_begin(&b);
    alloc(txn);
    commit(txn);
    for (int round = 0; round < 2; round++) {
        ok_db(&b, lladd_bytes_get(b.db, page, 0, got, 6, &b.err));
        ck_assert_str_eq(got, "dirty");
        fixture_crash(&b);
    }
}
END_TEST

/* `txn` frees the page and rolls that back. Then `other` frees it. The end of `txn` must not make
 * the page available, because `other` may still roll back. */
START_TEST(a_stale_reservation_frees_no_page_of_another_transaction)
{
    struct lladd_txn *txn = fixture_begin(&b), *other, *third;
    lladd_savepoint_id sp;
    lladd_pageno page = alloc(txn);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_page_free(txn, page));
    ok(txn, lladd_rollback_to(txn, sp));
    other = fixture_begin(&b);
    ok(other, lladd_page_free(other, page));
    commit(txn);
    third = fixture_begin(&b);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_ne(alloc(third).v, page.v);
    commit(third);
    abort_txn(other);
    ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
}
END_TEST

START_TEST(pages_freed_in_doubt_are_reserved_after_a_crash)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_gid gid = fixture_gid("frees");
    lladd_pageno page = alloc(txn), run = extent(txn, 300, LLADD_EXTENT_PAGED);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_page_free(txn, page));
    ok(txn, lladd_extent_free(txn, run, 300));
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&b);
    txn = fixture_begin(&b);
    for (int i = 0; i < 700; i++) {
        lladd_pageno got = alloc(txn);
        ck_assert(got.v != page.v && (got.v < run.v || got.v >= run.v + 300));
    }
    commit(txn);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i) {
        abort_txn(txn);
        ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
        ck_assert_int_eq(use_of(lladd_page_of(run.v + 299)), LLADD_USE_PAGED);
        return;
    }
    commit(txn);
    ok_db(&b, lladd_wait_durable(b.db, lladd_lsn_of(0), &b.err)); /* makes the page available */
    uint64_t pages = lladd_page_count(b.db);
    bool again = false;
    txn = fixture_begin(&b);
    while (!again && lladd_page_count(b.db) == pages)
        again = alloc(txn).v == page.v;
    ck_assert(again);
    commit(txn);
}
END_TEST

/* Before recovery has undone a loser, the pages that the loser has freed are LLADD_USE_FREED in the
 * bitmap. A logical undo of another loser allocates pages, and must not get the freed ones. */
static lladd_pageno taken_in_recovery[64];
static int n_taken;

static int greedy_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    for (n_taken = 0; n_taken < 40; n_taken++) {
        int rc = lladd_page_alloc(txn, &taken_in_recovery[n_taken]);
        if (rc)
            return rc;
    }
    return 0;
}

static const struct lladd_op greedy = {
    .struct_size = sizeof(struct lladd_op),
    .name = "test.greedy",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .compensate = greedy_compensate,
    .undo_log_max = 16384,
    .undo_pages_max = 2,
};

START_TEST(undo_in_recovery_does_not_take_a_losers_pages)
{
    lladd_op_id op;
    fixture_close(&b);
    ck_assert_int_eq(lladd_register_op(&b.options, &greedy, &b.err), 0);
    fixture_open(&b);
    ck_assert_int_eq(lladd_op_lookup(b.db, greedy.name, 1, &op), 0);
    struct lladd_txn *owner = fixture_begin(&b), *frees, *undoes, *last;
    lladd_pageno run = extent(owner, 30, LLADD_EXTENT_PAGED);
    commit(owner);
    frees = fixture_begin(&b);
    ok(frees, lladd_extent_free(frees, run, 30));
    undoes = fixture_begin(&b);
    ok(undoes, lladd_log_undo_only(undoes, op, "x", 1));
    last = fixture_begin(&b); /* makes both losers' records durable */
    alloc(last);
    commit(last);
    fixture_crash(&b);
    ck_assert_int_eq(n_taken, 40);
    for (int i = 0; i < n_taken; i++)
        ck_assert(taken_in_recovery[i].v < run.v || taken_in_recovery[i].v >= run.v + 30);
    for (uint64_t i = 0; i < 30; i++)
        ck_assert_int_eq(use_of(lladd_page_of(run.v + i)), LLADD_USE_PAGED);
}
END_TEST

/* ---- extents --------------------------------------------------------------------------------- */

START_TEST(extents_are_contiguous_and_disjoint)
{
    enum { N = 40 };
    lladd_pageno first[N];
    uint64_t len[N], seed = 5;
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < N; i++) {
        len[i] = 1 + seeded_next(&seed) % (i % 5 ? 20 : 400);
        first[i] = extent(txn, len[i], i % 3 ? LLADD_EXTENT_PAGED : LLADD_EXTENT_RAW);
        for (uint64_t p = 0; p < len[i]; p++)
            ck_assert_int_eq(use_of(lladd_page_of(first[i].v + p)),
                             i % 3 ? LLADD_USE_PAGED : LLADD_USE_RAW);
        for (int k = 0; k < i; k++)
            ck_assert(first[k].v + len[k] <= first[i].v || first[i].v + len[i] <= first[k].v);
    }
    commit(txn);
    txn = fixture_begin(&b);
    for (int i = 0; i < N; i++)
        ok(txn, lladd_extent_free(txn, first[i], len[i]));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    /* At least half of the file is one range of free pages again. */
    uint64_t pages = lladd_page_count(b.db);
    txn = fixture_begin(&b);
    extent(txn, pages / 2, LLADD_EXTENT_PAGED);
    commit(txn);
    ck_assert_uint_eq(lladd_page_count(b.db), pages);
}
END_TEST

START_TEST(the_longest_extent_and_beyond)
{
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t max = lladd_extent_max(b.db);
    lladd_pageno first;
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_extent_alloc(txn, 0, 0, &first));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_extent_alloc(txn, max + 1, 0, &first));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_extent_alloc(txn, UINT64_MAX, 0, &first));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_extent_alloc(txn, 1, 64, &first));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    lladd_pageno a = extent(txn, max, LLADD_EXTENT_PAGED), c = extent(txn, max, LLADD_EXTENT_RAW);
    ck_assert(a.v + max <= c.v || c.v + max <= a.v);
    lladd_pageno small = alloc(txn); /* taken from the free pages before the extents */
    ck_assert(small.v < a.v || small.v >= a.v + max);
    ck_assert(small.v < c.v || small.v >= c.v + max);
    commit(txn);
    fixture_crash(&b);
    ck_assert_int_eq(use_of(a), LLADD_USE_PAGED);
    ck_assert_int_eq(use_of(lladd_page_of(c.v + max - 1)), LLADD_USE_RAW);
    txn = fixture_begin(&b);
    ok(txn, lladd_extent_free(txn, a, max));
    abort_txn(txn);
    ck_assert_int_eq(use_of(lladd_page_of(a.v + max - 1)), LLADD_USE_PAGED);
}
END_TEST

START_TEST(part_of_an_extent_can_be_freed)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno run = extent(txn, 10, LLADD_EXTENT_PAGED);
    ok(txn, lladd_extent_free(txn, lladd_page_of(run.v + 3), 4));
    commit(txn);
    for (uint64_t i = 0; i < 10; i++)
        ck_assert_int_eq(use_of(lladd_page_of(run.v + i)),
                         i >= 3 && i < 7 ? LLADD_USE_FREED : LLADD_USE_PAGED);
}
END_TEST

START_TEST(bulk_extents_keep_what_was_written_past_the_log)
{
    static unsigned char bytes[5][4096], got[5][4096];
    struct lladd_txn_options system = {.struct_size = sizeof system, .system = true};
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno run = extent(txn, 5, LLADD_EXTENT_PAGED);
    for (uint64_t i = 0; i < 5; i++) { /* pages of an earlier use are dirty in the cache */
        ok(txn, lladd_bytes_format(txn, lladd_page_of(run.v + i)));
        ok(txn, lladd_bytes_set(txn, lladd_page_of(run.v + i), 0, "old", 4));
    }
    if (_i)
        commit(txn);
    else
        abort_txn(txn);
    if (_i) {
        txn = fixture_begin(&b);
        ok(txn, lladd_extent_free(txn, run, 5));
        commit(txn);
    }
    ok_db(&b, lladd_begin(b.db, &system, &txn, &b.err));
    lladd_pageno again = extent(txn, 5, LLADD_EXTENT_RAW);
    ck_assert_uint_eq(again.v, run.v);
    seeded_fill(4, bytes, sizeof bytes);
    ok(txn, lladd_bulk_write(txn, again, 5, NULL, bytes));
    ok(txn, lladd_bulk_sync(txn));
    commit(txn);
    for (int round = 0; round < 3; round++) {
        ok_db(&b, lladd_bulk_read(b.db, again, 5, true, got, &b.err));
        ck_assert_mem_eq(got, bytes, sizeof bytes);
        fixture_crash(&b);
    }
    ck_assert_int_eq(use_of(again), LLADD_USE_RAW);
    bool asked = true;
    ok_db(&b, ll_operations__is_allocated(ll_operations_of(b.db), again, &asked, &b.err));
    ck_assert(!asked); /* the page need not have a header */
}
END_TEST

/* A closed action frees a page. After the rollback of its transaction, other transactions can
 * allocate the page immediately. If a crash loses the records of the action, the page must have its
 * old contents. */
START_TEST(raw_bytes_are_not_written_before_the_log_gives_the_page_up)
{
    static unsigned char bytes[4096];
    struct lladd_action action;
    char got[4];
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno page = extent(txn, 1, LLADD_EXTENT_PAGED);
    ok(txn, lladd_bytes_format(txn, page));
    ok(txn, lladd_bytes_set(txn, page, 0, "old", 4));
    commit(txn);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    txn = fixture_begin(&b);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_page_free(txn, page));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    abort_txn(txn);
    txn = fixture_begin(&b);
    ck_assert_uint_eq(extent(txn, 1, LLADD_EXTENT_RAW).v, page.v);
    memset(bytes, _i ? 0xaa : 0, sizeof bytes);
    ok(txn, lladd_bulk_write(txn, page, 1, NULL, bytes));
    ok(txn, lladd_bulk_sync(txn));
    fixture_crash(&b);
    if (use_of(page) == LLADD_USE_PAGED) {
        ok_db(&b, lladd_bytes_get(b.db, page, 0, got, 4, &b.err));
        ck_assert_str_eq(got, "old");
    }
}
END_TEST

START_TEST(a_bulk_extent_waits_for_readers_of_its_earlier_use)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct holder looks;
    lladd_pageno run = extent(txn, 3, LLADD_EXTENT_PAGED), got;
    ok(txn, lladd_bytes_format(txn, lladd_page_of(run.v + 1)));
    abort_txn(txn);
    ck_assert_int_eq(holder_begin(&looks, b.db, lladd_page_of(run.v + 1), LLADD_LATCH_SHARED), 0);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_extent_alloc(txn, 3, LLADD_EXTENT_BULK, &got));
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(use_of(lladd_page_of(run.v + i)), LLADD_USE_NONE);
    holder_end(&looks);
    ok(txn, lladd_extent_alloc(txn, 3, LLADD_EXTENT_BULK, &got));
    commit(txn);
}
END_TEST

/* ---- misuse ---------------------------------------------------------------------------------- */

START_TEST(wrong_frees_are_refused_and_change_nothing)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno page = alloc(txn), raw = extent(txn, 4, LLADD_EXTENT_RAW);
    uint64_t count = lladd_page_count(b.db), used;
    commit(txn);
    used = fixture_pages_used(&b);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_WRONG_TYPE, lladd_page_free(txn, lladd_page_of(0)));
    refuses(txn, LLADD_WRONG_TYPE, lladd_page_free(txn, lladd_page_of(1)));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, lladd_page_of(count - 1)));
    ck_assert_uint_eq(lladd_txn_error(txn)->page.v, count - 1);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, lladd_page_of(count)));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, lladd_page_of(UINT64_MAX)));
    refuses(txn, LLADD_WRONG_TYPE, lladd_page_free(txn, raw));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_extent_free(txn, raw, 5));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_extent_free(txn, raw, 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_extent_free(txn, raw, UINT64_MAX));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    ok(txn, lladd_page_free(txn, page));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, page)); /* twice */
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, page));
    commit(txn);
    struct lladd_txn_options reader = {.struct_size = sizeof reader, .read_only = true};
    ok_db(&b, lladd_begin(b.db, &reader, &txn, &b.err));
    refuses(txn, LLADD_READ_ONLY, lladd_page_alloc(txn, &page));
    refuses(txn, LLADD_READ_ONLY, lladd_page_free(txn, raw));
    commit(txn);
}
END_TEST

/* An allocation bitmap can be formatted only on the pages that are for bitmaps. On another page the
 * call must be refused before it logs anything. */
START_TEST(bitmaps_are_formatted_only_on_their_pages)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    ck_assert_int_eq(lladd_page_format(txn, page, "lladd.map"), LLADD_BAD_ARGUMENT);
    ck_assert_uint_eq(lladd_txn_error(txn)->page.v, page.v);
    ok(txn, lladd_page_format(txn, page, "lladd.bytes"));
    commit(txn);
    fixture_crash(&b);
    ck_assert_int_eq(use_of(page), LLADD_USE_PAGED);
}
END_TEST

START_TEST(mixed_ranges_are_refused)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno run = extent(txn, 8, LLADD_EXTENT_PAGED);
    ok(txn, lladd_extent_free(txn, lladd_page_of(run.v + 4), 4));
    commit(txn);
    txn = fixture_begin(&b);
    lladd_pageno raw = extent(txn, 4, LLADD_EXTENT_RAW);
    ck_assert_uint_eq(raw.v, run.v + 4);
    refuses(txn, LLADD_WRONG_TYPE, lladd_extent_free(txn, run, 8));
    ok(txn, lladd_extent_free(txn, run, 4));
    ok(txn, lladd_extent_free(txn, raw, 4));
    commit(txn);
}
END_TEST

/* ---- bitmaps after the first one ------------------------------------------------------------- */

START_TEST(pages_of_many_groups)
{
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t span = ll_bitmap_span(4096);
    lladd_pageno big[3];
    for (int i = 0; i < 3; i++)
        big[i] = extent(txn, span - 1, LLADD_EXTENT_PAGED);
    commit(txn);
    fixture_crash(&b);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(use_of(lladd_page_of(big[i].v + span - 2)), LLADD_USE_PAGED);
    for (uint64_t g = 0; g * span < lladd_page_count(b.db); g++) {
        lladd_pageno map = ll_bitmap_page(4096, g);
        ck_assert_int_eq(use_of(map), LLADD_USE_SYSTEM);
        txn = fixture_begin(&b);
        refuses(txn, LLADD_WRONG_TYPE, lladd_page_free(txn, map));
        commit(txn);
    }
    /* A range that contains a bitmap is refused as well; the error names the bitmap's page. */
    txn = fixture_begin(&b);
    refuses(txn, LLADD_WRONG_TYPE, lladd_extent_free(txn, lladd_page_of(2 * span - 1), 3));
    ck_assert_uint_eq(lladd_txn_error(txn)->page.v, 2 * span);
    ok(txn, lladd_extent_free(txn, big[1], span - 1));
    commit(txn);
    txn = fixture_begin(&b);
    ck_assert_uint_eq(extent(txn, span - 1, LLADD_EXTENT_PAGED).v, big[1].v);
    commit(txn);
}
END_TEST

/* Simulates a crash between growing the file and formatting the bitmap of the new group. */
START_TEST(a_group_without_a_bitmap_is_empty)
{
    uint64_t span = ll_bitmap_span(4096);
    ok_db(&b, lladd_pages_extend(b.db, span + 100, &b.err));
    fixture_crash(&b);
    ck_assert_uint_ge(lladd_page_count(b.db), span + 100);
    ck_assert_int_eq(use_of(lladd_page_of(span)), LLADD_USE_SYSTEM);
    ck_assert_int_eq(use_of(lladd_page_of(span + 5)), LLADD_USE_NONE);
    bool in_use = true;
    ok_db(&b, ll_operations__is_allocated(ll_operations_of(b.db), lladd_page_of(span + 5), &in_use,
                                          &b.err));
    ck_assert(!in_use);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_page_free(txn, lladd_page_of(span + 5)));
    lladd_pageno first = extent(txn, 90, LLADD_EXTENT_PAGED);
    commit(txn);
    ck_assert(first.v > span && first.v < span + 10);
    fixture_crash(&b);
    ck_assert_int_eq(use_of(first), LLADD_USE_PAGED);
}
END_TEST

/* ---- random histories and a model ------------------------------------------------------------ */

enum { MODEL_PAGES = 8000, MODEL_TXNS = 5 };

struct model {
    unsigned char owner[MODEL_PAGES]; /* 0: free; 255: allocated; else 1 + the open transaction that
                                       * has allocated the page */
    unsigned char freer[MODEL_PAGES]; /* 1 + the open transaction that has freed the page, or 0 */
    struct lladd_txn *txn[MODEL_TXNS];
};

static void model_end(struct model *m, int t, bool keep)
{
    for (int p = 0; p < MODEL_PAGES; p++) {
        bool mine = m->owner[p] == t + 1, freed = m->freer[p] == t + 1;
        if (freed)
            m->freer[p] = 0;
        if (keep && freed)
            m->owner[p] = 0;
        else if (mine)
            m->owner[p] = keep ? 255 : 0;
    }
    m->txn[t] = NULL;
}

static void model_compare(const struct model *m)
{
    for (int p = 0; p < MODEL_PAGES; p++) {
        enum lladd_page_use use = use_of(lladd_page_of((uint64_t)p));
        bool taken = use == LLADD_USE_PAGED;
        ck_assert_msg(use == LLADD_USE_SYSTEM || taken == (m->owner[p] != 0 && !m->freer[p]),
                      "page %d", p);
    }
}

static void model_step(struct model *m, uint64_t r)
{
    int t = (int)(r % MODEL_TXNS);
    if (!m->txn[t])
        m->txn[t] = fixture_begin(&b);
    if (r >> 8 & 1) {
        uint64_t n = r >> 9 & 1 ? 1 : 1 + (r >> 16) % 30;
        lladd_pageno first = n == 1 ? alloc(m->txn[t]) : extent(m->txn[t], n, LLADD_EXTENT_PAGED);
        ck_assert_uint_le(first.v + n, MODEL_PAGES);
        for (uint64_t i = 0; i < n; i++) {
            ck_assert_uint_eq(m->owner[first.v + i], 0);
            m->owner[first.v + i] = (unsigned char)(t + 1);
        }
        return;
    }
    for (int i = 0, p = (int)((r >> 16) % MODEL_PAGES); i < MODEL_PAGES;
         i++, p = (p + 1) % MODEL_PAGES) {
        if (m->freer[p] || (m->owner[p] != 255 && m->owner[p] != t + 1))
            continue;
        ok(m->txn[t], lladd_page_free(m->txn[t], lladd_page_of((uint64_t)p)));
        m->freer[p] = (unsigned char)(t + 1);
        return;
    }
}

START_TEST(random_histories)
{
    static struct model m;
    uint64_t seed = (uint64_t)_i * 1000 + 17;
    memset(&m, 0, sizeof m);
    for (int step = 0; step < 1500; step++) {
        uint64_t r = seeded_next(&seed);
        int t = (int)(r % MODEL_TXNS);
        if (m.txn[t] && (r >> 32) % 8 == 0) {
            bool keep = r >> 40 & 1;
            if (keep)
                commit(m.txn[t]);
            else
                abort_txn(m.txn[t]);
            model_end(&m, t, keep);
        } else if ((r >> 44) % 300 == 0) {
            fixture_crash(&b);
            for (int k = 0; k < MODEL_TXNS; k++)
                model_end(&m, k, false);
            model_compare(&m);
        } else {
            model_step(&m, r);
        }
    }
    model_compare(&m);
}
END_TEST

/* A bitmap of zeros was not formatted yet, so its group has no page in use. The first bitmap is
 * formatted when the database is created, so zeros there are damage. If the library took that
 * bitmap for empty, it would allocate pages that are in use. */
START_TEST(a_first_bitmap_of_zeros_is_damage)
{
    static const unsigned char zeros[4096];
    struct lladd_iovec piece = {zeros, sizeof zeros};
    struct lladd_file *file;
    enum lladd_page_use use;
    lladd_pageno page;
    struct fixture fixture; /* a database of its own, which this test damages */
    fixture_init(&fixture, 4096);
    fixture.options.flags |= LLADD_OPT_NO_THREADS;
    fixture_open(&fixture);
    struct lladd_txn *txn = fixture_begin(&fixture);
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_commit(txn));
    fixture_close(&fixture);
    ck_assert_int_eq(fixture.base->ops->open(fixture.base, "pages", 0, &file), 0);
    ck_assert_int_eq(fixture.base->ops->pwritev(fixture.base, file, &piece, 1, sizeof zeros), 0);
    ck_assert_int_eq(fixture.base->ops->close(fixture.base, file), 0);
    fixture_open(&fixture);
    ck_assert_int_eq(lladd_page_use_get(fixture.db, page, &use, &fixture.err), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fixture.err.page.v, 1);
    txn = fixture_begin(&fixture);
    refuses(txn, LLADD_CORRUPT_PAGE, lladd_page_alloc(txn, &page));
    ok(txn, lladd_abort(txn));
    fixture_kill(&fixture); /* otherwise fixture_free would check the pages */
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pages and extents");
    TCase *c = tcase_create("pages");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_new_database_has_nothing_allocated);
    tcase_add_test(c, committed_allocations_stay_and_aborted_ones_go);
    tcase_add_test(c, a_crash_takes_back_what_was_not_committed);
    tcase_add_test(c, rollback_to_a_savepoint_frees_what_came_after);
    tcase_add_test(c, freed_pages_come_back_after_the_commit_and_not_before);
    tcase_add_test(c, a_commit_that_is_not_durable_frees_nothing_yet);
    tcase_add_loop_test(c, relaxed_commits_give_extents_back, 0, 4);
    tcase_add_loop_test(c, relaxed_commits_give_single_pages_back, 0, 2);
    tcase_add_loop_test(c, relaxed_commits_give_blobs_back, 0, 2);
    tcase_add_loop_test(c, no_space_is_reported_if_no_commit_is_pending, 0, 2);
    tcase_add_test(c, few_freed_pages_cause_no_sync);
    tcase_add_loop_test(c, an_aborted_free_gives_the_page_back_with_its_contents, 0, 2);
    tcase_add_test(c, a_free_that_was_rolled_back_drops_no_page);
    tcase_add_test(c, a_stale_reservation_frees_no_page_of_another_transaction);
    tcase_add_loop_test(c, pages_freed_in_doubt_are_reserved_after_a_crash, 0, 2);
    tcase_add_test(c, undo_in_recovery_does_not_take_a_losers_pages);
    tcase_add_test(c, extents_are_contiguous_and_disjoint);
    tcase_add_test(c, the_longest_extent_and_beyond);
    tcase_add_test(c, part_of_an_extent_can_be_freed);
    tcase_add_loop_test(c, bulk_extents_keep_what_was_written_past_the_log, 0, 2);
    tcase_add_loop_test(c, raw_bytes_are_not_written_before_the_log_gives_the_page_up, 0, 2);
    tcase_add_test(c, a_bulk_extent_waits_for_readers_of_its_earlier_use);
    tcase_add_test(c, wrong_frees_are_refused_and_change_nothing);
    tcase_add_test(c, bitmaps_are_formatted_only_on_their_pages);
    tcase_add_test(c, mixed_ranges_are_refused);
    tcase_add_test(c, pages_of_many_groups);
    tcase_add_test(c, a_group_without_a_bitmap_is_empty);
    tcase_add_test(c, a_first_bitmap_of_zeros_is_damage);
    tcase_add_loop_test(c, random_histories, 0, 6);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
