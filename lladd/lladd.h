/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LLADD_H
#define LLADD_LLADD_H
/**
 * @file
 * @brief The public interface: databases, transactions, updates, top actions, two-phase commit.
 *
 * Conventions. A function returns 0 or a negative code (error.h). The handle is the first argument,
 * outputs are last. A call that fails with a misuse or resource error has changed nothing (API-1).
 * A call on a transaction stores its error in lladd_txn_error; a call on a shared handle takes a
 * nullable `struct lladd_error *` as its last argument. Any number of threads may use a database
 * handle. One thread at a time may use a transaction; it need not always be the same thread. The
 * library does not isolate transactions from each other; the caller does (paper, section 2.1).
 * @ingroup lladd
 */
#include <lladd/device.h>
#include <lladd/error.h>
#include <lladd/op.h>
#include <lladd/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_VERSION_MAJOR 0
#define LLADD_VERSION_MINOR 1
#define LLADD_VERSION_PATCH 0
/** "0.1.0" */
LLADD_API const char *lladd_version(void);

/* ---- options ------------------------------------------------------------------------------- */

/** What lladd_commit waits for. The WAL rule holds in every mode (docs/durability.md). */
enum lladd_durability {
    LLADD_DURABILITY_DEFAULT = 0,
    LLADD_DURABLE = 1,      /**< on the device: survives power loss */
    LLADD_DURABLE_OS = 2,   /**< written to the operating system: survives a crash of the process */
    LLADD_DURABLE_LATER = 3 /**< in process memory; becomes durable later, in commit order */
};

enum lladd_frames {
    LLADD_FRAMES_AUTO = 0,
    LLADD_FRAMES_RESERVED = 1, /**< reserved address space, one state word for each page */
    LLADD_FRAMES_HEAP = 2      /**< heap arena and hash table: small budgets, 32-bit machines */
};

/** When lladd_open returns after a crash (docs/decisions/instant-recovery.md). Callers see the same
 *  data in both modes. */
enum lladd_recovery {
    /** After redo of every page. The checkpoint that writes the pages back is taken in the
     *  background; a handle without threads takes it before lladd_open returns. */
    LLADD_RECOVER_FULL = 0,
    /** Before redo. A page is redone when it is first fetched; the other pages are redone in the
     *  background (without threads: by lladd_maintain), and a checkpoint follows. lladd_close and
     *  any earlier request for a checkpoint wait for that redo. If a page is damaged beyond repair,
     *  the open succeeds, but fixing that page fails and so do checkpoints. Loser transactions are
     *  rolled back before lladd_open returns, except those that a participant protects in
     *  all their changes (lladd_participant.protect): they are rolled back in the background. */
    LLADD_RECOVER_INSTANT = 1
};

enum {
    LLADD_OPT_NO_THREADS = 1,     /**< background work only in lladd_maintain and in callers */
    LLADD_OPT_MUST_EXIST = 2,     /**< do not create */
    LLADD_OPT_MUST_NOT_EXIST = 4, /**< create or LLADD_EXISTS */
    LLADD_OPT_ATOMIC_PAGES = 8,   /**< the device never tears a page: no page images in the log */
    LLADD_OPT_LOG_FULL_ERROR = 16 /**< at the log limit: LLADD_LOG_FULL instead of waiting */
};

enum lladd_phase {
    LLADD_PHASE_ANALYSIS = 1,
    LLADD_PHASE_REDO = 2,
    LLADD_PHASE_OBJECTS = 3,
    LLADD_PHASE_UNDO = 4,
    LLADD_PHASE_DONE = 5
};

/** Recovery's progress report: called now and then, from the thread that opens. */
typedef void lladd_progress_fn(void *ctx, enum lladd_phase, lladd_lsn at, unsigned percent);
/** One line of recovery's trace of decisions, without the newline. */
typedef void lladd_trace_fn(void *ctx, const char *line);

struct lladd_registry;

