/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dirty pages are written in large writes, and never before their log records (BUF-1; the fixture's
 * checker checks this in every test). At every moment the dirty-page table lists every page that a
 * crash could lose (BUF-4, BUF-5). A failed page write poisons. A failed force of the log does
 * not.
 */
#include "buffer_fixture.h"

#include <errno.h>
#include <string.h>

enum { PAGES = 64 };

static void check_min(struct fixture *r, uint64_t rec)
{
    ck_assert_uint_eq(ll_buffer_dirty_min(r->b).v, rec);
}

static int flush(struct fixture *r, uint64_t rec_below)
{
    return ll_buffer_flush(r->b, lladd_lsn_of(rec_below), &r->err);
}

/* ---- the dirty-page table ---- */

START_TEST(a_page_is_dirty_from_its_first_change)
{
    struct fixture r;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 0);
    check_min(&r, UINT64_MAX);
    uint64_t first = fixture_put(&r, 5, 1);
    fixture_put(&r, 5, 2);
    uint64_t other = fixture_put(&r, 3, 1);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    ck_assert_uint_eq(d.at[0].page, 5);
    ck_assert_uint_eq(d.at[0].rec, first);
    ck_assert_uint_eq(d.at[1].rec, other);
    check_min(&r, first);
    fixture_flush(&r);
    check_min(&r, UINT64_MAX);
    uint64_t again = fixture_put(&r, 5, 3);
    check_min(&r, again);
    fixture_close(&r);
}
END_TEST

/* A page that was written may not be durable yet. So a page that an eviction has written stays in
 * the table until a sync. */
START_TEST(a_written_page_stays_until_a_sync)
{
    struct fixture r;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    fixture_format(&r, 0, 1);
    fixture_flush(&r);
    uint64_t first = fixture_put(&r, 0, 2);
    uint64_t syncs = fixture_stats(&r).syncs;
    struct ll_frame *held[4 * PAGES]; /* takes all other frames, so that page 0 must be evicted */
    unsigned n = 0;
    while (fixture_stats(&r).in_flight == 0 && n < 4 * PAGES) {
        held[n] = fixture_fix(&r, n + 1, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
        n++;
    }
    while (n > 0)
        fixture_unfix(&r, held[--n], LL_FIX_EXCLUSIVE);
    ck_assert_uint_eq(fixture_stats(&r).in_flight, 1);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    ck_assert_uint_eq(fixture_stored(&r, 0), 2);
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs);
    check_min(&r, first);

    /* The page is changed once more. Now it is listed twice. */
    uint64_t second = fixture_put(&r, 0, 3);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    ck_assert_uint_eq(d.at[0].page, 0);
    ck_assert_uint_eq(d.at[0].rec, second);
    ck_assert_uint_eq(d.at[1].page, 0);
    ck_assert_uint_eq(d.at[1].rec, first);
    check_min(&r, first);

    ck_assert_int_eq(ll_buffer_sync(r.b, &r.err), 0);
    ck_assert_uint_eq(fixture_stats(&r).in_flight, 0);
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 1);
    check_min(&r, second);
    ck_assert_int_eq(ll_buffer_sync(r.b, &r.err), 0); /* nothing was written since the last sync */
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 1);
    fixture_close(&r);
}
END_TEST

/* Pages that an earlier process wrote and did not sync are synced with the first flush. */
START_TEST(the_first_sync_is_never_skipped)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    fixture_reopen(&r);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stats(&r).syncs, 1);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stats(&r).syncs, 1);
    fixture_close(&r);
}
END_TEST

/* The list of copies in flight is limited. When it is full, the written copies are summed up. So a
 * cache that writes all the time need not sync because the list is full, and it still knows the LSN
 * from which redo needs the log. */
START_TEST(written_copies_are_summed_up_until_a_sync)
{
    struct fixture r;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    fixture_format(&r, 0, 1);
    fixture_flush(&r);
    uint64_t first = fixture_put(&r, 0, 2), syncs = fixture_stats(&r).syncs;
    for (uint64_t n = 1; n < 20 * PAGES; n++)
        fixture_put(&r, n, n);
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.syncs, syncs);
    ck_assert_uint_ge(s.in_flight + s.dirty, 20 * PAGES);
    fixture_dirty(&r, &d);
    ck_assert_uint_lt(d.n, 2 * PAGES);
    check_min(&r, first);
    ck_assert_int_eq(ll_buffer_sync(r.b, &r.err), 0);
    ck_assert_uint_eq(fixture_stats(&r).in_flight, 0);
    ck_assert_uint_gt(ll_buffer_dirty_min(r.b).v, first);
    fixture_close(&r);
}
END_TEST

