/* SPDX-License-Identifier: BSD-2-Clause */
/* Loading builds a new tree from rows in ascending order of their keys. All levels are built at
 * once, from the left. A node is complete when its next row would not fit; only then are its high
 * fence and its right link known, and the next node gets its page. Complete nodes are written
 * without logging (lladd/bulk.h), in extents of each level.
 *
 * A load always makes a new tree, because of BPT-5: a page that has become a node stays one until
 * the tree is destroyed. The rollback of a load frees the pages of its nodes, so these nodes must
 * not have been seen by a reader. No reader can see them: the root page names no node before
 * lladd_btree_load_finish, and calls on the tree return LLADD_BUSY until the transaction has
 * committed. If a load could add pages to a tree that is in use, these pages would have to stay in
 * the tree after a rollback, like the pages of a split.
 *
 * So a rollback undoes only the allocations and, after lladd_btree_load_finish, the state of the
 * root page. One of the allocated pages is the root page, which identifies the tree. The pages are
 * durable before the records of the root page are logged (OP-1, BUF-6). The first logged change of
 * a page logs an image of it, because the page has no base. */
#include "operations/btree/tree.h"

#include <lladd/blob.h>
#include <lladd/bulk.h>

#define STAGE_BYTES (256u << 10) /* bytes written in one call */
#define EXTENT_BYTES (8u << 20)  /* the longest extent */

/* The entries of a node that is not complete. The entries have the same bytes here as in records
 * and in pages, without unused room. */
struct open_node {
    lladd_pageno page;
    uint32_t n, used;       /* number of entries, and their bytes */
    uint16_t *at;           /* offsets of the entries */
    unsigned char *entries; /* a buffer as large as a page */
    uint32_t low_len;
    unsigned char low[BT_KEY_MAX]; /* the low fence */
};

struct level {
    struct level *up; /* NULL: the top */
    uint32_t number;
    lladd_pageno first; /* the first node of the level */
    struct open_node node;
    /* The next page of the last extent, its pages left, and the number of pages of all extents. */
    uint64_t next, left, taken;
    unsigned char *stage;       /* complete nodes, on pages that follow each other */
    lladd_pageno stage_page;    /* the page of the first node in the stage */
    size_t staged, stage_pages; /* nodes in the stage; its size in nodes */
};

struct lladd_btree_loader {
    struct lladd_txn *txn; /* NULL: the transaction has ended */
    struct ll_btree_owner *owner;
    struct lladd_btree_loader *next; /* the transaction's next load */
    struct lladd_btree_options options;
    struct ll_btree_tree sizes; /* only its database and its lengths of keys and values are set */
    uint32_t page_size;
    const uint32_t *alive;
    lladd_savepoint_id before;  /* the savepoint before the load; kept, because a release would
                                 * discard those that were made since */
    lladd_savepoint_id changed; /* the number of the transaction's next savepoint after the load's
                                 * last change */
    bool undone;                /* a rollback to an earlier savepoint has undone the load */
    int broken;                 /* the error of a call that may have changed something */
    lladd_pageno root;
    struct level *leaves; /* NULL: no row was added */
    uint64_t rows;
};

static int no_memory(const struct lladd_btree_loader *l)
{
    return ll_btree__no_memory(lladd_txn_error_out(l->txn), "loading a B+tree");
}

/* ---- the transaction ------------------------------------------------------------------------- */

