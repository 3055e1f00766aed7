/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backups, restore, check and roll with several threads: the result is that of one thread; the
 * first error stops all threads.
 */
#include "filters.h"
#include "page_rig.h"

#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/fixtures.h"

#include <check.h>
#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIB = 1 << 20, EXTENT = MIB / PAGE };

static uint32_t threads;
static lladd_ship_progress_fn *progress;
static uint64_t rate;
static bool archived;
static const struct lladd_allocator *allocator;

/* ---- the calls ------------------------------------------------------------------------------ */

static int call_backup(void)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    o.threads = threads;
    o.progress = progress;
    o.bytes_per_second = rate;
    o.allocator = allocator;
    return lladd_backup(shop.db, used, &o, NULL, &err);
}

static int restore_into(struct lladd_device *to)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    t.kind = archived ? LLADD_TO_END : LLADD_TO_BASE;
    o.target = &t;
    o.threads = threads;
    o.progress = progress;
    o.bytes_per_second = rate;
    o.allocator = allocator;
    return lladd_restore(used, &o, to, NULL, &err);
}

static int call_restore(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    return restore_into(copy);
}

/* The findings of the last check, one after the other. */
static char findings[4000];
static struct lladd_check_info checked;

static int see_finding(void *ctx, const struct lladd_finding *f)
{
    size_t len = strlen(findings);
    (void)ctx;
    (void)snprintf(findings + len, sizeof findings - len, "%d %s: %s\n", (int)f->kind, f->file,
                   f->message);
    return 0;
}

static int call_check(void)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    checked = (struct lladd_check_info){.struct_size = sizeof checked};
    findings[0] = 0;
    o.threads = threads;
    o.progress = progress;
    o.bytes_per_second = rate;
    o.finding = see_finding;
    o.allocator = allocator;
    return lladd_archive_check(used, &o, &checked, &err);
}

static char first_base[64]; /* each roll begins with this backup */

static int call_roll(void)
{
    struct lladd_roll_options o = LLADD_ROLL_OPTIONS_INIT;
    o.base = first_base;
    o.threads = threads;
    o.progress = progress;
    o.bytes_per_second = rate;
    o.allocator = allocator;
    return lladd_archive_roll(used, &o, NULL, &err);
}

/* The store has all log, so the call does not wait. */
static int call_outside(void)
{
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    store_log();
    b.threads = threads;
    o.backup = &b;
    return lladd_backup_outside(disk, used, &o, NULL, &err);
}

static int (*const calls[])(void) = {call_backup, call_restore, call_check, call_roll,
                                     call_outside};
static const char *const names[] = {"backup", "restore", "check", "roll"};
enum { BACKUP, RESTORE, CHECK, ROLL, CALLS, OUTSIDE = CALLS };

/* ---- a database with many pages ------------------------------------------------------------- */

/* Extents of 1 MiB with so many random bytes, and then bytes that can be compressed. The pages have
 * headers: a backup reads raw pages several times. */
static void fill(unsigned mib, size_t random)
{
    unsigned char *bytes = malloc(MIB);
    ck_assert_ptr_nonnull(bytes);
    for (unsigned i = 0; i < mib; i++) {
        struct lladd_txn *txn;
        lladd_pageno first;
        memset(bytes, (int)i, MIB);
        seeded_fill(i, bytes, random);
        OK(lladd_begin(shop.db, NULL, &txn, &err));
        TXN(lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_BULK, &first));
        TXN(lladd_bulk_write(txn, first, EXTENT, "lladd.bytes", bytes));
        TXN(lladd_bulk_sync(txn));
        ck_assert_int_eq(lladd_commit(txn), 0);
    }
    free(bytes);
}

static int first_of(void *ctx, const struct lladd_backup_info *info)
{
    (void)ctx;
    memcpy(first_base, info->name, sizeof first_base);
    return 1;
}

/* A backup of a database of about `mib` MiB, archived log and spools above it; it is open, and all
 * pages are written. */
