/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writeback: writes dirty pages to the disk (BUF-1).
 *
 * A batch goes through these steps. Only the step `copy` latches pages, one at a time:
 *   images    get log credit for the images that pages need.
 *   copy      latch shared and set the frame's COPIED bit; copy the bytes; move the page from dirty
 *             to in flight, and decide about an image; append the image of the copy; unlatch.
 *             From now on the page may change again.
 *   seal      the page type's `flushed` may change the copy; add page number and checksum.
 *   force     make the log durable up to the newest page LSN among the copies.
 *   write     neighbouring pages in one call; the pages for the double-write area first.
 *   done      record the page LSNs (write_history.c), mark the entries in flight as written, clear
 *             the COPIED bits, wake the sleepers.
 *
 * COPIED prevents two errors. If the frame were evicted, a reader would get the old page from the
 * disk. If a second copy were taken, two writes of one page could reach the disk in the wrong
 * order.
 *
 * Images (BUF-5). ll_buffer__write_back first writes the pages that need no image. Then the number
 * of images that need log credit is known. Without credit it writes the pages that need an image
 * through the double-write area.
 *
 * A thread that needs room does not wait for a page latch, because it may hold page latches itself.
 * A flush and ll_buffer_write_range must write all their pages: they wait for latches, and hold no
 * latch meanwhile.
 *
 * Failure. If the log cannot be forced, no page was written, and the pages become dirty again with
 * their old recLSNs. (If an image was logged, the header of its page lacks the image's LSN. This is
 * harmless: only a poison makes the force fail after an image was logged, so no later change is
 * logged.)
 *
 * A write or sync that fails poisons the database (LOG-4). The entries then stay in flight until
 * the database is closed, so that the log that they need is not truncated.
 */
#include "buffer/buffer_private.h"

/* ---- batches ---- */

size_t ll_buffer__batch_bytes(const struct ll_buffer *b, unsigned capacity)
{
    return sizeof(struct ll_buffer__batch) +
           capacity * (sizeof(struct ll_buffer__copy) + b->page_size);
}

static struct ll_buffer__batch *new_batch(struct ll_buffer *b, unsigned capacity)
{
    size_t size = ll_buffer__batch_bytes(b, capacity);
    struct ll_buffer__batch *batch = ll_alloc(b->env, size);
    if (!batch)
        return NULL;
    batch->size = size;
    batch->capacity = capacity;
    batch->copies = (struct ll_buffer__copy *)(batch + 1);
    batch->bytes = (unsigned char *)(batch->copies + capacity);
    if (lladd_atomic_add32(&b->batch_count, 1) == 0)
        batch->size = 0; /* the first batch was charged at open */
    ll_buffer__charge(b, batch->size);
    return batch;
}

static void free_batch(struct ll_buffer *b, struct ll_buffer__batch *batch)
{
    ll_buffer__refund(b, batch->size);
    ll_free(b->env, batch);
}

/* Counts the batch in in_transit, because eviction may wait for the return of the batch. */
static struct ll_buffer__batch *get_batch(struct ll_buffer *b)
{
    lladd_mutex_lock(&b->slots_latch);
    struct ll_buffer__batch *batch = b->batches;
    if (batch)
        b->batches = batch->next;
    lladd_mutex_unlock(&b->slots_latch);
    if (!batch || batch->capacity < b->batch_capacity) {
        struct ll_buffer__batch *full = new_batch(b, b->batch_capacity);
        if (full && batch) {
            (void)lladd_atomic_add32(&b->batch_count, UINT32_MAX);
            free_batch(b, batch);
        }
        batch = full ? full : batch;
    }
    if (!batch)
        batch = new_batch(b, 1); /* memory is short */
    if (batch) {
        batch->n = batch->entered = 0;
        (void)lladd_atomic_add32(&b->in_transit, 1);
    }
    return batch;
}

