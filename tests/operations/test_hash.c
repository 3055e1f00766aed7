/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables, edge cases: wrong arguments, creating and destroying tables, equal hashes, a
 * rollback after another transaction's splits and merges, a rollback on a full device, walks during
 * changes, and a failure of each memory allocation.
 */
#include "op_fixture.h"
#include "operations/hash/table.h"

#include <errno.h>
#include <lladd/stats.h>
#include <stdio.h>

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;

static void make_as(uint32_t key_size, uint32_t value_size, unsigned flags)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = key_size;
    o.value_size = value_size;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, flags, &hash, &b.err));
}

static void make(uint32_t key_size, uint32_t value_size)
{
    make_as(key_size, value_size, LLADD_HASH_LOGICAL);
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    if (hash)
        ok_db(&b, lladd_hash_check(hash, &b.err));
    lladd_hash_close(hash);
    hash = NULL;
    fixture_free(&b);
}

static int insert(struct lladd_txn *txn, uint64_t key, uint64_t value)
{
    return lladd_hash_insert(txn, hash, &key, 8, &value, 8);
}
static int take(struct lladd_txn *txn, uint64_t key)
{
    return lladd_hash_delete(txn, hash, &key, 8);
}
static bool has(uint64_t key, uint64_t value)
{
    uint64_t got = 0;
    int rc = lladd_hash_get(hash, &key, 8, &got, 8, NULL, &b.err);
    ck_assert_msg(rc == 0 || rc == LLADD_NOT_FOUND, "%s: %s", lladd_code_name(rc), b.err.message);
    return rc == 0 && got == value;
}
static uint64_t count(void)
{
    uint64_t n = 0;
    ok_db(&b, lladd_hash_count(hash, &n, &b.err));
    return n;
}
static struct lladd_hash_stats stats(void)
{
    struct lladd_hash_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_hash_stats_get(hash, &s, &b.err));
    return s;
}

/* ---- functions below the tables -------------------------------------------------------------- */

static void fixed_page(unsigned char *page, uint32_t size)
{
    memset(page, 0, size);
    hb_set(page, HB_KEY, 8);
    hb_set(page, HB_VALUE, 4);
    ll_hash__fixed_clear(page, size);
}

/* Makes an entry with key i and a random tag; a third of the tags have one of the last slots. */
static void packed_entry(unsigned char *p, uint64_t i, uint64_t *seed)
{
    uint64_t r = seeded_next(seed);
    uint16_t tag = (uint16_t)(r % 3 ? r >> 8 & 0x7fff : 0x7fff - (r >> 8 & 0x3ff));
    lladd_put16(p, (uint16_t)((tag ? tag : 1) | (r >> 40 & 7 ? 0 : HB_GHOST)));
    lladd_put64(p + 2, i);
    lladd_put32(p + 10, (uint32_t)r);
}

/* Fills pages of 7 and of 36 slots, most of them nearly full, and drops some entries. A search must
 * find exactly the entries that are left, also those that have wrapped around. */
START_TEST(entries_that_a_drop_leaves_are_found)
{
    enum { SIZE = 14, MOST = 36 };
    const uint32_t size = HB_ENTRIES + SIZE * (_i ? 36u : 7u) + 5;
    uint64_t seed = 1 + (uint64_t)_i;
    for (unsigned round = 0; round < 20000; round++) {
        unsigned char page[HB_ENTRIES + SIZE * MOST + 5], was[sizeof page];
        unsigned char packed[SIZE * MOST], drop[8] = {0};
        fixed_page(page, size);
        uint32_t slots = hb_get(page, HB_SLOTS);
        uint32_t n = round % 4 ? slots - (uint32_t)(seeded_next(&seed) % 3)
                               : (uint32_t)(seeded_next(&seed) % (slots + 1));
        for (uint32_t i = 0; i < n; i++)
            packed_entry(packed + i * SIZE, i, &seed);
        ll_hash__fixed_fill(page, packed, n * SIZE);
        struct lladd_view v = {page, size, 0, {1}};
        ck_assert(ll_hash__fixed_fine(v));
        ck_assert_uint_eq(hb_get(page, HB_LIVE) + hb_get(page, HB_GHOSTS), n);
        for (unsigned i = 0; i < sizeof drop; i++)
            drop[i] = (unsigned char)seeded_next(&seed);
        memcpy(was, page, size);
        ll_hash__fixed_drop(page, drop);
        ck_assert(ll_hash__fixed_fine(v));
        uint32_t kept = 0;
        for (uint32_t i = 0; i < slots; i++) {
            struct hb_entry e;
            struct hb_place place;
            if (!ll_hash__fixed_entry(was, i, &e))
                continue;
            struct hb_key key = {.bytes = e.key, .len = 8, .tag = e.tag & (HB_GHOST - 1)};
            bool stays = !(drop[i / 8] >> i % 8 & 1);
            ll_hash__fixed_find(page, &key, &place);
            ck_assert_msg((place.slot != HB_NONE) == stays, "round %u, slot %u", round, i);
            kept += stays;
        }
        ck_assert_uint_eq(hb_get(page, HB_LIVE) + hb_get(page, HB_GHOSTS), kept);
    }
}
END_TEST

