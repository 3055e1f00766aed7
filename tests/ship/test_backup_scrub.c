/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every backup is a scrub: it compares the pages that it copies with an older backup and the
 * archive. Backups of an open database, and backups from outside.
 */
#include "beside.h"
#include "page_rig.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct found {
    unsigned repair, damage;
    uint64_t page; /* of the last finding */
    char message[300];
    int stop;
};

static struct found found;
static struct beside beside;
static struct lladd_store *target; /* of backups */

static void set_up(void)
{
    setup();
    found.stop = 0; /* without fork, a test begins with what the test before it has left */
    beside_init(&beside, disk);
    target = &store.base;
}

static int see(void *ctx, const struct lladd_finding *f)
{
    struct found *seen = ctx;
    seen->repair += f->kind == LLADD_FINDING_REPAIR;
    seen->damage += f->kind == LLADD_FINDING_DAMAGE;
    seen->page = f->page.v;
    (void)snprintf(seen->message, sizeof seen->message, "%s", f->message);
    return seen->stop;
}

static int archive_goes_on(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    uint64_t calls = store.calls, fail_at = store.fail_at;
    (void)ctx, (void)done, (void)all;
    if (strcmp(what, "archive") == 0) {
        store.fail_at = 0;
        store_log();
        store.calls = calls;
        store.fail_at = fail_at;
    }
    return 0;
}

/* `outside`: from outside; otherwise by the process that has the database open. */
static int try_backup(bool outside, struct lladd_backup_info *info)
{
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    int stop = found.stop;
    found = (struct found){.stop = stop};
    b.finding = see;
    b.finding_ctx = &found;
    b.progress = archive_goes_on;
    o.backup = &b;
    *info = (struct lladd_backup_info){.struct_size = sizeof *info};
    return outside ? lladd_backup_outside(&beside.base, target, &o, info, &err)
                   : lladd_backup(shop.db, target, &b, info, &err);
}

static struct lladd_backup_info backup(bool outside)
{
    struct lladd_backup_info info;
    OK(try_backup(outside, &info));
    ck_assert_uint_eq(info.lost_pages, found.repair + found.damage);
    return info;
}

static void expect_clean(bool outside)
{
    struct lladd_backup_info info = backup(outside);
    ck_assert_uint_eq(info.lost_pages + info.damaged_pages, 0);
    ck_assert(info.compared);
}

/* The copy has this value in `changed_page`, or 0 was given. Restores the last backup. */
static void check_restored(uint64_t value)
{
    struct shop kept = shop;
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    shop_verify(copy);
    shop_open(&shop, copy, LLADD_OPT_MUST_EXIST);
    shop_check(&shop, 0, NULL);
    if (value)
        expect_change(value);
    shop_close(&shop);
    shop = kept;
}

/* Whatever is in the cache, freed, written in bulk and not stored yet: nothing is accused. */
START_TEST(backups_accuse_nothing)
{
    open_shop(disk, false);
    work(4);
    store_log(); /* claims the store */
    ck_assert(!backup(_i).compared);
    for (unsigned i = 0; i < 24; i++) {
        if (i % 8 == 0)
            expect_clean(!_i);
        work(3);
        if (i % 3 == 0)
            store_log();
        if (i % 5 == 0)
            forget_log();
        expect_clean(_i);
        if (i % 4 == 0) {
            close_shop(i % 8 == 0);
            open_shop(disk, i % 16 == 0);
            expect_clean(_i);
        }
    }
    check_restored(0);
    close_shop(false);
}
END_TEST

/* Without an archive nothing says how raw pages were written after the log was recycled. */
START_TEST(backups_without_an_archive_accuse_nothing)
{
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    work(4);
    ck_assert(!backup(false).compared);
    for (unsigned i = 0; i < 12; i++) {
        work(5);
        for (unsigned k = 0; k < i % 4; k++)
            OK(lladd_checkpoint(shop.db, &err));
        expect_clean(false);
        if (i % 4 == 3) {
            shop_kill(&shop);
            shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
        }
    }
    check_restored(0);
    shop_close(&shop);
}
END_TEST

