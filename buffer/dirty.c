/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dirty: the dirty page table. Its two halves are the dirty frames and the copies in flight.
 *
 * Dirty frames. rec_lsn in a frame says whether the frame is dirty, and from which LSN on. A queue
 * of slots, approximately in recLSN order, leads to the dirty frames. A thread that dirties a clean
 * page pushes the page's slot onto a stack without dirty_latch. A reader of the table moves the
 * stack to the end of the queue, under dirty_latch. `listed` says that a slot is in the stack or
 * the queue, so that no slot is entered twice. When a frame becomes clean, its slot stays in the
 * queue until a reader of the table removes it.
 *
 * A frame may become dirty while a reader removes its slot. The reader first clears `listed`, then
 * reads rec_lsn again. The thread that dirties the frame first sets rec_lsn, then exchanges
 * `listed`. Both threads exchange the same word, so one of them reads the change of the other.
 * Either the thread finds the slot not listed and pushes it, or the reader finds the frame dirty.
 *
 * In flight. Each copy taken for writing has an entry until the copy is durable, its write is
 * cancelled, or the page is dropped. A page can have several entries, and can be dirty too; the
 * frame and all entries count (BUF-5). When the set has many entries, the written entries are
 * summed up, because only their smallest recLSN is needed. This bounds the set without a sync.
 *
 * A reader holds dirty_latch while it reads both halves, and a recLSN moves from a frame to an
 * entry under dirty_latch. So the reader misses no page that is in flight, and no dirty page with a
 * slot in the stack or the queue (BUF-4). Between the steps of ll_buffer__enter the slot of a dirty
 * frame may be in neither, which is harmless. If a transaction changes the page, it has not
 * reserved the record of the change yet. The reader has already read the log's tail, so the
 * record's LSN is not below that tail. If recovery has redone the page, redo of the page still
 * counts as pending.
 *
 * ll_buffer__in_flight_enter enters the copy and reads the horizon under dirty_latch, in one step,
 * and so decides whether the copy needs an image (BUF-5).
 *
 * Syncs are numbered. When a write is done, its entry gets the number of the last sync that has
 * begun. A sync that succeeds makes the writes with a smaller number durable.
 */
#include "buffer/buffer_private.h"

/* ---- becoming dirty ---- */

static void push(struct ll_buffer *b, uint32_t slot)
{
    struct ll_buffer__slot *s = ll_buffer__slot(b, slot);
    if (lladd_atomic_exchange32(&s->listed, 1) != 0)
        return;
    uint32_t head = lladd_atomic_load32(&b->dirty_head);
    do {
        s->next = head;
    } while (!lladd_atomic_cas32(&b->dirty_head, &head, slot + 1));
}

void ll_buffer__enter(struct ll_buffer *b, struct ll_frame *f, uint64_t lsn)
{
    lsn = lsn ? lsn : 1;
    uint64_t old = 0;
    /* If the frame is dirty already, it keeps the older of the two LSNs. */
    while (!lladd_atomic_cas64(&f->rec_lsn, &old, lsn)) {
        if (old != 0 && old <= lsn)
            return;
    }
    if (old != 0)
        return;
    (void)lladd_atomic_add64(&b->dirty_count, 1);
    push(b, f->slot);
}

void ll_buffer__forget_dirty(struct ll_buffer *b, struct ll_frame *f)
{
    if (lladd_atomic_exchange64(&f->rec_lsn, 0) != 0)
        (void)lladd_atomic_sub64(&b->dirty_count, 1);
}

uint64_t ll_buffer_dirty_count(const struct ll_buffer *b)
{
    return lladd_atomic_load64_relaxed(&b->dirty_count);
}

/* ---- the queue, under dirty_latch ---- */

static void drain(struct ll_buffer *b)
{
    uint32_t at = lladd_atomic_exchange32(&b->dirty_head, 0);
    uint32_t first = 0, last = at;
    while (at) { /* reverses the order: the slot pushed last is on top of the stack */
        struct ll_buffer__slot *s = ll_buffer__slot(b, at - 1);
        uint32_t below = s->next;
        s->next = first;
        first = at;
        at = below;
    }
    if (!first)
        return;
    if (b->queue_tail)
        ll_buffer__slot(b, b->queue_tail - 1)->next = first;
    else
        b->queue_head = first;
    b->queue_tail = last;
}

static struct ll_frame *dirty_page_of_slot(const struct ll_buffer *b, uint32_t slot)
{
    struct ll_frame *f = ll_buffer__page_of_slot(b, slot);
    return f && lladd_atomic_load64(&f->rec_lsn) != 0 ? f : NULL;
}

struct walk {
    uint32_t before, at, next; /* slot number + 1 */
};

