/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees with page numbers of more than 32 bits. The records `insert` and `rows` have four bytes
 * for the root page, so such a tree must log its rows in another way.
 *
 * The page file is longer than 16 TiB. An overlay device stores only the blocks that were written.
 */
#include "op_fixture.h"

#include <lladd/btree.h>
#include <lladd/log_read.h>
#include <lladd/stats.h>

#define PAGE 4096u
#define FAR ((UINT64_C(1) << 32) + 100000)
enum { KEY = 4, VALUE = 40, MOST = 4000, SMALL = 300, BATCH = 64 };

static struct fixture b;
static struct lladd_device *sparse;
static lladd_pageno root;
static struct lladd_btree *tree;

/* The rows of the tree: for each key the first byte of its value, or 0 if there is no such row. */
static unsigned char rows[MOST];

static void lengthen_page_file(void)
{
    struct lladd_file *file;
    ck_assert_int_eq(sparse->ops->open(sparse, "pages", 0, &file), 0);
    ck_assert_int_eq(sparse->ops->truncate(sparse, file, FAR * PAGE), 0);
    ck_assert_int_eq(sparse->ops->close(sparse, file), 0);
}

/* Makes a database with more than 2^32 pages. After an open, the allocator takes pages from the
 * last group of pages, so their numbers are above 2^32. */
static void setup(void)
{
    memset(rows, 0, sizeof rows);
    fixture_init(&b, PAGE);
    b.options.checkpoint_bytes = 1u << 30;
    ck_assert_int_eq(lladd_device_overlay(b.base, &sparse), 0);
    b.options.device = sparse;
    fixture_open(&b);
    fixture_close(&b);
    lengthen_page_file();
    fixture_open(&b);
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &o, &root));
    ok(txn, lladd_root_set(txn, "far", (struct lladd_root_value){root.v, 0}));
    commit(txn);
    ck_assert_uint_gt(root.v, UINT32_MAX);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

/* Closes the database before fixture_free, because fixture_free would check each page of an open
 * database. */
static void teardown(void)
{
    lladd_btree_close(tree);
    fixture_close(&b);
    fixture_free(&b);
    lladd_device_close(sparse);
}

