/* SPDX-License-Identifier: BSD-2-Clause */
/* btree_dtable: an index of the keys of another table (Anvil paper, section 5.2). Keys must be
 * numbers.
 *
 * The tree is static; it is built bottom-up while rows are added. The leaves of the tree have every
 * key with the place (the number) of its row, so the base must have places. The base's own search
 * is not used. A leaf is one cache line and has as many rows as fit. A leaf stores each key as the
 * distance from its first key; if the keys are evenly spaced, it stores only the distance of two
 * neighbouring keys. If the base can fetch a value by marks (`at_mark`; keys.h), the leaf stores
 * the marks of its rows, so that a lookup does not read the base's keys.
 *
 *     0    u64  first key
 *     8    u48  place of the first row
 *     14   u48  m. Marks: the mark of the row before the first one, its lowest bit cleared.
 *               Places: the place of the first row
 *     20   u8   rows
 *     21   u8   bytes of a key: 1, 2, 4 or 8; 0: keys are evenly spaced
 *     22   u8   n: bytes of a number
 *     23   u8   what the numbers are: see the enum below
 *     24        keys: each minus the first one; if evenly spaced, the u64 difference of two
 *               then the numbers, each minus m; MARKS_FOLLOW: only the difference of two marks;
 *               PLACES_FOLLOW: none
 *
 * The stream "leaves" has the leaves. The stream "levels" has arrays of keys; it is in memory while
 * the table is open. The first array has the first key of each leaf. Each further array has every
 * FAN-th key of the array before it; the last has at most FAN keys. There are no pointers: the
 * children of key i are the FAN keys from i * FAN on, or fewer, in the array before. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

enum { LINE = 64, HEAD = 24, ROOM = LINE - HEAD, ROWS_MAX = 255 };
enum { FAN = 32, AROUND = 16, LEVELS_MAX = 16, FOOTER = 32, OLDEST = 2, VERSION = 3 };
#define NUMBER_MAX ((UINT64_C(1) << 48) - 1)

/* What a leaf stores for each row besides its key. PLACES_FOLLOW: nothing, because the places are
 * consecutive. MARKS_FOLLOW: the marks are evenly spaced, as they are for values of one size, and
 * only their difference is stored. */
enum { PLACES_FOLLOW = 0, PLACES = 1, MARKS = 2, MARKS_FOLLOW = 3 };

/* The layout of a leaf. */
struct shape {
    unsigned rows, key, number, kind; /* key, number: bytes of each */
};

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *leaves;
    uint64_t n, *first; /* n: rows; first: first key of each leaf */
    size_t nodes, cap;
    /* The leaf being filled. */
    struct shape shape;
    uint64_t key[ROWS_MAX], place[ROWS_MAX], mark[ROWS_MAX];
    uint64_t before; /* mark of the row before the leaf */
    uint64_t most;   /* largest mark in the leaf, minus `before` without its lowest bit */
};

struct reader {
    struct lladd_dtable base;
    struct lladd_dtable_cells leaves;
    const unsigned char *levels;
    uint64_t n, at[LEVELS_MAX], nodes[LEVELS_MAX]; /* n: rows; at, nodes: for each level the offset
                                                    * of its keys, and their number */
    uint64_t low, high;                            /* first keys of the first and the last leaf */
    double slope;                                  /* leaves per unit of key */
    uint32_t n_levels, width;                      /* width: bytes of a key in the levels */
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
                                         "btree_dtable: keys of its base are not numbers");
}

static unsigned width_of(enum lladd_dtable_type type)
{
    return type == LLADD_DTABLE_U32 ? 4 : 8;
}

static uint64_t get(const unsigned char *p, unsigned width)
{
    return width == 4 ? lladd_get32(p) : lladd_get64(p);
}

static unsigned numbers_of(const struct shape *s)
{
    return s->kind == MARKS_FOLLOW ? 1 : s->rows;
}

/* Bytes of all keys and numbers. */
static unsigned bytes_of(const struct shape *s)
{
    return (s->key ? s->rows * s->key : 8) + numbers_of(s) * s->number;
}