static void walk_begin(struct ll_buffer *b, struct walk *w)
{
    drain(b);
    w->before = w->at = 0;
    w->next = b->queue_head;
}

/* Does the slot stay in the queue? After false the slot is not listed, or another thread has pushed
 * it onto the stack again. */
static bool stays(struct ll_buffer *b, uint32_t slot)
{
    struct ll_buffer__slot *s = ll_buffer__slot(b, slot);
    if (dirty_page_of_slot(b, slot))
        return true;
    (void)lladd_atomic_exchange32(&s->listed, 0);
    return dirty_page_of_slot(b, slot) && lladd_atomic_exchange32(&s->listed, 1) == 0;
}

/* Removes the slots of clean frames on the way. */
static struct ll_frame *walk_on(struct ll_buffer *b, struct walk *w)
{
    while (w->next) {
        if (w->at)
            w->before = w->at;
        w->at = w->next;
        w->next = ll_buffer__slot(b, w->at - 1)->next;
        if (stays(b, w->at - 1)) {
            struct ll_frame *f = dirty_page_of_slot(b, w->at - 1);
            if (f)
                return f;
            continue; /* the frame just became clean; the next walk removes its slot */
        }
        if (w->before)
            ll_buffer__slot(b, w->before - 1)->next = w->next;
        else
            b->queue_head = w->next;
        if (b->queue_tail == w->at)
            b->queue_tail = w->before;
        w->at = 0;
    }
    return NULL;
}

/* Is this base below the horizon, where redo starts or will start after the running checkpoint? If
 * it is, redo could not repair the page after a torn write. */
static bool is_old(const struct ll_buffer *b, uint64_t base)
{
    return b->cfg.dwb_name && !b->cfg.no_images && base < b->horizon &&
           !LLADD_PLANTED(LLADD_BUG_IMAGE);
}

void ll_buffer_protect(struct ll_buffer *b, lladd_lsn below)
{
    lladd_mutex_lock(&b->dirty_latch);
    if (below.v > b->horizon)
        b->horizon = below.v;
    lladd_mutex_unlock(&b->dirty_latch);
}

/* ---- reading the table ---- */

lladd_lsn ll_buffer_dirty_min(struct ll_buffer *b)
{
    uint64_t min = UINT64_MAX;
    struct walk w;
    lladd_mutex_lock(&b->dirty_latch);
    walk_begin(b, &w);
    for (struct ll_frame *f; (f = walk_on(b, &w)) != NULL;) {
        uint64_t rec = lladd_atomic_load64(&f->rec_lsn);
        min = rec != 0 && rec < min ? rec : min;
    }
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        min = e->rec_lsn < min ? e->rec_lsn : min;
    }
    for (const struct ll_buffer__sum *sum = b->sums; sum < b->sums + 2; sum++)
        min = sum->pages != 0 && sum->rec_lsn < min ? sum->rec_lsn : min;
    lladd_mutex_unlock(&b->dirty_latch);
    return lladd_lsn_of(min);
}

/* ---- what to write next ---- */

struct wanted {
    uint64_t rec_below, upto, newest;
};

static bool is_wanted(struct wanted *want, uint64_t rec)
{
    if (rec > want->upto || rec >= want->rec_below)
        return false;
    want->newest = rec > want->newest ? rec : want->newest;
    return true;
}

uint32_t ll_buffer__mark(struct ll_buffer *b, uint64_t rec_below, uint64_t *upto, uint64_t *n)
{
    struct wanted want = {rec_below, *upto, 0};
    struct walk w;
    *n = 0;
    lladd_mutex_lock(&b->dirty_latch);
    if (++b->flush_number == 0)
        b->flush_number = 1;
    walk_begin(b, &w);
    for (struct ll_frame *f; (f = walk_on(b, &w)) != NULL;) {
        uint64_t rec = lladd_atomic_load64(&f->rec_lsn);
        if (rec == 0 || !is_wanted(&want, rec))
            continue;
        ll_buffer__slot(b, w.at - 1)->mark = b->flush_number;
        ++*n;
    }
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        if (e->done == 0)
            (void)is_wanted(&want, e->rec_lsn);
    }
    uint32_t mark = b->flush_number;
    *upto = want.newest;
    lladd_mutex_unlock(&b->dirty_latch);
    return mark;
}

unsigned ll_buffer__take_marked(struct ll_buffer *b, uint32_t mark, struct ll_buffer__todo *out,
                                unsigned max)
{
    unsigned n = 0;
    struct walk w;
    lladd_mutex_lock(&b->dirty_latch);
    walk_begin(b, &w);
    for (struct ll_frame *f; n < max && (f = walk_on(b, &w)) != NULL;) {
        struct ll_buffer__slot *s = ll_buffer__slot(b, w.at - 1);
        if (mark ? s->mark != mark : !latch_unused(lladd_atomic_load64(&f->latch)))
            continue;
        s->mark = 0;
        out[n++] = ll_buffer__todo_of(f);
    }
    lladd_mutex_unlock(&b->dirty_latch);
    return n;
}

