/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that extensions write themselves: redo barriers, bulk writing, and the extensions that hear
 * of it.
 */
#include "db_fixture.h"

#include "support/holder.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

/* ---- bulk writing ------------------------------------------------------------------------ */

enum { BULK = 40, BULK_N = 4 }; /* pages 40 to 43, which the allocator does not use here */

static unsigned char *bulk_bytes(unsigned value)
{
    unsigned char *bytes = calloc(BULK_N, 4096);
    for (unsigned p = 0; p < BULK_N; p++)
        for (unsigned i = 0; i < CELLS; i++)
            lladd_put64(bytes + p * 4096 + LLADD_PAGE_HEADER + cell_offset(i), value + p);
    return bytes;
}

/* An earlier use of the pages, which redo must not repeat. */
static void earlier_life(void)
{
    for (unsigned p = 0; p < BULK_N; p++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cells_format(txn, lladd_page_of(BULK + p)));
        ok(txn, cell_put(txn, cell_of(lladd_page_of(BULK + p), 5), 666));
        done(lladd_commit(txn));
    }
}

static struct lladd_txn *bulk_write(unsigned value)
{
    struct lladd_txn *txn = fixture_begin(&r);
    unsigned char *bytes = bulk_bytes(value);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    free(bytes);
    return txn;
}

static void expect_bulk(unsigned value)
{
    for (unsigned p = 0; p < BULK_N; p++)
        fixture_expect(&r, cell_of(lladd_page_of(BULK + p), 5), value + p);
}

static void begin_bulk(int kind)
{
    fixture_init(&r, (unsigned)kind);
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_pages_extend(r.db, BULK + BULK_N, &r.err));
}

START_TEST(redo_of_an_earlier_life_never_touches_bulk_written_pages)
{
    begin_bulk(_i);
    earlier_life();
    done(lladd_commit(bulk_write(1000)));
    expect_bulk(1000);
    for (unsigned round = 0; round < 4; round++) {
        if (round == 2)
            ok_db(&r, lladd_checkpoint(r.db, &r.err)); /* copies the redo barrier */
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        expect_bulk(1000);
    }
    /* A second bulk write replaces the first. A third replaces a part of the second. */
    done(lladd_commit(bulk_write(2000)));
    struct lladd_txn *txn = fixture_begin(&r);
    unsigned char *bytes = bulk_bytes(3000);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), 1));
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), 1, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    free(bytes);
    done(lladd_commit(txn));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, cell_of(lladd_page_of(BULK), 5), 3000);
    fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 5), 2001);
    fixture_free(&r);
}
END_TEST

START_TEST(bulk_written_pages_can_be_updated_like_others)
{
    begin_bulk(_i);
    earlier_life();
    done(lladd_commit(bulk_write(1000)));
    struct cell c = cell_of(lladd_page_of(BULK + 1), 7);
    fixture_set(&r, c, 5);
    /* A bulk read has the change, which is only in the cache. */
    unsigned char read[4096];
    ok_db(&r, lladd_bulk_read(r.db, c.page, 1, false, read, &r.err));
    ck_assert_uint_eq(lladd_get64(read + LLADD_PAGE_HEADER + cell_offset(7)), 5);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cell_put(txn, c, 6));
    fixture_set(&r, at(0), 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, c, 5);
    fixture_expect(&r, cell_of(c.page, 5), 1001);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, c, 7);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, c, 7);
    fixture_free(&r);
}
END_TEST

/* The log says which transaction has written which pages in bulk, even if another transaction has
 * logged a barrier for the same pages before. */
