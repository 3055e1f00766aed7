/* SPDX-License-Identifier: BSD-2-Clause */
/* column_dtable: packed rows stored column by column (Anvil paper, section 3.3).
 *
 * "base" has the keys, with empty values, and the tombstones. Only base decides which rows exist,
 * so columns cannot disagree about that. Word i of "columns" lists the columns of group i, and
 * layer i of "groups" stores them. If the group has one column, the layer has the column's values;
 * otherwise it has packed rows of the group's columns, in the listed order. So each column can be
 * stored by a class that suits it, and can be read without the others.
 *
 * For a tombstone, and for a row without a value in the group, the group's layer gets a tombstone.
 * If the layer cannot store tombstones, it gets no row. The footer has the number of rows in each
 * layer.
 *
 *   COL-1  If base and a group's layer both have all rows, and each has as many places as rows, a
 *          row has the same place in both. Rows of such a layer are read by place, rows of other
 *          layers by key.
 *   COL-2  Before any part of a row is stored, each layer that may reject a value is asked whether
 *          it accepts its part. Thus a rejected row leaves nothing.
 *
 * A layer that took the size of its values from the first value may still reject a later value.
 * Then building the run fails. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

enum { FOOTER = 16 };

/* The parsed words, made by `configure`. */
struct groups {
    uint32_t n, columns; /* columns: highest column number in any group, plus 1 */
    uint32_t *first;     /* n + 1 entries: where a group's columns begin in `column` */
    uint32_t *column;    /* column numbers of all groups, one group after the other */
    uint32_t *group;     /* for each column its group; n: none */
    uint32_t *index;     /* for each column its index in the group */
    struct lladd_dtable_config **asks; /* for each group the layer to ask; NULL: the layer accepts
                                        * all values */
};

struct builder {
    struct lladd_dtable_builder base;
    const struct groups *g;
    uint64_t rows;
    uint64_t *given; /* for each group how many rows its layer has got */
    struct lladd_dtable_builder **layers;
    struct lladd_dtable_value *own; /* room for the values of a group's columns */
    unsigned char *packed;
    size_t cap_packed;
};

struct reader {
    struct lladd_dtable base;
    const struct groups *g;
    bool filtered; /* base's class has `lookup` and no `find`, as filters have: a lookup in base may
                    * answer for absent keys without a search */
    const struct lladd_dtable **layers;
    bool *aligned;
};

static const struct groups *groups_of(const struct lladd_dtable_config *c)
{
    return lladd_dtable_config_state(c);
}

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a column_dtable");
}

/* ---- configured ------------------------------------------------------------------------------ */

/* Reads the next number of a word from *at on. LLADD_END at the end of the word; LLADD_BAD_CONFIG
 * if there is no valid column number. */
static int next_number(struct lladd_span word, size_t *at, uint32_t *out)
{
    const unsigned char *p = word.data;
    uint32_t v = 0;
    size_t digits = 0;
    while (*at < word.len && p[*at] == ' ')
        ++*at;
    if (*at == word.len)
        return LLADD_END;
    for (; *at < word.len && p[*at] != ' '; ++*at, digits++) {
        if (p[*at] < '0' || p[*at] > '9' || digits == 4)
            return LLADD_BAD_CONFIG;
        v = v * 10 + (p[*at] - '0');
    }
    *out = v;
    return v < LLADD_DTABLE_COLUMNS_MAX ? 0 : LLADD_BAD_CONFIG;
}

static struct groups *new_groups(struct lladd_dtable_config *c, size_t n)
{
    size_t numbers = n + 1 + 3 * (size_t)LLADD_DTABLE_COLUMNS_MAX;
    struct groups *g = lladd_mem_alloc(lladd_dtable_config_db(c), sizeof *g + n * sizeof *g->asks +
                                                                  numbers * sizeof(uint32_t));
    if (!g)
        return NULL;
    *g = (struct groups){.n = (uint32_t)n, .asks = (struct lladd_dtable_config **)(g + 1)};
    g->first = (uint32_t *)(g->asks + n);
    g->column = g->first + n + 1;
    g->group = g->column + LLADD_DTABLE_COLUMNS_MAX;
    g->index = g->group + LLADD_DTABLE_COLUMNS_MAX;
    for (uint32_t i = 0; i < LLADD_DTABLE_COLUMNS_MAX; i++)
        g->group[i] = g->n;
    lladd_dtable_config_state_set(c, g);
    return g;
}

