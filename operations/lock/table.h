/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_LOCK_TABLE_H
#define LL_OPERATIONS_LOCK_TABLE_H
/* The lock manager of one database handle, as its files share it. Includes nothing of the library
 * but <lladd/...>.
 *
 * Three kinds of things. A *lock* is a name that somebody holds or waits for. A *hold* ties a lock
 * to a transaction. A *locker* is a transaction as the lock manager knows it: its holds, and what
 * it waits for, which is one thing at a time.
 *
 * Locks are in partitions by the hash of their names, each with a leaf mutex: it protects its
 * locks, who holds them and who waits for them. A locker's own table and list of holds are its
 * thread's affair alone, so asking again for what is held takes no mutex.
 *
 *   LOCK-1  No two transactions hold a name in modes that do not go together.
 *   LOCK-2  Who waits, waits for somebody: a lock's queue is looked through whenever a holder or a
 *           waiter goes or becomes weaker, under the same mutex.
 *   LOCK-3  A hold's ancestors are held by the same transaction, in modes that announce it.
 *   LOCK-4  Who waits is in no cycle of waiters when its detection has run: it runs behind every
 *           beginning of a wait, with all partitions stopped.
 *   LOCK-5  A call that fails leaves the transaction's holds as they were. */
#include "operations/hash/siphash.h"

#include <lladd/bytes.h>
#include <lladd/lock.h>
#include <lladd/sync.h>
#include <string.h>

enum {
    LL_LOCK_MODES = 7,
    LL_LOCK_PARTITIONS = 64,
    LL_LOCK_BUCKETS = 16,     /* a locker's table to begin with */
    LL_LOCK_SMALL_NAME = 32,  /* locks with names up to this are kept for the next ones */
    LL_LOCK_SPARE_LOCKS = 64, /* as many of them in each partition */
    LL_LOCK_SPARE_HOLDS = 64, /* as many holds with each locker that rests */
    LL_LOCK_RANK = LLADD_RANK_LEAF + 100, /* of partition 0; the next ones follow */
    LL_LOCK_RANK_HISTORY = LL_LOCK_RANK + LL_LOCK_PARTITIONS
};

struct ll_locker;
struct ll_hold;

struct ll_lock {
    struct ll_lock *next; /* in its bucket */
    uint64_t hash;
    uint32_t len, room;
    uint32_t mask;                   /* bit m: somebody holds it in mode m */
    uint32_t granted[LL_LOCK_MODES]; /* how many hold it in each mode */
    struct ll_hold *holders;
    /* Who holds it and wants more, and who wants it; each in the order of coming. */
    struct ll_locker *upgrades, **upgrades_end;
    struct ll_locker *waiters, **waiters_end;
    unsigned char name[]; /* name.c */
};

struct ll_hold {
    struct ll_lock *lock;
    struct ll_locker *by;
    struct ll_hold *next, **at;     /* among the lock's holders; under the partition's mutex */
    struct ll_hold *chain;          /* in the locker's table */
    struct ll_hold *older, *newer;  /* in the locker's list, by the time of the first grant */
    struct ll_hold *parent;         /* hold on the name without its last component */
    uint64_t children;              /* holds of the same locker of which this is the parent */
    lladd_savepoint_id since;       /* lladd_txn_now at the first grant */
    lladd_savepoint_id changed;     /* ... and when it became as strong as it is */
    uint64_t call;                  /* the locker's call that changed it last ... */
    uint8_t before;                 /* ... and what mode it had before */
    uint8_t mode;                   /* under the partition's mutex */
    uint32_t replaced;              /* how many entries in `replaced` are about it */
};

/* A hold became stronger; what it was before, for rollback to a savepoint. */
struct ll_lock_replaced {
    struct ll_hold *hold; /* NULL: it has gone */
    lladd_savepoint_id since;
    lladd_savepoint_id changed; /* the hold's, before */
    uint8_t mode;
};

enum ll_locker_state { LL_LOCKER_RESTS = 0, LL_LOCKER_ACTIVE = 1, LL_LOCKER_PREPARED = 2 };

