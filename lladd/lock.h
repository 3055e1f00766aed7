/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_LOCK_H
#define LLADD_LOCK_H
/**
 * @file
 * @brief A lock manager: strict two-phase locking on names (LLADD paper, sections 2.5 and 6).
 *
 * The library does not isolate transactions from each other; this optional extension does. A lock
 * is on a *name*, a path of components (a table, then a key in the table); the caller decides what
 * a name stands for. Locking a name takes intention locks on its ancestors (Gray, Lorie, Putzolu
 * 1975). A transaction keeps its locks until its commit record has an LSN, or until the transaction
 * is rolled back.
 *
 * Requests are granted in order: a request never bypasses an earlier waiting request with which it
 * conflicts. But a transaction that holds a lock and requests a stronger mode comes before
 * transactions that do not hold the lock. When a wait would close a cycle of transactions, the lock
 * manager detects the cycle at the beginning of the wait; the youngest transaction of the cycle
 * gets LLADD_DEADLOCK. A prepared transaction keeps its locks across a restart: when lladd_open
 * returns, every transaction in doubt holds its locks again. docs/locks.md has the details.
 *
 * Threads: one thread at a time may make calls on a transaction. Such a call may wait, so the
 * thread must hold no page and no mutex. Any thread may make calls on the database.
 * @ingroup operations
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A lock mode: what the holder may do with the named thing. */
enum lladd_lock_mode {
    LLADD_LOCK_NONE = 0,
    LLADD_LOCK_IS = 1,  /**< intends to read parts */
    LLADD_LOCK_IX = 2,  /**< intends to change parts */
    LLADD_LOCK_S = 3,   /**< reads all of it */
    LLADD_LOCK_SIX = 4, /**< reads all of it and intends to change parts */
    LLADD_LOCK_U = 5,   /**< reads all of it and may request X later; only one transaction at a time
                             has the mode U */
    LLADD_LOCK_X = 6    /**< changes all of it */
};

/** One component of a name: a number, or any bytes. Make a component with lladd_lock_id or
 *  lladd_lock_bytes. */
struct lladd_lock_part {
    const void *bytes; /**< NULL: the component is `id` */
    size_t len;
    uint64_t id;
};
/** Returns a component that is a number. */
static inline struct lladd_lock_part lladd_lock_id(uint64_t id)
{
    struct lladd_lock_part p = {NULL, 0, id};
    return p;
}
/** Returns a component of `len` bytes, 0 or more. `bytes` must live while the call that uses the
 *  component runs. */
static inline struct lladd_lock_part lladd_lock_bytes(const void *bytes, size_t len)
{
    struct lladd_lock_part p = {bytes ? bytes : "", len, 0};
    return p;
}

/** A path of n components, at least one; every proper prefix of a name is its ancestor. A number
 *  and its digits as bytes are different components. In an encoded name a number takes 9 bytes, and
 *  a byte string 5 bytes more than its length; the encoded name has at most LLADD_LOCK_NAME_MAX
 *  bytes. */
struct lladd_lock_name {
    const struct lladd_lock_part *parts;
    size_t n;
};
#define LLADD_LOCK_NAME_MAX (1u << 24)
/** LLADD_LOCK_NAME(lladd_lock_id(7), lladd_lock_bytes("key", 3)), for C. */
#define LLADD_LOCK_NAME(...) \
    ((struct lladd_lock_name){(struct lladd_lock_part[]){__VA_ARGS__}, \
                              sizeof((struct lladd_lock_part[]){__VA_ARGS__}) / \
                                  sizeof(struct lladd_lock_part)})
/** Writes the name as text, as in error messages ({7, "key"}): at most `size` bytes including the
 *  final 0. Returns the length of the full text. */
LLADD_API size_t lladd_lock_name_text(struct lladd_lock_name, char *out, size_t size);
/** Returns "IS", "IX", "S", "SIX", "U", "X"; "-" for none. */
LLADD_API const char *lladd_lock_mode_name(enum lladd_lock_mode);

/* Special values of `timeout_ns`, the nanoseconds that a call may wait. LLADD_LOCK_TRY: the call
 * does not wait. LLADD_LOCK_WAIT: it waits as long as the options allow. LLADD_LOCK_FOREVER: it
 * waits without a limit. */
