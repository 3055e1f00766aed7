/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reservations, here called holds. A resource that an owner has reserved stays reserved until this
 * owner releases the reservation, whatever other owners do. The reservations in a prepare record
 * can be read back. A lack of memory loses no reservation.
 */
#include "op_fixture.h"

static struct fixture b;
static struct ll_reservations holds;

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    ck_assert_int_eq(ll_operations__reservations_init(&holds, b.db, "test"), 0);
}

static void teardown(void)
{
    ck_assert(ll_operations__nothing_held(&holds));
    ll_operations__reservations_free(&holds);
    fixture_free(&b);
}

static lladd_pageno page(uint64_t n)
{
    return lladd_page_of(n);
}

static bool is_held(uint64_t n, uint32_t index, const struct ll_reservation_txn *except)
{
    uint64_t bits[LL_RESERVATION_WORDS];
    ll_operations__held(&holds, page(n), index / LL_RESERVATION_CHUNK, except, bits);
    return bits[index % LL_RESERVATION_CHUNK / 64] >> index % 64 & 1;
}

START_TEST(held_until_released)
{
    struct ll_reservation_txn a = {.holds = &holds};
    ck_assert(!is_held(7, 3, NULL));
    ck_assert_int_eq(ll_operations__reserve(&a, page(7), 3, 1), 0);
    ck_assert(is_held(7, 3, NULL));
    ck_assert(!is_held(7, 3, &a));
    ck_assert(!is_held(7, 2, NULL));
    ck_assert(!is_held(7, 4, NULL));
    ck_assert(!is_held(8, 3, NULL));
    ck_assert(!is_held(7, 3 + LL_RESERVATION_CHUNK, NULL));
    ck_assert(ll_operations__reservations_own(&a, page(7), 3));
    ck_assert(!ll_operations__reservations_own(&a, page(7), 4));
    ll_operations__reserve_release(&a);
    ck_assert(!is_held(7, 3, NULL));
    ck_assert_int_eq(ll_operations__reserve(&a, page(7), 4, 1), 0);
    ck_assert(is_held(7, 4, NULL));
    ll_operations__reserve_release(&a);
    ck_assert(!is_held(7, 4, NULL));
}
END_TEST

/* The end of one owner's hold does not end the hold of another owner on the same resource. */
START_TEST(two_owners_of_one_resource)
{
    struct ll_reservation_txn a = {.holds = &holds}, c = {.holds = &holds};
    ck_assert_int_eq(ll_operations__reserve(&a, page(7), 3, 1), 0);
    ck_assert_int_eq(ll_operations__reserve(&c, page(7), 3, 1), 0);
    ll_operations__reserve_release(&a);
    ck_assert(is_held(7, 3, NULL));
    ck_assert(!is_held(7, 3, &c));
    ll_operations__reserve_release(&c);
    ck_assert(!is_held(7, 3, NULL));
}
END_TEST

START_TEST(ranges_may_cross_chunks)
{
    static const uint32_t at[] = {0, 1, 63, 64, 255, 256, 257, 511, 1000};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        for (size_t k = 0; k < sizeof at / sizeof at[0]; k++) {
            struct ll_reservation_txn a;
            uint32_t first = at[i], n = at[k];
            a = (struct ll_reservation_txn){.holds = &holds};
            ck_assert_int_eq(ll_operations__reserve(&a, page(9), first, n), 0);
            for (uint32_t x = 0; x < 2100; x++)
                ck_assert(is_held(9, x, NULL) == (x >= first && x < first + n));
            ll_operations__reserve_release(&a);
        }
    }
}
END_TEST

