/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Undo reserve (REC-3). Reserved space can be logged on a full disk, in the same run and, after a
 * crash, in the next one, even if seals are logged in between. A caller without a reservation
 * cannot take the reserved space. Released space can be used by others. Repeated crashes use up the
 * reserve; then recovery gets an error, and the log stays as it is.
 */
#include "log_fixture.h"

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

enum { CLR = 64 }; /* the size of one compensation */

static struct ll_record clr(void)
{
    static const unsigned char undo[16] = {1, 2, 3};
    struct ll_record rec = {
        .kind = LL_REC_CLR, .page = 7, .op = 1, .undo_next = {8}, .undo = {undo, 16}};
    return rec;
}

/* Logs one compensation with reserved space. */
static int try_clr(struct ll_credit *credit)
{
    struct ll_record rec = clr();
    int rc = ll_log_credit_reserved(f.log, credit, CLR, &f.err);
    if (rc)
        return rc;
    ll_log_reserve(f.log, credit, &rec, false);
    ck_assert_uint_eq(rec.size, CLR);
    ll_log_publish(f.log, &rec);
    ll_log_credit_rests(credit);
    ll_log_undo_release(f.log, CLR);
    return 0;
}

static void fill_disk(void)
{
    lladd_lsn lsn;
    int rc = 0;
    while (rc == 0)
        rc = try_put(&f, 100, &lsn);
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    ll_log_credit_return(f.log, &f.credit);
}

static uint64_t undo_reserved(void)
{
    struct ll_log_stats s;
    ll_log_stats(f.log, &s);
    return s.undo_reserved;
}

static int ignore(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    unsigned *clrs = ctx;
    (void)err;
    *clrs += rec->kind == LL_REC_CLR;
    return 0;
}

/* ---- cases ---- */

START_TEST(accounting)
{
    fixture_create(&f);
    must(&f, ll_log_undo_reserve(f.log, 1000, &f.err));
    must(&f, ll_log_undo_reserve(f.log, 1, &f.err));
    ck_assert_uint_eq(undo_reserved(), 1001);
    ll_log_undo_release(f.log, 1);
    ck_assert_uint_eq(undo_reserved(), 1000);
    for (unsigned i = 0; i < 300; i++)
        put(&f, 300);
    ck_assert_uint_eq(undo_reserved(), 1000);
    ll_log_undo_release(f.log, 1000);
    ck_assert_uint_eq(undo_reserved(), 0);
    /* This is more than one segment holds. */
    must(&f, ll_log_undo_reserve(f.log, 100000, &f.err));
    ck_assert_uint_eq(undo_reserved(), 100000);
    must_fail(&f, LLADD_TOO_LARGE, ll_log_undo_reserve(f.log, UINT64_MAX / 8, &f.err));
    ll_log_undo_release(f.log, 100000);
}
END_TEST

/* The disk is full, and so is the log except for the reserve. As many compensations as were
 * reserved can be logged, even if each is forced by itself and may add a seal. _i: every _i-th
 * compensation is forced (0: none). */
START_TEST(rollback_on_a_full_disk)
{
    struct ll_credit credit = {0};
    const uint64_t reserve = 40 * CLR;
    fixture_create(&f);
    must(&f, ll_log_undo_reserve(f.log, reserve, &f.err));
    fault_device_capacity(f.fd, fault_device_bytes(f.fd));
    fill_disk();
    must_fail(&f, LLADD_NO_SPACE, ll_log_undo_reserve(f.log, 8000, &f.err));
    for (unsigned i = 0; i < 40; i++) {
        must(&f, try_clr(&credit));
        if (_i && i % (unsigned)_i == 0)
            must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    }
    ck_assert_uint_eq(undo_reserved(), 0);
    ll_log_credit_return(f.log, &credit);
    must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    ck_assert(!ll_poisoned(&f.poison));
}
END_TEST

/* The disk is full, and a crash comes before the rollback. Open must succeed on the full disk, and
 * find space for the whole reserve. */
