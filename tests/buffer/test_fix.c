/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages are cached, latched and evicted. The contents of a page are kept, even in a small cache.
 * Latches exclude each other or are shared, as their modes say. The cache never exceeds its budget.
 * A fix that fails returns the reason and has changed nothing. The tests run with both frame
 * providers, on files and in memory (_i).
 */
#include "buffer/latch.h"
#include "buffer_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 8 };

/* ---- contents ---- */

START_TEST(a_page_keeps_what_it_is_given)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 5; n++)
        fixture_put(&r, n, 100 + n);
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(fixture_get(&r, n), 100 + n);
    fixture_flush(&r);
    fixture_reopen(&r);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 5);
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(fixture_get(&r, n), 100 + n);
    fixture_close(&r);
}
END_TEST

/* The file has a hundred times as many pages as the cache has frames. The pages are read and
 * changed in a random order, and read again after a reopen. */
START_TEST(a_small_cache_shows_all_of_a_large_file)
{
    enum { ALL = 100 * PAGES };
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    uint64_t seed = 1, value[ALL] = {0};
    for (uint64_t n = 0; n < ALL; n++)
        fixture_put(&r, n, 0);
    for (unsigned i = 0; i < 2 * ALL; i++) {
        uint64_t n = seeded_next(&seed) % ALL;
        ck_assert_uint_eq(fixture_get(&r, n), value[n]);
        value[n] = i + 1;
        fixture_put(&r, n, value[n]);
    }
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_gt(s.evictions, ALL);
    ck_assert_uint_le(s.frames_used, s.frames);
    ck_assert_uint_le(s.bytes, r.cfg.budget);
    fixture_flush(&r);
    fixture_reopen(&r);
    for (uint64_t n = 0; n < ALL; n++)
        ck_assert_uint_eq(fixture_get(&r, n), value[n]);
    fixture_close(&r);
}
END_TEST

/* The cache works with pages of every size. */
START_TEST(every_page_size)
{
    for (uint32_t size = LL_PAGE_SIZE_MIN; size <= LL_PAGE_SIZE_MAX; size *= 2) {
        struct fixture r;
        fixture_init(&r, _i, PAGES);
        r.cfg.page_size = r.checker.page_size = size;
        r.cfg.budget = 20 * (uint64_t)size + (256 << 10);
        fixture_create(&r);
        for (uint64_t n = 0; n < 120; n++)
            fixture_put(&r, n, n + 1);
        for (uint64_t n = 0; n < 120; n++)
            ck_assert_uint_eq(fixture_get(&r, n), n + 1);
        fixture_close(&r);
    }
}
END_TEST

/* The pages are so far apart that each has its own part of the address space, of the frames and of
 * the page table. */
START_TEST(a_sparse_file)
{
    enum { STEPS = 12 };
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t k = 0; k < STEPS; k++)
        fixture_put(&r, (UINT64_C(1) << k) * 1000, k + 1);
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t k = 0; k < STEPS; k++)
            ck_assert_uint_eq(fixture_get(&r, (UINT64_C(1) << k) * 1000), k + 1);
    }
    ck_assert_uint_eq(fixture_get(&r, 999), 0); /* this page was never written, so it is a page of
                                                 * zeros */
    ck_assert_uint_le(fixture_stats(&r).bytes, r.cfg.budget);
    fixture_close(&r);
}
END_TEST

/* ---- the edges of the file ---- */

START_TEST(beyond_the_end)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 0);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(r.err.page.v, 0);
    fixture_put(&r, 3, 1);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 4);
    ck_assert_int_eq(fixture_try(&r, 2, LL_FIX_SHARED), 0);
    ck_assert_int_eq(fixture_try(&r, 4, LL_FIX_EXCLUSIVE), LLADD_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "no page 4: 4 pages"));
    ck_assert_int_eq(fixture_try(&r, UINT64_MAX, LL_FIX_SHARED), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(fixture_try(&r, UINT64_MAX, LL_FIX_EXCLUSIVE | LL_FIX_FRESH),
                     LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(fixture_try(&r, INT64_MAX / FIXTURE_PAGE, LL_FIX_EXCLUSIVE | LL_FIX_REDO),
                     LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 4);
    fixture_close(&r);
}
END_TEST

START_TEST(a_fresh_fix_clears_a_cached_page)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 77);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    for (unsigned i = 0; i < FIXTURE_PAGE; i++)
        ck_assert_uint_eq(f->page.bytes[i], 0);
    ck_assert_uint_ne(f->rec_lsn, 0); /* the earlier change is not written yet */
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    fixture_close(&r);
}
END_TEST

