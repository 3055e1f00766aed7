/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of single classes; test_model.c checks those that all classes have. Values are stored
 * only once, in fewer bytes, or are cached. Some values are rejected. Configurations with a layer
 * in a wrong position are refused.
 */
#include "model.h"
#include "texts.h"

#include <lladd/bytes.h>
#include <stdio.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

static uint64_t bytes_of(const struct lladd_dtable *t)
{
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    return info.bytes;
}

/* Builds and opens a run of rows 0, 1, ... n - 1. `make` writes the value of a row into the room
 * and returns its length, or UINT32_MAX for a tombstone. The run must reject row `stop`, and it
 * ends before this row. If `stop` is n, the run must reject no row. */
static struct lladd_dtable *made(const char *config, uint32_t n, uint32_t stop,
                                 uint32_t (*make)(uint32_t i, unsigned char *room))
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, config);
    lladd_pageno root;
    for (uint32_t i = 0; i < n; i++) {
        static unsigned char room[100000];
        uint32_t len = make(i, room);
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        struct lladd_dtable_value v =
            len == UINT32_MAX ? lladd_dtable_tombstone() : lladd_dtable_value_of(room, len);
        if (i == stop) {
            refuses(txn, LLADD_REJECTED, lladd_dtable_run_add(run, &key, &v));
            break;
        }
        ok(txn, lladd_dtable_run_add(run, &key, &v));
    }
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    return open_run(&b, root);
}

/* Checks that the table has the rows that `made` made, by lookups, and by a cursor in both
 * directions. */
static void has(const struct lladd_dtable *t, uint32_t n,
                uint32_t (*make)(uint32_t i, unsigned char *room))
{
    static unsigned char room[100000];
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_cursor *c;
    ok_db(&b, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
    for (uint32_t i = 0; i < 3 * n; i++) {
        struct lladd_dtable_value v;
        uint32_t at = i < 2 * n ? i % n : 3 * n - 1 - i, len = make(at, room);
        struct lladd_dtable_key key = lladd_dtable_u32(at);
        if (i < n) {
            ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
        } else {
            int rc = i < 2 * n    ? lladd_dtable_next(c, &b.err)
                     : i == 2 * n ? lladd_dtable_last(c, &b.err)
                                  : lladd_dtable_prev(c, &b.err);
            ok_db(&b, rc);
            ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
            ck_assert_uint_eq(key.number, at);
        }
        ck_assert_int_eq(v.state, len == UINT32_MAX ? LLADD_DTABLE_TOMBSTONE : LLADD_DTABLE_FOUND);
        if (len != UINT32_MAX) {
            ck_assert_uint_eq(v.bytes.len, len);
            ck_assert(len == 0 || memcmp(v.bytes.data, room, len) == 0);
        }
    }
    lladd_dtable_unpin(&pin);
    lladd_dtable_cursor_close(c);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
}

static void refused(const char *config, const char *why)
{
    struct lladd_dtable_config *c;
    ck_assert_int_eq(lladd_dtable_config_parse(b.db, config, &c, &b.err), LLADD_BAD_CONFIG);
    ck_assert_msg(strstr(b.err.message, why) != NULL, "%s", b.err.message);
}

/* ---- unique strings -------------------------------------------------------------------------- */

/* Ten long values are repeated. One row in 13 has a short value that no other row has. */
static uint32_t popular(uint32_t i, unsigned char *room)
{
    if (i % 13 == 5)
        return (uint32_t)snprintf((char *)room, 40, "the only %u", i);
    seeded_fill(i % 10, room, 510);
    return 500 + i % 10;
}

static uint32_t each_its_own(uint32_t i, unsigned char *room)
{
    lladd_put32(room, i);
    return 4;
}

/* Values of 0, 9000, 9001 and 90000 bytes. A window of 100000 bytes remembers no value of 90000
 * bytes. */
static uint32_t longer(uint32_t i, unsigned char *room)
{
    uint32_t len = i % 3 ? 9000 + i % 2 : 90000;
    seeded_fill(i % 6, room, len);
    return i % 7 == 6 ? 0 : len;
}

START_TEST(strings_are_stored_once)
{
    enum { N = 5000 };
    static const char *const configs[] = {
        "class(dt) ustring_dtable config [ \"base\" class(dt) array_dtable ]",
        "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable \"bytes\" int 0 ]",
        ("class(dt) ustring_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" config "
         "[ \"value_size\" int 2 ] \"window_bytes\" int 8000 ]"),
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct lladd_dtable *t = made(configs[i], N, N, popular);
        has(t, N, popular);
        /* The ten long values have about 505 bytes each, and the 385 other values about 13. Each
         * row also takes a number and a key. */
        ck_assert_uint_le(bytes_of(t), 10 * 510 + 385 * 20 + N * 8 + 1000);
        lladd_dtable_close(t);
    }
    struct lladd_dtable *plain = made("class(dt) linear_dtable", N, N, popular);
    ck_assert_uint_ge(bytes_of(plain), N / 13 * 12 * 500);
    lladd_dtable_close(plain);
    struct lladd_dtable *t = made(
        "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable ]", 40, 40, longer);
    has(t, 40, longer);
    lladd_dtable_close(t);
    t = made("class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable "
             "\"window_bytes\" int 100000 ]",
             40, 40, longer);
    has(t, 40, longer);
    lladd_dtable_close(t);
}
END_TEST

/* A value that the builder has forgotten is stored again. That is the only cost of forgetting. */
START_TEST(forgotten_strings_are_stored_again)
{
    static const char config[] =
        "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable \"window_bytes\" int "
        "%d ]";
    uint64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        char text[200];
        snprintf(text, sizeof text, config, i == 0 ? 0 : i == 1 ? 3000 : 100000);
        struct lladd_dtable *t = made(text, 2000, 2000, popular);
        has(t, 2000, popular);
        bytes[i] = bytes_of(t);
        lladd_dtable_close(t);
    }
    ck_assert_uint_ge(bytes[0], 2000 / 13 * 12 * 500);
    ck_assert_uint_gt(bytes[0] * 2, bytes[1]);
    ck_assert_uint_gt(bytes[1], bytes[2]);
}
END_TEST

