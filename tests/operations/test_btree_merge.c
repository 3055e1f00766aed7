/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees that shrink: nodes are merged, and their pages are used again. Rows are removed in
 * different orders. A window of keys moves through the tree. Rows of open transactions move when
 * their leaf is merged. A leaf with reserved ghosts is not merged. Also tests rollbacks, crashes, a
 * cursor in a merged leaf, and damage to the list of free pages. test_keyed_threads.c tests merges
 * with several threads.
 */
#include "op_fixture.h"
#include "operations/btree/tree.h"

#include <lladd/btree.h>

#include <stdio.h>

enum { VALUE = 100, KEY = 8 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;
static uint32_t key_size; /* length of the test's keys: zeros, and a number after them */

static void open_tree(void)
{
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

static void make(uint32_t size)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    key_size = o.key_size = size;
    o.value_size = VALUE;
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &o, &root));
    commit(txn);
    open_tree();
}

static void end(void)
{
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
    fixture_free(&b);
}

static void key_of(uint32_t k, unsigned char *out)
{
    memset(out, 0, key_size);
    for (uint32_t i = 0; i < 4; i++)
        out[key_size - 1 - i] = (unsigned char)(k >> (8 * i));
}

static void put(struct lladd_txn *txn, uint32_t k)
{
    unsigned char key[1000], value[VALUE];
    key_of(k, key);
    memset(value, (int)k, VALUE);
    ok(txn, lladd_btree_put(txn, tree, key, key_size, value, VALUE));
}

static void take_out(struct lladd_txn *txn, uint32_t k)
{
    unsigned char key[1000];
    key_of(k, key);
    ok(txn, lladd_btree_delete(txn, tree, key, key_size));
}

static void expect(uint32_t k, bool there)
{
    unsigned char key[1000], value[VALUE], want[VALUE];
    key_of(k, key);
    memset(want, (int)k, VALUE);
    int rc = lladd_btree_get(tree, key, key_size, value, VALUE, NULL, &b.err);
    ck_assert_msg(rc == (there ? 0 : LLADD_NOT_FOUND), "key %u: %s", k, lladd_code_name(rc));
    if (there)
        ck_assert_mem_eq(value, want, VALUE);
}

static void put_range(uint32_t from, uint32_t to)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t k = from; k < to; k++)
        put(txn, k);
    commit(txn);
}

static void remove_range(uint32_t from, uint32_t to)
{
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t k = from; k < to; k++)
        take_out(txn, k);
    commit(txn);
}

static struct lladd_btree_stats stats(void)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    return s;
}

static uint64_t nodes(const struct lladd_btree_stats *s)
{
    return s->leaves + s->inner + s->spare + s->free_pages;
}

/* ---- orders ---------------------------------------------------------------------------------- */

enum { ROWS = 4000 };

/* Returns the i-th key to be removed. The order of the keys is ascending, descending, from both
 * ends, or mixed. */
static uint32_t nth(int how, uint32_t i)
{
    switch (how) {
    case 0:
        return i;
    case 1:
        return ROWS - 1 - i;
    case 2:
        return i % 2 ? ROWS - 1 - i / 2 : i / 2;
    default:
        return (uint32_t)((uint64_t)i * 1237 % ROWS); /* 1237 and ROWS have no common factor */
    }
}

/* Removes all rows, some in each transaction, and then fills the tree again. _i % 4 is the order.
 * From _i 4 on the keys have 400 bytes, so that the tree has more levels. */
START_TEST(all_rows_in_any_order)
{
    make(_i / 4 ? 400 : KEY);
    put_range(0, ROWS);
    struct lladd_btree_stats full = stats();
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t i = 0; i < ROWS; i++) {
        take_out(txn, nth(_i % 4, i));
        if (i % 50 == 49) {
            commit(txn);
            txn = fixture_begin(&b);
        }
        if (i % 1000 == 500)
            (void)stats();
    }
    commit(txn);
    struct lladd_btree_stats empty = stats();
    ck_assert_uint_eq(empty.rows, 0);
    ck_assert_uint_gt(empty.merges, 50);
    ck_assert_uint_lt(10 * (empty.leaves + empty.inner), full.leaves);
    ck_assert_uint_eq(empty.height, full.height);
    put_range(0, ROWS);
    struct lladd_btree_stats again = stats();
    ck_assert_uint_eq(again.rows, ROWS);
    /* Now splits are in the middle of a leaf, not only at the end of the tree. So leaves may be
     * half full. */
    ck_assert_uint_le(nodes(&again), 2 * nodes(&full));
    ck_assert_uint_lt(again.free_pages, 5);
    for (uint32_t k = 0; k < ROWS; k++)
        expect(k, true);
    end();
}
END_TEST

