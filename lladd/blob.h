/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BLOB_H
#define LLADD_BLOB_H
/**
 * @file
 * @brief Blobs: values of any size up to 2^48 bytes.
 *
 * Small changes are logged in full. Large ones are written directly to new extents, which are
 * forced before the commit, and only the descriptor is logged; the old pages stay until the commit
 * is durable. So a transaction that stores a gigabyte writes it once. A blob is identified by its
 * root page; a small blob fits in it. Zeros that were never written take no pages.
 *
 * A call that returns an error has changed nothing. LLADD_WRONG_TYPE if the page is not a blob's
 * root, LLADD_DESTROYED if the blob has been destroyed. LLADD_BUSY, of large writes: a thread still
 * has an older page fixed at a page number of the new extent; try again.
 *
 * Readers without isolation see each page as of one moment. A large write is forced when the
 * transaction commits or prepares. A top action that ends with LLADD_NO_OP survives its
 * transaction, so call lladd_bulk_sync before the end of such an action.
 *
 * Threads: any number. Two transactions must not write to the same blob.
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_BLOB_MAX (UINT64_C(1) << 48)

/** Makes a blob of these bytes; zeros if `bytes` is NULL. LLADD_TOO_LARGE beyond LLADD_BLOB_MAX. */
LLADD_API int lladd_blob_create(struct lladd_txn *, const void *bytes, uint64_t len,
                                lladd_pageno *root);
/** Destroys the blob; its pages are freed when the commit is durable. No other transaction that has
 *  changed it may be open or in doubt; nothing checks that (docs/locks.md). */
LLADD_API int lladd_blob_destroy(struct lladd_txn *, lladd_pageno root);
/** Replaces bytes [offset, offset + len); bytes beyond the end are appended. LLADD_OUT_OF_RANGE if
 *  offset is beyond the end. */
LLADD_API int lladd_blob_write(struct lladd_txn *, lladd_pageno root, uint64_t offset,
                               const void *bytes, uint64_t len);
/** Appends bytes at the end. LLADD_TOO_LARGE beyond LLADD_BLOB_MAX. */
LLADD_API int lladd_blob_append(struct lladd_txn *, lladd_pageno root, const void *bytes,
                                uint64_t len);
/** Sets the length to `len`: truncates, or appends zeros. */
LLADD_API int lladd_blob_truncate(struct lladd_txn *, lladd_pageno root, uint64_t len);
/** Replaces the whole contents. */
LLADD_API int lladd_blob_replace(struct lladd_txn *, lladd_pageno root, const void *bytes,
                                 uint64_t len);
/** The blob's length in bytes, in *out. Any thread. */
LLADD_API int lladd_blob_length(struct lladd_db *, lladd_pageno root, uint64_t *out,
                                struct lladd_error *);
/** Copies bytes [offset, offset + len) out; *got is the number copied, less at the end. If `got` is
 *  NULL, a read beyond the end is LLADD_OUT_OF_RANGE. */
LLADD_API int lladd_blob_read(struct lladd_db *, lladd_pageno root, uint64_t offset, void *out,
                              uint64_t len, uint64_t *got, struct lladd_error *);
/** Calls fn for each page of the blob; stops if fn does not return 0. */
LLADD_API int lladd_blob_pages(struct lladd_db *, lladd_pageno root,
                               int (*fn)(void *ctx, lladd_pageno), void *ctx, struct lladd_error *);
/** From now on writes of at least this many bytes, on this handle, bypass the log. 0: the library's
 *  default (1 MiB); UINT64_MAX: all writes are logged. */
LLADD_API void lladd_blob_bulk_from(struct lladd_db *, uint64_t bytes);
/** Checks that every page is there and belongs to the blob, and is zero after the end. No other
 *  thread may be changing the blob. LLADD_CORRUPT_PAGE. */
LLADD_API int lladd_blob_check(struct lladd_db *, lladd_pageno root, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
