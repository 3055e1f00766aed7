/* SPDX-License-Identifier: BSD-2-Clause */
/* btree_dtable: an index of the keys in another table (paper, section 5.2).
 *
 * The tree is built from below while rows are added, and is static. Its leaves have every key with
 * the place of its row, so the base needs places; base's own search is not used. A node is a line
 * or some of the processor's cache, not a block of the disk: the nodes of a level stand one behind
 * the other, FAN keys each, and the children of node i of a level are nodes i * FAN to i * FAN +
 * FAN - 1 of the one below, so there are no pointers at all. Places are stored, in the stream
 * "places", only if they are not simply the numbers of the keys in the tree: over arrays with
 * holes.
 *
 * Stream "leaves" has the keys, whole nodes in a block; "levels", the first key of each node, level
 * by level from the one above the leaves up, is in memory while the table is open: one key in FAN.
 * Keys are numbers. */
#include "operations/dtable_class/classes.h"

enum { FAN = 32, LEVELS_MAX = 16, FOOTER = 32 };

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *leaves, *places;
    uint64_t n, *first; /* first: key of each leaf */
    size_t nodes, cap;
    bool holes; /* places are not what they could be */
    unsigned char node[FAN * 8];
};

struct reader {
    struct lladd_dtable base;
    const struct lladd_dtable_source *leaves, *places;
    const unsigned char *levels;
    uint64_t n, at[LEVELS_MAX], nodes[LEVELS_MAX]; /* of a level: where it begins, its length */
    uint32_t n_levels, width, block_size;
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    (void)c;
    if (!caps->places)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "btree_dtable: rows of its base have no places");
    caps->types &= LLADD_DTABLE_NUMBERS;
    return caps->types ? 0
                       : lladd_error_set(err, LLADD_BAD_CONFIG,
                                         "btree_dtable: keys of its base are no numbers");
}

static unsigned width_of(enum lladd_dtable_type type)
{
    return type == LLADD_DTABLE_U32 ? 4 : 8;
}
static uint64_t get(const unsigned char *p, unsigned width)
{
    return width == 4 ? lladd_get32(p) : lladd_get64(p);
}

/* ---- built ----------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    int rc = lladd_dtable_stream(base, "leaves", &b->leaves);
    return rc ? rc : lladd_dtable_stream(base, "places", &b->places);
}

static int write_node(struct builder *b, unsigned keys)
{
    unsigned width = width_of(b->base.order.type);
    /* What there is no key for is behind all that there are. */
    memset(b->node + keys * width, 0xff, (FAN - keys) * width);
    return lladd_dtable_write_cell(b->leaves, b->node, FAN * width);
}

static int note_first(struct builder *b, uint64_t key)
{
    if (b->nodes == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        uint64_t *first = lladd_resize(b->base.db, b->first, cap * sizeof *first);
        if (!first)
            return lladd_error_set(b->base.error, LLADD_NO_MEMORY, "out of memory for an index");
        b->first = first;
        b->cap = cap;
    }
    b->first[b->nodes++] = key;
    return 0;
}

/* Up to the first hole, places are what they could be. */
static int note_place(struct builder *b, uint64_t place)
{
    unsigned char cell[8];
    int rc = 0;
    for (uint64_t i = 0; place != b->n && !b->holes && i < b->n && !rc; i++) {
        lladd_put64(cell, i);
        rc = lladd_dtable_write_cell(b->places, cell, sizeof cell);
    }
    b->holes = b->holes || place != b->n;
    lladd_put64(cell, place);
    return rc || !b->holes ? rc : lladd_dtable_write_cell(b->places, cell, sizeof cell);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    unsigned width = width_of(base->order.type), in_node = (unsigned)(b->n % FAN);
    int rc = lladd_dtable_add(base->base, key, value);
    if (rc)
        return rc;
    if (in_node == 0)
        rc = note_first(b, key->number);
    if (!rc && width == 4)
        lladd_put32(b->node + 4 * in_node, (uint32_t)key->number);
    else if (!rc)
        lladd_put64(b->node + 8 * in_node, key->number);
    if (!rc)
        rc = note_place(b, base->base->place);
    b->n++;
    if (!rc && in_node == FAN - 1)
        rc = write_node(b, FAN);
    return rc;
}

