/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists, the calls (paper, section 4.1 and Figure "Linear Hash Table Bucket operations").
 *
 * Items are records of a heap (heap.c), which finds room for them and keeps their ids; each has the
 * ids of the items before and behind it, the root page those of the first and the last one.
 *
 * An *insertion* is three records, and the chain that a reader walks is whole after each of them, as
 * in the paper's figure: (1) the item is stored, with its links; (2) the item before it, or the root
 * page, leads to it; (3) the item behind it, or the root page, leads back to it. Together they are a
 * nested top action, closed by a logical undo, "remove this item": once it is closed others may
 * insert before and behind the item, so links are never restored. (The paper's undo-only record would
 * have to name the item before it has its place; a compensation that ran before the item was stored
 * would then remove whoever else has got that place.)
 *
 * A *removal* changes one byte: the item is marked, and stays in the chain until the transaction has
 * ended. So taking it back needs neither room nor place, whatever others have done around it, and
 * transactions that remove neighbours do not meet. What is marked, and held by nobody who may still
 * roll back (hold.c), is *swept* by those who later change the list there: unlinked in two records,
 * freed in the heap, in a top action that stays. An insertion that was taken back is such an item,
 * too.
 *
 * A transaction that has made a list, or spliced it, is alone with it until it ends. There an
 * insertion is plain updates, taken back record by record, for the links it has set must not outlive
 * the pages, or the order, that they belong to; and nothing is swept.
 *
 * Readers latch one page at a time and hold nothing between them. An item's slot may be somebody
 * else's by the time they follow a link; `turn`, a number in item and link, tells. They look again at
 * the item they come from, or, if that one is gone as well, begin where their caller stands.
 *
 * Latches: `change`, one a list, for insertions and sweeps, so that links have one writer; held over
 * I/O, which only other writers of the list notice. Marks and bytes of items need none. */
#include "operations/heap.h"
#include "operations/list.h"

#include <string.h>

#define SWEEP 4u   /* items that one call may sweep on each side */
#define SHORT 512u /* items up to this are put together on the stack */
#define TRIES 64   /* of following links that others change meanwhile */

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

struct lladd_list {
    struct ll_lists *lists;
    struct lladd_list *next;
    lladd_pageno root;
    uint32_t refs;             /* handles and transactions; under lists->mutex */
    uint32_t turns;            /* atomic */
    const void *alone;         /* the changer that is alone with it; under lists->mutex */
    struct lladd_mutex change; /* links */
};

/* A transaction that is alone with some lists. */
struct ll_list_changer {
    struct ll_lists *lists;
    struct ll_list_changer *next, *before;
    struct lladd_list **list;
    size_t n, cap;
};

/* ---- lists in memory ------------------------------------------------------------------------- */

static void drop(struct ll_lists *ls, struct lladd_list *l)
{
    lladd_mutex_lock(&ls->mutex);
    bool last = --l->refs == 0;
    for (struct lladd_list **at = &ls->first; last && *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    lladd_mutex_unlock(&ls->mutex);
    if (last) {
        lladd_mutex_destroy(&l->change);
        lladd_free(ls->db, l);
    }
}

/* The list of a root page, with a reference more. */
static int take(struct ll_lists *ls, lladd_pageno root, struct lladd_list **out,
                struct lladd_error *err)
{
    struct lladd_list *fresh = lladd_alloc(ls->db, sizeof *fresh), *l;
    if (!fresh)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list");
    *fresh = (struct lladd_list){.lists = ls, .root = root, .refs = 1};
    int rc = lladd_mutex_init(&fresh->change, LL_OPERATIONS_RANK_LIST, "list");
    if (rc) {
        lladd_free(ls->db, fresh);
        return lladd_error_set(err, rc, "out of memory for a list");
    }
    lladd_mutex_lock(&ls->mutex);
    for (l = ls->first; l && l->root.v != root.v; l = l->next) {
    }
    if (l) {
        l->refs++;
    } else {
        fresh->next = ls->first;
        ls->first = fresh;
    }
    lladd_mutex_unlock(&ls->mutex);
    if (l) {
        lladd_mutex_destroy(&fresh->change);
        lladd_free(ls->db, fresh);
    }
    *out = l ? l : fresh;
    return 0;
}

/* ---- who is alone with a list ---------------------------------------------------------------- */

static void changer_free(struct ll_list_changer *c)
{
    struct ll_lists *ls = c->lists;
    for (size_t i = 0; i < c->n; i++) {
        lladd_mutex_lock(&ls->mutex);
        if (c->list[i]->alone == c)
            c->list[i]->alone = NULL;
        lladd_mutex_unlock(&ls->mutex);
        drop(ls, c->list[i]);
    }
    lladd_mutex_lock(&ls->mutex);
    if (c->before)
        c->before->next = c->next;
    else
        ls->changers = c->next;
    if (c->next)
        c->next->before = c->before;
    lladd_mutex_unlock(&ls->mutex);
    lladd_free(ls->db, c->list);
    lladd_free(ls->db, c);
}

/* The commit has its place in the log: who changes the list now, logs behind it. */
static void changer_logged(void *ctx, void *state, lladd_lsn commit)
{
    struct ll_list_changer *c = state;
    (void)ctx;
    (void)commit;
    lladd_mutex_lock(&c->lists->mutex);
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i]->alone == c)
            c->list[i]->alone = NULL;
    lladd_mutex_unlock(&c->lists->mutex);
}

