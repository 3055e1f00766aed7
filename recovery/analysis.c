/* SPDX-License-Identifier: BSD-2-Clause */
/* Analysis scans the log from the start of the last checkpoint to the end of the log. It rebuilds
 * the transaction table (with each transaction's undo_next), the catalogue of operations (names and
 * their numbers), the redo barriers, the pins and the heuristic outcomes. It touches no page. It
 * finds what makes recovery impossible, such as an unregistered operation. So an open that fails
 * here has changed nothing.
 *
 * Updates go on while a checkpoint collects its data. So the scan meets records of a transaction
 * before it meets the transaction's row in the checkpoint. The scan drops a row if the scan has
 * already met the end of the transaction. If the scan has met the transaction, but not its end, the
 * scan takes from the row only the system flag and the undo reserve of the records that were not
 * scanned. The scan skips the data of a later checkpoint, which is incomplete. */
#include "recovery/analysis.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

/* More log than any rollback can need: a record that states a larger undo reserve is not valid. */
#define UNDO_MAX (UINT64_C(1) << 44)

static int new_txn(struct ll_analysis *a, lladd_lsn id, struct lladd_txn **out,
                   struct lladd_error *err)
{
    int rc = ll_txn_new(a->core, out, err);
    if (rc)
        return rc;
    (*out)->id = id;
    (*out)->undo_used = ll_undo_need_base();
    (*out)->durability = LLADD_DURABLE; /* until lladd_in_doubt_claim sets the
                                           * database's default */
    if (ll_hashmap_put_ptr(&a->txns, id.v, *out))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
    return 0;
}

/* How the record changes its transaction's undo reserve. */
static int64_t undo_change(const struct ll_core *core, const struct ll_record *rec)
{
    uint64_t gone = 0;
    if (rec->kind == LL_REC_CLR || rec->kind == LL_REC_OBJECT_CLR)
        gone = ll_record_bound(0, rec->undo.len);
    if (rec->kind == LL_REC_CLR_END) {
        struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
        /* Earlier versions wrote the length of the undo bytes; the first versions wrote nothing. */
        size_t undo_len =
            rec->redo.len == LL_CLR_END_BYTES_BEFORE ? lladd_get32(rec->redo.data) : 0;
        gone = n && n->desc ? ll_undo_need_op(n->desc, undo_len) : 0;
    }
    return (int64_t)ll_undo_need(core, rec) - (int64_t)gone;
}

static uint64_t changed_by(uint64_t used, int64_t change)
{
    return change < 0 && used < (uint64_t)-change ? 0 : used + (uint64_t)change;
}

/* These records state the transaction's undo reserve. The end of a top action states the reserve
 * that the transaction had when the action began. The end of a compensation states the reserve
 * after the compensation. The records inside the action or the compensation are no longer undone
 * singly, so their undo reserve does not count. */
static bool states_undo_used(const struct ll_record *rec)
{
    return rec->kind == LL_REC_ACTION_END ||
           (rec->kind == LL_REC_CLR_END && rec->redo.len == LL_CLR_END_BYTES);
}

static int set_undo_used(struct lladd_txn *txn, const struct ll_core *core,
                         const struct ll_record *rec, struct lladd_error *err)
{
    if (states_undo_used(rec)) {
        if (rec->redo.len != 8 || lladd_get64(rec->redo.data) > UNDO_MAX)
            return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                               "LSN %llu: the end of a %s has no valid undo reserve",
                               (unsigned long long)rec->lsn.v,
                               rec->kind == LL_REC_CLR_END ? "compensation" : "top action");
        txn->undo_used = lladd_get64(rec->redo.data);
        if (rec->kind == LL_REC_ACTION_END)
            txn->undo_used += ll_undo_need(core, rec);
        return 0;
    }
    txn->undo_used = changed_by(txn->undo_used, undo_change(core, rec));
    return 0;
}