/* The process dies, and the database is opened again. */
static void crash(enum lladd_recovery recovery)
{
    struct lladd_root_value of;
    lladd_btree_close(tree);
    lladd_db_kill(b.db);
    b.options.recovery = recovery;
    fixture_open(&b);
    ok_db(&b, lladd_root_get(b.db, "far", &of, &b.err));
    ck_assert_uint_eq(of.a, root.v);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const unsigned char *key_of(unsigned i)
{
    static unsigned char keys[BATCH][KEY];
    unsigned char *key = keys[i % BATCH];
    for (unsigned at = 0; at < KEY; at++)
        key[at] = (unsigned char)(i >> 8 * (KEY - 1 - at));
    return key;
}

static const unsigned char *value_of(unsigned char first)
{
    static unsigned char value[VALUE];
    value[0] = first;
    return value;
}

static void insert(struct lladd_txn *txn, unsigned i, unsigned char value)
{
    ok(txn, lladd_btree_insert(txn, tree, key_of(i), KEY, value_of(value), VALUE));
}

static void put(struct lladd_txn *txn, unsigned i, unsigned char value)
{
    ok(txn, lladd_btree_put(txn, tree, key_of(i), KEY, value_of(value), VALUE));
}

static void delete(struct lladd_txn *txn, unsigned i)
{
    ok(txn, lladd_btree_delete(txn, tree, key_of(i), KEY));
}

/* Inserts 32 rows by one call: numbers `from`, `from` + `step`, and so on. */
static void insert_many(struct lladd_txn *txn, unsigned from, unsigned step, unsigned char value)
{
    struct lladd_btree_row r[BATCH / 2];
    unsigned char keys[BATCH / 2][KEY];
    for (unsigned i = 0; i < BATCH / 2; i++) {
        memcpy(keys[i], key_of(from + i * step), KEY);
        r[i] = (struct lladd_btree_row){keys[i], KEY, value_of(value), VALUE};
    }
    ok(txn, lladd_btree_insert_many(txn, tree, r, BATCH / 2, NULL));
}

/* Asserts that the tree has exactly the expected rows, and is in order. */
static void expect(void)
{
    struct lladd_btree_cursor *c;
    struct lladd_span key, value;
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
    for (unsigned i = 0; i < MOST; i++) {
        if (!rows[i])
            continue;
        ok_db(&b, lladd_btree_cursor_next(c, &b.err));
        ok_db(&b, lladd_btree_cursor_row(c, &key, &value, &b.err));
        ck_assert_uint_eq(key.len, KEY);
        ck_assert(memcmp(key.data, key_of(i), KEY) == 0);
        ck_assert_uint_eq(value.len, VALUE);
        ck_assert(memcmp(value.data, value_of(rows[i]), VALUE) == 0);
    }
    ck_assert_int_eq(lladd_btree_cursor_next(c, &b.err), LLADD_END);
    lladd_btree_cursor_close(c);
}

/* Inserts every second row from `first` on, and commits. The first half of the rows is inserted one
 * by one, the others many at a time. */
static void fill(unsigned first, unsigned most)
{
    struct lladd_txn *txn = fixture_begin(&b);
    unsigned i = first;
    for (; i < most / 2; i += 2)
        insert(txn, i, 1);
    for (; i + BATCH <= most; i += BATCH)
        insert_many(txn, i, 2, 1);
    commit(txn);
    for (unsigned row = first; row < i; row += 2)
        rows[row] = 1;
}

/* Inserts rows between those of `fill`; leaves split. Replaces and removes rows of `fill`. */
static void change(struct lladd_txn *txn)
{
    for (unsigned i = 1; i < SMALL; i += 2)
        insert(txn, i, 2);
    for (unsigned i = SMALL + 1; i + BATCH < MOST / 2; i += BATCH)
        insert_many(txn, i, 2, 3);
    for (unsigned i = 0; i < SMALL; i += 4)
        put(txn, i, 4);
    for (unsigned i = 2; i < SMALL; i += 4)
        delete(txn, i);
    for (unsigned i = 2; i < SMALL; i += 8)
        insert(txn, i, 5); /* replaces ghosts */
}

/* Changes the expected rows as `change` changes the tree. */
static void changed(void)
{
    for (unsigned i = 1; i < SMALL; i += 2)
        rows[i] = 2;
    for (unsigned i = SMALL + 1; i + BATCH < MOST / 2; i += BATCH)
        for (unsigned n = 0; n < BATCH / 2; n++)
            rows[i + 2 * n] = 3;
    for (unsigned i = 0; i < SMALL; i += 2)
        rows[i] = i % 4 == 0 ? 4 : i % 8 == 2 ? 5 : 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Each record that names a key has the whole root page. No record has the short form. */
static void expect_log(void)
{
    struct lladd_log_cursor *log;
    struct lladd_log_entry e;
    unsigned puts = 0, splits = 0;
    ok_db(&b, lladd_log_open(b.db, lladd_lsn_of(0), NULL, &log, &b.err));
    while (lladd_log_next(log, &e, &b.err) == 0) {
        lladd_pageno of;
        struct lladd_span key;
        for (size_t n = 0; lladd_btree_logged_key_at(&e, n, &of, &key); n++)
            ck_assert_uint_eq(of.v, root.v);
        if (!e.op)
            continue;
        ck_assert_str_ne(e.op, "lladd.btree.insert");
        ck_assert_str_ne(e.op, "lladd.btree.rows");
        puts += strcmp(e.op, "lladd.btree.put") == 0;
        splits += strcmp(e.op, "lladd.btree.fill") == 0;
    }
    lladd_log_close(log);
    ck_assert_uint_ge(puts, MOST / 2 - BATCH);
    ck_assert_uint_ge(splits, 10);
}

static int is_far(void *n, lladd_pageno page)
{
    ck_assert_uint_gt(page.v, UINT32_MAX);
    ++*(unsigned *)n;
    return 0;
}

START_TEST(rows_are_logged_with_the_whole_root_page)
{
    unsigned pages = 0;
    fill(0, MOST);
    struct lladd_txn *txn = fixture_begin(&b);
    change(txn);
    commit(txn);
    changed();
    expect();
    expect_log();
    ok_db(&b, lladd_btree_pages(tree, is_far, &pages, &b.err));
    ck_assert_uint_ge(pages, 20);
}
END_TEST

START_TEST(changes_are_rolled_back)
{
    fill(0, MOST);
    struct lladd_txn *txn = fixture_begin(&b);
    change(txn);
    abort_txn(txn);
    expect();
    txn = fixture_begin(&b);
    change(txn);
    commit(txn);
    changed();
    expect();
}
END_TEST

static void go_on(void)
{
    bool more = true;
    while (more)
        ok_db(&b, lladd_maintain(b.db, &more, &b.err));
}

static void expect_recovery(enum lladd_recovery how)
{
    struct lladd_stats now = {.struct_size = sizeof now};
    ok_db(&b, lladd_stats_get(b.db, &now));
    ck_assert(how == LLADD_RECOVER_INSTANT ? now.pages_pending > 0 : now.recovered_redone > 0);
    ck_assert_uint_eq(now.recovered_undone_txns + now.losers_left, 1);
}

/* A crash leaves committed rows to redo, and a transaction to undo. `_i`: how to recover. */
START_TEST(a_crash_is_recovered)
{
    enum lladd_recovery how = (enum lladd_recovery)_i;
    fill(0, MOST);
    struct lladd_txn *loser = fixture_begin(&b), *quick = fixture_begin(&b);
    change(loser);
    insert(quick, MOST - 1, 7); /* its commit makes the log of the loser durable, too */
    commit(quick);
    rows[MOST - 1] = 7;
    crash(how);
    expect_recovery(how);
    expect();
    go_on();
    expect();
    crash(how);
    expect();
    struct lladd_txn *txn = fixture_begin(&b);
    change(txn);
    commit(txn);
    changed();
    expect();
}
END_TEST

/* Emptied leaves are merged, and the tree keeps their pages in its list of free pages. After a
 * crash, splits use these pages. `_i`: how to recover. */
START_TEST(merges_and_the_free_list)
{
    fill(0, MOST);
    for (unsigned i = 0; i < MOST; i += 2) {
        if (!rows[i] || i % 200 == 0)
            continue;
        struct lladd_txn *txn = fixture_begin(&b);
        delete(txn, i);
        commit(txn);
        rows[i] = 0;
    }
    expect();
    crash((enum lladd_recovery)_i);
    expect();
    fill(1, MOST);
    expect();
}
END_TEST

/* A destruction that is rolled back leaves the tree unchanged. One that commits frees the root
 * page. */
START_TEST(a_tree_is_destroyed)
{
    fill(0, SMALL);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    abort_txn(txn);
    expect();
    crash(LLADD_RECOVER_FULL);
    expect();
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    commit(txn);
    enum lladd_page_use use;
    ok_db(&b, lladd_page_use_get(b.db, root, &use, &b.err));
    ck_assert_int_eq(use, LLADD_USE_FREED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("btree_far");
    TCase *t = tcase_create("far");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, rows_are_logged_with_the_whole_root_page);
    tcase_add_test(t, changes_are_rolled_back);
    tcase_add_loop_test(t, a_crash_is_recovered, LLADD_RECOVER_FULL, LLADD_RECOVER_INSTANT + 1);
    tcase_add_loop_test(t, merges_and_the_free_list, LLADD_RECOVER_FULL, LLADD_RECOVER_INSTANT + 1);
    tcase_add_test(t, a_tree_is_destroyed);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
