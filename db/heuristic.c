/* SPDX-License-Identifier: BSD-2-Clause */
/* Heuristic outcomes: an administrator ends a transaction in doubt without its coordinator.
 *
 * One record has both the decision and the outcome to be remembered, so neither is durable without
 * the other. For a commit this record is the commit record; for an abort it is a heuristic record
 * that is written before the rollback. Checkpoints copy the list of outcomes, so the list needs no
 * old log. */
#include "db/db_private.h"
#include "recovery/analysis.h"
#include "util/vec.h"

#include <string.h>

/* Notes in the control block that the database has heuristic outcomes, so that older libraries do
 * not open the database. Older libraries would lose the outcomes. */
static int set_feature(struct ll_core *core, struct lladd_error *err)
{
    int rc = ll_core_mark(core, err);
    return rc ? rc : ll_core_feature(core, LL_FEATURE_HEURISTIC, err);
}

static int enter(struct lladd_txn *txn, enum lladd_outcome outcome)
{
    int rc = ll_txn_may_end(txn);
    if (rc)
        return rc;
    rc = ll_core_check(txn->core, &txn->err);
    if (rc) {
        ll_txn_release(txn); /* the next open finds the transaction in doubt */
        return rc;
    }
    if (outcome != LLADD_OUTCOME_COMMIT && outcome != LLADD_OUTCOME_ABORT)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "invalid outcome: expected commit or abort");
    if (lladd_atomic_load32(&txn->state) != LL_TXN_PREPARED)
        return ll_fail(&txn->err, LLADD_BAD_STATE, "expected a prepared transaction");
    return 0;
}

/* Logs the decision. The list and the log change under the checkpoint mutex, so a checkpoint sees
 * both changes or neither. The first request for credit also marks the control block and sets log
 * space aside for checkpoints. The credit is returned before the mutex is taken, because no thread
 * may wait for that mutex with credit (BUF-3). Under the mutex the credit is requested a second
 * time. */
static int decide(struct lladd_txn *txn, const struct ll_heuristic *h, lladd_lsn *lsn)
{
    struct ll_core *core = txn->core;
    unsigned char bytes[LL_HEURISTIC_MAX];
    struct lladd_span payload = lladd_span_of(bytes, ll_heuristic_encode(h, bytes));
    size_t need = ll_record_bound(payload.len, 0);
    int rc = ll_core_credit_owed(core, &txn->credit, need, &txn->err);
    ll_log_credit_trim(core->log, &txn->credit);
    if (rc)
        return rc;
    ll_checkpoint_begin(core);
    rc = ll_log_credit_owed(core->log, &txn->credit, need, &txn->err);
    if (!rc)
        rc = ll_heuristic_put(core, h, &txn->err);
    if (!rc && h->outcome == LLADD_OUTCOME_COMMIT) {
        rc = ll_txn_log_commit(txn, payload, lsn);
        if (rc)
            (void)ll_heuristic_remove(core, &h->what.gid);
    } else if (!rc) {
        struct ll_record rec = {.kind = LL_REC_HEURISTIC, .page = LLADD_NO_PAGE, .redo = payload};
        ll_txn_append(txn, &rec, NULL);
        ll_observe(LLADD_DST_HEURISTIC, txn, NULL, &rec);
        *lsn = rec.lsn;
    }
    ll_log_credit_trim(core->log, &txn->credit);
    ll_checkpoint_end(core);
    return rc;
}

int lladd_heuristic_end(struct lladd_txn *txn, enum lladd_outcome outcome)
{
    LL_USE(txn);
    struct lladd_error why = LLADD_ERROR_INIT;
    lladd_lsn lsn;
    int rc = enter(txn, outcome);
    if (!rc)
        rc = ll_db_enter_checkpoint(ll_db_of(txn->core), &txn->err, "lladd_heuristic_end");
    if (rc)
        return rc;
    struct ll_core *core = txn->core;
    struct ll_heuristic h = {.what = *txn->prepared, .outcome = (uint8_t)outcome};
    h.what.blobs = 0;
    h.decided_us = ll_wall_us(&core->env);
    rc = set_feature(core, &txn->err);
    if (!rc)
        rc = decide(txn, &h, &lsn);
    if (rc) {
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
            ll_txn_release(txn);
        return rc;
    }
    if (outcome == LLADD_OUTCOME_COMMIT) {
        ll_txn_tell_committed(txn, lsn);
        ll_txn_release(txn);
    } else {
        rc = ll_txn_abort(txn);
    }
    if (!rc)
        rc = ll_log_force(core->log, lsn, &why);
    if (!rc) {
        ll_observe_durable(core, lsn);
        ll_txns_drain(core);
    }
    return rc;
}

int lladd_heuristic_each(struct lladd_db *db, lladd_heuristic_fn *fn, void *ctx,
                         struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    struct ll_core *core = &db->core;
    struct ll_vec rows;
    ll_vec_init(&rows, &core->env, sizeof(struct ll_heuristic));
    lladd_mutex_lock(&core->misc);
    if (core->n_heuristics && ll_vec_append(&rows, core->heuristics, (size_t)core->n_heuristics))
        rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    lladd_mutex_unlock(&core->misc);
    for (size_t i = 0; !rc && i < rows.len; i++) {
        struct lladd_heuristic_info info;
        ll_heuristic_describe(ll_vec_at(&rows, i), &info);
        rc = fn(ctx, &info); /* may call back into the library */
    }
    ll_vec_free(&rows);
    return rc;
}

static int log_forgotten(struct ll_core *core, const struct ll_heuristic *h,
                         struct lladd_error *err)
{
    struct ll_heuristic gone = *h;
    unsigned char bytes[LL_HEURISTIC_MAX];
    gone.outcome = 0;
    struct ll_record rec = {.kind = LL_REC_HEURISTIC, .page = LLADD_NO_PAGE};
    rec.redo = lladd_span_of(bytes, ll_heuristic_encode(&gone, bytes));
    int rc = ll_core_append(core, &rec, false, err);
    return rc ? rc : ll_log_force(core->log, rec.lsn, err);
}

int lladd_heuristic_forget(struct lladd_db *db, const struct lladd_gid *gid,
                           struct lladd_error *err)
{
    struct ll_heuristic h;
    int rc = ll_db_enter_checkpoint(db, err, "lladd_heuristic_forget");
    if (!rc)
        rc = ll_gid_check(gid, err);
    if (rc)
        return rc;
    struct ll_core *core = &db->core;
    ll_checkpoint_begin(core);
    if (!ll_heuristic_find(core, gid, &h)) {
        rc = ll_fail(err, LLADD_NOT_FOUND, "no heuristic outcome is remembered under this id");
    } else {
        (void)ll_heuristic_remove(core, gid);
        rc = log_forgotten(core, &h, err);
        if (rc)
            (void)ll_heuristic_put(core, &h, NULL); /* cannot fail: the list has room, because the
                                                     * outcome was just removed */
    }
    ll_checkpoint_end(core);
    return rc;
}
