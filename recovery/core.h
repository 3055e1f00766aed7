/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_CORE_H
#define LL_RECOVERY_CORE_H
/* The transactional core: the log, the buffer manager, the catalogue of names, the transaction
 * table, and the steps that connect them. Recovery, db/ and inspect/ use the core.
 *
 *   lladd_update ─► ll_core_update: prepare ► dirty ► reserve ► publish ► redo ► stamp
 *   lladd_abort ──► ll_rollback:    undo each record, with a compensation record; then END
 *   lladd_open ───► ll_restart:     analysis ► redo ► objects ► in doubt ► undo by depth
 *
 * Two orders must be kept:
 *   - A transaction stores last, undo_next and state *between* reserving a record's LSN and
 *     publishing the record. A checkpoint waits until every record below its begin record is
 *     published. The transaction table that the checkpoint then reads includes all these records.
 *   - A frame enters the dirty page table *before* the record of its change is reserved (BUF-4). */
#include "buffer/buffer.h"
#include "log/log.h"
#include "recovery/control.h"
#include "util/vec.h"

#include <lladd/device.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/log_read.h>
#include <lladd/sync.h>
#include <lladd/twophase.h>

struct ll_core;
struct ll_instant;  /* restart_instant.c */
struct ll_deferred; /* deferred_undo.c */

/* ---- catalogue: names and their numbers ---------------------------------------------------- */

enum ll_name_kind {
    LL_NAME_OP = 1,
    LL_NAME_PAGE_TYPE = 2,
    LL_NAME_CLASS = 3,
    LL_NAME_PARTICIPANT = 4,
    LL_NAME_TAG = 5,
    LL_NAME_KINDS
};

/* A name of the database. The first use of a name gives it a number, and logs the number. */
struct ll_name {
    uint32_t version;
    uint32_t number;    /* atomic: 0 until the number is logged */
    uint32_t log_again; /* atomic; for a class: 1 if the class's number must be logged again */
    uint8_t kind;
    bool learned; /* not registered: the name and the fields are allocated */
    const char *name;
    lladd_lsn first_used; /* LSN of the record that states the number */
    const void *desc;     /* the registered descriptor; NULL: not registered */
    struct lladd_field *redo_fields, *undo_fields; /* from the log, to be freed; or NULL */
    struct ll_name *page_type;                     /* for an operation; NULL: it needs none */
    uint32_t page_type_number;                     /* for a learned operation; 0: none */
    /* for a registered operation: the maximum that one record can need */
    size_t need_credit, need_scratch, need_copy, need_nesting;
    uint64_t need_undo;
    size_t record_max;      /* maximum sum of the redo and undo bytes of one record */
    uint64_t undo_log_most; /* atomic: the maximum log bytes that one compensation has written */
    uint64_t count, bytes, redone, redo_ns; /* statistics, relaxed */
};

enum { LL_CATALOGUE_FOUND = 16 };

struct ll_op_catalog {
    struct ll_name **ids; /* registered operations by lladd_op_id */
    size_t n_ids;
    struct ll_name **classes; /* registered object classes */
    size_t n_classes;
    struct ll_name **types; /* page types, in the order of registration */
    size_t n_types;
    struct ll_name **all; /* every name, the registered names first */
    size_t n_all, cap_all, n_registered;
    size_t hint;                                 /* index in `all` where the next search begins */
    struct ll_name *by_desc[LL_CATALOGUE_FOUND]; /* atomic: cache of ll_op_catalog_by_desc */
    struct ll_name **numbers; /* by number - 1; replaced arrays are kept until close */
    uint32_t n_numbers, cap_numbers;
    void *retired;              /* chain of replaced `numbers` arrays */
    struct ll_name *registered; /* the registered names; they never move */
    unsigned char *buf;         /* room for the payload of any registered name or tag */
    size_t buf_size;
    uint64_t log_bytes; /* atomic: upper bound of the bytes of all catalogue records */
    struct lladd_mutex mutex;
};

/* ---- transactions -------------------------------------------------------------------------- */

enum ll_txn_state {
    LL_TXN_FREE = 0,
    LL_TXN_ACTIVE,
    LL_TXN_PREPARED, /* may only be committed or aborted */
    LL_TXN_ENDED     /* its commit or end record has an LSN */
};

#define LL_TXN_MAGIC 0x4e58544cu

struct ll_savepoint {
    lladd_savepoint_id id;
    lladd_lsn undo_next;
    uint64_t undo_used;
    size_t actions; /* number of top actions open at the savepoint */
};

struct ll_action {
    uint64_t id;
    lladd_lsn undo_next; /* the transaction's undo_next when the action began */
    uint64_t undo_used;
};

struct ll_joined {
    const struct lladd_participant *participant;
    void *state;
};

/* State of a prepared transaction. */
struct ll_prepared {
    struct lladd_gid gid;
    int64_t prepared_us;
    lladd_lsn lsn;
    char owner[64];
    uint32_t blobs; /* number of blob records, which precede the prepare record in its chain */
    bool recovered; /* found by recovery; the application can claim it */
    bool claimed;
};

