/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bw-trees: what each call does and refuses, cursors and their bounds, statistics, memory.
 */
#include "op_fixture.h"

#include <lladd/bwtree.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_error err;

static void open_tree(const struct lladd_bwtree_options *o)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, o, &tree, &err), 0);
}

static void close_tree(void)
{
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    lladd_bwtree_close(tree);
    fixture_free(&b); /* asserts that nothing has leaked */
}

static struct lladd_bwtree_options small_pages(void)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.page_bytes = 128;
    o.leaf_chain = 3;
    return o;
}

static int insert(const char *key, const char *value)
{
    return lladd_bwtree_insert(tree, key, strlen(key), value, strlen(value), &err);
}

static int put(const char *key, const char *value)
{
    return lladd_bwtree_put(tree, key, strlen(key), value, strlen(value), &err);
}

static int delete(const char *key)
{
    return lladd_bwtree_delete(tree, key, strlen(key), &err);
}

static void expect(const char *key, const char *value)
{
    char got[100] = {0};
    size_t len = 0;
    int rc = lladd_bwtree_get(tree, key, strlen(key), got, sizeof got, &len, &err);
    ck_assert_int_eq(rc, value ? 0 : LLADD_NOT_FOUND);
    ck_assert_str_eq(got, value ? value : "");
    ck_assert_uint_eq(len, value ? strlen(value) : 0);
}

static struct lladd_bwtree_stats stats(void)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    return s;
}

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(rows_come_change_and_go)
{
    open_tree(NULL);
    expect("a", NULL);
    ck_assert_int_eq(insert("a", "1"), 0);
    ck_assert_int_eq(insert("a", "2"), LLADD_EXISTS);
    ck_assert_int_eq(err.code, LLADD_EXISTS);
    expect("a", "1");
    ck_assert_int_eq(put("a", "22"), 0);
    ck_assert_int_eq(put("b", ""), 0);
    expect("a", "22");
    expect("b", "");
    ck_assert_int_eq(delete("a"), 0);
    ck_assert_int_eq(delete("a"), LLADD_NOT_FOUND);
    ck_assert_int_eq(err.code, LLADD_NOT_FOUND);
    ck_assert_int_eq(delete("c"), LLADD_NOT_FOUND);
    expect("a", NULL);
    ck_assert_int_eq(insert("a", "333"), 0);
    expect("a", "333");
    close_tree();
}
END_TEST

/* The empty key, keys that are beginnings of others, zero bytes, the longest key and value. */
START_TEST(unusual_rows)
{
    static const char *const keys[] = {"", "\0", "\0\0", "a", "a\0", "a\0\0\0\0\0\0\0\0", "aa"};
    static const size_t lens[] = {0, 1, 2, 1, 2, 9, 2};
    enum { N = sizeof lens / sizeof *lens };
    static unsigned char key[LLADD_BWTREE_KEY_MAX + 1], value[LLADD_BWTREE_VALUE_MAX + 1], got[10];
    struct lladd_bwtree_options o = small_pages();
    size_t len;
    open_tree(&o);
    for (int round = 0; round < 3; round++)
        for (uint64_t i = 0; i < N; i++)
            ck_assert_int_eq(lladd_bwtree_put(tree, keys[i], lens[i], &i, sizeof i, &err), 0);
    for (uint64_t i = 0, v; i < N; i++) {
        ck_assert_int_eq(lladd_bwtree_get(tree, keys[i], lens[i], &v, sizeof v, &len, &err), 0);
        ck_assert_uint_eq(v, i);
    }
    ck_assert_uint_eq(stats().rows, N);
    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    ck_assert_int_eq(lladd_bwtree_put(tree, key, LLADD_BWTREE_KEY_MAX, value,
                                      LLADD_BWTREE_VALUE_MAX, &err), 0);
    ck_assert_int_eq(lladd_bwtree_get(tree, key, LLADD_BWTREE_KEY_MAX, got, 3, &len, &err), 0);
    ck_assert_uint_eq(len, LLADD_BWTREE_VALUE_MAX);
    ck_assert_int_eq(memcmp(got, "vvv", 4), 0); /* no more than asked for */
    ck_assert_int_eq(lladd_bwtree_put(tree, key, sizeof key, value, 1, &err), LLADD_TOO_LARGE);
    ck_assert_int_eq(lladd_bwtree_put(tree, key, 1, value, sizeof value, &err), LLADD_TOO_LARGE);
    ck_assert_str_ne(err.message, "");
    ck_assert_int_eq(lladd_bwtree_get(tree, key, sizeof key, got, 1, &len, &err), LLADD_TOO_LARGE);
    close_tree();
}
END_TEST

