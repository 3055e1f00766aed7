/* SPDX-License-Identifier: BSD-2-Clause */
/* Deletion of ranges. A deletion of a range is a write to every key in it, absent keys included. As
 * for rows, the first writer of a key wins.
 *
 * The transaction first claims the range, so that later transactions cannot write into the range.
 * Then it searches the range for conflicts: versions of other transactions that are in progress, or
 * that committed after the snapshot. The search does not hold the mutex, because it may read many
 * rows. If rows were digested since the snapshot, the rows in the runs are compared with the rows
 * that the snapshot sees, as for a single row (write.c). On a conflict the transaction gives up the
 * claim. */
#include "operations/dtables/managed/managed.h"

/* ---- rows digested since the snapshot -------------------------------------------------------- */

struct walk {
    struct ll_layers layers;
    struct lladd_dtable_cursor *rows;
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    bool there;
};

static int arrive(struct walk *w, int rc, const struct lladd_dtable_key *to,
                  struct lladd_error *err)
{
    w->there = rc == 0;
    if (!rc)
        rc = lladd_dtable_row(w->rows, &w->key, &w->value, err);
    if (!rc && to && lladd_dtable_compare(&w->layers.all->order, &w->key, to) >= 0)
        w->there = false;
    return rc == LLADD_END ? 0 : rc;
}

static int walk_from(struct walk *w, struct lladd_managed *t, const struct ll_version *v,
                     uint64_t snapshot, const struct lladd_dtable_key *from,
                     const struct lladd_dtable_key *to, struct lladd_error *err)
{
    TRY(ll_managed__layers(t, v, snapshot, NULL, &w->layers, err));
    TRY(lladd_dtable_cursor_open(w->layers.all, 0, &w->rows, err));
    int rc = from ? lladd_dtable_seek(w->rows, from, err) : lladd_dtable_first(w->rows, err);
    return arrive(w, rc, to, err);
}

static bool agree(const struct walk *a, const struct walk *b)
{
    return a->there == b->there &&
           (!a->there || (lladd_dtable_compare(&a->layers.all->order, &a->key, &b->key) == 0 &&
                          ll_managed__same(&a->value, &b->value)));
}

/* Returns LLADD_CONFLICT unless the range has the same rows in the runs of `now` and in the
 * snapshot. */
static int unchanged(struct lladd_txn *txn, struct ll_use *u, const struct ll_version *now,
                     const struct lladd_dtable_key *from, const struct lladd_dtable_key *to)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct walk was = {.rows = NULL}, is = {.rows = NULL};
    int rc = walk_from(&was, u->t, u->view, u->snapshot, from, to, err);
    if (!rc)
        rc = walk_from(&is, u->t, now, now->cutoff, from, to, err);
    while (!rc && agree(&was, &is) && was.there) {
        rc = arrive(&was, lladd_dtable_next(was.rows, err), to, err);
        if (!rc)
            rc = arrive(&is, lladd_dtable_next(is.rows, err), to, err);
    }
    if (!rc && !agree(&was, &is))
        rc = ll_managed__conflict(txn, u->t, "has changed a key of the range");
    lladd_dtable_cursor_close(was.rows);
    lladd_dtable_cursor_close(is.rows);
    ll_managed__layers_drop(u->t->db, &was.layers);
    ll_managed__layers_drop(u->t->db, &is.layers);
    return rc;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Returns LLADD_CONFLICT if another transaction has written in the range. `now` is the version that
 * was current when the range was claimed. */
static int may_have(struct lladd_txn *txn, struct ll_use *u, const struct ll_version *now,
                    const struct lladd_dtable_key *from, const struct lladd_dtable_key *to)
{
    for (uint32_t i = 0; i < now->n_mems; i++)
        switch (ll_managed__mem_others(now->mems[i], u->part, from, to, u->snapshot)) {
        case LL_MEM_OTHER:
            return ll_managed__conflict(txn, u->t, "is writing a key of the range");
        case LL_MEM_COMMITTED:
            return ll_managed__conflict(txn, u->t, "has changed a key of the range");
        default:
            break;
        }
    return u->snapshot < now->cutoff ? unchanged(txn, u, now, from, to) : 0;
}

static void release_claim(struct ll_use *u)
{
    lladd_mutex_lock(&u->t->mutex);
    ll_managed__mem_undelete(u->part);
    lladd_mutex_unlock(&u->t->mutex);
    u->puts++; /* cursors of the transaction may have seen the deletion */
}

static int claim(struct lladd_txn *txn, struct ll_use *u, const struct lladd_dtable_key *from,
                 const struct lladd_dtable_key *to, lladd_savepoint_id next)
{
    struct lladd_managed *t = u->t;
    lladd_mutex_lock(&t->mutex);
    struct ll_version *now = t->view;
    ll_managed__version_retain(now);
    int rc = ll_managed__mem_delete(u->part, from, to, next);
    lladd_mutex_unlock(&t->mutex);
    if (rc) {
        rc = ll_managed__no_memory(lladd_txn_error_out(txn));
    } else if (!t->unlogged) {
        rc = may_have(txn, u, now, from, to);
        if (rc)
            release_claim(u);
    }
    ll_managed__version_release(t, now);
    return rc;
}

/* ---- public calls ---------------------------------------------------------------------------- */

/* Checks the ends of a range. *none: the ends are equal, so the range is empty. */
static int check(struct lladd_txn *txn, const struct lladd_managed *t,
                 const struct lladd_dtable_key *from, const struct lladd_dtable_key *to, bool *none)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    int rc = from ? lladd_dtable_check_key(&t->order, from, err) : 0;
    if (!rc && to)
        rc = lladd_dtable_check_key(&t->order, to, err);
    int order = !rc && from && to ? lladd_dtable_compare(&t->order, from, to) : -1;
    *none = order == 0;
    if (order > 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a range that ends before it begins");
    return rc;
}

int lladd_managed_delete_range(struct lladd_txn *txn, struct lladd_managed *t,
                               const struct lladd_dtable_key *from,
                               const struct lladd_dtable_key *to)
{
    LLADD_USE(txn);
    struct lladd_txn_now now;
    struct lladd_span entry;
    struct ll_use *u;
    bool none;
    int rc = lladd_txn_now_get(txn, &now);
    if (!rc)
        rc = ll_managed__use(txn, t, &u);
    if (!rc)
        rc = check(txn, t, from, to, &none);
    if (rc || none)
        return rc;
    TRY(ll_managed__stall(t, lladd_txn_error_out(txn)));
    TRY(ll_managed__begin_writing(txn, u));
    if (ll_managed__entry_put_range(u, from, to, &entry))
        return ll_managed__no_memory(lladd_txn_error_out(txn));
    if (!t->unlogged && entry.len > ll_managed__entry_most(t))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                               "a range of %zu bytes: a record of the journal takes at most %zu",
                               entry.len, ll_managed__entry_most(t));
    TRY(claim(txn, u, from, to, now.next));
    rc = t->unlogged ? 0 : lladd_journal_append(txn, t->tag, entry, NULL);
    if (rc)
        release_claim(u);
    u->puts++;
    return rc;
}
