/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables compared with an array. Transactions make random insertions, replacements and
 * removals, and commit, roll back, roll back to savepoints, or are open at a crash. The tables
 * split, merge and have chains, with both layouts and both kinds of undo.
 */
#include "op_fixture.h"

#include <lladd/hash.h>

#include <stdio.h>

enum { KEYS = 400, LONGEST = 9000 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;
static struct lladd_hash_options options;
static unsigned flags;

struct model {
    uint32_t version[KEYS]; /* 0: the key is absent */
};
static struct model committed, now;
static uint32_t next_version;

static size_t key_bytes(uint32_t k, unsigned char *out)
{
    size_t len = options.key_size ? options.key_size
                 : k % 41 == 0    ? 995 + k % 12 + k * 7
                                  : 4 + k % 7 * (k % 13 == 0 ? 120 : 3);
    memset(out, (int)k, len);
    lladd_put32(out, k);
    return len;
}

static size_t value_bytes(uint32_t k, uint32_t version, unsigned char *out)
{
    size_t len = options.value_size                ? options.value_size
                 : (k * 7 + version * 31) % 5 == 0 ? 0
                 : version % 29 == 0               ? 998 + version % 5 + version % 7 * 1000
                                                   : version * 37 % 300;
    memset(out, (int)(k + version), len);
    if (len >= 4)
        lladd_put32(out, version);
    return len;
}

static void compare_key(uint32_t k)
{
    unsigned char key[LONGEST], value[LONGEST], got[LONGEST];
    size_t klen = key_bytes(k, key), len = 0;
    int rc = lladd_hash_get(hash, key, klen, got, sizeof got, &len, &b.err);
    if (!now.version[k]) {
        ck_assert_msg(rc == LLADD_NOT_FOUND, "key %u: %s", k, lladd_code_name(rc));
        return;
    }
    ck_assert_msg(rc == 0, "key %u: %s: %s", k, lladd_code_name(rc), b.err.message);
    ck_assert_uint_eq(len, value_bytes(k, now.version[k], value));
    ck_assert_mem_eq(got, value, len);
}

static void compare(void)
{
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    uint64_t count = 0, n = 0, walked = 0;
    bool seen[KEYS] = {false};
    int rc;
    for (uint32_t k = 0; k < KEYS; k++) {
        compare_key(k);
        n += now.version[k] != 0;
    }
    ok_db(&b, lladd_hash_check(hash, &b.err));
    ok_db(&b, lladd_hash_count(hash, &count, &b.err));
    ck_assert_uint_eq(count, n);
    while ((rc = lladd_hash_cursor_next(hash, &w, &key, &value, &b.err)) == 0) {
        uint32_t k = lladd_get32(key.data);
        ck_assert_uint_lt(k, KEYS);
        ck_assert(!seen[k] && now.version[k]);
        seen[k] = true;
        walked++;
    }
    ck_assert_int_eq(rc, LLADD_END);
    lladd_hash_cursor_close(hash, &w);
    ck_assert_uint_eq(walked, n);
}

static void open_hash(void)
{
    ok_db(&b, lladd_hash_open(b.db, root, flags, &hash, &b.err));
}

static void step(struct lladd_txn *txn, uint64_t *seed)
{
    unsigned char key[LONGEST], value[LONGEST];
    uint64_t r = seeded_next(seed);
    uint32_t k = (uint32_t)(r >> 8) % KEYS;
    size_t klen = key_bytes(k, key), vlen = value_bytes(k, ++next_version, value);
    int rc;
    switch (r % 8) {
    case 0:
    case 1:
    case 2:
        rc = lladd_hash_insert(txn, hash, key, klen, value, vlen);
        ck_assert_msg(rc == (now.version[k] ? LLADD_EXISTS : 0), "%s: %s", lladd_code_name(rc),
                      lladd_txn_error(txn)->message);
        if (!rc)
            now.version[k] = next_version;
        break;
    case 3:
        ok(txn, lladd_hash_put(txn, hash, key, klen, value, vlen));
        now.version[k] = next_version;
        break;
    case 4: {
        bool inserted;
        unsigned char got[LONGEST], want[LONGEST];
        size_t len = 0;
        ok(txn, lladd_hash_insert_if_absent(txn, hash, key, klen, value, vlen, &inserted, got,
                                            sizeof got, &len));
        ck_assert_int_eq(inserted, !now.version[k]);
        if (inserted) {
            now.version[k] = next_version;
        } else {
            ck_assert_uint_eq(len, value_bytes(k, now.version[k], want));
            ck_assert_mem_eq(got, want, len);
        }
        break;
    }
    default:
        rc = lladd_hash_delete(txn, hash, key, klen);
        ck_assert_msg(rc == (now.version[k] ? 0 : LLADD_NOT_FOUND), "%s: %s", lladd_code_name(rc),
                      lladd_txn_error(txn)->message);
        now.version[k] = 0;
    }
}

/* Makes many changes of one kind, so that the table grows (`up`) or shrinks. */
static void wave(struct lladd_txn *txn, bool up, uint64_t *seed)
{
    unsigned char key[LONGEST], value[LONGEST];
    for (uint32_t k = 0; k < KEYS; k++) {
        if (seeded_next(seed) % 8 == 0)
            continue;
        size_t klen = key_bytes(k, key), vlen = value_bytes(k, ++next_version, value);
        if (up) {
            ok(txn, lladd_hash_put(txn, hash, key, klen, value, vlen));
            now.version[k] = next_version;
        } else if (now.version[k]) {
            ok(txn, lladd_hash_delete(txn, hash, key, klen));
            now.version[k] = 0;
        }
    }
}

static void round_of(uint64_t *seed, int i)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct model saved;
    lladd_savepoint_id sp = 0;
    int steps = 1 + (int)(seeded_next(seed) % 60), save = (int)(seeded_next(seed) % 60);
    if (i % 6 == 0)
        wave(txn, i % 12 == 0, seed);
    for (int s = 0; s < steps; s++) {
        if (s == save) {
            saved = now;
            ok(txn, lladd_savepoint(txn, &sp));
        }
        step(txn, seed);
    }
    if (sp && seeded_next(seed) % 2) {
        ok(txn, lladd_rollback_to(txn, sp));
        now = saved;
    }
    switch (seeded_next(seed) % 5) {
    case 0:
        abort_txn(txn);
        now = committed;
        break;
    case 1:
        ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* makes the loser's changes durable */
        lladd_hash_close(hash);
        fixture_crash(&b);
        open_hash();
        now = committed;
        break;
    default:
        commit(txn);
        committed = now;
    }
}