struct ll_locker {
    struct ll_locks *all;
    struct ll_locker *next_all;  /* of its pool; under the pool's mutex, set once */
    struct ll_locker *next_free;
    uint32_t pool;
    uint32_t state;              /* atomic */
    uint64_t number;             /* atomic; in order of age */
    uint64_t txn;                /* atomic: LSN, or 0 */
    bool serialisable;
    uint64_t calls;
    /* What it holds. */
    struct ll_hold *newest, *oldest;
    uint64_t n_holds;
    struct ll_hold **buckets;
    size_t n_buckets;
    struct ll_hold *spare;
    size_t n_spare;
    struct ll_lock_replaced *replaced; /* a stack */
    size_t n_replaced, cap_replaced;
    unsigned char *name; /* the name of the call that runs */
    size_t name_size;
    struct ll_hold *near; /* a hold, NULL when it goes: the parent of the last name */
    /* What it waits for; under the mutex of that lock's partition. */
    uint32_t waits;             /* atomic */
    uint32_t word;              /* atomic: 1 when the verdict is there for good */
    bool decided;               /* there is a verdict */
    int verdict;                /* 0: granted */
    bool upgrading;
    uint8_t want;
    struct ll_hold *hold;       /* that waits to be granted, or to become stronger */
    struct ll_locker *next_waiter, **at_waiter;
    struct ll_locker *next_woken;
    uint64_t waits_since;       /* atomic */
    char *story;                /* of the deadlock it is the victim of; its own to free */
    /* Detection; all partitions stopped. */
    uint64_t seen;
    struct ll_locker *from, *next_seen;
    struct ll_hold *inline_buckets[LL_LOCK_BUCKETS];
};

struct ll_lock_partition {
    struct lladd_mutex mutex;
    struct ll_lock **buckets;
    size_t n_buckets, n_locks;
    struct ll_lock *spare;
    size_t n_spare;
    uint64_t n_holds, acquired, upgraded, waits, wait_ns, busy, timeouts, deadlocks, bytes;
    uint64_t waiting;
    /* Lockers that this partition's transactions take and give back. */
    struct ll_locker *lockers, *rest;
};

/* The end of a wait, remembered. */
struct ll_lock_past {
    struct lladd_lock_event event; /* name and text are below */
    unsigned char *name;
    size_t name_len;
    char *text;
};

struct ll_locks {
    struct lladd_db *db;
    struct ll_siphash_key key;
    uint64_t hash_mask;   /* atomic, as the options are */
    uint64_t timeout_ns;
    uint32_t serialisable;
    uint64_t numbers; /* atomic: the last one given out */
    uint64_t epoch;   /* of detections; all partitions stopped */
    struct lladd_mutex history_mutex;
    struct ll_lock_past *past; /* a ring that grows up to past_max */
    size_t n_past, cap_past, first_past, past_max;
    struct ll_lock_partition parts[LL_LOCK_PARTITIONS];
};

extern const struct lladd_extension ll_operations__lock_extension;
extern const struct lladd_participant ll_operations__lock_participant;

/* ---- modes.c --------------------------------------------------------------------------------- */

/* Bit m of the row: a holder or earlier waiter in mode m keeps the row's mode away. */
extern const uint8_t ll_operations__lock_conflicts[LL_LOCK_MODES];
/* The weakest mode that includes both. */
extern const uint8_t ll_operations__lock_join[LL_LOCK_MODES][LL_LOCK_MODES];
/* What the ancestors must be held in, what a mode includes for all descendants, and the part of a
 * mode that only reads. */
extern const uint8_t ll_operations__lock_intent[LL_LOCK_MODES];
extern const uint8_t ll_operations__lock_implies[LL_LOCK_MODES];
extern const uint8_t ll_operations__lock_reading[LL_LOCK_MODES];
/* What is left of a mode at prepare if nothing that was read need stay as it is. */
extern const uint8_t ll_operations__lock_writing[LL_LOCK_MODES];

static inline bool ll_lock_includes(unsigned mode, unsigned want)
{
    return ll_operations__lock_join[mode][want] == mode;
}

/* ---- name.c ---------------------------------------------------------------------------------- */

/* Length of the encoded name; 0 if it is none, SIZE_MAX if it is too long. */
size_t ll_operations__lock_name_size(struct lladd_lock_name);
/* Appends the component at out; returns its length. */
size_t ll_operations__lock_part_put(unsigned char *out, const struct lladd_lock_part *);
/* Length of the component that begins here; 0 if the bytes are none. */
size_t ll_operations__lock_part_size(const unsigned char *bytes, size_t left);
uint64_t ll_operations__lock_hash(const struct ll_locks *, uint64_t parent,
                                  const unsigned char *part, size_t len);
