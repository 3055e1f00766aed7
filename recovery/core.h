/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_CORE_H
#define LL_RECOVERY_CORE_H
/* The transactional core: one log, one buffer manager, the catalogue of names and the table of
 * transactions, and the steps that tie them together. Used by recovery (which runs it backwards and
 * forwards again) and by the assembly in lladd/ (which offers it to the public).
 *
 *   lladd_update ─► ll_core_update: prepare ► dirty ► [image] ► reserve ► publish ► redo ► stamp
 *   lladd_abort ──► ll_rollback:    read record ► undo ► compensation record ► ... ► END
 *   lladd_open ───► ll_restart:     analysis ► redo ► objects ► undo by depth
 *
 * Two orders carry the proofs:
 *   - a transaction's last, undo_next, state are stored *between* reserve and publish, so a
 *     checkpoint that has waited until everything below its begin record is published sees every
 *     transaction at least as it was there;
 *   - a frame enters the dirty-page table *before* the image horizon is read, so a checkpoint that
 *     has raised the horizon finds every page that was not imaged because of it (BUF-5). */
#include "buffer/buffer.h"
#include "log/log.h"
#include "recovery/control.h"

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

/* One name of the database. Numbered names are logged; a registered one that was never used has
 * number 0. */
struct ll_name {
    uint32_t version;
    uint32_t number; /* atomic: 0 until logged */
    uint8_t kind;
    bool learned; /* came from the log; name and fields are owned */
    const char *name;
    lladd_lsn first_used; /* LSN of its catalogue record */
    const void *desc;     /* the registered descriptor; NULL: not registered with this handle */
    struct lladd_field *redo_fields, *undo_fields; /* from the log; owned; NULL if registered */
    struct ll_name *page_type;                     /* of an operation that wants one */
    uint32_t page_type_number;                     /* of a learned one; 0: wants none */
    /* Of a registered operation: what one record of it can need, computed once. */
    size_t need_credit, need_scratch, need_copy, need_nesting;
    uint64_t need_undo;
    size_t record_max; /* redo and undo bytes of one record on this database's pages */
    uint64_t undo_log_most; /* atomic: most log bytes that its compensation has written so far */
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
    size_t hint; /* in `all`: behind the one found last */
    struct ll_name *by_desc[LL_CATALOGUE_FOUND]; /* atomic: found before, by address */
    struct ll_name **numbers; /* by number - 1; replaced, never freed before close */
    uint32_t n_numbers, cap_numbers;
    void *retired; /* chain of replaced `numbers` arrays */
    /* One piece of memory, what open makes of the registry: the names, which never move, the arrays
     * above as they are at first, and `buf`, in which the catalogue record of any name fits. */
    struct ll_name *slab;
    size_t slab_bytes;
    unsigned char *buf;
    size_t buf_size;
    uint64_t log_bytes; /* atomic: all catalogue records together take at most so much */
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
    size_t actions; /* open when it was made */
};

struct ll_action {
    uint64_t id;
    lladd_lsn undo_next; /* when it was opened */
    uint64_t undo_used;
};

struct ll_joined {
    const struct lladd_participant *participant;
    void *state;
};

/* What a prepared transaction adds; allocated when it prepares. */
struct ll_prepared {
    struct lladd_gid gid;
    int64_t prepared_us;
    lladd_lsn lsn;
    char owner[64];
    uint32_t blobs; /* records before the prepare record that hold participants' blobs */
    bool recovered; /* found by recovery: to be claimed */
    bool claimed;
};

