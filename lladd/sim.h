/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SIM_H
#define LLADD_SIM_H
/**
 * @file
 * @brief The recovery simulator: hand it your operations, a workload and a way to check the result,
 * and it recovers from every crash that the workload can meet.
 *
 * A *subject* is what is put to the test: functions that register operations, prepare a database,
 * run a workload and look at what recovery made of it, and a small model of what should be there.
 * lladd_sim_explore runs the workload once on a simulated disk that knows for every byte whether it
 * is durable, and then recovers from every state a crash could have left, and from the crashes of
 * those recoveries, up to a depth. What is wrong comes back with a *token*: a short text with which
 * lladd_sim_replay does the same again and tells the story. sim/README.md says what a simulated
 * crash can do and what it cannot.
 *
 * No files are touched and no process is forked. Explorations share nothing: any number may run at
 * a time, each in one thread. Programs that use this link lladd::sim and not lladd::lladd.
 * @ingroup sim
 */
#include <lladd/lladd.h>
#include <lladd/sim_contract.h>
#include <lladd/twophase.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One exploration under way: what a workload gets. */
struct lladd_sim;

/* ---- subjects -------------------------------------------------------------------------------- */

/** Ways through an operation's callbacks that an exploration is expected to have gone. */
enum lladd_sim_path {
    LLADD_SIM_REDO = 0,         /**< redo by recovery */
    LLADD_SIM_UNDO = 1,         /**< undo or compensate, at rollback or by recovery */
    LLADD_SIM_UNDO_PARTIAL = 2, /**< undo by recovery of what a crash has cut short */
    LLADD_SIM_REDO_CLR = 3,     /**< redo of its compensation record by recovery */
    LLADD_SIM_CRASH_1 = 4,      /**< redo or undo by a recovery after a crash in recovery */
    LLADD_SIM_CRASH_2 = 5,      /**< after two of these in a row */
    LLADD_SIM_CRASH_3 = 6,      /**< after three */
    LLADD_SIM_PATHS = 7
};
/** "redo", "undo", "undo-partial", "redo-clr", "crash-1", "crash-2", "crash-3". */
LLADD_API const char *lladd_sim_path_name(enum lladd_sim_path);

/** A path that need not be reached. Arrays end with op NULL. */
struct lladd_sim_excuse {
    const char *op; /**< the operation's name; "*": any */
    unsigned paths; /**< 1u << LLADD_SIM_..., or'ed */
    const char *why;
};

/** What is put to the test. Callbacks return 0 or a code of error.h with *err filled in; none may
 *  depend on anything but its arguments, on ctx as `setup` left it, and on the database: they are
 *  called any number of times, also on databases of an earlier time. Nullable ones say so. */