static int read_word(struct groups *g, uint32_t group, struct lladd_span word,
                     struct lladd_error *err)
{
    uint32_t column = 0, at = g->first[group];
    size_t pos = 0;
    int rc;
    while ((rc = next_number(word, &pos, &column)) == 0) {
        if (g->group[column] != g->n)
            return lladd_error_set(err, LLADD_BAD_CONFIG,
                                   "column_dtable: column %u is in two groups, or twice in one",
                                   column);
        g->group[column] = group;
        g->index[column] = at - g->first[group];
        g->column[at++] = column;
        g->columns = column >= g->columns ? column + 1 : g->columns;
    }
    g->first[group + 1] = at;
    if (rc != LLADD_END || at == g->first[group])
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "column_dtable: word %u of \"columns\" is not a list of column "
                               "numbers from 0 to %u",
                               group, LLADD_DTABLE_COLUMNS_MAX - 1);
    return 0;
}

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    struct lladd_dtable_config *below;
    struct lladd_dtable_value empty = lladd_dtable_value_of("", 0);
    size_t n = lladd_dtable_param_words(c, "columns");
    if (n == 0 || n > LLADD_DTABLE_COLUMNS_MAX || !lladd_dtable_param_layer(c, "groups", n - 1) ||
        lladd_dtable_param_layer(c, "groups", n))
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "column_dtable: \"groups\" must have as many layers as \"columns\" "
                               "has words, 1 to %u",
                               LLADD_DTABLE_COLUMNS_MAX);
    int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), &empty, err);
    if (rc == LLADD_DTABLE_REJECT || !caps->places)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "column_dtable: its base cannot store empty values, or has no "
                               "places");
    struct groups *g = rc ? NULL : new_groups(c, n);
    if (!g)
        return rc ? rc : no_memory(err);
    g->first[0] = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = read_word(g, i, lladd_dtable_param_word(c, "columns", i), err);
        below = lladd_dtable_param_layer(c, "groups", i);
        const struct lladd_dtable_caps *can = lladd_dtable_caps_get(below);
        bool all = can->all_values && can->value_size == LLADD_DTABLE_ANY_SIZE && can->empty &&
                   !can->learned;
        caps->learned = caps->learned || can->learned;
        g->asks[i] = all ? NULL : below;
        caps->types &= can->types;
    }
    caps->empty = false; /* a packed row is never empty */
    caps->all_values = false;
    caps->value_size = LLADD_DTABLE_ANY_SIZE;
    return rc;
}

/* ---- splitting rows -------------------------------------------------------------------------- */

/* Extracts a group's part of a row: the column's value, or a packed row of several columns. `own`
 * has room for the values of the group's columns. A packed row is written to *packed, which grows
 * as needed. */
static int part_of(struct lladd_db *db, const struct groups *g, uint32_t group,
                   struct lladd_span row, struct lladd_dtable_value *own, unsigned char **packed,
                   size_t *cap, struct lladd_dtable_value *out, struct lladd_error *err)
{
    const uint32_t *columns = g->column + g->first[group];
    uint32_t n = g->first[group + 1] - g->first[group], found = 0;
    size_t size;
    for (uint32_t i = 0; i < n; i++) {
        (void)lladd_dtable_row_column(row, columns[i], &own[i]); /* the row was checked */
        found += own[i].state == LLADD_DTABLE_FOUND;
    }
    *out = own[0];
    if (n == 1)
        return 0;
    out->state = LLADD_DTABLE_ABSENT;
    if (found == 0)
        return 0;
    int rc = lladd_dtable_row_size(own, n, &size, err);
    if (!rc && size > *cap) {
        unsigned char *p = lladd_mem_resize(db, *packed, size * 2);
        if (!p)
            return no_memory(err);
        *packed = p;
        *cap = size * 2;
    }
    if (!rc) {
        lladd_dtable_row_pack(own, n, *packed);
        *out = lladd_dtable_value_of(*packed, size);
    }
    return rc;
}

