/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush: makes pages durable for checkpoints; syncs; the background writer.
 *
 * A flush marks, in one pass over the dirty page table, the pages that it must write. Then it takes
 * the marked pages in portions, each sorted by page number so that neighbours are written in one
 * call. Pages dirtied later have no mark, so a flush ends even if pages are changed all the time.
 * Another thread may be writing a copy of a marked page, so the flush waits, before it syncs, until
 * the copies taken so far are written. If the other thread could not write its copy, the page is
 * dirty again with its old recLSN. The flush therefore repeats, for pages with a recLSN up to the
 * greatest recLSN of the marked pages, until a pass finds no page.
 *
 * Syncs of the page file run one at a time. If two syncs ran together on a failing disk, the system
 * could report the error to only one of them (LOG-4).
 */
#include "buffer/buffer_private.h"

#include <limits.h>

/* ---- sync ---- */

int ll_buffer_sync(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t number;
    int rc = ll_buffer__check(b, err);
    if (rc != 0 || !ll_buffer__sync_begin(b, &number))
        return rc;
    lladd_mutex_lock(&b->sync_latch);
    rc = ll_buffer__check(b, err);
    if (rc == 0) {
        rc = ll_point(b->env, "buffer.sync.before");
        if (rc == 0)
            rc = ll_io_sync(b->cfg.dev, b->file);
        if (LLADD_PLANTED(LLADD_BUG_PAGE_SYNC_ERROR))
            rc = 0;
        if (rc != 0)
            rc = ll_buffer__poison(b, rc, "sync", b->cfg.name, err);
    }
    lladd_mutex_unlock(&b->sync_latch);
    if (rc == 0) {
        lladd_atomic_count64(&b->count.syncs, 1);
        ll_buffer__sync_end(b, number);
    }
    return rc;
}

/* ---- flush ---- */

/* A shell sort: it needs no memory, and the lists are short and partly ordered. */
void ll_buffer__sort_by_page(struct ll_buffer__todo *todo, unsigned n)
{
    for (unsigned gap = n / 2; gap > 0; gap /= 2) {
        for (unsigned i = gap; i < n; i++) {
            struct ll_buffer__todo t = todo[i];
            unsigned k = i;
            for (; k >= gap && todo[k - gap].page > t.page; k -= gap)
                todo[k] = todo[k - gap];
            todo[k] = t;
        }
    }
}

/* Other flushes may run in the pause. Such a flush may replace the mark of a page with another
 * mark, and then fail to write the page; the next pass of this flush finds that page. */
static void note_written(struct ll_buffer *b, struct ll_flush *flush, unsigned n)
{
    (void)lladd_atomic_add64(&flush->written, n);
    if (!flush->pace)
        return;
    lladd_mutex_unlock(&b->flush_latch);
    flush->pace(flush->ctx);
    lladd_mutex_lock(&b->flush_latch);
}

static int write_marked(struct ll_buffer *b, uint32_t mark, struct ll_buffer__todo *portion,
                        unsigned max, struct ll_flush *flush, struct lladd_error *err)
{
    for (;;) {
        unsigned n = ll_buffer__take_marked(b, mark, portion, max);
        if (n == 0)
            return 0;
        ll_buffer__sort_by_page(portion, n);
        for (unsigned i = 0; i < n; i += b->batch_capacity) {
            unsigned some = n - i < b->batch_capacity ? n - i : b->batch_capacity;
            unsigned written;
            int rc = ll_buffer__write_back(b, portion + i, some, LL_BUFFER__FLUSHES, &written, err);
            if (rc != 0)
                return rc;
            note_written(b, flush, some);
        }
    }
}

static int await_writes(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t newest = 0;
    for (;;) {
        uint32_t seen = lladd_atomic_load32(&b->events);
        int rc = ll_buffer__check(b, err);
        if (rc != 0 || !ll_buffer__in_flight_pending(b, &newest))
            return rc;
        ll_buffer__await_event(b, seen);
    }
}

static int write_older(struct ll_buffer *b, lladd_lsn rec_below, uint64_t *upto,
                       struct ll_flush *flush, struct lladd_error *err)
{
    enum { PORTION = 2048 };
    struct ll_buffer__todo few[RUN_MAX]; /* an application's thread may have a small stack */
    struct ll_buffer__todo *many = NULL;
    if (lladd_atomic_load64(&b->dirty_count) > RUN_MAX)
        many = ll_alloc(b->env, PORTION * sizeof *many); /* if this fails, portions are small */

    lladd_mutex_lock(&b->flush_latch);
    uint64_t pages;
    uint32_t mark = ll_buffer__mark(b, rec_below.v, upto, &pages);
    (void)lladd_atomic_add64(&flush->pages, pages);
    int rc = write_marked(b, mark, many ? many : few, many ? PORTION : RUN_MAX, flush, err);
    lladd_mutex_unlock(&b->flush_latch);
    ll_free(b->env, many);
    return rc == 0 && *upto && !LLADD_PLANTED(LLADD_BUG_IN_FLIGHT) ? await_writes(b, err) : rc;
}

