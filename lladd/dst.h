/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DST_H
#define LLADD_DST_H
/**
 * @file
 * @brief The interface that only the instrumented library `lladd_dst` has: events, planted bugs,
 * schedules.
 *
 * `lladd_dst` is built from the same sources as `lladd`, with LLADD_DST defined. The recovery
 * simulator, and tests of extensions that use the simulator, link `lladd_dst` instead of `lladd`.
 * Without LLADD_DST the macros of this header do nothing or are false; the functions do not exist
 * in `lladd`.
 *
 * A thread enters a `struct lladd_dst` (lladd_dst_enter). From then on the struct's callbacks
 * observe the calls of this OS thread on all databases. A thread that has not entered a struct, for
 * example a new thread of the library, is not observed; the library behaves in it like `lladd`.
 *
 * lladd_dst_run makes the interleaving of threads deterministic: it runs the threads as fibers of
 * one OS thread. At each scheduling point (enum lladd_dst_point), if several fibers can run,
 * lladd_dst_schedule.turn decides which of them runs next.
 * @ingroup sim
 */
#include <lladd/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- events ------------------------------------------------------------------------------ */

/** A step of the library. The parentheses after a step list the members of the event that are set;
 *  the other members are zero. For records of object classes, `op` is the class and `page` the
 *  object; for such a record LLADD_DST_APPLY comes after logging and before the change. */
enum lladd_dst_what {
    /** Recovery enters a phase (detail: enum lladd_dst_phase). */
    LLADD_DST_PHASE = 1,
    /** An update was logged and applied (op, lsn, txn, page, depth). */
    LLADD_DST_APPLY,
    /** Recovery or page repair has reached an update record (op, lsn, txn, page, depth, detail:
     *  enum lladd_dst_found). */
    LLADD_DST_REDO,
    LLADD_DST_REDO_CLR,   /**< as LLADD_DST_REDO, for a CLR */
    LLADD_DST_REDO_IMAGE, /**< as LLADD_DST_REDO, for a page image; `op` is not set */
    /** A page undo was applied and its CLR logged (op, lsn: of the undone record, txn, page,
     *  depth). depth > 0: inside a top action or a compensation that had not ended. */
    LLADD_DST_UNDO,
    /** A logical undo begins (op, lsn: of the undone record, txn, depth: of that record). */
    LLADD_DST_COMPENSATE_BEGIN,
    LLADD_DST_COMPENSATE_END, /**< the logical undo has succeeded and its CLR is logged; members as
                                   for COMPENSATE_BEGIN */
    LLADD_DST_COMMIT,         /**< a commit record has its LSN (lsn, txn) */
    LLADD_DST_END,            /**< the END record of a rollback has its LSN (lsn, txn) */
    /** A call is about to report durability (lsn: of the record that must be durable, durable). */
    LLADD_DST_ACKNOWLEDGE,
    /** A page is about to be written to the page file or the double-write area (lsn: the page LSN,
     *  page, durable). lsn >= durable violates the WAL rule. */
    LLADD_DST_PAGE_WRITE,
    /** A checkpoint is complete (lsn: where analysis would begin, detail: bytes of log that redo
     *  would read). */
    LLADD_DST_CHECKPOINT,
    /** A page was read into the cache (page, detail: the address of its bytes, valid until another
     *  page takes the frame). */
    LLADD_DST_CACHED,
    LLADD_DST_PREPARE,   /**< a prepare record has its LSN (lsn, txn) */
    LLADD_DST_HEURISTIC, /**< the record of a heuristic abort has its LSN (lsn, txn) */
    /** A logical undo has logged more bytes than its operation's `undo_log_max` (op, lsn: of the
     *  undone record, txn, depth, detail: the bytes logged, page: undo_log_max). */
    LLADD_DST_UNDO_LOG,
    /** A logical undo has fixed more pages at a time than `undo_pages_max` (members as for
     *  LLADD_DST_UNDO_LOG; detail: the pages, page: undo_pages_max). Not reported in a
     *  schedule. */
    LLADD_DST_UNDO_PAGES
};

