/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores to targets of a run that writes pages in bulk: blobs, raw extents and runs of dTables,
 * in pages that were used before. The test or the library makes the archive, out of the log and the
 * spools in files/ship.
 */
#include "calls.h"
#include "numbered.h"
#include "shop.h"
#include "spool_extension.h"

#include "ship/archive_private.h"

#include <check.h>
#include <lladd/bulk.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, MOST = 40 };

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct shop shop;
static struct run archived; /* only for its archive */
static struct lladd_error err;
static unsigned timeline; /* on which the test archives */

/* The state after each generation. */
static struct {
    uint64_t end;
    uint64_t gen[SHOP_WORKERS];
} states[MOST];
static unsigned n_states;

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memory_store_init(&store);
    n_states = timeline = 0;
    archived = (struct run){.store = &store, .segment = 1u << 16};
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

/* ---- a run ---------------------------------------------------------------------------------- */

static void open_shop(unsigned flags)
{
    shop_open_with(&shop, disk, LLADD_OPT_NO_THREADS | flags, &spool_extension);
    archived.options.device = disk;
    archived.db = shop.db;
}

static void note_state(void)
{
    ck_assert_uint_lt(n_states, MOST);
    states[n_states].end = lladd_durable_lsn(shop.db).v;
    shop_check(&shop, 0, states[n_states].gen);
    n_states++;
}

static void work(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        shop_work(&shop, i % WORKERS);
        note_state();
    }
}

static int store_spool(void *ctx, const char *name)
{
    char path[100], object[100];
    struct lladd_device *dev = archived.options.device;
    struct lladd_file *file;
    uint64_t size;
    (void)ctx;
    size_t len = strlen(name);
    if (len < 4 || strcmp(name + len - 4, ".blk") != 0)
        return 0;
    (void)snprintf(path, sizeof path, "files/ship/%s", name);
    (void)snprintf(object, sizeof object, "t%08x/bulk/%s", timeline, name);
    ck_assert_int_eq(dev->ops->open(dev, path, LLADD_OPEN_READ_ONLY, &file), 0);
    ck_assert_int_eq(dev->ops->size(dev, file, &size), 0);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
    unsigned char *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    run_read_file(dev, path, bytes, size);
    run_store_object(&archived, object, bytes, size);
    free(bytes);
    return 0;
}

/* Stores all spools, also those of transactions that have not committed, and then the log. */
static void archive(void)
{
    struct lladd_device *dev = archived.options.device;
    int rc = dev->ops->list(dev, "files/ship", store_spool, NULL);
    ck_assert_int_eq(rc, 0);
    run_archive(&archived, timeline);
}

/* ---- targets -------------------------------------------------------------------------------- */

static struct lladd_restore_options to_lsn(struct lladd_restore_target *t, uint64_t lsn)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    *t = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
    t->timeline = timeline;
    t->kind = LLADD_TO_LSN;
    t->lsn = lladd_lsn_of(lsn);
    o.target = t;
    return o;
}

static void check_gens(struct shop *opened, unsigned state)
{
    uint64_t gen[SHOP_WORKERS];
    shop_check(opened, 0, gen);
    for (unsigned k = 0; k < WORKERS; k++)
        ck_assert_uint_eq(gen[k], states[state].gen[k]);
}

static void look(uint64_t lsn, unsigned state)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, lsn);
    struct lladd_device *device, *overlay;
    struct shop opened;
    OK(lladd_store_device(&store.base, &o, &device, &err));
    shop_verify(device);
    ck_assert_int_eq(lladd_device_overlay(device, &overlay), 0);
    shop_open_with(&opened, overlay, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS, &spool_extension);
    check_gens(&opened, state);
    shop_kill(&opened);
    ck_assert_int_eq(lladd_store_device_error(device, NULL), 0);
    lladd_device_close(overlay);
    lladd_store_device_close(device);
}

