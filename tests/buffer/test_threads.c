/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads. Latches exclude other threads. A thread that needs no I/O does not wait for I/O
 * (BUF-3). A page is read once, even if many threads want it. After many threads have changed,
 * read, evicted, flushed and dropped pages at the same time, each page is as its last change has
 * left it. Threads are stopped at named points, not by sleeping. The tests run with both frame
 * providers (_i), on files in memory, and under TSan as well.
 */
#include <lladd/sync.h>

#include "buffer/latch.h"
#include "buffer_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <string.h>

enum { PAGES = 16 };

/* Threads must not assert, so they count violations. */
static void wrong(uint64_t *count, bool is)
{
    if (is)
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* A call that a separate thread makes. */
struct call {
    struct fixture *r;
    struct lladd_thread thread;
    int (*fn)(struct call *);
    uint64_t page;
    unsigned how;
    int rc;
    uint32_t done;
    struct lladd_error err;
};

static void *run_call(void *arg)
{
    struct call *c = arg;
    c->rc = c->fn(c);
    lladd_atomic_store32(&c->done, 1);
    return NULL;
}

static void start(struct call *c, struct fixture *r, int (*fn)(struct call *), uint64_t page,
                  unsigned how)
{
    memset(c, 0, sizeof *c);
    c->r = r;
    c->fn = fn;
    c->page = page;
    c->how = how;
    ck_assert_int_eq(lladd_thread_start(&c->thread, run_call, c), 0);
}

static int finish(struct call *c)
{
    lladd_thread_join(&c->thread);
    return c->rc;
}

static int call_fix(struct call *c)
{
    struct ll_frame *f;
    int rc = ll_buffer_fix(c->r->b, lladd_page_of(c->page), c->how, &f, &c->err);
    if (rc == 0)
        ll_buffer_unfix(c->r->b, f, c->how & LL_FIX_EXCLUSIVE);
    return rc;
}

static int call_flush(struct call *c)
{
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    return ll_buffer_flush(c->r->b, all, &c->err);
}

static int call_extend(struct call *c)
{
    return ll_buffer_extend(c->r->b, c->page, &c->err);
}

static int call_drop(struct call *c)
{
    return ll_buffer_drop(c->r->b, lladd_page_of(c->page), 1);
}

/* ---- no thread waits without need ---- */

START_TEST(a_page_is_read_once)
{
    enum { THREADS = 4 };
    struct fixture r;
    struct call c[THREADS];
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_put(&r, 1, 6);
    fixture_flush(&r);
    fixture_reopen(&r);
    (void)fixture_get(&r, 1);
    test_world_stop_at(&r.world, "buffer.load");
    for (unsigned i = 0; i < THREADS; i++)
        start(&c[i], &r, call_fix, 0, i & 1 ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED);
    ck_assert(test_world_await(&r.world, "buffer.load", 1));
    /* During that read other threads find cached pages, and change them. */
    ck_assert_uint_eq(fixture_get(&r, 1), 6);
    fixture_put(&r, 1, 7);
    fixture_put(&r, 2, 8);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), LLADD_BUSY);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_TRY), LLADD_BUSY);
    test_world_release(&r.world, "buffer.load");
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(finish(&c[i]), 0);
    ck_assert_uint_eq(fixture_stats(&r).reads, 2);
    fixture_close(&r);
}
END_TEST

/* If the read fails, each thread that wanted the page tries again. */
START_TEST(a_read_that_fails_is_not_shared)
{
    struct fixture r;
    struct call a, b;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_flush(&r);
    fixture_reopen(&r);
    fault_device_fail(r.fault, 1, FAULT_PREAD, EIO, false);
    test_world_stop_at(&r.world, "buffer.load");
    start(&a, &r, call_fix, 0, LL_FIX_SHARED);
    ck_assert(test_world_await(&r.world, "buffer.load", 1));
    start(&b, &r, call_fix, 0, LL_FIX_SHARED);
    test_world_release(&r.world, "buffer.load");
    int rc = finish(&a), other = finish(&b);
    ck_assert(rc == LLADD_READ_FAILED || other == LLADD_READ_FAILED);
    ck_assert(rc == 0 || other == 0);
    fixture_close(&r);
}
END_TEST

