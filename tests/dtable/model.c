/* SPDX-License-Identifier: BSD-2-Clause */
/* See model.h. */
#include "model.h"

#include <lladd/bytes.h>
#include <stdio.h>

/* ---- rows ------------------------------------------------------------------------------------ */

void rows_init(struct model *m, enum lladd_dtable_type type)
{
    *m = (struct model){.type = type, .order = {type, NULL}};
}

void rows_free(struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->rows[i].key_bytes);
        free(m->rows[i].value);
    }
    free(m->rows);
}

static struct model_row row_of(const struct lladd_dtable_key *key,
                               const struct lladd_dtable_value *value)
{
    struct model_row r = {.key = *key, .state = value->state};
    r.key_bytes = malloc(key->bytes.len + 1);
    r.len = value->state == LLADD_DTABLE_FOUND ? value->bytes.len : 0;
    r.value = malloc(r.len + 1);
    ck_assert(r.key_bytes && r.value);
    if (key->bytes.len)
        memcpy(r.key_bytes, key->bytes.data, key->bytes.len);
    if (r.len)
        memcpy(r.value, value->bytes.data, r.len);
    r.key.bytes.data = r.key_bytes;
    return r;
}

void rows_add(struct model *m, const struct lladd_dtable_key *key,
              const struct lladd_dtable_value *value)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 64;
        m->rows = realloc(m->rows, m->cap * sizeof *m->rows);
        ck_assert_ptr_nonnull(m->rows);
    }
    m->rows[m->n++] = row_of(key, value);
}

void rows_copy(struct model *m, const struct model *of)
{
    rows_init(m, of->type);
    m->order = of->order;
    m->packed = of->packed;
    m->vague = of->vague;
    for (size_t i = 0; i < of->n; i++) {
        const struct model_row *r = &of->rows[i];
        struct lladd_dtable_value v = {r->state, {r->value, r->len}};
        rows_add(m, &r->key, &v);
    }
}

/* Returns the index of the first row that is not before the key. */
static size_t not_before(const struct model *m, const struct lladd_dtable_key *key)
{
    size_t i = 0;
    while (i < m->n && lladd_dtable_compare(&m->order, &m->rows[i].key, key) < 0)
        i++;
    return i;
}

void rows_put(struct model *m, const struct lladd_dtable_key *key,
              const struct lladd_dtable_value *value)
{
    size_t i = not_before(m, key);
    if (i < m->n && lladd_dtable_compare(&m->order, &m->rows[i].key, key) == 0) {
        free(m->rows[i].key_bytes);
        free(m->rows[i].value);
        memmove(m->rows + i, m->rows + i + 1, (m->n - i - 1) * sizeof *m->rows);
        m->n--;
    }
    if (value->state == LLADD_DTABLE_ABSENT)
        return;
    rows_add(m, key, value);
    struct model_row r = m->rows[m->n - 1];
    memmove(m->rows + i + 1, m->rows + i, (m->n - 1 - i) * sizeof *m->rows);
    m->rows[i] = r;
}

