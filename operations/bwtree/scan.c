/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cursors. A cursor has a copy of a leaf, made as a consolidation makes a page. A move compares the
 * number of the leaf's state with that of the copy: a leaf's numbers never repeat, while memory of
 * an old state may be used again (BWM-5). If the numbers are equal, the copy is the leaf at this
 * moment. Otherwise the cursor copies the leaf again, from the key of its row; also if any page was
 * removed since, because the leaf's PID may be free now, or name another page (BWM-7).
 *
 * From the end of a leaf the cursor goes on at the leaf's high key, or in the leaf that ends at its
 * low key, by a descent. The copy covers the keys between both, so no row is left out or met twice.
 */
#include "operations/bwtree/bwtree.h"

struct lladd_bwtree_cursor {
    struct lladd_bwtree *t;
    enum { NOWHERE, FIRST_END, AT_ROW, LAST_END } where;
    struct bw_page *copy; /* or NULL */
    uint32_t pid;         /* of the copied leaf */
    uint64_t removed;     /* how many pages had been removed before it was copied */
    uint32_t at;          /* the row, with AT_ROW */
    bool has_low, has_high;
    struct bw_key low, high; /* bounds */
    unsigned char low_bytes[LLADD_BWTREE_KEY_MAX], high_bytes[LLADD_BWTREE_KEY_MAX];
    unsigned char from[LLADD_BWTREE_KEY_MAX]; /* the key of a descent */
    unsigned char shown[8];                   /* the key of the row, in a small tree */
};

int lladd_bwtree_cursor_open(struct lladd_bwtree *t, struct lladd_bwtree_cursor **out,
                             struct lladd_error *err)
{
    struct lladd_bwtree_cursor *c = ll_bwtree__alloc(t, sizeof *c);
    *out = c;
    if (!c)
        return ll_bwtree__no_memory(err, "a cursor");
    memset(c, 0, sizeof *c);
    c->t = t;
    return 0;
}

static void forget(struct lladd_bwtree_cursor *c)
{
    if (c->copy)
        ll_bwtree__page_free(c->t, c->copy);
    c->copy = NULL;
}

void lladd_bwtree_cursor_close(struct lladd_bwtree_cursor *c)
{
    if (!c)
        return;
    forget(c);
    ll_bwtree__free(c->t, c, sizeof *c);
}

static int set_bound(struct lladd_bwtree *t, const void *key, size_t len, unsigned char *bytes,
                     struct bw_key *to, bool *has, struct lladd_error *err)
{
    *has = key != NULL;
    if (!key)
        return 0;
    TRY(ll_bwtree__key(t, key, len, to, err));
    memcpy(bytes, key, len);
    to->bytes = bytes;
    return 0;
}

