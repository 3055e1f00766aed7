/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads. Each LSN is handed out once, without holes. Every record is read back whole.
 * Commits share groups. No thread stays asleep. A thread that waits for space gets the space. A
 * poison reaches every thread. Readers may look at the ring while it is reused. Run under TSan as
 * well.
 */
#include "log_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 8 };

static struct fixture f;

static void setup(void)
{
    fixture_init(&f);
    ll_env_init(&f.env, NULL, NULL, true); /* real time and memory, and a worker */
}

static void teardown(void)
{
    fixture_free(&f);
}

/* ---- helpers ---- */

struct worker {
    unsigned id, rounds;
    int mode;
    int rc;
    struct lladd_error err;
    lladd_lsn *lsns;
    uint64_t durable_at_end;
    struct lladd_thread thread;
};

enum { COMMIT = 1, RELAXED = 2, READ = 4, TRIM = 8, LARGE = 16 };

/* Fills a payload that identifies its thread. */
static size_t fill(unsigned char *bytes, unsigned id, unsigned round, size_t most)
{
    uint64_t seed = (uint64_t)id << 32 | round;
    size_t len = 16 + (size_t)(seeded_next(&seed) % (most - 16));
    lladd_put64(bytes, id);
    lladd_put64(bytes + 8, round);
    seeded_fill((uint64_t)id << 32 | round, bytes + 16, len - 16);
    return len;
}

static size_t longest(void)
{
    return f.cfg.ring_bytes < 32768 ? f.cfg.ring_bytes / 8 : 4096;
}

static void check_payload(const struct ll_record *rec, unsigned *id, unsigned *round)
{
    unsigned char want[4096];
    ck_assert_uint_ge(rec->redo.len, 16);
    *id = (unsigned)lladd_get64(rec->redo.data);
    *round = (unsigned)lladd_get64((const unsigned char *)rec->redo.data + 8);
    size_t len = fill(want, *id, *round, longest());
    ck_assert_uint_eq(rec->redo.len, len);
    ck_assert_mem_eq(rec->redo.data, want, len);
}

static int append(struct worker *w, struct ll_credit *credit, unsigned round)
{
    unsigned char bytes[4096];
    size_t len = fill(bytes, w->id, round, longest());
    struct ll_record rec = {.kind = LL_REC_NOTE, .page = LLADD_NO_PAGE, .redo = {bytes, len}};
    if (round > 0) {
        rec.prev = w->lsns[round - 1];
        rec.txn = w->lsns[0];
    }
    size_t want = ll_record_bound(len, 0);
    if (w->mode & LARGE && (w->id + round) % 3)
        want = ll_log_credit_of_ring(f.cfg.ring_bytes);
    int rc = ll_log_credit(f.log, credit, want, &w->err);
    if (rc)
        return rc;
    ll_log_reserve(f.log, credit, &rec, true);
    ll_log_publish(f.log, &rec);
    ll_log_credit_rests(credit);
    w->lsns[round] = rec.lsn;
    return 0;
}

/* Reads back the thread's newest records, up to four, as a rollback does. */
static void read_back(struct worker *w, struct ll_log_cursor *c, unsigned upto)
{
    struct ll_record rec;
    unsigned id, round;
    for (unsigned back = 0; back < 4 && back <= upto; back++) {
        int rc = ll_log_cursor_read(c, w->lsns[upto - back], &rec, &w->err);
        ck_assert_msg(rc == 0, "%s", w->err.message);
        check_payload(&rec, &id, &round);
        ck_assert_uint_eq(id, w->id);
        ck_assert_uint_eq(round, upto - back);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct ll_credit credit = {0};
    struct ll_log_cursor *c = NULL;
    if (w->mode & READ)
        ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    for (unsigned i = 0; i < w->rounds && w->rc == 0; i++) {
        w->rc = append(w, &credit, i);
        if (w->rc == 0 && (w->mode & COMMIT) && (i + w->id) % 3 != 1) {
            w->rc = ll_log_force(f.log, w->lsns[i], &w->err);
            if (w->rc == 0)
                ck_assert_uint_gt(ll_log_durable(f.log).v, w->lsns[i].v);
        }
        if (w->rc == 0 && (w->mode & RELAXED) && (i + w->id) % 4 == 1) {
            w->rc = ll_log_write(f.log, w->lsns[i], &w->err);
            if (w->rc == 0)
                ck_assert_uint_gt(ll_log_written(f.log).v, w->lsns[i].v);
        }
        if (w->rc == 0 && c && i % 5 == 0)
            read_back(w, c, i);
        if (w->mode & TRIM)
            ll_log_credit_trim(f.log, &credit);
    }
    ll_log_credit_return(f.log, &credit);
    ll_log_cursor_close(c);
    return NULL;
}

static struct worker workers[THREADS];

static void start_workers(int mode, unsigned rounds)
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.id = i, .rounds = rounds, .mode = mode, .err = LLADD_ERROR_INIT};
        workers[i].lsns = calloc(rounds, sizeof(lladd_lsn));
        ck_assert_ptr_nonnull(workers[i].lsns);
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, work, &workers[i]), 0);
    }
}

