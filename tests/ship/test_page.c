/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damaged pages come from the archive, while the database runs and in recovery: pages of a backup,
 * and pages that were changed, written in bulk, or freed and used again since. The log of the
 * database cannot rebuild any of them.
 */
#include "page_rig.h"

#include "support/fixtures.h"

#include <check.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KILL = 1, INSTANT = 2, CASES = 4 }; /* of _i */

static void check_shop(void)
{
    uint64_t gen[SHOP_WORKERS];
    shop_check(&shop, 0, gen);
    ck_assert_mem_eq(gen, gens, sizeof gen);
}

/* Every page is damaged. The database opens, and has what it had. */
static void expect_all(struct lladd_device *dev, int i)
{
    shop_check(&shop, 0, gens);
    close_shop(i & KILL);
    damage_all(dev);
    open_shop(dev, i & INSTANT);
    check_shop();
    ck_assert_uint_gt(stats().pages_given, 20);
    ck_assert_uint_ge(status().pages_given, stats().pages_given);
    ck_assert_uint_eq(status().pages_refused, 0);
    work(2);
    store_log();
    shop_check(&shop, 0, gens);
    close_shop(false);
    shop_verify(dev);
}

/* ---- tests ---------------------------------------------------------------------------------- */

START_TEST(pages_of_a_backup_alone)
{
    open_shop(disk, false);
    work(6);
    forget_log();
    uint64_t end = backed_up();
    ck_assert_uint_gt(end, 0);
    expect_all(disk, _i);
}
END_TEST

/* Everything was changed, freed and used again after the backup, and the log of that is gone. */
START_TEST(pages_that_changed_since_the_backup)
{
    open_shop(disk, false);
    work(6);
    uint64_t end = backed_up();
    for (unsigned i = 0; i < 6; i++) {
        work(5);
        forget_log();
    }
    ck_assert_uint_gt(stats().log_oldest, end);
    expect_all(disk, _i);
}
END_TEST

/* The newest log and spools are not stored yet. */
START_TEST(pages_that_changed_since_the_archive)
{
    open_shop(disk, false);
    work(6);
    uint64_t end = backed_up();
    for (unsigned i = 0; i < 3; i++) {
        work(5);
        forget_log();
    }
    ck_assert_uint_gt(stats().log_oldest, end);
    work(7);
    ck_assert_uint_gt(status().spool_bytes, 0);
    expect_all(disk, _i);
}
END_TEST

/* A copy that was restored goes on, on a timeline of its own. Of its pages some are in the backup
 * of its origin and in the origin's log below the fork. */
START_TEST(pages_of_a_restored_copy)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    open_shop(disk, false);
    work(6);
    backed_up();
    work(7);
    store_log();
    t.kind = LLADD_TO_LSN;
    t.lsn = lladd_durable_lsn(shop.db);
    o.target = &t;
    work(5);
    store_log();
    close_shop(false);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    open_shop(copy, false);
    for (unsigned i = 0; i < 4; i++) {
        work(5);
        forget_log();
    }
    ck_assert_uint_gt(stats().log_oldest, t.lsn.v);
    expect_all(copy, _i);
}
END_TEST

/* A page is read again, one at a time, while the database runs; it must have the bytes that it had
 * in the file. */
