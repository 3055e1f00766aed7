/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backups of a database that another process has open (lladd_backup_outside). Here both are in one
 * process: the backup gets a device of its own, through which it only reads, and the archive takes
 * its steps in the backup's progress function.
 */
#include "beside.h"
#include "ledger.h"
#include "numbered.h"
#include "page_rig.h"

#include "support/fault_device.h"
#include "support/test_world.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct beside beside;

static void set_up(void)
{
    setup();
    beside_init(&beside, disk);
}

/* ---- backups -------------------------------------------------------------------------------- */

/* The other process goes on while the backup waits. */
static int archive_goes_on(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    uint64_t calls = store.calls, fail_at = store.fail_at;
    (void)ctx;
    ck_assert_uint_le(done, all);
    if (strcmp(what, "archive") == 0) {
        store.fail_at = 0;
        store_log();
        store.calls = calls;
        store.fail_at = fail_at;
    }
    return 0;
}

static int try_outside(struct lladd_device *dev, lladd_ship_progress_fn *progress,
                       struct lladd_backup_info *info)
{
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    b.progress = progress;
    o.backup = &b;
    if (info)
        *info = (struct lladd_backup_info){.struct_size = sizeof *info};
    return lladd_backup_outside(dev, &store.base, &o, info, &err);
}

static struct lladd_backup_info outside(void)
{
    struct lladd_backup_info info;
    OK(try_outside(&beside.base, archive_goes_on, &info));
    ck_assert_uint_le(info.from.v, info.end.v);
    return info;
}

/* The backup is refused with this error, and nothing of it stays. */
static void refused(struct lladd_device *dev, lladd_ship_progress_fn *progress, int code,
                    const char *text)
{
    int rc = try_outside(dev, progress, NULL);
    ck_assert_msg(rc == code, "%s: %s", lladd_code_name(rc), err.message);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    ck_assert_ptr_null(memory_store_find(&store, "base/"));
}

static void new_copy(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

/* Restores, and checks and closes the copy. */
static void check_restored(enum lladd_target_kind kind, uint32_t timeline, unsigned doubt)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct shop other;
    t.kind = kind;
    t.timeline = timeline;
    o.target = &t;
    new_copy();
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    shop_verify(copy);
    shop_open(&other, copy, LLADD_OPT_MUST_EXIST);
    shop_check(&other, doubt, gens);
    shop_close(&other);
}

static void drop_all(const char *part)
{
    struct memory_object *o;
    while ((o = memory_store_find(&store, part)) != NULL)
        memory_store_drop(&store, o);
}

START_TEST(a_backup_beside_the_archive)
{
    open_shop(disk, false);
    store_log(); /* claims the store */
    work(12);
    struct lladd_txn *prepared = shop_prepare(&shop, 100);
    struct lladd_backup_info info = outside();
    ck_assert_uint_eq(info.damaged_pages, 0);
    ck_assert_uint_eq(info.timeline, 0);
    ck_assert_uint_eq(info.page_size, PAGE);
    work(4);
    ck_assert_int_eq(lladd_commit(prepared), 0);
    store_log();
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 1);
    for (unsigned k = 0; k < WORKERS; k++)
        ck_assert_uint_eq(gens[k], 3);
    check_restored(LLADD_TO_END, 0, 0);
    for (unsigned k = 0; k < WORKERS; k++)
        ck_assert_uint_eq(gens[k], 4);
    struct lladd_check_info checked = {.struct_size = sizeof checked};
    OK(lladd_archive_check(&store.base, NULL, &checked, &err));
    ck_assert_uint_eq(checked.damage, 0);
    ck_assert_uint_ge(checked.restored.v, info.end.v);
}
END_TEST

/* Between the reads transactions write in bulk, reuse freed pages and commit, checkpoints are taken
 * and the log is truncated. */
static void at_every_read(uint64_t read)
{
    if (read % 3 == 0 && read < 200)
        shop_work(&shop, (unsigned)(read / 3 % WORKERS));
    if (read % 10 == 0 && read < 200)
        forget_log();
}

