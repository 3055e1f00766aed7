/* SPDX-License-Identifier: BSD-2-Clause */
/* Free space of heaps.
 *
 * The inventory pages (page.c) say which pages a heap has, and roughly how much room each has.
 * In memory every heap in use has
 *
 *   - a pool: pages with room. An insert marks a page of the pool as busy until it has stored its
 *     record, so concurrent inserts use different pages.
 *   - a pass: a walk through the inventory in search of pages with room. A pass advances when the
 *     pool has no page with enough room. A new pass begins only if all passes so far have visited
 *     no more entries than records were stored. The limit is four times as high if, since the last
 *     pass began, room was freed or a page with room left the pool. So a stored record costs few
 *     visits, on average.
 *
 * If neither finds room, the heap grows by an eighth of its pages, 1 to 32. It grows in a nested
 * top action: other transactions use the new pages immediately, so the new pages stay even if this
 * transaction rolls back. The transaction that creates the heap makes no passes. It grows the heap
 * with ordinary updates, because its rollback must remove the heap with all its pages. No other
 * transaction uses the heap before the commit. A rollback to a savepoint may remove pages, so the
 * creating transaction checks each page of the pool before it uses the page.
 *
 * Threads: heap->grow, one for each heap, protects the pass and is held while the heap grows.
 * The leaf heaps.mutex protects the pools, and the table of heaps (memory.c). */
#include "operations/heap/heap.h"

#define GROW_MAX 32u
#define POOL_MAX 64u /* a pool gets larger only if all its pages are busy */
#define ROOM_MIN (SLOT_BYTES + 2 * SLOT_CAP_MIN) /* the pool keeps no page with less room */

/* ---- the pool -------------------------------------------------------------------------------- */

static uint32_t room_for(uint32_t len)
{
    return slot_need(len) + SLOT_BYTES;
}

static struct ll_pool_page *pool_find(struct lladd_heap *h, lladd_pageno page)
{
    for (uint32_t i = 0; i < h->n_pool; i++)
        if (h->pool[i].page.v == page.v)
            return &h->pool[i];
    return NULL;
}

/* Takes a page that is not busy and has at least `need` bytes; makes it busy. */
static bool pool_take(struct ll_operations *ops, struct lladd_heap *h, uint32_t need,
                      struct ll_pool_page *out)
{
    bool found = false;
    lladd_mutex_lock(&ops->heaps.mutex);
    for (uint32_t i = h->n_pool; i-- > 0 && !found;) {
        found = !h->pool[i].busy && h->pool[i].room >= need;
        if (found) {
            h->pool[i].busy = true;
            *out = h->pool[i];
        }
    }
    lladd_mutex_unlock(&ops->heaps.mutex);
    return found;
}

/* A place for one more page in the pool. If the pool is full: the place of the page with the least
 * room that is not busy; a later pass finds that page again. NULL: out of memory. */
static struct ll_pool_page *pool_add(struct ll_operations *ops, struct lladd_heap *h)
{
    uint32_t least = h->n_pool;
    for (uint32_t i = 0; i < h->n_pool && h->n_pool >= POOL_MAX; i++)
        if (!h->pool[i].busy && (least == h->n_pool || h->pool[i].room < h->pool[least].room))
            least = i;
    if (least < h->n_pool) {
        h->gained = true;
        return &h->pool[least];
    }
    if (ll_operations__grow(ops->db, &h->pool, h->n_pool + 1, &h->cap_pool, sizeof *h->pool)) {
        h->gained = true;
        return NULL;
    }
    return &h->pool[h->n_pool++];
}

/* Marks a page that a pass or growing has found as busy. False: another insert uses the page. */
static bool pool_claim(struct ll_operations *ops, struct lladd_heap *h, struct ll_pool_page p)
{
    lladd_mutex_lock(&ops->heaps.mutex);
    struct ll_pool_page *there = pool_find(h, p.page);
    bool free = !there || !there->busy;
    if (free && !there)
        there = pool_add(ops, h);
    if (free && there) {
        *there = p;
        there->busy = true;
    }
    lladd_mutex_unlock(&ops->heaps.mutex);
    return free;
}

/* Puts a page into the pool, or updates it there: not busy, with its present room. Removes a page
 * with less than ROOM_MIN. `placed`: the number of records that the caller has stored. */
