/* SPDX-License-Identifier: BSD-2-Clause */
/* This library: the hash table with logical and with physical undo, and the array, an element a
 * call and many a call. Known by the root "bench". */
#include "engine.h"

#include <lladd/array.h>
#include <lladd/bytes.h>
#include <lladd/hash.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "bench"
#define MANY 64

struct bench_db {
    struct lladd_db *db;
    struct lladd_hash *hash;
    struct lladd_array *array;
    struct bench_setup setup;
};

static int failed(const char *what, int rc, const struct lladd_error *err)
{
    if (rc == 0)
        return 0;
    if (rc == LLADD_NOT_FOUND)
        return BENCH_ABSENT;
    if (lladd_code_root(rc) == LLADD_ROOT_RETRY)
        return BENCH_AGAIN;
    fprintf(stderr, "lladd: %s: %s\n", what, err && err->code ? err->message : lladd_code_text(rc));
    return BENCH_FAILED;
}

/* The structure's root page, made if the database is new. */
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

static int open_as(const struct bench_setup *s, bool array, unsigned flags, struct bench_db **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct bench_db *b = calloc(1, sizeof *b);
    lladd_pageno root;
    if (!b)
        return BENCH_FAILED;
    b->setup = *s;
    o.cache_bytes = s->cache_bytes;
    o.log_ring_bytes = 16u << 20;
    o.log_segment_min = 1u << 20;
    int rc = lladd_open(s->dir, &o, &b->db, &err);
    if (!rc)
        rc = find_root(b, array, &root, &err);
    if (!rc)
        rc = array ? lladd_array_open(b->db, root, &b->array, &err)
                   : lladd_hash_open(b->db, root, flags, &b->hash, &err);
    *out = b;
    return failed("open", rc, &err);
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
    int rc = lladd_close(b->db);
    free(b);
    return failed("close", rc, NULL);
}

static int begin(struct bench_db *b, struct bench_txn **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    int rc = lladd_begin(b->db, NULL, &txn, &err);
    *out = (struct bench_txn *)txn;
    return failed("begin", rc, &err);
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return failed("commit", lladd_commit((struct lladd_txn *)txn), NULL);
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    return failed("abort", lladd_abort((struct lladd_txn *)txn), NULL);
}

static int of(struct bench_txn *txn, const char *what, int rc)
{
    return failed(what, rc, rc ? lladd_txn_error((struct lladd_txn *)txn) : NULL);
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

static int hash_lookup(struct bench_db *b, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char bytes[8];
    size_t len;
    lladd_put64(bytes, key);
    return failed("get",
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
            return failed("get_many", rc, &err);
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

static int array_lookup(struct bench_db *b, uint64_t key, void *value)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    return failed("get", lladd_array_get(b->array, key, value, &err), &err);
}

static int array_fill(struct bench_db *b, struct bench_txn *txn, uint64_t first, uint64_t count,
                      const void *values)
{
    int rc = 0;
    for (uint64_t i = 0; !rc && i < count; i++)
        rc = array_set(b, txn, first + i, (const char *)values + i * b->setup.value_size);
    return rc;
}

static int array_fill_bulk(struct bench_db *b, struct bench_txn *txn, uint64_t first,
                           uint64_t count, const void *values)
{
    return of(txn, "set_range",
              lladd_array_set_range((struct lladd_txn *)txn, b->array, first, count, values));
}

/* ---- the table ------------------------------------------------------------------------------- */

static void io(struct bench_db *b, uint64_t *log_bytes, uint64_t *pages_read,
               uint64_t *pages_written)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    if (lladd_stats(b->db, &s))
        return;
    *log_bytes = s.log_bytes;
    *pages_read = s.pages_read;
    *pages_written = s.pages_written;
}

#define SETTINGS "pages of 4 KiB; log ring 16 MiB; library threads on"
#define COMMON \
    .version = lladd_version, .settings = SETTINGS, .close = close_all, .begin = begin, \
    .commit = commit, .abort = roll_back, .io = io
#define HASH \
    .insert = hash_insert, .update = hash_update, .lookup = hash_lookup, \
    .lookup_many = hash_lookup_many
const struct bench_engine bench_engine_lladd_hash = {
    COMMON, HASH, .name = "lladd-hash", .open = open_logical};
const struct bench_engine bench_engine_lladd_hash_physical = {
    COMMON, HASH, .name = "lladd-hash-physical", .open = open_physical};
const struct bench_engine bench_engine_lladd_array = {
    COMMON, .name = "lladd-array", .open = open_array, .insert = array_set, .update = array_set,
    .lookup = array_lookup, .fill = array_fill};
const struct bench_engine bench_engine_lladd_array_bulk = {
    COMMON, .name = "lladd-array-bulk", .open = open_array, .insert = array_set,
    .update = array_set, .lookup = array_lookup, .fill = array_fill_bulk};
