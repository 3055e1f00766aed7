/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_RUN_H
#define LL_OPERATIONS_RUN_H
/* Runs: pages 0, 1, 2 ... of a structure, as many as it wants, found by arithmetic.
 *
 * What arrays, hash tables (one page a bucket) and blobs stand on. A run grows by extents that never
 * move; extent k holds
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
 * back. What is beyond the pages a structure uses is never read: pages are given out unformatted. */
#include "operations/operations_private.h"

#define LL_RUN_DIRECT 64u
/* Bytes of the root page that a run takes: u64 n_extents, u64 first page of the chain, u64 last
 * page of the chain, u64 first page of each direct extent. */
#define LL_RUN_BYTES (24u + 8u * LL_RUN_DIRECT)

/* The copy in memory. */
struct ll_run {
    struct lladd_db *db;
    lladd_pageno root;
    uint32_t at;         /* where in the root page's body */
    uint64_t n_extents;  /* atomic; those below are there to be read */
    uint64_t *level[48]; /* atomic pointers; level l has 64 << l first pages */
    struct lladd_mutex grow;
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

/* How many pages the first n extents hold together. */
uint64_t ll_operations__run_pages(uint64_t n_extents);

/* Reads the list of extents from the root page and the chain. */
int ll_operations__run_open(struct ll_run *, struct lladd_db *, lladd_pageno root, uint32_t at,
                            struct lladd_error *);
void ll_operations__run_close(struct ll_run *);

/* Page i, which must be below ll_operations__run_size. No latch, no fix. */
lladd_pageno ll_operations__run_page(const struct ll_run *, uint64_t i);
static inline uint64_t ll_operations__run_size(const struct ll_run *r)
{
    return ll_operations__run_pages(lladd_atomic_load64((uint64_t *)&r->n_extents));
}
/* Makes it hold at least n pages. Not under any page latch. Whoever finds it large enough by the
 * time it is his turn does nothing. */
int ll_operations__run_grow(struct lladd_txn *, struct ll_run *, uint64_t n);
/* Gives back the extents that n pages do not need; they are free for others when the transaction's
 * commit is durable. Nobody may be using their pages. */
int ll_operations__run_shrink(struct lladd_txn *, struct ll_run *, uint64_t n);
/* Gives everything back, in the transaction, for good: the root page is the caller's to free. */
int ll_operations__run_free(struct lladd_txn *, struct ll_run *);
/* Calls fn for each extent and each page of the chain. */
int ll_operations__run_each(const struct ll_run *, int (*fn)(void *ctx, lladd_pageno, uint64_t n),
                            void *ctx, struct lladd_error *);

#endif
