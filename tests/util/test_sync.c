/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mutex excludes other threads, and knows its owner and its rank. Conditions wake and time out. A
 * thread can sleep on a word without losing a wake-up. Threads start, take no signals, and are
 * joined. Three mistakes stop debug builds: locking a mutex out of the order of ranks, a second
 * lock by the owner, and an unlock by another thread.
 */
#include "support/fixtures.h"

#include <check.h>
#include <lladd/error.h>
#include <lladd/sync.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 20000 };

static struct lladd_mutex low, high;

static void setup(void)
{
    ck_assert_int_eq(lladd_mutex_init(&low, LLADD_RANK_LOG, "low"), 0);
    ck_assert_int_eq(lladd_mutex_init(&high, LLADD_RANK_DEVICE, "high"), 0);
}

static void teardown(void)
{
    lladd_mutex_destroy(&low);
    lladd_mutex_destroy(&high);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void start_all(struct lladd_thread *threads, void *(*fn)(void *), void *arg)
{
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], fn, arg), 0);
}

static void join_all(struct lladd_thread *threads)
{
    for (int i = 0; i < THREADS; i++)
        lladd_thread_join(&threads[i]);
}

/* ---- mutexes ---- */

static void *add_under_mutex(void *arg)
{
    uint64_t *plain = arg; /* not atomic, because the mutex is tested */
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 != 0 || !lladd_mutex_trylock(&low))
            lladd_mutex_lock(&low);
        (*plain)++;
        lladd_mutex_unlock(&low);
    }
    return NULL;
}

START_TEST(mutex_excludes)
{
    struct lladd_thread threads[THREADS];
    uint64_t sum = 0;
    start_all(threads, add_under_mutex, &sum);
    join_all(threads);
    ck_assert_uint_eq(sum, (uint64_t)THREADS * ROUNDS);
}
END_TEST

static void *try_low(void *arg)
{
    bool *got = arg;
    *got = lladd_mutex_trylock(&low);
    if (*got)
        lladd_mutex_unlock(&low);
    return NULL;
}

START_TEST(trylock_does_not_wait)
{
    struct lladd_thread t;
    bool got = true;
    lladd_mutex_lock(&low);
    ck_assert_int_eq(lladd_thread_start(&t, try_low, &got), 0);
    lladd_thread_join(&t);
    ck_assert(!got);
    lladd_mutex_unlock(&low);
    ck_assert_int_eq(lladd_thread_start(&t, try_low, &got), 0);
    lladd_thread_join(&t);
    ck_assert(got);
}
END_TEST

START_TEST(ranks_in_order_out_of_order_release)
{
    lladd_mutex_lock(&low);
    lladd_mutex_lock(&high);
    lladd_mutex_unlock(&low);
    ck_assert(lladd_mutex_mine(&high));
    lladd_mutex_unlock(&high);
    lladd_mutex_lock(&high);
    ck_assert(lladd_mutex_trylock(&low)); /* a trylock never waits, so it may be out of order */
    lladd_mutex_unlock(&high);
    lladd_mutex_unlock(&low);
    lladd_mutex_lock(&low);
    lladd_mutex_unlock(&low);
}
END_TEST

#ifdef LLADD_DEBUG
static void lock_downwards(void *arg)
{
    (void)arg;
    lladd_mutex_lock(&high);
    lladd_mutex_lock(&low);
}

static void lock_equal(void *arg)
{
    struct lladd_mutex other;
    (void)arg;
    if (lladd_mutex_init(&other, LLADD_RANK_LOG, "other") != 0)
        return;
    lladd_mutex_lock(&low);
    lladd_mutex_lock(&other);
}

static void lock_below_a_trylock(void *arg)
{
    (void)arg;
    lladd_mutex_lock(&low);
    if (lladd_mutex_trylock(&high)) {
        struct lladd_mutex between;
        if (lladd_mutex_init(&between, LLADD_RANK_LOG_SEGMENTS, "between") == 0)
            lladd_mutex_lock(&between);
    }
}

static void lock_twice(void *arg)
{
    (void)arg;
    lladd_mutex_lock(&low);
    lladd_mutex_lock(&low);
}

static void unlock_what_is_not_held(void *arg)
{
    (void)arg;
    lladd_mutex_unlock(&low);
}

static void wait_below_another(void *arg)
{
    struct lladd_cond c;
    (void)arg;
    if (lladd_cond_init(&c) != 0)
        return;
    lladd_mutex_lock(&low);
    lladd_mutex_lock(&high);
    (void)lladd_cond_wait_for(&c, &low, 1);
}

