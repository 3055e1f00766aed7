/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_EXTENTS_H
#define LL_OPERATIONS_EXTENTS_H
/* Runs: the pages 0, 1, 2 ... of a structure, stored in extents; the place of a page is computed.
 * (Not the sorted runs of dTables.)
 *
 * Arrays, hash tables (one page for each bucket) and blobs are built on runs. A run grows by
 * extents that never move; extent k holds
 *
 *     k < 4                  page k                          one page each
 *     4 <= k < 4 + 4 * 13    four of each power of two: 1 1 1 1 | 2 2 2 2 | 4 4 4 4 ... 4096
 *     beyond                 8192 pages each
 *
 * So at most a quarter of a run is unused. The extent of page i follows from the position of i's
 * highest bit and the two bits after it, and its page number takes one load. On disk the extents'
 * first pages are listed in the structure's root page, LL_RUN_DIRECT of them at an offset the
 * structure chooses, and the others in a chain of pages of type "lladd.run". Memory has a copy that
 * only grows: readers need no latch.
 *
 * Growing and shrinking are nested top actions: once closed, they stay even if the transaction
 * rolls back. A new page is not formatted; a structure never reads pages beyond those it uses.
 *
 * The transaction that creates the structure is an exception: its rollback must remove the
 * structure, so growing and shrinking are part of that transaction and roll back with it. It must
 * call them outside of any nested top action that it will close. (No other transaction may know the
 * structure yet.) The root page has the id of the creating transaction; ids are never reused.
 *
 * A database has one struct ll_extents for each root; a structure with several handles shares it
 * among them. */
#include "operations/operations_private.h"

#define LL_RUN_DIRECT 16u
/* Bytes of a root page that a run takes: u64 n_extents, u64 first page of the chain (0: none), u64
 * id of the transaction that created it, u64 first page of each direct extent. */
#define LL_RUN_BYTES (24u + 8u * LL_RUN_DIRECT)

struct ll_extents_maker; /* extents.c */

/* The copy in memory. */
struct ll_extents {
    struct lladd_db *db;
    lladd_pageno root;
    uint32_t at; /* offset in the root page's body */
    lladd_op_id format, put, link;
    uint64_t maker_id;       /* id of the creating transaction, from the root page */
    uint64_t n_extents;      /* atomic; extents below it can be read */
    uint64_t *level[48];     /* atomic pointers; level l has 64 << l first pages */
    struct lladd_mutex grow; /* held over I/O by a thread that changes the number of extents */
    bool stale;              /* under `grow` and the extension's mutex: read the root page again */
    struct ll_extents_maker *maker; /* the open transaction that created it and has grown it */
    struct ll_extents *next_made;
};

/* Latch ranks; these latches are taken before the allocator's. */
enum {
    LL_OPERATIONS_RANK_ARRAY = LLADD_RANK_EXTENSION + 1,
    LL_OPERATIONS_RANK_RUN = LLADD_RANK_EXTENSION + 2
};

/* Index of the extent that contains page i; *offset: the page's place in it. */
static inline uint64_t ll_extents_extent(uint64_t i, uint64_t *offset)
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

/* Address of extent k's first page number in memory. */
static inline uint64_t *ll_extents_slot(const struct ll_extents *r, uint64_t k)
{
    if (k < 64)
        return (uint64_t *)lladd_atomic_load_ptr(&r->level[0]) + k;
    unsigned level = 63 - (unsigned)__builtin_clzll((k >> 6) + 1);
    uint64_t *at = lladd_atomic_load_ptr(&r->level[level]);
    return at + (k - ((UINT64_C(64) << level) - 64));
}

/* Number of pages in the first n extents. */
uint64_t ll_operations__extents_pages(uint64_t n_extents);

/* Does the run have at least n pages, according to this part of a root page? */
static inline bool ll_extents_says(const unsigned char *area, uint64_t n)
{
    uint64_t extents = lladd_get64(area);
    return extents > UINT32_MAX || ll_operations__extents_pages(extents) >= n;
}

