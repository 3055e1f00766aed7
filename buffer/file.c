/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file: dropping pages, bulk access for extents, growing the file ahead, and prefetching. These
 * operations bypass the cache.
 *
 * A drop removes all pages of the range, or no page. First it seizes every frame in the range: it
 * sets EVICTING without the exclusive bit. Only drops use this combination, and drops run one at a
 * time. If a frame is held, the drop makes all seized frames resident again, and fails. Otherwise
 * it makes these frames FREE. If a copy of a page is being written, the drop waits for the write:
 * otherwise that write could overwrite a later use of the page.
 *
 * A bulk write lists its range of pages until it ends. A miss of a page in the range waits until
 * the range is no longer listed. Without this wait the miss could read the page before the write,
 * and the cache would have the old contents after the write.
 *
 * Growth. If a page is written beyond the physical end of the file, the bytes between the old end
 * and this page are read as zeros. Pages of zeros are valid. ll_buffer_extend allocates disk blocks
 * for new pages, or writes zeros if the device cannot allocate. Then it syncs, so that the pages
 * exist after a crash. It extends the file under grow_latch, so that the zeros do not overwrite a
 * page that another thread writes beyond the end. A lack of space in ll_buffer_extend or in a bulk
 * write does not poison the database, because no acknowledged change was being written.
 */
#include "buffer/buffer_private.h"

#include <errno.h>

/* ---- the cached pages of a range ---- */

typedef int frame_fn(struct ll_buffer *, struct ll_frame *, uint64_t first, uint64_t n, void *ctx);

static bool in_range(const struct ll_frame *f, uint64_t first, uint64_t n)
{
    uint64_t number = lladd_atomic_load64_relaxed(&f->page.number.v);
    return number >= first && number - first < n;
}

/* Calls fn for each frame in the range, and perhaps for a frame that has just been reused for
 * another page. */
static int each_frame(struct ll_buffer *b, uint64_t first, uint64_t n, frame_fn *fn, void *ctx)
{
    uint32_t slots = lladd_atomic_load32(&b->slot_count);
    int rc = 0;
    if (n < slots) {
        for (uint64_t i = 0; rc == 0 && i < n; i++) {
            struct ll_frame *f =
                b->reserved ? ll_reserved__find(b, first + i) : ll_heap__find_exact(b, first + i);
            if (f)
                rc = fn(b, f, first, n, ctx);
        }
        return rc;
    }
    for (uint32_t i = 0; rc == 0 && i < slots; i++) {
        struct ll_frame *f = ll_buffer__page_of_slot(b, i);
        if (f && in_range(f, first, n))
            rc = fn(b, f, first, n, ctx);
    }
    return rc;
}

/* ---- dropping ---- */

static bool is_seized(const struct ll_frame *f)
{
    uint64_t w = lladd_atomic_load64(&f->latch);
    return (w & (LATCH_STATE | LATCH_EXCLUSIVE)) == LATCH_EVICTING;
}

/* Returns 0 if the frame is seized or free, 1 if the caller must retry, LLADD_BUSY if the frame is
 * held. */
static int try_seize(struct ll_buffer *b, struct ll_frame *f)
{
    uint32_t seen = lladd_atomic_load32(&b->events);
    uint64_t w = lladd_atomic_load64(&f->latch);
    uint64_t state = w & LATCH_STATE;
    /* The frame is free, or was seized before: a frame that was reused meanwhile can be visited
     * twice. */
    if (state == LATCH_FREE || (state == LATCH_EVICTING && !(w & LATCH_EXCLUSIVE)))
        return 0;
    if (state == LATCH_EVICTING || (w & LATCH_COPIED)) {
        ll_buffer__await_event(b, seen); /* the thread that causes the event needs no
                                          * discard_latch */
        return 1;
    }
    if (state == LATCH_LOADING) { /* its thread may wait for a disk or an archive, not for a drop */
        latch_await_shareable(f);
        return 1;
    }
    if (!latch_idle(w))
        return LLADD_BUSY;
    return lladd_atomic_cas64(&f->latch, &w, (w & ~LATCH_STATE) | LATCH_EVICTING) ? 0 : 1;
}

