/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists: looking up items, walks, checks. See list.c. */
#include "operations/heap/heap.h"
#include "operations/list/list.h"

#include <string.h>

#define TRIES 64   /* attempts to follow links that other threads change */
#define ROUNDS 256 /* a walk that meets one item this often reports a ring */

/* ---- lookups --------------------------------------------------------------------------------- */

int ll_operations__list_no_item(struct lladd_error *err, struct lladd_item item)
{
    return ll_operations__on(err, item.page,
                             lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                             "there is no such item in slot %u of page %llu",
                                             LINK_SLOT(item), (unsigned long long)item.page.v));
}

static int broken(struct lladd_error *err, const struct lladd_list *l, struct lladd_item item)
{
    return ll_operations__on(err, item.page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE,
                                             "the list of page %llu has broken links at slot "
                                             "%u of page %llu",
                                             (unsigned long long)l->root.v, LINK_SLOT(item),
                                             (unsigned long long)item.page.v));
}

int ll_operations__list_root(struct lladd_db *db, lladd_pageno root, struct lladd_page **out,
                             struct lladd_error *err)
{
    enum lladd_page_use use;
    TRY(lladd_page_use_get(db, root, &use, err));
    TRY(ll_operations__fix(db, root, ll_operations__list_page.name, LLADD_LATCH_SHARED, out, err));
    if (use == LLADD_USE_PAGED)
        return 0;
    lladd_page_unfix(db, *out, LLADD_LATCH_SHARED);
    return ll_operations__on(err, root,
                             lladd_error_set(err, LLADD_DESTROYED,
                                             "the list of page %llu has been destroyed",
                                             (unsigned long long)root.v));
}

