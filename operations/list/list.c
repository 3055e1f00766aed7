/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists, the calls (LLADD paper, section 4.1 and Figure "Linear Hash Table Bucket operations").
 *
 * Items are records of a heap (heap.c), which finds room for them and keeps their ids. Each item
 * has the ids of its predecessor and its successor. The root page has the ids of the first and
 * the last item.
 *
 * An *insertion* takes the three steps of the paper's figure: (1) store the item with its links;
 * (2) link the predecessor to the item; (3) link the successor to the item. If there is no
 * predecessor or successor, the root page is linked to the item instead. After each step a reader
 * can follow the chain. The three steps form a nested top action with a logical undo, "remove this
 * item". Undo does not restore links, because other transactions may have inserted items next to
 * this one. (The paper logs an undo-only record first. Here that record would name a slot before
 * the item is stored there, and an early undo could remove another item from that slot.)
 *
 * A *removal* changes one byte: it marks the item. A marked item stays in the chain at least until
 * the transaction has ended. Undo therefore needs no room and does not depend on the item's
 * neighbours, and transactions that remove neighbours do not conflict. A later insertion or removal
 * next to a marked item *sweeps* that item if no transaction reserves it (reservation.c): a nested
 * top action unlinks the item and frees its record. Undo of an insertion also leaves a marked item.
 *
 * If a transaction creates or splices a list, other transactions must not use the list until that
 * transaction has ended. The insertions of that transaction are ordinary updates, which roll back
 * one by one, because links must not outlive the pages or the order that they belong to. A
 * transaction that creates or splices does not sweep.
 *
 * Readers latch one page at a time. When a reader follows a link, the slot may have got another
 * item meanwhile. Then `turn` in the item differs from `turn` in the link, unless the 16-bit
 * counter has wrapped around. A reader that sees a difference starts again from the item that its
 * caller has passed.
 *
 * Threads: a thread that changes links holds `change`, one for each list, also during I/O.
 * Readers, and changes of marks and of items' bytes, do not take it. */
#include "operations/heap/heap.h"
#include "operations/list/list.h"

#include <string.h>

#define SWEEP 4u   /* the most items that one call sweeps on each side */
#define SHORT 512u /* items up to this length are assembled on the stack */

/* ---- changing links -------------------------------------------------------------------------- */

static int check_handles(struct lladd_txn *txn, const struct lladd_list *l)
{
    if (lladd_txn_db(txn) == l->lists->db)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_OTHER_DATABASE,
                           "the list is of another database than the transaction");
}

/* Makes `to` the successor (ITEM_NEXT) or predecessor (ITEM_PREV) of `at`. Makes `to` the first or
 * the last item of the list if `at` is LLADD_ITEM_NONE. */
static int set_neighbour(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item at,
                         unsigned which, struct lladd_item to)
{
    struct ll_list_link a = {at, to, which};
    struct ll_list_ends ends;
    lladd_pageno heap;
    if (!ll_list_none(at))
        return lladd_update(txn, ll_operations__list_id(l->lists, LL_LIST_LINK), at.page, &a,
                            sizeof a);
    TRY(ll_operations__list_look_root(l->lists->db, l->root, &ends, &heap,
                                      lladd_txn_error_out(txn)));
    *(which == ITEM_NEXT ? &ends.first : &ends.last) = to;
    return lladd_update(txn, ll_operations__list_id(l->lists, LL_LIST_ENDS), l->root, &ends,
                        sizeof ends);
}

/* ---- sweeping -------------------------------------------------------------------------------- */

