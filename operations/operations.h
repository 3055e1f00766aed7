/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_OPERATIONS_H
#define LL_OPERATIONS_OPERATIONS_H
/* The interface of operations/ for the library's assembly: the extensions every database has. */
#include <lladd/op.h>

/* NULL-terminated, static. They are registered first and in this order: the built-in operations
 * then have the ids that operations_private.h lists. */
const struct lladd_extension *const *ll_operations_builtin(void);

/* For inspection, without an open database: the allocation map that covers a page, and the page's
 * use according to it (enum lladd_page_use; `map` has passed the check of its type). */
lladd_pageno ll_operations_bitmap_of(uint32_t page_size, lladd_pageno page);
unsigned ll_operations_use_of(struct lladd_view map, lladd_pageno page);

/* For a page that was refused with LLADD_WRONG_TYPE (*err is set) and is no longer latched. Returns
 * LLADD_CORRUPT_PAGE if the page is in use and has no type, like a page of zeros; else `rc`. */
int ll_operations_untyped(struct lladd_db *, lladd_pageno, int rc, struct lladd_error *);

#endif
