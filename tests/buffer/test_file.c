/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page file. A new page raises the page count at once, and lengthens the file when the page is
 * written. ll_buffer_extend lengthens the file in advance, so that later writes need no space. A
 * drop drops all pages of a range, or none. Extents are written and read in bulk. Pages are
 * prefetched.
 */
#include "buffer/buffer_private.h"
#include "buffer_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 16 };

static uint64_t file_size(struct fixture *r)
{
    struct lladd_file *file;
    uint64_t size;
    ck_assert_int_eq(r->base->ops->open(r->base, "pages", 0, &file), 0);
    ck_assert_int_eq(r->base->ops->size(r->base, file, &size), 0);
    ck_assert_int_eq(r->base->ops->close(r->base, file), 0);
    return size;
}

/* ---- growing ---- */

START_TEST(the_file_grows_when_pages_are_written)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 9, 1);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 10);
    ck_assert_uint_eq(file_size(&r), 0);
    ck_assert_uint_eq(fixture_get(&r, 4), 0); /* the page is beyond the end of the file, but below
                                               * the page count */
    fixture_flush(&r);
    ck_assert_uint_eq(file_size(&r), 10 * FIXTURE_PAGE);
    fixture_reopen(&r);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 10);
    ck_assert_uint_eq(fixture_get(&r, 4), 0);
    ck_assert_uint_eq(fixture_get(&r, 9), 1);
    fixture_close(&r);
}
END_TEST

START_TEST(extending_needs_the_space_now)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 1, 5);
    fixture_flush(&r);
    ck_assert_int_eq(ll_buffer_extend(r.b, 200, &r.err), 0);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 200);
    ck_assert_uint_eq(file_size(&r), 200 * FIXTURE_PAGE);
    ck_assert_uint_eq(fixture_get(&r, 1), 5);
    ck_assert_uint_eq(fixture_get(&r, 199), 0);
    uint64_t syncs = fixture_stats(&r).syncs;
    ck_assert_int_eq(ll_buffer_extend(r.b, 100, &r.err), 0); /* the file has 200 pages, so no sync
                                                              * is needed */
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs);

    /* From here on the disk is full, and the test needs no more space. */
    fault_device_capacity(r.fault, fault_device_bytes(r.fault));
    for (uint64_t n = 2; n < 200; n++)
        fixture_put(&r, n, n);
    fixture_flush(&r);
    for (uint64_t n = 2; n < 200; n++)
        ck_assert_uint_eq(fixture_stored(&r, n), n);
    fixture_close(&r);
}
END_TEST

START_TEST(extending_survives_power_loss)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    ck_assert_int_eq(ll_buffer_extend(r.b, 50, &r.err), 0);
    ll_buffer_close(r.b);
    fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_POWER, 0, false});
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 50);
    fixture_close(&r);
}
END_TEST

/* If space runs out within an extension, the call releases what it has added and changes nothing.
 * This is a resource error, which does not poison. */
START_TEST(no_space_to_extend)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_flush(&r);
    fault_device_capacity(r.fault, fault_device_bytes(r.fault) + 300 * FIXTURE_PAGE);
    ck_assert_int_eq(ll_buffer_extend(r.b, 1000, &r.err), LLADD_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "extend \"pages\""));
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 1);
    ck_assert_uint_eq(file_size(&r), FIXTURE_PAGE);
    ck_assert(!ll_poisoned(&r.poison));
    ck_assert_int_eq(ll_buffer_extend(r.b, 300, &r.err), 0);
    ck_assert_int_eq(ll_buffer_extend(r.b, UINT64_MAX / 2, &r.err), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    fixture_close(&r);
}
END_TEST

START_TEST(extending_fails_for_good)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fault_device_fail(r.fault, 1, FAULT_PWRITEV, EIO, false);
    ck_assert_int_eq(ll_buffer_extend(r.b, 10, &r.err), LLADD_WRITE_FAILED);
    ck_assert(ll_poisoned(&r.poison));
    fixture_close(&r);
}
END_TEST

/* A page written beyond the file's end lengthens the file. Extending the file later writes zeros
 * only after that page. */
