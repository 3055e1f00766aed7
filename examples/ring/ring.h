/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EXAMPLE_RING_H
#define EXAMPLE_RING_H
/* A bounded queue of items of one size, on a head page and pages of slots. Several transactions may
 * put and take concurrently:
 *
 * - An item has a number. A put uses the next number; a put that is rolled back leaves a gap.
 * - A take takes the item with the lowest number that no other open transaction has put or taken. A
 *   take that is rolled back returns the item to its place, so a later take may get a lower number
 *   than an earlier take.
 * - A transaction may take what it has put.
 * - A slot is used again only when the transaction that emptied it has ended.
 * - A take never waits for another transaction.
 * - Only one put runs at a time; other puts wait until it returns. If the transaction of the put is
 *   serialisable, or the put returns an error, other puts may have to wait until this transaction
 *   ends: it may keep the lock for putting, or the lock of the next number.
 *
 * Until it ends, a transaction holds X on each item that it has put or taken. The lock name
 * consists of the ring's page number, a constant, and the item's number. */
#include <lladd/lladd.h>

#define RING_ITEM_MAX 256u

/* Registers the operations and the lock manager. Call it before lladd_open. */
int ring_register(struct lladd_options *, struct lladd_error *);
/* Creates an empty ring. `size`: bytes of an item, 1 to RING_ITEM_MAX. `slots`: number of slots per
 * page; 0: as many as fit. `pages`: number of pages of slots, at least 1. */
int ring_create(struct lladd_txn *, uint16_t size, uint16_t slots, uint16_t pages,
                lladd_pageno *ring);
/* Copies the item from `item`; *number gets its number. LLADD_NO_SPACE: the ring is full, because
 * no committed transaction has taken the oldest item. */
int ring_put(struct lladd_txn *, lladd_pageno ring, const void *item, uint64_t *number);
/* Copies the item to `item`; *number gets its number. LLADD_NOT_FOUND: the ring has no item that
 * this transaction may take. */
int ring_take(struct lladd_txn *, lladd_pageno ring, void *item, uint64_t *number);
/* The number of items, including changes of open transactions. */
int ring_count(struct lladd_db *, lladd_pageno ring, uint64_t *count, struct lladd_error *);
/* Calls fn for every item, in the order of the numbers, with pages latched: fn must not use the
 * database. */
typedef int ring_fn(void *ctx, uint64_t number, struct lladd_span item);
int ring_each(struct lladd_db *, lladd_pageno ring, ring_fn *, void *ctx, struct lladd_error *);
/* Checks the ring. LLADD_CORRUPT_PAGE if a page is damaged, or the head page's numbers contradict
 * each other or the slots. No transaction may be open. */
int ring_check(struct lladd_db *, lladd_pageno ring, struct lladd_error *);
/* Calls the function for each page of the ring. */
int ring_pages(struct lladd_db *, lladd_pageno ring, int (*fn)(void *, lladd_pageno), void *arg,
               struct lladd_error *);
#endif
