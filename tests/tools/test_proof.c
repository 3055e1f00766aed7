/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All bytes that are there are valid, but log or a page write is missing. Inspection proves this in
 * two ways: records refer to records that are not there, or pages are newer than the log.
 */
#include "bench.h"

#include "buffer/buffer.h"
#include "util/crc32c.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <string.h>

static struct findings verify(struct lladd_device *dev)
{
    struct lladd_inspect *v = bench_look(dev, false);
    struct findings f;
    ck_assert_int_eq(bench_verify(v, &f), 0);
    lladd_inspect_close(v);
    return f;
}

static uint64_t a_free_page(struct lladd_device *dev, uint32_t *salt)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    struct lladd_inspect *v = bench_look(dev, false);
    struct lladd_inspect_page page = {.use = LLADD_USE_SYSTEM};
    uint64_t n = 0;
    while (page.use != LLADD_USE_NONE && page.use != LLADD_USE_FREED)
        ck_assert_int_eq(lladd_inspect_page_read(v, lladd_page_of(++n), &page, NULL), 0);
    ck_assert_int_eq(lladd_inspect_info_get(v, &i), 0);
    *salt = ll_crc32c(0, i.uuid, 16);
    lladd_inspect_close(v);
    return n;
}

/* The contents of a free page do not matter. But a valid free page with an LSN beyond the log
 * proves that log is lost. */
START_TEST(free_page_newer_than_the_log)
{
    struct made m;
    struct lladd_device *dev = bench_make(MADE_CLEAN, &m);
    uint32_t salt;
    uint64_t n = a_free_page(dev, &salt);
    unsigned char bytes[4096] = {0};
    lladd_put64(bytes + 8, UINT64_C(1) << 40);
    lladd_put64(bytes + 24, n);
    /* If the checksum is not valid, the LSN proves nothing. */
    bench_write(dev, "pages", n * 4096, bytes, sizeof bytes);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    lladd_put32(bytes, ll_page_crc(salt, lladd_page_of(n), bytes, sizeof bytes));
    bench_write(dev, "pages", n * 4096, bytes, sizeof bytes);
    struct findings f = verify(dev);
    ck_assert_uint_eq(f.count.damage, 1);
    ck_assert_uint_eq(f.at[0].page, n);
    ck_assert_int_eq(f.at[0].code, LLADD_LOG_LOST);
    ck_assert_ptr_nonnull(strstr(f.at[0].message, "the log ends before that"));
    lladd_put64(bytes + 8, 8);
    lladd_put32(bytes, ll_page_crc(salt, lladd_page_of(n), bytes, sizeof bytes));
    bench_write(dev, "pages", n * 4096, bytes, sizeof bytes);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    lladd_device_close(dev);
}
END_TEST

struct named {
    uint64_t lsn, names[4];
};
struct log {
    struct named at[400];
    size_t n;
};

static int note_names(void *ctx, const struct lladd_inspect_record *r)
{
    struct log *log = ctx;
    if (log->n < sizeof log->at / sizeof log->at[0])
        log->at[log->n++] = (struct named){
            r->entry.lsn.v,
            {r->entry.prev.v, r->entry.txn.v, r->entry.page_prev.v, r->entry.undo_next.v}};
    return 0;
}

/* Returns true if a record from number k on refers to a record before number k. */
static bool is_named(const struct log *log, size_t k)
{
    bool named = false;
    for (size_t i = k; i < log->n; i++)
        for (size_t j = 0; j < 4; j++)
            named |= log->at[i].names[j] >= log->at[0].lsn && log->at[i].names[j] < log->at[k].lsn;
    return named;
}

/* The first log file does not say where its first record begins. Later records refer to its first
 * records, and so prove that these are missing. */