START_TEST(pages_change_at_every_read)
{
    open_shop(disk, false);
    work(40);
    forget_log();
    beside.on_read = at_every_read;
    struct lladd_backup_info info = outside();
    ck_assert_uint_gt(beside.reads, 60);
    ck_assert_uint_eq(info.damaged_pages, 0);
    ck_assert_uint_gt(stats().log_oldest, info.from.v);
    work(5);
    store_log();
    close_shop(true);
    check_restored(LLADD_TO_BASE, 0, 0);
    ck_assert_uint_gt(gens[0] + gens[1] + gens[2] + gens[3], 50);
    uint64_t at_end = gens[0];
    check_restored(LLADD_TO_END, 0, 0);
    ck_assert_uint_gt(gens[0], at_end);
}
END_TEST

/* From the backup each later commit can be restored. */
static struct run run;

static int run_goes_on(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "archive") == 0)
        run_archive(&run, 0);
    return 0;
}

START_TEST(every_later_commit_is_a_target)
{
    struct test_world world;
    struct lladd_backup_info info;
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    static struct run opened;
    unsigned tried = 0;
    test_world_init(&world, 5);
    run = (struct run){.store = &store, .segment = 1 << 13, .world = &world.world};
    run_open(&run, disk, 0);
    run_archive(&run, 0);
    run_work_to(&run, 20);
    OK(lladd_checkpoint(run.db, &err));
    run_work_to(&run, 25);
    OK(try_outside(&beside.base, run_goes_on, &info));
    run_work_to(&run, 60);
    run_archive(&run, 0);
    o.target = &t;
    t.kind = LLADD_TO_LSN;
    for (uint64_t n = 25; n <= 60; n++) {
        t.lsn = lladd_lsn_of(run.end[n]);
        if (t.lsn.v < info.end.v)
            continue;
        new_copy();
        OK(lladd_restore(&store.base, &o, copy, NULL, &err));
        opened = (struct run){.segment = run.segment};
        run_open(&opened, copy, LLADD_OPT_MUST_EXIST);
        run_check(&opened, &run, n);
        run_kill(&opened);
        tried++;
    }
    ck_assert_uint_gt(tried, 30);
    run_close(&run);
}
END_TEST

/* ---- pages that cannot be read -------------------------------------------------------------- */

START_TEST(a_torn_page_is_read_again)
{
    open_with_pages();
    beside.torn = changed_page;
    beside.times = 3;
    ck_assert_uint_eq(outside().damaged_pages, 0);
    ck_assert_uint_eq(beside.times, 0);
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 0);
}
END_TEST

START_TEST(a_page_in_use_that_stays_unreadable_is_counted)
{
    open_with_pages();
    beside.torn = changed_page;
    beside.times = UINT64_MAX;
    ck_assert_uint_eq(outside().damaged_pages, 1);
    beside.torn = bulk_page;
    ck_assert_uint_eq(outside().damaged_pages, 1);
    close_shop(false);
}
END_TEST

/* The page was formatted after the last checkpoint, or it has no contents yet. A free page, and a
 * raw one, have no checksum that could be wrong. */
START_TEST(an_unreadable_page_that_need_not_be_read)
{
    struct lladd_txn *txn;
    lladd_pageno made, blank, freed, raw;
    static unsigned char bytes[PAGE];
    open_shop(disk, false);
    work(4);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, 1, LLADD_EXTENT_RAW, &raw));
    TXN(lladd_bulk_write(txn, raw, 1, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    TXN(lladd_page_alloc(txn, &freed));
    TXN(lladd_bytes_format(txn, freed));
    ck_assert_int_eq(lladd_commit(txn), 0);
    forget_log();
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_page_free(txn, freed));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_page_alloc(txn, &made));
    TXN(lladd_bytes_format(txn, made));
    TXN(lladd_page_alloc(txn, &blank));
    ck_assert_int_eq(lladd_commit(txn), 0);
    const uint64_t pages[] = {raw.v, blank.v, freed.v, made.v};
    for (unsigned i = 0; i < 4; i++) {
        beside.torn = pages[i];
        beside.times = UINT64_MAX;
        ck_assert_msg(outside().damaged_pages == 0, "page number %u", i);
        ck_assert_uint_ne(beside.times, UINT64_MAX);
        check_restored(LLADD_TO_BASE, 0, 0);
        drop_all("base/"); /* the next backup would compare the raw page */
    }
    close_shop(false);
}
END_TEST

