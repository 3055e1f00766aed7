/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every dTable, and every composition of them that the grammar admits up to a depth, against a
 * model: lookups at, between and outside all rows, cursors that go anywhere, batches, places; with
 * holes, tombstones, empty values, values that happen to be a placeholder, a minimum key that is
 * not 0, and no rows at all. Traps 3, 4, 5, 8, 12, 13 and 14 of the prototype are conditions of it.
 */
#include "compose.h"
#include "model.h"

#include <stdio.h>

static struct bed b;

static void setup(void)
{
    bed_init(&b, 4096);
    b.options.cache_bytes = 1u << 20;
    bed_open(&b);
}

static void teardown(void)
{
    bed_free(&b);
}

static uint64_t one(const char *config, const struct shape *s, uint64_t seed, unsigned steps,
                    size_t *rows)
{
    struct model m;
    lladd_pageno root;
    rows_init(&m, s->type);
    struct lladd_dtable *t = rows_run(&b, &m, config, s, seed, &root);
    if (t) {
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        rows_check(&m, t, seed, steps);
        ok_db(&b, lladd_dtable_run_check(t, &b.err));
        ok_db(&b, lladd_dtable_run_info(t, &info, &b.err));
        ck_assert_uint_eq(info.rows, m.n);
        lladd_dtable_close(t);
        struct lladd_txn *txn = bed_begin(&b);
        ok(txn, lladd_dtable_run_free(txn, root));
        commit(txn);
    }
    *rows += m.n;
    rows_free(&m);
    return m.compared;
}

static const struct shape shapes[] = {
    {LLADD_DTABLE_U32, 0, 0, 1, 0},          {LLADD_DTABLE_U32, 1, 6, 1, 0},
    {LLADD_DTABLE_U32, 300, 0, 1, 0},        {LLADD_DTABLE_U32, 250, 1000, 4, 7},
    {LLADD_DTABLE_U32, 40, 4294967000, 4, 2}, {LLADD_DTABLE_U64, 200, UINT64_C(1) << 40, 3, 5},
    {LLADD_DTABLE_DOUBLE, 200, 0, 9, 6},     {LLADD_DTABLE_STRING, 200, 100, 50, 6},
    {LLADD_DTABLE_BYTES, 200, 100, 50, 6},   {LLADD_DTABLE_BYTES, 3, 100, 50, 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* `every`: one in so many of the compositions that there are. */
static void all_of_depth(unsigned depth, unsigned every, unsigned steps)
{
    struct composer c;
    uint64_t compared = 0, seed = 1;
    size_t rows = 0, admitted = 0, refused = 0;
    char text[COMPOSE_MAX];
    compose_begin(&c, depth);
    uint64_t offset = every > 1 ? 3 : 0;
    for (uint64_t i = 0; compose_next(&c, text); i++) {
        struct lladd_dtable_config *config;
        if ((i + offset) % every)
            continue;
        int rc = lladd_dtable_config_parse(b.db, text, &config, &b.err);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_BAD_CONFIG);
            refused++;
            continue;
        }
        lladd_dtable_config_free(config);
        admitted++;
        for (size_t s = 0; s < SHAPES; s++) {
            uint64_t here = one(text, &shapes[s], seed++, steps, &rows);
            compared += here;
        }
    }
    printf("depth %u: %zu compositions admitted, %zu refused; %zu rows, %llu comparisons\n", depth,
           admitted, refused, rows, (unsigned long long)compared);
    ck_assert_uint_ge(admitted, 5);
    ck_assert_uint_ge(compared, 1000 * admitted);
}

START_TEST(depth_1)
{
    all_of_depth(1, 1, 2000);
}
END_TEST

START_TEST(depth_2)
{
    all_of_depth(2, 1, 300);
}
END_TEST

START_TEST(depth_3)
{
    all_of_depth(3, 11, 100);
}
END_TEST

START_TEST(depth_3_nightly)
{
    all_of_depth(3, 1, 100);
}
END_TEST

START_TEST(depth_4_nightly)
{
    all_of_depth(4, 101, 100);
}
END_TEST

/* test_model [deep] */
int main(int argc, char **argv)
{
    Suite *s = suite_create("dtable.model");
    TCase *tc = tcase_create("model");
    bool deep = argc > 1 && strcmp(argv[1], "deep") == 0;
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, deep ? 3000 : 200);
    if (deep) {
        tcase_add_test(tc, depth_3_nightly);
        tcase_add_test(tc, depth_4_nightly);
    } else {
        tcase_add_test(tc, depth_1);
        tcase_add_test(tc, depth_2);
        tcase_add_test(tc, depth_3);
    }
    suite_add_tcase(s, tc);
    return bed_run(s);
}
