/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_RECORDS_H
#define LLADD_RECORDS_H
/**
 * @file
 * @brief Bytes, counters, slotted pages, fixed-length records, heaps.
 *
 * Everything here is ordinary use of <lladd/op.h>: read the sources in operations/ as examples.
 *
 * Records are named by {page, slot, size} (paper, section 2.2). Space and slots that a transaction
 * gives up stay reserved until it has ended: rolling back never needs room that another transaction
 * has taken (REC-3). Which transaction may touch which record is the caller's affair (paper,
 * section 2.1); transactions that work on different records of one page never disturb each other.
 *
 * Calls with a transaction report into lladd_txn_error. Those with `held` in their names work on a
 * page that the caller holds latched exclusively, and need log space taken before the latch was:
 * see lladd_slotted_credit.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_log_entry;

/* ---- plain bytes: page type "lladd.bytes" ---------------------------------------------------- */

/** An empty page of bytes: offsets 0 to lladd_body_size(page size) - 1, all zero. */
LLADD_API int lladd_bytes_format(struct lladd_txn *, lladd_pageno);
/** Writes `len` bytes at `offset` of the page's body. Logged are the bytes from the first to the
 *  last one that changes, before and after: at most 2 + len each. LLADD_OUT_OF_RANGE beyond the
 *  body. */
LLADD_API int lladd_bytes_set(struct lladd_txn *, lladd_pageno, uint32_t offset, const void *bytes,
                              size_t len);
/** The same, for a long range of which little changes: every run of changed bytes is logged by
 *  itself, and what lies between is not. */
LLADD_API int lladd_bytes_set_range(struct lladd_txn *, lladd_pageno, uint32_t offset,
                                    const void *bytes, size_t len);
/** Copies bytes of the page's body. */
LLADD_API int lladd_bytes_get(struct lladd_db *, lladd_pageno, uint32_t offset, void *out,
                              size_t len, struct lladd_error *);
/** Adds to the little-endian 64-bit integer at `offset` of a page of bytes. Undo subtracts, so
 *  transactions that add to one counter do not disturb each other. The sum is kept modulo 2^64.
 *  LLADD_BAD_ARGUMENT if the additions of one call overflow. */
LLADD_API int lladd_counter_add(struct lladd_txn *, lladd_pageno, uint32_t offset, int64_t delta);
/** Reads the integer that lladd_counter_add changes, with additions of open transactions. */
LLADD_API int lladd_counter_get(struct lladd_db *, lladd_pageno, uint32_t offset, int64_t *out,
                                struct lladd_error *);

/* ---- records --------------------------------------------------------------------------------- */

/** Where a record is. `size` is its length in bytes when the id was made; what counts is page and
 *  slot. */
struct lladd_rid {
    lladd_pageno page;
    uint32_t slot;
    uint32_t size;
};

/** A record on a page one holds latched; the bytes live as long as the latch. */
struct lladd_record {
    const unsigned char *bytes;
    uint32_t len;
    uint32_t tag; /**< 0 to 3: the owner's; slotted pages only */
};

/* ---- slotted pages: page type "lladd.slotted", records of any length ------------------------- */

/** An empty page of variable-length records. `owner`: eight bytes for the structure it belongs
 *  to. */
LLADD_API int lladd_slotted_format(struct lladd_txn *, lladd_pageno, uint64_t owner);
/** Stores a record on the page. `bytes` NULL: zeros. LLADD_PAGE_FULL if there is no room that is
 *  not reserved for another transaction's undo. LLADD_TOO_LARGE beyond lladd_slotted_max. */
LLADD_API int lladd_slotted_alloc(struct lladd_txn *, lladd_pageno, const void *bytes, size_t len,
                                  unsigned tag, struct lladd_rid *out);
/** LLADD_OUT_OF_RANGE if there is no such record; so for all that follow. */
LLADD_API int lladd_slotted_free(struct lladd_txn *, struct lladd_rid);
/** Replaces contents, length and tag; logs what differs. LLADD_PAGE_FULL if it grew too much. */
LLADD_API int lladd_slotted_set(struct lladd_txn *, struct lladd_rid, const void *bytes, size_t len,
                                unsigned tag);
