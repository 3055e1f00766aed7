/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_EXTENSION_H
#define LLADD_EXTENSION_H
/**
 * @file
 * @brief The calls for operations and extensions: pages, updates, top actions, state of
 * transactions.
 *
 * The descriptors that an extension registers are in op.h. bulk.h has the calls that write pages
 * without logging, log_read.h reads the log, snapshot.h has snapshots. A call on a transaction
 * stores its error in lladd_txn_error.
 * @ingroup lladd
 */
#include <lladd/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/* ---- the handle ---------------------------------------------------------------------------- */

/** Returns 0, or LLADD_FORKED in a process that did not open the handle. If a function of an
 *  extension neither uses a transaction nor reads a page, it makes this call before it takes a
 *  mutex. Any thread. */
LLADD_API int lladd_check_process(const struct lladd_db *, struct lladd_error *);
/** Returns the address of a word that is 1 while the handle is not poisoned, in the process that
 *  opened the handle. While the word is 1, lladd_check_process need not be called. Read the word
 *  with lladd_atomic_load32; it lives as long as the handle. NULL if the handle has no such word,
 *  for example a handle without threads. */
LLADD_API const uint32_t *lladd_db_alive(const struct lladd_db *);

/** Returns the state that the extension's `attach` returned; NULL if the extension is not
 *  registered with this handle. */
LLADD_API void *lladd_extension_state(struct lladd_db *, const struct lladd_extension *);
/** Allocates memory with the handle's allocator, not zeroed; NULL: out of memory. Any thread may
 *  call lladd_mem_alloc, lladd_mem_resize and lladd_mem_free. */
LLADD_API void *lladd_mem_alloc(struct lladd_db *, size_t);
/** Resizes memory of lladd_mem_alloc as realloc does; NULL: out of memory, and the old memory is
 *  unchanged. */
LLADD_API void *lladd_mem_resize(struct lladd_db *, void *, size_t);
/** Frees memory of lladd_mem_alloc; NULL does nothing. */
LLADD_API void lladd_mem_free(struct lladd_db *, void *);
/** Returns the environment's monotonic clock, in nanoseconds. */
LLADD_API uint64_t lladd_now_ns(struct lladd_db *);
/** Fills `buf` with unpredictable bytes (in the simulator: derived from its seed). 0 or a negative
 *  errno. */
LLADD_API int lladd_random_bytes(struct lladd_db *, void *buf, size_t len);
/** Gets the id of a registered operation; version 0 matches any version. LLADD_NOT_FOUND if no such
 *  operation is registered. */
LLADD_API int lladd_op_lookup(struct lladd_db *, const char *name, uint32_t version,
                              lladd_op_id *out);
/** Returns the descriptor of a registered operation, for tools that call its callbacks directly;
 *  version 0 matches any version. NULL if no such operation is registered. */
LLADD_API const struct lladd_op *lladd_op_descriptor(struct lladd_db *, const char *name,
                                                     uint32_t version);
/** Returns the page type registered under a name; NULL if no page type has the name. */
LLADD_API const struct lladd_page_type *lladd_page_type_descriptor(struct lladd_db *,
                                                                   const char *name);
/** Returns the number of losers that are still to be rolled back after an open with
 *  LLADD_RECOVER_INSTANT. The rollback of a loser may need the pages, slots and space that the
 *  loser had freed. An extension that keeps a list of free space in memory must therefore not
 *  allocate from the list until the result is 0. Any thread, under any latch. */
LLADD_API uint64_t lladd_losers_left(struct lladd_db *);

/* ---- the transaction ----------------------------------------------------------------------- */

/** @cond */
struct lladd_use {
    struct lladd_txn *txn;
};
/** @endcond */
/** Begins a use of the transaction, for LLADD_USE. Returns 0, also for NULL; or LLADD_TAKEN; or, in
 *  a process that did not open the handle, LLADD_FORKED (not checked for a handle opened with
 *  LLADD_OPT_NO_THREADS: docs/threads.md). */
LLADD_API int lladd_use_begin(struct lladd_txn *, struct lladd_use *);
/** Ends the use; LLADD_USE calls it when the function returns. */
LLADD_API void lladd_use_end(struct lladd_use *);
/** The first statement of a function that makes more than one call on a transaction, or that uses
 *  the result of lladd_txn_joined. The function must return a code. Until the function returns, no
 *  other thread can take the transaction over (lladd_txn_take). If another thread has already taken
 *  it over, the function returns LLADD_TAKEN. Uses nest. */
#define LLADD_USE(transaction) \
    struct lladd_use lladd_use_ __attribute__((cleanup(lladd_use_end))) = {0}; \
    do { \
        int lladd_use_rc_ = lladd_use_begin((transaction), &lladd_use_); \
        if (lladd_use_rc_) \
            return lladd_use_rc_; \
    } while (0)
