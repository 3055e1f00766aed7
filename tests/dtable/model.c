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

/* The first row that is not before the key. */
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
    /* Digits, then up to a few letters: keys of one length and prefixes of each other. */
    int len = snprintf((char *)room, 64, "%09llu", (unsigned long long)*number);
    for (uint64_t more = seeded_next(random) % 4; more > 0; more--)
        room[len++] = (unsigned char)('a' + more);
    if (s->type == LLADD_DTABLE_BYTES && *number % 5 == 0)
        room[len++] = 0;
    key->number = 0;
    key->bytes = lladd_span_of(room, (size_t)len);
}

struct lladd_dtable_value shape_value(const struct shape *s, uint64_t *random, unsigned char *room)
{
    static const char *const words[] = {"CA", "NY", "WA", "XX", "_____", "hello hello", "____"};
    uint64_t r = seeded_next(random);
    if (s->tombstones && r % s->tombstones == 0)
        return lladd_dtable_tombstone();
    r = seeded_next(random);
    size_t len = 0;
    switch (r % 8) {
    case 0:
        break;
    case 1: /* a placeholder of a smallint_dtable, as a number */
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
    return lladd_dtable_value(room, len);
}

struct lladd_dtable *rows_run(struct bed *b, struct model *m, const char *config,
                               const struct shape *s, uint64_t seed, lladd_pageno *root)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn = bed_begin(b);
    uint64_t random = seed, number = s->first;
    o.type = s->type;
    o.text = config;
    o.block_bytes = 4096;
    o.name = "model";
    int rc = lladd_dtable_run_begin(txn, &o, &run);
    if (rc == LLADD_BAD_CONFIG) {
        abort_txn(txn);
        return NULL;
    }
    ok(txn, rc);
    for (size_t i = 0; i < s->rows; i++) {
        unsigned char key_room[64], room[64];
        struct lladd_dtable_key key;
        shape_key(s, &random, &number, key_room, &key);
        struct lladd_dtable_value value = shape_value(s, &random, room);
        rc = lladd_dtable_run_add(run, &key, &value);
        if (rc == LLADD_REJECTED)
            continue;
        ok(txn, rc);
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
    unsigned char buf[64];
    size_t len = 99;
    ok_err(&err, lladd_dtable_lookup(t, key, pin, &value, &err));
    if (r)
        same(m, r, NULL, &value);
    else
        ck_assert_int_eq(value.state, LLADD_DTABLE_ABSENT);
    m->compared += !r;
    int rc = lladd_dtable_get(t, key, buf, sizeof buf, &len, &err);
    ck_assert_int_eq(rc, r && r->state == LLADD_DTABLE_FOUND ? 0 : LLADD_NOT_FOUND);
    ck_assert(rc || (len == r->len && memcmp(buf, r->value, len) == 0));
}

/* Keys that are near one: a little less, a little more, longer, shorter. */
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

/* Rows are those of the model that can be seen; `at` is -1 before, and n behind all of them. */
struct walk {
    struct model *m;
    struct lladd_dtable_cursor *c;
    struct lladd_error err;
    bool all;
    long at;
};

static bool seen(const struct walk *w, long i)
{
    return w->all || w->m->rows[i].state == LLADD_DTABLE_FOUND;
}

static void arrive(struct walk *w, long at, int step, int rc)
{
    long n = (long)w->m->n;
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    while (at >= 0 && at < n && !seen(w, at))
        at += step;
    w->at = at;
    w->m->compared++;
    if (at < 0 || at >= n) {
        ck_assert_int_eq(rc, LLADD_END);
        ck_assert_int_eq(lladd_dtable_row(w->c, &key, &value, &w->err), LLADD_BAD_STATE);
        return;
    }
    ok_err(&w->err, rc);
    ok_err(&w->err, lladd_dtable_row(w->c, &key, &value, &w->err));
    same(w->m, &w->m->rows[at], &key, &value);
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

static void check_cursor(struct model *m, const struct lladd_dtable *t, bool all, uint64_t seed,
                         unsigned steps)
{
    struct walk w = {.m = m, .all = all, .at = -1, .err = LLADD_ERROR_INIT};
    long n = (long)m->n;
    ok_err(&w.err, lladd_dtable_cursor_open(t, all ? LLADD_DTABLE_TOMBSTONES : 0, &w.c, &w.err));
    do
        arrive(&w, w.at + 1, 1, lladd_dtable_next(w.c, &w.err));
    while (w.at < n);
    arrive(&w, n, 1, lladd_dtable_next(w.c, &w.err)); /* and stays there */
    do
        arrive(&w, w.at - 1, -1, lladd_dtable_prev(w.c, &w.err));
    while (w.at >= 0);
    arrive(&w, -1, -1, lladd_dtable_prev(w.c, &w.err));
    for (unsigned i = 0; i < steps; i++)
        move(&w, seeded_next(&seed));
    lladd_dtable_cursor_close(w.c);
}

static void check_batches(struct model *m, const struct lladd_dtable *t, size_t max)
{
    struct lladd_dtable_batch batch = {.n = 0};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_dtable_cursor *c;
    size_t at = 0;
    int rc;
    ok_err(&err, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, &err));
    while ((rc = lladd_dtable_next_n(c, max, &batch, &err)) == 0)
        for (size_t i = 0; i < batch.n; i++, at++) {
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
    ck_assert_uint_eq(at, m->n);
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

void rows_check(struct model *m, const struct lladd_dtable *t, uint64_t seed, unsigned steps)
{
    check_lookups(m, t);
    check_cursor(m, t, true, seed, steps);
    check_cursor(m, t, false, seed + 1, steps);
    check_batches(m, t, 1);
    check_batches(m, t, 100);
    check_places(m, t);
}