/** Phases of lladd_open, in order; a phase with nothing to do may be skipped. */
enum lladd_dst_phase {
    LLADD_DST_ANALYSIS = 1,
    LLADD_DST_LOG_START,    /**< the accepted log is forced; then a new segment begins or, if the
                                 disk is full, the log continues at its end */
    LLADD_DST_DOUBLE_WRITE, /**< torn pages are restored from the double-write area */
    LLADD_DST_REDO_PAGES,
    LLADD_DST_REDO_OBJECTS,
    LLADD_DST_IN_DOUBT,
    LLADD_DST_UNDO_LOSERS,
    LLADD_DST_CHECK,
    LLADD_DST_RECOVERED
};

/** The state in which redo found the record's page or object. */
enum lladd_dst_found {
    LLADD_DST_STALE = 1, /**< the page or object lacks the record's effect: the record is applied */
    LLADD_DST_FRESH,     /**< the record gives the page its first contents: the record is applied */
    LLADD_DST_PRESENT,   /**< the page or object has the record's effect: the record is skipped */
    LLADD_DST_BASELESS,  /**< the page has no base (BUF-5), and redo has found no image or format
                              record yet: the record is skipped */
    LLADD_DST_REFUSED    /**< an error: the page is in none of these states, or the record's bytes
                              do not fit the page */
};

struct lladd_dst_event {
    enum lladd_dst_what what;
    uint32_t op_version;
    const char *op; /**< name of the operation or class; lives as long as the handle */
    lladd_lsn lsn;
    lladd_lsn txn;
    lladd_lsn durable; /**< all log below this LSN is known to be on stable storage */
    uint64_t page;
    uint64_t detail;
    uint32_t depth;
};

/* ---- planted bugs ------------------------------------------------------------------------ */

/** Deliberate violations of the rules on which recovery depends, with one switch for each bug. They
 *  test the simulator, which must find each bug. X(name, "name", "oracle that finds it", "what is
 *  wrong"); sim/README.md describes the oracles. tests/sim/test_planted.c says which test catches
 *  each bug. */
