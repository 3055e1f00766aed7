/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The class column_dtable. It splits rows into their columns, and assembles the rows again. Its
 * layers are of various classes. Some reads return only some columns of a row. If a layer rejects
 * its part of a row, the whole row is rejected.
 */
#include "managed_fixture.h"

#include <lladd/bytes.h>
#include <lladd/ctable.h>
#include <lladd/dtable_class.h>
#include <stdio.h>

static struct fixture b;
static struct lladd_dtable_run_builder *run;
static struct lladd_txn *txn;
static unsigned char packed[256];

static struct lladd_dtable_value text(const char *s)
{
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    return s ? lladd_dtable_value_of(s, strlen(s)) : v;
}

/* Makes a row of three columns; NULL: the column has no value. */
static struct lladd_dtable_value row(const char *x, const char *y, const char *z)
{
    const struct lladd_dtable_value v[] = {text(x), text(y), text(z)};
    size_t size;
    ok_db(&b, lladd_dtable_row_size(v, 3, &size, &b.err));
    ck_assert_uint_le(size, sizeof packed);
    lladd_dtable_row_pack(v, 3, packed);
    return lladd_dtable_value_of(packed, size);
}

static int try_config(const char *config)
{
    struct lladd_dtable_config *c;
    int rc = lladd_dtable_config_parse(b.db, config, &c, &b.err);
    if (!rc)
        lladd_dtable_config_free(c);
    return rc;
}

static void begin_run(const char *config)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    o.type = LLADD_DTABLE_U32;
    o.text = config;
    txn = fixture_begin(&b);
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
}

static int add(uint32_t k, struct lladd_dtable_value v)
{
    struct lladd_dtable_key key = lladd_dtable_u32(k);
    return lladd_dtable_run_add(run, &key, &v);
}

static struct lladd_dtable *end_run(void)
{
    struct lladd_dtable *t;
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    ok_db(&b, lladd_dtable_run_open(b.db, root, &t, &b.err));
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    return t;
}

/* Checks the three columns of a row. In `want`, commas separate them, and - is a column without a
 * value. */
static void is_row(const struct lladd_dtable_value *v, const char *want)
{
    char got[128] = "";
    size_t len = 0;
    ck_assert_int_eq(v->state, LLADD_DTABLE_FOUND);
    ck_assert(lladd_dtable_row_check(v->bytes, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        struct lladd_dtable_value c;
        ck_assert(lladd_dtable_row_column(v->bytes, i, &c));
        bool there = c.state == LLADD_DTABLE_FOUND;
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%.*s", i ? "," : "",
                                there ? (int)c.bytes.len : 1,
                                there ? (const char *)c.bytes.data : "-");
    }
    ck_assert_str_eq(got, want);
}

static void has(const struct lladd_dtable *t, uint32_t k, const char *want)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT,
                            pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_key key = lladd_dtable_u32(k);
    struct lladd_dtable_value v, one;
    enum lladd_dtable_state state;
    ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
    if (want)
        is_row(&v, want);
    for (uint32_t i = 0; i < 4; i++) {
        struct lladd_dtable_value whole = {.state = LLADD_DTABLE_ABSENT};
        const struct lladd_dtable_columns ask = {1, &i, &one, pins};
        ok_db(&b, lladd_dtable_lookup_columns(t, &key, &ask, &state, &b.err));
        ck_assert_int_eq(state, v.state);
        if (state != LLADD_DTABLE_FOUND)
            continue;
        ck_assert(lladd_dtable_row_column(v.bytes, i, &whole));
        ck_assert_int_eq(one.state, whole.state);
        ck_assert_uint_eq(one.bytes.len, whole.bytes.len);
        ck_assert(!one.bytes.len || !memcmp(one.bytes.data, whole.bytes.data, one.bytes.len));
    }
    ck_assert_int_eq(v.state == LLADD_DTABLE_FOUND, want != NULL);
    lladd_dtable_unpin(&pin);
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
}

