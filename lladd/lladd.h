/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LLADD_H
#define LLADD_LLADD_H
/**
 * @file
 * @brief Databases and transactions: options, registration, open and close, begin, commit, abort.
 *
 * Data structures have headers of their own (hash.h, array.h, list.h, heap.h, blob.h, records.h,
 * pages.h, dtable.h, ctable.h, journal.h), and so have locks (lock.h). Two-phase commit is in
 * twophase.h, statistics in stats.h, devices in device.h, reading the log in log_read.h, snapshots
 * in snapshot.h. extension.h, bulk.h and op.h are for authors of operations and extensions.
 *
 * Conventions. A function returns 0 or a negative code (error.h). The handle is the first argument;
 * outputs follow the other arguments. A call that returns a misuse or resource error has changed
 * nothing (API-1). A call on a transaction stores its error in lladd_txn_error; a call on a shared
 * handle takes a nullable `struct lladd_error *` as its last argument. Any number of threads may
 * use a database handle. One thread at a time may use a transaction, and later another thread may
 * use it. The library does not isolate transactions from each other; the caller does (LLADD paper,
 * section 2.1).
 * @ingroup lladd
 */
#include <lladd/error.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_allocator;
struct lladd_db;
struct lladd_device;
struct lladd_environment;
struct lladd_extension;
struct lladd_object_class;
struct lladd_op;
struct lladd_page_type;
struct lladd_participant;
struct lladd_registry;
struct lladd_txn;

#define LLADD_VERSION_MAJOR 0
#define LLADD_VERSION_MINOR 1
#define LLADD_VERSION_PATCH 0
/** Returns the version of the linked library, for example "0.1.0"; a static string. */
LLADD_API const char *lladd_version(void);

/* ---- options ------------------------------------------------------------------------------- */

/** What lladd_commit waits for. Log records are written before their pages in every mode
 *  (docs/durability.md). */
enum lladd_durability {
    LLADD_DURABILITY_DEFAULT = 0,
    LLADD_DURABLE = 1,      /**< on the device: survives power loss */
    LLADD_DURABLE_OS = 2,   /**< written to the operating system: survives a crash of the process,
                                 not a power loss */
    LLADD_DURABLE_LATER = 3 /**< in the memory of the process; becomes durable later, in commit
                                 order */
};

/** How the page cache keeps its frames. */
enum lladd_frames {
    LLADD_FRAMES_AUTO = 0,
    LLADD_FRAMES_RESERVED = 1, /**< reserved address space, one state word for each page */
    LLADD_FRAMES_HEAP = 2      /**< heap arena and hash table: small budgets, 32-bit machines */
};

/** The point of a recovery at which lladd_open returns (docs/decisions/instant-recovery.md).
 *  Callers see the same data in both modes. */
enum lladd_recovery {
    /** lladd_open returns after the redo of every page. Afterwards a background thread takes a
     *  checkpoint, which writes the pages back; in a handle without threads lladd_open takes the
     *  checkpoint. */
    LLADD_RECOVER_FULL = 0,
    /** lladd_open returns before redo. A page is redone at once if it is fetched before the
     *  background redo has reached it. All other pages are redone in the background (without
     *  threads: by lladd_maintain), and a checkpoint follows. If lladd_close is called or a
     *  checkpoint is requested before the redo has ended, that call waits for the end of the redo.
     *  If a page is damaged beyond repair, lladd_open succeeds, but fixing that page and taking a
     *  checkpoint return an error. A loser is rolled back in the background if participants protect
     *  all its changes (lladd_participant.protect); otherwise it is rolled back before lladd_open
     *  returns. */
    LLADD_RECOVER_INSTANT = 1
};

/** lladd_options.flags */
enum {
    LLADD_OPT_NO_THREADS = 1,     /**< no background threads: their work is done in lladd_maintain
                                       and in other calls */
    LLADD_OPT_MUST_EXIST = 2,     /**< lladd_open does not create a database */
    LLADD_OPT_MUST_NOT_EXIST = 4, /**< lladd_open returns LLADD_EXISTS if the database exists */
    LLADD_OPT_ATOMIC_PAGES = 8,   /**< the device never tears a page: no page images in the log,
                                       except of pages written in bulk */
    LLADD_OPT_LOG_FULL_ERROR = 16 /**< at the byte limit of the log, calls return LLADD_LOG_FULL and
                                       take no checkpoint */
};

