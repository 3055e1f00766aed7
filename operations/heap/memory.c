/* SPDX-License-Identifier: BSD-2-Clause */
/* Heaps in memory, one for each root page in use.
 *
 * All handles of a heap share one struct lladd_heap. It caches where the heap has free space
 * (space.c), and stays in the table when the handles are closed.
 *
 * `alive` says that the root page still belongs to this heap, so most calls need not read the page.
 * Destroying the heap, and every rollback that may undo its creation, first frees the page, then
 * clears `alive` and increments `looks`. A thread that reads the page sets `alive` only if `looks`
 * is the same before and after.
 *
 * A root page's number may be reused. If a heap is created where an earlier heap has open handles,
 * the earlier one is `gone`: its handles never work on the new heap. */
#include "operations/heap/heap.h"

/* The heaps that one transaction has created; the transaction has a reference to each. */
struct ll_heaps_created {
    struct ll_txn_part owner;
    struct ll_operations *ops;
    struct lladd_heap **heaps;
    size_t n, cap;
};

/* ---- the table ------------------------------------------------------------------------------- */

static struct lladd_heap *find(struct ll_heaps *t, lladd_pageno root)
{
    struct lladd_heap *h = (struct lladd_heap *)ll_operations__index_find(&t->table, root.v);
    while (h && (h->node.key != root.v || h->gone))
        h = (struct lladd_heap *)h->node.next;
    return h;
}

static void free_heap(struct lladd_heap *h)
{
    lladd_mutex_destroy(&h->grow);
    lladd_mem_free(h->ops->db, h->pool);
    lladd_mem_free(h->ops->db, h);
}

/* Resets the heap's state to "not used yet". Under `grow` and heaps.mutex, or before other threads
 * know the heap. */
static void forget(struct lladd_heap *h)
{
    h->looks++;
    lladd_atomic_store32(&h->alive, 0);
    h->n_pool = 0;
    h->gained = false;
    h->placed = 0;
    h->passing = true;
    h->at = h->root;
    h->index = 0;
    h->seen = h->visited = h->entries = 0;
    h->last = lladd_page_of(LLADD_NO_PAGE);
}

static int make_heap(struct ll_operations *ops, lladd_pageno root, struct lladd_heap **out)
{
    struct lladd_heap *h = lladd_mem_alloc(ops->db, sizeof *h);
    if (!h)
        return LLADD_NO_MEMORY;
    *h = (struct lladd_heap){.node.key = root.v, .ops = ops, .root = root};
    int rc = lladd_mutex_init(&h->grow, LL_OPERATIONS_RANK_HEAP, "heap");
    if (rc) {
        lladd_mem_free(ops->db, h);
        return rc;
    }
    forget(h);
    *out = h;
    return 0;
}

/* The heap of a root page, created in memory if necessary, with `refs` more references. */
static int heap_for(struct ll_operations *ops, lladd_pageno root, uint32_t refs,
                    struct lladd_heap **out)
{
    struct ll_heaps *t = &ops->heaps;
    struct lladd_heap *fresh = NULL, *h;
    lladd_mutex_lock(&t->mutex);
    h = find(t, root);
    if (h)
        h->refs += refs;
    lladd_mutex_unlock(&t->mutex);
    int rc = h ? 0 : make_heap(ops, root, &fresh);
    if (fresh) {
        lladd_mutex_lock(&t->mutex);
        h = find(t, root);
        if (!h && (rc = ll_operations__index_room(ops->db, &t->table)) == 0) {
            h = fresh;
            ll_operations__index_add(&t->table, &h->node);
        }
        if (h)
            h->refs += refs;
        lladd_mutex_unlock(&t->mutex);
        if (h != fresh)
            free_heap(fresh);
    }
    *out = h;
    return rc;
}

int ll_operations__heap_at(struct lladd_db *db, lladd_pageno root, struct lladd_heap **out,
                           struct lladd_error *err)
{
    int rc = heap_for(ll_operations_of(db), root, 0, out);
    return rc ? lladd_error_set(err, rc, "out of memory for a heap") : 0;
}

