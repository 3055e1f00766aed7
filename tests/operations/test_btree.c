/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees: errors and their codes, trees that are being created or destroyed, transactions in
 * doubt, long values, what the log says about keys, and damage that the check finds.
 */
#include "op_fixture.h"
#include "operations/btree/tree.h"

#include <lladd/btree.h>
#include <lladd/log_read.h>

#include <stdio.h>

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

static void make(uint32_t key_size, uint32_t value_size)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    o.key_size = key_size;
    o.value_size = value_size;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

static void put(struct lladd_txn *txn, const char *key, const char *value)
{
    ok(txn, lladd_btree_put(txn, tree, key, strlen(key), value, strlen(value)));
}

/* Writes a number as a key; returns its length. */
static size_t number(char key[8], int i)
{
    return (size_t)snprintf(key, 8, "%d", i);
}

/* Asserts that the key has this value; if `value` is NULL, that the key has no row. */
static void expect(const char *key, const char *value)
{
    char got[64];
    size_t len = 0;
    int rc = lladd_btree_get(tree, key, strlen(key), got, sizeof got, &len, &b.err);
    ck_assert_int_eq(rc, value ? 0 : LLADD_NOT_FOUND);
    if (value) {
        ck_assert_uint_eq(len, strlen(value));
        ck_assert(memcmp(got, value, len) == 0);
    }
}

START_TEST(wrong_arguments)
{
    unsigned char key[1001] = {0};
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_btree *other;
    uint32_t most = lladd_btree_key_max(b.db);
    ck_assert_uint_eq(most, 993);
    struct lladd_txn *txn = fixture_begin(&b);
    o.key_size = most + 1;
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_create(txn, &o, &root));
    o.key_size = 0;
    o.value_size = 1001;
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_create(txn, &o, &root));
    commit(txn);
    make(8, 4);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_insert(txn, tree, key, 7, key, 4));
    refuses(txn, LLADD_KEY_SIZE, lladd_btree_put(txn, tree, key, 8, key, 5));
    refuses(txn, LLADD_NOT_FOUND, lladd_btree_delete(txn, tree, key, 8));
    ok(txn, lladd_btree_insert(txn, tree, key, 8, key, 4));
    refuses(txn, LLADD_EXISTS, lladd_btree_insert(txn, tree, key, 8, key, 4));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_btree_insert(txn, NULL, key, 8, key, 4));
    commit(txn);
    ck_assert_uint_eq(lladd_btree_key_size(tree), 8);
    ck_assert_uint_eq(lladd_btree_value_size(tree), 4);
    ck_assert_int_eq(lladd_btree_open(b.db, lladd_page_of(0), &other, &b.err), LLADD_WRONG_TYPE);
    lladd_btree_close(tree);
    make(0, 0);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_TOO_LARGE, lladd_btree_insert(txn, tree, key, most + 1, key, 4));
    ok(txn, lladd_btree_insert(txn, tree, key, most, key, 4));
    ok(txn, lladd_btree_insert(txn, tree, key, 0, NULL, 0)); /* an empty key, an empty value */
    commit(txn);
    expect("", "");
    lladd_btree_close(tree);
    lladd_btree_close(NULL);
    lladd_btree_cursor_close(NULL);
}
END_TEST

START_TEST(a_new_tree_is_busy_until_the_commit)
{
    struct lladd_btree *other;
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    o.key_size = 1;
    o.value_size = 2;
    ok(txn, lladd_btree_create_open(txn, &o, &root, &tree));
    ck_assert_uint_eq(lladd_btree_key_size(tree), 1);
    ck_assert_uint_eq(lladd_btree_value_size(tree), 2);
    refuses(txn, LLADD_BUSY, lladd_btree_put(txn, tree, "k", 1, "vw", 2));
    ck_assert_int_eq(lladd_btree_open(b.db, root, &other, &b.err), LLADD_BUSY);
    ck_assert_int_eq(lladd_btree_get(tree, "k", 1, NULL, 0, NULL, &b.err), LLADD_BUSY);
    commit(txn);
    txn = fixture_begin(&b);
    put(txn, "k", "vw");
    commit(txn);
    expect("k", "vw");
    lladd_btree_close(tree);
    uint64_t pages = fixture_pages_used(&b);
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_create_open(txn, NULL, &root, &tree));
    abort_txn(txn);
    ck_assert_int_eq(lladd_btree_get(tree, "k", 1, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    lladd_btree_close(tree);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
}
END_TEST

static void expect_open(int want)
{
    int rc = lladd_btree_open(b.db, root, &tree, &b.err);
    ck_assert_msg(rc == want, "%s: %s", lladd_code_name(rc), b.err.message);
    if (rc == 0) {
        struct lladd_txn *txn = fixture_begin(&b);
        put(txn, "k", "v");
        commit(txn);
        ok_db(&b, lladd_btree_check(tree, &b.err));
        lladd_btree_close(tree);
    }
}

/* After the rollback of a creation the root page keeps its type while it is free. _i & 1: the
 * database is also closed and opened again; _i & 2: the creation is rolled back to a savepoint. */
START_TEST(a_creation_that_is_rolled_back_leaves_no_tree)
{
    lladd_savepoint_id sp;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_btree_create(txn, NULL, &root));
    if (_i & 2) {
        ok(txn, lladd_rollback_to(txn, sp));
        expect_open(LLADD_DESTROYED);
        commit(txn);
    } else {
        abort_txn(txn);
    }
    if (_i & 1) {
        fixture_close(&b);
        fixture_open(&b);
    }
    expect_open(LLADD_DESTROYED);
}
END_TEST

