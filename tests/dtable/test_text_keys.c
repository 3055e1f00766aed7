/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys that are bytes. Present keys are found, and so is the next key after an absent one, for any
 * common prefix of the keys, even if only few bytes after the prefix distinguish the keys. If all
 * keys have one length, the lengths take no space.
 */
#include "model.h"
#include "texts.h"

#include <check.h>
#include <string.h>

enum { ROWS = 3000, LONGEST = 40 };

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* The length of the prefix of all keys, and the maximum number of bytes that follow it. */
static const struct {
    size_t common, most;
} kinds[] = {{0, 8}, {1, 20}, {8, 9}, {20, 20}};

/* Draws a key. There are only four letters, so many keys begin with the same bytes, or are prefixes
 * of others. */
static struct lladd_dtable_key draw(uint64_t *random, unsigned kind, unsigned char *room)
{
    static const unsigned char letters[] = {0, 1, 'a', 0xff};
    size_t len = kinds[kind].common, more = 4 + seeded_next(random) % (kinds[kind].most - 3);
    memset(room, 'k', len);
    for (; more > 0; more--)
        room[len++] = letters[seeded_next(random) % sizeof letters];
    return lladd_dtable_bytes(room, len);
}

static struct lladd_dtable *run_of_model(const struct model *m, const char *config)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_BYTES, config);
    lladd_pageno root;
    for (size_t i = 0; i < m->n; i++) {
        struct lladd_dtable_value v = lladd_dtable_value_of(m->rows[i].value, m->rows[i].len);
        ok(txn, lladd_dtable_run_add(run, &m->rows[i].key, &v));
    }
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    return open_run(&b, root);
}

