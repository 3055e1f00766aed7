/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_ARRAY_H
#define LLADD_ARRAY_H
/**
 * @file
 * @brief Growable arrays: elements of one size, addressed by a 64-bit index.
 *
 * This is the "record number" store of the LLADD paper (section 5). The linear hash table of the
 * paper addresses its buckets in the same way (section 4.1). An array grows by adding extents, so
 * an element never moves, and its page number is computed from its index. The length of the extents
 * doubles every four extents. An array is identified by its root page; the page's number may be
 * stored under a name (lladd_root_set).
 *
 * Threads: any number may use a handle. The caller locks elements: two open transactions must not
 * write the same element, and must not both change the length (LLADD paper, section 2.1). Writes of
 * different elements never interfere, not even on the same page.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_array;

/** Returns the maximum length of an element: the number of bytes that fit on a page. */
LLADD_API uint32_t lladd_array_element_max(const struct lladd_db *);

/** Makes an array of `length` elements of `size` bytes each, all zero. For elements that were never
 *  written the library logs nothing and writes no page. LLADD_BAD_ARGUMENT if `size` is 0 or
 *  exceeds lladd_array_element_max; LLADD_TOO_LARGE if the array would exceed 2^48 bytes. */
LLADD_API int lladd_array_create(struct lladd_txn *, uint32_t size, uint64_t length,
                                 lladd_pageno *root);
/** Frees all pages of the array, in the transaction. Later calls on the array return
 *  LLADD_DESTROYED; if the transaction is rolled back, the array exists again. No other thread may
 *  be using the array. No other transaction that has changed the array may be open or in doubt,
 *  because its rollback would find other contents on the pages. The library checks neither of these
 *  two conditions (docs/locks.md). */
LLADD_API int lladd_array_destroy(struct lladd_txn *, lladd_pageno root);

/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is not an array's
 *  root, LLADD_DESTROYED if the array has been destroyed. */
LLADD_API int lladd_array_open(struct lladd_db *, lladd_pageno root, struct lladd_array **out,
                               struct lladd_error *);
/** lladd_array_create and lladd_array_open in one: *root is the root page, *out a handle. If the
 *  transaction is rolled back, calls with the handle return LLADD_DESTROYED; the handle must still
 *  be closed. A call that fails makes neither array nor handle. */
LLADD_API int lladd_array_create_open(struct lladd_txn *, uint32_t size, uint64_t length,
                                      lladd_pageno *root, struct lladd_array **out);
/** Closes the handle; NULL does nothing. No other thread may be using it. */
LLADD_API void lladd_array_close(struct lladd_array *);

/** Returns the length of an element in bytes. */
LLADD_API uint32_t lladd_array_element_size(const struct lladd_array *);
/** Gets the present number of elements, including uncommitted changes. */
LLADD_API int lladd_array_length(struct lladd_array *, uint64_t *out, struct lladd_error *);
/** Appends `n` zeroed elements; *first (nullable) is the index of the first. LLADD_TOO_LARGE if the
 *  array would exceed 2^48 bytes. The call allocates no pages: the first write of an element
 *  allocates the page of that element and all pages before that page. */
LLADD_API int lladd_array_extend(struct lladd_txn *, struct lladd_array *, uint64_t n,
                                 uint64_t *first);
/** Removes the last `n` elements; if the array grows again, the new elements are zero. After the
 *  commit is durable, the next call that changes the length frees unused pages; a call that shrinks
 *  the array by 0 elements also frees them. LLADD_OUT_OF_RANGE if the array has fewer than `n`
 *  elements. */
LLADD_API int lladd_array_shrink(struct lladd_txn *, struct lladd_array *, uint64_t n);

/** Replaces an element. LLADD_OUT_OF_RANGE if the array has no element `index`. */
LLADD_API int lladd_array_set(struct lladd_txn *, struct lladd_array *, uint64_t index,
                              const void *bytes);
/** Replaces bytes [offset, offset + len) of an element. */
LLADD_API int lladd_array_write(struct lladd_txn *, struct lladd_array *, uint64_t index,
                                uint32_t offset, const void *bytes, size_t len);
/** Replaces elements [first, first + n) by n * size bytes, with one or two log records for each
 *  page. A call that returns an error has replaced no element (API-1). */
LLADD_API int lladd_array_set_range(struct lladd_txn *, struct lladd_array *, uint64_t first,
                                    uint64_t n, const void *bytes);
/** Copies an element to `out`. */
LLADD_API int lladd_array_get(struct lladd_array *, uint64_t index, void *out,
                              struct lladd_error *);
/** Copies elements [first, first + n) to `out`, one page at a time. The elements of one page are
 *  copied at one moment; different pages may be copied at different moments. */
LLADD_API int lladd_array_get_range(struct lladd_array *, uint64_t first, uint64_t n, void *out,
                                    struct lladd_error *);

/** Calls `fn` for each page of the array; if `fn` does not return 0, stops and returns that
 *  value. */
LLADD_API int lladd_array_pages(struct lladd_array *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                struct lladd_error *);
/** Checks the array. LLADD_CORRUPT_PAGE: the message says what is wrong and on which page. No
 *  thread may change the array meanwhile. */
LLADD_API int lladd_array_check(struct lladd_array *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
