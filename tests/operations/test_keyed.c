/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables and B+trees: a transaction makes only calls that change nothing. When it has ended,
 * other transactions can destroy the structure. */
#include "keyed.h"
#include "op_fixture.h"

static struct fixture b;
static lladd_pageno root;
static struct keyed keyed;

/* Begins a transaction that does not wait for a sync when it commits. */
static struct lladd_txn *begin_relaxed(int durability)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    o.durability = (unsigned)durability;
    ok_db(&b, lladd_begin(b.db, &o, &txn, &b.err));
    return txn;
}

static void make(enum keyed_kind kind)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, keyed_create(txn, kind, 1, 0, &root));
    commit(txn);
    ok_db(&b, keyed_open(b.db, kind, root, &keyed, &b.err));
}

/* The calls that find that they have nothing to change. */
static void change_nothing(struct lladd_txn *txn)
{
    refuses(txn, LLADD_NOT_FOUND, keyed_delete(txn, &keyed, "b", 1));
    refuses(txn, LLADD_EXISTS, keyed_insert(txn, &keyed, "a", 1, "2", 1));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "exists"));
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0); /* the calls have logged nothing */
}

/* A transaction has changed nothing and has committed, and no sync has followed. Another
 * transaction can destroy the structure. _i: the kind, and the durability. */
START_TEST(a_commit_of_nothing_leaves_the_structure_free)
{
    static const int durabilities[] = {LLADD_DURABLE_OS, LLADD_DURABLE_LATER};
    const int durability = durabilities[_i / KEYED_KINDS];
    fixture_init(&b, 4096);
    fixture_open(&b);
    make((enum keyed_kind)(_i % KEYED_KINDS));
    struct lladd_txn *txn = begin_relaxed(durability);
    ok(txn, keyed_put(txn, &keyed, "a", 1, "1", 1));
    commit(txn); /* this commit is not durable, so neither is the next one */
    txn = begin_relaxed(durability);
    change_nothing(txn);
    commit(txn);
    keyed_close(&keyed);
    txn = fixture_begin(&b);
    ok(txn, keyed_destroy(txn, keyed.kind, root));
    commit(txn);
    fixture_free(&b);
}
END_TEST

/* While a transaction that has made calls of this kind is open, the structure cannot be destroyed.
 * After the rollback of that transaction it can. */
START_TEST(a_rollback_of_nothing_leaves_the_structure_free)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    make((enum keyed_kind)_i);
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    ok(txn, keyed_put(txn, &keyed, "a", 1, "1", 1));
    commit(txn);
    change_nothing(other);
    keyed_close(&keyed);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, keyed_destroy(txn, keyed.kind, root));
    abort_txn(other);
    ok(txn, keyed_destroy(txn, keyed.kind, root));
    commit(txn);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables and B+trees");
    TCase *t = tcase_create("keyed");
    tcase_add_loop_test(t, a_commit_of_nothing_leaves_the_structure_free, 0, 2 * KEYED_KINDS);
    tcase_add_loop_test(t, a_rollback_of_nothing_leaves_the_structure_free, 0, KEYED_KINDS);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
