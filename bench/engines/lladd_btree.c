/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines of this library: the B+tree, which W2 fills with one row (lladd-btree) or with many rows
 * (lladd-btree-many) per call. Keys are big-endian numbers or decimal digits, because both sort as
 * the numbers do. */
#include "lladd.h"

#include <lladd/btree.h>
#include <lladd/pages.h>

#include <stdlib.h>
#include <string.h>

#define ROOT "bench"
#define MANY 64

static int of(struct bench_txn *txn, const char *what, int rc)
{
    return bench_lladd_failed(what, rc, rc ? lladd_txn_error((struct lladd_txn *)txn) : NULL);
}

static int create(struct bench_db *b)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct bench_txn *txn;
    lladd_pageno root;
    o.key_size = b->setup.key_size;
    o.value_size = b->setup.value_size;
    int rc = bench_lladd_begin(b, NULL, &txn);
    if (!rc)
        rc = of(txn, "create", lladd_btree_create((struct lladd_txn *)txn, &o, &root));
    if (!rc)
        rc = of(txn, "create", lladd_root_set((struct lladd_txn *)txn, ROOT,
                                              (struct lladd_root_value){root.v, 0}));
    return rc ? rc : bench_lladd_commit(b, txn);
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v;
    int rc = bench_lladd_open(s, out);
    if (rc)
        return rc;
    struct bench_db *b = *out;
    rc = lladd_root_get(b->db, ROOT, &v, &err);
    if (rc == LLADD_NOT_FOUND) {
        rc = create(b);
        rc = rc ? rc : lladd_root_get(b->db, ROOT, &v, &err);
    }
    rc = rc ? rc : lladd_btree_open(b->db, lladd_page_of(v.a), &b->btree, &err);
    return bench_lladd_failed("open", rc, &err);
}

static int close_it(struct bench_db *b)
{
    lladd_btree_close(b->btree);
    return bench_lladd_close(b);
}

static void leave(struct bench_db *b, struct bench_thread *t)
{
    lladd_btree_cursor_close(t->cursor);
    bench_lladd_leave(b, t);
}

static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    bench_digits(room, key, b->setup.key_size);
    return of(txn, "insert",
              lladd_btree_insert((struct lladd_txn *)txn, b->btree, room, b->setup.key_size, value,
                                 b->setup.value_size));
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char room[BENCH_KEY_MAX];
    bench_digits(room, key, b->setup.key_size);
    return of(txn, "put",
              lladd_btree_put((struct lladd_txn *)txn, b->btree, room, b->setup.key_size, value,
                              b->setup.value_size));
}

static int fill_many(struct bench_db *b, struct bench_txn *txn, uint64_t first, uint64_t count,
                     const void *values)
{
    struct lladd_btree_row rows[MANY];
    unsigned char keys[MANY][BENCH_KEY_MAX];
    const uint32_t key_size = b->setup.key_size, size = b->setup.value_size;
    int rc = 0;
    for (uint64_t at = 0; !rc && at < count; at += MANY) {
        size_t n = count - at < MANY ? (size_t)(count - at) : MANY;
        for (size_t i = 0; i < n; i++) {
            bench_digits(keys[i], first + at + i, key_size);
            rows[i] = (struct lladd_btree_row){keys[i], key_size,
                                               (const char *)values + (at + i) * size, size};
        }
        rc = lladd_btree_insert_many((struct lladd_txn *)txn, b->btree, rows, n, NULL);
    }
    return of(txn, "insert_many", rc);
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char room[BENCH_KEY_MAX];
    (void)t;
    bench_digits(room, key, b->setup.key_size);
    return bench_lladd_failed("get",
                              lladd_btree_get(b->btree, room, b->setup.key_size, value,
                                              b->setup.value_size, NULL, &err),
                              &err);
}

static int lookup_many(struct bench_db *b, const uint64_t *keys, size_t n, void *values,
                       unsigned char *found)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_btree_query q[MANY];
    unsigned char room[MANY][BENCH_KEY_MAX];
    const uint32_t size = b->setup.value_size;
    for (size_t at = 0; at < n; at += MANY) {
        size_t m = n - at < MANY ? n - at : MANY;
        for (size_t i = 0; i < m; i++) {
            bench_digits(room[i], keys[at + i], b->setup.key_size);
            q[i] = (struct lladd_btree_query){.key = room[i],
                                              .key_len = b->setup.key_size,
                                              .buf = (char *)values + (at + i) * size,
                                              .size = size};
        }
        int rc = lladd_btree_get_many(b->btree, q, m, &err);
        if (rc)
            return bench_lladd_failed("get_many", rc, &err);
        for (size_t i = 0; i < m; i++)
            found[at + i] = q[i].rc == 0;
    }
    return 0;
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char room[BENCH_KEY_MAX];
    struct lladd_span k, v;
    const size_t size = b->setup.value_size;
    *seen = 0;
    int rc = t->cursor ? 0 : lladd_btree_cursor_open(b->btree, &t->cursor, &err);
    if (rc)
        return bench_lladd_failed("cursor", rc, &err);
    bench_digits(room, key, b->setup.key_size);
    rc = lladd_btree_cursor_seek(t->cursor, room, b->setup.key_size, &err);
    while (!rc && *seen < n) {
        rc = lladd_btree_cursor_row(t->cursor, &k, &v, &err);
        if (rc)
            break;
        memcpy((char *)values + *seen * size, v.data, v.len);
        if (++*seen < n)
            rc = lladd_btree_cursor_next(t->cursor, &err);
    }
    return rc == LLADD_END ? 0 : bench_lladd_failed("scan", rc, &err);
}

#define BTREE \
    BENCH_LLADD, .open = open_it, .close = close_it, .join = bench_lladd_join, .leave = leave, \
    .insert = insert, .update = update, .lookup = lookup, .lookup_many = lookup_many, \
    .scan = scan, .records = true
const struct bench_engine bench_engine_lladd_btree = {BTREE, .name = "lladd-btree"};
const struct bench_engine bench_engine_lladd_btree_many = {
    BTREE, .name = "lladd-btree-many", .fill = fill_many};
