/* SPDX-License-Identifier: BSD-2-Clause */
/* The public calls on transactions: begin, commit, abort, savepoints, participants. One thread at a
 * time uses a transaction. Another thread can take over a guarded transaction (db/guard.c). */
#include "db/db_private.h"

#include <stddef.h>
#include <string.h>

int ll_txn_enter_slow(struct lladd_txn *txn)
{
    if (LL_UNLIKELY(!txn || txn->magic != LL_TXN_MAGIC))
        return LLADD_CLOSED;
    int rc = ll_core_check(txn->core, &txn->err);
    /* A poisoned log takes no record, so the thread has no use for the credit. */
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        ll_log_credit_rests(&txn->credit);
    if (LL_UNLIKELY(rc))
        return rc;
    if (txn->rolling_back || (lladd_atomic_load32(&txn->state) == LL_TXN_ACTIVE && !txn->read_only))
        return 0;
    if (txn->read_only)
        return ll_fail(&txn->err, LLADD_READ_ONLY, "the transaction is read-only");
    return ll_fail(&txn->err, LLADD_BAD_STATE, "the transaction is prepared: commit or abort it");
}

int lladd_begin(struct lladd_db *db, const struct lladd_txn_options *o, struct lladd_txn **out,
                struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_no_page(db, err, "lladd_begin");
    if (rc)
        return rc;
    if (!out || (o && (o->struct_size < sizeof *o || o->durability > LLADD_DURABLE_LATER)))
        return ll_fail(err, LLADD_BAD_ARGUMENT, "invalid transaction options");
    if (o && o->owner && strlen(o->owner) > 63)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "an owner tag has at most 63 bytes");
    struct lladd_txn *txn;
    rc = ll_txn_new(&db->core, &txn, err);
    if (rc)
        return rc;
    txn->durability = (uint8_t)db->durability;
    txn->frees_log = (o && o->frees_log) || ll_core_asks_class(&db->core);
    if (o) {
        txn->read_only = o->read_only;
        lladd_atomic_store32(&txn->system, o->system);
        if (o->durability)
            txn->durability = (uint8_t)o->durability;
        if (o->owner) {
            txn->owner = ll_strdup(&db->core.env, o->owner);
            if (!txn->owner) {
                ll_txn_release(txn);
                return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a transaction");
            }
        }
    }
    *out = txn;
    return 0;
}

/* ---- the end ----------------------------------------------------------------------------- */

int ll_txn_may_end(struct lladd_txn *txn)
{
    if (!txn || txn->magic != LL_TXN_MAGIC)
        return LLADD_CLOSED;
    if (txn->rolling_back)
        return ll_fail(&txn->err, LLADD_BAD_STATE, "a compensation may not end its transaction");
    int rc = ll_db_enter(ll_db_of(txn->core), &txn->err);
    if (rc == LLADD_FORKED)
        return rc;
    ll_log_credit_trim(txn->core->log, &txn->credit);
    return ll_db_no_page(ll_db_of(txn->core), &txn->err, "the end of a transaction");
}

static int wait_for(struct ll_core *core, lladd_lsn lsn, unsigned durability,
                    struct lladd_error *err)
{
    switch (durability) {
    case LLADD_DURABLE_LATER:
        return ll_core_check(core, err);
    case LLADD_DURABLE_OS:
        return ll_log_write(core->log, lsn, err);
    default:
        if (LLADD_PLANTED(LLADD_BUG_ACKNOWLEDGE))
            return ll_log_write(core->log, lsn, err);
        return ll_log_force(core->log, lsn, err);
    }
}

void ll_txn_tell_committed(struct lladd_txn *txn, lladd_lsn commit)
{
    for (size_t k = 0; k < txn->n_joined; k++) {
        const struct lladd_participant *p = txn->joined[k].participant;
        if (LL_HAS(p, committed))
            p->committed(p->ctx, txn->joined[k].state, txn->core->db, commit);
    }
}

/* Commits a transaction that wrote nothing. `wait`: first waits until the commits that the
 * transaction may have read are as durable as the transaction demands (TXN-1). */
static int commit_nothing(struct lladd_txn *txn, bool wait, lladd_lsn *out)
{
    struct ll_core *core = txn->core;
    bool tells, system = lladd_atomic_load32(&txn->system);
    int rc = ll_txn_end_unlogged(txn, out, &tells);
    if (rc)
        return rc;
    ll_txn_tell_committed(txn, *out);
    if (wait && out->v) {
        rc = wait_for(core, *out, txn->durability, &txn->err);
        if (!rc && txn->durability == LLADD_DURABLE)
            ll_observe_durable(core, *out);
    }
    ll_txn_release(txn);
    if (rc)
        return rc;
    lladd_atomic_count64(&core->txns.read, 1);
    if (tells)
        ll_txns_ended(core, system);
    return 0;
}

/* `wait`: waits until a logged commit is as durable as the transaction demands. `drain`: forces the
 * log up to the commit, because commits that are not durable have much log space reserved. */