static int see_prepare(struct lladd_txn *txn, const struct ll_record *rec, struct lladd_error *err)
{
    struct ll_prepared p = {.lsn = rec->lsn, .recovered = true};
    if (!ll_prepare_decode(rec->redo, &p))
        return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                           "LSN %llu: invalid prepare record: expected a gid and an owner",
                           (unsigned long long)rec->lsn.v);
    if (!txn->prepared)
        txn->prepared = ll_alloc_zero(&txn->core->env, sizeof *txn->prepared);
    if (!txn->prepared)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
    *txn->prepared = p;
    ll_txn_set_state(txn, LL_TXN_PREPARED);
    return 0;
}

/* The transaction's rollback has begun, so the transaction is a loser. */
static void forget_prepare(struct lladd_txn *txn)
{
    ll_free(&txn->core->env, txn->prepared);
    txn->prepared = NULL;
    ll_txn_set_state(txn, LL_TXN_ACTIVE);
}

static int see_txn_record(struct ll_analysis *a, const struct ll_record *rec,
                          struct lladd_error *err)
{
    struct lladd_txn *txn = ll_hashmap_get_ptr(&a->txns, rec->txn.v);
    if (rec->kind == LL_REC_COMMIT || rec->kind == LL_REC_END) {
        if (txn) {
            txn->undo_used = 0; /* the log is not started yet, so nothing is reserved */
            ll_txn_release(txn);
            ll_hashmap_remove(&a->txns, rec->txn.v);
        }
        if (!a->data_seen && ll_hashmap_put(&a->ended, rec->txn.v, 1))
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
        if (rec->kind == LL_REC_COMMIT) {
            a->commits++;
            lladd_atomic_store64(&a->core->txns.visible, rec->lsn.v);
        }
        return 0;
    }
    int rc = txn ? 0 : new_txn(a, rec->txn, &txn, err);
    if (rc)
        return rc;
    txn->last = rec->lsn;
    txn->system = (rec->flags & LL_REC_SYSTEM) != 0;
    if (txn->prepared)
        forget_prepare(txn); /* a record after the prepare record belongs to a rollback */
    switch (rec->kind) {
    case LL_REC_CLR:
    case LL_REC_CLR_END:
    case LL_REC_OBJECT_CLR:
        txn->undo_next = LLADD_PLANTED(LLADD_BUG_UNDO_NEXT) ? rec->prev : rec->undo_next;
        break;
    case LL_REC_ACTION_END:
        txn->undo_next = rec->op ? rec->lsn : rec->undo_next;
        break;
    default:
        txn->undo_next = rec->lsn;
    }
    rc = set_undo_used(txn, a->core, rec, err);
    if (!rc && states_undo_used(rec) && !a->data_seen && ll_hashmap_put(&a->known, rec->txn.v, 1))
        rc = ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
    if (!rc && rec->kind == LL_REC_PREPARE)
        rc = see_prepare(txn, rec, err);
    return rc;
}

/* The checkpoint wrote the row after BEGIN, when `last` was the transaction's newest record. The
 * row counts the records up to `last`; the newer records, which are few, are read again here. No
 * record may be counted twice here, because the log may have just enough space (REC-3). (The row
 * itself may count one record too many: see ll_txn_values.) */
static int take_undo_used(struct ll_analysis *a, struct lladd_txn *txn, uint64_t last,
                          uint64_t used, struct lladd_error *err)
{
    struct ll_log_cursor *cursor = NULL;
    struct ll_record rec;
    if (ll_hashmap_find(&a->known, txn->id.v))
        return 0; /* a record has stated the reserve */
    if (last < txn->last.v && ll_log_cursor_open(a->core->log, &cursor))
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
    int64_t since = 0;
    int rc = 0;
    for (uint64_t at = txn->last.v; at > last && at > a->begin.v; at = rec.prev.v) {
        rc = ll_log_cursor_need(cursor, lladd_lsn_of(at), &rec, err);
        if (rc)
            break;
        since += undo_change(a->core, &rec);
        if (rec.prev.v >= at)
            break; /* undo reports the bad record */
    }
    ll_log_cursor_close(cursor);
    txn->undo_used = changed_by(used, since);
    return rc;
}