/** The phases of an open, in order. */
enum lladd_phase {
    LLADD_PHASE_ANALYSIS = 1,
    LLADD_PHASE_REDO = 2,
    LLADD_PHASE_OBJECTS = 3,
    LLADD_PHASE_UNDO = 4,
    LLADD_PHASE_DONE = 5
};

/** Reports the progress of recovery. Called repeatedly, in the thread that calls lladd_open. */
typedef void lladd_progress_fn(void *ctx, enum lladd_phase, lladd_lsn at, unsigned percent);
/** Receives one line of the trace of recovery's decisions, without the newline. */
typedef void lladd_trace_fn(void *ctx, const char *line);

/** Zero means the default, for every member. Initialise with LLADD_OPTIONS_INIT. */
struct lladd_options {
    size_t struct_size;   /**< set by LLADD_OPTIONS_INIT */
    uint32_t flags;       /**< LLADD_OPT_ */
    uint32_t page_size;   /**< bytes of a page of a new database: 4096 to 65536, a power of two.
                               Default 4096. For an existing database: 0, or the size of its pages
                               (else LLADD_BAD_ARGUMENT) */
    uint64_t cache_bytes; /**< memory for the page cache, including its tables; at least 64 KiB.
                               Default 64 MiB */
    /** Size of the log buffer, a power of two up to 2^30. A record is at most a quarter of it.
     *  lladd_open refuses less than 16 pages. It also refuses a size if a registered operation can
     *  reserve more than five eighths of the size in one call of lladd_log_credit (the members
     *  `record_max`, `record_pages` and `credit_max` of lladd_op say how much that is). The error
     *  says which size is needed. An earlier run with a larger buffer may have logged a
     *  lladd_log_object record or a name that is too long for this size. If recovery has to undo
     *  such a record, or to log such a name again, the library allocates a larger buffer. Default
     *  8 MiB */
    uint64_t log_ring_bytes;
    uint64_t log_segment_min; /**< size of the first log segment, a power of two from 4096. Default
                                    1 MiB */
    uint64_t log_segment_max; /**< new segments get larger, up to this size: a power of two, at
                                    least `log_segment_min`, at most 2 GiB. Default 64 MiB, or
                                    `log_segment_min` if that is larger */
    /** Limit of the log on disk. lladd_open refuses less than four segments plus the log space that
     *  one call of a registered operation can reserve for records and their undo; the error says
     *  how much is needed (128 KiB with pages and segments of 4 KiB). Default 4 GiB; UINT64_MAX: no
     *  limit */
    uint64_t log_limit_bytes;
    /** A checkpoint is taken after this much log, to bound the duration of recovery. Default: four
     *  times the bytes of the dirty pages, or four times the bytes of the pages that were logged as
     *  images since the last checkpoint, if that is more. The default is never more than 512 MiB or
     *  an eighth of `log_limit_bytes`, except that it is never less than 64 MiB. The background
     *  thread spreads the writes of a checkpoint over time, but completes the checkpoint before
     *  half as much log again has been written */
    uint64_t checkpoint_bytes;
    uint32_t redo_threads; /**< number of threads for redo, each with a share of the pages; at most
                                    half of the pages that the cache can hold. A handle without
                                    threads redoes the shares one after the other. Default: the
                                    number of processors online, at most 8; 1 in a handle without
                                    threads, or if redo has less than 4 MiB of log */
    enum lladd_frames frames;
    enum lladd_durability durability; /**< of transactions that choose none; DEFAULT means
                                           LLADD_DURABLE */
    struct lladd_device *device;      /**< not NULL: used instead of POSIX files below `dir` */
    const struct lladd_allocator *allocator; /**< NULL: malloc (device.h) */
    const struct lladd_environment *world;   /**< NULL: clock and random bytes of the operating
                                                  system */
    lladd_progress_fn *progress;
    lladd_trace_fn *trace;
    void *callback_ctx; /**< first argument of `progress` and `trace` */
    struct lladd_registry
        *registry; /**< filled by the lladd_register_ functions; lladd_options_release frees it */
    enum lladd_recovery recovery;
    uint64_t recovery_bytes; /**< memory for recovery besides the cache. Instant recovery keeps an
                                  index of the log records of pages with pending redo; pages
                                  that do not fit into the index are redone before lladd_open
                                  returns. Full recovery keeps a table of the newest images, in at
                                  most half of this memory; without the table, redo reads more
                                  pages. Default: a quarter of `cache_bytes`, at least 32 MiB */
    uint32_t file_mode;      /**< mode of new POSIX files: lladd_device_posix_mode. Default 0600 */
};

