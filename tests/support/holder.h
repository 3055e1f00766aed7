/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_HOLDER_H
#define TESTS_SUPPORT_HOLDER_H
/* A thread that holds a page, so that the library does not refuse what the test's own thread does
 * meanwhile. */
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

/* Returns once the page is held: 0, or the error. */
int holder_begin(struct holder *, struct lladd_db *, lladd_pageno, enum lladd_latch);
/* Returns once it is released. */
void holder_end(struct holder *);

#endif
