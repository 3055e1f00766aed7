/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_REPLICA_H
#define LLADD_REPLICA_H
/**
 * @file
 * @brief Replicas: unlogged managed dTables that follow the transactions of a source (Rose paper,
 * section 3).
 *
 * A source sends the changes of its *master transactions* as events. A replica keeps the events of
 * a master transaction until its COMMIT. Then it puts them into its tables, in a *local
 * transaction* of one or more whole master transactions, in the order of their commits. So a reader
 * of the replica never sees a part of a master transaction. The rows are in no log of the
 * replica: after a crash the source sends the events again, from lladd_replica_from on, and the
 * replica drops what its tables already have.
 *
 *     lladd_replica_register(&options, err);                before lladd_open
 *     ...
 *     lladd_replica_open(db, "shop", &o, &r, err);
 *     lladd_replica_from(r, &position);                     where the source has to begin
 *     lladd_replica_apply(r, events, n, &done, err);        again and again
 *     lladd_replica_durable(r, &position, err);             what the source may forget
 *     lladd_replica_wait(r, position, 1000000000, err);     then read in a transaction,
 *     lladd_replica_snapshot(r, position, 1000000000, &snapshot, err);   or in a snapshot
 *     lladd_replica_close(r, err);
 *
 * A position is a number of the source, for example an LSN. Every event has one, and positions
 * ascend. docs/replication.md has the details, the format of events as bytes, and what happens when
 * the source, the replica or the connection fails.
 * @ingroup operations
 */
#include <lladd/dtable_managed.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_sink;

#define LLADD_REPLICA_NAME_MAX 40u /**< bytes of a replica's name */

/** Registers replicas, and managed tables, before lladd_open. They may be registered several
 *  times. */
LLADD_API int lladd_replica_register(struct lladd_options *, struct lladd_error *);

/* ---- events ---------------------------------------------------------------------------------- */

/** What an event is. */
enum lladd_replica_kind {
    LLADD_REPLICA_BEGIN = 1,        /**< a master transaction begins */
    LLADD_REPLICA_COMMIT = 2,       /**< it has committed: its changes take effect */
    LLADD_REPLICA_ABORT = 3,        /**< it has aborted: its changes are dropped */
    LLADD_REPLICA_PUT = 4,          /**< `key` gets the value `after` */
    LLADD_REPLICA_DELETE = 5,       /**< `key` is deleted */
    LLADD_REPLICA_DELETE_RANGE = 6, /**< all keys with key <= k < to are deleted; a key of type 0:
                                         unbounded on that side */
    LLADD_REPLICA_MARK = 7          /**< the source has sent all events up to this position. If
                                         `txn` is not 0, it has sent all of its events from the
                                         position `txn` on: so a gap is noticed */
};

/** An event. The members that its kind does not mention are zero. */
struct lladd_replica_event {
    enum lladd_replica_kind kind;
    uint64_t position; /**< from 1, below UINT64_MAX; ascends from event to event, and only changes
                            (PUT, DELETE, DELETE_RANGE) may have that of the event before */
    uint64_t txn;      /**< the master transaction: any number that no other open one has */
    const char *table; /**< of PUT, DELETE and DELETE_RANGE: name of the managed table */
    struct lladd_dtable_key key, to;
    /** Of PUT and DELETE: the row before the change. LLADD_DTABLE_ABSENT: the source has not sent
     *  it. LLADD_DTABLE_TOMBSTONE: there was no row. Compared only with LLADD_REPLICA_CHECK. */
    struct lladd_dtable_value before;
    struct lladd_dtable_value after; /**< of PUT: in the state LLADD_DTABLE_FOUND */
};

/** Writes an event as bytes, with checksums. LLADD_BAD_ARGUMENT for an event that breaks the rules
 *  above or has a name, key or value that no table can have, and then nothing is written; or the
 *  sink's error. Any thread. */
LLADD_API int lladd_replica_encode(const struct lladd_replica_event *, struct lladd_sink *);
/** Reads the event at the beginning of `bytes`. *used gets the number of its bytes. The strings and
 *  spans of *out point into `bytes`. LLADD_END: the event is cut off; *used is then the number of
 *  bytes that must be there before the next call can do more. LLADD_BAD_RECORD: a checksum is
 *  wrong, or the bytes are no event. LLADD_NEWER_FORMAT: the event is from a newer version of the
 *  library. Any thread. */