static int see_through(struct ll_core *core, lladd_lsn lsn, bool wait, bool drain,
                       unsigned durability, bool system)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = wait ? wait_for(core, lsn, drain ? LLADD_DURABLE : durability, &why)
                  : ll_log_force(core->log, lsn, &why);
    if (!rc && (drain || durability == LLADD_DURABLE)) {
        ll_observe_durable(core, lsn);
        ll_txns_ended(core, system);
    }
    return rc;
}

/* `last` true: tells the participants of extensions that have `bulk_written`; false: tells all
 * other participants. If a callback lets another participant join, that participant is told,
 * too. */
static int tell_committing(struct lladd_txn *txn, bool last)
{
    const struct lladd_db *db = ll_db_of(txn->core);
    int rc = 0;
    for (size_t k = 0; k < txn->n_joined && !rc; k++) {
        const struct lladd_participant *p = txn->joined[k].participant;
        if (LL_HAS(p, committing) &&
            (db->hears_bulk && ll_extensions_hear_bulk(db, p)) == last)
            rc = p->committing(p->ctx, txn->joined[k].state, txn);
    }
    return rc;
}

int ll_txn_tell_committing(struct lladd_txn *txn)
{
    int rc = tell_committing(txn, false);
    return !rc && LL_UNLIKELY(ll_db_of(txn->core)->hears_bulk) ? tell_committing(txn, true) : rc;
}

static int commit(struct lladd_txn *txn, bool wait, lladd_lsn *out)
{
    int rc = ll_txn_may_end(txn);
    if (rc)
        return rc;
    struct ll_core *core = txn->core;
    if (txn->n_actions)
        return ll_fail(&txn->err, LLADD_OPEN_ACTION, "a nested top action is still open");
    rc = ll_core_check(core, &txn->err);
    if (rc) {
        ll_txn_release(txn);
        return rc;
    }
    if (txn->id.v == 0)
        return commit_nothing(txn, wait, out);
    /* The commit record uses the log space that was reserved for the END record of a rollback. So a
     * prepared transaction can be committed on a full disk. */
    rc = lladd_atomic_load32(&txn->state) == LL_TXN_ACTIVE ? ll_txn_tell_committing(txn) : 0;
    if (!rc)
        rc = ll_core_mark(core, &txn->err);
    if (!rc)
        rc = ll_log_credit_reserved(core->log, &txn->credit, ll_record_bound(0, 0), &txn->err);
    if (!rc)
        rc = ll_txn_log_commit(txn, lladd_span_of(NULL, 0), out);
    ll_log_credit_trim(core->log, &txn->credit);
    if (rc) {
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
            ll_txn_release(txn);
        return rc;
    }
    unsigned durability = txn->durability;
    bool system = lladd_atomic_load32(&txn->system);
    ll_txn_tell_committed(txn, *out);
    ll_txn_release(txn);
    ll_background_poll(ll_db_of(core));
    bool drain = (!wait || durability != LLADD_DURABLE) && !ll_txns_relieve(core, system);
    return wait || drain ? see_through(core, *out, wait, drain, durability, system) : 0;
}

int lladd_commit(struct lladd_txn *txn)
{
    LL_USE(txn);
    lladd_lsn lsn;
    return commit(txn, true, &lsn);
}

int lladd_commit_async(struct lladd_txn *txn, lladd_lsn *out)
{
    LL_USE(txn);
    lladd_lsn lsn = {0};
    int rc = commit(txn, false, &lsn);
    if (!rc && out)
        *out = lsn;
    return rc;
}

int lladd_wait_durable(struct lladd_db *db, lladd_lsn lsn, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_no_page(db, err, "lladd_wait_durable");
    if (!rc && lsn.v)
        rc = ll_log_force(db->core.log, lsn, err);
    if (!rc) {
        ll_observe_durable(&db->core, lsn);
        ll_txns_drain(&db->core);
    }
    return rc;
}

int lladd_abort(struct lladd_txn *txn)
{
    LL_USE(txn);
    int rc = ll_txn_may_end(txn);
    if (rc)
        return rc;
    rc = ll_core_check(txn->core, &txn->err);
    if (rc) {
        ll_txn_release(txn); /* the next open rolls the transaction back */
        return rc;
    }
    return ll_txn_abort(txn);
}

/* ---- savepoints -------------------------------------------------------------------------- */

int lladd_savepoint(struct lladd_txn *txn, lladd_savepoint_id *out)
{
    LL_USE(txn);
    int rc = ll_txn_enter(txn);
    if (rc)
        return rc;
    if (!out)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "out is NULL");
    if (!txn->rolling_back || txn->n_savepoints == txn->cap_savepoints)
        rc = ll_core_want_nesting(txn);
    if (rc)
        return rc;
    struct ll_savepoint *sp = &txn->savepoints[txn->n_savepoints++];
    sp->id = txn->next_id++;
    sp->undo_next = txn->undo_next;
    sp->undo_used = txn->undo_used;
    sp->actions = txn->n_actions;
    *out = sp->id;
    return 0;
}

