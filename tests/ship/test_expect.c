/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores that say how far the log in the store must go: a store does not show that its newest
 * objects are missing.
 */
#include "calls.h"
#include "numbered.h"

#include <check.h>
#include <lladd/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct lladd_error err;
static struct run run;
static struct lladd_backup_info base;

/* A backup at transaction 20, and archived log up to transaction 60. */
static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memset(&run, 0, sizeof run);
    memory_store_init(&store);
    run.store = &store;
    run.segment = 1 << 13;
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    run_open(&run, disk, 0);
    run_work_to(&run, 20);
    base = (struct lladd_backup_info){.struct_size = sizeof base};
    OK(lladd_backup(run.db, &store.base, NULL, &base, &err));
    run_work_to(&run, 60);
    run_archive(&run, 0);
}

static void teardown(void)
{
    run_close(&run);
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

static void new_copy(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static int see_name(void *ctx, const char *name)
{
    unsigned *n = ctx;
    (*n)++;
    (void)name;
    return 0;
}

static int restore(const struct lladd_restore_target *t, uint64_t expected)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    o.target = t;
    o.expected = lladd_lsn_of(expected);
    new_copy();
    return lladd_restore(&store.base, &o, copy, NULL, &err);
}

/* Is refused with both LSNs, and has written nothing. */
static void refused(const struct lladd_restore_target *t, uint64_t end, uint64_t expected)
{
    char text[120];
    unsigned files = 0;
    ck_assert_int_eq(restore(t, expected), LLADD_OUT_OF_RANGE);
    (void)snprintf(text, sizeof text, "up to LSN %llu, and LSN %llu is expected",
                   (unsigned long long)end, (unsigned long long)expected);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s: %s", text, err.message);
    ck_assert_int_eq(copy->ops->list(copy, "", see_name, &files), 0);
    ck_assert_uint_eq(files, 0);
}

static struct lladd_restore_target target(enum lladd_target_kind kind)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    t.kind = kind;
    return t;
}

/* Whatever the target is, the end of the log is compared. */
START_TEST(a_store_with_the_expected_log_is_restored)
{
    struct lladd_restore_target t = target(LLADD_TO_END), lsn = target(LLADD_TO_LSN);
    struct lladd_restore_target at_base = target(LLADD_TO_BASE);
    static struct run opened;
    uint64_t end = run.end[60];
    lsn.lsn = lladd_lsn_of(run.end[30]);
    OK(restore(&at_base, end));
    OK(restore(NULL, end));
    OK(restore(&lsn, end));
    OK(restore(&t, end - 8));
    OK(restore(&t, end));
    opened.segment = run.segment;
    run_open(&opened, copy, LLADD_OPT_MUST_EXIST);
    run_check(&opened, &run, 60);
    run_close(&opened);
    refused(&t, end, end + 8);
    refused(&lsn, end, end + 8);
    refused(&at_base, end, end + 1);
    refused(NULL, end, UINT64_MAX);
}
END_TEST

/* First LSN of the last segment of which the store has an object. */
static uint64_t last_segment(void)
{
    uint64_t last = 0;
    for (size_t i = 0; i < store.n; i++) {
        const char *name = store.objects[i].name;
        uint64_t first = strstr(name, "/log/") ? strtoull(strrchr(name, '/') + 1, NULL, 16) : 0;
        last = first > last ? first : last;
    }
    return last;
}

/* The objects of the newest segment go, then those of the one before it, and so on. The restore to
 * the end succeeds each time, and is refused if it expects the lost log. */
START_TEST(lost_objects_are_missed)
{
    struct lladd_restore_target t = target(LLADD_TO_END);
    struct memory_object *o;
    uint64_t end = run.end[60], last;
    unsigned lost = 0;
    char name[40];
    while ((last = last_segment()) > base.end.v) {
        (void)snprintf(name, sizeof name, "/log/%016llx.", (unsigned long long)last);
        while ((o = memory_store_find(&store, name)) != NULL)
            memory_store_drop(&store, o);
        OK(restore(&t, 0));
        int rc = restore(&t, end);
        ck_assert_msg(rc == LLADD_OUT_OF_RANGE, "%d: %s", rc, err.message);
        lost++;
    }
    ck_assert_uint_gt(lost, 1);
    ck_assert_int_eq(restore(NULL, end), LLADD_OUT_OF_RANGE);
    OK(restore(NULL, base.end.v));
}
END_TEST

/* On each timeline its own log counts, and that of its origin below the fork. */
START_TEST(the_log_of_the_timeline_counts)
{
    struct lladd_restore_target t = target(LLADD_TO_LSN);
    t.lsn = lladd_lsn_of(run.end[40]);
    OK(restore(&t, 0));
    t = target(LLADD_TO_END);
    t.timeline = 1;
    OK(restore(&t, run.end[40]));
    refused(&t, run.end[40], run.end[60]);
    t.timeline = 0;
    OK(restore(&t, run.end[60]));
}
END_TEST

START_TEST(a_device_over_the_store_compares_too)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device;
    o.expected = lladd_lsn_of(run.end[60] + 8);
    ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_OUT_OF_RANGE);
    o.expected = lladd_lsn_of(run.end[60]);
    OK(lladd_store_device(&store.base, &o, &device, &err));
    lladd_store_device_close(device);
    /* A caller of an earlier version has a smaller struct. */
    o.expected = lladd_lsn_of(UINT64_MAX);
    o.struct_size = offsetof(struct lladd_restore_options, expected);
    OK(lladd_store_device(&store.base, &o, &device, &err));
    lladd_store_device_close(device);
}
END_TEST

START_TEST(the_store_fails_at_each_call)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target t = target(_i ? LLADD_TO_END : LLADD_TO_BASE);
    struct lladd_device *device;
    bool fired = true;
    o.target = &t;
    o.expected = lladd_lsn_of(run.end[60]);
    for (uint64_t n = 1; fired; n++) {
        store.calls = store.fired = 0;
        store.fail_at = n;
        int rc = lladd_store_device(&store.base, &o, &device, &err);
        fired = store.fired != 0;
        ck_assert_msg(rc == (fired ? LLADD_STORE_FAILED : 0), "call %u: %d %s", (unsigned)n, rc,
                      err.message);
        if (!rc)
            lladd_store_device_close(device);
    }
    store.fail_at = 0;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("expect");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_store_with_the_expected_log_is_restored);
    tcase_add_test(tc, lost_objects_are_missed);
    tcase_add_test(tc, the_log_of_the_timeline_counts);
    tcase_add_test(tc, a_device_over_the_store_compares_too);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
