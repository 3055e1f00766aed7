/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes with ranks, condition variables, threads, and sleeping on a word (THR-1).
 *
 * Every wait of the library for another thread is in this file, so that the simulator's scheduler
 * can decide which thread runs. In release builds the functions call their pthread and futex
 * counterparts.
 *
 * Ranks (debug builds). A thread that waits for a mutex must hold no mutex of the same or a higher
 * rank. If every thread obeys, waits for mutexes form no cycle, so mutexes cannot deadlock. Each
 * thread has a list of the mutexes that it holds, newest first, linked through `below`. A mutex may
 * be released in any order. trylock does not wait and is not checked. At the end of a wait for a
 * condition, the thread waits for the mutex again, so this mutex must have the highest rank of the
 * mutexes that the thread holds.
 *
 * Log credit (debug builds). A thread that asks for credit may wait for a thread that has credit in
 * hand (log/reserve.c). The ranks therefore divide the mutexes into two kinds: a thread may hold a
 * mutex of the first kind while it asks for credit, and may wait for a mutex of the second kind
 * while it has credit. No mutex is of both kinds. A thread with credit may sleep on a condition or
 * a word only to wait for pages, their I/O, and the log's writer. A thread that has latched a page
 * must not wait for a mutex with a rank below LLADD_RANK_PAGE.
 *
 * Ownership (debug builds). A thread that does not hold a mutex may read its `held` and `owner`,
 * too (lladd_mutex_mine in an assertion), so both members are accessed atomically. Only the owner
 * finds its own number in `owner`, so lladd_mutex_mine is exact.
 *
 * Schedules (instrumented builds). In a run (lladd/dst.h) threads are fibers of one OS thread, and
 * a fiber that would wait lets another fiber run. A fiber takes a mutex with trylock, because a
 * real wait would stop all fibers. Conditions and words are only addresses on which fibers sleep.
 *
 * Linux only: lladd_word_wait is a futex. The kernel compares the word itself, so a wake-up between
 * the caller's load of the word and its sleep is not lost.
 */
#include <lladd/sync.h>

#include "util/env.h"
#include "util/fibers.h"
#include "util/held.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- checks of debug builds ---- */

_Thread_local struct ll_held ll_held LL_HELD_MODEL;

#ifdef LLADD_DEBUG
/* May a thread that holds a mutex of this rank wait for log credit? If so, a thread with credit
 * must not wait for the mutex. */
static bool comes_before_credit(uint32_t rank)
{
    return rank < LLADD_RANK_COMMIT ||
           (rank >= LLADD_RANK_CATALOGUE && rank < LLADD_RANK_PAGE);
}

void ll_held_check_credit(void)
{
    LL_MISUSE(ll_held.credits == 0 || LLADD_PLANTED(LLADD_BUG_IMAGE_WAIT),
              "log credit is asked for with log credit in hand", "credit");
    LL_MISUSE(ll_held.pages == 0, "log credit is asked for with a page held", "credit");
    for (const struct lladd_mutex *h = ll_held.mutexes; h; h = h->below)
        LL_MISUSE(comes_before_credit(h->rank), "log credit is asked for with a mutex held",
                  h->name);
}

void ll_held_check_callbacks(void)
{
    for (const struct lladd_mutex *h = ll_held.mutexes; h; h = h->below)
        LL_MISUSE(h->rank >= LLADD_RANK_EXTENSION && h->rank < LLADD_RANK_DATABASE,
                  "callbacks of commits may run with a mutex of the library held", h->name);
    LL_MISUSE(ll_held.credits == 0, "callbacks of commits may run with log credit in hand",
              "credit");
}

/* May this thread wait for a mutex of this rank? The rank must be above the rank of every mutex
 * that the thread holds (except the mutex `except`), and the wait must not be part of a cycle of
 * waits for pages and credit. */
static bool rank_allowed(uint32_t rank, const struct lladd_mutex *except)
{
    for (const struct lladd_mutex *h = ll_held.mutexes; h; h = h->below) {
        if (h != except && h->rank >= rank)
            return false;
    }
    bool circle = ll_held.credits != 0 && comes_before_credit(rank) &&
                  !LLADD_PLANTED(LLADD_BUG_CREDIT_HELD);
    return !circle && (ll_held.pages == 0 || rank >= LLADD_RANK_PAGE);
}

