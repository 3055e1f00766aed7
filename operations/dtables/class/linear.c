/* SPDX-License-Identifier: BSD-2-Clause */
/* linear_dtable: any keys, any values, sorted (Anvil paper, section 5.1). Rejects nothing.
 *
 * Keys are in a column of their own (keys.c). A row's mark is twice the offset in the stream
 * "values" where the row's value ends, plus one if the row is a tombstone. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/class/keys.h"

struct builder {
    struct lladd_dtable_builder base;
    struct ll_keys_builder keys;
    struct lladd_dtable_writer *values;
};

struct reader {
    struct ll_keys_reader head;
    const struct lladd_dtable_source *values;
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    (void)c;
    (void)err;
    caps->all_values = true;
    return 0;
}

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    int rc = ll_keys_begin(&b->keys, base);
    return rc ? rc : lladd_dtable_stream(base, "values", &b->values);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    bool tombstone = value->state == LLADD_DTABLE_TOMBSTONE;
    int rc = 0;
    if (!tombstone)
        rc = lladd_dtable_write(b->values, value->bytes.data, value->bytes.len);
    base->mark = lladd_dtable_written(b->values) * 2 + tombstone;
    return rc ? rc : ll_keys_add(&b->keys, key, base->mark);
}

static int finish(struct lladd_dtable_builder *base)
{
    return ll_keys_finish(&((struct builder *)base)->keys, NULL, 0);
}

static void discard(struct lladd_dtable_builder *base)
{
    ll_keys_discard(&((struct builder *)base)->keys);
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    struct lladd_span more;
    int rc = ll_keys_open(&r->head.keys, base, &more, err);
    return rc ? rc : lladd_dtable_source_open(base, "values", &r->values, err);
}

/* `mark` and `before` are the marks of the row and of the row before it, in the key column. */
static int at_mark(const struct lladd_dtable *base, uint64_t place, uint64_t before, uint64_t mark,
                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                   struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *bytes;
    (void)place;
    if (before / 2 > mark / 2)
        return lladd_dtable_corrupt(base, err, "values overlap");
    if (mark & 1) {
        *value = lladd_dtable_tombstone();
        return 0;
    }
    size_t len = (size_t)(mark / 2 - before / 2);
    int rc = lladd_dtable_read(pin, 1, r->values, before / 2, len, &bytes, err);
    *value = lladd_dtable_value_of(bytes, len);
    return rc;
}

const struct lladd_dtable_class ll_dtable_class_linear = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "linear_dtable",
    .version = 3,
    .about = "any keys and values, sorted",
    .configure = configure,
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
};
