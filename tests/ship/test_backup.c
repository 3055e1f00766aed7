/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backups and restores: of a database that is used meanwhile, with a store that fails at each of
 * its calls, and of objects that are damaged.
 */
#include "calls.h"
#include "memory_store.h"
#include "shop.h"

#include "support/fault_device.h"

#include <check.h>
#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct shop shop;
static struct lladd_error err;

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memory_store_init(&store);
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

static void new_copy(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static struct lladd_backup_info backed_up(void)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    OK(lladd_backup(shop.db, &store.base, NULL, &info, &err));
    return info;
}

/* Opens the copy, and checks and closes it. */
static void check_copy(unsigned doubt, uint64_t gen[SHOP_WORKERS])
{
    struct shop other;
    shop_verify(copy);
    shop_open(&other, copy, LLADD_OPT_MUST_EXIST);
    shop_check(&other, doubt, gen);
    shop_close(&other);
}

/* ---- a quiet database ----------------------------------------------------------------------- */

START_TEST(a_backup_has_what_was_committed)
{
    uint64_t gen[SHOP_WORKERS];
    struct lladd_backup_info info = {.struct_size = sizeof info};
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 20; i++)
        shop_work(&shop, i % 3);
    struct lladd_txn *prepared = shop_prepare(&shop, 100);
    struct lladd_backup_info made = backed_up();
    ck_assert_uint_eq(made.damaged_pages, 0);
    ck_assert_uint_le(made.from.v, made.end.v);
    shop_work(&shop, 0); /* not in the backup */
    ck_assert_int_eq(lladd_commit(prepared), 0);
    shop_close(&shop);
    OK(lladd_restore(&store.base, NULL, copy, &info, &err));
    ck_assert_str_eq(info.name, made.name);
    ck_assert_uint_eq(info.end.v, made.end.v);
    check_copy(1, gen);
    ck_assert_uint_eq(gen[0], 7);
    ck_assert_uint_eq(gen[2], 6);
    /* What was prepared is in doubt, and its decision still counts. */
    shop_open(&shop, copy, LLADD_OPT_NO_THREADS);
    shop_resolve(&shop, 100);
    shop_work(&shop, 0);
    shop_close(&shop);
    shop_verify(copy);
}
END_TEST

/* The log of the copy has another incarnation, also if copies are made of copies. */
START_TEST(each_restore_has_a_timeline_of_its_own)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    unsigned char control[256];
    struct lladd_file *file;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    shop_work(&shop, 1);
    ck_assert_uint_eq(backed_up().timeline, 0);
    shop_close(&shop);
    for (unsigned i = 1; i <= 3; i++) {
        new_copy();
        OK(lladd_restore(&store.base, NULL, copy, &info, &err));
        ck_assert_int_eq(copy->ops->open(copy, "control", LLADD_OPEN_READ_ONLY, &file), 0);
        ck_assert_int_eq(copy->ops->pread(copy, file, control, sizeof control, 0), 256);
        ck_assert_int_eq(copy->ops->close(copy, file), 0);
        ck_assert_uint_eq(control[68], i);
    }
    shop_open(&shop, copy, LLADD_OPT_NO_THREADS);
    shop_check(&shop, 0, NULL);
    shop_work(&shop, 1);
    info = backed_up();
    ck_assert_uint_eq(info.timeline, 3);
    shop_close(&shop);
    ck_assert_ptr_nonnull(memory_store_find(&store, "t00000003/history"));
}
END_TEST

/* After each crash the log goes on in a new segment; its header says where the log before it was
 * cut. The backup has that header, also if it ends where the segment begins. */
START_TEST(a_backup_after_crashes)
{
    uint64_t gen[SHOP_WORKERS];
    for (unsigned i = 0; i < 5; i++) {
        shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
        if (i < 3)
            shop_work(&shop, 0);
        backed_up();
        shop_kill(&shop);
        new_copy();
        OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
        check_copy(0, gen);
        ck_assert_uint_eq(gen[0], i < 3 ? i + 1 : 3);
    }
}
END_TEST

