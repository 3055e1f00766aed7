/* SPDX-License-Identifier: BSD-2-Clause */
#include "archive_rig.h"

#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_store store;
struct lladd_device *disk, *copy;
struct ledger ledger;
struct lladd_log_hold *hold;
struct lladd_error err;

void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    ledger = (struct ledger){.n = 0};
    memory_store_init(&store);
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
}

void begin(struct lladd_device *dev, uint64_t segment)
{
    ledger_init(&ledger, dev, &store.base, segment);
    ledger_open(&ledger);
}

void keep(void)
{
    OK(lladd_log_keep(ledger.db, "test", lladd_lsn_of(0), &hold, &err));
}

void end(void)
{
    lladd_log_release(hold);
    hold = NULL;
    ledger_close(&ledger);
}

/* ---- what the store has --------------------------------------------------------------------- */

struct archived read_archive(void)
{
    struct archived a = {.n = 0};
    struct ll_ship_mem mem = {NULL};
    OK(ll_ship_archived(&store.base, 0, &a.firsts, &err));
    a.n = a.firsts.len / sizeof(uint64_t);
    a.ix = calloc(a.n + 1, sizeof *a.ix);
    ck_assert_ptr_nonnull(a.ix);
    for (size_t i = 0; i < a.n; i++)
        OK(ll_ship_index_load(&store.base, mem, 0,
                              lladd_lsn_of(((uint64_t *)(void *)a.firsts.data)[i]), &a.ix[i],
                              &err));
    return a;
}

void free_archive(struct archived *a)
{
    for (size_t i = 0; i < a->n; i++)
        ll_ship_index_free(&a->ix[i]);
    free(a->ix);
    ll_ship_buf_free(&a->firsts);
}

struct memory_object *object(const char *fmt, uint64_t first)
{
    char name[100];
    (void)snprintf(name, sizeof name, fmt, (unsigned long long)first);
    return memory_store_find(&store, name);
}

void check_segments(const struct archived *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct ll_ship_index *ix = &a->ix[i];
        struct ll_ship_segment s;
        struct lladd_file *file;
        char name[40];
        const struct memory_object *seg = object(SEG, ix->first.v);
        ck_assert_ptr_nonnull(seg);
        if (i)
            ck_assert_uint_eq(ix->cut.v, a->ix[i - 1].stop.v);
        ck_assert_ptr_null(ll_ship_segment_head(seg->bytes, ix->first.v, &s));
        ck_assert_uint_eq(seg->len, s.size);
        (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)ix->first.v);
        if (disk->ops->open(disk, name, LLADD_OPEN_READ_ONLY, &file))
            continue; /* recycled */
        uint64_t len = ll_ship_segment_offset(&s, ix->stop.v);
        unsigned char *bytes = malloc(len);
        ck_assert_ptr_nonnull(bytes);
        ck_assert_int_eq(disk->ops->pread(disk, file, bytes, len, 0), (int64_t)len);
        ck_assert_int_eq(memcmp(bytes, seg->bytes, len), 0);
        for (uint64_t k = len; k < seg->len; k++)
            ck_assert_uint_eq(seg->bytes[k], 0);
        free(bytes);
        ck_assert_int_eq(disk->ops->close(disk, file), 0);
    }
}

void check_remade(const struct archived *a)
{
    struct ll_ship_mem mem = {NULL};
    for (unsigned alone = 0; alone < 2; alone++) {
        for (size_t i = 0; i < a->n && alone; i++)
            object(IDX, a->ix[i].first.v)->name[0] = '#';
        for (size_t i = 0; i < a->n; i++) {
            struct ll_ship_index again;
            struct ll_ship_buf bytes = {.mem = mem};
            struct memory_object *o = object(&IDX[1], a->ix[i].first.v);
            ck_assert_ptr_nonnull(o);
            o->name[0] = '#';
            OK(ll_ship_index_load(&store.base, mem, 0, a->ix[i].first, &again, &err));
            o->name[0] = alone ? '#' : 't';
            OK(ll_ship_index_encode(&again, &bytes, &err));
            ck_assert_uint_eq(bytes.len, o->len);
            ck_assert_int_eq(memcmp(bytes.data, o->bytes, o->len), 0);
            ll_ship_index_free(&again);
            ll_ship_buf_free(&bytes);
        }
    }
    for (size_t k = 0; k < store.n; k++)
        if (store.objects[k].name[0] == '#')
            store.objects[k].name[0] = 't';
}

static const struct ll_ship_index_page *page_in(const struct ll_ship_index *ix, uint64_t page)
{
    const struct ll_ship_index_page *p = (const void *)ix->pages.data;
    for (size_t i = 0; i < ix->pages.len / sizeof *p; i++)
        if (p[i].page == page)
            return &p[i];
    return NULL;
}

/* Every record of a page that the log's reader shows is in the index of its segment, and the first
 * and last ones that an index names are records of the page. */
static void check_pages(const struct archived *a)
{
    enum { UPDATE = 1, CLR = 2, IMAGE = 10 };
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    unsigned found = 0;
    size_t i = 0;
    OK(lladd_log_open(ledger.db, a->ix[0].start, NULL, &cursor, &err));
    while (lladd_log_next(cursor, &e, &err) == 0) {
        while (i < a->n && e.lsn.v >= a->ix[i].stop.v)
            i++;
        if (i == a->n)
            break;
        if (e.page == LLADD_NO_PAGE || (e.kind != UPDATE && e.kind != CLR && e.kind != IMAGE))
            continue;
        const struct ll_ship_index_page *p = page_in(&a->ix[i], e.page);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_le(p->first, e.lsn.v);
        ck_assert_uint_ge(p->last, e.lsn.v);
        found++;
    }
    for (i = 0; i < a->n; i++) {
        const struct ll_ship_index_page *p = (const void *)a->ix[i].pages.data;
        for (size_t k = 0; k < a->ix[i].pages.len / sizeof *p; k++) {
            OK(lladd_log_read(cursor, lladd_lsn_of(p[k].first), &e, &err));
            ck_assert_uint_eq(e.page, p[k].page);
            OK(lladd_log_read(cursor, lladd_lsn_of(p[k].last), &e, &err));
            ck_assert_uint_eq(e.page, p[k].page);
        }
    }
    lladd_log_close(cursor);
    ck_assert_uint_gt(found, 10);
}

void check_all(bool with_pages)
{
    struct archived a = read_archive();
    struct lladd_archive_status s = ledger_status(&ledger);
    check_segments(&a);
    check_remade(&a);
    if (with_pages)
        check_pages(&a);
    ck_assert_uint_gt(a.n, 1);
    ck_assert_uint_le(s.kept.v, a.ix[a.n - 1].stop.v);
    ck_assert(!s.gap);
    free_archive(&a);
}