int ll_operations__list_look_root(struct lladd_db *db, lladd_pageno root, struct ll_list_ends *ends,
                                  lladd_pageno *heap, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(ll_operations__list_root(db, root, &page, err));
    *ends = ll_list_ends_of(page->bytes);
    *heap = lladd_page_of(ll_list_heaps_on(page->bytes) ? ll_list_heap_at(page->bytes, 0)
                                                        : LLADD_NO_PAGE);
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

int ll_operations__list_look_item(struct lladd_db *db, struct lladd_item item,
                                  struct ll_list_look *out, struct ll_list_copy *copy,
                                  struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    int rc = ll_operations__fix(db, item.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                                &page, err);
    if (rc)
        return rc == LLADD_WRONG_TYPE || rc == LLADD_OUT_OF_RANGE ? LLADD_NOT_FOUND : rc;
    struct lladd_view v = lladd_page_view(page);
    if (ll_operations__list_find(v, item, &r)) {
        *out = (struct ll_list_look){ll_list_item(r.bytes + ITEM_PREV),
                                     ll_list_item(r.bytes + ITEM_NEXT), r.bytes[ITEM_GONE] != 0,
                                     lladd_slotted_owner(v), r.len - ITEM_BYTES};
        size_t n = copy && !out->gone ? (out->len < copy->size ? out->len : copy->size) : 0;
        if (n)
            memcpy(copy->buf, r.bytes + ITEM_BYTES, n);
        if (copy && copy->is && !out->gone)
            copy->yes = copy->is(copy->ctx, lladd_span_of(r.bytes + ITEM_BYTES, out->len));
    } else {
        rc = LLADD_NOT_FOUND;
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}

int ll_operations__list_heap_of(struct lladd_db *db, uint64_t owner, lladd_pageno *heap,
                                struct lladd_error *err)
{
    struct lladd_page *page;
    if (owner >> 16 == 0)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "an item's page belongs to no heap");
    TRY(ll_operations__fix(db, ll_heap_owner_page(owner), ll_operations__heap_page.name,
                           LLADD_LATCH_SHARED, &page, err));
    *heap = ll_inventory_heap(lladd_page_view(page));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

int ll_operations__list_look_own(const struct lladd_list *l, struct lladd_item item,
                                 struct ll_list_look *out, struct ll_list_copy *copy,
                                 struct lladd_error *err)
{
    struct lladd_db *db = l->lists->db;
    struct lladd_page *page;
    lladd_pageno heap = {0};
    bool own = false;
    TRY(ll_operations__list_root(db, l->root, &page, err));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    int rc = ll_list_none(item) ? LLADD_NOT_FOUND
                                : ll_operations__list_look_item(db, item, out, copy, err);
    if (!rc)
        rc = ll_operations__list_heap_of(db, out->owner, &heap, err);
    if (rc)
        return rc == LLADD_NOT_FOUND || rc == LLADD_WRONG_TYPE
                   ? ll_operations__list_no_item(err, item)
                   : rc;
    TRY(ll_operations__list_root(db, l->root, &page, err));
    for (uint32_t i = 0; i < ll_list_heaps_on(page->bytes) && !own; i++)
        own = ll_list_heap_at(page->bytes, i) == heap.v;
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return own ? 0 : ll_operations__list_no_item(err, item);
}

/* ---- reading --------------------------------------------------------------------------------- */

int lladd_list_get(struct lladd_list *l, struct lladd_item item, void *buf, size_t size,
                   size_t *len, struct lladd_error *err)
{
    struct ll_list_copy copy = {.buf = buf, .size = size};
    struct ll_list_look it;
    TRY(ll_operations__list_look_own(l, item, &it, &copy, err));
    if (it.gone)
        return ll_operations__list_no_item(err, item);
    if (len)
        *len = it.len;
    return 0;
}

/* The position of a walk. */
struct walk {
    struct lladd_item at; /* LLADD_ITEM_NONE: before the first */
    struct lladd_item next;
    struct ll_list_look it; /* the item `at`, as it was read */
    /* To detect a ring. mark: the item at the last step with a number that is a power of two; met:
     * the number of times that the walk has met `mark` since. */
    struct lladd_item mark;
    uint64_t steps;
    int met;
};
#define WALK ((struct walk){.at = LLADD_ITEM_NONE, .mark = LLADD_ITEM_NONE})

/* Starts a walk after item `at`; LLADD_ITEM_NONE: at the first item. */
static int walk_begin(struct lladd_list *l, struct walk *w, struct lladd_item at,
                      struct lladd_error *err)
{
    struct ll_list_ends ends;
    lladd_pageno heap;
    w->at = at;
    if (ll_list_none(at)) {
        TRY(ll_operations__list_look_root(l->lists->db, l->root, &ends, &heap, err));
        w->next = ends.first;
    } else {
        TRY(ll_operations__list_look_own(l, at, &w->it, NULL, err));
        w->next = w->it.next;
    }
    return 0;
}

/* Do the links form a ring? A walk that starts again, or meets a reused id, may pass an item more
 * than once, but hardly ROUNDS times. */
static bool goes_round(struct walk *w)
{
    if (ll_list_same(w->at, w->mark) && ++w->met == ROUNDS)
        return true;
    w->steps++;
    if ((w->steps & (w->steps - 1)) == 0) {
        w->mark = w->at;
        w->met = 0;
    }
    return false;
}

/* Goes to the next item in the chain, removed or not; LLADD_END after the last item. Starts again
 * after `from` if the link does not lead to its item any more. */
static int walk_step(struct lladd_list *l, struct walk *w, struct lladd_item from,
                     struct ll_list_copy *copy, struct lladd_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        struct lladd_item next = w->next;
        if (ll_list_none(next))
            return LLADD_END;
        int rc = ll_operations__list_look_item(l->lists->db, next, &w->it, copy, err);
        if (!rc) {
            w->at = next;
            w->next = w->it.next;
            return goes_round(w) ? broken(err, l, next) : 0;
        }
        if (rc != LLADD_NOT_FOUND)
            return rc;
        TRY(walk_begin(l, w, from, err));
    }
    return broken(err, l, w->next);
}

int lladd_list_next(struct lladd_list *l, struct lladd_item at, struct lladd_item *out, void *buf,
                    size_t size, size_t *len, struct lladd_error *err)
{
    struct ll_list_copy copy = {.buf = buf, .size = size};
    struct walk w = WALK;
    TRY(walk_begin(l, &w, at, err));
    do
        TRY(walk_step(l, &w, at, &copy, err));
    while (w.it.gone);
    *out = w.at;
    if (len)
        *len = w.it.len;
    return 0;
}

/* Walks from `from` over the items that are not removed, up to the first item that `is` accepts or
 * to the end (LLADD_END). *n becomes the number of items passed, and *out the last of these items.
 * LLADD_BUSY: item *out was swept, so the walk could not continue after it; the caller starts
 * again. */
static int walk_once(struct lladd_list *l, struct lladd_item from, struct ll_list_copy *copy,
                     uint64_t *n, struct lladd_item *out, struct lladd_error *err)
{
    struct walk w = WALK;
    struct lladd_item at = from;
    int rc = walk_begin(l, &w, at, err);
    *n = 0;
    while (!rc && (rc = walk_step(l, &w, at, copy, err)) == 0) {
        if (w.it.gone)
            continue;
        at = w.at;
        ++*n;
        if (copy && copy->yes)
            break;
    }
    *out = at;
    return rc == LLADD_OUT_OF_RANGE && !ll_list_same(at, from) ? LLADD_BUSY : rc;
}

static int walk_all(struct lladd_list *l, struct lladd_item from, struct ll_list_copy *copy,
                    uint64_t *n, struct lladd_item *out, struct lladd_error *err)
{
    struct lladd_item before = LLADD_ITEM_NONE;
    /* A new walk does not meet the swept item again. If walks keep failing after the same item, the
     * chain is damaged. */
    for (int same = 0; same < TRIES; same++) {
        int rc = walk_once(l, from, copy, n, out, err);
        if (rc != LLADD_BUSY)
            return rc;
        same = ll_list_same(*out, before) ? same : 0;
        before = *out;
    }
    return broken(err, l, before);
}

int lladd_list_find(struct lladd_list *l, struct lladd_item at,
                    bool (*is)(void *ctx, struct lladd_span item), void *ctx,
                    struct lladd_item *out, struct lladd_error *err)
{
    struct ll_list_copy copy = {.is = is, .ctx = ctx};
    struct lladd_item got;
    uint64_t n;
    int rc = walk_all(l, at, &copy, &n, &got, err);
    if (rc == LLADD_END)
        return lladd_error_set(err, LLADD_NOT_FOUND, "no item matches");
    if (!rc)
        *out = got;
    return rc;
}

int lladd_list_count(struct lladd_list *l, uint64_t *out, struct lladd_error *err)
{
    struct lladd_item last;
    uint64_t n;
    int rc = walk_all(l, LLADD_ITEM_NONE, NULL, &n, &last, err);
    if (rc != LLADD_END)
        return rc;
    *out = n;
    return 0;
}

/* ---- the whole structure --------------------------------------------------------------------- */

static int heap_pages(struct lladd_db *db, lladd_pageno heap, int (*fn)(void *ctx, lladd_pageno),
                      void *ctx, struct lladd_error *err)
{
    uint64_t pages = 0;
    for (lladd_pageno at = heap, next; at.v; at = next) {
        uint32_t count = 1;
        if (++pages > lladd_page_count(db))
            return ll_operations__heap_endless(err, heap);
        TRY(fn(ctx, at));
        for (uint32_t i = 0; i < count || i == 0; i++) {
            struct lladd_page *page;
            lladd_pageno entry = {0};
            TRY(ll_operations__fix(db, at, ll_operations__heap_page.name, LLADD_LATCH_SHARED, &page,
                                   err));
            struct lladd_view v = lladd_page_view(page);
            count = ll_operations__inventory_count(v);
            next = ll_inventory_next(v);
            if (i < count)
                entry = ll_operations__inventory_entry(v, i).page;
            lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
            TRY(i < count ? fn(ctx, entry) : 0);
        }
    }
    return 0;
}

static int each_heap(struct lladd_list *l,
                     int (*fn)(void *ctx, struct lladd_list *, lladd_pageno, struct lladd_error *),
                     void *ctx, struct lladd_error *err)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_page *page;
        TRY(ll_operations__list_root(l->lists->db, l->root, &page, err));
        lladd_pageno heap = lladd_page_of(ll_list_heap_at(page->bytes, i));
        n = ll_list_heaps_on(page->bytes);
        lladd_page_unfix(l->lists->db, page, LLADD_LATCH_SHARED);
        TRY(i < n ? fn(ctx, l, heap, err) : 0);
    }
    return 0;
}

