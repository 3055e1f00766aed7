/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints, and recovery from them. Tests
 * - fuzzy checkpoints with everything that a checkpoint copies (transactions, names, redo barriers,
 *   pins);
 * - checkpoints that fail halfway, and checkpoints at the log's limit;
 * - redo by several threads;
 * - torn pages without a base;
 * - many commits that are not durable yet;
 * - when a checkpoint is due.
 */
#include "db_fixture.h"
#include "recovery/core.h"
#include "support/fixtures.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <lladd/snapshot.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fixture r;
static lladd_pageno page;

static struct cell at(unsigned i)
{
    return cell_of(page, i);
}

static void begin_case(unsigned kind)
{
    fixture_init(&r, kind);
    r.options.checkpoint_bytes = 16u << 10;
    fixture_open(&r);
    page = fixture_page(&r);
}

/* Writes log until lladd_maintain takes a fuzzy checkpoint. */
static void fuzzy_checkpoint(void)
{
    uint64_t before = fixture_stats(&r).checkpoints;
    for (unsigned i = 0; fixture_stats(&r).checkpoints == before; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(40), i, 1500));
        done(lladd_commit_async(txn, NULL));
        ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
        ck_assert_uint_lt(i, 1000);
    }
}

/* ---- what a checkpoint carries --------------------------------------------------------------- */

/* Two fuzzy checkpoints come before the crash, so redo begins after all these records. */
START_TEST(a_fuzzy_checkpoint_carries_transactions_barriers_pins_and_names)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_gid gid = gid_of("carried");
    struct lladd_pinner who;
    unsigned char *bytes = calloc(2, 4096);
    begin_case((unsigned)_i);
    o.system = true;
    ok_db(&r, lladd_pages_extend(r.db, 60, &r.err));
    struct lladd_txn *loser = fixture_begin(&r), *system = fixture_begin_with(&r, &o),
                     *doubt = fixture_begin(&r), *half = fixture_begin(&r),
                     *bulk = fixture_begin(&r);
    lladd_savepoint_id sp;
    ok(loser, cell_put(loser, at(0), 1));
    ok(loser, cells_transfer(loser, at(1), at(2), 5));
    ok(system, cell_bump(system, at(3), 5));
    ok(doubt, cell_put(doubt, at(4), 1));
    ok(doubt, lladd_prepare(doubt, &gid));
    ok(half, cell_add(half, at(5), 1));
    ok(half, lladd_savepoint(half, &sp));
    ok(half, cell_add(half, at(5), 10));
    ok(half, lladd_rollback_to(half, sp));
    ok_db(&r, lladd_pin_set(r.db, "carried", lladd_lsn_of(fixture_stats(&r).log_tail), &r.err));
    fuzzy_checkpoint();
    /* An earlier use of page 50. Redo reads its records. */
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_format(txn, lladd_page_of(50)));
    ok(txn, cell_put(txn, cell_of(lladd_page_of(50), 0), 666));
    done(lladd_commit(txn));
    ok(bulk, lladd_redo_barrier(bulk, lladd_page_of(50), 2));
    ok(bulk, lladd_bulk_write(bulk, lladd_page_of(50), 2, "test.cells", bytes));
    ok(bulk, lladd_bulk_sync(bulk));
    done(lladd_commit(bulk));
    fuzzy_checkpoint();
    if (_i & FIXTURE_RESERVED)
        fuzzy_checkpoint();
    ok(half, cell_add(half, at(5), 100));
    fixture_set(&r, at(6), 1);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    for (unsigned i = 0; i < 4; i++)
        fixture_expect(&r, at(i), 0);
    fixture_expect(&r, at(5), 0);
    fixture_expect(&r, at(6), 1);
    fixture_expect(&r, cell_of(lladd_page_of(50), 0), 0);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, 3);
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &doubt, &r.err));
    done(lladd_commit(doubt));
    fixture_expect(&r, at(4), 1);
    ok_db(&r, lladd_log_pinner(r.db, &who, &r.err));
    ck_assert_str_eq(who.name, "carried");
    free(bytes);
    fixture_free(&r);
}
END_TEST

/* There are more transactions than one record of checkpoint data can hold. */
START_TEST(a_checkpoint_carries_any_number_of_transactions)
{
    enum { MANY = 2000 };
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    for (unsigned i = 0; i < MANY; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_add(txn, at(i % 30), 1));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_eq(fixture_stats(&r).recovered_undone_txns, MANY);
    for (unsigned i = 0; i < 30; i++)
        fixture_expect(&r, at(i), 0);
    fixture_free(&r);
}
END_TEST

