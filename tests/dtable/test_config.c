/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Configurations. A configuration that is printed and parsed again is the same, whether it was made
 * from a text or by calls. A message about a wrong text names the line, the column, and what was
 * expected.
 *
 * Also compares tables in memory, and overlays of such tables, with a model.
 */
#include "model.h"

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

struct said {
    char text[4000];
    size_t len;
};
static int keep(void *ctx, const void *bytes, size_t len)
{
    struct said *s = ctx;
    ck_assert_uint_lt(s->len + len, sizeof s->text);
    memcpy(s->text + s->len, bytes, len);
    s->len += len;
    s->text[s->len] = 0;
    return 0;
}
static void print(const struct lladd_dtable_config *c, struct said *s)
{
    struct lladd_sink sink = {.ctx = s, .write = keep};
    s->len = 0;
    ck_assert_int_eq(lladd_dtable_config_print(c, &sink), 0);
}

static const char states[] =
    "# where customers live\n"
    "config [ \"base\" class(dt) exception_dtable \"base_config\" config [\n"
    "  \"alt\" class(dt) linear_dtable \"reject_value\" blob fd\n"
    "  \"base_config\" config [ \"passthrough_value\" string \"\\xfd\"\n"
    "    \"base\" class(dt) array_dtable \"base_config\" config [ \"tag_byte\" bool false\n"
    "      \"hole_value\" blob fe \"tombstone_value\" blob FF \"holes_per_row\" int 0x10 ] ]\n"
    "  \"base\" class(dt) usstate_dtable ] ]\n";
static const char resolved[] =
    "config [ \"base\" class(dt) exception_dtable \"base_config\" config [ "
    "\"base\" class(dt) usstate_dtable \"base_config\" config [ "
    "\"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 1 "
    "\"tag_byte\" bool false \"hole_value\" string \"\\xfe\" \"tombstone_value\" string \"\\xff\" "
    "\"holes_per_row\" int 16 ] \"passthrough_value\" string \"\\xfd\" ] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"\\xfd\" ] ]";

START_TEST(print_gives_the_resolved_text)
{
    struct lladd_dtable_config *c;
    struct said s;
    for (int i = 0; i < 2; i++) {
        ok_db(&b, lladd_dtable_config_parse(b.db, i ? resolved : states, &c, &b.err));
        print(c, &s);
        ck_assert_str_eq(s.text, resolved);
        lladd_dtable_config_free(c);
    }
}
END_TEST

START_TEST(a_configuration_made_by_calls)
{
    struct lladd_dtable_config *top, *map, *array, *alt;
    struct said s;
    ok_db(&b, lladd_dtable_config_new(b.db, "array_dtable", &array, &b.err));
    ok_db(&b, lladd_dtable_config_set_bool(array, "tag_byte", false, &b.err));
    ok_db(&b, lladd_dtable_config_set_bytes(array, "hole_value", lladd_span_of("\xfe", 1), &b.err));
    ok_db(&b, lladd_dtable_config_set_bytes(array, "tombstone_value", lladd_span_of("\xff", 1),
                                            &b.err));
    ok_db(&b, lladd_dtable_config_set_int(array, "holes_per_row", 16, &b.err));
    ok_db(&b, lladd_dtable_config_new(b.db, "usstate_dtable", &map, &b.err));
    ok_db(&b, lladd_dtable_config_set_child(map, "base", array, &b.err));
    ok_db(&b, lladd_dtable_config_set_bytes(map, "passthrough_value", lladd_span_of("\xfd", 1),
                                            &b.err));
    ok_db(&b, lladd_dtable_config_new(b.db, "linear_dtable", &alt, &b.err));
    ok_db(&b, lladd_dtable_config_new(b.db, "exception_dtable", &top, &b.err));
    ok_db(&b, lladd_dtable_config_set_child(top, "base", map, &b.err));
    ck_assert_int_eq(lladd_dtable_config_check(top, LLADD_DTABLE_U32, &b.err), LLADD_BAD_CONFIG);
    ok_db(&b, lladd_dtable_config_set_child(top, "alt", alt, &b.err));
    ck_assert_int_eq(lladd_dtable_config_set_child(top, "alt", alt, &b.err), LLADD_BAD_CONFIG);
    ck_assert_int_eq(lladd_dtable_config_set_int(top, "alt", 1, &b.err), LLADD_BAD_CONFIG);
    ck_assert_int_eq(lladd_dtable_config_set_int(top, "bits", 1, &b.err), LLADD_BAD_CONFIG);
    ok_db(&b, lladd_dtable_config_set_bytes(top, "reject_value", lladd_span_of("\xfd", 1), &b.err));
    ok_db(&b, lladd_dtable_config_check(top, LLADD_DTABLE_U32, &b.err));
    ck_assert_int_eq(lladd_dtable_config_check(top, LLADD_DTABLE_STRING, &b.err), LLADD_BAD_CONFIG);
    print(top, &s);
    ck_assert_str_eq(s.text, resolved);
    lladd_dtable_config_free(top);
    ck_assert_int_eq(lladd_dtable_config_new(b.db, "no_dtable", &top, &b.err), LLADD_BAD_CONFIG);
}
END_TEST