START_TEST(a_bulk_write_has_a_barrier_of_its_own_transaction)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    unsigned own = 0;
    begin_bulk(_i);
    done(lladd_commit(bulk_write(1000)));
    struct lladd_txn *txn = fixture_begin(&r);
    unsigned char *bytes = bulk_bytes(2000);
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK + 1), 2, "test.cells", bytes));
    /* For these pages the transaction has logged a barrier already. */
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK + 1), 2, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    free(bytes);
    lladd_lsn id = lladd_txn_id(txn);
    ck_assert_uint_ne(id.v, 0);
    done(lladd_commit(txn));
    ok_db(&r, lladd_log_open(r.db, id, NULL, &cursor, &r.err));
    while (lladd_log_next(cursor, &e, &r.err) == 0)
        if (e.txn.v == id.v && strcmp(lladd_log_kind_name(e.kind), "redo-barrier") == 0) {
            ck_assert_uint_eq(lladd_get64(e.redo.data), BULK + 1);
            own++;
        }
    lladd_log_close(cursor);
    ck_assert_uint_eq(own, 1);
    fixture_free(&r);
}
END_TEST

/* A checkpoint drops redo barriers that redo no longer needs. A bulk write that goes on after the
 * checkpoint gets a new barrier. */
START_TEST(bulk_writing_goes_on_after_checkpoints)
{
    unsigned char *bytes = bulk_bytes(1000);
    begin_bulk(_i);
    earlier_life();
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    for (unsigned i = 0; i < BULK_N; i++) {
        ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK + i), 1, "test.cells", bytes + i * 4096));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    }
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    free(bytes);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    expect_bulk(1000);
    fixture_free(&r);
}
END_TEST

/* While a bulk write looks for the redo barriers of its pages, at the second page, a checkpoint
 * ends and drops the barrier of all of them. */
static unsigned looked;
static void *take_checkpoint(void *unused)
{
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    return unused;
}

static int checkpoint_at_the_second_page(void *ctx, const char *point)
{
    struct lladd_thread thread = {0};
    (void)ctx;
    if (strcmp(point, "bulk.barrier") == 0 && ++looked == 2) {
        ck_assert_int_eq(lladd_thread_start(&thread, take_checkpoint, NULL), 0);
        lladd_thread_join(&thread);
    }
    return 0;
}

START_TEST(no_bulk_written_page_goes_back_in_time)
{
    unsigned char *bytes = bulk_bytes(1000);
    fixture_init(&r, (unsigned)_i);
    r.world.world.point = checkpoint_at_the_second_page;
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_pages_extend(r.db, BULK + BULK_N, &r.err));
    earlier_life();
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    looked = 0;
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    ck_assert_uint_eq(looked, 2);
    ck_assert_uint_ne(lladd_get64(bytes + 8), 0);
    for (unsigned p = 1; p < BULK_N; p++)
        ck_assert_uint_eq(lladd_get64(bytes + p * 4096 + 8), lladd_get64(bytes + 8));
    expect_bulk(1000);
    free(bytes);
    fixture_free(&r);
}
END_TEST

START_TEST(a_crash_before_the_publishing_commit_is_harmless)
{
    begin_bulk(_i);
    earlier_life();
    (void)bulk_write(1000);
    fixture_set(&r, at(0), 1); /* makes the redo barrier durable */
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    done(lladd_commit(bulk_write(5000))); /* writes the same pages again */
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    expect_bulk(5000);
    /* The pages can also be used for logged updates again. */
    earlier_life();
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, cell_of(lladd_page_of(BULK + 2), 5), 666);
    fixture_free(&r);
}
END_TEST

START_TEST(raw_extents_hold_any_bytes)
{
    unsigned char *bytes = malloc(BULK_N * 4096), *back = malloc(BULK_N * 4096);
    for (unsigned i = 0; i < BULK_N * 4096; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 4096);
    begin_bulk(_i);
    earlier_life();
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, NULL, bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    for (unsigned round = 0; round < 2; round++) {
        ok_db(&r, lladd_bulk_read(r.db, lladd_page_of(BULK), BULK_N, true, back, &r.err));
        ck_assert_mem_eq(bytes, back, BULK_N * 4096);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
    }
    ck_assert_int_eq(lladd_bulk_read(r.db, lladd_page_of(BULK), 1, false, back, &r.err),
                     LLADD_CORRUPT_PAGE);
    free(bytes);
    free(back);
    fixture_free(&r);
}
END_TEST