START_TEST(invalid_flags_of_a_fix_are_refused)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_FRESH), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_REDO), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(fixture_try(&r, 0, 1 << 10), LLADD_BAD_ARGUMENT);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 0);
    fixture_put(&r, 0, 1); /* the calls above are also refused when the page is cached */
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_FRESH), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_REDO), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_REDO), 0);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), 0);
    fixture_close(&r);
}
END_TEST

/* ---- latches ---- */

START_TEST(latches_exclude_and_share)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    struct ll_frame *a = fixture_fix(&r, 0, LL_FIX_SHARED);
    ck_assert(!ll_frame_exclusive(a));
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), 0);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    struct ll_frame *b = fixture_fix(&r, 0, LL_FIX_SHARED);
    ck_assert_ptr_eq(a, b);
    fixture_unfix(&r, a, LL_FIX_SHARED);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    fixture_unfix(&r, b, LL_FIX_SHARED);
    a = fixture_fix(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY);
    ck_assert(ll_frame_exclusive(a));
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), LLADD_BUSY);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    fixture_unfix(&r, a, LL_FIX_EXCLUSIVE);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), 0);
    fixture_close(&r);
}
END_TEST

/* The upper half of the latch word counts fixes. When this count is full, it is moved to the
 * counters of the buffer manager, so that no hit is lost. */
START_TEST(the_count_of_hits_does_not_run_over)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_SHARED);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    f->latch |= UINT64_C(0xfffffffe) << 32;
    uint64_t before = fixture_stats(&r).hits;
    for (int i = 0; i < 4; i++) {
        unsigned how = i & 1;
        f = fixture_fix(&r, 0, how);
        fixture_unfix(&r, f, how);
        ck_assert_uint_eq(fixture_stats(&r).hits, before + (unsigned)i + 1);
    }
    fixture_close(&r);
}
END_TEST

/* ---- optimistic reads ---- */

/* An optimistic read is valid if two things have not happened since it began: no thread has fixed
 * the page exclusively, and the page was not evicted. */
START_TEST(optimistic_reads_validate)
{
    enum { AWAY = 64 * PAGES }; /* more pages than any of the caches holds */
    struct fixture r;
    struct lladd_read g, h;
    uint64_t word = 0, seen;
    fixture_open(&r, _i, PAGES);
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    fixture_put(&r, 0, 10);
    fixture_put(&r, 1, 11);
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &g)); /* the page has no USED bit yet */
    ck_assert_uint_eq(fixture_get(&r, 1), 11);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    ck_assert_uint_eq(g.size, FIXTURE_PAGE);
    lladd_read_copy(&g, FIXTURE_PAGE - 8, &word, 1);
    ck_assert(ll_buffer_read_valid(&g));
    struct ll_frame *f = fixture_fix(&r, 1, LL_FIX_SHARED);
    memcpy(&seen, f->page.bytes + FIXTURE_PAGE - 8, 8);
    ck_assert_uint_eq(word, seen);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &h)); /* in parallel with a shared fix */
    fixture_unfix(&r, f, LL_FIX_SHARED);
    ck_assert(ll_buffer_read_valid(&h));
    /* A change makes the read invalid. */
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    f = fixture_fix(&r, 1, LL_FIX_EXCLUSIVE);
    ck_assert(!ll_buffer_read_valid(&g));
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &h));
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    ck_assert(!ll_buffer_read_valid(&g));
    /* The page is evicted and read again, and then has the same count of fixes as before. */
    fixture_flush(&r);
    for (uint64_t n = 0; n < AWAY; n++)
        fixture_put(&r, 2 + n, n);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_get(&r, 1), 11);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(fixture_get(&r, 1), 11);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    uint64_t was = *g.version_, same = 0;
    fixture_put(&r, 1, 12);
    fixture_flush(&r);
    for (uint64_t n = 0; n < AWAY; n++)
        (void)fixture_get(&r, 2 + n);
    ck_assert_uint_gt(fixture_stats(&r).evictions, AWAY);
    for (int i = 0; i < 200 && !same; i++) {
        ck_assert_uint_eq(fixture_get(&r, 1), 12);
        same = ((*g.version_ ^ was) & LATCH_VERSION) == 0;
    }
    /* In the heap the page gets another frame. */
    ck_assert(same || _i == FIXTURE_HEAP || _i == FIXTURE_HEAP_FILES || !LL_TEST_CAN_RESERVE);
    ck_assert(!ll_buffer_read_valid(&g));
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(UINT64_MAX >> 13), &g));
    fixture_close(&r);
}
END_TEST