#define LLADD_LOCK_TRY UINT64_C(0)
#define LLADD_LOCK_WAIT (UINT64_MAX - 1) /**< lladd_lock_options.timeout_ns */
#define LLADD_LOCK_FOREVER UINT64_MAX

/* ---- setting up ---------------------------------------------------------------------------- */

/** Registers the lock manager, before lladd_open. Locks need the registration; without it, a
 *  database in which a transaction with locks is in doubt cannot be opened. */
LLADD_API int lladd_lock_register(struct lladd_options *, struct lladd_error *);

/** Options of a handle's lock manager. Zero means the default, for every member. */
struct lladd_lock_options {
    size_t struct_size;
    uint64_t timeout_ns; /**< how long a call with LLADD_LOCK_WAIT may wait. Default: no limit
                              (deadlocks are detected) */
    uint32_t history;    /**< number of ended waits that lladd_lock_history remembers. Default 64 */
    bool serialisable;   /**< default for transactions: lladd_lock_serialisable */
    uint32_t hash_bits;  /**< bits of the names' hashes; a small number makes names collide, for
                              tests. Default 64. Can be changed only while no lock is held
                              (LLADD_BAD_STATE) */
};
#define LLADD_LOCK_OPTIONS_INIT_SIZE sizeof(struct lladd_lock_options)
#define LLADD_LOCK_OPTIONS_INIT LLADD_SIZED_INIT(lladd_lock_options)
/** Sets the options for this handle; the database does not store them. Without this call the
 *  defaults hold. */
LLADD_API int lladd_lock_configure(struct lladd_db *, const struct lladd_lock_options *,
                                   struct lladd_error *);

/* ---- locking ------------------------------------------------------------------------------- */

/** Locks a name, and its ancestors in mode IS (if the mode is IS or S) or IX (other modes). 0: the
 *  transaction now holds the name in this mode or a stronger mode, or holds an ancestor in a mode
 *  that includes the requested mode. A mode that the transaction held before is joined with the new
 *  mode (S and IX make SIX). A call that returns an error has changed nothing:
 *
 *  - LLADD_BUSY: another transaction holds a conflicting lock or waits for one, and the call must
 *    not wait; the error names the other transaction;
 *  - LLADD_TIMEOUT: the lock could not be granted within the time;
 *  - LLADD_DEADLOCK: the transaction is the youngest of a cycle, which the error describes; roll
 *    the transaction back (at least to a savepoint before a lock of the cycle), and try again;
 *  - LLADD_TAKEN: another thread takes the transaction over (lladd_txn_take);
 *  - LLADD_TOO_LARGE: the encoded name is longer than LLADD_LOCK_NAME_MAX; LLADD_NO_MEMORY;
 *  - LLADD_BAD_STATE: the transaction is prepared, or the lock manager is not registered, or the
 *    thread holds a page of the database (also if the lock is free); the poison's code: the handle
 *    is poisoned.
 *
 *  Read-only transactions may lock. While a transaction is rolled back (in `compensate`), the call
 *  takes no locks and returns 0, because the transaction already holds the locks that its undo
 *  needs. */
LLADD_API int lladd_lock_acquire(struct lladd_txn *, struct lladd_lock_name, enum lladd_lock_mode,
                                 uint64_t timeout_ns);
/** Releases a lock in mode IS, S or U before the transaction ends, for isolation levels below
 *  repeatable read. The intention locks on ancestors stay. LLADD_BAD_STATE in three cases: the lock
 *  has another mode (changed data stays locked); the transaction holds a lock on a name of which
 *  this name is an ancestor; the transaction is serialisable or prepared. LLADD_NOT_FOUND if the
 *  transaction has no lock on the name itself; LLADD_NO_MEMORY. A rollback to a savepoint does not
 *  restore the released lock. In `compensate` the call does nothing and returns 0, as
 *  lladd_lock_acquire does. */
LLADD_API int lladd_lock_release(struct lladd_txn *, struct lladd_lock_name);
/** Returns the mode in which the transaction holds the name, joined with the modes that its locks
 *  on ancestors include. LLADD_LOCK_NONE if there is no such lock, or if the name is invalid. */