START_TEST(wrong_bulk_calls_are_refused)
{
    unsigned char *bytes = bulk_bytes(1);
    begin_bulk(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_pageno first = lladd_page_of(BULK);
    refused(txn, LLADD_OUT_OF_RANGE, lladd_redo_barrier(txn, first, 0));
    refused(txn, LLADD_OUT_OF_RANGE, lladd_redo_barrier(txn, lladd_page_of(0), 1));
    refused(txn, LLADD_OUT_OF_RANGE, lladd_redo_barrier(txn, first, UINT64_MAX));
    refused(txn, LLADD_OUT_OF_RANGE, lladd_redo_barrier(txn, lladd_page_of(UINT64_MAX - 1), 1));
    /* In a record this page number means "no page". */
    refused(txn, LLADD_OUT_OF_RANGE,
            lladd_redo_barrier(txn, lladd_page_of((UINT64_C(1) << 48) - 1), 1));
    ok(txn, lladd_redo_barrier(txn, first, 2));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_bulk_write(txn, first, 2, "test.nothing", bytes));
    struct holder looks;
    ck_assert_int_eq(holder_begin(&looks, r.db, lladd_page_of(BULK + 2), LLADD_LATCH_SHARED), 0);
    refused(txn, LLADD_BUSY, lladd_redo_barrier(txn, first, BULK_N));
    holder_end(&looks);
    ok(txn, lladd_redo_barrier(txn, first, BULK_N));
    ok(txn, lladd_bulk_write(txn, first, BULK_N, "test.cells", bytes));
    done(lladd_abort(txn));
    free(bytes);
    fixture_free(&r);
}
END_TEST

static void rot(lladd_pageno number)
{
    unsigned char *bytes, flipped;
    size_t len, at = number.v * 4096 + 1000;
    bytes = fixture_file(&r, "pages", &len);
    ck_assert_uint_gt(len, at);
    flipped = bytes[at] ^ 1;
    fixture_file_write(&r, "pages", &flipped, 1, at);
    free(bytes);
}

static void expect_unreadable(lladd_pageno number)
{
    struct lladd_page *held;
    ck_assert_int_eq(lladd_page_fix(r.db, number, LLADD_LATCH_SHARED, &held, &r.err),
                     LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 0);
}

/* BUF-2. A checkpoint has dropped the redo barrier, but the log still has all records of the
 * earlier use of the pages, with a base. Then a bit of one page flips, and another page has no
 * valid header. The repair of these pages must not use the old records. */
START_TEST(an_earlier_life_is_no_repair_of_bulk_written_pages)
{
    static const uint32_t how[] = {0, LLADD_RECOVER_INSTANT};
    for (unsigned i = 0; i < 2; i++) {
        unsigned char raw[4096];
        begin_bulk(_i);
        r.options.recovery = how[i];
        earlier_life();
        struct lladd_txn *txn = bulk_write(1000);
        memset(raw, 7, sizeof raw);
        ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK + 3), 1, NULL, raw));
        ok(txn, lladd_bulk_sync(txn));
        done(lladd_commit(txn));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_set(&r, at(0), 1);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_close(&r);
        rot(lladd_page_of(BULK));
        fixture_open(&r);
        expect_unreadable(lladd_page_of(BULK));
        expect_unreadable(lladd_page_of(BULK + 3));
        fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 5), 1001);
        /* The next record about a page comes with a page image, which is the page's new base. */
        fixture_set(&r, cell_of(lladd_page_of(BULK + 1), 7), 5);
        fixture_close(&r);
        rot(lladd_page_of(BULK + 1));
        fixture_open(&r);
        fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 7), 5);
        fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 5), 1001);
        ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
        fixture_free(&r);
    }
}
END_TEST

