/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same workload (create, append, force, read, truncate, stop, open, crash, open) runs again and
 * again, for each n. In each run the n-th allocation or device call fails, either alone or with all
 * later ones. The workload ends with a code that tells the caller what to do, and nothing leaks.
 * When the log is opened again without failures, the durable records are there.
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

/* ---- the workload ---- */

static int read_some(void)
{
    struct ll_log_cursor *c;
    struct ll_record rec;
    size_t first = f.count;
    while (first > 0 && f.list[first - 1].rec.lsn.v >= f.start.from.v)
        first--;
    int rc = ll_log_cursor_open(f.log, &c);
    if (rc)
        return rc;
    rc = ll_log_cursor_prepare(c, 2000);
    for (size_t i = f.count; !rc && i-- > first;) {
        rc = ll_log_cursor_read(c, f.list[i].rec.lsn, &rec, &f.err);
        if (!rc)
            check_record(&f, &rec, i);
    }
    if (!rc)
        rc = ll_log_cursor_seek(c, lladd_lsn_of(f.list[first].rec.lsn.v + 9), &rec, &f.err);
    ll_log_cursor_close(c);
    return rc;
}

static int append_and_force(unsigned n)
{
    lladd_lsn lsn = {0};
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        rc = try_put(&f, (i * 131) % 1900, &lsn);
        if (rc == 0 && i % 3 == 2)
            rc = ll_log_force(f.log, lsn, &f.err);
        if (rc == 0 && i % 3 == 2)
            f.durable_count = f.count;
    }
    return rc;
}

static int use(void)
{
    bool more;
    int rc = append_and_force(24);
    if (!rc)
        rc = ll_log_undo_reserve(f.log, 3000, &f.err);
    if (!rc)
        rc = read_some();
    if (!rc)
        rc = ll_log_maintain(f.log, &more, &f.err);
    if (!rc && f.durable_count > 5) {
        lladd_lsn from = f.list[f.durable_count - 4].rec.lsn;
        rc = ll_log_truncate(f.log, from, &f.err);
        if (!rc) {
            f.start.from = from;
            f.start.watermark = ll_log_durable(f.log);
        }
    }
    return rc;
}

static void close_log(void)
{
    ll_log_close(f.log);
    f.log = NULL;
    f.credit.bytes = 0;
}

/* Sets *created if a log was created. */
static int workload(bool *created)
{
    int rc = ll_log_create(&f.cfg, &f.log, &f.err);
    *created = rc == 0;
    if (rc) {
        f.log = NULL;
        return rc;
    }
    f.start.from.v = f.start.watermark.v = 8;
    rc = use();
    if (rc)
        return rc;
    struct ll_log_start clean = f.start;
    rc = ll_log_finish(f.log, &clean.end, &f.err);
    if (rc)
        return rc;
    f.durable_count = f.count;
    clean.clean = true;
    clean.watermark = clean.end;
    ll_log_newest_segment(f.log, &clean.segment, &clean.segment_bytes);
    close_log();
    rc = ll_log_open(&f.cfg, &clean, &f.log, &f.err);
    if (!rc)
        rc = ll_log_start(f.log, &f.err);
    if (!rc)
        rc = use();
    if (rc)
        return rc;
    rc = reopen(&f);
    return rc ? rc : append_and_force(5);
}

static void begin(void)
{
    fixture_free(&f);
    fixture_init(&f);
    f.cfg.ring_bytes = 8192;
    f.cfg.segment_max = 8192;
}

/* The next process can open the log, and all durable records are there. */
static void check_after(bool created)
{
    close_log();
    ck_assert_uint_eq(fault_alloc_live(&f.fa), 0);
    ck_assert_uint_eq(fault_device_open_files(f.fd), 0);
    fault_alloc_fail(&f.fa, 0, false);
    fault_device_fail(f.fd, 0, 0, 0, false);
    if (!created)
        return;
    must(&f, reopen(&f));
    must(&f, append_and_force(10));
    must(&f, read_some());
}

/* ---- cases ---- */

/* _i 0: only the n-th allocation fails; 1: all allocations from the n-th on fail. */
START_TEST(no_memory)
{
    for (uint64_t n = 1;; n++) {
        bool created = false;
        begin();
        fault_alloc_fail(&f.fa, n, _i);
        int rc = workload(&created);
        bool fired = fault_alloc_fired(&f.fa) > 0;
        ck_assert(fired || rc == 0);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        ck_assert(!ll_poisoned(&f.poison));
        check_after(created);
        if (!fired) {
            ck_assert_uint_gt(n, 30);
            break;
        }
    }
}
END_TEST

START_TEST(device_error)
{
    const int errors[] = {EIO, ENOSPC};
    for (uint64_t n = 1;; n++) {
        bool created = false;
        begin();
        fault_device_fail(f.fd, n, FAULT_ANY, errors[_i / 2], _i % 2);
        int rc = workload(&created);
        bool fired = fault_device_fired(f.fd) > 0;
        ck_assert(fired || rc == 0);
        if (rc) {
            enum lladd_root root = lladd_code_root(rc);
            ck_assert(root == LLADD_ROOT_RESOURCE || root == LLADD_ROOT_POISONED ||
                      rc == LLADD_READ_FAILED);
            ck_assert_int_eq(f.err.code, rc);
            ck_assert_ptr_nonnull(f.err.source);
            ck_assert_int_ne(f.err.message[0], 0);
        }
        if (ll_poisoned(&f.poison))
            ck_assert_int_eq(rc, LLADD_WRITE_FAILED);
        check_after(created);
        if (!fired) {
            ck_assert_uint_gt(n, 100);
            break;
        }
    }
}
END_TEST

/* A failed close of a file poisons nothing and fails no call. */
START_TEST(close_error)
{
    for (uint64_t n = 1;; n++) {
        bool created = false;
        begin();
        fault_device_fail(f.fd, n, FAULT_CLOSE, EIO, false);
        must(&f, workload(&created));
        bool fired = fault_device_fired(f.fd) > 0;
        check_after(created);
        if (!fired)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault");
    TCase *t = tcase_create("fault");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, no_memory, 0, 2);
    tcase_add_loop_test(t, device_error, 0, 4);
    tcase_add_test(t, close_error);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
