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
#include <lladd/sync.h>
#include <stdio.h>
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
    ck_assert_uint_le(info.pages, lladd_page_count(shop.db));
    ck_assert_uint_eq(info.damaged + info.lost, found->damage + found->repair - info.repaired);
    return info;
}

static void expect_clean(bool compared)
{
    struct found found;
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(found.damage + found.repair, 0);
    ck_assert_uint_eq(info.pages, lladd_page_count(shop.db));
    ck_assert(info.compared == compared);
}

/* What a verification of the closed database finds. It changes nothing. */
static struct lladd_scrub_info verified(struct lladd_device *dev, struct found *found)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct lladd_scrub_info info = {.struct_size = sizeof info};
    struct lladd_device *overlay;
    struct shop peek;
    uint64_t n, more;
    size_t objects = store.n;
    unsigned char *before = read_pages(dev, &n);
    *found = (struct found){0};
    o.finding = see;
    o.finding_ctx = found;
    ck_assert_int_eq(lladd_device_overlay(dev, &overlay), 0);
    shop_open_as(&peek, overlay, LLADD_OPT_NO_THREADS, NULL, LLADD_RECOVER_INSTANT);
    OK(lladd_archive_verify(peek.db, dev, &store.base, &o, &info, &err));
    shop_kill(&peek);
    lladd_device_close(overlay);
    unsigned char *after = read_pages(dev, &more);
    ck_assert_uint_eq(n, more);
    ck_assert_mem_eq(before, after, n * PAGE);
    free(before);
    free(after);
    ck_assert_uint_eq(store.n, objects);
    ck_assert_uint_eq(info.pages, n);
    ck_assert_uint_eq(info.lost, found->damage + found->repair);
    return info;
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
        if (i % 3 == 2) {
            struct found found;
            close_shop(i % 2);
            ck_assert_uint_eq(verified(disk, &found).lost, 0);
            open_shop(disk, i % 4 == 1);
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

/* The disk has lost the last write of page i: `old` is what it has. The page is in use. */
static bool lose(uint64_t i, const unsigned char *old)
{
    enum lladd_page_use use;
    OK(lladd_page_use_get(shop.db, lladd_page_of(i), &use, &err));
    if (use != LLADD_USE_PAGED || lladd_pages_discard(shop.db, lladd_page_of(i), 1) != 0)
        return false;
    write_page(disk, i, old + i * PAGE);
    return true;
}

static void kill_shop(void)
{
    close_shop(true);
}

/* Page i has lost a write. Both ways of looking find that; the scrub repairs it. Returns false if
 * the page was taken and is not formatted yet: then it has lost nothing. */
static bool expect_found(uint64_t i)
{
    struct found found, closed;
    kill_shop();
    struct lladd_scrub_info seen = verified(disk, &closed);
    open_shop(disk, false);
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_le(info.lost, 1);
    ck_assert_uint_eq(seen.lost, info.lost);
    ck_assert_uint_eq(closed.damage, info.lost);
    ck_assert_uint_eq(found.repair, info.lost);
    ck_assert_uint_eq(info.repaired + info.damaged, 0);
    ck_assert(!info.lost || (found.page == i && closed.page == i));
    if (info.lost)
        expect_clean(true);
    return info.lost != 0;
}

static void overwrite_bulk_page(void)
{
    static unsigned char bytes[PAGE];
    struct lladd_txn *txn;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    memset(bytes, 0x44, sizeof bytes);
    TXN(lladd_bulk_write(txn, lladd_page_of(bulk_page), 1, "lladd.bytes", bytes));
    TXN(lladd_bulk_sync(txn));
    ck_assert_int_eq(lladd_commit(txn), 0);
}

/* The disk has lost the last write of a page, and the database was closed since. The page is whole,
 * and the log that had the change is recycled. */
START_TEST(a_scrub_finds_lost_writes_of_earlier_runs)
{
    unsigned char uuid[16];
    uint64_t n, more;
    unsigned tried = 0;
    open_with_pages();
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    overwrite_bulk_page();
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
    ck_assert_mem_ne(old + bulk_page * PAGE, now + bulk_page * PAGE, PAGE);
    for (uint64_t i = 1; i < n; i++) {
        if (!is_typed(uuid, old, i) || !is_typed(uuid, now, i) ||
            memcmp(old + i * PAGE, now + i * PAGE, PAGE) == 0)
            continue;
        open_shop(disk, false);
        if (lose(i, old)) {
            bool found = expect_found(i);
            ck_assert(found || (i != changed_page && i != bulk_page));
            tried += found;
        }
        if (i == changed_page)
            expect_change(2);
        kill_shop();
        write_page(disk, i, now + i * PAGE);
    }
    ck_assert_uint_gt(tried, 5);
    free(old);
    free(now);
}
END_TEST

/* The first object of the transaction's spool. */
static struct memory_object *spool_of(uint64_t txn)
{
    char name[100];
    (void)snprintf(name, sizeof name, "/bulk/%016llx", (unsigned long long)txn);
    struct memory_object *o = memory_store_find(&store, name);
    ck_assert_ptr_nonnull(o);
    return o;
}

/* Nothing has what the page needs: it is reported, and stays as it is. When the spool is back, the
 * page is repaired. */
START_TEST(a_lost_write_that_nothing_can_repair)
{
    struct found found;
    uint64_t n;
    open_with_pages();
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    ck_assert(lose(changed_page, old));
    kill_shop(); /* the run that has written the page knows that */
    open_shop(disk, false);
    struct memory_object *o = spool_of(bulk_txn);
    char kept = o->name[0];
    o->name[0] = '#';
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(info.lost, 1);
    ck_assert_uint_eq(found.damage, 1);
    ck_assert_uint_eq(found.page, changed_page);
    ck_assert_int_eq(lladd_page_rebuild(shop.db, lladd_page_of(changed_page), &err),
                     LLADD_CORRUPT_PAGE);
    ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    expect_change(1);
    o->name[0] = kept;
    OK(lladd_page_rebuild(shop.db, lladd_page_of(changed_page), &err));
    expect_change(2);
    OK(lladd_page_rebuild(shop.db, lladd_page_of(bulk_page), &err)); /* it lacks nothing */
    expect_clean(true);
    free(old);
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* A page that was changed after its lost write is not too old. The change expects the version that
 * was lost, so nothing is guessed. */
START_TEST(a_change_of_a_page_with_a_lost_write)
{
    uint64_t n;
    open_with_pages();
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    ck_assert(lose(changed_page, old));
    free(old);
    kill_shop();
    open_shop(disk, false);
    change_page(3);
    forget_log();
    expect_clean(true);
    ck_assert_int_eq(lladd_page_rebuild(shop.db, lladd_page_of(changed_page), &err),
                     LLADD_CORRUPT_PAGE);
    expect_change(3);
    close_shop(false);
}
END_TEST

/* ---- raw pages ------------------------------------------------------------------------------ */

static lladd_pageno raw_page(struct lladd_txn *txn, const lladd_pageno *known, int byte)
{
    static unsigned char bytes[2 * PAGE];
    lladd_pageno page = known ? *known : lladd_page_of(0);
    if (!known)
        TXN(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &page));
    memset(bytes, byte, sizeof bytes);
    TXN(lladd_bulk_write(txn, page, 2, NULL, bytes));
    TXN(lladd_bulk_sync(txn));
    return page;
}

static uint64_t raw_txn;

static lladd_pageno write_raw(const lladd_pageno *known, int byte)
{
    struct lladd_txn *txn;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    lladd_pageno page = raw_page(txn, known, byte);
    raw_txn = lladd_txn_id(txn).v;
    ck_assert_int_eq(lladd_commit(txn), 0);
    return page;
}

#ifdef LL_TEST_SHORT
enum { SCRUBS = 4, WORKS = 15, WRITES = 400 };
#else
enum { SCRUBS = 8, WORKS = 60, WRITES = 2000 };
#endif

static uint32_t working;

static void *work_often(void *k)
{
    for (unsigned i = 0; i < WORKS && lladd_atomic_load32(&working); i++)
        shop_work(&shop, (unsigned)(uintptr_t)k);
    return NULL;
}

static void *overwrite(void *page)
{
    const lladd_pageno raw = lladd_page_of((uintptr_t)page);
    for (int i = 0; i < WRITES && lladd_atomic_load32(&working); i++)
        write_raw(&raw, i % 256);
    return NULL;
}

/* Threads write all kinds of pages, and the archive's thread stores the log, while pages are
 * compared again and again. */
START_TEST(a_scrub_under_writers)
{
    struct lladd_thread threads[WORKERS] = {{0}}, over = {0};
    open_shop_as(disk, 0, false);
    work(4);
    uintptr_t raw = write_raw(NULL, 0).v;
    backed_up();
    lladd_atomic_store32(&working, 1);
    ck_assert_int_eq(lladd_thread_start(&over, overwrite, (void *)raw), 0);
    for (uintptr_t k = 0; k < WORKERS; k++)
        ck_assert_int_eq(lladd_thread_start(&threads[k], work_often, (void *)k), 0);
    for (unsigned i = 0; i < SCRUBS; i++) {
        struct found found;
        (void)scrub(&found);
        ck_assert_uint_eq(found.damage + found.repair, 0);
        if (i == SCRUBS / 2 - 1)
            backed_up();
    }
    lladd_atomic_store32(&working, 0);
    lladd_thread_join(&over);
    for (unsigned k = 0; k < WORKERS; k++)
        lladd_thread_join(&threads[k]);
    shop_check(&shop, 0, gens);
    close_shop(false);
    shop_verify(disk);
}
END_TEST

/* The second page of the extent has other bytes in the file. Scrub and verification find it, and
 * the archive has the right bytes. */
static void expect_raw(lladd_pageno page, int byte)
{
    static unsigned char want[PAGE], got[PAGE], wrong[PAGE];
    struct found found, closed;
    struct lladd_scrub_info info;
    memset(want, byte, sizeof want);
    memset(wrong, byte + 1, sizeof wrong);
    expect_clean(true);
    write_page(disk, page.v + 1, wrong);
    kill_shop();
    info = verified(disk, &closed);
    ck_assert_uint_eq(info.lost, 1);
    open_shop(disk, false);
    info = scrub(&found);
    ck_assert_uint_eq(info.lost, 1);
    ck_assert_uint_eq(closed.damage, 1);
    ck_assert_uint_eq(found.damage, 1);
    ck_assert_uint_eq(found.page, page.v + 1);
    OK(lladd_page_from_archive(archive, lladd_page_of(page.v + 1), got, &err));
    ck_assert_mem_eq(got, want, PAGE);
    write_page(disk, page.v + 1, got);
    expect_clean(true);
}

/* A raw page has no LSN. Its bytes must be those of the spool, on the disk or stored, or those of
 * the backup. */
START_TEST(raw_pages_are_compared_by_their_bytes)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    open_with_pages();
    page = write_raw(NULL, 0x11);
    expect_raw(page, 0x11);
    write_raw(&page, 0x21);
    expect_raw(page, 0x21);
    store_log();
    expect_raw(page, 0x21);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    expect_raw(page, 0x21);
    backed_up();
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    expect_raw(page, 0x21);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    raw_page(txn, &page, 0x31);
    expect_clean(true); /* the write of a transaction that has not ended is no damage */
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_raw(page, 0x31);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    raw_page(txn, &page, 0x41);
    ck_assert_int_eq(lladd_abort(txn), 0);
    expect_clean(true); /* a rollback does not restore raw pages */
    close_shop(false);
    struct found found;
    ck_assert_uint_eq(verified(disk, &found).lost, 0);
}
END_TEST

