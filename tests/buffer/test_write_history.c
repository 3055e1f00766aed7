/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk acknowledges a write and loses it, while the database is open. When the page is read
 * again, it is whole, but older than the page that was written. If the buffer manager still knows
 * the LSN of the lost write, it rebuilds the old page or refuses it. If it knows no LSN of the page
 * any more, it returns the old page. It never refuses a correct page.
 */
#include <lladd/sync.h>

#include "buffer_fixture.h"
#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 16, PAGES = 6 * FRAMES };

/* Reads other pages until page n is no longer cached. */
static void push_out(struct fixture *r, uint64_t n)
{
    uint64_t reads = fixture_stats(r).reads;
    for (uint64_t i = 0; fixture_stats(r).reads < reads + 4 * FRAMES; i++)
        if (i % PAGES != n)
            (void)fixture_get(r, i % PAGES);
}

/* Makes a file with pages of value 1. The cache of *r has frames for a sixth of them. */
static void open_full(struct fixture *r, int kind)
{
    fixture_init(r, kind, FRAMES);
    if (kind == FIXTURE_RESERVED || kind == FIXTURE_RESERVED_FILES)
        r->cfg.budget -= 120 << 10; /* otherwise the extra budget of the fixture would hold all
                                     * pages */
    fixture_create(r);
    for (uint64_t n = 0; n < PAGES; n++)
        fixture_format(r, n, 1);
    fixture_flush(r);
}

/* Writes `value` to the page, but the disk keeps the old contents. Returns the LSN that the page
 * should have. */
static uint64_t lose(struct fixture *r, uint64_t n, uint64_t value)
{
    unsigned char old[FIXTURE_PAGE];
    uint64_t lsn = fixture_put(r, n, value);
    fixture_peek(r, n * FIXTURE_PAGE, old, FIXTURE_PAGE);
    fixture_flush(r);
    fixture_poke(r, n * FIXTURE_PAGE, old, FIXTURE_PAGE);
    push_out(r, n);
    return lsn;
}

START_TEST(a_lost_write_is_refused)
{
    struct fixture r;
    char lsns[100];
    open_full(&r, _i);
    uint64_t before = fixture_put(&r, 5, 2);
    fixture_flush(&r);
    uint64_t lsn = lose(&r, 5, 3);
    (void)snprintf(lsns, sizeof lsns, "page 5 has page LSN %llu, but was written with %llu",
                   (unsigned long long)before, (unsigned long long)lsn);
    ck_assert_int_eq(fixture_try(&r, 5, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    ck_assert_msg(strstr(r.err.message, lsns) != NULL, "%s", r.err.message);
    ck_assert_uint_eq(r.err.page.v, 5);
    ck_assert_int_eq(fixture_try(&r, 5, LL_FIX_EXCLUSIVE), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fixture_stats(&r).lost_writes, 2);
    for (uint64_t n = 0; n < PAGES; n++)
        ck_assert(n == 5 || fixture_get(&r, n) == 1);
    /* A page that is created anew does not need the contents of the lost write. */
    fixture_format(&r, 5, 4);
    fixture_flush(&r);
    push_out(&r, 5);
    ck_assert_uint_eq(fixture_get(&r, 5), 4);
    /* After a reopen the history is empty, so a lost write is not noticed. */
    (void)lose(&r, 5, 6);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 5), 4);
    fixture_close(&r);
}
END_TEST

/* A lost write beyond the former end of the file leaves zeros, like a page that was never used. */
START_TEST(a_lost_write_that_leaves_zeros)
{
    struct fixture r;
    unsigned char zeros[FIXTURE_PAGE] = {0};
    open_full(&r, _i);
    fixture_format(&r, PAGES, 2);
    fixture_format(&r, PAGES + 1, 3);
    fixture_flush(&r);
    fixture_poke(&r, (uint64_t)PAGES * FIXTURE_PAGE, zeros, FIXTURE_PAGE);
    push_out(&r, PAGES);
    ck_assert_int_eq(fixture_try(&r, PAGES, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fixture_get(&r, PAGES + 1), 3);
    fixture_close(&r);
}
END_TEST

/* Redo gets zeros for a page with a lost write, as for any damaged page. */
START_TEST(redo_gets_zeros)
{
    struct fixture r;
    open_full(&r, _i);
    (void)lose(&r, 5, 3);
    struct ll_frame *f = fixture_fix(&r, 5, LL_FIX_EXCLUSIVE | LL_FIX_REDO);
    ck_assert(f->flags & LL_FRAME_BASELESS);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), 0);
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    fixture_close(&r);
}
END_TEST

/* ---- repair ---- */

static uint64_t rebuilt_lsn;
static struct ll_buffer *repaired;

