/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_PAGES_H
#define LLADD_PAGES_H
/**
 * @file
 * @brief Allocation of pages and extents, and named roots, which store page numbers under names.
 *
 * A page file is divided into groups of lladd_extent_max() + 1 pages. The first page of a group is
 * its allocation bitmap (in the first group it is the second page, because the first page is the
 * root page). Allocating and freeing are part of the caller's transaction, like any update: an
 * abort undoes them. A freed page waits until the freeing commit is durable, so that the page's
 * contents can be recovered until then; only afterwards is the page allocated again. With relaxed
 * durability this wait may be long. The library therefore has a limit for the waiting pages: a
 * quarter of the file, but at least 4 MiB and at most 64 MiB. If the waiting pages reach this
 * limit, an allocation that finds no free page syncs the log instead of extending the page file. An
 * allocation also syncs the log before it returns LLADD_NO_SPACE.
 *
 * Threads: all calls may run concurrently on one database; one thread at a time uses a transaction.
 * Two open transactions must not free or format the same page.
 * @ingroup operations
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pages ----------------------------------------------------------------------------------- */

/** The use of a page. Allocation bitmaps store the first four uses (docs/disk-format.md). */
enum lladd_page_use {
    LLADD_USE_NONE = 0,  /**< free, or beyond the end of the page file */
    LLADD_USE_RAW = 1,   /**< a page of a raw extent, without page header and page checksum */
    LLADD_USE_PAGED = 2, /**< allocated */
    LLADD_USE_FREED = 3, /**< freed by a transaction, and not allocated since then */
    LLADD_USE_SYSTEM = 4 /**< the root page or an allocation bitmap */
};

/** Allocates a page. Its contents are undefined: format the page first. Fixing an allocated page
 *  that was never formatted may return LLADD_CORRUPT_PAGE, as for a page with lost contents. The
 *  page file grows when no page is free. LLADD_NO_SPACE, LLADD_NO_MEMORY: nothing has changed. */
LLADD_API int lladd_page_alloc(struct lladd_txn *, lladd_pageno *out);
/** Frees a page. LLADD_OUT_OF_RANGE if it is not allocated (or freed already), LLADD_WRONG_TYPE for
 *  the root page, an allocation bitmap, or a page of a raw extent. No other transaction that has
 *  changed the page may be open or in doubt; the library does not check this (docs/locks.md). */
LLADD_API int lladd_page_free(struct lladd_txn *, lladd_pageno);
/** Makes an allocated page an empty one of `page_type`: runs the registered operation
 *  "<page_type>.format" (any version) without arguments. LLADD_NOT_FOUND if no such operation is
 *  registered. A rollback does not restore the old contents, so format only pages that the
 *  transaction has just allocated. */
LLADD_API int lladd_page_format(struct lladd_txn *, lladd_pageno, const char *page_type);
/** Gets the use of a page in the allocation bitmap, including changes of active transactions. */
LLADD_API int lladd_page_use_get(struct lladd_db *, lladd_pageno, enum lladd_page_use *out,
                                 struct lladd_error *);

struct lladd_log_entry;
/** For readers of the log (lladd_log_next): does this record allocate pages? Then *first and *n get
 *  these pages. False for the undo of such a record. Any thread. */
LLADD_API bool lladd_pages_taken(const struct lladd_db *, const struct lladd_log_entry *,
                                 lladd_pageno *first, uint64_t *n);

/* ---- extents --------------------------------------------------------------------------------- */

enum {
    LLADD_EXTENT_PAGED = 0, /**< ordinary pages, next to each other */
    LLADD_EXTENT_BULK = 1,  /**< pages with headers, to be written with lladd_bulk_write */
    LLADD_EXTENT_RAW = 2    /**< pages without headers: the caller chooses all bytes. Only for
                                 lladd_bulk_write and lladd_bulk_read, never for lladd_page_fix */
};

/** Allocates `n` contiguous pages, 1 to lladd_extent_max; *first gets the number of the first page.
 *  With LLADD_EXTENT_BULK or LLADD_EXTENT_RAW the call also calls lladd_redo_barrier for the pages,
 *  so that they can be written in bulk and no old copy of them is cached. An extent that is
 *  allocated in a system transaction stays allocated if the user's transaction, during which the
 *  system transaction ran, is rolled back. LLADD_BAD_ARGUMENT if n is 0 or greater than
 *  lladd_extent_max; LLADD_BUSY if a thread still has an old copy of a page fixed. */
