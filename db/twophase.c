/* SPDX-License-Identifier: BSD-2-Clause */
/* Two-phase commit (LLADD paper, section 4.2): a prepared transaction survives a restart, and
 * recovery does not roll it back.
 *
 * The participants' blobs, the bytes that their `prepare` callbacks write, are logged before the
 * prepare record. Each blob is cut into pieces. A record holds one piece, and the number of the
 * participant's catalogue entry. Recovery reads the records backwards and gives each participant
 * its blob. Payload of a blob record:
 *
 *     0 u32 length of the blob, in bytes
 *     4 u32 offset of the piece in the blob, in bytes
 *     8 the bytes of the piece
 *
 * The global id is reserved under the transaction table's mutex before the blobs are logged, so two
 * transactions never have the same id at the same time. */
#include "db/db_private.h"
#include "recovery/analysis.h"
#include "util/vec.h"

#include <lladd/bytes.h>
#include <string.h>

#define BLOB_PIECE 2048u
#define BLOB_HEAD 8u

int ll_gid_check(const struct lladd_gid *g, struct lladd_error *err)
{
    if (!g || g->format == -1 || g->gtrid_length < 1 || g->gtrid_length > 64 ||
        g->bqual_length > 64)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "a global id has a gtrid of 1 to 64 bytes, a bqual of 0 to 64 bytes, and a "
                       "format other than -1");
    return 0;
}

static int blob_write(void *ctx, const void *bytes, size_t len)
{
    struct ll_vec *v = ctx;
    return ll_vec_append(v, bytes, len);
}

static int log_blob(struct lladd_txn *txn, const struct lladd_participant *p,
                    const struct ll_vec *v)
{
    struct ll_name *name = ll_op_catalog_by_desc(txn->core, LL_NAME_PARTICIPANT, p);
    unsigned char piece[BLOB_HEAD + BLOB_PIECE];
    int rc = ll_op_catalog_number(txn->core, name, &txn->err);
    size_t at = 0;
    do {
        size_t len = v->len - at < BLOB_PIECE ? v->len - at : BLOB_PIECE;
        if (!rc)
            rc = ll_core_reserve_plain(txn, ll_record_bound(BLOB_HEAD + len, 0), 0);
        if (rc)
            return rc;
        lladd_put32(piece, (uint32_t)v->len);
        lladd_put32(piece + 4, (uint32_t)at);
        if (len)
            memcpy(piece + BLOB_HEAD, (const unsigned char *)v->data + at, len);
        struct ll_record rec = {.kind = LL_REC_PREPARE_BLOB,
                                .op = name->number,
                                .page = LLADD_NO_PAGE,
                                .redo = lladd_span_of(piece, BLOB_HEAD + len)};
        ll_txn_append(txn, &rec, NULL);
        ll_log_credit_trim(txn->core->log, &txn->credit);
        txn->prepared->blobs++;
        at += len;
    } while (at < v->len);
    return 0;
}

static int log_blobs(struct lladd_txn *txn)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < txn->n_joined; i++) {
        const struct lladd_participant *p = txn->joined[i].participant;
        if (!p->prepare)
            continue;
        struct ll_vec v;
        ll_vec_init(&v, &txn->core->env, 1);
        struct lladd_sink sink = {.ctx = &v, .write = blob_write};
        txn->err.code = 0;
        rc = p->prepare(p->ctx, txn->joined[i].state, txn, &sink);
        if (!rc && sink.failed)
            rc = ll_fail(&txn->err, sink.failed,
                         "participant \"%s\": storing its prepare bytes failed", p->name);
        else if (rc && txn->err.code != rc)
            ll_fail(&txn->err, rc, "participant \"%s\" refuses to prepare", p->name);
        if (!rc)
            rc = log_blob(txn, p, &v);
        ll_vec_free(&v);
    }
    return rc;
}

static int take_gid(struct lladd_txn *txn, const struct lladd_gid *gid)
{
    struct ll_core *core = txn->core;
    struct ll_txn_table *t = &core->txns;
    struct ll_prepared *p = ll_alloc_zero(&core->env, sizeof *p);
    if (!p)
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for prepare");
    p->gid = *gid;
    p->prepared_us = ll_wall_us(&core->env);
    if (txn->owner)
        strncpy(p->owner, txn->owner, sizeof p->owner - 1);
    struct ll_heuristic known;
    lladd_mutex_lock(&t->mutex);
    bool ended = ll_heuristic_find(core, gid, &known), taken = ended;
    for (struct lladd_txn *o = ll_txns_first(t); o && !taken; o = ll_txns_next(o))
        taken = o->prepared && ll_gid_same(&o->prepared->gid, gid);
    if (!taken)
        txn->prepared = p;
    lladd_mutex_unlock(&t->mutex);
    if (!taken)
        return 0;
    ll_free(&core->env, p);
    return ll_fail(&txn->err, LLADD_EXISTS,
                   ended ? "the global id stands for a heuristic outcome that is still remembered"
                         : "the global id is in use");
}

static void drop_gid(struct lladd_txn *txn)
{
    struct ll_txn_table *t = &txn->core->txns;
    lladd_mutex_lock(&t->mutex);
    struct ll_prepared *p = txn->prepared;
    txn->prepared = NULL;
    lladd_mutex_unlock(&t->mutex);
    ll_free(&txn->core->env, p);
}

