/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The redo index of instant recovery has, for each page, the records that change it, in LSN order,
 * in whatever order the records were inserted. If a record cannot be inserted, recovery stops using
 * the index, because an incomplete index would be wrong.
 */
#include "recovery/log_prefetch.h"
#include "recovery/redo_index.h"
#include "support/fault_alloc.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fault_alloc mem;
static struct ll_env env;
static struct ll_redo_index index_;

enum { ORIGIN = 4096, STEP = 8 };

static void begin_case(void)
{
    fault_alloc_init(&mem);
    ll_env_init(&env, &mem.mem, NULL, false);
    ll_redo_index_init(&index_, &env, lladd_lsn_of(ORIGIN), UINT64_MAX);
}

static void end_case(void)
{
    ll_redo_index_free(&index_);
    ck_assert_uint_eq(fault_alloc_live(&mem), 0);
}

static void add_kind(unsigned kind, uint8_t flags, uint64_t lsn, uint64_t page, bool older)
{
    struct ll_record rec = {
        .kind = (uint8_t)kind, .flags = flags, .lsn = lladd_lsn_of(lsn), .page = page, .size = 40};
    ll_redo_index_add(&index_, &rec, older);
}

static void add(uint64_t lsn, uint64_t page, bool older)
{
    add_kind(LL_REC_UPDATE, 0, lsn, page, older);
}

/* Asserts that the page has n records: at LSN `first`, and then one every apart * STEP bytes. */
static void expect(uint64_t page, uint64_t first, uint64_t apart, unsigned n)
{
    struct ll_redo_index_walk w;
    ck_assert(ll_redo_index_find(&index_, page, &w));
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_eq(w.lsn.v, first + i * apart * STEP);
        ck_assert_int_eq(ll_redo_index_next(&index_, &w), i + 1 < n);
    }
    ck_assert_uint_eq(ll_redo_index_newest(&index_, page).v, first + (n - 1) * apart * STEP);
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
    struct ll_redo_index_walk w;
    ck_assert(!ll_redo_index_find(&index_, OF_PAGES, &w));
    end_case();
}
END_TEST

/* Records are inserted in two parts, the newer part first. Some pages are only in one part. */
START_TEST(older_records_that_are_inserted_later_go_first)
{
    begin_case();
    for (uint64_t i = 10; i < 20; i++)
        add(ORIGIN + i * STEP, 1, false);
    add(ORIGIN + 20 * STEP, 2, false);
    for (uint64_t i = 0; i < 10; i++)
        add(ORIGIN + i * STEP, 1, true);
    add(ORIGIN + 10 * STEP, 3, true);
    ll_redo_index_join(&index_);
    expect(1, ORIGIN, 1, 20);
    expect(2, ORIGIN + 20 * STEP, 1, 1);
    expect(3, ORIGIN + 10 * STEP, 1, 1);
    end_case();
}
END_TEST

START_TEST(records_that_change_no_page_are_left_out)
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

/* Redo needs no record before a base, so the index does not keep such records. */
START_TEST(a_base_replaces_earlier_records)
{
    begin_case();
    struct ll_redo_index_walk w;
    add(ORIGIN + 2 * STEP, 7, false);
    add_kind(LL_REC_IMAGE, 0, ORIGIN + 3 * STEP, 7, false);
    add_kind(LL_REC_UPDATE, LL_REC_FORMATS, ORIGIN + 4 * STEP, 7, false);
    add(ORIGIN + 5 * STEP, 7, false);
    add(ORIGIN + 5 * STEP, 8, false);
    add(ORIGIN, 7, true);
    add(ORIGIN + STEP, 8, true);
    ll_redo_index_join(&index_);
    ck_assert(ll_redo_index_find(&index_, 7, &w));
    ck_assert(w.base);
    expect(7, ORIGIN + 4 * STEP, 1, 2);
    ck_assert(ll_redo_index_find(&index_, 8, &w));
    ck_assert(!w.base);
    expect(8, ORIGIN + STEP, 4, 2);
    ck_assert_uint_eq(index_.links.len, 5); /* links that are no longer needed are used again */
    end_case();
}
END_TEST

/* The index is given up if two LSNs are further apart than an entry can express, and if a memory
 * allocation fails. */
START_TEST(an_index_that_cannot_be_complete_is_given_up)
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
        ll_redo_index_join(&index_);
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

