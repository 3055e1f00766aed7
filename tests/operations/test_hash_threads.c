/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread reads the number of buckets of a hash table while another thread undoes splits, so that
 * the number is out of date. test_keyed_threads.c tests threads that change tables. Runs under
 * TSan. */
#include "op_fixture.h"
#include "operations/hash/table.h"

#include <lladd/bulk.h>
#include <lladd/hash.h>

static struct fixture b;
static lladd_pageno root;
static struct lladd_hash *hash;

static void value_of(uint64_t key, unsigned char out[64])
{
    memset(out, (int)key, 64);
    lladd_put64(out, key);
}

static void look(uint64_t key)
{
    unsigned char got[64], want[64];
    ok_db(&b, lladd_hash_get(hash, &key, 8, got, 64, NULL, &b.err));
    value_of(key, want);
    ck_assert_mem_eq(got, want, 64);
}

static void put_in(struct lladd_txn *txn, uint64_t key)
{
    unsigned char value[64];
    value_of(key, value);
    ok(txn, lladd_hash_insert(txn, hash, &key, 8, value, 64));
}

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
            put_in(txn, *key);
}

/* Makes a table of four buckets with physical undo. It contains all keys below *key. */
static void make_four(uint64_t *key)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    o.key_size = 8;
    o.value_size = 64;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_PHYSICAL, &hash, &b.err));
    txn = fixture_begin(&b);
    put_in(txn, (*key)++);
    for (; lladd_atomic_load64(&hash->table->buckets) < 4; ++*key)
        put_in(txn, *key);
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

/* Two splits are undone physically while a thread looks a key up. The thread has read the number of
 * buckets from the root page before the undo, and reads a bucket after the undo. The old number
 * must not stay in memory. Otherwise keys would go to a bucket that does not exist (_i 0), or the
 * next split would split the wrong bucket (_i 1). */
START_TEST(a_number_of_buckets_that_is_out_of_date_is_read_again)
{
    lladd_savepoint_id now;
    uint64_t key = 0;
    fixture_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    fixture_open(&b);
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
    put_in(txn, key);
    next = key + 1;
    if (_i)
        split_to(txn, 6, 1, &next);
    commit(txn);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    look(key);
    for (uint64_t k = 0; k < first; k++)
        look(k);
    lladd_hash_close(hash);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hash tables and threads");
    TCase *t = tcase_create("threads");
    tcase_add_loop_test(t, a_number_of_buckets_that_is_out_of_date_is_read_again, 0, 2);
    suite_add_tcase(s, t);
    return fixture_run(s);
}