/** Zero means the default, for every member. Initialise with LLADD_OPTIONS_INIT. */
struct lladd_options {
    size_t struct_size;
    uint32_t flags;
    uint32_t page_size;        /**< 4096 to 65536, a power of two; at creation only. Default 4096 */
    uint64_t cache_bytes;      /**< budget of the page cache, its tables included. Default 64 MiB */
    /** Log buffer, a power of two up to 2^30. The longest record takes a quarter of it. lladd_open
     *  refuses less than 16 pages, and a size of which five eighths are less than a registered
     *  operation can need at once (lladd_op.record_max, record_pages, credit_max); the error says
     *  how much is needed. The library allocates more if recovery has to undo a longer
     *  lladd_log_object record. Default 8 MiB */
    uint64_t log_ring_bytes;
    uint64_t log_segment_min;  /**< size of the first log segment, a power of two from 4096. Default
                                    1 MiB */
    uint64_t log_segment_max;  /**< segments grow up to this. Default 64 MiB */
    /** Most log on disk. lladd_open refuses less than four segments plus the most that a registered
     *  operation needs at once, with the log of its undo; the error says how much is needed (128
     *  KiB with pages and segments of 4 KiB). Default 4 GiB; UINT64_MAX: no limit */
    uint64_t log_limit_bytes;
    /** A checkpoint is taken after this much log, to bound recovery. Default: 64 MiB, or, if many
     *  pages are dirty or were logged as images since the last checkpoint, four times their bytes,
     *  at most 512 MiB or an eighth of log_limit_bytes, whichever is less */
    uint64_t checkpoint_bytes;
    uint32_t redo_threads;     /**< threads that redo, each with a share of the pages. A handle
                                    without threads redoes the shares one after the other. Default:
                                    the number of processors online, at most 8, and one for less
                                    than 4 MiB of log */
    enum lladd_frames frames;
    enum lladd_durability durability; /**< default of transactions; DEFAULT means LLADD_DURABLE */
    struct lladd_device *device;      /**< not NULL: used instead of POSIX files below `dir` */
    const struct lladd_allocator *allocator;
    const struct lladd_environment *world;
    lladd_progress_fn *progress;
    lladd_trace_fn *trace;
    void *callback_ctx; /**< first argument of `progress` and `transcript` */
    struct lladd_registry
        *registry; /**< filled by lladd_register_op*; lladd_options_release frees it */
    enum lladd_recovery recovery;
    uint64_t recovery_bytes; /**< memory that instant recovery may use besides the cache, to index
                                  the log records of pages with pending redo. Pages for which there
                                  is no memory left are redone before lladd_open returns. Default: a
                                  quarter of cache_bytes, at least 32 MiB */
    uint32_t file_mode; /**< mode of new POSIX files: lladd_device_posix_mode. Default 0600 */
};

#define LLADD_OPTIONS_INIT_SIZE sizeof(struct lladd_options)
#ifdef __cplusplus
#define LLADD_OPTIONS_INIT \
    lladd_options \
    { \
        sizeof(struct lladd_options) \
    }
#else
#define LLADD_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_options) \
    }
#endif

/** Registers an operation (page type, class, participant, extension) for lladd_open. Registering
 *  the same descriptor twice is allowed. LLADD_BAD_REGISTRATION: another descriptor with the same
 *  name and version is registered, or the descriptor contradicts itself. Nothing is copied: a
 *  descriptor must outlive every handle opened with these options. */
LLADD_API int lladd_register_op(struct lladd_options *, const struct lladd_op *,
                                struct lladd_error *);
LLADD_API int lladd_register_page_type(struct lladd_options *, const struct lladd_page_type *,
                                       struct lladd_error *);
LLADD_API int lladd_register_class(struct lladd_options *, const struct lladd_object_class *,
                                   struct lladd_error *);
LLADD_API int lladd_register_participant(struct lladd_options *, const struct lladd_participant *,
                                         struct lladd_error *);
LLADD_API int lladd_register_extension(struct lladd_options *, const struct lladd_extension *,
                                       struct lladd_error *);
/** Frees the registry. Open handles do not need it. */
LLADD_API void lladd_options_release(struct lladd_options *);

/* ---- databases ----------------------------------------------------------------------------- */

/** Opens the database in directory `dir`, and creates it if the directory is absent or empty. The
 *  database is recovered: when the call returns 0, it has the changes of every acknowledged commit
 *  and of no other transaction, and prepared transactions are in doubt (REC-1). `options` may be
 *  NULL. LLADD_LOCKED: the message has the pid of the process that has it open. LLADD_NO_OPERATION:
 *  the message names the operation that is not registered; LLADD_BAD_REGISTRATION: the log has
 *  other fields under its name and version. Both are found before any page is touched. */
LLADD_API int lladd_open(const char *dir, const struct lladd_options *options,
                         struct lladd_db **out, struct lladd_error *err);
/** Aborts active transactions, leaves prepared ones in doubt, takes a checkpoint so that the next
 *  open has nothing to redo, and releases everything. The handle is gone whatever the call returns,
 *  except with LLADD_BAD_STATE: the thread holds a page, and nothing was done. Any other error
 *  means that the next open has to recover. After 0 it has to recover only if a class had no space
 *  for what it writes in a checkpoint; all committed transactions are durable then. No other thread
 *  may be using the handle. */
