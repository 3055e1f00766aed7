/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups. Short values are read without a latch (lladd/optimistic.h), others under the leaf's
 * shared latch. A value in a blob is read without a latch on the leaf. As in
 * operations/hash/read.c, such a value is valid if after the read the row still refers to the same
 * blob, and the blob's root page still has the same version. After some failed attempts, the value
 * is read under the leaf's latch, so that no writer can replace it meanwhile. */
#include "operations/btree/tree.h"
#include "operations/blob/blob.h"

#include <lladd/blob.h>
#include <lladd/optimistic.h>

#define SHORT_BYTES 256u /* longest value that is copied in an optimistic read */
#define UNLATCHED 4u     /* attempts to read a blob without the latch */

/* A lookup. */
struct look {
    struct ll_btree_tree *t;
    struct bt_key key;
    unsigned char *buf;
    size_t size, len;
};

/* Copies a value that has been found, if it is short and not in a blob, and the read is valid.
 * LLADD_BUSY: the caller latches the leaf. */
static inline int copy_short(struct look *l, const struct lladd_read *g, const struct bt_seen *seen)
{
    uint64_t words[SHORT_BYTES / 8 + 2];
    uint32_t len = seen->value_len;
    if (!seen->place.found || seen->key_len & BT_GHOST)
        return lladd_read_validate(g) ? LLADD_NOT_FOUND : LLADD_BUSY;
    if (len > SHORT_BYTES)
        return LLADD_BUSY;
    const unsigned char *value = ll_btree__copy(g->bytes, g->size, seen->value_at, len, words);
    if (__builtin_expect(!value || !lladd_read_validate(g), 0))
        return LLADD_BUSY;
    l->len = len;
    lladd_copy(l->buf, value, len < l->size ? len : l->size);
    return 0;
}

/* One optimistic attempt at the page. LLADD_BUSY: the page is not the leaf, or cannot be read
 * without a latch; the caller latches the leaf. */
static inline int look_optimistic(struct look *l, lladd_pageno page)
{
    struct lladd_read g;
    struct bt_seen seen;
    if (!lladd_read_begin(l->t->db, page, &g))
        return LLADD_BUSY;
    enum bt_step step = ll_btree__look(l->t, g.bytes, g.size, l->key, 0, &seen);
    return step == BT_HERE ? copy_short(l, &g, &seen) : LLADD_BUSY;
}

/* Copies the value, or the reference to its blob. The caller holds the leaf's latch. */
static int see(struct look *l, const struct lladd_page *leaf, bool *blob, unsigned char ref[BT_REF])
{
    struct bt_place place;
    ll_btree__find(leaf->bytes, leaf->size, l->key, &place);
    if (!place.found)
        return LLADD_NOT_FOUND;
    struct bt_entry e = bt_entry_of(leaf->bytes, place.slot);
    if (e.key_len & BT_GHOST)
        return LLADD_NOT_FOUND;
    *blob = (e.value_len & BT_BLOB) != 0;
    if (*blob) {
        memcpy(ref, e.value, BT_REF);
        return 0;
    }
    l->len = e.value_len;
    lladd_copy(l->buf, e.value, l->len < l->size ? l->len : l->size);
    return 0;
}

static int fix_leaf(struct look *l, struct lladd_page **out, struct lladd_error *err)
{
    return ll_btree__fix(l->t, l->key, 0, LLADD_LATCH_SHARED, out, err);
}

static int read_blob(struct look *l, const unsigned char ref[BT_REF], uint64_t *version,
                     struct lladd_error *err)
{
    lladd_pageno root = lladd_page_of(lladd_get64(ref + 8));
    uint64_t len = lladd_get64(ref);
    if (len > SIZE_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE,
                               "a value of %llu bytes is too long for a size_t",
                               (unsigned long long)len);
    l->len = (size_t)len;
    size_t n = l->len < l->size ? l->len : l->size;
    if (n == 0)
        return 0;
    TRY(ll_operations__blob_version(l->t->db, root, version, err));
    return lladd_blob_read(l->t->db, root, 0, l->buf, n, NULL, err);
}

