/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_HELD_H
#define LL_UTIL_HELD_H
/*
 * The pages, mutexes and log credit that the calling thread holds: they decide which calls the
 * thread may make.
 *
 * Every build counts how many pages of one database the thread has latched with lladd_page_fix. A
 * call that may wait returns LLADD_BAD_STATE if this number is not 0 (docs/threads.md). If a thread
 * has latched pages of two databases, only the pages of the first database are counted. A call on
 * the second database may then be allowed although it should be refused.
 *
 * Debug builds also keep the list of held mutexes, newest first (sync.c), and the number of log
 * credits in hand. A thread with credit may wait only for pages and the log's writer (BUF-3).
 */
#include "util/env.h"

#include <lladd/sync.h>

/* With the model initial-exec a shared library accesses the variable without a function call.
 * musl's dlopen cannot load such a library. */
#if defined(__GLIBC__)
#define LL_HELD_MODEL __attribute__((tls_model("initial-exec")))
#else
#define LL_HELD_MODEL
#endif

struct ll_held {
    const void *of;  /* the database to which `pages` refers */
    uint32_t pages;  /* latched pages of that database */
    uint32_t others; /* pages of other databases */
    uint32_t credits;            /* debug builds */
    struct lladd_mutex *mutexes; /* debug builds */
};

extern _Thread_local struct ll_held ll_held LL_HELD_MODEL;

/* ll_held_page counts a page that the thread has latched, ll_held_unpage a page that it has
 * released. */
static inline void ll_held_page(const void *of)
{
    struct ll_held *h = &ll_held;
    if (h->pages == 0)
        h->of = of;
    if (LL_LIKELY(h->of == of))
        h->pages++;
    else
        h->others++;
}

static inline void ll_held_unpage(const void *of)
{
    struct ll_held *h = &ll_held;
    if (LL_LIKELY(h->pages != 0 && h->of == of))
        h->pages--;
    else if (h->others != 0)
        h->others--;
}

static inline bool ll_held_pages(const void *of)
{
    return LL_UNLIKELY(ll_held.pages != 0) && ll_held.of == of;
}

/* Like lladd_word_wait_as, for the waits that a thread with log credit may make: for pages, their
 * I/O, and the log's writer. Debug builds stop a thread with log credit at any other wait. */
void ll_word_wait_with_credit(const char *what, const uint32_t *word, uint32_t expected,
                              uint32_t bits, uint64_t ns);

/* Debug builds: call this before log credit is taken, which may wait. Checks that the thread holds
 * no credit, no page, and no mutex for which a thread with credit may wait. */
void ll_held_check_credit(void);
/* Debug builds: call this where `durable` callbacks may run, even if none is due. Checks that the
 * thread holds no credit, and only mutexes with ranks of extensions: from LLADD_RANK_EXTENSION to
 * below LLADD_RANK_DATABASE (THR-2). */
void ll_held_check_callbacks(void);

#endif
