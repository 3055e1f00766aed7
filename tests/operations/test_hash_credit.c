/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log credit and threads. Many threads fill a new hash table. The log buffer has room for the log
 * credit of only a few of them.
 *
 * An insertion may split the table or rebuild a chain. A thread that does so takes log credit, and
 * the table's mutex `shape`. The thread must not hold credit while it waits for the mutex.
 * Otherwise the holder of the mutex could wait for that credit, neither thread could go on, and the
 * test would not end. Runs under TSan.
 */
#include "op_fixture.h"

#include <lladd/hash.h>

#include <stdio.h>

enum { MOST = 256 };

/* The first two cases have the smallest log buffer that allows a rebuild. The last case has the
 * largest pages, and the default log buffer (`ring` 0).
 * - ring: the size of the log buffer, in bytes.
 * - threads: the number of threads.
 * - keys: the number of keys that each thread inserts. */
static const struct {
    uint64_t ring;
    uint32_t page_size;
    unsigned threads, keys;
} cases[] = {{128u << 10, 4096, 32, 600}, {128u << 10, 4096, MOST, 60}, {0, 65536, 128, 200}};

static struct fixture b;
static struct lladd_hash *hash;
static unsigned keys;

struct worker {
    struct lladd_thread thread;
    unsigned id;
};

/* Ends the program if the condition does not hold. The threads cannot use the assertions of Check
 * for this: these leave a test by longjmp, which only the thread that runs the test may do. */
static void *fill(void *arg)
{
    const struct worker *w = arg;
    for (unsigned i = 0; i < keys; i++) {
        char key[32];
        size_t len = (size_t)snprintf(key, sizeof key, "key%u-%u", w->id, i);
        struct lladd_txn *txn = fixture_begin(&b);
        int rc = lladd_hash_put(txn, hash, key, len, key, len);
        sure(rc == 0, lladd_txn_error(txn)->message);
        sure(lladd_commit(txn) == 0, "commit");
    }
    return NULL;
}

START_TEST(threads_fill_a_table_with_a_small_log_buffer)
{
    static struct worker workers[MOST];
    const unsigned n = cases[_i].threads;
    lladd_pageno root;
    uint64_t count;
    keys = cases[_i].keys;
#ifdef LL_TEST_SHORT
    keys /= 10; /* enough: a deadlock would come at the first split */
#endif
    fixture_init(&b, cases[_i].page_size);
    b.options.flags = 0;
    b.options.cache_bytes = 64u << 20;
    b.options.log_ring_bytes = cases[_i].ring;
    b.options.durability = LLADD_DURABLE_LATER;
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_hash_create(txn, NULL, &root));
    commit(txn);
    ok_db(&b, lladd_hash_open(b.db, root, 0, &hash, &b.err));
    for (unsigned i = 0; i < n; i++) {
        workers[i].id = i;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, fill, &workers[i]), 0);
    }
    for (unsigned i = 0; i < n; i++)
        lladd_thread_join(&workers[i].thread);
    ok_db(&b, lladd_hash_check(hash, &b.err));
    ok_db(&b, lladd_hash_count(hash, &count, &b.err));
    ck_assert_uint_eq(count, (uint64_t)n * keys);
    lladd_hash_close(hash);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log credit and threads");
    TCase *t = tcase_create("credit");
    tcase_add_loop_test(t, threads_fill_a_table_with_a_small_log_buffer, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(s, t);
    return fixture_run(s);
}
