/* SPDX-License-Identifier: BSD-2-Clause */
/* What extensions need beyond pages (DESIGN 2a): object records, snapshots, pins, bulk writing. */
#include "db/db_private.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/snapshot.h>
#include <string.h>

/* An object's number is stored in the record's page field; all ones mean none. */
#define OBJECT_MAX ((1ull << 48) - 1)

/* ---- object records ---------------------------------------------------------------------- */

int lladd_log_object(struct lladd_txn *txn, const struct lladd_object_class *cls, uint64_t object,
                     struct lladd_span redo, struct lladd_span undo, struct lladd_token *token,
                     lladd_lsn *lsn)
{
    LL_USE(txn);
    int rc = ll_txn_enter_unlatched(txn, "lladd_log_object");
    if (rc)
        return rc;
    struct ll_core *core = txn->core;
    struct ll_name *name = ll_op_catalog_by_desc(core, LL_NAME_CLASS, cls);
    if (!name || !token)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "the class is not registered, or no token");
    if (object >= OBJECT_MAX)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "object %llu: objects count up to 2^48 - 2",
                       (unsigned long long)object);
    if (!cls->undo && undo.len)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "class \"%s\" has no undo", cls->name);
    if (ll_record_bound(redo.len, undo.len) > ll_log_record_max(core->log))
        return ll_fail(&txn->err, LLADD_TOO_LARGE,
                       "a record of %zu bytes; a quarter of log_ring_bytes, %zu, is the most",
                       redo.len + undo.len, ll_log_record_max(core->log));
    uint64_t need = cls->undo ? ll_record_bound(0, undo.len) : 0;
    rc = ll_op_catalog_number(core, name, &txn->err);
    if (!rc)
        rc = ll_core_want_copy(txn, undo.len);
    if (!rc)
        rc = ll_core_reserve_plain(txn, ll_record_bound(redo.len, undo.len), need);
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
    ll_log_credit_trim(core->log, &txn->credit);
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

lladd_lsn lladd_durable_lsn(struct lladd_db *db)
{
    return ll_log_durable(db->core.log);
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

/* ---- snapshots --------------------------------------------------------------------------- */

int lladd_snapshot_acquire(struct lladd_db *db, lladd_lsn *out, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->misc);
    if (core->n_snapshots == core->cap_snapshots) {
        size_t cap = core->cap_snapshots ? core->cap_snapshots * 2 : 8;
        struct ll_snapshot *p = ll_resize(&core->env, core->snapshots, cap * sizeof *p);
        if (!p) {
            lladd_mutex_unlock(&core->misc);
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a snapshot");
        }
        core->snapshots = p;
        core->cap_snapshots = cap;
    }
    /* `visible` advances under the commit mutex, after the participants' `logged` callbacks: all
     * commits up to the value read here are visible (DESIGN 2a). `visible` never decreases, so the
     * list stays sorted. */
    uint64_t lsn = lladd_atomic_load64(&core->txns.visible);
    if (core->n_snapshots && core->snapshots[core->n_snapshots - 1].lsn == lsn) {
        core->snapshots[core->n_snapshots - 1].count++;
    } else {
        core->snapshots[core->n_snapshots].lsn = lsn;
        core->snapshots[core->n_snapshots++].count = 1;
    }
    lladd_mutex_unlock(&core->misc);
    *out = lladd_lsn_of(lsn);
    return 0;
}

int lladd_snapshot_release(struct lladd_db *db, lladd_lsn lsn)
{
    struct ll_core *core = &db->core;
    int rc = LLADD_BAD_ARGUMENT;
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; i < core->n_snapshots; i++) {
        if (core->snapshots[i].lsn != lsn.v)
            continue;
        rc = 0;
        if (--core->snapshots[i].count == 0) {
            core->n_snapshots--;
            memmove(&core->snapshots[i], &core->snapshots[i + 1],
                    (core->n_snapshots - i) * sizeof core->snapshots[0]);
        }
        break;
    }
    lladd_mutex_unlock(&core->misc);
    return rc;
}

lladd_lsn lladd_snapshot_oldest(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    lladd_mutex_lock(&core->misc);
    uint64_t lsn =
        core->n_snapshots ? core->snapshots[0].lsn : lladd_atomic_load64(&core->txns.visible);
    lladd_mutex_unlock(&core->misc);
    return lladd_lsn_of(lsn);
}

/* ---- pins -------------------------------------------------------------------------------- */

