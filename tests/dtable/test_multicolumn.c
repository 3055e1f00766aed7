/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * multicolumn_dtable: tables of several layouts are compared with a model: lookups, cursors in both
 * directions, places, some columns, many rows at once. Rows are compressed. What does not fit a
 * column is rejected, keys never are. Bad configurations, unknown codecs and newer versions are
 * refused. (test_model.c tests the class under all other layers.)
 */
#include "model.h"
#include "texts.h"

#include <lladd/bytes.h>
#include <lladd/column_codec.h>
#include <lladd/dtable_multicolumn.h>
#include <stdio.h>

static struct fixture b;
static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    uint64_t x = seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 27) % n;
}

static void setup(void)
{
    seed = 1;
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct lladd_txn *txn;
static struct lladd_dtable_run_builder *run;
static struct model m;

static void begin(enum lladd_dtable_type type, const char *comparator, const char *config,
                  uint32_t block)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    o.type = type;
    o.comparator = comparator;
    o.text = config;
    o.block_bytes = block;
    txn = fixture_begin(&b);
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    rows_init(&m, type);
}

static void add(const struct lladd_dtable_key *key, struct lladd_dtable_value value)
{
    ok(txn, lladd_dtable_run_add(run, key, &value));
    rows_add(&m, key, &value);
}

static struct lladd_dtable *end(void)
{
    struct lladd_dtable *t;
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    ok_db(&b, lladd_dtable_run_open(b.db, root, &t, &b.err));
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    return t;
}

static struct lladd_dtable_run_info info_of(const struct lladd_dtable *t)
{
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    return info;
}

static void compare_and_close(struct lladd_dtable *t)
{
    rows_check(&m, t, 1, 2000);
    lladd_dtable_close(t);
    rows_free(&m);
}

