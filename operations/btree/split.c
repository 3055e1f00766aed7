/* SPDX-License-Identifier: BSD-2-Clause */
/* Splits. When the node has a spare page (spare.c), a split logs three records:
 *
 *   fill    The spare page gets the upper part of the node, and the node's right link.
 *   narrow  The node loses that part, and its right link names the spare page: now the split has
 *           happened. The node has no spare page any more.
 *   index   The parent gets the new node.
 *
 * After each of these records the pages are a valid tree (BPT-4): before `narrow` the page is the
 * node's spare page, and its contents have no meaning; before `index` the new node is found through
 * the right link. So the records have no undo, and stay if the transaction rolls back. If `index`
 * is missing, a writer that has followed the right link logs it. fill and narrow are logged with
 * both pages latched, left before right.
 *
 * A node without a parent gets one: the root page's spare page is filled with the two children, and
 * `top` names it in the root page.
 *
 * The thread that logs `index` latches the parent, and then the child to check it: the child may
 * have been split off long ago, and merged since. Latches are taken downward and to the right only.
 *
 * Nodes that a load has written (load.c) log an image at their first change, so a change of a node
 * under its latch needs log credit for one. A spare page was formatted, and needs none. */
#include "operations/btree/tree.h"

/* What is split off. */
struct part {
    uint32_t from; /* the first slot that moves */
    struct bt_key fence;
    unsigned char *packed;
    unsigned char key[BT_KEY_MAX];  /* the fence's bytes */
    unsigned char high[BT_KEY_MAX]; /* the present high fence */
};

/* ---- where to split -------------------------------------------------------------------------- */

static struct bt_key key_at(const unsigned char *page, uint32_t slot)
{
    struct bt_entry e = bt_entry_of(page, slot);
    return bt_entry_key(&e);
}

/* The slot with the middle of the entries' bytes. A split there leaves neither part empty. */
static uint32_t middle(const unsigned char *page, uint32_t size)
{
    uint32_t slots = bt_get(page, BT_SLOTS), sum = 0;
    uint32_t all = bt_end(page, size) - BT_SLOT_AREA - ll_btree__room(page, size);
    for (uint32_t i = 0; i + 1 < slots; i++) {
        struct bt_entry e = bt_entry_of(page, i);
        sum += BT_SLOT + bt_entry_size(BT_LEN(e.key_len), e.cap);
        if (2 * sum >= all)
            return i + 1;
    }
    return slots - 1;
}

/* May the node keep all entries and get this high fence? */
static bool keeps_all(const unsigned char *page, uint32_t size, uint32_t fence)
{
    uint32_t high = bt_get(page, BT_HIGH);
    return ll_btree__room(page, size) + (high == BT_OPEN_END ? 0 : high) >= fence;
}

/* If a row is added at the end of the last leaf, the leaf is split there, so that ascending rows
 * fill leaves. */
static void choose(const unsigned char *page, uint32_t size, struct bt_key key, struct part *p)
{
    uint32_t slots = bt_get(page, BT_SLOTS), level = page[BT_LEVEL];
    bool after = bt_compare(key_at(page, slots - 1), key) < 0;
    bool last = bt_get(page, BT_HIGH) == BT_OPEN_END;
    struct bt_key fence;
    if (level == 0) {
        fence = bt_separator(key_at(page, slots - 1), key);
        p->from = after && last && keeps_all(page, size, fence.len) ? slots : middle(page, size);
        if (p->from < slots)
            fence = bt_separator(key_at(page, p->from - 1), key_at(page, p->from));
    } else {
        p->from = after ? slots - 1 : middle(page, size);
        fence = key_at(page, p->from);
    }
    memcpy(p->key, fence.bytes, fence.len);
    p->fence = (struct bt_key){p->key, fence.len};
}