/* Test vectors of the authors of SipHash: key 00 01 02 ... 0f, input 00 01 02 ... */
START_TEST(siphash_is_siphash)
{
    unsigned char bytes[64];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    struct ll_siphash_key key = ll_siphash_key_of(bytes);
    ck_assert_uint_eq(ll_siphash_rounds(&key, bytes, 15, 2, 4), UINT64_C(0xa129ca6149be45e5));
    ck_assert_uint_eq(ll_siphash_rounds(&key, bytes, 0, 2, 4), UINT64_C(0x726fdb47dd0e0e31));
    ck_assert_uint_eq(ll_siphash_rounds(&key, bytes, 8, 2, 4), UINT64_C(0x93f5f5799a932462));
    /* ll_siphash is SipHash-1-3, for every length. */
    for (size_t len = 0; len < sizeof bytes; len++)
        ck_assert_uint_eq(ll_siphash(&key, bytes, len), ll_siphash_rounds(&key, bytes, len, 1, 3));
}
END_TEST

/* ll_siphash_bits returns one bit of the hash of each of up to 64 keys. These must be the bits of
 * the hashes that are computed one by one. The test tries each length of keys, each bit, and
 * numbers of keys that do not fill the last vector. */
START_TEST(hashes_of_many_keys_are_those_of_each_key)
{
    unsigned char bytes[16];
    uint64_t seed = 7, words[64];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)seeded_next(&seed);
    struct ll_siphash_key key = ll_siphash_key_of(bytes);
    for (size_t len = 1; len <= 8; len++) {
        for (unsigned i = 0; i < 64; i++)
            words[i] = seeded_next(&seed) >> (64 - 8 * len);
        for (unsigned bit = 0; bit < 64; bit++) {
            size_t n = 64 - bit;
            uint64_t bits = ll_siphash_bits(&key, words, n, len, bit);
            for (unsigned i = 0; i < 64; i++) {
                lladd_put64(bytes, words[i]);
                uint64_t wanted = i < n ? ll_siphash(&key, bytes, len) >> bit & 1 : 0;
                ck_assert_uint_eq(bits >> i & 1, wanted);
            }
        }
    }
}
END_TEST

START_TEST(cached_operation_ids_are_right)
{
    struct ll_hashes *h = ll_hashes_of(b.db);
    lladd_op_id id;
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.hash.format", 1, &id), 0);
    ck_assert_uint_eq(id, h->format);
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.hash.narrow", 1, &id), 0);
    ck_assert_uint_eq(id, h->narrow);
    ck_assert_int_eq(lladd_op_lookup(b.db, "lladd.hash.bytes", 1, &id), 0);
    ck_assert_uint_eq(id, h->bytes);
}
END_TEST

START_TEST(random_bytes_differ)
{
    unsigned char one[16] = {0}, two[16] = {0};
    ck_assert_int_eq(lladd_random_bytes(b.db, one, 16), 0);
    ck_assert_int_eq(lladd_random_bytes(b.db, two, 16), 0);
    ck_assert_mem_ne(one, two, 16);
}
END_TEST

/* ---- hostile pages --------------------------------------------------------------------------- */

static lladd_pageno head_page(uint64_t bucket)
{
    return ll_operations__extents_page(&hash->table->run, bucket);
}