/* The library drops a freed page without writing it. So the page in the file may lack changes that
 * have their records before redo's start, and may be too old for the first record that redo reads.
 * This is no damage, because the page is free, or was formatted again later. */
START_TEST(a_page_that_was_freed_unwritten_is_no_damage)
{
    unsigned fuzzy_before = (unsigned)_i & 3, fuzzy_after = (unsigned)_i >> 2 & 3;
    bool again = _i & 16, instant = _i & 32;
    begin_case((unsigned)_i >> 6 << 1); /* both providers of frames */
    lladd_pageno freed = fixture_page(&r), next;
    fixture_set(&r, cell_of(freed, 0), 1);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, cell_of(freed, 0), 2);
    for (unsigned i = 0; i < fuzzy_before; i++)
        fuzzy_checkpoint();
    fixture_set(&r, cell_of(freed, 0), 3);
    fixture_set(&r, cell_of(freed, 1), 4);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_page_free(txn, freed));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    ok(txn, lladd_page_alloc(txn, &next));
    ok(txn, cells_format(txn, next));
    ok(txn, cell_put(txn, cell_of(next, 0), 5));
    done(again ? lladd_commit(txn) : lladd_abort(txn));
    for (unsigned i = 0; i < fuzzy_after; i++)
        fuzzy_checkpoint();
    fixture_set(&r, at(0), 6);
    fixture_crash(&r, &fault_power);
    r.options.recovery = instant ? LLADD_RECOVER_INSTANT : LLADD_RECOVER_FULL;
    fixture_open(&r);
    fixture_expect(&r, at(0), 6);
    if (again)
        fixture_expect(&r, cell_of(next, 0), 5);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_free(&r);
}
END_TEST

/* ---- interrupted ----------------------------------------------------------------------------- */

struct late {
    void *(*then)(void *);
    struct lladd_txn *txn;
    int rc;
    bool flushed; /* the checkpoint has synced the page file: the next write of the control file is
                   * that of the checkpoint */
};

static void *commit_late(void *ctx)
{
    struct late *late = ctx;
    late->rc = lladd_commit_async(late->txn, NULL);
    return NULL;
}

/* Runs `then` in another thread when the checkpoint is about to write its control block. The
 * checkpoint's records are durable by then. */
static void at_control_write(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct late *late = ctx;
    pthread_t thread;
    (void)number;
    late->flushed |= kind == FAULT_SYNC && strcmp(name, "pages") == 0;
    if (kind != FAULT_PWRITEV || strcmp(name, "control") != 0 || late->rc != LLADD_BUSY ||
        !late->flushed)
        return;
    ck_assert_int_eq(pthread_create(&thread, NULL, late->then, late), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* A transaction begins, and much log follows. While a checkpoint writes the control file, the
 * transaction commits, and does not wait for durability. */
static void commit_during_a_checkpoint(unsigned kind)
{
    struct late late = {.rc = LLADD_BUSY, .then = commit_late};
    begin_case(kind);
    late.txn = fixture_begin(&r);
    ok(late.txn, cell_put(late.txn, at(1), 7));
    for (unsigned i = 0; i < 100; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, at(40), i, 1500));
        done(lladd_commit(txn));
    }
    fault_device_hook(r.fd, at_control_write, &late);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fault_device_hook(r.fd, NULL, NULL);
    ck_assert_int_eq(late.rc, 0);
}

/* The commit record is not durable when the log is truncated. So after a crash the transaction is a
 * loser, and the log must still have the records for its rollback. (Found by docs/model,
 * truncate-late.) */
START_TEST(a_commit_during_a_checkpoint_does_not_truncate_the_log_too_early)
{
    commit_during_a_checkpoint(_i ? FIXTURE_RESERVED : 0);
    fixture_maintain(&r); /* removes or reuses truncated segments */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(1), 0);
    fixture_free(&r);
}
END_TEST

/* In the first checkpoint the transaction is open, and nothing is logged after the commit. The
 * second checkpoint must not truncate the log of the transaction before the commit record is
 * durable. */
START_TEST(a_commit_during_a_checkpoint_keeps_its_log_at_the_next_one)
{
    commit_during_a_checkpoint(_i ? FIXTURE_RESERVED : 0);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_maintain(&r); /* removes or reuses truncated segments */
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(1), 7);
    fixture_free(&r);
}
END_TEST