const struct model_row *rows_find(const struct model *m, const struct lladd_dtable_key *key)
{
    size_t i = not_before(m, key);
    bool there = i < m->n && lladd_dtable_compare(&m->order, &m->rows[i].key, key) == 0;
    return there ? &m->rows[i] : NULL;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

void shape_key(const struct shape *s, uint64_t *random, uint64_t *number, unsigned char *room,
               struct lladd_dtable_key *key)
{
    *number += 1 + seeded_next(random) % s->gap;
    *key = (struct lladd_dtable_key){.type = s->type, .number = *number};
    if (s->type == LLADD_DTABLE_DOUBLE)
        *key = lladd_dtable_double((double)*number / 8 - 40);
    if (s->type < LLADD_DTABLE_STRING)
        return;
    /* Nine digits, then up to three letters: keys of several lengths that begin alike. */
    int len = snprintf((char *)room, 64, "%09llu", (unsigned long long)*number);
    for (uint64_t more = seeded_next(random) % 4; more > 0; more--)
        room[len++] = (unsigned char)('a' + more);
    if (s->type == LLADD_DTABLE_BYTES && *number % 5 == 0)
        room[len++] = 0;
    key->number = 0;
    key->bytes = lladd_span_of(room, (size_t)len);
}

/* Returns a value with its bytes in `room` (64 bytes). */
static struct lladd_dtable_value plain_value(uint64_t *random, unsigned char *room)
{
    static const char *const words[] = {"CA", "NY", "WA", "XX", "_____", "hello hello", "____"};
    uint64_t r = seeded_next(random);
    size_t len = 0;
    switch (r % 8) {
    case 0:
        break;
    case 1: /* the placeholder above a smallint_dtable (compose.c) */
        lladd_put32(room, 255);
        len = 4;
        break;
    case 2:
    case 3:
        lladd_put32(room, (uint32_t)(r >> 8) >> ((r >> 40) % 4 * 8));
        len = 4;
        break;
    case 4:
        len = strlen(words[(r >> 8) % 7]);
        memcpy(room, words[(r >> 8) % 7], len);
        break;
    case 5:
        memcpy(room, "aoife", len = 5);
        room[4] = (unsigned char)(r >> 8);
        break;
    case 6:
        room[0] = (unsigned char)(r >> 8);
        len = 1;
        break;
    default:
        len = (r >> 8) % 41;
        seeded_fill(r, room, len);
    }
    return lladd_dtable_value_of(room, len);
}

/* Some columns have no value. One row in 16 has a value in the last column. */
static struct lladd_dtable_value packed_value(uint64_t *random, unsigned char *room)
{
    enum { COLUMNS = 4 };
    struct lladd_dtable_value columns[COLUMNS];
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char rooms[COLUMNS][64];
    size_t size = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        uint64_t r = seeded_next(random);
        columns[i] = plain_value(random, rooms[i]);
        if (i == COLUMNS - 1 ? r % 16 != 0 : r % 5 == 0)
            columns[i].state = LLADD_DTABLE_ABSENT;
    }
    if (columns[COLUMNS - 1].state == LLADD_DTABLE_FOUND) /* a short value, so that the row fits the
                                                           * room */
        columns[COLUMNS - 1].bytes.len %= 5;
    ok_err(&err, lladd_dtable_row_size(columns, COLUMNS, &size, &err));
    ck_assert_uint_le(size, SHAPE_ROOM);
    lladd_dtable_row_pack(columns, COLUMNS, room);
    return lladd_dtable_value_of(room, size);
}

struct lladd_dtable_value shape_value(const struct shape *s, uint64_t *random, unsigned char *room)
{
    uint64_t r = seeded_next(random);
    if (s->tombstones && r % s->tombstones == 0)
        return lladd_dtable_tombstone();
    return s->packed ? packed_value(random, room) : plain_value(random, room);
}

struct lladd_dtable *rows_run(struct fixture *b, struct model *m, const char *config,
                              const struct shape *s, uint64_t seed, lladd_pageno *root)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn = fixture_begin(b);
    uint64_t random = seed, number = s->first;
    o.type = s->type;
    o.text = config;
    o.block_bytes = 4096;
    o.name = "model";
    m->packed = s->packed;
    int rc = lladd_dtable_run_begin(txn, &o, &run);
    if (rc == LLADD_BAD_CONFIG) {
        abort_txn(txn);
        return NULL;
    }
    ok(txn, rc);
    for (size_t i = 0; i < s->rows; i++) {
        unsigned char key_room[64], room[SHAPE_ROOM];
        struct lladd_dtable_key key;
        shape_key(s, &random, &number, key_room, &key);
        struct lladd_dtable_value value = shape_value(s, &random, room);
        rc = lladd_dtable_run_add(run, &key, &value);
        if (rc == LLADD_REJECTED)
            continue;
        ck_assert_msg(rc == 0, "%s: %s", config, lladd_txn_error(txn)->message);
        rows_add(m, &key, &value);
    }
    ok(txn, lladd_dtable_run_finish(run, root));
    commit(txn);
    struct lladd_dtable *t;
    ok_db(b, lladd_dtable_run_open(b->db, *root, &t, &b->err));
    return t;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void same(struct model *m, const struct model_row *r, const struct lladd_dtable_key *key,
                 const struct lladd_dtable_value *value)
{
    m->compared++;
    if (key) {
        ck_assert_int_eq((int)key->type, (int)m->type);
        ck_assert_int_eq(lladd_dtable_compare(&m->order, key, &r->key), 0);
    }
    ck_assert_int_eq((int)value->state, (int)r->state);
    if (r->state != LLADD_DTABLE_FOUND)
        return;
    ck_assert_uint_eq(value->bytes.len, r->len);
    ck_assert(r->len == 0 || memcmp(value->bytes.data, r->value, r->len) == 0);
}