static int see_txn_row(struct ll_analysis *a, const unsigned char *b, size_t len,
                       struct lladd_error *err)
{
    if (len != 44 || lladd_get64(b + 24) > UNDO_MAX)
        return LLADD_BAD_RECORD;
    uint64_t id = lladd_get64(b);
    if (ll_hashmap_find(&a->ended, id))
        return 0;
    struct lladd_txn *txn = ll_hashmap_get_ptr(&a->txns, id);
    lladd_lsn prepare = lladd_lsn_of(lladd_get64(b + 32));
    int rc;
    if (txn) {
        rc = take_undo_used(a, txn, lladd_get64(b + 8), lladd_get64(b + 24), err);
        if (rc)
            return rc;
    } else {
        rc = new_txn(a, lladd_lsn_of(id), &txn, err);
        if (rc)
            return rc;
        txn->last = lladd_lsn_of(lladd_get64(b + 8));
        txn->undo_next = lladd_lsn_of(lladd_get64(b + 16));
        txn->undo_used = lladd_get64(b + 24);
    }
    txn->system = lladd_get32(b + 40) & 1;
    if (prepare.v == 0 || txn->prepared || txn->last.v > prepare.v)
        return 0;
    txn->prepared = ll_alloc_zero(&a->core->env, sizeof *txn->prepared);
    if (!txn->prepared)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in analysis");
    txn->prepared->lsn = prepare; /* the record is read after the scan */
    ll_txn_set_state(txn, LL_TXN_PREPARED);
    return 0;
}

/* The name of an archive's pin ends with the number of the timeline that is archived
 * (docs/backup.md). A restored copy is on another timeline: its log has the pin, but no archive of
 * the copy will ever move the pin. */
static bool is_inherited(const struct ll_core *core, const char *name)
{
    static const char prefix[] = "lladd.archive.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || LLADD_PLANTED(LLADD_BUG_PIN_INHERITED))
        return false;
    return strtoull(name + sizeof prefix - 1, NULL, 10) != core->timeline;
}

static int see_pin(struct ll_core *core, struct lladd_span bytes, struct lladd_error *err)
{
    struct ll_pin pin;
    if (!ll_pin_decode(bytes, &pin))
        return LLADD_BAD_RECORD;
    return is_inherited(core, pin.name) ? 0 : ll_pin_put(core, pin.name, pin.lsn, NULL, err);
}

static int see_part(struct ll_analysis *a, unsigned kind, struct lladd_span part, lladd_lsn lsn,
                    struct lladd_error *err)
{
    struct ll_core *core = a->core;
    const unsigned char *b = part.data;
    switch (kind) {
    case LL_CKPT_TXN:
        return see_txn_row(a, b, part.len, err);
    case LL_CKPT_NAME:
        return ll_op_catalog_learn(core, part, lsn, err);
    case LL_CKPT_REDO_BARRIER:
        if (part.len != 24)
            return LLADD_BAD_RECORD;
        return ll_redo_barrier_add(core, lladd_get64(b), lladd_get64(b + 8),
                                   lladd_lsn_of(lladd_get64(b + 16)), err);
    case LL_CKPT_PIN:
        return see_pin(core, part, err);
    case LL_CKPT_HEURISTIC:
        return ll_heuristic_see(core, part, lsn, err);
    case LL_CKPT_PAGES:
        if (part.len != 8)
            return LLADD_BAD_RECORD;
        a->pages = lladd_get64(b);
        return 0;
    default:
        return LLADD_BAD_RECORD;
    }
}