#define LLADD_BUG_LIST(X) \
    X(WAL_GATE, "wal-gate", "O4", "a page is written before its log records are durable") \
    X(LSN_STAMP, "lsn-stamp", "O11", "an update does not stamp the page with its LSN") \
    X(DIRTY_ENTRY, "dirty-entry", "O11", "a page enters the dirty-page table after its record") \
    X(IMAGE, "image", "O11", "neither an image nor the double-write area protects a page") \
    X(IMAGE_HEADER, "image-header", "O11", "a page in the cache does not get its image's LSN") \
    X(IMAGE_FORCE, "image-force", "O4", "a page is written before its image is durable") \
    X(CLR, "clr", "O2", "a page undo writes no compensation record") \
    X(CLR_END, "clr-end", "O2", "the record that closes a logical undo does not lead past it") \
    X(UNDO_NEXT, "undo-next", "O2", "undo continues at a record that is compensated already") \
    X(REDO_CLR, "redo-clr", "O2", "redo leaves out compensation records") \
    X(REDO_TWICE, "redo-twice", "O2", "redo applies records without regard to the page LSN") \
    X(LOSER, "loser", "O2", "recovery does not roll back one of the unfinished transactions") \
    X(END_FIRST, "end-first", "O2", "the end of a rollback is logged before the rollback is") \
    X(SAVEPOINT, "savepoint", "O2", "rolling back to a savepoint undoes nothing") \
    X(ACKNOWLEDGE, "acknowledge", "O1", "a commit is acknowledged when written, not synced") \
    X(PREPARE, "prepare", "O9", "a prepare is acknowledged without forcing the log") \
    X(PREPARED, "prepared", "O9", "a checkpoint leaves out prepared transactions") \
    X(OUTCOMES, "outcomes", "O9", "a checkpoint leaves out heuristic outcomes") \
    X(NAMES, "names", "O11", "a checkpoint leaves out the names of operations") \
    X(REDO_BARRIER, "redo-barrier", "O2", "a checkpoint leaves out redo barriers") \
    X(BULK_SYNC, "bulk-sync", "O2", "pages written in bulk are published without a sync") \
    X(FREE_EARLY, "free-early", "O2", "freed pages can be reused before the commit is durable") \
    X(FLUSH, "flush", "O2", "a checkpoint is complete before the pages are written back") \
    X(CONTROL_FIRST, "control-first", "O2", "a checkpoint is named before it is durable") \
    X(CONTROL_SYNC, "control-sync", "O11", "the copies of the control block are not synced") \
    X(TRUNCATE, "truncate", "O9", "the log is truncated up to the checkpoint, even if needed") \
    X(SYNC_DIR, "sync-dir", "O11", "a new segment is used before its name is durable") \
    X(SETTLE, "settle", "O11", "recovery uses segments again by names that are not durable") \
    X(RECYCLE, "recycle", "O11", "a segment that is used again keeps its old header") \
    X(LOG_SYNC, "log-sync", "O1", "the log is not synced") \
    X(SYNC_AGAIN, "sync-again", "O8", "a failed sync of the log is repeated and trusted") \
    X(PAGE_SYNC_ERROR, "page-sync-error", "O8", "a failed sync of the page file is not noticed") \
    X(RECORD_CRC, "record-crc", "O11", "a log record with a wrong checksum is accepted") \
    X(STALE_RECORD, "stale-record", "O11", "a record of the segment's previous use is accepted") \
    X(PAGE_CRC, "page-crc", "O2", "a page with a wrong checksum is accepted") \
    X(WATERMARK, "watermark", "O2", "damage below the watermark is cut off like a torn tail") \
    X(REWRITE, "rewrite", "O11", "recovery builds on log that it has not made durable") \
    X(WAKE, "wake", "O17", "a committer that misses a group commit is not woken for the next") \
    X(LSN_REUSE, "lsn-reuse", "O11", "the log goes on over its torn tail, in the same segment") \
    X(DISOWN, "disown", "O2", "a cut leaves the log segments above it in place") \
    X(GROUP_LATE, "group-late", "O1", "a committer that misses a group commit returns success") \
    X(UNDO_LATE, "undo-late", "O11", "a checkpoint omits transactions that commit meanwhile") \
    X(IN_FLIGHT, "in-flight", "O2", "a checkpoint does not wait for page writes of other threads") \
    X(REDO_LEFT, "redo-left", "O2", "a checkpoint does not wait for pending instant redo") \
    X(SHARE, "share", "O2", "one of the shares of redo is left out") \
    X(CAUGHT_UP, "caught-up", "O2", "a page that was redone when it was fetched is not dirty") \
    X(UNPROTECTED, "unprotected", "O2", "a loser is undone after the open without protection") \
    X(GIVEN_UP, "given-up", "O2", "space freed by losers is used again before they are undone") \
    X(REBUILD, "rebuild", "O11", "recovery does not look for a page's base before redo's start") \
    X(WITNESS, "witness", "O1", "the end of the log that the last written page proves is ignored") \
    X(BULK_IMAGE, "bulk-image", "O11", "a page written in bulk is changed without an image") \
    X(PROTECTION, "protection", "O11", "recovery forgets which pages no image protects") \
    X(BLOB_ONCE, "blob-once", "O16", "a value is read without checking its reference again") \
    X(TAKE_SYNC, "take-sync", "O11", "a segment gets a new header before its old name is gone") \
    X(LOWEST_FIRST, "lowest-first", "O11", "recovery uses the lowest segment above a cut first") \
    X(CREDIT_HELD, "credit-held", "O17", "a thread waits for a table's shape with log credit") \
    X(EARLY, "early", "O2", "pages are redone neither before instant recovery opens nor later") \
    X(OWED, "owed", "O11", "the log's limit refuses records that must be written") \
    X(STEP_STAYS, "step-stays", "O2", "the progress of a destruction step outlives its rollback") \
    X(LISTED_APART, "listed-apart", "O2", "a region is listed by a transaction of its own") \
    X(ACCUSE, "accuse", "O20", "inspection reports a page that a crash left unwritten as damage") \
    X(TRUSTING, "trusting", "O11", "inspection does not try what the next open will do") \
    X(BT_FENCE, "bt-fence", "O3", "a split node of a B+tree has a wrong high fence") \
    X(BT_GHOST, "bt-ghost", "O16", "a B+tree uses the room of ghosts that undo may need") \
    X(BT_ORDER, "bt-order", "O2", "a node of a B+tree loses rows before another one has them") \
    X(BT_SPARE, "bt-spare", "O3", "a spare page shows before the record that keeps it") \
    X(BT_UNDO, "bt-undo", "O2", "an insertion into an inner leaf of a B+tree is not undone") \
    X(IMAGE_LSN, "image-lsn", "O11", "an image raises the base of a page, but not its page LSN") \
    X(IMAGE_LATE, "image-late", "O2", "a page is unlatched before its image is logged") \
    X(IMAGE_REDO, "image-redo", "O1", "full redo logs images of pages that lack records") \
    X(HORIZON_EARLY, "horizon-early", "O11", "a copy reads the horizon before it is in the table") \
    X(HORIZON_WAIT, "horizon-wait", "O11", "a checkpoint awaits no copy of the old horizon") \
    X(BT_LOAD, "bt-load", "O2", "a loaded B+tree is committed before its pages are durable") \
    X(BT_MERGE, "bt-merge", "O2", "a merge of a B+tree removes the entry of the parent last") \
    X(BULK_TOLD, "bulk-told", "O7", "extensions do not hear of a bulk write of a single page") \
    X(UNMARKED, "unmarked", "O11", "a page is written before the control file says \"in use\"") \
    X(LAST_EIGHTH, "last-eighth", "O16", "page images take the log that is left to transactions") \
    X(IMAGE_WAIT, "image-wait", "O17", "an eviction waits for credit for images") \
    X(BULK_LOADED, "bulk-loaded", "O16", "a page is loaded while it is written in bulk") \
    X(BULK_CHANGED, "bulk-changed", "O2", "a change before a bulk write leaves the barrier valid") \
    X(MANIFEST_FIRST, "manifest-first", "O3", "a backup's manifest is put before the page index") \
    X(BULK_LEFT, "bulk-left", "O3", "a backup lacks pages that were written in bulk meanwhile") \
    X(OUTSIDE_END, "outside-end", "O3", "a backup from outside ends before its newest page does") \
    X(OUTSIDE_BULK, "outside-bulk", "O3", "a backup from outside lacks pages written in bulk") \
    X(PIN_EARLY, "pin-early", "O3", "an archive lets go of a segment before the store has it") \
    X(SPOOL_LEFT, "spool-left", "O6", "an archive stores log without the pages written in bulk") \
    X(FORK_IGNORED, "fork-ignored", "O16", "a copy gets log that its origin wrote after the fork") \
    X(ABSORB_KEEPS, "absorb-keeps", "O2", "a flush does not replace the run that it merged") \
    X(DROP_EARLY, "drop-early", "O2", "a flush drops tombstones that hide rows of older runs") \
    X(POSITION_NEWEST, "position-newest", "O3", "a flush stores a position that is not committed") \
    X(ACK_EARLY, "ack-early", "O3", "a replica lets its source forget what a crash may take back") \
    X(VERSION_LOST, "version-lost", "O16", "a flush keeps no old versions for open snapshots") \
    X(SPOOL_SYNC, "spool-sync", "O6", "a spool is not synced before its transaction commits") \
    X(SPOOL_OPEN, "spool-open", "O6", "a restore lays pages of transactions that commit later") \
    X(FROM_REDO, "from-redo", "O3", "a backup lacks the log that open transactions need") \
    X(GAP_PASSED, "gap-passed", "O6", "a restore passes over log that the archive lacks") \
    X(PIN_INHERITED, "pin-inherited", "O16", "a copy keeps log for the archive of its origin") \
    X(MARK_AFTER, "mark-after", "O6", "a restore to a time ends at the first mark after it") \
    X(RESTORE_ORDER, "restore-order", "O3", "a restore writes the control block before the pages") \
    X(UNDECODED, "undecoded", "O16", "an archive stores log that cannot be decoded") \
    X(SCRUB_BARRIERS, "scrub-barriers", "O6", "a scrub takes a redo barrier for a write") \
    X(SCRUB_CACHE, "scrub-cache", "O6", "a scrub expects changes that are only in the cache") \
    X(SCRUB_BLIND, "scrub-blind", "O6", "a scrub does not notice that a page is too old") \
    X(BASE_BEYOND, "base-beyond", "O16", "a copy uses a backup of its origin from after the fork") \
    X(NAME_TAKEN, "name-taken", "O16", "a put does not compare the object that it finds") \
    X(EXPIRE_ORDER, "expire-order", "O3", "the manifest of an expired backup is deleted last") \
    X(EXPIRE_KEPT, "expire-kept", "O3", "an expiry deletes log that an older kept backup needs") \
    X(EXPIRE_RUNNING, "expire-running", "O16", "an expiry takes log that a running backup needs") \
    X(ABSENT_LOST, "absent-lost", "O16", "open snapshots show rows that were put later") \
    X(VERSION_LEAKS, "version-leaks", "O10", "the manifest does not list what a merge keeps") \
    X(BW_MERGE, "bw-merge", "O16", "a page of a Bw-tree gets changes after its rows were merged") \
    X(BW_PID, "bw-pid", "O16", "the number of a merged page of a Bw-tree is free at once") \
    X(BW_BOUND, "bw-bound", "O2", "a flush of Bw-trees states the newest LSN as its bound") \
    X(BW_LIST, "bw-list", "O2", "a page of a Bw-tree that changes in a flush counts as written") \
    X(BW_PAIR, "bw-pair", "O16", "a flush leaves out the pages that splits have made") \
    X(BW_RSSP, "bw-rssp", "O1", "the marks of Bw-trees move before the pages are written") \
    X(BW_SEGMENT, "bw-segment", "O2", "a flush allocates a segment in its own transaction")

