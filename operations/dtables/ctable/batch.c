/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading many rows at a time, column by column.
 *
 * If all rows are in one run of a column store, without tombstones or holes, the batch is a
 * sequence of places, beginning with the cursor's place. Each wanted column is then copied from its
 * layer, a block at a time. If the layer's class cannot do that, the column is read place by place.
 * Keys are read only at both ends of the batch, unless the caller wants all keys. In all other
 * cases the cursor reads row by row. */
#include "operations/dtables/ctable/ctable.h"
#include "operations/shared/grow.h"

#include <lladd/dtable_class.h>
#include <lladd/extension.h>

/* A growing buffer of values, with the state and the end of each row's value. */
struct list {
    unsigned char *bytes;
    size_t len, cap, n;
    size_t *ends;
    uint8_t *states;
    bool same; /* all values have the same size, which is not 0 */
};

struct room {
    struct lladd_db *db;
    size_t rows, columns;
    uint64_t *numbers;
    struct lladd_ctable_values *values;
    struct list *lists; /* one per column, then one for the keys */
};

/* ---- lists ----------------------------------------------------------------------------------- */

static int append(struct lladd_db *db, struct list *l, const struct lladd_dtable_value *v)
{
    size_t len = v->state == LLADD_DTABLE_FOUND ? v->bytes.len : 0;
    if (ll_operations__grow(db, &l->bytes, l->len + len, &l->cap, 1))
        return LLADD_NO_MEMORY;
    lladd_copy(l->bytes + l->len, v->bytes.data, len);
    l->len += len;
    l->same = len && (l->n == 0 || l->same) && l->len == (l->n + 1) * len;
    l->states[l->n] = (uint8_t)v->state;
    l->ends[l->n++] = l->len;
    return 0;
}

static void release(struct room *r)
{
    struct lladd_db *db = r->db;
    for (size_t i = 0; r->lists && i < r->columns + 1; i++) {
        lladd_mem_free(db, r->lists[i].bytes);
        lladd_mem_free(db, r->lists[i].ends);
        lladd_mem_free(db, r->lists[i].states);
    }
    lladd_mem_free(db, r->lists);
    lladd_mem_free(db, r->values);
    lladd_mem_free(db, r->numbers);
    lladd_mem_free(db, r);
}

void lladd_ctable_batch_free(struct lladd_ctable_batch *b)
{
    if (b->room_)
        release(b->room_);
    *b = (struct lladd_ctable_batch){.n = 0};
}

static struct room *new_room(struct lladd_db *db, size_t rows, size_t columns)
{
    struct room *r = lladd_mem_alloc(db, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct room){.db = db, .rows = rows, .columns = columns};
    r->numbers = lladd_mem_alloc(db, rows * sizeof *r->numbers);
    r->values = lladd_mem_alloc(db, (columns + 1) * sizeof *r->values);
    r->lists = lladd_mem_alloc(db, (columns + 1) * sizeof *r->lists);
    bool all = r->numbers && r->values && r->lists;
    if (r->lists)
        memset(r->lists, 0, (columns + 1) * sizeof *r->lists);
    for (size_t i = 0; all && i < columns + 1; i++) {
        r->lists[i].ends = lladd_mem_alloc(db, rows * sizeof(size_t));
        r->lists[i].states = lladd_mem_alloc(db, rows);
        all = r->lists[i].ends && r->lists[i].states;
    }
    if (all)
        return r;
    release(r);
    return NULL;
}

static int begin(struct lladd_ctable_cursor *c, size_t max, struct lladd_ctable_batch *b,
                 struct lladd_error *err)
{
    struct lladd_db *db = c->t->db;
    struct room *r = b->room_;
    size_t columns = c->row.all_.n;
    if (max == 0 || max > SIZE_MAX / 64)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a batch of %zu rows", max);
    if (!r || r->db != db || r->rows < max || r->columns < columns) {
        lladd_ctable_batch_free(b);
        r = new_room(db, max, columns);
        if (!r)
            return ll_ctable__no_memory(err);
    }
    *b = (struct lladd_ctable_batch){.room_ = r};
    for (size_t i = 0; i < r->columns + 1; i++)
        r->lists[i].len = r->lists[i].n = 0;
    return 0;
}

