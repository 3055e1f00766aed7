/* SPDX-License-Identifier: BSD-2-Clause */
/* A table as a transaction sees it: its own writes above the version of its snapshot. A cursor is a
 * cursor of an overlay of snapshot iterators and runs. The transaction may write while the cursor
 * is open. After a write, the cursor therefore seeks its position again before it moves. */
#include "operations/dtables/managed/managed.h"

static struct ll_use *use_of(const struct lladd_dtable *t)
{
    return (struct ll_use *)(uintptr_t)t;
}

/* Not inlined, so that `lookup` saves no registers in a transaction that only reads. */
static __attribute__((noinline)) int
lookup_own(const struct ll_use *u, const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
           struct lladd_dtable_value *out, struct lladd_error *err)
{
    if (ll_managed__mem_ask_own(u->part, key, out))
        return 0;
    return ll_managed__version_get(u->view, u->snapshot, key, pin, out, err);
}

static int lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct ll_use *u = use_of(t);
    if (u->part)
        return lookup_own(u, key, pin, out, err);
    return ll_managed__version_get(u->view, u->snapshot, key, pin, out, err);
}

static int lookup_columns(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    const struct ll_use *u = use_of(t);
    const struct ll_version *v = u->view;
    struct lladd_dtable_value row;
    if (u->part && ll_managed__mem_ask_own(u->part, key, &row))
        return lladd_dtable_row_unpack(&row, want, state, err);
    for (uint32_t i = 0; i < v->n_mems; i++)
        if (!ll_managed__version_skips(v, v->mems[i], key) &&
            ll_managed__mem_ask(v->mems[i], key, v->cutoff, u->snapshot, &row))
            return lladd_dtable_row_unpack(&row, want, state, err);
    return ll_managed__version_columns(v, key, want, state, err);
}

/* Builds the layers again for each call. Calls are rare: they come only from
 * lladd_dtable_interval_at, for this table or for an overlay that contains it. The result stays
 * valid when the layers are gone, because the overlay copies endpoints into the pins. */
static int interval(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                    struct lladd_error *err)
{
    struct ll_use *u = use_of(t);
    struct ll_layers layers;
    TRY(ll_managed__layers(u->t, u->view, u->snapshot, u, &layers, err));
    int rc = lladd_dtable_interval_at(layers.all, key, pins, out, err);
    ll_managed__layers_drop(t->db, &layers);
    return rc;
}

/* ---- cursors --------------------------------------------------------------------------------- */

struct cursor {
    struct ll_rows rows;
    uint64_t puts; /* number of the transaction's writes when the cursor was positioned */
};

static int cursor_seek(const struct lladd_dtable *t, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    struct cursor *c = cursor;
    c->puts = use_of(t)->puts;
    ll_managed__snapshot_iter_again(&c->rows.layers.slices[0]);
    return lladd_dtable_go(c->rows.cursor, where, key, err);
}

static int cursor_step(const struct lladd_dtable *t, void *cursor, bool forward,
                       struct lladd_error *err)
{
    struct cursor *c = cursor;
    struct lladd_dtable_key key;
    if (c->puts == use_of(t)->puts)
        return forward ? lladd_dtable_next(c->rows.cursor, err)
                       : lladd_dtable_prev(c->rows.cursor, err);
    TRY(ll_managed__rows_key(t->db, &c->rows, &key, err));
    TRY(cursor_seek(t, c, forward ? LLADD_DTABLE_NOT_BEFORE : LLADD_DTABLE_NOT_AFTER, &key, err));
    return ll_managed__rows_pass(&c->rows, &t->order, &key, forward, err);
}

static int cursor_row(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    const struct cursor *c = cursor;
    (void)t;
    return lladd_dtable_row(c->rows.cursor, key, value, err);
}

/* The caller may move the cursor that leads the overlay's cursor (struct lladd_dtable_lead), until
 * the transaction writes. */
static bool cursor_lead(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_lead *out)
{
    const struct cursor *c = cursor;
    const struct ll_use *u = use_of(t);
    bool leads = c->puts == u->puts && lladd_dtable_cursor_lead(c->rows.cursor, out);
    out->word = &u->puts;
    return leads;
}

static int cursor_columns(const struct lladd_dtable *t, void *cursor,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    const struct cursor *c = cursor;
    (void)t;
    return lladd_dtable_row_columns(c->rows.cursor, want, state, err);
}

/* Returns the run if all rows that the transaction sees are in one run: the transaction has written
 * nothing, and no memtable has a commit after the cutoff. The check misses no commit that the
 * snapshot sees: a commit is in its memtable before a snapshot can see it. */
static const struct lladd_dtable *only(const struct lladd_dtable *t)
{
    const struct ll_use *u = use_of(t);
    const struct ll_version *v = u->view;
    bool one = !u->part && v->n_runs == 1;
    for (uint32_t i = 0; i < v->n_mems && one; i++)
        one = lladd_atomic_load64(&v->mems[i]->newest) <= v->cutoff;
    const struct lladd_dtable *run = one ? v->runs[0]->table : NULL;
    return run && run->kind->only ? run->kind->only(run) : run;
}

static void cursor_close(const struct lladd_dtable *t, void *cursor)
{
    struct cursor *c = cursor;
    ll_managed__rows_close(t->db, &c->rows);
    ll_managed__use_drop(use_of(t));
}

static int cursor_open(const struct lladd_dtable *t, void *cursor, struct lladd_error *err)
{
    struct ll_use *u = use_of(t);
    struct cursor *c = cursor;
    TRY(ll_managed__rows_open(u->t, u->view, u->snapshot, u, &c->rows, err));
    lladd_atomic_add64(&u->refs, 1);
    return 0;
}

const struct lladd_dtable_class ll_managed__table_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "managed_dtable",
    .version = 1,
    .about = "a table that transactions write to",
    .lookup = lookup,
    .interval = interval,
    .cursor_size = sizeof(struct cursor),
    .cursor_open = cursor_open,
    .cursor_close = cursor_close,
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
    .cursor_lead = cursor_lead,
    .lookup_columns = lookup_columns,
    .cursor_columns = cursor_columns,
    .only = only,
};

/* ---- public calls ---------------------------------------------------------------------------- */

int lladd_managed_table(struct lladd_txn *txn, struct lladd_managed *t,
                        const struct lladd_dtable **out)
{
    LLADD_USE(txn);
    struct ll_use *u;
    int rc = ll_managed__use(txn, t, &u);
    if (!rc)
        *out = &u->base;
    return rc;
}

int lladd_managed_lookup(struct lladd_txn *txn, struct lladd_managed *t,
                         const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                         struct lladd_dtable_value *out)
{
    LLADD_USE(txn);
    struct ll_use *u;
    int rc = ll_managed__use(txn, t, &u);
    return rc ? rc : lladd_dtable_lookup(&u->base, key, pin, out, lladd_txn_error_out(txn));
}

int lladd_managed_get(struct lladd_txn *txn, struct lladd_managed *t,
                      const struct lladd_dtable_key *key, void *buf, size_t size, size_t *len)
{
    LLADD_USE(txn);
    struct ll_use *u;
    int rc = ll_managed__use(txn, t, &u);
    return rc ? rc : lladd_dtable_get(&u->base, key, buf, size, len, lladd_txn_error_out(txn));
}