/* Frees the batch if the batches take too much of the budget and this is not the last batch. */
static void put_batch(struct ll_buffer *b, struct ll_buffer__batch *batch)
{
    lladd_mutex_lock(&b->slots_latch); /* so that two threads do not drop the last two batches */
    uint64_t count = lladd_atomic_load32(&b->batch_count);
    bool keep = count == 1 || count * batch->size <= b->cfg.budget / 16;
    if (keep) {
        batch->next = b->batches;
        b->batches = batch;
    } else {
        (void)lladd_atomic_add32(&b->batch_count, UINT32_MAX);
    }
    lladd_mutex_unlock(&b->slots_latch);
    if (!keep)
        free_batch(b, batch);
    ll_buffer__slot_released(b);
}

int ll_buffer_want_memory(struct ll_buffer *b, struct lladd_error *err)
{
    uint32_t slot;
    int rc = ll_buffer__slot_take(b, &slot, err);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        ll_buffer__slot_put(b, slot);
        ll_buffer__slot_released(b);
    }
    rc = ll_buffer__double_write_ready(b, err);
    if (!rc)
        rc = ll_buffer__in_flight_reserve(b, b->batch_capacity, err);
    if (rc > 0)
        rc = ll_fail(err, LLADD_NO_MEMORY, "no memory to remember pages being written");
    if (rc)
        return rc;
    ll_buffer__in_flight_unreserve(b, b->batch_capacity);
    struct ll_buffer__batch *batch = get_batch(b);
    if (!batch) {
        ll_buffer__event(b); /* another thread may wait for the reservation */
        return ll_fail(err, LLADD_NO_MEMORY, "no memory to write pages back");
    }
    put_batch(b, batch);
    return 0;
}

void ll_buffer__batches_free(struct ll_buffer *b)
{
    while (b->batches) {
        struct ll_buffer__batch *next = b->batches->next;
        ll_free(b->env, b->batches);
        b->batches = next;
    }
}

/* ---- copy ---- */

enum copied { COPIED, NOT_DIRTY, IN_USE, OLD };

static enum copied hold_for_copy(struct ll_frame *f)
{
    uint64_t w = lladd_atomic_load64(&f->latch);
    do {
        uint64_t state = w & LATCH_STATE;
        if (state == LATCH_FREE)
            return NOT_DIRTY;
        /* Eviction takes a clean page; a drop may take a dirty page, which becomes resident again
         * if the drop fails. */
        if (state == LATCH_EVICTING)
            return lladd_atomic_load64(&f->rec_lsn) ? IN_USE : NOT_DIRTY;
        if (state == LATCH_LOADING || (w & (LATCH_EXCLUSIVE | LATCH_COPIED | LATCH_CROWDED)))
            return IN_USE;
    } while (!lladd_atomic_cas64(&f->latch, &w, (w | LATCH_COPIED) + LATCH_SHARED));
    return COPIED;
}

static void release_copied(struct ll_buffer *b, struct ll_frame *f)
{
    latch_drop_shared(f);
    (void)lladd_atomic_sub64(&f->latch, LATCH_COPIED);
    ll_buffer__event(b);
}

static void log_image(struct ll_buffer *b, const struct ll_buffer__copy *c,
                      struct ll_images *images)
{
    struct lladd_page copy = {c->bytes, b->page_size, 0, lladd_page_of(c->page)};
    b->cfg.recovery.image(b->cfg.recovery.ctx, images, &copy);
    c->frame->image_lsn = ll_page_lsn(c->bytes).v;
}