/* ---- running out ---- */

START_TEST(all_frames_held)
{
    struct fixture r;
    struct ll_frame *held[12 * PAGES];
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        fixture_put(&r, n, n);
    unsigned count = 0;
    while (count < 12 * PAGES &&
           ll_buffer_fix(r.b, lladd_page_of(count), LL_FIX_SHARED, &held[count], &r.err) == 0)
        count++;
    ck_assert_uint_ge(count, PAGES);
    ck_assert_uint_lt(count, 12 * PAGES);
    ck_assert_int_eq(r.err.code, LLADD_NO_FRAME);
    ck_assert_int_eq(fixture_try(&r, 12 * PAGES, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), LLADD_NO_FRAME);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 12 * PAGES); /* the failed fixes have changed
                                                               * nothing */
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), 0);   /* hits still succeed */

    fixture_unfix(&r, held[--count], LL_FIX_SHARED);
    ck_assert_int_eq(fixture_try(&r, 12 * PAGES - 1, LL_FIX_SHARED), 0);
    while (count > 0)
        fixture_unfix(&r, held[--count], LL_FIX_SHARED);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n);
    fixture_close(&r);
}
END_TEST

START_TEST(a_budget_too_small)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    struct ll_buffer_config cfg = r.cfg;
    struct ll_buffer *b;
    cfg.budget = 3 * FIXTURE_PAGE;
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(r.err.message, "12288 bytes"));
    fixture_close(&r);
}
END_TEST

START_TEST(eviction_can_be_forbidden)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        fixture_put(&r, n, n);
    test_world_fail_at(&r.world, "buffer.evict", 1, EAGAIN);
    int rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES && rc == 0; n++)
        rc = fixture_try(&r, n, LL_FIX_SHARED);
    ck_assert_int_eq(rc, LLADD_NO_FRAME);
    fixture_close(&r);
}
END_TEST

/* ---- opening ---- */

START_TEST(opening)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    struct ll_buffer_config cfg = r.cfg;
    struct ll_buffer *b;
    cfg.create = true;
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_EXISTS);
    cfg.create = false;
    cfg.name = "elsewhere";
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_MISSING_FILE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "elsewhere"));
    static const uint32_t sizes[] = {0, 512, 2048, 5000, 131072};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cfg = r.cfg;
        cfg.page_size = sizes[i];
        ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_BAD_ARGUMENT);
    }
    cfg = r.cfg;
    cfg.recovery.may_write = NULL;
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_BAD_ARGUMENT);
    cfg = r.cfg;
    cfg.name = NULL;
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, NULL), LLADD_BAD_ARGUMENT);
    fixture_close(&r);
}
END_TEST

/* From this budget on address space is reserved, if the file fits. */
enum { RESERVED_FROM = 256 << 20 };

/* The configuration can demand reserved address space, or the heap. */
START_TEST(no_address_space)
{
    struct fixture r;
    fixture_init(&r, FIXTURE_RESERVED, PAGES);
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), LLADD_NO_MEMORY);
    r.cfg.frames = LL_FRAMES_AUTO;
    r.cfg.budget = RESERVED_FROM;
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    fixture_create(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    fixture_put(&r, 0, 5);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    fixture_flush(&r);
    fixture_reopen(&r); /* now address space can be reserved */
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 3);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    /* Later, an error is returned only by a fix that needs more address space. */
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    uint64_t far = (UINT64_C(3) << 30) / FIXTURE_PAGE;
    ck_assert_int_eq(fixture_try(&r, far, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), LLADD_NO_MEMORY);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 1);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    ck_assert_int_eq(fixture_try(&r, far, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), 0);
    fixture_close(&r);
}
END_TEST

