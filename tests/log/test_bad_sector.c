/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sector of the log cannot be read. Only what needs a byte of the sector fails, with
 * LLADD_READ_FAILED: a record, or if a block's header is in the sector, all records of the block.
 * What is tolerated when it is damaged is tolerated when it cannot be read.
 */
#include "log/log_private.h"
#include "log_fixture.h"

#include <string.h>

static struct fixture f;

enum { SECTOR = 4096, BLOCK = 64 << 10, SEGMENT = 4 * BLOCK };

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

/* Makes a log of one segment, with records of up to two sectors. Its blocks have 64 KiB. */
static void make_log(uint64_t end)
{
    f.cfg.segment_min = f.cfg.segment_max = SEGMENT;
    f.cfg.ring_bytes = BLOCK;
    fixture_create(&f);
    for (unsigned i = 0; ll_log_tail(f.log).v < end; i++) {
        put(&f, i % 13 ? 100 + i % 190 : 2 * SECTOR);
        force(&f);
    }
}

/* The offset in the segment's file. */
static uint64_t offset_of(uint64_t lsn)
{
    uint64_t room = BLOCK - LL_LOG_BLOCK_HEADER, rel = lsn - LL_LOG_FIRST_LSN;
    return rel / room * BLOCK + LL_LOG_BLOCK_HEADER + rel % room;
}

static void only_bad_sector(uint64_t offset)
{
    char name[LL_LOG_NAME_SIZE];
    name_of(LL_LOG_FIRST_LSN, name);
    fault_device_bad_sector(f.fd, NULL, 0);
    fault_device_bad_sector(f.fd, name, offset);
}

/* Does a reader of these bytes of the log need the bad sector? */
static bool needs(uint64_t from, uint64_t to, uint64_t bad)
{
    for (uint64_t lsn = from; lsn < to; lsn += 8) {
        uint64_t off = offset_of(lsn);
        if (off / SECTOR == bad / SECTOR || (off - off % BLOCK) / SECTOR == bad / SECTOR)
            return true;
    }
    return false;
}

/* Recovery reads the log from the middle of a block to its end. */
START_TEST(recovery_needs_only_what_it_scans)
{
    make_log(2 * BLOCK + BLOCK / 2);
    size_t first = f.count / 2;
    f.start.from = f.list[first].rec.lsn;
    uint64_t end = ll_log_durable(f.log).v;
    unsigned refused = 0;
    for (uint64_t bad = 0; bad < SEGMENT; bad += SECTOR) {
        only_bad_sector(bad);
        bool needed = bad == 0 || needs(f.start.from.v, end + 8, bad);
        int rc = look(&f);
        ck_assert_msg(rc == (needed ? LLADD_READ_FAILED : 0), "sector %u: %d: %s",
                      (unsigned)(bad / SECTOR), rc, f.err.message);
        ck_assert(!needed || strstr(f.err.message, "log/") != NULL);
        refused += needed;
    }
    ck_assert_uint_gt(refused, SEGMENT / SECTOR / 4);
    ck_assert_uint_lt(refused, SEGMENT / SECTOR / 2);
}
END_TEST

/* A torn group is at the end of the log. The search for a proof that the log is damaged goes over
 * what was never written. */
START_TEST(a_torn_end_before_a_bad_sector)
{
    make_log(BLOCK);
    uint64_t torn = put(&f, 300).v;
    put(&f, 300);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    char name[LL_LOG_NAME_SIZE];
    name_of(LL_LOG_FIRST_LSN, name);
    flip_byte(&f, name, offset_of(torn) + 40, 1);
    f.count -= 2;
    for (uint64_t bad = offset_of(torn) / SECTOR * SECTOR + 2 * SECTOR; bad < SEGMENT;
         bad += SECTOR) {
        only_bad_sector(bad);
        must(&f, look(&f));
        ck_assert_uint_eq(ll_log_scan_end(f.log).v, torn);
    }
    must(&f, reopen(&f));
    check_records(&f, 0, f.count);
}
END_TEST

