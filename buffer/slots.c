/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slots: the right to be resident, and the budget.
 *
 * Slots are stored in segments, so that slots never move. Each segment is twice as large as the one
 * before it; the last segment ends at slot_max. In the heap a segment contains the frames and pages
 * of its slots. With reserved address space each claim binds a slot to a frame.
 *
 * The budget. `bytes` is the sum of all charges: this buffer manager itself, the table of
 * write_history.c, one batch of copies, and further batches while several threads write. For each
 * page there is a charge for the cost that cost_of_page() in buffer.c computes. In the heap this
 * cost is charged once, when the slot is made. With reserved address space it is charged while the
 * slot is used; frames, page tables and the descriptors of chunks are charged, too, when a page
 * needs them (frames_reserved.c). This additional cost depends on the page, so a slot is given out
 * only if the budget also has room for the greatest possible additional cost. Batches are charged
 * without a check: they are few, and no new charge for a slot is made until the sum is within the
 * budget again.
 */
#include "buffer/buffer_private.h"

/* Under slots_latch. */
static int add_segment(struct ll_buffer *b, unsigned k)
{
    uint32_t count = (uint32_t)FIRST_SEGMENT << k;
    uint32_t left = b->slot_max - ll_buffer__segment_start(k);
    if (count > left)
        count = left;
    size_t slots = count * sizeof(struct ll_buffer__slot);
    enum { LINE = 64 };
    slots = (slots + LINE - 1) & ~(size_t)(LINE - 1);
    size_t frames = b->reserved ? 0 : count * ll_heap__stride(b) + LINE;
    if (!b->reserved && count > (SIZE_MAX - slots - LINE) / ll_heap__stride(b))
        return LLADD_NO_MEMORY;
    unsigned char *block = ll_alloc(b->env, slots + frames);
    if (!block)
        return LLADD_NO_MEMORY;
    if (frames)
        ll_prefer_huge(b->env, block, slots + frames);
    /* The pages are not zeroed: memset would touch memory that may never be used. */
    memset(block, 0, slots);
    if (frames) {
        uintptr_t first = ((uintptr_t)block + slots + LINE - 1) & ~(uintptr_t)(LINE - 1);
        b->heap_frames[k] = first;
    }
    lladd_atomic_store64(&b->segments[k], (uintptr_t)block);
    return 0;
}

/* Under slots_latch. */
static int make_slot(struct ll_buffer *b, uint32_t *out)
{
    uint32_t i = b->slot_count;
    unsigned k = ll_buffer__segment_of(i);
    if (!b->segments[k] && add_segment(b, k) != 0)
        return LLADD_NO_MEMORY;
    if (!b->reserved) {
        size_t at = (i - ll_buffer__segment_start(k)) * ll_heap__stride(b);
        unsigned char *place = (unsigned char *)(uintptr_t)b->heap_frames[k] + at;
        struct ll_frame *f = memset(place, 0, sizeof *f);
        f->page.bytes = place + sizeof *f;
        f->page.size = b->page_size;
        f->page.number.v = LLADD_NO_PAGE;
        f->slot = i;
        lladd_atomic_store64(&ll_buffer__slot(b, i)->frame, (uintptr_t)f);
    }
    lladd_atomic_store32(&b->slot_count, i + 1);
    *out = i;
    return 0;
}

static bool affordable(const struct ll_buffer *b)
{
    return lladd_atomic_load64(&b->bytes) + b->slot_bytes + b->claim_bytes <= b->cfg.budget;
}

static int take(struct ll_buffer *b, uint32_t *out)
{
    if (b->slot_free && (!b->reserved || affordable(b))) {
        *out = b->slot_free - 1;
        b->slot_free = ll_buffer__slot(b, *out)->free;
        if (b->reserved)
            ll_buffer__charge(b, b->slot_bytes);
        return 0;
    }
    if (b->slot_free || b->slot_count >= b->slot_max || !affordable(b))
        return 1;
    if (make_slot(b, out) != 0)
        return b->slot_count > 0 ? 1 : LLADD_NO_MEMORY; /* the caller must free an existing slot */
    ll_buffer__charge(b, b->slot_bytes);
    return 0;
}

int ll_buffer__slot_take(struct ll_buffer *b, uint32_t *slot, struct lladd_error *err)
{
    lladd_mutex_lock(&b->slots_latch);
    int rc = take(b, slot);
    if (rc == 0) {
        (void)lladd_atomic_add32(&b->slots_used, 1);
        (void)lladd_atomic_add32(&b->in_transit, 1);
    }
    lladd_mutex_unlock(&b->slots_latch);
    return rc < 0 ? ll_fail(err, rc, "no memory for a page of the cache") : rc;
}

void ll_buffer__slot_released(struct ll_buffer *b)
{
    (void)lladd_atomic_add32(&b->in_transit, UINT32_MAX);
    ll_buffer__event(b);
}

void ll_buffer__slot_put(struct ll_buffer *b, uint32_t i)
{
    lladd_mutex_lock(&b->slots_latch);
    if (b->reserved)
        ll_buffer__refund(b, b->slot_bytes);
    ll_buffer__slot(b, i)->free = b->slot_free;
    b->slot_free = i + 1;
    (void)lladd_atomic_add32(&b->slots_used, UINT32_MAX);
    lladd_mutex_unlock(&b->slots_latch);
    ll_buffer__event(b);
}

void ll_buffer__slots_free(struct ll_buffer *b)
{
    for (unsigned k = 0; k < SEGMENTS; k++)
        ll_free(b->env, (void *)(uintptr_t)b->segments[k]);
}
