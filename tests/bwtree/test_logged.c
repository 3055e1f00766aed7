/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logged Bw-trees: changes in transactions, rollback, recovery, the store, and its limits.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <string.h>

static struct fixture r;
static struct lladd_bwtree *tree;
static struct lladd_bwtree_options small_rows;

static void open_db(void)
{
    fixture_open(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void begin(unsigned kind)
{
    fixture_init(&r, kind);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    small_rows = (struct lladd_bwtree_options)LLADD_BWTREE_OPTIONS_INIT;
    small_rows.key_size = small_rows.value_size = 8;
    small_rows.page_bytes = 256;
    small_rows.leaf_chain = 4;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, "orders", &small_rows));
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
}

static void end(void)
{
    ok_db(&r, lladd_bwtree_check(tree, &r.err));
    lladd_bwtree_close(tree);
    fixture_free(&r);
}

static void crash(const struct fault_crash *how)
{
    fixture_crash(&r, how);
    open_db();
    ok_db(&r, lladd_bwtree_check(tree, &r.err));
}

static void put(struct lladd_txn *txn, uint64_t k, uint64_t v)
{
    uint64_t key = __builtin_bswap64(k);
    ok(txn, lladd_bwtree_txn_put(txn, tree, &key, 8, &v, 8));
}

static void put_range(struct lladd_txn *txn, uint64_t from, uint64_t to, uint64_t plus)
{
    for (uint64_t k = from; k < to; k++)
        put(txn, k, k + plus);
}

static void delete_range(struct lladd_txn *txn, uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++) {
        uint64_t key = __builtin_bswap64(k);
        ok(txn, lladd_bwtree_txn_delete(txn, tree, &key, 8));
    }
}

static void expect_range(uint64_t from, uint64_t to, uint64_t plus)
{
    for (uint64_t k = from; k < to; k++) {
        uint64_t key = __builtin_bswap64(k), value = 0;
        int rc = lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, &r.err);
        ck_assert_msg(rc == 0, "key %u: %d", (unsigned)k, rc);
        ck_assert_uint_eq(value, k + plus);
    }
}

static void expect_none(uint64_t from, uint64_t to)
{
    for (uint64_t k = from; k < to; k++) {
        uint64_t key = __builtin_bswap64(k), value;
        ck_assert_int_eq(lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, NULL), LLADD_NOT_FOUND);
    }
}

static struct lladd_bwtree_stats stats(void)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ok_db(&r, lladd_bwtree_stats_get(tree, &s, &r.err));
    return s;
}

START_TEST(changes_are_committed_and_rolled_back)
{
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    lladd_savepoint_id here;
    put_range(txn, 0, 300, 1);
    ok(txn, lladd_savepoint(txn, &here));
    put_range(txn, 100, 400, 2);
    delete_range(txn, 0, 50);
    ok(txn, lladd_rollback_to(txn, here));
    expect_range(0, 300, 1);
    expect_none(300, 400);
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    delete_range(txn, 0, 200);
    put_range(txn, 250, 500, 3);
    done(lladd_abort(txn));
    expect_range(0, 300, 1);
    expect_none(300, 500);
    end();
}
END_TEST

START_TEST(recovery_repeats_the_changes_and_undoes_losers)
{
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r), *loser = fixture_begin(&r);
    put_range(txn, 0, 300, 1);
    put_range(loser, 1000, 1100, 1);
    done(lladd_commit(txn));
    txn = fixture_begin(&r);
    put_range(txn, 100, 150, 7);
    put_range(loser, 200, 250, 9);
    done(lladd_commit(txn));
    crash(&fault_power);
    expect_range(0, 100, 1);
    expect_range(100, 150, 7);
    expect_range(150, 300, 1);
    expect_none(1000, 1100);
    end();
}
END_TEST

/* Flushes in between, open transactions across them, and crashes. */
START_TEST(flushed_pages_are_read_again)
{
    begin((unsigned)_i);
    struct lladd_txn *loser = fixture_begin(&r), *txn = fixture_begin(&r);
    put_range(txn, 0, 1000, 1);
    put_range(loser, 2000, 2100, 1);
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    txn = fixture_begin(&r);
    put_range(txn, 500, 1500, 2);
    delete_range(txn, 0, 100);
    put_range(loser, 3000, 3100, 1);
    done(lladd_commit(txn));
    crash(&fault_power);
    expect_none(0, 100);
    expect_range(100, 500, 1);
    expect_range(500, 1500, 2);
    expect_none(2000, 3100);
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(stats().segments, 0);
    crash(&fault_power);
    expect_none(0, 100);
    expect_range(100, 500, 1);
    expect_range(500, 1500, 2);
    lladd_bwtree_close(tree);
    fixture_reopen(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "orders", &tree, &r.err));
    expect_range(100, 500, 1);
    expect_range(500, 1500, 2);
    expect_none(0, 100);
    end();
}
END_TEST

/* ---- calls that are refused ------------------------------------------------------------------ */

