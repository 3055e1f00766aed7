/* SPDX-License-Identifier: BSD-2-Clause */
/* B+trees in memory. txn.c has what is kept for each transaction.
 *
 * Each tree has one struct ll_btree_tree, created at first use and kept until the database is
 * closed, so that a rollback finds it without allocating memory. `top` is the top node and its
 * level. A tree only grows at the top, and a former top node stays the leftmost node of its level,
 * so a descent may begin at a value of `top` that is out of date.
 *
 * A transaction reserves a key (operations/shared/reservation.c) before it removes the key's row,
 * before it replaces a reserved ghost, and before it makes a value shorter. A reservation is the
 * root page's number and 18 bits of the key's hash. The reservation does not name the slot, because
 * slots move. It also covers other keys with the same bits, which does no harm.
 *
 * A tree cannot be used before its creation has committed: splits stay when a transaction rolls
 * back, and would keep pages of a tree that is gone. */
#include "operations/btree/tree.h"

#define HOLD_BITS 18u

int ll_btree__corrupt(struct lladd_error *err, lladd_pageno page, const char *what)
{
    return ll_operations__on(err, page,
                             lladd_error_set(err, LLADD_CORRUPT_PAGE, "page %llu: %s",
                                             (unsigned long long)page.v, what));
}

int ll_btree__no_memory(struct lladd_error *err, const char *what)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for %s", what);
}

/* ---- the list of trees ----------------------------------------------------------------------- */

static struct ll_btree_tree *find(struct ll_btrees *b, lladd_pageno root)
{
    struct ll_btree_tree *t = b->trees;
    while (t && t->root.v != root.v)
        t = t->next;
    return t;
}

static int make(struct ll_btrees *b, lladd_pageno root, struct ll_btree_tree **out)
{
    struct ll_btree_tree *t = lladd_mem_alloc(b->db, sizeof *t);
    if (!t)
        return LLADD_NO_MEMORY;
    *t = (struct ll_btree_tree){.trees = b, .db = b->db, .root = root};
    int rc = lladd_mutex_init(&t->loading, LL_BTREE_RANK_LOADING, "tree");
    if (rc)
        lladd_mem_free(b->db, t);
    *out = rc ? NULL : t;
    return rc;
}

static void unmake(struct ll_btree_tree *t)
{
    ll_btree__forget_sparse(t);
    lladd_mutex_destroy(&t->loading);
    lladd_mem_free(t->db, t);
}

int ll_btree__find_tree(struct ll_btrees *b, lladd_pageno root, struct ll_btree_tree **out)
{
    struct ll_btree_tree *fresh;
    lladd_mutex_lock(&b->mutex);
    *out = find(b, root);
    lladd_mutex_unlock(&b->mutex);
    if (*out)
        return 0;
    TRY(make(b, root, &fresh));
    lladd_mutex_lock(&b->mutex);
    *out = find(b, root);
    if (!*out) {
        fresh->next = b->trees;
        b->trees = *out = fresh;
    }
    lladd_mutex_unlock(&b->mutex);
    if (*out != fresh)
        unmake(fresh);
    return 0;
}

void ll_btree__set_sizes(struct ll_btree_tree *t, uint32_t key_size, uint32_t value_size)
{
    uint32_t page = lladd_page_size(t->db);
    t->key_size = key_size;
    t->value_size = value_size;
    t->key_max = ll_btree__key_max(page);
    t->entry_max = ll_btree__entry_max(page);
    t->blobs = !value_size ||
               BT_ENTRY_HEAD + (key_size ? key_size : t->key_max) + value_size > t->entry_max;
    t->loaded = true;
}

/* Claims the tree before adding it to the list. So a thread that finds the tree in the list sees
 * that the tree's creation has not committed. */
int ll_btree__new_tree(struct lladd_txn *txn, struct ll_btrees *b, lladd_pageno root,
                       const struct lladd_btree_options *o, struct ll_btree_tree **out)
{
    if (make(b, root, out))
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a B+tree");
    (*out)->type = lladd_page_type_number(b->db, ll_btree__node_page.name);
    ll_btree__set_sizes(*out, o->key_size, o->value_size);
    int rc = ll_btree__claim(txn, *out, true);
    if (rc) {
        unmake(*out);
        return rc;
    }
    lladd_mutex_lock(&b->mutex);
    struct ll_btree_tree *older = find(b, root);
    if (older) { /* kept for handles that may still be open */
        older->root = lladd_page_of(LLADD_NO_PAGE);
        lladd_atomic_store32(&older->destroyed, 1);
        lladd_atomic_store64(&older->top, 0);
    }
    (*out)->next = b->trees;
    b->trees = *out;
    lladd_mutex_unlock(&b->mutex);
    return 0;
}