/* *may: is the item marked, and does no transaction reserve it? If so, *out is the item. */
static int may_sweep(struct lladd_db *db, struct lladd_item item, bool *may,
                     struct ll_list_look *out, struct lladd_error *err)
{
    struct ll_operations *o = ll_operations_of(db);
    uint32_t slot = LINK_SLOT(item);
    uint64_t held[LL_RESERVATION_WORDS];
    struct lladd_page *page;
    struct lladd_record r;
    *may = false;
    if (ll_list_none(item) || ll_operations__recovering(o))
        return 0;
    TRY(ll_operations__fix(db, item.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                           &page, err));
    struct lladd_view v = lladd_page_view(page);
    if (ll_operations__list_find(v, item, &r) && r.bytes[ITEM_GONE]) {
        ll_operations__held(&o->records, item.page, slot / LL_RESERVATION_CHUNK, NULL, held);
        *may = !(held[slot % LL_RESERVATION_CHUNK / 64] >> slot % 64 & 1);
        *out = (struct ll_list_look){ll_list_item(r.bytes + ITEM_PREV),
                                     ll_list_item(r.bytes + ITEM_NEXT), true,
                                     lladd_slotted_owner(v), r.len - ITEM_BYTES};
    }
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int unlink_item(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item item,
                       const struct ll_list_look *it)
{
    struct lladd_rid rid = {item.page, LINK_SLOT(item), 0};
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_heap *h;
    lladd_pageno heap;
    TRY(ll_operations__list_heap_of(l->lists->db, it->owner, &heap, err));
    TRY(ll_operations__heap_at(l->lists->db, heap, &h, err));
    TRY(set_neighbour(txn, l, it->prev, ITEM_NEXT, it->next));
    TRY(set_neighbour(txn, l, it->next, ITEM_PREV, it->prev));
    return lladd_heap_delete(txn, h, rid);
}

/* Sweeps at most SWEEP marked items, from *at on, forwards or backwards. *at becomes the first item
 * that is left. The caller holds `change`. */
static int sweep(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item *at,
                 bool forwards)
{
    for (unsigned i = 0; i < SWEEP; i++) {
        struct lladd_action action;
        struct ll_list_look it;
        bool may;
        TRY(may_sweep(l->lists->db, *at, &may, &it, lladd_txn_error_out(txn)));
        if (!may)
            return 0;
        TRY(lladd_nta_begin(txn, &action));
        TRY(ll_operations__action_end(txn, &action, unlink_item(txn, l, *at, &it), LLADD_NO_OP,
                                      NULL, 0));
        *at = forwards ? it.next : it.prev;
    }
    return 0;
}

/* ---- inserting ------------------------------------------------------------------------------- */

static int store(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                 struct lladd_item prev, struct lladd_item next, const void *bytes, size_t len,
                 struct lladd_item *out)
{
    unsigned char few[SHORT], *p = few;
    uint32_t turn = lladd_atomic_add32(&l->turns, 1) & UINT16_MAX;
    struct lladd_heap *h;
    struct lladd_rid rid;
    TRY(ll_operations__heap_at(l->lists->db, heap, &h, lladd_txn_error_out(txn)));
    if (ITEM_BYTES + len > sizeof few)
        p = lladd_mem_alloc(l->lists->db, ITEM_BYTES + len);
    if (!p)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for an item");
    ll_list_put(p + ITEM_PREV, prev);
    ll_list_put(p + ITEM_NEXT, next);
    lladd_put16(p + ITEM_TURN, (uint16_t)turn);
    p[ITEM_GONE] = 0;
    if (len)
        memcpy(p + ITEM_BYTES, bytes, len);
    int rc = lladd_heap_insert(txn, h, p, ITEM_BYTES + len, &rid);
    if (p != few)
        lladd_mem_free(l->lists->db, p);
    if (!rc)
        *out = (struct lladd_item){rid.page, turn << 16 | rid.slot};
    return rc;
}

/* The three steps of an insertion. */
static int insert_between(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                          struct lladd_item prev, struct lladd_item next, const void *bytes,
                          size_t len, struct lladd_item *out)
{
    TRY(store(txn, l, heap, prev, next, bytes, len, out));
    TRY(set_neighbour(txn, l, prev, ITEM_NEXT, *out));
    return set_neighbour(txn, l, next, ITEM_PREV, *out);
}

static int insert_alone(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                        struct lladd_item prev, struct lladd_item next, const void *bytes,
                        size_t len, struct lladd_item *out)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__step_end(txn, before,
                                   insert_between(txn, l, heap, prev, next, bytes, len, out));
}

