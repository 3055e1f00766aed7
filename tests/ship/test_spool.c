/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spools: the pages that a transaction writes in bulk are in files/ship, whole and durable, when
 * its commit or prepare record is logged.
 */
#include "calls.h"
#include "spool_extension.h"

#include "ship/ship_private.h"
#include "support/fault_device.h"

#include <check.h>
#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 6, TIMELINE = 3, LARGE = 20 << 20 };

static struct lladd_device *memory;
static struct fault_device *disk;
static struct lladd_options options;
static struct lladd_db *db;
static struct lladd_error err;

/* ---- the database --------------------------------------------------------------------------- */

static void setup(void)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_device_memory(&memory), 0);
    spool_timeline = TIMELINE;
    disk = fault_device_new(memory);
    options = (struct lladd_options)LLADD_OPTIONS_INIT;
    options.device = fault_device_dev(disk);
    options.flags = LLADD_OPT_NO_THREADS;
    options.log_segment_min = options.log_segment_max = 1u << 16;
    options.cache_bytes = 1u << 20;
    OK(lladd_register_extension(&options, &spool_extension, &err));
}

static void teardown(void)
{
    lladd_options_release(&options);
    ck_assert_uint_eq(fault_device_open_files(disk), 0);
    fault_device_free(disk);
    lladd_device_close(memory);
}

static void open_db(void)
{
    OK(lladd_open(NULL, &options, &db, &err));
}

static struct lladd_txn *begin(void)
{
    struct lladd_txn *txn;
    OK(lladd_begin(db, NULL, &txn, &err));
    return txn;
}

static const char *root_name(unsigned number, char out[20])
{
    (void)snprintf(out, 20, "extents %u", number);
    return out;
}

/* Writes two extents in bulk, one of them raw, with pages full of `number`, and sets a root to
 * them. The second word of the root is the transaction. */
static int write_extents(struct lladd_txn *txn, unsigned number, size_t raw_bytes)
{
    char name[20];
    lladd_pageno typed, raw;
    uint64_t raw_pages = raw_bytes / PAGE;
    size_t len = raw_bytes > PAGES * PAGE ? raw_bytes : PAGES * PAGE;
    unsigned char *bytes = malloc(len);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, (int)number, len);
    int rc = lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_BULK, &typed);
    if (!rc)
        rc = lladd_bulk_write(txn, typed, 2, "lladd.bytes", bytes);
    if (!rc) /* in two writes */
        rc = lladd_bulk_write(txn, lladd_page_of(typed.v + 2), PAGES - 2, "lladd.bytes",
                              bytes + 2 * PAGE);
    if (!rc)
        rc = lladd_extent_alloc(txn, raw_pages, LLADD_EXTENT_RAW, &raw);
    memset(bytes, (int)number + 1, len);
    if (!rc)
        rc = lladd_bulk_write(txn, raw, raw_pages, NULL, bytes);
    if (!rc)
        rc = lladd_bulk_sync(txn);
    free(bytes);
    if (!rc)
        rc = lladd_root_set(txn, root_name(number, name),
                            (struct lladd_root_value){typed.v, lladd_txn_id(txn).v});
    (void)snprintf(name, sizeof name, "raw %u", number);
    return rc ? rc : lladd_root_set(txn, name, (struct lladd_root_value){raw.v, raw_pages});
}

static uint64_t committed_extents(unsigned number)
{
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, number, PAGES * PAGE));
    uint64_t id = lladd_txn_id(txn).v;
    ck_assert_int_eq(lladd_commit(txn), 0);
    return id;
}

/* ---- what a spool has ----------------------------------------------------------------------- */

/* Asserts that the transaction's spool is whole, and that its pages are those of the page file.
 * Returns the number of parts. */
