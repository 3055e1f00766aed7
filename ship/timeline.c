/* SPDX-License-Identifier: BSD-2-Clause */
/* New timelines. A store gives each number to one copy of a database: the one that has put the
 * object "history" of this number first. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ll_ship_history(struct ll_ship_buf *text, uint32_t parent, uint64_t fork, const char *why,
                    const struct lladd_environment *world, struct lladd_error *err)
{
    unsigned char id[8];
    int rc = ll_ship_random(world, id, sizeof id, err);
    if (!rc)
        rc = ll_ship_print(text, err, "parent %u\nfork %llu\nwhen_us %lld\nbase %s\nid %016llx\n",
                           parent, (unsigned long long)fork, (long long)ll_ship_wall_us(world), why,
                           (unsigned long long)lladd_get64(id));
    return rc ? rc : ll_ship_text_end(text, err);
}

static int see_timeline(void *ctx, const char *name, uint64_t size)
{
    uint32_t *highest = ctx;
    char *end;
    (void)size;
    unsigned long long v = strtoull(name + 1, &end, 16);
    if (strcmp(end, "/history") == 0 && v < UINT32_MAX && v > *highest)
        *highest = (uint32_t)v;
    return 0;
}

int ll_ship_timelines(struct lladd_store *store, uint32_t least, uint32_t *out,
                      struct lladd_error *err)
{
    *out = least;
    int rc = store->ops->list(store, "t", see_timeline, out, err);
    if (!rc && *out == UINT32_MAX)
        rc = lladd_error_set(err, LLADD_OUT_OF_RANGE, "there is no timeline after number %u", *out);
    return rc;
}

int ll_ship_timeline_put(struct lladd_store *store, struct ll_ship_mem mem, uint32_t timeline,
                         const struct ll_ship_buf *text, struct lladd_error *err)
{
    struct lladd_iovec piece = {text->data, text->len};
    char name[LL_SHIP_NAME_MAX];
    (void)snprintf(name, sizeof name, "t%08x/history", timeline);
    return ll_ship_put(store, mem, name, &piece, 1, err);
}