static void release(struct lladd_heap *h)
{
    struct ll_heaps *t = &h->ops->heaps;
    lladd_mutex_lock(&t->mutex);
    bool last = --h->refs == 0 && h->gone;
    if (last)
        ll_operations__index_drop(&t->table, &h->node);
    lladd_mutex_unlock(&t->mutex);
    if (last)
        free_heap(h);
}

/* ---- does the heap exist? -------------------------------------------------------------------- */

static int destroyed(struct lladd_error *err, lladd_pageno root)
{
    return ll_operations__on(err, root,
                             lladd_error_set(err, LLADD_DESTROYED, "heap %llu has been destroyed",
                                             (unsigned long long)root.v));
}

int ll_operations__heap_check_root(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_page *page;
    enum lladd_page_use use;
    TRY(lladd_page_use_get(db, root, &use, err));
    TRY(ll_operations__fix(db, root, ll_operations__heap_page.name, LLADD_LATCH_SHARED, &page,
                           err));
    lladd_pageno heap = ll_inventory_heap(lladd_page_view(page));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (heap.v != root.v)
        return ll_operations__on(err, root,
                                 lladd_error_set(err, LLADD_WRONG_TYPE,
                                                 "page %llu is not the root page of a heap",
                                                 (unsigned long long)root.v));
    return use == LLADD_USE_PAGED ? 0 : destroyed(err, root);
}

int ll_operations__heap_look(struct lladd_heap *h, struct lladd_error *err)
{
    struct ll_operations *ops = h->ops;
    for (;;) {
        lladd_mutex_lock(&ops->heaps.mutex);
        uint64_t looks = h->looks;
        bool gone = h->gone;
        lladd_mutex_unlock(&ops->heaps.mutex);
        int rc = gone ? LLADD_DESTROYED : ll_operations__heap_check_root(ops->db, h->root, err);
        if (rc == LLADD_WRONG_TYPE || rc == LLADD_DESTROYED)
            return destroyed(err, h->root);
        if (rc)
            return rc;
        lladd_mutex_lock(&ops->heaps.mutex);
        bool still = h->looks == looks;
        if (still)
            lladd_atomic_store32(&h->alive, 1);
        lladd_mutex_unlock(&ops->heaps.mutex);
        if (still)
            return 0;
    }
}

/* ---- the transaction that creates a heap ----------------------------------------------------- */

bool ll_operations__heap_is_creator(struct lladd_txn *txn, struct lladd_heap *h)
{
    const void *made = lladd_txn_joined(txn, &ll_operations__heap_participant);
    lladd_mutex_lock(&h->ops->heaps.mutex);
    bool is = made && h->creator == made;
    lladd_mutex_unlock(&h->ops->heaps.mutex);
    return is;
}

/* The transaction's list of heaps that it has created, with room for one more. */
static int created_of(struct lladd_txn *txn, struct ll_operations *ops,
                      struct ll_heaps_created **out)
{
    struct ll_txn_part *owner;
    TRY(ll_operations__owner_of(txn, &ll_operations__heap_participant, &ops->heaps.created,
                                sizeof(struct ll_heaps_created), "a heap", &owner));
    struct ll_heaps_created *c = (struct ll_heaps_created *)owner;
    c->ops = ops;
    if (ll_operations__grow(ops->db, &c->heaps, c->n + 1, &c->cap, sizeof(struct lladd_heap *)))
        return LLADD_NO_MEMORY;
    *out = c;
    return 0;
}

/* An earlier heap with this root page no longer exists. If it has references, it becomes `gone`. */
static void supersede(struct ll_heaps *t, lladd_pageno root)
{
    lladd_mutex_lock(&t->mutex);
    struct lladd_heap *h = find(t, root);
    if (h && h->refs) {
        h->gone = true;
        h->looks++;
        lladd_atomic_store32(&h->alive, 0);
    }
    lladd_mutex_unlock(&t->mutex);
}

int ll_operations__heap_created(struct lladd_txn *txn, lladd_pageno root)
{
    struct ll_operations *ops = ll_operations_of(lladd_txn_db(txn));
    struct lladd_heap *h = NULL;
    struct ll_heaps_created *c = NULL;
    int rc = created_of(txn, ops, &c);
    if (!rc) {
        supersede(&ops->heaps, root);
        rc = heap_for(ops, root, 1, &h);
    }
    if (rc)
        return lladd_error_set(lladd_txn_error_out(txn), rc, "out of memory for a heap");
    lladd_mutex_lock(&h->grow);
    lladd_mutex_lock(&ops->heaps.mutex);
    forget(h);
    h->creator = c;
    c->heaps[c->n++] = h;
    lladd_mutex_unlock(&ops->heaps.mutex);
    lladd_mutex_unlock(&h->grow);
    return 0;
}