/* Logs the prepare record. Does not wait until the record is durable. */
static int log_prepare(struct lladd_txn *txn, const struct lladd_gid *gid, lladd_lsn *out)
{
    int rc = ll_txn_enter_unlatched(txn, "a prepare");
    if (!rc)
        rc = ll_db_enter(ll_db_of(txn->core), &txn->err);
    if (!rc && txn->rolling_back)
        rc = ll_fail(&txn->err, LLADD_BAD_STATE, "a compensation may not prepare");
    if (!rc && txn->n_actions)
        rc = ll_fail(&txn->err, LLADD_OPEN_ACTION, "a nested top action is still open");
    if (!rc)
        rc = ll_gid_check(gid, &txn->err);
    if (!rc)
        rc = take_gid(txn, gid);
    if (rc)
        return rc;
    unsigned char bytes[LL_PREPARE_MAX];
    rc = ll_txn_tell_committing(txn);
    if (!rc)
        rc = log_blobs(txn);
    size_t len = rc ? 0 : ll_prepare_encode(txn->prepared, bytes);
    if (!rc)
        rc = ll_core_reserve_plain(txn, ll_record_bound(len, 0), 0);
    if (rc) {
        drop_gid(txn);
        return rc;
    }
    struct ll_record rec = {
        .kind = LL_REC_PREPARE, .page = LLADD_NO_PAGE, .redo = lladd_span_of(bytes, len)};
    /* State and LSN change together: a checkpoint that sees the state PREPARED must find the
     * LSN. */
    lladd_mutex_lock(&txn->core->txns.mutex);
    ll_txn_append(txn, &rec, NULL);
    txn->prepared->lsn = rec.lsn;
    ll_txn_set_state(txn, LL_TXN_PREPARED);
    lladd_mutex_unlock(&txn->core->txns.mutex);
    ll_observe(LLADD_DST_PREPARE, txn, NULL, &rec);
    txn->n_savepoints = 0;
    ll_log_credit_trim(txn->core->log, &txn->credit);
    lladd_atomic_count64(&txn->core->txns.prepared, 1);
    *out = rec.lsn;
    return 0;
}

int lladd_prepare(struct lladd_txn *txn, const struct lladd_gid *gid)
{
    LL_USE(txn);
    lladd_lsn lsn = {0};
    int rc = log_prepare(txn, gid, &lsn);
    if (!rc && !LLADD_PLANTED(LLADD_BUG_PREPARE))
        rc = ll_log_force(txn->core->log, lsn, &txn->err);
    if (rc)
        return rc;
    ll_observe_durable(txn->core, lsn);
    for (size_t i = 0; i < txn->n_joined; i++) {
        const struct lladd_participant *p = txn->joined[i].participant;
        if (LL_HAS(p, prepared))
            p->prepared(p->ctx, txn->joined[i].state, txn);
    }
    return 0;
}

int lladd_prepare_async(struct lladd_txn *txn, const struct lladd_gid *gid, lladd_lsn *out)
{
    LL_USE(txn);
    lladd_lsn lsn = {0};
    int rc = log_prepare(txn, gid, &lsn);
    if (!rc && out)
        *out = lsn;
    return rc;
}

static void describe(const struct lladd_txn *txn, struct lladd_in_doubt_info *info)
{
    const struct ll_prepared *p = txn->prepared;
    memset(info, 0, sizeof *info);
    info->gid = p->gid;
    info->txn = txn->id;
    info->prepared_us = p->prepared_us;
    info->claimed = !p->recovered || p->claimed;
    memcpy(info->owner, p->owner, sizeof info->owner);
}

int lladd_in_doubt_each(struct lladd_db *db, lladd_in_doubt_fn *fn, void *ctx,
                        struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    struct ll_txn_table *t = &db->core.txns;
    struct ll_vec rows;
    ll_vec_init(&rows, &db->core.env, sizeof(struct lladd_in_doubt_info));
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = ll_txns_first(t); !rc && txn; txn = ll_txns_next(txn)) {
        if (lladd_atomic_load32(&txn->state) != LL_TXN_PREPARED)
            continue;
        struct lladd_in_doubt_info *row = ll_vec_push(&rows);
        if (row)
            describe(txn, row);
        else
            rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    }
    lladd_mutex_unlock(&t->mutex);
    for (size_t i = 0; !rc && i < rows.len; i++)
        rc = fn(ctx, ll_vec_at(&rows, i)); /* may call back into the library */
    ll_vec_free(&rows);
    return rc;
}

int lladd_in_doubt_claim(struct lladd_db *db, const struct lladd_gid *gid, struct lladd_txn **out,
                         struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_gid_check(gid, err);
    if (rc)
        return rc;
    struct ll_txn_table *t = &db->core.txns;
    struct ll_heuristic known;
    if (ll_heuristic_find(&db->core, gid, &known))
        return known.outcome == LLADD_OUTCOME_COMMIT
                   ? ll_fail(err, LLADD_HEUR_COMMITTED, "an administrator has committed it")
                   : ll_fail(err, LLADD_HEUR_ABORTED, "an administrator has aborted it");
    rc = LLADD_NOT_FOUND;
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = ll_txns_first(t); txn; txn = ll_txns_next(txn)) {
        if (!txn->prepared || !ll_gid_same(&txn->prepared->gid, gid))
            continue;
        rc = LLADD_BUSY;
        if (txn->prepared->recovered && !txn->prepared->claimed) {
            txn->prepared->claimed = true;
            txn->durability = (uint8_t)db->durability;
            *out = txn;
            rc = 0;
        }
        break;
    }
    lladd_mutex_unlock(&t->mutex);
    if (rc == LLADD_NOT_FOUND)
        return ll_fail(err, rc, "no transaction is in doubt under this global id");
    if (rc)
        return ll_fail(err, rc, "the transaction has been claimed already");
    return 0;
}
