/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LIST_H
#define LL_OPERATIONS_LIST_H
/* The declarations that the source files of operations/list/ share: root pages and items on disk
 * (page.c), lists in memory (memory.c). */
#include "operations/operations_private.h"

#include <lladd/list.h>

/* Operations by their index in ll_operations__list_extension. */
enum ll_list_op {
    LL_LIST_FORMAT,
    LL_LIST_ENDS,
    LL_LIST_HEAPS,
    LL_LIST_LINK,
    LL_LIST_MARK,
    LL_LIST_INSERT,
    LL_LIST_OPS
};

extern const struct lladd_op ll_operations__list_format;
extern const struct lladd_op ll_operations__list_ends;
extern const struct lladd_op ll_operations__list_heaps;
extern const struct lladd_op ll_operations__list_link;
extern const struct lladd_op ll_operations__list_mark;
extern const struct lladd_op ll_operations__list_insert;
extern const struct lladd_page_type ll_operations__list_page;
extern const struct lladd_participant ll_operations__list_participant;
extern const struct lladd_extension ll_operations__list_extension;

/* The state of an open database. */
struct ll_lists {
    struct lladd_db *db;
    uint32_t first_op;        /* atomic; id of the first operation, 0: not looked up yet */
    struct lladd_mutex mutex; /* a leaf; protects the following members */
    struct lladd_list *first;
    struct ll_txn_parts changers;
};

static inline struct ll_lists *ll_lists_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_operations__list_extension);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* A link is an item's id: page, slot, and `turn`. The turn is the low 16 bits of a counter of
 * insertions; it tells an item from later items in the same slot. struct lladd_item has slot and
 * turn in one word. */
#define LINK_BYTES 10u
#define LINK_SLOT(item) ((item).slot & UINT16_MAX)
#define LINK_TURN(item) ((item).slot >> 16)

static inline bool ll_list_none(struct lladd_item i)
{
    return i.page.v == UINT64_MAX;
}
static inline bool ll_list_same(struct lladd_item a, struct lladd_item b)
{
    return a.page.v == b.page.v && a.slot == b.slot;
}
/* Page 0 has no items; in a link it means "no item". */
static inline void ll_list_put(unsigned char *p, struct lladd_item i)
{
    lladd_put48(p, ll_list_none(i) ? 0 : i.page.v);
    lladd_put32(p + 6, ll_list_none(i) ? 0 : i.slot);
}
static inline struct lladd_item ll_list_item(const unsigned char *p)
{
    struct lladd_item i = {lladd_page_of(lladd_get48(p)), lladd_get32(p + 6)};
    return i.page.v ? i : LLADD_ITEM_NONE;
}

/* ---- items: records of a heap ---------------------------------------------------------------- */

#define ITEM_PREV 0u
#define ITEM_NEXT LINK_BYTES
#define ITEM_TURN (2u * LINK_BYTES)
#define ITEM_GONE (2u * LINK_BYTES + 2u) /* u8: removed */
#define ITEM_BYTES (2u * LINK_BYTES + 3u)

/* ---- the root page --------------------------------------------------------------------------- */

#define LIST_FIRST LLADD_PAGE_HEADER
#define LIST_LAST (LIST_FIRST + LINK_BYTES)
#define LIST_HEAPS (LIST_LAST + LINK_BYTES) /* u16: number of heaps */
#define LIST_HEAP (LIST_HEAPS + 4u)         /* u64 each */
#define LIST_HEAPS_MAX 500u

struct ll_list_ends {
    struct lladd_item first, last;
};
/* Argument of `link`: sets one of an item's two links to `to`. */
struct ll_list_link {
    struct lladd_item item, to;
    uint32_t which; /* ITEM_PREV, ITEM_NEXT */
};
/* Argument of `mark`. The update returns LLADD_NOT_FOUND if the page has no such item. */
struct ll_list_mark {
    struct lladd_item item;
    bool gone;
};
/* Argument of `heaps`. */
struct ll_list_heaps {
    const uint64_t *heap;
    uint32_t n;
};

static inline struct ll_list_ends ll_list_ends_of(const unsigned char *root)
{
    struct ll_list_ends e = {ll_list_item(root + LIST_FIRST), ll_list_item(root + LIST_LAST)};
    return e;
}