/* A page claims more slots than it has room for. A call that visits all slots returns an error. */
START_TEST(a_page_with_too_many_slots_is_noticed)
{
    struct lladd_hash_stats s = {.struct_size = sizeof s};
    unsigned char slots[2] = {0xff, 0xff};
    uint64_t n = 0;
    make(_i ? 8 : 0, 8);
    fixture_forge(&b, head_page(0), HB_SLOTS, slots, 2);
    ck_assert_int_eq(lladd_hash_stats_get(hash, &s, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_int_eq(lladd_hash_pages(hash, fixture_count_page, &n, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_int_eq(lladd_hash_check(hash, &b.err), LLADD_CORRUPT_PAGE);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_CORRUPT_PAGE, lladd_hash_destroy(txn, root));
    abort_txn(txn);
    fixture_forge(&b, head_page(0), HB_SLOTS, slots, 2);
}
END_TEST

/* A bucket has an entry with a wrong length. A split is refused and leaves the bucket unchanged. */
START_TEST(a_damaged_bucket_is_not_split)
{
    unsigned char length[2] = {0, 4};
    make(0, 0);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t k = 0; k < 40; k++)
        ok(txn, insert(txn, k, k));
    commit(txn);
    ck_assert_uint_eq(stats().buckets, 1);
    fixture_forge(&b, head_page(0), HB_ENTRIES + 2, length, 2);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_CORRUPT_PAGE, ll_hash__split(txn, hash->table, _i));
    abort_txn(txn);
    fixture_forge(&b, head_page(0), HB_ENTRIES + 2, length, 2);
    ck_assert_uint_eq(stats().buckets, 1);
    ck_assert_uint_eq(count(), 40);
}
END_TEST


START_TEST(wrong_arguments_change_nothing)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *h = NULL;
    lladd_pageno page;
    uint64_t k = 1;
    struct lladd_txn *txn = fixture_begin(&b);
    o.key_size = 1001;
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_create(txn, &o, &page));
    o.key_size = 8;
    o.value_size = 2000;
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_create(txn, &o, &page));
    commit(txn);
    make(8, 8);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_insert(txn, hash, &k, 7, &k, 8));
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_insert(txn, hash, &k, 8, &k, 7));
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_put(txn, hash, &k, 0, &k, 8));
    refuses(txn, LLADD_KEY_SIZE, lladd_hash_delete(txn, hash, &k, 4));
    refuses(txn, LLADD_NOT_FOUND, lladd_hash_delete(txn, hash, &k, 8));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_hash_insert(txn, NULL, &k, 8, &k, 8));
    ck_assert_int_eq(lladd_hash_get(hash, &k, 4, &k, 8, NULL, &b.err), LLADD_KEY_SIZE);
    ck_assert_int_eq(lladd_hash_get(hash, &k, 8, &k, 8, NULL, &b.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_hash_open(b.db, root, 2, &h, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_hash_open(b.db, root, LLADD_HASH_PHYSICAL, &h, &b.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_hash_open(b.db, lladd_page_of(0), 0, &h, &b.err), LLADD_WRONG_TYPE);
    ck_assert_ptr_null(h);
    ok(txn, insert(txn, 1, 2));
    refuses(txn, LLADD_EXISTS, insert(txn, 1, 3));
    ck_assert(has(1, 2));
    commit(txn);
    ck_assert_uint_eq(count(), 1);
}
END_TEST

START_TEST(a_transaction_of_another_database_is_refused)
{
    struct fixture other;
    make(8, 8);
    fixture_init(&other, 4096);
    fixture_open(&other);
    struct lladd_txn *txn = fixture_begin(&other);
    refuses(txn, LLADD_OTHER_DATABASE, insert(txn, 1, 1));
    refuses(txn, LLADD_OTHER_DATABASE, take(txn, 1));
    abort_txn(txn);
    fixture_free(&other);
    ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(keys_and_values_of_every_length)
{
    unsigned char bytes[1001], got[1001];
    size_t len = 0;
    make(0, 0);
    seeded_fill(7, bytes, sizeof bytes);
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t n = 0; n <= 1000; n += n < 20 || n > 980 ? 1 : 37) {
        ok(txn, lladd_hash_insert(txn, hash, bytes, n, bytes, 1000 - n));
        refuses(txn, LLADD_EXISTS, lladd_hash_insert(txn, hash, bytes, n, bytes, 1));
    }
    for (size_t n = 0; n <= 1000; n += n < 20 || n > 980 ? 1 : 37) {
        ok_db(&b, lladd_hash_get(hash, bytes, n, got, sizeof got, &len, &b.err));
        ck_assert_uint_eq(len, 1000 - n);
        ck_assert_mem_eq(got, bytes, len);
        memset(got, 0xee, 4); /* a get into 2 bytes must not write after them */
        ok_db(&b, lladd_hash_get(hash, bytes, n, got, len > 2 ? 2 : 0, &len, &b.err));
        ck_assert_uint_eq(got[2], 0xee);
    }
    commit(txn);
}
END_TEST

struct copied {
    unsigned char bytes[20000];
    size_t len;
};

static int copy(void *ctx, struct lladd_span value)
{
    struct copied *c = ctx;
    memcpy(c->bytes, value.data, value.len);
    c->len = value.len;
    return 0;
}

/* Keys and values with lengths around 1000 bytes, which is the longest that a page stores, and
 * longer ones. Long ones are stored in blobs; the test checks the number of blobs. */
START_TEST(long_keys_and_values_are_blobs)
{
    static const size_t lengths[] = {999, 1000, 1001, 4096, 20000};
    static unsigned char bytes[20000], got[20000];
    static struct copied seen;
    lladd_savepoint_id sp;
    bool inserted;
    size_t len;
    make(0, 0);
    seeded_fill(9, bytes, sizeof bytes);
    for (size_t i = 0; i < 5; i++) {
        size_t n = lengths[i];
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_hash_insert(txn, hash, bytes, n, bytes, n));
        refuses(txn, LLADD_EXISTS, lladd_hash_insert(txn, hash, bytes, n, bytes, n));
        ok(txn, lladd_hash_insert_if_absent(txn, hash, bytes, n, bytes, 7, &inserted, got,
                                            sizeof got, &len));
        ck_assert(!inserted && len == n && memcmp(got, bytes, n) == 0);
        ok(txn, lladd_savepoint(txn, &sp));
        ok(txn, lladd_hash_put(txn, hash, bytes, n, bytes, 5));
        ok(txn, lladd_hash_delete(txn, hash, bytes, n));
        ok(txn, lladd_hash_put(txn, hash, bytes, n, bytes, 3000));
        ok(txn, lladd_rollback_to(txn, sp));
        ok_db(&b, lladd_hash_get_in_place(hash, bytes, n, copy, &seen, &b.err));
        ck_assert(seen.len == n && memcmp(seen.bytes, bytes, n) == 0);
        commit(txn);
    }
    ck_assert_uint_eq(stats().blobs, 6);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t i = 0; i < 5; i++)
        ok(txn, lladd_hash_delete(txn, hash, bytes, lengths[i]));
    ck_assert_uint_eq(stats().blobs, 0);
    abort_txn(txn);
    ck_assert_uint_eq(stats().blobs, 6);
}
END_TEST