static void join_workers(int rc)
{
    for (unsigned i = 0; i < THREADS; i++) {
        lladd_thread_join(&workers[i].thread);
        ck_assert_msg(workers[i].rc == rc, "%d: %s", workers[i].rc, workers[i].err.message);
    }
}

static void free_workers(void)
{
    for (unsigned i = 0; i < THREADS; i++)
        free(workers[i].lsns);
}

struct tally {
    unsigned next[THREADS];
    uint64_t end;
};

static int count(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct tally *t = ctx;
    unsigned id, round;
    (void)err;
    ck_assert_uint_eq(rec->lsn.v, t->end); /* no holes */
    t->end += rec->size;
    if (rec->kind == LL_REC_SEAL)
        return 0;
    check_payload(rec, &id, &round);
    ck_assert_uint_eq(round, t->next[id]++); /* in the order of the thread's rounds */
    ck_assert_uint_eq(rec->lsn.v, workers[id].lsns[round].v);
    return 0;
}

/* Asserts that each record of the threads is in the log, once. */
static void check_log(unsigned rounds)
{
    struct tally t = {.end = 8};
    stop(&f);
    f.start.segment.v = 0;
    f.start.clean = false;
    must(&f, ll_log_open(&f.cfg, &f.start, &f.log, &f.err));
    must(&f, ll_log_scan(f.log, count, &t, &f.err));
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_uint_eq(t.next[i], rounds);
    ck_assert_uint_eq(t.end, f.start.end.v);
}

/* ---- cases ---- */

/* Rings of 4 KiB, in which threads wait for space, of 16 KiB and of 1 MiB. */
START_TEST(appends)
{
    const uint64_t rings[] = {4096, 16384, 1 << 20};
    f.cfg.ring_bytes = rings[_i];
    f.cfg.segment_max = 65536;
    fixture_create(&f);
    start_workers(TRIM | READ, 400);
    join_workers(0);
    check_log(400);
    free_workers();
}
END_TEST

START_TEST(commits)
{
    struct ll_log_stats stats;
    f.cfg.ring_bytes = 65536;
    f.cfg.segment_max = 65536;
    fixture_create(&f);
    start_workers(COMMIT | TRIM, 200);
    join_workers(0);
    ll_log_stats(f.log, &stats);
    ck_assert_uint_le(stats.groups, stats.records);
    check_log(200);
    free_workers();
}
END_TEST

/* A clock that advances a millisecond at each reading. So the leader of a group finds that yielding
 * takes too long. Then the leader sleeps until the other committers have come, or until its time is
 * over. */
static uint64_t strange_now(void *ctx)
{
    (void)ctx;
    static uint64_t now;
    return lladd_atomic_add64(&now, 1000000);
}

START_TEST(commits_by_a_strange_clock)
{
    f.env.world.now_ns = strange_now;
    f.cfg.ring_bytes = 65536;
    f.cfg.segment_max = 65536;
    fixture_create(&f);
    start_workers(COMMIT | TRIM, 300);
    join_workers(0);
    check_log(300);
    free_workers();
}
END_TEST

/* Threads force, write and wait for space at the same time, in a small ring. */
START_TEST(all_calls_at_once)
{
    f.cfg.ring_bytes = 8192;
    f.cfg.segment_max = 16384;
    fixture_create(&f);
    start_workers(COMMIT | RELAXED | READ | TRIM, 250);
    join_workers(0);
    check_log(250);
    free_workers();
}
END_TEST

/* Two of three requests are for the largest credit. Threads at rest may still hold credit that they
 * did not use. */
