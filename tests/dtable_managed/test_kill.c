/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill -9 with real files (Anvil, section 6.5), with options drawn from a seed. A child writes to
 * two managed tables with several threads, while other threads digest and combine. The child
 * acknowledges each commit through a pipe, and is killed after a number of acknowledgements. Then
 * every acknowledged transaction must be there as a whole, in both tables. For each thread, at most
 * one more transaction may be there: the transaction that was in progress. Every page of a run must
 * be allocated, and belong to no other run. The next child uses the same directory, so recoveries
 * follow recoveries. With LLADD_NIGHTLY this is done a thousand times. LLADD_SEED=N runs one seed.
 */
#include "support/fixtures.h"
#include "support/killed.h"
#include "support/random_options.h"

#include <check.h>
#include <lladd/dtable_managed.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 3, SLOTS = 50, LAG = 20, ROW = 1000, LIMIT = 4 << 20 };

/*
 * In its n-th transaction, worker w puts n under the key w into both tables, and n under the key (w
 * + 1) * ROW + n % SLOTS into the first table. There it also deletes the row that it put LAG
 * transactions earlier. So n determines all rows of the worker.
 */
struct ack {
    uint32_t worker, n; /* if `worker` is WORKERS: the log is full, and all workers have ended */
};

static struct lladd_options options_for(uint64_t seed)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    random_options(seed, LIMIT, &o);
    if (lladd_managed_register(&o, NULL))
        abort();
    return o;
}

static int put(struct lladd_txn *txn, struct lladd_managed *t, uint32_t key, uint32_t n)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    struct lladd_dtable_value v =
        n ? lladd_dtable_value_of(&n, sizeof n) : lladd_dtable_tombstone();
    return lladd_managed_put(txn, t, &k, &v);
}

/* Sets *n to the value of the key; 0: there is no value. */
static int get(struct lladd_txn *txn, struct lladd_managed *t, uint32_t key, uint32_t *n)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    size_t len;
    *n = 0;
    int rc = lladd_managed_get(txn, t, &k, n, sizeof *n, &len);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* ---- the child ------------------------------------------------------------------------------- */