/* When address space was reserved for all pages, a fix needs no more address space (REC-3). */
START_TEST(wanted_address_space_is_for_all_pages)
{
    struct fixture r;
    const uint64_t far = (UINT64_C(3) << 30) / FIXTURE_PAGE;
    fixture_init(&r, FIXTURE_RESERVED_FILES, PAGES);
    r.cfg.budget += 1 << 20;
    fixture_create(&r);
    fixture_put(&r, 0, 5);
    fixture_put(&r, far, 7);
    fixture_flush(&r);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_want_memory(r.b, &r.err), 0);
    ck_assert_int_eq(ll_buffer_want_address_space(r.b, &r.err), 0);
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    fault_alloc_fail(&r.mem, 1, true);
    ck_assert_uint_eq(fixture_get(&r, far), 7);
    ck_assert_uint_eq(fixture_get(&r, far / 2), 0);
    fault_alloc_fail(&r.mem, 0, false);
    test_world_fail_at(&r.world, "buffer.map", 0, 0);
    fixture_reopen(&r);
    test_world_fail_at(&r.world, "buffer.map", 2, ENOMEM);
    ck_assert_int_eq(ll_buffer_want_address_space(r.b, &r.err), LLADD_NO_MEMORY);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    fixture_close(&r);
}
END_TEST

START_TEST(small_budgets_choose_the_heap)
{
    struct fixture r;
    fixture_init(&r, FIXTURE_HEAP, PAGES);
    r.cfg.frames = LL_FRAMES_AUTO;
    fixture_create(&r);
    fixture_put(&r, 0, 5);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 0);
    fixture_close(&r);
}
END_TEST

/* Lengthens the page file by a hole, which no test reads. */
static void lengthen(const struct fixture *r, uint64_t size)
{
    struct lladd_file *file;
    ck_assert_int_eq(r->base->ops->open(r->base, r->cfg.name, 0, &file), 0);
    ck_assert_int_eq(r->base->ops->truncate(r->base, file, size), 0);
    ck_assert_int_eq(r->base->ops->close(r->base, file), 0);
}

/* A small cache does not spend its budget on the address space of a huge file. */
START_TEST(wanted_address_space_leaves_room_for_pages)
{
    struct fixture r;
    fixture_open(&r, FIXTURE_RESERVED_FILES, PAGES);
    lengthen(&r, UINT64_C(100) << 30);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_want_address_space(r.b, &r.err), 0);
    for (uint64_t n = 0; n < 2 * PAGES; n++)
        fixture_put(&r, n, n + 1);
    ck_assert_uint_eq(fixture_get(&r, 0), 1);
    ck_assert_uint_le(fixture_stats(&r).bytes, r.cfg.budget);
    fixture_close(&r);
}
END_TEST

/* The heap is chosen if many misses are expected: reserved address space makes only hits
 * faster. */