/* A transaction writes pages in bulk and rolls back to a savepoint. Other transactions use the
 * pages and give them up. Then the first transaction writes them in bulk again. The barrier from
 * before the rollback does not cover the new bytes, because the log has later records about the
 * pages. */
START_TEST(a_barrier_that_was_rolled_back_is_logged_again)
{
    lladd_savepoint_id before;
    begin_bulk(_i);
    struct lladd_txn *txn = fixture_begin(&r);
    unsigned char *bytes = bulk_bytes(1000);
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ok(txn, lladd_rollback_to(txn, before));
    earlier_life();
    ck_assert_int_eq(lladd_pages_discard(r.db, lladd_page_of(BULK), BULK_N), 0);
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    free(bytes);
    expect_bulk(1000);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    expect_bulk(1000);
    fixture_close(&r);
    fixture_free(&r);
}
END_TEST

/* A transaction logs a barrier or writes pages in bulk. Then it changes a page with a logged
 * operation, and then it writes the pages in bulk again. Redo must not apply the logged change to
 * the newest bytes. */
START_TEST(a_page_is_changed_before_it_is_written_in_bulk)
{
    begin_bulk(_i);
    struct cell c = cell_of(lladd_page_of(BULK + 1), 5);
    for (unsigned round = 0; round < 8; round++) {
        bool barrier_only = round & 1, in_file = round & 2, power = round & 4;
        unsigned char *bytes = bulk_bytes(2000 + 10 * round), read[4096];
        earlier_life();
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        struct lladd_txn *txn = barrier_only ? fixture_begin(&r) : bulk_write(1000);
        if (barrier_only)
            ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
        ok(txn, barrier_only ? cell_put(txn, c, 5) : cells_format(txn, c.page));
        if (in_file)
            ok_db(&r, lladd_bulk_read(r.db, c.page, 1, false, read, &r.err));
        ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
        ok(txn, lladd_bulk_sync(txn));
        done(lladd_commit(txn));
        free(bytes);
        fixture_crash(&r, power ? &fault_power : &fault_kill);
        fixture_open(&r);
        expect_bulk(2000 + 10 * round);
    }
    fixture_free(&r);
}
END_TEST

/* A bulk write that fails for want of memory, in any of its allocations, drops no changed page. */
START_TEST(a_bulk_write_that_fails_drops_no_change)
{
    int rc = LLADD_NO_MEMORY, failed = 0;
    begin_bulk(_i);
    earlier_life();
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct cell c = cell_of(lladd_page_of(BULK + 1), 5);
    for (; rc; failed++) {
        unsigned char *bytes = bulk_bytes(1000);
        fixture_set(&r, c, 7);
        struct lladd_txn *txn = fixture_begin(&r);
        fault_alloc_fail(&r.mem, (unsigned)failed + 1, false);
        rc = lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes);
        fault_alloc_fail(&r.mem, 0, false);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        done(lladd_abort(txn));
        free(bytes);
        if (rc)
            fixture_expect(&r, c, 7);
    }
    ck_assert_int_gt(failed, 2);
    fixture_free(&r);
}
END_TEST

/* Writes the page, if it is dirty, and takes no checkpoint. */
static void write_out(lladd_pageno number)
{
    unsigned char read[4096];
    ok_db(&r, lladd_bulk_read(r.db, number, 1, false, read, &r.err));
}

/* A page has a redo barrier above its base, and is changed without a bulk write. The base does not
 * count any more, so the change or its write-back logs an image, and a torn write is repaired. */
START_TEST(a_page_is_changed_after_a_barrier_without_a_bulk_write)
{
    begin_bulk(_i);
    earlier_life();
    struct cell c = cell_of(lladd_page_of(BULK + 1), 5);
    write_out(c.page);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    done(lladd_abort(txn));
    fixture_set(&r, c, 7);
    write_out(c.page);
    fixture_crash(&r, &fault_kill);
    rot(c.page);
    fixture_open(&r);
    fixture_expect(&r, c, 7);
    fixture_free(&r);
}
END_TEST

