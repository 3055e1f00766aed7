/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The size of values in layers that store values of one size. The tests show which layers set the
 * size for the layers below them, when a run takes the size from its first value, and how large
 * this first value may be.
 */
#include "model.h"
#include "texts.h"

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

/* ---- settled by a layer above --------------------------------------------------------------- */

#define OPEN "class(dt) %s"
#define SMALLINT(below) "class(dt) smallint_dtable config [ \"bytes\" int 2 \"base\" " below " ]"
static const struct {
    const char *config; /* a configuration in which each %s stands for a class that has no value
                         * size of its own */
    int size;
} settled[] = {
    {SMALLINT(OPEN), 2},
    {SMALLINT("class(dt) bloom_dtable \"base_config\" config [ \"base\" " OPEN " ]"), 2},
    {SMALLINT("class(dt) btree_dtable \"base_config\" config [ \"base\" " OPEN " ]"), 2},
    {SMALLINT("class(dt) cache_dtable \"base_config\" config [ \"base\" " OPEN " ]"), 2},
    {SMALLINT("class(dt) compress_dtable \"base_config\" config [ \"base\" " OPEN " ]"), 2},
    {SMALLINT("class(dt) exist_dtable \"base_config\" config [ \"base\" " OPEN
              " \"tombstones\" class(dt) linear_dtable ]"),
     2},
    {SMALLINT("class(dt) keydiv_dtable \"base_config\" config [ \"divider\" int 9 \"below\" " OPEN
              " \"from\" " OPEN " ]"),
     2},
    {"class(dt) ranges_dtable config [ \"ranges\" class(dt) linear_dtable \"base\" class(dt) "
     "smallint_dtable \"base_config\" config [ \"bytes\" int 1 \"base\" " OPEN " ] ]",
     1},
    {"class(dt) usstate_dtable config [ \"base\" " OPEN " ]", 1},
    {"class(dt) dictionary_dtable config [ \"values\" words [ \"a\" \"b\" ] \"base\" " OPEN " ]",
     1},
    {"class(dt) dictionary_dtable config [ \"values\" words [ ] \"base\" " OPEN " ]", 1},
    {"class(dt) ustring_dtable config [ \"base\" " OPEN " ]", 4},
    {"class(dt) ustring_dtable config [ \"bytes\" int 3 \"base\" " OPEN " ]", 3},
    {"class(dt) deltaint_dtable config [ \"base\" " OPEN " ]", 4},
    {"class(dt) deltaint_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" "
     "config [ \"base\" class(dt) smallint_dtable \"base_config\" config [ \"bytes\" int 1 "
     "\"base\" " OPEN " ] \"alt\" class(dt) linear_dtable \"reject_value\" blob ff000000 ] ]",
     1},
    {"class(dt) exception_dtable config [ \"base\" " OPEN
     " \"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ]",
     5},
    {"class(dt) column_dtable config [ \"base\" " OPEN
     " \"groups\" layers [ class(dt) linear_dtable ] \"columns\" words [ \"0\" ] ]",
     0},
    {"class(dt) exist_dtable config [ \"base\" class(dt) linear_dtable \"tombstones\" " OPEN " ]",
     0},
};
static const char *const sized[] = {"array_dtable", "fixed_dtable"};

static unsigned occurrences(const char *text, const char *of)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, of)) != NULL; at += strlen(of))
        n++;
    return n;
}

START_TEST(upper_layers_settle_sizes)
{
    const char *text = settled[_i / 2].config, *class_name = sized[_i % 2];
    char full[1000], said[40], *resolved;
    struct lladd_dtable_config *c;
    (void)snprintf(full, sizeof full, text, class_name, class_name);
    (void)snprintf(said, sizeof said, "\"value_size\" int %d ", settled[_i / 2].size);
    ok_db(&b, lladd_dtable_config_parse(b.db, full, &c, &b.err));
    ok_db(&b, lladd_dtable_config_text(c, &resolved, &b.err));
    ck_assert_uint_ge(occurrences(resolved, said), occurrences(text, "%s"));
    ck_assert_msg(!strstr(resolved, "\"value_size\" int -1"), "%s", resolved);
    ck_assert(!lladd_dtable_caps_get(c)->learned);
    ok_db(&b, lladd_dtable_config_settled(c, &b.err));
    lladd_mem_free(b.db, resolved);
    lladd_dtable_config_free(c);
}
END_TEST

/* ---- settled by the first value ------------------------------------------------------------- */

