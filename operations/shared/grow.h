/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_GROW_H
#define LL_OPERATIONS_GROW_H
#include <lladd/extension.h>

/* Makes an array hold at least n elements of `element` bytes each. `array` is the address of the
 * pointer to the array. *cap is the number of elements for which there is memory; a growth at least
 * doubles it. Returns 0, or LLADD_NO_MEMORY: nothing has changed. */
int ll_operations__grow(struct lladd_db *, void *array, size_t n, size_t *cap, size_t element);

#endif
