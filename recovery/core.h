/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_CORE_H
#define LL_RECOVERY_CORE_H
/* The transactional core: the log, the buffer manager, the catalogue of names, the transaction
 * table, and the steps that join them. Used by recovery and by the layers above (db/, lladd/).
 *
 *   lladd_update ─► ll_core_update: prepare ► dirty ► [image] ► reserve ► publish ► redo ► stamp
 *   lladd_abort ──► ll_rollback:    read record ► undo ► compensation record ► ... ► END
 *   lladd_open ───► ll_restart:     analysis ► redo ► objects ► in doubt ► undo by depth
 *
 * Two orders are essential:
 *   - A transaction stores last, undo_next and state *between* reserve and publish. A checkpoint
 *     waits until everything below its begin record is published, so it sees each transaction at
 *     least as it was there.
 *   - A frame enters the dirty-page table *before* the thread reads the image horizon. A checkpoint
 *     raises the horizon, then looks for dirty pages: it finds each page changed under the old
 *     horizon (BUF-5). */
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
struct ll_instant; /* restart_instant.c */
struct ll_deferred;  /* deferred_undo.c */

/* ---- catalogue: names and their numbers ---------------------------------------------------- */

enum ll_name_kind {
    LL_NAME_OP = 1,
    LL_NAME_PAGE_TYPE = 2,
    LL_NAME_CLASS = 3,
    LL_NAME_PARTICIPANT = 4,
    LL_NAME_TAG = 5,
    LL_NAME_KINDS
};

/* A name of the database. A number is logged when it is given; a registered name that was never
 * used has number 0. */
struct ll_name {
    uint32_t version;
    uint32_t number; /* atomic: 0 until logged */
    uint8_t kind;
    bool learned; /* read from the log; name and fields are owned */
    const char *name;
    lladd_lsn first_used; /* LSN of its catalogue record */
    const void *desc;     /* the registered descriptor; NULL: this handle has none */
    struct lladd_field *redo_fields, *undo_fields; /* from the log; owned; NULL if registered */
    struct ll_name *page_type;                     /* of an operation; NULL: it needs none */
    uint32_t page_type_number;                     /* of an operation read from the log; 0: none */
    /* Of a registered operation: the most that one record can need, computed once. */
    size_t need_credit, need_scratch, need_copy, need_nesting;
    uint64_t need_undo;
    size_t record_max; /* redo and undo bytes of one record on this database's pages */
    uint64_t undo_log_most; /* atomic: the most log bytes that one compensation has written */
    /* statistics, relaxed */
    uint64_t count, bytes, redone, redo_ns;
};

enum { LL_CATALOGUE_FOUND = 16 };

struct ll_op_catalog {
    struct ll_name **ids; /* registered operations by lladd_op_id */
    size_t n_ids;
    struct ll_name **classes; /* registered object classes */
    size_t n_classes;
    struct ll_name **types; /* page types, in the order of registration */
    size_t n_types;
    struct ll_name **all; /* every name, the registered ones first */
    size_t n_all, cap_all, n_registered;
    size_t hint; /* in `all`: the index after the last find */
    struct ll_name *by_desc[LL_CATALOGUE_FOUND]; /* atomic: a cache of lookups by descriptor */
    struct ll_name **numbers; /* by number - 1; old arrays live until close */
    uint32_t n_numbers, cap_numbers;
    void *retired; /* chain of replaced `numbers` arrays */
    struct ll_name *registered; /* they never move */
    unsigned char *buf; /* the catalogue record of any registered name fits */
    size_t buf_size;
    uint64_t log_bytes; /* atomic: at least what all catalogue records take */
    struct lladd_mutex mutex;
};

/* ---- transactions -------------------------------------------------------------------------- */

enum ll_txn_state {
    LL_TXN_FREE = 0,
    LL_TXN_ACTIVE,
    LL_TXN_PREPARED, /* only commit and abort */
    LL_TXN_ENDED     /* commit or end record has its LSN */
};

#define LL_TXN_MAGIC 0x4e58544cu

struct ll_savepoint {
    lladd_savepoint_id id;
    lladd_lsn undo_next;
    uint64_t undo_used;
    size_t actions; /* open at that moment */
};

struct ll_action {
    uint64_t id;
    lladd_lsn undo_next; /* at its begin */
    uint64_t undo_used;
};

struct ll_joined {
    const struct lladd_participant *participant;
    void *state;
};

/* State of a prepared transaction; allocated by prepare. */
struct ll_prepared {
    struct lladd_gid gid;
    int64_t prepared_us;
    lladd_lsn lsn;
    char owner[64];
    uint32_t blobs; /* records before the prepare record that hold participants' blobs */
    bool recovered; /* found by recovery; the application can claim it */
    bool claimed;
};

