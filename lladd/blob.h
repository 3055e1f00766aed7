/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BLOB_H
#define LLADD_BLOB_H
/**
 * @file
 * @brief Blobs: values of any size up to 2^48 bytes.
 *
 * Small changes are logged in full. Large changes are written directly to new extents, which are
 * synced before the commit; only the blob's descriptor is logged. So a transaction that stores a
 * gigabyte writes it once. The pages that a large write replaces are kept until the commit of the
 * writing transaction is durable. A blob is identified by its root page; a small blob is stored
 * entirely in that page. Zeros that lladd_blob_truncate appends, or with which lladd_blob_create
 * fills a blob, take no data pages.
 *
 * A call that returns an error has changed nothing. LLADD_WRONG_TYPE if the page is not a blob's
 * root, LLADD_DESTROYED if the blob has been destroyed. A large write allocates an extent. A
 * page of the extent may have been in use before. If a thread has fixed it then, and has not
 * released it yet, the write returns LLADD_BUSY; the caller may repeat the write.
 *
 * A reader that holds no lock sees each page as it is at one moment, but may see two pages as they
 * are at different moments. A large write is synced when its transaction commits or prepares. The
 * changes of a nested top action that ends with LLADD_NO_OP stay even if the transaction is rolled
 * back. So, if such an action contains a large write, call lladd_bulk_sync before the end of the
 * action.
 *
 * Threads: any number of threads may make these calls. A transaction must not write to a blob that
 * another active transaction has changed.
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
/** Destroys the blob; its pages can be allocated again when the commit is durable. No other
 *  transaction that has changed the blob may be open or in doubt; the library does not check this
 *  (docs/locks.md). */
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
/** Gets the blob's length in bytes. Any thread. */
LLADD_API int lladd_blob_length(struct lladd_db *, lladd_pageno root, uint64_t *out,
                                struct lladd_error *);
/** Copies bytes [offset, offset + len) to `out`. *got gets the number of bytes copied: less than
 *  `len` if the blob ends before offset + len. If `got` is NULL, a read beyond the end returns
 *  LLADD_OUT_OF_RANGE. */
LLADD_API int lladd_blob_read(struct lladd_db *, lladd_pageno root, uint64_t offset, void *out,
                              uint64_t len, uint64_t *got, struct lladd_error *);
/** Calls `fn` for each page of the blob; stops if `fn` does not return 0. */
LLADD_API int lladd_blob_pages(struct lladd_db *, lladd_pageno root,
                               int (*fn)(void *ctx, lladd_pageno), void *ctx, struct lladd_error *);
/** From now on, on this handle, writes of at least `bytes` bytes bypass the log. 0: the library's
 *  default (1 MiB); UINT64_MAX: all writes are logged. */
LLADD_API void lladd_blob_bulk_from(struct lladd_db *, uint64_t bytes);
/** Checks that every page exists and belongs to the blob, and that the bytes after the blob's end
 *  are zero; LLADD_CORRUPT_PAGE otherwise. No other thread may change the blob meanwhile. */
LLADD_API int lladd_blob_check(struct lladd_db *, lladd_pageno root, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
