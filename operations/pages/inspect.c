/* SPDX-License-Identifier: BSD-2-Clause */
/* The use of a page, for inspection of a page file that is not open. */
#include "operations/operations.h"
#include "operations/pages/alloc_bitmap.h"

lladd_pageno ll_operations_bitmap_of(uint32_t page_size, lladd_pageno page)
{
    return ll_bitmap_page(page_size, ll_bitmap_group(page_size, page));
}

unsigned ll_operations_use_of(struct lladd_view map, lladd_pageno page)
{
    if (ll_bitmap_system(map.size, page))
        return LLADD_USE_SYSTEM;
    return ll_operations__bitmap_use(map, ll_bitmap_index(map.size, page));
}