/* When the numbers run out, new values are rejected. A value that has a number is stored, and so is
 * the placeholder of a layer above. */
START_TEST(numbers_run_out)
{
    static const char small[] = "class(dt) ustring_dtable config [ \"base\" class(dt) "
                                "fixed_dtable \"bytes\" int 1 ]";
    static const char above[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) ustring_dtable \"base_config\" "
        "config [ \"base\" class(dt) array_dtable \"bytes\" int 1 \"window_bytes\" int 500 ] "
        "\"alt\" class(dt) linear_dtable \"reject_value\" string \"(it is elsewhere)\" ]";
    struct lladd_dtable *t = made(small, 1000, 256, each_its_own);
    has(t, 256, each_its_own);
    lladd_dtable_close(t);
    t = made(above, 1000, 1000, each_its_own);
    has(t, 1000, each_its_own);
    lladd_dtable_close(t);
    static const char *const values[] = {"a", "(it is elsewhere)", "(gone)", "", "a", NULL};
    t = run_of(&b, above, 3, values);
    for (uint32_t i = 0; values[i]; i++) {
        char text[64] = "(gone)";
        (void)state_of(&b, t, 3 + i, text);
        ck_assert_str_eq(text, values[i]);
    }
    lladd_dtable_close(t);
    refused("class(dt) ustring_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" "
            "config [ \"value_size\" int 5 ] ]",
            "its base has values of 5 bytes, and numbers have 4");
    refused("class(dt) exception_dtable config [ \"base\" class(dt) ustring_dtable "
            "\"base_config\" config [ \"base\" class(dt) empty_dtable ] \"alt\" class(dt) "
            "linear_dtable \"reject_value\" string \"\" ]",
            "cannot store the reject_value");
}
END_TEST

/* lladd_dtable_accepts rejects a value if the base cannot store numbers. */
START_TEST(unique_strings_without_numbers)
{
    struct lladd_dtable_config *c;
    struct lladd_dtable_value v = lladd_dtable_value_of("text", 4);
    static const char *const configs[] = {
        "class(dt) ustring_dtable config [ \"base\" class(dt) empty_dtable ]",
        "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable ]"};
    for (int i = 0; i < 2; i++) {
        ok_db(&b, lladd_dtable_config_parse(b.db, configs[i], &c, &b.err));
        ck_assert_int_eq(lladd_dtable_accepts(c, &v, &b.err), i ? 0 : LLADD_DTABLE_REJECT);
        lladd_dtable_config_free(c);
    }
}
END_TEST

/* ---- differences ----------------------------------------------------------------------------- */

/* Time stamps. Each hundredth is far from the others, and each seventh is deleted. From row 1683 on
 * the time stamps exceed 2^32 and wrap around. */
