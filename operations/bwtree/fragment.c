/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fragments: pages of trees as bytes in the store. docs/structures-bwtree.md has the format. A
 * fragment that was read is checked before its page is used: any bytes give a page or an error.
 */
#include "operations/bwtree/stored.h"

enum { KIND_BASE = 1 };

/* ---- writing --------------------------------------------------------------------------------- */

/* A key's bytes; `few` has room for those of a small tree. */
static const unsigned char *bytes_of(const struct lladd_bwtree *t, struct bw_key key,
                                     unsigned char few[8])
{
    if (!t->small)
        return key.bytes;
    lladd_put64(few, __builtin_bswap64(key.head));
    return few;
}

static size_t put_key(const struct lladd_bwtree *t, unsigned char *to, struct bw_key key)
{
    unsigned char few[8];
    lladd_copy(to, bytes_of(t, key, few), key.len);
    return key.len;
}

static size_t measure(const struct lladd_bwtree *t, const struct bw_page *p)
{
    size_t len = BW_FRAGMENT_HEAD + p->low_len + (p->right == BW_NONE ? 0u : p->high_len);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t value_len;
        bw_row_value(t, p, i, &value_len);
        len += 2 + (size_t)bw_row_key(t, p, i).len + 4 + value_len;
    }
    return len;
}

int ll_bwtree__fragment_make(struct bw_stored *s, uint32_t pid, const struct bw_page *p,
                             uint64_t bound, uint32_t *len)
{
    struct bw_store *store = s->store;
    const struct lladd_bwtree *t = s->tree;
    size_t most = measure(t, p);
    if (most > UINT32_MAX / 2 ||
        ll_operations__grow(store->db, &store->fragment, most, &store->cap_fragment, 1))
        return LLADD_NO_MEMORY;
    unsigned char *head = store->fragment, *to = head + BW_FRAGMENT_HEAD;
    memset(head, 0, BW_FRAGMENT_HEAD);
    lladd_put64(head + 8, s->id);
    lladd_put32(head + 16, pid);
    head[20] = KIND_BASE;
    head[21] = p->s.level;
    lladd_put16(head + 22, BW_VERSION);
    lladd_put64(head + 24, bound);
    lladd_put32(head + 32, p->n);
    lladd_put32(head + 36, p->right);
    lladd_put16(head + 40, p->low_len);
    lladd_put16(head + 42, p->right == BW_NONE ? 0 : p->high_len);
    to += put_key(t, to, bw_low(t, p));
    if (p->right != BW_NONE)
        to += put_key(t, to, bw_high(t, p));
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t value_len;
        const unsigned char *value = bw_row_value(t, p, i, &value_len);
        struct bw_key key = bw_row_key(t, p, i);
        lladd_put16(to, (uint16_t)key.len);
        lladd_put32(to + 2, value_len);
        to += 6 + put_key(t, to + 6, key);
        lladd_copy(to, value, value_len);
        to += value_len;
    }
    *len = (uint32_t)(to - head);
    lladd_put32(head, *len);
    lladd_put32(head + 4, lladd_crc32c(0, head + 8, *len - 8));
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    struct lladd_bwtree *t;
    uint32_t pid, n, right;
    uint8_t level;
    struct bw_key low, high;
    const unsigned char *at, *end;
    struct bw_piece *pieces; /* one for each row */
    unsigned char *deltas;   /* memory of the rows' deltas */
    struct lladd_error *err;
};

static int wrong(const struct reading *r, const char *what)
{
    return lladd_error_set(r->err, LLADD_CORRUPT_PAGE, "page %u of Bw-tree %llu in the store: %s",
                           r->pid, (unsigned long long)r->t->stored->id, what);
}

static int read_head(struct reading *r, const unsigned char *bytes, size_t len)
{
    uint32_t low_len, high_len;
    if (len < BW_FRAGMENT_HEAD || lladd_get32(bytes) != len)
        return wrong(r, "its fragment has another length");
    if (lladd_crc32c(0, bytes + 8, len - 8) != lladd_get32(bytes + 4))
        return wrong(r, "its fragment has a wrong checksum");
    if (lladd_get16(bytes + 22) > BW_VERSION)
        return lladd_error_set(r->err, LLADD_NEWER_FORMAT,
                               "page %u of Bw-tree %llu has version %u, this library knows "
                               "versions up to %d",
                               r->pid, (unsigned long long)r->t->stored->id,
                               lladd_get16(bytes + 22), BW_VERSION);
    if (lladd_get64(bytes + 8) != r->t->stored->id || lladd_get32(bytes + 16) != r->pid ||
        bytes[20] != KIND_BASE)
        return wrong(r, "its fragment is of another page");
    r->level = bytes[21];
    r->n = lladd_get32(bytes + 32);
    r->right = lladd_get32(bytes + 36);
    low_len = lladd_get16(bytes + 40);
    high_len = lladd_get16(bytes + 42);
    r->at = bytes + BW_FRAGMENT_HEAD;
    r->end = bytes + len;
    if (low_len > LLADD_BWTREE_KEY_MAX || high_len > LLADD_BWTREE_KEY_MAX ||
        (size_t)(r->end - r->at) < (size_t)low_len + high_len ||
        r->n > (size_t)(r->end - r->at) / 6)
        return wrong(r, "its fragment is too short");
    uint32_t size = r->t->small ? r->t->key_size : 0;
    if (size && ((low_len && low_len != size) || (high_len && high_len != size)))
        return wrong(r, "a bound has a wrong length");
    r->low = bw_key_of(r->at, low_len);
    r->high = bw_key_of(r->at + low_len, high_len);
    r->at += low_len + high_len;
    return 0;
}

