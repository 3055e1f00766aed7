/* SPDX-License-Identifier: BSD-2-Clause */
/* Granting: the holders of a lock and its two queues.
 *
 * A holder that wants a stronger mode waits in `upgrades`. Its request is granted as soon as the
 * other holders allow it; the requests in `waiters` do not delay it, because they may wait for this
 * holder. A transaction without a hold on the lock waits in `waiters`. Its request is granted when
 * its mode is compatible with the holders, with every waiting upgrade and with every earlier
 * waiter. A stream of readers therefore does not starve a writer. */
#include "operations/lock/table.h"

/* ---- the table of a partition ---------------------------------------------------------------- */

/* Makes room for one more lock in the partition's index. */
static int spread(struct ll_locks *all, struct ll_lock_partition *part)
{
    size_t before = part->locks.n_heads;
    TRY(ll_operations__index_room(all->db, &part->locks));
    part->bytes += (part->locks.n_heads - before) * sizeof(struct ll_index_node *);
    return 0;
}

static struct ll_lock *new_lock(struct ll_locks *all, struct ll_lock_partition *part, size_t len)
{
    size_t room = len < LL_LOCK_SMALL_NAME ? LL_LOCK_SMALL_NAME : len;
    struct ll_lock *lock = room == LL_LOCK_SMALL_NAME ? (struct ll_lock *)part->spare : NULL;
    if (lock) {
        part->spare = lock->node.next;
        part->n_spare--;
    } else {
        lock = lladd_mem_alloc(all->db, sizeof *lock + room);
        if (!lock)
            return NULL;
        part->bytes += sizeof *lock + room;
    }
    memset(lock, 0, sizeof *lock);
    lock->room = (uint32_t)room;
    return lock;
}

static struct ll_lock *find_or_make(const struct ll_lock_request *r, struct ll_lock_partition *part)
{
    struct ll_locks *all = r->by->all;
    struct ll_lock *lock = (struct ll_lock *)ll_operations__index_find(&part->locks, r->hash);
    while (lock && (lock->node.key != r->hash || lock->len != r->len ||
                    memcmp(lock->name, r->name, r->len) != 0))
        lock = (struct ll_lock *)lock->node.next;
    if (lock)
        return lock;
    if (spread(all, part))
        return NULL;
    lock = new_lock(all, part, r->len);
    if (!lock)
        return NULL;
    lock->node.key = r->hash;
    lock->len = (uint32_t)r->len;
    memcpy(lock->name, r->name, r->len);
    lock->upgrades_end = &lock->upgrades;
    lock->waiters_end = &lock->waiters;
    ll_operations__index_add(&part->locks, &lock->node);
    return lock;
}

/* Frees the lock if it has no holder: a lock without holders has no waiters (LOCK-2). */
static void drop_unused(struct ll_locks *all, struct ll_lock_partition *part, struct ll_lock *lock)
{
    if (lock->mask)
        return;
    ll_operations__index_drop(&part->locks, &lock->node);
    if (lock->room == LL_LOCK_SMALL_NAME && part->n_spare < LL_LOCK_SPARE_LOCKS) {
        lock->node.next = part->spare;
        part->spare = &lock->node;
        part->n_spare++;
        return;
    }
    part->bytes -= sizeof *lock + lock->room;
    lladd_mem_free(all->db, lock);
}

/* ---- granting -------------------------------------------------------------------------------- */

/* The modes in which other holders have the lock. */
static uint32_t others(const struct ll_lock *lock, const struct ll_lock_hold *h)
{
    return h->mode && lock->granted[h->mode] == 1 ? lock->mask & ~(1u << h->mode) : lock->mask;
}

static uint32_t wanted(const struct ll_locker *l, const struct ll_locker *end)
{
    uint32_t modes = 0;
    for (; l != end; l = l->next_waiter)
        modes |= 1u << l->want;
    return modes;
}

static void set_mode(struct ll_lock *lock, struct ll_lock_hold *h, unsigned mode)
{
    if (h->mode && --lock->granted[h->mode] == 0)
        lock->mask &= ~(1u << h->mode);
    if (mode) {
        lock->granted[mode]++;
        lock->mask |= 1u << mode;
    }
    if (!h->mode && mode) {
        h->next = lock->holders;
        h->at = &lock->holders;
        if (h->next)
            h->next->at = &h->next;
        lock->holders = h;
    } else if (h->mode && !mode) {
        *h->at = h->next;
        if (h->next)
            h->next->at = h->at;
    }
    h->mode = (uint8_t)mode;
}

static void join_queue(struct ll_lock_partition *part, struct ll_locker *l, struct ll_lock_hold *h,
                       unsigned want)
{
    struct ll_locker ***end = h->mode ? &h->lock->upgrades_end : &h->lock->waiters_end;
    l->hold = h;
    l->want = (uint8_t)want;
    l->upgrading = h->mode != LLADD_LOCK_NONE;
    l->decided = false;
    l->verdict = 0;
    lladd_atomic_store32(&l->word, 0);
    l->next_waiter = NULL;
    l->at_waiter = *end;
    **end = l;
    *end = &l->next_waiter;
    part->waiting++;
    lladd_atomic_store32(&l->waits, 1);
}

