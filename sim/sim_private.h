/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_PRIVATE_H
#define LL_SIM_PRIVATE_H
/*
 * The inside of the simulator.
 *
 * A *run* is one life of a database: the workload's, or a recovery. Its device (device.c) writes
 * down every call that changes something: the *trace*. A *world* (disk.c) is what there is at one
 * point of a trace: files as they are durable, and the *operations* issued since that are not.
 * Walking along a trace makes a world of each crash point without running anything again.
 *
 * What a crash leaves of a world is decided by the *unit* (unit.c): a page, the unsynced part of
 * the log, a file, the names. A unit has *variants*, numbered from 0 = nothing of it got through.
 * The next run, a recovery, decides a unit when it first looks at it: then it *chooses* (choice.c).
 * explore.c goes through all choices; replay.c takes those of a token. So there are
 *
 *    level 0   the workload            trace ─► worlds
 *    level 1   recovery from each      trace ─► worlds
 *    level 2   recovery from those     ...
 *
 * each level with an arena of its own (arena.c), wound back for the next run. With several threads
 * level 0 is one schedule after the other (interleave.c).
 */
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/sim.h>

#include <string.h>

#define LL_SIM_BLOCK 4096u /* files are kept in blocks of so many bytes */
#define LL_SIM_SECTOR 512u /* what no disk tears */
#define LL_SIM_DIRECTORY UINT32_MAX
#define LL_SIM_NO_INODE (UINT32_MAX - 1)

struct ll_sim_chunk;

/* ---- arena.c ----------------------------------------------------------------------------- */

/* Zeroed is empty. */
struct ll_sim_arena {
    struct ll_sim_chunk *first, *now;
    size_t used;
};
void *ll_sim_take(struct ll_sim_arena *, size_t); /* NULL: no memory; not zeroed */
/* The array with room for one more, moved if need be. */
void *ll_sim_grow(struct ll_sim_arena *, void *array, size_t count, uint32_t *capacity,
                  size_t element);
void ll_sim_rewind(struct ll_sim_arena *);
void ll_sim_arena_free(struct ll_sim_arena *);

/* What the databases allocate from. */
struct ll_sim_heap {
    struct lladd_allocator face;
    struct ll_sim_arena arena;
    void *free[256];
    uint64_t live; /* pieces not given back */
    /* Called before each allocation; nullable. False: there is no memory. */
    bool (*grant)(void *ctx, size_t size);
    void *grant_ctx;
};
void ll_sim_heap_init(struct ll_sim_heap *);
void ll_sim_heap_rewind(struct ll_sim_heap *);
/* Forbids everything in it to be touched, or allows it again. False: that cannot be done. */
bool ll_sim_heap_allow(struct ll_sim_heap *, bool allowed);
bool ll_sim_heap_has(const struct ll_sim_heap *, const unsigned char *at);

/* ---- hash.c ------------------------------------------------------------------------------ */

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
/* The part that words have in the hash of a file: parts are added, and taken away by subtracting.
 * Zeros have none. Place and length are multiples of 8. */
uint64_t ll_sim_hash_at(const unsigned char *, size_t len, uint64_t off);

/* A set of hashes. */
struct ll_sim_set {
    uint64_t *slots;
    size_t size, count;
};
/* Puts it in: 1 if it was there, 0 if not, LLADD_NO_MEMORY. */
int ll_sim_set_put(struct ll_sim_set *, uint64_t hash);
void ll_sim_set_free(struct ll_sim_set *);

/* ---- disk.c: what is on the disk --------------------------------------------------------- */

/* LOG_NEW: a segment that is being made into another. */
enum ll_sim_file_kind { LL_SIM_PLAIN, LL_SIM_PAGES, LL_SIM_LOG, LL_SIM_LOG_NEW };

/* Names are numbers; 0 is the database's directory itself. */
struct ll_sim_name {
    const char *text;
    const char *last; /* behind the last slash */
    uint64_t hash;
    uint32_t parent;
    enum ll_sim_file_kind kind; /* of a file of this name */
};
struct ll_sim_names {
    struct ll_sim_name *at;
    uint32_t count, capacity;
    uint32_t *buckets; /* number + 1 */
    uint32_t n_buckets;
};

struct ll_sim_block {
    unsigned char *bytes; /* NULL: zeros */
    bool mine;            /* nobody else has it: may be changed */
};