static int let_go(struct ll_buffer *b, struct ll_frame *f, uint64_t first, uint64_t n, void *ctx)
{
    (void)first, (void)n, (void)ctx;
    if (is_seized(f)) {
        uint64_t w = lladd_atomic_load64(&f->latch);
        (void)latch_become(f, (w & ~(LATCH_STATE | LATCH_WAITERS)) | LATCH_RESIDENT);
        ll_buffer__event(b); /* a thread that makes room may wait for this frame */
    }
    return 0;
}

static int seize(struct ll_buffer *b, struct ll_frame *f, uint64_t first, uint64_t n, void *ctx)
{
    enum { TRIES = 16 }; /* a fix that finds the wrong frame holds it for an instant */
    lladd_pageno number = {0};
    int rc = 1;
    for (int busy = 0; rc != 0 && busy < TRIES;) {
        number.v = lladd_atomic_load64_relaxed(&f->page.number.v);
        if (!in_range(f, first, n))
            return 0;
        rc = try_seize(b, f);
        if (rc == LLADD_BUSY) {
            busy++;
            lladd_yield();
        }
    }
    if (rc != 0)
        return ll_fail_page(ctx, rc, number, "page %llu is fixed", (unsigned long long)number.v);
    if (is_seized(f) && !in_range(f, first, n)) /* the frame was reused before it was seized */
        return let_go(b, f, first, n, ctx);
    return 0;
}

static int give_up(struct ll_buffer *b, struct ll_frame *f, uint64_t first, uint64_t n, void *ctx)
{
    (void)first, (void)n, (void)ctx;
    if (!is_seized(f))
        return 0;
    ll_buffer__forget_dirty(b, f);
    if (b->cfg.evicted)
        b->cfg.evicted(b->cfg.ctx, f);
    ll_buffer__give_up(b, f);
    return 0;
}

static int drop(struct ll_buffer *b, const struct ll_bulk_range *range, struct lladd_error *err)
{
    uint64_t first = range->first, n = range->n;
    lladd_mutex_lock(&b->discard_latch);
    int rc = each_frame(b, first, n, seize, err);
    if (rc == 0 && range->before_drop)
        range->before_drop(range->ctx); /* write-back waits for frames that are seized */
    (void)each_frame(b, first, n, rc == 0 ? give_up : let_go, err);
    lladd_mutex_unlock(&b->discard_latch);
    if (rc == 0)
        ll_buffer__in_flight_forget(b, first, n);
    return rc;
}

int ll_buffer_drop(struct ll_buffer *b, lladd_pageno first, uint64_t n)
{
    struct ll_bulk_range range = {.first = first.v, .n = n};
    int rc = ll_buffer__check(b, NULL);
    return rc ? rc : drop(b, &range, NULL);
}

/* ---- bulk access ---- */

static int check_range(const struct ll_buffer *b, uint64_t first, uint64_t n, uint64_t limit,
                       struct lladd_error *err)
{
    if (first <= limit && n <= limit - first && n <= SIZE_MAX / b->page_size)
        return 0;
    return ll_fail_page(err, LLADD_OUT_OF_RANGE, lladd_page_of(first),
                        "\"%s\" has no %llu pages from %llu on", b->cfg.name, (unsigned long long)n,
                        (unsigned long long)first);
}

static int seal_all(struct ll_buffer *b, uint64_t first, uint64_t n, unsigned char *bytes,
                    struct lladd_error *err)
{
    uint64_t newest = 0, which = first;
    lladd_lsn durable;
    for (uint64_t i = 0; i < n; i++) {
        unsigned char *page = bytes + i * b->page_size;
        uint64_t lsn = ll_page_lsn(page).v;
        which = lsn > newest ? first + i : which;
        newest = lsn > newest ? lsn : newest;
        ll_buffer__seal(b, first + i, page);
    }
    return ll_buffer__force_log(b, which, newest, &durable, err);
}

static void remember_bulk(struct ll_buffer *b, uint64_t first, uint64_t n,
                          const unsigned char *bytes, bool paged)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t lsn = paged ? ll_page_lsn(bytes + i * b->page_size).v : 0;
        ll_buffer__history_note(b, first + i, lsn);
    }
}

/* The range is in the list before its frames are dropped. A miss claims its frame before it looks
 * at the list. So either the miss sees the range, or the drop meets the frame of the miss. */
