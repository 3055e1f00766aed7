/* SPDX-License-Identifier: BSD-2-Clause */
/* A store that several threads may use. It runs one call at a time. The threads of a backup, a
 * restore or a check need such a store. An archive needs one, too: one thread may fetch a damaged
 * page from the store when another thread archives. The thread that fetches may hold latches of
 * pages and log credit. So it waits for at most one call of the store, and never for a step of the
 * archive. */
#include "ship/ship_private.h"

#include <lladd/sync.h>

enum { RANK_STORE = LLADD_RANK_DEVICE + 100 }; /* above the device over a store */

struct locked {
    struct lladd_store base;
    struct ll_ship_mem mem;
    struct lladd_store *inner;
    struct lladd_mutex mutex;
};

static struct locked *enter(struct lladd_store *s)
{
    struct locked *l = (struct locked *)s;
    lladd_mutex_lock(&l->mutex);
    return l;
}

static int leave(struct locked *l, int rc)
{
    lladd_mutex_unlock(&l->mutex);
    return rc;
}

static int locked_put(struct lladd_store *s, const char *name, const struct lladd_iovec *pieces,
                      int n, struct lladd_error *err)
{
    struct locked *l = enter(s);
    return leave(l, l->inner->ops->put(l->inner, name, pieces, n, err));
}

static int locked_get(struct lladd_store *s, const char *name, uint64_t offset, void *bytes,
                      size_t len, struct lladd_error *err)
{
    struct locked *l = enter(s);
    return leave(l, l->inner->ops->get(l->inner, name, offset, bytes, len, err));
}

/* The callbacks of this library use no store. */
static int locked_list(struct lladd_store *s, const char *prefix, lladd_store_list_fn *fn,
                       void *ctx, struct lladd_error *err)
{
    struct locked *l = enter(s);
    return leave(l, l->inner->ops->list(l->inner, prefix, fn, ctx, err));
}

static int locked_remove(struct lladd_store *s, const char *name, struct lladd_error *err)
{
    struct locked *l = enter(s);
    return leave(l, l->inner->ops->remove(l->inner, name, err));
}

static int locked_size(struct lladd_store *s, const char *name, uint64_t *out,
                       struct lladd_error *err)
{
    struct locked *l = enter(s);
    return leave(l, l->inner->ops->size(l->inner, name, out, err));
}

static void locked_close(struct lladd_store *s)
{
    struct locked *l = (struct locked *)s;
    lladd_mutex_destroy(&l->mutex);
    ll_ship_delete(l->mem, l);
}

static const struct lladd_store_ops locked_ops = {
    .struct_size = sizeof locked_ops,
    .put = locked_put,
    .get = locked_get,
    .list = locked_list,
    .remove = locked_remove,
    .close = locked_close,
};

/* For a store that has `size`. */
static const struct lladd_store_ops locked_ops_sizes = {
    .struct_size = sizeof locked_ops_sizes,
    .put = locked_put,
    .get = locked_get,
    .list = locked_list,
    .remove = locked_remove,
    .close = locked_close,
    .size = locked_size,
};

int ll_ship_store_lock(struct lladd_store *inner, struct ll_ship_mem mem, struct lladd_store **out,
                       struct lladd_error *err)
{
    struct locked *l = ll_ship_new(mem, sizeof *l);
    if (!l)
        return ll_ship_no_memory(err);
    if (lladd_mutex_init(&l->mutex, RANK_STORE, "store of an archive")) {
        ll_ship_delete(mem, l);
        return ll_ship_no_memory(err);
    }
    l->base.ops = ll_ship_has_sizes(inner) ? &locked_ops_sizes : &locked_ops;
    l->mem = mem;
    l->inner = inner;
    *out = &l->base;
    return 0;
}

int ll_ship_store_share(struct lladd_store **store, unsigned threads, struct ll_ship_mem mem,
                        struct lladd_store **made, struct lladd_error *err)
{
    bool locks = (*store)->ops == &locked_ops || (*store)->ops == &locked_ops_sizes;
    *made = NULL;
    if (threads <= 1 || locks)
        return 0;
    int rc = ll_ship_store_lock(*store, mem, made, err);
    if (!rc)
        *store = *made;
    return rc;
}
