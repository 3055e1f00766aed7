/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares compositions of dTables with a model. Tests lookups of the keys of rows and of other
 * keys, cursors with random moves, batches, places and columns. The data have holes, tombstones,
 * empty values, values that equal a placeholder, a minimum key that is not 0, or no rows at all.
 *
 *     test_model              all compositions of one and two layers; of three and four layers a
 *                             selection, in which any two layers meet at any two levels, and each
 *                             layer meets all data (pairs.h)
 *     test_model all K N      all compositions of three and four layers: the K-th of N parts
 */
#include "operations/dtables/class/classes.h"
#include "pairs.h"

#include <stdio.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    b.options.cache_bytes = 1u << 20;
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
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
        ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
        ck_assert_uint_eq(info.rows, m.n);
        lladd_dtable_close(t);
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_dtable_run_free(txn, root));
        commit(txn);
    }
    *rows += m.n;
    rows_free(&m);
    return m.compared;
}

/* When so many compositions with the same two layers at the same two levels were refused, the pair
 * counts as impossible. */
enum { PATIENCE = 1000 };
#ifdef LL_TEST_SHORT
enum { DENSE = 0 };
#else
enum { DENSE = 1 };
#endif

struct counts {
    uint64_t trials, rows, compared;
};

static void try_one(struct counts *k, const struct composition *c, const struct shape *s,
                    uint64_t seed, unsigned steps)
{
    char text[COMPOSE_MAX];
    compose_text(c, text);
    size_t rows = 0;
    uint64_t compared = one(text, s, seed, steps, &rows);
    ck_assert_uint_ge(compared, steps + 9 * rows);
    k->trials++;
    k->rows += rows;
    k->compared += compared;
}