static void check_lookup(struct model *m, const struct lladd_dtable *t,
                         const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_value value;
    const struct model_row *r = rows_find(m, key);
    unsigned char buf[SHAPE_ROOM];
    size_t len = 99;
    ok_err(&err, lladd_dtable_lookup(t, key, pin, &value, &err));
    if (r)
        same(m, r, NULL, &value);
    else if (m->vague)
        ck_assert_int_ne(value.state, LLADD_DTABLE_FOUND);
    else
        ck_assert_int_eq(value.state, LLADD_DTABLE_ABSENT);
    m->compared += !r;
    int rc = lladd_dtable_get(t, key, buf, sizeof buf, &len, &err);
    ck_assert_int_eq(rc, r && r->state == LLADD_DTABLE_FOUND ? 0 : LLADD_NOT_FOUND);
    ck_assert(rc || (len == r->len && memcmp(buf, r->value, len) == 0));
}

/* Returns a key that is close to the given one: the same key, or one that is a little less, a
 * little more, longer, or shorter. */
static struct lladd_dtable_key near_key(const struct lladd_dtable_key *key, int how,
                                        unsigned char room[64])
{
    struct lladd_dtable_key k = *key;
    uint64_t max = k.type == LLADD_DTABLE_U32 ? UINT32_MAX : UINT64_MAX;
    if (k.type == LLADD_DTABLE_DOUBLE)
        return lladd_dtable_double(lladd_dtable_as_double(key) + (how - 2) * 0.0625);
    if (k.type < LLADD_DTABLE_STRING) {
        k.number += k.number < 2 && how < 2 ? 0 : (uint64_t)(how - 2);
        k.number = k.number > max ? max : k.number;
        return k;
    }
    memcpy(room, key->bytes.data, key->bytes.len);
    k.bytes.data = room;
    if (how == 1 && k.bytes.len)
        k.bytes.len--;
    if (how == 3)
        room[k.bytes.len++] = 'a';
    if (how == 4 && k.bytes.len)
        room[k.bytes.len / 2]++;
    return k;
}

static void check_lookups(struct model *m, const struct lladd_dtable *t)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    for (size_t i = 0; i < m->n; i++)
        for (int how = 0; how < 5; how++) {
            unsigned char room[64];
            struct lladd_dtable_key key = near_key(&m->rows[i].key, how, room);
            check_lookup(m, t, &key, &pin);
        }
    struct lladd_dtable_key none = {.type = m->type};
    if (m->type == LLADD_DTABLE_DOUBLE)
        none = lladd_dtable_double(-1e300);
    check_lookup(m, t, &none, &pin);
    none = m->type == LLADD_DTABLE_U32      ? lladd_dtable_u32(UINT32_MAX)
           : m->type == LLADD_DTABLE_U64    ? lladd_dtable_u64(UINT64_MAX)
           : m->type == LLADD_DTABLE_DOUBLE ? lladd_dtable_double(1e300)
                                            : lladd_dtable_string("~~~");
    none.type = m->type;
    check_lookup(m, t, &none, &pin);
    lladd_dtable_unpin(&pin);
}

/* True if the cursor must show row i. */
static bool seen(const struct walk *w, long i)
{
    return w->all || w->m->rows[i].state == LLADD_DTABLE_FOUND;
}

static void come_to(struct walk *w, long at, int step, int rc)
{
    long n = (long)w->m->n;
    while (at >= 0 && at < n && !seen(w, at))
        at += step;
    w->at = at;
    if (at < 0 || at >= n)
        ck_assert_int_eq(rc, LLADD_END);
    else
        ok_err(&w->err, rc);
}

static void look(struct walk *w)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    w->m->compared++;
    if (w->at < 0 || w->at >= (long)w->m->n) {
        ck_assert_int_eq(lladd_dtable_row(w->c, &key, &value, &w->err), LLADD_BAD_STATE);
        return;
    }
    ok_err(&w->err, lladd_dtable_row(w->c, &key, &value, &w->err));
    same(w->m, &w->m->rows[w->at], &key, &value);
}

static void arrive(struct walk *w, long at, int step, int rc)
{
    come_to(w, at, step, rc);
    look(w);
}

static void move(struct walk *w, uint64_t r)
{
    long n = (long)w->m->n;
    unsigned char room[64];
    struct lladd_dtable_key key = {.type = w->m->type, .number = (uint64_t)1 << 63};
    key.number = key.type == LLADD_DTABLE_U32 ? 5 : key.number;
    if (n)
        key = near_key(&w->m->rows[(r >> 16) % (uint64_t)n].key, (int)(r >> 8) % 5, room);
    size_t i = not_before(w->m, &key);
    bool exact = i < w->m->n && lladd_dtable_compare(&w->m->order, &w->m->rows[i].key, &key) == 0;
    switch (r % 16) {
    case 0:
        arrive(w, 0, 1, lladd_dtable_first(w->c, &w->err));
        break;
    case 1:
        arrive(w, n - 1, -1, lladd_dtable_last(w->c, &w->err));
        break;
    case 2:
    case 3:
        arrive(w, (long)i, 1, lladd_dtable_seek(w->c, &key, &w->err));
        break;
    case 4:
    case 5:
        arrive(w, exact ? (long)i : (long)i - 1, -1,
               lladd_dtable_seek_for_prev(w->c, &key, &w->err));
        break;
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        arrive(w, w->at < n ? w->at + 1 : n, 1, lladd_dtable_next(w->c, &w->err));
        break;
    default:
        arrive(w, w->at >= 0 ? w->at - 1 : -1, -1, lladd_dtable_prev(w->c, &w->err));
    }
}

