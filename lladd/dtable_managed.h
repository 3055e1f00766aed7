/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_MANAGED_H
#define LLADD_DTABLE_MANAGED_H
/**
 * @file
 * @brief The managed dTable: a table that transactions write to, made of a journal and sorted runs
 * (Anvil, SOSP 2009, sections 3 and 5.3). It is an LSM tree.
 *
 * A write goes to the system journal (journal.h), once, and to a memtable. A *digest* (flush) makes
 * a run of the memtable and discards the journal's entries; a *combine* (compaction) merges several
 * runs that are neighbours in age. Both run in transactions of their own, which the abort of a
 * user's transaction does not affect, in the calling thread (lladd_managed_maintain) or in
 * background threads (lladd_managed_threads).
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
 * a snapshot of all of them: it sees what was committed then, and what it has written itself. The
 * first writer of a key wins: if another transaction is writing the key, or has committed a change
 * of it since the snapshot, a write returns LLADD_CONFLICT; abort the transaction and try it again.
 * (A write that did not change the row no longer conflicts once it has been digested.) For
 * serialisability, lock what you read (lladd_managed_lock). Savepoints, top actions, prepare and
 * transactions in doubt work as for other structures. docs/dtables.md has the details.
 *
 * Calls on a transaction store their error in it (lladd_txn_error); one that fails with a misuse or
 * resource error, LLADD_CONFLICT or LLADD_BUSY has changed nothing. Threads: any number may use a
 * table; one at a time may use a transaction and what belongs to it.
 * @ingroup operations
 */
#include <lladd/dtable.h>
#include <lladd/lladd.h>
#include <lladd/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_MANAGED_NAME_MAX 200u /**< bytes of a table's name */

/** Registers managed tables, and the journal, before lladd_open. Several registrations do no harm.
 *  A database with a managed table cannot be opened without the journal (LLADD_NO_OPERATION). */
LLADD_API int lladd_managed_register(struct lladd_options *, struct lladd_error *);

/* ---- tables ---------------------------------------------------------------------------------- */

struct lladd_managed;

/** Which runs are combined, and when (docs/dtables.md). */
enum lladd_managed_schedule {
    LLADD_MANAGED_RULER = 0,  /**< the paper's: after `every` digests, sometimes older runs too */
    LLADD_MANAGED_TIERED = 1, /**< as soon as there are `every` runs of about the same size */
    LLADD_MANAGED_NEVER = 2   /**< only lladd_managed_combine */
};

/** Options of a new table; stored with it until they are changed (lladd_managed_alter). Zero means
 *  the default, for every member. */
struct lladd_managed_options {
    size_t struct_size;
    enum lladd_dtable_type type; /**< of its keys; must be given */
    const char *comparator;      /**< for LLADD_DTABLE_BYTES; NULL: the usual order */
    /** Configuration of the runs that digests make. Default: a linear_dtable. A layer that needs
     *  the size of values must be given it or get it from the layer above, and the configuration
     *  must store tombstones; otherwise LLADD_BAD_CONFIG, with line and column. */
    const char *config;
    const char *combine_config; /**< of the runs that combines make. Default: the same */
    enum lladd_managed_schedule schedule;
    uint32_t every;        /**< default 4 */
    uint64_t memory_bytes; /**< a digest is due when this much is committed and not digested,
                                undone writes included. Default 32 MiB */
    uint64_t rows;         /**< or this many rows. Default: no such limit */
    uint64_t interval_ns;  /**< or when this much time has passed since the last digest, if there is
                                something to digest. Default: no such limit */
};
#define LLADD_MANAGED_OPTIONS_INIT_SIZE sizeof(struct lladd_managed_options)
#define LLADD_MANAGED_OPTIONS_INIT LLADD_SIZED_INIT(lladd_managed_options)

/** Makes an empty table, in the transaction; it can be opened after the commit. LLADD_EXISTS if the
 *  name is taken, LLADD_BUSY while another transaction makes or drops a table of that name. */
LLADD_API int lladd_managed_create(struct lladd_txn *, const char *name,
                                   const struct lladd_managed_options *);