#define CHILD(call) \
    do { \
        int child_rc = (call); \
        if (child_rc) { \
            fprintf(stderr, "child: %s: %d\n", #call, child_rc); \
            _exit(3); \
        } \
    } while (0)

struct work {
    struct lladd_db *db;
    struct lladd_managed *tables[2];
    uint32_t worker, n;
    int fd;
};

static int change(const struct work *w, struct lladd_txn *txn, uint32_t n)
{
    uint32_t row = (w->worker + 1) * ROW;
    int rc = put(txn, w->tables[0], w->worker, n);
    if (rc == 0)
        rc = put(txn, w->tables[0], row + n % SLOTS, n);
    if (rc == 0)
        rc = put(txn, w->tables[0], row + (n + SLOTS - LAG) % SLOTS, 0);
    return rc ? rc : put(txn, w->tables[1], w->worker, n);
}

/* Works until the log is full: the transaction that stays open keeps the log. */
static void *child_worker(void *arg)
{
    struct work *w = arg;
    for (uint32_t n = w->n + 1;; n++) {
        struct ack a = {w->worker, n};
        struct lladd_txn *txn;
        CHILD(lladd_begin(w->db, NULL, &txn, NULL));
        int rc = change(w, txn, n);
        if (rc == 0)
            rc = lladd_commit(txn);
        if (rc == LLADD_LOG_FULL) {
            CHILD(lladd_abort(txn));
            return NULL;
        }
        CHILD(rc);
        killed_tell(w->fd, &a, sizeof a);
    }
    return NULL;
}

/* argv: child, directory, seed, file descriptor */
static int child(char **argv)
{
    struct lladd_options o = options_for(strtoull(argv[3], NULL, 10));
    struct ack full = {WORKERS, 0};
    struct lladd_thread threads[WORKERS] = {0};
    struct work w[WORKERS];
    struct lladd_managed *tables[2];
    struct lladd_db *db;
    struct lladd_txn *txn, *loser;
    CHILD(lladd_open(argv[2], &o, &db, NULL));
    CHILD(lladd_managed_open(db, "rows", &tables[0], NULL));
    CHILD(lladd_managed_open(db, "counts", &tables[1], NULL));
    CHILD(lladd_managed_threads(db, 2, NULL));
    CHILD(lladd_begin(db, NULL, &txn, NULL));
    for (uint32_t i = 0; i < WORKERS; i++) {
        w[i] = (struct work){db, {tables[0], tables[1]}, i, 0, atoi(argv[4])};
        CHILD(get(txn, tables[0], i, &w[i].n));
    }
    CHILD(lladd_commit(txn));
    CHILD(lladd_begin(db, NULL, &loser, NULL)); /* open all the time */
    CHILD(put(loser, tables[0], ROW - 1, 1));
    for (unsigned i = 0; i < WORKERS; i++)
        CHILD(lladd_thread_start(&threads[i], child_worker, &w[i]));
    for (unsigned i = 0; i < WORKERS; i++)
        lladd_thread_join(&threads[i]);
    killed_tell(w[0].fd, &full, sizeof full);
    for (;;)
        (void)pause(); /* until it is killed */
}

/* ---- the parent ------------------------------------------------------------------------------ */

static struct lladd_db *open_db(const char *dir, uint64_t seed, struct lladd_managed *tables[2])
{
    struct lladd_options o = options_for(seed);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    ck_assert_msg(lladd_open(dir, &o, &db, &err) == 0, "%s", err.message);
    lladd_options_release(&o);
    if (tables) {
        ck_assert_msg(lladd_managed_open(db, "rows", &tables[0], &err) == 0, "%s", err.message);
        ck_assert_msg(lladd_managed_open(db, "counts", &tables[1], &err) == 0, "%s", err.message);
    }
    return db;
}

static void make(const char *dir, uint64_t seed)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *txn;
    struct lladd_db *db = open_db(dir, seed, NULL);
    m.type = LLADD_DTABLE_U32;
    m.every = 2;
    m.rows = 40;
    if (seed % 2 == 0) {
        m.schedule = LLADD_MANAGED_LEVELS;
        m.memory_bytes = 2000;
    }
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    ck_assert_int_eq(lladd_managed_create(txn, "rows", &m), 0);
    m.schedule = LLADD_MANAGED_TIERED;
    m.memory_bytes = 0;
    m.rows = 15;
    ck_assert_int_eq(lladd_managed_create(txn, "counts", &m), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}

/* Starts a child, and kills it when `count` acknowledgements have come, or when the log is full.
 * acked[w] becomes the newest acknowledgement of worker w. Returns true if the log was full. */
static bool run_and_kill(const char *dir, uint64_t seed, uint64_t count, uint32_t *acked)
{
    struct killed child = killed_start(dir, seed);
    struct ack a;
    bool full = false;
    for (uint64_t seen = 0; seen < count && !full; seen++) {
        ck_assert_msg(killed_hear(&child, &a, sizeof a), "the child has ended by itself");
        full = a.worker == WORKERS;
        if (!full)
            acked[a.worker] = a.n;
    }
    killed_kill(&child);
    while (killed_hear(&child, &a, sizeof a)) { /* what the child wrote before it died */
        full = full || a.worker == WORKERS;
        if (a.worker < WORKERS)
            acked[a.worker] = a.n;
    }
    killed_close(&child);
    return full;
}

/* Returns the value of the slot after n transactions of a worker; 0: the slot has no value. */
static uint32_t expected(uint32_t n, uint32_t slot)
{
    uint32_t last = 0;
    for (uint32_t k = n > 2 * SLOTS ? n - 2 * SLOTS : 1; k <= n; k++) {
        if (k % SLOTS == slot)
            last = k;
        if ((k + SLOTS - LAG) % SLOTS == slot)
            last = 0;
    }
    return last;
}

static void check_worker(struct lladd_txn *txn, struct lladd_managed *const tables[2], uint32_t w,
                         uint32_t *acked)
{
    uint32_t n, same, is;
    ck_assert_int_eq(get(txn, tables[0], w, &n), 0);
    ck_assert_int_eq(get(txn, tables[1], w, &same), 0);
    ck_assert_uint_eq(n, same);
    ck_assert_msg(n >= acked[w], "worker %u: %u acknowledged, %u there", w, acked[w], n);
    ck_assert_uint_le(n, acked[w] + 1);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        ck_assert_int_eq(get(txn, tables[0], (w + 1) * ROW + slot, &is), 0);
        ck_assert_uint_eq(is, expected(n, slot));
    }
    acked[w] = n; /* later checks must find at least these rows */
}

