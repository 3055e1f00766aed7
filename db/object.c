/* SPDX-License-Identifier: BSD-2-Clause */
/* Object records: changes of extensions' objects in memory, logged without a page. */
#include "db/db_private.h"

/* Has lladd_log_object_credit reserved at least this? Then nothing has to wait. A transaction that
 * has not logged yet has credit only from such a call, which has also set space aside for the next
 * checkpoints. */
static bool has_credit(const struct lladd_txn *txn, const struct ll_name *n, size_t undo_len,
                       size_t bytes, uint64_t undo)
{
    uint64_t base = txn->id.v ? 0 : ll_undo_need_base();
    return lladd_atomic_load32(&n->number) && !lladd_atomic_load32(&n->log_again) &&
           txn->credit.bytes >= bytes &&
           (txn->rolling_back ||
            (txn->undo_spare >= undo + base && txn->undo_copy_size >= undo_len));
}

/* Checks the lengths, and reserves what the record needs. *undo gets the space for its undo. */
static int reserve(struct lladd_txn *txn, const struct lladd_object_class *cls, size_t redo_len,
                   size_t undo_len, struct ll_name **name, uint64_t *undo)
{
    struct ll_core *core = txn->core;
    struct ll_name *n = *name = ll_op_catalog_by_desc(core, LL_NAME_CLASS, cls);
    if (!n)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "the class of objects is not registered");
    if (!cls->undo && undo_len)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "class \"%s\" has no undo", cls->name);
    size_t most = ll_log_record_max(core->log);
    if (redo_len > most || undo_len > most || ll_record_bound(redo_len, undo_len) > most)
        return ll_fail(&txn->err, LLADD_TOO_LARGE,
                       "the record has %zu and %zu bytes; a quarter of log_ring_bytes, %zu, is the "
                       "most",
                       redo_len, undo_len, most);
    *undo = cls->undo ? ll_record_bound(0, undo_len) : 0;
    size_t bytes = ll_record_bound(redo_len, undo_len);
    if (has_credit(txn, n, undo_len, bytes, *undo)) {
        ll_log_credit_in_hand(&txn->credit);
        return 0;
    }
    int rc = ll_op_catalog_number(core, n, &txn->err);
    if (!rc && lladd_atomic_load32(&n->log_again))
        rc = ll_op_catalog_log_again(core, n, &txn->err);
    if (!rc)
        rc = ll_core_want_copy(txn, undo_len);
    return rc ? rc : ll_core_reserve_plain(txn, bytes, *undo);
}

int lladd_log_object_credit(struct lladd_txn *txn, const struct lladd_object_class *cls,
                            size_t redo_len, size_t undo_len)
{
    LL_USE(txn);
    struct ll_name *name;
    uint64_t undo;
    int rc = ll_txn_enter_unlatched(txn, "lladd_log_object_credit");
    return rc ? rc : reserve(txn, cls, redo_len, undo_len, &name, &undo);
}

int lladd_log_object(struct lladd_txn *txn, const struct lladd_object_class *cls, uint64_t object,
                     struct lladd_span redo, struct lladd_span undo, struct lladd_token *token,
                     lladd_lsn *lsn)
{
    LL_USE(txn);
    struct ll_name *name;
    uint64_t need;
    int rc = ll_txn_enter_unlatched(txn, "lladd_log_object");
    if (rc)
        return rc;
    if (!token)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "the token is NULL");
    if (object >= LL_PAGE_END)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "object %llu: the largest number is 2^48 - 2",
                       (unsigned long long)object);
    rc = reserve(txn, cls, redo.len, undo.len, &name, &need);
    if (rc)
        return rc;
    struct ll_record rec = {
        .kind = LL_REC_OBJECT, .op = name->number, .page = object, .redo = redo, .undo = undo};
    ll_core_use_undo(txn, need);
    lladd_atomic_store64_relaxed(&txn->busy, txn->last.v | 1);
    ll_txn_append(txn, &rec, NULL);
    lladd_atomic_store64(&txn->busy, rec.lsn.v);
    token->private_[0] = rec.lsn.v;
    ll_observe(LLADD_DST_APPLY, txn, name, &rec);
    ll_core_rest(txn);
    if (lsn)
        *lsn = rec.lsn;
    return 0;
}

void lladd_object_applied(struct lladd_txn *txn, struct lladd_token *token)
{
    if (lladd_atomic_load64(&txn->busy) == token->private_[0])
        lladd_atomic_store64(&txn->busy, UINT64_MAX);
    token->private_[0] = 0;
}

size_t lladd_log_object_max(struct lladd_db *db)
{
    return ll_log_record_max(db->core.log) - ll_record_bound(0, 0);
}

int lladd_log_force(struct lladd_db *db, lladd_lsn lsn, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    return rc ? rc : ll_log_force(db->core.log, lsn, err);
}

bool lladd_log_force_soon(struct lladd_db *db)
{
    return ll_log_force_soon(db->core.log);
}

lladd_lsn lladd_object_applied_lsn(struct lladd_db *db)
{
    return ll_txns_applied(&db->core);
}