/* ---- lost writes ---------------------------------------------------------------------------- */

/* The page file as it was before the last change of the page; the caller frees it. */
static unsigned char *change_and_close(void)
{
    uint64_t n;
    open_with_pages();
    OK(lladd_checkpoint(shop.db, &err));
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    close_shop(false);
    return old;
}

START_TEST(a_backup_finds_a_lost_write_and_repairs_it)
{
    unsigned char *old = change_and_close();
    write_page(disk, changed_page, old + changed_page * PAGE);
    free(old);
    open_shop(disk, false);
    struct lladd_backup_info info = backup(false);
    ck_assert_uint_eq(info.lost_pages, 1);
    ck_assert_uint_eq(info.damaged_pages, 0);
    ck_assert_uint_eq(found.repair, 1);
    ck_assert_uint_eq(found.page, changed_page);
    check_restored(2);
    expect_change(2);
    expect_clean(false);
    close_shop(false);
}
END_TEST

START_TEST(a_lost_write_that_cannot_be_repaired)
{
    struct lladd_backup_info info;
    unsigned char *old = change_and_close();
    write_page(disk, changed_page, old + changed_page * PAGE);
    free(old);
    if (_i == 0) {
        open_shop(disk, false);
        info = backup(true);
    } else { /* the log of the database does not have it, and the archive is not attached */
        shop_open(&shop, disk, LLADD_OPT_NO_THREADS | LLADD_OPT_ATOMIC_PAGES);
        info = backup(false);
    }
    ck_assert_uint_eq(info.lost_pages, 1);
    ck_assert_uint_eq(info.damaged_pages, 1);
    ck_assert_uint_eq(found.damage, 1);
    ck_assert_uint_eq(found.page, changed_page);
    /* The page is as in the last backup, but that backup has a damaged page. */
    info = backup(_i == 0);
    ck_assert_uint_eq(info.lost_pages, 1);
    if (_i == 0)
        close_shop(false);
    else
        shop_close(&shop);
}
END_TEST

START_TEST(a_finding_can_stop_a_backup)
{
    struct lladd_backup_info info;
    unsigned char *old = change_and_close();
    write_page(disk, changed_page, old + changed_page * PAGE);
    free(old);
    open_shop(disk, false);
    found.stop = 77;
    ck_assert_int_eq(try_backup(_i == 0, &info), 77);
    close_shop(false);
}
END_TEST

