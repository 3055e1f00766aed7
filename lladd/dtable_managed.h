/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_MANAGED_H
#define LLADD_DTABLE_MANAGED_H
/**
 * @file
 * @brief The managed dTable: a table that transactions write to, made of a journal and sorted runs
 * (Anvil, SOSP 2009, sections 3 and 5.3). It is an LSM tree.
 *
 * A write goes to the system journal (journal.h) and to a memtable. A *digest* (flush) writes the
 * memtable to a run and discards its journal entries; a *combine* (compaction) merges several runs
 * that follow each other in age. Digests and combines run in transactions of their own, so the
 * abort of a user's transaction does not undo them. They run in the calling thread
 * (lladd_managed_maintain) or in background threads (lladd_managed_threads).
 *
 *     lladd_managed_register(&options, err);                   before lladd_open
 *     ...
 *     lladd_managed_create(txn, "orders", &o);                 once
 *     lladd_managed_open(db, "orders", &orders, err);
 *     lladd_managed_put(txn, orders, &key, &value);
 *     lladd_managed_delete_range(txn, orders, &from, &to);
 *     lladd_managed_get(txn, orders, &key, buf, size, &len);
 *     lladd_managed_table(txn, orders, &table);                for cursors: dtable.h
 *
 * Transactions have snapshot isolation. With its first call on any managed table a transaction gets
 * a snapshot of all managed tables: it sees the writes that were committed at this time, and its
 * own writes. The first writer of a key wins: if another transaction is writing the key, or has
 * committed a change of it since the snapshot, a write returns LLADD_CONFLICT; abort the
 * transaction and try it again. (A committed write that did not change the row causes no conflict
 * after it is digested.) For serialisable transactions, lock the keys that you read
 * (lladd_managed_lock). Savepoints, top actions, prepare and transactions in doubt work as for
 * other structures. docs/dtables.md has the details.
 *
 * A call on a transaction stores its error in the transaction (lladd_txn_error). A call that fails
 * with a misuse or resource error, LLADD_CONFLICT or LLADD_BUSY has changed nothing. Threads: any
 * number may use a table; one at a time may use a transaction with its tables and cursors.
 * @ingroup operations
 */
#include <lladd/dtable.h>
#include <lladd/lladd.h>
#include <lladd/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_MANAGED_NAME_MAX 200u /**< bytes of a table's name */

/** Registers managed tables, and the journal, before lladd_open. They may be registered several
 *  times. A database with a managed table cannot be opened without the registration of the journal
 *  (LLADD_NO_OPERATION). */
LLADD_API int lladd_managed_register(struct lladd_options *, struct lladd_error *);

/* ---- tables ---------------------------------------------------------------------------------- */

struct lladd_managed;

/** Which runs are combined, and when (docs/dtables.md). */
enum lladd_managed_schedule {
    LLADD_MANAGED_RULER = 0,  /**< the schedule of the Anvil paper: after every `every` digests,
                                   combines the new runs, and sometimes older runs with them */
    LLADD_MANAGED_TIERED = 1, /**< combines `every` runs of about the same size, as soon as there
                                   are so many */
    LLADD_MANAGED_NEVER = 2,  /**< runs are combined only by lladd_managed_combine */
    LLADD_MANAGED_LEVELS = 3  /**< three components, the schedule of the Rose paper: a digest also
                                   merges the newest run (C1), which is combined with the oldest
                                   run (C2) when it has R times the bytes of a digest. R is the
                                   square root of |C2| / |C0|. `every` is not used. With
                                   background threads, puts keep pace with digests, and digests
                                   with combines; use two threads or more. */
};

/** Flags of a new table, which cannot be changed later. LLADD_MANAGED_UNLOGGED: its rows are in no
 *  journal. When the table is closed, and after a crash, it has only the rows in its runs; a source
 *  must be able to send the others again. See lladd_managed_position_set. */
enum { LLADD_MANAGED_UNLOGGED = 1 };

/** Options of a new table; stored with it until they are changed (lladd_managed_alter). Zero means
 *  the default, for every member. */
