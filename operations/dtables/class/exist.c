/* SPDX-License-Identifier: BSD-2-Clause */
/* exist_dtable: rows with values in one table, tombstones in another.
 *
 * The base need not be able to store tombstones. An array, for example, then needs no state byte in
 * each cell. Each key is in one of the two tables. A lookup asks the base first, then the
 * tombstones. A cursor is a cursor of an overlay of both tables. Rows have no places. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/class/through.h"

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_builder *gone;
};

struct reader {
    struct lladd_dtable base;
    struct lladd_dtable *both; /* an overlay */
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    const struct lladd_dtable_caps *gone =
        lladd_dtable_caps_get(lladd_dtable_param_child(c, "tombstones"));
    if (!gone->tombstones)
        return lladd_error_set(
            err, LLADD_BAD_CONFIG,
            "exist_dtable: the layer given as \"tombstones\" cannot store tombstones");
    struct lladd_dtable_value none = lladd_dtable_value_of("", 0);
    /* The layer would take the size of values from its first value, but it gets only tombstones:
     * this call sets the size to 0. */
    if (gone->learned) {
        int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "tombstones"), &none, err);
        if (rc < 0)
            return rc;
    }
    caps->types &= gone->types;
    caps->places = false;
    caps->tombstones = true;
    return 0;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    bool found = v->state == LLADD_DTABLE_FOUND;
    return lladd_dtable_accepts(lladd_dtable_param_child(c, found ? "base" : "tombstones"), v, err);
}

static int begin(struct lladd_dtable_builder *base)
{
    ((struct builder *)base)->gone = lladd_dtable_builder_child(base, "tombstones");
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    bool found = value->state == LLADD_DTABLE_FOUND;
    return lladd_dtable_add(found ? base->base : ((struct builder *)base)->gone, key, value);
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct lladd_dtable *two[2] = {base->base, lladd_dtable_child(base, "tombstones")};
    return lladd_dtable_overlay(base->db, two, 2, &((struct reader *)base)->both, err);
}

static void close(struct lladd_dtable *base)
{
    lladd_dtable_close(((struct reader *)base)->both);
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    return lladd_dtable_ask(((const struct reader *)base)->both, key, pin, out, err);
}

/* ---- cursors --------------------------------------------------------------------------------- */

static int cursor_open(const struct lladd_dtable *base, void *cursor, struct lladd_error *err)
{
    return ll_dtable__through_open(((const struct reader *)base)->both, cursor, err);
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for rows with values"},
    {"tombstones", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for tombstones"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_exist = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "exist_dtable",
    .version = 1,
    .about = "values in one table, tombstones in another",
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
    .cursor_size = sizeof(struct ll_through),
    .cursor_open = cursor_open,
    .cursor_close = ll_dtable__through_close,
    .cursor_seek = ll_dtable__through_seek,
    .cursor_step = ll_dtable__through_step,
    .cursor_row = ll_dtable__through_row,
};
