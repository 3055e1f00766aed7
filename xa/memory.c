/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the resource manager, from the allocator in the options of the database. So the limits
 * of an allocator, and the failures that a test injects, apply to the resource manager, too. */
#include "xa/xa_private.h"

#include <lladd/device.h>
#include <stdlib.h>
#include <string.h>

/* lladd_open refuses an incomplete allocator, but the resource manager allocates before it calls
 * lladd_open. */
static bool usable(const struct lladd_allocator *mem)
{
    return mem && mem->alloc && mem->release;
}

void *ll_xa__new(const struct lladd_allocator *mem, size_t n, size_t size)
{
    if (!usable(mem))
        return calloc(n, size);
    if (size && n > SIZE_MAX / size)
        return NULL;
    void *p = mem->alloc(mem->ctx, n * size);
    return p ? memset(p, 0, n * size) : NULL;
}

void ll_xa__delete(const struct lladd_allocator *mem, void *p)
{
    if (!usable(mem))
        free(p);
    else if (p)
        mem->release(mem->ctx, p);
}