/* ---- pages written in bulk ------------------------------------------------------------------ */

/* The backup ends after pages were taken, and before they get contents. They have the bytes of
 * their earlier use, which was raw. The cases are a backup from outside and a crash: no
 * verification takes the pages for damaged. */
START_TEST(pages_taken_at_the_end_have_no_contents)
{
    enum { N = 5 };
    static unsigned char raw[N * PAGE];
    struct lladd_txn *txn;
    lladd_pageno first, again;
    open_shop(disk, false);
    work(4);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, N, LLADD_EXTENT_RAW, &first));
    memset(raw, 0x0c, sizeof raw);
    TXN(lladd_bulk_write(txn, first, N, NULL, raw));
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_free(txn, first, N));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_checkpoint(shop.db, &err));
    store_log();
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, N, LLADD_EXTENT_PAGED, &again));
    ck_assert_uint_eq(again.v, first.v);
    OK(lladd_log_force(shop.db, lladd_lsn_of(stats().log_tail - 1), &err));
    if (_i == 0) {
        ck_assert_uint_eq(outside().damaged_pages, 0);
        check_restored(LLADD_TO_BASE, 0, 0);
    } else {
        ledger_copy(disk, copy);
        shop_verify(copy);
    }
    ck_assert_int_eq(lladd_abort(txn), 0);
    close_shop(false);
}
END_TEST

static void write_in_bulk(uint64_t read)
{
    if (read == 1)
        shop_work(&shop, 0);
}

static int lose_the_spool(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    if (strcmp(what, "archive") == 0) {
        archive_goes_on(ctx, what, done, all);
        if (memory_store_find(&store, "/bulk/"))
            memory_store_drop(&store, last_object("/bulk/"));
    }
    return 0;
}

START_TEST(a_missing_spool_of_a_commit_during_the_copy)
{
    open_shop(disk, false);
    work(4);
    store_log();
    beside.on_read = write_in_bulk;
    refused(&beside.base, lose_the_spool, LLADD_OUT_OF_RANGE, "wrote in bulk");
    beside.on_read = NULL;
    outside(); /* these pages were written before the copy begins */
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 0);
    ck_assert_uint_eq(gens[0], 2);
}
END_TEST

/* ---- the archive ---------------------------------------------------------------------------- */

static int stops(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)what, (void)done, (void)all;
    return 0;
}

static int cancels(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    return strcmp(what, "archive") == 0 ? 77 : 0;
}

static int ends(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "archive") == 0 && archive)
        close_shop(true);
    return 0;
}

static int archives_and_ends(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    if (archive && strcmp(what, "archive") == 0)
        archive_goes_on(ctx, what, done, all);
    return ends(ctx, what, done, all);
}

static uint64_t hours;

static uint64_t hour(void *ctx)
{
    (void)ctx;
    return hours++ * UINT64_C(3600000000000);
}

static void log_more(uint64_t read)
{
    if (read == 2)
        work(1);
}