static void changer_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    changer_free(state);
}

static void changer_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    changer_free(state);
}

const struct lladd_participant ll_operations__list_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.lists",
    .version = 1,
    .logged = changer_logged,
    .durable = changer_durable,
    .aborted = changer_aborted,
};

static int changer_of(struct lladd_txn *txn, struct ll_lists *ls, struct ll_list_changer **out)
{
    struct ll_list_changer *c = lladd_joined(txn, &ll_operations__list_participant);
    struct lladd_error *err = lladd_txn_error_out(txn);
    if (!c) {
        c = lladd_alloc(ls->db, sizeof *c);
        if (!c)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list");
        *c = (struct ll_list_changer){.lists = ls};
        int rc = lladd_join(txn, &ll_operations__list_participant, c);
        if (rc) {
            lladd_free(ls->db, c);
            return rc;
        }
        lladd_mutex_lock(&ls->mutex);
        c->next = ls->changers;
        if (c->next)
            c->next->before = c;
        ls->changers = c;
        lladd_mutex_unlock(&ls->mutex);
    }
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 4;
        struct lladd_list **p = lladd_resize(ls->db, c->list, cap * sizeof *p);
        if (!p)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list");
        c->list = p;
        c->cap = cap;
    }
    *out = c;
    return 0;
}

static bool is_alone(struct lladd_txn *txn, struct lladd_list *l)
{
    const void *c = lladd_joined(txn, &ll_operations__list_participant);
    lladd_mutex_lock(&l->lists->mutex);
    bool is = c && l->alone == c;
    lladd_mutex_unlock(&l->lists->mutex);
    return is;
}

/* The transaction is alone with the list from now on. */
static int stay_alone(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno root)
{
    struct ll_list_changer *c;
    struct lladd_list *l;
    TRY(changer_of(txn, ls, &c));
    TRY(take(ls, root, &l, lladd_txn_error_out(txn)));
    lladd_mutex_lock(&ls->mutex);
    bool was = l->alone == c;
    l->alone = c;
    lladd_mutex_unlock(&ls->mutex);
    if (was)
        drop(ls, l);
    else
        c->list[c->n++] = l;
    return 0;
}

/* ---- per handle ------------------------------------------------------------------------------ */

static const struct lladd_op *const ops[] = {
    [LL_LIST_FORMAT] = &ll_operations__list_format,
    [LL_LIST_ENDS] = &ll_operations__list_ends,
    [LL_LIST_HEAPS] = &ll_operations__list_heaps,
    [LL_LIST_LINK] = &ll_operations__list_link,
    [LL_LIST_MARK] = &ll_operations__list_mark,
    [LL_LIST_INSERT] = &ll_operations__list_insert,
    [LL_LIST_OPS] = NULL,
};
static const struct lladd_page_type *const page_types[] = {&ll_operations__list_page, NULL};
static const struct lladd_participant *const participants[] = {&ll_operations__list_participant,
                                                               NULL};

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_lists *ls = lladd_alloc(db, sizeof *ls);
    if (!ls)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *ls = (struct ll_lists){.db = db};
    int rc = lladd_op_lookup(db, ops[0]->name, ops[0]->version, &ls->first_op);
    if (!rc)
        rc = lladd_mutex_init(&ls->mutex, LLADD_RANK_LEAF, "lists");
    if (rc) {
        lladd_free(db, ls);
        return lladd_error_set(err, rc, "no operations for lists");
    }
    *state = ls;
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_lists *ls = state;
    while (ls->changers) /* whose end the handle did not live to see */
        changer_free(ls->changers);
    while (ls->first)
        drop(ls, ls->first);
    lladd_mutex_destroy(&ls->mutex);
    lladd_free(db, ls);
}