struct ll_sim_inode {
    uint64_t size;
    uint64_t hash;  /* of the contents; kept up to date in worlds only */
    uint64_t birth; /* hash of the name it was made with */
    uint32_t n_blocks, capacity;
    struct ll_sim_block *block;
    const struct ll_sim_image *owner; /* who may change it; the others copy */
};

struct ll_sim_binding {
    uint32_t name, inode; /* LL_SIM_DIRECTORY: a directory */
};

/* Names and files. Copied cheaply: inodes and blocks are shared until somebody writes. */
struct ll_sim_image {
    struct ll_sim_binding *names;
    uint32_t n_names, names_capacity;
    struct ll_sim_inode **inode;
    uint32_t n_inodes, inodes_capacity;
};

/* What a device call did, as the trace has it. */
enum ll_sim_call_kind {
    LL_SIM_WRITE,
    LL_SIM_TRUNCATE,
    LL_SIM_CREATE,
    LL_SIM_MKDIR,
    LL_SIM_RENAME,
    LL_SIM_UNLINK,
    LL_SIM_SYNC,
    LL_SIM_SYNC_FAILED, /* what was pending may have arrived; no later sync makes it durable */
    LL_SIM_SYNC_DIR,
    LL_SIM_SYNC_LOST,     /* it failed, or lied: what was pending never arrives, the cache has it */
    LL_SIM_SYNC_REVERTED, /* the same, and the cache has not */
    /* not in traces: for the hook only */
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
    uint32_t name, to; /* of the file; rename's new one */
    uint32_t len;
    uint64_t off; /* truncate: the new size */
    const unsigned char *data;
    bool whole; /* pages that it writes are never torn */
};

/* A part of a call that is not durable. */
struct ll_sim_op {
    uint8_t kind;
    uint8_t file; /* enum ll_sim_file_kind: by which unit it is decided */
    bool whole;   /* if it writes a page: never in part */
    bool lost;    /* a sync has failed over it */
    bool gone;    /* and it will never get to the disk */
    uint32_t inode;
    uint32_t name, to;
    uint32_t len;
    uint32_t call; /* number of the call in its trace */
    uint64_t off;
    const unsigned char *data;
    uint64_t hash;
};

struct ll_sim_world {
    struct ll_sim_image image;
    struct ll_sim_op *ops;
    uint32_t n_ops, ops_capacity;
    uint32_t fresh_ops; /* how many the last call has added */
};

int ll_sim_names_init(struct lladd_sim *);
/* The number of a name; UINT32_MAX: no memory. */
uint32_t ll_sim_intern(struct lladd_sim *, const char *text);
struct ll_sim_binding *ll_sim_find(const struct ll_sim_image *, uint32_t name);
int ll_sim_bind(struct ll_sim_arena *, struct ll_sim_image *, uint32_t name, uint32_t inode);
void ll_sim_unbind(struct ll_sim_image *, uint32_t name);
/* Drops names in directories that are not there. */
void ll_sim_orphans(const struct lladd_sim *, struct ll_sim_image *);
/* Inode numbers below are known; LL_SIM_NO_INODE if there is no memory. */
uint32_t ll_sim_inode_new(struct ll_sim_arena *, struct ll_sim_image *, uint64_t birth);
int ll_sim_image_copy(struct ll_sim_arena *, const struct ll_sim_image *, struct ll_sim_image *out);
/* The inode to be changed: a copy if it is shared. NULL: no memory. */
struct ll_sim_inode *ll_sim_own(struct ll_sim_arena *, struct ll_sim_image *, uint32_t inode);
/* `stable`: the bytes stay as they are as long as the image lives, whole blocks need no copy.
 * `hashed`: keep the inode's hash. */
int ll_sim_put(struct ll_sim_arena *, struct ll_sim_inode *, uint64_t off,
               const unsigned char *data, size_t len, bool stable, bool hashed);
int ll_sim_set_size(struct ll_sim_arena *, struct ll_sim_inode *, uint64_t size, bool hashed);
size_t ll_sim_get(const struct ll_sim_inode *, uint64_t off, unsigned char *out, size_t len);
/* Applies a change of names to the image. */
int ll_sim_apply_name(struct ll_sim_arena *, struct ll_sim_image *, const struct ll_sim_op *);
/* The world goes one call on. */
int ll_sim_step(struct lladd_sim *, struct ll_sim_arena *, struct ll_sim_world *,
                const struct ll_sim_call *, uint32_t number);
/* Of everything durable and everything pending. */
uint64_t ll_sim_world_hash(const struct lladd_sim *, const struct ll_sim_world *);

