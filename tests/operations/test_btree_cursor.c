/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees: cursors at no row, bounds, the key that follows another key, and lookups of many keys in
 * one call. test_btree_model.c compares complete walks with an array.
 */
#include "op_fixture.h"

#include <lladd/btree.h>

#include <stdio.h>

enum { ROWS = 300, LONG_VALUE = 5000 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;
static struct lladd_btree_cursor *c;
static const unsigned char too_long[1001];

/* Row i has the key "key NNN", where NNN is 2 i. Every seventh value is in a blob. */
static size_t key_of(unsigned number, char key[16])
{
    return (size_t)snprintf(key, 16, "key %03u", number);
}

static size_t value_of(unsigned i, unsigned char *value)
{
    size_t len = i % 7 ? i % 5 * 20 : LONG_VALUE + i;
    memset(value, (int)i, len);
    return len;
}

static void setup(void)
{
    static unsigned char value[LONG_VALUE + ROWS];
    char key[16];
    fixture_init(&b, 4096);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, NULL, &root));
    commit(txn);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < ROWS; i++)
        ok(txn, lladd_btree_insert(txn, tree, key, key_of(2 * i, key), value, value_of(i, value)));
    commit(txn);
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
}

static void teardown(void)
{
    lladd_btree_cursor_close(c);
    lladd_btree_close(tree);
    fixture_free(&b);
}

/* Asserts that the cursor is at the row with this key. */
static void at(unsigned number)
{
    struct lladd_span key;
    char want[16];
    ok_db(&b, lladd_btree_cursor_row(c, &key, NULL, &b.err));
    ck_assert_uint_eq(key.len, key_of(number, want));
    ck_assert_mem_eq(key.data, want, key.len);
}

static void at_no_row(void)
{
    struct lladd_span key;
    ck_assert_int_eq(lladd_btree_cursor_row(c, &key, NULL, &b.err), LLADD_BAD_STATE);
    ck_assert_str_eq(b.err.message, "the cursor is at no row");
}

START_TEST(a_cursor_at_no_row)
{
    char key[16];
    at_no_row();
    ok_db(&b, lladd_btree_cursor_seek(c, key, key_of(100, key), &b.err));
    at(100);
    ok_db(&b, lladd_btree_cursor_last(c, &b.err));
    at(2 * ROWS - 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lladd_btree_cursor_next(c, &b.err), LLADD_END);
        at_no_row();
    }
    ok_db(&b, lladd_btree_cursor_prev(c, &b.err));
    at(2 * ROWS - 2);
    ok_db(&b, lladd_btree_cursor_first(c, &b.err));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lladd_btree_cursor_prev(c, &b.err), LLADD_END);
        at_no_row();
    }
    ok_db(&b, lladd_btree_cursor_next(c, &b.err));
    at(0);
}
END_TEST

/* After an error the cursor is as before its first move. _i: the direction. */
START_TEST(a_key_that_is_too_long)
{
    ok_db(&b, lladd_btree_cursor_first(c, &b.err));
    int rc = _i ? lladd_btree_cursor_seek(c, too_long, sizeof too_long, &b.err)
                : lladd_btree_cursor_seek_for_prev(c, too_long, sizeof too_long, &b.err);
    ck_assert_int_eq(rc, LLADD_TOO_LARGE);
    ck_assert_str_eq(b.err.message, "a key of 1001 bytes: in this database they have at most 993");
    at_no_row();
    ok_db(&b, _i ? lladd_btree_cursor_next(c, &b.err) : lladd_btree_cursor_prev(c, &b.err));
    at(_i ? 0 : 2 * ROWS - 2);
}
END_TEST

/* Bounds that are refused leave the cursor without bounds. */
START_TEST(wrong_bounds)
{
    int rc = lladd_btree_cursor_bounds(c, "key 1", 5, too_long, sizeof too_long, &b.err);
    ck_assert_int_eq(rc, LLADD_TOO_LARGE);
    ok_db(&b, lladd_btree_cursor_next(c, &b.err));
    at(0);
    rc = lladd_btree_cursor_bounds(c, "key 1", 5, NULL, 0, &b.err);
    ck_assert_int_eq(rc, LLADD_BAD_STATE);
    ok_db(&b, lladd_btree_cursor_last(c, &b.err));
    at(2 * ROWS - 2);
}
END_TEST

/* The row at which the cursor is has been removed. */
START_TEST(a_removed_row)
{
    struct lladd_span key, value;
    char text[16];
    for (unsigned i = 7; i < 9; i++) { /* a value in a blob, and one in the leaf */
        ok_db(&b, lladd_btree_cursor_seek(c, text, key_of(2 * i, text), &b.err));
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_btree_delete(txn, tree, text, key_of(2 * i, text)));
        commit(txn);
        int rc = lladd_btree_cursor_row(c, &key, &value, &b.err);
        ck_assert_int_eq(rc, i == 7 ? LLADD_NOT_FOUND : 0);
        if (!rc)
            ck_assert_uint_eq(value.len, i % 5 * 20);
        at(2 * i);
        ok_db(&b, lladd_btree_cursor_next(c, &b.err));
        at(2 * i + 2);
    }
}
END_TEST

