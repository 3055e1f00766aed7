/* SPDX-License-Identifier: BSD-2-Clause */
/* The transaction table, commit and abort.
 *
 * All transactions ever allocated are in one list (`mutex`), and are reused with their buffers.
 * In the common case begin and end do not take `mutex`. A transaction that has only little log
 * space when it ends is parked, and the next begin takes the parked transaction. Only one
 * transaction is parked; other transactions go into a free list when they end. A parked transaction
 * keeps its log space, so that the next transaction need not ask for log space. Another thread may
 * release that space when log space is short. A reader of the list skips FREE transactions. It
 * reads the other transactions with ll_txn_values, because a transaction may end and another may
 * begin in its memory.
 *
 * Commit records get their LSNs under the mutex `commit`, and `logged` runs under this mutex. So
 * participants see commits in LSN order, and all commits up to `visible` are visible.
 *
 * Two things must wait until a commit is durable: its durable callbacks, and the release of its
 * undo reserve. (If a crash loses the commit, the rollback needs the reserve: REC-3.) Callbacks and
 * reserves are queued in commit order. The queue is drained at the points where callbacks may run
 * (THR-2): after a commit, a wait or a checkpoint, and in lladd_maintain. One thread drains at a
 * time, so callbacks run in commit order, too. They run without the mutex. Undo reserves do not
 * wait for callbacks: the first thread that finds a commit durable releases its reserve. */
#include "recovery/core.h"
#include "util/held.h"

#include <string.h>

/* If commits that are not durable hold more than 1/SOON of pending_undo_max, the log's thread is
 * asked to sync. */
#define SOON 8
/* The largest undo reserve that a parked transaction keeps: enough for most operations. */
#define UNDO_KEPT 32768u
/* Commits within this many log bytes share an entry of the queue, so that the queue stays short if
 * no transaction waits for durability. */
#define TOGETHER 65536u

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