/* The same for keys and values that are too long for the functions of the model. */
static void compare_long_and_close(struct lladd_dtable *t)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    ok_db(&b, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
    for (size_t i = 0; i < m.n; i++) {
        const struct model_row *r = &m.rows[i];
        ok_db(&b, lladd_dtable_lookup(t, &r->key, &pin, &v, &b.err));
        ck_assert_uint_eq(v.bytes.len, r->len);
        ck_assert_mem_eq(v.bytes.data, r->value, r->len);
        ok_db(&b, lladd_dtable_next(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
        ck_assert_int_eq(lladd_dtable_compare(&m.order, &key, &r->key), 0);
        ck_assert_uint_eq(v.bytes.len, r->len);
        ck_assert_mem_eq(v.bytes.data, r->value, r->len);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    lladd_dtable_unpin(&pin);
    lladd_dtable_close(t);
    rows_free(&m);
}

static int tries(const char *config)
{
    struct lladd_dtable_config *c;
    int rc = lladd_dtable_config_parse(b.db, config, &c, &b.err);
    if (!rc)
        lladd_dtable_config_free(c);
    return rc;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define WEATHER \
    "class(dt) multicolumn_dtable config [ \"key\" words [ \"u32\" \"i32\" \"u32\" ] " \
    "\"columns\" words [ \"i16\" \"i16\" \"u8\" \"u32\" \"i64\" \"text12\" ] ]"
enum { WEATHER_KEY = 12, WEATHER_VALUE = 2 + 2 + 1 + 4 + 8 + 12 };

static void big_endian(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* Stations report at times in succession. */
static void weather_row(uint32_t i, unsigned char key[WEATHER_KEY], unsigned char v[WEATHER_VALUE])
{
    static const char *const skies[] = {"clear", "CLOUDY", "rain", "", "a-b.c d_e/f", "snow"};
    big_endian(key, i / 500 * 1234567);
    big_endian(key + 4, 0x80000000u ^ (uint32_t)(i / 100 * 31 - 50));
    big_endian(key + 8, 1000 + i % 100 * 60 + (uint32_t)draw(7));
    memset(v, 0, WEATHER_VALUE);
    lladd_put16(v, (uint16_t)(draw(60) - 30));
    lladd_put16(v + 2, (uint16_t)(i / 60 - 100));
    v[4] = (unsigned char)(i / 50);
    lladd_put32(v + 5, draw(200) ? 101300 + (uint32_t)draw(64) : (uint32_t)draw(UINT32_MAX));
    lladd_put64(v + 9, i * UINT64_C(1000000007) - 5);
    const char *sky = skies[draw(6)];
    memcpy(v + 17, sky, strlen(sky));
}

START_TEST(weather)
{
    enum { ROWS = 12000 };
    unsigned char key[WEATHER_KEY], value[WEATHER_VALUE];
    begin(LLADD_DTABLE_BYTES, NULL, WEATHER, 4096);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct lladd_dtable_key k;
        weather_row(i, key, value);
        k = lladd_dtable_bytes(key, sizeof key);
        add(&k, _i && i % 11 == 3 ? lladd_dtable_tombstone()
                                  : lladd_dtable_value_of(value, sizeof value));
    }
    struct lladd_dtable *t = end();
    ck_assert_uint_le(info_of(t).bytes, ROWS * 12);
    ck_assert_uint_ge(lladd_multicolumn_pages(t), 8);
    compare_and_close(t);
}
END_TEST

/* Fields of a number key: they are a station and a time. */
START_TEST(fields_of_number_keys)
{
    static const char *const configs[] = {
        "class(dt) multicolumn_dtable config [ \"key\" words [ \"20\" \"12\" \"32\" ] "
        "\"columns\" words [ \"u64\" ] ]",
        "class(dt) multicolumn_dtable config [ \"key\" words [ \"1\" \"63\" ] \"columns\" words [ "
        "\"u64\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"i64\" ] ]",
    };
    static const enum lladd_dtable_type types[] = {LLADD_DTABLE_U64, LLADD_DTABLE_DOUBLE};
    for (size_t c = 0; c < 3; c++)
        for (size_t type = 0; type < 2; type++) {
            uint64_t number = type ? UINT64_C(0xc000000000000000) : 0; /* doubles from 2 on */
            begin(types[type], NULL, configs[c], 4096);
            for (uint32_t i = 0; i < 3000; i++) {
                unsigned char v[8];
                number += i % 50 ? 1 + draw(1000) : 1 + (draw(64) << 40);
                struct lladd_dtable_key key = {types[type], number, {NULL, 0}};
                lladd_put64(v, draw(4) ? i : UINT64_MAX - draw(9));
                add(&key, lladd_dtable_value_of(v, sizeof v));
            }
            compare_and_close(end());
        }
    begin(LLADD_DTABLE_U32, NULL,
          "class(dt) multicolumn_dtable config [ \"key\" words [ \"8\" \"24\" ] ]", 0);
    for (uint32_t i = 0; i < 3000; i++) { /* rows of no columns: a set */
        struct lladd_dtable_key key = lladd_dtable_u32(i / 100 << 24 | (i % 100 * 7 + 3));
        add(&key, lladd_dtable_value_of("", 0));
    }
    compare_and_close(end());
}
END_TEST

/* Keys of any bytes are stored: those with the fields' length in fields, others as they are. Some
 * pages have only the former, some only the latter, some both. */
START_TEST(keys_of_other_lengths)
{
    static const char *const configs[] = {
        "class(dt) multicolumn_dtable config [ \"key\" words [ \"u16\" \"u8\" \"u64\" ] "
        "\"columns\" words [ \"u16\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u16\" ] ]",
    };
    for (size_t c = 0; c < 2; c++) {
        begin(LLADD_DTABLE_STRING, NULL, configs[c], 4096);
        for (uint32_t i = 0; i < 6000; i++) {
            char text[80];
            unsigned char v[2];
            bool odd = (i > 2500 && i < 3500) || i % 2000 == 77;
            (void)snprintf(text, sizeof text, odd ? "%011u and more of it %u" : "%011u", i * 3,
                           i * i);
            lladd_put16(v, (uint16_t)(i / 3));
            struct lladd_dtable_key key = lladd_dtable_string(text);
            add(&key, i % 97 ? lladd_dtable_value_of(v, 2) : lladd_dtable_tombstone());
        }
        compare_and_close(end());
    }
}
END_TEST

START_TEST(longest_keys)
{
    static char text[LLADD_DTABLE_KEY_MAX];
    begin(LLADD_DTABLE_BYTES, NULL,
          "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u64\" \"u64\" ] ]", 4096);
    struct lladd_dtable_key key = lladd_dtable_bytes(text, 0);
    add(&key, lladd_dtable_value_of("0123456789abcdef", 16));
    for (uint32_t i = 0; i < 20; i++) {
        memset(text, 'a' + (int)i, sizeof text);
        key = lladd_dtable_bytes(text, sizeof text - i % 3);
        add(&key, lladd_dtable_value_of("0123456789abcdef", 16));
    }
    compare_long_and_close(end());
}
END_TEST

/* In another order keys are compared as a whole. */
START_TEST(another_order)
{
    ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
    static const char *const configs[] = {
        "class(dt) multicolumn_dtable config [ \"key\" words [ \"u32\" ] \"columns\" words [ "
        "\"u8\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u8\" ] ]",
    };
    for (size_t c = 0; c < 2; c++) {
        struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
        begin(LLADD_DTABLE_BYTES, no_case.name, configs[c], 4096);
        for (uint32_t i = 0; i < 5000; i++) {
            unsigned char v = (unsigned char)i, key[4];
            for (uint32_t k = 0, rest = i; k < 4; k++, rest /= 13)
                key[3 - k] = (unsigned char)((draw(2) ? 'a' : 'A') + rest % 13);
            struct lladd_dtable_key k = lladd_dtable_bytes(key, 4);
            struct lladd_dtable_value value = lladd_dtable_value_of(&v, 1);
            ok(txn, lladd_dtable_run_add(run, &k, &value));
        }
        struct lladd_dtable *t = end();
        for (uint32_t i = 0; i < 5000; i++) {
            struct lladd_dtable_value v;
            unsigned char key[4];
            for (uint32_t k = 0, rest = i; k < 4; k++, rest /= 13)
                key[3 - k] = (unsigned char)('A' + rest % 13);
            struct lladd_dtable_key k = lladd_dtable_bytes(key, 4);
            ok_db(&b, lladd_dtable_lookup(t, &k, &pin, &v, &b.err));
            ck_assert_int_eq(v.state, LLADD_DTABLE_FOUND);
            ck_assert_uint_eq(*(const unsigned char *)v.bytes.data, (unsigned char)i);
        }
        lladd_dtable_unpin(&pin);
        lladd_dtable_close(t);
        rows_free(&m);
    }
}
END_TEST

/* ---- packed rows ----------------------------------------------------------------------------- */

#define PARAMETERS \
    "config [ \"columns\" words [ \"i32\" \"u8\" \"text12\" \"u64\" \"i16\" ] \"rows\" bool true ]"
#define ROWS_CONFIG "class(dt) multicolumn_dtable " PARAMETERS
enum { COLUMNS = 5 };
static const size_t widths[COLUMNS] = {4, 1, 0, 8, 2};

/* A row in which some columns have no value; the bytes are in `room`. */
static struct lladd_dtable_value packed_row(uint32_t i, unsigned char room[96])
{
    struct lladd_dtable_value v[COLUMNS];
    unsigned char bytes[4][8];
    static const char *const words[] = {"", "abc", "XY", "twelve chars"};
    size_t size;
    lladd_put32(bytes[0], i * 3 - 1000);
    bytes[1][0] = (unsigned char)(i / 9);
    lladd_put64(bytes[2], draw(100) ? i : draw(UINT64_MAX));
    lladd_put16(bytes[3], (uint16_t)(draw(5) - 2));
    const unsigned char *const at[COLUMNS] = {bytes[0], bytes[1], NULL, bytes[2], bytes[3]};
    for (unsigned c = 0; c < COLUMNS; c++) {
        const char *word = words[i % 4];
        v[c] = c == 2 ? lladd_dtable_value_of(word, strlen(word))
                      : lladd_dtable_value_of(at[c], widths[c]);
        if ((c == 1 && i % 1000 > 900) || (c == 3 && draw(10) == 0) || (c > 2 && i % 7 == 0))
            v[c] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    }
    ok_db(&b, lladd_dtable_row_size(v, COLUMNS, &size, &b.err));
    ck_assert_uint_le(size, 96);
    lladd_dtable_row_pack(v, COLUMNS, room);
    return lladd_dtable_value_of(room, size);
}

static struct lladd_dtable *build_rows(uint32_t rows, unsigned tombstones)
{
    begin(LLADD_DTABLE_U32, NULL, ROWS_CONFIG, 4096);
    for (uint32_t i = 0; i < rows; i++) {
        unsigned char room[96];
        struct lladd_dtable_key key = lladd_dtable_u32(i * 2 + 5);
        add(&key, tombstones && draw(tombstones) == 0 ? lladd_dtable_tombstone()
                                                      : packed_row(i, room));
    }
    return end();
}

START_TEST(packed_rows)
{
    compare_and_close(build_rows(5000, 0));
    compare_and_close(build_rows(5000, 40));
    compare_and_close(build_rows(1, 0));
    compare_and_close(build_rows(0, 0));
}
END_TEST

/* copy_column copies values of one column; it ends before a row without such a value, or with one
 * of another size. */
static void copies_columns(const struct lladd_dtable *t, unsigned turns)
{
    for (uint32_t column = 0; column <= COLUMNS; column++)
        for (unsigned turn = 0; turn < turns; turn++) {
            static unsigned char out[8 * 4000];
            size_t place = draw(m.n), n = 1 + draw(turn % 2 ? 4000 : 20), width = 0, got = 0;
            size_t room = turn % 3 ? sizeof out : draw(sizeof out);
            ok_db(&b, t->kind->copy_column(t, column, place, n, out, room, &width, &got, &b.err));
            if (column == 2 || column == COLUMNS) { /* a text, no column */
                ck_assert_uint_eq(got, 0);
                continue;
            }
            ck_assert_uint_eq(width, widths[column]);
            for (size_t i = 0; i <= got; i++) {
                const struct model_row *r = &m.rows[place + i];
                struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
                if (place + i < m.n && r->state == LLADD_DTABLE_FOUND)
                    ck_assert(lladd_dtable_row_column(lladd_span_of(r->value, r->len), column, &v));
                if (i < got) {
                    ck_assert_int_eq(v.state, LLADD_DTABLE_FOUND);
                    ck_assert_uint_eq(v.bytes.len, width);
                    ck_assert_mem_eq(v.bytes.data, out + i * width, width);
                } else {
                    ck_assert(v.state != LLADD_DTABLE_FOUND || v.bytes.len != width || got == n ||
                              got == room / width);
                }
            }
        }
}

START_TEST(one_column)
{
    struct lladd_dtable *t = build_rows(4000, 300);
    copies_columns(t, 200);
    compare_and_close(t);
}
END_TEST

/* lladd_dtable_copy copies whole values, if they are not packed rows. */
START_TEST(whole_values)
{
    enum { ROWS = 3000 };
    unsigned char key[WEATHER_KEY], value[WEATHER_VALUE];
    static unsigned char out[ROWS * WEATHER_VALUE];
    begin(LLADD_DTABLE_BYTES, NULL, WEATHER, 8192);
    for (uint32_t i = 0; i < ROWS; i++) {
        weather_row(i, key, value);
        struct lladd_dtable_key k = lladd_dtable_bytes(key, sizeof key);
        add(&k, i == 2500 ? lladd_dtable_tombstone()
                          : lladd_dtable_value_of(value, sizeof value));
    }
    struct lladd_dtable *t = end();
    for (unsigned turn = 0; turn < 100; turn++) {
        size_t place = draw(ROWS), n = 1 + draw(ROWS), width, got;
        ok_db(&b, lladd_dtable_copy(t, place, n, out, sizeof out, &width, &got, &b.err));
        size_t want = place + n < ROWS ? n : ROWS - place;
        want = place <= 2500 && place + want > 2500 ? 2500 - place : want;
        ck_assert_uint_eq(got, want);
        for (size_t i = 0; i < got; i++)
            ck_assert_mem_eq(out + i * width, m.rows[place + i].value, WEATHER_VALUE);
    }
    compare_and_close(t);
}
END_TEST

/* ---- what is rejected ------------------------------------------------------------------------ */

static int try_value(const void *bytes, size_t len)
{
    struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)m.n + 1);
    struct lladd_dtable_value v = lladd_dtable_value_of(bytes, len);
    int rc = lladd_dtable_run_add(run, &key, &v);
    if (!rc)
        rows_add(&m, &key, &v);
    return rc;
}

START_TEST(what_does_not_fit_is_rejected)
{
    static const char *const texts[] = {"",          "abc",          "ABC",     "a b-c.d_e/f",
                                        "AbC",       "1",            "abc\xff", "twelve chars"};
    begin(LLADD_DTABLE_U32, NULL,
          "class(dt) multicolumn_dtable config [ \"columns\" words [ \"text12\" \"u8\" ] ]", 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char v[32] = "";
        memcpy(v, texts[i], strlen(texts[i]));
        bool fits = i < 4 || i == 7;
        v[12] = 'x';
        ck_assert_int_eq(try_value(v, 13), fits ? 0 : LLADD_REJECTED);
    }
    refuses(txn, LLADD_REJECTED, try_value("abc\0d\0\0\0\0\0\0\0!", 13)); /* after its end */
    refuses(txn, LLADD_REJECTED, try_value("", 0));
    refuses(txn, LLADD_REJECTED, try_value("abcdefghijklmn", 14));
    compare_and_close(end());

    unsigned char room[96];
    begin(LLADD_DTABLE_U32, NULL, ROWS_CONFIG, 0);
    struct lladd_dtable_value row = packed_row(1, room);
    ok(txn, try_value(row.bytes.data, row.bytes.len));
    refuses(txn, LLADD_REJECTED, try_value(row.bytes.data, row.bytes.len - 1));
    refuses(txn, LLADD_REJECTED, try_value("no row", 6));
    struct lladd_dtable_value v[7] = {lladd_dtable_value_of("abcd", 4)};
    for (unsigned i = 1; i < 7; i++)
        v[i] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    size_t size;
    ok_db(&b, lladd_dtable_row_size(v, 7, &size, &b.err));
    lladd_dtable_row_pack(v, 7, room);
    ok(txn, try_value(room, size));
    v[0] = lladd_dtable_value_of("abc", 3); /* not the width of the column */
    ok_db(&b, lladd_dtable_row_size(v, 7, &size, &b.err));
    lladd_dtable_row_pack(v, 7, room);
    refuses(txn, LLADD_REJECTED, try_value(room, size));
    v[0].state = LLADD_DTABLE_ABSENT;
    v[6] = lladd_dtable_value_of("x", 1); /* a column that there is not */
    ok_db(&b, lladd_dtable_row_size(v, 7, &size, &b.err));
    lladd_dtable_row_pack(v, 7, room);
    refuses(txn, LLADD_REJECTED, try_value(room, size));
    compare_and_close(end());
}
END_TEST

/* An exception_dtable keeps what is rejected. */
START_TEST(exceptions_are_kept)
{
    begin(LLADD_DTABLE_U32, NULL,
          "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable "
          "\"base_config\" " PARAMETERS
          " \"alt\" class(dt) linear_dtable \"reject_value\" blob 010000 ]",
          4096);
    for (uint32_t i = 0; i < 3000; i++) {
        unsigned char room[96];
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        add(&key, i % 50 == 7   ? lladd_dtable_value_of("anything at all", 15)
                  : i % 50 == 9 ? lladd_dtable_value_of("\1\0\0", 3)
                                : packed_row(i, room));
    }
    compare_and_close(end());
}
END_TEST

/* An exception_dtable reads columns of both tables: of rows that base rejects, of the placeholder
 * itself, and of rows that share some columns with it. */
START_TEST(columns_of_exceptions)
{
    static const unsigned char number[8] = {5}, wide[20] = {5};
    const struct lladd_dtable_value five = lladd_dtable_value_of(number, 4);
    struct lladd_dtable_value columns[COLUMNS] = {
        five, lladd_dtable_value_of(number, 1), lladd_dtable_value_of("XY", 2),
        lladd_dtable_value_of(number, 8), lladd_dtable_value_of(number, 2)};
    unsigned char rows[4][96];
    struct lladd_dtable_value v[4];
    char config[600], hex[200];
    for (int i = 0; i < 4; i++) {
        size_t size;
        /* Row 0 is the placeholder. Base rejects row 1 because of one column, and row 2. */
        columns[4] = lladd_dtable_value_of(i == 1 ? wide : number, i == 1 ? sizeof wide : 2);
        columns[0] = i == 2 ? lladd_dtable_value_of(wide, 9) : five;
        columns[2] = lladd_dtable_value_of(i == 3 ? "Z" : "XY", i == 3 ? 1 : 2);
        ok_db(&b, lladd_dtable_row_size(columns, COLUMNS, &size, &b.err));
        lladd_dtable_row_pack(columns, COLUMNS, rows[i]);
        v[i] = lladd_dtable_value_of(rows[i], size);
    }
    for (size_t i = 0; i < v[0].bytes.len; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", rows[0][i]);
    (void)snprintf(config, sizeof config,
                   "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable "
                   "\"base_config\" %s \"alt\" class(dt) linear_dtable \"reject_value\" blob %s ]",
                   PARAMETERS, _i ? "010000" : hex);
    begin(LLADD_DTABLE_U32, NULL, config, 4096);
    m.packed = true;
    for (uint32_t i = 0; i < 4000; i++) {
        unsigned char room[96];
        struct lladd_dtable_key key = lladd_dtable_u32(i * 2 + 5);
        add(&key, i % 11 < 4 ? v[i % 11] : i % 500 == 7 ? lladd_dtable_tombstone()
                                                       : packed_row(i, room));
    }
    struct lladd_dtable *t = end();
    ck_assert_ptr_nonnull(t->kind->columns_at);
    copies_columns(t, 60);
    compare_and_close(t);
}
END_TEST

/* ---- configurations, codecs, versions -------------------------------------------------------- */

#define CONFIG(text) "class(dt) multicolumn_dtable config [ " text " ]"

START_TEST(configurations)
{
    static const char *const bad[] = {
        CONFIG("\"columns\" words [ \"u7\" ]"),
        CONFIG("\"columns\" words [ \"text\" ]"),
        CONFIG("\"columns\" words [ \"\" ]"),
        CONFIG("\"columns\" int 3"),
        CONFIG("\"key\" words [ \"16\" \"15\" ]"),
        CONFIG("\"key\" words [ \"0\" \"32\" ]"),
        CONFIG("\"key\" words [ \"65\" ]"),
        CONFIG("\"key\" words [ \"16\" \"u16\" ]"),
        CONFIG("\"key\" words [ \"u16\" \"16\" ]"),
        CONFIG("\"key\" words [ \"u16\" \"text12\" ]"),
        CONFIG("\"codecs\" words [ \"zip\" ]"),
        CONFIG("\"codecs\" words [ \"rle\" \"for\" \"rle\" ]"),
        CONFIG("\"rows\" int 1"),
        CONFIG("\"base\" class(dt) linear_dtable"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(tries(bad[i]) == LLADD_BAD_CONFIG, "%s", bad[i]);
        ck_assert_str_ne(b.err.message, "");
    }
    char many[4096] = "class(dt) multicolumn_dtable config [ \"columns\" words [";
    for (unsigned i = 0; i < 255; i++)
        strncat(many, " \"u64\"", sizeof many - strlen(many) - 1);
    strncat(many, " ] ]", sizeof many - strlen(many) - 1);
    ck_assert_int_eq(tries(many), LLADD_BAD_CONFIG);
    char *one_less = strstr(many, " \"u64\"");
    memset(one_less, ' ', strlen(" \"u64\""));
    ok_db(&b, tries(many));
    ok_db(&b, tries("class(dt) multicolumn_dtable"));
    ok_db(&b, tries(CONFIG("\"codecs\" words [ \"nop\" \"delta\" ]")));
    /* Rows of 254 columns fit into blocks of 8 KiB, not into the smallest blocks. */
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    o.type = LLADD_DTABLE_BYTES;
    o.text = many;
    o.block_bytes = 4096;
    txn = fixture_begin(&b);
    refuses(txn, LLADD_TOO_LARGE, lladd_dtable_run_begin(txn, &o, &run));
    o.block_bytes = 128 << 10;
    refuses(txn, LLADD_TOO_LARGE, lladd_dtable_run_begin(txn, &o, &run));
    o.block_bytes = 0;
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    rows_init(&m, LLADD_DTABLE_BYTES);
    for (uint32_t i = 0; i < 300; i++) {
        static unsigned char value[254 * 8];
        char key[16];
        for (size_t k = 0; k < sizeof value; k++)
            value[k] = (unsigned char)draw(256);
        (void)snprintf(key, sizeof key, "%u", 1000 + i);
        struct lladd_dtable_key k = lladd_dtable_bytes(key, strlen(key));
        add(&k, lladd_dtable_value_of(value, sizeof value));
    }
    compare_long_and_close(end());
}
END_TEST

/* Each codec alone can store any table, since "nop" is always there. */
START_TEST(codecs_alone)
{
    static const char *const configs[] = {
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] \"codecs\" words [ "
        "\"nop\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] \"codecs\" words [ "
        "\"for\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] \"codecs\" words [ "
        "\"rle\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] \"codecs\" words [ "
        "\"dict\" ] ]",
        "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] \"codecs\" words [ "
        "\"delta\" ] ]",
    };
    for (size_t c = 0; c < 5; c++) {
        begin(LLADD_DTABLE_U64, NULL, configs[c], 4096);
        for (uint32_t i = 0; i < 9000; i++) {
            unsigned char v[4];
            struct lladd_dtable_key key = lladd_dtable_u64(i * UINT64_C(3));
            lladd_put32(v, i < 4500 ? i / 700 : (uint32_t)draw(UINT32_MAX));
            add(&key, lladd_dtable_value_of(v, 4));
        }
        struct lladd_dtable *t = end();
        struct lladd_multicolumn_page page = {.struct_size = sizeof page};
        struct lladd_multicolumn_column columns[3];
        uint64_t rows = 0;
        for (uint64_t i = 0; i < lladd_multicolumn_pages(t); i++) {
            ok_db(&b, lladd_multicolumn_page_get(t, i, &page, columns, 3, &b.err));
            ck_assert_uint_eq(page.first, rows);
            ck_assert_uint_eq(page.columns, 2);
            ck_assert_uint_eq(page.key_fields, 1);
            ck_assert_uint_le(page.used, page.bytes);
            ck_assert_uint_eq(columns[0].min, rows * 3);
            rows += page.rows;
            ck_assert_uint_eq(columns[0].max, rows * 3 - 3);
        }
        ck_assert_uint_eq(rows, m.n);
        ck_assert_int_eq(lladd_multicolumn_page_get(t, lladd_multicolumn_pages(t), &page, columns,
                                                    3, &b.err),
                         LLADD_OUT_OF_RANGE);
        compare_and_close(t);
    }
}
END_TEST

/* A codec of the application's own: all numbers are even, and are stored halved, as u8. It counts
 * its calls. */
static uint32_t half_read, half_decoded;
static size_t half_plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    for (uint32_t i = 0; i < in->rows; i++) {
        uint64_t v = in->width == 4 ? ((const uint32_t *)in->values)[i] : UINT64_MAX;
        if (v % 2 || v > 510)
            return LLADD_CODEC_CANNOT;
    }
    p->segment = in->rows;
    p->exceptions = 0;
    p->own = 7;
    return p->segment;
}
static void half_encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                        unsigned char *segment, unsigned char *exceptions)
{
    (void)exceptions;
    for (uint32_t i = 0; i < p->segment; i++)
        segment[i] = (unsigned char)(((const uint32_t *)in->values)[i] / 2);
}
static bool half_check(const struct lladd_codec_segment *s)
{
    return s->len >= s->rows && s->own == 7 && s->width == 4;
}
static uint64_t half_at(const struct lladd_codec_segment *s, uint32_t row)
{
    half_read++;
    return 2u * s->data[row];
}
static void half_decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *out)
{
    half_decoded++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = 2u * s->data[from + i];
        memcpy((unsigned char *)out + 4 * i, &v, 4);
    }
}
static const struct lladd_codec half = {.struct_size = sizeof half,
                                        .name = "half",
                                        .version = 2,
                                        .plan = half_plan,
                                        .encode = half_encode,
                                        .check = half_check,
                                        .at = half_at,
                                        .decode = half_decode};
