/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bw-trees do what a sorted array does: with all kinds of keys and values, sizes of pages and
 * lengths of chains. Each change, lookup and move of a cursor is compared with the array. In the
 * end all rows are deleted, and some inserted again.
 */
#include "op_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>
#include <stdio.h>

enum { KEYS = 600, LONGEST = 120, STEPS = 6000 };

static struct fixture b;
static struct lladd_bwtree *tree;
static struct lladd_bwtree_cursor *cursor;
static struct lladd_error err;

/* Fixed lengths; 0: any. */
static const struct {
    uint32_t key, value;
} lengths[] = {{8, 8}, {4, 1}, {1, 3}, {8, 0}, {0, 8}, {0, 0}, {20, 44}, {2, 100}};
static const uint32_t pages[] = {64, 200, 1024, 0};
static const uint32_t leaf_chains[] = {1, 2, 7, 100}, inner_chains[] = {1, 0, 5};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static struct row {
    unsigned char key[LONGEST];
    size_t len;
    uint32_t version; /* of the value; 0: there is no row */
} model[KEYS];
static int n_keys; /* the model's keys, in order */
static uint32_t versions, value_size;
static uint64_t seed, merges;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(seeded_next(&seed) >> 11) % n;
}

static int by_key(const void *x, const void *y)
{
    const struct row *a = x, *c = y;
    int order = memcmp(a->key, c->key, a->len < c->len ? a->len : c->len);
    return order ? order : (a->len > c->len) - (a->len < c->len);
}

/* Keys with long equal beginnings, and zero bytes. */
static void make_keys(uint32_t key_size)
{
    int n = 0;
    memset(model, 0, sizeof model);
    for (int i = 0; i < KEYS; i++) {
        struct row *r = &model[i];
        r->len = key_size ? key_size : pick(LONGEST);
        uint32_t same = pick(4) * 10;
        for (uint32_t k = 0; k < r->len; k++)
            r->key[k] = k < same && k + 2 < r->len ? 'k' : (unsigned char)(pick(3) ? pick(256) : 0);
    }
    qsort(model, KEYS, sizeof *model, by_key);
    for (int i = 0; i < KEYS; i++)
        if (n == 0 || by_key(&model[n - 1], &model[i]) != 0)
            model[n++] = model[i];
    n_keys = n;
}

