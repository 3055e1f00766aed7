/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the resource manager. It comes from the allocator of the database's options, so that an
 * allocator's limits (and a test's failures) apply here, too. */
#include "xa/xa_private.h"

#include <lladd/device.h>
#include <stdlib.h>
#include <string.h>

/* lladd_open refuses an incomplete allocator; until then it must not be used. */
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