/* OLD: the page needs an image, and `images` is NULL. */
static enum copied copy_page(struct ll_buffer *b, struct ll_buffer__batch *batch,
                             struct ll_frame *f, struct ll_images *images)
{
    enum copied answer = hold_for_copy(f);
    if (answer != COPIED)
        return answer;
    uint64_t rec = lladd_atomic_load64(&f->rec_lsn);
    if (rec == 0) {
        release_copied(b, f);
        return NOT_DIRTY;
    }
    struct ll_buffer__copy *c = &batch->copies[batch->n];
    c->frame = f;
    c->page = f->page.number.v;
    c->rec_lsn = rec;
    c->bytes = batch->bytes + batch->n * (size_t)b->page_size;
    c->private_ = f->private_;
    memcpy(c->bytes, f->page.bytes, b->page_size);
    if (!ll_buffer__in_flight_enter(b, c, images)) {
        release_copied(b, f);
        return OLD;
    }
    bool late = c->image && LLADD_PLANTED(LLADD_BUG_IMAGE_LATE);
    if (late) {
        latch_drop_shared(f);
        lladd_yield();
    }
    if (c->image)
        log_image(b, c, images);
    batch->n++;
    batch->entered++;
    if (!late)
        latch_drop_shared(f);
    return COPIED;
}

/* ---- force, write ---- */

int ll_buffer__force_log(struct ll_buffer *b, uint64_t n, uint64_t lsn, lladd_lsn *durable,
                         struct lladd_error *err)
{
    const struct ll_page_recovery *r = &b->cfg.recovery;
    if (LLADD_PLANTED(LLADD_BUG_WAL_GATE))
        lsn = 0;
    return r->may_write(r->ctx, lladd_page_of(n), lladd_lsn_of(lsn), durable, err);
}

int ll_buffer__write_at(struct ll_buffer *b, const struct lladd_iovec *pieces, int count,
                        uint64_t first, uint64_t n)
{
    bool grows = first + n > lladd_atomic_load64(&b->file_pages);
    if (grows)
        lladd_mutex_lock(&b->grow_latch);
    int rc = ll_point(b->env, "buffer.write.before");
    if (rc == 0)
        rc = ll_io_pwritev(b->cfg.dev, b->file, pieces, count, first * b->page_size);
    if (rc == 0)
        rc = ll_point(b->env, "buffer.write.after");
    if (grows) {
        if (rc == 0) {
            ll_buffer__note_write(b); /* as in grow_file (file.c) */
            lladd_atomic_max64(&b->file_pages, first + n);
        }
        lladd_mutex_unlock(&b->grow_latch);
    }
    if (rc == 0) {
        lladd_atomic_count64(&b->count.writes, 1);
        lladd_atomic_count64(&b->count.pages_written, n);
    }
    return rc;
}

int ll_buffer__write_run(struct ll_buffer *b, const struct lladd_iovec *pieces, int count,
                         uint64_t first, uint64_t n, struct lladd_error *err)
{
    int rc = ll_buffer__write_at(b, pieces, count, first, n);
    return rc == 0 ? 0 : ll_buffer__poison(b, rc, "write to", b->cfg.name, err);
}

static const struct ll_buffer__copy *newest(const struct ll_buffer__batch *batch)
{
    const struct ll_buffer__copy *best = batch->copies;
    for (unsigned i = 1; i < batch->n; i++) {
        const struct ll_buffer__copy *c = &batch->copies[i];
        best = ll_page_lsn(c->bytes).v > ll_page_lsn(best->bytes).v ? c : best;
    }
    return best;
}

static void seal(struct ll_buffer *b, struct ll_buffer__batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++) {
        struct ll_buffer__copy *c = &batch->copies[i];
        if (b->cfg.flushed) {
            struct lladd_page page = {c->bytes, b->page_size, 0, lladd_page_of(c->page)};
            b->cfg.flushed(b->cfg.ctx, &page, c->private_);
        }
        ll_buffer__seal(b, c->page, c->bytes);
    }
}

static void observe_writes(const struct ll_buffer__batch *batch, lladd_lsn durable)
{
    for (unsigned i = 0; i < batch->n; i++)
        LLADD_OBSERVE(.what = LLADD_DST_PAGE_WRITE, .page = batch->copies[i].page,
                      .lsn = ll_page_lsn(batch->copies[i].bytes), .durable = durable);
}

/* Counts the copies from c on that have this value of `dwb` and consecutive page numbers: at most
 * n, and at most RUN_MAX. */