/* True if `row` is a packed row, and all its values belong to groups. */
static bool fits(const struct groups *g, struct lladd_span row)
{
    struct lladd_dtable_value v;
    size_t n;
    if (!lladd_dtable_row_check(row, &n) || n > g->columns)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (g->group[i] == g->n && lladd_dtable_row_column(row, i, &v) &&
            v.state == LLADD_DTABLE_FOUND)
            return false;
    return true;
}

static int accepts_row(struct lladd_dtable_config *c, struct lladd_span row,
                       struct lladd_dtable_value *own, struct lladd_error *err)
{
    const struct groups *g = groups_of(c);
    struct lladd_db *db = lladd_dtable_config_db(c);
    unsigned char *packed = NULL;
    size_t cap = 0;
    int rc = fits(g, row) ? 0 : LLADD_DTABLE_REJECT;
    for (uint32_t i = 0; i < g->n && !rc; i++) {
        struct lladd_dtable_value v;
        if (!g->asks[i])
            continue;
        rc = part_of(db, g, i, row, own, &packed, &cap, &v, err);
        if (!rc && v.state == LLADD_DTABLE_FOUND)
            rc = lladd_dtable_accepts(g->asks[i], &v, err);
    }
    lladd_mem_free(db, packed);
    return rc;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    struct lladd_db *db = lladd_dtable_config_db(c);
    if (v->state != LLADD_DTABLE_FOUND)
        return lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), v, err);
    struct lladd_dtable_value *own = lladd_mem_alloc(db, groups_of(c)->columns * sizeof *own);
    if (!own)
        return no_memory(err);
    int rc = accepts_row(c, v->bytes, own, err);
    lladd_mem_free(db, own);
    return rc;
}

/* ---- built ----------------------------------------------------------------------------------- */

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    const struct groups *g = groups_of(base->config);
    b->g = g;
    b->given = lladd_mem_alloc(base->db, g->n * sizeof *b->given);
    b->layers = lladd_mem_alloc(base->db, g->n * sizeof *b->layers);
    b->own = lladd_mem_alloc(base->db, g->columns * sizeof *b->own);
    if (!b->given || !b->layers || !b->own)
        return no_memory(base->error);
    memset(b->given, 0, g->n * sizeof *b->given);
    for (uint32_t i = 0; i < g->n; i++)
        b->layers[i] = lladd_dtable_builder_layer(base, "groups", i);
    return 0;
}

static void discard(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    lladd_mem_free(base->db, b->given);
    lladd_mem_free(base->db, b->layers);
    lladd_mem_free(base->db, b->own);
    lladd_mem_free(base->db, b->packed);
}

/* Asks each layer whether it can store its part of the row. The layers settle no numbers now,
 * because the configuration has been checked. */
static int ask_all(struct builder *b, struct lladd_span row)
{
    struct lladd_dtable_config *c = (struct lladd_dtable_config *)(uintptr_t)b->base.config;
    return accepts_row(c, row, b->own, b->base.error);
}

static int add_part(struct builder *b, uint32_t group, const struct lladd_dtable_key *key,
                    const struct lladd_dtable_value *value)
{
    struct lladd_dtable_value part = lladd_dtable_tombstone();
    int rc = 0;
    if (value->state == LLADD_DTABLE_FOUND)
        rc = part_of(b->base.db, b->g, group, value->bytes, b->own, &b->packed, &b->cap_packed,
                     &part, b->base.error);
    if (rc)
        return rc;
    bool none = part.state != LLADD_DTABLE_FOUND;
    if (none)
        part = lladd_dtable_tombstone();
    rc = lladd_dtable_add(b->layers[group], key, &part);
    b->given[group] += rc == 0;
    if (rc != LLADD_DTABLE_REJECT || none)
        return rc == LLADD_DTABLE_REJECT ? 0 : rc;
    return lladd_error_set(b->base.error, LLADD_REJECTED,
                           "column_dtable: group %u rejects a value of %zu bytes; is it of "
                           "a different size than the first?",
                           group, part.bytes.len);
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_value there = lladd_dtable_value_of("", 0);
    bool found = value->state == LLADD_DTABLE_FOUND;
    int rc = found ? ask_all(b, value->bytes) : 0;
    if (!rc)
        rc = lladd_dtable_add(base->base, key, found ? &there : value);
    for (uint32_t i = 0; i < b->g->n && !rc; i++)
        rc = add_part(b, i, key, value);
    b->rows += !rc;
    return rc;
}