/* Random calls, compared with a table of owners and holds. */
START_TEST(many_owners_and_pages)
{
    enum { OWNERS = 6, PAGES = 40, SLOTS = 600 };
    static unsigned char model[OWNERS][PAGES][SLOTS];
    struct ll_reservation_txn owners[OWNERS];
    uint64_t seed = 11;
    memset(model, 0, sizeof model);
    for (int i = 0; i < OWNERS; i++)
        owners[i] = (struct ll_reservation_txn){.holds = &holds};
    for (int step = 0; step < 20000; step++) {
        uint64_t r = seeded_next(&seed);
        int o = (int)(r % OWNERS), p = (int)(r >> 8 & 0xffff) % PAGES;
        uint32_t s = (uint32_t)(r >> 24 & 0xffff) % SLOTS, n = 1 + (uint32_t)(r >> 40) % 9;
        n = n < SLOTS - s ? n : SLOTS - s;
        if (r >> 50 & 63) {
            ck_assert_int_eq(ll_operations__reserve(&owners[o], page((uint64_t)p), s, n), 0);
            memset(&model[o][p][s], 1, n);
        } else {
            ll_operations__reserve_release(&owners[o]);
            memset(model[o], 0, sizeof model[o]);
        }
        bool want = false;
        for (int i = 0; i < OWNERS; i++)
            want = want || model[i][p][s];
        ck_assert(is_held((uint64_t)p, s, NULL) == want);
    }
    for (int i = 0; i < OWNERS; i++)
        ll_operations__reserve_release(&owners[i]);
}
END_TEST

/* ---- the prepare record ---------------------------------------------------------------------- */

struct blob {
    unsigned char bytes[65536];
    size_t len;
};

static int collect(void *ctx, const void *bytes, size_t len)
{
    struct blob *blob = ctx;
    ck_assert_uint_le(blob->len + len, sizeof blob->bytes);
    memcpy(blob->bytes + blob->len, bytes, len);
    blob->len += len;
    return 0;
}

START_TEST(a_prepare_record_restores_the_holds)
{
    static struct blob blob;
    struct lladd_sink sink = {.ctx = &blob, .write = collect};
    struct ll_reservation_txn a, c;
    a = (struct ll_reservation_txn){.holds = &holds};
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_int_eq(ll_operations__reserve(&a, page(i * i + 1), i * 7, 2), 0);
    ck_assert_int_eq(ll_operations__reserve_write(&a, &sink), 0);
    ll_operations__reserve_release(&a);
    c = (struct ll_reservation_txn){.holds = &holds};
    ck_assert_int_eq(
        ll_operations__reserve_restore(&c, lladd_span_of(blob.bytes, blob.len), &b.err), 0);
    for (uint32_t i = 0; i < 100; i++)
        for (uint32_t x = i * 7 > 2 ? i * 7 - 2 : 0; x < i * 7 + 4; x++)
            ck_assert(is_held(i * i + 1, x, NULL) == (x >= i * 7 && x < i * 7 + 2));
    ll_operations__reserve_release(&c);
    ck_assert_int_eq(
        ll_operations__reserve_restore(&c, lladd_span_of(blob.bytes, blob.len - 1), &b.err),
        LLADD_BAD_RECORD);
    ck_assert_int_eq(b.err.code, LLADD_BAD_RECORD);
    ll_operations__reserve_release(&c);
}
END_TEST

START_TEST(a_sink_that_fails_is_reported)
{
    struct lladd_sink sink = {.ctx = NULL, .write = NULL, .failed = LLADD_NO_SPACE};
    struct ll_reservation_txn a = {.holds = &holds};
    ck_assert_int_eq(ll_operations__reserve(&a, page(1), 1, 1), 0);
    ck_assert_int_ne(ll_operations__reserve_write(&a, &sink), 0);
    ll_operations__reserve_release(&a);
}
END_TEST

/* Memory allocation n and all later ones fail. The reservations that were made before stay. */
START_TEST(without_memory)
{
    for (uint64_t n = 1;; n++) {
        struct ll_reservation_txn a = {.holds = &holds};
        fault_alloc_fail(&b.mem, n, true);
        int rc = 0;
        uint32_t done = 0;
        for (; done < 300 && !rc; done++)
            rc = ll_operations__reserve(&a, page(done), done, 1);
        bool fired = fault_alloc_fired(&b.mem) > 0;
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        for (uint32_t i = 0; i + (rc != 0) < done; i++)
            ck_assert(is_held(i, i, NULL));
        ll_operations__reserve_release(&a);
        if (!fired)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("holds");
    TCase *c = tcase_create("holds");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, held_until_released);
    tcase_add_test(c, two_owners_of_one_resource);
    tcase_add_test(c, ranges_may_cross_chunks);
    tcase_add_test(c, many_owners_and_pages);
    tcase_add_test(c, a_prepare_record_restores_the_holds);
    tcase_add_test(c, a_sink_that_fails_is_reported);
    tcase_add_test(c, without_memory);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