/* While a copy of a page is being written, the page can be used like any other: it can be read and
 * changed, and then it is dirty again. The next flush writes its newest contents. */
START_TEST(changing_a_page_that_is_being_written)
{
    struct fixture r;
    struct call c;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    uint64_t first = fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.write.before");
    start(&c, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.write.before", 1));
    ck_assert_uint_eq(fixture_get(&r, 0), 1);
    uint64_t second = fixture_put(&r, 0, 2);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    ck_assert_uint_eq(d.at[0].rec, second);
    ck_assert_uint_eq(d.at[1].rec, first);
    test_world_release(&r.world, "buffer.write.before");
    ck_assert_int_eq(finish(&c), 0);
    ck_assert_uint_eq(fixture_stored(&r, 0), 1); /* because the change came after the flush had
                                                  * begun */
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 1);
    ck_assert_uint_eq(d.at[0].rec, second);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stored(&r, 0), 2);
    fixture_close(&r);
}
END_TEST

/* There are two flushes. The first is writing a copy of a page that the second needs, too. The
 * second flush waits until the first one has written the copy. */
START_TEST(a_page_is_not_written_twice_at_once)
{
    struct fixture r;
    struct call a, b;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.write.before");
    start(&a, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.write.before", 1));
    fixture_put(&r, 0, 2);
    start(&b, &r, call_flush, 0, 0);
    test_world_release(&r.world, "buffer.write.before");
    ck_assert_int_eq(finish(&a), 0);
    ck_assert_int_eq(finish(&b), 0);
    ck_assert_uint_eq(fixture_stored(&r, 0), 2);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    fixture_close(&r);
}
END_TEST

START_TEST(hits_go_on_during_a_sync)
{
    struct fixture r;
    struct call c;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.sync.before");
    start(&c, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.sync.before", 1));
    fixture_put(&r, 0, 2);
    fixture_put(&r, 1, 3);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 3); /* two dirty pages, and a copy that is not known to be durable */
    test_world_release(&r.world, "buffer.sync.before");
    ck_assert_int_eq(finish(&c), 0);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    fixture_close(&r);
}
END_TEST

/* A sync does not make durable what is written while the sync runs. */
START_TEST(a_sync_covers_what_was_written_before)
{
    struct fixture r;
    struct call c;
    fixture_open(&r, _i, PAGES);
    uint64_t far = 100;
    fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.sync.before");
    start(&c, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.sync.before", 1));
    uint64_t rec = fixture_put(&r, far, 1);
    for (uint64_t n = 1; fixture_stats(&r).in_flight < 3; n++) /* until eviction has written some
                                                                * pages */
        fixture_put(&r, far + n, n);
    test_world_release(&r.world, "buffer.sync.before");
    ck_assert_int_eq(finish(&c), 0);
    ck_assert_uint_ge(fixture_stats(&r).in_flight, 2);
    ck_assert_uint_eq(ll_buffer_dirty_min(r.b).v, rec);
    fixture_close(&r);
}
END_TEST

/* A checkpoint states the length of the file. Another thread has just extended the file, and has
 * not synced it yet. So the checkpoint must sync the file, although no page was written. */
START_TEST(a_sync_covers_the_length_that_is_seen)
{
    enum { LONGER = 50 };
    struct fixture r;
    struct call extends;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_flush(&r);
    uint64_t syncs = fixture_stats(&r).syncs;
    test_world_stop_at(&r.world, "buffer.extend.grown");
    start(&extends, &r, call_extend, LONGER, 0);
    ck_assert(test_world_await(&r.world, "buffer.extend.grown", 1));
    ck_assert_uint_eq(ll_buffer_file_pages(r.b), LONGER);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 1);
    test_world_release(&r.world, "buffer.extend.grown");
    ck_assert_int_eq(finish(&extends), 0);
    fixture_close(&r);
}
END_TEST

/* Another thread has added pages to the file and not synced yet. A thread that needs these pages
 * need not extend the file, but it does not return before a sync covers them. */
START_TEST(an_extension_by_another_thread_is_synced)
{
    enum { LONGER = 50 };
    struct fixture r;
    struct call extends;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_flush(&r);
    uint64_t syncs = fixture_stats(&r).syncs;
    test_world_stop_at(&r.world, "buffer.extend.grown");
    start(&extends, &r, call_extend, LONGER, 0);
    ck_assert(test_world_await(&r.world, "buffer.extend.grown", 1));
    ck_assert_int_eq(ll_buffer_extend(r.b, LONGER, &r.err), 0);
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 1);
    test_world_release(&r.world, "buffer.extend.grown");
    ck_assert_int_eq(finish(&extends), 0);
    fixture_close(&r);
}
END_TEST