int ll_buffer_bulk_begin(struct ll_buffer *b, struct ll_bulk_range *range, struct lladd_error *err)
{
    int rc = ll_buffer__check(b, err);
    if (rc == 0)
        rc = check_range(b, range->first, range->n, ll_buffer__page_limit(b), err);
    if (rc != 0)
        return rc;
    lladd_mutex_lock(&b->bulk_latch);
    range->next = b->bulk;
    b->bulk = range;
    lladd_mutex_unlock(&b->bulk_latch);
    (void)lladd_atomic_add32(&b->bulk_count, 1);
    rc = drop(b, range, err);
    if (rc != 0)
        ll_buffer_bulk_end(b, range);
    return rc;
}

void ll_buffer_bulk_end(struct ll_buffer *b, struct ll_bulk_range *range)
{
    struct ll_bulk_range **at = &b->bulk;
    lladd_mutex_lock(&b->bulk_latch);
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    lladd_mutex_unlock(&b->bulk_latch);
    (void)lladd_atomic_add32(&b->bulk_count, UINT32_MAX);
    ll_buffer__event(b);
}

bool ll_buffer__in_bulk(struct ll_buffer *b, uint64_t page)
{
    if (LL_LIKELY(lladd_atomic_look32(&b->bulk_count) == 0) || LLADD_PLANTED(LLADD_BUG_BULK_LOADED))
        return false;
    lladd_mutex_lock(&b->bulk_latch);
    const struct ll_bulk_range *r = b->bulk;
    while (r && (page < r->first || page - r->first >= r->n))
        r = r->next;
    lladd_mutex_unlock(&b->bulk_latch);
    return r != NULL;
}

int ll_buffer_bulk_write(struct ll_buffer *b, const struct ll_bulk_range *range,
                         unsigned char *bytes, bool paged, struct lladd_error *err)
{
    uint64_t first = range->first, n = range->n;
    int rc = ll_buffer__double_write_ready(b, err);
    if (rc == 0 && paged)
        rc = seal_all(b, first, n, bytes, err);
    if (rc == 0)
        rc = ll_buffer__check(b, err); /* the caller and seal_all may have waited for the log */
    if (rc != 0 || n == 0)
        return rc;
    struct lladd_iovec piece = {bytes, (size_t)n * b->page_size};
    rc = ll_buffer__write_at(b, &piece, 1, first, n);
    if (rc == 0) {
        remember_bulk(b, first, n, bytes, paged);
        lladd_atomic_max64(&b->page_count, first + n);
        ll_buffer__note_write(b);
        return 0;
    }
    if (ll_io_code(rc, true) == LLADD_NO_SPACE)
        return ll_fail_io(err, rc, true, "write to", b->cfg.name);
    return ll_buffer__poison(b, rc, "write to", b->cfg.name, err);
}

static bool is_unwritten(const struct ll_frame *f)
{
    return lladd_atomic_load64(&f->rec_lsn) != 0 ||
           (lladd_atomic_load64(&f->latch) & LATCH_COPIED) != 0;
}

struct unwritten {
    struct ll_buffer__todo todo[RUN_MAX];
    unsigned n;
};

static int list_unwritten(struct ll_buffer *b, struct ll_frame *f, uint64_t first, uint64_t n,
                          void *ctx)
{
    struct unwritten *u = ctx;
    (void)b, (void)first, (void)n;
    if (u->n < RUN_MAX && is_unwritten(f))
        u->todo[u->n++] = ll_buffer__todo_of(f);
    return 0;
}

int ll_buffer_write_range(struct ll_buffer *b, lladd_pageno first, uint64_t n,
                          struct lladd_error *err)
{
    struct unwritten u = {.n = 1};
    unsigned written;
    int rc = ll_buffer__check(b, err);
    while (rc == 0 && u.n > 0) {
        u.n = 0;
        rc = each_frame(b, first.v, n, list_unwritten, &u);
        if (rc == 0 && u.n > 0)
            rc = ll_buffer__write_back(b, u.todo, u.n, LL_BUFFER__SETTLES, &written, err);
    }
    return rc == 0 ? ll_buffer_sync(b, err) : rc;
}