void ll_operations__heap_destroyed(struct lladd_heap *h)
{
    lladd_mutex_lock(&h->grow);
    lladd_mutex_lock(&h->ops->heaps.mutex);
    forget(h);
    lladd_mutex_unlock(&h->ops->heaps.mutex);
    lladd_mutex_unlock(&h->grow);
}

/* The transaction ends: its heaps have no creator any more. A rollback to a savepoint may have
 * removed pages in their pools, so the pools are emptied; a pass finds the pages that remain. */
static void disown(struct ll_heaps_created *c)
{
    struct ll_operations *ops = c->ops;
    lladd_mutex_lock(&ops->heaps.mutex);
    for (size_t i = 0; i < c->n; i++) {
        struct lladd_heap *h = c->heaps[i];
        if (h->creator != c)
            continue; /* already disowned */
        h->creator = NULL;
        h->n_pool = 0;
    }
    lladd_mutex_unlock(&ops->heaps.mutex);
}

static void created_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    (void)commit;
    disown(state);
}

static void created_drop(struct ll_txn_part *part)
{
    struct ll_heaps_created *c = (struct ll_heaps_created *)part;
    disown(c);
    for (size_t i = 0; i < c->n; i++)
        release(c->heaps[i]);
    lladd_mem_free(c->ops->db, c->heaps);
}

/* A rollback may have undone the creation of the heaps: the next call reads their root pages. */
static void look_again(struct ll_heaps_created *c)
{
    lladd_mutex_lock(&c->ops->heaps.mutex);
    for (size_t i = 0; i < c->n; i++) {
        c->heaps[i]->looks++;
        lladd_atomic_store32(&c->heaps[i]->alive, 0);
    }
    lladd_mutex_unlock(&c->ops->heaps.mutex);
}

static void created_aborted(void *ctx, void *state, struct lladd_db *db)
{
    look_again(state);
    ll_operations__owner_aborted(ctx, state, db);
}

static void created_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    (void)ctx;
    (void)txn;
    (void)since;
    look_again(state);
}

const struct lladd_participant ll_operations__heap_participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.heaps",
    .version = 1,
    .logged = created_logged,
    .durable = ll_operations__owner_durable,
    .aborted = created_aborted,
    .undone = created_undone,
};

/* ---- open and close -------------------------------------------------------------------------- */

int ll_operations__heaps_init(struct ll_operations *ops, struct lladd_error *err)
{
    int rc = lladd_mutex_init(&ops->heaps.mutex, LLADD_RANK_LEAF, "heaps");
    ops->heaps.created = (struct ll_txn_parts){ops->db, &ops->heaps.mutex, created_drop, NULL};
    return rc ? lladd_error_set(err, rc, "out of memory") : 0;
}

void ll_operations__heaps_free(struct ll_operations *ops)
{
    struct ll_heaps *t = &ops->heaps;
    ll_operations__owners_end(&t->created);
    for (struct ll_index_node *n = ll_operations__index_next(&t->table, NULL), *next; n; n = next) {
        next = ll_operations__index_next(&t->table, n);
        free_heap((struct lladd_heap *)n);
    }
    ll_operations__index_free(ops->db, &t->table);
    lladd_mutex_destroy(&t->mutex);
}

/* ---- handles --------------------------------------------------------------------------------- */

int lladd_heap_open(struct lladd_db *db, lladd_pageno root, struct lladd_heap **out,
                    struct lladd_error *err)
{
    struct lladd_heap *h;
    TRY(ll_operations__heap_check_root(db, root, err));
    int rc = heap_for(ll_operations_of(db), root, 1, &h);
    if (rc)
        return lladd_error_set(err, rc, "out of memory for a heap");
    *out = h;
    return 0;
}

void lladd_heap_close(struct lladd_heap *h)
{
    if (h)
        release(h);
}