static uint32_t stamps(uint32_t i, unsigned char *room)
{
    lladd_put32(room, 4294900000u + i * 40 + (i % 100 == 99 ? 1u << 30 : 0));
    return i % 7 == 3 ? UINT32_MAX : 4;
}

static const char figure9[] =
    "class(dt) deltaint_dtable config [ \"skip_count\" int %d \"base\" class(dt) exception_dtable "
    "\"base_config\" config [ \"base\" class(dt) smallint_dtable \"base_config\" config [ "
    "\"bytes\" int 1 \"base\" class(dt) array_dtable ] \"alt\" class(dt) fixed_dtable "
    "\"reject_value\" blob ff000000 ] ]";

/* Differences wrap around, and there are tombstones between the numbers. The configuration is that
 * of the Anvil paper's figure 9. */
START_TEST(differences_wrap_around)
{
    enum { N = 3000 };
    static const int skips[] = {1, 2, 16, 1000, 1 << 20};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof skips / sizeof skips[0]; i++) {
        char text[600];
        snprintf(text, sizeof text, figure9, skips[i]);
        struct lladd_dtable *t = made(text, N, N, stamps);
        has(t, N, stamps);
        bytes = bytes_of(t);
        lladd_dtable_close(t);
    }
    /* Each row has a state byte and a difference of one byte. For each far value, two
     * differences need more. */
    ck_assert_uint_le(bytes, N * 2 + N / 100 * 2 * 16 + 1000);
    refused("class(dt) deltaint_dtable config [ \"base\" class(dt) exist_dtable \"base_config\" "
            "config [ \"base\" class(dt) linear_dtable \"tombstones\" class(dt) linear_dtable ] ]",
            "rows of its base have no places");
    refused("class(dt) deltaint_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" "
            "config [ \"value_size\" int 3 ] ]",
            "values of 3 bytes, not 4");
    refused("class(dt) deltaint_dtable config [ \"base\" class(dt) empty_dtable ]",
            "cannot store a difference of 0");
}
END_TEST

/* The differences before and after a placeholder are not known, so the base must be able to store
 * any number. */
START_TEST(placeholders_of_differences)
{
    static const char text[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) deltaint_dtable \"base_config\" "
        "config [ \"base\" class(dt) %s ] \"alt\" class(dt) linear_dtable \"reject_value\" blob "
        "00000001 ]";
    static const char *const values[] = {"1234", "56", "1235", "(gone)", "(none)", "", "9", NULL};
    char full[400];
    snprintf(full, sizeof full, text, "fixed_dtable");
    struct lladd_dtable *t = run_of(&b, full, 100, values);
    for (uint32_t i = 0; values[i]; i++) {
        char found[64] = "(none)";
        enum lladd_dtable_state state = state_of(&b, t, 100 + i, found);
        ck_assert_str_eq(state == LLADD_DTABLE_TOMBSTONE ? "(gone)" : found, values[i]);
    }
    lladd_dtable_close(t);
    snprintf(full, sizeof full, text,
             "smallint_dtable \"base_config\" config [ \"base\" class(dt) fixed_dtable \"bytes\" "
             "int 3 ]");
    refused(full, "cannot store the reject_value");
    snprintf(full, sizeof full, text,
             "array_dtable \"base_config\" config [ \"tag_byte\" bool false \"hole_value\" blob "
             "ffffffff ]");
    refused(full, "cannot store the reject_value");
}
END_TEST

/* Cursors and lookups do not disturb each other. */
START_TEST(two_cursors)
{
    enum { N = 500 };
    char text[600];
    unsigned char room[8];
    snprintf(text, sizeof text, figure9, 7);
    struct lladd_dtable *t = made(text, N, N, stamps);
    struct lladd_dtable_cursor *c[2];
    for (int i = 0; i < 2; i++)
        ok_db(&b, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c[i], &b.err));
    for (uint32_t i = 0; i < 2 * N; i++) {
        uint32_t at = i % 2 ? N - 1 - i / 2 : i / 2;
        struct lladd_dtable_value v;
        ok_db(&b, i % 2 ? lladd_dtable_prev(c[1], &b.err) : lladd_dtable_next(c[0], &b.err));
        (void)state_of(&b, t, (i * 37) % N, (char[64]){0});
        ok_db(&b, lladd_dtable_row(c[i % 2], NULL, &v, &b.err));
        uint32_t len = stamps(at, room);
        ck_assert_int_eq(v.state, len == UINT32_MAX ? LLADD_DTABLE_TOMBSTONE : LLADD_DTABLE_FOUND);
        ck_assert(len == UINT32_MAX || memcmp(v.bytes.data, room, 4) == 0);
        if (i == 0) /* moves the second cursor after the last row */
            ck_assert_int_eq(lladd_dtable_last(c[1], &b.err), 0);
        if (i == 0)
            ck_assert_int_eq(lladd_dtable_next(c[1], &b.err), LLADD_END);
    }
    lladd_dtable_cursor_close(c[0]);
    lladd_dtable_cursor_close(c[1]);
    lladd_dtable_close(t);
}
END_TEST