static unsigned expect_spool(uint64_t txn)
{
    struct ll_ship_buf part = {.data = NULL};
    unsigned char *page = malloc(PAGE), uuid[16];
    uint64_t typed = 0, raw = 0;
    bool last = false;
    uint32_t parts = 0;
    lladd_db_uuid(db, uuid);
    while (!last) {
        struct ll_ship_blk b;
        struct ll_ship_blk_piece p;
        int rc;
        OK(ll_ship_spool_read(opened_spool, txn, parts, &part, &last, &err));
        OK(ll_ship_blk_begin(&b, "part", part.data, part.len, &err));
        ck_assert_uint_eq(b.timeline, TIMELINE);
        ck_assert_uint_eq(b.part, parts++);
        ck_assert_mem_eq(b.uuid, uuid, 16);
        while ((rc = ll_ship_blk_next(&b, &p, &err)) == 0) {
            ck_assert_uint_gt(p.barrier, txn);
            *(p.typed ? &typed : &raw) += p.n;
            for (uint32_t i = 0; i < p.n; i++) {
                OK(lladd_bulk_read(db, lladd_page_of(p.page + i), 1, !p.typed, page, &err));
                ck_assert_mem_eq(page, p.bytes + (size_t)i * PAGE, PAGE);
            }
        }
        ck_assert_int_eq(rc, LLADD_END);
        ck_assert_uint_eq(b.at, part.len);
    }
    ck_assert_uint_eq(typed, PAGES);
    ck_assert_uint_ge(raw, PAGES);
    free(page);
    ll_ship_buf_free(&part);
    return parts;
}

static void expect_none(uint64_t txn)
{
    struct ll_ship_buf part = {.data = NULL};
    bool last;
    ck_assert_int_eq(ll_ship_spool_read(opened_spool, txn, 0, &part, &last, &err), LLADD_NOT_FOUND);
    ll_ship_buf_free(&part);
}

struct seen {
    unsigned n, live;
    uint64_t txn;
};

static int see(void *ctx, uint64_t txn, bool live)
{
    struct seen *s = ctx;
    s->n++;
    s->live += live;
    s->txn = txn;
    return 0;
}

static struct seen all_spools(void)
{
    struct seen s = {0};
    OK(ll_ship_spool_each(opened_spool, see, &s, &err));
    return s;
}

static int count_file(void *ctx, const char *name)
{
    unsigned *n = ctx;
    *n += strstr(name, ".blk") != NULL;
    return 0;
}

static unsigned files(void)
{
    unsigned n = 0;
    int rc = memory->ops->list(memory, "files/ship", count_file, &n);
    ck_assert(rc == 0 || rc == -ENOENT);
    return n;
}

/* ---- tests ---------------------------------------------------------------------------------- */