/* Moves the cursor by many or few rows, and mostly changes the direction each time. Not every
 * passed row is checked. */
static void go_far(struct walk *w, uint64_t *random, unsigned ways)
{
    long n = (long)w->m->n;
    bool forward = true;
    for (unsigned i = 0; i < ways; i++) {
        uint64_t r = seeded_next(random);
        unsigned steps = (unsigned)(r >> 8) % (r % 3 ? 150 : 8), looks = 1 + (unsigned)(r >> 4) % 4;
        forward = r >> 40 & 3 ? !forward : forward;
        for (unsigned k = 0; k < steps; k++) {
            if (forward)
                come_to(w, w->at < n ? w->at + 1 : n, 1, lladd_dtable_next(w->c, &w->err));
            else
                come_to(w, w->at >= 0 ? w->at - 1 : -1, -1, lladd_dtable_prev(w->c, &w->err));
            if (k % looks == 0)
                look(w);
        }
        if (r >> 42 & 1)
            move(w, seeded_next(random));
    }
}

static void check_cursor(struct model *m, const struct lladd_dtable *t, bool all, uint64_t seed,
                         unsigned steps)
{
    struct walk w = {.m = m, .all = all, .at = -1, .err = LLADD_ERROR_INIT};
    long n = (long)m->n;
    ok_err(&w.err, lladd_dtable_cursor_open(t, all ? LLADD_DTABLE_TOMBSTONES : 0, &w.c, &w.err));
    do
        arrive(&w, w.at + 1, 1, lladd_dtable_next(w.c, &w.err));
    while (w.at < n);
    arrive(&w, n, 1, lladd_dtable_next(w.c, &w.err)); /* the cursor stays after the last row */
    do
        arrive(&w, w.at - 1, -1, lladd_dtable_prev(w.c, &w.err));
    while (w.at >= 0);
    arrive(&w, -1, -1, lladd_dtable_prev(w.c, &w.err));
    walk_moves(&w, &seed, steps);
    go_far(&w, &seed, steps / 20);
    walk_close(&w);
}

void walk_open(struct walk *w, struct model *m, const struct lladd_dtable *t)
{
    *w = (struct walk){.m = m, .at = -1, .err = LLADD_ERROR_INIT};
    ok_err(&w->err, lladd_dtable_cursor_open(t, 0, &w->c, &w->err));
}

void walk_moves(struct walk *w, uint64_t *random, unsigned moves)
{
    for (unsigned i = 0; i < moves; i++)
        move(w, seeded_next(random));
}

void walk_close(struct walk *w)
{
    lladd_dtable_cursor_close(w->c);
    w->c = NULL;
}

/* Returns the index of the first row with a value, from i on. */
static size_t next_found(const struct model *m, size_t i)
{
    while (i < m->n && m->rows[i].state != LLADD_DTABLE_FOUND)
        i++;
    return i;
}

static void check_batches(struct model *m, const struct lladd_dtable *t, bool all, size_t max)
{
    struct lladd_dtable_batch batch = {.n = 0};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_cursor *c;
    size_t at = 0;
    int rc;
    ok_err(&err, lladd_dtable_cursor_open(t, all ? LLADD_DTABLE_TOMBSTONES : 0, &c, &err));
    while ((rc = lladd_dtable_next_n(c, max, &batch, &err)) == 0)
        for (size_t i = 0; i < batch.n; i++, at++) {
            at = all ? at : next_found(m, at);
            struct lladd_dtable_value v = {
                (enum lladd_dtable_state)batch.states[i],
                {batch.bytes + batch.value_begin[i], batch.value_end[i] - batch.value_begin[i]}};
            struct lladd_dtable_key k = {
                m->type,
                batch.numbers[i],
                {batch.bytes + batch.key_begin[i], batch.key_end[i] - batch.key_begin[i]}};
            ck_assert_uint_lt(at, m->n);
            same(m, &m->rows[at], &k, &v);
        }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(all ? at : next_found(m, at), m->n);
    lladd_dtable_batch_free(&batch);
    lladd_dtable_cursor_close(c);
}