LLADD_API int lladd_close(struct lladd_db *);
/** Releases the handle without writing anything, as if the process had crashed. */
LLADD_API void lladd_db_kill(struct lladd_db *);
/** The first error that poisoned the handle; returns 0 and leaves *err alone if it is healthy. */
LLADD_API int lladd_db_error(struct lladd_db *, struct lladd_error *err);
LLADD_API uint32_t lladd_page_size(const struct lladd_db *);
LLADD_API uint64_t lladd_page_count(const struct lladd_db *);
/** The database's UUID: 16 bytes, generated when it was created. */
LLADD_API void lladd_db_uuid(const struct lladd_db *, unsigned char out[16]);
/** The state that an extension's `attach` made; NULL if this handle has no such extension. */
LLADD_API void *lladd_extension_state(struct lladd_db *, const struct lladd_extension *);
/** The handle's allocator, clock and source of random bytes, for extensions. */
LLADD_API void *lladd_mem_alloc(struct lladd_db *, size_t);
LLADD_API void *lladd_mem_resize(struct lladd_db *, void *, size_t);
LLADD_API void lladd_mem_free(struct lladd_db *, void *);
LLADD_API uint64_t lladd_now_ns(struct lladd_db *);
/** Unpredictable bytes (in the simulator: derived from its seed). 0 or a negative errno. */
LLADD_API int lladd_random_bytes(struct lladd_db *, void *buf, size_t len);
/** The id of a registered operation; LLADD_NOT_FOUND if it is not registered. */
LLADD_API int lladd_op_lookup(struct lladd_db *, const char *name, uint32_t version,
                              lladd_op_id *out);
/** The descriptor registered under a name, for tools that run operations themselves; version 0
 *  matches any version. NULL if there is none. */
LLADD_API const struct lladd_op *lladd_op_descriptor(struct lladd_db *, const char *name,
                                                     uint32_t version);
LLADD_API const struct lladd_page_type *lladd_page_type_descriptor(struct lladd_db *,
                                                                   const char *name);
/** How many loser transactions are still to be rolled back after an open with
 *  LLADD_RECOVER_INSTANT. Their rollback may need the pages, slots and space that they had freed:
 *  an extension that keeps track of free space in memory must not hand any of it out until this is
 *  0. Any thread, under any latch. */
LLADD_API uint64_t lladd_losers_left(struct lladd_db *);
/** Takes a fuzzy checkpoint now and truncates the log as far as no pin keeps it. */
LLADD_API int lladd_checkpoint(struct lladd_db *, struct lladd_error *);
/** Does one step of background work, for handles without threads; *more (nullable): there is more
 *  to do. After an instant recovery a step also rolls back part of the remaining losers, then
 *  redoes some pages, and after the last page takes the checkpoint. LLADD_CORRUPT_PAGE if a page
 *  cannot be redone. */
LLADD_API int lladd_maintain(struct lladd_db *, bool *more, struct lladd_error *);

/* ---- transactions -------------------------------------------------------------------------- */

struct lladd_txn_options {
    size_t struct_size;
    bool read_only; /**< updates are refused; commit waits until what it may have read is durable
                         (TXN-1) */
    /** A structure's own transaction: it is not aborted with a user's transaction, and the log
     *  marks it. It may be committed under the structure's mutexes, because its commit runs no
     *  `durable` callback (THR-2). The callbacks that are due, its own included, run with the next
     *  commit of another transaction, lladd_wait_durable, lladd_checkpoint or lladd_maintain. */
    bool system;
    /** log_limit_bytes does not refuse this transaction. It is for a transaction that writes little
     *  and lets the log be truncated when it has committed. A part of the limit is reserved for
     *  such transactions; beyond it the log exceeds the limit until the next checkpoint. */
    bool frees_log;
    enum lladd_durability durability;
    const char *owner; /**< free text for the prepare record, at most 63 bytes */
};
#define LLADD_TXN_OPTIONS_INIT_SIZE sizeof(struct lladd_txn_options)
#ifdef __cplusplus
#define LLADD_TXN_OPTIONS_INIT \
    lladd_txn_options \
    { \
        sizeof(struct lladd_txn_options) \
    }
#else
#define LLADD_TXN_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_txn_options) \
    }
#endif

/** Begins a transaction; writes nothing until its first update. `options` may be NULL. */
LLADD_API int lladd_begin(struct lladd_db *, const struct lladd_txn_options *,
                          struct lladd_txn **out, struct lladd_error *);
/** Commits; returns 0 when the transaction is as durable as its `durability` asks. Consumes the
 *  handle when it returns 0 or a poison code; otherwise the transaction is unchanged. Unless it is
 *  a system transaction, the call runs `durable` callbacks, also of other transactions: the caller
 *  must hold no mutex that such a callback may take (THR-2). */
