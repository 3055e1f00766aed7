/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole trees: statistics, the list of pages, and a check. If other threads change the tree
 * meanwhile, statistics mix states of different moments. While the other two run, the caller makes
 * sure that the tree does not change. */
#include "operations/btree/tree.h"

#include <lladd/blob.h>
#include <stdlib.h>

/* ---- every node ------------------------------------------------------------------------------ */

/* Walks through one level; `fence` has the high fence of the node before. */
struct walk {
    struct ll_btree_tree *t;
    ll_btree_node_fn *fn;
    void *ctx;
    uint32_t level;
    lladd_pageno page, first_child;
    struct bt_key fence;
    uint64_t merges; /* the tree's number of merges when the walk began */
    bool any;        /* a node of the level has been visited */
    unsigned char bytes[BT_KEY_MAX];
};

static int visit(struct walk *w, struct lladd_view v, struct lladd_error *err)
{
    if (!bt_is_node(w->t, v) || v.bytes[BT_LEVEL] != w->level || !ll_btree__fine(v))
        return ll_btree__corrupt(err, v.number, "is not a valid node of its B+tree");
    struct bt_fences f = bt_fences_of(v.bytes, v.size);
    lladd_pageno right = lladd_page_of(lladd_get48(v.bytes + BT_RIGHT));
    if (bt_compare(f.low, w->fence) != 0)
        return ll_btree__corrupt(err, v.number, "does not begin where the node before it ends");
    if (f.open_end != (right.v == 0))
        return ll_btree__corrupt(err, v.number, "has a right link or a high fence, but not both");
    if (w->level > 0 && bt_get(v.bytes, BT_SLOTS) == 0)
        return ll_btree__corrupt(err, v.number, "is an inner node without children");
    if (w->level > 0 && !w->any) {
        struct bt_entry e = bt_entry_of(v.bytes, 0);
        w->first_child = bt_child(&e);
    }
    w->any = true;
    TRY(w->fn(w->ctx, w->t, v, err));
    memcpy(w->bytes, f.high.bytes, f.high.len);
    w->fence = (struct bt_key){w->bytes, f.high.len};
    w->page = right;
    return 0;
}

/* Finds the node that begins with w->fence, because after a merge the next page may not be the next
 * node any more. Continues after that node if it has been visited. */
