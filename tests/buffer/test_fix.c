/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages are cached, latched and evicted: the contents of a page are kept, however small the cache;
 * latches exclude and share as their modes say; the budget is a limit; a fix that fails returns the
 * reason and has changed nothing. With both frame providers, on files and in memory (_i).
 */
#include "buffer/latch.h"
#include "rig.h"
#include "support/fixtures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 8 };

/* ---- contents ---- */

START_TEST(a_page_keeps_what_it_is_given)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 5; n++)
        rig_put(&r, n, 100 + n);
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(rig_get(&r, n), 100 + n);
    rig_flush(&r);
    rig_reopen(&r);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 5);
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(rig_get(&r, n), 100 + n);
    rig_close(&r);
}
END_TEST

/* A hundred times what fits, in a scattered order, twice; then after a reopen. */
START_TEST(a_small_cache_shows_all_of_a_large_file)
{
    enum { ALL = 100 * PAGES };
    struct rig r;
    rig_open(&r, _i, PAGES);
    uint64_t seed = 1, value[ALL] = {0};
    for (uint64_t n = 0; n < ALL; n++)
        rig_put(&r, n, 0);
    for (unsigned i = 0; i < 2 * ALL; i++) {
        uint64_t n = seeded_next(&seed) % ALL;
        ck_assert_uint_eq(rig_get(&r, n), value[n]);
        value[n] = i + 1;
        rig_put(&r, n, value[n]);
    }
    struct ll_buffer_stats s = rig_stats(&r);
    ck_assert_uint_gt(s.evictions, ALL);
    ck_assert_uint_le(s.frames_used, s.frames);
    ck_assert_uint_le(s.bytes, r.cfg.budget);
    rig_flush(&r);
    rig_reopen(&r);
    for (uint64_t n = 0; n < ALL; n++)
        ck_assert_uint_eq(rig_get(&r, n), value[n]);
    rig_close(&r);
}
END_TEST

/* With pages of every size. */
START_TEST(every_page_size)
{
    for (uint32_t size = LL_PAGE_SIZE_MIN; size <= LL_PAGE_SIZE_MAX; size *= 2) {
        struct rig r;
        rig_init(&r, _i, PAGES);
        r.cfg.page_size = r.checker.page_size = size;
        r.cfg.budget = 20 * (uint64_t)size + (256 << 10);
        rig_create(&r);
        for (uint64_t n = 0; n < 120; n++)
            rig_put(&r, n, n + 1);
        for (uint64_t n = 0; n < 120; n++)
            ck_assert_uint_eq(rig_get(&r, n), n + 1);
        rig_close(&r);
    }
}
END_TEST

/* Far apart, so that each has its own part of the address space, frames and page table. */
START_TEST(a_sparse_file)
{
    enum { STEPS = 12 };
    struct rig r;
    rig_open(&r, _i, PAGES);
    for (uint64_t k = 0; k < STEPS; k++)
        rig_put(&r, (UINT64_C(1) << k) * 1000, k + 1);
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t k = 0; k < STEPS; k++)
            ck_assert_uint_eq(rig_get(&r, (UINT64_C(1) << k) * 1000), k + 1);
    }
    ck_assert_uint_eq(rig_get(&r, 999), 0); /* never written: a page of zeros */
    ck_assert_uint_le(rig_stats(&r).bytes, r.cfg.budget);
    rig_close(&r);
}
END_TEST

/* ---- the edges of the file ---- */

START_TEST(beyond_the_end)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 0);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_SHARED), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(r.err.page.v, 0);
    rig_put(&r, 3, 1);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 4);
    ck_assert_int_eq(rig_try(&r, 2, LL_FIX_SHARED), 0);
    ck_assert_int_eq(rig_try(&r, 4, LL_FIX_EXCLUSIVE), LLADD_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "no page 4: 4 pages"));
    ck_assert_int_eq(rig_try(&r, UINT64_MAX, LL_FIX_SHARED), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(rig_try(&r, UINT64_MAX, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(rig_try(&r, INT64_MAX / RIG_PAGE, LL_FIX_EXCLUSIVE | LL_FIX_REDO),
                     LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 4);
    rig_close(&r);
}
END_TEST

START_TEST(fresh_makes_zeros_of_anything)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    rig_put(&r, 0, 77);
    struct ll_frame *f = rig_fix(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    for (unsigned i = 0; i < RIG_PAGE; i++)
        ck_assert_uint_eq(f->page.bytes[i], 0);
    ck_assert_uint_ne(f->rec_lsn, 0); /* the earlier change is still to be written */
    rig_unfix(&r, f, LL_FIX_EXCLUSIVE);
    rig_close(&r);
}
END_TEST

START_TEST(what_a_fix_may_ask_for)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_FRESH), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_REDO), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(rig_try(&r, 0, 1 << 10), LLADD_BAD_ARGUMENT);
    ck_assert_uint_eq(rig_stats(&r).frames_used, 0);
    rig_put(&r, 0, 1); /* and no less when the page is cached */
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_FRESH), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_REDO), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_REDO), 0);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), 0);
    rig_close(&r);
}
END_TEST