/* The records of a closed action without undo stay, so the tree exists although the transaction is
 * rolled back. */
START_TEST(a_creation_in_a_closed_action_stays)
{
    struct lladd_action action;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_nta_begin(txn, &action));
    ok(txn, lladd_btree_create(txn, NULL, &root));
    ok(txn, lladd_nta_end(txn, &action, LLADD_NO_OP, NULL, 0));
    ck_assert_int_eq(lladd_btree_open(b.db, root, &tree, &b.err), LLADD_BUSY);
    abort_txn(txn);
    expect_open(0);
    fixture_crash(&b);
    expect_open(0);
}
END_TEST

/* A prepared transaction has created the tree. _i: it commits. */
START_TEST(a_creation_in_doubt)
{
    struct lladd_gid gid = fixture_gid("creation");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, NULL, &root));
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&b);
    expect_open(LLADD_BUSY);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i)
        commit(txn);
    else
        abort_txn(txn);
    expect_open(_i ? 0 : LLADD_DESTROYED);
    fixture_close(&b);
    fixture_open(&b);
    expect_open(_i ? 0 : LLADD_DESTROYED);
}
END_TEST

START_TEST(a_tree_in_use_is_not_destroyed)
{
    make(0, 0);
    struct lladd_txn *user = fixture_begin(&b), *txn = fixture_begin(&b);
    put(user, "k", "v");
    refuses(txn, LLADD_BUSY, lladd_btree_destroy(txn, root));
    commit(user);
    ok(txn, lladd_btree_destroy(txn, root));
    ck_assert_int_eq(lladd_btree_get(tree, "k", 1, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    abort_txn(txn);
    expect("k", "v");
    txn = fixture_begin(&b);
    put(txn, "k", "w"); /* the abort undoes the destruction first, and then this put */
    ok(txn, lladd_btree_destroy(txn, root));
    abort_txn(txn);
    expect("k", "v");
    lladd_btree_close(tree);
}
END_TEST

/* A destruction that is refused later owns the tree for a moment. (The test sets the owner itself.)
 * During this moment, a transaction that has already changed the tree can change it again. A
 * transaction that has not changed the tree yet gets LLADD_BUSY; this call does not count as a
 * change, and the transaction can change the tree later. */
START_TEST(a_refused_destruction_disturbs_no_other_transaction)
{
    make(0, 0);
    struct lladd_txn *user = fixture_begin(&b), *late = fixture_begin(&b);
    put(user, "k", "v");
    lladd_atomic_store64(&tree->tree->owner, 1);
    put(user, "l", "v");
    refuses(late, LLADD_BUSY, lladd_btree_put(late, tree, "m", 1, "v", 1));
    refuses(late, LLADD_BUSY, lladd_btree_put(late, tree, "m", 1, "v", 1));
    lladd_atomic_store64(&tree->tree->owner, 0);
    ck_assert_uint_eq(lladd_atomic_load64(&tree->tree->changers), 1);
    put(late, "m", "v");
    ck_assert_uint_eq(lladd_atomic_load64(&tree->tree->changers), 2);
    commit(user);
    commit(late);
    ck_assert_uint_eq(lladd_atomic_load64(&tree->tree->changers), 0);
    lladd_btree_close(tree);
}
END_TEST

/* After a crash, the space of the rows that a prepared transaction has removed is still reserved
 * for its rollback. _i: the transaction commits instead. */
START_TEST(space_is_kept_for_a_transaction_in_doubt)
{
    struct lladd_gid gid = fixture_gid("doubt");
    char key[8], value[200];
    memset(value, 'v', sizeof value);
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 100; i++)
        ok(txn, lladd_btree_put(txn, tree, key, number(key, i), value, 200));
    commit(txn);
    txn = fixture_begin(&b);
    for (int i = 0; i < 100; i += 2)
        ok(txn, lladd_btree_delete(txn, tree, key, number(key, i)));
    ok(txn, lladd_btree_put(txn, tree, "1", 1, "short", 5));
    ok(txn, lladd_prepare(txn, &gid));
    lladd_btree_close(tree);
    fixture_crash(&b);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_btree_destroy(txn, root));
    for (int i = 100; i < 300; i++)
        ok(txn, lladd_btree_put(txn, tree, key, number(key, i), value, 200));
    commit(txn);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i)
        commit(txn);
    else
        abort_txn(txn);
    for (int i = 0; i < 300; i++) {
        int rc = lladd_btree_get(tree, key, number(key, i), NULL, 0, NULL, &b.err);
        ck_assert_int_eq(rc, _i && i < 100 && i % 2 == 0 ? LLADD_NOT_FOUND : 0);
    }
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
}
END_TEST

