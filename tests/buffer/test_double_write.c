/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The double-write area (REC-3). A page that no image in the log protects is whole after a power
 * failure, whichever call of a flush the failure interrupts. An old copy never replaces a newer
 * page. The area is verified when it is read. Writes to the area need no space.
 */
#include "buffer_fixture.h"
#include "support/fixtures.h"
#include "util/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 64, HEADERS = 2, DWB_PAGES = 15, DWB_MOST = 255, SECTOR = 512 };

static void open_fixture(struct fixture *r, int kind)
{
    fixture_init(r, kind, PAGES);
    r->cfg.dwb_name = "dwb";
    fixture_create(r);
}

/* Changes the page, and lets redo begin after the page's base, so that no image protects the
 * page. */
static uint64_t put_unprotected(struct fixture *r, uint64_t n, uint64_t value)
{
    ll_buffer_protect(r->b, lladd_lsn_of(r->gate.tail));
    return fixture_put(r, n, value);
}

static void area_io(struct fixture *r, bool write, uint64_t off, void *bytes, size_t len)
{
    struct lladd_device *dev = r->base;
    struct lladd_iovec piece = {bytes, len};
    struct lladd_file *file;
    ck_assert_int_eq(dev->ops->open(dev, "dwb", 0, &file), 0);
    if (write)
        ck_assert_int_eq(dev->ops->pwritev(dev, file, &piece, 1, off), 0);
    else
        ck_assert_int_eq(dev->ops->pread(dev, file, bytes, len, off), (int64_t)len);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

static bool area_is_empty(struct fixture *r)
{
    unsigned char header[FIXTURE_PAGE];
    area_io(r, false, 0, header, FIXTURE_PAGE);
    for (unsigned i = 0; i < FIXTURE_PAGE; i++) {
        if (header[i] != 0)
            return false;
    }
    return true;
}

/* ---- the protocol ---- */

struct trace {
    char calls[64];
    unsigned n;
};

/* Adds a letter for each write or sync: w or s for the area, W or S for the page file. */
static void note_call(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct trace *t = ctx;
    (void)number;
    bool area = strcmp(name, "dwb") == 0;
    char c = 0;
    if (kind == FAULT_PWRITEV)
        c = area ? 'w' : 'W';
    else if (kind == FAULT_SYNC)
        c = area ? 's' : 'S';
    if (c && t->n < sizeof t->calls - 1)
        t->calls[t->n++] = c;
}

START_TEST(copies_go_first)
{
    struct fixture r;
    struct trace t;
    open_fixture(&r, _i);
    ck_assert_int_eq(ll_buffer_extend(r.b, 10, &r.err), 0);
    fixture_format(&r, 3, 1);
    fixture_format(&r, 4, 1);
    fixture_flush(&r);
    put_unprotected(&r, 3, 2);
    put_unprotected(&r, 4, 3);
    fixture_format(&r, 5, 4);
    memset(&t, 0, sizeof t);
    fault_device_hook(r.fault, note_call, &t);
    fixture_flush(&r);
    fault_device_hook(r.fault, NULL, NULL);
    ck_assert_str_eq(t.calls, "WwsWSwwsS");
    for (uint64_t n = 3; n < 6; n++)
        ck_assert_uint_eq(fixture_stored(&r, n), n - 1);
    ck_assert(area_is_empty(&r));
    fixture_close(&r);
}
END_TEST

/* Flushes more pages than the area holds. */
START_TEST(many_unprotected_pages)
{
    struct fixture r;
    open_fixture(&r, _i);
    for (uint64_t n = 0; n < 3 * PAGES; n++)
        put_unprotected(&r, n, n + 1);
    fixture_flush(&r);
    for (uint64_t n = 0; n < 3 * PAGES; n++)
        ck_assert_uint_eq(fixture_stored(&r, n), n + 1);
    ck_assert_uint_eq(fixture_stats(&r).in_flight, 0);
    fixture_close(&r);
}
END_TEST

START_TEST(works_on_a_full_disk)
{
    struct fixture r;
    open_fixture(&r, _i);
    ck_assert_int_eq(ll_buffer_extend(r.b, 8, &r.err), 0);
    fault_device_capacity(r.fault, fault_device_bytes(r.fault));
    for (uint64_t n = 0; n < 8; n++)
        put_unprotected(&r, n, n + 1);
    fixture_flush(&r);
    for (uint64_t n = 0; n < 8; n++)
        ck_assert_uint_eq(fixture_stored(&r, n), n + 1);
    fixture_close(&r);
}
END_TEST

static uint64_t area_pages(struct fixture *r)
{
    struct lladd_file *file;
    uint64_t size = 0;
    ck_assert_int_eq(r->base->ops->open(r->base, "dwb", 0, &file), 0);
    ck_assert_int_eq(r->base->ops->size(r->base, file, &size), 0);
    ck_assert_int_eq(r->base->ops->close(r->base, file), 0);
    return size / FIXTURE_PAGE;
}

/* A batch that does not fit makes the area grow, if the disk has room. */
START_TEST(the_area_grows_if_the_disk_has_room)
{
    enum { MANY = DWB_PAGES + 8 };
    for (int full = 1; full >= 0; full--) {
        struct fixture r;
        fixture_init(&r, _i, 4 * DWB_MOST);
        r.cfg.dwb_name = "dwb";
        fixture_create(&r);
        ck_assert_int_eq(ll_buffer_extend(r.b, MANY, &r.err), 0);
        if (full)
            fault_device_capacity(r.fault, fault_device_bytes(r.fault));
        for (uint64_t n = 0; n < DWB_PAGES; n++)
            put_unprotected(&r, n, n + 2);
        fixture_flush(&r);
        ck_assert_uint_eq(area_pages(&r), DWB_PAGES + HEADERS);
        for (unsigned round = 0; round < 2; round++) {
            for (uint64_t n = 0; n < MANY; n++)
                put_unprotected(&r, n, n + 1);
            fixture_flush(&r);
            ck_assert_uint_eq(area_pages(&r), (full ? DWB_PAGES : DWB_MOST) + HEADERS);
            for (uint64_t n = 0; n < MANY; n++)
                ck_assert_uint_eq(fixture_stored(&r, n), n + 1);
            ck_assert(area_is_empty(&r));
            fixture_reopen(&r); /* the open reads the size of the area from the file */
        }
        fixture_close(&r);
    }
}
END_TEST

/* A buffer manager without an area writes all pages in place, even those that no image protects. */
START_TEST(no_area)
{
    struct fixture r;
    uint64_t restored = 7;
    fixture_open(&r, _i, PAGES);
    fixture_format(&r, 0, 1);
    fixture_flush(&r);
    put_unprotected(&r, 0, 5);
    fixture_flush(&r);
    ck_assert_uint_eq(fixture_stored(&r, 0), 5);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    fixture_close(&r);
}
END_TEST

/* ---- crashes ---- */

enum { CRASH_PAGES = 4 };

/* The durable value of pages 0...3 is 1. Then the value 2 is written to them through the area. The
 * power fails during the device call with number `call`, and the seed decides which sectors
 * survive. Then one of the headers cannot be read: header number `bad`, if it is below HEADERS.
 * Afterwards every page must be whole and hold 1 or 2. Returns true if the power has failed. */
static bool crash_once(int kind, uint64_t call, uint64_t seed, unsigned bad, uint64_t *restored)
{
    struct fixture r;
    open_fixture(&r, kind);
    for (uint64_t n = 0; n < CRASH_PAGES; n++)
        fixture_format(&r, n, 1);
    fixture_flush(&r);
    for (uint64_t n = 0; n < CRASH_PAGES; n++)
        put_unprotected(&r, n, 2);
    fault_device_crash_at(r.fault, call);
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    int rc = ll_buffer_flush(r.b, all, &r.err);
    bool crashed = fault_device_crashed(r.fault);
    ck_assert_int_eq(rc, crashed ? LLADD_WRITE_FAILED : 0);
    ll_buffer_close(r.b);
    fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_SUBSET, seed, true});

    uint64_t here = 0;
    ll_poison_init(&r.poison);
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    if (bad < HEADERS)
        fault_device_bad_sector(r.fault, "dwb", bad * FIXTURE_PAGE + 100);
    rc = ll_buffer_double_write_restore(r.b, &here, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert(area_is_empty(&r) || here == 0);
    for (uint64_t n = 0; n < CRASH_PAGES; n++) {
        uint64_t value = fixture_get(&r, n);
        ck_assert(value == 1 || value == 2);
        ck_assert(crashed || value == 2);
    }
    *restored += here;
    fixture_close(&r);
    return crashed;
}

