/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_POISON_H
#define LL_UTIL_POISON_H
/* The poison of one database (LOG-4): the first error after which nothing can be promised any more.
 * Log, buffer manager and recovery share one object. Each of them may set it, and checks it before
 * starting and before acknowledging something. The object wakes no thread: a layer that sets it
 * wakes its own sleepers. */
#include "util/env.h"

#include <lladd/sync.h>

struct ll_poison {
    uint32_t healthy; /* atomic; 1 until poisoned. The first field: the assembly puts the object
                       * where the kernel clears it in a forked child. */
    uint32_t state;   /* atomic; 0; 1 while the error is being stored; 2 */
    struct lladd_error error; /* constant from state 2 on */
};

static inline void ll_poison_init(struct ll_poison *p)
{
    *p = (struct ll_poison){.healthy = 1};
}

static inline bool ll_poisoned(const struct ll_poison *p)
{
    return LL_UNLIKELY(!lladd_atomic_load32(&p->healthy)) && lladd_atomic_load32(&p->state);
}

/* 0, or the first error, copied into *err. */
int ll_poison_check_slow(const struct ll_poison *, struct lladd_error *err);
static inline int ll_poison_check(const struct ll_poison *p, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&p->healthy)) ? 0 : ll_poison_check_slow(p, err);
}

/* Poisons, unless that has happened already; returns the first error. If the code of *why is not of
 * the poisoned root, `code` replaces it: the message tells the cause, the code what the caller has
 * to do. *err may be *why. */
int ll_poison_set(struct ll_poison *, int code, const struct lladd_error *why,
                  struct lladd_error *err);
/* The same with LLADD_WRITE_FAILED for a write or sync that failed with the negative errno rc, lack
 * of space included. */
int ll_poison_set_io_at(struct ll_poison *, const char *srcfile, int line, int rc, const char *what,
                        const char *name, struct lladd_error *err);
#define ll_poison_set_io(p, rc, what, name, err) \
    ll_poison_set_io_at(p, __FILE__, __LINE__, rc, what, name, err)

#endif