START_TEST(long_values)
{
    enum { LEN = 1 << 20 };
    unsigned char *value = malloc(LEN), *got = malloc(LEN);
    ck_assert(value && got);
    seeded_fill(7, value, LEN);
    make(0, 0);
    uint64_t pages = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t len = 0; len <= LEN; len = len ? 4 * len : 1)
        ok(txn, lladd_btree_put(txn, tree, &len, sizeof len, value, len));
    commit(txn);
    for (size_t len = 0, n = 1; len <= LEN; len = len ? 4 * len : 1) {
        ok_db(&b, lladd_btree_get(tree, &len, sizeof len, got, LEN, &n, &b.err));
        ck_assert_uint_eq(n, len);
        ck_assert(memcmp(got, value, len) == 0);
    }
    txn = fixture_begin(&b);
    for (size_t len = 0; len <= LEN; len = len ? 4 * len : 1)
        ok(txn, lladd_btree_delete(txn, tree, &len, sizeof len));
    commit(txn);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    txn = fixture_begin(&b); /* the pages of the blobs become free */
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    abort_txn(txn);
    ck_assert_uint_le(fixture_pages_used(&b), pages + 2); /* a split may have left spare pages */
    lladd_btree_close(tree);
    free(value);
    free(got);
}
END_TEST

START_TEST(the_log_names_keys)
{
    unsigned inserts = 0, puts = 0, removals = 0;
    struct lladd_log_cursor *log;
    struct lladd_log_entry e;
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_insert(txn, tree, "key", 3, "1", 1));
    put(txn, "key", "2");
    ok(txn, lladd_btree_delete(txn, tree, "key", 3));
    ok(txn, lladd_btree_insert(txn, tree, "key", 3, "3", 1)); /* over its ghost */
    commit(txn);
    lladd_btree_close(tree);
    ok_db(&b, lladd_log_open(b.db, lladd_lsn_of(0), NULL, &log, &b.err));
    while (lladd_log_next(log, &e, &b.err) == 0) {
        lladd_pageno of;
        struct lladd_span key;
        if (!lladd_btree_logged_key(&e, &of, &key))
            continue;
        ck_assert_uint_eq(of.v, root.v);
        ck_assert_uint_eq(key.len, 3);
        ck_assert(memcmp(key.data, "key", 3) == 0);
        inserts += strcmp(e.op, "lladd.btree.insert") == 0;
        puts += strcmp(e.op, "lladd.btree.put") == 0;
        removals += strcmp(e.op, "lladd.btree.remove") == 0;
    }
    lladd_log_close(log);
    ck_assert_uint_eq(inserts, 1);
    ck_assert_uint_eq(puts, 2);
    ck_assert_uint_eq(removals, 1);
}
END_TEST

/* ---- many rows ------------------------------------------------------------------------------- */

enum { ROWS = 3000 };
static struct lladd_btree_row rows[ROWS];
static unsigned char keys[ROWS][4];
static const unsigned char filler[700];

/* Prepares rows with keys that are `distance` apart. Every 50th row is too long for the record
 * `insert`. The values differ in length; has_rows compares the lengths. */
static void set_rows(uint32_t distance)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t k = i * distance;
        for (int n = 0; n < 4; n++)
            keys[i][n] = (unsigned char)(k >> (24 - 8 * n));
        rows[i] = (struct lladd_btree_row){keys[i], 4, filler, i % 50 == 7 ? 600 + i % 97 : i % 97};
    }
}

/* Asserts that the tree has the rows from `from` on, before `end`, and no other ones. */
static void has_rows(uint32_t from, uint32_t end)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    ck_assert_uint_eq(s.rows, end - from);
    for (uint32_t i = from; i < end; i++) {
        size_t len = 0;
        ok_db(&b, lladd_btree_get(tree, keys[i], 4, NULL, 0, &len, &b.err));
        ck_assert_uint_eq(len, rows[i].value_len);
    }
}

static void insert_rows(struct lladd_txn *txn, uint32_t from, uint32_t n)
{
    size_t done = 0;
    ok(txn, lladd_btree_insert_many(txn, tree, rows + from, n, &done));
    ck_assert_uint_eq(done, n);
}