/* Neither the log nor the copy keeps anything of the backup: no pin, no hold. */
START_TEST(a_backup_leaves_no_pin)
{
    struct lladd_pinner who;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    shop_work(&shop, 1);
    backed_up();
    OK(lladd_log_pinner(shop.db, &who, &err));
    ck_assert_str_ne(who.kind, "hold");
    shop_close(&shop);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    shop_open(&shop, copy, LLADD_OPT_NO_THREADS);
    OK(lladd_log_pinner(shop.db, &who, &err));
    ck_assert_str_ne(who.kind, "pin");
    ck_assert_str_ne(who.kind, "hold");
    shop_close(&shop);
}
END_TEST

/* A database is opened on a device over the store, without a restore. */
START_TEST(a_backup_can_be_looked_at)
{
    struct lladd_device *device, *overlay;
    uint64_t gen[SHOP_WORKERS];
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 6; i++)
        shop_work(&shop, i % 2);
    backed_up();
    shop_close(&shop);
    OK(lladd_store_device(&store.base, NULL, &device, &err));
    shop_verify(device);
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    shop_open(&shop, overlay, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS);
    shop_check(&shop, 0, gen);
    ck_assert_uint_eq(gen[1], 3);
    shop_kill(&shop);
    ck_assert_int_eq(lladd_store_device_error(device, NULL), 0);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}
END_TEST

/* ---- under writers -------------------------------------------------------------------------- */

/* Workers run beside the backup. The backup permits them a number of generations: the database is
 * small and the workers are fast, so without this limit every pass could find its pages written
 * again, and the backup would not end. */
static struct lladd_mutex permits_mutex;
static struct lladd_cond permitted;
static unsigned permits, granted;
static bool stop;

static void *work(void *arg)
{
    unsigned k = (unsigned)(uintptr_t)arg;
    for (;;) {
        lladd_mutex_lock(&permits_mutex);
        while (!stop && !permits)
            lladd_cond_wait(&permitted, &permits_mutex);
        bool end = stop;
        permits -= permits > 0;
        lladd_mutex_unlock(&permits_mutex);
        if (end)
            return NULL;
        shop_work(&shop, k);
    }
}

static int permit(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    enum { A_BACKUP = 100, AT_ONCE = 6 };
    (void)ctx, (void)what, (void)done, (void)all;
    lladd_mutex_lock(&permits_mutex);
    if (granted < A_BACKUP) {
        permits += AT_ONCE;
        granted += AT_ONCE;
        lladd_cond_broadcast(&permitted);
    }
    lladd_mutex_unlock(&permits_mutex);
    return 0;
}

#ifdef LL_TEST_SHORT
enum { BACKUPS = 3 };
#else
enum { BACKUPS = 6 };
#endif

/* Each backup is taken while all workers commit, and two transactions are prepared. LLADD_NIGHTLY:
 * 100 backups. */
