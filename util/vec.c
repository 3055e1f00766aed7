/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays (util/vec.h). */
#include "util/vec.h"

#include <string.h>

enum { CAPACITY_MIN = 8 };

void ll_vec_init(struct ll_vec *v, const struct ll_env *env, size_t element)
{
    memset(v, 0, sizeof *v);
    v->env = env;
    v->element = element;
}

void ll_vec_free(struct ll_vec *v)
{
    ll_free(v->env, v->data);
    ll_vec_init(v, v->env, v->element);
}

int ll_grow(const struct ll_env *env, void *array, size_t *capacity, size_t n, size_t element)
{
    if (n <= *capacity)
        return 0;
    size_t to = *capacity ? *capacity : CAPACITY_MIN;
    while (to < n) {
        if (to > SIZE_MAX / 2)
            return LLADD_NO_MEMORY;
        to *= 2;
    }
    if (to > SIZE_MAX / element)
        return LLADD_NO_MEMORY;
    void *data;
    memcpy(&data, array, sizeof data);
    data = ll_resize(env, data, to * element);
    if (!data)
        return LLADD_NO_MEMORY;
    memcpy(array, &data, sizeof data);
    *capacity = to;
    return 0;
}

int ll_vec_reserve(struct ll_vec *v, size_t elements)
{
    return ll_grow(v->env, &v->data, &v->capacity, elements, v->element);
}

int ll_vec_append(struct ll_vec *v, const void *from, size_t n)
{
    if (n == 0)
        return 0;
    if (n > SIZE_MAX - v->len || ll_vec_reserve(v, v->len + n) != 0)
        return LLADD_NO_MEMORY;
    memcpy((unsigned char *)v->data + v->len * v->element, from, n * v->element);
    v->len += n;
    return 0;
}

void *ll_vec_push(struct ll_vec *v)
{
    if (ll_vec_reserve(v, v->len + 1) != 0)
        return NULL;
    v->len++;
    return memset(ll_vec_at(v, v->len - 1), 0, v->element);
}

size_t ll_lower_bound(const void *array, size_t n, size_t element, uint64_t key)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const void *at = (const unsigned char *)array + middle * element;
        if (*(const uint64_t *)at < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int ll_by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void ll_vec_remove_unordered(struct ll_vec *v, size_t i)
{
    void *place = ll_vec_at(v, i);
    v->len--;
    if (i != v->len)
        memcpy(place, (unsigned char *)v->data + v->len * v->element, v->element);
}

void ll_vec_remove(struct ll_vec *v, size_t i)
{
    unsigned char *place = ll_vec_at(v, i);
    v->len--;
    memmove(place, place + v->element, (v->len - i) * v->element);
}
