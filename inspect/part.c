/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inspect, parts: pages of which the log tells, as many at a time as there is memory for.
 *
 * A log of a gigabyte can be about ten million pages. So what is kept of each has a bound: once it
 * is full, the part gives up its upper pages, and takes no more of those. They are the next part,
 * in another pass over the log. Each part but the last holds at least a quarter of what fits, so
 * there are few, whatever the page numbers are.
 */
#include "inspect/inspect_private.h"

/* Of a slot in the map: three quarters of the slots are used at most, half of that after it has
 * grown, and while it grows the old ones are there, too. */
enum { SLOT = sizeof(struct ll_hashmap_slot), SLOTS_EACH = 4, LEAST = 4 };

void ll_part_init(struct ll_inspect_part *p, const struct ll_env *env, uint64_t memory, size_t each)
{
    *p = (struct ll_inspect_part){.end = UINT64_MAX};
    ll_hashmap_init(&p->pages, env);
    uint64_t most = memory / (each + SLOTS_EACH * SLOT);
    p->most = most < LEAST ? LEAST : most > SIZE_MAX ? SIZE_MAX : (size_t)most;
}

void ll_part_free(struct ll_inspect_part *p)
{
    ll_hashmap_free(&p->pages);
}

bool ll_part_next(struct ll_inspect_part *p)
{
    if (p->end == UINT64_MAX)
        return false;
    p->first = p->end;
    p->end = UINT64_MAX;
    ll_hashmap_clear(&p->pages);
    return true;
}

static size_t count_below(const struct ll_inspect_part *p, uint64_t end)
{
    size_t n = 0, cursor = 0;
    uint64_t page, value;
    while (ll_hashmap_next(&p->pages, &cursor, &page, &value))
        n += page < end;
    return n;
}

/* A page number with a quarter to three quarters of the pages below. */
static uint64_t middle(const struct ll_inspect_part *p)
{
    size_t all = p->pages.count, cursor = 0;
    uint64_t low = p->first, high = low, page, value;
    while (ll_hashmap_next(&p->pages, &cursor, &page, &value))
        high = page >= high ? page + 1 : high;
    for (;;) {
        uint64_t at = low + (high - low) / 2;
        size_t n = count_below(p, at);
        if (n < all / 4)
            low = at;
        else if (n > all - all / 4)
            high = at;
        else
            return at;
    }
}

struct dropping {
    struct ll_inspect_part *part;
    ll_part_dropped *fn;
    void *ctx;
};

static bool is_kept(void *ctx, uint64_t page, uint64_t value)
{
    struct dropping *d = ctx;
    if (page < d->part->end)
        return true;
    if (d->fn)
        d->fn(d->ctx, value);
    return false;
}

bool ll_part_make_room(struct ll_inspect_part *p, uint64_t page, ll_part_dropped *fn, void *ctx)
{
    struct dropping d = {p, fn, ctx};
    if (p->pages.count >= p->most) {
        p->end = middle(p);
        ll_hashmap_retain(&p->pages, is_kept, &d);
    }
    return ll_part_has(p, page);
}
