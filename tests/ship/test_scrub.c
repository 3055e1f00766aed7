/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scrub: it repairs damaged pages, finds writes that the disk has lost, and reports nothing
 * else.
 */
#include "page_rig.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

struct found {
    unsigned repair, damage;
    uint64_t page; /* of the last finding */
    int stop;
};

static int see(void *ctx, const struct lladd_finding *f)
{
    struct found *found = ctx;
    found->repair += f->kind == LLADD_FINDING_REPAIR;
    found->damage += f->kind == LLADD_FINDING_DAMAGE;
    found->page = f->page.v;
    return found->stop;
}

static struct lladd_scrub_info scrub(struct found *found)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct lladd_scrub_info info = {.struct_size = sizeof info};
    *found = (struct found){0};
    o.finding = see;
    o.finding_ctx = found;
    OK(lladd_scrub(archive, &o, &info, &err));
    ck_assert_uint_eq(info.pages, lladd_page_count(shop.db));
    ck_assert_uint_eq(info.damaged + info.lost, found->damage + found->repair - info.repaired);
    return info;
}

static void expect_clean(bool compared)
{
    struct found found;
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(found.damage + found.repair, 0);
    ck_assert(info.compared == compared);
}

/* Whatever is in the cache, freed, written in bulk and not stored yet: nothing is accused. */
START_TEST(a_scrub_accuses_nothing)
{
    open_shop(disk, false);
    work(4);
    expect_clean(false);
    for (unsigned i = 0; i < 24; i++) {
        if (i % 8 == 0)
            backed_up();
        work(3);
        if (i % 3 == 0)
            store_log();
        if (i % 5 == 0)
            forget_log();
        expect_clean(true);
        if (i % 4 == 0) {
            close_shop(i % 8 == 0);
            open_shop(disk, i % 16 == 0);
            expect_clean(true);
        }
    }
    close_shop(false);
}
END_TEST

/* Pages that a transaction has taken and not formatted have no contents: the raw bytes that the
 * file has are no damage. */
START_TEST(a_scrub_leaves_pages_without_contents)
{
    enum { N = 4 };
    static unsigned char raw[N * PAGE];
    struct lladd_txn *txn;
    lladd_pageno first, again;
    open_with_pages();
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, N, LLADD_EXTENT_RAW, &first));
    memset(raw, 0x77, sizeof raw);
    TXN(lladd_bulk_write(txn, first, N, NULL, raw));
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
    backed_up();
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_free(txn, first, N));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_checkpoint(shop.db, &err)); /* the pages can be taken again */
    expect_clean(true);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, N, LLADD_EXTENT_PAGED, &again));
    ck_assert_uint_eq(again.v, first.v);
    expect_clean(true);
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_clean(true);
    close_shop(false);
}
END_TEST

/* When a page is freed, its last change need not be written. After the page was taken again, and
 * before it is formatted, the file has an older version. Nothing was lost. */
START_TEST(a_scrub_leaves_changes_of_an_earlier_use)
{
    struct lladd_txn *txn;
    lladd_pageno again;
    uint64_t n;
    open_with_pages();
    backed_up();
    unsigned char *old = read_pages(disk, &n);
    change_page(2);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_page_free(txn, lladd_page_of(changed_page)));
    ck_assert_int_eq(lladd_commit(txn), 0);
    OK(lladd_checkpoint(shop.db, &err));
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    do {
        TXN(lladd_page_alloc(txn, &again));
        if (again.v != changed_page)
            TXN(lladd_page_free(txn, again));
    } while (again.v != changed_page);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_pages_discard(shop.db, again, 1), 0);
    write_page(disk, changed_page, old + changed_page * PAGE);
    free(old);
    expect_clean(true);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log(); /* only the archive has the records of the page then */
        expect_clean(true);
    }
    close_shop(false);
}
END_TEST

/* Damaged pages are found and repaired. Without the store they are found. */
START_TEST(a_scrub_repairs)
{
    struct found found;
    open_with_pages();
    close_shop(false);
    unsigned damaged = damage_all(disk);
    open_shop(disk, false);
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(found.damage, 0);
    ck_assert_uint_gt(info.repaired, 20);
    ck_assert_uint_le(info.repaired, damaged);
    expect_clean(true);
    expect_change(1);
    close_shop(false);
    shop_verify(disk);
    open_shop(disk, false);
    struct memory_object *o = last_object("/manifest");
    o->name[0] = '#';
    unsigned char bytes[PAGE];
    memset(bytes, 0x5a, sizeof bytes);
    write_page(disk, bulk_page, bytes);
    info = scrub(&found);
    ck_assert_uint_eq(info.damaged, 1);
    ck_assert_uint_eq(found.page, bulk_page);
    o->name[0] = 'b';
    info = scrub(&found);
    ck_assert_uint_eq(info.repaired, 1);
    close_shop(false);
}
END_TEST