START_TEST(a_raw_page_that_the_archive_cannot_give)
{
    static unsigned char got[PAGE];
    open_shop(disk, false);
    work(2);
    lladd_pageno page = write_raw(NULL, 0x11);
    ck_assert_int_eq(lladd_page_from_archive(archive, page, got, &err), LLADD_NOT_FOUND);
    backed_up();
    write_raw(&page, 0x21);
    uint64_t txn = raw_txn;
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    struct memory_object *o = spool_of(txn);
    char kept = o->name[0];
    o->name[0] = '#';
    ck_assert_int_eq(lladd_page_from_archive(archive, page, got, &err), LLADD_NOT_FOUND);
    ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    o->name[0] = kept;
    OK(lladd_page_from_archive(archive, page, got, &err));
    ck_assert_int_eq(got[7], 0x21);
    ck_assert_int_eq(lladd_page_from_archive(NULL, page, got, &err), LLADD_BAD_ARGUMENT);
    close_shop(false);
}
END_TEST

/* ---- "pages.idx" ---------------------------------------------------------------------------- */

/* Changes the last backup to one of version 1, which has no entries of pages. */
static void make_earlier(void)
{
    unsigned long long frames;
    unsigned crc;
    struct memory_object *o = last_object("/manifest"), *index = last_object("/pages.idx");
    char *text = (char *)o->bytes, *at, *end;
    text[o->len] = 0; /* the store leaves room */
    ck_assert_int_eq(strncmp(text, "LLADD backup 2\n", 15), 0);
    at = strstr(text, "\nentries ");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(strstr(text, "\nindex "), "\nindex %llu %x", &frames, &crc), 2);
    end = strchr(at + 1, '\n');
    text[13] = '1';
    memmove(at, end, o->len - (size_t)(end - text));
    o->len -= (size_t)(end - at);
    (void)snprintf(text + o->len - 9, 10, "%08x\n", lladd_crc32c(0, text, o->len - 13));
    ck_assert_uint_lt(frames, index->len);
    index->len = frames;
}