LLADD_API int lladd_commit(struct lladd_txn *);
/** Commits without waiting: atomic and ordered when it returns, durable when
 * lladd_wait_durable(*out) has
 *  returned 0. Consumes the handle as lladd_commit does. *out is 0 if there is nothing to wait
 *  for. */
LLADD_API int lladd_commit_async(struct lladd_txn *, lladd_lsn *out);
/** Returns 0 when the commit or prepare record at the LSN is durable; at once for LSN 0. Runs
 *  `durable` callbacks of participants (THR-2), so the caller must hold no page (LLADD_BAD_STATE)
 *  and no mutex that a callback may take; lladd_log_force runs none. LLADD_BAD_ARGUMENT beyond the
 *  log's end. */
LLADD_API int lladd_wait_durable(struct lladd_db *, lladd_lsn, struct lladd_error *);
/** Rolls back. Never fails for lack of space or memory (REC-3). Consumes the handle as lladd_commit
 *  does. */
LLADD_API int lladd_abort(struct lladd_txn *);
/** Makes a savepoint. It uses memory until it is released, becomes invalid (OP-6) or the
 *  transaction ends, and no other resource. */
LLADD_API int lladd_savepoint(struct lladd_txn *, lladd_savepoint_id *out);
/** Undoes everything since the savepoint, open top actions included; the savepoint stays.
 *  LLADD_DEAD_SAVEPOINT if the top action that contains the savepoint has closed (OP-6). */
LLADD_API int lladd_rollback_to(struct lladd_txn *, lladd_savepoint_id);
/** Discards the savepoint and all later ones; the changes made since then stay.
 *  LLADD_DEAD_SAVEPOINT as above. */
LLADD_API int lladd_savepoint_release(struct lladd_txn *, lladd_savepoint_id);
/** The last error of a call on this transaction; valid until its next call. */
LLADD_API const struct lladd_error *lladd_txn_error(const struct lladd_txn *);
/** The transaction's own struct, for extensions to report into (lladd_error_set). */
LLADD_API struct lladd_error *lladd_txn_error_out(struct lladd_txn *);
LLADD_API struct lladd_db *lladd_txn_db(const struct lladd_txn *);
/** LSN of its first record, which is its id in the log and in tools; 0 if it has written none. */
LLADD_API lladd_lsn lladd_txn_id(const struct lladd_txn *);

/* ---- pages and updates ------------------------------------------------------------------- */

enum lladd_latch { LLADD_LATCH_SHARED = 0, LLADD_LATCH_EXCLUSIVE = 1 };

/** Pins and latches a page. Take it exclusive for lladd_update_page; outside redo and undo the
 *  bytes are read-only in either mode (OP-1). The same thread unfixes it. While the thread holds a
 *  page, calls that may wait are refused, lladd_update among them (docs/threads.md). */
LLADD_API int lladd_page_fix(struct lladd_db *, lladd_pageno, enum lladd_latch,
                             struct lladd_page **out, struct lladd_error *);
LLADD_API void lladd_page_unfix(struct lladd_db *, struct lladd_page *, enum lladd_latch);
LLADD_API struct lladd_view lladd_page_view(const struct lladd_page *);
/** The version number of a page that the caller holds. Each change of the page gives it a new
 *  number that the page has not had before, also when the page is freed and formatted again. For a
 *  reader that releases the page and later checks whether it has changed meanwhile; not for
 *  operations (OP-2). */
LLADD_API uint64_t lladd_page_version(const struct lladd_page *);
/** Does the view have this page type (by name, in this database)? */
LLADD_API bool lladd_page_is(struct lladd_db *, struct lladd_view, const char *page_type);
/** The type number the database gave to a page type; 0 if it has none yet. */
LLADD_API uint16_t lladd_page_type_number(struct lladd_db *, const char *page_type);
LLADD_API void lladd_page_prefetch(struct lladd_db *, lladd_pageno, uint64_t n);
/** Prefetches into the processor's cache, if the page is in the page cache, the page's header and
 *  the line with the byte at `offset` of its body. */
LLADD_API void lladd_prefetch_line(struct lladd_db *, lladd_pageno, uint32_t offset);
/** The same for the page's header and `len` bytes at `offset`, or as many of them as are worth
 *  prefetching; len 0: for the header alone. */
LLADD_API void lladd_prefetch_lines(struct lladd_db *, lladd_pageno, uint32_t offset, uint32_t len);

/** Runs the operation: latch, prepare, log, redo, set the page LSN (OP-1..3; paper, section 2.2.2).
 *  LLADD_BAD_STATE if the thread holds a page of this database: the call may have to wait for log
 *  space or a checkpoint, and these may wait for that page. */
LLADD_API int lladd_update(struct lladd_txn *, lladd_op_id, lladd_pageno, const void *args,
                           size_t len);