START_TEST(the_power_fails_at_every_call)
{
    enum { SEEDS = 12 };
    uint64_t restored = 0, call = 1;
    for (bool crashed = true; crashed; call++) {
        crashed = false;
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            crashed |= crash_once(_i, call, seed * 1000003 + call, (unsigned)seed % (HEADERS + 1),
                                  &restored);
    }
    ck_assert_uint_gt(call, 8);
    ck_assert_uint_gt(restored, 20); /* pages had to be restored */
}
END_TEST

/* A power failure interrupts the restoring of pages. The next restoring starts from the
 * beginning. */
START_TEST(the_power_fails_during_restore)
{
    struct fixture r;
    uint64_t seed = 0, call = 1, restored = 0;
    for (bool crashed = true; crashed; call++) {
        open_fixture(&r, _i);
        for (uint64_t n = 0; n < CRASH_PAGES; n++)
            fixture_format(&r, n, 1);
        fixture_flush(&r);
        for (uint64_t n = 0; n < CRASH_PAGES; n++)
            put_unprotected(&r, n, 2);
        fault_device_crash_at(r.fault, 4); /* the sync of the pages */
        lladd_lsn all = lladd_lsn_of(UINT64_MAX);
        ck_assert_int_eq(ll_buffer_flush(r.b, all, &r.err), LLADD_WRITE_FAILED);
        ll_buffer_close(r.b);
        fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_SUBSET, ++seed, true});
        ll_poison_init(&r.poison);
        ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
        fault_device_crash_at(r.fault, call);
        (void)ll_buffer_double_write_restore(r.b, NULL, &r.err);
        crashed = fault_device_crashed(r.fault);
        ll_buffer_close(r.b);
        fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_SUBSET, ++seed, true});
        uint64_t here;
        ll_poison_init(&r.poison);
        ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &here, &r.err), 0);
        restored += here;
        for (uint64_t n = 0; n < CRASH_PAGES; n++) {
            uint64_t value = fixture_get(&r, n);
            ck_assert(value == 1 || value == 2);
        }
        fixture_close(&r);
    }
    ck_assert_uint_gt(call, 4);
    ck_assert_uint_gt(restored, 0);
}
END_TEST

