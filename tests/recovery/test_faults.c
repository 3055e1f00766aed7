/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * While a database is created, opened, used and closed, the n-th device call or memory allocation
 * fails, alone or with all later ones. The tests try each n up to ten, and larger n in larger
 * steps; nightly tests try each n. In other cases the disk is full from some moment on.
 *
 * A failed call must return an error with a code of the right root and a message. A poisoned handle
 * returns its error from every call (LOG-4); a lack of memory does not poison. Nothing leaks. When
 * the device works again, the database is in one of the possible states (history.h). Abort, close
 * and recovery succeed on a full disk (REC-3).
 */
#include "support/fixtures.h"
#include "workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static struct history h;

static bool nightly(void)
{
    return getenv("LLADD_NIGHTLY") != NULL;
}

/* Returns the n of the next run: n + 1 up to ten and in nightly tests, otherwise n + one_in. */
static uint64_t next_n(uint64_t n, unsigned one_in)
{
    return n < 10 || nightly() ? n + 1 : n + one_in;
}

static void make(unsigned flags)
{
    fixture_init(&r, flags);
    workload_options(&r);
    fixture_open(&r);
    workload_prepare(&r, &h);
}

static void check_code(int rc, const struct lladd_error *err, const char *what)
{
    ck_assert_msg(lladd_code_name(rc) != NULL, "%s: %d is no code", what, rc);
    enum lladd_root root = lladd_code_root(rc);
    ck_assert_msg(root == LLADD_ROOT_RESOURCE || root == LLADD_ROOT_DATA ||
                      root == LLADD_ROOT_POISONED,
                  "%s: %s", what, lladd_code_name(rc));
    if (err && err->code) {
        ck_assert_str_ne(err->message, "");
        ck_assert_ptr_nonnull(err->source);
    }
}

/* Returns whether the handle is poisoned, after a call has failed with rc. Asserts that the handle
 * is poisoned if rc is a code that says so, and that a poisoned handle returns its error from other
 * calls. */
static bool poisoned(int rc, const char *what)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    int cause = lladd_db_error(r.db, &err);
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        ck_assert_msg(cause != 0, "%s: %s, but the handle is not poisoned", what,
                      lladd_code_name(rc));
    if (!cause)
        return false;
    ck_assert_int_eq(lladd_code_root(cause), LLADD_ROOT_POISONED);
    ck_assert_str_ne(err.message, "");
    ck_assert_int_eq(lladd_begin(r.db, NULL, &txn, &err), cause);
    ck_assert_int_eq(lladd_checkpoint(r.db, &err), cause);
    return true;
}

/* The device works again. Asserts that recovery gives one of the possible states. */
static void recover(const char *what, const struct fault_crash *how)
{
    h.where = what;
    if (how)
        fault_device_power_cycle(r.fd, how);
    fixture_open(&r);
    history_check(&h, r.db);
    history_go_on(&h, r.db);
}

/* ---- the n-th device call ---------------------------------------------------------------- */

/* Runs the workload and closes, with one planned failure. Returns false if that call was not
 * reached. */
static bool run_with_failing_call(uint64_t n, unsigned kinds, int err, bool forever)
{
    char what[100];
    struct lladd_error why = LLADD_ERROR_INIT;
    snprintf(what, sizeof what, "call %llu of kinds 0x%x, errno %d%s", (unsigned long long)n, kinds,
             err, forever ? ", for ever" : "");
    make(n % 2 ? FIXTURE_RESERVED : 0);
    fault_device_fail(r.fd, n, kinds, err, forever);
    int rc = workload_run(&r, &h, &why);
    if (rc)
        check_code(rc, &why, what);
    bool bad = rc && poisoned(rc, what);
    struct lladd_db *db = r.db;
    r.db = NULL;
    int closed = lladd_close(db);
    if (closed)
        check_code(closed, NULL, what);
    ck_assert_msg(!bad || closed, "%s: closing a poisoned handle succeeds", what);
    bool fired = fault_device_fired(r.fd) > 0;
    fault_device_fail(r.fd, 0, 0, 0, false);
    recover(what, n % 3 ? &fault_power : &fault_kill);
    history_free(&h);
    fixture_free(&r);
    return fired;
}