struct pages_of {
    int (*fn)(void *ctx, lladd_pageno);
    void *ctx;
};

static int give_heap(void *ctx, struct lladd_list *l, lladd_pageno heap, struct lladd_error *err)
{
    struct pages_of *p = ctx;
    return heap_pages(l->lists->db, heap, p->fn, p->ctx, err);
}

int lladd_list_pages(struct lladd_list *l, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                     struct lladd_error *err)
{
    struct pages_of p = {fn, ctx};
    struct lladd_page *page;
    TRY(ll_operations__list_root(l->lists->db, l->root, &page, err));
    lladd_page_unfix(l->lists->db, page, LLADD_LATCH_SHARED);
    TRY(fn(ctx, l->root));
    return each_heap(l, give_heap, &p, err);
}

static int count_records(void *ctx, struct lladd_list *l, lladd_pageno heap,
                         struct lladd_error *err)
{
    struct lladd_heap_cursor c;
    struct lladd_record r;
    struct lladd_heap *h;
    struct lladd_rid rid;
    int rc;
    TRY(ll_operations__heap_at(l->lists->db, heap, &h, err));
    lladd_heap_cursor_open(h, &c);
    while ((rc = lladd_heap_cursor_next(&c, &rid, &r, err)) == 0)
        ++*(uint64_t *)ctx;
    lladd_heap_cursor_close(&c);
    return rc == LLADD_END ? 0 : rc;
}

/* Checks that every link has its counterpart, and that every record of the heaps is in the chain.
 * The caller makes sure that no other thread changes the list. */
int lladd_list_check(struct lladd_list *l, struct lladd_error *err)
{
    struct lladd_item at = LLADD_ITEM_NONE, before = at;
    struct ll_list_ends ends;
    struct walk w = WALK;
    lladd_pageno heap;
    uint64_t linked = 0, stored = 0;
    TRY(each_heap(l, count_records, &stored, err));
    int rc = walk_begin(l, &w, at, err);
    while (!rc && (rc = walk_step(l, &w, at, NULL, err)) == 0) {
        if (!ll_list_same(w.it.prev, before) || ++linked > stored)
            return broken(err, l, w.at);
        before = w.at;
    }
    if (rc != LLADD_END)
        return rc;
    TRY(ll_operations__list_look_root(l->lists->db, l->root, &ends, &heap, err));
    return linked == stored && ll_list_same(ends.last, before) ? 0 : broken(err, l, ends.last);
}
