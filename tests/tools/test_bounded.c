/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection with bounded memory. With every bound, inspection has the same findings about the same
 * files, whether these are damaged or not. With a log about very many pages, inspection takes more
 * memory than with another log, but the difference is not much larger than the bound.
 */
#include "bench.h"

#include <check.h>
#include <lladd/bulk.h>
#include <lladd/device.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same findings ---------------------------------------------------------------------- */

static struct lladd_inspect *look(struct lladd_device *dev, uint64_t memory)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *v = NULL;
    o.device = dev;
    o.recovery_bytes = memory;
    int rc = lladd_inspect_open(NULL, &o, &v, &err);
    ck_assert_msg(rc == 0 || v == NULL, "%s", err.message);
    return v;
}

static bool same_finding(const struct findings *a, size_t i, const struct findings *b, size_t k)
{
    return a->at[i].kind == b->at[k].kind && a->at[i].code == b->at[k].code &&
           a->at[i].offset == b->at[k].offset && a->at[i].lsn == b->at[k].lsn &&
           a->at[i].page == b->at[k].page && strcmp(a->at[i].file, b->at[k].file) == 0 &&
           strcmp(a->at[i].message, b->at[k].message) == 0;
}

/* Asserts that the findings are the same, in any order. */
static void expect_same(const struct findings *a, const struct findings *b, const char *what,
                        uint64_t at)
{
    ck_assert_msg(a->n == b->n, "%s, byte %llu: %zu findings, and %zu", what,
                  (unsigned long long)at, a->n, b->n);
    for (size_t i = 0; i < a->n && a->n <= FINDINGS_MAX; i++) {
        size_t k = 0;
        while (k < b->n && !same_finding(a, i, b, k))
            k++;
        ck_assert_msg(k < b->n, "%s, byte %llu: only one says: %s", what, (unsigned long long)at,
                      a->at[i].message);
    }
    ck_assert_uint_eq(a->count.records, b->count.records);
    ck_assert_uint_eq(a->count.pages, b->count.pages);
    ck_assert_uint_eq(a->count.free_pages, b->count.free_pages);
}

/* Compares the findings of two views. One has memory for a few pages at a time, the other for all
 * pages. */
static void compare(struct lladd_device *dev, const char *what, uint64_t at)
{
    static struct findings few, all;
    struct lladd_inspect *a = look(dev, 1), *b = look(dev, 0);
    ck_assert((a == NULL) == (b == NULL));
    if (!a)
        return;
    ck_assert_uint_eq(bench_info(a).redo_pages, bench_info(b).redo_pages);
    ck_assert_uint_eq(bench_info(a).redo_page_records, bench_info(b).redo_page_records);
    memset(&few, 0, sizeof few);
    memset(&all, 0, sizeof all);
    ck_assert_int_eq(bench_verify(a, &few), 0);
    ck_assert_int_eq(bench_verify(b, &all), 0);
    expect_same(&few, &all, what, at);
    lladd_inspect_close(a);
    lladd_inspect_close(b);
}

/* Flips single bits. Verification has the same findings with little memory and with much. */
START_TEST(findings_do_not_depend_on_the_memory)
{
    struct made m;
    struct lladd_device *dev = bench_make((enum made_kind)_i, &m);
    struct image im = bench_copy(dev);
    compare(dev, "as it is", 0);
    for (size_t k = 0; k < im.n; k++) {
        if (strcmp(im.files[k].name, "pages") != 0 && strncmp(im.files[k].name, "log", 3) != 0)
            continue;
        for (uint64_t at = (uint64_t)_i; at < im.files[k].len; at += 509) {
            bench_flip(dev, im.files[k].name, at, 16);
            compare(dev, im.files[k].name, at);
            bench_flip(dev, im.files[k].name, at, 16);
        }
    }
    bench_free(&im);
    lladd_device_close(dev);
}
END_TEST

enum { FREED = 40 };

/* Pages change after the last checkpoint. Then they are freed and dropped from the cache, so the
 * changes are never written. */
static struct lladd_device *freed_pages(void)
{
    static const unsigned char byte = 1;
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_device *dev;
    struct lladd_txn *txn;
    struct lladd_db *db;
    lladd_pageno page[FREED];
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    o.device = dev;
    ck_assert_msg(lladd_open(NULL, &o, &db, &err) == 0, "%s", err.message);
    for (unsigned step = 0; step < 3; step++) {
        ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), 0);
        for (unsigned i = 0; i < FREED; i++) {
            if (step == 0) {
                ck_assert_int_eq(lladd_page_alloc(txn, &page[i]), 0);
                ck_assert_int_eq(lladd_bytes_format(txn, page[i]), 0);
            } else if (step == 1) {
                ck_assert_int_eq(lladd_bytes_set(txn, page[i], 0, &byte, 1), 0);
            } else {
                ck_assert_int_eq(lladd_page_free(txn, page[i]), 0);
            }
        }
        ck_assert_int_eq(lladd_commit(txn), 0);
        if (step == 0)
            ck_assert_int_eq(lladd_checkpoint(db, &err), 0);
    }
    for (unsigned i = 0; i < FREED; i++)
        ck_assert_int_eq(lladd_pages_discard(db, page[i], 1), 0);
    ck_assert_int_eq(lladd_close(db), 0);
    return dev;
}