/* ---- unit.c: what a crash decides -------------------------------------------------------- */

enum ll_sim_unit_kind { LL_SIM_UNIT_NAMES, LL_SIM_UNIT_LOG, LL_SIM_UNIT_DATA, LL_SIM_UNIT_SIZE };

enum { LL_SIM_MASK_WORDS = 2, LL_SIM_MASK_BITS = 64 * LL_SIM_MASK_WORDS };

struct ll_sim_variant {
    uint8_t kind;
    uint32_t count;
    uint64_t mask[LL_SIM_MASK_WORDS];
};
enum {
    LL_SIM_V_CUT,      /* the first `count` bytes of the pending log */
    LL_SIM_V_HOLE,     /* all of it but the bytes from `count` to mask[0] */
    LL_SIM_V_SURVIVOR, /* nothing but these */
    LL_SIM_V_PREFIX,   /* the first `count` operations; of a size: the size after them */
    LL_SIM_V_TORN,     /* these, and of the last operation the parts of the mask */
    LL_SIM_V_NAMES     /* the operations of mask[0]; bit 63 stands for all from there on */
};

struct ll_sim_unit {
    uint8_t kind; /* enum ll_sim_unit_kind */
    uint8_t file; /* enum ll_sim_file_kind */
    bool newest;  /* has an operation of the world's last call */
    bool made;    /* the variants are there */
    uint32_t inode;
    uint64_t page; /* of a page file */
    uint32_t *ops; /* numbers of its operations */
    uint32_t n_ops, ops_capacity;
    struct ll_sim_variant *variants;
    uint32_t n, n_capacity;
    uint32_t fresh; /* the first variant in which the last call has a part; n: there is none */
    uint32_t fine;  /* the first one that cuts inside a record; n: there is none */
};

struct ll_sim_units {
    struct ll_sim_arena *arena;
    const struct ll_sim_world *world;
    struct ll_sim_unit *at;
    uint32_t count, capacity;
    bool fine; /* cut inside records */
};
/* The units of a world; variants are made when first asked for. */
int ll_sim_units_of(struct lladd_sim *, struct ll_sim_arena *, const struct ll_sim_world *,
                    bool fine, struct ll_sim_units *out);
int ll_sim_unit_variants(struct lladd_sim *, struct ll_sim_units *, struct ll_sim_unit *);
/* Applies a variant to an image. `hashed` as for ll_sim_put. */
int ll_sim_unit_apply(struct ll_sim_arena *, const struct ll_sim_units *,
                      const struct ll_sim_unit *, uint32_t v, struct ll_sim_image *, bool hashed);
/* Says in words what is left of the unit. */
int ll_sim_unit_describe(const struct lladd_sim *, const struct ll_sim_units *,
                         const struct ll_sim_unit *, uint32_t v, struct lladd_sink *);

/* ---- choice.c ---------------------------------------------------------------------------- */

enum ll_sim_choice_kind {
    LL_SIM_C_MODE,    /* 0 power loss, 1 the process dies */
    LL_SIM_C_CRASH,   /* before which call of the trace, from 1; 0: none */
    LL_SIM_C_VARIANT, /* of a unit */
    LL_SIM_C_RESOLVE, /* of transactions in doubt: 0 abort, 1 commit */
    LL_SIM_C_FAULT,   /* of a device call or allocation: 0 none */
    LL_SIM_C_SCHEDULE /* which thread goes on */
};

struct ll_sim_choice {
    uint32_t value, limit; /* enumeration stops before it */
    uint8_t kind;
};
enum ll_sim_choice_mode {
    LL_SIM_ENUMERATE,
    LL_SIM_TAKE,
    LL_SIM_DRAW /* beyond the row: at random */
};
struct ll_sim_choices {
    struct ll_sim_choice *at;
    uint32_t count, capacity;
    uint32_t pos; /* the next to be asked for */
    uint8_t mode;
    uint64_t asked; /* in all */
    uint64_t drawn; /* state of the stream, if they are drawn */
    uint32_t plain; /* of 4, how many draws are the ordinary answer */
};
/* Answers a number below n. Enumeration goes from `first` to below `limit`. */
uint32_t ll_sim_choose(struct lladd_sim *, enum ll_sim_choice_kind, uint32_t n, uint32_t first,
                       uint32_t limit);