static void destroy_held(void *arg)
{
    (void)arg;
    lladd_mutex_lock(&low);
    lladd_mutex_destroy(&low);
}

START_TEST(mistakes_stop_debug_builds)
{
    ck_assert(dies_saying(lock_downwards, NULL, "rank_allowed"));
    ck_assert(dies_saying(lock_equal, NULL, "rank_allowed"));
    ck_assert(dies_saying(lock_below_a_trylock, NULL, "rank_allowed"));
    ck_assert(dies_saying(lock_twice, NULL, "lladd_mutex_mine"));
    ck_assert(dies_saying(unlock_what_is_not_held, NULL, "lladd_mutex_mine"));
    ck_assert(dies_saying(wait_below_another, NULL, "rank_allowed"));
    ck_assert(dies_saying(destroy_held, NULL, "held"));
}
END_TEST

static void *ask_whose(void *arg)
{
    *(bool *)arg = lladd_mutex_mine(&low);
    return NULL;
}

START_TEST(owner_is_known)
{
    struct lladd_thread t;
    bool theirs = true;
    ck_assert(!lladd_mutex_mine(&low));
    lladd_mutex_lock(&low);
    ck_assert(lladd_mutex_mine(&low));
    ck_assert(!lladd_mutex_mine(&high));
    ck_assert_int_eq(lladd_thread_start(&t, ask_whose, &theirs), 0);
    lladd_thread_join(&t);
    ck_assert(!theirs);
    lladd_mutex_unlock(&low);
    ck_assert(!lladd_mutex_mine(&low));
}
END_TEST
#endif

/* ---- conditions ---- */

struct turns {
    struct lladd_cond changed;
    uint64_t turn;
};

/* Each thread waits for its turn. A lost wake-up would stop the round for ever. */
static void *take_turns(void *arg)
{
    struct turns *t = arg;
    lladd_mutex_lock(&low);
    uint64_t me = t->turn++;
    lladd_cond_broadcast(&t->changed);
    while (t->turn < THREADS)
        lladd_cond_wait(&t->changed, &low);
    for (uint64_t round = 1; round <= 200; round++) {
        while (t->turn != round * THREADS + me)
            lladd_cond_wait(&t->changed, &low);
        t->turn++;
        lladd_cond_broadcast(&t->changed);
    }
    lladd_mutex_unlock(&low);
    return NULL;
}

START_TEST(conditions_wake)
{
    struct lladd_thread threads[THREADS];
    struct turns t = {.turn = 0};
    ck_assert_int_eq(lladd_cond_init(&t.changed), 0);
    start_all(threads, take_turns, &t);
    join_all(threads);
    ck_assert_uint_eq(t.turn, 201 * THREADS);
    lladd_cond_destroy(&t.changed);
}
END_TEST

START_TEST(conditions_time_out)
{
    struct lladd_cond c;
    ck_assert_int_eq(lladd_cond_init(&c), 0);
    lladd_mutex_lock(&low);
    uint64_t before = now_ns();
    while (lladd_cond_wait_for(&c, &low, 5000000)) {
    }
    ck_assert_uint_ge(now_ns() - before, 5000000);
    ck_assert(lladd_mutex_mine(&low));
    lladd_mutex_unlock(&low);
    lladd_cond_destroy(&c);
}
END_TEST

struct bell {
    struct lladd_cond c;
    bool rung;
};

static void *ring(void *arg)
{
    struct bell *b = arg;
    lladd_mutex_lock(&low);
    b->rung = true;
    lladd_cond_signal(&b->c);
    lladd_mutex_unlock(&low);
    return NULL;
}

/* A wait "for ever" in nanoseconds must not wrap around into the past. */
START_TEST(conditions_with_a_long_time)
{
    struct lladd_thread t;
    struct bell b = {.rung = false};
    ck_assert_int_eq(lladd_cond_init(&b.c), 0);
    lladd_mutex_lock(&low);
    ck_assert_int_eq(lladd_thread_start(&t, ring, &b), 0);
    while (!b.rung)
        ck_assert(lladd_cond_wait_for(&b.c, &low, UINT64_MAX));
    lladd_mutex_unlock(&low);
    lladd_thread_join(&t);
    lladd_cond_destroy(&b.c);
}
END_TEST

/* ---- words ---- */

struct ping {
    uint32_t word;
    uint64_t passes;
};