static void restored(uint64_t lsn, unsigned state)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, lsn);
    struct shop opened;
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    shop_verify(copy);
    shop_open_with(&opened, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS, &spool_extension);
    check_gens(&opened, state);
    shop_work(&opened, 0);
    shop_close(&opened);
    shop_verify(copy);
}

static struct lladd_backup_info backed_up(void)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    OK(lladd_backup(shop.db, &store.base, NULL, &info, &err));
    return info;
}

/* Every generation as a target, and targets inside each of its transactions. The pages of a
 * generation were used by earlier ones, and some are used by later ones. */
START_TEST(every_generation_is_a_target)
{
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(4);
    struct lladd_backup_info info = backed_up();
    work(12);
    OK(lladd_checkpoint(shop.db, &err));
    work(6);
    archive();
    for (unsigned i = 4; i < n_states; i++) {
        uint64_t before = i == 4 ? info.end.v : states[i - 1].end;
        look(states[i].end, i);
        look(before + (states[i].end - before) / 2 / 8 * 8, i - 1);
        if (i % 5 == 0)
            restored(states[i].end, i);
    }
    shop_close(&shop);
}
END_TEST

/* A transaction writes in bulk, and is open at the target: its pages are not laid. */
START_TEST(pages_of_an_open_transaction_are_not_laid)
{
    struct lladd_txn *txn;
    static unsigned char bytes[5 * 4096];
    lladd_pageno first;
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(4);
    backed_up();
    work(4);
    memset(bytes, 0xee, sizeof bytes);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    ck_assert_int_eq(lladd_extent_alloc(txn, 5, LLADD_EXTENT_RAW, &first), 0);
    ck_assert_int_eq(lladd_bulk_write(txn, first, 5, NULL, bytes), 0);
    ck_assert_int_eq(lladd_bulk_sync(txn), 0);
    work(3);
    archive();
    ck_assert_int_eq(lladd_abort(txn), 0);
    /* The pages of the aborted transaction are used again. */
    work(6);
    archive();
    for (unsigned i = 7; i < n_states; i++)
        look(states[i].end, i);
    shop_close(&shop);
}
END_TEST

/* A transaction writes a page in bulk, logs a change of it, and commits after the backup. The page
 * in the backup has the change, and redo starts after the record of the change. So the older page
 * of the spool must not be laid over it. */
START_TEST(a_page_that_was_changed_since_stays)
{
    struct lladd_txn *txn;
    static unsigned char bytes[4096];
    lladd_pageno page;
    uint64_t changed = 0x0123456789abcdef, got = 0;
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(2);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    ck_assert_int_eq(lladd_extent_alloc(txn, 1, LLADD_EXTENT_BULK, &page), 0);
    ck_assert_int_eq(lladd_bulk_write(txn, page, 1, "lladd.bytes", bytes), 0);
    ck_assert_int_eq(lladd_bulk_sync(txn), 0);
    ck_assert_int_eq(lladd_bytes_set(txn, page, 100, &changed, sizeof changed), 0);
    OK(lladd_checkpoint(shop.db, &err));
    OK(lladd_checkpoint(shop.db, &err)); /* redo starts after the change */
    backed_up();
    ck_assert_int_eq(lladd_commit(txn), 0);
    work(2);
    archive();
    shop_close(&shop);
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, states[3].end);
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    shop_open_with(&shop, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS, &spool_extension);
    OK(lladd_bytes_get(shop.db, page, 100, &got, sizeof got, &err));
    ck_assert_uint_eq(got, changed);
    check_gens(&shop, 3);
    shop_close(&shop);
}
END_TEST

/* A transaction writes a page in bulk, and a rollback to a savepoint gives the page up. A second
 * transaction takes the page, fills it and commits. A backup follows, from which redo starts after
 * these changes. Then the first transaction commits. The page belongs to the second transaction, so
 * the spool of the first one must not be laid over it. */
