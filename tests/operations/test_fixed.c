/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of fixed-length records. A page stores as many records as fit. Records are found by slot,
 * changed in part and freed. A slot is reused when no rollback can need it. After random changes
 * the records are those of a model. Wrong calls are refused.
 */
#include "history.h"

static struct fixture b;
static lladd_pageno page;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}
static void teardown(void)
{
    fixture_free(&b);
}

static void make_page(uint32_t size)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_fixed_format(txn, page, size));
    commit(txn);
}

static uint32_t slots_of(uint32_t size)
{
    struct lladd_page *held;
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_SHARED, &held, &b.err));
    uint32_t n = lladd_fixed_slots(lladd_page_view(held));
    ck_assert_uint_eq(lladd_fixed_size(lladd_page_view(held)), size);
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
    return n;
}

static bool there(struct lladd_rid rid)
{
    struct lladd_page *held;
    struct lladd_record r;
    ok_db(&b, lladd_page_fix(b.db, rid.page, LLADD_LATCH_SHARED, &held, &b.err));
    bool is = lladd_fixed_record(lladd_page_view(held), rid.slot, &r);
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
    return is;
}

static void expect(struct lladd_rid rid, const void *bytes, size_t size)
{
    unsigned char got[LLADD_FIXED_MAX];
    ok_db(&b, lladd_fixed_read(b.db, rid, got, sizeof got, &b.err));
    ck_assert_mem_eq(got, bytes, size);
}

START_TEST(any_size_fills_the_page_and_no_more)
{
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 16, 63, 64, 100, 1000, 2000, 2015, 4032};
    static unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        make_page(sizes[i]);
        uint32_t n = slots_of(sizes[i]);
        /* The overhead is two bits per record, rounded up to words, and a header of 16 bytes. */
        ck_assert_uint_ge((n + 1) * sizes[i] + (n + 1) / 4 + 16 + 16, 4096 - 32 - 16);
        struct lladd_txn *txn = fixture_begin(&b);
        struct lladd_rid rid, more;
        for (uint32_t k = 0; k < n; k++) {
            memset(bytes, (int)k, sizes[i]);
            ok(txn, lladd_fixed_alloc(txn, page, bytes, &rid));
            ck_assert_uint_eq(rid.slot, k);
            ck_assert_uint_eq(rid.size, sizes[i]);
        }
        refuses(txn, LLADD_PAGE_FULL, lladd_fixed_alloc(txn, page, bytes, &more));
        commit(txn);
        for (uint32_t k = 0; k < n; k++) {
            memset(bytes, (int)k, sizes[i]);
            rid.slot = k;
            expect(rid, bytes, sizes[i]);
        }
    }
}
END_TEST

START_TEST(set_free_abort_crash)
{
    make_page(10);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid a, z;
    ok(txn, lladd_fixed_alloc(txn, page, "0123456789", &a));
    ok(txn, lladd_fixed_alloc(txn, page, NULL, &z));
    commit(txn);
    expect(z, "\0\0\0\0\0\0\0\0\0\0", 10);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_set(txn, a, 3, "xyz", 3));
    expect(a, "012xyz6789", 10);
    ok(txn, lladd_fixed_free(txn, a));
    ck_assert(!there(a));
    if (_i)
        abort_txn(txn);
    else
        fixture_crash(&b);
    expect(a, "0123456789", 10);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_set(txn, a, 9, "!", 1));
    ok(txn, lladd_fixed_free(txn, z));
    commit(txn);
    fixture_crash(&b);
    expect(a, "012345678!", 10);
    ck_assert(!there(z));
}
END_TEST

START_TEST(a_freed_slot_is_reused_after_its_transaction)
{
    make_page(1000);
    uint32_t n = slots_of(1000);
    struct lladd_txn *txn = fixture_begin(&b), *other;
    struct lladd_rid r[8], more;
    for (uint32_t i = 0; i < n; i++)
        ok(txn, lladd_fixed_alloc(txn, page, NULL, &r[i]));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_set(txn, r[1], 0, "keep", 4));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_free(txn, r[1]));
    other = fixture_begin(&b);
    refuses(other, LLADD_PAGE_FULL, lladd_fixed_alloc(other, page, NULL, &more));
    refuses(txn, LLADD_PAGE_FULL, lladd_fixed_alloc(txn, page, NULL, &more));
    abort_txn(txn);
    expect(r[1], "keep", 4);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_free(txn, r[1]));
    commit(txn);
    ok(other, lladd_fixed_alloc(other, page, NULL, &more));
    ck_assert_uint_eq(more.slot, r[1].slot);
    abort_txn(other);
    ck_assert(!there(r[1]));
    other = fixture_begin(&b);
    ok(other, lladd_fixed_alloc(other, page, NULL, &more));
    ck_assert_uint_eq(more.slot, r[1].slot);
    commit(other);
}
END_TEST