/* Adds a choice that the explorer has made itself. */
int ll_sim_choice_push(struct lladd_sim *, enum ll_sim_choice_kind, uint32_t value);
/* Makes ready for the next run with other choices from `base` on; false: there are none, and those
 * from `base` on are gone. */
bool ll_sim_choices_next(struct ll_sim_choices *, uint32_t base);
void ll_sim_choices_free(struct ll_sim_choices *);

/* What a token holds. */
enum { LL_SIM_VECTOR_MAX = 256 };
enum ll_sim_token_kind {
    LL_SIM_TOKEN_EXPLORE,
    LL_SIM_TOKEN_ERRORS,
    LL_SIM_TOKEN_DAMAGE,
    LL_SIM_TOKEN_RANDOM,
    LL_SIM_TOKEN_INTERLEAVE
};
struct ll_sim_vector {
    uint8_t kind; /* enum ll_sim_token_kind: what the values mean */
    uint32_t flags;
    uint32_t recording; /* a part of the hash of the recording */
    uint64_t seed;
    uint32_t count;
    uint32_t value[LL_SIM_VECTOR_MAX];
};
/* False if it does not fit LLADD_SIM_TOKEN_MAX characters. */
bool ll_sim_token_encode(const struct lladd_sim_subject *, const struct ll_sim_vector *,
                         char out[LLADD_SIM_TOKEN_MAX + 1]);
int ll_sim_token_decode(const struct lladd_sim_subject *, const char *token,
                        struct ll_sim_vector *out, struct lladd_error *);

/* ---- device.c: a run --------------------------------------------------------------------- */

struct ll_sim_file; /* open file */

struct ll_sim_run {
    struct lladd_device face; /* first: what the database gets */
    struct lladd_sim *sim;
    struct ll_sim_arena *arena;
    struct ll_sim_image live;        /* as the run sees it */
    const struct ll_sim_world *from; /* what the crash left; NULL at level 0 */
    struct ll_sim_units *units;      /* NULL: everything is there (level 0, killed process) */
    uint32_t *variant;               /* of each unit */
    uint32_t undecided;
    uint32_t pick;    /* the unit that must have a part of the last call; NO_UNIT: any or none */
    uint32_t deviant; /* the page that is not at 0, or the log cut inside a record; NO_UNIT */
    struct ll_sim_call *trace;
    uint32_t n_calls, calls_capacity;
    uint64_t trace_hash;
    uint64_t calls_all;        /* reading ones too */
    struct ll_sim_file *spare; /* closed handles */
    uint32_t open_files;
    uint32_t level; /* crashes before it */
    uint32_t shown; /* how many decisions it has found in force */
    bool kill;      /* the last of these was the death of a process */
    bool locked;
    bool looping; /* too many calls */
    int failed;   /* LLADD_NO_MEMORY: ours, not the database's */
};
#define LL_SIM_UNDECIDED UINT32_MAX
#define LL_SIM_NO_UNIT UINT32_MAX

/* Is the database of that level told that pages are never torn, and are they not? */
bool ll_sim_is_atomic(const struct lladd_sim *, uint32_t level);

/* A fresh run on what a crash left of a world (NULL: an empty disk). Without units the process has
 * died, nothing else. */
int ll_sim_run_init(struct lladd_sim *, struct ll_sim_run *, struct ll_sim_arena *, uint32_t level,
                    const struct ll_sim_world *, struct ll_sim_units *);
/* What the crash before the run has left: where its trace begins. */
int ll_sim_run_world(struct ll_sim_run *, struct ll_sim_arena *, struct ll_sim_world *out);
extern const struct lladd_device_ops ll_sim_device_ops;

/* ---- record.c: what was promised --------------------------------------------------------- */

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
    struct lladd_txn *handle; /* NULL: over */
    lladd_lsn id;
    struct ll_sim_note *first, *last;
    struct ll_sim_mark *marks;
    uint32_t n_marks, marks_capacity;
    uint8_t promise; /* of its commit: 2 survives power loss, 1 the process, 0 neither */
    bool prepared;
    struct lladd_gid gid;
    uint32_t number;  /* from 1, for people */
    int failed;       /* what its last call returned */
    const char *call; /* which that was */
};

enum ll_sim_decision_kind { LL_SIM_COMMIT, LL_SIM_PREPARE, LL_SIM_ROLLBACK, LL_SIM_FORGET };

