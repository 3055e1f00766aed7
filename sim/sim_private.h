/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_PRIVATE_H
#define LL_SIM_PRIVATE_H
/*
 * The internal interface of the simulator.
 *
 * A *run* is one use of a database, from open to close or crash: the workload, or a recovery. The
 * run's device (device.c) records each call that changes something; these calls are the run's
 * *trace*. A *world* (disk.c) is the disk state at one point of a trace: the durable files, and the
 * pending *operations*. Stepping along a trace builds the world of each crash point without running
 * the database again.
 *
 * A crash leaves some parts of a world undetermined. Each such part is a crash *unit* (unit.c): a
 * page, the unsynced part of the log, a file, the names. A unit has *variants*; in variant 0
 * nothing of the unit has arrived. The next run is a recovery. When it first reads a unit, a
 * variant is *chosen* (choice.c). explore.c enumerates all choices; replay.c takes the choices of a
 * token. There are levels:
 *
 *    level 0   the workload            trace ─► worlds
 *    level 1   recovery from each      trace ─► worlds
 *    level 2   recovery from those     ...
 *
 * Each level has its own arenas (arena.c), which are rewound for the next run. With several
 * threads, level 0 is run in one schedule after another (interleave.c). A *verdict* is the result
 * of the oracles; an *objection* is a violation that one of them reports.
 */
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/inspect.h>
#include <lladd/ship.h>
#include <lladd/sim.h>
#include <string.h>

#define LL_SIM_BLOCK 4096u /* files are kept in blocks of this many bytes */
#define LL_SIM_SECTOR 512u /* no crash tears a sector, except one of the log (unit.c) */
#define LL_SIM_DIRECTORY UINT32_MAX
#define LL_SIM_NO_INODE (UINT32_MAX - 1)

struct ll_sim_chunk;

/* ---- arena.c ----------------------------------------------------------------------------- */

/* All zeros is an empty arena. */
struct ll_sim_arena {
    struct ll_sim_chunk *first, *now;
    size_t used;
};
void *ll_sim_take(struct ll_sim_arena *, size_t); /* NULL: no memory; not zeroed */
/* Returns the array, moved if necessary, with room for the element with index `count`. NULL: no
 * memory. */
void *ll_sim_grow(struct ll_sim_arena *, void *array, size_t count, uint32_t *capacity,
                  size_t element);
void ll_sim_rewind(struct ll_sim_arena *);
void ll_sim_arena_free(struct ll_sim_arena *);

/* The heap from which the databases allocate. */
struct ll_sim_heap {
    struct lladd_allocator face;
    struct ll_sim_arena arena;
    void *free[256];
    uint64_t live; /* pieces in use */
    /* Called before each allocation; nullable. Returns false to make the allocation fail. */
    bool (*grant)(void *ctx, size_t size);
    void *grant_ctx;
};
void ll_sim_heap_init(struct ll_sim_heap *);
void ll_sim_heap_rewind(struct ll_sim_heap *);
/* Forbids access to all memory of the heap, or allows it again. Returns false on failure. */
bool ll_sim_heap_allow(struct ll_sim_heap *, bool allowed);
bool ll_sim_heap_has(const struct ll_sim_heap *, const unsigned char *at);

/* ---- fingerprint.c --------------------------------------------------------------------------- */

static inline uint64_t ll_sim_fold(uint64_t a, uint64_t b)
{
    __uint128_t p = (__uint128_t)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}
static inline uint64_t ll_sim_mix(uint64_t h, uint64_t v)
{
    return ll_sim_fold(h ^ v ^ UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xa0761d6478bd642f) ^ v);
}
uint64_t ll_sim_hash(const void *, size_t);
/* The hash of a file is a sum over its words. Returns the part of that sum that these words add.
 * Words that are 0 add 0. Offset and length are multiples of 8. */
uint64_t ll_sim_hash_at(const unsigned char *, size_t len, uint64_t off);

/* A set of hashes. */
struct ll_sim_set {
    uint64_t *slots;
    size_t size, count;
};
/* Adds a hash. Returns 1 if it was in the set, 0 if not, or LLADD_NO_MEMORY. */
int ll_sim_set_put(struct ll_sim_set *, uint64_t hash);
void ll_sim_set_free(struct ll_sim_set *);

/* ---- disk.c: what is on the disk --------------------------------------------------------- */

/* LL_SIM_LOG_NEW: a log segment that is being made, often from a truncated one (log/create.c). */
enum ll_sim_file_kind { LL_SIM_PLAIN, LL_SIM_PAGES, LL_SIM_LOG, LL_SIM_LOG_NEW };

/* Names are numbered; 0 is the database's directory. */
struct ll_sim_name {
    const char *text;
    const char *last; /* the part after the last slash */
    uint64_t hash;
    uint32_t parent;
    enum ll_sim_file_kind kind; /* the kind of a file with this name */
};
struct ll_sim_names {
    struct ll_sim_name *at;
    uint32_t count, capacity;
    uint32_t *buckets; /* number + 1 */
    uint32_t n_buckets;
};

struct ll_sim_block {
    unsigned char *bytes; /* NULL: zeros */
    bool mine;            /* no other image shares the bytes, so they may be modified */
};

struct ll_sim_inode {
    uint64_t size;
    uint64_t hash;  /* of the contents; maintained in worlds only */
    uint64_t birth; /* hash of the file's first name */
    uint32_t n_blocks, capacity;
    struct ll_sim_block *block;
    const struct ll_sim_image *owner; /* may modify the inode; other images make a copy first */
};