/* A checkpoint that fails must not drop a redo barrier. Otherwise redo would repeat records from
 * before the bulk write of the page. */
START_TEST(a_checkpoint_that_stops_halfway_drops_no_redo_barrier)
{
    const lladd_pageno bulk = lladd_page_of(50);
    unsigned char *bytes = calloc(1, 4096);
    begin_case((unsigned)_i & ~(unsigned)FIXTURE_THREADS);
    ok_db(&r, lladd_pages_extend(r.db, 60, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, cells_format(txn, bulk));
    ok(txn, cell_put(txn, cell_of(bulk, 0), 666));
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    ok(txn, lladd_redo_barrier(txn, bulk, 1));
    ok(txn, lladd_bulk_write(txn, bulk, 1, "test.cells", bytes));
    ok(txn, lladd_bulk_sync(txn));
    done(lladd_commit(txn));
    free(bytes);
    test_world_fail_at(&r.world, "checkpoint.before_control", 1, EINTR);
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_BUSY);
    fuzzy_checkpoint();
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, cell_of(bulk, 0), 0);
    fixture_free(&r);
}
END_TEST

/* The last checkpoint has left a page dirty, and an eviction has written the page back since. After
 * a clean close there is nothing to redo. So close must sync the page, even if nothing was logged
 * after the checkpoint. */
START_TEST(a_page_written_since_the_last_checkpoint_is_durable_at_close)
{
    enum { OTHERS = 64 };
    lladd_pageno others[OTHERS];
    fixture_init(&r, 0);
    r.options.checkpoint_bytes = 16u << 10;
    r.options.cache_bytes = fixture_small_cache(r.kind);
    r.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* so that writing the page logs no image */
    fixture_open(&r);
    page = fixture_page(&r);
    fixture_pages(&r, others, OTHERS);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fixture_set(&r, at(3), 77);
    fuzzy_checkpoint();
    uint64_t tail = fixture_stats(&r).log_tail;
    for (unsigned i = 0; i < OTHERS; i++) /* evicts the dirty page from the small cache */
        fixture_expect(&r, cell_of(others[i], 0), 0);
    ck_assert_uint_eq(fixture_stats(&r).log_tail, tail);
    fixture_close(&r);
    fault_device_power_cycle(r.fd, &fault_power);
    fixture_open(&r);
    fixture_expect(&r, at(3), 77);
    fixture_free(&r);
}
END_TEST

static void *take_checkpoint(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    *(int *)arg = lladd_checkpoint(r.db, &err);
    return NULL;
}

/* During a checkpoint, two rollbacks fail and poison the handle. The transactions are no longer in
 * the transaction table when the checkpoint copies it. So the checkpoint must not take effect. */
START_TEST(a_checkpoint_has_no_effect_if_the_handle_is_poisoned_meanwhile)
{
    pthread_t thread;
    int rc = LLADD_BUSY;
    begin_case((unsigned)_i);
    fixture_set(&r, at(0), 50);
    struct lladd_txn *failing = fixture_begin(&r), *other = fixture_begin(&r);
    ok(failing, cells_transfer(failing, at(0), at(1), 20));
    ok(other, cell_put(other, at(2), 1));
    test_world_stop_at(&r.world, "checkpoint.before_flush");
    ck_assert_int_eq(pthread_create(&thread, NULL, take_checkpoint, &rc), 0);
    ck_assert(test_world_await(&r.world, "checkpoint.before_flush", 1));
    test_transfer_fails = LLADD_NOT_FOUND;
    ck_assert_int_eq(lladd_abort(failing), LLADD_UNDO_FAILED);
    ck_assert_int_eq(lladd_abort(other), LLADD_UNDO_FAILED);
    test_transfer_fails = 0;
    test_world_release(&r.world, "checkpoint.before_flush");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(rc, LLADD_UNDO_FAILED);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 50);
    fixture_expect(&r, at(1), 0);
    fixture_expect(&r, at(2), 0);
    fixture_free(&r);
}
END_TEST

/* A transaction commits between a checkpoint's names and its BEGIN record. It has ended, so
 * recovery does not look for it. A snapshot must see its commit nevertheless. */