/* The sync of the emptied area fails, and the process dies. So the empty header is only in the
 * system's cache. A recovery finds the header empty, and then the power fails. The old copies must
 * not come back, because their pages may have other contents by then. */
START_TEST(an_area_that_is_empty_in_the_cache_only)
{
    struct fixture r;
    uint64_t restored;
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    open_fixture(&r, _i);
    fixture_format(&r, 0, 1);
    fixture_flush(&r);
    put_unprotected(&r, 0, 2);
    fault_device_only(r.fault, "dwb");
    fault_device_fail(r.fault, 2, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(ll_buffer_flush(r.b, all, &r.err), LLADD_WRITE_FAILED);
    ll_buffer_close(r.b);
    fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_KILL, 0, false});
    fault_device_only(r.fault, NULL);
    ck_assert(area_is_empty(&r));
    ll_poison_init(&r.poison);
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    ll_buffer_close(r.b);
    fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_POWER, 0, false});
    ck_assert(area_is_empty(&r));
    ck_assert_int_eq(ll_buffer_open(&r.cfg, &r.b, &r.err), 0);
    fixture_close(&r);
}
END_TEST

/* ---- old copies ---- */

/* Puts a valid copy of the page in the area, as an interrupted batch leaves it. */
static void leave_copy(struct fixture *r, uint64_t n, uint64_t value, uint32_t salt,
                       uint32_t version, uint32_t count)
{
    unsigned char header[FIXTURE_PAGE], page[FIXTURE_PAGE];
    uint64_t headers = version < 3 ? 1 : HEADERS;
    memset(page, 0, sizeof page);
    fixture_stamp(page, FIXTURE_PAGE, n, 500, value);
    lladd_put32(page, ll_page_crc(FIXTURE_SALT, lladd_page_of(n), page, FIXTURE_PAGE));
    memset(header, 0, sizeof header);
    memcpy(header, "LLADDdwb", 8);
    lladd_put32(header + 8, version);
    lladd_put32(header + 12, salt);
    lladd_put32(header + 16, FIXTURE_PAGE);
    lladd_put32(header + 20, count);
    lladd_put64(header + 24, n);
    lladd_put32(header + 32, ll_page_checksum(page));
    lladd_put32(header + FIXTURE_PAGE - 4, ll_crc32c(0, header, FIXTURE_PAGE - 4));
    for (uint64_t i = 0; i < headers; i++)
        area_io(r, true, i * FIXTURE_PAGE, header, FIXTURE_PAGE);
    area_io(r, true, headers * FIXTURE_PAGE, page, FIXTURE_PAGE);
}