/* ---- the top node ---------------------------------------------------------------------------- */

void ll_btree__raise(struct ll_btree_tree *t, uint64_t top)
{
    uint64_t was = lladd_atomic_load64(&t->top);
    while (was && bt_top_level(was) < bt_top_level(top) &&
           !lladd_atomic_cas64(&t->top, &was, top)) {
    }
}

void ll_btree__forget(struct ll_btree_tree *t)
{
    lladd_atomic_store64(&t->top, 0);
    lladd_atomic_store64(&t->last, 0);
}

static int destroyed(const struct ll_btree_tree *t, struct lladd_error *err)
{
    return ll_operations__on(err, t->root,
                             lladd_error_set(err, LLADD_DESTROYED,
                                             "the B+tree of page %llu has been destroyed",
                                             (unsigned long long)t->root.v));
}

/* Reads the root page and publishes the top node in memory. Under `loading`. The function publishes
 * while it holds the root page's latch. A thread that makes the tree higher holds this latch
 * exclusively, so an older top node cannot overwrite a newer one. */
static int load(struct ll_btree_tree *t, uint64_t *out, struct lladd_error *err)
{
    struct lladd_page *p;
    if (!t->loaded) /* takes a mutex, so not under the latch */
        t->type = lladd_page_type_number(t->db, ll_btree__node_page.name);
    int rc =
        ll_operations__fix(t->db, t->root, ll_btree__root_page.name, LLADD_LATCH_SHARED, &p, err);
    if (rc) /* WRONG_TYPE of a page that was this tree's root: the tree was destroyed */
        return rc == LLADD_WRONG_TYPE && t->loaded ? destroyed(t, err) : rc;
    struct lladd_view v = lladd_page_view(p);
    uint32_t key_size = lladd_get32(v.bytes + BR_KEY), value_size = lladd_get32(v.bytes + BR_VALUE);
    uint32_t layout = lladd_get32(v.bytes + BR_LAYOUT);
    if (layout > BR_LAYOUT_KNOWN)
        rc = ll_operations__on(err, t->root,
                               lladd_error_set(err, LLADD_NEWER_FORMAT,
                                               "the B+tree of page %llu has layout %u; %u is known",
                                               (unsigned long long)t->root.v, layout,
                                               BR_LAYOUT_KNOWN));
    else if (!ll_btree__root_page.check(v))
        rc = ll_btree__corrupt(err, t->root, "is not a valid root page of a B+tree");
    else if (lladd_get32(v.bytes + BR_STATE))
        rc = destroyed(t, err);
    *out = ll_btree__top_of(v.bytes);
    if (!rc && !t->loaded)
        ll_btree__set_sizes(t, key_size, value_size);
    if (!rc)
        lladd_atomic_store64(&t->top, *out);
    lladd_page_unfix(t->db, p, LLADD_LATCH_SHARED);
    return rc;
}

static int not_yet(const struct ll_btree_tree *t, struct lladd_error *err)
{
    return ll_operations__on(
        err, t->root,
        lladd_error_set(err, LLADD_BUSY,
                        "the transaction that creates the B+tree of page %llu has not committed",
                        (unsigned long long)t->root.v));
}

int ll_btree__top_slow(struct ll_btree_tree *t, uint64_t *out, struct lladd_error *err)
{
    if (lladd_atomic_load32(&t->destroyed))
        return destroyed(t, err);
    if (lladd_atomic_load32(&t->fresh))
        return not_yet(t, err);
    lladd_mutex_lock(&t->loading);
    int rc = 0;
    *out = lladd_atomic_load64(&t->top);
    if (!*out)
        rc = load(t, out, err);
    lladd_mutex_unlock(&t->loading);
    return rc;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static uint32_t hold_index(struct bt_key key)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < key.len; i++)
        h = (h ^ key.bytes[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    return (uint32_t)(h * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HOLD_BITS));
}

