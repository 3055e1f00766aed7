/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of a store's branches by id, and the associations of threads with branches. Every
 * function is called with the mutex. */
#include "xa/xa_private.h"

#include <string.h>

static size_t hash(const struct lladd_gid *g)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)g->format;
    size_t n = (size_t)g->gtrid_length + g->bqual_length;
    for (size_t i = 0; i < n; i++)
        h = (h ^ g->data[i]) * UINT64_C(0x100000001b3); /* FNV-1a is enough: the transaction
                                                         * manager is trusted to choose the ids */
    return (size_t)(h ^ h >> 32);
}

/* The bytes after gtrid and bqual are ignored. */
static bool same(const struct lladd_gid *a, const struct lladd_gid *b)
{
    return a->format == b->format && a->gtrid_length == b->gtrid_length &&
           a->bqual_length == b->bqual_length &&
           memcmp(a->data, b->data, (size_t)a->gtrid_length + a->bqual_length) == 0;
}

struct ll_xa__branch *ll_xa__branch_find(struct ll_xa__store *s, const struct lladd_gid *gid)
{
    if (!s->n_buckets)
        return NULL;
    struct ll_xa__branch *b = s->buckets[hash(gid) & (s->n_buckets - 1)];
    while (b && !same(&b->gid, gid))
        b = b->next;
    return b;
}

static bool grow(struct ll_xa__store *s)
{
    size_t n = s->n_buckets ? s->n_buckets * 2 : 64;
    const struct lladd_allocator *mem = s->options.allocator;
    struct ll_xa__branch **wider = ll_xa__new(mem, n, sizeof(struct ll_xa__branch *));
    if (!wider)
        return s->n_buckets != 0; /* without memory the table does not grow, and chains get
                                   * longer */
    for (size_t i = 0; i < s->n_buckets; i++)
        for (struct ll_xa__branch *b = s->buckets[i], *next; b; b = next) {
            next = b->next;
            size_t at = hash(&b->gid) & (n - 1);
            b->next = wider[at];
            wider[at] = b;
        }
    ll_xa__delete(mem, s->buckets);
    s->buckets = wider;
    s->n_buckets = n;
    return true;
}

struct ll_xa__branch *ll_xa__branch_add(struct ll_xa__store *s, const struct lladd_gid *gid)
{
    if (s->n_branches >= s->n_buckets && !grow(s))
        return NULL;
    struct ll_xa__branch *b = ll_xa__new(s->options.allocator, 1, sizeof *b);
    if (!b)
        return NULL;
    size_t at = hash(gid) & (s->n_buckets - 1);
    b->gid = *gid;
    b->next = s->buckets[at];
    s->buckets[at] = b;
    s->n_branches++;
    return b;
}

void ll_xa__branch_remove(struct ll_xa__store *s, struct ll_xa__branch *b)
{
    struct ll_xa__branch **place = &s->buckets[hash(&b->gid) & (s->n_buckets - 1)];
    while (*place != b)
        place = &(*place)->next;
    *place = b->next;
    s->n_branches--;
    while (b->assocs)
        ll_xa__assoc_remove(b->assocs);
    ll_xa__delete(s->options.allocator, b);
}

void ll_xa__branches_free(struct ll_xa__store *s)
{
    for (size_t i = 0; i < s->n_buckets; i++)
        while (s->buckets[i])
            ll_xa__branch_remove(s, s->buckets[i]);
    ll_xa__delete(s->options.allocator, s->buckets);
    s->buckets = NULL;
    s->n_buckets = 0;
}

int ll_xa__branch_idle(struct ll_xa__rm *rm, const struct lladd_gid *gid, bool nowait,
                       struct ll_xa__branch **out)
{
    struct ll_xa__store *s = rm->store;
    struct ll_xa__branch *b = ll_xa__branch_find(s, gid);
    while (b && b->busy && !nowait) { /* until the call that has marked the branch busy has ended */
        lladd_cond_wait(&s->changed, &ll_xa__all.mutex);
        if (s->opening || !s->db)
            return ll_xa__say(rm, XAER_RMFAIL, LLADD_CLOSED, "the database has failed");
        b = ll_xa__branch_find(s, gid);
    }
    if (b && b->busy)
        return ll_xa__say(rm, XA_RETRY, LLADD_BUSY,
                          "another thread is preparing, ending or taking over the branch");
    *out = b;
    return XA_OK;
}

