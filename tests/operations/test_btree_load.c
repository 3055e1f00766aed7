/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading B+trees. A loaded tree has its rows, passes the check, is packed, and can be changed
 * afterwards, even after a crash. Wrong rows are refused and change nothing. After a rollback, a
 * crash or an error, no page of an unfinished load is in use.
 */
#include "op_fixture.h"

#include <lladd/btree.h>

#include <stdio.h>

enum { LONGEST = 40000 };

static struct fixture b;
static struct lladd_btree_options options;
static lladd_pageno root;
static struct lladd_btree *tree;

/* The rows of a load: keys and values by number. */
struct shape {
    uint32_t page_size, key_size, value_size, rows;
    uint32_t prefix;    /* number of bytes that all keys begin with */
    uint32_t more_key;  /* a key ends with 0 to `more_key` further bytes */
    uint32_t most;      /* used if value_size is 0: each value is shorter than this; if this is 0,
                         * too, all values are empty */
    uint32_t leaf_rows; /* a leaf must have at least this many rows on average */
};
static const struct shape *shape;

static const struct shape shapes[] = {
    {4096, 8, 8, 0, 0, 0, 0, 0},          {4096, 8, 8, 1, 0, 0, 0, 0},
    {4096, 8, 8, 143, 0, 0, 0, 143},      {4096, 8, 8, 144, 0, 0, 0, 72},
    {4096, 8, 8, 145, 0, 0, 0, 72},       {4096, 8, 8, 24000, 0, 0, 0, 141},
    {4096, 0, 0, 6200, 0, 30, 300, 18},   {4096, 0, 0, 3000, 900, 80, 900, 1},
    {4096, 985, 30, 700, 977, 0, 0, 2},   {4096, 0, 0, 300, 0, 960, 3000, 3},
    {65536, 0, 0, 4000, 0, 40, 200, 300}, {65536, 0, 0, 200, 0, 900, LONGEST, 1},
};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

static void open_empty(uint32_t page_size)
{
    fixture_init(&b, page_size);
    fixture_open(&b);
}

static void set_shape(const struct shape *s)
{
    shape = s;
    options = (struct lladd_btree_options)LLADD_BTREE_OPTIONS_INIT;
    options.key_size = s->key_size;
    options.value_size = s->value_size;
}

/* The key of a row. Rows with even numbers are loaded; the keys of the others lie between them. */
static size_t key_of(uint32_t row, unsigned char *out)
{
    size_t len = shape->prefix + 8 + (shape->more_key ? row * 7919u % (shape->more_key + 1) : 0);
    memset(out, 'k', len);
    for (int i = 0; i < 8; i++)
        out[shape->prefix + (uint32_t)i] = (unsigned char)((uint64_t)row * 77 >> 8 * (7 - i));
    return len;
}

static size_t value_of(uint32_t row, unsigned char *out)
{
    size_t len = shape->value_size ? shape->value_size
                 : shape->most     ? row * 6007u % shape->most
                                   : 0;
    memset(out, (int)row, len);
    if (len >= 4)
        lladd_put32(out, row);
    return len;
}

static int add(struct lladd_btree_loader *l, uint32_t row)
{
    static unsigned char key[LONGEST], value[LONGEST];
    size_t n = key_of(row, key);
    return lladd_btree_load_add(l, key, n, value, value_of(row, value));
}

static int load(struct lladd_txn *txn)
{
    struct lladd_btree_loader *l;
    TRY(lladd_btree_load_begin(txn, &options, &l));
    int rc = 0;
    for (uint32_t i = 0; i < shape->rows && !rc; i++)
        rc = add(l, 2 * i);
    if (!rc)
        rc = lladd_btree_load_finish(l, &root);
    if (!rc)
        return 0;
    struct lladd_error why = *lladd_txn_error(txn);
    ck_assert_int_eq(lladd_btree_load_discard(l), 0);
    *lladd_txn_error_out(txn) = why;
    return rc;
}