#define LLADD_OPTIONS_INIT_SIZE sizeof(struct lladd_options)
#define LLADD_OPTIONS_INIT LLADD_SIZED_INIT(lladd_options)

/** Registers an operation for lladd_open. Registering the same descriptor twice is allowed.
 *  LLADD_BAD_REGISTRATION: another descriptor with the same name and version is registered, or the
 *  descriptor contradicts itself; nothing is registered then. Nothing is copied: a descriptor must
 *  outlive every handle opened with these options. One thread at a time may use the options. */
LLADD_API int lladd_register_op(struct lladd_options *, const struct lladd_op *,
                                struct lladd_error *);
/** Registers a page type, with the rules of lladd_register_op. */
LLADD_API int lladd_register_page_type(struct lladd_options *, const struct lladd_page_type *,
                                       struct lladd_error *);
/** Registers an object class, with the rules of lladd_register_op. */
LLADD_API int lladd_register_class(struct lladd_options *, const struct lladd_object_class *,
                                   struct lladd_error *);
/** Registers a participant, with the rules of lladd_register_op. */
LLADD_API int lladd_register_participant(struct lladd_options *, const struct lladd_participant *,
                                         struct lladd_error *);
/** Registers an extension and all of its descriptors, with the rules of lladd_register_op. A call
 *  that returns an error has registered none of them. */
LLADD_API int lladd_register_extension(struct lladd_options *, const struct lladd_extension *,
                                       struct lladd_error *);
/** Frees the registry. Open handles do not need it. */
LLADD_API void lladd_options_release(struct lladd_options *);

/* ---- databases ----------------------------------------------------------------------------- */

/** Opens the database in directory `dir`, and creates it if the directory is absent or empty.
 *  Recovers the database: when the call returns 0, the database has the changes of every commit
 *  that was reported durable, possibly of later commits, and of no other transaction; prepared
 *  transactions are in doubt (REC-1). `options` may be NULL. LLADD_LOCKED: a process, perhaps this
 *  one, has the database open; the message has its pid if known. LLADD_NO_OPERATION: the message
 *  names the operation that is not registered. LLADD_BAD_REGISTRATION: an operation with the same
 *  name and version has other fields in the log. These two errors are found before any page is
 *  touched. */
LLADD_API int lladd_open(const char *dir, const struct lladd_options *options,
                         struct lladd_db **out, struct lladd_error *err);
/** Aborts active transactions, leaves prepared ones in doubt, takes a checkpoint so that the next
 *  open has nothing to redo, and releases everything. No other thread may be using the handle.
 *
 *  - 0: the handle is closed, and all committed transactions are durable. The next open still has
 *    to recover if the last checkpoint lacked space, or if participants went on writing.
 *  - LLADD_BAD_STATE (the thread holds a page), LLADD_FORKED: nothing was done, and the handle
 *    stays open.
 *  - Any other error: the handle is closed, and the next open has to recover. */
LLADD_API int lladd_close(struct lladd_db *);
/** Releases the handle without writing anything, as if the process had crashed. */
LLADD_API void lladd_db_kill(struct lladd_db *);
/** Returns the code of the error that poisoned the handle, and copies the error to *err. Returns 0
 *  and does not change *err if the handle is not poisoned. */
