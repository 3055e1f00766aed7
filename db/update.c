/* SPDX-License-Identifier: BSD-2-Clause */
/* The public calls for updates (Tupdate in the LLADD paper, section 2.2.2), nested top actions,
 * fixing pages, and records without a page. */
#include "db/db_private.h"

#include "operations/operations.h"

#include <lladd/bytes.h>
#include <string.h>

/* The registered operation, or LLADD_BAD_ARGUMENT. */
static int op_of(struct lladd_txn *txn, lladd_op_id op, struct ll_name **out)
{
    struct ll_op_catalog *cat = &txn->core->cat;
    if (LL_UNLIKELY(op >= cat->n_ids))
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "there is no operation with id %u", op);
    *out = cat->ids[op];
    return 0;
}

int lladd_op_lookup(struct lladd_db *db, const char *name, uint32_t version, lladd_op_id *out)
{
    struct ll_op_catalog *cat = &db->core.cat;
    for (size_t i = 0; i < cat->n_ids; i++) {
        if ((version == 0 || cat->ids[i]->version == version) &&
            strcmp(cat->ids[i]->name, name) == 0) {
            *out = (lladd_op_id)i;
            return 0;
        }
    }
    return LLADD_NOT_FOUND;
}

const struct lladd_op *lladd_op_descriptor(struct lladd_db *db, const char *name, uint32_t version)
{
    lladd_op_id id;
    return lladd_op_lookup(db, name, version, &id) ? NULL : db->core.cat.ids[id]->desc;
}

const struct lladd_page_type *lladd_page_type_descriptor(struct lladd_db *db, const char *name)
{
    struct ll_name *n = ll_op_catalog_find(&db->core, LL_NAME_PAGE_TYPE, name, 0);
    return n ? n->desc : NULL;
}

/* ---- pages ------------------------------------------------------------------------------- */

int lladd_page_fix(struct lladd_db *db, lladd_pageno page, enum lladd_latch latch,
                   struct lladd_page **out, struct lladd_error *err)
{
    struct ll_frame *f;
    int rc = ll_core_check(&db->core, err);
    if (LL_LIKELY(!rc))
        rc = ll_buffer_fix(db->core.buffer, page,
                           latch == LLADD_LATCH_EXCLUSIVE ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED, &f,
                           err);
    if (LL_LIKELY(!rc)) {
        ll_held_page(db);
        LLADD_HELD(1);
        *out = &f->page;
    }
    return rc;
}

void lladd_page_unfix(struct lladd_db *db, struct lladd_page *page, enum lladd_latch latch)
{
    ll_held_unpage(db);
    LLADD_HELD(-1);
    ll_buffer_unfix(db->core.buffer, ll_frame_of(page),
                    latch == LLADD_LATCH_EXCLUSIVE ? LL_FIX_EXCLUSIVE : LL_FIX_SHARED);
}

struct lladd_view lladd_page_view(const struct lladd_page *page)
{
    return ll_view_of(page);
}

uint64_t lladd_page_version(const struct lladd_page *page)
{
    return ll_page_lsn(page->bytes).v;
}

uint16_t lladd_page_type_number(struct lladd_db *db, const char *page_type)
{
    struct ll_name *n = ll_op_catalog_find(&db->core, LL_NAME_PAGE_TYPE, page_type, 0);
    return n ? (uint16_t)lladd_atomic_load32(&n->number) : 0;
}

bool lladd_page_is(struct lladd_db *db, struct lladd_view view, const char *page_type)
{
    struct ll_name *n = view.type ? ll_op_catalog_by_number(&db->core, view.type) : NULL;
    return n && n->kind == LL_NAME_PAGE_TYPE && strcmp(n->name, page_type) == 0;
}

void lladd_page_prefetch(struct lladd_db *db, lladd_pageno page, uint64_t n)
{
    ll_buffer_prefetch(db->core.buffer, page, n);
}

void lladd_prefetch_line(struct lladd_db *db, lladd_pageno page, uint32_t offset)
{
    ll_buffer_touch(db->core.buffer, page, LLADD_PAGE_HEADER + offset);
}