static int at_lsn(const struct ll_record *rec, int rc, struct lladd_error *err)
{
    if (rc != LLADD_BAD_RECORD || !err || err->lsn.v)
        return rc;
    struct lladd_error why = *err;
    return ll_fail_lsn(err, rc, rec->lsn, "LSN %llu: %.200s", (unsigned long long)rec->lsn.v,
                       why.code == rc ? why.message
                                      : "invalid checkpoint data: expected whole parts");
}

bool ll_checkpoint_next(struct lladd_span *data, unsigned *kind, struct lladd_span *part)
{
    const unsigned char *p = data->data;
    if (data->len < LL_CKPT_PART_HEAD || lladd_get32(p + 1) > data->len - LL_CKPT_PART_HEAD)
        return false;
    *kind = p[0];
    *part = lladd_span_of(p + LL_CKPT_PART_HEAD, lladd_get32(p + 1));
    size_t size = LL_CKPT_PART_HEAD + part->len;
    *data = lladd_span_of(p + size, data->len - size);
    return true;
}

static int see_data(struct ll_analysis *a, const struct ll_record *rec, struct lladd_error *err)
{
    struct lladd_span left = rec->redo, part;
    unsigned kind;
    while (left.len) {
        struct lladd_error why = LLADD_ERROR_INIT;
        int rc = ll_checkpoint_next(&left, &kind, &part) ? see_part(a, kind, part, rec->lsn, &why)
                                                         : LLADD_BAD_RECORD;
        if (rc) {
            if (err)
                *err = why;
            return at_lsn(rec, rc, err);
        }
    }
    return 0;
}

static bool wants_op(unsigned kind)
{
    return kind == LL_REC_UPDATE || kind == LL_REC_CLR || kind == LL_REC_CLR_END ||
           kind == LL_REC_UNDO_ONLY || kind == LL_REC_OBJECT || kind == LL_REC_OBJECT_CLR;
}

int ll_analysis_check_op(struct ll_core *core, const struct ll_record *rec, struct lladd_error *err)
{
    if (rec->kind == LL_REC_CATALOGUE || rec->kind == LL_REC_NOTE ||
        rec->kind == LL_REC_PREPARE_BLOB || (rec->op == 0 && !wants_op(rec->kind)))
        return 0;
    struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
    if (!n)
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, rec->lsn,
                           "LSN %llu: operation number %u is in no catalogue",
                           (unsigned long long)rec->lsn.v, rec->op);
    bool want_class = rec->kind == LL_REC_OBJECT || rec->kind == LL_REC_OBJECT_CLR;
    if (n->kind != (want_class ? LL_NAME_CLASS : LL_NAME_OP))
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, rec->lsn, "LSN %llu: \"%s\" is not an operation",
                           (unsigned long long)rec->lsn.v, n->name);
    if (n->desc || core->looks_only)
        return 0;
    return ll_fail_lsn(err, LLADD_NO_OPERATION, rec->lsn,
                       "log needs %s \"%s\" version %u, not registered, first used at LSN %llu",
                       want_class ? "class" : "operation", n->name, n->version,
                       (unsigned long long)n->first_used.v);
}

/* Is this a checkpoint record or a seal? If the scan meets only such records, nothing has changed
 * since the checkpoint that the control block names. */
static bool says_what_is_known(unsigned kind)
{
    return kind == LL_REC_SEAL || kind == LL_REC_CHECKPOINT_DATA ||
           kind == LL_REC_CHECKPOINT_BEGIN || kind == LL_REC_CHECKPOINT_END;
}

/* Notes the page's newest base. Gives up all of `bases` if there is no memory, or if `bases` takes
 * more than half of recovery_bytes: redo works without `bases`. */
static void note_base(struct ll_analysis *a, const struct ll_record *rec)
{
    int rc = ll_hashmap_put(&a->bases, rec->page, rec->lsn.v);
    a->wants_bases =
        !rc && a->bases.capacity * sizeof *a->bases.slots <= a->core->recovery_bytes / 2;
    if (!a->wants_bases)
        ll_hashmap_free(&a->bases);
}

