/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of transactions, and their ends.
 *
 * Every transaction that was begun and not ended is in one list (mutex); ended ones wait in a free
 * list with their buffers. Commit records get their LSNs under the commit mutex, and `logged` runs
 * there, so participants see commits in LSN order and `visible` never skips one (DESIGN 2a).
 *
 * What must wait for durability (durable callbacks, the undo reserve: a commit that is lost will be
 * rolled back and needs it, REC-3) stands in a queue in commit order. Whoever finds the head
 * durable drains it: committers, waiters, checkpoints, lladd_maintain. One drains at a time,
 * outside the mutex, so callbacks also run in commit order. */
#include "recovery/core.h"

#include <string.h>

/* If this part of the log that may be set aside for commits nobody has made durable is, the log's
 * thread makes them so. */
#define SOON 8

int ll_txns_init(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    int rc = lladd_mutex_init(&t->mutex, LLADD_RANK_TXN_TABLE, "transactions");
    if (!rc)
        rc = lladd_mutex_init(&t->commit, LLADD_RANK_COMMIT, "commit order");
    if (!rc)
        rc = lladd_mutex_init(&t->spare_mutex, LLADD_RANK_LOG - 100, "spare cursor");
    return rc;
}

/* Made when the first transaction writes, while there is memory. */
int ll_txns_spare(struct ll_core *core, struct lladd_error *err)
{
    struct ll_txn_table *t = &core->txns;
    int rc = 0;
    lladd_mutex_lock(&t->spare_mutex);
    if (!t->spare_cursor) {
        struct ll_log_cursor *spare = NULL;
        rc = ll_log_cursor_open(core->log, &spare);
        if (!rc)
            rc = ll_log_cursor_prepare(spare, ll_log_record_max(core->log));
        if (rc) {
            ll_log_cursor_close(spare);
            rc = ll_fail(err, rc, "out of memory for rollbacks");
        } else {
            lladd_atomic_store_ptr(&t->spare_cursor, spare);
        }
    }
    lladd_mutex_unlock(&t->spare_mutex);
    return rc;
}

static void destroy(struct lladd_txn *txn)
{
    const struct ll_env *env = &txn->core->env;
    if (txn->cursor)
        ll_log_cursor_close(txn->cursor);
    ll_free(env, txn->scratch);
    ll_free(env, txn->undo_copy);
    ll_free(env, txn->savepoints);
    ll_free(env, txn->actions);
    ll_free(env, txn->joined);
    ll_free(env, txn->prepared);
    ll_free(env, txn->owner);
    ll_free(env, txn);
}

void ll_txns_free(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    for (struct lladd_txn *txn = t->free, *next; txn; txn = next) {
        next = txn->next;
        destroy(txn);
    }
    for (struct lladd_txn *txn = t->first, *next; txn; txn = next) {
        next = txn->next;
        destroy(txn);
    }
    for (size_t i = 0; i < t->n_pending; i++)
        ll_free(&core->env, t->pending[(t->pending_head + i) % t->cap_pending].joined);
    ll_free(&core->env, t->pending);
    if (t->spare_cursor)
        ll_log_cursor_close(t->spare_cursor);
    lladd_mutex_destroy(&t->mutex);
    lladd_mutex_destroy(&t->commit);
    lladd_mutex_destroy(&t->spare_mutex);
}

/* A used transaction keeps its buffers; everything else starts from nothing. */
static void reset(struct lladd_txn *txn)
{
    txn->id = txn->last = txn->undo_next = lladd_lsn_of(0);
    txn->busy = UINT64_MAX;
    txn->depth = 0;
    txn->read_only = txn->system = txn->rolling_back = txn->in_callback = false;
    txn->durability = 0;
    txn->undo_used = txn->undo_spare = 0;
    txn->n_savepoints = txn->n_actions = txn->n_joined = 0;
    txn->next_id = 1;
    txn->taken_back = 0;
    txn->undo_copy_used = 0;
    txn->counted = NULL;
    txn->err.code = 0;
    txn->err.message[0] = 0;
}

