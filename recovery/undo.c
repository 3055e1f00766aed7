/* SPDX-License-Identifier: BSD-2-Clause */
/* Undo: undoes one record at a time, newest first. Each step logs a compensation record.
 *
 *   UPDATE, page undo      log a CLR and apply the undo bytes to the page; go on at `prev`
 *   UPDATE, logical undo   run `compensate`, one level deeper; log CLR_END; go on at `prev`
 *   UNDO_ONLY              the same as for a logical undo (LLADD paper, section 2.4)
 *   ACTION_END             if the action has a logical undo, run it and log CLR_END; go on where
 *                          the action began
 *   OBJECT                 log OBJECT_CLR, run the undo, if the class has an undo; go on at `prev`
 *   CLR, CLR_END, OBJECT_CLR  go on at undo_next: an undo is never undone (OP-5)
 *   redo-only and the rest    go on at `prev`
 *
 * The records of a compensation that a crash interrupted are one level deeper. Recovery undoes them
 * first; then the compensation runs again (OP-5). ll_rollback rolls back one transaction; recovery
 * runs the same steps for all losers at once, deepest level first (REC-5).
 *
 * A step that fails leaves a transaction partly rolled back, so it poisons the database (REC-3);
 * the next open repeats the step. */
#include "recovery/core.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

#define FRAME_TRIES 100000

/* For the error message. Names an operation if a compensation of the operation has written more log
 * than the operation declares. Such a compensation uses undo reserve of other records, so that
 * another compensation may find no space. */
static void name_overdrawn(const struct ll_core *core, char *out, size_t size)
{
    *out = '\0';
    for (size_t i = 0; i < core->cat.n_ids; i++) {
        const struct ll_name *n = core->cat.ids[i];
        const struct lladd_op *op = n->desc;
        uint64_t most = lladd_atomic_load64(&n->undo_log_most);
        if (op->undo_kind == LLADD_UNDO_LOGICAL && most > op->undo_log_max)
            (void)snprintf(out, size,
                           " (undo_log_max of \"%s\" is %u, its compensate has written %llu bytes)",
                           n->name, op->undo_log_max, (unsigned long long)most);
    }
}

static int undo_failed(struct lladd_txn *txn, const struct ll_record *rec, int rc)
{
    struct lladd_error why = txn->err;
    const struct ll_name *n = ll_op_catalog_by_number(txn->core, rec->op);
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED && ll_core_check(txn->core, NULL))
        return rc;
    char guilty[160];
    name_overdrawn(txn->core, guilty, sizeof guilty);
    /* If a callback has returned a code without a message, txn->err is an older error. */
    const char *reason = why.code == rc && why.message[0] ? why.message : lladd_code_text(rc);
    ll_fail_lsn(&txn->err, LLADD_UNDO_FAILED, rec->lsn,
                "transaction %llu cannot be rolled back: LSN %llu, operation \"%s\"%s: %.120s",
                (unsigned long long)txn->id.v, (unsigned long long)rec->lsn.v,
                n ? n->name : "unknown", guilty, reason);
    txn->err.page = why.page;
    txn->err.sys_errno = why.sys_errno;
    return ll_poison_set(txn->core->poison, LLADD_UNDO_FAILED, &txn->err, NULL);
}

static int step_credit(struct lladd_txn *txn, size_t bytes)
{
    return ll_log_credit_reserved(txn->core->log, &txn->credit, bytes, &txn->err);
}

static uint64_t no_longer_needed(const struct lladd_txn *txn, const struct ll_record *rec)
{
    uint64_t need = ll_undo_need(txn->core, rec);
    return need < txn->undo_used ? need : txn->undo_used;
}

static void step_done(struct lladd_txn *txn, const struct ll_record *rec)
{
    uint64_t need = no_longer_needed(txn, rec);
    /* Other threads, too, see this change only after the append of the compensation record
     * (ll_txn_values). */
    lladd_atomic_store64(&txn->undo_used, txn->undo_used - need);
    ll_log_undo_release(txn->core->log, need);
}