static size_t value_of(uint32_t version, unsigned char out[LONGEST])
{
    memset(out, (int)(version * 31), LONGEST);
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(version >> (8 * i));
    return value_size ? value_size : version % LONGEST;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void expect(const struct row *r)
{
    unsigned char got[LONGEST], want[LONGEST];
    size_t len = 0;
    int rc = lladd_bwtree_get(tree, r->key, r->len, got, sizeof got, &len, &err);
    ck_assert_int_eq(rc, r->version ? 0 : LLADD_NOT_FOUND);
    if (rc == 0) {
        ck_assert_uint_eq(len, value_of(r->version, want));
        ck_assert_int_eq(memcmp(got, want, len), 0);
    }
}

static void change(struct row *r)
{
    unsigned char value[LONGEST];
    uint32_t version = versions + 1, what = pick(4);
    size_t len = value_of(version, value);
    int want = 0, rc;
    if (what == 0) {
        rc = lladd_bwtree_insert(tree, r->key, r->len, value, len, &err);
        want = r->version ? LLADD_EXISTS : 0;
    } else if (what == 1) {
        rc = lladd_bwtree_delete(tree, r->key, r->len, &err);
        want = r->version ? 0 : LLADD_NOT_FOUND;
        version = 0;
    } else {
        rc = lladd_bwtree_put(tree, r->key, r->len, value, len, &err);
    }
    ck_assert_int_eq(rc, want);
    if (rc == 0)
        r->version = version;
    versions++;
    expect(r);
}

/* The next row of the model from `i` on, in this direction; -1 or n_keys: none. */
static int next_row(int i, int step)
{
    while (i >= 0 && i < n_keys && model[i].version == 0)
        i += step;
    return i;
}

static void expect_at(int rc, int i)
{
    unsigned char want[LONGEST];
    struct lladd_span key, value;
    if (i < 0 || i >= n_keys) {
        ck_assert_int_eq(rc, LLADD_END);
        return;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(lladd_bwtree_cursor_row(cursor, &key, &value, &err), 0);
    ck_assert_uint_eq(key.len, model[i].len);
    ck_assert_int_eq(memcmp(key.data, model[i].key, key.len), 0);
    ck_assert_uint_eq(value.len, value_of(model[i].version, want));
    ck_assert_int_eq(memcmp(value.data, want, value.len), 0);
}

/* Seeks a key, and goes on with changes between the moves. */
static void move(int i)
{
    const struct row *r = &model[i];
    bool up = pick(2);
    int at = next_row(i, up ? 1 : -1);
    expect_at(up ? lladd_bwtree_cursor_seek(cursor, r->key, r->len, &err)
                 : lladd_bwtree_cursor_seek_for_prev(cursor, r->key, r->len, &err), at);
    for (uint32_t moves = pick(30); moves > 0 && at >= 0 && at < n_keys; moves--) {
        if (pick(4) == 0)
            change(&model[pick((uint32_t)n_keys)]);
        if (pick(8) == 0)
            up = !up;
        at = next_row(at + (up ? 1 : -1), up ? 1 : -1);
        expect_at(up ? lladd_bwtree_cursor_next(cursor, &err)
                     : lladd_bwtree_cursor_prev(cursor, &err), at);
    }
}

static void walk_all(void)
{
    int at = next_row(0, 1);
    for (expect_at(lladd_bwtree_cursor_first(cursor, &err), at); at < n_keys;) {
        at = next_row(at + 1, 1);
        expect_at(lladd_bwtree_cursor_next(cursor, &err), at);
    }
    at = next_row(n_keys - 1, -1);
    for (expect_at(lladd_bwtree_cursor_last(cursor, &err), at); at >= 0;) {
        at = next_row(at - 1, -1);
        expect_at(lladd_bwtree_cursor_prev(cursor, &err), at);
    }
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
}

static void expect_rows(void)
{
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    uint64_t rows = 0;
    for (int i = 0; i < n_keys; i++)
        rows += model[i].version != 0;
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    ck_assert_uint_eq(s.rows, rows);
    merges += s.merges;
    ck_assert_uint_eq(s.updates_failed + s.splits_failed + s.consolidations_failed + s.helped, 0);
}

static void delete_row(struct row *r)
{
    if (r->version)
        ck_assert_int_eq(lladd_bwtree_delete(tree, r->key, r->len, &err), 0);
    r->version = 0;
}

/* Deletes all rows from either end, or all over the tree. Then inserts some rows. */
static void empty_and_refill(void)
{
    uint32_t how = pick(3);
    for (int i = 0; i < n_keys; i++) {
        delete_row(&model[how == 0 ? i : how == 1 ? n_keys - 1 - i
                                                  : (int)pick((uint32_t)n_keys)]);
        if (pick(100) == 0)
            move((int)pick((uint32_t)n_keys));
    }
    walk_all();
    for (int i = 0; i < n_keys; i++)
        delete_row(&model[i]);
    walk_all();
    for (int i = 0; i < n_keys / 2; i++)
        change(&model[pick((uint32_t)n_keys)]);
}

/* ---- the test -------------------------------------------------------------------------------- */

static void run(uint32_t page, uint32_t leaf_chain, uint32_t inner_chain, uint32_t key)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    o.key_size = key;
    o.value_size = value_size;
    o.page_bytes = page;
    o.leaf_chain = leaf_chain;
    o.inner_chain = inner_chain;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    ck_assert_int_eq(lladd_bwtree_cursor_open(tree, &cursor, &err), 0);
    make_keys(key);
    for (int i = 0; i < STEPS; i++) {
        int k = (int)pick((uint32_t)n_keys);
        if (pick(20) == 0)
            move(k);
        else if (pick(4) == 0)
            expect(&model[k]);
        else
            change(&model[k]);
        if (i % 1500 == 0)
            walk_all();
    }
    walk_all();
    expect_rows();
    empty_and_refill();
    walk_all();
    expect_rows();
    lladd_bwtree_cursor_close(cursor);
    lladd_bwtree_close(tree);
}

START_TEST(a_tree_does_what_an_array_does)
{
    seed = (uint64_t)_i + 1;
    versions = 0;
    value_size = lengths[_i].value;
    fixture_init(&b, 4096);
    fixture_open(&b);
    for (int p = 0; p < COUNT(pages); p++)
        for (int l = 0; l < COUNT(leaf_chains); l++)
            for (int n = 0; n < COUNT(inner_chains); n++)
                run(pages[p], leaf_chains[l], inner_chains[n], lengths[_i].key);
    ck_assert_uint_gt(merges, 100);
    fixture_free(&b);
}
END_TEST

/* Ascending and descending keys fill the pages from one side. */
START_TEST(keys_in_order)
{
    enum { N = 30000 };
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    unsigned char key[8];
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.key_size = o.value_size = 8;
    o.page_bytes = 512;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    for (uint64_t i = 0; i < N; i++) {
        lladd_put64(key, __builtin_bswap64(_i ? N - i : i));
        ck_assert_int_eq(lladd_bwtree_insert(tree, key, 8, &i, 8, &err), 0);
    }
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    ck_assert_uint_eq(s.rows, N);
    if (_i == 0) /* ascending keys leave full pages */
        ck_assert_uint_lt(s.leaves * 512 * 3, N * 16 * 5);
    lladd_bwtree_close(tree);
    fixture_free(&b);
}
END_TEST

/* Keys longer than a page: each page is split as soon as it may be. Inner pages still get two
 * children at least, so the number of levels is a logarithm. */
START_TEST(long_keys_in_order)
{
    enum { N = 2000, LEN = 200, LEVELS = 14 };
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    struct lladd_bwtree_stats s = {.struct_size = sizeof s};
    char key[LEN + 1];
    fixture_init(&b, 4096);
    fixture_open(&b);
    o.page_bytes = 64;
    o.leaf_chain = o.inner_chain = 1;
    ck_assert_int_eq(lladd_bwtree_open_volatile(b.db, &o, &tree, &err), 0);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%0*u", LEN, _i ? N - 1 - i : i);
        ck_assert_int_eq(lladd_bwtree_insert(tree, key, LEN, &i, sizeof i, &err), 0);
    }
    ck_assert_msg(lladd_bwtree_check(tree, &err) == 0, "%s", err.message);
    ck_assert_int_eq(lladd_bwtree_stats_get(tree, &s, &err), 0);
    ck_assert_uint_eq(s.rows, N);
    ck_assert_uint_le(s.levels, LEVELS);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%0*u", LEN, i);
        ck_assert_int_eq(lladd_bwtree_get(tree, key, LEN, NULL, 0, NULL, &err), 0);
    }
    lladd_bwtree_close(tree);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("Bw-trees against a model");
    TCase *c = tcase_create("model");
    tcase_add_loop_test(c, a_tree_does_what_an_array_does, 0, COUNT(lengths));
    tcase_add_loop_test(c, keys_in_order, 0, 2);
    tcase_add_loop_test(c, long_keys_in_order, 0, 2);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
