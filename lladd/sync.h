/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_SYNC_H
#define LLADD_SYNC_H
/**
 * @file
 * @brief Mutexes, condition variables, threads and atomic accesses: the library and its extensions
 * synchronise threads only with these functions (THR-1).
 *
 * Mutexes have ranks: a thread that holds a mutex may wait only for a mutex of a higher rank. Debug
 * builds (LLADD_DEBUG) check this rule and record the owner. Shared words are accessed with the
 * lladd_atomic_* functions, so that the simulator can switch threads at every access.
 * @ingroup util
 */
#include <lladd/dst.h>
#include <lladd/types.h>

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Ranks of the library's mutexes, in the order in which they may be taken. Extensions use
 *  LLADD_RANK_EXTENSION + n, below the rank of any mutex of the library. */
enum lladd_rank {
    LLADD_RANK_EXTENSION = 1000,
    LLADD_RANK_DATABASE = 2000,   /**< open, close, registries */
    LLADD_RANK_CHECKPOINT = 2100, /**< one checkpoint at a time */
    LLADD_RANK_COMMIT = 2200,     /**< commit order */
    LLADD_RANK_TXN_TABLE = 2300,
    LLADD_RANK_CATALOGUE = 2400,
    LLADD_RANK_PAGE = 3000, /**< page latches: a thread may hold several; they have no order among
                                 them */
    LLADD_RANK_BUFFER = 4000,
    LLADD_RANK_BUFFER_IO = 4100,
    LLADD_RANK_LOG = 5000,
    LLADD_RANK_LOG_SEGMENTS = 5100,
    LLADD_RANK_DEVICE = 6000,
    LLADD_RANK_LEAF = 9000
};

struct lladd_mutex {
    pthread_mutex_t m;
    const char *name;
    uint32_t rank;
    uint32_t held;  /**< debug builds: 1 while a thread holds the mutex */
    uint64_t owner; /**< debug builds and schedules (lladd/dst.h): the thread that holds the
                         mutex */
    /** Debug builds: the mutex that the thread took before this one and still holds. */
    struct lladd_mutex *below;
};

struct lladd_cond {
    pthread_cond_t c;
};

struct lladd_thread {
    pthread_t t;
    bool started;
};

/** Initialises a mutex. Returns 0 or LLADD_NO_MEMORY. `name` must live as long as the mutex. */
LLADD_API int lladd_mutex_init(struct lladd_mutex *, uint32_t rank, const char *name);
/** Destroys a mutex that no thread holds. */
LLADD_API void lladd_mutex_destroy(struct lladd_mutex *);
/** Locks. Debug builds stop a thread that holds a mutex of this or a higher rank (THR-1). */
LLADD_API void lladd_mutex_lock(struct lladd_mutex *);
/** Locks the mutex if no thread holds it; returns true if it has locked the mutex. Any rank is
 *  allowed, because the call never waits. */
LLADD_API bool lladd_mutex_trylock(struct lladd_mutex *);
/** Unlocks; the calling thread must hold the mutex. */
LLADD_API void lladd_mutex_unlock(struct lladd_mutex *);
/** Debug builds: true if the calling thread holds the mutex. Release builds: always true. */
LLADD_API bool lladd_mutex_mine(const struct lladd_mutex *);

/** Initialises a condition variable. Returns 0 or LLADD_NO_MEMORY. */
LLADD_API int lladd_cond_init(struct lladd_cond *);
/** Destroys a condition variable on which no thread waits. */
LLADD_API void lladd_cond_destroy(struct lladd_cond *);
/** Waits for a signal. The mutex must have the highest rank of all mutexes that the thread holds.
 *  May return without a signal. */
LLADD_API void lladd_cond_wait(struct lladd_cond *, struct lladd_mutex *);
/** Waits as lladd_cond_wait does, with a time limit: returns false if `ns` nanoseconds have passed
 *  without a signal. */
