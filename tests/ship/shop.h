/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_SHOP_H
#define TESTS_SHIP_SHOP_H
/*
 * A database in which the parts of each transaction must agree. Worker k works in generations. In
 * one transaction, generation g of worker k
 *
 *   - sets counter k to g in a hash table
 *   - inserts the row (k, g) into a B+tree
 *   - replaces blob k, which is written in bulk, by one that is full of g
 *   - writes a raw extent, full of g, and frees the one before
 *   - builds a run (dTable) with rows that have the value g, and destroys the one before
 *
 * So whatever a restored database has of a worker, it must have all of one generation.
 */
#include <lladd/hash.h>
#include <lladd/lladd.h>

enum { SHOP_WORKERS = 8 };

struct shop {
    struct lladd_options options;
    struct lladd_db *db;
    struct lladd_hash *table;
    struct lladd_btree *tree;
};

/* Opens or creates the shop on the device. Asserts success. `flags`: LLADD_OPT_... */
void shop_open(struct shop *, struct lladd_device *, unsigned flags);
/* As shop_open, with an extension; NULL: none. */
struct lladd_extension;
void shop_open_with(struct shop *, struct lladd_device *, unsigned flags,
                    const struct lladd_extension *);
/* ... with this way of recovery. */
void shop_open_as(struct shop *, struct lladd_device *, unsigned flags,
                  const struct lladd_extension *, enum lladd_recovery);
void shop_close(struct shop *);
void shop_kill(struct shop *);
/* Worker k does its next generation. */
void shop_work(struct shop *, unsigned k);
/* Prepares a transaction that sets counter `number` (100 or more) to 1; it is not ended. */
struct lladd_txn *shop_prepare(struct shop *, unsigned number);
/* Asserts that everything of a worker is of one generation and has the right contents, and that
 * `doubt` transactions are in doubt. gen (nullable) gets the generations. */
void shop_check(struct shop *, unsigned doubt, uint64_t gen[SHOP_WORKERS]);
/* Commits the transaction in doubt that has set counter `number`, and asserts that the counter is
 * 1. */
void shop_resolve(struct shop *, unsigned number);
/* Asserts that `lladd verify` would find no damage on the device. */
void shop_verify(struct lladd_device *);
#endif
