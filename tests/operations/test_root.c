/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Named roots: a name has the value of the last commit that has set it. There can be any number of
 * names. Concurrent transactions with different names do not affect each other. Invalid names are
 * refused.
 */
#include "op_fixture.h"

#include <lladd/stats.h>
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
    struct lladd_txn *txn = fixture_begin(&b);
    expect_none("heap");
    ok(txn, lladd_root_set(txn, "heap", value(7, UINT64_MAX)));
    expect("heap", 7, UINT64_MAX);
    commit(txn);
    fixture_crash(&b);
    expect("heap", 7, UINT64_MAX);
    txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, "heap", value(8, 0)));
    ok(txn, lladd_root_set(txn, "heap", value(9, 1)));
    expect("heap", 9, 1);
    abort_txn(txn);
    expect("heap", 7, UINT64_MAX);
    txn = fixture_begin(&b);
    ok(txn, lladd_root_delete(txn, "heap"));
    expect_none("heap");
    refuses(txn, LLADD_NOT_FOUND, lladd_root_delete(txn, "heap"));
    refuses(txn, LLADD_NOT_FOUND, lladd_root_delete(txn, "never"));
    abort_txn(txn);
    expect("heap", 7, UINT64_MAX);
    txn = fixture_begin(&b);
    ok(txn, lladd_root_delete(txn, "heap"));
    commit(txn);
    fixture_crash(&b);
    expect_none("heap");
    txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, "heap", value(1, 2)));
    commit(txn);
    expect("heap", 1, 2);
}
END_TEST

/* One transaction removes a name, and another adds a name. The new name must not get the entry of
 * the removed name, or the abort of the removal would destroy it. */
START_TEST(an_abort_leaves_other_names_alone)
{
    struct lladd_txn *txn = fixture_begin(&b), *other;
    ok(txn, lladd_root_set(txn, "old", value(1, 1)));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_root_delete(txn, "old"));
    other = fixture_begin(&b);
    ok(other, lladd_root_set(other, "new", value(2, 2)));
    ok(txn, lladd_root_set(txn, "mine", value(3, 3)));
    ok(other, lladd_root_set(other, "newer", value(4, 4)));
    commit(other);
    abort_txn(txn);
    expect("old", 1, 1);
    expect("new", 2, 2);
    expect("newer", 4, 4);
    expect_none("mine");
    fixture_crash(&b);
    expect("old", 1, 1);
    expect("new", 2, 2);
    expect("newer", 4, 4);
}
END_TEST

struct seen {
    unsigned char is[400];
    int n;
};

/* Notes a name. v.a is the number in the name. At name number v.b, returns 42, which ends the
 * listing. */
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
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name %u", i);
        ok(txn, lladd_root_set(txn, name, value(i, 0)));
        snprintf(name, sizeof name, "gone %u", i);
        if (i % 3 == 0)
            ok(other, lladd_root_set(other, name, value(i, 0)));
    }
    commit(txn);
    abort_txn(other); /* its pages stay in the chain, since other transactions may use them */
    fixture_crash(&b);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "name %u", i);
        expect(name, i, 0);
        snprintf(name, sizeof name, "gone %u", i);
        expect_none(name);
    }
    memset(&seen, 0, sizeof seen);
    ok_db(&b, lladd_root_each(b.db, see, &seen, &b.err));
    ck_assert_int_eq(seen.n, 300);
    /* Entries of names that were rolled back are reused, so no page is added. */
    uint64_t used = 0;
    for (int round = 0; round < 2; round++) {
        enum lladd_page_use use;
        uint64_t n = 0;
        for (uint64_t p = 0; p < lladd_page_count(b.db); p++) {
            ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(p), &use, &b.err));
            n += use == LLADD_USE_PAGED;
        }
        if (round)
            ck_assert_uint_eq(n, used);
        used = n;
        txn = fixture_begin(&b);
        for (unsigned i = 300; i < 390 && !round; i++) {
            snprintf(name, sizeof name, "name %u", i);
            ok(txn, lladd_root_set(txn, name, value(i, 0)));
        }
        commit(txn);
    }
    expect("name 389", 389, 0);
}
END_TEST

static uint64_t pages_fixed(void)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(b.db, &s), 0);
    return s.cache_hits + s.cache_misses;
}

static void set_names(const char *prefix, unsigned from, unsigned to, bool commits)
{
    char name[32];
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof name, "%s %u", prefix, i);
        ok(txn, lladd_root_set(txn, name, value(i, 7)));
    }
    if (commits)
        commit(txn);
    else
        abort_txn(txn);
}

/* A call that sets a name, or looks up a present or an absent name, reads few pages, whatever the
 * number of names. A call that adds a name reads few pages on average. */
