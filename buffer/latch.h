/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_LATCH_H
#define LL_BUFFER_LATCH_H
/* The state word of a frame. Low half, on which threads sleep:
 *
 *    0..19  number of shared holders; it cannot overflow: while bit 19 is set, new holders wait
 *    20     held exclusively
 *    21     a writer sleeps, or a writer was woken and others may sleep (latch.c)
 *    22     readers sleep
 *    23     used since the eviction clock last passed
 *    24     a copy is being written: do not evict the frame, and take no second copy
 *    25..26 state
 *
 * High half: the number of fixes since the page was loaded or latch_get last restarted the count.
 * The statistics of hits use this number. Optimistic reads use it, because each exclusive latch
 * changes it.
 *
 * States, and the thread that changes them:
 *
 *    FREE     -> LOADING   a thread that misses the page: it claims the frame, held exclusively
 *    LOADING  -> RESIDENT  that thread, when the page is verified; it keeps the requested latch
 *    LOADING  -> FREE      that thread, when the page cannot be read
 *    RESIDENT -> EVICTING  a thread that needs room (exclusively) or drops pages (without the
 *                          exclusive bit); only if the frame has no holder and no copy of it is
 *                          being written
 *    EVICTING -> FREE      that thread
 *    EVICTING -> RESIDENT  that thread, if it finds the frame dirty or may not drop the pages
 *
 * A latch is also a pin: while a thread holds the frame, the page stays in memory. */
#include <lladd/sync.h>

#include "buffer/buffer.h"

#define LATCH_SHARED (UINT64_C(1))
#define LATCH_COUNT (UINT64_C(0x000fffff))
#define LATCH_CROWDED (UINT64_C(1) << 19)
#define LATCH_EXCLUSIVE (UINT64_C(1) << 20)
#define LATCH_WRITER_WAITS (UINT64_C(1) << 21)
#define LATCH_READERS_WAIT (UINT64_C(1) << 22)
#define LATCH_USED (UINT64_C(1) << 23)
#define LATCH_COPIED (UINT64_C(1) << 24)
#define LATCH_STATE (UINT64_C(3) << 25)
#define LATCH_FREE (UINT64_C(0) << 25)
#define LATCH_LOADING (UINT64_C(1) << 25)
#define LATCH_RESIDENT (UINT64_C(2) << 25)
#define LATCH_EVICTING (UINT64_C(3) << 25)
#define LATCH_WAITERS (LATCH_WRITER_WAITS | LATCH_READERS_WAIT)
#define LATCH_FIX (UINT64_C(1) << 32)
/* Words of this value or above have a full fix count. The slow path resets the count. */
#define LATCH_FIXES_FULL (UINT64_C(0xffffffff) << 32)

/* Classes of sleepers, for lladd_word_wake. */
enum { LATCH_READERS = 1, LATCH_WRITERS = 2, LATCH_ALL = 3 };

enum latch_answer {
    LATCH_GOT,
    LATCH_BUSY, /* only if asked not to wait */
    LATCH_GONE  /* the frame may hold another page or no page: look the page up again */
};

static inline uint64_t latch_fixes(uint64_t word)
{
    return word >> 32;
}

/* The frame holds a page and has no holder, and no copy of the page is being written. (Threads that
 * wait for the latch do not count: eviction wakes them, and they look the page up again.) */
static inline bool latch_idle(uint64_t word)
{
    return (word & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_COUNT | LATCH_COPIED)) == LATCH_RESIDENT;
}

/* Idle, and not used recently: the frame may be evicted soon. */
static inline bool latch_unused(uint64_t word)
{
    return latch_idle(word) && !(word & LATCH_USED);
}

/* The half of the word that threads sleep on. */
static inline uint32_t *latch_low(uint64_t *word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (uint32_t *)word + 1;
#else
    return (uint32_t *)word;
#endif
}

/* This is the only compare-and-swap of a hit. False: the caller takes the slow path. */
static inline bool latch_try_shared(uint64_t *word)
{
    uint64_t w = lladd_atomic_load64(word);
    return (w & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_WRITER_WAITS | LATCH_CROWDED)) ==
               LATCH_RESIDENT &&
           w < LATCH_FIXES_FULL &&
           lladd_atomic_cas64(word, &w, (w | LATCH_USED) + LATCH_SHARED + LATCH_FIX);
}

static inline bool latch_try_exclusive(uint64_t *word)
{
    uint64_t w = lladd_atomic_load64(word);
    bool got = (w & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_COUNT)) == LATCH_RESIDENT &&
               w < LATCH_FIXES_FULL &&
               lladd_atomic_cas64(word, &w, (w | LATCH_USED | LATCH_EXCLUSIVE) + LATCH_FIX);
    lladd_atomic_writes_follow(); /* an optimistic reader must see the word change before the
                                   * page changes */
    return got;
}

/* If an optimistic reader must retry, one of these bits has changed. (A shared fix also changes
 * one, which causes a needless retry. This is rare, because pages that are read often are read
 * optimistically.) */
#define LATCH_VERSION (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_FIXES_FULL)

/* May the page be read optimistically? Not if the USED bit is clear: then the reader fixes the
 * page, and the fix sets the bit. Without this rule the clock would evict a page that is only read
 * optimistically. */
static inline bool latch_may_read(uint64_t word)
{
    return (word & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_USED)) == (LATCH_RESIDENT | LATCH_USED);
}

/* Latches the frame; waits unless `try`. If the word's fix count is full, *full gets the count, and
 * the word counts from 0 again; otherwise *full is 0. */
enum latch_answer latch_get(struct ll_frame *, bool exclusive, bool try, uint64_t *full);
/* Waits while the frame is held exclusively, is being loaded or is being evicted. May return early.
 * Takes no latch. */
void latch_await_shareable(struct ll_frame *);

void latch_wake_writer(struct ll_frame *) __attribute__((noinline, cold));
void latch_wake_after_exclusive(struct ll_frame *) __attribute__((noinline, cold));

static inline void latch_drop_shared(struct ll_frame *f)
{
    uint64_t old = lladd_atomic_sub64(&f->latch, LATCH_SHARED);
    LL_ASSERT((old & LATCH_COUNT) != 0);
    if (LL_UNLIKELY((old & (LATCH_COUNT | LATCH_WRITER_WAITS)) ==
                    (LATCH_SHARED | LATCH_WRITER_WAITS)))
        latch_wake_writer(f);
}

static inline void latch_drop_exclusive(struct ll_frame *f)
{
    uint64_t old = lladd_atomic_sub64(&f->latch, LATCH_EXCLUSIVE);
    LL_ASSERT(old & LATCH_EXCLUSIVE);
    if (LL_UNLIKELY(old & LATCH_WAITERS))
        latch_wake_after_exclusive(f);
}

/* Replaces the whole word and wakes all sleepers. Only for a frame with a state that no other
 * thread can change now. Returns the old word. */
uint64_t latch_become(struct ll_frame *, uint64_t word);

#endif