const struct lladd_extension ll_operations__list_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.list",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};

static lladd_op_id id_of(struct ll_lists *ls, enum ll_list_op op)
{
    return ls->first_op + (lladd_op_id)op;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int no_item(struct lladd_error *err, struct lladd_item item)
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
                                             "the list of page %llu does not hang together at slot "
                                             "%u of page %llu",
                                             (unsigned long long)l->root.v, LINK_SLOT(item),
                                             (unsigned long long)item.page.v));
}

/* Fixes the root page of a list that exists. */
static int fix_root(struct lladd_db *db, lladd_pageno root, struct lladd_page **out,
                    struct lladd_error *err)
{
    enum lladd_page_use use;
    TRY(lladd_page_use(db, root, &use, err));
    TRY(ll_operations__fix(db, root, ll_operations__list_page.name, LLADD_LATCH_SHARED, out, err));
    if (use == LLADD_USE_PAGED)
        return 0;
    lladd_unfix(db, *out, LLADD_LATCH_SHARED);
    return ll_operations__on(err, root,
                             lladd_error_set(err, LLADD_DESTROYED,
                                             "the list of page %llu has been destroyed",
                                             (unsigned long long)root.v));
}

static uint32_t heaps_on(const unsigned char *root)
{
    uint32_t n = lladd_get16(root + LIST_HEAPS);
    return n < LIST_HEAPS_MAX ? n : LIST_HEAPS_MAX;
}

static uint64_t heap_at(const unsigned char *root, uint32_t i)
{
    return lladd_get64(root + LIST_HEAP + 8 * (size_t)i);
}