struct lladd_txn {
    uint32_t magic;
    uint32_t state; /* atomic */
    struct ll_core *core;
    union { /* changed by the log while it appends */
        struct {
            lladd_lsn id, last, undo_next;
        };
        struct ll_chain chain;
    };
    uint64_t
        busy; /* atomic: a lower bound of its records that may be unapplied; UINT64_MAX: none */
    uint64_t lives; /* atomic: how often it was begun */
    uint32_t depth; /* of the records it writes now */
    uint32_t system; /* atomic: 0 or 1 */
    bool read_only, rolling_back, in_callback;
    bool frees_log; /* what it writes is owed: the log's limit does not refuse it */
    uint8_t durability;
    struct ll_credit credit;
    uint64_t undo_used;     /* log bytes its rollback can need now */
    uint64_t rolled;        /* log bytes that were written while it was rolled back, all told */
    uint64_t undo_spare;    /* reserved beyond that */
    unsigned char *scratch; /* a draft, and room behind it to build a page image; grows */
    size_t scratch_size;
    /* A stack: undo bytes of the compensations that run. Sized when their records are logged. */
    unsigned char *undo_copy;
    size_t undo_copy_size, undo_copy_used;
    /* Statistics gathered for one operation at a time, also over several lives. Atomic. */
    struct ll_name *counted;
    uint64_t counted_n, counted_bytes;
    struct ll_savepoint *savepoints;
    size_t n_savepoints, cap_savepoints;
    struct ll_action *actions;
    size_t n_actions, cap_actions;
    uint64_t next_id; /* of savepoints and actions */
    uint64_t undone; /* the last one gone back to, or the action aborted */
    struct ll_joined *joined;
    size_t n_joined, cap_joined;
    struct ll_prepared *prepared;
    struct ll_log_cursor *cursor; /* for rollback; made when first needed */
    char *owner;
    /* A guarded transaction (db/guard.c); all of it atomic, but for `calls`. */
    uint64_t user;   /* the thread that may call; LL_NO_USER: none; 0: it is not guarded */
    uint64_t inside; /* the thread that is in a call, or has a top action open; 0: none */
    uint32_t takers; /* threads that wait for `inside` */
    uint32_t stops;  /* those of them that ask for an end of waits */
    uint32_t left;   /* changes when a call ends that a taker waits for */
    uint32_t refs;   /* the transaction, the call, each thread it was taken from */
    uint32_t calls;  /* of `inside`: how deep it is in calls */
    struct lladd_txn *next;      /* in the table */
    struct lladd_txn *next_free; /* in the free list */
    struct lladd_error err;
};

#define LL_NO_USER UINT64_MAX

/* Does the participant have this callback? Older ones end before it. */
#define LL_PARTICIPANT_HAS(p, callback) \
    ((p)->struct_size >= offsetof(struct lladd_participant, callback) + sizeof((p)->callback) && \
     (p)->callback)

/* Committed transactions that are not durable yet: one, or some that nobody wants to hear of. */
struct ll_pending {
    uint64_t first;     /* commit LSN */
    lladd_lsn commit;   /* of the last one */
    uint64_t undo_used; /* released when durable */
    struct ll_joined *joined;
    size_t n_joined;
};

struct ll_txn_table {
    struct lladd_mutex mutex; /* the list, the free list, and what is prepared */
    struct lladd_txn *first;  /* all there ever were; those that are none have state FREE */
    struct lladd_txn *free;   /* of these; not the one that is parked */
    uint64_t parked; /* atomic: address of one that has ended and kept some log space; or 0 */
    uint64_t made;   /* atomic: how many are in the list */
    uint64_t n_free; /* of the free list; under `mutex` */
    uint64_t begun;  /* relaxed: lives */
    uint64_t lingering; /* relaxed: have ended, and threads may name them (lladd_txn_drop) */
    uint64_t in_doubt;  /* relaxed: have state PREPARED */
    uint64_t idle_cursor; /* atomic: address of a log cursor for the next rollback; or 0 */
    struct lladd_mutex commit;          /* commit order: reserve, logged, visible */
    struct ll_log_cursor *spare_cursor; /* for rollbacks without memory; under spare_mutex */
    struct lladd_mutex spare_mutex;
    struct ll_pending *pending; /* circular, in commit order; under `commit` */
    size_t pending_head, n_pending, cap_pending; /* a power of two */
    uint64_t n_released; /* of the queue, from its head: their undo reserve has been given back;
                          * atomic, changed under `commit` */
    uint64_t pending_undo; /* sum over the others; atomic, changed under `commit` */
    uint64_t pending_undo_max; /* then the next committer makes it durable */
    uint64_t asked; /* atomic: the log's thread was asked to sync up to here */
    bool draining;         /* somebody runs durable callbacks; under `commit` */
    uint64_t applied;      /* atomic: highest answer of ll_txns_applied so far */
    uint64_t visible;      /* atomic: newest commit whose effects can be seen */
    uint64_t committed;                  /* relaxed; changed under `commit` */
    uint64_t read, aborted, prepared;    /* relaxed; `read`: committed and had logged nothing */
};

/* ---- fences, pins, snapshots ------------------------------------------------------------- */

struct ll_redo_barrier {
    uint64_t first, n;
    lladd_lsn lsn;
};

struct ll_pin {
    char name[64];
    lladd_lsn lsn;
};