/* A step in log order that changes what recovery has to find. */
struct ll_sim_decision {
    uint8_t kind;
    uint8_t outcome; /* enum lladd_outcome of an administrator, to be remembered; 0: none */
    uint32_t txn;
    uint32_t called;            /* a crash before this call comes before it */
    uint32_t acked, acked_kill; /* a crash before this call or a later one must keep it */
    lladd_lsn lsn;              /* to wait for; 0 */
    lladd_lsn order;            /* of its record; 0: it has none, or it is not known */
};

struct ll_sim_event { /* for the history */
    uint32_t at;      /* calls made before it */
    uint32_t txn;     /* 0: no transaction's */
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
    uint32_t run_at, run_end; /* calls made before the workload; after it */
    uint64_t acks;
    uint64_t hash; /* of trace and promises: must be the same twice */
    bool misuse;
    /* Of calls that failed: */
    uint32_t errors;    /* how many did */
    bool poisoned;      /* one of them with poison */
    uint32_t late_acks; /* promises made after that */
    int abort_failed;   /* what an abort returned; 0: all went well */
};

/* What the database must contain after the first k decisions. */
struct ll_sim_expected {
    unsigned char *model;
    const unsigned char *dump;
    size_t dump_len;
    uint64_t hash;     /* of what it stands for, whatever its number */
    uint32_t in_doubt; /* how many */
    uint32_t outcomes; /* heuristic ones, how many */
};

/* Setup, to where the workload starts. */
int ll_sim_set_up(struct lladd_sim *, struct lladd_error *);
/* Opens, runs the workload, closes; on a record that has begun. */
int ll_sim_record_run(struct lladd_sim *, struct lladd_error *);
/* The workload of a subject: `run`, or its threads one after the other. */
int ll_sim_subject_run(struct lladd_sim *, struct lladd_db *, struct lladd_error *);
/* The library has logged the end of a transaction, or that it is prepared. */
void ll_sim_see_decided(struct lladd_sim *, lladd_lsn txn, lladd_lsn record, bool prepare);
/* Runs setup and workload, twice; makes the trace, the record and what is expected. */
int ll_sim_record(struct lladd_sim *, struct lladd_error *);
/* The workload once more, without setup: what the last run has made of the record is forgotten.
 * Errors may happen in it; *failed is what it returned. */
int ll_sim_record_again(struct lladd_sim *, int *failed);
/* The parts of it, for who runs the workload himself: a fresh run and record; what is expected. */
int ll_sim_record_begin(struct lladd_sim *);
int ll_sim_expect(struct lladd_sim *);
/* A line of the history that is no transaction's; the text stays the caller's. */
int ll_sim_remark(struct lladd_sim *, const char *what);
/* Is the transaction of `txn` in doubt after the first k decisions? */
bool ll_sim_in_doubt_after(const struct ll_sim_record *, uint32_t txn, uint32_t k);
/* The heuristic outcome that is remembered of it then; 0: none. */
unsigned ll_sim_outcome_after(const struct ll_sim_record *, uint32_t txn, uint32_t k);
/* The first and last k that a crash before call c may leave. */
void ll_sim_allowed(const struct ll_sim_record *, uint32_t c, bool kill, uint32_t *lo,
                    uint32_t *hi);

/* ---- oracle.c ---------------------------------------------------------------------------- */

/* How many decisions the recovered database may hold. */
struct ll_sim_claim {
    uint32_t lo, hi;
    bool again; /* lo = hi is what the recovery before had found (O5) */
};

struct ll_sim_verdict {
    enum lladd_sim_oracle oracle; /* 0: nothing to object */
    uint32_t k;                   /* what it is */
    int code;                     /* of the call that failed; 0: none has */
    char message[512];
};

/* Recovers what a crash has left, and looks at it. `open_calls`: length of the trace when open had
 * returned. *ending: the recovery was like no other before. LLADD_NO_MEMORY, or 0. */
int ll_sim_judge(struct lladd_sim *, struct ll_sim_run *, const struct ll_sim_claim *,
                 struct ll_sim_verdict *, uint32_t *open_calls, bool *ending);
/* The same of a database that is open already, and then is no more. */
int ll_sim_judge_open(struct lladd_sim *, struct ll_sim_run *, struct lladd_db *,
                      const struct ll_sim_claim *, struct ll_sim_verdict *, bool *ending);
/* What a failed call has to say for itself. An error without a message gets that of the handle
 * (`db` is nullable), of the transaction that failed, or what its code means; and which callback
 * was called last. Returns err->message. */
const char *ll_sim_explain(const struct lladd_sim *, struct lladd_db *, int rc,
                           struct lladd_error *err);