START_TEST(a_page_that_is_damaged_while_the_database_runs)
{
    unsigned char uuid[16], bytes[PAGE];
    uint64_t n, tried = 0;
    struct lladd_page *page;
    open_shop(disk, false);
    work(6);
    backed_up();
    work(10);
    forget_log();
    unsigned char *pages = read_pages(disk, &n);
    uuid_of(disk, uuid);
    memset(bytes, 0x5a, sizeof bytes);
    for (uint64_t i = 1; i < n; i++) {
        uint64_t before = stats().repairs;
        const unsigned char *had = pages + i * PAGE;
        if (!is_typed(uuid, pages, i) ||
            lladd_pages_discard(shop.db, lladd_page_of(i), 1) != 0)
            continue;
        write_page(disk, i, bytes);
        OK(lladd_page_fix(shop.db, lladd_page_of(i), LLADD_LATCH_SHARED, &page, &err));
        ck_assert_uint_eq(lladd_get64(lladd_page_view(page).bytes + 8), lladd_get64(had + 8));
        ck_assert_mem_eq(lladd_page_view(page).bytes + 24, had + 24,
                         PAGE - 24);
        lladd_page_unfix(shop.db, page, LLADD_LATCH_SHARED);
        ck_assert_uint_eq(stats().repairs, before + 1);
        tried++;
    }
    free(pages);
    ck_assert_uint_gt(stats().pages_given, tried / 2);
    OK(lladd_checkpoint(shop.db, &err));
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* A directory with files of the operating system, and a store in another one. */
START_TEST(pages_in_real_files)
{
    char *dir = temp_dir_new(), url[300];
    struct lladd_device *files;
    (void)snprintf(url, sizeof url, "dir:%s/store", dir);
    OK(lladd_store_open(url, NULL, &used, &err));
    (void)snprintf(url, sizeof url, "%s/shop", dir);
    OK(lladd_device_posix(url, true, &files, &err));
    open_shop(files, false);
    work(6);
    backed_up();
    for (unsigned i = 0; i < 3; i++) {
        work(5);
        forget_log();
    }
    expect_all(files, _i);
    lladd_device_close(files);
    lladd_store_close(used);
    temp_dir_remove(dir);
}
END_TEST

static void *work_often(void *k)
{
    for (unsigned i = 0; i < 6; i++)
        shop_work(&shop, (unsigned)(uintptr_t)k);
    return NULL;
}

/* Threads ask for pages while the archive's thread stores the log. */
START_TEST(threads_get_pages)
{
    struct lladd_thread threads[WORKERS] = {{0}};
    open_shop(disk, false);
    work(6);
    backed_up();
    for (unsigned i = 0; i < 3; i++) {
        work(5);
        forget_log();
    }
    close_shop(_i & KILL);
    damage_all(disk);
    open_shop_as(disk, 0, _i & INSTANT);
    for (uintptr_t k = 0; k < WORKERS; k++)
        ck_assert_int_eq(lladd_thread_start(&threads[k], work_often, (void *)k), 0);
    for (unsigned k = 0; k < WORKERS; k++)
        lladd_thread_join(&threads[k]);
    shop_check(&shop, 0, gens);
    ck_assert_uint_gt(stats().pages_given, 10);
    ck_assert_uint_eq(status().pages_refused, 0);
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* Damages the page, which must not be in the cache then, and reads it. */
static int read_damaged(uint64_t number)
{
    unsigned char bytes[PAGE];
    struct lladd_page *page;
    memset(bytes, 0x5a, sizeof bytes);
    ck_assert_int_eq(lladd_pages_discard(shop.db, lladd_page_of(number), 1), 0);
    write_page(disk, number, bytes);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc =
        lladd_page_fix(shop.db, lladd_page_of(number), LLADD_LATCH_SHARED, &page, &err);
    if (!rc)
        lladd_page_unfix(shop.db, page, LLADD_LATCH_SHARED);
    return rc;
}

/* A transaction logs a barrier for `bulk_page` and writes nothing. Another one writes the page. */
static void write_bulk_page_again(void)
{
    static unsigned char bytes[PAGE];
    struct lladd_txn *txn;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_redo_barrier(txn, lladd_page_of(bulk_page), 1));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    memset(bytes, 0x33, sizeof bytes);
    TXN(lladd_bulk_write(txn, lladd_page_of(bulk_page), 1, "lladd.bytes", bytes));
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
}

/* The page is younger than the backup, and the log of the database has its barrier. No record has
 * its contents: only the spool does, in files/ship or, if _i & 1, in the store. */
START_TEST(a_page_that_only_a_spool_has)
{
    unsigned char got = 0;
    open_shop(disk, false);
    work(2);
    backed_up();
    make_bulk_page();
    if (_i & 2)
        write_bulk_page_again();
    if (_i & 1)
        store_log();
    for (unsigned again = 0; again < 2; again++) {
        OK(read_damaged(bulk_page));
        OK(lladd_bytes_get(shop.db, lladd_page_of(bulk_page), 100, &got, 1, &err));
        ck_assert_uint_eq(got, 0x33);
        ck_assert_uint_eq(stats().pages_given, 1);
        close_shop(true);
        open_shop(disk, false);
    }
    OK(lladd_bytes_get(shop.db, lladd_page_of(bulk_page), 100, &got, 1, &err));
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

static void expect_refused(uint64_t number, const char *reason)
{
    uint64_t refused = status().pages_refused;
    ck_assert_int_eq(read_damaged(number), LLADD_CORRUPT_PAGE);
    ck_assert_msg(strstr(err.message, "archive: ") && strstr(err.message, reason), "%s",
                  err.message);
    ck_assert_uint_eq(err.page.v, number);
    ck_assert_uint_gt(status().pages_refused, refused);
}

/* The store fails at one call, or from there on: the page is refused, and the next read succeeds.
 * Nothing else is refused meanwhile. */
START_TEST(the_store_fails_at_each_call_for_a_page)
{
    open_with_pages();
    for (unsigned which = 0; which < 2; which++) {
        uint64_t page = which ? bulk_page : changed_page;
        for (uint64_t at = 1;; at++) {
            store.fail_at = store.calls + at;
            store.fail_on = _i;
            store.fired = 0;
            int rc = read_damaged(page);
            store.fail_at = 0;
            if (!store.fired) {
                OK(rc);
                ck_assert_uint_gt(at, 10);
                break;
            }
            ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
            ck_assert_msg(strstr(err.message, "archive: the store was told to fail"), "%s",
                          err.message);
            work(at % 16 == 0);
            OK(read_damaged(page));
        }
    }
    expect_change(1);
    close_shop(false);
    shop_verify(disk);
}
END_TEST

START_TEST(a_page_without_a_backup)
{
    open_shop(disk, false);
    work(2);
    forget_log();
    changed_page = bulk_page = 0;
    make_bulk_page();
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    expect_refused(bulk_page, "no backup");
    backed_up(); /* of the damaged page */
    close_shop(false);
}
END_TEST

/* Without one of the segments, or with damage in one, nothing is guessed. */
START_TEST(a_page_and_a_gap_in_the_archive)
{
    open_with_pages();
    uint64_t refused = 0;
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        if (!strstr(o->name, ".seg"))
            continue;
        char kept = o->name[0];
        o->name[0] = '#';
        int rc = read_damaged(changed_page);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
            ck_assert_msg(strstr(err.message, "archive: "), "%s", err.message);
            refused++;
        } else {
            expect_change(1);
        }
        o->name[0] = kept;
    }
    ck_assert_uint_gt(refused, 1);
    OK(read_damaged(changed_page));
    expect_change(1);
    for (size_t i = 0; i < store.n; i++)
        for (size_t at = 0; strstr(store.objects[i].name, ".seg") && at < store.objects[i].len;
             at += 4999) {
            store.objects[i].bytes[at] ^= 1;
            if (read_damaged(changed_page) == 0)
                expect_change(1);
            store.objects[i].bytes[at] ^= 1;
        }
    /* The index is derived. */
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, ".idx") && !strstr(store.objects[i].name, "pages"))
            store.objects[i].bytes[store.objects[i].len / 2] ^= 1;
    OK(read_damaged(changed_page));
    expect_change(1);
    OK(read_damaged(bulk_page));
    close_shop(false);
}
END_TEST

