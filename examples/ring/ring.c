/* SPDX-License-Identifier: BSD-2-Clause */
/* The structure. A thread waits in this order: for the lock for putting, the lock of an item, log
 * space, the head page, a page of slots. */
#include "ring.h"

#include "page.h"

#include <lladd/extension.h>
#include <lladd/lock.h>
#include <lladd/pages.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static int corrupt(struct lladd_error *err, lladd_pageno page, const char *why)
{
    (void)lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s", (unsigned long long)page.v,
                          why);
    if (err)
        err->page = page;
    return LLADD_CORRUPT_PAGE;
}

static int op_of(struct lladd_txn *txn, const struct lladd_op *op, lladd_op_id *out)
{
    int rc = lladd_op_lookup(lladd_txn_db(txn), op->name, op->version, out);
    return rc ? lladd_error_set(lladd_txn_error_out(txn), rc, "\"%s\" is not registered", op->name)
              : 0;
}

/* ---- the two pages of an item ---------------------------------------------------------------- */

/* An item, latched: its head page and its page of slots. */
struct place {
    struct lladd_page *head, *items;
    enum lladd_latch latch;
    uint16_t slot;
};

static void place_unfix(struct lladd_db *db, struct place *p)
{
    if (p->items)
        lladd_page_unfix(db, p->items, p->latch);
    if (p->head)
        lladd_page_unfix(db, p->head, p->latch);
    p->items = p->head = NULL;
}

static int head_fix(struct lladd_db *db, lladd_pageno ring, enum lladd_latch latch,
                    struct lladd_page **out, struct lladd_error *err)
{
    TRY(lladd_page_fix(db, ring, latch, out, err));
    struct lladd_view view = lladd_page_view(*out);
    if (lladd_page_is(db, view, RING_HEAD) && head_sane(view))
        return 0;
    lladd_page_unfix(db, *out, latch);
    *out = NULL;
    return corrupt(err, ring, "is not the head page of a ring");
}

static int items_fix(struct lladd_db *db, struct place *p, uint64_t number,
                     struct lladd_error *err)
{
    const unsigned char *head = lladd_page_body(p->head);
    uint64_t at = number % capacity(head), slots = lladd_get16(head + SLOTS);
    lladd_pageno page = lladd_page_of(lladd_get64(head + LIST + 8 * (at / slots)));
    TRY(lladd_page_fix(db, page, p->latch, &p->items, err));
    struct lladd_view view = lladd_page_view(p->items);
    const unsigned char *body = lladd_view_body(view);
    p->slot = (uint16_t)(at % slots);
    if (lladd_page_is(db, view, RING_ITEMS) && items_sane(view) &&
        lladd_get16(body) == lladd_get16(head + SIZE) && lladd_get16(body + 2) == slots)
        return 0;
    return corrupt(err, page, "is not a page of this ring");
}

/* Even after an error, the caller calls place_unfix, which unfixes the pages. */
static int place_fix(struct lladd_db *db, lladd_pageno ring, uint64_t number, struct place *p,
                     struct lladd_error *err)
{
    TRY(head_fix(db, ring, p->latch, &p->head, err));
    return items_fix(db, p, number, err);
}

static const unsigned char *place_slot(const struct place *p)
{
    const unsigned char *body = lladd_page_body(p->items);
    return body + slot_at(body, p->slot);
}

/* Reads the state of an item's slot. */
static int look(struct lladd_db *db, lladd_pageno ring, uint64_t number, unsigned *state,
                struct lladd_error *err)
{
    struct place p = {.latch = LLADD_LATCH_SHARED};
    int rc = place_fix(db, ring, number, &p, err);
    if (!rc)
        *state = place_slot(&p)[0];
    place_unfix(db, &p);
    return rc;
}

struct numbers {
    uint64_t next, first, count, capacity;
};