START_TEST(trees_are_made_in_transactions)
{
    struct lladd_bwtree *other;
    char name[80];
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_EXISTS, lladd_bwtree_create(txn, "orders", NULL));
    refused(txn, LLADD_BAD_ARGUMENT, lladd_bwtree_create(txn, "", NULL));
    memset(name, 'n', sizeof name);
    name[61] = 0;
    refused(txn, LLADD_BAD_ARGUMENT, lladd_bwtree_create(txn, name, NULL));
    name[60] = 0;
    ok(txn, lladd_bwtree_create(txn, name, NULL));
    ck_assert_int_eq(lladd_bwtree_open(r.db, name, &other, &r.err), LLADD_BUSY);
    ck_assert_int_eq(lladd_bwtree_open(r.db, "none", &other, &r.err), LLADD_NOT_FOUND);
    done(lladd_abort(txn));
    ck_assert_int_eq(lladd_bwtree_open(r.db, name, &other, &r.err), LLADD_NOT_FOUND);
    txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, name, NULL));
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, name, &other, &r.err));
    ck_assert_uint_eq(lladd_bwtree_id(tree), 1);
    ck_assert_uint_eq(lladd_bwtree_id(other), 3); /* the tree that was rolled back was number 2 */
    lladd_bwtree_close(other);
    end();
}
END_TEST

/* A transaction in doubt has made a tree. */
START_TEST(a_tree_of_a_transaction_in_doubt_cannot_be_opened)
{
    struct lladd_gid gid = {.gtrid_length = 1, .data = {'g'}};
    struct lladd_bwtree *other;
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, "new", NULL));
    put_range(txn, 0, 100, 5);
    ok(txn, lladd_prepare(txn, &gid));
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    crash(&fault_power);
    ck_assert_int_eq(lladd_bwtree_open(r.db, "new", &other, &r.err), LLADD_BUSY);
    expect_range(0, 100, 5);
    ok_db(&r, lladd_in_doubt_claim(r.db, &gid, &txn, &r.err));
    done(_i & 1 ? lladd_abort(txn) : lladd_commit(txn));
    ck_assert_int_eq(lladd_bwtree_open(r.db, "new", &other, &r.err),
                     _i & 1 ? LLADD_NOT_FOUND : 0);
    if (_i & 1)
        expect_none(0, 100);
    else
        expect_range(0, 100, 5);
    lladd_bwtree_close(other);
    end();
}
END_TEST

START_TEST(wrong_calls_change_nothing)
{
    struct lladd_bwtree *other;
    uint64_t key = 1, value = 2;
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    put_range(txn, 0, 10, 0);
    uint64_t one = __builtin_bswap64(1);
    refused(txn, LLADD_EXISTS, lladd_bwtree_txn_insert(txn, tree, &one, 8, &value, 8));
    refused(txn, LLADD_NOT_FOUND, lladd_bwtree_txn_delete(txn, tree, "11111111", 8));
    refused(txn, LLADD_KEY_SIZE, lladd_bwtree_txn_put(txn, tree, "1", 1, &value, 8));
    refused(txn, LLADD_KEY_SIZE, lladd_bwtree_txn_put(txn, tree, &key, 8, &value, 7));
    ck_assert_int_eq(lladd_bwtree_put(tree, &key, 8, &value, 8, &r.err), LLADD_BAD_STATE);
    ok_db(&r, lladd_bwtree_open_volatile(r.db, NULL, &other, &r.err));
    refused(txn, LLADD_BAD_STATE, lladd_bwtree_txn_put(txn, other, &key, 8, &value, 8));
    ck_assert_uint_eq(lladd_bwtree_id(other), 0);
    lladd_bwtree_close(other);
    done(lladd_commit(txn));
    expect_range(0, 10, 0);
    end();
}
END_TEST

START_TEST(without_registration)
{
    struct lladd_bwtree *other;
    fixture_init(&r, (unsigned)_i);
    fixture_open(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_BAD_STATE, lladd_bwtree_create(txn, "orders", NULL));
    ck_assert_int_eq(lladd_bwtree_open(r.db, "orders", &other, &r.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_bwtree_flush(r.db, &r.err), LLADD_BAD_STATE);
    done(lladd_abort(txn));
    fixture_free(&r);
}
END_TEST

START_TEST(records_say_tree_and_key)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e;
    struct lladd_span key;
    uint64_t id = 0;
    begin((unsigned)_i);
    struct lladd_txn *txn = fixture_begin(&r);
    put(txn, 77, 1);
    done(lladd_commit(txn));
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "lladd.bwtree", &c, &r.err));
    ok_db(&r, lladd_log_next(c, &e, &r.err));
    ck_assert(lladd_bwtree_logged_key(&e, &id, &key));
    ck_assert_uint_eq(id, lladd_bwtree_id(tree));
    ck_assert_uint_eq(key.len, 8);
    ck_assert_uint_eq(__builtin_bswap64(lladd_get64(key.data)), 77);
    lladd_log_close(c);
    ok_db(&r, lladd_log_open(r.db, lladd_lsn_of(0), "lladd.root.put", &c, &r.err));
    ok_db(&r, lladd_log_next(c, &e, &r.err));
    ck_assert(!lladd_bwtree_logged_key(&e, &id, &key));
    lladd_log_close(c);
    end();
}
END_TEST

