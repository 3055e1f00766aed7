/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole tables: statistics, the list of pages, and a check. If other threads change the table
 * meanwhile, statistics mix states of different moments. The caller must keep the table from
 * changing while the list of pages is made, and while the check runs. */
#include "operations/hash/table.h"

#include <lladd/blob.h>

#include <string.h>

/* ---- statistics ------------------------------------------------------------------------------ */

static int add_stats(void *ctx, struct ll_hash_table *t, const struct ll_hash_place *at,
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

int lladd_hash_stats_get(struct lladd_hash *h, struct lladd_hash_stats *out,
                         struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct lladd_hash_stats s = {.struct_size = out->struct_size};
    TRY(ll_hash__each_page(t, add_stats, &s, err));
    TRY(ll_operations__extents_each(&t->run, count_extent, &s.pages, err));
    s.pages += 1 + s.overflow_pages;
    s.splits = lladd_atomic_load64(&t->splits);
    s.merges = lladd_atomic_load64(&t->merges);
    memcpy(out, &s, out->struct_size < sizeof s ? out->struct_size : sizeof s);
    return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

int lladd_hash_pages(struct lladd_hash *h, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                     struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct ll_hash_parts p = {.overflow = {.at = NULL}};
    int rc = ll_hash__each_page(t, ll_hash__list_parts, &p, err);
    for (size_t i = 0; i < p.overflow.n && !rc; i++)
        rc = fn(ctx, lladd_page_of(p.overflow.at[i]));
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_pages(t->db, lladd_page_of(p.blobs.at[i]), fn, ctx, err);
    ll_hash__parts_free(t, &p);
    if (!rc)
        rc = ll_operations__extents_each_page(&t->run, fn, ctx, err);
    return rc ? rc : fn(ctx, t->root);
}

/* ---- checking -------------------------------------------------------------------------------- */

struct checker {
    unsigned char *keys; /* keys of the part of the bucket that has been checked */
    size_t len, cap;
};

static int remember(struct checker *c, struct ll_hash_table *t, const struct hb_entry *e,
                    struct lladd_error *err)
{
    size_t need = 2 + HB_LEN(e->key_len);
    if (ll_operations__grow(t->db, &c->keys, c->len + need, &c->cap, 1))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a check");
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

static int check_page(void *ctx, struct ll_hash_table *t, const struct ll_hash_place *at,
                      struct lladd_view v, struct lladd_error *err)
{
    struct checker *c = ctx;
    if (!at->in_chain)
        c->len = 0;
    if (!ll_hash__fine(v))
        return ll_hash__corrupt(err, v.number, "is not a valid bucket");
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
    int rc = lladd_page_use_get(db, page, &use, NULL);
    return rc ? rc : use == LLADD_USE_PAGED ? 0 : LLADD_CORRUPT_PAGE;
}

static int check_blobs(struct ll_hash_table *t, struct lladd_error *err)
{
    struct ll_hash_parts p = {.overflow = {.at = NULL}};
    int rc = ll_hash__each_page(t, ll_hash__list_parts, &p, err);
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_check(t->db, lladd_page_of(p.blobs.at[i]), err);
    ll_hash__parts_free(t, &p);
    return rc;
}

int lladd_hash_check(struct lladd_hash *h, struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    struct checker c = {.keys = NULL};
    ll_hash__forget(t); /* so that the number of buckets is read from the root page */
    int rc = ll_hash__each_page(t, check_page, &c, err);
    lladd_mem_free(t->db, c.keys);
    if (rc)
        return rc;
    TRY(check_blobs(t, err));
    rc = lladd_hash_pages(h, check_use, t->db, err);
    if (rc == LLADD_CORRUPT_PAGE)
        return ll_hash__corrupt(err, t->root, "a page of its table is not allocated");
    return rc;
}