START_TEST(a_snapshot_sees_what_was_committed_while_a_checkpoint_began)
{
    pthread_t thread;
    int rc = LLADD_BUSY;
    lladd_lsn before, after;
    begin_case((unsigned)_i);
    test_world_stop_at(&r.world, "checkpoint.before_begin");
    ck_assert_int_eq(pthread_create(&thread, NULL, take_checkpoint, &rc), 0);
    ck_assert(test_world_await(&r.world, "checkpoint.before_begin", 1));
    fixture_set(&r, at(3), 7);
    ok_db(&r, lladd_snapshot_acquire(r.db, &before, &r.err));
    test_world_release(&r.world, "checkpoint.before_begin");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(rc, 0);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    ok_db(&r, lladd_snapshot_acquire(r.db, &after, &r.err));
    ck_assert_uint_ge(after.v, before.v);
    fixture_expect(&r, at(3), 7);
    fixture_free(&r);
}
END_TEST

static void *read_late(void *ctx)
{
    struct late *late = ctx;
    uint64_t value = 0;
    struct lladd_error err = LLADD_ERROR_INIT;
    late->rc = cell_read(r.db, at(0), &value, &err);
    ck_assert_uint_eq(value, 5);
    return NULL;
}

/* A damaged page is found and rebuilt after the checkpoint has flushed the pages. The log from
 * which it was rebuilt is log that the checkpoint is going to truncate. So the page must be written
 * before the truncation. */
START_TEST(a_page_rebuilt_during_a_checkpoint_is_written_before_truncation)
{
    struct late late = {.rc = LLADD_BUSY, .then = read_late};
    unsigned char noise[512];
    memset(noise, 0xee, sizeof noise);
    fixture_init(&r, _i ? FIXTURE_RESERVED : 0);
    r.options.checkpoint_bytes = 1u << 30;
    r.options.log_segment_max = 1u << 20;
    fixture_open(&r);
    lladd_pageno two[2];
    fixture_pages(&r, two, 2);
    page = two[0];
    fixture_set(&r, at(0), 5);
    fixture_close(&r);
    fixture_file_write(&r, "pages", noise, sizeof noise, page.v * 4096 + 512);
    fixture_open(&r);
    for (unsigned i = 0; i < 2500; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(two[1], 40), i, 1500));
        done(lladd_commit_async(txn, NULL));
    }
    fault_device_hook(r.fd, at_control_write, &late);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    fault_device_hook(r.fd, NULL, NULL);
    ck_assert_int_eq(late.rc, 0);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
    fixture_maintain(&r);
    fixture_crash(&r, &fault_kill);
    fixture_open(&r);
    fixture_expect(&r, at(0), 5);
    ck_assert_uint_eq(fixture_stats(&r).repairs, 0);
    fixture_free(&r);
}
END_TEST

START_TEST(a_checkpoint_that_stops_halfway_has_changed_nothing)
{
    static const char *const points[] = {"checkpoint.before_flush", "checkpoint.before_control"};
    for (unsigned p = 0; p < 2; p++) {
        begin_case((unsigned)_i);
        fixture_set(&r, at(0), 1);
        struct lladd_stats before = fixture_stats(&r);
        test_world_fail_at(&r.world, points[p], 1, EINTR);
        ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_BUSY);
        ck_assert_uint_eq(fixture_stats(&r).checkpoint_lsn, before.checkpoint_lsn);
        fixture_set(&r, at(0), 2);
        fixture_crash(&r, &fault_power);
        fixture_open(&r);
        fixture_expect(&r, at(0), 2);
        fixture_set(&r, at(0), 3);
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
        fixture_reopen(&r);
        fixture_expect(&r, at(0), 3);
        fixture_free(&r);
    }
}
END_TEST

START_TEST(a_control_block_that_cannot_be_written_poisons)
{
    for (uint64_t n = 1; n <= 2; n++) {
        begin_case((unsigned)_i);
        fixture_set(&r, at(0), 1);
        test_world_fail_at(&r.world, "control.write", n, EIO);
        ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_WRITE_FAILED);
        ck_contains(r.err.message, "control");
        ck_assert_int_eq(lladd_db_error(r.db, NULL), LLADD_WRITE_FAILED);
        struct lladd_db *db = r.db;
        r.db = NULL;
        ck_assert_int_eq(lladd_close(db), LLADD_WRITE_FAILED);
        fixture_open(&r);
        fixture_expect(&r, at(0), 1);
        fixture_free(&r);
    }
}
END_TEST

/* Before the first change after a clean open, the control block is marked as in use. If that write
 * fails, nothing is logged. */