/* ---- creating and destroying ----------------------------------------------------------------- */

START_TEST(calls_on_a_destroyed_table_are_refused)
{
    make(8, 8);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, insert(txn, 1, 1));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    refuses(txn, LLADD_DESTROYED, insert(txn, 2, 2));
    uint64_t k = 1;
    ck_assert_int_eq(lladd_hash_get(hash, &k, 8, &k, 8, NULL, &b.err), LLADD_DESTROYED);
    abort_txn(txn);
    ck_assert(has(1, 1));
    txn = fixture_begin(&b);
    ok(txn, lladd_hash_destroy(txn, root));
    commit(txn);
    ck_assert_int_eq(lladd_hash_get(hash, &k, 8, &k, 8, NULL, &b.err), LLADD_DESTROYED);
    lladd_hash_close(hash);
    hash = NULL;
}
END_TEST

START_TEST(expected_elements_get_their_buckets_at_once)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = o.value_size = 8;
    o.expected = 5000;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &hash, &b.err));
    txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 5000; i++)
        ok(txn, insert(txn, i, i));
    commit(txn);
    ck_assert_uint_lt(stats().splits, stats().buckets / 2);
    ck_assert_uint_eq(count(), 5000);
}
END_TEST


/* Makes keys of 8 bytes with hashes that agree in the low 12 bits. */
static size_t equal_keys(uint64_t *out, size_t n)
{
    const struct ll_siphash_key *seed = &hash->table->seed;
    uint64_t first = 0, want = ll_siphash(seed, &first, 8) & 0xfff;
    size_t found = 0;
    for (uint64_t k = 0; found < n; k++)
        if ((ll_siphash(seed, &k, 8) & 0xfff) == want)
            out[found++] = k;
    return found;
}

START_TEST(equal_hashes_make_chains)
{
    static uint64_t keys[900];
    make(8, 8);
    size_t n = equal_keys(keys, 900);
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t i = 0; i < n; i++)
        ok(txn, insert(txn, keys[i], i));
    ck_assert_uint_ge(stats().longest_chain, 3);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    commit(txn);
    txn = fixture_begin(&b);
    for (size_t i = 0; i < n; i++)
        ck_assert(has(keys[i], i));
    for (size_t i = 0; i < n; i += 2)
        ok(txn, take(txn, keys[i]));
    ok_db(&b, lladd_hash_check(hash, &b.err));
    abort_txn(txn);
    for (size_t i = 0; i < n; i++)
        ck_assert(has(keys[i], i));
    for (int round = 0; round < 2; round++) {
        txn = fixture_begin(&b);
        for (size_t i = (size_t)round; i < n; i += 2)
            ok(txn, take(txn, keys[i]));
        commit(txn);
    }
    ck_assert_uint_eq(count(), 0);
    txn = fixture_begin(&b); /* no transaction needs the ghosts, so an insertion may drop them */
    for (size_t i = 0; i < 10; i++)
        ok(txn, insert(txn, keys[i], i));
    commit(txn);
}
END_TEST

