/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables: a put reports whether it has replaced a value. Also tests log records of earlier
 * versions, which used other operations for puts. */
#include "op_fixture.h"
#include "operations/hash/table.h"

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

/* _i 0: values of one length; 1: values of any length, some of them in blobs; 2: values of one
 * length and physical undo. */
START_TEST(put_reports_whether_it_replaced_a_value)
{
    static unsigned char big[5000];
    const size_t len = _i == 1 ? sizeof big : 8;
    bool replaced = true;
    make_as(_i == 1 ? 0 : 8, _i == 2 ? LLADD_HASH_PHYSICAL : LLADD_HASH_LOGICAL);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t key = 0; key < 500; key++) /* buckets split in between */
        ck_assert(!replaces(txn, key, big, _i == 1 && key % 50 ? 8 : len));
    for (uint64_t key = 0; key < 500; key += 7)
        ck_assert(replaces(txn, key, big, len));
    take(txn, 7); /* a key that the transaction has removed itself counts as absent */
    ck_assert(!replaces(txn, 7, big, len));
    ck_assert(replaces(txn, 7, big, len));
    uint64_t key = 7;
    ck_assert_int_eq(lladd_hash_put_report(txn, hash, &key, 7, big, len, &replaced),
                     LLADD_KEY_SIZE);
    ck_assert(!replaced);
    take(txn, 9);
    commit(txn);
    txn = fixture_begin(&b);
    ck_assert(!replaces(txn, 9, big, len)); /* a key that a committed transaction has removed
                                             * counts as absent, too */
    abort_txn(txn);
    txn = fixture_begin(&b);
    ck_assert(!replaces(txn, 9, big, len));
    commit(txn);
    uint64_t n = 0;
    ok_db(&b, lladd_hash_count(hash, &n, &b.err));
    ck_assert_uint_eq(n, 500);
}
END_TEST

/* ---- records of earlier versions ------------------------------------------------------------- */

/* Logs and makes a change as earlier versions did. The record puts the new value. Its undo bytes
 * have the key, and the old value if there was one. (The test logs the undo bytes in an undo-only
 * record, and the redo bytes in a redo-only record. Together these have the same effect.) */
static void old_put(struct lladd_txn *txn, const char *name, uint64_t key, uint64_t value,
                    const uint64_t *old)
{
    struct ll_hash_table *t = hash->table;
    struct lladd_page *page;
    struct hb_place place;
    lladd_op_id op;
    unsigned char redo[20], undo[27], bytes[8];
    uint64_t code = ll_siphash(&t->seed, &key, 8);
    struct hb_key k = {.bytes = bytes, .len = 8, .tag = hb_tag(code)};
    lladd_put64(bytes, key);
    ok_db(&b, ll_hash__fix_bucket(t, code, LLADD_LATCH_SHARED, &page, &b.err));
    lladd_pageno number = page->number;
    ll_hash__find(lladd_page_view(page), &k, &place);
    lladd_page_unfix(b.db, page, LLADD_LATCH_SHARED);
    ck_assert_int_eq(old != NULL, place.slot != HB_NONE);
    lladd_put16(redo, (uint16_t)(old ? place.slot : place.free));
    lladd_put16(redo + 2, k.tag);
    lladd_put64(redo + 4, key);
    lladd_put64(redo + 12, value);
    lladd_put64(undo, t->root.v);
    undo[8] = 0;
    lladd_put16(undo + 9, 8);
    lladd_put64(undo + (old ? 11 : 9), key);
    if (old)
        lladd_put64(undo + 19, *old);
    ok_db(&b, lladd_op_lookup(b.db, name, 1, &op));
    ok(txn, lladd_log_undo_only(txn, op, undo, old ? 27 : 17));
    ok(txn, lladd_log_redo_only(txn, op, number, redo, sizeof redo));
}

/* Returns the value of a key, or 0 if the key is absent. */
static uint64_t value_of(uint64_t key)
{
    uint64_t value = 0;
    size_t len;
    int rc = lladd_hash_get(hash, &key, 8, &value, 8, &len, &b.err);
    ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
    return rc ? 0 : value;
}

enum { COMMITS, ABORTS, IS_LOSER, IS_IN_DOUBT, ENDS };

START_TEST(records_of_earlier_versions)
{
    const struct lladd_gid gid = fixture_gid("old");
    const uint64_t was = 100;
    make_as(8, LLADD_HASH_LOGICAL);
    lladd_pageno root = hash->table->root;
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t key = 1; key <= 2; key++)
        ok(txn, lladd_hash_put(txn, hash, &key, 8, &was, 8));
    commit(txn);
    txn = fixture_begin(&b);
    old_put(txn, "lladd.hash.replace", 1, 111, &was);
    old_put(txn, "lladd.hash.replace.short", 2, 222, &was);
    old_put(txn, "lladd.hash.insert", 3, 333, NULL);
    if (_i == ABORTS)
        abort_txn(txn);
    else if (_i == COMMITS)
        commit(txn);
    else if (_i == IS_IN_DOUBT)
        ok(txn, lladd_prepare(txn, &gid));
    struct lladd_txn *later = fixture_begin(&b); /* its commit makes all earlier records durable */
    uint64_t key = 4;
    ok(later, lladd_hash_put(later, hash, &key, 8, &was, 8));
    commit(later);
    lladd_hash_close(hash);
    fixture_crash(&b);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
    if (_i == IS_IN_DOUBT) {
        ck_assert_uint_eq(value_of(3), 333);
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
        abort_txn(txn);
    }
    ck_assert_uint_eq(value_of(1), _i == COMMITS ? 111 : was);
    ck_assert_uint_eq(value_of(2), _i == COMMITS ? 222 : was);
    ck_assert_uint_eq(value_of(3), _i == COMMITS ? 333 : 0);
    ck_assert_uint_eq(value_of(4), was);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("puts into hash tables");
    TCase *t = tcase_create("put");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, put_reports_whether_it_replaced_a_value, 0, 3);
    tcase_add_loop_test(t, records_of_earlier_versions, 0, ENDS);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