static void setup(void)
{
    managed_init(&b);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

#define LINEAR "class(dt) linear_dtable"
#define COLUMNS(base, words, groups) \
    "class(dt) column_dtable config [ \"base\" " base " \"columns\" words [ " words \
    " ] \"groups\" layers [ " groups " ] ]"

/* The same rows are read with layers of different kinds: some layers are read by the place of a
 * row, others by its key. Some layers store tombstones, and some have holes. */
START_TEST(compositions)
{
    static const char *const configs[] = {
        COLUMNS(LINEAR, "\"0\" \"1\" \"2\"", LINEAR " " LINEAR " " LINEAR),
        COLUMNS(LINEAR, "\"2 0\" \"1\"", LINEAR " class(dt) fixed_dtable"),
        COLUMNS("class(dt) array_dtable", "\"1\" \"2 0\"",
                "class(dt) array_dtable config [ \"value_size\" int 2 ] " LINEAR),
        COLUMNS("class(dt) bloom_dtable \"base_config\" config [ \"base\" " LINEAR " ]",
                "\"0\" \"1 2\"", "class(dt) btree_dtable config [ \"base\" " LINEAR " ] " LINEAR),
        COLUMNS(LINEAR, "\"0 2\" \"1\"",
                LINEAR " class(dt) array_dtable config [ \"tag_byte\" bool false \"hole_value\" "
                       "string \"__\" ]"),
        COLUMNS(LINEAR, "\"0 1 2\"", LINEAR),
        "class(dt) bloom_dtable config [ \"base\" class(dt) column_dtable \"base_config\" config [ "
        "\"base\" " LINEAR " \"columns\" words [ \"0 1\" \"2\" ] \"groups\" layers [ " LINEAR
        " " LINEAR " ] ] ]",
        "class(dt) exception_dtable config [ \"base\" class(dt) column_dtable \"base_config\" "
        "config [ \"base\" " LINEAR " \"columns\" words [ \"0\" \"1\" \"2\" ] \"groups\" layers [ "
        "class(dt) fixed_dtable config [ \"value_size\" int 1 ] " LINEAR " " LINEAR " ] ] "
        "\"alt\" " LINEAR " \"reject_value\" blob 010000 ]",
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct lladd_dtable_cursor *c;
        struct lladd_dtable_key key;
        struct lladd_dtable_value v;
        begin_run(configs[i]);
        ok(txn, add(10, row("a", "bb", "c")));
        ok(txn, add(11, row(NULL, "dd", "")));
        ok(txn, add(12, lladd_dtable_tombstone()));
        ok(txn, add(14, row("e", NULL, NULL)));
        ok(txn, add(15, row(NULL, NULL, NULL)));
        ok(txn, add(16, row("f", "gg", "hhhhh")));
        struct lladd_dtable *t = end_run();
        has(t, 10, "a,bb,c");
        has(t, 11, "-,dd,");
        has(t, 12, NULL);
        has(t, 13, NULL);
        has(t, 14, "e,-,-");
        has(t, 15, "-,-,-");
        has(t, 16, "f,gg,hhhhh");
        has(t, 9, NULL);
        has(t, 17, NULL);
        ok_db(&b, lladd_dtable_cursor_open(t, 0, &c, &b.err));
        static const char *const rows[] = {"a,bb,c", "-,dd,", "e,-,-", "-,-,-", "f,gg,hhhhh"};
        for (int k = 0; k < 5; k++) {
            ok_db(&b, lladd_dtable_next(c, &b.err));
            ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
            is_row(&v, rows[k]);
        }
        ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
        for (int k = 4; k >= 0; k--) {
            ok_db(&b, lladd_dtable_prev(c, &b.err));
            ok_db(&b, lladd_dtable_row(c, NULL, &v, &b.err));
            is_row(&v, rows[k]);
        }
        ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
        lladd_dtable_cursor_close(c);
        lladd_dtable_close(t);
    }
}
END_TEST

/* If one layer cannot store its part of a row, no part of the row is left in the other layers. */
START_TEST(a_refused_row_leaves_no_part)
{
    begin_run(COLUMNS(LINEAR, "\"0\" \"1\"",
                      LINEAR " class(dt) fixed_dtable config [ \"value_size\" int 2 ]"));
    ok(txn, add(1, row("a", "bb", NULL)));
    refuses(txn, LLADD_REJECTED, add(2, row("a", "bbb", NULL)));
    refuses(txn, LLADD_REJECTED, add(2, row("a", "bb", "in no group")));
    refuses(txn, LLADD_REJECTED, add(2, text("no row")));
    refuses(txn, LLADD_REJECTED, add(2, text("")));
    ok(txn, add(2, row("c", NULL, NULL)));
    ok(txn, add(3, row("d", "ee", NULL)));
    struct lladd_dtable *t = end_run();
    has(t, 1, "a,bb,-");
    has(t, 2, "c,-,-");
    has(t, 3, "d,ee,-");
    lladd_dtable_close(t);
    /* The first value fixes the size of all values. A value of another size is refused. Then the
     * run can only be discarded. */
    begin_run(COLUMNS(LINEAR, "\"0\" \"1\"", LINEAR " class(dt) fixed_dtable"));
    ok(txn, add(1, row("a", "bb", NULL)));
    ck_assert_int_eq(add(2, row("a", "bbb", NULL)), LLADD_REJECTED);
    ok(txn, lladd_dtable_run_discard(run));
    abort_txn(txn);
}
END_TEST

START_TEST(configurations)
{
    static const char *const bad[] = {
        "class(dt) column_dtable",
        COLUMNS(LINEAR, "", ""),
        COLUMNS(LINEAR, "\"0\"", ""),
        COLUMNS(LINEAR, "\"0\"", LINEAR " " LINEAR),
        COLUMNS(LINEAR, "\"0\" \"0\"", LINEAR " " LINEAR),
        COLUMNS(LINEAR, "\"1 1\"", LINEAR),
        COLUMNS(LINEAR, "\"\"", LINEAR),
        COLUMNS(LINEAR, "\"x\"", LINEAR),
        COLUMNS(LINEAR, "\"1024\"", LINEAR),
        COLUMNS(LINEAR, "\"00000\"", LINEAR),
        COLUMNS(LINEAR, "\"0\"", "linear_dtable"),
        COLUMNS(LINEAR, "\"0\"", "class(dt) no_dtable"),
        COLUMNS(LINEAR, "\"0\"", LINEAR " config [ "),
        COLUMNS("class(dt) empty_dtable", "\"0\"", LINEAR),
        COLUMNS("class(dt) fixed_dtable \"base_config\" config [ \"value_size\" int 3 ]", "\"0\"",
                LINEAR),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(try_config(bad[i]) == LLADD_BAD_CONFIG, "%s", bad[i]);
        ck_assert_str_ne(b.err.message, "");
    }
    ok_db(&b, try_config(COLUMNS(LINEAR, "\"1023 0\"", LINEAR " config [ ]")));
    ok_db(&b, try_config(COLUMNS(LINEAR, "\"0\"", COLUMNS(LINEAR, "\"0\"", LINEAR))));
}
END_TEST

/* ---- in a cTable ----------------------------------------------------------------------------- */

static const char *const names[] = {"number", "text"};

static struct lladd_ctable *table(const struct lladd_ctable_options *o)
{
    struct lladd_ctable *t;
    struct lladd_txn *x = fixture_begin(&b);
    ok(x, lladd_ctable_create(x, "rows", o));
    commit(x);
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
    return t;
}

static struct lladd_ctable_options plain(void)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.columns = names;
    o.n_columns = 2;
    o.managed.type = LLADD_DTABLE_U32;
    return o;
}

