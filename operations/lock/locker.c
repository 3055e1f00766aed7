/* SPDX-License-Identifier: BSD-2-Clause */
/* Lockers and their holds. Only the transaction's own thread uses the table and the list of
 * holds, without a mutex.
 *
 * Lockers are kept in pools and reused, each with some spare holds. A thread that wakes waiters
 * may use a locker's `word` after the transaction has ended, so the memory of lockers is freed
 * only when the handle is closed. */
#include "operations/lock/table.h"

static struct ll_locker *new_locker(struct ll_locks *all)
{
    struct ll_locker *l = lladd_mem_alloc(all->db, sizeof *l);
    if (!l)
        return NULL;
    memset(l, 0, sizeof *l);
    l->all = all;
    l->buckets = l->inline_buckets;
    l->n_buckets = LL_LOCK_BUCKETS;
    return l;
}

static int take_locker(struct ll_locks *all, uint32_t pool, struct ll_locker **out)
{
    struct ll_lock_partition *part = &all->parts[pool];
    lladd_mutex_lock(&part->mutex);
    struct ll_locker *l = part->rest;
    if (l)
        part->rest = l->next_free;
    lladd_mutex_unlock(&part->mutex);
    if (!l) {
        l = new_locker(all);
        if (!l)
            return LLADD_NO_MEMORY;
        l->pool = pool;
        lladd_mutex_lock(&part->mutex);
        l->next_all = part->lockers;
        part->lockers = l;
        part->bytes += sizeof *l;
        lladd_mutex_unlock(&part->mutex);
    }
    *out = l;
    return 0;
}

int ll_operations__locker_join(struct ll_locks *all, struct lladd_txn *txn, struct ll_locker **out)
{
    struct ll_locker *l;
    uint32_t pool = (uint32_t)((uintptr_t)txn >> 6) % LL_LOCK_PARTITIONS;
    if (take_locker(all, pool, &l))
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY,
                               "out of memory for locks");
    lladd_atomic_store64(&l->number, lladd_atomic_add64(&all->numbers, 1) + 1);
    lladd_atomic_store64(&l->txn, lladd_txn_id(txn).v);
    lladd_atomic_store32(&l->state, LL_LOCKER_ACTIVE);
    l->serialisable = lladd_atomic_load32(&all->serialisable) != 0;
    int rc = lladd_txn_join(txn, &ll_operations__lock_participant, l);
    if (rc) {
        ll_operations__locker_rest(l);
        return rc;
    }
    *out = l;
    return 0;
}

void ll_operations__locker_rest(struct ll_locker *l)
{
    struct ll_lock_partition *part = &l->all->parts[l->pool];
    l->n_replaced = 0;
    if (l->buckets != l->inline_buckets) { /* the table of a large transaction is not kept */
        lladd_mem_free(l->all->db, l->buckets);
        l->buckets = l->inline_buckets;
        l->n_buckets = LL_LOCK_BUCKETS;
        memset(l->inline_buckets, 0, sizeof l->inline_buckets);
    }
    lladd_atomic_store32(&l->state, LL_LOCKER_RESTS);
    lladd_mutex_lock(&part->mutex);
    l->next_free = part->rest;
    part->rest = l;
    lladd_mutex_unlock(&part->mutex);
}

void ll_operations__locker_free(struct ll_locker *l)
{
    struct lladd_db *db = l->all->db;
    for (struct ll_lock_hold *h = l->newest, *older; h; h = older) {
        older = h->older;
        lladd_mem_free(db, h);
    }
    for (struct ll_lock_hold *h = l->spare, *next; h; h = next) {
        next = h->chain;
        lladd_mem_free(db, h);
    }
    if (l->buckets != l->inline_buckets)
        lladd_mem_free(db, l->buckets);
    lladd_mem_free(db, l->replaced);
    lladd_mem_free(db, l->name);
    lladd_mem_free(db, l->story);
    lladd_mem_free(db, l);
}

/* ---- holds ----------------------------------------------------------------------------------- */

static struct ll_lock_hold **bucket(const struct ll_locker *l, uint64_t hash)
{
    return &l->buckets[hash & (l->n_buckets - 1)];
}

struct ll_lock_hold *ll_operations__lock_hold_find(const struct ll_locker *l, uint64_t hash,
                                                   const unsigned char *name, size_t len)
{
    struct ll_lock_hold *h = *bucket(l, hash);
    while (h && (h->lock->node.key != hash || h->lock->len != len ||
                 memcmp(h->lock->name, name, len) != 0))
        h = h->chain;
    return h;
}

/* Makes the table larger. If there is no memory, its chains grow longer. */
static void spread(struct ll_locker *l)
{
    size_t n = l->n_buckets * 4;
    struct ll_lock_hold **fresh = lladd_mem_alloc(l->all->db, n * sizeof(struct ll_lock_hold *));
    if (!fresh)
        return;
    memset(fresh, 0, n * sizeof(struct ll_lock_hold *));
    for (struct ll_lock_hold *h = l->oldest; h; h = h->newer) {
        struct ll_lock_hold **to = &fresh[h->lock->node.key & (n - 1)];
        h->chain = *to;
        *to = h;
    }
    if (l->buckets != l->inline_buckets)
        lladd_mem_free(l->all->db, l->buckets);
    l->buckets = fresh;
    l->n_buckets = n;
}

struct ll_lock_hold *ll_operations__lock_hold_new(struct ll_locker *l)
{
    struct ll_lock_hold *h = l->spare;
    if (h) {
        l->spare = h->chain;
        l->n_spare--;
    } else {
        h = lladd_mem_alloc(l->all->db, sizeof *h);
        if (!h)
            return NULL;
    }
    *h = (struct ll_lock_hold){.by = l};
    return h;
}

void ll_operations__lock_hold_spare(struct ll_locker *l, struct ll_lock_hold *h)
{
    if (l->n_spare >= LL_LOCK_SPARE_HOLDS) {
        lladd_mem_free(l->all->db, h);
        return;
    }
    h->chain = l->spare;
    l->spare = h;
    l->n_spare++;
}

void ll_operations__lock_hold_add(struct ll_locker *l, struct ll_lock_hold *h,
                                  struct ll_lock_hold *parent, lladd_savepoint_id now)
{
    h->since = h->changed = now;
    h->parent = parent;
    if (parent)
        parent->children++;
    h->older = l->newest;
    if (h->older)
        h->older->newer = h;
    else
        l->oldest = h;
    l->newest = h;
    struct ll_lock_hold **to = bucket(l, h->lock->node.key);
    h->chain = *to;
    *to = h;
    if (++l->n_holds > 2 * l->n_buckets)
        spread(l);
}

void ll_operations__lock_hold_drop(struct ll_locker *l, struct ll_lock_hold *h)
{
    struct ll_lock_hold **at = bucket(l, h->lock->node.key);
    while (*at != h)
        at = &(*at)->chain;
    *at = h->chain;
    if (h->older)
        h->older->newer = h->newer;
    else
        l->oldest = h->newer;
    if (h->newer)
        h->newer->older = h->older;
    else
        l->newest = h->older;
    l->n_holds--;
    if (l->near == h)
        l->near = NULL;
    if (h->parent)
        h->parent->children--;
    for (size_t i = l->n_replaced; h->replaced && i > 0; i--) {
        if (l->replaced[i - 1].hold == h) {
            l->replaced[i - 1].hold = NULL;
            h->replaced--;
        }
    }
}