struct lladd_sim_subject {
    size_t struct_size;
    const char *name;  /**< at most 63 bytes of [a-z0-9_.-] */
    const char *about; /**< one line */
    void *ctx;
    /** Registers operations, makes sizes other than the simulator's (a cache of 64 pages, a log of
     *  8 KiB segments, no threads). Device, allocator, world and flags are not its affair.
     *  Nullable */
    int (*configure)(void *ctx, struct lladd_options *, struct lladd_error *);
    /** Makes what the workload works on; before the first crash, once. May note page numbers and
     *  the like in ctx. If it fails, it fills *err in, also from lladd_txn_error; it need not end
     *  its transaction. Nullable */
    int (*setup)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** The workload. Its transactions go through the calls below, so that the simulator knows what
     *  was promised. Deterministic; leaves no transaction open that it wants rolled back or
     *  committed: those still open meet the end of the process. */
    int (*run)(void *ctx, struct lladd_sim *, struct lladd_db *, struct lladd_error *);
    /** Is everything in order? Any complaint is a failure (oracle O3). Nullable */
    int (*check)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Writes the contents, in a form of its own, equal for equal contents. Nullable */
    int (*dump)(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
    /** The model: plain memory without pointers, of this size, zeroed before model_init. 0: none,
     *  and the contents are then compared with nothing. */
    size_t model_size;
    void (*model_init)(void *ctx, void *model); /**< as setup leaves the database. Nullable */
    /** Does what a noted step of a transaction does (lladd_sim_note). Called for transactions in
     *  the order of their commits, for the notes of one in the order they were given. */
    void (*model_apply)(void *ctx, void *model, struct lladd_span note);
    /** Writes what `dump` is to write of a database with these contents. */
    int (*model_dump)(void *ctx, const void *model, struct lladd_sink *);
    /** Says what a note stands for, for the history. Nullable: hexadecimal */
    void (*describe)(void *ctx, struct lladd_span note, struct lladd_sink *);
    /** Something new in a recovered database, committed: must go well (oracle O6). Nullable: a page
     *  is allocated, written and freed. */
    int (*go_on)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** Calls fn for each page the subject's structures consist of: every other allocated page is a
     *  leak, and each of these must be allocated (oracle O10). Not 0 from fn stops and is what it
     *  returns. Nullable: not looked at */
    int (*pages)(void *ctx, struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                 struct lladd_error *);
    /** Names of the operations of which all paths must be reached; the array ends with NULL. NULL:
     *  all that the workload runs, but for the library's own ("lladd."). Paths that an operation
     *  cannot take, as the undo of one with LLADD_UNDO_NONE, need no excuse. */
    const char *const *operations;
    const struct lladd_sim_excuse *excuses; /**< nullable */
    /** `run` may be called again, on what it has left before (transactions it has left open are
     *  finished first): lladd_sim_random makes large workloads that way. */
    bool repeats;
    /** A workload of 2 to THREADS_MAX threads, for lladd_sim_interleave: each calls run_thread with
     *  a number of its own, from 0. They wait for each other with <lladd/sync.h> only, and prepare
     *  nothing. `run` may then be NULL: a simulation with one thread calls run_thread with one
     *  number after the other. */
    uint32_t threads;
    int (*run_thread)(void *ctx, struct lladd_sim *, struct lladd_db *, unsigned thread,
                      struct lladd_error *);
    /** lladd_sim_interleave lets the library's own threads take part: the checkpointer, the page
     *  writer, the log's worker. */
    bool background;
    /** Is everything as it should be while transactions are in doubt (their locks, say)? Asked of
     *  every recovered database, before they are finished; changes nothing. Any complaint is a
     *  failure (oracle O9). Nullable */
    int (*in_doubt)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** With instant recovery: runs in a recovered database while pages have pending redo, and is
     *  crashed like the recovery. Must leave the contents as they were. Nullable: a page is
     *  allocated, written and freed. */
    int (*meanwhile)(void *ctx, struct lladd_db *, struct lladd_error *);
    /** The disk has room for so many bytes more than what `setup` has made; then what makes a file
     *  longer fails with ENOSPC, in recoveries too. 0: there is no end. */
    uint64_t disk_room;
};

/* ---- what a workload calls --------------------------------------------------------------- */

/** lladd_begin, recorded: this call and the following ones do what the library's calls do, and
 *  record the promises for the simulator. */
LLADD_API int lladd_sim_begin(struct lladd_sim *, struct lladd_db *,
                              const struct lladd_txn_options *, struct lladd_txn **out,
                              struct lladd_error *);
/** lladd_commit, recorded. */
LLADD_API int lladd_sim_commit(struct lladd_sim *, struct lladd_txn *);
/** lladd_commit_async, recorded. */
LLADD_API int lladd_sim_commit_async(struct lladd_sim *, struct lladd_txn *, lladd_lsn *out);
/** lladd_wait_durable, recorded. */
LLADD_API int lladd_sim_wait_durable(struct lladd_sim *, struct lladd_db *, lladd_lsn,
                                     struct lladd_error *);
/** lladd_abort, recorded. */
LLADD_API int lladd_sim_abort(struct lladd_sim *, struct lladd_txn *);
/** lladd_savepoint, recorded. */
LLADD_API int lladd_sim_savepoint(struct lladd_sim *, struct lladd_txn *, lladd_savepoint_id *out);
/** lladd_rollback_to, recorded. */
LLADD_API int lladd_sim_rollback_to(struct lladd_sim *, struct lladd_txn *, lladd_savepoint_id);
/** lladd_prepare, recorded. */
LLADD_API int lladd_sim_prepare(struct lladd_sim *, struct lladd_txn *, const struct lladd_gid *);
/** lladd_heuristic_end, recorded. */
LLADD_API int lladd_sim_heuristic_end(struct lladd_sim *, struct lladd_txn *, enum lladd_outcome);
/** lladd_heuristic_forget, recorded. */
LLADD_API int lladd_sim_heuristic_forget(struct lladd_sim *, struct lladd_db *,
                                         const struct lladd_gid *, struct lladd_error *);
/** The transaction has done something: `bytes`, which are copied, are what model_apply gets if it
 *  commits. After the calls that did it, and before its next one. */
LLADD_API int lladd_sim_note(struct lladd_sim *, struct lladd_txn *, const void *bytes, size_t len);

/* ---- exploring --------------------------------------------------------------------------- */

enum {
    /** Every combination of versions of every page, instead of one page at a time: exponential, for
     *  a few pages. Must give the same verdicts. */
    LLADD_SIM_FULL_PRODUCT = 1,
    LLADD_SIM_NO_POWER = 2, /**< leave out power loss */
    LLADD_SIM_NO_KILL = 4,  /**< leave out the death of the process, which loses nothing written */
    LLADD_SIM_ATOMIC_PAGES =
        8, /**< a device that never tears a page, and a database that is told */
    LLADD_SIM_NO_COVERAGE = 16, /**< paths that are not reached are no failure */
    /** lladd_sim_interleave: schedules by randomised priorities, instead of all of them, with
     *  accesses to shared words as points besides. */
    LLADD_SIM_RANDOM_SCHEDULES = 32,
    LLADD_SIM_INSTANT = 64, /**< databases are opened with LLADD_RECOVER_INSTANT */
    /** With ATOMIC_PAGES: only the workload's database, that of the second recovery in a row, the
     *  fourth and so on are told so, and only what these write is never torn. */
    LLADD_SIM_TURNS = 128
};

#define LLADD_SIM_DEPTH_MAX 8u
#define LLADD_SIM_THREADS_MAX 16u /**< of a subject */

/** How far to go. Zero means default, everywhere. Use LLADD_SIM_BOUNDS_INIT. */
struct lladd_sim_bounds {
    size_t struct_size;
    uint32_t flags;
    uint32_t depth;  /**< crashes in a row, the first included: 1 to DEPTH_MAX. Default 4, of
                                which lladd_sim_explore makes the last only in one recovery of each
                                sort (sim/README.md) */
    uint64_t states; /**< stop after so many; a run without any counts a little. Default: none */
    uint64_t milliseconds; /**< stop after about so long; lladd_sim_random makes failures smaller
                                for as long again at most. Default: none */
    uint64_t seed;         /**< of everything random that the databases ask for. Default 1 */
    uint32_t failures;     /**< stop after so many. Default 1 */
    uint32_t calls_max;    /**< device calls of one run; more is called a loop. Default 100,000 */
    uint64_t planted;      /**< bugs of the library to switch on: bits of enum lladd_bug (dst.h) */
    /* Of lladd_sim_errors: */
    uint32_t points;  /**< crashes with errors in their recovery. Default 4 */
    uint32_t samples; /**< crash states drawn at random after each error, besides the simple ones.
                           Default 1; UINT32_MAX: none */
    uint32_t every;   /**< let only each so-many-th call fail. Default 1 */
    /* Of lladd_sim_interleave: */
    uint32_t preemptions; /**< of threads that could go on. Default 2; UINT32_MAX: none */
    uint64_t schedules;   /**< stop after so many. Default: none; 1000 if they are random */
};
#define LLADD_SIM_BOUNDS_INIT_SIZE sizeof(struct lladd_sim_bounds)
#define LLADD_SIM_BOUNDS_INIT LLADD_SIZED_INIT(lladd_sim_bounds)

/** The oracle that has reported a violation; the numbers are those of sim/README.md. */
enum lladd_sim_oracle {
    LLADD_SIM_O_NONE = 0,
    LLADD_SIM_O_LOST = 1,         /**< O1: an acknowledged commit is not there */
    LLADD_SIM_O_CONTENTS = 2,     /**< O2: the contents are those of no allowed state */
    LLADD_SIM_O_CHECK = 3,        /**< O3: the subject's check complains */
    LLADD_SIM_O_WAL = 4,          /**< O4: a page was written before its log */
    LLADD_SIM_O_AGAIN = 5,        /**< O5: recovered again, it is something else */
    LLADD_SIM_O_PROGRESS = 6,     /**< O6: the recovered database does not go on */
    LLADD_SIM_O_REBUILD = 7,      /**< O7: a page is not what base and log make of it */
    LLADD_SIM_O_ERRORS = 8,       /**< O8: an error was swallowed, or promised away */
    LLADD_SIM_O_IN_DOUBT = 9,     /**< O9: prepared transactions are not what they were */
    LLADD_SIM_O_LEAK = 10,        /**< O10: pages are lost, or used and not allocated */
    LLADD_SIM_O_OPEN = 11,        /**< recovery gave up */
    LLADD_SIM_O_MEMORY = 12,      /**< memory was not given back */
    LLADD_SIM_O_LOOP = 13,        /**< too many device calls */
    LLADD_SIM_O_DETERMINISM = 14, /**< the same again was something else */
    LLADD_SIM_O_COVERAGE = 15,    /**< a path was never reached */
    LLADD_SIM_O_WORKLOAD = 16,    /**< setup or run failed without any fault */
    LLADD_SIM_O_DEADLOCK = 17,    /**< O17: a thread waits, and nothing will ever wake it */
    LLADD_SIM_O_ONE_PAGE = 18,    /**< O18: redo or undo touched more than its page and its bytes */
    LLADD_SIM_O_UNDO_MAX = 19,    /**< O19: a logical undo takes more than its operation declares */
    LLADD_SIM_O_INSPECT = 20,     /**< O20: inspection finds damage in what a crash has left */
    LLADD_SIM_ORACLES = 21
};
/** "O2 contents"; never NULL. */
LLADD_API const char *lladd_sim_oracle_name(enum lladd_sim_oracle);

#define LLADD_SIM_TOKEN_MAX 64u

struct lladd_sim_failure {
    enum lladd_sim_oracle oracle;
    char token[LLADD_SIM_TOKEN_MAX + 1]; /**< "" if no single run shows it (coverage) */
    uint32_t depth;                      /**< crashes in a row */
    char message[512];                   /**< one line */
};

/** What became of one operation. */
struct lladd_sim_coverage {
    const char *op;
    uint32_t version;
    uint64_t runs;                   /**< by the workload */
    uint64_t paths[LLADD_SIM_PATHS]; /**< how often each was gone */
    unsigned missing;                /**< 1u << path: never, and not excused */
};

struct lladd_sim_report {
    size_t struct_size;
    char subject[64];
    uint32_t flags;
    uint32_t depth;
    uint64_t seed;
    bool complete;        /**< everything within the bounds was explored */
    uint64_t calls;       /**< device calls of the workload that a crash may precede */
    uint64_t acks;        /**< promises made to it */
    uint64_t states;      /**< different crash states recovered from and judged */
    uint64_t kill_states; /**< of these, deaths of the process */
    uint64_t depth_states[LLADD_SIM_DEPTH_MAX + 1]; /**< by number of crashes in a row, from 1 */
    uint64_t worlds_seen; /**< crash points that were like an earlier one, and passed over */
    uint64_t endings;     /**< different recoveries, each judged by all oracles */
    uint64_t choices;     /**< decisions taken about what survived */
    uint64_t nanoseconds; /**< it all took */
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
    uint32_t n_coverage;
    const struct lladd_sim_coverage *coverage;
    /* Of lladd_sim_interleave: */
    uint64_t schedules;   /**< runs of the workload; 0: it had one thread */
    uint64_t recordings;  /**< of these, with other device calls or promises than any before */
    uint64_t turns;       /**< most places in one of them where another thread could go on */
    uint32_t preemptions; /**< allowed in each */
};

/** Explores a subject. 0 if it could be done, whatever was found: look at (*out)->n_failures. An
 *  error (and *out NULL): the subject or the bounds are no good, or there is no memory. The report
 *  is released with lladd_sim_report_free. */
LLADD_API int lladd_sim_explore(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                                struct lladd_sim_report **out, struct lladd_error *);
/** Runs what a token stands for, and writes its history as text: the workload, the device calls,
 *  what survived, what recovery decided, what the oracle objects to. `history` is nullable. Of the
 *  bounds (nullable) calls_max and planted count; the rest is in the token. The report holds the
 *  failure, if it happens again. LLADD_BAD_ARGUMENT with the reason if the token is none, is
 *  damaged, or belongs to another subject or another version of it. */
LLADD_API int lladd_sim_replay(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               const char *token, struct lladd_sink *history,
                               struct lladd_sim_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_report_free(struct lladd_sim_report *);
/** Writes the report for people, and as one JSON object in one line. Returns what the sink does. */
LLADD_API int lladd_sim_report_text(const struct lladd_sim_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_report_json(const struct lladd_sim_report *, struct lladd_sink *);

/* ---- several threads ----------------------------------------------------------------------- */

/** Runs the workload of a subject with `threads` in every schedule with so many preemptions
 *  (bounds.preemptions): wherever a thread locks, waits, wakes, or calls the device, another one
 *  may go on. Each run that made other device calls or promises than all before it is then
 *  explored as lladd_sim_explore does; crash states that an earlier schedule has led to are passed
 *  over. A deadlock, a run without an end and a thread that returns an error are failures, too. The
 *  run ends when the last thread has. Closing, cuts inside a record and coverage are
 *  lladd_sim_explore's affair. Otherwise as lladd_sim_explore. */
LLADD_API int lladd_sim_interleave(const struct lladd_sim_subject *,
                                   const struct lladd_sim_bounds *, struct lladd_sim_report **out,
                                   struct lladd_error *);

/* ---- errors -------------------------------------------------------------------------------- */

/** What can go wrong in a call that says so (the two cases that end with "lies" are reported
 *  to another call). X(name, "text", "what"). */
#define LLADD_SIM_FAULT_LIST(X) \
    X(OPEN, "open", "EIO: opening a file that is there") \
    X(CREATE, "create", "EIO: creating one") \
    X(READ, "read", "EIO: reading") \
    X(WRITE, "write", "EIO: writing; nothing was written") \
    X(WRITE_BYTE, "write-byte", "EIO: writing; one byte was written") \
    X(WRITE_SECTOR, "write-sector", "EIO: writing; one sector was written") \
    X(WRITE_BUT_ONE, "write-but-one", "EIO: writing; all but a byte was written") \
    X(WRITE_ALL, "write-all", "EIO: writing; all of it was written") \
    X(APPEND, "append", "EIO: writing at the end") \
    X(SYNC, "sync", "EIO: a sync; what it was for arrives in part, and no other helps") \
    X(SYNC_LOST, "sync-lost", "EIO: a sync; nothing arrives, the cache has it and calls it clean") \
    X(SYNC_REVERTED, "sync-reverted", "EIO: a sync; nothing arrives, the cache has the old bytes") \
    X(SYNC_LATE, "sync-lies-late", "a sync loses everything and returns 0, the file's next fails") \
    X(SYNC_ELSEWHERE, "sync-lies", "a sync loses everything and returns 0; another call is told") \
    X(TRUNCATE, "truncate", "EIO: setting a size") \
    X(RENAME, "rename", "EIO: renaming") \
    X(UNLINK, "unlink", "EIO: removing") \
    X(SYNC_DIR, "sync-dir", "EIO: a sync of a directory") \
    X(MKDIR, "mkdir", "EIO: making a directory") \
    X(LIST, "list", "EIO: listing one") \
    X(LOCK, "lock", "EIO: taking the lock") \
    X(SIZE, "size", "EIO: asking for a size") \
    X(CLOSE, "close", "EIO: closing a file") \
    X(SPACE, "space", "ENOSPC: whatever would make a file or a directory grow") \
    X(FILES, "files", "EMFILE: opening, creating, locking") \
    X(READ_ONLY, "read-only", "EROFS: whatever changes something") \
    X(INTERRUPTED, "interrupted", "EINTR: any call") \
    X(AGAIN, "again", "EAGAIN: any call but the lock's") \
    X(MEMORY, "memory", "an allocation") \
    X(READ_NONE, "read-none", "a read gives nothing, and the file goes on") \
    X(READ_BYTE, "read-byte", "a read gives one byte, and the file goes on") \
    X(READ_SECTOR, "read-sector", "a read gives one sector, and the file goes on") \
    X(READ_BUT_ONE, "read-but-one", "a read gives all but a byte, and the file goes on") \
    X(PAGE_LOST, "page-lost", "0 is returned for a write of pages, and it is not done") \
    X(PAGE_ASTRAY, "page-astray", "0 is returned for a write of pages, and it goes elsewhere")
enum lladd_sim_fault {
#define LLADD_SIM_FAULT_ENUM(name, text, what) LLADD_SIM_FAULT_##name,
    LLADD_SIM_FAULT_LIST(LLADD_SIM_FAULT_ENUM)
#undef LLADD_SIM_FAULT_ENUM
        LLADD_SIM_FAULTS
};
/** "sync-lost"; never NULL. */
LLADD_API const char *lladd_sim_fault_name(enum lladd_sim_fault);

/** What became of one kind of fault. */
struct lladd_sim_fault_counts {
    uint64_t chances;  /**< calls that it could hit, in all these runs */
    uint64_t once;     /**< runs in which it hit one call */
    uint64_t for_ever; /**< runs in which it hit one call and all later ones */
    uint64_t recovery; /**< of all these: recoveries */
    uint64_t close;    /**< of the others: closing, which aborts and takes a checkpoint */
    uint64_t returned; /**< runs in which some call of the library then failed */
    uint64_t absorbed; /**< and in which none did: it was not needed, or done another way */
    uint64_t poisoned; /**< runs that ended with a poisoned handle */
    bool hole;         /**< there were chances, and none was taken */
};

struct lladd_sim_errors_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    bool complete;         /**< everything within the bounds was done */
    uint32_t points;       /**< crashes chosen for their recoveries */
    uint64_t runs;         /**< in which something failed */
    uint64_t states;       /**< crash states after these, recovered from and judged */
    uint64_t full_refused; /**< opens on a full disk that said so; the next one succeeded */
    uint64_t nanoseconds;
    struct lladd_sim_fault_counts faults[LLADD_SIM_FAULTS];
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** Runs the workload again and again, and in each run lets another call fail: the first, the
 *  second, and so on until none is left, of every kind of fault, only that one and from that one
 *  on. The same with recoveries from a few crashes, chosen so that together they do everything that
 *  recovery does, and with the creation of a database. Looks at what the calls returned, and at
 *  what a working device then makes of the disk (sim/README.md). Of the bounds flags, depth and
 *  what belongs to it are ignored, apart from NO_POWER, NO_KILL, ATOMIC_PAGES and NO_COVERAGE (a
 *  fault that never hit is no failure).
 *  Otherwise as lladd_sim_explore; tokens are for lladd_sim_replay. */
LLADD_API int lladd_sim_errors(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_errors_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_errors_free(struct lladd_sim_errors_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_errors_text(const struct lladd_sim_errors_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_errors_json(const struct lladd_sim_errors_report *, struct lladd_sink *);

/* ---- silent damage --------------------------------------------------------------------------- */

/** What a disk does to bytes without saying so. X(name, "text", "what"). */
#define LLADD_SIM_DAMAGE_LIST(X) \
    X(FLIP, "flip", "one bit is the other one") \
    X(ZERO, "zero", "a page or sector is zeros") \
    X(GARBAGE, "garbage", "a sector is noise") \
    X(LOST, "lost", "a write was not done: what was there before is there still") \
    X(MISDIRECTED, "misdirected", "a write went somewhere else, and not where it should") \
    X(MISREAD, "misread", "a read, once, gives what stands somewhere else, or a wrong bit") \
    X(TRUNCATED, "truncated", "a file is shorter, or missing") \
    X(FOREIGN, "foreign", "a file or a page is another database's") \
    X(OLDER, "older", "a file, or all but the pages, or only those, is as it was earlier")
enum lladd_sim_damage_kind {
#define LLADD_SIM_DAMAGE_ENUM(name, text, what) LLADD_SIM_DAMAGE_##name,
    LLADD_SIM_DAMAGE_LIST(LLADD_SIM_DAMAGE_ENUM)
#undef LLADD_SIM_DAMAGE_ENUM
        LLADD_SIM_DAMAGE_KINDS
};
/** "flip" and so on. */
LLADD_API const char *lladd_sim_damage_name(enum lladd_sim_damage_kind);

/** What came of it. */
enum lladd_sim_damage_end {
    LLADD_SIM_REPAIRED = 0,     /**< the contents are right, and the damage is gone */
    LLADD_SIM_DETECTED = 1,     /**< open, a read or inspection has named it */
    LLADD_SIM_HARMLESS = 2,     /**< to bytes without meaning: need not be noticed */
    LLADD_SIM_UNDETECTABLE = 3, /**< nothing that is left could tell; sim/README.md lists why */
    LLADD_SIM_WRONG = 4,        /**< wrong contents, or damage that was not noticed: a failure */
    LLADD_SIM_DAMAGE_ENDS = 5
};
/** "repaired" and so on. */
LLADD_API const char *lladd_sim_damage_end_name(enum lladd_sim_damage_end);

/** Why damage may go unnoticed. X(name, "text"). */
#define LLADD_SIM_REASON_LIST(X) \
    X(UNUSED_LOG, "log space that holds no record") \
    X(UNNAMED, "the first records after what was truncated, if nothing that is left names them") \
    X(TAIL, "beyond the newest stated watermark after an unclean stop: as a torn tail (LOG-3)") \
    X(FREE, "a page that is free, or was never used") \
    X(RAW, "a page of a raw extent: its bytes and checksums are its owner's") \
    X(CONTROL_GAP, "between and after the two copies in control") \
    X(DWB, "the double-write area when no page needs it") \
    X(UNPROVED, "a lost write to a page: no record that is retained tells of it") \
    X(BULK, "a lost write in bulk: the log has neither the contents nor any change since") \
    X(ZEROS, "a read that gives zeros: so does a page that was never used (BUF-6)") \
    X(WHOLE, "an older state that is whole in itself: no page is newer than its log")
enum lladd_sim_reason {
#define LLADD_SIM_REASON_ENUM(name, text) LLADD_SIM_REASON_##name,
    LLADD_SIM_REASON_LIST(LLADD_SIM_REASON_ENUM)
#undef LLADD_SIM_REASON_ENUM
        LLADD_SIM_REASONS
};
/** The reason as text, a static string. */
LLADD_API const char *lladd_sim_reason_text(enum lladd_sim_reason);

struct lladd_sim_damage_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    bool complete;     /**< everything possible was done */
    uint64_t possible; /**< damages there are, in all situations */
    uint64_t done;     /**< of these, tried */
    uint64_t counts[LLADD_SIM_DAMAGE_KINDS][LLADD_SIM_DAMAGE_ENDS];
    uint64_t by_open, by_read, by_inspection; /**< what detected it first */
    uint64_t reasons[LLADD_SIM_REASONS];      /**< of the harmless and the undetectable */
    uint64_t nanoseconds;
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** Damages the files that a subject's workload leaves (closed; killed; after a loss of power), one
 *  damage at a time, and looks at what comes of it. Of the bounds: `states` is how many damages to
 *  try, spread evenly over the kinds (0: all of them), milliseconds, seed, failures, planted.
 *  Tokens are for lladd_sim_replay. Otherwise as lladd_sim_explore. */
LLADD_API int lladd_sim_damage(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_damage_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_damage_free(struct lladd_sim_damage_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_damage_text(const struct lladd_sim_damage_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_damage_json(const struct lladd_sim_damage_report *, struct lladd_sink *);

/* ---- at random ------------------------------------------------------------------------------- */

/** A number out of the workload's own stream, for `run` only: the same in each run with the same
 *  seed. Lets a workload be another one for each seed. */
LLADD_API uint64_t lladd_sim_random_u64(struct lladd_sim *);

/** A fault, or a place for a crash: how often there was occasion for it, and how often it was done.
 */
struct lladd_sim_fired {
    const char *name;
    uint64_t offered, fired;
};

struct lladd_sim_random_report {
    size_t struct_size;
    char subject[64];
    uint64_t seed;
    uint64_t workloads; /**< each with its own options, repetitions and errors */
    uint64_t runs;      /**< of the subject's `run` */
    uint64_t refused;   /**< repetitions that the database did not let be: "exists", "full" */
    uint64_t calls;     /**< device calls of the workloads */
    uint64_t points;    /**< places where they were crashed */
    uint64_t states;    /**< recoveries, each judged */
    uint64_t disturbed; /**< recoveries in which an error happened, and that were crashed */
    uint64_t depth_states[LLADD_SIM_DEPTH_MAX + 1];
    uint32_t n_fired; /**< what was offered often and never fired is a failure (O15) */
    const struct lladd_sim_fired *fired;
    uint64_t nanoseconds;
    uint32_t n_failures;
    const struct lladd_sim_failure *failures;
};

/** For workloads that are too large to explore: runs the subject's workload with other numbers,
 *  other sizes of cache and log, `run` repeated, an error now and then; crashes it at places of
 *  each sort, with any part of what was pending, and the recoveries again. Goes on until `states`
 *  (default 20,000) or `milliseconds` of the bounds are used up. Tokens are for lladd_sim_replay.
 *  Otherwise as lladd_sim_explore. */
LLADD_API int lladd_sim_random(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                               struct lladd_sim_random_report **out, struct lladd_error *);
/** Frees a report; NULL does nothing. */
LLADD_API void lladd_sim_random_free(struct lladd_sim_random_report *);
/** Writes the report as text. Returns what the sink returns. */
LLADD_API int lladd_sim_random_text(const struct lladd_sim_random_report *, struct lladd_sink *);
/** Writes the report as one JSON object in one line. Returns what the sink returns. */
LLADD_API int lladd_sim_random_json(const struct lladd_sim_random_report *, struct lladd_sink *);

/* ---- the subjects that come with it ---------------------------------------------------------- */

/** The library's own, in an array that ends with NULL. */
LLADD_API const struct lladd_sim_subject *const *lladd_sim_subjects(void);
/** NULL if there is none of that name. */
LLADD_API const struct lladd_sim_subject *lladd_sim_subject_find(const char *name);

/** What a shared object given to `lladd sim` exports under the name LLADD_SIM_PLUGIN_SYMBOL: a
 *  function that returns a NULL-terminated array of subjects. */
typedef const struct lladd_sim_subject *const *lladd_sim_plugin_fn(void);
#define LLADD_SIM_PLUGIN_SYMBOL "lladd_sim_plugin"

#ifdef __cplusplus
}
#endif
#endif