static void pool_put(struct ll_operations *ops, struct lladd_heap *h, struct ll_pool_page p,
                     unsigned placed)
{
    lladd_mutex_lock(&ops->heaps.mutex);
    h->placed += placed;
    struct ll_pool_page *there = pool_find(h, p.page);
    if (!there && p.room >= ROOM_MIN)
        there = pool_add(ops, h);
    p.busy = false;
    if (there && p.room >= ROOM_MIN)
        *there = p;
    else if (there)
        *there = h->pool[--h->n_pool];
    lladd_mutex_unlock(&ops->heaps.mutex);
}

/* ---- inventory ------------------------------------------------------------------------------- */

static int fix_inventory(struct lladd_db *db, lladd_pageno n, lladd_pageno heap,
                         struct lladd_page **out, struct lladd_error *err)
{
    int rc = ll_operations__fix(db, n, ll_operations__heap_page.name, LLADD_LATCH_SHARED, out, err);
    if (rc || ll_inventory_heap(lladd_page_view(*out)).v == heap.v)
        return rc;
    lladd_page_unfix(db, *out, LLADD_LATCH_SHARED);
    return ll_operations__on(err, n,
                             lladd_error_set(err, LLADD_WRONG_TYPE,
                                             "page %llu does not belong to heap %llu",
                                             (unsigned long long)n.v, (unsigned long long)heap.v));
}

int ll_operations__heap_member(struct lladd_db *db, lladd_pageno heap, lladd_pageno page,
                               uint64_t owner, struct lladd_error *err)
{
    struct lladd_page *inv;
    uint32_t index = (uint32_t)(owner & UINT16_MAX);
    int rc = owner >> 16 ? fix_inventory(db, ll_heap_owner_page(owner), heap, &inv, err)
                         : LLADD_WRONG_TYPE;
    bool fine = false;
    if (!rc) {
        struct lladd_view v = lladd_page_view(inv);
        fine = index < ll_operations__inventory_count(v) &&
               ll_operations__inventory_entry(v, index).page.v == page.v;
        lladd_page_unfix(db, inv, LLADD_LATCH_SHARED);
    }
    if (fine || (rc && rc != LLADD_WRONG_TYPE))
        return rc;
    return ll_operations__on(
        err, page,
        lladd_error_set(err, LLADD_OUT_OF_RANGE, "page %llu is not in heap %llu",
                        (unsigned long long)page.v, (unsigned long long)heap.v));
}

static uint32_t hint_of(uint32_t page_size, uint32_t bytes)
{
    uint32_t hint = bytes / (page_size / 256);
    return hint < UINT8_MAX ? hint : UINT8_MAX;
}

/* May a page with this hint have `need` bytes of room? */
static bool hint_promises(uint32_t page_size, uint32_t hint, uint32_t need)
{
    return hint == UINT8_MAX || (hint + 1) * (page_size / 256) > need;
}

/* Begins a new pass if one is due. The caller holds `grow`. */
static bool pass_begin(struct ll_operations *ops, struct lladd_heap *h)
{
    lladd_mutex_lock(&ops->heaps.mutex);
    h->passing = h->visited <= (h->gained ? 4 * h->placed : h->placed);
    h->gained = h->gained && !h->passing;
    lladd_mutex_unlock(&ops->heaps.mutex);
    h->at = h->root;
    h->index = 0;
    h->seen = 0;
    return h->passing;
}

/* Advances to the next page that is not busy and may have `need` bytes according to its hint;
 * LLADD_END at the end of the inventory. */
static int pass_on(struct ll_operations *ops, struct lladd_heap *h, uint32_t need,
                   struct ll_pool_page *out, struct lladd_error *err)
{
    uint64_t pages = 0;
    while (h->passing) {
        struct lladd_page *page;
        if (++pages > lladd_page_count(ops->db)) {
            h->passing = false;
            return ll_operations__heap_endless(err, h->root);
        }
        TRY(fix_inventory(ops->db, h->at, h->root, &page, err));
        struct lladd_view v = lladd_page_view(page);
        uint32_t count = ll_operations__inventory_count(v);
        bool found = false;
        for (; h->index < count && !found; h->index++, h->seen++, h->visited++) {
            struct ll_inventory_entry e = ll_operations__inventory_entry(v, h->index);
            *out = (struct ll_pool_page){e.page, ll_heap_owner(h->at, h->index), 0, e.hint, true};
            found = hint_promises(v.size, e.hint, need) && pool_claim(ops, h, *out);
        }
        lladd_pageno next = ll_inventory_next(v);
        lladd_page_unfix(ops->db, page, LLADD_LATCH_SHARED);
        if (found)
            return 0;
        h->last = h->at;
        h->at = next;
        h->index = 0;
        h->passing = next.v != 0 && h->seen <= lladd_page_count(ops->db);
    }
    h->entries = h->seen;
    return LLADD_END;
}

