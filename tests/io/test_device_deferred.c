/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that defers syncs. No sync reaches the device below until the caller settles the device.
 * Then each deferred sync is done once, and every later sync is done at once. The device below is a
 * fault device, which tells what would survive a power failure.
 */
#include "io/io.h"
#include "support/fault_device.h"
#include "util/env.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct lladd_device *base, *dev;
static struct fault_device *fd;
static struct ll_env env;

/* ---- memory that fails after a number of allocations ---- */

static int64_t allocations_left;

static void *some_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

static void *some_resize(void *ctx, void *p, size_t size)
{
    (void)ctx;
    return allocations_left-- > 0 ? realloc(p, size) : NULL;
}

static void some_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void setup(void)
{
    static const struct lladd_allocator some = {NULL, some_alloc, some_resize, some_release};
    allocations_left = INT64_MAX;
    ll_env_init(&env, &some, NULL, false);
    ck_assert_int_eq(lladd_device_memory(&base), 0);
    fd = fault_device_new(base);
    ck_assert_int_eq(ll_io_deferred_new(&env, fault_device_dev(fd), &dev), 0);
}

static void teardown(void)
{
    ck_assert_ptr_eq(ll_io_deferred_free(dev), fault_device_dev(fd));
    fault_device_free(fd);
    lladd_device_close(base);
}

/* ---- helpers ---- */

static struct lladd_file *make(const char *name, const char *text)
{
    struct lladd_file *f = NULL;
    ck_assert_int_eq(ll_io_open(dev, name, LLADD_OPEN_CREATE, &f), 0);
    ck_assert_int_eq(ll_io_pwrite(dev, f, text, strlen(text), 0), 0);
    ck_assert_int_eq(ll_io_sync(dev, f), 0);
    return f;
}

static uint64_t syncs(void)
{
    return fault_device_calls(fd, FAULT_SYNC) + fault_device_calls(fd, FAULT_SYNC_DIR);
}

/* Reads a file as it is after a power failure. Returns the number of bytes, or -ENOENT if no file
 * has this name then. */
static int64_t left_of(const char *name, char *into, size_t size)
{
    struct lladd_device *rest;
    struct lladd_file *f;
    ck_assert_int_eq(lladd_device_memory(&rest), 0);
    fault_device_crash(fd, &(struct fault_crash){.mode = FAULT_POWER}, rest);
    int64_t n = ll_io_open(rest, name, 0, &f);
    if (n == 0) {
        n = ll_io_pread(rest, f, into, size, 0);
        ck_assert_int_eq(ll_io_close(rest, f), 0);
    }
    lladd_device_close(rest);
    return n;
}

static void must_be_left(const char *name, const char *text)
{
    char bytes[64];
    ck_assert_int_eq(left_of(name, bytes, sizeof bytes), (int64_t)strlen(text));
    ck_assert_int_eq(memcmp(bytes, text, strlen(text)), 0);
}

/* ---- cases ---- */

/* At first nothing is durable. Settling makes everything durable, with one sync for each deferred
 * one. */
START_TEST(each_deferred_sync_is_done_once)
{
    char bytes[64];
    ck_assert_int_eq(ll_io_mkdir(dev, "log"), 0);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    struct lladd_file *a = make("a", "alpha"), *b = make("log/b", "beta");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ll_io_sync(dev, a), 0);
        ck_assert_int_eq(ll_io_sync_dir(dev, "log"), 0);
        ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    }
    ck_assert_uint_eq(syncs(), 0);
    ck_assert_int_eq(left_of("a", bytes, sizeof bytes), -ENOENT);
    ck_assert_int_eq(ll_io_settle(dev), 0);
    ck_assert_uint_eq(syncs(), 4); /* two files, two directories */
    must_be_left("a", "alpha");
    must_be_left("log/b", "beta");
    ck_assert_int_eq(ll_io_settle(dev), 0);
    ck_assert_uint_eq(syncs(), 4);
    ck_assert_int_eq(ll_io_close(dev, a), 0);
    ck_assert_int_eq(ll_io_close(dev, b), 0);
}
END_TEST

START_TEST(a_settled_device_defers_nothing)
{
    ck_assert_int_eq(ll_io_settle(dev), 0);
    struct lladd_file *a = make("a", "alpha");
    ck_assert_uint_eq(syncs(), 1);
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    must_be_left("a", "alpha");
    ck_assert_int_eq(ll_io_pwrite(dev, a, "omega", 5, 0), 0);
    must_be_left("a", "alpha");
    ck_assert_int_eq(ll_io_sync(dev, a), 0);
    must_be_left("a", "omega");
    ck_assert_int_eq(ll_io_close(dev, a), 0);
}
END_TEST

/* A file's deferred sync is done when the file is closed, at the latest. */
START_TEST(closing_a_file_does_its_deferred_sync)
{
    struct lladd_file *a = make("a", "alpha");
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    ck_assert_int_eq(ll_io_close(dev, a), 0);
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_SYNC), 1);
    ck_assert_int_eq(ll_io_settle(dev), 0);
    ck_assert_uint_eq(fault_device_calls(fd, FAULT_SYNC), 1);
    must_be_left("a", "alpha");
}
END_TEST

/* If any sync fails, the caller that settles the device gets the error. A failed sync is not tried
 * again. */
START_TEST(settling_reports_a_failed_sync)
{
    struct lladd_file *a = make("a", "alpha"), *b = make("b", "beta");
    ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
    fault_device_fail(fd, (uint64_t)_i + 1, FAULT_SYNC | FAULT_SYNC_DIR, EIO, false);
    ck_assert_int_eq(ll_io_settle(dev), -EIO);
    uint64_t n = syncs();
    ck_assert_uint_eq(n, (uint64_t)_i + 1);
    ck_assert_int_eq(ll_io_settle(dev), 0);
    ck_assert_uint_eq(syncs(), n);
    ck_assert_int_eq(ll_io_close(dev, a), 0);
    ck_assert_int_eq(ll_io_close(dev, b), 0);
}
END_TEST

/* If there is no memory to remember a sync, the sync is done at once. */
START_TEST(without_memory_a_sync_is_done_at_once)
{
    for (int64_t n = 0;; n++) {
        allocations_left = n;
        struct lladd_file *a = make("a", "alpha");
        ck_assert_int_eq(ll_io_sync_dir(dev, ""), 0);
        bool all = allocations_left >= 0;
        allocations_left = INT64_MAX;
        ck_assert(all ? syncs() == 0 : syncs() > 0);
        ck_assert_int_eq(ll_io_settle(dev), 0);
        must_be_left("a", "alpha");
        ck_assert_int_eq(ll_io_close(dev, a), 0);
        if (all)
            break;
        teardown();
        setup();
    }
    struct lladd_device *none = NULL;
    allocations_left = 0;
    ck_assert_int_eq(ll_io_deferred_new(&env, fault_device_dev(fd), &none), -ENOMEM);
    allocations_left = INT64_MAX;
}
END_TEST

START_TEST(other_devices_are_left_alone)
{
    ck_assert_int_eq(ll_io_settle(base), 0);
    ck_assert_ptr_eq(ll_io_deferred_free(base), base);
    ck_assert_ptr_null(ll_io_deferred_free(NULL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_deferred");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, each_deferred_sync_is_done_once);
    tcase_add_test(t, a_settled_device_defers_nothing);
    tcase_add_test(t, closing_a_file_does_its_deferred_sync);
    tcase_add_loop_test(t, settling_reports_a_failed_sync, 0, 3);
    tcase_add_test(t, without_memory_a_sync_is_done_at_once);
    tcase_add_test(t, other_devices_are_left_alone);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