START_TEST(a_file_larger_than_the_cache_chooses_the_heap)
{
    struct fixture r;
    fixture_init(&r, FIXTURE_RESERVED_FILES, PAGES);
    r.cfg.frames = LL_FRAMES_AUTO;
    r.cfg.budget = RESERVED_FROM;
    fixture_create(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 1);
    lengthen(&r, RESERVED_FROM);
    fixture_reopen(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    lengthen(&r, RESERVED_FROM + FIXTURE_PAGE);
    fixture_reopen(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    fixture_put(&r, 0, 5);
    ck_assert_uint_eq(fixture_get(&r, 0), 5);
    fixture_close(&r);
}
END_TEST

/* A database that uses no page must be cheap, because the simulator opens thousands of them. */
START_TEST(an_unused_heap_is_one_allocation)
{
    struct fixture r;
    fixture_open(&r, FIXTURE_HEAP, 1000);
    ck_assert_uint_eq(fault_alloc_live(&r.mem), 1);
    ck_assert_uint_lt(fault_alloc_bytes(&r.mem), 4096);
    fixture_close(&r);
}
END_TEST

/* ---- poison ---- */

static void poison_in_a_read(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct fixture *r = ctx;
    struct lladd_error why = LLADD_ERROR_INIT;
    (void)number, (void)name;
    if (kind == FAULT_PREAD)
        (void)ll_poison_set(&r->poison, LLADD_WRITE_FAILED, &why, NULL);
}

/* During the read another thread's write of the page may have failed, and the page may have been
 * evicted since. Then the file has an older page. */
START_TEST(a_page_read_while_a_write_fails_is_refused)
{
    for (unsigned redo = 0; redo < 2; redo++) {
        unsigned how = redo ? LL_FIX_EXCLUSIVE | LL_FIX_REDO : LL_FIX_SHARED;
        struct fixture r;
        fixture_open(&r, _i, PAGES);
        fixture_put(&r, 0, 1);
        fixture_flush(&r);
        fixture_reopen(&r);
        fault_device_hook(r.fault, poison_in_a_read, &r);
        ck_assert_int_eq(fixture_try(&r, 0, how), LLADD_WRITE_FAILED);
        fault_device_hook(r.fault, NULL, NULL);
        fixture_close(&r);
    }
}
END_TEST

START_TEST(pages_read_in_bulk_while_a_write_fails_are_refused)
{
    unsigned char *bytes = malloc((size_t)64 << 10);
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    fixture_reopen(&r);
    fault_device_hook(r.fault, poison_in_a_read, &r);
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(0), 1, bytes, true, &r.err),
                     LLADD_WRITE_FAILED);
    fault_device_hook(r.fault, NULL, NULL);
    free(bytes);
    fixture_close(&r);
}
END_TEST

/* ---- page type callbacks ---- */

static struct {
    uint64_t loaded, evicted;
    int loaded_rc;
} seen;

static int count_loaded(void *ctx, struct ll_frame *f, struct lladd_error *err)
{
    (void)ctx;
    if (seen.loaded_rc != 0)
        return ll_fail(err, seen.loaded_rc, "not this one");
    seen.loaded++;
    f->private_ = malloc(1);
    return 0;
}

static void count_evicted(void *ctx, struct ll_frame *f)
{
    (void)ctx;
    seen.evicted++;
    free(f->private_);
    f->private_ = NULL;
}

/* The log has the whole contents of the even pages, which are therefore not read. Only the odd
 * pages are read. */
static int half_of_them(void *ctx, struct ll_fetch *fetch, struct lladd_error *err)
{
    (void)ctx, (void)err;
    if (fetch->state == LL_FETCH_READ) {
        fetch->state = LL_FETCH_DONE;
    } else if (fetch->page.v % 2 == 0) {
        memset(fetch->bytes, 0, FIXTURE_PAGE);
        fetch->state = LL_FETCH_DONE;
    }
    return 0;
}

START_TEST(a_page_that_the_log_does_not_hold_is_read)
{
    struct fixture r;
    fixture_init(&r, _i, PAGES);
    fixture_create(&r);
    for (uint64_t n = 0; n < 2 * PAGES; n++)
        fixture_put(&r, n, 7 + n);
    fixture_flush(&r);
    r.cfg.recovery.fetch = half_of_them;
    fixture_reopen(&r);
    for (uint64_t n = 0; n < 2 * PAGES; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n % 2 ? 7 + n : 0);
    fixture_close(&r);
}
END_TEST

START_TEST(callbacks_come_in_pairs)
{
    struct fixture r;
    memset(&seen, 0, sizeof seen);
    fixture_init(&r, _i, PAGES);
    r.cfg.loaded = count_loaded;
    r.cfg.evicted = count_evicted;
    fixture_create(&r);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        fixture_put(&r, n, n);
    ck_assert_uint_eq(seen.loaded, 0); /* no page was loaded, because all were created */
    uint64_t fresh = seen.evicted;
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        (void)fixture_get(&r, n);
    ck_assert_uint_ge(seen.loaded, PAGES);
    ck_assert_uint_gt(seen.evicted, fresh);

    seen.loaded_rc = LLADD_WRONG_TYPE;
    int rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES && rc == 0; n++)
        rc = fixture_try(&r, n, LL_FIX_SHARED);
    ck_assert_int_eq(rc, LLADD_WRONG_TYPE);
    ck_assert_str_eq(r.err.message, "not this one");
    seen.loaded_rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n);
    /* A page that is created anew loses its type's private data. */
    uint64_t before = seen.evicted;
    ck_assert_int_eq(fixture_try(&r, 12 * PAGES - 1, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), 0);
    ck_assert_uint_eq(seen.evicted, before + 1);
    fixture_close(&r); /* frees the private data of the cached pages, which the leak checker would
                        * report otherwise */
}
END_TEST

