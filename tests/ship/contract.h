/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_CONTRACT_H
#define TESTS_SHIP_CONTRACT_H
/*
 * What every store must do (struct lladd_store_ops). Each function gets an empty store.
 */
#include <lladd/ship.h>

void contract_objects(struct lladd_store *);
void contract_sizes(struct lladd_store *, size_t most);
void contract_sequence(struct lladd_store *);
void contract_list(struct lladd_store *, unsigned objects);
void contract_taken_names(struct lladd_store *);

/* One object, in two pieces. */
int contract_put(struct lladd_store *, const char *name, const char *text, struct lladd_error *);
/* Does the object begin with the text? */
bool contract_holds(struct lladd_store *, const char *name, const char *text);
/* The number of objects with the prefix. */
unsigned contract_listed(struct lladd_store *, const char *prefix);
#endif
