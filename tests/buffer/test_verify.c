/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffer manager returns no page from the disk that does not verify (BUF-2). A page with a
 * flipped bit, a torn page, and a page from another place or another database do not verify. A page
 * of zeros was never formatted, and is returned. A page that does not verify is either repaired, or
 * the error names it.
 */
#include "buffer_fixture.h"
#include "support/fixtures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 8, SECTOR = 512, SECTORS = FIXTURE_PAGE / SECTOR };

/* ---- the function ---- */

static void make_page(unsigned char *page, uint64_t n, uint64_t lsn, uint64_t value)
{
    memset(page, 0, FIXTURE_PAGE);
    fixture_stamp(page, FIXTURE_PAGE, n, lsn, value);
    lladd_put32(page, ll_page_crc(FIXTURE_SALT, lladd_page_of(n), page, FIXTURE_PAGE));
}

static int verify(uint32_t salt, uint64_t n, const unsigned char *page, struct lladd_error *err)
{
    return ll_page_verify(salt, lladd_page_of(n), page, FIXTURE_PAGE, "pages", err);
}

START_TEST(every_bit_counts)
{
    unsigned char page[FIXTURE_PAGE];
    struct lladd_error err;
    make_page(page, 42, 1000, 7);
    ck_assert_int_eq(verify(FIXTURE_SALT, 42, page, &err), 0);
    for (unsigned bit = 0; bit < 8 * FIXTURE_PAGE; bit++) {
        page[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_int_eq(verify(FIXTURE_SALT, 42, page, &err), LLADD_CORRUPT_PAGE);
        page[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    ck_assert_uint_eq(err.page.v, 42);
    ck_assert_ptr_nonnull(strstr(err.message, "\"pages\": page 42 has checksum"));
}
END_TEST

START_TEST(identity_counts)
{
    unsigned char page[FIXTURE_PAGE];
    struct lladd_error err;
    make_page(page, 42, 1000, 7);
    ck_assert_int_eq(verify(FIXTURE_SALT, 43, page, &err), LLADD_CORRUPT_PAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "the place of page 43 holds page 42"));
    ck_assert_int_eq(verify(FIXTURE_SALT + 1, 42, page, &err), LLADD_CORRUPT_PAGE);
    /* A page that contains the number 42 is refused in the place of page 43, even if its checksum
     * is the right one for that place. */
    lladd_put32(page, ll_page_crc(FIXTURE_SALT, lladd_page_of(43), page, FIXTURE_PAGE));
    ck_assert_int_eq(verify(FIXTURE_SALT, 43, page, &err), LLADD_CORRUPT_PAGE);
}
END_TEST

START_TEST(zeros_are_a_page)
{
    unsigned char page[FIXTURE_PAGE];
    memset(page, 0, sizeof page);
    ck_assert_int_eq(verify(FIXTURE_SALT, 0, page, NULL), 0);
    ck_assert_int_eq(verify(FIXTURE_SALT, 99, page, NULL), 0);
    page[FIXTURE_PAGE - 1] = 1;
    ck_assert_int_eq(verify(FIXTURE_SALT, 99, page, NULL), LLADD_CORRUPT_PAGE);
}
END_TEST

/* ---- reading ---- */

/* Every mix of old and new sectors is a torn page, and is refused. */
START_TEST(a_page_torn_anywhere)
{
    struct fixture r;
    unsigned char old[FIXTURE_PAGE], new[FIXTURE_PAGE], torn[FIXTURE_PAGE];
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 3, 1);
    fixture_flush(&r);
    make_page(old, 3, 1000, 1);
    make_page(new, 3, 1010, 2);
    for (unsigned mask = 1; mask < (1u << SECTORS) - 1; mask++) {
        for (unsigned i = 0; i < SECTORS; i++)
            memcpy(torn + i * SECTOR, (mask >> i & 1 ? new : old) + i * SECTOR, SECTOR);
        fixture_poke(&r, 3 * FIXTURE_PAGE, torn, FIXTURE_PAGE);
        ck_assert_int_eq(ll_buffer_drop(r.b, lladd_page_of(3), 1), 0);
        ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
        ck_assert_uint_eq(r.err.page.v, 3);
    }
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 0); /* a page that failed leaves no frame */
    fixture_poke(&r, 3 * FIXTURE_PAGE, new, FIXTURE_PAGE);
    ck_assert_uint_eq(fixture_get(&r, 3), 2);
    fixture_close(&r);
}
END_TEST

START_TEST(a_page_in_the_wrong_place)
{
    struct fixture r;
    unsigned char page[FIXTURE_PAGE];
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 1, 11);
    fixture_put(&r, 2, 22);
    fixture_flush(&r);
    fixture_peek(&r, 1 * FIXTURE_PAGE, page, FIXTURE_PAGE);
    fixture_poke(&r, 2 * FIXTURE_PAGE, page, FIXTURE_PAGE);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 1), 11);
    ck_assert_int_eq(fixture_try(&r, 2, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "holds page 1"));
    fixture_close(&r);
}
END_TEST

