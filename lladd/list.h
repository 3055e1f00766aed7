/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LIST_H
#define LLADD_LIST_H
/**
 * @file
 * @brief Linked lists: an ordered chain of items of any length, over any number of pages.
 *
 * The paper's Figure "Linear Hash Table Bucket operations" (section 4.1). Every prefix of the
 * records that an operation logs leaves a list that can be walked; insertions are taken back
 * logically, and what is removed keeps its place until the transaction has ended, so transactions
 * that work next to each other in one list do not disturb each other. Items keep their ids for life.
 * A list is known by its root page.
 *
 * A call that returns an error has changed nothing. LLADD_WRONG_TYPE if the page is no list's root,
 * LLADD_DESTROYED if the list there has been destroyed, LLADD_OTHER_DATABASE if the transaction is of
 * another one.
 *
 * Threads: any number; writers of one list take turns, readers wait for nobody. Two transactions that
 * remove, or write, one item are a fault of the caller. A transaction that has made a list, or
 * spliced it, must be alone with it until it has ended.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/records.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_list;

/** Names an item for as long as it is in the list. What the words hold is the library's affair. */
struct lladd_item {
    lladd_pageno page;
    uint32_t slot;
};
/** Stands for "before the first". */
#define LLADD_ITEM_NONE ((struct lladd_item){{UINT64_MAX}, 0})

/** Longest item. */
LLADD_API uint32_t lladd_list_item_max(const struct lladd_db *);
LLADD_API int lladd_list_create(struct lladd_txn *, lladd_pageno *root);
/** Frees all its pages, in the transaction; see lladd_array_destroy. */
LLADD_API int lladd_list_destroy(struct lladd_txn *, lladd_pageno root);
LLADD_API int lladd_list_open(struct lladd_db *, lladd_pageno root, struct lladd_list **out,
                              struct lladd_error *);
LLADD_API void lladd_list_close(struct lladd_list *);

/** Puts an item behind `after` (LLADD_ITEM_NONE: at the front). LLADD_OUT_OF_RANGE if there is no
 *  such item in this list. */
LLADD_API int lladd_list_insert(struct lladd_txn *, struct lladd_list *, struct lladd_item after,
                                const void *bytes, size_t len, struct lladd_item *out);
/** Puts an item at the end. */
LLADD_API int lladd_list_append(struct lladd_txn *, struct lladd_list *, const void *bytes,
                                size_t len, struct lladd_item *out);
LLADD_API int lladd_list_remove(struct lladd_txn *, struct lladd_list *, struct lladd_item);
/** Replaces an item's bytes by as many others. */
LLADD_API int lladd_list_write(struct lladd_txn *, struct lladd_list *, struct lladd_item,
                               uint32_t offset, const void *bytes, size_t len);
/** Moves all items of `from` behind the last one of `to`, in constant time; their ids stay as they
 *  are. `from` is empty then. Nobody else may change either until the transaction has ended
 *  (LLADD_BUSY if somebody is at it now). LLADD_TOO_LARGE when `to` would be made of more than 500
 *  lists. */
LLADD_API int lladd_list_splice(struct lladd_txn *, struct lladd_list *to, struct lladd_list *from);

/** Copies an item out: *len gets its length, `buf` as much of it as `size` allows. */
LLADD_API int lladd_list_get(struct lladd_list *, struct lladd_item, void *buf, size_t size,
                             size_t *len, struct lladd_error *);
/** The item behind `at` (LLADD_ITEM_NONE: the first), copied out as lladd_list_get does; LLADD_END.
 *  No latch is held between calls: an item that was there throughout the walk comes exactly once.
 *  `at` may have been removed meanwhile: LLADD_OUT_OF_RANGE when nothing of it is left. */
LLADD_API int lladd_list_next(struct lladd_list *, struct lladd_item at, struct lladd_item *out,
                              void *buf, size_t size, size_t *len, struct lladd_error *);
/** The first item behind `at` for which `is` says yes; LLADD_NOT_FOUND. `is` is called under the
 *  page's latch and must not call the library; an item may be shown to it twice. */
LLADD_API int lladd_list_find(struct lladd_list *, struct lladd_item at,
                              bool (*is)(void *ctx, struct lladd_span item), void *ctx,
                              struct lladd_item *out, struct lladd_error *);
/** How many there are: walks. */
LLADD_API int lladd_list_count(struct lladd_list *, uint64_t *out, struct lladd_error *);
/** Calls fn for each page of the list; not 0 stops. */
LLADD_API int lladd_list_pages(struct lladd_list *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                               struct lladd_error *);
/** Does every link have its counterpart, and is every item stored in the chain? Not while others change
 *  the list. LLADD_CORRUPT_PAGE. */
LLADD_API int lladd_list_check(struct lladd_list *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