/* ---- in flight ---- */

void ll_buffer__dirty_init(struct ll_buffer *b)
{
    ll_vec_init(&b->in_flight, b->env, sizeof(struct ll_buffer__in_flight));
    /* With these numbers the first sync is not skipped: this sync must make durable what an earlier
     * process wrote and did not sync. */
    b->sync_number = b->synced = b->written = 1;
}

void ll_buffer__in_flight_unreserve(struct ll_buffer *b, unsigned n)
{
    lladd_mutex_lock(&b->dirty_latch);
    b->in_flight_reserved -= n;
    lladd_mutex_unlock(&b->dirty_latch);
}

bool ll_buffer__in_flight_enter(struct ll_buffer *b, struct ll_buffer__copy *c,
                                struct ll_images *images)
{
    uint64_t base = ll_page_base(c->bytes).v;
    bool early = LLADD_PLANTED(LLADD_BUG_HORIZON_EARLY) && !is_old(b, base);
    if (early)
        lladd_yield();
    lladd_mutex_lock(&b->dirty_latch);
    bool old = !early && is_old(b, base);
    if (old && !images) {
        lladd_mutex_unlock(&b->dirty_latch);
        return false;
    }
    c->dwb = old && images->area;
    c->image = old && !images->area;
    LL_ASSERT(b->in_flight_reserved > 0);
    b->in_flight_reserved--;
    struct ll_buffer__in_flight *e = ll_vec_push(&b->in_flight); /* reserved: cannot fail */
    c->id = ++b->in_flight_id;
    e->page = c->page;
    e->rec_lsn = c->rec_lsn;
    e->id = c->id;
    ll_buffer__forget_dirty(b, c->frame);
    lladd_mutex_unlock(&b->dirty_latch);
    if (!old && LLADD_PLANTED(LLADD_BUG_HORIZON_WAIT))
        lladd_yield();
    return true;
}

/* Index of the entry with this id. */
static size_t find(const struct ll_buffer *b, uint64_t id)
{
    return ll_lower_bound(b->in_flight.data, b->in_flight.len, b->in_flight.element, id);
}

void ll_buffer__in_flight_done(struct ll_buffer *b, const struct ll_buffer__copy *copies,
                               unsigned n, bool dwb)
{
    lladd_mutex_lock(&b->dirty_latch);
    b->written = b->sync_number;
    for (unsigned i = 0; i < n; i++) {
        if (copies[i].dwb != dwb)
            continue;
        struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, find(b, copies[i].id));
        LL_ASSERT(e->id == copies[i].id);
        e->done = b->sync_number;
    }
    lladd_mutex_unlock(&b->dirty_latch);
}

void ll_buffer__in_flight_cancel(struct ll_buffer *b, const struct ll_buffer__batch *batch)
{
    lladd_mutex_lock(&b->dirty_latch);
    for (unsigned i = 0; i < batch->n; i++) {
        const struct ll_buffer__copy *c = &batch->copies[i];
        ll_buffer__enter(b, c->frame, c->rec_lsn);
        ll_vec_remove(&b->in_flight, find(b, c->id));
    }
    lladd_mutex_unlock(&b->dirty_latch);
}

/* Under dirty_latch. */
static void sweep(struct ll_buffer *b,
                  bool (*keep)(const struct ll_buffer__in_flight *, uint64_t, uint64_t), uint64_t x,
                  uint64_t y)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        if (keep(e, x, y)) {
            struct ll_buffer__in_flight *to = ll_vec_at(&b->in_flight, kept++);
            *to = *e;
        }
    }
    ll_vec_truncate(&b->in_flight, kept);
}

static bool not_durable(const struct ll_buffer__in_flight *e, uint64_t number, uint64_t unused_)
{
    (void)unused_;
    return e->done == 0 || e->done >= number;
}

static bool outside(const struct ll_buffer__in_flight *e, uint64_t first, uint64_t n)
{
    return e->page < first || e->page - first >= n || e->done == 0;
}

void ll_buffer__in_flight_forget(struct ll_buffer *b, uint64_t first, uint64_t n)
{
    lladd_mutex_lock(&b->dirty_latch);
    sweep(b, outside, first, n);
    lladd_mutex_unlock(&b->dirty_latch);
}

static bool is_pending(const struct ll_buffer *b, uint64_t id)
{
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        if (e->id > id)
            break;
        if (e->done == 0)
            return true;
    }
    return false;
}