struct ll_sim_binding {
    uint32_t name, inode; /* inode LL_SIM_DIRECTORY: the name is a directory's */
};

/* Names and files. Copies are cheap: images share inodes and blocks until one image writes. */
struct ll_sim_image {
    struct ll_sim_binding *names;
    uint32_t n_names, names_capacity;
    struct ll_sim_inode **inode;
    uint32_t n_inodes, inodes_capacity;
};

/* The effect of a device call, as recorded in the trace. */
enum ll_sim_call_kind {
    LL_SIM_WRITE,
    LL_SIM_TRUNCATE,
    LL_SIM_CREATE,
    LL_SIM_MKDIR,
    LL_SIM_RENAME,
    LL_SIM_UNLINK,
    LL_SIM_SYNC,
    LL_SIM_SYNC_FAILED, /* pending bytes may have arrived; no later sync makes them durable */
    LL_SIM_SYNC_DIR,
    LL_SIM_SYNC_LOST,     /* a sync that fails or lies: pending bytes never arrive, but stay in the
                           * cache */
    LL_SIM_SYNC_REVERTED, /* a sync that fails: pending bytes never arrive, and the cache has the
                           * old bytes again */
    /* These are not in traces; only before_call gets them: */
    LL_SIM_OPEN,
    LL_SIM_READ,
    LL_SIM_SIZE,
    LL_SIM_LIST,
    LL_SIM_APPEND,
    LL_SIM_LOCK,
    LL_SIM_CLOSE
};

struct ll_sim_call {
    uint8_t kind;
    uint32_t inode;
    uint32_t name, to; /* the file's name; the new name, if the call is a rename */
    uint32_t len;
    uint64_t off; /* truncate: the new size */
    const unsigned char *data;
    bool whole; /* pages that the call writes are never torn */
};

/* A part of a device call, if the part is not durable yet. */
struct ll_sim_op {
    uint8_t kind;
    uint8_t file; /* enum ll_sim_file_kind, which determines the unit */
    bool whole;   /* a page that the operation writes is never torn */
    bool lost;    /* a sync of the file has failed or lied */
    bool gone;    /* the operation will never reach the disk */
    uint32_t inode;
    uint32_t name, to;
    uint32_t len;
    uint32_t call; /* index of the call in its trace */
    uint64_t off;
    const unsigned char *data;
    uint64_t hash;
};

struct ll_sim_world {
    struct ll_sim_image image;
    struct ll_sim_op *ops;
    uint32_t n_ops, ops_capacity;
    uint32_t fresh_ops; /* number of operations that the last call has added */
};

int ll_sim_names_init(struct lladd_sim *);
/* Returns the number of a name; UINT32_MAX: no memory. */
uint32_t ll_sim_intern(struct lladd_sim *, const char *text);
struct ll_sim_binding *ll_sim_find(const struct ll_sim_image *, uint32_t name);
int ll_sim_bind(struct ll_sim_arena *, struct ll_sim_image *, uint32_t name, uint32_t inode);
void ll_sim_unbind(struct ll_sim_image *, uint32_t name);
/* Removes names in directories that do not exist. */
void ll_sim_orphans(const struct lladd_sim *, struct ll_sim_image *);
/* Adds an inode. Inode numbers are consecutive. LL_SIM_NO_INODE: no memory. */
uint32_t ll_sim_inode_new(struct ll_sim_arena *, struct ll_sim_image *, uint64_t birth);
int ll_sim_image_copy(struct ll_sim_arena *, const struct ll_sim_image *, struct ll_sim_image *out);
/* Returns the inode, which the image may then modify. If other images share the inode, the image
 * gets a copy of it. NULL: no memory. */
struct ll_sim_inode *ll_sim_own(struct ll_sim_arena *, struct ll_sim_image *, uint32_t inode);
/* Writes bytes to a file. `stable`: `data` stays unchanged while the image lives, so whole blocks
 * need no copy. `hashed`: maintain the inode's hash. */
int ll_sim_put(struct ll_sim_arena *, struct ll_sim_inode *, uint64_t off,
               const unsigned char *data, size_t len, bool stable, bool hashed);
int ll_sim_set_size(struct ll_sim_arena *, struct ll_sim_inode *, uint64_t size, bool hashed);
/* The sum of the sizes of all files that have a name. */
uint64_t ll_sim_image_bytes(const struct ll_sim_image *);
size_t ll_sim_get(const struct ll_sim_inode *, uint64_t off, unsigned char *out, size_t len);
/* Applies a change of names to the image. */
int ll_sim_apply_name(struct ll_sim_arena *, struct ll_sim_image *, const struct ll_sim_op *);
/* Applies call number `number` of a trace to the world. */
int ll_sim_step(struct lladd_sim *, struct ll_sim_arena *, struct ll_sim_world *,
                const struct ll_sim_call *, uint32_t number);
/* Returns a hash of all that is durable and all that is pending. */
uint64_t ll_sim_world_hash(const struct lladd_sim *, const struct ll_sim_world *);

/* ---- unit.c: what a crash leaves undetermined ---------------------------------------------- */

enum ll_sim_unit_kind { LL_SIM_UNIT_NAMES, LL_SIM_UNIT_LOG, LL_SIM_UNIT_DATA, LL_SIM_UNIT_SIZE };

enum { LL_SIM_MASK_WORDS = 2, LL_SIM_MASK_BITS = 64 * LL_SIM_MASK_WORDS };