/* How an administrator has ended a transaction in doubt, until it is forgotten. */
struct ll_heuristic {
    struct ll_prepared what; /* gid, prepared_us, owner */
    uint8_t outcome;         /* enum lladd_outcome; in a record also 0: forgotten */
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
    struct lladd_mutex witness_mutex; /* one is written at a time */
    uint64_t witnessed; /* atomic: pages with a lower LSN have been vouched for */
    uint64_t accepted, began; /* where the log ended when it was opened, and goes on since */
    uint64_t redo_start; /* of the recovery that opened this handle; redo of pages may come later */
    /* What the control block says that never changes; this may be read without its mutex. */
    uint32_t page_size;
    uint32_t salt;
    unsigned char uuid[16];
    bool no_images;
    bool tore_unprotected; /* pages may have been written without images since redo's start */
    bool log_full_error;
    uint32_t marked;   /* atomic: the control block says "in use" */
    struct ll_poison *poison;    /* in `own_poison`, or where a forked child finds it cleared */
    struct ll_poison own_poison;
    uint64_t pid;
    uint64_t image_horizon;    /* atomic: a page whose base is below is imaged at its next change */
    struct ll_op_catalog cat;
    struct ll_txn_table txns;
    struct lladd_mutex misc; /* fences, pins, snapshots, heuristic outcomes */
    struct ll_redo_barrier *fences;
    size_t n_barriers, cap_barriers;
    struct ll_pin *pins;
    uint64_t n_pins; /* atomic: read without `misc`, too */
    size_t cap_pins;
    struct ll_snapshot *snapshots;
    size_t n_snapshots, cap_snapshots;
    struct ll_heuristic *heuristics;
    uint64_t n_heuristics; /* atomic: read without `misc`, too */
    size_t cap_heuristics;
    struct lladd_mutex checkpointing;
    /* Written under `checkpointing`, atomic: so many checkpoints in a row have given up no segment
     * because of what needs the log from in_vain_low on; the log's tail at the first of them. */
    uint32_t in_vain;
    uint64_t in_vain_low, in_vain_since;
    uint64_t log_growth;   /* constant: a part of the log's limit */
    /* Atomic: how far the log was durable as the last checkpoint ended. While its tail is this,
     * nothing was logged since. */
    uint64_t settled_tail;
    uint32_t pressed; /* atomic: the log has come near its limit since the last one */
    /* Atomic: log bytes set aside for the next checkpoint, and for numbers that a rollback may have
     * to give. */
    uint64_t set_aside;
    /* atomic: the thread in which a class writes what bounds its redo; or 0 */
    uint64_t asking_class;
    uint64_t checkpoint_bytes; /* after so much log; later if many pages are dirty, or imaged */
    uint64_t checkpoint_most;  /* after so much in any case */
    uint64_t last_checkpoint;     /* atomic: begin LSN of the last complete one */
    uint64_t checkpoints, images; /* relaxed */
    uint64_t images_before;       /* relaxed: as the last checkpoint began */
    uint32_t images_in_vain;      /* atomic: that did not become smaller, one after the other */
    /* Asks the allocator; says true where there is none. Set by the assembly. */
    int (*is_allocated)(struct ll_core *, lladd_pageno, bool *out, struct lladd_error *);
    struct lladd_db *db;
    /* Wakes the checkpointer, or NULL (no threads). Set by the assembly. */
    void (*want_checkpoint)(struct ll_core *);
    lladd_progress_fn *progress;
    lladd_trace_fn *trace;
    void *callback_ctx;
    uint32_t redo_threads; /* 0: as many as pay */
    bool recover_instantly;     /* as the options say */
    bool looks_only;            /* inspection: what is not registered is no fault */
    uint64_t recovery_bytes;    /* of memory, for what instant recovery keeps beside the cache */
    /* Atomic: how much of that it holds, and has held at most. */
    uint64_t recovery_memory, recovery_memory_most;
    bool closing;               /* the last checkpoint is being taken */
    bool undo_short;            /* less log space is set aside than rollbacks may need */
    uint32_t owes_checkpoint;   /* atomic: the one that saves the next crash this recovery */
    struct ll_instant *instant; /* while pages may be behind the log; set before open returns */
    uint32_t instant_stop;      /* atomic: steps are to be left off */
    struct ll_deferred *losers;   /* that are undone behind open, or NULL; set before it returns */
    uint64_t recovered_records;
    uint64_t recovered_early; /* redone in a pass over the log though recovery is instant */
    uint64_t recovered_redone, recovered_undone; /* atomic */
    uint64_t recovery_ns, analysis_ns, redo_ns;
};

/* ---- handle.c ------------------------------------------------------------------------------ */

/* LLADD_FORKED. */
int ll_core_forked(const struct ll_core *, struct lladd_error *);
/* 0, or the poison copied into *err, or LLADD_FORKED. */
int ll_core_check_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_check(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->poison->healthy)) ? 0
                                                                  : ll_core_check_slow(core, err);
}
/* A line for the application's trace. */
void ll_core_trace(struct ll_core *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* Recovery goes on: often enough in each phase that may be long. */
void ll_core_progress(struct ll_core *, enum lladd_phase, lladd_lsn at, unsigned percent);

/* ---- control.c ----------------------------------------------------------------------------- */

/* Copies page size, uuid and salt out of the control block. */
void ll_core_identify(struct ll_core *);
/* Where the next recovery would begin. */
lladd_lsn ll_core_redo(struct ll_core *);
/* Writes the control block; poisons if that fails. Under control_mutex. */
int ll_core_put_control(struct ll_core *, struct ll_control *, struct lladd_error *);
/* The control block says "in use" before the first byte of log is written after a clean stop. */
int ll_core_mark_slow(struct ll_core *, struct lladd_error *);
static inline int ll_core_mark(struct ll_core *core, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&core->marked)) ? 0 : ll_core_mark_slow(core, err);
}
/* Call before a page with this page LSN, which is durable, is written: writes a witness, unless one
 * covers the LSN already. Poisons if that fails. */
