/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames_reserved: frames and pages in reserved address space (vmcache; Leis et al., SIGMOD 2023).
 *
 * Address space is reserved in chunks, at the latest when a page of the chunk is fixed. A chunk
 * holds a gigabyte of the file: first the pages, then their frames. The addresses of page n and its
 * frame are computed, so a hit in the first chunk reads no table. The kernel provides memory when
 * an address is touched; madvise returns the memory when the page is evicted. Untouched frames read
 * as zeros, and a state word of zero means FREE.
 *
 * Touched memory is charged to the budget, and refunded when it is returned to the kernel:
 *   page     one page of the file: charged with its slot.
 *   group    the frames on one page of the operating system. Charged while one of the frames is in
 *            use. When no frame is in use, the memory is returned to the kernel.
 *   region   the pages that one page table of the processor maps. If a group has more pages, the
 *            region is the group, and several page tables map it. The page tables are charged
 *            while a group of the region is in use. When no group is in use, the region is mapped
 *            anew, because only this makes the kernel free the page tables. (A scan of a terabyte
 *            would leave two gigabytes of page tables.)
 *
 * (The page tables that map frames are small, and are not charged.) The counters of groups and
 * regions change under one of a few latches, chosen by page number. A frame changes from FREE to
 * LOADING, and back to FREE, under this latch. So no thread claims a frame while the memory of its
 * group is being returned. Other threads may read the state word of such a frame at any time: they
 * see FREE.
 *
 * Chunks and replaced directories are kept until the buffer is closed.
 */
#include "buffer/buffer_private.h"

#include <sys/mman.h>
#include <unistd.h>

static struct ll_buffer__directory *directory(const struct ll_buffer *b)
{
    return (struct ll_buffer__directory *)(uintptr_t)lladd_atomic_load64(&b->directory);
}

static uint64_t chunk_pages(const struct ll_buffer *b)
{
    return UINT64_C(1) << b->chunk_shift;
}

/* Bytes that one page table maps. A page table is one page with entries of eight bytes. */
static size_t table_covers(const struct ll_buffer *b)
{
    return b->os_page / 8 * b->os_page;
}

static size_t region_bytes(const struct ll_buffer *b)
{
    return ((size_t)1 << b->region_shift) * b->page_size;
}

/* With huge pages one resident page could take two megabytes. A kernel without huge pages refuses
 * the call, which is harmless. */
