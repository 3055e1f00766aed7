/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables and threads: 2, 8 and 64 of them insert, look up, replace and remove keys of their
 * own, committing and rolling back, while the table splits and merges under them; others look up
 * and walk meanwhile and find everything that stays, walks exactly once. Runs under TSan.
 */
#include "bed.h"

#include <lladd/hash.h>

#include <stdio.h>

enum { MOST = 64, STAY = 2000 };

static struct bed b;
static lladd_pageno root;
static struct lladd_hash *hash;
static uint32_t working;

struct worker {
    struct lladd_thread thread;
    uint64_t seed, id, rounds;
    uint64_t live; /* keys it has left there */
};
static struct worker workers[MOST + 2];

static uint64_t key_of(uint64_t id, uint64_t i)
{
    return (id + 1) << 32 | i;
}

static void setup(void)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    bed_init_threads(&b);
    b.options.cache_bytes = 8u << 20;
    b.options.log_ring_bytes = 4u << 20;
    bed_open(&b);
    o.key_size = 8;
    o.value_size = 64; /* some fifty elements a page: many splits */
    struct lladd_txn *txn = bed_begin(&b);
    ok(txn, lladd_hash_create(txn, &o, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, LLADD_HASH_LOGICAL, &hash, &b.err));
}

static void teardown(void)
{
    lladd_hash_close(hash);
    bed_free(&b);
}

/* What Check notes of each assertion is not made for so many threads: these only tell of
 * failures. */
static void sure(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s\n", what); /* Check's way out of a thread would be through its stack */
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
        struct lladd_txn *txn = bed_begin(&b);
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
        txn = bed_begin(&b);
        for (uint64_t i = 0; i < BATCH; i++) {
            uint64_t key = key_of(w->id, round * BATCH + i);
            sure(lladd_hash_remove(txn, hash, &key, 8) == 0, lladd_txn_error(txn)->message);
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
        struct lladd_hash_walk w = {{0}, NULL, 0};
        struct lladd_span key, value;
        struct lladd_error err = LLADD_ERROR_INIT;
        int rc;
        while ((rc = lladd_hash_next(hash, &w, &key, &value, &err)) == 0)
            if (lladd_get64(key.data) < foreign)
                met[lladd_get64(key.data)]++;
        sure(rc == LLADD_END, err.message);
        lladd_hash_walk_end(hash, &w);
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
    struct lladd_txn *txn = bed_begin(&b);
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
    ok_db(&b, lladd_hash_stats(hash, &s, &b.err));
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

int main(void)
{
    Suite *s = suite_create("hash tables and threads");
    TCase *t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, two);
    tcase_add_test(t, eight);
    tcase_add_test(t, sixty_four);
    suite_add_tcase(s, t);
    return bed_run(s);
}