/* One transaction removes all rows. Their leaves are merged by later splits. */
START_TEST(all_rows_at_once)
{
    make(KEY);
    put_range(0, ROWS);
    struct lladd_btree_stats full = stats();
    remove_range(0, ROWS);
    ck_assert_uint_eq(stats().merges, 0);
    put_range(ROWS, 2 * ROWS); /* these keys come after all others */
    struct lladd_btree_stats again = stats();
    ck_assert_uint_gt(again.merges, 50);
    ck_assert_uint_lt(nodes(&again), nodes(&full) + nodes(&full) / 5);
    end();
}
END_TEST

/* If each leaf keeps a few rows, the leaves are merged, too. */
START_TEST(few_rows_remain)
{
    make(KEY);
    put_range(0, ROWS);
    struct lladd_btree_stats full = stats();
    for (uint32_t from = 0; from < ROWS; from += 100) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = from; k < from + 100; k++)
            if (k % 10)
                take_out(txn, k);
        commit(txn);
    }
    struct lladd_btree_stats s = stats();
    ck_assert_uint_eq(s.rows, ROWS / 10);
    ck_assert_uint_lt(2 * s.leaves, full.leaves);
    for (uint32_t k = 0; k < ROWS; k++)
        expect(k, k % 10 == 0);
    end();
}
END_TEST

/* A queue: rows are added at one end of the tree and removed at the other end. _i 0: keys of 8
 * bytes; 1: keys of 900 bytes, so that fewer rows and children fit into a node. */
START_TEST(a_queue_of_rows_stays_small)
{
    enum { WINDOW = 400, STEP = 20 };
    uint32_t rounds = _i ? 400 : 800;
    uint64_t most = 0;
    make(_i ? 900 : KEY);
    put_range(0, WINDOW);
    uint64_t first = 0, file = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        put_range(WINDOW + i * STEP, WINDOW + (i + 1) * STEP);
        remove_range(i * STEP, (i + 1) * STEP);
        if (i % 50 != 49)
            continue;
        struct lladd_btree_stats s = stats();
        ck_assert_uint_eq(s.rows, WINDOW);
        most = nodes(&s) > most ? nodes(&s) : most;
        if (i == 149) {
            first = most;
            file = fixture_pages_used(&b);
        }
    }
    ck_assert_uint_le(most, first + first / 4 + 4);
    ck_assert_uint_le(fixture_pages_used(&b), file + first / 4 + 4);
    end();
}
END_TEST

/* One to three rows at the end of the tree are inserted and removed again and again. The tree must
 * not split and merge in every round. */
START_TEST(few_rows_do_not_split_and_merge_each_time)
{
    make(KEY);
    put_range(0, 200);
    for (uint32_t i = 0; i < 300; i++) {
        put_range(200, 201 + i % 3);
        remove_range(200, 201 + i % 3);
    }
    struct lladd_btree_stats s = stats();
    ck_assert_uint_lt(s.splits, 20);
    ck_assert_uint_lt(s.merges, 10);
    end();
}
END_TEST

/* ---- open transactions ----------------------------------------------------------------------- */

/* While a transaction that has removed rows is open, their leaves stay. _i: the transaction
 * commits, rolls back, or is open at a crash. */
START_TEST(reserved_rows_keep_their_leaf)
{
    make(KEY);
    put_range(0, ROWS);
    struct lladd_txn *open = fixture_begin(&b);
    for (uint32_t k = 1000; k < 2000; k++)
        take_out(open, k);
    remove_range(0, 1000);
    remove_range(2000, 2400); /* these removals also try to merge leaves that could not be merged */
    struct lladd_btree_stats s = stats();
    ck_assert_uint_ge(s.ghosts, 1000);
    ck_assert_uint_gt(s.merges, 0);
    if (_i == 0)
        commit(open);
    else if (_i == 1)
        abort_txn(open);
    else {
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        lladd_btree_close(tree);
        fixture_crash(&b);
        open_tree();
    }
    for (uint32_t k = 0; k < ROWS; k++)
        expect(k, k >= 2400 || (_i && k >= 1000 && k < 2000));
    put_range(0, 3000);
    for (uint32_t k = 0; k < ROWS; k++)
        expect(k, true);
    end();
}
END_TEST