#define HALF \
    CONFIG("\"columns\" words [ \"u32\" \"u16\" ] \"codecs\" words [ \"half\" \"delta\" ]")

START_TEST(own_codec)
{
    struct lladd_codec other = half, incomplete = half;
    struct lladd_dtable *t;
    lladd_pageno root;
    incomplete.at = NULL;
    ck_assert_int_eq(tries(HALF), LLADD_BAD_CONFIG);
    ck_assert_int_eq(lladd_codec_add(b.db, &incomplete, &b.err), LLADD_BAD_REGISTRATION);
    ok_db(&b, lladd_codec_add(b.db, &half, &b.err));
    ok_db(&b, lladd_codec_add(b.db, &half, &b.err));
    ck_assert_int_eq(lladd_codec_add(b.db, &other, &b.err), LLADD_EXISTS);
    other.name = "for";
    ck_assert_int_eq(lladd_codec_add(b.db, &other, &b.err), LLADD_EXISTS);
    ck_assert_ptr_eq(lladd_codec_find(b.db, "half", 4), &half);
    ck_assert_ptr_null(lladd_codec_find(b.db, "hal", 3));
    begin(LLADD_DTABLE_U32, NULL, HALF, 4096);
    for (uint32_t i = 0; i < 9000; i++) {
        unsigned char v[6];
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        lladd_put32(v, i < 8000 ? 2 * (uint32_t)draw(256) : (uint32_t)draw(1000));
        lladd_put16(v + 4, (uint16_t)i);
        add(&key, lladd_dtable_value_of(v, 6));
    }
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    t = open_run(&b, root);
    struct lladd_multicolumn_page page = {.struct_size = sizeof page};
    struct lladd_multicolumn_column columns[3];
    ok_db(&b, lladd_multicolumn_page_get(t, 0, &page, columns, 3, &b.err));
    ck_assert_str_eq(columns[1].codec, "half");
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    compare_and_close(t);
    /* Without the codec, and with an older version of it. */
    fixture_close(&b);
    fixture_open(&b);
    ck_assert_int_eq(lladd_dtable_run_open(b.db, root, &t, &b.err), LLADD_BAD_CONFIG);
    other.name = "half";
    other.version = 1;
    ok_db(&b, lladd_codec_add(b.db, &other, &b.err));
    ck_assert_int_eq(lladd_dtable_run_open(b.db, root, &t, &b.err), LLADD_NEWER_FORMAT);
    ck_assert_ptr_nonnull(strstr(b.err.message, "codec half of version 2; 1 is known"));
    fixture_close(&b);
    fixture_open(&b);
}
END_TEST

