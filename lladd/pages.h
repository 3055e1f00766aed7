/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_PAGES_H
#define LLADD_PAGES_H
/**
 * @file
 * @brief Pages and extents to put things in, and named roots to find them again.
 *
 * A page file is divided into groups of lladd_extent_max() + 1 pages; the first page of each (the
 * second of the first group, whose first page is the root page) holds the group's allocation map.
 * Allocating and freeing is part of the caller's transaction, like any update: aborting takes it
 * back. A page that a transaction frees is given out again only when its commit is durable, so
 * whatever it held can be had back until then. With relaxed durability an allocation makes it so,
 * waiting for a sync of the log, before the page file grows by more than has been freed (4 MiB to
 * 64 MiB), and before it returns LLADD_NO_SPACE.
 *
 * Threads: all calls may run concurrently on one database; each transaction is used by one thread
 * at a time. Two transactions that free, or format, one page are a fault of the caller.
 * @ingroup operations
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pages ----------------------------------------------------------------------------------- */

/** What a page is used for. The first four are stored in allocation maps (docs/disk-format.md). */
enum lladd_page_use {
    LLADD_USE_NONE = 0,  /**< free, or beyond the end of the page file */
    LLADD_USE_RAW = 1,   /**< in a raw extent: no page header, no page checksum */
    LLADD_USE_PAGED = 2, /**< allocated */
    LLADD_USE_FREED = 3, /**< freed by a transaction; nobody has taken it since */
    LLADD_USE_SYSTEM = 4 /**< the root page or an allocation map */
};

/** Takes a page. Its contents are whatever was there: format it before anything else; of one in use
 *  that never was, LLADD_CORRUPT_PAGE says what it says of one whose contents are lost. The page
 *  file grows when no page is free. LLADD_NO_SPACE, LLADD_NO_MEMORY: nothing has changed. */
LLADD_API int lladd_page_alloc(struct lladd_txn *, lladd_pageno *out);
/** Gives a page back. LLADD_OUT_OF_RANGE if it is not allocated (or freed already),
 *  LLADD_WRONG_TYPE for the root page, an allocation map, or a page of a raw extent. */
LLADD_API int lladd_page_free(struct lladd_txn *, lladd_pageno);
/** Makes an allocated page an empty one of `page_type`: runs the registered operation
 *  "<page_type>.format" (any version) without arguments. LLADD_NOT_FOUND if there is none. Its old
 *  contents cannot be had back by rolling back: format what you have just allocated. */
LLADD_API int lladd_page_format(struct lladd_txn *, lladd_pageno, const char *page_type);
/** What the allocation map says now, commits in flight included. */
LLADD_API int lladd_page_use(struct lladd_db *, lladd_pageno, enum lladd_page_use *out,
                             struct lladd_error *);

/* ---- extents --------------------------------------------------------------------------------- */

enum {
    LLADD_EXTENT_PAGED = 0, /**< ordinary pages, next to each other */
    LLADD_EXTENT_BULK = 1,  /**< pages with headers, to be written with lladd_bulk_write: fenced */
    LLADD_EXTENT_RAW = 2    /**< no headers, the bytes are the caller's: only by lladd_bulk_write
                                 and lladd_bulk_read, never lladd_fix; fenced */
};

/** Takes `n` contiguous pages, 1 to lladd_extent_max; *first gets the first one's number. With
 *  LLADD_EXTENT_BULK or LLADD_EXTENT_RAW the pages are fenced for bulk writing (lladd_fence is
 *  called here) and no cached copy of their earlier life is left. In a system transaction the
 *  extent outlives the user transaction on whose behalf it was taken. LLADD_BAD_ARGUMENT for a
 *  length of 0 or beyond the maximum; LLADD_BUSY if somebody still looks at a page's earlier
 *  life. */
LLADD_API int lladd_extent_alloc(struct lladd_txn *, uint64_t n, unsigned flags,
                                 lladd_pageno *first);
/** Gives an extent, or a contiguous part of one, back. All of it must be allocated and of one kind:
 *  else LLADD_OUT_OF_RANGE or LLADD_WRONG_TYPE, and nothing has changed. */
LLADD_API int lladd_extent_free(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** The longest extent this database can hold: the pages one allocation map covers, less one
 *  (16127 pages of 4 KiB, 261,887 pages of 64 KiB). */
LLADD_API uint64_t lladd_extent_max(const struct lladd_db *);

/* ---- named roots ----------------------------------------------------------------------------- */

#define LLADD_ROOT_NAME_MAX 63u

/** What a name stands for: two words, most often a page number and something else. */
struct lladd_root_value {
    uint64_t a, b;
};

/** The value of a name of 1 to 63 bytes. LLADD_NOT_FOUND if it has none. The first call with a
 *  name, get, set or remove, reads all names once; then each finds its own, however many there are,
 *  on one page. Without memory for where names are, it goes through all again. */
LLADD_API int lladd_root_get(struct lladd_db *, const char *name, struct lladd_root_value *out,
                             struct lladd_error *);
/** Gives a name a value, in the transaction. Two transactions that set one name at a time are a
 *  fault of the caller; different names never are. */
LLADD_API int lladd_root_set(struct lladd_txn *, const char *name, struct lladd_root_value);
/** Takes the value away; LLADD_NOT_FOUND if there is none. The name keeps its place in the
 *  catalogue for its next value. */
LLADD_API int lladd_root_remove(struct lladd_txn *, const char *name);
/** Not 0 stops, and is what lladd_root_each returns. */
typedef int lladd_root_fn(void *ctx, const char *name, struct lladd_root_value);
/** Calls fn for every name that has a value, in no order; no latch is held meanwhile. */
LLADD_API int lladd_root_each(struct lladd_db *, lladd_root_fn *, void *ctx, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
