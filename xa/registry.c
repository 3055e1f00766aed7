/* SPDX-License-Identifier: BSD-2-Clause */
/* The resource manager instances of the process, their openings, and each thread's last error. */
#include "xa/xa_private.h"

#include <lladd/op.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The state of the process: it is in a global variable, because XA identifies an instance only by a
 * number. The mutex is initialised statically, so any thread may make the first call. */
struct ll_xa__all ll_xa__all = {
    .mutex = {.m = PTHREAD_MUTEX_INITIALIZER, .name = "xa", .rank = LLADD_RANK_EXTENSION},
    .opened = {.c = PTHREAD_COND_INITIALIZER},
};

static _Thread_local struct {
    bool known;
    int rmid;
    struct lladd_error err;
} last;

void ll_xa__begin(struct ll_xa__rm *rm)
{
    rm->calls++;
    rm->err.code = 0;
    last.known = true;
    last.rmid = rm->rmid;
    last.err.code = 0;
}

struct ll_xa__rm *ll_xa__rm_find(int rmid)
{
    struct ll_xa__rm *rm = ll_xa__all.rms;
    while (rm && rm->rmid != rmid)
        rm = rm->next;
    return rm;
}

struct ll_xa__rm *ll_xa__rm_of(int rmid)
{
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    if (rm)
        return rm;
    rm = ll_xa__new(ll_xa__all.memory, 1, sizeof *rm);
    if (rm) {
        rm->err = (struct lladd_error)LLADD_ERROR_INIT;
        rm->rmid = rmid;
        rm->next = ll_xa__all.rms;
        ll_xa__all.rms = rm;
    }
    return rm;
}

void ll_xa__rm_settle(struct ll_xa__rm *rm)
{
    if (--rm->calls || rm->store || rm->options || rm->err.code)
        return;
    struct ll_xa__rm **place = &ll_xa__all.rms;
    while (*place != rm)
        place = &(*place)->next;
    *place = rm->next;
    ll_xa__delete(ll_xa__all.memory, rm);
}

struct ll_xa__opening *ll_xa__opening_of(struct ll_xa__rm *rm)
{
    uint64_t self = rm->store && rm->store->spec.any_thread ? 0 : lladd_thread_self();
    struct ll_xa__opening *o = rm->openings;
    while (o && o->thread != self)
        o = o->next;
    return o;
}

int ll_xa__say(struct ll_xa__rm *rm, int xa_code, int code, const char *fmt, ...)
{
    char text[sizeof rm->err.message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (rm) {
        lladd_error_set(&rm->err, code, "%s", text);
        last.err = rm->err;
    }
    return xa_code;
}

int ll_xa__say_error(struct ll_xa__rm *rm, int xa_code, const struct lladd_error *err)
{
    if (rm)
        last.err = rm->err = *err;
    return xa_code;
}

int ll_xa__healthy(struct ll_xa__rm *rm)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (!rm->store->db)
        return ll_xa__say(rm, XAER_RMFAIL, LLADD_CLOSED, "the database could not be opened again");
    return lladd_db_error(rm->store->db, &why) ? ll_xa__say_error(rm, XAER_RMFAIL, &why) : XA_OK;
}

int ll_xa__enter(int rmid, long flags, unsigned long allowed, struct ll_xa__rm **out)
{
    unsigned long f = (unsigned long)flags;
    *out = NULL;
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    while (rm && rm->store && rm->store->opening) { /* a thread is reopening the database after a
                                                     * failure */
        lladd_cond_wait(&ll_xa__all.opened, &ll_xa__all.mutex);
        rm = ll_xa__rm_find(rmid);
    }
    if (rm)
        ll_xa__begin(rm);
    if (!rm || !rm->store || !ll_xa__opening_of(rm))
        return ll_xa__leave(rm, ll_xa__say(rm, XAER_PROTO, LLADD_BAD_STATE,
                                           "this thread has not opened rmid %d", rmid));
    if (f & TMASYNC)
        return ll_xa__leave(rm, ll_xa__say(rm, XAER_ASYNC, LLADD_BAD_ARGUMENT,
                                           "asynchronous calls (TMASYNC) are not supported"));
    if (f & ~allowed)
        return ll_xa__leave(rm, ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                                           "flags %#lx do not fit the call", f));
    *out = rm;
    return XA_OK;
}

int ll_xa__leave(struct ll_xa__rm *rm, int rc)
{
    if (rm)
        ll_xa__rm_settle(rm);
    lladd_mutex_unlock(&ll_xa__all.mutex);
    return rc;
}

bool ll_xa__xid_ok(const struct xid_t *x)
{
    return x && x->formatID != -1 && x->gtrid_length >= 1 && x->gtrid_length <= MAXGTRIDSIZE &&
           x->bqual_length >= 0 && x->bqual_length <= MAXBQUALSIZE;
}

struct lladd_gid ll_xa__gid(const struct xid_t *x)
{
    struct lladd_gid g;
    memset(&g, 0, sizeof g);
    g.format = x->formatID;
    g.gtrid_length = (uint32_t)x->gtrid_length;
    g.bqual_length = (uint32_t)x->bqual_length;
    memcpy(g.data, x->data, g.gtrid_length + g.bqual_length);
    return g;
}

/* ---- calls for applications -------------------------------------------------------------- */

struct lladd_db *lladd_xa_db(int rmid)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    struct lladd_db *db = rm && rm->store && !rm->store->opening ? rm->store->db : NULL;
    lladd_mutex_unlock(&ll_xa__all.mutex);
    return db;
}

struct lladd_txn *lladd_xa_txn(int rmid)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    const struct ll_xa__assoc *a = rm ? ll_xa__current(rm) : NULL;
    struct lladd_txn *txn = a ? a->branch->txn : NULL;
    lladd_mutex_unlock(&ll_xa__all.mutex);
    return txn;
}

int lladd_xa_options(int rmid, const struct lladd_options *options)
{
    int rc = 0;
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_of(rmid);
    if (!rm)
        return ll_xa__leave(NULL, LLADD_NO_MEMORY);
    rm->calls++;
    if (rm->store)
        rc = LLADD_BAD_STATE;
    else if (options && options->struct_size != sizeof *options)
        rc = LLADD_BAD_ARGUMENT;
    else
        rm->options = options;
    return ll_xa__leave(rm, rc);
}

int lladd_xa_error(int rmid, struct lladd_error *out)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    struct ll_xa__rm *rm = ll_xa__rm_find(rmid);
    bool own = last.known && last.rmid == rmid;
    const struct lladd_error *err = own ? &last.err : rm ? &rm->err : NULL;
    int code = err ? err->code : 0;
    if (code && out)
        *out = *err;
    lladd_mutex_unlock(&ll_xa__all.mutex);
    return code;
}
