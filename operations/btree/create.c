/* SPDX-License-Identifier: BSD-2-Clause */
/* Creating and destroying trees, and handles. */
#include "operations/btree/tree.h"

#include <lladd/blob.h>

#define VALUE_MAX 1000u /* the longest value, if all values of a tree have one length */

uint32_t lladd_btree_key_max(const struct lladd_db *db)
{
    return ll_btree__key_max(lladd_page_size(db));
}

static int check_options(struct lladd_txn *txn, const struct lladd_btree_options *o)
{
    uint32_t most = lladd_btree_key_max(lladd_txn_db(txn));
    if (o->key_size <= most && o->value_size <= VALUE_MAX)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_KEY_SIZE,
                           "keys of %u and values of %u bytes: at most %u and %u, or 0 for any",
                           o->key_size, o->value_size, most, VALUE_MAX);
}

int ll_btree__options(struct lladd_txn *txn, const struct lladd_btree_options *options,
                      struct lladd_btree_options *out)
{
    *out = (struct lladd_btree_options)LLADD_BTREE_OPTIONS_INIT;
    if (options)
        memcpy(out, options,
               options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    return check_options(txn, out);
}

/* ---- creating -------------------------------------------------------------------------------- */

/* The last record of a creation says that the tree exists. When that record is undone, the root
 * page says that there is no tree, even after the page has been freed. */
int ll_btree__publish(struct lladd_txn *txn, lladd_pageno root, const struct lladd_btree_options *o,
                      uint64_t top, struct ll_btree_tree **out)
{
    struct ll_btrees *b = ll_btrees_of(lladd_txn_db(txn));
    unsigned char format[16], named[10];
    lladd_put32(format, o->key_size);
    lladd_put32(format + 4, o->value_size);
    lladd_put64(format + 8, bt_top_page(top).v);
    TRY(lladd_update(txn, b->format, root, format, sizeof format));
    lladd_put64(named, bt_top_page(top).v);
    lladd_put16(named + 8, (uint16_t)bt_top_level(top));
    if (bt_top_level(top))
        TRY(lladd_update(txn, b->top, root, named, sizeof named));
    TRY(ll_btree__new_tree(txn, b, root, o, out));
    return lladd_update(txn, b->create, root, NULL, 0);
}

static int create(struct lladd_txn *txn, const struct lladd_btree_options *o,
                  struct ll_btree_tree **out)
{
    lladd_pageno root, leaf;
    TRY(lladd_page_alloc(txn, &root));
    TRY(lladd_page_alloc(txn, &leaf));
    struct bt_fill f = {.root = root};
    f.fences.open_end = true;
    TRY(lladd_update(txn, ll_btrees_of(lladd_txn_db(txn))->node, leaf, &f, sizeof f));
    return ll_btree__publish(txn, root, o, bt_top(leaf, 0), out);
}

static int create_tree(struct lladd_txn *txn, const struct lladd_btree_options *options,
                       struct ll_btree_tree **out)
{
    struct lladd_btree_options o;
    lladd_savepoint_id before;
    TRY(ll_btree__options(txn, options, &o));
    TRY(lladd_savepoint(txn, &before));
    int rc = create(txn, &o, out);
    return ll_operations__step_end(txn, before, rc);
}

int lladd_btree_create(struct lladd_txn *txn, const struct lladd_btree_options *options,
                       lladd_pageno *root)
{
    LLADD_USE(txn);
    struct ll_btree_tree *t;
    TRY(create_tree(txn, options, &t));
    *root = t->root;
    return 0;
}

/* ---- handles --------------------------------------------------------------------------------- */

static int new_handle(struct ll_btree_tree *t, struct lladd_btree **out, struct lladd_error *err)
{
    struct lladd_btree *handle = lladd_mem_alloc(t->db, sizeof *handle);
    if (!handle)
        return ll_btree__no_memory(err, "a B+tree");
    handle->tree = t;
    *out = handle;
    return 0;
}

int lladd_btree_open(struct lladd_db *db, lladd_pageno root, struct lladd_btree **out,
                     struct lladd_error *err)
{
    struct ll_btree_tree *t;
    struct lladd_page *page; /* check the page even if the tree is in memory */
    uint64_t top;
    TRY(ll_operations__fix(db, root, ll_btree__root_page.name, LLADD_LATCH_SHARED, &page, err));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (ll_btree__find_tree(ll_btrees_of(db), root, &t))
        return ll_btree__no_memory(err, "a B+tree");
    TRY(ll_btree__top(t, &top, err));
    return new_handle(t, out, err);
}

int lladd_btree_create_open(struct lladd_txn *txn, const struct lladd_btree_options *options,
                            lladd_pageno *root, struct lladd_btree **out)
{
    LLADD_USE(txn);
    struct ll_btree_tree *t = NULL;
    struct lladd_btree *made = NULL;
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    int rc = create_tree(txn, options, &t);
    if (!rc)
        rc = new_handle(t, &made, lladd_txn_error_out(txn));
    rc = ll_operations__step_end(txn, before, rc);
    if (rc) {
        lladd_btree_close(made);
        return rc;
    }
    *root = t->root;
    *out = made;
    return 0;
}

void lladd_btree_close(struct lladd_btree *h)
{
    if (h)
        lladd_mem_free(h->tree->db, h);
}

uint32_t lladd_btree_key_size(const struct lladd_btree *h)
{
    return h->tree->key_size;
}

uint32_t lladd_btree_value_size(const struct lladd_btree *h)
{
    return h->tree->value_size;
}

/* ---- destroying ------------------------------------------------------------------------------ */

static int free_pages(struct lladd_txn *txn, struct ll_btree_tree *t,
                      const struct ll_btree_pages *p)
{
    for (size_t i = 0; i < p->n_blobs; i++)
        TRY(lladd_blob_destroy(txn, lladd_page_of(p->blobs[i])));
    TRY(lladd_update(txn, t->trees->destroy, t->root, NULL, 0));
    for (size_t i = 0; i < p->n_nodes; i++)
        TRY(lladd_page_free(txn, lladd_page_of(p->nodes[i])));
    return lladd_page_free(txn, t->root);
}

static int destroy(struct lladd_txn *txn, lladd_pageno root, struct ll_btree_tree **out)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_btree_pages p;
    struct ll_btree_tree *t;
    uint64_t top;
    if (ll_btree__find_tree(ll_btrees_of(db), root, &t))
        return ll_btree__no_memory(err, "a B+tree");
    *out = t;
    TRY(ll_btree__top(t, &top, err));
    if (lladd_losers_left(db))
        return lladd_error_set(err, LLADD_BUSY,
                               "transactions that a crash interrupted are being rolled back");
    TRY(ll_btree__claim(txn, t, false));
    TRY(ll_btree__list(t, &p, err));
    int rc = free_pages(txn, t, &p);
    ll_btree__list_free(t, &p);
    return rc;
}

int lladd_btree_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct ll_btree_tree *t = NULL;
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before)); /* set before the claim, so that a rollback after a failure
                                         * gives up the claim */
    int rc = destroy(txn, root, &t);
    if (!rc)
        ll_btree__set_destroyed(txn, t, before);
    return ll_operations__step_end(txn, before, rc);
}