LLADD_API enum lladd_lock_mode lladd_lock_held(const struct lladd_txn *, struct lladd_lock_name);
/** With `on`, the transaction becomes serialisable until it ends: lladd_lock_release returns
 *  LLADD_BAD_STATE, prepare keeps S and IS, and a rollback to a savepoint keeps the reading part of
 *  each lock (docs/locks.md). So data that the transaction has read under a lock does not change
 *  before the transaction ends. LLADD_BAD_STATE if the transaction is prepared. */
LLADD_API int lladd_lock_serialisable(struct lladd_txn *, bool on);
/** Returns the number by which errors and statistics identify the transaction. Transactions of a
 *  handle are numbered in the order of their first requests: a younger transaction has a higher
 *  number. 0: the transaction has not requested a lock. */
LLADD_API uint64_t lladd_lock_number(const struct lladd_txn *);

/* ---- holders and waiters ------------------------------------------------------------------ */

/** A transaction that holds a lock on a name or waits for it. Valid while the callback runs. */
struct lladd_lock_info {
    struct lladd_lock_name name;
    uint64_t number;             /**< lladd_lock_number */
    lladd_lsn txn;               /**< lladd_txn_id at the transaction's last call for a lock; also
                                      of a transaction in doubt */
    bool prepared;               /**< the transaction is prepared */
    enum lladd_lock_mode held;   /**< NONE: the transaction only waits for the lock */
    enum lladd_lock_mode wanted; /**< NONE: the transaction does not wait for the lock */
    uint64_t waited_ns;          /**< how long the transaction has been waiting */
};
typedef int lladd_lock_info_fn(void *ctx, const struct lladd_lock_info *);
/** Calls `fn` for every lock that is held or waited for. The locks of one name are reported as they
 *  are at one moment. `fn` may take locks. If `fn` does not return 0, stops and returns that
 *  value. */
LLADD_API int lladd_lock_each(struct lladd_db *, lladd_lock_info_fn *, void *ctx,
                              struct lladd_error *);
/** Calls `fn` for every transaction for which the transaction with this number waits: one that
 *  holds the lock in a conflicting mode, or has requested it earlier in a conflicting mode. Makes
 *  no calls if the transaction does not wait. */
LLADD_API int lladd_lock_blockers(struct lladd_db *, uint64_t number, lladd_lock_info_fn *,
                                  void *ctx, struct lladd_error *);

/** The end of a wait. Valid while the callback runs. */
struct lladd_lock_event {
    uint64_t at_ns; /**< lladd_now_ns at the end of the wait */
    uint64_t waited_ns;
    int outcome; /**< 0: granted; otherwise the result of lladd_lock_acquire */
    struct lladd_lock_name name;
    uint64_t number;
    lladd_lsn txn;
    enum lladd_lock_mode wanted;
    /** The first blocking transaction when the wait began, and the number of blocking
     *  transactions. */
    uint64_t blocker;
    lladd_lsn blocker_txn;
    enum lladd_lock_mode blocker_mode;
    bool blocker_prepared;
    uint32_t blockers;
    const char *text; /**< the error's full text, with all transactions of a cycle; "" if granted */
};
typedef int lladd_lock_event_fn(void *ctx, const struct lladd_lock_event *);
/** Calls `fn` for the last waits that ended, oldest first. If `fn` does not return 0, stops and
 *  returns that value. */
LLADD_API int lladd_lock_history(struct lladd_db *, lladd_lock_event_fn *, void *ctx,
                                 struct lladd_error *);

struct lladd_lock_stats {
    size_t struct_size;
    uint64_t names, holds, waiting; /**< now */
    uint64_t acquired, upgraded;    /**< since open; a request for a mode that the transaction
                                         already holds counts in neither */
    uint64_t waits, wait_ns, busy, timeouts, deadlocks;
    uint64_t memory; /**< bytes of names, holds and tables, including those cached for reuse */
};
/** Fills as much as out->struct_size says. */
LLADD_API int lladd_lock_stats_get(struct lladd_db *, struct lladd_lock_stats *,
                                   struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
