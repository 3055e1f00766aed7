/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cTables are compared with a model. Rows are put, changed and deleted; their columns have values,
 * empty values, or none. Meanwhile there are digests, combines and crashes. A transaction with an
 * old snapshot always sees the same rows. A read of some columns returns the same values as a read
 * of all columns.
 */
#include "managed_fixture.h"

#include <lladd/ctable.h>
#include <stdio.h>

enum { KEYS = 24, COLUMNS = 7, LONGEST = 40 };

static const char *const names[COLUMNS] = {"id", "count", "state", "name", "note", "x", "y"};

struct cell {
    bool there;
    size_t len;
    unsigned char bytes[LONGEST];
};
struct row {
    bool there;
    struct cell cells[COLUMNS];
};
struct model {
    struct row rows[KEYS];
};

static struct fixture b;
static struct lladd_ctable *t;
static struct model now, mine; /* `now`: the committed rows; `mine`: the rows as the transaction
                                * sees them */
static struct lladd_txn *txn;
static uint64_t seed;
static bool text_keys;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct lladd_dtable_key key_of(uint32_t k)
{
    static char text[8][16];
    static unsigned turn;
    if (!text_keys)
        return lladd_dtable_u32(100 + k);
    char *to = text[turn++ % 8];
    (void)snprintf(to, sizeof text[0], "key %02u", k);
    return lladd_dtable_string(to);
}

static struct cell cell_of(uint32_t column)
{
    static const char *const states[] = {"CA", "MA", "AK"};
    struct cell c = {.there = draw(5) != 0};
    c.len = column < 2 ? 4 : column == 2 ? 2 : draw(4) == 0 ? 0 : draw(LONGEST);
    if (column == 1 && draw(4) == 0) /* a length that the column's layer rejects */
        c.len = 5;
    for (size_t i = 0; i < c.len; i++)
        c.bytes[i] = (unsigned char)(draw(8) ? draw(4) : draw(256));
    if (column == 2)
        memcpy(c.bytes, states[draw(3)], 2);
    return c;
}

static struct lladd_dtable_value value_of(const struct cell *c)
{
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    return c->there ? lladd_dtable_value_of(c->bytes, c->len) : v;
}

static void begins(void)
{
    if (txn)
        return;
    txn = fixture_begin(&b);
    mine = now;
    struct lladd_dtable_key key = key_of(0);
    struct lladd_ctable_row r = {.n = 0};
    int rc = lladd_ctable_lookup(txn, t, &key, NULL, 0, &r); /* takes the snapshot */
    ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
    lladd_ctable_row_free(&r);
}

static void ends(bool well)
{
    if (!txn)
        return;
    if (well) {
        commit(txn);
        now = mine;
    } else {
        abort_txn(txn);
    }
    txn = NULL;
}

static void puts_row(void)
{
    uint32_t k = draw(KEYS);
    struct row *r = &mine.rows[k];
    struct lladd_dtable_value values[COLUMNS];
    struct lladd_dtable_key key = key_of(k);
    r->there = true;
    for (uint32_t i = 0; i < COLUMNS; i++) {
        r->cells[i] = cell_of(i);
        values[i] = value_of(&r->cells[i]);
    }
    ok(txn, lladd_ctable_put(txn, t, &key, values));
}

static void updates(void)
{
    uint32_t k = draw(KEYS), n = draw(4);
    struct row *r = &mine.rows[k];
    struct lladd_ctable_change changes[4];
    struct cell cells[4];
    struct lladd_dtable_key key = key_of(k);
    if (!r->there)
        memset(r, 0, sizeof *r);
    r->there = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column = draw(COLUMNS);
        cells[i] = cell_of(column);
        r->cells[column] = cells[i];
        changes[i] = (struct lladd_ctable_change){column, value_of(&cells[i])};
    }
    ok(txn, lladd_ctable_update(txn, t, &key, changes, n));
}