/* Where new items go; LLADD_NO_PAGE if the list has no heap. */
static int look_root(struct lladd_db *db, lladd_pageno root, struct ll_list_ends *ends,
                     lladd_pageno *heap, struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(fix_root(db, root, &page, err));
    *ends = ll_list_ends_of(page->bytes);
    *heap = lladd_page_of(heaps_on(page->bytes) ? heap_at(page->bytes, 0) : LLADD_NO_PAGE);
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* An item as its page has it. */
struct look {
    struct lladd_item prev, next;
    bool gone;
    uint64_t owner; /* of its page */
    size_t len;
};

/* Where an item's bytes are copied; NULL: nowhere. */
struct copy {
    void *buf;
    size_t size;
    bool (*is)(void *ctx, struct lladd_span item); /* nullable; asked of those that are there */
    void *ctx;
    bool yes;
};

/* LLADD_NOT_FOUND if it is not there any more. */
static int look_item(struct lladd_db *db, struct lladd_item item, struct look *out,
                     struct copy *copy, struct lladd_error *err)
{
    struct lladd_page *page;
    struct lladd_record r;
    int rc = ll_operations__fix(db, item.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                                &page, err);
    if (rc)
        return rc == LLADD_WRONG_TYPE || rc == LLADD_OUT_OF_RANGE ? LLADD_NOT_FOUND : rc;
    struct lladd_view v = lladd_page_view(page);
    if (ll_operations__list_find(v, item, &r)) {
        *out = (struct look){ll_list_item(r.bytes + ITEM_PREV), ll_list_item(r.bytes + ITEM_NEXT),
                             r.bytes[ITEM_GONE] != 0, lladd_slotted_owner(v), r.len - ITEM_BYTES};
        size_t n = copy && !out->gone ? (out->len < copy->size ? out->len : copy->size) : 0;
        if (n)
            memcpy(copy->buf, r.bytes + ITEM_BYTES, n);
        if (copy && copy->is && !out->gone)
            copy->yes = copy->is(copy->ctx, lladd_span_of(r.bytes + ITEM_BYTES, out->len));
    } else {
        rc = LLADD_NOT_FOUND;
    }
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return rc;
}

/* Which heap does a page with this owner's word belong to? */
static int heap_of(struct lladd_db *db, uint64_t owner, lladd_pageno *heap, struct lladd_error *err)
{
    struct lladd_page *page;
    int rc = owner >> 16
                 ? ll_operations__fix(db, ll_heap_owner_page(owner), ll_operations__heap_page.name,
                                      LLADD_LATCH_SHARED, &page, err)
                 : LLADD_WRONG_TYPE;
    if (rc)
        return rc;
    *heap = ll_inventory_heap(lladd_page_view(page));
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

/* The caller's item: LLADD_OUT_OF_RANGE if it is none of this list's. */
static int look_own(const struct lladd_list *l, struct lladd_item item, struct look *out,
                    struct copy *copy, struct lladd_error *err)
{
    struct lladd_db *db = l->lists->db;
    struct lladd_page *page;
    lladd_pageno heap;
    bool own = false;
    TRY(fix_root(db, l->root, &page, err));
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    int rc = ll_list_none(item) ? LLADD_NOT_FOUND : look_item(db, item, out, copy, err);
    if (!rc)
        rc = heap_of(db, out->owner, &heap, err);
    if (rc)
        return rc == LLADD_NOT_FOUND || rc == LLADD_WRONG_TYPE ? no_item(err, item) : rc;
    TRY(fix_root(db, l->root, &page, err));
    for (uint32_t i = 0; i < heaps_on(page->bytes) && !own; i++)
        own = heap_at(page->bytes, i) == heap.v;
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return own ? 0 : no_item(err, item);
}

/* ---- changing links -------------------------------------------------------------------------- */

static int check_handles(struct lladd_txn *txn, const struct lladd_list *l)
{
    if (lladd_txn_db(txn) == l->lists->db)
        return 0;
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_OTHER_DATABASE,
                           "the list is of another database than the transaction");
}

/* The item behind `at`, or the first, is `to`; at LLADD_ITEM_NONE the root page says so. */
static int set_next(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item at,
                    struct lladd_item to)
{
    struct ll_list_link a = {at, to, ITEM_NEXT};
    struct ll_list_ends ends;
    lladd_pageno heap;
    if (!ll_list_none(at))
        return lladd_update(txn, id_of(l->lists, LL_LIST_LINK), at.page, &a, sizeof a);
    TRY(look_root(l->lists->db, l->root, &ends, &heap, lladd_txn_error_out(txn)));
    ends.first = to;
    return lladd_update(txn, id_of(l->lists, LL_LIST_ENDS), l->root, &ends, sizeof ends);
}

static int set_prev(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item at,
                    struct lladd_item to)
{
    struct ll_list_link a = {at, to, ITEM_PREV};
    struct ll_list_ends ends;
    lladd_pageno heap;
    if (!ll_list_none(at))
        return lladd_update(txn, id_of(l->lists, LL_LIST_LINK), at.page, &a, sizeof a);
    TRY(look_root(l->lists->db, l->root, &ends, &heap, lladd_txn_error_out(txn)));
    ends.last = to;
    return lladd_update(txn, id_of(l->lists, LL_LIST_ENDS), l->root, &ends, sizeof ends);
}

/* The end of several steps: closed, by `op` or by nothing, or taken back. */
static int close_action(struct lladd_txn *txn, struct lladd_action *action, int rc, lladd_op_id op,
                        const void *undo, size_t len)
{
    if (!rc)
        rc = lladd_nta_end(txn, action, op, undo, len);
    if (!rc)
        return 0;
    struct lladd_error why = *lladd_txn_error(txn);
    int undone = lladd_nta_abort(txn, action);
    if (undone)
        return undone;
    *lladd_txn_error_out(txn) = why;
    return rc;
}

/* ---- sweeping -------------------------------------------------------------------------------- */

/* Is the item marked, and wanted back by nobody? `out` is what it is. */
static int may_sweep(struct lladd_db *db, struct lladd_item item, bool *may, struct look *out,
                     struct lladd_error *err)
{
    struct ll_operations *o = ll_operations_of(db);
    uint32_t slot = LINK_SLOT(item);
    uint64_t held[LL_HOLD_WORDS];
    struct lladd_page *page;
    struct lladd_record r;
    *may = false;
    if (ll_list_none(item) || lladd_atomic_load32(&o->recovering))
        return 0;
    TRY(ll_operations__fix(db, item.page, ll_operations__slotted_page.name, LLADD_LATCH_SHARED,
                           &page, err));
    struct lladd_view v = lladd_page_view(page);
    if (ll_operations__list_find(v, item, &r) && r.bytes[ITEM_GONE]) {
        ll_operations__held(&o->records, item.page, slot / LL_HOLD_CHUNK, NULL, held);
        *may = !(held[slot % LL_HOLD_CHUNK / 64] >> slot % 64 & 1);
        *out = (struct look){ll_list_item(r.bytes + ITEM_PREV), ll_list_item(r.bytes + ITEM_NEXT),
                             true, lladd_slotted_owner(v), r.len - ITEM_BYTES};
    }
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return 0;
}

static int unlink_item(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item item,
                       const struct look *it)
{
    struct lladd_rid rid = {item.page, LINK_SLOT(item), 0};
    lladd_pageno heap;
    TRY(heap_of(l->lists->db, it->owner, &heap, lladd_txn_error_out(txn)));
    TRY(set_next(txn, l, it->prev, it->next));
    TRY(set_prev(txn, l, it->next, it->prev));
    return lladd_heap_delete(txn, heap, rid);
}

/* Sweeps items from `at` on, forwards or backwards, as long as there are any; *at is where it stops.
 * Under the latch. */
static int sweep(struct lladd_txn *txn, const struct lladd_list *l, struct lladd_item *at,
                 bool forwards)
{
    for (unsigned i = 0; i < SWEEP; i++) {
        struct lladd_action action;
        struct look it;
        bool may;
        TRY(may_sweep(l->lists->db, *at, &may, &it, lladd_txn_error_out(txn)));
        if (!may)
            return 0;
        TRY(lladd_nta_begin(txn, &action));
        TRY(close_action(txn, &action, unlink_item(txn, l, *at, &it), LLADD_NO_OP, NULL, 0));
        *at = forwards ? it.next : it.prev;
    }
    return 0;
}

/* ---- inserting ------------------------------------------------------------------------------- */

/* The record of a new item. */
static int store(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                 struct lladd_item prev, struct lladd_item next, const void *bytes, size_t len,
                 struct lladd_item *out)
{
    unsigned char few[SHORT], *p = few;
    uint32_t turn = lladd_atomic_add32(&l->turns, 1) & UINT16_MAX;
    struct lladd_rid rid;
    if (ITEM_BYTES + len > sizeof few)
        p = lladd_alloc(l->lists->db, ITEM_BYTES + len);
    if (!p)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for an item");
    ll_list_put(p + ITEM_PREV, prev);
    ll_list_put(p + ITEM_NEXT, next);
    lladd_put16(p + ITEM_TURN, (uint16_t)turn);
    p[ITEM_GONE] = 0;
    if (len)
        memcpy(p + ITEM_BYTES, bytes, len);
    int rc = lladd_heap_insert(txn, heap, p, ITEM_BYTES + len, &rid);
    if (p != few)
        lladd_free(l->lists->db, p);
    if (!rc)
        *out = (struct lladd_item){rid.page, turn << 16 | rid.slot};
    return rc;
}

/* The three steps of the paper's figure. */
static int insert_between(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                          struct lladd_item prev, struct lladd_item next, const void *bytes,
                          size_t len, struct lladd_item *out)
{
    TRY(store(txn, l, heap, prev, next, bytes, len, out));
    TRY(set_next(txn, l, prev, *out));
    return set_prev(txn, l, next, *out);
}

static int insert_alone(struct lladd_txn *txn, struct lladd_list *l, lladd_pageno heap,
                        struct lladd_item prev, struct lladd_item next, const void *bytes,
                        size_t len, struct lladd_item *out)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__all_or_nothing(txn, before,
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
    return close_action(txn, &action, rc, id_of(l->lists, LL_LIST_INSERT), undo, sizeof undo);
}

/* At the end, or behind `after`. Under the latch. */
static int insert(struct lladd_txn *txn, struct lladd_list *l, bool at_end, struct lladd_item after,
                  const void *bytes, size_t len, struct lladd_item *out)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_item next = LLADD_ITEM_NONE, got = LLADD_ITEM_NONE;
    struct ll_list_ends ends;
    struct look it;
    lladd_pageno heap;
    bool alone = is_alone(txn, l);
    TRY(look_root(l->lists->db, l->root, &ends, &heap, err));
    if (at_end) {
        after = ends.last;
        TRY(alone ? 0 : sweep(txn, l, &after, false));
    } else {
        next = ends.first;
        if (!ll_list_none(after)) {
            TRY(look_own(l, after, &it, NULL, err));
            if (it.gone)
                return no_item(err, after);
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
    return insert_latched(txn, l, false, after, bytes, len, out);
}

int lladd_list_append(struct lladd_txn *txn, struct lladd_list *l, const void *bytes, size_t len,
                      struct lladd_item *out)
{
    return insert_latched(txn, l, true, LLADD_ITEM_NONE, bytes, len, out);
}

uint32_t lladd_list_item_max(const struct lladd_db *db)
{
    return lladd_heap_max(lladd_page_size(db)) - ITEM_BYTES;
}

/* It has not been there, has been removed by somebody, or goes now; what makes an end of it is that
 * nobody finds it. */
int ll_operations__list_take_back(struct lladd_txn *txn, struct lladd_item item)
{
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    struct ll_list_mark a = {item, true};
    int rc = lladd_update(txn, id_of(ls, LL_LIST_MARK), item.page, &a, sizeof a);
    return rc == LLADD_NOT_FOUND || rc == LLADD_WRONG_TYPE ? 0 : rc;
}

/* ---- removing, writing ----------------------------------------------------------------------- */

static int sweep_around(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item)
{
    struct look it;
    lladd_mutex_lock(&l->change);
    int rc = look_item(l->lists->db, item, &it, NULL, lladd_txn_error_out(txn));
    if (!rc)
        rc = sweep(txn, l, &it.prev, false);
    if (!rc)
        rc = sweep(txn, l, &it.next, true);
    lladd_mutex_unlock(&l->change);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int lladd_list_remove(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_list_mark a = {item, true};
    struct look it;
    TRY(check_handles(txn, l));
    TRY(look_own(l, item, &it, NULL, err));
    if (it.gone)
        return no_item(err, item);
    /* First, so that a failure changes nothing that anybody sees. */
    if (!is_alone(txn, l))
        TRY(sweep_around(txn, l, item));
    TRY(ll_operations__hold_record(txn, item.page, LINK_SLOT(item)));
    int rc = lladd_update(txn, id_of(l->lists, LL_LIST_MARK), item.page, &a, sizeof a);
    return rc == LLADD_NOT_FOUND ? no_item(err, item) : rc;
}

int lladd_list_write(struct lladd_txn *txn, struct lladd_list *l, struct lladd_item item,
                     uint32_t offset, const void *bytes, size_t len)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_rid rid = {item.page, LINK_SLOT(item), 0};
    struct look it;
    TRY(check_handles(txn, l));
    TRY(look_own(l, item, &it, NULL, err));
    if (it.gone)
        return no_item(err, item);
    if (offset > it.len || len > it.len - offset)
        return lladd_error_set(err, LLADD_OUT_OF_RANGE, "bytes %u to %llu of an item of %zu",
                               offset, (unsigned long long)offset + len, it.len);
    if (!bytes && len)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "bytes is NULL");
    return lladd_slotted_write(txn, rid, ITEM_BYTES + offset, bytes, len);
}

/* ---- making, destroying, splicing ------------------------------------------------------------ */

static int create(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno *root)
{
    unsigned char bytes[8];
    lladd_pageno heap;
    TRY(lladd_page_alloc(txn, root));
    TRY(lladd_heap_create(txn, &heap));
    lladd_put64(bytes, heap.v);
    TRY(lladd_update(txn, id_of(ls, LL_LIST_FORMAT), *root, bytes, sizeof bytes));
    return stay_alone(txn, ls, *root);
}

int lladd_list_create(struct lladd_txn *txn, lladd_pageno *root)
{
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    lladd_savepoint_id before;
    lladd_pageno got;
    TRY(lladd_savepoint(txn, &before));
    TRY(ll_operations__all_or_nothing(txn, before, create(txn, ls, &got)));
    *root = got;
    return 0;
}

static int destroy(struct lladd_txn *txn, struct ll_lists *ls, lladd_pageno root)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_page *page;
        TRY(fix_root(ls->db, root, &page, lladd_txn_error_out(txn)));
        lladd_pageno heap = lladd_page_of(heap_at(page->bytes, i));
        n = heaps_on(page->bytes);
        lladd_unfix(ls->db, page, LLADD_LATCH_SHARED);
        TRY(i < n ? lladd_heap_destroy(txn, heap) : 0);
    }
    return lladd_page_free(txn, root);
}

