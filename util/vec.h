/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_VEC_H
#define LL_UTIL_VEC_H
/*
 * A growing array of elements of one size. Elements move when the array grows, so pointers to them
 * are valid until the next push, append or reserve. Only these three calls can fail; a call that
 * fails has changed nothing. After reserve(n), a push or append succeeds if it leaves at most n
 * elements in the array.
 *
 * Threads: the array has no latch; its owner excludes concurrent calls.
 */
#include "util/env.h"

struct ll_vec {
    const struct ll_env *env;
    void *data;
    size_t len; /* elements */
    size_t capacity;
    size_t element; /* bytes per element */
};

void ll_vec_init(struct ll_vec *, const struct ll_env *, size_t element);
void ll_vec_free(struct ll_vec *); /* leaves an empty array that can be used again */

/* Adds an element of zeros and returns it; NULL: out of memory. */
void *ll_vec_push(struct ll_vec *) LLADD_MUST_CHECK;
/* Adds n elements from `from`. Returns 0 or LLADD_NO_MEMORY. */
int ll_vec_append(struct ll_vec *, const void *from, size_t n) LLADD_MUST_CHECK;
int ll_vec_reserve(struct ll_vec *, size_t elements) LLADD_MUST_CHECK;

/* Element i < len. */
static inline void *ll_vec_at(const struct ll_vec *v, size_t i)
{
    LL_ASSERT(i < v->len);
    return (unsigned char *)v->data + i * v->element;
}

/* Keeps the first `len` elements and the memory. */
static inline void ll_vec_truncate(struct ll_vec *v, size_t len)
{
    LL_ASSERT(len <= v->len);
    v->len = len;
}

/* For an array that is no struct ll_vec. `array` points to the pointer to its first element. Gives
 * the array room for n elements and updates *capacity. Returns 0 or LLADD_NO_MEMORY. */
int ll_grow(const struct ll_env *, void *array, size_t *capacity, size_t n,
            size_t element) LLADD_MUST_CHECK;

/* The index of the first of n elements with a key of at least `key`; n: there is none. The key is a
 * uint64_t at the beginning of each element, and the elements are sorted by it. */
size_t ll_lower_bound(const void *array, size_t n, size_t element, uint64_t key);
/* For qsort: sorts such elements by their keys. */
int ll_by_key(const void *, const void *);

/* Removes element i; the last element takes its place. */
void ll_vec_remove_unordered(struct ll_vec *, size_t i);
/* Removes element i; each later element moves one place forward. */
void ll_vec_remove(struct ll_vec *, size_t i);

#endif