static void deletes(void)
{
    uint32_t k = draw(KEYS);
    struct lladd_dtable_key key = key_of(k);
    ok(txn, lladd_ctable_delete(txn, t, &key));
    mine.rows[k].there = false;
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void same(const struct cell *want, const struct lladd_dtable_value *got)
{
    ck_assert_int_eq(got->state, want->there ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT);
    if (!want->there)
        return;
    ck_assert_uint_eq(got->bytes.len, want->len);
    ck_assert(want->len == 0 || !memcmp(got->bytes.data, want->bytes, want->len));
}

static uint32_t some_columns(uint32_t *columns)
{
    uint32_t n = draw(COLUMNS + 1);
    for (uint32_t i = 0; i < n; i++)
        columns[i] = draw(COLUMNS);
    return n;
}

static void looks_up(struct lladd_txn *x, const struct model *m)
{
    struct lladd_ctable_row r = {.n = 0};
    for (uint32_t k = 0; k < KEYS; k++) {
        uint32_t columns[COLUMNS], n = some_columns(columns);
        struct lladd_dtable_key key = key_of(k);
        unsigned char buf[LONGEST];
        size_t len;
        int rc = lladd_ctable_lookup(x, t, &key, columns, n, &r);
        ck_assert_int_eq(rc, m->rows[k].there ? 0 : LLADD_NOT_FOUND);
        ck_assert_uint_eq(r.n, rc ? 0 : n);
        for (uint32_t i = 0; i < r.n; i++)
            same(&m->rows[k].cells[columns[i]], &r.values[i]);
        uint32_t one = draw(COLUMNS);
        const struct cell *cell = &m->rows[k].cells[one];
        rc = lladd_ctable_get(x, t, &key, one, buf, sizeof buf, &len);
        ck_assert_int_eq(rc, m->rows[k].there && cell->there ? 0 : LLADD_NOT_FOUND);
        if (!rc)
            same(cell, &(struct lladd_dtable_value){LLADD_DTABLE_FOUND, {buf, len}});
    }
    lladd_ctable_row_free(&r);
}

/* Checks that the cursor is at row k; if k is KEYS, that there was no row (rc). */
static void shows(struct lladd_ctable_cursor *c, int rc, const struct model *m, uint32_t k,
                  const uint32_t *columns, uint32_t n)
{
    struct lladd_dtable_key key, want = key_of(k < KEYS ? k : 0);
    const struct lladd_dtable_value *values;
    ck_assert_int_eq(rc, k < KEYS ? 0 : LLADD_END);
    if (rc)
        return;
    ck_assert_int_eq(lladd_ctable_row_read(c, &key, &values, &b.err), 0);
    ck_assert_uint_eq(key.number, want.number);
    ck_assert_uint_eq(key.bytes.len, want.bytes.len);
    ck_assert(key.bytes.len == 0 || !memcmp(key.bytes.data, want.bytes.data, key.bytes.len));
    for (uint32_t i = 0; i < n; i++)
        same(&m->rows[k].cells[columns[i]], &values[i]);
}

static uint32_t from(const struct model *m, uint32_t k, bool forward)
{
    while (k < KEYS && !m->rows[k].there)
        k = forward ? k + 1 : k - 1;
    return k < KEYS ? k : KEYS;
}

static void walks(struct lladd_ctable_cursor *c, const struct model *m, const uint32_t *columns,
                  uint32_t n)
{
    uint32_t at = from(m, 0, true), sought = draw(KEYS);
    int rc = lladd_ctable_first(c, &b.err);
    for (;; rc = lladd_ctable_next(c, &b.err), at = from(m, at + 1, true)) {
        shows(c, rc, m, at, columns, n);
        if (rc)
            break;
    }
    at = from(m, KEYS - 1, false);
    for (rc = lladd_ctable_last(c, &b.err);; rc = lladd_ctable_prev(c, &b.err)) {
        shows(c, rc, m, at, columns, n);
        if (rc)
            break;
        at = from(m, at - 1, false);
    }
    struct lladd_dtable_key key = key_of(sought);
    shows(c, lladd_ctable_seek(c, &key, &b.err), m, from(m, sought, true), columns, n);
    key = key_of(sought);
    shows(c, lladd_ctable_seek_for_prev(c, &key, &b.err), m, from(m, sought, false), columns, n);
}

static void batch_shows(const struct lladd_ctable_batch *got, unsigned flags, const struct model *m,
                        const uint32_t *columns, uint32_t n, uint32_t *at)
{
    for (size_t i = 0; i < got->n; i++, *at = from(m, *at + 1, true)) {
        ck_assert_uint_lt(*at, KEYS);
        struct lladd_dtable_key want = key_of(*at);
        ck_assert_int_eq(got->numbers != NULL, flags && !text_keys);
        ck_assert_int_eq(got->key_ends != NULL, flags && text_keys);
        if (got->numbers)
            ck_assert_uint_eq(got->numbers[i], want.number);
        size_t begin = got->key_ends && i ? got->key_ends[i - 1] : 0;
        if (got->key_ends) {
            ck_assert_uint_eq(got->key_ends[i] - begin, want.bytes.len);
            ck_assert_int_eq(memcmp(got->key_bytes + begin, want.bytes.data, want.bytes.len), 0);
        }
        for (uint32_t k = 0; k < n; k++) {
            const struct lladd_ctable_values *v = &got->columns[k];
            struct lladd_dtable_value one =
                lladd_dtable_value_of(v->bytes + i * v->width, v->width);
            if (!v->width) {
                begin = i ? v->ends[i - 1] : 0;
                one = lladd_dtable_value_of(v->bytes + begin, v->ends[i] - begin);
                one.state = (enum lladd_dtable_state)v->states[i];
            }
            same(&m->rows[*at].cells[columns[k]], &one);
        }
    }
}

/* Checks batches of many sizes, and the cursor's position after them. */
static void batches(struct lladd_ctable_cursor *c, const struct model *m, const uint32_t *columns,
                    uint32_t n)
{
    struct lladd_ctable_batch got = {.n = 0};
    uint32_t at = from(m, 0, true);
    unsigned flags = draw(2) ? LLADD_CTABLE_KEYS : 0;
    ck_assert_int_ne(lladd_ctable_first(c, &b.err), LLADD_BAD_STATE);
    (void)lladd_ctable_prev(c, &b.err);
    for (;;) {
        size_t max = 1 + draw(2 * KEYS);
        int rc = lladd_ctable_next_n(c, max, flags, &got, &b.err);
        ck_assert_int_eq(rc, at < KEYS ? 0 : LLADD_END);
        ck_assert_uint_le(got.n, max);
        if (rc)
            break;
        ck_assert_uint_ge(got.n, 1);
        batch_shows(&got, flags, m, columns, n, &at);
        ck_assert(got.n == max || at == KEYS);
        if (draw(3) == 0) {
            shows(c, lladd_ctable_next(c, &b.err), m, at, columns, n);
            at = from(m, at < KEYS ? at + 1 : at, true);
        }
    }
    ck_assert_uint_eq(got.n, 0);
    lladd_ctable_batch_free(&got);
}

static void scans(struct lladd_txn *x, const struct model *m)
{
    uint32_t columns[COLUMNS], n = some_columns(columns);
    struct lladd_ctable_cursor *c;
    ok(x, lladd_ctable_cursor_open(x, t, columns, n, &c));
    walks(c, m, columns, n);
    batches(c, m, columns, n);
    lladd_ctable_cursor_close(c);
}

/* ---- a long reader --------------------------------------------------------------------------- */

static struct {
    struct lladd_txn *txn;
    struct lladd_ctable_cursor *cursor;
    uint32_t columns[COLUMNS], n;
    struct model sees;
} reader;

static void reader_ends(void)
{
    if (!reader.txn)
        return;
    walks(reader.cursor, &reader.sees, reader.columns, reader.n);
    lladd_ctable_cursor_close(reader.cursor);
    commit(reader.txn);
    reader.txn = NULL;
}

static void reader_begins(void)
{
    reader_ends();
    reader.txn = fixture_begin(&b);
    reader.n = some_columns(reader.columns);
    reader.sees = now;
    ok(reader.txn,
       lladd_ctable_cursor_open(reader.txn, t, reader.columns, reader.n, &reader.cursor));
}

/* ---- histories ------------------------------------------------------------------------------- */

static void maintenance(void)
{
    struct lladd_managed *below = lladd_ctable_managed(t);
    bool more;
    switch (draw(4)) {
    case 0:
        ok_db(&b, lladd_managed_combine(below, draw(3), &b.err));
        break;
    case 1:
        ok_db(&b, lladd_managed_maintain(below, &more, &b.err));
        break;
    default:
        ok_db(&b, lladd_managed_digest(below, &b.err));
        break;
    }
}

static void restarts(void)
{
    reader_ends();
    if (draw(2)) {
        if (txn) { /* an open transaction keeps the table from being closed */
            abort_txn(txn);
            txn = NULL;
        }
        ok_db(&b, lladd_ctable_close(t, &b.err));
        fixture_crash(&b);
    } else {
        ends(false);
        ok_db(&b, lladd_ctable_close(t, &b.err));
        fixture_close(&b);
        fixture_open(&b);
    }
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
}

static void takes_back(void)
{
    struct model was = mine;
    lladd_savepoint_id sp;
    ok(txn, lladd_savepoint(txn, &sp));
    puts_row();
    updates();
    deletes();
    if (draw(2)) {
        ok(txn, lladd_rollback_to(txn, sp));
        mine = was;
    }
    ok(txn, lladd_savepoint_release(txn, sp));
}

static void step(void)
{
    uint32_t what = draw(100);
    if (what >= 92)
        maintenance();
    else if (what == 91 && draw(4) == 0)
        restarts();
    else if (what >= 88)
        reader_begins();
    begins();
    if (what < 30)
        puts_row();
    else if (what < 55)
        updates();
    else if (what < 65)
        deletes();
    else if (what < 70)
        takes_back();
    else if (what < 74)
        looks_up(txn, &mine);
    else if (what < 78)
        scans(txn, &mine);
    else if (what < 86)
        ends(draw(5) != 0);
}

/* Gives every key a row. */
static void deletes_none(void)
{
    begins();
    for (uint32_t k = 0; k < KEYS; k++) {
        struct lladd_dtable_key key = key_of(k);
        if (!mine.rows[k].there)
            memset(&mine.rows[k], 0, sizeof mine.rows[k]);
        mine.rows[k].there = true;
        ok(txn, lladd_ctable_update(txn, t, &key, NULL, 0));
    }
    ends(true);
}

static void history(uint64_t number, struct lladd_ctable_options *o)
{
    seed = number;
    memset(&now, 0, sizeof now);
    txn = NULL;
    text_keys = o->managed.type == LLADD_DTABLE_STRING;
    managed_init(&b);
    fixture_open(&b);
    o->columns = names;
    o->n_columns = COLUMNS;
    struct lladd_txn *first = fixture_begin(&b);
    ok(first, lladd_ctable_create(first, "rows", o));
    commit(first);
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
    for (int i = 0; i < 600; i++)
        step();
    ends(true);
    reader_ends();
    begins();
    looks_up(txn, &mine);
    scans(txn, &mine);
    ends(true);
    if (number % 2)
        deletes_none();
    ok_db(&b, lladd_managed_digest(lladd_ctable_managed(t), &b.err));
    ok_db(&b, lladd_managed_combine(lladd_ctable_managed(t), 0, &b.err));
    begins();
    for (int i = 0; i < 5; i++)
        scans(txn, &mine);
    ends(true);
    ok_db(&b, lladd_ctable_close(t, &b.err));
    fixture_free(&b);
}

START_TEST(row_store)
{
    static const char bloom[] =
        "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    for (uint64_t i = 0; i < 12; i++) {
        struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
        o.managed.type = i % 2 ? LLADD_DTABLE_STRING : LLADD_DTABLE_U32;
        o.managed.config = i % 3 ? NULL : bloom;
        o.managed.every = 2;
        history(i, &o);
    }
}
END_TEST