/** Replaces bytes [offset, offset + len) of a record, which must lie within it. */
LLADD_API int lladd_slotted_write(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                                  const void *bytes, size_t len);
/** Adds to the little-endian 64-bit integer in bytes [offset, offset + 8) of a record, which must
 *  lie within it. Undo subtracts: transactions that add to one field do not disturb each other, nor
 *  do those that write other bytes of the record (lladd_slotted_write); one that sets all of it, or
 *  its length, does. As with lladd_counter_add, the sum is kept modulo 2^64;
 *  LLADD_BAD_ARGUMENT if the additions of one call overflow. */
LLADD_API int lladd_slotted_add(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                                int64_t delta);
/** Cuts the record off, or appends zeros. */
LLADD_API int lladd_slotted_resize(struct lladd_txn *, struct lladd_rid, size_t len);
/** Copies a record out: *len gets its length, `buf` as much of it as `size` allows. */
LLADD_API int lladd_slotted_read(struct lladd_db *, struct lladd_rid, void *buf, size_t size,
                                 size_t *len, unsigned *tag, struct lladd_error *);

/** Longest record an empty page can store. */
LLADD_API uint32_t lladd_slotted_max(uint32_t page_size);
/** Slot numbers are below this. */
LLADD_API uint32_t lladd_slotted_slots(struct lladd_view);
/** Is there a record in the slot, and which? */
LLADD_API bool lladd_slotted_record(struct lladd_view, uint32_t slot, struct lladd_record *out);
/** Longest record that could be stored now; with `reserved`, if all transactions had ended. */
LLADD_API uint32_t lladd_slotted_room(struct lladd_view, bool reserved);
/** The number that the page was formatted with (lladd_slotted_format). */
LLADD_API uint64_t lladd_slotted_owner(struct lladd_view);

/** Log space for `count` of the calls below; before the page is latched (BUF-3). */
LLADD_API int lladd_slotted_credit(struct lladd_txn *, unsigned count);
/** As above on a latched page. Records are at most LLADD_SLOTTED_PIECE long here
 *  (LLADD_TOO_LARGE). */
LLADD_API int lladd_slotted_alloc_held(struct lladd_txn *, struct lladd_page *held,
                                       const void *bytes, size_t len, unsigned tag,
                                       struct lladd_rid *out);
/** Frees a record of a latched page: lladd_slotted_free. */
LLADD_API int lladd_slotted_free_held(struct lladd_txn *, struct lladd_page *held, uint32_t slot);
/** Replaces a record of a latched page: lladd_slotted_set. At most LLADD_SLOTTED_PIECE bytes. */
LLADD_API int lladd_slotted_set_held(struct lladd_txn *, struct lladd_page *held, uint32_t slot,
                                     const void *bytes, size_t len, unsigned tag);
/** Most bytes of a record that one log record carries. Longer ones (on pages of more than 4 KiB)
 *  take several. */
#define LLADD_SLOTTED_PIECE 4096u

/* ---- fixed-length records: page type "lladd.fixed" ------------------------------------------- */

/** Longest record such a page can be made for (and that must fit the page size). */
#define LLADD_FIXED_MAX 4096u

/** An empty page of records of `size` bytes each. LLADD_BAD_ARGUMENT if not one of them fits. */
LLADD_API int lladd_fixed_format(struct lladd_txn *, lladd_pageno, uint32_t size);
/** Stores a record; `bytes` NULL: zeros. LLADD_PAGE_FULL. */
LLADD_API int lladd_fixed_alloc(struct lladd_txn *, lladd_pageno, const void *bytes,
                                struct lladd_rid *out);
/** Frees a record. LLADD_OUT_OF_RANGE if there is none. */
LLADD_API int lladd_fixed_free(struct lladd_txn *, struct lladd_rid);
/** Replaces bytes [offset, offset + len) of a record; logs what differs. */
LLADD_API int lladd_fixed_set(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                              const void *bytes, size_t len);
/** Adds to a 64-bit integer in a record: see lladd_slotted_add. */
LLADD_API int lladd_fixed_add(struct lladd_txn *, struct lladd_rid, uint32_t offset, int64_t delta);
/** Copies the whole record: as many bytes as the page was formatted for. */
LLADD_API int lladd_fixed_read(struct lladd_db *, struct lladd_rid, void *out, size_t size,
                               struct lladd_error *);
/** Bytes of each record of the page. */
LLADD_API uint32_t lladd_fixed_size(struct lladd_view);
/** Records the page has room for; slot numbers are below this. */
LLADD_API uint32_t lladd_fixed_slots(struct lladd_view);
/** The record in the slot, false if there is none; *out refers to the page's bytes. */
LLADD_API bool lladd_fixed_record(struct lladd_view, uint32_t slot, struct lladd_record *out);