static void begin(unsigned mib)
{
    threads = 1;
    progress = NULL;
    rate = 0;
    allocator = NULL;
    archived = true;
    open_shop(disk, false);
    fill(mib, MIB / 2);
    work(6);
    store_log();
    OK(call_backup());
    ck_assert_int_eq(lladd_backup_each(used, NULL, first_of, NULL, &err), 1);
    work(4);
    fill(1, MIB / 2);
    store_log();
    OK(lladd_checkpoint(shop.db, &err));
    OK(lladd_checkpoint(shop.db, &err));
    shop_check(&shop, 0, gens);
}

/* A database with two objects of pages in its backup, and no archive. */
static void begin_large(void)
{
    threads = 1;
    progress = NULL;
    rate = 0;
    allocator = NULL;
    archived = false;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    fill(70, MIB);
    work(3);
    OK(call_backup());
    ck_assert_int_eq(lladd_backup_each(used, NULL, first_of, NULL, &err), 1);
    OK(lladd_checkpoint(shop.db, &err));
    shop_check(&shop, 0, gens);
}

static void end(void)
{
    if (archived)
        close_shop(false);
    else
        shop_close(&shop);
}

/* ---- the same result ------------------------------------------------------------------------ */

static int last_of(void *ctx, const struct lladd_backup_info *info)
{
    (void)memcpy(ctx, info->name, sizeof info->name);
    return 0;
}

/* Makes a backup or a roll with so many threads, and gets its name. */
static void make(unsigned call, uint32_t n, char name[64])
{
    char before[64];
    OK(lladd_backup_each(used, NULL, last_of, before, &err));
    threads = n;
    OK(calls[call]());
    OK(lladd_backup_each(used, NULL, last_of, name, &err));
    ck_assert_str_ne(name, before);
    if (archived)
        store_log(); /* up to the end of the backup */
}

static const struct memory_object *named(const char *base, const char *what)
{
    char name[200];
    (void)snprintf(name, sizeof name, "base/%s/%s", base, what);
    return memory_store_find(&store, name);
}

/* The objects of pages have the same bytes. */
static void expect_same(unsigned call, uint32_t n, unsigned objects)
{
    char one[64], more[64], what[40] = "pages.idx";
    make(call, 1, one);
    make(call, n, more);
    for (unsigned i = 0; i <= objects; i++) {
        const struct memory_object *a = named(one, what), *b = named(more, what);
        ck_assert_msg(a && b, "%s", what);
        ck_assert_msg(a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0, "%s", what);
        (void)snprintf(what, sizeof what, "pages.%u", i);
    }
    ck_assert(!named(one, what) && !named(more, what));
}

static void expect_restored(uint32_t n)
{
    uint64_t pages, others;
    struct shop opened;
    uint64_t got[SHOP_WORKERS];
    threads = 1;
    OK(call_restore());
    unsigned char *one = read_pages(copy, &pages);
    threads = n;
    OK(call_restore());
    unsigned char *more = read_pages(copy, &others);
    ck_assert_uint_eq(pages, others);
    ck_assert_int_eq(memcmp(one, more, pages * PAGE), 0);
    free(one);
    free(more);
    shop_open(&opened, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS);
    shop_check(&opened, 0, got);
    ck_assert_mem_eq(got, gens, sizeof got);
    shop_close(&opened);
    shop_verify(copy);
}

static void expect_checked(uint32_t n)
{
    static char one[sizeof findings];
    threads = 1;
    OK(call_check());
    struct lladd_check_info had = checked;
    memcpy(one, findings, sizeof one);
    threads = n;
    OK(call_check());
    ck_assert_mem_eq(&had, &checked, sizeof had);
    ck_assert_str_eq(one, findings);
}

START_TEST(the_result_is_that_of_one_thread)
{
    static const uint32_t counts[] = {2, 4, 9};
    begin(8);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        expect_same(BACKUP, counts[i], 1);
        expect_same(ROLL, counts[i], 1);
        expect_same(OUTSIDE, counts[i], 1);
        expect_restored(counts[i]);
        expect_checked(counts[i]);
        ck_assert_str_eq(findings, "");
    }
    end();
}
END_TEST

