/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables and threads. 2, 8 and 64 threads insert, look up, replace and remove keys of their
 * own, and commit or roll back. Meanwhile the table splits and merges. Other threads look up keys
 * and walk: a lookup must find every element that stays, and a walk must meet it exactly once. Runs
 * under TSan.
 */
#include "op_fixture.h"
#include "operations/hash/table.h"

#include <lladd/bulk.h>
#include <lladd/hash.h>
#include <stdio.h>

enum { MOST = 64, STAY = 2000 };

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;
static uint32_t working;

struct worker {
    struct lladd_thread thread;
    uint64_t seed, id, rounds;
    uint64_t live; /* number of keys that the worker has left in the table */
};
static struct worker workers[MOST + 2];

static uint64_t key_of(uint64_t id, uint64_t i)
{
    return (id + 1) << 32 | i;
}

static void setup(void)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    fixture_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
    o.key_size = 8;
    o.value_size = 64; /* some fifty elements per page, so there are many splits */
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
}

static void teardown(void)
{
    lladd_hash_close(hash);
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
    unsigned char got[64], want[64];
    int rc = lladd_hash_get(hash, &key, 8, got, 64, NULL, &err);
    sure(rc == (there ? 0 : LLADD_NOT_FOUND), err.message);
    value_of(key, want);
    sure(!there || memcmp(got, want, 64) == 0, "another value");
}

static void put_in(struct lladd_txn *txn, uint64_t key, bool put)
{
    unsigned char value[64];
    value_of(key, value);
    int rc = put ? lladd_hash_put(txn, hash, &key, 8, value, 64)
                 : lladd_hash_insert(txn, hash, &key, 8, value, 64);
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
            uint64_t key = key_of(w->id, round * BATCH + i);
            sure(lladd_hash_delete(txn, hash, &key, 8) == 0, lladd_txn_error(txn)->message);
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

static void *walk(void *arg)
{
    static const uint64_t foreign = UINT64_C(1) << 32;
    (void)arg;
    do {
        unsigned char met[STAY] = {0};
        struct lladd_hash_cursor w = {{0}, NULL, 0};
        struct lladd_span key, value;
        struct lladd_error err = LLADD_ERROR_INIT;
        int rc;
        while ((rc = lladd_hash_cursor_next(hash, &w, &key, &value, &err)) == 0)
            if (lladd_get64(key.data) < foreign)
                met[lladd_get64(key.data)]++;
        sure(rc == LLADD_END, err.message);
        lladd_hash_cursor_close(hash, &w);
        for (uint64_t i = 0; i < STAY; i++)
            sure(met[i] == 1, "an element was not met exactly once");
    } while (lladd_atomic_load32(&working));
    return NULL;
}

static void *look_up(void *arg)
{
    struct worker *w = arg;
    do
        for (int i = 0; i < 200; i++)
            look(seeded_next(&w->seed) % STAY, true);
    while (lladd_atomic_load32(&working));
    return NULL;
}

static void threads(unsigned n, uint64_t rounds)
{
    uint64_t count = 0, want = STAY;
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < STAY; i++)
        put_in(txn, i, false);
    commit(txn);
    memset(workers, 0, sizeof workers);
    lladd_atomic_store32(&working, n);
    for (unsigned i = 0; i < n + 2; i++) {
        struct worker *w = &workers[i];
        *w = (struct worker){.seed = i * 77 + 1, .id = i, .rounds = rounds};
        ck_assert_int_eq(lladd_thread_start(&w->thread,
                                            i < n    ? work
                                            : i == n ? walk
                                                     : look_up,
                                            w),
                         0);
    }
    for (unsigned i = 0; i < n + 2; i++)
        lladd_thread_join(&workers[i].thread);
    for (unsigned i = 0; i < n; i++)
        want += workers[i].live;
    ok_db(&b, lladd_hash_check(hash, &b.err));
    ok_db(&b, lladd_hash_count(hash, &count, &b.err));
    ck_assert_uint_eq(count, want);
    struct lladd_hash_stats s = {.struct_size = sizeof s};
    ok_db(&b, lladd_hash_stats_get(hash, &s, &b.err));
    ck_assert_uint_gt(s.splits, 10);
}

START_TEST(two)
{
    threads(2, 60);
}
END_TEST
START_TEST(eight)
{
    threads(8, 24);
}
END_TEST
START_TEST(sixty_four)
{
    threads(64, 4);
}
END_TEST

/* ---- an outdated number of buckets ------------------------------------------------- */

/* Stops a thread that reads the number of buckets, before it reads a page. */
static struct {
    struct lladd_mutex mutex;
    struct lladd_cond changed;
    uint64_t thread; /* the thread to be stopped; 0: none */
    bool there, go_on;
} hold_up;