static int check_pin(const char *name, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    return len == 0 || len > 63 ? ll_fail(err, LLADD_BAD_ARGUMENT, "a pin's name has 1 to 63 bytes")
                                : 0;
}

/* Called with the checkpoint mutex: a checkpoint either has the pin in its table or has truncated
 * the log before the pin is set. */
static int log_pin(struct ll_core *core, const char *name, lladd_lsn lsn, struct lladd_error *err)
{
    unsigned char bytes[8 + 64];
    size_t len = strlen(name);
    lladd_put64(bytes, lsn.v);
    memcpy(bytes + 8, name, len);
    struct ll_record rec = {
        .kind = LL_REC_PIN, .page = LLADD_NO_PAGE, .redo = lladd_span_of(bytes, 8 + len)};
    int rc = lsn.v ? ll_core_append(core, &rec, err) : ll_core_append_aside(core, &rec, err);
    return rc ? rc : ll_log_force(core->log, rec.lsn, err);
}

/* Reserves the log space that one more pin takes in checkpoints, and for the record that clears
 * it. */
static int want_space(struct ll_core *core, struct lladd_error *err)
{
    int rc = ll_core_mark(core, err);
    return rc ? rc : ll_core_set_aside(core, true, err);
}

/* lsn 0 clears the pin. A change that cannot be logged is undone in memory. */
static int change_pin(struct ll_core *core, const char *name, lladd_lsn lsn,
                      struct lladd_error *err)
{
    lladd_lsn before = ll_pin_get(core, name);
    int rc = ll_pin_put(core, name, lsn, err);
    if (rc)
        return rc;
    if (lsn.v)
        rc = want_space(core, err);
    if (!rc)
        rc = log_pin(core, name, lsn, err);
    if (rc)
        (void)ll_pin_put(core, name, before, NULL); /* cannot fail: the table had room for it */
    return rc;
}

int lladd_pin_set(struct lladd_db *db, const char *name, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_may_checkpoint(db, err, "lladd_pin_set");
    if (!rc)
        rc = check_pin(name, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->checkpointing);
    if (lsn.v < ll_log_oldest(core->log).v || lsn.v > ll_log_tail(core->log).v)
        rc = ll_fail_lsn(err, LLADD_OUT_OF_RANGE, lsn, "LSN %llu is not in the log (%llu to %llu)",
                         (unsigned long long)lsn.v, (unsigned long long)ll_log_oldest(core->log).v,
                         (unsigned long long)ll_log_tail(core->log).v);
    if (!rc)
        rc = change_pin(core, name, lsn, err);
    lladd_mutex_unlock(&core->checkpointing);
    return rc;
}

int lladd_pin_clear(struct lladd_db *db, const char *name, struct lladd_error *err)
{
    struct ll_core *core = &db->core;
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_may_checkpoint(db, err, "lladd_pin_clear");
    if (!rc)
        rc = check_pin(name, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&core->checkpointing);
    rc = change_pin(core, name, lladd_lsn_of(0), err);
    lladd_mutex_unlock(&core->checkpointing);
    return rc;
}

int lladd_log_pinner(struct lladd_db *db, struct lladd_pinner *out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    return rc ? rc : ll_core_pinner(&db->core, out, err);
}

/* ---- bulk writing (DESIGN 9, BUF-6) ------------------------------------------------------ */

static int check_range(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    if (n == 0 || first.v == 0 || first.v >= (1ull << 48) || n > (1ull << 48) - first.v)
        return ll_fail_page(&txn->err, LLADD_OUT_OF_RANGE, first,
                            "pages %llu to %llu: no such pages", (unsigned long long)first.v,
                            (unsigned long long)(first.v + n - 1));
    return 0;
}

int lladd_redo_barrier(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    LL_USE(txn);
    int rc = ll_txn_enter_unlatched(txn, "lladd_redo_barrier");
    if (!rc)
        rc = check_range(txn, first, n);
    if (!rc)
        rc = ll_core_reserve_plain(txn, ll_record_bound(16, 0), 0);
    if (rc)
        return rc;
    struct ll_core *core = txn->core;
    /* Cached copies of the pages must not be written over the new contents. */
    ll_instant_forget(core, first, n);
    rc = ll_buffer_drop(core->buffer, first, n);
    if (rc) {
        ll_log_credit_trim(core->log, &txn->credit);
        return ll_fail_page(&txn->err, rc, first, "a page of the extent is in use");
    }
    unsigned char bytes[16];
    lladd_put64(bytes, first.v);
    lladd_put64(bytes + 8, n);
    struct ll_record rec = {.kind = LL_REC_REDO_BARRIER,
                            .page = LLADD_NO_PAGE,
                            .redo = lladd_span_of(bytes, sizeof bytes)};
    /* Atomic for a checkpoint: either its table has the barrier or the record comes after its
     * first. Appending does not wait. */
    lladd_mutex_lock(&core->misc);
    rc = ll_redo_barrier_room(core, first.v, n, &txn->err);
    if (!rc) {
        ll_txn_append(txn, &rec, NULL);
        ll_redo_barrier_put(core, first.v, n, rec.lsn);
    }
    lladd_mutex_unlock(&core->misc);
    ll_log_credit_trim(core->log, &txn->credit);
    return rc;
}