START_TEST(first_records_are_gone)
{
    static struct log log;
    struct made m;
    struct lladd_device *dev = bench_make(MADE_LONG, &m);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_inspect *v = bench_look(dev, false);
    unsigned char bytes[4096], zeros[4096] = {0};
    char name[32];
    uint64_t at;
    unsigned told = 0;
    log.n = 0;
    ck_assert_int_eq(lladd_inspect_log(v, lladd_lsn_of(0), note_names, &log, &err), 0);
    ck_assert_uint_gt(log.n, 20);
    ck_assert(lladd_inspect_place(v, lladd_lsn_of(log.at[0].lsn), name, &at));
    lladd_inspect_close(v);
    bench_read(dev, name, at, bytes, sizeof bytes);
    for (size_t k = 1; k < 20 && log.at[k].lsn - log.at[0].lsn <= sizeof bytes; k++) {
        bench_write(dev, name, at, zeros, log.at[k].lsn - log.at[0].lsn);
        if (is_named(&log, k)) {
            ck_assert_uint_gt(verify(dev).count.damage, 0);
            told++;
        }
        bench_write(dev, name, at, bytes, sizeof bytes);
    }
    ck_assert_uint_gt(told, 0);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    lladd_device_close(dev);
}
END_TEST

static uint64_t pages_written(struct lladd_db *db)
{
    struct lladd_stats stats = {.struct_size = sizeof stats};
    ck_assert_int_eq(lladd_stats_get(db, &stats), 0);
    return stats.pages_written;
}

/* A page is freed before it was ever written. Another transaction allocates it again, and has not
 * formatted it yet. So the log has a newer record about the page than the page on disk, although no
 * write was lost. But if the page had not been freed, the older page on disk proves that a write
 * was lost. */
START_TEST(pages_taken_again_and_not_formatted_yet)
{
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno first, again;
    bool frees = _i & 1, crashes = _i & 2;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    struct lladd_options o = made_options(dev);
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    uint64_t written = pages_written(db);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, 2, LLADD_EXTENT_PAGED, &first), 0);
    ck_assert_int_eq(lladd_bytes_format(txn, first), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    if (frees) {
        ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
        ck_assert_int_eq(lladd_extent_free(txn, first, 2), 0);
        ck_assert_int_eq(lladd_commit(txn), 0);
        ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
        ck_assert_int_eq(lladd_extent_alloc(txn, 2, LLADD_EXTENT_PAGED, &again), 0);
        ck_assert_uint_eq(again.v, first.v);
        ck_assert_int_eq(lladd_commit(txn), 0);
    }
    ck_assert_uint_eq(pages_written(db), written);
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    if (crashes)
        lladd_db_kill(db);
    else
        ck_assert_int_eq(lladd_close(db), 0);
    unsigned char zeros[4096] = {0};
    if (!frees) /* the write is lost */
        bench_write(dev, "pages", first.v * sizeof zeros, zeros, sizeof zeros);
    ck_assert_uint_eq(verify(dev).count.damage, frees ? 0 : 1);
    lladd_device_close(dev);
}
END_TEST

/* The writes of a new page and of the allocation bitmap are lost. So the bitmap says that the page
 * is free, but the log says that it is not. */
START_TEST(a_page_that_an_old_bitmap_calls_free)
{
    struct lladd_device *dev;
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno page, other;
    unsigned char map[4096], zeros[4096] = {0};
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    struct lladd_options o = made_options(dev);
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, &other), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    bench_read(dev, "pages", sizeof map, map, sizeof map);
    ck_assert(memcmp(map, zeros, sizeof map) != 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, &page), 0);
    ck_assert_int_eq(lladd_bytes_format(txn, page), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, &other), 0); /* this needs a newer bitmap than `map` */
    ck_assert_int_eq(lladd_commit(txn), 0);
    lladd_db_kill(db);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    bench_write(dev, "pages", page.v * sizeof zeros, zeros, sizeof zeros);
    bench_write(dev, "pages", sizeof map, map, sizeof map);
    struct findings f = verify(dev);
    bool found = false;
    for (size_t i = 0; i < f.n && i < FINDINGS_MAX; i++)
        found |= f.at[i].kind == LLADD_FINDING_DAMAGE && f.at[i].page == page.v;
    ck_assert(found);
    lladd_device_close(dev);
}
END_TEST

/* An acknowledged transaction changes a page. The page is written, and then the process dies.
 * Returns the LSN at which the records of the transaction begin. */
