/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_ROOT_INDEX_H
#define LL_OPERATIONS_ROOT_INDEX_H
/* The index of root names, in memory: see root_index.c. */
#include <lladd/lladd.h>
#include <lladd/sync.h>

struct ll_root_index {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf */
    struct ll_root_place {
        uint64_t hash; /* hash of the name; 0: unused */
        uint64_t page;
    } *places;
    size_t n, cap; /* cap: 0, or a power of two */
    bool complete; /* the index has the hash of every name that is on a page */
};

int ll_operations__root_index_init(struct ll_root_index *, struct lladd_db *);
void ll_operations__root_index_free(struct ll_root_index *);
uint64_t ll_operations__root_hash(const char *name);
/* Looks up a name's hash. 0: the name's entry is probably on page *out; another name may have the
 * same hash. LLADD_NOT_FOUND: the name has no entry. LLADD_BUSY: not found, and the index is not
 * complete. */
int ll_operations__root_index_get(struct ll_root_index *, uint64_t hash, lladd_pageno *out);
/* Stores the page for a hash. LLADD_NO_MEMORY: the index is now empty and not complete. */
int ll_operations__root_index_put(struct ll_root_index *, uint64_t hash, lladd_pageno);
/* Declares that all names have been put. The caller keeps other threads from adding names. */
void ll_operations__root_index_complete(struct ll_root_index *);

#endif
