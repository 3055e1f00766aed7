/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_HEAP_H
#define LLADD_HEAP_H
/**
 * @file
 * @brief Heaps: any number of records of any length, over any number of slotted pages.
 *
 * A record has an id, {page, slot, size}. The id stays the same even if the record grows and has to
 * move to another page. The heap finds a page with room for each new record. A heap is identified
 * by its root page; the page's number may be stored under a name (lladd_root_set).
 *
 * A call that returns an error has changed nothing. LLADD_DESTROYED if the heap has been destroyed,
 * LLADD_OTHER_DATABASE if the transaction is of another database. LLADD_OUT_OF_RANGE or
 * LLADD_WRONG_TYPE if the heap has no record with the id.
 *
 * Threads: any number may use a handle; concurrent transactions insert on different pages. The
 * application locks records: a transaction must not change a record that another active transaction
 * has changed (LLADD paper, section 2.1). Changes of different records never interfere, not even on
 * one page. After a transaction has created a heap, no other transaction may use the heap until the
 * first has ended.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/records.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_heap;

/** Returns the maximum length of a record: 4024 bytes with pages of 4 KiB. */
LLADD_API uint32_t lladd_heap_max(uint32_t page_size);
/** Creates an empty heap in the transaction; *root is its root page. */
LLADD_API int lladd_heap_create(struct lladd_txn *, lladd_pageno *root);
/** Frees all pages of a heap in the transaction. No other transaction that has changed the heap's
 *  records may be open or in doubt; the library does not check this (docs/locks.md). */
LLADD_API int lladd_heap_destroy(struct lladd_txn *, lladd_pageno root);
/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is not a heap's root,
 *  LLADD_DESTROYED if the heap has been destroyed. */
LLADD_API int lladd_heap_open(struct lladd_db *, lladd_pageno root, struct lladd_heap **out,
                              struct lladd_error *);
/** lladd_heap_create and lladd_heap_open in one: *root is the root page, *out a handle. If the
 *  transaction is rolled back, calls with the handle return LLADD_DESTROYED; the handle must still
 *  be closed. A call that fails makes neither heap nor handle. */
LLADD_API int lladd_heap_create_open(struct lladd_txn *, lladd_pageno *root,
                                     struct lladd_heap **out);
/** Closes the handle; NULL does nothing. No other thread may be using the handle, and no cursor
 *  that was opened with it may be open. */
LLADD_API void lladd_heap_close(struct lladd_heap *);

/** Stores a record on any page of the heap. LLADD_TOO_LARGE beyond lladd_heap_max. */
LLADD_API int lladd_heap_insert(struct lladd_txn *, struct lladd_heap *, const void *bytes,
                                size_t len, struct lladd_rid *out);
/** Replaces a record; its id stays the same, even if the record has to move to another page. */
LLADD_API int lladd_heap_set(struct lladd_txn *, struct lladd_heap *, struct lladd_rid,
                             const void *bytes, size_t len);
/** Replaces bytes [offset, offset + len) of a record, which must lie within it (else
 *  LLADD_OUT_OF_RANGE). Logs only these bytes, old and new. */
LLADD_API int lladd_heap_write(struct lladd_txn *, struct lladd_heap *, struct lladd_rid,
                               uint32_t offset, const void *bytes, size_t len);
/** Adds to a 64-bit integer in a record, also if the record has moved: see lladd_slotted_add. */
LLADD_API int lladd_heap_add(struct lladd_txn *, struct lladd_heap *, struct lladd_rid,
                             uint32_t offset, int64_t delta);
/** Deletes a record. */
LLADD_API int lladd_heap_delete(struct lladd_txn *, struct lladd_heap *, struct lladd_rid);
/** Copies a record: *len (nullable) gets the record's length, `buf` as much of the record as `size`
 *  allows. */
LLADD_API int lladd_heap_get(struct lladd_heap *, struct lladd_rid, void *buf, size_t size,
                             size_t *len, struct lladd_error *);
/** Copies bytes [offset, offset + len) of a record to `buf`. LLADD_OUT_OF_RANGE if not all of these
 *  bytes lie within the record; then the contents of `buf` are undefined. */
LLADD_API int lladd_heap_read(struct lladd_heap *, struct lladd_rid, uint32_t offset, void *buf,
                              size_t len, struct lladd_error *);

/** A walk through a heap. Every record that exists from the first call to the last is returned
 *  exactly once, whatever other transactions insert, delete or move meanwhile. No latch is held
 *  between calls. One thread at a time may use a cursor. lladd_heap_cursor_close releases it. */
struct lladd_heap_cursor {
    struct lladd_heap *heap;
    uint64_t private_[4];
    unsigned char *buffer;
    size_t size;
};
/** Begins a walk; cannot fail, and reads nothing. */
LLADD_API void lladd_heap_cursor_open(struct lladd_heap *, struct lladd_heap_cursor *);
/** Gets the next record; its bytes live until the cursor's next call. LLADD_END after the last
 *  record. */
LLADD_API int lladd_heap_cursor_next(struct lladd_heap_cursor *, struct lladd_rid *,
                                     struct lladd_record *, struct lladd_error *);
/** Ends the walk and frees the cursor's buffer. Call it before lladd_heap_close. */
LLADD_API void lladd_heap_cursor_close(struct lladd_heap_cursor *);

#ifdef __cplusplus
}
#endif
#endif
