/* SPDX-License-Identifier: BSD-2-Clause */
/* Cursors. A cursor has a copy of a leaf, made under the leaf's latch. A move within the leaf uses
 * the copy if the page still has the copy's LSN. Then the contents are the same, because page LSNs
 * never fall (BUF-6) and a node page stays a node page (BPT-5). Otherwise the cursor descends again
 * from its present key. A move from the last row of a leaf goes along the leaf's right link, and
 * descends only if the right link does not lead to the next key any more.
 *
 * Neighbouring keys. The smallest key greater than k is k followed by a byte 0. before(k) is a key
 * less than k, such that no key of a tree lies between before(k) and k. If the last byte of k is 0,
 * before(k) is k without this byte. Otherwise before(k) is k with its last byte less one, followed
 * by bytes 255 up to a length that no key has. So a move back is a descent too, and needs no links
 * to the left. */
#include "operations/btree/tree.h"

#include <lladd/optimistic.h>

#define LSN_AT 8u /* the page LSN in the page header (docs/disk-format.md) */

struct lladd_btree_cursor {
    struct ll_btree_tree *t;
    enum { NOWHERE, FIRST_END, AT_ROW, LAST_END } where;
    lladd_pageno number; /* page of the copied leaf, 0: none */
    uint32_t size, slot; /* slot: with AT_ROW */
    unsigned char *page; /* the copy */
    unsigned char *value;
    size_t value_size;
    uint32_t low_len, high_len;
    bool has_low, has_high;
    unsigned char low[BT_KEY_MAX], high[BT_KEY_MAX];
    unsigned char from[BT_KEY_MAX + 2]; /* the key of a descent */
};

int lladd_btree_cursor_open(struct lladd_btree *h, struct lladd_btree_cursor **out,
                            struct lladd_error *err)
{
    struct ll_btree_tree *t = NULL;
    uint64_t top;
    TRY(ll_btree__tree_of(h, &t, err));
    TRY(ll_btree__top(t, &top, err));
    uint32_t size = lladd_page_size(t->db);
    struct lladd_btree_cursor *c = lladd_mem_alloc(t->db, sizeof *c + size);
    if (!c)
        return ll_btree__no_memory(err, "a cursor");
    memset(c, 0, sizeof *c);
    c->t = t;
    c->size = size;
    c->page = (unsigned char *)(c + 1);
    *out = c;
    return 0;
}

void lladd_btree_cursor_close(struct lladd_btree_cursor *c)
{
    if (!c)
        return;
    lladd_mem_free(c->t->db, c->value);
    lladd_mem_free(c->t->db, c);
}

static int check_bound(const struct ll_btree_tree *t, const void *key, size_t len,
                       struct lladd_error *err)
{
    if (!key || len <= t->key_max)
        return 0;
    return lladd_error_set(err, LLADD_TOO_LARGE, "a bound of %zu bytes is too long", len);
}

static void set_bound(const void *key, size_t len, unsigned char *to, uint32_t *to_len, bool *has)
{
    *has = key != NULL;
    if (!key)
        return;
    memcpy(to, key, len);
    *to_len = (uint32_t)len;
}

int lladd_btree_cursor_bounds(struct lladd_btree_cursor *c, const void *low, size_t low_len,
                              const void *high, size_t high_len, struct lladd_error *err)
{
    if (c->where != NOWHERE)
        return lladd_error_set(err, LLADD_BAD_STATE, "bounds are set before the first move");
    TRY(check_bound(c->t, low, low_len, err));
    TRY(check_bound(c->t, high, high_len, err));
    set_bound(low, low_len, c->low, &c->low_len, &c->has_low);
    set_bound(high, high_len, c->high, &c->high_len, &c->has_high);
    return 0;
}

/* ---- neighbouring keys ----------------------------------------------------------------------- */

static struct bt_key key_here(const struct lladd_btree_cursor *c)
{
    struct bt_entry e = bt_entry_of(c->page, c->slot);
    return bt_entry_key(&e);
}

static struct bt_key copy_key(struct lladd_btree_cursor *c, struct bt_key key)
{
    memmove(c->from, key.bytes, key.len);
    return (struct bt_key){c->from, key.len};
}

/* The key after this one. */
static struct bt_key after(struct lladd_btree_cursor *c, struct bt_key key)
{
    struct bt_key k = copy_key(c, key);
    c->from[k.len++] = 0;
    return k;
}

/* *out gets a key that is not less than any key before this one. False: no key is before this
 * one. */