/* Makes a filter above `base`. If `base` is NULL, makes a leaf. */
static struct lladd_dtable_config *layer(struct lladd_dtable_config *base)
{
    struct lladd_dtable_config *c;
    ok_db(&b, lladd_dtable_config_new(b.db, base ? "bloom_dtable" : "linear_dtable", &c, &b.err));
    if (base)
        ok_db(&b, lladd_dtable_config_set_child(c, "base", base, &b.err));
    return c;
}

START_TEST(a_layer_has_one_parent)
{
    struct lladd_dtable_config *bottom = layer(NULL), *mid = layer(bottom), *other, *top;
    ok_db(&b, lladd_dtable_config_new(b.db, "bloom_dtable", &top, &b.err));
    ok_db(&b, lladd_dtable_config_new(b.db, "bloom_dtable", &other, &b.err));
    struct lladd_dtable_config *const wrong_child[] = {NULL, top, bottom};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(lladd_dtable_config_set_child(top, "base", wrong_child[i], &b.err),
                         LLADD_BAD_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(b.err.message, i == 0   ? "no layer is given"
                                                    : i == 1 ? "below itself"
                                                             : "already has a parent"));
    }
    ok_db(&b, lladd_dtable_config_set_child(top, "base", other, &b.err));
    ck_assert_int_eq(lladd_dtable_config_set_child(other, "base", top, &b.err), LLADD_BAD_ARGUMENT);
    ok_db(&b, lladd_dtable_config_set_child(other, "base", mid, &b.err));
    ok_db(&b, lladd_dtable_config_check(top, 0, &b.err));
    lladd_dtable_config_free(top);
}
END_TEST

/* A configuration of 32 layers can be printed and parsed again. With _i 1 each of its layers was
 * checked before. A configuration of 33 layers is refused. */
START_TEST(layers_have_a_limit)
{
    struct lladd_dtable_config *c = layer(NULL), *again;
    struct said s;
    for (int i = 1; i < 32; i++) {
        c = layer(c);
        if (_i)
            ok_db(&b, lladd_dtable_config_check(c, 0, &b.err));
    }
    ok_db(&b, lladd_dtable_config_check(c, 0, &b.err));
    print(c, &s);
    ok_db(&b, lladd_dtable_config_parse(b.db, s.text, &again, &b.err));
    lladd_dtable_config_free(again);
    c = layer(c);
    ck_assert_int_eq(lladd_dtable_config_check(c, 0, &b.err), LLADD_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(b.err.message, "more than 32 layers"));
    lladd_dtable_config_free(c);
}
END_TEST

/* The message names line and column of the first layer that is too deep. _i / 2: this layer has
 * layers below it. _i % 2: the last layer has parameters. */
START_TEST(message_places_a_layer_that_is_too_deep)
{
    static const char filter[] = "class(dt) bloom_dtable ", more[] = "config [ \"base\" ";
    static const char more_of_base[] = "\"base_config\" config [ \"base\" ";
    char text[4000] = "", says[80];
    struct lladd_dtable_config *c;
    const char *worst = NULL;
    for (int depth = 1; depth <= 40; depth++) {
        size_t at = strlen(text);
        const char *how = depth == 1 ? more : more_of_base;
        bool last = depth == 33 + 3 * (_i / 2);
        worst = depth == 33 ? text + at : worst;
        (void)snprintf(text + at, sizeof text - at, "%s%s", filter, last ? "" : how);
        if (!last)
            continue;
        if (_i % 2) /* the last layer with parameters */
            (void)strcat(text, "\"base_config\" config [ \"bits_per_key\" int 9 ]");
        for (int i = 1; i < depth; i++)
            (void)strcat(text, " ]");
        break;
    }
    ck_assert_ptr_nonnull(worst);
    (void)snprintf(says, sizeof says, "line 1, column %d: more than 32 layers, one below the other",
                   (int)(worst - text) + 11);
    ck_assert_int_eq(lladd_dtable_config_parse(b.db, text, &c, &b.err), LLADD_BAD_CONFIG);
    ck_assert_str_eq(b.err.message, says);
}
END_TEST