/* Makes the root page's area, which is zeros, an empty run created by the transaction. To be called
 * after the transaction has allocated and formatted the root page. */
int ll_operations__extents_create(struct lladd_txn *, lladd_pageno root, uint32_t at);
/* Reads the list of extents from the root page and the chain. */
int ll_operations__extents_open(struct ll_extents *, struct lladd_db *, lladd_pageno root,
                                uint32_t at, struct lladd_error *);
void ll_operations__extents_close(struct ll_extents *);

/* Has this transaction created the structure? */
static inline bool ll_extents_made_by(const struct ll_extents *r, const struct lladd_txn *txn)
{
    return r->maker_id && r->maker_id == lladd_txn_id(txn).v;
}

/* Page i, which must be below ll_operations__extents_size. No latch, no fix. */
static inline lladd_pageno ll_operations__extents_page(const struct ll_extents *r, uint64_t i)
{
    uint64_t offset, k = ll_extents_extent(i, &offset);
    return lladd_page_of(lladd_atomic_load64(ll_extents_slot(r, k)) + offset);
}
/* Number of usable pages. 0 after a partial rollback of the transaction that created the run, until
 * grow has read the root page again. */
static inline uint64_t ll_operations__extents_size(const struct ll_extents *r)
{
    return ll_operations__extents_pages(lladd_atomic_load64(&r->n_extents));
}
/* Makes the run hold at least n pages; does nothing if another thread has done so. The caller holds
 * no page latch. */
int ll_operations__extents_grow(struct lladd_txn *, struct ll_extents *, uint64_t n);
/* Frees the extents beyond n pages, permanently: they stay freed if the transaction rolls back,
 * unless it has created the run. So no transaction may still need their contents for undo: call it
 * only after the change that emptied them is durable. The caller makes sure that no thread uses
 * these pages. The allocator reuses them after the transaction has ended. */
int ll_operations__extents_shrink(struct lladd_txn *, struct ll_extents *, uint64_t n);
/* Frees all of the run as part of the transaction: a rollback restores it. The caller frees the
 * root page. No other thread may use the run meanwhile. */
int ll_operations__extents_free(struct lladd_txn *, struct ll_extents *);
/* The same in parts: pages [from, to), which stay listed in the run, and the pages of the chain.
 * The caller remembers which parts it has freed. */
int ll_operations__extents_free_pages(struct lladd_txn *, struct ll_extents *, uint64_t from,
                                      uint64_t to);
int ll_operations__extents_free_chain(struct lladd_txn *, struct ll_extents *);
/* Number of pages, also correct after a partial rollback of the creating transaction. */
int ll_operations__extents_count(struct ll_extents *, uint64_t *pages, struct lladd_error *);
/* Begins and ends a step of growing or freeing, to which a structure can add its own updates. It is
 * a nested top action closed with LLADD_NO_OP, or, in the creating transaction, an ordinary part of
 * it. step_end returns rc, or the error of closing the step. If that is not 0, the step has been
 * rolled back. */
struct ll_extents_step {
    bool maker;
    lladd_savepoint_id before;
    struct lladd_action action;
};
int ll_operations__extents_step_begin(struct lladd_txn *, struct ll_extents *,
                                      struct ll_extents_step *);
int ll_operations__extents_step_end(struct lladd_txn *, struct ll_extents_step *, int rc);

/* Calls fn for each extent and each page of the chain until fn returns a value other than 0. The
 * second function: only for pages of the chain. */
int ll_operations__extents_each(struct ll_extents *, int (*fn)(void *ctx, lladd_pageno, uint64_t n),
                                void *ctx, struct lladd_error *);
int ll_operations__extents_each_link(struct ll_extents *,
                                     int (*fn)(void *ctx, lladd_pageno, uint64_t n), void *ctx,
                                     struct lladd_error *);
/* For tools: describes the run's area of a root page. */
void ll_operations__extents_describe(struct lladd_view, uint32_t at, struct lladd_sink *);

#endif