/* ---- cached rows ----------------------------------------------------------------------------- */

/* A table that counts its lookups, and can be made to fail. */
static struct {
    uint64_t asked;
    int fails;
} below;
static int counted(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                   struct lladd_error *err)
{
    below.asked++;
    if (below.fails)
        return lladd_error_set(err, below.fails, "it was to fail");
    return lladd_dtable_ask(t->base, key, pin, out, err);
}
static const struct lladd_dtable_param counting_params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "below"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};
static const struct lladd_dtable_class counting = {
    .struct_size = sizeof counting,
    .name = "counting_dtable",
    .version = 1,
    .params = counting_params,
    .lookup = counted,
};
static const char cached[] =
    "class(dt) cache_dtable config [ \"cache_size\" int %d \"cache_bytes\" int %d \"base\" "
    "class(dt) counting_dtable \"base_config\" config [ \"base\" class(dt) linear_dtable ] ]";

/* The cache keeps an absent row as absent, not as a tombstone. An error is not cached. */
START_TEST(rows_that_a_cache_keeps)
{
    static const char *const values[] = {"one", "(gone)", "", "(none)", "five", NULL};
    char config[300], text[64];
    ok_db(&b, lladd_dtable_class_add(b.db, &counting, &b.err));
    snprintf(config, sizeof config, cached, 100, 100000);
    struct lladd_dtable *t = run_of(&b, config, 1, values);
    below.fails = LLADD_READ_FAILED;
    struct lladd_dtable_key five = lladd_dtable_u32(5);
    ck_assert_int_eq(lladd_dtable_get(t, &five, NULL, 0, NULL, &b.err), LLADD_READ_FAILED);
    below.fails = 0;
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; values[i]; i++) {
            strcpy(text, "(none)");
            enum lladd_dtable_state state = state_of(&b, t, 1 + i, text);
            ck_assert_int_eq(state, i == 1   ? LLADD_DTABLE_TOMBSTONE
                                    : i == 3 ? LLADD_DTABLE_ABSENT
                                             : LLADD_DTABLE_FOUND);
            ck_assert_str_eq(i == 1 ? "(gone)" : text, values[i]);
        }
    ck_assert_uint_eq(below.asked, 5 + 1);
    lladd_dtable_close(t);
    static const char *const cells[] = {"ab", "(gone)", "(none)", "cd", NULL};
    t = run_of(&b, "class(dt) cache_dtable config [ \"base\" class(dt) array_dtable ]", 1, cells);
    for (int round = 0; round < 2; round++) /* the second time from the cache */
        ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
}
END_TEST

/* The cache keeps the rows used last, at most the configured number of rows and of bytes. */
START_TEST(a_cache_has_limits)
{
    enum { N = 400 };
    char config[300];
    ok_db(&b, lladd_dtable_class_add(b.db, &counting, &b.err));
    snprintf(config, sizeof config, cached, 10, 100000);
    struct lladd_dtable *t = made(config, N, N, each_its_own);
    below.asked = 0;
    for (uint32_t i = 0; i < N; i++) { /* row 0 is always among the last ten */
        (void)state_of(&b, t, 0, NULL);
        (void)state_of(&b, t, i, NULL);
    }
    ck_assert_uint_eq(below.asked, N);
    for (uint32_t i = N - 1; i > N - 10; i--)
        (void)state_of(&b, t, i, NULL);
    ck_assert_uint_eq(below.asked, N);
    (void)state_of(&b, t, N - 11, NULL);
    ck_assert_uint_eq(below.asked, N + 1);
    lladd_dtable_close(t);
    uint64_t held[2];
    for (int i = 0; i < 2; i++) { /* the cache may use no bytes, or 20000 */
        snprintf(config, sizeof config, cached, 1 << 10, i ? 20000 : 0);
        t = made(config, 700, 700, longer);
        lladd_dtable_cache_limit(b.db, 300000);
        has(t, 700, longer);
        held[i] = fault_alloc_bytes(&b.mem);
        lladd_dtable_close(t);
    }
    ck_assert_uint_le(held[1], held[0] + 20000 + 2 * 4104); /* two blocks more at most */
}
END_TEST

