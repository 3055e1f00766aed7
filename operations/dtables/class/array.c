/* SPDX-License-Identifier: BSD-2-Clause */
/* array_dtable: unsigned integer keys without large gaps, values of one size (Anvil paper, section
 * 5.4). A row is found by arithmetic on its key, without a search.
 *
 * The stream "cells" has a cell for each integer from the first key to the last. An integer that is
 * not a key is a hole; it has a cell too. A cell is a state byte (0: hole, 1: tombstone, 2: value)
 * followed by the value.
 *
 * With "tag_byte" false, a cell is the value alone. The values "hole_value" and "tombstone_value"
 * then stand for holes and tombstones, and a row with one of these values is rejected. Without a
 * hole_value, a hole is an error. Without a tombstone_value, tombstones are rejected.
 *
 * With sparse keys the array would be mostly holes. A row is refused with an error if there would
 * be more than 65536 holes, and at least "holes_per_row" holes for each row. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

enum { HOLE = 0, TOMBSTONE = 1, VALUE = 2, FREE_HOLES = 65536, FOOTER = 32 };

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *cells;
    uint64_t size;                       /* size of a value; UINT64_MAX: not known yet */
    uint64_t first, next, rows, pending; /* pending: tombstones added before the first value */
    bool tag, has_hole, has_tombstone;
    struct lladd_span hole, tombstone;
    unsigned char *cell;
    uint64_t *early; /* keys of the pending tombstones */
    size_t early_cap;
};

struct reader {
    struct lladd_dtable base;
    struct lladd_dtable_cells cells;
    uint64_t first;
    uint32_t size;
    bool tag, has_hole, has_tombstone;
    struct lladd_span hole, tombstone;
};

static bool equal(struct lladd_span a, const void *b, size_t len)
{
    return a.len == len && (len == 0 || memcmp(a.data, b, len) == 0);
}

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    int64_t size = lladd_dtable_param_int(c, "value_size");
    bool tag = lladd_dtable_param_bool(c, "tag_byte");
    struct lladd_span hole, tombstone;
    bool has_hole = lladd_dtable_param_bytes(c, "hole_value", &hole);
    bool has_tombstone = lladd_dtable_param_bytes(c, "tombstone_value", &tombstone);
    if (tag && (has_hole || has_tombstone))
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "array_dtable: hole_value and tombstone_value are for \"tag_byte\" "
                               "bool false");
    if (!tag && size < 0 && (has_hole || has_tombstone))
        size = (int64_t)(has_hole ? hole.len : tombstone.len);
    if (!tag && size == 0)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "array_dtable: values of no bytes need a tag_byte");
    if ((has_hole && hole.len != (uint64_t)size) ||
        (has_tombstone && tombstone.len != (uint64_t)size))
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "array_dtable: hole_value and tombstone_value must have "
                               "value_size bytes");
    if (has_hole && has_tombstone && equal(hole, tombstone.data, tombstone.len))
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "array_dtable: hole_value and tombstone_value are the same");
    lladd_dtable_settle_int(c, "value_size", size);
    caps->types = 1u << LLADD_DTABLE_U32 | 1u << LLADD_DTABLE_U64;
    caps->tombstones = tag || has_tombstone;
    caps->empty = tag && size <= 0;
    caps->learned = size < 0;
    caps->all_values = !has_hole && !has_tombstone;
    if (size >= 0)
        caps->value_size = (uint64_t)size;
    return 0;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    struct lladd_span special;
    (void)err;
    if (v->state != LLADD_DTABLE_FOUND)
        return 0;
    if (lladd_dtable_param_bytes(c, "hole_value", &special) &&
        equal(special, v->bytes.data, v->bytes.len))
        return LLADD_DTABLE_REJECT;
    if (lladd_dtable_param_bytes(c, "tombstone_value", &special) &&
        equal(special, v->bytes.data, v->bytes.len))
        return LLADD_DTABLE_REJECT;
    int64_t size = lladd_dtable_param_int(c, "value_size");
    if (size >= 0) /* configured, or settled by the placeholder of an exception_dtable
                    * (exception.c) */
        return v->bytes.len == (uint64_t)size ? 0 : LLADD_DTABLE_REJECT;
    if (v->bytes.len > LL_DTABLE_CELL_MAX ||
        (v->bytes.len == 0 && !lladd_dtable_param_bool(c, "tag_byte")))
        return LLADD_DTABLE_REJECT;
    if (!lladd_dtable_config_done(c))
        lladd_dtable_settle_int(c, "value_size", (int64_t)v->bytes.len);
    return 0;
}

