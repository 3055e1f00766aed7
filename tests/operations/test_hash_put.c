/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables: the old value that a put returns. */
#include "op_fixture.h"

#include <lladd/hash.h>

static struct fixture b;
static struct lladd_hash *hash;

static void make_as(uint32_t value_size, unsigned flags)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno root;
    o.key_size = 8;
    o.value_size = value_size;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, flags, &hash, &b.err));
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    ok_db(&b, lladd_hash_check(hash, &b.err));
    lladd_hash_close(hash);
    hash = NULL;
    fixture_free(&b);
}

static void take(struct lladd_txn *txn, uint64_t key)
{
    ok(txn, lladd_hash_delete(txn, hash, &key, 8));
}

static bool replaces(struct lladd_txn *txn, uint64_t key, const void *value, size_t len)
{
    bool replaced = false;
    ok(txn, lladd_hash_put_report(txn, hash, &key, 8, value, len, &replaced));
    return replaced;
}

/* With values of one length, of any, and with physical undo; the long ones are blobs. */
START_TEST(put_tells_whether_there_was_a_value)
{
    static unsigned char big[5000];
    const size_t len = _i == 1 ? sizeof big : 8;
    bool replaced = true;
    make_as(_i == 1 ? 0 : 8, _i == 2 ? LLADD_HASH_PHYSICAL : LLADD_HASH_LOGICAL);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t key = 0; key < 500; key++) /* with splits in between */
        ck_assert(!replaces(txn, key, big, _i == 1 && key % 50 ? 8 : len));
    for (uint64_t key = 0; key < 500; key += 7)
        ck_assert(replaces(txn, key, big, len));
    take(txn, 7); /* what it had removed itself is not there */
    ck_assert(!replaces(txn, 7, big, len));
    ck_assert(replaces(txn, 7, big, len));
    uint64_t key = 7;
    ck_assert_int_eq(lladd_hash_put_report(txn, hash, &key, 7, big, len, &replaced),
                     LLADD_KEY_SIZE);
    ck_assert(!replaced);
    take(txn, 9);
    commit(txn);
    txn = fixture_begin(&b);
    ck_assert(!replaces(txn, 9, big, len)); /* nor is one that a committed transaction has
                                             * removed */
    abort_txn(txn);
    txn = fixture_begin(&b);
    ck_assert(!replaces(txn, 9, big, len));
    commit(txn);
    uint64_t n = 0;
    ok_db(&b, lladd_hash_count(hash, &n, &b.err));
    ck_assert_uint_eq(n, 500);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("puts into hash tables");
    TCase *t = tcase_create("put");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, put_tells_whether_there_was_a_value, 0, 3);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