static int repair(void *ctx, struct ll_fetch *fetch, struct lladd_error *err)
{
    (void)ctx, (void)err;
    if (fetch->state == LL_FETCH_DAMAGED) {
        ck_assert_int_eq(fetch->damage.code, LLADD_CORRUPT_PAGE);
        memset(fetch->bytes, 0, FIXTURE_PAGE);
        fixture_stamp(fetch->bytes, FIXTURE_PAGE, fetch->page.v, rebuilt_lsn, 99);
        ll_buffer_enter(repaired, fetch->frame, lladd_lsn_of(900));
        fetch->rebuilt = true;
    }
    if (fetch->state != LL_FETCH_UNREAD)
        fetch->state = LL_FETCH_DONE;
    return 0;
}

START_TEST(a_lost_write_is_repaired)
{
    struct fixture r;
    char text[100];
    open_full(&r, _i);
    ll_buffer_close(r.b);
    r.cfg.recovery.fetch = repair;
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    repaired = r.b;
    uint64_t lsn = lose(&r, 5, 3);
    /* The repair fails if the log ends before the lost write. */
    rebuilt_lsn = lsn - 1;
    ck_assert_int_eq(fixture_try(&r, 5, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    (void)snprintf(text, sizeof text, "written with page LSN %llu, but the log rebuilds it only",
                   (unsigned long long)lsn);
    ck_assert_msg(strstr(r.err.message, text) != NULL, "%s", r.err.message);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 0);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    rebuilt_lsn = lsn;
    ck_assert_uint_eq(fixture_get(&r, 5), 99);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    ck_assert_uint_eq(fixture_stats(&r).lost_writes, 2);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stored(&r, 5), 99);
    push_out(&r, 5);
    ck_assert_uint_eq(fixture_get(&r, 5), 99);
    fixture_close(&r);
}
END_TEST

/* ---- around the cache ---- */

START_TEST(bulk_writes)
{
    struct fixture r;
    unsigned char old[FIXTURE_PAGE], bytes[2 * FIXTURE_PAGE] = {0};
    open_full(&r, _i);
    fixture_peek(&r, 5 * FIXTURE_PAGE, old, FIXTURE_PAGE);
    uint64_t lsn = fixture_put(&r, 4, 2);
    fixture_flush(&r);
    fixture_stamp(bytes, FIXTURE_PAGE, 5, lsn + 1, 7);
    r.gate.tail = r.gate.durable = lsn + 2;
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(5), 1, bytes, true), 0);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(5), 1, bytes, true, &r.err), 0);
    ck_assert_uint_eq(fixture_get(&r, 5), 7);
    fixture_poke(&r, 5 * FIXTURE_PAGE, old, FIXTURE_PAGE);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(5), 1, bytes, true, &r.err),
                     LLADD_CORRUPT_PAGE);
    push_out(&r, 5);
    ck_assert_int_eq(fixture_try(&r, 5, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    /* Bytes that are not a page have no LSN, so their writes are not in the history. */
    r.checker.raw = true;
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(4), 2, bytes, false), 0);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(4), 2, bytes, false, &r.err), 0);
    fixture_poke(&r, 5 * FIXTURE_PAGE, old, FIXTURE_PAGE);
    ck_assert_uint_eq(fixture_get(&r, 5), 1);
    fixture_close(&r);
}
END_TEST

/* ---- the bound ---- */

/* Many more pages are written than the history has room for. Lost writes of the newest pages are
 * noticed. Lost writes of other pages may be noticed. No correct page is refused. */
START_TEST(a_full_history_keeps_the_newest_writes)
{
    enum { MANY = 40 * FRAMES };
    struct fixture r;
    open_full(&r, FIXTURE_HEAP);
    for (uint64_t n = PAGES; n < MANY; n++)
        fixture_format(&r, n, 1);
    fixture_flush(&r);
    unsigned char *old = malloc((size_t)MANY * FIXTURE_PAGE);
    ck_assert_ptr_nonnull(old);
    fixture_peek(&r, 0, old, (size_t)MANY * FIXTURE_PAGE);
    for (uint64_t n = 0; n < MANY; n++)
        fixture_put(&r, n, 2);
    fixture_flush(&r);
    for (uint64_t n = 0; n < MANY; n++)
        ck_assert_uint_eq(fixture_get(&r, n), 2);
    fixture_poke(&r, 0, old, (size_t)MANY * FIXTURE_PAGE);
    unsigned noticed = 0, newest = 0;
    for (uint64_t n = 0; n < MANY; n++) {
        int rc = fixture_try(&r, n, LL_FIX_SHARED);
        ck_assert(rc == LLADD_CORRUPT_PAGE || fixture_get(&r, n) == 1);
        noticed += rc != 0;
        newest += rc != 0 && n >= MANY - FRAMES;
    }
    ck_assert_uint_ge(noticed, 3 * FRAMES);
    ck_assert_uint_le(noticed, 6 * FRAMES);
    ck_assert_uint_eq(newest, FRAMES);
    free(old);
    fixture_close(&r);
}
END_TEST