START_TEST(names_are_found_without_a_search)
{
    enum { NAMES = 3000, SOME = 100 };
    char name[32];
    set_names("name", 0, NAMES, true);
    fixture_crash(&b);
    expect("name 5", 5, 7); /* the first call reads all pages of the catalogue */
    uint64_t before = pages_fixed();
    for (unsigned i = 0; i < SOME; i++) {
        snprintf(name, sizeof name, "name %u", i * (NAMES / SOME));
        expect(name, i * (NAMES / SOME), 7);
        snprintf(name, sizeof name, "none %u", i);
        expect_none(name);
    }
    ck_assert_uint_le(pages_fixed() - before, 2 * SOME);
    before = pages_fixed();
    set_names("name", NAMES - SOME, NAMES, true);
    ck_assert_uint_le(pages_fixed() - before, 4 * SOME);
    set_names("first of more", 0, 100, true); /* searches for room from the first page on */
    before = pages_fixed();
    set_names("more", 0, NAMES, true);
    ck_assert_uint_le(pages_fixed() - before, 16 * NAMES);
    expect("more 2999", 2999, 7);
    fixture_crash(&b);
    expect("more 2999", 2999, 7);
    expect("name 2999", 2999, 7);
    expect_none("none 1");
}
END_TEST

/* The first setting of a name is rolled back. Other names can use its entry, again and again. */
START_TEST(entries_of_rolled_back_names_are_reused)
{
    set_names("stays", 0, 500, true);
    set_names("gone", 0, 1000, false);
    uint64_t used = fixture_pages_used(&b);
    for (unsigned round = 1; round < 20; round++) {
        set_names("gone", round * 1000, round * 1000 + 1000, false);
        set_names("gone", 0, 10, false);
    }
    ck_assert_uint_le(fixture_pages_used(&b), used + used / 2);
    expect_none("gone 1");
    expect_none("gone 1500");
    set_names("gone", 1, 2, true);
    expect("gone 1", 1, 7);
    for (unsigned i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof name, "stays %u", i);
        expect(name, i, 7);
    }
    fixture_crash(&b);
    expect("gone 1", 1, 7);
    expect_none("gone 2");
}
END_TEST

/* Without memory for the index of names, the library searches the chain of pages. */
START_TEST(names_are_found_without_memory)
{
    set_names("name", 0, 200, true);
    fixture_crash(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, "name 7", value(8, 8)));
    commit(txn);
    fixture_crash(&b);
    txn = fixture_begin(&b);
    fault_alloc_fail(&b.mem, 1, true);
    struct lladd_root_value v = {0, 0};
    int rc = lladd_root_get(b.db, "name 199", &v, &b.err);
    int none = lladd_root_get(b.db, "none", &v, &b.err);
    uint64_t fired = fault_alloc_fired(&b.mem);
    fault_alloc_fail(&b.mem, 0, false);
    ck_assert_uint_gt(fired, 0);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(none, LLADD_NOT_FOUND);
    ck_assert_uint_eq(v.a, 199);
    ok(txn, lladd_root_set(txn, "name 200", value(200, 7)));
    commit(txn);
    expect("name 200", 200, 7);
    expect("name 7", 8, 8);
}
END_TEST

START_TEST(a_listing_stops_when_the_callback_says_so)
{
    static struct seen seen;
    struct lladd_txn *txn = fixture_begin(&b);
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
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, longest, value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_set(txn, "", value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_set(txn, beyond, value(1, 2)));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_root_delete(txn, beyond));
    ck_assert_int_eq(lladd_root_get(b.db, "", &v, &b.err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_root_get(b.db, beyond, &v, &b.err), LLADD_BAD_ARGUMENT);
    commit(txn);
    fixture_crash(&b);
    expect(longest, 1, 2);
    longest[62] = 0;
    expect_none(longest);
}
END_TEST

/* A class that looks up a name in its checkpoint callback, as the journal does. */
static unsigned asked;

static int ask_at_checkpoint(void *ctx, struct lladd_db *db)
{
    struct lladd_root_value v = {0, 0};
    (void)ctx;
    asked++;
    int rc = lladd_root_get(db, "mark", &v, NULL);
    return rc ? rc : v.a == 5 ? 0 : LLADD_BUG;
}

static lladd_lsn needs_no_log(void *ctx, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    return (lladd_lsn){UINT64_MAX};
}

static const struct lladd_object_class asks = {
    .struct_size = sizeof(struct lladd_object_class),
    .name = "test.asks",
    .version = 1,
    .durable_lsn = needs_no_log,
    .checkpoint = ask_at_checkpoint,
};

/* A checkpoint makes the first lookup of a name after the open, so it reads the catalogue. A thread
 * that adds a name may wait for a checkpoint. So a checkpoint that looks up a name must not wait
 * for a thread that adds a name. */
START_TEST(a_checkpoint_may_be_the_first_to_ask_for_a_name)
{
    asked = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, "mark", value(5, 0)));
    commit(txn);
    fixture_close(&b);
    ok_db(&b, lladd_register_class(&b.options, &asks, &b.err));
    fixture_open(&b);
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_uint_gt(asked, 0);
    expect("mark", 5, 0);
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
    tcase_add_test(c, names_are_found_without_a_search);
    tcase_add_test(c, entries_of_rolled_back_names_are_reused);
    tcase_add_test(c, names_are_found_without_memory);
    tcase_add_test(c, a_listing_stops_when_the_callback_says_so);
    tcase_add_test(c, names_have_1_to_63_bytes);
    tcase_add_test(c, a_checkpoint_may_be_the_first_to_ask_for_a_name);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