START_TEST(a_committed_transaction_has_a_whole_spool)
{
    open_db();
    uint64_t txn = committed_extents(10);
    ck_assert_uint_eq(expect_spool(txn), 1);
    ck_assert_uint_gt(ll_ship_spool_bytes(opened_spool), 2 * PAGES * PAGE);
    struct seen s = all_spools();
    ck_assert(s.n == 1 && s.live == 0 && s.txn == txn);
    ck_assert_int_eq(lladd_close(db), 0);
    open_db(); /* the spool stays until it is freed */
    ck_assert_uint_eq(expect_spool(txn), 1);
    ck_assert_uint_gt(ll_ship_spool_bytes(opened_spool), 2 * PAGES * PAGE);
    OK(ll_ship_spool_free(opened_spool, txn, &err));
    expect_none(txn);
    ck_assert_uint_eq(ll_ship_spool_bytes(opened_spool), 0);
    ck_assert_uint_eq(all_spools().n, 0);
    ck_assert_uint_eq(files(), 0);
    OK(ll_ship_spool_free(opened_spool, txn, &err)); /* there is no spool */
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

START_TEST(a_large_spool_has_parts)
{
    open_db();
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, 1, LARGE));
    TXN(write_extents(txn, 2, LARGE));
    uint64_t id = lladd_txn_id(txn).v;
    ck_assert_int_eq(lladd_commit(txn), 0);
    struct ll_ship_buf part = {.data = NULL};
    unsigned parts = 0;
    for (bool last = false; !last; parts++) {
        OK(ll_ship_spool_read(opened_spool, id, parts, &part, &last, &err));
        ck_assert_uint_le(part.len, LL_SHIP_OBJECT_MAX);
    }
    ll_ship_buf_free(&part);
    ck_assert_uint_eq(parts, 3);
    ck_assert_uint_eq(files(), parts);
    OK(ll_ship_spool_free(opened_spool, id, &err));
    ck_assert_uint_eq(files(), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

START_TEST(a_rolled_back_transaction_has_no_spool)
{
    open_db();
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, 1, PAGES * PAGE));
    ck_assert_uint_eq(files(), 1);
    ck_assert(all_spools().live == 1);
    ck_assert_int_eq(lladd_abort(txn), 0);
    ck_assert_uint_eq(files(), 0);
    ck_assert_uint_eq(all_spools().n, 0);
    txn = begin();
    TXN(lladd_root_set(txn, "x", (struct lladd_root_value){1, 1}));
    uint64_t id = lladd_txn_id(txn).v;
    ck_assert_int_eq(lladd_commit(txn), 0); /* it has written nothing in bulk */
    expect_none(id);
    /* A crash leaves a spool. The archiver would free it at the END record of the rollback. */
    txn = begin();
    TXN(write_extents(txn, 2, PAGES * PAGE));
    id = lladd_txn_id(txn).v;
    lladd_db_kill(db);
    open_db();
    struct seen s = all_spools();
    ck_assert(s.n == 1 && s.live == 0 && s.txn == id);
    OK(ll_ship_spool_free(opened_spool, id, &err));
    ck_assert_uint_eq(files(), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

static struct lladd_gid gid(void)
{
    return (struct lladd_gid){.format = 7, .gtrid_length = 2, .data = "ab"};
}

/* The archiver may free the spool of a transaction that is prepared and has not ended. */
START_TEST(a_prepared_transaction_has_a_whole_spool)
{
    struct lladd_gid id = gid();
    bool crash = _i & 1, freed = _i & 2;
    open_db();
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, 1, PAGES * PAGE));
    TXN(lladd_prepare(txn, &id));
    uint64_t number = lladd_txn_id(txn).v;
    ck_assert_uint_eq(expect_spool(number), 1);
    if (freed) {
        OK(ll_ship_spool_free(opened_spool, number, &err));
        ck_assert_uint_eq(all_spools().n, 0);
        ck_assert_uint_eq(ll_ship_spool_bytes(opened_spool), 0);
    }
    if (crash) {
        lladd_db_kill(db);
        open_db();
        OK(lladd_in_doubt_claim(db, &id, &txn, &err));
    }
    ck_assert_int_eq(lladd_commit(txn), 0);
    if (freed)
        expect_none(number);
    else
        expect_spool(number);
    ck_assert_uint_eq(all_spools().n, !freed);
    ck_assert_uint_eq(files(), !freed);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