/** The same on a page the caller holds exclusively. Never waits for log space: reserve it with
 *  lladd_log_credit before latching. LLADD_BAD_STATE if it was not taken, or if the page is held
 *  shared; then nothing has changed. */
LLADD_API int lladd_update_page(struct lladd_txn *, lladd_op_id, struct lladd_page *held,
                                const void *args, size_t len);
/** Reserves log space for `count` further records of the operation, page images included.
 *  Afterwards the transaction has at least that much; what it had before counts. A count up to the
 *  operation's credit_max fits whatever log_ring_bytes the database was opened with;
 *  LLADD_TOO_LARGE if a larger count needs more than five eighths of it. LLADD_BAD_STATE if the
 *  thread holds a page (BUF-3).
 *
 *  While the thread holds the credit it must wait for nothing but pages: not for mutexes, locks or
 *  other threads, nor for credit of another transaction, because any of them may be waiting for
 *  this credit. (Debug builds stop such a thread.) The transaction's next update, record or end
 *  releases the credit. Asking for 0, of any registered operation, releases all of it too, also
 *  under a latch; do that on error paths. Unused credit stays with the transaction, or is returned
 *  when log space is scarce. */
LLADD_API int lladd_log_credit(struct lladd_txn *, lladd_op_id, unsigned count);

#define LLADD_NO_OP UINT32_MAX

/** Records to reserve space for. LLADD_NO_OP: ends of nested top actions without logical undo. */
struct lladd_log_need {
    lladd_op_id op;
    unsigned count;
};
#define LLADD_LOG_NEEDS_MAX 8u
/** As lladd_log_credit, for the records of all `n` needs together, at most LLADD_LOG_NEEDS_MAX. Use
 *  it to change several pages with operations of several kinds. */
LLADD_API int lladd_log_credit_all(struct lladd_txn *, const struct lladd_log_need *, unsigned n);

/** A nested top action: between begin and end several pages change with physical undo; after the
 *  end, only the logical undo given there undoes it. Top actions nest. */
struct lladd_action {
    uint64_t private_[4];
};
LLADD_API int lladd_nta_begin(struct lladd_txn *, struct lladd_action *);
/** Closes the innermost top action. From now on `op` (of undo kind LOGICAL) with these undo bytes
 *  undoes it; LLADD_NO_OP: nothing does. LLADD_BAD_STATE if it is not the innermost one. A
 *  compensation that a crash interrupts runs again, and then finds what it did in top actions that
 *  it closed with LLADD_NO_OP: such an action may only do what may happen twice (OP-5). While the
 *  thread holds a page, only LLADD_NO_OP is allowed, with log space from lladd_log_credit_all;
 *  otherwise LLADD_BAD_STATE. */
LLADD_API int lladd_nta_end(struct lladd_txn *, struct lladd_action *, lladd_op_id op,
                            const void *undo, size_t len);
/** Undoes the innermost top action physically and closes it. */
LLADD_API int lladd_nta_abort(struct lladd_txn *, struct lladd_action *);

/** The paper's lighter mechanism (section 2.4): log the logical inverse first, as an undo-only
 *  record, then redo-only records after each of which the data is consistent. The operation's
 *  compensate must be idempotent and restartable (OP-5). */
LLADD_API int lladd_log_undo_only(struct lladd_txn *, lladd_op_id, const void *undo, size_t len);
/** lladd_update without undo, whatever the operation's undo kind: its undo bytes are not logged. */
LLADD_API int lladd_log_redo_only(struct lladd_txn *, lladd_op_id, lladd_pageno, const void *args,
                                  size_t len);

/* ---- two-phase commit -------------------------------------------------------------------- */

/** A global transaction id; an X/Open XID fits. */
struct lladd_gid {
    int64_t format;          /**< not -1 */
    uint32_t gtrid_length;   /**< 1 to 64 */
    uint32_t bqual_length;   /**< 0 to 64 */
    unsigned char data[128]; /**< gtrid, then bqual */
};

/** Prepares: after 0 the transaction can be committed or aborted whatever happens, and the prepare
 *  record is durable. Then only commit, abort and lladd_heuristic_end are legal. LLADD_EXISTS if
 *  the id
 *  is in use, also by a heuristic outcome that has not been forgotten; LLADD_OPEN_ACTION inside a
 *  top action. */
LLADD_API int lladd_prepare(struct lladd_txn *, const struct lladd_gid *);
/** The same without waiting, for a thread that prepares many transactions. The caller must not
 *  report the transaction as prepared before lladd_wait_durable(*out) has returned 0; until then a
 *  crash
 *  may roll it back. Commit and abort are legal at once. Participants are not told when the record
 *  is durable (`prepared`), so locks that could be released then stay until the end. */