/* Whichever pages are in the two parts, the index takes no more memory than its budget, as counted
 * by the allocator. If the index has a page, it has all records of this page. */
START_TEST(an_index_stays_within_its_budget)
{
    enum { RECORDS = 20000 };
    static const uint64_t budgets[] = {64, 600, 2000, 5000, 20000, 100000, 1000000};
    static const uint64_t of_pages[] = {1, 30, 3000, RECORDS};
    for (unsigned b = 0; b < sizeof budgets / sizeof *budgets; b++) {
        for (unsigned p = 0; p < sizeof of_pages / sizeof *of_pages; p++) {
            uint64_t n = of_pages[p], had = 0;
            begin_case();
            index_.budget = budgets[b];
            for (uint64_t i = RECORDS / 4; i < RECORDS; i++)
                add(ORIGIN + i * STEP, i % n, false);
            for (uint64_t i = 0; i < RECORDS / 4; i++)
                add(ORIGIN + i * STEP, i % n, true);
            ll_redo_index_join(&index_);
            ck_assert_uint_le(fault_alloc_peak(&mem), budgets[b]);
            ck_assert_uint_le(ll_redo_index_bytes(&index_), budgets[b]);
            for (uint64_t page = 0; page < n; page++) {
                struct ll_redo_index_walk w;
                bool has = ll_redo_index_find(&index_, page, &w);
                ck_assert_int_ne(has, ll_redo_index_in_pass(&index_, page));
                if (has)
                    expect(page, ORIGIN + page * STEP, n,
                           (unsigned)(RECORDS / n + (page < RECORDS % n)));
                had += has;
            }
            ck_assert_int_eq(ll_redo_index_is_part(&index_), had < n);
            ck_assert_int_eq(index_.lost, index_.share == 0);
            if (budgets[b] >= 20000 && n == RECORDS)
                ck_assert_uint_gt(had, budgets[b] / 400);
            ck_assert_uint_eq(had, index_.pages.count);
            end_case();
        }
    }
}
END_TEST

/* A pass over the log redoes only marked pages. */
START_TEST(pages_are_marked_for_a_pass)
{
    begin_case();
    for (uint64_t i = 0; i < 6; i++)
        add(ORIGIN + i * STEP, i % 3, false);
    for (uint64_t page = 0; page < 4; page++)
        ck_assert_int_eq(ll_redo_index_in_pass(&index_, page), page == 3);
    ck_assert(ll_redo_index_mark(&index_, 1));
    ck_assert(!ll_redo_index_mark(&index_, 1));
    ck_assert(!ll_redo_index_mark(&index_, 3));
    ck_assert_uint_eq(index_.marked, 1);
    for (uint64_t page = 0; page < 4; page++)
        ck_assert_int_eq(ll_redo_index_in_pass(&index_, page), page == 1);
    expect(1, ORIGIN + STEP, 3, 2);
    end_case();
}
END_TEST

static int get_record(void *ctx, lladd_lsn lsn, struct ll_record *rec)
{
    static unsigned char payload[64];
    const uint64_t *lost = ctx;
    memset(payload, (int)(lsn.v >> 3), sizeof payload);
    *rec = (struct ll_record){.lsn = lsn,
                              .page = lsn.v / 8,
                              .kind = lsn.v % 16 ? LL_REC_CLR : LL_REC_UPDATE,
                              .redo = {payload, lsn.v / 8 % 50},
                              .undo = {payload + 1, lsn.v / 8 % 50}};
    return lsn.v == *lost ? LLADD_CORRUPT_LOG : 0;
}

/* The records that were read ahead are found, and no others. The LSNs are near each other, far
 * apart, or have a large gap. */