int ll_txn_new(struct ll_core *core, struct lladd_txn **out, struct lladd_error *err)
{
    struct ll_txn_table *t = &core->txns;
    struct lladd_txn *fresh = NULL;
    lladd_mutex_lock(&t->mutex);
    struct lladd_txn *txn = t->free;
    if (!txn) {
        lladd_mutex_unlock(&t->mutex);
        fresh = ll_alloc_zero(&core->env, sizeof *fresh);
        if (!fresh)
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a transaction");
        fresh->core = core;
        lladd_mutex_lock(&t->mutex);
        txn = fresh;
    } else {
        t->free = txn->next;
    }
    reset(txn);
    txn->magic = LL_TXN_MAGIC;
    lladd_atomic_store32(&txn->state, LL_TXN_ACTIVE);
    txn->before = NULL;
    txn->next = t->first;
    if (t->first)
        t->first->before = txn;
    t->first = txn;
    lladd_atomic_store64_relaxed(&t->active, t->active + 1);
    t->begun++;
    lladd_mutex_unlock(&t->mutex);
    *out = txn;
    return 0;
}

static void flush_counts(struct lladd_txn *txn)
{
    if (!txn->counted)
        return;
    lladd_atomic_count64(&txn->counted->count, txn->counted_n);
    lladd_atomic_count64(&txn->counted->bytes, txn->counted_bytes);
    txn->counted = NULL;
}

void ll_txn_release(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    struct ll_txn_table *t = &core->txns;
    flush_counts(txn);
    ll_log_credit_return(core->log, &txn->credit);
    if (txn->undo_used + txn->undo_spare)
        ll_log_undo_release(core->log, txn->undo_used + txn->undo_spare);
    ll_free(&core->env, txn->owner);
    txn->owner = NULL;
    if (txn->cursor)
        ll_log_cursor_rest(txn->cursor); /* the next rollback is of something else */
    lladd_mutex_lock(&t->mutex);
    struct ll_prepared *prepared = txn->prepared; /* others read it under the mutex */
    txn->prepared = NULL;
    if (txn->before)
        txn->before->next = txn->next;
    else
        t->first = txn->next;
    if (txn->next)
        txn->next->before = txn->before;
    lladd_atomic_store32(&txn->state, LL_TXN_FREE);
    txn->magic = 0;
    txn->next = t->free;
    t->free = txn;
    lladd_atomic_store64_relaxed(&t->active, t->active - 1);
    lladd_mutex_unlock(&t->mutex);
    ll_free(&core->env, prepared);
}

/* ---- commit ------------------------------------------------------------------------------ */

static int want_pending(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    if (t->n_pending < t->cap_pending)
        return 0;
    size_t cap = t->cap_pending ? t->cap_pending * 2 : 16;
    struct ll_pending *p = ll_alloc(&core->env, cap * sizeof *p);
    if (!p)
        return LLADD_NO_MEMORY;
    for (size_t i = 0; i < t->n_pending; i++)
        p[i] = t->pending[(t->pending_head + i) % t->cap_pending];
    ll_free(&core->env, t->pending);
    t->pending = p;
    t->pending_head = 0;
    t->cap_pending = cap;
    return 0;
}

/* What the queue gets to know of: those that want to hear of durability. The transaction's own
 * list goes there as it is, unless somebody on it wants to hear of the commit before that. */
static int split_joined(struct lladd_txn *txn, struct ll_joined **later, size_t *n)
{
    bool keeps = false;
    *n = 0;
    *later = NULL;
    for (size_t i = 0; i < txn->n_joined; i++) {
        keeps |= LL_PARTICIPANT_HAS(txn->joined[i].participant, committed);
        *n += txn->joined[i].participant->durable != NULL;
    }
    if (!keeps || !*n)
        return 0;
    *later = ll_alloc(&txn->core->env, *n * sizeof **later);
    if (!*later)
        return LLADD_NO_MEMORY;
    for (size_t i = 0, k = 0; i < txn->n_joined; i++)
        if (txn->joined[i].participant->durable)
            (*later)[k++] = txn->joined[i];
    return 0;
}