static int see(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    struct ll_analysis *a = ctx;
    uint64_t first, n;
    if (a->records++ == 0)
        a->early = rec->kind == LL_REC_CHECKPOINT_DATA;
    a->end = lladd_lsn_of(rec->lsn.v + rec->size);
    a->matters |= !says_what_is_known(rec->kind);
    ll_redo_index_add(&a->pending, rec, false);
    if (a->wants_bases && ll_redo_index_counts(rec) && ll_redo_is_base(rec))
        note_base(a, rec);
    int rc = a->early ? 0 : ll_analysis_check_op(a->core, rec, err);
    if (rc)
        return rc;
    switch (rec->kind) {
    case LL_REC_CHECKPOINT_BEGIN:
        if (a->begins++ == 0) { /* The commits below BEGIN are visible, also commits that the scan
                                 * did not meet. */
            a->begin = rec->lsn;
            lladd_atomic_max64(&a->core->txns.visible, rec->lsn.v);
        }
        a->early = false;
        return 0;
    case LL_REC_CHECKPOINT_DATA:
        return a->early || a->begins == 1 ? see_data(a, rec, err) : 0;
    case LL_REC_CHECKPOINT_END:
        a->data_seen = a->data_seen || a->begins == 1;
        return 0;
    case LL_REC_CATALOGUE:
        return at_lsn(rec, ll_op_catalog_learn(a->core, rec->redo, rec->lsn, err), err);
    case LL_REC_REDO_BARRIER:
        if (!ll_redo_barrier_decode(rec, &first, &n))
            return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                               "LSN %llu: invalid redo barrier: expected 16 bytes",
                               (unsigned long long)rec->lsn.v);
        rc = ll_redo_barrier_add(a->core, first, n, rec->lsn, err);
        rc = at_lsn(rec, rc, err);
        break;
    case LL_REC_PIN:
        rc = see_pin(a->core, rec->redo, err);
        if (rc == LLADD_BAD_RECORD)
            return ll_fail_lsn(err, rc, rec->lsn,
                               "LSN %llu: invalid pin: expected an LSN and a name",
                               (unsigned long long)rec->lsn.v);
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    case LL_REC_HEURISTIC:
        rc = ll_heuristic_see(a->core, rec->redo, rec->lsn, err);
        break;
    case LL_REC_COMMIT:
        if (rec->redo.len)
            rc = ll_heuristic_see(a->core, rec->redo, rec->lsn, err);
        break;
    default:
        break;
    }
    if (!rc && rec->txn.v && !a->early)
        rc = see_txn_record(a, rec, err);
    if ((a->records & 0xfff) == 0)
        ll_core_progress(a->core, LLADD_PHASE_ANALYSIS, rec->lsn, 0);
    return rc;
}

static int read_prepares(struct ll_analysis *a, struct lladd_error *err)
{
    struct ll_core *core = a->core;
    struct ll_log_cursor *cursor = NULL;
    int rc = 0;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); !rc && txn; txn = ll_txns_next(txn)) {
        if (!txn->prepared || txn->prepared->recovered)
            continue;
        struct ll_record rec;
        if (!cursor && (rc = ll_log_cursor_open(core->log, &cursor)) != 0) {
            ll_fail(err, rc, "out of memory in analysis");
            break;
        }
        rc = ll_log_cursor_need(cursor, txn->prepared->lsn, &rec, err);
        if (!rc && (rec.kind != LL_REC_PREPARE || rec.txn.v != txn->id.v))
            rc = ll_fail_lsn(err, LLADD_CORRUPT_LOG, txn->prepared->lsn,
                             "LSN %llu is not the prepare record of transaction %llu",
                             (unsigned long long)txn->prepared->lsn.v,
                             (unsigned long long)txn->id.v);
        if (!rc)
            rc = see_prepare(txn, &rec, err);
    }
    ll_log_cursor_close(cursor);
    return rc;
}