static bool before(struct lladd_btree_cursor *c, struct bt_key key, struct bt_key *out)
{
    *out = copy_key(c, key);
    if (key.len == 0)
        return false;
    if (c->from[key.len - 1] == 0) {
        out->len--;
        return true;
    }
    c->from[key.len - 1]--;
    memset(c->from + key.len, 255, sizeof c->from - key.len);
    out->len = sizeof c->from;
    return true;
}

/* ---- the leaf -------------------------------------------------------------------------------- */

/* Copies the key's leaf. `near`: as in ll_btree__fix_near. */
static int load(struct lladd_btree_cursor *c, struct bt_key key, lladd_pageno near,
                struct lladd_error *err)
{
    struct lladd_page *leaf;
    c->number = lladd_page_of(0); /* no leaf, until the copy is complete */
    TRY(ll_btree__fix_near(c->t, near, key, &leaf, err));
    memcpy(c->page, leaf->bytes, c->size);
    c->number = leaf->number;
    lladd_page_unfix(c->t->db, leaf, LLADD_LATCH_SHARED);
    return 0;
}

/* Does the leaf still have the contents of the copy? */
static bool is_fresh(const struct lladd_btree_cursor *c)
{
    struct lladd_read g;
    uint64_t lsn;
    if (!c->number.v || lladd_atomic_load32(&c->t->destroyed) ||
        !lladd_read_begin(c->t->db, c->number, &g))
        return false;
    lladd_read_copy(&g, LSN_AT, &lsn, 1);
    return lladd_read_validate(&g) && LLADD_LE64(lsn) == lladd_get64(c->page + LSN_AT);
}

static bool is_ghost(const struct lladd_btree_cursor *c, uint32_t slot)
{
    struct bt_entry e = bt_entry_of(c->page, slot);
    return (e.key_len & BT_GHOST) != 0;
}

/* Sets the position to the first row from this slot on; false: the leaf has none. */
static bool up_from(struct lladd_btree_cursor *c, uint32_t slot)
{
    uint32_t slots = bt_get(c->page, BT_SLOTS);
    while (slot < slots && is_ghost(c, slot))
        slot++;
    c->slot = slot;
    return slot < slots;
}

/* Sets the position to the last row before this slot. */
static bool down_from(struct lladd_btree_cursor *c, uint32_t slot)
{
    while (slot > 0 && is_ghost(c, slot - 1))
        slot--;
    c->slot = slot - 1;
    return slot > 0;
}

static int ends(struct lladd_btree_cursor *c, bool up)
{
    c->where = up ? LAST_END : FIRST_END;
    return LLADD_END;
}