/* ---- latches ---- */

START_TEST(latches_exclude_and_share)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    rig_put(&r, 0, 1);
    struct ll_frame *a = rig_fix(&r, 0, LL_FIX_SHARED);
    ck_assert(!ll_frame_exclusive(a));
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), 0);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    struct ll_frame *b = rig_fix(&r, 0, LL_FIX_SHARED);
    ck_assert_ptr_eq(a, b);
    rig_unfix(&r, a, LL_FIX_SHARED);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    rig_unfix(&r, b, LL_FIX_SHARED);
    a = rig_fix(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY);
    ck_assert(ll_frame_exclusive(a));
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), LLADD_BUSY);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    rig_unfix(&r, a, LL_FIX_EXCLUSIVE);
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), 0);
    rig_close(&r);
}
END_TEST

/* The word counts fixes in its upper half; when that is full, the count goes on in another
 * place. */
START_TEST(the_count_of_hits_does_not_run_over)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    rig_put(&r, 0, 1);
    struct ll_frame *f = rig_fix(&r, 0, LL_FIX_SHARED);
    rig_unfix(&r, f, LL_FIX_SHARED);
    f->latch |= UINT64_C(0xfffffffe) << 32;
    uint64_t before = rig_stats(&r).hits;
    for (int i = 0; i < 4; i++) {
        unsigned how = i & 1;
        f = rig_fix(&r, 0, how);
        rig_unfix(&r, f, how);
        ck_assert_uint_eq(rig_stats(&r).hits, before + (unsigned)i + 1);
    }
    rig_close(&r);
}
END_TEST

/* ---- running out ---- */

/* An optimistic read is valid if no thread has had the page to change it since, and if it was not
 * evicted in between (whatever its count of fixes). */
START_TEST(optimistic_reads_validate)
{
    enum { AWAY = 64 * PAGES }; /* more pages than any of the caches holds */
    struct rig r;
    struct lladd_read g, h;
    uint64_t word = 0, seen;
    rig_open(&r, _i, PAGES);
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    rig_put(&r, 0, 10);
    rig_put(&r, 1, 11);
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &g)); /* the clock has seen no use yet */
    ck_assert_uint_eq(rig_get(&r, 1), 11);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    ck_assert_uint_eq(g.size, RIG_PAGE);
    lladd_read_copy(&g, RIG_PAGE - 8, &word, 1);
    ck_assert(ll_buffer_read_valid(&g));
    struct ll_frame *f = rig_fix(&r, 1, LL_FIX_SHARED);
    memcpy(&seen, f->page.bytes + RIG_PAGE - 8, 8);
    ck_assert_uint_eq(word, seen);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &h)); /* in parallel with a shared fix */
    rig_unfix(&r, f, LL_FIX_SHARED);
    ck_assert(ll_buffer_read_valid(&h));
    /* A change invalidates it. */
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    f = rig_fix(&r, 1, LL_FIX_EXCLUSIVE);
    ck_assert(!ll_buffer_read_valid(&g));
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(1), &h));
    rig_unfix(&r, f, LL_FIX_EXCLUSIVE);
    ck_assert(!ll_buffer_read_valid(&g));
    /* Evicted and read again, with the same count of fixes as before. */
    rig_flush(&r);
    for (uint64_t n = 0; n < AWAY; n++)
        rig_put(&r, 2 + n, n);
    rig_flush(&r);
    ck_assert_uint_eq(rig_get(&r, 1), 11);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(rig_get(&r, 1), 11);
    ck_assert(ll_buffer_read_begin(r.b, lladd_page_of(1), &g));
    uint64_t was = *g.version_, same = 0;
    rig_put(&r, 1, 12);
    rig_flush(&r);
    for (uint64_t n = 0; n < AWAY; n++)
        (void)rig_get(&r, 2 + n);
    ck_assert_uint_gt(rig_stats(&r).evictions, AWAY);
    for (int i = 0; i < 200 && !same; i++) {
        ck_assert_uint_eq(rig_get(&r, 1), 12);
        same = ((*g.version_ ^ was) & LATCH_VERSION) == 0;
    }
    /* In the heap the page gets another frame. */
    ck_assert(same || _i == RIG_HEAP || _i == RIG_HEAP_FILES || !LL_TEST_CAN_RESERVE);
    ck_assert(!ll_buffer_read_valid(&g));
    ck_assert(!ll_buffer_read_begin(r.b, lladd_page_of(UINT64_MAX >> 13), &g));
    rig_close(&r);
}
END_TEST