/* ---- keys ------------------------------------------------------------------------------------ */

/* Most neighbouring keys have the same distance; now and then the distance is another one. Absent
 * keys near the present ones are not found. */
START_TEST(even_keys)
{
    enum { N = 20000 };
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run =
        begin_run(txn, LLADD_DTABLE_U64, "class(dt) fixed_dtable config [ \"value_size\" int 0 ]");
    struct lladd_dtable_value v = lladd_dtable_value_of("", 0);
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    lladd_pageno root;
    static uint64_t keys[N];
    uint64_t key = UINT64_MAX - UINT64_C(70000) * N;
    for (uint32_t i = 0; i < N; i++) {
        uint64_t step = i < 5000 ? 1 : i < 10000 ? 7 : i < 15000 ? 65535 : 65536;
        key += i % 2500 == 1234 ? 3 : step;
        keys[i] = key;
        struct lladd_dtable_key k = lladd_dtable_u64(key);
        ok(txn, lladd_dtable_run_add(run, &k, &v));
    }
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    for (uint32_t i = 0; i < N; i++)
        for (int near = -1; near <= 1; near++) {
            struct lladd_dtable_key k = lladd_dtable_u64(keys[i] + (uint64_t)(int64_t)near);
            bool there = near == 0 || (i < N - 1 && near > 0 && keys[i + 1] == k.number) ||
                         (i > 0 && near < 0 && keys[i - 1] == k.number);
            ok_db(&b, lladd_dtable_lookup(t, &k, &pin, &v, &b.err));
            ck_assert_int_eq(v.state, there ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT);
        }
    lladd_dtable_unpin(&pin);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    /* The last quarter takes at most four bytes a key; the other keys are in at most 14 blocks. */
    ck_assert_uint_le(bytes_of(t), N / 4 * 4 + 14 * 4064);
    lladd_dtable_close(t);
}
END_TEST

static uint32_t eight(uint32_t i, unsigned char *room)
{
    lladd_put64(room, i);
    return 8;
}

/* Consecutive keys with values of one size take at most a page besides the values. */
START_TEST(even_keys_of_even_values)
{
    enum { N = 40000 };
    struct lladd_dtable *t = made("class(dt) linear_dtable", N, N, eight);
    ck_assert_uint_le(bytes_of(t), 8 * N + 4096);
    has(t, N, eight);
    lladd_dtable_close(t);
}
END_TEST

/* ---- indexes, filters ------------------------------------------------------------------------ */

/* In a leaf, a key takes no byte, or one, two, four or eight. There are empty and long values, and
 * tombstones. The bases are with marks, without marks, and with holes. */
START_TEST(leaves_of_all_widths)
{
#define BESIDE " \"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ] "
#define INDEXED "class(dt) btree_dtable config [ \"base\" class(dt) "
#define ABOVE "class(dt) exception_dtable config [ \"base\" class(dt) "
    static const char *const configs[] = {
        INDEXED "linear_dtable ]",
        (INDEXED "exception_dtable \"base_config\" config [ \"base\" class(dt) fixed_dtable" BESIDE
                 "]"),
        ABOVE "btree_dtable \"base_config\" config [ \"base\" class(dt) fixed_dtable ]" BESIDE,
        (ABOVE "btree_dtable \"base_config\" config [ \"base\" class(dt) array_dtable "
               "\"base_config\" config [ \"holes_per_row\" int 400 ] ]" BESIDE)};
    static const uint64_t gaps[] = {1, 3, 300, 1000000, UINT64_C(1) << 50};
    size_t n_configs = sizeof configs / sizeof configs[0];
    for (size_t c = 0; c < n_configs; c++)
        for (size_t g = 0; g < (c == 3 ? 3 : sizeof gaps / sizeof gaps[0]); g++) {
            struct shape shape = {LLADD_DTABLE_U64, 3000, 17, gaps[g], 9, false};
            struct model m;
            lladd_pageno root;
            rows_init(&m, shape.type);
            struct lladd_dtable *t = rows_run(&b, &m, configs[c], &shape, 10 * c + g, &root);
            ck_assert_ptr_nonnull(t);
            ck_assert_uint_eq(m.n, shape.rows);
            rows_check(&m, t, g, 1000);
            ok_db(&b, lladd_dtable_run_check(t, &b.err));
            lladd_dtable_close(t);
            rows_free(&m);
        }
}
END_TEST