struct lladd_managed_options {
    size_t struct_size;
    enum lladd_dtable_type type; /**< type of the keys; must be given */
    const char *comparator;      /**< for LLADD_DTABLE_BYTES; NULL: the usual order */
    /** Configuration of the runs that digests make. Default: a linear_dtable. The size of values
     *  must be given for a layer that needs it, or must follow from the layer above; and the
     *  configuration must store tombstones. Otherwise LLADD_BAD_CONFIG, with line and column. */
    const char *config;
    const char *combine_config; /**< configuration of the runs that combines make. Default:
                                     `config` */
    enum lladd_managed_schedule schedule;
    uint32_t every;        /**< number of digests or runs for `schedule`. Default 4 */
    uint64_t memory_bytes; /**< a digest is due when the undigested writes of ended transactions
                                take this much memory; undone writes count. Default 32 MiB */
    uint64_t rows;         /**< a digest is due when this many committed rows are not digested.
                                Default: no such limit */
    uint64_t interval_ns;  /**< a digest is due when this much time has passed since the last
                                digest, if there are rows to digest. Default: no such limit */
    uint32_t flags;        /**< LLADD_MANAGED_UNLOGGED */
    uint32_t block_bytes;  /**< of the runs that are built from now on: as in
                                struct lladd_dtable_run_options */
};
#define LLADD_MANAGED_OPTIONS_INIT_SIZE sizeof(struct lladd_managed_options)
#define LLADD_MANAGED_OPTIONS_INIT LLADD_SIZED_INIT(lladd_managed_options)

/** Makes an empty table, in the transaction; the table can be opened after the commit. LLADD_EXISTS
 *  if the name is taken, LLADD_BUSY while another transaction makes or drops a table of that name,
 *  LLADD_BAD_CONFIG or LLADD_BAD_ARGUMENT for options that no table can have. */
LLADD_API int lladd_managed_create(struct lladd_txn *, const char *name,
                                   const struct lladd_managed_options *);
/** Drops a table with all its runs, in the transaction; for a cTable (ctable.h) drops the column
 *  names too. LLADD_NOT_FOUND; LLADD_BUSY while the table is open. */
LLADD_API int lladd_managed_destroy(struct lladd_txn *, const char *name);
/** Opens a table, and reads its undigested rows from the journal. For an open table the call
 *  returns the same handle; each open needs a close. LLADD_BUSY while the table is being made,
 *  dropped or opened, or while a transaction in doubt is ending. */
LLADD_API int lladd_managed_open(struct lladd_db *, const char *name, struct lladd_managed **out,
                                 struct lladd_error *);
/** lladd_managed_create in a transaction of its own, with the database's default durability, then
 *  lladd_managed_open. If lladd_managed_open returns an error, the table exists and can be opened
 *  later. LLADD_EXISTS: the table existed before. */
LLADD_API int lladd_managed_create_open(struct lladd_db *, const char *name,
                                        const struct lladd_managed_options *,
                                        struct lladd_managed **out, struct lladd_error *);
/** Closes the table. LLADD_BUSY, and the table stays open, while transactions, cursors or open
 *  snapshots (lladd_managed_snapshot_table) use the table, or if a transaction in doubt has written
 *  to it. Waits until background work on the table has stopped. Closing the database closes tables
 *  that are still open. */
LLADD_API int lladd_managed_close(struct lladd_managed *, struct lladd_error *);
/** Selects options of a table. */
enum {
    LLADD_MANAGED_CONFIG = 1 << 0,
    LLADD_MANAGED_COMBINE_CONFIG = 1 << 1,
    LLADD_MANAGED_SCHEDULE = 1 << 2,
    LLADD_MANAGED_EVERY = 1 << 3,
    LLADD_MANAGED_MEMORY_BYTES = 1 << 4,
    LLADD_MANAGED_ROWS = 1 << 5,
    LLADD_MANAGED_INTERVAL = 1 << 6,
    LLADD_MANAGED_BLOCK_BYTES = 1 << 7,
    LLADD_MANAGED_ALL = (1 << 8) - 1
};
/** Changes the options of an open table that `which` selects; zero means the default, as for a new
 *  table. The other options do not change; type, comparator and flags cannot change. Existing runs
 *  stay as they are: a new configuration applies to runs built from now on and to new writes. If
 *  the new configuration rejects a row that is already in a memtable, the digest of that memtable
 *  makes a linear_dtable. The change is one transaction, durable when the call returns 0. Errors as
 *  for lladd_managed_create (LLADD_BAD_CONFIG, LLADD_BAD_ARGUMENT); after an error nothing has
 *  changed. LLADD_BUSY while the table is being closed. Any thread; waits for a running digest and
 *  combine of the table. */
