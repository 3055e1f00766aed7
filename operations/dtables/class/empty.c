/* SPDX-License-Identifier: BSD-2-Clause */
/* empty_dtable: has no rows and rejects every row (Anvil paper, section 5.1). As the "alt" of an
 * exception_dtable it forbids exceptions. */
#include "operations/dtables/class/classes.h"

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    (void)c;
    (void)err;
    caps->tombstones = caps->empty = false;
    return 0;
}

static int add(struct lladd_dtable_builder *b, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    (void)b;
    (void)key;
    (void)value;
    return LLADD_DTABLE_REJECT;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    (void)c;
    (void)v;
    (void)err;
    return LLADD_DTABLE_REJECT;
}

static int find(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    (void)t;
    (void)key;
    (void)pin;
    (void)err;
    *place = 0;
    *exact = false;
    return 0;
}

static int at(const struct lladd_dtable *t, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    (void)place;
    (void)pin;
    (void)key;
    (void)value;
    return lladd_dtable_corrupt(t, err, "an empty_dtable has no rows");
}

const struct lladd_dtable_class ll_dtable_class_empty = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "empty_dtable",
    .version = 1,
    .about = "nothing",
    .configure = configure,
    .accepts = accepts,
    .add = add,
    .find = find,
    .at = at,
};
