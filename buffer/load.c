/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load: fixes pages that are not immediate hits; reads pages that are not cached.
 *
 * A miss takes a slot and claims a frame for the page. The frame is LOADING: other threads that
 * want the page wait for this read and do not start their own. The miss reads the page, verifies it
 * (BUF-2) and asks recovery to bring it up to date. If no slot is free, the miss makes room first
 * (evict.c).
 */
#include "buffer/buffer_private.h"

#include <errno.h>

static int check_rebuilt(const struct ll_buffer *b, uint64_t n, lladd_lsn lsn,
                         struct lladd_error *err)
{
    uint64_t written = ll_buffer__history_last(b, n);
    if (lsn.v >= written)
        return 0;
    return ll_fail_page(err, LLADD_CORRUPT_PAGE, lladd_page_of(n),
                        "\"%s\": page %llu was written with page LSN %llu, but the log rebuilds it "
                        "only up to LSN %llu",
                        b->cfg.name, (unsigned long long)n, (unsigned long long)written,
                        (unsigned long long)lsn.v);
}

void ll_buffer_clear(struct ll_buffer *b, struct ll_frame *f)
{
    memset(f->page.bytes, 0, b->page_size);
    f->flags |= LL_FRAME_BASELESS;
    ll_buffer__forget_dirty(b, f);
}

void ll_buffer_forget_private(struct ll_buffer *b, struct ll_frame *f)
{
    while (f->private_) {
        uint32_t seen = lladd_atomic_load32(&b->events);
        if (lladd_atomic_load64(&f->latch) & LATCH_COPIED) {
            ll_buffer__await_event(b, seen);
            continue;
        }
        if (b->cfg.evicted)
            b->cfg.evicted(b->cfg.ctx, f);
        f->private_ = NULL;
    }
}

/* If redo has changed the page, the frame becomes dirty. */
static int ask_recovery(struct ll_buffer *b, struct ll_frame *f, struct ll_fetch *fetch,
                        struct lladd_error *err)
{
    if (!b->cfg.recovery.fetch) {
        if (fetch->state == LL_FETCH_DAMAGED && err)
            *err = fetch->damage;
        return fetch->damage.code;
    }
    int rc = b->cfg.recovery.fetch(b->cfg.recovery.ctx, fetch, err);
    if (rc == 0 && fetch->rebuilt)
        rc = check_rebuilt(b, fetch->page.v, ll_page_lsn(f->page.bytes), err);
    if (rc != 0 || fetch->state != LL_FETCH_DONE)
        return rc;
    if (fetch->rebuilt)
        lladd_atomic_count64(&b->count.repairs, 1);
    else if (fetch->dirty_since.v != 0 && !LLADD_PLANTED(LLADD_BUG_CAUGHT_UP))
        ll_buffer__enter(b, f, fetch->dirty_since.v);
    return 0;
}

static int read_and_verify(struct ll_buffer *b, struct ll_frame *f, uint64_t n, bool redo,
                           struct lladd_error *err)
{
    struct ll_fetch fetch = {
        .page = lladd_page_of(n), .bytes = f->page.bytes, .frame = f, .damage = LLADD_ERROR_INIT};
    int rc = redo ? 0 : ask_recovery(b, f, &fetch, err);
    if (rc != 0 || fetch.state == LL_FETCH_DONE)
        return rc;
    rc = ll_buffer__read_pages(b, n, 1, f->page.bytes, &fetch.damage);
    if (rc == 0)
        rc = ll_buffer__verify(b, n, f->page.bytes, &fetch.damage);
    /* Redo or a rebuild would hide a lost end of the log. A page that is not read for lack of a
     * resource may be intact. */
    if (rc == LLADD_LOG_LOST || lladd_code_root(rc) == LLADD_ROOT_RESOURCE) {
        if (err)
            *err = fetch.damage;
        return rc;
    }
    if (redo) {
        if (rc != 0)
            ll_buffer_clear(b, f);
        f->flags |= rc == LLADD_READ_FAILED ? LL_FRAME_UNREAD : 0;
        return 0;
    }
    fetch.state = rc == 0 ? LL_FETCH_READ : LL_FETCH_DAMAGED;
    return ask_recovery(b, f, &fetch, err);
}

static int fill(struct ll_buffer *b, struct ll_frame *f, uint64_t n, unsigned how,
                struct lladd_error *err)
{
    int rc = 0;
    if (how & LL_FIX_FRESH) {
        memset(f->page.bytes, 0, b->page_size);
    } else if (how & LL_FIX_BASE) {
        ll_buffer_clear(b, f);
    } else {
        bool redo = (how & LL_FIX_REDO) != 0;
        rc = read_and_verify(b, f, n, redo, err);
        if (rc == 0) /* if a write of the page failed meanwhile, the file has an older page */
            rc = ll_buffer__check(b, err);
        if (rc == 0 && b->cfg.loaded)
            rc = b->cfg.loaded(b->cfg.ctx, f, err);
        if (rc == 0 && redo) /* redo may change the page, or give it another type */
            ll_buffer_forget_private(b, f);
        if (rc != 0)
            ll_buffer__forget_dirty(b, f);
    }
    if (rc == 0 && !(how & LL_FIX_FRESH) && b->cfg.recovery.fetched)
        b->cfg.recovery.fetched(b->cfg.recovery.ctx, lladd_page_of(n));
    return rc;
}

bool ll_buffer_include(struct ll_buffer *b, uint64_t n)
{
    bool can = n < ll_buffer__page_limit(b);
    if (can)
        lladd_atomic_max64(&b->page_count, n + 1);
    return can;
}