LLADD_API int lladd_managed_alter(struct lladd_managed *, unsigned which,
                                  const struct lladd_managed_options *, struct lladd_error *);
/** Gets the present options with defaults filled in; fills as much as out->struct_size says.
 *  Configurations are complete texts; NULL if no configuration was given. *strings holds all texts;
 *  free it with lladd_mem_free. */
LLADD_API int lladd_managed_settings(struct lladd_managed *, struct lladd_managed_options *out,
                                     char **strings, struct lladd_error *);
/** Calls `fn` for every table's name. If `fn` does not return 0, stops and returns that value. */
LLADD_API int lladd_managed_each(struct lladd_db *, int (*fn)(void *ctx, const char *name),
                                 void *ctx, struct lladd_error *);

/* ---- rows ------------------------------------------------------------------------------------ */

/** Writes a value for a key, or a tombstone, which deletes the key whether it exists or not.
 *  LLADD_CONFLICT if another transaction is writing the key, or has committed a change of the key
 *  since the snapshot; LLADD_REJECTED if the table's configurations cannot store the value,
 *  LLADD_TOO_LARGE if the value has more than LLADD_DTABLE_VALUE_MAX bytes, or if the table is
 *  logged and no journal record can be that long; LLADD_BAD_STATE if the table is unlogged and the
 *  transaction has no position. May wait a short time if digests or combines are late. With
 *  LLADD_MANAGED_LEVELS and background threads: if the memory is full and the last digest failed,
 *  returns the code of that failure and changes nothing. */
LLADD_API int lladd_managed_put(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, const struct lladd_dtable_value *);
/** Deletes all keys with from <= key < to, whether they exist or not; NULL: unbounded on that side.
 *  Keys that are put later are not deleted. The call counts as a write of every key in the range:
 *  LLADD_CONFLICT if another transaction is writing one of the keys, or has committed a write of
 *  one of the keys since the snapshot. An empty range (from == to) does nothing; LLADD_BAD_ARGUMENT
 *  if `to` comes before `from`. May wait or fail like lladd_managed_put. The configuration need not
 *  store tombstones. The cost does not depend on the number of rows. It is one journal entry, and
 *  memory:
 *  for the two keys, about a hundred bytes, and 12 bytes for each endpoint of another undigested
 *  range within this range. This memory is taken even if the call returns an error, and counts
 *  towards `memory_bytes`. */
LLADD_API int lladd_managed_delete_range(struct lladd_txn *, struct lladd_managed *,
                                         const struct lladd_dtable_key *from,
                                         const struct lladd_dtable_key *to);
/** Looks a key up in the table as the transaction sees it. The bytes live until the pin is used
 *  again or released; release the pin before the transaction ends. */
LLADD_API int lladd_managed_lookup(struct lladd_txn *, struct lladd_managed *,
                                   const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                                   struct lladd_dtable_value *out);
/** Copies the value of a key, as lladd_dtable_get does. */
LLADD_API int lladd_managed_get(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, void *buf, size_t size,
                                size_t *len);
/** Gets the table as the transaction sees it: a dTable for lladd_dtable_lookup, cursors and
 *  batches, for the thread that uses the transaction. A cursor shows each row as the transaction
 *  sees the row when the cursor reaches it; so it also shows the transaction's writes since the
 *  cursor was opened. The table lives until the transaction has ended and the table's last cursor
 *  is closed; the caller does not close the table. */
LLADD_API int lladd_managed_table(struct lladd_txn *, struct lladd_managed *,
                                  const struct lladd_dtable **out);

/** An open snapshot: all managed tables of a database as they were when the snapshot was opened,
 *  for a reader that stays for hours. It keeps no transaction open. The next digest of a table
 *  writes the rows that the snapshot sees in memory to a run of their own. From then on the
 *  snapshot keeps no memory of the table. When runs that it reads are replaced, it keeps the
 *  versions of rows that it sees and the new run has not. In a table with a comparator, and after
 *  ranges were deleted, it keeps the replaced runs instead: up to the whole table once more. A
 *  crash closes the snapshot, and what it kept is freed after the next open. Writers, digests and
 *  combines never wait for it. */