/* A page is allocated, written and freed. */
int ll_sim_go_on(struct lladd_db *, struct lladd_error *);
/* Did it end by itself, and is anything left of it? (O12, O13) */
void ll_sim_object_ends(struct lladd_sim *, const struct ll_sim_run *, struct ll_sim_verdict *);
/* Bytes that collect in an arena-less buffer. */
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

/* ---- cover.c: what the library says that it does ----------------------------------------- */

struct ll_sim_cover {
    struct lladd_sim_coverage *at;
    const char **name; /* the pointers the library gives, to compare without looking */
    uint32_t count, capacity;
    unsigned char *logical; /* of each: how it can be taken back, as far as it is known */
    uint32_t level;         /* of the run that is being watched */
    bool wal;               /* a page was written before its log (O4) */
    uint64_t wal_page, wal_lsn, wal_durable;
};
/* For lladd_dst: ctx is the struct lladd_sim. */
void ll_sim_observe(void *ctx, const struct lladd_dst_event *);
/* Asks the database which of the operations that were seen are never undone. */
void ll_sim_cover_kinds(struct lladd_sim *, struct lladd_db *);
/* For lladd_dst: the only thread would wait for ever (O17). */
void ll_sim_stuck(void *ctx, const char *what);
/* Objects to what was seen during the run: the write that broke the rule of the log (O4), a wait
 * (O17), a logical undo that has used too much (O19). Forgets it. */
void ll_sim_object_seen(struct lladd_sim *, struct ll_sim_verdict *);
/* Fills in what is missing, and objects to it (O15). */
int ll_sim_cover_judge(struct lladd_sim *);
void ll_sim_cover_free(struct ll_sim_cover *);

/* ---- guard.c, rebuild.c: changes of pages while the workload is recorded ------------------ */

struct ll_sim_guard;
/* From now on each redo and undo is made under guard. Whatever they return, _end follows. */
int ll_sim_guard_begin(struct lladd_sim *, struct lladd_error *);
/* Nothing happens if nothing has begun. */
void ll_sim_guard_end(struct lladd_sim *);
void ll_sim_guard_see(struct lladd_sim *, const struct lladd_dst_event *);
/* Asks the database for the page types that were met. */
int ll_sim_guard_types(struct lladd_sim *, struct lladd_db *);
/* Makes the pages once more, of a copy and the log (O7). */
int ll_sim_rebuild(struct lladd_sim *);

/* ---- explore.c, replay.c, sim.c, report.c ------------------------------------------------ */

struct ll_sim_level {
    struct ll_sim_arena runs;   /* what one run leaves: its trace, its files */
    struct ll_sim_arena worlds; /* worlds along that trace */
    struct ll_sim_arena units;  /* of one crash point */
};

/* What becomes of a sync that does not do what it is for. */
enum ll_sim_sync_effect {
    LL_SIM_SYNC_FAILS_LOST = 1, /* -EIO; as LL_SIM_SYNC_LOST says */
    LL_SIM_SYNC_FAILS_REVERTED, /* -EIO; as LL_SIM_SYNC_REVERTED says */
    LL_SIM_SYNC_LIES            /* 0; as LL_SIM_SYNC_LOST says */
};

/* What becomes of a write that says that it was done. */
#define LL_SIM_WRITE_LOST INT64_MAX         /* nothing */
#define LL_SIM_WRITE_ASTRAY (INT64_MAX - 1) /* one page further back, or, of the first, on */

struct ll_sim_faults;   /* errors.c */
struct ll_sim_crossing; /* interleave.c */

struct lladd_sim {
    struct lladd_sim_subject subject;
    struct lladd_sim_bounds bounds;
    struct lladd_options options;
    struct lladd_world world;
    struct lladd_dst dst;
    uint32_t page_size;
    struct ll_sim_arena base;  /* names, what setup has made: as long as the exploration */
    struct ll_sim_arena noted; /* record and expectations: until the workload runs again */
    struct ll_sim_heap heap;
    struct ll_sim_names names;
    struct ll_sim_level level[LLADD_SIM_DEPTH_MAX + 2];
    struct ll_sim_choices choices;
    struct ll_sim_set seen, endings;
    struct ll_sim_cover cover;

    /* The recording. */
    struct ll_sim_run workload;
    struct ll_sim_world start; /* as setup has left it */
    struct ll_sim_record record;
    struct ll_sim_expected *expected; /* one more than decisions */
    struct ll_sim_guard *guard;       /* NULL: nobody looks at changes of pages */
    struct ll_sim_verdict objection;  /* to the recording, by who was looking */
    struct ll_sim_verdict noticed;    /* the same, of the recovery that is under way */