/* Of a transaction that wrote in bulk the spool is missing: it may have had any page. */
START_TEST(a_page_and_a_missing_spool)
{
    open_with_pages();
    char name[100];
    (void)snprintf(name, sizeof name, "/bulk/%016llx", (unsigned long long)bulk_txn);
    struct memory_object *o = memory_store_find(&store, name);
    ck_assert_ptr_nonnull(o);
    char kept = o->name[0];
    o->name[0] = '#';
    expect_refused(changed_page, "wrote in bulk");
    expect_refused(bulk_page, "wrote in bulk");
    o->name[0] = kept;
    OK(read_damaged(changed_page));
    o->bytes[o->len / 2] ^= 1; /* its page, or what precedes it */
    expect_refused(bulk_page, "damaged");
    o->bytes[o->len / 2] ^= 1;
    OK(read_damaged(bulk_page));
    close_shop(false);
}
END_TEST

/* Takes this page in a transaction of its own; `raw`: as a raw extent. */
static void take(uint64_t page, bool raw, struct lladd_txn *txn)
{
    static lladd_pageno others[1000];
    unsigned n = 0;
    lladd_pageno got;
    for (;;) {
        if (raw)
            TXN(lladd_extent_alloc(txn, 1, LLADD_EXTENT_RAW, &got));
        else
            TXN(lladd_page_alloc(txn, &got));
        if (got.v == page)
            break;
        ck_assert_uint_lt(n, 1000);
        others[n++] = got;
    }
    while (n-- > 0)
        if (raw)
            TXN(lladd_extent_free(txn, others[n], 1));
        else
            TXN(lladd_page_free(txn, others[n]));
}

