/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BTREE_TREE_H
#define LL_OPERATIONS_BTREE_TREE_H
/* B+trees in memory: see tree.c. The rules BPT-1 to BPT-5 are in docs/structures-btree.md. */
#include "operations/btree/node.h"
#include "operations/shared/txn_state.h"

#include <lladd/btree.h>

/* The root page, page type "lladd.btree": offsets in the page. */
enum {
    BR_LAYOUT = LLADD_PAGE_HEADER,     /* u32 1 */
    BR_STATE = LLADD_PAGE_HEADER + 4,  /* u32 0; 1: there is no tree */
    BR_KEY = LLADD_PAGE_HEADER + 8,    /* u32 length of every key, 0: any */
    BR_VALUE = LLADD_PAGE_HEADER + 12, /* u32 length of every value, 0: any */
    BR_TOP = LLADD_PAGE_HEADER + 16,   /* u48 the top node, u16 its level */
    BR_SPARE = LLADD_PAGE_HEADER + 24, /* u48 page for the next top node, 0: none */
    BR_FREE = LLADD_PAGE_HEADER + 30   /* u48 first page of the free list, 0: none; u32 pages */
};

#define BR_LAYOUT_KNOWN 1u

struct ll_btree_owner;

struct ll_btree_tree {
    uint64_t top;  /* atomic: page | level << 48 of the top node. If it is 0, ll_btree__top_slow
                    * reads the root page, or returns why the tree may not be used */
    uint64_t last; /* atomic; a hint: a leaf that was the last one of the tree, or 0 */
    struct ll_btrees *trees;
    struct lladd_db *db;
    lladd_pageno root;
    uint16_t type; /* number of its nodes' page type */
    uint32_t key_size, value_size, key_max, entry_max;
    struct ll_btree_tree *next;
    bool blobs;         /* values may be in blobs */
    bool loaded;        /* the members above are filled in; under `loading` */
    uint32_t destroyed; /* atomic; 0 again if the destruction is rolled back */
    uint32_t fresh;     /* atomic: the tree's creation is neither committed nor rolled back */
    uint64_t owner;     /* atomic: struct ll_btree_owner * of the transaction that creates or
                         * destroys it, or 0 */
    uint64_t changers;  /* atomic: the number of transactions that have not ended and may undo
                         * changes by key */
    struct lladd_mutex loading; /* held while the root page is read */
    uint64_t splits, merges;    /* atomic */
    struct ll_btree_sparse *first_sparse, *last_sparse; /* under the mutex of `trees` */
    uint64_t n_sparse; /* atomic: the length of that list, changed under the same mutex */
};

struct lladd_btree {
    struct ll_btree_tree *tree;
};

/* A tree that a transaction creates or destroys. */
struct ll_btree_own {
    struct ll_btree_tree *tree;
    lladd_savepoint_id claimed;   /* number of the transaction's next savepoint when it claimed the
                                   * tree; 0: the transaction is in doubt */
    lladd_savepoint_id destroyed; /* 1 + the savepoint before the transaction destroyed the tree; 0:
                                   * not destroyed */
    bool created;
};

/* The state of a transaction that changes trees: a participant. */
struct ll_btree_owner {
    struct ll_txn_part owner;
    struct ll_reservation_txn hold; /* reservations of keys: see tree.c */
    struct ll_btree_own *own;
    size_t n_own, cap_own;
    struct ll_btree_tree **changed; /* trees in which it may undo changes by key */
    size_t n_changed, cap_changed;
    struct lladd_btree_loader *loads; /* loads that are neither finished nor discarded */
};

/* The state of a database. */
struct ll_btrees {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf: protects the list of trees */
    struct ll_btree_tree *trees;
    struct ll_txn_parts owners;
    struct ll_reservations holds;
    struct ll_operations *ops;
    lladd_op_id format, top, create, destroy, root_spare, root_free, node, spare, fill, narrow,
        index, unindex, widen, close, put, insert, fill_1, rows, remove, mark, restore, clear;
};

extern const struct lladd_extension ll_btree__extension;
extern const struct lladd_page_type ll_btree__root_page, ll_btree__node_page;
extern const struct lladd_participant ll_btree__participant;
extern const struct lladd_op ll_btree__node, ll_btree__spare, ll_btree__fill, ll_btree__narrow,
    ll_btree__index, ll_btree__fill_1, ll_btree__put, ll_btree__insert, ll_btree__rows,
    ll_btree__remove, ll_btree__mark, ll_btree__restore, ll_btree__clear_op;
