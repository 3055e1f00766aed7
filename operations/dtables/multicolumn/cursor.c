/* SPDX-License-Identifier: BSD-2-Clause */
/* Cursors. From its first step on, a cursor decodes the columns that it reads in groups of rows: a
 * codec takes nearly as long for one row as for a group. Bytes of keys and of values that are no
 * packed rows are assembled for the whole group. Merges and scans read rows this way. The row of a
 * seek is read alone, because often no other row is read. One thread uses a cursor. */
#include "operations/dtables/multicolumn/read.h"

/* ---- groups ---------------------------------------------------------------------------------- */

static int allocate(struct lladd_db *db, const struct ll_layout *l, struct ll_groups *g,
                    struct lladd_error *err)
{
    size_t heads = l->n * sizeof *g->numbers + (l->n + 2) * sizeof *g->group;
    size_t size = ll_up_to_8(heads) + ((size_t)l->key_size + l->value_size) * LL_GROUP;
    for (uint32_t i = 0; i < l->n; i++)
        size += (size_t)l->column[i].width * LL_GROUP;
    g->memory = lladd_mem_alloc(db, size);
    if (!g->memory)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a multicolumn_dtable");
    memset(g->memory, 0, heads);
    g->numbers = (void *)g->memory;
    g->group = (void *)(g->numbers + l->n);
    unsigned char *next = g->memory + ll_up_to_8(heads);
    for (uint32_t i = 0; i < l->n; i++) {
        g->numbers[i] = next;
        next += (size_t)l->column[i].width * LL_GROUP;
    }
    g->keys = next;
    g->values = next + (size_t)l->key_size * LL_GROUP;
    return 0;
}

uint64_t ll_multicolumn__number(const struct ll_source *s, uint32_t column, uint32_t row)
{
    const struct ll_pages *pages = &s->r->pages;
    struct ll_groups *g = s->groups;
    if (!g)
        return ll_page__number(pages, &s->p, column, row);
    uint32_t group = row / LL_GROUP;
    if (g->group[column] != group + 1) {
        uint32_t n = ll_group_rows(ll_page_rows(&s->p), group);
        ll_page__numbers(pages, &s->p, column, group * LL_GROUP, n, g->numbers[column]);
        g->group[column] = group + 1;
    }
    return ll_number(g->numbers[column], pages->layout->column[column].width, row % LL_GROUP);
}

/* Puts a field of n keys, big-endian, `step` bytes apart. */
static void put_field(const struct ll_column *f, const unsigned char *numbers, uint32_t n,
                      size_t step, unsigned char *to)
{
    for (uint32_t k = 0; f->bytes == 4 && k < n; k++)
        ll_stored_set(to + k * step, 4, __builtin_bswap32((uint32_t)ll_number(numbers, 4, k)));
    for (uint32_t k = 0; f->bytes != 4 && k < n; k++) {
        uint64_t v = ll_number(numbers, f->width, k);
        for (uint32_t i = f->bytes; i > 0; i--, v >>= 8)
            to[k * step + i - 1] = (unsigned char)v;
    }
}

/* Have the keys of the row's group been assembled? Only bytes keys in fields are. */
static inline bool has_keys(const struct ll_multicolumn_cursor *c)
{
    return c->at.groups &&
           c->groups.group[c->at.r->pages.layout->n] == c->row / LL_GROUP + 1;
}

/* Likewise the values? Packed rows never are. */
static inline bool has_values(const struct ll_multicolumn_cursor *c)
{
    return c->at.groups &&
           c->groups.group[c->at.r->pages.layout->n + 1] == c->row / LL_GROUP + 1;
}

static void assemble_keys(struct ll_multicolumn_cursor *c)
{
    const struct ll_layout *l = c->at.r->pages.layout;
    struct ll_groups *g = &c->groups;
    uint32_t group = c->row / LL_GROUP, n = ll_group_rows(c->rows, group);
    for (uint32_t i = 0; i < l->n_key; i++) {
        (void)ll_multicolumn__number(&c->at, i, group * LL_GROUP); /* decodes the group */
        put_field(&l->column[i], g->numbers[i], n, l->key_size, g->keys + l->column[i].at);
    }
    g->group[l->n] = group + 1;
}

