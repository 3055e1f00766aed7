/* SPDX-License-Identifier: BSD-2-Clause */
/* Destroying a table, at once or in steps.
 *
 * A step is part of its transaction and rolls back with it. Each step frees pages of the run (the
 * table's extent sequence), the lowest first. If pages are left, the step writes into the root page
 * that the table is destroyed (HR_STATE) and how many pages have been freed (HR_GONE). The last
 * step also frees the chain of extents and the root page. The overflow pages and blobs of a bucket
 * are freed together with its head page; until then, all that may have changed is that blobs have
 * become shorter. Between two steps, and after a crash between them, only destroy calls and
 * lladd_hash_destroy_pages can use the table.
 *
 * A blob that is too long for a step is truncated from its end, in this step and the following
 * ones, so long values do not make a step longer. If the step's first bucket consists only of its
 * head page, overflow pages and one page of each blob, the step frees these even if they exceed its
 * limit. */
#include "operations/hash/table.h"

#include <lladd/blob.h>

struct step {
    struct lladd_txn *txn;
    struct ll_hash_table *t;
    struct ll_hash_rest rest;
    uint64_t pages; /* pages that the step may still free */
    bool all;       /* no limit */
    bool cut;       /* the bucket is too large for this step, and waits for the next one */
};

static void spend(struct step *s, uint64_t pages)
{
    s->pages -= pages < s->pages ? pages : s->pages;
}

/* ---- blobs ----------------------------------------------------------------------------------- */

struct counting {
    uint64_t n, most;
};

static int count_page(void *ctx, lladd_pageno page)
{
    struct counting *c = ctx;
    (void)page;
    return c->n++ < c->most ? 0 : LLADD_END;
}

/* Counts the pages of the blob; ends the count at `most` + 1. */
static int pages_of(struct step *s, uint64_t blob, uint64_t most, uint64_t *out)
{
    struct counting c = {0, most};
    int rc = lladd_blob_pages(s->t->db, lladd_page_of(blob), count_page, &c,
                              lladd_txn_error_out(s->txn));
    *out = c.n;
    return rc == LLADD_END ? 0 : rc;
}

/* Frees as many of the blob's last pages as the step may, but never the blob's root page. */
static int shorten(struct step *s, uint64_t blob)
{
    lladd_pageno root = lladd_page_of(blob);
    uint64_t pages, len, bytes = lladd_body_size(lladd_page_size(s->t->db));
    int rc = pages_of(s, blob, s->pages + 1, &pages);
    if (!rc)
        rc = lladd_blob_length(s->t->db, root, &len, lladd_txn_error_out(s->txn));
    if (rc || pages == 1)
        return rc;
    bool all = pages - 1 <= s->pages || len / bytes <= s->pages;
    rc = lladd_blob_truncate(s->txn, root, all ? 0 : len - s->pages * bytes);
    spend(s, pages - 1);
    return rc;
}

/* ---- a bucket -------------------------------------------------------------------------------- */

/* *least: the pages that can be freed only together with the head page, which is one of them.
 * *pages: all pages of the bucket; the count may stop once it exceeds both *least and the pages
 * that the step may free. */
static int weigh(struct step *s, const struct ll_hash_parts *p, uint64_t *pages, uint64_t *least)
{
    *least = *pages = 1 + p->overflow.n + p->blobs.n;
    const uint64_t enough = *least > s->pages ? *least : s->pages;
    for (size_t i = 0; i < p->blobs.n && *pages <= enough; i++) {
        uint64_t n;
        TRY(pages_of(s, p->blobs.at[i], s->pages + 1, &n));
        *pages += n - 1;
    }
    return 0;
}

static int free_parts(struct step *s, const struct ll_hash_parts *p)
{
    int rc = 0;
    for (size_t i = 0; i < p->blobs.n && !rc; i++)
        rc = lladd_blob_destroy(s->txn, lladd_page_of(p->blobs.at[i]));
    for (size_t i = 0; i < p->overflow.n && !rc; i++)
        rc = lladd_page_free(s->txn, lladd_page_of(p->overflow.at[i]));
    return rc;
}

