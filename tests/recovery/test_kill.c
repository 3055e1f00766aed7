/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill -9 with real files. A child works, acknowledges each commit through a pipe, and is killed
 * after a number of acknowledgements. (How far the child has got by then depends on the machine.)
 * Then the parent opens the database. All changes of every acknowledged transaction must be there.
 * Of a commit in progress, all changes are there or none, of open and aborted transactions none.
 * The next child uses the same directory, so that recoveries follow recoveries.
 *
 * This test covers the death of a process; test_crash covers power failures.
 */
#include "support/fixtures.h"
#include "testops.h"

#include <check.h>
#include <errno.h>
#include <lladd/pages.h>
#include <lladd/stats.h>
#include <lladd/sync.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, PAGES = 12, ASYNC_WINDOW = 8 };

/*
 * In its n-th transaction, worker w adds 1 to cell w of page 0, adds n to cell w of page 1 + n %
 * (PAGES - 1), and moves n from cell 8 + w to cell 16 + w of page 0 in a top action. So the count
 * on page 0 determines all other cells.
 */
struct ack {
    uint32_t worker;
    uint32_t n; /* number of durable transactions of this worker */
};

struct work {
    struct lladd_db *db;
    unsigned index;
    unsigned mode; /* 0: commits wait for durability; 1: several commits are in flight */
    int fd;
    lladd_pageno pages[PAGES];
    uint32_t n; /* number of transactions so far */
};

/* ---- both sides -------------------------------------------------------------------------- */

static struct lladd_options options_for(unsigned mode)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    o.cache_bytes = 512u << 10;
    o.log_ring_bytes = 128u << 10;
    o.log_segment_min = 16u << 10;
    o.log_segment_max = 64u << 10;
    o.checkpoint_bytes = 64u << 10;
    o.frames = mode && LL_TEST_CAN_RESERVE ? LLADD_FRAMES_RESERVED : LLADD_FRAMES_HEAP;
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
    if (write(w->fd, &a, sizeof a) != (ssize_t)sizeof a) /* atomic, as shorter than PIPE_BUF */
        _exit(4);
}

static void change(const struct work *w, struct lladd_txn *txn, uint32_t n)
{
    lladd_savepoint_id sp;
    CHILD(cell_add(txn, cell_of(w->pages[0], w->index), 1));
    CHILD(lladd_savepoint(txn, &sp));
    CHILD(cell_bump(txn, cell_of(w->pages[2], 40 + w->index), 77));
    CHILD(lladd_rollback_to(txn, sp));
    CHILD(cell_add(txn, cell_of(w->pages[1 + n % (PAGES - 1)], w->index), n));
    CHILD(cells_transfer(txn, cell_of(w->pages[0], 8 + w->index),
                         cell_of(w->pages[0], 16 + w->index), n));
}

static void *child_worker(void *arg)
{
    struct work *w = arg;
    lladd_lsn window[ASYNC_WINDOW] = {{0}};
    for (uint32_t n = w->n + 1;; n++) {
        struct lladd_txn *txn;
        CHILD(lladd_begin(w->db, NULL, &txn, NULL));
        change(w, txn, n);
        if (n % 5 == 0) { /* makes changes in another transaction, and aborts it */
            struct lladd_txn *not_this;
            CHILD(lladd_begin(w->db, NULL, &not_this, NULL));
            CHILD(cell_add(not_this, cell_of(w->pages[3], 50 + w->index), 1000));
            CHILD(cell_bump(not_this, cell_of(w->pages[4], 50 + w->index), 1000));
            CHILD(lladd_abort(not_this));
        }
        if (w->mode == 0) {
            CHILD(lladd_commit(txn));
            acknowledge(w, n);
            continue;
        }
        CHILD(lladd_commit_async(txn, &window[n % ASYNC_WINDOW]));
        lladd_lsn oldest = window[(n + 1) % ASYNC_WINDOW];
        if (n - w->n >= ASYNC_WINDOW) {
            CHILD(lladd_wait_durable(w->db, oldest, NULL));
            acknowledge(w, n + 1 - ASYNC_WINDOW);
        }
    }
    return NULL;
}

/* The arguments: "child", directory, mode, file descriptor of the pipe. */
static int child(char **argv)
{
    unsigned mode = (unsigned)atoi(argv[3]);
    struct lladd_options o = options_for(mode);
    struct lladd_db *db;
    struct lladd_txn *loser;
    struct work w[WORKERS];
    struct lladd_thread threads[WORKERS] = {0};
    memset(w, 0, sizeof w);
    CHILD(lladd_open(argv[2], &o, &db, NULL));
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i].db = db;
        w[i].index = i;
        w[i].mode = mode;
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
    return 5; /* not reached */
}

/* ---- the parent -------------------------------------------------------------------------- */

static void make(const char *dir, unsigned mode)
{
    struct lladd_options o = options_for(mode);
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

/* Starts a child, and kills it when `count` acknowledgements have come; acked[w] is the newest one.
 */
static void run_and_kill(const char *dir, unsigned mode, uint64_t count, uint32_t *acked)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char mode_text[8], fd_text[16];
        close(fds[0]);
        snprintf(mode_text, sizeof mode_text, "%u", mode);
        snprintf(fd_text, sizeof fd_text, "%d", fds[1]);
        execl("/proc/self/exe", "test_kill", "child", dir, mode_text, fd_text, (char *)NULL);
        _exit(6);
    }
    close(fds[1]);
    struct ack a;
    for (uint64_t seen = 0; seen < count; seen++) {
        ssize_t n = read(fds[0], &a, sizeof a);
        ck_assert_msg(n == (ssize_t)sizeof a, "the child has ended by itself");
        acked[a.worker] = a.n;
    }
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (read(fds[0], &a, sizeof a) ==
           (ssize_t)sizeof a) /* acknowledgements from before it died count */
        acked[a.worker] = a.n;
    close(fds[0]);
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
static void check_all(const char *dir, unsigned mode, uint32_t *acked)
{
    struct lladd_options o = options_for(mode);
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
        acked[w] = check_worker(db, pages, w, mode, acked[w]);
    for (unsigned i = 0; i < PAGES; i++)
        ck_assert_uint_eq(cell_get(db, cell_of(pages[i], 60)), 0);
    lladd_db_kill(db); /* so that the next child recovers again */
    lladd_options_release(&o);
}

START_TEST(acknowledged_transactions_survive_kill_9)
{
    char *dir = temp_dir_new();
    uint64_t seed = (uint64_t)_i + 1;
    uint32_t acked[WORKERS] = {0};
    unsigned rounds = getenv("LLADD_NIGHTLY") ? 200 : 8;
    make(dir, (unsigned)_i);
    for (unsigned round = 0; round < rounds; round++) {
        run_and_kill(dir, (unsigned)_i, 1 + seeded_next(&seed) % 300, acked);
        check_all(dir, (unsigned)_i, acked);
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
    tcase_add_loop_test(tc, acknowledged_transactions_survive_kill_9, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