START_TEST(a_mark_that_cannot_be_written_poisons_before_anything_is_logged)
{
    begin_case((unsigned)_i);
    fixture_set(&r, at(0), 1);
    fixture_reopen(&r);
    uint64_t tail = fixture_stats(&r).log_tail;
    test_world_fail_at(&r.world, "control.write", 1, EIO);
    struct lladd_txn *txn = fixture_begin(&r);
    ck_assert_int_eq(cell_put(txn, at(0), 2), LLADD_WRITE_FAILED);
    ck_assert_uint_eq(fixture_stats(&r).log_tail, tail);
    ck_assert_int_eq(lladd_abort(txn), LLADD_WRITE_FAILED);
    lladd_db_kill(r.db);
    r.db = NULL;
    fixture_open(&r);
    fixture_expect(&r, at(0), 1);
    fixture_free(&r);
}
END_TEST

/* ---- classes --------------------------------------------------------------------------------- */

static struct {
    struct fixture *r;
    int fails;
    bool writes, waits, holds;
    unsigned asked;
    int wrote; /* the result of the class's update */
} owner;

static int class_redo(void *ctx, struct lladd_db *db, lladd_lsn lsn, uint64_t object,
                      struct lladd_span redo)
{
    (void)ctx;
    (void)db;
    (void)lsn;
    (void)object;
    (void)redo;
    return 0;
}