/** Drops a table with all its runs, in the transaction; for a cTable (ctable.h) also with the names
 *  of its columns. LLADD_NOT_FOUND; LLADD_BUSY while it is open. */
LLADD_API int lladd_managed_destroy(struct lladd_txn *, const char *name);
/** Opens a table, and reads back from the journal what has not been digested. A table opened twice
 *  is one handle, which must be closed twice. LLADD_BUSY while the table is being made, dropped or
 *  opened, or while a transaction in doubt is ending. */
LLADD_API int lladd_managed_open(struct lladd_db *, const char *name, struct lladd_managed **out,
                                 struct lladd_error *);
/** lladd_managed_create in a transaction of its own, with the database's default durability, then
 *  lladd_managed_open. If only the second fails, the table exists and can be opened. LLADD_EXISTS
 *  means that it existed before. */
LLADD_API int lladd_managed_create_open(struct lladd_db *, const char *name,
                                        const struct lladd_managed_options *,
                                        struct lladd_managed **out, struct lladd_error *);
/** Closes the table. LLADD_BUSY while transactions or cursors use it, or if one in doubt has
 *  written to it; it stays open then. Waits until background work has stopped. Closing the database
 *  closes tables that are still open. */
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
    LLADD_MANAGED_ALL = (1 << 7) - 1
};
/** Changes the options of an open table that `which` selects; zero means the default, as for a new
 *  table. The other options, type and comparator stay. Existing runs stay as they are: a new
 *  configuration applies to runs built from now on and to new writes. If it rejects a row that is
 *  already in memory, that memtable's run becomes a linear_dtable. The change is one transaction,
 *  durable when the call returns 0. Errors as for lladd_managed_create (LLADD_BAD_CONFIG,
 *  LLADD_BAD_ARGUMENT); nothing has changed then. LLADD_BUSY while the table is being closed. Any
 *  thread; waits for a running digest and combine of the table. */
LLADD_API int lladd_managed_alter(struct lladd_managed *, unsigned which,
                                  const struct lladd_managed_options *, struct lladd_error *);
/** The present options with defaults filled in; fills as much as out->struct_size says.
 *  Configurations are complete texts; NULL if none was given. *strings holds all texts; free it
 *  with lladd_mem_free. */
LLADD_API int lladd_managed_settings(struct lladd_managed *, struct lladd_managed_options *out,
                                     char **strings, struct lladd_error *);
/** Calls fn for every table's name; not 0 stops. */
LLADD_API int lladd_managed_each(struct lladd_db *, int (*fn)(void *ctx, const char *name),
                                 void *ctx, struct lladd_error *);

/* ---- rows ------------------------------------------------------------------------------------ */

/** Gives a key a value, or a tombstone, which deletes the key whether it exists or not.
 *  LLADD_CONFLICT as above; LLADD_REJECTED if the table's configurations cannot store the value,
 *  LLADD_TOO_LARGE if no journal record can be that long. May wait a short time while digests or
 *  combines cannot keep up. */
LLADD_API int lladd_managed_put(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, const struct lladd_dtable_value *);
/** Deletes all keys from <= key < to, existing or not; NULL: unbounded on that side. Later puts
 *  into the range stay. Whatever the number of rows, this takes one journal entry and some memory:
 *  about a hundred bytes, the two keys, and 12 bytes for each endpoint of other undigested ranges
 *  within it; the memory is taken even if the call is refused, and counts as `memory_bytes`. The
 *  configuration need not store tombstones. It counts as a write of every key in the range:
 *  LLADD_CONFLICT if another transaction is writing one, or has written one since the snapshot. An
 *  empty range (from == to) is 0; LLADD_BAD_ARGUMENT if `to` comes before `from`. May wait like
 *  lladd_managed_put. */
LLADD_API int lladd_managed_delete_range(struct lladd_txn *, struct lladd_managed *,
                                         const struct lladd_dtable_key *from,
                                         const struct lladd_dtable_key *to);
/** What the transaction sees of a key. The bytes live until the pin is used again or released, at
 *  most until the transaction ends; release the pin before that. */
LLADD_API int lladd_managed_lookup(struct lladd_txn *, struct lladd_managed *,
                                   const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                                   struct lladd_dtable_value *out);