struct lladd_txn {
    uint32_t magic;
    uint32_t state; /* atomic */
    struct ll_core *core;
    union { /* the log changes it when it appends */
        struct {
            lladd_lsn id, last, undo_next;
        };
        struct ll_chain chain;
    };
    uint64_t busy; /* atomic: lower bound of its records that may be unapplied; UINT64_MAX: none */
    uint64_t lives; /* atomic: incremented at each begin */
    uint32_t depth; /* nesting depth of the records that it writes now */
    uint32_t system; /* atomic: 0 or 1 */
    bool read_only, rolling_back, in_callback;
    bool frees_log; /* it logs what frees log: the log's limit does not refuse it */
    uint8_t durability;
    struct ll_credit credit;
    uint64_t undo_used;     /* log bytes its rollback can need now */
    uint64_t rolled;        /* all log bytes written by its rollbacks */
    uint64_t undo_spare;    /* undo reserve that no record uses yet */
    unsigned char *scratch; /* a draft, then room to build a page image; grows */
    size_t scratch_size;
    /* A stack: undo bytes of the running compensations. Sized when their records are logged. */
    unsigned char *undo_copy;
    size_t undo_copy_size, undo_copy_used;
    /* Statistics of the operation that was used last; they survive the end of the transaction.
     * Atomic. */
    struct ll_name *counted;
    uint64_t counted_n, counted_bytes;
    struct ll_savepoint *savepoints;
    size_t n_savepoints, cap_savepoints;
    struct ll_action *actions;
    size_t n_actions, cap_actions;
    uint64_t next_id; /* of savepoints and actions */
    uint64_t undone; /* the last savepoint rolled back to, or action aborted */
    struct ll_joined *joined;
    size_t n_joined, cap_joined;
    struct ll_prepared *prepared;
    struct ll_log_cursor *cursor; /* for rollback; made when first needed */
    char *owner;
    /* A guarded transaction (db/guard.c). Atomic, except `calls`. */
    uint64_t user;   /* the thread that may call; LL_NO_USER: none; 0: not guarded */
    uint64_t inside; /* the thread in a call or with an open top action; 0: none */
    uint32_t takers; /* threads that wait for `inside` to leave */
    uint32_t stops;  /* the takers that want its waits interrupted */
    uint32_t left;   /* changes when a call ends and a taker waits */
    uint32_t refs;   /* one for the transaction, the call, each thread it was taken from */
    uint32_t calls;  /* nested calls of the thread `inside` */
    struct lladd_txn *next;      /* in the table */
    struct lladd_txn *next_free; /* in the free list */
    struct lladd_error err;
};

#define LL_NO_USER UINT64_MAX

/* Does the participant have this callback? The struct of an older extension may end before it. */
#define LL_PARTICIPANT_HAS(p, callback) \
    ((p)->struct_size >= offsetof(struct lladd_participant, callback) + sizeof((p)->callback) && \
     (p)->callback)

/* Committed transactions that are not durable yet: one, or several without durable callbacks. */
struct ll_pending {
    uint64_t first;     /* commit LSN */
    lladd_lsn commit;   /* of the newest of them */
    uint64_t undo_used; /* released when durable */
    struct ll_joined *joined;
    size_t n_joined;
};

struct ll_txn_table {
    struct lladd_mutex mutex; /* guards both lists, and `prepared` of transactions */
    struct lladd_txn *first;  /* all allocated transactions; unused ones are FREE */
    struct lladd_txn *free;   /* the free list, without the parked one */
    /* atomic: address of an ended transaction that keeps some log space; 0: none */
    uint64_t parked;
    uint64_t made;   /* atomic: length of the list `first` */
    uint64_t n_free; /* length of the free list; under `mutex` */
    uint64_t begun;  /* relaxed: transactions begun */
    uint64_t lingering; /* relaxed: ended, but threads may still hold the handle (lladd_txn_drop) */
    uint64_t in_doubt;  /* relaxed: number with state PREPARED */
    uint64_t idle_cursor; /* atomic: address of a log cursor for the next rollback; or 0 */
    struct lladd_mutex commit;          /* held over reserve, `logged`, `visible`: commit order */
    struct ll_log_cursor *spare_cursor; /* for rollbacks when memory is short; under spare_mutex */
    struct lladd_mutex spare_mutex;
    struct ll_pending *pending; /* circular, in commit order; under `commit` */
    size_t pending_head, n_pending, cap_pending; /* a power of two */
    /* entries at the head of which the undo reserve was released; atomic, changed under `commit` */
    uint64_t n_released;
    uint64_t pending_undo; /* undo reserve of the other entries; atomic, changed under `commit` */
    uint64_t pending_undo_max; /* above this, the next committing thread forces the log */
    uint64_t asked; /* atomic: the log's thread was asked to sync to here */
    bool draining;         /* a thread runs durable callbacks; under `commit` */
    uint64_t applied;      /* atomic: the highest result of ll_txns_applied */
    uint64_t visible;      /* atomic: newest commit with visible effects */
    uint64_t committed;                  /* relaxed; changed under `commit` */
    uint64_t read, aborted, prepared;    /* relaxed; `read`: committed, nothing logged */
};

/* ---- redo barriers, pins, snapshots ------------------------------------------------------- */

struct ll_redo_barrier {
    uint64_t first, n;
    lladd_lsn lsn;
};

struct ll_pin {
    char name[64];
    lladd_lsn lsn;
};