struct ll_sim_variant {
    uint8_t kind;
    uint32_t count;
    uint64_t mask[LL_SIM_MASK_WORDS];
};
enum {
    LL_SIM_V_CUT,      /* the first `count` bytes of the pending log */
    LL_SIM_V_HOLE,     /* all of the pending log except the bytes from `count` to mask[0] */
    LL_SIM_V_SURVIVOR, /* only the bytes from `count` to mask[0] */
    LL_SIM_V_PREFIX,   /* the first `count` operations; for a size unit, the size after them */
    LL_SIM_V_TORN,     /* the first `count` operations, and those parts of the unit's last operation
                        * that are in the mask */
    LL_SIM_V_NAMES     /* the operations in mask[0]; bit 63 stands for the 64th and all later ones
                        */
};

struct ll_sim_unit {
    uint8_t kind; /* enum ll_sim_unit_kind */
    uint8_t file; /* enum ll_sim_file_kind */
    bool newest;  /* contains an operation of the world's last call */
    bool made;    /* the variants have been generated */
    uint32_t inode;
    uint64_t page; /* for pages: the page number */
    uint32_t *ops; /* indexes of its operations */
    uint32_t n_ops, ops_capacity;
    struct ll_sim_variant *variants;
    uint32_t n, n_capacity;
    uint32_t fresh; /* from this variant on, a part of the last call has arrived; n: no variant */
    uint32_t fine;  /* from this variant on, the log is cut inside a record; n: no variant */
};

struct ll_sim_units {
    struct ll_sim_arena *arena;
    const struct ll_sim_world *world;
    struct ll_sim_unit *at;
    uint32_t count, capacity;
    bool fine; /* generate variants that cut inside a record */
};
/* Finds the units of a world, without their variants. */
int ll_sim_units_of(struct lladd_sim *, struct ll_sim_arena *, const struct ll_sim_world *,
                    bool fine, struct ll_sim_units *out);
int ll_sim_unit_variants(struct lladd_sim *, struct ll_sim_units *, struct ll_sim_unit *);
/* Applies a variant to an image. `hashed` as in ll_sim_put. */
int ll_sim_unit_apply(struct ll_sim_arena *, const struct ll_sim_units *,
                      const struct ll_sim_unit *, uint32_t v, struct ll_sim_image *, bool hashed);
/* Describes the variant in words. */
int ll_sim_unit_describe(const struct lladd_sim *, const struct ll_sim_units *,
                         const struct ll_sim_unit *, uint32_t v, struct lladd_sink *);

/* ---- choice.c ---------------------------------------------------------------------------- */

enum ll_sim_choice_kind {
    LL_SIM_C_MODE,    /* 0: loss of power, 1: the process dies */
    LL_SIM_C_CRASH,   /* before which call of the trace, from 1; 0: no crash */
    LL_SIM_C_VARIANT, /* variant of a unit */
    LL_SIM_C_RESOLVE, /* of transactions in doubt: 0 abort, 1 commit */
    LL_SIM_C_FAULT,   /* of a device call or allocation: 0 none */
    LL_SIM_C_SCHEDULE /* which thread runs next */
};

struct ll_sim_choice {
    uint32_t value, limit; /* enumeration takes values below the limit */
    uint8_t kind;
};
enum ll_sim_choice_mode {
    LL_SIM_ENUMERATE,
    LL_SIM_TAKE,
    LL_SIM_DRAW /* takes the row's answers, then random answers */
};
struct ll_sim_choices {
    struct ll_sim_choice *at;
    uint32_t count, capacity;
    uint32_t pos; /* index of the next answer */
    uint8_t mode;
    uint64_t asked; /* number of questions so far */
    uint64_t drawn; /* state of the random stream, in mode DRAW */
    uint32_t plain; /* in mode DRAW, at least this many of 4 answers are the first possible
                     * answer */
};
/* Returns a number below n. Enumeration goes from `first` up to, but not including, `limit`. */
uint32_t ll_sim_choose(struct lladd_sim *, enum ll_sim_choice_kind, uint32_t n, uint32_t first,
                       uint32_t limit);
/* Appends a choice that the explorer has made itself. */
int ll_sim_choice_push(struct lladd_sim *, enum ll_sim_choice_kind, uint32_t value);
/* Changes the choices from `base` on to the next combination. Returns false after the last
 * combination, and drops the choices from `base` on. */
bool ll_sim_choices_next(struct ll_sim_choices *, uint32_t base);
void ll_sim_choices_free(struct ll_sim_choices *);

/* The contents of a token. */
enum { LL_SIM_VECTOR_MAX = 256 };
enum ll_sim_token_kind {
    LL_SIM_TOKEN_EXPLORE,
    LL_SIM_TOKEN_ERRORS,
    LL_SIM_TOKEN_DAMAGE,
    LL_SIM_TOKEN_RANDOM,
    LL_SIM_TOKEN_INTERLEAVE
};
struct ll_sim_vector {
    uint8_t kind; /* enum ll_sim_token_kind, which determines what the values mean */
    uint32_t flags;
    uint32_t recording; /* the low bits of the hash of the recording */
    uint64_t seed;
    uint32_t count;
    uint32_t value[LL_SIM_VECTOR_MAX];
};
/* Returns false if the token does not fit into LLADD_SIM_TOKEN_MAX characters. */
bool ll_sim_token_encode(const struct lladd_sim_subject *, const struct ll_sim_vector *,
                         char out[LLADD_SIM_TOKEN_MAX + 1]);