START_TEST(backups_under_writers)
{
    unsigned rounds = getenv("LLADD_NIGHTLY") ? 100 : BACKUPS;
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_thread threads[SHOP_WORKERS] = {{0}};
    struct lladd_txn *prepared[2];
    uint64_t before[SHOP_WORKERS] = {0}, gen[SHOP_WORKERS];
    ck_assert_int_eq(lladd_mutex_init(&permits_mutex, LLADD_RANK_LEAF, "permits"), 0);
    ck_assert_int_eq(lladd_cond_init(&permitted), 0);
    stop = false;
    permits = 0;
    o.progress = permit;
    shop_open(&shop, disk, 0);
    for (unsigned k = 0; k < SHOP_WORKERS; k++)
        shop_work(&shop, k);
    prepared[0] = shop_prepare(&shop, 100);
    for (uintptr_t k = 0; k < SHOP_WORKERS; k++)
        ck_assert_int_eq(lladd_thread_start(&threads[k], work, (void *)k), 0);
    prepared[1] = shop_prepare(&shop, 101);
    for (unsigned i = 0; i < rounds; i++) {
        struct lladd_backup_info info = {.struct_size = sizeof info};
        lladd_mutex_lock(&permits_mutex);
        granted = 0;
        lladd_mutex_unlock(&permits_mutex);
        OK(lladd_backup(shop.db, &store.base, &o, &info, &err));
        ck_assert_uint_eq(info.damaged_pages, 0);
        new_copy();
        OK(lladd_restore(&store.base, NULL, copy, &info, &err));
        check_copy(2, gen);
        for (unsigned k = 0; k < SHOP_WORKERS; k++) {
            ck_assert_uint_ge(gen[k], before[k]);
            before[k] = gen[k];
        }
    }
    lladd_mutex_lock(&permits_mutex);
    stop = true;
    lladd_cond_broadcast(&permitted);
    lladd_mutex_unlock(&permits_mutex);
    for (unsigned k = 0; k < SHOP_WORKERS; k++)
        lladd_thread_join(&threads[k]);
    ck_assert_int_eq(lladd_commit(prepared[0]), 0);
    ck_assert_int_eq(lladd_commit(prepared[1]), 0);
    shop_check(&shop, 0, gen);
    for (unsigned k = 0; k < SHOP_WORKERS; k++)
        ck_assert_uint_ge(gen[k], before[k]);
    shop_close(&shop);
    lladd_cond_destroy(&permitted);
    lladd_mutex_destroy(&permits_mutex);
}
END_TEST

/* At each place where the copier reports progress, transactions write in bulk, reuse freed pages,
 * and commit or abort; checkpoints are taken. So pages change that the copier has passed, and pages
 * that it has not reached. */
struct busy {
    unsigned calls;
    uint64_t gen;
};

static int do_work(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    struct busy *b = ctx;
    ck_assert(strcmp(what, "pages") == 0 || strcmp(what, "log") == 0);
    ck_assert_uint_le(done, all);
    if (b->calls++ % 2 == 0 && b->calls < 30) {
        shop_work(&shop, b->calls / 2 % 3);
        if (b->calls % 3 == 0)
            OK(lladd_checkpoint(shop.db, &err));
    }
    return 0;
}

START_TEST(pages_change_at_every_step)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct busy busy = {0};
    uint64_t gen[SHOP_WORKERS];
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 60; i++)
        shop_work(&shop, i % SHOP_WORKERS);
    o.progress = do_work;
    o.progress_ctx = &busy;
    o.label = "under work";
    OK(lladd_backup(shop.db, &store.base, &o, &info, &err));
    ck_assert_uint_gt(busy.calls, 3);
    ck_assert_str_eq(info.label, "under work");
    shop_kill(&shop);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    check_copy(0, gen);
    /* Workers 0 to 2 had 24 generations before the backup: the copy has later ones, too. */
    ck_assert_uint_gt(gen[0] + gen[1] + gen[2], 24);
}
END_TEST

/* ---- failures of the store ------------------------------------------------------------------ */

/* A call of the store fails, each in turn, alone or with all later ones, before or after it has had
 * its effect. The backup then fails, or succeeds although a reply was lost; afterwards the store
 * lists no incomplete backup, and the next backup and its restore succeed. */
START_TEST(the_store_fails_at_each_call_of_a_backup)
{
    bool lost = _i & 1, on = _i & 2;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 4; i++)
        shop_work(&shop, i % 2);
    for (uint64_t n = 1;; n++) {
        struct lladd_backup_info info = {.struct_size = sizeof info}, other = info;
        memory_store_free(&store);
        memory_store_init(&store);
        store.fail_at = n;
        store.fail_on = on;
        store.lost = lost;
        int rc = lladd_backup(shop.db, &store.base, NULL, &info, &err);
        bool fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert(rc == 0 || (fired && rc == LLADD_STORE_FAILED));
        if (rc && !on) /* what was stored is gone */
            ck_assert_ptr_null(memory_store_find(&store, "manifest"));
        if (rc)
            OK(lladd_backup(shop.db, &store.base, NULL, &info, &err));
        new_copy();
        OK(lladd_restore(&store.base, NULL, copy, &other, &err));
        check_copy(0, NULL);
        if (!fired)
            break;
    }
    shop_close(&shop);
}
END_TEST