/* The bucket is too large for the rest of the step: truncates its blobs as far as possible. */
static int shorten_blobs(struct step *s, const struct ll_hash_parts *p)
{
    int rc = 0;
    s->cut = true;
    for (size_t i = 0; i < p->blobs.n && s->pages && !rc; i++)
        rc = shorten(s, p->blobs.at[i]);
    return rc;
}

/* Frees the next bucket, except its head page. */
static int free_bucket(struct step *s, bool first)
{
    struct ll_hash_parts p = {.overflow = {.at = NULL}};
    struct ll_hash_place at = {s->rest.gone, s->rest.buckets, 0};
    uint64_t pages = 0, least = 0;
    int rc = ll_hash__each_in_bucket(s->t, at, ll_hash__list_parts, &p,
                                     lladd_txn_error_out(s->txn));
    if (!rc && !s->all)
        rc = weigh(s, &p, &pages, &least);
    if (!rc && (pages <= s->pages || (first && pages == least))) {
        rc = free_parts(s, &p);
        s->rest.gone++;
        spend(s, pages);
    } else if (!rc) {
        rc = shorten_blobs(s, &p);
    }
    ll_hash__parts_free(s->t, &p);
    return rc;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Writes into the root page what is left. The transaction has claimed the table, so no other one
 * changes the page. */
static int write_rest(struct step *s)
{
    struct ll_hash_table *t = s->t;
    uint32_t size = lladd_page_size(t->db);
    struct lladd_page *root;
    unsigned char *image = lladd_mem_alloc(t->db, size);
    if (!image)
        return lladd_error_set(lladd_txn_error_out(s->txn), LLADD_NO_MEMORY,
                               "out of memory for a root page");
    int rc = lladd_page_fix(t->db, t->root, LLADD_LATCH_SHARED, &root, lladd_txn_error_out(s->txn));
    if (!rc) {
        struct hb_bytes args = {image};
        memcpy(image, root->bytes, size);
        lladd_page_unfix(t->db, root, LLADD_LATCH_SHARED);
        lladd_put32(image + HR_STATE, 1);
        lladd_put64(image + HR_BUCKETS, s->rest.buckets);
        lladd_put64(image + HR_GONE, s->rest.gone < s->rest.pages ? s->rest.gone + 1 : 0);
        rc = lladd_update(s->txn, t->hashes->bytes, t->root, &args, sizeof args);
    }
    lladd_mem_free(t->db, image);
    return rc;
}

/* Planted bug: writes the rest in a nested top action, which stays if the transaction rolls
 * back. */
static int write_rest_to_stay(struct step *s)
{
    struct lladd_action action;
    TRY(lladd_nta_begin(s->txn, &action));
    TRY(write_rest(s));
    return lladd_nta_end(s->txn, &action, LLADD_NO_OP, NULL, 0);
}

static int take_step(struct step *s)
{
    struct ll_hash_rest *r = &s->rest;
    const uint64_t from = r->gone;
    int rc = 0;
    while (r->gone < r->buckets && s->pages && !s->cut && !rc)
        rc = free_bucket(s, r->gone == from);
    if (!rc && r->gone >= r->buckets) { /* takes pages of the run's extents beyond its buckets */
        uint64_t n = r->pages - r->gone < s->pages ? r->pages - r->gone : s->pages;
        r->gone += n;
        spend(s, n);
    }
    if (!rc)
        rc = ll_operations__extents_free_pages(s->txn, &s->t->run, from, r->gone);
    if (!rc && r->gone < r->pages)
        return LLADD_PLANTED(LLADD_BUG_STEP_STAYS) ? write_rest_to_stay(s) : write_rest(s);
    if (!rc)
        rc = ll_operations__extents_free_chain(s->txn, &s->t->run);
    if (!rc)
        rc = r->begun ? write_rest(s)
                      : lladd_update(s->txn, s->t->hashes->destroy, s->t->root, NULL, 0);
    return rc ? rc : lladd_page_free(s->txn, s->t->root);
}

/* Claims the table for the transaction, then reads again what is left of it: another transaction
 * may have destroyed a part of the table before the claim. Refuses while losers must be rolled
 * back: `changers` does not count losers. */
static int begin(struct step *s, lladd_pageno root)
{
    struct lladd_error *err = lladd_txn_error_out(s->txn);
    if (ll_hash__find_table(ll_hashes_of(lladd_txn_db(s->txn)), root, &s->t))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    TRY(ll_hash__rest(s->t, &s->rest, err));
    if (ll_operations__recovering(s->t->hashes->ops))
        return lladd_error_set(err, LLADD_BUSY,
                               "transactions that a crash interrupted are being rolled back");
    if (ll_hash__untold(s->txn, s->t->hashes))
        return lladd_error_set(err, LLADD_BUSY,
                               "an earlier version has prepared a transaction that is in doubt and "
                               "may have changed the hash table");
    TRY(ll_hash__claim(s->txn, s->t));
    return ll_hash__rest(s->t, &s->rest, err);
}

static int destroy(struct lladd_txn *txn, lladd_pageno root, uint64_t pages, uint64_t *left)
{
    struct step s = {.txn = txn, .pages = pages, .all = pages == UINT64_MAX};
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before)); /* set before the claim, so that a rollback after a failure
                                         * gives up the claim */
    int rc = begin(&s, root);
    if (!rc)
        rc = take_step(&s);
    if (!rc) {
        ll_hash__set_destroyed(txn, s.t, before);
        *left = s.rest.pages - s.rest.gone;
    }
    return ll_operations__step_end(txn, before, rc);
}