int lladd_list_destroy(struct lladd_txn *txn, lladd_pageno root)
{
    struct ll_lists *ls = ll_lists_of(lladd_txn_db(txn));
    lladd_savepoint_id before;
    TRY(lladd_savepoint(txn, &before));
    return ll_operations__all_or_nothing(txn, before, destroy(txn, ls, root));
}

int lladd_list_open(struct lladd_db *db, lladd_pageno root, struct lladd_list **out,
                    struct lladd_error *err)
{
    struct lladd_page *page;
    TRY(fix_root(db, root, &page, err));
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return take(ll_lists_of(db), root, out, err);
}

void lladd_list_close(struct lladd_list *l)
{
    if (l)
        drop(l->lists, l);
}

/* The heaps of both, in `to`; `from` gets a new one. */
static int splice_heaps(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from,
                        uint64_t heap[LIST_HEAPS_MAX])
{
    struct lladd_db *db = to->lists->db;
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_pageno roots[2] = {to->root, from->root}, fresh;
    struct ll_list_heaps a = {heap, 0};
    for (int i = 0; i < 2; i++) {
        struct lladd_page *page;
        TRY(fix_root(db, roots[i], &page, err));
        uint32_t n = heaps_on(page->bytes);
        bool fits = n <= LIST_HEAPS_MAX - a.n;
        for (uint32_t k = 0; fits && k < n; k++)
            heap[a.n++] = heap_at(page->bytes, k);
        lladd_unfix(db, page, LLADD_LATCH_SHARED);
        if (!fits)
            return lladd_error_set(err, LLADD_TOO_LARGE, "a list is made of at most %u others",
                                   LIST_HEAPS_MAX);
    }
    TRY(lladd_update(txn, id_of(to->lists, LL_LIST_HEAPS), to->root, &a, sizeof a));
    TRY(lladd_heap_create(txn, &fresh));
    heap[0] = fresh.v;
    a.n = 1;
    return lladd_update(txn, id_of(to->lists, LL_LIST_HEAPS), from->root, &a, sizeof a);
}