/* There are so many pages in flight that the list can only sum them up. This is so before the sync
 * and during it. Each sync covers the pages that are in flight when it begins. So the oldest ones
 * do not stay in flight while others are written. */
START_TEST(a_sync_covers_what_was_summed_up_before)
{
    struct fixture r;
    struct call c;
    enum { MANY = 20 * PAGES };
    fixture_open(&r, _i, PAGES);
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t n = 0; n < MANY; n++)
            fixture_put(&r, n, round);
        ck_assert_uint_ge(fixture_stats(&r).in_flight, MANY / 2);
        test_world_stop_at(&r.world, "buffer.sync.before");
        start(&c, &r, call_flush, 0, 0);
        ck_assert(test_world_await(&r.world, "buffer.sync.before", 1));
        uint64_t rec = fixture_put(&r, MANY, round);
        for (uint64_t n = 0; n < MANY; n++)
            fixture_put(&r, MANY + 1 + n, round);
        test_world_release(&r.world, "buffer.sync.before");
        ck_assert_int_eq(finish(&c), 0);
        ck_assert_uint_ge(fixture_stats(&r).in_flight, MANY / 2);
        ck_assert_uint_eq(ll_buffer_dirty_min(r.b).v, rec);
    }
    fixture_close(&r);
}
END_TEST

/* ---- waiting for room ---- */

/* All frames but one are held, and a copy of that one page is being written. A fix of another page
 * must wait for the frame, and not return LLADD_NO_FRAME. */
