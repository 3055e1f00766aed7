/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_MANAGED_H
#define LLADD_DTABLE_MANAGED_H
/**
 * @file
 * @brief The managed dTable: a table that transactions write to, made of a journal and of runs
 * (Anvil, SOSP 2009, sections 3 and 5.3).
 *
 * What is written goes to the system journal (journal.h), once, and to a table in memory. A
 * *digest* makes a run of it and gives the journal's entries up; a *combine* makes one run of
 * several that are neighbours in age. Both are transactions of their own, which the abort of a
 * user's does not touch, in the caller (lladd_managed_maintain) or in threads
 * (lladd_managed_threads).
 *
 *     lladd_managed_register(&options, err);                   before lladd_open
 *     ...
 *     lladd_managed_create(txn, "orders", &o);                 once
 *     lladd_managed_open(db, "orders", &orders, err);
 *     lladd_managed_put(txn, orders, &key, &value);
 *     lladd_managed_del_range(txn, orders, &from, &to);
 *     lladd_managed_get(txn, orders, &key, buf, size, &len);
 *     lladd_managed_table(txn, orders, &table);                for cursors: dtable.h
 *
 * Isolation is that of snapshots: from its first call on any managed table a transaction sees, in
 * all of them, what was committed then, and what it has written itself. Who writes a key first has
 * it: a transaction that wants to write what another one has written since, or is writing, gets
 * LLADD_CONFLICT, and is best aborted and tried again. (A row that was written as it had been
 * before is no conflict any more once that was digested.) Who wants more than that locks what it
 * reads (lladd_managed_lock). Savepoints, top actions, prepare and
 * transactions in doubt work as everywhere. docs/dtables.md tells the whole.
 *
 * Calls on a transaction leave their error with it (lladd_txn_error); one that fails with a misuse
 * or resource error, LLADD_CONFLICT or LLADD_BUSY has changed nothing. Threads: a table may be used
 * by any number; a transaction, and what belongs to it, by one at a time.
 * @ingroup operations
 */
#include <lladd/dtable.h>
#include <lladd/lladd.h>
#include <lladd/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_MANAGED_NAME_MAX 200u /**< bytes of a table's name */

/** Before lladd_open: adds managed tables, and the journal. Registered once is enough. A database
 *  in which one was made cannot be opened without the journal (LLADD_NO_OPERATION). */
LLADD_API int lladd_managed_register(struct lladd_options *, struct lladd_error *);

/* ---- tables ---------------------------------------------------------------------------------- */

struct lladd_managed;

/** Which runs are combined, and when (docs/dtables.md). */
enum lladd_managed_schedule {
    LLADD_MANAGED_RULER = 0,  /**< the paper's: every `every` digests, at times older ones too */
    LLADD_MANAGED_TIERED = 1, /**< `every` runs of about the same size, when there are so many */
    LLADD_MANAGED_NEVER = 2   /**< only lladd_managed_combine */
};

/** Of a new table; kept with it. Zero means default, everywhere. */
struct lladd_managed_options {
    size_t struct_size;
    enum lladd_dtable_type type; /**< of its keys; must be given */
    const char *comparator;      /**< for LLADD_DTABLE_BYTES; NULL: the usual order */
    /** Configuration of the runs of digests. Default: a linear_dtable. The size of values, where
     *  one is needed, must be said in it: LLADD_BAD_CONFIG. */
    const char *config;
    const char *combine_config; /**< of those of combines. Default: the same */
    enum lladd_managed_schedule schedule;
    uint32_t every;        /**< default 4 */
    uint64_t memory_bytes; /**< a digest is due when so much is committed and not digested, what
                                was taken back included. Default 32 MiB */
    uint64_t rows;         /**< or so many rows. Default: no such limit */
    uint64_t interval_ns;  /**< or when so much time has passed since the last one, and there is
                                something to digest. Default: no such limit */
};
#define LLADD_MANAGED_OPTIONS_INIT_SIZE sizeof(struct lladd_managed_options)
#ifdef __cplusplus
#define LLADD_MANAGED_OPTIONS_INIT \
    lladd_managed_options \
    { \
        sizeof(struct lladd_managed_options) \
    }
#else
#define LLADD_MANAGED_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_managed_options) \
    }
#endif

/** Makes an empty table, in the transaction; it can be opened when that has committed. LLADD_EXISTS
 *  if there is one of the name, LLADD_BUSY while another transaction makes or drops it. */
LLADD_API int lladd_managed_create(struct lladd_txn *, const char *name,
                                   const struct lladd_managed_options *);
/** Drops a table with all its runs, and with the names of its columns if it is a cTable (ctable.h),
 *  in the transaction. LLADD_NOT_FOUND; LLADD_BUSY while it is open. */
LLADD_API int lladd_managed_drop(struct lladd_txn *, const char *name);
/** Opens a table, and reads back from the journal what has not been digested. Opened again, it is
 *  the same, to be closed as often. LLADD_BUSY while it is being made, dropped or opened, or if a
 *  transaction in doubt is just ending. */
LLADD_API int lladd_managed_open(struct lladd_db *, const char *name, struct lladd_managed **out,
                                 struct lladd_error *);
/** LLADD_BUSY while transactions, or cursors, use the table, or one in doubt has written to it; it
 *  stays open then. Waits until what is done in the background has been given up. What is open when
 *  the database is closed goes with it, if no threads are left (lladd_managed_threads). */
LLADD_API int lladd_managed_close(struct lladd_managed *, struct lladd_error *);
/** Calls fn for every table's name; not 0 stops. */
LLADD_API int lladd_managed_each(struct lladd_db *, int (*fn)(void *ctx, const char *name),
                                 void *ctx, struct lladd_error *);