static void pass_it(struct ping *p, uint32_t mine)
{
    for (int i = 0; i < 2000; i++) {
        uint32_t seen;
        while ((seen = lladd_atomic_load32(&p->word)) % 2 != mine)
            lladd_word_wait(&p->word, seen, mine ? 1 : 2, 0);
        p->passes++; /* not atomic: only the thread that has the turn changes it */
        lladd_atomic_store32(&p->word, seen + 1);
        lladd_word_wake(&p->word, 1, mine ? 2 : 1);
    }
}

static void *pong(void *arg)
{
    pass_it(arg, 1);
    return NULL;
}

START_TEST(words_wake_by_their_bits)
{
    struct lladd_thread t;
    struct ping p = {0, 0};
    ck_assert_int_eq(lladd_thread_start(&t, pong, &p), 0);
    pass_it(&p, 0);
    lladd_thread_join(&t);
    ck_assert_uint_eq(p.passes, 4000);
    ck_assert_uint_eq(lladd_atomic_load32(&p.word), 4000);
}
END_TEST

START_TEST(words_return_at_once_or_in_time)
{
    uint32_t word = 5;
    lladd_word_wait(&word, 4, 1, 0); /* the word has another value, so the call must not sleep */
    uint64_t before = now_ns();
    while (now_ns() - before < 3000000)
        lladd_word_wait(&word, 5, 1, 3000000);
    lladd_word_wake(&word, 1, 1); /* no thread is asleep */
}
END_TEST

/* ---- atomics ---- */

static void *count_up(void *arg)
{
    uint64_t *p = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        lladd_atomic_add64(&p[0], 1);
        uint64_t seen = lladd_atomic_load64_relaxed(&p[1]);
        while (!lladd_atomic_cas64(&p[1], &seen, seen + 1))
            lladd_cpu_relax();
        lladd_atomic_max64(&p[2], i);
        lladd_atomic_sub64(&p[3], 1);
    }
    return NULL;
}

START_TEST(atomics_lose_nothing)
{
    struct lladd_thread threads[THREADS];
    uint64_t p[4] = {0, 0, 0, (uint64_t)THREADS * ROUNDS};
    start_all(threads, count_up, p);
    join_all(threads);
    ck_assert_uint_eq(p[0], (uint64_t)THREADS * ROUNDS);
    ck_assert_uint_eq(p[1], (uint64_t)THREADS * ROUNDS);
    ck_assert_uint_eq(p[2], ROUNDS - 1);
    ck_assert_uint_eq(p[3], 0);
    lladd_atomic_max64(&p[2], 5);
    ck_assert_uint_eq(p[2], ROUNDS - 1);

    uint32_t w = 1, expected = 2;
    ck_assert(!lladd_atomic_cas32(&w, &expected, 9));
    ck_assert_uint_eq(expected, 1);
    ck_assert(lladd_atomic_cas32(&w, &expected, 9));
    ck_assert_uint_eq(lladd_atomic_add32(&w, 3), 9);
    ck_assert_uint_eq(lladd_atomic_load32(&w), 12);
}
END_TEST

/* ---- threads ---- */

static void *blocked_signals(void *arg)
{
    sigset_t set;
    if (pthread_sigmask(SIG_SETMASK, NULL, &set) == 0)
        *(bool *)arg = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1;
    lladd_yield();
    return NULL;
}

START_TEST(threads_take_no_signals)
{
    struct lladd_thread t;
    sigset_t before, after;
    bool blocked = false;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ck_assert_int_eq(lladd_thread_start(&t, blocked_signals, &blocked), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    lladd_thread_join(&t);
    ck_assert(blocked);
    ck_assert_int_eq(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    lladd_thread_join(&t); /* a second time does nothing */
    struct lladd_thread never = {.started = false};
    lladd_thread_join(&never);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sync");
    TCase *tc = tcase_create("sync");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, mutex_excludes);
    tcase_add_test(tc, trylock_does_not_wait);
    tcase_add_test(tc, ranks_in_order_out_of_order_release);
#ifdef LLADD_DEBUG
    tcase_add_test(tc, mistakes_stop_debug_builds);
    tcase_add_test(tc, owner_is_known);
#endif
    tcase_add_test(tc, conditions_wake);
    tcase_add_test(tc, conditions_time_out);
    tcase_add_test(tc, conditions_with_a_long_time);
    tcase_add_test(tc, words_wake_by_their_bits);
    tcase_add_test(tc, words_return_at_once_or_in_time);
    tcase_add_test(tc, atomics_lose_nothing);
    tcase_add_test(tc, threads_take_no_signals);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