/* How an administrator ended a transaction in doubt; kept until it is forgotten. */
struct ll_heuristic {
    struct ll_prepared what; /* gid, prepared_us, owner */
    uint8_t outcome;         /* enum lladd_outcome; 0 in a record: forgotten */
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
    struct lladd_mutex witness_mutex; /* serialises writes of the witness */
    uint64_t witnessed; /* atomic: the witness covers pages with a lower LSN */
    uint64_t accepted, began; /* where the log ended at open, and where it continued */
    uint64_t redo_start; /* where redo started in the recovery of this open */
    /* Constants from the control block, read without its mutex. */
    uint32_t page_size;
    uint32_t salt;
    unsigned char uuid[16];
    bool no_images;
    bool tore_unprotected; /* pages may have been written without images after redo's start */
    bool log_full_error;
    uint32_t marked;   /* atomic: the control block says "in use" */
    struct ll_poison *poison;    /* `own_poison`, or memory that is cleared in a forked child */
    struct ll_poison own_poison;
    uint64_t pid;
    uint64_t image_horizon; /* atomic: a page with an older base is imaged before its next change */
    struct ll_op_catalog cat;
    struct ll_txn_table txns;
    struct lladd_mutex misc; /* redo barriers, pins, snapshots, heuristic outcomes */
    struct ll_redo_barrier *barriers;
    size_t n_barriers, cap_barriers;
    struct ll_pin *pins;
    uint64_t n_pins; /* atomic: read without `misc`, too */
    size_t cap_pins;
    struct ll_vec snapshots; /* struct ll_snapshot, in LSN order */
    struct ll_heuristic *heuristics;
    uint64_t n_heuristics; /* atomic: read without `misc`, too */
    size_t cap_heuristics;
    struct lladd_mutex checkpointing;
    /* Atomic, written under `checkpointing`: how many checkpoints in a row have freed no segment,
     * because something needs the log from in_vain_low on; the log's tail at the first of them. */
    uint32_t in_vain;
    uint64_t in_vain_low, in_vain_since;
    uint64_t log_growth;   /* constant: a fraction of the log's limit */
    /* Atomic: how far the log was durable when the last checkpoint ended. While this is the log's
     * tail, nothing was logged since then. */
    uint64_t settled_tail;
    uint32_t pressed; /* atomic: the log came near its limit since the last checkpoint */
    /* Atomic: log bytes reserved for the next checkpoint, and for catalogue records that a rollback
     * may have to write. */
    uint64_t set_aside;
    unsigned checkpoints_aside; /* constant: for so many of them, 1 or 2 */
    /* Atomic: the thread that calls a class for a checkpoint, 0: none. The class writes what bounds
     * its redo. */
    uint64_t asking_class;
    /* a checkpoint is due after so much log; later if many pages are dirty or imaged */
    uint64_t checkpoint_bytes;
    uint64_t checkpoint_most;  /* due after so much in any case */
    uint64_t last_checkpoint;     /* atomic: begin LSN of the last complete checkpoint */
    uint64_t checkpoints, images; /* relaxed */
    uint64_t images_before;       /* relaxed: `images` when the last checkpoint began */
    uint32_t images_in_vain;      /* atomic: consecutive images that LZ4 did not shrink */
    /* Asks the allocator. Set by db/, or NULL. */
    int (*is_allocated)(struct ll_core *, lladd_pageno, bool *out, struct lladd_error *);
    struct lladd_db *db;
    /* Wakes the checkpointer; NULL: there is no thread. Set by db/. */
    void (*want_checkpoint)(struct ll_core *);
    lladd_progress_fn *progress;
    lladd_trace_fn *trace;
    void *callback_ctx;
    uint32_t redo_threads; /* 0: chosen by redo */
    bool recover_instantly;     /* LLADD_RECOVER_INSTANT */
    bool looks_only;            /* inspection: unregistered names are no error */
    uint64_t recovery_bytes;    /* memory budget of instant recovery, without the cache */
    /* Atomic: bytes of it in use, and the maximum so far. */
    uint64_t recovery_memory, recovery_memory_most;
    bool closing;               /* close takes its checkpoint */
    bool undo_short;            /* less log space is reserved than rollbacks may need */
    /* atomic: a checkpoint is due, so that the next recovery need not repeat this one */
    uint32_t owes_checkpoint;
    struct ll_instant *instant; /* while redo of pages may be pending; set before open returns */
    uint32_t instant_stop;      /* atomic: stop the steps */
    struct ll_deferred *losers;   /* undone after open, or NULL; set before open returns */
    uint64_t recovered_records;
    uint64_t recovered_early; /* records redone in a pass over the log during instant recovery */
    uint64_t recovered_redone, recovered_undone; /* atomic */
    uint64_t recovery_ns, analysis_ns, redo_ns;
};

/* ---- handle.c ------------------------------------------------------------------------------ */