/* ---- rows ------------------------------------------------------------------------------------ */

/** Gives a key a value, or a tombstone: that deletes it, whether it is there or not. LLADD_CONFLICT
 *  as above; LLADD_REJECTED if the table's configurations cannot store it, LLADD_TOO_LARGE if no
 *  record of the journal can be so long. May wait a little while digests or combines are behind. */
LLADD_API int lladd_managed_put(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, const struct lladd_dtable_value *);
/** Deletes all keys from <= key < to, whether they are there or not; NULL: that end is open. What
 *  is put later is there. However many rows there are, it takes one entry of the journal and some
 *  memory: about a hundred bytes and its two keys, and 12 bytes for each end of other ranges within
 *  it that have not been digested, also if it is refused; all of it counts as `memory_bytes`. No
 *  configuration has to store tombstones for it. It writes every key of the range: LLADD_CONFLICT
 *  if another transaction is writing one, or has written one since the snapshot. From a key to
 *  itself there is nothing to delete, which is 0; LLADD_BAD_ARGUMENT if `to` comes before `from`.
 *  May wait, as lladd_managed_put. */
LLADD_API int lladd_managed_del_range(struct lladd_txn *, struct lladd_managed *,
                                      const struct lladd_dtable_key *from,
                                      const struct lladd_dtable_key *to);
/** What the transaction sees of a key. The bytes live until the pin is used again or released, and
 *  not longer than the transaction; the pin is to be released before that ends. */
LLADD_API int lladd_managed_lookup(struct lladd_txn *, struct lladd_managed *,
                                   const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                                   struct lladd_dtable_value *out);
/** For who only wants the value: as lladd_dtable_get. */
LLADD_API int lladd_managed_get(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, void *buf, size_t size,
                                size_t *len);
/** The table as the transaction sees it: a dTable for lladd_dtable_lookup, cursors, and batches,
 *  used by the thread that uses the transaction. Whatever a cursor moves to is as the transaction
 *  sees it then, with what it has written since the cursor was opened. The table lives until the
 *  transaction ends, or its last cursor is closed, and is not closed by the caller. */
LLADD_API int lladd_managed_table(struct lladd_txn *, struct lladd_managed *,
                                  const struct lladd_dtable **out);

/** For who wants to be serialisable: locks a key, there or not, or the table (key NULL), in the
 *  lock manager (lock.h: lladd_lock_register, modes, `timeout_ns`, errors), and sees to it that the
 *  transaction's snapshot is no older than what is locked. S or U before a key is read, X before it
 *  is put, S on the table before a cursor walks through it, X on the table before a range of it is
 *  deleted (ranges have no locks of their own), and everybody does so: then every history is one of
 *  transactions one after the other. LLADD_CONFLICT if somebody has committed a change since the
 *  snapshot: the lock stays, and the transaction is best aborted and tried again. A snapshot is as
 *  new as can be if the first call on any managed table is this one. IS and IX say nothing about
 *  rows. Keys that a comparator takes for equal are one. */
LLADD_API int lladd_managed_lock(struct lladd_txn *, struct lladd_managed *,
                                 const struct lladd_dtable_key *, enum lladd_lock_mode,
                                 uint64_t timeout_ns);

/* ---- maintenance ----------------------------------------------------------------------------- */

/** One step of what is due: a run that nobody reads any more is freed, a digest, or a combine.
 *  *more (nullable): something else is due. What fails changes nothing, and is due again. */
LLADD_API int lladd_managed_maintain(struct lladd_managed *, bool *more, struct lladd_error *);
/** Digests now what is committed, due or not. LLADD_BUSY while that is being done. */
LLADD_API int lladd_managed_digest(struct lladd_managed *, struct lladd_error *);
/** Combines the newest `runs` runs, 0: all, now. LLADD_BUSY while others are being combined. */
LLADD_API int lladd_managed_combine(struct lladd_managed *, uint32_t runs, struct lladd_error *);
/** So many threads do from now on what is due, of all tables of the handle; 0, the default: none.
 *  To be set to 0 before the database is closed, by the thread that closes it. LLADD_NO_THREAD. */
LLADD_API int lladd_managed_threads(struct lladd_db *, unsigned n, struct lladd_error *);

struct lladd_managed_run {
    uint64_t generation; /**< 1, 2, ... in the order in which they were made */
    lladd_pageno root;
    uint64_t rows, tombstones, bytes, pages;
    uint64_t ranges; /**< that are deleted */
};
struct lladd_managed_stats {
    size_t struct_size;
    uint64_t memory_bytes; /**< of what is in memory, older states that are still read included */
    uint64_t pending_bytes; /**< taken by transactions that have ended, and not digested */
    uint64_t pending_rows;  /**< committed and not digested */
    uint64_t memtables, runs, run_rows, run_tombstones, run_bytes, run_pages;
    uint64_t doomed; /**< runs that are to be freed when nobody reads them any more */
    uint64_t digests, combines; /**< ever */
    uint64_t conflicts, waits, failures; /**< since it was opened; failures: of the background */
    int last_failure;                    /**< the code of the newest of them */
    uint64_t run_ranges; /**< that are deleted, in all runs */
};
/** Fills as much as out->struct_size says. `runs` (nullable) gets the first `n` runs, the newest
 *  first. */
LLADD_API int lladd_managed_stats(struct lladd_managed *, struct lladd_managed_stats *out,
                                  struct lladd_managed_run *runs, size_t n, struct lladd_error *);
/** Calls fn for each page of the catalogue and of all tables' runs, those to be freed included;
 *  not 0 stops. Nobody may be changing any. */
LLADD_API int lladd_managed_pages(struct lladd_db *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                  struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