/* Inserts the rows from `from` on by one call. Asserts that the call stops at its row number `at`
 * and returns `code`. */
static void stops(struct lladd_txn *txn, uint32_t from, int code, size_t at)
{
    size_t done = 0;
    refuses(txn, code, lladd_btree_insert_many(txn, tree, rows + from, ROWS - from, &done));
    ck_assert_uint_eq(done, at);
}

/* Single calls insert rows into many leaves: rows in the order of their keys, rows before the
 * existing ones, rows that have ghosts. A call stops at a row that exists and at a key with a wrong
 * length. */
START_TEST(many_rows_in_one_call)
{
    make(4, 0);
    set_rows(2);
    struct lladd_txn *txn = fixture_begin(&b);
    insert_rows(txn, 0, 0);
    insert_rows(txn, 1000, 1000);
    insert_rows(txn, 0, 1000); /* these rows come before the rows that exist */
    for (uint32_t i = 300; i < 700; i++)
        ok(txn, lladd_btree_delete(txn, tree, keys[i], 4));
    insert_rows(txn, 300, 400);
    stops(txn, 1990, LLADD_EXISTS, 0);
    insert_rows(txn, 2505, 1);
    stops(txn, 2000, LLADD_EXISTS, 505);
    rows[2600].key_len = 3;
    stops(txn, 2506, LLADD_KEY_SIZE, 94);
    rows[2600].key_len = 4;
    insert_rows(txn, 2600, ROWS - 2600);
    commit(txn);
    has_rows(0, ROWS);
    lladd_btree_close(tree);
}
END_TEST

/* One call inserts 17 rows with two log records. The log must name the key of each row. */
START_TEST(the_log_names_each_of_many_keys)
{
    unsigned records = 0, named = 0;
    struct lladd_log_cursor *log;
    struct lladd_log_entry e;
    lladd_pageno of;
    struct lladd_span key;
    make(4, 0);
    set_rows(1);
    struct lladd_txn *txn = fixture_begin(&b);
    insert_rows(txn, 8, 17); /* one record has one row, and one has sixteen rows; no row is long */
    commit(txn);
    lladd_btree_close(tree);
    ok_db(&b, lladd_log_open(b.db, lladd_lsn_of(0), NULL, &log, &b.err));
    while (lladd_log_next(log, &e, &b.err) == 0) {
        size_t n = 0;
        for (; lladd_btree_logged_key_at(&e, n, &of, &key); n++) {
            ck_assert_uint_eq(of.v, root.v);
            ck_assert_uint_eq(key.len, 4);
            ck_assert(memcmp(key.data, keys[8 + named + n], 4) == 0);
        }
        ck_assert_int_eq(lladd_btree_logged_key(&e, &of, &key), n == 1);
        if (n > 1)
            ck_assert_uint_eq(n, 16);
        named += (unsigned)n;
        records += n != 0;
    }
    lladd_log_close(log);
    ck_assert_uint_eq(named, 17);
    ck_assert_uint_eq(records, 2);
}
END_TEST

/* A transaction inserts rows between the rows of a second transaction, which is still open. The
 * second transaction then splits the same leaves, and commits. The rows of the first transaction
 * are rolled back by an abort (_i 0) or after a crash (_i 1). */
START_TEST(many_rows_are_rolled_back)
{
    make(4, 0);
    set_rows(3);
    struct lladd_txn *late = fixture_begin(&b), *txn = fixture_begin(&b);
    insert_rows(txn, 100, 1000);
    unsigned char other[4];
    struct lladd_btree_row between[100];
    unsigned char at[100][4];
    for (uint32_t i = 0; i < 100; i++) { /* key 3 * (100 + 9 i) + 1 */
        memcpy(at[i], keys[100 + 9 * i], 4);
        at[i][3]++;
        between[i] = (struct lladd_btree_row){at[i], 4, filler, 5};
    }
    ok(late, lladd_btree_insert_many(late, tree, between, 100, NULL));
    memcpy(other, at[99], 4);
    insert_rows(txn, 1100, ROWS - 1100);
    commit(txn);
    ok_db(&b, lladd_btree_get(tree, other, 4, NULL, 0, NULL, &b.err));
    if (_i) {
        ok_db(&b, lladd_checkpoint(b.db, &b.err));
        lladd_btree_close(tree);
        fixture_crash(&b);
        ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    } else {
        abort_txn(late);
    }
    has_rows(100, ROWS);
    lladd_btree_close(tree);
}
END_TEST

/* ---- records of earlier versions ------------------------------------------------------------- */