int lladd_bwtree_cursor_bounds(struct lladd_bwtree_cursor *c, const void *low, size_t low_len,
                               const void *high, size_t high_len, struct lladd_error *err)
{
    if (c->where != NOWHERE)
        return lladd_error_set(err, LLADD_BAD_STATE, "bounds are set before the first move");
    TRY(set_bound(c->t, low, low_len, c->low_bytes, &c->low, &c->has_low, err));
    return set_bound(c->t, high, high_len, c->high_bytes, &c->high, &c->has_high, err);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

/* The key in memory of the cursor, as the key of the next descent. */
static struct bw_key keep(struct lladd_bwtree_cursor *c, struct bw_key key)
{
    if (c->t->small || key.len == BW_END)
        return key;
    memmove(c->from, key.bytes, key.len);
    key.bytes = c->from;
    return key;
}

/* Copies the leaf that has the aim. */
static int copy_leaf(struct lladd_bwtree_cursor *c, const struct bw_aim *aim,
                     struct lladd_error *err)
{
    struct bw_call call;
    forget(c);
    c->where = NOWHERE;
    TRY(ll_bwtree__enter(c->t, &call, err));
    c->removed = lladd_atomic_look64(&c->t->removed);
    const struct bw_state *s = ll_bwtree__find(&call, aim, 0, &c->pid);
    c->copy = ll_bwtree__fold(c->t, s, false);
    if (c->copy)
        c->copy->s.number = s->number;
    bw_leave(&call);
    return c->copy ? 0 : ll_bwtree__no_memory(err, "a cursor's leaf");
}

/* Is the copy still the leaf? After an error the cursor is at no row. */
static int is_present(struct lladd_bwtree_cursor *c, bool *out, struct lladd_error *err)
{
    struct bw_call call;
    int rc = ll_bwtree__enter(c->t, &call, err);
    if (rc) {
        c->where = NOWHERE;
        return rc;
    }
    *out = lladd_atomic_look64(&c->t->removed) == c->removed;
    if (*out) {
        const struct bw_state *s = bw_load(c->t, c->pid);
        *out = s->level == 0 && s->number == c->copy->s.number;
    }
    bw_leave(&call);
    return 0;
}

static int end_of(struct lladd_bwtree_cursor *c, bool back, struct lladd_error *err)
{
    c->where = back ? FIRST_END : LAST_END;
    return lladd_error_set(err, LLADD_END, "there are no more rows");
}

/* The cursor is at row `at` of its copy, if that row is in the bounds. */
static int stop_at(struct lladd_bwtree_cursor *c, uint32_t at, bool back, struct lladd_error *err)
{
    struct bw_key key = bw_row_key(c->t, c->copy, at);
    c->at = at;
    c->where = AT_ROW;
    if (back && c->has_low && bw_compare(c->t, key, c->low) < 0)
        return end_of(c, back, err);
    if (!back && c->has_high && bw_compare(c->t, key, c->high) >= 0)
        return end_of(c, back, err);
    return 0;
}

/* Moves to the first row from the key on or, with `after`, to the first one after the key. */
static int forward(struct lladd_bwtree_cursor *c, struct bw_key key, bool after,
                   struct lladd_error *err)
{
    if (c->has_low && bw_compare(c->t, key, c->low) < 0) {
        key = c->low;
        after = false;
    }
    for (;; after = false) {
        const struct bw_aim aim = {.key = keep(c, key)};
        TRY(copy_leaf(c, &aim, err));
        uint32_t at = ll_bwtree__lower(c->t, c->copy, aim.key, 0, c->copy->n);
        at += after && ll_bwtree__row_is(c->t, c->copy, at, aim.key);
        if (at < c->copy->n)
            return stop_at(c, at, false, err);
        if (c->copy->right == BW_NONE)
            return end_of(c, false, err);
        key = bw_high(c->t, c->copy);
        if (c->has_high && bw_compare(c->t, key, c->high) >= 0)
            return end_of(c, false, err);
    }
}

/* Moves to the last row below the key or, with `or_at`, to the last one up to the key. */
static int backward(struct lladd_bwtree_cursor *c, struct bw_key key, bool or_at,
                    struct lladd_error *err)
{
    if (c->has_high && bw_compare(c->t, key, c->high) >= 0) {
        key = c->high;
        or_at = false;
    }
    for (;; or_at = false) {
        const struct bw_aim aim = {.key = keep(c, key), .below = !or_at};
        TRY(copy_leaf(c, &aim, err));
        uint32_t at = ll_bwtree__lower(c->t, c->copy, aim.key, 0, c->copy->n);
        at += or_at && ll_bwtree__row_is(c->t, c->copy, at, aim.key);
        if (at > 0)
            return stop_at(c, at - 1, true, err);
        if (bw_is_first(c->copy))
            return end_of(c, true, err);
        key = bw_low(c->t, c->copy);
        if (c->has_low && bw_compare(c->t, key, c->low) <= 0)
            return end_of(c, true, err);
    }
}

/* ---- moves ----------------------------------------------------------------------------------- */

static struct bw_key lowest(void)
{
    return (struct bw_key){(const unsigned char *)"", 0, 0};
}

static struct bw_key beyond(void)
{
    return (struct bw_key){NULL, BW_END, UINT64_MAX};
}

int lladd_bwtree_cursor_first(struct lladd_bwtree_cursor *c, struct lladd_error *err)
{
    return forward(c, lowest(), false, err);
}

int lladd_bwtree_cursor_last(struct lladd_bwtree_cursor *c, struct lladd_error *err)
{
    return backward(c, beyond(), false, err);
}

int lladd_bwtree_cursor_seek(struct lladd_bwtree_cursor *c, const void *key, size_t key_len,
                             struct lladd_error *err)
{
    struct bw_key k;
    c->where = NOWHERE;
    TRY(ll_bwtree__key(c->t, key, key_len, &k, err));
    return forward(c, k, false, err);
}

int lladd_bwtree_cursor_seek_for_prev(struct lladd_bwtree_cursor *c, const void *key,
                                      size_t key_len, struct lladd_error *err)
{
    struct bw_key k;
    c->where = NOWHERE;
    TRY(ll_bwtree__key(c->t, key, key_len, &k, err));
    return backward(c, k, true, err);
}

int lladd_bwtree_cursor_next(struct lladd_bwtree_cursor *c, struct lladd_error *err)
{
    bool present;
    if (c->where == LAST_END)
        return end_of(c, false, err);
    if (c->where != AT_ROW)
        return forward(c, lowest(), false, err);
    TRY(is_present(c, &present, err));
    if (present && c->at + 1 < c->copy->n)
        return stop_at(c, c->at + 1, false, err);
    return forward(c, bw_row_key(c->t, c->copy, c->at), true, err);
}

int lladd_bwtree_cursor_prev(struct lladd_bwtree_cursor *c, struct lladd_error *err)
{
    bool present;
    if (c->where == FIRST_END)
        return end_of(c, true, err);
    if (c->where != AT_ROW)
        return backward(c, beyond(), false, err);
    TRY(is_present(c, &present, err));
    if (present && c->at > 0)
        return stop_at(c, c->at - 1, true, err);
    return backward(c, bw_row_key(c->t, c->copy, c->at), false, err);
}

int lladd_bwtree_cursor_row(struct lladd_bwtree_cursor *c, struct lladd_span *key,
                            struct lladd_span *value, struct lladd_error *err)
{
    if (c->where != AT_ROW)
        return lladd_error_set(err, LLADD_BAD_STATE, "the cursor is at no row");
    struct bw_key k = bw_row_key(c->t, c->copy, c->at);
    if (c->t->small) {
        lladd_put64(c->shown, __builtin_bswap64(k.head));
        k.bytes = c->shown;
    }
    *key = lladd_span_of(k.bytes, k.len);
    if (value) {
        uint32_t len;
        const unsigned char *bytes = bw_row_value(c->t, c->copy, c->at, &len);
        *value = lladd_span_of(bytes, len);
    }
    return 0;
}
