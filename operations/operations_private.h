/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_PRIVATE_H
#define LL_OPERATIONS_PRIVATE_H
/* What the files of operations/ share: the operations of the extension "lladd" with their ids, its
 * state in each open database, and small helpers. */
#include "operations/pages/root_index.h"
#include "operations/shared/grow.h"
#include "operations/shared/index.h"
#include "operations/shared/reservation.h"
#include "operations/shared/try.h"
#include "operations/shared/txn_state.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sync.h>

/* The operations of the extension "lladd", in the order of their ids. LL_OP_X is the id,
 * ll_operations__x the descriptor. */
#define LL_OPERATIONS(X) \
    X(ROOT_FORMAT, root_format) \
    X(ROOT_PUT, root_put) \
    X(ROOT_LINK, root_link) \
    X(MAP_FORMAT, map_format) \
    X(MAP_TAKE, map_take) \
    X(MAP_FREE, map_free) \
    X(BYTES_FORMAT, bytes_format) \
    X(SET, set) \
    X(SET_LONG, set_long) \
    X(SET_RANGE, set_range) \
    X(COUNTER_ADD, counter_add) \
    X(SLOTTED_FORMAT, slotted_format) \
    X(SLOTTED_ALLOC, slotted_alloc) \
    X(SLOTTED_FREE, slotted_free) \
    X(SLOTTED_SET, slotted_set) \
    X(SLOTTED_PURGE, slotted_purge) \
    X(FIXED_FORMAT, fixed_format) \
    X(FIXED_ALLOC, fixed_alloc) \
    X(FIXED_FREE, fixed_free) \
    X(FIXED_SET, fixed_set) \
    X(HEAP_FORMAT, heap_format) \
    X(HEAP_APPEND, heap_append) \
    X(HEAP_LINK, heap_link) \
    X(HEAP_HINT, heap_hint) \
    X(SLOTTED_ADD, slotted_add) \
    X(FIXED_ADD, fixed_add)

#define LL_OPERATIONS_ID(id, name) LL_OP_##id,
enum ll_operations_id { LL_OPERATIONS(LL_OPERATIONS_ID) LL_OPERATIONS_COUNT };
#undef LL_OPERATIONS_ID

#define LL_OPERATIONS_DECLARE(id, name) extern const struct lladd_op ll_operations__##name;
LL_OPERATIONS(LL_OPERATIONS_DECLARE)
#undef LL_OPERATIONS_DECLARE

extern const struct lladd_page_type ll_operations__root_page;
extern const struct lladd_page_type ll_operations__map_page;
extern const struct lladd_page_type ll_operations__bytes_page;
extern const struct lladd_page_type ll_operations__slotted_page;
extern const struct lladd_page_type ll_operations__fixed_page;
extern const struct lladd_page_type ll_operations__heap_page;

extern const struct lladd_participant ll_operations__pages_participant;
extern const struct lladd_participant ll_operations__records_participant;
extern const struct lladd_participant ll_operations__heap_participant;

extern const struct lladd_extension ll_operations__extension;
extern const struct lladd_extension ll_operations__extents_extension;
extern const struct lladd_extension ll_operations__array_extension;

/* ---- the state of an open database ----------------------------------------------------------- */

struct ll_bitmap_group; /* alloc.c */
struct ll_page_owner;

/* Which pages are blank, as far as the log was read (alloc_blank.c). */
struct ll_blank_pages {
    uint64_t *bits; /* one for each page */
    uint64_t n_words;
    lladd_lsn upto; /* the log was read up to here; 0: not at all */
};

struct ll_allocator {
    struct ll_reservations holds; /* reservations of freed pages, until the freeing commit is
                                   * durable */
    struct ll_txn_parts owners;   /* struct ll_page_owner; under `mutex` */
    struct lladd_mutex mutex;     /* a leaf; protects the members between it and `grow` */
    struct ll_bitmap_group *groups;
    uint64_t n_groups, cap_groups;
    uint64_t current;                             /* the group from which single pages are taken */
    struct ll_page_owner *pending, **pending_end; /* committed transactions; their freed pages are
                                                   * not reusable yet */
    uint64_t n_pending_pages;                     /* pages that the pending transactions have
                                                   * freed */
    lladd_lsn newest;                             /* the newest commit that was ever added to
                                                   * `pending` */
    uint64_t asked;             /* the LSN up to which the log thread was last asked to sync */
    uint64_t dropping, dropped; /* numbers of transactions: being released now; released so far */
    struct lladd_mutex grow;    /* held over I/O while a thread grows the file or formats a map */
    struct ll_blank_pages blank;
};

struct lladd_heap; /* heap/heap.h */

struct ll_heaps {
    struct lladd_mutex mutex; /* a leaf; protects the table and every heap's pool */
    struct ll_index table;
    struct ll_txn_parts created; /* the heaps that uncommitted transactions have created */
};

struct ll_operations {
    struct lladd_db *db;
    uint32_t recovering; /* atomic; enum ll_operations_undo. Freed space is reused only when it is
                          * LL_UNDO_OVER */
    struct ll_allocator alloc;
    struct ll_reservations
        records; /* slots and record space freed by transactions that may still roll back */
    struct ll_txn_parts record_owners; /* under the mutex of `records` */
    struct lladd_mutex roots; /* held by the thread that adds a root's name */
    struct ll_root_index root_index;
    struct ll_root_room {
        lladd_pageno at;       /* a page of the chain; the pages before it were full */
        uint64_t pages, grown; /* the chain's length at the last search from page 0; pages added
                                * since */
    } root_room;               /* under `roots` */
    struct ll_heaps heaps;
};