static unsigned next_run(const struct ll_buffer *b, const struct ll_buffer__copy *c, unsigned n,
                         bool dwb, struct lladd_iovec *pieces)
{
    unsigned run = 0;
    for (; run < n && run < RUN_MAX && c[run].dwb == dwb && c[run].page == c->page + run; run++) {
        pieces[run].data = c[run].bytes;
        pieces[run].len = b->page_size;
    }
    return run;
}

int ll_buffer__write_copies(struct ll_buffer *b, const struct ll_buffer__copy *copies, unsigned n,
                            bool dwb, struct lladd_error *err)
{
    struct lladd_iovec pieces[RUN_MAX];
    int rc = 0;
    for (unsigned i = 0, run; rc == 0 && i < n; i += run ? run : 1) {
        run = next_run(b, &copies[i], n - i, dwb, pieces);
        if (run)
            rc = ll_buffer__write_run(b, pieces, (int)run, copies[i].page, run, err);
    }
    return rc;
}

/* Called while COPIED is set: the page cannot be evicted and read again before this call. */
static void remember(struct ll_buffer *b, const struct ll_buffer__batch *batch)
{
    for (unsigned i = 0; i < batch->n; i++)
        ll_buffer__history_note(b, batch->copies[i].page, ll_page_lsn(batch->copies[i].bytes).v);
}

/* Does the steps from `seal` to `done`, and empties the batch. */
static int finish_batch(struct ll_buffer *b, struct ll_buffer__batch *batch,
                        struct lladd_error *err)
{
    if (batch->n == 0)
        return 0;
    seal(b, batch);
    int rc = ll_buffer__check(b, err);
    lladd_lsn durable = {0};
    const struct ll_buffer__copy *last = newest(batch);
    uint64_t lsn = ll_page_lsn(last->bytes).v;
    if (last->image && LLADD_PLANTED(LLADD_BUG_IMAGE_FORCE))
        lsn = 0;
    if (rc == 0)
        rc = ll_buffer__force_log(b, last->page, lsn, &durable, err);
    bool untouched = rc != 0;
    if (rc == 0)
        observe_writes(batch, durable);
    if (rc == 0)
        rc = ll_buffer__double_write(b, batch->copies, batch->n, err);
    if (rc == 0)
        rc = ll_buffer__write_copies(b, batch->copies, batch->n, false, err);
    if (rc == 0)
        remember(b, batch);
    if (rc == 0)
        ll_buffer__in_flight_done(b, batch->copies, batch->n, false);
    else if (untouched)
        ll_buffer__in_flight_cancel(b, batch);
    for (unsigned i = 0; i < batch->n; i++)
        (void)lladd_atomic_sub64(&batch->copies[i].frame->latch, LATCH_COPIED);
    batch->n = 0;
    ll_buffer__event(b);
    return rc;
}

/* ---- write_back ---- */

/* Waits until the frame may be copyable. Called without a page latch. */
static void await_copyable(struct ll_buffer *b, struct ll_frame *f)
{
    uint32_t seen = lladd_atomic_load32(&b->events);
    if (lladd_atomic_load64(&f->latch) & LATCH_COPIED)
        ll_buffer__await_event(b, seen);
    else
        latch_await_shareable(f);
}

static void end_images(struct ll_buffer *b, struct ll_images *images)
{
    if (b->cfg.recovery.images)
        b->cfg.recovery.images_end(b->cfg.recovery.ctx, images);
}

/* The pages to be written. Those that need an image are left in `todo` at first. */
struct work {
    struct ll_buffer__todo *todo;
    unsigned n, at; /* todo[at] is next */
    unsigned old;   /* number of pages at the beginning of `todo` that need an image */
    enum ll_buffer__writer writer;
    bool protect; /* `todo` has only pages that need an image */
    struct ll_images images;
};

/* Writes pages from w->at up to `end` and advances w->at. Stops when the batch is full, because
 * credit must not be held while the log is forced. A writer that must write all pages stops before
 * a page that cannot be latched now. */
