/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SIM_H
#define LLADD_SIM_H
/**
 * @file
 * @brief The recovery simulator: given operations, a workload and a check of the result, it
 * simulates every crash of the workload and the recovery from the crash.
 *
 * A *subject* is a test. Its functions register operations, prepare a database, run a workload and
 * check the recovered database. It may also have a small model of the expected contents.
 * lladd_sim_explore runs the workload once on a simulated disk, which records for every byte
 * whether it is durable. Then it runs recovery from every disk state that a crash could have left.
 * It also simulates crashes during these recoveries, up to a limit (`depth`). Each failure has a
 * *token*, a short text with which lladd_sim_replay repeats the run and writes its history.
 * sim/README.md says what a simulated crash can do and what it cannot.
 *
 * An exploration uses no files and forks no process. Explorations share no data, so any number may
 * run at a time, each in one thread. Programs that use this header link lladd::sim instead of
 * lladd::lladd.
 * @ingroup sim
 */
#include <lladd/lladd.h>
#include <lladd/sim_contract.h>
#include <lladd/twophase.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A running exploration; the argument of a workload. */
struct lladd_sim;
struct lladd_store;
struct lladd_store_filter;
struct lladd_archive;
struct lladd_environment;

/* ---- subjects -------------------------------------------------------------------------------- */

/** Situations in which an exploration is expected to have called an operation's callbacks. */
enum lladd_sim_path {
    LLADD_SIM_REDO = 0,         /**< recovery redoes a record */
    LLADD_SIM_UNDO = 1,         /**< a rollback or a recovery calls `undo` or `compensate` */
    LLADD_SIM_UNDO_PARTIAL = 2, /**< a recovery undoes a transaction that a crash interrupted */
    LLADD_SIM_REDO_CLR = 3,     /**< recovery redoes a compensation record of the operation */
    LLADD_SIM_CRASH_1 = 4,      /**< a recovery redoes or undoes, after a crash in one recovery */
    LLADD_SIM_CRASH_2 = 5,      /**< the same, after crashes in two recoveries in a row */
    LLADD_SIM_CRASH_3 = 6,      /**< the same, after crashes in three recoveries in a row */
    LLADD_SIM_PATHS = 7
};
/** Returns the name of a path: "redo", "undo", "undo-partial", "redo-clr", "crash-1", "crash-2" or
 *  "crash-3". */
LLADD_API const char *lladd_sim_path_name(enum lladd_sim_path);

/** Paths that an operation need not take. The last element of an array has `op` NULL. */
struct lladd_sim_excuse {
    const char *op;  /**< the operation's name; "*": any operation */
    unsigned paths;  /**< 1u << LLADD_SIM_..., or'ed */
    const char *why; /**< the reason, one line */
};

/** A test. Callbacks return 0 or a code of error.h with *err filled in. A callback may depend only
 *  on its arguments, on `ctx` as `setup` left it, and on the database, because it is called any
 *  number of times, also on earlier states of the database. A callback must not be NULL unless its
 *  comment says "Nullable". */