/* ---- flush ---- */

START_TEST(flush_writes_what_matches)
{
    struct fixture r;
    struct fixture_dirty d;
    fixture_open(&r, _i, PAGES);
    fixture_format(&r, 7, 1);
    fixture_flush(&r);
    uint64_t a = fixture_put(&r, 1, 11);
    uint64_t b = fixture_put(&r, 2, 22);
    fixture_put(&r, 7, 77);
    ck_assert_int_eq(flush(&r, a), 0); /* no page has a recLSN below a */
    ck_assert_uint_eq(fixture_stats(&r).dirty, 3);
    ck_assert_int_eq(flush(&r, b), 0);
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    ck_assert_uint_eq(fixture_stored(&r, 1), 11);
    ck_assert_uint_eq(fixture_stored(&r, 2), 0);
    fixture_close(&r);
}
END_TEST

START_TEST(neighbours_go_out_together)
{
    struct fixture r;
    fixture_open(&r, _i, 8 * PAGES); /* so that a batch is as long as possible */
    static const uint64_t pages[] = {9, 3, 1, 8, 2, 20, 10};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        fixture_put(&r, pages[i], pages[i] + 1);
    fixture_flush(&r);
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.pages_written, 7);
    ck_assert_uint_eq(s.writes, 3); /* pages 1 2 3, 8 9 10, and 20 */
    ck_assert_uint_eq(r.checker.page_writes, 3);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        ck_assert_uint_eq(fixture_stored(&r, pages[i]), pages[i] + 1);
    fixture_close(&r);
}
END_TEST

/* There are more dirty pages than a flush takes in one portion. */
START_TEST(flush_of_many_pages)
{
    enum { MANY = 5000 };
    struct fixture r;
    fixture_open(&r, _i, MANY + 100);
    for (uint64_t n = 0; n < MANY; n++)
        fixture_put(&r, (n * 1237) % MANY, n + 1);
    ck_assert_uint_eq(fixture_stats(&r).dirty, MANY);
    fixture_flush(&r);
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_eq(s.dirty, 0);
    ck_assert_uint_eq(s.in_flight, 0);
    ck_assert_uint_eq(s.pages_written, MANY);
    for (uint64_t n = 0; n < MANY; n++)
        ck_assert_uint_eq(fixture_stored(&r, (n * 1237) % MANY), n + 1);
    fixture_close(&r);
}
END_TEST

/* ---- the gate ---- */

START_TEST(the_log_is_forced_first)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    uint64_t last = 0;
    for (uint64_t n = 0; n < 5; n++)
        last = fixture_put(&r, n, n);
    ck_assert_uint_eq(r.gate.durable, 0);
    fixture_flush(&r);
    ck_assert_uint_eq(r.gate.durable, last + 1); /* exactly up to the newest page LSN */
    ck_assert_uint_eq(r.gate.forces, 1);
    r.gate.durable = r.gate.tail = 5000;
    fixture_put(&r, 0, 9);
    r.gate.durable = r.gate.tail;
    fixture_flush(&r);
    ck_assert_uint_eq(r.gate.forces, 1); /* the log was durable already */
    fixture_close(&r);
}
END_TEST

/* If the log cannot be forced, no page is written, and each page stays in the table. */
START_TEST(a_gate_that_fails)
{
    struct fixture r;
    struct fixture_dirty before, after;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 5; n++)
        fixture_put(&r, n, n + 1);
    fixture_dirty(&r, &before);
    r.gate.fails = LLADD_NO_SPACE;
    ck_assert_int_eq(flush(&r, UINT64_MAX), LLADD_NO_SPACE);
    ck_assert_uint_eq(r.err.lsn.v, 1040);
    ck_assert_uint_eq(r.checker.page_writes, 0);
    ck_assert(!ll_poisoned(&r.poison));
    fixture_dirty(&r, &after);
    ck_assert_uint_eq(after.n, 5);
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 5; k++) {
            if (after.at[i].page == before.at[k].page)
                ck_assert_uint_eq(after.at[i].rec, before.at[k].rec);
        }
    }
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n + 1);
    r.gate.fails = 0;
    fixture_flush(&r);
    for (uint64_t n = 0; n < 5; n++)
        ck_assert_uint_eq(fixture_stored(&r, n), n + 1);
    fixture_close(&r);
}
END_TEST

