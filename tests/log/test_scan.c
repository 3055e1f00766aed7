/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of opening a log after a crash. A crash may tear the last group of records at any byte.
 * After that byte the file may contain some of the group's bytes, or other bytes. The log then ends
 * within this group. It goes on in a new segment. The header of this segment names the cut (the LSN
 * at which the log ended), and its records get LSNs that were never handed out before (LOG-1,
 * LOG-2). An open can be repeated, even after a crash in the middle of it. Before an open does
 * anything else, it makes the records that it accepts durable (REC-4). Records that a cut has
 * removed do not come back.
 */
#include "log_fixture.h"

#include <string.h>

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

/* ---- helpers ---- */

/* A copy of a file of the device, to be restored. */
struct image {
    char name[LL_LOG_NAME_SIZE];
    unsigned char bytes[16384];
    size_t size;
};

static void take_image(struct image *image, uint64_t first)
{
    name_of(first, image->name);
    image->size = file_size(&f, image->name);
    ck_assert_uint_le(image->size, sizeof image->bytes);
    read_file(&f, image->name, 0, image->bytes, image->size);
}

static uint64_t offset_of(lladd_lsn lsn)
{
    struct ll_log_place place;
    ck_assert(ll_log_place(f.log, lsn, &place));
    return place.offset;
}

static void append_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put(&f, (i * 29) % 90);
}

/* ---- tails ---- */

/* For each byte of the last group, replaces this byte and all bytes that follow it in the file with
 * zeros (_i 0) or random bytes (_i 1), and opens the log. The log has all records of the groups
 * before the last one. Of the last group it has the first records, or none. */
START_TEST(torn_at_every_byte)
{
    struct image image;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    append_some(6);
    force(&f);
    size_t durable = f.count;
    uint64_t from = offset_of(ll_log_durable(f.log));
    append_some(4);
    force(&f);
    size_t all = f.count;
    struct appended list[16];
    ck_assert_uint_le(all, 16);
    memcpy(list, f.list, all * sizeof list[0]);
    uint64_t to = offset_of(lladd_lsn_of(ll_log_durable(f.log).v - 1)) + 1;
    take_image(&image, 8);
    for (uint64_t at = from; at < to; at++) {
        unsigned char rest[4096];
        write_file(&f, image.name, 0, image.bytes, image.size);
        if (_i == 0)
            memset(rest, 0, sizeof rest);
        else
            seeded_fill(at, rest, sizeof rest);
        write_file(&f, image.name, at, rest, image.size - at);
        f.durable_count = durable;
        f.count = all;
        memcpy(f.list, list, all * sizeof list[0]);
        f.start.watermark = lladd_lsn_of(8);
        must(&f, reopen(&f));
        ck_assert_uint_ge(f.count, durable);
        /* The log may have all records only if the replaced bytes are the seal and at most 16
         * bytes before it. (The last record may itself end with zeros; zeros do not change it.) */
        ck_assert(f.count < all || at + LL_LOG_SEAL_SIZE + 16 >= to);
        append_some(2);
        force(&f);
        check_records(&f, 0, f.count);
        f.count -= 2;
        /* Remove the segment that this iteration made. */
        uint64_t cut_segment = ll_log_oldest(f.log).v;
        ck_assert_uint_eq(cut_segment, 8);
        ll_log_close(f.log);
        f.log = NULL;
        for (uint64_t first = 8 + 4032; first < 8 + 5 * 4032; first += 4032) {
            char name[LL_LOG_NAME_SIZE];
            name_of(first, name);
            if (file_exists(&f, name))
                ck_assert_int_eq(f.cfg.dev->ops->unlink(f.cfg.dev, name), 0);
        }
    }
}
END_TEST

/* A loss of power leaves the last group without a random subset of its sectors. */
START_TEST(torn_with_holes)
{
    uint64_t random = 11;
    for (unsigned round = 0; round < 150; round++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.segment_min = 4096u << round % 3;
        fixture_create(&f);
        append_some(10);
        force(&f);
        append_some(60 + round % 40);
        must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err)); /* and no sync */
        ll_log_close(f.log);
        f.log = NULL;
        struct fault_crash how = {FAULT_SUBSET, seeded_next(&random), true};
        fault_device_power_cycle(f.fd, &how);
        must(&f, reopen(&f));
        size_t n = f.count;
        ck_assert_uint_ge(n, 10);
        append_some(20);
        force(&f);
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, n + 20);
        check_records(&f, 0, f.count);
    }
}
END_TEST