/* ---- associations ---------------------------------------------------------------------------- */

struct ll_xa__assoc *ll_xa__active(const struct ll_xa__branch *b)
{
    struct ll_xa__assoc *a = b->assocs;
    while (a && a->suspended)
        a = a->next;
    return a;
}

struct ll_xa__assoc *ll_xa__mine(const struct ll_xa__branch *b, const struct ll_xa__rm *rm)
{
    struct ll_xa__assoc *a = b->assocs;
    while (a && (a->rm != rm || a->thread != lladd_thread_self()))
        a = a->next;
    return a;
}

struct ll_xa__assoc *ll_xa__resumable(const struct ll_xa__branch *b, const struct ll_xa__rm *rm)
{
    struct ll_xa__assoc *mine = ll_xa__mine(b, rm), *any = NULL;
    if (mine)
        return mine->suspended ? mine : NULL;
    for (struct ll_xa__assoc *a = b->assocs; a && !(any && any->migrates); a = a->next)
        if (a->rm == rm && a->suspended && (a->migrates || rm->store->spec.any_thread))
            any = a;
    return any;
}

struct ll_xa__assoc *ll_xa__assoc_add(struct ll_xa__branch *b, struct ll_xa__rm *rm)
{
    struct ll_xa__assoc *a = ll_xa__new(rm->store->options.allocator, 1, sizeof *a);
    if (!a)
        return NULL;
    a->rm = rm;
    a->branch = b;
    a->thread = lladd_thread_self();
    a->next = b->assocs;
    b->assocs = a;
    a->next_of_rm = rm->assocs;
    rm->assocs = a;
    return a;
}

/* Removes the association from the lists of its branch and its rm; the caller frees the
 * association. */
static void unlink_assoc(struct ll_xa__assoc *a)
{
    struct ll_xa__assoc **place = &a->branch->assocs;
    while (*place != a)
        place = &(*place)->next;
    *place = a->next;
    place = &a->rm->assocs;
    while (*place != a)
        place = &(*place)->next_of_rm;
    *place = a->next_of_rm;
}

void ll_xa__assoc_remove(struct ll_xa__assoc *a)
{
    unlink_assoc(a);
    ll_xa__delete(a->rm->store->options.allocator, a);
}

void ll_xa__assoc_taken(struct ll_xa__assoc *a)
{
    unlink_assoc(a);
    a->txn = a->branch->txn;
    a->branch = NULL;
    a->next = NULL;
    a->next_of_rm = a->rm->taken;
    a->rm->taken = a;
}

void ll_xa__let_go(struct ll_xa__rm *rm, uint64_t thread)
{
    struct ll_xa__assoc **place = &rm->taken;
    while (*place) {
        struct ll_xa__assoc *a = *place;
        if (thread && a->thread != thread) {
            place = &a->next_of_rm;
            continue;
        }
        *place = a->next_of_rm;
        lladd_txn_drop(a->txn);
        ll_xa__delete(rm->store->options.allocator, a);
    }
}

struct ll_xa__assoc *ll_xa__current(const struct ll_xa__rm *rm)
{
    struct ll_xa__assoc *a = rm->assocs;
    while (a && (a->suspended || a->thread != lladd_thread_self()))
        a = a->next_of_rm;
    return a;
}

struct ll_xa__assoc *ll_xa__tied(const struct ll_xa__rm *rm, uint64_t thread)
{
    struct ll_xa__assoc *a = rm->assocs;
    while (a && thread && (a->thread != thread || a->migrates))
        a = a->next_of_rm;
    return a;
}

bool ll_xa__knows(const struct ll_xa__rm *rm, uint64_t thread)
{
    const struct ll_xa__assoc *a = rm->assocs, *t = rm->taken;
    const struct ll_xa__opening *o = rm->openings;
    while (a && a->thread != thread)
        a = a->next_of_rm;
    while (t && t->thread != thread)
        t = t->next_of_rm;
    while (o && o->thread != thread)
        o = o->next;
    return a || t || o;
}

void ll_xa__disown(struct ll_xa__rm *rm, uint64_t thread)
{
    for (struct ll_xa__assoc *a = rm->assocs; a; a = a->next_of_rm)
        if (a->thread == thread && a->migrates)
            a->thread = 0;
}