LLADD_API int lladd_prepare_async(struct lladd_txn *, const struct lladd_gid *, lladd_lsn *out);

struct lladd_in_doubt_info {
    struct lladd_gid gid;
    lladd_lsn txn;
    int64_t prepared_us; /**< wall clock, microseconds since 1970 */
    bool claimed;        /**< the program has its handle */
    char owner[64];
};
typedef int lladd_in_doubt_fn(void *ctx, const struct lladd_in_doubt_info *);
/** Calls fn for every transaction that is prepared and not ended. Not 0 stops with that code. */
LLADD_API int lladd_in_doubt_each(struct lladd_db *, lladd_in_doubt_fn *, void *ctx,
                             struct lladd_error *);
/** Hands out, once, an in-doubt transaction found by recovery (then LLADD_BUSY). The caller commits
 *  or aborts it. LLADD_HEUR_COMMITTED, LLADD_HEUR_ABORTED: an administrator has already ended it
 *  (lladd_heuristic_end). */
LLADD_API int lladd_in_doubt_claim(struct lladd_db *, const struct lladd_gid *,
                                   struct lladd_txn **out, struct lladd_error *);

enum lladd_outcome { LLADD_OUTCOME_COMMIT = 1, LLADD_OUTCOME_ABORT = 2 };

/** Ends a prepared transaction by an administrator's decision, because its coordinator cannot be
 *  asked. The outcome is remembered, durably when the call returns 0, until lladd_heuristic_forget:
 *  a call
 *  that claims the transaction gets the outcome, and its global id stays in use. Consumes the
 *  handle as lladd_commit does; LLADD_BAD_STATE if the transaction is not prepared. Older libraries
 *  cannot open a database in which this was used. */
LLADD_API int lladd_heuristic_end(struct lladd_txn *, enum lladd_outcome);

struct lladd_heuristic_info {
    struct lladd_gid gid;
    enum lladd_outcome outcome;
    int64_t prepared_us, decided_us; /**< wall clock, microseconds since 1970 */
    char owner[64];
};
typedef int lladd_heuristic_fn(void *ctx, const struct lladd_heuristic_info *);
/** Calls fn for every remembered outcome. Not 0 stops with that code. */
LLADD_API int lladd_heuristic_each(struct lladd_db *, lladd_heuristic_fn *, void *ctx,
                               struct lladd_error *);
/** Forgets an outcome, durably, because its coordinator has learnt it. LLADD_NOT_FOUND if there is
 *  none. */
LLADD_API int lladd_heuristic_forget(struct lladd_db *, const struct lladd_gid *,
                                     struct lladd_error *);

/* ---- transactions that another thread may take over (docs/threads.md) --------------------- */

/** Makes the calling thread the user of the transaction. The first call also guards the
 *  transaction: from then on a call by any other thread changes nothing and returns LLADD_TAKEN.
 *  The thread that began the transaction makes the first call, before another thread knows the
 *  transaction. Any thread may make a later one, at any time before the transaction ends, also
 *  while the transaction is in a call of its present user: that call, or the open nested top
 *  action, runs to its end first. With `stop`, no further call begins meanwhile, and a wait for a
 *  lock ends with LLADD_TAKEN within a tenth of a second. LLADD_TIMEOUT if the call has not ended
 *  after `wait_ns` (UINT64_MAX: no limit); nothing has changed then. LLADD_CLOSED: the transaction
 *  has ended. Do not call it with a page held.
 *
 *  The handle of a guarded transaction stays valid after the end for the threads it was taken from:
 *  each call returns LLADD_TAKEN or LLADD_CLOSED, until lladd_txn_drop has been called once for
 *  each of
 *  these threads. */
LLADD_API int lladd_txn_take(struct lladd_txn *, bool stop, uint64_t wait_ns);
/** The calling thread stops using a guarded transaction: no thread uses it until the next
 *  lladd_txn_take, which does not wait. False if another thread had taken it over: then
 *  lladd_txn_drop must
 *  be called for the calling thread. */
LLADD_API bool lladd_txn_give(struct lladd_txn *);
/** A thread from which the transaction was taken over will not use the handle any more. Call it
 *  from any thread, before lladd_close. */
LLADD_API void lladd_txn_drop(struct lladd_txn *);

/* ---- for extensions (DESIGN 2a) ---------------------------------------------------------- */

/** Sets the transaction's state of a participant, once in each transaction (then LLADD_EXISTS). */
LLADD_API int lladd_txn_join(struct lladd_txn *, const struct lladd_participant *, void *state);
/** The state set with lladd_txn_join; NULL if the participant has not joined. */
LLADD_API void *lladd_txn_joined(const struct lladd_txn *, const struct lladd_participant *);