/* The parts of an encoded name, in memory the caller frees with lladd_free; their bytes are those
 * of the name. NULL: no memory. */
struct lladd_lock_part *ll_operations__lock_parts(struct lladd_db *, const unsigned char *name,
                                                  size_t len, size_t *n);
size_t ll_operations__lock_text(const unsigned char *name, size_t len, char *out, size_t size);

/* ---- locker.c -------------------------------------------------------------------------------- */

int ll_operations__locker_join(struct ll_locks *, struct lladd_txn *, struct ll_locker **out);
void ll_operations__locker_rest(struct ll_locker *);
/* Frees it with all it holds, without a look at the locks. */
void ll_operations__locker_free(struct ll_locker *);
struct ll_hold *ll_operations__hold_find(const struct ll_locker *, uint64_t hash,
                                         const unsigned char *name, size_t len);
struct ll_hold *ll_operations__hold_new(struct ll_locker *);
/* A hold that is granted becomes the newest. */
void ll_operations__hold_add(struct ll_locker *, struct ll_hold *, struct ll_hold *parent,
                             lladd_savepoint_id);
void ll_operations__hold_drop(struct ll_locker *, struct ll_hold *);
void ll_operations__hold_spare(struct ll_locker *, struct ll_hold *);

/* ---- lock.c ---------------------------------------------------------------------------------- */

/* Room for a name of this length in l->name; what is in it stays. */
int ll_operations__locker_name(struct ll_locker *, size_t len);

/* ---- manager.c ------------------------------------------------------------------------------- */

int ll_operations__locks_of(struct lladd_db *, struct ll_locks **out, struct lladd_error *);

/* ---- grant.c --------------------------------------------------------------------------------- */

static inline struct ll_lock_partition *ll_lock_part_of(struct ll_locks *all, uint64_t hash)
{
    return &all->parts[hash >> 58];
}

/* One step of lladd_lock: the name `name` of `len` bytes in mode `want`, hold (nullable) is what
 * the locker has of it. *out is the hold as it is then. */
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
int ll_operations__lock_take(const struct ll_lock_request *, struct ll_hold **hold);
/* Makes a hold weaker, or with LLADD_LOCK_NONE takes it from the lock, and lets in who can be. */
void ll_operations__lock_weaken(struct ll_hold *, unsigned mode);
/* All under the partition's mutex. */
struct ll_locker *ll_operations__lock_let_in(struct ll_locks *, struct ll_lock *,
                                             struct ll_locker *woken);
void ll_operations__lock_leave_queue(struct ll_locker *);
/* Under no mutex. */
void ll_operations__lock_wake(struct ll_locker *woken);
/* Calls fn for those who keep the waiting locker from its lock, until it returns false. */
typedef bool ll_lock_blocker_fn(void *ctx, struct ll_locker *who, unsigned mode);
void ll_operations__lock_each_blocker(const struct ll_locker *, ll_lock_blocker_fn *, void *ctx);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Waits for what `by` is in a queue for. */
int ll_operations__lock_wait(const struct ll_lock_request *, struct ll_lock_partition *);
/* Who is in the way of one that is in a queue, as far as events tell it. */
void ll_operations__lock_who(const struct ll_locker *, struct lladd_lock_event *);
void ll_operations__lock_stop(struct ll_locks *);
void ll_operations__lock_go(struct ll_locks *);

/* ---- history.c ------------------------------------------------------------------------------- */

/* Takes a copy of the event and its text; without memory the event is not remembered. */
void ll_operations__lock_remember(struct ll_locks *, const struct lladd_lock_event *,
                                  const unsigned char *name, size_t len, const char *text);
void ll_operations__lock_forget(struct ll_locks *);

/* ---- end.c ----------------------------------------------------------------------------------- */

void ll_operations__lock_release_all(struct ll_locker *);
void ll_operations__lock_release(struct ll_locker *, struct ll_hold *);

/* ---- blob.c ---------------------------------------------------------------------------------- */

int ll_operations__lock_blob(const struct ll_locker *, struct lladd_sink *);
int ll_operations__lock_unblob(struct ll_locks *, struct lladd_txn *, struct lladd_span);

#endif