static int fix_for_undo(struct lladd_txn *txn, uint64_t page, struct ll_frame **f)
{
    int rc = LLADD_NO_FRAME;
    for (int i = 0; i < FRAME_TRIES && rc == LLADD_NO_FRAME; i++) {
        rc = ll_buffer_fix(txn->core->buffer, lladd_page_of(page), LL_FIX_EXCLUSIVE, f, &txn->err);
        if (rc == LLADD_NO_FRAME)
            lladd_yield(); /* other threads have fixed every frame */
    }
    return rc;
}

/* If the page has no base, its newest write must be durable before the page changes, as in
 * ll_core_update (BUF-5). */
static int fix_durable(struct lladd_txn *txn, uint64_t page, struct ll_frame **f)
{
    int rc = fix_for_undo(txn, page, f);
    if (LL_LIKELY(rc || ll_page_base((*f)->page.bytes).v != 0))
        return rc;
    ll_buffer_unfix(txn->core->buffer, *f, LL_FIX_EXCLUSIVE);
    rc = ll_buffer_sync(txn->core->buffer, &txn->err);
    return rc ? rc : fix_for_undo(txn, page, f);
}

static int undo_page(struct lladd_txn *txn, struct ll_name *name, const struct ll_record *rec)
{
    const struct lladd_op *op = name->desc;
    struct ll_frame *f;
    int rc = step_credit(txn, ll_record_bound(0, rec->undo.len));
    if (!rc)
        rc = fix_durable(txn, rec->page, &f);
    if (rc)
        return rc;
    LLADD_HELD(1);
    if (!op->undo ||
        (op->validate && !op->validate(ll_view_of(&f->page), LLADD_SPAN_UNDO, rec->undo)))
        rc = ll_fail_lsn(&txn->err, LLADD_BAD_RECORD, rec->lsn,
                         "LSN %llu: undo bytes of \"%s\" do not fit page %llu",
                         (unsigned long long)rec->lsn.v, op->name, (unsigned long long)rec->page);
    else
        ll_core_apply_undo(txn, name, f, rec);
    LLADD_HELD(-1);
    ll_buffer_unfix(txn->core->buffer, f, LL_FIX_EXCLUSIVE);
    if (!rc)
        ll_observe(LLADD_DST_UNDO, txn, name, rec);
    return rc;
}

/* Reports to the simulator that a compensation has used more than its operation declares. */
static void tell_used(const struct lladd_txn *txn, const struct lladd_op *op,
                      const struct ll_record *rec, enum lladd_dst_what what, uint64_t used,
                      uint64_t most)
{
    LLADD_OBSERVE(.what = what, .op = op->name, .op_version = op->version, .lsn = rec->lsn,
                  .txn = txn->id, .depth = txn->depth, .detail = used, .page = most);
}

/* NULL: not simulated. */
static struct lladd_dst *simulation(void)
{
#ifdef LLADD_DST
    return lladd_dst_entered;
#else
    return NULL;
#endif
}

static void held_begin(uint32_t *before)
{
    struct lladd_dst *d = simulation();
    *before = 0;
    if (d) {
        *before = d->held_most;
        d->held_most = d->held;
    }
}

/* The maximum number of pages that were fixed together; 0 if not known. */
static uint32_t held_end(uint32_t before)
{
    struct lladd_dst *d = simulation();
    uint32_t pages = d && !d->fibers ? d->held_most - d->held : 0;
    if (d && before > d->held_most)
        d->held_most = before;
    return pages;
}