int ll_sim_token_decode(const struct lladd_sim_subject *, const char *token,
                        struct ll_sim_vector *out, struct lladd_error *);

/* ---- device.c: a run --------------------------------------------------------------------- */

struct ll_sim_file; /* open file */

struct ll_sim_run {
    struct lladd_device face; /* must be first: the device that the database uses */
    struct lladd_sim *sim;
    struct ll_sim_arena *arena;
    struct ll_sim_image live;        /* the disk as the run sees it */
    const struct ll_sim_world *from; /* the world that has crashed; NULL at level 0 */
    struct ll_sim_units *units;      /* NULL: all has arrived (level 0, or a kill) */
    uint32_t *variant;               /* per unit */
    uint32_t undecided;
    uint32_t pick;    /* in this unit, a part of the last call must have arrived; LL_SIM_NO_UNIT: no
                       * such demand */
    uint32_t deviant; /* the unit that deviates: a page that is not in variant 0, or the log if it
                       * is cut inside a record; LL_SIM_NO_UNIT: none */
    struct ll_sim_call *trace;
    uint32_t n_calls, calls_capacity;
    uint64_t trace_hash;
    uint64_t calls_all;        /* including calls that only read */
    struct ll_sim_file *spare; /* closed handles */
    uint32_t open_files;
    uint32_t level; /* number of crashes before the run */
    uint32_t shown; /* number of decisions that the run has found in force */
    bool kill;      /* the crash before the run was the death of a process */
    bool locked;
    bool looping; /* the run has made too many calls */
    bool looks;   /* used by inspection, which may make any number of calls */
    int failed;   /* LLADD_NO_MEMORY: an error of the simulator, not of the database */
};
#define LL_SIM_UNDECIDED UINT32_MAX
#define LL_SIM_NO_UNIT UINT32_MAX

/* Does the database at that level run on a device that never tears pages, and do its options say
 * so? */
bool ll_sim_is_atomic(const struct lladd_sim *, uint32_t level);

/* Starts a run on the files that a crash has left of a world. `world` NULL: on an empty disk.
 * `units` NULL: the crash was the death of the process. */
int ll_sim_run_init(struct lladd_sim *, struct ll_sim_run *, struct ll_sim_arena *, uint32_t level,
                    const struct ll_sim_world *, struct ll_sim_units *);
/* Builds the world at the beginning of the run's trace: what the crash before the run has left. */
int ll_sim_run_world(struct ll_sim_run *, struct ll_sim_arena *, struct ll_sim_world *out);
extern const struct lladd_device_ops ll_sim_device_ops;

/* ---- record.c: the promises ---------------------------------------------------------------- */

struct ll_sim_note {
    struct ll_sim_note *next;
    const void *bytes;
    size_t len;
};

struct ll_sim_mark { /* a savepoint */
    lladd_savepoint_id id;
    struct ll_sim_note *last;
};

struct ll_sim_txn {
    struct lladd_txn *handle; /* NULL: the transaction has ended */
    lladd_lsn id;
    struct ll_sim_note *first, *last;
    struct ll_sim_mark *marks;
    uint32_t n_marks, marks_capacity;
    uint8_t promise; /* its commit survives: 2 power loss, 1 a kill, 0 neither */
    bool prepared;
    struct lladd_gid gid;
    uint32_t number;  /* from 1, for output */
    int failed;       /* result of the transaction's last call */
    const char *call; /* name of the transaction's last call */
};

enum ll_sim_decision_kind { LL_SIM_COMMIT, LL_SIM_PREPARE, LL_SIM_ROLLBACK, LL_SIM_FORGET };

/* A step that changes what recovery must find. Decisions are kept in the order of the log. */
struct ll_sim_decision {
    uint8_t kind;
    uint8_t outcome; /* heuristic outcome to be remembered, enum lladd_outcome; 0: none */
    uint32_t txn;
    uint32_t called;            /* a crash before this call prevents the decision */
    uint32_t acked, acked_kill; /* a crash before this call or a later one must preserve it */
    lladd_lsn lsn;              /* the LSN to wait for; 0: none */
    lladd_lsn order;            /* LSN of its record; 0: no record, or not known */
};

struct ll_sim_event { /* for the history */
    uint32_t at;      /* number of calls made before the event */
    uint32_t txn;     /* number of the transaction; 0: none */
    const char *what;
    const struct ll_sim_note *note;
};

struct ll_sim_record {
    struct ll_sim_txn **txn;
    uint32_t n_txns, txns_capacity;
    struct ll_sim_decision *decision;
    uint32_t n_decisions, decisions_capacity;
    struct ll_sim_event *event;
    uint32_t n_events, events_capacity;
    uint32_t run_at, run_end; /* number of calls made before the workload, and after it */
    uint64_t acks;
    uint64_t hash; /* of trace and promises; the second run must have the same hash (O14) */
    bool misuse;
    /* About failed calls: */
    uint32_t errors;    /* number of failed calls */
    bool poisoned;      /* a call has returned poison */
    uint32_t late_acks; /* promises of durability made after a call had returned poison */
    int abort_failed;   /* error returned by an abort; 0: none */
};

/* The contents required after the first k decisions. */
struct ll_sim_expected {
    unsigned char *model;
    const unsigned char *dump;
    size_t dump_len;
    uint64_t hash;     /* of the contents; without a model, of the number of decisions */
    uint32_t in_doubt; /* number of transactions in doubt */
    uint32_t outcomes; /* number of remembered heuristic outcomes */
};