/* Under both latches. The root page of `from` lets go first; until `to` is linked, its items are in
 * neither, and all of it is taken back together. */
static int splice(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from)
{
    struct lladd_db *db = to->lists->db;
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_list_ends a, b, none = {LLADD_ITEM_NONE, LLADD_ITEM_NONE};
    lladd_pageno heap;
    TRY(look_root(db, to->root, &a, &heap, err));
    TRY(look_root(db, from->root, &b, &heap, err));
    if (ll_list_none(b.first))
        return 0;
    TRY(stay_alone(txn, to->lists, to->root));
    TRY(stay_alone(txn, to->lists, from->root));
    uint64_t *heaps = lladd_alloc(db, LIST_HEAPS_MAX * sizeof *heaps);
    if (!heaps)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a splice");
    int rc = splice_heaps(txn, to, from, heaps);
    lladd_free(db, heaps);
    TRY(rc);
    TRY(lladd_update(txn, id_of(to->lists, LL_LIST_ENDS), from->root, &none, sizeof none));
    TRY(set_prev(txn, to, b.first, a.last));
    TRY(set_next(txn, to, a.last, b.first));
    return set_prev(txn, to, LLADD_ITEM_NONE, b.last);
}

int lladd_list_splice(struct lladd_txn *txn, struct lladd_list *to, struct lladd_list *from)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    lladd_savepoint_id before;
    TRY(check_handles(txn, to));
    TRY(check_handles(txn, from));
    if (to == from)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a list cannot be moved behind itself");
    TRY(lladd_savepoint(txn, &before));
    lladd_mutex_lock(&to->change);
    if (!lladd_mutex_trylock(&from->change)) { /* no order among them: so nobody waits */
        lladd_mutex_unlock(&to->change);
        return lladd_error_set(err, LLADD_BUSY, "somebody else is changing the list");
    }
    int rc = ll_operations__all_or_nothing(txn, before, splice(txn, to, from));
    lladd_mutex_unlock(&from->change);
    lladd_mutex_unlock(&to->change);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