/* The caller then appends a CLR_END. */
static int run_compensate(struct lladd_txn *txn, struct ll_name *name, const struct ll_record *rec)
{
    const struct lladd_op *op = name->desc;
    size_t actions = txn->n_actions, savepoints = txn->n_savepoints;
    uint64_t before = txn->rolled;
    uint32_t held;
    txn->depth++;
    held_begin(&held);
    LLADD_CALLING("compensate", op->name, LLADD_NO_PAGE);
    int rc = op->compensate(op->ctx, txn, rec->undo);
    LLADD_CALLED();
    uint32_t pages = held_end(held);
    txn->depth--;
    lladd_atomic_max64(&name->undo_log_most, txn->rolled - before);
    if (txn->rolled - before > op->undo_log_max)
        tell_used(txn, op, rec, LLADD_DST_UNDO_LOG, txn->rolled - before, op->undo_log_max);
    if (pages > op->undo_pages_max)
        tell_used(txn, op, rec, LLADD_DST_UNDO_PAGES, pages, op->undo_pages_max);
    if (!rc && txn->n_actions != actions)
        rc = ll_fail(&txn->err, LLADD_OPEN_ACTION, "compensate of \"%s\" left a top action open",
                     op->name);
    txn->n_actions = actions;
    txn->n_savepoints = savepoints < txn->n_savepoints ? savepoints : txn->n_savepoints;
    return rc;
}

static unsigned char *free_copy(struct lladd_txn *txn)
{
    return txn->undo_copy ? txn->undo_copy + txn->undo_copy_used : NULL;
}

/* `inside`: this undo is part of another compensation; the undo reserve stays until the other
 * compensation ends. */
static int undo_logical(struct lladd_txn *txn, struct ll_name *name, const struct ll_record *rec,
                        bool inside, lladd_lsn undo_next)
{
    const struct lladd_op *op = name->desc;
    struct ll_core *core = txn->core;
    struct ll_record redo_bytes = *rec; /* the spans are valid until the cursor's next read */
    size_t len = rec->undo.len;
    bool own = txn->undo_copy_size - txn->undo_copy_used < len;
    unsigned char *copy = own ? ll_alloc(&core->env, len) : free_copy(txn);
    if (!copy && len)
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for an undo");
    if (len && copy != rec->undo.data)
        memcpy(copy, rec->undo.data, len);
    redo_bytes.undo.data = copy;
    struct lladd_view nothing = {NULL, core->page_size, 0, {LLADD_NO_PAGE}};
    int rc = 0;
    if (!op->compensate ||
        (op->validate && !op->validate(nothing, LLADD_SPAN_UNDO, redo_bytes.undo)))
        rc = ll_fail_lsn(&txn->err, LLADD_BAD_RECORD, rec->lsn,
                         "LSN %llu: invalid undo bytes of \"%s\"", (unsigned long long)rec->lsn.v,
                         op->name);
    txn->undo_copy_used += own ? 0 : len;
    if (!rc)
        ll_observe(LLADD_DST_COMPENSATE_BEGIN, txn, name, rec);
    if (!rc)
        rc = run_compensate(txn, name, &redo_bytes);
    txn->undo_copy_used -= own ? 0 : len;
    if (own)
        ll_free(&core->env, copy);
    if (!rc)
        rc = step_credit(txn, ll_record_bound(LL_CLR_END_BYTES, 0));
    if (rc)
        return rc;
    unsigned char left[LL_CLR_END_BYTES];
    lladd_put64(left, txn->undo_used - (inside ? 0 : no_longer_needed(txn, rec)));
    struct ll_record end = {.kind = LL_REC_CLR_END,
                            .page = LLADD_NO_PAGE,
                            .op = name->number,
                            .undo_next = undo_next,
                            .redo = lladd_span_of(left, sizeof left)};
    if (LLADD_PLANTED(LLADD_BUG_CLR_END))
        end.undo_next = rec->lsn;
    ll_txn_append(txn, &end, &undo_next);
    ll_observe(LLADD_DST_COMPENSATE_END, txn, name, rec);
    return 0;
}