/* Logs the barrier again if a page has none: a checkpoint may have dropped a barrier that was older
 * than redo's start. */
static int want_barrier(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (ll_redo_barrier_of_locked(txn->core, first.v + i).v == 0)
            return lladd_redo_barrier(txn, first, n);
    return 0;
}

/* Raw pages have no LSN for the buffer's WAL check (BUF-1), so the barrier is forced here. Without
 * that, redo could apply older records to the new contents: a transaction that freed the pages in a
 * closed top action, and was rolled back, has not waited for the log. */
static int force_barriers(struct lladd_txn *txn, lladd_pageno first, uint64_t n)
{
    lladd_lsn newest = {0};
    for (uint64_t i = 0; i < n; i++) {
        lladd_lsn lsn = ll_redo_barrier_of_locked(txn->core, first.v + i);
        newest = lsn.v > newest.v ? lsn : newest;
    }
    return ll_log_force(txn->core->log, newest, &txn->err);
}

int lladd_bulk_write(struct lladd_txn *txn, lladd_pageno first, uint64_t n, const char *page_type,
                     void *bytes)
{
    LL_USE(txn);
    struct ll_core *core = txn->core;
    struct ll_name *type = NULL;
    int rc = ll_txn_enter_unlatched(txn, "lladd_bulk_write");
    if (!rc)
        rc = check_range(txn, first, n);
    if (!rc && page_type) {
        type = ll_op_catalog_find(core, LL_NAME_PAGE_TYPE, page_type, 0);
        rc = type ? ll_op_catalog_number(core, type, &txn->err)
                  : ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "page type \"%s\" is not registered",
                            page_type);
    }
    if (rc)
        return rc;
    rc = want_barrier(txn, first, n);
    if (rc)
        return rc;
    for (uint64_t i = 0; type && i < n; i++) {
        unsigned char *p = (unsigned char *)bytes + i * core->page_size;
        memset(p, 0, LLADD_PAGE_HEADER);
        ll_page_set_type(p, (uint16_t)type->number);
        ll_page_set_number(p, first.v + i);
        ll_page_set_lsn(
            p, ll_redo_barrier_of_locked(
                   core, first.v + i)); /* base 0: the first logged change takes an image */
    }
    if (!type)
        rc = force_barriers(txn, first, n);
    if (!rc)
        rc = ll_instant_settle(core, first, n, &txn->err);
    return rc ? rc
              : ll_buffer_bulk_write(core->buffer, first, n, bytes, type != NULL, &txn->err);
}

int lladd_bulk_sync(struct lladd_txn *txn)
{
    LL_USE(txn);
    int rc = ll_txn_enter_unlatched(txn, "lladd_bulk_sync");
    if (LLADD_PLANTED(LLADD_BUG_BULK_SYNC))
        return rc;
    return rc ? rc : ll_buffer_sync(txn->core->buffer, &txn->err);
}

int lladd_bulk_read(struct lladd_db *db, lladd_pageno first, uint64_t n, bool raw, void *bytes,
                    struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_instant_settle(&db->core, first, n, err);
    return rc ? rc : ll_buffer_bulk_read(db->core.buffer, first, n, bytes, !raw, err);
}

int lladd_pages_extend(struct lladd_db *db, uint64_t pages, struct lladd_error *err)
{
    int rc = ll_core_check(&db->core, err);
    return rc ? rc : ll_buffer_extend(db->core.buffer, pages, err);
}

int lladd_pages_discard(struct lladd_db *db, lladd_pageno first, uint64_t n)
{
    int rc = ll_core_check(&db->core, NULL);
    if (rc)
        return rc;
    ll_instant_forget(&db->core, first, n);
    return ll_buffer_drop(db->core.buffer, first, n);
}