/* Makes a record that has the contents of `from`, and applies it to the page `to`. */
static void filled(const struct lladd_op *op, const struct lladd_page *from, struct lladd_page *to)
{
    unsigned char redo[4096], packed[4096];
    struct bt_fill f = {.root = lladd_page_of(lladd_get48(from->bytes + BT_ROOT)),
                        .right = lladd_page_of(lladd_get48(from->bytes + BT_RIGHT)),
                        .level = from->bytes[BT_LEVEL],
                        .brief = op->version == 2,
                        .fences = bt_fences_of(from->bytes, from->size)};
    struct lladd_view v = {to->bytes, to->size, 0, to->number};
    ll_btree__pack_from(from->bytes, 0, packed, &f);
    size_t len = ll_btree__fill_size(&f);
    ll_btree__fill_write(redo, &f);
    ck_assert(op->validate(v, LLADD_SPAN_REDO, lladd_span_of(redo, len)));
    op->redo(to, lladd_span_of(redo, len));
    ck_assert(!op->validate(v, LLADD_SPAN_REDO, lladd_span_of(redo, len - 1)));
}

/* Both versions of the record `fill` make the same node, even if the rows have ghosts or values
 * with unused room. The records `put` and `insert` make the same change. */
START_TEST(old_and_new_records_do_the_same)
{
    static unsigned char a_bytes[4096], b_bytes[4096], c_bytes[4096];
    struct lladd_page node = {a_bytes, 4096, 0, lladd_page_of(7)};
    struct lladd_page old = {b_bytes, 4096, 0, lladd_page_of(7)};
    struct lladd_page new = {c_bytes, 4096, 0, lladd_page_of(7)};
    bool inner = _i & 1, open_end = _i & 2;
    const struct bt_fences f = {{(const void *)"keys:a", 6}, {(const void *)"keys:x", 6}, open_end};
    memset(a_bytes, 0, sizeof a_bytes);
    memset(b_bytes, 1, sizeof b_bytes); /* the former contents of the page do not matter */
    memset(c_bytes, 2, sizeof c_bytes);
    a_bytes[BT_LEVEL] = inner;
    lladd_put48(a_bytes + BT_ROOT, 3);
    lladd_put48(a_bytes + BT_RIGHT, 9);
    ll_btree__clear(a_bytes, 4096, &f);
    for (unsigned char i = 0; i < 9; i++) {
        unsigned char key[7] = {'k', 'e', 'y', 's', ':', 'b', i};
        struct bt_entry e = {key, key, inner && i == 0 ? 0 : 7, 6, 6};
        if (!inner && i % 3 == 1)
            e.key_len |= BT_GHOST;
        if (!inner && i % 3 == 2)
            e.cap = 20;
        ll_btree__add(a_bytes, 4096, i, &e);
    }
    filled(&ll_btree__fill_1, &node, &old);
    filled(&ll_btree__fill, &node, &new);
    ck_assert(memcmp(old.bytes + LLADD_PAGE_HEADER, new.bytes + LLADD_PAGE_HEADER,
                     4096 - LLADD_PAGE_HEADER) == 0);
    ck_assert_uint_eq(bt_get(new.bytes, BT_SLOTS), 9);
    if (inner)
        return;
    static const char put_redo[] = "\11\200\6\0\2\0\2\0keys:cvv";
    static const char insert_redo[] = "\11\0\6\0keys:cvv";
    struct lladd_span put_bytes = lladd_span_of(put_redo, sizeof put_redo - 1);
    struct lladd_span insert_bytes = lladd_span_of(insert_redo, sizeof insert_redo - 1);
    struct lladd_view v = {new.bytes, new.size, 0, new.number};
    ck_assert(ll_btree__put.validate(v, LLADD_SPAN_REDO, put_bytes));
    ck_assert(ll_btree__insert.validate(v, LLADD_SPAN_REDO, insert_bytes));
    ll_btree__put.redo(&old, put_bytes);
    ll_btree__insert.redo(&new, insert_bytes);
    ck_assert(memcmp(old.bytes + LLADD_PAGE_HEADER, new.bytes + LLADD_PAGE_HEADER,
                     4096 - LLADD_PAGE_HEADER) == 0);
    ck_assert(!ll_btree__insert.validate(v, LLADD_SPAN_REDO, insert_bytes)); /* the key exists */
}
END_TEST