static void check_before_lock(const struct lladd_mutex *m)
{
    LL_MISUSE(!lladd_mutex_mine(m), "a mutex is taken by the thread that has it", m->name);
    LL_MISUSE(rank_allowed(m->rank, NULL),
              "a mutex is taken that comes before another one, a page or the log credit that the "
              "thread has",
              m->name);
}

static void note_locked(struct lladd_mutex *m)
{
    LL_ASSERT(__atomic_load_n(&m->held, __ATOMIC_RELAXED) == 0);
    __atomic_store_n(&m->owner, lladd_thread_self(), __ATOMIC_RELAXED);
    __atomic_store_n(&m->held, 1, __ATOMIC_RELAXED);
    m->below = ll_held.mutexes;
    ll_held.mutexes = m;
}

static void note_unlock(struct lladd_mutex *m)
{
    LL_MISUSE(lladd_mutex_mine(m), "a mutex is released that the thread does not hold", m->name);
    struct lladd_mutex **place = &ll_held.mutexes;
    while (*place != m)
        place = &(*place)->below;
    *place = m->below;
    m->below = NULL;
    __atomic_store_n(&m->held, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&m->owner, 0, __ATOMIC_RELAXED);
}

static void check_before_wait(const struct lladd_mutex *m)
{
    LL_MISUSE(lladd_mutex_mine(m), "a condition is waited for without its mutex", m->name);
    LL_MISUSE(rank_allowed(m->rank, m),
              "a condition is waited for with a mutex, a page or log credit held that comes after "
              "its mutex",
              m->name);
    /* A thread with credit may wait for conditions of the buffer manager, the log and the device:
     * these waits are for pages and their I/O. */
    LL_MISUSE(ll_held.credits == 0 || (m->rank > LLADD_RANK_PAGE && m->rank < LLADD_RANK_LEAF),
              "a condition is waited for with log credit in hand", m->name);
}
#else
void ll_held_check_credit(void)
{
}

void ll_held_check_callbacks(void)
{
}

static inline void check_before_lock(const struct lladd_mutex *m)
{
    (void)m;
}

static inline void note_locked(struct lladd_mutex *m)
{
    (void)m;
}

static inline void note_unlock(struct lladd_mutex *m)
{
    (void)m;
}

static inline void check_before_wait(const struct lladd_mutex *m)
{
    (void)m;
}
#endif

bool lladd_mutex_mine(const struct lladd_mutex *m)
{
#ifdef LLADD_DEBUG
    return __atomic_load_n(&m->held, __ATOMIC_RELAXED) == 1 &&
           __atomic_load_n(&m->owner, __ATOMIC_RELAXED) == lladd_thread_self();
#else
    (void)m;
    return true;
#endif
}

/* ---- schedules ---- */

#ifdef LLADD_DST
#define POINT(why) lladd_dst_reach(why)

void ll_sync_swap_held(struct ll_held *from, const struct ll_held *to)
{
    *from = ll_held;
    ll_held = *to;
}
#else
#define POINT(why) ((void)0)
#endif

/* ---- mutexes ---- */

/* For a pthread function that returns 0 unless the caller has made a mistake. */
#define MUST(call) \
    do { \
        int must_rc = (call); \
        LL_ASSERT(must_rc == 0); \
        (void)must_rc; \
    } while (0)

int lladd_mutex_init(struct lladd_mutex *m, uint32_t rank, const char *name)
{
    /* Faster than pthread_mutex_init without attributes, and has the same effect. The result, which
     * is 0, is for ports to systems where a mutex needs memory. */
    *m = (struct lladd_mutex){.m = PTHREAD_MUTEX_INITIALIZER, .rank = rank, .name = name};
    return 0;
}

void lladd_mutex_destroy(struct lladd_mutex *m)
{
    LL_ASSERT(lladd_atomic_load32(&m->held) == 0);
    MUST(pthread_mutex_destroy(&m->m));
}