void ll_btree__pack_from(const unsigned char *page, uint32_t from, unsigned char *to,
                         struct bt_fill *f)
{
    size_t len = 0;
    uint32_t prefix = bt_left_out(f);
    for (uint32_t i = from; i < bt_get(page, BT_SLOTS); i++) {
        struct bt_entry e = bt_entry_of(page, i);
        if (page[BT_LEVEL] > 0 && i == from) /* the fence stands for the first key */
            e.key_len = 0;
        if (f->brief) {
            len += ll_btree__pack_short(to + len, &e, prefix);
        } else {
            ll_btree__pack(to + len, &e);
            len += ll_btree__pack_size(&e);
        }
    }
    f->packed = to;
    f->len = len;
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Logs `fill` and `narrow`, under both latches. */
static int divide(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *left,
                  struct lladd_page *right, struct part *p)
{
    unsigned char *b = left->bytes;
    struct bt_fences f = bt_fences_of(b, left->size);
    struct bt_fill fill = {.root = t->root,
                           .right = lladd_page_of(lladd_get48(b + BT_RIGHT)),
                           .level = b[BT_LEVEL],
                           .brief = true,
                           .fences = {p->fence, {p->high, f.high.len}, f.open_end}};
    struct bt_narrow narrow = {p->from, right->number, p->fence};
    memcpy(p->high, f.high.bytes, f.high.len);
    ll_btree__pack_from(b, p->from, p->packed, &fill);
    if (LLADD_PLANTED(LLADD_BUG_BT_FENCE) && p->fence.len < BT_KEY_MAX)
        narrow.high.len++;
    if (LLADD_PLANTED(LLADD_BUG_BT_ORDER))
        TRY(lladd_update_page(txn, t->trees->narrow, left, &narrow, sizeof narrow));
    TRY(lladd_update_page(txn, t->trees->fill, right, &fill, sizeof fill));
    if (!LLADD_PLANTED(LLADD_BUG_BT_ORDER))
        TRY(lladd_update_page(txn, t->trees->narrow, left, &narrow, sizeof narrow));
    (void)lladd_atomic_add64(&t->splits, 1);
    return 0;
}

/* What a split is for, and its result. */
struct split {
    struct bt_key key;
    uint32_t level, need;
    struct part part;
    lladd_pageno right; /* the new node; 0: there was no split */
};

static int split_held(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *left,
                      struct split *s)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *right;
    lladd_pageno spare = lladd_page_of(lladd_get48(left->bytes + BT_SPARE));
    if (spare.v == 0 || ll_btree__room(left->bytes, left->size) >= s->need)
        return 0; /* another thread has split the node */
    if (spare.v == left->number.v || spare.v == t->root.v)
        return ll_btree__corrupt(err, left->number, "names a spare page that is in use");
    if (bt_get(left->bytes, BT_SLOTS) < 2)
        return ll_btree__corrupt(err, left->number, "is a full node with one entry");
    choose(left->bytes, left->size, s->key, &s->part);
    TRY(ll_operations__fix(t->db, spare, ll_btree__node_page.name, LLADD_LATCH_EXCLUSIVE, &right,
                           err));
    int rc = lladd_get48(right->bytes + BT_ROOT) == t->root.v
                 ? divide(txn, t, left, right, &s->part)
                 : ll_btree__corrupt(err, left->number, "names a spare page of another tree");
    lladd_page_unfix(t->db, right, LLADD_LATCH_EXCLUSIVE);
    if (!rc)
        s->right = spare;
    return rc;
}

static int split_with(struct lladd_txn *txn, struct ll_btree_tree *t, struct split *s)
{
    const struct lladd_log_need needs[] = {
        {t->trees->fill, 1}, {t->trees->narrow, 1}, {LLADD_PAGE_IMAGE, 1}};
    struct lladd_page *left;
    TRY(ll_btree__want_spare(txn, t, s->key, s->level));
    TRY(lladd_log_credit_all(txn, needs, 3));
    int rc =
        ll_btree__fix(t, s->key, s->level, LLADD_LATCH_EXCLUSIVE, &left, lladd_txn_error_out(txn));
    if (!rc) {
        rc = split_held(txn, t, left, s);
        lladd_page_unfix(t->db, left, LLADD_LATCH_EXCLUSIVE);
    }
    return ll_btree__put_down(txn, t, rc);
}

static int post(struct lladd_txn *, struct ll_btree_tree *, struct bt_key low, lladd_pageno child,
                uint32_t level);

