/* SPDX-License-Identifier: BSD-2-Clause */
/* See keyed.h. */
#include "keyed.h"

int keyed_create(struct lladd_txn *txn, enum keyed_kind kind, uint32_t key_size,
                 uint32_t value_size, lladd_pageno *root)
{
    struct lladd_hash_options hash = LLADD_HASH_OPTIONS_INIT;
    struct lladd_btree_options tree = LLADD_BTREE_OPTIONS_INIT;
    hash.key_size = tree.key_size = key_size;
    hash.value_size = tree.value_size = value_size;
    return kind == KEYED_BTREE ? lladd_btree_create(txn, &tree, root)
                               : lladd_hash_create(txn, &hash, root);
}

int keyed_destroy(struct lladd_txn *txn, enum keyed_kind kind, lladd_pageno root)
{
    return kind == KEYED_BTREE ? lladd_btree_destroy(txn, root) : lladd_hash_destroy(txn, root);
}

int keyed_open(struct lladd_db *db, enum keyed_kind kind, lladd_pageno root, struct keyed *k,
               struct lladd_error *err)
{
    unsigned flags = kind == KEYED_HASH_PHYSICAL ? LLADD_HASH_PHYSICAL : LLADD_HASH_LOGICAL;
    *k = (struct keyed){kind, NULL, NULL};
    return kind == KEYED_BTREE ? lladd_btree_open(db, root, &k->tree, err)
                               : lladd_hash_open(db, root, flags, &k->hash, err);
}

void keyed_close(struct keyed *k)
{
    lladd_btree_close(k->tree);
    lladd_hash_close(k->hash);
}

int keyed_insert(struct lladd_txn *txn, const struct keyed *k, const void *key, size_t key_len,
                 const void *value, size_t value_len)
{
    return k->tree ? lladd_btree_insert(txn, k->tree, key, key_len, value, value_len)
                   : lladd_hash_insert(txn, k->hash, key, key_len, value, value_len);
}

int keyed_put(struct lladd_txn *txn, const struct keyed *k, const void *key, size_t key_len,
              const void *value, size_t value_len)
{
    return k->tree ? lladd_btree_put(txn, k->tree, key, key_len, value, value_len)
                   : lladd_hash_put(txn, k->hash, key, key_len, value, value_len);
}

int keyed_delete(struct lladd_txn *txn, const struct keyed *k, const void *key, size_t key_len)
{
    return k->tree ? lladd_btree_delete(txn, k->tree, key, key_len)
                   : lladd_hash_delete(txn, k->hash, key, key_len);
}

int keyed_get(const struct keyed *k, const void *key, size_t key_len, void *buf, size_t size,
              size_t *len, struct lladd_error *err)
{
    return k->tree ? lladd_btree_get(k->tree, key, key_len, buf, size, len, err)
                   : lladd_hash_get(k->hash, key, key_len, buf, size, len, err);
}

int keyed_check(const struct keyed *k, struct lladd_error *err)
{
    return k->tree ? lladd_btree_check(k->tree, err) : lladd_hash_check(k->hash, err);
}

int keyed_stats_get(const struct keyed *k, struct keyed_stats *out, struct lladd_error *err)
{
    struct lladd_hash_stats hash = {.struct_size = sizeof hash};
    struct lladd_btree_stats tree = {.struct_size = sizeof tree};
    int rc = k->tree ? lladd_btree_stats_get(k->tree, &tree, err)
                     : lladd_hash_stats_get(k->hash, &hash, err);
    *out = k->tree ? (struct keyed_stats){tree.rows, tree.splits, tree.merges}
                   : (struct keyed_stats){hash.elements, hash.splits, hash.merges};
    return rc;
}
