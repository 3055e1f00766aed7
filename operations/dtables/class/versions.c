/* SPDX-License-Identifier: BSD-2-Clause */
/* versions_dtable: an older version of a table, as its difference from a newer table.
 *
 * Where the two differ, the older version may have had a value, a tombstone, or no row at all. Rows
 * with a value or a tombstone are in "base". A key without a row is in "absent", as a tombstone.
 * Each key is in one of the two tables, and a key in neither has the same row in both versions.
 * Rows have no places. There is no footer.
 *
 * A reader shows what the difference stores: for a key of "absent", a lookup returns the state
 * ABSENT, and a cursor that shows tombstones shows the key in this state. lladd_dtable_version puts
 * the difference in front of the newer table, and so shows the older version. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/class/through.h"

#include <lladd/extension.h>

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_builder *absent;
};

/* The keys without a row, as a table with all its rows in the state ABSENT. */
struct marks {
    struct lladd_dtable base;
    const struct lladd_dtable *keys;
};

struct reader {
    struct lladd_dtable base;
    struct marks marks;
    struct lladd_dtable *both; /* an overlay */
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    const struct lladd_dtable_caps *absent =
        lladd_dtable_caps_get(lladd_dtable_param_child(c, "absent"));
    if (!absent->tombstones || absent->learned)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "versions_dtable: the layer \"absent\" must store tombstones, "
                               "without a value before, such as a linear_dtable");
    caps->types &= absent->types;
    caps->places = false;
    caps->absent = true;
    return 0;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    return v->state == LLADD_DTABLE_ABSENT
               ? 0
               : lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), v, err);
}

static int begin(struct lladd_dtable_builder *base)
{
    ((struct builder *)base)->absent = lladd_dtable_builder_child(base, "absent");
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct lladd_dtable_value none = lladd_dtable_tombstone();
    if (value->state == LLADD_DTABLE_ABSENT)
        return lladd_dtable_add(((struct builder *)base)->absent, key, &none);
    return lladd_dtable_add(base->base, key, value);
}

/* ---- the keys without a row ------------------------------------------------------------------ */

static int marks_lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                        struct lladd_error *err)
{
    (void)t;
    (void)key;
    (void)pin;
    (void)err;
    out->state = LLADD_DTABLE_ABSENT;
    return 0;
}

static int marks_cursor_open(const struct lladd_dtable *t, void *cursor, struct lladd_error *err)
{
    return ll_dtable__through_open(((const struct marks *)t)->keys, cursor, err);
}

static int marks_row(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_key *key,
                     struct lladd_dtable_value *value, struct lladd_error *err)
{
    struct lladd_dtable_value stored;
    TRY(ll_dtable__through_row(t, cursor, key, &stored, err));
    if (stored.state != LLADD_DTABLE_TOMBSTONE)
        return lladd_dtable_corrupt(((const struct marks *)t)->keys, err,
                                    "a key without a row has a value");
    if (value)
        value->state = LLADD_DTABLE_ABSENT;
    return 0;
}

static const struct lladd_dtable_class marks_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "absent_keys",
    .version = 1,
    .about = "keys without a row",
    .lookup = marks_lookup,
    .cursor_size = sizeof(struct ll_through),
    .cursor_open = marks_cursor_open,
    .cursor_close = ll_dtable__through_close,
    .cursor_seek = ll_dtable__through_seek,
    .cursor_step = ll_dtable__through_step,
    .cursor_row = marks_row,
};

/* ---- the difference -------------------------------------------------------------------------- */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    r->marks = (struct marks){
        .base = {.kind = &marks_class, .db = base->db, .order = base->order},
        .keys = lladd_dtable_child(base, "absent")};
    struct lladd_dtable *two[2] = {base->base, &r->marks.base};
    return lladd_dtable_overlay(base->db, two, 2, &r->both, err);
}

static void close(struct lladd_dtable *base)
{
    lladd_dtable_close(((struct reader *)base)->both);
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    return lladd_dtable_ask(base->base, key, pin, out, err);
}

static int lookup_columns(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    return lladd_dtable_lookup_columns(base->base, key, want, state, err);
}

static int cursor_open(const struct lladd_dtable *base, void *cursor, struct lladd_error *err)
{
    return ll_dtable__through_open(((const struct reader *)base)->both, cursor, err);
}

