/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of lladd/btree.h that change rows. rows.c has the operations, split.c makes room.
 *
 * A change of a row is one update of its leaf. The writer descends without latches; `prepare`
 * checks under the leaf's latch that the leaf covers the key, and either drafts the record or
 * returns why it cannot. In the second case the writer follows the right link, begins again at the
 * top, reserves the key, or makes room; then the writer tries again. */
#include "operations/btree/tree.h"

#include <lladd/blob.h>

int ll_btree__tree_of(const struct lladd_btree *h, struct ll_btree_tree **out,
                      struct lladd_error *err)
{
    if (!h || !h->tree)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the B+tree is NULL");
    *out = h->tree;
    return 0;
}

static int wrong_size(struct lladd_error *err, const char *what, size_t len, uint32_t size)
{
    return lladd_error_set(err, LLADD_KEY_SIZE, "a %s of %zu bytes: in this tree they have %u",
                           what, len, size);
}

int ll_btree__key_fits(const struct ll_btree_tree *t, size_t len, struct lladd_error *err)
{
    if (t->key_size && len != t->key_size)
        return wrong_size(err, "key", len, t->key_size);
    if (len > t->key_max)
        return lladd_error_set(err, LLADD_TOO_LARGE,
                               "a key of %zu bytes: in this database they have at most %u", len,
                               t->key_max);
    return 0;
}

int ll_btree__check_key(struct ll_btree_tree *t, size_t len, struct lladd_error *err)
{
    uint64_t top;
    TRY(ll_btree__top(t, &top, err)); /* fills in the sizes */
    return ll_btree__key_fits(t, len, err);
}

int ll_btree__value_fits(const struct ll_btree_tree *t, size_t key_len, size_t len, uint16_t *out,
                         struct lladd_error *err)
{
    const uint64_t most = LLADD_BLOB_MAX;
    if (t->value_size && len != t->value_size)
        return wrong_size(err, "value", len, t->value_size);
    if (len > most)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a value of %zu bytes is too long", len);
    *out = BT_ENTRY_HEAD + key_len + len > t->entry_max ? BT_REF | BT_BLOB : (uint16_t)len;
    return 0;
}

/* ---- trying ---------------------------------------------------------------------------------- */

static int make_room(struct bt_change *c)
{
    return ll_btree__make_room(c->txn, c->tree, c->key,
                               BT_SLOT + bt_entry_size(c->key.len, BT_LEN(c->value_len)));
}

/* Acts on the answer of an attempt that has changed nothing. */
static __attribute__((noinline)) int act(struct bt_change *c, unsigned *tries, uint32_t *moved)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    if (c->answer == BT_OVER_GHOST) {
        c->op = c->tree->trees->put;
        return 0;
    }
    c->page = lladd_page_of(0);
    switch (c->answer) {
    case BT_FULL:
        TRY(ll_btree__again(c->tree, tries, err));
        return make_room(c);
    case BT_RESERVE:
        c->reserved = true;
        return ll_btree__reserve(c->txn, c->tree, c->key);
    default:
        if (c->right.v == 0)
            return ll_btree__again(c->tree, tries, err);
        if (++c->moves > lladd_page_count(c->tree->db))
            return ll_btree__corrupt(err, c->tree->root, "the right links of its tree do not end");
        c->page = c->right;
        *moved = 1;
        return 0;
    }
}

static inline int find_leaf(struct bt_change *c, unsigned *tries, uint32_t *moved)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    for (;;) {
        int rc = ll_btree__descend(c->tree, c->key, 0, &c->page, moved, err);
        if (rc != LLADD_CONFLICT)
            return rc;
        TRY(ll_btree__again(c->tree, tries, err));
    }
}

/* Changes the row by c->op. Begins at c->page, or at the top if that is 0. After a result of 0,
 * c->answer is BT_DONE, BT_PRESENT or BT_ABSENT. */
static int change(struct bt_change *c)
{
    uint32_t moved = 0;
    c->moves = 0;
    for (unsigned tries = 0;;) {
        if (c->page.v == 0)
            TRY(find_leaf(c, &tries, &moved));
        c->answer = BT_DONE;
        c->right = lladd_page_of(0);
        int rc = lladd_update(c->txn, c->op, c->page, &c, sizeof c);
        if (__builtin_expect(rc == 0, 1))
            return __builtin_expect(moved == 0, 1)
                       ? 0
                       : bt_reshape(ll_btree__complete(c->txn, c->tree, c->key, moved - 1));
        if (rc == LLADD_WRONG_TYPE && c->answer == BT_DONE)
            c->answer = BT_MOVED;
        else if (rc != LLADD_BUSY || c->answer == BT_DONE)
            return rc;
        if (c->answer == BT_PRESENT || c->answer == BT_ABSENT)
            return 0;
        TRY(act(c, &tries, &moved));
    }
}