    struct ll_sim_run *running;       /* whose device is in use */
    struct ll_sim_faults *faults;     /* NULL: nothing fails */
    struct ll_sim_crossing *crossing; /* NULL: the workload has one thread */
    uint64_t random, clock;
    uint64_t work;    /* state of the workload's stream */
    uint32_t repeats; /* how often `run` is called; 0: once */
    uint64_t in_vain; /* places to crash, and runs, at which there was nothing new */
    /* From this crash in a row on, one recovery of each sort is crashed; 0: always all are. */
    uint32_t sampled_from;
    struct ll_sim_set sorts;
    uint64_t runs, refused;

    /* Called before each device call of a run; nullable. 0 goes on; a negative errno is what the
     * call returns; of a read or write, a positive count is how much of it is done, and one, or
     * one of LL_SIM_WRITE_...; of a sync, a positive number is one of enum ll_sim_sync_effect. */
    int64_t (*before_call)(void *ctx, struct ll_sim_run *, enum ll_sim_call_kind, uint32_t name,
                           uint64_t off, size_t len);
    void *hook_ctx;
    /* Called after each read that succeeded; nullable: what was read may be changed. */
    void (*after_read)(void *ctx, struct ll_sim_run *, uint32_t inode, uint64_t off,
                       unsigned char *bytes, size_t len);
    void *read_ctx;
    bool raw_write; /* the write that was lost, or went elsewhere, was of bytes without an LSN */

    struct ll_sim_buffer dump, text;
    unsigned char *scratch_model;
    struct lladd_sink *history; /* of a replay, once it tells; NULL */

    struct lladd_sim_report *report;
    struct lladd_sim_failure *failures; /* of the report */
    struct ll_sim_vector *vectors;      /* of each; count 0: none */
    uint32_t failures_capacity;
    uint64_t started;
    bool stop; /* bounds are reached, or enough was found */
    bool cut;  /* and something is left */
};

/* sim.c */
int ll_sim_new(const struct lladd_sim_subject *, const struct lladd_sim_bounds *,
               struct lladd_sim **out, struct lladd_error *);
void ll_sim_free(struct lladd_sim *);
int ll_sim_fail(struct lladd_sim *, const struct ll_sim_verdict *, uint32_t depth,
                const struct ll_sim_vector *);
/* ll_sim_record. Callbacks get an error of ours to write to: the caller's may be NULL. */
int ll_sim_record_first(struct lladd_sim *, struct lladd_error *own, struct lladd_error *err);
/* Setup or workload have failed: whose objection that is. */
void ll_sim_object_recording(struct lladd_sim *, struct ll_sim_verdict *, int rc,
                             const struct lladd_error *);
/* That is what was found, unless it is an error of ours. */
int ll_sim_workload_failed(struct lladd_sim *, int rc, const struct lladd_error *);
/* Objects to what the exploration has found, while bounds allow. */
int ll_sim_found(struct lladd_sim *, const struct ll_sim_verdict *, uint32_t depth);
/* Failures get their tokens once all is found: making them smaller takes runs. */
int ll_sim_give_tokens(struct lladd_sim *);
/* The token was made with another recording. */
int ll_sim_other_recording(struct lladd_error *);
uint64_t ll_sim_now(void);
/* The report leaves with what belongs to it. */
struct lladd_sim_report *ll_sim_hand_over(struct lladd_sim *);
/* record.c */
int ll_sim_open(struct lladd_sim *, struct ll_sim_run *, struct lladd_db **, struct lladd_error *);
void ll_sim_model_apply(const struct lladd_sim *, void *model, uint32_t txn);

/* explore.c */

/* What crashes in a row have left to claim. */
struct ll_sim_claims {
    uint32_t lo_power, lo_kill, hi;
    bool power; /* one of the crashes was a loss of power */
    bool again;
};
struct ll_sim_claim ll_sim_claim_of(const struct ll_sim_claims *, bool kill);
int ll_sim_explore(struct lladd_sim *);

/* replay.c */

/* The crash before the call of that number, and the recovery from it. `kill` out of the row. */
int ll_sim_replay_crash(struct lladd_sim *, struct ll_sim_run *before, uint32_t calls,
                        struct ll_sim_world *, struct ll_sim_units *, struct ll_sim_run *,
                        uint32_t level);
