/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena: memory that is released all at once, and the allocator of the simulated databases.
 *
 * A run allocates its blocks, calls and file handles from an arena, and the database allocates from
 * the heap below. The arena and the heap are rewound before the next run and keep their memory, so
 * most runs get no memory from the system.
 */
#include "sim/sim_private.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

/* APART is a multiple of the system's page size on every supported system. */
enum { CHUNK = 1 << 20, ALIGN = 16, APART = 64 << 10 };

/* Chunks are mapped from the system. A chunk's usable bytes have system pages of their own, so
 * access to them can be forbidden while the header stays readable. */
struct ll_sim_chunk {
    struct ll_sim_chunk *next;
    size_t size; /* number of usable bytes; the first is APART bytes after the header's first */
};

/* ---- arenas ------------------------------------------------------------------------------ */

static unsigned char *bytes_of(struct ll_sim_chunk *c)
{
    return (unsigned char *)c + APART;
}

static struct ll_sim_chunk *chunk_new(size_t size)
{
    size = size < CHUNK ? CHUNK : (size + APART - 1) / APART * APART;
    void *p =
        mmap(NULL, APART + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    struct ll_sim_chunk *c = p;
    c->next = NULL;
    c->size = size;
    return c;
}

/* Takes from the next chunk with enough room. If no chunk has enough room, adds a chunk. */
static void *take_more(struct ll_sim_arena *a, size_t size)
{
    while (a->now && a->now->next) {
        a->now = a->now->next;
        a->used = 0;
        if (a->now->size >= size) {
            a->used = size;
            return bytes_of(a->now);
        }
    }
    struct ll_sim_chunk *c = chunk_new(size);
    if (!c)
        return NULL;
    if (a->now)
        a->now->next = c;
    else
        a->first = c;
    a->now = c;
    a->used = size;
    return bytes_of(c);
}

void *ll_sim_take(struct ll_sim_arena *a, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (a->now && a->now->size - a->used >= size) {
        void *p = bytes_of(a->now) + a->used;
        a->used += size;
        return p;
    }
    return take_more(a, size);
}

void *ll_sim_grow(struct ll_sim_arena *a, void *array, size_t count, uint32_t *capacity,
                  size_t element)
{
    if (count < *capacity)
        return array;
    uint32_t larger = *capacity ? *capacity * 2 : 16;
    while (larger <= count)
        larger *= 2;
    void *p = ll_sim_take(a, larger * element);
    if (!p)
        return NULL;
    size_t there = count < *capacity ? count : *capacity; /* `count` may be far beyond the array's
                                                           * end */
    if (there)
        memcpy(p, array, there * element);
    *capacity = larger;
    return p;
}

void ll_sim_rewind(struct ll_sim_arena *a)
{
    a->now = a->first;
    a->used = 0;
}

void ll_sim_arena_free(struct ll_sim_arena *a)
{
    while (a->first) {
        struct ll_sim_chunk *c = a->first;
        a->first = c->next;
        ASAN_UNPOISON_MEMORY_REGION(bytes_of(c), c->size);
        (void)munmap(c, APART + c->size); /* unmapping a whole mapping cannot fail */
    }
    a->now = NULL;
    a->used = 0;
}

/* ---- the databases' memory --------------------------------------------------------------- */

/* The header of an allocated piece. The piece's size is rounded up to a size class. A released
 * piece goes to the free list of its class. AddressSanitizer is told which bytes are in use. */
struct piece {
    union {
        struct piece *next; /* while free */
        size_t class;       /* while in use */
    };
    size_t size;
};

_Static_assert(sizeof(struct piece) == ALIGN, "pieces keep the alignment");

/* There are four classes for each power of two, from 32 bytes up. */
static size_t class_of(size_t size, size_t *rounded)
{
    size = size < 32 ? 32 : size;
    unsigned top = 63u - (unsigned)__builtin_clzll(size);
    size_t step = (size_t)1 << (top - 2);
    size_t up = (size + step - 1) & ~(step - 1);
    top = 63u - (unsigned)__builtin_clzll(up);
    *rounded = up;
    return (top - 5) * 4 + ((up >> (top - 2)) & 3);
}

/* Allows access to the first `size` bytes of the piece only. */
static void only(struct piece *p, size_t size)
{
    ASAN_UNPOISON_MEMORY_REGION(p + 1, size);
    ASAN_POISON_MEMORY_REGION((unsigned char *)(p + 1) + size, p->size - size);
}

static void *heap_alloc(void *ctx, size_t size)
{
    struct ll_sim_heap *h = ctx;
    size_t rounded;
    if (size > SIZE_MAX / 4 || (h->grant && !h->grant(h->grant_ctx, size)))
        return NULL;
    size_t class = class_of(size, &rounded);
    struct piece *p = h->free[class];
    if (p)
        h->free[class] = p->next;
    else
        p = ll_sim_take(&h->arena, sizeof *p + rounded);
    if (!p)
        return NULL;
    p->class = class;
    p->size = rounded;
    h->live++;
    only(p, size);
    return p + 1;
}

static void heap_release(void *ctx, void *ptr)
{
    struct ll_sim_heap *h = ctx;
    if (!ptr)
        return;
    struct piece *p = (struct piece *)ptr - 1;
    size_t class = p->class;
    only(p, 0);
    p->next = h->free[class];
    h->free[class] = p;
    h->live--;
}

static void *heap_resize(void *ctx, void *ptr, size_t size)
{
    if (!ptr)
        return heap_alloc(ctx, size);
    struct piece *old = (struct piece *)ptr - 1;
    if (size <= old->size) {
        only(old, size);
        return ptr;
    }
    void *fresh = heap_alloc(ctx, size);
    if (!fresh)
        return NULL;
    only(old, old->size);
    memcpy(fresh, ptr, old->size);
    heap_release(ctx, ptr);
    return fresh;
}

void ll_sim_heap_init(struct ll_sim_heap *h)
{
    memset(h, 0, sizeof *h);
    h->face = (struct lladd_allocator){h, heap_alloc, heap_resize, heap_release};
}

void ll_sim_heap_rewind(struct ll_sim_heap *h)
{
    for (struct ll_sim_chunk *c = h->arena.first; c; c = c->next)
        ASAN_UNPOISON_MEMORY_REGION(bytes_of(c), c->size);
    ll_sim_rewind(&h->arena);
    memset(h->free, 0, sizeof h->free);
    h->live = 0;
}

bool ll_sim_heap_allow(struct ll_sim_heap *h, bool allowed)
{
    bool done = true;
    for (struct ll_sim_chunk *c = h->arena.first; c; c = c->next)
        done &= mprotect(bytes_of(c), c->size, allowed ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
    return done;
}

bool ll_sim_heap_has(const struct ll_sim_heap *h, const unsigned char *at)
{
    for (struct ll_sim_chunk *c = h->arena.first; c; c = c->next)
        if (at >= bytes_of(c) && at < bytes_of(c) + c->size)
            return true;
    return false;
}