/* ---- built ----------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    return lladd_dtable_stream(base, "leaves", &((struct builder *)base)->leaves);
}

static unsigned key_bytes(uint64_t most)
{
    return most < 1u << 8 ? 1 : most < 1u << 16 ? 2 : most <= UINT32_MAX ? 4 : 8;
}

static unsigned number_bytes(uint64_t most)
{
    return most ? (71u - (unsigned)__builtin_clzll(most)) / 8 : 0;
}

/* The layout that the current leaf has if this row is added. */
static struct shape shape_with(const struct builder *b, uint64_t key, uint64_t place, uint64_t mark)
{
    unsigned n = b->shape.rows;
    struct shape s = {n + 1, 0, 0, PLACES_FOLLOW};
    bool even = n == 0 || (n == 1 || b->shape.key == 0);
    if (n > 1 && even)
        even = key - b->key[n - 1] == b->key[1] - b->key[0];
    s.key = even ? 0 : key_bytes(key - b->key[0]);
    uint64_t less = mark - (b->before & ~UINT64_C(1)), more = less;
    bool marks = b->base.base->kind->at_mark != NULL;
    if (n)
        more = b->mark[0] - (b->before & ~UINT64_C(1));
    if (marks && (n == 0 || (b->shape.kind == MARKS_FOLLOW && mark - b->mark[n - 1] == more))) {
        s.kind = MARKS_FOLLOW;
        s.number = number_bytes(more);
    } else if (marks) {
        s.kind = MARKS;
        s.number = number_bytes(b->most > less ? b->most : less);
    } else if (n && (b->shape.kind == PLACES || place != b->place[0] + n)) {
        s.kind = PLACES;
        s.number = number_bytes(place - b->place[0]);
    }
    return s;
}

static int note_first(struct builder *b, uint64_t key)
{
    if (ll_operations__grow(b->base.db, &b->first, b->nodes + 1, &b->cap, sizeof *b->first))
        return lladd_error_set(b->base.error, LLADD_NO_MEMORY, "out of memory for an index");
    b->first[b->nodes++] = key;
    return 0;
}

static unsigned char *put_some(unsigned char *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++, v >>= 8)
        *p++ = (unsigned char)v;
    return p;
}

static int write_leaf(struct builder *b)
{
    const struct shape *s = &b->shape;
    bool marks = s->kind >= MARKS;
    uint64_t m = marks ? b->before & ~UINT64_C(1) : b->place[0];
    unsigned char line[LINE] = {0}, *p = line + HEAD;
    if (b->place[0] > NUMBER_MAX || m > NUMBER_MAX)
        return lladd_error_set(b->base.error, LLADD_TOO_LARGE,
                               "btree_dtable: its base has more than 2^47 bytes, or 2^48 rows");
    lladd_put64(line, b->key[0]);
    lladd_put48(line + 8, b->place[0]);
    lladd_put48(line + 14, m);
    line[20] = (unsigned char)s->rows;
    line[21] = (unsigned char)s->key;
    line[22] = (unsigned char)s->number;
    line[23] = (unsigned char)s->kind;
    if (s->key == 0)
        p = put_some(p, s->rows > 1 ? b->key[1] - b->key[0] : 0, 8);
    for (unsigned i = 0; s->key && i < s->rows; i++)
        p = put_some(p, b->key[i] - b->key[0], s->key);
    for (unsigned i = 0; i < numbers_of(s); i++)
        p = put_some(p, (marks ? b->mark[i] : b->place[i]) - m, s->number);
    int rc = note_first(b, b->key[0]);
    b->before = b->mark[s->rows - 1];
    b->most = 0;
    b->shape = (struct shape){0, 0, 0, 0};
    return rc ? rc : lladd_dtable_write_cell(b->leaves, line, sizeof line);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    TRY(lladd_dtable_add(base->base, key, value));
    uint64_t place = base->base->place, mark = base->base->mark;
    struct shape s = shape_with(b, key->number, place, mark);
    int rc = 0;
    if (bytes_of(&s) > ROOM || s.rows > ROWS_MAX) {
        rc = write_leaf(b);
        s = shape_with(b, key->number, place, mark);
    }
    if (rc)
        return rc;
    uint64_t less = mark - (b->before & ~UINT64_C(1));
    b->most = b->most > less ? b->most : less;
    b->key[s.rows - 1] = key->number;
    b->place[s.rows - 1] = place;
    b->mark[s.rows - 1] = mark;
    b->shape = s;
    b->n++;
    return 0;
}

/* Footer: u64 rows, u32 levels, u32 bytes of a key in the levels, u64 leaves, u64 0. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_writer *levels;
    unsigned width = width_of(base->order.type);
    unsigned char footer[FOOTER] = {0};
    uint32_t n_levels = 0;
    int rc = b->shape.rows ? write_leaf(b) : 0;
    size_t nodes = b->nodes;
    lladd_put64(footer + 16, nodes);
    if (!rc)
        rc = lladd_dtable_stream(base, "levels", &levels);
    while (!rc && nodes > 0) {
        for (size_t i = 0; i < nodes && !rc; i++) {
            unsigned char key[8];
            lladd_put64(key, b->first[i]);
            rc = lladd_dtable_write(levels, key, width);
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
    lladd_put32(footer + 12, width);
    return rc ? rc : lladd_dtable_footer(base, footer, sizeof footer);
}

static void discard(struct lladd_dtable_builder *base)
{
    lladd_mem_free(base->db, ((struct builder *)base)->first);
}

/* ---- read ------------------------------------------------------------------------------------ */