START_TEST(extending_overwrites_no_page)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 20, 5);
    fixture_flush(&r);
    ck_assert_int_eq(ll_buffer_extend(r.b, 40, &r.err), 0);
    ck_assert_uint_eq(fixture_stored(&r, 20), 5);
    fixture_close(&r);
}
END_TEST

/* A process died while it extended the file, so the new length is only in the system's cache.
 * Recovery makes the length durable before it relies on it. */
START_TEST(an_extension_that_was_not_synced)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    ck_assert_int_eq(ll_buffer_extend(r.b, 10, &r.err), 0);
    for (uint64_t n = 50; n <= 60; n += 10) { /* the second time the last page cannot be read */
        fault_device_fail(r.fault, 1, FAULT_SYNC, EIO, false);
        ck_assert_int_eq(ll_buffer_extend(r.b, n, &r.err), LLADD_WRITE_FAILED);
        ll_buffer_close(r.b);
        fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_KILL, 0, false});
        ll_poison_init(&r.poison);
        ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
        ck_assert_uint_eq(ll_buffer_page_count(r.b), n);
        if (n == 60)
            fault_device_bad_sector(r.fault, "pages", (n - 1) * FIXTURE_PAGE);
        ck_assert_int_eq(ll_buffer_confirm_end(r.b, n - 40, &r.err), 0);
        ck_assert_uint_eq(file_size(&r), n * FIXTURE_PAGE);
        ll_buffer_close(r.b);
        fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_POWER, 0, false});
        ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
        ck_assert_uint_eq(ll_buffer_page_count(r.b), n);
    }
    fixture_close(&r);
}
END_TEST

/* The disk was full in the middle of a page. That page was never allocated, and recovery needs no
 * space for it. */
START_TEST(an_extension_that_ends_within_a_page)
{
    struct fixture r;
    struct lladd_file *file;
    fixture_open(&r, _i, PAGES);
    ck_assert_int_eq(ll_buffer_extend(r.b, 10, &r.err), 0);
    ll_buffer_close(r.b);
    ck_assert_int_eq(r.cfg.dev->ops->open(r.cfg.dev, "pages", 0, &file), 0);
    ck_assert_int_eq(r.cfg.dev->ops->truncate(r.cfg.dev, file, 12 * FIXTURE_PAGE + 512), 0);
    ck_assert_int_eq(r.cfg.dev->ops->close(r.cfg.dev, file), 0);
    fault_device_capacity(r.fault, fault_device_bytes(r.fault));
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    ck_assert_int_eq(ll_buffer_confirm_end(r.b, 10, &r.err), 0);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 12);
    ck_assert_uint_eq(file_size(&r), 12 * FIXTURE_PAGE);
    fixture_close(&r);
}
END_TEST

/* ---- dropping ---- */

static uint64_t given_up;

static void count_evicted(void *ctx, struct ll_frame *f)
{
    (void)ctx;
    (void)f;
    given_up++;
}

START_TEST(dropped_pages_are_forgotten)
{
    struct fixture r;
    struct fixture_dirty d;
    given_up = 0;
    fixture_init(&r, _i, 3 * PAGES);
    r.cfg.evicted = count_evicted;
    fixture_create(&r);
    for (uint64_t n = 0; n < 10; n++)
        fixture_put(&r, n, 1);
    fixture_flush(&r);
    for (uint64_t n = 0; n < 10; n++)
        fixture_put(&r, n, 2);
    ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(2), 6), 0);
    ck_assert_uint_eq(given_up, 6);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 4);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 4);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 4);
    for (uint64_t n = 0; n < 10; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n >= 2 && n < 8 ? 1 : 2);
    /* If a range has at least as many pages as slots exist, a drop scans the frames. */
    ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(1), UINT64_MAX - 1), 0);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 1);
    ck_assert_uint_eq(fixture_get(&r, 0), 2);
    ck_assert_uint_eq(fixture_get(&r, 9), 1);
    fixture_close(&r);
}
END_TEST

START_TEST(a_page_in_flight_is_forgotten_too)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    uint64_t n = 0;
    while (fixture_stats(&r).in_flight == 0 && n < 8 * PAGES)
        fixture_put(&r, n, n), n++;
    ck_assert_uint_gt(fixture_stats(&r).in_flight, 0);
    ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(0), n), 0);
    ck_assert_uint_eq(ll_buffer_dirty_min(r.b).v, UINT64_MAX);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 0);
    fixture_close(&r);
}
END_TEST