static void assemble_values(struct ll_multicolumn_cursor *c)
{
    struct ll_groups *g = &c->groups;
    uint32_t group = c->row / LL_GROUP;
    ll_multicolumn__values(c->at.r, &c->at.p, group * LL_GROUP, ll_group_rows(c->rows, group),
                           g->values);
    g->group[c->at.r->pages.layout->n + 1] = group + 1;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void assembled_key(struct ll_multicolumn_cursor *c)
{
    size_t size = c->at.r->pages.layout->key_size;
    c->key.bytes = lladd_span_of(c->groups.keys + c->row % LL_GROUP * size, size);
}

/* Not inlined, so that a step within a group saves no registers. */
static __attribute__((noinline)) void other_key(const struct lladd_dtable *base,
                                                struct ll_multicolumn_cursor *c)
{
    const struct ll_pages *pages = &c->at.r->pages;
    const struct ll_layout *l = pages->layout;
    enum lladd_dtable_type type = base->order.type;
    uint64_t number[LL_FIELDS_MAX];
    if (!c->at.groups || ll_page_flags(&c->at.p) & LL_PAGE_KEYS) {
        ll_page__key_at(pages, type, &c->at.p, c->row, c->room, &c->key);
        return;
    }
    c->key = (struct lladd_dtable_key){.type = type};
    if (type >= LLADD_DTABLE_STRING) {
        assemble_keys(c);
        assembled_key(c);
        return;
    }
    for (uint32_t i = 0; i < l->n_key; i++)
        number[i] = ll_multicolumn__number(&c->at, i, c->row);
    c->key.number = ll_multicolumn__join_number(l, number);
}

static inline void read_key(const struct lladd_dtable *base, struct ll_multicolumn_cursor *c)
{
    if (has_keys(c))
        assembled_key(c);
    else
        other_key(base, c);
}

/* The cursor has come to another page. */
static void enter(struct ll_multicolumn_cursor *c)
{
    c->rows = ll_page_rows(&c->at.p);
    c->tombstones = ll_page__tombstones(&c->at.r->pages, &c->at.p);
    if (c->groups.memory)
        memset(c->groups.group, 0, (c->at.r->pages.layout->n + 2) * sizeof *c->groups.group);
}

int ll_multicolumn__cursor_seek(const struct lladd_dtable *base, void *cursor,
                                enum lladd_dtable_where where, const struct lladd_dtable_key *key,
                                struct lladd_error *err)
{
    struct ll_multicolumn_cursor *c = cursor;
    uint64_t place = where == LLADD_DTABLE_LAST ? base->places - 1 : 0;
    bool exact = false;
    c->at.r = (const struct ll_multicolumn_reader *)base;
    c->at.groups = NULL;
    if (where == LLADD_DTABLE_NOT_BEFORE || where == LLADD_DTABLE_NOT_AFTER) {
        TRY(ll_multicolumn__find(base, key, &c->pin, &place, &exact, err));
        place -= where == LLADD_DTABLE_NOT_AFTER && !exact; /* before the first: UINT64_MAX */
    }
    if (place >= base->places)
        return LLADD_END;
    TRY(ll_multicolumn__hold(c->at.r, place, &c->pin, &c->page, &c->at.p, &c->row, err));
    enter(c);
    read_key(base, c);
    return 0;
}

int ll_multicolumn__cursor_step(const struct lladd_dtable *base, void *cursor, bool forward,
                                struct lladd_error *err)
{
    struct ll_multicolumn_cursor *c = cursor;
    const struct ll_multicolumn_reader *r = c->at.r;
    if (!c->groups.memory)
        TRY(allocate(base->db, r->pages.layout, &c->groups, err));
    if (forward ? c->row + 1 < c->rows : c->row > 0) {
        c->row += forward ? 1 : UINT32_MAX;
    } else {
        uint64_t page = forward ? c->page + 1 : c->page - 1;
        if (page >= r->n_pages)
            return LLADD_END;
        TRY(ll_multicolumn__page(r, page, &c->pin, &c->at.p, err));
        c->page = page;
        enter(c);
        c->row = forward ? 0 : c->rows - 1;
    }
    c->at.groups = &c->groups;
    read_key(base, c);
    return 0;
}

void ll_multicolumn__cursor_close(const struct lladd_dtable *base, void *cursor)
{
    struct ll_multicolumn_cursor *c = cursor;
    lladd_dtable_unpin(&c->pin);
    lladd_mem_free(base->db, c->groups.memory);
}

/* ---- the row --------------------------------------------------------------------------------- */

static void assembled_value(const struct ll_multicolumn_cursor *c, struct lladd_dtable_value *value)
{
    size_t size = c->at.r->pages.layout->value_size;
    *value = lladd_dtable_value_of(c->groups.values + c->row % LL_GROUP * size, size);
}

/* Likewise not inlined. */
static __attribute__((noinline)) int other_value(struct ll_multicolumn_cursor *c,
                                                 struct lladd_dtable_value *value,
                                                 struct lladd_error *err)
{
    if (!c->at.groups || c->at.r->pages.layout->rows)
        return ll_multicolumn__value(&c->at, c->row, &c->pin, value, err);
    assemble_values(c);
    assembled_value(c, value);
    return 0;
}

int ll_multicolumn__cursor_row(const struct lladd_dtable *base, void *cursor,
                               struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                               struct lladd_error *err)
{
    struct ll_multicolumn_cursor *c = cursor;
    (void)base;
    if (key)
        *key = c->key;
    if (!value)
        return 0;
    if (ll_bit(c->tombstones, c->row)) {
        *value = lladd_dtable_tombstone();
        return 0;
    }
    if (!has_values(c))
        return other_value(c, value, err);
    assembled_value(c, value);
    return 0;
}

int ll_multicolumn__cursor_columns(const struct lladd_dtable *base, void *cursor,
                                   const struct lladd_dtable_columns *want,
                                   enum lladd_dtable_state *state, struct lladd_error *err)
{
    struct ll_multicolumn_cursor *c = cursor;
    struct lladd_dtable_value value;
    if (c->at.r->pages.layout->rows || want->n == 0)
        return ll_multicolumn__columns(&c->at, c->row, want, state, err);
    /* Perhaps the value is a packed row all the same. */
    TRY(ll_multicolumn__cursor_row(base, cursor, NULL, &value, err));
    return lladd_dtable_row_unpack(&value, want, state, err);
}
