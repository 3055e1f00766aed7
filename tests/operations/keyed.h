/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_OPERATIONS_KEYED_H
#define TESTS_OPERATIONS_KEYED_H
/*
 * The calls that hash tables and B+trees share, for tests of both:
 *
 *     keyed_create(txn, KEYED_BTREE, 8, 0, &root);          keys of 8 bytes, values of any length
 *     keyed_open(db, KEYED_BTREE, root, &k, &err);
 *     keyed_put(txn, &k, key, 8, value, len);
 *     keyed_close(&k);
 *
 * The calls return what lladd_hash_... or lladd_btree_... returns.
 */
#include <lladd/btree.h>
#include <lladd/hash.h>

enum keyed_kind { KEYED_HASH, KEYED_HASH_PHYSICAL, KEYED_BTREE, KEYED_KINDS };

/* A handle. */
struct keyed {
    enum keyed_kind kind;
    struct lladd_hash *hash;
    struct lladd_btree *tree; /* used if the kind is KEYED_BTREE */
};

struct keyed_stats {
    uint64_t rows, splits, merges;
};

int keyed_create(struct lladd_txn *, enum keyed_kind, uint32_t key_size, uint32_t value_size,
                 lladd_pageno *root);
int keyed_destroy(struct lladd_txn *, enum keyed_kind, lladd_pageno root);
int keyed_open(struct lladd_db *, enum keyed_kind, lladd_pageno root, struct keyed *,
               struct lladd_error *);
void keyed_close(struct keyed *);
int keyed_insert(struct lladd_txn *, const struct keyed *, const void *key, size_t key_len,
                 const void *value, size_t value_len);
int keyed_put(struct lladd_txn *, const struct keyed *, const void *key, size_t key_len,
              const void *value, size_t value_len);
int keyed_delete(struct lladd_txn *, const struct keyed *, const void *key, size_t key_len);
int keyed_get(const struct keyed *, const void *key, size_t key_len, void *buf, size_t size,
              size_t *len, struct lladd_error *);
int keyed_check(const struct keyed *, struct lladd_error *);
int keyed_stats_get(const struct keyed *, struct keyed_stats *, struct lladd_error *);

#endif