/* ---- row by row ------------------------------------------------------------------------------ */

static int keep_key(struct room *r, size_t row, const struct lladd_dtable_key *key)
{
    const struct lladd_dtable_value bytes = lladd_dtable_value_of(key->bytes.data, key->bytes.len);
    r->numbers[row] = key->number;
    return key->type < LLADD_DTABLE_STRING ? 0 : append(r->db, &r->lists[r->columns], &bytes);
}

static int keep_row(struct lladd_ctable_cursor *c, unsigned flags, size_t row, struct room *r,
                    struct lladd_error *err)
{
    const struct lladd_dtable_value *values;
    struct lladd_dtable_key key;
    int rc = lladd_ctable_row_read(c, flags & LLADD_CTABLE_KEYS ? &key : NULL, &values, err);
    if (!rc && flags & LLADD_CTABLE_KEYS && keep_key(r, row, &key))
        rc = ll_ctable__no_memory(err);
    for (size_t i = 0; i < c->row.all_.n && !rc; i++)
        if (append(r->db, &r->lists[i], &values[i]))
            rc = ll_ctable__no_memory(err);
    return rc;
}

/* Reads rows with the cursor, which is at the first row. */
static int by_rows(struct lladd_ctable_cursor *c, size_t max, unsigned flags, struct room *r,
                   size_t *n, struct lladd_error *err)
{
    int rc = 0;
    for (*n = 0; !rc; rc = lladd_ctable_next(c, err)) {
        rc = keep_row(c, flags, *n, r, err);
        *n += !rc;
        if (rc || *n == max)
            return rc;
    }
    return rc == LLADD_END ? lladd_ctable_prev(c, err) : rc; /* goes back to the last row read */
}

/* ---- by places ------------------------------------------------------------------------------- */

struct interval {
    const struct lladd_dtable *t;
    uint64_t first;
    size_t n;
    struct lladd_dtable_pin pin;
};

/* Finds the places of the batch. s->n stays 0 unless all rows of the table are in one run of a
 * column store, and all places of this run are rows with values. */
static int find_interval(struct lladd_ctable_cursor *c, size_t max, struct interval *s,
                        struct lladd_error *err)
{
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_dtable_key key;
    bool exact = false;
    s->t = c->table->kind->only ? c->table->kind->only(c->table) : NULL;
    if (!s->t || !s->t->kind->copy_column || !s->t->kind->columns_at)
        return 0;
    int rc = lladd_dtable_run_info_get(s->t, &info, err);
    if (rc || info.tombstones || info.rows != s->t->places)
        return rc;
    rc = lladd_dtable_row(c->rows, &key, NULL, err);
    if (!rc)
        rc = lladd_dtable_find(s->t, &key, &s->pin, &s->first, &exact, err);
    if (rc || !exact)
        return rc;
    s->n = s->t->places - s->first < max ? (size_t)(s->t->places - s->first) : max;
    return 0;
}

/* Reads a column place by place, because it cannot be copied by blocks. */
static int column_by_places(const struct interval *s, uint32_t column, struct room *r,
                            struct list *l, struct lladd_error *err)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value v;
    const struct lladd_dtable_columns one = {1, &column, &v, pins};
    int rc = 0;
    for (size_t i = 0; i < s->n && !rc; i++) {
        enum lladd_dtable_state state;
        rc = s->t->kind->columns_at(s->t, s->first + i, &one, &state, err);
        if (!rc && state != LLADD_DTABLE_FOUND)
            rc = lladd_dtable_corrupt(s->t, err, "a place without a row");
        if (!rc && append(r->db, l, &v))
            rc = ll_ctable__no_memory(err);
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
    return rc;
}

/* Reads a column. *width becomes the size of the column's values, or 0 if l->ends and l->states
 * describe them. The first copy, of one value, gives the size to allocate. */
