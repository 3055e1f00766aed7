/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * versions_dtable: an older version of a table, stored as its difference from a newer table. The
 * older version is compared with a model, by lookups, by cursors in both directions, and column by
 * column, also over several versions of one table.
 */
#include "model.h"
#include "texts.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

#define LINEAR "class(dt) linear_dtable"
#define OVER(base) "class(dt) versions_dtable config [ \"base\" " base " \"absent\" " LINEAR " ]"

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

/* ---- rows ------------------------------------------------------------------------------------ */

/* A version: for each key 0 (no row), 1 (a tombstone), or the number of a value. */
enum { KEYS = 400, NONE = 0, GONE = 1 };
struct rows {
    uint32_t number[KEYS];
};

static bool text_keys;
static struct lladd_dtable_key key_of(uint32_t i, char room[16])
{
    if (!text_keys)
        return lladd_dtable_u32(3 * i);
    (void)snprintf(room, 16, "key %06u", i);
    return lladd_dtable_string(room);
}

/* The value is a packed row of two columns: the number, and a text that contains it. */
static struct lladd_dtable_value value_of(uint32_t number, unsigned char room[64])
{
    unsigned char bytes[4];
    char text[24];
    size_t len, n = (size_t)snprintf(text, sizeof text, "number %u", number);
    lladd_put32(bytes, number);
    const struct lladd_dtable_value columns[2] = {lladd_dtable_value_of(bytes, 4),
                                                  lladd_dtable_value_of(text, n)};
    ok_db(&b, lladd_dtable_row_size(columns, 2, &len, &b.err));
    lladd_dtable_row_pack(columns, 2, room);
    return lladd_dtable_value_of(room, len);
}

static void add(struct lladd_txn *txn, struct lladd_dtable_run_builder *run, uint32_t i,
                uint32_t number)
{
    unsigned char room[64];
    char name[16];
    struct lladd_dtable_key key = key_of(i, name);
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    if (number)
        v = number == GONE ? lladd_dtable_tombstone() : value_of(number, room);
    ok(txn, lladd_dtable_run_add(run, &key, &v));
}

static struct lladd_dtable_run_builder *begin(struct lladd_txn *txn, const char *config)
{
    return begin_run(txn, text_keys ? LLADD_DTABLE_STRING : LLADD_DTABLE_U32, config);
}

static struct lladd_dtable *end(struct lladd_txn *txn, struct lladd_dtable_run_builder *run)
{
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    return open_run(&b, root);
}

static struct lladd_dtable *table_of(const struct rows *r)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin(txn, LINEAR);
    for (uint32_t i = 0; i < KEYS; i++)
        if (r->number[i] != NONE)
            add(txn, run, i, r->number[i]);
    return end(txn, run);
}

static struct lladd_dtable *difference_of(const struct rows *older, const struct rows *newer,
                                          const char *config)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin(txn, config);
    for (uint32_t i = 0; i < KEYS; i++)
        if (older->number[i] != newer->number[i])
            add(txn, run, i, older->number[i]);
    return end(txn, run);
}