START_TEST(recovery_on_a_full_disk)
{
    struct ll_credit credit = {0};
    unsigned clrs = 0;
    const uint64_t reserve = 40 * CLR;
    fixture_create(&f);
    for (int i = 0; i < _i * 7; i++)
        put(&f, 200);
    must(&f, ll_log_undo_reserve(f.log, reserve, &f.err));
    uint64_t capacity = fault_device_bytes(f.fd);
    fault_device_capacity(f.fd, capacity);
    fill_disk();
    force(&f);
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_power_cycle(f.fd,
                             &(struct fault_crash){.mode = _i % 2 ? FAULT_POWER : FAULT_KILL});
    fault_device_capacity(f.fd, capacity);
    must(&f, reopen(&f));
    must(&f, ll_log_undo_reserve_recovery(f.log, reserve, false, &f.err));
    fill_disk(); /* records without a reservation do not get the reserve in the same segment */
    for (unsigned i = 0; i < 40; i++) {
        must(&f, try_clr(&credit));
        if (i % 4 == 0 || _i > 3)
            must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    }
    ll_log_credit_return(f.log, &credit);
    must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_capacity(f.fd, UINT64_MAX);
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_scan(f.log, ignore, &clrs, &f.err));
    ck_assert_uint_eq(clrs, 40);
}
END_TEST

/* Nothing is reserved. After a crash on a full disk the log still has a file for more records. */
START_TEST(crash_on_a_full_disk)
{
    fixture_create(&f);
    for (int i = 0; i < 30 + _i; i++)
        put(&f, 300);
    uint64_t capacity = fault_device_bytes(f.fd);
    fault_device_capacity(f.fd, capacity);
    fill_disk();
    force(&f);
    size_t count = f.count;
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_power_cycle(f.fd, &(struct fault_crash){.mode = FAULT_POWER});
    fault_device_capacity(f.fd, capacity);
    must(&f, reopen(&f));
    ck_assert_uint_eq(f.count, count);
    put(&f, 50); /* this record takes the place of a checkpoint's record */
    force(&f);
    check_records(&f, 0, f.count);
}
END_TEST

/* On a full disk, one crash after another interrupts recovery. At last recovery gets an error of
 * the resource root, and the log stays as it was. When there is space again, the log goes on. */
START_TEST(reserve_is_used_up)
{
    struct ll_credit credit = {0};
    const uint64_t reserve = 40 * CLR;
    fixture_create(&f);
    must(&f, ll_log_undo_reserve(f.log, reserve, &f.err));
    uint64_t capacity = fault_device_bytes(f.fd);
    fault_device_capacity(f.fd, capacity);
    fill_disk();
    force(&f);
    size_t count = f.count;
    int rc = 0;
    unsigned rounds = 0;
    for (; rc == 0; rounds++) {
        ck_assert_uint_lt(rounds, 20);
        ll_log_close(f.log);
        f.log = NULL;
        fault_device_power_cycle(f.fd, &(struct fault_crash){.mode = FAULT_POWER});
        fault_device_capacity(f.fd, capacity);
        unsigned clrs = 0;
        f.cfg.incarnation++;
        must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
        must(&f, ll_log_scan(f.log, ignore, &clrs, &f.err));
        rc = ll_log_start(f.log, &f.err);
        if (!rc)
            rc = ll_log_undo_reserve_recovery(f.log, reserve, false, &f.err);
        for (unsigned i = 0; i < 3 && rc == 0; i++) {
            must(&f, try_clr(&credit));
            must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
        }
        credit.bytes = 0;
    }
    ck_assert_uint_ge(rounds, 2); /* one crash is survived */
    ck_assert_int_eq(rc, LLADD_NO_SPACE);
    must_fail(&f, LLADD_NO_SPACE, ll_log_start(f.log, &f.err)); /* a second attempt is safe */
    fault_device_capacity(f.fd, UINT64_MAX);
    must(&f, ll_log_start(f.log, &f.err));
    must(&f, ll_log_undo_reserve(f.log, reserve, &f.err));
    check_records(&f, 0, count);
}
END_TEST

/* The reserve fills the disk, and each compensation is forced. The log must use the space for undo
 * rather than for seals. */
START_TEST(tight_reserve)
{
    struct ll_credit credit = {0};
    uint64_t reserve = 0;
    lladd_lsn first;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    must(&f, try_put(&f, 150, &first));
    fault_device_capacity(f.fd, 3 * 4096);
    while (ll_log_undo_reserve_owed(f.log, CLR, &f.err) == 0)
        reserve += CLR;
    ck_assert_uint_gt(reserve, 2 * 4032 * 8 / 9 - CLR);
    fill_disk();
    for (uint64_t i = 0; i < reserve / CLR; i++) {
        must(&f, try_clr(&credit));
        must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
    }
    ck_assert_uint_eq(undo_reserved(), 0);
    ll_log_credit_return(f.log, &credit);
    unsigned clrs = 0;
    size_t before = f.count;
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_power_cycle(f.fd, &(struct fault_crash){.mode = FAULT_POWER});
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_scan(f.log, ignore, &clrs, &f.err));
    ck_assert_uint_eq(clrs, reserve / CLR);
    check_records(&f, 0, before);
}
END_TEST