static void read_all(struct ll_log_cursor *c, uint64_t bad)
{
    unsigned unread = 0;
    for (size_t i = 0; i < f.count; i++) {
        struct ll_record rec;
        uint64_t lsn = f.list[i].rec.lsn.v;
        bool needed = needs(lsn, lsn + f.list[i].rec.size, bad);
        int rc = ll_log_cursor_need(c, f.list[i].rec.lsn, &rec, &f.err);
        ck_assert_msg(rc == (needed ? LLADD_READ_FAILED : 0), "sector %u, LSN %llu: %d: %s",
                      (unsigned)(bad / SECTOR), (unsigned long long)lsn, rc, f.err.message);
        if (!needed) {
            check_record(&f, &rec, i);
            rc = ll_log_cursor_follow(c, f.list[i].rec.lsn, &rec, &f.err);
            ck_assert_msg(rc == 0, "%s", f.err.message);
            ck_assert_uint_eq(rec.lsn.v, lsn);
        }
        unread += needed;
    }
    ck_assert_uint_gt(unread, 0);
    ck_assert_uint_lt(unread, f.count / 2);
}

/* As undo does, a cursor reads records one by one. It can read again what was unreadable only for a
 * time. */
START_TEST(a_record_needs_only_its_own_sectors)
{
    struct ll_log_cursor *c;
    make_log(2 * BLOCK + BLOCK / 2);
    uint64_t end = ll_log_durable(f.log).v;
    stop_and_reopen(&f);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (uint64_t bad = 0; bad + SECTOR < offset_of(end); bad += SECTOR) {
        only_bad_sector(bad);
        ll_log_cursor_rest(c);
        read_all(c, bad);
        fault_device_bad_sector(f.fd, NULL, 0);
        check_records(&f, 0, f.count);
    }
    ll_log_cursor_close(c);
}
END_TEST

/* The header of a block is damaged, or its sector cannot be read. So the block's records are out of
 * reach, and a walk goes on in the next block. */
START_TEST(a_walk_goes_over_a_block_at_once)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    char name[LL_LOG_NAME_SIZE];
    make_log(3 * BLOCK);
    stop_and_reopen(&f);
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    if (_i == 0)
        only_bad_sector(BLOCK);
    name_of(LL_LOG_FIRST_LSN, name);
    if (_i == 1)
        flip_byte(&f, name, BLOCK + 8, 1);
    fault_device_reset_calls(f.fd);
    unsigned gaps = 0;
    size_t seen = 0;
    int rc = 0;
    for (lladd_lsn from = {LL_LOG_FIRST_LSN}; rc == 0; from.v = 0) {
        rc = ll_log_cursor_walk(c, from, &rec, &f.err);
        gaps += f.err.code != 0;
        if (rc || rec.kind == LL_REC_SEAL)
            continue;
        for (; f.list[seen].rec.lsn.v < rec.lsn.v; seen++)
            ck_assert(needs(f.list[seen].rec.lsn.v, f.list[seen].rec.lsn.v + f.list[seen].rec.size,
                            BLOCK));
        check_record(&f, &rec, seen++);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(gaps, 1);
    ck_assert_uint_eq(seen, f.count);
    ck_assert_uint_lt(fault_device_calls(f.fd, FAULT_PREAD), 16 * BLOCK / SECTOR);
    ll_log_cursor_close(c);
}
END_TEST

/* After a clean stop, the log is opened without a scan. Only whether a record follows its end is
 * looked at. That the end's sector cannot be read is no sign of a record. */
START_TEST(the_end_of_a_clean_log)
{
    make_log(BLOCK / 2);
    stop(&f);
    uint64_t end = offset_of(f.start.end.v);
    for (uint64_t bad = end + 8; bad < end + 64; bad += 8) {
        only_bad_sector(bad);
        must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
        must(&f, ll_log_start(f.log, &f.err));
        ll_log_close(f.log);
        f.log = NULL;
    }
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    put(&f, 100);
    force(&f);
    f.start.clean = false;
    must(&f, reopen(&f));
    check_records(&f, 0, f.count);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bad sector");
    TCase *t = tcase_create("bad sector");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, recovery_needs_only_what_it_scans);
    tcase_add_test(t, a_torn_end_before_a_bad_sector);
    tcase_add_test(t, a_record_needs_only_its_own_sectors);
    tcase_add_loop_test(t, a_walk_goes_over_a_block_at_once, 0, 2);
    tcase_add_test(t, the_end_of_a_clean_log);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