static void open_tree(void)
{
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

/* Asserts that the tree has exactly the loaded rows; if `more` is true, also the rows between
 * them. */
static void compare(bool more)
{
    static unsigned char key[LONGEST], value[LONGEST];
    struct lladd_btree_cursor *c;
    struct lladd_span k, v;
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
    for (uint32_t row = 0; row < 2 * shape->rows; row += more ? 1 : 2) {
        ok_db(&b, lladd_btree_cursor_next(c, &b.err));
        ok_db(&b, lladd_btree_cursor_row(c, &k, &v, &b.err));
        ck_assert_uint_eq(k.len, key_of(row, key));
        ck_assert(memcmp(k.data, key, k.len) == 0);
        ck_assert_uint_eq(v.len, value_of(row, value));
        ck_assert(v.len == 0 || memcmp(v.data, value, v.len) == 0);
    }
    ck_assert_int_eq(lladd_btree_cursor_next(c, &b.err), LLADD_END);
    lladd_btree_cursor_close(c);
}

/* Looks up the loaded rows, and the keys between them, which no row has. */
static void look_up(void)
{
    static unsigned char key[LONGEST], value[LONGEST], got[LONGEST];
    size_t len = 0;
    for (uint32_t row = 0; row < 2 * shape->rows; row += 1 + shape->rows / 300) {
        size_t n = key_of(row, key);
        int rc = lladd_btree_get(tree, key, n, got, sizeof got, &len, &b.err);
        ck_assert_int_eq(rc, row % 2 ? LLADD_NOT_FOUND : 0);
        if (rc)
            continue;
        ck_assert_uint_eq(len, value_of(row, value));
        ck_assert(len == 0 || memcmp(got, value, len) == 0);
    }
}

static struct lladd_btree_stats stats(void)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    return s;
}

static void change_all(void)
{
    static unsigned char key[LONGEST], value[LONGEST];
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t row = 1; row < 2 * shape->rows; row += 2) {
        size_t n = key_of(row, key);
        ok(txn, lladd_btree_insert(txn, tree, key, n, value, value_of(row, value)));
    }
    commit(txn);
}

START_TEST(trees_of_every_shape)
{
    open_empty(shapes[_i].page_size);
    set_shape(&shapes[_i]);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    commit(txn);
    open_tree();
    compare(false);
    look_up();
    struct lladd_btree_stats s = stats();
    ck_assert_uint_eq(s.rows, shape->rows);
    ck_assert_uint_eq(s.spare + s.ghosts, 0);
    ck_assert_uint_le(s.leaves * shape->leaf_rows, shape->rows);
    lladd_btree_close(tree);
    fixture_crash(&b);
    open_tree();
    compare(false);
    change_all();
    compare(true);
    lladd_btree_close(tree);
    fixture_crash(&b);
    open_tree();
    compare(true);
    lladd_btree_close(tree);
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    commit(txn);
    fixture_free(&b);
}
END_TEST

/* A merge may need the images of two pages that no record has changed since the load: the parent
 * and the left leaf. It has log space for these images. A full leaf has 143 rows. One transaction
 * removes the rows of each tenth leaf. A second one removes the rows of other leaves, and leaves
 * are merged. */
START_TEST(loaded_leaves_are_merged)
{
    static const struct shape s = {4096, 8, 8, 24000, 0, 0, 0, 0};
    static unsigned char key[LONGEST];
    uint32_t left = 0;
    open_empty(s.page_size);
    set_shape(&s);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    commit(txn);
    open_tree();
    for (int round = 0; round < 2; round++) {
        txn = fixture_begin(&b);
        left = 0;
        for (uint32_t row = 0; row < shape->rows; row++) {
            unsigned leaf = row / 143 % 10;
            size_t n = key_of(2 * row, key);
            if (leaf == (round ? 7 : 2))
                ok(txn, lladd_btree_delete(txn, tree, key, n));
            left += leaf != 2 && (leaf != 7 || round == 0);
        }
        commit(txn);
    }
    ck_assert_uint_gt(stats().merges, 10);
    ck_assert_uint_eq(stats().rows, left);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
    fixture_crash(&b);
    open_tree();
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ck_assert_uint_eq(stats().rows, left);
    ck_assert_uint_gt(stats().free_pages, 10);
    lladd_btree_close(tree);
    fixture_free(&b);
}
END_TEST

/* The tree grows at its end, from the last leaf of the load. */
START_TEST(rows_after_the_last_one)
{
    open_empty(4096);
    set_shape(&shapes[5]);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    commit(txn);
    open_tree();
    struct lladd_btree_stats before = stats();
    txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t key = __builtin_bswap64(UINT64_MAX - 3000 + i);
        ok(txn, lladd_btree_insert(txn, tree, &key, 8, &i, 8));
    }
    commit(txn);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ck_assert_uint_eq(stats().rows, before.rows + 3000);
    lladd_btree_close(tree);
    fixture_free(&b);
}
END_TEST

/* ---- wrong rows ------------------------------------------------------------------------------ */