static struct lladd_dtable *version_of(struct lladd_dtable *difference, struct lladd_dtable *newer)
{
    struct lladd_dtable *out = NULL;
    ok_db(&b, lladd_dtable_version(b.db, difference, newer, &out, &b.err));
    return out;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void is_number(const struct lladd_dtable_value *v, uint32_t number)
{
    unsigned char room[64];
    struct lladd_dtable_value want = value_of(number, room);
    ck_assert_int_eq(v->state, number == GONE ? LLADD_DTABLE_TOMBSTONE : LLADD_DTABLE_FOUND);
    if (number == GONE)
        return;
    ck_assert_uint_eq(v->bytes.len, want.bytes.len);
    ck_assert_int_eq(memcmp(v->bytes.data, want.bytes.data, want.bytes.len), 0);
}

/* The second column, and the state. */
static void has_column(const struct lladd_dtable *t, struct lladd_dtable_cursor *c,
                       const struct lladd_dtable_key *key, uint32_t number)
{
    static const uint32_t second[1] = {1};
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_value v;
    struct lladd_dtable_columns want = {1, second, &v, pins};
    enum lladd_dtable_state state;
    char text[24];
    ok_db(&b, c ? lladd_dtable_row_columns(c, &want, &state, &b.err)
                : lladd_dtable_lookup_columns(t, key, &want, &state, &b.err));
    ck_assert_int_eq(state, number == NONE   ? LLADD_DTABLE_ABSENT
                            : number == GONE ? LLADD_DTABLE_TOMBSTONE
                                             : LLADD_DTABLE_FOUND);
    size_t n = (size_t)snprintf(text, sizeof text, "number %u", number);
    if (state == LLADD_DTABLE_FOUND) {
        ck_assert_uint_eq(v.bytes.len, n);
        ck_assert_int_eq(memcmp(v.bytes.data, text, n), 0);
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
}

static void looks_up(const struct lladd_dtable *t, const struct rows *r)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    char name[16];
    for (uint32_t i = 0; i < KEYS; i++) {
        struct lladd_dtable_key key = key_of(i, name);
        struct lladd_dtable_value v;
        ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
        if (r->number[i] == NONE)
            ck_assert_int_eq(v.state, LLADD_DTABLE_ABSENT);
        else
            is_number(&v, r->number[i]);
        has_column(t, NULL, &key, r->number[i]);
    }
    lladd_dtable_unpin(&pin);
}

static void is_at(const struct lladd_dtable *t, struct lladd_dtable_cursor *c, uint32_t i,
                  uint32_t number)
{
    char name[16];
    struct lladd_dtable_key key, want = key_of(i, name);
    struct lladd_dtable_value v;
    ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_int_eq(lladd_dtable_compare(&t->order, &key, &want), 0);
    is_number(&v, number);
    has_column(t, c, NULL, number);
}

/* Moves at random; i is the cursor's key, -1 or KEYS. */
static void moves(const struct lladd_dtable *t, const struct rows *r, bool all, uint64_t seed)
{
    struct lladd_dtable_cursor *c = NULL;
    int i = -1;
    ok_db(&b, lladd_dtable_cursor_open(t, all ? LLADD_DTABLE_TOMBSTONES : 0, &c, &b.err));
    for (unsigned n = 0; n < 6 * KEYS; n++) {
        uint64_t what = seeded_next(&seed) % 64;
        int by = n % 400 < 250 ? 1 : -1;
        char name[16];
        int rc;
        if (what == 0) {
            i = (int)(seeded_next(&seed) % KEYS);
            struct lladd_dtable_key key = key_of((uint32_t)i, name);
            rc = by > 0 ? lladd_dtable_seek(c, &key, &b.err)
                        : lladd_dtable_seek_for_prev(c, &key, &b.err);
            i -= by;
        } else {
            by = what < 4 ? -by : by;
            rc = by > 0 ? lladd_dtable_next(c, &b.err) : lladd_dtable_prev(c, &b.err);
        }
        do
            i += i == (by > 0 ? KEYS : -1) ? 0 : by;
        while (i >= 0 && i < KEYS && r->number[i] <= (all ? NONE : GONE));
        if (i < 0 || i == KEYS) {
            ck_assert_int_eq(rc, LLADD_END);
            continue;
        }
        ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), b.err.message);
        is_at(t, c, (uint32_t)i, r->number[i]);
    }
    lladd_dtable_cursor_close(c);
}