/** The bugs' numbers; LLADD_BUG_MASK gives their bits in lladd_dst.planted. */
enum lladd_bug {
#define LLADD_BUG_ENUM(name, text, oracle, what) LLADD_BUG_##name,
    LLADD_BUG_LIST(LLADD_BUG_ENUM)
#undef LLADD_BUG_ENUM
        LLADD_BUGS
};

/** The first LLADD_BUGS_ALONE bugs each have a bit of their own in lladd_dst.planted, so any of
 *  them can be planted together. The highest six bits say which one of the remaining bugs is
 *  planted; 0: none of them. */
#define LLADD_BUGS_ALONE 58
/** The bits of a bug in lladd_dst.planted. */
#define LLADD_BUG_MASK(bug) \
    ((bug) < LLADD_BUGS_ALONE ? UINT64_C(1) << ((bug)&63) \
                              : (uint64_t)((bug)-LLADD_BUGS_ALONE + 1) << LLADD_BUGS_ALONE)
/** True if this value of lladd_dst.planted includes the bug. */
#define LLADD_BUG_IN(planted, bug) \
    ((bug) < LLADD_BUGS_ALONE ? ((planted) >> ((bug)&63) & 1) != 0 \
                              : (planted) >> LLADD_BUGS_ALONE == \
                                    (uint64_t)((bug)-LLADD_BUGS_ALONE + 1))

