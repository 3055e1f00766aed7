/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mapping table: from PIDs to the states of pages. All links between pages are PIDs, so a page
 * changes by a compare-and-swap of its word alone (BWM-2).
 *
 * The table grows by chunks, each twice as large as the one before. A thread that needs a new chunk
 * installs it with a compare-and-swap, before any PID of the chunk is given out. Words stay where
 * they are.
 *
 * A PID is free if its split failed, so that no other thread has seen it, or if its page was merged
 * into another one, and all threads that may have seen it have left their epochs. Free PIDs form a
 * stack: the word of each has the next one, as twice the PID plus 1, so it is not the address of a
 * state. A thread may read a word that is no link any more; the number of changes in `free` then
 * makes its compare-and-swap fail.
 */
#include "operations/bwtree/bwtree.h"

#ifdef LLADD_DST
const struct bw_page ll_bwtree__free_page = {.s = {.kind = BW_PAGE}};
#endif

static int ensure_chunk(struct lladd_bwtree *t, uint64_t pid)
{
    unsigned bits = 63u - (unsigned)__builtin_clzll(pid + (1u << BW_CHUNK_BITS));
    uint64_t *chunk = &t->chunks[bits - BW_CHUNK_BITS], none = 0;
    if (lladd_atomic_load64(chunk))
        return 0;
    size_t size = sizeof(uint64_t) << bits;
    void *words = ll_bwtree__alloc(t, size);
    if (!words)
        return LLADD_NO_MEMORY;
    if (!lladd_atomic_cas64(chunk, &none, (uintptr_t)words))
        ll_bwtree__free(t, words, size);
    return 0;
}

int ll_bwtree__pid_take(struct lladd_bwtree *t, uint32_t *pid)
{
    uint64_t free = lladd_atomic_look64(&t->free);
    while ((uint32_t)free) {
        uint64_t next = lladd_atomic_load64(bw_word(t, (uint32_t)free)) >> 1;
        uint64_t changed = ((free >> 32) + 1) << 32 | (uint32_t)next;
        *pid = (uint32_t)free;
        if (lladd_atomic_cas64(&t->free, &free, changed))
            return 0;
    }
    uint64_t next = lladd_atomic_load64(&t->next);
    do {
        if (next >= BW_INNER_SPLIT || ensure_chunk(t, next))
            return LLADD_NO_MEMORY;
    } while (!lladd_atomic_cas64(&t->next, &next, next + 1));
    *pid = (uint32_t)next;
    return 0;
}

void ll_bwtree__pid_give(struct lladd_bwtree *t, uint32_t pid)
{
    uint64_t free = lladd_atomic_look64(&t->free);
    do {
        lladd_atomic_store64(bw_word(t, pid), (free & UINT32_MAX) << 1 | 1);
    } while (!lladd_atomic_cas64(&t->free, &free, ((free >> 32) + 1) << 32 | pid));
}

void ll_bwtree__map_free(struct lladd_bwtree *t)
{
    for (unsigned k = 0; k < BW_CHUNKS; k++)
        lladd_mem_free(t->db, (void *)(uintptr_t)lladd_atomic_load64(&t->chunks[k]));
}