/* A page was formatted, then freed and written raw, then taken again, and has no contents yet. The
 * archive does not give it the contents of its first use, which ended at the barrier of the
 * second. */
START_TEST(a_page_without_contents_over_a_raw_one)
{
    static unsigned char bytes[PAGE];
    struct lladd_txn *txn;
    open_with_pages();
    lladd_pageno page = lladd_page_of(changed_page);
    for (unsigned use = 0; use < 3; use++) { /* formatted, raw, without contents */
        OK(lladd_begin(shop.db, NULL, &txn, &err));
        if (use == 2)
            TXN(lladd_extent_free(txn, page, 1));
        else
            TXN(lladd_page_free(txn, page));
        ck_assert_int_eq(lladd_commit(txn), 0);
        OK(lladd_checkpoint(shop.db, &err));
        OK(lladd_begin(shop.db, NULL, &txn, &err));
        take(changed_page, use == 1, txn);
        if (use == 0)
            TXN(lladd_bytes_format(txn, page));
        memset(bytes, 0x77, sizeof bytes);
        if (use == 1) {
            TXN(lladd_bulk_write(txn, page, 1, NULL, bytes));
            TXN(lladd_bulk_sync(txn));
        }
        ck_assert_int_eq(lladd_commit(txn), 0);
        work(4);
    }
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    lladd_lsn since = lladd_lsn_of(stats().log_oldest);
    int rc = ll_ship_page(archive, shop.db, page, since, lladd_lsn_of(0), bytes, &err);
    ck_assert_msg(rc == LLADD_NOT_FOUND, "%d: %s", rc, err.message);
    close_shop(false);
}
END_TEST

static int try_open(void)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_db *db;
    OK(ll_ship_archive_new(&store.base, NULL, &archive, &err));
    o.device = disk;
    o.flags = LLADD_OPT_NO_THREADS | LLADD_OPT_ATOMIC_PAGES;
    o.recovery = LLADD_RECOVER_FULL;
    OK(lladd_register_extension(&o, &archive->ext, &err));
    int rc = lladd_open(NULL, &o, &db, &err);
    if (!rc)
        lladd_db_kill(db);
    lladd_options_release(&o);
    lladd_archive_free(archive);
    return rc;
}

struct segments {
    uint64_t oldest; /* LSN of the oldest log that is kept */
    uint64_t first;  /* the oldest segment */
    uint64_t last;   /* the segment with `oldest` */
};

static int see_segment(void *ctx, const char *name)
{
    struct segments *s = ctx;
    uint64_t first = strtoull(name, NULL, 16);
    s->first = first < s->first ? first : s->first;
    s->last = first <= s->oldest && first > s->last ? first : s->last;
    return 0;
}

/* Deletes the files of the log before this LSN, which are there to be used again. */
static void drop_segments(uint64_t oldest)
{
    struct segments s;
    char name[40];
    do {
        s = (struct segments){oldest, UINT64_MAX, 0};
        ck_assert_int_eq(disk->ops->list(disk, "log", see_segment, &s), 0);
        (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)s.first);
        if (s.first < s.last)
            ck_assert_int_eq(disk->ops->unlink(disk, name), 0);
    } while (s.first < s.last);
}

/* The barrier of a transaction is in the archive only, its commit in the log of the database only,
 * and its spool is lost. */
