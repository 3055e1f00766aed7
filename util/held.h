/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_HELD_H
#define LL_UTIL_HELD_H
/*
 * held: what the calling thread holds, where that decides which calls it may make.
 *
 * In every build: how many pages of one database the thread has latched with lladd_page_fix, so
 * that a call that may wait can be refused (docs/threads.md). If a thread has latched pages of two
 * databases at once, only those of the first are known: a refusal is always right, but a call may
 * be allowed that should be refused.
 *
 * In debug builds also the mutexes, newest first (sync.c), and how many log credits the thread has
 * in hand: a thread with credit waits only for pages and the log's writer (BUF-3).
 */
#include "util/env.h"

#include <lladd/sync.h>

/* Without this a shared library calls a function to get the variable's address. musl cannot load a
 * library with this model into a running process. */
#if defined(__GLIBC__)
#define LL_HELD_MODEL __attribute__((tls_model("initial-exec")))
#else
#define LL_HELD_MODEL
#endif

struct ll_held {
    const void *of;  /* the database of the counted pages */
    uint32_t pages;  /* of it */
    uint32_t others; /* pages of other databases */
    uint32_t credits;            /* debug builds */
    struct lladd_mutex *mutexes; /* debug builds */
};

extern _Thread_local struct ll_held ll_held LL_HELD_MODEL;

/* Count a page that the thread has latched, and one that it has released. */
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

/* lladd_word_wait_as for the waits allowed with log credit: pages, their I/O, the log's writer.
 * Debug builds stop at any other wait of a thread that has log credit in hand. */
void ll_word_wait_with_credit(const char *what, const uint32_t *word, uint32_t expected,
                              uint32_t bits, uint64_t ns);

/* Debug builds: checks a thread that is about to take log credit, for which it may have to wait. It
 * must hold no credit, no page, and no mutex that a thread with credit may wait for. */
void ll_held_check_credit(void);
/* Debug builds: checks a thread at a place where `durable` callbacks may run, whether one is due or
 * not. It must hold no mutex of the core, no mutex under which a structure of the library creates
 * something (THR-2), and no credit. The mutexes that an application holds during a commit are its
 * own responsibility. */
void ll_held_check_callbacks(void);

#endif