struct lladd_managed_snapshot;
/** Opens a snapshot. Any thread. LLADD_NO_MEMORY. */
LLADD_API int lladd_managed_snapshot_open(struct lladd_db *, struct lladd_managed_snapshot **out,
                                          struct lladd_error *);
/** Gets a table as it was when the snapshot was opened: a dTable for lladd_dtable_lookup, cursors
 *  and batches, that any number of threads may use. A table that was created later has no rows. The
 *  table cannot be closed, and so not dropped, while the snapshot is open (LLADD_BUSY). A table
 *  that this call was not made for can be closed and dropped. LLADD_CONFLICT if the table was
 *  opened after the snapshot, and its rows of that time are gone: it was digested since, or it is
 *  unlogged. LLADD_BUSY while the table is being closed. */
LLADD_API int lladd_managed_snapshot_table(struct lladd_managed_snapshot *, struct lladd_managed *,
                                           const struct lladd_dtable **out, struct lladd_error *);
/** Closes the snapshot; NULL does nothing. No pin may hold a value of its tables. The tables live
 *  until the snapshot's last cursor is closed. A cursor that does not move keeps the memory of the
 *  row that it is at. Closing the database closes snapshots that are still open, but not their
 *  cursors: close these before. */
LLADD_API void lladd_managed_snapshot_close(struct lladd_managed_snapshot *);

/** A row to be put. */
struct lladd_managed_row {
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
};
/** Calls lladd_managed_put for n rows in turn. Rows of an unlogged table take less time together,
 *  and the call may wait once for several rows. Stops at the first row that cannot be put, and
 *  returns its error. *done (nullable) gets the number of rows put before that row; these rows stay
 *  put. */
LLADD_API int lladd_managed_put_many(struct lladd_txn *, struct lladd_managed *,
                                     const struct lladd_managed_row *, size_t n, size_t *done);

/* ---- unlogged tables ------------------------------------------------------------------------- */

/** A position in the source of an unlogged table's rows. The numbers are the source's. */
struct lladd_managed_position {
    uint64_t commit; /**< transactions of the source up to this one are in the table */
    uint64_t from;   /**< the others begin here, or later */
};
/** Says up to where the source has committed the rows that the transaction puts into an unlogged
 *  table. A transaction calls it before its first row, and again when it has put rows of later
 *  transactions of the source; the last position counts. `commit` must be above the position
 *  before it, and `from` not below that position's `from`: LLADD_OUT_OF_RANGE otherwise. A commit
 *  without a row moves the position too. A rollback to a savepoint takes back the positions that
 *  were set after it. Do not commit a transaction if one of its puts has failed: the position
 *  would claim a row that the table does not have. The log gets a note of some 70 bytes for each
 *  call, so the errors of writing to the log are possible. LLADD_BAD_STATE for a logged table.
 *  LLADD_CONFLICT if another transaction writes to the table, or has committed since this
 *  transaction's snapshot: an unlogged table has one writer at a time. */
LLADD_API int lladd_managed_position_set(struct lladd_txn *, struct lladd_managed *,
                                         const struct lladd_managed_position *);
/** Gets the position that the runs of an unlogged table have reached; {0, 0}: none. If `durable` is
 *  set, gets a position that no crash takes back: the source may forget everything before its
 *  `from`. This position advances when the log is forced after a digest, for example by a durable
 *  commit or lladd_checkpoint. After an open the source must send everything again from `from` on;
 *  the transactions up to `commit` are in the table. LLADD_BAD_STATE for a logged table. Any
 *  thread. */
LLADD_API int lladd_managed_position_get(struct lladd_managed *, bool durable,
                                         struct lladd_managed_position *out, struct lladd_error *);

