/* SPDX-License-Identifier: BSD-2-Clause */
/* See behind.h. The records of a page are a list through `links`, oldest first, so that whoever
 * redoes the page reads each record once, forward, and of those that it has already none. */
#include "recovery/behind.h"

#include <string.h>

#define RECORD_ALIGN 8u /* of LSNs: docs/disk-format.md */
#define LINK_BASE (1u << 31)
#define LINKS_MAX (LINK_BASE - 2)

struct link {
    uint32_t at;   /* (LSN - origin) / 8 */
    uint32_t next; /* the page's next link + 1, or 0; LINK_BASE beside it */
};

static uint32_t first_of(uint64_t ends)
{
    return (uint32_t)ends;
}

static uint32_t last_of(uint64_t ends)
{
    return (uint32_t)(ends >> 32);
}

static uint64_t ends_of(uint32_t first, uint32_t last)
{
    return (uint64_t)last << 32 | first;
}

static struct link *link_at(const struct ll_behind *b, uint32_t number)
{
    return ll_vec_at(&b->links, number - 1);
}

void ll_behind_init(struct ll_behind *b, const struct ll_env *env, lladd_lsn origin)
{
    memset(b, 0, sizeof *b);
    b->origin = origin.v;
    ll_vec_init(&b->links, env, sizeof(struct link));
    ll_map_init(&b->pages, env);
    ll_map_init(&b->older, env);
}

void ll_behind_free(struct ll_behind *b)
{
    ll_vec_free(&b->links);
    ll_map_free(&b->pages);
    ll_map_free(&b->older);
}

static void lose(struct ll_behind *b)
{
    ll_behind_free(b);
    b->lost = true;
}

bool ll_behind_counts(const struct ll_record *rec)
{
    return (rec->kind == LL_REC_UPDATE || rec->kind == LL_REC_CLR || rec->kind == LL_REC_IMAGE) &&
           rec->page != LLADD_NO_PAGE;
}

/* Behind the page's last one. */
static void append(struct ll_behind *b, struct ll_map *pages, uint64_t page, uint32_t number)
{
    uint64_t *ends = ll_map_find(pages, page);
    if (ends) {
        link_at(b, last_of(*ends))->next |= number;
        *ends = ends_of(first_of(*ends), number);
    } else if (ll_map_put(pages, page, ends_of(number, number))) {
        lose(b);
    }
}

void ll_behind_add(struct ll_behind *b, const struct ll_record *rec, bool older)
{
    if (b->lost || !ll_behind_counts(rec) || rec->lsn.v < b->origin)
        return;
    uint64_t at = (rec->lsn.v - b->origin) / RECORD_ALIGN;
    struct link *l = at <= UINT32_MAX && b->links.len < LINKS_MAX ? ll_vec_push(&b->links) : NULL;
    if (!l) {
        lose(b);
        return;
    }
    bool base = rec->kind == LL_REC_IMAGE || (rec->flags & LL_REC_FORMATS);
    *l = (struct link){(uint32_t)at, base ? LINK_BASE : 0};
    b->page_max = rec->page > b->page_max ? rec->page : b->page_max;
    b->record_max = rec->size > b->record_max ? rec->size : b->record_max;
    append(b, older ? &b->older : &b->pages, rec->page, (uint32_t)b->links.len);
}

void ll_behind_join(struct ll_behind *b)
{
    size_t at = 0;
    uint64_t page, ends;
    while (!b->lost && ll_map_next(&b->older, &at, &page, &ends)) {
        uint64_t *newer = ll_map_find(&b->pages, page);
        if (newer) {
            link_at(b, last_of(ends))->next |= first_of(*newer);
            *newer = ends_of(first_of(ends), last_of(*newer));
        } else if (ll_map_put(&b->pages, page, ends)) {
            lose(b);
        }
    }
    ll_map_free(&b->older);
}

static void set_walk(const struct ll_behind *b, struct ll_behind_walk *w, uint32_t number)
{
    const struct link *l = link_at(b, number);
    w->lsn = lladd_lsn_of(b->origin + (uint64_t)l->at * RECORD_ALIGN);
    w->base = l->next & LINK_BASE;
    w->next = l->next & ~LINK_BASE;
}

bool ll_behind_find(const struct ll_behind *b, uint64_t page, struct ll_behind_walk *w)
{
    const uint64_t *ends = ll_map_find(&b->pages, page);
    if (ends)
        set_walk(b, w, first_of(*ends));
    return ends != NULL;
}

bool ll_behind_next(const struct ll_behind *b, struct ll_behind_walk *w)
{
    if (w->next == 0)
        return false;
    set_walk(b, w, w->next);
    return true;
}

lladd_lsn ll_behind_newest(const struct ll_behind *b, uint64_t page)
{
    struct ll_behind_walk w = {0};
    const uint64_t *ends = ll_map_find(&b->pages, page);
    if (ends)
        set_walk(b, &w, last_of(*ends));
    return w.lsn;
}