START_TEST(a_fix_waits_for_a_frame_that_is_being_written)
{
    struct fixture r;
    struct call writer, wanting;
    struct ll_frame *held[8 * PAGES];
    unsigned n = 0;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    while (fixture_try(&r, 1000 + n, LL_FIX_EXCLUSIVE | LL_FIX_FRESH) == 0 &&
           fixture_stats(&r).evictions == 0) {
        held[n] = fixture_fix(&r, 1000 + n, LL_FIX_SHARED);
        n++;
    }
    ck_assert_uint_ge(n, PAGES - 1);
    (void)fixture_get(&r, 0); /* page 0 may have been evicted */
    fixture_put(&r, 0, 2);
    test_world_stop_at(&r.world, "buffer.write.before");
    start(&writer, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.write.before", 1));
    start(&wanting, &r, call_fix, 5000, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    test_world_release(&r.world, "buffer.write.before");
    ck_assert_int_eq(finish(&writer), 0);
    ck_assert_int_eq(finish(&wanting), 0);
    while (n > 0)
        fixture_unfix(&r, held[--n], LL_FIX_SHARED);
    ck_assert_uint_eq(fixture_get(&r, 0), 2);
    fixture_close(&r);
}
END_TEST

/* A flush waits until another flush has written its copy of a page. If that write fails, both
 * flushes return the error. */
START_TEST(a_flush_that_waits_for_a_failed_write_fails)
{
    struct fixture r;
    struct call writer, wanting;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.write.before");
    start(&writer, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.write.before", 1));
    fixture_put(&r, 0, 2);
    start(&wanting, &r, call_flush, 0, 0); /* waits for the copy to be written */
    fault_device_fail(r.fault, 1, FAULT_PWRITEV, EIO, true);
    test_world_release(&r.world, "buffer.write.before");
    ck_assert_int_eq(finish(&writer), LLADD_WRITE_FAILED);
    ck_assert_int_eq(finish(&wanting), LLADD_WRITE_FAILED);
    ck_assert(ll_poisoned(&r.poison));
    fixture_close(&r);
}
END_TEST

/* While a flush waits for a held page, it holds no other page. */
START_TEST(flush_waits_for_a_held_page)
{
    struct fixture r;
    struct call c;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 4; n++)
        fixture_put(&r, n, 1);
    struct ll_frame *f = fixture_fix(&r, 1, LL_FIX_EXCLUSIVE);
    start(&c, &r, call_flush, 0, 0);
    while (fixture_stats(&r).pages_written == 0)
        lladd_yield();
    ck_assert_uint_eq(lladd_atomic_load32(&c.done), 0);
    for (uint64_t n = 2; n < 4; n++) /* the other pages can be changed in the meantime */
        fixture_put(&r, n, 2);
    fixture_change(&r, f, 3);
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    ck_assert_int_eq(finish(&c), 0);
    ck_assert_uint_eq(fixture_stored(&r, 0), 1);
    ck_assert_uint_eq(fixture_stored(&r, 1), 3);
    fixture_close(&r);
}
END_TEST

/* A drop that has seized a dirty page may have to release it. So a flush waits for the end of the
 * drop, and then writes the page if it was released. */
START_TEST(flush_waits_for_a_page_that_may_be_dropped)
{
    struct fixture r;
    struct call c;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    struct ll_frame *f = fixture_fix(&r, 1, LL_FIX_SHARED);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    uint64_t word = lladd_atomic_load64(&f->latch);
    (void)latch_become(f, (word & ~LATCH_STATE) | LATCH_EVICTING);
    start(&c, &r, call_flush, 0, 0);
    while (fixture_stats(&r).pages_written == 0)
        lladd_yield();
    (void)latch_become(f, word);
    ck_assert_int_eq(finish(&c), 0);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    ck_assert_uint_eq(fixture_stored(&r, 1), 1);
    fixture_close(&r);
}
END_TEST

/* The gate stops the first thread until `go` is set. Then its force of the log fails. The gate lets
 * the other threads pass. */
struct turn {
    struct fixture_gate *gate;
    uint32_t came, go;
};

static void in_turn(void *arg)
{
    struct turn *t = arg;
    uint32_t first = lladd_atomic_add32(&t->came, 1) == 0;
    while (first && !lladd_atomic_load32(&t->go))
        lladd_yield();
    __atomic_store_n(&t->gate->fails, first ? LLADD_NO_MEMORY : 0, __ATOMIC_RELEASE);
}

static int call_change_many(struct call *c)
{
    int rc = 0;
    for (uint64_t n = 100; rc == 0; n++) {
        struct ll_frame *f;
        rc = ll_buffer_fix(c->r->b, lladd_page_of(n), LL_FIX_EXCLUSIVE | LL_FIX_FRESH, &f, &c->err);
        if (rc == 0) {
            fixture_change(c->r, f, n);
            ll_buffer_unfix(c->r->b, f, LL_FIX_EXCLUSIVE);
        }
    }
    return rc;
}

/* Another thread has taken a copy of a page, but cannot write it because the gate fails. The page
 * is dirty again, and the flush writes it. */
START_TEST(flush_writes_what_another_thread_could_not_write)
{
    struct fixture r;
    struct call writer, flusher;
    fixture_open(&r, _i, PAGES);
    struct turn t = {.gate = &r.gate};
    r.gate.arg = &t;
    r.gate.during = in_turn;
    fixture_put(&r, 0, 1);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_SHARED); /* a held page is not evicted */
    start(&writer, &r, call_change_many, 0, 0);
    while (lladd_atomic_load32(&t.came) == 0)
        lladd_yield();
    ck_assert_uint_gt(fixture_stats(&r).in_flight, 0);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    start(&flusher, &r, call_flush, 0, 0);
    while (fixture_stats(&r).pages_written == 0)
        lladd_yield();
    lladd_atomic_store32(&t.go, 1);
    ck_assert_int_eq(finish(&writer), LLADD_NO_MEMORY);
    ck_assert_int_eq(finish(&flusher), 0);
    ck_assert_uint_eq(ll_buffer_dirty_min(r.b).v, UINT64_MAX);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    fixture_close(&r);
}
END_TEST

/* There is memory for the copies of one thread only. Another thread that writes waits until this
 * memory is free (REC-3). */
START_TEST(writing_waits_for_the_memory_that_another_writes_with)
{
    struct fixture r;
    struct call writer, flusher;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 8 * PAGES; n++) /* afterwards the list of pages in flight is long
                                              * enough */
        fixture_put(&r, n, n);
    fixture_flush(&r);
    struct turn t = {.gate = &r.gate};
    r.gate.arg = &t;
    r.gate.during = in_turn;
    fixture_put(&r, 0, 1);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_SHARED);
    start(&writer, &r, call_change_many, 0, 0);
    while (lladd_atomic_load32(&t.came) == 0)
        lladd_yield();
    fixture_unfix(&r, f, LL_FIX_SHARED);
    fault_alloc_fail(&r.mem, 1, true);
    start(&flusher, &r, call_flush, 0, 0);
    while (fault_alloc_fired(&r.mem) < 2) /* two allocations have failed: for a batch, and for a
                                           * small batch */
        lladd_yield();
    lladd_atomic_store32(&t.go, 1);
    ck_assert_int_eq(finish(&writer), LLADD_NO_MEMORY);
    ck_assert_int_eq(finish(&flusher), 0);
    fault_alloc_fail(&r.mem, 0, false);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    ck_assert_uint_eq(fixture_stored(&r, 0), 1);
    fixture_close(&r);
}
END_TEST

