/* SPDX-License-Identifier: BSD-2-Clause */
/* See redo_index.h. The records of a page form a list through `links`, oldest first. So redo can
 * read each record once, in order, and skip records that the page has already. */
#include "recovery/redo_index.h"

#include <string.h>

#define RECORD_ALIGN 8u /* of LSNs: docs/disk-format.md */
#define LINK_BASE (1u << 31)
#define LINKS_MAX (LINK_BASE - 2)
#define PAGE_MARKED (1u << 31) /* a flag in the number of a page's first link */
#define SHARE_ALL (UINT64_C(1) << 32)
#define PAGE_BYTES 16u /* maximum bytes that a page takes in a list of all pages */

struct link {
    uint32_t at;   /* (LSN - origin) / 8 */
    uint32_t next; /* the page's next link + 1, or 0; flag LINK_BASE */
};

static uint32_t first_of(uint64_t ends)
{
    return (uint32_t)ends & ~PAGE_MARKED;
}

static uint32_t last_of(uint64_t ends)
{
    return (uint32_t)(ends >> 32);
}

static uint64_t ends_of(uint32_t first, uint32_t last)
{
    return (uint64_t)last << 32 | first;
}

static struct link *link_at(const struct ll_redo_index *b, uint32_t number)
{
    return ll_vec_at(&b->links, number - 1);
}

void ll_redo_index_init(struct ll_redo_index *b, const struct ll_env *env, lladd_lsn origin,
                        uint64_t budget)
{
    memset(b, 0, sizeof *b);
    b->origin = origin.v;
    b->budget = budget;
    b->share = SHARE_ALL;
    ll_vec_init(&b->links, env, sizeof(struct link));
    ll_hashmap_init(&b->pages, env);
    ll_hashmap_init(&b->older, env);
}

void ll_redo_index_free(struct ll_redo_index *b)
{
    ll_vec_free(&b->links);
    ll_hashmap_free(&b->pages);
    ll_hashmap_free(&b->older);
}

static void lose(struct ll_redo_index *b)
{
    ll_redo_index_free(b);
    b->lost = true;
}

/* ---- memory ------------------------------------------------------------------------------ */

uint64_t ll_redo_index_bytes(const struct ll_redo_index *b)
{
    return b->links.capacity * sizeof(struct link) +
           (b->pages.capacity + b->older.capacity) * sizeof(struct ll_hashmap_slot) +
           (b->pages.count + b->older.count) * PAGE_BYTES;
}

bool ll_redo_index_is_part(const struct ll_redo_index *b)
{
    return b->share < SHARE_ALL;
}

/* Is the page in the part that the index keeps? Redo's workers divide the pages by another hash
 * (log/cursor.c), so that each worker gets some of the pages that are given up. */
static bool has_share(const struct ll_redo_index *b, uint64_t page)
{
    return ((page ^ page >> 17) * UINT64_C(0xbf58476d1ce4e5b9)) >> 32 < b->share;
}

/* Bytes needed for `more` pages. While a map grows, its old and its new memory exist together. */
static uint64_t cost(const struct ll_hashmap *pages, size_t more)
{
    size_t capacity = pages->capacity ? pages->capacity : 16;
    while (pages->count + more > capacity - capacity / 4)
        capacity *= 2;
    return more * PAGE_BYTES +
           (capacity == pages->capacity ? 0 : capacity * sizeof(struct ll_hashmap_slot));
}

/* Is there room for one more page and one more link? */
static bool has_room(const struct ll_redo_index *b, const struct ll_hashmap *pages)
{
    uint64_t more = cost(pages, 1);
    if (!b->unused && b->links.len == b->links.capacity)
        more += (b->links.capacity ? 2 * b->links.capacity : 8) * sizeof(struct link);
    return ll_redo_index_bytes(b) + more <= b->budget;
}

/* Puts a page's links into the free list. */
static void give_back(struct ll_redo_index *b, uint64_t ends)
{
    link_at(b, last_of(ends))->next = b->unused;
    b->unused = first_of(ends);
}

/* False: the page is given up. */
static bool keep_page(void *ctx, uint64_t page, uint64_t ends)
{
    struct ll_redo_index *b = ctx;
    if (has_share(b, page))
        return true;
    give_back(b, ends);
    return false;
}

static void shed(struct ll_redo_index *b)
{
    b->share /= 2;
    ll_hashmap_retain(&b->pages, keep_page, b);
    ll_hashmap_retain(&b->older, keep_page, b);
    if (b->share == 0)
        lose(b);
}

/* The number of a new link, or 0: no memory. */
static uint32_t new_link(struct ll_redo_index *b)
{
    uint32_t number = b->unused;
    if (number) {
        b->unused = link_at(b, number)->next & ~LINK_BASE;
        return number;
    }
    if (b->links.len >= LINKS_MAX || !ll_vec_push(&b->links))
        return 0;
    return (uint32_t)b->links.len;
}