static void model(uint32_t page_size, uint32_t key_size, uint32_t value_size, unsigned how,
                  uint64_t seed, bool in_one)
{
    struct lladd_hash_stats stats = {.struct_size = sizeof stats};
    fixture_init(&b, page_size);
    if (page_size > 4096)
        b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    uint64_t pages = fixture_pages_used(&b);
    options = (struct lladd_hash_options)LLADD_HASH_OPTIONS_INIT;
    options.key_size = key_size;
    options.value_size = value_size;
    flags = how;
    memset(&committed, 0, sizeof committed);
    memset(&now, 0, sizeof now);
    next_version = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &options, &root));
    open_hash();
    if (in_one) { /* the transaction that creates the table also changes it */
        struct model saved;
        lladd_savepoint_id sp;
        wave(txn, true, &seed);
        saved = now;
        ok(txn, lladd_savepoint(txn, &sp));
        wave(txn, false, &seed);
        compare();
        ok(txn, lladd_rollback_to(txn, sp));
        now = saved;
        compare();
        ok(txn, lladd_savepoint(txn, &sp));
        for (int i = 0; i < 300; i++)
            step(txn, &seed);
        compare();
        ok(txn, lladd_rollback_to(txn, sp));
        now = saved;
        compare();
    }
    commit(txn);
    committed = now;
    for (int i = 0; i < 48; i++) {
        round_of(&seed, i);
        if (i % 4 == 0)
            compare();
    }
    compare();
    ok_db(&b, lladd_hash_stats_get(hash, &stats, &b.err));
    lladd_hash_close(hash);
    fixture_close(&b);
    fixture_open(&b);
    open_hash();
    compare();
    lladd_hash_close(hash);
    txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    abort_txn(txn);
    open_hash();
    compare();
    lladd_hash_close(hash);
    txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    commit(txn);
    /* The next allocation drops the cached copies of the freed pages. */
    txn = fixture_begin(&b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    abort_txn(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    fixture_free(&b);
}

START_TEST(fixed_small)
{
    model(4096, 4, 4, LLADD_HASH_LOGICAL, (uint64_t)_i + 1, _i % 2);
}
END_TEST

START_TEST(fixed_large_entries)
{
    model(4096, 300, 900, LLADD_HASH_LOGICAL, (uint64_t)_i + 1, _i % 2);
}
END_TEST

START_TEST(any_length)
{
    model(4096, 0, 0, LLADD_HASH_LOGICAL, (uint64_t)_i + 1, _i % 2);
}
END_TEST

START_TEST(fixed_physical)
{
    model(4096, 100, 600, LLADD_HASH_PHYSICAL, (uint64_t)_i + 1, _i % 2);
}
END_TEST

START_TEST(any_length_physical)
{
    model(4096, 0, 0, LLADD_HASH_PHYSICAL, (uint64_t)_i + 1, _i % 2);
}
END_TEST

START_TEST(large_pages)
{
    if (_i % 2)
        model(65536, 200, 800, LLADD_HASH_LOGICAL, (uint64_t)_i + 1, true);
    else
        model(8192, 0, 0, LLADD_HASH_LOGICAL, (uint64_t)_i + 1, true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables against a model");
    TCase *t = tcase_create("model");
    tcase_add_loop_test(t, fixed_small, 0, 4);
    tcase_add_loop_test(t, fixed_large_entries, 0, 6);
    tcase_add_loop_test(t, any_length, 0, 6);
    tcase_add_loop_test(t, fixed_physical, 0, 4);
    tcase_add_loop_test(t, any_length_physical, 0, 4);
    tcase_add_loop_test(t, large_pages, 0, 2);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