/* Footer: u64 keys, u32 levels, u32 bytes of a key, u64[2] 0. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_writer *levels;
    unsigned char footer[FOOTER] = {0};
    size_t nodes = b->nodes;
    uint32_t n_levels = 0;
    int rc = b->n % FAN ? write_node(b, (unsigned)(b->n % FAN)) : 0;
    if (!rc)
        rc = lladd_dtable_stream(base, "levels", &levels);
    while (!rc && nodes > 0) {
        for (size_t i = 0; i < nodes && !rc; i++) {
            unsigned char key[8];
            lladd_put64(key, b->first[i]);
            rc = lladd_dtable_write(levels, key, sizeof key);
        }
        n_levels++;
        if (nodes <= FAN)
            break;
        size_t above = (nodes + FAN - 1) / FAN;
        for (size_t i = 0; i < above; i++)
            b->first[i] = b->first[i * FAN];
        nodes = above;
    }
    lladd_put64(footer, b->n);
    lladd_put32(footer + 8, n_levels);
    lladd_put32(footer + 12, width_of(base->order.type));
    return rc ? rc : lladd_dtable_footer(base, footer, sizeof footer);
}

static void discard(struct lladd_dtable_builder *base)
{
    lladd_free(base->db, ((struct builder *)base)->first);
}

/* ---- read ------------------------------------------------------------------------------------ */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct lladd_dtable_source *levels;
    int rc = lladd_dtable_source(base, "leaves", &r->leaves, err);
    rc = rc ? rc : lladd_dtable_source(base, "places", &r->places, err);
    rc = rc ? rc : lladd_dtable_source(base, "levels", &levels, err);
    rc = rc ? rc : lladd_dtable_load(base, levels, &r->levels, err);
    if (rc)
        return rc;
    if (base->footer.len != FOOTER)
        return lladd_dtable_corrupt(base, err, "its footer has another length");
    r->n = lladd_get64(base->footer.data);
    r->n_levels = lladd_get32((const unsigned char *)base->footer.data + 8);
    r->width = width_of(base->order.type);
    r->block_size = lladd_dtable_source_block(r->leaves);
    uint64_t nodes = r->n / FAN + (r->n % FAN != 0), size = 0, leaves = nodes;
    if (r->n_levels > LEVELS_MAX || r->n > UINT64_MAX / 64)
        return lladd_dtable_corrupt(base, err, "its footer makes no sense");
    for (uint32_t i = 0; i < r->n_levels; i++) {
        r->at[i] = size;
        r->nodes[i] = nodes;
        size += nodes * 8;
        nodes = (nodes + FAN - 1) / FAN;
    }
    uint64_t per = r->block_size / (FAN * r->width);
    uint64_t all = lladd_dtable_source_size(r->places);
    bool beyond = all == 0 && r->n > base->base->places;
    if (beyond || size != lladd_dtable_source_size(levels) || (r->n > 0) != (r->n_levels > 0) ||
        (r->n_levels && r->nodes[r->n_levels - 1] > FAN) ||
        (leaves + per - 1) / per != lladd_dtable_source_blocks(r->leaves) ||
        (all && lladd_dtable_source_blocks(r->places) !=
                    (r->n + r->block_size / 8 - 1) / (r->block_size / 8)))
        return lladd_dtable_corrupt(base, err, "its levels make no sense");
    if (all == 0)
        r->places = NULL;
    return 0;
}

/* How many of n sorted keys are at most this one. All are looked at: no branch that a processor
 * could guess wrong, and no line of the cache waits for another. */
static inline unsigned up_to(const unsigned char *keys, unsigned n, uint64_t key)
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        count += lladd_get64(keys + 8 * i) <= key;
    return count;
}

/* How many of a leaf's keys are below this one: what there is no key for never is. */
static inline unsigned below(const unsigned char *keys, unsigned width, uint64_t key)
{
    unsigned count = 0;
    if (width == 8)
        for (unsigned i = 0; i < FAN; i++)
            count += lladd_get64(keys + 8 * i) < key;
    else
        for (unsigned i = 0; i < FAN; i++)
            count += lladd_get32(keys + 4 * i) < (uint32_t)key;
    return count;
}

/* The leaf for a key: the last one whose first key is not behind it, or the first. Looks where it
 * is if all are equally far apart, and walks down the levels if it is not there. */
static uint64_t leaf_for(const struct reader *r, uint64_t key)
{
    uint64_t last = r->nodes[0] - 1, low = lladd_get64(r->levels);
    uint64_t high = lladd_get64(r->levels + 8 * last), node = 0;
    if (key <= low || key >= high)
        return key <= low ? 0 : last;
    uint64_t guess = (uint64_t)((double)(key - low) / (double)(high - low) * (double)last);
    guess = guess < last ? guess : last - 1;
    if (lladd_get64(r->levels + 8 * guess) <= key && key < lladd_get64(r->levels + 8 * guess + 8))
        return guess;
    for (uint32_t level = r->n_levels; level-- > 0;) {
        uint64_t from = node * FAN, left = r->nodes[level] - from;
        unsigned child = up_to(r->levels + r->at[level] + 8 * from,
                               left < FAN ? (unsigned)left : FAN, key);
        node = from + (child ? child - 1 : 0);
    }
    return node;
}

static int place_of(const struct reader *r, uint64_t i, struct lladd_dtable_pin *pin,
                    uint64_t *place, struct lladd_error *err)
{
    const unsigned char *cell;
    *place = i;
    if (i == r->n)
        *place = r->base.base->places;
    if (i == r->n || !r->places)
        return 0;
    int rc = lladd_dtable_cell(pin, 0, r->places, r->block_size, 8, i, &cell, err);
    if (!rc)
        *place = lladd_get64(cell);
    if (!rc && *place >= r->base.base->places)
        rc = lladd_dtable_corrupt(&r->base, err, "a place that its base does not have");
    return rc;
}

static int find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *keys;
    *exact = false;
    if (r->n == 0)
        return place_of(r, 0, pin, place, err);
    uint64_t node = leaf_for(r, key->number);
    int rc = lladd_dtable_cell(pin, 0, r->leaves, r->block_size, FAN * r->width, node, &keys, err);
    if (rc)
        return rc;
    uint64_t left = r->n - node * FAN;
    unsigned n = left < FAN ? (unsigned)left : FAN;
    unsigned i = below(keys, r->width, key->number);
    i = i < n ? i : n;
    *exact = i < n && get(keys + i * r->width, r->width) == key->number;
    return place_of(r, node * FAN + i, pin, place, err);
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table whose keys are indexed"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_btree = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "btree_dtable",
    .version = 1,
    .about = "an index of the keys of another table",
    .params = params,
    .configure = configure,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .find = find,
};