/* A prepared transaction is rolled back after the archiver has freed its spool. */
START_TEST(a_transaction_that_is_rolled_back_after_its_spool_was_freed)
{
    struct lladd_gid id = gid();
    open_db();
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, 1, PAGES * PAGE));
    TXN(lladd_prepare(txn, &id));
    OK(ll_ship_spool_free(opened_spool, lladd_txn_id(txn).v, &err));
    ck_assert_int_eq(lladd_abort(txn), 0);
    ck_assert_uint_eq(all_spools().n, 0);
    ck_assert_uint_eq(files(), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

static int do_three(unsigned *done)
{
    int rc = 0;
    for (unsigned i = 0; i < 3 && !rc; i++) {
        struct lladd_txn *txn;
        rc = lladd_begin(db, NULL, &txn, &err);
        if (rc)
            return rc;
        rc = write_extents(txn, i * 10, PAGES * PAGE);
        if (!rc)
            rc = lladd_commit(txn);
        if (rc && !lladd_db_error(db, &err))
            ck_assert_int_eq(lladd_abort(txn), 0);
        *done += !rc;
    }
    return rc;
}

/* Each transaction that has committed has its whole spool, and every other spool can be freed. */
static void expect_whole(unsigned least)
{
    unsigned n = 0;
    for (unsigned i = 0; i < 3; i++) {
        char name[20];
        struct lladd_root_value root;
        int rc = lladd_root_get(db, root_name(i * 10, name), &root, &err);
        if (rc == LLADD_NOT_FOUND)
            continue;
        OK(rc);
        expect_spool(root.b);
        OK(ll_ship_spool_free(opened_spool, root.b, &err));
        n++;
    }
    ck_assert_uint_ge(n, least);
    for (struct seen s = all_spools(); s.n; s = all_spools()) {
        ck_assert_uint_eq(s.live, 0);
        OK(ll_ship_spool_free(opened_spool, s.txn, &err));
    }
    ck_assert_uint_eq(files(), 0);
}

/* The power fails at each call of the device. */
START_TEST(a_crash_leaves_each_commit_its_spool)
{
    static const struct fault_crash how[] = {
        {FAULT_POWER, 0, false}, {FAULT_KILL, 0, false}, {FAULT_SUBSET, 1, true}};
    bool crashed = true;
    unsigned rounds = 0;
    for (uint64_t n = 1; crashed; n++, rounds++) {
        unsigned done = 0;
        teardown();
        setup();
        open_db();
        fault_device_crash_at(disk, n);
        crashed = do_three(&done) != 0;
        lladd_db_kill(db);
        fault_device_power_cycle(disk, &how[_i]);
        open_db();
        expect_whole(done);
        ck_assert_int_eq(lladd_close(db), 0);
    }
    ck_assert_uint_gt(rounds, 20);
}
END_TEST

/* A call on a spool's file fails: the bulk write or the commit fails, and the handle goes on. */
START_TEST(a_spool_that_cannot_be_written_refuses_the_commit)
{
    int error = _i ? ENOSPC : EIO;
    bool fired = true;
    unsigned rounds = 0;
    for (uint64_t n = 1; fired; n++, rounds++) {
        unsigned done = 0;
        teardown();
        setup();
        open_db();
        fault_device_only(disk, "files");
        fault_device_fail(disk, n, FAULT_WRITES, error, false);
        int rc = do_three(&done);
        fired = fault_device_fired(disk) != 0;
        fault_device_fail(disk, 0, 0, 0, false);
        ck_assert_int_eq(lladd_db_error(db, &err), 0);
        ck_assert(!fired || rc == (_i ? LLADD_NO_SPACE : LLADD_STORE_FAILED) || done == 3);
        expect_whole(done);
        ck_assert_int_eq(lladd_close(db), 0);
    }
    ck_assert_uint_gt(rounds, 10);
}
END_TEST

/* After a write that failed, the next write begins at the same place. */
START_TEST(a_transaction_goes_on_after_a_write_that_failed)
{
    open_db();
    committed_extents(7); /* makes the directory */
    for (uint64_t n = 1; n < 5; n++) {
        struct lladd_txn *txn = begin();
        fault_device_only(disk, "files");
        fault_device_fail(disk, n, FAULT_PWRITEV, ENOSPC, false);
        int rc = write_extents(txn, (unsigned)n, PAGES * PAGE);
        ck_assert_int_eq(rc, LLADD_NO_SPACE);
        fault_device_fail(disk, 0, 0, 0, false);
        uint64_t id = lladd_txn_id(txn).v;
        ck_assert_int_eq(lladd_abort(txn), 0);
        expect_none(id);
        txn = begin();
        lladd_pageno first;
        unsigned char *bytes = calloc(2, PAGE);
        TXN(lladd_extent_alloc(txn, 2, LLADD_EXTENT_RAW, &first));
        fault_device_fail(disk, n < 3 ? n : 1, FAULT_PWRITEV, ENOSPC, false);
        ck_assert_int_eq(lladd_bulk_write(txn, first, 2, NULL, bytes), LLADD_NO_SPACE);
        fault_device_fail(disk, 0, 0, 0, false);
        TXN(write_extents(txn, 20 + (unsigned)n, PAGES * PAGE));
        id = lladd_txn_id(txn).v;
        ck_assert_int_eq(lladd_commit(txn), 0);
        ck_assert_uint_eq(expect_spool(id), 1);
        free(bytes);
    }
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

/* After a sync that failed the transaction cannot commit (LOG-4); it can be rolled back. */
START_TEST(a_sync_that_failed_is_final)
{
    static const unsigned kinds[] = {FAULT_SYNC, FAULT_SYNC_DIR};
    open_db();
    committed_extents(1);
    struct lladd_txn *txn = begin();
    TXN(write_extents(txn, 2, PAGES * PAGE));
    fault_device_only(disk, "files");
    fault_device_fail(disk, 1, kinds[_i], EIO, false);
    ck_assert_int_eq(lladd_commit(txn), LLADD_STORE_FAILED);
    ck_assert_uint_eq(fault_device_fired(disk), 1);
    fault_device_fail(disk, 0, 0, 0, false);
    ck_assert_int_eq(lladd_commit(txn), LLADD_STORE_FAILED);
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "a sync has failed"));
    ck_assert_int_eq(write_extents(txn, 3, PAGES * PAGE), LLADD_STORE_FAILED);
    ck_assert_int_eq(lladd_abort(txn), 0);
    ck_assert_uint_eq(files(), 1);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

/* A part is refused if any byte is changed, or if it is cut off at any length. */
START_TEST(a_damaged_part_is_refused)
{
    struct ll_ship_buf part = {.data = NULL};
    struct ll_ship_blk b;
    struct ll_ship_blk_piece p;
    bool last;
    open_db();
    uint64_t txn = committed_extents(10);
    OK(ll_ship_spool_read(opened_spool, txn, 0, &part, &last, &err));
    for (size_t at = 0; at < part.len; at += at < 200 || part.len - at < 200 ? 1 : 97) {
        part.data[at] ^= 0x10;
        int rc = ll_ship_blk_begin(&b, "the part", part.data, part.len, &err);
        while (!rc)
            rc = ll_ship_blk_next(&b, &p, &err);
        ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "byte %zu: %d", at, rc);
        ck_assert_ptr_nonnull(strstr(err.message, "the part"));
        part.data[at] ^= 0x10;
    }
    for (size_t len = 0; len < part.len; len += len < 200 || part.len - len < 200 ? 1 : 97) {
        int rc = ll_ship_blk_begin(&b, "the part", part.data, len, &err);
        while (!rc)
            rc = ll_ship_blk_next(&b, &p, &err);
        ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "length %zu: %d", len, rc);
    }
    ll_ship_buf_free(&part);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

