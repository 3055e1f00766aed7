/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LLADD_H
#define LLADD_LLADD_H
/**
 * @file
 * @brief The public interface: databases, transactions, updates, top actions, two-phase commit.
 *
 * Conventions. Functions return 0 or a negative code (error.h). Handle first, outputs last. A call
 * that fails with a misuse or resource error has changed nothing (API-1). Errors of a transaction's
 * calls are in lladd_txn_error; a call on a shared handle takes a nullable `struct lladd_error *`
 * last. A database handle may be used by any number of threads; a transaction by one at a time, not
 * necessarily the same. Isolation between transactions is the caller's (paper, section 2.1).
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

/** What lladd_commit waits for. WAL order is kept in all of them (docs/durability.md). */
enum lladd_durability {
    LLADD_DURABILITY_DEFAULT = 0,
    LLADD_DURABLE = 1,      /**< on the device: survives power loss */
    LLADD_DURABLE_OS = 2,   /**< handed to the operating system: survives the process */
    LLADD_DURABLE_LATER = 3 /**< in the process; durable some time later, in order */
};

enum lladd_frames {
    LLADD_FRAMES_AUTO = 0,
    LLADD_FRAMES_RESERVED = 1, /**< reserved address space, one state word a page */
    LLADD_FRAMES_HEAP = 2      /**< heap arena and hash table: small budgets, 32-bit machines */
};

/** When an open after a crash returns (docs/decisions/instant-recovery.md). What anybody sees is
 *  the same. */