/* All pages of a range are dropped, or if one is held, none. The test uses both ways to scan the
 * range. */
START_TEST(held_pages_cannot_be_dropped)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 5; n++)
        fixture_put(&r, n, n + 1);
    static const uint64_t lengths[] = {5, 1000};
    for (unsigned k = 0; k < 4; k++) {
        unsigned how = k & 1;
        struct ll_frame *f = fixture_fix(&r, 3, how);
        uint32_t events = lladd_atomic_load32(&r.b->events);
        ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(0), lengths[k / 2]), LLADD_BUSY);
        /* The failed drop raises an event, because a thread that looks for a frame may have seen
         * that the drop held one of these pages, and may wait. */
        ck_assert_uint_ne(lladd_atomic_load32(&r.b->events), events);
        fixture_unfix(&r, f, how);
        ck_assert_uint_eq(fixture_stats(&r).frames_used, 5);
        ck_assert_uint_eq(fixture_stats(&r).dirty, 5);
        for (uint64_t n = 0; n < 5; n++)
            ck_assert_uint_eq(fixture_get(&r, n), n + 1);
    }
    ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(0), 5), 0);
    fixture_close(&r);
}
END_TEST

/* ---- bulk ---- */

static void make_extent(unsigned char *bytes, uint64_t first, uint64_t n, uint64_t lsn)
{
    memset(bytes, 0, n * FIXTURE_PAGE);
    for (uint64_t i = 0; i < n; i++)
        fixture_stamp(bytes + i * FIXTURE_PAGE, FIXTURE_PAGE, first + i, lsn, 100 + i);
}

START_TEST(bulk_writes_and_reads)
{
    enum { N = 20 };
    struct fixture r;
    unsigned char *bytes = malloc(N * FIXTURE_PAGE), *back = malloc(N * FIXTURE_PAGE);
    ck_assert(bytes && back);
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 5, 1);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    make_extent(bytes, 4, N, 1500);
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(4), N, bytes, true), 0);
    ck_assert_uint_eq(r.gate.durable, 1501);     /* BUF-1: the log is durable up to the newest page
                                                  * LSN */
    ck_assert_uint_eq(r.checker.page_writes, 3); /* two writes by the flush, and one of the
                                                  * extent */
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 4 + N);
    ck_assert_uint_eq(fixture_get(&r, 5), 101); /* the copy in the cache was dropped */
    ck_assert_uint_eq(fixture_get(&r, 0), 1);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(4), N, back, true, &r.err), 0);
    ck_assert_mem_eq(bytes, back, N * FIXTURE_PAGE);
    uint64_t syncs = fixture_stats(&r).syncs;
    ck_assert_int_eq(ll_buffer_sync(r.b, &r.err), 0); /* only now is the extent durable */
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 1);

    fixture_poke(&r, 7 * FIXTURE_PAGE + 100, "x", 1);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(4), N, back, true, &r.err),
                     LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(r.err.page.v, 7);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(4), N, back, false, &r.err), 0);
    free(bytes);
    free(back);
    fixture_close(&r);
}
END_TEST

START_TEST(raw_bytes_stay_as_they_are)
{
    struct fixture r;
    unsigned char bytes[2 * FIXTURE_PAGE], back[2 * FIXTURE_PAGE];
    fixture_open(&r, _i, PAGES);
    r.checker.raw = true;
    seeded_fill(1, bytes, sizeof bytes);
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(3), 2, bytes, false), 0);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(3), 2, back, false, &r.err), 0);
    ck_assert_mem_eq(bytes, back, sizeof bytes);
    ck_assert_uint_eq(r.gate.forces, 0);
    ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    fixture_close(&r);
}
END_TEST

/* A bulk read refuses pages with changes that are only in the cache. A bulk write drops such
 * changes. */