static lladd_lsn write_a_page_and_die(struct lladd_device *dev, lladd_pageno *changed)
{
    enum { OTHERS = 300 };
    struct lladd_options o = made_options(dev);
    struct lladd_stats stats = {.struct_size = sizeof stats};
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno others;
    unsigned char lsn[8] = {0};
    o.cache_bytes = 128u << 10;
    ck_assert_int_eq(lladd_open(NULL, &o, &db, NULL), 0);
    lladd_options_release(&o);
    /* After this checkpoint no page needs an image when it is written. */
    ck_assert_int_eq(lladd_checkpoint(db, NULL), 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, changed), 0);
    ck_assert_int_eq(lladd_bytes_format(txn, *changed), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, OTHERS, LLADD_EXTENT_PAGED, &others), 0);
    for (uint64_t i = 0; i < OTHERS; i++)
        ck_assert_int_eq(lladd_bytes_format(txn, lladd_page_of(others.v + i)), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    bench_change(db, *changed, "with a base");
    /* Changes so many pages that the cache must write some before the next checkpoint. */
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (uint64_t i = 0; i < OTHERS; i++)
        ck_assert_int_eq(lladd_bytes_set(txn, lladd_page_of(others.v + i), 0, "x", 1), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_stats_get(db, &stats), 0);
    bench_change(db, *changed, "acknowledged");
    /* Fixes other pages until the cache had to write the page *changed, with its last change. */
    struct lladd_page *fixed[OTHERS];
    uint64_t n = 0;
    for (; lladd_get64(lsn) < stats.log_tail; n++) {
        ck_assert_uint_lt(n, OTHERS);
        ck_assert_int_eq(
            lladd_page_fix(db, lladd_page_of(others.v + n), LLADD_LATCH_SHARED, &fixed[n], NULL),
            0);
        bench_read(dev, "pages", changed->v * 4096 + 8, lsn, sizeof lsn);
    }
    while (n > 0)
        lladd_page_unfix(db, fixed[--n], LLADD_LATCH_SHARED);
    lladd_db_kill(db);
    return lladd_lsn_of(stats.log_tail);
}

static void flip_log(struct lladd_device *dev, lladd_lsn lsn)
{
    char name[32];
    uint64_t at;
    struct lladd_inspect *v = bench_look(dev, false);
    ck_assert(lladd_inspect_place(v, lsn, name, &at));
    lladd_inspect_close(v);
    bench_flip(dev, name, at + 20, 0x10);
}

/* The log seems to have a torn tail. But `control` states how far the log was durable when a page
 * was written, and this proves the loss. The page proves it, too. _i 1: `control` states nothing,
 * as after a power failure. */
START_TEST(pages_newer_than_the_log)
{
    static const unsigned char nothing[64];
    struct lladd_device *dev;
    lladd_pageno page;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    lladd_lsn gone = write_a_page_and_die(dev, &page);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    flip_log(dev, gone);
    if (_i)
        bench_write(dev, "control", 8192, nothing, sizeof nothing);
    struct findings f = verify(dev);
    ck_assert_uint_eq(f.count.damage, _i ? 1 : 2);
    size_t stated = bench_find(&f, LLADD_FINDING_DAMAGE, "control");
    ck_assert_int_eq(stated == SIZE_MAX, _i);
    if (!_i) {
        ck_assert_str_eq(lladd_code_name(f.at[stated].code), "LLADD_LOG_LOST");
        ck_assert_ptr_nonnull(strstr(f.at[stated].message, "the log has lost its end"));
    }
    size_t proof = bench_find(&f, LLADD_FINDING_DAMAGE, "pages");
    ck_assert_uint_ne(proof, SIZE_MAX);
    ck_assert_str_eq(lladd_code_name(f.at[proof].code), "LLADD_LOG_LOST");
    ck_assert_uint_eq(f.at[proof].page, page.v);
    flip_log(dev, gone);
    ck_assert_uint_eq(verify(dev).count.damage, 0);
    lladd_device_close(dev);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proof");
    TCase *t = tcase_create("proof");
    tcase_add_test(t, free_page_newer_than_the_log);
    tcase_add_test(t, first_records_are_gone);
    tcase_add_loop_test(t, pages_newer_than_the_log, 0, 2);
    tcase_add_loop_test(t, pages_taken_again_and_not_formatted_yet, 0, 4);
    tcase_add_test(t, a_page_that_an_old_bitmap_calls_free);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