/* ---- threads ---- */

enum { CROWD = 8, OWN = 4 };

#ifdef LL_TEST_SHORT
enum { CHANGES = 1000 };
#else
enum { CHANGES = 4000 };
#endif

struct worker {
    struct fixture *r;
    struct lladd_thread thread;
    uint64_t first; /* the first of the worker's own pages */
    uint64_t rounds;
    uint64_t right, refused, wrong;
};

/* Changes one of the worker's pages. The page must be as the worker has left it, or must be refused
 * for the right reason. */
static void change(struct worker *w, uint64_t n, uint64_t *value)
{
    struct ll_frame *f;
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = ll_buffer_fix(w->r->b, lladd_page_of(n), LL_FIX_EXCLUSIVE, &f, &err);
    if (rc == 0) {
        bool whole = fixture_is_whole(f->page.bytes, FIXTURE_PAGE);
        w->wrong += !whole || lladd_get64(f->page.bytes + LLADD_PAGE_HEADER) != *value;
        w->right++;
    } else {
        w->wrong += rc != LLADD_CORRUPT_PAGE || !strstr(err.message, "that write was lost");
        w->refused++;
        rc = ll_buffer_fix(w->r->b, lladd_page_of(n), LL_FIX_EXCLUSIVE | LL_FIX_FRESH, &f, &err);
    }
    if (rc != 0) {
        w->wrong++;
        return;
    }
    (void)fixture_change(w->r, f, ++*value);
    ll_buffer_unfix(w->r->b, f, LL_FIX_EXCLUSIVE);
}

/* Reads other pages, so that the worker's pages are evicted. */
static void read_others(struct worker *w, uint64_t *seed)
{
    enum { OTHERS = CROWD * OWN };
    for (unsigned i = 0; i < 8; i++) {
        struct ll_frame *f;
        lladd_pageno n = {OTHERS + seeded_next(seed) % (PAGES - OTHERS)};
        int rc = ll_buffer_fix(w->r->b, n, LL_FIX_SHARED, &f, NULL);
        w->wrong += rc != 0 || lladd_get64(f->page.bytes + LLADD_PAGE_HEADER) != 1;
        if (rc == 0)
            ll_buffer_unfix(w->r->b, f, LL_FIX_SHARED);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t values[OWN] = {1, 1, 1, 1};
    uint64_t seed = w->first + 1;
    /* The number of evicted frames depends on the machine. So each worker continues until a page of
     * its own was refused. */
    for (uint64_t i = 0; i < w->rounds || (w->refused == 0 && i < 100 * w->rounds); i++) {
        uint64_t k = seeded_next(&seed) % OWN;
        change(w, w->first + k, &values[k]);
        read_others(w, &seed);
    }
    return NULL;
}

/* The disk loses every eighth write call. */
START_TEST(a_crowd_on_a_disk_that_loses_writes)
{
    static const unsigned crowd[] = {2, CROWD};
    unsigned n = crowd[_i % 2];
    struct worker w[CROWD] = {0};
    struct fixture r;
    open_full(&r, _i / 2 ? FIXTURE_RESERVED : FIXTURE_HEAP);
    r.checker.lose_every = 8;
    for (unsigned i = 0; i < n; i++) {
        w[i] = (struct worker){.r = &r, .first = (uint64_t)i * OWN, .rounds = CHANGES / n};
        ck_assert_int_eq(lladd_thread_start(&w[i].thread, work, &w[i]), 0);
    }
    uint64_t refused = 0, right = 0;
    for (unsigned i = 0; i < n; i++) {
        lladd_thread_join(&w[i].thread);
        ck_assert_uint_eq(w[i].wrong, 0);
        refused += w[i].refused;
        right += w[i].right;
    }
    ck_assert_uint_gt(right, 0);
    ck_assert_uint_ge(fixture_stats(&r).lost_writes, refused);
    ck_assert_uint_gt(refused, 0);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: what was written");
    TCase *t = tcase_create("both providers");
    tcase_add_loop_test(t, a_lost_write_is_refused, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_lost_write_that_leaves_zeros, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, redo_gets_zeros, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_lost_write_is_repaired, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, bulk_writes, 0, FIXTURE_KINDS);
    tcase_add_test(t, a_full_history_keeps_the_newest_writes);
    tcase_add_loop_test(t, a_crowd_on_a_disk_that_loses_writes, 0, 4);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
