/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault_alloc.h. A header before each block has the size of the block, and a mark of this
 * allocator. */
#include "support/fault_alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRESH = 0xa5 };

static const uint64_t MAGIC_LIVE = 0x6c6c616464616c6c;
static const uint64_t MAGIC_DEAD = 0x6465616464656164;

struct header {
    uint64_t magic;
    uint64_t size;
};

static bool fails(struct fault_alloc *fa)
{
    uint64_t call = __atomic_add_fetch(&fa->calls, 1, __ATOMIC_RELAXED);
    if (call < fa->fail_from || call > fa->fail_to)
        return false;
    __atomic_add_fetch(&fa->fired, 1, __ATOMIC_RELAXED);
    return true;
}

static void account(struct fault_alloc *fa, uint64_t size)
{
    uint64_t now = __atomic_add_fetch(&fa->live_bytes, size, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&fa->peak_bytes, __ATOMIC_RELAXED);
    while (peak < now && !__atomic_compare_exchange_n(&fa->peak_bytes, &peak, now, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static struct header *header_of(void *ptr)
{
    struct header *h = (struct header *)ptr - 1;
    if (h->magic != MAGIC_LIVE) {
        (void)fprintf(stderr, "fault_alloc: %p is %s\n", ptr,
                      h->magic == MAGIC_DEAD ? "released already" : "not ours");
        abort();
    }
    return h;
}

static void *allocate(void *ctx, size_t size)
{
    struct fault_alloc *fa = ctx;
    struct header *h = fails(fa) || size > SIZE_MAX - sizeof *h ? NULL : malloc(sizeof *h + size);
    if (!h)
        return NULL;
    h->magic = MAGIC_LIVE;
    h->size = size;
    __atomic_add_fetch(&fa->live_blocks, 1, __ATOMIC_RELAXED);
    account(fa, size);
    return memset(h + 1, FRESH, size);
}

static void release(void *ctx, void *ptr)
{
    struct fault_alloc *fa = ctx;
    if (!ptr)
        return;
    struct header *h = header_of(ptr);
    h->magic = MAGIC_DEAD;
    __atomic_sub_fetch(&fa->live_blocks, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&fa->live_bytes, h->size, __ATOMIC_RELAXED);
    free(h);
}

/* Always moves the block, so that use of the old address is detected. */
static void *resize(void *ctx, void *ptr, size_t size)
{
    void *fresh = allocate(ctx, size);
    if (!fresh || !ptr)
        return fresh;
    uint64_t old = header_of(ptr)->size;
    memcpy(fresh, ptr, old < size ? old : size);
    release(ctx, ptr);
    return fresh;
}

void fault_alloc_init(struct fault_alloc *fa)
{
    memset(fa, 0, sizeof *fa);
    fa->mem.ctx = fa;
    fa->mem.alloc = allocate;
    fa->mem.resize = resize;
    fa->mem.release = release;
    fault_alloc_fail(fa, 0, false);
}

void fault_alloc_fail(struct fault_alloc *fa, uint64_t n, bool forever)
{
    uint64_t first = fault_alloc_calls(fa) + n;
    fa->fail_from = n == 0 ? UINT64_MAX : first;
    fa->fail_to = n == 0 ? 0 : forever ? UINT64_MAX : first;
    __atomic_store_n(&fa->fired, 0, __ATOMIC_RELAXED);
}

uint64_t fault_alloc_fired(const struct fault_alloc *fa)
{
    return __atomic_load_n(&fa->fired, __ATOMIC_RELAXED);
}

uint64_t fault_alloc_calls(const struct fault_alloc *fa)
{
    return __atomic_load_n(&fa->calls, __ATOMIC_RELAXED);
}

uint64_t fault_alloc_live(const struct fault_alloc *fa)
{
    return __atomic_load_n(&fa->live_blocks, __ATOMIC_RELAXED);
}

uint64_t fault_alloc_bytes(const struct fault_alloc *fa)
{
    return __atomic_load_n(&fa->live_bytes, __ATOMIC_RELAXED);
}

uint64_t fault_alloc_peak(const struct fault_alloc *fa)
{
    return __atomic_load_n(&fa->peak_bytes, __ATOMIC_RELAXED);
}