START_TEST(the_store_or_the_disk_fails_at_each_call_of_a_restore)
{
    bool of_disk = _i & 1, crash = _i & 2;
    uint64_t n = 0;
    bool fired = true;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 4; i++)
        shop_work(&shop, i % 2);
    backed_up();
    shop_close(&shop);
    while (fired) {
        struct lladd_options options = LLADD_OPTIONS_INIT;
        struct lladd_db *db;
        new_copy();
        struct fault_device *fd = fault_device_new(copy);
        n++;
        store.calls = store.fired = 0;
        store.fail_at = of_disk ? 0 : n;
        if (of_disk)
            fault_device_fail(fd, n, FAULT_ANY, EIO, crash);
        int rc = lladd_restore(&store.base, NULL, fault_device_dev(fd), NULL, &err);
        fired = of_disk ? fault_device_fired(fd) != 0 : store.fired != 0;
        store.fail_at = 0;
        ck_assert(rc == 0 || fired);
        const struct fault_crash how = {.mode = crash ? FAULT_POWER : FAULT_KILL};
        fault_device_power_cycle(fd, &how);
        options.device = copy;
        options.flags = LLADD_OPT_MUST_EXIST;
        if (rc) { /* not opened, until the restore was repeated */
            rc = lladd_open(NULL, &options, &db, &err);
            if (rc) {
                rc = lladd_restore(&store.base, NULL, copy, NULL, &err);
                ck_assert_msg(rc == 0, "call %u: %s", (unsigned)n, err.message);
            } else { /* the restore had only to remove its note */
                lladd_db_kill(db);
            }
        }
        fault_device_free(fd);
        check_copy(0, NULL);
    }
    ck_assert_uint_gt(n, 10);
}
END_TEST

/* ---- damage --------------------------------------------------------------------------------- */

static bool names(const char *object)
{
    return strstr(err.message, strrchr(object, '/') + 1) != NULL;
}

/* Each object of a backup is damaged, cut and removed: the restore is refused, and names the
 * object. After that the whole one is restored. */
START_TEST(damage_of_each_object_is_named)
{
    unsigned tried = 0;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    for (unsigned i = 0; i < 4; i++)
        shop_work(&shop, i % 2);
    backed_up();
    shop_close(&shop);
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        if (strncmp(o->name, "base/", 5) != 0 || strstr(o->name, "/begun"))
            continue;
        size_t step = o->len / 7 + 1, len = o->len;
        for (size_t at = 0; at < len; at += step, tried++) {
            o->bytes[at] ^= 0x10;
            new_copy();
            ck_assert_int_eq(lladd_restore(&store.base, NULL, copy, NULL, &err),
                             LLADD_CORRUPT_BACKUP);
            ck_assert_msg(names(o->name), "%s: %s", o->name, err.message);
            o->bytes[at] ^= 0x10;
        }
        o->len = len - 1;
        new_copy();
        ck_assert_int_eq(lladd_restore(&store.base, NULL, copy, NULL, &err), LLADD_CORRUPT_BACKUP);
        ck_assert_msg(names(o->name), "%s: %s", o->name, err.message);
        o->len = len;
        char kept = o->name[0];
        o->name[0] = '#';
        new_copy();
        int rc = lladd_restore(&store.base, NULL, copy, NULL, &err);
        if (strstr(o->name, "/manifest")) {
            ck_assert_int_eq(rc, LLADD_NOT_FOUND);
        } else {
            ck_assert_int_eq(rc, LLADD_CORRUPT_BACKUP);
            ck_assert_msg(names(o->name), "%s: %s", o->name, err.message);
        }
        o->name[0] = kept;
    }
    ck_assert_uint_gt(tried, 20);
    new_copy();
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    check_copy(0, NULL);
}
END_TEST