START_TEST(the_largest_credits_of_many)
{
    f.cfg.ring_bytes = _i ? 65536 : 4096;
    f.cfg.segment_max = 65536;
    fixture_create(&f);
    start_workers(COMMIT | TRIM | LARGE, 200);
    join_workers(0);
    check_log(200);
    free_workers();
}
END_TEST

/* Commits on files: a sync takes time there, so groups have several members. */
START_TEST(commits_on_files)
{
    struct lladd_device *dev, *memory = f.cfg.dev;
    char *dir = temp_dir_new();
    struct ll_log_stats stats;
    must(&f, lladd_device_posix(dir, false, &dev, &f.err));
    f.cfg.dev = dev;
    f.cfg.segment_min = 1 << 20;
    f.cfg.segment_max = 1 << 20;
    f.cfg.ring_bytes = 16384;
    fixture_create(&f);
    start_workers(COMMIT | RELAXED, 150);
    join_workers(0);
    ll_log_stats(f.log, &stats);
    ck_assert_uint_lt(stats.groups, THREADS * 100);
    check_log(150);
    free_workers();
    ll_log_close(f.log);
    f.log = NULL;
    lladd_device_close(dev);
    temp_dir_remove(dir);
    f.cfg.dev = memory;
}
END_TEST

/* A write fails while all threads work. Every thread gets the error, and none stays asleep. */
START_TEST(poison)
{
    f.cfg.ring_bytes = 8192;
    f.cfg.segment_max = 16384;
    fixture_create(&f);
    f.env.world.ctx = f.world.world.ctx;
    f.env.world.point = f.world.world.point;
    test_world_fail_at(&f.world, _i % 2 ? "log.group.before_sync" : "log.group.before_write",
                       50 + 7 * (uint64_t)_i, EIO);
    start_workers(COMMIT | RELAXED | TRIM, 100000);
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&workers[i].thread);
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(workers[i].rc, LLADD_WRITE_FAILED);
        ck_assert_str_eq(workers[i].err.message, workers[0].err.message);
    }
    ck_assert(ll_poisoned(&f.poison));
    free_workers();
}
END_TEST

/* Truncation and reuse of segments, in parallel with appends and a reader that follows the log. */
static uint64_t stop_follower, followed;

static void *follow(void *arg)
{
    struct worker *w = arg;
    struct ll_log_cursor *c;
    struct ll_record rec;
    unsigned id, round;
    uint64_t last = 0;
    ck_assert_int_eq(ll_log_cursor_open(f.log, &c), 0);
    while (!lladd_atomic_load64(&stop_follower)) {
        int rc = last ? ll_log_cursor_next(c, &rec, &w->err)
                      : ll_log_cursor_seek(c, ll_log_oldest(f.log), &rec, &w->err);
        if (rc == 0) {
            ck_assert_uint_gt(rec.lsn.v, last);
            last = rec.lsn.v;
            if (rec.kind == LL_REC_NOTE)
                check_payload(&rec, &id, &round);
            lladd_atomic_add64(&followed, 1);
        } else if (rc == LLADD_OUT_OF_RANGE) {
            last = 0; /* truncated in the meantime */
        } else {
            ck_assert_msg(rc == LLADD_END, "%d %s", rc, w->err.message);
            lladd_yield();
        }
    }
    ll_log_cursor_close(c);
    return NULL;
}

START_TEST(follower)
{
    struct worker reader = {.err = LLADD_ERROR_INIT};
    f.cfg.ring_bytes = 16384;
    f.cfg.segment_max = 16384;
    fixture_create(&f);
    lladd_atomic_store64(&stop_follower, 0);
    lladd_atomic_store64(&followed, 0);
    ck_assert_int_eq(lladd_thread_start(&reader.thread, follow, &reader), 0);
    start_workers(COMMIT | TRIM, 300);
    bool running = true;
    while (running) {
        must(&f, ll_log_truncate(f.log, ll_log_durable(f.log), &f.err));
        lladd_yield();
        running = ll_log_tail(f.log).v < 300 * THREADS * 600;
    }
    join_workers(0);
    while (lladd_atomic_load64(&followed) == 0) /* on a busy machine the follower may begin only
                                                 * now */
        lladd_yield();
    lladd_atomic_store64(&stop_follower, 1);
    lladd_thread_join(&reader.thread);
    free_workers();
}
END_TEST