/* Must losers still be rolled back? LL_UNDO_OVER: no. LL_UNDO_TO_COME: recovery is running.
 * LL_UNDO_DEFERRED: the database is open, and lladd_losers_left says whether losers are left. */
enum ll_operations_undo { LL_UNDO_OVER = 0, LL_UNDO_TO_COME = 1, LL_UNDO_DEFERRED = 2 };

/* May a loser still need freed space for its rollback? */
bool ll_operations__undo_goes_on(struct ll_operations *);
static inline bool ll_operations__recovering(struct ll_operations *ops)
{
    return __builtin_expect(lladd_atomic_load32(&ops->recovering) != LL_UNDO_OVER, 0) &&
           ll_operations__undo_goes_on(ops);
}

static inline struct ll_operations *ll_operations_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_operations__extension);
}

/* Ranks of mutexes of lists, of heaps and of "lladd" itself. A thread acquires them in this order,
 * and before page latches. */
enum {
    LL_OPERATIONS_RANK_LIST = LLADD_RANK_EXTENSION,
    LL_OPERATIONS_RANK_HEAP = LLADD_RANK_EXTENSION + 1,
    LL_OPERATIONS_RANK_ROOTS = LLADD_RANK_EXTENSION + 2,
    LL_OPERATIONS_RANK_GROW = LLADD_RANK_EXTENSION + 3
};

int ll_operations__alloc_init(struct ll_operations *, struct lladd_error *);
void ll_operations__alloc_free(struct ll_operations *);
/* Resets the allocator's hints, because any page may have become free. */
void ll_operations__alloc_forget(struct ll_operations *);
/* Creates the root page and the first allocation bitmap of a new database. */
int ll_operations__alloc_create(struct lladd_txn *);
int ll_operations__is_allocated(struct ll_operations *, lladd_pageno, bool *out,
                                struct lladd_error *);
int ll_operations__records_init(struct ll_operations *);
void ll_operations__records_free(struct ll_operations *);
int ll_operations__heaps_init(struct ll_operations *, struct lladd_error *);
void ll_operations__heaps_free(struct ll_operations *);

/* Reserves a record, or some of its bytes, before the transaction frees it. */
int ll_operations__reserve_record(struct lladd_txn *, lladd_pageno, uint32_t slot);

/* ---- helpers --------------------------------------------------------------------------------- */

/* Stores the page number in *err (nullable). Returns rc. */
static inline int ll_operations__on(struct lladd_error *err, lladd_pageno page, int rc)
{
    if (err)
        err->page = page;
    return rc;
}

/* Calls lladd_update, or lladd_update_page if the caller holds the page's latch. */
static inline int ll_operations__update(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page,
                                        struct lladd_page *held, const void *args, size_t len)
{
    return held ? lladd_update_page(txn, op, held, args, len)
                : lladd_update(txn, op, page, args, len);
}

/* Fixes a page and checks its type. Returns 0, an error of lladd_page_fix, LLADD_WRONG_TYPE, or
 * LLADD_CORRUPT_PAGE if the page is in use and has no type. */
int ll_operations__fix(struct lladd_db *, lladd_pageno, const char *type, enum lladd_latch,
                       struct lladd_page **out, struct lladd_error *);

/* Looks up the ids of an extension's n operations, which are consecutive: the first one is that of
 * `first`. */
int ll_operations__ids(struct lladd_db *, const struct lladd_op *first, lladd_op_id *const ids[],
                       size_t n);

/* Ends a call that consists of several steps, and releases the savepoint from before the steps.
 * Rolls back to the savepoint first if a step has failed, and returns that step's error, or the
 * error of the rollback (API-1). */
int ll_operations__step_end(struct lladd_txn *, lladd_savepoint_id before, int rc);
/* Returns rc, the result of the steps of a nested top action. Undoes the action first if rc is an
 * error. */
int ll_operations__action_all_or_nothing(struct lladd_txn *, struct lladd_action *, int rc);
/* Like ll_operations__action_all_or_nothing if rc is an error. Otherwise ends the action with the
 * logical undo, and returns the result of ending it. */
int ll_operations__action_end(struct lladd_txn *, struct lladd_action *, int rc, lladd_op_id,
                              const void *undo, size_t len);

/* Finds the shortest range with all bytes in which a and b, both of length n, differ. *skip is the
 * range's offset. Returns the range's length. */
size_t ll_operations__differ(const unsigned char *a, const unsigned char *b, size_t n,
                             size_t *skip);

/* The id of the n-th operation of an extension; the ids are consecutive. The first id is looked up
 * at first use and kept in *first (atomic): most databases do not use every structure. LLADD_NO_OP:
 * the extension is not registered. */
static inline lladd_op_id ll_operations__nth_op(struct lladd_db *db, uint32_t *first,
                                                const struct lladd_op *first_op, unsigned n)
{
    lladd_op_id id = lladd_atomic_load32(first);
    if (id == 0) {
        if (lladd_op_lookup(db, first_op->name, first_op->version, &id))
            return LLADD_NO_OP;
        lladd_atomic_store32(first, id);
    }
    return id + n;
}

#endif