static void unlink_from_owner(struct lladd_btree_loader *l)
{
    struct lladd_btree_loader **at = &l->owner->loads;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

void ll_btree__loads_undone(struct lladd_btree_loader *l, lladd_savepoint_id to)
{
    for (; l; l = l->next) {
        l->undone = l->undone || l->before > to;
        if (l->changed > to)
            l->broken = LLADD_DEAD_SAVEPOINT;
    }
}

void ll_btree__loads_ended(struct ll_btree_owner *o)
{
    for (struct lladd_btree_loader *l = o->loads; l; l = l->next)
        l->txn = NULL;
    o->loads = NULL;
}

/* Notes that the load has changed something in the transaction. */
static int note_change(struct lladd_btree_loader *l)
{
    struct lladd_txn_now now;
    int rc = lladd_txn_now_get(l->txn, &now);
    l->changed = rc ? l->changed : now.next;
    return rc;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static int flush(struct lladd_btree_loader *l, struct level *v)
{
    if (v->staged == 0)
        return 0;
    size_t n = v->staged;
    v->staged = 0;
    return lladd_bulk_write(l->txn, v->stage_page, n, ll_btree__node_page.name, v->stage);
}

/* Takes another extent for the level. The new extent is as long as all earlier extents of the level
 * together, but at most EXTENT_BYTES. It is shorter if there is too little space. */
static int take_extent(struct lladd_btree_loader *l, struct level *v)
{
    struct lladd_db *db = lladd_txn_db(l->txn);
    uint64_t most = EXTENT_BYTES / l->page_size, want = v->taken ? v->taken : 1;
    lladd_pageno first;
    most = most < lladd_extent_max(db) ? most : lladd_extent_max(db);
    want = want < most ? want : most;
    int rc = lladd_extent_alloc(l->txn, want, LLADD_EXTENT_BULK, &first);
    while (rc == LLADD_NO_SPACE && want > 1) {
        want /= 2;
        rc = lladd_extent_alloc(l->txn, want, LLADD_EXTENT_BULK, &first);
    }
    if (rc)
        return rc;
    v->next = first.v;
    v->left = want;
    v->taken += want;
    return note_change(l);
}

static int take_page(struct lladd_btree_loader *l, struct level *v, lladd_pageno *out)
{
    if (v->left == 0)
        TRY(take_extent(l, v));
    *out = lladd_page_of(v->next++);
    v->left--;
    return 0;
}

/* Makes room for one more node in the stage. */
static int stage_room(struct lladd_btree_loader *l, struct level *v)
{
    size_t most = STAGE_BYTES / l->page_size;
    if (v->staged < v->stage_pages)
        return 0;
    if (v->stage_pages == most)
        return flush(l, v);
    size_t pages = v->stage_pages ? 2 * v->stage_pages : 1;
    unsigned char *stage = lladd_mem_resize(lladd_txn_db(l->txn), v->stage, pages * l->page_size);
    if (!stage)
        return no_memory(l);
    v->stage = stage;
    v->stage_pages = pages;
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int new_level(struct lladd_btree_loader *l, uint32_t number, struct level **out)
{
    struct lladd_db *db = lladd_txn_db(l->txn);
    size_t slots = l->page_size / (BT_SLOT + BT_ENTRY_HEAD) + 1;
    size_t size = sizeof(struct level) + slots * sizeof(uint16_t) + l->page_size;
    struct level *v = number <= BT_LEVEL_MAX ? lladd_mem_alloc(db, size) : NULL;
    if (!v)
        return no_memory(l);
    *v = (struct level){.number = number};
    v->node.at = (uint16_t *)(void *)(v + 1);
    v->node.entries = (unsigned char *)(v->node.at + slots);
    int rc = take_page(l, v, &v->first);
    v->node.page = v->first;
    if (rc)
        lladd_mem_free(db, v);
    else
        *out = v;
    return rc;
}

static struct bt_key low_of(const struct open_node *o)
{
    return (struct bt_key){o->low, o->low_len};
}

static struct bt_key key_at(const struct open_node *o, uint32_t slot)
{
    struct bt_entry e;
    const unsigned char *p = o->entries + o->at[slot];
    (void)ll_btree__unpack(p, SIZE_MAX, &e); /* cannot fail: the loader has packed the entry */
    return bt_entry_key(&e);
}

/* Bytes that are free if the node gets no high fence. */
static uint32_t room(const struct lladd_btree_loader *l, const struct open_node *o)
{
    return l->page_size - BT_SLOT_AREA - o->low_len - BT_SLOT * o->n - o->used;
}

static void add_entry(struct open_node *o, const struct bt_entry *e)
{
    o->at[o->n++] = (uint16_t)o->used;
    ll_btree__pack(o->entries + o->used, e);
    o->used += (uint32_t)ll_btree__pack_size(e);
}

/* Writes the node into the page: all bytes after the page's header. */
static void write_node(const struct lladd_btree_loader *l, const struct level *v,
                       const struct bt_fences *f, lladd_pageno right, unsigned char *page)
{
    const struct open_node *o = &v->node;
    memset(page, 0, BT_SLOT_AREA);
    ll_btree__clear(page, l->page_size, f);
    lladd_put48(page + BT_ROOT, l->root.v);
    page[BT_LEVEL] = (unsigned char)v->number;
    lladd_put48(page + BT_RIGHT, right.v);
    bt_set(page, BT_SLOTS, o->n);
    bt_set(page, BT_USED, o->used);
    uint32_t from = bt_end(page, l->page_size) - o->used, prefix = bt_get(page, BT_PREFIX);
    memcpy(page + from, o->entries, o->used);
    for (uint32_t i = 0; i < o->n; i++) {
        unsigned char *slot = bt_slot(page, i);
        lladd_put32(slot, bt_head(key_at(o, i), prefix));
        lladd_put16(slot + 4, (uint16_t)(from + o->at[i]));
    }
    if (v->number > 0) /* the first key is empty: it stands for the low fence */
        lladd_put32(bt_slot(page, 0), 0);
}

/* Stages the present node, which is complete. right 0: the node is the last one of its level, and
 * the fence is not used. */
static int complete(struct lladd_btree_loader *l, struct level *v, struct bt_key high,
                    lladd_pageno right)
{
    struct bt_fences f = {low_of(&v->node), high, right.v == 0};
    TRY(stage_room(l, v));
    if (v->staged == 0)
        v->stage_page = v->node.page;
    write_node(l, v, &f, right, v->stage + v->staged * l->page_size);
    v->staged++;
    return right.v == v->node.page.v + 1 ? 0 : flush(l, v);
}

static int add_child(struct lladd_btree_loader *, struct level *below, struct bt_key low,
                     lladd_pageno child);

/* Completes the present node with its first `keep` entries, and begins the next node, which gets
 * the entry after these, if there is one. `fence` separates the two nodes. */
static int next_node(struct lladd_btree_loader *l, struct level *v, uint32_t keep,
                     struct bt_key fence)
{
    struct open_node *o = &v->node;
    unsigned char child[BT_CHILD];
    lladd_pageno page;
    uint32_t n = o->n - keep, from = n ? o->at[keep] : o->used, len = o->used - from;
    o->n = keep;
    o->used = from;
    TRY(take_page(l, v, &page));
    TRY(complete(l, v, fence, page));
    TRY(add_child(l, v, fence, page));
    o->page = page;
    o->low_len = fence.len;
    memcpy(o->low, fence.bytes, fence.len); /* the fence may be in the entries: copy it first */
    o->n = o->used = 0;
    if (n && v->number == 0) {
        memmove(o->entries, o->entries + from, len);
        o->at[0] = 0;
        o->n = 1;
        o->used = len;
    } else if (n) { /* the key becomes empty: it stands for the fence */
        memcpy(child, o->entries + from + len - BT_CHILD, BT_CHILD);
        add_entry(o, &(struct bt_entry){NULL, child, 0, BT_CHILD, BT_CHILD});
    }
    return 0;
}

/* Enters a node in the level above its own; makes that level if there is none. */
static int add_child(struct lladd_btree_loader *l, struct level *below, struct bt_key low,
                     lladd_pageno child)
{
    unsigned char number[BT_CHILD];
    struct bt_entry e = {low.bytes, number, (uint16_t)low.len, BT_CHILD, BT_CHILD};
    if (!below->up) {
        struct bt_entry first = {NULL, number, 0, BT_CHILD, BT_CHILD};
        TRY(new_level(l, below->number + 1, &below->up));
        lladd_put48(number, below->first.v);
        add_entry(&below->up->node, &first);
    }
    struct level *v = below->up;
    struct open_node *o = &v->node;
    lladd_put48(number, child.v);
    if (room(l, o) < BT_SLOT + bt_entry_size(low.len, BT_CHILD)) {
        /* The fence is the key of the next node's first child; it needs room in this node. */
        if (room(l, o) < low.len) {
            TRY(next_node(l, v, o->n - 1, key_at(o, o->n - 1)));
        } else {
            TRY(next_node(l, v, o->n, low));
            e.key_len = 0;
        }
    }
    add_entry(o, &e);
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Begins another leaf if the row does not fit. If the fence between the leaves does not fit either,
 * the leaf's last row goes to the next leaf. The fence then precedes this row, and is no longer
 * than the row's key. */
static int make_room(struct lladd_btree_loader *l, struct bt_key key, uint32_t need)
{
    struct open_node *o = &l->leaves->node;
    if (room(l, o) >= need)
        return 0;
    struct bt_key last = key_at(o, o->n - 1), fence = bt_separator(last, key);
    uint32_t keep = o->n;
    if (room(l, o) < fence.len) {
        keep--;
        fence = bt_separator(key_at(o, keep - 1), last);
    }
    return next_node(l, l->leaves, keep, fence);
}

static int add_row(struct lladd_btree_loader *l, struct bt_entry *e, size_t value_len)
{
    unsigned char ref[BT_REF];
    if (!l->leaves)
        TRY(new_level(l, 0, &l->leaves));
    TRY(make_room(l, bt_entry_key(e), BT_SLOT + (uint32_t)ll_btree__pack_size(e)));
    if (e->value_len & BT_BLOB) {
        lladd_pageno blob;
        TRY(lladd_blob_create(l->txn, e->value, value_len, &blob));
        TRY(note_change(l));
        lladd_put64(ref, value_len);
        lladd_put64(ref + 8, blob.v);
        e->value = ref;
    }
    add_entry(&l->leaves->node, e);
    l->rows++;
    return 0;
}

static int check_order(const struct lladd_btree_loader *l, struct bt_key key)
{
    const struct open_node *o = l->rows ? &l->leaves->node : NULL;
    int c = o ? bt_compare(key_at(o, o->n - 1), key) : -1;
    if (c < 0)
        return 0;
    return lladd_error_set(lladd_txn_error_out(l->txn), LLADD_BAD_ARGUMENT,
                           c ? "row %llu of a load has a smaller key than the row that precedes "
                               "it: keys must ascend"
                             : "row %llu of a load has the key of the row that precedes it",
                           (unsigned long long)l->rows);
}

/* LLADD_BAD_STATE if the transaction has ended, a part of the load was rolled back, or an earlier
 * call has failed. */
static int may_load(const struct lladd_btree_loader *l)
{
    if (!l->txn)
        return LLADD_BAD_STATE;
    struct lladd_error *err = lladd_txn_error_out(l->txn);
    if (!l->alive || !lladd_atomic_load32(l->alive))
        TRY(lladd_check_process(l->sizes.db, err));
    if (l->broken == LLADD_DEAD_SAVEPOINT)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "a part of the load has been rolled back: discard it");
    return l->broken ? lladd_error_set(err, LLADD_BAD_STATE,
                                       "the load has failed before (%s): discard it",
                                       lladd_code_name(l->broken))
                     : 0;
}

int lladd_btree_load_add(struct lladd_btree_loader *l, const void *key, size_t key_len,
                         const void *value, size_t value_len)
{
    LLADD_USE(l->txn);
    TRY(may_load(l));
    struct lladd_error *err = lladd_txn_error_out(l->txn);
    struct bt_entry e = {.key = key, .value = value, .key_len = (uint16_t)key_len};
    TRY(ll_btree__key_fits(&l->sizes, key_len, err));
    TRY(ll_btree__value_fits(&l->sizes, key_len, value_len, &e.value_len, err));
    TRY(check_order(l, (struct bt_key){key, (uint32_t)key_len}));
    e.cap = BT_LEN(e.value_len);
    l->broken = add_row(l, &e, value_len);
    return l->broken;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void release(struct lladd_btree_loader *l)
{
    struct lladd_db *db = l->sizes.db;
    for (struct level *v = l->leaves, *up; v; v = up) {
        up = v->up;
        lladd_mem_free(db, v->stage);
        lladd_mem_free(db, v);
    }
    if (l->txn)
        unlink_from_owner(l);
    lladd_mem_free(db, l);
}

/* Allocates the root page, because each node holds its number. */
static int begin(struct lladd_btree_loader *l)
{
    TRY(lladd_savepoint(l->txn, &l->before));
    int rc = lladd_page_alloc(l->txn, &l->root);
    if (!rc)
        rc = note_change(l);
    return rc ? ll_operations__step_end(l->txn, l->before, rc) : 0;
}

int lladd_btree_load_begin(struct lladd_txn *txn, const struct lladd_btree_options *options,
                           struct lladd_btree_loader **out)
{
    LLADD_USE(txn);
    struct lladd_db *db = lladd_txn_db(txn);
    struct lladd_btree_options o;
    struct ll_btree_owner *owner;
    TRY(ll_btree__options(txn, options, &o));
    TRY(ll_btree__owner(txn, ll_btrees_of(db), &owner));
    struct lladd_btree_loader *l = lladd_mem_alloc(db, sizeof *l);
    if (!l)
        return ll_btree__no_memory(lladd_txn_error_out(txn), "loading a B+tree");
    *l = (struct lladd_btree_loader){.txn = txn,
                                     .owner = owner,
                                     .options = o,
                                     .sizes.db = db,
                                     .page_size = lladd_page_size(db),
                                     .alive = lladd_db_alive(db)};
    ll_btree__set_sizes(&l->sizes, o.key_size, o.value_size);
    int rc = begin(l);
    l->next = owner->loads;
    owner->loads = l;
    if (rc)
        release(l);
    else
        *out = l;
    return rc;
}

static int finish_level(struct lladd_btree_loader *l, struct level *v)
{
    uint64_t left = v->left;
    v->left = 0;
    TRY(complete(l, v, (struct bt_key){NULL, 0}, lladd_page_of(0)));
    return left ? lladd_extent_free(l->txn, lladd_page_of(v->next), left) : 0;
}

static int finish(struct lladd_btree_loader *l)
{
    struct ll_btree_tree *t;
    if (!l->leaves)
        TRY(new_level(l, 0, &l->leaves));
    struct level *top = l->leaves;
    for (struct level *v = l->leaves; v; v = v->up) {
        TRY(finish_level(l, v));
        top = v;
    }
    if (!LLADD_PLANTED(LLADD_BUG_BT_LOAD))
        TRY(lladd_bulk_sync(l->txn));
    return ll_btree__publish(l->txn, l->root, &l->options, bt_top(top->first, top->number), &t);
}

int lladd_btree_load_finish(struct lladd_btree_loader *l, lladd_pageno *root)
{
    LLADD_USE(l->txn);
    TRY(may_load(l));
    l->broken = finish(l);
    if (l->broken)
        return l->broken;
    *root = l->root;
    release(l);
    return 0;
}

int lladd_btree_load_discard(struct lladd_btree_loader *l)
{
    if (!l)
        return 0;
    struct lladd_txn *txn = l->txn;
    LLADD_USE(txn);
    lladd_savepoint_id before = l->before;
    bool undone = !txn || l->undone;
    release(l);
    if (undone)
        return 0;
    TRY(lladd_rollback_to(txn, before));
    return lladd_savepoint_release(txn, before);
}