/* `_i`: the archive stops before the copy begins, or while the pages are copied. */
START_TEST(an_archive_that_does_not_go_on)
{
    const struct lladd_environment clock = {.now_ns = hour};
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    open_shop(disk, false);
    work(4);
    store_log();
    if (_i)
        beside.on_read = log_more;
    else
        work(1);
    b.world = &clock;
    b.progress = stops;
    o.backup = &b;
    ck_assert_int_eq(lladd_backup_outside(&beside.base, &store.base, &o, NULL, &err),
                     LLADD_TIMEOUT);
    ck_assert_msg(strstr(err.message, "archived nothing") != NULL, "%s", err.message);
    ck_assert_ptr_null(memory_store_find(&store, "base/"));
    work(1);
    beside.reads = 0;
    refused(&beside.base, cancels, 77, "has stopped the backup");
    beside.reads = 0;
    refused(&beside.base, ends, LLADD_BAD_STATE, "has ended");
    refused(&beside.base, ends, LLADD_BAD_STATE, "no process has the database open");
}
END_TEST

START_TEST(a_process_that_ends_after_the_log_is_stored)
{
    open_shop(disk, false);
    work(4);
    store_log();
    beside.on_read = log_more;
    OK(try_outside(&beside.base, archives_and_ends, NULL));
    ck_assert_ptr_null(archive);
    check_restored(LLADD_TO_BASE, 0, 0);
}
END_TEST

START_TEST(a_gap_in_the_archive)
{
    open_shop(disk, false);
    OK(lladd_pin_set(shop.db, "test", lladd_lsn_of(stats().log_oldest), &err));
    for (unsigned i = 0; i < 8; i++) {
        work(6);
        store_log();
        OK(lladd_checkpoint(shop.db, &err));
    }
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, ".seg") && n++ == 2)
            memory_store_drop(&store, &store.objects[i]);
    ck_assert_uint_gt(n, 3);
    refused(&beside.base, archive_goes_on, LLADD_OUT_OF_RANGE, "lacks log");
    OK(lladd_pin_clear(shop.db, "test", &err));
    work(12);
    forget_log(); /* the backup does not need that log any more */
    ck_assert_uint_gt(stats().log_oldest, 200000);
    outside();
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 0);
}
END_TEST

/* ---- copies of the database ----------------------------------------------------------------- */

START_TEST(two_timelines)
{
    struct lladd_device *restored;
    open_shop(disk, false);
    store_log();
    work(8);
    outside();
    work(4);
    store_log();
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 0); /* timeline 1 */
    restored = copy;
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    beside_init(&beside, restored);
    open_shop(restored, false);
    store_log();
    for (unsigned i = 0; i < 3; i++)
        shop_work(&shop, 0);
    struct lladd_backup_info info = outside();
    ck_assert_uint_eq(info.timeline, 1);
    shop_work(&shop, 0);
    store_log();
    close_shop(false);
    open_shop(disk, false); /* the original goes on, too */
    work(8);
    store_log();
    close_shop(false);
    check_restored(LLADD_TO_BASE, 0, 0);
    ck_assert_uint_eq(gens[0], 5);
    ck_assert_uint_eq(gens[1], 2);
    check_restored(LLADD_TO_END, 1, 0);
    ck_assert_uint_eq(gens[0], 6);
    check_restored(LLADD_TO_END, 0, 0);
    ck_assert_uint_eq(gens[0], 6); /* of the last backup: timeline 1 */
    lladd_device_close(restored);
}
END_TEST

static void copy_takes_over(uint64_t read)
{
    struct lladd_archive *mine = archive;
    struct shop own = shop;
    if (read != 2)
        return;
    open_shop(copy, false);
    work(4);
    store_log();
    close_shop(true);
    archive = mine;
    shop = own;
}

/* A copy of the files archives into the same store, since the pages are copied or since before. So
 * the archived log is not the log of the pages. */
START_TEST(a_copy_that_archives)
{
    open_shop(disk, false);
    work(4);
    store_log();
    ledger_copy(disk, copy);
    beside.on_read = copy_takes_over;
    refused(&beside.base, stops, LLADD_DIVERGED, "another copy");
    ck_assert_uint_ge(beside.reads, 2);
    beside.on_read = NULL;
    refused(&beside.base, stops, LLADD_DIVERGED, "another copy");
    close_shop(true);
}
END_TEST