LLADD_API int lladd_extent_alloc(struct lladd_txn *, uint64_t n, unsigned flags,
                                 lladd_pageno *first);
/** Frees an extent or a contiguous part of an extent. All of the pages must be allocated and of one
 *  kind; otherwise LLADD_OUT_OF_RANGE or LLADD_WRONG_TYPE, and nothing has changed. No other
 *  transaction that has changed the pages may be open or in doubt; the library does not check this
 *  (docs/locks.md). */
LLADD_API int lladd_extent_free(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Returns the number of pages in the longest extent: the pages that one allocation bitmap covers,
 *  less one (16,127 pages of 4 KiB, 261,887 pages of 64 KiB). */
LLADD_API uint64_t lladd_extent_max(const struct lladd_db *);

/* ---- regions: extents with an identity ------------------------------------------------------- */

/** The named root of the catalogue of regions (docs/disk-format.md). The first lladd_region_create
 *  in a database makes the root. */
#define LLADD_REGIONS_ROOT "lladd.regions"

/** An extent that is listed in a catalogue. The number of its first page identifies it: the region
 *  never moves, and no other region gets that page until the region's destruction is durable. */
struct lladd_region {
    lladd_pageno first;
    uint64_t pages;
    uint32_t kind; /**< as in lladd_extent_alloc: LLADD_EXTENT_PAGED, _BULK or _RAW */
    uint64_t tag;  /**< chosen by the program: a purpose, or an owner */
};

/** Allocates an extent (lladd_extent_alloc) and lists it with its size, in the same transaction.
 *  Free it with lladd_region_destroy, not with lladd_extent_free, which does not change the list.
 *  Any number of transactions may make and destroy regions. The first call in a database also makes
 *  the catalogue, in a transaction of its own. The errors are those of lladd_extent_alloc and of
 *  lladd_hash_put; after an error nothing has changed. */
LLADD_API int lladd_region_create(struct lladd_txn *, uint64_t pages, unsigned kind, uint64_t tag,
                                  lladd_pageno *first);
/** Frees the whole region. LLADD_NOT_FOUND if the page is not the first one of a region. Two open
 *  transactions must not destroy the same region. As for lladd_extent_free, no other transaction
 *  that has changed the region's pages may be open or in doubt. */
LLADD_API int lladd_region_destroy(struct lladd_txn *, lladd_pageno first);
/** Gets the region that begins with this page, even if its creation is uncommitted; LLADD_NOT_FOUND
 *  if no region begins with the page. Reads one page. */
LLADD_API int lladd_region_get(struct lladd_db *, lladd_pageno first, struct lladd_region *out,
                               struct lladd_error *);
/** If it does not return 0, lladd_region_each stops and returns that value. */
typedef int lladd_region_fn(void *ctx, const struct lladd_region *);
/** Calls `fn` for every region, in no order, under no latch. A region that exists during the whole
 *  call is reported exactly once. */
LLADD_API int lladd_region_each(struct lladd_db *, lladd_region_fn *, void *ctx,
                                struct lladd_error *);

/* ---- named roots ----------------------------------------------------------------------------- */

#define LLADD_ROOT_NAME_MAX 63u

/** The value of a name: two words. The first is usually a page number. */
struct lladd_root_value {
    uint64_t a, b;
};

/** Gets the value of a name of 1 to 63 bytes; LLADD_NOT_FOUND if the name has no value. The
 *  handle's first call of lladd_root_get, lladd_root_set or lladd_root_delete reads all names and
 *  remembers their places; later calls read one page. If there is no memory for the places, each
 *  call reads all names. */
LLADD_API int lladd_root_get(struct lladd_db *, const char *name, struct lladd_root_value *out,
                             struct lladd_error *);
/** Sets the value of a name, in the transaction. A transaction must not set a name that another
 *  active transaction has set or deleted; transactions with different names never interfere. */
LLADD_API int lladd_root_set(struct lladd_txn *, const char *name, struct lladd_root_value);
/** Removes the value of a name, in the transaction; LLADD_NOT_FOUND if the name has no value. The
 *  name keeps its place in the catalogue for its next value. */
LLADD_API int lladd_root_delete(struct lladd_txn *, const char *name);
/** If it does not return 0, lladd_root_each stops and returns that value. */
typedef int lladd_root_fn(void *ctx, const char *name, struct lladd_root_value);
/** Calls `fn` for every name that has a value, in no order, under no latch. */
LLADD_API int lladd_root_each(struct lladd_db *, lladd_root_fn *, void *ctx, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