/* Calls that would wait for a checkpoint are refused in the class's checkpoint callback. */
static void expect_refused(struct lladd_db *db)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_gid gid = {.gtrid_length = 1};
    ck_assert_int_eq(lladd_checkpoint(db, &err), LLADD_BAD_STATE);
    ck_contains(err.message, "class");
    ck_assert_int_eq(lladd_maintain(db, NULL, &err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_pin_set(db, "p", lladd_durable_lsn(db), &err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_pin_clear(db, "p", &err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_heuristic_forget(db, &gid, &err), LLADD_BAD_STATE);
}

static int class_checkpoint(void *ctx, struct lladd_db *db)
{
    struct lladd_txn *txn;
    (void)ctx;
    owner.asked++;
    if (owner.waits)
        expect_refused(db);
    if (owner.fails)
        return owner.fails;
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.frees_log = owner.holds;
    if (!owner.writes || lladd_begin(db, &o, &txn, NULL))
        return 0;
    owner.wrote = owner.holds ? cell_put(txn, at(50), owner.asked)
                              : cell_put_wide(txn, at(50), owner.asked, 3000);
    return owner.wrote ? (lladd_abort(txn), 0) : lladd_commit(txn);
}

static lladd_lsn class_durable_lsn(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return lladd_lsn_of(owner.holds ? 1 : UINT64_MAX);
}

static const struct lladd_object_class writer_class = {
    .struct_size = sizeof writer_class,
    .name = "test.writer",
    .version = 1,
    .redo = class_redo,
    .checkpoint = class_checkpoint,
    .durable_lsn = class_durable_lsn,
};

static void begin_with_class(unsigned kind)
{
    memset(&owner, 0, sizeof owner);
    fixture_init(&r, kind);
    ok_db(&r, lladd_register_class(&r.options, &writer_class, &r.err));
    r.options.log_limit_bytes = 256u << 10;
    r.options.log_segment_max = 16u << 10;
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    page = fixture_page(&r);
}

START_TEST(a_class_that_cannot_write_stops_the_checkpoint_and_is_named)
{
    begin_with_class((unsigned)_i);
    owner.fails = LLADD_NO_SPACE;
    ck_assert_int_eq(lladd_checkpoint(r.db, &r.err), LLADD_NO_SPACE);
    ck_contains(r.err.message, "test.writer");
    owner.fails = 0;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_ge(owner.asked, 2);
    fixture_free(&r);
}
END_TEST

START_TEST(a_class_that_is_asked_may_not_wait_for_that_checkpoint)
{
    begin_with_class((unsigned)_i);
    owner.waits = true;
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_ge(owner.asked, 1);
    owner.waits = false;
    fixture_free(&r);
}
END_TEST

/* In each checkpoint the class commits a transaction with the option `frees_log`, but no log
 * becomes free. A writer at the limit must be refused after a few checkpoints, and not wait for
 * ever. */
START_TEST(a_writer_is_refused_although_a_class_commits_in_each_checkpoint)
{
    begin_with_class((unsigned)_i);
    owner.writes = owner.holds = true;
    struct lladd_token token;
    lladd_lsn lsn;
    const struct lladd_span none = {NULL, 0};
    struct lladd_txn *first = fixture_begin(&r); /* uses the class for the first time */
    ok(first, lladd_log_object(first, &writer_class, 1, none, none, &token, &lsn));
    lladd_object_applied(first, &token);
    done(lladd_commit(first));
    int rc = 0;
    for (unsigned i = 0; i < 400 && rc == 0; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        rc = cell_put_wide(txn, at(1), i, 1500);
        done(rc ? lladd_abort(txn) : lladd_commit(txn));
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ck_assert_uint_lt(owner.asked, 20);
    memset(&owner, 0, sizeof owner);
    fixture_free(&r);
}
END_TEST

/* A checkpoint that must make room calls a class, and the class needs log space itself. The class
 * must get an error. Otherwise the thread that takes the checkpoint would wait for its own
 * checkpoint. */
START_TEST(a_class_that_writes_at_the_log_s_limit_does_not_hang)
{
    begin_with_class((unsigned)_i);
    owner.writes = true;
    int rc = 0;
    for (unsigned i = 0; i < 400 && rc == 0; i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        rc = cell_put_wide(txn, at(1), i, 1500);
        if (rc)
            done(lladd_abort(txn));
        else
            done(lladd_commit_async(txn, NULL));
    }
    ck_assert_msg(rc == 0, "%d", rc);
    ck_assert_uint_gt(owner.asked, 1);
    owner.writes = false;
    fixture_free(&r);
}
END_TEST

/* ---- redo ------------------------------------------------------------------------------------ */

/* Writes more than 4 MiB of log. Then several threads share the redo of the pages. */
START_TEST(redo_by_several_threads_repeats_the_same_history)
{
    enum { PAGES = 60, ROUNDS = 20 };
    lladd_pageno pages[PAGES];
    fixture_init(&r, FIXTURE_THREADS | (unsigned)_i);
    r.options.checkpoint_bytes = 1u << 30;
    r.options.log_ring_bytes = 1u << 20;
    r.options.log_segment_max = 1u << 20;
    r.options.redo_threads = 4;
    fixture_open(&r);
    fixture_pages(&r, pages, PAGES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < PAGES; i++) {
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, cell_add(txn, cell_of(pages[i], 0), i));
            ok(txn, cell_put_wide(txn, cell_of(pages[i], 1), round, 1800));
            done(lladd_commit_async(txn, NULL));
        }
    }
    struct lladd_txn *loser = fixture_begin(&r);
    ok(loser, cell_put_wide(loser, cell_of(pages[3], 2), 7, 1000));
    fixture_set(&r, cell_of(pages[0], 5), 1);
    ck_assert_uint_gt(fixture_stats(&r).log_tail, 4u << 20);
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ck_assert_uint_gt(fixture_stats(&r).recovered_redone, PAGES * ROUNDS);
    for (unsigned i = 0; i < PAGES; i++) {
        fixture_expect(&r, cell_of(pages[i], 0), (uint64_t)i * ROUNDS);
        fixture_expect(&r, cell_of(pages[i], 1), ROUNDS - 1);
    }
    fixture_expect(&r, cell_of(pages[3], 2), 0);
    fixture_free(&r);
}
END_TEST

/* BUF-5. A torn page without a base in the log is an error only if the page is in use. */
START_TEST(a_torn_page_without_a_base_is_an_error_only_if_it_is_in_use)
{
    for (unsigned freed = 0; freed < 2; freed++) {
        fixture_init(&r, _i ? FIXTURE_RESERVED : 0);
        r.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* so that no page images are logged */
        fixture_open(&r);
        lladd_pageno pages[2];
        fixture_pages(&r, pages, 2);
        fixture_forget_log(&r, pages[1]); /* so that the page cannot be rebuilt from the log */
        fixture_set(&r, cell_of(pages[0], 0), 5);
        if (freed) {
            struct lladd_txn *txn = fixture_begin(&r);
            ok(txn, lladd_page_free(txn, pages[0]));
            done(lladd_commit(txn));
        }
        fixture_crash(&r, &fault_power);
        size_t len;
        unsigned char *bytes = fixture_file(&r, "pages", &len);
        memset(bytes + pages[0].v * 4096 + 512, 0xee, 512);
        fixture_file_write(&r, "pages", bytes, len, 0);
        free(bytes);
        if (freed) {
            fixture_open(&r);
            fixture_expect(&r, cell_of(pages[1], 0), 0);
        } else {
            char text[40];
            snprintf(text, sizeof text, "page %llu", (unsigned long long)pages[0].v);
            ck_assert_int_eq(fixture_try_open(&r), LLADD_CORRUPT_PAGE);
            ck_contains(r.err.message, text);
            ck_contains(r.err.message, "pages");
        }
        fixture_free(&r);
    }
}
END_TEST

/* ---- commits that pile up -------------------------------------------------------------------- */

/* REC-3: until a commit is durable, log space stays reserved for its rollback. The sum of these
 * reservations must have a bound. */
START_TEST(asynchronous_commits_reserve_a_bounded_amount_of_log)
{
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    later.durability = LLADD_DURABLE_LATER;
    fixture_init(&r, (unsigned)_i); /* with threads, the log's thread syncs before the limit */
    r.options.log_limit_bytes = 256u << 20;
    r.options.log_ring_bytes = 256u << 10;
    r.options.log_segment_max = 1u << 20;
    r.options.checkpoint_bytes = 1u << 30;
    fixture_open(&r);
    page = fixture_page(&r);
    uint64_t most = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct lladd_txn *txn = fixture_begin_with(&r, &later);
        ok(txn, cell_put_wide(txn, at(0), i, WIDE_MAX));
        if (i % 2)
            done(lladd_commit(txn));
        else
            done(lladd_commit_async(txn, NULL));
        uint64_t now = fixture_stats(&r).undo_reserved;
        most = now > most ? now : most;
    }
    ck_assert_uint_gt(most, 100u << 10); /* many commits were not durable at the same time */
    ck_assert_uint_lt(most, 6u << 20);
    fixture_reopen(&r);
    fixture_expect(&r, at(0), 999);
    fixture_free(&r);
}
END_TEST