START_TEST(fixed_lengths_are_checked)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct lladd_bwtree_cursor *c;
    uint32_t k = 7, v = 8;
    o.key_size = 4;
    o.value_size = 4;
    open_tree(&o);
    ck_assert_uint_eq(lladd_bwtree_key_size(tree), 4);
    ck_assert_uint_eq(lladd_bwtree_value_size(tree), 4);
    ck_assert_int_eq(lladd_bwtree_insert(tree, &k, 3, &v, 4, &err), LLADD_KEY_SIZE);
    ck_assert_int_eq(lladd_bwtree_insert(tree, &k, 4, &v, 3, &err), LLADD_KEY_SIZE);
    ck_assert_int_eq(lladd_bwtree_delete(tree, &k, 3, &err), LLADD_KEY_SIZE);
    ck_assert_int_eq(lladd_bwtree_get(tree, &k, 3, &v, 4, NULL, &err), LLADD_KEY_SIZE);
    ck_assert_str_ne(err.message, "");
    ck_assert_int_eq(lladd_bwtree_insert(tree, &k, 4, &v, 4, NULL), 0);
    ck_assert_int_eq(lladd_bwtree_insert(tree, &k, 4, &v, 4, NULL), LLADD_EXISTS);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &c, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_first(c, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_seek(c, &k, 3, &err), LLADD_KEY_SIZE);
    ck_assert_int_eq(lladd_bwtree_cursor_next(c, &err), 0); /* it was at no row */
    ck_assert_int_eq(lladd_bwtree_cursor_seek_for_prev(c, &k, 5, &err), LLADD_KEY_SIZE);
    lladd_bwtree_cursor_close(c);
    close_tree();
}
END_TEST

START_TEST(options_have_limits)
{
    struct lladd_bwtree_options good = LLADD_BWTREE_OPTIONS_INIT, o[6];
    struct lladd_bwtree *t;
    fixture_init(&b, 4096);
    fixture_open(&b);
    for (int i = 0; i < 6; i++)
        o[i] = good;
    o[0].key_size = LLADD_BWTREE_KEY_MAX + 1;
    o[1].value_size = LLADD_BWTREE_VALUE_MAX + 1;
    o[2].page_bytes = 63;
    o[3].page_bytes = (1u << 20) + 1;
    o[4].leaf_chain = 1001;
    o[5].inner_chain = 1001;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o[i], &t, &err), LLADD_BAD_ARGUMENT);
        ck_assert_ptr_null(t);
    }
    good.struct_size = sizeof(size_t); /* an older program */
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &good, &t, &err), 0);
    lladd_bwtree_close(t);
    lladd_bwtree_close(NULL);
    fixture_free(&b);
}
END_TEST

