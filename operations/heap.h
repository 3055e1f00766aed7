/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HEAP_H
#define LL_OPERATIONS_HEAP_H
/* Heaps inside: inventory pages (heap_page.c), where there is room (heap_space.c), records
 * (heap.c). */
#include "operations/operations_private.h"
#include "operations/slotted.h"

/* ---- inventory pages ------------------------------------------------------------------------- */

#define INVENTORY_ENTRIES (LLADD_PAGE_HEADER + 24u)
#define INVENTORY_ENTRY 8u

struct ll_inventory_entry {
    lladd_pageno page; /* a slotted page of the heap */
    uint32_t hint; /* free bytes it had at least when noted, in 256ths of a page, rounded down */
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

/* A slotted page of a heap says in its owner's word where the inventory has it. */
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
    uint32_t expected; /* entries there must be: others have not been here */
};
struct ll_heap_hint {
    uint32_t index;
    uint32_t hint;
};

/* ---- room ------------------------------------------------------------------------------------ */

/* Stores a record in some page of the heap. */
int ll_operations__heap_place(struct lladd_txn *, lladd_pageno heap, struct ll_slotted_alloc *,
                              struct lladd_rid *out);
/* A page got room by a delete or set: somebody may want to know. */
int ll_operations__heap_gained(struct lladd_txn *, lladd_pageno heap,
                               const struct ll_slotted_state *);
/* Forgets what memory says about a heap. With a creator: nobody else can see it before that has
 * committed. */
int ll_operations__heap_reset(struct lladd_txn *, lladd_pageno heap, bool created);
/* Its inventory pages form a ring. */
int ll_operations__heap_endless(struct lladd_error *, lladd_pageno heap);
/* Is the page with this owner's word a page of this heap? 0, or LLADD_OUT_OF_RANGE and others. */
int ll_operations__heap_member(struct lladd_db *, lladd_pageno heap, lladd_pageno page,
                               uint64_t owner, struct lladd_error *);

#endif
