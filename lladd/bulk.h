/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BULK_H
#define LLADD_BULK_H
/**
 * @file
 * @brief Reads and writes whole pages, bypassing the log and the page cache: for large extents that
 * are written once.
 *
 * These steps, in this order, make the write atomic (BUF-6): allocate the pages,
 * lladd_redo_barrier, lladd_bulk_write, lladd_bulk_sync, then the logged change that publishes the
 * pages.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_txn;

/** Prepares bulk writing: redo of earlier records will never again touch the pages [first,
 *  first+n). Call it in the transaction before lladd_bulk_write. The call drops the cached copies
 *  of the pages and the changes in them; a rollback of the transaction does not restore them. So
 *  the pages must hold nothing of value, like the pages of an extent just allocated. LLADD_BUSY: a
 *  thread has fixed one of the pages; no copy was dropped, and the call can be repeated. */
LLADD_API int lladd_redo_barrier(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Writes whole pages without logging them. `bytes` holds n pages. `page_type` NULL: raw pages; the
 *  extension chooses all their bytes. Otherwise the library writes the page headers into `bytes`.
 *  If this transaction has no redo barrier for all n pages, the call logs one. A barrier counts no
 *  more after a rollback to a savepoint before it, or after a logged change of one of its pages.
 *  The pages are durable after lladd_bulk_sync, which must precede the commit that publishes them.
 *  During the call, a thread that fixes one of the pages waits. The call drops cached copies of the
 *  pages, as lladd_redo_barrier does, with the same LLADD_BUSY. The transaction must not have
 *  changed a page by an operation that has an undo: a rollback would apply that undo to the new
 *  bytes. */
LLADD_API int lladd_bulk_write(struct lladd_txn *, lladd_pageno first, uint64_t n,
                               const char *page_type, void *bytes);
/** Makes all bulk writes that have returned durable. A failed sync poisons the handle (LOG-4). */
LLADD_API int lladd_bulk_sync(struct lladd_txn *);
/** Reads n pages from the page file into `bytes`, bypassing the page cache. First writes changes
 *  that are only in the cache; LLADD_BAD_STATE if there are such changes and the thread holds a
 *  page. If `raw` is false, the call verifies each page's checksum and number (LLADD_CORRUPT_PAGE).
 *  If an extension has copies of pages (lladd_extension.base_of) and the thread holds no page, a
 *  page that fails is repaired, as by lladd_page_rewrite. Any thread; the caller ensures that no
 *  thread changes the pages meanwhile. */
LLADD_API int lladd_bulk_read(struct lladd_db *, lladd_pageno first, uint64_t n, bool raw,
                              void *bytes, struct lladd_error *);
/** Extends the page file to `pages` pages and allocates their space on the device. Does nothing if
 *  the file is already that long. LLADD_NO_SPACE. Any thread. */
LLADD_API int lladd_pages_extend(struct lladd_db *, uint64_t pages, struct lladd_error *);
/** Drops the cached copies of freed pages without writing them. Call it when the commit that frees
 *  the pages is durable (BUF-6). LLADD_BUSY: a thread has fixed one of the pages. */
LLADD_API int lladd_pages_discard(struct lladd_db *, lladd_pageno first, uint64_t n);
/** Writes a page to the page file again from its copy in the cache, even if that copy is clean, and
 *  syncs. Use it for a reader of the file, such as a backup, that has found the page damaged in the
 *  file. A page that is not in the cache is read, and rebuilt if it is damaged (BUF-2). The thread
 *  must hold no page (LLADD_BAD_STATE). Errors are those of lladd_page_fix, or the poison if the
 *  page cannot be written. */
LLADD_API int lladd_page_rewrite(struct lladd_db *, lladd_pageno, struct lladd_error *);
/** Rebuilds a page of which the disk has lost a write, although the page file has the page whole:
 *  from the log or, if the log has no base of the page, from an extension's copy
 *  (lladd_extension.base_of), as for a damaged page (BUF-2). The result replaces the page in the
 *  cache and in the file, durably, if its page LSN is not below that of the page in the cache; else
 *  the page stays as it is. For pages with headers that are in use. The page is latched meanwhile.
 *  The thread must hold no page (LLADD_BAD_STATE). LLADD_CORRUPT_PAGE: nothing gives the page, or a
 *  record was logged for the older version of the page: the page stays as it is. Other errors are
 *  those of lladd_page_rewrite. */
LLADD_API int lladd_page_rebuild(struct lladd_db *, lladd_pageno, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