START_TEST(several_rows_in_a_call)
{
    enum { N = 200 };
    struct lladd_bwtree_options o = small_pages();
    struct lladd_bwtree_row rows[N];
    struct lladd_bwtree_query q[N];
    char keys[N][16], got[N][8];
    size_t done = 99;
    open_tree(&o);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "%05d", i);
        rows[i] = (struct lladd_bwtree_row){keys[i], 5, keys[i], 5};
        q[i] = (struct lladd_bwtree_query){keys[i], 5, got[i], sizeof got[i], 0, 1};
    }
    ck_assert_int_eq(insert("00150", "x"), 0);
    ck_assert_int_eq(lladd_bwtree_insert_many(tree, rows, N, &done, &err), LLADD_EXISTS);
    ck_assert_uint_eq(done, 150);
    ck_assert_int_eq(lladd_bwtree_insert_many(tree, rows + 151, N - 151, NULL, &err), 0);
    ck_assert_int_eq(delete("00007"), 0);
    ck_assert_int_eq(lladd_bwtree_get_many(tree, q, N, &err), 0);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(q[i].rc, i == 7 ? LLADD_NOT_FOUND : 0);
        ck_assert_uint_eq(q[i].len, i == 7 ? 0 : i == 150 ? 1 : 5);
    }
    q[3].key_len = q[5].key_len = LLADD_BWTREE_KEY_MAX + 1;
    ck_assert_int_eq(lladd_bwtree_get_many(tree, q, N, &err), LLADD_TOO_LARGE);
    ck_assert_int_eq(q[5].rc, LLADD_TOO_LARGE);
    ck_assert_int_eq(q[N - 1].rc, 0); /* the other keys are looked up */
    close_tree();
}
END_TEST

/* ---- cursors --------------------------------------------------------------------------------- */

static struct lladd_bwtree_cursor *cursor;

static void at(int rc, const char *key)
{
    struct lladd_span k, v;
    if (!key) {
        ck_assert_int_eq(rc, LLADD_END);
        ck_assert_int_eq(lladd_bwtree_cursor_row(cursor, &k, &v, &err), LLADD_BAD_STATE);
        return;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(lladd_bwtree_cursor_row(cursor, &k, &v, &err), 0);
    ck_assert_uint_eq(k.len, strlen(key));
    ck_assert_int_eq(memcmp(k.data, key, k.len), 0);
    ck_assert_int_eq(memcmp(v.data, key, v.len), 0); /* rows are put with the key as value */
}

#define NEXT lladd_bwtree_cursor_next(cursor, &err)
#define PREV lladd_bwtree_cursor_prev(cursor, &err)
#define FIRST lladd_bwtree_cursor_first(cursor, &err)
#define LAST lladd_bwtree_cursor_last(cursor, &err)
#define SEEK(key) lladd_bwtree_cursor_seek(cursor, key, strlen(key), &err)
#define BACK(key) lladd_bwtree_cursor_seek_for_prev(cursor, key, strlen(key), &err)

static void put_same(const char *key)
{
    ck_assert_int_eq(put(key, key), 0);
}

START_TEST(cursors_move_both_ways)
{
    open_tree(NULL);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    at(FIRST, NULL);
    at(LAST, NULL);
    at(PREV, NULL);
    at(NEXT, NULL);
    put_same("b");
    put_same("d");
    put_same("f");
    at(PREV, "f"); /* after the last row */
    at(NEXT, NULL);
    at(NEXT, NULL);
    at(PREV, "f");
    at(PREV, "d");
    at(PREV, "b");
    at(PREV, NULL);
    at(PREV, NULL);
    at(NEXT, "b");
    at(SEEK("c"), "d");
    at(SEEK("d"), "d");
    at(SEEK("g"), NULL);
    at(BACK("c"), "b");
    at(BACK("d"), "d");
    at(BACK("a"), NULL);
    at(BACK("z"), "f");
    at(FIRST, "b");
    at(LAST, "f");
    lladd_bwtree_cursor_close(cursor);
    lladd_bwtree_cursor_close(NULL);
    close_tree();
}
END_TEST

/* The cursor sees changes of its own leaf, and goes on from its key. */
START_TEST(cursors_notice_changes)
{
    open_tree(NULL);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    put_same("b");
    put_same("d");
    at(FIRST, "b");
    put_same("c");
    at(NEXT, "c");
    ck_assert_int_eq(delete("c"), 0);
    at(NEXT, "d");
    put_same("c");
    at(PREV, "c");
    put_same("a");
    at(PREV, "b");
    ck_assert_int_eq(delete("b"), 0);
    at(PREV, "a");
    /* The row shows the state at the last move. */
    ck_assert_int_eq(put("a", "changed"), 0);
    at(0, "a");
    lladd_bwtree_cursor_close(cursor);
    close_tree();
}
END_TEST

START_TEST(cursors_keep_to_their_bounds)
{
    char key[3] = "k0";
    struct lladd_bwtree_options o = small_pages();
    open_tree(&o);
    for (key[1] = '0'; key[1] <= '9'; key[1]++)
        put_same(key);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_bounds(cursor, "k3", 2, "k6", 2, &err), 0);
    at(NEXT, "k3");
    ck_assert_int_eq(lladd_bwtree_cursor_bounds(cursor, "k3", 2, "k6", 2, &err), LLADD_BAD_STATE);
    at(NEXT, "k4");
    at(NEXT, "k5");
    at(NEXT, NULL);
    at(PREV, "k5");
    at(FIRST, "k3");
    at(PREV, NULL);
    at(NEXT, "k3");
    at(LAST, "k5");
    at(SEEK("k0"), "k3");
    at(SEEK("k6"), NULL);
    at(BACK("k9"), "k5");
    at(BACK("k2"), NULL);
    at(BACK("k4"), "k4");
    lladd_bwtree_cursor_close(cursor);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_bounds(cursor, NULL, 0, "k1", 2, &err), 0);
    at(LAST, "k0");
    at(NEXT, NULL);
    lladd_bwtree_cursor_close(cursor);
    close_tree();
}
END_TEST