/* ---- images at the first change ------------------------------------------------------------ */

/* Credit for this number of records is as much as an image and a record need together. */
enum { MANY = 400 };

/* Puts `value` into cell 7 of a bulk-written page, with the credit that the transaction has. */
static int put_held(struct lladd_txn *txn, unsigned p, uint64_t value)
{
    struct {
        unsigned index;
        uint64_t value;
        size_t filling;
    } args = {7, value, 0};
    struct lladd_page *held;
    ok_db(&r, lladd_page_fix(r.db, lladd_page_of(BULK + p), LLADD_LATCH_EXCLUSIVE, &held, &r.err));
    int rc = lladd_update_page(txn, r.ids.put, held, &args, sizeof args);
    lladd_page_unfix(r.db, held, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* Credit for records can be used only for these records, not for an image. */
START_TEST(only_credit_for_images_pays_for_an_image)
{
    begin_bulk(_i);
    done(lladd_commit(bulk_write(1000)));
    struct lladd_log_need needs[] = {{r.ids.put, MANY}, {LLADD_PAGE_IMAGE, 1}};
    uint64_t images = fixture_stats(&r).page_images;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_log_credit(txn, r.ids.put, MANY));
    refused(txn, LLADD_BAD_STATE, put_held(txn, 0, 5));
    ok(txn, lladd_log_credit_all(txn, needs, 2));
    ok(txn, put_held(txn, 0, 5));
    ok(txn, put_held(txn, 0, 6));
    refused(txn, LLADD_BAD_STATE, put_held(txn, 1, 5)); /* the one image is used up */
    ok(txn, lladd_log_credit_all(txn, needs, 2));
    ok(txn, lladd_log_credit(txn, r.ids.put, MANY)); /* replaces the earlier request */
    refused(txn, LLADD_BAD_STATE, put_held(txn, 1, 5));
    ok(txn, lladd_log_credit(txn, r.ids.put, 0));
    done(lladd_commit(txn));
    ck_assert_uint_eq(fixture_stats(&r).page_images - images, 1);
    fixture_expect(&r, cell_of(lladd_page_of(BULK), 7), 6);
    fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 7), 1001);
    fixture_free(&r);
}
END_TEST

static int put_back(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    (void)undo;
    int rc = lladd_log_credit(txn, r.ids.put, MANY);
    for (unsigned i = 0; !rc && i < MANY; i++)
        rc = put_held(txn, i % BULK_N, 4000 + i);
    return rc ? rc : cell_put(txn, cell_of(lladd_page_of(BULK + 1), 8), 9);
}

static bool any_undo(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    (void)s;
    return kind == LLADD_SPAN_UNDO;
}

/* A rollback has log space for its records only. So a compensation that changes bulk-written pages
 * first syncs them, even if it has credit. */
START_TEST(a_rollback_logs_no_image)
{
    struct lladd_op op = {.struct_size = sizeof op,
                          .name = "test.put_back",
                          .version = 1,
                          .record_max = 8,
                          .undo_kind = LLADD_UNDO_LOGICAL,
                          .validate = any_undo,
                          .compensate = put_back,
                          .undo_log_max = 64u << 10,
                          .undo_pages_max = BULK_N};
    lladd_op_id id = LLADD_NO_OP;
    fixture_init(&r, (unsigned)_i);
    ok_db(&r, lladd_register_op(&r.options, &op, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_pages_extend(r.db, BULK + BULK_N, &r.err));
    ck_assert_int_eq(lladd_op_lookup(r.db, "test.put_back", 0, &id), 0);
    unsigned char *bytes = bulk_bytes(1000);
    struct lladd_txn *txn = fixture_begin(&r), *loser = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
    ok(loser, lladd_log_undo_only(loser, id, "", 0));
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    free(bytes);
    uint64_t images = fixture_stats(&r).page_images;
    done(lladd_abort(loser));
    ck_assert_uint_eq(fixture_stats(&r).page_images, images);
    fixture_set(&r, at(0), 1); /* makes all earlier log durable */
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned p = 0; p < BULK_N; p++) {
        fixture_expect(&r, cell_of(lladd_page_of(BULK + p), 7), 4000 + MANY - BULK_N + p);
        fixture_expect(&r, cell_of(lladd_page_of(BULK + p), 5), 1000 + p);
    }
    fixture_expect(&r, cell_of(lladd_page_of(BULK + 1), 8), 9);
    fixture_free(&r);
}
END_TEST

