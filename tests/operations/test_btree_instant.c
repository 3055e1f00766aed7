/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees and instant recovery. A crash interrupts a transaction that has inserted, replaced and
 * removed rows, in single calls and in calls with many rows. Recovery asks a participant to lock
 * the logged keys, so lladd_open returns before the rollback. Until the rollback the keys are
 * locked, and other transactions split leaves with rows of the loser. If the participant cannot
 * lock a change, the loser is rolled back before lladd_open returns.
 */
#include "op_fixture.h"

#include <lladd/btree.h>
#include <lladd/lock.h>
#include <lladd/op.h>

enum { ROWS = 400, KEY = 8, VALUE = 180, BATCH = 16, OLD = 1, LOST = 2, NEW = 3 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;

/* What a test's participant locks. */
enum protection { EACH_KEY, ONE_KEY, THE_TREE };
static enum protection protection;
static unsigned named; /* the keys that recovery has asked about */

/* ---- locks ----------------------------------------------------------------------------------- */

#define TREE(of) LLADD_LOCK_NAME(lladd_lock_id((of).v))
#define KEY_OF(of, key) \
    LLADD_LOCK_NAME(lladd_lock_id((of).v), lladd_lock_bytes((key).data, (key).len))

static int take(struct lladd_txn *txn, struct lladd_lock_name name)
{
    return lladd_lock_acquire(txn, name, LLADD_LOCK_X, LLADD_LOCK_TRY);
}

/* Locks what the protection says. ONE_KEY does not know records with several keys. */
static int protect(void *ctx, struct lladd_txn *txn, const struct lladd_log_entry *e)
{
    lladd_pageno of;
    struct lladd_span key;
    size_t n = 0;
    (void)ctx;
    if (protection == ONE_KEY)
        return lladd_btree_logged_key(e, &of, &key) ? take(txn, KEY_OF(of, key)) : LLADD_NOT_FOUND;
    for (; lladd_btree_logged_key_at(e, n, &of, &key); n++) {
        int rc = take(txn, protection == THE_TREE ? TREE(of) : KEY_OF(of, key));
        if (rc)
            return rc;
    }
    named += (unsigned)n;
    return n ? 0 : LLADD_NOT_FOUND;
}

static const struct lladd_participant protector = {
    .struct_size = sizeof protector,
    .name = "test.protector",
    .version = 1,
    .protect = protect,
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* The old rows have even numbers. A number below 2 * ROWS is a key. */
static const unsigned char *key_of(unsigned number)
{
    static unsigned char keys[2 * BATCH][KEY];
    unsigned char *key = keys[number % (2 * BATCH)];
    for (unsigned i = 0; i < 4; i++)
        key[KEY - 1 - i] = (unsigned char)(number >> 8 * i);
    return key;
}

/* The new values are longer than the others. */
static size_t length_of(unsigned char first)
{
    return first == NEW ? VALUE : VALUE / 3;
}

static const unsigned char *value_of(unsigned char first)
{
    static unsigned char values[NEW + 1][VALUE];
    memset(values[first], first, VALUE);
    return values[first];
}

static void put(struct lladd_txn *txn, unsigned number, unsigned char value)
{
    ok(txn,
       lladd_btree_put(txn, tree, key_of(number), KEY, value_of(value), length_of(value)));
}

static uint64_t splits(void)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    return s.splits;
}

/* Asserts that the key has a row with this value; 0: no row. */
static void expect(unsigned number, unsigned char value)
{
    unsigned char got[VALUE];
    size_t len = 0;
    int rc = lladd_btree_get(tree, key_of(number), KEY, got, VALUE, &len, &b.err);
    ck_assert_msg(rc == (value ? 0 : LLADD_NOT_FOUND), "key %u: %s", number, lladd_code_name(rc));
    if (!value)
        return;
    ck_assert_uint_eq(len, length_of(value));
    ck_assert_mem_eq(got, value_of(value), len);
}

/* The loser: of each 40 numbers it replaces one row, removes one, and inserts one; and it inserts
 * 16 rows by one call, between the old rows from 200 on. `change` is what it does with a number. */
enum change { NONE, REPLACE, REMOVE, INSERT, INSERT_MANY };

static enum change change_of(unsigned number)
{
    if (number > 200 && number < 200 + 2 * BATCH && number % 2)
        return INSERT_MANY;
    switch (number % 40) {
    case 4:
        return REPLACE;
    case 8:
        return REMOVE;
    case 11:
        return INSERT;
    default:
        return NONE;
    }
}

static unsigned write_loser(void)
{
    struct lladd_btree_row rows[BATCH];
    unsigned changes = BATCH;
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < BATCH; i++)
        rows[i] = (struct lladd_btree_row){key_of(201 + 2 * i), KEY, value_of(LOST),
                                           length_of(LOST)};
    ok(txn, lladd_btree_insert_many(txn, tree, rows, BATCH, NULL));
    for (unsigned number = 0; number < 2 * ROWS; number++) {
        enum change what = change_of(number);
        if (what == REPLACE || what == INSERT)
            put(txn, number, LOST);
        if (what == REMOVE)
            ok(txn, lladd_btree_delete(txn, tree, key_of(number), KEY));
        changes += what != NONE && what != INSERT_MANY;
    }
    return changes;
}

