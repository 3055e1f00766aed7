/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_FILTERS_H
#define TESTS_SHIP_FILTERS_H
/*
 * Filters of stores. Toys: none of them is secure.
 */
#include <lladd/ship.h>

enum filter_kind {
    FILTER_SQUEEZE, /* compresses with LZ4 */
    FILTER_SEAL,    /* encrypts with a random nonce, and notices another key and moved blocks */
    FILTER_BLIND,   /* encrypts with a random nonce, and notices nothing */
    FILTER_KINDS
};

struct test_filter {
    struct lladd_store_filter filter;
    uint64_t key, nonce;
    uint64_t outs, ins;           /* calls */
    uint64_t calls, fail_at;      /* the call with this number fails; 0: none */
    int fail_with;                /* ... with this code */
    const char *fail_text;        /* ... and this message; NULL: none */
    unsigned fired;
};

void test_filter_init(struct test_filter *, enum filter_kind, uint64_t key);
/* A store over `inside`, which it owns. Asserts success. */
struct lladd_store *test_filter_over(struct lladd_store *inside, struct test_filter *);
#endif