/* ---- an extension that is called after a bulk write ----------------------------------------- */

struct heard {
    uint64_t barrier, first, n;
    bool typed;
};
static struct {
    struct heard call[8];
    unsigned n;
    uint64_t pages;
    unsigned char bytes[4 * BULK_N * 4096]; /* the bytes of all calls, one call after the other */
    int fails;
    unsigned committing; /* `n` at the call of `committing` */
} heard;

static int on_bulk_written(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                           lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                           const void *bytes)
{
    ck_assert_ptr_eq(ctx, &heard);
    ck_assert_ptr_eq(state, &heard.n);
    ck_assert_ptr_eq(lladd_txn_db(txn), db);
    ck_assert_uint_lt(barrier.v, lladd_durable_lsn(db).v);
    if (heard.fails > 0) /* the callback fails without a message */
        return -heard.fails;
    if (heard.fails)
        return lladd_error_set(lladd_txn_error_out(txn), heard.fails, "no room for the pages");
    ck_assert_uint_lt(heard.n, 8);
    ck_assert_uint_le((heard.pages + n) * 4096, sizeof heard.bytes);
    heard.call[heard.n++] = (struct heard){barrier.v, first.v, n, typed};
    memcpy(heard.bytes + heard.pages * 4096, bytes, n * 4096);
    heard.pages += n;
    return 0;
}

static int attach_heard(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx, (void)db, (void)err;
    *state = &heard.n;
    return 0;
}

static int heard_committing(void *ctx, void *state, struct lladd_txn *txn)
{
    (void)ctx, (void)state, (void)txn;
    heard.committing = heard.n;
    return 0;
}

static void ignore_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx, (void)state, (void)commit;
}

static void ignore_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx, (void)state, (void)db, (void)commit;
}

static void ignore_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx, (void)state, (void)db;
}

static const struct lladd_participant heard_participant = {
    .struct_size = sizeof heard_participant,
    .name = "test.heard",
    .version = 1,
    .logged = ignore_logged,
    .durable = ignore_durable,
    .aborted = ignore_aborted,
    .committing = heard_committing,
};
static const struct lladd_participant *const heard_participants[] = {&heard_participant, NULL};
static struct lladd_extension heard_extension = {
    .name = "test.heard",
    .version = 1,
    .ctx = &heard,
    .participants = heard_participants,
    .attach = attach_heard,
    .bulk_written = on_bulk_written,
};

/* Writes in bulk when the transaction is about to commit. */
static int late_committing(void *ctx, void *state, struct lladd_txn *txn)
{
    unsigned char *bytes = bulk_bytes(5000);
    (void)ctx, (void)state;
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), 1, "test.cells", bytes));
    free(bytes);
    return lladd_bulk_sync(txn);
}

static const struct lladd_participant late_participant = {
    .struct_size = sizeof late_participant,
    .name = "test.late",
    .version = 1,
    .logged = ignore_logged,
    .durable = ignore_durable,
    .aborted = ignore_aborted,
    .committing = late_committing,
};

