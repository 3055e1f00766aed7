/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HEAP_H
#define LL_OPERATIONS_HEAP_H
/* Internals of heaps: inventory pages (page.c), free space (space.c), records
 * (heap.c). */
#include "operations/operations_private.h"
#include "operations/records/slotted.h"

/* ---- inventory pages ------------------------------------------------------------------------- */

#define INVENTORY_ENTRIES (LLADD_PAGE_HEADER + 24u)
#define INVENTORY_ENTRY 8u

struct ll_inventory_entry {
    lladd_pageno page; /* a slotted page of the heap */
    uint32_t hint; /* free bytes at the last update, in 256ths of a page, rounded down */
};

static inline lladd_pageno ll_inventory_next(struct lladd_view v)
{
    return lladd_page_of(lladd_get64(lladd_view_body(v)));
}
static inline lladd_pageno ll_inventory_heap(struct lladd_view v)
{
    return lladd_page_of(lladd_get64(lladd_view_body(v) + 8));
}
static inline uint32_t ll_inventory_max(uint32_t page_size)
{
    return (page_size - INVENTORY_ENTRIES) / INVENTORY_ENTRY;
}
uint32_t ll_operations__inventory_count(struct lladd_view);
struct ll_inventory_entry ll_operations__inventory_entry(struct lladd_view, uint32_t index);

/* The owner word of a heap's slotted page says where its inventory entry is. */
static inline uint64_t ll_heap_owner(lladd_pageno inventory, uint32_t index)
{
    return inventory.v << 16 | index;
}
static inline lladd_pageno ll_heap_owner_page(uint64_t owner)
{
    return lladd_page_of(owner >> 16);
}

/* Arguments of HEAP_APPEND and HEAP_HINT. */
struct ll_heap_append {
    lladd_pageno first; /* pages first ... first + n - 1 */
    uint32_t n;
    uint32_t expected; /* the number of entries that the caller has seen; if it is different now,
                        * another thread has appended */
};
struct ll_heap_hint {
    uint32_t index;
    uint32_t hint;
};

/* ---- free space ------------------------------------------------------------------------------ */

/* Stores a record in some page of the heap. */
int ll_operations__heap_place(struct lladd_txn *, lladd_pageno heap, struct ll_slotted_alloc *,
                              struct lladd_rid *out);
/* Notes that a delete or set has freed room on a page. */
int ll_operations__heap_gained(struct lladd_txn *, lladd_pageno heap,
                               const struct ll_slotted_state *);
/* Resets a heap's state in memory. `created`: txn has created the heap, and other transactions
 * cannot see it until txn has committed. */
int ll_operations__heap_reset(struct lladd_txn *, lladd_pageno heap, bool created);
/* Reports that the heap's chain of inventory pages has a cycle. */
int ll_operations__heap_endless(struct lladd_error *, lladd_pageno heap);
/* Is the page with this owner word a page of this heap? LLADD_OUT_OF_RANGE: no. */
int ll_operations__heap_member(struct lladd_db *, lladd_pageno heap, lladd_pageno page,
                               uint64_t owner, struct lladd_error *);

#endif