struct pages {
    unsigned char *seen;
    uint64_t n;
};

static int see_page(void *ctx, lladd_pageno page)
{
    struct pages *p = ctx;
    ck_assert_uint_lt(page.v, p->n);
    ck_assert_uint_eq(p->seen[page.v], 0); /* the page belongs to no other run */
    p->seen[page.v] = 1;
    return 0;
}

/* Checks that the pages of all runs are allocated, and that no page belongs to two runs. */
static void check_pages(struct lladd_db *db)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct pages p = {.n = lladd_page_count(db)};
    p.seen = calloc(p.n, 1);
    ck_assert_ptr_nonnull(p.seen);
    ck_assert_int_eq(lladd_managed_pages(db, see_page, &p, &err), 0);
    for (uint64_t i = 0; i < p.n; i++) {
        enum lladd_page_use use;
        ck_assert_int_eq(lladd_page_use_get(db, lladd_page_of(i), &use, &err), 0);
        ck_assert(!p.seen[i] || use == LLADD_USE_PAGED || use == LLADD_USE_RAW);
    }
    free(p.seen);
}

static void check_all(const char *dir, uint64_t seed, uint32_t *acked)
{
    struct lladd_managed *tables[2];
    struct lladd_txn *txn;
    uint32_t n;
    struct lladd_db *db = open_db(dir, seed, tables);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (uint32_t w = 0; w < WORKERS; w++)
        check_worker(txn, tables, w, acked);
    ck_assert_int_eq(get(txn, tables[0], ROW - 1, &n), 0);
    ck_assert_uint_eq(n, 0); /* the row of the transaction that stayed open */
    ck_assert_int_eq(lladd_commit(txn), 0);
    check_pages(db);
    lladd_db_kill(db); /* no clean close, so the next child recovers again */
}

/* Checks that the test has covered digests and combines. */
static void check_digested(const char *dir, uint64_t seed, unsigned rounds)
{
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    struct lladd_managed *tables[2];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db = open_db(dir, seed, tables);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lladd_managed_stats_get(tables[i], &s, NULL, 0, &err), 0);
        ck_assert_uint_ge(s.digests, rounds / 2);
        ck_assert_uint_ge(s.combines, rounds / 8);
    }
    ck_assert_int_eq(lladd_close(db), 0);
}

/* _i: the seed. If the log has a limit, the last child writes until it is full. */
START_TEST(acknowledged_rows_survive_kill_9)
{
    enum { ROUNDS = 10 };
    char *dir = temp_dir_new();
    uint64_t seed = (uint64_t)_i, rng = seed;
    uint32_t acked[WORKERS] = {0};
    struct lladd_options o = options_for(seed);
    bool limited = o.log_limit_bytes != UINT64_MAX;
    random_options_print(seed, &o);
    lladd_options_release(&o);
    make(dir, seed);
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool fill = limited && round == ROUNDS - 1;
        uint64_t count = fill ? UINT64_MAX : 1 + seeded_next(&rng) % 200;
        bool full = run_and_kill(dir, seed, count, acked);
        ck_assert(full || !fill);
        check_all(dir, seed, acked);
    }
    check_digested(dir, seed, ROUNDS);
    temp_dir_remove(dir);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "child") == 0)
        return child(argv);
    Suite *s = suite_create("kill");
    TCase *tc = tcase_create("all");
    const char *one = getenv("LLADD_SEED");
    int first = one ? atoi(one) : 1, seeds = getenv("LLADD_NIGHTLY") ? 100 : 3;
    tcase_add_loop_test(tc, acknowledged_rows_survive_kill_9, first,
                        one ? first + 1 : first + seeds);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
