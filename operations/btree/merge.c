/* SPDX-License-Identifier: BSD-2-Clause */
/* Merges: the entries of a node move to the node on its left, and the page of the emptied node
 * becomes free.
 *
 * When: a removal leaves a ghost, which stays reserved until the removing transaction has ended. So
 * a leaf that the removal leaves without rows cannot be merged at once. A list in memory has the
 * leaves that wait for a merge. A leaf is added to the list when a removal, or the undo of an
 * insertion, has left it with no row, or with rows in only a quarter of its slots. The next removal
 * that adds a leaf to the list takes up to two leaves from the list, the oldest first; so does a
 * split that finds no free page. Such a leaf first loses the ghosts that have no reservation. Then
 * the leaf is merged with its right and its left neighbour while that is possible. If a merge
 * leaves the parent with few children, the parent is merged with its neighbours in the same way.
 * Then two children that had different parents have one parent, and are merged if possible. If the
 * first ghost of a leaf is reserved, the leaf goes back to the end of the list. A crash loses the
 * list. The leaves that were in the list remain until a neighbour is merged, or until they get rows
 * again.
 *
 * Which nodes: two nodes are merged under the following conditions.
 *   - One parent names both nodes, next to each other, and the left node's right link names the
 *     right node. So there is no split between them that the parent does not know of.
 *   - Either both together, with ghosts and unused room, take at most half a page. So the merged
 *     node has room for half a page of new rows before it is split again. Or the right node has no
 *     entries at all, and is not the last node of its level.
 *   - Neither node has a spare page. If one has, that page is first moved to the free list.
 * Rows of open transactions, ghosts, and reserved room move as they are: undo finds them by key,
 * and a reservation names the key. The leftmost node of a level is never the right node of a pair,
 * so no merge removes it. (A former top node is the leftmost node of its level: tree.c.) The tree
 * does not lose height.
 *
 * How: parent, left and right are latched exclusively, in this order, with log space for all
 * records. Then:
 *
 *   unindex  The parent loses its entry for the right node. The left node's right link still leads
 *            to the right node.
 *   widen    The left node gets the entries, the high fence and the right link of the right one.
 *            The right page is the left node's spare page: now the merge has happened.
 *   close    The right page is no node any more.
 *
 * After each of these records the pages are a valid tree (BPT-4): after `unindex` the tree is as
 * after a split that the parent does not know yet; after `widen` the contents of the right page
 * have no meaning. So the records have no undo, and stay if the transaction rolls back. Then the
 * page goes to the free list, as an action of its own. If a crash prevents that, the page is still
 * the left node's spare page.
 *
 * Late readers: a descent, a hint, or insert_many may still have the number of the merged page. If
 * that page is closed, the search begins again at the top. If the page has become another node
 * since, its level and its fences say whether that node has the key (BPT-5). A cursor compares page
 * LSNs. A thread that has split a node and has not yet told the parent checks under the parent's
 * latch that the page still is that node (split.c); a merge holds that latch, too. Splits, merges
 * and this check latch pages downward and to the right. */
#include "operations/btree/tree.h"

#define AT_ONCE 2u    /* leaves that a call takes from the list */
#define GIVES_MOST 4u /* spare pages that a merge of one level moves before it gives up */

struct merge {
    struct lladd_txn *txn;
    struct ll_btree_tree *t;
    struct bt_key key; /* an attempt tries to merge the node that covers this key at this level */
    uint32_t level;
    /* Results of an attempt. */
    enum done { NOTHING, MERGED, SPARE } done;
    /* SPARE: low fence of the node that has a spare page. MERGED: low fence of the right node. */
    struct bt_key there;
    bool small;          /* MERGED: the parent has few children */
    lladd_pageno ghosts; /* MERGED: the leaf that has got ghosts, or 0 */
    unsigned char key_bytes[BT_KEY_MAX], there_bytes[BT_KEY_MAX];
    unsigned char packed[]; /* a buffer as large as a page */
};

/* ---- the list -------------------------------------------------------------------------------- */

static void append(struct ll_btree_tree *t, struct ll_btree_sparse *s)
{
    s->next = NULL;
    lladd_mutex_lock(&t->trees->mutex);
    if (t->last_sparse)
        t->last_sparse->next = s;
    else
        t->first_sparse = s;
    t->last_sparse = s;
    lladd_atomic_store64(&t->n_sparse, lladd_atomic_load64(&t->n_sparse) + 1);
    lladd_mutex_unlock(&t->trees->mutex);
}

