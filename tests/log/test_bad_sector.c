/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sector of the log cannot be read. Only what needs a byte of the sector fails, with
 * LLADD_READ_FAILED: a record, or if a block's header is in the sector, all records of the block.
 * What is tolerated when it is damaged is tolerated when it cannot be read. A segment with a header
 * that cannot be read stays a part of the log, because a later read may succeed.
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

/* ---- headers of segments ---- */

enum { ROOM = SECTOR - LL_LOG_BLOCK_HEADER, SEGMENTS = 6 };
enum { FIRST = LL_LOG_FIRST_LSN, FOURTH = FIRST + 3 * ROOM };

/* Makes a log of segments of one sector. Returns the first LSN of the last segment. */
static uint64_t make_segments(void)
{
    f.cfg.segment_max = SECTOR;
    fixture_create(&f);
    while (ll_log_tail(f.log).v < FIRST + SEGMENTS * ROOM - ROOM / 2) {
        put(&f, 100);
        force(&f);
    }
    return FIRST + (SEGMENTS - 1) * ROOM;
}

/* Returns the number of the first record that begins at or after lsn. */
static size_t record_from(uint64_t lsn)
{
    size_t i = 0;
    while (f.list[i].rec.lsn.v < lsn)
        i++;
    return i;
}

static void only_bad_header(uint64_t first)
{
    char name[LL_LOG_NAME_SIZE];
    name_of(first, name);
    fault_device_bad_sector(f.fd, NULL, 0);
    fault_device_bad_sector(f.fd, name, 10);
}

static void must_name(uint64_t first, int rc)
{
    char name[LL_LOG_NAME_SIZE];
    name_of(first, name);
    ck_assert_msg(rc == LLADD_READ_FAILED, "segment %llu: %d: %s", (unsigned long long)first, rc,
                  f.err.message);
    ck_assert_msg(strstr(f.err.message, name) != NULL, "%s", f.err.message);
    ck_assert_uint_eq(f.err.lsn.v, first);
    ck_assert_int_eq(f.err.sys_errno, EIO);
}

/* The segment that begins at `first` has a header that cannot be read. Only records with bytes in
 * this segment cannot be read. A search for the next record does not go over them, except in
 * inspection. */
static void check_all_but(uint64_t first)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (size_t i = 0; i < f.count; i++) {
        uint64_t lsn = f.list[i].rec.lsn.v, end = lsn + f.list[i].rec.size;
        int rc = ll_log_cursor_read(c, lladd_lsn_of(lsn), &rec, &f.err);
        if (lsn < first + ROOM && end > first)
            must_name(first, rc);
        else
            check_record(&f, &rec, i);
    }
    if (!f.cfg.lenient)
        must_name(first, ll_log_cursor_seek(c, lladd_lsn_of(first), &rec, &f.err));
    ll_log_cursor_close(c);
}

/* Recovery begins in the fourth segment. Until their headers can be read, the lower segments stay
 * where they are: the log does not begin later, so a reader that needs them does not miss them. */
START_TEST(a_segment_that_recovery_does_not_need)
{
    make_segments();
    f.start.from = f.list[record_from(FOURTH)].rec.lsn;
    for (uint64_t first = FIRST; first < FOURTH; first += ROOM) {
        only_bad_header(first);
        must(&f, look(&f));
        ck_assert_uint_eq(ll_log_oldest(f.log).v, FIRST);
        ck_assert_uint_eq(ll_log_whole_from(f.log).v, FIRST);
        must(&f, ll_log_reaches(f.log, lladd_lsn_of(first + ROOM), &f.err));
        must_name(first, ll_log_reaches(f.log, lladd_lsn_of(first + ROOM - 8), &f.err));
        check_all_but(first);
        fault_device_bad_sector(f.fd, NULL, 0);
        must(&f, ll_log_reaches(f.log, lladd_lsn_of(FIRST), &f.err));
        check_records(&f, 0, f.count);
    }
}
END_TEST

/* _i: analysis or redo begins in the first segment. The log is not changed, so when the header can
 * be read again, nothing is lost. */
START_TEST(a_segment_that_recovery_needs)
{
    uint64_t last = make_segments();
    if (_i) {
        f.start.redo = f.list[0].rec.lsn;
        f.start.from = f.list[record_from(FOURTH)].rec.lsn;
    }
    fault_device_reset_calls(f.fd);
    for (uint64_t first = FIRST; first <= last; first += ROOM) {
        only_bad_header(first);
        must_name(first, look(&f));
    }
    ck_assert_uint_eq(fault_device_calls(f.fd, FAULT_WRITES), 0);
    fault_device_bad_sector(f.fd, NULL, 0);
    must(&f, reopen(&f));
    check_records(&f, 0, f.count);
}
END_TEST