/* LLADD_FORKED. */
int ll_core_forked(const struct ll_core *, struct lladd_error *);
/* 0, the error of the poison, or LLADD_FORKED. */
int ll_core_check_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_check(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->poison->healthy)) ? 0
                                                                  : ll_core_check_slow(core, err);
}
/* A line for the application's trace. */
void ll_core_trace(struct ll_core *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* Reports progress of recovery; called regularly in each phase that may be long. */
void ll_core_progress(struct ll_core *, enum lladd_phase, lladd_lsn at, unsigned percent);

/* ---- control.c ----------------------------------------------------------------------------- */

/* Copies page size, uuid and salt out of the control block. */
void ll_core_identify(struct ll_core *);
/* Where redo would start after a crash now. */
lladd_lsn ll_core_redo(struct ll_core *);
/* Writes the control block; poisons if that fails. Under control_mutex. */
int ll_core_put_control(struct ll_core *, struct ll_control *, struct lladd_error *);
/* Marks the control block "in use". After a clean stop this precedes the first byte of log. */
int ll_core_mark_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_mark(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->marked)) ? 0 : ll_core_mark_slow(core, err);
}
/* Writes a witness, unless one covers the LSN already. Called before a page with this page LSN is
 * written; the log is durable beyond it. Poisons on failure. */
int ll_core_witness(struct ll_core *, lladd_pageno, lladd_lsn, struct lladd_error *);
/* Reads the witness of earlier runs, and checks it against the log, which ends at `end`. */
int ll_core_hear_witness(struct ll_core *, lladd_lsn end, struct lladd_error *);
/* Records durably that the feature is used. */
int ll_core_feature(struct ll_core *, uint64_t feature, struct lladd_error *);

/* ---- log_space.c, checkpoint.c: log space -------------------------------------------------- */

/* Is the calling thread inside a callback of a class, for a checkpoint that this thread takes? */
static inline bool ll_core_asks_class(const struct ll_core *core)
{
    uint64_t asking = lladd_atomic_load64(&core->asking_class);
    return LL_UNLIKELY(asking) && asking == lladd_thread_self();
}
/* May a thread that finds the log at its limit take a checkpoint? Not if the options ask for the
 * error, and not inside a callback of a class, of which the records are owed. */
static inline bool ll_core_may_checkpoint(const struct ll_core *core)
{
    return !core->log_full_error && !ll_core_asks_class(core);
}
/* Called after the byte limit refused space. Returns 0 if there may be more space now: the log was
 * truncated, or commits became durable and released their undo reserve; takes a checkpoint if that
 * can help. Otherwise LLADD_LOG_FULL, and *err names what holds the log. *oldest is where the log
 * began at the refusal; the first time UINT64_MAX. */
