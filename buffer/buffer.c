/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buffer: the pages of one file, cached within a byte budget.
 *
 * A page that no thread holds exclusively may be written at any time, even with uncommitted changes
 * (STEAL). No page has to be written at commit (NO-FORCE). The log makes this safe.
 *
 * Definitions.
 *   frame     descriptor of a cached page: its address, a state word (latch.h), its dirty state.
 *   fix       to latch a page, shared or exclusively. The page is then also pinned: it stays
 *             resident while a thread holds it.
 *   slot      the right to have one page resident. The budget limits the number of slots. The
 *             eviction clock visits slots, and the dirty queue links them.
 *   dirty     rec_lsn != 0: the page was changed after its last copy was taken for writing.
 *   in flight a copy was taken for writing and is not known to be durable. A page can be dirty and
 *             in flight; the dirty page table then lists the frame and each copy in flight.
 *   base      a page's newest full image or format record (BUF-5); baseLSN is the record's LSN.
 *   provider  the code that stores frames and pages. frames_reserved.c finds them by arithmetic in
 *             reserved address space. frames_heap.c finds them through a hash table; their memory
 *             is from the allocator.
 *
 * Invariants: BUF-1 to BUF-6, LOG-4 and API-1 (docs/wal-rules.md).
 *
 * On disk: docs/disk-format.md, "pages" and "dwb".
 *
 * Threads. Any thread may call the functions at any time, except open, start, close, and
 * ll_buffer_confirm_end, which recovery calls before redo. If env->threads is set, one thread of
 * this layer writes pages ahead of eviction (flush.c); otherwise ll_buffer_step does the same work.
 * A thread that needs room and finds no clean page writes pages itself.
 *
 * The files: buffer.c opens, closes and serves hits; load.c serves misses; evict.c makes room;
 * slots.c keeps the budget; frames_reserved.c and frames_heap.c store frames; latch.c latches
 * frames; dirty.c is the dirty page table; flush.c chooses the pages to write; writeback.c writes
 * pages; double_write.c protects such writes; verify.c checks pages that were read; write_history.c
 * records the page LSNs of writes; file.c has the operations that bypass the cache.
 */
#include "buffer/buffer_private.h"
#include "util/held.h"

#include <errno.h>
#include <limits.h>

/* ---- poison, events ---- */

int ll_buffer__poison(struct ll_buffer *b, int rc, const char *what, const char *name,
                      struct lladd_error *err)
{
    rc = ll_poison_set_io(b->poison, rc, what, name, err);
    ll_buffer__event(b);
    return rc;
}

void ll_buffer__event(struct ll_buffer *b)
{
    (void)lladd_atomic_add32(&b->events, 1);
    /* A thread that is about to sleep reads the new number, or is counted in event_sleepers. */
    if (lladd_atomic_look32(&b->event_sleepers) != 0)
        lladd_word_wake(&b->events, INT_MAX, UINT32_MAX);
}

void ll_buffer__await_event(struct ll_buffer *b, uint32_t seen)
{
    (void)lladd_atomic_add32(&b->event_sleepers, 1);
    ll_word_wait_with_credit("a page is written or read", &b->events, seen, UINT32_MAX, 0);
    (void)lladd_atomic_add32(&b->event_sleepers, UINT32_MAX);
}

/* ---- open and close ---- */

uint64_t ll_buffer__page_limit(const struct ll_buffer *b)
{
    return (uint64_t)INT64_MAX / b->page_size;
}

static int check_config(const struct ll_buffer_config *cfg, struct lladd_error *err)
{
    if (!cfg->env || !cfg->dev || !cfg->poison || !cfg->name || !cfg->recovery.may_write)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "buffer: incomplete configuration");
    if (cfg->page_size < LL_PAGE_SIZE_MIN || cfg->page_size > LL_PAGE_SIZE_MAX ||
        !ll_power_of_two(cfg->page_size))
        return ll_fail(err, LLADD_BAD_ARGUMENT, "page size %u is not a power of two from %u to %u",
                       cfg->page_size, LL_PAGE_SIZE_MIN, LL_PAGE_SIZE_MAX);
    return 0;
}

/* The cost of a resident page: the page, its slot, and an entry of the in-flight set. (The set has
 * entries for about half the slots, and grows by doubling.) In the heap the cost includes the frame
 * and four entries of the hash table. In a full cache at least a quarter of the table is in use. */
