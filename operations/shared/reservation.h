/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_RESERVATION_H
#define LL_OPERATIONS_RESERVATION_H
/* Reservations of what transactions have freed and may need for undo: see reservation.c. */
#include "operations/shared/index.h"

#include <lladd/lladd.h>
#include <lladd/sync.h>

#define LL_RESERVATION_WORDS 4u
#define LL_RESERVATION_CHUNK (64u * LL_RESERVATION_WORDS) /* items that one node covers */

struct ll_reservation_txn;

/* The reservations of one owner for 256 items of one page. */
struct ll_reservation_node {
    struct ll_index_node node; /* key: page << 16 | chunk */
    struct ll_reservation_txn *owner;
    struct ll_reservation_node *next_owned;
    uint64_t bits[LL_RESERVATION_WORDS];
};

/* All reservations of one kind in one database. */
struct ll_reservations {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf: may be taken under page latches */
    struct ll_index table;
    uint64_t n_nodes; /* atomic */
};

/* The reservations of one transaction. */
struct ll_reservation_txn {
    struct ll_reservations *holds;
    struct ll_reservation_node *nodes;
};

int ll_operations__reservations_init(struct ll_reservations *, struct lladd_db *, const char *name);
/* All reservations must have been released. */
void ll_operations__reservations_free(struct ll_reservations *);

/* Releases all reservations of the owner. */
void ll_operations__reserve_release(struct ll_reservation_txn *);

/* Reserves n items of the page, from `first` on. The caller calls it before it latches the page to
 * free the items. LLADD_NO_MEMORY: some of the reservations may have been added, which does no
 * harm. */
int ll_operations__reserve(struct ll_reservation_txn *, lladd_pageno, uint32_t first, uint32_t n);
bool ll_operations__reservations_own(struct ll_reservation_txn *, lladd_pageno, uint32_t index);
/* The number of items that the owner reserves. One thread at a time makes calls for one owner. */
uint64_t ll_operations__reserve_count(const struct ll_reservation_txn *);
/* The items of a chunk that owners other than `except` (nullable) reserve. If the caller holds the
 * page's latch and sees an item marked as freed, `out` has this item unless its reservation has
 * been released. */
void ll_operations__held(struct ll_reservations *, lladd_pageno, uint32_t chunk,
                         const struct ll_reservation_txn *except,
                         uint64_t out[LL_RESERVATION_WORDS]);
static inline bool ll_operations__nothing_held(struct ll_reservations *h)
{
    return lladd_atomic_load64(&h->n_nodes) == 0;
}

/* Writes the reservations into the prepare record, and restores them from it. */
int ll_operations__reserve_write(struct ll_reservation_txn *, struct lladd_sink *);
int ll_operations__reserve_restore(struct ll_reservation_txn *, struct lladd_span,
                                   struct lladd_error *);

#endif