/** The value only: as lladd_dtable_get. */
LLADD_API int lladd_managed_get(struct lladd_txn *, struct lladd_managed *,
                                const struct lladd_dtable_key *, void *buf, size_t size,
                                size_t *len);
/** The table as the transaction sees it: a dTable for lladd_dtable_lookup, cursors and batches, for
 *  the thread that uses the transaction. A cursor shows each row as the transaction sees it when
 *  the cursor reaches it, writes made since the cursor was opened included. The table lives until
 *  the transaction ends or its last cursor is closed, whichever is later; the caller does not close
 *  it. */
LLADD_API int lladd_managed_table(struct lladd_txn *, struct lladd_managed *,
                                  const struct lladd_dtable **out);

/** Locks a key, existing or not, or the table (key NULL) in the lock manager (lock.h:
 *  lladd_lock_register, modes, `timeout_ns`, errors), and checks that the transaction's snapshot is
 *  not older than the last change of what is locked. Histories are serialisable if all transactions
 *  take S or U before they read a key, X before they put it, S on the table before a cursor scans
 *  it, and X on the table before they delete a range (ranges have no locks of their own).
 *  LLADD_CONFLICT if another transaction has committed a change since the snapshot: the lock stays;
 *  abort the transaction and try it again. The snapshot is newest if this is the transaction's
 *  first call on any managed table. IS and IX do not cover rows. Keys that compare equal are one
 *  key. */
LLADD_API int lladd_managed_lock(struct lladd_txn *, struct lladd_managed *,
                                 const struct lladd_dtable_key *, enum lladd_lock_mode,
                                 uint64_t timeout_ns);

/* ---- maintenance ----------------------------------------------------------------------------- */

/** Does one step of work that is due: frees an obsolete run, digests, or combines. *more
 *  (nullable): more is due. A step that fails changes nothing, and is due again. */
LLADD_API int lladd_managed_maintain(struct lladd_managed *, bool *more, struct lladd_error *);
/** Digests now what is committed, due or not. LLADD_BUSY while a digest is running. */
LLADD_API int lladd_managed_digest(struct lladd_managed *, struct lladd_error *);
/** Combines the newest `runs` runs, 0: all, now. LLADD_BUSY while a combine is running. */
LLADD_API int lladd_managed_combine(struct lladd_managed *, uint32_t runs, struct lladd_error *);
/** Sets the number of background threads that do the work that is due, for all tables of the
 *  handle; 0, the default: none. Closing or killing the handle ends them.
 *  LLADD_NO_THREAD. */
LLADD_API int lladd_managed_threads(struct lladd_db *, unsigned n, struct lladd_error *);

struct lladd_managed_run {
    uint64_t generation; /**< 1, 2, ... in the order of creation */
    lladd_pageno root;
    uint64_t rows, tombstones, bytes, pages;
    uint64_t ranges; /**< number of deleted ranges */
};
struct lladd_managed_stats {
    size_t struct_size;
    uint64_t memory_bytes;  /**< of the data in memory, including old versions still being read */
    uint64_t pending_bytes; /**< used by transactions that have ended, and not digested */
    uint64_t pending_rows;  /**< committed and not digested */
    uint64_t memtables, runs, run_rows, run_tombstones, run_bytes, run_pages;
    uint64_t obsolete;          /**< obsolete runs, freed when no reader uses them any more */
    uint64_t digests, combines; /**< since the table was made */
    uint64_t conflicts, waits, failures; /**< since it was opened; failures: of background work */
    int last_failure;                    /**< the code of the latest failure */
    uint64_t run_ranges;                 /**< deleted ranges in all runs */
};
/** Fills as much as out->struct_size says. `runs` (nullable) gets the newest `n` runs, newest
 *  first. */
LLADD_API int lladd_managed_stats_get(struct lladd_managed *, struct lladd_managed_stats *out,
                                      struct lladd_managed_run *runs, size_t n,
                                      struct lladd_error *);
/** Calls fn for each page of the catalogue and of all tables' runs, obsolete ones included; not 0
 *  stops. No thread may be changing any of them. */
LLADD_API int lladd_managed_pages(struct lladd_db *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                  struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