static void take(struct lladd_mutex *m)
{
    if (LL_SCHEDULED) {
        while (pthread_mutex_trylock(&m->m) != 0)
            (void)ll_fibers_sleep(LLADD_DST_LOCK, m, m->name, UINT32_MAX, 0);
        m->owner = lladd_thread_self();
    } else {
        MUST(pthread_mutex_lock(&m->m));
    }
}

static void give(struct lladd_mutex *m)
{
    if (LL_SCHEDULED)
        m->owner = 0;
    MUST(pthread_mutex_unlock(&m->m));
    if (LL_SCHEDULED)
        ll_fibers_wake(m, INT_MAX, UINT32_MAX); /* the woken fibers try again to take the mutex */
}

void lladd_mutex_lock(struct lladd_mutex *m)
{
    POINT(LLADD_DST_LOCK);
    check_before_lock(m);
    take(m);
    note_locked(m);
}

bool lladd_mutex_trylock(struct lladd_mutex *m)
{
    POINT(LLADD_DST_LOCK);
    if (pthread_mutex_trylock(&m->m) != 0)
        return false;
    if (LL_SCHEDULED)
        m->owner = lladd_thread_self();
    note_locked(m);
    return true;
}

void lladd_mutex_unlock(struct lladd_mutex *m)
{
    note_unlock(m);
    give(m);
    POINT(LLADD_DST_UNLOCK);
}

/* ---- conditions ---- */

/* The time on the monotonic clock `ns` nanoseconds from now, at most about 34 years. */
static struct timespec deadline(uint64_t ns)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* this clock exists on every Linux */
    uint64_t seconds = ns / 1000000000u;
    long nanos = t.tv_nsec + (long)(ns % 1000000000u);
    t.tv_sec += (time_t)(seconds < INT_MAX / 2 ? seconds : INT_MAX / 2);
    t.tv_sec += nanos / 1000000000;
    t.tv_nsec = nanos % 1000000000;
    return t;
}

int lladd_cond_init(struct lladd_cond *c)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0)
        return LLADD_NO_MEMORY;
    /* CLOCK_MONOTONIC, because the wall clock may jump. */
    int rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(&c->c, &attr);
    MUST(pthread_condattr_destroy(&attr));
    return rc == 0 ? 0 : LLADD_NO_MEMORY;
}

void lladd_cond_destroy(struct lladd_cond *c)
{
    MUST(pthread_cond_destroy(&c->c));
}

/* No other fiber runs between the release of the mutex and the sleep, so no signal is lost. */
static bool scheduled_wait(struct lladd_cond *c, struct lladd_mutex *m, uint64_t ns)
{
    give(m);
    bool signalled =
        LL_SCHEDULED && ll_fibers_sleep(LLADD_DST_WAIT, c, m->name, UINT32_MAX, ns);
    take(m);
    return signalled;
}

void lladd_cond_wait(struct lladd_cond *c, struct lladd_mutex *m)
{
    POINT(LLADD_DST_WAIT);
    check_before_wait(m);
    note_unlock(m);
    if (LL_SCHEDULED)
        (void)scheduled_wait(c, m, 0);
    else
        MUST(pthread_cond_wait(&c->c, &m->m));
    note_locked(m);
}

bool lladd_cond_wait_for(struct lladd_cond *c, struct lladd_mutex *m, uint64_t ns)
{
    if (LL_SCHEDULED) {
        POINT(LLADD_DST_WAIT);
        check_before_wait(m);
        note_unlock(m);
        bool signalled = scheduled_wait(c, m, ns ? ns : 1);
        note_locked(m);
        return signalled;
    }
    struct timespec until = deadline(ns);
    check_before_wait(m);
    note_unlock(m);
    int rc = pthread_cond_timedwait(&c->c, &m->m, &until);
    LL_ASSERT(rc == 0 || rc == ETIMEDOUT);
    note_locked(m);
    return rc == 0;
}

void lladd_cond_signal(struct lladd_cond *c)
{
    POINT(LLADD_DST_WAKE);
    if (LL_SCHEDULED)
        ll_fibers_wake(c, 1, UINT32_MAX);
    else
        MUST(pthread_cond_signal(&c->c));
}