static bool lacks(const struct ll_core *core, unsigned kind)
{
    for (size_t i = core->cat.n_registered; i < core->cat.n_all; i++)
        if (core->cat.all[i]->kind == kind)
            return true;
    return false;
}

/* Checks the records from the start of redo to BEGIN. If a class is not registered, this function
 * also checks all older object records, because it is unknown which records the class needs. */
static int check_older(struct ll_analysis *a, struct ll_log_cursor *cursor, struct lladd_error *err)
{
    struct ll_core *core = a->core;
    lladd_lsn redo = core->control.redo, from = redo;
    struct ll_record rec;
    if (lacks(core, LL_NAME_CLASS) && ll_log_oldest(core->log).v < from.v)
        from = ll_log_oldest(core->log);
    if (from.v >= a->begin.v)
        return 0;
    int rc = ll_log_cursor_seek(cursor, from, &rec, err);
    while (!rc && rec.lsn.v < a->begin.v) {
        bool object = rec.kind == LL_REC_OBJECT || rec.kind == LL_REC_OBJECT_CLR;
        if (object || rec.lsn.v >= redo.v)
            rc = ll_analysis_check_op(core, &rec, err);
        if (!rc)
            rc = ll_log_cursor_next(cursor, &rec, err);
    }
    return rc == LLADD_END ? 0 : rc;
}

int ll_analysis_check_blob(const struct ll_core *core, const struct ll_record *rec,
                           struct lladd_error *err)
{
    struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
    if (!n || n->desc)
        return 0; /* give_blob reports an unknown name */
    return ll_fail_lsn(err, LLADD_NO_OPERATION, rec->lsn,
                       "a transaction in doubt needs participant \"%s\" version %u, not registered",
                       n->name, n->version);
}

static int check_chain(struct ll_core *core, const struct lladd_txn *txn,
                       struct ll_log_cursor *cursor, struct lladd_error *err)
{
    struct ll_record rec;
    for (lladd_lsn at = txn->last; at.v; at = rec.prev) {
        int rc = ll_log_cursor_need(cursor, at, &rec, err);
        if (!rc && rec.kind == LL_REC_PREPARE_BLOB && txn->prepared)
            rc = ll_analysis_check_blob(core, &rec, err);
        else if (!rc)
            rc = ll_analysis_check_op(core, &rec, err);
        if (rc)
            return rc;
        if (rec.prev.v >= at.v)
            break; /* undo reports the bad record */
    }
    return 0;
}

/* Checks the records that redo and undo will read and that the scan has not read. Does nothing if
 * all operations, classes and participants that the log names are registered. */
static int check_unseen(struct ll_analysis *a, struct lladd_error *err)
{
    struct ll_core *core = a->core;
    struct ll_log_cursor *cursor;
    if (core->looks_only)
        return 0;
    if (!lacks(core, LL_NAME_OP) && !lacks(core, LL_NAME_CLASS) &&
        !lacks(core, LL_NAME_PARTICIPANT))
        return 0;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in analysis");
    rc = check_older(a, cursor, err);
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); !rc && txn; txn = ll_txns_next(txn))
        rc = check_chain(core, txn, cursor, err);
    ll_log_cursor_close(cursor);
    return rc;
}

int ll_analysis_check_pages(uint64_t file_pages, uint64_t had, struct lladd_error *err)
{
    if (file_pages >= had)
        return 0;
    return ll_fail(err, LLADD_MISSING_FILE,
                   "\"pages\" is cut off: it has %llu pages, and had %llu at the last checkpoint",
                   (unsigned long long)file_pages, (unsigned long long)had);
}

void ll_analysis_free(struct ll_analysis *a)
{
    ll_redo_index_free(&a->pending);
    ll_hashmap_free(&a->bases);
}

