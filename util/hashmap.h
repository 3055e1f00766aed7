/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_HASHMAP_H
#define LL_UTIL_HASHMAP_H
/*
 * A hash map from 64-bit numbers (LSNs, page numbers) to 64-bit words; a pointer fits in a word.
 *
 * Open addressing with linear probing; at most three quarters of the slots are used. Removal moves
 * later entries of the probe sequence into the gap and leaves no tombstone, so a map stays fast
 * however often it is filled and emptied. Key 0 marks an empty slot; the entry for the key 0 itself
 * is stored outside the table.
 *
 * Memory comes from the env. Only put and reserve can return an error, and a call that does has
 * changed nothing. After reserve(n), a put returns 0 if it leaves at most n entries in the map. A
 * caller that must not get an error later therefore calls reserve first (API-1). Pointers into the
 * map are valid until the next put, remove or reserve.
 *
 * Threads: the map has no latch; its owner excludes concurrent calls.
 */
#include "util/env.h"

struct ll_hashmap_slot {
    uint64_t key;
    uint64_t value;
};

struct ll_hashmap {
    const struct ll_env *env;
    struct ll_hashmap_slot *slots; /* NULL before the first put */
    size_t capacity;           /* 0, or a power of two */
    size_t count;              /* includes the entry for key 0 */
    uint64_t zero_value;
    bool has_zero;
};

void ll_hashmap_init(struct ll_hashmap *, const struct ll_env *);
void ll_hashmap_free(struct ll_hashmap *); /* leaves an empty map that can be used again */
void ll_hashmap_clear(struct ll_hashmap *); /* keeps the memory */

/* Sets the value of a new or existing key. Returns 0 or LLADD_NO_MEMORY. */
int ll_hashmap_put(struct ll_hashmap *, uint64_t key, uint64_t value) LLADD_MUST_CHECK;
int ll_hashmap_put_ptr(struct ll_hashmap *, uint64_t key, void *value) LLADD_MUST_CHECK;
int ll_hashmap_reserve(struct ll_hashmap *, size_t entries) LLADD_MUST_CHECK;

/* Pointer to key's value, or NULL. */
uint64_t *ll_hashmap_find(const struct ll_hashmap *, uint64_t key);
bool ll_hashmap_get(const struct ll_hashmap *, uint64_t key, uint64_t *value);
void *ll_hashmap_get_ptr(const struct ll_hashmap *, uint64_t key); /* NULL if absent */
bool ll_hashmap_remove(struct ll_hashmap *, uint64_t key);         /* true if the key was present */
/* Removes the entries for which `keep` returns false. `keep` may be called again for an entry for
 * which it returned true. The map keeps its memory. */
void ll_hashmap_retain(struct ll_hashmap *, bool (*keep)(void *ctx, uint64_t key, uint64_t value),
                   void *ctx);

/* Returns one entry per call, in no particular order. Start with *cursor = 0; false: no more
 * entries. A put, remove or reserve invalidates the cursor. */
bool ll_hashmap_next(const struct ll_hashmap *, size_t *cursor, uint64_t *key, uint64_t *value);

#endif
