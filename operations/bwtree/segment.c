/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments: extents of pages to which flushes append fragments. A page of a segment is written
 * once; a segment is freed when no address leads to it (BWT-4). Both changes of the list are system
 * transactions of their own. Its entries are in the store's page and in further pages.
 *
 *   entry  +0 u64 first page, 0: unused   +8 u64 number of pages
 *
 * The thread that flushes runs this code, and recovery.
 */
#include "operations/bwtree/stored.h"

/* Sizes in pages. A segment has an eighth of the pages of all others. */
enum { SMALLEST = 4, LARGEST_BYTES = 4 << 20, PART = 8 };

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the store of Bw-trees");
}

static struct bw_segment *segment_of(struct bw_store *store, uint64_t page)
{
    for (size_t i = 0; i < store->n_segments; i++) {
        struct bw_segment *g = &store->segments[i];
        if (page >= g->first.v && page - g->first.v < g->pages)
            return g;
    }
    return NULL;
}

void ll_bwtree__segment_moved(struct bw_store *store, uint64_t old, uint64_t at)
{
    struct bw_segment *g = old ? segment_of(store, bw_address_page(old)) : NULL;
    if (g)
        g->live--;
    g = at ? segment_of(store, bw_address_page(at)) : NULL;
    if (g)
        g->live++;
}

/* ---- reading the list ------------------------------------------------------------------------ */

static int add_segment(struct bw_store *store, struct bw_segment g)
{
    if (ll_operations__grow(store->db, &store->segments, store->n_segments + 1,
                            &store->cap_segments, sizeof *store->segments))
        return LLADD_NO_MEMORY;
    store->segments[store->n_segments++] = g;
    return 0;
}

static int read_list(struct bw_store *store, lladd_pageno page, unsigned char *body,
                     struct lladd_error *err)
{
    bool first = store->n_lists == 0;
    TRY(ll_bwtree__info_get(store->db, page, first ? BW_INFO_STORE : BW_INFO_SEGMENTS, body, err));
    if (ll_operations__grow(store->db, &store->lists, store->n_lists + 1, &store->cap_lists,
                            sizeof *store->lists))
        return no_memory(err);
    store->lists[store->n_lists++] = page;
    for (uint32_t i = 0; i < bw_entries_of(store->db); i++) {
        uint32_t at = BW_INFO_HEAD + i * BW_ENTRY;
        struct bw_segment g = {.first = lladd_page_of(lladd_get64(body + at)),
                               .listed = page,
                               .offset = at,
                               .pages = lladd_get64(body + at + 8)};
        if (g.first.v && add_segment(store, g))
            return no_memory(err);
    }
    return 0;
}

/* A fragment ends before the page that it returns. */
static uint64_t end_of(const struct bw_store *store, const struct bw_segment *g, uint64_t at)
{
    uint64_t body = lladd_body_size(lladd_page_size(store->db));
    if (bw_address_units(at) == BW_LONG)
        return g->pages;
    uint64_t bytes = bw_address_offset(at) + (uint64_t)bw_address_units(at) * 64;
    uint64_t end = bw_address_page(at) - g->first.v + (bytes + body - 1) / body;
    return end < g->pages ? end : g->pages;
}

/* Recovery knows all durable addresses, so the pages after the last live fragment of a segment have
 * nothing that a later recovery needs. They are written again. */
static int count_live(struct bw_store *store, const struct bw_stored *s, struct lladd_error *err)
{
    for (size_t i = 0; i < s->n_places; i++) {
        uint64_t at = s->places[i].at;
        struct bw_segment *g = at ? segment_of(store, bw_address_page(at)) : NULL;
        if (at && !g)
            return lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                   "page %zu of Bw-tree %llu is at page %llu, which is in no "
                                   "segment",
                                   i, (unsigned long long)s->id,
                                   (unsigned long long)bw_address_page(at));
        if (!at)
            continue;
        uint64_t end = end_of(store, g, at);
        g->live++;
        g->used = end > g->used ? end : g->used;
    }
    return 0;
}