LLADD_API bool lladd_cond_wait_for(struct lladd_cond *, struct lladd_mutex *, uint64_t ns);
/** Wakes one waiting thread, if any thread waits. */
LLADD_API void lladd_cond_signal(struct lladd_cond *);
/** Wakes all waiting threads. */
LLADD_API void lladd_cond_broadcast(struct lladd_cond *);

/** Starts a thread, which blocks all signals. Returns 0 or LLADD_NO_THREAD. */
LLADD_API int lladd_thread_start(struct lladd_thread *, void *(*fn)(void *), void *arg);
/** Waits for the thread's end; does nothing if the thread was not started or has been joined. */
LLADD_API void lladd_thread_join(struct lladd_thread *);
/** Returns a number, not 0, that identifies the calling thread: while this thread lives, no other
 *  thread has the number. */
LLADD_API uint64_t lladd_thread_self(void);
/** Lets another thread run. */
LLADD_API void lladd_yield(void);

/** If *word == expected, sleeps until a thread calls lladd_word_wake for this word with at least
 *  one bit of `bits`, or until `ns` nanoseconds have passed (0: no limit). The call may return
 *  before either of these happens, so the caller must check the word again. */
LLADD_API void lladd_word_wait(const uint32_t *word, uint32_t expected, uint32_t bits, uint64_t ns);
/** Does the same as lladd_word_wait. `what`, a static string, names the wait in reports of
 *  deadlocks. */
LLADD_API void lladd_word_wait_as(const char *what, const uint32_t *word, uint32_t expected,
                                  uint32_t bits, uint64_t ns);
/** Does the same as lladd_word_wait_as, for a wait that may miss its wake-up, because the waking
 *  thread checks for sleepers without a memory fence. Then the time limit `ns` ends the wait. In a
 *  schedule (lladd/dst.h) no wait misses its wake-up: the limit is ignored, and a wait that only
 *  the limit would end is a deadlock. */
LLADD_API void lladd_word_wait_net(const char *what, const uint32_t *word, uint32_t expected,
                                   uint32_t bits, uint64_t ns);
/** Wakes at most `n` threads that sleep on the word. A thread is woken only if its `bits` have at
 *  least one bit in common with the `bits` of this call. */
LLADD_API void lladd_word_wake(const uint32_t *word, int n, uint32_t bits);

#ifdef LLADD_DST
/** Reaches a scheduling point, if the simulator's schedule switches threads at atomic accesses. */
static inline void lladd_atomic_point_(void)
{
    if (lladd_dst_entered && lladd_dst_entered->atomics)
        lladd_dst_reach(LLADD_DST_ATOMIC);
}
#else
#define lladd_atomic_point_() ((void)0)
#endif