static void begin_heard(int kind, size_t struct_size)
{
    memset(&heard, 0, sizeof heard);
    heard_extension.struct_size = struct_size;
    fixture_init(&r, (unsigned)kind);
    ok_db(&r, lladd_register_participant(&r.options, &late_participant, &r.err));
    ok_db(&r, lladd_register_extension(&r.options, &heard_extension, &r.err));
    fixture_open(&r);
    page = fixture_page(&r);
    ok_db(&r, lladd_pages_extend(r.db, BULK + BULK_N, &r.err));
}

static void expect_heard(unsigned i, uint64_t first, uint64_t n, bool typed)
{
    ck_assert_uint_eq(heard.call[i].first, BULK + first);
    ck_assert_uint_eq(heard.call[i].n, n);
    ck_assert(heard.call[i].typed == typed);
    ck_assert_uint_ne(heard.call[i].barrier, 0);
}

/* Pages of one write have two barriers. The extension gets each page once, with the bytes that the
 * page file has. */
START_TEST(an_extension_hears_of_each_page_that_is_written_in_bulk)
{
    unsigned char *bytes = bulk_bytes(1000), *back = malloc(BULK_N * 4096);
    begin_heard(_i, sizeof heard_extension);
    for (unsigned raw = 0; raw < 2; raw++) {
        heard.n = 0;
        heard.pages = 0;
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK + 1), 2));
        ok(txn,
           lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, raw ? NULL : "test.cells", bytes));
        ok(txn, lladd_bulk_sync(txn));
        done(lladd_commit(txn));
        ck_assert_uint_eq(heard.n, 3);
        expect_heard(0, 0, 1, !raw);
        expect_heard(1, 1, 2, !raw);
        expect_heard(2, 3, 1, !raw);
        ck_assert_uint_lt(heard.call[0].barrier, heard.call[1].barrier);
        ck_assert_uint_eq(heard.call[0].barrier, heard.call[2].barrier);
        ok_db(&r, lladd_bulk_read(r.db, lladd_page_of(BULK), BULK_N, raw, back, &r.err));
        ck_assert_mem_eq(heard.bytes, back, BULK_N * 4096);
        for (unsigned p = 0; p < BULK_N && !raw; p++)
            ck_assert_uint_eq(lladd_get64(back + p * 4096 + 8),
                              heard.call[p == 1 || p == 2].barrier);
    }
    free(bytes);
    free(back);
    fixture_free(&r);
}
END_TEST

/* A checkpoint comes in the middle of a bulk write and drops the barrier, so a new barrier is
 * logged. The extension gets the new one. */
START_TEST(an_extension_hears_of_the_barrier_that_counts)
{
    unsigned char *bytes = bulk_bytes(1000);
    begin_heard(_i, sizeof heard_extension);
    r.world.world.point = checkpoint_at_the_second_page;
    fixture_reopen(&r);
    for (unsigned raw = 0; raw < 2; raw++) {
        heard.n = 0;
        heard.pages = 0;
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_redo_barrier(txn, lladd_page_of(BULK), BULK_N));
        looked = 0;
        ok(txn,
           lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, raw ? NULL : "test.cells", bytes));
        ok(txn, lladd_bulk_sync(txn));
        done(lladd_commit(txn));
        ck_assert_uint_eq(looked, 2);
        ck_assert_uint_eq(heard.n, 1);
        expect_heard(0, 0, BULK_N, !raw);
        for (unsigned p = 0; p < BULK_N && !raw; p++)
            ck_assert_uint_eq(lladd_get64(heard.bytes + p * 4096 + 8), heard.call[0].barrier);
    }
    free(bytes);
    fixture_free(&r);
}
END_TEST

/* The extension's participant joins first. A participant that joins later writes in bulk when its
 * `committing` is called. Then the `committing` of the extension's participant is called. */