/* ---- undo ------------------------------------------------------------------------------------ */

START_TEST(undo_finds_keys_that_others_have_moved)
{
    make(8, 8);
    struct lladd_txn *mine = fixture_begin(&b), *other;
    for (uint64_t i = 0; i < 100; i++)
        ok(mine, insert(mine, i, i));
    other = fixture_begin(&b);
    for (uint64_t i = 1000; i < 9000; i++)
        ok(other, insert(other, i, i));
    commit(other);
    ck_assert_uint_gt(stats().buckets, 16);
    abort_txn(mine);
    ck_assert_uint_eq(count(), 8000);
    mine = fixture_begin(&b);
    for (uint64_t i = 1000; i < 1100; i++)
        ok(mine, take(mine, i));
    other = fixture_begin(&b);
    for (uint64_t i = 1100; i < 9000; i++)
        ok(other, take(other, i));
    commit(other);
    other = fixture_begin(&b); /* buckets merge: no transaction needs the committed ghosts */
    for (uint64_t i = 20000; i < 22000; i++) {
        ok(other, insert(other, i, i));
        ok(other, take(other, i));
    }
    commit(other);
    ck_assert_uint_gt(stats().merges, 0);
    abort_txn(mine);
    for (uint64_t i = 1000; i < 1100; i++)
        ck_assert(has(i, i));
    ck_assert_uint_eq(count(), 100);
}
END_TEST

START_TEST(a_key_removed_and_put_back_with_savepoints)
{
    lladd_savepoint_id sp[4];
    make(8, 8);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, insert(txn, 5, 50));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp[0]));
    ok(txn, take(txn, 5));
    ok(txn, lladd_savepoint(txn, &sp[1]));
    ok(txn, insert(txn, 5, 51));
    ok(txn, lladd_savepoint(txn, &sp[2]));
    ok(txn, take(txn, 5));
    ok(txn, lladd_savepoint(txn, &sp[3]));
    ok(txn, insert(txn, 5, 52));
    ok(txn, take(txn, 5));
    ok(txn, insert(txn, 5, 53));
    ck_assert(has(5, 53));
    ok(txn, lladd_rollback_to(txn, sp[3]));
    ck_assert(!has(5, 53) && !has(5, 51));
    ok(txn, lladd_rollback_to(txn, sp[2]));
    ck_assert(has(5, 51));
    ok(txn, lladd_rollback_to(txn, sp[1]));
    ck_assert_uint_eq(count(), 0);
    ok(txn, lladd_rollback_to(txn, sp[0]));
    ck_assert(has(5, 50));
    ok(txn, take(txn, 5));
    ok(txn, insert(txn, 5, 54));
    abort_txn(txn);
    ck_assert(has(5, 50));
}
END_TEST

START_TEST(transactions_interleave)
{
    make(8, 8);
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b), *all = fixture_begin(&b);
    for (uint64_t i = 0; i < 500; i++)
        ok(all, insert(all, i, i));
    commit(all);
    for (uint64_t i = 0; i < 500; i += 2) {
        ok(one, take(one, i));
        ok(two, take(two, i + 1));
        ok(one, insert(one, i + 1000, 1));
        ok(two, insert(two, i + 1001, 2));
    }
    abort_txn(one);
    commit(two);
    for (uint64_t i = 0; i < 500; i += 2)
        ck_assert(has(i, i) && !has(i + 1, i + 1) && !has(i + 1000, 1) && has(i + 1001, 2));
}
END_TEST

/* A transaction removes all elements. Another one inserts elements until the device is full. The
 * space of the removed elements is reserved, so the rollback of the removal succeeds. */
START_TEST(a_removal_of_everything_is_taken_back_on_a_full_device)
{
    make(8, 100);
    unsigned char value[100] = {1};
    struct lladd_txn *txn = fixture_begin(&b), *other;
    for (uint64_t i = 0; i < 3000; i++)
        ok(txn, lladd_hash_insert(txn, hash, &i, 8, value, 100));
    commit(txn);
    txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 3000; i++)
        ok(txn, take(txn, i));
    ck_assert_uint_eq(count(), 0);
    other = fixture_begin(&b);
    fault_device_capacity(b.fd, fault_device_bytes(b.fd));
    int rc = 0;
    uint64_t put = 0;
    for (uint64_t i = 5000; !rc && i < 50000; i++) {
        rc = lladd_hash_insert(other, hash, &i, 8, value, 100);
        put += rc == 0;
    }
    ck_assert_msg(lladd_code_root(rc) == LLADD_ROOT_RESOURCE ||
                      lladd_code_root(rc) == LLADD_ROOT_RETRY,
                  "%s", lladd_code_name(rc));
    ck_assert_uint_eq(count(), put);
    abort_txn(txn);
    abort_txn(other);
    fault_device_capacity(b.fd, UINT64_MAX);
    ck_assert_uint_eq(count(), 3000);
}
END_TEST