/* More than one object of pages. */
START_TEST(objects_are_the_same)
{
    begin_large();
    expect_same(BACKUP, 4, 2);
    expect_restored(4);
    expect_checked(4);
    end();
}
END_TEST

START_TEST(a_store_with_a_filter_and_threads)
{
    struct test_filter filter;
    test_filter_init(&filter, FILTER_SQUEEZE, 1);
    used = test_filter_over(&store.base, &filter);
    begin(6);
    expect_same(BACKUP, 4, 1);
    expect_same(ROLL, 4, 1);
    expect_same(OUTSIDE, 4, 1);
    expect_restored(4);
    expect_checked(4);
    end();
    lladd_store_close(used);
}
END_TEST

/* Damaged pages are repaired, whichever thread finds them. */
START_TEST(damaged_pages_are_repaired)
{
    threads = 1;
    progress = NULL;
    rate = 0;
    allocator = NULL;
    archived = true;
    open_with_pages();
    shop_check(&shop, 0, gens);
    unsigned damaged = damage_all(disk);
    ck_assert_uint_gt(damaged, 20);
    threads = 4;
    OK(call_backup());
    store_log();
    OK(call_check());
    ck_assert_str_eq(findings, "");
    expect_restored(4);
    end();
    shop_verify(disk);
}
END_TEST

/* ---- while transactions run ----------------------------------------------------------------- */

static void *write_on(void *k)
{
    for (unsigned i = 0; i < 10; i++)
        shop_work(&shop, (unsigned)(uintptr_t)k);
    return NULL;
}

/* Backups with 4 threads, while 4 threads write; each is restored by 4 threads. */
START_TEST(backups_under_writers)
{
    struct lladd_thread writers[WORKERS] = {{0}};
    threads = 4;
    progress = NULL;
    rate = 0;
    allocator = NULL;
    archived = false;
    shop_open(&shop, disk, 0);
    fill(4, MIB / 2);
    for (uintptr_t k = 0; k < WORKERS; k++)
        ck_assert_int_eq(lladd_thread_start(&writers[k], write_on, (void *)k), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct shop opened;
        OK(call_backup());
        OK(call_restore());
        shop_open(&opened, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS);
        shop_check(&opened, 0, gens);
        shop_close(&opened);
        shop_verify(copy);
    }
    for (uintptr_t k = 0; k < WORKERS; k++)
        lladd_thread_join(&writers[k]);
    OK(call_check());
    ck_assert_str_eq(findings, "");
    end();
}
END_TEST

/* ---- progress ------------------------------------------------------------------------------- */

static unsigned inside, reports, stop_at;
static uint64_t last_done;
static char last_what[40];

/* Plain variables: with ThreadSanitizer this shows that the calls come one at a time. */
static int see_progress(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx;
    ck_assert_uint_eq(inside++, 0);
    if (strcmp(what, last_what) != 0)
        last_done = 0;
    (void)snprintf(last_what, sizeof last_what, "%s", what);
    bool ours = strcmp(what, "pages") == 0 || strcmp(what, "objects") == 0;
    ck_assert(!ours || (done >= last_done && done <= all));
    last_done = done;
    reports++;
    inside--;
    return reports == stop_at ? LLADD_TAKEN : 0;
}

static void watch(unsigned at)
{
    progress = see_progress;
    stop_at = at;
    reports = 0;
    last_what[0] = 0;
}

#ifdef LL_TEST_SHORT
enum { STOPS = 2 };
#else
enum { STOPS = 5 };
#endif

START_TEST(progress_is_told_by_one_thread_at_a_time)
{
    begin(8);
    threads = 4;
    watch(0);
    OK(calls[_i]());
    unsigned all = reports;
    ck_assert_uint_gt(all, 4);
    threads = 1;
    watch(0);
    OK(calls[_i]());
    if (_i == RESTORE)
        ck_assert_uint_eq(reports, all);
    /* The function stops the call. What a check reports of its verification cannot. */
    for (unsigned at = 1; at <= all && at <= STOPS; at++) {
        size_t n = store.n;
        threads = 4;
        watch(at);
        ck_assert_int_eq(calls[_i](), LLADD_TAKEN);
        ck_assert_ptr_nonnull(strstr(err.message, "stopped"));
        ck_assert_uint_eq(reports, at);
        ck_assert_uint_eq(store.n, n);
    }
    progress = NULL;
    OK(calls[_i]());
    end();
}
END_TEST