/** Locks a key, existing or not, or the table (key NULL) in the lock manager, and checks that the
 *  transaction's snapshot is not older than the last change of the key or table. Modes,
 *  `timeout_ns` and errors are those of lock.h; lladd_lock_register must have been called.
 *  Histories are serialisable if all transactions take S or U before they read a key, X before they
 *  put it, S on the table before a cursor scans it, and X on the table before they delete a range
 *  (ranges have no locks of their own). LLADD_CONFLICT if another transaction has committed a
 *  change since the snapshot; the transaction keeps the lock; abort the transaction and try it
 *  again. There is no conflict if this is the transaction's first call on any managed table. IS and
 *  IX on the table do not cover its rows. Keys that compare equal have one lock. */
LLADD_API int lladd_managed_lock(struct lladd_txn *, struct lladd_managed *,
                                 const struct lladd_dtable_key *, enum lladd_lock_mode,
                                 uint64_t timeout_ns);

/* ---- maintenance ----------------------------------------------------------------------------- */

/** Does one step of the work that is due: frees an obsolete run, digests, or combines. *more
 *  (nullable) gets true if more work is due. A step that returns an error has changed nothing, and
 *  remains due. At the log's byte limit a step that frees a run or combines may be refused
 *  (LLADD_LOG_FULL), but no digest is refused. After a step that could not free a run, or combine,
 *  the next step digests if a digest is due. */
LLADD_API int lladd_managed_maintain(struct lladd_managed *, bool *more, struct lladd_error *);
/** Digests all committed rows now, whether or not a digest is due. LLADD_BUSY while a digest is
 *  running. */
LLADD_API int lladd_managed_digest(struct lladd_managed *, struct lladd_error *);
/** Combines the newest `runs` runs now; 0: all runs. LLADD_BUSY while a combine is running, and
 *  while a digest merges the newest run (LLADD_MANAGED_LEVELS). */
LLADD_API int lladd_managed_combine(struct lladd_managed *, uint32_t runs, struct lladd_error *);
/** Sets the number of background threads that do the maintenance of all tables of the handle; 0,
 *  the default: no threads. Closing or killing the handle ends them. LLADD_NO_THREAD. */
LLADD_API int lladd_managed_threads(struct lladd_db *, unsigned n, struct lladd_error *);

struct lladd_managed_run {
    uint64_t generation; /**< 1, 2, ... in the order of creation */
    lladd_pageno root;
    uint64_t rows, tombstones, bytes, pages;
    uint64_t ranges; /**< number of deleted ranges */
};
struct lladd_managed_stats {
    size_t struct_size;
    uint64_t memory_bytes;  /**< bytes of rows in memory, including memtables of old versions that
                                 readers still use */
    uint64_t pending_bytes; /**< bytes of undigested rows of ended transactions */
    uint64_t pending_rows;  /**< number of committed, undigested rows */
    uint64_t memtables, runs, run_rows, run_tombstones, run_bytes, run_pages;
    uint64_t obsolete;          /**< obsolete runs, which are freed when no reader uses them */
    uint64_t digests, combines; /**< since the table was made */
    uint64_t conflicts, waits, failures; /**< since the table was opened; `failures` counts those
                                              of background work */
    int last_failure;                    /**< the code of the latest failure */
    uint64_t run_ranges;                 /**< deleted ranges in all runs */
    uint64_t frozen_bytes;               /**< of pending_bytes: those that a digest in progress
                                              takes */
    uint64_t level_bytes;                /**< with LLADD_MANAGED_LEVELS: the bytes at which C1 is
                                              combined with C2; otherwise 0 */
    uint64_t snapshots;          /**< open snapshots that can read the table */
    uint64_t oldest_snapshot_ns; /**< time since the oldest of them was opened */
    uint64_t held_runs, held_pages; /**< obsolete runs that open snapshots keep, and their pages */
    uint64_t held_versions; /**< older versions of rows that merges have stored for open snapshots,
                                 in runs that `held_runs` counts */
};
/** Fills as much as out->struct_size says. `runs` (nullable) gets at most `n` runs, newest
 *  first. */
LLADD_API int lladd_managed_stats_get(struct lladd_managed *, struct lladd_managed_stats *out,
                                      struct lladd_managed_run *runs, size_t n,
                                      struct lladd_error *);
/** Calls `fn` for each page of the catalogue of tables and of all runs, including obsolete runs. If
 *  `fn` does not return 0, stops and returns that value. No thread may change the catalogue or a
 *  table meanwhile. */
LLADD_API int lladd_managed_pages(struct lladd_db *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                  struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