/* Footer: u64 rows, u32 groups, u32 0; then u64 rows stored, for each group. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    size_t size = FOOTER + 8 * (size_t)b->g->n;
    unsigned char *footer = lladd_mem_alloc(base->db, size);
    if (!footer)
        return no_memory(base->error);
    lladd_put64(footer, b->rows);
    lladd_put32(footer + 8, b->g->n);
    lladd_put32(footer + 12, 0);
    for (uint32_t i = 0; i < b->g->n; i++)
        lladd_put64(footer + FOOTER + 8 * i, b->given[i]);
    int rc = lladd_dtable_footer(base, footer, size);
    lladd_mem_free(base->db, footer);
    return rc;
}

/* ---- read ------------------------------------------------------------------------------------ */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct groups *g = groups_of(base->config);
    const unsigned char *f = base->footer.data;
    r->g = g;
    if (base->footer.len != FOOTER + 8 * (size_t)g->n || lladd_get32(f + 8) != g->n)
        return lladd_dtable_corrupt(base, err,
                                    "its footer does not have the groups of its configuration");
    uint64_t rows = lladd_get64(f);
    r->layers = lladd_mem_alloc(base->db, g->n * (sizeof *r->layers + sizeof *r->aligned));
    if (!r->layers)
        return no_memory(err);
    r->aligned = (bool *)(r->layers + g->n);
    r->filtered = !base->base->kind->find && base->base->kind->lookup;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct lladd_dtable *t = lladd_dtable_layer(base, "groups", i);
        r->layers[i] = t;
        r->aligned[i] = t->has_places && t->places == rows && base->places == rows &&
                        lladd_get64(f + FOOTER + 8 * i) == rows;
    }
    return 0;
}

static void close(struct lladd_dtable *base)
{
    struct reader *r = (struct reader *)base;
    lladd_mem_free(base->db, r->layers);
}

static int find(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    return lladd_dtable_find(t->base, key, pin, place, exact, err);
}

/* Reads a group's part of the row at a place: FOUND or ABSENT. */
static int part_at(const struct reader *r, uint32_t group, uint64_t place,
                   const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                   struct lladd_dtable_value *out, struct lladd_error *err)
{
    *out = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    int rc = r->aligned[group] ? lladd_dtable_at(r->layers[group], place, pin, NULL, out, err)
                               : lladd_dtable_ask(r->layers[group], key, pin, out, err);
    if (out->state != LLADD_DTABLE_FOUND)
        *out = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    return rc;
}

static int column_of(const struct reader *r, uint32_t column, const struct lladd_dtable_value *part,
                     struct lladd_dtable_value *out, struct lladd_error *err)
{
    const struct groups *g = r->g;
    uint32_t group = g->group[column];
    *out = *part;
    if (part->state != LLADD_DTABLE_FOUND || g->first[group + 1] - g->first[group] == 1)
        return 0;
    if (!lladd_dtable_row_column(part->bytes, g->index[column], out))
        return lladd_dtable_corrupt(&r->base, err, "a group's value is not a packed row");
    return 0;
}

static int assemble(const struct reader *r, uint64_t place, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin *pins, struct lladd_dtable_value *values,
                    struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                    struct lladd_error *err)
{
    const struct groups *g = r->g;
    size_t size;
    int rc = 0;
    for (uint32_t i = 0; i < g->columns; i++)
        values[i].state = LLADD_DTABLE_ABSENT;
    for (uint32_t i = 0; i < g->n && !rc; i++) {
        struct lladd_dtable_value part;
        rc = part_at(r, i, place, key, &pins[i], &part, err);
        for (uint32_t k = g->first[i]; k < g->first[i + 1] && !rc; k++)
            rc = column_of(r, g->column[k], &part, &values[g->column[k]], err);
    }
    if (!rc)
        rc = lladd_dtable_row_size(values, g->columns, &size, err);
    void *room = rc ? NULL : lladd_dtable_room(r->base.db, pin, size);
    if (!rc && !room)
        rc = no_memory(err);
    if (!rc) {
        lladd_dtable_row_pack(values, g->columns, room);
        *out = lladd_dtable_value_of(room, size);
    }
    return rc;
}

