/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/holder.h"

static void *hold(void *arg)
{
    struct holder *h = arg;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_page *page;
    h->rc = lladd_page_fix(h->db, h->page, h->latch, &page, &err);
    lladd_atomic_store32(&h->holds, 1);
    lladd_word_wake(&h->holds, 1, 1);
    while (!lladd_atomic_load32(&h->enough))
        lladd_word_wait(&h->enough, 0, 1, 0);
    if (!h->rc)
        lladd_page_unfix(h->db, page, h->latch);
    return NULL;
}

int holder_begin(struct holder *h, struct lladd_db *db, lladd_pageno page, enum lladd_latch latch)
{
    *h = (struct holder){.db = db, .page = page, .latch = latch};
    int rc = lladd_thread_start(&h->thread, hold, h);
    while (!rc && !lladd_atomic_load32(&h->holds))
        lladd_word_wait(&h->holds, 0, 1, 0);
    return rc ? rc : h->rc;
}

void holder_end(struct holder *h)
{
    lladd_atomic_store32(&h->enough, 1);
    lladd_word_wake(&h->enough, 1, 1);
    lladd_thread_join(&h->thread);
}
