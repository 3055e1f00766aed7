/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Named roots: a name has the value it was last given by a commit, any number of names fit,
 * concurrent transactions with different names do not disturb each other, and bad names are
 * refused.
 */
#include "bed.h"

#include <stdio.h>

static struct bed b;

static void setup(void)
{
    bed_init(&b, 4096);
    bed_open(&b);
}
static void teardown(void)
{
    bed_free(&b);
}

static struct lladd_root_value value(uint64_t a, uint64_t c)
{
    return (struct lladd_root_value){a, c};
}

static void expect(const char *name, uint64_t a, uint64_t c)
{
    struct lladd_root_value v = {0, 0};
    ok_db(&b, lladd_root_get(b.db, name, &v, &b.err));
    ck_assert_uint_eq(v.a, a);
    ck_assert_uint_eq(v.b, c);
}

static void expect_none(const char *name)
{
    struct lladd_root_value v = {77, 88};
    ck_assert_int_eq(lladd_root_get(b.db, name, &v, &b.err), LLADD_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(b.err.message, name));
    ck_assert_uint_eq(v.a, 77);
}

START_TEST(set_get_remove)
{
    struct lladd_txn *txn = bed_begin(&b);
    expect_none("heap");
    ok(txn, lladd_root_set(txn, "heap", value(7, UINT64_MAX)));
    expect("heap", 7, UINT64_MAX);
    commit(txn);
    bed_crash(&b);
    expect("heap", 7, UINT64_MAX);
    txn = bed_begin(&b);
    ok(txn, lladd_root_set(txn, "heap", value(8, 0)));
    ok(txn, lladd_root_set(txn, "heap", value(9, 1)));
    expect("heap", 9, 1);
    abort_txn(txn);
    expect("heap", 7, UINT64_MAX);
    txn = bed_begin(&b);
    ok(txn, lladd_root_remove(txn, "heap"));
    expect_none("heap");
    refuses(txn, LLADD_NOT_FOUND, lladd_root_remove(txn, "heap"));
    refuses(txn, LLADD_NOT_FOUND, lladd_root_remove(txn, "never"));
    abort_txn(txn);
    expect("heap", 7, UINT64_MAX);
    txn = bed_begin(&b);
    ok(txn, lladd_root_remove(txn, "heap"));
    commit(txn);
    bed_crash(&b);
    expect_none("heap");
    txn = bed_begin(&b);
    ok(txn, lladd_root_set(txn, "heap", value(1, 2)));
    commit(txn);
    expect("heap", 1, 2);
}
END_TEST

/* One removes, another adds: if an entry changed hands, the abort would destroy what was added. */
START_TEST(an_abort_leaves_other_names_alone)
{
    struct lladd_txn *txn = bed_begin(&b), *other;
    ok(txn, lladd_root_set(txn, "old", value(1, 1)));
    commit(txn);
    txn = bed_begin(&b);
    ok(txn, lladd_root_remove(txn, "old"));
    other = bed_begin(&b);
    ok(other, lladd_root_set(other, "new", value(2, 2)));
    ok(txn, lladd_root_set(txn, "mine", value(3, 3)));
    ok(other, lladd_root_set(other, "newer", value(4, 4)));
    commit(other);
    abort_txn(txn);
    expect("old", 1, 1);
    expect("new", 2, 2);
    expect("newer", 4, 4);
    expect_none("mine");
    bed_crash(&b);
    expect("old", 1, 1);
    expect("new", 2, 2);
    expect("newer", 4, 4);
}
END_TEST

struct seen {
    unsigned char is[400];
    int n;
};

static int see(void *ctx, const char *name, struct lladd_root_value v)
{
    struct seen *s = ctx;
    ck_assert_uint_lt(v.a, 400);
    ck_assert_int_eq(atoi(name + 5), (int)v.a);
    ck_assert(!s->is[v.a]);
    s->is[v.a] = 1;
    s->n++;
    return s->n == (int)v.b ? 42 : 0;
}

START_TEST(more_names_than_a_page_holds)
{
    static struct seen seen;
    char name[32];
    struct lladd_txn *txn = bed_begin(&b), *other = bed_begin(&b);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name %u", i);
        ok(txn, lladd_root_set(txn, name, value(i, 0)));
        snprintf(name, sizeof name, "gone %u", i);
        if (i % 3 == 0)
            ok(other, lladd_root_set(other, name, value(i, 0)));
    }
    commit(txn);
    abort_txn(other); /* the pages it chained on stay: others use them */
    bed_crash(&b);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name %u", i);
        expect(name, i, 0);
        snprintf(name, sizeof name, "gone %u", i);
        expect_none(name);
    }
    memset(&seen, 0, sizeof seen);
    ok_db(&b, lladd_root_each(b.db, see, &seen, &b.err));
    ck_assert_int_eq(seen.n, 300);
    /* The places that were rolled back are used again: no page more. */
    uint64_t used = 0;
    for (int round = 0; round < 2; round++) {
        enum lladd_page_use use;
        uint64_t n = 0;
        for (uint64_t p = 0; p < lladd_page_count(b.db); p++) {
            ok_db(&b, lladd_page_use(b.db, lladd_page_of(p), &use, &b.err));
            n += use == LLADD_USE_PAGED;
        }
        if (round)
            ck_assert_uint_eq(n, used);
        used = n;
        txn = bed_begin(&b);
        for (unsigned i = 300; i < 390 && !round; i++) {
            snprintf(name, sizeof name, "name %u", i);
            ok(txn, lladd_root_set(txn, name, value(i, 0)));
        }
        commit(txn);
    }
    expect("name 389", 389, 0);
}
END_TEST

START_TEST(each_stops_when_told)
{
    static struct seen seen;
    struct lladd_txn *txn = bed_begin(&b);
    ok(txn, lladd_root_set(txn, "name 1", value(1, 2)));
    ok(txn, lladd_root_set(txn, "name 2", value(2, 2)));
    ok(txn, lladd_root_set(txn, "name 3", value(3, 2)));
    commit(txn);
    memset(&seen, 0, sizeof seen);
    ck_assert_int_eq(lladd_root_each(b.db, see, &seen, &b.err), 42);
    ck_assert_int_eq(seen.n, 2);
}
END_TEST

START_TEST(names_have_1_to_63_bytes)
{
    char longest[64], beyond[65];
    memset(longest, 'n', 63);
    longest[63] = 0;
    memset(beyond, 'n', 64);
    beyond[64] = 0;
    struct lladd_root_value v;
    struct lladd_txn *txn = bed_begin(&b);
    ok(txn, lladd_root_set(txn, longest, value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_set(txn, "", value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_set(txn, beyond, value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_remove(txn, beyond));
    ck_assert_int_eq(lladd_root_get(b.db, "", &v, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_root_get(b.db, beyond, &v, &b.err), LLADD_BAD_ARGUMENT);
    commit(txn);
    bed_crash(&b);
    expect(longest, 1, 2);
    longest[62] = 0;
    expect_none(longest);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("named roots");
    TCase *c = tcase_create("roots");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, set_get_remove);
    tcase_add_test(c, an_abort_leaves_other_names_alone);
    tcase_add_test(c, more_names_than_a_page_holds);
    tcase_add_test(c, each_stops_when_told);
    tcase_add_test(c, names_have_1_to_63_bytes);
    suite_add_tcase(s, c);
    return bed_run(s);
}