void lladd_prefetch_lines(struct lladd_db *db, lladd_pageno page, uint32_t offset, uint32_t len)
{
    ll_buffer_touch_span(db->core.buffer, page, LLADD_PAGE_HEADER + offset, len);
}

bool lladd_read_begin(struct lladd_db *db, lladd_pageno page, struct lladd_read *out)
{
    return LL_LIKELY(lladd_atomic_load32(&db->core.poison->healthy)) &&
           ll_buffer_read_begin(db->core.buffer, page, out);
}

bool lladd_read_validate(const struct lladd_read *g)
{
    return ll_buffer_read_valid(g);
}

/* ---- updates ----------------------------------------------------------------------------- */

static int check_page_op(struct lladd_txn *txn, const struct ll_name *name, lladd_pageno page)
{
    const struct lladd_op *op = name->desc;
    if (LL_UNLIKELY(!op->redo))
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "operation \"%s\" changes no page", op->name);
    if (LL_UNLIKELY(page.v >= LL_PAGE_END))
        return ll_fail_page(&txn->err, LLADD_OUT_OF_RANGE, page, "page %llu: no such page",
                            (unsigned long long)page.v);
    return 0;
}

int ll_db_refuse_held(struct lladd_error *err, const char *call)
{
    return ll_fail(err, LLADD_BAD_STATE,
                   "%s while the thread holds a page: unfix it first; several pages are changed "
                   "together with lladd_log_credit_all, lladd_page_fix and lladd_update_page",
                   call);
}

int ll_db_refuse_asked(struct lladd_error *err, const char *call)
{
    return ll_fail(err, LLADD_BAD_STATE,
                   "%s in a class's checkpoint callback: the call would wait for itself", call);
}

/* The hot path: inlined into each caller. */
static inline __attribute__((always_inline)) int update(struct lladd_txn *txn, lladd_op_id id,
                                                        lladd_pageno page, struct lladd_span args,
                                                        enum ll_apply_how how)
{
    struct ll_name *name = NULL;
    int rc = ll_txn_enter(txn);
    if (LL_LIKELY(!rc))
        rc = ll_db_no_page(ll_db_of(txn->core), &txn->err, "an update");
    if (!rc)
        rc = op_of(txn, id, &name);
    if (!rc)
        rc = check_page_op(txn, name, page);
    if (LL_LIKELY(!rc))
        rc = ll_core_update(txn, name, page, args, how);
    return LL_LIKELY(rc != LLADD_WRONG_TYPE)
               ? rc
               : ll_operations_untyped(ll_db_of(txn->core), page, rc, &txn->err);
}

int lladd_update(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page, const void *args,
                 size_t len)
{
    LL_USE(txn);
    return update(txn, op, page, lladd_span_of(args, len), LL_APPLY_NORMAL);
}

int lladd_log_redo_only(struct lladd_txn *txn, lladd_op_id op, lladd_pageno page, const void *args,
                        size_t len)
{
    LL_USE(txn);
    return update(txn, op, page, lladd_span_of(args, len), LL_APPLY_REDO_ONLY);
}

/* With lladd_dst.scarce, this function refuses more records than the operation's credit_max. The
 * smallest log buffer that lladd_open accepts could refuse such a request, too. */
static int check_credit_max(struct lladd_txn *txn, const struct ll_name *name, unsigned count)
{
    const struct lladd_op *op = name->desc;
    unsigned most = op->credit_max ? op->credit_max : 1;
    if (!LLADD_SCARCE() || count <= most)
        return 0;
    return ll_fail(&txn->err, LLADD_TOO_LARGE,
                   "operation \"%s\": log space for %u records at a time is requested, but its "
                   "credit_max is %u; the smallest log buffer has no space for more",
                   op->name, count, most);
}