START_TEST(wrong_rows_are_refused)
{
    static const struct shape any = {4096, 0, 0, 500, 0, 0, 100, 1};
    static unsigned char longer[1001];
    struct lladd_btree_loader *l;
    open_empty(4096);
    set_shape(&any);
    struct lladd_txn *txn = fixture_begin(&b);
    options.key_size = 994;
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_load_begin(txn, &options, &l));
    options.key_size = 0;
    ok(txn, lladd_btree_load_begin(txn, &options, &l));
    for (uint32_t i = 0; i < any.rows; i++) {
        ok(txn, add(l, 2 * i));
        refuses(txn, LLADD_BAD_ARGUMENT, add(l, 2 * i));
        ck_assert_str_eq(strstr(lladd_txn_error(txn)->message, "has the key"),
                         "has the key of the row that precedes it");
        refuses(txn, LLADD_TOO_LARGE, lladd_btree_load_add(l, longer, 994, "", 0));
        if (i == 0)
            continue;
        refuses(txn, LLADD_BAD_ARGUMENT, add(l, 2 * i - 1));
        ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "keys must ascend"));
    }
    ok(txn, lladd_btree_load_finish(l, &root));
    commit(txn);
    open_tree();
    compare(false);
    lladd_btree_close(tree);
    txn = fixture_begin(&b);
    options.key_size = 4;
    options.value_size = 2;
    ok(txn, lladd_btree_load_begin(txn, &options, &l));
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_load_add(l, "abc", 3, "de", 2));
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_load_add(l, "abcd", 4, "def", 3));
    ok(txn, lladd_btree_load_add(l, "abcd", 4, "de", 2));
    ok(txn, lladd_btree_load_finish(l, &root));
    commit(txn);
    fixture_free(&b);
}
END_TEST

/* ---- the transaction ------------------------------------------------------------------------- */

/* A loaded tree cannot be opened before its transaction has committed. */
START_TEST(a_loaded_tree_is_busy_before_the_commit)
{
    open_empty(4096);
    set_shape(&shapes[6]);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    ck_assert_int_eq(lladd_btree_open(b.db, root, &tree, &b.err), LLADD_BUSY);
    commit(txn);
    open_tree();
    compare(false);
    lladd_btree_close(tree);
    fixture_free(&b);
}
END_TEST

/* Makes the allocator free the pages that committed transactions have freed. Returns the number of
 * pages in use. */
static uint64_t free_pages_now(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    abort_txn(txn);
    return fixture_pages_used(&b);
}

/* First a transaction rolls back after a load. Then another one loads a tree, rolls back to a
 * savepoint from before that load, and begins a second load. In the middle of this load it sets a
 * second savepoint.
 * - _i 0: after the second savepoint the load writes pages, and the transaction rolls back to this
 *   savepoint.
 * - _i 1: the same, but the load writes no page after the savepoint.
 * - _i 2: the transaction rolls back to the first savepoint. */
START_TEST(loads_are_rolled_back)
{
    struct lladd_btree_loader *l;
    lladd_savepoint_id before, during;
    lladd_pageno page;
    open_empty(4096);
    set_shape(&shapes[6]);
    uint64_t used = free_pages_now();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    abort_txn(txn);
    ck_assert_int_ne(lladd_btree_open(b.db, root, &tree, &b.err), 0);
    ck_assert_uint_eq(free_pages_now(), used);

    txn = fixture_begin(&b);
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_savepoint(txn, &before));
    ok(txn, load(txn));
    ok(txn, lladd_rollback_to(txn, before));
    ok(txn, lladd_btree_load_begin(txn, &options, &l));
    for (uint32_t i = 0; i < 3000; i++)
        ok(txn, add(l, 2 * i));
    ok(txn, lladd_savepoint(txn, &during));
    ok(txn, add(l, 6000));
    for (uint32_t i = 3001; _i == 0 && i < 6000; i++)
        ok(txn, add(l, 2 * i));
    ok(txn, lladd_rollback_to(txn, _i == 2 ? before : during));
    if (_i == 1) { /* nothing is undone, because since the savepoint the load has changed only
                    * memory */
        ok(txn, add(l, 6002));
    } else {
        refuses(txn, LLADD_BAD_STATE, add(l, 20000));
        refuses(txn, LLADD_BAD_STATE, lladd_btree_load_finish(l, &root));
    }
    ck_assert_int_eq(lladd_btree_load_discard(l), 0);
    ok(txn, lladd_page_free(txn, page));
    commit(txn);
    ck_assert_uint_eq(free_pages_now(), used);
    fixture_free(&b);
}
END_TEST

START_TEST(the_transaction_ends_before_the_load)
{
    struct lladd_btree_loader *l, *other;
    open_empty(4096);
    set_shape(&shapes[6]);
    uint64_t used = free_pages_now();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_load_begin(txn, &options, &l));
    ok(txn, lladd_btree_load_begin(txn, &options, &other));
    for (uint32_t i = 0; i < 1000; i++)
        ok(txn, add(i % 2 ? l : other, 2 * i));
    ok(txn, lladd_btree_load_discard(other));
    abort_txn(txn);
    ck_assert_int_eq(add(l, 4000), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_btree_load_finish(l, &root), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_btree_load_discard(l), 0);
    ck_assert_int_eq(lladd_btree_load_discard(NULL), 0);
    ck_assert_uint_eq(free_pages_now(), used);
    fixture_free(&b);
}
END_TEST