START_TEST(another_databases_file)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 11);
    fixture_flush(&r);
    r.cfg.salt ^= 1;
    fixture_reopen(&r);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    fixture_close(&r);
}
END_TEST

/* If the file ends within a page, the page exists. It is damaged unless its bytes are zeros. */
START_TEST(a_file_cut_short)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    for (uint64_t n = 0; n < 3; n++)
        fixture_put(&r, n, n + 1);
    fixture_flush(&r);
    struct lladd_file *file;
    ck_assert_int_eq(r.base->ops->open(r.base, "pages", 0, &file), 0);
    ck_assert_int_eq(r.base->ops->truncate(r.base, file, 2 * FIXTURE_PAGE + 100), 0);
    fixture_reopen(&r);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 3);
    ck_assert_uint_eq(fixture_get(&r, 1), 2);
    ck_assert_int_eq(fixture_try(&r, 2, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    /* An extension must not fill the damaged page with zeros, because a page of zeros is valid. */
    ck_assert_int_eq(ll_buffer_extend(r.b, 5, &r.err), 0);
    ck_assert_int_eq(fixture_try(&r, 2, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fixture_get(&r, 4), 0);
    ck_assert_int_eq(r.base->ops->truncate(r.base, file, FIXTURE_PAGE), 0);
    ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
    fixture_reopen(&r);
    ck_assert_int_eq(fixture_try(&r, 1, LL_FIX_SHARED), LLADD_OUT_OF_RANGE);
    fixture_close(&r);
}
END_TEST

START_TEST(a_device_that_cannot_read)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_flush(&r);
    fixture_reopen(&r);
    fault_device_fail(r.fault, 1, FAULT_PREAD, EIO, false);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_READ_FAILED);
    ck_assert_int_eq(r.err.sys_errno, EIO);
    ck_assert_uint_eq(r.err.page.v, 0);
    ck_assert_ptr_nonnull(strstr(r.err.message, "read page 0 of \"pages\""));
    test_world_fail_at(&r.world, "buffer.load", 1, EIO);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE), LLADD_READ_FAILED);
    test_world_fail_at(&r.world, "buffer.load", 1, ENOMEM);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_REDO), LLADD_NO_MEMORY);
    ck_assert_uint_eq(fixture_stats(&r).frames_used, 0);
    ck_assert_uint_eq(fixture_get(&r, 0),
                      5); /* the frame was released, so the page can be read later */
    ck_assert(!ll_poisoned(&r.poison));
    fixture_close(&r);
}
END_TEST

/* ---- redo ---- */

START_TEST(redo_gets_damaged_pages_as_zeros)
{
    struct fixture r;
    fixture_open(&r, _i, PAGES);
    fixture_put(&r, 0, 5);
    fixture_put(&r, 1, 6);
    fixture_flush(&r);
    fixture_reopen(&r);
    unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO;
    fault_device_fail(r.fault, 1, FAULT_PREAD, EIO, false);
    struct ll_frame *f = fixture_fix(&r, 0, how);
    ck_assert_uint_eq(f->flags, LL_FRAME_BASELESS | LL_FRAME_UNREAD);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), 0);
    fixture_unfix(&r, f, how);
    fixture_poke(&r, 700, "x", 1);
    fixture_reopen(&r);
    f = fixture_fix(&r, 0, how);
    ck_assert_uint_eq(f->flags, LL_FRAME_BASELESS);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), 0);
    ck_assert_uint_eq(ll_page_lsn(f->page.bytes).v, 0);
    fixture_unfix(&r, f, how);
    f = fixture_fix(&r, 1, how);
    ck_assert_uint_eq(f->flags, 0);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), 6);
    fixture_unfix(&r, f, how);
    f = fixture_fix(&r, 9, how); /* a page beyond the end of the file */
    ck_assert_uint_eq(f->flags, 0);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), 0);
    fixture_unfix(&r, f, how);
    ck_assert_uint_eq(ll_buffer_page_count(r.b), 10);
    /* The mark stays until the page gets a base, or is created anew. */
    f = fixture_fix(&r, 0, how);
    ck_assert_uint_eq(f->flags, LL_FRAME_BASELESS);
    fixture_unfix(&r, f, how);
    f = fixture_fix(&r, 0, LL_FIX_EXCLUSIVE | LL_FIX_FRESH);
    ck_assert_uint_eq(f->flags, 0);
    fixture_unfix(&r, f, how);
    fixture_close(&r);
}
END_TEST

/* ---- repair ---- */

static struct {
    struct fixture *r;
    int rc;
    uint64_t calls;
    uint64_t since;
} mechanic;

static int repair(void *ctx, struct ll_fetch *fetch, struct lladd_error *err)
{
    (void)ctx;
    if (fetch->state == LL_FETCH_READ)
        fetch->state = LL_FETCH_DONE;
    if (fetch->state != LL_FETCH_DAMAGED)
        return 0;
    mechanic.calls++;
    ck_assert_int_eq(fetch->damage.code, LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fetch->damage.page.v, fetch->page.v);
    if (mechanic.rc != 0)
        return ll_fail_page(err, mechanic.rc, fetch->page, "beyond repair");
    memset(fetch->bytes, 0, FIXTURE_PAGE);
    fixture_stamp(fetch->bytes, FIXTURE_PAGE, fetch->page.v, 990, 99);
    ll_page_set_base(fetch->bytes, lladd_lsn_of(900));
    ll_buffer_enter(mechanic.r->b, fetch->frame, lladd_lsn_of(mechanic.since));
    fetch->rebuilt = true;
    fetch->state = LL_FETCH_DONE;
    return 0;
}