static void damage(uint64_t page)
{
    struct lladd_file *file;
    unsigned char bytes[64];
    memset(bytes, 0x5a, sizeof bytes);
    struct lladd_iovec piece = {bytes, sizeof bytes};
    ck_assert_int_eq(disk->ops->open(disk, "pages", 0, &file), 0);
    ck_assert_int_eq(disk->ops->pwritev(disk, file, &piece, 1, page * 4096 + 1000), 0);
    ck_assert_int_eq(disk->ops->close(disk, file), 0);
}

/* Opens a shop that has worked, keeps its log, and has written all its pages back. */
static void open_settled(void)
{
    struct lladd_stats stats = {.struct_size = sizeof stats};
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    ck_assert_int_eq(lladd_stats_get(shop.db, &stats), 0);
    OK(lladd_pin_set(shop.db, "test", lladd_lsn_of(stats.log_oldest), &err));
    shop_work(&shop, 0);
    for (unsigned i = 0; i < 3; i++)
        OK(lladd_checkpoint(shop.db, &err));
}

static uint64_t repairs(void)
{
    struct lladd_stats stats = {.struct_size = sizeof stats};
    ck_assert_int_eq(lladd_stats_get(shop.db, &stats), 0);
    return stats.repairs;
}

/* Kills the database, and asserts that the backup, a copy of it and the database are undamaged. */
static void expect_whole(struct lladd_backup_info info)
{
    ck_assert_uint_eq(info.damaged_pages, 0);
    shop_kill(&shop);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    check_copy(0, NULL);
    shop_verify(disk);
}

START_TEST(a_damaged_page_is_written_again_from_the_cache)
{
    open_settled();
    damage(0); /* the cache has a clean copy of page 0, so nothing reads the page again */
    struct lladd_backup_info info = backed_up();
    ck_assert_uint_eq(repairs(), 0);
    expect_whole(info);
}
END_TEST

START_TEST(a_damaged_page_is_rebuilt_from_the_log)
{
    struct lladd_root_value root;
    open_settled();
    OK(lladd_root_get(shop.db, "tree", &root, &err));
    ck_assert_int_eq(lladd_pages_discard(shop.db, lladd_page_of(root.a), 1), 0);
    damage(root.a);
    struct lladd_backup_info info = backed_up();
    ck_assert_uint_eq(repairs(), 1);
    expect_whole(info);
}
END_TEST

/* The highest page that was written in bulk and not changed since: its header has an LSN, baseLSN 0
 * and its number. */
static uint64_t bulk_page(void)
{
    struct lladd_file *file;
    unsigned char header[32];
    uint64_t page = lladd_page_count(shop.db);
    ck_assert_int_eq(disk->ops->open(disk, "pages", LLADD_OPEN_READ_ONLY, &file), 0);
    do {
        ck_assert_uint_gt(page--, 1);
        ck_assert_int_eq(disk->ops->pread(disk, file, header, sizeof header, page * 4096), 32);
    } while (lladd_get64(header + 8) == 0 || lladd_get64(header + 16) != 0 ||
             lladd_get64(header + 24) != page);
    ck_assert_int_eq(disk->ops->close(disk, file), 0);
    return page;
}

