/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables, B+trees and threads. 2, 8 and 64 threads insert, look up, replace and remove keys of
 * their own, which are spread over the whole structure, and commit or roll back. Meanwhile buckets,
 * leaves and inner nodes split. Some rows stay unchanged. One more thread looks up the unchanged
 * rows, and must find each of them. Another thread walks through the structure, and must meet each
 * unchanged row exactly once. Through a tree this thread walks in both directions, and must meet
 * the rows in order.
 *
 * In another test, the threads insert rows with ever larger keys into a tree, and remove those with
 * the smallest keys. So leaves become empty and are merged, and their pages are used again. Runs
 * under TSan.
 */
#include "keyed.h"
#include "op_fixture.h"


enum { MOST = 64, STAY = 2000, SPREAD = 100 };

static struct fixture b;
static lladd_pageno root;
static struct keyed keyed;
static uint32_t working;

struct worker {
    struct lladd_thread thread;
    uint64_t seed, id, rounds;
    uint64_t live; /* number of the worker's keys that are in the structure */
};
static struct worker workers[MOST + 2];

/* A worker's i-th key. The workers' keys lie between the keys of the rows that stay, and after
 * them. */
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

static void setup(enum keyed_kind kind)
{
    fixture_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    /* about fifty rows fit on a page, so there are many splits */
    ok(txn, keyed_create(txn, kind, 8, 64, &root));
    commit(txn);
    ok_db(&b, keyed_open(b.db, kind, root, &keyed, &b.err));
}

static void teardown(void)
{
    keyed_close(&keyed);
    fixture_free(&b);
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
    int rc = keyed_get(&keyed, bytes, 8, got, 64, NULL, &err);
    sure(rc == (there ? 0 : LLADD_NOT_FOUND), err.message);
    value_of(key, want);
    sure(!there || memcmp(got, want, 64) == 0, "another value");
}

static void put_in(struct lladd_txn *txn, uint64_t key, bool put)
{
    unsigned char value[64], bytes[8];
    value_of(key, value);
    key_bytes(key, bytes);
    int rc = put ? keyed_put(txn, &keyed, bytes, 8, value, 64)
                 : keyed_insert(txn, &keyed, bytes, 8, value, 64);
    sure(rc == 0, lladd_txn_error(txn)->message);
}

static void drop(struct lladd_txn *txn, uint64_t key)
{
    unsigned char bytes[8];
    key_bytes(key, bytes);
    sure(keyed_delete(txn, &keyed, bytes, 8) == 0, lladd_txn_error(txn)->message);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    enum { BATCH = 40 };
    for (uint64_t round = 0; round < w->rounds; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        bool keep = seeded_next(&w->seed) % 4 != 0, drops = round % 3 == 2;
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
        if (!keep || !drops)
            continue;
        txn = fixture_begin(&b);
        for (uint64_t i = 0; i < BATCH; i++)
            drop(txn, key_of(w->id, round * BATCH + i));
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

/* A worker's i-th key in move_up. The keys of the workers alternate, above those that stay. */
static uint64_t moving_key(uint64_t id, uint64_t i)
{
    return (uint64_t)SPREAD * STAY * 2 + i * MOST + id;
}

/* Inserts rows after the worker's other rows, and removes the worker's first rows. Some
 * transactions roll back and are repeated. */
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

/* Reads the statistics of a tree that changes meanwhile. They are approximate, so only half of the
 * rows that stay must be counted. */
static void *count(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    (void)arg;
    do {
        struct lladd_btree_stats s = {.struct_size = sizeof s};
        sure(lladd_btree_stats_get(keyed.tree, &s, &err) == 0, err.message);
        sure(s.rows + s.ghosts >= STAY / 2, "rows are missing");
    } while (lladd_atomic_load32(&working));
    return NULL;
}

/* Walks up or down. Asserts that the walk meets the rows that stay in order, each exactly once. */
static void walk_once(bool up)
{
    struct lladd_btree_cursor *c;
    struct lladd_span key, value;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t met = 0;
    int rc;
    sure(lladd_btree_cursor_open(keyed.tree, &c, &err) == 0, err.message);
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

static void walk_hash(void)
{
    unsigned char met[STAY] = {0};
    struct lladd_hash_cursor w = {{0}, NULL, 0};
    struct lladd_span key, value;
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc;
    while ((rc = lladd_hash_cursor_next(keyed.hash, &w, &key, &value, &err)) == 0) {
        uint64_t i = number_of(key.data);
        if (i % SPREAD == 0 && i / SPREAD < STAY)
            met[i / SPREAD]++;
    }
    sure(rc == LLADD_END, err.message);
    lladd_hash_cursor_close(keyed.hash, &w);
    for (uint64_t i = 0; i < STAY; i++)
        sure(met[i] == 1, "a row was not met exactly once");
}

static void *walk(void *arg)
{
    (void)arg;
    do {
        if (keyed.hash) {
            walk_hash();
        } else {
            walk_once(true);
            walk_once(false);
        }
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

/* Starts n threads that run `what`, one thread that walks, and one more. The last thread looks rows
 * up or, if `what` is move_up, reads the statistics. Returns the statistics after the threads have
 * ended. */
static struct keyed_stats threads(unsigned n, uint64_t rounds, void *(*what)(void *))
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
    ok_db(&b, keyed_check(&keyed, &b.err));
    struct keyed_stats s;
    ok_db(&b, keyed_stats_get(&keyed, &s, &b.err));
    ck_assert_uint_eq(s.rows, want);
    ck_assert_uint_gt(s.splits, 10);
    return s;
}

static const enum keyed_kind kinds[] = {KEYED_HASH, KEYED_BTREE};

static void work_with(enum keyed_kind kind, unsigned n, uint64_t rounds)
{
    setup(kind);
    (void)threads(n, rounds, work);
    teardown();
}

START_TEST(two_threads)
{
    work_with(kinds[_i], 2, 60);
}
END_TEST
START_TEST(eight_threads)
{
    work_with(kinds[_i], 8, 24);
}
END_TEST
START_TEST(sixty_four_threads)
{
    work_with(kinds[_i], 64, 4);
}
END_TEST

/* The threads run move_up. More rounds must not make the tree larger. */
START_TEST(rows_move_through_a_tree)
{
    static const struct {
        unsigned n;
        uint64_t rounds;
    } runs[] = {{2, 100}, {8, 40}, {64, 6}};
    setup(KEYED_BTREE);
    ck_assert_uint_gt(threads(runs[_i].n, runs[_i].rounds, move_up).merges, 5);
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_btree_stats_get(keyed.tree, &s, &b.err));
    if (runs[_i].rounds > 6) /* after only 6 rounds the tree is still growing */
        ck_assert_uint_lt(s.leaves + s.free_pages, 120);
    teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables, B+trees and threads");
    TCase *c = tcase_create("threads");
    tcase_add_loop_test(c, two_threads, 0, 2);
    tcase_add_loop_test(c, eight_threads, 0, 2);
    tcase_add_loop_test(c, sixty_four_threads, 0, 2);
    tcase_add_loop_test(c, rows_move_through_a_tree, 0, 3);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