static int busy(lladd_pageno page, struct lladd_error *err)
{
    return ll_fail_page(err, LLADD_BUSY, page, "page %llu is latched", (unsigned long long)page.v);
}

/* Loads page n, which has no frame. Returns 0, or 1 if the caller must look the page up again, or
 * an error. */
static int miss(struct ll_buffer *b, uint64_t n, unsigned how, struct ll_frame **out,
                struct lladd_error *err)
{
    uint32_t seen = lladd_atomic_load32(&b->events);
    uint32_t slot = 0;
    if (ll_buffer__in_bulk(b, n)) {
        if (how & LL_FIX_TRY)
            return busy(lladd_page_of(n), err);
        ll_buffer__await_event(b, seen);
        return 1;
    }
    int rc = ll_buffer__slot_take(b, &slot, err);
    if (rc < 0)
        return rc;
    if (rc > 0) {
        struct lladd_error why;
        rc = ll_buffer__make_room(b, &why);
        const struct ll_frame *f = ll_buffer__find(b, n);
        if (f && (lladd_atomic_load64(&f->latch) & LATCH_STATE) != LATCH_FREE)
            return 1; /* another thread loads the page: the error does not matter */
        if (rc > 0)
            ll_buffer__await_event(b, seen);
        if (rc < 0 && err)
            *err = why;
        return rc < 0 ? rc : 1;
    }

    struct ll_frame *f;
    rc = ll_buffer__claim(b, n, slot, &f, err);
    if (!f)
        ll_buffer__slot_put(b, slot);
    ll_buffer__slot_released(b);
    if (!f)
        return rc < 0 ? rc : 1;
    if (ll_buffer__in_bulk(b, n)) { /* since the first look */
        ll_buffer__give_up(b, f);
        return 1;
    }
    lladd_atomic_count64(&b->count.misses, 1);
    rc = fill(b, f, n, how, err);
    if (rc != 0) {
        ll_buffer__give_up(b, f);
        return rc;
    }
    lladd_atomic_max64(&b->page_count, n + 1); /* only now: the fix can no longer fail (API-1) */
    LLADD_OBSERVE(.what = LLADD_DST_CACHED, .page = n, .detail = (uintptr_t)f->page.bytes);
    uint64_t held = how & LL_FIX_EXCLUSIVE ? LATCH_EXCLUSIVE : LATCH_SHARED;
    (void)latch_become(f, LATCH_RESIDENT | LATCH_FIX | held);
    *out = f;
    return 0;
}

/* ---- the slow path ---- */

static void reset_page(struct ll_buffer *b, struct ll_frame *f)
{
    ll_buffer_forget_private(b, f);
    f->flags &= ~(uint32_t)LL_FRAME_BASELESS;
    memset(f->page.bytes, 0, b->page_size);
}

/* Latches the frame that a lookup of page n has found. Returns 0, or 1 if the caller must look the
 * page up again, or LLADD_BUSY. */
static int latch_found(struct ll_buffer *b, struct ll_frame *f, uint64_t n, unsigned how,
                       struct lladd_error *err)
{
    uint64_t full;
    bool exclusive = (how & LL_FIX_EXCLUSIVE) != 0;
    enum latch_answer answer = latch_get(f, exclusive, (how & LL_FIX_TRY) != 0, &full);
    if (answer == LATCH_BUSY)
        return busy(lladd_page_of(n), err);
    if (answer == LATCH_GONE)
        return 1;
    lladd_atomic_count64(&b->count.fixes, full);
    if (!ll_buffer__is_page(b, f, n)) {
        ll_buffer_unfix(b, f, how);
        return 1;
    }
    if (how & LL_FIX_FRESH)
        reset_page(b, f);
    return 0;
}

static int check_request(const struct ll_buffer *b, uint64_t n, unsigned how,
                         struct lladd_error *err)
{
    unsigned all = LL_FIX_EXCLUSIVE | LL_FIX_FRESH | LL_FIX_REDO | LL_FIX_TRY | LL_FIX_BASE;
    bool special = (how & (LL_FIX_FRESH | LL_FIX_REDO)) != 0;
    if ((how & ~all) || (special && !(how & LL_FIX_EXCLUSIVE)) ||
        (how & (LL_FIX_BASE | LL_FIX_REDO)) == LL_FIX_BASE)
        return ll_fail_page(err, LLADD_BAD_ARGUMENT, lladd_page_of(n), "invalid flags for a fix");
    uint64_t count = lladd_atomic_load64(&b->page_count);
    if (n >= (special ? ll_buffer__page_limit(b) : count))
        return ll_fail_page(err, LLADD_OUT_OF_RANGE, lladd_page_of(n),
                            "\"%s\" has no page %llu: %llu pages", b->cfg.name,
                            (unsigned long long)n, (unsigned long long)count);
    return 0;
}

int ll_buffer__fix_slow(struct ll_buffer *b, uint64_t n, unsigned how, struct ll_frame **out,
                        struct lladd_error *err)
{
    int rc = check_request(b, n, how, err);
    if (rc != 0)
        return rc;
    do {
        rc = ll_buffer__check(b, err);
        if (rc != 0)
            return rc;
        struct ll_frame *f = b->reserved ? ll_reserved__find(b, n) : ll_heap__find_exact(b, n);
        if (f && (lladd_atomic_load64(&f->latch) & LATCH_STATE) != LATCH_FREE) {
            rc = latch_found(b, f, n, how, err);
            if (rc == 0)
                *out = f;
        } else {
            rc = miss(b, n, how, out, err);
        }
    } while (rc > 0);
    return rc;
}
