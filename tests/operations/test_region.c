/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: extents that can be looked up and listed. */
#include "op_fixture.h"

#include <lladd/hash.h>
#include <lladd/sync.h>

static struct fixture b;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_check(&b);
    fixture_free(&b);
}

static lladd_pageno make(uint64_t pages, unsigned kind, uint64_t tag)
{
    lladd_pageno first;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_region_create(txn, pages, kind, tag, &first));
    commit(txn);
    return first;
}

static void is_there(lladd_pageno first, uint64_t pages, unsigned kind, uint64_t tag)
{
    struct lladd_region r;
    ok_db(&b, lladd_region_get(b.db, first, &r, &b.err));
    ck_assert_uint_eq(r.first.v, first.v);
    ck_assert_uint_eq(r.pages, pages);
    ck_assert_uint_eq(r.kind, kind);
    ck_assert_uint_eq(r.tag, tag);
    for (uint64_t i = 0; i < pages; i++) {
        enum lladd_page_use use;
        ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(first.v + i), &use, &b.err));
        ck_assert_int_eq(use, kind == LLADD_EXTENT_RAW ? LLADD_USE_RAW : LLADD_USE_PAGED);
    }
}

static void is_none(lladd_pageno first)
{
    struct lladd_region r;
    ck_assert_int_eq(lladd_region_get(b.db, first, &r, &b.err), LLADD_NOT_FOUND);
    ck_assert_uint_eq(b.err.page.v, first.v);
}

struct sums {
    uint64_t n, pages, tags, stop;
};

/* Adds the region to the sums. For region number `stop`, returns -5. */
static int add_up(void *ctx, const struct lladd_region *r)
{
    struct sums *s = ctx;
    s->n++;
    s->pages += r->pages;
    s->tags += r->tag;
    return s->n == s->stop ? -5 : 0;
}

static struct sums all(void)
{
    struct sums s = {0, 0, 0, 0};
    ok_db(&b, lladd_region_each(b.db, add_up, &s, &b.err));
    return s;
}

/* ---- create and destroy --------------------------------------------------------------- */

START_TEST(a_region_can_be_looked_up_until_it_is_destroyed)
{
    static const unsigned kinds[] = {LLADD_EXTENT_PAGED, LLADD_EXTENT_BULK, LLADD_EXTENT_RAW};
    lladd_pageno first[3];
    ck_assert_uint_eq(all().n, 0); /* the lookup has created nothing */
    is_none(lladd_page_of(5));
    const uint64_t none = fixture_pages_used(&b);
    for (unsigned i = 0; i < 3; i++)
        first[i] = make(10 + i, kinds[i], UINT64_MAX - i);
    const uint64_t used = fixture_pages_used(&b);
    ck_assert_uint_ge(used, none + 33);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++) {
            is_there(first[i], 10 + i, kinds[i], UINT64_MAX - i);
            is_none(lladd_page_of(first[i].v + 1));
        }
        ck_assert_uint_eq(all().n, 3);
        ck_assert_uint_eq(all().pages, 33);
        if (round == 0) {
            fixture_close(&b);
            fixture_open(&b);
        } else {
            fixture_crash(&b);
        }
    }
    struct sums s = {0, 0, 0, 2};
    ck_assert_int_eq(lladd_region_each(b.db, add_up, &s, &b.err), -5);
    ck_assert_uint_eq(s.n, 2);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_region_destroy(txn, first[1]));
    refuses(txn, LLADD_NOT_FOUND, lladd_region_destroy(txn, first[1]));
    refuses(txn, LLADD_NOT_FOUND, lladd_region_destroy(txn, lladd_page_of(first[0].v + 1)));
    commit(txn);
    is_none(first[1]);
    ck_assert_uint_eq(fixture_pages_used(&b), used - 11);
    ck_assert_uint_eq(all().pages, 22);
}
END_TEST

