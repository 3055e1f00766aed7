/* SPDX-License-Identifier: BSD-2-Clause */
/* The free list of a tree: closed node pages, from the root page on, linked by their right links. A
 * merge makes the page of its right node the spare page of the left node; `give` then moves that
 * page to the list. A split that needs a spare page takes one from the list (`take`), and allocates
 * a page only if the list is empty. The pages are freed when the tree is destroyed (BPT-5).
 *
 * A move changes the node's spare page and the head of the list: two pages. The move is a nested
 * top action that is closed with LLADD_NO_OP while both pages are latched. So
 *   - after a crash in the middle of the action both changes are undone physically (REC-5). No
 *     other thread can have logged a change of these pages in between. Once the end of the action
 *     is logged, neither change is undone;
 *   - no thread sees a page that is both a spare page and free, or neither.
 * All log space is taken before the first latch. `close` need not be undone, because the contents
 * of a spare page have no meaning.
 *
 * Latches are taken in this order: the node, the root page, the page that moves. After the root
 * page, a thread latches only a page to which no descent leads. This is a free page, the spare page
 * that is being moved, or the root page's own spare page (split.c). A thread that still comes to
 * such a page by an old link holds no other latch. */
#include "operations/btree/tree.h"

struct move {
    struct lladd_txn *txn;
    struct ll_btree_tree *t;
    struct bt_key key;
    uint32_t level;
    struct lladd_action action;
};

static lladd_pageno first_free(const struct lladd_page *root)
{
    return lladd_page_of(lladd_get48(root->bytes + BR_FREE));
}

static int fix_root(struct ll_btree_tree *t, enum lladd_latch latch, struct lladd_page **out,
                    struct lladd_error *err)
{
    return ll_operations__fix(t->db, t->root, ll_btree__root_page.name, latch, out, err);
}

int ll_btree__count_free(struct ll_btree_tree *t, uint64_t *out, struct lladd_error *err)
{
    struct lladd_page *root;
    TRY(fix_root(t, LLADD_LATCH_SHARED, &root, err));
    *out = lladd_get32(root->bytes + BR_FREE + 6);
    lladd_page_unfix(t->db, root, LLADD_LATCH_SHARED);
    return 0;
}

static bool is_ours(const struct ll_btree_tree *t, const struct lladd_page *p)
{
    return lladd_get48(p->bytes + BT_ROOT) == t->root.v;
}

/* log_spare logs the spare page of a node; log_free logs the first free page and the number of free
 * pages. */
