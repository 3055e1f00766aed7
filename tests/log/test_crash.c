/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A workload of appends, forces, relaxed writes, segment switches, reuse of segments, clean stops
 * and reopens is crashed at every one of its device calls. Of the unsynced changes, all are lost,
 * all are kept, those up to one of them are kept, or a random part is lost or torn. After each
 * crash every acknowledged record is there. The log is a prefix of what was logged, in order and
 * unchanged, and can be continued. Another test does the same with crashes during the recovery from
 * a crash.
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

/* ---- the workload ---- */

struct progress {
    bool created;
    uint64_t step;
};

/* One step of the workload; an error ends the workload. */
static int step(uint64_t n)
{
    lladd_lsn lsn = {0};
    int rc = try_put(&f, (n * 53) % 700, &lsn);
    if (rc)
        return rc;
    if (n % 4 == 3) {
        rc = ll_log_force(f.log, lsn, &f.err);
        if (rc == 0)
            f.durable_count = f.count;
    } else if (n % 9 == 5) {
        rc = ll_log_write(f.log, lsn, &f.err);
    }
    if (rc == 0 && n % 25 == 24 && f.durable_count > 6) {
        /* Does what a checkpoint does: it notes where recovery begins, and then truncates the log
         * before that LSN. */
        lladd_lsn from = f.list[f.durable_count - 5].rec.lsn;
        f.start.from = from;
        f.start.watermark = ll_log_durable(f.log);
        rc = ll_log_truncate(f.log, from, &f.err);
    }
    if (rc == 0 && n % 10 == 0) {
        bool more;
        rc = ll_log_maintain(f.log, &more, &f.err);
        if (rc && lladd_code_root(rc) == LLADD_ROOT_RESOURCE)
            rc = 0; /* the call can be repeated later */
    }
    return rc;
}

/* Finishes, closes, opens and starts the log. If one of these fails, the fixture is as after a
 * crash. */
static int clean_restart(void)
{
    struct ll_log_start start = f.start;
    ll_log_credit_return(f.log, &f.credit);
    int rc = ll_log_finish(f.log, &start.end, &f.err);
    if (rc)
        return rc;
    f.durable_count = f.count;
    start.clean = true;
    start.watermark = start.end;
    ll_log_newest_segment(f.log, &start.segment, &start.segment_bytes);
    ll_log_close(f.log);
    f.log = NULL;
    f.start.watermark = start.end; /* the control file was written */
    rc = ll_log_open(&f.cfg, &start, &f.log, &f.err);
    return rc ? rc : ll_log_start(f.log, &f.err);
}

static void run(struct progress *p)
{
    int rc = ll_log_create(&f.cfg, &f.log, &f.err);
    p->created = rc == 0;
    if (rc) {
        f.log = NULL;
        return;
    }
    f.start.from.v = 8;
    f.start.watermark.v = 8;
    for (p->step = 0; p->step < 220 && rc == 0; p->step++) {
        rc = step(p->step);
        if (rc == 0 && p->step % 40 == 39)
            rc = clean_restart();
    }
}

static void begin(void)
{
    fixture_free(&f);
    fixture_init(&f);
    f.cfg.segment_max = 8192;
    f.cfg.ring_bytes = 8192;
}

static void after_crash(const struct fault_crash *how)
{
    ll_log_close(f.log);
    f.log = NULL;
    fault_device_power_cycle(f.fd, how);
}

/* Appends ten more records, and checks all records before and after a clean restart. */
static void check_all(void)
{
    size_t n = f.count;
    for (uint64_t i = 0; i < 10; i++)
        must(&f, step(4 * i + 3));
    size_t from = 0;
    while (from < n && f.list[from].rec.lsn.v < f.start.from.v)
        from++;
    check_records(&f, from, f.count);
    must(&f, clean_restart());
    check_records(&f, from, f.count);
}

/* _i: which unsynced changes survive. */
static struct fault_crash left(int i, uint64_t seed)
{
    const enum fault_crash_mode modes[] = {FAULT_KILL, FAULT_POWER, FAULT_SUBSET, FAULT_PREFIX};
    return (struct fault_crash){modes[i], seed, true};
}

/* ---- cases ---- */

START_TEST(crash_at_every_call)
{
    for (uint64_t n = 1;; n++) {
        struct progress p = {false, 0};
        begin();
        fault_device_crash_at(f.fd, n);
        run(&p);
        bool crashed = fault_device_crashed(f.fd);
        struct fault_crash how = left(_i, n);
        if (_i == 3)
            how.seed = n % (fault_device_pending(f.fd) + 1);
        if (crashed)
            after_crash(&how);
        fault_device_crash_at(f.fd, 0);
        if (!p.created)
            continue; /* there is no database yet */
        if (crashed)
            must(&f, reopen(&f));
        check_all();
        if (!crashed) {
            ck_assert_uint_gt(n, 200); /* without a crash the workload makes many calls */
            break;
        }
    }
}
END_TEST

/* The workload is crashed at every 13th of its calls 20 to 259. Then the recovery is crashed at its
 * m-th call, for every m, and so is the next recovery. */
START_TEST(crash_in_recovery)
{
    for (uint64_t n = 20; n < 260; n += 13) {
        for (uint64_t m = 1;; m++) {
            struct progress p = {false, 0};
            bool crashed = false;
            begin();
            fault_device_crash_at(f.fd, n);
            run(&p);
            ck_assert(p.created && fault_device_crashed(f.fd));
            struct fault_crash how = left(_i, n);
            if (_i == 3)
                how.mode = FAULT_SUBSET;
            after_crash(&how);
            for (unsigned again = 0; again < 2; again++) {
                fault_device_crash_at(f.fd, m);
                int rc = reopen(&f);
                crashed = fault_device_crashed(f.fd);
                ck_assert(rc == 0 || crashed);
                if (!crashed)
                    break;
                how.seed += m;
                after_crash(&how);
            }
            fault_device_crash_at(f.fd, 0);
            if (crashed)
                must(&f, reopen(&f));
            check_all();
            if (!crashed)
                break;
        }
    }
}
END_TEST

/* A sync fails and poisons the log, and the process ends. The next process accepts the records that
 * it can read; then the power fails. */
START_TEST(failed_sync_then_power)
{
    for (uint64_t n = 1;; n++) {
        struct progress p = {false, 0};
        begin();
        fault_device_fail(f.fd, n, FAULT_SYNC | FAULT_SYNC_DIR, EIO, false);
        run(&p);
        bool fired = fault_device_fired(f.fd) > 0;
        fault_device_fail(f.fd, 0, 0, 0, false);
        if (!p.created)
            continue;
        if (fired) {
            must(&f, reopen(&f));
            size_t count = f.count;
            crash_and_reopen(&f, FAULT_POWER);
            ck_assert_uint_eq(f.count, count);
        }
        check_all();
        if (!fired)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crash");
    TCase *t = tcase_create("crash");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, crash_at_every_call, 0, 4);
    tcase_add_loop_test(t, crash_in_recovery, 0, 4);
    tcase_add_test(t, failed_sync_then_power);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
