/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef EXAMPLE_ORDERED_H
#define EXAMPLE_ORDERED_H
/* A small ordered structure: an index page and sorted leaves, with 64-bit keys and values. Several
 * transactions may change it concurrently. docs/logical-undo.md walks through it. */
#include <lladd/lladd.h>
#include <lladd/op.h>

/* Registers the operations and the lock manager. Call it before lladd_open. */
int ordered_register(struct lladd_options *, struct lladd_error *);
/* The extension without the lock manager; the lladd command registers the lock manager itself. */
extern const struct lladd_extension ordered_extension;
/* Creates an empty structure. `room`: most entries of a page, at least 2; 0: as many as fit. */
int ordered_create(struct lladd_txn *, uint16_t room, lladd_pageno *root);
/* Put and remove a key. Both lock the key until the transaction ends. LLADD_NO_SPACE: the index
 * page is full. LLADD_NOT_FOUND: the key to be removed does not exist. */
int ordered_put(struct lladd_txn *, lladd_pageno root, uint64_t key, uint64_t value);
int ordered_remove(struct lladd_txn *, lladd_pageno root, uint64_t key);
/* Reads the present value. To read only committed values, lock the key first. */
int ordered_get(struct lladd_db *, lladd_pageno root, uint64_t key, uint64_t *value,
                struct lladd_error *);
/* Calls fn in key order, with pages latched: fn must not use the database. */
typedef int ordered_fn(void *ctx, uint64_t key, uint64_t value);
int ordered_each(struct lladd_db *, lladd_pageno root, ordered_fn *, void *ctx,
                 struct lladd_error *);
/* Checks the structure. LLADD_CORRUPT_PAGE if a key is on a wrong page or in a wrong place. */
int ordered_check(struct lladd_db *, lladd_pageno root, struct lladd_error *);
/* Calls the function for each page of the structure. */
int ordered_pages(struct lladd_db *, lladd_pageno root, int (*fn)(void *, lladd_pageno), void *arg,
                  struct lladd_error *);
#endif
