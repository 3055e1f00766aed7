/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_LINEAR_H
#define TESTS_SUPPORT_LINEAR_H
/* Checks that an index is linearizable: each lookup sees the state of its key at one moment between
 * its call and its return. This holds for the index if it holds for each of its keys. One thread
 * changes a key, and notes its states. Other threads note what they see. Afterwards the notes are
 * checked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The states of a key, in their order. Each value of a key has another `number`; with number 0
 * there is no row. The key entered the state at a moment between `begin` and `end`. */
struct linear_state {
    uint32_t number;
    uint64_t begin, end;
};
struct linear_history {
    struct linear_state *states;
    size_t n, cap;
    uint32_t numbers; /* the newest number of a value */
};

/* What a reader has seen. */
struct linear_look {
    uint32_t key, number;
    uint64_t begin, end;
};

/* Returns a new number of a clock that all threads share. */
uint64_t linear_moment(void);
/* Adds a state that began at `begin`; the caller sets `end`. Aborts without memory. The caller
 * frees h->states. */
struct linear_state *linear_add(struct linear_history *h, uint32_t number, uint64_t begin);
/* Returns true if all changes and looks of a key can be put in one order, in which each takes place
 * at a moment during its call. The looks are sorted by `begin`. */
bool linear_in_order(const struct linear_history *, const struct linear_look *, size_t n);
/* Sorts n looks, and checks those of each key against histories[key]. Returns false if those of
 * *key are in no order. */
bool linear_check(const struct linear_history *histories, struct linear_look *, size_t n,
                  uint32_t *key);

#endif