START_TEST(a_page_that_another_transaction_has_taken_stays)
{
    struct lladd_txn *first, *second;
    static unsigned char bytes[4096], got[4096];
    lladd_savepoint_id before;
    lladd_pageno page, again;
    const char *type = _i == 2 ? "lladd.bytes" : NULL;
    uint64_t value = 0x0123456789abcdef, read = 0;
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(2);
    memset(bytes, 0x11, sizeof bytes);
    OK(lladd_begin(shop.db, NULL, &first, &err));
    ck_assert_int_eq(lladd_savepoint(first, &before), 0);
    unsigned flags = type ? LLADD_EXTENT_BULK : LLADD_EXTENT_RAW;
    ck_assert_int_eq(lladd_extent_alloc(first, 1, flags, &page), 0);
    ck_assert_int_eq(lladd_bulk_write(first, page, 1, type, bytes), 0);
    ck_assert_int_eq(lladd_bulk_sync(first), 0);
    ck_assert_int_eq(lladd_rollback_to(first, before), 0);
    memset(bytes, 0x22, sizeof bytes);
    OK(lladd_begin(shop.db, NULL, &second, &err));
    if (_i == 0) {
        ck_assert_int_eq(lladd_page_alloc(second, &again), 0);
        ck_assert_int_eq(lladd_bytes_format(second, again), 0);
        ck_assert_int_eq(lladd_bytes_set(second, again, 100, &value, sizeof value), 0);
    } else {
        ck_assert_int_eq(lladd_extent_alloc(second, 1, LLADD_EXTENT_RAW, &again), 0);
        ck_assert_int_eq(lladd_bulk_write(second, again, 1, NULL, bytes), 0);
        ck_assert_int_eq(lladd_bulk_sync(second), 0);
    }
    ck_assert_uint_eq(again.v, page.v);
    ck_assert_int_eq(lladd_commit(second), 0);
    OK(lladd_checkpoint(shop.db, &err));
    OK(lladd_checkpoint(shop.db, &err)); /* redo starts after the change */
    backed_up();
    ck_assert_int_eq(lladd_commit(first), 0);
    work(2);
    archive();
    shop_close(&shop);
    struct lladd_restore_target t;
    struct lladd_restore_options o = to_lsn(&t, states[3].end);
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    shop_open_with(&shop, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS, &spool_extension);
    OK(lladd_pin_clear(shop.db, "all the log", &err));
    shop_work(&shop, 0);
    OK(lladd_checkpoint(shop.db, &err)); /* no log is left to repair the page from */
    if (_i == 0) {
        OK(lladd_bytes_get(shop.db, page, 100, &read, sizeof read, &err));
        ck_assert_uint_eq(read, value);
    } else {
        OK(lladd_bulk_read(shop.db, page, 1, true, got, &err));
        ck_assert_mem_eq(got, bytes, sizeof got);
    }
    shop_close(&shop);
}
END_TEST

static void name_of_last_spool(char out[200])
{
    *out = 0;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, "/bulk/") && strcmp(store.objects[i].name, out) > 0)
            memcpy(out, store.objects[i].name, 200);
}

/* Without the spool of a transaction, targets from its commit on are refused, and those below are
 * not. Damage in the spool is reported with its name. */
START_TEST(a_missing_or_damaged_spool)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o;
    struct lladd_device *device;
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(4);
    backed_up();
    work(6);
    archive();
    shop_close(&shop);
    char last[200];
    name_of_last_spool(last);
    struct memory_object *spool = memory_store_find(&store, last);
    ck_assert_ptr_nonnull(spool);
    o = to_lsn(&t, states[9].end);
    for (size_t at = 0; at < spool->len; at += spool->len / 23 + 1) {
        spool->bytes[at] ^= 4;
        ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_CORRUPT_BACKUP);
        ck_assert_msg(strstr(err.message, last), "%s", err.message);
        spool->bytes[at] ^= 4;
    }
    look(states[9].end, 9);
    spool->name[0] = '#';
    ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_OUT_OF_RANGE);
    ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    look(states[8].end, 8);
    spool->name[0] = last[0];
    /* A byte of a page is damaged after the device was opened. */
    OK(lladd_store_device(&store.base, &o, &device, &err));
    spool->bytes[spool->len / 2] ^= 4;
    struct lladd_file *pages;
    uint64_t size;
    static unsigned char page[4096];
    ck_assert_int_eq(device->ops->open(device, "pages", LLADD_OPEN_READ_ONLY, &pages), 0);
    ck_assert_int_eq(device->ops->size(device, pages, &size), 0);
    bool refused = false;
    for (uint64_t at = 0; at < size; at += sizeof page)
        refused = device->ops->pread(device, pages, page, sizeof page, at) < 0 || refused;
    ck_assert_int_eq(device->ops->close(device, pages), 0);
    ck_assert(refused);
    ck_assert_int_eq(lladd_store_device_error(device, &err), LLADD_CORRUPT_BACKUP);
    ck_assert_msg(strstr(err.message, last), "%s", err.message);
    lladd_store_device_close(device);
}
END_TEST

