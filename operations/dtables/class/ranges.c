/* SPDX-License-Identifier: BSD-2-Clause */
/* ranges_dtable: rows in one table, and range tombstones in a second table.
 *
 * A range [from, to) hides rows of older tables, not rows of this table. A lookup asks the base
 * first. If the base does not have the key and a range covers the key, the result is a tombstone.
 * Cursors and places are those of the base.
 *
 * The second table has one row for each range that has a beginning. The row's key is the first key
 * of the range. The row's value says where the range ends. If the range has an end, the value is u8
 * 1 and the end key (u32, u64, or the key's bytes). Otherwise the value is u8 0; if keys are
 * numbers, zeros follow in place of the end key. Ranges ascend and do not overlap, so only one
 * range can cover a key: the last range that begins at or before the key.
 *
 * The first range may have no beginning. Such a range has no row; its value is in the footer. The
 * footer has three parts: u64 number of all ranges; u8 1 if the first range has no beginning, else
 * u8 0; and the value of this range, if there is one. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

enum { END_MAX = 1 + LLADD_DTABLE_KEY_MAX, HEAD = 9 };

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_builder *ranges;
    uint64_t n;
    size_t len; /* length of the footer */
    unsigned char *footer;
};

struct reader {
    struct lladd_dtable base;
    const struct lladd_dtable *ranges;
    bool open; /* the first range has no beginning */
    struct lladd_span first; /* if `open`: the value of this range */
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    const struct lladd_dtable_caps *ranges =
        lladd_dtable_caps_get(lladd_dtable_param_child(c, "ranges"));
    if (!ranges->places || !ranges->all_values || ranges->value_size != LLADD_DTABLE_ANY_SIZE)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "ranges_dtable: the layer \"ranges\" must have places and store "
                               "values of any size, such as a linear_dtable");
    caps->types &= ranges->types;
    caps->ranges = true;
    return 0;
}

/* ---- building -------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    b->ranges = lladd_dtable_builder_child(base, "ranges");
    b->footer = lladd_mem_alloc(base->db, HEAD + END_MAX);
    b->len = HEAD;
    if (!b->footer)
        return lladd_error_set(base->error, LLADD_NO_MEMORY, "out of memory for a ranges_dtable");
    memset(b->footer, 0, HEAD);
    return 0;
}

static size_t number_size(enum lladd_dtable_type type)
{
    return type >= LLADD_DTABLE_STRING ? 0 : type == LLADD_DTABLE_U32 ? 4 : 8;
}

/* Writes the end of a range to `out`, which has room for END_MAX bytes. Returns the length. */
static size_t put_end(enum lladd_dtable_type type, const struct lladd_dtable_key *to,
                      unsigned char *out)
{
    size_t n = number_size(type);
    memset(out, 0, 1 + n);
    if (!to)
        return 1 + n;
    out[0] = 1;
    if (n == 4)
        lladd_put32(out + 1, (uint32_t)to->number);
    else if (n == 8)
        lladd_put64(out + 1, to->number);
    else
        lladd_copy(out + 1, to->bytes.data, n = to->bytes.len);
    return 1 + n;
}

static int add_range(struct lladd_dtable_builder *base, const struct lladd_dtable_key *from,
                     const struct lladd_dtable_key *to)
{
    struct builder *b = (struct builder *)base;
    unsigned char end[END_MAX];
    int rc = 0;
    if (from) {
        struct lladd_dtable_value v =
            lladd_dtable_value_of(end, put_end(base->order.type, to, end));
        rc = lladd_dtable_add(b->ranges, from, &v);
    } else {
        b->footer[HEAD - 1] = 1;
        b->len = HEAD + put_end(base->order.type, to, b->footer + HEAD);
    }
    b->n += rc == 0;
    return rc;
}

static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    lladd_put64(b->footer, b->n);
    return lladd_dtable_footer(base, b->footer, b->len);
}

