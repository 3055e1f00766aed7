/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads change one logged Bw-tree in transactions of their own, while another thread flushes and
 * takes checkpoints. Some transactions roll back. Then the power fails. Each thread's committed
 * rows must be there, and no others.
 */
#include "db_fixture.h"

#include <lladd/bwtree.h>
#include <lladd/sync.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 3, KEYS = 200, EACH = 5 };

static struct fixture r;
static struct lladd_bwtree *tree;
static uint32_t running; /* atomic: writers that have not ended */
static unsigned rounds;

struct writer {
    struct lladd_thread thread;
    unsigned number;
    uint64_t state;
    uint64_t value[KEYS]; /* 0: no row */
};
static struct writer writers[WRITERS];

static unsigned dice(struct writer *w, unsigned n)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((w->state >> 33) % n);
}

/* The rows of the writers are next to each other. */
static uint64_t key_of(const struct writer *w, unsigned k)
{
    return __builtin_bswap64((uint64_t)k * WRITERS + w->number);
}

static void change(struct writer *w, struct lladd_txn *txn, uint64_t *value)
{
    unsigned k = dice(w, KEYS);
    uint64_t key = key_of(w, k), new_value = 1 + dice(w, 1000000);
    if (value[k] && dice(w, 3) == 0) {
        ok(txn, lladd_bwtree_txn_delete(txn, tree, &key, 8));
        value[k] = 0;
    } else {
        ok(txn, lladd_bwtree_txn_put(txn, tree, &key, 8, &new_value, 8));
        value[k] = new_value;
    }
}

static void *writes(void *arg)
{
    struct writer *w = arg;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t value[KEYS];
        struct lladd_txn *txn = fixture_begin(&r);
        memcpy(value, w->value, sizeof value);
        for (unsigned n = 0; n < EACH; n++)
            change(w, txn, value);
        if (dice(w, 4) == 0) {
            done(lladd_abort(txn));
        } else {
            done(lladd_commit(txn));
            memcpy(w->value, value, sizeof value);
        }
    }
    (void)lladd_atomic_add32(&running, UINT32_MAX);
    return NULL;
}

static void *flushes(void *unused)
{
    (void)unused;
    for (unsigned i = 0; lladd_atomic_load32(&running) > 0; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        int rc = i % 3 ? lladd_bwtree_flush(r.db, &err) : lladd_checkpoint(r.db, &err);
        ck_assert_msg(rc == 0, "%s", err.message);
    }
    return NULL;
}

static void expect_all(void)
{
    ok_db(&r, lladd_bwtree_check(tree, &r.err));
    for (unsigned i = 0; i < WRITERS; i++)
        for (unsigned k = 0; k < KEYS; k++) {
            uint64_t key = key_of(&writers[i], k), value = 0;
            int rc = lladd_bwtree_get(tree, &key, 8, &value, 8, NULL, NULL);
            ck_assert_int_eq(rc, writers[i].value[k] ? 0 : LLADD_NOT_FOUND);
            ck_assert_uint_eq(value, writers[i].value[k]);
        }
}

static void begin(unsigned kind)
{
    struct lladd_bwtree_options o = LLADD_BWTREE_OPTIONS_INIT;
    fixture_init(&r, kind);
    ok_db(&r, lladd_bwtree_register(&r.options, &r.err));
    fixture_open(&r);
    o.key_size = o.value_size = 8;
    o.page_bytes = 256;
    o.leaf_chain = 3;
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_bwtree_create(txn, "shared", &o));
    done(lladd_commit(txn));
    ok_db(&r, lladd_bwtree_open(r.db, "shared", &tree, &r.err));
}

START_TEST(committed_rows_survive_a_crash)
{
    struct lladd_thread flusher;
    rounds = getenv("LLADD_NIGHTLY") ? 3000 : 200;
    begin(_i ? FIXTURE_THREADS : 0);
    memset(writers, 0, sizeof writers);
    lladd_atomic_store32(&running, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i].number = i;
        writers[i].state = i + 1;
        ck_assert_int_eq(lladd_thread_start(&writers[i].thread, writes, &writers[i]), 0);
    }
    ck_assert_int_eq(lladd_thread_start(&flusher, flushes, NULL), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        lladd_thread_join(&writers[i].thread);
    lladd_thread_join(&flusher);
    expect_all();
    fixture_crash(&r, &fault_power);
    fixture_open(&r);
    ok_db(&r, lladd_bwtree_open(r.db, "shared", &tree, &r.err));
    expect_all();
    lladd_bwtree_close(tree);
    fixture_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads and a logged Bw-tree");
    TCase *c = tcase_create("threads");
    tcase_add_loop_test(c, committed_rows_survive_a_crash, 0, 2);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