/* Damages a sector of the area: it cannot be read, or it is noise. */
static void spoil(struct fixture *r, uint64_t off, bool unreadable)
{
    unsigned char noise[SECTOR];
    memset(noise, 0xa5, sizeof noise);
    if (unreadable)
        fault_device_bad_sector(r->fault, "dwb", off);
    else
        area_io(r, true, off, noise, sizeof noise);
}

START_TEST(a_page_is_restored)
{
    struct fixture r;
    uint64_t restored;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    fixture_flush(&r);
    leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0); /* the page is valid, so the copy is not needed */
    ck_assert(area_is_empty(&r));
    ck_assert_uint_eq(fixture_get(&r, 1), 1);

    leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
    fixture_poke(&r, FIXTURE_PAGE + 512, "torn", 4);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 1);
    ck_assert(area_is_empty(&r));
    ck_assert_uint_eq(fixture_get(&r, 1), 9);
    /* A second call restores nothing. */
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    fixture_close(&r);
}
END_TEST

/* If ll_buffer_double_write_restore is not called, the first write restores the pages and empties
 * the area before it writes. Otherwise an old copy might replace a page that was torn later. */
START_TEST(copies_do_not_outlive_the_first_write)
{
    struct fixture r;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    fixture_flush(&r);
    leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
    fixture_reopen(&r);
    ck_assert_uint_eq(fixture_get(&r, 0), 1); /* reading changes nothing */
    ck_assert(!area_is_empty(&r));
    fixture_put(&r, 0, 2);
    fixture_flush(&r);
    ck_assert(area_is_empty(&r));
    leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
    fixture_reopen(&r);
    unsigned char page[FIXTURE_PAGE];
    memset(page, 0, sizeof page);
    ck_assert_int_eq(fixture_bulk(&r, lladd_page_of(5), 1, page, true), 0);
    ck_assert(area_is_empty(&r));
    fixture_close(&r);
}
END_TEST