static int numbers(struct lladd_db *db, lladd_pageno ring, struct numbers *n,
                   struct lladd_error *err)
{
    struct lladd_page *head;
    TRY(head_fix(db, ring, LLADD_LATCH_SHARED, &head, err));
    const unsigned char *body = lladd_page_body(head);
    n->next = lladd_get64(body + NEXT);
    n->first = lladd_get64(body + FIRST);
    n->count = lladd_get64(body + COUNT);
    n->capacity = capacity(body);
    lladd_page_unfix(db, head, LLADD_LATCH_SHARED);
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

struct change {
    unsigned from, to; /* states; the item must be in the state `from`, unless it is new */
    bool fresh;        /* the item is new: it gets the next number */
    const void *item;  /* bytes to write; NULL: the bytes stay */
    void *out;         /* nullable: gets the previous bytes */
};

/* Logs both records of a change. LLADD_BUSY: the item is not in the state `from`. */
static int change_held(struct lladd_txn *txn, const struct place *p, lladd_op_id set,
                       lladd_op_id move, const struct change *c)
{
    unsigned char args[SET_HEAD + RING_ITEM_MAX], by[MOVE];
    const unsigned char *slot = place_slot(p);
    uint16_t size = lladd_get16(lladd_page_body(p->items));
    if (!c->fresh && slot[0] != c->from)
        return LLADD_BUSY;
    if (c->out)
        memcpy(c->out, slot + 1, size);
    lladd_put16(args, p->slot);
    args[2] = (unsigned char)c->to;
    memcpy(args + SET_HEAD, c->item ? c->item : slot + 1, size);
    (void)move_make(by, c->fresh, 0, c->to == FILLED ? 1 : -1);
    TRY(lladd_update_page(txn, set, p->items, args, SET_HEAD + (size_t)size));
    return lladd_update_page(txn, move, p->head, by, sizeof by);
}

/* [change] Changes an item's slot and the numbers of the head page. The log space is reserved
 * before the pages are latched. */
static int change(struct lladd_txn *txn, lladd_pageno ring, uint64_t number,
                  const struct change *c)
{
    struct lladd_db *db = lladd_txn_db(txn);
    struct place p = {.latch = LLADD_LATCH_EXCLUSIVE};
    lladd_op_id set, move;
    TRY(op_of(txn, &ring_set, &set));
    TRY(op_of(txn, &ring_move, &move));
    const struct lladd_log_need needs[] = {{set, 1}, {move, 1}};
    TRY(lladd_log_credit_all(txn, needs, 2));
    int rc = place_fix(db, ring, number, &p, lladd_txn_error_out(txn));
    if (!rc)
        rc = change_held(txn, &p, set, move, c);
    place_unfix(db, &p);
    int rest = lladd_log_credit(txn, set, 0);
    return rc ? rc : rest;
}
/* [/change] */

/* [put_back] Ordinary calls: the slot becomes a gap, and the number of items decreases by one. */
int ring_put_back(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    const unsigned char *b = undo.data;
    const struct change gap = {.from = FILLED, .to = UNUSED};
    (void)ctx;
    LLADD_USE(txn);
    return change(txn, lladd_page_of(lladd_get64(b)), lladd_get64(b + 8), &gap);
}
/* [/put_back] */

/* ---- put ------------------------------------------------------------------------------------- */

enum { PUT_LOCK, ITEM_LOCK };

static int lock_item(struct lladd_txn *txn, lladd_pageno ring, uint64_t number,
                     enum lladd_lock_mode mode, uint64_t wait)
{
    return lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(ring.v), lladd_lock_id(ITEM_LOCK),
                                           lladd_lock_id(number)),
                      mode, wait);
}

/* [release] Frees the slot of the oldest number if no open transaction can fill it again: a
 * transaction that has taken the item would hold X. The record is redo-only: even if this
 * transaction is rolled back, the slot stays free. LLADD_NO_SPACE: the slot is in use. */
static int release(struct lladd_txn *txn, lladd_pageno ring, uint64_t first)
{
    struct lladd_lock_part path[] = {lladd_lock_id(ring.v), lladd_lock_id(ITEM_LOCK),
                                     lladd_lock_id(first)};
    struct lladd_lock_name name = {path, 3};
    unsigned char by[MOVE];
    unsigned state;
    lladd_op_id move;
    TRY(op_of(txn, &ring_move, &move));
    TRY(look(lladd_txn_db(txn), ring, first, &state, lladd_txn_error_out(txn)));
    int rc = state == FILLED || lladd_lock_held(txn, name) != LLADD_LOCK_NONE
                 ? LLADD_BUSY
                 : lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_TRY);
    if (rc == LLADD_BUSY)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_SPACE, "the ring is full");
    if (!rc) {
        rc = lladd_log_redo_only(txn, move, ring, move_make(by, 0, 1, 0), sizeof by);
        (void)lladd_lock_release(txn, name); /* a serialisable transaction keeps the lock */
    }
    return rc;
}
/* [/release] */

