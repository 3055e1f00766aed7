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
 *  thread has fixed one of the pages. No copy was dropped, and the call can be repeated. */
LLADD_API int lladd_redo_barrier(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Writes whole pages without logging them. `bytes` holds n pages. If `page_type` is NULL, the
 *  pages are raw: the extension chooses all their bytes. Otherwise the library writes the page
 *  headers into `bytes`. If this transaction has no redo barrier for all n pages, the call logs
 *  one. A barrier ends with a rollback to an earlier savepoint, and with a logged change of one of
 *  its pages. The pages are durable after lladd_bulk_sync, which must precede the commit that
 *  publishes them. During the call, a thread that fixes one of the pages waits. The call drops
 *  cached copies of the pages, as lladd_redo_barrier does, with the same LLADD_BUSY. Before the
 *  call the transaction must not have changed one of these pages by an operation that has an undo:
 *  a rollback would apply that undo to the new bytes. */
LLADD_API int lladd_bulk_write(struct lladd_txn *, lladd_pageno first, uint64_t n,
                               const char *page_type, void *bytes);
/** Makes durable all bulk writes that have returned. A failed sync poisons the handle (LOG-4). */
LLADD_API int lladd_bulk_sync(struct lladd_txn *);
/** Reads n pages from the page file into `bytes`, bypassing the page cache. If changes of these
 *  pages are only in the cache, the call first writes them to the file; LLADD_BAD_STATE if there
 *  are such changes and the thread holds a page. If `raw` is false, the call verifies each page's
 *  checksum and number (LLADD_CORRUPT_PAGE). If an extension has copies of pages
 *  (lladd_extension.base_of) and the thread holds no page, a page that fails this verification or
 *  cannot be read is repaired, as by lladd_page_rewrite. Any thread; the caller ensures that no
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
/** Rebuilds a page after a lost write: the disk has lost a write of the page, so the page file has
 *  an older version of the page, which shows no damage. The call rebuilds the page as it rebuilds a
 *  damaged page (BUF-2): from the log or, if the log has no base of the page, from an extension's
 *  copy (lladd_extension.base_of). If the page LSN of the result is not below that of the page in
 *  the cache, the result replaces the page in the cache and, durably, in the file. Otherwise the
 *  page stays as it is. Use the call only for pages with headers that are in use. The page is
 *  latched meanwhile. The thread must hold no page (LLADD_BAD_STATE). LLADD_CORRUPT_PAGE: neither
 *  the log nor an extension gives the page, or a record was logged for the older version of the
 *  page. Then, too, the page stays as it is. Other errors are those of lladd_page_rewrite. */
LLADD_API int lladd_page_rebuild(struct lladd_db *, lladd_pageno, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