START_TEST(earlier_records_are_known)
{
    lladd_op_id id;
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.btree.fill", 1, &id), 0);
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.btree.fill", 2, &id), 0);
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.btree.put", 1, &id), 0);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------- */

/* Bytes of a leaf are changed in the cache, without the library. The check must find that. */
START_TEST(damage_is_found)
{
    unsigned char wrong[2] = {0x34, 0x12};
    char key[8];
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 1000; i++)
        ok(txn, lladd_btree_put(txn, tree, key, number(key, i), key, 3));
    commit(txn);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_pageno leaf = lladd_page_of(lladd_atomic_load64(&tree->tree->last));
    if (leaf.v == 0)
        ck_assert_int_eq(ll_btree__descend(tree->tree, (struct bt_key){(const void *)"5", 1}, 0,
                                           &leaf, NULL, &b.err),
                         0);
    static const uint32_t at[] = {BT_RIGHT, BT_SLOTS,         BT_GHOSTS,
                                  BT_LOW,   BT_SLOT_AREA + 1, BT_SLOT_AREA + 4};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        fixture_forge(&b, leaf, at[i], wrong, sizeof wrong);
        int rc = lladd_btree_check(tree, &b.err);
        fixture_forge(&b, leaf, at[i], wrong, sizeof wrong);
        ck_assert_msg(lladd_code_root(rc) == LLADD_ROOT_DATA || rc == LLADD_WRONG_TYPE,
                      "byte %u: %s", at[i], lladd_code_name(rc));
    }
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
}
END_TEST

/* Writes a number of six bytes into the page, checks the tree, and restores the page. */
static int check_with(lladd_pageno page, uint32_t at, uint64_t number)
{
    unsigned char bytes[6];
    lladd_put48(bytes, number);
    fixture_forge(&b, page, at, bytes, sizeof bytes);
    int rc = lladd_btree_check(tree, &b.err);
    fixture_forge(&b, page, at, bytes, sizeof bytes);
    return rc;
}

/* A leaf and the root page each contain the number of a spare page. The test replaces this number,
 * in turn, by that of a page of another tree, of the leaf or root page itself, of the root page,
 * and of a free page. Then it lets two rows name the same blob. The check must find each of these
 * errors. */
START_TEST(references_to_wrong_pages_are_found)
{
    static const char value[5000];
    make(0, 0);
    lladd_pageno other = bt_top_page(lladd_atomic_load64(&tree->tree->top)), unused;
    lladd_btree_close(tree);
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_put(txn, tree, "a", 1, value, sizeof value));
    ok(txn, lladd_btree_put(txn, tree, "b", 1, value, sizeof value));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_page_alloc(txn, &unused));
    abort_txn(txn);
    lladd_pageno leaf = bt_top_page(lladd_atomic_load64(&tree->tree->top)), own = root;
    const struct {
        lladd_pageno of;
        uint32_t at;
    } fields[] = {{leaf, BT_SPARE}, {root, BR_SPARE}};
    ok_db(&b, lladd_btree_check(tree, &b.err));
    for (size_t i = 0; i < 2; i++) {
        lladd_pageno of = fields[i].of;
        ck_assert_int_eq(check_with(of, fields[i].at, other.v), LLADD_CORRUPT_PAGE);
        ck_assert_int_eq(check_with(of, fields[i].at, of.v), LLADD_CORRUPT_PAGE);
        ck_assert_int_eq(check_with(of, fields[i].at, own.v), LLADD_CORRUPT_PAGE);
        ck_assert_int_ne(check_with(of, fields[i].at, unused.v), 0);
    }
    struct lladd_page *p;
    ok_db(&b, lladd_page_fix(b.db, leaf, LLADD_LATCH_SHARED, &p, &b.err));
    struct bt_entry first = bt_entry_of(p->bytes, 0), second = bt_entry_of(p->bytes, 1);
    uint32_t at = (uint32_t)(second.value + 8 - p->bytes);
    uint64_t blob = lladd_get48(first.value + 8);
    lladd_page_unfix(b.db, p, LLADD_LATCH_SHARED);
    ck_assert_int_eq(check_with(leaf, at, blob), LLADD_CORRUPT_PAGE);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
}
END_TEST

/* The handle knows an older top node than the root page names. A split at the level of the older
 * node must read the newer node. The statistics visit all nodes, and must not depend on the top
 * node in memory. */
START_TEST(an_old_top_node_is_replaced)
{
    struct lladd_btree_stats before = {.struct_size = sizeof before}, after = before;
    uint64_t top = 0;
    char key[8];
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    put(txn, "", "");
    uint64_t first = lladd_atomic_load64(&tree->tree->top);
    for (int i = 0; i < 1000; i++)
        ok(txn, lladd_btree_put(txn, tree, key, number(key, i), key, 3));
    top = lladd_atomic_load64(&tree->tree->top);
    ck_assert_uint_gt(bt_top_level(top), bt_top_level(first));
    ok_db(&b, lladd_btree_stats_get(tree, &before, &b.err));
    lladd_atomic_store64(&tree->tree->top, first);
    ok_db(&b, lladd_btree_stats_get(tree, &after, &b.err));
    ck_assert_uint_eq(after.leaves, before.leaves);
    for (int i = 1000; i < 3000; i++)
        ok(txn, lladd_btree_put(txn, tree, key, number(key, i), key, 3));
    ck_assert_uint_eq(lladd_atomic_load64(&tree->tree->top), top);
    commit(txn);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
}
END_TEST