static int write_all_older(struct ll_buffer *b, lladd_lsn rec_below, struct ll_flush *flush,
                           struct lladd_error *err)
{
    uint64_t upto = UINT64_MAX;
    int rc = ll_buffer__check(b, err);
    if (rc != 0)
        return rc;
    do
        rc = write_older(b, rec_below, &upto, flush, err);
    while (rc == 0 && upto && !LLADD_PLANTED(LLADD_BUG_IN_FLIGHT));
    return rc;
}

int ll_buffer_flush(struct ll_buffer *b, lladd_lsn rec_below, struct lladd_error *err)
{
    struct ll_flush unwatched = {0};
    int rc = write_all_older(b, rec_below, &unwatched, err);
    return rc == 0 ? ll_buffer_sync(b, err) : rc;
}

/* While write_all_older writes pages, redo starts at its old place. So a page with a base after
 * that place needs no image, even if the base is below the new start. After ll_buffer_protect a
 * page with a base below the horizon is protected when it is copied; await_writes waits for the
 * writes of the copies that were taken before. */
int ll_buffer_flush_below(struct ll_buffer *b, lladd_lsn horizon, struct ll_flush *flush,
                          struct lladd_error *err)
{
    int rc = write_all_older(b, horizon, flush, err);
    if (rc == 0) {
        ll_buffer_protect(b, horizon);
        if (!LLADD_PLANTED(LLADD_BUG_IN_FLIGHT) && !LLADD_PLANTED(LLADD_BUG_HORIZON_WAIT))
            rc = await_writes(b, err);
    }
    return rc == 0 ? ll_buffer_sync(b, err) : rc;
}

/* ---- background writing ---- */

/* Is at least 15/16 of the budget used, and more than an eighth of the cached pages dirty? */
static bool should_write(const struct ll_buffer *b)
{
    uint64_t budget = b->cfg.budget;
    return lladd_atomic_load64(&b->bytes) + budget / 16 >= budget &&
           lladd_atomic_load64(&b->dirty_count) * 8 > lladd_atomic_load32(&b->slots_used);
}

/* Finds idle dirty pages in the quarter of the slots that the eviction clock reaches next. */
static unsigned look_ahead(struct ll_buffer *b, struct ll_buffer__todo *out, unsigned max)
{
    uint32_t slots = lladd_atomic_load32(&b->slot_count);
    uint64_t hand = lladd_atomic_load64(&b->hand);
    unsigned n = 0;
    for (uint32_t i = 0; i < slots / 4 && n < max; i++) {
        struct ll_frame *f = ll_buffer__page_of_slot(b, (uint32_t)((hand + i) % slots));
        if (f && latch_unused(lladd_atomic_load64(&f->latch)) && lladd_atomic_load64(&f->rec_lsn))
            out[n++] = ll_buffer__todo_of(f);
    }
    return n;
}

int ll_buffer_step(struct ll_buffer *b, bool *more, struct lladd_error *err)
{
    *more = false;
    int rc = ll_buffer__check(b, err);
    if (rc != 0)
        return rc;
    if (ll_buffer__in_flight_full(b)) {
        *more = true;
        return ll_buffer_sync(b, err);
    }
    if (!should_write(b))
        return 0;
    struct ll_buffer__todo few[RUN_MAX], *many = NULL;
    unsigned written = 0, most = b->batch_capacity;
    if (most > RUN_MAX && !(many = ll_alloc(b->env, most * sizeof *many)))
        most = RUN_MAX;
    struct ll_buffer__todo *todo = many ? many : few;
    unsigned n = look_ahead(b, todo, most);
    if (n == 0)
        n = ll_buffer__take_marked(b, 0, todo, most);
    if (n > 0)
        rc = ll_buffer__write_back(b, todo, n, LL_BUFFER__STEPS, &written, err);
    ll_free(b->env, many);
    *more = rc == 0 && written > 0 && should_write(b);
    return rc;
}

/* The writer's thread. It ignores failures: a later call that needs room or makes a checkpoint
 * reports them. */
static void *start_writeback(void *arg)
{
    struct ll_buffer *b = arg;
    for (;;) {
        uint32_t seen = lladd_atomic_load32(&b->writer_word);
        if (lladd_atomic_load32(&b->writer_stop))
            return NULL;
        bool more;
        if (ll_buffer_step(b, &more, NULL) == 0 && more)
            continue;
        (void)lladd_atomic_exchange32(&b->writer_asleep, 1);
        lladd_word_wait_as("pages to write", &b->writer_word, seen, UINT32_MAX, 0);
        lladd_atomic_store32(&b->writer_asleep, 0);
    }
}

void ll_buffer__wake_writer(struct ll_buffer *b)
{
    (void)lladd_atomic_add32(&b->writer_word, 1);
    /* Either the writer sees the changed word, or this thread sees writer_asleep. */
    if (lladd_atomic_look32(&b->writer_asleep) != 0)
        lladd_word_wake(&b->writer_word, INT_MAX, UINT32_MAX);
}

int ll_buffer_start(struct ll_buffer *b, struct lladd_error *err)
{
    if (!b->env->threads || b->writer.started)
        return 0;
    int rc = lladd_thread_start(&b->writer, start_writeback, b);
    return rc == 0 ? 0 : ll_fail(err, rc, "cannot start the page writer");
}

void ll_buffer__stop_writer(struct ll_buffer *b)
{
    lladd_atomic_store32(&b->writer_stop, 1);
    ll_buffer__wake_writer(b);
    lladd_thread_join(&b->writer);
}