static uint64_t cost_of_page(const struct ll_buffer *b)
{
    uint64_t cost = sizeof(struct ll_buffer__slot) + sizeof(struct ll_buffer__in_flight);
    if (b->reserved)
        return cost + b->page_size;
    return cost + ll_heap__stride(b) + 4 * sizeof(struct ll_buffer__hash_entry);
}

static int divide_budget(struct ll_buffer *b, struct lladd_error *err)
{
    b->slot_bytes = cost_of_page(b);
    uint64_t pages = b->cfg.budget / b->slot_bytes;
    unsigned most = BATCH_BYTES / b->page_size;
    most = most < BATCH_MAX ? most : BATCH_MAX;
    uint64_t few = pages / 8 < RUN_MAX ? pages / 8 : RUN_MAX; /* if the cache is small */
    few = few < most / 8 ? few : most / 8;
    uint64_t part = pages / 64 > few ? pages / 64 : few;
    b->batch_capacity = part < most ? (unsigned)part : most;
    b->batch_capacity += b->batch_capacity == 0;

    b->bytes += sizeof *b + ll_buffer__batch_bytes(b, b->batch_capacity) +
                ll_buffer__history_bytes(&b->cfg) +
                2 * IN_FLIGHT_MIN * sizeof(struct ll_buffer__in_flight);
    /* The worst case with reserved address space: FRAMES_MIN pages, each alone in its group and
     * region (frames_reserved.c), and one of them in a new chunk. */
    uint64_t least = b->bytes + FRAMES_MIN * (b->slot_bytes + b->place_bytes) + b->claim_bytes;
    if (b->cfg.budget < least)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "a cache of %llu bytes has no room for %d pages of %u (%llu needed)",
                       (unsigned long long)b->cfg.budget, FRAMES_MIN, b->page_size,
                       (unsigned long long)least);
    pages = (b->cfg.budget - b->bytes) / b->slot_bytes;
    b->slot_max = pages < UINT32_MAX / 2 ? (uint32_t)pages : UINT32_MAX / 2;
    return 0;
}

/* Reserved address space makes hits cheaper, because a lookup is faster; heap frames make misses
 * cheaper. When a page is evicted from reserved address space, the kernel interrupts every
 * processor that runs a thread of this process. Loading the next page costs a page fault. */
static bool wants_reserved(const struct ll_buffer *b)
{
    if (b->cfg.frames != LL_FRAMES_AUTO)
        return b->cfg.frames == LL_FRAMES_RESERVED;
    return b->cfg.budget >= RESERVED_FROM &&
           lladd_atomic_load64(&b->file_pages) <= b->cfg.budget / b->page_size;
}

static int open_frames(struct ll_buffer *b, struct lladd_error *err)
{
    int rc = wants_reserved(b) ? ll_reserved__open(b, err) : 0;
    if (rc != 0 && b->cfg.frames == LL_FRAMES_RESERVED)
        return rc;
    if (!b->reserved)
        ll_heap__open(b);
    return divide_budget(b, err);
}

static int init_latches(struct ll_buffer *b)
{
    int rc = lladd_mutex_init(&b->slots_latch, BUFFER_RANK_SLOTS, "buffer slots");
    rc = rc ? rc : lladd_mutex_init(&b->dirty_latch, BUFFER_RANK_DIRTY, "dirty pages");
    rc = rc ? rc : lladd_mutex_init(&b->flush_latch, BUFFER_RANK_FLUSH, "buffer flush");
    rc = rc ? rc : lladd_mutex_init(&b->discard_latch, BUFFER_RANK_DISCARD, "buffer discard");
    rc = rc ? rc : lladd_mutex_init(&b->bulk_latch, LLADD_RANK_LEAF, "bulk writes");
    rc = rc ? rc : lladd_mutex_init(&b->grow_latch, BUFFER_RANK_GROW, "page file end");
    rc = rc ? rc : lladd_mutex_init(&b->sync_latch, BUFFER_RANK_SYNC, "page file sync");
    return rc ? rc : lladd_mutex_init(&b->dwb_latch, BUFFER_RANK_DWB, "double-write area");
}

static void destroy_latches(struct ll_buffer *b)
{
    lladd_mutex_destroy(&b->slots_latch);
    lladd_mutex_destroy(&b->dirty_latch);
    lladd_mutex_destroy(&b->flush_latch);
    lladd_mutex_destroy(&b->discard_latch);
    lladd_mutex_destroy(&b->bulk_latch);
    lladd_mutex_destroy(&b->grow_latch);
    lladd_mutex_destroy(&b->sync_latch);
    lladd_mutex_destroy(&b->dwb_latch);
}