START_TEST(all_frames_held)
{
    struct rig r;
    struct ll_frame *held[12 * PAGES];
    rig_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        rig_put(&r, n, n);
    unsigned count = 0;
    while (count < 12 * PAGES &&
           ll_buffer_fix(r.b, lladd_page_of(count), LL_FIX_SHARED, &held[count], &r.err) == 0)
        count++;
    ck_assert_uint_ge(count, PAGES);
    ck_assert_uint_lt(count, 12 * PAGES);
    ck_assert_int_eq(r.err.code, LLADD_NO_FRAME);
    ck_assert_int_eq(rig_try(&r, 12 * PAGES, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), LLADD_NO_FRAME);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 12 * PAGES); /* no fix has changed anything */
    ck_assert_int_eq(rig_try(&r, 0, LL_FIX_SHARED), 0);       /* hits go on */

    rig_unfix(&r, held[--count], LL_FIX_SHARED);
    ck_assert_int_eq(rig_try(&r, 12 * PAGES - 1, LL_FIX_SHARED), 0);
    while (count > 0)
        rig_unfix(&r, held[--count], LL_FIX_SHARED);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        ck_assert_uint_eq(rig_get(&r, n), n);
    rig_close(&r);
}
END_TEST

START_TEST(a_budget_too_small)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    struct ll_buffer_config cfg = r.cfg;
    struct ll_buffer *b;
    cfg.budget = 3 * RIG_PAGE;
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(r.err.message, "12288 bytes"));
    rig_close(&r);
}
END_TEST

START_TEST(eviction_can_be_forbidden)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        rig_put(&r, n, n);
    test_world_fail_at(&r.world, "buffer.evict", 1, EAGAIN);
    int rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES && rc == 0; n++)
        rc = rig_try(&r, n, LL_FIX_SHARED);
    ck_assert_int_eq(rc, LLADD_NO_FRAME);
    rig_close(&r);
}
END_TEST

/* ---- opening ---- */

START_TEST(opening)
{
    struct rig r;
    rig_open(&r, _i, PAGES);
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
    rig_close(&r);
}
END_TEST

/* From this budget on address space is reserved, if the file fits. */
enum { RESERVED_FROM = 256 << 20 };

/* Address space is reserved at open, when the heap can still be chosen instead. */
START_TEST(no_address_space)
{
    struct rig r;
    rig_init(&r, RIG_RESERVED, PAGES);
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), LLADD_NO_MEMORY);
    r.cfg.frames = LL_FRAMES_AUTO;
    r.cfg.budget = RESERVED_FROM;
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    rig_create(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    rig_put(&r, 0, 5);
    ck_assert_uint_eq(rig_get(&r, 0), 5);
    rig_flush(&r);
    rig_reopen(&r); /* now it can be reserved */
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 3);
    ck_assert_uint_eq(rig_get(&r, 0), 5);
    /* Later, only a fix that needs more of it gets an error. */
    test_world_fail_at(&r.world, "buffer.map", 1, ENOMEM);
    uint64_t far = (UINT64_C(3) << 30) / RIG_PAGE;
    ck_assert_int_eq(rig_try(&r, far, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), LLADD_NO_MEMORY);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 1);
    ck_assert_uint_eq(rig_get(&r, 0), 5);
    ck_assert_int_eq(rig_try(&r, far, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), 0);
    rig_close(&r);
}
END_TEST

