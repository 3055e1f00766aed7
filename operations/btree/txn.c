/* SPDX-License-Identifier: BSD-2-Clause */
/* What B+trees keep for a transaction: the trees that it creates or destroys, those that it has
 * changed by key, and its reservations (tree.c). The prepare record has all three, so that recovery
 * restores them for a transaction in doubt. */
#include "operations/btree/tree.h"

static void give_back(struct ll_btree_owner *o, struct ll_btree_own *own)
{
    uint64_t mine = (uintptr_t)o;
    (void)lladd_atomic_cas64(&own->tree->owner, &mine, 0);
}

static void owner_release(struct ll_btree_owner *o)
{
    for (size_t i = 0; i < o->n_own; i++) {
        if (o->own[i].created)
            lladd_atomic_store32(&o->own[i].tree->fresh, 0);
        give_back(o, &o->own[i]);
    }
    o->n_own = 0;
    for (size_t i = 0; i < o->n_changed; i++)
        (void)lladd_atomic_sub64(&o->changed[i]->changers, 1);
    o->n_changed = 0;
}

/* Called after a rollback to a savepoint. The next use of a tree that the transaction no longer
 * creates or destroys reads the root page, which says whether the tree exists. */
static void owner_forget(struct ll_btree_owner *o, lladd_savepoint_id to)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->n_own; i++) {
        struct ll_btree_own *own = &o->own[i];
        if (own->destroyed > to) {
            own->destroyed = 0;
            lladd_atomic_store32(&own->tree->destroyed, own->tree->root.v == LLADD_NO_PAGE);
        }
        if (own->claimed <= to) {
            o->own[kept++] = *own;
            continue;
        }
        ll_btree__forget(own->tree);
        if (own->created)
            lladd_atomic_store32(&own->tree->fresh, 0);
        give_back(o, own);
    }
    o->n_own = kept;
}

void ll_btree__owner_drop(struct ll_txn_part *part)
{
    struct ll_btree_owner *o = (struct ll_btree_owner *)part;
    ll_operations__reserve_release(&o->hold);
    owner_release(o);
    lladd_mem_free(o->owner.all->db, o->own);
    lladd_mem_free(o->owner.all->db, o->changed);
}

/* ---- the prepare record ---------------------------------------------------------------------- */

static int write_word(struct lladd_sink *sink, uint64_t word)
{
    unsigned char bytes[8];
    lladd_put64(bytes, word);
    return lladd_sink_write(sink, bytes, sizeof bytes);
}

/* A word for a tree that the transaction has created, destroyed or changed: the tree's root page,
 * and two flags. OWNED means that the transaction has created or destroyed the tree, CREATED that
 * it has created the tree. */
#define CREATED (UINT64_C(1) << 63)
#define OWNED (UINT64_C(1) << 62)

/* Writes u64 number of trees, a word for each, the reservations. */
static int owner_prepare(void *ctx, void *state, struct lladd_txn *txn, struct lladd_sink *sink)
{
    struct ll_btree_owner *o = state;
    (void)ctx;
    (void)txn;
    int rc = write_word(sink, o->n_own + o->n_changed);
    for (size_t i = 0; i < o->n_own && !rc; i++)
        rc = write_word(sink, o->own[i].tree->root.v | OWNED | (o->own[i].created ? CREATED : 0));
    for (size_t i = 0; i < o->n_changed && !rc; i++)
        rc = write_word(sink, o->changed[i]->root.v);
    return rc ? rc : ll_operations__reserve_write(&o->hold, sink);
}

static int take(struct lladd_txn *, struct ll_btree_owner *, struct ll_btree_tree *, bool created);
static int note_change(struct lladd_txn *, struct ll_btree_owner *, struct ll_btree_tree *);

static int in_doubt_tree(struct lladd_txn *txn, struct ll_btree_owner *o, uint64_t word)
{
    struct ll_btree_tree *t;
    lladd_pageno root = lladd_page_of(word & ~(CREATED | OWNED));
    if (root.v ==
        (LLADD_NO_PAGE & ~(CREATED | OWNED))) /* the tree was gone before the transaction
                                               * prepared */
        return 0;
    if (ll_btree__find_tree(ll_btrees_of(lladd_txn_db(txn)), root, &t))
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a transaction in doubt");
    if (!(word & OWNED))
        return note_change(txn, o, t);
    int rc = take(txn, o, t, word & CREATED);
    return rc == LLADD_BUSY ? 0 : rc;
}

static int owner_in_doubt(void *ctx, struct lladd_txn *txn, struct lladd_span blob)
{
    struct ll_btrees *b = ll_btrees_of(lladd_txn_db(txn));
    struct lladd_error *err = lladd_txn_error_out(txn);
    const unsigned char *p = blob.data;
    struct ll_btree_owner *o;
    (void)ctx;
    uint64_t n = blob.len >= 8 ? lladd_get64(p) : UINT64_MAX;
    if (n > (blob.len - 8) / 8)
        return lladd_error_set(
            err, LLADD_BAD_RECORD,
            "B+trees: invalid prepare record of %zu bytes: expected a count and roots", blob.len);
    int rc = ll_btree__owner(txn, b, &o);
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = in_doubt_tree(txn, o, lladd_get64(p + 8 + 8 * i));
    if (rc)
        return rc;
    size_t used = 8 + 8 * (size_t)n;
    o->hold.holds = &b->holds;
    return ll_operations__reserve_restore(&o->hold, lladd_span_of(p + used, blob.len - used), err);
}

/* ---- the participant ------------------------------------------------------------------------- */

static void owner_logged(void *ctx, void *state, lladd_lsn commit)
{
    (void)ctx;
    (void)commit;
    struct ll_btree_owner *o = state;
    ll_btree__loads_ended(o);
    ll_operations__reserve_release(&o->hold);
    owner_release(o);
}