static int open_file(struct ll_buffer *b, struct lladd_error *err)
{
    struct lladd_device *dev = b->cfg.dev;
    unsigned flags = b->cfg.create ? LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE : 0;
    int rc = dev->ops->open(dev, b->cfg.name, flags, &b->file);
    if (rc != 0) {
        b->file = NULL;
        if (rc == -ENOENT)
            return ll_fail(err, LLADD_MISSING_FILE, "the page file \"%s\" is missing", b->cfg.name);
        if (rc == -EEXIST)
            return ll_fail(err, LLADD_EXISTS, "\"%s\" exists already", b->cfg.name);
        return ll_fail_io(err, rc, false, "open", b->cfg.name);
    }
    uint64_t size = 0;
    rc = ll_io_size(dev, b->file, &size);
    if (rc != 0)
        return ll_fail_io(err, rc, false, "get the size of", b->cfg.name);
    /* A crash while the file grew may leave an incomplete last page. It counts as a page; its
     * missing bytes are read as zeros. */
    b->page_count = b->file_pages = size / b->page_size + (size % b->page_size != 0);
    return 0;
}

static int make_durable(struct ll_buffer *b, struct lladd_error *err)
{
    int rc = ll_io_sync(b->cfg.dev, b->file);
    if (rc != 0)
        return ll_fail_io(err, rc, true, "sync", b->cfg.name);
    rc = ll_io_sync_dir(b->cfg.dev, "");
    return rc == 0 ? 0 : ll_fail_io(err, rc, true, "sync the directory of", b->cfg.name);
}

/* Removes the files after a failed creation. The caller reports the first error, so an error of
 * unlink is ignored: the next attempt reports that the file exists. */
static void uncreate(struct ll_buffer *b)
{
    if (b->file)
        (void)b->cfg.dev->ops->unlink(b->cfg.dev, b->cfg.name);
    if (b->dwb)
        (void)b->cfg.dev->ops->unlink(b->cfg.dev, b->cfg.dwb_name);
}

static void release(struct ll_buffer *b)
{
    if (b->reserved)
        ll_reserved__close(b);
    else
        ll_heap__close(b);
    ll_buffer__slots_free(b);
    ll_buffer__batches_free(b);
    ll_buffer__history_free(b);
    ll_vec_free(&b->in_flight);
    ll_buffer__double_write_close(b);
    /* An error of close does not matter: everything that must be durable was synced. */
    if (b->file)
        (void)ll_io_close(b->cfg.dev, b->file);
    destroy_latches(b);
    ll_free(b->env, b);
}

static struct ll_buffer *new_buffer(const struct ll_buffer_config *cfg)
{
    size_t name_len = strlen(cfg->name) + 1;
    size_t dwb_len = cfg->dwb_name ? strlen(cfg->dwb_name) + 1 : 0;
    struct ll_buffer *b = ll_alloc_zero(cfg->env, sizeof *b + name_len + dwb_len);
    if (!b)
        return NULL;
    char *names = (char *)(b + 1);
    b->cfg = *cfg;
    b->env = cfg->env;
    b->poison = cfg->poison;
    b->page_size = cfg->page_size;
    b->page_shift = (uint8_t)__builtin_ctz(cfg->page_size);
    b->cfg.name = memcpy(names, cfg->name, name_len);
    if (cfg->dwb_name)
        b->cfg.dwb_name = memcpy(names + name_len, cfg->dwb_name, dwb_len);
    ll_buffer__dirty_init(b);
    ll_buffer__history_init(b);
    if (init_latches(b) != 0) {
        ll_free(cfg->env, b);
        return NULL;
    }
    return b;
}

int ll_buffer_open(const struct ll_buffer_config *cfg, struct ll_buffer **out,
                   struct lladd_error *err)
{
    int rc = check_config(cfg, err);
    if (rc != 0)
        return rc;
    struct ll_buffer *b = new_buffer(cfg);
    if (!b)
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for a buffer manager");
    rc = open_file(b, err);
    if (rc == 0)
        rc = open_frames(b, err);
    if (rc == 0 && cfg->create && cfg->dwb_name)
        rc = ll_buffer__double_write_create(b, err);
    if (rc == 0 && cfg->create)
        rc = make_durable(b, err);
    if (rc != 0) {
        if (cfg->create)
            uncreate(b);
        release(b);
        return rc;
    }
    *out = b;
    return 0;
}