int lladd_hash_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    uint64_t left;
    return destroy(txn, root, UINT64_MAX, &left);
}

int lladd_hash_destroy_some(struct lladd_txn *txn, lladd_pageno root, uint64_t pages,
                            uint64_t *left)
{
    LLADD_USE(txn);
    if (pages == 0)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "a step frees at least one page");
    return destroy(txn, root, pages, left);
}

/* ---- what is left to destroy ----------------------------------------------------------------- */

struct lister {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int list_link(void *ctx, lladd_pageno page, uint64_t n)
{
    const struct lister *l = ctx;
    (void)n;
    return l->fn(l->ctx, page);
}

static int list_bucket(struct ll_hash_table *t, struct ll_hash_place at, const struct lister *l,
                       struct lladd_error *err)
{
    struct ll_hash_parts p = {.overflow = {.at = NULL}};
    int rc = ll_hash__each_in_bucket(t, at, ll_hash__list_parts, &p, err);
    for (size_t i = 0; i < p.overflow.n && !rc; i++)
        rc = l->fn(l->ctx, lladd_page_of(p.overflow.at[i]));
    for (size_t i = 0; i < p.blobs.n && !rc; i++)
        rc = lladd_blob_pages(t->db, lladd_page_of(p.blobs.at[i]), l->fn, l->ctx, err);
    ll_hash__parts_free(t, &p);
    return rc;
}

int lladd_hash_destroy_pages(struct lladd_db *db, lladd_pageno root,
                             int (*fn)(void *ctx, lladd_pageno), void *ctx,
                             struct lladd_error *err)
{
    struct lister l = {fn, ctx};
    struct ll_hash_table *t;
    struct ll_hash_rest r;
    if (ll_hash__find_table(ll_hashes_of(db), root, &t))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    int rc = ll_hash__rest(t, &r, err);
    for (uint64_t i = r.gone; !rc && i < r.pages; i++) {
        struct ll_hash_place at = {i, r.buckets, 0};
        rc = i < r.buckets ? list_bucket(t, at, &l, err) : 0;
        if (!rc)
            rc = fn(ctx, ll_operations__extents_page(&t->run, i));
    }
    if (!rc)
        rc = ll_operations__extents_each_link(&t->run, list_link, &l, err);
    return rc ? rc : fn(ctx, root);
}