/* ---- which thread waits for which ---- */

static void *force_last(void *arg)
{
    struct worker *w = arg;
    w->rc = ll_log_force(f.log, w->lsns[0], &w->err);
    return NULL;
}

static void *take_half(void *arg)
{
    struct worker *w = arg;
    struct ll_credit credit = {0};
    w->rc = ll_log_credit(f.log, &credit, 8192, &w->err);
    ll_log_credit_return(f.log, &credit);
    return NULL;
}

static void await_waiter(void)
{
    struct ll_log_stats stats;
    do {
        lladd_yield();
        ll_log_stats(f.log, &stats);
    } while (stats.waits_for_space == 0);
}

/* The main thread's credit leaves too little of the ring, so the other thread waits until that
 * credit is returned (_i 0) or used. */
START_TEST(a_thread_waits_for_the_credit_of_another)
{
    struct worker w = {.err = LLADD_ERROR_INIT};
    struct ll_credit credit = {0};
    fixture_create(&f); /* a ring of 16 KiB */
    must(&f, ll_log_credit(f.log, &credit, 8192, &f.err));
    ll_log_credit_rests(&credit);
    ck_assert_int_eq(lladd_thread_start(&w.thread, take_half, &w), 0);
    await_waiter();
    if (_i == 0) {
        ll_log_credit_return(f.log, &credit);
    } else {
        while (credit.bytes >= 1000) {
            unsigned char bytes[900] = {0};
            struct ll_record rec = {
                .kind = LL_REC_NOTE, .page = LLADD_NO_PAGE, .redo = {bytes, sizeof bytes}};
            ll_log_reserve(f.log, &credit, &rec, false);
            ll_log_publish(f.log, &rec);
        }
    }
    lladd_thread_join(&w.thread);
    ck_assert_msg(w.rc == 0, "%s", w.err.message);
    ll_log_credit_return(f.log, &credit);
}
END_TEST

static void *wait_published(void *arg)
{
    struct worker *w = arg;
    ll_log_wait_published(f.log, w->lsns[0]);
    w->rc = 1;
    return NULL;
}

/* A force waits until an earlier reserved record is published, and so does a wait for
 * publication. */
START_TEST(waits_for_publication)
{
    struct worker w = {.err = LLADD_ERROR_INIT}, forcer = w;
    struct ll_credit credit = {0};
    struct ll_record first = {.kind = LL_REC_NOTE, .page = LLADD_NO_PAGE};
    fixture_create(&f);
    must(&f, ll_log_credit(f.log, &credit, ll_record_bound(0, 0), &f.err));
    ll_log_credit_rests(&credit);
    ll_log_reserve(f.log, &credit, &first, false);
    lladd_lsn last = put(&f, 10), tail = ll_log_tail(f.log);
    w.lsns = &tail;
    forcer.lsns = &last;
    ck_assert_int_eq(lladd_thread_start(&w.thread, wait_published, &w), 0);
    ck_assert_int_eq(lladd_thread_start(&forcer.thread, force_last, &forcer), 0);
    for (unsigned i = 0; i < 100; i++)
        lladd_yield();
    ck_assert_uint_eq(ll_log_written(f.log).v, 8);
    ck_assert_uint_eq(ll_log_durable(f.log).v, 8);
    ll_log_publish(f.log, &first);
    lladd_thread_join(&w.thread);
    lladd_thread_join(&forcer.thread);
    ck_assert_int_eq(w.rc, 1);
    ck_assert_int_eq(forcer.rc, 0);
    ck_assert_uint_gt(ll_log_durable(f.log).v, last.v);
    ll_log_credit_return(f.log, &credit);
}
END_TEST

/* While a group is being synced, two committers come. The one with a record in that group does not
 * wait for another; the other waits for the next group. */