struct lladd_txn {
    uint32_t magic;
    uint32_t state; /* atomic */
    struct ll_core *core;
    union { /* ll_log_append changes the chain */
        struct {
            lladd_lsn id, last, undo_next;
        };
        struct ll_chain chain;
    };
    uint64_t busy;   /* atomic: every record below this LSN is applied; UINT64_MAX: all records */
    uint64_t lives;  /* atomic: number of transactions that have begun in this memory */
    uint32_t depth;  /* nesting depth of the records that the transaction writes now */
    uint32_t system; /* atomic: 0 or 1 */
    bool read_only, rolling_back;
    bool frees_log; /* its commit may allow truncation of the log, so the byte limit refuses no
                     * record of the transaction */
    uint8_t durability;
    struct ll_credit credit;
    unsigned images;        /* number of images of bulk-written pages that the credit includes */
    uint64_t undo_used;     /* maximum log bytes that a rollback can need now */
    uint64_t rolled;        /* upper bound of the log bytes that its rollbacks have written */
    uint64_t undo_spare;    /* undo reserve that no record uses yet */
    unsigned char *scratch; /* a draft, followed by room to build a page image; grows */
    size_t scratch_size;
    unsigned char *undo_copy; /* a stack: undo bytes of the running compensations */
    size_t undo_copy_size, undo_copy_used;
    /* Statistics of the operation that was used last; kept when the transaction ends. Atomic. */
    struct ll_name *counted;
    uint64_t counted_n, counted_bytes;
    struct ll_savepoint *savepoints;
    size_t n_savepoints, cap_savepoints;
    struct ll_action *actions;
    size_t n_actions, cap_actions;
    uint64_t next_id; /* of savepoints and actions */
    uint64_t undone;  /* id of the last rollback's savepoint, or of the last aborted action */
    struct ll_joined *joined;
    size_t n_joined, cap_joined;
    struct ll_prepared *prepared;
    struct ll_log_cursor *cursor; /* for rollback; opened when first needed */
    char *owner;
    /* A guarded transaction (db/guard.c). Atomic, except `calls`. */
    uint64_t user;   /* the thread that may use this handle; LL_NO_USER: none; 0: not guarded */
    uint64_t inside; /* the thread in a call or with an open top action; 0: no thread */
    uint32_t takers; /* threads that wait for `inside` to leave */
    uint32_t stops;  /* number of takers that ask to interrupt the waits of `inside` */
    uint32_t left;   /* changes when a call ends while a taker waits */
    uint32_t refs;   /* references: of the transaction, the call, and each thread that lost the
                      * transaction to a taker */
    uint32_t calls;  /* nested calls of the thread `inside` */
    struct lladd_txn *next;      /* in the list of all transactions */
    struct lladd_txn *next_free; /* in the free list */
    struct lladd_error err;
};

#define LL_NO_USER UINT64_MAX

/* An entry of the queue of commits that may not be durable yet. It holds one commit, or several
 * commits without durable callbacks. */
struct ll_pending {
    uint64_t first;     /* LSN of the oldest commit */
    lladd_lsn commit;   /* LSN of the newest commit */
    uint64_t undo_used; /* released when the entry is durable */
    struct ll_joined *joined;
    size_t n_joined;
};

struct ll_txn_table {
    struct lladd_mutex mutex; /* guards both lists, and `prepared` of transactions */
    struct lladd_txn *first;  /* all allocated transactions; unused transactions are FREE */
    struct lladd_txn *free;   /* the free list, without the parked transaction */
    uint64_t parked;          /* atomic: address of the parked transaction (txn_table.c); 0: none */
    uint64_t made;            /* atomic: length of the list `first` */
    uint64_t n_free;          /* length of the free list; under `mutex` */
    uint64_t begun;           /* relaxed: transactions begun */
    uint64_t lingering;       /* relaxed: ended transactions with handles that may be in use */
    uint64_t in_doubt;        /* relaxed: number with state PREPARED */
    uint64_t idle_cursor; /* atomic: address of a log cursor kept for the next rollback; 0: none */
    struct lladd_mutex commit;          /* commit order */
    struct ll_log_cursor *spare_cursor; /* for rollbacks when memory is short; under spare_mutex */
    struct lladd_mutex spare_mutex;
    struct ll_pending *pending; /* a circular queue in commit order; under `commit` */
    size_t pending_head, n_pending, cap_pending; /* a power of two */
    /* Atomic, changed under `commit`. n_released: entries at the head with a released undo reserve.
     * pending_undo: sum of the undo reserves of the other entries. */
    uint64_t n_released, pending_undo;
    uint64_t pending_undo_max;        /* above it, the next committing thread forces the log */
    uint64_t asked;                   /* atomic: the log's thread was asked to sync up to here */
    bool draining;                    /* a thread runs durable callbacks; under `commit` */
    uint64_t applied;                 /* atomic: the highest result of ll_txns_applied */
    uint64_t visible;                 /* atomic: LSN of the newest commit with visible effects, or
                                       * of a checkpoint after that commit */
    uint64_t committed;               /* relaxed; changed under `commit` */
    uint64_t read, aborted, prepared; /* relaxed; `read`: committed without a record */
};

/* ---- redo barriers, pins, snapshots ------------------------------------------------------- */

struct ll_redo_barrier {
    uint64_t first, n;
    lladd_lsn lsn;
    lladd_lsn txn; /* the transaction that logged the barrier; 0: logged before this open */
};

struct ll_pin {
    char name[64];
    lladd_lsn lsn;
};

/* A pin that is not logged, and ends with the handle. The list is core->holds. */
struct lladd_log_hold {
    struct ll_core *core;
    struct ll_pin pin;
    struct lladd_log_hold *next;
};

/* How an administrator ended a transaction in doubt. */
struct ll_heuristic {
    struct ll_prepared what; /* only gid, prepared_us and owner are set */
    uint8_t outcome;         /* enum lladd_outcome; 0 in a record: the outcome is forgotten */
    int64_t decided_us;
};

struct ll_snapshot {
    uint64_t lsn;
    uint64_t count;
};

/* ---- the core ---------------------------------------------------------------------------- */