/* A backup of an earlier version is read whole, and says the same. */
START_TEST(a_backup_without_entries_of_pages)
{
    struct found found;
    uint64_t n;
    open_with_pages();
    lladd_pageno raw = write_raw(NULL, 0x11);
    close_shop(false);
    unsigned char *old = read_pages(disk, &n);
    open_shop(disk, false);
    change_page(2);
    backed_up();
    make_earlier();
    for (unsigned i = 0; i < 3; i++)
        forget_log();
    expect_clean(true);
    ck_assert(lose(changed_page, old));
    struct lladd_scrub_info info = scrub(&found);
    ck_assert_uint_eq(info.lost, 1);
    ck_assert_uint_eq(found.repair, 1);
    ck_assert_uint_eq(found.page, changed_page);
    expect_change(2);
    expect_raw(raw, 0x11);
    OK(lladd_restore(&store.base, NULL, copy, NULL, &err));
    free(old);
    close_shop(false);
    shop_verify(copy);
}
END_TEST

/* Damage of each part of the index is found, and accuses no page. */
START_TEST(damage_of_the_index_of_pages)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct found found = {0};
    o.finding = see;
    o.finding_ctx = &found;
    open_with_pages();
    struct memory_object *index = last_object("/pages.idx");
    for (size_t at = 0; at < index->len; at += 1 + index->len / 50) {
        index->bytes[at] ^= 0x10;
        ck_assert_int_eq(lladd_scrub(archive, &o, NULL, &err), LLADD_CORRUPT_BACKUP);
        ck_assert_msg(strstr(err.message, "pages.idx"), "%s", err.message);
        index->bytes[at] ^= 0x10;
    }
    index->len--;
    ck_assert_int_eq(lladd_scrub(archive, &o, NULL, &err), LLADD_CORRUPT_BACKUP);
    index->len++;
    ck_assert_uint_eq(found.damage + found.repair, 0);
    expect_clean(true);
    close_shop(false);
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