/* ---- the next key ---------------------------------------------------------------------------- */

static int next_key(const void *key, size_t len, bool after, char got[16], size_t size, size_t *n)
{
    memset(got, '?', 16);
    return lladd_btree_next_key(tree, key, len, after, got, size, n, &b.err);
}

START_TEST(the_next_key)
{
    char key[16], want[16], got[16];
    size_t n = 0, len = key_of(0, key);
    for (unsigned number = 0; number < 2 * ROWS; number++) {
        key_of(number, key);
        for (int after = 0; after < 2; after++) {
            unsigned next = number % 2 ? number + 1 : number + (after ? 2 : 0);
            int rc = next_key(key, len, after, got, sizeof got, &n);
            ck_assert_int_eq(rc, next < 2 * ROWS ? 0 : LLADD_END);
            if (rc)
                continue;
            ck_assert_uint_eq(n, key_of(next, want));
            ck_assert_mem_eq(got, want, n);
        }
    }
    ck_assert_int_eq(next_key("", 0, true, got, 3, &n), 0); /* a short buffer */
    ck_assert_uint_eq(n, len);
    ck_assert_mem_eq(got, "key????", 7);
    ck_assert_int_eq(next_key(too_long, sizeof too_long, true, got, 3, &n), LLADD_TOO_LARGE);
}
END_TEST

/* ---- many lookups ---------------------------------------------------------------------------- */

enum { QUERIES = 2 * ROWS };
static struct lladd_btree_query q[QUERIES];
static char keys[QUERIES][16];
static unsigned char values[QUERIES][LONG_VALUE + ROWS];

/* Sets a query for each existing key, and for the keys between them, in mixed order. */
static void set_queries(size_t size)
{
    memset(values, '?', sizeof values);
    for (unsigned i = 0; i < QUERIES; i++) {
        size_t len = key_of(i * 77 % QUERIES, keys[i]); /* 77 and QUERIES have no common factor */
        q[i] = (struct lladd_btree_query){.key = keys[i], .key_len = len, .buf = values[i],
                                          .size = size, .len = 12345, .rc = 1};
    }
}

/* Asserts that query i has the result of a lookup. */
static void expect(unsigned i, size_t size)
{
    static unsigned char want[LONG_VALUE + ROWS];
    unsigned number = i * 77 % QUERIES;
    ck_assert_int_eq(q[i].rc, number % 2 ? LLADD_NOT_FOUND : 0);
    if (q[i].rc)
        return;
    size_t len = value_of(number / 2, want), part = len < size ? len : size;
    ck_assert_uint_eq(q[i].len, len);
    ck_assert(memcmp(values[i], want, part) == 0);
    ck_assert(part == sizeof want || values[i][part] == '?');
}

/* _i 1: the buffers are too short for most of the values. */
START_TEST(many_keys_in_one_call)
{
    size_t size = _i ? 30 : sizeof values[0];
    ok_db(&b, lladd_btree_get_many(tree, q, 0, &b.err));
    set_queries(size);
    ok_db(&b, lladd_btree_get_many(tree, q, QUERIES, &b.err));
    for (unsigned i = 0; i < QUERIES; i++)
        expect(i, size);
}
END_TEST

/* The call returns the first error, and answers the other queries. */
START_TEST(one_of_many_keys_is_too_long)
{
    set_queries(sizeof values[0]);
    q[5].key = q[9].key = too_long;
    q[5].key_len = sizeof too_long;
    q[9].key_len = sizeof too_long - 1;
    ck_assert_int_eq(lladd_btree_get_many(tree, q, QUERIES, &b.err), LLADD_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(b.err.message, "a key of 1001 bytes"));
    for (unsigned i = 0; i < QUERIES; i++)
        if (i == 5 || i == 9)
            ck_assert_int_eq(q[i].rc, LLADD_TOO_LARGE);
        else
            expect(i, sizeof values[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees, cursors and many lookups");
    TCase *t = tcase_create("cursor");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_cursor_at_no_row);
    tcase_add_loop_test(t, a_key_that_is_too_long, 0, 2);
    tcase_add_test(t, wrong_bounds);
    tcase_add_test(t, a_removed_row);
    tcase_add_test(t, the_next_key);
    tcase_add_loop_test(t, many_keys_in_one_call, 0, 2);
    tcase_add_test(t, one_of_many_keys_is_too_long);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