/** The present state of a transaction. */
struct lladd_txn_now {
    /** The number that the next savepoint will have. An extension stores it with each change it
     *  makes; in rolled_back_to(id) the changes with a number greater than id are those made after
     *  the savepoint. */
    lladd_savepoint_id next;
    bool rolling_back; /**< a compensation is running */
    bool page_held;    /**< the thread has fixed a page of the database: it must not wait */
    /** Set in `rolled_back_to` and `undone`, until the next of them: the changes made when
     *  `next` was greater than this have been undone. That includes top actions that
     *  were closed without undo. Savepoints and top actions share their numbers. 0: no such call so
     *  far. */
    lladd_savepoint_id undone;
    unsigned actions; /**< open top actions */
};
/** For extensions that follow a transaction; read-only transactions are allowed. LLADD_BAD_STATE if
 *  it is prepared, the poison's code if the handle is poisoned. */
LLADD_API int lladd_txn_now_get(struct lladd_txn *, struct lladd_txn_now *out);

/** Connects a logged object record with the moment its change is in memory. */
struct lladd_token {
    uint64_t private_[2];
};
/** Logs a record of an object (a number below 2^48 - 1) that is not a page. The caller then changes
 *  the object and calls lladd_object_applied, before its next call on the transaction; until then
 *  lladd_object_applied_lsn does not pass the record. *lsn gets the record's LSN. */
LLADD_API int lladd_log_object(struct lladd_txn *, const struct lladd_object_class *,
                               uint64_t object, struct lladd_span redo, struct lladd_span undo,
                               struct lladd_token *, lladd_lsn *lsn);
LLADD_API void lladd_object_applied(struct lladd_txn *, struct lladd_token *);
/** Most redo plus undo bytes that lladd_log_object accepts (lladd_options.log_ring_bytes). */
LLADD_API size_t lladd_log_object_max(struct lladd_db *);
/** Logs tagged bytes without redo or undo, for readers of the log. The database remembers the tag
 *  as it does an operation's name. *lsn is nullable. */
LLADD_API int lladd_log_note(struct lladd_txn *, const char *tag, struct lladd_span,
                             lladd_lsn *lsn);
/** The end of the durable log. */
LLADD_API lladd_lsn lladd_durable_lsn(struct lladd_db *);
/** Waits until the record at `lsn` is durable; writes and syncs the log if necessary. Unlike
 *  lladd_wait_durable it runs no callback of a participant, so an extension may call it while it
 *  holds
 *  latches of its own. LLADD_BAD_ARGUMENT beyond the end of the log. */
LLADD_API int lladd_log_force(struct lladd_db *, lladd_lsn lsn, struct lladd_error *);
/** Asks the log's thread to make the log durable soon up to its present end; does not wait.
 *  False: there is no such thread (LLADD_OPT_NO_THREADS). */
LLADD_API bool lladd_log_force_soon(struct lladd_db *);
/** Every object record below this LSN has been applied (lladd_object_applied). */
LLADD_API lladd_lsn lladd_object_applied_lsn(struct lladd_db *);

/** The LSN of the newest commit; all earlier commits are visible, too. After recovery or an open it
 *  may be slightly above the last commit, but it is below any new one. The snapshot is held until
 *  it is released. */
LLADD_API int lladd_snapshot_acquire(struct lladd_db *, lladd_lsn *out, struct lladd_error *);
LLADD_API int lladd_snapshot_release(struct lladd_db *, lladd_lsn);
/** The oldest snapshot held; the newest commit if none is held. */
LLADD_API lladd_lsn lladd_snapshot_oldest(struct lladd_db *);

/** A record as readers of the log see it. Its spans are valid until the cursor's next call. */
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
struct lladd_log_cursor;
/** Opens a cursor on the log from the first record at or after `from` (0: the oldest). With `name`
 *  (nullable) it returns only records of this operation, class or note tag. A cursor does not keep
 *  the log from being truncated: pin what must stay (lladd_pin_set). */
LLADD_API int lladd_log_open(struct lladd_db *, lladd_lsn from, const char *name,
                             struct lladd_log_cursor **out, struct lladd_error *);
/** The next record; LLADD_END after the last durable one. LLADD_CORRUPT_LOG or LLADD_MISSING_FILE,
 *  with the LSN, where damage may hide a record at or after `from`. */
LLADD_API int lladd_log_next(struct lladd_log_cursor *, struct lladd_log_entry *,
                             struct lladd_error *);
LLADD_API int lladd_log_read(struct lladd_log_cursor *, lladd_lsn, struct lladd_log_entry *,
                             struct lladd_error *);
LLADD_API void lladd_log_close(struct lladd_log_cursor *);
LLADD_API const char *lladd_log_kind_name(unsigned kind);

