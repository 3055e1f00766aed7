/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HOLD_H
#define LL_OPERATIONS_HOLD_H
/* Reservations of what transactions have freed and may need for undo: see reservation.c. */
#include <lladd/lladd.h>
#include <lladd/sync.h>

#define LL_HOLD_WORDS 4u
#define LL_HOLD_CHUNK (64u * LL_HOLD_WORDS) /* items that one node covers */

struct ll_hold_owner;

/* 256 items of one page held by one owner. */
struct ll_hold_node {
    uint64_t key; /* page << 16 | chunk */
    struct ll_hold_owner *owner;
    struct ll_hold_node *next_hash, *next_owned;
    uint64_t bits[LL_HOLD_WORDS];
};

/* All holds of one kind in one database. */
struct ll_holds {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf: may be taken under page latches */
    struct ll_hold_node **buckets;
    size_t n_buckets;
    uint64_t n_nodes; /* atomic */
    struct ll_hold_owner *owners;
};

/* The holds of one transaction. May be the first member of a larger struct. */
struct ll_hold_owner {
    struct ll_holds *holds;
    struct ll_hold_owner *next, *before;
    struct ll_hold_node *nodes;
};

int ll_operations__holds_init(struct ll_holds *, struct lladd_db *, const char *name);
/* Does not free the owners that are left: the caller walks `owners` first. */
void ll_operations__holds_free(struct ll_holds *);

void ll_operations__hold_begin(struct ll_holds *, struct ll_hold_owner *);
/* Releases all its holds, and unlinks the owner. */
void ll_operations__hold_end(struct ll_hold_owner *);
/* Releases all its holds; the owner stays. */
void ll_operations__hold_release(struct ll_hold_owner *);

/* Adds a hold on items first ... first + n - 1 of the page. Call it before the update that frees
 * them is logged. LLADD_NO_MEMORY: some of the holds may have been added, which does no harm. */
int ll_operations__hold(struct ll_hold_owner *, lladd_pageno, uint32_t first, uint32_t n);
bool ll_operations__holds_own(struct ll_hold_owner *, lladd_pageno, uint32_t index);
/* The number of items the owner holds. One thread at a time, like all calls for one owner. */
uint64_t ll_operations__hold_count(const struct ll_hold_owner *);
/* The items of a chunk on which there are holds, except those of `except` (may be NULL). Under the
 * page's latch the answer covers every update of the page that the caller can see. */
void ll_operations__held(struct ll_holds *, lladd_pageno, uint32_t chunk,
                         const struct ll_hold_owner *except, uint64_t out[LL_HOLD_WORDS]);
static inline bool ll_operations__nothing_held(struct ll_holds *h)
{
    return lladd_atomic_load64(&h->n_nodes) == 0;
}

/* Writes the holds into the prepare record, and restores them from it. */
int ll_operations__hold_write(struct ll_hold_owner *, struct lladd_sink *);
int ll_operations__hold_restore(struct ll_hold_owner *, struct lladd_span, struct lladd_error *);

#endif
