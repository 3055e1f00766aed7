/* SPDX-License-Identifier: BSD-2-Clause */
/* Inspection: holders, waiters and statistics. A partition is copied under its mutex, and the
 * caller's function gets the copies. */
#include "operations/lock/table.h"

/* A copy of what is reported of one locker and one lock. */
struct row {
    struct lladd_lock_info info; /* tell_rows sets its member `name` */
    unsigned char *name;
    size_t name_len;
};

struct rows {
    struct ll_locks *all;
    struct row *rows;
    size_t n, cap;
    uint64_t now;
    bool lost; /* memory ran out */
};

static struct row *add_row(struct rows *to, const struct ll_lock *lock,
                           const struct ll_locker *locker)
{
    struct lladd_db *db = to->all->db;
    if (!to->lost && ll_operations__grow(db, &to->rows, to->n + 1, &to->cap, sizeof *to->rows))
        to->lost = true;
    unsigned char *name = to->lost ? NULL : lladd_mem_alloc(db, lock->len);
    if (!name) {
        to->lost = true;
        return NULL;
    }
    memcpy(name, lock->name, lock->len);
    struct row *row = &to->rows[to->n++];
    memset(row, 0, sizeof *row);
    row->name = name;
    row->name_len = lock->len;
    row->info.number = lladd_atomic_load64(&locker->number);
    row->info.txn = lladd_lsn_of(lladd_atomic_load64(&locker->txn));
    row->info.prepared = lladd_atomic_load32(&locker->state) == LL_LOCKER_PREPARED;
    return row;
}

static void add_waiter(struct rows *to, const struct ll_locker *l)
{
    struct row *row = add_row(to, l->hold->lock, l);
    if (!row)
        return;
    row->info.held = (enum lladd_lock_mode)l->hold->mode;
    row->info.wanted = (enum lladd_lock_mode)l->want;
    uint64_t since = lladd_atomic_load64(&l->waits_since);
    row->info.waited_ns = since && since < to->now ? to->now - since : 0;
}

static void add_lock(struct rows *to, const struct ll_lock *lock)
{
    for (const struct ll_lock_hold *h = lock->holders; h; h = h->next) {
        const struct ll_locker *upgrade = lock->upgrades;
        while (upgrade && upgrade->hold != h)
            upgrade = upgrade->next_waiter;
        if (upgrade) {
            add_waiter(to, upgrade);
            continue;
        }
        struct row *row = add_row(to, lock, h->by);
        if (row)
            row->info.held = (enum lladd_lock_mode)h->mode;
    }
    for (const struct ll_locker *l = lock->waiters; l; l = l->next_waiter)
        add_waiter(to, l);
}

/* Passes the rows to fn and frees them. If rc is not 0, only frees them. */
static int tell_rows(struct rows *r, lladd_lock_info_fn *fn, void *ctx, int rc,
                     struct lladd_error *err)
{
    struct lladd_db *db = r->all->db;
    for (size_t i = 0; i < r->n; i++) {
        struct row *row = &r->rows[i];
        struct lladd_lock_part *parts = NULL;
        if (!rc && !r->lost) {
            parts = ll_operations__lock_parts(db, row->name, row->name_len, &row->info.name.n);
            row->info.name.parts = parts;
            if (parts)
                rc = fn(ctx, &row->info);
            else
                r->lost = true;
        }
        lladd_mem_free(db, parts);
        lladd_mem_free(db, row->name);
    }
    lladd_mem_free(db, r->rows);
    r->rows = NULL;
    r->n = r->cap = 0;
    if (!rc && r->lost)
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a list of locks");
    return rc;
}

int lladd_lock_each(struct lladd_db *db, lladd_lock_info_fn *fn, void *ctx, struct lladd_error *err)
{
    struct rows r = {.lost = false};
    int rc = ll_operations__locks_of(db, &r.all, err);
    for (size_t i = 0; !rc && i < LL_LOCK_PARTITIONS; i++) {
        struct ll_lock_partition *part = &r.all->parts[i];
        r.now = lladd_now_ns(db);
        lladd_mutex_lock(&part->mutex);
        for (const struct ll_index_node *n = NULL;
             (n = ll_operations__index_next(&part->locks, n)) != NULL;)
            add_lock(&r, (const struct ll_lock *)n);
        lladd_mutex_unlock(&part->mutex);
        rc = tell_rows(&r, fn, ctx, rc, err);
    }
    return rc;
}

struct blockers {
    struct rows *to;
    const struct ll_lock *lock;
};

static bool add_blocker(void *ctx, struct ll_locker *locker, unsigned mode)
{
    struct blockers *b = ctx;
    bool waits = lladd_atomic_load32(&locker->waits) && locker->hold->lock == b->lock;
    if (waits && (!locker->hold->mode || mode == locker->want)) {
        add_waiter(b->to, locker);
        return true;
    }
    struct row *row = add_row(b->to, b->lock, locker);
    if (row)
        row->info.held = (enum lladd_lock_mode)mode;
    return true;
}

static void find_blockers(struct rows *r, struct ll_lock_partition *pool, uint64_t number)
{
    for (struct ll_locker *l = pool->lockers; l; l = l->next_all) {
        if (lladd_atomic_load64(&l->number) == number && lladd_atomic_load32(&l->waits)) {
            struct blockers b = {r, l->hold->lock};
            ll_operations__lock_each_blocker(l, add_blocker, &b);
        }
    }
}

int lladd_lock_blockers(struct lladd_db *db, uint64_t number, lladd_lock_info_fn *fn, void *ctx,
                        struct lladd_error *err)
{
    struct rows r = {.lost = false};
    TRY(ll_operations__locks_of(db, &r.all, err));
    r.now = lladd_now_ns(db);
    ll_operations__lock_stop(r.all); /* keeps waits from beginning and ending meanwhile */
    for (size_t i = 0; i < LL_LOCK_PARTITIONS; i++)
        find_blockers(&r, &r.all->parts[i], number);
    ll_operations__lock_go(r.all);
    return tell_rows(&r, fn, ctx, 0, err);
}

int lladd_lock_stats_get(struct lladd_db *db, struct lladd_lock_stats *out, struct lladd_error *err)
{
    struct lladd_lock_stats s = {.struct_size = sizeof s};
    struct ll_locks *all;
    TRY(ll_operations__locks_of(db, &all, err));
    if (!out || out->struct_size < sizeof out->struct_size)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "struct_size is missing");
    s.memory = sizeof *all;
    for (size_t i = 0; i < LL_LOCK_PARTITIONS; i++) {
        struct ll_lock_partition *part = &all->parts[i];
        lladd_mutex_lock(&part->mutex);
        s.names += part->locks.n;
        s.holds += part->n_holds;
        s.waiting += part->waiting;
        s.acquired += part->acquired;
        s.upgraded += part->upgraded;
        s.waits += part->waits;
        s.wait_ns += part->wait_ns;
        s.busy += part->busy;
        s.timeouts += part->timeouts;
        s.deadlocks += part->deadlocks;
        s.memory += part->bytes + part->n_holds * sizeof(struct ll_lock_hold);
        lladd_mutex_unlock(&part->mutex);
    }
    size_t size = out->struct_size < sizeof s ? out->struct_size : sizeof s;
    s.struct_size = size;
    memcpy(out, &s, size);
    return 0;
}
