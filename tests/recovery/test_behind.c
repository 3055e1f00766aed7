/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index of instant recovery: of each page the records that change it, in LSN order, however
 * they were met; and an index that is lost rather than wrong.
 */
#include "recovery/behind.h"
#include "support/fault_alloc.h"

#include <check.h>
#include <stdlib.h>

static struct fault_alloc mem;
static struct ll_env env;
static struct ll_behind index_;

enum { ORIGIN = 4096, STEP = 8 };

static void begin_case(void)
{
    fault_alloc_init(&mem);
    ll_env_init(&env, &mem.mem, NULL, false);
    ll_behind_init(&index_, &env, lladd_lsn_of(ORIGIN));
}

static void end_case(void)
{
    ll_behind_free(&index_);
    ck_assert_uint_eq(fault_alloc_live(&mem), 0);
}

static void add_kind(unsigned kind, uint8_t flags, uint64_t lsn, uint64_t page, bool older)
{
    struct ll_record rec = {.kind = (uint8_t)kind,
                            .flags = flags,
                            .lsn = lladd_lsn_of(lsn),
                            .page = page,
                            .size = 40};
    ll_behind_add(&index_, &rec, older);
}

static void add(uint64_t lsn, uint64_t page, bool older)
{
    add_kind(LL_REC_UPDATE, 0, lsn, page, older);
}

/* The page's records are those from `first` on, so many STEPs apart. */
static void expect(uint64_t page, uint64_t first, uint64_t apart, unsigned n)
{
    struct ll_behind_walk w;
    ck_assert(ll_behind_find(&index_, page, &w));
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_eq(w.lsn.v, first + i * apart * STEP);
        ck_assert_int_eq(ll_behind_next(&index_, &w), i + 1 < n);
    }
    ck_assert_uint_eq(ll_behind_newest(&index_, page).v, first + (n - 1) * apart * STEP);
}

START_TEST(records_of_a_page_are_in_order)
{
    enum { RECORDS = 3000, OF_PAGES = 3 };
    begin_case();
    for (uint64_t i = 0; i < RECORDS; i++)
        add(ORIGIN + i * STEP, i % OF_PAGES, false);
    for (uint64_t p = 0; p < OF_PAGES; p++)
        expect(p, ORIGIN + p * STEP, OF_PAGES, RECORDS / OF_PAGES);
    ck_assert_uint_eq(index_.page_max, OF_PAGES - 1);
    ck_assert_uint_eq(index_.record_max, 40);
    struct ll_behind_walk w;
    ck_assert(!ll_behind_find(&index_, OF_PAGES, &w));
    end_case();
}
END_TEST

/* Met in two halves, the newer one first; some pages are in one of them only. */
START_TEST(an_older_part_goes_before)
{
    begin_case();
    for (uint64_t i = 10; i < 20; i++)
        add(ORIGIN + i * STEP, 1, false);
    add(ORIGIN + 20 * STEP, 2, false);
    for (uint64_t i = 0; i < 10; i++)
        add(ORIGIN + i * STEP, 1, true);
    add(ORIGIN + 10 * STEP, 3, true);
    ll_behind_join(&index_);
    expect(1, ORIGIN, 1, 20);
    expect(2, ORIGIN + 20 * STEP, 1, 1);
    expect(3, ORIGIN + 10 * STEP, 1, 1);
    end_case();
}
END_TEST

START_TEST(what_changes_no_page_is_left_out)
{
    begin_case();
    add_kind(LL_REC_COMMIT, 0, ORIGIN, 5, false);
    add_kind(LL_REC_CLR_END, 0, ORIGIN + STEP, 5, false);
    add(ORIGIN + 2 * STEP, LLADD_NO_PAGE, false);
    add(ORIGIN - STEP, 5, false);
    ck_assert_uint_eq(index_.pages.count, 0);
    add_kind(LL_REC_CLR, 0, ORIGIN + 3 * STEP, 5, false);
    expect(5, ORIGIN + 3 * STEP, 1, 1);
    end_case();
}
END_TEST

START_TEST(bases_are_known)
{
    begin_case();
    struct ll_behind_walk w;
    add(ORIGIN, 7, false);
    add_kind(LL_REC_IMAGE, 0, ORIGIN + STEP, 7, false);
    add_kind(LL_REC_UPDATE, LL_REC_FORMATS, ORIGIN + 2 * STEP, 7, false);
    add(ORIGIN + 3 * STEP, 7, false);
    static const bool base[] = {false, true, true, false};
    ck_assert(ll_behind_find(&index_, 7, &w));
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(w.base, base[i]);
        (void)ll_behind_next(&index_, &w);
    }
    end_case();
}
END_TEST

/* LSNs further apart than an entry can say, and no memory at any of its allocations. */
START_TEST(it_is_lost_rather_than_wrong)
{
    begin_case();
    add(ORIGIN, 1, false);
    add(ORIGIN + (UINT64_C(8) << 32), 1, false);
    ck_assert(index_.lost);
    ck_assert_uint_eq(index_.pages.count, 0);
    end_case();
    for (uint64_t n = 1;; n++) {
        begin_case();
        fault_alloc_fail(&mem, n, false);
        for (uint64_t i = 0; i < 100; i++)
            add(ORIGIN + (100 + i) * STEP, i, false);
        for (uint64_t i = 0; i < 100; i++)
            add(ORIGIN + i * STEP, 50 + i, true);
        ll_behind_join(&index_);
        bool fired = fault_alloc_fired(&mem) != 0;
        ck_assert_int_eq(index_.lost, fired);
        if (!fired)
            ck_assert_uint_eq(index_.pages.count, 150);
        end_case();
        if (!fired)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pages behind the log");
    TCase *c = tcase_create("all");
    tcase_add_test(c, records_of_a_page_are_in_order);
    tcase_add_test(c, an_older_part_goes_before);
    tcase_add_test(c, what_changes_no_page_is_left_out);
    tcase_add_test(c, bases_are_known);
    tcase_add_test(c, it_is_lost_rather_than_wrong);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