enum lladd_recovery {
    /** When every page is redone. The checkpoint that writes them back is taken in the background,
     *  or before, without threads. */
    LLADD_RECOVER_FULL = 0,
    /** Before: a page is redone when it is first fetched, the others in the background (without
     *  threads: by lladd_maintain), then a checkpoint is taken; one that is asked for earlier, and
     *  lladd_close, wait for that. A page that is damaged beyond repair makes the fix of that page
     *  fail, and checkpoints with it, but not the open. Unfinished transactions are rolled back
     *  before as well, but for those all of whose changes a participant protects
     *  (lladd_participant.protect): these are rolled back in the background. */
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

/** Recovery goes on: called now and then, from the thread that opens. */
typedef void lladd_progress_fn(void *ctx, enum lladd_phase, lladd_lsn at, unsigned percent);
/** One line of recovery's transcript of decisions, without newline. */
typedef void lladd_transcript_fn(void *ctx, const char *line);

struct lladd_registry;

/** Zero means default, everywhere. Use LLADD_OPTIONS_INIT. */
struct lladd_options {
    size_t struct_size;
    uint32_t flags;
    uint32_t page_size;        /**< 4096 to 65536, a power of two; at creation only. Default 4096 */
    uint64_t cache_bytes;      /**< budget of the page cache, tables included. Default 64 MiB */
    uint64_t log_ring_bytes;   /**< log buffer, a power of two up to 2^30; the longest record is a
                                    quarter. At least 16 pages, and five eighths of it what the
                                    operations registered need at once (lladd_op.record_max,
                                    record_pages, credit_max): lladd_open refuses less, and says
                                    how much. Default 8 MiB */
    uint64_t log_segment_min;  /**< first log segment, a power of two from 4096. Default 1 MiB */
    uint64_t log_segment_max;  /**< segments grow up to this. Default 64 MiB */
    uint64_t log_limit_bytes;  /**< most log on disk. Default 4 GiB; UINT64_MAX: none */
    uint64_t checkpoint_bytes; /**< a checkpoint after so much log: bounds recovery. Default: 64
                                    MiB, or, if many pages are dirty or were logged as images since
                                    the last one, four times their bytes, at most 512 MiB or an
                                    eighth of log_limit_bytes */
    uint32_t redo_threads;     /**< in redo, each with a share of the pages; without threads one
                                    share after the other. Default: the processors online, at
                                    most 8, and one for less than 4 MiB of log */
    enum lladd_frames frames;
    enum lladd_durability durability; /**< default of transactions; DEFAULT means LLADD_DURABLE */
    struct lladd_device *device;      /**< not NULL: used instead of POSIX files below `dir` */
    const struct lladd_allocator *allocator;
    const struct lladd_world *world;
    lladd_progress_fn *progress;
    lladd_transcript_fn *transcript;
    void *callback_ctx; /**< for the two above */
    struct lladd_registry
        *registry; /**< filled by lladd_register*; lladd_options_release frees it */
    enum lladd_recovery recovery;
    uint64_t recovery_bytes; /**< memory that an instant recovery may take besides the cache, for
                                  what it knows of pages that are behind the log. Pages that have
                                  no room there are redone before lladd_open returns. Default: a
                                  quarter of cache_bytes, at least 32 MiB */
    uint32_t file_mode; /**< of POSIX files that are made: lladd_device_posix_mode. Default 0600 */
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

/** Adds an operation (page type, class, participant, extension) to what lladd_open will know.
 *  Registering the same descriptor twice is fine; the same name and version with another descriptor
 *  is LLADD_BAD_REGISTRATION, as is a contradictory one. Copies nothing: descriptors must outlive
 * the handles opened with these options. */
LLADD_API int lladd_register(struct lladd_options *, const struct lladd_op *, struct lladd_error *);
LLADD_API int lladd_register_page_type(struct lladd_options *, const struct lladd_page_type *,
                                       struct lladd_error *);
LLADD_API int lladd_register_class(struct lladd_options *, const struct lladd_object_class *,
                                   struct lladd_error *);
LLADD_API int lladd_register_participant(struct lladd_options *, const struct lladd_participant *,
                                         struct lladd_error *);
LLADD_API int lladd_register_extension(struct lladd_options *, const struct lladd_extension *,
                                       struct lladd_error *);
/** Frees the registry. Open handles are not affected. */
LLADD_API void lladd_options_release(struct lladd_options *);

/* ---- databases ----------------------------------------------------------------------------- */

/** Opens the database in directory `dir`, creating it if the directory is absent or empty, and
 *  recovers it: when it returns 0, every acknowledged commit is there, nothing else is, prepared
 *  transactions are in doubt (REC-1). `options` may be NULL. LLADD_LOCKED names the holder's pid;
 *  LLADD_NO_OPERATION the operation, before any page is touched. */
LLADD_API int lladd_open(const char *dir, const struct lladd_options *options,
                         struct lladd_db **out, struct lladd_error *err);
/** Aborts open transactions, leaves prepared ones in doubt, takes a checkpoint so that the next
 * open has nothing to redo, releases everything. The handle is gone whatever is returned; an error
 * means that the next open has to recover. It has to after 0, too, if a class had no space for what
 * it writes in a checkpoint: all that was committed is durable then. Only LLADD_BAD_STATE means
 * that nothing was done: the thread holds a page. No other thread may be using the handle. */
LLADD_API int lladd_close(struct lladd_db *);
/** Releases the handle without writing anything: as if the process had died here. */
LLADD_API void lladd_kill(struct lladd_db *);
/** The first cause of the handle's poison; 0 and *err untouched if it is healthy. */
LLADD_API int lladd_db_error(struct lladd_db *, struct lladd_error *err);
LLADD_API uint32_t lladd_page_size(const struct lladd_db *);
LLADD_API uint64_t lladd_page_count(const struct lladd_db *);
/** 16 bytes, made at creation. */
LLADD_API void lladd_db_uuid(const struct lladd_db *, unsigned char out[16]);
/** The state an extension's attach made; NULL if it is not registered with this handle. */
LLADD_API void *lladd_state(struct lladd_db *, const struct lladd_extension *);
/** Memory, time and chance of the handle, for extensions. */
LLADD_API void *lladd_alloc(struct lladd_db *, size_t);
LLADD_API void *lladd_resize(struct lladd_db *, void *, size_t);
LLADD_API void lladd_free(struct lladd_db *, void *);
LLADD_API uint64_t lladd_now_ns(struct lladd_db *);
/** Bytes nobody can foretell (in the simulator: those of its seed). 0 or negative errno. */
LLADD_API int lladd_random(struct lladd_db *, void *buf, size_t len);
/** The id of a registered operation: LLADD_NOT_FOUND if it is not. */
LLADD_API int lladd_op_lookup(struct lladd_db *, const char *name, uint32_t version,
                              lladd_op_id *out);
/** What was registered under a name: for tools that run operations by themselves. NULL if nothing
 *  was (version 0: any). */
LLADD_API const struct lladd_op *lladd_op_descriptor(struct lladd_db *, const char *name,
                                                     uint32_t version);
LLADD_API const struct lladd_page_type *lladd_page_type_descriptor(struct lladd_db *,
                                                                   const char *name);
/** How many transactions that a crash has cut short are still to be rolled back, behind an open
 *  with LLADD_RECOVER_INSTANT. What they had given up (pages, slots, room) they may want back: who
 *  keeps account of that in memory lets nobody have it until this is 0. Any thread, under any
 *  latch. */
LLADD_API uint64_t lladd_losers(struct lladd_db *);
/** Takes a fuzzy checkpoint now and truncates the log as far as nobody pins it. */
LLADD_API int lladd_checkpoint(struct lladd_db *, struct lladd_error *);
/** One step of background work, for handles without threads; *more (nullable): there is more. After
 *  an instant recovery that is some of what is left of undo, then the redo of some pages, too, and
 *  the checkpoint behind the last one; LLADD_CORRUPT_PAGE if a page cannot be redone. */
LLADD_API int lladd_maintain(struct lladd_db *, bool *more, struct lladd_error *);

/* ---- transactions -------------------------------------------------------------------------- */

struct lladd_txn_options {
    size_t struct_size;
    bool read_only; /**< updates are refused; commit waits for what it may have seen (TXN-1) */
    bool system;    /**< a structure's own: not aborted with a user's, marked in the log */
    /** log_limit_bytes does not refuse it: for what lets the log be truncated when it has
     *  committed, and writes little itself. A part of the limit is kept for that; beyond it the
     *  log goes over the limit until the next checkpoint */
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

/** options may be NULL. Writes nothing until the first update. */
LLADD_API int lladd_begin(struct lladd_db *, const struct lladd_txn_options *,
                          struct lladd_txn **out, struct lladd_error *);
/** Returns 0 when the transaction is durable (or as its durability says). Consumes the handle when
 *  it returns 0 or poison; otherwise the transaction is as it was. */
LLADD_API int lladd_commit(struct lladd_txn *);
/** Atomic and ordered when it returns, durable when lladd_wait(*out) has returned 0. Consumes the
 *  handle like lladd_commit. *out is 0 when there is nothing to wait for. */
LLADD_API int lladd_commit_async(struct lladd_txn *, lladd_lsn *out);
LLADD_API int lladd_wait(struct lladd_db *, lladd_lsn, struct lladd_error *);
/** Rolls back. Never fails for lack of space or memory (REC-3). Consumes the handle like commit. */
LLADD_API int lladd_abort(struct lladd_txn *);
/** Takes memory until it is released, dies or the transaction ends; nothing else. */
LLADD_API int lladd_savepoint(struct lladd_txn *, lladd_savepoint_id *out);
/** Takes back everything since the savepoint, open top actions included; the savepoint stays.
 *  LLADD_DEAD_SAVEPOINT if the action that contains it has closed (OP-6). */
LLADD_API int lladd_rollback_to(struct lladd_txn *, lladd_savepoint_id);
/** Forgets the savepoint and all that were made after it; what was done since stays done.
 *  LLADD_DEAD_SAVEPOINT as above. */
LLADD_API int lladd_savepoint_release(struct lladd_txn *, lladd_savepoint_id);
/** The last error of a call on this transaction; valid until its next call. */
LLADD_API const struct lladd_error *lladd_txn_error(const struct lladd_txn *);
/** The transaction's own struct, for extensions to report into (lladd_error_set). */
LLADD_API struct lladd_error *lladd_txn_error_out(struct lladd_txn *);
LLADD_API struct lladd_db *lladd_txn_db(const struct lladd_txn *);
/** LSN of its first record: its id in log and tools; 0 if it has written nothing. */
LLADD_API lladd_lsn lladd_txn_id(const struct lladd_txn *);

/* ---- pages and updates ------------------------------------------------------------------- */

enum lladd_latch { LLADD_LATCH_SHARED = 0, LLADD_LATCH_EXCLUSIVE = 1 };

/** Pins and latches a page. Exclusive is for lladd_update_page; the bytes are read-only outside
 * redo and undo in either mode (OP-1). The same thread unfixes it. As long as it holds a page,
 * calls that may wait are refused: lladd_update among them (docs/threads.md). */
LLADD_API int lladd_fix(struct lladd_db *, lladd_pageno, enum lladd_latch, struct lladd_page **out,
                        struct lladd_error *);
LLADD_API void lladd_unfix(struct lladd_db *, struct lladd_page *, enum lladd_latch);
LLADD_API struct lladd_view lladd_page_view(const struct lladd_page *);
/** A number that the page, which the caller holds, has not had before: it becomes another one with
 *  each change, and with each new life of the page. For a reader that lets go of the page and wants
 *  to know afterwards whether it has changed meanwhile; not for operations (OP-2). */
LLADD_API uint64_t lladd_page_version(const struct lladd_page *);
/** Does the view have this page type (by name, in this database)? */
LLADD_API bool lladd_page_is(struct lladd_db *, struct lladd_view, const char *page_type);
/** The type number the database gave to a page type; 0 if none yet. */
LLADD_API uint16_t lladd_page_type_number(struct lladd_db *, const char *page_type);
LLADD_API void lladd_prefetch(struct lladd_db *, lladd_pageno, uint64_t n);
/** Says that the byte at `offset` of a page's body will be looked at soon: if the page is
 * cached, its way from memory to the processor begins now, beside that of the page's header. */
LLADD_API void lladd_touch(struct lladd_db *, lladd_pageno, uint32_t offset);
/** The same for the page's header and for `len` bytes at `offset`, or as many of them as it pays to
 * send for; 0: for the header alone. */
LLADD_API void lladd_touch_span(struct lladd_db *, lladd_pageno, uint32_t offset, uint32_t len);

/** Runs the operation: latch, prepare, log, redo, stamp (OP-1..3; paper, section 2.2.2).
 *  LLADD_BAD_STATE if the thread holds a page of this database: what it may have to wait for (log
 *  space, a checkpoint) may wait for that page. */
LLADD_API int lladd_update(struct lladd_txn *, lladd_op_id, lladd_pageno, const void *args,
                           size_t len);
/** The same on a page the caller holds exclusively. Never waits for log space: take it with
 *  lladd_log_credit before latching. LLADD_BAD_STATE if it was not taken, or if the page is held
 *  shared; then nothing has changed. */
LLADD_API int lladd_update_page(struct lladd_txn *, lladd_op_id, struct lladd_page *held,
                                const void *args, size_t len);
/** Log space for `count` further records of the operation, page images included: afterwards the
 *  transaction has at least as much, what it had before counts. Up to the operation's credit_max is
 *  there whatever log_ring_bytes the database was opened with; LLADD_TOO_LARGE if a larger count
 *  asks for more than five eighths of it. LLADD_BAD_STATE if the thread holds a page (BUF-3).
 *
 *  Until it is put down again the thread waits for nothing but pages: neither for mutexes, locks
 *  and other threads, nor for credit of another transaction. What it waits for could be waiting for
 *  this credit. (Debug builds stop such a thread.) The transaction's next update, record or end
 *  puts it down, and so does asking for 0 (also under a latch), which belongs on the way out of
 *  errors, too: what is left stays with the transaction, or is given back where it is scarce. */
LLADD_API int lladd_log_credit(struct lladd_txn *, lladd_op_id, unsigned count);

#define LLADD_NO_OP UINT32_MAX

/** Records that are to come. LLADD_NO_OP: ends of nested top actions without logical undo. */
struct lladd_log_need {
    lladd_op_id op;
    unsigned count;
};
#define LLADD_LOG_NEEDS_MAX 8u
/** As lladd_log_credit, for all records of up to LLADD_LOG_NEEDS_MAX needs together: the way to
 *  change several pages with operations of several kinds. */
LLADD_API int lladd_log_credit_all(struct lladd_txn *, const struct lladd_log_need *, unsigned n);

/** A nested top action: between begin and end several pages change with physical undo; once it is
 *  closed, it is taken back only by the logical undo given at its end. Nests. */
struct lladd_action {
    uint64_t private_[4];
};
LLADD_API int lladd_nta_begin(struct lladd_txn *, struct lladd_action *);
/** Closes the innermost action. `op` (of undo kind LOGICAL) and its undo bytes are what takes
 * it back from now on; LLADD_NO_OP: nothing does. LLADD_BAD_STATE if it is not the innermost.
 * A compensation that a crash interrupts runs again, and what it did in an action that was
 * closed with LLADD_NO_OP is still there then: only what may happen twice belongs there
 * (OP-5). While the thread holds a page only with LLADD_NO_OP and log space from
 * lladd_log_credit_all; otherwise LLADD_BAD_STATE. */
LLADD_API int lladd_nta_end(struct lladd_txn *, struct lladd_action *, lladd_op_id op,
                            const void *undo, size_t len);
/** Takes back the innermost action physically and closes it. */
LLADD_API int lladd_nta_abort(struct lladd_txn *, struct lladd_action *);

/** The paper's lighter mechanism (section 2.4): first the logical inverse as an undo-only record,
 *  then redo-only records of which every prefix is consistent. The operation's compensate must be
 *  idempotent and restartable (OP-5). */
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

/** Promises that the transaction can be committed or aborted whatever happens: durable when it
 *  returns 0. After it only commit, abort and lladd_heuristic are legal. LLADD_EXISTS if the id is
 *  in use, also by a heuristic outcome that nobody has forgotten;
 *  LLADD_OPEN_ACTION inside a top action. */
LLADD_API int lladd_prepare(struct lladd_txn *, const struct lladd_gid *);
/** The same, for one thread that has many on the way: the promise holds when lladd_wait(*out) has
 *  returned 0, and must not be given to anybody before. Until then a crash may leave the
 *  transaction rolled back; commit and abort are legal at once. Participants are not told when it
 *  is durable (`prepared`), so locks that could go then stay until the end. */
LLADD_API int lladd_prepare_async(struct lladd_txn *, const struct lladd_gid *, lladd_lsn *out);

struct lladd_in_doubt_info {
    struct lladd_gid gid;
    lladd_lsn txn;
    int64_t prepared_us; /**< wall clock, microseconds since 1970 */
    bool claimed;        /**< somebody has its handle */
    char owner[64];
};
typedef int lladd_in_doubt_fn(void *ctx, const struct lladd_in_doubt_info *);
/** Calls fn for every transaction that is prepared and not finished. Not 0 stops with that code. */
LLADD_API int lladd_in_doubt(struct lladd_db *, lladd_in_doubt_fn *, void *ctx,
                             struct lladd_error *);
/** Hands out an in-doubt transaction found by recovery, once (then LLADD_BUSY); commit or abort it.
 *  LLADD_HEUR_COMMITTED, LLADD_HEUR_ABORTED: an administrator was faster (lladd_heuristic). */
LLADD_API int lladd_claim(struct lladd_db *, const struct lladd_gid *, struct lladd_txn **out,
                          struct lladd_error *);

enum lladd_outcome { LLADD_OUTCOME_COMMIT = 1, LLADD_OUTCOME_ABORT = 2 };

/** Ends a prepared transaction by an administrator's decision, because its coordinator cannot be
 *  asked. The outcome is remembered, durably when the call returns 0, until lladd_forget: whoever
 *  wants to claim the transaction is told, and its global id stays in use. Consumes the handle like
 *  lladd_commit; LLADD_BAD_STATE if it is not prepared. Older libraries cannot open a database in
 *  which this was used. */
LLADD_API int lladd_heuristic(struct lladd_txn *, enum lladd_outcome);

struct lladd_heuristic_info {
    struct lladd_gid gid;
    enum lladd_outcome outcome;
    int64_t prepared_us, decided_us; /**< wall clock, microseconds since 1970 */
    char owner[64];
};
typedef int lladd_heuristic_fn(void *ctx, const struct lladd_heuristic_info *);
/** Calls fn for every outcome that is remembered. Not 0 stops with that code. */
LLADD_API int lladd_heuristics(struct lladd_db *, lladd_heuristic_fn *, void *ctx,
                               struct lladd_error *);
/** Forgets an outcome, durably; its coordinator knows it now. LLADD_NOT_FOUND if there is none. */
LLADD_API int lladd_forget(struct lladd_db *, const struct lladd_gid *, struct lladd_error *);

/* ---- transactions that another thread may take over (docs/threads.md) --------------------- */

/** Makes the calling thread the one that uses the transaction, and guards the transaction from then
 *  on: a call by any other thread changes nothing and returns LLADD_TAKEN. The first lladd_take is
 *  the beginner's, before another thread knows the transaction; every later one may come from any
 *  thread, at any time before the transaction ends, also while the thread that uses it is in a
 *  call: that call, or the nested top action that is open, runs to its end first. With `stop` no
 *  call begins meanwhile, and a wait for a lock ends with LLADD_TAKEN, within a tenth of a second.
 *  LLADD_TIMEOUT when the call has not ended after `wait_ns` (UINT64_MAX: no limit): then nothing
 *  has changed; LLADD_CLOSED: the transaction has ended. Do not call it with a page held.
 *
 *  The handle of a guarded transaction stays valid after the end, for the threads it was taken
 *  from: each call returns LLADD_TAKEN or LLADD_CLOSED, until lladd_drop has been called once for
 *  each of them. */
LLADD_API int lladd_take(struct lladd_txn *, bool stop, uint64_t wait_ns);
/** The calling thread has done with a guarded transaction, which it used: no thread uses it until
 *  the next lladd_take, which does not wait. False if it had been taken over: then the thread is
 *  one that lladd_drop is for. */
LLADD_API bool lladd_give(struct lladd_txn *);
/** A thread from which the transaction was taken over will not name the handle any more. Any
 *  thread; before lladd_close. */
LLADD_API void lladd_drop(struct lladd_txn *);

/* ---- for extensions (DESIGN 2a) ---------------------------------------------------------- */

/** Makes `state` the transaction's state of a participant (once per transaction; LLADD_EXISTS). */
LLADD_API int lladd_join(struct lladd_txn *, const struct lladd_participant *, void *state);
/** What lladd_join gave; NULL if it has not joined. */
LLADD_API void *lladd_joined(const struct lladd_txn *, const struct lladd_participant *);

/** Where a transaction is. */
struct lladd_txn_now {
    lladd_savepoint_id next; /**< what the next savepoint will be called. Who notes it with what it
                                  does now, knows at rolled_back_to(id) that this happened behind
                                  the savepoint: just what has a greater number than id did */
    bool rolling_back;       /**< a compensation is running */
    /** In `rolled_back_to` and `taken_back`, and until the next of them: what was done when `next`
     *  was greater than this is what was taken back; closed top actions with it, whose records
     *  nothing takes back. Savepoints and top actions share their numbers. 0: never yet */
    lladd_savepoint_id taken_back;
    unsigned actions; /**< top actions that are open */
};
/** For extensions that follow a transaction. Read-only ones are fine; LLADD_BAD_STATE if it is
 *  prepared, the poison's code if the handle is poisoned. */
LLADD_API int lladd_txn_now(struct lladd_txn *, struct lladd_txn_now *out);

/** Ties a logged object record to the moment its effect is in memory. */
struct lladd_token {
    uint64_t private_[2];
};
/** Logs a record of an object (a number below 2^48 - 1) that is not a page. The caller then changes
 * its object and says so with lladd_applied, before its next call on the transaction; until then
 * lladd_applied_lsn waits. *lsn gets the record's LSN. */
LLADD_API int lladd_log_object(struct lladd_txn *, const struct lladd_object_class *,
                               uint64_t object, struct lladd_span redo, struct lladd_span undo,
                               struct lladd_token *, lladd_lsn *lsn);
LLADD_API void lladd_applied(struct lladd_txn *, struct lladd_token *);
/** So many redo and undo bytes together lladd_log_object takes (lladd_options.log_ring_bytes). */
LLADD_API size_t lladd_log_object_max(struct lladd_db *);
/** Logs tagged bytes without redo or undo, for readers of the log. The tag gets a place in the
 *  catalogue. *lsn is nullable. */
LLADD_API int lladd_log_note(struct lladd_txn *, const char *tag, struct lladd_span,
                             lladd_lsn *lsn);
/** End of the stable log. */
LLADD_API lladd_lsn lladd_durable_lsn(struct lladd_db *);
/** Waits until the record at `lsn` is durable: writes and syncs the log if need be. Unlike
 *  lladd_wait it runs no callback of a participant, so that an extension may call it while it holds
 *  latches of its own. LLADD_BAD_ARGUMENT beyond the end of the log. */
LLADD_API int lladd_force(struct lladd_db *, lladd_lsn lsn, struct lladd_error *);
/** Asks the log's thread to make durable before long what is logged now, and waits for nothing.
 *  False: there is no such thread (LLADD_OPT_NO_THREADS). */
LLADD_API bool lladd_force_soon(struct lladd_db *);
/** Nothing below it is logged but not yet applied. */
LLADD_API lladd_lsn lladd_applied_lsn(struct lladd_db *);

/** The newest commit all of whose predecessors are visible; behind a recovery or an open perhaps an
 *  LSN behind it, below any later commit's. Held until released. */
LLADD_API int lladd_snapshot_acquire(struct lladd_db *, lladd_lsn *out, struct lladd_error *);
LLADD_API int lladd_snapshot_release(struct lladd_db *, lladd_lsn);
/** The oldest snapshot held, or the newest commit if none is. */
LLADD_API lladd_lsn lladd_snapshot_oldest(struct lladd_db *);

/** A record as readers of the log see it. Spans live until the cursor's next call. */
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
/** A cursor over the log at or after `from` (0: the oldest). `name` (nullable): only records of
 * this operation, class or note tag. The log is not kept for it: pin what must stay. */
LLADD_API int lladd_log_open(struct lladd_db *, lladd_lsn from, const char *name,
                             struct lladd_log_cursor **out, struct lladd_error *);
/** LLADD_END behind the last durable record. LLADD_CORRUPT_LOG or LLADD_MISSING_FILE, with the LSN,
 *  where damage may hide a record at or after `from`. */
LLADD_API int lladd_log_next(struct lladd_log_cursor *, struct lladd_log_entry *,
                             struct lladd_error *);
LLADD_API int lladd_log_read(struct lladd_log_cursor *, lladd_lsn, struct lladd_log_entry *,
                             struct lladd_error *);
LLADD_API void lladd_log_close(struct lladd_log_cursor *);
LLADD_API const char *lladd_log_kind_name(unsigned kind);

/** Keeps the log from `lsn` on under a name until lladd_pin_clear; durable when it returns,
 * survives restart. Setting a name again moves it. LLADD_OUT_OF_RANGE if that part is gone. */
LLADD_API int lladd_pin_set(struct lladd_db *, const char *name, lladd_lsn lsn,
                            struct lladd_error *);
LLADD_API int lladd_pin_clear(struct lladd_db *, const char *name, struct lladd_error *);

/** What keeps the log from being truncated further. */
struct lladd_pinner {
    /** "page", "transaction", "prepared", "class", "pin", "checkpoint"; or "undo": what is set
     *  aside for rolling back open transactions takes more than the log that is needed */
    const char *kind;
    lladd_lsn lsn; /**< the log is needed from here on */
    uint64_t age_bytes; /**< of log behind that */
    lladd_lsn txn; /**< "transaction", "prepared"; "undo": the one that has most set aside */
    uint64_t page;
    char name[64]; /**< gid in hex, class or pin name; "undo": how much, for how many */
};
LLADD_API int lladd_log_pinner(struct lladd_db *, struct lladd_pinner *, struct lladd_error *);

/** Bulk writing (DESIGN 9): redo of earlier lives of pages [first, first+n) will never touch them
 * again. Part of the transaction; call before lladd_bulk_write. Cached copies of the pages are
 * dropped, and what was changed in them is never written, whatever becomes of the transaction: the
 * pages hold nothing that anybody still wants, as those of an extent just allocated do.
 * LLADD_BUSY: a page is fixed by somebody; nothing was dropped, and the call can be made again. */
LLADD_API int lladd_fence(struct lladd_txn *, lladd_pageno first, uint64_t n);
/** Writes whole pages past the log. `page_type` NULL: raw, the bytes are the extension's; else
 * PAGED: the library fills in the page headers. Durable after lladd_bulk_sync, which must precede
 * the commit that publishes them. */
LLADD_API int lladd_bulk_write(struct lladd_txn *, lladd_pageno first, uint64_t n,
                               const char *page_type, void *bytes);
LLADD_API int lladd_bulk_sync(struct lladd_txn *);
LLADD_API int lladd_bulk_read(struct lladd_db *, lladd_pageno first, uint64_t n, bool raw,
                              void *bytes, struct lladd_error *);
/** Extends the page file to hold `pages` pages; space for them is then never missing. */
LLADD_API int lladd_extend(struct lladd_db *, uint64_t pages, struct lladd_error *);
/** Forgets cached copies of freed pages; their contents are never written. After the freeing commit
 * is durable. */
LLADD_API int lladd_discard(struct lladd_db *, lladd_pageno first, uint64_t n);

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
    uint64_t lost_writes; /**< pages read older than this handle had written them: repaired, or an
                               error */
    uint64_t pages_behind; /**< pages that instant recovery has still to redo */
    uint64_t log_limit_bytes; /**< as in the options; UINT64_MAX: none */
    uint64_t losers_behind; /**< lladd_losers */
    uint64_t recovery_memory; /**< bytes that instant recovery holds besides the cache */
    uint64_t recovery_memory_most; /**< and has held at most: see recovery_bytes */
    uint64_t recovered_early; /**< records that instant recovery has redone before the open
                                   returned, in passes over the log; part of recovered_redone */
};
/** Fills as much as out->struct_size says. Works on a poisoned handle as well. */
LLADD_API int lladd_stats(struct lladd_db *, struct lladd_stats *);
/** Every statistic as name and value ("log.syncs", "op.counter.add.count"); not 0 stops. */
typedef int lladd_stat_fn(void *ctx, const char *name, uint64_t value);
LLADD_API int lladd_stat_each(struct lladd_db *, lladd_stat_fn *, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