START_TEST(groups_in_turn)
{
    struct worker a = {.err = LLADD_ERROR_INIT}, b = a, c = a;
    lladd_lsn la, lb, lc;
    ll_env_init(&f.env, NULL, &f.world.world, false);
    fixture_create(&f);
    la = put(&f, 10);
    lb = put(&f, 10);
    a.lsns = &la;
    b.lsns = &lb;
    c.lsns = &lc;
    test_world_stop_at(&f.world, "log.group.before_sync");
    ck_assert_int_eq(lladd_thread_start(&a.thread, force_last, &a), 0);
    ck_assert(test_world_await(&f.world, "log.group.before_sync", 1));
    lc = put(&f, 10);
    ck_assert_int_eq(lladd_thread_start(&b.thread, force_last, &b), 0);
    ck_assert_int_eq(lladd_thread_start(&c.thread, force_last, &c), 0);
    ck_assert_uint_eq(ll_log_durable(f.log).v, 8);
    test_world_release(&f.world, "log.group.before_sync");
    lladd_thread_join(&a.thread);
    lladd_thread_join(&b.thread);
    lladd_thread_join(&c.thread);
    ck_assert_int_eq(a.rc | b.rc | c.rc, 0);
    struct ll_log_stats stats;
    ll_log_stats(f.log, &stats);
    ck_assert_uint_eq(stats.groups, 2); /* one sync for a and b, and one for c */
}
END_TEST

static void *write_last(void *arg)
{
    struct worker *w = arg;
    w->rc = ll_log_write(f.log, w->lsns[0], &w->err);
    return NULL;
}

/* A thread writes and does not want a sync. It hands the write mutex to a committer that has come
 * meanwhile. */
START_TEST(a_writer_hands_its_mutex_to_a_committer)
{
    struct worker a = {.err = LLADD_ERROR_INIT}, b = a;
    ll_env_init(&f.env, NULL, &f.world.world, false);
    fixture_create(&f);
    lladd_lsn lsn = put(&f, 10);
    a.lsns = b.lsns = &lsn;
    test_world_stop_at(&f.world, "log.group.before_write");
    ck_assert_int_eq(lladd_thread_start(&a.thread, write_last, &a), 0);
    ck_assert(test_world_await(&f.world, "log.group.before_write", 1));
    ck_assert_int_eq(lladd_thread_start(&b.thread, force_last, &b), 0);
    while (lladd_atomic_load32(&f.log->word) != LL_LOG__FLIGHT) /* b leads group 0 */
        lladd_yield();
    test_world_release(&f.world, "log.group.before_write");
    lladd_thread_join(&a.thread);
    lladd_thread_join(&b.thread);
    ck_assert_int_eq(a.rc | b.rc, 0);
    ck_assert_uint_gt(ll_log_durable(f.log).v, lsn.v);
}
END_TEST

/* A thread that needs its record written, but not synced, waits for the write of another thread. It
 * returns before the sync of that write. */
START_TEST(writers_do_not_wait_for_syncs)
{
    struct worker a = {.err = LLADD_ERROR_INIT}, b = a;
    ll_env_init(&f.env, NULL, &f.world.world, false);
    fixture_create(&f);
    lladd_lsn lsn = put(&f, 10);
    a.lsns = b.lsns = &lsn;
    test_world_stop_at(&f.world, "log.group.before_write");
    test_world_stop_at(&f.world, "log.group.before_sync");
    ck_assert_int_eq(lladd_thread_start(&a.thread, force_last, &a), 0);
    ck_assert(test_world_await(&f.world, "log.group.before_write", 1));
    ck_assert_int_eq(lladd_thread_start(&b.thread, write_last, &b), 0);
    test_world_release(&f.world, "log.group.before_write");
    ck_assert(test_world_await(&f.world, "log.group.before_sync", 1));
    lladd_thread_join(&b.thread);
    ck_assert_int_eq(b.rc, 0);
    ck_assert_uint_eq(ll_log_durable(f.log).v, 8);
    test_world_release(&f.world, "log.group.before_sync");
    lladd_thread_join(&a.thread);
    ck_assert_int_eq(a.rc, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *t = tcase_create("threads");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, appends, 0, 3);
    tcase_add_test(t, commits);
    tcase_add_test(t, commits_by_a_strange_clock);
    tcase_add_test(t, all_calls_at_once);
    tcase_add_loop_test(t, the_largest_credits_of_many, 0, 2);
    tcase_add_test(t, commits_on_files);
    tcase_add_loop_test(t, poison, 0, 6);
    tcase_add_test(t, follower);
    tcase_add_loop_test(t, a_thread_waits_for_the_credit_of_another, 0, 2);
    tcase_add_test(t, waits_for_publication);
    tcase_add_test(t, groups_in_turn);
    tcase_add_test(t, a_writer_hands_its_mutex_to_a_committer);
    tcase_add_test(t, writers_do_not_wait_for_syncs);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
