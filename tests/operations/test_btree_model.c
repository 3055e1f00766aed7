/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees compared with an array. In each round two transactions take turns. One changes the even
 * keys and the other one the odd keys, so that each splits leaves with rows of the other. The
 * transactions insert, replace and remove rows. Sometimes they remove almost all rows, so that
 * leaves are merged. Each transaction commits, rolls back, rolls back to a savepoint, or is open at
 * a crash. Pages have 4 to 64 KiB, keys 0 to 1000 bytes (993 with pages of 4 KiB), values 0 bytes
 * to 1 MiB.
 */
#include "op_fixture.h"

#include <lladd/btree.h>

#include <stdio.h>

/* A value has LONGEST bytes if its version is divisible by LONGEST_EACH. */
enum { KEYS = 600, LONGEST = 1 << 20, LONGEST_EACH = 997, KEY_LONGEST = 1000 };

enum shape { NUMBERS, SHORT, WORDS, LONG };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;
static struct lladd_btree_options options;
static enum shape shape;
static uint32_t longest_value;
static uint32_t longest_values; /* number of values of LONGEST bytes that were put */

struct model {
    uint32_t version[KEYS]; /* 0: the key is absent */
};
static struct model committed, now;
static uint32_t next_version;
static uint64_t merges; /* the largest number of merges that a handle has counted */
static uint32_t order[KEYS]; /* the keys in the order of their bytes */

static size_t key_bytes(uint32_t k, unsigned char *out)
{
    uint32_t most = lladd_btree_key_max(b.db), mixed = k * 2654435761u;
    switch (shape) {
    case NUMBERS:
        for (int i = 0; i < 8; i++)
            out[i] = (unsigned char)((uint64_t)(k / 3 * 1000 + k % 3) >> (8 * (7 - i)));
        return 8;
    case SHORT: /* the empty key, all keys of one byte, and keys of 2 and 3 bytes */
        out[0] = (unsigned char)k;
        if (k <= 256)
            return k < 256;
        out[0] = (unsigned char)(mixed >> 24);
        out[1] = (unsigned char)(k & 255);
        out[2] = (unsigned char)(k >> 8);
        return k < 512 ? 2 : 3; /* those of 2 bytes are unique in their second byte */
    case WORDS:
        return (size_t)snprintf((char *)out, KEY_LONGEST, "user/%u/%.*s%u", mixed % 7,
                                (int)(mixed >> 8) % 40, "........................................",
                                k);
    default:
        memset(out, 'k', most);
        lladd_put32(out + most - 8 - k % 400, k); /* keys differ only in their last 408 bytes */
        out[most - 1] = (unsigned char)k;
        return k % 5 == 0 ? most : most - k % 3;
    }
}

static size_t value_bytes(uint32_t k, uint32_t version, unsigned char *out)
{
    size_t len = options.value_size                ? options.value_size
                 : (k * 7 + version * 31) % 5 == 0 ? 0
                 : version % LONGEST_EACH == 0     ? LONGEST
                 : version % 29 == 0               ? 900 + (version * 977 + k) % longest_value
                                                   : version * 37 % 300;
    memset(out, (int)(k + version), len);
    if (len >= 4)
        lladd_put32(out, version);
    return len;
}

static int by_bytes(const void *x, const void *y)
{
    unsigned char a[KEY_LONGEST + 8], c[KEY_LONGEST + 8];
    size_t n = key_bytes(*(const uint32_t *)x, a), m = key_bytes(*(const uint32_t *)y, c);
    int d = memcmp(a, c, n < m ? n : m);
    return d ? d : (n > m) - (n < m);
}