/* The undo reserve is at least as much as the rollback writes, and at most twice as much plus SPARE
 * bytes. _i / 2 chooses the length of the values; _i % 2: the table has fixed lengths. */
START_TEST(the_undo_reserve_is_what_a_rollback_writes)
{
    static const uint32_t lengths[] = {8, 100, 300, 900};
    enum { KEYS = 100, ROUNDS = 20, SPARE = 32768 };
    uint32_t len = lengths[_i / 2];
    unsigned char value[900] = {0};
    struct lladd_stats before = {.struct_size = sizeof before}, full = before, after = before;
    fixture_close(&b);
    b.options.flags |= LLADD_OPT_ATOMIC_PAGES; /* no images, for which the reserve has no room */
    fixture_open(&b);
    make(_i % 2 ? 8 : 0, _i % 2 ? len : 0);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < KEYS; i++)
        ok(txn, lladd_hash_put(txn, hash, &i, 8, value, len));
    commit(txn);
    ok_db(&b, lladd_stats_get(b.db, &before));
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < KEYS * ROUNDS; i++) {
        uint64_t key = i % KEYS;
        value[0] = (unsigned char)i;
        ok(txn, lladd_hash_put(txn, hash, &key, 8, value, len));
    }
    ok_db(&b, lladd_stats_get(b.db, &full));
    abort_txn(txn);
    ok_db(&b, lladd_stats_get(b.db, &after));
    uint64_t aside = full.undo_reserved - before.undo_reserved;
    uint64_t written = after.log_tail - full.log_tail;
    ck_assert_uint_gt(written, (uint64_t)len * KEYS * ROUNDS);
    ck_assert_uint_le(written, aside);
    ck_assert_uint_le(aside, 2 * written + SPARE);
}
END_TEST

START_TEST(one_transaction_at_a_time_with_physical_undo)
{
    make(8, 8);
    lladd_hash_close(hash);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_PHYSICAL, &hash, &b.err));
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    for (uint64_t i = 0; i < 2000; i++)
        ok(one, insert(one, i, i));
    ck_assert_uint_gt(stats().splits, 4);
    refuses(two, LLADD_BUSY, insert(two, 5000, 1));
    refuses(two, LLADD_BUSY, take(two, 1));
    abort_txn(one);
    ck_assert_uint_eq(count(), 0);
    ck_assert_uint_eq(stats().buckets, 1);
    ok(two, insert(two, 5000, 1));
    commit(two);
    ck_assert(has(5000, 1));
}
END_TEST

START_TEST(a_transaction_in_doubt_can_restore_what_it_removed)
{
    struct lladd_gid gid = fixture_gid("doubt");
    make(8, 8);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 200; i++)
        ok(txn, insert(txn, i, i));
    commit(txn);
    txn = fixture_begin(&b);
    for (uint64_t i = 0; i < 100; i++)
        ok(txn, take(txn, i));
    ok(txn, lladd_prepare(txn, &gid));
    lladd_hash_close(hash);
    hash = NULL;
    fixture_crash(&b);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &hash, &b.err));
    txn = fixture_begin(&b);
    for (uint64_t i = 1000; i < 4000; i++)
        ok(txn, insert(txn, i, i));
    commit(txn);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    abort_txn(txn);
    for (uint64_t i = 0; i < 200; i++)
        ck_assert(has(i, i));
    ck_assert_uint_eq(count(), 3200);
}
END_TEST


static int see(void *ctx, struct lladd_span value)
{
    ck_assert_uint_eq(value.len, 8);
    *(uint64_t *)ctx = lladd_get64(value.data);
    return -7;
}