int lladd_log_credit(struct lladd_txn *txn, lladd_op_id op, unsigned count)
{
    LL_USE(txn);
    struct ll_name *name = NULL;
    int rc = ll_txn_enter(txn);
    if (!rc)
        rc = op_of(txn, op, &name);
    if (rc)
        return rc;
    if (count == 0) {
        ll_core_rest(txn);
        return 0;
    }
    rc = ll_db_no_page(ll_db_of(txn->core), &txn->err, "lladd_log_credit");
    if (!rc)
        rc = check_credit_max(txn, name, count);
    txn->images = 0;
    return rc ? rc : ll_core_reserve_for(txn, name, count);
}

int lladd_log_credit_all(struct lladd_txn *txn, const struct lladd_log_need *needs, unsigned n)
{
    LL_USE(txn);
    struct ll_want wants[LLADD_LOG_NEEDS_MAX];
    int rc = ll_txn_enter(txn);
    if (!rc)
        rc = ll_db_no_page(ll_db_of(txn->core), &txn->err, "lladd_log_credit_all");
    if (!rc && n > LLADD_LOG_NEEDS_MAX)
        rc = ll_fail(&txn->err, LLADD_TOO_LARGE, "%u needs in one call; at most %u are possible", n,
                     LLADD_LOG_NEEDS_MAX);
    for (unsigned i = 0; i < n && !rc; i++) {
        wants[i] = (struct ll_want){NULL, needs[i].count, needs[i].op == LLADD_PAGE_IMAGE};
        if (needs[i].op == LLADD_NO_OP || wants[i].image)
            continue;
        rc = op_of(txn, needs[i].op, &wants[i].name);
        if (!rc)
            rc = check_credit_max(txn, wants[i].name, needs[i].count);
    }
    return rc ? rc : ll_core_reserve_all(txn, wants, n);
}

int lladd_update_page(struct lladd_txn *txn, lladd_op_id id, struct lladd_page *held,
                      const void *args, size_t len)
{
    LL_USE(txn);
    struct ll_name *name = NULL;
    int rc = ll_txn_enter(txn);
    if (!rc)
        rc = op_of(txn, id, &name);
    if (!rc)
        rc = check_page_op(txn, name, held->number);
    if (rc)
        return rc;
    const struct lladd_op *op = name->desc;
    struct ll_frame *f = ll_frame_of(held);
    if (LL_UNLIKELY(!ll_frame_exclusive(f)))
        return ll_fail_page(&txn->err, LLADD_BAD_STATE, held->number,
                            "operation \"%s\": page %llu is held shared; to change it, fix it with "
                            "LLADD_LATCH_EXCLUSIVE",
                            op->name, (unsigned long long)held->number.v);
    uint64_t undo = txn->rolling_back ? 0 : name->need_undo + (txn->id.v ? 0 : ll_undo_need_base());
    if (!lladd_atomic_load32(&name->number) || txn->undo_spare < undo ||
        txn->credit.bytes < name->need_credit || ll_core_want_scratch(txn, name->record_max))
        return ll_fail(&txn->err, LLADD_BAD_STATE,
                       "operation \"%s\": take log space with lladd_log_credit before latching",
                       op->name);
    if (!txn->rolling_back && ll_core_lacks_image(txn, name, f, true))
        return ll_fail_page(&txn->err, LLADD_BAD_STATE, held->number,
                            "operation \"%s\": page %llu was written in bulk; before latching, "
                            "take log space for its image (LLADD_PAGE_IMAGE), too",
                            op->name, (unsigned long long)held->number.v);
    return ll_core_update_held(txn, name, f, lladd_span_of(args, len));
}

/* ---- records without a page -------------------------------------------------------------- */

/* Gets credit for one record with this many redo and undo bytes, and for its undo. `name` NULL: the
 * record has no undo. A thread that holds a page must not wait for credit: it may only log a
 * record without undo, with credit that it already has. */