START_TEST(a_rollback_undoes_creation_and_destruction)
{
    lladd_savepoint_id sp;
    lladd_pageno old = make(7, LLADD_EXTENT_PAGED, 1), inner, outer;
    const uint64_t used = fixture_pages_used(&b);
    for (int crash = 0; crash < 2; crash++) {
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_region_create(txn, 3, LLADD_EXTENT_RAW, 2, &outer));
        ok(txn, lladd_savepoint(txn, &sp));
        ok(txn, lladd_region_create(txn, 4, LLADD_EXTENT_PAGED, 3, &inner));
        ok(txn, lladd_region_destroy(txn, old));
        is_none(old);
        ok(txn, lladd_rollback_to(txn, sp));
        is_none(inner);
        is_there(old, 7, LLADD_EXTENT_PAGED, 1);
        is_there(outer, 3, LLADD_EXTENT_RAW, 2);
        ok(txn, lladd_region_destroy(txn, old));
        if (crash) {
            ok_db(&b, lladd_log_force(b.db, lladd_lsn_of(0), &b.err));
            fixture_crash(&b);
        } else {
            abort_txn(txn);
        }
        is_none(outer);
        is_there(old, 7, LLADD_EXTENT_PAGED, 1);
        ck_assert_uint_eq(all().n, 1);
        ck_assert_uint_eq(fixture_pages_used(&b), used);
    }
}
END_TEST

/* The pages of a destroyed region are not reused while the destruction may be rolled back. */
START_TEST(two_transactions_create_and_destroy_regions)
{
    lladd_pageno old = make(5, LLADD_EXTENT_PAGED, 1), mine, yours;
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    ok(one, lladd_region_destroy(one, old));
    ok(one, lladd_region_create(one, 5, LLADD_EXTENT_PAGED, 2, &mine));
    ok(two, lladd_region_create(two, 5, LLADD_EXTENT_PAGED, 3, &yours));
    ck_assert_uint_ne(mine.v, old.v);
    ck_assert_uint_ne(yours.v, old.v);
    ck_assert_uint_ne(yours.v, mine.v);
    commit(two);
    abort_txn(one);
    is_there(old, 5, LLADD_EXTENT_PAGED, 1);
    is_there(yours, 5, LLADD_EXTENT_PAGED, 3);
    is_none(mine);
}
END_TEST

/* The transaction that has created the catalogue rolls back. The catalogue stays. */
START_TEST(the_first_region_is_rolled_back)
{
    lladd_pageno mine, yours;
    struct lladd_txn *one = fixture_begin(&b), *two = fixture_begin(&b);
    ok(one, lladd_region_create(one, 2, LLADD_EXTENT_PAGED, 1, &mine));
    ok(two, lladd_region_create(two, 3, LLADD_EXTENT_PAGED, 2, &yours));
    abort_txn(one);
    commit(two);
    is_none(mine);
    fixture_crash(&b);
    is_there(yours, 3, LLADD_EXTENT_PAGED, 2);
    ck_assert_uint_eq(all().n, 1);
}
END_TEST

START_TEST(many_regions)
{
    enum { N = 700 };
    static lladd_pageno first[N];
    uint64_t pages = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < N; i++) {
        ok(txn, lladd_region_create(txn, 1 + i % 9, LLADD_EXTENT_PAGED, i, &first[i]));
        pages += 1 + i % 9;
    }
    commit(txn);
    ck_assert_uint_eq(all().n, N);
    ck_assert_uint_eq(all().pages, pages);
    ck_assert_uint_eq(all().tags, N * (N - 1) / 2);
    txn = fixture_begin(&b);
    for (unsigned i = 0; i < N; i += 2)
        ok(txn, lladd_region_destroy(txn, first[i]));
    commit(txn);
    ck_assert_uint_eq(all().n, N / 2);
    for (unsigned i = 1; i < N; i += 2)
        is_there(first[i], 1 + i % 9, LLADD_EXTENT_PAGED, i);
}
END_TEST

/* ---- errors --------------------------------------------------------------------------- */

START_TEST(wrong_calls_change_nothing)
{
    lladd_pageno first = {77};
    make(1, LLADD_EXTENT_PAGED, 0);
    const uint64_t used = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_region_create(txn, 0, 0, 1, &first));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_region_create(txn, 1, 3, 1, &first));
    refuses(txn, LLADD_BAD_ARGUMENT,
            lladd_region_create(txn, lladd_extent_max(b.db) + 1, 0, 1, &first));
    refuses(txn, LLADD_NOT_FOUND, lladd_region_destroy(txn, lladd_page_of(UINT64_MAX)));
    commit(txn);
    ck_assert_uint_eq(first.v, 77);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    ck_assert_uint_eq(all().n, 1);
}
END_TEST

/* The n-th memory allocation fails, even while the catalogue is being created. */
START_TEST(an_allocation_fails)
{
    uint64_t made = 0, failures = 0;
    for (uint64_t nth = 1; nth < 80; nth++) {
        lladd_pageno first;
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, nth % 12 + 1, false);
        int rc = lladd_region_create(txn, 2, LLADD_EXTENT_PAGED, nth, &first);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert_msg(rc == 0 || rc == LLADD_NO_MEMORY, "%s", lladd_code_name(rc));
        failures += rc != 0;
        made += rc == 0;
        commit(txn);
        ck_assert_uint_eq(all().n, made);
    }
    ck_assert_uint_gt(made, 10);
    ck_assert_uint_gt(failures, 10);
    fixture_crash(&b);
    ck_assert_uint_eq(all().n, made);
}
END_TEST

