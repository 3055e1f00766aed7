/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot iterator is a memtable as a dTable, for use in overlays. One kind shows the rows that
 * were committed in (after, upto]; these rows do not change. The other kind shows the rows that one
 * transaction has written; only this transaction uses it. */
#include "operations/dtables/managed/managed.h"

struct cursor {
    const struct ll_memtable *m;
    uint32_t node;
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
};

static const struct ll_memtable *memtable(const struct ll_snapshot_iter *s)
{
    return s->own ? s->own->target : s->m;
}

static bool shows(const struct ll_snapshot_iter *s, const struct ll_memtable *m, uint32_t node,
                  struct lladd_dtable_key *key, struct lladd_dtable_value *out)
{
    return s->own ? ll_managed__mem_own(s->own->part, node, key, out)
                  : ll_managed__mem_seen(m, node, s->after, s->upto, key, out);
}

static int lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct ll_snapshot_iter *s = (const struct ll_snapshot_iter *)t;
    const struct ll_memtable *m = memtable(s);
    bool there = m && (s->own ? ll_managed__mem_ask_own(s->own->part, key, out)
                              : ll_managed__mem_ask(m, key, s->after, s->upto, out));
    (void)pin;
    (void)err;
    if (!there)
        out->state = LLADD_DTABLE_ABSENT;
    return 0;
}

static int interval(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                    struct lladd_error *err)
{
    const struct ll_snapshot_iter *s = (const struct ll_snapshot_iter *)t;
    (void)pins; /* keys in a memtable stay in place, so no pins are needed */
    (void)err;
    ll_managed__mem_interval(memtable(s), key, s->after, s->upto, s->own ? s->own->part : NULL,
                             out);
    return 0;
}

/* Moves from `node` on, in this direction, to the first node with a row to show. */
static int settle(const struct ll_snapshot_iter *s, struct cursor *c, uint32_t node, bool forward)
{
    while (node && !shows(s, c->m, node, &c->key, &c->value)) {
        struct lladd_dtable_key key;
        if (forward) {
            node = ll_managed__mem_next(c->m, node);
        } else {
            key = ll_managed__mem_key(c->m, node);
            node = ll_managed__mem_not_after(c->m, &key, false);
        }
    }
    c->node = node;
    if (node && forward)
        ll_managed__mem_next_soon(c->m, node);
    return node ? 0 : LLADD_END;
}

static int cursor_seek(const struct lladd_dtable *t, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    const struct ll_snapshot_iter *s = (const struct ll_snapshot_iter *)t;
    struct cursor *c = cursor;
    (void)err;
    c->m = memtable(s);
    if (!c->m)
        return LLADD_END;
    switch (where) {
    case LLADD_DTABLE_FIRST:
        return settle(s, c, ll_managed__mem_first(c->m), true);
    case LLADD_DTABLE_LAST:
        return settle(s, c, ll_managed__mem_not_after(c->m, NULL, true), false);
    case LLADD_DTABLE_NOT_BEFORE:
        return settle(s, c, ll_managed__mem_not_before(c->m, key), true);
    default:
        return settle(s, c, ll_managed__mem_not_after(c->m, key, true), false);
    }
}

static int cursor_step(const struct lladd_dtable *t, void *cursor, bool forward,
                       struct lladd_error *err)
{
    const struct ll_snapshot_iter *s = (const struct ll_snapshot_iter *)t;
    struct cursor *c = cursor;
    (void)err;
    if (forward)
        return settle(s, c, ll_managed__mem_next(c->m, c->node), true);
    struct lladd_dtable_key key = ll_managed__mem_key(c->m, c->node);
    return settle(s, c, ll_managed__mem_not_after(c->m, &key, false), false);
}

static int cursor_row(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    const struct cursor *c = cursor;
    (void)t;
    (void)err;
    if (key)
        *key = c->key;
    if (value)
        *value = c->value;
    return 0;
}

static const struct lladd_dtable_class slice_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "memtable",
    .version = 1,
    .about = "some versions of the rows in memory",
    .lookup = lookup,
    .interval = interval,
    .cursor_size = sizeof(struct cursor),
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
};

void ll_managed__snapshot_iter(struct ll_snapshot_iter *s, struct lladd_managed *t,
                               struct ll_memtable *m, uint64_t after, uint64_t upto)
{
    *s = (struct ll_snapshot_iter){.base = {.kind = &slice_class, .db = t->db, .order = t->order},
                                   .m = m,
                                   .after = after,
                                   .upto = upto};
    s->base.ranges = m && lladd_atomic_load32(&m->has_ranges);
}

static void iter_own(struct ll_snapshot_iter *s, struct ll_use *u)
{
    ll_managed__snapshot_iter(s, u->t, NULL, 0, 0);
    s->own = u;
    ll_managed__snapshot_iter_again(s);
}