/** Loads with acquire order. */
static inline uint32_t lladd_atomic_load32(const uint32_t *p)
{
    lladd_atomic_point_();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/** Stores with release order. */
static inline void lladd_atomic_store32(uint32_t *p, uint32_t v)
{
    lladd_atomic_point_();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/** Loads with acquire order. */
static inline uint64_t lladd_atomic_load64(const uint64_t *p)
{
    lladd_atomic_point_();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/** Stores with release order. */
static inline void lladd_atomic_store64(uint64_t *p, uint64_t v)
{
    lladd_atomic_point_();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/** Loads without order. */
static inline uint64_t lladd_atomic_load64_relaxed(const uint64_t *p)
{
    lladd_atomic_point_();
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
/** Stores without order. */
static inline void lladd_atomic_store64_relaxed(uint64_t *p, uint64_t v)
{
    lladd_atomic_point_();
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
/** Adds with sequential consistency; returns the old value. */
static inline uint64_t lladd_atomic_add64(uint64_t *p, uint64_t v)
{
    lladd_atomic_point_();
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
/** Subtracts with sequential consistency; returns the old value. */
static inline uint64_t lladd_atomic_sub64(uint64_t *p, uint64_t v)
{
    lladd_atomic_point_();
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);
}
/** Adds with sequential consistency; returns the old value. */
static inline uint32_t lladd_atomic_add32(uint32_t *p, uint32_t v)
{
    lladd_atomic_point_();
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
/** Stores with sequential consistency; returns the old value. */
static inline uint32_t lladd_atomic_exchange32(uint32_t *p, uint32_t v)
{
    lladd_atomic_point_();
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
/** Stores with sequential consistency; returns the old value. */
static inline uint64_t lladd_atomic_exchange64(uint64_t *p, uint64_t v)
{
    lladd_atomic_point_();
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
/** Loads with sequential consistency: the load is not moved before an earlier exchange or addition
 *  of the thread. Use it to check for sleepers after a change of the word on which they sleep. On
 *  processors with weak order, an acquire load could be moved before the change; then this thread
 *  could miss a sleeper that has not seen the change. */
static inline uint32_t lladd_atomic_look32(const uint32_t *p)
{
    lladd_atomic_point_();
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
/** Loads with sequential consistency: the load is not moved before an earlier exchange, addition or
 *  compare-and-swap of the thread. Epochs (lladd/epoch.h) need it. */
static inline uint64_t lladd_atomic_look64(const uint64_t *p)
{
    lladd_atomic_point_();
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
/** Adds to a statistics counter, without order. */
static inline void lladd_atomic_count64(uint64_t *p, uint64_t v)
{
    __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
/** lladd_atomic_load_ptr loads a pointer of any type with acquire order; lladd_atomic_store_ptr
 *  stores one with release order. */
#define lladd_atomic_load_ptr(p) (lladd_atomic_point_(), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#define lladd_atomic_store_ptr(p, v) \
    (lladd_atomic_point_(), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
/** If *p == *expected, stores `v` in *p with sequential consistency, and returns true. Otherwise
 *  copies the value of *p to *expected, and returns false. */
static inline bool lladd_atomic_cas64(uint64_t *p, uint64_t *expected, uint64_t v)
{
    lladd_atomic_point_();
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}
/** If *p == *expected, stores `v` in *p with sequential consistency, and returns true. Otherwise
 *  copies the value of *p to *expected, and returns false. */
static inline bool lladd_atomic_cas32(uint32_t *p, uint32_t *expected, uint32_t v)
{
    lladd_atomic_point_();
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}
/** Sets *p to `v` if *p is less. */
static inline void lladd_atomic_max64(uint64_t *p, uint64_t v)
{
    uint64_t old = lladd_atomic_load64(p);
    while (old < v && !lladd_atomic_cas64(p, &old, v)) {
    }
}
/** Executes a sequentially consistent fence. */
static inline void lladd_atomic_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
/** Plain writes after this call become visible after the atomic writes before this call. Use it for
 *  data with a version that optimistic readers check. The call needs no instruction on processors
 *  that keep the order of writes. (Not used with ThreadSanitizer, which does not support
 *  fences.) */
static inline void lladd_atomic_writes_follow(void)
{
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
/** No load after this call, not even a plain one, is moved before a load that precedes the call.
 *  Use it in optimistic readers that do not read with lladd_atomic_copy64. (Not used with
 *  ThreadSanitizer.) */
static inline void lladd_atomic_reads_end(void)
{
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}
#if defined(__SANITIZE_THREAD__)
#define LLADD_UNSEEN_ __attribute__((no_sanitize_thread, noinline, unused)) static
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LLADD_UNSEEN_ __attribute__((no_sanitize("thread"), noinline, unused)) static
#endif
#endif
#ifndef LLADD_UNSEEN_
#define LLADD_UNSEEN_ static inline
#endif
/** Copies n words that another thread may be writing with plain stores; later loads are not moved
 *  before this copy. ThreadSanitizer does not check this function, because it cannot know that the
 *  caller validates the copy with a version number. */
LLADD_UNSEEN_ void lladd_atomic_copy64(const uint64_t *from, uint64_t *into, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        into[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
}
/** Call it in a loop that waits for another thread for a short time. */
static inline void lladd_cpu_relax(void)
{
#ifdef LLADD_DST
    if (lladd_dst_entered && lladd_dst_entered->fibers)
        lladd_yield();
#endif
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#ifdef __cplusplus
}
#endif
#endif
