/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LOCK_TABLE_H
#define LL_OPERATIONS_LOCK_TABLE_H
/* The lock manager of one database handle: the declarations that the source files of
 * operations/lock/ share. These files use only the library's public headers, helpers of
 * operations/shared/, and operations/hash/siphash.h.
 *
 * There are three kinds of objects. A *lock* is a name that a transaction holds or waits for. A
 * *hold* is a transaction's request for a lock, granted or waiting. A *locker* is the lock
 * manager's state of a transaction: its holds, and its wait, if any.
 *
 * Locks are partitioned by the hash of their names. Each partition has a leaf mutex that protects
 * its locks, their holders and their queues. Only the transaction's thread uses its locker's table
 * and list of holds, so a request for a lock that the transaction already holds in this mode or a
 * stronger one takes no mutex.
 *
 *   LOCK-1  No two transactions hold a name in incompatible modes.
 *   LOCK-2  A waiter always waits for a holder or another waiter. A thread that removes a holder or
 *           waiter, or weakens a mode, checks the lock's queues in the same critical section.
 *   LOCK-3  For each name that a transaction holds, it also holds all ancestors of the name, at
 *           least in the intention mode of that hold (lock_intent).
 *   LOCK-4  After deadlock detection the waiter is in no cycle. Detection runs at the beginning of
 *           a wait if one of the waiter's blockers is waiting too. The thread holds the mutexes of
 *           all partitions meanwhile.
 *   LOCK-5  A call that fails leaves the transaction's holds as they were. */
#include "operations/hash/siphash.h"
#include "operations/shared/grow.h"
#include "operations/shared/index.h"
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/sync.h>
#include <string.h>

enum {
    LL_LOCK_MODES = 7,
    LL_LOCK_PARTITIONS = 64,
    LL_LOCK_BUCKETS = 16,                 /* initial size of a locker's table */
    LL_LOCK_SMALL_NAME = 32,              /* room for a name in locks that are kept for reuse */
    LL_LOCK_SPARE_LOCKS = 64,             /* locks that a partition keeps for reuse, at most */
    LL_LOCK_SPARE_HOLDS = 64,             /* holds that a locker keeps for reuse, at most */
    LL_LOCK_RANK = LLADD_RANK_LEAF + 100, /* rank of partition 0's mutex; those of the others
                                           * follow */
    LL_LOCK_RANK_HISTORY = LL_LOCK_RANK + LL_LOCK_PARTITIONS
};

struct ll_locker;
struct ll_lock_hold;

struct ll_lock {
    struct ll_index_node node; /* key: the hash of the name */
    uint32_t len, room;
    uint32_t mask;                   /* bit m: some transaction holds the lock in mode m */
    uint32_t granted[LL_LOCK_MODES]; /* number of holders in each mode */
    struct ll_lock_hold *holders;
    /* Queues in the order of arrival (grant.c). `upgrades` has holders that want a stronger mode,
     * `waiters` has transactions that do not hold the lock in any mode. */
    struct ll_locker *upgrades, **upgrades_end;
    struct ll_locker *waiters, **waiters_end;
    unsigned char name[]; /* name.c */
};

struct ll_lock_hold {
    struct ll_lock *lock;
    struct ll_locker *by;
    struct ll_lock_hold *next, **at;    /* among the lock's holders; under the partition's mutex */
    struct ll_lock_hold *chain;         /* the next hold of the chain in the locker's table */
    struct ll_lock_hold *older, *newer; /* in the locker's list, ordered by first grant */
    struct ll_lock_hold *parent;        /* the locker's hold on the parent: the name without its
                                         * last component */
    uint64_t children;                  /* number of holds of the same locker with this hold as
                                           * parent */
    lladd_savepoint_id since;           /* lladd_txn_now.next at the first grant */
    lladd_savepoint_id changed;         /* lladd_txn_now.next at the last upgrade; at the first
                                           * grant if there was none */
    uint64_t call;                      /* number of the locker's last call that granted or
                                           * upgraded the hold */
    uint8_t before;                     /* the hold's mode before that call */
    uint8_t mode;                       /* under the partition's mutex */
    uint32_t replaced;                  /* number of elements of the locker's `replaced` for this
                                         * hold */
};

/* The state of a hold before an upgrade, for rollback to a savepoint. */
struct ll_lock_replaced {
    struct ll_lock_hold *hold; /* NULL: it has been released since */
    lladd_savepoint_id since;   /* lladd_txn_now.next at the upgrade */
    lladd_savepoint_id changed; /* the hold's earlier value */
    uint8_t mode;
};

enum ll_locker_state { LL_LOCKER_RESTS = 0, LL_LOCKER_ACTIVE = 1, LL_LOCKER_PREPARED = 2 };

