/* SPDX-License-Identifier: BSD-2-Clause */
/* deltaint_dtable: integers of four bytes (little-endian), stored as differences (Anvil paper,
 * section 5.4).
 *
 * For each row with a value, the base has the difference from the previous value, modulo 2^32, in
 * four bytes. If the base is a smallint_dtable, it stores the difference in fewer bytes.
 * Tombstones, holes and rejected rows do not count as values. For each place that is a multiple of
 * "skip_count", the stream "landmarks" has the last value before the place, or 0. A lookup
 * therefore adds at most skip_count differences. In the paper the landmarks are a second table,
 * which must be searched. Here the base has places, and the position of a landmark is computed.
 *
 * A cursor keeps the sum of the differences up to its place, and adds or subtracts one difference
 * at each step. */
#include "operations/dtables/class/classes.h"

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *landmarks;
    uint64_t n, skip; /* n: number of landmarks written */
    uint32_t last;
};

struct reader {
    struct lladd_dtable base;
    const struct lladd_dtable_source *landmarks;
    uint64_t skip;
    uint32_t block_size;
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    static const unsigned char none[4];
    struct lladd_dtable_value v = lladd_dtable_value_of(none, sizeof none);
    if (!caps->places)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "deltaint_dtable: rows of its base have no places");
    if (caps->value_size != LLADD_DTABLE_ANY_SIZE && caps->value_size != 4)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "deltaint_dtable: its base has values of %llu bytes, not 4",
                               (unsigned long long)caps->value_size);
    /* If the size of the base's values is not configured, this sets it to 4. */
    int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), &v, err);
    caps->value_size = 4;
    caps->empty = false;
    return rc == LLADD_DTABLE_REJECT
               ? lladd_error_set(err, LLADD_BAD_CONFIG,
                                 "deltaint_dtable: its base cannot store a difference of 0")
               : rc;
}

/* The neighbours of the value are not known here, nor its differences from them. A value is
 * therefore accepted only if the base accepts every difference. */
static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    struct lladd_dtable_config *base = lladd_dtable_param_child(c, "base");
    if (v->state != LLADD_DTABLE_FOUND)
        return lladd_dtable_accepts(base, v, err);
    return lladd_dtable_caps_get(base)->all_values ? 0 : LLADD_DTABLE_REJECT;
}

/* ---- building -------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    b->skip = (uint64_t)lladd_dtable_param_int(base->config, "skip_count");
    return lladd_dtable_stream(base, "landmarks", &b->landmarks);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_value below = *value;
    unsigned char room[4], mark[4];
    bool found = value->state == LLADD_DTABLE_FOUND;
    if (found) {
        lladd_put32(room, lladd_get32(value->bytes.data) - b->last);
        below.bytes = lladd_span_of(room, sizeof room);
    }
    TRY(lladd_dtable_add(base->base, key, &below));
    lladd_put32(mark, b->last);
    int rc = 0;
    for (; b->n <= base->base->place / b->skip && !rc; b->n++)
        rc = lladd_dtable_write_cell(b->landmarks, mark, sizeof mark);
    if (found)
        b->last = lladd_get32(value->bytes.data);
    return rc;
}

/* Footer: u64 landmarks, u64 skip_count. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    unsigned char footer[16];
    lladd_put64(footer, b->n);
    lladd_put64(footer + 8, b->skip);
    return lladd_dtable_footer(base, footer, sizeof footer);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    TRY(lladd_dtable_source_open(base, "landmarks", &r->landmarks, err));
    if (base->footer.len != 16)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    uint64_t n = lladd_get64(base->footer.data);
    r->skip = lladd_get64((const unsigned char *)base->footer.data + 8);
    r->block_size = lladd_dtable_source_block(r->landmarks);
    uint64_t per = r->block_size / 4;
    if (r->skip == 0 || r->skip != (uint64_t)lladd_dtable_param_int(base->config, "skip_count") ||
        n != base->places / r->skip + (base->places % r->skip != 0) ||
        n / per + (n % per != 0) != lladd_dtable_source_blocks(r->landmarks) ||
        (n && lladd_dtable_source_size(r->landmarks) / 4 < n))
        return lladd_dtable_corrupt(base, err, "its number of landmarks is wrong");
    return 0;
}

/* Adds the difference v to the sum. Tombstones and holes add nothing. */
static int count(const struct lladd_dtable *base, const struct lladd_dtable_value *v, uint32_t *sum,
                 struct lladd_error *err)
{
    if (v->state != LLADD_DTABLE_FOUND)
        return 0;
    if (v->bytes.len != 4)
        return lladd_dtable_corrupt(base, err, "a difference has the wrong size");
    *sum += lladd_get32(v->bytes.data);
    return 0;
}

/* Reads the row at a place; *value is as the base stores it. *sum: the sum of all differences up to
 * and including this place. */
static int sum_up(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
                  struct lladd_dtable_key *key, struct lladd_dtable_value *value, uint32_t *sum,
                  struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *mark;
    int rc = lladd_dtable_cell(pin, 1, r->landmarks, r->block_size, 4, place / r->skip, &mark, err);
    *sum = rc ? 0 : lladd_get32(mark);
    for (uint64_t i = place - place % r->skip; i <= place && !rc; i++) {
        rc = lladd_dtable_at(base->base, i, pin, i == place ? key : NULL, value, err);
        rc = rc ? rc : count(base, value, sum, err);
    }
    return rc;
}

