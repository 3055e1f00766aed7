/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DB_PRIVATE_H
#define LLADD_DB_PRIVATE_H
/* The database handle, which contains the core, and the checks at the start of public calls. */
#include "db/db.h"
#include "recovery/core.h"
#include "recovery/registry.h"
#include "util/held.h"

#define LL_DB_MAGIC 0x4244444cu
/* Each page number and each object number is less than LL_PAGE_END: a record's page field has 48
 * bits, and 48 ones mean that the record has no page. */
#define LL_PAGE_END ((1ull << 48) - 1)

struct ll_extension_state {
    const struct lladd_extension *ext;
    void *state;
    bool attached, stopped;
};

struct lladd_db {
    struct ll_core core; /* first, so that ll_db_of can convert a core to its database */
    uint32_t magic;
    bool own_device;
    struct lladd_file *lock;
    uint32_t *alive;     /* the poison's `healthy`, if the kernel clears it in a forked child; NULL:
                      * compare process ids instead */
    uint32_t durability; /* default durability of transactions */
    uint64_t log_limit_bytes;
    struct ll_extension_state *extensions;
    size_t n_extensions;
    bool hears_bulk; /* an extension has `bulk_written` */
    struct lladd_thread checkpointer;
    uint32_t checkpoints_on; /* atomic: the checkpointer thread exists */
    struct lladd_mutex wake_mutex;
    struct lladd_cond wake;
    bool wanted, stopping; /* under wake_mutex */
    uint32_t signalled;    /* atomic: a wake-up was sent, and the checkpointer has not handled it */
    uint32_t pausing;      /* atomic, written under wake_mutex: the checkpointer is in a pause */
    /* For the checkpointer's pauses: the log's tail and the time at the begin of this checkpoint,
     * and how much log and time lay between the end of the last checkpoint and this begin. */
    uint64_t paced_tail, paced_ns, paced_bytes, paced_span;
};

static inline struct lladd_db *ll_db_of(struct ll_core *core)
{
    return (struct lladd_db *)core;
}

/* 0 if the handle is open in this process and is not poisoned. */
int ll_db_enter(const struct lladd_db *, struct lladd_error *);
/* 0 if the transaction may write log records now. */
int ll_txn_enter_slow(struct lladd_txn *);
static inline int ll_txn_enter(struct lladd_txn *txn)
{
    if (LL_LIKELY(txn && txn->magic == LL_TXN_MAGIC &&
                  lladd_atomic_load32(&txn->core->poison->healthy) &&
                  lladd_atomic_load32(&txn->state) == LL_TXN_ACTIVE && !txn->read_only))
        return 0;
    return ll_txn_enter_slow(txn);
}
/* LLADD_USE for db/, which can read the members of the transaction. */
static inline int ll_use_begin(struct lladd_txn *txn, struct lladd_use *use)
{
    return LL_LIKELY(!txn || !lladd_atomic_load64(&txn->user)) ? 0 : lladd_use_begin(txn, use);
}
static inline void ll_use_end(struct lladd_use *use)
{
    if (LL_UNLIKELY(use->txn != NULL))
        lladd_use_end(use);
}
#define LL_USE(transaction) \
    struct lladd_use ll_use_ __attribute__((cleanup(ll_use_end))) = {0}; \
    do { \
        int ll_use_rc_ = ll_use_begin((transaction), &ll_use_); \
        if (LL_UNLIKELY(ll_use_rc_)) \
            return ll_use_rc_; \
    } while (0)
/* May the calling thread read members that the user of the transaction (db/guard.c) changes? */
bool ll_txn_seen(const struct lladd_txn *);
/* Returns LLADD_BAD_STATE for `call`, because the thread holds a page of the database: the call may
 * have to wait for a thread that waits for that page (docs/threads.md). */
int ll_db_refuse_held(struct lladd_error *, const char *call);
static inline int ll_db_no_page(const struct lladd_db *db, struct lladd_error *err,
                                const char *call)
{
    return LL_UNLIKELY(ll_held_pages(db)) ? ll_db_refuse_held(err, call) : 0;
}
/* Returns LLADD_BAD_STATE for `call`: the thread runs a class's callback in a checkpoint. */
int ll_db_refuse_asked(struct lladd_error *, const char *call);
/* ll_db_enter for a call that takes the checkpoint mutex. Also returns LLADD_BAD_STATE if the
 * thread holds a page, or if it runs a class's callback in a checkpoint, because the thread then
 * holds the checkpoint mutex already. */
