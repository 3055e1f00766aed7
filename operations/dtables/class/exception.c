/* SPDX-License-Identifier: BSD-2-Clause */
/* exception_dtable: a restricted table, and a second table for the rows that the first cannot store
 * (Anvil paper, section 5.5).
 *
 * If "base" rejects a row, "alt" stores the row, and base stores the "reject_value", the
 * placeholder, in its place. A lookup that finds the placeholder in base asks alt. If alt does not
 * have the key, the placeholder is a genuine value. An error from alt is returned, never taken for
 * absence. The placeholder is tried at configuration, through every layer of base. Both tables get
 * their keys in order, so building buffers nothing.
 *
 * If base can read some columns of a packed row, so can the reader. Only if all of them are equal
 * to those of the placeholder may the row be in alt; then the whole row is read. */
#include "operations/dtables/class/classes.h"

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_builder *alt;
    struct lladd_span placeholder;
};

struct reader {
    struct lladd_dtable base;
    const struct lladd_dtable *alt;
    struct lladd_span placeholder;
};

static struct lladd_span placeholder_of(const struct lladd_dtable_config *c)
{
    struct lladd_span s;
    (void)lladd_dtable_param_bytes(c, "reject_value", &s);
    return s;
}

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    struct lladd_dtable_config *base = lladd_dtable_param_child(c, "base");
    const struct lladd_dtable_caps *alt = lladd_dtable_caps_get(lladd_dtable_param_child(c, "alt"));
    struct lladd_span placeholder = placeholder_of(c);
    struct lladd_dtable_value v = lladd_dtable_value_of(placeholder.data, placeholder.len);
    int rc = lladd_dtable_accepts(base, &v, err);
    if (rc == LLADD_DTABLE_REJECT)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "exception_dtable: its base cannot store the reject_value");
    caps->types &= alt->types;
    caps->tombstones = caps->tombstones || alt->tombstones;
    caps->empty = caps->empty || alt->empty;
    caps->learned = caps->learned || alt->learned;
    uint64_t size = caps->value_size == alt->value_size ? caps->value_size : LLADD_DTABLE_ANY_SIZE;
    caps->all_values = (caps->all_values && caps->value_size == size) ||
                       (alt->all_values && alt->value_size == size);
    caps->value_size = size;
    return rc;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), v, err);
    if (rc != LLADD_DTABLE_REJECT)
        return rc;
    return lladd_dtable_accepts(lladd_dtable_param_child(c, "alt"), v, err);
}

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    b->alt = lladd_dtable_builder_child(base, "alt");
    b->placeholder = placeholder_of(base->config);
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_value stead =
        lladd_dtable_value_of(b->placeholder.data, b->placeholder.len);
    int rc = lladd_dtable_add(base->base, key, value);
    if (rc != LLADD_DTABLE_REJECT)
        return rc;
    TRY(lladd_dtable_add(b->alt, key, value));
    rc = lladd_dtable_add(base->base, key, &stead);
    if (rc == LLADD_DTABLE_REJECT) /* base accepted the placeholder at configuration, so the size
                                    * must have changed */
        return lladd_error_set(base->error, LLADD_BAD_STATE,
                               "exception_dtable: base rejects the reject_value; are its values of "
                               "a different size?");
    return rc;
}

static const struct lladd_dtable_class with_columns;

/* A class that reads columns has other cursors, which are slower if base does not. */
static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct lladd_dtable_class *below = base->base->kind;
    (void)err;
    r->alt = lladd_dtable_child(base, "alt");
    r->placeholder = placeholder_of(base->config);
    if (below->columns_at && below->lookup_columns && below->copy_column &&
        lladd_dtable_row_check(r->placeholder, NULL))
        base->kind = &with_columns;
    return 0;
}

/* Compares the first byte first, because it nearly always decides. */
static inline bool is_placeholder(const struct reader *r, struct lladd_span value)
{
    const unsigned char *a = value.data, *b = r->placeholder.data;
    return value.len == r->placeholder.len &&
           (value.len == 0 || (*a == *b && memcmp(a, b, value.len) == 0));
}

/* Asks alt with a separate pin, because the caller's pin may hold the key's bytes. Copies the value
 * to the caller's pin. */
