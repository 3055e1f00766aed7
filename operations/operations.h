/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_OPERATIONS_H
#define LL_OPERATIONS_OPERATIONS_H
/* What operations/ offers to the code that assembles a database: the extensions that every database
 * has. */
#include <lladd/op.h>

/* NULL-terminated, static. The library registers them first and in this order, so the built-in
 * operations have the ids that operations_private.h lists. */
const struct lladd_extension *const *ll_operations_builtin(void);

/* For inspection without an open database: the number of the allocation bitmap page that covers a
 * page, and the page's use according to it (enum lladd_page_use; `map` has passed the check of its
 * type). */
lladd_pageno ll_operations_bitmap_of(uint32_t page_size, lladd_pageno page);
unsigned ll_operations_use_of(struct lladd_view map, lladd_pageno page);

/* The error for a page that was refused with LLADD_WRONG_TYPE (*err is set). Returns
 * LLADD_CORRUPT_PAGE if the page is in use and has no type, such as a page of zeros; else `rc`. The
 * caller has released the page. */
int ll_operations_untyped(struct lladd_db *, lladd_pageno, int rc, struct lladd_error *);

#endif