int ll_btree__reserve(struct lladd_txn *txn, struct ll_btree_tree *t, struct bt_key key)
{
    struct ll_btree_owner *o;
    TRY(ll_btree__owner(txn, t->trees, &o));
    o->hold.holds = &t->trees->holds;
    if (ll_operations__reserve(&o->hold, t->root, hold_index(key), 1))
        return ll_btree__no_memory(lladd_txn_error_out(txn), "the reservation of a key");
    return 0;
}

bool ll_btree__held(const struct ll_btree_tree *t, struct bt_key key)
{
    uint64_t held[LL_RESERVATION_WORDS];
    if (ll_operations__recovering(t->trees->ops))
        return true;
    if (LLADD_PLANTED(LLADD_BUG_BT_GHOST))
        return false;
    if (ll_operations__nothing_held(&t->trees->holds))
        return false;
    uint32_t i = hold_index(key);
    ll_operations__held(&t->trees->holds, t->root, i / LL_RESERVATION_CHUNK, NULL, held);
    return held[i % LL_RESERVATION_CHUNK / 64] >> i % 64 & 1;
}

/* ---- the extension --------------------------------------------------------------------------- */

/* In the order of the ids in struct ll_btrees. */
static const struct lladd_op *const ops[] = {
    &ll_btree__root_format, &ll_btree__root_top, &ll_btree__root_create, &ll_btree__root_destroy,
    &ll_btree__root_spare,  &ll_btree__node,     &ll_btree__spare,       &ll_btree__fill,
    &ll_btree__narrow,      &ll_btree__index,    &ll_btree__put,         &ll_btree__remove,
    &ll_btree__mark,        &ll_btree__restore,  &ll_btree__clear_op,    &ll_btree__root_free,
    &ll_btree__unindex,     &ll_btree__widen,    &ll_btree__close,       &ll_btree__insert,
    &ll_btree__fill_1,      &ll_btree__rows,     NULL};
static const struct lladd_page_type *const page_types[] = {&ll_btree__root_page,
                                                           &ll_btree__node_page, NULL};
static const struct lladd_participant *const participants[] = {&ll_btree__participant, NULL};

static int look_up(struct ll_btrees *b)
{
    lladd_op_id *const ids[] = {&b->format,    &b->top,     &b->create, &b->destroy, &b->root_spare,
                                &b->node,      &b->spare,   &b->fill,   &b->narrow,  &b->index,
                                &b->put,       &b->remove,  &b->mark,   &b->restore, &b->clear,
                                &b->root_free, &b->unindex, &b->widen,  &b->close,   &b->insert,
                                &b->fill_1,    &b->rows};
    return ll_operations__ids(b->db, ops[0], ids, sizeof ids / sizeof ids[0]);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_btrees *b = lladd_mem_alloc(db, sizeof *b);
    if (!b)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    *b = (struct ll_btrees){.db = db, .ops = ll_operations_of(db)};
    b->owners = (struct ll_txn_parts){db, &b->mutex, ll_btree__owner_drop, NULL};
    int rc = look_up(b);
    if (!rc)
        rc = ll_operations__reservations_init(&b->holds, db, "tree keys removed");
    if (!rc && (rc = lladd_mutex_init(&b->mutex, LLADD_RANK_LEAF, "trees")) != 0)
        ll_operations__reservations_free(&b->holds);
    if (rc) {
        lladd_mem_free(db, b);
        return lladd_error_set(err, rc, "B+trees cannot be used");
    }
    *state = b;
    return 0;
}

/* Forgets what was read during recovery, because recovery may have changed it since. */
static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    (void)ctx;
    (void)db;
    (void)err;
    struct ll_btrees *b = state;
    for (struct ll_btree_tree *t = b->trees; t; t = t->next) {
        t->loaded = false;
        ll_btree__forget(t);
    }
    return 0;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    struct ll_btrees *b = state;
    ll_operations__owners_end(&b->owners);
    for (struct ll_btree_tree *t = b->trees, *next; t; t = next) {
        next = t->next;
        unmake(t);
    }
    ll_operations__reservations_free(&b->holds);
    lladd_mutex_destroy(&b->mutex);
    lladd_mem_free(db, b);
}

const struct lladd_extension ll_btree__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.btree",
    .version = 1,
    .ops = ops,
    .page_types = page_types,
    .participants = participants,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
};