/* One transaction adds rows to two loaders by turns. */
START_TEST(two_trees_are_loaded_at_once)
{
    struct lladd_btree_loader *l[2];
    lladd_pageno roots[2];
    open_empty(4096);
    set_shape(&shapes[6]);
    struct lladd_txn *txn = fixture_begin(&b);
    for (int k = 0; k < 2; k++)
        ok(txn, lladd_btree_load_begin(txn, &options, &l[k]));
    for (uint32_t i = 0; i < shape->rows; i++)
        for (int k = 0; k < 2; k++)
            ok(txn, add(l[k], 2 * i));
    for (int k = 0; k < 2; k++)
        ok(txn, lladd_btree_load_finish(l[k], &roots[k]));
    commit(txn);
    for (int k = 0; k < 2; k++) {
        root = roots[k];
        open_tree();
        compare(false);
        lladd_btree_close(tree);
    }
    fixture_free(&b);
}
END_TEST

START_TEST(a_load_in_doubt)
{
    struct lladd_gid gid = fixture_gid("load");
    open_empty(4096);
    set_shape(&shapes[6]);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, load(txn));
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&b);
    ck_assert_int_eq(lladd_btree_open(b.db, root, &tree, &b.err), LLADD_BUSY);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i) {
        commit(txn);
        open_tree();
        compare(false);
        lladd_btree_close(tree);
    } else {
        abort_txn(txn);
        ck_assert_int_ne(lladd_btree_open(b.db, root, &tree, &b.err), 0);
    }
    fixture_free(&b);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static const struct shape small = {4096, 0, 0, 40, 900, 60, 1500, 1};
static uint64_t used_before;

static void setup_step(void)
{
    open_empty(4096);
    set_shape(&small);
    used_before = free_pages_now();
}

static int step(int i)
{
    struct lladd_txn *txn;
    (void)i;
    TRY(lladd_begin(b.db, NULL, &txn, &b.err));
    return fixture_end(txn, load(txn));
}

static void unchanged(int i)
{
    (void)i;
    ck_assert_uint_eq(free_pages_now(), used_before);
}

static void done(uint64_t run)
{
    (void)run;
    open_tree();
    compare(false);
    lladd_btree_close(tree);
    fixture_free(&b);
}

START_TEST(an_allocation_fails)
{
    const struct fixture_steps steps = {1, setup_step, step, unchanged, NULL, done};
    ck_assert_uint_gt(fixture_each_fails_once(&b, &steps, false), 20);
}
END_TEST

/* The device fails before the load has been committed, or in the commit. */
static void crashed(int i)
{
    (void)i;
    fixture_crash(&b);
    uint64_t used = free_pages_now();
    if (used == used_before) {
        fixture_free(&b);
        return;
    }
    done(0);
}

/* Like `step`, but does not assert that the loader can be discarded, since the handle may be
 * poisoned. */
static int load_quietly(int i)
{
    struct lladd_txn *txn;
    (void)i;
    TRY(lladd_begin(b.db, NULL, &txn, &b.err));
    struct lladd_btree_loader *l;
    int rc = lladd_btree_load_begin(txn, &options, &l);
    bool begun = rc == 0;
    for (uint32_t row = 0; row < shape->rows && !rc; row++)
        rc = add(l, 2 * row);
    if (!rc)
        rc = lladd_btree_load_finish(l, &root);
    if (begun && rc)
        (void)lladd_btree_load_discard(l);
    return fixture_end(txn, rc);
}

START_TEST(the_device_fails)
{
    const struct fixture_steps steps = {1, setup_step, load_quietly, NULL, crashed, done};
    ck_assert_uint_gt(fixture_each_write_fails(&b, &steps), 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loading B+trees");
    TCase *c = tcase_create("load");
    tcase_add_loop_test(c, trees_of_every_shape, 0, (int)N_SHAPES);
    tcase_add_test(c, loaded_leaves_are_merged);
    tcase_add_test(c, rows_after_the_last_one);
    tcase_add_test(c, wrong_rows_are_refused);
    tcase_add_test(c, a_loaded_tree_is_busy_before_the_commit);
    tcase_add_loop_test(c, loads_are_rolled_back, 0, 3);
    tcase_add_test(c, the_transaction_ends_before_the_load);
    tcase_add_test(c, two_trees_are_loaded_at_once);
    tcase_add_loop_test(c, a_load_in_doubt, 0, 2);
    tcase_add_test(c, an_allocation_fails);
    tcase_add_test(c, the_device_fails);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
