/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_ARRAY_H
#define LLADD_ARRAY_H
/**
 * @file
 * @brief Expandable arrays: elements of one size, addressed by a 64-bit index.
 *
 * The paper's "record number" store (section 5), and the way its linear hash table addresses a part
 * of the page file (section 4.1). An array grows by extents whose lengths double in four steps, so
 * no element ever moves and its page is found by arithmetic. It is known by its root page, which
 * may be kept under a name (lladd_root_set).
 *
 * Threads: a handle may be used by any number of them. Elements are the caller's to lock: two
 * transactions that write one element, or change the length, are a fault of the caller (paper,
 * section 2.1). Different elements never disturb each other, also on one page.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_array;

/** Longest element: what a page of bytes holds. */
LLADD_API uint32_t lladd_array_element_max(const struct lladd_db *);

/** Makes an array of `length` elements of `size` bytes each, all zero. Elements nobody has written
 *  take no log and no page writes. LLADD_BAD_ARGUMENT for a size of 0 or beyond the maximum. */
LLADD_API int lladd_array_create(struct lladd_txn *, uint32_t size, uint64_t length,
                                 lladd_pageno *root);
/** Frees all its pages, in the transaction. Other calls on it are LLADD_DESTROYED from now on
 *  (until the transaction is rolled back, if it is). Nobody else may be using it. */
LLADD_API int lladd_array_destroy(struct lladd_txn *, lladd_pageno root);

/** A handle; close it before the database. LLADD_WRONG_TYPE if the page is no array's root,
 *  LLADD_DESTROYED if it was one. */
LLADD_API int lladd_array_open(struct lladd_db *, lladd_pageno root, struct lladd_array **out,
                               struct lladd_error *);
LLADD_API void lladd_array_close(struct lladd_array *);

/** Bytes of an element. */
LLADD_API uint32_t lladd_array_element_size(const struct lladd_array *);
/** How many elements there are now, uncommitted changes included. */
LLADD_API int lladd_array_length(struct lladd_array *, uint64_t *out, struct lladd_error *);
/** Appends `n` elements of zeros; *first (nullable) is the first one's index. LLADD_TOO_LARGE
 *  beyond 2^48 bytes. Takes no pages: an element takes its page, and those before it, when it is
 *  first written. */
LLADD_API int lladd_array_extend(struct lladd_txn *, struct lladd_array *, uint64_t n,
                                 uint64_t *first);
/** Cuts off the last `n`; they are zeros if it grows again. What is left over of its pages is given
 *  back when the commit is durable, by the next call that changes the length (to shrink it by 0 is
 *  enough). LLADD_OUT_OF_RANGE if there are not so many. */
LLADD_API int lladd_array_shrink(struct lladd_txn *, struct lladd_array *, uint64_t n);

/** Replaces an element. LLADD_OUT_OF_RANGE behind the end. */
LLADD_API int lladd_array_set(struct lladd_txn *, struct lladd_array *, uint64_t index,
                              const void *bytes);
/** Replaces bytes [offset, offset + len) of an element. */
LLADD_API int lladd_array_write(struct lladd_txn *, struct lladd_array *, uint64_t index,
                                uint32_t offset, const void *bytes, size_t len);
/** Replaces elements [first, first + n) by n * size bytes, a record or two for each page. All or
 *  nothing (API-1). */
LLADD_API int lladd_array_set_range(struct lladd_txn *, struct lladd_array *, uint64_t first,
                                    uint64_t n, const void *bytes);
/** Copies an element out. */
LLADD_API int lladd_array_get(struct lladd_array *, uint64_t index, void *out,
                              struct lladd_error *);
/** Copies elements [first, first + n) out, a page at a time: each page's elements are of one
 *  moment, those of different pages need not be. */
LLADD_API int lladd_array_get_range(struct lladd_array *, uint64_t first, uint64_t n, void *out,
                                    struct lladd_error *);

/** Calls fn for each page the array consists of; not 0 stops and is what it returns. */
LLADD_API int lladd_array_pages(struct lladd_array *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                struct lladd_error *);
/** Is everything in order? LLADD_CORRUPT_PAGE with what and where, if not. Nobody may be changing
 *  it. */
LLADD_API int lladd_array_check(struct lladd_array *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