static struct ll_btree_sparse *take_first(struct ll_btree_tree *t)
{
    if (lladd_atomic_load64(&t->n_sparse) == 0)
        return NULL;
    lladd_mutex_lock(&t->trees->mutex);
    struct ll_btree_sparse *s = t->first_sparse;
    if (s) {
        t->first_sparse = s->next;
        if (!s->next)
            t->last_sparse = NULL;
        lladd_atomic_store64(&t->n_sparse, lladd_atomic_load64(&t->n_sparse) - 1);
    }
    lladd_mutex_unlock(&t->trees->mutex);
    return s;
}

void ll_btree__note_sparse(struct ll_btree_tree *t, lladd_pageno leaf)
{
    /* A leaf may be in the list more than once, so the list is limited. */
    if (bt_top_level(lladd_atomic_load64(&t->top)) == 0 ||
        lladd_atomic_load64(&t->n_sparse) >= lladd_page_count(t->db))
        return;
    struct ll_btree_sparse *s = lladd_mem_alloc(t->db, sizeof *s);
    if (!s)
        return;
    s->page = leaf;
    append(t, s);
}

void ll_btree__forget_sparse(struct ll_btree_tree *t)
{
    for (struct ll_btree_sparse *s = t->first_sparse, *next; s; s = next) {
        next = s->next;
        lladd_mem_free(t->db, s);
    }
    t->first_sparse = t->last_sparse = NULL;
}

/* ---- a pair ---------------------------------------------------------------------------------- */

static bool is_node_of(const struct merge *m, const struct lladd_page *p)
{
    struct lladd_view v = lladd_page_view(p);
    return bt_is_node(m->t, v) && v.bytes[BT_LEVEL] == m->level;
}

/* Are the two nodes neighbours, as the parent's key for the right one says? */
static bool meet(const struct merge *m, const struct lladd_page *left,
                 const struct lladd_page *right, struct bt_key key)
{
    if (!is_node_of(m, left) || !is_node_of(m, right) ||
        lladd_get48(left->bytes + BT_RIGHT) != right->number.v)
        return false;
    struct bt_fences a = bt_fences_of(left->bytes, left->size);
    struct bt_fences b = bt_fences_of(right->bytes, right->size);
    return !a.open_end && bt_compare(a.high, b.low) == 0 && bt_compare(b.low, key) == 0;
}

static bool fit(const struct lladd_page *left, const struct lladd_page *right)
{
    uint32_t size = left->size, half = (size - BT_SLOT_AREA) / 2;
    uint32_t all = bt_held_bytes(left->bytes, size) + bt_held_bytes(right->bytes, size);
    if (right->bytes[BT_LEVEL] > 0)
        all += bt_get(right->bytes, BT_LOW);
    bool empty = bt_get(right->bytes, BT_SLOTS) == 0;
    bool last = bt_get(right->bytes, BT_HIGH) == BT_OPEN_END;
    return ll_btree__together(left->bytes, right->bytes, size) <= size &&
           (all <= half || (empty && !last));
}

static void be_done(struct merge *m, enum done done, const struct lladd_page *node)
{
    struct bt_key low = bt_fences_of(node->bytes, node->size).low;
    lladd_copy(m->there_bytes, low.bytes, low.len);
    m->there = (struct bt_key){m->there_bytes, low.len};
    m->done = done;
}

/* Notes the node if it has a spare page. */
static bool has_spare(struct merge *m, const struct lladd_page *node)
{
    if (lladd_get48(node->bytes + BT_SPARE) == 0)
        return false;
    be_done(m, SPARE, node);
    return true;
}