START_TEST(an_extension_that_hears_of_bulk_writes_is_told_last)
{
    struct lladd_gid gid = gid_of("heard");
    for (unsigned prepared = 0; prepared < 2; prepared++) {
        begin_heard(_i, sizeof heard_extension);
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, lladd_txn_join(txn, &heard_participant, &heard));
        ok(txn, lladd_txn_join(txn, &late_participant, &heard));
        ok(txn, cell_put(txn, at(0), 1));
        if (prepared)
            ok(txn, lladd_prepare(txn, &gid));
        done(lladd_commit(txn));
        ck_assert_uint_eq(heard.n, 1);
        ck_assert_uint_eq(heard.committing, 1);
        fixture_free(&r);
    }
}
END_TEST

START_TEST(an_extension_can_refuse_what_is_written_in_bulk)
{
    unsigned char *bytes = bulk_bytes(1000);
    begin_heard(_i, sizeof heard_extension);
    struct lladd_txn *txn = fixture_begin(&r);
    heard.fails = LLADD_NO_SPACE;
    refused(txn, LLADD_NO_SPACE,
            lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ck_contains(lladd_txn_error(txn)->message, "no room for the pages");
    heard.fails = -LLADD_NO_SPACE;
    refused(txn, LLADD_NO_SPACE,
            lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ck_contains(lladd_txn_error(txn)->message, "test.heard");
    heard.fails = 0;
    ok(txn, lladd_bulk_write(txn, lladd_page_of(BULK), BULK_N, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    expect_bulk(1000);
    fixture_free(&r);
    /* An older extension: its struct lacks the member. */
    begin_heard(_i, offsetof(struct lladd_extension, bulk_written));
    heard.fails = LLADD_NO_SPACE;
    done(lladd_commit(bulk_write(1000)));
    ck_assert_uint_eq(heard.n, 0);
    free(bytes);
    fixture_free(&r);
}
END_TEST

/* The first call makes the file of a clean database longer, and the process is killed. The next
 * open must not take the length of the file for that of a clean close. */
START_TEST(a_clean_database_is_extended_in_use)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    struct lladd_inspect *view;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    fixture_reopen(&r);
    ok_db(&r, lladd_pages_extend(r.db, BULK + BULK_N, &r.err));
    fixture_crash(&r, &fault_kill);
    ok_db(&r, lladd_inspect_open(r.dir, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    lladd_inspect_close(view);
    ck_assert(!info.clean);
    fixture_open(&r);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bulk");
    TCase *tc = tcase_create("all");
#define LOOP(test) tcase_add_loop_test(tc, test, 0, FIXTURE_KINDS)
    LOOP(redo_of_an_earlier_life_never_touches_bulk_written_pages);
    LOOP(bulk_written_pages_can_be_updated_like_others);
    LOOP(a_bulk_write_has_a_barrier_of_its_own_transaction);
    LOOP(bulk_writing_goes_on_after_checkpoints);
    LOOP(no_bulk_written_page_goes_back_in_time);
    LOOP(a_crash_before_the_publishing_commit_is_harmless);
    LOOP(raw_extents_hold_any_bytes);
    LOOP(wrong_bulk_calls_are_refused);
    LOOP(an_earlier_life_is_no_repair_of_bulk_written_pages);
    LOOP(a_barrier_that_was_rolled_back_is_logged_again);
    LOOP(a_page_is_changed_before_it_is_written_in_bulk);
    LOOP(a_bulk_write_that_fails_drops_no_change);
    LOOP(a_page_is_changed_after_a_barrier_without_a_bulk_write);
    LOOP(only_credit_for_images_pays_for_an_image);
    LOOP(a_rollback_logs_no_image);
    LOOP(an_extension_hears_of_each_page_that_is_written_in_bulk);
    LOOP(an_extension_hears_of_the_barrier_that_counts);
    LOOP(an_extension_that_hears_of_bulk_writes_is_told_last);
    LOOP(an_extension_can_refuse_what_is_written_in_bulk);
    LOOP(a_clean_database_is_extended_in_use);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
