/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evict: makes room in the cache.
 *
 * The hand of the clock goes over the slots. An idle frame with the USED bit loses the bit and
 * stays. An idle clean frame without the bit is evicted. Idle dirty frames without the bit are
 * collected. The thread writes the collected frames (BUF-1) when they fill a list (most_dirty), or
 * when the hand has found no clean frame. The caller then repeats the search.
 *
 * If every frame is held, the result is LLADD_NO_FRAME. If instead some frame is being copied,
 * evicted or claimed, a slot may soon become free, or the requested page may become resident. The
 * thread waits for the next event (`events`) and retries. The threads that cause events wait for no
 * latch that the waiting thread could hold, so the wait cannot deadlock.
 */
#include "buffer/buffer_private.h"

#include <errno.h>

/* ---- releasing frames ---- */

void ll_buffer__give_up(struct ll_buffer *b, struct ll_frame *f)
{
    lladd_atomic_count64(&b->count.fixes, latch_fixes(lladd_atomic_load64(&f->latch)));
    (void)lladd_atomic_add64(&b->evictions, 1);
    if (b->reserved)
        ll_reserved__release(b, f);
    else
        ll_heap__release(b, f);
}

/* Evicts an idle clean frame; false if the frame has become busy or dirty. `word`: the latch word
 * of the idle frame. */
static bool evict(struct ll_buffer *b, struct ll_frame *f, uint64_t word)
{
    uint64_t evicting = (word & ~LATCH_STATE) | LATCH_EVICTING | LATCH_EXCLUSIVE;
    if (!lladd_atomic_cas64(&f->latch, &word, evicting))
        return false;
    if (lladd_atomic_load64(&f->rec_lsn) != 0) {
        (void)latch_become(f, word);
        ll_buffer__event(b);
        return false;
    }
    if (b->cfg.evicted)
        b->cfg.evicted(b->cfg.ctx, f);
    lladd_atomic_count64(&b->count.evictions, 1);
    ll_buffer__give_up(b, f);
    return true;
}

/* ---- the clock ---- */

struct search {
    struct ll_buffer__todo dirty[RUN_MAX];
    unsigned dirty_count;
    bool pending; /* the search met a frame that may become free; an event will follow */
    bool moved;   /* the search met a frame that another round may evict */
};

/* An eviction writes at most this number of pages, because its thread waits for the writes. */
static unsigned most_dirty(const struct ll_buffer *b)
{
    return b->batch_capacity < RUN_MAX ? b->batch_capacity : RUN_MAX;
}

/* True if the page of the slot was evicted. */
static bool try_slot(struct ll_buffer *b, uint32_t slot, struct search *s)
{
    struct ll_frame *f = ll_buffer__page_of_slot(b, slot);
    if (!f)
        return false;
    uint64_t w = lladd_atomic_load64(&f->latch);
    if (!latch_idle(w)) {
        s->pending |= (w & LATCH_COPIED) || (w & LATCH_STATE) == LATCH_EVICTING;
        return false;
    }
    if (w & LATCH_USED) {
        (void)lladd_atomic_cas64(&f->latch, &w, w & ~LATCH_USED);
        s->moved = true;
        return false;
    }
    if (lladd_atomic_load64(&f->rec_lsn) == 0) {
        s->moved = true;
        return evict(b, f, w);
    }
    if (s->dirty_count < most_dirty(b))
        s->dirty[s->dirty_count++] = ll_buffer__todo_of(f);
    return false;
}

/* Goes around the clock at most twice: the first time may only clear USED bits. True if a page was
 * evicted. */
static bool go_round(struct ll_buffer *b, struct search *s)
{
    s->dirty_count = 0;
    s->pending = s->moved = false;
    uint64_t slots = lladd_atomic_load32(&b->slot_count);
    for (uint64_t i = 0; i < 2 * slots && s->dirty_count < most_dirty(b); i++) {
        uint64_t at = lladd_atomic_add64(&b->hand, 1) % slots;
        if (try_slot(b, (uint32_t)at, s))
            return true;
    }
    return false;
}

int ll_buffer__make_room(struct ll_buffer *b, struct lladd_error *err)
{
    enum { LOOKS = 8 };
    if (ll_point(b->env, "buffer.evict") != 0)
        return ll_fail(err, LLADD_NO_FRAME, "no page can be evicted");
    /* A round may find each frame held, although at every moment another frame was idle. So several
     * rounds are made before the result is LLADD_NO_FRAME. */
    for (int looks = 0; looks < LOOKS;) {
        struct search s;
        bool evicted = go_round(b, &s);
        if (s.dirty_count > 0)
            ll_buffer__wake_writer(b);
        if (evicted)
            return 0;
        if (s.dirty_count > 0) {
            unsigned written;
            return ll_buffer__write_back(b, s.dirty, s.dirty_count, LL_BUFFER__EVICTS, &written,
                                         err);
        }
        if (s.pending || lladd_atomic_load32(&b->in_transit) != 0)
            return 1;
        if (!s.moved) {
            looks++;
            lladd_yield();
        }
    }
    return ll_fail(err, LLADD_NO_FRAME, "all %u pages of the cache are fixed",
                   lladd_atomic_load32(&b->slot_count));
}
