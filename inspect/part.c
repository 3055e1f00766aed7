/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspection in parts: bounds the memory for the pages that the log changes.
 *
 * A log of a gigabyte can change ten million pages. A part holds data about a bounded number of
 * pages. When a part is full, it drops the pages with the highest numbers. From then on it takes no
 * page with such a number. Those pages form the next part, in another pass over the log. Each part
 * except the last has at least a quarter of the pages that fit, so few passes are needed.
 */
#include "inspect/inspect_private.h"

/* Slots of the map for each page: at most three quarters of the slots are used, and half as many
 * after the map has grown. During the growth of the map the old slots exist, too. */
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

/* A page number such that a quarter to three quarters of the pages are below it. */
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