/* The list of pages in flight has room for the pages of one thread. Another thread waits until
 * there is room (REC-3). */
START_TEST(writing_waits_for_the_list_that_another_writes_with)
{
    struct fixture r;
    struct call writer, flusher;
    fixture_open(&r, _i, 80);
    struct turn t = {.gate = &r.gate};
    r.gate.arg = &t;
    r.gate.during = in_turn;
    start(&writer, &r, call_change_many, 0, 0);
    while (lladd_atomic_load32(&t.came) == 0)
        lladd_yield();
    ck_assert_uint_gt(fixture_stats(&r).in_flight, 8);
    fault_alloc_fail(&r.mem, 1, true);
    start(&flusher, &r, call_flush, 0, 0);
    while (fault_alloc_fired(&r.mem) < 2) /* two allocations have failed: before a sync, and after
                                           * it */
        lladd_yield();
    lladd_atomic_store32(&t.go, 1);
    ck_assert_int_eq(finish(&writer), LLADD_NO_MEMORY);
    ck_assert_int_eq(finish(&flusher), 0);
    fault_alloc_fail(&r.mem, 0, false);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    fixture_close(&r);
}
END_TEST

/* A flush waits for a page that a thread holds. Meanwhile the thread needs frames for other pages,
 * and gets them only after pages were written. */
START_TEST(needing_room_while_a_flush_waits)
{
    struct fixture r;
    struct call c;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    struct ll_frame *f = fixture_fix(&r, 1, LL_FIX_EXCLUSIVE);
    start(&c, &r, call_flush, 0, 0);
    while (fixture_stats(&r).pages_written == 0)
        lladd_yield();
    for (uint64_t n = 10; n < 10 + 10 * PAGES; n++)
        fixture_put(&r, n, n);
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    ck_assert_int_eq(finish(&c), 0);
    for (uint64_t n = 10; n < 10 + 10 * PAGES; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n);
    fixture_close(&r);
}
END_TEST