/* A transaction has removed rows from leaves that are then merged, and inserted rows elsewhere. Its
 * undo finds the keys in other leaves. _i 0: the transaction rolls back; 1: it is open at a crash;
 * 2: it is prepared before a crash, and rolls back after it. */
START_TEST(rows_of_an_open_transaction_move)
{
    struct lladd_gid gid = fixture_gid("doubt");
    make(KEY);
    put_range(0, ROWS);
    struct lladd_txn *open = fixture_begin(&b);
    for (uint32_t k = 0; k < ROWS; k += 100) {
        take_out(open, k);
        put(open, ROWS + k);
    }
    for (uint32_t from = 0; from < ROWS; from += 200) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = from; k < from + 200; k++)
            if (k % 100 && k % 100 != 50)
                take_out(txn, k);
        commit(txn);
    }
    put_range(50, 51);
    remove_range(50, 51);
    struct lladd_btree_stats s = stats();
    ck_assert_uint_eq(s.rows, 2 * (ROWS / 100) - 1);
    if (_i == 2) {
        ok(open, lladd_prepare(open, &gid));
        lladd_btree_close(tree);
        fixture_crash(&b);
        open_tree();
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &open, &b.err));
    }
    if (_i != 1) {
        abort_txn(open);
    } else {
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        lladd_btree_close(tree);
        fixture_crash(&b);
        open_tree();
    }
    for (uint32_t k = 0; k < 2 * ROWS; k++)
        expect(k, k < ROWS && k % 50 == 0 && k != 50);
    end();
}
END_TEST

/* The merges that a transaction has made stay when it rolls back. */
START_TEST(merges_stay_after_a_rollback)
{
    make(KEY);
    put_range(0, ROWS);
    remove_range(0, 2000);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t k = 2000; k < 3000; k++)
        take_out(txn, k);
    abort_txn(txn);
    struct lladd_btree_stats s = stats();
    ck_assert_uint_gt(s.merges, 20);
    ck_assert_uint_eq(s.rows, 2000);
    put_range(3999, 4000); /* makes the log durable */
    lladd_btree_close(tree);
    fixture_crash(&b);
    open_tree();
    struct lladd_btree_stats now = stats();
    ck_assert_uint_eq(now.leaves, s.leaves);
    ck_assert_uint_eq(now.free_pages, s.free_pages);
    ck_assert_uint_gt(now.free_pages, 10);
    for (uint32_t k = 0; k < ROWS; k++)
        expect(k, k >= 2000);
    end();
}
END_TEST

/* A rollback of insertions keeps the leaves that they have made; these are merged later. */
START_TEST(leaves_of_undone_insertions_are_merged)
{
    make(KEY);
    put_range(0, 200);
    for (int i = 0; i < 4; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint32_t k = 0; k < 1000; k++)
            put(txn, 10000 * ((uint32_t)i + 1) + k);
        abort_txn(txn);
    }
    struct lladd_btree_stats s = stats();
    ck_assert_uint_gt(s.merges, 20);
    ck_assert_uint_lt(nodes(&s), 100);
    end();
}
END_TEST

/* ---- readers, the whole tree ----------------------------------------------------------------- */

/* A cursor is in a leaf that is merged into the leaf before it. */
START_TEST(a_cursor_continues_after_a_merge)
{
    struct lladd_btree_cursor *c;
    struct lladd_span key;
    unsigned char want[KEY];
    make(KEY);
    put_range(0, ROWS);
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
    key_of(1555, want);
    ok_db(&b, lladd_btree_cursor_seek(c, want, KEY, &b.err));
    remove_range(1000, 1555);
    remove_range(1556, 2000);
    remove_range(2000, 2200);
    ck_assert_uint_gt(stats().merges, 10);
    ok_db(&b, lladd_btree_cursor_next(c, &b.err));
    ok_db(&b, lladd_btree_cursor_row(c, &key, NULL, &b.err));
    key_of(2200, want);
    ck_assert_mem_eq(key.data, want, KEY);
    ok_db(&b, lladd_btree_cursor_prev(c, &b.err));
    ok_db(&b, lladd_btree_cursor_prev(c, &b.err));
    ok_db(&b, lladd_btree_cursor_row(c, &key, NULL, &b.err));
    key_of(999, want);
    ck_assert_mem_eq(key.data, want, KEY);
    lladd_btree_cursor_close(c);
    end();
}
END_TEST