static double seconds(void)
{
    struct timespec t;
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The rate is that of all threads together. */
START_TEST(threads_share_the_rate)
{
    begin(6);
    threads = 4;
    rate = _i == CHECK ? 6 * MIB : 12 * MIB; /* a check reads what is compressed */
    double began = seconds();
    OK(calls[_i]());
    ck_assert(seconds() - began > 0.4);
    end();
}
END_TEST

/* ---- errors --------------------------------------------------------------------------------- */

/* The store fails at each call. Nothing of a backup is left, and the next call succeeds. A backup
 * goes on if only the archive fails that it has asked for a page. A roll reads pages one by one if
 * it cannot read them together, and goes on if that succeeds. */
START_TEST(the_store_fails_at_each_call)
{
    begin(5);
    threads = 4;
    unsigned fired = 0;
    for (uint64_t n = 1, now = 1; now; n += 1 + n / 10, fired++) {
        size_t objects = store.n;
        store.fail_at = store.calls + n;
        store.fired = 0;
        int rc = calls[_i]();
        now = store.fired;
        store.fail_at = 0;
        bool may_survive = _i == BACKUP || _i == ROLL;
        ck_assert_msg(rc == (now ? LLADD_STORE_FAILED : 0) || (rc == 0 && may_survive),
                      "%s, call %u: %d, %s", names[_i], (unsigned)n, rc, err.message);
        if (rc && _i != RESTORE)
            ck_assert_uint_eq(store.n, objects);
    }
    ck_assert_uint_gt(fired, 4);
    OK(call_check());
    ck_assert_uint_eq(checked.damage, 0);
    end();
}
END_TEST

/* Reads and writes of the disk fail. */
START_TEST(the_disk_fails)
{
    begin(5);
    threads = 4;
    for (uint64_t n = 1, now = 1; now; n += 1 + n / 4) {
        struct fault_device *fd = fault_device_new(copy);
        fault_device_only(fd, "pages");
        fault_device_fail(fd, n, FAULT_ANY, EIO, false);
        int rc = restore_into(fault_device_dev(fd));
        now = fault_device_fired(fd);
        ck_assert_msg(now ? rc == LLADD_STORE_FAILED : rc == 0, "call %u: %d, %s", (unsigned)n, rc,
                      err.message);
        ck_assert_uint_eq(fault_device_open_files(fd), 0);
        fault_device_free(fd);
    }
    end();
    /* A backup. */
    struct fault_device *fd = fault_device_new(disk);
    open_shop(fault_device_dev(fd), false);
    for (uint64_t n = 1; n < 7; n++) {
        size_t objects = store.n;
        fault_device_only(fd, "pages");
        fault_device_fail(fd, n, FAULT_PREAD, EIO, false);
        int rc = call_backup();
        ck_assert_msg(fault_device_fired(fd)
                          ? rc == LLADD_STORE_FAILED || rc == LLADD_READ_FAILED
                          : rc == 0,
                      "read %u: %d, %s", (unsigned)n, rc, err.message);
        if (rc)
            ck_assert_uint_eq(store.n, objects);
    }
    fault_device_fail(fd, 0, FAULT_ANY, EIO, false);
    OK(call_backup());
    end();
    fault_device_free(fd);
}
END_TEST

START_TEST(memory_runs_out)
{
    struct fault_alloc fa;
    fault_alloc_init(&fa);
    begin(3);
    threads = 4;
    for (uint64_t n = 1, now = 1; now; n += 1 + n / 6) {
        allocator = &fa.mem;
        fault_alloc_fail(&fa, n, false);
        int rc = calls[_i]();
        now = fault_alloc_fired(&fa);
        ck_assert_msg(rc == (now ? LLADD_NO_MEMORY : 0), "%s, call %u: %d, %s", names[_i],
                      (unsigned)n, rc, err.message);
        ck_assert_uint_eq(fault_alloc_live(&fa), 0);
    }
    allocator = NULL;
    OK(calls[_i]());
    end();
}
END_TEST

static struct memory_object *object_of(const char *what)
{
    char part[100];
    (void)snprintf(part, sizeof part, "%s%s", first_base, what);
    struct memory_object *o = memory_store_find(&store, part);
    ck_assert_ptr_nonnull(o);
    return o;
}

/* A damaged or missing object is named, in the same order as by one thread. */
START_TEST(damaged_objects_are_named)
{
    static const char *const parts[] = {"/pages.0", "/pages.idx", "/log.", "/control"};
    if (_i)
        begin_large();
    else
        begin(4);
    threads = 4;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[200];
        size_t at = i == 1 ? 20 : object_of(parts[i])->len / 2; /* in the index, of a frame */
        memcpy(name, object_of(parts[i])->name, sizeof name);
        object_of(parts[i])->bytes[at] ^= 4;
        ck_assert_int_eq(call_restore(), LLADD_CORRUPT_BACKUP);
        ck_assert_ptr_nonnull(strstr(err.message, name));
        if (!_i) {
            ck_assert_int_eq(call_roll(), LLADD_CORRUPT_BACKUP);
            ck_assert_ptr_nonnull(strstr(err.message, name));
        }
        expect_checked(4);
        ck_assert_ptr_nonnull(strstr(findings, name));
        ck_assert_uint_eq(checked.damage, 1);
        threads = 4;
        object_of(parts[i])->bytes[at] ^= 4;
    }
    /* Several, one of them missing. */
    object_of("/pages.0")->bytes[5] ^= 1;
    object_of("/log.")->bytes[70] ^= 1;
    if (_i)
        memory_store_drop(&store, object_of("/pages.1"));
    expect_checked(4);
    ck_assert_uint_eq(checked.damage, _i ? 3 : 2);
    threads = 4;
    ck_assert_int_eq(call_restore(), LLADD_CORRUPT_BACKUP);
    end();
}
END_TEST