static int write_some(struct ll_buffer *b, struct ll_buffer__batch *batch, struct work *w,
                      unsigned end, struct lladd_error *err)
{
    for (; batch->n < batch->capacity && w->at < end; ++w->at) {
        struct ll_buffer__todo next = w->todo[w->at];
        enum copied is = copy_page(b, batch, next.frame, w->protect ? &w->images : NULL);
        if (is == OLD)
            w->todo[w->old++] = next;
        if (is == IN_USE && (w->writer == LL_BUFFER__FLUSHES || w->writer == LL_BUFFER__SETTLES))
            break;
    }
    if (w->protect)
        end_images(b, &w->images);
    return finish_batch(b, batch, err);
}

/* Called before the batch is taken: this call may wait for log credit, and a thread with log credit
 * may wait for a batch. */
static int begin_images(struct ll_buffer *b, struct work *w, struct lladd_error *err)
{
    const struct ll_page_recovery *r = &b->cfg.recovery;
    unsigned n = w->n - w->at < b->batch_capacity ? w->n - w->at : b->batch_capacity;
    w->images = (struct ll_images){0};
    bool wait = w->writer == LL_BUFFER__STEPS || w->writer == LL_BUFFER__FLUSHES ||
                LLADD_PLANTED(LLADD_BUG_IMAGE_WAIT);
    int rc = r->images ? r->images(r->ctx, n, wait, &w->images, err) : 0;
    w->images.area = w->images.n == 0;
    return rc;
}

static int write_all(struct ll_buffer *b, struct work *w, unsigned *written,
                     struct lladd_error *err)
{
    int rc = 0;
    while (rc == 0 && w->at < w->n) {
        uint32_t seen = lladd_atomic_load32(&b->events);
        if (w->protect && (rc = begin_images(b, w, err)) != 0)
            return rc;
        unsigned before = w->at, reserved = w->n - w->at;
        if (w->protect && !w->images.area && reserved > w->images.n)
            reserved = w->images.n;
        rc = ll_buffer__in_flight_reserve(b, reserved, err);
        struct ll_buffer__batch *batch = rc == 0 ? get_batch(b) : NULL;
        if (rc == 0 && !batch)
            ll_buffer__in_flight_unreserve(b, reserved);
        if (!batch && w->protect)
            end_images(b, &w->images);
        if (rc < 0)
            return rc;
        /* This wait ends: a thread with a batch waits for no page latch, and it returns batch and
         * reservation with an event (REC-3). */
        if (rc > 0 || (!batch && lladd_atomic_load32(&b->batch_count) > 0)) {
            ll_buffer__await_event(b, seen);
            rc = ll_buffer__check(b, err);
            continue;
        }
        if (!batch) {
            ll_buffer__event(b); /* another thread may wait for the reservation */
            return ll_fail(err, LLADD_NO_MEMORY, "no memory for copies of pages to be written");
        }
        rc = write_some(b, batch, w, before + reserved, err);
        *written += batch->entered;
        ll_buffer__in_flight_unreserve(b, reserved - batch->entered);
        put_batch(b, batch);
        if (rc == 0 && w->at == before && (rc = ll_buffer__check(b, err)) == 0)
            await_copyable(b, w->todo[w->at].frame);
    }
    return rc;
}

int ll_buffer__write_back(struct ll_buffer *b, struct ll_buffer__todo *todo, unsigned n,
                          enum ll_buffer__writer writer, unsigned *written, struct lladd_error *err)
{
    struct work w = {.todo = todo, .n = n, .writer = writer};
    *written = 0;
    int rc = ll_buffer__in_flight_full(b) ? ll_buffer_sync(b, err) : 0;
    if (rc == 0)
        rc = ll_buffer__double_write_ready(b, err); /* here, because only a poison may fail a
                                                     * batch */
    if (rc != 0)
        return rc;
    ll_buffer__sort_by_page(todo, n);
    rc = write_all(b, &w, written, err);
    if (rc != 0 || w.old == 0)
        return rc;
    w = (struct work){.todo = todo, .n = w.old, .writer = writer, .protect = true};
    return write_all(b, &w, written, err);
}