static void change_both(void *arg)
{
    struct fixture *r = arg;
    fixture_put(r, 0, 11);
    fixture_put(r, 1, 12);
}

/* The pages are changed while their copies wait at the gate. Then the gate fails. The pages are
 * dirty from the earlier change on. */
START_TEST(a_gate_that_fails_too_late)
{
    struct fixture r;
    struct fixture_dirty d;
    fixture_open(&r, _i, 8 * PAGES); /* so that both pages are in one batch */
    uint64_t first = fixture_put(&r, 0, 1), second = fixture_put(&r, 1, 2);
    r.gate.during = change_both;
    r.gate.arg = &r;
    r.gate.fails = LLADD_NO_SPACE;
    ck_assert_int_eq(flush(&r, UINT64_MAX), LLADD_NO_SPACE);
    r.gate.during = NULL;
    r.gate.fails = 0;
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 2);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_eq(d.at[i].rec, d.at[i].page == 0 ? first : second);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 2);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stored(&r, 0), 11);
    ck_assert_uint_eq(fixture_stored(&r, 1), 12);
    fixture_close(&r);
}
END_TEST

/* A cache full of dirty pages that must not be written accepts no more pages. */
START_TEST(a_gate_that_fails_eviction)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    r.gate.fails = LLADD_NO_SPACE;
    uint64_t n = 0;
    int rc = 0;
    while (rc == 0 && n < 4 * PAGES) {
        struct ll_frame *f;
        rc = ll_buffer_fix(r.b, lladd_page_of(n), LL_FIX_EXCLUSIVE | LL_FIX_FRESH, &f, &r.err);
        if (rc == 0) {
            fixture_change(&r, f, n + 1);
            fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
            n++;
        }
    }
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), n);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_uint_eq(fixture_get(&r, i), i + 1);
    r.gate.fails = 0;
    for (; n < 4 * PAGES; n++)
        fixture_put(&r, n, n + 1);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_uint_eq(fixture_get(&r, i), i + 1);
    fixture_close(&r);
}
END_TEST

/* ---- copies ---- */

struct flushed {
    uint64_t calls;
};

static void on_flushed(void *ctx, struct lladd_page *copy, void *private_)
{
    (void)ctx;
    if (private_) {
        ((struct flushed *)private_)->calls++;
        lladd_put64(copy->bytes + LLADD_PAGE_HEADER, lladd_get64(copy->bytes + 40));
    }
}

static void keep_private(void *ctx, struct ll_frame *f)
{
    (void)ctx;
    f->private_ = NULL;
}

/* The callback `flushed` may change the copy that is written, but not the cached page. The checksum
 * of the copy is made after this callback. */
START_TEST(the_page_type_sees_the_copy)
{
    struct fixture r;
    struct flushed seen = {0};
    fixture_init(&r, _i, PAGES);
    r.cfg.flushed = on_flushed;
    r.cfg.evicted = keep_private;
    fixture_create(&r);
    fixture_put(&r, 0, 5);
    struct ll_frame *f = fixture_fix(&r, 0, LL_FIX_EXCLUSIVE);
    f->private_ = &seen;
    lladd_put64(f->page.bytes + LLADD_PAGE_HEADER, 6);
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    fixture_flush(&r);
    ck_assert_uint_eq(seen.calls, 1);
    ck_assert_uint_eq(fixture_stored(&r, 0), 5);
    f = fixture_fix(&r, 0, LL_FIX_SHARED);
    ck_assert_uint_eq(lladd_get64(f->page.bytes + LLADD_PAGE_HEADER), 6);
    fixture_unfix(&r, f, LL_FIX_SHARED);
    fixture_close(&r);
}
END_TEST