/* The claims before call `calls` of a run that is followed at `level`. */
void ll_sim_claims_at(struct lladd_sim *, const struct ll_sim_run *, uint32_t level, uint32_t calls,
                      uint32_t n_calls, struct ll_sim_claims *);
/* The workload's history up to that call. */
void ll_sim_tell_workload(struct lladd_sim *, uint32_t calls);
/* Makes a row the one that is taken. */
int ll_sim_take_row(struct lladd_sim *, const struct ll_sim_vector *);
/* Runs a vector; what is found is in the verdict, and after how many crashes. */
int ll_sim_replay(struct lladd_sim *, const struct ll_sim_vector *, struct ll_sim_verdict *,
                  uint32_t *depth);
/* The vector of the choices made until now. */
void ll_sim_vector_of(const struct lladd_sim *, struct ll_sim_vector *out);
/* Makes it smaller as long as the same oracle objects. */
int ll_sim_shrink(struct lladd_sim *, struct ll_sim_vector *, struct ll_sim_verdict *,
                  uint32_t *depth);

/* report.c */

void ll_sim_json_string(const char *text, struct lladd_sink *);
/* ,"failures":[...] */
void ll_sim_json_failures(uint32_t n, const struct lladd_sim_failure *, struct lladd_sink *);

/* damage.c, random.c */

/* Run vectors of LL_SIM_TOKEN_DAMAGE and LL_SIM_TOKEN_RANDOM, with all that is found in the report.
 */
int ll_sim_damage_replay(struct lladd_sim *, const struct ll_sim_vector *,
                         struct lladd_sink *history, struct lladd_error *);
int ll_sim_random_replay(struct lladd_sim *, const struct ll_sim_vector *,
                         struct lladd_sink *history, struct lladd_error *);

/* interleave.c */

/* Runs the workload's threads; inside a schedule. */
int ll_sim_cross(struct lladd_sim *, struct lladd_db *, struct lladd_error *);
/* Another thread than the last time goes on: the history says so. */
int ll_sim_crossing_tell(struct lladd_sim *);
/* A part of the hash of the workload in its simplest schedule. */
uint32_t ll_sim_crossing_recording(const struct lladd_sim *);
/* Does the row that is made begin with all of the schedule? */
bool ll_sim_crossing_told(const struct lladd_sim *);
void ll_sim_crossing_free(struct lladd_sim *);
/* Runs the schedule at the head of the row that is taken; what follows are crashes. */
int ll_sim_crossing_replay(struct lladd_sim *, struct ll_sim_verdict *);
/* Runs a vector of LL_SIM_TOKEN_INTERLEAVE. */
int ll_sim_interleave_replay(struct lladd_sim *, const struct ll_sim_vector *,
                             struct lladd_sink *history, struct lladd_error *);
/* How many values at its head say which schedule it is, and how many answers these are. */
uint32_t ll_sim_schedule_head(const struct ll_sim_vector *);
uint32_t ll_sim_schedule_answers(const struct ll_sim_vector *);
/* The same without answer number i. */
void ll_sim_schedule_without(const struct ll_sim_vector *, uint32_t i, struct ll_sim_vector *out);

/* errors.c */

enum { LL_SIM_ERRORS_HEAD = 3 }; /* values that say which fault it is */
/* Runs a vector of LL_SIM_TOKEN_ERRORS. */
int ll_sim_errors_replay(struct lladd_sim *, const struct ll_sim_vector *, struct ll_sim_verdict *,
                         uint32_t *depth);
/* So many places without anything new count for one crash state, where these are bounded. */
enum { LL_SIM_IN_VAIN = 1000 };

/* Is the log cut inside records, too, at the crash of this level? (A record that was cut means
 * nothing, whichever thread wrote it: no schedule is needed to see that.) */
static inline bool ll_sim_cuts_records(const struct lladd_sim *sim, uint32_t level)
{
    return (level == 1 && !sim->crossing) || sim->bounds.flags & LLADD_SIM_FULL_PRODUCT;
}

/* Tell the history, if somebody listens. */
void ll_sim_tell(struct lladd_sim *, const char *fmt, ...) LLADD_PRINTF(2, 3);
void ll_sim_tell_unit(struct ll_sim_run *, const struct ll_sim_unit *, uint32_t variant);
void ll_sim_tell_call(const struct ll_sim_run *, const struct ll_sim_call *, uint32_t number);

#endif