/** Returns true if a thread waits in lladd_txn_take with `stop` set. A function that waits for
 *  another transaction must check this regularly. */
LLADD_API bool lladd_txn_stopped(const struct lladd_txn *);

/** Sets a participant's state for the transaction. LLADD_EXISTS if the participant has already
 *  joined. */
LLADD_API int lladd_txn_join(struct lladd_txn *, const struct lladd_participant *, void *state);
/** Returns the state set with lladd_txn_join; NULL if the participant has not joined. */
LLADD_API void *lladd_txn_joined(const struct lladd_txn *, const struct lladd_participant *);

/** The present state of a transaction. */
struct lladd_txn_now {
    /** The number that the next savepoint will have. An extension stores this number with each
     *  change that it makes. In rolled_back_to(id), the changes with a number greater than id were
     *  made after the savepoint. */
    lladd_savepoint_id next;
    bool rolling_back; /**< a compensation is running */
    bool page_held;    /**< the calling thread has fixed a page of the database, so the thread must
                            not wait */
    /** Set before each `rolled_back_to` and `undone`: changes made when `next` was greater than
     *  this number have been undone, or belong to top actions that were closed without undo.
     *  Savepoints and top actions are numbered together. 0: no such call so far. */
    lladd_savepoint_id undone;
    unsigned actions; /**< number of open top actions */
};
/** Fills in the present state of a transaction, which may be read-only. LLADD_BAD_STATE if the
 *  transaction is prepared; the poison's code if the handle is poisoned. */
LLADD_API int lladd_txn_now_get(struct lladd_txn *, struct lladd_txn_now *out);

/* ---- records from elsewhere ----------------------------------------------------------------- */

struct lladd_log_entry;
/** For lladd_extension.base_of: redoes a record of an archived log on a copy of a page. `record`:
 *  its `len` bytes, as they are in the log at `lsn`, in a segment with this incarnation. `page`:
 *  `page_size` bytes. If *empty is true, the copy has no contents yet: then the call redoes only an
 *  image or a record that formats the page, and clears *empty. A record with an LSN at or below the
 *  page LSN changes nothing. A copy that is changed gets its checksum. LLADD_CORRUPT_LOG: the bytes
 *  are no such record, or the record does not change this page. LLADD_CORRUPT_PAGE: the copy lacks
 *  the page's change that precedes this record. Any thread. */
LLADD_API int lladd_page_redo(struct lladd_db *, lladd_pageno, const void *record, size_t len,
                              lladd_lsn lsn, uint64_t incarnation, void *page, bool *empty,
                              struct lladd_error *);
/** Decodes a record of an archived log of this database; `record`, `len`, `lsn` and `incarnation`:
 *  see lladd_page_redo. The spans of *out point into `record`. LLADD_CORRUPT_LOG: the bytes are no
 *  such record. Any thread. */
LLADD_API int lladd_log_decode(struct lladd_db *, const void *record, size_t len, lladd_lsn lsn,
                               uint64_t incarnation, struct lladd_log_entry *out,
                               struct lladd_error *);

/* ---- files ---------------------------------------------------------------------------------- */

/** Returns the device that has the database's files: lladd_options.device, or the handle's own
 *  device for the directory. The handle owns the device until lladd_close. Use it for reading, for
 *  example for a backup; an extension writes only to files of its own, in files/
 *  (docs/disk-format.md). */
LLADD_API struct lladd_device *lladd_db_device(const struct lladd_db *);

/* ---- pages and updates --------------------------------------------------------------------- */

/** How lladd_page_fix latches a page. */
enum lladd_latch { LLADD_LATCH_SHARED = 0, LLADD_LATCH_EXCLUSIVE = 1 };

/** Fixes a page in the cache and latches it. lladd_update_page needs the exclusive latch; outside
 *  redo and undo the bytes are read-only in either mode (OP-1). The same thread must unfix the
 *  page. While a thread holds a page, its calls that may wait return LLADD_BAD_STATE, for example
 *  lladd_update (docs/threads.md). LLADD_CORRUPT_PAGE, LLADD_READ_FAILED; LLADD_NO_FRAME: every
 *  frame of the cache is in use. */
LLADD_API int lladd_page_fix(struct lladd_db *, lladd_pageno, enum lladd_latch,
                             struct lladd_page **out, struct lladd_error *);
/** Releases a fixed page; `latch` is the mode in which it was fixed. */
LLADD_API void lladd_page_unfix(struct lladd_db *, struct lladd_page *, enum lladd_latch);
/** Returns the bytes of a fixed page; valid until it is unfixed. */
LLADD_API struct lladd_view lladd_page_view(const struct lladd_page *);
/** Returns the version number of a page that the caller holds. Each change gives the page a number
 *  that it has not had before, also if the page is freed and formatted again. A reader that
 *  releases the page can later check whether the page has changed. Operations must not use the
 *  number (OP-2). */