/* ---- built ----------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    const struct lladd_dtable_config *c = base->config;
    int64_t size = lladd_dtable_param_int(c, "value_size");
    b->tag = lladd_dtable_param_bool(c, "tag_byte");
    b->has_hole = lladd_dtable_param_bytes(c, "hole_value", &b->hole);
    b->has_tombstone = lladd_dtable_param_bytes(c, "tombstone_value", &b->tombstone);
    b->size = size < 0 ? UINT64_MAX : (uint64_t)size;
    if (size >= 0 && (uint64_t)size + b->tag > lladd_dtable_block_size(base))
        return lladd_error_set(base->error, LLADD_TOO_LARGE,
                               "array_dtable: values of %lld bytes do not fit into blocks of %u",
                               (long long)size, lladd_dtable_block_size(base));
    b->cell = lladd_mem_alloc(base->db, lladd_dtable_block_size(base));
    if (!b->cell)
        return lladd_error_set(base->error, LLADD_NO_MEMORY, "out of memory for an array_dtable");
    return lladd_dtable_stream(base, "cells", &b->cells);
}

static int put(struct builder *b, int state, const void *value)
{
    size_t size = (size_t)b->size;
    memset(b->cell, 0, size + b->tag);
    if (b->tag)
        b->cell[0] = (unsigned char)state;
    if (!b->tag && state != VALUE)
        value = state == HOLE ? b->hole.data : b->tombstone.data;
    if (value && size)
        memcpy(b->cell + b->tag, value, size);
    return lladd_dtable_write_cell(b->cells, b->cell, size + b->tag);
}

/* Writes the cells from the first key to the last pending tombstone. */
static int put_early(struct builder *b)
{
    int rc = 0;
    uint64_t at = b->first;
    for (uint64_t i = 0; i < b->pending && !rc; i++) {
        for (; at < b->early[i] && !rc; at++)
            rc = put(b, HOLE, NULL);
        rc = rc ? rc : put(b, TOMBSTONE, NULL);
        at++;
    }
    b->pending = 0;
    return rc;
}

static int note_early(struct builder *b, uint64_t key)
{
    if (ll_operations__grow(b->base.db, &b->early, b->pending + 1, &b->early_cap,
                            sizeof *b->early))
        return lladd_error_set(b->base.error, LLADD_NO_MEMORY, "out of memory for an array_dtable");
    b->early[b->pending++] = key;
    return 0;
}