static void discard(struct lladd_dtable_builder *base)
{
    lladd_mem_free(base->db, ((struct builder *)base)->footer);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int get_end(const struct lladd_dtable *base, struct lladd_span s,
                   struct lladd_dtable_interval *r, struct lladd_error *err)
{
    const struct lladd_dtable_order *order = &base->order;
    const unsigned char *p = s.data;
    size_t n = number_size(order->type);
    if (s.len == 0 || p[0] > 1 || (n && s.len != 1 + n) || (!n && !p[0] && s.len != 1))
        return lladd_dtable_corrupt(base, err,
                                    "invalid interval: expected a flag and a key of its end");
    r->has_to = p[0] == 1;
    r->to = (struct lladd_dtable_key){.type = order->type};
    if (!r->has_to)
        return 0;
    r->to.number = n == 4 ? lladd_get32(p + 1) : n == 8 ? lladd_get64(p + 1) : 0;
    if (n == 0)
        r->to.bytes = lladd_span_of(p + 1, s.len - 1);
    if (lladd_dtable_check_key(order, &r->to, NULL) ||
        (r->has_from && lladd_dtable_compare(order, &r->from, &r->to) >= 0))
        return lladd_dtable_corrupt(base, err, "invalid interval: expected an end after its start");
    return 0;
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const unsigned char *p = base->footer.data;
    struct lladd_dtable_interval first = {.has_from = false};
    r->ranges = lladd_dtable_child(base, "ranges");
    if (base->footer.len < HEAD || p[HEAD - 1] > 1)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    base->ranges = lladd_get64(p);
    r->open = p[HEAD - 1];
    r->first = lladd_span_of(p + HEAD, base->footer.len - HEAD);
    if (r->open ? base->ranges == 0 || base->ranges - 1 > r->ranges->places
                : base->ranges > r->ranges->places || r->first.len)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong number of ranges");
    return r->open ? get_end(base, r->first, &first, err) : 0;
}

/* Finds the last range that begins at or before the key; if `key` is NULL, finds the range without
 * a beginning. *there: has it found a range? *next: the place after the range's row, or 0 if the
 * range has no row. */
static int range_of(const struct reader *r, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin *pin, struct lladd_dtable_interval *out, bool *there,
                    uint64_t *next, struct lladd_error *err)
{
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    bool exact = false;
    *next = 0;
    *there = false;
    int rc = key ? lladd_dtable_find(r->ranges, key, pin, next, &exact, err) : 0;
    *next += exact;
    uint64_t i = *next;
    while (!rc && i && v.state == LLADD_DTABLE_ABSENT) /* skips holes */
        rc = lladd_dtable_at(r->ranges, --i, pin, &out->from, &v, err);
    if (rc)
        return rc;
    *there = v.state != LLADD_DTABLE_ABSENT || r->open;
    out->has_from = v.state != LLADD_DTABLE_ABSENT;
    if (v.state == LLADD_DTABLE_TOMBSTONE)
        return lladd_dtable_corrupt(&r->base, err, "a row of its table of ranges is a tombstone");
    return *there ? get_end(&r->base, out->has_from ? v.bytes : r->first, out, err) : 0;
}

static int find_interval(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                        struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    struct lladd_dtable_interval range = {.deleted = true};
    uint64_t next = 0;
    bool there;
    TRY(range_of(r, key, &pins[0], &range, &there, &next, err));
    if (key && range.has_from && lladd_dtable_compare(&base->order, &range.from, key) > 0)
        return lladd_dtable_corrupt(base, err, "its ranges are out of order");
    if (there &&
        (!key || !range.has_to || lladd_dtable_compare(&base->order, key, &range.to) < 0)) {
        *out = range;
        return 0;
    }
    *out = (struct lladd_dtable_interval){.has_from = there, .from = range.to};
    int rc = 0;
    while (!rc && next < r->ranges->places && v.state == LLADD_DTABLE_ABSENT)
        rc = lladd_dtable_at(r->ranges, next++, &pins[1], &out->to, &v, err);
    out->has_to = v.state != LLADD_DTABLE_ABSENT;
    if (!rc && out->has_to && key && lladd_dtable_compare(&base->order, key, &out->to) >= 0)
        rc = lladd_dtable_corrupt(base, err, "its ranges are out of order");
    return rc;
}

/* Called for a key that the base does not have. If a range covers the key, *state becomes a
 * tombstone. */
static int is_deleted(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                      struct lladd_dtable_pin *pin, enum lladd_dtable_state *state,
                      struct lladd_error *err)
{
    struct lladd_dtable_interval range;
    uint64_t next;
    bool there;
    int rc = range_of((const struct reader *)base, key, pin, &range, &there, &next, err);
    if (!rc && there &&
        (!range.has_to || lladd_dtable_compare(&base->order, key, &range.to) < 0))
        *state = LLADD_DTABLE_TOMBSTONE;
    return rc;
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    int rc = lladd_dtable_ask(base->base, key, pin, out, err);
    if (rc || out->state != LLADD_DTABLE_ABSENT || base->ranges == 0)
        return rc;
    return is_deleted(base, key, pin, &out->state, err);
}

static int lookup_columns(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    int rc = lladd_dtable_lookup_columns(base->base, key, want, state, err);
    if (rc || *state != LLADD_DTABLE_ABSENT || base->ranges == 0)
        return rc;
    return is_deleted(base, key, &want->pins[want->n], state, err);
}

static const struct lladd_dtable *only(const struct lladd_dtable *base)
{
    return base->base;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for rows"},
    {"ranges", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for ranges that are deleted"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_ranges = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "ranges_dtable",
    .version = 1,
    .about = "rows, and ranges of keys that are deleted in older tables",
    .params = params,
    .configure = configure,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add_range = add_range,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .lookup = lookup,
    .interval = find_interval,
    .lookup_columns = lookup_columns,
    .only = only,
};