/* A page that was created and dirtied, but not formatted, is a page of zeros on the disk as
 * well. */
START_TEST(zeros_stay_zeros)
{
    struct fixture r;
    unsigned char page[FIXTURE_PAGE];
    fixture_open(&r, _i, PAGES);
    struct ll_frame *f = fixture_fix(&r, 3, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    ll_buffer_dirty(r.b, f, lladd_lsn_of(0)); /* rec_lsn 0 means clean, so it becomes 1 */
    fixture_unfix(&r, f, LL_FIX_EXCLUSIVE);
    check_min(&r, 1);
    fixture_flush(&r);
    fixture_peek(&r, 3 * FIXTURE_PAGE, page, FIXTURE_PAGE);
    for (unsigned i = 0; i < FIXTURE_PAGE; i++)
        ck_assert_uint_eq(page[i], 0);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 3), 0);
    fixture_close(&r);
}
END_TEST

/* ---- background work, in the caller ---- */

START_TEST(steps_keep_clean_pages_ahead)
{
    struct fixture r;
    fixture_open(&r, _i, 8 * PAGES);
    bool more = true;
    fixture_put(&r, 0, 0);
    ck_assert_int_eq(ll_buffer_step(r.b, &more, &r.err), 0);
    ck_assert(!more); /* a cache with room needs no writing (NO-FORCE) */
    ck_assert_uint_eq(fixture_stats(&r).writes, 0);
    uint64_t n = 1;
    for (; fixture_stats(&r).evictions == 0; n++)
        fixture_put(&r, n, n);
    for (int pass = 0; pass < 20; pass++, n++) { /* each miss clears some USED bits */
        fixture_put(&r, n, n);
        more = true;
        for (int i = 0; more && i < 1000; i++)
            ck_assert_int_eq(ll_buffer_step(r.b, &more, &r.err), 0);
        ck_assert(!more);
    }
    struct ll_buffer_stats s = fixture_stats(&r);
    ck_assert_uint_le(s.dirty * 8, s.frames_used + 8);
    uint64_t written = s.writes;
    for (int i = 0; i < PAGES / 2; i++)
        fixture_try(&r, (uint64_t)i, LL_FIX_SHARED); /* finds clean frames: a miss does not write */
    ck_assert_uint_eq(fixture_stats(&r).writes, written);
    fixture_close(&r);
}
END_TEST

/* ---- images ---- */

static struct {
    unsigned credit; /* credit for this number of images at a time */
    bool held;
    unsigned logged;
    uint64_t last; /* LSN of the newest image */
    int (*may_write)(void *, lladd_pageno, lladd_lsn, lladd_lsn *, struct lladd_error *);
} imager;

static int get_images(void *ctx, unsigned n, bool wait, struct ll_images *out,
                      struct lladd_error *err)
{
    (void)ctx, (void)wait, (void)err;
    out->n = n < imager.credit ? n : imager.credit;
    imager.held = out->n > 0;
    return 0;
}

static void log_image(void *ctx, struct ll_images *images, struct lladd_page *copy)
{
    struct fixture_gate *gate = ctx;
    (void)images;
    imager.logged++;
    imager.last = gate->tail;
    gate->tail += 10;
    ll_page_set_lsn(copy->bytes, lladd_lsn_of(imager.last));
    ll_page_set_base(copy->bytes, lladd_lsn_of(imager.last));
}

static void end_images(void *ctx, struct ll_images *images)
{
    (void)ctx, (void)images;
    imager.held = false;
}

static int may_write_without_credit(void *ctx, lladd_pageno page, lladd_lsn lsn, lladd_lsn *durable,
                                    struct lladd_error *err)
{
    ck_assert(!imager.held);
    return imager.may_write(ctx, page, lsn, durable, err);
}

static void begin_images(struct fixture *r, int kind, unsigned credit)
{
    fixture_init(r, kind, 8 * PAGES);
    r->cfg.dwb_name = "dwb";
    r->cfg.recovery.images = get_images;
    r->cfg.recovery.image = log_image;
    r->cfg.recovery.images_end = end_images;
    memset(&imager, 0, sizeof imager);
    imager.credit = credit;
    imager.may_write = r->cfg.recovery.may_write;
    r->cfg.recovery.may_write = may_write_without_credit;
    fixture_create(r);
}

