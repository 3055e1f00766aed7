/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arena: memory that is given back all at once, and the databases' own allocator on top of it.
 *
 * A run takes its blocks, calls and file handles from the arena of its level, and the database its
 * memory from the heap; both are wound back before the next run. So a crash state costs no call of
 * malloc once the arenas have grown to what a run needs.
 */
#include "sim/sim_private.h"

#include <stdlib.h>

enum { CHUNK = 1 << 20, ALIGN = 16 };

struct ll_sim_chunk {
    struct ll_sim_chunk *next;
    size_t size;
    unsigned char bytes[] __attribute__((aligned(ALIGN)));
};

/* ---- arenas ------------------------------------------------------------------------------ */

static struct ll_sim_chunk *chunk_new(size_t size)
{
    size = size < CHUNK ? CHUNK : size;
    struct ll_sim_chunk *c = malloc(sizeof *c + size);
    if (!c)
        return NULL;
    c->next = NULL;
    c->size = size;
    return c;
}

/* The next chunk that has room, made if need be. */
static void *take_more(struct ll_sim_arena *a, size_t size)
{
    while (a->now && a->now->next) {
        a->now = a->now->next;
        a->used = 0;
        if (a->now->size >= size) {
            a->used = size;
            return a->now->bytes;
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
    return c->bytes;
}

void *ll_sim_take(struct ll_sim_arena *a, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (a->now && a->now->size - a->used >= size) {
        void *p = a->now->bytes + a->used;
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
    if (count)
        memcpy(p, array, count * element);
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
        free(c);
    }
    a->now = NULL;
    a->used = 0;
}

/* ---- the databases' memory --------------------------------------------------------------- */

/* Pieces are rounded up to a class and carry it in front; what is given back waits in the list of
 * its class. */
struct piece {
    union {
        struct piece *next; /* while free */
        size_t class;       /* while in use */
    };
    size_t size;
};

_Static_assert(sizeof(struct piece) == ALIGN, "pieces keep the alignment");

/* Four classes to each power of two, from 32 bytes. */
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
    return p + 1;
}

static void heap_release(void *ctx, void *ptr)
{
    struct ll_sim_heap *h = ctx;
    if (!ptr)
        return;
    struct piece *p = (struct piece *)ptr - 1;
    size_t class = p->class;
    p->next = h->free[class];
    h->free[class] = p;
    h->live--;
}

static void *heap_resize(void *ctx, void *ptr, size_t size)
{
    if (!ptr)
        return heap_alloc(ctx, size);
    const struct piece *old = (const struct piece *)ptr - 1;
    if (size <= old->size)
        return ptr;
    void *fresh = heap_alloc(ctx, size);
    if (!fresh)
        return NULL;
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
    ll_sim_rewind(&h->arena);
    memset(h->free, 0, sizeof h->free);
    h->live = 0;
}
