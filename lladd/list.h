/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LIST_H
#define LLADD_LIST_H
/**
 * @file
 * @brief Linked lists: an ordered chain of items of any length, over any number of pages.
 *
 * Lists follow the figure "Linear Hash Table Bucket operations" of the LLADD paper (section 4.1).
 * After each record that an operation logs, the list is consistent for readers. Insertions are
 * undone logically, and a deleted item keeps its place until its transaction has ended, so
 * transactions that change neighbouring items do not interfere. An item's id never changes. A list
 * is identified by its root page.
 *
 * A call that returns an error has changed nothing. LLADD_WRONG_TYPE if the page is not a list's
 * root, LLADD_DESTROYED if the list has been destroyed, LLADD_OTHER_DATABASE if the transaction is
 * of another database.
 *
 * Threads: any number may use a handle. One thread at a time changes a list, other writers wait;
 * readers wait for a writer only while it changes a page. Two open transactions must not delete or
 * write the same item. After a transaction has made or spliced a list, no other transaction may use
 * the list until the first has ended.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/records.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_list;

/** Identifies an item for as long as it is in the list. Its members are private to the library. */
struct lladd_item {
    lladd_pageno page;
    uint32_t slot;
};
/** The position before the first item. */
#define LLADD_ITEM_NONE ((struct lladd_item){{UINT64_MAX}, 0})

/** Returns the maximum length of an item in bytes. */
LLADD_API uint32_t lladd_list_item_max(const struct lladd_db *);
/** Makes an empty list, in the transaction; *root is its root page. */
LLADD_API int lladd_list_create(struct lladd_txn *, lladd_pageno *root);
/** Frees all pages of the list, in the transaction; rules as for lladd_array_destroy. */
LLADD_API int lladd_list_destroy(struct lladd_txn *, lladd_pageno root);
/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is not a list's root,
 *  LLADD_DESTROYED if the list has been destroyed. */
LLADD_API int lladd_list_open(struct lladd_db *, lladd_pageno root, struct lladd_list **out,
                              struct lladd_error *);
/** lladd_list_create and lladd_list_open in one: *root is the root page, *out a handle. If the
 *  transaction is rolled back, calls with the handle return LLADD_DESTROYED, or LLADD_WRONG_TYPE if
 *  the root page has been reused; the handle must still be closed. A call that fails makes neither
 *  list nor handle. */
LLADD_API int lladd_list_create_open(struct lladd_txn *, lladd_pageno *root,
                                     struct lladd_list **out);
/** Closes the handle; NULL does nothing. No other thread may be using it. */
LLADD_API void lladd_list_close(struct lladd_list *);

/** Inserts an item after the item `after` (LLADD_ITEM_NONE: at the front). LLADD_OUT_OF_RANGE if
 *  `after` is not in this list. */
LLADD_API int lladd_list_insert(struct lladd_txn *, struct lladd_list *, struct lladd_item after,
                                const void *bytes, size_t len, struct lladd_item *out);
/** Appends an item at the end. */
LLADD_API int lladd_list_append(struct lladd_txn *, struct lladd_list *, const void *bytes,
                                size_t len, struct lladd_item *out);
/** Deletes an item. LLADD_OUT_OF_RANGE if the item is not in this list. */
LLADD_API int lladd_list_delete(struct lladd_txn *, struct lladd_list *, struct lladd_item);
/** Replaces bytes [offset, offset + len) of an item. LLADD_OUT_OF_RANGE if not all of these bytes
 *  lie within the item. */
LLADD_API int lladd_list_write(struct lladd_txn *, struct lladd_list *, struct lladd_item,
                               uint32_t offset, const void *bytes, size_t len);
/** Moves all items of `from` to the end of `to`, in constant time; the items keep their ids, and
 *  `from` becomes empty. No other transaction may change either list until this transaction has
 *  ended; LLADD_BUSY if another transaction is changing one of them now. LLADD_TOO_LARGE if `to`
 *  would then contain the items of more than 500 lists. */
LLADD_API int lladd_list_splice(struct lladd_txn *, struct lladd_list *to, struct lladd_list *from);

/** Copies an item: *len (nullable) gets its length, `buf` as much of the item as `size` allows. */
LLADD_API int lladd_list_get(struct lladd_list *, struct lladd_item, void *buf, size_t size,
                             size_t *len, struct lladd_error *);
/** Copies the item after `at` (LLADD_ITEM_NONE: the first item), as lladd_list_get does; LLADD_END
 *  after the last item. No latch is held between calls; a sequence of calls returns each item that
 *  exists throughout the sequence exactly once. `at` may be an item that has been deleted
 *  meanwhile; LLADD_OUT_OF_RANGE if its place has been freed. */
LLADD_API int lladd_list_next(struct lladd_list *, struct lladd_item at, struct lladd_item *out,
                              void *buf, size_t size, size_t *len, struct lladd_error *);
/** Finds the first item after `at` for which `is` returns true; LLADD_NOT_FOUND if `is` returns
 *  true for none. `is` is called under the page's latch and must not call the library; it may be
 *  called twice for one item. */
LLADD_API int lladd_list_find(struct lladd_list *, struct lladd_item at,
                              bool (*is)(void *ctx, struct lladd_span item), void *ctx,
                              struct lladd_item *out, struct lladd_error *);
/** Counts the items; walks through the list. */
LLADD_API int lladd_list_count(struct lladd_list *, uint64_t *out, struct lladd_error *);
/** Calls `fn` for each page of the list. If `fn` does not return 0, stops and returns that
 *  value. */
LLADD_API int lladd_list_pages(struct lladd_list *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                               struct lladd_error *);
/** Checks that the links of neighbouring items match, and that every stored item is in the chain.
 *  No other thread may change the list meanwhile. LLADD_CORRUPT_PAGE. */
LLADD_API int lladd_list_check(struct lladd_list *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