/* Index + 1 of the savepoint; 0 if it no longer exists. */
static size_t find_savepoint(struct lladd_txn *txn, lladd_savepoint_id id)
{
    size_t i = txn->n_savepoints;
    while (i > 0 && txn->savepoints[i - 1].id != id)
        i--;
    if (i == 0)
        ll_fail(&txn->err, LLADD_DEAD_SAVEPOINT, "savepoint %llu no longer exists",
                (unsigned long long)id);
    return i;
}

int lladd_savepoint_release(struct lladd_txn *txn, lladd_savepoint_id id)
{
    LL_USE(txn);
    int rc = ll_txn_enter(txn);
    if (rc)
        return rc;
    size_t i = find_savepoint(txn, id);
    if (i == 0)
        return LLADD_DEAD_SAVEPOINT;
    txn->n_savepoints = i - 1;
    return 0;
}

void ll_txn_tell_undone(struct lladd_txn *txn, lladd_lsn since)
{
    for (size_t k = 0; k < txn->n_joined; k++) {
        const struct lladd_participant *p = txn->joined[k].participant;
        if (LL_HAS(p, undone))
            p->undone(p->ctx, txn->joined[k].state, txn, since);
    }
}

int lladd_rollback_to(struct lladd_txn *txn, lladd_savepoint_id id)
{
    LL_USE(txn);
    int rc = ll_txn_enter_unlatched(txn, "lladd_rollback_to");
    if (rc)
        return rc;
    size_t i = find_savepoint(txn, id);
    if (i == 0)
        return LLADD_DEAD_SAVEPOINT;
    struct ll_savepoint sp = txn->savepoints[i - 1];
    rc = LLADD_PLANTED(LLADD_BUG_SAVEPOINT) ? 0 : ll_rollback(txn, sp.undo_next);
    if (rc)
        return rc;
    txn->depth -= (uint32_t)(txn->n_actions - sp.actions);
    txn->n_actions = sp.actions;
    txn->n_savepoints = i;
    txn->undone = id;
    for (size_t k = 0; k < txn->n_joined; k++) {
        const struct lladd_participant *p = txn->joined[k].participant;
        if (p->rolled_back_to)
            p->rolled_back_to(p->ctx, txn->joined[k].state, txn, id);
    }
    ll_txn_tell_undone(txn, sp.undo_next);
    return 0;
}

/* ---- participants ------------------------------------------------------------------------ */

int lladd_txn_join(struct lladd_txn *txn, const struct lladd_participant *p, void *state)
{
    LL_USE(txn);
    if (!txn || txn->magic != LL_TXN_MAGIC)
        return LLADD_CLOSED;
    if (!ll_op_catalog_by_desc(txn->core, LL_NAME_PARTICIPANT, p))
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "the participant is not registered");
    for (size_t i = 0; i < txn->n_joined; i++)
        if (txn->joined[i].participant == p)
            return ll_fail(&txn->err, LLADD_EXISTS, "\"%s\" has joined already", p->name);
    if (ll_grow(&txn->core->env, &txn->joined, &txn->cap_joined, txn->n_joined + 1,
                sizeof *txn->joined))
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a participant");
    txn->joined[txn->n_joined].participant = p;
    txn->joined[txn->n_joined++].state = state;
    return 0;
}

void *lladd_txn_joined(const struct lladd_txn *txn, const struct lladd_participant *p)
{
    for (size_t i = 0; i < txn->n_joined; i++)
        if (txn->joined[i].participant == p)
            return txn->joined[i].state;
    return NULL;
}

int lladd_txn_now_get(struct lladd_txn *txn, struct lladd_txn_now *out)
{
    LL_USE(txn);
    int rc = LL_LIKELY(txn && txn->magic == LL_TXN_MAGIC && txn->read_only)
                 ? ll_core_check(txn->core, &txn->err)
                 : ll_txn_enter(txn);
    if (rc)
        return rc;
    out->next = txn->next_id;
    out->rolling_back = txn->rolling_back;
    out->page_held = ll_held_pages(ll_db_of(txn->core));
    out->undone = txn->undone;
    out->actions = (unsigned)txn->n_actions;
    return 0;
}

const struct lladd_error *lladd_txn_error(const struct lladd_txn *txn)
{
    static const struct lladd_error taken = {
        .code = LLADD_TAKEN,
        .page = {UINT64_MAX},
        .message = "another thread has taken the transaction over",
    };
    return ll_txn_seen(txn) ? &txn->err : &taken;
}

struct lladd_error *lladd_txn_error_out(struct lladd_txn *txn)
{
    return &txn->err;
}

struct lladd_db *lladd_txn_db(const struct lladd_txn *txn)
{
    return txn->core->db;
}

lladd_lsn lladd_txn_id(const struct lladd_txn *txn)
{
    return ll_txn_seen(txn) ? txn->id : lladd_lsn_of(0);
}