struct ll_core {
    struct ll_env env;
    struct lladd_device *dev;
    struct ll_log *log;
    struct ll_buffer *buffer;
    struct lladd_file *control_file;
    struct ll_control control;
    struct lladd_mutex control_mutex;
    struct lladd_mutex witness_mutex; /* one write of the witness at a time */
    uint64_t witnessed;       /* atomic: the witness covers pages with a page LSN below this */
    uint64_t accepted, began; /* the LSN where the log ended at open; the LSN where it continued */
    uint64_t redo_start;      /* where redo started in the recovery of this open */
    /* Constants from the control block, read without its mutex. */
    uint32_t page_size;
    uint32_t salt;
    unsigned char uuid[16];
    uint32_t timeline; /* upper half of the incarnation */
    bool no_images;
    bool tore_unprotected; /* pages may have been written without images since the start of redo */
    bool log_full_error;
    uint32_t marked;          /* atomic: the control block says "in use" */
    struct ll_poison *poison; /* `own_poison`, or memory zeroed in a forked child */
    struct ll_poison own_poison;
    uint64_t pid;
    /* Page -> LSN of the first record that redo has skipped, for each page that redo has left
     * without a base (an image or format record). The map is set from the end of redo to the end of
     * recovery, and is NULL otherwise. A page in the map can only be formatted. */
    struct ll_hashmap *baseless;
    uint32_t redoing; /* atomic: redo passes over the log, and cached pages may lack logged
                       * changes */
    struct ll_op_catalog cat;
    struct ll_txn_table txns;
    struct lladd_mutex misc; /* redo barriers, pins, snapshots, heuristic outcomes */
    struct lladd_mutex cut;  /* held to truncate the log, and to read it for a repair */
    struct ll_redo_barrier *barriers;
    size_t n_barriers, cap_barriers;
    size_t barriers_promised; /* calls of ll_redo_barrier_promise that have not ended */
    uint64_t newest_barrier; /* LSN; atomic: read without `misc`, too */
    struct ll_pin *pins;
    uint64_t n_pins; /* atomic: read without `misc`, too */
    size_t cap_pins;
    struct lladd_log_hold *holds; /* under `misc` */
    struct ll_vec snapshots; /* struct ll_snapshot, in LSN order */
    struct ll_heuristic *heuristics;
    uint64_t n_heuristics; /* atomic: read without `misc`, too */
    size_t cap_heuristics;
    struct lladd_mutex checkpointing; /* locked by ll_checkpoint_begin */
    uint32_t checkpoint_waiters;      /* atomic: threads that wait for this mutex */
    struct ll_flush flush;            /* of the running or the last checkpoint */
    /* Atomic, written under `checkpointing`; a commit with frees_log also resets in_vain. in_vain:
     * the number of checkpoints in a series. After each of them the log began at the same LSN, was
     * needed from the same LSN on (in_vain_low), and had grown by less than log_growth since the
     * first of them. in_vain_since: the log's tail at the first of them. */
    uint32_t in_vain;
    uint64_t in_vain_low, in_vain_since;
    uint64_t log_growth; /* constant: a fraction of the log's limit */
    /* Atomic: the log's tail when the log last filled half of its limit and no checkpoint would
     * have freed any log. */
    uint64_t filled_in_vain;
    uint64_t settled_tail; /* atomic: the log was durable up to here after the last checkpoint */
    uint32_t pressed;      /* atomic: the log came near its limit since the last checkpoint */
    uint64_t set_aside; /* atomic: log bytes for the next checkpoints, for catalogue records and for
                         * clearing pins */
    unsigned checkpoints_aside; /* constant, 1 or 2: the number of checkpoints for which space is
                                 * set aside */
    uint64_t asking_class;      /* atomic: the thread in `checkpoint` or `advance` of a class; 0: no
                            * thread */
    /* A checkpoint is due after checkpoint_bytes of log. If many pages are dirty or were logged as
     * images, it is due later, at the latest after checkpoint_most. */
    uint64_t checkpoint_bytes, checkpoint_most;
    uint64_t last_checkpoint;     /* atomic: A of the last complete checkpoint (checkpoint.c) */
    uint64_t checkpoint_ns;       /* atomic: the time when this checkpoint was complete, or when the
                                   * database was opened */
    uint64_t checkpoints, images; /* relaxed */
    uint64_t images_before;       /* relaxed: `images` at the end of the last checkpoint's flush */
    uint32_t images_in_vain;      /* atomic: images in a row that could not be compressed */
    /* Is the page allocated? Set by db/, or NULL */
    int (*is_allocated)(struct ll_core *, lladd_pageno, bool *out, struct lladd_error *);
    /* lladd_extension.base_of of all extensions. Set by db/; NULL: no extension has this
     * callback */
    int (*base_of)(struct ll_core *, lladd_pageno, lladd_lsn since, lladd_lsn writer,
                   unsigned char *bytes, struct lladd_error *);
    uint64_t given;             /* relaxed: pages that base_of has given */
    struct lladd_error refused; /* why base_of did not give a page in redo; code 0: it gave all
                                 * pages */
    struct lladd_error unread;  /* the first part of the log that ll_redo_rebuild could not read */
    struct lladd_db *db;
    /* pace: pauses in the flush of an LL_CHECKPOINT_PACED. hurry: ends such a pause. Set by db/, or
     * NULL. */
    void (*pace_checkpoint)(void *core);
    void (*hurry_checkpoint)(struct ll_core *);
    lladd_progress_fn *progress;
    lladd_trace_fn *trace;
    void *callback_ctx;
    uint32_t redo_threads;   /* 0: redo chooses */
    bool recover_instantly;  /* LLADD_RECOVER_INSTANT */
    bool looks_only;         /* opened for inspection: a name that is not registered is no error */
    uint64_t recovery_bytes; /* memory budget of instant recovery, besides the cache */
    uint64_t recovery_memory, recovery_memory_most; /* atomic: used now; the maximum so far */
    bool closing;                                   /* close is taking its checkpoint */
    bool undo_short;            /* less log space is reserved than rollbacks may need */
    uint32_t owes_checkpoint;   /* atomic: a checkpoint after recovery is due */
    struct ll_instant *instant; /* NULL: no pending redo; set before open returns */
    uint32_t instant_stop;      /* atomic: tells the steps of instant recovery to stop */
    struct ll_deferred *losers; /* losers that are undone after open, or NULL */
    uint64_t recovered_records;
    uint64_t recovered_early; /* records redone in a pass over the log during instant recovery */
    uint64_t recovered_redone, recovered_undone; /* atomic */
    uint64_t recovery_ns, analysis_ns, redo_ns;
};

/* ---- handle.c ------------------------------------------------------------------------------ */

/* Fails with LLADD_FORKED. */
int ll_core_forked(const struct ll_core *, struct lladd_error *);
/* Returns 0, the error of the poison, or LLADD_FORKED. */
int ll_core_check_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_check(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->poison->healthy)) ? 0
                                                                  : ll_core_check_slow(core, err);
}
void ll_core_trace(struct ll_core *, const char *fmt, ...) LLADD_PRINTF(2, 3);
void ll_core_progress(struct ll_core *, enum lladd_phase, lladd_lsn at, unsigned percent);

/* ---- control.c ----------------------------------------------------------------------------- */