static int at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_key own;
    if (!key && value)
        key = &own;
    int rc = lladd_dtable_at(base->base, place, pin, key, value, err);
    if (rc || !value || value->state != LLADD_DTABLE_FOUND)
        return rc;
    size_t pins_size = r->g->n * sizeof(struct lladd_dtable_pin);
    struct lladd_dtable_pin *pins =
        lladd_mem_alloc(base->db, pins_size + r->g->columns * sizeof(struct lladd_dtable_value));
    if (!pins)
        return no_memory(err);
    memset(pins, 0, pins_size);
    rc = assemble(r, place, key, pins, (struct lladd_dtable_value *)(pins + r->g->n), pin, value,
                  err);
    for (uint32_t i = 0; i < r->g->n; i++)
        lladd_dtable_unpin(&pins[i]);
    lladd_mem_free(base->db, pins);
    return rc;
}

/* ---- some columns ---------------------------------------------------------------------------- */

static int columns_of(const struct reader *r, uint64_t place, const struct lladd_dtable_key *key,
                      const struct lladd_dtable_columns *want, struct lladd_error *err)
{
    for (size_t i = 0; i < want->n; i++) {
        uint32_t column = want->numbers[i];
        struct lladd_dtable_value part;
        want->values[i] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
        if (column >= r->g->columns || r->g->group[column] == r->g->n)
            continue;
        TRY(part_at(r, r->g->group[column], place, key, &want->pins[i], &part, err));
        TRY(column_of(r, column, &part, &want->values[i], err));
    }
    return 0;
}

static int columns_at(const struct lladd_dtable *base, uint64_t place,
                      const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                      struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_value there = {.state = LLADD_DTABLE_ABSENT};
    struct lladd_dtable_key key = {.type = base->order.type};
    bool by_key = false;
    for (size_t i = 0; i < want->n && !by_key; i++) {
        uint32_t group = want->numbers[i] < r->g->columns ? r->g->group[want->numbers[i]] : r->g->n;
        by_key = group < r->g->n && !r->aligned[group];
    }
    int rc = lladd_dtable_at(base->base, place, &want->pins[want->n], by_key ? &key : NULL, &there,
                             err);
    *state = there.state;
    if (rc || there.state != LLADD_DTABLE_FOUND)
        return rc;
    return columns_of(r, place, &key, want, err);
}

static int copy_column(const struct lladd_dtable *base, uint32_t column, uint64_t place, size_t n,
                       unsigned char *out, size_t room, size_t *width, size_t *got,
                       struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const struct groups *g = r->g;
    uint32_t group = column < g->columns ? g->group[column] : g->n;
    *width = *got = 0;
    if (group == g->n || !r->aligned[group] || g->first[group + 1] - g->first[group] != 1)
        return 0;
    return lladd_dtable_copy(r->layers[group], place, n, out, room, width, got, err);
}

/* Finds the place of a key. *exact: the key has a row or a tombstone. */
static int locate(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                  struct lladd_error *err)
{
    struct lladd_dtable_value there;
    *exact = false;
    if (((const struct reader *)base)->filtered) {
        int rc = lladd_dtable_ask(base->base, key, pin, &there, err);
        if (rc || there.state == LLADD_DTABLE_ABSENT)
            return rc;
    }
    return find(base, key, pin, place, exact, err);
}

static int lookup_columns(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    uint64_t place = 0;
    bool exact;
    *state = LLADD_DTABLE_ABSENT;
    int rc = locate(base, key, &want->pins[want->n], &place, &exact, err);
    return rc || !exact ? rc : columns_at(base, place, want, state, err);
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    uint64_t place = 0;
    bool exact;
    int rc = locate(base, key, pin, &place, &exact, err);
    return rc || !exact ? rc : at(base, place, pin, NULL, out, err);
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the keys and tombstones"},
    {"columns", LLADD_DTABLE_PARAM_WORDS, true, 0, 0, 0,
     "for each group a word with the numbers of its columns, such as \"0 3\""},
    {"groups", LLADD_DTABLE_PARAM_LAYERS, true, 0, 0, 0, "the tables for the groups' values"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_column = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "column_dtable",
    .version = 1,
    .about = "packed rows, column by column",
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
    .close = close,
    .find = find,
    .at = at,
    .lookup = lookup,
    .columns_at = columns_at,
    .lookup_columns = lookup_columns,
    .copy_column = copy_column,
};
