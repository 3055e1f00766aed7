/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays. */
#include "operations/shared/grow.h"

#include <string.h>

int ll_operations__grow(struct lladd_db *db, void *array, size_t n, size_t *cap, size_t element)
{
    size_t want = *cap ? *cap * 2 : element < 16 ? 64 / element : 4;
    void *p;
    if (n <= *cap)
        return 0;
    if (n > SIZE_MAX / 4 / element)
        return LLADD_NO_MEMORY;
    while (want < n)
        want *= 2;
    memcpy(&p, array, sizeof p);
    p = lladd_mem_resize(db, p, want * element);
    if (!p)
        return LLADD_NO_MEMORY;
    memcpy(array, &p, sizeof p);
    *cap = want;
    return 0;
}
