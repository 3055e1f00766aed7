/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BULK_H
#define LLADD_BULK_H
/**
 * @file
 * @brief Writing whole pages without logging them: for structures that write large extents once.
 *
 * The order that makes it atomic (BUF-6): allocate the pages, lladd_redo_barrier, lladd_bulk_write,
 * lladd_bulk_sync, and only then the logged change that publishes them.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_txn;

/** Prepares bulk writing: redo of earlier records will never again touch the pages
 *  [first, first+n). Part of the transaction; call it before lladd_bulk_write. Cached copies of the
 *  pages are dropped, and changes in them are never written, however the transaction ends: the
 *  pages must hold nothing of value, like those of an extent just allocated. LLADD_BUSY: a thread
 *  has fixed one of the pages; nothing was dropped, and the call can be repeated. */
LLADD_API int lladd_redo_barrier(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Writes whole pages without logging them. `page_type` NULL: raw, all bytes are the extension's;
 *  otherwise the library fills in the page headers, in `bytes` itself (n pages). Logs a redo
 *  barrier for pages that have none. Durable after lladd_bulk_sync, which must precede the commit
 *  that publishes the pages. */
LLADD_API int lladd_bulk_write(struct lladd_txn *, lladd_pageno first, uint64_t n,
                               const char *page_type, void *bytes);
/** Makes all bulk writes durable that have returned. A failed sync poisons the handle (LOG-4). */
LLADD_API int lladd_bulk_sync(struct lladd_txn *);
/** Reads n pages from the file into `bytes`, past the page cache. With `raw` all bytes are returned
 *  as they are; otherwise each page's checksum and number are verified (LLADD_CORRUPT_PAGE). Any
 *  thread; the caller sees to it that the pages are not written meanwhile. */
LLADD_API int lladd_bulk_read(struct lladd_db *, lladd_pageno first, uint64_t n, bool raw,
                              void *bytes, struct lladd_error *);
/** Extends the page file to hold `pages` pages; their space on the device is then allocated. Does
 *  nothing if it is longer. LLADD_NO_SPACE. Any thread. */
LLADD_API int lladd_pages_extend(struct lladd_db *, uint64_t pages, struct lladd_error *);
/** Drops cached copies of freed pages; their contents are never written. Call it after the commit
 *  that frees them is durable (BUF-6). LLADD_BUSY: a thread has fixed one of them. */
LLADD_API int lladd_pages_discard(struct lladd_db *, lladd_pageno first, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
