/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evict: makes room in the cache.
 *
 * The clock's hand goes over the slots. A frame used since the last pass loses its mark and stays;
 * an idle clean frame is evicted; dirty ones are collected. When a batch of them is full, or no
 * clean one was found, they are written (BUF-1) and the hand continues. Usually the background
 * writer has cleaned them before (flush.c). Eviction waits for no I/O: the last copy of a clean
 * page has already been written to the device.
 *
 * If every frame is held, the result is LLADD_NO_FRAME. A frame that is only being copied for
 * writing, or of which the page is being evicted or claimed, becomes free or idle, or turns out to
 * hold the requested page. The thread waits for such an event (`events`) and retries. The threads
 * that cause events need no latch that this thread could hold, so there is no deadlock.
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

/* Evicts an idle clean frame; false if it has become busy or dirty. */
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
    struct ll_buffer__todo dirty[BATCH_MAX];
    unsigned dirty_count;
    bool pending; /* frames were found that will become free, with an event */
    bool moved;   /* frames were found that may be free at the next look */
};

/* Examines one slot; true if its page was evicted. */
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
    if (s->dirty_count < b->batch_capacity) {
        s->dirty[s->dirty_count].frame = f;
        s->dirty[s->dirty_count++].page = lladd_atomic_load64_relaxed(&f->page.number.v);
    }
    return false;
}

/* Goes around the clock once to clear the marks, and once more to find frames without one. True if
 * a page was evicted. */
static bool go_round(struct ll_buffer *b, struct search *s)
{
    s->dirty_count = 0;
    s->pending = s->moved = false;
    uint64_t slots = lladd_atomic_load32(&b->slot_count);
    for (uint64_t i = 0; i < 2 * slots && s->dirty_count < b->batch_capacity; i++) {
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
    /* Frames are examined one after another, so one round may find each of them held although one
     * was free at any moment. */
    for (int looks = 0; looks < LOOKS;) {
        struct search s;
        bool evicted = go_round(b, &s);
        if (s.dirty_count > 0)
            ll_buffer__wake_writer(b);
        if (evicted)
            return 0;
        if (s.dirty_count > 0) {
            unsigned written;
            return ll_buffer__write_back(b, s.dirty, s.dirty_count, false, &written, err);
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