static void check_places(struct model *m, const struct lladd_dtable *t)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t n;
    size_t at = 0;
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    if (!lladd_dtable_places(t, &n)) {
        ck_assert_int_eq(lladd_dtable_at(t, 0, &pin, &key, &value, &err), LLADD_BAD_STATE);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        ok_err(&err, lladd_dtable_at(t, i, &pin, &key, &value, &err));
        if (value.state != LLADD_DTABLE_ABSENT) {
            ck_assert_uint_lt(at, m->n);
            same(m, &m->rows[at++], &key, &value);
        }
    }
    ck_assert_uint_eq(at, m->n);
    ck_assert_int_eq(lladd_dtable_at(t, n, &pin, &key, &value, &err), LLADD_OUT_OF_RANGE);
    lladd_dtable_unpin(&pin);
}

/* ---- columns --------------------------------------------------------------------------------- */

enum { ASKED = 5 };
static const uint32_t asked[ASKED] = {2, 0, 3, 0, 900};

static void same_columns(struct model *m, const struct model_row *r, enum lladd_dtable_state state,
                         const struct lladd_dtable_value *values)
{
    m->compared++;
    ck_assert_int_eq((int)state, (int)r->state);
    for (size_t i = 0; i < ASKED && r->state == LLADD_DTABLE_FOUND; i++) {
        struct lladd_dtable_value want;
        ck_assert(lladd_dtable_row_column(lladd_span_of(r->value, r->len), asked[i], &want));
        ck_assert_int_eq((int)values[i].state, (int)want.state);
        if (want.state != LLADD_DTABLE_FOUND)
            continue;
        ck_assert_uint_eq(values[i].bytes.len, want.bytes.len);
        ck_assert(want.bytes.len == 0 ||
                  memcmp(values[i].bytes.data, want.bytes.data, want.bytes.len) == 0);
    }
}

/* Checks some columns of every row, by its key and by a cursor. */
static void check_columns(struct model *m, const struct lladd_dtable *t)
{
    struct lladd_dtable_value values[ASKED];
    struct lladd_dtable_pin pins[ASKED + 1];
    struct lladd_dtable_columns columns = {ASKED, asked, values, pins};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_cursor *c;
    enum lladd_dtable_state state;
    memset(pins, 0, sizeof pins);
    ok_err(&err, lladd_dtable_cursor_open(t, 0, &c, &err));
    for (size_t i = next_found(m, 0); i < m->n; i = next_found(m, i + 1)) {
        ok_err(&err, lladd_dtable_lookup_columns(t, &m->rows[i].key, &columns, &state, &err));
        same_columns(m, &m->rows[i], state, values);
        ok_err(&err, lladd_dtable_next(c, &err));
        ok_err(&err, lladd_dtable_row_columns(c, &columns, &state, &err));
        same_columns(m, &m->rows[i], state, values);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &err), LLADD_END);
    lladd_dtable_cursor_close(c);
    for (size_t i = 0; i <= ASKED; i++)
        lladd_dtable_unpin(&pins[i]);
}

/* ---- whole tables ---------------------------------------------------------------------------- */

static uint64_t found(const struct model *m)
{
    uint64_t n = 0;
    for (size_t i = next_found(m, 0); i < m->n; i = next_found(m, i + 1))
        n++;
    return n;
}

/* Returns the minimum number of comparisons that the checks of a cursor and of batches make, for a
 * table of `rows` rows and `steps` random moves. */
static uint64_t walked(uint64_t rows, unsigned steps)
{
    return 2 * (2 * rows + 2) + steps + 2 * rows;
}

void rows_check_found(struct model *m, const struct lladd_dtable *t, uint64_t seed, unsigned steps)
{
    uint64_t before = m->compared, n = found(m);
    check_lookups(m, t);
    check_cursor(m, t, false, seed + 1, steps);
    check_batches(m, t, false, 1);
    check_batches(m, t, false, 100);
    if (m->packed)
        check_columns(m, t);
    ck_assert_uint_ge(m->compared - before,
                      5 * m->n + 2 + walked(n, steps) + (m->packed ? 2 * n : 0));
}

void rows_check(struct model *m, const struct lladd_dtable *t, uint64_t seed, unsigned steps)
{
    uint64_t before;
    rows_check_found(m, t, seed, steps);
    before = m->compared;
    check_cursor(m, t, true, seed, steps);
    check_batches(m, t, true, 1);
    check_batches(m, t, true, 100);
    ck_assert_uint_ge(m->compared - before, walked(m->n, steps));
    check_places(m, t);
}