extern const struct lladd_op ll_btree__unindex, ll_btree__widen, ll_btree__close;
extern const struct lladd_op ll_btree__root_format, ll_btree__root_top, ll_btree__root_create,
    ll_btree__root_destroy, ll_btree__root_spare, ll_btree__root_free;

/* The rank of the mutex `loading`, which a thread holds while it reads the root page. */
enum { LL_BTREE_RANK_LOADING = LLADD_RANK_EXTENSION + 1 };

static inline struct ll_btrees *ll_btrees_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_btree__extension);
}
static inline uint64_t bt_top(lladd_pageno page, uint32_t level)
{
    return page.v | (uint64_t)level << 48;
}
static inline lladd_pageno bt_top_page(uint64_t top)
{
    return lladd_page_of(top & ((UINT64_C(1) << 48) - 1));
}
static inline uint32_t bt_top_level(uint64_t top)
{
    return (uint32_t)(top >> 48);
}
/* The top node that a root page names. */
static inline uint64_t ll_btree__top_of(const unsigned char *root)
{
    return bt_top(lladd_page_of(lladd_get48(root + BR_TOP)), lladd_get16(root + BR_TOP + 6));
}
static inline bool bt_is_node(const struct ll_btree_tree *t, struct lladd_view v)
{
    return v.type == t->type && lladd_get48(v.bytes + BT_ROOT) == t->root.v &&
           v.bytes[BT_FLAGS] == 0;
}

/* ---- tree.c ---------------------------------------------------------------------------------- */

/* Returns the tree of a root page, created in memory if necessary. Reads no page. */
int ll_btree__find_tree(struct ll_btrees *, lladd_pageno root, struct ll_btree_tree **out);
/* Returns a new tree for this root page, claimed by the transaction. The tree's first node has been
 * formatted before. Marks an older tree of that page as destroyed. */
int ll_btree__new_tree(struct lladd_txn *, struct ll_btrees *, lladd_pageno root,
                       const struct lladd_btree_options *, struct ll_btree_tree **out);
/* Returns the top node and its level; reads the root page if necessary. LLADD_DESTROYED: the tree
 * was destroyed. LLADD_WRONG_TYPE: the page is not a tree's root. LLADD_BUSY: the tree's creation
 * has not committed. */
int ll_btree__top_slow(struct ll_btree_tree *, uint64_t *out, struct lladd_error *);
static inline int ll_btree__top(struct ll_btree_tree *t, uint64_t *out, struct lladd_error *err)
{
    *out = lladd_atomic_load64(&t->top);
    return __builtin_expect(*out != 0, 1) ? 0 : ll_btree__top_slow(t, out, err);
}
/* Stores the top node after the tree has got a higher one. */
void ll_btree__raise(struct ll_btree_tree *, uint64_t top);
/* Forgets the top node; the next use reads it. */
void ll_btree__forget(struct ll_btree_tree *);
int ll_btree__corrupt(struct lladd_error *, lladd_pageno, const char *what);
/* Reserves the key for the transaction, before the transaction latches the key's leaf. */
int ll_btree__reserve(struct lladd_txn *, struct ll_btree_tree *, struct bt_key);
/* May an open transaction need this key's ghost, or the room of its value, for undo? */
bool ll_btree__held(const struct ll_btree_tree *, struct bt_key);
/* Fills in the members that never change, except the type. */
void ll_btree__set_sizes(struct ll_btree_tree *, uint32_t key_size, uint32_t value_size);
int ll_btree__no_memory(struct lladd_error *, const char *what);

/* ---- txn.c ----------------------------------------------------------------------------------- */

void ll_btree__owner_drop(struct ll_txn_part *);
int ll_btree__owner(struct lladd_txn *, struct ll_btrees *, struct ll_btree_owner **out);
/* Gives the tree to the transaction alone, until the transaction ends or rolls back to a savepoint
 * before this call. LLADD_BUSY: another transaction has the tree, or may still undo a change of the
 * tree by key. */
int ll_btree__claim(struct lladd_txn *, struct ll_btree_tree *, bool created);
/* Notes that the transaction has destroyed the tree after this savepoint. The transaction has
 * claimed the tree before. */
void ll_btree__set_destroyed(struct lladd_txn *, struct ll_btree_tree *, lladd_savepoint_id before);
/* Notes that the transaction changes the tree. LLADD_BUSY: another transaction creates or destroys
 * the tree. */
int ll_btree__changes(struct lladd_txn *, struct ll_btree_tree *);

/* ---- search.c, descend.c --------------------------------------------------------------------- */