static int find_again(struct walk *w, struct lladd_error *err)
{
    struct lladd_page *p;
    w->merges = lladd_atomic_load64(&w->t->merges);
    TRY(ll_btree__fix(w->t, w->fence, w->level, LLADD_LATCH_SHARED, &p, err));
    struct bt_fences f = bt_fences_of(p->bytes, p->size);
    w->page = p->number;
    if (bt_compare(f.low, w->fence) != 0) {
        w->page = lladd_page_of(lladd_get48(p->bytes + BT_RIGHT));
        lladd_copy(w->bytes, f.high.bytes, f.high.len);
        w->fence = (struct bt_key){w->bytes, f.high.len};
    }
    lladd_page_unfix(w->t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

static int walk_level(struct walk *w, struct lladd_error *err)
{
    w->fence = (struct bt_key){w->bytes, 0};
    w->any = false;
    for (uint64_t n = 0; w->page.v; n++) {
        struct lladd_page *p;
        if (n > lladd_page_count(w->t->db))
            return ll_btree__corrupt(err, w->t->root, "a level of its tree does not end");
        TRY(ll_operations__fix(w->t->db, w->page, ll_btree__node_page.name, LLADD_LATCH_SHARED, &p,
                               err));
        int rc = visit(w, lladd_page_view(p), err);
        lladd_page_unfix(w->t->db, p, LLADD_LATCH_SHARED);
        if (rc == LLADD_CORRUPT_PAGE && lladd_atomic_load64(&w->t->merges) != w->merges)
            rc = find_again(w, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Reads the top node from the root page, because the top node in memory may be out of date. */
static int read_top(struct ll_btree_tree *t, uint64_t *out, struct lladd_error *err)
{
    struct lladd_page *p;
    TRY(ll_btree__top(t, out, err)); /* may the tree be used? */
    TRY(ll_operations__fix(t->db, t->root, ll_btree__root_page.name, LLADD_LATCH_SHARED, &p, err));
    *out = ll_btree__top_of(p->bytes);
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

int ll_btree__each_node(struct ll_btree_tree *t, ll_btree_node_fn *fn, void *ctx,
                        struct lladd_error *err)
{
    struct walk w = {.t = t, .fn = fn, .ctx = ctx, .merges = lladd_atomic_load64(&t->merges)};
    uint64_t top;
    TRY(read_top(t, &top, err));
    w.page = bt_top_page(top);
    for (w.level = bt_top_level(top) + 1; w.level-- > 0; w.page = w.first_child)
        TRY(walk_level(&w, err));
    return 0;
}

int ll_btree__root_spare_of(struct ll_btree_tree *t, lladd_pageno *out, struct lladd_error *err)
{
    struct lladd_page *p;
    TRY(ll_operations__fix(t->db, t->root, ll_btree__root_page.name, LLADD_LATCH_SHARED, &p, err));
    *out = lladd_page_of(lladd_get48(p->bytes + BR_SPARE));
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int add_stats(void *ctx, struct ll_btree_tree *t, struct lladd_view v,
                     struct lladd_error *err)
{
    struct lladd_btree_stats *s = ctx;
    const unsigned char *p = v.bytes;
    (void)t;
    (void)err;
    uint32_t slots = bt_get(p, BT_SLOTS), ghosts = bt_get(p, BT_GHOSTS);
    s->spare += lladd_get48(p + BT_SPARE) != 0;
    if (p[BT_LEVEL] > 0) {
        s->inner++;
        return 0;
    }
    s->leaves++;
    s->rows += slots - ghosts;
    s->ghosts += ghosts;
    for (uint32_t i = 0; i < slots; i++) {
        struct bt_entry e = bt_entry_of(p, i);
        if (e.key_len & BT_GHOST)
            continue;
        s->blobs += (e.value_len & BT_BLOB) != 0;
        s->used_bytes += BT_SLOT + bt_entry_size(BT_LEN(e.key_len), BT_LEN(e.value_len));
    }
    return 0;
}

int lladd_btree_stats_get(struct lladd_btree *h, struct lladd_btree_stats *out,
                          struct lladd_error *err)
{
    struct lladd_btree_stats s = {.struct_size = out->struct_size};
    struct ll_btree_tree *t = NULL;
    lladd_pageno spare;
    uint64_t top;
    TRY(ll_btree__tree_of(h, &t, err));
    TRY(ll_btree__top(t, &top, err));
    TRY(ll_btree__each_node(t, add_stats, &s, err));
    TRY(ll_btree__root_spare_of(t, &spare, err));
    s.spare += spare.v != 0;
    TRY(ll_btree__count_free(t, &s.free_pages, err));
    s.height = bt_top_level(top) + 1;
    s.merges = lladd_atomic_load64(&t->merges);
    s.splits = lladd_atomic_load64(&t->splits);
    memcpy(out, &s, out->struct_size < sizeof s ? out->struct_size : sizeof s);
    return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static int add_page(struct ll_btree_tree *t, uint64_t **at, size_t *n, size_t *cap, uint64_t page,
                    struct lladd_error *err)
{
    if (ll_operations__grow(t->db, at, *n + 1, cap, sizeof **at))
        return ll_btree__no_memory(err, "a tree's pages");
    (*at)[(*n)++] = page;
    return 0;
}

static int add_node(struct ll_btree_pages *p, struct ll_btree_tree *t, uint64_t page,
                    struct lladd_error *err)
{
    return page ? add_page(t, &p->nodes, &p->n_nodes, &p->cap_nodes, page, err) : 0;
}

static int list_node(void *ctx, struct ll_btree_tree *t, struct lladd_view v,
                     struct lladd_error *err)
{
    struct ll_btree_pages *p = ctx;
    TRY(add_node(p, t, v.number.v, err));
    TRY(add_node(p, t, lladd_get48(v.bytes + BT_SPARE), err));
    for (uint32_t i = 0; v.bytes[BT_LEVEL] == 0 && i < bt_get(v.bytes, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(v.bytes, i);
        if (e.value_len & BT_BLOB && !(e.key_len & BT_GHOST))
            TRY(add_page(t, &p->blobs, &p->n_blobs, &p->cap_blobs, lladd_get64(e.value + 8), err));
    }
    return 0;
}

static int list_free(void *ctx, struct ll_btree_tree *t, lladd_pageno page,
                     struct lladd_error *err)
{
    return add_node(ctx, t, page.v, err);
}

int ll_btree__list(struct ll_btree_tree *t, struct ll_btree_pages *out, struct lladd_error *err)
{
    lladd_pageno spare = lladd_page_of(0);
    *out = (struct ll_btree_pages){.nodes = NULL};
    int rc = ll_btree__each_node(t, list_node, out, err);
    if (!rc)
        rc = ll_btree__root_spare_of(t, &spare, err);
    if (!rc)
        rc = add_node(out, t, spare.v, err);
    if (!rc)
        rc = ll_btree__each_free(t, list_free, out, err);
    if (rc)
        ll_btree__list_free(t, out);
    return rc;
}

void ll_btree__list_free(struct ll_btree_tree *t, struct ll_btree_pages *p)
{
    lladd_mem_free(t->db, p->nodes);
    lladd_mem_free(t->db, p->blobs);
    *p = (struct ll_btree_pages){.nodes = NULL};
}

int lladd_btree_pages(struct lladd_btree *h, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                      struct lladd_error *err)
{
    struct ll_btree_tree *t = NULL;
    struct ll_btree_pages p;
    TRY(ll_btree__tree_of(h, &t, err));
    TRY(ll_btree__list(t, &p, err));
    int rc = 0;
    for (size_t i = 0; i < p.n_nodes && !rc; i++)
        rc = fn(ctx, lladd_page_of(p.nodes[i]));
    for (size_t i = 0; i < p.n_blobs && !rc; i++)
        rc = lladd_blob_pages(t->db, lladd_page_of(p.blobs[i]), fn, ctx, err);
    ll_btree__list_free(t, &p);
    return rc ? rc : fn(ctx, t->root);
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Does the child begin with this key, one level below? */
static int check_child(struct ll_btree_tree *t, struct lladd_view parent, uint32_t slot,
                       struct lladd_error *err)
{
    struct bt_entry e = bt_entry_of(parent.bytes, slot);
    struct bt_key low = slot ? bt_entry_key(&e) : bt_fences_of(parent.bytes, parent.size).low;
    struct lladd_page *p;
    TRY(ll_operations__fix(t->db, bt_child(&e), ll_btree__node_page.name, LLADD_LATCH_SHARED, &p,
                           err));
    struct lladd_view v = lladd_page_view(p);
    bool fine = bt_is_node(t, v) && v.bytes[BT_LEVEL] + 1u == parent.bytes[BT_LEVEL] &&
                ll_btree__fine(v) && bt_compare(bt_fences_of(v.bytes, v.size).low, low) == 0;
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return fine ? 0
                : ll_btree__corrupt(err, parent.number,
                                    "names a child that does not begin with the key");
}

/* Is the spare page, if there is one, a page of this tree? Apart from the number of its tree, the
 * contents of a spare page have no meaning. */
static int check_spare(struct ll_btree_tree *t, lladd_pageno spare, lladd_pageno of,
                       struct lladd_error *err)
{
    struct lladd_page *p;
    if (spare.v == 0)
        return 0;
    if (spare.v == of.v || spare.v == t->root.v)
        return ll_btree__corrupt(err, of, "names a spare page that is in use");
    TRY(ll_operations__fix(t->db, spare, ll_btree__node_page.name, LLADD_LATCH_SHARED, &p, err));
    bool ours = lladd_get48(p->bytes + BT_ROOT) == t->root.v;
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return ours ? 0 : ll_btree__corrupt(err, of, "names a spare page of another tree");
}

static int check_node(void *ctx, struct ll_btree_tree *t, struct lladd_view v,
                      struct lladd_error *err)
{
    (void)ctx;
    TRY(check_spare(t, lladd_page_of(lladd_get48(v.bytes + BT_SPARE)), v.number, err));
    for (uint32_t i = 0; v.bytes[BT_LEVEL] > 0 && i < bt_get(v.bytes, BT_SLOTS); i++)
        TRY(check_child(t, v, i, err));
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Is every page allocated, and in the tree once? */
static int check_pages(struct ll_btree_tree *t, struct ll_btree_pages *p, struct lladd_error *err)
{
    qsort(p->nodes, p->n_nodes, sizeof *p->nodes, by_number);
    for (size_t i = 0; i < p->n_nodes; i++) {
        enum lladd_page_use use;
        if (i > 0 && p->nodes[i] == p->nodes[i - 1])
            return ll_btree__corrupt(err, lladd_page_of(p->nodes[i]), "is in its B+tree twice");
        TRY(lladd_page_use_get(t->db, lladd_page_of(p->nodes[i]), &use, err));
        if (use != LLADD_USE_PAGED)
            return ll_btree__corrupt(err, lladd_page_of(p->nodes[i]),
                                     "is in a B+tree and not allocated");
    }
    if (p->n_blobs) /* without blobs there is no array, and qsort accepts no NULL */
        qsort(p->blobs, p->n_blobs, sizeof *p->blobs, by_number);
    for (size_t i = 0; i < p->n_blobs; i++) {
        if (i > 0 && p->blobs[i] == p->blobs[i - 1])
            return ll_btree__corrupt(err, lladd_page_of(p->blobs[i]),
                                     "is the value of two rows of a B+tree");
        TRY(lladd_blob_check(t->db, lladd_page_of(p->blobs[i]), err));
    }
    return 0;
}

int lladd_btree_check(struct lladd_btree *h, struct lladd_error *err)
{
    struct ll_btree_tree *t = NULL;
    struct ll_btree_pages p;
    lladd_pageno spare;
    TRY(ll_btree__tree_of(h, &t, err));
    TRY(ll_btree__each_node(t, check_node, NULL, err));
    TRY(ll_btree__root_spare_of(t, &spare, err));
    TRY(check_spare(t, spare, t->root, err));
    TRY(ll_btree__list(t, &p, err));
    int rc = check_pages(t, &p, err);
    ll_btree__list_free(t, &p);
    return rc;
}