int ll_core_witness(struct ll_core *, lladd_pageno, lladd_lsn, struct lladd_error *);
/* Reads the witness of earlier runs and checks it: the log ends at `end`. */
int ll_core_hear_witness(struct ll_core *, lladd_lsn end, struct lladd_error *);
/* Says durably that the feature is used. */
int ll_core_feature(struct ll_core *, uint64_t feature, struct lladd_error *);

/* ---- log_space.c, checkpoint.c: log space -------------------------------------------------- */

/* Is the calling thread one that takes a checkpoint and has called a class for it? */
static inline bool ll_core_asks_class(const struct ll_core *core)
{
    uint64_t asking = lladd_atomic_load64(&core->asking_class);
    return LL_UNLIKELY(asking) && asking == lladd_thread_self();
}
/* May who finds the log at its limit take a checkpoint? Not if the options want the error, and
 * not a class that is being asked to write for one (what it writes is owed). */
static inline bool ll_core_may_checkpoint(const struct ll_core *core)
{
    return !core->log_full_error && !ll_core_asks_class(core);
}
/* For who was refused at the byte limit: 0 if there may be more room by now, because the log was
 * truncated, or commits have become durable whose undo was set aside; takes a checkpoint if that
 * can help. LLADD_LOG_FULL, and *err names what holds the log, if nothing does, or the caller may
 * not take one. *oldest is where the log began when it was refused; the first time UINT64_MAX. */
int ll_core_relieve_log(struct ll_core *, uint64_t *oldest, struct lladd_error *);
/* Can a checkpoint give up some of the log now, or get a class to? */
bool ll_checkpoint_frees(struct ll_core *);
/* Log space, with the wait for a checkpoint at the byte limit. Never under a page latch. */
int ll_core_credit_slow(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
static inline int ll_core_credit(struct ll_core *core, struct ll_credit *c, size_t bytes,
                                 struct lladd_error *err)
{
    if (LL_UNLIKELY(c->bytes < bytes))
        return ll_core_credit_slow(core, c, bytes, err);
    ll_log_credit_in_hand(c);
    return 0;
}
/* The same for what is owed: the limit does not refuse it. */
int ll_core_credit_owed(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* What follows may wait for a thread that needs credit itself (a checkpoint, the catalogue): the
 * caller puts down what it has (BUF-3). *bytes becomes at least as much as that, so that what was
 * asked for before and not used is there again when *bytes are taken. */
void ll_core_put_down(struct ll_core *, struct ll_credit *, size_t *bytes);
/* Appends a record of no transaction, which is owed; takes its own credit. */
int ll_core_append(struct ll_core *, struct ll_record *, struct lladd_error *);
/* The same out of what was set aside, if there is so much. */
int ll_core_append_aside(struct ll_core *, struct ll_record *, struct lladd_error *);
/* The oldest log that recovery from the checkpoint in force, a transaction, class or pin needs. */
lladd_lsn ll_core_needed(struct ll_core *);

/* ---- op_catalog.c ------------------------------------------------------------------------- */

struct lladd_registry; /* registry.h */
int ll_op_catalog_init(struct ll_core *, const struct lladd_registry *, struct lladd_error *);
void ll_op_catalog_free(struct ll_core *);
struct ll_name *ll_op_catalog_find(struct ll_core *, unsigned kind, const char *name,
                                  uint32_t version); /* version 0: any */
struct ll_name *ll_op_catalog_by_desc(struct ll_core *, unsigned kind, const void *desc);
struct ll_name *ll_op_catalog_by_number(struct ll_core *, uint32_t number); /* NULL: unknown */
/* Gives the name a number, logged; nothing to do if it has one. Not under a page latch. */
int ll_op_catalog_number_slow(struct ll_core *, struct ll_name *, struct lladd_error *);
static inline int ll_op_catalog_number(struct ll_core *core, struct ll_name *n,
                                      struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&n->number) != 0)
               ? 0
               : ll_op_catalog_number_slow(core, n, err);
}
/* A tag gets an entry (kind LL_NAME_TAG) on first use. */
int ll_op_catalog_tag(struct ll_core *, const char *name, struct ll_name **out,
                     struct lladd_error *);