/* ---- the log and the store ------------------------------------------------------------------- */

/* Writers flush, so the log can be truncated again and again; segments are freed. */
START_TEST(a_limited_log_is_enough_for_any_number_of_changes)
{
    begin((unsigned)_i);
    lladd_bwtree_close(tree);
    fixture_close(&r);
    r.options.log_limit_bytes = 256 << 10;
    open_db();
    for (unsigned round = 0; round < 60; round++) {
        struct lladd_txn *txn = fixture_begin(&r);
        put_range(txn, 0, 200, round);
        done(lladd_commit(txn));
    }
    expect_range(0, 200, 59);
    ck_assert_uint_lt(stats().segment_pages, 200);
    ck_assert_uint_gt(stats().flushes, 4);
    crash(&fault_kill);
    expect_range(0, 200, 59);
    end();
}
END_TEST

/* Another structure fills the log while the tree is not written. */
START_TEST(checkpoints_release_the_log_of_a_tree_that_is_not_written)
{
    begin((unsigned)_i);
    lladd_pageno page = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    put_range(txn, 0, 20, 1);
    done(lladd_commit(txn));
    uint64_t before = stats().redo_lsn;
    for (unsigned i = 0; i < 40; i++) {
        txn = fixture_begin(&r);
        ok(txn, cell_put_wide(txn, cell_of(page, 1), i, 2000));
        done(lladd_commit(txn));
    }
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    ck_assert_uint_gt(stats().redo_lsn, before + 20 * 2000);
    ck_assert_uint_gt(fixture_stats(&r).log_oldest, before);
    crash(&fault_power);
    expect_range(0, 20, 1);
    end();
}
END_TEST

static lladd_pageno found[64];
static unsigned n_found;

static int note_segment(void *arg, lladd_pageno n)
{
    struct lladd_page *page;
    (void)arg;
    if (lladd_page_fix(r.db, n, LLADD_LATCH_SHARED, &page, NULL))
        return 0; /* never written */
    if (lladd_page_is(r.db, lladd_page_view(page), "lladd.bwtree.segment"))
        found[n_found++] = n;
    lladd_page_unfix(r.db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* Changes a byte of each page of segments in the page file. */
static void damage_segments(void)
{
    const struct lladd_device_ops *ops = r.base->ops;
    struct lladd_file *f;
    ck_assert_int_eq(ops->open(r.base, "pages", 0, &f), 0);
    for (unsigned i = 0; i < n_found; i++) {
        unsigned char byte;
        uint64_t at = found[i].v * 4096 + 200;
        ck_assert_int_eq(ops->pread(r.base, f, &byte, 1, at), 1);
        byte ^= 1;
        struct lladd_iovec v = {&byte, 1};
        ck_assert_int_eq(ops->pwritev(r.base, f, &v, 1, at), 0);
    }
    ck_assert_int_eq(ops->close(r.base, f), 0);
}

/* The other tree and the database can be used. */
START_TEST(damage_in_the_store_is_found)
{
    struct lladd_bwtree *other;
    begin((unsigned)_i & ~(unsigned)FIXTURE_FILES);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, "second", NULL));
    put_range(txn, 0, 300, 1);
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_flush(r.db, &r.err));
    txn = fixture_begin(&r);
    put_range(txn, 0, 10, 2);
    done(lladd_commit(txn));
    n_found = 0;
    ok_db(&r, lladd_bwtree_pages(r.db, note_segment, NULL, &r.err));
    ck_assert_uint_gt(n_found, 0);
    fixture_crash(&r, &fault_kill);
    damage_segments();
    fixture_open(&r);
    ck_assert_int_eq(lladd_bwtree_open(r.db, "orders", &tree, &r.err), LLADD_CORRUPT_PAGE);
    ok_db(&r, lladd_bwtree_open(r.db, "second", &other, &r.err));
    ck_assert_int_eq(lladd_bwtree_flush(r.db, &r.err), LLADD_CORRUPT_PAGE);
    lladd_bwtree_close(other);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("logged Bw-trees");
    TCase *c = tcase_create("logged Bw-trees");
    tcase_add_loop_test(c, changes_are_committed_and_rolled_back, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, recovery_repeats_the_changes_and_undoes_losers, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, flushed_pages_are_read_again, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, trees_are_made_in_transactions, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_tree_of_a_transaction_in_doubt_cannot_be_opened, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, wrong_calls_change_nothing, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, without_registration, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, records_say_tree_and_key, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, a_limited_log_is_enough_for_any_number_of_changes, 0, FIXTURE_KINDS);
    tcase_add_loop_test(c, checkpoints_release_the_log_of_a_tree_that_is_not_written, 0,
                        FIXTURE_KINDS);
    tcase_add_loop_test(c, damage_in_the_store_is_found, 0, FIXTURE_KINDS);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
