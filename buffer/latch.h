/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_LATCH_H
#define LL_BUFFER_LATCH_H
/* The state word of a frame. Low half, on which threads sleep:
 *
 *    0..19  how many hold it shared; bit 19 is kept free, so that the count cannot run over
 *    20     held exclusively
 *    21     a writer sleeps (or: one did, and others may; see latch.c)
 *    22     readers sleep
 *    23     used since the clock last passed
 *    24     a copy is on its way to the disk: not to be evicted, nor written a second time
 *    25..26 state
 *
 * High half: fixes since the page came in. It counts hits, and it differs after each exclusive
 * latch, which is what glances go by.
 *
 * States and who moves between them:
 *
 *    FREE     -> LOADING   who misses the page and claims the frame; he holds it exclusively
 *    LOADING  -> RESIDENT  he, when the page is verified; he keeps the latch he asked for
 *    LOADING  -> FREE      he, when it cannot be read
 *    RESIDENT -> EVICTING  who needs room (exclusively), or drops pages (without the exclusive
 *                          bit); only with nobody holding the frame, and no copy of it under way
 *    EVICTING -> FREE      he
 *    EVICTING -> RESIDENT  who drops pages, when he finds that he may not
 *
 * A pin is a latch: whoever holds the frame in either way keeps the page where it is. */
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
/* Words from here on have their fix count full: the slow path empties it. */
#define LATCH_FIXES_FULL (UINT64_C(0xffffffff) << 32)

/* Sleepers' classes, for lladd_word_wake. */
enum { LATCH_READERS = 1, LATCH_WRITERS = 2, LATCH_ALL = 3 };

enum latch_answer {
    LATCH_GOT,
    LATCH_BUSY, /* only if asked not to wait */
    LATCH_GONE  /* the frame was not, or is no longer, this page's: look it up again */
};

static inline uint64_t latch_fixes(uint64_t word)
{
    return word >> 32;
}

/* Nobody holds the frame, and no copy of it is under way. (Waiters do not count: when it goes they
 * are woken and look for their page again.) */
static inline bool latch_idle(uint64_t word)
{
    return (word & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_COUNT | LATCH_COPIED)) == LATCH_RESIDENT;
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

/* The one atomic of a hit. False: it needs the slow path. */
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
    lladd_atomic_writes_follow(); /* who glances sees the word change before the page does */
    return got;
}

/* What of the word tells who glances that the page is not the one he began with. (Who fixes it to
 * read disturbs him, too; but who reads pages that are read a lot glances.) */
#define LATCH_VERSION (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_FIXES_FULL)

/* May the page be glanced at? The clock must see that it is used, so now and then somebody has to
 * fix it. */
static inline bool latch_may_glance(uint64_t word)
{
    return (word & (LATCH_STATE | LATCH_EXCLUSIVE | LATCH_USED)) == (LATCH_RESIDENT | LATCH_USED);
}

/* Waits, unless `try`, until the frame can be had. *full gets fixes that no longer fitted the
 * word. */
enum latch_answer latch_get(struct ll_frame *, bool exclusive, bool try, uint64_t *full);
/* Waits until the frame is not held exclusively, nor coming or going. Takes nothing. */
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

/* Gives the frame a new state, which nobody else can be changing, and wakes everybody. Returns the
 * word before. */
uint64_t latch_become(struct ll_frame *, uint64_t word);

#endif