static int insert_among(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                        struct lladd_item prev, struct lladd_item next, const void *bytes,
                        size_t len, struct lladd_item *out)
{
    struct lladd_action action;
    unsigned char undo[12];
    TRY(lladd_nta_begin(txn, &action));
    int rc = insert_between(txn, l, heap, prev, next, bytes, len, out);
    lladd_put64(undo, out->page.v);
    lladd_put32(undo + 8, out->slot);
    return ll_operations__action_end(
        txn, &action, rc, ll_operations__list_id(l->lists, LL_LIST_INSERT), undo, sizeof undo);
}

/* Inserts at the end (`at_end`), or after `after`. The caller holds `change`. */
static int insert(struct lladd_txn *txn, struct lladd_list *l, bool at_end, struct lladd_item after,
                  const void *bytes, size_t len, struct lladd_item *out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_item next = LLADD_ITEM_NONE, got = LLADD_ITEM_NONE;
    struct ll_list_ends ends;
    struct ll_list_look it;
    lladd_pageno heap;
    bool alone = ll_operations__list_is_alone(txn, l);
    TRY(ll_operations__list_look_root(l->lists->db, l->root, &ends, &heap, err));
    if (at_end) {
        after = ends.last;
        TRY(alone ? 0 : sweep(txn, l, &after, false));
    } else {
        next = ends.first;
        if (!ll_list_none(after)) {
            TRY(ll_operations__list_look_own(l, after, &it, NULL, err));
            if (it.gone)
                return ll_operations__list_no_item(err, after);
            next = it.next;
        }
        TRY(alone ? 0 : sweep(txn, l, &next, true));
    }
    TRY((alone ? insert_alone : insert_among)(txn, l, heap, after, next, bytes, len, &got));
    *out = got;
    return 0;
}

static int insert_latched(struct lladd_txn *txn, struct lladd_list *l, bool at_end,
                          struct lladd_item after, const void *bytes, size_t len,
                          struct lladd_item *out)
{
    TRY(check_handles(txn, l));
    uint32_t max = lladd_list_item_max(l->lists->db);
    if (len > max)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                               "an item of %zu bytes: a list takes %u", len, max);
    if (!bytes && len)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT, "bytes is NULL");
    lladd_mutex_lock(&l->change);
    int rc = insert(txn, l, at_end, after, bytes, len, out);
    lladd_mutex_unlock(&l->change);
    return rc;
}

int lladd_list_insert(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item after,
                      const void *bytes, size_t len, struct lladd_item *out)
{
    LLADD_USE(txn);
    return insert_latched(txn, l, false, after, bytes, len, out);
}

int lladd_list_append(struct lladd_txn *txn, struct lladd_list *l, const void *bytes, size_t len,
                      struct lladd_item *out)
{
    LLADD_USE(txn);
    return insert_latched(txn, l, true, LLADD_ITEM_NONE, bytes, len, out);
}

uint32_t lladd_list_item_max(const struct lladd_db *db)
{
    return lladd_heap_max(lladd_page_size(db)) - ITEM_BYTES;
}

/* Marks the item. If the page does not have the item, it has been removed and swept already. */
int ll_operations__list_undo(struct lladd_txn *txn, struct lladd_item item)
{
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    struct ll_list_mark a = {item, true};
    int rc = lladd_update(txn, ll_operations__list_id(ls, LL_LIST_MARK), item.page, &a, sizeof a);
    return rc == LLADD_NOT_FOUND || rc == LLADD_WRONG_TYPE ? 0 : rc;
}

/* ---- removing, writing ----------------------------------------------------------------------- */