/* Most values have five bytes. One in 61 has seven, one in 97 has none, and one in 89 is a
 * tombstone. */
static uint32_t about_five(uint32_t i, unsigned char *room)
{
    memcpy(room, "pandora", 7);
    lladd_put32(room, i);
    return i % 89 == 7 ? UINT32_MAX : i % 97 == 0 ? 0 : i % 61 == 60 ? 7 : 5;
}

static uint32_t of_any_size(uint32_t i, unsigned char *room)
{
    lladd_put64(room, i);
    return i * 2654435761u % 9;
}

/* An index of consecutive keys takes at most four or five bytes a key, and at most half a byte if
 * all values have one size. */
START_TEST(even_leaves)
{
    enum { N = 40000 };
    static const struct {
        const char *base;
        uint32_t (*make)(uint32_t i, unsigned char *room);
        uint64_t most;
    } cases[] = {{"linear_dtable", eight, N / 2},
                 {"fixed_dtable", eight, N / 2},
                 {"linear_dtable", about_five, UINT64_C(4) * N},
                 {"linear_dtable", of_any_size, UINT64_C(5) * N}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char config[64], index[128];
        (void)snprintf(config, sizeof config, "class(dt) %s", cases[i].base);
        (void)snprintf(index, sizeof index, INDEXED "%s ]", cases[i].base);
        struct lladd_dtable *without = made(config, N, N, cases[i].make);
        struct lladd_dtable *with = made(index, N, N, cases[i].make);
        ck_assert_uint_le(bytes_of(with), bytes_of(without) + cases[i].most);
        has(without, N, cases[i].make);
        has(with, N, cases[i].make);
        lladd_dtable_close(without);
        lladd_dtable_close(with);
    }
}
END_TEST

/* After lookups of many present keys, lookups skip the filter. Absent keys are still not found. */
START_TEST(lookups_skip_a_useless_filter)
{
    enum { N = 4000 };
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable *t =
        made("class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]", N, N, eight);
    for (int round = 0; round < 3; round++) {
        has(t, N, eight);
        for (uint32_t i = N; i < 2 * N; i++) {
            struct lladd_dtable_key key = lladd_dtable_u32(i);
            struct lladd_dtable_value v;
            ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
            ck_assert_int_eq(v.state, LLADD_DTABLE_ABSENT);
        }
    }
    lladd_dtable_unpin(&pin);
    lladd_dtable_close(t);
}
END_TEST

/* ---- compressed ------------------------------------------------------------------------------ */

/* The values are words as in a log. One row in eleven has a value of another length. */
static uint32_t words(uint32_t i, unsigned char *room)
{
    static const char *const word[] = {"committed", "aborted", "transaction", "page", "waiting"};
    uint64_t r = i;
    int len = 0;
    for (int w = 0; w < 10; w++)
        len += snprintf((char *)room + len, 20, "%s ", word[seeded_next(&r) % 5]);
    if (i % 11)
        memset(room + len, ' ', (size_t)(140 - len));
    return i % 11 ? 140 : (uint32_t)len;
}

static uint32_t noise(uint32_t i, unsigned char *room)
{
    seeded_fill(i, room, 140);
    return 140;
}

/* A run has several extents, so a block's pages need not be contiguous. Incompressible data is
 * stored as it is. */
START_TEST(compressed)
{
    enum { N = 20000 };
    static const char *const configs[] = {
        "class(dt) linear_dtable",
        "class(dt) compress_dtable config [ \"base\" class(dt) linear_dtable ]",
        "class(dt) compress_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
        "config [ \"base\" class(dt) array_dtable \"alt\" class(dt) linear_dtable "
        "\"reject_value\" string \"________________________________________________________________"
        "____________________________________________________________________________\" ] ]",
    };
    uint64_t bytes[2][3];
    for (int i = 0; i < 3; i++) {
        struct lladd_dtable *t = made(configs[i], N, N, words);
        has(t, N, words);
        bytes[0][i] = bytes_of(t);
        lladd_dtable_close(t);
        t = made(configs[i], 3000, 3000, noise);
        has(t, 3000, noise);
        bytes[1][i] = bytes_of(t);
        lladd_dtable_close(t);
    }
    ck_assert_uint_le(bytes[0][1], bytes[0][0] / 3);
    ck_assert_uint_ge(bytes[0][1], 256 << 10); /* these are more bytes than are staged, so the run
                                                * has several extents */
    ck_assert_uint_le(bytes[0][2], bytes[0][0] / 3);
    ck_assert_uint_le(bytes[1][1], bytes[1][0] + bytes[1][0] / 100);
    /* Each row has a state byte, and no cell crosses the end of a block. */
    ck_assert_uint_le(bytes[1][2], bytes[1][0] + bytes[1][0] / 20);
}
END_TEST