static void owner_aborted(void *ctx, void *state, struct lladd_db *db)
{
    ll_btree__loads_ended(state);
    owner_forget(state, 0);
    ll_operations__owner_aborted(ctx, state, db);
}

static void owner_undone(void *ctx, void *state, struct lladd_txn *txn, lladd_lsn since)
{
    struct lladd_txn_now now;
    (void)ctx;
    (void)since;
    struct ll_btree_owner *o = state;
    if (lladd_txn_now_get(txn, &now)) /* fails only if the handle is poisoned */
        return;
    ll_btree__loads_undone(o->loads, now.undone);
    owner_forget(o, now.undone);
}

const struct lladd_participant ll_btree__participant = {
    .struct_size = sizeof(struct lladd_participant),
    .name = "lladd.btree",
    .version = 1,
    .prepare = owner_prepare,
    .in_doubt = owner_in_doubt,
    .logged = owner_logged,
    .durable = ll_operations__owner_durable,
    .aborted = owner_aborted,
    .undone = owner_undone,
};

int ll_btree__owner(struct lladd_txn *txn, struct ll_btrees *b, struct ll_btree_owner **out)
{
    struct ll_txn_part *owner;
    TRY(ll_operations__owner_of(txn, &ll_btree__participant, &b->owners,
                                sizeof(struct ll_btree_owner), "a transaction's B+trees", &owner));
    *out = (struct ll_btree_owner *)owner;
    return 0;
}

static int in_use(struct lladd_txn *txn, const struct ll_btree_tree *t)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_BUSY,
                           "the B+tree of page %llu is in use by another transaction",
                           (unsigned long long)t->root.v);
}

static int take(struct lladd_txn *txn, struct ll_btree_owner *o, struct ll_btree_tree *t,
                bool created)
{
    struct lladd_txn_now now;
    uint64_t none = 0;
    if (lladd_atomic_load64(&t->owner) == (uintptr_t)o)
        return 0;
    if (ll_operations__grow(t->db, &o->own, o->n_own + 1, &o->cap_own, sizeof *o->own))
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a transaction's B+trees");
    if (!lladd_atomic_cas64(&t->owner, &none, (uintptr_t)o))
        return in_use(txn, t);
    if (created)
        lladd_atomic_store32(&t->fresh, 1);
    lladd_atomic_fence(); /* comes before the load of `changers`; see note_change */
    bool forward = lladd_txn_now_get(txn, &now) == 0 && !now.rolling_back;
    o->own[o->n_own++] =
        (struct ll_btree_own){.tree = t, .claimed = forward ? now.next : 0, .created = created};
    return 0;
}

static bool noted(const struct ll_btree_owner *o, const struct ll_btree_tree *t)
{
    for (size_t i = 0; i < o->n_changed; i++)
        if (o->changed[i] == t)
            return true;
    return false;
}

static int note_change(struct lladd_txn *txn, struct ll_btree_owner *o, struct ll_btree_tree *t)
{
    if (noted(o, t))
        return 0;
    if (ll_operations__grow(t->db, &o->changed, o->n_changed + 1, &o->cap_changed,
                            sizeof(struct ll_btree_tree *)))
        return ll_btree__no_memory(lladd_txn_error_out(txn), "a transaction's B+trees");
    o->changed[o->n_changed++] = t;
    (void)lladd_atomic_add64(&t->changers, 1);
    lladd_atomic_fence(); /* comes before the load of `owner`: of two threads, at least one sees the
                           * other's store */
    return 0;
}

int ll_btree__claim(struct lladd_txn *txn, struct ll_btree_tree *t, bool created)
{
    struct ll_btree_owner *o;
    int rc = ll_btree__owner(txn, t->trees, &o);
    if (rc || lladd_atomic_load64(&t->owner) == (uintptr_t)o)
        return rc;
    if (lladd_atomic_load64(&t->changers) != noted(o, t)) /* the claim is refused before the
                                                           * transaction owns the tree */
        return in_use(txn, t);
    rc = take(txn, o, t, created);
    if (rc || lladd_atomic_load64(&t->changers) == noted(o, t))
        return rc;
    o->n_own--;
    lladd_atomic_store64(&t->owner, 0);
    return in_use(txn, t);
}

/* A transaction that has changed the tree before need not look at `owner`: another transaction that
 * claims the tree finds this one in `changers`, and gives the tree back. */
static int change_first(struct lladd_txn *txn, struct ll_btree_tree *t)
{
    struct ll_btree_owner *o;
    TRY(ll_btree__owner(txn, t->trees, &o));
    if (noted(o, t))
        return 0;
    TRY(note_change(txn, o, t));
    uint64_t owner = lladd_atomic_load64(&t->owner);
    if (owner == 0 || owner == (uintptr_t)o)
        return 0;
    o->n_changed--;
    (void)lladd_atomic_sub64(&t->changers, 1);
    return in_use(txn, t);
}

int ll_btree__changes(struct lladd_txn *txn, struct ll_btree_tree *t)
{
    const struct ll_btree_owner *o = lladd_txn_joined(txn, &ll_btree__participant);
    return __builtin_expect(o && o->n_changed && o->changed[0] == t, 1) ? 0 : change_first(txn, t);
}

void ll_btree__set_destroyed(struct lladd_txn *txn, struct ll_btree_tree *t,
                             lladd_savepoint_id before)
{
    struct ll_btree_owner *o = lladd_txn_joined(txn, &ll_btree__participant);
    for (size_t i = 0; i < o->n_own; i++)
        if (o->own[i].tree == t && !o->own[i].destroyed)
            o->own[i].destroyed = before + 1;
    lladd_atomic_store32(&t->destroyed, 1);
    ll_btree__forget(t);
}