enum bt_step { BT_HERE, BT_GO_RIGHT, BT_AGAIN };
/* What a search has seen in a node. */
struct bt_seen {
    struct bt_place place;
    lladd_pageno right, child;   /* child: in an inner node */
    uint16_t key_len, value_len; /* lengths in a leaf if the key was found, flags included */
    uint32_t value_at;
};
/* Searches for the key in a page that should be the key's node of this level. */
enum bt_step ll_btree__look(const struct ll_btree_tree *, const unsigned char *page, uint32_t size,
                            struct bt_key, uint32_t level, struct bt_seen *);
/* Copies the words that contain n bytes of a page into `words`, which has room for n / 8 + 2.
 * Returns the address of the n bytes in `words`; NULL if they are not in the page. */
const unsigned char *ll_btree__copy(const unsigned char *page, uint32_t size, uint32_t at,
                                    uint32_t n, uint64_t *words);
/* Finds the page that a moment ago was the node of this level for the key, or a node to the left of
 * that node. *moved (nullable): if a right link led on, becomes that level plus one. LLADD_END: the
 * tree has no such level. LLADD_CONFLICT: a page was no node for the key; try again. */
int ll_btree__descend(struct ll_btree_tree *, struct bt_key, uint32_t level, lladd_pageno *out,
                      uint32_t *moved, struct lladd_error *);
/* Counts an attempt that has met a page that is no node for the key. LLADD_CORRUPT_PAGE after too
 * many. */
int ll_btree__again(struct ll_btree_tree *, unsigned *tries, struct lladd_error *);
/* Latches the node of this level that covers the key. LLADD_END: the tree has no such level. */
int ll_btree__fix(struct ll_btree_tree *, struct bt_key, uint32_t level, enum lladd_latch,
                  struct lladd_page **out, struct lladd_error *);
/* Latches the leaf that covers the key shared, like ll_btree__fix. If `near` is not 0, the search
 * begins at this page, and begins at the top only if this page does not lead to the leaf. */
int ll_btree__fix_near(struct ll_btree_tree *, lladd_pageno near, struct bt_key,
                       struct lladd_page **out, struct lladd_error *);

/* ---- rows.c: changes of a row ---------------------------------------------------------------- */

/* The most bytes of a record of `insert`, and how many bytes of a record are neither key nor
 * value. */
#define BT_INSERT_MAX 256u
#define BT_INSERT_HEADS 8u
/* The fewest and the most rows of a record of `rows`, and its most bytes. */
#define BT_ROWS_MIN 4u
#define BT_ROWS_MAX 16u
#define BT_ROWS_BYTES 2048u

struct bt_change {
    struct ll_btree_tree *tree;
    struct lladd_txn *txn;
    lladd_op_id op;
    struct bt_key key;
    lladd_pageno page; /* the leaf, if the tree has not changed */
    const unsigned char *value;
    uint16_t value_len; /* includes BT_BLOB */
    bool only;          /* put: do not replace a row */
    bool reserved;      /* the transaction has reserved the key */
    uint64_t moves;     /* number of right links that the change has followed */
    /* Results. */
    enum bt_answer {
        BT_DONE = 0,
        BT_MOVED,   /* not the key's leaf: go on at `right`, or from the top if that is 0 */
        BT_FULL,    /* no room */
        BT_PRESENT, /* put with `only`: there is a row */
        BT_RESERVE, /* put: reserve the key first */
        BT_OVER_GHOST, /* insert: the key has a ghost, so the caller must use `put` */
        BT_FEW,        /* rows: too few rows for one record */
        BT_ABSENT      /* remove: there is no row */
    } answer;
    lladd_pageno right;
    bool inserted;     /* put: there was no row */
    bool at_end;       /* put: the row is the last one of the last leaf */
    bool sparse;       /* remove: the leaf should be merged (merge.c) */
    lladd_pageno gone; /* the blob of the row's old value, or 0 */
};

/* Rows for one leaf. `change` has the rows' tree and transaction; its key and value are set to
 * those of each row in turn. */
struct bt_rows {
    struct bt_change *change;
    const struct lladd_btree_row *rows;
    uint32_t n;    /* the number of rows; the contents of the leaf may permit fewer in the record */
    uint32_t done; /* result: the number of rows in the record, from the first one on */
};
struct bt_mark {
    uint32_t slot;
    bool ghost;
};
struct bt_restore {
    uint32_t slot;
    struct bt_entry entry;
};
/* Slots that lose their entries, the highest slot first. A slot with the flag BT_TRIM loses only
 * the unused room of its entry. */
struct bt_clear {
    const uint16_t *slots;
    uint32_t n;
};
#define BT_TRIM 0x8000u