/* ---- schedules --------------------------------------------------------------------------- */

/** Why the scheduler may switch to another fiber. The first seven are bits of
 *  lladd_dst_schedule.points. */
enum lladd_dst_point {
    LLADD_DST_LOCK = 1 << 0,   /**< before a mutex is locked or tried */
    LLADD_DST_UNLOCK = 1 << 1, /**< after a mutex was unlocked */
    LLADD_DST_WAIT = 1 << 2,   /**< before the fiber sleeps on a condition or a word */
    LLADD_DST_WAKE = 1 << 3,   /**< before the fiber wakes a sleeper; which sleeper it wakes is a
                                    separate decision */
    LLADD_DST_THREAD = 1 << 4, /**< after the fiber has started a thread, and before it joins a
                                    thread */
    LLADD_DST_DEVICE = 1 << 5, /**< before a call of a device that calls lladd_dst_reach */
    LLADD_DST_ATOMIC = 1 << 6, /**< before an access to a shared word (lladd_atomic_...) */
    LLADD_DST_YIELD = 1 << 7,  /**< the current fiber yields: `turn` cannot choose it */
    LLADD_DST_BLOCKED = 1 << 8 /**< the current fiber sleeps or has ended */
};

/** A decision: which of `n` fibers (at least 2) runs next, or which of `n` sleepers is woken.
 *  Fibers are numbered from 0, in the order in which they are started. */