/* A copy that the header does not list was left by an earlier batch. It is ignored. */
START_TEST(a_copy_that_the_header_does_not_list_is_ignored)
{
    struct fixture r;
    uint64_t restored;
    unsigned char header[FIXTURE_PAGE];
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    fixture_flush(&r);
    leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
    area_io(&r, false, 0, header, FIXTURE_PAGE);
    leave_copy(&r, 1, 8, FIXTURE_SALT, 1, 1);
    area_io(&r, true, 0, header, FIXTURE_PAGE);
    fixture_poke(&r, FIXTURE_PAGE + 512, "torn", 4);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    ck_assert_int_eq(fixture_try(&r, 1, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    fixture_close(&r);
}
END_TEST

/* ---- a damaged area ---- */

/* Opens the page file with a damaged area. Restoring and a flush must both return `code` and write
 * nothing. */
static void check_refused(struct fixture *r, int code)
{
    uint64_t restored;
    fixture_reopen(r);
    ck_assert_int_eq(ll_buffer_double_write_restore(r->b, &restored, &r->err), code);
    ck_assert_uint_eq(restored, 0);
    ck_assert_ptr_nonnull(strstr(r->err.message, "\"dwb\""));
    uint64_t writes = r->checker.page_writes;
    fixture_put(r, 0, 5);
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    ck_assert_int_eq(ll_buffer_flush(r->b, all, &r->err), code);
    ck_assert_uint_eq(r->checker.page_writes, writes);
    ck_assert_uint_eq(fixture_stats(r).dirty, 1);
    ck_assert(!ll_poisoned(&r->poison));
}

START_TEST(an_area_that_is_wrong)
{
    struct fixture r;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    leave_copy(&r, 0, 9, FIXTURE_SALT + 1, 1, 1);
    check_refused(&r, LLADD_FOREIGN_FILE);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 4, 1);
    check_refused(&r, LLADD_NEWER_FORMAT);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 3, DWB_MOST + 1);
    check_refused(&r, LLADD_CORRUPT_PAGE);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 2, DWB_MOST + 2);
    check_refused(&r, LLADD_CORRUPT_PAGE);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 1, DWB_PAGES + 2);
    check_refused(&r, LLADD_CORRUPT_PAGE);
    leave_copy(&r, UINT64_MAX / FIXTURE_PAGE, 9, FIXTURE_SALT, 1, 1);
    check_refused(&r, LLADD_CORRUPT_PAGE);
    struct lladd_file *file;
    ck_assert_int_eq(r.base->ops->open(r.base, "dwb", 0, &file), 0);
    ck_assert_int_eq(r.base->ops->truncate(r.base, file, 100), 0);
    ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
    check_refused(&r, LLADD_MISSING_FILE);
    ck_assert_int_eq(r.base->ops->unlink(r.base, "dwb"), 0);
    check_refused(&r, LLADD_MISSING_FILE);
    fixture_close(&r);
}
END_TEST

/* A header with a flipped bit counts as torn: nothing is restored. The header is cleared. Otherwise
 * `lladd verify` would report the torn header as damage after the next clean stop. */
START_TEST(any_bit_of_the_header)
{
    struct fixture r;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_put(&r, 1, 1);
    fixture_flush(&r);
    fixture_poke(&r, FIXTURE_PAGE + 512, "torn", 4);
    unsigned char byte;
    for (unsigned bit = 0; bit < 8 * 40; bit++) {
        uint64_t restored;
        leave_copy(&r, 1, 9, FIXTURE_SALT, 1, 1);
        area_io(&r, false, bit / 8, &byte, 1);
        byte ^= (unsigned char)(1 << bit % 8);
        area_io(&r, true, bit / 8, &byte, 1);
        fixture_reopen(&r);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
        ck_assert_uint_eq(restored, 0);
        for (unsigned i = 0; i < 40; i++) {
            area_io(&r, false, i, &byte, 1);
            ck_assert_uint_eq(byte, 0);
        }
    }
    fixture_close(&r);
}
END_TEST

/* The read of the copy fails, or the area ends within the copy. */
START_TEST(copies_that_cannot_be_read)
{
    struct fixture r;
    uint64_t restored;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    fixture_poke(&r, 512, "torn", 4);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 1, 1);
    fixture_reopen(&r);
    fault_device_bad_sector(r.fault, "dwb", FIXTURE_PAGE);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), LLADD_READ_FAILED);
    ck_assert_uint_eq(restored, 0);
    fault_device_bad_sector(r.fault, NULL, 0);
    struct lladd_file *file;
    ck_assert_int_eq(r.base->ops->open(r.base, "dwb", 0, &file), 0);
    ck_assert_int_eq(r.base->ops->truncate(r.base, file, FIXTURE_PAGE + 100), 0);
    ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
    fixture_reopen(&r);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    fixture_close(&r);
}
END_TEST

