/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * B+trees and threads. 2, 8 and 64 threads insert, look up, replace and remove keys of their own,
 * spread over the whole tree, and commit or roll back. Meanwhile leaves and inner nodes split.
 * Other threads look up keys and walk in both directions: a lookup must find every row that stays,
 * and a walk must meet it exactly once, in order. In another test the threads' rows move upward
 * through the tree, so that leaves become empty and are merged, and their pages are used again.
 * Runs under TSan.
 */
#include "op_fixture.h"

#include <lladd/btree.h>

#include <stdio.h>

enum { MOST = 64, STAY = 2000, SPREAD = 100 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_btree *tree;
static uint32_t working;

struct worker {
    struct lladd_thread thread;
    uint64_t seed, id, rounds;
    uint64_t live; /* number of keys that the worker has left in the tree */
};
static struct worker workers[MOST + 2];

/* A worker's i-th number: they lie between those that stay, and beyond. */
static uint64_t key_of(uint64_t id, uint64_t i)
{
    return i * 37 % (STAY + 500) * SPREAD + 1 + id;
}

/* Keys are numbers, highest byte first. */
static void key_bytes(uint64_t number, unsigned char out[8])
{
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(number >> (8 * (7 - i)));
}
static uint64_t number_of(const void *key)
{
    const unsigned char *p = key;
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n = n << 8 | p[i];
    return n;
}

static void setup(void)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    fixture_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    o.key_size = 8;
    o.value_size = 64; /* some fifty elements per page, so there are many splits */
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_btree_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_btree_open(b.db, root, &tree, &b.err));
}

static void teardown(void)
{
    lladd_btree_close(tree);
    fixture_free(&b);
}

/* An assertion for threads. */
static void sure(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s\n", what); /* Check would leave the thread by longjmp to another stack */
    abort();
}

static void value_of(uint64_t key, unsigned char out[64])
{
    memset(out, (int)key, 64);
    lladd_put64(out, key);
}

static void look(uint64_t key, bool there)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char got[64], want[64], bytes[8];
    key_bytes(key, bytes);
    int rc = lladd_btree_get(tree, bytes, 8, got, 64, NULL, &err);
    sure(rc == (there ? 0 : LLADD_NOT_FOUND), err.message);
    value_of(key, want);
    sure(!there || memcmp(got, want, 64) == 0, "another value");
}

static void put_in(struct lladd_txn *txn, uint64_t key, bool put)
{
    unsigned char value[64], bytes[8];
    value_of(key, value);
    key_bytes(key, bytes);
    int rc = put ? lladd_btree_put(txn, tree, bytes, 8, value, 64)
                 : lladd_btree_insert(txn, tree, bytes, 8, value, 64);
    sure(rc == 0, lladd_txn_error(txn)->message);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    enum { BATCH = 40 };
    for (uint64_t round = 0; round < w->rounds; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        bool keep = seeded_next(&w->seed) % 4 != 0, drop = round % 3 == 2;
        for (uint64_t i = 0; i < BATCH; i++)
            put_in(txn, key_of(w->id, round * BATCH + i), i % 5 == 0);
        for (uint64_t i = 0; i < BATCH; i++)
            look(key_of(w->id, round * BATCH + i), true);
        if (keep)
            sure(lladd_commit(txn) == 0, "commit");
        else
            sure(lladd_abort(txn) == 0, "abort");
        w->live += keep ? BATCH : 0;
        look(key_of(w->id, round * BATCH), keep);
        if (!keep || !drop)
            continue;
        txn = fixture_begin(&b);
        for (uint64_t i = 0; i < BATCH; i++) {
            unsigned char bytes[8];
            key_bytes(key_of(w->id, round * BATCH + i), bytes);
            sure(lladd_btree_delete(txn, tree, bytes, 8) == 0, lladd_txn_error(txn)->message);
        }
        look(key_of(w->id, round * BATCH), false);
        if (round % 2) {
            sure(lladd_commit(txn) == 0, "commit");
            w->live -= BATCH;
        } else {
            sure(lladd_abort(txn) == 0, "abort");
        }
    }
    (void)lladd_atomic_add32(&working, UINT32_MAX);
    return NULL;
}

/* The threads' rows lie next to each other, after those that stay. */
static uint64_t moving_key(uint64_t id, uint64_t i)
{
    return (uint64_t)SPREAD * STAY * 2 + i * MOST + id;
}

static void drop(struct lladd_txn *txn, uint64_t key)
{
    unsigned char bytes[8];
    key_bytes(key, bytes);
    sure(lladd_btree_delete(txn, tree, bytes, 8) == 0, lladd_txn_error(txn)->message);
}

/* Puts rows after its others, and removes its first ones. Some transactions roll back and are
 * repeated. */