/* The log does not have what was written in bulk. */
START_TEST(a_damaged_page_that_cannot_be_repaired_is_counted)
{
    open_settled();
    uint64_t page = bulk_page();
    ck_assert_int_eq(lladd_pages_discard(shop.db, lladd_page_of(page), 1), 0);
    damage(page);
    struct lladd_backup_info info = backed_up();
    shop_kill(&shop);
    ck_assert_uint_eq(info.damaged_pages, 1);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

static int stop_at(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    unsigned *left = ctx;
    (void)what, (void)done, (void)all;
    return (*left)-- == 0 ? LLADD_TAKEN : 0;
}

enum { EXTENT = 8 };

static struct lladd_txn *begin(void)
{
    struct lladd_txn *txn;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    return txn;
}

/* Frees a raw extent that is full of bytes without checksums. The next extent that is allocated
 * gets the same pages. */
static lladd_pageno give_up_raw_extent(void)
{
    static unsigned char bytes[EXTENT * 4096];
    lladd_pageno first;
    memset(bytes, 0x5a, sizeof bytes);
    struct lladd_txn *txn = begin();
    TXN(lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_RAW, &first));
    TXN(lladd_bulk_write(txn, first, EXTENT, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    OK(lladd_commit(txn));
    txn = begin();
    TXN(lladd_extent_free(txn, first, EXTENT));
    OK(lladd_commit(txn));
    return first;
}

/* A backup finds the old bytes of the extent: before the new owner writes it, while it is half
 * written, and after the commit. It does not disturb the owner. */
START_TEST(an_extent_that_is_not_written_yet_is_no_damage)
{
    static unsigned char bytes[EXTENT * 4096];
    open_settled();
    lladd_pageno old = give_up_raw_extent(), first;
    struct lladd_txn *txn = begin();
    TXN(lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_BULK, &first));
    ck_assert_uint_eq(first.v, old.v);
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    TXN(lladd_bulk_write(txn, first, EXTENT / 2, "lladd.fixed", bytes));
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    TXN(lladd_bulk_write(txn, first, EXTENT, "lladd.fixed", bytes));
    TXN(lladd_bulk_sync(txn));
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    OK(lladd_commit(txn));
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    damage(first.v);
    ck_assert_uint_eq(backed_up().damaged_pages, 1);
    shop_kill(&shop);
}
END_TEST

START_TEST(a_page_that_is_not_formatted_yet_is_no_damage)
{
    open_settled();
    lladd_pageno old = give_up_raw_extent(), first;
    struct lladd_txn *txn = begin();
    TXN(lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_PAGED, &first));
    ck_assert_uint_eq(first.v, old.v);
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    OK(lladd_commit(txn));
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    txn = begin();
    for (unsigned i = 0; i < EXTENT; i++) {
        TXN(lladd_fixed_format(txn, lladd_page_of(first.v + i), 16));
        ck_assert_uint_eq(backed_up().damaged_pages, 0);
    }
    OK(lladd_commit(txn));
    struct lladd_backup_info info = backed_up();
    expect_whole(info);
}
END_TEST