struct lladd_dst_turn {
    enum lladd_dst_point why;
    unsigned n;
    const uint64_t *fibers;
    bool current; /**< fibers[0] is the current fiber and can continue: any other choice preempts
                       it */
};

/** Settings of a schedule. Zero means the default, for every member. */
struct lladd_dst_schedule {
    void *ctx;
    /** Returns an index into turn->fibers; any other value stops the run. Must not call the
     *  library. NULL: always 0, that is, no fiber is preempted. */
    unsigned (*turn)(void *ctx, const struct lladd_dst_turn *turn);
    uint32_t points;    /**< the scheduling points in use; default: all but LLADD_DST_ATOMIC */
    uint64_t step_ns;   /**< virtual time from one point to the next; default 100 */
    uint64_t steps_max; /**< the maximum number of points in a run; default 10 million */
    size_t stack_bytes; /**< size of each fiber's stack; default 256 KiB */
};

struct lladd_dst_fibers; /* stacks, reused from run to run */
struct lladd_dst;
struct lladd_error;

struct lladd_dst_run_stats {
    uint64_t steps, choices, switches, fibers;
    uint64_t now_ns; /**< virtual time, from 0 */
};

/** Makes *out, for runs with this schedule, which is copied. Returns 0 or LLADD_NO_MEMORY. */
LLADD_API int lladd_dst_fibers_new(const struct lladd_dst_schedule *,
                                   struct lladd_dst_fibers **out);
/** Frees the fibers' stacks; NULL does nothing. No fiber may be running. */
LLADD_API void lladd_dst_fibers_free(struct lladd_dst_fibers *);
/** Runs fn(arg), and all threads that it starts, as fibers of the calling thread, which enters
 *  `dst` for the run. Returns 0 when all fibers have ended. LLADD_DEADLOCK: no fiber can ever
 *  continue; the message says what each fiber waits for. LLADD_TIMEOUT: `steps_max` is reached.
 *  LLADD_END: `turn` or lladd_dst_stop has stopped the run. LLADD_NO_MEMORY. After an error the
 *  fibers are abandoned: the mutexes that they hold stay locked, and the memory that they have
 *  allocated is not freed. */
LLADD_API int lladd_dst_run(struct lladd_dst_fibers *, struct lladd_dst *dst, void *(*fn)(void *),
                            void *arg, struct lladd_error *);
/** Statistics of the current run, or of the last run. */
LLADD_API void lladd_dst_run_stats_get(const struct lladd_dst_fibers *,
                                       struct lladd_dst_run_stats *);
/** Adds a scheduling point to the caller's code; a device calls it before each operation. Does
 *  nothing outside a run. */