int ll_bwtree__segments_read(struct bw_store *store, struct lladd_error *err)
{
    unsigned char *body;
    int rc = 0;
    store->n_segments = store->n_lists = store->current = 0;
    if (store->page.v == LLADD_NO_PAGE)
        return 0;
    body = lladd_mem_alloc(store->db, lladd_page_size(store->db));
    if (!body)
        return no_memory(err);
    for (uint64_t next = store->page.v; next && !rc; next = lladd_get64(body + BW_INFO_NEXT)) {
        rc = read_list(store, lladd_page_of(next), body, err);
        if (!rc && store->n_lists > lladd_page_count(store->db))
            rc = lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                 "the list of segments of Bw-trees does not end");
    }
    lladd_mem_free(store->db, body);
    for (const struct bw_stored *s = store->trees; s && !rc; s = s->next)
        rc = count_live(store, s, err);
    return rc;
}

/* ---- a new segment --------------------------------------------------------------------------- */

/* Finds an unused entry, in a new page if there is none. */
static int find_entry(struct bw_store *store, struct lladd_txn *txn, lladd_pageno *page,
                      uint32_t *offset)
{
    static const unsigned char own[BW_INFO_HEAD - BW_INFO_OWN];
    struct lladd_error *err = lladd_txn_error_out(txn);
    unsigned char *body = lladd_mem_alloc(store->db, lladd_page_size(store->db)), next[8];
    int rc = body ? 0 : no_memory(err);
    *offset = 0;
    for (size_t i = 0; i < store->n_lists && !rc && !*offset; i++) {
        *page = store->lists[i];
        rc = ll_bwtree__info_get(store->db, *page, i ? BW_INFO_SEGMENTS : BW_INFO_STORE, body, err);
        for (uint32_t k = 0; k < bw_entries_of(store->db) && !rc && !*offset; k++)
            if (!lladd_get64(body + BW_INFO_HEAD + k * BW_ENTRY))
                *offset = BW_INFO_HEAD + k * BW_ENTRY;
    }
    lladd_mem_free(store->db, body);
    if (rc || *offset)
        return rc;
    if (ll_operations__grow(store->db, &store->lists, store->n_lists + 1, &store->cap_lists,
                            sizeof *store->lists))
        return no_memory(err);
    lladd_pageno last = *page;
    TRY(ll_bwtree__info_new(txn, BW_INFO_SEGMENTS, own, page));
    lladd_put64(next, page->v);
    *offset = BW_INFO_HEAD;
    return ll_bwtree__info_put(txn, last, BW_INFO_NEXT, next, sizeof next, true);
}

static int allocate_in(struct bw_store *store, struct lladd_txn *txn, uint64_t pages,
                       struct bw_segment *g)
{
    unsigned char entry[BW_ENTRY];
    *g = (struct bw_segment){.pages = pages};
    TRY(lladd_extent_alloc(txn, pages, LLADD_EXTENT_BULK, &g->first));
    if ((g->first.v + pages) >> BW_PAGE_BITS)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_SPACE,
                               "page %llu is too high for the store of Bw-trees",
                               (unsigned long long)g->first.v);
    TRY(find_entry(store, txn, &g->listed, &g->offset));
    lladd_put64(entry, g->first.v);
    lladd_put64(entry + 8, pages);
    return ll_bwtree__info_put(txn, g->listed, g->offset, entry, sizeof entry, true);
}

/* The page of a new list is known only when its transaction has committed. */
static void note_list(struct bw_store *store, lladd_pageno page)
{
    for (size_t i = 0; i < store->n_lists; i++)
        if (store->lists[i].v == page.v)
            return;
    store->lists[store->n_lists++] = page;
}

