/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole tables: statistics, the list of pages, and a check. No other thread may change the table
 * meanwhile (otherwise statistics may be slightly wrong). */
#include "operations/hash/table.h"

#include <lladd/blob.h>

#include <string.h>

/* Calls fn for each page of each bucket, overflow pages included, latched shared. */
struct place {
    uint64_t bucket, n;
    uint32_t in_chain; /* 0: the head */
};
typedef int bucket_fn(void *ctx, struct ll_hash_table *, const struct place *, struct lladd_view,
                      struct lladd_error *);

/* Whatever stands on it, its entries are in the page. */
static bool makes_sense(const struct ll_hash_table *t, struct lladd_view v)
{
    return ll_hash__head_fine(v) && lladd_get48(v.bytes + HB_ROOT) == t->root.v &&
           hb_get(v.bytes, HB_KEY) == t->key_size && hb_get(v.bytes, HB_VALUE) == t->value_size;
}

static int each_page(struct ll_hash_table *t, bucket_fn *fn, void *ctx, struct lladd_error *err)
{
    struct place at = {0};
    int rc = ll_hash__buckets(t, &at.n, err);
    for (; at.bucket < at.n && !rc; at.bucket++) {
        struct lladd_page *head, *page, *next = NULL;
        rc = ll_operations__fix(t->db, ll_operations__run_page(&t->run, at.bucket),
                                ll_hash__bucket_page.name, LLADD_LATCH_SHARED, &head, err);
        if (rc)
            return rc;
        page = head;
        for (at.in_chain = 0; !rc; at.in_chain++) {
            struct lladd_view v = lladd_page_view(page);
            rc = makes_sense(t, v) ? fn(ctx, t, &at, v, err)
                                   : ll_hash__corrupt(err, v.number,
                                                      "is no bucket of this table");
            if (!rc && at.in_chain > lladd_page_count(t->db))
                rc = ll_hash__corrupt(err, head->number, "the chain of its bucket does not end");
            if (!rc)
                rc = ll_hash__fix_next(t, head, page, LLADD_LATCH_SHARED, &next, err);
            if (page != head)
                lladd_unfix(t->db, page, LLADD_LATCH_SHARED);
            page = rc ? head : next;
        }
        lladd_unfix(t->db, head, LLADD_LATCH_SHARED);
        rc = rc == LLADD_END ? 0 : rc;
    }
    return rc;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int add_stats(void *ctx, struct ll_hash_table *t, const struct place *at,
                     struct lladd_view v, struct lladd_error *err)
{
    struct lladd_hash_stats *s = ctx;
    (void)t;
    (void)err;
    s->buckets = at->n;
    s->elements += hb_get(v.bytes, HB_LIVE);
    s->ghosts += hb_get(v.bytes, HB_GHOSTS);
    s->overflow_pages += at->in_chain > 0;
    if (at->in_chain > s->longest_chain)
        s->longest_chain = at->in_chain;
    for (uint32_t i = 0; i < hb_get(v.bytes, HB_SLOTS); i++) {
        struct hb_entry e;
        if (ll_hash__entry(v, i, &e) && !(e.tag & HB_GHOST))
            s->blobs += (e.key_len & HB_BLOB ? 1u : 0u) + (e.value_len & HB_BLOB ? 1u : 0u);
    }
    return 0;
}

static int count_extent(void *ctx, lladd_pageno first, uint64_t n)
{
    (void)first;
    *(uint64_t *)ctx += n;
    return 0;
}

int lladd_hash_stats(struct lladd_hash *h, struct lladd_hash_stats *out, struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct lladd_hash_stats s = {.struct_size = out->struct_size};
    int rc = each_page(t, add_stats, &s, err);
    if (!rc)
        rc = ll_operations__run_each(&t->run, count_extent, &s.pages, err);
    if (rc)
        return rc;
    s.pages += 1 + s.overflow_pages;
    s.splits = lladd_atomic_load64(&t->splits);
    s.merges = lladd_atomic_load64(&t->merges);
    memcpy(out, &s, out->struct_size < sizeof s ? out->struct_size : sizeof s);
    return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Page numbers, gathered under latches and used when there are none. */
struct numbers {
    uint64_t *at;
    size_t n, cap;
};

static int add_number(struct ll_hash_table *t, struct numbers *m, uint64_t number,
                      struct lladd_error *err)
{
    if (m->n == m->cap) {
        size_t cap = 2 * m->cap + 32;
        uint64_t *p = lladd_resize(t->db, m->at, cap * sizeof *p);
        if (!p)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a table's pages");
        m->at = p;
        m->cap = cap;
    }
    m->at[m->n++] = number;
    return 0;
}

/* Overflow pages, and the blobs of elements. */
struct parts {
    struct numbers overflow, blobs;
};

static int list_parts(void *ctx, struct ll_hash_table *t, const struct place *at,
                      struct lladd_view v, struct lladd_error *err)
{
    struct parts *p = ctx;
    int rc = at->in_chain ? add_number(t, &p->overflow, v.number.v, err) : 0;
    for (uint32_t i = 0; !t->fixed && i < hb_get(v.bytes, HB_SLOTS) && !rc; i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e) || e.tag & HB_GHOST)
            continue;
        if (e.key_len & HB_BLOB)
            rc = add_number(t, &p->blobs, lladd_get64(e.key + HB_KEY_REF - 8), err);
        if (!rc && e.value_len & HB_BLOB)
            rc = add_number(t, &p->blobs, lladd_get64(e.value + HB_VALUE_REF - 8), err);
    }
    return rc;
}