struct ll_locker {
    struct ll_locks *all;
    struct ll_locker *next_all; /* in the list `lockers` of partition `pool`; set once, under its
                                 * mutex */
    struct ll_locker *next_free;
    uint32_t pool;
    uint32_t state;  /* atomic */
    uint64_t number; /* atomic; a higher number is younger */
    uint64_t txn;    /* atomic: the transaction's LSN, or 0 */
    bool serialisable;
    uint64_t calls;
    /* The locker's holds. */
    struct ll_lock_hold *newest, *oldest;
    uint64_t n_holds;
    struct ll_lock_hold **buckets;
    size_t n_buckets;
    struct ll_lock_hold *spare;
    size_t n_spare;
    struct ll_lock_replaced *replaced; /* a stack */
    size_t n_replaced, cap_replaced;
    unsigned char *name; /* the name passed to the present call */
    size_t name_size;
    struct ll_lock_hold *near; /* the hold on the parent of the last locked name; NULL: none */
    /* The locker's wait; under the mutex of the lock's partition. */
    uint32_t waits; /* atomic */
    uint32_t word;  /* atomic; 1: the verdict is final, and the waking thread uses no other member
                     * any more */
    bool decided;   /* the verdict has been set */
    int verdict;    /* 0: granted */
    bool upgrading;
    uint8_t want;
    struct ll_lock_hold *hold; /* the hold to be granted or upgraded */
    struct ll_locker *next_waiter, **at_waiter;
    struct ll_locker *next_woken;
    uint64_t waits_since; /* atomic */
    char *story;          /* if the locker is a deadlock's victim, describes the cycle; the waiting
                           * thread frees it */
    /* Used by deadlock detection, under the mutexes of all partitions. */
    uint64_t seen;
    struct ll_locker *from, *next_seen;
    struct ll_lock_hold *inline_buckets[LL_LOCK_BUCKETS];
};

struct ll_lock_partition {
    struct lladd_mutex mutex;
    struct ll_index locks;
    struct ll_index_node *spare; /* locks kept for reuse */
    size_t n_spare;
    uint64_t n_holds, acquired, upgraded, waits, wait_ns, busy, timeouts, deadlocks, bytes;
    uint64_t waiting;
    /* A pool of lockers; a transaction's address selects its pool. `lockers` has all lockers of the
     * pool, `rest` those that no transaction uses. */
    struct ll_locker *lockers, *rest;
};

/* A wait that has ended. */
struct ll_lock_past {
    struct lladd_lock_event event; /* the event's name and text are in the following members */
    unsigned char *name;
    size_t name_len;
    char *text;
};

struct ll_locks {
    struct lladd_db *db;
    struct ll_siphash_key key;
    uint64_t hash_mask; /* atomic; so are the next two members */
    uint64_t timeout_ns;
    uint32_t serialisable;
    uint64_t numbers; /* atomic: the last number assigned */
    uint64_t epoch;   /* number of searches; under the mutexes of all partitions */
    struct lladd_mutex history_mutex;
    struct ll_lock_past *past; /* a ring that grows up to past_max */
    size_t n_past, cap_past, first_past, past_max;
    struct ll_lock_partition parts[LL_LOCK_PARTITIONS];
};

extern const struct lladd_extension ll_operations__lock_extension;
extern const struct lladd_participant ll_operations__lock_participant;

/* ---- modes.c --------------------------------------------------------------------------------- */

/* conflicts: bit m of row w is set if a holder or earlier waiter in mode m blocks a request for
 * mode w. */
extern const uint8_t ll_operations__lock_conflicts[LL_LOCK_MODES];
/* join: the weakest mode that includes both modes. */
extern const uint8_t ll_operations__lock_join[LL_LOCK_MODES][LL_LOCK_MODES];
/* Tables with an entry for each mode. intent: the mode in which ancestors must be held. implies:
 * the mode that the holder then has on all descendants. reading: the part of the mode that protects
 * reads. */
extern const uint8_t ll_operations__lock_intent[LL_LOCK_MODES];
extern const uint8_t ll_operations__lock_implies[LL_LOCK_MODES];
extern const uint8_t ll_operations__lock_reading[LL_LOCK_MODES];
/* writing: the mode that remains after prepare, unless the transaction is serialisable. */
extern const uint8_t ll_operations__lock_writing[LL_LOCK_MODES];

static inline bool ll_lock_includes(unsigned mode, unsigned want)
{
    return ll_operations__lock_join[mode][want] == mode;
}

/* ---- name.c ---------------------------------------------------------------------------------- */

/* Returns the length of the encoded name, 0 if the name is invalid, or SIZE_MAX if it is too
 * long. */
size_t ll_operations__lock_name_size(struct lladd_lock_name);
/* Encodes the component at out; returns its length. */
size_t ll_operations__lock_part_put(unsigned char *out, const struct lladd_lock_part *);
/* Length of the component that begins here; 0: the bytes are not a component. */
size_t ll_operations__lock_part_size(const unsigned char *bytes, size_t left);
uint64_t ll_operations__lock_hash(const struct ll_locks *, uint64_t parent,
                                  const unsigned char *part, size_t len);