/* A catalogue record was read: the database has this name. */
int ll_op_catalog_learn(struct ll_core *, struct lladd_span payload, lladd_lsn,
                       struct lladd_error *);
/* How long the payload of a name's catalogue record is. */
size_t ll_op_catalog_payload(const struct ll_name *);
/* The payload of a name's catalogue record; resizes *buf through env. Returns length or error. */
int ll_op_catalog_encode(const struct ll_env *, const struct ll_name *, unsigned char **buf,
                        size_t *cap, size_t *len);
/* Parses a payload; fields are allocated through env and owned by *out. */
int ll_op_catalog_decode(const struct ll_env *, struct lladd_span, struct ll_name *out,
                        struct lladd_error *);
/* Frees what ll_op_catalog_decode has put into *out. */
void ll_op_catalog_drop(const struct ll_env *, struct ll_name *);

/* ---- update.c: the write path ------------------------------------------------------------- */

enum ll_apply_how { LL_APPLY_NORMAL = 0, LL_APPLY_REDO_ONLY = 1 };

/* Fields a checkpoint reads while their owner goes on: relaxed stores, ordered by the publication
 * of the record they belong to. */
static inline void ll_txn_set_lsn(lladd_lsn *field, lladd_lsn lsn)
{
    lladd_atomic_store64_relaxed(&field->v, lsn.v);
}
static inline void ll_txn_set_undo_used(struct lladd_txn *txn, uint64_t bytes)
{
    lladd_atomic_store64_relaxed(&txn->undo_used, bytes);
}

/* Of a CLR_END: u64 bytes that are set aside for the transaction's undo after it. Earlier versions
 * wrote four bytes, the length of the undo bytes that are no longer needed. */
#define LL_CLR_END_BYTES 8u
#define LL_CLR_END_BYTES_BEFORE 4u

/* What every transaction that wrote something needs besides: its END record. */
uint64_t ll_undo_need_base(void);
/* Is less set aside for the next checkpoint than it may need? */
bool ll_core_lacks_aside(const struct ll_core *);
/* Credit, undo reserve, scratch memory and catalogue number for `count` records of the operation.
 * Everything that can fail for want of a resource fails here, before a page is latched. */
int ll_core_reserve_slow(struct lladd_txn *, struct ll_name *op, unsigned count);
/* The same for several at once: they wait as one. */
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
/* Most redo and undo bytes of a record of the operation, with pages of this size. */
size_t ll_op_record_max(const struct lladd_op *, uint32_t page_size);
/* Log space that one record and an image of its page can take. */
size_t ll_op_credit(const struct lladd_op *, uint32_t page_size);
/* The needs of an operation that was just registered with this handle. */
void ll_core_needs(const struct ll_core *, struct ll_name *);
/* Credit while rolling back: `bytes` out of what was set aside, `with_image` if it can be had. */
int ll_core_credit_rolling(struct lladd_txn *, size_t bytes, size_t with_image);
/* The same for a record without an operation: log bytes, and undo need. */
int ll_core_reserve_plain(struct lladd_txn *, size_t bytes, uint64_t undo);
/* A record was logged whose rollback needs so much: out of what was set aside. */
void ll_core_use_undo(struct lladd_txn *, uint64_t need);
/* Gives back what was set aside far beyond need. */
void ll_core_trim_undo(struct lladd_txn *);
/* Memory for a draft and, behind it, a page image. */
int ll_core_want_scratch(struct lladd_txn *, size_t record_max);
/* Memory for the undo bytes of a record while it is taken back. */
int ll_core_want_copy(struct lladd_txn *, size_t undo_len);
/* Room for some more top actions and savepoints than are open now. */
int ll_core_want_nesting(struct lladd_txn *);
/* Sets aside the memory for taking back a transaction that recovery has found in doubt: what any
 * record of an operation that the log knows may need (REC-3). */
int ll_core_want_rollback(struct lladd_txn *);
/* The whole path: space, latch, check, log, redo, stamp. The operation has a redo. */
int ll_core_update(struct lladd_txn *, struct ll_name *op, lladd_pageno, struct lladd_span args,
                   enum ll_apply_how);
/* The same on a frame held exclusively, with space that was taken before. */
int ll_core_update_held(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        struct lladd_span args);
/* contract.c, for debug builds: is the operation what it promises to be on this page? */
int ll_contract_check(struct lladd_txn *, const struct ll_name *, const struct lladd_page *,
                      const struct lladd_draft *);
/* Compensation: applies validated undo bytes to the frame under a CLR. Credit must be there; an
 * image is written only if the credit allows. */
void ll_core_apply_undo(struct lladd_txn *, struct ll_name *op, struct ll_frame *,
                        const struct ll_record *undone);