START_TEST(drop_waits_for_a_copy_under_way)
{
    struct fixture r;
    struct call writer, dropper;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    test_world_stop_at(&r.world, "buffer.write.before");
    start(&writer, &r, call_flush, 0, 0);
    ck_assert(test_world_await(&r.world, "buffer.write.before", 1));
    start(&dropper, &r, call_drop, 0, 0);
    lladd_yield();
    ck_assert_uint_eq(lladd_atomic_load32(&dropper.done), 0);
    test_world_release(&r.world, "buffer.write.before");
    ck_assert_int_eq(finish(&writer), 0);
    ck_assert_int_eq(finish(&dropper), 0);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 0);
    fixture_close(&r);
}
END_TEST

/* A thread that holds a page shared may fix the page again, although a writer waits for it. */
START_TEST(readers_pass_a_waiting_writer_in_the_end)
{
    struct fixture r;
    struct call c;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_SHARED);
    start(&c, &r, call_fix, 0, LL_FIX_EXCLUSIVE);
    while (!(lladd_atomic_load64(&f->latch) & LATCH_WRITER_WAITS))
        lladd_yield();
    struct ll_frame *again = fixture_fix(&r, 0, LL_FIX_SHARED);
    fixture_unfix(&r, again, LL_FIX_SHARED);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED | LL_FIX_TRY), 0);
    ck_assert_uint_eq(lladd_atomic_load32(&c.done), 0);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    ck_assert_int_eq(finish(&c), 0);
    fixture_close(&r);
}
END_TEST

/* ---- many threads ---- */

#ifdef __SANITIZE_THREAD__
enum { CROWD = 4, ROUNDS = 2000 }; /* a round is slower under TSan */
#else
enum { CROWD = 4, ROUNDS = 6000 };
#endif

struct member {
    struct fixture *r;
    struct lladd_thread thread;
    uint64_t seed, rounds, wrong, optimistic_reads_validate;
};

struct crowd {
    struct member m[CROWD];
};

static void run_crowd(struct crowd *c, struct fixture *r, void *(*fn)(void *), uint64_t rounds)
{
    memset(c, 0, sizeof *c);
    for (unsigned i = 0; i < CROWD; i++) {
        c->m[i] = (struct member){.r = r, .seed = i + 1, .rounds = rounds};
        ck_assert_int_eq(lladd_thread_start(&c->m[i].thread, fn, &c->m[i]), 0);
    }
    for (unsigned i = 0; i < CROWD; i++)
        lladd_thread_join(&c->m[i].thread);
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_uint_eq(c->m[i].wrong, 0);
}

/* An optimistic read sees the page at one moment. */
static void read_at(struct member *m, uint64_t n, const uint32_t *at, unsigned count)
{
    struct lladd_read g;
    uint64_t word[3];
    if (!ll_buffer_read_begin(m->r->b, lladd_page_of(n), &g))
        return;
    for (unsigned i = 0; i < count; i++)
        lladd_read_copy(&g, at[i], &word[i], 1);
    if (!ll_buffer_read_valid(&g))
        return;
    for (unsigned i = 1; i < count; i++)
        wrong(&m->wrong, word[i] != word[0]);
    m->optimistic_reads_validate++;
}

/* Threads increment plain words of one page under the exclusive latch. They read them under the
 * shared latch, or optimistically. The words are equal for every reader, and no thread stays
 * asleep. */
static void *count_up(void *arg)
{
    static const uint32_t places[] = {64, 2048, 4088};
    struct member *m = arg;
    for (uint64_t i = 0; i < m->rounds; i++) {
        struct ll_frame *f;
        read_at(m, 0, places, 3);
        unsigned how = (i + m->seed) % 3 ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED;
        int rc = ll_buffer_fix(m->r->b, lladd_page_of(0), how, &f, NULL);
        wrong(&m->wrong, rc != 0);
        if (rc != 0)
            break;
        unsigned char *p = f->page.bytes;
        uint64_t value = lladd_get64(p + 64);
        wrong(&m->wrong, value != lladd_get64(p + 2048) || value != lladd_get64(p + 4088));
        if (how == LL_FIX_EXCLUSIVE) {
            lladd_put64(p + 64, value + 1);
            lladd_put64(p + 2048, value + 1);
            lladd_put64(p + 4088, value + 1);
        }
        ll_buffer_unfix(m->r->b, f, how);
    }
    return NULL;
}