/* The number of all layers of a configuration has a limit, too. */
START_TEST(all_layers_have_a_limit)
{
    static const char group[] = " class(dt) exist_dtable config [ \"base\" class(dt) "
                                "linear_dtable \"tombstones\" class(dt) linear_dtable ]";
    enum { GROUPS = 340, MOST = 2 + 3 * GROUPS + 2 }; /* layers: 1024 */
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_config *c;
    struct lladd_dtable_run_builder *run;
    char *text = malloc((GROUPS + 4) * (sizeof group + 8) + 200), *p = text;
    ck_assert_int_eq(MOST, 1024);
    p += sprintf(p, "class(dt) column_dtable config [ \"base\" class(dt) linear_dtable\n\"groups\" "
                    "layers [");
    for (int i = 0; i < GROUPS; i++)
        p += sprintf(p, "%s", group);
    for (int i = 0; i < 2 + _i; i++)
        p += sprintf(p, " class(dt) linear_dtable");
    p += sprintf(p, " ] \"columns\" words [");
    for (int i = 0; i < GROUPS + 2 + _i; i++)
        p += sprintf(p, " \"%d\"", i);
    (void)sprintf(p, " ] ]");
    int rc = lladd_dtable_config_parse(b.db, text, &c, &b.err);
    ck_assert_int_eq(rc, _i ? LLADD_BAD_CONFIG : 0);
    if (_i) {
        ck_assert_str_eq(b.err.message, "line 1, column 11: more than 1024 layers");
    } else {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_pageno root;
        o.type = LLADD_DTABLE_U32;
        o.config = c;
        ok(txn, lladd_dtable_run_begin(txn, &o, &run));
        ok(txn, lladd_dtable_run_finish(run, &root));
        commit(txn);
        struct lladd_dtable *t;
        ok_db(&b, lladd_dtable_run_open(b.db, root, &t, &b.err));
        lladd_dtable_close(t);
        lladd_dtable_config_free(c);
    }
    free(text);
}
END_TEST

#define IN_ARRAY "class(dt) array_dtable config [ "
static const struct {
    const char *text, *says;
} wrong[] = {
    {"", "line 1, column 1: expected config or class(dt), found the end"},
    {"config", "line 1, column 7: expected [, found the end"},
    {"config [ ]", "expected \"base\" class(dt) before it"},
    {"class(dt) nothing", "line 1, column 11: expected the name of a dTable class, found nothing"},
    {"class(dt) linear_dtable x", "line 1, column 25: expected the end, found x"},
    {IN_ARRAY "\n  \"value_sizes\" int 5 ]",
     "line 2, column 3: expected a parameter of array_dtable, found value_sizes"},
    {IN_ARRAY "value_size int 5 ]", "expected a name in quotation marks, or ], found value_size"},
    {IN_ARRAY "\"value_size\" bool true ]", "column 46: expected int, found bool"},
    {IN_ARRAY "\"value_size\" int five ]", "expected a number, found five"},
    {IN_ARRAY "\"value_size\" int 9223372036854775808 ]", "expected a number of 64 bits"},
    {IN_ARRAY "\"value_size\" int 5 \"value_size\" int 5 ]", "expected each parameter once"},
    {IN_ARRAY "\"value_size\" int 4001 ]", "is from -1 to 4000, not 4001"},
    {IN_ARRAY "\"tag_byte\" bool yes ]", "expected true or false, found yes"},
    {IN_ARRAY "\"hole_value\" blob abc ]", "expected an even number of hexadecimal digits"},
    {IN_ARRAY "\"hole_value\" string \"\\q\" ]", "expected \\\\, \\\", \\n"},
    {IN_ARRAY "\"hole_value\" string \"abc ]", "expected a quotation mark that ends this"},
    {IN_ARRAY "\"hole_value\" string \"a\" ]", "are for \"tag_byte\" bool false"},
    {IN_ARRAY "\"value_size\" int 5", "expected a name in quotation marks, or ], found the end"},
    {"class(dt) exception_dtable config [ \"base\" class(dt) array_dtable ]",
     "exception_dtable expects \"alt\""},
    {"class(dt) smallint_dtable config [ \"bytes\" int 3 \"base\" class(dt) fixed_dtable "
     "\"base_config\" config [ \"value_size\" int 2 ] ]",
     "its base has values of 2 bytes, not 3"},
    {"class(dt) bloom_dtable config [ \"base_config\" config [ ] ]",
     "expected \"base\" class(dt) beside its config"},
    {"class(dt) dictionary_dtable config [ \"values\" words [ \"a\" \"a\" ] \"base\" class(dt) "
     "linear_dtable ]",
     "a word occurs twice"},
};

