/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BLOB_H
#define LLADD_BLOB_H
/**
 * @file
 * @brief Blobs: values of any size up to 2^48 bytes.
 *
 * Small changes are logged, bytes and all. Large ones are written straight to fresh extents, forced
 * before the commit, and only the descriptor is logged; what they replace stays where it is until
 * the commit is durable. So a transaction that stores a gigabyte writes it once. A blob is known by
 * its root page, and small ones live in it. Zeros that were never written take no pages.
 *
 * A call that returns an error has changed nothing. LLADD_WRONG_TYPE if the page is no blob's root,
 * LLADD_DESTROYED if the blob there has been destroyed. LLADD_BUSY, of large writes: somebody still
 * looks at an earlier life of a page they have got; try again.
 *
 * Readers without isolation see each page as of one moment. In a top action that ends with
 * LLADD_NO_OP, and so outlives its transaction, call lladd_bulk_sync before the end: what is written
 * past the log is forced by the commit, or by prepare, of the transaction.
 *
 * Threads: any number. Two transactions that write to one blob are a fault of the caller.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_BLOB_MAX (UINT64_C(1) << 48)

/** Makes a blob of these bytes; `bytes` NULL: zeros. LLADD_TOO_LARGE beyond LLADD_BLOB_MAX. */
LLADD_API int lladd_blob_create(struct lladd_txn *, const void *bytes, uint64_t len,
                                lladd_pageno *root);
/** Gives its pages back when the commit is durable. */
LLADD_API int lladd_blob_destroy(struct lladd_txn *, lladd_pageno root);
/** Replaces bytes [offset, offset + len); what lies behind the end is appended. LLADD_OUT_OF_RANGE
 *  if offset is behind the end. */
LLADD_API int lladd_blob_write(struct lladd_txn *, lladd_pageno root, uint64_t offset,
                               const void *bytes, uint64_t len);
LLADD_API int lladd_blob_append(struct lladd_txn *, lladd_pageno root, const void *bytes,
                                uint64_t len);
/** Makes it `len` bytes long: cuts it off, or appends zeros. */
LLADD_API int lladd_blob_truncate(struct lladd_txn *, lladd_pageno root, uint64_t len);
/** Replaces all of it. */
LLADD_API int lladd_blob_replace(struct lladd_txn *, lladd_pageno root, const void *bytes,
                                 uint64_t len);
LLADD_API int lladd_blob_length(struct lladd_db *, lladd_pageno root, uint64_t *out,
                                struct lladd_error *);
/** Copies bytes [offset, offset + len) out; *got (nullable) is less at the end. Without a got,
 *  LLADD_OUT_OF_RANGE if they are not all there. */
LLADD_API int lladd_blob_read(struct lladd_db *, lladd_pageno root, uint64_t offset, void *out,
                              uint64_t len, uint64_t *got, struct lladd_error *);
/** Calls fn for each page of the blob; not 0 stops. */
LLADD_API int lladd_blob_pages(struct lladd_db *, lladd_pageno root,
                               int (*fn)(void *ctx, lladd_pageno), void *ctx, struct lladd_error *);
/** Writes of at least so many bytes go past the log, on this handle, from now on; 0: as many as the
 *  library thinks best (64 KiB), UINT64_MAX: all are logged. */
LLADD_API void lladd_blob_bulk_from(struct lladd_db *, uint64_t bytes);
/** Is every page there, the blob's own, and zero behind the end? Not while others change the blob.
 *  LLADD_CORRUPT_PAGE. */
LLADD_API int lladd_blob_check(struct lladd_db *, lladd_pageno root, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