/* The undo of a change. */
struct bt_undo {
    enum { BT_UNDO_INSERT, BT_UNDO_REPLACE, BT_UNDO_REMOVE } what;
    struct bt_key key;
    const unsigned char *value;
    uint16_t value_len;
    bool ghost;
};
/* undo.c */
int ll_btree__undo(struct lladd_txn *, lladd_pageno root, const struct bt_undo *);

/* ---- smo.c: changes of the structure --------------------------------------------------------- */

/* Arguments of node and fill: the whole contents. In the short form the entries of a leaf lack the
 * bytes that all its keys have in common. */
struct bt_fill {
    lladd_pageno root, right;
    uint32_t level;
    bool closed, brief;
    struct bt_fences fences;
    const unsigned char *packed; /* entries as in records */
    size_t len;
};
static inline uint32_t bt_left_out(const struct bt_fill *f)
{
    return f->brief && f->level == 0 ? ll_btree__prefix(&f->fences) : 0;
}
struct bt_narrow {
    uint32_t keep; /* slots that stay */
    lladd_pageno right;
    struct bt_key high;
};
struct bt_index {
    uint32_t slot;
    struct bt_key key;
    lladd_pageno child;
};

/* A merge: the left node gets the entries of the right node. */
struct bt_widen {
    lladd_pageno page; /* the right node's page, which becomes the left node's spare page */
    struct bt_fill right;
};
/* The contents of a node as bytes of a record. fill_read checks only the lengths, fill_fine
 * everything. */
bool ll_btree__fill_read(struct lladd_view, struct lladd_span, bool brief, struct bt_fill *);
bool ll_btree__fill_fine(struct lladd_view, struct lladd_span, bool brief, struct bt_fill *);
size_t ll_btree__fill_size(const struct bt_fill *);
void ll_btree__fill_write(unsigned char *to, const struct bt_fill *);
#define BT_FILL_FIELDS \
    {"root", LLADD_FIELD_PAGE}, {"right", LLADD_FIELD_PAGE}, {"level", LLADD_FIELD_U8}, \
        {"closed", LLADD_FIELD_U8}, {"low_bytes", LLADD_FIELD_U16}, \
        {"high_bytes", LLADD_FIELD_U16}, {"entries", LLADD_FIELD_REST}, {NULL, LLADD_FIELD_END}

/* ---- shrink.c -------------------------------------------------------------------------------- */

/* Bytes that the left node needs, its header included, if it gets the entries of the right node. */
uint32_t ll_btree__together(const unsigned char *left, const unsigned char *right, uint32_t size);
/* Bytes of the slots and the entries, with ghosts and unused room. */
static inline uint32_t bt_held_bytes(const unsigned char *page, uint32_t size)
{
    return bt_end(page, size) - BT_SLOT_AREA - ll_btree__room(page, size);
}

/* ---- free.c: the tree's list of free pages --------------------------------------------------- */

/* Moves the spare page of the key's node of this level, if it has one, to the free list. */
int ll_btree__give(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t level);
/* Gives the key's node of this level a free page as its spare page. *has: the node has a spare page
 * now; otherwise there is no free page. */
int ll_btree__take(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t level,
                   bool *has);
/* The number of free pages. */
int ll_btree__count_free(struct ll_btree_tree *, uint64_t *out, struct lladd_error *);
/* Calls fn for every free page. LLADD_CORRUPT_PAGE: the list is not in order. No thread may change
 * it. */
int ll_btree__each_free(struct ll_btree_tree *,
                        int (*fn)(void *ctx, struct ll_btree_tree *, lladd_pageno,
                                  struct lladd_error *),
                        void *ctx, struct lladd_error *);

/* ---- merge.c --------------------------------------------------------------------------------- */

/* A leaf that has got few rows, and waits for a merge. */
struct ll_btree_sparse {
    struct ll_btree_sparse *next;
    lladd_pageno page;
};
/* bt_is_sparse: does the leaf have few rows? bt_gets_sparse: has the newest ghost left the leaf
 * with few rows, or with none? */
static inline bool bt_is_sparse(uint32_t slots, uint32_t ghosts)
{
    return 4 * (slots - ghosts) <= slots;
}
static inline bool bt_gets_sparse(uint32_t slots, uint32_t ghosts)
{
    return slots == ghosts || slots - ghosts == slots / 4;
}
/* Adds the leaf to the list of leaves that wait for a merge. If there is no memory for that, the
 * leaf does not wait. */
void ll_btree__note_sparse(struct ll_btree_tree *, lladd_pageno leaf);
void ll_btree__forget_sparse(struct ll_btree_tree *);
/* Merges a few of the leaves that wait. */
int ll_btree__tidy(struct lladd_txn *, struct ll_btree_tree *);