static int check_holes(const struct builder *b, uint64_t key)
{
    uint64_t holes = key - b->next, all = key - b->first - b->rows;
    uint64_t most = (uint64_t)lladd_dtable_param_int(b->base.config, "holes_per_row");
    if (b->rows == 0 || holes == 0)
        return 0;
    if (all > FREE_HOLES && all / (b->rows + 1) >= most)
        return lladd_error_set(b->base.error, LLADD_OUT_OF_RANGE,
                               "array_dtable: keys %llu to %llu make %llu holes for %llu rows; "
                               "there must be fewer than %llu a row (holes_per_row)",
                               (unsigned long long)b->first, (unsigned long long)key,
                               (unsigned long long)all, (unsigned long long)b->rows + 1,
                               (unsigned long long)most);
    if (!b->tag && !b->has_hole)
        return lladd_error_set(b->base.error, LLADD_OUT_OF_RANGE,
                               "array_dtable: key %llu is missing, and there is neither a tag_byte "
                               "nor a hole_value",
                               (unsigned long long)b->next);
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    bool found = value->state == LLADD_DTABLE_FOUND;
    size_t len = value->bytes.len;
    if (found && (b->size == UINT64_MAX ? len > LL_DTABLE_CELL_MAX || len + b->tag == 0
                                        : len != b->size))
        return LLADD_DTABLE_REJECT;
    if (found && ((b->has_hole && equal(b->hole, value->bytes.data, len)) ||
                  (b->has_tombstone && equal(b->tombstone, value->bytes.data, len))))
        return LLADD_DTABLE_REJECT;
    TRY(check_holes(b, key->number));
    if (b->rows == 0)
        b->first = b->next = key->number;
    int rc = 0;
    if (!found && b->size == UINT64_MAX) {
        rc = note_early(b, key->number);
    } else {
        b->size = found ? len : b->size;
        bool early = b->pending > 0;
        uint64_t at = b->next;
        rc = early ? put_early(b) : 0;
        for (; at < key->number && !rc; at++)
            rc = put(b, HOLE, NULL);
        if (!rc)
            rc = put(b, found ? VALUE : TOMBSTONE, value->bytes.data);
    }
    b->next = key->number + 1;
    b->rows++;
    base->place = key->number - b->first;
    return rc;
}

/* Footer: u64 first key, u64 cells, u32 size of a value, u32 1 if cells have a state byte (else 0),
 * u64 rows. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    unsigned char footer[FOOTER];
    int rc = 0;
    if (b->size == UINT64_MAX)
        b->size = 0;
    rc = put_early(b);
    lladd_put64(footer, b->first);
    lladd_put64(footer + 8, b->next - b->first);
    lladd_put32(footer + 16, (uint32_t)b->size);
    lladd_put32(footer + 20, b->tag);
    lladd_put64(footer + 24, b->rows);
    return rc ? rc : lladd_dtable_footer(base, footer, sizeof footer);
}

static void discard(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    lladd_mem_free(base->db, b->cell);
    lladd_mem_free(base->db, b->early);
}

/* ---- read ------------------------------------------------------------------------------------ */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const unsigned char *f = base->footer.data;
    const struct lladd_dtable_source *cells;
    TRY(lladd_dtable_source_open(base, "cells", &cells, err));
    if (base->footer.len != FOOTER)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    r->first = lladd_get64(f);
    base->places = lladd_get64(f + 8);
    r->size = lladd_get32(f + 16);
    r->tag = lladd_get32(f + 20) != 0;
    uint32_t cell = r->size + r->tag, block_size = lladd_dtable_source_block(cells);
    r->has_hole = lladd_dtable_param_bytes(base->config, "hole_value", &r->hole);
    r->has_tombstone = lladd_dtable_param_bytes(base->config, "tombstone_value", &r->tombstone);
    uint64_t blocks = lladd_dtable_source_blocks(cells);
    if (base->places == 0)
        return 0;
    if (r->size > block_size || cell == 0 || cell > block_size ||
        base->places - 1 > UINT64_MAX - r->first ||
        (base->places - 1) / (block_size / cell) + 1 != blocks ||
        (r->has_hole && r->hole.len != r->size) ||
        (r->has_tombstone && r->tombstone.len != r->size))
        return lladd_dtable_corrupt(base, err,
                                    "invalid footer: expected cells that fit the stream");
    r->cells = lladd_dtable_cells_of(cells, cell);
    return 0;
}

static int find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    (void)pin;
    (void)err;
    uint64_t at = key->number - r->first;
    *exact = key->number >= r->first && at < base->places;
    *place = key->number < r->first ? 0 : at < base->places ? at : base->places;
    return 0;
}