static int column(const struct interval *s, uint32_t number, struct room *r, struct list *l,
                  size_t *width, struct lladd_error *err)
{
    const struct lladd_dtable_class *kind = s->t->kind;
    size_t got = 0;
    *width = 0;
    int rc = ll_operations__grow(r->db, &l->bytes, 4096, &l->cap, 1);
    rc = rc ? ll_ctable__no_memory(err)
            : kind->copy_column(s->t, number, s->first, 1, l->bytes, l->cap, width, &got, err);
    if (rc || got == 0 || *width == 0 || s->n > SIZE_MAX / 4 / *width) {
        *width = 0;
        return rc ? rc : column_by_places(s, number, r, l, err);
    }
    if (ll_operations__grow(r->db, &l->bytes, s->n * *width, &l->cap, 1))
        return ll_ctable__no_memory(err);
    rc = kind->copy_column(s->t, number, s->first, s->n, l->bytes, l->cap, width, &got, err);
    if (rc || got == s->n)
        return rc;
    *width = 0;
    return column_by_places(s, number, r, l, err);
}

static int keys_by_places(struct interval *s, struct room *r, struct lladd_error *err)
{
    struct lladd_dtable_key key;
    for (size_t i = 0; i < s->n; i++) {
        TRY(lladd_dtable_at(s->t, s->first + i, &s->pin, &key, NULL, err));
        if (keep_key(r, i, &key))
            return ll_ctable__no_memory(err);
    }
    return 0;
}

static int by_places(struct lladd_ctable_cursor *c, struct interval *s, unsigned flags,
                     struct room *r, struct lladd_error *err)
{
    struct lladd_dtable_key last;
    int rc = flags & LLADD_CTABLE_KEYS ? keys_by_places(s, r, err) : 0;
    for (size_t i = 0; i < c->row.all_.n && !rc; i++)
        rc = column(s, c->columns[i], r, &r->lists[i], &r->values[i].width, err);
    if (rc || s->n == 1)
        return rc;
    rc = lladd_dtable_at(s->t, s->first + s->n - 1, &s->pin, &last, NULL, err);
    return rc ? rc : lladd_ctable_seek(c, &last, err);
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void show(struct lladd_ctable_cursor *c, unsigned flags, size_t n, struct room *r,
                 struct lladd_ctable_batch *b)
{
    bool bytes = c->table->order.type >= LLADD_DTABLE_STRING;
    b->n = n;
    for (size_t i = 0; i < c->row.all_.n; i++) {
        const struct list *l = &r->lists[i];
        size_t width = r->values[i].width ? r->values[i].width : l->same ? l->ends[0] : 0;
        r->values[i] = (struct lladd_ctable_values){
            width, l->bytes, width ? NULL : l->states, width ? NULL : l->ends};
    }
    b->columns = r->values;
    if (!(flags & LLADD_CTABLE_KEYS))
        return;
    b->numbers = bytes ? NULL : r->numbers;
    b->key_bytes = bytes ? r->lists[r->columns].bytes : NULL;
    b->key_ends = bytes ? r->lists[r->columns].ends : NULL;
}

int lladd_ctable_next_n(struct lladd_ctable_cursor *c, size_t max, unsigned flags,
                        struct lladd_ctable_batch *b, struct lladd_error *err)
{
    struct interval s = {.t = NULL};
    size_t n = 0;
    int rc = lladd_check_process(c->t->db, err);
    if (!rc && flags & ~(unsigned)LLADD_CTABLE_KEYS)
        rc = lladd_error_set(err, LLADD_BAD_ARGUMENT, "unknown flags %#x", flags);
    if (!rc)
        rc = begin(c, max, b, err);
    if (!rc)
        rc = lladd_ctable_next(c, err);
    if (!rc)
        rc = find_interval(c, max, &s, err);
    struct room *r = b->room_;
    for (size_t i = 0; !rc && i < c->row.all_.n; i++)
        r->values[i].width = 0;
    if (!rc && s.n) {
        rc = by_places(c, &s, flags, r, err);
        n = s.n;
    } else if (!rc) {
        rc = by_rows(c, max, flags, r, &n, err);
    }
    lladd_dtable_unpin(&s.pin);
    if (!rc)
        show(c, flags, n, r, b);
    return rc;
}