/* [put] If a crash comes before the end of the action, recovery undoes the action's records on
 * their pages; after its end, ring_put_back undoes the action. */
static int put_new(struct lladd_txn *txn, lladd_pageno ring, const void *item, uint64_t number)
{
    const struct change new_item = {.to = FILLED, .fresh = true, .item = item};
    struct lladd_action action;
    unsigned char undo[UNDO];
    lladd_op_id op;
    lladd_put64(undo, ring.v);
    lladd_put64(undo + 8, number);
    TRY(op_of(txn, &ring_put_op, &op));
    TRY(lock_item(txn, ring, number, LLADD_LOCK_X, LLADD_LOCK_WAIT));
    TRY(lladd_nta_begin(txn, &action));
    int rc = change(txn, ring, number, &new_item);
    if (!rc)
        rc = lladd_nta_end(txn, &action, op, undo, sizeof undo);
    if (!rc)
        return 0;
    int back = lladd_nta_abort(txn, &action);
    return back ? back : rc;
}

static int put_alone(struct lladd_txn *txn, lladd_pageno ring, const void *item, uint64_t *number)
{
    struct numbers n;
    for (;;) {
        TRY(numbers(lladd_txn_db(txn), ring, &n, lladd_txn_error_out(txn)));
        if (n.next - n.first < n.capacity)
            break;
        TRY(release(txn, ring, n.first));
    }
    *number = n.next;
    return put_new(txn, ring, item, n.next);
}

/* One transaction at a time reads the next number and uses it. The lock is U, not X, because U can
 * be released before the transaction ends. */
int ring_put(struct lladd_txn *txn, lladd_pageno ring, const void *item, uint64_t *number)
{
    struct lladd_lock_part path[] = {lladd_lock_id(ring.v), lladd_lock_id(PUT_LOCK)};
    struct lladd_lock_name name = {path, 2};
    LLADD_USE(txn);
    TRY(lladd_lock_acquire(txn, name, LLADD_LOCK_U, LLADD_LOCK_WAIT));
    int rc = put_alone(txn, ring, item, number);
    (void)lladd_lock_release(txn, name);
    return rc;
}
/* [/put] */

/* ---- take ------------------------------------------------------------------------------------ */

/* [take] Skips an item that another transaction has locked. Checks the state again under the lock
 * and the latches, because another transaction may have taken the item and committed. */
int ring_take(struct lladd_txn *txn, lladd_pageno ring, void *item, uint64_t *number)
{
    struct lladd_db *db = lladd_txn_db(txn);
    const struct change take = {.from = FILLED, .to = TAKEN, .out = item};
    struct numbers n;
    unsigned state;
    LLADD_USE(txn);
    TRY(numbers(db, ring, &n, lladd_txn_error_out(txn)));
    for (*number = n.first; *number < n.next; ++*number) {
        TRY(look(db, ring, *number, &state, lladd_txn_error_out(txn)));
        if (state != FILLED)
            continue;
        int rc = lock_item(txn, ring, *number, LLADD_LOCK_X, LLADD_LOCK_TRY);
        if (!rc)
            rc = change(txn, ring, *number, &take);
        if (rc != LLADD_BUSY)
            return rc;
    }
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_NOT_FOUND, "there is no item to take");
}
/* [/take] */

/* ---- the whole ring -------------------------------------------------------------------------- */

static int new_page(struct lladd_txn *txn, const struct lladd_op *format, const void *args,
                    size_t len, lladd_pageno *out)
{
    lladd_op_id op;
    TRY(op_of(txn, format, &op));
    TRY(lladd_page_alloc(txn, out));
    return lladd_update(txn, op, *out, args, len);
}