int ll_txns_spare(struct ll_core *core, struct lladd_error *err)
{
    struct ll_txn_table *t = &core->txns;
    int rc = ll_buffer_want_memory(core->buffer, err);
    lladd_mutex_lock(&t->spare_mutex);
    if (!rc && !t->spare_cursor) {
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
    for (struct lladd_txn *txn = t->first, *next; txn; txn = next) {
        next = txn->next;
        destroy(txn);
    }
    for (size_t i = 0; i < t->n_pending; i++)
        ll_free(&core->env, t->pending[(t->pending_head + i) & (t->cap_pending - 1)].joined);
    ll_free(&core->env, t->pending);
    ll_log_cursor_close(t->spare_cursor);
    ll_log_cursor_close((struct ll_log_cursor *)(uintptr_t)t->idle_cursor);
    lladd_mutex_destroy(&t->mutex);
    lladd_mutex_destroy(&t->commit);
    lladd_mutex_destroy(&t->spare_mutex);
}

/* ---- begin and end ----------------------------------------------------------------------- */

/* Prepares the memory for another transaction; keeps the buffers and the log space. */
static void reset(struct lladd_txn *txn)
{
    const lladd_lsn none = {0};
    ll_txn_set_lsn(&txn->id, none);
    ll_txn_set_lsn(&txn->last, none);
    ll_txn_set_lsn(&txn->undo_next, none);
    ll_txn_set_undo_used(txn, 0);
    lladd_atomic_store64_relaxed(&txn->busy, UINT64_MAX);
    txn->depth = 0;
    lladd_atomic_store32(&txn->system, 0);
    txn->read_only = txn->rolling_back = txn->frees_log = false;
    txn->durability = 0;
    txn->n_savepoints = txn->n_actions = txn->n_joined = 0;
    txn->next_id = 1;
    txn->undone = 0;
    txn->undo_copy_used = 0;
    txn->err.code = 0;
    txn->err.message[0] = 0;
}

static struct lladd_txn *unpark(struct ll_txn_table *t)
{
    uint64_t at = lladd_atomic_load64(&t->parked) ? lladd_atomic_exchange64(&t->parked, 0) : 0;
    return (struct lladd_txn *)(uintptr_t)at;
}

static struct lladd_txn *free_one(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    lladd_mutex_lock(&t->mutex);
    struct lladd_txn *txn = t->free;
    if (txn) {
        t->free = txn->next_free;
        t->n_free--;
    }
    lladd_mutex_unlock(&t->mutex);
    if (txn)
        return txn;
    txn = ll_alloc_zero(&core->env, sizeof *txn);
    if (!txn)
        return NULL;
    txn->core = core;
    txn->busy = UINT64_MAX;
    lladd_mutex_lock(&t->mutex);
    txn->next = t->first;
    t->first = txn;
    lladd_atomic_store64_relaxed(&t->made, t->made + 1);
    lladd_mutex_unlock(&t->mutex);
    return txn;
}

int ll_txn_new(struct ll_core *core, struct lladd_txn **out, struct lladd_error *err)
{
    struct lladd_txn *txn = unpark(&core->txns);
    if (!txn)
        txn = free_one(core);
    if (!txn)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a transaction");
    /* ll_txn_values relies on this order: first `lives`, then the fields, then the state. */
    lladd_atomic_store64(&txn->lives, txn->lives + 1);
    lladd_atomic_count64(&core->txns.begun, 1);
    lladd_atomic_writes_follow();
    reset(txn);
    txn->magic = LL_TXN_MAGIC;
    lladd_atomic_store32(&txn->state, LL_TXN_ACTIVE);
    *out = txn;
    return 0;
}

void ll_txn_set_state(struct lladd_txn *txn, uint32_t state)
{
    bool was = lladd_atomic_load32(&txn->state) == LL_TXN_PREPARED;
    bool is = state == LL_TXN_PREPARED;
    if (LL_UNLIKELY(was != is))
        lladd_atomic_count64(&txn->core->txns.in_doubt, is ? 1 : UINT64_MAX);
    lladd_atomic_store32(&txn->state, state);
}

/* A cursor has large buffers. To allocate these buffers would take more than half of the time of an
 * abort. One idle cursor is kept for the next rollback; concurrent rollbacks open their own. */
int ll_txn_want_cursor(struct lladd_txn *txn)
{
    struct ll_txn_table *t = &txn->core->txns;
    if (txn->cursor)
        return 0;
    uint64_t at = lladd_atomic_load64(&t->idle_cursor);
    at = at ? lladd_atomic_exchange64(&t->idle_cursor, 0) : 0;
    txn->cursor = (struct ll_log_cursor *)(uintptr_t)at;
    int rc = txn->cursor ? 0 : ll_log_cursor_open(txn->core->log, &txn->cursor);
    return rc ? ll_fail(&txn->err, rc, "out of memory for a rollback") : 0;
}

static void drop_cursor(struct lladd_txn *txn)
{
    struct ll_log_cursor *cursor = txn->cursor;
    uint64_t none = 0;
    txn->cursor = NULL;
    ll_log_cursor_rest(cursor); /* the next rollback will read other records */
    if (!lladd_atomic_cas64(&txn->core->txns.idle_cursor, &none, (uintptr_t)cursor))
        ll_log_cursor_close(cursor);
}

static void release_credit(struct lladd_txn *txn)
{
    ll_log_credit_return(txn->core->log, &txn->credit);
    if (txn->undo_spare)
        ll_log_undo_release(txn->core->log, txn->undo_spare);
    txn->undo_spare = 0;
}

static void put_free(struct ll_txn_table *t, struct lladd_txn *txn)
{
    lladd_mutex_lock(&t->mutex);
    txn->next_free = t->free;
    t->free = txn;
    t->n_free++;
    lladd_mutex_unlock(&t->mutex);
}

/* Other threads read `prepared` under the mutex. */
static void drop_prepared(struct lladd_txn *txn)
{
    struct ll_txn_table *t = &txn->core->txns;
    lladd_mutex_lock(&t->mutex);
    struct ll_prepared *prepared = txn->prepared;
    txn->prepared = NULL;
    ll_txn_set_state(txn, LL_TXN_FREE);
    lladd_mutex_unlock(&t->mutex);
    ll_free(&txn->core->env, prepared);
}

static bool may_park(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    /* A transaction that takes over a parked undo reserve needs no other reserve, and so does not
     * make the spare cursor. Therefore the cursor must exist before an undo reserve is parked. */
    return txn->undo_spare <= UNDO_KEPT && ll_log_credit_may_rest(core->log, &txn->credit) &&
           (txn->undo_spare == 0 || lladd_atomic_load_ptr(&core->txns.spare_cursor));
}

void ll_txn_release(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    struct ll_txn_table *t = &core->txns;
    if (LL_UNLIKELY(txn->owner != NULL)) {
        ll_free(&core->env, txn->owner);
        txn->owner = NULL;
    }
    if (LL_UNLIKELY(txn->cursor != NULL))
        drop_cursor(txn);
    txn->undo_spare += txn->undo_used;
    ll_txn_set_undo_used(txn, 0);
    txn->magic = 0;
    if (LL_UNLIKELY(txn->prepared != NULL))
        drop_prepared(txn);
    else
        lladd_atomic_store32(&txn->state, LL_TXN_FREE);
    if (LL_UNLIKELY(lladd_atomic_load64(&txn->user) != 0)) {
        lladd_atomic_count64(&t->lingering, 1);
        release_credit(txn); /* threads may keep the handle for long */
        txn->n_actions = 0;
        ll_txn_unref(txn);
        return;
    }
    uint64_t none = 0;
    if (may_park(txn) && lladd_atomic_load64(&t->parked) == 0 &&
        lladd_atomic_cas64(&t->parked, &none, (uintptr_t)txn))
        return;
    release_credit(txn);
    put_free(t, txn);
}

void ll_txn_unref(struct lladd_txn *txn)
{
    if (lladd_atomic_add32(&txn->refs, UINT32_MAX) != 1)
        return;
    lladd_atomic_store64(&txn->user, 0);
    lladd_atomic_count64(&txn->core->txns.lingering, UINT64_MAX);
    put_free(&txn->core->txns, txn);
}

bool ll_txns_release_credit(struct ll_core *core)
{
    struct lladd_txn *txn = unpark(&core->txns);
    if (!txn)
        return false;
    bool some = txn->credit.bytes + txn->undo_spare > 0;
    release_credit(txn);
    put_free(&core->txns, txn);
    return some;
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
        p[i] = t->pending[(t->pending_head + i) & (t->cap_pending - 1)];
    ll_free(&core->env, t->pending);
    t->pending = p;
    t->pending_head = 0;
    t->cap_pending = cap;
    return 0;
}

/* The queue must have room. */
static void enqueue(struct ll_txn_table *t, lladd_lsn commit, uint64_t undo_used,
                    struct ll_joined *joined, size_t n_joined)
{
    size_t mask = t->cap_pending - 1;
    struct ll_pending *last = &t->pending[(t->pending_head + t->n_pending - 1) & mask];
    lladd_atomic_store64_relaxed(&t->pending_undo, t->pending_undo + undo_used);
    if (t->n_pending > t->n_released && !n_joined && !last->n_joined &&
        commit.v - last->first < TOGETHER) {
        last->commit = commit;
        last->undo_used += undo_used;
        return;
    }
    t->pending[(t->pending_head + t->n_pending++) & mask] =
        (struct ll_pending){commit.v, commit, undo_used, joined, n_joined};
}

/* Chooses what the queue gets: *n becomes the number of participants with a durable callback,
 * *later a copy of these participants. If no participant has a committed callback, *later becomes
 * NULL, because the queue can take the transaction's own list. */
static int split_joined(struct lladd_txn *txn, struct ll_joined **later, size_t *n)
{
    bool keeps = false;
    *n = 0;
    *later = NULL;
    for (size_t i = 0; i < txn->n_joined; i++) {
        keeps |= LL_HAS(txn->joined[i].participant, committed);
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

/* Queues the commit; the queue must have room. `later`: from split_joined. */
static void enqueue_txn(struct lladd_txn *txn, lladd_lsn commit, struct ll_joined *later,
                        size_t n_later)
{
    if (n_later && !later) {
        n_later = txn->n_joined;
        later = txn->joined;
        txn->joined = NULL;
        txn->n_joined = txn->cap_joined = 0;
    }
    enqueue(&txn->core->txns, commit, txn->undo_used, later, n_later);
    ll_txn_set_undo_used(txn, 0);
}

/* Calls the participants' `logged`. Under `commit`. */
static void tell_logged(const struct lladd_txn *txn, lladd_lsn commit)
{
    for (size_t i = 0; i < txn->n_joined; i++) {
        const struct lladd_participant *p = txn->joined[i].participant;
        if (p->logged)
            p->logged(p->ctx, txn->joined[i].state, commit);
    }
}

static bool has_logged(const struct lladd_txn *txn)
{
    for (size_t i = 0; i < txn->n_joined; i++)
        if (txn->joined[i].participant->logged)
            return true;
    return false;
}

int ll_txn_end_unlogged(struct lladd_txn *txn, lladd_lsn *out, bool *tells)
{
    struct ll_core *core = txn->core;
    struct ll_txn_table *t = &core->txns;
    struct ll_joined *later;
    size_t n_later;
    int rc = split_joined(txn, &later, &n_later);
    *tells = !rc && n_later;
    if (!rc && !n_later && !has_logged(txn)) { /* the common case: no mutex */
        *out = lladd_lsn_of(lladd_atomic_load64(&t->visible));
        return 0;
    }
    if (!rc) {
        lladd_mutex_lock(&t->commit);
        rc = n_later ? want_pending(core) : 0;
        *out = lladd_lsn_of(lladd_atomic_load64(&t->visible));
        if (!rc)
            tell_logged(txn, *out);
        if (!rc && n_later)
            enqueue_txn(txn, *out, later, n_later);
        lladd_mutex_unlock(&t->commit);
        if (rc)
            ll_free(&core->env, later);
    }
    return rc ? ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a commit") : 0;
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
    ll_txn_set_state(txn, LL_TXN_ENDED);
    ll_log_publish(core->log, &rec);
    ll_observe(LLADD_DST_COMMIT, txn, NULL, &rec);
    tell_logged(txn, rec.lsn);
    enqueue_txn(txn, rec.lsn, later, n_later);
    /* The commit may let a class release log that the class needed at the last checkpoints. */
    if (LL_UNLIKELY(txn->frees_log && !txn->system) && !ll_core_asks_class(core))
        lladd_atomic_store32(&core->in_vain, 0);
    lladd_atomic_store64(&t->visible, rec.lsn.v);
    lladd_atomic_store64_relaxed(&t->committed, t->committed + 1);
    lladd_mutex_unlock(&t->commit);
    *out = rec.lsn;
    return 0;
}

/* Releases the undo reserves of commits that are durable now, before their callbacks run: a
 * callback may need the space. Under `commit`. */
static void release_undo(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t durable = ll_log_durable(core->log).v, released = 0, n = t->n_released;
    for (; n < t->n_pending; n++) {
        const struct ll_pending *p = &t->pending[(t->pending_head + n) & (t->cap_pending - 1)];
        if (p->commit.v >= durable)
            break;
        released += p->undo_used;
    }
    lladd_atomic_store64_relaxed(&t->n_released, n);
    if (!released)
        return;
    lladd_atomic_store64_relaxed(&t->pending_undo, t->pending_undo - released);
    ll_log_undo_release(core->log, released);
}

void ll_txns_release_undo(struct ll_core *core)
{
    lladd_mutex_lock(&core->txns.commit);
    release_undo(core);
    lladd_mutex_unlock(&core->txns.commit);
}

/* Debug builds: may callbacks run here? Checked even if no callback is due. */
static void check_callbacks(const struct ll_core *core, bool none)
{
    if (!none && !ll_core_asks_class(core))
        ll_held_check_callbacks();
}

void ll_txns_drain(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    bool asks = ll_core_asks_class(core);
    check_callbacks(core, asks);
    lladd_mutex_lock(&t->commit);
    release_undo(core);
    if (t->draining || asks) {
        lladd_mutex_unlock(&t->commit);
        return;
    }
    t->draining = true;
    while (t->n_released) {
        struct ll_pending p = t->pending[t->pending_head];
        t->pending_head = (t->pending_head + 1) & (t->cap_pending - 1);
        t->n_pending--;
        lladd_atomic_store64_relaxed(&t->n_released, t->n_released - 1);
        if (!p.n_joined)
            continue;
        lladd_mutex_unlock(&t->commit);
        for (size_t i = 0; i < p.n_joined; i++) {
            const struct lladd_participant *participant = p.joined[i].participant;
            if (participant->durable)
                participant->durable(participant->ctx, p.joined[i].state, core->db, p.commit);
        }
        ll_free(&core->env, p.joined);
        lladd_mutex_lock(&t->commit);
        release_undo(core);
    }
    t->draining = false;
    lladd_mutex_unlock(&t->commit);
}

void ll_txns_ended(struct ll_core *core, bool system)
{
    if (system)
        ll_txns_release_undo(core);
    else
        ll_txns_drain(core);
}

bool ll_txns_relieve(struct ll_core *core, bool system)
{
    struct ll_txn_table *t = &core->txns;
    check_callbacks(core, system);
    if (LL_UNLIKELY(lladd_atomic_load64_relaxed(&t->n_released) != 0))
        ll_txns_ended(core, system);
    if (LL_LIKELY(lladd_atomic_load64_relaxed(&t->pending_undo) <= t->pending_undo_max / SOON))
        return true;
    /* Has the last requested sync been done? */
    if (ll_log_durable(core->log).v >= lladd_atomic_load64_relaxed(&t->asked)) {
        ll_txns_ended(core, system);
        if (lladd_atomic_load64_relaxed(&t->pending_undo) <= t->pending_undo_max / SOON)
            return true;
        /* If the log has no thread, the caller forces the log at pending_undo_max. */
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
        /* the rollback of a transaction in doubt may log the first record since open */
        int rc = ll_core_mark(core, &txn->err);
        if (!rc && !LLADD_PLANTED(LLADD_BUG_END_FIRST))
            rc = ll_rollback(txn, lladd_lsn_of(0));
        if (!rc)
            rc = ll_log_credit_reserved(core->log, &txn->credit, ll_record_bound(0, 0), &txn->err);
        if (rc) {
            /* The transaction is released now; the next open undoes it. */
            rc = ll_poison_set(core->poison, LLADD_UNDO_FAILED, &txn->err, NULL);
            ll_txn_release(txn);
            return rc;
        }
        struct ll_record end = {.kind = LL_REC_END, .page = LLADD_NO_PAGE};
        end.prev = txn->last;
        end.txn = txn->id;
        ll_log_reserve(core->log, &txn->credit, &end, false);
        ll_txn_set_lsn(&txn->last, end.lsn);
        ll_txn_set_state(txn, LL_TXN_ENDED);
        ll_log_publish(core->log, &end);
        ll_log_credit_trim(core->log, &txn->credit);
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

/* ---- queries ------------------------------------------------------------------------------ */

static struct lladd_txn *in_use(struct lladd_txn *txn)
{
    while (txn && lladd_atomic_load32(&txn->state) == LL_TXN_FREE)
        txn = txn->next;
    return txn;
}

struct lladd_txn *ll_txns_first(const struct ll_txn_table *t)
{
    return in_use(t->first);
}

struct lladd_txn *ll_txns_next(const struct lladd_txn *txn)
{
    return in_use(txn->next);
}

/* The loads are ordered, and the state is FREE until all fields of a new life are set. undo_used is
 * the reserve that a rollback from the record `last` on needs, or that and the share of one more
 * record: a record that needs reserve adds it before the append, and a record that gives reserve
 * back subtracts it after the append. */
bool ll_txn_values(const struct lladd_txn *txn, struct ll_txn_values *out)
{
    uint64_t life;
    do {
        life = lladd_atomic_load64(&txn->lives);
        out->state = lladd_atomic_load32(&txn->state);
        out->id = lladd_atomic_load64(&txn->id.v);
        out->last = lladd_atomic_load64(&txn->last.v);
        out->undo_next = lladd_atomic_load64(&txn->undo_next.v);
        out->undo_used = lladd_atomic_load64(&txn->undo_used);
        out->system = lladd_atomic_load32(&txn->system);
    } while (lladd_atomic_load64(&txn->lives) != life ||
             lladd_atomic_load64(&txn->last.v) != out->last);
    return out->id != 0 && out->state != LL_TXN_ENDED && out->state != LL_TXN_FREE;
}

void ll_txns_count(struct ll_core *core, uint64_t *begun, uint64_t *active, uint64_t *in_doubt)
{
    struct ll_txn_table *t = &core->txns;
    lladd_mutex_lock(&t->mutex);
    uint64_t made = lladd_atomic_load64(&t->made), idle = t->n_free;
    lladd_mutex_unlock(&t->mutex);
    idle += (lladd_atomic_load64(&t->parked) != 0) + lladd_atomic_load64(&t->lingering);
    *begun = lladd_atomic_load64(&t->begun);
    *active = made > idle ? made - idle : 0; /* the counts are not read at one moment */
    *in_doubt = lladd_atomic_load64(&t->in_doubt);
}

void ll_txns_counted(struct ll_core *core, const struct ll_name *name, uint64_t *n, uint64_t *bytes)
{
    struct ll_txn_table *t = &core->txns;
    *n = *bytes = 0;
    lladd_mutex_lock(&t->mutex);
    for (const struct lladd_txn *txn = t->first; txn; txn = txn->next) {
        if (lladd_atomic_load_ptr(&txn->counted) != name)
            continue;
        *n += lladd_atomic_load64(&txn->counted_n);
        *bytes += lladd_atomic_load64(&txn->counted_bytes);
    }
    lladd_mutex_unlock(&t->mutex);
}

lladd_lsn ll_txns_oldest(struct ll_core *core, struct lladd_pinner *pinner)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t oldest = UINT64_MAX;
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = ll_txns_first(t); txn; txn = ll_txns_next(txn)) {
        /* The id is stored between reserve and publish, so an id that is not visible here is at
         * or above the tail that the caller read before this call. */
        struct ll_txn_values now;
        if (!ll_txn_values(txn, &now) || now.id >= oldest)
            continue;
        oldest = now.id;
        if (pinner) {
            bool prepared = now.state == LL_TXN_PREPARED;
            pinner->txn = lladd_lsn_of(now.id);
            pinner->kind = prepared ? "prepared" : "transaction";
            pinner->name[0] = 0;
            if (prepared && txn->prepared)
                memcpy(pinner->name, txn->prepared->owner, sizeof pinner->name);
        }
    }
    lladd_mutex_unlock(&t->mutex);
    return lladd_lsn_of(oldest);
}

lladd_lsn ll_txns_most_undo(struct ll_core *core, uint64_t *n)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t most = 0;
    lladd_lsn found = {0};
    *n = 0;
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = ll_txns_first(t); txn; txn = ll_txns_next(txn)) {
        struct ll_txn_values now;
        if (!ll_txn_values(txn, &now))
            continue;
        ++*n;
        if (now.undo_used <= most)
            continue;
        most = now.undo_used;
        found = lladd_lsn_of(now.id);
    }
    lladd_mutex_unlock(&t->mutex);
    return found;
}

lladd_lsn ll_txns_applied(struct ll_core *core)
{
    struct ll_txn_table *t = &core->txns;
    uint64_t low = ll_log_tail(core->log).v; /* read before the table: newer records are not below
                                              * it */
    lladd_atomic_fence();
    lladd_mutex_lock(&t->mutex);
    for (const struct lladd_txn *txn = t->first; txn; txn = txn->next) {
        uint64_t busy = lladd_atomic_load64(&txn->busy);
        if (busy < low)
            low = busy;
    }
    lladd_mutex_unlock(&t->mutex);
    /* A bound that was true stays true, so the highest bound is kept. Without this rule a
     * transaction that is logging its first record would lower the result for a moment. */
    lladd_atomic_max64(&t->applied, low);
    return lladd_lsn_of(lladd_atomic_load64(&t->applied));
}