/* The function for findings stops a check. */
static int stop_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx, (void)f;
    return LLADD_TAKEN;
}

START_TEST(wrong_numbers_and_stops)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    begin(2);
    threads = 257;
    for (unsigned i = 0; i < CALLS; i++) {
        size_t n = store.n;
        ck_assert_int_eq(calls[i](), LLADD_BAD_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(err.message, "257 threads"));
        ck_assert_uint_eq(store.n, n);
    }
    threads = 256; /* more than there is work for */
    for (unsigned i = 0; i < CALLS; i++) {
        OK(calls[i]());
        store_log();
    }
    object_of("/pages.0")->bytes[5] ^= 1;
    o.base = first_base;
    o.threads = 4;
    o.finding = stop_finding;
    ck_assert_int_eq(lladd_archive_check(used, &o, NULL, &err), LLADD_TAKEN);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *tc = tcase_create("all"), *tsan = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_checked_fixture(tsan, setup, teardown);
    tcase_add_test(tc, the_result_is_that_of_one_thread);
    tcase_add_test(tc, objects_are_the_same);
    tcase_add_test(tc, a_store_with_a_filter_and_threads);
    tcase_add_test(tc, damaged_pages_are_repaired);
    tcase_add_loop_test(tc, threads_share_the_rate, 0, CALLS);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, CALLS);
    tcase_add_test(tc, the_disk_fails);
    tcase_add_loop_test(tc, memory_runs_out, 0, CALLS);
    tcase_add_loop_test(tc, damaged_objects_are_named, 0, 2);
    tcase_add_test(tc, wrong_numbers_and_stops);
    tcase_add_test(tsan, backups_under_writers);
    tcase_add_loop_test(tsan, progress_is_told_by_one_thread_at_a_time, 0, CALLS);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, tsan);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
