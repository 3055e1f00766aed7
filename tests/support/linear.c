/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker of linear.h. */
#include "support/linear.h"

#include "support/fixtures.h"

#include <lladd/sync.h>
#include <stdlib.h>

uint64_t linear_moment(void)
{
    static uint64_t now;
    return lladd_atomic_add64(&now, 1) + 1;
}

struct linear_state *linear_add(struct linear_history *h, uint32_t number, uint64_t begin)
{
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->states = realloc(h->states, h->cap * sizeof *h->states);
        sure(h->states != NULL, "out of memory");
    }
    h->states[h->n] = (struct linear_state){number, begin, 0};
    return &h->states[h->n++];
}

static int by_key_and_begin(const void *x, const void *y)
{
    const struct linear_look *a = x, *c = y;
    return a->key != c->key ? (a->key > c->key) - (a->key < c->key)
                            : (a->begin > c->begin) - (a->begin < c->begin);
}

/* Gives each look the earliest state that it can have seen. This state is at least as new as the
 * states of all changes and looks that ended before the look began. */
bool linear_in_order(const struct linear_history *h, const struct linear_look *looks, size_t n)
{
    size_t *seen = calloc(n + 1, sizeof *seen);
    bool fine = true;
    sure(seen != NULL, "out of memory");
    for (size_t i = 0; i < n && fine; i++) {
        size_t s = 0;
        while (s + 1 < h->n && h->states[s + 1].end < looks[i].begin)
            s++;
        for (size_t k = 0; k < i; k++)
            if (looks[k].end < looks[i].begin && seen[k] > s)
                s = seen[k];
        while (s < h->n && h->states[s].number != looks[i].number)
            s++;
        fine = s < h->n && h->states[s].begin < looks[i].end;
        seen[i] = s;
    }
    free(seen);
    return fine;
}

bool linear_check(const struct linear_history *histories, struct linear_look *looks, size_t n,
                  uint32_t *key)
{
    qsort(looks, n, sizeof *looks, by_key_and_begin);
    for (size_t from = 0, to; from < n; from = to) {
        *key = looks[from].key;
        for (to = from; to < n && looks[to].key == *key;)
            to++;
        if (!linear_in_order(&histories[*key], looks + from, to - from))
            return false;
    }
    return true;
}