static int count_page(void *ctx, lladd_pageno page)
{
    (void)page;
    (*(uint64_t *)ctx)++;
    return 0;
}

/* The free pages are among the tree's pages, and are freed with it. */
START_TEST(a_destroyed_tree_frees_its_free_pages)
{
    uint64_t listed = 0;
    make(KEY);
    lladd_btree_close(tree);
    uint64_t before = fixture_pages_used(&b);
    open_tree();
    put_range(0, ROWS);
    remove_range(0, 1000);
    remove_range(1000, ROWS);
    struct lladd_btree_stats s = stats();
    ck_assert_uint_gt(s.free_pages, 10);
    ok_db(&b, lladd_btree_pages(tree, count_page, &listed, &b.err));
    ck_assert_uint_eq(listed, nodes(&s) + 1);
    lladd_btree_close(tree);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    abort_txn(txn);
    open_tree();
    struct lladd_btree_stats back = stats();
    ck_assert_uint_eq(back.free_pages, s.free_pages);
    lladd_btree_close(tree);
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    commit(txn);
    txn = fixture_begin(&b); /* freed pages become free when the next page is allocated */
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    abort_txn(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), before - 2); /* the root page and the first leaf */
    fixture_free(&b);
}
END_TEST

/* Damage to the list of free pages is found, and no page of a damaged list is used. */
START_TEST(damage_to_the_free_list)
{
    unsigned char open[1] = {0}, count[1] = {1};
    make(KEY);
    put_range(0, ROWS);
    remove_range(0, 1000);
    remove_range(1000, 2000);
    struct lladd_page *page;
    ok_db(&b, lladd_page_fix(b.db, root, LLADD_LATCH_SHARED, &page, &b.err));
    lladd_pageno first = lladd_page_of(lladd_get48(page->bytes + BR_FREE));
    lladd_page_unfix(b.db, page, LLADD_LATCH_SHARED);
    ck_assert_uint_ne(first.v, 0);
    fixture_forge(&b, first, BT_FLAGS, open, sizeof open);
    ck_assert_int_eq(lladd_btree_check(tree, &b.err), LLADD_CORRUPT_PAGE);
    struct lladd_txn *txn = fixture_begin(&b);
    int rc = 0;
    for (uint32_t k = ROWS; k < 2 * ROWS && !rc; k++) {
        unsigned char key[KEY], value[VALUE] = {0};
        key_of(k, key);
        rc = lladd_btree_put(txn, tree, key, KEY, value, VALUE);
    }
    ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
    abort_txn(txn);
    fixture_forge(&b, first, BT_FLAGS, open, sizeof open);
    fixture_forge(&b, root, BR_FREE + 6, count, sizeof count);
    ck_assert_int_eq(lladd_btree_check(tree, &b.err), LLADD_CORRUPT_PAGE);
    fixture_forge(&b, root, BR_FREE + 6, count, sizeof count);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees that shrink");
    TCase *c = tcase_create("merges");
    tcase_add_loop_test(c, all_rows_in_any_order, 0, 8);
    tcase_add_test(c, all_rows_at_once);
    tcase_add_test(c, few_rows_remain);
    tcase_add_loop_test(c, a_queue_of_rows_stays_small, 0, 2);
    tcase_add_test(c, few_rows_do_not_split_and_merge_each_time);
    tcase_add_loop_test(c, reserved_rows_keep_their_leaf, 0, 3);
    tcase_add_loop_test(c, rows_of_an_open_transaction_move, 0, 3);
    tcase_add_test(c, merges_stay_after_a_rollback);
    tcase_add_test(c, leaves_of_undone_insertions_are_merged);
    tcase_add_test(c, a_cursor_continues_after_a_merge);
    tcase_add_test(c, a_destroyed_tree_frees_its_free_pages);
    tcase_add_test(c, damage_to_the_free_list);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
