/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_RECORDS_H
#define LLADD_RECORDS_H
/**
 * @file
 * @brief Bytes, counters, slotted pages, fixed-length records.
 *
 * The sources of these operations, operations/records/ and operations/pages/, can serve as
 * examples: outside operations/ they use only public headers.
 *
 * A record's id is {page, slot, size} (LLADD paper, section 2.2). Space and slots that a
 * transaction frees stay reserved until the transaction has ended, so a rollback never needs space
 * that another transaction has taken (REC-3). The caller decides which transaction may use which
 * record (LLADD paper, section 2.1); transactions that change different records of one page do not
 * interfere.
 *
 * A call on a transaction stores its error in lladd_txn_error. A call with `held` in its name
 * changes a page that the caller holds latched exclusively; the caller must have reserved log space
 * before it took the latch (lladd_slotted_credit).
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_log_entry;

/* ---- plain bytes: page type "lladd.bytes" ---------------------------------------------------- */

/** Makes the page an empty page of bytes: offsets 0 to lladd_body_size(page size) - 1, all zero. */
LLADD_API int lladd_bytes_format(struct lladd_txn *, lladd_pageno);
/** Writes `len` bytes at `offset` of the page's body. Logs the old and the new bytes from the first
 *  byte that changes to the last, at most 2 + len bytes each. LLADD_OUT_OF_RANGE beyond the
 *  body. */
LLADD_API int lladd_bytes_set(struct lladd_txn *, lladd_pageno, uint32_t offset, const void *bytes,
                              size_t len);
/** Does the same as lladd_bytes_set, for a long range with few changes: logs only the sequences of
 *  changed bytes, not the bytes between them. */
LLADD_API int lladd_bytes_set_range(struct lladd_txn *, lladd_pageno, uint32_t offset,
                                    const void *bytes, size_t len);
/** Copies bytes of the page's body. */
LLADD_API int lladd_bytes_get(struct lladd_db *, lladd_pageno, uint32_t offset, void *out,
                              size_t len, struct lladd_error *);
/** Adds to the little-endian 64-bit integer at `offset` of a page of bytes. Undo subtracts `delta`,
 *  so transactions that add to one counter do not disturb each other. LLADD_BAD_ARGUMENT if the
 *  present value plus `delta` overflows. Undo and redo compute modulo 2^64. */
LLADD_API int lladd_counter_add(struct lladd_txn *, lladd_pageno, uint32_t offset, int64_t delta);
/** Reads the integer that lladd_counter_add changes, including the additions of open
 *  transactions. */
LLADD_API int lladd_counter_get(struct lladd_db *, lladd_pageno, uint32_t offset, int64_t *out,
                                struct lladd_error *);

/* ---- records --------------------------------------------------------------------------------- */

/** The id of a record. Page and slot identify the record; `size` is its length in bytes when the id
 *  was made. */
struct lladd_rid {
    lladd_pageno page;
    uint32_t slot;
    uint32_t size;
};

/** A record on a page that the caller has latched; `bytes` is valid until the page is unfixed. */
struct lladd_record {
    const unsigned char *bytes;
    uint32_t len;
    uint32_t tag; /**< 0 to 3, chosen by the page's owner; slotted pages only */
};

/* ---- slotted pages: page type "lladd.slotted", records of any length ------------------------- */

/** Makes the page an empty page of variable-length records. `owner` is a number that identifies the
 *  structure that owns the page. */
LLADD_API int lladd_slotted_format(struct lladd_txn *, lladd_pageno, uint64_t owner);
/** Stores a record on the page; if `bytes` is NULL, its bytes are zeros. LLADD_PAGE_FULL if the
 *  page has too little space that is not reserved for the undo of other transactions.
 *  LLADD_TOO_LARGE beyond lladd_slotted_max. */
LLADD_API int lladd_slotted_alloc(struct lladd_txn *, lladd_pageno, const void *bytes, size_t len,
                                  unsigned tag, struct lladd_rid *out);
/** Frees a record. This call and all following calls with a lladd_rid return LLADD_OUT_OF_RANGE if
 *  the record does not exist. */
LLADD_API int lladd_slotted_free(struct lladd_txn *, struct lladd_rid);
/** Replaces contents, length and tag of a record; logs the bytes that differ. LLADD_PAGE_FULL if
 *  the page has too little space. */
LLADD_API int lladd_slotted_set(struct lladd_txn *, struct lladd_rid, const void *bytes, size_t len,
                                unsigned tag);
/** Replaces bytes [offset, offset + len) of a record, which must lie within it. */
LLADD_API int lladd_slotted_write(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                                  const void *bytes, size_t len);
/** Adds to the little-endian 64-bit integer in bytes [offset, offset + 8), which must lie within
 *  the record. Undo subtracts `delta`. So several open transactions may add to one integer, and
 *  write other bytes of the record (lladd_slotted_write); they must not replace the record or
 *  change its length. LLADD_BAD_ARGUMENT as for lladd_counter_add. */
LLADD_API int lladd_slotted_add(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                                int64_t delta);
/** Sets the record's length to `len`: truncates it, or appends zeros. */
LLADD_API int lladd_slotted_resize(struct lladd_txn *, struct lladd_rid, size_t len);
/** Copies a record: *len (nullable) gets the record's length, *tag (nullable) its tag, `buf` as
 *  much of the record as `size` allows. LLADD_OUT_OF_RANGE if the record does not exist. */
