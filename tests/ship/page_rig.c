/* SPDX-License-Identifier: BSD-2-Clause */
#include "page_rig.h"

#include "support/fixtures.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

struct memory_store store;
struct lladd_store *used; /* by the archive */
struct lladd_device *disk, *copy;
struct shop shop;
struct lladd_archive *archive;
struct lladd_error err;
uint64_t gens[SHOP_WORKERS];

void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memory_store_init(&store);
    used = &store.base;
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

void open_shop_as(struct lladd_device *dev, unsigned flags, bool instant)
{
    struct lladd_archive_options o = LLADD_ARCHIVE_OPTIONS_INIT;
    o.thread = !(flags & LLADD_OPT_NO_THREADS);
    o.piece_ns = 1000000;
    OK(ll_ship_archive_new(used, &o, &archive, &err));
    shop_open_as(&shop, dev, flags | LLADD_OPT_ATOMIC_PAGES, &archive->ext,
                 instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL);
}

void open_shop(struct lladd_device *dev, bool instant)
{
    open_shop_as(dev, LLADD_OPT_NO_THREADS, instant);
}

void close_shop(bool kill)
{
    if (kill)
        shop_kill(&shop);
    else
        shop_close(&shop);
    lladd_archive_free(archive);
    archive = NULL;
}

void store_log(void)
{
    bool more = true;
    while (more)
        OK(lladd_archive_step(archive, &more, &err));
}

struct lladd_stats stats(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(shop.db, &s), 0);
    return s;
}

struct lladd_archive_status status(void)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    OK(lladd_archive_status_get(archive, &s, &err));
    return s;
}

uint64_t backed_up(void)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_store *own = archive->store; /* one call at a time */
    OK(lladd_backup(shop.db, own, NULL, &info, &err));
    return info.end.v;
}

void work(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        shop_work(&shop, i % WORKERS);
}

void forget_log(void)
{
    store_log();
    for (unsigned i = 0; i < 3; i++)
        OK(lladd_checkpoint(shop.db, &err));
}

/* ---- damage --------------------------------------------------------------------------------- */

unsigned char *read_pages(struct lladd_device *dev, uint64_t *n)
{
    struct lladd_file *file;
    ck_assert_int_eq(dev->ops->open(dev, "pages", LLADD_OPEN_READ_ONLY, &file), 0);
    ck_assert_int_eq(dev->ops->size(dev, file, n), 0);
    unsigned char *bytes = malloc(*n);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(dev->ops->pread(dev, file, bytes, *n, 0), (int64_t)*n);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
    *n /= PAGE;
    return bytes;
}

void write_page(struct lladd_device *dev, uint64_t page, const void *bytes)
{
    struct lladd_file *file;
    struct lladd_iovec piece = {bytes, PAGE};
    ck_assert_int_eq(dev->ops->open(dev, "pages", 0, &file), 0);
    ck_assert_int_eq(dev->ops->pwritev(dev, file, &piece, 1, page * PAGE), 0);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

bool is_typed(const unsigned char uuid[16], const unsigned char *pages, uint64_t page)
{
    const unsigned char *p = pages + page * PAGE;
    return lladd_get64(p + 8) != 0 && ll_ship_page_ok(uuid, page, p, PAGE);
}

void uuid_of(struct lladd_device *dev, unsigned char uuid[16])
{
    unsigned char control[LL_SHIP_CONTROL];
    OK(ll_ship_control_read(dev, control, &err));
    ll_ship_control_uuid(control, uuid);
}

unsigned damage_all(struct lladd_device *dev)
{
    unsigned char uuid[16], bytes[PAGE];
    uint64_t n;
    unsigned damaged = 0;
    unsigned char *pages = read_pages(dev, &n);
    uuid_of(dev, uuid);
    memset(bytes, 0xe7, sizeof bytes);
    for (uint64_t i = 0; i < n; i++)
        if (is_typed(uuid, pages, i)) {
            write_page(dev, i, bytes);
            damaged++;
        }
    free(pages);
    ck_assert_uint_gt(damaged, 20);
    return damaged;
}

uint64_t bulk_page, bulk_txn, changed_page;

void make_bulk_page(void)
{
    static unsigned char bytes[PAGE];
    struct lladd_txn *txn;
    lladd_pageno page;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_extent_alloc(txn, 1, LLADD_EXTENT_BULK, &page));
    memset(bytes, 0x33, sizeof bytes);
    TXN(lladd_bulk_write(txn, page, 1, "lladd.bytes", bytes));
    TXN(lladd_bulk_sync(txn));
    bulk_txn = lladd_txn_id(txn).v;
    ck_assert_int_eq(lladd_commit(txn), 0);
    bulk_page = page.v;
}

void change_page(uint64_t value)
{
    struct lladd_txn *txn;
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_bytes_set(txn, lladd_page_of(changed_page), 100, &value, sizeof value));
    ck_assert_int_eq(lladd_commit(txn), 0);
}

void expect_change(uint64_t value)
{
    uint64_t got = 0;
    OK(lladd_bytes_get(shop.db, lladd_page_of(changed_page), 100, &got, sizeof got, &err));
    ck_assert_uint_eq(got, value);
}

void open_with_pages(void)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    open_shop(disk, false);
    work(2);
    OK(lladd_begin(shop.db, NULL, &txn, &err));
    TXN(lladd_page_alloc(txn, &page));
    TXN(lladd_bytes_format(txn, page));
    ck_assert_int_eq(lladd_commit(txn), 0);
    changed_page = page.v;
    uint64_t end = backed_up();
    make_bulk_page();
    change_page(1);
    for (unsigned i = 0; i < 3; i++) {
        work(6);
        forget_log();
    }
    ck_assert_uint_gt(stats().log_oldest, end);
}

struct memory_object *last_object(const char *part)
{
    struct memory_object *last = NULL;
    for (size_t i = 0; i < store.n; i++)
        if (strstr(store.objects[i].name, part) &&
            (!last || strcmp(store.objects[i].name, last->name) > 0))
            last = &store.objects[i];
    ck_assert_ptr_nonnull(last);
    return last;
}