/* ---- cuts ---- */

/* After an unclean stop, each new LSN is higher than all LSNs that the log may have handed out
 * before. */
START_TEST(lsns_are_never_used_again)
{
    uint64_t highest = 0;
    fixture_create(&f);
    for (unsigned round = 0; round < 30; round++) {
        append_some(round % 4);
        if (round % 3 == 1 && f.count > 0)
            force(&f);
        put(&f, 100);
        ck_assert_uint_gt(f.list[f.count - 1].rec.lsn.v, highest);
        highest = f.list[f.count - 1].rec.lsn.v;
        if (round % 5 == 4) /* more LSNs are handed out and lost */
            append_some(50);
        highest = ll_log_tail(f.log).v;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_ge(ll_log_tail(f.log).v, highest);
        ck_assert_uint_eq(ll_log_incarnation(f.log), round + 2);
    }
    check_records(&f, 0, f.count);
}
END_TEST

/* Several crashes follow each other, and no record is appended between them. No record is lost. The
 * number of files does not grow, because the log reuses the empty segments. */
START_TEST(empty_cuts)
{
    struct ll_log_stats stats;
    fixture_create(&f);
    append_some(10);
    force(&f);
    for (unsigned round = 0; round < 20; round++) {
        crash_and_reopen(&f, round % 2 ? FAULT_KILL : FAULT_POWER);
        ck_assert_uint_eq(f.count, 10);
        ll_log_stats(f.log, &stats);
        ck_assert_uint_le(stats.segments, 3);
    }
    put(&f, 1);
    force(&f);
    check_records(&f, 0, 11);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 11);
}
END_TEST

/* No record was logged before the first crash. */
START_TEST(empty_log)
{
    fixture_create(&f);
    for (unsigned round = 0; round < 5; round++)
        crash_and_reopen(&f, FAULT_POWER);
    append_some(3);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 3);
    check_records(&f, 0, 3);
}
END_TEST

/* A group has a hole, and the record after the hole is whole and has the right LSN. The log is cut
 * at the hole. Neither the next open nor a later one may read that record as a successor of the
 * accepted ones. */
START_TEST(a_record_after_a_hole_does_not_come_back)
{
    fixture_create(&f);
    append_some(5);
    force(&f);
    size_t kept = f.count;
    append_some(8);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    /* Tear only the first record of the group. */
    struct ll_log_place place;
    ck_assert(ll_log_place(f.log, f.list[kept].rec.lsn, &place));
    flip_byte(&f, place.name, place.offset + 20, 1);
    uint64_t cut = ll_log_durable(f.log).v;
    f.durable_count = kept;
    must(&f, reopen(&f));
    ck_assert_uint_eq(f.count, kept);
    /* Undo the change, as if the device had repaired the record. Nevertheless the record stays
     * lost. */
    flip_byte(&f, place.name, place.offset + 20, 1);
    for (unsigned round = 0; round < 3; round++) {
        append_some(2);
        force(&f);
        size_t n = f.count;
        crash_and_reopen(&f, FAULT_KILL);
        ck_assert_uint_eq(f.count, n);
        check_records(&f, 0, f.count);
        struct ll_log_cursor *c;
        struct ll_record rec;
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
        must_fail(&f, LLADD_OUT_OF_RANGE, ll_log_cursor_read(c, lladd_lsn_of(cut), &rec, &f.err));
        must(&f, ll_log_cursor_seek(c, lladd_lsn_of(cut), &rec, &f.err));
        check_record(&f, &rec, kept);
        must(&f, ll_log_cursor_seek(c, lladd_lsn_of(cut + 64), &rec, &f.err));
        check_record(&f, &rec, kept);
        ll_log_cursor_close(c);
    }
}
END_TEST

/* Crashes at the n-th device call of an open that follows a crash, for each n. The next open
 * crashes at its n-th device call, too, and so does the third one. */