static int sweep_around(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item)
{
    struct ll_list_look it;
    lladd_mutex_lock(&l->change);
    int rc = ll_operations__list_look_item(l->lists->db, item, &it, NULL, lladd_txn_error_out(txn));
    if (!rc)
        rc = sweep(txn, l, &it.prev, false);
    if (!rc)
        rc = sweep(txn, l, &it.next, true);
    lladd_mutex_unlock(&l->change);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int lladd_list_delete(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_list_mark a = {item, true};
    struct ll_list_look it;
    TRY(check_handles(txn, l));
    TRY(ll_operations__list_look_own(l, item, &it, NULL, err));
    if (it.gone)
        return ll_operations__list_no_item(err, item);
    /* The sweep comes first, so that its failure leaves the list's items as they were. */
    if (!ll_operations__list_is_alone(txn, l))
        TRY(sweep_around(txn, l, item));
    TRY(ll_operations__reserve_record(txn, item.page, LINK_SLOT(item)));
    int rc =
        lladd_update(txn, ll_operations__list_id(l->lists, LL_LIST_MARK), item.page, &a, sizeof a);
    return rc == LLADD_NOT_FOUND ? ll_operations__list_no_item(err, item) : rc;
}

int lladd_list_write(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item,
                     uint32_t offset, const void *bytes, size_t len)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_rid rid = {item.page, LINK_SLOT(item), 0};
    struct ll_list_look it;
    TRY(check_handles(txn, l));
    TRY(ll_operations__list_look_own(l, item, &it, NULL, err));
    if (it.gone)
        return ll_operations__list_no_item(err, item);
    if (offset > it.len || len > it.len - offset)
        return lladd_error_set(err, LLADD_OUT_OF_RANGE, "bytes %u to %llu of an item of %zu bytes",
                               offset, (unsigned long long)offset + len, it.len);
    if (!bytes && len)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bytes is NULL");
    return lladd_slotted_write(txn, rid, ITEM_BYTES + offset, bytes, len);
}

/* ---- creating, destroying, splicing ---------------------------------------------------------- */

static int create(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno *root)
{
    unsigned char bytes[8];
    lladd_pageno heap;
    TRY(lladd_page_alloc(txn, root));
    TRY(lladd_heap_create(txn, &heap));
    lladd_put64(bytes, heap.v);
    TRY(lladd_update(txn, ll_operations__list_id(ls, LL_LIST_FORMAT), *root, bytes, sizeof bytes));
    return ll_operations__list_stay_alone(txn, ls, *root);
}

int lladd_list_create(struct lladd_txn *txn, lladd_pageno *root)
{
    LLADD_USE(txn);
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    lladd_savepoint_id before;
    lladd_pageno got;
    TRY(lladd_savepoint(txn, &before));
    TRY(ll_operations__step_end(txn, before, create(txn, ls, &got)));
    *root = got;
    return 0;
}

static int destroy(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno root)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_page *page;
        TRY(ll_operations__list_root(ls->db, root, &page, lladd_txn_error_out(txn)));
        lladd_pageno heap = lladd_page_of(ll_list_heap_at(page->bytes, i));
        n = ll_list_heaps_on(page->bytes);
        lladd_page_unfix(ls->db, page, LLADD_LATCH_SHARED);
        TRY(i < n ? lladd_heap_destroy(txn, heap) : 0);
    }
    return lladd_page_free(txn, root);
}

int lladd_list_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    LLADD_USE(txn);
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__step_end(txn, before, destroy(txn, ls, root));
}

int lladd_list_open(struct lladd_db *db, lladd_pageno root, struct lladd_list **out,
                    struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(ll_operations__list_root(db, root, &page, err));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    return ll_operations__list_take(ll_lists_of(db), root, out, err);
}

void lladd_list_close(struct lladd_list *l)
{
    if (l)
        ll_operations__list_drop(l->lists, l);
}

int lladd_list_create_open(struct lladd_txn *txn, lladd_pageno *root, struct lladd_list **out)
{
    LLADD_USE(txn);
    struct lladd_list *made = NULL;
    lladd_savepoint_id before;
    lladd_pageno page;
    TRY(lladd_savepoint(txn, &before));
    int rc = lladd_list_create(txn, &page);
    if (!rc)
        rc = lladd_list_open(lladd_txn_db(txn), page, &made, lladd_txn_error_out(txn));
    rc = ll_operations__step_end(txn, before, rc);
    if (rc) {
        lladd_list_close(made);
        return rc;
    }
    *root = page;
    *out = made;
    return 0;
}

