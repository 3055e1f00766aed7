/* SPDX-License-Identifier: BSD-2-Clause */
/* A table as an open snapshot sees it. Its rows are in the current version, and later in a held
 * version (hold.c). Each call gets the version that has them now, so an idle reader keeps no
 * memtable.
 *
 *   HLD-4  A pin keeps blocks of a run in memory, but not the run, and merges replace runs and
 *          memtables. So values and columns are copied into the caller's pins. Only a cursor's row
 *          is not copied: it lives until the cursor moves.
 *   HLD-5  A cursor keeps a version. When it moves, and another version has the snapshot's rows
 *          meanwhile, the cursor goes over to that version. */
#include "operations/dtables/managed/managed.h"

static const struct ll_snapshot_table *of(const struct lladd_dtable *t)
{
    return (const struct ll_snapshot_table *)t;
}

/* Returns the version that has the rows now, with a reference. */
static struct ll_version *version(const struct ll_snapshot_table *x)
{
    lladd_mutex_lock(&x->t->mutex);
    struct ll_version *v = ll_managed__version_held(x->t, x->of);
    ll_managed__version_retain(v);
    lladd_mutex_unlock(&x->t->mutex);
    return v;
}

static bool is_held(const struct ll_version *v)
{
    return v->n_mems == 0;
}

/* ---- lookups --------------------------------------------------------------------------------- */

static int copy(struct lladd_db *db, struct lladd_dtable_pin *pin, struct lladd_dtable_value *v,
                struct lladd_error *err)
{
    if (v->state != LLADD_DTABLE_FOUND)
        return 0;
    unsigned char *to = lladd_dtable_room(db, pin, v->bytes.len);
    if (!to)
        return ll_managed__no_memory(err);
    lladd_copy(to, v->bytes.data, v->bytes.len);
    v->bytes.data = to;
    return 0;
}

static int lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct ll_snapshot_table *x = of(t);
    struct lladd_dtable_pin own = LLADD_DTABLE_PIN_INIT;
    struct ll_version *v = version(x);
    int rc = ll_managed__version_get(v, x->of->snapshot, key, &own, out, err);
    if (!rc)
        rc = copy(t->db, pin, out, err);
    lladd_dtable_unpin(&own);
    ll_managed__version_release(x->t, v);
    return rc;
}

/* Pins for the columns of a held version, before they are copied. */
struct own_pins {
    struct lladd_dtable_pin *pins;
    size_t n;
};

static void own_free(struct lladd_db *db, struct own_pins *o)
{
    for (size_t i = 0; i < o->n; i++)
        lladd_dtable_unpin(&o->pins[i]);
    lladd_mem_free(db, o->pins);
    *o = (struct own_pins){.n = 0};
}

/* *out: the same columns, with the own pins. */
static int own_columns(struct lladd_db *db, struct own_pins *o,
                       const struct lladd_dtable_columns *want, struct lladd_dtable_columns *out,
                       struct lladd_error *err)
{
    if (want->n + 1 > o->n) {
        own_free(db, o);
        o->pins = lladd_mem_alloc(db, (want->n + 1) * sizeof *o->pins);
        if (!o->pins)
            return ll_managed__no_memory(err);
        memset(o->pins, 0, (want->n + 1) * sizeof *o->pins);
        o->n = want->n + 1;
    }
    *out = *want;
    out->pins = o->pins;
    return 0;
}

static int copy_columns(struct lladd_db *db, const struct lladd_dtable_columns *want,
                        enum lladd_dtable_state state, struct lladd_error *err)
{
    for (size_t i = 0; state == LLADD_DTABLE_FOUND && i < want->n; i++)
        TRY(copy(db, &want->pins[i], &want->values[i], err));
    return 0;
}

static int held_columns(const struct lladd_dtable *t, const struct ll_version *v,
                        const struct lladd_dtable_key *key,
                        const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                        struct lladd_error *err)
{
    struct own_pins own = {.n = 0};
    struct lladd_dtable_columns mine;
    int rc = own_columns(t->db, &own, want, &mine, err);
    if (!rc)
        rc = ll_managed__version_columns(v, key, &mine, state, err);
    if (!rc)
        rc = copy_columns(t->db, want, *state, err);
    own_free(t->db, &own);
    return rc;
}

static int lookup_columns(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    struct lladd_dtable_value row = {.state = LLADD_DTABLE_ABSENT};
    struct ll_version *v = version(of(t));
    bool held = is_held(v);
    int rc = held ? held_columns(t, v, key, want, state, err) : 0;
    ll_managed__version_release(of(t)->t, v);
    if (held || rc)
        return rc;
    rc = lookup(t, key, &want->pins[want->n], &row, err);
    return rc ? rc : lladd_dtable_row_unpack(&row, want, state, err);
}