/* A copy that cannot be read is not needed if its page is whole. */
START_TEST(a_copy_of_a_whole_page_cannot_be_read)
{
    struct fixture r;
    uint64_t restored;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 1, 1);
    fixture_reopen(&r);
    fault_device_bad_sector(r.fault, "dwb", FIXTURE_PAGE);
    fault_device_reset_calls(r.fault);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    /* the header, the page, two empty headers */
    ck_assert_uint_eq(fault_device_calls(r.fault, FAULT_PWRITEV), 4);
    ck_assert(area_is_empty(&r));
    ck_assert_uint_eq(fixture_get(&r, 0), 1);
    fixture_close(&r);
}
END_TEST

/* A page is torn, and the area has its copy. One sector of the area is damaged. The copy is used,
 * unless it is the copy that is damaged. */
START_TEST(any_bad_sector_of_an_area_in_use)
{
    for (unsigned i = 0; i < 2 * 3 * FIXTURE_PAGE / SECTOR; i++) {
        struct fixture r;
        bool unreadable = i % 2;
        uint64_t off = i / 2 * SECTOR, restored;
        bool copy = off >= HEADERS * FIXTURE_PAGE;
        open_fixture(&r, _i);
        fixture_put(&r, 0, 1);
        fixture_flush(&r);
        leave_copy(&r, 0, 9, FIXTURE_SALT, 3, 1);
        fixture_poke(&r, 512, "torn", 4);
        fixture_reopen(&r);
        spoil(&r, off, unreadable);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err),
                         copy && unreadable ? LLADD_READ_FAILED : 0);
        ck_assert_uint_eq(restored, !copy);
        if (copy)
            ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
        else
            ck_assert_uint_eq(fixture_get(&r, 0), 9);
        ck_assert(area_is_empty(&r) || (copy && unreadable));
        fixture_close(&r);
    }
}
END_TEST

static void check_raw(struct fixture *r, uint64_t n)
{
    unsigned char raw[FIXTURE_PAGE];
    ck_assert_int_eq(ll_buffer_bulk_read(r->b, lladd_page_of(n), 1, raw, false, &r->err), 0);
    for (unsigned i = 0; i < sizeof raw; i++)
        ck_assert_uint_eq(raw[i], 0x77);
}

/* The page is written through the area. Then it becomes a raw page. */
static void make_raw(struct fixture *r, uint64_t n)
{
    unsigned char raw[FIXTURE_PAGE];
    fixture_format(r, n, 1);
    fixture_flush(r);
    put_unprotected(r, n, 2);
    fixture_flush(r);
    memset(raw, 0x77, sizeof raw);
    r->checker.raw = true;
    ck_assert_int_eq(fixture_bulk(r, lladd_page_of(n), 1, raw, false), 0);
    ck_assert_int_eq(ll_buffer_sync(r->b, &r->err), 0);
}

/* A page that had been written through the area is raw now, so it has no checksum. Its old copy is
 * still in the empty area. No damaged sector of the area brings it back or refuses the open. */
START_TEST(any_bad_sector_of_an_empty_area)
{
    for (unsigned i = 0; i < 2 * 3 * FIXTURE_PAGE / SECTOR; i++) {
        struct fixture r;
        uint64_t restored;
        open_fixture(&r, _i);
        make_raw(&r, 1);
        fixture_reopen(&r);
        spoil(&r, i / 2 * SECTOR, i % 2);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
        ck_assert_uint_eq(restored, 0);
        ck_assert(area_is_empty(&r));
        check_raw(&r, 1);
        fixture_close(&r);
    }
}
END_TEST

