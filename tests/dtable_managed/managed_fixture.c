/* SPDX-License-Identifier: BSD-2-Clause */
/* See managed_fixture.h. */
#include "managed_fixture.h"

#include <lladd/hash.h>
#include <lladd/pages.h>
#include <stdio.h>

void managed_init(struct fixture *b)
{
    fixture_init(b, 4096);
    ok_db(b, lladd_managed_register(&b->options, &b->err));
}

struct lladd_managed *managed_open(struct fixture *b, const char *name)
{
    struct lladd_managed *t = NULL;
    ok_db(b, lladd_managed_open(b->db, name, &t, &b->err));
    return t;
}

struct lladd_managed *managed_table(struct fixture *b, const char *name,
                                    struct lladd_managed_options *o)
{
    struct lladd_managed_options plain = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *txn = fixture_begin(b);
    o = o ? o : &plain;
    if (!o->type)
        o->type = LLADD_DTABLE_U32;
    ok(txn, lladd_managed_create(txn, name, o));
    commit(txn);
    return managed_open(b, name);
}

void managed_close(struct fixture *b, struct lladd_managed *t)
{
    ok_db(b, lladd_managed_close(t, &b->err));
}

int managed_try(struct lladd_txn *txn, struct lladd_managed *t, uint32_t number, const char *text)
{
    struct lladd_dtable_key key = lladd_dtable_u32(number);
    struct lladd_dtable_value v =
        text ? lladd_dtable_value_of(text, strlen(text)) : lladd_dtable_tombstone();
    return lladd_managed_put(txn, t, &key, &v);
}

void managed_put(struct lladd_txn *txn, struct lladd_managed *t, uint32_t number, const char *text)
{
    ok(txn, managed_try(txn, t, number, text));
}

void managed_fill_in(struct lladd_txn *txn, struct lladd_managed *t, const char *rows)
{
    char *copy = strdup(rows), *rest = copy;
    for (char *row; (row = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(row, '=');
        if (value)
            *value++ = 0;
        managed_put(txn, t, (uint32_t)strtoul(row, NULL, 10), value);
    }
    free(copy);
}

void managed_fill(struct fixture *b, struct lladd_managed *t, const char *rows)
{
    struct lladd_txn *txn = fixture_begin(b);
    managed_fill_in(txn, t, rows);
    commit(txn);
}

struct text {
    char *bytes;
    size_t len, cap;
};

static void add(struct text *t, const struct lladd_dtable_key *key,
                const struct lladd_dtable_value *v, bool front)
{
    char row[300];
    ck_assert_uint_lt(v->bytes.len, 256);
    int n = snprintf(row, sizeof row, "%u=%.*s", (unsigned)key->number, (int)v->bytes.len,
                     (const char *)v->bytes.data);
    if (t->len + (size_t)n + 2 > t->cap) {
        t->cap = 2 * (t->len + (size_t)n + 2);
        t->bytes = realloc(t->bytes, t->cap);
        ck_assert_ptr_nonnull(t->bytes);
    }
    size_t gap = t->len ? 1 : 0;
    if (front) {
        memmove(t->bytes + (size_t)n + gap, t->bytes, t->len);
        memcpy(t->bytes, row, (size_t)n);
        if (gap)
            t->bytes[n] = ' ';
    } else {
        if (gap)
            t->bytes[t->len] = ' ';
        memcpy(t->bytes + t->len + gap, row, (size_t)n);
    }
    t->len += (size_t)n + gap;
    t->bytes[t->len] = 0;
}

/* Looks a row's key up, in the transaction if there is one. */
static void look_again(struct fixture *b, struct lladd_txn *txn, struct lladd_managed *t,
                       const struct lladd_dtable *table, const struct lladd_dtable_key *key,
                       const struct lladd_dtable_value *v)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value again;
    if (txn)
        ok(txn, lladd_managed_lookup(txn, t, key, &pin, &again));
    else
        ok_db(b, lladd_dtable_lookup(table, key, &pin, &again, &b->err));
    ck_assert_int_eq(again.state, LLADD_DTABLE_FOUND);
    ck_assert_uint_eq(again.bytes.len, v->bytes.len);
    ck_assert(v->bytes.len == 0 || !memcmp(again.bytes.data, v->bytes.data, v->bytes.len));
    lladd_dtable_unpin(&pin);
}