/* Gives all heaps of both lists to `to`, and a new heap to `from`. */
static int splice_heaps(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from,
                        uint64_t heap[LIST_HEAPS_MAX])
{
    struct lladd_db *db = to->lists->db;
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_pageno roots[2] = {to->root, from->root}, fresh;
    struct ll_list_heaps a = {heap, 0};
    for (int i = 0; i < 2; i++) {
        struct lladd_page *page;
        TRY(ll_operations__list_root(db, roots[i], &page, err));
        uint32_t n = ll_list_heaps_on(page->bytes);
        bool fits = n <= LIST_HEAPS_MAX - a.n;
        for (uint32_t k = 0; fits && k < n; k++)
            heap[a.n++] = ll_list_heap_at(page->bytes, k);
        lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
        if (!fits)
            return lladd_error_set(err, LLADD_TOO_LARGE,
                                   "a list has its items in at most %u heaps", LIST_HEAPS_MAX);
    }
    TRY(lladd_update(txn, ll_operations__list_id(to->lists, LL_LIST_HEAPS), to->root, &a,
                     sizeof a));
    TRY(lladd_heap_create(txn, &fresh));
    heap[0] = fresh.v;
    a.n = 1;
    return lladd_update(txn, ll_operations__list_id(to->lists, LL_LIST_HEAPS), from->root, &a,
                        sizeof a);
}

/* Moves all items of `from` to the end of `to`. The caller holds both lists' `change`. */
static int splice(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from)
{
    struct lladd_db *db = to->lists->db;
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_list_ends a, b, none = {LLADD_ITEM_NONE, LLADD_ITEM_NONE};
    lladd_pageno heap;
    TRY(ll_operations__list_look_root(db, to->root, &a, &heap, err));
    TRY(ll_operations__list_look_root(db, from->root, &b, &heap, err));
    if (ll_list_none(b.first))
        return 0;
    TRY(ll_operations__list_stay_alone(txn, to->lists, to->root));
    TRY(ll_operations__list_stay_alone(txn, to->lists, from->root));
    uint64_t *heaps = lladd_mem_alloc(db, LIST_HEAPS_MAX * sizeof *heaps);
    if (!heaps)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a splice");
    int rc = splice_heaps(txn, to, from, heaps);
    lladd_mem_free(db, heaps);
    TRY(rc);
    TRY(lladd_update(txn, ll_operations__list_id(to->lists, LL_LIST_ENDS), from->root, &none,
                     sizeof none));
    TRY(set_neighbour(txn, to, b.first, ITEM_PREV, a.last));
    TRY(set_neighbour(txn, to, a.last, ITEM_NEXT, b.first));
    return set_neighbour(txn, to, LLADD_ITEM_NONE, ITEM_PREV, b.last);
}

int lladd_list_splice(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from)
{
    LLADD_USE(txn);
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_savepoint_id before;
    TRY(check_handles(txn, to));
    TRY(check_handles(txn, from));
    if (to == from)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a list cannot be spliced to itself");
    bool had_to = ll_operations__list_is_alone(txn, to);
    bool had_from = ll_operations__list_is_alone(txn, from);
    TRY(lladd_savepoint(txn, &before));
    lladd_mutex_lock(&to->change);
    if (!lladd_mutex_trylock(&from->change)) { /* waiting for a second mutex of the same rank could
                                                * deadlock */
        lladd_mutex_unlock(&to->change);
        return ll_operations__step_end(
            txn, before, lladd_error_set(err, LLADD_BUSY, "another thread is changing the list"));
    }
    int rc = ll_operations__step_end(txn, before, splice(txn, to, from));
    /* Other transactions may go on using a list that could not be spliced. */
    if (rc && !had_to)
        ll_operations__list_share(txn, to);
    if (rc && !had_from)
        ll_operations__list_share(txn, from);
    lladd_mutex_unlock(&from->change);
    lladd_mutex_unlock(&to->change);
    return rc;
}