/* An application's compensation puts rows, so nodes split while a transaction rolls back. All log
 * space that the compensation needs is reserved (REC-3). */
enum { SPLITTERS = 300, ROW_BYTES = 150 };

static int puts_rows(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    char key[8], value[ROW_BYTES] = {0};
    int rc = 0;
    (void)ctx;
    (void)undo;
    for (int i = 0; i < SPLITTERS && !rc; i++)
        rc = lladd_btree_put(txn, tree, key, number(key, i), value, sizeof value);
    return rc;
}

static bool no_page(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return v.bytes == NULL && kind == LLADD_SPAN_UNDO && s.len == 0;
}

START_TEST(a_rollback_may_split)
{
    static const struct lladd_op op = {.struct_size = sizeof op,
                                       .name = "test.puts",
                                       .version = 1,
                                       .record_max = 8,
                                       .undo_kind = LLADD_UNDO_LOGICAL,
                                       .validate = no_page,
                                       .compensate = puts_rows,
                                       .undo_log_max = 4u << 20,
                                       .undo_pages_max = 3};
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    lladd_op_id id = LLADD_NO_OP;
    fixture_close(&b);
    ok_db(&b, lladd_register_op(&b.options, &op, &b.err));
    fixture_open(&b);
    ok_db(&b, lladd_op_lookup(b.db, op.name, op.version, &id));
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_log_undo_only(txn, id, NULL, 0));
    abort_txn(txn);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    ck_assert_uint_eq(s.rows, SPLITTERS);
    ck_assert_uint_gt(s.splits, 8);
    lladd_btree_close(tree);
}
END_TEST

/* A slot names bytes within the value of another row; these bytes look like an entry. On such a
 * page redo could write outside the page, so the page is refused when it is loaded. */
START_TEST(an_entry_within_a_value_is_refused)
{
    struct lladd_page *page;
    unsigned char inner[8] = {1, 0, 1, 0, 1, 0, 'b', 'x'}; /* key "b", value "x" */
    void *private_ = NULL;
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_put(txn, tree, "a", 1, inner, sizeof inner));
    put(txn, "b", "x");
    commit(txn);
    lladd_pageno leaf = bt_top_page(lladd_atomic_load64(&tree->tree->top));
    ok_db(&b, lladd_page_fix(b.db, leaf, LLADD_LATCH_EXCLUSIVE, &page, &b.err));
    struct lladd_view v = lladd_page_view(page);
    ck_assert_int_eq(ll_btree__node_page.loaded(NULL, v, &private_, &b.err), 0);
    unsigned char *at = bt_slot(page->bytes, 1) + 4;
    uint16_t was = lladd_get16(at);
    lladd_put16(at, (uint16_t)(lladd_get16(bt_slot(page->bytes, 0) + 4) + BT_ENTRY_HEAD + 1));
    int rc = ll_btree__node_page.loaded(NULL, v, &private_, &b.err);
    lladd_put16(at, was);
    lladd_page_unfix(b.db, page, LLADD_LATCH_EXCLUSIVE);
    ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
    lladd_btree_close(tree);
}
END_TEST

/* A page image in the log has the same damage. Redo begins with the image and does not read the
 * page, so it must check the image. */
START_TEST(an_image_of_a_damaged_node_is_refused)
{
    struct lladd_page *page;
    unsigned char inner[8] = {1, 0, 1, 0, 1, 0, 'b', 'x'}; /* key "b", value "x" */
    fixture_close(&b);
    b.options.cache_bytes = 1u << 16;
    fixture_open(&b);
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_put(txn, tree, "a", 1, inner, sizeof inner));
    put(txn, "b", "x");
    commit(txn);
    lladd_pageno leaf = bt_top_page(lladd_atomic_load64(&tree->tree->top));
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    txn = fixture_begin(&b);
    put(txn, "b", "y");
    commit(txn);
    ok_db(&b, lladd_page_fix(b.db, leaf, LLADD_LATCH_EXCLUSIVE, &page, &b.err));
    unsigned char *at = bt_slot(page->bytes, 1) + 4;
    lladd_put16(at, (uint16_t)(lladd_get16(bt_slot(page->bytes, 0) + 4) + BT_ENTRY_HEAD + 1));
    lladd_page_unfix(b.db, page, LLADD_LATCH_EXCLUSIVE);
    lladd_btree_close(tree);
    for (int i = 0; i < 100; i++) /* the leaf is evicted */
        (void)fixture_page(&b, "lladd.bytes");
    fixture_kill(&b);
    b.options.cache_bytes = 8u << 20; /* large enough for all pages that redo needs */
    ck_assert_int_eq(fixture_try_open(&b), LLADD_BAD_RECORD);
    ck_assert_ptr_nonnull(strstr(b.err.message, "lladd.btree.node"));
    ck_assert_uint_eq(b.err.page.v, leaf.v);
}
END_TEST

