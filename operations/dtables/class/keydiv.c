/* SPDX-License-Identifier: BSD-2-Clause */
/* keydiv_dtable: keys below a divider are in the table "below", all other keys in the table "from".
 *
 * If keys are numbers, the divider is the parameter "divider", an integer. If keys are strings or
 * bytes, it is the parameter "divider_bytes". For more than two ranges of keys, "from" or "below"
 * is a keydiv_dtable itself. A row is rejected if the table for its key rejects the row.
 *
 * At the end of one table, a cursor moves on to the row of the other table that is nearest to the
 * divider. If both tables have places, rows have places: first the places of "below", then those of
 * "from". */
#include "operations/dtables/class/classes.h"

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_builder *below, *from;
    struct lladd_dtable_key divider;
    uint64_t places; /* number of places of `below` */
};

struct reader {
    struct lladd_dtable base;
    struct lladd_dtable *side[2]; /* below, from */
    struct lladd_dtable_key divider;
};

/* ---- configured ------------------------------------------------------------------------------ */

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    const struct lladd_dtable_caps *a = lladd_dtable_caps_get(lladd_dtable_param_child(c, "below"));
    const struct lladd_dtable_caps *b = lladd_dtable_caps_get(lladd_dtable_param_child(c, "from"));
    struct lladd_span bytes;
    int64_t number = lladd_dtable_param_int(c, "divider");
    bool text = lladd_dtable_param_bytes(c, "divider_bytes", &bytes);
    bool given = number != INT64_MIN;
    if (given == text || bytes.len > LLADD_DTABLE_KEY_MAX)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "keydiv_dtable: expected either a divider, or divider_bytes of at "
                               "most %u bytes",
                               LLADD_DTABLE_KEY_MAX);
    unsigned types = 1u << LLADD_DTABLE_BYTES;
    if (text && !(bytes.len && memchr(bytes.data, 0, bytes.len)))
        types |= 1u << LLADD_DTABLE_STRING;
    if (given) /* allows doubles only if a double represents the integer exactly */
        types = number <= INT64_C(1) << 53 && number >= -(INT64_C(1) << 53)
                    ? 1u << LLADD_DTABLE_DOUBLE
                    : 0;
    if (given && number >= 0)
        types |= 1u << LLADD_DTABLE_U64 | (number <= UINT32_MAX ? 1u << LLADD_DTABLE_U32 : 0);
    *caps = (struct lladd_dtable_caps){.types = types & a->types & b->types,
                                       .places = a->places && b->places,
                                       .tombstones = a->tombstones || b->tombstones,
                                       .empty = a->empty || b->empty,
                                       .value_size = LLADD_DTABLE_ANY_SIZE,
                                       .learned = a->learned || b->learned};
    if (a->value_size == b->value_size) {
        caps->value_size = a->value_size;
        caps->all_values = a->all_values && b->all_values;
    }
    return caps->types ? 0
                       : lladd_error_set(err, LLADD_BAD_CONFIG,
                                         "keydiv_dtable: no type of keys suits its divider and "
                                         "both of its tables");
}

/* The key is not known here, so both tables must accept the value. */
static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "below"), v, err);
    return rc ? rc : lladd_dtable_accepts(lladd_dtable_param_child(c, "from"), v, err);
}

static struct lladd_dtable_key divider_of(const struct lladd_dtable_config *c,
                                          enum lladd_dtable_type type)
{
    struct lladd_dtable_key key = {.type = type};
    int64_t number = lladd_dtable_param_int(c, "divider");
    if (type >= LLADD_DTABLE_STRING)
        (void)lladd_dtable_param_bytes(c, "divider_bytes", &key.bytes);
    else if (type == LLADD_DTABLE_DOUBLE)
        key = lladd_dtable_double((double)number);
    else
        key.number = (uint64_t)number;
    return key;
}