/* ---- putting --------------------------------------------------------------------------------- */

/* Remembers the leaf if it is the last leaf of the tree and the row is the last row of the leaf. */
static inline void hint(struct bt_change *c)
{
    struct ll_btree_tree *t = c->tree;
    uint64_t last = lladd_atomic_load64(&t->last), now = c->at_end ? c->page.v : 0;
    if (last != now)
        lladd_atomic_store64(&t->last, now);
}

static inline int store(struct bt_change *c)
{
    if (c->page.v == 0)
        c->page = lladd_page_of(lladd_atomic_load64(&c->tree->last));
    TRY(change(c));
    if (c->inserted)
        hint(c);
    return 0;
}

/* With blobs, a change has several steps; a failure rolls all of them back. */
static int store_blobs(struct bt_change *c, const void *value, size_t len)
{
    unsigned char ref[BT_REF];
    lladd_savepoint_id before;
    lladd_pageno blob;
    TRY(lladd_savepoint(c->txn, &before));
    int rc = 0;
    if (c->value_len & BT_BLOB) {
        rc = lladd_blob_create(c->txn, value, len, &blob);
        lladd_put64(ref, len);
        lladd_put64(ref + 8, rc ? 0 : blob.v);
        c->value = ref;
    }
    if (!rc)
        rc = store(c);
    if (!rc && c->answer == BT_DONE && c->gone.v)
        rc = lladd_blob_destroy(c->txn, c->gone);
    if (!rc && c->answer == BT_PRESENT)
        rc = lladd_rollback_to(c->txn, before); /* removes the blob, which is not needed */
    return ll_operations__step_end(c->txn, before, rc);
}

static inline int begin(struct lladd_txn *txn, struct lladd_btree *h, const void *key,
                        size_t key_len, struct bt_change *c)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(ll_btree__tree_of(h, &c->tree, err));
    if (__builtin_expect(lladd_txn_db(txn) != c->tree->db, 0))
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "the transaction and the B+tree are of different databases");
    c->txn = txn;
    c->key = (struct bt_key){key, (uint32_t)key_len};
    c->reserved = c->inserted = c->sparse = false;
    TRY(ll_btree__check_key(c->tree, key_len, err));
    return ll_btree__changes(txn, c->tree);
}

/* May the row be logged in the short form if its key has no entry? */
static inline bool is_brief(const struct bt_change *c)
{
    return c->only && c->tree->root.v <= UINT32_MAX && !(c->value_len & BT_BLOB) &&
           BT_INSERT_HEADS + 2 * c->key.len + c->value_len <= BT_INSERT_MAX;
}

/* c->page: where to begin, or 0; afterwards the row's leaf. `only`: a row is not replaced. */
static inline int put(struct lladd_txn *txn, struct lladd_btree *h, const void *key, size_t key_len,
                      const void *value, size_t value_len, bool only, struct bt_change *c)
{
    TRY(begin(txn, h, key, key_len, c));
    c->only = only;
    TRY(ll_btree__value_fits(c->tree, key_len, value_len, &c->value_len, lladd_txn_error_out(txn)));
    c->value = value;
    c->op = is_brief(c) ? c->tree->trees->insert : c->tree->trees->put;
    /* A put destroys the blob of the value that it replaces. */
    bool plain = only ? !(c->value_len & BT_BLOB) : !c->tree->blobs;
    return __builtin_expect(plain, 1) ? store(c) : store_blobs(c, value, value_len);
}

static int exists(struct lladd_txn *txn)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_EXISTS, "the key already exists");
}