LLADD_API int lladd_db_error(struct lladd_db *, struct lladd_error *err);
/** Returns the size of a page in bytes, including its header. Any thread. */
LLADD_API uint32_t lladd_page_size(const struct lladd_db *);
/** Returns the number of pages in the page file, including free pages; it may grow at any time. Any
 *  thread. */
LLADD_API uint64_t lladd_page_count(const struct lladd_db *);
/** Copies the database's UUID to `out`: 16 bytes, generated when the database was created. */
LLADD_API void lladd_db_uuid(const struct lladd_db *, unsigned char out[16]);
/** Returns the timeline of the database: 0, or the number that a store has given to a restored copy
 *  or to one that took an archive over (lladd/ship.h). It does not change while the handle is open.
 *  Any thread. */
LLADD_API uint32_t lladd_db_timeline(const struct lladd_db *);
/** Takes a fuzzy checkpoint now, and truncates the log up to the first record that is still needed
 *  (lladd_log_pinner). */
LLADD_API int lladd_checkpoint(struct lladd_db *, struct lladd_error *);
/** Does one step of background work, for handles without threads. *more (nullable) gets true if
 *  more work is due. After an instant recovery the steps roll back the remaining losers, then redo
 *  the remaining pages, and then take a checkpoint. LLADD_CORRUPT_PAGE if a page cannot be
 *  redone. */
LLADD_API int lladd_maintain(struct lladd_db *, bool *more, struct lladd_error *);

/* ---- transactions -------------------------------------------------------------------------- */

/** Zero means the default, for every member. Initialise with LLADD_TXN_OPTIONS_INIT. */
struct lladd_txn_options {
    size_t struct_size;
    bool read_only; /**< updates are refused; commit waits until all commits that the transaction
                         may have read are as durable as `durability` requires (TXN-1) */
    /** A transaction that a data structure begins for its own work during a user's transaction; the
     *  log marks it as a system transaction. It may be committed under the structure's mutexes,
     *  because its commit runs no `durable` callbacks (THR-2). The callbacks that are due,
     *  including its own, run in the next of these calls: lladd_wait_durable, lladd_checkpoint,
     *  lladd_maintain, or a commit of a transaction that is not a system transaction. */
    bool system;
    /** The transaction never gets LLADD_LOG_FULL. Use this for a transaction that writes little,
     *  and after which the log can be truncated. A part of `log_limit_bytes` is reserved for such
     *  transactions; if they need more, the log exceeds the limit until the next checkpoint. */
    bool frees_log;
    enum lladd_durability durability;
    const char *owner; /**< free text for the prepare record, at most 63 bytes */
};
#define LLADD_TXN_OPTIONS_INIT_SIZE sizeof(struct lladd_txn_options)
#define LLADD_TXN_OPTIONS_INIT LLADD_SIZED_INIT(lladd_txn_options)

/** Begins a transaction, which writes nothing to the log before its first update. `options` may be
 *  NULL. LLADD_BAD_STATE if the thread holds a page. */
LLADD_API int lladd_begin(struct lladd_db *, const struct lladd_txn_options *,
                          struct lladd_txn **out, struct lladd_error *);
/** Commits; returns 0 when the transaction is as durable as its `durability` requires. Consumes the
 *  transaction's handle when it returns 0 or a poison code; after any other code the transaction is
 *  unchanged. LLADD_OPEN_ACTION if a nested top action is open; LLADD_BAD_STATE if the thread holds
 *  a page, or in a compensation. Unless the transaction is a system transaction, the call runs
 *  `durable` callbacks, also those for commits of other transactions: the caller must hold no mutex
 *  that such a callback may take (THR-2). */
LLADD_API int lladd_commit(struct lladd_txn *);
/** Commits without waiting. When the call returns, the commit is atomic and has its place in the
 *  commit order; it is durable when lladd_wait_durable(*out) has returned 0. Consumes the handle as
 *  lladd_commit does, and returns its errors. *out (nullable) is 0 if there is nothing to wait
 *  for. */
LLADD_API int lladd_commit_async(struct lladd_txn *, lladd_lsn *out);
/** Waits until the commit or prepare record at the LSN is durable; LSN 0: waits for no record. Runs
 *  `durable` callbacks of participants (THR-2), so the caller must hold no page (LLADD_BAD_STATE)
 *  and no mutex that a callback may take. lladd_log_force runs no callbacks. LLADD_BAD_ARGUMENT
 *  beyond the log's end. */
