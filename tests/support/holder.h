/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_HOLDER_H
#define TESTS_SUPPORT_HOLDER_H
/* Another thread that holds a page: what the test's own thread does meanwhile is not refused. */
#include <lladd/lladd.h>
#include <lladd/sync.h>

struct holder {
    struct lladd_thread thread;
    struct lladd_db *db;
    lladd_pageno page;
    enum lladd_latch latch;
    uint32_t holds, enough; /* words */
    int rc;                 /* of lladd_fix */
};

/* Returns when the page is held: 0, or why it is not. */
int holder_begin(struct holder *, struct lladd_db *, lladd_pageno, enum lladd_latch);
/* Returns when it is not any more. */
void holder_end(struct holder *);

#endif
