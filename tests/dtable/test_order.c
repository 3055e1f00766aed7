/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys in the order of a comparator: one that is registered, one that is missing, and one with
 * which the run was not built.
 */
#include "model.h"
#include "texts.h"

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

static int backwards(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(y.data, x.data, n) : 0;
    return c ? c : y.len < x.len ? -1 : y.len > x.len;
}
static const struct lladd_dtable_comparator reverse = {sizeof reverse, "reverse", NULL, backwards,
                                                       NULL};

/* A missing comparator is an error. Under a comparator, keys with different bytes may be equal. So
 * a filter must let a key pass that is equal to a key of the run. */
START_TEST(missing_comparators)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    lladd_pageno roots[2];
    const char *names[] = {"reverse", "no-case"};
    static const char *const words[2][3] = {{"c", "B", "A"}, {"a", "B", "c"}};
    o.type = LLADD_DTABLE_BYTES;
    o.text = "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]";
    o.comparator = "reverse";
    refuses(txn, LLADD_NO_COMPARATOR, lladd_dtable_run_begin(txn, &o, &run));
    ok_db(&b, lladd_dtable_comparator_add(b.db, &reverse, &b.err));
    ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
    ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
    struct lladd_dtable_comparator other = no_case;
    ck_assert_int_eq(lladd_dtable_comparator_add(b.db, &other, &b.err), LLADD_EXISTS);
    for (int i = 0; i < 2; i++) {
        o.comparator = names[i];
        ok(txn, lladd_dtable_run_begin(txn, &o, &run));
        for (int w = 0; w < 3; w++) {
            struct lladd_dtable_key k = lladd_dtable_bytes(words[i][w], 1);
            struct lladd_dtable_value v = lladd_dtable_value_of(words[i][w], 1);
            ok(txn, lladd_dtable_run_add(run, &k, &v));
        }
        ok(txn, lladd_dtable_run_finish(run, &roots[i]));
    }
    commit(txn);
    fixture_close(&b);
    fixture_open(&b);
    struct lladd_dtable *t;
    ck_assert_int_eq(lladd_dtable_run_open(b.db, roots[0], &t, &b.err), LLADD_NO_COMPARATOR);
    ck_assert_ptr_nonnull(strstr(b.err.message, "reverse"));
    ok_db(&b, lladd_dtable_comparator_add(b.db, &reverse, &b.err));
    ok_db(&b, lladd_dtable_comparator_add(b.db, &no_case, &b.err));
    for (int i = 0; i < 2; i++) {
        t = open_run(&b, roots[i]);
        for (const char *w = "aBcC"; *w; w++) {
            struct lladd_dtable_key k = lladd_dtable_bytes(w, 1);
            int rc = lladd_dtable_get(t, &k, NULL, 0, NULL, &b.err);
            ck_assert_int_eq(rc, i || *w == 'B' || *w == 'c' ? 0 : LLADD_NOT_FOUND);
        }
        ok_db(&b, lladd_dtable_run_check(t, &b.err));
        lladd_dtable_close(t);
    }
}
END_TEST

static int of_bytes(void *ctx, struct lladd_span x, struct lladd_span y)
{
    return backwards(ctx, y, x);
}
static int all_the_same(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    (void)x;
    (void)y;
    return 0;
}
static int none_is_the_same(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    (void)x;
    (void)y;
    return -1;
}

/* A comparator can be wrong for a run: under it, the first key of the run is not before the last
 * key, or the only key is not equal to itself. The run cannot be opened with such a comparator.
 * With the right comparator, the run can be opened again. */
START_TEST(a_changed_comparator)
{
    static int (*const changed[])(void *, struct lladd_span,
                                  struct lladd_span) = {of_bytes, all_the_same, none_is_the_same};
    enum { RIGHT = 3 };
    static const char *const words[] = {"c", "b", "a"};
    struct lladd_dtable_comparator now = reverse;
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    lladd_pageno roots[4];
    ok_db(&b, lladd_dtable_comparator_add(b.db, &reverse, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    o.type = LLADD_DTABLE_BYTES;
    o.comparator = "reverse";
    o.name = "names";
    for (int n = 0; n < 4; n++) { /* rows */
        struct lladd_dtable_run_builder *run;
        ok(txn, lladd_dtable_run_begin(txn, &o, &run));
        for (int w = 0; w < n; w++) {
            struct lladd_dtable_key k = lladd_dtable_bytes(words[w], 1);
            struct lladd_dtable_value v = lladd_dtable_value_of(words[w], 1);
            ok(txn, lladd_dtable_run_add(run, &k, &v));
        }
        ok(txn, lladd_dtable_run_finish(run, &roots[n]));
    }
    commit(txn);
    for (int i = 0; i <= RIGHT; i++) {
        fixture_close(&b);
        fixture_open(&b);
        now.compare = i == RIGHT ? backwards : changed[i];
        ok_db(&b, lladd_dtable_comparator_add(b.db, &now, &b.err));
        for (int n = 0; n < 4; n++) {
            struct lladd_dtable *t = NULL;
            bool found = i != RIGHT && (n > 1 ? i < 2 : n && i == 2);
            int rc = lladd_dtable_run_open(b.db, roots[n], &t, &b.err);
            ck_assert_int_eq(rc, found ? LLADD_OTHER_ORDER : 0);
            ck_assert(!found ||
                      (strstr(b.err.message, "\"reverse\"") && strstr(b.err.message, "\"names\"")));
            if (i == RIGHT)
                ok_db(&b, lladd_dtable_run_check(t, &b.err));
            if (!rc)
                lladd_dtable_close(t);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.order");
    TCase *tc = tcase_create("order");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, missing_comparators);
    tcase_add_test(tc, a_changed_comparator);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