START_TEST(a_slot_freed_in_doubt_stays_reserved)
{
    make_page(2000);
    uint32_t n = slots_of(2000);
    struct lladd_gid gid = fixture_gid("fixed");
    struct lladd_txn *txn = fixture_begin(&b), *other;
    struct lladd_rid r[2], more;
    ck_assert_uint_eq(n, 2);
    for (uint32_t i = 0; i < n; i++)
        ok(txn, lladd_fixed_alloc(txn, page, NULL, &r[i]));
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_fixed_free(txn, r[0]));
    ok(txn, lladd_prepare(txn, &gid));
    fixture_crash(&b);
    other = fixture_begin(&b);
    refuses(other, LLADD_PAGE_FULL, lladd_fixed_alloc(other, page, NULL, &more));
    commit(other);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i)
        abort_txn(txn);
    else
        commit(txn);
    ck_assert(there(r[0]) == (_i != 0));
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    static unsigned char bytes[5000];
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno fresh;
    ok(txn, lladd_page_alloc(txn, &fresh));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_fixed_format(txn, fresh, 0));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_fixed_format(txn, fresh, 4033));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_fixed_format(txn, fresh, LLADD_FIXED_MAX + 1));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_fixed_format(txn, fresh, UINT32_MAX));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_page_format(txn, fresh, "lladd.fixed")); /* no size */
    refuses(txn, LLADD_NOT_FOUND, lladd_page_format(txn, fresh, "no.such.type"));
    refuses(txn, LLADD_NOT_FOUND,
            lladd_page_format(
                txn, fresh, "a.name.that.is.longer.than.the.name.of.any.page.type.could.ever.be"));
    commit(txn);
    make_page(10);
    txn = fixture_begin(&b);
    struct lladd_rid r;
    ok(txn, lladd_fixed_alloc(txn, page, NULL, &r));
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_fixed_set(txn, r, 8, bytes, 3));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_fixed_set(txn, r, 11, bytes, 0));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_fixed_set(txn, r, UINT32_MAX, bytes, 1));
    static const uint32_t slots[] = {1, 390, 65535, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        r.slot = slots[i];
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_fixed_free(txn, r));
        refuses(txn, LLADD_OUT_OF_RANGE, lladd_fixed_set(txn, r, 0, bytes, 1));
        ck_assert_int_eq(lladd_fixed_read(b.db, r, bytes, 10, &b.err), LLADD_OUT_OF_RANGE);
    }
    r.page = lladd_page_of(1);
    refuses(txn, LLADD_WRONG_TYPE, lladd_fixed_free(txn, r));
    ck_assert_int_eq(lladd_fixed_read(b.db, r, bytes, 10, &b.err), LLADD_WRONG_TYPE);
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    commit(txn);
}
END_TEST

/* ---- random histories ------------------------------------------------------------------------ */

enum { LEN = 24 };

static void model_expect(const struct history *h)
{
    unsigned char want[LEN];
    for (uint32_t s = 0; s < h->records; s++) {
        struct lladd_rid rid = {page, s, 0};
        ck_assert(there(rid) == h->now[s].there);
        memset(want, h->now[s].fill, sizeof want);
        if (h->now[s].there)
            expect(rid, want, sizeof want);
    }
}

static void model_write(struct history *h, int t, uint64_t r)
{
    unsigned char bytes[LEN];
    struct version v = {true, (char)(r & 255), LEN};
    uint32_t s = (uint32_t)(r >> 8) % h->records;
    struct lladd_rid rid = {page, s, 0};
    memset(bytes, v.fill, sizeof bytes);
    if (h->now[s].there && history_may_write(h, t, s)) {
        if (r >> 40 & 1) {
            ok(h->txn[t], lladd_fixed_set(h->txn[t], rid, 0, bytes, sizeof bytes));
        } else {
            ok(h->txn[t], lladd_fixed_free(h->txn[t], rid));
            v.there = false;
        }
    } else {
        int rc = lladd_fixed_alloc(h->txn[t], page, bytes, &rid);
        if (rc == LLADD_PAGE_FULL)
            return;
        ck_assert_int_eq(rc, 0);
        s = rid.slot;
        ck_assert(!h->now[s].there && h->owner[s] < 0);
    }
    history_wrote(h, t, s, v);
}

START_TEST(random_interleavings)
{
    static struct history h;
    make_page(LEN);
    h = (struct history){.records = slots_of(LEN),
                         .txns = 3,
                         .steps = 2000,
                         .end_every = 100,
                         .crash_every = 800,
                         .look_every = 50,
                         .write = model_write,
                         .expect = model_expect};
    history_run(&h, &b, (uint64_t)_i + 31);
    ck_assert_uint_gt(h.undone, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fixed-length records");
    TCase *c = tcase_create("records");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, any_size_fills_the_page_and_no_more);
    tcase_add_loop_test(c, set_free_abort_crash, 0, 2);
    tcase_add_test(c, a_freed_slot_is_reused_after_its_transaction);
    tcase_add_loop_test(c, a_slot_freed_in_doubt_stays_reserved, 0, 2);
    tcase_add_test(c, wrong_calls_are_refused);
    tcase_add_loop_test(c, random_interleavings, 0, 4);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