void ll_buffer_close(struct ll_buffer *b)
{
    if (!b)
        return;
    ll_buffer__stop_writer(b);
    uint32_t slots = lladd_atomic_load32(&b->slot_count);
    for (uint32_t i = 0; b->cfg.evicted && i < slots; i++) {
        struct ll_frame *f = ll_buffer__page_of_slot(b, i);
        if (f && (lladd_atomic_load64(&f->latch) & LATCH_STATE) == LATCH_RESIDENT)
            b->cfg.evicted(b->cfg.ctx, f);
    }
    release(b);
}

/* ---- fixing ---- */

/* Called if a heap frame was reused for another page between lookup and latch. Drops the latch, and
 * fixes page n the slow way. */
__attribute__((noinline, cold)) static int fix_again(struct ll_buffer *b, struct ll_frame *f,
                                                     uint64_t n, unsigned how,
                                                     struct ll_frame **out, struct lladd_error *err)
{
    ll_buffer_unfix(b, f, how);
    return ll_buffer__fix_slow(b, n, how, out, err);
}

/* Prefetches the frame of page n, and returns the address of the page; NULL if the page is not
 * mapped. For heap frames it only returns NULL: a prefetch is useless if the lookup itself misses
 * the processor's cache. */
static inline const unsigned char *touch_frame(const struct ll_buffer *b, uint64_t n)
{
    uint64_t frames = b->reserved ? ll_reserved__frames(b, n) : 0;
    if (!frames)
        return NULL;
    __builtin_prefetch(&((struct ll_frame *)(uintptr_t)frames)[n & b->chunk_mask]);
    return ll_reserved__page(b, frames, n);
}

void ll_buffer_touch(const struct ll_buffer *b, lladd_pageno n, uint32_t offset)
{
    const unsigned char *page = offset < b->page_size ? touch_frame(b, n.v) : NULL;
    if (page)
        __builtin_prefetch(page + offset);
}

#define LINE 64u          /* size of a processor cache line */
#define TOUCHED_MOST 256u /* the processor itself prefetches the rest of a longer read */

void ll_buffer_touch_span(const struct ll_buffer *b, lladd_pageno n, uint32_t offset, uint32_t len)
{
    const unsigned char *page = touch_frame(b, n.v);
    if (!page)
        return;
    __builtin_prefetch(page);
    if (len == 0 || offset >= b->page_size)
        return;
    uint32_t last = len < b->page_size - offset ? offset + len - 1 : b->page_size - 1;
    __builtin_prefetch(page + offset);
    for (uint32_t at = offset + LINE; at < last && at < offset + TOUCHED_MOST; at += LINE)
        __builtin_prefetch(page + at);
    __builtin_prefetch(page + last);
}

/* Handles a plain hit only. The rest is not inlined, so that a hit needs no stack. */
int ll_buffer_fix(struct ll_buffer *b, lladd_pageno n, unsigned how, struct ll_frame **out,
                  struct lladd_error *err)
{
    struct ll_frame *f = ll_buffer__find(b, n.v);
    bool got = false;
    if (LL_LIKELY(f != NULL) && !ll_poisoned(b->poison)) {
        if (how == LL_FIX_SHARED)
            got = latch_try_shared(&f->latch);
        else if ((how & ~(unsigned)(LL_FIX_REDO | LL_FIX_BASE)) == LL_FIX_EXCLUSIVE)
            got = latch_try_exclusive(&f->latch);
    }
    if (LL_UNLIKELY(!got))
        return ll_buffer__fix_slow(b, n.v, how, out, err);
    if (LL_UNLIKELY(!ll_buffer__is_page(b, f, n.v)))
        return fix_again(b, f, n.v, how, out, err);
    *out = f;
    return 0;
}

void ll_buffer_expect(const struct ll_buffer *b, lladd_pageno n)
{
    const struct ll_frame *f = ll_buffer__find(b, n.v);
    if (LL_LIKELY(f != NULL))
        __builtin_prefetch(f, 1);
    /* With reserved address space ll_buffer__find has prefetched the page. In the heap the page
     * follows its frame. */
    if (!b->reserved && f)
        __builtin_prefetch(f + 1, 1);
}

/* ---- optimistic reads ---- */

/* A version is the frame's latch word and the number of frames released. The word alone is not
 * enough: after an eviction and a new load the word's fix count starts again at one. */