/* ---- spare.c, split.c, clear.c --------------------------------------------------------------- */

/* Ignores the failure of a change of the structure, because the change of the row does not depend
 * on it, and a later change tries it again. Reports a poisoned handle. */
static inline int bt_reshape(int rc)
{
    return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : 0;
}
/* Packs the node's entries from this slot on into the buffer `to`, which is as large as a page, in
 * the form that the other members of *f say. Sets f->packed and f->len. In an inner node the first
 * of these entries gets an empty key, because the low fence stands for it. */
void ll_btree__pack_from(const unsigned char *page, uint32_t from, unsigned char *to,
                         struct bt_fill *f);

/* Drops the leaf's unneeded ghosts and unused room if the leaf has less room than `need` bytes.
 * *enough: the leaf has that much room now. */
int ll_btree__make_clear(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t need,
                         bool *enough);
/* Gives the key's node of this level a spare page, unless it has one. */
int ll_btree__want_spare(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t level);
/* Gives the root page a spare page, unless it has one. */
int ll_btree__want_root_spare(struct lladd_txn *, struct ll_btree_tree *);
/* Makes room in the leaf for an entry with this key and `need` bytes, its slot included. */
int ll_btree__make_room(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t need);
/* Called after a descent has followed a right link at this level: enters the key's node in its
 * parent, unless the parent has it already. */
int ll_btree__complete(struct lladd_txn *, struct ll_btree_tree *, struct bt_key, uint32_t level);
/* Releases the log credit taken for a change (BUF-3). */
int ll_btree__put_down(struct lladd_txn *, const struct ll_btree_tree *, int rc);

/* ---- create.c, load.c ------------------------------------------------------------------------ */

/* Checks the options of a new tree, which may be NULL, and copies them to *out. */
int ll_btree__options(struct lladd_txn *, const struct lladd_btree_options *,
                      struct lladd_btree_options *out);
/* Makes the allocated page the root page of a tree with this top node. The transaction owns the
 * tree until it ends. */
int ll_btree__publish(struct lladd_txn *, lladd_pageno root, const struct lladd_btree_options *,
                      uint64_t top, struct ll_btree_tree **out);
/* Tells the loads that the transaction was rolled back to this savepoint. */
void ll_btree__loads_undone(struct lladd_btree_loader *, lladd_savepoint_id to);
void ll_btree__loads_ended(struct ll_btree_owner *);

/* ---- change.c, get.c ------------------------------------------------------------------------- */

int ll_btree__tree_of(const struct lladd_btree *, struct ll_btree_tree **, struct lladd_error *);
/* Reads the sizes, if that has not been done, and checks the length. */
int ll_btree__check_key(struct ll_btree_tree *, size_t len, struct lladd_error *);
/* Check lengths, in a tree of which the sizes are known. *out: the number of bytes that the value,
 * or the reference to its blob, takes in the entry. */
int ll_btree__key_fits(const struct ll_btree_tree *, size_t len, struct lladd_error *);
int ll_btree__value_fits(const struct ll_btree_tree *, size_t key_len, size_t len, uint16_t *out,
                         struct lladd_error *);
/* Reads the row's value into the memory at *buf, which grows; *len gets the value's length.
 * LLADD_NOT_FOUND without a message. */
int ll_btree__read_whole(struct ll_btree_tree *, struct bt_key, unsigned char **buf, size_t *size,
                         size_t *len, struct lladd_error *);

/* ---- walk.c ---------------------------------------------------------------------------------- */

/* Called for every node, under its shared latch. */
typedef int ll_btree_node_fn(void *ctx, struct ll_btree_tree *, struct lladd_view,
                             struct lladd_error *);
/* Calls fn for every node of the tree, level by level from the top, each level from the left.
 * Checks that the nodes of a level meet. */
int ll_btree__each_node(struct ll_btree_tree *, ll_btree_node_fn *, void *ctx,
                        struct lladd_error *);
/* The root page's spare page, or 0. */
int ll_btree__root_spare_of(struct ll_btree_tree *, lladd_pageno *out, struct lladd_error *);

/* The pages of a tree. */
struct ll_btree_pages {
    uint64_t *nodes, *blobs; /* nodes and spare pages; root pages of blobs */
    size_t n_nodes, n_blobs, cap_nodes, cap_blobs;
};
int ll_btree__list(struct ll_btree_tree *, struct ll_btree_pages *, struct lladd_error *);
void ll_btree__list_free(struct ll_btree_tree *, struct ll_btree_pages *);

#endif
