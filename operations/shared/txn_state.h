/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_TXN_STATE_H
#define LL_OPERATIONS_TXN_STATE_H
/* The state that an extension's participant keeps for an open transaction. All states of an
 * extension are in a list, so that `detach` can free those that are left. */
#include <lladd/lladd.h>
#include <lladd/sync.h>

struct ll_txn_part;

struct ll_txn_parts {
    struct lladd_db *db;
    struct lladd_mutex *mutex;          /* the extension's mutex, a leaf */
    void (*drop)(struct ll_txn_part *); /* releases what a state owns, before the state is freed */
    struct ll_txn_part *first;
};

/* Allocates an extension's state, `size` bytes of zeros. Initialises its mutex, a leaf, at offset
 * mutex_at, and its list of transaction states at offset parts_at. For `attach`. */
int ll_operations__state_new(struct lladd_db *, size_t size, size_t mutex_at, size_t parts_at,
                             void (*drop)(struct ll_txn_part *), const char *name, void **state,
                             struct lladd_error *);
/* Ends the states of transactions that are in doubt or still open. For `detach`. */
void ll_operations__owners_end(struct ll_txn_parts *);
/* Destroys the mutex and frees the state. For `detach`. */
void ll_operations__state_free(struct lladd_db *, void *state, size_t mutex_at);

/* The first member of the extension's own struct. */
struct ll_txn_part {
    struct ll_txn_parts *all;
    struct ll_txn_part *next, *before;
};

/* The transaction's state. The first call for a transaction allocates `size` bytes of zeros, joins
 * the transaction and adds the state to the list. `what`: noun for the out-of-memory message. */
int ll_operations__owner_of(struct lladd_txn *, const struct lladd_participant *,
                            struct ll_txn_parts *, size_t size, const char *what,
                            struct ll_txn_part **out);
/* Drops the state, removes it from the list and frees it. */
void ll_operations__owner_end(struct ll_txn_part *);
/* Callbacks of a participant: the transaction's end ends the state. */
void ll_operations__owner_durable(void *ctx, void *state, struct lladd_db *, lladd_lsn commit);
void ll_operations__owner_aborted(void *ctx, void *state, struct lladd_db *);

#endif
