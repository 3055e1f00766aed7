/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_UTIL_POISON_H
#define LL_UTIL_POISON_H
/* The poison of one database (LOG-4): the first error after which the library can make no more
 * promises. The layers of a database share one object: they set the poison, and check it before
 * they start or acknowledge an action. Setting the poison wakes no thread: each layer must wake its
 * own sleeping threads. */
#include "util/env.h"

#include <lladd/sync.h>

struct ll_poison {
    uint32_t healthy; /* atomic; 1 until poisoned. It is the first member, because db/open.c puts
                       * the object into memory that the kernel zeroes in a forked child. */
    uint32_t state;   /* atomic; 0: no error; 1: being stored; 2: stored */
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

/* Returns 0, or the code of the first error, which is copied into *err. */
int ll_poison_check_slow(const struct ll_poison *, struct lladd_error *err);
static inline int ll_poison_check(const struct ll_poison *p, struct lladd_error *err)
{
    return LL_LIKELY(lladd_atomic_load32(&p->healthy)) ? 0 : ll_poison_check_slow(p, err);
}

/* Poisons the object unless it is poisoned already. Returns the code of the first error, which is
 * copied into *err. If the code of *why does not have the poisoned root, `code` replaces it: the
 * message names the cause, the code says what the caller has to do. `err` may equal `why`. */
int ll_poison_set(struct ll_poison *, int code, const struct lladd_error *why,
                  struct lladd_error *err);
/* Poisons the object after a write or sync has returned the negative errno rc. The code is
 * LLADD_WRITE_FAILED, also for lack of space. */
int ll_poison_set_io_at(struct ll_poison *, const char *srcfile, int line, int rc, const char *what,
                        const char *name, struct lladd_error *err);
#define ll_poison_set_io(p, rc, what, name, err) \
    ll_poison_set_io_at(p, __FILE__, __LINE__, rc, what, name, err)

#endif