START_TEST(crash_while_cutting)
{
    const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    for (uint64_t n = 1;; n++) {
        fixture_free(&f);
        fixture_init(&f);
        fixture_create(&f);
        append_some(30);
        force(&f);
        append_some(10);
        must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
        uint64_t tail = ll_log_tail(f.log).v;
        ll_log_close(f.log);
        f.log = NULL;
        fault_device_power_cycle(f.fd, &(struct fault_crash){FAULT_SUBSET, n, true});
        bool fired = false;
        for (unsigned again = 0; again < 3; again++) {
            fault_device_crash_at(f.fd, n);
            int rc = reopen(&f);
            fired = fault_device_crashed(f.fd);
            ck_assert(rc != 0 || !fired);
            if (!fired)
                break;
            ll_log_close(f.log);
            f.log = NULL;
            struct fault_crash how = {modes[_i], n + again, true};
            fault_device_power_cycle(f.fd, &how);
        }
        fault_device_crash_at(f.fd, 0);
        if (fired)
            must(&f, reopen(&f));
        ck_assert_uint_ge(f.count, 30);
        ck_assert_uint_ge(ll_log_tail(f.log).v, tail);
        append_some(5);
        force(&f);
        size_t count = f.count;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, count);
        check_records(&f, 0, f.count);
        if (!fired)
            break;
    }
}
END_TEST

/* The log had made segments ahead, and had handed out LSNs in them; a crash has lost the records
 * with these LSNs. The next open makes the segment after the cut from the file of one of these
 * segments. The test crashes this open at each device call. At each step the file names must still
 * show the highest LSN that was handed out. */
START_TEST(crash_while_reusing)
{
    for (uint64_t n = 1;; n++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.segment_max = 4096;
        f.cfg.ring_bytes = 65536;
        fixture_create(&f);
        append_some(10);
        force(&f);
        bool more = true;
        while (more)
            must(&f, ll_log_maintain(f.log, &more, &f.err));
        while (ll_log_tail(f.log).v < 8 + 2 * 4032 + 500)
            put(&f, 300);
        uint64_t tail = ll_log_tail(f.log).v;
        ll_log_close(f.log);
        f.log = NULL;
        fault_device_power_cycle(f.fd, &(struct fault_crash){.mode = FAULT_POWER});
        fault_device_crash_at(f.fd, n);
        int rc = reopen(&f);
        bool fired = fault_device_crashed(f.fd);
        ck_assert(rc == 0 || fired);
        if (fired) {
            ll_log_close(f.log);
            f.log = NULL;
            struct fault_crash how = {_i ? FAULT_KILL : FAULT_POWER, 0, false};
            fault_device_power_cycle(f.fd, &how);
            must(&f, reopen(&f));
        }
        fault_device_crash_at(f.fd, 0);
        ck_assert_uint_eq(f.count, 10);
        ck_assert_uint_ge(ll_log_tail(f.log).v, tail);
        append_some(20);
        force(&f);
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, 30);
        check_records(&f, 0, 30);
        if (!fired)
            break;
    }
}
END_TEST

/* A sync has failed. Now reads return the new bytes, the disk has the old ones, and a later sync
 * succeeds. All records that an open accepts must be on the disk when the open returns. */
START_TEST(open_makes_accepted_records_durable)
{
    fixture_create(&f);
    append_some(10);
    force(&f);
    append_some(30);
    fault_device_fail(f.fd, 1, FAULT_SYNC, EIO, false);
    must_fail(&f, LLADD_WRITE_FAILED, ll_log_force(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    must(&f, reopen(&f));
    ck_assert_uint_eq(f.count, 40);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 40);
    check_records(&f, 0, 40);
}
END_TEST

/* The accepted records are in several segments. All of them must be on the disk when the open
 * returns. */
START_TEST(accepted_segments_are_made_durable)
{
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    append_some(10);
    force(&f);
    size_t before = f.count;
    for (unsigned i = 0; i < 20; i++)
        put(&f, 700);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    must(&f, reopen(&f));
    ck_assert_uint_eq(f.count, before + 20);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, before + 20);
    check_records(&f, 0, f.count);
}
END_TEST

/* ---- stale segments ---- */

/* A reused segment still holds whole records of its former use, at every alignment. The scan must
 * not accept these records. */