/* Continues the present pass, then tries one new pass if one is due. LLADD_END: no page found. The
 * caller holds `grow`. */
static int pass(struct ll_operations *ops, struct lladd_heap *h, uint32_t need,
                struct ll_pool_page *out, struct lladd_error *err)
{
    int rc = LLADD_END;
    if (h->passing)
        rc = pass_on(ops, h, need, out, err);
    if (rc == LLADD_END && pass_begin(ops, h))
        rc = pass_on(ops, h, need, out, err);
    return rc;
}

int ll_operations__heap_endless(struct lladd_error *err, lladd_pageno heap)
{
    return ll_operations__on(err, heap,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "the inventory of heap %llu does not end",
                                             (unsigned long long)heap.v));
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Finds the last inventory page, from `from` on, and its number of entries. */
static int find_last(struct lladd_db *db, struct lladd_heap *h, lladd_pageno from,
                     lladd_pageno *last, uint32_t *count, struct lladd_error *err)
{
    for (uint64_t steps = 0; steps <= lladd_page_count(db); steps++) {
        struct lladd_page *page;
        TRY(fix_inventory(db, from, h->root, &page, err));
        lladd_pageno next = ll_inventory_next(lladd_page_view(page));
        *count = ll_operations__inventory_count(lladd_page_view(page));
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        *last = from;
        if (next.v == 0)
            return 0;
        from = next;
    }
    return ll_operations__heap_endless(err, h->root);
}

static int add_inventory(struct lladd_txn *txn, struct lladd_heap *h, lladd_pageno *last,
                         uint32_t *count)
{
    unsigned char bytes[8];
    lladd_pageno fresh;
    int rc = lladd_page_alloc(txn, &fresh);
    lladd_put64(bytes, h->root.v);
    if (!rc)
        rc = lladd_update(txn, LL_OP_HEAP_FORMAT, fresh, bytes, sizeof bytes);
    lladd_put64(bytes, fresh.v);
    if (!rc)
        rc = lladd_update(txn, LL_OP_HEAP_LINK, *last, bytes, sizeof bytes);
    *last = fresh;
    *count = 0;
    return rc;
}

/* Adds up to *n pages to the heap. On return *n is the number of pages added. */
static int add_pages(struct lladd_txn *txn, struct lladd_heap *h, lladd_pageno *last, uint32_t *n,
                     struct ll_pool_page *out)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t count = 0, max = ll_inventory_max(lladd_page_size(db));
    lladd_pageno first;
    TRY(find_last(db, h, *last, last, &count, lladd_txn_error_out(txn)));
    if (count == max)
        TRY(add_inventory(txn, h, last, &count));
    *n = *n < max - count ? *n : max - count;
    int rc = lladd_extent_alloc(txn, *n, LLADD_EXTENT_PAGED, &first);
    if (rc == LLADD_NO_SPACE && *n > 1) {
        *n = 1;
        rc = lladd_extent_alloc(txn, 1, LLADD_EXTENT_PAGED, &first);
    }
    for (uint32_t i = 0; i < *n && !rc; i++) {
        lladd_pageno page = lladd_page_of(first.v + i);
        uint64_t owner = ll_heap_owner(*last, count + i);
        rc = lladd_slotted_format(txn, page, owner);
        out[i] = (struct ll_pool_page){.page = page,
                                       .owner = owner,
                                       .room = lladd_page_size(db) - SLOT_DIR,
                                       .hint = UINT8_MAX};
    }
    struct ll_heap_append a = {first, *n, count};
    return rc ? rc : lladd_update(txn, LL_OP_HEAP_APPEND, *last, &a, sizeof a);
}

/* Adds pages to the heap; *out gets the first. The caller holds `grow`. */
static int grow(struct lladd_txn *txn, struct ll_operations *ops, struct lladd_heap *h,
                bool creator, struct ll_pool_page *out)
{
    lladd_pageno last = creator || h->last.v == LLADD_NO_PAGE ? h->root : h->last;
    uint32_t n = h->entries / 8 < 1          ? 1
                 : h->entries / 8 > GROW_MAX ? GROW_MAX
                                             : (uint32_t)h->entries / 8;
    struct ll_pool_page fresh[GROW_MAX];
    struct lladd_action action;
    lladd_savepoint_id before;
    TRY(creator ? lladd_savepoint(txn, &before) : lladd_nta_begin(txn, &action));
    int rc = add_pages(txn, h, &last, &n, fresh);
    TRY(creator ? ll_operations__step_end(txn, before, rc)
                : ll_operations__action_end(txn, &action, rc, LLADD_NO_OP, NULL, 0));
    if (!creator)
        h->last = last;
    h->entries += n;
    while (n-- > 1)
        pool_put(ops, h, fresh[n], 0);
    *out = fresh[0];
    out->busy = pool_claim(ops, h, fresh[0]);
    return 0;
}

