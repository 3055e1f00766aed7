/* SPDX-License-Identifier: BSD-2-Clause */
/* See txn_state.h. */
#include "operations/shared/txn_state.h"

#include <lladd/extension.h>
#include <string.h>

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

void ll_operations__owner_free(struct ll_txn_part *o)
{
    struct ll_txn_parts *all = o->all;
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