LLADD_API int lladd_replica_decode(struct lladd_span bytes, struct lladd_replica_event *out,
                                   size_t *used, struct lladd_error *);

/* ---- replicas -------------------------------------------------------------------------------- */

struct lladd_replica;

/** Flags of a replica. LLADD_REPLICA_CHECK: before a row is changed, it is compared with the
 *  event's `before`; see lladd_replica_apply. */
enum { LLADD_REPLICA_CHECK = 1 };

/** Options of lladd_replica_open. Zero means the default, for every member. */
struct lladd_replica_options {
    size_t struct_size;
    /** Names of the tables, which must exist and be unlogged; ends with NULL. Must be given when
     *  the replica is opened for the first time, and is stored with it. Later: NULL, or the same
     *  tables in any order. */
    const char *const *tables;
    const char *source;    /**< identifies the source, at most 255 bytes; stored at the first open.
                                Later: NULL, or the same text */
    uint64_t buffer_bytes; /**< an open master transaction with more bytes of events than this is
                                moved to a blob in the database. Default 16 MiB */
    /** Master transactions in a local transaction, at most. Default 1000. A local transaction also
     *  ends with the events of one call, and when its events have `buffer_bytes`. */
    uint32_t batch;
    uint64_t batch_ns;     /**< it also ends when its first member was committed this long ago.
                                Default: no such limit */
    uint64_t lag_bytes;    /**< a table is digested if it holds the restart position back by more
                                than this, in the unit of positions. Default 64 Mi */
    uint32_t flags;        /**< LLADD_REPLICA_CHECK */
};
#define LLADD_REPLICA_OPTIONS_INIT_SIZE sizeof(struct lladd_replica_options)
#define LLADD_REPLICA_OPTIONS_INIT LLADD_SIZED_INIT(lladd_replica_options)

/** Opens a replica, and its tables; the first time also makes it, in a durable transaction. Digests
 *  rows that the tables have only in memory. Frees blobs of master transactions that were open at
 *  the last crash. From now on nothing else may write to the tables. LLADD_BUSY if the replica is
 *  open, or a table is busy. LLADD_NOT_FOUND: a table does not exist, or the replica is new and no
 *  tables are given. LLADD_BAD_STATE: a table is logged. LLADD_OTHER_DATABASE: the stored source is
 *  another one. LLADD_BAD_ARGUMENT: other tables than the stored ones, a table that is named twice,
 *  a name that is empty, too long, or contains ':', or more than a mebibyte of names.
 *  LLADD_NEWER_FORMAT, LLADD_CORRUPT_RUN: the stored state. */
LLADD_API int lladd_replica_open(struct lladd_db *, const char *name,
                                 const struct lladd_replica_options *, struct lladd_replica **out,
                                 struct lladd_error *);
/** Gets the position of the next event that the replica needs. After an open the source must send
 *  all of its events from there on (the *restart position*); it may begin earlier, for older events
 *  are skipped. Any thread. */
LLADD_API int lladd_replica_from(struct lladd_replica *, uint64_t *position);
/** Takes n events, and commits what they complete. *done (nullable) gets the number of events that
 *  were taken; the others have changed nothing. The replica copies what it needs of an event. The
 *  rows of committed master transactions are visible when the call returns 0, and are in no way
 *  durable. With n 0, tries again what has failed.
 *
 *  - LLADD_BAD_RECORD: event *done breaks the stream; the message has its position. A position that
 *    does not ascend; a BEGIN of an open transaction; an event of a transaction that is not open,
 *    such as a second COMMIT; an unknown table; a key of the wrong type.
 *  - LLADD_OUT_OF_RANGE: event *done is a mark which says that the source lacks events which the
 *    replica needs. The tables must be copied anew.
 *  - LLADD_DIVERGED (only with LLADD_REPLICA_CHECK): a row differs from the event's `before`; the
 *    message has the position and the key. The local transaction is rolled back.
 *  - LLADD_REJECTED: a table cannot store a value (lladd_managed_alter may help).
 *  - Other errors are those of lladd_managed_put, of lladd_managed_digest and of commits.
 *
 *  After an error other than LLADD_BAD_RECORD and LLADD_OUT_OF_RANGE, the next call first tries
 *  again to commit the events that were taken. LLADD_BUSY if another thread is in this call. May
 *  wait as lladd_managed_put does; nothing digests the tables in time unless lladd_managed_threads
 *  or lladd_managed_maintain does. */