static int log_spare(struct move *m, struct lladd_page *node, lladd_pageno spare)
{
    unsigned char bytes[8];
    lladd_put64(bytes, spare.v);
    return lladd_update_page(m->txn, m->t->trees->spare, node, bytes, sizeof bytes);
}
static int log_free(struct move *m, struct lladd_page *root, lladd_pageno first, uint32_t pages)
{
    unsigned char bytes[12];
    lladd_put64(bytes, first.v);
    lladd_put32(bytes + 8, pages);
    return lladd_update_page(m->txn, m->t->trees->root_free, root, bytes, sizeof bytes);
}
static int end(struct move *m)
{
    return lladd_nta_end(m->txn, &m->action, LLADD_NO_OP, NULL, 0);
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* The caller has latched all three pages. */
static int give_page(struct move *m, struct lladd_page *node, struct lladd_page *root,
                     struct lladd_page *page)
{
    unsigned char next[8];
    uint32_t pages = lladd_get32(root->bytes + BR_FREE + 6);
    if (!is_ours(m->t, page))
        return ll_btree__corrupt(lladd_txn_error_out(m->txn), node->number,
                                 "names a spare page of another tree");
    lladd_put64(next, first_free(root).v);
    TRY(lladd_update_page(m->txn, m->t->trees->close, page, next, sizeof next));
    TRY(log_free(m, root, page->number, pages + 1));
    TRY(log_spare(m, node, lladd_page_of(0)));
    return end(m);
}

static int give_from(struct move *m, struct lladd_page *node, struct lladd_page *root)
{
    struct lladd_error *err = lladd_txn_error_out(m->txn);
    lladd_pageno spare = lladd_page_of(lladd_get48(node->bytes + BT_SPARE));
    struct lladd_page *page;
    if (spare.v == 0)
        return LLADD_END; /* another thread has used or moved the spare page */
    if (spare.v == node->number.v || spare.v == m->t->root.v || spare.v == first_free(root).v)
        return ll_btree__corrupt(err, node->number, "names a spare page that is in use");
    TRY(ll_operations__fix(m->t->db, spare, ll_btree__node_page.name, LLADD_LATCH_EXCLUSIVE, &page,
                           err));
    int rc = give_page(m, node, root, page);
    lladd_page_unfix(m->t->db, page, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* The free page after this one. */
static int next_free(struct ll_btree_tree *t, lladd_pageno free, lladd_pageno *out,
                     struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(ll_operations__fix(t->db, free, ll_btree__node_page.name, LLADD_LATCH_SHARED, &page, err));
    *out = lladd_page_of(lladd_get48(page->bytes + BT_RIGHT));
    int rc = is_ours(t, page) && page->bytes[BT_FLAGS] & BT_CLOSED
                 ? 0
                 : ll_btree__corrupt(err, free, "is in a list of free pages and is not closed");
    lladd_page_unfix(t->db, page, LLADD_LATCH_SHARED);
    return rc;
}

static int take_to(struct move *m, struct lladd_page *node, struct lladd_page *root)
{
    struct lladd_error *err = lladd_txn_error_out(m->txn);
    lladd_pageno page = first_free(root), next;
    uint32_t pages = lladd_get32(root->bytes + BR_FREE + 6);
    if (lladd_get48(node->bytes + BT_SPARE))
        return LLADD_END;
    if (page.v == 0)
        return LLADD_NOT_FOUND; /* another thread has taken the free page */
    if (page.v == node->number.v || page.v == m->t->root.v)
        return ll_btree__corrupt(err, m->t->root, "names a free page that is in use");
    TRY(next_free(m->t, page, &next, err));
    if ((next.v == 0) != (pages == 1))
        return ll_btree__corrupt(err, m->t->root, "counts its free pages wrongly");
    TRY(log_free(m, root, next, pages - 1));
    TRY(log_spare(m, node, page));
    return end(m);
}

/* ---- both ------------------------------------------------------------------------------------ */

typedef int move_fn(struct move *, struct lladd_page *node, struct lladd_page *root);

static int with_node(struct move *m, struct lladd_page *node, move_fn *fn)
{
    struct lladd_page *root;
    TRY(fix_root(m->t, LLADD_LATCH_EXCLUSIVE, &root, lladd_txn_error_out(m->txn)));
    int rc = fn(m, node, root);
    lladd_page_unfix(m->t->db, root, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

static int with_credit(struct move *m, move_fn *fn)
{
    const struct ll_btrees *b = m->t->trees;
    const struct lladd_log_need needs[] = {
        {b->close, 1}, {b->root_free, 1}, {b->spare, 1}, {LLADD_NO_OP, 1}, {LLADD_PAGE_IMAGE, 1}};
    struct lladd_page *node;
    TRY(lladd_log_credit_all(m->txn, needs, 5)); /* an image of the node; the other pages have a
                                                  * base */
    int rc = ll_btree__fix(m->t, m->key, m->level, LLADD_LATCH_EXCLUSIVE, &node,
                           lladd_txn_error_out(m->txn));
    if (!rc) {
        rc = with_node(m, node, fn);
        lladd_page_unfix(m->t->db, node, LLADD_LATCH_EXCLUSIVE);
    }
    return ll_btree__put_down(m->txn, m->t, rc);
}

static int move(struct move *m, move_fn *fn)
{
    TRY(lladd_nta_begin(m->txn, &m->action));
    int rc = with_credit(m, fn);
    return rc ? ll_operations__action_all_or_nothing(m->txn, &m->action, rc) : 0;
}

int ll_btree__give(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                   uint32_t level)
{
    struct move m = {.txn = txn, .t = t, .key = key, .level = level};
    int rc = move(&m, give_from);
    return rc == LLADD_END ? 0 : rc;
}

int ll_btree__take(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                   uint32_t level, bool *has)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct move m = {.txn = txn, .t = t, .key = key, .level = level};
    uint64_t pages;
    *has = false;
    if (ll_operations__recovering(t->trees->ops))
        return 0;
    TRY(ll_btree__count_free(t, &pages, err));
    if (pages == 0) {
        TRY(bt_reshape(ll_btree__tidy(txn, t)));
        TRY(ll_btree__count_free(t, &pages, err));
    }
    if (pages == 0)
        return 0;
    int rc = move(&m, take_to);
    *has = rc == 0 || rc == LLADD_END;
    return rc == LLADD_END || rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* ---- walking --------------------------------------------------------------------------------- */

int ll_btree__each_free(struct ll_btree_tree *t,
                        int (*fn)(void *ctx, struct ll_btree_tree *, lladd_pageno,
                                  struct lladd_error *),
                        void *ctx, struct lladd_error *err)
{
    struct lladd_page *root;
    TRY(fix_root(t, LLADD_LATCH_SHARED, &root, err));
    lladd_pageno page = first_free(root);
    uint32_t left = lladd_get32(root->bytes + BR_FREE + 6);
    lladd_page_unfix(t->db, root, LLADD_LATCH_SHARED);
    for (; page.v && left > 0; left--) {
        lladd_pageno next;
        TRY(next_free(t, page, &next, err));
        TRY(fn(ctx, t, page, err));
        page = next;
    }
    return page.v || left > 0 ? ll_btree__corrupt(err, t->root, "counts its free pages wrongly")
                              : 0;
}
