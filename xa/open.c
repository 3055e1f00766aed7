/* SPDX-License-Identifier: BSD-2-Clause */
/* xa_open and xa_close: a thread's states R0 and R1 in table 6-2 of the XA standard (C193). */
#include "xa/xa_private.h"

#include <string.h>

static struct ll_xa__opening *add_opening(struct ll_xa__rm *rm, const struct ll_xa__store *s)
{
    struct ll_xa__opening *o = ll_xa__new(s->options.allocator, 1, sizeof *o);
    if (!o)
        return NULL;
    o->thread = s->spec.any_thread ? 0 : lladd_thread_self();
    o->next = rm->openings;
    rm->openings = o;
    return o;
}

void ll_xa__opening_end(struct ll_xa__rm *rm, struct ll_xa__opening *o)
{
    struct ll_xa__store *store = rm->store;
    struct ll_xa__opening **place = &rm->openings;
    while (*place != o)
        place = &(*place)->next;
    *place = o->next;
    ll_xa__delete(store->options.allocator, o->scan);
    ll_xa__delete(store->options.allocator, o);
    ll_xa__disown(rm, lladd_thread_self());
    if (!rm->openings) {
        ll_xa__let_go(rm, 0);
        while (rm->assocs) /* suspended associations that may migrate */
            ll_xa__assoc_remove(rm->assocs);
        rm->store = NULL;
    }
    ll_xa__store_release(store);
}

/* Called with the mutex, which ll_xa__store_open may release for a time. The rm is not freed
 * meanwhile, because ll_xa__begin has counted the call. */
static int open_here(struct ll_xa__rm *rm, const char *info)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_xa__spec spec;
    struct ll_xa__store *store;
    if (ll_xa__parse(info, &spec, &err))
        return ll_xa__say_error(rm, XAER_INVAL, &err);
    if (!spec.dir[0] && !(rm->options && rm->options->device))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "dir is missing");
    int rc = ll_xa__store_open(rm, &spec, &store);
    if (rc)
        return rc;
    if (rm->store && (rm->store != store || strcmp(rm->info, info) != 0)) {
        ll_xa__store_release(store);
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "other threads have opened rmid %d with another open string", rm->rmid);
    }
    if (!ll_xa__thread_mark() || !add_opening(rm, store)) {
        ll_xa__store_release(store);
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory");
    }
    rm->store = store;
    memcpy(rm->info, info, strlen(info) + 1);
    return XA_OK;
}

static int open_or_again(struct ll_xa__rm *rm, const char *info, unsigned long flags)
{
    if (flags & TMASYNC)
        return ll_xa__say(rm, XAER_ASYNC, LLADD_BAD_ARGUMENT,
                          "asynchronous calls (TMASYNC) are not supported");
    if (flags != TMNOFLAGS || !info || strnlen(info, MAXINFOSIZE) == MAXINFOSIZE)
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "xa_open takes a string of up to %d bytes, and no flags",
                          MAXINFOSIZE - 1);
    while (rm->store && rm->store->opening)
        lladd_cond_wait(&ll_xa__all.opened, &ll_xa__all.mutex);
    if (!rm->store || !ll_xa__opening_of(rm))
        return open_here(rm, info);
    if (strcmp(rm->info, info) != 0)
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "rmid %d is open with another open string", rm->rmid);
    return ll_xa__healthy(rm) == XA_OK ? XA_OK : ll_xa__store_reopen(rm);
}

int ll_xa__open(char *info, int rmid, long flags)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_of(rmid);
    if (!rm)
        return ll_xa__leave(NULL, XAER_RMERR);
    ll_xa__begin(rm);
    return ll_xa__leave(rm, open_or_again(rm, info, (unsigned long)flags));
}

/* Takes the calling thread from R1 to R0. Other threads' openings of the rm stay. */
static int close_here(struct ll_xa__rm *rm, struct ll_xa__opening *o)
{
    bool failed = rm->store->opening || ll_xa__healthy(rm) != XA_OK;
    struct ll_xa__assoc *a = ll_xa__tied(rm, o->thread);
    if (a && !failed)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                          "a thread that is associated with a branch cannot close");
    if (!o->thread && rm->calls > 1)
        return ll_xa__say(rm, XAER_PROTO, LLADD_BUSY, "other threads are in calls under the rmid");
    for (; a; a = ll_xa__tied(rm, o->thread))
        ll_xa__assoc_remove(a);
    ll_xa__opening_end(rm, o);
    return XA_OK;
}

int ll_xa__close(char *info, int rmid, long flags)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    if (rm)
        ll_xa__begin(rm);
    if ((unsigned long)flags & TMASYNC)
        return ll_xa__leave(rm, ll_xa__say(rm, XAER_ASYNC, LLADD_BAD_ARGUMENT,
                                           "asynchronous calls (TMASYNC) are not supported"));
    if (flags != TMNOFLAGS || (info && strnlen(info, MAXINFOSIZE) == MAXINFOSIZE))
        return ll_xa__leave(
            rm, ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT, "xa_close takes no flags"));
    struct ll_xa__opening *o = rm && rm->store ? ll_xa__opening_of(rm) : NULL;
    return ll_xa__leave(rm, o ? close_here(rm, o) : XA_OK); /* R0 stays R0 */
}