/* The same for a verification. */
START_TEST(the_store_fails_at_each_call_of_a_verification)
{
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    struct lladd_device *overlay;
    struct found found = {0};
    struct shop peek;
    o.finding = see;
    o.finding_ctx = &found;
    open_with_pages();
    write_raw(NULL, 0x11);
    close_shop(true);
    ck_assert_int_eq(lladd_device_overlay(disk, &overlay), 0);
    shop_open_as(&peek, overlay, LLADD_OPT_NO_THREADS, NULL, LLADD_RECOVER_INSTANT);
    for (uint64_t at = 1;; at++) {
        store.fail_at = store.calls + at;
        store.fired = 0;
        int rc = lladd_archive_verify(peek.db, disk, &store.base, &o, NULL, &err);
        store.fail_at = 0;
        ck_assert_uint_eq(found.damage + found.repair, 0);
        if (!store.fired) {
            OK(rc);
            ck_assert_uint_gt(at, 10);
            break;
        }
        ck_assert(rc == 0 || rc == LLADD_STORE_FAILED);
    }
    ck_assert_int_eq(lladd_archive_verify(NULL, disk, &store.base, &o, NULL, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(
        lladd_archive_verify(peek.db, lladd_db_device(peek.db), &store.base, &o, NULL, &err),
        LLADD_BAD_ARGUMENT);
    shop_kill(&peek);
    lladd_device_close(overlay);
}
END_TEST

/* And for a raw page. */
START_TEST(the_store_fails_at_each_call_for_a_raw_page)
{
    static unsigned char got[PAGE];
    open_with_pages();
    lladd_pageno page = write_raw(NULL, 0x11);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    for (uint64_t at = 1;; at++) {
        memset(got, 0, sizeof got);
        store.fail_at = store.calls + at;
        store.fired = 0;
        int rc = lladd_page_from_archive(archive, page, got, &err);
        store.fail_at = 0;
        if (rc == 0)
            ck_assert_int_eq(got[PAGE - 1], 0x11);
        else
            ck_assert_int_eq(rc, LLADD_STORE_FAILED);
        if (!store.fired) {
            OK(rc);
            ck_assert_uint_gt(at, 10);
            break;
        }
    }
    close_shop(false);
    ck_assert_int_eq(lladd_page_from_archive(NULL, page, got, &err), LLADD_BAD_ARGUMENT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scrub");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_scrub_accuses_nothing);
    tcase_add_test(tc, a_scrub_leaves_pages_without_contents);
    tcase_add_test(tc, a_scrub_leaves_changes_of_an_earlier_use);
    tcase_add_test(tc, a_scrub_repairs);
    tcase_add_loop_test(tc, a_scrub_finds_lost_writes_of_earlier_runs, 0, 2);
    tcase_add_test(tc, a_scrub_writes_a_lost_page_again);
    tcase_add_test(tc, a_lost_write_that_nothing_can_repair);
    tcase_add_test(tc, a_change_of_a_page_with_a_lost_write);
    tcase_add_test(tc, a_backup_without_entries_of_pages);
    tcase_add_test(tc, damage_of_the_index_of_pages);
    tcase_add_test(tc, raw_pages_are_compared_by_their_bytes);
    tcase_add_test(tc, a_raw_page_that_the_archive_cannot_give);
    tcase_add_test(tc, the_store_fails_at_each_call_of_a_scrub);
    tcase_add_test(tc, the_store_fails_at_each_call_of_a_verification);
    tcase_add_test(tc, the_store_fails_at_each_call_for_a_raw_page);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(threads, a_scrub_under_writers);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
