/* SPDX-License-Identifier: BSD-2-Clause */
/* All of a table: its statistics, its pages, whether it is in order, and its end. Nobody changes it
 * meanwhile (statistics may then be a little off, no worse). */
#include "operations/hash/table.h"

#include <string.h>

/* Calls fn for each page of each bucket, overflow pages included, latched shared. */
struct place {
    uint64_t bucket, n;
    uint32_t in_chain; /* 0: the head */
};
typedef int bucket_fn(void *ctx, struct ll_hash_table *, const struct place *, struct lladd_view,
                      struct lladd_error *);

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
            rc = fn(ctx, t, &at, lladd_page_view(page), err);
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

struct lister {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int list_overflow(void *ctx, struct ll_hash_table *t, const struct place *at,
                         struct lladd_view v, struct lladd_error *err)
{
    const struct lister *l = ctx;
    (void)t;
    (void)err;
    return at->in_chain ? l->fn(l->ctx, v.number) : 0;
}

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
    int rc = each_page(t, list_overflow, &l, err);
    if (!rc)
        rc = ll_operations__run_each(&t->run, list_extent, &l, err);
    return rc ? rc : fn(ctx, t->root);
}

/* ---- is it in order? ------------------------------------------------------------------------- */

struct checker {
    /* The keys of the bucket so far. */
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
    struct hb_key key = {e.key, e.key_len, (uint16_t)(e.tag & (HB_GHOST - 1))};
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
    if (!ll_hash__fine(v) || lladd_get48(v.bytes + HB_ROOT) != t->root.v ||
        hb_get(v.bytes, HB_KEY) != t->key_size || hb_get(v.bytes, HB_VALUE) != t->value_size)
        return ll_hash__corrupt(err, v.number, "is no bucket of this table that makes sense");
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

int lladd_hash_check(struct lladd_hash *h, struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct checker c = {.keys = NULL};
    ll_hash__forget(t); /* as if it were opened anew */
    int rc = each_page(t, check_page, &c, err);
    lladd_free(t->db, c.keys);
    if (rc)
        return rc;
    rc = lladd_hash_pages(h, check_use, t->db, err);
    if (rc == LLADD_CORRUPT_PAGE)
        return ll_hash__corrupt(err, t->root, "a page of its table is not allocated");
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int free_overflow(void *ctx, struct ll_hash_table *t, const struct place *at,
                         struct lladd_view v, struct lladd_error *err)
{
    struct checker *c = ctx; /* of page numbers */
    struct hb_entry e = {.key_len = 8};
    unsigned char number[8];
    if (!at->in_chain)
        return 0;
    lladd_put64(number, v.number.v);
    e.key = number;
    return remember(c, t, &e, err);
}

static int destroy(struct lladd_txn *txn, struct ll_hash_table *t)
{
    struct checker pages = {.keys = NULL};
    int rc = each_page(t, free_overflow, &pages, lladd_txn_error_out(txn));
    for (size_t at = 0; at < pages.len && !rc; at += 10)
        rc = lladd_page_free(txn, lladd_page_of(lladd_get64(pages.keys + at + 2)));
    lladd_free(t->db, pages.keys);
    if (!rc)
        rc = ll_operations__run_free(txn, &t->run);
    if (!rc)
        rc = lladd_update(txn, t->hashes->destroy, t->root, NULL, 0);
    return rc ? rc : lladd_page_free(txn, t->root);
}

int lladd_hash_destroy(struct lladd_txn *txn, lladd_pageno root)
{
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