LLADD_API int lladd_replica_apply(struct lladd_replica *, const struct lladd_replica_event *,
                                  size_t n, size_t *done, struct lladd_error *);
/** Gets a position such that the source may forget every event before it: no crash makes the
 *  replica ask for one of them. It ascends after digests, when the log is forced. Any thread. */
LLADD_API int lladd_replica_durable(struct lladd_replica *, uint64_t *position,
                                    struct lladd_error *);
/** Waits until all master transactions that were committed up to the position `at_least` are
 *  visible. The snapshot of a transaction that begins its reading afterwards has them all, and each
 *  other master transaction as a whole or not at all. The second promise needs the call also if
 *  `at_least` is 0: after a restart one table may be ahead of another, until the source has sent
 *  again what the other lacks. LLADD_TIMEOUT after `timeout_ns`; UINT64_MAX: no limit. Any
 *  thread. */
LLADD_API int lladd_replica_wait(struct lladd_replica *, uint64_t at_least, uint64_t timeout_ns,
                                 struct lladd_error *);
/** Waits like lladd_replica_wait, then opens a snapshot (lladd_managed_snapshot_open), in which the
 *  same promises hold. It shows all managed tables of the database, for as long as it is open, and
 *  survives digests. Close it with lladd_managed_snapshot_close, before the replica. On an error
 *  nothing is opened: LLADD_TIMEOUT, LLADD_NO_MEMORY. Any thread. */
LLADD_API int lladd_replica_snapshot(struct lladd_replica *, uint64_t at_least, uint64_t timeout_ns,
                                     struct lladd_managed_snapshot **out, struct lladd_error *);
/** Digests the tables, stores the replica's state durably, and closes the tables. Master
 *  transactions that are still open are dropped; the source will send them again. Unless the result
 *  is LLADD_BUSY, the handle is released, also after an error: then the next open needs more events
 *  again. LLADD_BUSY while another thread is in lladd_replica_apply: the replica stays open.
 *  LLADD_BUSY while transactions, cursors or open snapshots use a table: then only this function
 *  may be called, and it also returns an error of the first call. No other thread may use the
 *  handle meanwhile. Closing the database closes replicas that are still open, without a digest.
 *  NULL does nothing. */
LLADD_API int lladd_replica_close(struct lladd_replica *, struct lladd_error *);
/** Removes a replica that is not open, in the transaction; its tables stay. LLADD_NOT_FOUND,
 *  LLADD_BUSY. */
LLADD_API int lladd_replica_destroy(struct lladd_txn *, const char *name);
/** Calls `fn` for the name of every replica. If `fn` does not return 0, stops and returns that
 *  value. */
LLADD_API int lladd_replica_each(struct lladd_db *, int (*fn)(void *ctx, const char *name),
                                 void *ctx, struct lladd_error *);

/** Describes a table of a replica. */
struct lladd_replica_table {
    const char *name; /**< lives as long as the replica is open */
    struct lladd_managed_position position; /**< of its runs */
    bool undigested; /**< it has rows in memory, so `position` counts for the restart position */
};
struct lladd_replica_info {
    size_t struct_size;
    const char *source;       /**< NULL: none. Lives as long as the replica is open */
    uint64_t applied;         /**< events up to this position have been applied or are kept */
    uint64_t from;            /**< lladd_replica_from */
    uint64_t restart;         /**< lladd_replica_from after a crash now, if all digests survive */
    uint64_t durable;         /**< lladd_replica_durable */
    uint64_t consistent_from; /**< readers see whole master transactions when `applied` has reached
                                   this position */
    uint64_t tables;          /**< number of tables */
    uint64_t open;            /**< number of open master transactions */
    uint64_t buffered_bytes;  /**< bytes of their events, with those in blobs */
    uint64_t spilled_bytes;   /**< of these: in blobs */
    uint64_t transactions, rows;  /**< committed, and put or deleted, since the open */
    uint64_t dropped;         /**< number of events dropped because a table already had them */
};
/** Fills as much as out->struct_size says. `tables` (nullable) gets at most n tables. For the
 *  thread that applies events, or while no thread does. */
LLADD_API int lladd_replica_info_get(struct lladd_replica *, struct lladd_replica_info *out,
                                     struct lladd_replica_table *tables, size_t n,
                                     struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
