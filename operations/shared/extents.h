/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_EXTENTS_H
#define LL_OPERATIONS_EXTENTS_H
/* Extent sequences: the numbered pages of a structure, stored in extents, so that the place of a
 * page can be computed. Arrays and hash tables (one page for each bucket) use them. On disk and
 * in messages they are called runs ("lladd.run"); the sorted runs of dTables are something else.
 *
 * A sequence grows by extents, which never move. Extent k has
 *
 *     k < 4                  page k                          one page each
 *     4 <= k < 4 + 4 * 13    four extents of each power of two: 1 1 1 1 2 2 2 2 4 4 4 4, to 4096
 *     beyond                 8192 pages each
 *
 * So from 4 pages on, an extent adds at most a quarter. From 4 to 2^15, the highest bit of i and
 * the two bits after it give the extent of page i. The structure's root page lists the first
 * LL_RUN_DIRECT extents, at an offset that the structure chooses; a chain of pages of type
 * "lladd.run" lists the others. The list in memory is freed only when the sequence is closed, so
 * readers need no latch.
 *
 * Growing and shrinking are nested top actions: once ended, they stay even if the transaction
 * rolls back. New pages are not formatted; a structure reads only the pages that it uses.
 *
 * In the transaction that creates the structure, growing and shrinking are ordinary updates,
 * because its rollback must remove the structure. This transaction must not grow or shrink
 * within a nested top action that it ends with success. No other transaction may use the
 * structure before the creating transaction has ended. The root page stores the id of the
 * creating transaction; ids are never reused.
 *
 * All handles of a structure share one struct ll_extents. */
#include "operations/operations_private.h"

#define LL_RUN_DIRECT 16u
/* Bytes of the area of a root page (extents.c). */
#define LL_RUN_BYTES (24u + 8u * LL_RUN_DIRECT)

struct ll_extents_maker; /* extents.c */

/* An extent sequence in memory. */
struct ll_extents {
    struct lladd_db *db;
    lladd_pageno root;
    uint32_t at; /* offset in the root page's body */
    lladd_op_id format, put, link;
    uint64_t maker_id;       /* id of the creating transaction, from the root page */
    uint64_t n_extents;      /* atomic; readers may use the extents below it */
    uint64_t *level[48];     /* atomic pointers; level l has 64 << l first pages */
    struct lladd_mutex grow; /* held, also during I/O, by a thread that changes the number of
                              * extents */
    bool stale;              /* the root page must be read again; under the extension's mutex */
    struct ll_extents_maker *maker; /* the open transaction that has created the sequence and
                                     * changed its size; NULL: none */
    struct ll_extents *next_made;
};

/* Ranks of mutexes, which a thread takes before the allocator's. */
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

/* Does this area of a root page say that the sequence has at least n pages? */
static inline bool ll_extents_says(const unsigned char *area, uint64_t n)
{
    uint64_t extents = lladd_get64(area);
    return extents > UINT32_MAX || ll_operations__extents_pages(extents) >= n;
}

/* Makes the root page's area, which is zeros, an empty sequence. The transaction has allocated and
 * formatted the root page. */
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

/* Page i, which must be below ll_operations__extents_size. Takes no latch and fixes no page. */
static inline lladd_pageno ll_operations__extents_page(const struct ll_extents *r, uint64_t i)
{
    uint64_t offset, k = ll_extents_extent(i, &offset);
    return lladd_page_of(lladd_atomic_load64(ll_extents_slot(r, k)) + offset);
}
/* Number of pages. After the creating transaction has rolled back to a savepoint, the result is 0
 * until a call (grow, shrink, count, each) has read the root page again. */
static inline uint64_t ll_operations__extents_size(const struct ll_extents *r)
{
    return ll_operations__extents_pages(lladd_atomic_load64(&r->n_extents));
}
/* Makes the sequence have at least n pages. The caller holds no page latch. */
int ll_operations__extents_grow(struct lladd_txn *, struct ll_extents *, uint64_t n);
/* Frees the extents that n pages do not need. The extents stay freed if the transaction rolls back,
 * unless this transaction has created the sequence. The caller makes sure that no thread uses the
 * pages, and that no undo needs them: the change that emptied them must be durable. */
int ll_operations__extents_shrink(struct lladd_txn *, struct ll_extents *, uint64_t n);
/* Frees the whole sequence as part of the transaction: a rollback restores it. The caller frees the
 * root page, and keeps other threads from using the sequence. */
int ll_operations__extents_free(struct lladd_txn *, struct ll_extents *);
/* free_pages and free_chain together free the whole sequence, in parts. free_pages frees pages
 * [from, to), which stay listed; free_chain frees the pages of the chain. The caller records
 * what it has freed. */
int ll_operations__extents_free_pages(struct lladd_txn *, struct ll_extents *, uint64_t from,
                                      uint64_t to);
int ll_operations__extents_free_chain(struct lladd_txn *, struct ll_extents *);
/* Number of pages, correct after any rollback too. */
int ll_operations__extents_count(struct ll_extents *, uint64_t *pages, struct lladd_error *);
/* step_begin and step_end enclose the updates of one step of growing or freeing. The step is a
 * nested top action without logical undo; in the creating transaction it is an ordinary part of the
 * transaction. `rc` is the result of the updates. If step_end does not return 0, the step has been
 * rolled back, or the handle is poisoned. */
struct ll_extents_step {
    bool maker;
    lladd_savepoint_id before;
    struct lladd_action action;
};
int ll_operations__extents_step_begin(struct lladd_txn *, struct ll_extents *,
                                      struct ll_extents_step *);
int ll_operations__extents_step_end(struct lladd_txn *, struct ll_extents_step *, int rc);

/* extents_each calls fn for each extent and each page of the chain. each_page calls fn for each
 * single page of the extents and of the chain, each_link for each page of the chain only. All three
 * end when fn does not return 0. */
int ll_operations__extents_each(struct ll_extents *, int (*fn)(void *ctx, lladd_pageno, uint64_t n),
                                void *ctx, struct lladd_error *);
int ll_operations__extents_each_page(struct ll_extents *, int (*fn)(void *ctx, lladd_pageno),
                                     void *ctx, struct lladd_error *);
int ll_operations__extents_each_link(struct ll_extents *,
                                     int (*fn)(void *ctx, lladd_pageno, uint64_t n), void *ctx,
                                     struct lladd_error *);
/* Describes the sequence's area of a root page, for tools. */
void ll_operations__extents_describe(struct lladd_view, uint32_t at, struct lladd_sink *);

#endif