/* ---- heaps: any number of records, in any number of slotted pages ---------------------------- */

/** Makes an empty heap; its id is its first page. Remember it, for instance with lladd_root_set. */
LLADD_API int lladd_heap_create(struct lladd_txn *, lladd_pageno *heap);
/** Frees all pages of a heap, in the transaction. No other transaction that has changed its records
 *  may be open or in doubt; nothing checks that (docs/locks.md). */
LLADD_API int lladd_heap_destroy(struct lladd_txn *, lladd_pageno heap);
/** Longest record a heap stores: 4024 bytes with pages of 4 KiB. */
LLADD_API uint32_t lladd_heap_max(uint32_t page_size);
/** Stores a record somewhere. Concurrent transactions use different pages. */
LLADD_API int lladd_heap_insert(struct lladd_txn *, lladd_pageno heap, const void *bytes,
                                size_t len, struct lladd_rid *out);
/** Replaces a record; its id stays, also if it has to move to another page. */
LLADD_API int lladd_heap_set(struct lladd_txn *, lladd_pageno heap, struct lladd_rid,
                             const void *bytes, size_t len);
/** Replaces bytes [offset, offset + len) of a record, which must lie within it (else
 *  LLADD_OUT_OF_RANGE, and nothing has changed); the rest stays as it is. Logged are these bytes,
 *  before and after. */
LLADD_API int lladd_heap_write(struct lladd_txn *, lladd_pageno heap, struct lladd_rid,
                               uint32_t offset, const void *bytes, size_t len);
/** Adds to a 64-bit integer in a record, where that is by now: see lladd_slotted_add. */
LLADD_API int lladd_heap_add(struct lladd_txn *, lladd_pageno heap, struct lladd_rid,
                             uint32_t offset, int64_t delta);
/** Deletes a record of the heap. LLADD_OUT_OF_RANGE if there is none. */
LLADD_API int lladd_heap_delete(struct lladd_txn *, lladd_pageno heap, struct lladd_rid);
/** Copies a record out: *len gets its length, `buf` as much of it as `size` allows. */
LLADD_API int lladd_heap_get(struct lladd_db *, lladd_pageno heap, struct lladd_rid, void *buf,
                             size_t size, size_t *len, struct lladd_error *);
/** Copies bytes [offset, offset + len) of a record to `buf`. LLADD_OUT_OF_RANGE if they do not all
 *  lie within it: what is in `buf` then is not said. */
LLADD_API int lladd_heap_read(struct lladd_db *, lladd_pageno heap, struct lladd_rid,
                              uint32_t offset, void *buf, size_t len, struct lladd_error *);

/* For lladd_participant.protect: what a record of the log has changed, if it would be taken back on
 * its page. */

/** Bytes of a page, by lladd_bytes_set (from the first to the last one that became another) or
 *  lladd_counter_add. False if it is another change, one by lladd_bytes_set_range included. */
LLADD_API bool lladd_logged_bytes(const struct lladd_log_entry *, uint32_t *offset, uint32_t *len);
/** The record in a slot of a slotted page or one of fixed-length records, and so of a heap where it
 *  has no other page. False if it is another change. */
LLADD_API bool lladd_logged_slot(const struct lladd_log_entry *, uint32_t *slot);

/** A walk through a heap. Every record that is there from the first call to the last comes exactly
 *  once, whatever others insert, delete or move meanwhile; no latch is held between calls. Release
 *  with lladd_heap_close. */
struct lladd_heap_cursor {
    struct lladd_db *db;
    lladd_pageno heap;
    uint64_t private_[4];
    unsigned char *buffer;
    size_t size;
};
/** Cannot fail; nothing is read yet. */
LLADD_API void lladd_heap_open(struct lladd_db *, lladd_pageno heap, struct lladd_heap_cursor *);
/** The next record; its bytes live until the cursor's next call. LLADD_END after the last. */
LLADD_API int lladd_heap_next(struct lladd_heap_cursor *, struct lladd_rid *, struct lladd_record *,
                              struct lladd_error *);
/** Ends the walk and frees the cursor's buffer. */
LLADD_API void lladd_heap_close(struct lladd_heap_cursor *);

#ifdef __cplusplus
}
#endif
#endif