static int ask_alt(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                   struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_pin own = LLADD_DTABLE_PIN_INIT;
    int rc = lladd_dtable_ask(r->alt, key, &own, value, err);
    if (!rc && value->state == LLADD_DTABLE_ABSENT) {
        *value = lladd_dtable_value_of(r->placeholder.data, r->placeholder.len);
    } else if (!rc && value->bytes.len) {
        void *copy = lladd_dtable_room(base->db, pin, value->bytes.len);
        if (copy)
            memcpy(copy, value->bytes.data, value->bytes.len);
        else
            rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for an exception_dtable");
        value->bytes.data = copy;
    }
    lladd_dtable_unpin(&own);
    return rc;
}

static int decode(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    if (!is_placeholder((const struct reader *)base, value->bytes))
        return 0;
    return ask_alt(base, key, pin, value, err);
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    int rc = lladd_dtable_ask(base->base, key, pin, out, err);
    if (rc || out->state != LLADD_DTABLE_FOUND ||
        !is_placeholder((const struct reader *)base, out->bytes))
        return rc;
    return ask_alt(base, key, pin, out, err);
}

/* Copies base's values, and alt's in place of placeholders. The copy ends before a row without a
 * value, and before a value of another size. */
static int copy(const struct lladd_dtable *base, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    int rc = lladd_dtable_copy(base->base, place, n, out, room, width, got, err);
    size_t size = *width;
    if (rc || size != r->placeholder.len)
        return rc;
    for (size_t i = 0; i < *got && !rc; i++) {
        struct lladd_dtable_value v = lladd_dtable_value_of(out + i * size, size);
        if (!is_placeholder(r, v.bytes))
            continue;
        rc = lladd_dtable_at(base, place + i, &pin, NULL, &v, err);
        if (rc || v.state != LLADD_DTABLE_FOUND || v.bytes.len != size)
            *got = i;
        else
            memcpy(out + i * size, v.bytes.data, size);
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Is the value the placeholder's value of this column? */
static bool is_of_placeholder(const struct reader *r, uint32_t column,
                              const struct lladd_dtable_value *v)
{
    struct lladd_dtable_value p;
    return lladd_dtable_row_column(r->placeholder, column, &p) && p.state == v->state &&
           (p.state != LLADD_DTABLE_FOUND ||
            (p.bytes.len == v->bytes.len &&
             (p.bytes.len == 0 || memcmp(p.bytes.data, v->bytes.data, p.bytes.len) == 0)));
}

/* May the row with these columns be the placeholder? */
static bool may_be_placeholder(const struct reader *r, const struct lladd_dtable_columns *want)
{
    bool may = true;
    for (size_t i = 0; may && i < want->n; i++)
        may = is_of_placeholder(r, want->numbers[i], &want->values[i]);
    return may;
}

/* Gets the columns from alt, if base's value for the key is the placeholder. */
static int columns_of_alt(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          struct lladd_dtable_value *value,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    if (value->state != LLADD_DTABLE_FOUND ||
        !is_placeholder((const struct reader *)base, value->bytes))
        return 0;
    TRY(ask_alt(base, key, &want->pins[want->n], value, err));
    return lladd_dtable_row_unpack(value, want, state, err);
}

/* Without wanted columns, the first one is compared, too. */
static int columns_at(const struct lladd_dtable *base, uint64_t place,
                      const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                      struct lladd_error *err)
{
    static const uint32_t first = 0;
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value value = {.state = LLADD_DTABLE_ABSENT};
    const struct lladd_dtable_columns one = {1, &first, &value, pins};
    const struct lladd_dtable_columns *some = want->n ? want : &one;
    struct lladd_dtable_key key;
    int rc = base->base->kind->columns_at(base->base, place, some, state, err);
    if (!rc && *state == LLADD_DTABLE_FOUND &&
        may_be_placeholder((const struct reader *)base, some)) {
        rc = lladd_dtable_at(base->base, place, &pins[0], &key, &value, err);
        rc = rc ? rc : columns_of_alt(base, &key, &value, want, state, err);
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    return rc;
}

static int lookup_columns(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value value;
    int rc = lladd_dtable_lookup_columns(base->base, key, want, state, err);
    if (rc || *state != LLADD_DTABLE_FOUND ||
        !may_be_placeholder((const struct reader *)base, want))
        return rc;
    rc = lladd_dtable_ask(base->base, key, &pin, &value, err);
    rc = rc ? rc : columns_of_alt(base, key, &value, want, state, err);
    lladd_dtable_unpin(&pin);
    return rc;
}

/* The values of a column that are being copied. */
struct copying {
    const struct lladd_dtable *base;
    uint32_t column;
    uint64_t place;
    unsigned char *out;
    size_t width;
    struct lladd_dtable_pin pins[2];
};

/* Copies value i from the row of its place. *done: there was one of the right size. */
static int copy_one(struct copying *c, size_t i, bool *done, struct lladd_error *err)
{
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    const struct lladd_dtable_columns one = {1, &c->column, &v, c->pins};
    enum lladd_dtable_state state = LLADD_DTABLE_ABSENT;
    int rc = columns_at(c->base, c->place + i, &one, &state, err);
    *done = !rc && state == LLADD_DTABLE_FOUND && v.state == LLADD_DTABLE_FOUND &&
            c->width && v.bytes.len == c->width;
    if (*done)
        memcpy(c->out + i * c->width, v.bytes.data, c->width);
    return rc;
}

/* Replaces the placeholder's values among those from `from` up to *to; *to becomes the first one
 * that cannot be copied. */
static int replace(struct copying *c, size_t from, size_t *to, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)c->base;
    int rc = 0;
    for (size_t i = from; i < *to && !rc; i++) {
        struct lladd_dtable_value v = lladd_dtable_value_of(c->out + i * c->width, c->width);
        bool done = true;
        if (is_of_placeholder(r, c->column, &v))
            rc = copy_one(c, i, &done, err);
        if (!done)
            *to = i;
    }
    return rc;
}

/* Base's copy ends before a placeholder that has no value of this column, or one of another size.
 * Then the row of alt comes next. */
static int copy_column(const struct lladd_dtable *base, uint32_t column, uint64_t place, size_t n,
                       unsigned char *out, size_t room, size_t *width, size_t *got,
                       struct lladd_error *err)
{
    const struct lladd_dtable *below = base->base;
    struct copying c = {.base = base, .column = column, .place = place, .out = out};
    bool more = true;
    int rc = 0;
    *got = 0;
    n = place < base->places ? n < base->places - place ? n : (size_t)(base->places - place) : 0;
    while (!rc && more) {
        size_t some = 0, end;
        rc = below->kind->copy_column(below, column, place + *got, n - *got, out + *got * c.width,
                                      room - *got * c.width, width, &some, err);
        more = !rc && (*got == 0 || *width == c.width);
        if (!more)
            break;
        c.width = *width;
        end = *got + some;
        rc = replace(&c, *got, &end, err);
        more = end == *got + some && end < n && c.width && end < room / c.width;
        *got = end;
        if (!rc && more)
            rc = copy_one(&c, end, &more, err);
        *got += !rc && more;
        more = more && *got < n && *got < room / c.width;
    }
    *width = c.width;
    lladd_dtable_unpin(&c.pins[0]);
    lladd_dtable_unpin(&c.pins[1]);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for usual values"},
    {"alt", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for what base rejects"},
    {"reject_value", LLADD_DTABLE_PARAM_BYTES, true, 0, 0, 0,
     "the value that base has for rows of alt"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

#define EXCEPTION \
    .struct_size = sizeof(struct lladd_dtable_class), .name = "exception_dtable", .version = 1, \
    .about = "a restricted table, and one for the rows that it rejects", .params = params, \
    .configure = configure, .accepts = accepts, .builder_size = sizeof(struct builder), \
    .begin = begin, .add = add, .reader_size = sizeof(struct reader), .open = open, \
    .decode = decode, .lookup = lookup, .copy = copy

const struct lladd_dtable_class ll_dtable_class_exception = {EXCEPTION};

static const struct lladd_dtable_class with_columns = {EXCEPTION,
                                                       .columns_at = columns_at,
                                                       .lookup_columns = lookup_columns,
                                                       .copy_column = copy_column};