static void maintain(void)
{
    for (bool more = true; more;)
        must(&f, ll_log_maintain(f.log, &more, &f.err));
}

/* The header of a segment above the log's end may say where the log before it ends, so it is
 * needed. After a clean stop, the end is known. Then the header is needed when the other segments
 * are, and a failure does not last. */
START_TEST(a_preallocated_segment)
{
    uint64_t last = make_segments();
    maintain();
    for (uint64_t first = last + ROOM; first <= last + 2 * ROOM; first += ROOM) {
        only_bad_header(first);
        must_name(first, look(&f));
    }
    fault_device_bad_sector(f.fd, NULL, 0);
    must(&f, reopen(&f));
    maintain();
    stop(&f);
    only_bad_header(f.start.segment.v + ROOM);
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    put(&f, 100);
    force(&f);
    must_name(f.start.segment.v + ROOM, ll_log_truncate(f.log, lladd_lsn_of(FIRST), &f.err));
    fault_device_bad_sector(f.fd, NULL, 0);
    must(&f, ll_log_truncate(f.log, lladd_lsn_of(FIRST), &f.err));
    check_records(&f, 0, f.count);
}
END_TEST

/* One read fails, each in turn. */
START_TEST(a_read_that_fails_once)
{
    bool fired = true, opened = false;
    make_segments();
    f.start.from = f.list[record_from(FOURTH)].rec.lsn;
    for (uint64_t n = 1; fired; n++) {
        fault_device_fail(f.fd, n, FAULT_PREAD, EIO, false);
        int rc = look(&f);
        fired = fault_device_fired(f.fd) != 0;
        ck_assert(rc == 0 || (rc == LLADD_READ_FAILED && fired));
        opened |= fired && rc == 0;
        if (rc)
            must(&f, look(&f));
        ck_assert_uint_eq(ll_log_oldest(f.log).v, FIRST);
        check_records(&f, 0, f.count);
    }
    ck_assert(opened);
}
END_TEST

/* The log continues, also after another crash. The file is removed when the log is truncated. */
START_TEST(a_segment_with_a_bad_header_is_truncated)
{
    enum { SECOND = FIRST + ROOM };
    char name[LL_LOG_NAME_SIZE];
    make_segments();
    name_of(SECOND, name);
    f.start.from = f.list[record_from(FOURTH)].rec.lsn;
    only_bad_header(SECOND);
    for (unsigned i = 0; i < 3; i++) {
        crash_and_reopen(&f, i % 2 ? FAULT_KILL : FAULT_POWER);
        must(&f, ll_log_truncate(f.log, lladd_lsn_of(SECOND), &f.err));
        ck_assert_uint_eq(ll_log_oldest(f.log).v, SECOND);
        put(&f, 100);
        force(&f);
    }
    must(&f, ll_log_truncate(f.log, lladd_lsn_of(SECOND + ROOM), &f.err));
    ck_assert_uint_eq(ll_log_oldest(f.log).v, SECOND + ROOM);
    maintain();
    ck_assert(!file_exists(&f, name));
    crash_and_reopen(&f, FAULT_KILL);
    ck_assert_uint_eq(ll_log_oldest(f.log).v, SECOND + ROOM);
    check_records(&f, record_from(SECOND + ROOM), f.count);
}
END_TEST

/* Returns the number of the first record that the walk has seen. */
static size_t walk(int gap)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    size_t seen = 0, first = SIZE_MAX;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (lladd_lsn from = {FIRST}; ll_log_cursor_walk(c, from, &rec, &f.err) == 0; from.v = 0) {
        ck_assert_int_eq(f.err.code, from.v ? gap : 0);
        if (rec.kind == LL_REC_SEAL)
            continue;
        seen = first == SIZE_MAX ? first = record_from(rec.lsn.v) : seen;
        check_record(&f, &rec, seen++);
    }
    ck_assert_uint_eq(seen, f.count);
    ll_log_cursor_close(c);
    return first;
}

/* After the log's end come whole records of a torn group, in the same segment and in the next ones.
 * The log goes on in a segment with a header that names the end. Returns that segment's first LSN.
 * *torn, *stale: the LSN of the record that is torn, and of a whole record in a next segment. */
