/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_INDEX_H
#define LL_OPERATIONS_INDEX_H
/* A hash map with numbers as keys. The caller's structs embed the nodes as their first member. */
#include <lladd/extension.h>

struct ll_index_node {
    uint64_t key;
    struct ll_index_node *next; /* the next node of the chain */
};

struct ll_index {
    struct ll_index_node **heads; /* n_heads is a power of two */
    size_t n_heads, n;
};

struct ll_index_node *ll_operations__index_find(const struct ll_index *, uint64_t key);
/* Makes room for one more node. LLADD_NO_MEMORY: there is no memory for the first table. If there
 * is no memory for a larger table, the chains grow longer. */
int ll_operations__index_room(struct lladd_db *, struct ll_index *);
/* Nodes may have equal keys: find returns one of them, and the others come after it in the chain,
 * perhaps with other nodes in between. */
void ll_operations__index_add(struct ll_index *, struct ll_index_node *);
void ll_operations__index_drop(struct ll_index *, struct ll_index_node *);
/* Iterates in no particular order. NULL as the second argument returns the first node; a result of
 * NULL is the end. */
struct ll_index_node *ll_operations__index_next(const struct ll_index *,
                                                const struct ll_index_node *);
void ll_operations__index_free(struct lladd_db *, struct ll_index *);

#endif