/* A raw page has other bytes than were written. */
START_TEST(a_raw_page_is_compared_by_its_bytes)
{
    static unsigned char bytes[PAGE];
    struct lladd_txn *txn;
    lladd_pageno raw;
    open_shop(disk, false);
    work(4);
    store_log(); /* claims the store */
    backup(_i);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, 1, LLADD_EXTENT_RAW, &raw));
    memset(bytes, 0x41, sizeof bytes);
    TXN(lladd_bulk_write(txn, raw, 1, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
    forget_log();
    expect_clean(_i);
    bytes[100] ^= 1;
    write_page(disk, raw.v, bytes);
    struct lladd_backup_info info = backup(_i);
    ck_assert_uint_eq(info.lost_pages, 1);
    ck_assert_uint_eq(info.damaged_pages, 1);
    ck_assert_uint_eq(found.page, raw.v);
    close_shop(false);
}
END_TEST

/* ---- the store ------------------------------------------------------------------------------ */

START_TEST(a_damaged_older_backup_prevents_only_the_comparison)
{
    open_shop(disk, false);
    work(4);
    store_log(); /* claims the store */
    backup(_i);
    struct memory_object *o = last_object("/pages.idx");
    o->bytes[o->len - 3] ^= 1;
    work(2);
    ck_assert(!backup(_i).compared);
    check_restored(0);
    expect_clean(_i); /* with the second backup */
    close_shop(false);
}
END_TEST

/* The archive has the page, and cannot be asked: the finding says so. A backup from outside does
 * not ask. */
START_TEST(a_damaged_page_that_the_archive_does_not_give)
{
    struct memory_store other;
    struct lladd_backup_info info;
    unsigned char bytes[PAGE];
    open_with_pages();
    memory_store_copy(&other, &store);
    memset(bytes, 0x5a, sizeof bytes);
    ck_assert_int_eq(lladd_pages_discard(shop.db, lladd_page_of(bulk_page), 1), 0);
    write_page(disk, bulk_page, bytes);
    target = _i ? &store.base : &other.base;
    store.fail_at = _i ? 0 : 1;
    store.fail_on = true;
    OK(try_backup(_i, &info));
    store.fail_at = 0;
    ck_assert_uint_eq(info.damaged_pages, 1);
    ck_assert_uint_eq(info.lost_pages, 0);
    ck_assert_uint_eq(found.damage, 1);
    ck_assert_uint_eq(found.repair, 0);
    ck_assert_uint_eq(found.page, bulk_page);
    const char *reason = _i ? "repairs nothing" : "archive: the store was told";
    ck_assert_msg(strstr(found.message, reason) != NULL, "%s", found.message);
    OK(try_backup(false, &info));
    ck_assert_uint_eq(info.damaged_pages, 0);
    ck_assert_uint_eq(found.damage, 0);
    close_shop(false);
    memory_store_free(&other);
}
END_TEST

static void drop_backup(const char *name)
{
    char prefix[80] = "base/";
    struct memory_object *o;
    strncat(prefix, name, 70);
    while ((o = memory_store_find(&store, prefix)) != NULL)
        memory_store_drop(&store, o);
}

static unsigned manifests(void)
{
    unsigned n = 0;
    for (size_t i = 0; i < store.n; i++)
        n += strstr(store.objects[i].name, "/manifest") != NULL;
    return n;
}

/* `_i` & 1: from outside; `_i` & 2: all later calls fail, too. */
START_TEST(the_store_fails_at_each_call_of_a_comparison)
{
    bool fired = true;
    open_shop(disk, false);
    work(4);
    backup(false);
    work(4);
    store_log();
    for (uint64_t n = 1; fired; n++) {
        struct lladd_backup_info info;
        store.calls = store.fired = 0;
        store.fail_at = n;
        store.fail_on = _i & 2;
        int rc = try_backup(_i & 1, &info);
        fired = store.fired != 0;
        store.fail_at = 0;
        ck_assert_msg(rc == 0 || (fired && rc == LLADD_STORE_FAILED), "%s", err.message);
        ck_assert_uint_eq(found.repair + found.damage, 0);
        ck_assert(rc || info.compared);
        if (rc && !(_i & 2))
            ck_assert_uint_eq(manifests(), 1);
        if (!rc)
            drop_backup(info.name);
        ck_assert(fired || n > 20);
    }
    close_shop(false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("backup_scrub");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, set_up, teardown);
    tcase_add_loop_test(tc, backups_accuse_nothing, 0, 2);
    tcase_add_test(tc, backups_without_an_archive_accuse_nothing);
    tcase_add_test(tc, a_backup_finds_a_lost_write_and_repairs_it);
    tcase_add_loop_test(tc, a_lost_write_that_cannot_be_repaired, 0, 2);
    tcase_add_loop_test(tc, a_finding_can_stop_a_backup, 0, 2);
    tcase_add_loop_test(tc, a_raw_page_is_compared_by_its_bytes, 0, 2);
    tcase_add_loop_test(tc, a_damaged_older_backup_prevents_only_the_comparison, 0, 2);
    tcase_add_loop_test(tc, a_damaged_page_that_the_archive_does_not_give, 0, 2);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_of_a_comparison, 0, 4);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