int ll_analysis(struct ll_core *core, uint64_t file_pages, struct ll_analysis *a,
                struct lladd_error *err)
{
    memset(a, 0, sizeof *a);
    a->core = core;
    ll_hashmap_init(&a->txns, &core->env);
    ll_hashmap_init(&a->ended, &core->env);
    ll_hashmap_init(&a->known, &core->env);
    ll_redo_index_init(&a->pending, &core->env, core->control.redo, core->recovery_bytes / 2);
    a->pending.lost = !core->recover_instantly || core->control.clean;
    ll_hashmap_init(&a->bases, &core->env);
    a->wants_bases =
        !core->recover_instantly && !core->control.clean && !core->looks_only && !LLADD_REPLAY();
    int rc = ll_log_scan(core->log, see, a, err);
    if (!rc)
        rc = ll_analysis_check_pages(file_pages, a->pages, err);
    if (!rc)
        rc = read_prepares(a, err);
    if (!rc)
        rc = check_unseen(a, err);
    uint64_t open = a->txns.count, in_doubt = lladd_atomic_load64(&core->txns.in_doubt);
    ll_hashmap_free(&a->txns);
    ll_hashmap_free(&a->ended);
    ll_hashmap_free(&a->known);
    if (rc)
        return rc;
    ll_core_trace(core,
                  "analysis: checkpoint %llu, redo from %llu, log ends at %llu; %llu records, "
                  "%llu commits, %llu losers, %llu in doubt",
                  (unsigned long long)core->control.checkpoint.v,
                  (unsigned long long)core->control.redo.v, (unsigned long long)a->end.v,
                  (unsigned long long)a->records, (unsigned long long)a->commits,
                  (unsigned long long)(open - in_doubt), (unsigned long long)in_doubt);
    return 0;
}

/* ---- prepare records --------------------------------------------------------------------- */

/* Payload of a prepare record:
 *
 *      0 i64 format of the gid
 *      8 u32 length of the gtrid, in bytes
 *     12 u32 length of the bqual, in bytes
 *     16 i64 time of the prepare, in us since 1970
 *     24 u32 number of blob records
 *     28 u8 length of the owner, in bytes
 *     29 gtrid, bqual, owner */
#define PREPARE_HEAD 29u

size_t ll_prepare_encode(const struct ll_prepared *p, unsigned char out[LL_PREPARE_MAX])
{
    size_t gid = (size_t)p->gid.gtrid_length + p->gid.bqual_length, owner = strlen(p->owner);
    lladd_put64(out, (uint64_t)p->gid.format);
    lladd_put32(out + 8, p->gid.gtrid_length);
    lladd_put32(out + 12, p->gid.bqual_length);
    lladd_put64(out + 16, (uint64_t)p->prepared_us);
    lladd_put32(out + 24, p->blobs);
    out[28] = (unsigned char)owner;
    memcpy(out + PREPARE_HEAD, p->gid.data, gid);
    memcpy(out + PREPARE_HEAD + gid, p->owner, owner);
    return PREPARE_HEAD + gid + owner;
}

bool ll_prepare_decode(struct lladd_span s, struct ll_prepared *p)
{
    const unsigned char *b = s.data;
    if (s.len < PREPARE_HEAD)
        return false;
    p->gid.format = (int64_t)lladd_get64(b);
    p->gid.gtrid_length = lladd_get32(b + 8);
    p->gid.bqual_length = lladd_get32(b + 12);
    p->prepared_us = (int64_t)lladd_get64(b + 16);
    p->blobs = lladd_get32(b + 24);
    size_t owner = b[28];
    if (p->gid.gtrid_length > 64 || p->gid.bqual_length > 64 || owner >= sizeof p->owner)
        return false;
    size_t gid = (size_t)p->gid.gtrid_length + p->gid.bqual_length;
    if (s.len != PREPARE_HEAD + gid + owner)
        return false;
    memcpy(p->gid.data, b + PREPARE_HEAD, gid);
    memcpy(p->owner, b + PREPARE_HEAD + gid, owner);
    p->owner[owner] = 0;
    return true;
}