/* The record's page will get these redo or undo bytes soon: lets the processor fetch its frame, its
 * header and, where the operation says so (offset_first), the place itself. */
void ll_core_expect(struct ll_core *, const struct ll_record *, struct lladd_span bytes);
/* Appends a record of the transaction (credit must be there); its undo begins there, or at
 * *undo_next if that is not NULL. What the record's own undo needs is accounted for before: a
 * checkpoint that finds the record must find that too. */
void ll_txn_append(struct lladd_txn *, struct ll_record *, const lladd_lsn *undo_next);
/* Most log bytes that taking back a record can need: its compensation. */
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
/* A step on this record was taken. */
static inline void ll_observe(enum lladd_dst_what what, const struct lladd_txn *txn,
                              const struct ll_name *op, const struct ll_record *rec)
{
    LLADD_OBSERVE(.what = what, .op = op ? op->name : NULL, .op_version = op ? op->version : 0,
                  .lsn = rec->lsn, .txn = txn->id, .page = rec->page, .depth = rec->depth);
}
/* Somebody is about to be told that this record is durable. */
static inline void ll_observe_durable(const struct ll_core *core, lladd_lsn lsn)
{
    LLADD_OBSERVE(.what = LLADD_DST_ACKNOWLEDGE, .lsn = lsn, .durable = ll_log_durable(core->log));
}
/* ---- undo.c ------------------------------------------------------------------------------ */

/* Takes back records until undo_next <= stop. Resource and I/O failures poison (REC-3). */
int ll_rollback(struct lladd_txn *, lladd_lsn stop);
/* The next record to be taken back, read and decoded; skips what needs nothing. LLADD_END at stop.
 */
int ll_rollback_peek(struct lladd_txn *, lladd_lsn stop, struct ll_record *, struct lladd_error *);
/* Takes back that record. */
int ll_rollback_step(struct lladd_txn *, const struct ll_record *);
/* Is it one that is taken back? If it is not, undo goes on at its undo_next, or at prev. */
bool ll_rollback_needs(const struct ll_record *);
bool ll_rollback_passes_over(const struct ll_record *);

/* ---- txn_table.c ----------------------------------------------------------------------------- */

int ll_txns_init(struct ll_core *);
/* Makes the cursor for rollbacks without memory, if it is not there. */
int ll_txns_spare(struct ll_core *, struct lladd_error *);
void ll_txns_free(struct ll_core *);
int ll_txn_new(struct ll_core *, struct lladd_txn **out, struct lladd_error *);
/* Not in use any more; gives back credit and undo reserve, or keeps a little for the next one. */
void ll_txn_release(struct lladd_txn *);
/* One reference to a guarded transaction less; the last one gives the handle back. */
void ll_txn_unref(struct lladd_txn *);
/* Log space is short: gives back what was kept. False if that was nothing. */
bool ll_txns_release_credit(struct ll_core *);
/* The table, for who holds its mutex, or is alone: the first transaction, the next one. */
struct lladd_txn *ll_txns_first(const struct ll_txn_table *);
struct lladd_txn *ll_txns_next(const struct lladd_txn *);
/* What others see of a transaction that goes on meanwhile: all of one life. */
struct ll_txn_values {
    uint64_t id, last, undo_next, undo_used;
    uint32_t state, system;
};
void ll_txn_values(const struct lladd_txn *, struct ll_txn_values *);
/* How many were begun, and how many of these have not ended. */
/* However many are open: nothing is gone through. */
void ll_txns_count(struct ll_core *, uint64_t *begun, uint64_t *active, uint64_t *in_doubt);
/* Once its life has begun, its state changes here: those in doubt are counted. */
void ll_txn_set_state(struct lladd_txn *, uint32_t state);
/* A transaction that rolls back has a log cursor of its own until it has ended. 0: it has one. */
int ll_txn_want_cursor(struct lladd_txn *);
/* What transactions have counted for an operation and not added to its statistics yet. */
void ll_txns_counted(struct ll_core *, const struct ll_name *, uint64_t *n, uint64_t *bytes);
/* Smallest id of a transaction that may still be undone; UINT64_MAX if there is none. */
/* The transaction that has most log space set aside for its rollback; how many have some. */
lladd_lsn ll_txns_most_undo(struct ll_core *, uint64_t *n);
lladd_lsn ll_txns_oldest(struct ll_core *, struct lladd_pinner *);
/* Nothing below it is logged but unapplied. */
lladd_lsn ll_txns_applied(struct ll_core *);
/* Rolls back completely, writes END, runs aborted callbacks, releases. Poison or 0. */
int ll_txn_abort(struct lladd_txn *);
/* Appends the commit record in commit order (credit must be there; `outcome` is empty or says that
 * it is heuristic), runs `logged`, and queues what
 * has to happen when it is durable. The transaction's participants and undo reserve belong to the
 * queue from then on. May fail for lack of memory, before anything is appended. */