static int allocate(struct bw_store *store, uint64_t least, struct lladd_txn *within,
                    struct lladd_error *err)
{
    uint64_t pages = 0, most = LARGEST_BYTES / lladd_page_size(store->db);
    struct lladd_txn *txn = within;
    struct bw_segment g;
    for (size_t i = 0; i < store->n_segments; i++)
        pages += store->segments[i].pages;
    pages /= PART;
    pages = pages > most ? most : pages < SMALLEST ? SMALLEST : pages;
    pages = pages < least ? least : pages;
    if (pages > lladd_extent_max(store->db))
        return lladd_error_set(err, LLADD_TOO_LARGE,
                               "a page of a Bw-tree needs %llu pages in the store, more than %llu",
                               (unsigned long long)pages,
                               (unsigned long long)lladd_extent_max(store->db));
    if (ll_operations__grow(store->db, &store->segments, store->n_segments + 1,
                            &store->cap_segments, sizeof *store->segments))
        return no_memory(err);
    if (!within)
        TRY(ll_bwtree__begin(store, &txn, err));
    int rc = allocate_in(store, txn, pages, &g);
    if (!within)
        rc = ll_bwtree__end(txn, rc, NULL, err);
    if (rc)
        return rc;
    note_list(store, g.listed);
    store->current = store->n_segments;
    return add_segment(store, g);
}

int ll_bwtree__segment_room(struct bw_store *store, uint64_t pages, bool may_allocate,
                            struct lladd_txn *within, struct lladd_error *err)
{
    for (size_t i = 0; i < store->n_segments; i++) {
        size_t k = (store->current + i) % store->n_segments;
        const struct bw_segment *g = &store->segments[k];
        if (g->pages - g->used >= pages) {
            store->current = k;
            return 0;
        }
    }
    if (may_allocate)
        return allocate(store, pages, within, err);
    return lladd_error_set(err, LLADD_NO_SPACE, "no segment of the store of Bw-trees has room");
}

/* ---- freeing --------------------------------------------------------------------------------- */

static int free_one(struct bw_store *store, const struct bw_segment *g, struct lladd_error *err)
{
    static const unsigned char unused[BW_ENTRY];
    struct lladd_txn *txn;
    TRY(ll_bwtree__begin(store, &txn, err));
    int rc = lladd_extent_free(txn, g->first, g->pages);
    if (!rc)
        rc = ll_bwtree__info_put(txn, g->listed, g->offset, unused, sizeof unused, true);
    return ll_bwtree__end(txn, rc, NULL, err);
}

/* A segment that has no pages written is kept for the next flush. The record that has emptied a
 * segment is in the log before the transaction that frees the segment, and the allocator gives its
 * pages out again when that is durable. */
int ll_bwtree__segments_free(struct bw_store *store, struct lladd_error *err)
{
    for (size_t i = store->n_segments; i-- > 0;) {
        if (store->segments[i].live || store->segments[i].used == 0 || i == store->current)
            continue;
        TRY(free_one(store, &store->segments[i], err));
        size_t last = --store->n_segments;
        store->segments[i] = store->segments[last];
        if (store->current == last)
            store->current = i;
    }
    return 0;
}

/* ---- map pages ------------------------------------------------------------------------------- */

static int grow_one(struct bw_stored *s, struct lladd_txn *txn, lladd_pageno *page)
{
    unsigned char own[BW_INFO_HEAD - BW_INFO_OWN] = {0}, next[8];
    lladd_pageno last = s->n_maps ? s->maps[s->n_maps - 1] : s->root;
    lladd_put64(own, s->id);
    lladd_put64(own + 8, s->n_maps);
    TRY(ll_bwtree__info_new(txn, BW_INFO_MAP, own, page));
    lladd_put64(next, page->v);
    return ll_bwtree__info_put(txn, last, BW_INFO_NEXT, next, sizeof next, true);
}

int ll_bwtree__maps_grow(struct bw_stored *s, struct lladd_error *err)
{
    struct bw_store *store = s->store;
    struct lladd_bwtree *t = lladd_atomic_load_ptr(&s->tree);
    uint64_t n = t ? lladd_atomic_load64(&t->next) : 0;
    n = n < s->n_places ? s->n_places : n;
    while (n > (uint64_t)s->n_maps * bw_entries_of(store->db)) {
        struct lladd_txn *txn;
        lladd_pageno page;
        if (ll_operations__grow(store->db, &s->maps, s->n_maps + 1, &s->cap_maps, sizeof *s->maps))
            return no_memory(err);
        TRY(ll_bwtree__begin(store, &txn, err));
        TRY(ll_bwtree__end(txn, grow_one(s, txn, &page), NULL, err));
        s->maps[s->n_maps++] = page;
    }
    return 0;
}