START_TEST(what_cannot_be_backed_up)
{
    struct lladd_file *file;
    static struct memory_store other;
    ck_assert_int_eq(lladd_backup_outside(NULL, &store.base, NULL, NULL, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_backup_outside(disk, NULL, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    open_shop(disk, false);
    work(2);
    refused(&beside.base, stops, LLADD_BAD_STATE, "does not archive it");
    store_log();
    memory_store_init(&other);
    int rc = lladd_backup_outside(&beside.base, &other.base, NULL, NULL, &err);
    ck_assert_int_eq(rc, LLADD_BAD_STATE);
    ck_assert_uint_eq(other.n, 0);
    memory_store_free(&other);
    ck_assert_int_eq(disk->ops->open(disk, "files/index", LLADD_OPEN_CREATE, &file), 0);
    ck_assert_int_eq(disk->ops->close(disk, file), 0);
    refused(&beside.base, stops, LLADD_BAD_STATE, "files of an extension");
    close_shop(false);
    /* another database */
    open_shop(copy, false);
    beside_init(&beside, copy);
    refused(&beside.base, stops, LLADD_OTHER_DATABASE, "another database");
    close_shop(true);
}
END_TEST

/* ---- failures ------------------------------------------------------------------------------- */

/* `n`: number of the call that has failed. After some of these the next backup is made. */
static void check_after_failure(uint64_t n, int rc, bool fired, bool gone)
{
    ck_assert_msg(rc == 0 || fired, "%s", err.message);
    if (rc && gone)
        ck_assert_ptr_null(memory_store_find(&store, "base/"));
    if (rc && gone && n % 16)
        return;
    if (rc)
        OK(try_outside(&beside.base, archive_goes_on, NULL));
    check_restored(LLADD_TO_BASE, 0, 0);
    ck_assert_uint_eq(gens[0], 2);
    drop_all("base/");
    drop_all("t00000001/");
}

/* Each call fails, alone or with all later ones, before or after it has had its effect. */
START_TEST(the_store_fails_at_each_call)
{
    bool fired = true, lost = _i & 1, on = _i & 2;
    open_shop(disk, false);
    work(8);
    forget_log();
    uint64_t n = 0;
    while (fired) {
        store.calls = store.fired = 0;
        store.fail_at = ++n;
        store.fail_on = on;
        store.lost = lost;
        int rc = try_outside(&beside.base, archive_goes_on, NULL);
        fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert(rc == 0 || rc == LLADD_STORE_FAILED);
        check_after_failure(n, rc, fired, !on);
    }
    ck_assert_uint_gt(n, 20);
    close_shop(false);
}
END_TEST

START_TEST(the_disk_fails_at_each_call)
{
    bool fired = true;
    open_shop(disk, false);
    work(8);
    forget_log();
    struct fault_device *fd = fault_device_new(disk); /* knows the files that there are */
    uint64_t n = 0;
    while (fired) {
        fault_device_fail(fd, ++n, FAULT_ANY, EIO, _i);
        int rc = try_outside(fault_device_dev(fd), archive_goes_on, NULL);
        fired = fault_device_fired(fd) != 0;
        fault_device_fail(fd, 0, FAULT_ANY, EIO, false);
        ck_assert_uint_eq(fault_device_open_files(fd), 0);
        check_after_failure(n, rc, fired, true);
    }
    ck_assert_uint_gt(n, 20);
    close_shop(false);
    fault_device_free(fd);
}
END_TEST

static int store_ends(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "archive") == 0)
        store.fail_at = store.calls + 1;
    return 0;
}

START_TEST(the_store_fails_during_the_wait)
{
    open_shop(disk, false);
    work(4);
    store_log();
    beside.on_read = log_more;
    refused(&beside.base, store_ends, LLADD_STORE_FAILED, "told to fail");
    store.fail_at = 0;
    close_shop(false);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

/* The store is in memory, so the backup permits the workers a number of generations. */
static uint32_t stop, permits;

static void *write_when_permitted(void *arg)
{
    unsigned k = (unsigned)(uintptr_t)arg;
    while (!lladd_atomic_load32(&stop)) {
        uint32_t have = lladd_atomic_load32(&permits);
        if (have && lladd_atomic_cas32(&permits, &have, have - 1))
            shop_work(&shop, k);
        else
            lladd_yield();
    }
    return NULL;
}

static int permit(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    enum { AT_ONCE = 24 };
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "log") != 0)
        lladd_atomic_store32(&permits, AT_ONCE);
    return 0;
}