static uint64_t first_of(const struct reader *r, uint64_t leaf)
{
    return get(r->levels + leaf * r->width, r->width);
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct lladd_dtable_source *levels, *leaves;
    const unsigned char *f = base->footer.data;
    if (base->version < OLDEST)
        return lladd_dtable_corrupt(base, err, "index version 1 is no longer supported");
    TRY(lladd_dtable_source_open(base, "leaves", &leaves, err));
    TRY(lladd_dtable_source_open(base, "levels", &levels, err));
    TRY(lladd_dtable_load(base, levels, &r->levels, err));
    if (base->footer.len != FOOTER || lladd_dtable_source_block(leaves) < LINE)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    r->leaves = lladd_dtable_cells_of(leaves, LINE);
    r->n = lladd_get64(f);
    r->n_levels = lladd_get32(f + 8);
    r->width = width_of(base->order.type);
    uint64_t nodes = lladd_get64(f + 16), size = 0;
    if (r->n_levels > LEVELS_MAX || nodes > r->n || (r->n > 0) != (nodes > 0) ||
        nodes > lladd_dtable_source_blocks(leaves) * r->leaves.per ||
        (nodes + r->leaves.per - 1) / r->leaves.per != lladd_dtable_source_blocks(leaves))
        return lladd_dtable_corrupt(base, err,
                                    "invalid footer: expected the number of leaves of the stream");
    for (uint32_t i = 0; i < r->n_levels; i++) {
        r->at[i] = size;
        r->nodes[i] = nodes;
        size += nodes * r->width;
        nodes = (nodes + FAN - 1) / FAN;
    }
    if (lladd_get32(f + 12) != r->width || size != lladd_dtable_source_size(levels) ||
        (r->n > 0) != (r->n_levels > 0) || (r->n_levels && r->nodes[r->n_levels - 1] > FAN))
        return lladd_dtable_corrupt(base, err,
                                    "invalid footer: expected levels that cover the leaves");
    if (r->n == 0)
        return 0;
    r->low = first_of(r, 0);
    r->high = first_of(r, r->nodes[0] - 1);
    if (r->high > r->low)
        r->slope = (double)(r->nodes[0] - 1) / (double)(r->high - r->low);
    return 0;
}

/* Returns how many of n sorted keys are at most `key`. Compares all of them: there is no branch to
 * mispredict, and the loads of cache lines overlap. */
static inline unsigned up_to(const unsigned char *keys, unsigned width, unsigned n, uint64_t key)
{
    unsigned count = 0;
    if (width == 8)
        for (unsigned i = 0; i < n; i++)
            count += lladd_get64(keys + 8 * i) <= key;
    else
        for (unsigned i = 0; i < n; i++)
            count += lladd_get32(keys + 4 * i) <= (uint32_t)key;
    return count;
}

/* Returns the leaf for a key: the last leaf with a first key not above the key, or leaf 0.
 * Interpolates and searches around the result; if the leaf is not there, walks down the levels. */
static uint64_t leaf_for(const struct reader *r, uint64_t key)
{
    uint64_t leaves = r->nodes[0], node = 0;
    if (key <= r->low || key >= r->high)
        return key <= r->low ? 0 : leaves - 1;
    if (leaves > AROUND) {
        uint64_t guess = (uint64_t)((double)(key - r->low) * r->slope);
        uint64_t from = guess > AROUND / 2 ? guess - AROUND / 2 : 0;
        from = from < leaves - AROUND ? from : leaves - AROUND - 1;
        if (first_of(r, from) <= key && key < first_of(r, from + AROUND))
            return from + up_to(r->levels + from * r->width, r->width, AROUND, key) - 1;
    }
    for (uint32_t level = r->n_levels; level-- > 0;) {
        uint64_t from = node * FAN, left = r->nodes[level] - from;
        unsigned child = up_to(r->levels + r->at[level] + from * r->width, r->width,
                               left < FAN ? (unsigned)left : FAN, key);
        node = from + (child ? child - 1 : 0);
    }
    return node;
}

/* A leaf, decoded. */
struct leaf {
    struct shape shape;
    uint64_t first, place, m, step;
    const unsigned char *keys, *numbers;
};