LLADD_API void lladd_dst_reach(enum lladd_dst_point);
/** Ends the run from inside one of its fibers, like a power failure: lladd_dst_run returns
 *  LLADD_END, and this call does not return. Does nothing outside a run. */
LLADD_API void lladd_dst_stop(void);
/** Virtual time of the run in nanoseconds; 0 outside a run. In a run, virtual time replaces the
 *  system clock. */
LLADD_API uint64_t lladd_dst_now_ns(void);

/* ---- changing pages ---------------------------------------------------------------------- */

/** A change that the library is about to make to a page, in an update, a rollback, recovery or
 *  repair. */
struct lladd_dst_change {
    const struct lladd_op *op;
    bool undo;                    /**< call `undo`, not `redo` */
    struct lladd_page *page;      /**< the page as it is before the change, with its old page LSN */
    struct lladd_span bytes;      /**< the argument of `redo` or `undo` */
    lladd_lsn lsn;                /**< LSN of the record */
    bool undoable;                /**< for an update: `undo` may have to undo the change later */
    struct lladd_span undo_bytes; /**< the argument of that later `undo` */
};

/* ---- the watcher ------------------------------------------------------------------------- */

/** The struct that a thread enters. A zeroed struct observes nothing and changes nothing. */
struct lladd_dst {
    void *ctx; /**< first argument of the functions below */
    /** Nullable. May be called with latches held; must not call the library. */
    void (*observe)(void *ctx, const struct lladd_dst_event *);
    /** Nullable. Called instead of each redo and undo of a page; must have the effect of the
     *  replaced call. The rules of `observe` apply. */
    void (*change)(void *ctx, const struct lladd_dst_change *);
    /** Nullable. Called when the only thread is about to wait for ever; `what` names the wait. Not
     *  called in a schedule, which detects deadlocks. When the callback returns, a wait without a
     *  time limit ends with LLADD_BUSY, as if waiting were not allowed; a wait with a time limit
     *  ends immediately, as if the limit had expired. */
    void (*stuck)(void *ctx, const char *what);
    uint64_t planted; /**< the bugs of enum lladd_bug that the library has: LLADD_BUG_MASK */
    /** Log space is always scarce: a call gets exactly the credit that it requests, and returns
     *  unused credit immediately. So code that forgets to reserve space gets an error. */
    bool scarce;
    /** Redo applies every record. If a page already has contents, redo takes only the LSNs from an
     *  image of the page. So the result depends on no image. */
    bool replay;
    /** Set by lladd_dst_run until it returns. */
    struct lladd_dst_fibers *fibers;
    bool atomics; /**< set by lladd_dst_run: true if accesses to shared words are scheduling
                       points */
    /** Set by the library when it calls a callback of an operation: the names of the callback and
     *  of the operation, and the page (LLADD_NO_PAGE: none). `calling` is true during the call;
     *  after the call the other members still describe it. NULL: no call so far. A signal handler
     *  in the thread may read these members to report the interrupted call. The strings live as
     *  long as the operation. */
    const char *callback, *op;
    uint64_t page;
    bool calling;
    uint64_t calls;           /**< number of calls so far */
    uint32_t held, held_most; /**< set by the library: the number of pages fixed now; the maximum
                                   number of pages fixed at a time */
    uint64_t device_calls;    /**< set by the simulator's device: number of calls */
};

#ifdef LLADD_DST
/** The calling thread's struct; use lladd_dst_current. */
extern __thread struct lladd_dst *lladd_dst_entered;
#endif

/** The calling thread enters the struct; NULL: the thread leaves its present struct. A struct must
 *  live until the thread has left it or entered another struct. Returns the previous struct or
 *  NULL. Do not call it inside a run. */
LLADD_API struct lladd_dst *lladd_dst_enter(struct lladd_dst *);
/** Returns the struct that the calling thread has entered, or NULL. */
LLADD_API struct lladd_dst *lladd_dst_current(void);