START_TEST(bulk_access_and_dirty_pages)
{
    struct fixture r;
    unsigned char bytes[2 * FIXTURE_PAGE], back[2 * FIXTURE_PAGE];
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 3, 1);
    fixture_put(&r, 4, 7);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(3), 2, back, true, &r.err),
                     LLADD_BAD_STATE);
    ck_assert_uint_eq(fixture_get(&r, 4), 7); /* the change is still there, and still dirty */
    ck_assert_uint_eq(fixture_stats(&r).dirty, 2);
    make_extent(bytes, 3, 2, 1500);
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(3), 2, bytes, true), 0);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    ck_assert_uint_eq(fixture_get(&r, 4), 101);
    fixture_close(&r);
}
END_TEST

struct reader {
    struct fixture *r;
    uint64_t found;
    uint32_t done;
};

static void *read_page(void *arg)
{
    struct reader *w = arg;
    w->found = fixture_get(w->r, 3);
    lladd_atomic_store32(&w->done, 1);
    return NULL;
}

/* A thread that fixes a page waits while the page is written in bulk. So the cache never has old
 * contents after the write. */
START_TEST(a_page_is_not_loaded_while_it_is_written_in_bulk)
{
    struct fixture r;
    struct lladd_thread thread = {0};
    unsigned char bytes[2 * FIXTURE_PAGE];
    struct ll_bulk_range range = {.first = 3, .n = 2}, other = {.first = 9, .n = 1};
    struct reader w = {&r, 0, 0};
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 3, 1);
    fixture_flush(&r);
    make_extent(bytes, 3, 2, 1500);
    ck_assert_int_eq(ll_buffer_bulk_begin(r.b, &range, &r.err), 0);
    ck_assert_int_eq(ll_buffer_bulk_begin(r.b, &other, &r.err), 0);
    ck_assert_uint_eq(fixture_get(&r, 2), 0); /* other pages can be read */
    ck_assert_int_eq(lladd_thread_start(&thread, read_page, &w), 0);
    while (!lladd_atomic_load32(&w.done) && !lladd_atomic_load32(&r.b->event_sleepers))
        lladd_yield();
    /* The thread sleeps. Threads that wait for an event are not woken again and again. */
    uint32_t events = lladd_atomic_load32(&r.b->events);
    for (unsigned i = 0; i < 1000; i++)
        lladd_yield();
    ck_assert_uint_eq(lladd_atomic_load32(&r.b->events), events);
    ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_SHARED | LL_FIX_TRY), LLADD_BUSY);
    ck_assert_int_eq(ll_buffer_bulk_write(r.b, &range, bytes, true, &r.err), 0);
    ck_assert_uint_eq(lladd_atomic_load32(&w.done), 0);
    ll_buffer_bulk_end(r.b, &range);
    lladd_thread_join(&thread);
    ck_assert_uint_eq(w.found, 100);
    ll_buffer_bulk_end(r.b, &other);
    fixture_close(&r);
}
END_TEST

static struct {
    struct fixture *r;
    struct lladd_thread thread;
    uint32_t done;
} flusher;

static void *flush_all(void *unused)
{
    fixture_flush(flusher.r);
    lladd_atomic_store32(&flusher.done, 1);
    return unused;
}

static void flush_meanwhile(void *unused)
{
    (void)unused;
    ck_assert_int_eq(lladd_thread_start(&flusher.thread, flush_all, NULL), 0);
    for (unsigned i = 0; i < 1000; i++)
        lladd_yield();
    ck_assert_uint_eq(lladd_atomic_load32(&flusher.done), 0);
}

/* A checkpoint can come while a bulk write drops a dirty page. The checkpoint finds the dirty page,
 * or the redo barrier that was logged before the drop. */
START_TEST(a_flush_waits_for_the_redo_barrier_of_a_dirty_page)
{
    struct fixture r;
    struct ll_bulk_range range = {.first = 3, .n = 2, .before_drop = flush_meanwhile};
    fixture_open(&r, _i, PAGES);
    memset(&flusher, 0, sizeof flusher);
    flusher.r = &r;
    fixture_put(&r, 3, 1);
    ck_assert_int_eq(ll_buffer_bulk_begin(r.b, &range, &r.err), 0);
    lladd_thread_join(&flusher.thread);
    ll_buffer_bulk_end(r.b, &range);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    fixture_close(&r);
}
END_TEST