/* ---- built ----------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    b->below = lladd_dtable_builder_child(base, "below");
    b->from = lladd_dtable_builder_child(base, "from");
    b->divider = divider_of(base->config, base->order.type);
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    bool from = lladd_dtable_compare(&base->order, key, &b->divider) >= 0;
    TRY(lladd_dtable_add(from ? b->from : b->below, key, value));
    if (!from)
        b->places = b->below->place + 1;
    base->place = from ? b->places + b->from->place : b->below->place;
    return 0;
}

/* ---- read ------------------------------------------------------------------------------------ */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    r->side[0] = lladd_dtable_child(base, "below");
    r->side[1] = lladd_dtable_child(base, "from");
    r->divider = divider_of(base->config, base->order.type);
    base->places = r->side[0]->places + r->side[1]->places;
    return base->places >= r->side[0]->places
               ? 0
               : lladd_dtable_corrupt(base, err, "the number of places exceeds 64 bits");
}

static unsigned side_of(const struct reader *r, const struct lladd_dtable_key *key)
{
    return lladd_dtable_compare(&r->base.order, key, &r->divider) >= 0;
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    return lladd_dtable_ask(r->side[side_of(r, key)], key, pin, out, err);
}

static int find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    unsigned side = side_of(r, key);
    int rc = lladd_dtable_find(r->side[side], key, pin, place, exact, err);
    *place += side ? r->side[0]->places : 0;
    return rc;
}

static int at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    uint64_t first = r->side[0]->places;
    unsigned side = place >= first;
    return lladd_dtable_at(r->side[side], side ? place - first : place, pin, key, value, err);
}

/* ---- cursors --------------------------------------------------------------------------------- */

struct cursor {
    struct lladd_dtable_cursor *side[2];
    unsigned now;
};

static void cursor_close(const struct lladd_dtable *base, void *cursor)
{
    struct cursor *c = cursor;
    (void)base;
    lladd_dtable_cursor_close(c->side[0]);
    lladd_dtable_cursor_close(c->side[1]);
}

static int cursor_open(const struct lladd_dtable *base, void *cursor, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct cursor *c = cursor;
    int rc = 0;
    for (unsigned i = 0; i < 2 && !rc; i++)
        rc = lladd_dtable_cursor_open(r->side[i], LLADD_DTABLE_TOMBSTONES, &c->side[i], err);
    if (rc)
        lladd_dtable_cursor_close(c->side[0]);
    return rc;
}

/* `rc` is the result of a move. If the move went beyond the end of one side, and the other side
 * lies in this direction, moves on to the other side. */
static int cross(struct cursor *c, int rc, bool forward, struct lladd_error *err)
{
    if (rc != LLADD_END || c->now == forward)
        return rc;
    c->now = forward;
    return forward ? lladd_dtable_first(c->side[1], err) : lladd_dtable_last(c->side[0], err);
}

static int cursor_seek(const struct lladd_dtable *base, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    struct cursor *c = cursor;
    bool forward = where == LLADD_DTABLE_FIRST || where == LLADD_DTABLE_NOT_BEFORE;
    c->now = key ? side_of((const struct reader *)base, key) : !forward;
    return cross(c, lladd_dtable_go(c->side[c->now], where, key, err), forward, err);
}

static int cursor_step(const struct lladd_dtable *base, void *cursor, bool forward,
                       struct lladd_error *err)
{
    struct cursor *c = cursor;
    struct lladd_dtable_cursor *side = c->side[c->now];
    (void)base;
    int rc = forward ? lladd_dtable_next(side, err) : lladd_dtable_prev(side, err);
    return cross(c, rc, forward, err);
}

static int cursor_row(const struct lladd_dtable *base, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    struct cursor *c = cursor;
    (void)base;
    return lladd_dtable_row(c->side[c->now], key, value, err);
}

static const struct lladd_dtable_param params[] = {
    {"below", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for keys below the divider"},
    {"from", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the divider and what follows"},
    {"divider", LLADD_DTABLE_PARAM_INT, false, INT64_MIN, INT64_MIN, INT64_MAX,
     "the first key of \"from\", if keys are numbers; -2^63: none"},
    {"divider_bytes", LLADD_DTABLE_PARAM_BYTES, false, 0, 0, 0,
     "the first key of \"from\", if keys are strings or bytes"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_keydiv = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "keydiv_dtable",
    .version = 1,
    .about = "ranges of keys in different tables",
    .params = params,
    .configure = configure,
    .accepts = accepts,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .reader_size = sizeof(struct reader),
    .open = open,
    .find = find,
    .at = at,
    .lookup = lookup,
    .cursor_size = sizeof(struct cursor),
    .cursor_open = cursor_open,
    .cursor_close = cursor_close,
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
};