/* ---- inside the library (and in extensions) ---------------------------------------------- */

/** True if this bug is switched on for the calling thread. */
#ifdef LLADD_DST
#define LLADD_PLANTED(bug) \
    (lladd_dst_entered != NULL && LLADD_BUG_IN(lladd_dst_entered->planted, bug))
#else
#define LLADD_PLANTED(bug) false
#endif

/** LLADD_OBSERVE(.what = ..., .lsn = ...): members as in an initializer, evaluated only if the
 *  thread is observed. C only. */
#ifdef LLADD_DST
#define LLADD_OBSERVE(...) \
    do { \
        if (lladd_dst_entered && lladd_dst_entered->observe) { \
            const struct lladd_dst_event lladd_event = {__VA_ARGS__}; \
            lladd_dst_entered->observe(lladd_dst_entered->ctx, &lladd_event); \
        } \
    } while (0)
#else
#define LLADD_OBSERVE(...) \
    do { \
        if (0) { \
            const struct lladd_dst_event lladd_event = {__VA_ARGS__}; \
            (void)lladd_event; \
        } \
    } while (0)
#endif

/** LLADD_ALONE(): is the calling thread the only one, so that its wait would never end?
 *  LLADD_SCARCE(): is log space always scarce? LLADD_REPLAY(): is `replay` set? LLADD_STUCK(what):
 *  calls `stuck`. LLADD_HELD(n): the thread has fixed n more pages (n < 0: unfixed -n pages). */
#ifdef LLADD_DST
#define LLADD_ALONE() \
    (lladd_dst_entered != NULL && lladd_dst_entered->stuck != NULL && !lladd_dst_entered->fibers)
#define LLADD_SCARCE() (lladd_dst_entered != NULL && lladd_dst_entered->scarce)
#define LLADD_REPLAY() (lladd_dst_entered != NULL && lladd_dst_entered->replay)
#define LLADD_STUCK(what) lladd_dst_entered->stuck(lladd_dst_entered->ctx, (what))
#define LLADD_HELD(n) \
    do { \
        struct lladd_dst *lladd_d_ = lladd_dst_entered; \
        if (lladd_d_) { \
            lladd_d_->held += (uint32_t)(n); \
            if ((n) > 0 && lladd_d_->held > lladd_d_->held_most) \
                lladd_d_->held_most = lladd_d_->held; \
        } \
    } while (0)
#else
#define LLADD_ALONE() false
#define LLADD_SCARCE() false
#define LLADD_REPLAY() false
#define LLADD_STUCK(what) ((void)(what))
#define LLADD_HELD(n) ((void)0)
#endif

/** LLADD_CALLING("redo", op->name, page): a callback of an operation is about to be called;
 *  LLADD_CALLED(): the callback has returned. */
#ifdef LLADD_DST
#define LLADD_CALLING(what, name, number) \
    do { \
        if (lladd_dst_entered) { \
            lladd_dst_entered->callback = (what); \
            lladd_dst_entered->op = (name); \
            lladd_dst_entered->page = (number); \
            lladd_dst_entered->calling = true; \
            lladd_dst_entered->calls++; \
        } \
    } while (0)
#define LLADD_CALLED() \
    do { \
        if (lladd_dst_entered) \
            lladd_dst_entered->calling = false; \
    } while (0)
#else
#define LLADD_CALLING(what, name, number) ((void)0)
#define LLADD_CALLED() ((void)0)
#endif

/** LLADD_CHANGED(.op = ..., .page = ...): true if the `change` callback has made the change. C
 *  only. */
#ifdef LLADD_DST
#define LLADD_CHANGED(...) \
    (lladd_dst_entered && lladd_dst_entered->change && \
     (lladd_dst_entered->change(lladd_dst_entered->ctx, \
                                &(const struct lladd_dst_change){__VA_ARGS__}), \
      true))
#else
#define LLADD_CHANGED(...) false
#endif

#ifdef __cplusplus
}
#endif
#endif