/* What the control block says about the log. After a clean stop no page needs redo. */
static inline struct ll_log_start ll_control_log_start(const struct ll_control *c)
{
    return (struct ll_log_start){.from = c->checkpoint,
                                 .redo = c->clean ? lladd_lsn_of(0) : c->redo,
                                 .watermark = c->watermark,
                                 .clean = c->clean,
                                 .end = c->end,
                                 .segment = c->segment,
                                 .segment_bytes = c->segment_bytes};
}
void ll_core_identify(struct ll_core *);
/* LSN where redo would start after a crash now. */
lladd_lsn ll_core_redo(struct ll_core *);
/* Writes the control block; poisons if that fails. Under control_mutex. */
int ll_core_put_control(struct ll_core *, struct ll_control *, struct lladd_error *);
/* Marks the control block "in use". After a clean stop this must precede the first record. */
int ll_core_mark_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_mark(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->marked)) ? 0 : ll_core_mark_slow(core, err);
}
/* Writes a witness, unless the last witness covers the LSN. Called before a page with this page LSN
 * is written, when the log is durable beyond the LSN. Poisons on failure. */
int ll_core_witness(struct ll_core *, lladd_pageno, lladd_lsn, struct lladd_error *);
/* Reads the witness that earlier runs left. After an unclean stop it also checks that the log,
 * which ends at `end`, reaches as far as the witness says. */
int ll_core_hear_witness(struct ll_core *, lladd_lsn end, struct lladd_error *);
int ll_core_feature(struct ll_core *, uint64_t feature, struct lladd_error *);

/* ---- log_space.c, checkpoint.c: log space -------------------------------------------------- */

/* Is the calling thread inside a callback of a class, for a checkpoint that this thread takes? */
static inline bool ll_core_asks_class(const struct ll_core *core)
{
    uint64_t asking = lladd_atomic_load64(&core->asking_class);
    return LL_UNLIKELY(asking) && asking == lladd_thread_self();
}
/* May a thread that finds the log at its limit take a checkpoint? Not with
 * LLADD_OPT_LOG_FULL_ERROR, and not inside a callback of a class, where the thread is taking a
 * checkpoint already. */
static inline bool ll_core_may_checkpoint(const struct ll_core *core)
{
    return !core->log_full_error && !ll_core_asks_class(core);
}
/* Called after the byte limit refused space. Takes a checkpoint if that can help. Returns 0 if more
 * space may be free now, because the log was truncated, or because commits became durable and
 * released their undo reserve. LLADD_LOG_FULL: no more space is free, and *err names what holds the
 * log. Other errors come from the checkpoint or from forcing the log. *oldest: the LSN where the
 * log began at the last refusal; set it to UINT64_MAX before the first call. */