/* The catalogue's name has a newer version, or names something that is no catalogue; or the
 * catalogue has an invalid row. */
START_TEST(a_wrong_catalogue_is_refused)
{
    struct lladd_root_value was;
    struct lladd_region r;
    lladd_pageno first = make(4, LLADD_EXTENT_PAGED, 9), other;
    ok_db(&b, lladd_root_get(b.db, LLADD_REGIONS_ROOT, &was, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, NULL, &other));
    const struct lladd_root_value wrong[] = {{was.a, 2}, {first.v, 1}, {other.v, 1}};
    static const int codes[] = {LLADD_NEWER_FORMAT, 0, LLADD_CORRUPT_PAGE};
    commit(txn);
    for (unsigned i = 0; i < 3; i++) {
        struct sums s = {0, 0, 0, 0};
        txn = fixture_begin(&b);
        ok(txn, lladd_root_set(txn, LLADD_REGIONS_ROOT, wrong[i]));
        commit(txn);
        fixture_close(&b);
        fixture_open(&b);
        int rc = lladd_region_get(b.db, first, &r, &b.err);
        ck_assert_msg(codes[i] ? rc == codes[i] : rc != 0, "%s", lladd_code_name(rc));
        ck_assert_int_eq(lladd_region_each(b.db, add_up, &s, &b.err), rc);
        txn = fixture_begin(&b);
        refuses(txn, rc, lladd_region_create(txn, 1, 0, 0, &other));
        abort_txn(txn);
    }
    txn = fixture_begin(&b);
    ok(txn, lladd_root_set(txn, LLADD_REGIONS_ROOT, was));
    struct lladd_hash *h;
    unsigned char key[8], row[24] = {0};
    ok_db(&b, lladd_hash_open(b.db, lladd_page_of(was.a), 0, &h, &b.err));
    lladd_put64(key, first.v);
    lladd_put64(row, UINT64_MAX); /* number of pages */
    ok(txn, lladd_hash_put(txn, h, key, 8, row, 24));
    commit(txn);
    lladd_hash_close(h);
    ck_assert_int_eq(lladd_region_get(b.db, first, &r, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(b.err.page.v, first.v);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_CORRUPT_PAGE, lladd_region_destroy(txn, first));
    abort_txn(txn);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------- */

enum { THREADS = 6, EACH = 20 };

static void *makes_some(void *arg)
{
    uint64_t tag = *(uint64_t *)arg;
    for (unsigned i = 0; i < EACH; i++) {
        lladd_pageno first;
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_region_create(txn, 2, LLADD_EXTENT_PAGED, tag, &first));
        if (i % 2)
            commit(txn);
        else
            abort_txn(txn);
    }
    return NULL;
}

/* All threads need the catalogue, which does not exist yet. */
START_TEST(threads_make_the_first_regions)
{
    struct lladd_thread thread[THREADS];
    uint64_t tags[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        tags[i] = 1 + i;
        ck_assert_int_eq(lladd_thread_start(&thread[i], makes_some, &tags[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&thread[i]);
    ck_assert_uint_eq(all().n, THREADS * EACH / 2);
    ck_assert_uint_eq(all().tags, EACH / 2 * THREADS * (THREADS + 1) / 2);
    fixture_crash(&b);
    ck_assert_uint_eq(all().n, THREADS * EACH / 2);
}
END_TEST

static void setup_threads(void)
{
    fixture_init_threads(&b);
    fixture_open(&b);
}

int main(void)
{
    Suite *s = suite_create("regions");
    TCase *t = tcase_create("region");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_region_can_be_looked_up_until_it_is_destroyed);
    tcase_add_test(t, a_rollback_undoes_creation_and_destruction);
    tcase_add_test(t, two_transactions_create_and_destroy_regions);
    tcase_add_test(t, the_first_region_is_rolled_back);
    tcase_add_test(t, many_regions);
    tcase_add_test(t, wrong_calls_change_nothing);
    tcase_add_test(t, an_allocation_fails);
    tcase_add_test(t, a_wrong_catalogue_is_refused);
    suite_add_tcase(s, t);
    t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup_threads, teardown);
    tcase_add_test(t, threads_make_the_first_regions);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