int ll_txn_log_commit(struct lladd_txn *, struct lladd_span outcome, lladd_lsn *out);
/* Ends a transaction that wrote nothing: gives the newest commit that it may have seen, and queues
 * what has to happen when that is durable; *tells: there is some. May fail for lack of memory,
 * before anything has changed. */
int ll_txn_end_unlogged(struct lladd_txn *, lladd_lsn *out, bool *tells);
/* Undo reserves and `durable` callbacks of commits that are durable by now. This and
 * ll_txns_ended alone decide where callbacks run: never in a thread that may have mutexes that a
 * callback may want. So the caller has none of the core's; and where the thread asks a class at a
 * checkpoint, no callback runs, for it has the checkpoint's mutex, and maybe those of the writer
 * that met the log's limit. What is left comes with the next drain. */
void ll_txns_drain(struct ll_core *);
/* The same after a commit; but a structure may end a system transaction under mutexes of its own:
 * then only what ll_txns_release_undo does. */
void ll_txns_ended(struct ll_core *, bool system);
/* The undo reserves alone: for an update at the log's limit, in a thread that may have an
 * extension's mutexes. */
void ll_txns_release_undo(struct ll_core *);
/* For who commits without waiting for durability: if much waits for it, lets go of what is durable
 * by now, and asks for the rest. False: there is so much that the caller should see to it. */
bool ll_txns_relieve(struct ll_core *, bool system);

/* ---- checkpoint.c, restart.c, repair.c --------------------------------------------------- */

/* Log space for a checkpoint; what the catalogue, the transactions, pins and heuristic outcomes
 * take comes on top. The space of two is set aside: of one that frees no log, as a close takes it,
 * and of one that does, the way out of a full log. */
#define LL_CHECKPOINT_RESERVE 8192u
/* What that is with one transaction, and so many bytes of names in the catalogue. */
uint64_t ll_core_aside_least(uint64_t names);
/* Sets that aside, as far as it is not: no transaction begins to write without it. `owed`: the
 * log's limit does not refuse it. */
int ll_core_set_aside(struct ll_core *, bool owed, struct lladd_error *);
/* The same for a handle that has set nothing aside yet, after an earlier one had: what is free in
 * the current segment counts, too, as in a recovery. If that is not enough, the space of one
 * checkpoint is set aside if there is so much, and LLADD_NO_SPACE returned. */
int ll_core_set_aside_again(struct ll_core *, struct lladd_error *);
/* Credit out of what was set aside, or, if that is not enough, as for what is owed. */
int ll_core_credit_aside(struct ll_core *, struct ll_credit *, size_t bytes, struct lladd_error *);
/* flush_all: write back everything first (close, explicit checkpoints); else what is older than the
 * previous checkpoint. */
int ll_checkpoint(struct ll_core *, bool flush_all, struct lladd_error *);
/* Nothing was logged since the last checkpoint that is not durable, nor is a page dirty: another
 * would say the same. */
bool ll_core_settled(struct ll_core *);
/* What keeps the log: the smallest needed LSN. */
int ll_core_pinner(struct ll_core *, struct lladd_pinner *, struct lladd_error *);
/* Payloads of checkpoint data, shared by writer, analysis and tools. */
/* A checkpoint data record is a row of parts: u8 part, u32 length, payload. */
enum ll_checkpoint_part {
    LL_CKPT_TXN = 1,   /* u64 id, last, undo_next, undo_used, prepare lsn, u32 flags (1 system) */
    LL_CKPT_NAME = 2,  /* catalogue payload */
    LL_CKPT_REDO_BARRIER = 3, /* u64 first, n, lsn */
    LL_CKPT_PIN = 4,   /* u64 lsn, name */
    LL_CKPT_PAGES = 5, /* u64 pages the file has at least */
    LL_CKPT_HEURISTIC = 6 /* as in a heuristic record */
};
/* Recovery, all of it: the log is open and not started, the buffer manager open and not started.
 * When it returns 0 the log is started, losers are gone, prepared transactions are in doubt. */
int ll_restart(struct ll_core *, struct lladd_error *);

/* ---- restart_instant.c ----------------------------------------------------------------------- */

/* How many pages are still behind the log. */
uint64_t ll_instant_left(const struct ll_core *);
/* Brings up to `most` more pages up to date; *more: and has not met the last one. A page that
 * cannot be is met again in the next round; its error is returned at the end of one. */
int ll_instant_step(struct ll_core *, uint64_t most, bool *more, struct lladd_error *);
/* All that are left: before anything is done that gives up what redo needs. */
int ll_instant_finish(struct ll_core *, struct lladd_error *);
/* The pages begin a new life: what they were is not wanted any more. */
void ll_instant_forget(struct ll_core *, lladd_pageno first, uint64_t n);
/* The pages are about to be read or written past the cache: those that are behind are brought up
 * to date, and written back. */
