/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HEAP_H
#define LL_OPERATIONS_HEAP_H
/* Internals of heaps: inventory pages (page.c), heaps in memory (memory.c), free space (space.c),
 * records (heap.c). */
#include "operations/operations_private.h"
#include "operations/records/slotted.h"

#include <lladd/heap.h>

/* ---- inventory pages ------------------------------------------------------------------------- */

#define INVENTORY_ENTRIES (LLADD_PAGE_HEADER + 24u)
#define INVENTORY_ENTRY 8u

struct ll_inventory_entry {
    lladd_pageno page; /* a slotted page of the heap */
    uint32_t hint;     /* room at the last update: see page.c */
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
    lladd_pageno first; /* the first of n pages */
    uint32_t n;
    uint32_t expected; /* the number of entries; LLADD_CONFLICT if it is different */
};
struct ll_heap_hint {
    uint32_t index;
    uint32_t hint;
};

/* ---- in memory: memory.c --------------------------------------------------------------------- */

struct ll_pool_page {
    lladd_pageno page;
    uint64_t owner; /* place of its inventory entry */
    uint32_t room;  /* free bytes, as last seen */
    uint32_t hint;  /* the page's hint in the inventory */
    bool busy;      /* an insert is using it */
};

/* A heap in memory. There is one for each root page in use; all its handles share it. */
struct lladd_heap {
    struct ll_index_node node; /* key: the root page; under heaps.mutex */
    struct ll_operations *ops;
    lladd_pageno root;
    uint32_t alive;          /* atomic; 1: the root page is known to be this heap's */
    struct lladd_mutex grow; /* protects the members at the end */

    /* Protected by heaps.mutex: */
    uint32_t refs;       /* handles, and the transaction that has created it */
    uint64_t looks;      /* incremented when the root page may have changed */
    bool gone;           /* another heap has its root page */
    const void *creator; /* struct ll_heaps_created of the transaction that has created it and has
                          * not ended; NULL: none */
    struct ll_pool_page *pool;
    uint32_t n_pool;
    size_t cap_pool;
    bool gained; /* since the pass began, room was freed, or the pool has lost a page with room */
    uint64_t placed; /* records stored */

    /* Protected by `grow`: */
    bool passing;
    lladd_pageno at;   /* the inventory page on which the pass continues */
    uint32_t index;    /* the entry of that page with which the pass continues */
    uint64_t seen;     /* entries this pass has visited */
    uint64_t visited;  /* entries all passes have visited */
    uint64_t entries;  /* entries of the heap, counted by the last pass, plus those added
                        * afterwards */
    lladd_pageno last; /* last known inventory page, or LLADD_NO_PAGE */
};

/* The heap of a root page, for the library's own structures. Reads no page and takes no reference.
 * The caller makes sure that the heap is not destroyed meanwhile. */
int ll_operations__heap_at(struct lladd_db *, lladd_pageno root, struct lladd_heap **out,
                           struct lladd_error *);
/* Returns 0 if the page is the root of a heap; LLADD_WRONG_TYPE if it is not; LLADD_DESTROYED if
 * that heap has been destroyed. */
int ll_operations__heap_check_root(struct lladd_db *, lladd_pageno root, struct lladd_error *);
/* Reads the root page. LLADD_DESTROYED: the heap does not exist any more. */
int ll_operations__heap_look(struct lladd_heap *, struct lladd_error *);
/* Has the transaction created the heap? */
bool ll_operations__heap_is_creator(struct lladd_txn *, struct lladd_heap *);
/* Notes that the transaction has created a heap. The caller passes its root page to other
 * transactions only after the commit. */
int ll_operations__heap_created(struct lladd_txn *, lladd_pageno root);
/* Forgets the heap's state in memory, because its pages have been freed. */
void ll_operations__heap_destroyed(struct lladd_heap *);

/* ---- free space: space.c --------------------------------------------------------------------- */

/* Stores a record in some page of the heap. */
int ll_operations__heap_place(struct lladd_txn *, struct lladd_heap *, struct ll_slotted_alloc *,
                              struct lladd_rid *out);
/* Notes that a delete or set has freed room on a page. */
int ll_operations__heap_gained(struct lladd_txn *, struct lladd_heap *,
                               const struct ll_slotted_state *);
/* Reports that the heap's chain of inventory pages has a cycle. */
int ll_operations__heap_endless(struct lladd_error *, lladd_pageno heap);
/* Is the page with this owner word a page of this heap? LLADD_OUT_OF_RANGE: no. */
int ll_operations__heap_member(struct lladd_db *, lladd_pageno heap, lladd_pageno page,
                               uint64_t owner, struct lladd_error *);

#endif