int ll_txn_log_commit(struct lladd_txn *txn, struct lladd_span outcome, lladd_lsn *out)
{
    struct ll_core *core = txn->core;
    struct ll_txn_table *t = &core->txns;
    struct ll_record rec = {.kind = LL_REC_COMMIT, .page = LLADD_NO_PAGE, .redo = outcome};
    struct ll_joined *later;
    size_t n_later;
    if (split_joined(txn, &later, &n_later))
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a commit");
    lladd_mutex_lock(&t->commit);
    if (want_pending(core)) {
        lladd_mutex_unlock(&t->commit);
        ll_free(&core->env, later);
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a commit");
    }
    rec.prev = txn->last;
    rec.txn = txn->id;
    rec.flags = txn->system ? LL_REC_SYSTEM : 0;
    ll_log_reserve(core->log, &txn->credit, &rec, false);
    ll_txn_set_lsn(&txn->last, rec.lsn);
    lladd_atomic_store32(&txn->state, LL_TXN_ENDED);
    ll_log_publish(core->log, &rec);
    ll_observe(LLADD_DST_COMMIT, txn, NULL, &rec);
    for (size_t i = 0; i < txn->n_joined; i++) {
        const struct lladd_participant *p = txn->joined[i].participant;
        if (p->logged)
            p->logged(p->ctx, txn->joined[i].state, rec.lsn);
    }
    struct ll_pending *pending = &t->pending[(t->pending_head + t->n_pending++) % t->cap_pending];
    pending->commit = rec.lsn;
    pending->undo_used = txn->undo_used;
    lladd_atomic_store64_relaxed(&t->pending_undo, t->pending_undo + txn->undo_used);
    ll_txn_set_undo_used(txn, 0);
    pending->n_joined = n_later;
    pending->joined = later;
    if (n_later && !later) {
        pending->n_joined = txn->n_joined;
        pending->joined = txn->joined;
        txn->joined = NULL;
        txn->n_joined = txn->cap_joined = 0;
    }
    lladd_atomic_store64(&t->visible, rec.lsn.v);
    lladd_atomic_count64(&t->committed, 1); /* so do those that have logged nothing */
    lladd_mutex_unlock(&t->commit);
    *out = rec.lsn;
    return 0;
}

void ll_txns_drain(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    lladd_mutex_lock(&t->commit);
    if (t->draining) {
        lladd_mutex_unlock(&t->commit);
        return;
    }
    uint64_t released = 0;
    t->draining = true;
    uint64_t durable = ll_log_durable(core->log).v;
    while (t->n_pending && t->pending[t->pending_head].commit.v < durable) {
        struct ll_pending p = t->pending[t->pending_head];
        t->pending_head = (t->pending_head + 1) % t->cap_pending;
        t->n_pending--;
        released += p.undo_used;
        lladd_atomic_store64_relaxed(&t->pending_undo, t->pending_undo - p.undo_used);
        if (!p.n_joined)
            continue;
        lladd_mutex_unlock(&t->commit);
        for (size_t i = 0; i < p.n_joined; i++) {
            const struct lladd_participant *who = p.joined[i].participant;
            if (who->durable)
                who->durable(who->ctx, p.joined[i].state, core->db, p.commit);
        }
        ll_free(&core->env, p.joined);
        lladd_mutex_lock(&t->commit);
        durable = ll_log_durable(core->log).v;
    }
    t->draining = false;
    lladd_mutex_unlock(&t->commit);
    if (released)
        ll_log_undo_release(core->log, released);
}