int ll_core_relieve_log(struct ll_core *, uint64_t *oldest, struct lladd_error *);
/* The oldest LSN that recovery, a transaction, a class or a pin needs now. Holds do not count. */
lladd_lsn ll_core_needed(struct ll_core *);
/* Can a checkpoint truncate the log now, or make a class release log that it needs? */
bool ll_checkpoint_frees(struct ll_core *);
/* Gets log space; takes a checkpoint if the byte limit refuses. The caller holds no page latch. */
int ll_core_credit_slow(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_core_credit(struct ll_core *core, struct ll_credit *c, size_t bytes,
                                 struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_core_credit_slow(core, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* ll_core_credit for owed records, which the byte limit does not refuse. */
int ll_core_credit_owed(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Makes the caller's credit idle, because the caller's next step (a checkpoint, the catalogue) may
 * wait for a thread that needs credit (BUF-3). If the caller had more credit than *bytes, *bytes
 * becomes that credit. So the caller gets all credit again when it asks for *bytes. */
void ll_core_put_down(struct ll_core *, struct ll_credit *, size_t *bytes);
/* Gets credit for an owed record that belongs to no transaction, and appends the record. `aside`:
 * uses the space set aside if that is enough. */
int ll_core_append(struct ll_core *, struct ll_record *, bool aside, struct lladd_error *);

/* ---- op_catalog.c ------------------------------------------------------------------------- */

struct lladd_registry; /* registry.h */
int ll_op_catalog_init(struct ll_core *, const struct lladd_registry *, struct lladd_error *);
void ll_op_catalog_free(struct ll_core *);
struct ll_name *ll_op_catalog_find(struct ll_core *, unsigned kind, const char *name,
                                   uint32_t version); /* version 0: any */
struct ll_name *ll_op_catalog_by_desc(struct ll_core *, unsigned kind, const void *desc);
struct ll_name *ll_op_catalog_by_number(const struct ll_core *, uint32_t number); /* or NULL */
/* The registered page type with this number, or NULL. */
const struct lladd_page_type *ll_op_catalog_page_type(const struct ll_core *, uint32_t number);
/* The record in the form for extensions. The result has the spans of the record. */
struct lladd_log_entry ll_log_entry_of(const struct ll_core *, const struct ll_record *);
/* Numbers a name that has no number, and logs the number. The caller holds no page latch. */
int ll_op_catalog_number_slow(struct ll_core *, struct ll_name *, struct lladd_error *);
static inline int ll_op_catalog_number(struct ll_core *core, struct ll_name *n,
                                       struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&n->number) != 0)
               ? 0
               : ll_op_catalog_number_slow(core, n, err);
}
/* Logs the number of a class once more if log_again is set; the next object record follows. */
int ll_op_catalog_log_again(struct ll_core *, struct ll_name *, struct lladd_error *);
/* Finds or adds a name of kind LL_NAME_TAG. */
int ll_op_catalog_tag(struct ll_core *, const char *name, struct ll_name **out,
                      struct lladd_error *);
/* Adds the name of a catalogue record that was read from the log. */
int ll_op_catalog_learn(struct ll_core *, struct lladd_span payload, lladd_lsn,
                        struct lladd_error *);
/* The layout of a name's redo or undo bytes, registered or learned from the log; NULL: none. */
const struct lladd_field *ll_op_catalog_fields(const struct ll_name *, bool undo);
/* Length of the payload of the name's catalogue record. */
size_t ll_op_catalog_payload(const struct ll_name *);
/* The length of the longest payload of an unregistered name in the log; 0: no such name. */
size_t ll_op_catalog_longest_learned(struct ll_core *);
/* Builds the payload: ll_op_catalog_payload bytes. */
void ll_op_catalog_encode(const struct ll_name *, unsigned char *out);
/* Parses a payload. Name and fields of *out are allocated; ll_op_catalog_drop frees them. */
int ll_op_catalog_decode(const struct ll_env *, struct lladd_span, struct ll_name *out,
                         struct lladd_error *);
void ll_op_catalog_drop(const struct ll_env *, struct ll_name *);

/* ---- update.c: the write path ------------------------------------------------------------- */

enum ll_apply_how { LL_APPLY_NORMAL = 0, LL_APPLY_REDO_ONLY = 1 };

/* A checkpoint reads these fields while the transaction runs. The stores are relaxed, because the
 * publication of the record orders them. */
static inline void ll_txn_set_lsn(lladd_lsn *field, lladd_lsn lsn)
{
    lladd_atomic_store64_relaxed(&field->v, lsn.v);
}
static inline void ll_txn_set_undo_used(struct lladd_txn *txn, uint64_t bytes)
{
    lladd_atomic_store64_relaxed(&txn->undo_used, bytes);
}

/* Redo bytes of a CLR_END: u64, the transaction's undo reserve after the compensation. Earlier
 * versions wrote u32, the length of the undo bytes that were undone, or nothing. */
#define LL_CLR_END_BYTES 8u
#define LL_CLR_END_BYTES_BEFORE 4u

/* Undo reserve for the END record. */
uint64_t ll_undo_need_base(void);
/* Is less log space set aside than the next checkpoints need? */
bool ll_core_lacks_aside(const struct ll_core *);
/* Gets credit, undo reserve, memory and a catalogue number for `count` records of the operation.
 * Without log space or memory an update fails here, before it latches a page. */
int ll_core_reserve_slow(struct lladd_txn *, struct ll_name *op, unsigned count);
/* ll_core_reserve_for for the records of several operations. */
struct ll_want {
    struct ll_name *name; /* NULL: the end of a top action without logical undo */
    unsigned count;
    bool image; /* images of pages that were written in bulk */
};
enum { LL_ACTION_END_BYTES = 8 }; /* redo bytes of the end of a top action */
int ll_core_reserve_all(struct lladd_txn *, const struct ll_want *, unsigned n);
static inline int ll_core_reserve_for(struct lladd_txn *txn, struct ll_name *op, unsigned count)
{
    bool begun = txn->id.v != 0;
    if (LL_LIKELY(txn->credit.bytes >= op->need_credit * count &&
                  txn->undo_spare >= op->need_undo * count + (begun ? 0 : ll_undo_need_base()) &&
                  txn->scratch_size >= op->need_scratch && txn->undo_copy_size >= op->need_copy &&
                  txn->cap_actions >= op->need_nesting && lladd_atomic_load32(&op->number) &&
                  (begun || !ll_core_lacks_aside(txn->core)))) {
        ll_log_credit_in_hand(&txn->credit);
        return 0;
    }
    return ll_core_reserve_slow(txn, op, count);
}
/* ll_name.record_max of the operation. */
size_t ll_op_record_max(const struct lladd_op *, uint32_t page_size);
/* The maximum log bytes of one record of the operation. */
size_t ll_op_credit(const struct lladd_op *, uint32_t page_size);
void ll_core_needs(const struct ll_core *, struct ll_name *);
/* If a page has no base, an image must precede its next change (BUF-5). True for such a page if
 * the credit is not enough for the image and a record of the operation. `promised`: credit
 * beyond that record is for other records, unless it was taken for images. A rollback never has
 * credit for images. */
bool ll_core_lacks_image(const struct lladd_txn *, const struct ll_name *, const struct ll_frame *,
                         bool promised);
int ll_core_reserve_plain(struct lladd_txn *, size_t bytes, uint64_t undo);
/* Accounts for a record that is about to be logged: the record's undo can need `need` bytes. */
void ll_core_use_undo(struct lladd_txn *, uint64_t need);
/* The undo reserve that a transaction may keep besides the reserve that its records use: a quarter
 * of the used reserve, at most LL_UNDO_AHEAD. An update reserves the maximum that its operation can
 * need, and afterwards returns what the transaction may not keep. So a small transaction keeps
 * little, and a large transaction reserves seldom. */
enum { LL_UNDO_AHEAD = 16384 };
static inline uint64_t ll_core_undo_ahead(const struct lladd_txn *txn)
{
    uint64_t part = txn->undo_used / 4;
    return part < LL_UNDO_AHEAD ? part : LL_UNDO_AHEAD;
}
void ll_core_trim_undo(struct lladd_txn *);
/* Called after the records of a call: makes the transaction's credit idle (BUF-3), and returns the
 * undo reserve that the transaction may not keep. */
static inline void ll_core_rest(struct lladd_txn *txn)
{
    ll_log_credit_trim(txn->core->log, &txn->credit);
    if (txn->undo_spare > ll_core_undo_ahead(txn))
        ll_core_trim_undo(txn);
}
/* Allocate memory. scratch: for a draft and a page image. copy: for the undo bytes of running
 * compensations. nesting: for the top actions and savepoints that a compensation may open. */
int ll_core_want_scratch(struct lladd_txn *, size_t record_max);
int ll_core_want_copy(struct lladd_txn *, size_t undo_len);
int ll_core_want_nesting(struct lladd_txn *);
/* Allocates the memory to roll back a transaction that recovery found (REC-3). */
int ll_core_want_rollback(struct lladd_txn *);
/* Does a whole update: space, latch, check, log, redo, page LSN. The operation must have a redo. */
int ll_core_update(struct lladd_txn *, struct ll_name *op, lladd_pageno, struct lladd_span args,
                   enum ll_apply_how);
/* ll_core_update on a frame that the caller latched exclusively after it reserved the space. */
int ll_core_update_held(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        struct lladd_span args);
/* contract.c, debug builds: does the operation keep its contract on this page? */
int ll_contract_check(struct lladd_txn *, const struct ll_name *, const struct lladd_page *,
                      const struct lladd_draft *);
/* Logs a CLR and applies validated undo bytes to the frame. The caller has credit for the CLR. */
void ll_core_apply_undo(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        const struct ll_record *undone);
/* Prefetches the page's frame and header and, if the operation declares offset_first, the place
 * that these redo or undo bytes will change. */
void ll_core_expect(struct ll_core *, const struct ll_record *, struct lladd_span bytes);
/* Appends a record of the transaction, with the transaction's credit. Undo continues at this record
 * or, if `undo_next` is not NULL, at *undo_next. The undo reserve for the END record is accounted
 * for before the append, so that a checkpoint that finds the record also finds the reserve. */
void ll_txn_append(struct lladd_txn *, struct ll_record *, const lladd_lsn *undo_next);
/* The maximum log bytes that the compensation of a record can need. */
uint64_t ll_undo_need(const struct ll_core *, const struct ll_record *);
uint64_t ll_undo_need_op(const struct lladd_op *, size_t undo_len);
static inline struct lladd_view ll_view_of(const struct lladd_page *page)
{
    struct lladd_view v = {page->bytes, page->size, ll_page_type(page->bytes), page->number};
    return v;
}
/* Sets page number and page type in a page of zeros, before an operation formats the page. */
static inline void ll_blank_header(unsigned char *page, const struct ll_name *op, lladd_pageno n)
{
    ll_page_set_number(page, n.v);
    ll_page_set_type(page, op->page_type ? (uint16_t)op->page_type->number : 0);
}
/* Page images. */
size_t ll_image_bound(uint32_t page_size);
/* Appends an image of the page, and stamps the page with the image's LSN. `room`: LL_IMAGE_ROOM
 * bytes; `packing`: ll_image_packing bytes of memory for the compression, or NULL. */
#define LL_IMAGE_ROOM(page_size) (2 * (size_t)(page_size) + 16)
size_t ll_image_packing(void);
void ll_image_log(struct ll_core *, struct ll_credit *, struct lladd_page *, unsigned char *room,
                  void *packing);
int ll_image_apply(const struct ll_core *, const struct ll_record *, unsigned char *page,
                   struct lladd_error *);
static inline void ll_observe(enum lladd_dst_what what, const struct lladd_txn *txn,
                              const struct ll_name *op, const struct ll_record *rec)
{
    LLADD_OBSERVE(.what = what, .op = op ? op->name : NULL, .op_version = op ? op->version : 0,
                  .lsn = rec->lsn, .txn = txn->id, .page = rec->page, .depth = rec->depth);
}
/* The caller is about to acknowledge this record as durable. */
static inline void ll_observe_durable(const struct ll_core *core, lladd_lsn lsn)
{
    LLADD_OBSERVE(.what = LLADD_DST_ACKNOWLEDGE, .lsn = lsn, .durable = ll_log_durable(core->log));
}
/* ---- undo.c ------------------------------------------------------------------------------ */

/* Undoes records until the transaction's undo_next <= stop. A failure poisons (REC-3). */
int ll_rollback(struct lladd_txn *, lladd_lsn stop);
/* Reads the next record to undo; skips records that need no undo. LLADD_END: `stop` is reached. */
int ll_rollback_peek(struct lladd_txn *, lladd_lsn stop, struct ll_record *, struct lladd_error *);
int ll_rollback_step(struct lladd_txn *, const struct ll_record *);
/* needs: does undo act on the record? passes_over: does undo then go on at the record's undo_next
 * instead of its prev? */
bool ll_rollback_needs(const struct ll_record *);
bool ll_rollback_passes_over(const struct ll_record *);

/* ---- txn_table.c ----------------------------------------------------------------------------- */

int ll_txns_init(struct ll_core *);
/* Allocates what rollbacks and the write-back of the cache need when memory is short. */
int ll_txns_spare(struct ll_core *, struct lladd_error *);
void ll_txns_free(struct ll_core *);
int ll_txn_new(struct ll_core *, struct lladd_txn **out, struct lladd_error *);
/* Frees the transaction for reuse. Releases its log space, or parks the transaction with some of
 * that space. */
void ll_txn_release(struct lladd_txn *);
/* Drops a reference to a guarded transaction. The last drop frees the transaction for reuse. */
void ll_txn_unref(struct lladd_txn *);
/* Called if log space is short: releases the log space that the parked transaction keeps. False:
 * there was no such space. */
bool ll_txns_release_credit(struct ll_core *);
/* Iterate over the transactions that are not FREE. The caller holds the table's mutex, or is the
 * only thread. */
struct lladd_txn *ll_txns_first(const struct ll_txn_table *);
struct lladd_txn *ll_txns_next(const struct lladd_txn *);
/* ll_txn_values makes a consistent copy of fields of a running transaction. The transaction's
 * memory may be reused during the copy, but no copy mixes fields of two transactions. True: the
 * transaction has logged a record and has not ended. */
struct ll_txn_values {
    uint64_t id, last, undo_next, undo_used;
    uint32_t state, system;
};
bool ll_txn_values(const struct lladd_txn *, struct ll_txn_values *);
void ll_txns_count(struct ll_core *, uint64_t *begun, uint64_t *active, uint64_t *in_doubt);
/* Changes the state, and updates the count of transactions in doubt. */
void ll_txn_set_state(struct lladd_txn *, uint32_t state);
/* Gives the transaction a log cursor for its rollback, until the transaction ends. */
int ll_txn_want_cursor(struct lladd_txn *);
/* Adds up the part of an operation's statistics that the transactions hold. */
void ll_txns_counted(struct ll_core *, const struct ll_name *, uint64_t *n, uint64_t *bytes);
/* most_undo: the transaction with the largest undo reserve; *n: the number of transactions that
 * have logged a record and not ended. oldest: the smallest id of a transaction that may have to be
 * undone, or UINT64_MAX. */
lladd_lsn ll_txns_most_undo(struct ll_core *, uint64_t *n);
lladd_lsn ll_txns_oldest(struct ll_core *, struct lladd_pinner *);
/* Every record below the result is applied. */
lladd_lsn ll_txns_applied(struct ll_core *);
/* Rolls the transaction back, logs END, runs `aborted` callbacks, and releases the transaction.
 * Returns 0 or the poison. */
int ll_txn_abort(struct lladd_txn *);
/* Appends the commit record in commit order, runs `logged`, and queues what has to happen when the
 * commit is durable. The queue then owns the undo reserve and the participants with a durable
 * callback. Needs credit. `outcome`: empty, or the heuristic outcome. Can fail for lack of memory,
 * before the append. */
int ll_txn_log_commit(struct lladd_txn *, struct lladd_span outcome, lladd_lsn *out);
/* Ends a transaction that wrote nothing, and runs `logged`. *out: the newest commit that the
 * transaction may have seen; its `durable` callbacks wait for that commit. *tells: the transaction
 * has such callbacks. Fails only for lack of memory; then nothing has changed. */
int ll_txn_end_unlogged(struct lladd_txn *, lladd_lsn *out, bool *tells);
/* Releases the undo reserves of the commits that are durable now, and runs their `durable`
 * callbacks. `durable` callbacks run only here. The caller holds no mutex of the core, and no mutex
 * that a callback may take. A thread inside a class's callback for a checkpoint runs no callbacks,
 * because it holds the checkpoint's mutex and perhaps other mutexes. The next drain runs them. */
void ll_txns_drain(struct ll_core *);
/* Called after a commit: calls ll_txns_drain. After a system transaction it calls
 * ll_txns_release_undo, because an extension may end a system transaction under its own mutexes. */
void ll_txns_ended(struct ll_core *, bool system);
/* Releases undo reserves and runs no callbacks: for a thread that may hold mutexes of an
 * extension. */
void ll_txns_release_undo(struct ll_core *);
/* Called by a commit that does not wait for durability. If much undo reserve is pending, the call
 * releases the reserve of durable commits and asks for a sync. False: so much is still pending that
 * the caller should force the log. */
bool ll_txns_relieve(struct ll_core *, bool system);

/* ---- log_space.c, checkpoint.c, restart.c ------------------------------------------------- */

/* Log space for a checkpoint, besides what the catalogue, the transactions, pins and heuristic
 * outcomes take. Space for two checkpoints is set aside: the checkpoint of close may free no log,
 * and a full log then needs another checkpoint that frees some. Under a narrow byte limit only the
 * space for one checkpoint is set aside. */
#define LL_CHECKPOINT_RESERVE 8192u
/* The number of redo barriers for which LL_CHECKPOINT_RESERVE has room. */
#define LL_CHECKPOINT_BARRIERS 32u
/* The bytes set aside for one checkpoint, with one transaction and `names` bytes of catalogue
 * records. */
uint64_t ll_core_aside_least(uint64_t names);
/* Sets aside what is missing of the space for the next checkpoints. No transaction begins to write
 * without that space. `owed`: the byte limit does not refuse the space, and on a full disk the
 * space of one checkpoint is enough. */
int ll_core_set_aside(struct ll_core *, bool owed, struct lladd_error *);
/* ll_core_set_aside for recovery and checkpoints: free space in the current segment counts too. If
 * the space is not enough, the call sets aside the space of one checkpoint if possible, and returns
 * the error, usually LLADD_NO_SPACE. */
int ll_core_set_aside_again(struct ll_core *, struct lladd_error *);
/* Sets aside the space for the next checkpoints and for n redo barriers. False: no space. */
bool ll_core_set_aside_barriers(struct ll_core *, size_t n);
/* Gets credit from the space set aside or, if that is not enough, owed credit. */
int ll_core_credit_aside(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
enum ll_checkpoint_kind {
    LL_CHECKPOINT_DUE,   /* writes back pages with a recLSN below A of the previous checkpoint */
    LL_CHECKPOINT_PACED, /* the same, with pauses between the writes */
    LL_CHECKPOINT_ALL    /* close, explicit checkpoints: writes back all dirty pages */
};
/* Takes a checkpoint. */
int ll_checkpoint(struct ll_core *, enum ll_checkpoint_kind, struct lladd_error *);
/* Keeps checkpoints from running. A checkpoint that is running makes no more pauses. */
void ll_checkpoint_begin(struct ll_core *);
void ll_checkpoint_end(struct ll_core *);
/* Would a checkpoint state the same as the last one did? */
bool ll_core_settled(struct ll_core *);
/* Finds what holds the log. That is the owner of the smallest LSN that is needed. But if the undo
 * reserve takes more space than the log from this LSN on, the result is the undo reserve. */
int ll_core_pinner(struct ll_core *, struct lladd_pinner *, struct lladd_error *);
/* A checkpoint data record is a sequence of parts: u8 part, u32 length, payload. */
#define LL_CKPT_PART_HEAD 5u
enum ll_checkpoint_part {
    LL_CKPT_TXN = 1,  /* u64 id, last, undo_next, undo_used, prepare lsn, u32 flags (1 system) */
    LL_CKPT_NAME = 2, /* catalogue payload */
    LL_CKPT_REDO_BARRIER = 3, /* u64 first, n, lsn */
    LL_CKPT_PIN = 4,          /* u64 lsn, name */
    LL_CKPT_PAGES = 5,        /* u64 minimum number of pages of the page file */
    LL_CKPT_HEURISTIC = 6     /* as in a heuristic record */
};
/* Does the whole recovery. The log and the buffer manager must be open and not started. After
 * success the log is started, losers are rolled back or protected (deferred_undo.c), and prepared
 * transactions are in doubt. */
int ll_restart(struct ll_core *, struct lladd_error *);

/* ---- restart_instant.c ----------------------------------------------------------------------- */

/* Number of pages with pending redo. */
uint64_t ll_instant_left(const struct ll_core *);
/* Redoes up to `most` more pages. *more: redo of other pages is pending. A page that cannot be
 * redone is tried again in the next round; at the end of a round the first error is returned. */
int ll_instant_step(struct ll_core *, uint64_t most, bool *more, struct lladd_error *);
/* Redoes all pages that are left. */
int ll_instant_finish(struct ll_core *, struct lladd_error *);
/* Forgets the pending redo of pages that get new contents. */
void ll_instant_forget(struct ll_core *, lladd_pageno first, uint64_t n);
/* Does the pending redo of the n pages. If there is any, the dirty pages of the range are written
 * back. Called before the pages are accessed without the cache. */
int ll_instant_settle(struct ll_core *, lladd_pageno first, uint64_t n, struct lladd_error *);
/* Is redo of the page pending? *base: the first record to redo is a base, so the stored page need
 * not be read. */
bool ll_instant_is_pending(struct ll_core *, lladd_pageno, bool *base);
/* Applies the pending redo of a page, if any. *baseless: on entry, the page has no base and `bytes`
 * are zeros; on return, the page still has no base. *since: recLSN of the page; 0: not dirty. */
int ll_instant_redo_page(struct ll_core *, lladd_pageno, unsigned char *bytes, bool *baseless,
                         lladd_lsn *since, struct lladd_error *);
void ll_instant_redone(struct ll_core *, lladd_pageno);
void ll_instant_free(struct ll_core *);

/* ---- deferred_undo.c ------------------------------------------------------------------------- */

/* Prepares deferred undo for up to n losers. NULL if no participant can protect changes, or for
 * lack of memory: then all losers are undone before open returns. */
struct ll_deferred *ll_deferred_new(struct ll_core *, size_t n);
/* Protects the loser's changes at depth 0. False: not all changes could be protected, so the loser
 * must be undone before open returns. */
bool ll_deferred_protect(struct ll_deferred *, struct lladd_txn *);
/* Leaves this loser for later. The loser has only changes at depth 0 to undo. */
void ll_deferred_leave(struct ll_deferred *, struct lladd_txn *);
/* Called when no more losers will be protected. */
void ll_deferred_asked(struct ll_core *);
uint64_t ll_deferred_left(const struct ll_core *);
/* Called before all losers are undone. If the undo is long, redoes all pages first. */
void ll_deferred_expect(struct ll_core *);
/* Undoes the records in about the last `bytes` bytes of one loser's log. *more: losers are left. */
int ll_deferred_step(struct ll_core *, uint64_t bytes, bool *more, struct lladd_error *);
void ll_deferred_free(struct ll_core *);

/* Redo barriers are for pages that are written in bulk: records older than a page's barrier are not
 * redone. */
int ll_redo_barrier_add(struct ll_core *, uint64_t first, uint64_t n, lladd_lsn,
                        struct lladd_error *);
/* False: the record is no redo barrier. */
bool ll_redo_barrier_decode(const struct ll_record *, uint64_t *first, uint64_t *n);
/* Under `misc`. Until promise_end there is room for a barrier with an LSN above the LSNs of all
 * other barriers. Barriers of other threads do not take this room. */
int ll_redo_barrier_promise(struct ll_core *, struct lladd_error *);
void ll_redo_barrier_promise_end(struct ll_core *);
/* Under `misc`, with room for the barrier. */
void ll_redo_barrier_put(struct ll_core *, const struct ll_redo_barrier *);
lladd_lsn ll_redo_barrier_of(const struct ll_core *, uint64_t page); /* takes no mutex: only during
                                                                      * redo */
lladd_lsn ll_redo_barrier_of_locked(struct ll_core *, uint64_t page);
/* As ll_redo_barrier_of_locked, if this transaction has logged the barrier; else 0. */
lladd_lsn ll_redo_barrier_own(struct ll_core *, uint64_t page, lladd_lsn txn);
/* Called when the transaction rolls back to `stop`. Its barriers above `stop` are no longer its
 * own, because other transactions may take the pages. Redo still needs these barriers. */
void ll_redo_barrier_disown(struct ll_core *, lladd_lsn txn, lladd_lsn stop);
/* Called before a change of the page is logged. If the transaction then writes the page in bulk
 * again, redo must not apply the change to the new bytes. So the transaction needs a new
 * barrier. */
void ll_redo_barrier_disown_page(struct ll_core *, uint64_t page);

/* ---- pin.c ------------------------------------------------------------------------------- */

/* LSN 0 removes the pin. *before (nullable) gets the LSN that the pin had until now; 0: there was
 * no pin. */
int ll_pin_put(struct ll_core *, const char *name, lladd_lsn, lladd_lsn *before,
               struct lladd_error *);
/* LSN 0: no pin has the name. */
lladd_lsn ll_pin_get(struct ll_core *, const char *name);
/* The payload of a pin record and of a pin in a checkpoint: u64 lsn, name. */
#define LL_PIN_MAX (8u + 63u)
size_t ll_pin_encode(const char *name, lladd_lsn, unsigned char out[LL_PIN_MAX]);
bool ll_pin_decode(struct lladd_span, struct ll_pin *);
/* The lowest of `low`, the pins and, with `holds`, the holds. *pinner (nullable): describes that
 * pin or hold. */
lladd_lsn ll_pin_lowest(struct ll_core *, lladd_lsn low, bool holds, struct lladd_pinner *pinner);

/* ---- heuristic.c ------------------------------------------------------------------------- */

bool ll_gid_same(const struct lladd_gid *, const struct lladd_gid *);
/* Adds the outcome, or replaces the outcome with the same gid. */
int ll_heuristic_put(struct ll_core *, const struct ll_heuristic *, struct lladd_error *);
bool ll_heuristic_remove(struct ll_core *, const struct lladd_gid *); /* false: not found */
bool ll_heuristic_find(struct ll_core *, const struct lladd_gid *, struct ll_heuristic *out);
/* Applies the payload of a heuristic record, of a commit record or of a checkpoint part that
 * recovery has read. */
int ll_heuristic_see(struct ll_core *, struct lladd_span payload, lladd_lsn, struct lladd_error *);
void ll_heuristic_describe(const struct ll_heuristic *, struct lladd_heuristic_info *);

/* Applies a record to a page. 0: applied. LLADD_EXISTS: the page has the change already.
 * LLADD_NOT_FOUND: skipped, because the page has no base. Other results are errors. A record may
 * expect a change that the page does not have. Then the page counts as a page without a base if it
 * is zeros, or if the change is below `start`; otherwise the page is damaged. */
int ll_redo_record(struct ll_core *, const struct ll_record *, struct lladd_page *, bool baseless,
                   lladd_lsn start, struct lladd_error *);
/* Rebuilds f->page, which is damaged, in f->bytes, from all log that exists. f->frame becomes dirty
 * with the LSN of the page's base. So a later checkpoint keeps the log with the base until the page
 * is written (cut_log). LLADD_CORRUPT_PAGE, with the reason: neither the log nor an extension gives
 * the page. LLADD_READ_FAILED: the same, and a part of the log cannot be read. */
int ll_rebuild_page(struct ll_core *, struct ll_fetch *, struct lladd_error *);
/* Rebuilds the page of a frame that is fixed exclusively, although the page is whole. *newer: the
 * result is not older than the page, and the frame has it. */
int ll_rebuild_frame(struct ll_core *, struct ll_frame *, bool *newer, struct lladd_error *);
/* lladd_page_redo. */
int ll_rebuild_with(struct ll_core *, lladd_pageno, const struct ll_record *, unsigned char *bytes,
                    bool *empty, struct lladd_error *);

/* ---- page_recovery.c --------------------------------------------------------------------- */

struct ll_page_recovery ll_page_recovery(struct ll_core *);
/* Called when a format record of the page is in the log, with the page latched. */
void ll_page_formatted(struct ll_core *, lladd_pageno);

#endif
