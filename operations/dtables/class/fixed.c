/* SPDX-License-Identifier: BSD-2-Clause */
/* fixed_dtable: any keys, values of one size (Anvil paper, section 5.4).
 *
 * Keys are in a column of their own (keys.c). A key's mark is twice the number of tombstones up to
 * and including its row, plus one if the row is a tombstone. Values are consecutive cells;
 * tombstones have no cell. Without tombstones a row takes only its key and its value. Values of
 * another size are rejected. If no size is configured, the first value determines the size. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/class/keys.h"

struct builder {
    struct lladd_dtable_builder base;
    struct ll_keys_builder keys;
    struct lladd_dtable_writer *values;
    uint64_t size, tombstones; /* size UINT64_MAX: not known yet */
};

struct reader {
    struct ll_keys_reader head;
    const struct lladd_dtable_source *values;
    struct lladd_dtable_cells cells; /* unused if values have no bytes */
    uint32_t size;
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    int64_t size = lladd_dtable_param_int(c, "value_size");
    (void)err;
    if (size >= 0)
        caps->value_size = (uint64_t)size;
    caps->empty = size <= 0;
    caps->learned = size < 0;
    caps->all_values = true;
    return 0;
}

/* A value that is tried at configuration, such as a placeholder, determines the size. */
static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    int64_t size = lladd_dtable_param_int(c, "value_size");
    (void)err;
    if (v->state != LLADD_DTABLE_FOUND)
        return 0;
    if (size >= 0) /* configured, or settled by the placeholder of an exception_dtable
                    * (exception.c) */
        return v->bytes.len == (uint64_t)size ? 0 : LLADD_DTABLE_REJECT;
    if (v->bytes.len > LL_DTABLE_CELL_MAX)
        return LLADD_DTABLE_REJECT;
    if (!lladd_dtable_config_done(c))
        lladd_dtable_settle_int(c, "value_size", (int64_t)v->bytes.len);
    return 0;
}

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    int64_t size = lladd_dtable_param_int(base->config, "value_size");
    b->size = size < 0 ? UINT64_MAX : (uint64_t)size;
    TRY(ll_keys_begin(&b->keys, base));
    if (size > lladd_dtable_block_size(base))
        return lladd_error_set(base->error, LLADD_TOO_LARGE,
                               "fixed_dtable: values of %lld bytes do not fit into blocks of %u",
                               (long long)size, lladd_dtable_block_size(base));
    return lladd_dtable_stream(base, "values", &b->values);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    bool tombstone = value->state == LLADD_DTABLE_TOMBSTONE;
    size_t len = value->bytes.len;
    int rc = 0;
    if (!tombstone && (b->size == UINT64_MAX ? len > LL_DTABLE_CELL_MAX : len != b->size))
        return LLADD_DTABLE_REJECT;
    if (!tombstone) {
        b->size = len;
        rc = len ? lladd_dtable_write_cell(b->values, value->bytes.data, len) : 0;
    }
    b->tombstones += tombstone;
    base->mark = b->tombstones * 2 + tombstone;
    return rc ? rc : ll_keys_add(&b->keys, key, base->mark);
}

/* Footer: the footer of keys.c, then u32 size of a value. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    unsigned char size[4];
    lladd_put32(size, b->size == UINT64_MAX ? 0 : (uint32_t)b->size);
    return ll_keys_finish(&b->keys, size, sizeof size);
}

static void discard(struct lladd_dtable_builder *base)
{
    ll_keys_discard(&((struct builder *)base)->keys);
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    struct lladd_span more;
    TRY(ll_keys_open(&r->head.keys, base, &more, err));
    TRY(lladd_dtable_source_open(base, "values", &r->values, err));
    r->size = more.len == 4 ? lladd_get32(more.data) : UINT32_MAX;
    if (r->size > lladd_dtable_source_block(r->values))
        return lladd_dtable_corrupt(base, err, "its footer has an invalid size of values");
    if (r->size)
        r->cells = lladd_dtable_cells_of(r->values, r->size);
    return 0;
}

/* `mark` and `before` are the marks of the row and of the row before it, in the key column. */
static int at_mark(const struct lladd_dtable *base, uint64_t place, uint64_t before, uint64_t mark,
                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                   struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *bytes = (const unsigned char *)"";
    int rc = 0;
    (void)before;
    if (mark & 1) {
        *value = lladd_dtable_tombstone();
        return 0;
    }
    if (mark / 2 > place)
        return lladd_dtable_corrupt(base, err, "more tombstones than rows");
    if (r->size)
        rc = lladd_dtable_cells_at(pin, 1, &r->cells, place - mark / 2, &bytes, err);
    *value = lladd_dtable_value_of(bytes, r->size);
    return rc;
}

/* Copies the values of n rows or, if one of these rows is a tombstone, nothing. */
static int copy(const struct lladd_dtable *base, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    uint64_t before, mark, last = 0;
    if (r->size == 0 || room / r->size == 0)
        return 0;
    n = n < room / r->size ? n : room / r->size;
    int rc = ll_keys_at(&r->head.keys, place + n - 1, &pin, NULL, &before, &last, err);
    if (!rc)
        rc = ll_keys_at(&r->head.keys, place, &pin, NULL, &before, &mark, err);
    if (!rc && before / 2 > place)
        rc = lladd_dtable_corrupt(base, err, "more tombstones than rows");
    *width = r->size;
    if (!rc && before / 2 == last / 2)
        rc = ll_cells_copy(&pin, r->values, r->size, place - before / 2, n, out, err);
    *got = !rc && before / 2 == last / 2 ? n : 0;
    lladd_dtable_unpin(&pin);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"value_size", LLADD_DTABLE_PARAM_INT, false, -1, -1, LL_DTABLE_CELL_MAX,
     "bytes of a value; -1: as many as the first one has"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_fixed = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "fixed_dtable",
    .version = 3,
    .about = "any keys, values of one size, sorted",
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
    .find = ll_keys_class_find,
    .at = ll_keys_class_at,
    .at_mark = at_mark,
    .lookup = ll_keys_class_lookup,
    .copy = copy,
};