static int hold(const struct reader *r, uint64_t node, struct lladd_dtable_pin *pin, struct leaf *l,
                struct lladd_error *err)
{
    const unsigned char *p;
    TRY(lladd_dtable_cells_at(pin, 0, &r->leaves, node, &p, err));
    l->shape = (struct shape){p[20], p[21], p[22], p[23]};
    l->first = lladd_get64(p);
    l->place = lladd_get48(p + 8);
    l->m = lladd_get48(p + 14);
    l->step = l->shape.key ? 0 : lladd_get64(p + HEAD);
    l->keys = p + HEAD;
    l->numbers = p + HEAD + (l->shape.key ? l->shape.rows * l->shape.key : 8);
    const struct shape *s = &l->shape;
    bool known =
        s->key == 0 ? s->rows == 1 || l->step > 0 : s->key <= 8 && (s->key & (s->key - 1)) == 0;
    if (!known || s->rows == 0 || s->number > 8 || bytes_of(s) > ROOM || s->kind > MARKS_FOLLOW ||
        (s->kind >= MARKS && !r->base.base->kind->at_mark) ||
        l->place + (s->kind == PLACES ? 1 : s->rows) > r->base.base->places)
        return lladd_dtable_corrupt(&r->base, err, "invalid leaf: expected rows that fit the leaf");
    return 0;
}

static uint64_t key_at(const struct leaf *l, unsigned i)
{
    const unsigned char *p = l->keys + i * l->shape.key;
    switch (l->shape.key) {
    case 0:
        return i * l->step;
    case 1:
        return *p;
    case 2:
        return lladd_get16(p);
    default:
        return get(p, l->shape.key);
    }
}

/* Returns the first row with a key at least `distance` above the leaf's first key, or the number of
 * rows. */
static unsigned row_for(const struct leaf *l, uint64_t distance)
{
    unsigned rows = l->shape.rows, count = 0;
    if (l->shape.key == 0) {
        uint64_t i = l->step > 1 ? distance / l->step + (distance % l->step != 0) : distance;
        i = l->step ? i : distance > 0;
        return i < rows ? (unsigned)i : rows;
    }
    for (unsigned i = 0; i < rows; i++)
        count += key_at(l, i) < distance;
    return count;
}

static uint64_t number_in(const struct leaf *l, unsigned i)
{
    unsigned width = l->shape.number;
    return width ? lladd_get64(l->numbers + i * width) & UINT64_MAX >> (64 - 8 * width) : 0;
}

static uint64_t number_at(const struct leaf *l, unsigned i)
{
    if (l->shape.kind == MARKS_FOLLOW)
        return l->m + (i + UINT64_C(1)) * number_in(l, 0);
    return l->m + number_in(l, i);
}

static int place_at(const struct reader *r, const struct leaf *l, unsigned i, uint64_t *place,
                    struct lladd_error *err)
{
    *place = l->shape.kind == PLACES ? number_at(l, i) : l->place + i;
    return *place < r->base.base->places
               ? 0
               : lladd_dtable_corrupt(&r->base, err, "it has a place that its base does not have");
}

/* Finds the leaf for the key, and the first row in it with a key not below the key. The table must
 * have rows. */
static int search(const struct reader *r, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, uint64_t *node, struct leaf *l, unsigned *i,
                  bool *exact, struct lladd_error *err)
{
    *node = leaf_for(r, key->number);
    TRY(hold(r, *node, pin, l, err));
    uint64_t distance = key->number - l->first;
    *i = key->number < l->first ? 0 : row_for(l, distance);
    *exact = key->number >= l->first && *i < l->shape.rows && key_at(l, *i) == distance;
    return 0;
}

static int find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct leaf l;
    uint64_t node;
    unsigned i;
    *exact = false;
    *place = base->base->places;
    if (r->n == 0)
        return 0;
    int rc = search(r, key, pin, &node, &l, &i, exact, err);
    if (!rc && i < l.shape.rows)
        return place_at(r, &l, i, place, err);
    if (!rc && node + 1 < r->nodes[0]) {
        rc = hold(r, node + 1, pin, &l, err);
        *place = l.place;
    }
    return rc;
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct leaf l;
    uint64_t node, place;
    unsigned i = 0;
    bool exact = false;
    int rc = r->n ? search(r, key, pin, &node, &l, &i, &exact, err) : 0;
    if (rc || !exact)
        return rc;
    rc = place_at(r, &l, i, &place, err);
    if (rc || l.shape.kind < MARKS)
        return rc ? rc : lladd_dtable_at(base->base, place, pin, NULL, out, err);
    uint64_t before = i ? number_at(&l, i - 1) : l.m;
    return base->base->kind->at_mark(base->base, place, before, number_at(&l, i), pin, out, err);
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table that is indexed"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_btree = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "btree_dtable",
    .version = VERSION,
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
    .lookup = lookup,
};
