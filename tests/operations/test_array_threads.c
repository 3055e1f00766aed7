/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One array and many threads. Transactions that commit and roll back write adjacent elements of the
 * same pages; the first writer of a page formats it. Meanwhile one thread extends and shrinks the
 * array, and another reads it. Runs under TSan.
 */
#include "op_fixture.h"

#include <lladd/array.h>

enum { MOST = 64, EACH = 40, LAST = 3000 };

static struct fixture b;
static struct lladd_array *array;

struct worker {
    struct lladd_thread thread;
    uint64_t id, n, seed;
    uint64_t want[EACH];
};

static struct worker workers[MOST];

static void setup(void)
{
    lladd_pageno root = {0};
    fixture_init_threads(&b);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_array_create(txn, 8, EACH * MOST, &root));
    commit(txn);
    ok_db(&b, lladd_array_open(b.db, root, &array, &b.err));
}

static void teardown(void)
{
    ok_db(&b, lladd_array_check(array, &b.err));
    lladd_array_close(array);
    fixture_free(&b);
}

/* Each of n threads writes every n-th element, so neighbours belong to different threads. */
static void *write_own(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 12; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        bool stays = seeded_next(&w->seed) % 3 != 0;
        for (int i = 0; i < 10; i++) {
            uint64_t r = seeded_next(&w->seed), k = (r >> 8) % EACH;
            ok(txn, lladd_array_set(txn, array, k * w->n + w->id, &r));
            uint64_t got = 0;
            ok(txn, lladd_array_get(array, k * w->n + w->id, &got, lladd_txn_error_out(txn)));
            ck_assert_uint_eq(got, r);
            if (stays)
                w->want[k] = r;
        }
        if (stays) {
            commit(txn);
            continue;
        }
        abort_txn(txn);
        struct lladd_error err = LLADD_ERROR_INIT;
        for (uint64_t k = 0; k < EACH; k++) {
            uint64_t got = 1;
            ck_assert_int_eq(lladd_array_get(array, k * w->n + w->id, &got, &err), 0);
            ck_assert_uint_eq(got, w->want[k]);
        }
    }
    return NULL;
}

/* Extends the array beyond the elements of the other threads, writes there, and shrinks it. */
static void *extend(void *arg)
{
    struct worker *w = arg;
    uint64_t length = EACH * MOST;
    for (int round = 0; round < 40; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        uint64_t first = 0, v = 1;
        ok(txn, lladd_array_extend(txn, array, LAST, &first));
        ck_assert_uint_eq(first, length);
        ok(txn, lladd_array_set(txn, array, first + seeded_next(&w->seed) % LAST, &v));
        if (round % 4 == 3) {
            ok(txn, lladd_array_shrink(txn, array, LAST));
            commit(txn);
        } else if (round % 2) {
            abort_txn(txn);
        } else {
            commit(txn);
            txn = fixture_begin(&b);
            ok(txn, lladd_array_shrink(txn, array, LAST));
            commit(txn);
        }
    }
    return NULL;
}

static void *read_all(void *arg)
{
    static _Thread_local uint64_t got[EACH * MOST];
    (void)arg;
    for (int round = 0; round < 60; round++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        uint64_t length = 0;
        ck_assert_int_eq(lladd_array_get_range(array, 0, EACH * MOST, got, &err), 0);
        ck_assert_int_eq(lladd_array_length(array, &length, &err), 0);
        ck_assert_uint_ge(length, EACH * MOST);
    }
    return NULL;
}

static const uint64_t counts[] = {2, 8, 64};

START_TEST(writers_of_adjacent_elements_do_not_interfere)
{
    struct worker extender = {.seed = 99}, reader = {.seed = 98};
    uint64_t n = counts[_i];
    memset(workers, 0, sizeof workers);
    for (uint64_t i = 0; i < n; i++) {
        workers[i].id = i;
        workers[i].n = n;
        workers[i].seed = i * 77 + 1;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, write_own, &workers[i]), 0);
    }
    ck_assert_int_eq(lladd_thread_start(&extender.thread, extend, &extender), 0);
    ck_assert_int_eq(lladd_thread_start(&reader.thread, read_all, &reader), 0);
    lladd_thread_join(&reader.thread);
    lladd_thread_join(&extender.thread);
    for (uint64_t i = 0; i < n; i++)
        lladd_thread_join(&workers[i].thread);
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < EACH; k++) {
            uint64_t got = 1;
            ok_db(&b, lladd_array_get(array, k * n + i, &got, &b.err));
            ck_assert_uint_eq(got, workers[i].want[k]);
        }
    }
    uint64_t length = 0;
    ok_db(&b, lladd_array_length(array, &length, &b.err));
    ck_assert_uint_eq(length, EACH * MOST);
}
END_TEST

/* All threads open and close the array again and again. All handles must show the same array. Here
 * w->n is the number of the array's root page. */
static void *open_and_close(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 100; round++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_array *a = NULL;
        struct lladd_txn *txn = fixture_begin(&b);
        ck_assert_int_eq(lladd_array_open(b.db, lladd_page_of(w->n), &a, &err), 0);
        uint64_t v = seeded_next(&w->seed);
        ok(txn, lladd_array_set(txn, a, w->id, &v));
        lladd_array_close(a);
        w->want[0] = v;
        commit(txn);
    }
    return NULL;
}

static int first_page(void *ctx, lladd_pageno page)
{
    *(lladd_pageno *)ctx = page;
    return LLADD_END;
}

START_TEST(all_threads_open_the_array)
{
    lladd_pageno root = {0};
    ck_assert_int_eq(lladd_array_pages(array, first_page, &root, &b.err), LLADD_END);
    lladd_array_close(array);
    memset(workers, 0, sizeof workers);
    for (uint64_t i = 0; i < 8; i++) {
        workers[i].id = i * 300;
        workers[i].n = root.v;
        workers[i].seed = i + 1;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, open_and_close, &workers[i]), 0);
    }
    for (uint64_t i = 0; i < 8; i++)
        lladd_thread_join(&workers[i].thread);
    ok_db(&b, lladd_array_open(b.db, root, &array, &b.err));
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t got = 0;
        ok_db(&b, lladd_array_get(array, i * 300, &got, &b.err));
        ck_assert_uint_eq(got, workers[i].want[0]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("array threads");
    TCase *c = tcase_create("threads");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, writers_of_adjacent_elements_do_not_interfere, 0, 3);
    tcase_add_test(c, all_threads_open_the_array);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