START_TEST(messages_of_wrong_configurations)
{
    struct lladd_dtable_config *c;
    int rc = lladd_dtable_config_parse(b.db, wrong[_i].text, &c, &b.err);
    ck_assert_int_eq(rc, LLADD_BAD_CONFIG);
    ck_assert_msg(strstr(b.err.message, wrong[_i].says) != NULL, "%s", b.err.message);
    ck_assert_int_eq(strncmp(b.err.message, "line ", 5), 0);
}
END_TEST

START_TEST(memory_runs_out)
{
    for (uint64_t n = 1;; n++) {
        struct lladd_dtable_config *c = NULL;
        fault_alloc_fail(&b.mem, n, false);
        int rc = lladd_dtable_config_parse(b.db, states, &c, &b.err);
        uint64_t fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_int_eq(rc, fired ? LLADD_NO_MEMORY : 0);
        if (fired == 0) {
            lladd_dtable_config_free(c);
            ck_assert_uint_ge(n, 10);
            return;
        }
    }
}
END_TEST

/* ---- in memory, and several as one ----------------------------------------------------------- */

static void fill(struct lladd_dtable *t, struct model *m, struct model *of_all,
                 const struct shape *s, uint64_t seed)
{
    uint64_t random = seed;
    for (int round = 0; round < 2; round++) {
        uint64_t number = s->first;
        for (size_t i = 0; i < s->rows; i++) {
            unsigned char key_room[64], room[SHAPE_ROOM];
            struct lladd_dtable_key key;
            shape_key(s, &random, &number, key_room, &key);
            struct lladd_dtable_value v = shape_value(s, &random, room);
            ok_db(&b, lladd_dtable_put(t, &key, &v, &b.err));
            rows_put(m, &key, &v);
            rows_put(of_all, &key, &v);
        }
    }
}

START_TEST(memory_and_overlays)
{
    static const struct shape shapes[] = {{LLADD_DTABLE_U32, 60, 5, 4, 3, false},
                                          {LLADD_DTABLE_DOUBLE, 60, 5, 4, 3, false},
                                          {LLADD_DTABLE_STRING, 60, 5, 4, 3, false}};
    const struct shape *s = &shapes[_i];
    struct model all, one[4];
    struct lladd_dtable *tables[4], *over;
    rows_init(&all, s->type);
    for (int i = 3; i >= 0; i--) { /* the oldest table is the first; one of the tables stays
                                    * empty */
        struct shape here = *s;
        here.rows = i == 1 ? 0 : s->rows;
        rows_init(&one[i], s->type);
        ok_db(&b, lladd_dtable_memory(b.db, s->type, NULL, &tables[i], &b.err));
        fill(tables[i], &one[i], &all, &here, (uint64_t)i + 1);
        rows_check(&one[i], tables[i], 3, 500);
    }
    ok_db(&b, lladd_dtable_overlay(b.db, tables, 4, &over, &b.err));
    rows_check(&all, over, 7, 3000);
    ck_assert_uint_ge(all.compared, 3000);
    struct lladd_dtable_value none = {.state = LLADD_DTABLE_ABSENT};
    while (one[2].n) { /* the rows are removed one by one */
        ok_db(&b, lladd_dtable_put(tables[2], &one[2].rows[0].key, &none, &b.err));
        rows_put(&one[2], &one[2].rows[0].key, &none);
    }
    rows_check(&one[2], tables[2], 3, 50);
    ck_assert_int_eq(lladd_dtable_put(over, &all.rows[0].key, &none, &b.err), LLADD_WRONG_TYPE);
    lladd_dtable_close(over);
    for (int i = 0; i < 4; i++) {
        lladd_dtable_close(tables[i]);
        rows_free(&one[i]);
    }
    rows_free(&all);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.config");
    TCase *tc = tcase_create("config");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, print_gives_the_resolved_text);
    tcase_add_test(tc, a_configuration_made_by_calls);
    tcase_add_test(tc, a_layer_has_one_parent);
    tcase_add_loop_test(tc, layers_have_a_limit, 0, 2);
    tcase_add_loop_test(tc, message_places_a_layer_that_is_too_deep, 0, 4);
    tcase_add_loop_test(tc, all_layers_have_a_limit, 0, 2);
    tcase_add_loop_test(tc, messages_of_wrong_configurations, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, memory_runs_out);
    tcase_add_loop_test(tc, memory_and_overlays, 0, 3);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