/* A copy of a database has its origin's LSNs again from the fork on, so a transaction of the copy
 * and one of the origin may have one number. The spool of the origin is not taken for a missing one
 * of the copy. */
START_TEST(a_spool_of_another_timeline_is_not_taken)
{
    struct lladd_restore_target t;
    struct lladd_device *device;
    char last[200];
    open_shop(0);
    OK(lladd_pin_set(shop.db, "all the log", lladd_lsn_of(8), &err));
    work(4);
    backed_up();
    work(4);
    archive();
    shop_close(&shop);
    struct lladd_restore_options o = to_lsn(&t, states[6].end);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    timeline = 1;
    n_states = 7;
    shop_open_with(&shop, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS, &spool_extension);
    archived.options.device = copy;
    archived.db = shop.db;
    work(3);
    archive();
    shop_close(&shop);
    /* The pages of the targets are in spools of both timelines. */
    for (unsigned i = 5; i < n_states; i++)
        look(states[i].end, i);
    name_of_last_spool(last);
    ck_assert_int_eq(strncmp(last, "t00000001/", 10), 0);
    struct memory_object *spool = memory_store_find(&store, last);
    ck_assert_ptr_nonnull(spool);
    memcpy(spool->name, "t00000000/", 10);
    o = to_lsn(&t, states[9].end);
    ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_OUT_OF_RANGE);
    ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    look(states[8].end, 8);
}
END_TEST

/* ---- the library archives ------------------------------------------------------------------- */

static struct lladd_archive *archiver;

static void open_archived(struct lladd_device *dev)
{
    OK(ll_ship_archive_new(&store.base, NULL, &archiver, &err));
    shop_open_with(&shop, dev, LLADD_OPT_NO_THREADS, &archiver->ext);
}

static void close_archived(bool kill)
{
    if (kill)
        shop_kill(&shop);
    else
        shop_close(&shop);
    lladd_archive_free(archiver);
    archiver = NULL;
}

/* Returns the first error of a step. */
static int try_to_archive(void)
{
    bool more = true;
    int rc = 0;
    while (more && !rc)
        rc = lladd_archive_step(archiver, &more, &err);
    return rc;
}

static struct lladd_archive_status status(void)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    OK(lladd_archive_status_get(archiver, &s, &err));
    return s;
}

struct files {
    unsigned n;
    char last[100];
};

static int see_spool(void *ctx, const char *name)
{
    struct files *f = ctx;
    size_t len = strlen(name);
    if (len < 4 || strcmp(name + len - 4, ".blk") != 0)
        return 0;
    f->n++;
    if (strcmp(name, f->last) > 0)
        (void)snprintf(f->last, sizeof f->last, "%s", name);
    return 0;
}

static struct files spools(struct lladd_device *dev)
{
    struct files f = {0, ""};
    ck_assert_int_eq(dev->ops->list(dev, "files/ship", see_spool, &f), 0);
    return f;
}

/* A transaction that writes in bulk and is open. */
static struct lladd_txn *open_writer(void)
{
    struct lladd_txn *txn;
    static unsigned char bytes[5 * 4096];
    lladd_pageno first;
    memset(bytes, 0xee, sizeof bytes);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    ck_assert_int_eq(lladd_extent_alloc(txn, 5, LLADD_EXTENT_RAW, &first), 0);
    ck_assert_int_eq(lladd_bulk_write(txn, first, 5, NULL, bytes), 0);
    return txn;
}