static void every_call(unsigned kinds, int err, bool forever, unsigned one_in)
{
    uint64_t runs = 0, n = 1;
    for (; run_with_failing_call(n, kinds, err, forever); n = next_n(n, one_in))
        runs++;
    ck_assert_uint_gt(runs, 20);
}

START_TEST(a_write_or_sync_fails)
{
    every_call(FAULT_WRITES, EIO, _i, 7);
}
END_TEST

START_TEST(a_sync_fails)
{
    every_call(FAULT_SYNC | FAULT_SYNC_DIR, EIO, _i, 3);
}
END_TEST

START_TEST(there_is_no_space_for_a_call)
{
    every_call(FAULT_WRITES, ENOSPC, _i, 7);
}
END_TEST

START_TEST(any_call_fails)
{
    every_call(FAULT_ANY, EIO, _i, 19);
}
END_TEST

/* Opens a database that was closed, or that must be recovered, with one planned failure. */
static bool open_with_failing_call(uint64_t n, int err, bool forever, bool crashed)
{
    char what[100];
    struct lladd_error why = LLADD_ERROR_INIT;
    snprintf(what, sizeof what, "open, call %llu, errno %d%s%s", (unsigned long long)n, err,
             forever ? ", for ever" : "", crashed ? ", after a crash" : "");
    make(n % 2 ? FIXTURE_RESERVED : 0);
    ck_assert_int_eq(workload_run(&r, &h, &why), 0);
    if (crashed)
        fixture_crash(&r, n % 3 ? &fault_power : &fault_kill);
    else
        fixture_close(&r);
    fault_device_fail(r.fd, n, FAULT_ANY, err, forever);
    int rc = fixture_try_open(&r);
    bool fired = fault_device_fired(r.fd) > 0;
    if (rc) {
        check_code(rc, &r.err, what);
        ck_assert_msg(fired, "%s: %s", what, r.err.message);
        ck_assert_uint_eq(fault_device_open_files(r.fd), 0);
    } else {
        lladd_db_kill(r.db);
        r.db = NULL;
    }
    fault_device_fail(r.fd, 0, 0, 0, false);
    recover(what, &fault_power);
    history_free(&h);
    fixture_free(&r);
    return fired;
}

START_TEST(a_call_fails_while_a_closed_database_is_opened)
{
    uint64_t n = 1;
    while (open_with_failing_call(n, _i & 1 ? EIO : ENOSPC, _i & 2, false))
        n++;
    ck_assert_uint_gt(n, 8);
}
END_TEST

START_TEST(a_call_fails_in_recovery)
{
    uint64_t n = 1;
    while (open_with_failing_call(n, _i & 1 ? EIO : ENOSPC, _i & 2, true))
        n = next_n(n, 3);
    ck_assert_uint_gt(n, 50);
}
END_TEST

START_TEST(a_call_fails_while_the_database_is_made)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        fixture_init(&r, 0);
        r.options.log_segment_min = r.options.log_segment_max = 4096;
        fault_device_fail(r.fd, n, FAULT_ANY, _i & 1 ? EIO : ENOSPC, _i & 2);
        int rc = fixture_try_open(&r);
        fired = fault_device_fired(r.fd) > 0;
        if (rc) {
            check_code(rc, &r.err, "create");
            ck_assert_uint_eq(fault_device_open_files(r.fd), 0);
            fault_device_fail(r.fd, 0, 0, 0, false);
            fixture_open(&r);
        }
        fault_device_fail(r.fd, 0, 0, 0, false);
        if (lladd_db_error(r.db, NULL)) {
            lladd_db_kill(r.db);
            r.db = NULL;
            fixture_open(&r);
        }
        fixture_set(&r, cell_of(fixture_page(&r), 0), 5);
        fixture_free(&r);
    }
}
END_TEST