static void sort_keys(void)
{
    for (uint32_t k = 0; k < KEYS; k++)
        order[k] = k;
    qsort(order, KEYS, sizeof order[0], by_bytes);
    for (uint32_t i = 1; i < KEYS; i++)
        ck_assert_int_lt(by_bytes(&order[i - 1], &order[i]), 0);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static unsigned char want[LONGEST], got[LONGEST];

static void compare_key(uint32_t k)
{
    unsigned char key[KEY_LONGEST + 8];
    size_t klen = key_bytes(k, key), len = 0;
    int rc = lladd_btree_get(tree, key, klen, got, sizeof got, &len, &b.err);
    if (!now.version[k]) {
        ck_assert_msg(rc == LLADD_NOT_FOUND, "key %u: %s", k, lladd_code_name(rc));
        return;
    }
    ck_assert_msg(rc == 0, "key %u: %s: %s", k, lladd_code_name(rc), b.err.message);
    ck_assert_uint_eq(len, value_bytes(k, now.version[k], want));
    ck_assert(memcmp(got, want, len) == 0);
}

static void compare_row(struct lladd_btree_cursor *c, uint32_t k)
{
    unsigned char key[KEY_LONGEST + 8];
    struct lladd_span key_is, value_is;
    ok_db(&b, lladd_btree_cursor_row(c, &key_is, &value_is, &b.err));
    ck_assert_uint_eq(key_is.len, key_bytes(k, key));
    ck_assert(memcmp(key_is.data, key, key_is.len) == 0);
    ck_assert_uint_eq(value_is.len, value_bytes(k, now.version[k], want));
    ck_assert(value_is.len == 0 || memcmp(value_is.data, want, value_is.len) == 0);
}

/* Looks all keys up in one call. The buffers get the first bytes of the values. */
static void compare_many(void)
{
    enum { FIRST = 8 };
    static unsigned char keys[KEYS][KEY_LONGEST + 8], values[KEYS][FIRST];
    struct lladd_btree_query q[KEYS];
    for (uint32_t k = 0; k < KEYS; k++)
        q[k] = (struct lladd_btree_query){.key = keys[k],
                                          .key_len = key_bytes(k, keys[k]),
                                          .buf = values[k],
                                          .size = FIRST};
    ok_db(&b, lladd_btree_get_many(tree, q, KEYS, &b.err));
    for (uint32_t k = 0; k < KEYS; k++) {
        ck_assert_int_eq(q[k].rc, now.version[k] ? 0 : LLADD_NOT_FOUND);
        if (q[k].rc)
            continue;
        size_t len = value_bytes(k, now.version[k], want);
        ck_assert_uint_eq(q[k].len, len);
        ck_assert(memcmp(values[k], want, len < FIRST ? len : FIRST) == 0);
    }
}

/* If `up` is true, returns the place in `order` of the first present key from place i on, or KEYS.
 * Otherwise returns the place of the last present key up to place i, or -1. */
static int up(int i)
{
    while (i < KEYS && !now.version[order[i]])
        i++;
    return i;
}
static int down(int i)
{
    while (i >= 0 && !now.version[order[i]])
        i--;
    return i;
}

static void compare_walks(struct lladd_btree_cursor *c)
{
    int rc, i = -1;
    while ((rc = lladd_btree_cursor_next(c, &b.err)) == 0) {
        i = up(i + 1);
        ck_assert_int_lt(i, KEYS);
        compare_row(c, order[i]);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(up(i + 1), KEYS);
    i = KEYS;
    while ((rc = lladd_btree_cursor_prev(c, &b.err)) == 0) {
        i = down(i - 1);
        ck_assert_int_ge(i, 0);
        compare_row(c, order[i]);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(down(i - 1), -1);
}

static void compare_next_key(int i, bool after)
{
    unsigned char key[KEY_LONGEST + 8], next[KEY_LONGEST];
    size_t len = key_bytes(order[i], key), next_len = 0;
    int to = up(after ? i + 1 : i);
    int rc = lladd_btree_next_key(tree, key, len, after, next, sizeof next, &next_len, &b.err);
    ck_assert_int_eq(rc, to == KEYS ? LLADD_END : 0);
    if (rc)
        return;
    ck_assert_uint_eq(next_len, key_bytes(order[to], key));
    ck_assert(memcmp(next, key, next_len) == 0);
}

static void compare_seeks(struct lladd_btree_cursor *c)
{
    for (int i = 0; i < KEYS; i += 7) {
        unsigned char key[KEY_LONGEST + 8];
        size_t len = key_bytes(order[i], key);
        int to = up(i);
        int rc = lladd_btree_cursor_seek(c, key, len, &b.err);
        ck_assert_int_eq(rc, to == KEYS ? LLADD_END : 0);
        if (!rc)
            compare_row(c, order[to]);
        to = down(i);
        rc = lladd_btree_cursor_seek_for_prev(c, key, len, &b.err);
        ck_assert_int_eq(rc, to < 0 ? LLADD_END : 0);
        if (!rc)
            compare_row(c, order[to]);
        compare_next_key(i, i % 2);
    }
}

static void compare_bounds(int from, int end)
{
    unsigned char low[KEY_LONGEST + 8], high[KEY_LONGEST + 8];
    struct lladd_btree_cursor *c;
    size_t low_len = key_bytes(order[from], low), high_len = key_bytes(order[end], high);
    int rc, i = from - 1;
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
    ok_db(&b, lladd_btree_cursor_bounds(c, low, low_len, high, high_len, &b.err));
    while ((rc = lladd_btree_cursor_next(c, &b.err)) == 0) {
        i = up(i + 1);
        ck_assert_int_lt(i, end);
        compare_row(c, order[i]);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_ge(up(i + 1), end);
    i = end;
    while ((rc = lladd_btree_cursor_prev(c, &b.err)) == 0) {
        i = down(i - 1);
        ck_assert_int_ge(i, from);
        compare_row(c, order[i]);
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_lt(down(i - 1), from);
    lladd_btree_cursor_close(c);
}

static void compare(void)
{
    struct lladd_btree_stats stats = {.struct_size = sizeof stats};
    struct lladd_btree_cursor *c;
    uint64_t n = 0;
    ok_db(&b, lladd_btree_check(tree, &b.err));
    for (uint32_t k = 0; k < KEYS; k++) {
        compare_key(k);
        n += now.version[k] != 0;
    }
    ok_db(&b, lladd_btree_stats_get(tree, &stats, &b.err));
    ck_assert_uint_eq(stats.rows, n);
    merges = stats.merges > merges ? stats.merges : merges;
    ok_db(&b, lladd_btree_cursor_open(tree, &c, &b.err));
    compare_walks(c);
    compare_seeks(c);
    compare_many();
    lladd_btree_cursor_close(c);
    compare_bounds(KEYS / 4, KEYS / 2);
    compare_bounds(KEYS / 2, KEYS / 2);
}

/* ---- changing -------------------------------------------------------------------------------- */

static void open_tree(void)
{
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

static void change(struct lladd_txn *txn, uint32_t k, unsigned how)
{
    unsigned char key[KEY_LONGEST + 8];
    static unsigned char value[LONGEST];
    size_t klen = key_bytes(k, key), vlen = value_bytes(k, ++next_version, value);
    bool replaced;
    int rc;
    if (how < 3) {
        rc = lladd_btree_insert(txn, tree, key, klen, value, vlen);
        ck_assert_msg(rc == (now.version[k] ? LLADD_EXISTS : 0), "%s: %s", lladd_code_name(rc),
                      lladd_txn_error(txn)->message);
        if (!rc)
            now.version[k] = next_version;
        longest_values += rc == 0 && vlen == LONGEST;
    } else if (how < 5) {
        ok(txn, lladd_btree_put_report(txn, tree, key, klen, value, vlen, &replaced));
        ck_assert_int_eq(replaced, now.version[k] != 0);
        now.version[k] = next_version;
        longest_values += vlen == LONGEST;
    } else {
        rc = lladd_btree_delete(txn, tree, key, klen);
        ck_assert_msg(rc == (now.version[k] ? 0 : LLADD_NOT_FOUND), "%s: %s", lladd_code_name(rc),
                      lladd_txn_error(txn)->message);
        now.version[k] = 0;
    }
}

/* A transaction that changes the keys of one parity. */
struct side {
    struct lladd_txn *txn;
    uint32_t parity;
    lladd_savepoint_id sp;
    struct model saved;
};

static void take_over(struct model *to, const struct model *from, uint32_t parity)
{
    for (uint32_t k = parity; k < KEYS; k += 2)
        to->version[k] = from->version[k];
}

static void step(struct side *s, uint64_t *seed)
{
    uint64_t r = seeded_next(seed);
    uint32_t k = ((uint32_t)(r >> 8) % (KEYS / 2)) * 2 + s->parity;
    if (r % 97 == 0) {
        s->saved = now;
        ok(s->txn, lladd_savepoint(s->txn, &s->sp));
    } else if (r % 89 == 0 && s->sp) {
        ok(s->txn, lladd_rollback_to(s->txn, s->sp));
        take_over(&now, &s->saved, s->parity);
    } else {
        change(s->txn, k, (unsigned)(r >> 40) % 8);
    }
}

/* Makes many changes of one kind, so that the tree grows (`grow`) or shrinks. */
static void wave(struct side *s, bool grow, uint64_t *seed)
{
    for (uint32_t k = s->parity; k < KEYS; k += 2)
        if (seeded_next(seed) % 8)
            change(s->txn, k, grow ? 3 : 7);
}

/* Removes almost all rows, so that leaves are merged, now or by the following changes. */
static void drain(struct side *s, uint64_t *seed)
{
    for (int i = 0; i < KEYS; i++)
        if (order[i] % 2 == s->parity && now.version[order[i]] && seeded_next(seed) % 16)
            change(s->txn, order[i], 7);
}

static void end_side(struct side *s, uint64_t *seed)
{
    if (seeded_next(seed) % 3 == 0) {
        abort_txn(s->txn);
        take_over(&now, &committed, s->parity);
    } else {
        commit(s->txn);
        take_over(&committed, &now, s->parity);
    }
}

static void round_of(uint64_t *seed, int i)
{
    struct side sides[2] = {{.parity = 0}, {.parity = 1}};
    int steps = (int)(seeded_next(seed) % 120);
    for (int n = 0; n < 2; n++)
        sides[n].txn = fixture_begin(&b);
    if (i % 6 == 0)
        wave(&sides[0], i % 12 == 0, seed);
    if (i % 6 == 1)
        wave(&sides[1], i % 12 == 1, seed);
    for (int n = 0; n < 2 && i % 6 == 3; n++)
        drain(&sides[n], seed);
    for (int n = 0; n < steps; n++)
        step(&sides[seeded_next(seed) % 2], seed);
    int first = (int)(seeded_next(seed) % 2);
    if (seeded_next(seed) % 4 == 0) {
        if (seeded_next(seed) % 2)
            end_side(&sides[first], seed);
        ok_db(&b, lladd_checkpoint(b.db, &b.err)); /* makes the losers' changes durable */
        lladd_btree_close(tree);
        fixture_crash(&b);
        open_tree();
        now = committed;
        return;
    }
    end_side(&sides[first], seed);
    end_side(&sides[1 - first], seed);
}

static void begin_model(uint32_t page_size, uint32_t key_size, uint32_t value_size)
{
    fixture_init(&b, page_size);
    if (page_size > 4096)
        b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    options = (struct lladd_btree_options)LLADD_BTREE_OPTIONS_INIT;
    options.key_size = key_size;
    options.value_size = value_size;
    memset(&committed, 0, sizeof committed);
    memset(&now, 0, sizeof now);
    next_version = 0;
    merges = 0;
    longest_values = 0;
    sort_keys();
}

static void model(uint32_t page_size, enum shape keys, uint32_t value_size, uint64_t seed)
{
    shape = keys;
    longest_value = page_size == 4096 ? 9000 : 60000;
    begin_model(page_size, keys == NUMBERS ? 8 : 0, value_size);
    uint64_t pages = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &options, &root));
    commit(txn);
    open_tree();
    for (int i = 0; i < 40; i++) {
        round_of(&seed, i);
        if (i % 4 == 0)
            compare();
    }
    compare();
    ck_assert(merges > 0 || page_size > 4096); /* a tree of few pages may have no merge */
    ck_assert(longest_values > 0 || value_size > 0);
    lladd_btree_close(tree);
    fixture_close(&b);
    fixture_open(&b);
    open_tree();
    compare();
    lladd_btree_close(tree);
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    abort_txn(txn);
    open_tree();
    compare();
    lladd_btree_close(tree);
    txn = fixture_begin(&b);
    ok(txn, lladd_btree_destroy(txn, root));
    commit(txn);
    /* Freed pages become free when the next page is allocated. */
    txn = fixture_begin(&b);
    lladd_pageno page;
    ok(txn, lladd_page_alloc(txn, &page));
    abort_txn(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    fixture_free(&b);
}

START_TEST(numbers)
{
    model(4096, NUMBERS, 8, (uint64_t)_i + 1);
}
END_TEST

START_TEST(numbers_any_value)
{
    model(4096, NUMBERS, 0, (uint64_t)_i + 11);
}
END_TEST

START_TEST(short_keys)
{
    model(4096, SHORT, 0, (uint64_t)_i + 61);
}
END_TEST

START_TEST(words)
{
    model(4096, WORDS, _i % 2 ? 0 : 700, (uint64_t)_i + 31);
}
END_TEST

START_TEST(long_keys)
{
    model(4096, LONG, _i % 2 ? 0 : 1000, (uint64_t)_i + 41);
}
END_TEST

START_TEST(large_pages)
{
    static const uint32_t sizes[] = {8192, 16384, 32768, 65536};
    model(sizes[_i % 4], _i % 3 ? LONG : WORDS, 0, (uint64_t)_i + 51);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees against a model");
    TCase *t = tcase_create("model");
    tcase_add_loop_test(t, numbers, 0, 4);
    tcase_add_loop_test(t, numbers_any_value, 0, 4);
    tcase_add_loop_test(t, short_keys, 0, 4);
    tcase_add_loop_test(t, words, 0, 4);
    tcase_add_loop_test(t, long_keys, 0, 4);
    tcase_add_loop_test(t, large_pages, 0, 4);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