/* ---- how often ------------------------------------------------------------------------------- */

/* Changes these pages until this many bytes are logged. */
static void log_so_much(uint64_t bytes, const lladd_pageno *pages, unsigned n)
{
    uint64_t end = fixture_stats(&r).log_tail + bytes;
    for (unsigned i = 0; fixture_stats(&r).log_tail < end;) {
        struct lladd_txn *txn = fixture_begin(&r);
        for (unsigned k = 0; k < 64; k++, i++)
            ok(txn, cell_put_wide(txn, cell_of(pages[i % n], 40), i, 1500));
        done(lladd_commit_async(txn, NULL));
    }
}

/* A checkpoint writes each dirty page, and the next change of the page logs an image. So if many
 * pages are dirty, the next checkpoint comes after four times their bytes of log, unless an option
 * sets the interval. With a small cache, most of these pages were written back before the
 * checkpoint, and images of them were logged then. These images count like dirty pages. */
START_TEST(a_checkpoint_comes_later_if_many_pages_are_dirty)
{
    enum { PAGES = 64 * 80, FEW = 64 }; /* 20 MiB of 4 KiB pages */
    static const struct {
        uint64_t option, cache;
        unsigned pages, after_68_mib, after_92_mib;
    } cases[] = {{0, 64u << 20, PAGES, 0, 1},
                 {0, 4u << 20, PAGES, 0, 1},
                 {64u << 20, 64u << 20, PAGES, 1, 1},
                 {0, 64u << 20, FEW, 1, 1}};
    fixture_init(&r, 0);
    r.options.page_size = 4096;
    r.options.cache_bytes = cases[_i].cache;
    r.options.log_ring_bytes = 8u << 20;
    r.options.log_segment_max = 8u << 20;
    r.options.log_limit_bytes = 0;
    r.options.checkpoint_bytes = cases[_i].option;
    fixture_open(&r);
    lladd_pageno *pages = calloc(PAGES, sizeof *pages);
    for (unsigned i = 0; i < cases[_i].pages; i += 64)
        fixture_pages(&r, pages + i, 64);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    uint64_t before = fixture_stats(&r).checkpoints;
    log_so_much(68u << 20, pages, cases[_i].pages);
    fixture_maintain(&r);
    ck_assert_uint_eq(fixture_stats(&r).checkpoints - before, cases[_i].after_68_mib);
    log_so_much(24u << 20, pages, cases[_i].pages);
    fixture_maintain(&r);
    ck_assert_uint_eq(fixture_stats(&r).checkpoints - before, cases[_i].after_92_mib);
    free(pages);
    fixture_free(&r);
}
END_TEST