/* The overlay copies the endpoints into the pins. */
static int interval(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                    struct lladd_error *err)
{
    const struct ll_snapshot_table *x = of(t);
    struct ll_version *v = version(x);
    struct ll_layers layers;
    int rc = ll_managed__layers(x->t, v, x->of->snapshot, NULL, &layers, err);
    if (!rc) {
        rc = lladd_dtable_interval_at(layers.all, key, pins, out, err);
        ll_managed__layers_drop(t->db, &layers);
    }
    ll_managed__version_release(x->t, v);
    return rc;
}

/* ---- cursors --------------------------------------------------------------------------------- */

struct cursor {
    struct ll_rows rows;
    struct ll_version *v;
    struct own_pins own;
};

static int begin(const struct ll_snapshot_table *x, struct cursor *c, struct lladd_error *err)
{
    c->own = (struct own_pins){.n = 0};
    c->v = version(x);
    int rc = ll_managed__rows_open(x->t, c->v, x->of->snapshot, NULL, &c->rows, err);
    if (rc)
        ll_managed__version_release(x->t, c->v);
    return rc;
}

static void end(const struct ll_snapshot_table *x, struct cursor *c)
{
    own_free(x->base.db, &c->own);
    ll_managed__rows_close(x->base.db, &c->rows);
    ll_managed__version_release(x->t, c->v);
}

static int cursor_open(const struct lladd_dtable *t, void *cursor, struct lladd_error *err)
{
    TRY(begin(of(t), cursor, err));
    lladd_atomic_add64(&of(t)->of->refs, 1);
    return 0;
}

static void cursor_close(const struct lladd_dtable *t, void *cursor)
{
    end(of(t), cursor);
    ll_managed__snapshot_drop(of(t)->of);
}

static bool is_late(const struct ll_snapshot_table *x, const struct cursor *c)
{
    return is_held(c->v) ? lladd_atomic_load64(&c->v->replaced) != 0
                         : lladd_atomic_load64(&x->t->cutoff) > x->of->snapshot;
}

/* Moves from the cursor's version to the one that has the rows now. A key that was kept stays
 * valid. */
static int go_over(const struct ll_snapshot_table *x, struct cursor *c, struct lladd_error *err)
{
    struct cursor next;
    TRY(begin(x, &next, err));
    next.rows.key = c->rows.key;
    next.rows.cap_key = c->rows.cap_key;
    c->rows.key = NULL;
    end(x, c);
    *c = next;
    return 0;
}

static int cursor_seek(const struct lladd_dtable *t, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    struct cursor *c = cursor;
    struct lladd_dtable_key kept;
    if (is_late(of(t), c)) {
        if (key) { /* it may be the key of the cursor's row */
            kept = *key;
            TRY(ll_managed__rows_keep(t->db, &c->rows, &kept, err));
            key = &kept;
        }
        TRY(go_over(of(t), c, err));
    }
    return lladd_dtable_go(c->rows.cursor, where, key, err);
}

static int cursor_step(const struct lladd_dtable *t, void *cursor, bool forward,
                       struct lladd_error *err)
{
    struct cursor *c = cursor;
    struct lladd_dtable_key key;
    if (!is_late(of(t), c))
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

/* The pins may hold columns until after the cursor has moved: see HLD-4. */
static int cursor_columns(const struct lladd_dtable *t, void *cursor,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    struct cursor *c = cursor;
    struct lladd_dtable_columns mine;
    struct lladd_dtable_value row;
    if (is_held(c->v)) {
        TRY(own_columns(t->db, &c->own, want, &mine, err));
        TRY(lladd_dtable_row_columns(c->rows.cursor, &mine, state, err));
        return copy_columns(t->db, want, *state, err);
    }
    TRY(lladd_dtable_row(c->rows.cursor, NULL, &row, err));
    return lladd_dtable_row_unpack(&row, want, state, err);
}

/* The caller may move the leader of a cursor on a held version until the version is replaced. The
 * leader is a cursor on a run, and the run's own word never changes. */
static bool cursor_lead(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_lead *out)
{
    const struct cursor *c = cursor;
    (void)t;
    if (!is_held(c->v) || !lladd_dtable_cursor_lead(c->rows.cursor, out))
        return false;
    out->word = &c->v->replaced;
    out->led_columns = true; /* they are copied */
    return true;
}

const struct lladd_dtable_class ll_managed__snapshot_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "managed_snapshot",
    .version = 1,
    .about = "a managed table as an open snapshot sees it",
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
};