LLADD_API int lladd_wait_durable(struct lladd_db *, lladd_lsn, struct lladd_error *);
/** Rolls the transaction back. Never fails for lack of space or memory (REC-3). Consumes the handle
 *  as lladd_commit does. */
LLADD_API int lladd_abort(struct lladd_txn *);
/** Makes a savepoint. A savepoint takes no log; it takes memory until it is released or becomes
 *  invalid (OP-6), or until the transaction ends. */
LLADD_API int lladd_savepoint(struct lladd_txn *, lladd_savepoint_id *out);
/** Undoes all changes since the savepoint, including open top actions begun since then; the
 *  savepoint stays. LLADD_DEAD_SAVEPOINT if the savepoint does not exist any more: it was released,
 *  or discarded by a rollback to an earlier savepoint, or the top action in which it was made is
 *  closed (OP-6). */
LLADD_API int lladd_rollback_to(struct lladd_txn *, lladd_savepoint_id);
/** Discards the savepoint and all later savepoints; the changes made since then stay.
 *  LLADD_DEAD_SAVEPOINT as for lladd_rollback_to. */
LLADD_API int lladd_savepoint_release(struct lladd_txn *, lladd_savepoint_id);
/** Returns the last error of a call on this transaction; valid until the next call on the
 *  transaction. */
LLADD_API const struct lladd_error *lladd_txn_error(const struct lladd_txn *);
/** Returns the error struct of the transaction, in which an extension's function reports an error
 *  (lladd_error_set). */
LLADD_API struct lladd_error *lladd_txn_error_out(struct lladd_txn *);
/** Returns the database of the transaction. */
LLADD_API struct lladd_db *lladd_txn_db(const struct lladd_txn *);
/** Returns the transaction's id in the log and in tools: the LSN of its first record; 0 if it has
 *  not written a record. */
LLADD_API lladd_lsn lladd_txn_id(const struct lladd_txn *);

/* ---- transactions that another thread may take over (docs/threads.md) --------------------- */

/** Makes the calling thread the user of the transaction. The thread that began the transaction
 *  makes the first call of lladd_txn_take, before another thread knows the transaction. The first
 *  call guards the transaction: from then on a call on the transaction by a thread that is not its
 *  user changes nothing and returns LLADD_TAKEN. Later any thread may call lladd_txn_take until the
 *  transaction ends. If the present user is in a call or in a nested top action, lladd_txn_take
 *  waits until that call or action has ended. With `stop`, the user cannot begin another call
 *  meanwhile; if the user waits for a lock, that wait ends with LLADD_TAKEN within a tenth of a
 *  second. LLADD_TIMEOUT if the user's call has not ended after `wait_ns` (UINT64_MAX: no limit);
 *  nothing has changed then. LLADD_CLOSED: the transaction has ended. On a poisoned handle
 *  lladd_txn_take does not wait for the end of an open top action, because such an action cannot
 *  end. If the user's call does not end, lladd_txn_take returns the poison's code. The calling
 *  thread must hold no page.
 *
 *  After the end of a guarded transaction its handle stays valid for the threads from which it was
 *  taken: their calls return LLADD_TAKEN or LLADD_CLOSED. The handle is freed when lladd_txn_drop
 *  has been called once for each loss of the transaction by a thread. */
LLADD_API int lladd_txn_take(struct lladd_txn *, bool stop, uint64_t wait_ns);
/** The calling thread stops using a guarded transaction, which then has no user; the next
 *  lladd_txn_take does not wait. Returns false if another thread has taken the transaction: then
 *  lladd_txn_drop must be called for the calling thread. */
LLADD_API bool lladd_txn_give(struct lladd_txn *);
/** States that one thread from which the transaction was taken will not use the handle any more.
 *  Any thread may make the call, before lladd_close. */
LLADD_API void lladd_txn_drop(struct lladd_txn *);

#ifdef __cplusplus
}
#endif
#endif
