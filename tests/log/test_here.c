/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log that goes on where it ended, as it does on a full disk (REC-3). It goes on in the segment
 * that holds its end, even if another segment was begun. The rest of a torn group, which lies after
 * that end, does not come back. Nor does a segment that was made for a cut. Openings of this kind
 * and openings with a cut follow each other in any order, and crashes interrupt some of them. No
 * durable record may be lost or appear twice.
 */
#include "log_fixture.h"

#include <lladd/bytes.h>
#include <stdlib.h>

static struct fixture f;

/* All records have one length. So wherever a new record ends, an old one begins. */
enum { LENGTH = 40 };

static void setup(void)
{
    fixture_init(&f);
}

static void teardown(void)
{
    fixture_free(&f);
}

static void append_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        put(&f, LENGTH);
}

/* Leaves `durable` durable records, and after them a torn group, of which the first record is
 * damaged. Returns where the durable log ends. */
static uint64_t leave_torn_group(unsigned durable, unsigned torn)
{
    struct ll_log_place place;
    append_some(durable);
    force(&f);
    uint64_t end = ll_log_durable(f.log).v;
    size_t count = f.count;
    append_some(torn);
    must(&f, ll_log_write(f.log, f.list[f.count - 1].rec.lsn, &f.err));
    ck_assert(ll_log_place(f.log, f.list[count].rec.lsn, &place));
    flip_byte(&f, place.name, place.offset + 20, 1);
    f.durable_count = count;
    return end;
}

/* 1 + _i records are durable before the torn group. */
START_TEST(a_torn_group_does_not_come_back)
{
    fixture_create(&f);
    f.goes_on = GOES_ON_HERE;
    uint64_t end = leave_torn_group(1 + (unsigned)_i, 120);
    size_t count = f.durable_count;
    must(&f, reopen(&f));
    ck_assert_uint_eq(f.count, count);
    ck_assert_uint_eq(ll_log_tail(f.log).v, end);
    for (unsigned i = 0; i < 4; i++) {
        append_some(1);
        force(&f);
        count = f.count;
        crash_and_reopen(&f, FAULT_KILL);
        ck_assert_uint_eq(f.count, count);
        check_records(&f, 0, f.count);
    }
    /* When the log has grown into the next segments, the torn group still does not come back. */
    append_some(200);
    force(&f);
    count = f.count;
    f.goes_on = GOES_ON_IN_ANOTHER;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, count);
    check_records(&f, 0, f.count);
}
END_TEST

/* To go on at its end the log needs no space, even if its only file is full. */
START_TEST(no_space_is_needed)
{
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    fault_device_capacity(f.fd, fault_device_bytes(f.fd));
    lladd_lsn lsn;
    while (try_put(&f, LENGTH, &lsn) == 0) {
    }
    ll_log_credit_return(f.log, &f.credit);
    force(&f);
    size_t count = f.count;
    f.goes_on = GOES_ON_HERE;
    for (unsigned i = 0; i < 50; i++) {
        crash_and_reopen(&f, i % 2 ? FAULT_KILL : FAULT_POWER);
        ck_assert_uint_eq(f.count, count);
        must(&f, ll_log_make_ring(f.log, &f.err));
        must_fail(&f, LLADD_NO_SPACE, ll_log_undo_reserve(f.log, 8000, &f.err));
    }
    fault_device_capacity(f.fd, UINT64_MAX);
    append_some(30);
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* After a crash the log goes on in its last segment, and is stopped cleanly there. The next run
 * goes on in that segment, too. After another crash, the records of both runs are read. */
START_TEST(a_clean_stop_after_going_on_where_the_log_ended)
{
    fixture_create(&f);
    f.goes_on = GOES_ON_HERE;
    (void)leave_torn_group(9, 30);
    must(&f, reopen(&f));
    append_some(3);
    stop_and_reopen(&f);
    uint64_t tail = ll_log_tail(f.log).v;
    ck_assert_uint_eq(tail, f.start.end.v);
    append_some(80); /* into the next segment */
    force(&f);
    f.start.clean = false;
    size_t count = f.count;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, count);
    check_records(&f, 0, f.count);
}
END_TEST