/* Normal records do not use the reserve, in any order of records and reservations. */
START_TEST(reserve_is_safe)
{
    struct ll_credit credit = {0};
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    uint64_t set_aside = 0;
    fault_device_capacity(f.fd, 20 * 4096);
    for (unsigned i = 0;; i++) {
        lladd_lsn lsn;
        if (i % 3 == 0 && ll_log_undo_reserve(f.log, 10 * CLR, &f.err) == 0)
            set_aside += 10 * CLR;
        else if (try_put(&f, 150, &lsn) != 0)
            break;
    }
    ck_assert_uint_gt(set_aside, 10 * CLR);
    ll_log_credit_return(f.log, &f.credit);
    for (uint64_t i = 0; i < set_aside / CLR; i++)
        must(&f, try_clr(&credit));
    ll_log_credit_return(f.log, &credit);
    must(&f, ll_log_force(f.log, lladd_lsn_of(ll_log_tail(f.log).v - 8), &f.err));
}
END_TEST

/* The largest reserve that fits into one segment of the smallest size. Users leave this much of the
 * log free. */
enum { SLACK = 4032 * 8 / 9 };

/* Users reserve as much as they can, and fill the rest of the log. SLACK bytes remain, in case a
 * crash interrupts a compensation. _i: the disk has space for 2 + _i segments. */
START_TEST(users_leave_some_beside_the_reserve)
{
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    fault_device_capacity(f.fd, (2 + (uint64_t)_i) * 4096);
    while (ll_log_undo_reserve(f.log, CLR, &f.err) == 0) {
    }
    fill_disk();
    must(&f, ll_log_undo_reserve_owed(f.log, SLACK, &f.err));
}
END_TEST

/* SLACK bytes remain, too, if records such as page images are logged between the compensations of a
 * rollback that uses the last segment. */
START_TEST(a_rollback_leaves_some_beside_the_reserve)
{
    struct ll_credit credit = {0};
    uint64_t reserve = 0;
    lladd_lsn lsn;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    fault_device_capacity(f.fd, 4 * 4096);
    for (; ll_log_undo_reserve(f.log, CLR, &f.err) == 0; reserve++) {
    }
    fill_disk();
    for (uint64_t i = 0; i + 1 < reserve; i++) {
        must(&f, try_clr(&credit));
        if (try_put(&f, 100, &lsn))
            ll_log_credit_return(f.log, &f.credit);
    }
    ll_log_credit_return(f.log, &credit);
    ll_log_credit_return(f.log, &f.credit);
    must(&f, ll_log_undo_reserve_recovery(f.log, SLACK - CLR, false, &f.err));
}
END_TEST

/* The log is at its limit. Recovery may exceed the limit by one segment. If the disk is full, too,
 * recovery gets an error. */
START_TEST(a_spare_segment_at_the_limit)
{
    lladd_lsn lsn;
    int rc = 0;
    f.cfg.segment_max = 4096;
    f.cfg.limit_bytes = 4 * 4096;
    fixture_create(&f);
    while (rc == 0)
        rc = try_put(&f, 100, &lsn);
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ll_log_credit_return(f.log, &f.credit);
    force(&f);
    if (_i)
        fault_device_capacity(f.fd, fault_device_bytes(f.fd));
    crash_and_reopen(&f, FAULT_POWER);
    rc = ll_log_undo_reserve_recovery(f.log, 500, true, &f.err);
    ck_assert_int_eq(rc, _i ? LLADD_NO_SPACE : 0);
    ck_assert_uint_eq(undo_reserved(), _i ? 0 : 500);
}
END_TEST

/* Owed credit opens a new segment. Users still get no space, because the slack must remain. */
START_TEST(owed_credit_leaves_the_slack)
{
    struct ll_credit credit = {0};
    lladd_lsn lsn;
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    fault_device_capacity(f.fd, 5 * 4096);
    while (ll_log_undo_reserve(f.log, CLR, &f.err) == 0) {
    }
    fill_disk();
    ll_log_credit_return(f.log, &f.credit);
    must(&f, ll_log_credit_owed(f.log, &credit, CLR, &f.err));
    ll_log_credit_return(f.log, &credit);
    ck_assert_int_eq(try_put(&f, 100, &lsn), LLADD_NO_SPACE);
    ll_log_credit_return(f.log, &f.credit);
}
END_TEST

