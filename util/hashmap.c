/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash maps; util/hashmap.h states their purpose and invariants. */
#include "util/hashmap.h"

#include <string.h>

enum { CAPACITY_MIN = 16 };

/* Spreads keys that differ in few bits (consecutive page numbers, LSNs a segment apart) over all
 * bits: the finisher of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline size_t home(const struct ll_hashmap *map, uint64_t key)
{
    return (size_t)mix(key) & (map->capacity - 1);
}

/* The slot that holds key, or the empty slot where key would be inserted. The loop ends because the
 * table always has an empty slot. */
static struct ll_hashmap_slot *probe(const struct ll_hashmap *map, uint64_t key)
{
    size_t i = home(map, key);
    while (map->slots[i].key != key && map->slots[i].key != 0)
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

void ll_hashmap_init(struct ll_hashmap *map, const struct ll_env *env)
{
    memset(map, 0, sizeof *map);
    map->env = env;
}

void ll_hashmap_free(struct ll_hashmap *map)
{
    ll_free(map->env, map->slots);
    ll_hashmap_init(map, map->env);
}

void ll_hashmap_clear(struct ll_hashmap *map)
{
    if (map->slots)
        memset(map->slots, 0, map->capacity * sizeof *map->slots);
    map->count = 0;
    map->has_zero = false;
}

int ll_hashmap_reserve(struct ll_hashmap *map, size_t entries)
{
    size_t capacity = map->capacity ? map->capacity : CAPACITY_MIN;
    while (capacity - capacity / 4 < entries) {
        if (capacity > SIZE_MAX / (2 * sizeof *map->slots))
            return LLADD_NO_MEMORY;
        capacity *= 2;
    }
    if (capacity == map->capacity)
        return 0;

    struct ll_hashmap_slot *slots = ll_alloc_zero(map->env, capacity * sizeof *slots);
    if (!slots)
        return LLADD_NO_MEMORY;
    struct ll_hashmap old = *map;
    map->slots = slots;
    map->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].key != 0)
            *probe(map, old.slots[i].key) = old.slots[i];
    }
    ll_free(map->env, old.slots);
    return 0;
}

uint64_t *ll_hashmap_find(const struct ll_hashmap *map, uint64_t key)
{
    if (key == 0)
        return map->has_zero ? (uint64_t *)&map->zero_value : NULL;
    if (!map->slots)
        return NULL;
    struct ll_hashmap_slot *slot = probe(map, key);
    return slot->key == key ? &slot->value : NULL;
}

int ll_hashmap_put(struct ll_hashmap *map, uint64_t key, uint64_t value)
{
    uint64_t *place = ll_hashmap_find(map, key);
    if (place) {
        *place = value;
        return 0;
    }
    if (key == 0) {
        map->has_zero = true;
        map->zero_value = value;
        map->count++;
        return 0;
    }
    int rc = ll_hashmap_reserve(map, map->count + 1);
    if (rc != 0)
        return rc;
    struct ll_hashmap_slot *slot = probe(map, key);
    slot->key = key;
    slot->value = value;
    map->count++;
    return 0;
}

int ll_hashmap_put_ptr(struct ll_hashmap *map, uint64_t key, void *value)
{
    return ll_hashmap_put(map, key, (uint64_t)(uintptr_t)value);
}

bool ll_hashmap_get(const struct ll_hashmap *map, uint64_t key, uint64_t *value)
{
    const uint64_t *place = ll_hashmap_find(map, key);
    if (!place)
        return false;
    *value = *place;
    return true;
}

void *ll_hashmap_get_ptr(const struct ll_hashmap *map, uint64_t key)
{
    const uint64_t *place = ll_hashmap_find(map, key);
    return place ? (void *)(uintptr_t)*place : NULL;
}

bool ll_hashmap_remove(struct ll_hashmap *map, uint64_t key)
{
    if (key == 0) {
        if (!map->has_zero)
            return false;
        map->has_zero = false;
        map->count--;
        return true;
    }
    uint64_t *place = ll_hashmap_find(map, key);
    if (!place)
        return false;

    /* Close the gap: a later entry of the probe sequence moves into the gap, unless the entry's
     * home is after the gap. */
    size_t mask = map->capacity - 1;
    size_t gap = (size_t)(probe(map, key) - map->slots);
    for (size_t i = (gap + 1) & mask; map->slots[i].key != 0; i = (i + 1) & mask) {
        size_t from_home = (i - home(map, map->slots[i].key)) & mask;
        size_t from_gap = (i - gap) & mask;
        if (from_home >= from_gap) {
            map->slots[gap] = map->slots[i];
            gap = i;
        }
    }
    map->slots[gap].key = 0;
    map->count--;
    return true;
}

void ll_hashmap_retain(struct ll_hashmap *map,
                       bool (*keep)(void *ctx, uint64_t key, uint64_t value), void *ctx)
{
    if (map->has_zero && !keep(ctx, 0, map->zero_value))
        (void)ll_hashmap_remove(map, 0);
    for (size_t i = 0; i < map->capacity;) {
        struct ll_hashmap_slot slot = map->slots[i];
        /* The removal may have moved another entry into this slot, so examine the slot again. */
        if (slot.key != 0 && !keep(ctx, slot.key, slot.value))
            (void)ll_hashmap_remove(map, slot.key);
        else
            i++;
    }
}

bool ll_hashmap_next(const struct ll_hashmap *map, size_t *cursor, uint64_t *key, uint64_t *value)
{
    for (; *cursor < map->capacity; (*cursor)++) {
        if (map->slots[*cursor].key != 0) {
            *key = map->slots[*cursor].key;
            *value = map->slots[*cursor].value;
            (*cursor)++;
            return true;
        }
    }
    if (*cursor == map->capacity && map->has_zero) {
        (*cursor)++;
        *key = 0;
        *value = map->zero_value;
        return true;
    }
    return false;
}