START_TEST(many_lookups_in_one_call)
{
    enum { N = 1000 };
    static struct lladd_hash_query q[N];
    static uint64_t key[N], value[N], seen;
    make(8, 8);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < N; i++) {
        key[i] = i;
        q[i] = (struct lladd_hash_query){.key = &key[i], .key_len = 8, .buf = &value[i], .size = 8};
        if (i % 3)
            ok(txn, insert(txn, i, i * i));
    }
    commit(txn);
    ok_db(&b, lladd_hash_get_many(hash, q, N, &b.err));
    for (uint64_t i = 0; i < N; i++) {
        ck_assert_int_eq(q[i].rc, i % 3 ? 0 : LLADD_NOT_FOUND);
        ck_assert(!(i % 3) || (value[i] == i * i && q[i].len == 8));
    }
    q[500].key_len = 3, q[505].key_len = 5; /* the message is that of the first error */
    ck_assert_int_eq(lladd_hash_get_many(hash, q, N, &b.err), LLADD_KEY_SIZE);
    ck_assert_ptr_nonnull(strstr(b.err.message, "a key of 3 bytes"));
    ck_assert_int_eq(q[500].rc, LLADD_KEY_SIZE);
    ck_assert_int_eq(q[501].rc, LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_hash_get_in_place(hash, &key[4], 8, see, &seen, &b.err), -7);
    ck_assert_uint_eq(seen, 16);
    ck_assert_int_eq(lladd_hash_get_in_place(hash, &key[3], 8, see, &seen, &b.err),
                     LLADD_NOT_FOUND);
}
END_TEST

/* One call inserts many elements, with splits in between. One key comes twice; with fixed lengths,
 * one value and one key have a wrong length. Such an element is refused, and the elements before it
 * stay. */
static void insert_many_into(uint32_t key_size, unsigned flags)
{
    enum { N = 3000 };
    static struct lladd_hash_element e[N];
    static unsigned char key[N][16], value[N][8];
    size_t done = 99;
    make_as(key_size, key_size ? 8 : 0, flags);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < N; i++) {
        lladd_put64(key[i], i);
        lladd_put64(value[i], i ^ 5);
        e[i] = (struct lladd_hash_element){key[i], key_size ? key_size : 8 + i % 8, value[i], 8};
    }
    ok(txn, lladd_hash_insert_many(txn, hash, e, 0, &done));
    ck_assert_uint_eq(done, 0);
    ok(txn, lladd_hash_insert_many(txn, hash, e, 1000, &done));
    ck_assert_uint_eq(done, 1000);
    e[1500] = e[1490]; /* so close that the call works on both at the same time */
    ck_assert_int_eq(lladd_hash_insert_many(txn, hash, e + 1000, N - 1000, &done), LLADD_EXISTS);
    ck_assert_uint_eq(done, 500);
    e[1505].value_len = key_size ? 7 : 8;
    e[1500] = e[1501];
    ck_assert_int_eq(lladd_hash_insert_many(txn, hash, e + 1501, N - 1501, &done),
                     key_size ? LLADD_KEY_SIZE : 0);
    ck_assert_uint_eq(done, key_size ? 4 : N - 1501);
    if (key_size) {
        e[1600].key_len = 7;
        e[1505].value_len = 8;
        ck_assert_int_eq(lladd_hash_insert_many(txn, hash, e + 1505, N - 1505, &done),
                         LLADD_KEY_SIZE);
        ck_assert_uint_eq(done, 95);
        ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "a key of 7 bytes"));
        e[1600].key_len = key_size;
        ok(txn, lladd_hash_insert_many(txn, hash, e + 1600, N - 1600, NULL));
    }
    commit(txn);
    ck_assert_uint_eq(count(), N - 1);
    for (uint64_t i = 0; i < N; i++) {
        unsigned char got[8];
        int rc = lladd_hash_get(hash, e[i].key, e[i].key_len, got, 8, NULL, &b.err);
        ck_assert_int_eq(rc, 0);
        ck_assert_mem_eq(got, e[i].value, 8);
    }
    txn = fixture_begin(&b);
    lladd_put64(key[0], N);
    ok(txn, lladd_hash_insert_many(txn, hash, e, 1, NULL));
    abort_txn(txn);
    ck_assert_int_eq(lladd_hash_get(hash, e[0].key, e[0].key_len, NULL, 0, NULL, &b.err),
                     LLADD_NOT_FOUND);
    txn = fixture_begin(&b);
    done = 99;
    ck_assert_int_eq(lladd_hash_insert_many(txn, NULL, e, N, &done), LLADD_BAD_ARGUMENT);
    ck_assert_uint_eq(done, 0);
    abort_txn(txn);
}

START_TEST(many_are_inserted_as_if_one_by_one)
{
    insert_many_into(8, LLADD_HASH_LOGICAL);
}
END_TEST

START_TEST(many_are_inserted_with_physical_undo)
{
    insert_many_into(8, LLADD_HASH_PHYSICAL);
}
END_TEST

START_TEST(many_of_any_length_are_inserted)
{
    insert_many_into(0, LLADD_HASH_LOGICAL);
}
END_TEST