static uint64_t image_bytes(unsigned n, bool wait)
{
    struct ll_credit credit = {0};
    must(&f, ll_log_credit_images(f.log, &credit, 1000, n, wait, &f.err));
    uint64_t bytes = credit.bytes;
    ll_log_credit_return(f.log, &credit);
    return bytes;
}

/* A full disk has no space for another segment for images. The log tries once to make one, and
 * again only after a truncation. _i 1: the caller may wait. */
START_TEST(images_try_once_to_make_a_segment)
{
    f.cfg.segment_max = 4096;
    fixture_create(&f);
    put(&f, 100);
    force(&f);
    fault_device_capacity(f.fd, fault_device_bytes(f.fd));
    unsigned asked = f.checkpoint_calls;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = fault_device_calls(f.fd, FAULT_ANY);
        ck_assert_uint_eq(image_bytes(1, _i), 0);
        uint64_t calls = fault_device_calls(f.fd, FAULT_ANY) - before;
        ck_assert_msg((calls > 0) == (i == 0), "attempt %u: %u calls", i, (unsigned)calls);
    }
    ck_assert_uint_eq(f.checkpoint_calls, asked);
    fault_device_capacity(f.fd, UINT64_MAX);
    must(&f, ll_log_truncate(f.log, ll_log_oldest(f.log), &f.err));
    ck_assert_uint_eq(image_bytes(1, true), 1000);
}
END_TEST

/* Other transactions hold credit for most of the ring. A thread that asks for credit for many
 * images, and may wait, gets credit for fewer. */
START_TEST(images_get_what_credit_there_is)
{
    struct ll_credit others[2] = {{0}, {0}};
    fixture_create(&f);
    ck_assert_uint_eq(image_bytes(6, true), 6000);
    for (unsigned i = 0; i < 2; i++) {
        must(&f, ll_log_credit(f.log, &others[i], 6500, &f.err));
        ll_log_credit_rests(&others[i]);
    }
    ck_assert_uint_eq(image_bytes(6, true), 3000);
    for (unsigned i = 0; i < 2; i++)
        ll_log_credit_return(f.log, &others[i]);
}
END_TEST

/* When the log has reached seven eighths of its limit, images get no more credit, but updates do.
 * So a reader that evicts dirty pages leaves the last eighth of the log to updates. _i & 1: the
 * caller may wait; _i & 2: two eighths are reserved for undo. */
START_TEST(images_leave_the_last_eighth_of_the_limit)
{
    enum { LIMIT = 16 * 4096, PART = LIMIT / 8 };
    uint64_t undo = _i & 2 ? 2 * PART : 0;
    f.cfg.segment_max = 4096;
    f.cfg.limit_bytes = LIMIT;
    fixture_create(&f);
    if (undo)
        must(&f, ll_log_undo_reserve(f.log, undo, &f.err));
    uint64_t oldest = ll_log_oldest(f.log).v, granted = 0, tail = 0;
    lladd_lsn lsn;
    while (image_bytes(1, _i & 1) == 1000) {
        granted = tail = ll_log_tail(f.log).v - oldest;
        ck_assert_int_eq(try_put(&f, 100, &lsn), 0);
        force(&f);
        tail = ll_log_tail(f.log).v - oldest;
    }
    ck_assert_uint_gt(granted, 5 * PART - undo);
    ck_assert_uint_le(granted + 1000, 7 * PART - undo);
    ck_assert_uint_ge(LIMIT - tail - undo, PART);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(try_put(&f, 100, &lsn), 0);
    ll_log_credit_return(f.log, &f.credit);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("undo");
    TCase *t = tcase_create("undo");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, accounting);
    tcase_add_loop_test(t, rollback_on_a_full_disk, 0, 4);
    tcase_add_loop_test(t, recovery_on_a_full_disk, 0, 6);
    tcase_add_loop_test(t, crash_on_a_full_disk, 0, 8);
    tcase_add_test(t, reserve_is_used_up);
    tcase_add_test(t, reserve_is_safe);
    tcase_add_test(t, tight_reserve);
    tcase_add_loop_test(t, users_leave_some_beside_the_reserve, 0, 3);
    tcase_add_test(t, a_rollback_leaves_some_beside_the_reserve);
    tcase_add_loop_test(t, a_spare_segment_at_the_limit, 0, 2);
    tcase_add_test(t, owed_credit_leaves_the_slack);
    tcase_add_loop_test(t, images_try_once_to_make_a_segment, 0, 2);
    tcase_add_test(t, images_get_what_credit_there_is);
    tcase_add_loop_test(t, images_leave_the_last_eighth_of_the_limit, 0, 4);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