/* ---- building ---------------------------------------------------------------------------- */

static void append(struct ll_redo_index *b, struct ll_hashmap *pages, uint64_t page,
                   uint32_t number)
{
    uint64_t *ends = ll_hashmap_find(pages, page);
    if (ends && link_at(b, number)->next & LINK_BASE) { /* redo needs no record before a base */
        give_back(b, *ends);
        *ends = ends_of(number, number);
    } else if (ends) {
        link_at(b, last_of(*ends))->next |= number;
        *ends = ends_of(first_of(*ends), number);
    } else if (ll_hashmap_put(pages, page, ends_of(number, number))) {
        lose(b);
    }
}

void ll_redo_index_add(struct ll_redo_index *b, const struct ll_record *rec, bool older)
{
    if (b->lost || !ll_redo_index_counts(rec) || rec->lsn.v < b->origin)
        return;
    struct ll_hashmap *pages = older ? &b->older : &b->pages;
    b->seen++;
    b->payload += ll_redo_index_payload(rec).len;
    while (has_share(b, rec->page) && !has_room(b, pages))
        shed(b);
    if (!has_share(b, rec->page))
        return;
    uint64_t at = (rec->lsn.v - b->origin) / RECORD_ALIGN;
    uint32_t number = at <= UINT32_MAX ? new_link(b) : 0;
    if (number == 0) {
        lose(b);
        return;
    }
    *link_at(b, number) = (struct link){(uint32_t)at, ll_redo_is_base(rec) ? LINK_BASE : 0};
    b->page_max = rec->page > b->page_max ? rec->page : b->page_max;
    b->record_max = rec->size > b->record_max ? rec->size : b->record_max;
    append(b, pages, rec->page, number);
}

struct lladd_span ll_redo_index_payload(const struct ll_record *rec)
{
    return rec->kind == LL_REC_CLR ? rec->undo : rec->redo;
}

void ll_redo_index_join(struct ll_redo_index *b)
{
    size_t at = 0;
    uint64_t page, ends;
    while (b->older.count && ll_redo_index_bytes(b) + cost(&b->pages, b->older.count) > b->budget)
        shed(b);
    while (!b->lost && ll_hashmap_next(&b->older, &at, &page, &ends)) {
        uint64_t *newer = ll_hashmap_find(&b->pages, page);
        if (newer && link_at(b, first_of(*newer))->next & LINK_BASE) {
            give_back(b, ends);
        } else if (newer) {
            link_at(b, last_of(ends))->next |= first_of(*newer);
            *newer = ends_of(first_of(ends), last_of(*newer));
        } else if (ll_hashmap_put(&b->pages, page, ends)) {
            lose(b);
        }
    }
    ll_hashmap_free(&b->older);
}

/* ---- use --------------------------------------------------------------------------------- */

bool ll_redo_index_mark(struct ll_redo_index *b, uint64_t page)
{
    uint64_t *ends = ll_hashmap_find(&b->pages, page);
    if (!ends || *ends & PAGE_MARKED)
        return false;
    *ends |= PAGE_MARKED;
    b->marked++;
    return true;
}

bool ll_redo_index_in_pass(const struct ll_redo_index *b, uint64_t page)
{
    const uint64_t *ends = ll_hashmap_find(&b->pages, page);
    return b->marked ? ends && *ends & PAGE_MARKED : !ends;
}

static void set_walk(const struct ll_redo_index *b, struct ll_redo_index_walk *w, uint32_t number)
{
    const struct link *l = link_at(b, number);
    w->lsn = lladd_lsn_of(b->origin + (uint64_t)l->at * RECORD_ALIGN);
    w->base = l->next & LINK_BASE;
    w->next = l->next & ~LINK_BASE;
}

bool ll_redo_index_find(const struct ll_redo_index *b, uint64_t page, struct ll_redo_index_walk *w)
{
    const uint64_t *ends = ll_hashmap_find(&b->pages, page);
    if (ends)
        set_walk(b, w, first_of(*ends));
    return ends != NULL;
}

bool ll_redo_index_next(const struct ll_redo_index *b, struct ll_redo_index_walk *w)
{
    if (w->next == 0)
        return false;
    set_walk(b, w, w->next);
    return true;
}

lladd_lsn ll_redo_index_newest(const struct ll_redo_index *b, uint64_t page)
{
    struct ll_redo_index_walk w = {0};
    const uint64_t *ends = ll_hashmap_find(&b->pages, page);
    if (ends)
        set_walk(b, &w, last_of(*ends));
    return w.lsn;
}