LLADD_API uint64_t lladd_page_version(const struct lladd_page *);
/** Returns true if the view has the page type of this name. */
LLADD_API bool lladd_page_is(struct lladd_db *, struct lladd_view, const char *page_type);
/** Returns the number that the database has given to a page type; 0 if the page type has none
 *  yet. */
LLADD_API uint16_t lladd_page_type_number(struct lladd_db *, const char *page_type);
/** Announces to the device that n pages will be read soon; omits pages that are in the cache. Does
 *  not wait. */
LLADD_API void lladd_page_prefetch(struct lladd_db *, lladd_pageno, uint64_t n);
/** Prefetches the page's header, and the line with the byte at `offset` of its body, into the
 *  processor's cache, if the page is in the page cache. */
LLADD_API void lladd_prefetch_line(struct lladd_db *, lladd_pageno, uint32_t offset);
/** Prefetches the page's header, and `len` bytes at `offset` of its body, into the processor's
 *  cache, if the page is in the page cache; a long range may be prefetched only in part. If
 *  `len` is 0, prefetches only the header. */
LLADD_API void lladd_prefetch_lines(struct lladd_db *, lladd_pageno, uint32_t offset, uint32_t len);

/** Runs the operation: latch, prepare, log, redo, set the page LSN (OP-1..3; LLADD paper, section
 *  2.2.2). LLADD_BAD_STATE if the thread holds a page of this database: the call may have to wait
 *  for log space or a checkpoint, which may in turn wait for that page. */
LLADD_API int lladd_update(struct lladd_txn *, lladd_op_id, lladd_pageno, const void *args,
                           size_t len);
/** Does the same as lladd_update, on a page that the caller holds exclusively. Never waits for log
 *  space: reserve the space with lladd_log_credit before you fix the page. LLADD_BAD_STATE if no
 *  log space was reserved, or if the page is held shared; then nothing has changed. */
LLADD_API int lladd_update_page(struct lladd_txn *, lladd_op_id, struct lladd_page *held,
                                const void *args, size_t len);
/** Reserves log space (credit) for `count` records of the operation. Afterwards the transaction has
 *  credit for at least these records, including credit from earlier calls. If `count` is at most
 *  the operation's `credit_max`, the credit fits into every `log_ring_bytes` that lladd_open
 *  accepts. LLADD_TOO_LARGE if a larger count needs more than five eighths of `log_ring_bytes`.
 *  LLADD_BAD_STATE if the thread holds a page (BUF-3).
 *
 *  While the thread holds credit it may wait for pages only. It must not wait for mutexes, locks,
 *  other threads, or credit of another transaction, because the thread that it waits for may be
 *  waiting for log space. (Debug builds stop a thread that waits for one of these.)
 *  lladd_update_page takes what it needs from the credit. The rest is released by the transaction's
 *  next lladd_update, by its next record without a page, or by its end. A call with count 0, for
 *  any registered operation, also releases all credit, even under a latch; use it on error paths.
 *  Released credit may stay with the transaction for its next record, unless log space is
 *  scarce. */
LLADD_API int lladd_log_credit(struct lladd_txn *, lladd_op_id, unsigned count);

/** Passed in place of an operation's id: no operation (lladd_nta_end). */
#define LLADD_NO_OP UINT32_MAX

/** Passed in place of an operation's id: page images. The first logged change of a page that was
 *  written with lladd_bulk_write logs an image of the page, too. lladd_update reserves the log
 *  space for the image. The caller of lladd_update_page reserves it beforehand with
 *  lladd_log_credit_all; log space for records does not count towards it. A rollback logs no
 *  images. */
#define LLADD_PAGE_IMAGE (UINT32_MAX - 1)

/** States for which records log space is to be reserved: for `count` records of the operation `op`.
 *  If `op` is LLADD_NO_OP: for the records that end `count` nested top actions without logical
 *  undo. If `op` is LLADD_PAGE_IMAGE: for the images of `count` pages. */
struct lladd_log_need {
    lladd_op_id op;
    unsigned count;
};
/** The maximum number of needs in one call of lladd_log_credit_all. */
#define LLADD_LOG_NEEDS_MAX 8u
/** Does the same as lladd_log_credit, for the records of all `n` needs together, at most
 *  LLADD_LOG_NEEDS_MAX. Use it for changes of several pages with several operations. */
LLADD_API int lladd_log_credit_all(struct lladd_txn *, const struct lladd_log_need *, unsigned n);

/** A nested top action. Between begin and end, changes of several pages are undone physically;
 *  after the end, the logical undo given to lladd_nta_end undoes the whole action. Top actions
 *  nest. */