void lladd_cond_broadcast(struct lladd_cond *c)
{
    POINT(LLADD_DST_WAKE);
    if (LL_SCHEDULED)
        ll_fibers_wake(c, INT_MAX, UINT32_MAX);
    else
        MUST(pthread_cond_broadcast(&c->c));
}

/* ---- threads ---- */

int lladd_thread_start(struct lladd_thread *thread, void *(*fn)(void *), void *arg)
{
    if (LL_SCHEDULED) {
        uint64_t number = 0;
        int started = ll_fibers_start(fn, arg, &number);
        thread->t = (pthread_t)(uintptr_t)number;
        thread->started = started == 0;
        return started;
    }
    sigset_t all, before;
    (void)sigfillset(&all);
    MUST(pthread_sigmask(SIG_SETMASK, &all, &before));
    int rc = pthread_create(&thread->t, NULL, fn, arg);
    MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
    thread->started = rc == 0;
    return rc == 0 ? 0 : LLADD_NO_THREAD;
}

void lladd_thread_join(struct lladd_thread *thread)
{
    if (!thread->started)
        return;
    if (LL_SCHEDULED)
        ll_fibers_join((uint64_t)(uintptr_t)thread->t);
    else
        MUST(pthread_join(thread->t, NULL));
    thread->started = false;
}

uint64_t lladd_thread_self(void)
{
    return LL_SCHEDULED ? ll_fibers_self() : (uint64_t)pthread_self();
}

void lladd_yield(void)
{
    if (LL_SCHEDULED)
        ll_fibers_yield();
    else
        (void)sched_yield(); /* cannot fail on Linux */
}

/* ---- sleeping on a word ---- */

/* On 32-bit systems the old call reads a 32-bit time, so a 64-bit time_t needs the new call. */
#if defined(SYS_futex_time64) && __SIZEOF_LONG__ < 8
#define FUTEX_CALL (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define FUTEX_CALL SYS_futex
#endif

void ll_word_wait_with_credit(const char *what, const uint32_t *word, uint32_t expected,
                              uint32_t bits, uint64_t ns)
{
    LL_ASSERT(bits != 0);
    if (LL_SCHEDULED) {
        POINT(LLADD_DST_WAIT);
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == expected)
            (void)ll_fibers_sleep(LLADD_DST_WAIT, word, what, bits, ns);
        return;
    }
    struct timespec until = {0, 0};
    if (ns != 0)
        until = deadline(ns);
    /* Whatever the result (woken, word differs, signal, timeout), the caller checks its condition
     * again. */
    (void)syscall(FUTEX_CALL, word, FUTEX_WAIT_BITSET_PRIVATE, expected, ns ? &until : NULL, NULL,
                  bits);
}

/* A sleep with log credit in hand is an error here. The waits that are allowed with credit call
 * ll_word_wait_with_credit instead. */
static void word_wait(const char *what, const uint32_t *word, uint32_t expected, uint32_t bits,
                      uint64_t ns)
{
    LL_MISUSE(ll_held.credits == 0 || LLADD_PLANTED(LLADD_BUG_IMAGE_WAIT),
              "a thread sleeps with log credit in hand", what ? what : "a word");
    ll_word_wait_with_credit(what, word, expected, bits, ns);
}

void lladd_word_wait(const uint32_t *word, uint32_t expected, uint32_t bits, uint64_t ns)
{
    word_wait(NULL, word, expected, bits, ns);
}

void lladd_word_wait_as(const char *what, const uint32_t *word, uint32_t expected, uint32_t bits,
                        uint64_t ns)
{
    word_wait(what, word, expected, bits, ns);
}

void lladd_word_wait_net(const char *what, const uint32_t *word, uint32_t expected, uint32_t bits,
                         uint64_t ns)
{
    word_wait(what, word, expected, bits, LL_SCHEDULED ? 0 : ns);
}

void lladd_word_wake(const uint32_t *word, int n, uint32_t bits)
{
    LL_ASSERT(bits != 0);
    if (LL_SCHEDULED) {
        POINT(LLADD_DST_WAKE);
        ll_fibers_wake(word, n, bits);
        return;
    }
    (void)syscall(FUTEX_CALL, word, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, bits);
}