static int want_record(struct lladd_txn *txn, struct ll_name *name, size_t redo, size_t undo)
{
    const struct lladd_op *op = name ? name->desc : NULL;
    if (LL_UNLIKELY(ll_held_pages(ll_db_of(txn->core))) &&
        (op || txn->credit.bytes < ll_record_bound(redo, undo)))
        return ll_db_refuse_held(&txn->err, "a record without a page");
    if (ll_record_bound(redo, undo) > ll_log_record_max(txn->core->log))
        return ll_fail(&txn->err, LLADD_TOO_LARGE,
                       "the record has %zu bytes; a quarter of log_ring_bytes, %zu, is the most",
                       redo + undo, ll_log_record_max(txn->core->log));
    if (op)
        return undo > name->record_max
                   ? ll_fail(&txn->err, LLADD_TOO_LARGE,
                             "operation \"%s\": %zu undo bytes, its record_max is %zu", op->name,
                             undo, name->record_max)
                   : ll_core_reserve_for(txn, name, 1);
    return ll_core_reserve_plain(txn, ll_record_bound(redo, undo), 0);
}

/* In debug builds, checks the caller's undo bytes against the undo fields of the operation. */
static int check_undo_fields(struct lladd_txn *txn, const struct lladd_op *op,
                             struct lladd_span undo)
{
#ifdef LLADD_DEBUG
    struct lladd_sink nowhere = {.failed = LLADD_NO_SPACE}; /* discards the text */
    if (op->undo_fields && !lladd_fields_print(op->undo_fields, undo, &nowhere))
        return ll_fail(&txn->err, LLADD_BUG,
                       "operation \"%s\": undo_fields do not describe the %zu undo bytes exactly",
                       op->name, undo.len);
#else
    (void)txn, (void)op, (void)undo;
#endif
    return 0;
}

static int logical_op(struct lladd_txn *txn, lladd_op_id id, struct lladd_span undo,
                      struct ll_name **name)
{
    int rc = op_of(txn, id, name);
    if (rc)
        return rc;
    const struct lladd_op *op = (*name)->desc;
    if (op->undo_kind != LLADD_UNDO_LOGICAL)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "operation \"%s\" has no logical undo",
                       op->name);
    return check_undo_fields(txn, op, undo);
}

int lladd_log_undo_only(struct lladd_txn *txn, lladd_op_id id, const void *undo, size_t len)
{
    LL_USE(txn);
    struct ll_name *name = NULL;
    int rc = ll_txn_enter_unlatched(txn, "lladd_log_undo_only");
    if (!rc)
        rc = logical_op(txn, id, lladd_span_of(undo, len), &name);
    if (!rc)
        rc = want_record(txn, name, 0, len);
    if (rc)
        return rc;
    struct ll_record rec = {.kind = LL_REC_UNDO_ONLY,
                            .flags = LL_REC_UNDO_LOGICAL,
                            .op = name->number,
                            .page = LLADD_NO_PAGE,
                            .undo = lladd_span_of(undo, len)};
    ll_core_use_undo(txn, ll_undo_need_op(name->desc, len));
    ll_txn_append(txn, &rec, NULL);
    ll_core_rest(txn);
    return 0;
}

int lladd_log_note(struct lladd_txn *txn, const char *tag, struct lladd_span bytes, lladd_lsn *lsn)
{
    LL_USE(txn);
    struct ll_name *name = NULL;
    int rc = ll_txn_enter_unlatched(txn, "lladd_log_note");
    if (!rc)
        rc = tag ? ll_op_catalog_tag(txn->core, tag, &name, &txn->err)
                 : ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "tag is NULL");
    if (!rc)
        rc = want_record(txn, NULL, bytes.len, 0);
    if (rc)
        return rc;
    struct ll_record rec = {
        .kind = LL_REC_NOTE, .op = name->number, .page = LLADD_NO_PAGE, .redo = bytes};
    ll_txn_append(txn, &rec, NULL);
    ll_core_rest(txn);
    if (lsn)
        *lsn = rec.lsn;
    return 0;
}

/* ---- nested top actions ------------------------------------------------------------------ */