/** Keeps the log from `lsn` on under a name until lladd_pin_clear; the pin is durable when the call
 *  returns and survives a restart. Setting a name again moves its pin. LLADD_OUT_OF_RANGE if that
 *  part of the log is gone. */
LLADD_API int lladd_pin_set(struct lladd_db *, const char *name, lladd_lsn lsn,
                            struct lladd_error *);
LLADD_API int lladd_pin_clear(struct lladd_db *, const char *name, struct lladd_error *);

/** What keeps the log from being truncated further. */
struct lladd_pinner {
    /** "page", "transaction", "prepared", "class", "pin", "checkpoint"; or "undo": the log space
     *  reserved for rolling back active transactions exceeds the log that is needed */
    const char *kind;
    lladd_lsn lsn; /**< the log is needed from here on */
    uint64_t age_bytes; /**< of log from `lsn` to the end */
    lladd_lsn txn; /**< "transaction", "prepared"; "undo": the one with the largest reservation */
    uint64_t page;
    char name[64]; /**< gid in hex, class or pin name; "undo": how much, for how many */
};
LLADD_API int lladd_log_pinner(struct lladd_db *, struct lladd_pinner *, struct lladd_error *);

/** Prepares bulk writing (DESIGN 9): redo of earlier records will never again touch the pages
 *  [first, first+n). Part of the transaction; call it before lladd_bulk_write. Cached copies of the
 *  pages are dropped, and changes in them are never written, however the transaction ends: the
 *  pages must hold nothing of value, like those of an extent just allocated. LLADD_BUSY: a thread
 *  has fixed one of the pages; nothing was dropped, and the call can be repeated. */
LLADD_API int lladd_redo_barrier(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Writes whole pages without logging them. `page_type` NULL: raw, all bytes are the extension's;
 *  otherwise the library fills in the page headers. Durable after lladd_bulk_sync, which must
 *  precede the commit that publishes the pages. */
LLADD_API int lladd_bulk_write(struct lladd_txn *, lladd_pageno first, uint64_t n,
                               const char *page_type, void *bytes);
LLADD_API int lladd_bulk_sync(struct lladd_txn *);
LLADD_API int lladd_bulk_read(struct lladd_db *, lladd_pageno first, uint64_t n, bool raw,
                              void *bytes, struct lladd_error *);
/** Extends the page file to hold `pages` pages; their space on the device is then allocated. */
LLADD_API int lladd_pages_extend(struct lladd_db *, uint64_t pages, struct lladd_error *);
/** Drops cached copies of freed pages; their contents are never written. Call it after the commit
 *  that frees them is durable. */
LLADD_API int lladd_pages_discard(struct lladd_db *, lladd_pageno first, uint64_t n);

/* ---- statistics -------------------------------------------------------------------------- */

struct lladd_stats {
    size_t struct_size;
    uint64_t begun, committed, aborted, prepared, active, in_doubt;
    uint64_t log_tail, log_durable, log_oldest, log_bytes, log_records, log_groups, log_syncs,
        log_segments, log_disk_bytes, log_waits, undo_reserved;
    uint64_t checkpoints, checkpoint_lsn,
        redo_bytes; /**< log since the last checkpoint's redo start */
    uint64_t pages, cache_hits, cache_misses, pages_read, pages_written, page_syncs, evictions,
        repairs, dirty_pages, cache_bytes, page_images;
    uint64_t recovered_records, recovered_redone, recovered_undone_txns, recovery_ns,
        recovery_analysis_ns, recovery_redo_ns; /**< parts of recovery_ns; redo is that of pages */
    uint64_t lost_writes; /**< pages read that were older than this handle's last write of them;
                               each was repaired or gave an error */
    uint64_t pages_behind; /**< pages that instant recovery has still to redo */
    uint64_t log_limit_bytes; /**< as in the options; UINT64_MAX: no limit */
    uint64_t losers_left; /**< lladd_losers_left */
    uint64_t recovery_memory; /**< bytes that instant recovery uses besides the cache */
    uint64_t recovery_memory_most; /**< the most it has used so far: see recovery_bytes */
    uint64_t recovered_early; /**< records that instant recovery redid before lladd_open returned,
                                   in passes over the log; part of recovered_redone */
};
/** Fills as much as out->struct_size says. Works on a poisoned handle as well. */
LLADD_API int lladd_stats_get(struct lladd_db *, struct lladd_stats *);
/** Every statistic as name and value ("log.syncs", "op.counter.add.count"); not 0 stops. */
typedef int lladd_stat_fn(void *ctx, const char *name, uint64_t value);
LLADD_API int lladd_stat_each(struct lladd_db *, lladd_stat_fn *, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