static void *move_up(void *arg)
{
    struct worker *w = arg;
    enum { BATCH = 30 };
    for (uint64_t round = 0; round < w->rounds;) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (uint64_t i = round * BATCH; i < (round + 1) * BATCH; i++)
            put_in(txn, moving_key(w->id, i), false);
        for (uint64_t i = round * BATCH; round > 0 && i-- > (round - 1) * BATCH;)
            drop(txn, moving_key(w->id, i));
        if (seeded_next(&w->seed) % 4 == 0) {
            sure(lladd_abort(txn) == 0, "abort");
            continue;
        }
        sure(lladd_commit(txn) == 0, "commit");
        look(moving_key(w->id, round * BATCH), true);
        if (round > 0)
            look(moving_key(w->id, (round - 1) * BATCH), false);
        round++;
    }
    w->live = BATCH;
    (void)lladd_atomic_add32(&working, UINT32_MAX);
    return NULL;
}

/* Statistics of a tree that changes. */
static void *count(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    (void)arg;
    do {
        struct lladd_btree_stats s = {.struct_size = sizeof s};
        sure(lladd_btree_stats_get(tree, &s, &err) == 0, err.message);
        sure(s.rows + s.ghosts >= STAY / 2, "rows are missing");
    } while (lladd_atomic_load32(&working));
    return NULL;
}

/* Walks up and down: meets the rows that stay in order, each exactly once. */
static void walk_once(bool up)
{
    struct lladd_btree_cursor *c;
    struct lladd_span key, value;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t met = 0;
    int rc;
    sure(lladd_btree_cursor_open(tree, &c, &err) == 0, err.message);
    while ((rc = up ? lladd_btree_cursor_next(c, &err) : lladd_btree_cursor_prev(c, &err)) == 0) {
        sure(lladd_btree_cursor_row(c, &key, &value, &err) == 0, err.message);
        uint64_t i = number_of(key.data);
        if (i % SPREAD || i / SPREAD >= STAY)
            continue;
        sure(i / SPREAD == (up ? met : STAY - 1 - met), "a row was not met in its place");
        met++;
    }
    sure(rc == LLADD_END, err.message);
    sure(met == STAY, "a row was not met");
    lladd_btree_cursor_close(c);
}

static void *walk(void *arg)
{
    (void)arg;
    do {
        walk_once(true);
        walk_once(false);
    } while (lladd_atomic_load32(&working));
    return NULL;
}

static void *look_up(void *arg)
{
    struct worker *w = arg;
    do
        for (int i = 0; i < 200; i++)
            look(seeded_next(&w->seed) % STAY * SPREAD, true);
    while (lladd_atomic_load32(&working));
    return NULL;
}

/* Starts n threads, one that walks, one that looks up. Returns the tree's statistics after them. */
static struct lladd_btree_stats threads(unsigned n, uint64_t rounds, void *(*what)(void *))
{
    uint64_t want = STAY;
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < STAY; i++)
        put_in(txn, i * SPREAD, false);
    commit(txn);
    memset(workers, 0, sizeof workers);
    lladd_atomic_store32(&working, n);
    for (unsigned i = 0; i < n + 2; i++) {
        struct worker *w = &workers[i];
        *w = (struct worker){.seed = i * 77 + 1, .id = i, .rounds = rounds};
        ck_assert_int_eq(lladd_thread_start(&w->thread,
                                            i < n          ? what
                                            : i == n       ? walk
                                            : what == work ? look_up
                                                           : count,
                                            w),
                         0);
    }
    for (unsigned i = 0; i < n + 2; i++)
        lladd_thread_join(&workers[i].thread);
    for (unsigned i = 0; i < n; i++)
        want += workers[i].live;
    ok_db(&b, lladd_btree_check(tree, &b.err));
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_stats_get(tree, &s, &b.err));
    ck_assert_uint_eq(s.rows, want);
    ck_assert_uint_gt(s.splits, 10);
    return s;
}

START_TEST(two)
{
    (void)threads(2, 60, work);
}
END_TEST
START_TEST(eight)
{
    (void)threads(8, 24, work);
}
END_TEST
START_TEST(sixty_four)
{
    (void)threads(64, 4, work);
}
END_TEST

/* The tree does not grow with the number of rounds. */
START_TEST(moving_rows)
{
    static const struct {
        unsigned n;
        uint64_t rounds;
    } runs[] = {{2, 100}, {8, 40}, {64, 6}};
    struct lladd_btree_stats s = threads(runs[_i].n, runs[_i].rounds, move_up);
    ck_assert_uint_gt(s.merges, 5);
    if (runs[_i].rounds > 6) /* otherwise it is still growing */
        ck_assert_uint_lt(s.leaves + s.free_pages, 120);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("B+trees and threads");
    TCase *c = tcase_create("threads");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, two);
    tcase_add_test(c, eight);
    tcase_add_test(c, sixty_four);
    tcase_add_loop_test(c, moving_rows, 0, 3);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