LLADD_API int lladd_slotted_read(struct lladd_db *, struct lladd_rid, void *buf, size_t size,
                                 size_t *len, unsigned *tag, struct lladd_error *);

/** Returns the maximum length of a record on an empty page. */
LLADD_API uint32_t lladd_slotted_max(uint32_t page_size);
/** Returns a number that is greater than every slot number of the page. */
LLADD_API uint32_t lladd_slotted_slots(struct lladd_view);
/** Gets the record in a slot; returns false if the slot has no record. */
LLADD_API bool lladd_slotted_record(struct lladd_view, uint32_t slot, struct lladd_record *out);
/** Returns the maximum length of a record that can be stored now. With `reserved`, the space that
 *  is reserved for undo counts as free; it is free when all transactions have ended. */
LLADD_API uint32_t lladd_slotted_room(struct lladd_view, bool reserved);
/** Returns the `owner` with which the page was formatted (lladd_slotted_format). */
LLADD_API uint64_t lladd_slotted_owner(struct lladd_view);

/** Reserves log space for `count` calls with `held` in their names; call it before the page is
 *  latched (BUF-3). */
LLADD_API int lladd_slotted_credit(struct lladd_txn *, unsigned count);
/** Does the same as lladd_slotted_alloc, on a latched page, for a record of at most
 *  LLADD_SLOTTED_PIECE bytes (LLADD_TOO_LARGE). */
LLADD_API int lladd_slotted_alloc_held(struct lladd_txn *, struct lladd_page *held,
                                       const void *bytes, size_t len, unsigned tag,
                                       struct lladd_rid *out);
/** Does the same as lladd_slotted_free, on a latched page. */
LLADD_API int lladd_slotted_free_held(struct lladd_txn *, struct lladd_page *held, uint32_t slot);
/** Does the same as lladd_slotted_set, on a latched page, for at most LLADD_SLOTTED_PIECE bytes
 *  (LLADD_TOO_LARGE). */
LLADD_API int lladd_slotted_set_held(struct lladd_txn *, struct lladd_page *held, uint32_t slot,
                                     const void *bytes, size_t len, unsigned tag);
/** The maximum number of bytes of a slotted record in one log record. A longer slotted record (on
 *  pages of more than 4 KiB) takes several log records. */
#define LLADD_SLOTTED_PIECE 4096u

/* ---- fixed-length records: page type "lladd.fixed" ------------------------------------------- */

/** The maximum size of a record for lladd_fixed_format; the page size may allow less. */
#define LLADD_FIXED_MAX 4096u

/** Makes the page an empty page of records of `size` bytes each. LLADD_BAD_ARGUMENT if not even one
 *  record fits. */
LLADD_API int lladd_fixed_format(struct lladd_txn *, lladd_pageno, uint32_t size);
/** Stores a record; if `bytes` is NULL, its bytes are zeros. LLADD_PAGE_FULL. */
LLADD_API int lladd_fixed_alloc(struct lladd_txn *, lladd_pageno, const void *bytes,
                                struct lladd_rid *out);
/** Frees a record. LLADD_OUT_OF_RANGE if the record does not exist. */
LLADD_API int lladd_fixed_free(struct lladd_txn *, struct lladd_rid);
/** Replaces bytes [offset, offset + len) of a record; logs the bytes that differ. */
LLADD_API int lladd_fixed_set(struct lladd_txn *, struct lladd_rid, uint32_t offset,
                              const void *bytes, size_t len);
/** Adds to a 64-bit integer in a record: see lladd_slotted_add. */
LLADD_API int lladd_fixed_add(struct lladd_txn *, struct lladd_rid, uint32_t offset, int64_t delta);
/** Copies the whole record: as many bytes as the page was formatted for. */
LLADD_API int lladd_fixed_read(struct lladd_db *, struct lladd_rid, void *out, size_t size,
                               struct lladd_error *);
/** Returns the length of each record of the page in bytes. */
LLADD_API uint32_t lladd_fixed_size(struct lladd_view);
/** Returns the number of slots of the page; slot numbers count from 0. */
LLADD_API uint32_t lladd_fixed_slots(struct lladd_view);
/** Gets the record in the slot; returns false if the slot has no record. *out refers to the page's
 *  bytes. */
LLADD_API bool lladd_fixed_record(struct lladd_view, uint32_t slot, struct lladd_record *out);

/* For lladd_participant.protect: these calls return the place that a log record has changed, if the
 * change is undone on its page. */

/** Gets the bytes of a page that were changed by lladd_bytes_set (from the first byte that differs
 *  to the last) or by lladd_counter_add. False for any other change, including
 *  lladd_bytes_set_range. */
LLADD_API bool lladd_logged_bytes(const struct lladd_log_entry *, uint32_t *offset, uint32_t *len);
/** Gets the slot that was changed on a slotted page or a page of fixed-length records; also for a
 *  heap's record that is on the page of its id. False for any other change. */
LLADD_API bool lladd_logged_slot(const struct lladd_log_entry *, uint32_t *slot);

#ifdef __cplusplus
}
#endif
#endif