static uint64_t stored_word(struct fixture *r, uint64_t page, uint64_t at)
{
    unsigned char word[8];
    fixture_peek(r, page * FIXTURE_PAGE + at, word, sizeof word);
    return lladd_get64(word);
}

enum { AT_LSN = 8, AT_BASE = 16 };

static void expect_header(struct fixture *r, uint64_t n, uint64_t base)
{
    struct ll_frame *f = fixture_fix(r, n, LL_FIX_SHARED);
    ck_assert_uint_eq(ll_page_base(f->page.bytes).v, base);
    fixture_unfix(r, f, LL_FIX_SHARED);
}

/* BUF-5. The LSN of the image becomes the page LSN and the base of the page. This happens in the
 * file at once, and in the cache when the page is changed again. The log is forced up to the image,
 * as the checker verifies. */
START_TEST(an_image_protects_a_page_with_an_old_base)
{
    struct fixture r;
    begin_images(&r, _i, 2);
    uint64_t base = fixture_format(&r, 0, 1);
    for (uint64_t n = 1; n < 5; n++)
        fixture_format(&r, n, 1);
    fixture_flush(&r);
    ck_assert_uint_eq(imager.logged, 0); /* no base is below the horizon, where redo will start */
    struct ll_flush progress = {0};
    ck_assert_int_eq(ll_buffer_flush_below(r.b, lladd_lsn_of(r.gate.tail), &progress, &r.err), 0);
    for (uint64_t n = 0; n < 5; n++)
        fixture_put(&r, n, 2);
    fixture_flush(&r); /* writes the pages in three parts, for lack of credit */
    ck_assert_uint_eq(imager.logged, 5);
    ck_assert_uint_eq(stored_word(&r, 4, AT_LSN), imager.last);
    ck_assert_uint_eq(stored_word(&r, 4, AT_BASE), imager.last);
    uint64_t image = stored_word(&r, 0, AT_BASE);
    expect_header(&r, 0, base);
    uint64_t change = fixture_put(&r, 0, 3);
    expect_header(&r, 0, image);
    fixture_flush(&r);
    ck_assert_uint_eq(imager.logged, 5);
    ck_assert_uint_eq(stored_word(&r, 0, AT_LSN), change);
    /* Without credit the page goes through the area, which syncs the file, too. */
    imager.credit = 0;
    ll_buffer_protect(r.b, lladd_lsn_of(r.gate.tail));
    fixture_put(&r, 0, 4);
    uint64_t syncs = fixture_stats(&r).syncs;
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stats(&r).syncs, syncs + 2);
    ck_assert_uint_eq(imager.logged, 5);
    ck_assert_uint_eq(stored_word(&r, 0, AT_BASE), image);
    ck_assert_uint_eq(fixture_stored(&r, 0), 4);
    fixture_close(&r);
}
END_TEST

/* Credit is returned before the log is forced, even if the batch is full. may_write_without_credit
 * checks this. */
START_TEST(no_credit_for_images_is_held_while_the_log_is_forced)
{
    enum { SOME = 3 * PAGES };
    struct fixture r;
    begin_images(&r, _i, SOME);
    for (uint64_t n = 0; n < SOME; n++)
        fixture_format(&r, n, 1);
    fixture_flush(&r);
    ll_buffer_protect(r.b, lladd_lsn_of(r.gate.tail));
    for (uint64_t n = 0; n < SOME; n++)
        fixture_put(&r, n, 2);
    fixture_flush(&r);
    ck_assert_uint_eq(imager.logged, SOME);
    fixture_close(&r);
}
END_TEST

/* ---- poison ---- */