bool ll_txns_relieve(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    if (LL_LIKELY(lladd_atomic_load64_relaxed(&t->pending_undo) <= t->pending_undo_max / SOON))
        return true;
    /* Is what was asked for still on its way? */
    if (ll_log_durable(core->log).v >= lladd_atomic_load64_relaxed(&t->asked)) {
        ll_txns_drain(core);
        if (lladd_atomic_load64_relaxed(&t->pending_undo) <= t->pending_undo_max / SOON)
            return true;
        /* Without a thread the limit will do it. */
        lladd_atomic_store64_relaxed(&t->asked, ll_log_tail(core->log).v);
        (void)ll_log_force_soon(core->log);
    }
    return lladd_atomic_load64_relaxed(&t->pending_undo) <= t->pending_undo_max;
}

/* ---- abort ------------------------------------------------------------------------------- */

int ll_txn_abort(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    if (txn->id.v) {
        txn->n_actions = 0;
        txn->depth = 0;
        int rc = ll_core_mark(core, &txn->err); /* one in doubt may be the first to write */
        if (!rc && !LLADD_PLANTED(LLADD_BUG_END_FIRST))
            rc = ll_rollback(txn, lladd_lsn_of(0));
        if (!rc)
            rc = ll_log_credit_reserved(core->log, &txn->credit, ll_record_bound(0, 0), &txn->err);
        if (rc) {
            /* Poisoned (or the log is): the handle of the transaction goes, its effects are taken
             * back by the next open. */
            rc = ll_core_poison(core, &txn->err);
            ll_txn_release(txn);
            return rc;
        }
        struct ll_record end = {.kind = LL_REC_END, .page = LLADD_NO_PAGE};
        end.prev = txn->last;
        end.txn = txn->id;
        ll_log_reserve(core->log, &txn->credit, &end, false);
        ll_txn_set_lsn(&txn->last, end.lsn);
        lladd_atomic_store32(&txn->state, LL_TXN_ENDED);
        ll_log_publish(core->log, &end);
        ll_observe(LLADD_DST_END, txn, NULL, &end);
        if (LLADD_PLANTED(LLADD_BUG_END_FIRST) && (rc = ll_rollback(txn, lladd_lsn_of(0))) != 0)
            return rc;
    }
    for (size_t i = 0; i < txn->n_joined; i++) {
        const struct lladd_participant *p = txn->joined[i].participant;
        if (p->aborted)
            p->aborted(p->ctx, txn->joined[i].state, core->db);
    }
    lladd_atomic_count64(&core->txns.aborted, 1);
    ll_txn_release(txn);
    return 0;
}

/* ---- what the table knows ---------------------------------------------------------------- */

lladd_lsn ll_txns_oldest(struct ll_core *core, struct lladd_pinner *who)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t oldest = UINT64_MAX;
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = t->first; txn; txn = txn->next) {
        /* id is stored between reserve and publish; one that is not visible yet is younger than the
         * tail the caller read before. */
        uint64_t id = lladd_atomic_load64_relaxed(&txn->id.v);
        uint32_t state = lladd_atomic_load32(&txn->state);
        if (id == 0 || id >= oldest || state == LL_TXN_ENDED)
            continue;
        oldest = id;
        if (who) {
            bool prepared = state == LL_TXN_PREPARED;
            who->txn = lladd_lsn_of(id);
            who->kind = prepared ? "prepared" : "transaction";
            who->name[0] = 0;
            if (prepared && txn->prepared)
                memcpy(who->name, txn->prepared->owner, sizeof who->name);
        }
    }
    lladd_mutex_unlock(&t->mutex);
    return lladd_lsn_of(oldest);
}

lladd_lsn ll_txns_applied(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t low = ll_log_tail(core->log).v; /* before the table: what is newer counts as later */
    lladd_atomic_fence();
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = t->first; txn; txn = txn->next) {
        uint64_t busy = lladd_atomic_load64(&txn->busy);
        if (busy < low)
            low = busy;
    }
    lladd_mutex_unlock(&t->mutex);
    /* A bound once true stays true; a transaction in the middle of its first record only gives a
     * worse one for a moment. */
    lladd_atomic_max64(&t->applied, low);
    return lladd_lsn_of(lladd_atomic_load64(&t->applied));
}
