/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill -9 with real files, with options drawn from a seed. A child works, acknowledges each commit
 * through a pipe, and is killed after a number of acknowledgements. (How much the child has done by
 * then depends on the machine.) Then the parent opens the database. All changes of every
 * acknowledged transaction must be there. Of a transaction that was committing, either all changes
 * are there or none. No change of an open or aborted transaction is there. The next child uses the
 * same directory, so that recoveries follow recoveries. LLADD_SEED=N runs one seed.
 *
 * This test covers the death of a process; test_crash covers power failures.
 */
#include "support/fixtures.h"
#include "support/killed.h"
#include "support/random_options.h"
#include "testops.h"

#include <check.h>
#include <errno.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 3, PAGES = 12, ASYNC_WINDOW = 8, LIMIT = 4 << 20 };

/*
 * In its n-th transaction, worker w
 * - adds 1 to cell w of page 0;
 * - adds n to cell w of page 1 + n % (PAGES - 1);
 * - moves n from cell 8 + w to cell 16 + w of page 0, in a top action.
 * So cell w of page 0 is the number of the worker's transactions, and determines all other cells of
 * the worker.
 */
struct ack {
    uint32_t worker; /* if `worker` is WORKERS: the log is full, and all workers have ended */
    uint32_t n;      /* number of durable transactions of this worker */
};

struct work {
    struct lladd_db *db;
    unsigned index;
    unsigned mode; /* the lowest bit of the seed: with 0 commits wait for durability, with 1 several
                    * commits are in flight */
    int fd;
    lladd_pageno pages[PAGES];
    uint32_t n; /* number of transactions so far */
};

/* ---- both sides -------------------------------------------------------------------------- */

static struct lladd_options options_for(uint64_t seed)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    random_options(seed, LIMIT, &o);
    if (lladd_register_extension(&o, &test_extension, NULL))
        abort();
    return o;
}

/* Finds the pages by a root. */
static int find_pages(struct lladd_db *db, lladd_pageno *pages, struct lladd_error *err)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(db, "kill", &root, err);
    for (unsigned i = 0; !rc && i < PAGES; i++)
        pages[i] = lladd_page_of(root.a + i);
    return rc;
}

/* ---- the child --------------------------------------------------------------------------- */

#define CHILD(call) \
    do { \
        int child_rc = (call); \
        if (child_rc) { \
            fprintf(stderr, "child: %s: %d\n", #call, child_rc); \
            _exit(3); \
        } \
    } while (0)

static void acknowledge(const struct work *w, uint32_t n)
{
    struct ack a = {w->index, n};
    killed_tell(w->fd, &a, sizeof a);
}

/* Returns from the function if the log is at its limit. Any other error ends the child. */
#define WORK(call) \
    do { \
        int work_rc = (call); \
        if (work_rc == LLADD_LOG_FULL) \
            return work_rc; \
        CHILD(work_rc); \
    } while (0)

static int change(const struct work *w, struct lladd_txn *txn, uint32_t n)
{
    lladd_savepoint_id sp;
    WORK(cell_add(txn, cell_of(w->pages[0], w->index), 1));
    CHILD(lladd_savepoint(txn, &sp));
    WORK(cell_bump(txn, cell_of(w->pages[2], 40 + w->index), 77));
    CHILD(lladd_rollback_to(txn, sp));
    WORK(cell_add(txn, cell_of(w->pages[1 + n % (PAGES - 1)], w->index), n));
    WORK(cells_transfer(txn, cell_of(w->pages[0], 8 + w->index),
                        cell_of(w->pages[0], 16 + w->index), n));
    return 0;
}

static int change_and_abort(const struct work *w)
{
    struct lladd_txn *txn;
    CHILD(lladd_begin(w->db, NULL, &txn, NULL));
    int rc = cell_add(txn, cell_of(w->pages[3], 50 + w->index), 1000);
    if (rc == 0)
        rc = cell_bump(txn, cell_of(w->pages[4], 50 + w->index), 1000);
    CHILD(lladd_abort(txn));
    WORK(rc);
    return 0;
}

/* Works until the log is full. The transaction that is open all the time keeps the log. */
static void *child_worker(void *arg)
{
    struct work *w = arg;
    lladd_lsn window[ASYNC_WINDOW] = {{0}};
    for (uint32_t n = w->n + 1;; n++) {
        struct lladd_txn *txn;
        CHILD(lladd_begin(w->db, NULL, &txn, NULL));
        int rc = change(w, txn, n);
        if (rc == 0 && n % 5 == 0) /* makes changes in another transaction, and aborts it */
            rc = change_and_abort(w);
        if (rc == 0 && w->mode == 0)
            rc = lladd_commit(txn);
        else if (rc == 0)
            rc = lladd_commit_async(txn, &window[n % ASYNC_WINDOW]);
        if (rc == LLADD_LOG_FULL) {
            CHILD(lladd_abort(txn));
            return NULL;
        }
        CHILD(rc);
        if (w->mode == 0) {
            acknowledge(w, n);
        } else if (n - w->n >= ASYNC_WINDOW) {
            CHILD(lladd_wait_durable(w->db, window[(n + 1) % ASYNC_WINDOW], NULL));
            acknowledge(w, n + 1 - ASYNC_WINDOW);
        }
    }
    return NULL;
}

/* The arguments: "child", directory, seed, file descriptor of the pipe. */
static int child(char **argv)
{
    uint64_t seed = strtoull(argv[3], NULL, 10);
    struct lladd_options o = options_for(seed);
    struct lladd_db *db;
    struct lladd_txn *loser;
    struct work w[WORKERS];
    struct lladd_thread threads[WORKERS] = {0};
    memset(w, 0, sizeof w);
    CHILD(lladd_open(argv[2], &o, &db, NULL));
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i].db = db;
        w[i].index = i;
        w[i].mode = seed & 1;
        w[i].fd = atoi(argv[4]);
        CHILD(find_pages(db, w[i].pages, NULL));
        uint64_t n;
        CHILD(cell_read(db, cell_of(w[i].pages[0], i), &n, NULL));
        w[i].n = (uint32_t)n;
    }
    /* A transaction that stays open until the kill, with a change of every page. */
    CHILD(lladd_begin(db, NULL, &loser, NULL));
    for (unsigned i = 0; i < PAGES; i++)
        CHILD(cell_add(loser, cell_of(w[0].pages[i], 60), 1));
    for (unsigned i = 0; i < WORKERS; i++)
        CHILD(lladd_thread_start(&threads[i], child_worker, &w[i]));
    for (unsigned i = 0; i < WORKERS; i++)
        lladd_thread_join(&threads[i]);
    w[0].index = WORKERS;
    acknowledge(&w[0], 0);
    for (;;)
        (void)pause(); /* until it is killed */
}

