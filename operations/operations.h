/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_OPERATIONS_H
#define LL_OPERATIONS_OPERATIONS_H
/* The face of operations/ for the assembly: what every database has without being asked. */
#include <lladd/op.h>

/* NULL-terminated, static. To be registered first and in this order: the built-in operations then
 * have the ids that operations_private.h lists, and need not be looked up. */
const struct lladd_extension *const *ll_operations_builtin(void);

/* For inspection, without an open database: the allocation map that knows about a page, and what it
 * says (enum lladd_page_use; `map` has passed the check of its type). */
lladd_pageno ll_operations_map_of(uint32_t page_size, lladd_pageno page);
unsigned ll_operations_use_of(struct lladd_view map, lladd_pageno page);

/* A page was refused with LLADD_WRONG_TYPE, told in *err, and is no longer latched:
 * LLADD_CORRUPT_PAGE if it is in use and has no type, as a page of zeros has none; else `rc`. */
int ll_operations_untyped(struct lladd_db *, lladd_pageno, int rc, struct lladd_error *);

#endif
