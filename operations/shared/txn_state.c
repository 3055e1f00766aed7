/* SPDX-License-Identifier: BSD-2-Clause */
/* See txn_state.h. */
#include "operations/shared/txn_state.h"

#include <lladd/extension.h>
#include <string.h>

int ll_operations__state_new(struct lladd_db *db, size_t size, size_t mutex_at, size_t parts_at,
                             void (*drop)(struct ll_txn_part *), const char *name, void **state,
                             struct lladd_error *err)
{
    unsigned char *all = lladd_mem_alloc(db, size);
    if (!all)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    memset(all, 0, size);
    struct lladd_mutex *mutex = (void *)(all + mutex_at);
    struct ll_txn_parts *parts = (void *)(all + parts_at);
    int rc = lladd_mutex_init(mutex, LLADD_RANK_LEAF, name);
    if (rc) {
        lladd_mem_free(db, all);
        return lladd_error_set(err, rc, "out of memory");
    }
    *parts = (struct ll_txn_parts){db, mutex, drop, NULL};
    *state = all;
    return 0;
}

void ll_operations__state_free(struct lladd_db *db, void *state, size_t mutex_at)
{
    lladd_mutex_destroy((void *)((unsigned char *)state + mutex_at));
    lladd_mem_free(db, state);
}

int ll_operations__owner_of(struct lladd_txn *txn, const struct lladd_participant *participant,
                            struct ll_txn_parts *all, size_t size, const char *what,
                            struct ll_txn_part **out)
{
    *out = lladd_txn_joined(txn, participant);
    if (*out)
        return 0;
    struct ll_txn_part *o = lladd_mem_alloc(all->db, size);
    if (!o)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory for %s",
                               what);
    memset(o, 0, size);
    o->all = all;
    int rc = lladd_txn_join(txn, participant, o);
    if (rc) {
        lladd_mem_free(all->db, o);
        return rc;
    }
    lladd_mutex_lock(all->mutex);
    o->next = all->first;
    if (o->next)
        o->next->before = o;
    all->first = o;
    lladd_mutex_unlock(all->mutex);
    *out = o;
    return 0;
}

void ll_operations__owner_end(struct ll_txn_part *o)
{
    struct ll_txn_parts *all = o->all;
    all->drop(o);
    lladd_mutex_lock(all->mutex);
    if (o->before)
        o->before->next = o->next;
    else
        all->first = o->next;
    if (o->next)
        o->next->before = o->before;
    lladd_mutex_unlock(all->mutex);
    lladd_mem_free(all->db, o);
}

void ll_operations__owners_end(struct ll_txn_parts *all)
{
    while (all->first)
        ll_operations__owner_end(all->first);
}

void ll_operations__owner_durable(void *ctx, void *state, struct lladd_db *db, lladd_lsn commit)
{
    (void)ctx;
    (void)db;
    (void)commit;
    ll_operations__owner_end(state);
}

void ll_operations__owner_aborted(void *ctx, void *state, struct lladd_db *db)
{
    (void)ctx;
    (void)db;
    ll_operations__owner_end(state);
}