START_TEST(small_budgets_choose_the_heap)
{
    struct rig r;
    rig_init(&r, RIG_HEAP, PAGES);
    r.cfg.frames = LL_FRAMES_AUTO;
    rig_create(&r);
    rig_put(&r, 0, 5);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 0);
    rig_close(&r);
}
END_TEST

/* A hole is enough: no test reads it. */
static void lengthen(const struct rig *r, uint64_t size)
{
    struct lladd_file *file;
    ck_assert_int_eq(r->base->ops->open(r->base, r->cfg.name, 0, &file), 0);
    ck_assert_int_eq(r->base->ops->truncate(r->base, file, size), 0);
    ck_assert_int_eq(r->base->ops->close(r->base, file), 0);
}

/* Where many misses are expected: reserved address space makes hits faster, not misses. */
START_TEST(a_file_larger_than_the_cache_chooses_the_heap)
{
    struct rig r;
    rig_init(&r, RIG_RESERVED_FILES, PAGES);
    r.cfg.frames = LL_FRAMES_AUTO;
    r.cfg.budget = RESERVED_FROM;
    rig_create(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 1);
    lengthen(&r, RESERVED_FROM);
    rig_reopen(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    lengthen(&r, RESERVED_FROM + RIG_PAGE);
    rig_reopen(&r);
    ck_assert_uint_eq(test_world_passed(&r.world, "buffer.map"), 2);
    rig_put(&r, 0, 5);
    ck_assert_uint_eq(rig_get(&r, 0), 5);
    rig_close(&r);
}
END_TEST

/* The simulator opens databases by the thousand. */
START_TEST(an_unused_heap_is_one_allocation)
{
    struct rig r;
    rig_open(&r, RIG_HEAP, 1000);
    ck_assert_uint_eq(fault_alloc_live(&r.mem), 1);
    ck_assert_uint_lt(fault_alloc_bytes(&r.mem), 4096);
    rig_close(&r);
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

/* The log has all contents of the even pages: zeros. The odd ones are read. */
static int half_of_them(void *ctx, struct ll_fetch *fetch, struct lladd_error *err)
{
    (void)ctx, (void)err;
    if (fetch->state == LL_FETCH_READ) {
        fetch->state = LL_FETCH_DONE;
    } else if (fetch->page.v % 2 == 0) {
        memset(fetch->bytes, 0, RIG_PAGE);
        fetch->state = LL_FETCH_DONE;
    }
    return 0;
}

START_TEST(a_page_that_the_log_does_not_hold_is_read)
{
    struct rig r;
    rig_init(&r, _i, PAGES);
    rig_create(&r);
    for (uint64_t n = 0; n < 2 * PAGES; n++)
        rig_put(&r, n, 7 + n);
    rig_flush(&r);
    r.cfg.recovery.fetch = half_of_them;
    rig_reopen(&r);
    for (uint64_t n = 0; n < 2 * PAGES; n++)
        ck_assert_uint_eq(rig_get(&r, n), n % 2 ? 7 + n : 0);
    rig_close(&r);
}
END_TEST

START_TEST(callbacks_come_in_pairs)
{
    struct rig r;
    memset(&seen, 0, sizeof seen);
    rig_init(&r, _i, PAGES);
    r.cfg.loaded = count_loaded;
    r.cfg.evicted = count_evicted;
    rig_create(&r);
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        rig_put(&r, n, n);
    ck_assert_uint_eq(seen.loaded, 0); /* they were created */
    uint64_t fresh = seen.evicted;
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        (void)rig_get(&r, n);
    ck_assert_uint_ge(seen.loaded, PAGES);
    ck_assert_uint_gt(seen.evicted, fresh);

    seen.loaded_rc = LLADD_WRONG_TYPE;
    int rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES && rc == 0; n++)
        rc = rig_try(&r, n, LL_FIX_SHARED);
    ck_assert_int_eq(rc, LLADD_WRONG_TYPE);
    ck_assert_str_eq(r.err.message, "not this one");
    seen.loaded_rc = 0;
    for (uint64_t n = 0; n < 12 * PAGES; n++)
        ck_assert_uint_eq(rig_get(&r, n), n);
    /* A page that is created anew loses its type's private data. */
    uint64_t before = seen.evicted;
    ck_assert_int_eq(rig_try(&r, 12 * PAGES - 1, LL_FIX_EXCLUSIVE | LL_FIX_FRESH), 0);
    ck_assert_uint_eq(seen.evicted, before + 1);
    rig_close(&r); /* the leak checker finds what close does not report */
}
END_TEST

/* ---- counting ---- */

START_TEST(statistics)
{
    enum { CACHE = 32 };
    struct rig r;
    rig_open(&r, _i, CACHE);
    rig_put(&r, 0, 1);
    rig_put(&r, 0, 2);
    rig_put(&r, 1, 3);
    struct ll_buffer_stats s = rig_stats(&r);
    ck_assert_uint_eq(s.misses, 2);
    ck_assert_uint_eq(s.hits, 1);
    ck_assert_uint_eq(s.dirty, 2);
    ck_assert_uint_eq(s.frames_used, 2);
    ck_assert_uint_eq(s.reads, 0);
    ck_assert_uint_eq(s.writes, 0);
    rig_flush(&r);
    s = rig_stats(&r);
    ck_assert_uint_eq(s.dirty, 0);
    ck_assert_uint_eq(s.in_flight, 0);
    ck_assert_uint_eq(s.writes, 1); /* neighbours are written together */
    ck_assert_uint_eq(s.pages_written, 2);
    ck_assert_uint_eq(s.syncs, 1);
    for (uint64_t n = 2; n < 4 * CACHE; n++)
        rig_put(&r, n, n);
    s = rig_stats(&r);
    ck_assert_uint_eq(s.misses, 4 * CACHE);
    ck_assert_uint_eq(s.hits, 1);
    ck_assert_uint_gt(s.evictions, 0);
    rig_close(&r);
}
END_TEST

#ifdef LLADD_DEBUG
static void dirty_without_latch(void *arg)
{
    struct rig *r = arg;
    struct ll_frame *f = rig_fix(r, 0, LL_FIX_SHARED);
    ll_buffer_dirty(r->b, f, lladd_lsn_of(1));
}

START_TEST(debug_builds_know_the_holder_of_a_latch)
{
    struct rig r;
    rig_open(&r, RIG_HEAP, PAGES);
    rig_put(&r, 0, 1);
    ck_assert(dies_saying(dirty_without_latch, &r, "ll_frame_exclusive"));
    rig_close(&r);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("buffer: fixing");
    TCase *t = tcase_create("both providers, both devices");
    tcase_add_loop_test(t, a_page_keeps_what_it_is_given, 0, RIG_KINDS);
    tcase_add_loop_test(t, a_small_cache_shows_all_of_a_large_file, 0, RIG_KINDS);
    tcase_add_loop_test(t, every_page_size, 0, RIG_KINDS);
    tcase_add_loop_test(t, a_sparse_file, RIG_HEAP_FILES, RIG_KINDS);
    tcase_add_loop_test(t, beyond_the_end, 0, RIG_KINDS);
    tcase_add_loop_test(t, fresh_makes_zeros_of_anything, 0, RIG_KINDS);
    tcase_add_loop_test(t, what_a_fix_may_ask_for, 0, RIG_KINDS);
    tcase_add_loop_test(t, latches_exclude_and_share, 0, RIG_KINDS);
    tcase_add_loop_test(t, the_count_of_hits_does_not_run_over, 0, RIG_KINDS);
    tcase_add_loop_test(t, optimistic_reads_validate, 0, RIG_KINDS);
    tcase_add_loop_test(t, all_frames_held, 0, RIG_KINDS);
    tcase_add_loop_test(t, a_budget_too_small, 0, RIG_KINDS);
    tcase_add_loop_test(t, eviction_can_be_forbidden, 0, RIG_KINDS);
    tcase_add_loop_test(t, opening, 0, RIG_KINDS);
    tcase_add_loop_test(t, a_page_that_the_log_does_not_hold_is_read, 0, RIG_KINDS);
    tcase_add_loop_test(t, callbacks_come_in_pairs, 0, RIG_KINDS);
    tcase_add_loop_test(t, statistics, 0, RIG_KINDS);
    suite_add_tcase(s, t);
    t = tcase_create("one provider");
    if (LL_TEST_CAN_RESERVE)
        tcase_add_test(t, no_address_space);
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