/* Does the row still have this value? */
static int is_same(struct look *l, const unsigned char ref[BT_REF], uint64_t version, bool *same,
                   struct lladd_error *err)
{
    unsigned char now[BT_REF];
    struct lladd_page *leaf;
    struct look again = {.t = l->t, .key = l->key};
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint64_t version_now = 0;
    bool blob = false;
    TRY(fix_leaf(l, &leaf, err));
    int rc = see(&again, leaf, &blob, now);
    *same = !rc && blob && memcmp(now, ref, BT_REF) == 0;
    if (*same && l->size && l->len) /* an error counts as a change, and the value is read again */
        *same = ll_operations__blob_version(l->t->db, lladd_page_of(lladd_get64(ref + 8)),
                                            &version_now, &ignored) == 0 &&
                version_now == version;
    lladd_page_unfix(l->t->db, leaf, LLADD_LATCH_SHARED);
    return 0;
}

static int look_latched(struct look *l, struct lladd_error *err)
{
    for (unsigned tries = 0;; tries++) {
        unsigned char ref[BT_REF];
        struct lladd_page *leaf;
        uint64_t version = 0;
        bool blob = false, same = false;
        TRY(fix_leaf(l, &leaf, err));
        int rc = see(l, leaf, &blob, ref);
        if (!rc && blob && tries >= UNLATCHED)
            rc = read_blob(l, ref, &version, err);
        lladd_page_unfix(l->t->db, leaf, LLADD_LATCH_SHARED);
        if (rc || !blob || tries >= UNLATCHED)
            return rc;
        rc = read_blob(l, ref, &version, err);
        TRY(is_same(l, ref, version, &same, err));
        if (same)
            return rc;
    }
}

static inline int look_up(struct look *l, struct lladd_error *err)
{
    lladd_pageno page;
    int rc = ll_btree__descend(l->t, l->key, 0, &page, NULL, err);
    if (rc && rc != LLADD_CONFLICT)
        return rc;
    if (!rc)
        rc = look_optimistic(l, page);
    return __builtin_expect(rc == LLADD_BUSY || rc == LLADD_CONFLICT, 0) ? look_latched(l, err)
                                                                         : rc;
}

static int not_found(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NOT_FOUND, "there is no such key");
}

int lladd_btree_get(struct lladd_btree *h, const void *key, size_t key_len, void *buf, size_t size,
                    size_t *len, struct lladd_error *err)
{
    struct look l = {.key = {key, (uint32_t)key_len}, .buf = buf, .size = size};
    TRY(ll_btree__tree_of(h, &l.t, err));
    TRY(ll_btree__check_key(l.t, key_len, err));
    int rc = look_up(&l, err);
    if (!rc && len)
        *len = l.len;
    return rc == LLADD_NOT_FOUND ? not_found(err) : rc;
}

int lladd_btree_get_many(struct lladd_btree *h, struct lladd_btree_query *q, size_t n,
                         struct lladd_error *err)
{
    struct lladd_error one = LLADD_ERROR_INIT;
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        q[i].rc = lladd_btree_get(h, q[i].key, q[i].key_len, q[i].buf, q[i].size, &q[i].len,
                                  first ? NULL : &one);
        if (q[i].rc && q[i].rc != LLADD_NOT_FOUND && !first)
            first = q[i].rc;
    }
    if (first && err)
        *err = one;
    return first;
}

int ll_btree__read_whole(struct ll_btree_tree *t, struct bt_key key, unsigned char **buf,
                         size_t *size, size_t *len, struct lladd_error *err)
{
    for (;;) {
        struct look l = {.t = t, .key = key, .buf = *buf, .size = *size};
        TRY(look_up(&l, err));
        *len = l.len;
        if (l.len <= *size)
            return 0;
        unsigned char *more = lladd_mem_resize(t->db, *buf, l.len);
        if (!more)
            return ll_btree__no_memory(err, "a value");
        *buf = more;
        *size = l.len;
    }
}