static void want_small_pages(void *at, size_t bytes)
{
    (void)madvise(at, bytes, MADV_NOHUGEPAGE);
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older headers do not have it */
#endif

/* If a whole region is resident, a huge page takes no more memory than small pages. The address of
 * a huge page is more likely to be in the TLB. Other threads may use the pages while the kernel
 * moves them. Afterwards the range is set to small pages again: a page that is evicted later is
 * released alone, and the kernel does not merge pages by itself. */
static void want_one_huge_page(void *at, size_t bytes)
{
    if (madvise(at, bytes, MADV_HUGEPAGE) != 0)
        return;
    (void)madvise(at, bytes, MADV_COLLAPSE);
    want_small_pages(at, bytes);
}

/* ---- chunks ---- */

static int map_chunk(struct ll_buffer *b, struct ll_buffer__chunk *c)
{
    if (ll_point(b->env, "buffer.map") != 0)
        return LLADD_NO_MEMORY;
    size_t align = region_bytes(b);
    size_t frames = (size_t)chunk_pages(b) * sizeof(struct ll_frame);
    c->map_size = CHUNK_BYTES + frames + align;
    void *map = mmap(NULL, c->map_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return LLADD_NO_MEMORY;
    c->map = map;
    uintptr_t pages = ((uintptr_t)map + align - 1) & ~(uintptr_t)(align - 1);
    c->pages = (unsigned char *)pages;
    c->frames = (struct ll_frame *)(pages + CHUNK_BYTES);
    want_small_pages(map, c->map_size);
    return 0;
}

static void free_chunk(struct ll_buffer *b, struct ll_buffer__chunk *c)
{
    if (c && c->map) {
        int rc = munmap(c->map, c->map_size); /* fails for wrong arguments only */
        LL_ASSERT(rc == 0);
        (void)rc;
    }
    ll_free(b->env, c);
}

static size_t chunk_bytes(const struct ll_buffer *b)
{
    uint64_t groups = chunk_pages(b) >> b->group_shift;
    uint64_t regions = chunk_pages(b) >> b->region_shift;
    return sizeof(struct ll_buffer__chunk) + (size_t)(groups + regions) * sizeof(uint16_t);
}

static struct ll_buffer__chunk *new_chunk(struct ll_buffer *b)
{
    struct ll_buffer__chunk *c = ll_alloc_zero(b->env, chunk_bytes(b));
    if (!c)
        return NULL;
    c->groups = (uint16_t *)(c + 1);
    c->regions = c->groups + (chunk_pages(b) >> b->group_shift);
    if (map_chunk(b, c) != 0) {
        free_chunk(b, c);
        return NULL;
    }
    ll_buffer__charge(b, chunk_bytes(b));
    return c;
}

/* Under slots_latch. */
static int grow_directory(struct ll_buffer *b, uint64_t i)
{
    struct ll_buffer__directory *old = directory(b);
    uint64_t n = old ? old->n : 0;
    if (i < n)
        return 0;
    n = i + 1 > 2 * n ? i + 1 : 2 * n;
    if (n > (SIZE_MAX - sizeof *old) / sizeof old->at[0])
        return LLADD_NO_MEMORY;
    struct ll_buffer__directory *d = ll_alloc_zero(b->env, sizeof *d + (size_t)n * sizeof d->at[0]);
    if (!d)
        return LLADD_NO_MEMORY;
    d->n = n;
    d->retired = old;
    for (uint64_t k = 0; old && k < old->n; k++) {
        d->at[k].chunk = old->at[k].chunk;
        d->at[k].frames = old->at[k].frames;
    }
    ll_buffer__charge(b, sizeof *d + n * sizeof d->at[0]);
    /* The next claim may map a chunk and need a directory twice as large. */
    b->claim_bytes = b->place_bytes + chunk_bytes(b) + sizeof *d + 2 * n * sizeof d->at[0];
    lladd_atomic_store64(&b->directory, (uintptr_t)d);
    return 0;
}

/* Maps the chunk if necessary. */
static int chunk_of(struct ll_buffer *b, uint64_t n, struct ll_buffer__chunk **out)
{
    uint64_t i = n >> b->chunk_shift;
    const struct ll_buffer__directory *d = directory(b);
    if (d && i < d->n && lladd_atomic_load64(&d->at[i].frames)) {
        *out = d->at[i].chunk;
        return 0;
    }
    lladd_mutex_lock(&b->slots_latch);
    int rc = grow_directory(b, i);
    struct ll_buffer__directory *now = directory(b);
    if (rc == 0 && !now->at[i].chunk) {
        struct ll_buffer__chunk *c = new_chunk(b);
        if (c) {
            now->at[i].chunk = c;
            lladd_atomic_store64(&now->at[i].frames, (uintptr_t)c->frames);
        } else {
            rc = LLADD_NO_MEMORY;
        }
    }
    if (rc == 0)
        *out = now->at[i].chunk;
    lladd_mutex_unlock(&b->slots_latch);
    return rc;
}

/* Chunks have counters, which are charged to the budget. So this function maps chunks only until
 * their counters take an eighth of the budget. The rest is for pages. */
int ll_reserved__want_pages(struct ll_buffer *b, uint64_t n, struct lladd_error *err)
{
    uint64_t most = b->cfg.budget / 8 / chunk_bytes(b) * chunk_pages(b);
    for (uint64_t at = 0; at < n && at < most; at += chunk_pages(b)) {
        struct ll_buffer__chunk *ignored;
        if (chunk_of(b, at, &ignored))
            return ll_fail(err, LLADD_NO_MEMORY, "no address space for %llu pages",
                           (unsigned long long)n);
    }
    return 0;
}

int ll_reserved__open(struct ll_buffer *b, struct lladd_error *err)
{
    long os_page = sysconf(_SC_PAGESIZE);
    if (sizeof(void *) < 8 || os_page <= 0 || (uint32_t)os_page > b->page_size)
        return ll_fail(err, LLADD_NO_MEMORY, "pages of %u bytes cannot be mapped here",
                       b->page_size);
    b->os_page = (size_t)os_page;
    b->chunk_shift = (uint8_t)__builtin_ctz(CHUNK_BYTES / b->page_size);
    b->chunk_mask = (UINT64_C(1) << b->chunk_shift) - 1;
    b->group_shift = (uint32_t)__builtin_ctzl(b->os_page / sizeof(struct ll_frame));
    uint32_t table_shift = (uint32_t)__builtin_ctzl(table_covers(b) / b->page_size);
    b->region_shift = table_shift > b->group_shift ? table_shift : b->group_shift;
    b->region_tables = (uint32_t)(region_bytes(b) / table_covers(b));
    b->place_bytes = (1 + b->region_tables) * b->os_page;
    b->claim_bytes = b->place_bytes + chunk_bytes(b);
    b->space_latches = ll_alloc_zero(b->env, SPACE_LATCHES * sizeof *b->space_latches);
    int rc = b->space_latches ? 0 : LLADD_NO_MEMORY;
    for (int i = 0; rc == 0 && i < SPACE_LATCHES; i++)
        rc = lladd_mutex_init(&b->space_latches[i], BUFFER_RANK_SPACE, "address space");
    /* Maps the first chunk now: if this fails, the heap provider can be chosen instead. */
    struct ll_buffer__chunk *first;
    if (rc == 0)
        rc = chunk_of(b, 0, &first);
    if (rc == 0)
        b->first_frames = (uintptr_t)first->frames;
    if (rc != 0) {
        ll_reserved__close(b);
        return ll_fail(err, LLADD_NO_MEMORY, "no address space for pages");
    }
    b->reserved = true;
    return 0;
}

void ll_reserved__close(struct ll_buffer *b)
{
    struct ll_buffer__directory *d = directory(b);
    for (uint64_t i = 0; d && i < d->n; i++)
        free_chunk(b, d->at[i].chunk);
    while (d) {
        struct ll_buffer__directory *older = d->retired;
        ll_free(b->env, d);
        d = older;
    }
    b->directory = 0;
    b->bytes = b->place_bytes = b->claim_bytes = 0; /* in case the heap provider takes over */
    for (int i = 0; b->space_latches && i < SPACE_LATCHES; i++)
        lladd_mutex_destroy(&b->space_latches[i]);
    ll_free(b->env, b->space_latches);
    b->space_latches = NULL;
}

/* ---- residency ---- */

static struct lladd_mutex *space_latch(struct ll_buffer *b, uint64_t n)
{
    return &b->space_latches[(n >> b->region_shift) % SPACE_LATCHES];
}

static void enter_space(struct ll_buffer *b, struct ll_buffer__chunk *c, uint64_t i)
{
    uint64_t group = i >> b->group_shift;
    if (c->groups[group]++ > 0)
        return;
    ll_buffer__charge(b, b->os_page);
    if (c->regions[i >> b->region_shift]++ == 0)
        ll_buffer__charge(b, b->region_tables * b->os_page);
}

/* Flag in a region's counter: after the region was last empty, the kernel was asked to merge it
 * into a huge page. The kernel is asked only once, so that a page that is evicted and loaded
 * repeatedly does not repeat the cost. */
#define REGION_HUGE 0x8000u

static void complete_region(struct ll_buffer *b, struct ll_buffer__chunk *c, uint64_t i)
{
    const uint16_t full = (uint16_t)(1u << b->group_shift);
    uint64_t group = i >> b->group_shift, region = i >> b->region_shift;
    uint64_t n = UINT64_C(1) << (b->region_shift - b->group_shift);
    if (c->groups[group] != full || c->regions[region] != n || b->region_tables != 1)
        return;
    for (uint64_t k = region * n; k < (region + 1) * n; k++)
        if (c->groups[k] != full)
            return;
    want_one_huge_page(c->pages + region * region_bytes(b), region_bytes(b));
    c->regions[region] = (uint16_t)(n | REGION_HUGE);
}

/* A new mapping frees the page tables of the region. */
static void remap_region(struct ll_buffer *b, struct ll_buffer__chunk *c, uint64_t region)
{
    unsigned char *at = c->pages + region * region_bytes(b);
    void *map = mmap(at, region_bytes(b), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    /* If the kernel lacks memory for the new mapping, the old one stays valid. */
    if (map != MAP_FAILED)
        want_small_pages(at, region_bytes(b));
}

static void leave_space(struct ll_buffer *b, struct ll_buffer__chunk *c, uint64_t i)
{
    uint64_t group = i >> b->group_shift;
    if (--c->groups[group] > 0)
        return;
    /* Cannot fail: the range is mapped and owned by this chunk. */
    (void)madvise(c->frames + (group << b->group_shift), b->os_page, MADV_DONTNEED);
    ll_buffer__refund(b, b->os_page);
    uint64_t region = i >> b->region_shift;
    if ((--c->regions[region] & ~REGION_HUGE) > 0)
        return;
    c->regions[region] = 0;
    remap_region(b, c, region);
    ll_buffer__refund(b, b->region_tables * b->os_page);
}

int ll_reserved__claim(struct ll_buffer *b, uint64_t n, uint32_t slot, struct ll_frame **out,
                       struct lladd_error *err)
{
    struct ll_buffer__chunk *c;
    *out = NULL;
    int rc = chunk_of(b, n, &c);
    if (rc != 0)
        return ll_fail_page(err, rc, lladd_page_of(n), "no address space for page %llu",
                            (unsigned long long)n);
    uint64_t i = n & (chunk_pages(b) - 1);
    struct ll_frame *f = &c->frames[i];
    struct lladd_mutex *latch = space_latch(b, n);
    lladd_mutex_lock(latch);
    if ((lladd_atomic_load64(&f->latch) & LATCH_STATE) == LATCH_FREE) {
        enter_space(b, c, i);
        f->page.bytes = c->pages + i * b->page_size;
        f->page.size = b->page_size;
        f->slot = slot;
        ll_buffer__begin_load(f, n);
        lladd_atomic_store64(&ll_buffer__slot(b, slot)->frame, (uintptr_t)f);
        complete_region(b, c, i);
        *out = f;
    }
    lladd_mutex_unlock(latch);
    return 0;
}

void ll_reserved__release(struct ll_buffer *b, struct ll_frame *f)
{
    uint64_t n = f->page.number.v;
    uint64_t i = n & (chunk_pages(b) - 1);
    uint32_t slot = f->slot;
    struct ll_buffer__chunk *c = directory(b)->at[n >> b->chunk_shift].chunk;
    /* Cannot fail: the range is mapped and owned by this chunk. */
    (void)madvise(f->page.bytes, b->page_size, MADV_DONTNEED);
    lladd_atomic_store64(&ll_buffer__slot(b, slot)->frame, 0);

    struct lladd_mutex *latch = space_latch(b, n);
    lladd_mutex_lock(latch);
    (void)latch_become(f, LATCH_FREE);
    leave_space(b, c, i);
    lladd_mutex_unlock(latch);
    ll_buffer__slot_put(b, slot);
}