/* The cursor has come to a row: checks that the row is within the bounds. */
static int arrive(struct lladd_btree_cursor *c, bool up)
{
    struct bt_key key = key_here(c), low = {c->low, c->low_len}, high = {c->high, c->high_len};
    if (up ? c->has_high && bt_compare(key, high) >= 0 : c->has_low && bt_compare(key, low) < 0)
        return ends(c, up);
    c->where = AT_ROW;
    return 0;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static lladd_pageno no_page(void)
{
    return lladd_page_of(0);
}

static lladd_pageno right_of(const struct lladd_btree_cursor *c)
{
    return lladd_page_of(lladd_get48(c->page + BT_RIGHT));
}

/* Moves to the first row at or after the key. `near`: as in ll_btree__fix_near. */
static int up_to(struct lladd_btree_cursor *c, struct bt_key key, lladd_pageno near,
                 struct lladd_error *err)
{
    struct bt_key low = {c->low, c->low_len};
    struct bt_place place;
    if (c->has_low && bt_compare(key, low) < 0)
        key = low;
    for (;;) {
        TRY(load(c, key, near, err));
        ll_btree__find(c->page, c->size, key, &place);
        if (up_from(c, place.slot))
            return arrive(c, true);
        struct bt_fences f = bt_fences_of(c->page, c->size);
        if (f.open_end)
            return ends(c, true);
        key = copy_key(c, f.high);
        near = right_of(c);
    }
}

/* Moves to the last row at or before the key. */
static int down_to(struct lladd_btree_cursor *c, struct bt_key key, struct lladd_error *err)
{
    struct bt_key high = {c->high, c->high_len};
    struct bt_place place;
    if (c->has_high && bt_compare(key, high) >= 0 && !before(c, high, &key))
        return ends(c, false);
    for (;;) {
        TRY(load(c, key, no_page(), err));
        ll_btree__find(c->page, c->size, key, &place);
        if (down_from(c, place.slot + place.found))
            return arrive(c, false);
        if (!before(c, bt_fences_of(c->page, c->size).low, &key))
            return ends(c, false);
    }
}

/* After an error that has left no copy, the cursor is at no row. */
static int moved(struct lladd_btree_cursor *c, int rc)
{
    if (rc && rc != LLADD_END)
        c->where = NOWHERE;
    return rc;
}

int lladd_btree_cursor_first(struct lladd_btree_cursor *c, struct lladd_error *err)
{
    return moved(c, up_to(c, (struct bt_key){c->from, 0}, no_page(), err));
}

int lladd_btree_cursor_last(struct lladd_btree_cursor *c, struct lladd_error *err)
{
    memset(c->from, 255, sizeof c->from);
    return moved(c, down_to(c, (struct bt_key){c->from, sizeof c->from}, err));
}

static int seek_key(struct lladd_btree_cursor *c, const void *key, size_t len, struct bt_key *out,
                    struct lladd_error *err)
{
    if (len > c->t->key_max)
        return lladd_error_set(err, LLADD_TOO_LARGE,
                               "a key of %zu bytes: in this database they have at most %u", len,
                               c->t->key_max);
    *out = copy_key(c, (struct bt_key){key, (uint32_t)len});
    return 0;
}

int lladd_btree_cursor_seek(struct lladd_btree_cursor *c, const void *key, size_t key_len,
                            struct lladd_error *err)
{
    struct bt_key k;
    int rc = seek_key(c, key, key_len, &k, err);
    return moved(c, rc ? rc : up_to(c, k, no_page(), err));
}

int lladd_btree_cursor_seek_for_prev(struct lladd_btree_cursor *c, const void *key, size_t key_len,
                                     struct lladd_error *err)
{
    struct bt_key k;
    int rc = seek_key(c, key, key_len, &k, err);
    return moved(c, rc ? rc : down_to(c, k, err));
}

int lladd_btree_cursor_next(struct lladd_btree_cursor *c, struct lladd_error *err)
{
    if (c->where == LAST_END)
        return LLADD_END;
    if (c->where != AT_ROW)
        return lladd_btree_cursor_first(c, err);
    if (__builtin_expect(is_fresh(c), 1)) {
        struct bt_fences f = bt_fences_of(c->page, c->size);
        if (up_from(c, c->slot + 1))
            return arrive(c, true);
        return f.open_end ? ends(c, true)
                          : moved(c, up_to(c, copy_key(c, f.high), right_of(c), err));
    }
    return moved(c, up_to(c, after(c, key_here(c)), no_page(), err));
}

int lladd_btree_cursor_prev(struct lladd_btree_cursor *c, struct lladd_error *err)
{
    struct bt_key key;
    if (c->where == FIRST_END)
        return LLADD_END;
    if (c->where != AT_ROW)
        return lladd_btree_cursor_last(c, err);
    bool fresh = is_fresh(c);
    key = key_here(c);
    if (fresh && down_from(c, c->slot))
        return arrive(c, false);
    if (fresh)
        key = bt_fences_of(c->page, c->size).low;
    return before(c, key, &key) ? moved(c, down_to(c, key, err)) : ends(c, false);
}

int lladd_btree_cursor_row(struct lladd_btree_cursor *c, struct lladd_span *key,
                           struct lladd_span *value, struct lladd_error *err)
{
    if (c->where != AT_ROW)
        return lladd_error_set(err, LLADD_BAD_STATE, "the cursor is at no row");
    struct bt_entry e = bt_entry_of(c->page, c->slot);
    *key = lladd_span_of(e.key, BT_LEN(e.key_len));
    if (!value)
        return 0;
    *value = lladd_span_of(e.value, BT_LEN(e.value_len));
    if (!(e.value_len & BT_BLOB))
        return 0;
    size_t len = 0;
    int rc = ll_btree__read_whole(c->t, bt_entry_key(&e), &c->value, &c->value_size, &len, err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(err, rc, "the row has been removed since the cursor came to it");
    *value = lladd_span_of(c->value, rc ? 0 : len);
    return rc;
}

int lladd_btree_next_key(struct lladd_btree *h, const void *key, size_t key_len, bool after_it,
                         void *buf, size_t size, size_t *len, struct lladd_error *err)
{
    struct lladd_btree_cursor *c = NULL;
    struct bt_key k;
    TRY(lladd_btree_cursor_open(h, &c, err));
    int rc = seek_key(c, key, key_len, &k, err);
    if (!rc)
        rc = up_to(c, after_it ? after(c, k) : k, no_page(), err);
    if (!rc) {
        struct bt_key found = key_here(c);
        *len = found.len;
        lladd_copy(buf, found.bytes, found.len < size ? found.len : size);
    }
    lladd_btree_cursor_close(c);
    return rc;
}