/* True if an old record, which looks valid, begins at `lsn`, the end of the log, in a reused
 * file. */
static bool lost_record_at(uint64_t lsn)
{
    struct ll_log_place place;
    unsigned char own[8];
    if (!ll_log_place(f.log, lladd_lsn_of(lsn), &place) ||
        place.offset + 16 > file_size(&f, place.name))
        return false;
    read_file(&f, place.name, place.offset + 8, own, sizeof own);
    return lladd_get64(own) == lsn;
}

/* A torn group extends over the next segments, and their files are reused with their old contents.
 * The log may stop cleanly where a lost record began. */
START_TEST(a_clean_stop_where_a_lost_record_began)
{
    unsigned met = 0;
    f.cfg.segment_max = 4096u << _i;
    fixture_create(&f);
    f.goes_on = GOES_ON_HERE;
    (void)leave_torn_group(9, 110);
    must(&f, reopen(&f));
    for (unsigned i = 0; i < 60; i++) {
        append_some(1);
        force(&f);
        met += lost_record_at(ll_log_tail(f.log).v);
        stop_and_reopen(&f);
    }
    ck_assert_uint_gt(met, 0);
    f.goes_on = GOES_ON_IN_ANOTHER;
    crash_and_reopen(&f, FAULT_POWER);
    check_records(&f, 0, f.count);
}
END_TEST

/* An empty segment was begun after a cut, and the watermark in the control file is the beginning of
 * that segment. The log must not end before the watermark. */
START_TEST(no_way_back_before_an_empty_segment)
{
    fixture_create(&f);
    append_some(5);
    force(&f);
    f.goes_on = GOES_ON_IN_ANOTHER;
    crash_and_reopen(&f, FAULT_POWER);
    stop_and_reopen(&f);
    f.start.clean = false;
    f.start.watermark = f.start.end;
    f.goes_on = GOES_ON_HERE;
    for (unsigned i = 0; i < 3; i++) {
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_ge(ll_log_tail(f.log).v, f.start.watermark.v);
        append_some(2);
        force(&f);
    }
    ck_assert_uint_eq(f.count, 11);
    check_records(&f, 0, f.count);
}
END_TEST

/* A segment was begun, but the disk had no space for the rest of recovery. The log goes on at its
 * end before that segment. */
START_TEST(back_before_a_segment_begun_in_vain)
{
    fixture_create(&f);
    append_some(5);
    force(&f);
    uint64_t end = ll_log_durable(f.log).v;
    f.start.watermark.v = end;
    f.goes_on = GOES_ON_IN_ANOTHER;
    for (unsigned i = 0; i < 4; i++) {
        crash_and_reopen(&f, i % 2 ? FAULT_KILL : FAULT_POWER);
        fault_device_capacity(f.fd, fault_device_bytes(f.fd));
        ck_assert_uint_gt(ll_log_tail(f.log).v, end);
        ck_assert(ll_log_could_stay(f.log));
    }
    f.goes_on = GOES_ON_HERE;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(ll_log_tail(f.log).v, end);
    append_some(2);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 7);
    check_records(&f, 0, f.count);
}
END_TEST

/* Only an empty segment of the log is left. Each time it is opened, the log goes on at the
 * beginning of this segment. */
START_TEST(only_an_empty_segment_is_left)
{
    fixture_create(&f);
    append_some(5);
    force(&f);
    f.goes_on = GOES_ON_IN_ANOTHER;
    crash_and_reopen(&f, FAULT_POWER);
    lladd_lsn first = ll_log_tail(f.log);
    f.start.from = f.start.watermark = first;
    must(&f, ll_log_truncate(f.log, first, &f.err));
    fault_device_capacity(f.fd, fault_device_bytes(f.fd));
    f.goes_on = GOES_ON_HERE;
    for (unsigned i = 0; i < 4; i++) {
        must(&f, reopen(&f));
        ck_assert_uint_eq(ll_log_tail(f.log).v, first.v);
    }
    append_some(3);
    force(&f);
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, 8);
    check_records(&f, 5, f.count);
}
END_TEST

/* After a clean stop the log ends where one segment ends and an empty one begins. The header of the
 * empty one names a cut. */