/* The disk loses one of the writes that empty the headers. The old copy does not come back. */
START_TEST(a_header_that_was_not_emptied)
{
    for (unsigned n = 0; n < HEADERS; n++) {
        struct fixture r;
        uint64_t restored;
        unsigned char zeros[FIXTURE_PAGE] = {0};
        open_fixture(&r, _i);
        make_raw(&r, 1);
        leave_copy(&r, 1, 9, FIXTURE_SALT, 3, 1);
        area_io(&r, true, n * FIXTURE_PAGE, zeros, sizeof zeros);
        fixture_reopen(&r);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
        ck_assert_uint_eq(restored, 0);
        ck_assert(area_is_empty(&r));
        check_raw(&r, 1);
        fixture_close(&r);
    }
}
END_TEST

/* Neither header can be read, and the area may have a copy that is needed. */
START_TEST(headers_that_cannot_be_read)
{
    struct fixture r;
    uint64_t restored;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 3, 1);
    fixture_reopen(&r);
    for (unsigned n = 0; n < HEADERS; n++)
        fault_device_bad_sector(r.fault, "dwb", n * FIXTURE_PAGE + 100);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), LLADD_READ_FAILED);
    ck_assert_ptr_nonnull(strstr(r.err.message, "dwb"));
    fault_device_bad_sector(r.fault, NULL, 0);
    ck_assert(!area_is_empty(&r));
    ck_assert_uint_eq(fixture_get(&r, 0), 1);
    fixture_close(&r);
}
END_TEST

/* An area of an earlier version has one header. If that cannot be read, the area counts as empty.
 * A page that is torn is found by its checksum. */
START_TEST(a_single_header_that_cannot_be_read)
{
    struct fixture r;
    uint64_t restored;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    leave_copy(&r, 0, 9, FIXTURE_SALT, 2, 1);
    fixture_poke(&r, 512, "torn", 4);
    fixture_reopen(&r);
    fault_device_bad_sector(r.fault, "dwb", 100);
    ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
    ck_assert_uint_eq(restored, 0);
    ck_assert(area_is_empty(&r));
    ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_CORRUPT_PAGE);
    fixture_close(&r);
}
END_TEST

/* After a clean stop no page is torn, so the first write to the page file empties the area. */
START_TEST(a_header_that_cannot_be_read_after_a_clean_stop)
{
    struct fixture r;
    open_fixture(&r, _i);
    fixture_put(&r, 0, 1);
    fixture_flush(&r);
    fixture_reopen(&r);
    for (unsigned n = 0; n < HEADERS; n++)
        fault_device_bad_sector(r.fault, "dwb", n * FIXTURE_PAGE + 100);
    fixture_put(&r, 0, 2);
    fixture_flush(&r);
    ck_assert(area_is_empty(&r));
    ck_assert_uint_eq(fixture_stored(&r, 0), 2);
    fixture_close(&r);
}
END_TEST

/* The page in its place cannot be read. The copy replaces it, if the copy is whole. */
START_TEST(a_page_that_cannot_be_read_is_restored)
{
    for (unsigned whole = 0; whole < 2; whole++) {
        struct fixture r;
        uint64_t restored;
        open_fixture(&r, _i);
        fixture_put(&r, 0, 1);
        fixture_flush(&r);
        leave_copy(&r, 0, 9, FIXTURE_SALT, 1, 1);
        unsigned char byte = 0xee;
        if (!whole)
            area_io(&r, true, FIXTURE_PAGE + 100, &byte, 1);
        fixture_reopen(&r);
        fault_device_bad_sector(r.fault, "pages", 512);
        ck_assert_int_eq(ll_buffer_double_write_restore(r.b, &restored, &r.err), 0);
        ck_assert_uint_eq(restored, whole);
        ck_assert(area_is_empty(&r));
        if (whole)
            ck_assert_uint_eq(fixture_get(&r, 0), 9);
        else
            ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), LLADD_READ_FAILED);
        fixture_close(&r);
    }
}
END_TEST