/* Logs the merge, under the three latches. `slot`: the slot of the right node in the parent. */
static int join(struct merge *m, struct lladd_page *parent, struct lladd_page *left,
                struct lladd_page *right, uint32_t slot)
{
    const struct ll_btrees *b = m->t->trees;
    unsigned char index[2], next[8] = {0};
    struct bt_widen w = {.page = right->number,
                         .right = {.root = m->t->root,
                                   .right = lladd_page_of(lladd_get48(right->bytes + BT_RIGHT)),
                                   .level = m->level,
                                   .fences = bt_fences_of(right->bytes, right->size)}};
    ll_btree__pack_from(right->bytes, 0, m->packed, &w.right);
    lladd_put16(index, (uint16_t)slot);
    (void)lladd_atomic_add64(&m->t->merges, 1); /* counted before other threads can see the merge:
                                                 * walk.c */
    if (!LLADD_PLANTED(LLADD_BUG_BT_MERGE))
        TRY(lladd_update_page(m->txn, b->unindex, parent, index, sizeof index));
    TRY(lladd_update_page(m->txn, b->widen, left, &w, sizeof w));
    be_done(m, MERGED, right);
    m->ghosts =
        lladd_page_of(m->level == 0 && bt_get(right->bytes, BT_GHOSTS) ? left->number.v : 0);
    TRY(lladd_update_page(m->txn, b->close, right, next, sizeof next));
    if (LLADD_PLANTED(LLADD_BUG_BT_MERGE))
        TRY(lladd_update_page(m->txn, b->unindex, parent, index, sizeof index));
    m->small = 4 * bt_held_bytes(parent->bytes, parent->size) <= parent->size - BT_SLOT_AREA;
    return 0;
}

static lladd_pageno child_at(const struct lladd_page *parent, uint32_t slot)
{
    struct bt_entry e = bt_entry_of(parent->bytes, slot);
    return bt_child(&e);
}

static int fix_child(struct merge *m, const struct lladd_page *parent, uint32_t slot,
                     struct lladd_page **out)
{
    return ll_operations__fix(m->t->db, child_at(parent, slot), ll_btree__node_page.name,
                              LLADD_LATCH_EXCLUSIVE, out, lladd_txn_error_out(m->txn));
}