bool ll_buffer__in_flight_pending(struct ll_buffer *b, uint64_t *upto)
{
    lladd_mutex_lock(&b->dirty_latch);
    *upto = *upto ? *upto : b->in_flight_id;
    bool pending = is_pending(b, *upto);
    lladd_mutex_unlock(&b->dirty_latch);
    return pending;
}

uint64_t ll_buffer__in_flight_count(const struct ll_buffer *b)
{
    struct lladd_mutex *latch = (struct lladd_mutex *)&b->dirty_latch;
    lladd_mutex_lock(latch);
    uint64_t n = b->in_flight.len + b->sums[0].pages + b->sums[1].pages;
    lladd_mutex_unlock(latch);
    return n;
}

static void add(struct ll_buffer__sum *to, const struct ll_buffer__sum *more)
{
    bool first = to->pages == 0;
    to->rec_lsn = !first && to->rec_lsn < more->rec_lsn ? to->rec_lsn : more->rec_lsn;
    to->done = !first && to->done > more->done ? to->done : more->done;
    to->pages += more->pages;
}

/* Moves the written entries into two sums. If the newest sync that has begun succeeds, the entries
 * of sums[0] are durable; the entries of sums[1] need the next sync. (In a single sum, to which new
 * writes are added, the smallest recLSN would stay for ever.) */
static void sum_up(struct ll_buffer *b)
{
    struct ll_buffer__sum *sums = b->sums;
    if (sums[1].pages && sums[1].done != b->sync_number) {
        add(&sums[0], &sums[1]);
        sums[1].pages = 0;
    }
    for (size_t i = 0; i < b->in_flight.len; i++) {
        const struct ll_buffer__in_flight *e = ll_vec_at(&b->in_flight, i);
        struct ll_buffer__sum one = {1, e->rec_lsn, e->done};
        if (e->done)
            add(&sums[e->done == b->sync_number], &one);
    }
    sweep(b, not_durable, UINT64_MAX, 0);
}

bool ll_buffer__in_flight_full(struct ll_buffer *b)
{
    uint64_t limit = b->slot_max / 2;
    limit = limit < IN_FLIGHT_MIN ? IN_FLIGHT_MIN : limit;
    limit = limit > IN_FLIGHT_MAX ? IN_FLIGHT_MAX : limit;
    lladd_mutex_lock(&b->dirty_latch);
    if (b->in_flight.len >= limit)
        sum_up(b);
    bool full = b->in_flight.len >= limit;
    lladd_mutex_unlock(&b->dirty_latch);
    return full;
}

static int reserve(struct ll_buffer *b, unsigned n)
{
    int rc = ll_vec_reserve(&b->in_flight, b->in_flight.len + b->in_flight_reserved + n);
    if (rc == 0)
        b->in_flight_reserved += n;
    return rc;
}

int ll_buffer__in_flight_reserve(struct ll_buffer *b, unsigned n, struct lladd_error *err)
{
    lladd_mutex_lock(&b->dirty_latch);
    int rc = reserve(b, n);
    lladd_mutex_unlock(&b->dirty_latch);
    if (rc == 0)
        return 0;
    /* A sync frees entries and needs no memory. */
    rc = ll_buffer_sync(b, err);
    if (rc != 0)
        return rc;
    lladd_mutex_lock(&b->dirty_latch);
    sum_up(b);
    rc = reserve(b, n);
    bool others = rc != 0 && (b->in_flight_reserved > 0 || is_pending(b, UINT64_MAX));
    lladd_mutex_unlock(&b->dirty_latch);
    if (others)
        return 1;
    return rc == 0 ? 0 : ll_fail(err, rc, "no memory to remember pages being written");
}

/* ---- syncs ---- */

void ll_buffer__note_write(struct ll_buffer *b)
{
    lladd_mutex_lock(&b->dirty_latch);
    b->written = b->sync_number;
    lladd_mutex_unlock(&b->dirty_latch);
}

bool ll_buffer__sync_begin(struct ll_buffer *b, uint64_t *number)
{
    lladd_mutex_lock(&b->dirty_latch);
    bool needed = b->written >= b->synced;
    if (needed)
        *number = ++b->sync_number;
    lladd_mutex_unlock(&b->dirty_latch);
    return needed;
}

void ll_buffer__sync_end(struct ll_buffer *b, uint64_t number)
{
    lladd_mutex_lock(&b->dirty_latch);
    if (number > b->synced)
        b->synced = number;
    sweep(b, not_durable, number, 0);
    for (struct ll_buffer__sum *sum = b->sums; sum < b->sums + 2; sum++) {
        if (sum->done < number)
            sum->pages = 0;
    }
    lladd_mutex_unlock(&b->dirty_latch);
}