/* ---- the n-th allocation ----------------------------------------------------------------- */

/* Runs the workload, with failures of memory allocation. Then closes the database. A lack of memory
 * must not make the rollback of open transactions fail and poison the handle (REC-3). */
static bool run_with_failing_allocation(uint64_t n, bool forever)
{
    char what[100];
    struct lladd_error why = LLADD_ERROR_INIT;
    snprintf(what, sizeof what, "allocation %llu%s", (unsigned long long)n,
             forever ? " and all after it" : "");
    make(n % 2 ? FIXTURE_RESERVED : 0);
    fault_alloc_fail(&r.mem, n, forever);
    int rc = workload_run(&r, &h, &why);
    bool fired = fault_alloc_fired(&r.mem) > 0;
    if (rc) {
        check_code(rc, &why, what);
        ck_assert_msg(lladd_code_root(rc) == LLADD_ROOT_RESOURCE, "%s: %s: %s", what,
                      lladd_code_name(rc), why.message);
    }
    ck_assert_msg(lladd_db_error(r.db, &why) == 0, "%s: poisoned: %s", what, why.message);
    struct lladd_db *db = r.db;
    r.db = NULL;
    int closed = lladd_close(db);
    ck_assert_msg(closed == 0 || closed == LLADD_NO_MEMORY, "%s: close: %s", what,
                  lladd_code_name(closed));
    fault_alloc_fail(&r.mem, 0, false);
    ck_assert_uint_eq(fault_device_open_files(r.fd), 0);
    recover(what, n % 3 ? NULL : &fault_power);
    history_free(&h);
    fixture_free(&r);
    return fired;
}

START_TEST(an_allocation_fails)
{
    uint64_t n = 1;
    while (run_with_failing_allocation(n, _i))
        n = next_n(n, 11);
    ck_assert_uint_gt(n, 30);
}
END_TEST

static bool open_with_failing_allocation(uint64_t n, bool forever, bool crashed)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    make(n % 2 ? FIXTURE_RESERVED : 0);
    ck_assert_int_eq(workload_run(&r, &h, &why), 0);
    if (crashed)
        fixture_crash(&r, &fault_power);
    else
        fixture_close(&r);
    uint64_t live = fault_alloc_live(&r.mem);
    fault_alloc_fail(&r.mem, n, forever);
    int rc = fixture_try_open(&r);
    bool fired = fault_alloc_fired(&r.mem) > 0;
    fault_alloc_fail(&r.mem, 0, false);
    if (rc) {
        ck_assert_msg(rc == LLADD_NO_MEMORY || (crashed && rc == LLADD_UNDO_FAILED),
                      "allocation %llu: %s: %s", (unsigned long long)n, lladd_code_name(rc),
                      r.err.message);
        ck_assert_uint_eq(fault_alloc_live(&r.mem), live);
        ck_assert_uint_eq(fault_device_open_files(r.fd), 0);
    } else {
        lladd_db_kill(r.db);
        r.db = NULL;
    }
    recover("an allocation failed in open", &fault_power);
    history_free(&h);
    fixture_free(&r);
    return fired;
}

START_TEST(an_allocation_fails_while_the_database_is_opened)
{
    uint64_t n = 1;
    while (open_with_failing_allocation(n, _i & 1, _i & 2))
        n = next_n(n, _i & 2 ? 5 : 1);
    ck_assert_uint_gt(n, 10);
}
END_TEST