static int undo_object(struct lladd_txn *txn, struct ll_name *name, const struct ll_record *rec)
{
    const struct lladd_object_class *cls = name->desc;
    uint64_t object = rec->page;
    if (!cls->undo) {
        ll_txn_set_lsn(&txn->undo_next, rec->prev);
        return 0;
    }
    int rc = step_credit(txn, ll_record_bound(0, rec->undo.len));
    if (rc)
        return rc;
    struct ll_record clr = {.kind = LL_REC_OBJECT_CLR,
                            .page = object,
                            .op = name->number,
                            .undo_next = rec->prev,
                            .undo = rec->undo};
    lladd_atomic_store64_relaxed(&txn->busy, txn->last.v | 1);
    ll_txn_append(txn, &clr, &clr.undo_next);
    rc = cls->undo(cls->ctx, txn->core->db, txn, clr.lsn, object, rec->undo);
    if (rc)
        return rc; /* the change was not made, so it must not count as applied before the poison */
    lladd_atomic_store64(&txn->busy, UINT64_MAX);
    ll_observe(LLADD_DST_UNDO, txn, name, rec);
    return 0;
}

static bool is_compensation(unsigned kind)
{
    return kind == LL_REC_CLR || kind == LL_REC_CLR_END || kind == LL_REC_OBJECT_CLR;
}

bool ll_rollback_needs(const struct ll_record *rec)
{
    if (rec->kind == LL_REC_UPDATE)
        return rec->flags & (LL_REC_UNDO_PAGE | LL_REC_UNDO_LOGICAL);
    return rec->kind == LL_REC_UNDO_ONLY || (rec->kind == LL_REC_ACTION_END && rec->op != 0) ||
           rec->kind == LL_REC_OBJECT;
}

/* The records between this record and its undo_next are undone before or together with this
 * record. */
bool ll_rollback_passes_over(const struct ll_record *rec)
{
    return (is_compensation(rec->kind) && !LLADD_PLANTED(LLADD_BUG_UNDO_NEXT)) ||
           rec->kind == LL_REC_ACTION_END;
}

int ll_rollback_peek(struct lladd_txn *txn, lladd_lsn stop, struct ll_record *rec,
                     struct lladd_error *err)
{
    /* Without records to undo no cursor is needed, and the spare cursor may not exist yet. */
    int rc = txn->undo_next.v > stop.v ? ll_txn_want_cursor(txn) : 0;
    while (!rc && txn->undo_next.v > stop.v) {
        lladd_lsn at = txn->undo_next;
        rc = ll_log_cursor_need(txn->cursor, at, rec, &txn->err);
        if (rc)
            break;
        if (rec->txn.v != txn->id.v || rec->prev.v >= at.v || rec->undo_next.v >= at.v) {
            rc = ll_fail_lsn(&txn->err, LLADD_CORRUPT_LOG, at,
                             "the record at LSN %llu is not of transaction %llu",
                             (unsigned long long)at.v, (unsigned long long)txn->id.v);
            break;
        }
        if (ll_rollback_needs(rec))
            return 0;
        ll_txn_set_lsn(&txn->undo_next, ll_rollback_passes_over(rec) ? rec->undo_next : rec->prev);
    }
    if (rc && err && err != &txn->err)
        *err = txn->err;
    return rc ? rc : LLADD_END;
}

int ll_rollback_step(struct lladd_txn *txn, const struct ll_record *rec)
{
    struct ll_record r = *rec;
    struct ll_name *name = ll_op_catalog_by_number(txn->core, r.op);
    bool was = txn->rolling_back;
    int rc;
    if (!name || !name->desc)
        rc = ll_fail_lsn(&txn->err, LLADD_NO_OPERATION, r.lsn,
                         "operation \"%s\" version %u is not registered", name ? name->name : "?",
                         name ? name->version : 0);
    else {
        uint32_t depth = txn->depth;
        txn->rolling_back = true;
        txn->depth = r.depth;
        if (r.kind == LL_REC_OBJECT)
            rc = undo_object(txn, name, &r);
        else if (r.kind == LL_REC_UPDATE && (r.flags & LL_REC_UNDO_PAGE))
            rc = undo_page(txn, name, &r);
        else
            rc = undo_logical(txn, name, &r, was,
                              r.kind == LL_REC_ACTION_END ? r.undo_next : r.prev);
        txn->depth = depth;
        txn->rolling_back = was;
    }
    /* The credit becomes idle: the next step may belong to another transaction, or may wait. */
    ll_log_credit_trim(txn->core->log, &txn->credit);
    if (rc)
        return undo_failed(txn, &r, rc);
    /* The records of a compensation have no undo reserve of their own: the reserve that the
     * operation declares covers these records. */
    if (!was)
        step_done(txn, &r);
    return 0;
}