#ifdef LL_TEST_SHORT
enum { BACKUPS = 3 };
#else
enum { BACKUPS = 5 };
#endif

/* Eight threads write, a thread archives, and up to three make the backup. LLADD_NIGHTLY: 100
 * backups. */
START_TEST(backups_beside_writers)
{
    unsigned rounds = getenv("LLADD_NIGHTLY") ? 100 : BACKUPS;
    struct lladd_thread threads[SHOP_WORKERS] = {{0}};
    uint64_t before[SHOP_WORKERS] = {0};
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    b.progress = permit;
    o.backup = &b;
    open_shop_as(disk, 0, false);
    struct lladd_store *locked = archive->store; /* several threads may use it */
    while (!status().stored.v)
        lladd_yield();
    struct lladd_txn *prepared = shop_prepare(&shop, 100);
    stop = permits = 0;
    for (uintptr_t k = 0; k < SHOP_WORKERS; k++)
        ck_assert_int_eq(lladd_thread_start(&threads[k], write_when_permitted, (void *)k), 0);
    for (unsigned i = 0; i < rounds; i++) {
        struct lladd_backup_info info = {.struct_size = sizeof info};
        struct shop other;
        b.threads = 1 + i % 3;
        OK(lladd_backup_outside(disk, locked, &o, &info, &err));
        ck_assert_uint_eq(info.damaged_pages, 0);
        new_copy();
        OK(lladd_restore(locked, NULL, copy, NULL, &err));
        shop_verify(copy);
        shop_open(&other, copy, LLADD_OPT_MUST_EXIST);
        shop_check(&other, 1, gens);
        shop_close(&other);
        for (unsigned k = 0; k < SHOP_WORKERS; k++) {
            ck_assert_uint_ge(gens[k], before[k]);
            before[k] = gens[k];
        }
    }
    lladd_atomic_store32(&stop, 1);
    for (unsigned k = 0; k < SHOP_WORKERS; k++)
        lladd_thread_join(&threads[k]);
    ck_assert_int_eq(lladd_commit(prepared), 0);
    close_shop(false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("outside");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, set_up, teardown);
    tcase_add_checked_fixture(threads, set_up, teardown);
    tcase_add_test(tc, a_backup_beside_the_archive);
    tcase_add_test(tc, pages_change_at_every_read);
    tcase_add_test(tc, every_later_commit_is_a_target);
    tcase_add_test(tc, a_torn_page_is_read_again);
    tcase_add_test(tc, a_page_in_use_that_stays_unreadable_is_counted);
    tcase_add_test(tc, an_unreadable_page_that_need_not_be_read);
    tcase_add_loop_test(tc, pages_taken_at_the_end_have_no_contents, 0, 2);
    tcase_add_test(tc, a_missing_spool_of_a_commit_during_the_copy);
    tcase_add_loop_test(tc, an_archive_that_does_not_go_on, 0, 2);
    tcase_add_test(tc, a_process_that_ends_after_the_log_is_stored);
    tcase_add_test(tc, a_gap_in_the_archive);
    tcase_add_test(tc, two_timelines);
    tcase_add_test(tc, a_copy_that_archives);
    tcase_add_test(tc, what_cannot_be_backed_up);
    tcase_add_loop_test(tc, the_store_fails_at_each_call, 0, 4);
    tcase_add_loop_test(tc, the_disk_fails_at_each_call, 0, 2);
    tcase_add_test(tc, the_store_fails_during_the_wait);
    tcase_add_test(threads, backups_beside_writers);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