START_TEST(the_archive_stores_the_spools)
{
    open_archived(disk);
    OK(try_to_archive());
    work(4);
    struct lladd_backup_info info = backed_up();
    for (unsigned i = 0; i < 12; i++) {
        work(1);
        if (i % 3 == 0)
            ck_assert_int_eq(lladd_abort(open_writer()), 0);
        if (i % 2)
            OK(try_to_archive());
        ck_assert_int_eq(status().spool_bytes == 0, i % 2);
    }
    ck_assert(!status().gap);
    ck_assert_uint_eq(spools(disk).n, 0);
    for (unsigned i = 4; i < n_states; i++) {
        uint64_t before = i == 4 ? info.end.v : states[i - 1].end;
        look(states[i].end, i);
        look(before + (states[i].end - before) / 2 / 8 * 8, i - 1);
    }
    restored(states[15].end, 15);
    close_archived(false);
}
END_TEST

/* A call of the store fails, alone or with all later ones, before or after it has had its effect;
 * then the process goes on, or dies, also between the puts of a spool and of the log with its
 * commit. Later steps store all. */
START_TEST(the_store_fails_while_spools_are_stored)
{
    bool lost = _i & 1, dies = _i & 2, fired = true;
    for (uint64_t n = 1; fired; n += 1 + n / 12) {
        teardown();
        setup();
        open_archived(disk);
        OK(try_to_archive());
        work(3);
        backed_up();
        store.fail_at = store.calls + n;
        store.fail_on = dies;
        store.lost = lost;
        for (unsigned i = 0; i < 4; i++) {
            work(1);
            int rc = try_to_archive();
            ck_assert(rc == 0 || (store.fired && rc == LLADD_STORE_FAILED));
        }
        fired = store.fired != 0;
        store.fail_at = 0;
        if (dies) {
            close_archived(true);
            open_archived(disk);
        }
        work(1);
        OK(try_to_archive());
        ck_assert(!status().gap);
        ck_assert_uint_eq(spools(disk).n, 0);
        for (unsigned i = 3; i < n_states; i += 2)
            look(states[i].end, i);
        close_archived(false);
    }
}
END_TEST

/* The file of a spool is gone before it was stored. That is a gap: targets above its commit are
 * refused, until a new backup is made. */
START_TEST(a_spool_that_is_lost_is_a_gap)
{
    struct lladd_restore_target t;
    struct lladd_restore_options o;
    struct lladd_device *device;
    char path[200];
    open_archived(disk);
    work(4);
    backed_up();
    work(1);
    OK(try_to_archive());
    work(1);
    (void)snprintf(path, sizeof path, "files/ship/%s", spools(disk).last);
    ck_assert_int_eq(disk->ops->unlink(disk, path), 0);
    work(14); /* so that the segment becomes full */
    OK(try_to_archive());
    struct lladd_archive_status s = status();
    ck_assert(s.gap);
    ck_assert_uint_gt(s.gap_from.v, states[4].end);
    ck_assert_uint_lt(s.gap_from.v, states[5].end);
    backed_up();
    work(2);
    OK(try_to_archive());
    close_archived(false);
    look(states[4].end, 4);
    o = to_lsn(&t, states[5].end);
    ck_assert_int_eq(lladd_store_device(&store.base, &o, &device, &err), LLADD_OUT_OF_RANGE);
    ck_assert_msg(strstr(err.message, "wrote in bulk"), "%s", err.message);
    look(states[n_states - 1].end, n_states - 1);
}
END_TEST

/* A crash leaves the spool of a transaction that recovery rolls back. It is deleted when the log
 * with the END record of the rollback is stored. */