START_TEST(a_walk_returns_each_lasting_element_once)
{
    enum { STAY = 3000 };
    static unsigned char met[STAY];
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    uint64_t next = 100000, steps = 0;
    int rc;
    make(8, 8);
    memset(met, 0, sizeof met);
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < STAY; i++)
        ok(txn, insert(txn, i, i));
    while ((rc = lladd_hash_cursor_next(hash, &w, &key, &value, &b.err)) == 0) {
        uint64_t k = lladd_get64(key.data);
        if (k < STAY)
            met[k]++;
        if (++steps % 3000 == 500) /* the table grows */
            for (int i = 0; i < 20000; i++, next++)
                ok(txn, insert(txn, next, next));
        if (steps % 3000 == 2000) { /* the table shrinks again */
            for (uint64_t gone = 100000; gone < next; gone++)
                ok(txn, take(txn, gone));
            next = 100000;
            commit(txn);
            txn = fixture_begin(&b);
            for (uint64_t i = 50000; i < 51000; i++) {
                ok(txn, insert(txn, i, i));
                ok(txn, take(txn, i));
            }
        }
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(lladd_hash_cursor_next(hash, &w, &key, &value, &b.err), LLADD_END);
    lladd_hash_cursor_close(hash, &w);
    for (uint64_t i = 0; i < STAY; i++)
        ck_assert_msg(met[i] == 1, "element %llu was met %u times", (unsigned long long)i, met[i]);
    commit(txn);
    ck_assert_uint_gt(stats().splits, 10);
    ck_assert_uint_gt(stats().merges, 0);
}
END_TEST


/* The n-th memory allocation fails. Each call succeeds, or fails and has changed nothing. */
START_TEST(memory_runs_out_anywhere)
{
    uint64_t failures = 0;
    make(0, 0);
    unsigned char value[400] = {1};
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct lladd_txn *txn = fixture_begin(&b);
        uint64_t before = count(), done = 0;
        fault_alloc_fail(&b.mem, nth, false);
        for (uint64_t i = 0; i < 40; i++) {
            uint64_t key = nth * 100 + i;
            int rc = lladd_hash_insert(txn, hash, &key, 8, value, i * 10);
            ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
            done += rc == 0;
            failures += rc != 0;
            if (!rc && i % 3 == 0) {
                rc = take(txn, key);
                ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
                done -= rc == 0;
            }
        }
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_uint_eq(count(), before + done);
        if (nth % 2) {
            abort_txn(txn);
            ck_assert_uint_eq(count(), before);
        } else {
            commit(txn);
        }
    }
    ck_assert_uint_gt(failures, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables");
    TCase *t = tcase_create("hash");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, siphash_is_siphash);
    tcase_add_test(t, hashes_of_many_keys_are_those_of_each_key);
    tcase_add_loop_test(t, entries_that_a_drop_leaves_are_found, 0, 2);
    tcase_add_test(t, cached_operation_ids_are_right);
    tcase_add_test(t, random_bytes_differ);
    tcase_add_loop_test(t, a_page_with_too_many_slots_is_noticed, 0, 2);
    tcase_add_loop_test(t, a_damaged_bucket_is_not_split, 0, 2);
    tcase_add_test(t, wrong_arguments_change_nothing);
    tcase_add_test(t, a_transaction_of_another_database_is_refused);
    tcase_add_test(t, keys_and_values_of_every_length);
    tcase_add_test(t, long_keys_and_values_are_blobs);
    tcase_add_test(t, calls_on_a_destroyed_table_are_refused);
    tcase_add_test(t, expected_elements_get_their_buckets_at_once);
    tcase_add_test(t, equal_hashes_make_chains);
    tcase_add_test(t, undo_finds_keys_that_others_have_moved);
    tcase_add_test(t, a_key_removed_and_put_back_with_savepoints);
    tcase_add_test(t, transactions_interleave);
    tcase_add_test(t, a_removal_of_everything_is_taken_back_on_a_full_device);
    tcase_add_loop_test(t, the_undo_reserve_is_what_a_rollback_writes, 0, 8);
    tcase_add_test(t, one_transaction_at_a_time_with_physical_undo);
    tcase_add_test(t, a_transaction_in_doubt_can_restore_what_it_removed);
    tcase_add_test(t, many_lookups_in_one_call);
    tcase_add_test(t, many_are_inserted_as_if_one_by_one);
    tcase_add_test(t, many_are_inserted_with_physical_undo);
    tcase_add_test(t, many_of_any_length_are_inserted);
    tcase_add_test(t, a_walk_returns_each_lasting_element_once);
    tcase_add_test(t, memory_runs_out_anywhere);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