/* The table and the model have the same value for the key, and the same next key. */
static void same_of(const struct model *m, const struct lladd_dtable *t,
                    struct lladd_dtable_cursor *c, const struct lladd_dtable_key *key)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_key found;
    struct lladd_dtable_value v;
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lladd_dtable_compare(&m->order, &m->rows[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool there = low < m->n && lladd_dtable_compare(&m->order, &m->rows[low].key, key) == 0;
    ok_db(&b, lladd_dtable_lookup(t, key, &pin, &v, &b.err));
    ck_assert_int_eq(v.state, there ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT);
    if (there) {
        ck_assert_uint_eq(v.bytes.len, m->rows[low].len);
        ck_assert_int_eq(memcmp(v.bytes.data, m->rows[low].value, v.bytes.len), 0);
    }
    lladd_dtable_unpin(&pin);
    int rc = lladd_dtable_seek(c, key, &b.err);
    ck_assert_int_eq(rc, low < m->n ? 0 : LLADD_END);
    if (rc)
        return;
    ok_db(&b, lladd_dtable_row(c, &found, NULL, &b.err));
    ck_assert_int_eq(lladd_dtable_compare(&m->order, &found, &m->rows[low].key), 0);
}

/* Compares the results for the key and for similar keys: the key's prefixes, the key and one more
 * byte, the key with another last byte, the key with another common prefix, and the key without the
 * common prefix. */
static void same_around(const struct model *m, const struct lladd_dtable *t,
                        struct lladd_dtable_cursor *c, const struct lladd_dtable_key *key,
                        unsigned kind)
{
    unsigned char room[LONGEST + 1];
    size_t len = key->bytes.len, common = kinds[kind].common;
    memcpy(room, key->bytes.data, len);
    same_of(m, t, c, key);
    room[len] = 0;
    for (size_t n = 0; n <= len + 1; n += n + 1 < len ? len / 3 + 1 : 1) {
        struct lladd_dtable_key part = lladd_dtable_bytes(room, n);
        same_of(m, t, c, &part);
    }
    for (int by = -1; by < 2; by += 2) {
        struct lladd_dtable_key other = lladd_dtable_bytes(room, len);
        room[len - 1] = (unsigned char)(room[len - 1] + by);
        same_of(m, t, c, &other);
        room[len - 1] = (unsigned char)(room[len - 1] - by);
        room[common / 2] = (unsigned char)(room[common / 2] + by);
        same_of(m, t, c, &other);
        room[common / 2] = (unsigned char)(room[common / 2] - by);
    }
    struct lladd_dtable_key rest = lladd_dtable_bytes(room + common, len - common);
    same_of(m, t, c, &rest);
}

START_TEST(keys_with_common_prefixes_are_found)
{
    static const char *const configs[] = {
        "class(dt) linear_dtable",
        "class(dt) fixed_dtable config [ \"value_size\" int 4 ]",
    };
    uint64_t random = 7 + (uint64_t)_i;
    unsigned kind = (unsigned)_i / 2;
    struct model m;
    struct lladd_dtable_cursor *c;
    rows_init(&m, LLADD_DTABLE_BYTES);
    for (uint32_t i = 0; i < ROWS; i++) {
        unsigned char room[LONGEST];
        struct lladd_dtable_key key = draw(&random, kind, room);
        struct lladd_dtable_value v = lladd_dtable_value_of(&i, sizeof i);
        rows_put(&m, &key, &v);
    }
    ck_assert_uint_gt(m.n, ROWS / 2);
    struct lladd_dtable *t = run_of_model(&m, configs[_i % 2]);
    ok_db(&b, lladd_dtable_cursor_open(t, 0, &c, &b.err));
    for (size_t i = 0; i < m.n; i++)
        same_around(&m, t, c, &m.rows[i].key, kind);
    lladd_dtable_cursor_close(c);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
    rows_free(&m);
}
END_TEST

/* Keys have `len` bytes, and values have 20. Of every `odd` keys and of every `odd` values, one is
 * a byte longer; if `odd` is 0, none is. */
static const struct {
    size_t len;
    unsigned rows, odd;
} lengths[] = {{1, 200, 0},    {2, 3000, 0},    {16, 3000, 0},   {16, 3000, 2},
               {16, 3000, 50}, {16, 3000, 900}, {39, 3000, 900}, {40, 500, 0}};

START_TEST(equal_lengths_are_not_stored)
{
    size_t len = lengths[_i].len, bytes = 0;
    unsigned odd = lengths[_i].odd;
    uint64_t random = 3;
    struct model m;
    struct lladd_dtable_cursor *c;
    rows_init(&m, LLADD_DTABLE_BYTES);
    for (unsigned i = 0; i < lengths[_i].rows; i++) {
        unsigned char room[LONGEST], value[21];
        bool longer = odd && i % odd == 1;
        seeded_fill(seeded_next(&random), room, sizeof room);
        seeded_fill(i, value, sizeof value);
        struct lladd_dtable_key key = lladd_dtable_bytes(room, len + longer);
        struct lladd_dtable_value v = lladd_dtable_value_of(value, 20 + longer);
        rows_put(&m, &key, &v);
    }
    struct lladd_dtable *t = run_of_model(&m, "class(dt) linear_dtable");
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    for (size_t i = 0; i < m.n; i++)
        bytes += m.rows[i].key.bytes.len + m.rows[i].len;
    if (odd == 0) /* keys, values, and for each block a head and an entry in the index */
        ck_assert_uint_le(info.bytes, bytes + (m.n * len / 4096 + 2) * (4 * LONGEST + 32));
    ok_db(&b, lladd_dtable_cursor_open(t, 0, &c, &b.err));
    for (size_t i = 0; i < m.n; i++)
        same_around(&m, t, c, &m.rows[i].key, 0);
    rows_check(&m, t, 5, 1000);
    lladd_dtable_cursor_close(c);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
    rows_free(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dTables: keys that are bytes");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, keys_with_common_prefixes_are_found, 0, 8);
    tcase_add_loop_test(tc, equal_lengths_are_not_stored, 0, sizeof lengths / sizeof lengths[0]);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