START_TEST(latches_exclude)
{
    enum { UPS = 3 * (ROUNDS / 2) };
    struct fixture r;
    struct crowd c;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 0);
    run_crowd(&c, &r, count_up, UPS);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_SHARED);
    ck_assert_uint_eq(lladd_get64(f->page.bytes + 64), CROWD * (UPS / 3) * 2);
    uint64_t optimistic_reads_validate = 0;
    for (unsigned i = 0; i < CROWD; i++)
        optimistic_reads_validate += c.m[i].optimistic_reads_validate;
    ck_assert_uint_gt(optimistic_reads_validate, CROWD);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    fixture_close(&r);
}
END_TEST

/* The model has the last value of each page. A thread changes it while it has the page latched
 * exclusively. */
enum { ALL = 8 * PAGES, LOST = 8 };
static uint64_t model[ALL];

static void change_or_look(struct member *m, uint64_t n, bool change)
{
    struct ll_frame *f;
    unsigned how = change ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED;
    int rc = ll_buffer_fix(m->r->b, lladd_page_of(n), how, &f, NULL);
    wrong(&m->wrong, rc != 0);
    if (rc != 0)
        return;
    wrong(&m->wrong, f->page.number.v != n);
    wrong(&m->wrong, !fixture_is_whole(f->page.bytes, FIXTURE_PAGE));
    /* The last LOST pages are dropped now and then, so they may be older than the model says. */
    uint64_t value = lladd_get64(f->page.bytes + LLADD_PAGE_HEADER);
    uint64_t expected = __atomic_load_n(&model[n], __ATOMIC_RELAXED);
    wrong(&m->wrong, n < ALL - LOST ? value != expected : value > expected);
    if (change) {
        __atomic_store_n(&model[n], expected + 1, __ATOMIC_RELAXED);
        fixture_change(m->r, f, expected + 1);
        bool old = seeded_next(&m->seed) % 16 == 0; /* this page will be written through the
                                                     * double-write area */
        ll_page_set_base(f->page.bytes, lladd_lsn_of(old ? 1 : 2));
    }
    ll_buffer_unfix(m->r->b, f, how);
}

static void *mill_about(void *arg)
{
    struct member *m = arg;
    struct ll_buffer *b = m->r->b;
    for (uint64_t i = 0; i < m->rounds; i++) {
        uint64_t dice = seeded_next(&m->seed);
        /* Half of the accesses go to a quarter of the pages, so that there are hits and
         * contention. */
        uint64_t n = (dice >> 32) % (dice & 1 ? ALL : ALL / 4);
        unsigned what = (unsigned)(dice >> 8) % 256;
        lladd_lsn some = lladd_lsn_of(lladd_atomic_load64(&m->r->gate.durable));
        bool more;
        if (what < 250) {
            static const uint32_t ends[] = {LLADD_PAGE_HEADER, FIXTURE_PAGE - 8};
            read_at(m, n, ends, 2);
            change_or_look(m, n, what < 120);
        } else if (what == 250) {
            wrong(&m->wrong, ll_buffer_flush(b, some, NULL) != 0);
        } else if (what == 251) {
            wrong(&m->wrong, ll_buffer_dirty_min(b).v == 0);
        } else if (what == 252) {
            wrong(&m->wrong, ll_buffer_step(b, &more, NULL) != 0);
        } else if (what == 253) {
            int rc = ll_buffer_drop(b, lladd_page_of(ALL - LOST), LOST);
            wrong(&m->wrong, rc != 0 && rc != LLADD_BUSY);
        } else if (what == 254) {
            wrong(&m->wrong, ll_buffer_sync(b, NULL) != 0);
        } else {
            struct ll_buffer_stats s;
            ll_buffer_stats(b, &s);
            wrong(&m->wrong, s.frames_used > s.frames);
        }
    }
    return NULL;
}

