/* SPDX-License-Identifier: BSD-2-Clause */
/* What a replica has, needs, and no longer needs (REP-2, REP-4, REP-5). */
#include "operations/replica/replica.h"

#include <lladd/extension.h>
#include <lladd/log_read.h>

int ll_replica__table_at(const struct ll_replica_table *t, struct lladd_managed_position *at,
                         bool *rows, struct lladd_error *err)
{
    TRY(lladd_managed_position_get(t->managed, false, at, err));
    *rows = t->put > at->commit;
    return 0;
}

/* ---- positions ------------------------------------------------------------------------------- */

uint64_t ll_replica__next(struct lladd_replica *r)
{
    uint64_t seen = lladd_atomic_load64(&r->seen);
    return seen + 1 > r->restart ? seen + 1 : r->restart;
}

int ll_replica__usable(struct lladd_replica *r, struct lladd_error *err)
{
    TRY(lladd_check_process(r->db, err));
    return lladd_atomic_load32(&r->closing)
               ? lladd_error_set(err, LLADD_BAD_STATE, "replica \"%s\" is being closed", r->name)
               : 0;
}

int lladd_replica_from(struct lladd_replica *r, uint64_t *position)
{
    TRY(ll_replica__usable(r, NULL));
    *position = ll_replica__next(r);
    return 0;
}

/* What the local transactions have reached. Master transactions that have ended, and could not be
 * applied yet, begin later than `from`, as open ones do. */
static struct lladd_managed_position applied(const struct lladd_replica *r)
{
    uint64_t seen = lladd_atomic_load64(&r->seen);
    struct lladd_managed_position at = {r->ended.first ? r->applied : seen, seen + 1};
    if (r->open.first)
        at.from = r->open.first->begin;
    for (const struct ll_replica_master *m = r->ended.first; m; m = m->next)
        if (m->begin < at.from)
            at.from = m->begin;
    return at;
}

/* The newest position that holds for all tables now (REP-2). */
static int reached(struct lladd_replica *r, struct lladd_managed_position *out,
                   struct lladd_error *err)
{
    *out = applied(r);
    for (size_t i = 0; i < r->n_tables; i++) {
        struct lladd_managed_position at;
        bool rows;
        TRY(ll_replica__table_at(&r->tables[i], &at, &rows, err));
        if (rows && at.commit < out->commit)
            *out = at;
    }
    return 0;
}

int ll_replica__store(struct lladd_replica *r, enum lladd_durability durability,
                      struct lladd_error *err)
{
    struct ll_replica_storing s = {.r = r};
    lladd_lsn at;
    TRY(reached(r, &s.at, err));
    if (s.at.commit <= r->stored.commit || s.at.from <= r->stored.from)
        return durability == LLADD_DURABLE ? lladd_wait_durable(r->db, r->stored_at, err) : 0;
    TRY(ll_replica__in_txn(r, durability, ll_replica__replace, &s, &at, err));
    lladd_mutex_lock(&r->mutex);
    if (lladd_durable_lsn(r->db).v > r->stored_at.v)
        r->stored_before = r->stored;
    r->stored = s.at;
    r->stored_at = at;
    lladd_mutex_unlock(&r->mutex);
    return 0;
}

/* The position of the stored state; `durable`: that no crash takes back. */
static struct lladd_managed_position stored(struct lladd_replica *r, bool durable)
{
    uint64_t end = lladd_durable_lsn(r->db).v;
    lladd_mutex_lock(&r->mutex);
    struct lladd_managed_position at =
        !durable || end > r->stored_at.v ? r->stored : r->stored_before;
    lladd_mutex_unlock(&r->mutex);
    return at;
}

/* The restart position after a crash in which the digests and states up to now survive, or only
 * those that are durable. */
static int restart_after(struct lladd_replica *r, bool durable, uint64_t *out,
                         struct lladd_error *err)
{
    struct lladd_managed_position all = stored(r, durable);
    *out = UINT64_MAX;
    for (size_t i = 0; i < r->n_tables; i++) {
        struct lladd_managed_position at;
        TRY(lladd_managed_position_get(r->tables[i].managed, durable, &at, err));
        if (at.commit < all.commit)
            at = all;
        if (at.from < *out)
            *out = at.from;
    }
    if (!*out)
        *out = 1;
    return 0;
}

int lladd_replica_durable(struct lladd_replica *r, uint64_t *position, struct lladd_error *err)
{
    TRY(ll_replica__usable(r, err));
    return restart_after(r, !LLADD_PLANTED(LLADD_BUG_ACK_EARLY), position, err);
}

int lladd_replica_wait(struct lladd_replica *r, uint64_t at_least, uint64_t timeout_ns,
                       struct lladd_error *err)
{
    TRY(ll_replica__usable(r, err));
    uint64_t begun = lladd_now_ns(r->db), gone = 0;
    uint64_t wanted = at_least > r->consistent ? at_least : r->consistent; /* REP-4 */
    lladd_mutex_lock(&r->mutex);
    while (r->applied < wanted && gone < timeout_ns) {
        if (timeout_ns == UINT64_MAX)
            lladd_cond_wait(&r->passed, &r->mutex);
        else
            (void)lladd_cond_wait_for(&r->passed, &r->mutex, timeout_ns - gone);
        gone = lladd_now_ns(r->db) - begun;
    }
    uint64_t applied = r->applied;
    lladd_mutex_unlock(&r->mutex);
    return applied >= wanted
               ? 0
               : lladd_error_set(err, LLADD_TIMEOUT,
                                 "replica \"%s\" has applied events up to position %llu; %llu is "
                                 "awaited",
                                 r->name, (unsigned long long)applied, (unsigned long long)wanted);
}

/* A snapshot has the newest local commit, so what the wait has seen is in it. */
int lladd_replica_snapshot(struct lladd_replica *r, uint64_t at_least, uint64_t timeout_ns,
                           struct lladd_managed_snapshot **out, struct lladd_error *err)
{
    TRY(lladd_replica_wait(r, at_least, timeout_ns, err));
    return lladd_managed_snapshot_open(r->db, out, err);
}

static int describe_tables(struct lladd_replica *r, struct lladd_replica_table *tables, size_t n,
                           struct lladd_error *err)
{
    for (size_t i = 0; i < n && i < r->n_tables; i++) {
        tables[i].name = r->tables[i].name;
        TRY(ll_replica__table_at(&r->tables[i], &tables[i].position, &tables[i].undigested,
                                 err));
    }
    return 0;
}

int lladd_replica_info_get(struct lladd_replica *r, struct lladd_replica_info *out,
                           struct lladd_replica_table *tables, size_t n, struct lladd_error *err)
{
    struct lladd_replica_info all = {.struct_size = sizeof all,
                                     .source = r->source,
                                     .from = ll_replica__next(r),
                                     .consistent_from = r->consistent,
                                     .tables = r->n_tables,
                                     .open = r->open.n,
                                     .buffered_bytes = r->buffered,
                                     .spilled_bytes = r->spilled,
                                     .transactions = r->transactions,
                                     .rows = r->rows,
                                     .dropped = r->dropped};
    TRY(lladd_replica_durable(r, &all.durable, err));
    TRY(restart_after(r, false, &all.restart, err));
    if (tables)
        TRY(describe_tables(r, tables, n, err));
    lladd_mutex_lock(&r->mutex);
    all.applied = r->applied;
    lladd_mutex_unlock(&r->mutex);
    size_t size = out->struct_size;
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    out->struct_size = size;
    return 0;
}