/* ---- the shortest form ----------------------------------------------------------------------- */

static uint32_t always(uint32_t i, unsigned char *room)
{
    (void)i;
    memcpy(room, "aoife", 5);
    return 5;
}
static uint32_t seldom(uint32_t i, unsigned char *room)
{
    bool seven = i * 2654435761u % 500 == 7;
    memcpy(room, seven ? "pandora" : "aoife", seven ? 7 : 5);
    return seven ? 7 : 5;
}
static uint32_t in_runs(uint32_t i, unsigned char *room)
{
    seeded_fill(i / 100, room, 30);
    return i / 100 % 3 * 15;
}
/* Numbers that differ in ten bits. One in fifty is far from the others, and one in a hundred is a
 * word. */
static uint32_t near(uint32_t i, unsigned char *room)
{
    lladd_put64(room, UINT64_C(1) << 40 | i * 2654435761u >> 22);
    if (i % 50 == 9)
        seeded_fill(i, room, 8);
    if (i % 100 == 77)
        memcpy(room, "no number", 9);
    return i % 100 == 77 ? 9 : 8;
}
static uint32_t clock_of(uint32_t i, unsigned char *room)
{
    lladd_put64(room, UINT64_MAX - 900000 + i * 60 + i * 2654435761u % 13);
    return 8;
}
static uint32_t mixed(uint32_t i, unsigned char *room)
{
    switch (i / 500 % 8) {
    case 0:
        return popular(i, room);
    case 1:
        return near(i, room);
    case 2:
        return stamps(i, room);
    case 3:
        return i % 100 ? words(i, room) : longer(i, room);
    case 4:
        return in_runs(i, room);
    case 5:
        return clock_of(i, room);
    case 6:
        return always(i, room);
    default:
        return each_its_own(i, room);
    }
}

/* 20000 rows take about as many bytes as in the best form. 3000 rows have the same contents in
 * every other form. */
START_TEST(the_shortest_form_is_used)
{
    enum { N = 20000, OVERHEAD = 20 * 64 + 3 * 4064 };
    static const struct {
        uint32_t (*make)(uint32_t, unsigned char *);
        uint32_t bytes; /* about */
        const char *form;
    } kinds[] = {
        {always, 20 * 5, "constant"},
        {seldom, N / 8, "dictionary"},
        {in_runs, N / 100 * 21, "runs"},
        {near, N / 8 * 11 + N / 50 * 13 + N / 100 * 12, "numbers"},
        {clock_of, N / 8 * 8 + N / 4, "deltas"},
        {noise, N * 140, "plain"},
        {mixed, 0, NULL},
    };
    static const char *const forms[] = {"constant", "runs",       "numbers",
                                        "deltas",   "dictionary", "plain"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct lladd_dtable *t = made("class(dt) auto_dtable", N, N, kinds[k].make);
        uint64_t best = bytes_of(t);
        has(t, N, kinds[k].make);
        if (kinds[k].bytes)
            ck_assert_msg(best <= kinds[k].bytes + OVERHEAD, "%s: %llu", kinds[k].form,
                          (unsigned long long)best);
        lladd_dtable_close(t);
        for (size_t f = 0; f < 6; f++) {
            char config[100];
            snprintf(config, sizeof config,
                     "class(dt) auto_dtable config [ \"encodings\" words [ "
                     "\"%s\" ] ]",
                     forms[f]);
            t = made(config, 3000, 3000, kinds[k].make);
            has(t, 3000, kinds[k].make);
            lladd_dtable_close(t);
            if (!kinds[k].form || strcmp(kinds[k].form, forms[f]) != 0)
                continue;
            t = made(config, N, N, kinds[k].make); /* the form that was chosen */
            ck_assert_uint_le(best, bytes_of(t));
            ck_assert_uint_ge(best + OVERHEAD, bytes_of(t));
            lladd_dtable_close(t);
        }
    }
    refused("class(dt) auto_dtable config [ \"encodings\" words [ \"plain\" \"fast\" ] ]",
            "encodings are constant, runs, numbers, deltas, dictionary, plain");
}
END_TEST

/* ---- tables side by side --------------------------------------------------------------------- */