int lladd_btree_insert(struct lladd_txn *txn, struct lladd_btree *h, const void *key,
                       size_t key_len, const void *value, size_t value_len)
{
    LLADD_USE(txn);
    struct bt_change c;
    c.page = lladd_page_of(0);
    int rc = put(txn, h, key, key_len, value, value_len, true, &c);
    return rc || __builtin_expect(c.inserted, 1) ? rc : exists(txn);
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* How many of the rows, from the first one on, may be in one record of `rows`? The contents of the
 * leaf may permit fewer. */
static uint32_t alike(struct bt_change *c, const struct lladd_btree_row *r, size_t n)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint32_t i = 0;
    for (; i < n && i < BT_ROWS_MAX; i++) {
        c->key = (struct bt_key){r[i].key, (uint32_t)r[i].key_len};
        if (ll_btree__key_fits(c->tree, r[i].key_len, &ignored) ||
            ll_btree__value_fits(c->tree, r[i].key_len, r[i].value_len, &c->value_len, &ignored) ||
            !is_brief(c))
            break;
    }
    return i;
}

/* Inserts the first rows by one record, if enough of them belong into the leaf c->page. The leaf
 * must have room for these rows, and no entries with their keys. *done: how many it has
 * inserted. */
static int insert_rows(struct bt_change *c, const struct lladd_btree_row *r, size_t n, size_t *done)
{
    struct bt_rows rows = {c, r, alike(c, r, n), 0}, *args = &rows;
    *done = 0;
    if (rows.n < BT_ROWS_MIN)
        return 0;
    int rc = lladd_update(c->txn, c->tree->trees->rows, c->page, &args, sizeof args);
    if (rc == LLADD_BUSY && c->answer == BT_MOVED)
        c->page = lladd_page_of(0);
    if (rc)
        return rc == LLADD_BUSY && c->answer != BT_DONE ? 0 : rc;
    *done = rows.done;
    hint(c);
    return 0;
}

int lladd_btree_insert_many(struct lladd_txn *txn, struct lladd_btree *h,
                            const struct lladd_btree_row *r, size_t n, size_t *done)
{
    LLADD_USE(txn);
    struct bt_change c;
    size_t i = 0, some = 0;
    int rc = 0;
    c.page = lladd_page_of(0);
    for (; i < n && !rc; i += some) {
        some = 0;
        if (i) /* `put` has found a leaf for an earlier row */
            rc = insert_rows(&c, r + i, n - i, &some);
        if (rc || some)
            continue;
        rc = put(txn, h, r[i].key, r[i].key_len, r[i].value, r[i].value_len, true, &c);
        if (!rc && !c.inserted)
            rc = exists(txn);
        some = rc == 0;
    }
    if (done)
        *done = i;
    return rc;
}

int lladd_btree_put_report(struct lladd_txn *txn, struct lladd_btree *h, const void *key,
                           size_t key_len, const void *value, size_t value_len, bool *replaced)
{
    LLADD_USE(txn);
    struct bt_change c;
    c.page = lladd_page_of(0);
    int rc = put(txn, h, key, key_len, value, value_len, false, &c);
    *replaced = !rc && !c.inserted;
    return rc;
}

int lladd_btree_put(struct lladd_txn *txn, struct lladd_btree *h, const void *key, size_t key_len,
                    const void *value, size_t value_len)
{
    LLADD_USE(txn);
    bool replaced;
    return lladd_btree_put_report(txn, h, key, key_len, value, value_len, &replaced);
}

/* ---- deleting -------------------------------------------------------------------------------- */

static int take_away(struct bt_change *c)
{
    lladd_savepoint_id before;
    bool careful = c->tree->blobs;
    if (careful)
        TRY(lladd_savepoint(c->txn, &before));
    c->op = c->tree->trees->remove;
    int rc = change(c);
    if (!rc && c->answer == BT_DONE && c->gone.v)
        rc = lladd_blob_destroy(c->txn, c->gone);
    return careful ? ll_operations__step_end(c->txn, before, rc) : rc;
}

int lladd_btree_delete(struct lladd_txn *txn, struct lladd_btree *h, const void *key,
                       size_t key_len)
{
    LLADD_USE(txn);
    struct bt_change c;
    c.page = lladd_page_of(0);
    TRY(begin(txn, h, key, key_len, &c));
    TRY(ll_btree__reserve(txn, c.tree, c.key));
    TRY(take_away(&c));
    if (c.answer == BT_ABSENT)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NOT_FOUND, "there is no such key");
    if (__builtin_expect(!c.sparse, 1))
        return 0;
    int rc = bt_reshape(ll_btree__tidy(txn, c.tree)); /* merges other leaves: this one's ghost is
                                                       * reserved */
    ll_btree__note_sparse(c.tree, c.page);
    return rc;
}