int ll_core_relieve_log(struct ll_core *, uint64_t *oldest, struct lladd_error *);
/* Can a checkpoint truncate the log now, or let a class allow it later? */
bool ll_checkpoint_frees(struct ll_core *);
/* Gets log space; takes a checkpoint at the byte limit. Never under a page latch. */
int ll_core_credit_slow(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_core_credit(struct ll_core *core, struct ll_credit *c, size_t bytes,
                                 struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_core_credit_slow(core, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* The same for records that are owed: the log's limit does not refuse them. */
int ll_core_credit_owed(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Returns the caller's credit, because what follows (a checkpoint, the catalogue) may wait for a
 * thread that needs credit (BUF-3). *bytes becomes at least as large as that credit, so that the
 * caller gets it again with *bytes. */
void ll_core_put_down(struct ll_core *, struct ll_credit *, size_t *bytes);
/* Appends an owed record of no transaction, with credit of its own. */
int ll_core_append(struct ll_core *, struct ll_record *, struct lladd_error *);
/* The same, from the space set aside if that is enough. */
int ll_core_append_aside(struct ll_core *, struct ll_record *, struct lladd_error *);

/* ---- op_catalog.c ------------------------------------------------------------------------- */

struct lladd_registry; /* registry.h */
int ll_op_catalog_init(struct ll_core *, const struct lladd_registry *, struct lladd_error *);
void ll_op_catalog_free(struct ll_core *);
struct ll_name *ll_op_catalog_find(struct ll_core *, unsigned kind, const char *name,
                                  uint32_t version); /* version 0: any */
struct ll_name *ll_op_catalog_by_desc(struct ll_core *, unsigned kind, const void *desc);
struct ll_name *ll_op_catalog_by_number(struct ll_core *, uint32_t number); /* NULL: unknown */
/* Gives the name a number and logs it, unless it has one. Not under a page latch. */
int ll_op_catalog_number_slow(struct ll_core *, struct ll_name *, struct lladd_error *);
static inline int ll_op_catalog_number(struct ll_core *core, struct ll_name *n,
                                      struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&n->number) != 0)
               ? 0
               : ll_op_catalog_number_slow(core, n, err);
}
/* Finds the tag, or adds it (kind LL_NAME_TAG). */
int ll_op_catalog_tag(struct ll_core *, const char *name, struct ll_name **out,
                     struct lladd_error *);
/* Adds the name of a catalogue record that was read from the log. */
int ll_op_catalog_learn(struct ll_core *, struct lladd_span payload, lladd_lsn,
                       struct lladd_error *);
/* Length of the payload of the name's catalogue record. */
size_t ll_op_catalog_payload(const struct ll_name *);
/* The longest of those that the log has and that are not registered; 0: there are none. */
size_t ll_op_catalog_longest_learned(struct ll_core *);
/* Builds that payload; resizes *buf through env. 0 or an error. */
int ll_op_catalog_encode(const struct ll_env *, const struct ll_name *, unsigned char **buf,
                        size_t *cap, size_t *len);
/* Parses a payload; fields are allocated through env and owned by *out. */
int ll_op_catalog_decode(const struct ll_env *, struct lladd_span, struct ll_name *out,
                        struct lladd_error *);
/* Frees what ll_op_catalog_decode put into *out. */
void ll_op_catalog_drop(const struct ll_env *, struct ll_name *);

/* ---- update.c: the write path ------------------------------------------------------------- */

enum ll_apply_how { LL_APPLY_NORMAL = 0, LL_APPLY_REDO_ONLY = 1 };

/* A checkpoint reads these fields while the transaction runs: relaxed stores, ordered by the
 * publication of the record. */
static inline void ll_txn_set_lsn(lladd_lsn *field, lladd_lsn lsn)
{
    lladd_atomic_store64_relaxed(&field->v, lsn.v);
}
static inline void ll_txn_set_undo_used(struct lladd_txn *txn, uint64_t bytes)
{
    lladd_atomic_store64_relaxed(&txn->undo_used, bytes);
}

/* Contents of a CLR_END: u64, the transaction's undo reserve after it. Earlier versions wrote four
 * bytes: the length of the undo bytes that are no longer needed. */
#define LL_CLR_END_BYTES 8u
#define LL_CLR_END_BYTES_BEFORE 4u

/* Undo reserve for the END record of a transaction that has logged anything. */
uint64_t ll_undo_need_base(void);
/* Is less set aside for the next checkpoint than it may need? */
bool ll_core_lacks_aside(const struct ll_core *);
/* Credit, undo reserve, scratch memory and catalogue number for `count` records of the operation.
 * Whatever can fail for lack of a resource fails here, before a page is latched. */
int ll_core_reserve_slow(struct lladd_txn *, struct ll_name *op, unsigned count);
/* The same for several operations at once. */
struct ll_want {
    struct ll_name *name; /* NULL: the end of a top action without logical undo */
    unsigned count;
};
enum { LL_ACTION_END_BYTES = 8 }; /* redo bytes of that record */
int ll_core_reserve_all(struct lladd_txn *, const struct ll_want *, unsigned n);
static inline int ll_core_reserve_for(struct lladd_txn *txn, struct ll_name *op, unsigned count)
{
    bool begun = txn->id.v != 0;
    if (LL_LIKELY(txn->credit.bytes >= op->need_credit * count &&
                  txn->undo_spare >= op->need_undo * count + (begun ? 0 : ll_undo_need_base()) &&
                  txn->scratch_size >= op->need_scratch &&
                  txn->undo_copy_size >= op->need_copy &&
                  txn->cap_actions >= op->need_nesting && lladd_atomic_load32(&op->number) &&
                  (begun || !ll_core_lacks_aside(txn->core)))) {
        ll_log_credit_in_hand(&txn->credit);
        return 0;
    }
    return ll_core_reserve_slow(txn, op, count);
}
/* Maximum redo and undo bytes of a record of the operation, for this page size. */
size_t ll_op_record_max(const struct lladd_op *, uint32_t page_size);
/* Log space for one record and an image of its page. */
size_t ll_op_credit(const struct lladd_op *, uint32_t page_size);
/* Computes the needs of a registered operation. */
void ll_core_needs(const struct ll_core *, struct ll_name *);
/* Credit during a rollback: `bytes` from the undo reserve; `with_image` if there is space. */
int ll_core_credit_rolling(struct lladd_txn *, size_t bytes, size_t with_image);
/* Credit and undo reserve for a record without an operation. */
int ll_core_reserve_plain(struct lladd_txn *, size_t bytes, uint64_t undo);
/* A record was logged; its rollback needs so much of the undo reserve. */
void ll_core_use_undo(struct lladd_txn *, uint64_t need);
/* Releases undo reserve far beyond need. */
void ll_core_trim_undo(struct lladd_txn *);
/* Memory for a draft, followed by a page image. */
int ll_core_want_scratch(struct lladd_txn *, size_t record_max);
/* Memory for the undo bytes of a record while it is undone. */
int ll_core_want_copy(struct lladd_txn *, size_t undo_len);
/* Memory for the top actions and savepoints of a compensation, beyond the open ones. */
int ll_core_want_nesting(struct lladd_txn *);
/* Allocates the memory for rolling back a transaction that recovery found: the most that a record
 * of any operation in the catalogue may need (REC-3). */
int ll_core_want_rollback(struct lladd_txn *);
/* The whole path: space, latch, check, log, redo, page LSN. The operation has a redo. */
int ll_core_update(struct lladd_txn *, struct ll_name *op, lladd_pageno, struct lladd_span args,
                   enum ll_apply_how);
/* The same on a frame latched exclusively, with space reserved before. */
int ll_core_update_held(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        struct lladd_span args);
/* contract.c, debug builds: does the operation keep its contract on this page? */
int ll_contract_check(struct lladd_txn *, const struct ll_name *, const struct lladd_page *,
                      const struct lladd_draft *);
/* Logs a CLR and applies validated undo bytes to the frame. Needs credit; writes an image only if
 * the credit allows one. */
void ll_core_apply_undo(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        const struct ll_record *undone);
/* Prefetches the page's frame, its header and, where the operation declares it (offset_first), the
 * place on the page that these redo or undo bytes will change. */
void ll_core_expect(struct ll_core *, const struct ll_record *, struct lladd_span bytes);
/* Appends a record of the transaction; needs credit. Undo continues at this record, or at
 * *undo_next. Accounts for the record's undo reserve before, so that a checkpoint that finds the
 * record finds the reserve, too. */
void ll_txn_append(struct lladd_txn *, struct ll_record *, const lladd_lsn *undo_next);
/* The most log bytes that the compensation of a record can need. */
uint64_t ll_undo_need(const struct ll_core *, const struct ll_record *);
uint64_t ll_undo_need_op(const struct lladd_op *, size_t undo_len);
static inline struct lladd_view ll_view_of(const struct lladd_page *page)
{
    struct lladd_view v = {page->bytes, page->size, ll_page_type(page->bytes), page->number};
    return v;
}
/* Page images. */
size_t ll_image_bound(const struct ll_core *);
int ll_image_apply(const struct ll_core *, const struct ll_record *, unsigned char *page,
                   struct lladd_error *);
/* Reports a step on this record to the simulator. */
static inline void ll_observe(enum lladd_dst_what what, const struct lladd_txn *txn,
                              const struct ll_name *op, const struct ll_record *rec)
{
    LLADD_OBSERVE(.what = what, .op = op ? op->name : NULL, .op_version = op ? op->version : 0,
                  .lsn = rec->lsn, .txn = txn->id, .page = rec->page, .depth = rec->depth);
}
/* Reports that the caller is about to acknowledge this record as durable. */
static inline void ll_observe_durable(const struct ll_core *core, lladd_lsn lsn)
{
    LLADD_OBSERVE(.what = LLADD_DST_ACKNOWLEDGE, .lsn = lsn, .durable = ll_log_durable(core->log));
}
/* ---- undo.c ------------------------------------------------------------------------------ */

/* Undoes records until undo_next <= stop. Resource and I/O failures poison (REC-3). */
int ll_rollback(struct lladd_txn *, lladd_lsn stop);
/* Reads the next record to undo; skips records that need no undo. LLADD_END at stop. */
int ll_rollback_peek(struct lladd_txn *, lladd_lsn stop, struct ll_record *, struct lladd_error *);
/* Undoes that record. */
int ll_rollback_step(struct lladd_txn *, const struct ll_record *);
/* Does undo act on the record? Otherwise, does undo continue at its undo_next, rather than prev? */
bool ll_rollback_needs(const struct ll_record *);
bool ll_rollback_passes_over(const struct ll_record *);

/* ---- txn_table.c ----------------------------------------------------------------------------- */

int ll_txns_init(struct ll_core *);
/* Makes the spare cursor for rollbacks when memory is short, if there is none. */
int ll_txns_spare(struct ll_core *, struct lladd_error *);
void ll_txns_free(struct ll_core *);
int ll_txn_new(struct ll_core *, struct lladd_txn **out, struct lladd_error *);
/* Frees the transaction for reuse; releases credit and undo reserve, or parks it with a little. */
void ll_txn_release(struct lladd_txn *);
/* Drops a reference to a guarded transaction; the last one puts it into the free list. */
void ll_txn_unref(struct lladd_txn *);
/* Log space is short: releases what the parked transaction keeps. False: nothing. */
bool ll_txns_release_credit(struct ll_core *);
/* Iterates over the transactions. The caller holds the table's mutex, or is the only thread. */
struct lladd_txn *ll_txns_first(const struct ll_txn_table *);
struct lladd_txn *ll_txns_next(const struct lladd_txn *);
/* A consistent copy of a transaction's fields, taken while it runs: never of two lives. */
struct ll_txn_values {
    uint64_t id, last, undo_next, undo_used;
    uint32_t state, system;
};
void ll_txn_values(const struct lladd_txn *, struct ll_txn_values *);
/* Transactions begun, not ended, in doubt. The cost does not depend on their number. */
void ll_txns_count(struct ll_core *, uint64_t *begun, uint64_t *active, uint64_t *in_doubt);
/* Changes the state of a transaction that has begun; counts those in doubt. */
void ll_txn_set_state(struct lladd_txn *, uint32_t state);
/* Gives the transaction a log cursor for its rollback, until it ends. 0: it has one. */
int ll_txn_want_cursor(struct lladd_txn *);
/* Statistics of an operation that transactions hold and have not added to its name yet. */
void ll_txns_counted(struct ll_core *, const struct ll_name *, uint64_t *n, uint64_t *bytes);
/* Smallest id of a transaction that may still be undone; UINT64_MAX: none. */
/* The transaction with the largest undo reserve; *n: how many have one. */
lladd_lsn ll_txns_most_undo(struct ll_core *, uint64_t *n);
lladd_lsn ll_txns_oldest(struct ll_core *, struct lladd_pinner *);
/* Every record below the result is applied. */
lladd_lsn ll_txns_applied(struct ll_core *);
/* Rolls back, logs END, runs `aborted` callbacks, releases. 0 or the poison. */
int ll_txn_abort(struct lladd_txn *);
/* Appends the commit record in commit order, runs `logged`, and queues what has to happen when it
 * is durable; the queue then owns the transaction's participants and undo reserve. Needs credit.
 * `outcome` is empty, or says that it is heuristic. Can fail for lack of memory, before anything is
 * appended. */
int ll_txn_log_commit(struct lladd_txn *, struct lladd_span outcome, lladd_lsn *out);
/* Ends a transaction that wrote nothing. *out: the newest commit that it may have seen. Queues its
 * durable callbacks until that is durable; *tells: there are some. Can fail for lack of memory,
 * before anything has changed. */
int ll_txn_end_unlogged(struct lladd_txn *, lladd_lsn *out, bool *tells);
/* Releases the undo reserves and runs the `durable` callbacks of commits that are durable now. Only
 * this and ll_txns_ended decide where callbacks run: never in a thread that may hold mutexes that a
 * callback may want. The caller holds no mutex of the core. A thread inside a class's callback for
 * a checkpoint runs none: it holds the checkpoint's mutex, and perhaps those of the writer that met
 * the log's limit. The next drain runs what is left. */
void ll_txns_drain(struct ll_core *);
/* The same after a commit. An extension may end a system transaction under its own mutexes: then
 * only ll_txns_release_undo. */
void ll_txns_ended(struct ll_core *, bool system);
/* Only the undo reserves: for an update at the log's limit, in a thread that may hold mutexes of an
 * extension. */
void ll_txns_release_undo(struct ll_core *);
/* For a commit that does not wait for durability. If much undo reserve is pending, releases that of
 * durable commits, and asks for a sync. False: so much is pending that the caller should force the
 * log. */
bool ll_txns_relieve(struct ll_core *, bool system);

/* ---- log_space.c, checkpoint.c, restart.c ------------------------------------------------- */

/* Log space for a checkpoint, without what the catalogue, the transactions, pins and heuristic
 * outcomes take. Space for two checkpoints is set aside: close takes one that may free no log, and
 * the way out of a full log needs one that does. Under a narrow byte limit it is space for one. */
#define LL_CHECKPOINT_RESERVE 8192u
/* So many redo barriers are part of that. */
#define LL_CHECKPOINT_BARRIERS 32u
/* What is set aside with one transaction and so many bytes of names in the catalogue. */
uint64_t ll_core_aside_least(uint64_t names);
/* Sets aside what is missing; no transaction begins to write without it. `owed`: the log's limit
 * does not refuse it, and on a full disk the space of one checkpoint is enough. */
int ll_core_set_aside(struct ll_core *, bool owed, struct lladd_error *);
/* The same for a handle that has set nothing aside since open: free space in the current segment
 * counts, too, as in a recovery. If that is not enough, sets aside the space of one checkpoint if
 * possible, and returns LLADD_NO_SPACE. */
int ll_core_set_aside_again(struct ll_core *, struct lladd_error *);
/* Sets aside the space of so many redo barriers besides. False: ordinary work could not have that
 * space either. */
bool ll_core_set_aside_barriers(struct ll_core *, size_t n);
/* Credit from the space set aside; if that is not enough, owed credit. */
int ll_core_credit_aside(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* Takes a checkpoint. flush_all: writes back all pages first (close, explicit checkpoints);
 * otherwise those that are older than the previous checkpoint. */
int ll_checkpoint(struct ll_core *, bool flush_all, struct lladd_error *);
/* True if a checkpoint would say the same as the last: everything logged since then is durable, and
 * no page is dirty. */
bool ll_core_settled(struct ll_core *);
/* What holds the log: the owner of the smallest needed LSN. */
int ll_core_pinner(struct ll_core *, struct lladd_pinner *, struct lladd_error *);
/* A checkpoint data record is a sequence of parts: u8 part, u32 length, payload. */
#define LL_CKPT_PART_HEAD 5u
enum ll_checkpoint_part {
    LL_CKPT_TXN = 1,   /* u64 id, last, undo_next, undo_used, prepare lsn, u32 flags (1 system) */
    LL_CKPT_NAME = 2,  /* catalogue payload */
    LL_CKPT_REDO_BARRIER = 3, /* u64 first, n, lsn */
    LL_CKPT_PIN = 4,   /* u64 lsn, name */
    LL_CKPT_PAGES = 5, /* u64 lower bound of the file's pages */
    LL_CKPT_HEURISTIC = 6 /* as in a heuristic record */
};
/* All of recovery. The log and the buffer manager are open and not started. After success the log
 * is started, losers are rolled back or protected (deferred_undo.c), prepared transactions are in
 * doubt. */
int ll_restart(struct ll_core *, struct lladd_error *);

/* ---- restart_instant.c ----------------------------------------------------------------------- */

/* Number of pages with pending redo. */
uint64_t ll_instant_left(const struct ll_core *);
/* Redoes up to `most` more pages; *more: there are others. A page that cannot be redone is tried
 * again in the next round; its error is returned at the end of a round. */
int ll_instant_step(struct ll_core *, uint64_t most, bool *more, struct lladd_error *);
/* Redoes all pages that are left: before anything is done that gives up what redo needs. */
int ll_instant_finish(struct ll_core *, struct lladd_error *);
/* Drops the pending redo of pages that get new contents. */
void ll_instant_forget(struct ll_core *, lladd_pageno first, uint64_t n);
/* The pages are about to be read or written past the cache: redoes those with pending redo, and
 * writes them back. */
int ll_instant_settle(struct ll_core *, lladd_pageno first, uint64_t n, struct lladd_error *);
/* Is redo of the page pending? *base: it rewrites the whole page, so the page need not be read. */
bool ll_instant_is_pending(struct ll_core *, lladd_pageno, bool *base);
/* Applies the pending redo of a page, if there is any. *baseless: on entry, the bytes are zeros; on
 * return, redo has not given the page a base. The page is dirty from *since, unless that is 0. */
int ll_instant_redo_page(struct ll_core *, lladd_pageno, unsigned char *bytes, bool *baseless,
                         lladd_lsn *since, struct lladd_error *);
/* Redo of the page is complete. */
void ll_instant_redone(struct ll_core *, lladd_pageno);
void ll_instant_free(struct ll_core *);

/* ---- deferred_undo.c ------------------------------------------------------------------------- */

/* Room for n losers that are undone after open. NULL if no participant can protect their changes,
 * or for lack of memory: then all are undone before. */
struct ll_deferred *ll_deferred_new(struct ll_core *, size_t n);
/* Protects the loser's changes at depth 0. False: not all could be, so it must be undone before
 * open returns. */
bool ll_deferred_protect(struct ll_deferred *, struct lladd_txn *);
/* Leaves this loser, which has only changes at depth 0 left, for later. */
void ll_deferred_leave(struct ll_deferred *, struct lladd_txn *);
/* No more losers will be protected. */
void ll_deferred_asked(struct ll_core *);
uint64_t ll_deferred_left(const struct ll_core *);
/* The caller is about to undo all of them: redoes the pages first if that is faster. */
void ll_deferred_expect(struct ll_core *);
/* Undoes what is left within about so many bytes of log; *more: there is more. */
int ll_deferred_step(struct ll_core *, uint64_t bytes, bool *more, struct lladd_error *);
void ll_deferred_free(struct ll_core *);

/* Pages written in bulk: records older than the page's redo barrier are not redone. */
int ll_redo_barrier_add(struct ll_core *, uint64_t first, uint64_t n, lladd_lsn,
                        struct lladd_error *);
/* Its two halves, under `misc`: the first can fail, the second cannot. */
int ll_redo_barrier_room(struct ll_core *, uint64_t first, uint64_t n, struct lladd_error *);
void ll_redo_barrier_put(struct ll_core *, uint64_t first, uint64_t n, lladd_lsn);
lladd_lsn ll_redo_barrier_of(const struct ll_core *, uint64_t page); /* during redo: no mutex */
lladd_lsn ll_redo_barrier_of_locked(struct ll_core *, uint64_t page);

/* ---- pin.c ------------------------------------------------------------------------------- */

lladd_lsn ll_pin_get(struct ll_core *, const char *name); /* 0: there is none */
int ll_pin_put(struct ll_core *, const char *name, lladd_lsn, struct lladd_error *); /* 0: remove */
/* Does a pin hold the log from this LSN or from below it? */
bool ll_pin_keeps(struct ll_core *, lladd_lsn);

/* ---- heuristic.c ------------------------------------------------------------------------- */

bool ll_gid_same(const struct lladd_gid *, const struct lladd_gid *);
/* Adds the outcome, or replaces that with the same id. */
int ll_heuristic_put(struct ll_core *, const struct ll_heuristic *, struct lladd_error *);
bool ll_heuristic_remove(struct ll_core *, const struct lladd_gid *); /* was it there? */
bool ll_heuristic_find(struct ll_core *, const struct lladd_gid *, struct ll_heuristic *out);
/* Takes a payload that recovery has read: of a commit or heuristic record, or of a checkpoint. */
int ll_heuristic_see(struct ll_core *, struct lladd_span payload, lladd_lsn, struct lladd_error *);
void ll_heuristic_describe(const struct ll_heuristic *, struct lladd_heuristic_info *);

/* Applies a record to a page: 0 applied, LLADD_EXISTS the page has it, LLADD_NOT_FOUND the page has
 * no base yet (skipped), or an error. Changes before `start` may be missing; 0: none may. */
int ll_redo_record(struct ll_core *, const struct ll_record *, struct lladd_page *, bool baseless,
                   lladd_lsn start, struct lladd_error *);
/* Rebuilds a damaged page from the log. */
int ll_rebuild_page(struct ll_core *, struct ll_fetch *, struct lladd_error *);

/* ---- page_recovery.c --------------------------------------------------------------------- */

/* The functions that the buffer manager calls. */
struct ll_page_recovery ll_page_recovery(struct ll_core *);

#endif
