/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * latch: the slow path, for a frame that cannot be latched with one atomic operation.
 *
 * Waiting. An exclusive latch is usually held for a moment. So a thread that waits for the latch
 * first spins, for about the time that going to sleep takes. Then it sleeps on the low half of the
 * word. Before it sleeps it sets the bit of its class, readers or writers; a thread that releases
 * the latch checks these bits.
 *
 * Waking. A thread that releases an exclusive latch clears both bits and wakes all readers and one
 * writer. The woken writer cannot tell whether other writers sleep. It therefore sets the writers'
 * bit when it takes the latch, and its release wakes the next writer. If the woken writer finds
 * that the frame is no longer resident, it wakes all sleepers instead, because perhaps no other
 * thread will wake them. The last reader to leave wakes one writer and does not clear the bit.
 *
 * No starvation of writers. A reader that finds the writers' bit set waits for at most a
 * millisecond, so that the present readers can leave. Then it enters although the bit is set.
 * (Without this limit, a thread that fixes a page shared for the second time would deadlock with
 * the writer.) Writers get the latch in no particular order.
 *
 * Loading and evicting. A thread that finds a frame being loaded or evicted waits as a reader, even
 * if it needs the exclusive latch. A change of the state wakes all sleepers, and each looks the
 * page up again, because the frame may hold another page now. A thread may also set its bit just
 * after the frame got another page; then the next release of that page looks for sleepers in vain,
 * which is harmless.
 */
#include "buffer/latch.h"
#include "util/held.h"

#include <limits.h>

enum {
    SPINS = 100, /* a futex call costs about as much */
    READER_PATIENCE_NS = 1000000
};

/* Sets `bit`, then sleeps while the low half of the word does not change, for at most ns (0: no
 * limit). Returns immediately if the word is not w. */
static void sleep_on(struct ll_frame *f, uint64_t w, uint64_t bit, uint32_t class, uint64_t ns)
{
    if (!(w & bit)) {
        if (!lladd_atomic_cas64(&f->latch, &w, w | bit))
            return;
        w |= bit;
    }
    ll_word_wait_with_credit("page latch", latch_low(&f->latch), (uint32_t)w, class, ns);
}

/* Returns the last word read. */
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

/* Counts a fix in w. If the count is full, moves it to *full first. */
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
            /* No time limit for an exclusive holder: the holder's release wakes all readers. */
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
    /* If the bits are clear by now, the release of a later holder or a change of state has woken
     * the sleepers. */
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
