/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LOG_READ_H
#define LLADD_LOG_READ_H
/**
 * @file
 * @brief Reading the log, for extensions, backups and standbys; and pins. A pin keeps the log from
 * being truncated.
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;

/** Returns the end of the durable log: the LSN of the first record that a crash may still lose. Any
 *  thread. */
LLADD_API lladd_lsn lladd_durable_lsn(struct lladd_db *);

/** A record of the log. Its spans are valid until the cursor's next call. */
struct lladd_log_entry {
    lladd_lsn lsn, prev, txn, undo_next;
    uint64_t page; /**< LLADD_NO_PAGE if none */
    lladd_lsn page_prev;
    unsigned kind; /**< see lladd_log_kind_name */
    uint32_t depth;
    const char *op; /**< operation or class name; NULL if none */
    uint32_t op_version;
    struct lladd_span redo, undo;
};
/** A reading position in the log. One thread at a time uses a cursor. */
struct lladd_log_cursor;
/** Opens a cursor before the first record at or after `from` (0: the oldest). With `name`
 *  (nullable) the cursor returns only records of this operation, class or note tag. A cursor does
 *  not keep the log from being truncated; a pin does (lladd_pin_set). Close the cursor before the
 *  database. */
LLADD_API int lladd_log_open(struct lladd_db *, lladd_lsn from, const char *name,
                             struct lladd_log_cursor **out, struct lladd_error *);
/** Gets the next record; LLADD_END after the last durable record. LLADD_CORRUPT_LOG or
 *  LLADD_MISSING_FILE, with the LSN, at a damaged place that may contain a record at or after
 *  `from`. */
LLADD_API int lladd_log_next(struct lladd_log_cursor *, struct lladd_log_entry *,
                             struct lladd_error *);
/** Reads the record at exactly this LSN, whatever its name; lladd_log_next goes on after it.
 *  LLADD_OUT_OF_RANGE: no record has this LSN, or the record has been truncated. */
LLADD_API int lladd_log_read(struct lladd_log_cursor *, lladd_lsn, struct lladd_log_entry *,
                             struct lladd_error *);
/** Closes the cursor; NULL does nothing. */
LLADD_API void lladd_log_close(struct lladd_log_cursor *);
/** Returns the name of a record's kind (docs/disk-format.md), a static string. */
LLADD_API const char *lladd_log_kind_name(unsigned kind);

/** Sets a pin with a name of 1 to 63 bytes: the log is kept from `lsn` on until lladd_pin_clear.
 *  The pin is durable when the call returns 0, and survives a restart. A second call with the same
 *  name moves the pin. A move to a higher LSN writes nothing, so it succeeds at the log's limit;
 *  the next checkpoint makes it durable. A crash before that brings the lower LSN back.
 *  LLADD_OUT_OF_RANGE if the log does not contain `lsn`. May wait for a checkpoint, so the thread
 *  must hold no page (LLADD_BAD_STATE). */
LLADD_API int lladd_pin_set(struct lladd_db *, const char *name, lladd_lsn lsn,
                            struct lladd_error *);
/** Gets the LSN of a pin. LLADD_NOT_FOUND: no pin has the name. Any thread. */
LLADD_API int lladd_pin_get(struct lladd_db *, const char *name, lladd_lsn *out,
                            struct lladd_error *);
/** Removes a pin; the removal is durable when the call returns 0. The next checkpoint may truncate
 *  the log. LLADD_NOT_FOUND: no pin has the name. The thread must hold no page, as for
 *  lladd_pin_set. */
LLADD_API int lladd_pin_clear(struct lladd_db *, const char *name, struct lladd_error *);

/** A pin in memory only: it ends with lladd_log_release or with the process. */
struct lladd_log_hold;
/** Keeps the log from `lsn` on (0: from the oldest LSN there is), under a name of 1 to 63 bytes
 *  that lladd_log_pinner reports; several holds may have one name. Nothing is written, so a copy of
 *  the database's files does not inherit the hold. LLADD_OUT_OF_RANGE if the log does not contain
 *  `lsn`. May wait for a checkpoint, so the thread must hold no page (LLADD_BAD_STATE). Release the
 *  hold before the database is closed. */
LLADD_API int lladd_log_keep(struct lladd_db *, const char *name, lladd_lsn lsn,
                             struct lladd_log_hold **out, struct lladd_error *);
/** Moves the hold to `lsn` if that is higher; returns the LSN from which the hold keeps the log.
 *  Any thread. */
LLADD_API lladd_lsn lladd_log_hold_raise(struct lladd_log_hold *, lladd_lsn lsn);
/** Ends the hold and frees it; NULL does nothing. Any thread. */
LLADD_API void lladd_log_release(struct lladd_log_hold *);
/** Gets the oldest LSN that a recovery from the control block as it is now would need, for redo,
 *  for an open or prepared transaction, for a class, or for a pin. Holds are not considered. The
 *  log may be truncated up to this LSN at any time, unless a hold keeps it. Any thread. */
LLADD_API int lladd_log_needed(struct lladd_db *, lladd_lsn *out, struct lladd_error *);

/** A reason why the log cannot be truncated further. */
struct lladd_pinner {
    /** "page", "transaction", "prepared", "class", "pin", "hold", "checkpoint"; or "undo": the log
     *  space reserved for rolling back active transactions exceeds the log that is needed */
    const char *kind;
    lladd_lsn lsn;      /**< the log is needed from here on */
    uint64_t age_bytes; /**< bytes of log from `lsn` to the end */
    lladd_lsn txn;      /**< for "transaction" and "prepared": the transaction; for "undo": the
                        transaction with the largest reservation */
    uint64_t page;      /**< LLADD_NO_PAGE */
    char name[64]; /**< for "class": the class's name and the text of lladd_object_class.pins;
                        for "pin" and "hold": the name; for "prepared":
                        lladd_txn_options.owner (lladd_inspect_pinners: the global id);
                        for "undo": the bytes reserved and the number of transactions */
};
/** Returns the pinner with the smallest LSN, or the pinner of kind "undo". Pinners of the kinds
 *  "page" and "checkpoint" are not considered if even a new checkpoint would free no log. Any
 *  thread. `kind` is a static string. */
LLADD_API int lladd_log_pinner(struct lladd_db *, struct lladd_pinner *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