/* Splits the key's node of this level, unless it has room. */
static int split(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key, uint32_t level,
                 uint32_t need)
{
    struct split *s = lladd_mem_alloc(t->db, sizeof *s + lladd_page_size(t->db));
    if (!s)
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a split");
    *s = (struct split){.key = key, .level = level, .need = need};
    s->part.packed = (unsigned char *)(s + 1);
    int rc = split_with(txn, t, s);
    if (!rc && s->right.v)
        rc = post(txn, t, s->part.fence, s->right, level + 1);
    lladd_mem_free(t->db, s);
    return rc;
}

/* ---- a higher tree --------------------------------------------------------------------------- */

/* Fills the new top node and names it, under the latches of both pages. */
static int raise_with(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *root,
                      struct lladd_page *top, struct bt_key low, lladd_pageno child, uint32_t level)
{
    unsigned char first[BT_CHILD], second[BT_CHILD], named[10];
    unsigned char packed[2 * (BT_ENTRY_HEAD + BT_CHILD) + BT_KEY_MAX];
    struct bt_entry a = {NULL, first, 0, BT_CHILD, BT_CHILD};
    struct bt_entry b = {low.bytes, second, (uint16_t)low.len, BT_CHILD, BT_CHILD};
    struct bt_fill fill = {.root = t->root, .level = level, .brief = true, .packed = packed};
    fill.fences.open_end = true;
    memcpy(first, root->bytes + BR_TOP, BT_CHILD);
    lladd_put48(second, child.v);
    fill.len = ll_btree__pack_short(packed, &a, 0);
    fill.len += ll_btree__pack_short(packed + fill.len, &b, 0);
    lladd_put64(named, top->number.v);
    lladd_put16(named + 8, (uint16_t)level);
    TRY(lladd_update_page(txn, t->trees->fill, top, &fill, sizeof fill));
    TRY(lladd_update_page(txn, t->trees->top, root, named, sizeof named));
    ll_btree__raise(t, bt_top(top->number, level));
    return 0;
}