/* Opens a tree that had the rows 00000 to 00299, and has only the first and the last one now. */
static void open_emptied(void)
{
    enum { N = 300 };
    char key[16];
    struct lladd_bwtree_options o = small_pages();
    open_tree(&o);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%05d", i);
        put_same(key);
    }
    for (int i = 1; i + 1 < N; i++) {
        snprintf(key, sizeof key, "%05d", i);
        ck_assert_int_eq(delete(key), 0);
    }
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
}

/* Leaves that have lost all rows are passed. Most of them were merged. */
START_TEST(cursors_pass_empty_leaves)
{
    open_emptied();
    at(FIRST, "00000");
    at(NEXT, "00299");
    at(NEXT, NULL);
    at(PREV, "00299");
    at(PREV, "00000");
    at(PREV, NULL);
    ck_assert_uint_eq(stats().rows, 2);
    ck_assert_uint_gt(stats().leaves, 2);
    ck_assert_uint_lt(stats().leaves, 20);
    lladd_bwtree_cursor_close(cursor);
    close_tree();
}
END_TEST

/* A walk ends at its bound, and copies no empty leaf after it: each copy is an allocation. */
START_TEST(bounds_end_walks_through_empty_leaves)
{
    enum { COPIES = 4 };
    open_emptied();
    ck_assert_int_eq(lladd_bwtree_cursor_bounds(cursor, "00150", 5, "00155", 5, &err), 0);
    uint64_t before = fault_alloc_calls(&b.mem);
    at(FIRST, NULL);
    ck_assert_uint_le(fault_alloc_calls(&b.mem) - before, COPIES);
    before = fault_alloc_calls(&b.mem);
    at(LAST, NULL);
    ck_assert_uint_le(fault_alloc_calls(&b.mem) - before, COPIES);
    put_same("00152");
    at(NEXT, "00152");
    at(NEXT, NULL);
    at(PREV, "00152");
    at(PREV, NULL);
    lladd_bwtree_cursor_close(cursor);
    close_tree();
}
END_TEST

/* ---- the whole tree -------------------------------------------------------------------------- */