static int try_right(struct merge *m, struct lladd_page *parent, struct lladd_page *left,
                     uint32_t slot)
{
    struct lladd_page *right;
    struct bt_entry e = bt_entry_of(parent->bytes, slot);
    TRY(fix_child(m, parent, slot, &right));
    int rc = 0;
    if (meet(m, left, right, bt_entry_key(&e)) && fit(left, right) && !has_spare(m, left) &&
        !has_spare(m, right))
        rc = join(m, parent, left, right, slot);
    lladd_page_unfix(m->t->db, right, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* Merges the parent's child at this slot with the next one, if possible. */
static int try_pair(struct merge *m, struct lladd_page *parent, uint32_t slot)
{
    lladd_pageno a = child_at(parent, slot), b = child_at(parent, slot + 1);
    struct lladd_page *left;
    if (a.v == b.v || a.v == parent->number.v || b.v == parent->number.v)
        return ll_btree__corrupt(lladd_txn_error_out(m->txn), parent->number, "names a node twice");
    TRY(fix_child(m, parent, slot, &left));
    int rc = try_right(m, parent, left, slot + 1);
    lladd_page_unfix(m->t->db, left, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

static int try_both(struct merge *m, struct lladd_page *parent)
{
    uint32_t slots = bt_get(parent->bytes, BT_SLOTS);
    uint32_t slot = ll_btree__child_slot(parent->bytes, parent->size, m->key);
    int rc = 0;
    if (slot + 1 < slots)
        rc = try_pair(m, parent, slot);
    if (!rc && m->done == NOTHING && slot > 0)
        rc = try_pair(m, parent, slot - 1);
    return rc;
}

/* ---- a level --------------------------------------------------------------------------------- */

/* Tries to merge the key's node of this level. LLADD_END: the level has one node. */
static int attempt(struct merge *m)
{
    const struct ll_btrees *b = m->t->trees;
    const struct lladd_log_need needs[] = {
        {b->unindex, 1}, {b->widen, 1}, {b->close, 1}, {LLADD_PAGE_IMAGE, 3}};
    struct lladd_page *parent;
    m->done = NOTHING;
    TRY(lladd_log_credit_all(m->txn, needs, 4));
    int rc = ll_btree__fix(m->t, m->key, m->level + 1, LLADD_LATCH_EXCLUSIVE, &parent,
                           lladd_txn_error_out(m->txn));
    if (!rc) {
        rc = try_both(m, parent);
        lladd_page_unfix(m->t->db, parent, LLADD_LATCH_EXCLUSIVE);
    }
    return ll_btree__put_down(m->txn, m->t, rc);
}

/* Merges the key's node with one of its neighbours, if possible. */
static int merge_one(struct merge *m, bool *merged)
{
    *merged = false;
    for (unsigned gives = 0; gives < GIVES_MOST && !*merged; gives++) {
        int rc = attempt(m);
        if (rc || m->done == NOTHING)
            return rc == LLADD_END ? 0 : rc;
        *merged = m->done == MERGED;
        if (*merged && m->ghosts.v) /* the right leaf may have been in the list: the left leaf is
                                     * added instead */
            ll_btree__note_sparse(m->t, m->ghosts);
        TRY(ll_btree__give(m->txn, m->t, m->there, m->level));
    }
    return 0;
}

/* Merges the key's leaf, and then the nodes above it, with their neighbours while that is possible.
 * After a merge of two inner nodes, the last child of the left node and the first child of the
 * right node may be merged, too. */
static int merge_all(struct merge *m)
{
    uint32_t highest = 0; /* the highest level to be tried */
    bool merged;
    for (m->level = 0;;) {
        TRY(merge_one(m, &merged));
        if (!merged && m->level >= highest)
            return 0;
        if (merged) {
            memcpy(m->key_bytes, m->there_bytes, sizeof m->key_bytes);
            m->key.len = m->there.len;
            if (m->small && highest <= m->level)
                highest = m->level + 1;
            m->level -= m->level > 0;
        } else {
            m->level++;
        }
    }
}

/* ---- a leaf that waits ----------------------------------------------------------------------- */

enum state { GONE, WAITS, READY };

/* Is the leaf's first ghost reserved? The caller holds the leaf's latch. */
static bool is_reserved(const struct ll_btree_tree *t, const struct lladd_page *leaf)
{
    for (uint32_t i = 0; i < bt_get(leaf->bytes, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(leaf->bytes, i);
        if (e.key_len & BT_GHOST)
            return ll_btree__held(t, bt_entry_key(&e));
    }
    return false;
}

/* Looks at a page that was a leaf with few rows, and takes its low fence as the key. */
static int look(struct merge *m, lladd_pageno page, enum state *out)
{
    struct lladd_page *p;
    TRY(ll_operations__fix(m->t->db, page, ll_btree__node_page.name, LLADD_LATCH_SHARED, &p,
                           lladd_txn_error_out(m->txn)));
    struct bt_key low = bt_fences_of(p->bytes, p->size).low;
    m->level = 0;
    *out = GONE;
    if (is_node_of(m, p) && bt_is_sparse(bt_get(p->bytes, BT_SLOTS), bt_get(p->bytes, BT_GHOSTS)))
        *out = is_reserved(m->t, p) ? WAITS : READY;
    lladd_copy(m->key_bytes, low.bytes, low.len);
    m->key = (struct bt_key){m->key_bytes, low.len};
    lladd_page_unfix(m->t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

/* *waits: the leaf has a ghost that is reserved. */
static int tidy_leaf(struct merge *m, lladd_pageno page, bool *waits)
{
    enum state state;
    bool enough;
    TRY(look(m, page, &state));
    if (state == READY) {
        TRY(ll_btree__make_clear(m->txn, m->t, m->key, lladd_page_size(m->t->db), &enough));
        TRY(merge_all(m));
        /* A merge may have closed the page; then its state is GONE. */
        TRY(look(m, page, &state));
    }
    *waits = state == WAITS;
    return 0;
}

static int tidy_with(struct merge *m)
{
    struct ll_btree_sparse *s;
    int rc = 0;
    bool waits = false;
    for (unsigned i = 0; i < AT_ONCE && !rc && !waits && (s = take_first(m->t)); i++) {
        rc = tidy_leaf(m, s->page, &waits);
        if (rc || waits)
            append(m->t, s);
        else
            lladd_mem_free(m->t->db, s);
    }
    return rc;
}

int ll_btree__tidy(struct lladd_txn *txn, struct ll_btree_tree *t)
{
    if (lladd_atomic_load64(&t->n_sparse) == 0 || ll_operations__recovering(t->trees->ops))
        return 0;
    struct merge *m = lladd_mem_alloc(t->db, sizeof *m + lladd_page_size(t->db));
    if (!m)
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a merge");
    memset(m, 0, sizeof *m);
    m->txn = txn;
    m->t = t;
    int rc = tidy_with(m);
    lladd_mem_free(t->db, m);
    return rc;
}