static void check_poisoned(struct fixture *r)
{
    bool more;
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    unsigned char page[FIXTURE_PAGE];
    memset(page, 0, sizeof page);
    ck_assert(ll_poisoned(&r->poison));
    ck_assert_int_eq(fixture_try(r, 0, LL_FIX_SHARED), LLADD_WRITE_FAILED);
    ck_assert_int_eq(r->err.sys_errno, EIO);
    ck_assert_int_eq(fixture_try(r, 0, LL_FIX_EXCLUSIVE), LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_flush(r->b, all, &r->err), LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_sync(r->b, &r->err), LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_step(r->b, &more, &r->err), LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_extend(r->b, 1000, &r->err), LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_drop(r->b, lladd_page_of(0), 1), LLADD_WRITE_FAILED);
    ck_assert_int_eq(fixture_bulk(r, lladd_page_of(0), 1, page, true),
                     LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_bulk_read(r->b, lladd_page_of(0), 1, page, true, &r->err),
                     LLADD_WRITE_FAILED);
    ck_assert_int_eq(ll_buffer_double_write_restore(r->b, NULL, &r->err), LLADD_WRITE_FAILED);
    ll_buffer_prefetch(r->b, lladd_page_of(0), 1);
    ck_assert(ll_poisoned(&r->poison));
}

/* _i / FIXTURE_KINDS says what fails. */
START_TEST(a_failed_write_or_sync_poisons)
{
    static const unsigned kinds[] = {FAULT_PWRITEV, FAULT_SYNC};
    static const char *const points[] = {"buffer.write.before", "buffer.write.after",
                                         "buffer.sync.before"};
    struct fixture r;
    int what = _i / FIXTURE_KINDS;
    fixture_open(&r, _i % FIXTURE_KINDS, PAGES);
    uint64_t rec = fixture_put(&r, 0, 1);
    if (what < 2)
        fault_device_fail(r.fault, 1, kinds[what], EIO, false);
    else
        test_world_fail_at(&r.world, points[what - 2], 1, EIO);
    ck_assert_int_eq(flush(&r, UINT64_MAX), LLADD_WRITE_FAILED);
    ck_assert_ptr_nonnull(strstr(r.err.message, "\"pages\""));
    check_poisoned(&r);
    check_min(&r, rec); /* the table still lists the page */
    fixture_close(&r);
}
END_TEST

/* A page write that fails for lack of space poisons like other failures. */
START_TEST(no_space_for_a_page_write_poisons)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 1);
    fault_device_capacity(r.fault, fault_device_bytes(r.fault));
    ck_assert_int_eq(flush(&r, UINT64_MAX), LLADD_WRITE_FAILED);
    ck_assert_int_eq(r.err.sys_errno, ENOSPC);
    ck_assert(ll_poisoned(&r.poison));
    fixture_close(&r);
}
END_TEST

/* After ll_buffer_want_memory, the cache writes pages back without an allocation (REC-3). */
START_TEST(wanted_memory_is_enough_to_write_back)
{
    enum { CACHED = 4 * PAGES, ALL = 4 * CACHED };
    struct fixture r;
    fixture_open(&r, _i, CACHED);
    for (uint64_t n = 0; n < ALL; n++)
        fixture_put(&r, n, n);
    fixture_flush(&r);
    fixture_reopen(&r);
    for (uint64_t n = 0; n < ALL; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n);
    ck_assert_int_eq(ll_buffer_want_memory(r.b, &r.err), 0);
    fault_alloc_fail(&r.mem, 1, true);
    for (uint64_t n = 0; n < ALL; n++)
        fixture_put(&r, n, n + 1);
    fault_alloc_fail(&r.mem, 0, false);
    for (uint64_t n = 0; n < ALL; n++)
        ck_assert_uint_eq(fixture_get(&r, n), n + 1);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: writing back");
    TCase *t = tcase_create("both providers, both devices");
    tcase_add_loop_test(t, a_page_is_dirty_from_its_first_change, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_written_page_stays_until_a_sync, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, the_first_sync_is_never_skipped, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, written_copies_are_summed_up_until_a_sync, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, flush_writes_what_matches, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, neighbours_go_out_together, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, flush_of_many_pages, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, the_log_is_forced_first, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_gate_that_fails, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, an_image_protects_a_page_with_an_old_base, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, no_credit_for_images_is_held_while_the_log_is_forced, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_gate_that_fails_too_late, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_gate_that_fails_eviction, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, the_page_type_sees_the_copy, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, zeros_stay_zeros, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, steps_keep_clean_pages_ahead, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_failed_write_or_sync_poisons, 0, 5 * FIXTURE_KINDS);
    tcase_add_loop_test(t, no_space_for_a_page_write_poisons, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, wanted_memory_is_enough_to_write_back, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