START_TEST(the_spool_of_a_rolled_back_transaction_goes)
{
    open_archived(disk);
    work(2);
    OK(try_to_archive());
    ck_assert_ptr_nonnull(open_writer());
    work(1); /* so that the open writer's log is durable */
    OK(try_to_archive());
    ck_assert_uint_eq(spools(disk).n, 1);
    close_archived(true);
    open_archived(disk);
    ck_assert_uint_eq(spools(disk).n, 1);
    ck_assert_uint_gt(status().spool_bytes, 5 * 4096);
    work(14);
    OK(try_to_archive());
    ck_assert_uint_eq(spools(disk).n, 0);
    ck_assert_uint_eq(status().spool_bytes, 0);
    close_archived(false);
}
END_TEST

/* After the archive was detached, only a transaction that has a spool goes on with it. */
START_TEST(a_detached_archive_has_no_spools)
{
    open_archived(disk);
    work(3);
    struct lladd_txn *txn = open_writer();
    ck_assert_uint_gt(spools(disk).n, 1);
    OK(lladd_archive_detach(archiver, &err));
    ck_assert_uint_eq(spools(disk).n, 1);
    work(3);
    ck_assert_uint_eq(spools(disk).n, 1);
    ck_assert_int_eq(lladd_commit(txn), 0);
    close_archived(false);
}
END_TEST

/* The log of a database that no process has open is stored with its spools. */
START_TEST(spools_of_a_closed_database_are_pushed)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    open_archived(disk);
    OK(try_to_archive());
    work(3);
    backed_up();
    work(5);
    close_archived(_i == 0);
    unsigned n = spools(disk).n;
    ck_assert_uint_gt(n, 4);
    OK(lladd_archive_push(disk, &store.base, NULL, &s, &err));
    ck_assert(!s.gap);
    ck_assert_uint_eq(spools(disk).n, n);
    for (unsigned i = 3; i < n_states; i++)
        look(states[i].end, i);
    open_archived(disk);
    work(1);
    OK(try_to_archive());
    ck_assert(!status().gap);
    ck_assert_uint_eq(spools(disk).n, 0);
    close_archived(false);
    look(states[8].end, 8);
}
END_TEST

/* A restored copy archives on its own timeline. Its log begins with a part of its origin's log; the
 * spools of the transactions there are those that the origin has stored. */
START_TEST(a_restored_copy_stores_its_own_spools)
{
    struct lladd_restore_target t;
    open_archived(disk);
    OK(try_to_archive());
    work(4);
    backed_up();
    work(4);
    OK(try_to_archive());
    close_archived(false);
    struct lladd_restore_options o = to_lsn(&t, states[6].end);
    OK(lladd_restore(&store.base, &o, copy, NULL, &err));
    timeline = 1;
    n_states = 7;
    open_archived(copy);
    work(16);
    OK(try_to_archive());
    ck_assert(!status().gap);
    ck_assert_ptr_nonnull(memory_store_find(&store, "t00000001/bulk/"));
    close_archived(false);
    for (unsigned i = 5; i < n_states; i++)
        look(states[i].end, i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("laid");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_generation_is_a_target);
    tcase_add_test(tc, pages_of_an_open_transaction_are_not_laid);
    tcase_add_test(tc, a_page_that_was_changed_since_stays);
    tcase_add_loop_test(tc, a_page_that_another_transaction_has_taken_stays, 0, 3);
    tcase_add_test(tc, a_missing_or_damaged_spool);
    tcase_add_test(tc, a_spool_of_another_timeline_is_not_taken);
    tcase_add_test(tc, the_archive_stores_the_spools);
    tcase_add_loop_test(tc, the_store_fails_while_spools_are_stored, 0, 4);
    tcase_add_test(tc, a_spool_that_is_lost_is_a_gap);
    tcase_add_test(tc, the_spool_of_a_rolled_back_transaction_goes);
    tcase_add_test(tc, a_detached_archive_has_no_spools);
    tcase_add_loop_test(tc, spools_of_a_closed_database_are_pushed, 0, 2);
    tcase_add_test(tc, a_restored_copy_stores_its_own_spools);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