static int refuse_unwritten(struct ll_buffer *b, struct ll_frame *f, uint64_t first, uint64_t n,
                            void *ctx)
{
    uint64_t number = lladd_atomic_load64_relaxed(&f->page.number.v);
    (void)b;
    if (!is_unwritten(f) || !in_range(f, first, n))
        return 0;
    return ll_fail_page(ctx, LLADD_BAD_STATE, lladd_page_of(number), "page %llu is dirty",
                        (unsigned long long)number);
}

int ll_buffer_bulk_read(struct ll_buffer *b, lladd_pageno first, uint64_t n, unsigned char *bytes,
                        bool paged, struct lladd_error *err)
{
    int rc = ll_buffer__check(b, err);
    if (rc == 0)
        rc = check_range(b, first.v, n, lladd_atomic_load64(&b->page_count), err);
    if (rc == 0)
        rc = each_frame(b, first.v, n, refuse_unwritten, err);
    if (rc != 0 || n == 0)
        return rc;
    rc = ll_buffer__read_pages(b, first.v, n, bytes, err);
    if (rc == LLADD_READ_FAILED && n > 1) { /* find the page */
        rc = 0;
        for (uint64_t i = 0; rc == 0 && i < n; i++)
            rc = ll_buffer__read_pages(b, first.v + i, 1, bytes + i * b->page_size, err);
    }
    if (rc == 0)
        rc = ll_buffer__check(b, err); /* a write of the pages may have failed meanwhile (LOG-4) */
    for (uint64_t i = 0; rc == 0 && paged && i < n; i++)
        rc = ll_buffer__verify(b, first.v + i, bytes + i * b->page_size, err);
    return rc;
}

/* ---- growing ---- */

static int write_zeros(struct ll_buffer *b, struct lladd_file *file, uint64_t from, uint64_t to)
{
    enum { CHUNK = 256 << 10 };
    size_t chunk = CHUNK > b->page_size ? CHUNK : b->page_size;
    void *zeros = ll_alloc_zero(b->env, chunk);
    if (!zeros)
        return -ENOMEM;
    int rc = 0;
    for (uint64_t at = from; rc == 0 && at < to; at += chunk) {
        size_t len = to - at < chunk ? (size_t)(to - at) : chunk;
        rc = ll_io_pwrite(b->cfg.dev, file, zeros, len, at);
    }
    ll_free(b->env, zeros);
    return rc;
}

int ll_buffer__grow(struct ll_buffer *b, struct lladd_file *file, uint64_t from, uint64_t to)
{
    int rc = ll_io_allocate(b->cfg.dev, file, to);
    if (rc == -EOPNOTSUPP)
        rc = write_zeros(b, file, from, to);
    /* Releases the blocks that were already allocated. If the truncation fails too, the file has
     * unused zeros at its end, which are harmless. */
    if (rc != 0)
        (void)ll_io_truncate(b->cfg.dev, file, from);
    return rc;
}

/* The growth is noted as a write before another thread can see the new length. So a checkpoint that
 * states the new length does not omit its sync. */
static int grow_file(struct ll_buffer *b, uint64_t pages)
{
    int rc = 0;
    lladd_mutex_lock(&b->grow_latch);
    uint64_t had = b->file_pages;
    if (pages > had) {
        rc = ll_buffer__grow(b, b->file, had * b->page_size, pages * b->page_size);
        if (rc == 0) {
            ll_buffer__note_write(b);
            lladd_atomic_store64(&b->file_pages, pages);
        }
    }
    lladd_mutex_unlock(&b->grow_latch);
    return rc;
}

int ll_buffer_extend(struct ll_buffer *b, uint64_t pages, struct lladd_error *err)
{
    int rc = ll_buffer__check(b, err);
    if (rc == 0)
        rc = check_range(b, 0, pages, ll_buffer__page_limit(b), err);
    /* The file may be long enough because another thread has extended it and not synced yet. Then
     * this thread syncs, too, because its caller may log records that name the new pages. */
    bool grows = pages > lladd_atomic_load64(&b->file_pages);
    if (rc != 0 || (!grows && pages <= lladd_atomic_load64(&b->page_count)))
        return rc;
    if (grows) {
        rc = grow_file(b, pages);
        if (rc == 0)
            rc = ll_point(b->env, "buffer.extend.grown");
        if (rc != 0) {
            if (lladd_code_root(ll_io_code(rc, true)) == LLADD_ROOT_RESOURCE)
                return ll_fail_io(err, rc, true, "extend", b->cfg.name);
            return ll_buffer__poison(b, rc, "extend", b->cfg.name, err);
        }
    }
    rc = ll_buffer_sync(b, err);
    if (rc == 0)
        lladd_atomic_max64(&b->page_count, pages);
    return rc;
}

