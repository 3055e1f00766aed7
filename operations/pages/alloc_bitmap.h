/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_ALLOC_BITMAP_H
#define LL_OPERATIONS_ALLOC_BITMAP_H
/* Allocation bitmaps: their places, their contents, and the arguments of their operations. See
 * alloc_bitmap.c. */
#include "operations/operations_private.h"

#include <lladd/log_read.h>

#define LL_MAP_HEAD 32u /* bytes after the page header: u32 pages covered, zeros */

/* Number of pages that one bitmap covers; the bitmap is one of them. */
static inline uint32_t ll_bitmap_span(uint32_t page_size)
{
    return (page_size - LLADD_PAGE_HEADER - LL_MAP_HEAD) / 2 * 8;
}
static inline uint64_t ll_bitmap_group(uint32_t page_size, lladd_pageno page)
{
    return page.v / ll_bitmap_span(page_size);
}
/* The bitmap of a group is the group's first page; in the first group it follows the root page. */
static inline lladd_pageno ll_bitmap_page(uint32_t page_size, uint64_t group)
{
    return lladd_page_of(group ? group * ll_bitmap_span(page_size) : 1);
}
static inline uint32_t ll_bitmap_index(uint32_t page_size, lladd_pageno page)
{
    return (uint32_t)(page.v % ll_bitmap_span(page_size));
}
static inline lladd_pageno ll_bitmap_numbered(uint32_t page_size, uint64_t group, uint32_t index)
{
    return lladd_page_of(group * ll_bitmap_span(page_size) + index);
}
/* Is the page the root page or a bitmap? The root page and bitmaps are never allocated and never
 * freed. */
static inline bool ll_bitmap_system(uint32_t page_size, lladd_pageno page)
{
    return page.v <= 1 || ll_bitmap_index(page_size, page) == 0;
}

enum lladd_page_use ll_operations__bitmap_use(struct lladd_view map, uint32_t index);
/* Does the record take pages of the bitmap? Sets their first index and their number. False for the
 * undo of such a record. */
bool ll_bitmap_taken(const struct lladd_log_entry *, uint32_t *index, uint32_t *n);
/* Is this allocated page blank (alloc_blank.c)? One thread at a time may ask. */
int ll_operations__is_blank(struct ll_operations *, lladd_pageno, bool *out, struct lladd_error *);
void ll_operations__blank_free(struct ll_operations *);

/* A request for `n` contiguous pages of one bitmap: the argument of lladd_update(MAP_TAKE). */
struct ll_bitmap_take {
    struct ll_operations *ops;
    uint32_t n;
    uint32_t limit; /* pages with this index or a higher one are beyond the end of the page file */
    uint32_t hint;  /* single pages: index of the 64-page word to search first */
    enum lladd_page_use use;
    uint32_t index;   /* out: the first page */
    uint32_t longest; /* out, on failure: the longest run found */
};

/* Pages to free: the argument of lladd_update(MAP_FREE). */
struct ll_bitmap_free {
    uint32_t index, n;
    bool raw; /* raw pages may be freed too */
};

#endif