/* Runs the subject's setup. */
int ll_sim_set_up(struct lladd_sim *, struct lladd_error *);
/* Opens the database, runs the workload and closes the database. With several threads, kills the
 * database instead. ll_sim_record_begin must have been called. */
int ll_sim_record_run(struct lladd_sim *, struct lladd_error *);
/* Runs the workload of a subject: its function `run`, or its threads. The threads follow the
 * current schedule. Without a schedule, they run one after the other. */
int ll_sim_subject_run(struct lladd_sim *, struct lladd_db *, struct lladd_error *);
/* Must be called when the library logs that a transaction has ended or is prepared. */
void ll_sim_see_decided(struct lladd_sim *, lladd_lsn txn, lladd_lsn record, bool prepare);
/* Runs the setup once and the workload twice; makes the trace, the record and the expectations. */
int ll_sim_record(struct lladd_sim *, struct lladd_error *);
/* Runs the workload again without setup, and replaces the record. Errors may be injected; *failed
 * is the result of the workload. */
int ll_sim_record_again(struct lladd_sim *, int *failed);
/* Two parts of ll_sim_record, for a caller that runs the workload itself. The first starts a run
 * and a record; the second computes the expectations. */
int ll_sim_record_begin(struct lladd_sim *);
int ll_sim_expect(struct lladd_sim *);
/* Adds a line to the history. The line belongs to no transaction. The text must outlive the
 * record. */
int ll_sim_remark(struct lladd_sim *, const char *what);
/* Is the transaction with index `txn` in doubt after the first k decisions? */
bool ll_sim_in_doubt_after(const struct ll_sim_record *, uint32_t txn, uint32_t k);
/* The heuristic outcome that is remembered for the transaction after k decisions; 0: none. */
unsigned ll_sim_outcome_after(const struct ll_sim_record *, uint32_t txn, uint32_t k);
/* The lowest and the highest number of decisions that may be in force after a crash before call
 * c. */
void ll_sim_allowed(const struct ll_sim_record *, uint32_t c, bool kill, uint32_t *lo,
                    uint32_t *hi);

/* ---- oracle.c ---------------------------------------------------------------------------- */

/* The lowest and highest number of decisions that may be in force in the recovered database. */
struct ll_sim_claim {
    uint32_t lo, hi;
    bool again; /* lo and hi are what the previous recovery has shown (O5) */
};

struct ll_sim_verdict {
    enum lladd_sim_oracle oracle; /* the oracle that reports a violation; 0: none */
    uint32_t k;                   /* number of decisions in force */
    int code;                     /* of the call that failed; 0: none */
    char message[512];
};

/* Recovers what a crash has left, and judges the result. *open_calls is the length of the trace
 * when recovery has ended; instant recovery ends after the work that is done while redo is pending.
 * *ending is true if no earlier recovery of this level had the same calls and result. Returns
 * LLADD_NO_MEMORY or 0. */
int ll_sim_judge(struct lladd_sim *, struct ll_sim_run *, const struct ll_sim_claim *,
                 struct ll_sim_verdict *, uint32_t *open_calls, bool *ending);
/* Judges a database that is open, and closes or kills it. */
int ll_sim_judge_open(struct lladd_sim *, struct ll_sim_run *, struct lladd_db *,
                      const struct ll_sim_claim *, struct ll_sim_verdict *, bool *ending);
/* Completes the message of a failed call, and returns err->message. If err has no message, it gets
 * the message of the handle (`db` is nullable) or of the failed transaction. If these have none, it
 * gets the text of the code and the name of the callback that was called last. */
const char *ll_sim_explain(const struct lladd_sim *, struct lladd_db *, int rc,
                           struct lladd_error *err);
/* Allocates, writes and frees a page. */
int ll_sim_go_on(struct lladd_db *, struct lladd_error *);
/* Reports a run that made too many calls (O13), or has not released its memory and files (O12). */
void ll_sim_object_ends(struct lladd_sim *, const struct ll_sim_run *, struct ll_sim_verdict *);
/* A growing buffer on malloc, not in an arena. */
struct ll_sim_buffer {
    unsigned char *bytes;
    size_t len, size;
    struct lladd_sink sink;
};
void ll_sim_buffer_init(struct ll_sim_buffer *);
void ll_sim_buffer_clear(struct ll_sim_buffer *);
void ll_sim_buffer_free(struct ll_sim_buffer *);
int ll_sim_object(struct ll_sim_verdict *, enum lladd_sim_oracle, const char *fmt, ...)
    LLADD_PRINTF(3, 4);

/* ---- inspect.c --------------------------------------------------------------------------- */

/* The findings of inspection. */
struct ll_sim_found {
    struct lladd_sim *sim;
    uint64_t damage, repair, end; /* number of findings of each kind; end of the log */
    char text[300];               /* the first finding of damage, else of repair */
};
/* Starts a run on an image of the files. */
int ll_sim_run_on(struct lladd_sim *, struct ll_sim_arena *, const struct ll_sim_image *,
                  struct ll_sim_run *);
/* Inspects files. `view` is nullable; it is valid until the next inspection. */
int ll_sim_inspect(struct lladd_sim *, const struct ll_sim_image *, struct ll_sim_found *,
                   struct lladd_inspect **view);
/* Inspects what the crash before a run has left, and reports damage (O20). Equal files are
 * inspected once. The run must have been judged. */