/* Without memory a rollback reads its next record with the spare cursor. It releases the cursor
 * before the step, because a compensation may wait for latches of other threads that need the
 * cursor. */
static int peek_with_spare(struct lladd_txn *txn, lladd_lsn stop, struct ll_record *rec)
{
    struct ll_txn_table *t = &txn->core->txns;
    struct ll_log_cursor *own = txn->cursor;
    lladd_mutex_lock(&t->spare_mutex);
    txn->cursor = t->spare_cursor;
    int rc = t->spare_cursor ? ll_rollback_peek(txn, stop, rec, &txn->err) : LLADD_NO_MEMORY;
    txn->cursor = own;
    if (!rc && txn->undo_copy_size - txn->undo_copy_used < rec->undo.len)
        rc = ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for an undo");
    if (!rc && rec->undo.len) {
        memcpy(free_copy(txn), rec->undo.data, rec->undo.len);
        rec->undo.data = free_copy(txn);
    }
    lladd_mutex_unlock(&t->spare_mutex);
    return rc;
}

/* ---- prefetch of pages -------------------------------------------------------------------- */

/* A long rollback changes pages that are no longer in the processor's caches, so each step would
 * wait for its page. A rollback of more than PREFETCH_AFTER records therefore prefetches the pages
 * of the next records. */
#define PREFETCH_AFTER 16u
#define PREFETCH_MOST 8u

struct prefetch {
    lladd_lsn next;      /* LSN of the next record to read ahead */
    unsigned done, seen; /* records undone; records undone or read ahead */
};

/* A record that cannot be read ends the prefetch; its undo will report the error. */
static void prefetch_pages(struct lladd_txn *txn, lladd_lsn stop, struct prefetch *a)
{
    if (a->done++ < PREFETCH_AFTER || !txn->cursor)
        return;
    if (a->seen < a->done || a->next.v > txn->undo_next.v) {
        a->seen = a->done;
        a->next = txn->undo_next;
    }
    struct ll_record rec;
    /* Reads two records for each record undone, so that the distance grows to PREFETCH_MOST. */
    for (int i = 0; i < 2 && a->seen - a->done < PREFETCH_MOST && a->next.v > stop.v; i++) {
        if (ll_log_cursor_read(txn->cursor, a->next, &rec, NULL) != 0 || rec.prev.v >= rec.lsn.v ||
            rec.undo_next.v >= rec.lsn.v)
            return;
        /* A logical undo usually changes the page that the update changed. */
        if (rec.kind == LL_REC_UPDATE)
            ll_core_expect(txn->core, &rec,
                           rec.flags & LL_REC_UNDO_PAGE ? rec.undo : rec.redo);
        a->seen += ll_rollback_needs(&rec);
        a->next = ll_rollback_passes_over(&rec) ? rec.undo_next : rec.prev;
    }
}

int ll_rollback(struct lladd_txn *txn, lladd_lsn stop)
{
    struct ll_record rec = {0};
    struct prefetch prefetch = {{0}, 0, 0};
    int rc;
    ll_redo_barrier_disown(txn->core, txn->id, stop);
    do {
        prefetch_pages(txn, stop, &prefetch);
        rc = ll_rollback_peek(txn, stop, &rec, &txn->err);
        if (rc == LLADD_NO_MEMORY)
            rc = peek_with_spare(txn, stop, &rec);
        if (!rc)
            rc = ll_rollback_step(txn, &rec);
    } while (!rc);
    if (rc == LLADD_END)
        return 0;
    rec.lsn = txn->undo_next;
    rec.op = 0;
    return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : undo_failed(txn, &rec, rc);
}
