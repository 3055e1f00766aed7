/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_HELD_H
#define LL_UTIL_HELD_H
/*
 * held: what the calling thread holds, where that decides which calls it may make.
 *
 * In every build: how many pages of one database the thread has latched with lladd_page_fix. A call
 * that may wait is refused if this number is not 0 (docs/threads.md). If a thread has latched pages
 * of two databases, only the pages of the database latched first count. No call is refused wrongly,
 * but a call to the other database may be allowed although it should be refused.
 *
 * In debug builds also the list of held mutexes, newest first (sync.c), and the number of log
 * credits in hand: a thread with credit may wait only for pages and the log's writer (BUF-3).
 */
#include "util/env.h"

#include <lladd/sync.h>

/* With this model a shared library reaches the variable without a function call. musl cannot load
 * such a library into a running process. */
#if defined(__GLIBC__)
#define LL_HELD_MODEL __attribute__((tls_model("initial-exec")))
#else
#define LL_HELD_MODEL
#endif

struct ll_held {
    const void *of;  /* the database of the counted pages */
    uint32_t pages;  /* latched pages of that database */
    uint32_t others; /* pages of other databases */
    uint32_t credits;            /* debug builds */
    struct lladd_mutex *mutexes; /* debug builds */
};

extern _Thread_local struct ll_held ll_held LL_HELD_MODEL;

/* Count a page that the thread has latched, and a page that the thread has released. */
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

/* Like lladd_word_wait_as, for the waits that are allowed with log credit: for pages, their I/O,
 * and the log's writer. Debug builds stop at any other wait of a thread with log credit in hand. */
void ll_word_wait_with_credit(const char *what, const uint32_t *word, uint32_t expected,
                              uint32_t bits, uint64_t ns);

/* Debug builds: checks a thread that is about to take log credit, and so may wait for credit. The
 * thread must hold no credit, no page, and no mutex that a thread with credit may wait for. */
void ll_held_check_credit(void);
/* Debug builds: call this where `durable` callbacks may run, even if none is due. The thread must
 * hold no mutex of the core, no mutex under which a structure of the library creates something
 * (THR-2), and no credit. Mutexes of the application are allowed; the application is responsible
 * for them. */
void ll_held_check_callbacks(void);

#endif