struct lladd_sim_subject {
    size_t struct_size;
    const char *name;  /**< at most 63 bytes of [a-z0-9_.-] */
    const char *about; /**< one line */
    void *ctx;
    /** Registers operations. May change the options, in which the simulator has set a cache of 64
     *  pages and log segments of 8 KiB. Must not set `device`, `allocator` or `world`, nor the
     *  flags LLADD_OPT_ATOMIC_PAGES and LLADD_OPT_NO_THREADS, because the simulator sets these.
     *  Nullable */
    int (*configure)(void *ctx, struct lladd_options *, struct lladd_error *);
    /** Makes the data for the workload, once, before the first crash. May store data in `ctx`, for
     *  example page numbers. If the callback returns an error, it must fill in the error struct; if
     *  a call on a transaction has failed, it copies lladd_txn_error there. Then it need not end
     *  its transaction. Nullable */
    int (*setup)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Runs the workload. The callback must be deterministic. For its transactions it must use the
     *  calls of the section "what a workload calls", so that the simulator knows what the library
     *  has promised. The simulator neither commits nor aborts transactions that are open when the
     *  callback returns: the simulated process ends with open transactions. */
    int (*run)(void *ctx, struct lladd_sim *, struct lladd_db *, struct lladd_error *);
    /** Checks a recovered database. Any error is a failure (oracle O3). Nullable */
    int (*check)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Writes the contents of the database in any form; equal contents must give equal bytes.
     *  Nullable */
    int (*dump)(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
    /** Size of the model in bytes: memory without pointers, zeroed before `model_init`. 0: the
     *  subject has no model, and contents are not compared. */
    size_t model_size;
    void (*model_init)(void *ctx, void *model); /**< gives the model the contents of the database
                                                     after `setup`. Nullable */
    /** Applies one noted step of a transaction to the model (lladd_sim_note). Called in the order
     *  of commits; for one transaction in the order of its notes. */
    void (*model_apply)(void *ctx, void *model, struct lladd_span note);
    /** Writes the bytes that `dump` must write for a database with the model's contents. */
    int (*model_dump)(void *ctx, const void *model, struct lladd_sink *);
    /** Writes a note as text, for the history. Nullable: then notes are written in hexadecimal */
    void (*describe)(void *ctx, struct lladd_span note, struct lladd_sink *);
    /** Commits new work in a recovered database; an error is a failure (oracle O6). Nullable: then
     *  the simulator allocates, writes and frees a page. */
    int (*go_on)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Calls `fn` for each page of the subject's structures. These pages must be allocated, and any
     *  other allocated page is a leak (oracle O10). If `fn` does not return 0, stops and returns
     *  that value. Nullable: then allocated pages are not checked */
    int (*pages)(void *ctx, struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                 struct lladd_error *);
    /** Names of the operations that must take all paths; the array ends with NULL. If the member is
     *  NULL, these are all operations that the workload runs, except those of the library (with
     *  names that begin with "lladd."). A path that an operation cannot take needs no excuse, for
     *  example undo with LLADD_UNDO_NONE. */
    const char *const *operations;
    const struct lladd_sim_excuse *excuses; /**< paths that need not be taken; nullable */
    /** True if `run` may be called again on the database that its last call has left. The simulator
     *  ends open transactions before this call. lladd_sim_random makes large workloads this way. */
    bool repeats;
    /** Number of threads of a workload for lladd_sim_interleave, 2 to LLADD_SIM_THREADS_MAX; each
     *  thread calls `run_thread` with its own number, from 0. The threads wait for each other only
     *  with <lladd/sync.h>. They may prepare transactions, but must not roll back a prepared one
     *  with lladd_sim_abort. `run` may then be NULL: a simulation with one thread calls
     *  `run_thread` for one number after the other. */
    uint32_t threads;
    int (*run_thread)(void *ctx, struct lladd_sim *, struct lladd_db *, unsigned thread,
                      struct lladd_error *);
    /** If true, the library's own threads run too in lladd_sim_interleave: the checkpointer, the
     *  page writer and the log's worker. */
    bool background;
    /** Checks transactions in doubt, for example that they hold their locks. The simulator calls it
     *  for every recovered database, before it ends the transactions in doubt. Must change nothing.
     *  Any error is a failure (oracle O9). Nullable */
    int (*in_doubt)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Used only with instant recovery. Works in a recovered database while redo of some pages is
     *  pending. The simulator also tries crashes during this work, as it does during the recovery.
     *  Must leave the contents unchanged. Nullable: then the simulator allocates, writes and frees
     *  a page. */
    int (*meanwhile)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** The number of bytes of disk space that are left after `setup`. When they are used up, a
     *  device call that makes a file longer returns -ENOSPC, also in recoveries. 0: no limit. */
    uint64_t disk_room;
    /** If true, the simulator opens each database with an archive (lladd_ship_register) in the
     *  store lladd_sim_store(). The subject calls lladd_archive_step(lladd_sim_archive()). */
    bool archives;
    /** The contents of all objects in the store lladd_sim_store() pass through this filter
     *  (lladd/ship.h), which must be deterministic. Nullable */
    const struct lladd_store_filter *filter;
};

/* ---- what a workload calls --------------------------------------------------------------- */

/** Calls lladd_begin. This function and the following ones, up to lladd_sim_heuristic_forget, each
 *  call the library function of the same name, and record its promises for the simulator. */
LLADD_API int lladd_sim_begin(struct lladd_sim *, struct lladd_db *,
                              const struct lladd_txn_options *, struct lladd_txn **out,
                              struct lladd_error *);
/** Calls lladd_commit, and records its promise. */
LLADD_API int lladd_sim_commit(struct lladd_sim *, struct lladd_txn *);
/** Calls lladd_commit_async, and records its promise. */
LLADD_API int lladd_sim_commit_async(struct lladd_sim *, struct lladd_txn *, lladd_lsn *out);
/** Calls lladd_wait_durable, and records its promise. */
LLADD_API int lladd_sim_wait_durable(struct lladd_sim *, struct lladd_db *, lladd_lsn,
                                     struct lladd_error *);
/** Calls lladd_abort, and records its promise. */
LLADD_API int lladd_sim_abort(struct lladd_sim *, struct lladd_txn *);
/** Calls lladd_savepoint, and records its promise. */
LLADD_API int lladd_sim_savepoint(struct lladd_sim *, struct lladd_txn *, lladd_savepoint_id *out);
/** Calls lladd_rollback_to, and records its promise. */
LLADD_API int lladd_sim_rollback_to(struct lladd_sim *, struct lladd_txn *, lladd_savepoint_id);
/** Calls lladd_prepare, and records its promise. */
LLADD_API int lladd_sim_prepare(struct lladd_sim *, struct lladd_txn *, const struct lladd_gid *);
/** Calls lladd_heuristic_end, and records its promise. */
LLADD_API int lladd_sim_heuristic_end(struct lladd_sim *, struct lladd_txn *, enum lladd_outcome);
/** Calls lladd_heuristic_forget, and records its promise. */
LLADD_API int lladd_sim_heuristic_forget(struct lladd_sim *, struct lladd_db *,
                                         const struct lladd_gid *, struct lladd_error *);
/** Notes a step that the transaction has done. The simulator copies the bytes, and passes them to
 *  `model_apply` if the transaction commits. The workload makes this call after the calls of the
 *  step, and before its next call on the transaction. */
LLADD_API int lladd_sim_note(struct lladd_sim *, struct lladd_txn *, const void *bytes, size_t len);
/** Makes one read of this page return wrong bytes: the next read of the page from the page file.
 *  The bytes in the file stay right. Only the workload may make this call, and only while the page
 *  is not in the cache. Reads in a recovery return the right bytes. In contract checks
 *  (sim_contract.h) the call has no effect. */
LLADD_API void lladd_sim_misread(struct lladd_sim *, lladd_pageno);
/** Makes one read of the log return a wrong byte: the next read of more than 256 bytes of a log
 *  segment. The bytes in the file stay right. Only the workload may make this call. Reads in a
 *  recovery return the right bytes. Returns false in contract checks (sim_contract.h), where the
 *  call has no effect; else true. */
LLADD_API bool lladd_sim_misread_log(struct lladd_sim *);

/* ---- backups and archives (lladd/ship.h) --------------------------------------------------- */

/** Returns the store of the simulation that runs in this thread. The objects of the store are files
 *  of the simulated disk, in the directory "store" beside the database. So each `put` and each
 *  `remove` makes device calls; each of these calls may fail, and a crash may happen at each of
 *  them. All callbacks of a subject except `configure` may call the functions of this section. */
LLADD_API struct lladd_store *lladd_sim_store(void);
/** Returns the archive of the database if the subject's `archives` is true; else NULL. */
LLADD_API struct lladd_archive *lladd_sim_archive(void);
/** Returns an environment with a clock and random bytes that are the same in each run. A workload
 *  must use it for its backups and restores (lladd_backup_options.world); otherwise the workload is
 *  not deterministic. */
LLADD_API const struct lladd_environment *lladd_sim_world(void);
/** Makes the store unavailable, or available again. Each call of an unavailable store returns
 *  LLADD_STORE_FAILED and makes no device call. During a recovery the store is available. */
LLADD_API void lladd_sim_store_away(bool away);
/** Makes the store full, or ends this state. Each `put` of a full store returns LLADD_NO_SPACE and
 *  makes no device call. During a recovery the store is not full. */
LLADD_API void lladd_sim_store_full(bool full);

/* ---- exploring --------------------------------------------------------------------------- */

enum {
    /** Tries every combination of versions of all pages, instead of varying one page at a time. The
     *  number of combinations is exponential, so this is only for a few pages. The verdicts must be
     *  the same as without the flag. */
    LLADD_SIM_FULL_PRODUCT = 1,
    LLADD_SIM_NO_POWER = 2, /**< simulates no loss of power */
    LLADD_SIM_NO_KILL = 4,  /**< simulates no death of the process, after which everything written
                                 remains */
    LLADD_SIM_ATOMIC_PAGES = 8, /**< the device never tears a page, and databases are opened with
                LLADD_OPT_ATOMIC_PAGES */
    LLADD_SIM_NO_COVERAGE = 16, /**< a path that no run has taken is not a failure */
    /** lladd_sim_interleave: tries schedules with random priorities instead of all schedules;
     *  accesses to shared words are scheduling points too. */
    LLADD_SIM_RANDOM_SCHEDULES = 32,
    LLADD_SIM_INSTANT = 64, /**< databases are opened with LLADD_RECOVER_INSTANT */
    /** Only with LLADD_SIM_ATOMIC_PAGES. The runs take turns: the workload uses
     *  LLADD_OPT_ATOMIC_PAGES, the first recovery does not, the second does, and so on. Only a run
     *  that uses the option has page writes that are never torn. */
    LLADD_SIM_TURNS = 128
};

#define LLADD_SIM_DEPTH_MAX 8u
#define LLADD_SIM_THREADS_MAX 16u /**< the maximum number of threads of a subject */

/** Limits of an exploration. Zero means the default, for every member. Use
 *  LLADD_SIM_BOUNDS_INIT. */
struct lladd_sim_bounds {
    size_t struct_size;
    uint32_t flags;
    uint32_t depth;  /**< number of crashes in a row, including the first: 1 to LLADD_SIM_DEPTH_MAX.
                                Default 4; with the default, lladd_sim_explore makes the last crash
                                only in one recovery of each kind (sim/README.md) */
    uint64_t states; /**< stop after this many crash states; a run or crash point that adds no state
                          counts as a fraction of a state. Default: no limit */
    uint64_t milliseconds; /**< stop after about this time; afterwards lladd_sim_random may use as
                                much time again to make a failure smaller. Default: no limit */
    uint64_t seed;         /**< seed of all random numbers that the databases use. Default 1 */
    uint32_t failures;     /**< stop after this many failures. Default 1 */
    uint32_t calls_max;    /**< the maximum number of device calls of one run; a run with more calls
                                counts as an endless loop. Default 100,000 */
    uint64_t planted;      /**< bugs of the library that are switched on: LLADD_BUG_MASK (dst.h) */
    /* For lladd_sim_errors: */
    uint32_t points;  /**< number of crashes after which errors are tried during the recovery.
                           Default 4 */
    uint32_t samples; /**< number of random crash states that are tried after each error. Two more
                           states are always tried: all pending device calls have taken effect, and
                           none has. Default 1; UINT32_MAX: no random states */
    uint32_t every;   /**< if this is n, a fault is tried only at each n-th call that it can hit.
                           Default 1 */
    /* For lladd_sim_interleave: */
    uint32_t preemptions; /**< the maximum number of preemptions in a schedule. A preemption
                               interrupts a thread that could go on. Default 2; UINT32_MAX: no
                               preemptions */
    uint64_t schedules;   /**< stop after this many schedules. Default: no limit; 1000 for random
                               schedules */
};
#define LLADD_SIM_BOUNDS_INIT_SIZE sizeof(struct lladd_sim_bounds)
#define LLADD_SIM_BOUNDS_INIT LLADD_SIZED_INIT(lladd_sim_bounds)

/** The oracle that has reported a violation; the numbers are those of sim/README.md. */
enum lladd_sim_oracle {
    LLADD_SIM_O_NONE = 0,
    LLADD_SIM_O_LOST = 1,         /**< O1: an acknowledged commit is lost */
    LLADD_SIM_O_CONTENTS = 2,     /**< O2: the contents match no allowed state */
    LLADD_SIM_O_CHECK = 3,        /**< O3: the subject's `check` returns an error */
    LLADD_SIM_O_WAL = 4,          /**< O4: a page was written before its log */
    LLADD_SIM_O_AGAIN = 5,        /**< O5: a second recovery gives other contents */
    LLADD_SIM_O_PROGRESS = 6,     /**< O6: work in the recovered database fails */
    LLADD_SIM_O_REBUILD = 7,      /**< O7: a page differs from its rebuild from the whole log */
    LLADD_SIM_O_ERRORS = 8,       /**< O8: a call did not report an error, or a later call promised
                                       durability */
    LLADD_SIM_O_IN_DOUBT = 9,     /**< O9: the prepared transactions are not those from before the
                                       crash */
    LLADD_SIM_O_LEAK = 10,        /**< O10: an allocated page is not used, or a used page is not
                                       allocated */
    LLADD_SIM_O_OPEN = 11,        /**< O11: recovery failed */
    LLADD_SIM_O_MEMORY = 12,      /**< memory was not freed */
    LLADD_SIM_O_LOOP = 13,        /**< too many device calls */
    LLADD_SIM_O_DETERMINISM = 14, /**< a repeated run differed */
    LLADD_SIM_O_COVERAGE = 15,    /**< a path was never reached */
    LLADD_SIM_O_WORKLOAD = 16,    /**< setup or run failed without any fault */
    LLADD_SIM_O_DEADLOCK = 17,    /**< O17: a thread waits, and nothing will ever wake it */
    LLADD_SIM_O_ONE_PAGE = 18,    /**< O18: redo or undo touched more than its page and its bytes */
    LLADD_SIM_O_UNDO_MAX = 19,    /**< O19: a logical undo logs more bytes or fixes more pages than
                                       its operation declares */
    LLADD_SIM_O_INSPECT = 20,     /**< O20: inspection reports damage in files that a crash has
                                       left */
    LLADD_SIM_ORACLES = 21
};
/** Returns the oracle's name, for example "O2 contents"; never NULL. */
LLADD_API const char *lladd_sim_oracle_name(enum lladd_sim_oracle);

#define LLADD_SIM_TOKEN_MAX 64u

struct lladd_sim_failure {
    enum lladd_sim_oracle oracle;
    char token[LLADD_SIM_TOKEN_MAX + 1]; /**< "" if the failure does not belong to one run
                                              (coverage) */
    uint32_t depth;                      /**< number of crashes in a row */
    char message[512];                   /**< one line */
};

/** The paths that an exploration has taken for one operation. */
struct lladd_sim_coverage {
    const char *op;
    uint32_t version;
    uint64_t runs;                   /**< number of runs of the operation by the workload */
    uint64_t paths[LLADD_SIM_PATHS]; /**< number of times each path was taken */
    unsigned missing;                /**< 1u << path, or'ed: paths that were never taken and have
                                          no excuse */
};

struct lladd_sim_report {
    size_t struct_size;
    char subject[64];
    uint32_t flags;
    uint32_t depth;
    uint64_t seed;
    bool complete;        /**< everything within the bounds was explored */
    uint64_t calls;       /**< number of device calls of the workload. The simulator considered a
                               crash before each of them */
    uint64_t acks;        /**< number of promises that the library made to the workload */
    uint64_t states;      /**< number of different crash states that were recovered and judged */
    uint64_t kill_states; /**< number of these states that are deaths of the process */
    uint64_t depth_states[LLADD_SIM_DEPTH_MAX + 1]; /**< element n: number of states after n crashes
                                                         in a row */
    uint64_t worlds_seen; /**< number of crash points that were skipped because they were equal to
                               an earlier crash point */
    uint64_t endings;     /**< number of different recoveries; all oracles judged each of them */
    uint64_t choices;     /**< number of decisions about which writes survived */
    uint64_t nanoseconds; /**< duration of the exploration */
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
    uint32_t n_coverage;
    const struct lladd_sim_coverage *coverage;
    /* Only set by lladd_sim_interleave: */
    uint64_t schedules;   /**< number of runs of the workload; 0: the workload had one thread */
    uint64_t recordings;  /**< number of runs with device calls or promises that no earlier run
                               had */
    uint64_t turns;       /**< the maximum number of places in one run at which another thread could
                               have gone on */
    uint32_t preemptions; /**< the maximum number of preemptions that a run could have */
};

/** Explores a subject. Returns 0 if the exploration could run, even if it found failures: see
 *  (*out)->n_failures. After an error (bad subject or bounds, no memory) *out is NULL. Release the
 *  report with lladd_sim_report_free. */
LLADD_API int lladd_sim_explore(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                                struct lladd_sim_report **out, struct lladd_error *);
/** Repeats the run of a token. Writes the run's history as text to `history` (nullable): the
 *  workload, the device calls, the writes that survived, the decisions of recovery, and the
 *  oracle's finding. Of the bounds (nullable) the call uses only `calls_max` and `planted`; the
 *  token contains the other settings. The report contains the failure if it happens again.
 *  LLADD_BAD_ARGUMENT if the text is not a token, is damaged, or belongs to another subject or
 *  another version of the subject; the message says which of these is the case. */
LLADD_API int lladd_sim_replay(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               const char *token, struct lladd_sink *history,
                               struct lladd_sim_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_report_free(struct lladd_sim_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_report_text(const struct lladd_sim_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_report_json(const struct lladd_sim_report *, struct lladd_sink *);

/* ---- several threads ----------------------------------------------------------------------- */

/** Runs the workload of a subject that has `threads`, once in each schedule. A schedule decides at
 *  each scheduling point (enum lladd_dst_point, dst.h) which thread goes on; it has at most
 *  lladd_sim_bounds.preemptions preemptions. A run ends when its last thread has ended. If a run
 *  has device calls or promises that no earlier run had, its crashes are explored as by
 *  lladd_sim_explore, without the crash states that were seen before. A deadlock, an endless run
 *  and a thread that returns an error are failures, too. Unlike lladd_sim_explore, this call
 *  simulates no close and no crash inside a record, and does not check coverage. Its arguments and
 *  its result are those of lladd_sim_explore. */
LLADD_API int lladd_sim_interleave(const struct lladd_sim_subject *,
                                   const struct lladd_sim_bounds *, struct lladd_sim_report **out,
                                   struct lladd_error *);

/* ---- errors -------------------------------------------------------------------------------- */

/** Faults. Most faults are errors that a device call returns. With SYNC_LATE a sync returns 0, and
 *  the next sync of the same file returns the error. With SYNC_ELSEWHERE a sync returns 0, and the
 *  error goes to a file descriptor outside of the library. With the faults from READ_NONE on, no
 *  call returns an error. X(name, "text", "what"). */
#define LLADD_SIM_FAULT_LIST(X) \
    X(OPEN, "open", "EIO: opening an existing file") \
    X(CREATE, "create", "EIO: creating a file") \
    X(READ, "read", "EIO: reading") \
    X(WRITE, "write", "EIO: writing; nothing was written") \
    X(WRITE_BYTE, "write-byte", "EIO: writing; one byte was written") \
    X(WRITE_SECTOR, "write-sector", "EIO: writing; one sector was written") \
    X(WRITE_BUT_ONE, "write-but-one", "EIO: writing; all bytes but one were written") \
    X(WRITE_ALL, "write-all", "EIO: writing; all bytes were written") \
    X(APPEND, "append", "EIO: writing at the end of a file") \
    X(SYNC, "sync", "EIO: a sync; writes arrive in part, and no later sync helps") \
    X(SYNC_LOST, "sync-lost", "EIO: a sync; nothing arrives, the cache calls the bytes clean") \
    X(SYNC_REVERTED, "sync-reverted", "EIO: a sync; nothing arrives, the cache has the old bytes") \
    X(SYNC_LATE, "sync-lies-late", "a sync returns 0, nothing arrives; the next sync fails") \
    X(SYNC_ELSEWHERE, "sync-lies", "a sync returns 0, nothing arrives; its error goes elsewhere") \
    X(TRUNCATE, "truncate", "EIO: setting a file's size") \
    X(RENAME, "rename", "EIO: renaming a file") \
    X(UNLINK, "unlink", "EIO: removing a file") \
    X(SYNC_DIR, "sync-dir", "EIO: a sync of a directory") \
    X(MKDIR, "mkdir", "EIO: making a directory") \
    X(LIST, "list", "EIO: listing a directory") \
    X(LOCK, "lock", "EIO: taking the lock") \
    X(SIZE, "size", "EIO: reading a file's size") \
    X(CLOSE, "close", "EIO: closing a file") \
    X(SPACE, "space", "ENOSPC: a call that makes a file or directory grow") \
    X(FILES, "files", "EMFILE: opening, creating, locking") \
    X(READ_ONLY, "read-only", "EROFS: a call that changes something") \
    X(INTERRUPTED, "interrupted", "EINTR: any call but a close") \
    X(AGAIN, "again", "EAGAIN: any call but a close or the lock") \
    X(MEMORY, "memory", "an allocation of memory fails") \
    X(READ_NONE, "read-none", "a read returns no bytes, although the file has more") \
    X(READ_BYTE, "read-byte", "a read returns one byte, although the file has more") \
    X(READ_SECTOR, "read-sector", "a read returns one sector, although the file has more") \
    X(READ_BUT_ONE, "read-but-one", "a read returns all but one byte, although the file has more") \
    X(PAGE_LOST, "page-lost", "a write of pages returns 0 and is not done") \
    X(PAGE_ASTRAY, "page-astray", "a write of pages returns 0 and goes elsewhere")
enum lladd_sim_fault {
#define LLADD_SIM_FAULT_ENUM(name, text, what) LLADD_SIM_FAULT_##name,
    LLADD_SIM_FAULT_LIST(LLADD_SIM_FAULT_ENUM)
#undef LLADD_SIM_FAULT_ENUM
        LLADD_SIM_FAULTS
};
/** Returns the fault's name, for example "sync-lost"; never NULL. */
LLADD_API const char *lladd_sim_fault_name(enum lladd_sim_fault);

/** The results for one kind of fault. */
struct lladd_sim_fault_counts {
    uint64_t chances;  /**< number of calls that the fault could have hit, in the runs in which it
                            hit no call */
    uint64_t once;     /**< number of runs in which the fault hit one call */
    uint64_t for_ever; /**< number of runs in which the fault hit one call and all later calls */
    uint64_t recovery; /**< number of the runs of `once` and `for_ever` in which the call was in a
                            recovery */
    uint64_t close;    /**< number of the runs of `once` and `for_ever` in which the call was in a
                            close that aborts transactions and takes a checkpoint */
    uint64_t returned; /**< number of runs in which a call of the library then returned an error */
    uint64_t absorbed; /**< number of runs in which no call of the library returned an error: the
                            device call was not needed, or the library made another device call
                            instead */
    uint64_t poisoned; /**< number of runs that ended with a poisoned handle */
    bool hole;         /**< the fault could have hit a call, and never hit one */
};

struct lladd_sim_errors_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    bool complete;         /**< all runs within the bounds were done */
    uint32_t points;       /**< number of crashes after which faults were tried in the recovery */
    uint64_t runs;         /**< number of runs with a fault */
    uint64_t states;       /**< number of crash states after these runs that were recovered and
                                judged */
    uint64_t full_refused; /**< number of opens that failed because the disk was full, and after
                                which the next open succeeded */
    uint64_t nanoseconds;
    struct lladd_sim_fault_counts faults[LLADD_SIM_FAULTS];
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** Runs the workload with each fault at each device call that the fault can hit. In one run the
 *  fault hits only that call. If the fault can last, it hits that call and all later calls in
 *  another run. The simulator also tries the faults in the creation of a database, and in the
 *  recoveries from a few crashes. It chooses these crashes so that together the recoveries take all
 *  steps of recovery. It checks the results of the calls, and recovers the disk with a working
 *  device (sim/README.md). Of the bounds it ignores `depth` and the flag
 *  LLADD_SIM_RANDOM_SCHEDULES. With LLADD_SIM_NO_COVERAGE, a fault that never hit a call is not a
 *  failure. The result is that of lladd_sim_explore; lladd_sim_replay repeats the run of a
 *  token. */
LLADD_API int lladd_sim_errors(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_errors_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_errors_free(struct lladd_sim_errors_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_errors_text(const struct lladd_sim_errors_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_errors_json(const struct lladd_sim_errors_report *, struct lladd_sink *);

/* ---- silent damage --------------------------------------------------------------------------- */

/** Silent damage: errors of a disk that no device call reports. X(name, "text", "what"). */
#define LLADD_SIM_DAMAGE_LIST(X) \
    X(FLIP, "flip", "one bit is flipped") \
    X(ZERO, "zero", "a page or sector is zeros") \
    X(GARBAGE, "garbage", "a sector is noise") \
    X(LOST, "lost", "a write was not done: the old bytes are still there") \
    X(MISDIRECTED, "misdirected", "a write went to another place") \
    X(MISREAD, "misread", "one read returns bytes of another place, or a wrong bit") \
    X(TRUNCATED, "truncated", "a file is shorter, or missing") \
    X(FOREIGN, "foreign", "a file or a page belongs to another database") \
    X(OLDER, "older", "an older state of one file, of the pages, or of all but the pages")
enum lladd_sim_damage_kind {
#define LLADD_SIM_DAMAGE_ENUM(name, text, what) LLADD_SIM_DAMAGE_##name,
    LLADD_SIM_DAMAGE_LIST(LLADD_SIM_DAMAGE_ENUM)
#undef LLADD_SIM_DAMAGE_ENUM
        LLADD_SIM_DAMAGE_KINDS
};
/** Returns the name of the damage, for example "flip". */
LLADD_API const char *lladd_sim_damage_name(enum lladd_sim_damage_kind);

/** The result of a damage. */
enum lladd_sim_damage_end {
    LLADD_SIM_REPAIRED = 0,     /**< the contents are right, and the damage was repaired */
    LLADD_SIM_DETECTED = 1,     /**< lladd_open, a read or inspection has reported the damage */
    LLADD_SIM_HARMLESS = 2,     /**< only unused bytes were damaged; such damage need not be
                                     reported */
    LLADD_SIM_UNDETECTABLE = 3, /**< no remaining data shows the damage; sim/README.md lists the
                                     reasons */
    LLADD_SIM_WRONG = 4,        /**< a failure: wrong contents, or damage that was not reported */
    LLADD_SIM_DAMAGE_ENDS = 5
};
/** Returns the name of the result, for example "repaired". */
LLADD_API const char *lladd_sim_damage_end_name(enum lladd_sim_damage_end);

/** The reasons why damage need not be reported. X(name, "text"). */
#define LLADD_SIM_REASON_LIST(X) \
    X(UNUSED_LOG, "log space that holds no record") \
    X(UNNAMED, "the log's first records after a truncation, if nothing left refers to them") \
    X(TAIL, "above watermark and witness after an unclean stop: like a torn tail (LOG-3)") \
    X(FREE, "a page that is free, or was never used") \
    X(RAW, "a page of a raw extent: its bytes and checksums are its owner's") \
    X(CONTROL_GAP, "between and after the two copies in control") \
    X(DWB, "the double-write area when no page needs it") \
    X(UNPROVED, "a lost write to a page: no retained record is about it") \
    X(BULK, "a lost bulk write: the log has neither the contents nor a later change") \
    X(ZEROS, "a read that returns zeros: the page may never have been used (BUF-6)") \
    X(WHOLE, "a consistent older state: no page is newer than its log")
enum lladd_sim_reason {
#define LLADD_SIM_REASON_ENUM(name, text) LLADD_SIM_REASON_##name,
    LLADD_SIM_REASON_LIST(LLADD_SIM_REASON_ENUM)
#undef LLADD_SIM_REASON_ENUM
        LLADD_SIM_REASONS
};
/** Returns the reason as text, a static string. */
LLADD_API const char *lladd_sim_reason_text(enum lladd_sim_reason);

struct lladd_sim_damage_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    bool complete;     /**< all possible damages were tried */
    uint64_t possible; /**< number of possible damages */
    uint64_t done;     /**< number of damages tried */
    uint64_t counts[LLADD_SIM_DAMAGE_KINDS][LLADD_SIM_DAMAGE_ENDS];
    uint64_t by_open, by_read, by_inspection; /**< numbers of damages that lladd_open, a read, or
                                                   inspection was the first to detect */
    uint64_t reasons[LLADD_SIM_REASONS];      /**< number of harmless or undetectable damages with
                                                   each reason */
    uint64_t nanoseconds;
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** Damages the files that a subject's workload leaves after a close, a kill or a loss of power. It
 *  tries one damage at a time, and checks the result. `states` of the bounds is the number of
 *  damages that it tries, spread evenly over the kinds (0: all damages). It also uses
 *  `milliseconds`, `seed`, `failures` and `planted`. The result is that of lladd_sim_explore;
 *  lladd_sim_replay repeats the run of a token. */
LLADD_API int lladd_sim_damage(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_damage_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_damage_free(struct lladd_sim_damage_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_damage_text(const struct lladd_sim_damage_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_damage_json(const struct lladd_sim_damage_report *, struct lladd_sink *);

/* ---- at random ------------------------------------------------------------------------------- */

/** Returns a random number for `run`, so that the workload can differ from seed to seed. Runs with
 *  the same seed get the same numbers. */
LLADD_API uint64_t lladd_sim_random_u64(struct lladd_sim *);

/** Counts for one fault, or for crashes at one kind of place. */
struct lladd_sim_fired {
    const char *name;
    uint64_t offered, fired; /**< how often the simulator could have made the fault or the crash
                                  happen; how often it did */
};

struct lladd_sim_random_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    uint64_t workloads; /**< number of workloads; each had its own options, repetitions and
                             errors */
    uint64_t runs;      /**< number of calls of the subject's `run` */
    uint64_t refused;   /**< number of repetitions of `run` that ended with an error such as
                             LLADD_EXISTS or LLADD_LOG_FULL */
    uint64_t calls;     /**< number of device calls of the workloads */
    uint64_t points;    /**< number of places at which the workloads crashed */
    uint64_t states;    /**< number of recoveries; the oracles checked each of them */
    uint64_t disturbed; /**< number of recoveries in which an error happened, and that then
                             crashed */
    uint64_t depth_states[LLADD_SIM_DEPTH_MAX + 1];
    uint32_t n_fired; /**< number of elements of `fired`. A fault or crash that was often possible
                           and never happened is a failure (O15) */
    const struct lladd_sim_fired *fired;
    uint64_t nanoseconds;
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** Tests a workload that is too large to explore. Runs the workload repeatedly, with varying random
 *  numbers, sizes of cache and log, repetitions of `run`, and occasional errors. Simulates crashes
 *  of the workload at places of each kind; a random part of the pending writes survives. Simulates
 *  crashes of the recoveries in the same way. Stops after `states` crash states (default 20,000) or
 *  after `milliseconds`. The result is that of lladd_sim_explore; lladd_sim_replay repeats the run
 *  of a token. */
LLADD_API int lladd_sim_random(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_random_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_random_free(struct lladd_sim_random_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_random_text(const struct lladd_sim_random_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_random_json(const struct lladd_sim_random_report *, struct lladd_sink *);

/* ---- the library's subjects ---------------------------------------------------------- */

/** Returns the library's subjects, in an array that ends with NULL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_subjects(void);
/** Returns the library's subject of that name; NULL if no subject has the name. */
LLADD_API const struct lladd_sim_subject *lladd_sim_subject_find(const char *name);

/** The type of a plug-in's function. A plug-in is a shared object that is given to `lladd-sim`. It
 *  exports the function under the name LLADD_SIM_PLUGIN_SYMBOL. The function returns an array of
 *  subjects that ends with NULL. */
typedef const struct lladd_sim_subject *const *lladd_sim_plugin_fn(void);
#define LLADD_SIM_PLUGIN_SYMBOL "lladd_sim_plugin"

#ifdef __cplusplus
}
#endif
#endif
