/* SPDX-License-Identifier: BSD-2-Clause */
/* Engines of this library: the hash table, with logical or with physical undo, and the array, which
 * W2 fills with one element or with many elements per call. The root "bench" leads to the
 * structure. */
#include "lladd.h"

#include <lladd/array.h>
#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/pages.h>

#include <stdlib.h>

#define ROOT "bench"
#define MANY 64

/* The structure's root page, created if the database is new. */
static int find_root(struct bench_db *b, bool array, lladd_pageno *out, struct lladd_error *err)
{
    struct lladd_root_value v;
    struct lladd_txn *txn;
    int rc = lladd_root_get(b->db, ROOT, &v, err);
    if (rc != LLADD_NOT_FOUND) {
        *out = lladd_page_of(v.a);
        return rc;
    }
    rc = lladd_begin(b->db, NULL, &txn, err);
    if (rc)
        return rc;
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = b->setup.key_size;
    o.value_size = b->setup.value_size;
    rc = array ? lladd_array_create(txn, b->setup.value_size, b->setup.expected, out)
               : lladd_hash_create(txn, &o, out);
    if (!rc)
        rc = lladd_root_set(txn, ROOT, (struct lladd_root_value){out->v, 0});
    if (rc)
        *err = *lladd_txn_error(txn);
    int ended = rc ? lladd_abort(txn) : lladd_commit(txn);
    return rc ? rc : ended;
}

static int open_with(const struct bench_setup *s, struct lladd_options *o, bool array,
                     unsigned flags, struct bench_db **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_pageno root;
    int rc = bench_lladd_open_with(s, o, out);
    if (rc)
        return rc;
    struct bench_db *b = *out;
    rc = find_root(b, array, &root, &err);
    if (!rc)
        rc = array ? lladd_array_open(b->db, root, &b->array, &err)
                   : lladd_hash_open(b->db, root, flags, &b->hash, &err);
    return bench_lladd_failed("open", rc, &err);
}

static int open_as(const struct bench_setup *s, bool array, unsigned flags, struct bench_db **out)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    return open_with(s, &o, array, flags, out);
}

static int open_archived(const struct bench_setup *s, struct bench_db **out)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct bench_archive a;
    int rc = bench_lladd_archive(s, &o, &a);
    rc = rc ? rc : open_with(s, &o, false, LLADD_HASH_LOGICAL, out);
    lladd_options_release(&o);
    if (rc)
        return rc;
    (*out)->archive = a;
    return bench_lladd_catch_up(*out);
}

static int open_logical(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, LLADD_HASH_LOGICAL, out);
}

static int open_physical(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, false, LLADD_HASH_PHYSICAL, out);
}

static int open_array(const struct bench_setup *s, struct bench_db **out)
{
    return open_as(s, true, 0, out);
}

static int close_all(struct bench_db *b)
{
    if (b->hash)
        lladd_hash_close(b->hash);
    if (b->array)
        lladd_array_close(b->array);
    return bench_lladd_close(b);
}

static int of(struct bench_txn *txn, const char *what, int rc)
{
    return bench_lladd_failed(what, rc, rc ? lladd_txn_error((struct lladd_txn *)txn) : NULL);
}

/* ---- the hash table -------------------------------------------------------------------------- */

static int hash_insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char bytes[8];
    lladd_put64(bytes, key);
    return of(txn, "insert",
              lladd_hash_insert((struct lladd_txn *)txn, b->hash, bytes, b->setup.key_size, value,
                                b->setup.value_size));
}

static int hash_update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    unsigned char bytes[8];
    lladd_put64(bytes, key);
    return of(txn, "put",
              lladd_hash_put((struct lladd_txn *)txn, b->hash, bytes, b->setup.key_size, value,
                             b->setup.value_size));
}

static int hash_lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char bytes[8];
    size_t len;
    (void)t;
    lladd_put64(bytes, key);
    return bench_lladd_failed("get",
                  lladd_hash_get(b->hash, bytes, b->setup.key_size, value, b->setup.value_size,
                                 &len, &err),
                  &err);
}

static int hash_lookup_many(struct bench_db *b, const uint64_t *keys, size_t n, void *values,
                            unsigned char *found)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_hash_query q[MANY];
    unsigned char bytes[MANY][8];
    const uint32_t size = b->setup.value_size;
    for (size_t at = 0; at < n; at += MANY) {
        size_t m = n - at < MANY ? n - at : MANY;
        for (size_t i = 0; i < m; i++) {
            lladd_put64(bytes[i], keys[at + i]);
            q[i] = (struct lladd_hash_query){.key = bytes[i],
                                             .key_len = b->setup.key_size,
                                             .buf = (char *)values + (at + i) * size,
                                             .size = size};
        }
        int rc = lladd_hash_get_many(b->hash, q, m, &err);
        if (rc)
            return bench_lladd_failed("get_many", rc, &err);
        for (size_t i = 0; i < m; i++)
            found[at + i] = q[i].rc == 0;
    }
    return 0;
}

/* ---- the array ------------------------------------------------------------------------------- */

static int array_set(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    return of(txn, "set", lladd_array_set((struct lladd_txn *)txn, b->array, key, value));
}

static int array_lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    (void)t;
    return bench_lladd_failed("get", lladd_array_get(b->array, key, value, &err), &err);
}

static int array_fill_bulk(struct bench_db *b, struct bench_txn *txn, uint64_t first,
                           uint64_t count, const void *values)
{
    return of(txn, "set_range",
              lladd_array_set_range((struct lladd_txn *)txn, b->array, first, count, values));
}

/* ---- the engines ----------------------------------------------------------------------------- */

#define HASH \
    BENCH_LLADD, .close = close_all, .insert = hash_insert, .update = hash_update, \
    .lookup = hash_lookup, .lookup_many = hash_lookup_many
#define ARRAY \
    BENCH_LLADD, .close = close_all, .numbered = true, .open = open_array, .insert = array_set, \
    .update = array_set, .lookup = array_lookup
const struct bench_engine bench_engine_lladd_hash = {
    HASH, .name = "lladd-hash", .open = open_logical};
const struct bench_engine bench_engine_lladd_hash_archived = {
    HASH, .name = "lladd-hash-archived", .open = open_archived};
const struct bench_engine bench_engine_lladd_hash_physical = {
    HASH, .name = "lladd-hash-physical", .open = open_physical, .one_changer = true};
const struct bench_engine bench_engine_lladd_array = {
    ARRAY, .name = "lladd-array", .records = true};
const struct bench_engine bench_engine_lladd_array_bulk = {
    ARRAY, .name = "lladd-array-bulk", .records = true,
    .fill = array_fill_bulk};
