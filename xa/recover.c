/* SPDX-License-Identifier: BSD-2-Clause */
/* xa_recover: a scan over the branches that are prepared or heuristically completed. TMSTARTRSCAN
 * copies the XIDs of these branches; a scan belongs to one opening (xa_private.h). */
#include "xa/xa_private.h"

#include <string.h>

static void end_scan(const struct ll_xa__rm *rm, struct ll_xa__opening *o)
{
    ll_xa__delete(rm->store->options.allocator, o->scan);
    o->scan = NULL;
    o->n_scan = o->scanned = 0;
    o->scanning = false;
}

static bool listed(const struct ll_xa__branch *b)
{
    return b->state == LL_XA__PREPARED || b->state == LL_XA__HEURISTIC;
}

static int start_scan(struct ll_xa__rm *rm, struct ll_xa__opening *o)
{
    const struct ll_xa__store *s = rm->store;
    size_t n = 0;
    struct lladd_gid *list =
        ll_xa__new(s->options.allocator, s->n_branches + 1, sizeof *list);
    if (!list)
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory for a scan");
    for (size_t i = 0; i < s->n_buckets; i++)
        for (const struct ll_xa__branch *b = s->buckets[i]; b; b = b->next)
            if (listed(b))
                list[n++] = b->gid;
    end_scan(rm, o);
    o->scan = list;
    o->n_scan = n;
    o->scanning = true;
    return XA_OK;
}

static void put(XID *x, const struct lladd_gid *g)
{
    memset(x, 0, sizeof *x);
    x->formatID = (long)g->format;
    x->gtrid_length = (long)g->gtrid_length;
    x->bqual_length = (long)g->bqual_length;
    memcpy(x->data, g->data, (size_t)g->gtrid_length + g->bqual_length);
}

static int recover(struct ll_xa__rm *rm, XID *xids, long count, unsigned long flags)
{
    struct ll_xa__opening *o = ll_xa__opening_of(rm);
    if (count < 0 || (!xids && count > 0))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "xids is NULL, or count is negative");
    if (!(flags & TMSTARTRSCAN) && !o->scanning)
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "no scan is open");
    int rc = ll_xa__healthy(rm);
    if (!rc && (flags & TMSTARTRSCAN))
        rc = start_scan(rm, o);
    if (rc)
        return rc;
    int n = 0;
    for (; n < count && o->scanned < o->n_scan; n++)
        put(&xids[n], &o->scan[o->scanned++]);
    if (flags & TMENDRSCAN)
        end_scan(rm, o);
    return n;
}

int ll_xa__recover(XID *xids, long count, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMSTARTRSCAN | TMENDRSCAN, &rm);
    return rc ? rc : ll_xa__leave(rm, recover(rm, xids, count, (unsigned long)flags));
}