/* ---- counting ---- */

START_TEST(statistics)
{
    enum { CACHE = 32 };
    struct fixture r;
    fixture_open(&r, _i, CACHE);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 0, 2);
    fixture_put(&r, 1, 3);
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.misses, 2);
    ck_assert_uint_eq(s.hits, 1);
    ck_assert_uint_eq(s.dirty, 2);
    ck_assert_uint_eq(s.frames_used, 2);
    ck_assert_uint_eq(s.reads, 0);
    ck_assert_uint_eq(s.writes, 0);
    fixture_flush(&r);
    s = fixture_stats(&r);
    ck_assert_uint_eq(s.dirty, 0);
    ck_assert_uint_eq(s.in_flight, 0);
    ck_assert_uint_eq(s.writes, 1); /* neighbours are written together */
    ck_assert_uint_eq(s.pages_written, 2);
    ck_assert_uint_eq(s.syncs, 1);
    for (uint64_t n = 2; n < 4 * CACHE; n++)
        fixture_put(&r, n, n);
    s = fixture_stats(&r);
    ck_assert_uint_eq(s.misses, 4 * CACHE);
    ck_assert_uint_eq(s.hits, 1);
    ck_assert_uint_gt(s.evictions, 0);
    fixture_close(&r);
}
END_TEST

#ifdef LLADD_DEBUG
static void dirty_without_latch(void *arg)
{
    struct fixture *r = arg;
    struct ll_frame *f = fixture_fix(r, 0, LL_FIX_SHARED);
    ll_buffer_dirty(r->b, f, lladd_lsn_of(1));
}

START_TEST(debug_builds_know_the_holder_of_a_latch)
{
    struct fixture r;
    fixture_open(&r, FIXTURE_HEAP, PAGES);
    fixture_put(&r, 0, 1);
    ck_assert(dies_saying(dirty_without_latch, &r, "ll_frame_exclusive"));
    fixture_close(&r);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("buffer: fixing");
    TCase *t = tcase_create("both providers, both devices");
    tcase_add_loop_test(t, a_page_keeps_what_it_is_given, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_small_cache_shows_all_of_a_large_file, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, every_page_size, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_sparse_file, FIXTURE_HEAP_FILES, FIXTURE_KINDS);
    tcase_add_loop_test(t, beyond_the_end, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_fresh_fix_clears_a_cached_page, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, invalid_flags_of_a_fix_are_refused, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, latches_exclude_and_share, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, the_count_of_hits_does_not_run_over, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, optimistic_reads_validate, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, all_frames_held, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_budget_too_small, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, eviction_can_be_forbidden, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, opening, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_that_the_log_does_not_hold_is_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_read_while_a_write_fails_is_refused, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, pages_read_in_bulk_while_a_write_fails_are_refused, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, callbacks_come_in_pairs, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, statistics, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    t = tcase_create("one provider");
    if (LL_TEST_CAN_RESERVE)
        tcase_add_test(t, no_address_space);
    if (LL_TEST_CAN_RESERVE)
        tcase_add_test(t, wanted_address_space_is_for_all_pages);
    if (LL_TEST_CAN_RESERVE)
        tcase_add_test(t, wanted_address_space_leaves_room_for_pages);
    tcase_add_test(t, small_budgets_choose_the_heap);
    if (LL_TEST_CAN_RESERVE)
        tcase_add_test(t, a_file_larger_than_the_cache_chooses_the_heap);
    tcase_add_test(t, an_unused_heap_is_one_allocation);
#ifdef LLADD_DEBUG
    tcase_add_test(t, debug_builds_know_the_holder_of_a_latch);
#endif
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