static const struct lladd_ctable_group numbers[] = {
    {names, 1, "class(dt) array_dtable config [ \"value_size\" int 4 ]"}};

static uint64_t reads(void)
{
    struct lladd_dtable_cache_stats s = {.struct_size = sizeof s};
    lladd_dtable_cache_stats_get(b.db, &s);
    return s.reads;
}

/* A column is read without reading blocks of other columns. */
START_TEST(projection_reads_its_layers)
{
    enum { ROWS = 2000, LONG = 200 };
    struct lladd_ctable_options o = plain();
    struct lladd_managed_run r;
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_ctable_cursor *c;
    struct lladd_dtable *bare;
    struct lladd_dtable_key key;
    const struct lladd_dtable_value *got;
    unsigned char number[4], *big = calloc(1, LONG);
    uint32_t column = 0;
    o.groups = numbers;
    o.n_groups = 1;
    struct lladd_ctable *t = table(&o);
    struct lladd_txn *x = fixture_begin(&b);
    for (uint32_t i = 0; i < ROWS; i++) {
        key = lladd_dtable_u32(i);
        lladd_put32(number, 7 * i);
        const struct lladd_dtable_value v[] = {lladd_dtable_value_of(number, 4),
                                               lladd_dtable_value_of(big, LONG)};
        ok(x, lladd_ctable_put(x, t, &key, v));
    }
    commit(x);
    ok_db(&b, lladd_managed_digest(lladd_ctable_managed(t), &b.err));
    ok_db(&b, lladd_managed_stats_get(lladd_ctable_managed(t), &s, &r, 1, &b.err));
    ck_assert_uint_eq(s.runs, 1);
    ok_db(&b, lladd_dtable_run_open(b.db, r.root, &bare, &b.err));
    ok_db(&b, lladd_dtable_run_info_get(bare, &info, &b.err));
    ck_assert_ptr_nonnull(strstr(info.config, "column_dtable"));
    lladd_dtable_close(bare);
    x = fixture_begin(&b);
    ok(x, lladd_ctable_cursor_open(x, t, &column, 1, &c));
    uint64_t before = reads();
    for (uint32_t i = 0; i < ROWS; i++) {
        ok_db(&b, lladd_ctable_next(c, &b.err));
        ok_db(&b, lladd_ctable_row_read(c, &key, &got, &b.err));
        ck_assert_uint_eq(key.number, i);
        ck_assert_uint_eq(lladd_get32(got[0].bytes.data), 7 * i);
    }
    ck_assert_uint_le(reads() - before, 8);
    lladd_ctable_cursor_close(c);
    column = 1;
    before = reads();
    ok(x, lladd_ctable_cursor_open(x, t, &column, 1, &c));
    while (lladd_ctable_next(c, &b.err) == 0) {
        ok_db(&b, lladd_ctable_row_read(c, NULL, &got, &b.err));
        ck_assert_uint_eq(got[0].bytes.len, LONG);
    }
    ck_assert_uint_ge(reads() - before, ROWS * LONG / (16 << 10));
    lladd_ctable_cursor_close(c);
    commit(x);
    ok_db(&b, lladd_ctable_close(t, &b.err));
    free(big);
}
END_TEST