static char *text_of(struct fixture *b, struct lladd_txn *txn, struct lladd_managed *t,
                     const struct lladd_dtable *table)
{
    struct text forward = {.bytes = calloc(1, 1), .cap = 1}, back = forward;
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    back.bytes = calloc(1, 1);
    ok_db(b, lladd_dtable_cursor_open(table, 0, &c, &b->err));
    int rc;
    while ((rc = lladd_dtable_next(c, &b->err)) == 0) {
        ok_db(b, lladd_dtable_row(c, &key, &v, &b->err));
        add(&forward, &key, &v, false);
        look_again(b, txn, t, table, &key, &v);
    }
    ck_assert_int_eq(rc, LLADD_END);
    while ((rc = lladd_dtable_prev(c, &b->err)) == 0) {
        ok_db(b, lladd_dtable_row(c, &key, &v, &b->err));
        add(&back, &key, &v, true);
    }
    ck_assert_int_eq(rc, LLADD_END);
    lladd_dtable_cursor_close(c);
    ck_assert_str_eq(forward.bytes, back.bytes);
    free(back.bytes);
    return forward.bytes;
}

char *managed_text(struct lladd_txn *txn, struct lladd_managed *t)
{
    struct fixture b = {.db = lladd_txn_db(txn)};
    const struct lladd_dtable *table = NULL;
    ok(txn, lladd_managed_table(txn, t, &table));
    return text_of(&b, txn, t, table);
}

struct lladd_managed_snapshot *managed_snapshot(struct fixture *b)
{
    struct lladd_managed_snapshot *s = NULL;
    ok_db(b, lladd_managed_snapshot_open(b->db, &s, &b->err));
    return s;
}

const struct lladd_dtable *managed_snapshot_table(struct fixture *b,
                                                  struct lladd_managed_snapshot *s,
                                                  struct lladd_managed *t)
{
    const struct lladd_dtable *table = NULL;
    ok_db(b, lladd_managed_snapshot_table(s, t, &table, &b->err));
    return table;
}

void managed_snapshot_sees(struct fixture *b, struct lladd_managed_snapshot *s,
                           struct lladd_managed *t, const char *rows)
{
    char *text = text_of(b, NULL, t, managed_snapshot_table(b, s, t));
    ck_assert_str_eq(text, rows);
    free(text);
}

void managed_sees(struct lladd_txn *txn, struct lladd_managed *t, const char *rows)
{
    char *text = managed_text(txn, t);
    ck_assert_str_eq(text, rows);
    free(text);
}

void managed_expect(struct fixture *b, struct lladd_managed *t, const char *rows)
{
    struct lladd_txn *txn = fixture_begin(b);
    managed_sees(txn, t, rows);
    commit(txn);
}

struct lladd_managed_stats managed_stats(struct fixture *b, struct lladd_managed *t)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    ok_db(b, lladd_managed_stats_get(t, &s, NULL, 0, &b->err));
    return s;
}

void managed_tidy(struct fixture *b, struct lladd_managed *t)
{
    bool more = true;
    while (more)
        ok_db(b, lladd_managed_maintain(t, &more, &b->err));
    ok_db(b, lladd_managed_maintain(t, &more, &b->err));
}

void managed_nothing_held(struct fixture *b, struct lladd_managed *t)
{
    managed_tidy(b, t);
    struct lladd_managed_stats s = managed_stats(b, t);
    ck_assert_uint_eq(s.obsolete, 0);
    ck_assert_uint_eq(s.snapshots, 0);
    ck_assert_uint_eq(s.held_runs, 0);
    ck_assert_uint_eq(s.oldest_snapshot_ns, 0);
}

void managed_no_leaks(struct fixture *b)
{
    struct lladd_root_value root;
    struct lladd_hash *journal;
    uint64_t n = 0;
    ok_db(b, lladd_managed_pages(b->db, fixture_count_page, &n, &b->err));
    ok_db(b, lladd_root_get(b->db, "journal", &root, &b->err));
    ok_db(b, lladd_hash_open(b->db, lladd_page_of(root.a), 0, &journal, &b->err));
    ok_db(b, lladd_hash_pages(journal, fixture_count_page, &n, &b->err));
    lladd_hash_close(journal);
    ck_assert_uint_eq(n, fixture_pages_used(b));
}

struct lladd_managed *managed_begin(struct fixture *b, struct lladd_managed_options *o)
{
    managed_init(b);
    fixture_open(b);
    return managed_table(b, "rows", o);
}

struct lladd_managed *managed_restart(struct fixture *b)
{
    fixture_crash(b);
    return managed_open(b, "rows");
}

void managed_done(struct fixture *b, struct lladd_managed *t)
{
    managed_close(b, t);
    managed_no_leaks(b);
    fixture_free(b);
}