static const struct {
    const char *config, *where; /* where: how the message must begin */
} left_open[] = {
    {"class(dt) array_dtable", "line 1, column 11: array_dtable"},
    {"class(dt)\nfixed_dtable", "line 2, column 1: fixed_dtable"},
    {"class(dt) bloom_dtable config [ \"base\"\n class(dt) fixed_dtable ]",
     "line 2, column 12: fixed_dtable"},
    {"class(dt) exception_dtable config [ \"base\" class(dt) array_dtable\n\"alt\" class(dt) "
     "fixed_dtable \"reject_value\" string \"__\" ]",
     "line 2, column 17: fixed_dtable"},
    {"class(dt) keydiv_dtable config [ \"divider\" int 9 \"below\" class(dt) linear_dtable\n"
     "\"from\" class(dt) array_dtable ]",
     "line 2, column 18: array_dtable"},
    {"class(dt) column_dtable config [ \"base\" class(dt) array_dtable \"columns\" words [ \"0\" "
     "\"1\" ] \"groups\" layers [ class(dt) linear_dtable\nclass(dt) fixed_dtable ] ]",
     "line 2, column 11: fixed_dtable"},
    {"class(dt) ustring_dtable config [ \"bytes\" int 0\n\"base\" class(dt) array_dtable ]",
     "line 2, column 18: array_dtable"},
};

START_TEST(unsettled_sizes_are_found)
{
    struct lladd_dtable_config *c;
    ok_db(&b, lladd_dtable_config_parse(b.db, left_open[_i].config, &c, &b.err));
    ck_assert(lladd_dtable_caps_get(c)->learned);
    ck_assert_int_eq(lladd_dtable_config_settled(c, &b.err), LLADD_BAD_CONFIG);
    ck_assert_msg(strncmp(b.err.message, left_open[_i].where, strlen(left_open[_i].where)) == 0,
                  "%s", b.err.message);
    lladd_dtable_config_free(c);
}
END_TEST

/* The message gives line and column of the layer that does not support the type of the keys. */
START_TEST(message_places_the_layer_without_the_key_type)
{
    static const char text[] =
        "class(dt) bloom_dtable config [ \"base\" class(dt) exception_dtable\n"
        "\"base_config\" config [ \"alt\" class(dt) linear_dtable\n"
        "\"reject_value\" string \"_\" \"base\" class(dt) array_dtable ] ]";
    struct lladd_dtable_config *c;
    ok_db(&b, lladd_dtable_config_parse(b.db, text, &c, &b.err));
    ck_assert_int_eq(lladd_dtable_config_check(c, LLADD_DTABLE_STRING, &b.err), LLADD_BAD_CONFIG);
    ck_assert_str_eq(b.err.message, "line 3, column 44: array_dtable, as it is configured, has no "
                                    "keys of type string");
    lladd_dtable_config_free(c);
}
END_TEST

/* ---- the maximum length --------------------------------------------------------------------- */

/* The first value has at most 4000 bytes, for each size of blocks, and later values have the same
 * length. */
START_TEST(a_learned_size_has_a_limit)
{
    static const uint32_t blocks[] = {0, 4096, 65536};
    static unsigned char bytes[4001];
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn = fixture_begin(&b);
    char text[100];
    lladd_pageno root;
    (void)snprintf(text, sizeof text, "class(dt) %s", sized[_i % 2]);
    o.type = LLADD_DTABLE_U32;
    o.text = text;
    o.block_bytes = blocks[_i / 2];
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_value v = lladd_dtable_value_of(bytes, 4001),
                              gone = lladd_dtable_tombstone();
    refuses(txn, LLADD_REJECTED, lladd_dtable_run_add(run, &key, &v));
    ok(txn, lladd_dtable_run_add(run, &key, &gone));
    key.number = 2;
    v.bytes.len = 4000;
    ok(txn, lladd_dtable_run_add(run, &key, &v));
    key.number = 3;
    v.bytes.len = 3999;
    refuses(txn, LLADD_REJECTED, lladd_dtable_run_add(run, &key, &v));
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    size_t len = 0;
    key.number = 2;
    ok_db(&b, lladd_dtable_get(t, &key, bytes, sizeof bytes, &len, &b.err));
    ck_assert_uint_eq(len, 4000);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.sizes");
    TCase *tc = tcase_create("sizes");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, upper_layers_settle_sizes, 0,
                        2 * sizeof settled / sizeof settled[0]);
    tcase_add_loop_test(tc, unsettled_sizes_are_found, 0, sizeof left_open / sizeof left_open[0]);
    tcase_add_test(tc, message_places_the_layer_without_the_key_type);
    tcase_add_loop_test(tc, a_learned_size_has_a_limit, 0, 6);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