START_TEST(statistics_count)
{
    enum { N = 20000 };
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct lladd_bwtree_stats s;
    uint64_t chains = 0, all = 0;
    o.key_size = o.value_size = 8;
    o.page_bytes = 256;
    o.leaf_chain = 8;
    open_tree(&o);
    s = stats();
    ck_assert_uint_eq(s.levels, 1);
    ck_assert_uint_eq(s.leaves, 1);
    ck_assert_uint_eq(s.rows + s.inner + s.deltas + s.updates + s.splits, 0);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t k = i * 7919 % N;
        ck_assert_int_eq(lladd_bwtree_insert(tree, &k, 8, &i, 8, &err), 0);
    }
    s = stats();
    ck_assert_uint_eq(s.rows, N);
    ck_assert_uint_eq(s.updates, N);
    ck_assert_uint_eq(s.updates_failed + s.splits_failed + s.terms_failed + s.helped, 0);
    ck_assert_uint_eq(s.consolidations_failed, 0);
    ck_assert_uint_ge(s.levels, 3);
    /* Each split of a page but the root makes one page, each split of the root two. */
    ck_assert_uint_eq(s.leaves + s.inner, 1 + s.splits + (s.levels - 1));
    ck_assert_uint_eq(s.terms, s.splits - (s.levels - 1));
    ck_assert_uint_gt(s.consolidations, N / 8);
    for (unsigned i = 0; i < LLADD_BWTREE_CHAINS; i++) {
        chains += s.chains[i];
        all += s.chains[i] * i;
    }
    ck_assert_uint_eq(chains, s.leaves);
    ck_assert_uint_le(all, s.deltas);
    ck_assert_uint_lt(s.waiting, 64 * 1024 + (256 << 10));
    ck_assert_uint_gt(s.memory, N * 16);
    struct lladd_bwtree_stats older = {.struct_size = offsetof(struct lladd_bwtree_stats, leaves)};
    older.leaves = 77;
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &older, &err), 0);
    ck_assert_uint_eq(older.rows, N);
    ck_assert_uint_eq(older.leaves, 77);
    close_tree();
}
END_TEST

/* The statistics know every byte that the tree has allocated, but for its epochs. */
START_TEST(memory_is_accounted_for)
{
    struct lladd_bwtree_options o = small_pages();
    fixture_init(&b, 4096);
    fixture_open(&b);
    uint64_t before = fault_alloc_bytes(&b.mem);
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    uint64_t epochs = fault_alloc_bytes(&b.mem) - before - stats().memory, seed = 1;
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    for (int i = 0; i < 5000; i++) {
        char key[16], value[300];
        uint64_t random = seeded_next(&seed);
        snprintf(key, sizeof key, "%llu", (unsigned long long)(random % 700));
        memset(value, 'v', sizeof value);
        if (random >> 60 < 12)
            ck_assert_int_eq(lladd_bwtree_put(tree, key, strlen(key), value,
                                              (random >> 16) % sizeof value, &err), 0);
        else
            (void)delete(key);
        if (i % 50 == 0)
            (void)SEEK(key);
        if (i % 20 == 0)
            ck_assert_uint_eq(fault_alloc_bytes(&b.mem) - before - epochs, stats().memory);
    }
    lladd_bwtree_cursor_close(cursor);
    close_tree();
}
END_TEST

/* Readers of a leaf with a chain consolidate it after a while. */
START_TEST(readers_shorten_chains)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.leaf_chain = 100;
    open_tree(&o);
    ck_assert_int_eq(put("a", "1"), 0);
    ck_assert_int_eq(put("b", "1"), 0);
    ck_assert_int_eq(put("c", "1"), 0);
    for (int i = 0; i < 100; i++)
        expect("a", "1");
    ck_assert_uint_eq(stats().deltas, 3); /* a short chain stays */
    ck_assert_int_eq(put("a", "2"), 0);
    for (int i = 0; i < 8; i++)
        expect("a", "2");
    ck_assert_uint_eq(stats().deltas, 0);
    ck_assert_uint_eq(stats().consolidations, 1);
    expect("b", "1");
    close_tree();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Bw-trees");
    TCase *c = tcase_create("bwtree");
    tcase_add_test(c, rows_come_change_and_go);
    tcase_add_test(c, unusual_rows);
    tcase_add_test(c, fixed_lengths_are_checked);
    tcase_add_test(c, options_have_limits);
    tcase_add_test(c, several_rows_in_a_call);
    tcase_add_test(c, cursors_move_both_ways);
    tcase_add_test(c, cursors_notice_changes);
    tcase_add_test(c, cursors_keep_to_their_bounds);
    tcase_add_test(c, cursors_pass_empty_leaves);
    tcase_add_test(c, bounds_end_walks_through_empty_leaves);
    tcase_add_test(c, statistics_count);
    tcase_add_test(c, memory_is_accounted_for);
    tcase_add_test(c, readers_shorten_chains);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
