/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests how much one transaction can change under a limit of the log. The transaction's undo
 * reserve is about as large as what its rollback writes. It is much smaller than the sum of the
 * longest compensations. The memory of a transaction does not grow with the number of its calls.
 */
#include "op_fixture.h"

#include <lladd/blob.h>
#include <lladd/hash.h>
#include <lladd/stats.h>

/* A put may take BYTES of the limit: its record, what is reserved for its undo, and its share of
 * what is reserved for checkpoints. 843 were measured. An earlier version reserved space for the
 * longest compensation of each put; then a put took 3638 bytes, of which more than 1900 were for
 * undo. */
enum { KEYS = 20000, VALUE = 100, BYTES = 950 };

static struct fixture b;
static struct lladd_hash *hash;

static void make(uint64_t limit)
{
    struct lladd_hash_options how = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno root;
    fixture_init(&b, 4096);
    b.options.cache_bytes = 32u << 20;
    b.options.log_ring_bytes = 1u << 20;
    b.options.log_segment_min = 1u << 20;
    b.options.log_segment_max = 4u << 20;
    b.options.log_limit_bytes = limit;
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    how.key_size = 8;
    how.value_size = VALUE;
    ok(txn, lladd_hash_create(txn, &how, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &hash, &b.err));
}

static int put(struct lladd_txn *txn, uint64_t i)
{
    unsigned char value[VALUE];
    uint64_t key = i % KEYS;
    seeded_fill(i, value, sizeof value);
    return lladd_hash_put(txn, hash, &key, sizeof key, value, sizeof value);
}

static uint64_t log_disk_bytes(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_stats_get(b.db, &s));
    return s.log_disk_bytes;
}

/* Asserts that every element has the value of its first put. */
static void expect_first(void)
{
    unsigned char is[VALUE], first[VALUE];
    size_t len;
    for (uint64_t i = 0; i < KEYS; i++) {
        seeded_fill(i, first, sizeof first);
        ok_db(&b, lladd_hash_get(hash, &i, sizeof i, is, sizeof is, &len, &b.err));
        ck_assert_uint_eq(len, sizeof first);
        ck_assert_int_eq(memcmp(is, first, sizeof first), 0);
    }
}

START_TEST(puts_until_the_log_is_full)
{
    uint64_t limit = (getenv("LLADD_NIGHTLY") ? 256ull : 64ull) << 20, puts = 0;
    int rc = 0;
    make(limit);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < KEYS; i++)
        ok(txn, put(txn, i));
    commit(txn);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    txn = fixture_begin(&b);
    while (rc == 0 && puts < limit) {
        rc = put(txn, KEYS + puts);
        puts += rc == 0;
    }
    ck_assert_int_eq(rc, LLADD_LOG_FULL);
    ck_assert_uint_ge(puts, limit / BYTES);
    ck_assert_uint_le(log_disk_bytes(), limit);
    abort_txn(txn);
    ck_assert_uint_le(log_disk_bytes(), limit);
    expect_first();
    lladd_hash_close(hash);
    fixture_free(&b);
}
END_TEST

/* One transaction writes to a blob 4000 times. A call of several steps sets a savepoint, and must
 * release it when it returns. */
START_TEST(memory_does_not_grow_with_the_calls)
{
    enum { CALLS = 4000, LONG = 3000 };
    unsigned char bytes[LONG];
    lladd_pageno blob;
    uint64_t early = 0;
    make(UINT64_MAX);
    struct lladd_txn *txn = fixture_begin(&b);
    memset(bytes, 1, sizeof bytes);
    ok(txn, lladd_blob_create(txn, bytes, sizeof bytes, &blob));
    for (unsigned i = 0; i < CALLS; i++) {
        bytes[0] = (unsigned char)i;
        ok(txn, lladd_blob_write(txn, blob, 0, bytes, sizeof bytes));
        if (i == CALLS / 4)
            early = fault_alloc_bytes(&b.mem);
    }
    ck_assert_uint_le(fault_alloc_bytes(&b.mem), early);
    abort_txn(txn);
    lladd_hash_close(hash);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("long transactions");
    TCase *t = tcase_create("all");
    tcase_add_test(t, puts_until_the_log_is_full);
    tcase_add_test(t, memory_does_not_grow_with_the_calls);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