START_TEST(a_clean_stop_between_two_segments)
{
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    append_some(5);
    force(&f);
    size_t count = f.count;
    f.goes_on = GOES_ON_IN_ANOTHER;
    crash_and_reopen(&f, FAULT_POWER);
    uint64_t first = ll_log_tail(f.log).v;
    stop_and_reopen(&f);
    ck_assert_uint_eq(ll_log_tail(f.log).v, first);
    append_some(3);
    force(&f);
    f.start.clean = false;
    crash_and_reopen(&f, FAULT_POWER);
    ck_assert_uint_eq(f.count, count + 3);
    check_records(&f, 0, f.count);
}
END_TEST

#ifdef LL_TEST_SHORT
#define ROWS 100
#else
#define ROWS 600
#endif

/* One run, which ends in a crash. Opens the log with a cut or where it ended, appends records, and
 * forces some of them. True if the log was opened. */
static bool live(uint64_t *seed, bool full)
{
    static const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET};
    lladd_lsn lsn;
    f.goes_on = seeded_next(seed) % 2;
    fault_device_crash_at(f.fd, 1 + seeded_next(seed) % 30);
    int rc = reopen(&f);
    bool opened = rc == 0;
    ck_assert_msg(opened || fault_device_crashed(f.fd) || (full && rc == LLADD_NO_SPACE), "%s",
                  f.err.message);
    if (opened && seeded_next(seed) % 2)
        f.start.watermark = ll_log_durable(f.log); /* the end, as the control file states it */
    if (opened && seeded_next(seed) % 2)
        (void)ll_log_undo_reserve_recovery(f.log, seeded_next(seed) % 9000, seeded_next(seed) % 2,
                                           &f.err);
    for (uint64_t n = seeded_next(seed) % 40; opened && n > 0; n--)
        if (try_put(&f, LENGTH, &lsn))
            break;
    if (opened && f.count && seeded_next(seed) % 2) {
        size_t count = f.count;
        if (ll_log_force(f.log, f.list[seeded_next(seed) % count].rec.lsn, &f.err) == 0)
            for (size_t i = 0; i < count; i++)
                if (f.list[i].rec.lsn.v < ll_log_durable(f.log).v)
                    f.durable_count = i + 1;
    }
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_crash_at(f.fd, 0);
    struct fault_crash how = {modes[seeded_next(seed) % 3], seeded_next(seed), true};
    fault_device_power_cycle(f.fd, &how);
    return opened;
}

/* _i 1: the disk is full from the fourth run on. */
START_TEST(runs_at_random)
{
    uint64_t seed = 5 + (uint64_t)_i;
    unsigned opened = 0;
    for (unsigned row = 0; row < ROWS; row++) {
        fixture_free(&f);
        fixture_init(&f);
        f.cfg.segment_max = row % 2 ? 4096 : 16384;
        fixture_create(&f);
        append_some(3);
        force(&f);
        for (unsigned i = 0; i < 12; i++) {
            if (_i && i == 3)
                fault_device_capacity(f.fd, fault_device_bytes(f.fd));
            opened += live(&seed, _i);
        }
        fault_device_capacity(f.fd, UINT64_MAX);
        f.goes_on = row % 2;
        must(&f, reopen(&f));
        append_some(5);
        force(&f);
        size_t count = f.count;
        f.goes_on = GOES_ON_IN_ANOTHER;
        crash_and_reopen(&f, FAULT_POWER);
        ck_assert_uint_eq(f.count, count);
        check_records(&f, 0, f.count);
    }
    ck_assert_uint_gt(opened, 2 * ROWS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("here");
    TCase *t = tcase_create("here");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_torn_group_does_not_come_back, 0, 60);
    tcase_add_test(t, no_space_is_needed);
    tcase_add_test(t, a_clean_stop_after_going_on_where_the_log_ended);
    tcase_add_loop_test(t, a_clean_stop_where_a_lost_record_began, 0, 2);
    tcase_add_test(t, a_clean_stop_between_two_segments);
    tcase_add_test(t, no_way_back_before_an_empty_segment);
    tcase_add_test(t, back_before_a_segment_begun_in_vain);
    tcase_add_test(t, only_an_empty_segment_is_left);
    tcase_add_loop_test(t, runs_at_random, 0, 2);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
