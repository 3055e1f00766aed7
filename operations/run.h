/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_RUN_H
#define LL_OPERATIONS_RUN_H
/* Runs: pages 0, 1, 2 ... of a structure, as many as it wants, found by arithmetic.
 *
 * What arrays, hash tables (one page a bucket) and blobs stand on. A run grows by extents that
 * never move; extent k holds
 *
 *     k < 4                  page k                          one page each
 *     4 <= k < 4 + 4 * 13    four of each power of two: 1 1 1 1 | 2 2 2 2 | 4 4 4 4 ... 4096
 *     beyond                 8192 pages each
 *
 * so at most a quarter of it is not used, page i's extent is known from the position of i's highest
 * bit and the two bits after it, and its number is one load away. The extents' first pages are
 * listed on disk in the structure's root page, LL_RUN_DIRECT of them at an offset of its choice,
 * and behind these in a chain of pages of type "lladd.run". In memory there is a copy that only
 * grows: readers need no latch.
 *
 * Growing and shrinking are nested top actions: closed, they stay when the transaction is rolled
 * back. What is beyond the pages a structure uses is never read: pages are given out unformatted.
 *
 * But in the transaction that has made the structure they are part of the transaction, for what it
 * has made must be gone when it rolls back. So there they must not stand in a top action that will
 * be closed: call them outside of your own. (Nobody else may know the structure as yet.) The root
 * page says who that is, by the transaction's id, which no other will ever have.
 *
 * There is one struct ll_run for a root in a database; who hands out several handles shares it. */
#include "operations/operations_private.h"

#define LL_RUN_DIRECT 16u
/* Bytes of the root page that a run takes: u64 n_extents, u64 first page of the chain (0: none),
 * u64 id of the transaction that made it, u64 first page of each direct extent. */
#define LL_RUN_BYTES (24u + 8u * LL_RUN_DIRECT)

struct ll_run_maker; /* run.c */

/* The copy in memory. */
struct ll_run {
    struct lladd_db *db;
    lladd_pageno root;
    uint32_t at; /* where in the root page's body */
    lladd_op_id format, put, link;
    uint64_t maker_id;       /* as the root page has it */
    uint64_t n_extents;      /* atomic; those below are there to be read */
    uint64_t *level[48];     /* atomic pointers; level l has 64 << l first pages */
    struct lladd_mutex grow; /* held over I/O by who changes the number of extents */
    bool stale; /* under `grow` and the extension's mutex: the root page knows better */
    struct ll_run_maker *maker; /* the open transaction that made it and has grown it */
    struct ll_run *next_made;
};

/* Latches: before those of the allocator. */
enum {
    LL_OPERATIONS_RANK_ARRAY = LLADD_RANK_EXTENSION + 1,
    LL_OPERATIONS_RANK_RUN = LLADD_RANK_EXTENSION + 2
};

/* Index of the extent page i lies in, and *offset in it. */
static inline uint64_t ll_run_extent(uint64_t i, uint64_t *offset)
{
    enum { TOP = 15 }; /* from 2^15 on: extents of 2^13 pages */
    if (i < 4) {
        *offset = 0;
        return i;
    }
    if (i >> TOP) {
        uint64_t beyond = i - (UINT64_C(1) << TOP);
        *offset = beyond & ((1u << (TOP - 2)) - 1);
        return 4 + 4 * (TOP - 2) + (beyond >> (TOP - 2));
    }
    unsigned power = 63 - (unsigned)__builtin_clzll(i);
    *offset = i & ((UINT64_C(1) << (power - 2)) - 1);
    return 4 + 4 * (power - 2) + (i >> (power - 2) & 3);
}

/* Where the copy in memory has extent k. */
static inline uint64_t *ll_run_slot(const struct ll_run *r, uint64_t k)
{
    if (k < 64)
        return (uint64_t *)lladd_atomic_load_ptr(&r->level[0]) + k;
    unsigned level = 63 - (unsigned)__builtin_clzll((k >> 6) + 1);
    uint64_t *at = lladd_atomic_load_ptr(&r->level[level]);
    return at + (k - ((UINT64_C(64) << level) - 64));
}

/* How many pages the first n extents hold together. */
uint64_t ll_operations__run_pages(uint64_t n_extents);

/* Do these bytes of a root page's area say that the run holds at least n pages? */
static inline bool ll_run_says(const unsigned char *area, uint64_t n)
{
    uint64_t extents = lladd_get64(area);
    return extents > UINT32_MAX || ll_operations__run_pages(extents) >= n;
}

/* The root page's area is zeros: it becomes an empty run that the transaction has made. After the
 * root page has been allocated and formatted in it. */
int ll_operations__run_create(struct lladd_txn *, lladd_pageno root, uint32_t at);
/* Reads the list of extents from the root page and the chain. */
int ll_operations__run_open(struct ll_run *, struct lladd_db *, lladd_pageno root, uint32_t at,
                            struct lladd_error *);
void ll_operations__run_close(struct ll_run *);

/* Has this transaction made the structure? */
static inline bool ll_run_made_by(const struct ll_run *r, const struct lladd_txn *txn)
{
    return r->maker_id && r->maker_id == lladd_txn_id(txn).v;
}

/* Page i, which must be below ll_operations__run_size. No latch, no fix. */
static inline lladd_pageno ll_operations__run_page(const struct ll_run *r, uint64_t i)
{
    uint64_t offset, k = ll_run_extent(i, &offset);
    return lladd_page_of(lladd_atomic_load64(ll_run_slot(r, k)) + offset);
}
/* How many pages there are to use. Less than there are (0) if the transaction that made the run has
 * rolled back a part of itself: grow looks again. */
static inline uint64_t ll_operations__run_size(const struct ll_run *r)
{
    return ll_operations__run_pages(lladd_atomic_load64(&r->n_extents));
}
/* Makes it hold at least n pages. Not under any page latch. Whoever finds it large enough by the
 * time it is his turn does nothing. */
int ll_operations__run_grow(struct lladd_txn *, struct ll_run *, uint64_t n);
/* Gives back the extents that n pages do not need, for good, also if the transaction rolls back
 * (unless it has made the run): nobody may want what was in them any more, so not before it is
 * durable that they hold nothing. They are free for others when the transaction has ended. Nobody
 * may be using their pages. */
int ll_operations__run_shrink(struct lladd_txn *, struct ll_run *, uint64_t n);
/* Gives everything back, in the transaction and with it: if it rolls back, all is as it was. The
 * root page is the caller's to free; nobody uses the run meanwhile. */
int ll_operations__run_free(struct lladd_txn *, struct ll_run *);
/* One step of growing or giving back, for structures that have more to do of the kind: a top action
 * that is closed with LLADD_NO_OP, or, in the transaction that made the run, a part of that. The
 * end returns rc, or why the step could not be closed; if that is not 0, nothing of it is left. */
struct ll_run_step {
    bool maker;
    lladd_savepoint_id before;
    struct lladd_action action;
};
int ll_operations__run_step_begin(struct lladd_txn *, struct ll_run *, struct ll_run_step *);
int ll_operations__run_step_end(struct lladd_txn *, struct ll_run_step *, int rc);

/* Calls fn for each extent and each page of the chain; not 0 stops. */
int ll_operations__run_each(struct ll_run *, int (*fn)(void *ctx, lladd_pageno, uint64_t n),
                            void *ctx, struct lladd_error *);
/* For tools: the part of a root page. */
void ll_operations__run_describe(struct lladd_view, uint32_t at, struct lladd_sink *);

#endif