int lladd_list_get(struct lladd_list *l, struct lladd_item item, void *buf, size_t size,
                   size_t *len, struct lladd_error *err)
{
    struct copy copy = {.buf = buf, .size = size};
    struct look it;
    TRY(look_own(l, item, &it, &copy, err));
    if (it.gone)
        return no_item(err, item);
    if (len)
        *len = it.len;
    return 0;
}

/* Where a walk of items stands. */
struct walk {
    struct lladd_item at; /* LLADD_ITEM_NONE: before the first */
    struct lladd_item next;
    struct look it; /* what is at `at` */
};

/* What is behind the caller's item. */
static int walk_begin(struct lladd_list *l, struct walk *w, struct lladd_item at,
                      struct lladd_error *err)
{
    struct ll_list_ends ends;
    lladd_pageno heap;
    w->at = at;
    if (ll_list_none(at)) {
        TRY(look_root(l->lists->db, l->root, &ends, &heap, err));
        w->next = ends.first;
    } else {
        TRY(look_own(l, at, &w->it, NULL, err));
        w->next = w->it.next;
    }
    return 0;
}

/* To the next item that is there, marked or not; LLADD_END. Begins anew at `from` if the way has
 * been changed under our feet. */
static int walk_step(struct lladd_list *l, struct walk *w, struct lladd_item from,
                     struct copy *copy, struct lladd_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        struct lladd_item next = w->next;
        if (ll_list_none(next))
            return LLADD_END;
        int rc = look_item(l->lists->db, next, &w->it, copy, err);
        if (!rc) {
            w->at = next;
            w->next = w->it.next;
            return 0;
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
    struct copy copy = {.buf = buf, .size = size};
    struct walk w;
    TRY(walk_begin(l, &w, at, err));
    do
        TRY(walk_step(l, &w, at, &copy, err));
    while (w.it.gone);
    *out = w.at;
    if (len)
        *len = w.it.len;
    return 0;
}

/* One walk from `from` on, over items that are there, until `is` says yes (*out) or, without it, to
 * the end; *n counts them. LLADD_BUSY: the item it stood at has been swept; begin again. */
static int walk_all(struct lladd_list *l, struct lladd_item from, struct copy *copy, uint64_t *n,
                    struct lladd_item *out, struct lladd_error *err)
{
    struct walk w;
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

int lladd_list_find(struct lladd_list *l, struct lladd_item at,
                    bool (*is)(void *ctx, struct lladd_span item), void *ctx,
                    struct lladd_item *out, struct lladd_error *err)
{
    struct copy copy = {.is = is, .ctx = ctx};
    struct lladd_item got;
    uint64_t n;
    int rc;
    do
        rc = walk_all(l, at, &copy, &n, &got, err);
    while (rc == LLADD_BUSY);
    if (rc == LLADD_END)
        return lladd_error_set(err, LLADD_NOT_FOUND, "no item is like that");
    if (!rc)
        *out = got;
    return rc;
}

int lladd_list_count(struct lladd_list *l, uint64_t *out, struct lladd_error *err)
{
    struct lladd_item last;
    uint64_t n;
    int rc;
    do
        rc = walk_all(l, LLADD_ITEM_NONE, NULL, &n, &last, err);
    while (rc == LLADD_BUSY);
    if (rc != LLADD_END)
        return rc;
    *out = n;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Calls fn for each page of a heap. */
static int heap_pages(struct lladd_db *db, lladd_pageno heap, int (*fn)(void *ctx, lladd_pageno),
                      void *ctx, struct lladd_error *err)
{
    for (lladd_pageno at = heap, next; at.v; at = next) {
        uint32_t count = 1;
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
            lladd_unfix(db, page, LLADD_LATCH_SHARED);
            TRY(i < count ? fn(ctx, entry) : 0);
        }
    }
    return 0;
}

/* Calls fn for each heap. */
static int each_heap(struct lladd_list *l,
                     int (*fn)(void *ctx, struct lladd_list *, lladd_pageno, struct lladd_error *),
                     void *ctx, struct lladd_error *err)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct lladd_page *page;
        TRY(fix_root(l->lists->db, l->root, &page, err));
        lladd_pageno heap = lladd_page_of(heap_at(page->bytes, i));
        n = heaps_on(page->bytes);
        lladd_unfix(l->lists->db, page, LLADD_LATCH_SHARED);
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
    TRY(fix_root(l->lists->db, l->root, &page, err));
    lladd_unfix(l->lists->db, page, LLADD_LATCH_SHARED);
    TRY(fn(ctx, l->root));
    return each_heap(l, give_heap, &p, err);
}

static int count_records(void *ctx, struct lladd_list *l, lladd_pageno heap,
                         struct lladd_error *err)
{
    struct lladd_heap_cursor c;
    struct lladd_record r;
    struct lladd_rid rid;
    int rc;
    lladd_heap_open(l->lists->db, heap, &c);
    while ((rc = lladd_heap_next(&c, &rid, &r, err)) == 0)
        ++*(uint64_t *)ctx;
    lladd_heap_close(&c);
    return rc == LLADD_END ? 0 : rc;
}

/* Every link has its counterpart, and every record of the heaps is in the chain. Nobody may be
 * changing the list. */
int lladd_list_check(struct lladd_list *l, struct lladd_error *err)
{
    struct lladd_item at = LLADD_ITEM_NONE, before = at;
    struct ll_list_ends ends;
    struct walk w;
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
    TRY(look_root(l->lists->db, l->root, &ends, &heap, err));
    return linked == stored && ll_list_same(ends.last, before) ? 0 : broken(err, l, ends.last);
}