/* The disk has lost the last write of a page, and the database was closed since. The page is whole,
 * and the log that had the change is recycled. */
START_TEST(a_scrub_finds_lost_writes_of_earlier_runs)
{
    unsigned char uuid[16];
    struct found found;
    uint64_t n, more;
    unsigned tried = 0;
    open_with_pages();
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    work(4);
    if (_i == 1)
        backed_up();
    for (unsigned i = 0; i < 3; i++) {
        if (_i == 0)
            work(6);
        forget_log();
    }
    close_shop(false);
    unsigned char *now = read_pages(disk, &more);
    uuid_of(disk, uuid);
    for (uint64_t i = 1; i < n; i++) {
        enum lladd_page_use use;
        if (!is_typed(uuid, old, i) || !is_typed(uuid, now, i) ||
            memcmp(old + i * PAGE, now + i * PAGE, PAGE) == 0)
            continue;
        open_shop(disk, false);
        OK(lladd_page_use_get(shop.db, lladd_page_of(i), &use, &err));
        if (use == LLADD_USE_PAGED && lladd_pages_discard(shop.db, lladd_page_of(i), 1) == 0) {
            write_page(disk, i, old + i * PAGE);
            struct lladd_scrub_info info = scrub(&found);
            /* A page that was taken and is not formatted yet has lost nothing. */
            ck_assert_uint_le(info.lost, 1);
            ck_assert(info.lost || i != changed_page);
            ck_assert(!info.lost || found.page == i);
            ck_assert_uint_eq(info.repaired + info.damaged, 0);
            tried += info.lost != 0;
        }
        shop_kill(&shop);
        lladd_archive_free(archive);
        write_page(disk, i, now + i * PAGE);
    }
    ck_assert_uint_gt(tried, 5);
    free(old);
    free(now);
}
END_TEST

/* A lost write of a page that the cache has is written again. */
START_TEST(a_scrub_writes_a_lost_page_again)
{
    struct found found;
    uint64_t n;
    open_with_pages();
    unsigned char *old = read_pages(disk, &n);
    change_page(2);
    forget_log();
    write_page(disk, changed_page, old + changed_page * PAGE);
    free(old);
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(info.lost, 1);
    ck_assert_uint_eq(found.repair, 1);
    ck_assert_uint_eq(found.page, changed_page);
    expect_clean(true);
    expect_change(2);
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* Each call of the store fails in turn: the scrub returns the error, and accuses nothing. */
START_TEST(the_store_fails_at_each_call_of_a_scrub)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct found found = {0};
    o.finding = see;
    o.finding_ctx = &found;
    open_with_pages();
    for (uint64_t at = 1;; at++) {
        store.fail_at = store.calls + at;
        store.fired = 0;
        int rc = lladd_scrub(archive, &o, NULL, &err);
        store.fail_at = 0;
        ck_assert_uint_eq(found.damage + found.repair, 0);
        if (!store.fired) {
            OK(rc);
            ck_assert_uint_gt(at, 10);
            break;
        }
        /* An index that cannot be read is made again. */
        ck_assert(rc == 0 || rc == LLADD_STORE_FAILED);
    }
    unsigned char bytes[PAGE];
    memset(bytes, 0x5a, sizeof bytes);
    write_page(disk, bulk_page, bytes);
    found.stop = LLADD_TAKEN;
    ck_assert_int_eq(lladd_scrub(archive, &o, NULL, &err), LLADD_TAKEN);
    ck_assert_int_eq(lladd_scrub(NULL, &o, NULL, &err), LLADD_BAD_ARGUMENT);
    close_shop(false);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scrub");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_scrub_accuses_nothing);
    tcase_add_test(tc, a_scrub_leaves_pages_without_contents);
    tcase_add_test(tc, a_scrub_leaves_changes_of_an_earlier_use);
    tcase_add_test(tc, a_scrub_repairs);
    tcase_add_loop_test(tc, a_scrub_finds_lost_writes_of_earlier_runs, 0, 2);
    tcase_add_test(tc, a_scrub_writes_a_lost_page_again);
    tcase_add_test(tc, the_store_fails_at_each_call_of_a_scrub);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