static int create(struct lladd_txn *txn, unsigned char *args, unsigned pages, lladd_pageno *ring)
{
    lladd_pageno page;
    for (unsigned i = 0; i < pages; i++) {
        TRY(new_page(txn, &ring_items_format, args, 4, &page));
        lladd_put64(args + 6 + 8 * (size_t)i, page.v);
    }
    return new_page(txn, &ring_head_format, args, 6 + 8 * (size_t)pages, ring);
}

int ring_create(struct lladd_txn *txn, uint16_t size, uint16_t slots, uint16_t pages,
                lladd_pageno *ring)
{
    struct lladd_db *db = lladd_txn_db(txn);
    uint32_t body = lladd_body_size(lladd_page_size(db));
    uint32_t fit = (body - SLOT0) / (1u + size);
    LLADD_USE(txn);
    if (!size || size > RING_ITEM_MAX || slots > fit || !pages || LIST + 8u * pages > body)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_BAD_ARGUMENT,
                               "the ring's item size, slots or pages are out of range");
    unsigned char *args = lladd_mem_alloc(db, 6 + 8 * (size_t)pages);
    if (!args)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "no memory for the list of pages");
    lladd_put16(args, size);
    lladd_put16(args + 2, (uint16_t)(slots ? slots : fit));
    lladd_put16(args + 4, pages);
    int rc = create(txn, args, pages, ring);
    lladd_mem_free(db, args);
    return rc;
}

int ring_count(struct lladd_db *db, lladd_pageno ring, uint64_t *count, struct lladd_error *err)
{
    struct numbers n;
    TRY(numbers(db, ring, &n, err));
    *count = n.count;
    return 0;
}

int ring_each(struct lladd_db *db, lladd_pageno ring, ring_fn *fn, void *ctx,
              struct lladd_error *err)
{
    struct numbers n;
    TRY(numbers(db, ring, &n, err));
    for (uint64_t number = n.first; number < n.next; number++) {
        struct place p = {.latch = LLADD_LATCH_SHARED};
        int rc = place_fix(db, ring, number, &p, err);
        if (!rc && place_slot(&p)[0] == FILLED)
            rc = fn(ctx, number,
                    lladd_span_of(place_slot(&p) + 1, lladd_get16(lladd_page_body(p.items))));
        place_unfix(db, &p);
        if (rc)
            return rc;
    }
    return 0;
}

static int count_one(void *ctx, uint64_t number, struct lladd_span item)
{
    (void)number;
    (void)item;
    ++*(uint64_t *)ctx;
    return 0;
}

int ring_check(struct lladd_db *db, lladd_pageno ring, struct lladd_error *err)
{
    struct numbers n;
    uint64_t found = 0;
    TRY(numbers(db, ring, &n, err));
    if (n.first > n.next || n.next - n.first > n.capacity)
        return corrupt(err, ring, "has numbers that contradict each other");
    TRY(ring_each(db, ring, count_one, &found, err));
    return found == n.count ? 0 : corrupt(err, ring, "has a wrong count of items");
}

int ring_pages(struct lladd_db *db, lladd_pageno ring, int (*fn)(void *, lladd_pageno), void *arg,
               struct lladd_error *err)
{
    struct lladd_page *head;
    TRY(head_fix(db, ring, LLADD_LATCH_SHARED, &head, err));
    const unsigned char *body = lladd_page_body(head);
    int rc = fn(arg, ring);
    for (unsigned i = 0; !rc && i < lladd_get16(body + PAGES); i++)
        rc = fn(arg, lladd_page_of(lladd_get64(body + LIST + 8 * (size_t)i)));
    lladd_page_unfix(db, head, LLADD_LATCH_SHARED);
    return rc;
}

static const struct lladd_op *const ops[] = {&ring_head_format, &ring_items_format, &ring_set,
                                             &ring_move, &ring_put_op, NULL};
static const struct lladd_page_type *const page_types[] = {&ring_head_page, &ring_items_page,
                                                           NULL};
static const struct lladd_extension extension = {
    .struct_size = sizeof extension,
    .name = "example.ring",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
};

int ring_register(struct lladd_options *options, struct lladd_error *err)
{
    TRY(lladd_lock_register(options, err));
    return lladd_register_extension(options, &extension, err);
}