/* ---- the parent -------------------------------------------------------------------------- */

static void make(const char *dir, uint64_t seed)
{
    struct lladd_options o = options_for(seed);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno first;
    ck_assert_msg(lladd_open(dir, &o, &db, &err) == 0, "%s", err.message);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &err), 0);
    ck_assert_int_eq(lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_PAGED, &first), 0);
    for (unsigned i = 0; i < PAGES; i++)
        ck_assert_int_eq(cells_format(txn, lladd_page_of(first.v + i)), 0);
    ck_assert_int_eq(
        lladd_root_set(txn, "kill", (struct lladd_root_value){.a = first.v, .b = PAGES}), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(db), 0);
    lladd_options_release(&o);
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

/* Asserts that the database has exactly the first n transactions of worker w; returns n. */
static uint32_t check_worker(struct lladd_db *db, const lladd_pageno *pages, unsigned w,
                             unsigned mode, uint32_t acked)
{
    uint64_t n = cell_get(db, cell_of(pages[0], w));
    ck_assert_msg(n >= acked, "worker %u: %u acknowledged, %llu there", w, acked,
                  (unsigned long long)n);
    ck_assert_uint_le(n, acked + (mode ? ASYNC_WINDOW + 1 : 1));
    uint64_t sum = n * (n + 1) / 2;
    ck_assert_uint_eq(cell_get(db, cell_of(pages[0], 8 + w)), 0 - sum);
    ck_assert_uint_eq(cell_get(db, cell_of(pages[0], 16 + w)), sum);
    for (unsigned i = 1; i < PAGES; i++) {
        uint64_t want = 0;
        for (uint64_t k = 1; k <= n; k++)
            want += 1 + k % (PAGES - 1) == i ? k : 0;
        ck_assert_uint_eq(cell_get(db, cell_of(pages[i], w)), want);
    }
    ck_assert_uint_eq(cell_get(db, cell_of(pages[2], 40 + w)), 0);
    ck_assert_uint_eq(cell_get(db, cell_of(pages[3], 50 + w)), 0);
    ck_assert_uint_eq(cell_get(db, cell_of(pages[4], 50 + w)), 0);
    return (uint32_t)n;
}

/* Opens the database and checks all workers. Later opens must show at least this state, so it
 * counts as acknowledged. */
static void check_all(const char *dir, uint64_t seed, uint32_t *acked)
{
    struct lladd_options o = options_for(seed);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats s = {.struct_size = sizeof s};
    struct lladd_db *db;
    lladd_pageno pages[PAGES];
    int rc = lladd_open(dir, &o, &db, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    ck_assert_int_eq(lladd_stats_get(db, &s), 0);
    ck_assert_uint_ge(s.recovered_undone_txns, 1); /* the transaction that was open all the time */
    ck_assert_int_eq(find_pages(db, pages, &err), 0);
    for (unsigned w = 0; w < WORKERS; w++)
        acked[w] = check_worker(db, pages, w, seed & 1, acked[w]);
    for (unsigned i = 0; i < PAGES; i++)
        ck_assert_uint_eq(cell_get(db, cell_of(pages[i], 60)), 0);
    lladd_db_kill(db); /* so that the next child recovers again */
    lladd_options_release(&o);
}

/* _i: the seed. If the log has a limit, the last child writes until the log is full. */
START_TEST(acknowledged_transactions_survive_kill_9)
{
    enum { ROUNDS = 4 };
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
        uint64_t count = fill ? UINT64_MAX : 1 + seeded_next(&rng) % 300;
        bool full = run_and_kill(dir, seed, count, acked);
        ck_assert(full || !fill);
        check_all(dir, seed, acked);
    }
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
    int first = one ? atoi(one) : 1, seeds = getenv("LLADD_NIGHTLY") ? 100 : 8;
    tcase_add_loop_test(tc, acknowledged_transactions_survive_kill_9, first,
                        one ? first + 1 : first + seeds);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
