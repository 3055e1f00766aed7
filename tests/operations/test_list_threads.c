/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists and threads. All threads use one list. Every thread inserts, removes and writes items next
 * to those of the other threads, rolls back, and walks through the list. No item is lost. Every
 * walk of a thread meets each of the thread's own items exactly once, in the order in which the
 * thread has placed them. Runs under TSan.
 */
#include "op_fixture.h"

#include "operations/list/list.h"

enum { MOST = 64, MINE = 200 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_list *list;

struct worker {
    struct lladd_thread thread;
    uint64_t seed;
    int id, rounds;
    size_t n;
    struct lladd_item item[MINE];
};

static struct worker workers[MOST];
static const struct lladd_item NONE = {{UINT64_MAX}, 0};

static void setup(void)
{
    fixture_init_threads(&b);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_list_create(txn, &root));
    commit(txn);
    ok_db(&b, lladd_list_open(b.db, root, &list, &b.err));
}

static void teardown(void)
{
    lladd_list_close(list);
    fixture_free(&b);
}

/* Writes or removes one of the thread's own items, or inserts after it. */
static void change(struct worker *w, struct lladd_txn *txn)
{
    unsigned char bytes[200];
    uint64_t r = seeded_next(&w->seed);
    size_t at = w->n ? (r >> 8) % w->n : 0;
    memset(bytes, w->id, sizeof bytes);
    if (w->n == 0 || (r % 4 < 2 && w->n < MINE)) {
        struct lladd_item after = w->n ? w->item[at] : NONE, got;
        ok(txn, lladd_list_insert(txn, list, after, bytes, 1 + (r >> 20) % 199, &got));
        at = w->n ? at + 1 : 0;
        memmove(w->item + at + 1, w->item + at, (w->n - at) * sizeof w->item[0]);
        w->item[at] = got;
        w->n++;
    } else if (r % 4 == 3) {
        ok(txn, lladd_list_write(txn, list, w->item[at], 0, bytes, 1));
    } else {
        ok(txn, lladd_list_delete(txn, list, w->item[at]));
        w->n--;
        memmove(w->item + at, w->item + at + 1, (w->n - at) * sizeof w->item[0]);
    }
}

/* Asserts that the thread's own items come once and in order. If another thread has removed the
 * item at which the walk is, the walk starts again after the last own item. */
static void walk(struct worker *w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_item at = NONE, own = NONE;
    unsigned char id;
    size_t n = 0;
    int rc;
    do {
        rc = lladd_list_next(list, at, &at, &id, 1, NULL, &err);
        if (rc == LLADD_OUT_OF_RANGE) {
            at = own;
            rc = 0;
        } else if (rc == 0 && id == w->id) {
            ck_assert_uint_lt(n, w->n);
            ck_assert(ll_list_same(at, w->item[n]));
            own = at;
            n++;
        }
    } while (rc == 0);
    ck_assert_msg(rc == LLADD_END, "%s", err.message);
    ck_assert_uint_eq(n, w->n);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct lladd_error err = LLADD_ERROR_INIT;
    for (int round = 0; round < w->rounds; round++) {
        struct lladd_item saved[MINE];
        size_t n = w->n;
        uint64_t count;
        memcpy(saved, w->item, sizeof saved);
        struct lladd_txn *txn = fixture_begin(&b);
        for (int i = 0; i < 5; i++)
            change(w, txn);
        if (round % 4 == 3) {
            abort_txn(txn);
            memcpy(w->item, saved, sizeof saved);
            w->n = n;
        } else {
            commit(txn);
        }
        if (round % 8 == 7) {
            walk(w);
            ck_assert_int_eq(lladd_list_count(list, &count, &err), 0);
        }
    }
    walk(w);
    return NULL;
}

static const int counts[] = {2, 8, 64};

START_TEST(all_threads_use_one_list)
{
    int n = counts[_i];
    uint64_t all = 0, count;
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < n; i++) {
        workers[i].id = i;
        workers[i].rounds = n == 64 ? 12 : 60;
        workers[i].seed = (uint64_t)i * 77 + 1;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
    for (int i = 0; i < n; i++)
        lladd_thread_join(&workers[i].thread);
    for (int round = 0; round < 2; round++) {
        all = 0;
        for (int i = 0; i < n; i++) {
            walk(&workers[i]);
            all += workers[i].n;
        }
        ok_db(&b, lladd_list_count(list, &count, &b.err));
        ck_assert_uint_eq(count, all);
        ok_db(&b, lladd_list_check(list, &b.err));
        lladd_list_close(list);
        fixture_crash(&b);
        ok_db(&b, lladd_list_open(b.db, root, &list, &b.err));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("list threads");
    TCase *c = tcase_create("threads");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, all_threads_use_one_list, 0, 3);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