/* Returns the components of an encoded name; byte strings point into the name. The caller frees the
 * array with lladd_mem_free. NULL: no memory. */
struct lladd_lock_part *ll_operations__lock_parts(struct lladd_db *, const unsigned char *name,
                                                  size_t len, size_t *n);
size_t ll_operations__lock_text(const unsigned char *name, size_t len, char *out, size_t size);

/* ---- locker.c -------------------------------------------------------------------------------- */

int ll_operations__locker_join(struct ll_locks *, struct lladd_txn *, struct ll_locker **out);
void ll_operations__locker_rest(struct ll_locker *);
/* Frees the memory of the locker and its holds. */
void ll_operations__locker_free(struct ll_locker *);
struct ll_lock_hold *ll_operations__lock_hold_find(const struct ll_locker *, uint64_t hash,
                                                   const unsigned char *name, size_t len);
struct ll_lock_hold *ll_operations__lock_hold_new(struct ll_locker *);
/* Makes a granted hold the newest. */
void ll_operations__lock_hold_add(struct ll_locker *, struct ll_lock_hold *,
                                  struct ll_lock_hold *parent, lladd_savepoint_id);
void ll_operations__lock_hold_drop(struct ll_locker *, struct ll_lock_hold *);
void ll_operations__lock_hold_spare(struct ll_locker *, struct ll_lock_hold *);

/* ---- lock.c ---------------------------------------------------------------------------------- */

/* Makes l->name at least this long; keeps its contents. */
int ll_operations__locker_name(struct ll_locker *, size_t len);

/* ---- manager.c ------------------------------------------------------------------------------- */

int ll_operations__locks_of(struct lladd_db *, struct ll_locks **out, struct lladd_error *);

/* ---- grant.c --------------------------------------------------------------------------------- */

static inline struct ll_lock_partition *ll_lock_part_of(struct ll_locks *all, uint64_t hash)
{
    return &all->parts[hash >> 58];
}

struct ll_lock_request {
    struct ll_locker *by;
    const struct lladd_txn *txn;
    struct lladd_error *err;
    uint64_t hash;
    const unsigned char *name;
    size_t len;
    uint64_t deadline; /* UINT64_MAX: none; 0: do not wait */
    unsigned want;
};
/* One step of lladd_lock_acquire: locks one name. On entry *hold is the locker's hold on the name,
 * or NULL; on success it becomes the granted hold. */
int ll_operations__lock_take(const struct ll_lock_request *, struct ll_lock_hold **hold);
/* Weakens a hold (LLADD_LOCK_NONE: releases it), and grants the requests that this allows. */
void ll_operations__lock_weaken(struct ll_lock_hold *, unsigned mode);
/* Grants all requests in the lock's queues that can be granted; returns the list `woken` with their
 * lockers added. lock_let_in and lock_leave_queue run under the partition's mutex. */
struct ll_locker *ll_operations__lock_let_in(struct ll_locks *, struct ll_lock *,
                                             struct ll_locker *woken);
void ll_operations__lock_leave_queue(struct ll_locker *);
/* Wakes the threads of these lockers; called without a mutex. */
void ll_operations__lock_wake(struct ll_locker *woken);
/* Calls fn for each locker that blocks the waiting locker, until fn returns false. The caller holds
 * the partition's mutex. */
typedef bool ll_lock_blocker_fn(void *ctx, struct ll_locker *locker, unsigned mode);
void ll_operations__lock_each_blocker(const struct ll_locker *, ll_lock_blocker_fn *, void *ctx);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Waits until the request that `by` has in a queue is decided; LLADD_BUSY: the request must not
 * wait. The caller has locked the partition's mutex; this function unlocks it. */
int ll_operations__lock_wait(const struct ll_lock_request *, struct ll_lock_partition *);

/* ---- deadlock.c ------------------------------------------------------------------------------ */

/* Looks for cycles that the wait of `start` closes, and ends the wait of one victim in each
 * cycle. */
void ll_operations__lock_look_for_cycles(struct ll_locker *start);
/* Locks and unlocks the mutexes of all partitions. */
void ll_operations__lock_stop(struct ll_locks *);
void ll_operations__lock_go(struct ll_locks *);

/* ---- history.c ------------------------------------------------------------------------------- */

/* Adds a copy of the event and its text. Drops the event if there is no memory. */
void ll_operations__lock_remember(struct ll_locks *, const struct lladd_lock_event *,
                                  const unsigned char *name, size_t len, const char *text);
void ll_operations__lock_forget(struct ll_locks *);

/* ---- end.c ----------------------------------------------------------------------------------- */

void ll_operations__lock_release(struct ll_locker *, struct ll_lock_hold *);

/* ---- blob.c ---------------------------------------------------------------------------------- */

int ll_operations__lock_blob(const struct ll_locker *, struct lladd_sink *);
int ll_operations__lock_unblob(struct ll_locks *, struct lladd_txn *, struct lladd_span);

#endif
