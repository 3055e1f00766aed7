/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_HOLDER_H
#define TESTS_SUPPORT_HOLDER_H
/* A thread that holds a page for a test. If the test's own thread held the page, the library would
 * refuse some calls of that thread. */
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/sync.h>

struct holder {
    struct lladd_thread thread;
    struct lladd_db *db;
    lladd_pageno page;
    enum lladd_latch latch;
    uint32_t holds, enough; /* words for waiting */
    int rc;                 /* result of lladd_page_fix */
};

/* Returns 0 when the thread holds the page, or the error. */
int holder_begin(struct holder *, struct lladd_db *, lladd_pageno, enum lladd_latch);
/* Returns when the thread has released the page. */
void holder_end(struct holder *);

#endif