START_TEST(records_read_ahead_are_found)
{
    enum { MANY = 300, OF_PAGES = 7 };
    static const struct {
        uint64_t apart, gap_at, gap;
    } shapes[] = {{16, 0, 0}, {64, 1, UINT64_C(1) << 40}, {16, 250, 1 << 20}, {1 << 20, 150, 16}};
    struct ll_record rec;
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (unsigned n = 0; n < MANY; n = n < 5 ? n + 1 : n + 59) {
            struct ll_log_prefetch a;
            uint64_t lsn[MANY], lost = 0;
            begin_case();
            ll_log_prefetch_init(&a, &env);
            ck_assert(!ll_log_prefetch_want(&a, lladd_lsn_of(ORIGIN)));
            ck_assert(!ll_log_prefetch_find(&a, lladd_lsn_of(ORIGIN), &rec));
            a.most = 1 << 20;
            for (unsigned i = 0; i < n; i++) {
                uint64_t gap = i == shapes[s].gap_at ? shapes[s].gap : 0;
                lsn[i] = i ? lsn[i - 1] + shapes[s].apart + gap : ORIGIN;
                lost = i == n / 2 ? lsn[i] : lost;
            }
            for (unsigned p = 0; p < OF_PAGES; p++)
                for (unsigned i = p; i < n; i += OF_PAGES)
                    ck_assert(ll_log_prefetch_want(&a, lladd_lsn_of(lsn[i])));
            ll_log_prefetch_read_by(&a, get_record, &lost);
            for (unsigned i = 0; i < n; i++) {
                bool has = ll_log_prefetch_find(&a, lladd_lsn_of(lsn[i]), &rec);
                ck_assert_int_eq(has, lsn[i] != lost);
                ck_assert(!ll_log_prefetch_find(&a, lladd_lsn_of(lsn[i] - 8), &rec));
                ck_assert(!ll_log_prefetch_find(&a, lladd_lsn_of(lsn[i] + 8), &rec));
            }
            for (unsigned i = 0; i < n; i++) {
                if (!ll_log_prefetch_find(&a, lladd_lsn_of(lsn[i]), &rec))
                    continue;
                struct lladd_span p = ll_redo_index_payload(&rec);
                ck_assert_uint_eq(rec.lsn.v, lsn[i]);
                ck_assert_uint_eq(rec.page, lsn[i] / 8);
                ck_assert_uint_eq(p.len, lsn[i] / 8 % 50);
                for (size_t k = 0; k < p.len; k++)
                    ck_assert_uint_eq(((const unsigned char *)p.data)[k], (lsn[i] >> 3) & 0xff);
            }
            ll_log_prefetch_free(&a);
            end_case();
        }
    }
}
END_TEST

/* Reading ahead takes no more memory than its budget, as counted by the allocator. Records for
 * which there is no room are left out, and the next time fewer records are read ahead. */
START_TEST(reading_ahead_stays_within_its_budget)
{
    enum { MANY = 20000 };
    static const uint64_t budgets[] = {0, 100, 3000, 20000, 300000};
    struct ll_record rec;
    for (unsigned b = 0; b < sizeof budgets / sizeof *budgets; b++) {
        struct ll_log_prefetch a;
        uint64_t lost = 0, n = 0, there = 0;
        begin_case();
        ll_log_prefetch_init(&a, &env);
        a.most = budgets[b];
        for (unsigned round = 0; round < 3; round++) {
            ll_log_prefetch_clear(&a);
            for (n = 0; n < MANY; n++)
                if (!ll_log_prefetch_want(&a, lladd_lsn_of(ORIGIN + n * STEP)))
                    break;
            ll_log_prefetch_read_by(&a, get_record, &lost);
            there = 0;
            for (uint64_t i = 0; i < MANY; i++)
                there += ll_log_prefetch_find(&a, lladd_lsn_of(ORIGIN + i * STEP), &rec);
        }
        ck_assert_uint_eq(there, n);
        ck_assert_uint_le(fault_alloc_peak(&mem), budgets[b]);
        if (budgets[b] >= 20000)
            ck_assert_uint_gt(there, budgets[b] / 500);
        ll_log_prefetch_free(&a);
        end_case();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("redo index");
    TCase *c = tcase_create("all");
    tcase_add_test(c, records_of_a_page_are_in_order);
    tcase_add_test(c, older_records_that_are_inserted_later_go_first);
    tcase_add_test(c, records_that_change_no_page_are_left_out);
    tcase_add_test(c, a_base_replaces_earlier_records);
    tcase_add_test(c, an_index_that_cannot_be_complete_is_given_up);
    tcase_add_test(c, an_index_stays_within_its_budget);
    tcase_add_test(c, pages_are_marked_for_a_pass);
    tcase_add_test(c, records_read_ahead_are_found);
    tcase_add_test(c, reading_ahead_stays_within_its_budget);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