bool ll_buffer_read_begin(const struct ll_buffer *b, lladd_pageno n, struct lladd_read *out)
{
    const struct ll_frame *f = ll_buffer__find(b, n.v);
    if (LL_UNLIKELY(f == NULL) || ll_poisoned(b->poison))
        return false;
    out->evictions_ = &b->evictions;
    out->departed_ = lladd_atomic_load64(&b->evictions);
    out->version_ = &f->latch;
    out->was_ = lladd_atomic_load64(&f->latch);
    out->size = b->page_size;
    if (LL_UNLIKELY(!latch_may_read(out->was_)))
        return false;
    if (b->reserved) {
        out->bytes = ll_reserved__page(b, ll_reserved__frames(b, n.v), n.v);
        return true;
    }
    out->bytes = (const unsigned char *)(f + 1);
    return lladd_atomic_load64_relaxed(&f->page.number.v) == n.v;
}

bool ll_buffer_read_valid(const struct lladd_read *g)
{
    /* The copy was made with acquire loads (lladd_atomic_copy64), so the two loads below happen
     * after the copy. */
    uint64_t now = lladd_atomic_load64(g->version_);
    return LL_LIKELY(((now ^ g->was_) & LATCH_VERSION) == 0 &&
                     lladd_atomic_load64(g->evictions_) == g->departed_);
}

void ll_buffer_unfix(struct ll_buffer *b, struct ll_frame *f, unsigned how)
{
    (void)b;
    if (!(how & LL_FIX_EXCLUSIVE)) {
        latch_drop_shared(f);
        return;
    }
    latch_drop_exclusive(f);
}

bool ll_frame_exclusive(const struct ll_frame *f)
{
    return (lladd_atomic_load64(&f->latch) & LATCH_EXCLUSIVE) != 0;
}

void ll_buffer_dirty(struct ll_buffer *b, struct ll_frame *f, lladd_lsn frontier)
{
    LL_ASSERT(ll_frame_exclusive(f));
    if (LL_UNLIKELY(lladd_atomic_load64_relaxed(&f->rec_lsn) == 0))
        ll_buffer_enter(b, f, frontier);
}

void ll_buffer_enter(struct ll_buffer *b, struct ll_frame *f, lladd_lsn rec_lsn)
{
    if (f->image_lsn > ll_page_lsn(f->page.bytes).v && !LLADD_PLANTED(LLADD_BUG_IMAGE_HEADER)) {
        ll_page_set_lsn(f->page.bytes, lladd_lsn_of(f->image_lsn));
        ll_page_set_base(f->page.bytes, lladd_lsn_of(f->image_lsn));
    }
    ll_buffer__enter(b, f, rec_lsn.v);
}

/* ---- queries ---- */

uint64_t ll_buffer_file_pages(const struct ll_buffer *b)
{
    return lladd_atomic_load64(&b->file_pages);
}

int ll_buffer_want_address_space(struct ll_buffer *b, struct lladd_error *err)
{
    return b->reserved ? ll_reserved__want_pages(b, ll_buffer_page_count(b), err) : 0;
}

uint64_t ll_buffer_page_count(const struct ll_buffer *b)
{
    return lladd_atomic_load64(&b->page_count);
}

void ll_buffer_stats(const struct ll_buffer *b, struct ll_buffer_stats *out)
{
    memset(out, 0, sizeof *out);
    uint64_t fixes = lladd_atomic_load64(&b->count.fixes);
    uint32_t slots = lladd_atomic_load32(&b->slot_count);
    for (uint32_t i = 0; i < slots; i++) {
        const struct ll_frame *f = ll_buffer__page_of_slot(b, i);
        if (f)
            fixes += latch_fixes(lladd_atomic_load64(&f->latch));
    }
    out->misses = lladd_atomic_load64(&b->count.misses);
    out->hits = fixes > out->misses ? fixes - out->misses : 0;
    out->reads = lladd_atomic_load64(&b->count.reads);
    out->writes = lladd_atomic_load64(&b->count.writes);
    out->pages_written = lladd_atomic_load64(&b->count.pages_written);
    out->syncs = lladd_atomic_load64(&b->count.syncs);
    out->evictions = lladd_atomic_load64(&b->count.evictions);
    out->repairs = lladd_atomic_load64(&b->count.repairs);
    out->lost_writes = lladd_atomic_load64(&b->count.lost_writes);
    out->frames = b->slot_max;
    out->frames_used = lladd_atomic_load32(&b->slots_used);
    out->dirty = lladd_atomic_load64(&b->dirty_count);
    out->in_flight = ll_buffer__in_flight_count(b);
    out->bytes = lladd_atomic_load64(&b->bytes);
}