void ll_operations__lock_leave_queue(struct ll_locker *l)
{
    struct ll_lock *lock = l->hold->lock;
    struct ll_locker ***end = l->upgrading ? &lock->upgrades_end : &lock->waiters_end;
    *l->at_waiter = l->next_waiter;
    if (l->next_waiter)
        l->next_waiter->at_waiter = l->at_waiter;
    else
        *end = l->at_waiter;
    ll_lock_part_of(l->all, lock->node.key)->waiting--;
    lladd_atomic_store32(&l->waits, 0);
}

/* Counts a grant or an upgrade that is about to be made. */
static void count(struct ll_lock_partition *part, const struct ll_lock_hold *h)
{
    part->acquired += !h->mode;
    part->upgraded += h->mode != 0;
    part->n_holds += !h->mode;
}

static struct ll_locker *let_in(struct ll_locks *all, struct ll_locker *l, struct ll_locker *woken)
{
    struct ll_lock_partition *part = ll_lock_part_of(all, l->hold->lock->node.key);
    ll_operations__lock_leave_queue(l);
    count(part, l->hold);
    set_mode(l->hold->lock, l->hold, l->want);
    l->decided = true;
    l->next_woken = woken;
    return l;
}

struct ll_locker *ll_operations__lock_let_in(struct ll_locks *all, struct ll_lock *lock,
                                             struct ll_locker *woken)
{
    uint32_t ahead = 0;
    for (struct ll_locker *l = lock->upgrades, *next; l; l = next) {
        next = l->next_waiter;
        if (ll_operations__lock_conflicts[l->want] & others(lock, l->hold))
            ahead |= 1u << l->want;
        else
            woken = let_in(all, l, woken);
    }
    for (struct ll_locker *l = lock->waiters, *next; l; l = next) {
        next = l->next_waiter;
        if (ll_operations__lock_conflicts[l->want] & (lock->mask | ahead))
            ahead |= 1u << l->want;
        else
            woken = let_in(all, l, woken);
    }
    return woken;
}

void ll_operations__lock_wake(struct ll_locker *woken)
{
    while (woken) {
        struct ll_locker *l = woken;
        woken = l->next_woken; /* read before the store: after it the waiting thread may reuse the
                                * locker */
        lladd_atomic_store32(&l->word, 1);
        lladd_word_wake(&l->word, 1, UINT32_MAX);
    }
}

static int no_memory(const struct ll_lock_request *r)
{
    return lladd_error_set(r->err, LLADD_NO_MEMORY, "out of memory for a lock");
}

int ll_operations__lock_take(const struct ll_lock_request *r, struct ll_lock_hold **hold)
{
    struct ll_locker *by = r->by;
    struct ll_lock_partition *part = ll_lock_part_of(by->all, r->hash);
    struct ll_lock_hold *h = *hold ? *hold : ll_operations__lock_hold_new(by);
    if (!h)
        return no_memory(r);
    unsigned want = ll_operations__lock_join[h->mode][r->want];
    lladd_mutex_lock(&part->mutex);
    struct ll_lock *lock = *hold ? h->lock : find_or_make(r, part);
    h->lock = lock;
    int rc = 0;
    if (!lock) {
        lladd_mutex_unlock(&part->mutex);
        rc = no_memory(r);
    } else {
        uint32_t against = others(lock, h);
        if (!h->mode)
            against |= wanted(lock->upgrades, NULL) | wanted(lock->waiters, NULL);
        if (ll_operations__lock_conflicts[want] & against) {
            join_queue(part, by, h, want);
            rc = ll_operations__lock_wait(r, part);
        } else {
            count(part, h);
            set_mode(lock, h, want);
            lladd_mutex_unlock(&part->mutex);
        }
    }
    if (!rc)
        *hold = h;
    else if (!*hold)
        ll_operations__lock_hold_spare(by, h);
    return rc;
}

void ll_operations__lock_weaken(struct ll_lock_hold *h, unsigned mode)
{
    struct ll_locks *all = h->by->all;
    struct ll_lock *lock = h->lock;
    struct ll_lock_partition *part = ll_lock_part_of(all, lock->node.key);
    struct ll_locker *woken = NULL;
    lladd_mutex_lock(&part->mutex);
    set_mode(lock, h, mode);
    part->n_holds -= !mode;
    if (lock->waiters || lock->upgrades)
        woken = ll_operations__lock_let_in(all, lock, NULL);
    if (!mode)
        drop_unused(all, part, lock);
    lladd_mutex_unlock(&part->mutex);
    ll_operations__lock_wake(woken);
}

void ll_operations__lock_each_blocker(const struct ll_locker *l, ll_lock_blocker_fn *fn, void *ctx)
{
    const struct ll_lock *lock = l->hold->lock;
    uint32_t conflicts = ll_operations__lock_conflicts[l->want];
    for (struct ll_lock_hold *h = lock->holders; h; h = h->next)
        if (h != l->hold && (conflicts >> h->mode & 1) && !fn(ctx, h->by, h->mode))
            return;
    if (l->upgrading)
        return;
    for (struct ll_locker *u = lock->upgrades; u; u = u->next_waiter)
        if ((conflicts >> u->want & 1) && !fn(ctx, u, u->want))
            return;
    for (struct ll_locker *w = lock->waiters; w != l; w = w->next_waiter)
        if ((conflicts >> w->want & 1) && !fn(ctx, w, w->want))
            return;
}