static int raise_held(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *root,
                      struct bt_key low, lladd_pageno child, uint32_t level)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *top;
    lladd_pageno spare = lladd_page_of(lladd_get48(root->bytes + BR_SPARE));
    uint32_t above = bt_top_level(ll_btree__top_of(root->bytes)) + 1;
    if (above > level) { /* another thread has made the tree higher */
        ll_btree__raise(t, ll_btree__top_of(root->bytes));
        return 0;
    }
    if (above < level)
        return ll_btree__corrupt(err, t->root, "names a top node below a node of its tree");
    if (spare.v == 0)
        return 0; /* the spare page has been undone meanwhile: the caller tries again */
    if (spare.v == t->root.v)
        return ll_btree__corrupt(err, t->root, "names itself as its spare page");
    if (level > BT_LEVEL_MAX)
        return ll_btree__corrupt(err, t->root, "is the root of a tree that is too high");
    TRY(ll_operations__fix(t->db, spare, ll_btree__node_page.name, LLADD_LATCH_EXCLUSIVE, &top,
                           err));
    int rc = lladd_get48(top->bytes + BT_ROOT) == t->root.v
                 ? raise_with(txn, t, root, top, low, child, level)
                 : ll_btree__corrupt(err, t->root, "names a spare page of another tree");
    lladd_page_unfix(t->db, top, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* Gives the tree a top node of this level with two children: the present top node, and this
 * child. */
static int raise(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key low,
                 lladd_pageno child, uint32_t level)
{
    const struct lladd_log_need needs[] = {{t->trees->fill, 1}, {t->trees->top, 1}};
    struct lladd_page *root;
    TRY(ll_btree__want_root_spare(txn, t));
    TRY(lladd_log_credit_all(txn, needs, 2));
    int rc = ll_operations__fix(t->db, t->root, ll_btree__root_page.name, LLADD_LATCH_EXCLUSIVE,
                                &root, lladd_txn_error_out(txn));
    if (!rc) {
        rc = raise_held(txn, t, root, low, child, level);
        lladd_page_unfix(t->db, root, LLADD_LATCH_EXCLUSIVE);
    }
    return ll_btree__put_down(txn, t, rc);
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Is the page the node of this level with this low fence? The caller holds the parent's latch, so
 * that the answer stays true until the parent names it. */
static int is_child(struct ll_btree_tree *t, lladd_pageno page, uint32_t level, struct bt_key low,
                    bool *out, struct lladd_error *err)
{
    struct lladd_page *p;
    TRY(ll_operations__fix(t->db, page, ll_btree__node_page.name, LLADD_LATCH_SHARED, &p, err));
    struct lladd_view v = lladd_page_view(p);
    *out = bt_is_node(t, v) && v.bytes[BT_LEVEL] == level &&
           bt_compare(bt_fences_of(v.bytes, v.size).low, low) == 0;
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return 0;
}

/* Enters the child in the latched parent, if that has not been done. LLADD_PAGE_FULL: the parent
 * has no room. */
static int post_held(struct lladd_txn *txn, struct ll_btree_tree *t, struct lladd_page *parent,
                     struct bt_key low, lladd_pageno child, uint32_t level)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct bt_place place;
    bool fine;
    ll_btree__find(parent->bytes, parent->size, low, &place);
    if (place.found || place.slot == 0)
        return 0; /* done before */
    struct bt_fences f = bt_fences_of(parent->bytes, parent->size);
    if (bt_compare(f.low, low) == 0)
        return 0; /* the first entry: the fence is its key */
    TRY(is_child(t, child, level - 1, low, &fine, err));
    if (!fine)
        return 0;
    if (ll_btree__room(parent->bytes, parent->size) < BT_SLOT + bt_entry_size(low.len, BT_CHILD))
        return LLADD_PAGE_FULL;
    struct bt_index args = {place.slot, low, child};
    return lladd_update_page(txn, t->trees->index, parent, &args, sizeof args);
}

/* Tries to enter the child in the node of the level. LLADD_END: the tree has no such level. */
static int try_post(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key low,
                    lladd_pageno child, uint32_t level)
{
    const struct lladd_log_need needs[] = {{t->trees->index, 1}, {LLADD_PAGE_IMAGE, 1}};
    struct lladd_page *parent;
    TRY(lladd_log_credit_all(txn, needs, 2));
    int rc = ll_btree__fix(t, low, level, LLADD_LATCH_EXCLUSIVE, &parent, lladd_txn_error_out(txn));
    if (!rc) {
        rc = post_held(txn, t, parent, low, child, level);
        lladd_page_unfix(t->db, parent, LLADD_LATCH_EXCLUSIVE);
    }
    return ll_btree__put_down(txn, t, rc);
}

/* Enters a child with this low fence in the node of the level. */
static int post(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key low,
                lladd_pageno child, uint32_t level)
{
    for (unsigned tries = 0;;) {
        int rc = try_post(txn, t, low, child, level);
        if (rc == LLADD_PAGE_FULL)
            rc = split(txn, t, low, level, BT_SLOT + bt_entry_size(low.len, BT_CHILD));
        else if (rc == LLADD_END)
            rc = raise(txn, t, low, child, level);
        else
            return rc;
        if (rc)
            return rc;
        TRY(ll_btree__again(t, &tries, lladd_txn_error_out(txn)));
    }
}

int ll_btree__complete(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                       uint32_t level)
{
    unsigned char bytes[BT_KEY_MAX];
    struct lladd_page *node;
    TRY(ll_btree__fix(t, key, level, LLADD_LATCH_SHARED, &node, lladd_txn_error_out(txn)));
    struct bt_key low = bt_fences_of(node->bytes, node->size).low;
    lladd_pageno page = node->number;
    memcpy(bytes, low.bytes, low.len);
    low.bytes = bytes;
    lladd_page_unfix(t->db, node, LLADD_LATCH_SHARED);
    return low.len ? post(txn, t, low, page, level + 1) : 0;
}

int ll_btree__make_room(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key,
                        uint32_t need)
{
    bool enough = false;
    TRY(ll_btree__make_clear(txn, t, key, need, &enough));
    return enough ? 0 : split(txn, t, key, 0, need);
}