int ll_sim_object_damage(struct ll_sim_run *, struct ll_sim_verdict *);

/* ---- coverage.c: coverage of the library's paths --------------------------------------------- */

struct ll_sim_cover {
    struct lladd_sim_coverage *at;
    const char **name; /* the library's pointers to the names, for quick comparison */
    uint32_t count, capacity;
    unsigned char *logical; /* per operation: flags of coverage.c, e.g. how it was undone */
    uint32_t level;         /* the level of the run that is observed */
    bool wal;               /* a page was written before its log (O4) */
    uint64_t wal_page, wal_lsn, wal_durable;
};
/* For lladd_dst.observe; ctx is the struct lladd_sim. */
void ll_sim_observe(void *ctx, const struct lladd_dst_event *);
/* Called when a database is opened. Later events belong to a run at this level. */
void ll_sim_cover_begin(struct ll_sim_cover *, uint32_t level);
/* "; undone: a, b": the operations that the run has undone so far; "" if none. */
void ll_sim_cover_undone(const struct ll_sim_cover *, char *out, size_t size);
/* For lladd_dst.observe when coverage is no longer counted: notes only the operations that are
 * undone, for ll_sim_cover_undone. */
void ll_sim_observe_undone(void *ctx, const struct lladd_dst_event *);
/* Asks the database which of the observed operations are never undone. */
void ll_sim_cover_kinds(struct lladd_sim *, struct lladd_db *);
/* For lladd_dst.stuck: the only thread would wait for ever (O17). */
void ll_sim_stuck(void *ctx, const char *what);
/* Reports the violations that were observed, and forgets them: a page written before its log (O4);
 * in a recovery also an endless wait (O17) and a logical undo that exceeds its limits (O19). */
void ll_sim_object_seen(struct lladd_sim *, struct ll_sim_verdict *);
/* Notes in the coverage which paths are missing, and reports them (O15). */
int ll_sim_cover_judge(struct lladd_sim *);
void ll_sim_cover_free(struct ll_sim_cover *);

/* ---- page_guard.c, rebuild.c: changes of pages while the workload is recorded ---------------- */

struct ll_sim_guard;
/* From now on, each redo and undo runs while other memory is inaccessible (O18). The caller must
 * call ll_sim_guard_end, also after an error. */
int ll_sim_guard_begin(struct lladd_sim *, struct lladd_error *);
/* Does nothing if no guard has begun. */
void ll_sim_guard_end(struct lladd_sim *);
void ll_sim_guard_see(struct lladd_sim *, const struct lladd_dst_event *);
/* `bulk_written` of the simulator's extension: notes the pages for O7. */
int ll_sim_guard_bulk(void *sim, struct lladd_db *, void *state, struct lladd_txn *,
                      lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                      const void *bytes);
/* Looks up the page types of the operations observed. */
int ll_sim_guard_types(struct lladd_sim *, struct lladd_db *);
/* Rebuilds the pages from a copy of the page file and the log, and compares them with the pages
 * that the workload has left (O7). */
int ll_sim_rebuild(struct lladd_sim *);

/* ---- explore.c, replay.c, sim.c, report.c ------------------------------------------------ */

struct ll_sim_level {
    struct ll_sim_arena runs;   /* a run's trace and files */
    struct ll_sim_arena worlds; /* worlds along that trace */
    struct ll_sim_arena units;  /* units of one crash point */
};

/* The effects of a sync that fails or lies. */
enum ll_sim_sync_effect {
    LL_SIM_SYNC_FAILS_LOST = 1, /* returns -EIO; effect of LL_SIM_SYNC_LOST */
    LL_SIM_SYNC_FAILS_REVERTED, /* returns -EIO; effect of LL_SIM_SYNC_REVERTED */
    LL_SIM_SYNC_LIES            /* returns 0; effect of LL_SIM_SYNC_LOST */
};

/* The effects of a write that returns success but goes wrong. */
#define LL_SIM_WRITE_LOST INT64_MAX         /* nothing is written */
/* The bytes are written one page before their place. A write to page 0 goes instead to the bytes
 * directly after its place. */
#define LL_SIM_WRITE_ASTRAY (INT64_MAX - 1)

struct ll_sim_faults;   /* errors.c */
struct ll_sim_crossing; /* interleave.c */

/* The objects as they are on the simulated disk (store.c). */
struct ll_sim_objects {
    struct lladd_store face; /* must be first */
    struct lladd_sim *sim;
};

/* The store of a simulation, and the archive of its databases (store.c). */
struct ll_sim_store {
    struct lladd_store face; /* must be first. Only used if the subject has a filter */
    struct ll_sim_objects objects;
    struct lladd_store *filtered; /* a filter over `objects`; NULL: none was needed on this disk */
    struct lladd_device *disk; /* of the database that is open, or was opened last */
    bool away;                 /* each call fails */
    bool full;                 /* each put fails */
    struct lladd_environment world;
    struct lladd_archive *archive; /* NULL: the subject does not archive */
};