static uint64_t make_torn_end(uint64_t *torn, uint64_t *stale)
{
    enum { TORN = 7 }; /* segments with a part of the torn group */
    char name[LL_LOG_NAME_SIZE];
    f.cfg.ring_bytes = BLOCK;
    uint64_t last = make_segments();
    size_t n = f.count;
    *torn = put(&f, 300).v;
    while (ll_log_tail(f.log).v < last + TORN * ROOM)
        put(&f, 300);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    uint64_t records[TORN];
    for (unsigned k = 1; k < TORN; k++)
        records[k] = f.list[record_from(last + k * ROOM)].rec.lsn.v;
    name_of(last, name);
    flip_byte(&f, name, *torn - last + LL_LOG_BLOCK_HEADER + 40, 1);
    f.count = n;
    must(&f, reopen(&f));
    uint64_t cut = ll_log_tail(f.log).v;
    while (ll_log_tail(f.log).v < cut + 2 * ROOM)
        put(&f, 100);
    force(&f);
    *stale = 0;
    for (unsigned k = 1; k < TORN; k++) { /* the other files are used again */
        name_of(last + k * ROOM, name);
        *stale = file_exists(&f, name) ? records[k] : *stale;
    }
    ck_assert_uint_ne(*stale, 0);
    f.start.from = f.list[record_from(cut + ROOM)].rec.lsn;
    return cut;
}

/* A walk must not take the records of the torn group for a part of the log. */
START_TEST(a_walk_begins_after_a_bad_header)
{
    uint64_t torn, stale, cut = make_torn_end(&torn, &stale);
    only_bad_header(cut);
    must(&f, look(&f));
    ck_assert_uint_eq(walk(LLADD_READ_FAILED), record_from(cut + ROOM));
    fault_device_bad_sector(f.fd, NULL, 0);
    ck_assert_uint_eq(walk(0), 0);
    f.cfg.read_only = f.cfg.lenient = true;
    f.start.from.v = FIRST;
    only_bad_header(cut);
    must_name(cut, look(&f));
}
END_TEST

/* Returns the number of records from the first one up to an error, or up to the end of the list. */
static size_t read_on(struct ll_log_cursor *c)
{
    struct ll_record rec;
    size_t i = 1;
    int rc = ll_log_cursor_read(c, f.list[0].rec.lsn, &rec, &f.err);
    while (i < f.count && (rc = ll_log_cursor_next(c, &rec, &f.err)) == 0)
        if (rec.kind != LL_REC_SEAL)
            check_record(&f, &rec, i++);
    return i;
}

/* Readers find the end of the log before the cut as soon as they can read the header again. */
START_TEST(a_header_that_can_be_read_again_names_the_end)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    uint64_t torn, stale, cut = make_torn_end(&torn, &stale);
    only_bad_header(cut);
    must(&f, reopen(&f));
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    ck_assert_uint_eq(read_on(c), record_from(torn));
    must_name(cut, f.err.code);
    fault_device_bad_sector(f.fd, NULL, 0);
    if (_i) {
        must(&f, ll_log_reaches(f.log, lladd_lsn_of(FIRST), &f.err));
        ck_assert(ll_log_lost(f.log, lladd_lsn_of(torn)));
        must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, lladd_lsn_of(stale), &rec, &f.err));
    }
    ck_assert_uint_eq(read_on(c), f.count);
    ll_log_cursor_close(c);
}
END_TEST

/* Inspection goes over the segment. If the segment may hold the log's end, the end is unknown. */
START_TEST(inspection_goes_over_a_bad_header)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    uint64_t last = make_segments();
    ll_log_close(f.log);
    f.log = NULL;
    f.cfg.read_only = f.cfg.lenient = true;
    for (uint64_t first = FIRST; first <= last; first += ROOM) {
        only_bad_header(first);
        must_name(first, look(&f));
        ck_assert_uint_eq(ll_log_oldest(f.log).v, FIRST);
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
        int rc = ll_log_cursor_seek(c, lladd_lsn_of(first), &rec, &f.err);
        ck_assert_int_eq(rc, first < last ? 0 : LLADD_END);
        ck_assert(rc || (rec.lsn.v >= first + ROOM && rec.lsn.v < first + ROOM + 500));
        ll_log_cursor_close(c);
        check_all_but(first);
    }
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
    tcase_add_test(t, a_segment_that_recovery_does_not_need);
    tcase_add_loop_test(t, a_segment_that_recovery_needs, 0, 2);
    tcase_add_test(t, a_preallocated_segment);
    tcase_add_test(t, a_read_that_fails_once);
    tcase_add_test(t, a_segment_with_a_bad_header_is_truncated);
    tcase_add_test(t, a_walk_begins_after_a_bad_header);
    tcase_add_loop_test(t, a_header_that_can_be_read_again_names_the_end, 0, 2);
    tcase_add_test(t, inspection_goes_over_a_bad_header);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