void ll_managed__snapshot_iter_again(struct ll_snapshot_iter *s)
{
    s->base.ranges = s->own->part ? s->own->part->ranges : 0;
}

/* ---- the layers of a version ----------------------------------------------------------------- */

int ll_managed__layers(struct lladd_managed *t, const struct ll_version *v, uint64_t snapshot,
                       struct ll_use *own, struct ll_layers *l, struct lladd_error *err)
{
    size_t n = 0;
    *l = (struct ll_layers){.slices = lladd_mem_alloc(t->db, (v->n_mems + 1) * sizeof *l->slices)};
    l->tables = lladd_mem_alloc(t->db, ((size_t)v->n_mems + v->n_runs + 1) * sizeof(void *));
    int rc = l->slices && l->tables ? 0 : ll_managed__no_memory(err);
    if (!rc && own) {
        iter_own(&l->slices[0], own);
        l->tables[n++] = &l->slices[0].base;
    }
    for (uint32_t i = 0; !rc && i < v->n_mems; i++) {
        ll_managed__snapshot_iter(&l->slices[i + 1], t, v->mems[i], v->cutoff, snapshot);
        l->tables[n++] = &l->slices[i + 1].base;
    }
    for (uint32_t i = 0; !rc && i < v->layered.n; i++)
        l->tables[n++] = v->layered.tables[i];
    for (uint32_t i = 0; !rc && !v->layered.tables && i < v->n_runs; i++)
        l->tables[n++] = v->runs[i]->table;
    if (!rc && n == 0) { /* an overlay needs a table, so it gets an empty one */
        ll_managed__snapshot_iter(&l->slices[0], t, NULL, 0, 0);
        l->tables[n++] = &l->slices[0].base;
    }
    if (!rc)
        rc = lladd_dtable_overlay(t->db, l->tables, n, &l->all, err);
    if (rc)
        ll_managed__layers_drop(t->db, l);
    return rc;
}

void ll_managed__layers_drop(struct lladd_db *db, struct ll_layers *l)
{
    lladd_dtable_close(l->all);
    lladd_mem_free(db, l->slices);
    lladd_mem_free(db, l->tables);
    *l = (struct ll_layers){.all = NULL};
}

/* ---- cursors over layers --------------------------------------------------------------------- */

int ll_managed__rows_open(struct lladd_managed *t, const struct ll_version *v, uint64_t snapshot,
                          struct ll_use *own, struct ll_rows *r, struct lladd_error *err)
{
    *r = (struct ll_rows){.key = NULL};
    TRY(ll_managed__layers(t, v, snapshot, own, &r->layers, err));
    int rc = lladd_dtable_cursor_open(r->layers.all, LLADD_DTABLE_TOMBSTONES, &r->cursor, err);
    if (rc)
        ll_managed__layers_drop(t->db, &r->layers);
    return rc;
}

void ll_managed__rows_close(struct lladd_db *db, struct ll_rows *r)
{
    lladd_dtable_cursor_close(r->cursor);
    ll_managed__layers_drop(db, &r->layers);
    lladd_mem_free(db, r->key);
}

int ll_managed__rows_keep(struct lladd_db *db, struct ll_rows *r, struct lladd_dtable_key *key,
                          struct lladd_error *err)
{
    enum { MORE = 64 };
    if (key->bytes.len == 0 || key->bytes.data == r->key)
        return 0;
    if (key->bytes.len > r->cap_key) {
        unsigned char *p = lladd_mem_resize(db, r->key, key->bytes.len + MORE);
        if (!p)
            return ll_managed__no_memory(err);
        r->key = p;
        r->cap_key = key->bytes.len + MORE;
    }
    lladd_copy(r->key, key->bytes.data, key->bytes.len);
    key->bytes.data = r->key;
    return 0;
}

int ll_managed__rows_key(struct lladd_db *db, struct ll_rows *r, struct lladd_dtable_key *key,
                         struct lladd_error *err)
{
    int rc = lladd_dtable_row(r->cursor, key, NULL, err);
    return rc ? rc : ll_managed__rows_keep(db, r, key, err);
}

int ll_managed__rows_pass(struct ll_rows *r, const struct lladd_dtable_order *order,
                          const struct lladd_dtable_key *key, bool forward, struct lladd_error *err)
{
    struct lladd_dtable_key found;
    int rc = lladd_dtable_row(r->cursor, &found, NULL, err);
    if (rc || lladd_dtable_compare(order, &found, key) != 0)
        return rc;
    return forward ? lladd_dtable_next(r->cursor, err) : lladd_dtable_prev(r->cursor, err);
}