START_TEST(everything_at_once)
{
    struct fixture r;
    struct crowd c;
    fixture_init(&r, _i % 2, PAGES);
    r.env.threads = _i >= 2; /* with a background writer */
    r.cfg.dwb_name = "dwb";
    fixture_create(&r);
    memset(model, 0, sizeof model);
    for (uint64_t n = 0; n < ALL; n++)
        fixture_put(&r, n, 0);
    ll_buffer_protect(r.b, lladd_lsn_of(2));
    ck_assert_int_eq(ll_buffer_start(r.b, &r.err), 0);
    ck_assert_int_eq(ll_buffer_start(r.b, &r.err), 0); /* the second call starts nothing */
    run_crowd(&c, &r, mill_about, ROUNDS);
    fixture_flush(&r);
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.dirty, 0);
    ck_assert_uint_eq(s.in_flight, 0);
    ck_assert_uint_gt(s.evictions, ROUNDS / 4);
    for (uint64_t n = 0; n < ALL - LOST; n++) {
        ck_assert_uint_eq(fixture_stored(&r, n), model[n]);
        ck_assert_uint_eq(fixture_get(&r, n), model[n]);
    }
    fixture_close(&r);
}
END_TEST

/* Each thread holds one page at a time, in a cache with exactly as many frames as there are
 * threads. No thread may ever get LLADD_NO_FRAME. */
static void *hold_one(void *arg)
{
    struct member *m = arg;
    for (uint64_t i = 0; i < m->rounds; i++)
        change_or_look(m, seeded_next(&m->seed) % (ALL - LOST), i % 2);
    return NULL;
}

START_TEST(as_many_frames_as_threads)
{
    struct fixture r;
    struct crowd c;
    fixture_open(&r, _i, CROWD);
    memset(model, 0, sizeof model);
    for (uint64_t n = 0; n < ALL; n++)
        fixture_put(&r, n, 0);
    run_crowd(&c, &r, hold_one, ROUNDS / 2);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: threads");
    TCase *t = tcase_create("both providers");
    tcase_add_loop_test(t, a_page_is_read_once, 0, 2);
    tcase_add_loop_test(t, a_read_that_fails_is_not_shared, 0, 2);
    tcase_add_loop_test(t, changing_a_page_that_is_being_written, 0, 2);
    tcase_add_loop_test(t, a_page_is_not_written_twice_at_once, 0, 2);
    tcase_add_loop_test(t, hits_go_on_during_a_sync, 0, 2);
    tcase_add_loop_test(t, a_sync_covers_what_was_written_before, 0, 2);
    tcase_add_loop_test(t, a_sync_covers_the_length_that_is_seen, 0, 2);
    tcase_add_loop_test(t, an_extension_by_another_thread_is_synced, 0, 2);
    tcase_add_loop_test(t, a_sync_covers_what_was_summed_up_before, 0, 2);
    tcase_add_loop_test(t, a_fix_waits_for_a_frame_that_is_being_written, 0, 2);
    tcase_add_loop_test(t, a_flush_that_waits_for_a_failed_write_fails, 0, 2);
    tcase_add_loop_test(t, flush_waits_for_a_held_page, 0, 2);
    tcase_add_loop_test(t, flush_waits_for_a_page_that_may_be_dropped, 0, 2);
    tcase_add_loop_test(t, flush_writes_what_another_thread_could_not_write, 0, 2);
    tcase_add_loop_test(t, writing_waits_for_the_memory_that_another_writes_with, 0, 2);
    tcase_add_loop_test(t, writing_waits_for_the_list_that_another_writes_with, 0, 2);
    tcase_add_loop_test(t, needing_room_while_a_flush_waits, 0, 2);
    tcase_add_loop_test(t, drop_waits_for_a_copy_under_way, 0, 2);
    tcase_add_loop_test(t, readers_pass_a_waiting_writer_in_the_end, 0, 2);
    tcase_add_loop_test(t, latches_exclude, 0, 2);
    tcase_add_loop_test(t, everything_at_once, 0, 4);
    tcase_add_loop_test(t, as_many_frames_as_threads, 0, 2);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