static void *write_often(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < 10; i++) {
        struct lladd_txn *txn = begin();
        int rc = write_extents(txn, number, PAGES * PAGE);
        ck_assert(rc == 0 || rc == LLADD_BUSY);
        if (rc || i % 3 == 2)
            ck_assert_int_eq(lladd_abort(txn), 0);
        else
            ck_assert_int_eq(lladd_commit(txn), 0);
    }
    return NULL;
}

static int read_and_free(void *ctx, uint64_t txn, bool live)
{
    unsigned *freed = ctx;
    struct ll_ship_buf part = {.data = NULL};
    bool last = false;
    if (live)
        return 0;
    OK(ll_ship_spool_read(opened_spool, txn, 0, &part, &last, &err));
    ck_assert(last);
    OK(ll_ship_spool_free(opened_spool, txn, &err));
    ll_ship_buf_free(&part);
    (*freed)++;
    return 0;
}

START_TEST(spools_are_freed_while_others_are_written)
{
    enum { WRITERS = 3 };
    struct lladd_thread threads[WRITERS] = {{0}};
    unsigned freed = 0;
    options.flags = 0;
    open_db();
    for (uintptr_t i = 0; i < WRITERS; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], write_often, (void *)(i * 10)), 0);
    while (freed < 5) {
        OK(ll_ship_spool_each(opened_spool, read_and_free, &freed, &err));
        (void)ll_ship_spool_bytes(opened_spool);
        lladd_yield();
    }
    for (unsigned i = 0; i < WRITERS; i++)
        lladd_thread_join(&threads[i]);
    OK(ll_ship_spool_each(opened_spool, read_and_free, &freed, &err));
    ck_assert_uint_eq(ll_ship_spool_bytes(opened_spool), 0);
    ck_assert_uint_eq(files(), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("spool");
    TCase *tc = tcase_create("all"), *threads = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(tc, a_committed_transaction_has_a_whole_spool);
    tcase_add_test(tc, a_large_spool_has_parts);
    tcase_add_test(tc, a_rolled_back_transaction_has_no_spool);
    tcase_add_loop_test(tc, a_prepared_transaction_has_a_whole_spool, 0, 4);
    tcase_add_test(tc, a_transaction_that_is_rolled_back_after_its_spool_was_freed);
    tcase_add_loop_test(tc, a_crash_leaves_each_commit_its_spool, 0, 3);
    tcase_add_loop_test(tc, a_spool_that_cannot_be_written_refuses_the_commit, 0, 2);
    tcase_add_test(tc, a_transaction_goes_on_after_a_write_that_failed);
    tcase_add_loop_test(tc, a_sync_that_failed_is_final, 0, 2);
    tcase_add_test(tc, a_damaged_part_is_refused);
    tcase_add_test(threads, spools_are_freed_while_others_are_written);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, threads);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