struct lladd_sim {
    struct lladd_sim_subject subject;
    struct lladd_sim_bounds bounds;
    struct lladd_options options;
    struct lladd_extension extension; /* the simulator's own, registered in `options` */
    struct lladd_environment world;
    struct ll_sim_store store;
    struct lladd_dst dst;
    uint32_t page_size;
    struct ll_sim_arena base;  /* names and the result of setup; freed with the simulator */
    struct ll_sim_arena noted; /* record and expectations; rewound when the workload runs again */
    struct ll_sim_heap heap;
    struct ll_sim_names names;
    struct ll_sim_level level[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_choices choices;
    struct ll_sim_set seen, endings;
    struct ll_sim_set inspections;                  /* hashes of inspected worlds */
    struct ll_sim_arena inspected, inspected_world; /* for the run and the world of an inspection */
    struct ll_sim_cover cover;

    /* The recording. */
    struct ll_sim_run workload;
    struct ll_sim_world start; /* the disk after setup */
    uint64_t capacity;         /* of the disk, in bytes of files; 0: unlimited */
    struct ll_sim_record record;
    struct ll_sim_expected *expected; /* n_decisions + 1 entries */
    struct ll_sim_guard *guard;       /* NULL: changes of pages are not guarded */
    struct ll_sim_verdict violation;  /* violation observed in the recording */
    struct ll_sim_verdict noticed;    /* violation observed in the current recovery */

    struct ll_sim_run *running;       /* the run that is using its device */
    struct ll_sim_faults *faults;     /* NULL: no faults */
    struct ll_sim_crossing *crossing; /* NULL: the workload has one thread */
    uint64_t random, clock;
    uint64_t work;    /* state of the workload's random stream */
    uint32_t repeats; /* number of calls of `run`; 0: one */
    uint64_t in_vain; /* number of crash points, and of runs, with nothing new */
    /* Crash number `sampled_from` in a row, and later crashes, are tried for only one recovery of
     * each sort. 0: crashes are tried for each recovery. */
    uint32_t sampled_from;
    struct ll_sim_set sorts;
    uint64_t runs, refused;

    /* Called before each device call of a run; nullable. Returns 0 to continue, or a negative errno
     * that the call returns. For a read or write a positive result is 1 + the number of bytes to
     * transfer, or one of LL_SIM_WRITE_...; for a sync it is one of enum ll_sim_sync_effect. */
    int64_t (*before_call)(void *ctx, struct ll_sim_run *, enum ll_sim_call_kind, uint32_t name,
                           uint64_t off, size_t len);
    void *hook_ctx;
    /* Called after each successful read; nullable. May change the bytes read. */
    void (*after_read)(void *ctx, struct ll_sim_run *, uint32_t inode, uint64_t off,
                       unsigned char *bytes, size_t len);
    void *read_ctx;
    uint64_t misread; /* 1 + the page of lladd_sim_misread; 0: none */
    bool misread_log; /* lladd_sim_misread_log was called, and no read has followed */
    bool in_memory;   /* contract checks: the database is not on the simulated disk */
    bool raw_write;   /* a lost or misdirected write concerned raw bytes, which have no page LSN */

    struct ll_sim_buffer dump, text;
    unsigned char *scratch_model;
    struct lladd_sink *history; /* in a replay, gets the history; else NULL */

    struct lladd_sim_report *report;
    struct lladd_sim_failure *failures; /* of the report */
    struct ll_sim_vector *vectors;      /* the row of each failure; count 0: none */
    uint32_t failures_capacity;
    uint64_t started;
    bool stop; /* bounds are reached, or enough was found */
    bool cut;  /* stopped before everything was explored */
};

/* sim.c */
int ll_sim_new(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
               struct lladd_sim **out, struct lladd_error *);
void ll_sim_free(struct lladd_sim *);
int ll_sim_fail(struct lladd_sim *, const struct ll_sim_verdict *, uint32_t depth,
                const struct ll_sim_vector *);
/* Calls ll_sim_record. Callbacks write to `own`, since the caller's `err` may be NULL. */
int ll_sim_record_first(struct lladd_sim *, struct lladd_error *own, struct lladd_error *err);
/* Makes the verdict for a setup or workload that has failed. */
void ll_sim_object_recording(struct lladd_sim *, struct ll_sim_verdict *, int rc,
                             const struct lladd_error *);
/* Reports a failed setup or workload as a failure (O16), unless the simulator or its caller is the
 * cause. */
int ll_sim_workload_failed(struct lladd_sim *, int rc, const struct lladd_error *);
/* Adds a failure with the current row of choices. */
int ll_sim_found(struct lladd_sim *, const struct ll_sim_verdict *, uint32_t depth);
/* Makes the rows of all failures smaller and sets their tokens. This takes many runs, so the
 * simulator does it at the end. */
int ll_sim_give_tokens(struct lladd_sim *);
/* Sets the error for a token that was made with another recording. */
int ll_sim_other_recording(struct lladd_error *);
uint64_t ll_sim_now(void);
/* Runs a mode on a subject. */
int ll_sim_report_of(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
                     int (*mode)(struct lladd_sim *, struct lladd_error *),
                     struct lladd_sim_report **out, struct lladd_error *);

/* store.c */

/* Prepares the store and, if the subject archives, registers an archive with the options. Free *out
 * after the options. */
int ll_sim_store_begin(struct lladd_sim *, struct lladd_options *, struct lladd_archive **out,
                       struct lladd_error *);
void ll_sim_store_free(struct lladd_sim *);
/* From now on, the store is on this disk. */
void ll_sim_store_place(struct lladd_sim *, struct lladd_device *);

/* record.c */
int ll_sim_open(struct lladd_sim *, struct ll_sim_run *, struct lladd_db **, struct lladd_error *);
void ll_sim_model_apply(const struct lladd_sim *, void *model, uint32_t txn);

/* explore.c */

/* What may be claimed about the database after the crashes of a row. */
struct ll_sim_claims {
    uint32_t lo_power, lo_kill, hi;
    bool power; /* one of the crashes was a loss of power */
    bool again;
};
struct ll_sim_claim ll_sim_claim_of(const struct ll_sim_claims *, bool kill);
int ll_sim_explore(struct lladd_sim *);

/* replay.c */

/* Crashes the run `before` after its first `calls` calls, and prepares the run of the recovery. The
 * row says whether the power fails or the process dies. */
int ll_sim_replay_crash(struct lladd_sim *, struct ll_sim_run *before, uint32_t calls,
                        struct ll_sim_world *, struct ll_sim_units *, struct ll_sim_run *,
                        uint32_t level);
/* Computes the claims for crash number `level` in a row, if the run is crashed after its first
 * `calls` calls. n_calls: after this many calls the run's result is final. */
void ll_sim_claims_at(struct lladd_sim *, const struct ll_sim_run *, uint32_t level, uint32_t calls,
                      uint32_t n_calls, struct ll_sim_claims *);
/* Writes the workload's history up to that call. */
void ll_sim_tell_workload(struct lladd_sim *, uint32_t calls);
/* Makes the vector the row from which later choices take their answers. */
int ll_sim_take_row(struct lladd_sim *, const struct ll_sim_vector *);
/* Runs a vector. Sets the verdict and the number of crashes. */
int ll_sim_replay(struct lladd_sim *, const struct ll_sim_vector *, struct ll_sim_verdict *,
                  uint32_t *depth);
/* Makes a vector of the choices made so far. */
void ll_sim_vector_of(const struct lladd_sim *, struct ll_sim_vector *out);
/* Makes the vector smaller as long as the same oracle reports a violation. */
int ll_sim_shrink(struct lladd_sim *, struct ll_sim_vector *, struct ll_sim_verdict *,
                  uint32_t *depth);

/* report.c */

void ll_sim_json_string(const char *text, struct lladd_sink *);
/* ,"failures":[...] */
void ll_sim_json_failures(uint32_t n, const struct lladd_sim_failure *, struct lladd_sink *);
/* ,"key":value */
void ll_sim_json_number(const char *key, uint64_t value, struct lladd_sink *);
/* The failures as text, with their tokens. */
void ll_sim_text_failures(uint32_t n, const struct lladd_sim_failure *, struct lladd_sink *);

/* damage.c, random.c */

/* Run vectors of LL_SIM_TOKEN_DAMAGE and LL_SIM_TOKEN_RANDOM. Failures are added to the report. */
int ll_sim_damage_replay(struct lladd_sim *, const struct ll_sim_vector *,
                         struct lladd_sink *history, struct lladd_error *);
int ll_sim_random_replay(struct lladd_sim *, const struct ll_sim_vector *,
                         struct lladd_sink *history, struct lladd_error *);

/* interleave.c */

/* Runs the workload's threads by the schedule in the row. */
int ll_sim_cross(struct lladd_sim *, struct lladd_db *, struct lladd_error *);
/* Notes in the history which thread runs now, if it is not the thread noted last. */
int ll_sim_crossing_tell(struct lladd_sim *);
/* The low bits of the hash of the workload in its ordinary schedule. */
uint32_t ll_sim_crossing_recording(const struct lladd_sim *);
/* Does the current row contain the whole schedule? */
bool ll_sim_crossing_told(const struct lladd_sim *);
void ll_sim_crossing_free(struct lladd_sim *);
/* Runs the schedule at the beginning of the row. */
int ll_sim_crossing_replay(struct lladd_sim *, struct ll_sim_verdict *);
/* Runs a vector of LL_SIM_TOKEN_INTERLEAVE. */
int ll_sim_interleave_replay(struct lladd_sim *, const struct ll_sim_vector *,
                             struct lladd_sink *history, struct lladd_error *);
/* The first returns how many values at the beginning of the vector describe the schedule. The
 * second returns how many answers these values contain. */
uint32_t ll_sim_schedule_head(const struct ll_sim_vector *);
uint32_t ll_sim_schedule_answers(const struct ll_sim_vector *);
/* Copies the vector without answer number i. */
void ll_sim_schedule_without(const struct ll_sim_vector *, uint32_t i, struct ll_sim_vector *out);

/* errors.c */

enum { LL_SIM_ERRORS_HEAD = 3 }; /* number of values that identify the fault */
/* Runs a vector of LL_SIM_TOKEN_ERRORS. */
int ll_sim_errors_replay(struct lladd_sim *, const struct ll_sim_vector *, struct ll_sim_verdict *,
                         uint32_t *depth);
/* This many crash points without anything new count as one crash state for the bounds. */
enum { LL_SIM_IN_VAIN = 1000 };

/* Is the log also cut inside records in crashes of this level? By default only for crashes of a
 * workload with one thread. With several threads such cuts are not needed: recovery ignores a cut
 * record, whichever thread wrote it. */
static inline bool ll_sim_cuts_records(const struct lladd_sim *sim, uint32_t level)
{
    return (level == 1 && !sim->crossing) || sim->bounds.flags & LLADD_SIM_FULL_PRODUCT;
}

/* Writes a line to the history, if there is one. */
void ll_sim_tell(struct lladd_sim *, const char *fmt, ...) LLADD_PRINTF(2, 3);
void ll_sim_tell_unit(struct ll_sim_run *, const struct ll_sim_unit *, uint32_t variant);
void ll_sim_tell_call(const struct ll_sim_run *, const struct ll_sim_call *, uint32_t number);

#endif