int ll_instant_settle(struct ll_core *, lladd_pageno first, uint64_t n, struct lladd_error *);
/* Is redo of the page pending? *base: it rewrites the whole page, which need not be read. */
bool ll_instant_is_pending(struct ll_core *, lladd_pageno, bool *base);
/* Applies the pending redo of a page, if there is any. *baseless: on entry, the bytes are zeros; on
 * return, redo has not given the page a base. The page is dirty from *since, unless that is 0. */
int ll_instant_redo_page(struct ll_core *, lladd_pageno, unsigned char *bytes, bool *baseless,
                         lladd_lsn *since, struct lladd_error *);
/* Redo of the page is not pending any more. */
void ll_instant_redone(struct ll_core *, lladd_pageno);
void ll_instant_free(struct ll_core *);

/* ---- deferred_undo.c ------------------------------------------------------------------------- */

/* Room for n losers to be undone behind open, or NULL if nobody could protect what they have
 * changed, or for lack of memory: then all are undone before. */
struct ll_deferred *ll_deferred_new(struct ll_core *, size_t n);
/* Is everything that is left of it at depth 0 protected now? If not, it must be undone before open
 * returns, whatever it has got. */
bool ll_deferred_protect(struct ll_deferred *, struct lladd_txn *);
/* That loser has nothing left but what is at depth 0, and stays. */
void ll_deferred_leave(struct ll_deferred *, struct lladd_txn *);
/* There are no more to be asked for. */
void ll_deferred_asked(struct ll_core *);
uint64_t ll_deferred_left(const struct ll_core *);
/* All of them are about to be taken back, by the caller alone: redoes the pages before if that is
 * faster. */
void ll_deferred_expect(struct ll_core *);
/* Takes back what is left of about so much log; *more: and there is more. */
int ll_deferred_step(struct ll_core *, uint64_t bytes, bool *more, struct lladd_error *);
void ll_deferred_free(struct ll_core *);

/* Pages written in bulk: a record older than the page's fence is not for this life of it. */
int ll_redo_barrier_add(struct ll_core *, uint64_t first, uint64_t n, lladd_lsn,
                        struct lladd_error *);
/* The two halves of it, for who holds `misc`: what can fail, and what cannot. */
int ll_redo_barrier_room(struct ll_core *, uint64_t first, uint64_t n, struct lladd_error *);
void ll_redo_barrier_put(struct ll_core *, uint64_t first, uint64_t n, lladd_lsn);
lladd_lsn ll_redo_barrier_of(const struct ll_core *, uint64_t page); /* during redo: no mutex */
lladd_lsn ll_redo_barrier_of_locked(struct ll_core *, uint64_t page);
lladd_lsn ll_pin_get(struct ll_core *, const char *name); /* 0: there is none */
int ll_pin_put(struct ll_core *, const char *name, lladd_lsn, struct lladd_error *); /* 0: remove */
/* Does any pin keep the log from this LSN on, or from below it? */
bool ll_pin_keeps(struct ll_core *, lladd_lsn);
/* ---- heuristic.c ------------------------------------------------------------------------- */

bool ll_gid_same(const struct lladd_gid *, const struct lladd_gid *);
/* Puts one into the list, in the place of one with the same id. */
int ll_heuristic_put(struct ll_core *, const struct ll_heuristic *, struct lladd_error *);
bool ll_heuristic_remove(struct ll_core *, const struct lladd_gid *); /* was it there? */
bool ll_heuristic_find(struct ll_core *, const struct lladd_gid *, struct ll_heuristic *out);
/* Recovery has met a payload: of a commit or heuristic record, or of a checkpoint. */
int ll_heuristic_see(struct ll_core *, struct lladd_span payload, lladd_lsn, struct lladd_error *);
void ll_heuristic_describe(const struct ll_heuristic *, struct lladd_heuristic_info *);

/* Applies one record to a page in redo or repair: 0 applied, LLADD_EXISTS there already,
 * LLADD_NOT_FOUND the page has no base yet (skipped), or an error. `start`: what was changed before
 * that may be missing; 0: nothing may. */
int ll_redo_record(struct ll_core *, const struct ll_record *, struct lladd_page *, bool baseless,
                   lladd_lsn start, struct lladd_error *);
/* Rebuilds a damaged page from the log. */
int ll_rebuild_page(struct ll_core *, struct ll_fetch *, struct lladd_error *);

/* ---- page_recovery.c --------------------------------------------------------------------- */

/* What the buffer manager asks. */
struct ll_page_recovery ll_page_recovery(struct ll_core *);

#endif