static void parts_free(struct ll_hash_table *t, struct parts *p)
{
    lladd_free(t->db, p->overflow.at);
    lladd_free(t->db, p->blobs.at);
}

struct lister {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int list_extent(void *ctx, lladd_pageno first, uint64_t n)
{
    const struct lister *l = ctx;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = l->fn(l->ctx, lladd_page_of(first.v + i));
    return rc;
}

int lladd_hash_pages(struct lladd_hash *h, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                     struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct lister l = {fn, ctx};
    struct parts p = {.overflow = {.at = NULL}};
    int rc = each_page(t, list_parts, &p, err);
    for (size_t i = 0; i < p.overflow.n && !rc; i++)
        rc = fn(ctx, lladd_page_of(p.overflow.at[i]));
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_pages(t->db, lladd_page_of(p.blobs.at[i]), fn, ctx, err);
    parts_free(t, &p);
    if (!rc)
        rc = ll_operations__run_each(&t->run, list_extent, &l, err);
    return rc ? rc : fn(ctx, t->root);
}

/* ---- checking -------------------------------------------------------------------------------- */

struct checker {
    /* The keys of the present bucket so far. */
    unsigned char *keys;
    size_t len, cap;
};

static int remember(struct checker *c, struct ll_hash_table *t, const struct hb_entry *e,
                    struct lladd_error *err)
{
    size_t need = 2 + HB_LEN(e->key_len);
    if (c->cap - c->len < need) {
        size_t cap = 2 * c->cap + need + 4096;
        unsigned char *p = lladd_resize(t->db, c->keys, cap);
        if (!p)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a check");
        c->keys = p;
        c->cap = cap;
    }
    lladd_put16(c->keys + c->len, e->key_len);
    lladd_copy(c->keys + c->len + 2, e->key, HB_LEN(e->key_len));
    c->len += need;
    return 0;
}

static bool is_there(const struct checker *c, const struct hb_entry *e)
{
    for (size_t at = 0; at < c->len;) {
        uint16_t len = lladd_get16(c->keys + at);
        size_t same = len & HB_BLOB ? HB_KEY_REF_SAME : len;
        if (len == e->key_len && memcmp(c->keys + at + 2, e->key, same) == 0)
            return true;
        at += 2 + (size_t)HB_LEN(len);
    }
    return false;
}

static int check_entry(struct checker *c, struct ll_hash_table *t, struct lladd_view v,
                       uint32_t slot, struct lladd_error *err)
{
    struct hb_entry e;
    struct hb_place place;
    if (!ll_hash__entry(v, slot, &e))
        return 0;
    uint64_t hash = ll_hash__of(t, e.key, e.key_len);
    struct hb_key key = {
        .bytes = e.key, .len = e.key_len, .tag = (uint16_t)(e.tag & (HB_GHOST - 1))};
    if (!hb_covers(v.bytes, hash))
        return ll_hash__corrupt(err, v.number, "has a key that belongs to another bucket");
    if (key.tag != hb_tag(hash))
        return ll_hash__corrupt(err, v.number, "has a key with a wrong tag");
    ll_hash__find(v, &key, &place);
    if (place.slot != slot)
        return ll_hash__corrupt(err, v.number, "has a key that a search does not find");
    if (is_there(c, &e))
        return ll_hash__corrupt(err, v.number, "has a key that its bucket has twice");
    return remember(c, t, &e, err);
}

static int check_page(void *ctx, struct ll_hash_table *t, const struct place *at,
                      struct lladd_view v, struct lladd_error *err)
{
    struct checker *c = ctx;
    if (!at->in_chain)
        c->len = 0;
    if (!ll_hash__fine(v))
        return ll_hash__corrupt(err, v.number, "is no bucket that makes sense");
    if (lladd_get48(v.bytes + HB_BUCKET) != at->bucket ||
        v.bytes[HB_LEVEL] != ll_hash__level(at->bucket, at->n) ||
        v.bytes[HB_FLAGS] != (at->in_chain ? HB_OVERFLOW : 0))
        return ll_hash__corrupt(err, v.number, "is not the bucket it should be");
    int rc = 0;
    for (uint32_t i = 0; i < hb_get(v.bytes, HB_SLOTS) && !rc; i++)
        rc = check_entry(c, t, v, i, err);
    return rc;
}

static int check_use(void *ctx, lladd_pageno page)
{
    enum lladd_page_use use;
    struct lladd_db *db = ctx;
    int rc = lladd_page_use(db, page, &use, NULL);
    return rc ? rc : use == LLADD_USE_PAGED ? 0 : LLADD_CORRUPT_PAGE;
}

static int check_blobs(struct ll_hash_table *t, struct lladd_error *err)
{
    struct parts p = {.overflow = {.at = NULL}};
    int rc = each_page(t, list_parts, &p, err);
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_check(t->db, lladd_page_of(p.blobs.at[i]), err);
    parts_free(t, &p);
    return rc;
}

int lladd_hash_check(struct lladd_hash *h, struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct checker c = {.keys = NULL};
    ll_hash__forget(t); /* as if it were opened anew */
    int rc = each_page(t, check_page, &c, err);
    lladd_free(t->db, c.keys);
    if (rc)
        return rc;
    rc = check_blobs(t, err);
    if (rc)
        return rc;
    rc = lladd_hash_pages(h, check_use, t->db, err);
    if (rc == LLADD_CORRUPT_PAGE)
        return ll_hash__corrupt(err, t->root, "a page of its table is not allocated");
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int destroy(struct lladd_txn *txn, struct ll_hash_table *t)
{
    struct parts p = {.overflow = {.at = NULL}};
    int rc = each_page(t, list_parts, &p, lladd_txn_error_out(txn));
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_destroy(txn, lladd_page_of(p.blobs.at[i]));
    for (size_t i = 0; i < p.overflow.n && !rc; i++)
        rc = lladd_page_free(txn, lladd_page_of(p.overflow.at[i]));
    parts_free(t, &p);
    if (!rc)
        rc = ll_operations__run_free(txn, &t->run);
    if (!rc)
        rc = lladd_update(txn, t->hashes->destroy, t->root, NULL, 0);
    return rc ? rc : lladd_page_free(txn, t->root);
}

int lladd_hash_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_hash_table *t;
    lladd_savepoint_id before;
    uint64_t n;
    if (ll_hash__find_table(ll_hashes_of(lladd_txn_db(txn)), root, &t))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    int rc = ll_hash__buckets(t, &n, err);
    if (!rc)
        rc = ll_hash__claim(txn, t);
    if (!rc)
        rc = lladd_savepoint(txn, &before);
    if (rc)
        return rc;
    rc = ll_operations__all_or_nothing(txn, before, destroy(txn, t));
    if (rc)
        return rc;
    lladd_atomic_store32(&t->destroyed, 1);
    ll_hash__forget(t);
    return lladd_savepoint_release(txn, before);
}