struct lladd_action {
    uint64_t private_[4];
};
/** Begins a nested top action. The caller owns *action, which must live until the action is closed.
 *  Actions are closed in reverse order; a commit with an open action returns LLADD_OPEN_ACTION. */
LLADD_API int lladd_nta_begin(struct lladd_txn *, struct lladd_action *);
/** Closes the innermost top action. From now on `op` (of undo kind LOGICAL) with these undo bytes
 *  undoes the action; LLADD_NO_OP: the action is not undone. LLADD_BAD_STATE if *action is not the
 *  innermost action. If a crash interrupts a compensation, recovery runs the compensation again and
 *  does not first undo the actions that the compensation has closed with LLADD_NO_OP; so such an
 *  action must be idempotent (OP-5). While the thread holds a page, `op` must be LLADD_NO_OP, and
 *  the log space must be reserved with lladd_log_credit_all; otherwise LLADD_BAD_STATE. */
LLADD_API int lladd_nta_end(struct lladd_txn *, struct lladd_action *, lladd_op_id op,
                            const void *undo, size_t len);
/** Undoes the innermost top action physically and closes it. */
LLADD_API int lladd_nta_abort(struct lladd_txn *, struct lladd_action *);

/** Logs only the undo of an operation: a mechanism of the LLADD paper (section 2.4) that is cheaper
 *  than a nested top action. First log the logical inverse with this call, then make updates with
 *  lladd_log_redo_only. The data must be consistent after each of these updates. The operation's
 *  `compensate` must be idempotent and restartable (OP-5). */
LLADD_API int lladd_log_undo_only(struct lladd_txn *, lladd_op_id, const void *undo, size_t len);
/** Does the same as lladd_update, but without undo, whatever the operation's undo kind: the undo
 *  bytes are not logged. */
LLADD_API int lladd_log_redo_only(struct lladd_txn *, lladd_op_id, lladd_pageno, const void *args,
                                  size_t len);

/* ---- records without a page ---------------------------------------------------------------- */

/** Connects a call of lladd_log_object with the call of lladd_object_applied for its record. */
struct lladd_token {
    uint64_t private_[2];
};
/** Logs a record for an object that is not a page. A number below 2^48 - 1 identifies the object.
 *  The caller then changes the object and calls lladd_object_applied, before its next call on the
 *  transaction. Until the call of lladd_object_applied, lladd_object_applied_lsn is not above the
 *  record's LSN. *lsn gets the record's LSN. */
LLADD_API int lladd_log_object(struct lladd_txn *, const struct lladd_object_class *,
                               uint64_t object, struct lladd_span redo, struct lladd_span undo,
                               struct lladd_token *, lladd_lsn *lsn);
/** Reserves log space, undo space and memory for a record of the class with so many bytes of redo
 *  and undo. The transaction's next lladd_log_object, of the same class and with at most as many
 *  bytes of each, then does not wait; it can fail only if the handle is poisoned meanwhile, or if
 *  its arguments are wrong. So a structure without latches can find the place of a change, log the
 *  change and make it in one epoch. For the reserved space the rules of lladd_log_credit apply. The
 *  errors are those of lladd_log_object. */
LLADD_API int lladd_log_object_credit(struct lladd_txn *, const struct lladd_object_class *,
                                      size_t redo_len, size_t undo_len);
/** States that the logged change is now in memory. */
LLADD_API void lladd_object_applied(struct lladd_txn *, struct lladd_token *);
/** Returns the maximum number of bytes, redo plus undo, that lladd_log_object accepts. The number
 *  depends on lladd_options.log_ring_bytes. */
LLADD_API size_t lladd_log_object_max(struct lladd_db *);
/** Logs tagged bytes without redo or undo, for readers of the log. The tag gets a number in the
 *  log's catalogue, like an operation's name. *lsn (nullable) gets the record's LSN. */
LLADD_API int lladd_log_note(struct lladd_txn *, const char *tag, struct lladd_span,
                             lladd_lsn *lsn);
/** Waits until the record at `lsn` is durable; writes and syncs the log if necessary. Unlike
 *  lladd_wait_durable it runs no participant's callbacks, so an extension may call it while it
 *  holds its own mutexes. LLADD_BAD_ARGUMENT beyond the end of the log. */
LLADD_API int lladd_log_force(struct lladd_db *, lladd_lsn lsn, struct lladd_error *);
/** Asks the log's worker thread to make the log durable up to its present end; does not wait.
 *  Returns false if the handle has no worker thread (LLADD_OPT_NO_THREADS). */
LLADD_API bool lladd_log_force_soon(struct lladd_db *);
/** Returns an LSN below which every object record has been applied (lladd_object_applied). */
LLADD_API lladd_lsn lladd_object_applied_lsn(struct lladd_db *);

#ifdef __cplusplus
}
#endif
#endif