/* A tool reads an area. */
START_TEST(looking_into_an_area)
{
    struct fixture r;
    struct lladd_error err;
    unsigned char headers[HEADERS * FIXTURE_PAGE], byte;
    open_fixture(&r, _i);
    struct ll_double_write a = {.dev = r.base,
                                .name = "dwb",
                                .page_size = FIXTURE_PAGE,
                                .salt = FIXTURE_SALT,
                                .header = headers};
    ck_assert_int_eq(r.base->ops->open(r.base, "dwb", 0, &a.file), 0);
    ck_assert_int_eq(ll_double_write_look(&a, &err), LLADD_END);
    ck_assert_int_eq(a.flaw, 0);
    for (uint32_t version = 1; version <= 3; version++) {
        leave_copy(&r, 77, 9, FIXTURE_SALT, version, 1);
        ck_assert_int_eq(ll_double_write_look(&a, &err), 0);
        ck_assert_uint_eq(a.count, 1);
        ck_assert_uint_eq(a.first, version < 3 ? 1 : HEADERS);
        ck_assert_int_eq(a.flaw, 0);
        ck_assert_uint_eq(ll_double_write_page(headers, 0).v, 77);
    }
    a.salt = 1;
    ck_assert_int_eq(ll_double_write_look(&a, &err), LLADD_FOREIGN_FILE);
    ck_assert_uint_eq(a.count, 0);
    a.salt = FIXTURE_SALT;
    for (unsigned n = 0; n < HEADERS; n++) { /* first one header is damaged, then both are */
        area_io(&r, false, n * FIXTURE_PAGE + 100, &byte, 1);
        byte ^= 1;
        area_io(&r, true, n * FIXTURE_PAGE + 100, &byte, 1);
        ck_assert_int_eq(ll_double_write_look(&a, &err), 0);
        ck_assert_uint_eq(a.count, n == 0);
        ck_assert_int_eq(a.flaw, LLADD_CORRUPT_PAGE);
    }
    ck_assert_int_eq(r.base->ops->close(r.base, a.file), 0);
    fixture_close(&r);
}
END_TEST

START_TEST(create_refuses_what_exists)
{
    struct fixture r;
    open_fixture(&r, _i);
    struct ll_buffer_config cfg = r.cfg;
    struct ll_buffer *b;
    cfg.create = true;
    cfg.name = "other";
    ck_assert_int_eq(ll_buffer_open(&cfg, &b, &r.err), LLADD_EXISTS);
    ck_assert_ptr_nonnull(strstr(r.err.message, "\"dwb\""));
    struct lladd_file *file;
    /* The new file was removed again, but not the file that existed before. */
    ck_assert_int_eq(r.base->ops->open(r.base, "other", 0, &file), -ENOENT);
    ck_assert_int_eq(r.base->ops->open(r.base, "dwb", 0, &file), 0);
    ck_assert_int_eq(r.base->ops->close(r.base, file), 0);
    fixture_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: double-write area");
    TCase *t = tcase_create("both providers, both devices");
    tcase_add_loop_test(t, copies_go_first, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, many_unprotected_pages, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, works_on_a_full_disk, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, the_area_grows_if_the_disk_has_room, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, no_area, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_is_restored, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, copies_do_not_outlive_the_first_write, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_copy_that_the_header_does_not_list_is_ignored, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, an_area_that_is_wrong, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, any_bit_of_the_header, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, copies_that_cannot_be_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_copy_of_a_whole_page_cannot_be_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, any_bad_sector_of_an_area_in_use, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, any_bad_sector_of_an_empty_area, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, a_header_that_was_not_emptied, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, headers_that_cannot_be_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_single_header_that_cannot_be_read, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_header_that_cannot_be_read_after_a_clean_stop, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, a_page_that_cannot_be_read_is_restored, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, looking_into_an_area, 0, FIXTURE_KINDS);
    tcase_add_loop_test(t, create_refuses_what_exists, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    t = tcase_create("in memory");
    tcase_add_loop_test(t, the_power_fails_at_every_call, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, the_power_fails_during_restore, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, an_area_that_is_empty_in_the_cache_only, 0, FIXTURE_KINDS);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