START_TEST(a_page_and_a_lost_spool_of_an_open_transaction)
{
    static unsigned char bytes[PAGE];
    char spool[60], away[64];
    struct lladd_txn *txn;
    open_with_pages();
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    memset(bytes, 0x44, sizeof bytes);
    TXN(lladd_bulk_write(txn, lladd_page_of(bulk_page), 1, "lladd.bytes", bytes));
    TXN(lladd_bulk_sync(txn));
    uint64_t id = lladd_txn_id(txn).v;
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    ck_assert_int_eq(lladd_commit(txn), 0);
    for (unsigned i = 0; i < 3; i++)
        OK(lladd_checkpoint(shop.db, &err));
    uint64_t oldest = stats().log_oldest;
    ck_assert_uint_gt(oldest, id);
    OK(read_damaged(bulk_page));
    OK(read_damaged(changed_page));
    close_shop(false);
    drop_segments(oldest);
    (void)snprintf(spool, sizeof spool, "files/ship/%016llx.0000.blk", (unsigned long long)id);
    (void)snprintf(away, sizeof away, "%s.x", spool);
    ck_assert_int_eq(disk->ops->rename(disk, spool, away), 0);
    open_shop(disk, false);
    ck_assert_uint_gt(stats().log_oldest, id);
    change_page(4);
    if (_i == 0) {
        expect_refused(bulk_page, "wrote in bulk");
        expect_refused(changed_page, "wrote in bulk");
    }
    close_shop(true);
    if (_i == 1) { /* recovery needs the page */
        memset(bytes, 0x5a, sizeof bytes);
        write_page(disk, changed_page, bytes);
        ck_assert_int_eq(try_open(), LLADD_CORRUPT_PAGE);
        ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    }
    ck_assert_int_eq(disk->ops->rename(disk, away, spool), 0);
    open_shop(disk, false);
    expect_change(4);
    OK(read_damaged(bulk_page));
    OK(read_damaged(changed_page));
    expect_change(4);
    close_shop(false);
}
END_TEST

/* The newest backup is damaged, so an older one is taken. */
START_TEST(a_page_of_an_older_backup)
{
    open_with_pages();
    backed_up();
    change_page(2);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    const char *parts[] = {"/pages.0", "/pages.idx", "/control"};
    for (unsigned i = 0; i < 3; i++) {
        struct memory_object *o = last_object(parts[i]);
        for (size_t k = 0; k < o->len; k++)
            o->bytes[k] ^= 1;
        OK(read_damaged(changed_page));
        expect_change(2);
        OK(read_damaged(bulk_page));
        for (size_t k = 0; k < o->len; k++)
            o->bytes[k] ^= 1;
    }
    close_shop(false);
}
END_TEST

/* Recovery needs a page, and the store fails: open is refused, and succeeds when the store is
 * back. */
START_TEST(the_store_fails_in_recovery)
{
    open_with_pages();
    change_page(3);
    shop_check(&shop, 0, gens);
    close_shop(true);
    unsigned char bytes[PAGE];
    memset(bytes, 0x5a, sizeof bytes);
    write_page(disk, changed_page, bytes);
    for (uint64_t at = 1;; at += 1 + at / 8) {
        store.fail_at = store.calls + at;
        store.fail_on = true;
        store.fired = 0;
        int rc = try_open();
        store.fail_at = 0;
        if (!store.fired)
            break;
        if (rc == 0)
            continue;
        ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
        ck_assert_msg(strstr(err.message, "archive: the store was told to fail"), "%s",
                      err.message);
        ck_assert_uint_eq(err.page.v, changed_page);
    }
    open_shop(disk, false);
    expect_change(3);
    check_shop();
    close_shop(false);
    shop_verify(disk);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("page");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, pages_of_a_backup_alone, 0, CASES);
    tcase_add_loop_test(tc, pages_that_changed_since_the_backup, 0, CASES);
    tcase_add_loop_test(tc, pages_that_changed_since_the_archive, 0, CASES);
    tcase_add_loop_test(tc, pages_of_a_restored_copy, 0, CASES);
    tcase_add_test(tc, a_page_that_is_damaged_while_the_database_runs);
    tcase_add_loop_test(tc, a_page_that_only_a_spool_has, 0, 4);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_for_a_page, 0, 2);
    tcase_add_test(tc, a_page_without_a_backup);
    tcase_add_test(tc, a_page_and_a_gap_in_the_archive);
    tcase_add_test(tc, a_page_without_contents_over_a_raw_one);
    tcase_add_test(tc, a_page_and_a_missing_spool);
    tcase_add_loop_test(tc, a_page_and_a_lost_spool_of_an_open_transaction, 0, 2);
    tcase_add_test(tc, a_page_of_an_older_backup);
    tcase_add_test(tc, the_store_fails_in_recovery);
    tcase_add_loop_test(tc, pages_in_real_files, 0, CASES);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_loop_test(threads, threads_get_pages, 0, CASES);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