/* Makes the tree with its old rows and the loser, and crashes. Returns how many keys the loser has
 * changed. */
static unsigned crash_with_loser(enum protection how)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    protection = how;
    named = 0;
    fixture_init(&b, 4096);
    b.options.recovery = LLADD_RECOVER_INSTANT;
    b.options.checkpoint_bytes = 1u << 30;
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    ok_db(&b, lladd_register_participant(&b.options, &protector, &b.err));
    fixture_open(&b);
    o.key_size = KEY;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    txn = fixture_begin(&b);
    for (unsigned number = 0; number < 2 * ROWS; number += 2)
        put(txn, number, OLD);
    commit(txn);
    uint64_t before = splits();
    unsigned changes = write_loser();
    ck_assert_uint_gt(splits(), before); /* the splits do not belong to what is undone */
    txn = fixture_begin(&b);
    put(txn, 2 * ROWS, NEW); /* its commit makes the loser's records durable */
    commit(txn);
    lladd_btree_close(tree);
    fixture_crash(&b);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    return changes;
}

static void roll_back(void)
{
    bool more = true;
    while (more)
        ok_db(&b, lladd_maintain(b.db, &more, &b.err));
    ck_assert_uint_eq(lladd_losers_left(b.db), 0);
}

/* Asserts that the rows are the old ones, and those that have been put after the crash. */
static void expect_rolled_back(bool filled)
{
    ok_db(&b, lladd_btree_check(tree, &b.err));
    for (unsigned number = 0; number < 2 * ROWS; number++) {
        bool new = filled && number % 2 && change_of(number) == NONE;
        expect(number, new ? NEW : number % 2 ? 0 : OLD);
    }
    expect(2 * ROWS, NEW);
}

static void end(void)
{
    lladd_btree_close(tree);
    fixture_free(&b);
}

/* Could another transaction lock this now? */
static bool is_free(struct lladd_lock_name name)
{
    struct lladd_txn *txn = fixture_begin(&b);
    int rc = take(txn, name);
    ck_assert(rc == 0 || rc == LLADD_BUSY);
    abort_txn(txn);
    return rc == 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(each_key_of_the_loser_is_locked)
{
    unsigned changes = crash_with_loser(EACH_KEY);
    ck_assert_uint_eq(lladd_losers_left(b.db), 1);
    ck_assert_uint_eq(named, changes);
    for (unsigned number = 0; number < 2 * ROWS; number++) {
        enum change what = change_of(number);
        ck_assert_int_eq(is_free(KEY_OF(root, lladd_span_of(key_of(number), KEY))), what == NONE);
        expect(number, what == NONE ? (number % 2 ? 0 : OLD) : what == REMOVE ? 0 : LOST);
    }
    roll_back();
    for (unsigned number = 0; number < 2 * ROWS; number++)
        ck_assert(is_free(KEY_OF(root, lladd_span_of(key_of(number), KEY))));
    expect_rolled_back(false);
    end();
}
END_TEST

/* _i 1: a second crash comes in the middle of the rollback. */
START_TEST(leaves_of_the_loser_are_split)
{
    bool more;
    (void)crash_with_loser(EACH_KEY);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned number = 1; number < 2 * ROWS; number += 2)
        if (change_of(number) == NONE)
            put(txn, number, NEW);
    commit(txn);
    ck_assert_uint_gt(splits(), 5);
    ck_assert_uint_eq(lladd_losers_left(b.db), 1);
    if (_i) {
        ok_db(&b, lladd_maintain(b.db, &more, &b.err));
        lladd_btree_close(tree);
        fixture_crash(&b);
        ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
    }
    roll_back();
    expect_rolled_back(true);
    end();
}
END_TEST

/* The lock name of the tree is enough, too. With ranges it is necessary (docs/locks.md). */
START_TEST(the_tree_is_locked)
{
    (void)crash_with_loser(THE_TREE);
    ck_assert_uint_eq(lladd_losers_left(b.db), 1);
    ck_assert(!is_free(TREE(root)));
    ck_assert(!is_free(KEY_OF(root, lladd_span_of(key_of(0), KEY))));
    roll_back();
    ck_assert(is_free(TREE(root)));
    expect_rolled_back(false);
    end();
}
END_TEST

/* The participant does not lock the record that has many keys. */
START_TEST(a_loser_with_an_unlocked_key_is_rolled_back_first)
{
    (void)crash_with_loser(ONE_KEY);
    ck_assert_uint_eq(lladd_losers_left(b.db), 0);
    expect_rolled_back(false);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees and instant recovery");
    TCase *t = tcase_create("instant");
    tcase_add_test(t, each_key_of_the_loser_is_locked);
    tcase_add_loop_test(t, leaves_of_the_loser_are_split, 0, 2);
    tcase_add_test(t, the_tree_is_locked);
    tcase_add_test(t, a_loser_with_an_unlocked_key_is_rolled_back_first);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
