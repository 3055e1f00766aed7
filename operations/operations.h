/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_OPERATIONS_H
#define LL_OPERATIONS_OPERATIONS_H
/* What operations/ offers to the code that assembles a database: the extensions that every database
 * has. */
#include <lladd/op.h>

/* NULL-terminated, static. The library registers these extensions first and in this order, so the
 * operations of the first one have the ids that operations_private.h lists. */
const struct lladd_extension *const *ll_operations_builtin(void);

/* Two functions for inspection without an open database. bitmap_of returns the number of the
 * allocation bitmap page that covers `page`. use_of returns the use of `page` (enum lladd_page_use)
 * according to that bitmap page, `map`; the caller has checked the type of `map`. */
lladd_pageno ll_operations_bitmap_of(uint32_t page_size, lladd_pageno page);
unsigned ll_operations_use_of(struct lladd_view map, lladd_pageno page);

/* The caller has refused a page with LLADD_WRONG_TYPE, set *err, and released the page. If the page
 * is in use and has no type, such as a page of zeros, this function stores and returns
 * LLADD_CORRUPT_PAGE; else it returns `rc`. */
int ll_operations_untyped(struct lladd_db *, lladd_pageno, int rc, struct lladd_error *);

#endif