static bool lengths_fit(const struct reading *r, uint32_t key_len, uint32_t value_len)
{
    const struct lladd_bwtree *t = r->t;
    if (key_len > LLADD_BWTREE_KEY_MAX || value_len > LLADD_BWTREE_VALUE_MAX)
        return false;
    if (r->level > 0) /* dividers may be shorter than keys */
        return value_len == 4 && (!t->small || key_len == t->key_size);
    return (!t->key_size || key_len == t->key_size) &&
           (!t->value_size || value_len == t->value_size);
}

/* Makes the delta of a row, as which the row goes into the page. */
static const struct bw_delta *row_delta(struct reading *r, struct bw_key key, uint32_t value_len)
{
    struct lladd_bwtree *t = r->t;
    enum bw_kind kind = r->level ? BW_TERM : BW_PUT;
    struct bw_delta *d = (struct bw_delta *)r->deltas;
    const unsigned char *value = key.bytes + key.len;
    r->deltas += ll_bwtree__delta_size(t, kind, key.len, 0, value_len);
    *d = (struct bw_delta){.s = {.kind = (uint8_t)kind, .level = r->level},
                           .head = key.head,
                           .value_len = value_len,
                           .key_len = (uint16_t)key.len};
    unsigned char *to = d->bytes + (r->level ? 8 : 0);
    if (!t->small) {
        lladd_copy(to, key.bytes, key.len);
        to += key.len;
    }
    if (r->level)
        d->child = lladd_get32(value);
    else
        lladd_copy(to, value, value_len);
    return d;
}

/* The keys ascend, and are in the page's range. An inner page begins with its low key. */
static bool in_order(const struct reading *r, struct bw_key key, struct bw_key before, bool first)
{
    const struct lladd_bwtree *t = r->t;
    int c = bw_compare(t, key, before);
    if (first ? c < 0 || (r->level > 0 && c != 0) : c <= 0)
        return false;
    return r->right == BW_NONE || bw_compare(t, key, r->high) < 0;
}

static int read_rows(struct reading *r)
{
    struct bw_key before = r->low;
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->end - r->at < 6)
            return wrong(r, "a row is cut off");
        uint32_t key_len = lladd_get16(r->at), value_len = lladd_get32(r->at + 2);
        if (!lengths_fit(r, key_len, value_len) ||
            (size_t)(r->end - r->at) - 6 < (size_t)key_len + value_len)
            return wrong(r, "a row has a wrong length");
        struct bw_key key = bw_key_of(r->at + 6, key_len);
        if (!in_order(r, key, before, i == 0))
            return wrong(r, "its keys are not in order");
        r->pieces[i] = (struct bw_piece){NULL, 0, 0, row_delta(r, key, value_len)};
        r->at += 6 + key_len + value_len;
        before = key;
    }
    return r->at == r->end ? 0 : wrong(r, "there are bytes after its rows");
}

static int build(struct reading *r, uint64_t bound, struct bw_page **out)
{
    const struct bw_plan plan = {.level = r->level,
                                 .pieces = r->pieces,
                                 .n_pieces = r->n,
                                 .low = r->low,
                                 .high = r->high,
                                 .right = r->right,
                                 .slab = true,
                                 .bound = bound};
    *out = ll_bwtree__page_build(r->t, &plan);
    return *out ? 0 : ll_bwtree__no_memory(r->err, "a page that is read in");
}

int ll_bwtree__fragment_read(struct lladd_bwtree *t, uint32_t pid, const unsigned char *bytes,
                             size_t len, struct bw_page **out, struct lladd_error *err)
{
    struct reading r = {.t = t, .pid = pid, .err = err};
    struct lladd_db *db = t->db;
    TRY(read_head(&r, bytes, len));
    if (r.level > 0 && r.n == 0)
        return wrong(&r, "it has no children");
    if ((r.right == BW_NONE && r.high.len) ||
        (r.right != BW_NONE && bw_compare(t, r.high, r.low) <= 0))
        return wrong(&r, "its high key is not above its low key");
    /* The delta of a row takes the row's bytes and a constant. */
    size_t pieces = ((size_t)r.n + 1) * sizeof *r.pieces;
    size_t deltas = (size_t)r.n * (sizeof(struct bw_delta) + 16) + len;
    r.pieces = lladd_mem_alloc(db, pieces + deltas);
    if (!r.pieces)
        return ll_bwtree__no_memory(err, "a page that is read in");
    r.deltas = (unsigned char *)r.pieces + (pieces + 7) / 8 * 8;
    void *memory = r.pieces;
    int rc = read_rows(&r);
    if (!rc)
        rc = build(&r, lladd_get64(bytes + 24), out);
    lladd_mem_free(db, memory);
    return rc;
}