/* ---- placing --------------------------------------------------------------------------------- */

/* Finds a page that may have room: in the pool, by a pass, or by growing the heap. */
static int candidate(struct lladd_txn *txn, struct ll_operations *ops, struct lladd_heap *h,
                     uint32_t need, struct ll_pool_page *out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    bool creator = ll_operations__heap_is_creator(txn, h);
    int rc = LLADD_END;
    while (pool_take(ops, h, need, out)) {
        rc = creator ? ll_operations__heap_member(ops->db, h->root, out->page, out->owner, err) : 0;
        if (!rc)
            return 0;
        out->room = 0;
        pool_put(ops, h, *out, 0);
        if (rc != LLADD_OUT_OF_RANGE)
            return rc;
    }
    lladd_mutex_lock(&h->grow);
    rc = LLADD_END;
    if (!creator)
        rc = pool_take(ops, h, need, out) ? 0 : pass(ops, h, need, out, err);
    if (rc == LLADD_END)
        rc = grow(txn, ops, h, creator, out);
    lladd_mutex_unlock(&h->grow);
    return rc;
}

/* The page had too little room. If the ghosts and slack of the page may later give enough room,
 * keeps the page's hint, so that a later pass visits the page again. Otherwise lowers the hint. */
static int disappointed(struct lladd_txn *txn, struct ll_operations *ops, struct lladd_heap *h,
                        const struct ll_pool_page *p, uint32_t need,
                        const struct ll_slotted_state *s)
{
    uint32_t page_size = lladd_page_size(ops->db);
    struct ll_heap_hint a = {(uint32_t)(p->owner & UINT16_MAX),
                             hint_of(page_size, s->free + s->idle)};
    if (s->free + s->idle >= need) {
        lladd_mutex_lock(&ops->heaps.mutex);
        h->gained = true;
        lladd_mutex_unlock(&ops->heaps.mutex);
        return 0;
    }
    if (a.hint >= p->hint)
        return 0;
    int rc = lladd_update(txn, LL_OP_HEAP_HINT, ll_heap_owner_page(p->owner), &a, sizeof a);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int ll_operations__heap_place(struct lladd_txn *txn, struct lladd_heap *h,
                              struct ll_slotted_alloc *a, struct lladd_rid *out)
{
    struct ll_operations *ops = h->ops;
    uint32_t need = room_for(a->len);
    struct ll_pool_page p;
    for (;;) {
        TRY(candidate(txn, ops, h, need, &p));
        int rc = ll_operations__record_store(txn, p.page, a);
        p.room = rc && rc != LLADD_PAGE_FULL ? 0 : a->state.free;
        pool_put(ops, h, p, rc == 0);
        if (!rc)
            break;
        if (rc == LLADD_PAGE_FULL)
            rc = disappointed(txn, ops, h, &p, need, &a->state);
        if (rc)
            return rc;
    }
    *out = (struct lladd_rid){p.page, a->slot, a->len};
    return 0;
}

int ll_operations__heap_gained(struct lladd_txn *txn, struct lladd_heap *h,
                               const struct ll_slotted_state *s)
{
    struct ll_operations *ops = h->ops;
    uint32_t page_size = lladd_page_size(ops->db), now = hint_of(page_size, s->free + s->idle);
    struct ll_heap_hint a = {(uint32_t)(s->owner & UINT16_MAX), now};
    struct lladd_page *page;
    uint32_t hint = now;
    TRY(fix_inventory(ops->db, ll_heap_owner_page(s->owner), h->root, &page,
                      lladd_txn_error_out(txn)));
    if (a.index < ll_operations__inventory_count(lladd_page_view(page)))
        hint = ll_operations__inventory_entry(lladd_page_view(page), a.index).hint;
    lladd_page_unfix(ops->db, page, LLADD_LATCH_SHARED);
    lladd_mutex_lock(&ops->heaps.mutex);
    h->gained = true;
    lladd_mutex_unlock(&ops->heaps.mutex);
    if (now < hint + 32 || hint == UINT8_MAX)
        return 0; /* only a gain of an eighth of a page is worth a log record */
    int rc = lladd_update(txn, LL_OP_HEAP_HINT, ll_heap_owner_page(s->owner), &a, sizeof a);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}