static void hold_reader(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    (void)ctx, (void)number, (void)name;
    if (kind != FAULT_PREAD)
        return;
    lladd_mutex_lock(&hold_up.mutex);
    if (hold_up.thread == lladd_thread_self()) {
        hold_up.thread = 0;
        hold_up.there = true;
        lladd_cond_broadcast(&hold_up.changed);
        while (!hold_up.go_on)
            lladd_cond_wait(&hold_up.changed, &hold_up.mutex);
    }
    lladd_mutex_unlock(&hold_up.mutex);
}

static void *read_held_up(void *arg)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char got[64];
    lladd_mutex_lock(&hold_up.mutex);
    hold_up.thread = lladd_thread_self();
    lladd_mutex_unlock(&hold_up.mutex);
    int rc = lladd_hash_get(hash, arg, 8, got, 64, NULL, &err);
    sure(rc == LLADD_NOT_FOUND, err.message);
    return NULL;
}

/* Puts keys that belong to one of four buckets, until the table has n buckets. */
static void split_to(struct lladd_txn *txn, uint64_t n, uint64_t bucket, uint64_t *key)
{
    for (; lladd_atomic_load64(&hash->table->buckets) != n; ++*key)
        if ((ll_siphash(&hash->table->seed, key, 8) & 3) == bucket)
            put_in(txn, *key, false);
}

/* Makes a table of four buckets with physical undo. It contains all keys below *key. */
static void make_four(uint64_t *key)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = 8;
    o.value_size = 64;
    lladd_hash_close(hash);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_PHYSICAL, &hash, &b.err));
    txn = fixture_begin(&b);
    put_in(txn, (*key)++, false);
    for (; lladd_atomic_load64(&hash->table->buckets) < 4; ++*key)
        put_in(txn, *key, false);
    commit(txn);
}

/* Aborts the transaction while another thread reads the number of buckets. */
static void abort_meanwhile(struct lladd_txn *txn)
{
    uint64_t absent = UINT64_MAX;
    struct lladd_thread reader;
    memset(&hold_up, 0, sizeof hold_up);
    ck_assert_int_eq(lladd_mutex_init(&hold_up.mutex, LLADD_RANK_LEAF + 200, "test"), 0);
    ck_assert_int_eq(lladd_cond_init(&hold_up.changed), 0);
    fault_device_hook(b.fd, hold_reader, NULL);
    ck_assert_int_eq(lladd_thread_start(&reader, read_held_up, &absent), 0);
    lladd_mutex_lock(&hold_up.mutex);
    while (!hold_up.there)
        lladd_cond_wait(&hold_up.changed, &hold_up.mutex);
    lladd_mutex_unlock(&hold_up.mutex);
    abort_txn(txn);
    lladd_mutex_lock(&hold_up.mutex);
    hold_up.go_on = true;
    lladd_cond_broadcast(&hold_up.changed);
    lladd_mutex_unlock(&hold_up.mutex);
    lladd_thread_join(&reader);
    fault_device_hook(b.fd, NULL, NULL);
    lladd_cond_destroy(&hold_up.changed);
    lladd_mutex_destroy(&hold_up.mutex);
}

/* Two splits are undone physically while a thread reads the number of buckets. It has read the root
 * page before the undo, and reads the buckets after it. If the old number were kept, keys would go
 * to a bucket that does not exist, or the next split would split the wrong bucket. */
START_TEST(a_number_of_buckets_that_is_out_of_date_is_read_again)
{
    lladd_savepoint_id now;
    uint64_t key = 0;
    make_four(&key);
    struct lladd_txn *txn = fixture_begin(&b);
    uint64_t first = key, next = key;
    split_to(txn, 5, 0, &next);
    split_to(txn, 6, 1, &next);
    ok(txn, lladd_savepoint(txn, &now));
    ok(txn, lladd_rollback_to(txn, now)); /* makes the cached number of buckets invalid */
    ok_db(&b, lladd_checkpoint(b.db, &b.err));
    ck_assert_int_eq(
        lladd_pages_discard(b.db, ll_operations__extents_page(&hash->table->run, 2), 1), 0);
    abort_meanwhile(txn);
    txn = fixture_begin(&b);
    for (key = next; (ll_siphash(&hash->table->seed, &key, 8) & 7) != 4;)
        key++; /* finds a key that would belong to the fifth bucket, if it existed */
    put_in(txn, key, false);
    next = key + 1;
    if (_i)
        split_to(txn, 6, 1, &next);
    commit(txn);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    look(key, true);
    for (uint64_t k = 0; k < first; k++)
        look(k, true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables and threads");
    TCase *t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, two);
    tcase_add_test(t, eight);
    tcase_add_test(t, sixty_four);
    tcase_add_loop_test(t, a_number_of_buckets_that_is_out_of_date_is_read_again, 0, 2);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