/* ---- blocks of values ------------------------------------------------------------------------ */

enum { MANY = 9000 };

static uint32_t number_of(uint32_t i)
{
    return i % 977 == 5 ? 0xffffffffu : i % 1000 == 7 ? 70000 + i : i % 3000;
}

/* Checks the column's values in batches of `max` rows. Row `hole` has no value. Returns how many
 * batches had values of one width. */
static unsigned scan(struct lladd_ctable *t, uint32_t column, size_t max, uint32_t hole)
{
    struct lladd_ctable_batch got = {.n = 0};
    struct lladd_ctable_cursor *c;
    struct lladd_txn *x = fixture_begin(&b);
    unsigned wide = 0;
    uint32_t i = 0;
    int rc;
    ok(x, lladd_ctable_cursor_open(x, t, &column, 1, &c));
    while ((rc = lladd_ctable_next_n(c, max, LLADD_CTABLE_KEYS, &got, &b.err)) == 0) {
        const struct lladd_ctable_values *v = got.columns;
        wide += v->width == 4;
        ck_assert(v->width == 4 || v->width == 0);
        for (size_t k = 0; k < got.n; k++, i++) {
            size_t at = v->width ? k * v->width : k ? v->ends[k - 1] : 0;
            ck_assert_uint_eq(got.numbers[k], i);
            if (v->width || v->states[k] == LLADD_DTABLE_FOUND)
                ck_assert_uint_eq(lladd_get32(v->bytes + at), number_of(i));
            ck_assert_int_eq(v->width || v->states[k] == LLADD_DTABLE_FOUND, i != hole);
        }
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(i, MANY);
    lladd_ctable_cursor_close(c);
    lladd_ctable_batch_free(&got);
    commit(x);
    return wide;
}

#define AUTO(form) "class(dt) auto_dtable config [ \"encodings\" words [ \"" form "\" ] ]"

/* Some classes can copy values in blocks, and then do so. A linear_dtable cannot, so its values are
 * read one by one. For each class there is also a table in which one row has no value. */
START_TEST(copies)
{
    static const char *const configs[] = {
        "class(dt) array_dtable config [ \"value_size\" int 4 ]",
        "class(dt) fixed_dtable config [ \"value_size\" int 4 ]",
        "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"base_config\" "
        "config [ \"value_size\" int 4 ] \"alt\" class(dt) linear_dtable \"reject_value\" blob "
        "ffffffff ]",
        "class(dt) exception_dtable config [ \"base\" class(dt) smallint_dtable \"base_config\" "
        "config [ \"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 2 ] "
        "\"bytes\" int 2 ] \"alt\" class(dt) linear_dtable \"reject_value\" blob ffff0000 ]",
        "class(dt) deltaint_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" config "
        "[ \"value_size\" int 4 ] ]",
        "class(dt) compress_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config "
        "[ \"value_size\" int 4 ] ]",
        "class(dt) auto_dtable",
        "class(dt) compress_dtable config [ \"base\" class(dt) auto_dtable ]",
        AUTO("numbers"),
        AUTO("deltas"),
        AUTO("dictionary"),
        AUTO("runs"),
        AUTO("plain"),
        LINEAR,
    };
    for (size_t i = 0; i < 2 * sizeof configs / sizeof configs[0]; i++) {
        const struct lladd_ctable_group g = {names, 1, configs[i / 2]};
        struct lladd_ctable_options o = plain();
        uint32_t hole = i % 2 ? 4321 : UINT32_MAX;
        o.groups = &g;
        o.n_groups = 1;
        struct lladd_ctable *t = table(&o);
        struct lladd_txn *x = fixture_begin(&b);
        for (uint32_t k = 0; k < MANY; k++) {
            struct lladd_dtable_key key = lladd_dtable_u32(k);
            unsigned char bytes[4];
            lladd_put32(bytes, number_of(k));
            struct lladd_dtable_value v[2] = {lladd_dtable_value_of(bytes, 4), text("more")};
            v[0].state = k == hole ? LLADD_DTABLE_ABSENT : LLADD_DTABLE_FOUND;
            ok(x, lladd_ctable_put(x, t, &key, v));
        }
        commit(x);
        ck_assert_uint_ge(scan(t, 0, 100, hole), MANY / 100 - 1); /* in memory, row by row */
        ok_db(&b, lladd_managed_digest(lladd_ctable_managed(t), &b.err));
        ck_assert_uint_ge(scan(t, 0, 100, hole), MANY / 100 - 1);
        ck_assert_uint_ge(scan(t, 0, 4097, hole), hole == UINT32_MAX ? 3 : 2);
        scan(t, 0, MANY + 1, hole);
        ok_db(&b, lladd_ctable_close(t, &b.err));
        x = fixture_begin(&b);
        ok(x, lladd_ctable_destroy(x, "rows"));
        commit(x);
    }
}
END_TEST

static void not_made(int want, const struct lladd_ctable_options *o)
{
    struct lladd_txn *x = fixture_begin(&b);
    refuses(x, want, lladd_ctable_create(x, "rows", o));
    commit(x);
}

/* A put of a value of another size is refused. Invalid groups are refused, too. */
START_TEST(groups)
{
    struct lladd_ctable_options o = plain();
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_ctable_change change = {0, {LLADD_DTABLE_FOUND, {"12345", 5}}};
    struct lladd_ctable_group g[] = {{names, 1, NULL}, {names, 2, NULL}};
    o.n_groups = 1; /* n_groups is 1, but `groups` is NULL */
    not_made(LLADD_BAD_ARGUMENT, &o);
    o.keys = LINEAR;
    not_made(LLADD_BAD_ARGUMENT, &o);
    o.keys = NULL;
    o.groups = g;
    o.n_groups = 2;
    not_made(LLADD_BAD_ARGUMENT, &o);
    o.n_groups = 1;
    g[0].n = 0;
    not_made(LLADD_BAD_ARGUMENT, &o);
    g[0] = (struct lladd_ctable_group){(const char *const[]){"other"}, 1, NULL};
    not_made(LLADD_NOT_FOUND, &o);
    g[0] = (struct lladd_ctable_group){names, 1, "class(dt) array_dtable"};
    not_made(LLADD_BAD_CONFIG, &o);
    g[0].config = "nonsense";
    not_made(LLADD_BAD_CONFIG, &o);
    g[0].config = NULL;
    o.keys = "class(dt) empty_dtable";
    not_made(LLADD_BAD_CONFIG, &o);
    o.keys = NULL;
    o.managed.combine_config = LINEAR;
    not_made(LLADD_BAD_ARGUMENT, &o);
    o.managed.combine_config = NULL;
    o.groups = numbers;
    struct lladd_ctable *t = table(&o);
    struct lladd_txn *x = fixture_begin(&b);
    refuses(x, LLADD_REJECTED, lladd_ctable_update(x, t, &key, &change, 1));
    change.value.bytes.len = 4;
    ok(x, lladd_ctable_update(x, t, &key, &change, 1));
    commit(x);
    ok_db(&b, lladd_ctable_close(t, &b.err));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("column dTables");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, compositions);
    tcase_add_test(tc, a_refused_row_leaves_no_part);
    tcase_add_test(tc, configurations);
    tcase_add_test(tc, projection_reads_its_layers);
    tcase_add_test(tc, copies);
    tcase_add_test(tc, groups);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
