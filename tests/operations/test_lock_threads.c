/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock manager and threads. 8 and 64 threads use a hash table of accounts. Most of the threads
 * move money between accounts, open and close accounts, and roll back, sometimes to a savepoint;
 * some of them are victims of deadlocks. Every eighth thread adds up the whole table, and must
 * always get the same sum. Runs under TSan.
 */
#include "op_fixture.h"

#include <lladd/hash.h>
#include <lladd/lock.h>


enum { MOST = 64, ACCOUNTS = 24, START = 1000 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;

struct worker {
    struct lladd_thread thread;
    uint64_t seed, rounds, moved, deadlocks, looked;
    bool looks;
};
static struct worker workers[MOST];

static void setup(void)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    fixture_init_threads(&b);
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    fixture_open(&b);
    o.key_size = o.value_size = 8;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
    txn = fixture_begin(&b);
    for (uint64_t key = 0; key < ACCOUNTS; key++) {
        uint64_t money = START;
        ok(txn, lladd_hash_put(txn, hash, &key, 8, &money, 8));
    }
    commit(txn);
}

static void teardown(void)
{
    lladd_hash_close(hash);
    fixture_free(&b);
}

static int lock(struct lladd_txn *txn, uint64_t key, enum lladd_lock_mode mode)
{
    return lladd_lock_acquire(txn,
                              LLADD_LOCK_NAME(lladd_lock_id(root.v), lladd_lock_bytes(&key, 8)),
                              mode, LLADD_LOCK_WAIT);
}

static int get(struct lladd_txn *txn, uint64_t key, enum lladd_lock_mode mode, uint64_t *money)
{
    size_t len;
    int rc = lock(txn, key, mode);
    if (rc)
        return rc;
    rc = lladd_hash_get(hash, &key, 8, money, 8, &len, lladd_txn_error_out(txn));
    if (rc == LLADD_NOT_FOUND)
        *money = 0; /* the account is closed; the lock keeps other transactions from opening it */
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int put(struct lladd_txn *txn, uint64_t key, uint64_t money)
{
    int rc = lock(txn, key, LLADD_LOCK_X);
    if (rc || money)
        return rc ? rc : lladd_hash_put(txn, hash, &key, 8, &money, 8);
    rc = lladd_hash_delete(txn, hash, &key, 8);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* Moves money between two accounts. Locks each account first with S or U and then with X, so that
 * deadlocks occur. */
static int move(struct lladd_txn *txn, uint64_t from, uint64_t to, uint64_t seed)
{
    uint64_t have, had;
    enum lladd_lock_mode mode = seed % 3 ? LLADD_LOCK_U : LLADD_LOCK_S;
    int rc = get(txn, from, mode, &have);
    if (!rc)
        rc = get(txn, to, mode, &had);
    if (rc || from == to || !have)
        return rc;
    uint64_t amount = seed % 7 ? 1 + seed % have : have;
    rc = put(txn, from, have - amount);
    return rc ? rc : put(txn, to, had + amount);
}

/* Moves money, rolls back to a savepoint, moves other money. */
static int move_twice(struct lladd_txn *txn, uint64_t seed)
{
    lladd_savepoint_id sp;
    int rc = lladd_savepoint(txn, &sp);
    if (!rc)
        rc = move(txn, seed % ACCOUNTS, seed / 100 % ACCOUNTS, seed / 7);
    if (!rc)
        rc = lladd_rollback_to(txn, sp);
    return rc ? rc : move(txn, seed / 10 % ACCOUNTS, seed / 1000 % ACCOUNTS, seed / 3);
}

static void work_once(struct worker *w)
{
    uint64_t seed = seeded_next(&w->seed);
    struct lladd_txn *txn = fixture_begin(&b);
    int rc = seed % 4 ? move(txn, seed / 4 % ACCOUNTS, seed / 400 % ACCOUNTS, seed / 1000)
                      : move_twice(txn, seed / 4);
    if (!rc && seed % 5) {
        sure(lladd_commit(txn) == 0, "commit");
        w->moved++;
        return;
    }
    w->deadlocks += rc == LLADD_DEADLOCK;
    sure(!rc || rc == LLADD_DEADLOCK, lladd_txn_error(txn)->message);
    sure(lladd_abort(txn) == 0, "abort");
}

/* Adds up all accounts. An S lock on the table covers every account, also absent ones. */
static void look_once(struct worker *w)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_hash_cursor walk = {0};
    struct lladd_span key, value;
    struct lladd_txn *txn;
    uint64_t sum = 0;
    o.read_only = true;
    sure(lladd_begin(b.db, &o, &txn, &err) == 0, err.message);
    int rc = lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id(root.v)), LLADD_LOCK_S,
                                LLADD_LOCK_FOREVER);
    sure(!rc || rc == LLADD_DEADLOCK, lladd_txn_error(txn)->message);
    while (!rc && !(rc = lladd_hash_cursor_next(hash, &walk, &key, &value, &err)))
        sum += lladd_get64(value.data);
    lladd_hash_cursor_close(hash, &walk);
    sure(rc == LLADD_DEADLOCK || (rc == LLADD_END && sum == (uint64_t)ACCOUNTS * START), "the sum");
    sure(lladd_commit(txn) == 0, "commit");
    w->looked++;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = 0; i < w->rounds; i++) {
        if (w->looks)
            look_once(w);
        else
            work_once(w);
    }
    return NULL;
}

/* Runs the threads, and returns the number of deadlocks. */
static uint64_t together(unsigned threads, uint64_t rounds)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    uint64_t moved = 0, looked = 0, deadlocks = 0;
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){.seed = i * 77 + threads, .looks = i % 8 == 7};
        workers[i].rounds = workers[i].looks ? rounds / 8 + 1 : rounds;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < threads; i++) {
        lladd_thread_join(&workers[i].thread);
        moved += workers[i].moved;
        looked += workers[i].looked;
        deadlocks += workers[i].deadlocks;
    }
    ck_assert_uint_gt(moved, 0);
    ck_assert_uint_gt(looked, 0);
    ok_db(&b, lladd_lock_stats_get(b.db, &s, &b.err));
    ck_assert_uint_eq(s.names, 0);
    ck_assert_uint_eq(s.holds, 0);
    ck_assert_uint_eq(s.waiting, 0);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    look_once(&workers[0]);
    return deadlocks;
}

/* Repeats the run until a deadlock has occurred. On a machine where threads hardly ever run at the
 * same time, a single run may have none. */
static void until_deadlock(unsigned threads, uint64_t rounds)
{
    uint64_t deadlocks = 0;
    for (int i = 0; i < 50 && !deadlocks; i++)
        deadlocks = together(threads, rounds);
    ck_assert_uint_gt(deadlocks, 0);
}

START_TEST(eight_threads)
{
    until_deadlock(8, 1000);
}
END_TEST

START_TEST(sixty_four_threads)
{
    until_deadlock(64, 100);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("locks: threads");
    TCase *t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, eight_threads);
    tcase_add_test(t, sixty_four_threads);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return fixture_run(suite());
}