/* The log in use and the dirty pages, which may all become images, together take more than half of
 * the byte limit. So a checkpoint is due before the interval in bytes of log has passed. If a pin
 * keeps the log (_i 1), no checkpoint is taken, because it would free no log. */
START_TEST(a_checkpoint_comes_before_images_fill_the_log)
{
    enum { PAGES = 64 * 6, SEGMENT = 64 << 10 };
    fixture_init(&r, 0);
    r.options.page_size = 4096;
    r.options.cache_bytes = 16u << 20;
    r.options.log_ring_bytes = 128u << 10;
    r.options.log_segment_min = r.options.log_segment_max = SEGMENT;
    r.options.log_limit_bytes = 4u << 20;
    fixture_open(&r);
    /* With the default limit, too, the log may grow by less than an interval between these
     * checkpoints. */
    struct lladd_txn *first = fixture_begin(&r);
    first->core->checkpoint_bytes = SEGMENT;
    done(lladd_abort(first));
    lladd_pageno pages[PAGES];
    for (unsigned i = 0; i < PAGES; i += 64)
        fixture_pages(&r, pages + i, 64);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    if (_i)
        ok_db(&r, lladd_pin_set(r.db, "test", lladd_lsn_of(fixture_stats(&r).log_oldest), &r.err));
    uint64_t before = fixture_stats(&r).checkpoints;
    uint64_t from = fixture_stats(&r).log_tail;
    for (unsigned i = 0; fixture_stats(&r).log_tail < from + (1000u << 10); i++) {
        struct lladd_txn *txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(pages[i % PAGES], 40), i, 1500));
        done(lladd_commit_async(txn, NULL));
        ok_db(&r, lladd_maintain(r.db, NULL, &r.err));
    }
    uint64_t taken = fixture_stats(&r).checkpoints - before;
    ck_assert_msg(_i ? taken == 0 : taken > 0 && taken < 8, "%u", (unsigned)taken);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *tc = tcase_create("all");
#define LOOP(test, n) tcase_add_loop_test(tc, test, 0, n)
    LOOP(a_fuzzy_checkpoint_carries_transactions_barriers_pins_and_names, 4);
    LOOP(a_checkpoint_comes_later_if_many_pages_are_dirty, 4);
    LOOP(a_checkpoint_comes_before_images_fill_the_log, 2);
    LOOP(a_page_that_was_freed_unwritten_is_no_damage, 128);
    LOOP(a_checkpoint_carries_any_number_of_transactions, FIXTURE_KINDS);
    LOOP(a_commit_during_a_checkpoint_does_not_truncate_the_log_too_early, 2);
    LOOP(a_commit_during_a_checkpoint_keeps_its_log_at_the_next_one, 2);
    tcase_add_test(tc, a_page_written_since_the_last_checkpoint_is_durable_at_close);
    LOOP(a_checkpoint_that_stops_halfway_drops_no_redo_barrier, 2);
    LOOP(a_checkpoint_has_no_effect_if_the_handle_is_poisoned_meanwhile, FIXTURE_KINDS);
    LOOP(a_snapshot_sees_what_was_committed_while_a_checkpoint_began, FIXTURE_KINDS);
    LOOP(a_page_rebuilt_during_a_checkpoint_is_written_before_truncation, 2);
    LOOP(a_checkpoint_that_stops_halfway_has_changed_nothing, FIXTURE_KINDS);
    LOOP(a_control_block_that_cannot_be_written_poisons, FIXTURE_KINDS);
    LOOP(a_mark_that_cannot_be_written_poisons_before_anything_is_logged, FIXTURE_KINDS);
    LOOP(a_class_that_cannot_write_stops_the_checkpoint_and_is_named, FIXTURE_KINDS);
    LOOP(a_class_that_is_asked_may_not_wait_for_that_checkpoint, FIXTURE_KINDS);
    LOOP(a_class_that_writes_at_the_log_s_limit_does_not_hang, FIXTURE_KINDS);
    LOOP(a_writer_is_refused_although_a_class_commits_in_each_checkpoint, FIXTURE_KINDS);
    LOOP(redo_by_several_threads_repeats_the_same_history, 4);
    LOOP(a_torn_page_without_a_base_is_an_error_only_if_it_is_in_use, 2);
    LOOP(asynchronous_commits_reserve_a_bounded_amount_of_log, FIXTURE_KINDS);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