#define EXCEPTION(base, reject) \
    "class(dt) exception_dtable config [ \"base\" " base " \"alt\" class(dt) linear_dtable " \
    "\"reject_value\" " reject " ]"
#define ARRAY_4 "class(dt) array_dtable \"base_config\" config [ \"value_size\" int 4 ]"
#define FIXED_4 "class(dt) fixed_dtable \"base_config\" config [ \"value_size\" int 4 ]"

static const char *const id[] = {"id"}, *const count[] = {"count"}, *const state[] = {"state"},
                         *const rest[] = {"x", "name", "y"};
static const struct lladd_ctable_group of_numbers[] = {
    {id, 1, "class(dt) array_dtable config [ \"value_size\" int 4 ]"},
    {count, 1, EXCEPTION(ARRAY_4, "blob ffffffff")},
    {state, 1,
     EXCEPTION("class(dt) usstate_dtable \"base_config\" config [ \"base\" class(dt) "
               "array_dtable \"base_config\" config [ \"value_size\" int 1 ] "
               "\"passthrough_value\" blob ff ]",
               "blob ff")},
    {rest, 3, NULL},
};
static const struct lladd_ctable_group of_texts[] = {
    {id, 1, "class(dt) fixed_dtable config [ \"value_size\" int 4 ]"},
    {count, 1, EXCEPTION(FIXED_4, "blob 00000000")},
    {rest, 3, "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]"},
};

/* Column stores in which digests store columns, and column stores in which only combines do. The
 * keys are in layers of three kinds. */
START_TEST(column_store)
{
    for (uint64_t i = 0; i < 24; i++) {
        struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
        bool texts = i % 2;
        o.managed.type = texts ? LLADD_DTABLE_STRING : LLADD_DTABLE_U32;
        o.managed.config = i % 4 < 2 ? "class(dt) linear_dtable" : NULL;
        o.managed.every = 2;
        o.groups = texts ? of_texts : of_numbers;
        o.n_groups = texts ? 3 : 4;
        if (i % 3 == 1)
            o.keys = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
        if (i % 3 == 2 && !texts)
            o.keys = "class(dt) array_dtable";
        history(100 + i, &o);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cTables and their model");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, row_store);
    tcase_add_test(tc, column_store);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
