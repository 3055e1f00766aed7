/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * latch: what to do when a frame cannot be had with one atomic.
 *
 * Waiting. Exclusive holders are quick (they do no I/O, BUF-3), so a waiter first spins for about
 * as long as going to sleep would take, then sleeps on the low half of the word. Before he sleeps
 * he sets the bit of his class (readers, writers), and who releases looks at the bits.
 *
 * Waking. Who clears a class's bit wakes it: all readers, or one writer. A writer that slept cannot
 * know whether he was alone, so he takes the latch with the writers' bit set, and his release wakes
 * the next; or, if the page has gone meanwhile, he wakes everybody: the bit may have been cleared
 * for him alone. The last reader out wakes one writer and leaves the bit as it is.
 *
 * No starvation. Readers that find the writers' bit set wait for a millisecond, so that those who
 * are in can leave; then they go in nevertheless. (For ever would deadlock a thread that fixes,
 * shared, a page it holds shared already.) Writers have no order among themselves.
 *
 * Coming and going. Frames that are being loaded or evicted are awaited as a reader, whatever latch
 * is wanted; when the state changes everybody is woken and looks the page up again, since the frame
 * may by then be another page's. For the same reason a sleeper's bit may land on another page's
 * word: it costs that page's next release a look for sleepers, no more.
 */
#include "buffer/latch.h"
#include "util/held.h"

#include <limits.h>

enum {
    SPINS = 100,               /* a futex call costs about as much */
    READER_PATIENCE_NS = 1000000
};

/* Sleeps until the word changes from w in its low half, or for ns. Returns at once if it has. */
static void sleep_on(struct ll_frame *f, uint64_t w, uint64_t bit, uint32_t class, uint64_t ns)
{
    if (!(w & bit)) {
        if (!lladd_atomic_cas64(&f->latch, &w, w | bit))
            return;
        w |= bit;
    }
    ll_word_wait_with_credit("page latch", latch_low(&f->latch), (uint32_t)w, class, ns);
}

/* Spins while the frame is held exclusively; the word at the end. */
static uint64_t spin(struct ll_frame *f)
{
    uint64_t w = lladd_atomic_load64(&f->latch);
    for (int i = 0; i < SPINS && (w & LATCH_EXCLUSIVE); i++) {
        lladd_cpu_relax();
        w = lladd_atomic_load64(&f->latch);
    }
    return w;
}

static bool is_moving(uint64_t w)
{
    uint64_t state = w & LATCH_STATE;
    return state == LATCH_LOADING || state == LATCH_EVICTING;
}

/* One more fix; empties a count that is full into *full. */
static uint64_t count_fix(uint64_t w, uint64_t *full)
{
    if (w >= LATCH_FIXES_FULL) {
        *full = latch_fixes(w);
        w &= ~LATCH_FIXES_FULL;
    } else {
        *full = 0;
    }
    return w + LATCH_FIX;
}

static enum latch_answer get_exclusive(struct ll_frame *f, bool try, uint64_t *full)
{
    uint64_t slept = 0;
    for (uint64_t w = spin(f);; w = lladd_atomic_load64(&f->latch)) {
        if ((w & LATCH_STATE) != LATCH_RESIDENT) {
            if (slept)
                lladd_word_wake(latch_low(&f->latch), INT_MAX, LATCH_ALL);
            return LATCH_GONE;
        }
        if (!(w & (LATCH_EXCLUSIVE | LATCH_COUNT))) {
            uint64_t got = count_fix(w, full) | LATCH_EXCLUSIVE | LATCH_USED | slept;
            if (lladd_atomic_cas64(&f->latch, &w, got)) {
                lladd_atomic_writes_follow();
                return LATCH_GOT;
            }
        } else if (try) {
            return LATCH_BUSY;
        } else {
            sleep_on(f, w, LATCH_WRITER_WAITS, LATCH_WRITERS, 0);
            slept = LATCH_WRITER_WAITS;
        }
    }
}

static enum latch_answer get_shared(struct ll_frame *f, bool try, uint64_t *full)
{
    bool patient = !try;
    for (uint64_t w = spin(f);; w = lladd_atomic_load64(&f->latch)) {
        if ((w & LATCH_STATE) != LATCH_RESIDENT)
            return LATCH_GONE;
        bool shut = (w & (LATCH_EXCLUSIVE | LATCH_CROWDED)) != 0;
        if (!shut && !(patient && (w & LATCH_WRITER_WAITS))) {
            uint64_t got = (count_fix(w, full) | LATCH_USED) + LATCH_SHARED;
            if (lladd_atomic_cas64(&f->latch, &w, got))
                return LATCH_GOT;
        } else if (try) {
            return LATCH_BUSY;
        } else {
            /* Behind an exclusive holder for as long as it takes: he wakes us. */
            bool timed = !(w & LATCH_EXCLUSIVE);
            sleep_on(f, w, LATCH_READERS_WAIT, LATCH_READERS, timed ? READER_PATIENCE_NS : 0);
            if (timed)
                patient = false;
        }
    }
}

enum latch_answer latch_get(struct ll_frame *f, bool exclusive, bool try, uint64_t *full)
{
    *full = 0;
    uint64_t w = lladd_atomic_load64(&f->latch);
    if (is_moving(w)) {
        if (try)
            return LATCH_BUSY;
        sleep_on(f, w, LATCH_READERS_WAIT, LATCH_READERS, 0);
        return LATCH_GONE;
    }
    return exclusive ? get_exclusive(f, try, full) : get_shared(f, try, full);
}

void latch_await_shareable(struct ll_frame *f)
{
    uint64_t w = spin(f);
    if ((w & LATCH_STATE) != LATCH_FREE && ((w & LATCH_EXCLUSIVE) || is_moving(w)))
        sleep_on(f, w, LATCH_READERS_WAIT, LATCH_READERS, 0);
}

void latch_wake_writer(struct ll_frame *f)
{
    lladd_word_wake(latch_low(&f->latch), 1, LATCH_WRITERS);
}

void latch_wake_after_exclusive(struct ll_frame *f)
{
    uint64_t w = lladd_atomic_load64(&f->latch);
    /* The bits may be gone: the next holder's release, or a change of state, has woken them all. */
    while ((w & LATCH_WAITERS) && !lladd_atomic_cas64(&f->latch, &w, w & ~LATCH_WAITERS)) {
    }
    if (w & LATCH_READERS_WAIT)
        lladd_word_wake(latch_low(&f->latch), INT_MAX, LATCH_READERS);
    if (w & LATCH_WRITER_WAITS)
        lladd_word_wake(latch_low(&f->latch), 1, LATCH_WRITERS);
}

uint64_t latch_become(struct ll_frame *f, uint64_t word)
{
    uint64_t old = lladd_atomic_exchange64(&f->latch, word);
    if (old & LATCH_WAITERS)
        lladd_word_wake(latch_low(&f->latch), INT_MAX, LATCH_ALL);
    return old;
}