/* A raw page has no checksum, and must not be taken for one that is just being written. */
START_TEST(raw_pages_are_read_once)
{
    enum { RAW = 64 };
    static unsigned char bytes[RAW * 4096];
    struct fault_device *fd = fault_device_new(disk);
    lladd_pageno first;
    shop_open(&shop, fault_device_dev(fd), LLADD_OPT_NO_THREADS);
    memset(bytes, 0x5a, sizeof bytes);
    struct lladd_txn *txn = begin();
    TXN(lladd_extent_alloc(txn, RAW, LLADD_EXTENT_RAW, &first));
    TXN(lladd_bulk_write(txn, first, RAW, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    OK(lladd_commit(txn));
    fault_device_only(fd, "pages");
    fault_device_reset_calls(fd);
    ck_assert_uint_eq(backed_up().damaged_pages, 0);
    ck_assert_uint_lt(fault_device_calls(fd, FAULT_PREAD), RAW);
    shop_kill(&shop);
    fault_device_free(fd);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_restore_options r = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_store *none;
    struct lladd_file *file;
    unsigned left = 1;
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    shop_work(&shop, 0);
    ck_assert_int_eq(lladd_restore(&store.base, NULL, copy, NULL, &err), LLADD_NOT_FOUND);
    o.label = "two\nlines";
    ck_assert_int_eq(lladd_backup(shop.db, &store.base, &o, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_backup(NULL, &store.base, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_store_open("s3:bucket", NULL, &none, &err), LLADD_BAD_ARGUMENT);
    /* Stopped by its progress function: nothing is left. */
    o.label = NULL;
    o.progress = stop_at;
    o.progress_ctx = &left;
    ck_assert_int_eq(lladd_backup(shop.db, &store.base, &o, NULL, &err), LLADD_TAKEN);
    ck_assert_ptr_null(memory_store_find(&store, "base/"));
    /* An extension has files. */
    ck_assert_int_eq(disk->ops->mkdir(disk, "files"), 0);
    ck_assert_int_eq(disk->ops->open(disk, "files/mine", LLADD_OPEN_CREATE, &file), 0);
    ck_assert_int_eq(disk->ops->close(disk, file), 0);
    ck_assert_int_eq(lladd_backup(shop.db, &store.base, NULL, NULL, &err), LLADD_BAD_STATE);
    ck_assert_int_eq(disk->ops->unlink(disk, "files/mine"), 0);
    backed_up();
    /* Another database into the same store. */
    struct shop other;
    shop_open(&other, copy, LLADD_OPT_NO_THREADS);
    ck_assert_int_eq(lladd_backup(other.db, &store.base, NULL, NULL, &err), LLADD_OTHER_DATABASE);
    shop_close(&other);
    /* Nothing that exists is overwritten. */
    ck_assert_int_eq(lladd_restore(&store.base, NULL, copy, NULL, &err), LLADD_EXISTS);
    ck_assert_int_eq(lladd_restore(&store.base, NULL, disk, NULL, &err), LLADD_LOCKED);
    new_copy();
    r.base = "nonsense";
    ck_assert_int_eq(lladd_restore(&store.base, &r, copy, NULL, &err), LLADD_NOT_FOUND);
    shop_close(&shop);
}
END_TEST

static int count(void *ctx, const struct lladd_backup_info *info)
{
    struct lladd_backup_info *last = ctx;
    ck_assert_int_ge(info->ended_us, last->ended_us);
    *last = *info;
    return 0;
}

START_TEST(the_newest_backup_is_restored_unless_another_is_named)
{
    struct lladd_restore_options r = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_backup_info last = {0};
    uint64_t gen[SHOP_WORKERS];
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    shop_work(&shop, 0);
    struct lladd_backup_info first = backed_up();
    shop_work(&shop, 0);
    struct lladd_backup_info second = backed_up();
    shop_close(&shop);
    OK(lladd_backup_each(&store.base, NULL, count, &last, &err));
    ck_assert_str_eq(last.name, second.name);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    check_copy(0, gen);
    ck_assert_uint_eq(gen[0], 2);
    new_copy();
    r.base = first.name;
    OK(lladd_restore(&store.base, &r, copy, NULL, &err));
    check_copy(0, gen);
    ck_assert_uint_eq(gen[0], 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("backup");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(tc, a_backup_has_what_was_committed);
    tcase_add_test(tc, each_restore_has_a_timeline_of_its_own);
    tcase_add_test(tc, a_backup_leaves_no_pin);
    tcase_add_test(tc, a_backup_after_crashes);
    tcase_add_test(tc, a_backup_can_be_looked_at);
    tcase_add_test(tc, pages_change_at_every_step);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_of_a_backup, 0, 4);
    tcase_add_loop_test(tc, the_store_or_the_disk_fails_at_each_call_of_a_restore, 0, 4);
    tcase_add_test(tc, damage_of_each_object_is_named);
    tcase_add_test(tc, a_damaged_page_is_written_again_from_the_cache);
    tcase_add_test(tc, a_damaged_page_is_rebuilt_from_the_log);
    tcase_add_test(tc, a_damaged_page_that_cannot_be_repaired_is_counted);
    tcase_add_test(tc, an_extent_that_is_not_written_yet_is_no_damage);
    tcase_add_test(tc, a_page_that_is_not_formatted_yet_is_no_damage);
    tcase_add_test(tc, raw_pages_are_read_once);
    tcase_add_test(tc, wrong_calls_are_refused);
    tcase_add_test(tc, the_newest_backup_is_restored_unless_another_is_named);
    tcase_add_test(threads, backups_under_writers);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