/* Finds the item's record on the page. False: the slot is empty, or belongs to another item. */
bool ll_operations__list_find(struct lladd_view, struct lladd_item, struct lladd_record *);

/* ---- in memory: memory.c ---------------------------------------------------------------- */

/* A list in memory; all handles of the list share it. */
struct lladd_list {
    struct ll_lists *lists;
    struct lladd_list *next;
    lladd_pageno root;
    uint32_t refs;             /* handles and transactions; under lists->mutex */
    uint32_t turns;            /* atomic; the counter of insertions */
    const void *alone;         /* struct ll_list_changer of the transaction that has created or
                                * spliced the list and has not ended, or NULL; under lists->mutex */
    struct lladd_mutex change; /* held by the thread that changes links */
};

/* Returns the list of a root page and takes a reference; list_drop releases it. */
int ll_operations__list_take(struct ll_lists *, lladd_pageno root, struct lladd_list **out,
                             struct lladd_error *);
void ll_operations__list_drop(struct ll_lists *, struct lladd_list *);
bool ll_operations__list_is_alone(struct lladd_txn *, struct lladd_list *);
/* From now until the transaction ends, the transaction's changes of links are ordinary updates
 * (list.c). */
int ll_operations__list_stay_alone(struct lladd_txn *, struct ll_lists *, lladd_pageno root);
/* Ends list_stay_alone early: other transactions may use the list again. */
void ll_operations__list_share(struct lladd_txn *, struct lladd_list *);

lladd_op_id ll_operations__list_id(struct ll_lists *, enum ll_list_op);

/* ---- reading: walk.c -------------------------------------------------------------------- */

/* An item as stored on its page. */
struct ll_list_look {
    struct lladd_item prev, next;
    bool gone;
    uint64_t owner; /* owner word of the item's page */
    size_t len;
};

/* What to do with an item's bytes, if the item is not removed. */
struct ll_list_copy {
    void *buf; /* gets the first `size` bytes */
    size_t size;
    /* Nullable function; it is called with the item's bytes, and `yes` gets its result. */
    bool (*is)(void *ctx, struct lladd_span item);
    void *ctx;
    bool yes;
};

int ll_operations__list_no_item(struct lladd_error *, struct lladd_item);
/* Fixes the root page of a list that exists. */
int ll_operations__list_root(struct lladd_db *, lladd_pageno root, struct lladd_page **out,
                             struct lladd_error *);
static inline uint32_t ll_list_heaps_on(const unsigned char *root)
{
    uint32_t n = lladd_get16(root + LIST_HEAPS);
    return n < LIST_HEAPS_MAX ? n : LIST_HEAPS_MAX;
}

static inline uint64_t ll_list_heap_at(const unsigned char *root, uint32_t i)
{
    return lladd_get64(root + LIST_HEAP + 8 * (size_t)i);
}

/* The first and the last item, and the heap for new items; LLADD_NO_PAGE if the list has no
 * heap. */
int ll_operations__list_look_root(struct lladd_db *, lladd_pageno root, struct ll_list_ends *,
                                  lladd_pageno *heap, struct lladd_error *);
/* Looks up an item; `copy` is nullable. LLADD_NOT_FOUND: the item does not exist any more; the
 * caller sets the message. */
int ll_operations__list_look_item(struct lladd_db *, struct lladd_item, struct ll_list_look *,
                                  struct ll_list_copy *, struct lladd_error *);
/* Looks up an item that the application passed. LLADD_OUT_OF_RANGE: there is no such item, or it
 * belongs to another list. */
int ll_operations__list_look_own(const struct lladd_list *, struct lladd_item,
                                 struct ll_list_look *, struct ll_list_copy *,
                                 struct lladd_error *);
/* The heap of a page with this owner word. */
int ll_operations__list_heap_of(struct lladd_db *, uint64_t owner, lladd_pageno *heap,
                                struct lladd_error *);

/* Undo of an insertion: marks the item removed, if it still exists. */
int ll_operations__list_undo(struct lladd_txn *, struct lladd_item);

#endif