/* The bitmap is in the first part of the pages; most of the freed pages are in others. */
START_TEST(freed_pages_are_no_damage_in_any_part)
{
    static struct findings f;
    struct lladd_device *dev = freed_pages();
    struct lladd_inspect *v = look(dev, 1);
    ck_assert_ptr_nonnull(v);
    memset(&f, 0, sizeof f);
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_msg(f.n == 0, "%s", f.at[0].message);
    lladd_inspect_close(v);
    compare(dev, "freed pages", 0);
    lladd_device_close(dev);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------- */

struct counting {
    struct lladd_allocator face;
    size_t now, most;
};

static void *count_up(struct counting *c, size_t *piece, size_t size)
{
    if (!piece)
        return NULL;
    *piece = size;
    c->now += size;
    c->most = c->now > c->most ? c->now : c->most;
    return (char *)piece + sizeof(max_align_t);
}

static void *count_alloc(void *ctx, size_t size)
{
    return count_up(ctx, malloc(size + sizeof(max_align_t)), size);
}

static size_t *piece_of(void *p)
{
    return (size_t *)(void *)((char *)p - sizeof(max_align_t));
}

static void count_release(void *ctx, void *p)
{
    if (!p)
        return;
    ((struct counting *)ctx)->now -= *piece_of(p);
    free(piece_of(p));
}

/* Always moves the block, so the old block and the new one both count. */
static void *count_resize(void *ctx, void *p, size_t size)
{
    void *to = count_alloc(ctx, size);
    if (to && p) {
        size_t had = *piece_of(p);
        memcpy(to, p, had < size ? had : size);
        count_release(ctx, p);
    }
    return to;
}

enum { PAGES = 20000, AT_ONCE = 500, BOUND = 256 << 10 };

/* Runs one transaction. If `more` is true, the transaction adds AT_ONCE pages, and *page becomes
 * the last of them. Otherwise the transaction changes *page AT_ONCE times. */
static void transaction(struct lladd_db *db, bool more, lladd_pageno *page)
{
    static const unsigned char byte = 1;
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        if (!more) {
            ck_assert_int_eq(lladd_bytes_set(txn, *page, i, &byte, 1), 0);
            continue;
        }
        ck_assert_int_eq(lladd_page_alloc(txn, page), 0);
        ck_assert_int_eq(lladd_bytes_format(txn, *page), 0);
    }
    ck_assert_int_eq(lladd_commit(txn), 0);
}

/* Makes a log with records of `pages` pages, rounded up to a multiple of AT_ONCE, and kills the
 * database. The log's length hardly depends on `pages`, and no checkpoint has written the pages. */
static struct lladd_device *a_log_about(unsigned pages)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_device *dev;
    struct lladd_db *db;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    o.device = dev;
    o.durability = LLADD_DURABLE_LATER;
    o.checkpoint_bytes = UINT64_MAX / 2;
    ck_assert_msg(lladd_open(NULL, &o, &db, &err) == 0, "%s", err.message);
    lladd_pageno page = {0};
    for (unsigned n = 0; n < PAGES; n += AT_ONCE)
        transaction(db, n < pages, &page);
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_int_eq(lladd_wait_durable(db, (lladd_lsn){s.log_tail - 8}, NULL), 0);
    lladd_db_kill(db);
    return dev;
}

/* Opens a view and verifies. Returns the largest amount of memory in use. */
static size_t most_memory(struct lladd_device *dev, uint64_t bound)
{
    struct counting c = {.face = {&c, count_alloc, count_resize, count_release}};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    static struct findings f;
    struct lladd_inspect *v;
    o.device = dev;
    o.allocator = &c.face;
    o.recovery_bytes = bound;
    ck_assert_msg(lladd_inspect_open(NULL, &o, &v, &err) == 0, "%s", err.message);
    memset(&f, 0, sizeof f);
    ck_assert_int_eq(bench_verify(v, &f), 0);
    ck_assert_uint_eq(f.count.damage, 0);
    lladd_inspect_close(v);
    ck_assert_uint_eq(c.now, 0);
    return c.most;
}

/* With a bound, inspecting a log about many pages takes at most BOUND bytes more than inspecting a
 * log about one page. Without a bound it takes more. */
START_TEST(memory_for_many_pages_is_bounded)
{
    struct lladd_device *many = a_log_about(PAGES), *one = a_log_about(1);
    size_t any = most_memory(one, BOUND), bounded = most_memory(many, BOUND);
    size_t all = most_memory(many, 0);
    /* 4 * 4096: the allocation bitmaps of the many pages. */
    ck_assert_msg(bounded <= any + BOUND + 4 * 4096, "%zu bytes; %zu are those of any view",
                  bounded, any);
    ck_assert_uint_gt(all, bounded + BOUND);
    lladd_device_close(one);
    lladd_device_close(many);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bounded");
    TCase *t = tcase_create("bounded");
    tcase_add_loop_test(t, findings_do_not_depend_on_the_memory, 0, MADE_KINDS);
    tcase_add_test(t, freed_pages_are_no_damage_in_any_part);
    tcase_add_test(t, memory_for_many_pages_is_bounded);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