START_TEST(an_allocation_fails_while_the_database_is_made)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        fixture_init(&r, n % 2 ? FIXTURE_RESERVED : 0);
        uint64_t live = fault_alloc_live(&r.mem);
        fault_alloc_fail(&r.mem, n, _i);
        int rc = fixture_try_open(&r);
        fired = fault_alloc_fired(&r.mem) > 0;
        fault_alloc_fail(&r.mem, 0, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_NO_MEMORY);
            ck_assert_uint_eq(fault_alloc_live(&r.mem), live);
            fixture_open(&r);
        }
        fixture_set(&r, cell_of(fixture_page(&r), 0), 5);
        fixture_free(&r);
    }
}
END_TEST

/* A registration that fails for lack of memory registers nothing. */
START_TEST(an_allocation_fails_while_operations_are_registered)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        struct fault_alloc mem;
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_options o = LLADD_OPTIONS_INIT;
        fault_alloc_init(&mem);
        o.allocator = &mem.mem;
        fault_alloc_fail(&mem, n, false);
        int rc = lladd_register_extension(&o, &test_extension, &err);
        fired = fault_alloc_fired(&mem) > 0;
        ck_assert_int_eq(rc, fired ? LLADD_NO_MEMORY : 0);
        if (rc)
            ck_assert_int_eq(lladd_register_extension(&o, &test_extension, &err), 0);
        lladd_options_release(&o);
        ck_assert_uint_eq(fault_alloc_live(&mem), 0);
    }
}
END_TEST

/* ---- a full disk ------------------------------------------------------------------------- */

/* Runs the workload on a disk that has `room` bytes left. Returns false if the workload has
 * succeeded. */
static bool run_on_full_disk(uint64_t room, bool crash)
{
    char what[100];
    struct lladd_error why = LLADD_ERROR_INIT;
    snprintf(what, sizeof what, "%llu bytes left%s", (unsigned long long)room,
             crash ? ", then a crash" : "");
    make(room % 8192 ? FIXTURE_RESERVED : 0);
    fault_device_capacity(r.fd, fault_device_bytes(r.fd) + room);
    int rc = workload_run(&r, &h, &why);
    ck_assert_msg(rc == 0 || rc == LLADD_NO_SPACE, "%s: %s: %s", what, lladd_code_name(rc),
                  why.message);
    ck_assert(rc == 0 || !poisoned(rc, what));
    if (crash)
        fixture_crash(&r, &fault_power);
    else
        fixture_close(&r); /* also aborts open transactions */
    /* The disk is still full. */
    h.where = what;
    fixture_open(&r);
    history_check(&h, r.db);
    fixture_close(&r);
    fault_device_capacity(r.fd, UINT64_MAX);
    fixture_open(&r);
    history_check(&h, r.db);
    history_go_on(&h, r.db);
    history_free(&h);
    fixture_free(&r);
    return rc != 0;
}

START_TEST(abort_close_and_recovery_succeed_on_a_full_disk)
{
    uint64_t room = 0;
    unsigned full = 0;
    while (run_on_full_disk(room, _i)) {
        room += 4096;
        full++;
    }
    ck_assert_uint_gt(full, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("faults");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_write_or_sync_fails, 0, 2);
    tcase_add_loop_test(tc, a_sync_fails, 0, 2);
    tcase_add_loop_test(tc, there_is_no_space_for_a_call, 0, 2);
    tcase_add_loop_test(tc, any_call_fails, 0, 2);
    tcase_add_loop_test(tc, a_call_fails_while_a_closed_database_is_opened, 0, 4);
    tcase_add_loop_test(tc, a_call_fails_in_recovery, 0, 4);
    tcase_add_loop_test(tc, a_call_fails_while_the_database_is_made, 0, 4);
    tcase_add_loop_test(tc, an_allocation_fails, 0, 2);
    tcase_add_loop_test(tc, an_allocation_fails_while_the_database_is_opened, 0, 4);
    tcase_add_loop_test(tc, an_allocation_fails_while_the_database_is_made, 0, 2);
    tcase_add_test(tc, an_allocation_fails_while_operations_are_registered);
    tcase_add_loop_test(tc, abort_close_and_recovery_succeed_on_a_full_disk, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