/* The array has no state bytes, so a second table stores the tombstones. */
START_TEST(tombstones_in_a_second_table)
{
    static const char config[] =
        "class(dt) exist_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config [ "
        "\"tag_byte\" bool false \"hole_value\" string \"--\" ] \"tombstones\" class(dt) "
        "linear_dtable ]";
    static const char *const values[] = {"(gone)", "ab",     "(gone)", "(none)",
                                         "cd",     "(none)", "(gone)", NULL};
    struct lladd_dtable *t = run_of(&b, config, 50, values), *old, *both[2], *over;
    uint64_t places;
    ck_assert(!lladd_dtable_places(t, &places));
    static const char *const olds[] = {"x", "x", "x", "x", "x", "x", "x", "x", NULL};
    old = run_of(&b, "class(dt) linear_dtable", 50, olds);
    both[0] = t;
    both[1] = old;
    ok_db(&b, lladd_dtable_overlay(b.db, both, 2, &over, &b.err));
    for (uint32_t i = 0; i < 8; i++) {
        char text[64] = "(gone)";
        (void)state_of(&b, over, 50 + i, text);
        ck_assert_str_eq(text, !values[i] || !strcmp(values[i], "(none)") ? "x" : values[i]);
        if (!values[i])
            break;
    }
    lladd_dtable_close(over);
    lladd_dtable_close(t);
    lladd_dtable_close(old);
    refused("class(dt) exist_dtable config [ \"base\" class(dt) linear_dtable \"tombstones\" "
            "class(dt) empty_dtable ]",
            "the layer given as \"tombstones\" cannot store tombstones");
    refused("class(dt) btree_dtable config [ \"base\" class(dt) exist_dtable \"base_config\" "
            "config [ \"base\" class(dt) linear_dtable \"tombstones\" class(dt) linear_dtable ] ]",
            "rows of its base have no places");
}
END_TEST

#define KEYDIV(below, from, divider) \
    "class(dt) keydiv_dtable config [ \"below\" class(dt) " below " \"from\" class(dt) " from \
    " \"divider\" " divider " ]"

/* Keys from the divider on go to "from". Two dividers make three ranges. */
START_TEST(ranges)
{
    static const char three[] =
        "class(dt) keydiv_dtable config [ \"below\" class(dt) array_dtable \"divider\" int 100 "
        "\"from\" class(dt) keydiv_dtable \"from_config\" config [ \"below\" class(dt) "
        "linear_dtable \"from\" class(dt) array_dtable \"divider\" int 200 ] ]";
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, three);
    lladd_pageno root;
    uint64_t places;
    ok(txn, add_text(run, 95, "a"));
    ok(txn, add_text(run, 99, "b")); /* an array from 95 to 99 */
    ok(txn, add_text(run, 100, "long"));
    ok(txn, add_text(run, 199, ""));
    ok(txn, add_text(run, 200, "cc"));
    refuses(txn, LLADD_REJECTED, add_text(run, 201, "c"));
    ok(txn, add_text(run, 202, "dd"));
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    ck_assert(lladd_dtable_places(t, &places));
    ck_assert_uint_eq(places, 5 + 2 + 3);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
    refused("class(dt) keydiv_dtable config [ \"below\" class(dt) linear_dtable \"from\" class(dt) "
            "linear_dtable ]",
            "a divider, or divider_bytes");
    refused(KEYDIV("linear_dtable", "linear_dtable", "int 5 \"divider_bytes\" string \"5\""),
            "a divider, or divider_bytes");
    refused(KEYDIV("array_dtable", "linear_dtable", "int -5"), "no type of keys suits");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.classes");
    TCase *tc = tcase_create("classes");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, strings_are_stored_once);
    tcase_add_test(tc, forgotten_strings_are_stored_again);
    tcase_add_test(tc, numbers_run_out);
    tcase_add_test(tc, unique_strings_without_numbers);
    tcase_add_test(tc, differences_wrap_around);
    tcase_add_test(tc, placeholders_of_differences);
    tcase_add_test(tc, two_cursors);
    tcase_add_test(tc, rows_that_a_cache_keeps);
    tcase_add_test(tc, a_cache_has_limits);
    tcase_add_test(tc, even_keys);
    tcase_add_test(tc, even_keys_of_even_values);
    tcase_add_test(tc, leaves_of_all_widths);
    tcase_add_test(tc, even_leaves);
    tcase_add_test(tc, lookups_skip_a_useless_filter);
    tcase_add_test(tc, compressed);
    tcase_add_test(tc, the_shortest_form_is_used);
    tcase_add_test(tc, tombstones_in_a_second_table);
    tcase_add_test(tc, ranges);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