static void say(const struct counts *k, unsigned depth, const char *which, size_t compositions)
{
    printf("depth %u: %zu compositions (%s), %llu runs, %llu rows, %llu comparisons\n", depth,
           compositions, which, (unsigned long long)k->trials, (unsigned long long)k->rows,
           (unsigned long long)k->compared);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Tries all compositions of a depth. With DENSE, tries each with all data that its types of keys
 * allow; otherwise with a third of these data. */
static void all_of_depth(unsigned depth, size_t least, unsigned steps)
{
    struct counts k = {0, 0, 0};
    struct compositions all = pairs_all(&b, depth, true);
    uint64_t seed = 1;
    for (size_t i = 0; i < all.n; i++) {
        unsigned types = 0;
        ck_assert(pairs_admit(&b, &all.all[i], true, &types));
        for (unsigned at = 0; at < SHAPE_TYPES * SHAPE_KINDS; at++) {
            enum lladd_dtable_type type = LLADD_DTABLE_U32 + at % SHAPE_TYPES;
            struct shape s = shape_for(&all.all[i], type, at / SHAPE_TYPES);
            if (types & 1u << type && (DENSE || seed % 3 == 0))
                try_one(&k, &all.all[i], &s, seed, steps);
            seed++;
        }
    }
    say(&k, depth, "all", all.n);
    ck_assert_uint_ge(all.n, least);
    compose_free(&all);
}

START_TEST(depth_1)
{
    all_of_depth(1, 9, 500);
}
END_TEST

START_TEST(depth_2)
{
    all_of_depth(2, 250, 100);
}
END_TEST

/* A layer over a refused composition is refused, so pairs_all misses no valid composition. */
START_TEST(a_layer_over_a_refused_one_is_refused)
{
    struct compositions none = {NULL, 0, 0}, bad = {NULL, 0, 0};
    unsigned types;
    struct compositions leaves = pairs_all(&b, 1, true);
    uint64_t n = compose_count(&leaves);
    ck_assert_uint_eq(leaves.n, compose_count(&none)); /* each layer that needs no other is valid */
    for (uint64_t i = 0; i < n; i++) {
        struct composition c = compose_at(&leaves, i);
        if (!pairs_admit(&b, &c, true, &types))
            compose_add(&bad, &c);
    }
    ck_assert_uint_ge(bad.n, 100);
    n = compose_count(&bad);
    for (uint64_t i = 0; i < n; i += 7) {
        struct composition c = compose_at(&bad, i);
        ck_assert(!pairs_admit(&b, &c, true, &types));
    }
    compose_free(&leaves);
    compose_free(&bad);
}
END_TEST

/* ---- a selection ----------------------------------------------------------------------------- */

static void pairs_of_depth(unsigned depth, unsigned steps)
{
    struct counts k = {0, 0, 0};
    struct compositions below = pairs_all(&b, depth - 1, true);
    struct trials t = pairs_select(&b, &below, true, PATIENCE);
    for (size_t i = 0; i < t.n; i++)
        try_one(&k, &t.all[i].what, &t.all[i].shape, i, steps);
    say(&k, depth, "a selection", t.n);
    printf("  two layers at two levels: %zu pairs, %zu given up; a layer and its data: %zu, %zu\n",
           t.met, t.unmet, t.met_data, t.unmet_data);
    ck_assert_uint_ge(t.met, (depth == 3 ? 900 : 2100));
    ck_assert_uint_ge(t.met_data, 370);
    pairs_free(&t);
    compose_free(&below);
}

START_TEST(depth_3)
{
    pairs_of_depth(3, 100);
}
END_TEST

START_TEST(depth_4)
{
    pairs_of_depth(4, 100);
}
END_TEST

START_TEST(no_class_is_missing)
{
    static const char *const classes[] = {
#define CLASS_NAME(name) #name "_dtable",
        LL_DTABLE_CLASSES(CLASS_NAME)
#undef CLASS_NAME
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        bool there = false;
        for (unsigned k = 0; k < compose_templates() && !there; k++) {
            char name[64];
            compose_class_name(k, name);
            there = strcmp(name, classes[i]) == 0;
        }
        ck_assert_msg(there, "%s", classes[i]);
    }
}
END_TEST

/* ---- at night -------------------------------------------------------------------------------- */

static unsigned part, parts;

/* No possible pair was given up. */
START_TEST(selection_is_complete)
{
    for (unsigned depth = 3; depth <= 4; depth++) {
        struct compositions below = pairs_all(&b, depth - 1, true);
        struct trials some = pairs_select(&b, &below, true, PATIENCE);
        struct trials all = pairs_select(&b, &below, true, 0);
        printf("depth %u: %zu pairs of layers are possible, %zu are not\n", depth, all.met,
               all.unmet);
        ck_assert_uint_eq(some.met, all.met);
        ck_assert_uint_eq(some.met_data, all.met_data);
        pairs_free(&some);
        pairs_free(&all);
        compose_free(&below);
    }
}
END_TEST

/* Tries one part of all compositions, each with drawn data. */
START_TEST(part_of_all_compositions)
{
    unsigned depth = (unsigned)_i;
    struct compositions below = pairs_all(&b, depth - 1, true);
    uint64_t n = compose_count(&below), random = depth;
    struct counts k = {0, 0, 0};
    for (uint64_t i = part; i < n; i += parts) {
        struct composition c = compose_at(&below, i);
        struct trial t;
        if (pairs_draw(&b, &c, true, &random, &t))
            try_one(&k, &c, &t.shape, i, 50);
    }
    say(&k, depth, "a part of all", (size_t)k.trials);
    ck_assert_uint_gt(k.trials, 0);
    compose_free(&below);
}
END_TEST

/* Parses a number below 1000. False: the text is something else. */
static bool number(const char *text, unsigned *out)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    *out = (unsigned)v;
    return *text && !*end && v < 1000;
}

int main(int argc, char **argv)
{
    Suite *s = suite_create("dtable.model");
    TCase *tc = tcase_create("model");
    bool all = argc == 4 && strcmp(argv[1], "all") == 0 && number(argv[2], &part) &&
               number(argv[3], &parts) && part < parts;
    tcase_add_checked_fixture(tc, setup, teardown);
    if (all) {
        if (part == 0) {
            TCase *selection = tcase_create("selection");
            tcase_add_checked_fixture(selection, setup, teardown);
            tcase_add_test(selection, selection_is_complete);
            suite_add_tcase(s, selection);
        }
        tcase_add_loop_test(tc, part_of_all_compositions, 3, COMPOSE_DEPTH + 1);
    } else {
        tcase_add_test(tc, no_class_is_missing);
        tcase_add_test(tc, a_layer_over_a_refused_one_is_refused);
        tcase_add_test(tc, depth_1);
        tcase_add_test(tc, depth_2);
        tcase_add_test(tc, depth_3);
        tcase_add_test(tc, depth_4);
    }
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