static int at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    uint32_t sum;
    if (!value)
        return lladd_dtable_at(base->base, place, pin, key, NULL, err);
    int rc = sum_up(base, place, pin, key, value, &sum, err);
    if (rc || value->state != LLADD_DTABLE_FOUND)
        return rc;
    unsigned char *room = lladd_dtable_room(base->db, pin, 4);
    lladd_put32(room, sum);
    value->bytes = lladd_span_of(room, 4);
    return 0;
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    uint64_t place;
    bool exact;
    int rc = lladd_dtable_find(base->base, key, pin, &place, &exact, err);
    if (rc || !exact)
        return rc;
    return at(base, place, pin, NULL, out, err);
}

/* Copies the base's differences to `out`, and adds them up in place. */
static int copy(const struct lladd_dtable *base, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value first;
    uint32_t sum = 0;
    int rc = lladd_dtable_copy(base->base, place, n, out, room, width, got, err);
    if (!rc && *width != 4)
        *got = 0;
    if (!rc && *got)
        rc = sum_up(base, place, &pin, NULL, &first, &sum, err);
    lladd_dtable_unpin(&pin);
    for (size_t i = 0; i < *got && !rc; i++) {
        sum += i ? lladd_get32(out + 4 * i) : 0;
        lladd_put32(out + 4 * i, sum);
    }
    return rc;
}

/* ---- cursors --------------------------------------------------------------------------------- */

struct cursor {
    struct lladd_dtable_pin pin;
    uint64_t place;
    uint32_t sum; /* sum of all differences up to and including this place */
    unsigned char bytes[4];
    struct lladd_dtable_key key;
    struct lladd_dtable_value value; /* the value as the base has it */
};

static void cursor_close(const struct lladd_dtable *base, void *cursor)
{
    (void)base;
    lladd_dtable_unpin(&((struct cursor *)cursor)->pin);
}

/* Moves to the first place with a row, from c->place on in this direction. Forward, c->sum is the
 * sum of the differences before c->place. Backward, c->sum already includes the difference at
 * c->place. */
static int settle(const struct lladd_dtable *base, struct cursor *c, bool forward,
                  struct lladd_error *err)
{
    for (; c->place < base->places; c->place += forward ? 1 : UINT64_MAX) {
        int rc = lladd_dtable_at(base->base, c->place, &c->pin, &c->key, &c->value, err);
        if (!rc && forward)
            rc = count(base, &c->value, &c->sum, err);
        if (rc || c->value.state != LLADD_DTABLE_ABSENT)
            return rc;
    }
    return LLADD_END;
}

static int cursor_step(const struct lladd_dtable *base, void *cursor, bool forward,
                       struct lladd_error *err)
{
    struct cursor *c = cursor;
    if (!forward && c->value.state == LLADD_DTABLE_FOUND)
        c->sum -= lladd_get32(c->value.bytes.data);
    c->place += forward ? 1 : UINT64_MAX;
    TRY(settle(base, c, forward, err));
    if (c->value.state == LLADD_DTABLE_FOUND && c->value.bytes.len != 4)
        return lladd_dtable_corrupt(base, err, "a difference has the wrong size");
    return 0;
}

static int cursor_seek(const struct lladd_dtable *base, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    struct cursor *c = cursor;
    bool forward = where == LLADD_DTABLE_FIRST || where == LLADD_DTABLE_NOT_BEFORE, exact = true;
    int rc = 0;
    c->place = where == LLADD_DTABLE_FIRST ? 0 : base->places - 1;
    if (key)
        rc = lladd_dtable_find(base->base, key, &c->pin, &c->place, &exact, err);
    if (where == LLADD_DTABLE_NOT_AFTER && !exact)
        c->place--; /* from place 0 this wraps to a number that is no place */
    if (rc || c->place >= base->places)
        return rc ? rc : LLADD_END;
    rc = sum_up(base, c->place, &c->pin, &c->key, &c->value, &c->sum, err);
    return rc || c->value.state != LLADD_DTABLE_ABSENT ? rc : cursor_step(base, c, forward, err);
}

static int cursor_row(const struct lladd_dtable *base, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    struct cursor *c = cursor;
    (void)base;
    (void)err;
    if (key)
        *key = c->key;
    if (!value)
        return 0;
    *value = c->value;
    if (value->state == LLADD_DTABLE_FOUND) {
        lladd_put32(c->bytes, c->sum);
        value->bytes = lladd_span_of(c->bytes, sizeof c->bytes);
    }
    return 0;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the differences"},
    {"skip_count", LLADD_DTABLE_PARAM_INT, false, 16, 1, 1 << 20,
     "places from one landmark to the next"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_deltaint = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "deltaint_dtable",
    .version = 1,
    .about = "integers of four bytes as their differences",
    .params = params,
    .configure = configure,
    .accepts = accepts,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .finish = finish,
    .reader_size = sizeof(struct reader),
    .open = open,
    .at = at,
    .copy = copy,
    .lookup = lookup,
    .cursor_size = sizeof(struct cursor),
    .cursor_close = cursor_close,
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
};