/* Each value contains bytes that look like an entry with the row's own key. The test changes one
 * slot after the other to name these bytes. The keys stay in order. So the check must notice that
 * the slot does not name the first byte of an entry. _i chooses the page size. */
START_TEST(each_slot_names_the_first_byte_of_an_entry)
{
    uint32_t size = 4096u << 2 * _i, slots = 0;
    unsigned char *page = aligned_alloc(64, size), key[4], value[12] = {4, 0, 1, 0, 1, 0};
    struct lladd_view v = {page, size, 0, lladd_page_of(9)};
    struct bt_fences all = {.open_end = true};
    ck_assert_ptr_nonnull(page);
    memset(page, 0, size);
    ll_btree__clear(page, size, &all);
    for (;; slots++) {
        struct bt_entry e = {key, value, sizeof key, sizeof value, sizeof value};
        for (int i = 0; i < 4; i++)
            key[i] = (unsigned char)(slots >> 8 * (3 - i));
        memcpy(value + BT_ENTRY_HEAD, key, sizeof key);
        if (ll_btree__gap(page, size) < BT_SLOT + bt_entry_size(sizeof key, sizeof value))
            break;
        ll_btree__add(page, size, slots, &e);
    }
    for (uint32_t i = 3; i < slots; i += 7, slots--) /* dropped entries stay between the others */
        ll_btree__drop(page, i, i + 1);
    ck_assert(ll_btree__fine(v));
    for (uint32_t i = 0; i < slots; i++) {
        unsigned char *at = bt_slot(page, i) + 4;
        uint16_t was = lladd_get16(at);
        lladd_put16(at, (uint16_t)(was + BT_ENTRY_HEAD + sizeof key));
        ck_assert(!ll_btree__fine(v));
        lladd_put16(at, was);
    }
    ck_assert(ll_btree__fine(v));
    free(page);
}
END_TEST

/* The right link of a leaf names that leaf, and the leaf says that it ends before the key that is
 * looked up. */
START_TEST(links_that_do_not_end_are_found)
{
    unsigned char link[6], high[2] = {0, 0};
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    put(txn, "a", "x");
    commit(txn);
    lladd_pageno leaf = bt_top_page(lladd_atomic_load64(&tree->tree->top));
    lladd_put48(link, leaf.v);
    fixture_forge(&b, leaf, BT_RIGHT, link, sizeof link);
    fixture_forge(&b, leaf, BT_HIGH, high, sizeof high);
    ck_assert_int_eq(lladd_btree_get(tree, "b", 1, NULL, 0, NULL, &b.err), LLADD_CORRUPT_PAGE);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_CORRUPT_PAGE, lladd_btree_put(txn, tree, "b", 1, "x", 1));
    commit(txn);
    fixture_forge(&b, leaf, BT_HIGH, high, sizeof high);
    fixture_forge(&b, leaf, BT_RIGHT, link, sizeof link);
    ok_db(&b, lladd_btree_check(tree, &b.err));
    lladd_btree_close(tree);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees");
    TCase *c = tcase_create("trees");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, wrong_arguments);
    tcase_add_test(c, a_new_tree_is_busy_until_the_commit);
    tcase_add_loop_test(c, a_creation_that_is_rolled_back_leaves_no_tree, 0, 4);
    tcase_add_test(c, a_creation_in_a_closed_action_stays);
    tcase_add_loop_test(c, a_creation_in_doubt, 0, 2);
    tcase_add_test(c, a_tree_in_use_is_not_destroyed);
    tcase_add_test(c, a_refused_destruction_disturbs_no_other_transaction);
    tcase_add_loop_test(c, space_is_kept_for_a_transaction_in_doubt, 0, 2);
    tcase_add_test(c, long_values);
    tcase_add_test(c, the_log_names_keys);
    tcase_add_test(c, many_rows_in_one_call);
    tcase_add_test(c, the_log_names_each_of_many_keys);
    tcase_add_loop_test(c, many_rows_are_rolled_back, 0, 2);
    tcase_add_loop_test(c, old_and_new_records_do_the_same, 0, 4);
    tcase_add_test(c, earlier_records_are_known);
    tcase_add_test(c, damage_is_found);
    tcase_add_test(c, references_to_wrong_pages_are_found);
    tcase_add_test(c, an_old_top_node_is_replaced);
    tcase_add_test(c, a_rollback_may_split);
    tcase_add_test(c, an_entry_within_a_value_is_refused);
    tcase_add_test(c, an_image_of_a_damaged_node_is_refused);
    tcase_add_loop_test(c, each_slot_names_the_first_byte_of_an_entry, 0, 3);
    tcase_add_test(c, links_that_do_not_end_are_found);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
