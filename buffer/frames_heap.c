/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames_heap: frames and pages from the allocator, found through a hash table.
 *
 * This provider is for small budgets, for 32-bit machines, for pages smaller than an operating
 * system page, and for programs that open thousands of databases. It allocates no frame before the
 * first page is fixed.
 *
 * A frame is directly before its page, so the two cache lines that a fix reads are neighbours. The
 * distance between pages is then not a power of two, so page headers do not compete for the same
 * set of the processor's cache.
 *
 * The hash table uses open addressing with linear probing. It is at most about half full, unless
 * there was no memory to grow it. Threads change it under slots_latch. ll_heap__find takes no
 * latch, so the table may change during its lookup:
 * - An entry is being moved back. The lookup may miss the page; the slow path repeats the lookup
 *   under the latch.
 * - An entry is being reused. The lookup may return the frame of another page. A caller that
 *   latches the frame checks its page number, which cannot change while the latch is held.
 * - The table has been replaced. Old tables are kept until the buffer is closed, so at worst the
 *   lookup reads outdated entries. All old tables together are smaller than the current one.
 */
#include "buffer/buffer_private.h"

void ll_heap__open(struct ll_buffer *b)
{
    b->first_hash.entries = b->first_entries;
    b->first_hash.mask = HASH_INLINE - 1;
    b->first_hash.shift = 64 - (unsigned)__builtin_ctz(HASH_INLINE);
    b->hash = (uintptr_t)&b->first_hash;
}

static struct ll_buffer__hash *table(const struct ll_buffer *b)
{
    return (struct ll_buffer__hash *)(uintptr_t)lladd_atomic_load64(&b->hash);
}

void ll_heap__close(struct ll_buffer *b)
{
    for (struct ll_buffer__hash *h = table(b); h && h != &b->first_hash;) {
        struct ll_buffer__hash *older = h->retired;
        ll_free(b->env, h);
        h = older;
    }
}

/* The entry of page n, or the free entry for page n. Under slots_latch. */
static struct ll_buffer__hash_entry *place_of(struct ll_buffer__hash *h, uint64_t n)
{
    for (uint64_t i = ll_heap__home(h, n);; i++) {
        struct ll_buffer__hash_entry *e = &h->entries[i & h->mask];
        if (!e->frame || e->page == n)
            return e;
    }
}

static void set(struct ll_buffer__hash_entry *e, uint64_t page, uint64_t frame)
{
    lladd_atomic_store64_relaxed(&e->page, page);
    lladd_atomic_store64(&e->frame, frame);
}

/* Without memory for a larger table the present table stays in use. insert never fills the last
 * free entry, because every search ends at a free entry. */
static int grow(struct ll_buffer *b)
{
    struct ll_buffer__hash *old = table(b);
    uint64_t count = 2 * (old->mask + 1);
    if (count > (SIZE_MAX - sizeof *old) / sizeof(struct ll_buffer__hash_entry))
        return LLADD_NO_MEMORY;
    size_t bytes = sizeof *old + (size_t)count * sizeof(struct ll_buffer__hash_entry);
    struct ll_buffer__hash *h = ll_alloc_zero(b->env, bytes);
    if (!h)
        return LLADD_NO_MEMORY;
    h->entries = (struct ll_buffer__hash_entry *)(h + 1);
    h->mask = count - 1;
    h->shift = old->shift - 1;
    h->retired = old;
    for (uint64_t i = 0; i <= old->mask; i++) {
        const struct ll_buffer__hash_entry *e = &old->entries[i];
        if (e->frame)
            set(place_of(h, e->page), e->page, e->frame);
    }
    lladd_atomic_store64(&b->hash, (uintptr_t)h);
    return 0;
}

/* Removes page n. Moves back later entries that a search would otherwise miss, because a search
 * ends at a gap. */
static void erase(struct ll_buffer__hash *h, uint64_t n)
{
    struct ll_buffer__hash_entry *gap = place_of(h, n);
    uint64_t at = (uint64_t)(gap - h->entries);
    lladd_atomic_store64(&gap->frame, 0);
    for (uint64_t i = (at + 1) & h->mask; h->entries[i].frame; i = (i + 1) & h->mask) {
        struct ll_buffer__hash_entry *e = &h->entries[i];
        uint64_t home = ll_heap__home(h, e->page);
        if (((i - home) & h->mask) < ((i - at) & h->mask))
            continue;
        set(&h->entries[at], e->page, e->frame);
        lladd_atomic_store64(&e->frame, 0);
        at = i;
    }
}

struct ll_frame *ll_heap__find_exact(struct ll_buffer *b, uint64_t n)
{
    lladd_mutex_lock(&b->slots_latch);
    uint64_t frame = place_of(table(b), n)->frame;
    lladd_mutex_unlock(&b->slots_latch);
    return (struct ll_frame *)(uintptr_t)frame;
}

/* Under slots_latch. */
static int insert(struct ll_buffer *b, uint64_t n, struct ll_frame *f)
{
    uint64_t used = lladd_atomic_load32(&b->slots_used); /* includes the slot of page n */
    if (2 * used > table(b)->mask && grow(b) != 0 && used > table(b)->mask)
        return LLADD_NO_MEMORY;
    set(place_of(table(b), n), n, (uintptr_t)f);
    return 0;
}

int ll_heap__claim(struct ll_buffer *b, uint64_t n, uint32_t slot, struct ll_frame **out,
                   struct lladd_error *err)
{
    struct ll_frame *f = ll_buffer__page_of_slot(b, slot);
    int rc = 0;
    lladd_mutex_lock(&b->slots_latch);
    bool taken = place_of(table(b), n)->frame != 0;
    if (!taken) {
        ll_buffer__begin_load(f, n);
        rc = insert(b, n, f);
        if (rc != 0)
            (void)latch_become(f, LATCH_FREE);
    }
    lladd_mutex_unlock(&b->slots_latch);
    *out = taken || rc != 0 ? NULL : f;
    return rc == 0 ? 0 : ll_fail(err, rc, "no memory for the table of cached pages");
}

void ll_heap__release(struct ll_buffer *b, struct ll_frame *f)
{
    lladd_mutex_lock(&b->slots_latch);
    erase(table(b), f->page.number.v);
    lladd_atomic_store64_relaxed(&f->page.number.v, LLADD_NO_PAGE);
    (void)latch_become(f, LATCH_FREE);
    lladd_mutex_unlock(&b->slots_latch);
    ll_buffer__slot_put(b, f->slot);
}