/* A fetch that takes a long time, and ends with an error. */
static struct {
    struct fixture *r;
    uint32_t loading, answer, dropped;
    int rc;
} slow;

static int answer_late(void *ctx, struct ll_fetch *f, struct lladd_error *err)
{
    (void)ctx;
    lladd_atomic_store32(&slow.loading, 1);
    while (!lladd_atomic_load32(&slow.answer))
        lladd_yield();
    return ll_fail_page(err, LLADD_READ_FAILED, f->page, "too late");
}

static void *load_slowly(void *unused)
{
    struct lladd_error err;
    struct ll_frame *f;
    slow.rc = ll_buffer_fix(slow.r->b, lladd_page_of(3), LL_FIX_SHARED, &f, &err);
    return unused;
}

static void *drop_pages(void *unused)
{
    int rc = ll_buffer_drop(slow.r->b, lladd_page_of(2), 3);
    lladd_atomic_store32(&slow.dropped, rc ? 2 : 1);
    return unused;
}

/* A thread that loads a page, as instant recovery does, does not count as a thread that holds the
 * page. So the drop waits, and is not refused. */
START_TEST(a_drop_waits_for_a_page_that_is_loaded)
{
    struct fixture r;
    struct lladd_thread loader = {0}, dropper = {0};
    memset(&slow, 0, sizeof slow);
    slow.r = &r;
    fixture_init(&r, _i, PAGES);
    r.cfg.recovery.fetch = answer_late;
    fixture_create(&r);
    ck_assert_int_eq(ll_buffer_extend(r.b, 10, &r.err), 0);
    ck_assert_int_eq(lladd_thread_start(&loader, load_slowly, NULL), 0);
    while (!lladd_atomic_load32(&slow.loading))
        lladd_yield();
    ck_assert_int_eq(lladd_thread_start(&dropper, drop_pages, NULL), 0);
    for (unsigned i = 0; i < 1000; i++)
        lladd_yield();
    ck_assert_uint_eq(lladd_atomic_load32(&slow.dropped), 0);
    lladd_atomic_store32(&slow.answer, 1);
    lladd_thread_join(&dropper);
    lladd_thread_join(&loader);
    ck_assert_int_eq(slow.rc, LLADD_READ_FAILED);
    ck_assert_uint_eq(lladd_atomic_load32(&slow.dropped), 1);
    fixture_close(&r);
}
END_TEST

START_TEST(bulk_access_refuses)
{
    struct fixture r;
    unsigned char bytes[2 * FIXTURE_PAGE];
    lladd_pageno three = lladd_page_of(3);
    fixture_open(&r, _i, PAGES);
    make_extent(bytes, 3, 2, 1);
    fixture_put(&r, 4, 1);
    fixture_flush(&r);
    struct ll_frame *f = fixture_fix(&r, 4, LL_FIX_SHARED);
    ck_assert_int_eq(fixture_bulk(&r, three, 2, bytes, true), LLADD_BUSY);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, three, 3, bytes, true, &r.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, three, UINT64_MAX, bytes, true, &r.err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(UINT64_MAX), 2, bytes, true),
                     LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(fixture_bulk(&r, three, 0, NULL, true), 0);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, three, 0, NULL, true, &r.err), 0);

    uint64_t count = ll_buffer_page_count(r.b);
    fault_device_capacity(r.fault, fault_device_bytes(r.fault));
    lladd_pageno far = lladd_page_of(50);
    ck_assert_int_eq(fixture_bulk(&r, far, 2, bytes, true), LLADD_NO_SPACE);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), count);
    ck_assert(!ll_poisoned(&r.poison));
    fault_device_capacity(r.fault, UINT64_MAX);
    r.gate.fails = LLADD_NO_SPACE;
    make_extent(bytes, 50, 2, 9000);
    ck_assert_int_eq(fixture_bulk(&r, far, 2, bytes, true), LLADD_NO_SPACE);
    r.gate.fails = 0;
    fault_device_bad_sector(r.fault, "pages", 4 * FIXTURE_PAGE);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, three, 2, bytes, true, &r.err), LLADD_READ_FAILED);
    ck_assert_uint_eq(r.err.page.v, 4);
    fault_device_fail(r.fault, 1, FAULT_PWRITEV, EIO, false);
    ck_assert_int_eq(fixture_bulk(&r, far, 2, bytes, true), LLADD_WRITE_FAILED);
    ck_assert(ll_poisoned(&r.poison));
    fixture_close(&r);
}
END_TEST