static int at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *cell;
    if (key)
        *key = (struct lladd_dtable_key){base->order.type, r->first + place, {NULL, 0}};
    if (!value)
        return 0;
    TRY(lladd_dtable_cells_at(pin, 1, &r->cells, place, &cell, err));
    int state = r->tag ? cell[0]
                : r->has_hole && equal(r->hole, cell, r->size)           ? HOLE
                : r->has_tombstone && equal(r->tombstone, cell, r->size) ? TOMBSTONE
                                                                         : VALUE;
    if (state > VALUE)
        return lladd_dtable_corrupt(base, err, "a cell has an invalid state byte");
    value->state = state == HOLE        ? LLADD_DTABLE_ABSENT
                   : state == TOMBSTONE ? LLADD_DTABLE_TOMBSTONE
                                        : LLADD_DTABLE_FOUND;
    value->bytes = lladd_span_of(cell + r->tag, r->size);
    return 0;
}

/* For a key below the first one, the subtraction wraps around to a number above all places. */
static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    uint64_t place = key->number - ((const struct reader *)base)->first;
    return place < base->places ? at(base, place, pin, NULL, out, err) : 0;
}

/* Copies cells without a state byte, up to the first one that stands for a hole or a tombstone. */
static int copy_plain(const struct reader *r, uint64_t place, size_t n, unsigned char *out,
                      size_t *got, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    int rc = ll_cells_copy(&pin, r->cells.in, r->size, place, n, out, err);
    size_t i = r->has_hole || r->has_tombstone ? 0 : n;
    while (i < n && !(r->has_hole && equal(r->hole, out + i * r->size, r->size)) &&
           !(r->has_tombstone && equal(r->tombstone, out + i * r->size, r->size)))
        i++;
    *got = rc ? 0 : i;
    lladd_dtable_unpin(&pin);
    return rc;
}

/* Copies the values of up to n cells of a block, and stops at the first hole or tombstone. */
static size_t copy_tagged(const unsigned char *from, uint32_t size, size_t n, unsigned char *out)
{
    size_t i = 0;
    if (size == 4) /* a constant size lets the compiler unroll the copy */
        for (; i < n && from[5 * i] == VALUE; i++)
            memcpy(out + 4 * i, from + 5 * i + 1, 4);
    else
        for (; i < n && from[(size + 1) * i] == VALUE; i++)
            memcpy(out + size * i, from + (size + 1) * i + 1, size);
    return i;
}

static int copy(const struct lladd_dtable *base, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    uint32_t per = r->cells.per, len;
    int rc = 0;
    if (r->size == 0 || room / r->size == 0)
        return 0;
    n = n < room / r->size ? n : room / r->size;
    *width = r->size;
    if (!r->tag)
        return copy_plain(r, place, n, out, got, err);
    for (size_t some, copied; *got < n && !rc; *got += copied) {
        uint64_t at = place + *got, from = at % per;
        const unsigned char *bytes;
        copied = 0;
        some = n - *got < per - from ? n - *got : (size_t)(per - from);
        rc = lladd_dtable_block(&pin, 1, r->cells.in, at / per, &bytes, &len, err);
        if (!rc && len < (from + some) * r->cells.cell)
            rc = lladd_dtable_corrupt(base, err, "cells are missing");
        if (!rc)
            copied = copy_tagged(bytes + from * r->cells.cell, r->size, some, out + *got * r->size);
        if (copied < some) {
            *got += copied;
            break;
        }
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"value_size", LLADD_DTABLE_PARAM_INT, false, -1, -1, LL_DTABLE_CELL_MAX,
     "bytes of a value; -1: as many as the first one has"},
    {"tag_byte", LLADD_DTABLE_PARAM_BOOL, false, 1, 0, 0, "a byte of state in each cell"},
    {"hole_value", LLADD_DTABLE_PARAM_BYTES, false, 0, 0, 0, "stands for a key that is not there"},
    {"tombstone_value", LLADD_DTABLE_PARAM_BYTES, false, 0, 0, 0, "stands for a tombstone"},
    {"holes_per_row", LLADD_DTABLE_PARAM_INT, false, 16, 0, INT64_MAX,
     "limit of missing keys per row; a row that reaches it is refused"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_array = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "array_dtable",
    .version = 1,
    .about = "integers that follow each other, values of one size, found without a search",
    .params = params,
    .configure = configure,
    .accepts = accepts,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .find = find,
    .at = at,
    .lookup = lookup,
    .copy = copy,
};