/* Cuts off an incomplete last page: on a full disk there may be no space to complete it. No log
 * record names this page, because the call that was extending the file had not returned. */
static int cut_incomplete(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t size = 0, had = b->file_pages;
    int io = ll_io_size(b->cfg.dev, b->file, &size);
    uint64_t whole = size / b->page_size;
    if (io == 0 && whole < had)
        io = ll_io_truncate(b->cfg.dev, b->file, whole * b->page_size);
    if (io != 0)
        return ll_buffer__poison(b, io, "cut", b->cfg.name, err);
    if (whole < had) {
        ll_buffer__note_write(b);
        lladd_atomic_store64(&b->file_pages, whole);
        if (lladd_atomic_load64(&b->page_count) == had)
            lladd_atomic_store64(&b->page_count, whole);
    }
    return 0;
}

/* Rewrites the last page as it is. If the file's length is only in the system's cache, the
 * following sync then makes the length durable. If the page cannot be read, the file gets longer
 * and shorter again instead. */
static int rewrite_last(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t last = b->file_pages - 1;
    void *bytes = ll_alloc(b->env, b->page_size);
    if (!bytes)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in recovery");
    int rc = ll_buffer__read_pages(b, last, 1, bytes, err);
    int io = 0;
    if (rc == 0) {
        io = ll_io_pwrite(b->cfg.dev, b->file, bytes, b->page_size, last * b->page_size);
    } else if (rc == LLADD_READ_FAILED &&
               ll_io_truncate(b->cfg.dev, b->file, (last + 2) * b->page_size) == 0) {
        io = ll_io_truncate(b->cfg.dev, b->file, (last + 1) * b->page_size);
        rc = 0;
    }
    if (rc == 0)
        ll_buffer__note_write(b);
    if (io != 0)
        rc = ll_buffer__poison(b, io, "write to", b->cfg.name, err);
    ll_free(b->env, bytes);
    return rc;
}

int ll_buffer_confirm_end(struct ll_buffer *b, uint64_t pages, struct lladd_error *err)
{
    int rc = ll_buffer__check(b, err);
    if (rc == 0 && b->file_pages > pages)
        rc = cut_incomplete(b, err);
    if (rc != 0 || b->file_pages <= pages)
        return rc;
    /* Allocates the blocks again: if an earlier sync failed, the blocks may not be durable. A lack
     * of space is no error here. Pages without blocks are rare; when there is no space, a write of
     * such a page fails. */
    int io = ll_io_allocate(b->cfg.dev, b->file, b->file_pages * b->page_size);
    if (io != 0 && io != -EOPNOTSUPP &&
        lladd_code_root(ll_io_code(io, true)) != LLADD_ROOT_RESOURCE)
        return ll_buffer__poison(b, io, "extend", b->cfg.name, err);
    rc = rewrite_last(b, err);
    return rc == 0 ? ll_buffer_sync(b, err) : rc;
}

/* ---- prefetching ---- */

static bool is_cached(struct ll_buffer *b, uint64_t n)
{
    const struct ll_frame *f = ll_buffer__find(b, n);
    return f && (lladd_atomic_load64(&f->latch) & LATCH_STATE) != LATCH_FREE;
}

void ll_buffer_prefetch(struct ll_buffer *b, lladd_pageno first, uint64_t n)
{
    uint64_t end = lladd_atomic_load64(&b->page_count);
    if (first.v >= end || !b->cfg.dev->ops->prefetch || ll_poisoned(b->poison))
        return;
    if (n < end - first.v)
        end = first.v + n;
    for (uint64_t at = first.v; at < end;) {
        uint64_t from = at;
        while (at < end && !is_cached(b, at))
            at++;
        if (at > from)
            ll_io_prefetch(b->cfg.dev, b->file, from * b->page_size, (at - from) * b->page_size);
        else
            at++;
    }
}