static void is(const struct lladd_dtable *t, const struct rows *r)
{
    looks_up(t, r);
    moves(t, r, true, 1);
    moves(t, r, false, 2);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* Changes one row in `every`. */
static struct rows changed(const struct rows *r, uint64_t *seed, unsigned every)
{
    struct rows out = *r;
    for (uint32_t i = 0; i < KEYS; i++)
        if (seeded_next(seed) % every == 0) {
            unsigned what = (unsigned)(seeded_next(seed) % 4);
            out.number[i] = what < 2 ? what : 2 + (uint32_t)(seeded_next(seed) % 100000);
        }
    return out;
}

static const struct {
    const char *base, *config;
} bases[] = {
    {"linear_dtable", ""},
    {"bloom_dtable", "\"base\" " LINEAR},
    {"exist_dtable", "\"base\" class(dt) auto_dtable \"tombstones\" " LINEAR},
    {"compress_dtable", "\"base\" class(dt) auto_dtable"},
};
enum { BASES = sizeof bases / sizeof bases[0] };

/* Five versions: four differences, one over the other, over the newest version. Few rows change, or
 * many. */
START_TEST(versions_over_versions)
{
    enum { VERSIONS = 5 };
    struct rows rows[VERSIONS] = {{{0}}};
    struct lladd_dtable *newest, *differences[VERSIONS], *versions[VERSIONS];
    uint64_t seed = 7 + (uint64_t)_i;
    char config[400];
    text_keys = _i % 2;
    (void)snprintf(config, sizeof config,
                   "class(dt) versions_dtable config [ \"base\" class(dt) %s \"base_config\" "
                   "config [ %s ] \"absent\" " LINEAR " ]",
                   bases[_i / 2].base, bases[_i / 2].config);
    rows[0] = changed(&rows[0], &seed, 2);
    for (int k = 1; k < VERSIONS; k++)
        rows[k] = changed(&rows[k - 1], &seed, k % 2 ? 40 : 3);
    newest = versions[VERSIONS - 1] = table_of(&rows[VERSIONS - 1]);
    for (int k = VERSIONS - 1; k-- > 0;) {
        differences[k] = difference_of(&rows[k], &rows[k + 1], config);
        ok_db(&b, lladd_dtable_run_check(differences[k], &b.err));
        versions[k] = version_of(differences[k], versions[k + 1]);
    }
    for (int k = 0; k < VERSIONS; k++)
        is(versions[k], &rows[k]);
    for (int k = 0; k + 1 < VERSIONS; k++)
        lladd_dtable_close(versions[k]);
    for (int k = 0; k + 1 < VERSIONS; k++)
        lladd_dtable_close(differences[k]);
    lladd_dtable_close(newest);
}
END_TEST

/* A long table, in which the cursor on the newer table leads. */
START_TEST(a_cursor_leads_between_differences)
{
    struct rows older = {{0}}, newer;
    for (uint32_t i = 0; i < KEYS; i++)
        older.number[i] = 2 + i;
    newer = older;
    older.number[0] = NONE;
    older.number[KEYS / 2] = NONE;
    older.number[KEYS / 2 + 1] = GONE;
    older.number[KEYS - 1] = NONE;
    text_keys = false;
    struct lladd_dtable *n = table_of(&newer), *d = difference_of(&older, &newer, OVER(LINEAR));
    struct lladd_dtable *v = version_of(d, n), *over = NULL;
    is(v, &older);
    ok_db(&b, lladd_dtable_overlay(b.db, &v, 1, &over, &b.err));
    is(over, &older);
    lladd_dtable_close(over);
    lladd_dtable_close(v);
    lladd_dtable_close(d);
    lladd_dtable_close(n);
}
END_TEST

/* The difference by itself. A cursor that shows tombstones also shows keys without a row. */
START_TEST(what_a_difference_shows)
{
    struct rows older = {{0}}, newer = {{0}};
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_dtable_cursor *c = NULL;
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    older.number[1] = 5;
    newer.number[2] = 6;
    older.number[3] = GONE;
    text_keys = false;
    struct lladd_dtable *d = difference_of(&older, &newer, OVER(LINEAR));
    ok_db(&b, lladd_dtable_run_info_get(d, &info, &b.err));
    ck_assert_uint_eq(info.rows, 3);
    ck_assert_uint_eq(info.tombstones, 1);
    ck_assert(!d->has_places);
    ok_db(&b, lladd_dtable_cursor_open(d, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
    for (uint32_t i = 1; i < 4; i++) {
        static const enum lladd_dtable_state states[] = {
            LLADD_DTABLE_FOUND, LLADD_DTABLE_ABSENT, LLADD_DTABLE_TOMBSTONE};
        ok_db(&b, lladd_dtable_next(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
        ck_assert_uint_eq(key.number, 3 * i);
        ck_assert_int_eq(v.state, states[i - 1]);
        ok_db(&b, lladd_dtable_lookup(d, &key, &pin, &v, &b.err));
        ck_assert_int_eq(v.state, states[i - 1]);
    }
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    ok_db(&b, lladd_dtable_cursor_open(d, 0, &c, &b.err));
    ok_db(&b, lladd_dtable_next(c, &b.err));
    is_at(d, c, 1, 5);
    ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
    lladd_dtable_cursor_close(c);
    lladd_dtable_unpin(&pin);
    lladd_dtable_close(d);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *text, const char *why)
{
    struct lladd_dtable_config *c;
    ck_assert_int_eq(lladd_dtable_config_parse(b.db, text, &c, &b.err), LLADD_BAD_CONFIG);
    ck_assert_msg(strstr(b.err.message, why) != NULL, "%s", b.err.message);
}

START_TEST(configurations)
{
#define VERSIONS \
    "class(dt) versions_dtable \"base_config\" config [ \"base\" " LINEAR " \"absent\" " LINEAR " ]"
    refused("class(dt) compress_dtable config [ \"base\" " VERSIONS " ]", "at the top");
    refused("class(dt) versions_dtable config [ \"absent\" " LINEAR " \"base\" " VERSIONS " ]",
            "at the top");
    refused("class(dt) versions_dtable config [ \"base\" " LINEAR " ]", "expects \"absent\"");
    refused("class(dt) versions_dtable config [ \"base\" " LINEAR " \"absent\" class(dt) "
            "array_dtable ]",
            "must store tombstones");
    refused("class(dt) versions_dtable config [ \"base\" " LINEAR " \"absent\" class(dt) "
            "fixed_dtable ]",
            "without a value before");
}
END_TEST

/* Only this class takes keys without a row. */
START_TEST(other_classes_take_no_absent_keys)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_value none = {.state = LLADD_DTABLE_ABSENT};
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    for (int i = 0; i < BASES; i++) {
        char config[200];
        (void)snprintf(config, sizeof config, "class(dt) %s config [ %s ]", bases[i].base,
                       bases[i].config);
        struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, config);
        refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &key, &none));
        ok(txn, lladd_dtable_run_discard(run));
    }
    abort_txn(txn);
}
END_TEST

START_TEST(tables_that_do_not_fit)
{
    struct rows older = {{0}}, newer = {{0}};
    struct lladd_dtable *out = NULL, *memory = NULL;
    older.number[1] = newer.number[2] = 7;
    text_keys = false;
    struct lladd_dtable *n = table_of(&newer), *d = difference_of(&older, &newer, OVER(LINEAR));
    ck_assert_int_eq(lladd_dtable_version(b.db, n, d, &out, &b.err), LLADD_WRONG_TYPE);
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U64, NULL, &memory, &b.err));
    ck_assert_int_eq(lladd_dtable_version(b.db, d, memory, &out, &b.err), LLADD_WRONG_TYPE);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run =
        begin_run(txn, LLADD_DTABLE_U32,
                  "class(dt) ranges_dtable config [ \"base\" " LINEAR " \"ranges\" " LINEAR " ]");
    ok(txn, lladd_dtable_run_add_range(run, NULL, NULL));
    struct lladd_dtable *ranges = end(txn, run);
    ck_assert_int_eq(lladd_dtable_version(b.db, d, ranges, &out, &b.err), LLADD_BAD_ARGUMENT);
    lladd_dtable_close(ranges);
    lladd_dtable_close(memory);
    lladd_dtable_close(d);
    lladd_dtable_close(n);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dTables: differences between versions");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, versions_over_versions, 0, 2 * BASES);
    tcase_add_test(tc, a_cursor_leads_between_differences);
    tcase_add_test(tc, what_a_difference_shows);
    tcase_add_test(tc, configurations);
    tcase_add_test(tc, other_classes_take_no_absent_keys);
    tcase_add_test(tc, tables_that_do_not_fit);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
