/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock manager of a handle: creating, configuring and freeing it. */
#include "operations/lock/table.h"

#define DEFAULT_HISTORY 64

static void free_partition(struct ll_locks *all, struct ll_lock_partition *part)
{
    for (struct ll_locker *l = part->lockers, *next; l; l = next) {
        next = l->next_all;
        ll_operations__locker_free(l);
    }
    for (struct ll_index_node *n = ll_operations__index_next(&part->locks, NULL), *next; n;
         n = next) {
        next = ll_operations__index_next(&part->locks, n);
        lladd_mem_free(all->db, n);
    }
    ll_operations__index_free(all->db, &part->locks);
    for (struct ll_index_node *next; part->spare; part->spare = next) {
        next = part->spare->next;
        lladd_mem_free(all->db, part->spare);
    }
    lladd_mutex_destroy(&part->mutex);
}

static void free_all(struct ll_locks *all, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++)
        free_partition(all, &all->parts[i]);
    ll_operations__lock_forget(all);
    lladd_mutex_destroy(&all->history_mutex);
    lladd_mem_free(all->db, all);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    unsigned char seed[16];
    struct ll_locks *all = lladd_mem_alloc(db, sizeof *all);
    (void)ctx;
    if (!all)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the lock manager");
    memset(all, 0, sizeof *all);
    all->db = db;
    all->hash_mask = UINT64_MAX;
    all->timeout_ns = LLADD_LOCK_FOREVER;
    all->past_max = DEFAULT_HISTORY;
    int rc = lladd_random_bytes(db, seed, sizeof seed);
    if (rc) {
        lladd_mem_free(db, all);
        return lladd_error_set(err, LLADD_READ_FAILED, "no random bytes for the lock manager");
    }
    all->key = ll_siphash_key_of(seed);
    rc = lladd_mutex_init(&all->history_mutex, LL_LOCK_RANK_HISTORY, "lock history");
    if (rc) {
        lladd_mem_free(db, all);
        return lladd_error_set(err, rc, "out of memory for the lock manager");
    }
    for (uint32_t i = 0; i < LL_LOCK_PARTITIONS; i++) {
        rc = lladd_mutex_init(&all->parts[i].mutex, LL_LOCK_RANK + i, "locks");
        if (rc) {
            free_all(all, i);
            return lladd_error_set(err, rc, "out of memory for the lock manager");
        }
    }
    *state = all;
    return 0;
}

/* Locks may be left: those of transactions in doubt, and all if the handle is poisoned or
 * killed. */
static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx;
    (void)db;
    free_all(state, LL_LOCK_PARTITIONS);
}

static const struct lladd_participant *const participants[] = {&ll_operations__lock_participant,
                                                               NULL};

const struct lladd_extension ll_operations__lock_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lock",
    .version = 1,
    .participants = participants,
    .attach = attach,
    .detach = detach,
};

int lladd_lock_register(struct lladd_options *o, struct lladd_error *err)
{
    return lladd_register_extension(o, &ll_operations__lock_extension, err);
}

int ll_operations__locks_of(struct lladd_db *db, struct ll_locks **out, struct lladd_error *err)
{
    *out = lladd_extension_state(db, &ll_operations__lock_extension);
    return *out ? lladd_check_process(db, err)
                : lladd_error_set(err, LLADD_BAD_STATE,
                                  "the database was opened without lladd_lock_register");
}

int lladd_lock_configure(struct lladd_db *db, const struct lladd_lock_options *o,
                         struct lladd_error *err)
{
    struct ll_locks *all;
    TRY(ll_operations__locks_of(db, &all, err));
    if (!o || o->struct_size < sizeof *o || o->hash_bits > 64)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "invalid options of the lock manager");
    uint64_t mask = o->hash_bits ? UINT64_MAX >> (64 - o->hash_bits) : UINT64_MAX;
    size_t locked = 0;
    ll_operations__lock_stop(all);
    for (size_t i = 0; i < LL_LOCK_PARTITIONS; i++)
        locked += all->parts[i].locks.n;
    bool refuse = locked && mask != all->hash_mask;
    if (!refuse) {
        lladd_atomic_store64(&all->hash_mask, mask);
        lladd_atomic_store64(&all->timeout_ns, o->timeout_ns ? o->timeout_ns : LLADD_LOCK_FOREVER);
        lladd_atomic_store32(&all->serialisable, o->serialisable);
    }
    ll_operations__lock_go(all);
    if (refuse)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "hash_bits can be changed only while nothing is locked");
    lladd_mutex_lock(&all->history_mutex);
    size_t max = o->history ? o->history : DEFAULT_HISTORY;
    if (max < all->cap_past)
        ll_operations__lock_forget(all);
    all->past_max = max;
    lladd_mutex_unlock(&all->history_mutex);
    return 0;
}