START_TEST(damaged_pages_are_repaired)
{
    struct fixture r;
    memset(&mechanic, 0, sizeof mechanic);
    mechanic.r = &r;
    mechanic.since = 950;
    fixture_init(&r, _i, PAGES);
    r.cfg.recovery.fetch = repair;
    fixture_create(&r);
    fixture_put(&r, 1, 5);
    fixture_flush(&r);
    fixture_poke(&r, FIXTURE_PAGE + 700, "x", 1);
    fixture_reopen(&r);
    mechanic.rc = LLADD_CORRUPT_PAGE;
    ck_assert_int_eq(fixture_try(&r, 1, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    ck_assert_str_eq(r.err.message, "beyond repair");
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    mechanic.rc = 0;
    ck_assert_uint_eq(fixture_get(&r, 1), 99);
    ck_assert_uint_eq(mechanic.calls, 2);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    /* The page is dirty from the LSN that the repair returned. */
    struct fixture_dirty d;
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 1);
    ck_assert_uint_eq(d.at[0].page, 1);
    ck_assert_uint_eq(d.at[0].rec, 950);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stored(&r, 1), 99);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 1), 99);
    ck_assert_uint_eq(mechanic.calls, 2);
    fixture_close(&r);
}
END_TEST

static bool from_1000_on(void *ctx, lladd_lsn lsn)
{
    (void)ctx;
    return lsn.v >= 1000;
}

/* If a page is newer than the log, it was written when the log was longer than now. The contents of
 * the page can be neither redone nor undone. */
START_TEST(a_page_that_is_newer_than_its_log)
{
    struct fixture r;
    unsigned char page[FIXTURE_PAGE];
    memset(&mechanic, 0, sizeof mechanic);
    mechanic.r = &r;
    mechanic.since = 950;
    fixture_init(&r, _i, PAGES);
    r.cfg.recovery.lost = from_1000_on;
    fixture_create(&r);
    fixture_put(&r, 1, 5);
    fixture_put(&r, 3, 5);
    fixture_flush(&r);
    make_page(page, 1, 992, 6);
    fixture_poke(&r, FIXTURE_PAGE, page, FIXTURE_PAGE);
    make_page(page, 3, 1000, 7);
    fixture_poke(&r, 3 * FIXTURE_PAGE, page, FIXTURE_PAGE);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 1), 6);
    ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_SHARED), LLADD_LOG_LOST);
    ck_assert_ptr_nonnull(strstr(r.err.message, "page 3 of \"pages\" has page LSN 1000"));
    ck_assert_int_eq(ll_buffer_bulk_read(r.b, lladd_page_of(3), 1, page, true, &r.err),
                     LLADD_LOG_LOST);
    r.cfg.recovery.fetch = repair;
    fixture_reopen(&r);
    ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_SHARED), LLADD_LOG_LOST); /* is not repaired */
    ck_assert_int_eq(fixture_try(&r, 3, LL_FIX_EXCLUSIVE | LL_FIX_REDO), LLADD_LOG_LOST);
    ck_assert_uint_eq(mechanic.calls, 0);
    fixture_close(&r);
}
END_TEST

static int refuse(void *ctx, struct ll_frame *f, struct lladd_error *err)
{
    (void)ctx;
    (void)f;
    return ll_fail(err, LLADD_WRONG_TYPE, "no");
}

/* A page is repaired, and then the `loaded` callback of its type refuses it. No dirty frame is
 * left. */
START_TEST(a_repaired_page_that_its_type_refuses)
{
    struct fixture r;
    memset(&mechanic, 0, sizeof mechanic);
    mechanic.r = &r;
    fixture_init(&r, _i, PAGES);
    r.cfg.recovery.fetch = repair;
    r.cfg.loaded = refuse;
    fixture_create(&r);
    fixture_poke(&r, 700, "x", 1);
    fixture_reopen(&r);
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_WRONG_TYPE);
    ck_assert_uint_eq(fixture_stats(&r).dirty, 0);
    struct fixture_dirty d;
    fixture_dirty(&r, &d);
    ck_assert_uint_eq(d.n, 0);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: verification");
    TCase *t = tcase_create("ll_page_verify");
    tcase_add_test(t, every_bit_counts);
    tcase_add_test(t, identity_counts);
    tcase_add_test(t, zeros_are_a_page);
    suite_add_tcase(s, t);
    t = tcase_create("reading");
    tcase_add_loop_test(t, a_page_torn_anywhere, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_in_the_wrong_place, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, another_databases_file, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_file_cut_short, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_device_that_cannot_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, redo_gets_damaged_pages_as_zeros, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, damaged_pages_are_repaired, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_that_is_newer_than_its_log, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_repaired_page_that_its_type_refuses, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