int lladd_nta_begin(struct lladd_txn *txn, struct lladd_action *out)
{
    LL_USE(txn);
    int rc = ll_txn_enter(txn);
    if (rc)
        return rc;
    if (!out)
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "out is NULL");
    /* A compensation first uses the memory that is already allocated (REC-3). */
    if (!txn->rolling_back || txn->n_actions == txn->cap_actions)
        rc = ll_core_want_nesting(txn);
    if (rc)
        return rc;
    struct ll_action *a = &txn->actions[txn->n_actions++];
    a->id = txn->next_id++;
    a->undo_next = txn->undo_next;
    a->undo_used = txn->id.v ? txn->undo_used : ll_undo_need_base();
    txn->depth++;
    memset(out, 0, sizeof *out);
    out->private_[0] = a->id;
    return 0;
}

static int innermost(struct lladd_txn *txn, const struct lladd_action *action)
{
    int rc = ll_txn_enter(txn);
    if (rc)
        return rc;
    if (!action || txn->n_actions == 0 ||
        txn->actions[txn->n_actions - 1].id != action->private_[0])
        return ll_fail(&txn->err, LLADD_BAD_STATE, "not the innermost open top action");
    return 0;
}

/* Savepoints made inside the action become invalid (OP-6). */
static void pop_action(struct lladd_txn *txn)
{
    while (txn->n_savepoints && txn->savepoints[txn->n_savepoints - 1].actions >= txn->n_actions)
        txn->n_savepoints--;
    txn->n_actions--;
    txn->depth--;
}

int lladd_nta_end(struct lladd_txn *txn, struct lladd_action *action, lladd_op_id id,
                  const void *undo, size_t len)
{
    LL_USE(txn);
    struct ll_name *name = NULL;
    int rc = innermost(txn, action);
    if (!rc && id != LLADD_NO_OP)
        rc = logical_op(txn, id, lladd_span_of(undo, len), &name);
    else if (!rc && len)
        rc = ll_fail(&txn->err, LLADD_BAD_ARGUMENT, "undo bytes without an operation");
    if (rc)
        return rc;
    struct ll_action a = txn->actions[txn->n_actions - 1];
    if (!name && a.undo_next.v == txn->undo_next.v) {
        pop_action(txn); /* the action has logged nothing, so no record is needed */
        return 0;
    }
    rc = want_record(txn, name, LL_ACTION_END_BYTES, len);
    if (rc)
        return rc;
    unsigned char needed[LL_ACTION_END_BYTES];
    lladd_put64(needed, a.undo_used);
    struct ll_record rec = {.kind = LL_REC_ACTION_END,
                            .flags = name ? LL_REC_UNDO_LOGICAL : 0,
                            .op = name ? name->number : 0,
                            .page = LLADD_NO_PAGE,
                            .undo_next = a.undo_next,
                            .redo = lladd_span_of(needed, sizeof needed),
                            .undo = lladd_span_of(undo, len)};
    pop_action(txn);
    /* As soon as the end is logged, the records inside the action need no physical undo. */
    uint64_t inside =
        txn->undo_used - (a.undo_used < txn->undo_used ? a.undo_used : txn->undo_used);
    if (name)
        ll_core_use_undo(txn, ll_undo_need_op(name->desc, len));
    ll_txn_append(txn, &rec, name ? NULL : &a.undo_next);
    if (!txn->rolling_back) {
        ll_txn_set_undo_used(txn, txn->undo_used - inside);
        txn->undo_spare += inside;
    }
    ll_core_rest(txn);
    return 0;
}

int lladd_nta_abort(struct lladd_txn *txn, struct lladd_action *action)
{
    LL_USE(txn);
    int rc = innermost(txn, action);
    if (!rc)
        rc = ll_db_no_page(ll_db_of(txn->core), &txn->err, "lladd_nta_abort");
    if (rc)
        return rc;
    ll_core_rest(txn);
    lladd_lsn since = txn->actions[txn->n_actions - 1].undo_next;
    rc = ll_rollback(txn, since);
    if (rc)
        return rc;
    txn->undone = txn->actions[txn->n_actions - 1].id;
    pop_action(txn);
    ll_txn_tell_undone(txn, since);
    return 0;
}