/* Another thread poisons the database after a bulk write has begun. Then nothing is written. */
START_TEST(no_bulk_write_after_a_poison)
{
    for (int paged = 0; paged < 2; paged++) {
        struct fixture r;
        struct lladd_error why = LLADD_ERROR_INIT;
        unsigned char bytes[FIXTURE_PAGE];
        struct ll_bulk_range range = {.first = 3, .n = 1};
        fixture_open(&r, _i, PAGES);
        make_extent(bytes, 3, 1, 1);
        ck_assert_int_eq(ll_buffer_bulk_begin(r.b, &range, &r.err), 0);
        (void)ll_poison_set(&r.poison, LLADD_WRITE_FAILED, &why, NULL);
        fault_device_reset_calls(r.fault);
        ck_assert_int_eq(ll_buffer_bulk_write(r.b, &range, bytes, paged, &r.err),
                         LLADD_WRITE_FAILED);
        ck_assert_uint_eq(fault_device_calls(r.fault, FAULT_WRITES), 0);
        ll_buffer_bulk_end(r.b, &range);
        fixture_close(&r);
    }
}
END_TEST

/* ---- prefetching ---- */

START_TEST(cached_pages_are_not_prefetched)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 10; n++)
        fixture_put(&r, n, n);
    fixture_flush(&r);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 3), 3);
    ck_assert_uint_eq(fixture_get(&r, 4), 4);
    ll_buffer_prefetch(r.b, lladd_page_of(1), 6);
    ck_assert_uint_eq(r.checker.prefetched, 4); /* pages 1 2 and 5 6 */
    for (uint64_t n = 0; n < 12; n += 11) {     /* a hint for the processor, which causes no read */
        ll_buffer_touch(r.b, lladd_page_of(n), 0);
        ll_buffer_touch(r.b, lladd_page_of(n), UINT32_MAX);
        ll_buffer_touch_span(r.b, lladd_page_of(n), 64, 0);
        ll_buffer_touch_span(r.b, lladd_page_of(n), 64, UINT32_MAX);
        ll_buffer_touch_span(r.b, lladd_page_of(n), UINT32_MAX, 64);
    }
    ll_buffer_touch(r.b, lladd_page_of(UINT64_MAX), 64);
    ck_assert_uint_eq(r.checker.prefetched, 4);
    ll_buffer_prefetch(r.b, lladd_page_of(8), UINT64_MAX);
    ck_assert_uint_eq(r.checker.prefetched, 6); /* pages 8 9 */
    ll_buffer_prefetch(r.b, lladd_page_of(10), 1);
    ll_buffer_prefetch(r.b, lladd_page_of(0), 0);
    ck_assert_uint_eq(r.checker.prefetched, 6);
    r.checker.ops.prefetch = NULL; /* a device may lack the call */
    ll_buffer_prefetch(r.b, lladd_page_of(0), 10);
    ck_assert_uint_eq(r.checker.prefetched, 6);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: the page file");
    TCase *t = tcase_create("both providers, both devices");
    tcase_add_loop_test(t, the_file_grows_when_pages_are_written, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, extending_needs_the_space_now, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, extending_survives_power_loss, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, no_space_to_extend, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, extending_fails_for_good, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, extending_overwrites_no_page, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, an_extension_that_was_not_synced, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, an_extension_that_ends_within_a_page, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, dropped_pages_are_forgotten, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_in_flight_is_forgotten_too, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, held_pages_cannot_be_dropped, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, bulk_writes_and_reads, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, raw_bytes_stay_as_they_are, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, bulk_access_refuses, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, no_bulk_write_after_a_poison, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, bulk_access_and_dirty_pages, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_is_not_loaded_while_it_is_written_in_bulk, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_flush_waits_for_the_redo_barrier_of_a_dirty_page, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_drop_waits_for_a_page_that_is_loaded, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, cached_pages_are_not_prefetched, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