START_TEST(reused_segments)
{
    f.cfg.segment_max = 4096;
    for (unsigned shift = 0; shift < 24; shift++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.segment_max = 4096;
        fixture_create(&f);
        for (unsigned i = 0; i < 40 + shift; i++)
            put(&f, 8 * (shift % 3));
        for (unsigned turn = 0; turn < 12; turn++) {
            for (unsigned i = 0; i < 20; i++)
                put(&f, 100 + 8 * (shift % 5));
            force(&f);
            size_t oldest = f.count - 10;
            must(&f, ll_log_truncate(f.log, f.list[oldest].rec.lsn, &f.err));
            f.start.from = f.list[oldest].rec.lsn;
            f.start.watermark = f.start.from;
            bool more = true;
            while (more)
                must(&f, ll_log_maintain(f.log, &more, &f.err));
        }
        struct ll_log_stats stats;
        ll_log_stats(f.log, &stats);
        ck_assert_uint_le(stats.segments, 8);
        size_t n = f.count;
        crash_and_reopen(&f, shift % 2 ? FAULT_POWER : FAULT_KILL);
        ck_assert_uint_eq(f.count, n);
        check_records(&f, n - 10, n);
    }
}
END_TEST

/* ---- what open refuses ---- */

START_TEST(clean_end_is_checked)
{
    fixture_create(&f);
    append_some(10);
    stop(&f);
    struct ll_log_start old = f.start;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    append_some(3);
    stop(&f);
    /* With an older control file the log does not end where the control file says. */
    must(&f, ll_log_open(&f.cfg, &old, &f.log, &f.err));
    must_fail(&f, LLADD_CORRUPT_LOG, ll_log_start(f.log, &f.err));
    ck_assert_uint_eq(f.err.lsn.v, old.end.v);
    ll_log_close(f.log);
    /* If the control file does not name the segment, open finds it in the directory. */
    old = f.start;
    old.segment.v = 0;
    must(&f, ll_log_open(&f.cfg, &old, &f.log, &f.err));
    must(&f, ll_log_start(f.log, &f.err));
    ck_assert_uint_eq(ll_log_tail(f.log).v, f.start.end.v);
    ll_log_close(f.log);
    /* If the incarnation that the caller passes is later than that of the segment, the log goes on
     * in the segment. If it is earlier, the log goes on in another segment. */
    for (unsigned i = 0; i < 2; i++) {
        f.cfg.incarnation = i ? 0 : 9;
        must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
        must(&f, ll_log_start(f.log, &f.err));
        ck_assert_int_eq(ll_log_tail(f.log).v > f.start.end.v, i);
        append_some(3);
        check_records(&f, 0, f.count);
        force(&f);
        if (i == 0)
            stop(&f);
    }
    f.start.clean = false;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 19);
}
END_TEST

/* The control file has an incarnation that was used before, because the newer one did not become
 * durable there. The log takes an incarnation that was never used. */
START_TEST(incarnations_grow)
{
    fixture_create(&f);
    append_some(4);
    force(&f);
    f.cfg.incarnation = 0;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.cfg.incarnation, 1);
    ck_assert_uint_eq(ll_log_incarnation(f.log), 2);
}
END_TEST

static int stop_at_third(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    unsigned *n = ctx;
    (void)rec;
    return ++*n == 3 ? ll_fail(err, LLADD_END, "enough") : 0;
}

START_TEST(the_visitor_stops_the_scan)
{
    unsigned n = 0;
    fixture_create(&f);
    append_some(5);
    force(&f);
    must_fail(&f, LLADD_BAD_STATE, ll_log_scan(f.log, stop_at_third, &n, &f.err));
    ll_log_close(f.log);
    f.log = NULL;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must_fail(&f, LLADD_END, ll_log_scan(f.log, stop_at_third, &n, &f.err));
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(f.err.message, "enough");
    must_fail(&f, LLADD_BAD_STATE, ll_log_start(f.log, &f.err));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scan");
    TCase *t = tcase_create("scan");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, torn_at_every_byte, 0, 2);
    tcase_add_test(t, torn_with_holes);
    tcase_add_test(t, lsns_are_never_used_again);
    tcase_add_test(t, empty_cuts);
    tcase_add_test(t, empty_log);
    tcase_add_test(t, a_record_after_a_hole_does_not_come_back);
    tcase_add_loop_test(t, crash_while_cutting, 0, 3);
    tcase_add_loop_test(t, crash_while_reusing, 0, 2);
    tcase_add_test(t, open_makes_accepted_records_durable);
    tcase_add_test(t, accepted_segments_are_made_durable);
    tcase_add_test(t, reused_segments);
    tcase_add_test(t, clean_end_is_checked);
    tcase_add_test(t, incarnations_grow);
    tcase_add_test(t, the_visitor_stops_the_scan);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