static int cursor_columns(const struct lladd_dtable *base, void *cursor,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    (void)base;
    return lladd_dtable_row_columns(((struct ll_through *)cursor)->rows, want, state, err);
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for rows of the older version"},
    {"absent", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for keys that had no row"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_versions = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "versions_dtable",
    .version = 1,
    .about = "an older version of a table, as its difference from a newer table",
    .params = params,
    .configure = configure,
    .accepts = accepts,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .reader_size = sizeof(struct reader),
    .open = open,
    .close = close,
    .lookup = lookup,
    .lookup_columns = lookup_columns,
    .cursor_size = sizeof(struct ll_through),
    .cursor_open = cursor_open,
    .cursor_close = ll_dtable__through_close,
    .cursor_seek = ll_dtable__through_seek,
    .cursor_step = ll_dtable__through_step,
    .cursor_row = ll_dtable__through_row,
    .cursor_columns = cursor_columns,
};

/* ---- the older version ----------------------------------------------------------------------- */

struct version {
    struct lladd_dtable base;
    const struct reader *difference;
    const struct lladd_dtable *newer;
    struct lladd_dtable *all; /* an overlay of both */
};

static const struct version *version_of(const struct lladd_dtable *t)
{
    return (const struct version *)t;
}

/* Can the difference have the key? */
static bool may_differ(const struct version *v, const struct lladd_dtable_key *key)
{
    return lladd_dtable_key_range_has(&v->difference->base.key_range,
                                      lladd_dtable_prefix(&v->base.order, key));
}

/* Called for a key that the difference has no row for. *out: had the older version none either? */
static int had_none(const struct version *v, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin *pin, bool *out, struct lladd_error *err)
{
    struct lladd_dtable_value mark;
    int rc = lladd_dtable_ask(v->difference->marks.keys, key, pin, &mark, err);
    *out = !rc && mark.state != LLADD_DTABLE_ABSENT;
    return rc;
}

static int version_lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                          struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                          struct lladd_error *err)
{
    const struct version *v = version_of(t);
    bool none = false;
    if (may_differ(v, key)) {
        TRY(lladd_dtable_ask(&v->difference->base, key, pin, out, err));
        if (out->state != LLADD_DTABLE_ABSENT)
            return 0;
        TRY(had_none(v, key, pin, &none, err));
    }
    return none ? 0 : lladd_dtable_ask(v->newer, key, pin, out, err);
}

static int version_columns(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                           const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                           struct lladd_error *err)
{
    const struct version *v = version_of(t);
    bool none = false;
    if (may_differ(v, key)) {
        TRY(lladd_dtable_lookup_columns(&v->difference->base, key, want, state, err));
        if (*state != LLADD_DTABLE_ABSENT)
            return 0;
        TRY(had_none(v, key, &want->pins[want->n], &none, err));
    }
    return none ? 0 : lladd_dtable_lookup_columns(v->newer, key, want, state, err);
}

static int version_cursor_open(const struct lladd_dtable *t, void *cursor, struct lladd_error *err)
{
    return ll_dtable__through_open(version_of(t)->all, cursor, err);
}

/* Moves on to the first row that the older version had. `rc` is what the move returned. */
static int settle(struct ll_through *c, int rc, bool forward, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_columns none = {.pins = &pin};
    enum lladd_dtable_state state;
    while (!rc) {
        rc = lladd_dtable_row_columns(c->rows, &none, &state, err);
        if (rc || state != LLADD_DTABLE_ABSENT)
            break;
        rc = forward ? lladd_dtable_next(c->rows, err) : lladd_dtable_prev(c->rows, err);
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

static int version_seek(const struct lladd_dtable *t, void *cursor, enum lladd_dtable_where where,
                        const struct lladd_dtable_key *key, struct lladd_error *err)
{
    bool forward = where == LLADD_DTABLE_FIRST || where == LLADD_DTABLE_NOT_BEFORE;
    return settle(cursor, ll_dtable__through_seek(t, cursor, where, key, err), forward, err);
}

static int version_step(const struct lladd_dtable *t, void *cursor, bool forward,
                        struct lladd_error *err)
{
    return settle(cursor, ll_dtable__through_step(t, cursor, forward, err), forward, err);
}

/* The cursor that leads the overlay's cursor shows no key of the difference, which lets no other
 * cursor lead. So it shows rows of the newer table that the older version had, too. */
static bool version_lead(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_lead *out)
{
    (void)t;
    return lladd_dtable_cursor_lead(((struct ll_through *)cursor)->rows, out);
}

static void version_close(struct lladd_dtable *t)
{
    lladd_dtable_close(((struct version *)t)->all);
}

static const struct lladd_dtable_class version_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "older_version",
    .version = 1,
    .about = "a table as it was: a difference, and a newer table",
    .close = version_close,
    .lookup = version_lookup,
    .lookup_columns = version_columns,
    .cursor_size = sizeof(struct ll_through),
    .cursor_open = version_cursor_open,
    .cursor_close = ll_dtable__through_close,
    .cursor_seek = version_seek,
    .cursor_step = version_step,
    .cursor_row = ll_dtable__through_row,
    .cursor_columns = cursor_columns,
    .cursor_lead = version_lead,
};

int lladd_dtable_version(struct lladd_db *db, struct lladd_dtable *difference,
                         struct lladd_dtable *newer, struct lladd_dtable **out,
                         struct lladd_error *err)
{
    struct lladd_dtable *two[2] = {difference, newer};
    TRY(lladd_check_process(db, err));
    if (difference->kind != &ll_dtable_class_versions)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "the table is not a versions_dtable");
    if (newer->ranges)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the newer table has deleted ranges");
    struct version *v = lladd_mem_alloc(db, sizeof *v);
    if (!v)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for an older version");
    *v = (struct version){.base = {.kind = &version_class, .db = db, .order = newer->order},
                          .difference = (const struct reader *)difference,
                          .newer = newer};
    int rc = lladd_dtable_overlay(db, two, 2, &v->all, err);
    if (rc)
        lladd_mem_free(db, v);
    else
        *out = &v->base;
    return rc;
}
