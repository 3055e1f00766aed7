/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LIST_H
#define LL_OPERATIONS_LIST_H
/* What the files of lists share: root page and items on disk (list_page.c), lists in memory
 * (list.c). */
#include "operations/operations_private.h"

#include <lladd/list.h>

/* Operations by their place in ll_operations__list_extension. */
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

struct lladd_list; /* shared by all handles on one root */
struct ll_list_changer;

/* What an open database has. */
struct ll_lists {
    struct lladd_db *db;
    lladd_op_id first_op;
    struct lladd_mutex mutex; /* a leaf: what follows */
    struct lladd_list *first;
    struct ll_list_changer *changers;
};

static inline struct ll_lists *ll_lists_of(struct lladd_db *db)
{
    return lladd_state(db, &ll_operations__list_extension);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* An item's id as others have it: page, slot, and the number that tells those who have had the slot
 * one after the other apart. In lladd_item both are in one word. */
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
/* Page 0 holds no items: it stands for none. */
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
#define LIST_HEAPS (LIST_LAST + LINK_BYTES) /* u16: how many */
#define LIST_HEAP (LIST_HEAPS + 4u)         /* u64 each */
#define LIST_HEAPS_MAX 500u

struct ll_list_ends {
    struct lladd_item first, last;
};
/* Argument of `link`: one of an item's two links becomes `to`. */
struct ll_list_link {
    struct lladd_item item, to;
    uint32_t which; /* ITEM_PREV, ITEM_NEXT */
};
/* Argument of `mark`. LLADD_NOT_FOUND if there is no such item, in that turn, on the page. */
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

/* The item on this page, and its record; false if there is none, or another has its slot now. */
bool ll_operations__list_find(struct lladd_view, struct lladd_item, struct lladd_record *);

/* What an insertion's undo does: the item is removed, wherever it is by then. */
int ll_operations__list_take_back(struct lladd_txn *, struct lladd_item);

#endif