static inline int ll_db_enter_checkpoint(const struct lladd_db *db, struct lladd_error *err,
                                         const char *call)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_no_page(db, err, call);
    return !rc && ll_core_asks_class(&db->core) ? ll_db_refuse_asked(err, call) : rc;
}
/* ll_txn_enter for a call that may wait for other threads: refuses a thread that holds a page, and
 * gives back the transaction's unused log credit (BUF-3). */
static inline int ll_txn_enter_unlatched(struct lladd_txn *txn, const char *call)
{
    int rc = ll_txn_enter(txn);
    if (LL_LIKELY(!rc))
        rc = ll_db_no_page(ll_db_of(txn->core), &txn->err, call);
    if (LL_LIKELY(!rc))
        ll_log_credit_trim(txn->core->log, &txn->credit);
    return rc;
}
/* Returns 0 if the transaction may be ended now, and then gives back its unused log credit. Does
 * not check the poison. */
int ll_txn_may_end(struct lladd_txn *);
int ll_gid_check(const struct lladd_gid *, struct lladd_error *);
/* Tells participants that changes newer than `since` have been undone. */
void ll_txn_tell_undone(struct lladd_txn *, lladd_lsn since);
int ll_txn_tell_committing(struct lladd_txn *);
/* Tells participants the commit's LSN. Called after the commit is logged, under no mutex of the
 * core. */
void ll_txn_tell_committed(struct lladd_txn *, lladd_lsn commit);

/* checkpointer.c */
int ll_background_start(struct lladd_db *, struct lladd_error *);
void ll_background_stop(struct lladd_db *);
/* Wakes the checkpointer if a checkpoint is due. Cheap. */
void ll_background_poll(struct lladd_db *);
void ll_background_want(struct ll_core *);
/* Called between two writes of the checkpointer's checkpoint. Waits as long as the checkpoint is
 * ahead of its schedule, in log and in time. */
void ll_background_pace(void *core);
/* Ends a pause of the checkpointer. The caller has set the reason first: `pressed`, `stopping`, or
 * `checkpoint_waiters`. */
void ll_background_hurry(struct ll_core *);
/* Called when the log is near its byte limit. Wakes the checkpointer, which takes a checkpoint if
 * the checkpoint will free log. Without threads, the next lladd_maintain does this. */
void ll_background_pressed(void *core);

/* registry.c */
/* Reserves room for `items` items in total. */
int ll_registry_reserve(struct lladd_registry *, size_t items, struct lladd_error *);
/* Adds an item without a check. The caller has reserved room, and counts the payload. */
void ll_registry_put(struct lladd_registry *, uint8_t kind, const void *desc);
/* Finds the descriptor. LLADD_BAD_REGISTRATION: another descriptor has the same name and
 * version. */
int ll_registry_find(const struct lladd_registry *, uint8_t kind, const void *desc, bool *there,
                     struct lladd_error *);

/* extensions.c */
/* Checks that the log buffer and the byte limit are large enough for what each registered operation
 * needs at once. LLADD_BAD_ARGUMENT: the message has the size needed; LLADD_BAD_REGISTRATION: no
 * log buffer is large enough. *ample: the limit is at least twice the need. */
int ll_extensions_fit(const struct lladd_registry *, uint32_t page_size,
                      const struct lladd_options *, bool *ample, struct lladd_error *);
int ll_extensions_attach(struct lladd_db *, const struct lladd_registry *, struct lladd_error *);
int ll_extensions_create(struct lladd_db *, struct lladd_error *);
int ll_extensions_recovered(struct lladd_db *, struct lladd_error *);
/* Calls `bulk_written` of each extension that has it. */
int ll_extensions_bulk_written(struct lladd_txn *, lladd_lsn barrier, lladd_pageno first,
                               uint64_t n, bool typed, const void *bytes);
/* Does the participant belong to an extension with `bulk_written`? */
bool ll_extensions_hear_bulk(const struct lladd_db *, const struct lladd_participant *);
/* Ends the extensions' threads, before anything that they use is closed. Later calls do nothing. */
void ll_extensions_stop(struct lladd_db *);
void ll_extensions_detach(struct lladd_db *);
#endif