/* Reads the values of all rows but the one that the cursor is at. */
static void scan_on(struct lladd_dtable_cursor *c, bool forward)
{
    struct lladd_dtable_value v;
    uint32_t n = 1;
    half_read = half_decoded = 0;
    while ((forward ? lladd_dtable_next(c, &b.err) : lladd_dtable_prev(c, &b.err)) == 0) {
        ok_db(&b, lladd_dtable_row(c, NULL, &v, &b.err));
        ck_assert_uint_eq(v.bytes.len, 6);
        n++;
    }
    ck_assert_uint_eq(n, m.n);
}

START_TEST(cursors_decode_groups)
{
    ok_db(&b, lladd_codec_add(b.db, &half, &b.err));
    begin(LLADD_DTABLE_U32, NULL, HALF, 4096);
    for (uint32_t i = 0; i < 5000; i++) {
        unsigned char v[6];
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        lladd_put32(v, 2 * (uint32_t)draw(256));
        lladd_put16(v + 4, (uint16_t)i);
        add(&key, lladd_dtable_value_of(v, 6));
    }
    struct lladd_dtable *t = end();
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_value v;
    struct lladd_multicolumn_page page = {.struct_size = sizeof page};
    uint32_t groups = 0;
    for (uint64_t i = 0; i < lladd_multicolumn_pages(t); i++) {
        ok_db(&b, lladd_multicolumn_page_get(t, i, &page, NULL, 0, &b.err));
        groups += (page.rows + 255) / 256;
    }
    ok_db(&b, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
    half_read = half_decoded = 0;
    ok_db(&b, lladd_dtable_first(c, &b.err));
    ok_db(&b, lladd_dtable_row(c, NULL, &v, &b.err));
    ck_assert_uint_eq(half_read, 1); /* the row of a seek is read alone */
    ck_assert_uint_eq(half_decoded, 0);
    for (int forward = 1; forward >= 0; forward--) {
        scan_on(c, forward);
        ck_assert_uint_eq(half_read, 0);
        ck_assert_uint_eq(half_decoded, groups);
        ok_db(&b, lladd_dtable_last(c, &b.err));
    }
    lladd_dtable_cursor_close(c);
    compare_and_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("multicolumn");
    TCase *tc = tcase_create("multicolumn");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, weather, 0, 2);
    tcase_add_test(tc, fields_of_number_keys);
    tcase_add_test(tc, keys_of_other_lengths);
    tcase_add_test(tc, longest_keys);
    tcase_add_test(tc, another_order);
    tcase_add_test(tc, packed_rows);
    tcase_add_test(tc, one_column);
    tcase_add_test(tc, whole_values);
    tcase_add_test(tc, what_does_not_fit_is_rejected);
    tcase_add_test(tc, exceptions_are_kept);
    tcase_add_loop_test(tc, columns_of_exceptions, 0, 2);
    tcase_add_test(tc, configurations);
    tcase_add_test(tc, codecs_alone);
    tcase_add_test(tc, own_codec);
    tcase_add_test(tc, cursors_decode_groups);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
