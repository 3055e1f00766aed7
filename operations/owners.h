/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_OWNERS_H
#define LL_OPERATIONS_OWNERS_H
/* What an extension knows of each open transaction that has to do with it: the state of its
 * participant, and in a list, so that detach can free what belongs to transactions whose end the
 * handle did not live to see. */
#include <lladd/lladd.h>
#include <lladd/sync.h>

struct ll_owners {
    struct lladd_db *db;
    struct lladd_mutex *mutex; /* a leaf, the extension's */
    struct ll_owner *first;
};

/* The first member of what the extension knows. */
struct ll_owner {
    struct ll_owners *all;
    struct ll_owner *next, *before;
};

/* The transaction's; at first use `size` bytes of zeros, joined and put on the list. `what` does
 * there have to be memory for? */
int ll_operations__owner_of(struct lladd_txn *, const struct lladd_participant *,
                            struct ll_owners *, size_t size, const char *what,
                            struct ll_owner **out);
/* Takes it off the list and frees it. */
void ll_operations__owner_free(struct ll_owner *);

#endif
