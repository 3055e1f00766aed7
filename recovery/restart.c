/* SPDX-License-Identifier: BSD-2-Clause */
/* Recovery as a whole (REC-1, REC-4; LLADD paper, section 2.3).
 *
 *   analysis   finds the state at the crash; an open that fails here has changed nothing
 *   log start  the accepted log after the newest watermark is rewritten and forced; a new segment
 *              names the cut (LOG-2), or on a full disk the log goes on where it ended; the undo
 *              reserve is set aside
 *   redo       repeats the history of the pages, or prepares redo at their fetch
 *              (restart_instant.c)
 *   rebuild    rebuilds pages that redo has left without a base, from the oldest log (rebuild.c)
 *   objects    repeats the history of objects, in LSN order
 *   in doubt   gives the participants of prepared transactions their blobs
 *   undo       rolls back losers, deepest level first (REC-5), and ends each with an END record;
 *              with instant recovery, protected losers are rolled back later (deferred_undo.c)
 *   check      fails if a page in use has no base
 *
 * After a clean stop no page needs redo. There are no losers, except transactions that an earlier
 * version of the library has left open. */
#include "recovery/redo.h"
#include "recovery/restart_instant.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

#define BLOB_HEAD 8u

static void enter(enum lladd_dst_phase phase)
{
    LLADD_OBSERVE(.what = LLADD_DST_PHASE, .detail = phase);
}

/* Reserves the log space for the undo of the losers again (REC-3). Then sets aside the space of the
 * next checkpoint, before page images can use that space. `roomy`: fails if the space for a
 * checkpoint is missing, or if less space than a segment is left. If not `roomy`, recovery goes on
 * without that space. */
static int set_aside(struct ll_core *core, uint64_t undo, bool roomy, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = undo ? ll_log_undo_reserve_recovery(core->log, undo, false, err) : 0;
    if (rc || core->control.clean)
        return rc;
    rc = ll_core_set_aside_again(core, &why);
    if (rc != LLADD_NO_SPACE || !roomy)
        rc = 0;
    else if (err)
        *err = why;
    if (!rc && undo && roomy)
        rc = ll_log_undo_reserve_recovery(core->log, 0, true, err);
    return rc;
}

/* The log continues in a new segment, so that no LSN is used twice. If this would leave no segment
 * besides the reserved space, the disk is full. Then the log continues where it ended, so that
 * another crash wastes only the log of the compensation that the crash interrupts. */
static int start_or_go_on(struct ll_core *core, struct lladd_error *err)
{
    uint64_t undo = 0;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn))
        undo += txn->undo_used;
    int rc = ll_log_start(core->log, err);
    bool stay = ll_log_could_stay(core->log);
    if (!rc)
        rc = set_aside(core, undo, stay, err);
    bool here = rc == LLADD_NO_SPACE && stay;
    if (here) {
        ll_core_trace(core, "log: no space for a segment, it goes on where it ended");
        lladd_atomic_store64(&core->set_aside, 0);
        rc = ll_log_start_here(core->log, err);
        here = !rc;
        if (!rc)
            rc = set_aside(core, undo, false, err);
    }
    /* Rollbacks mostly need less than the undo reserve, so recovery goes on with less space. If a
     * rollback finds no space, open fails, and the next open continues the rollback. */
    core->undo_short = rc == LLADD_NO_SPACE && here;
    if (core->undo_short) {
        ll_core_trace(core, "undo: less log space than it may need");
        ll_log_undo_reserve_short(core->log, undo);
        rc = 0;
    }
    if (!rc)
        rc = ll_log_started(core->log, err);
    if (rc)
        for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn))
            txn->undo_used = 0;
    return rc;
}

/* Raises *longest to the length of the longest record that undoes an object record of the
 * transaction. Ends at a record that is not valid; undo will report it. */
static int longest_object(struct ll_core *core, const struct lladd_txn *txn, size_t *longest,
                          struct lladd_error *err)
{
    struct ll_log_cursor *cursor;
    struct ll_record rec;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in recovery");
    for (lladd_lsn at = txn->last; at.v; at = rec.prev) {
        if (ll_log_cursor_need(cursor, at, &rec, NULL) || rec.prev.v >= at.v)
            break;
        size_t bytes = rec.kind == LL_REC_OBJECT ? ll_record_bound(0, rec.undo.len) : 0;
        *longest = bytes > *longest ? bytes : *longest;
    }
    ll_log_cursor_close(cursor);
    return 0;
}

/* An earlier run with a larger ring may have logged longer records than fit into this ring. This
 * function enlarges the ring for the long records that must be logged again. These are
 * compensations of object records, and unregistered names, which each checkpoint repeats. (For
 * registered operations and names, open refuses a ring that is too small.) No compensation is
 * longer than its transaction's undo reserve, so only large reserves matter. */
static int want_ring(struct ll_core *core, struct lladd_error *err)
{
    size_t name = ll_op_catalog_longest_learned(core);
    size_t longest = name ? ll_record_bound(LL_CKPT_PART_HEAD + name, 0) : 0;
    int rc = 0;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); !rc && txn; txn = ll_txns_next(txn))
        if (core->cat.n_classes && txn->undo_used > ll_log_record_max(core->log))
            rc = longest_object(core, txn, &longest, err);
    if (!rc)
        ll_log_want_record(core->log, longest);
    return rc;
}

static int put_control(struct ll_core *core, struct ll_control *c, struct lladd_error *err)
{
    int rc = ll_control_write(&core->env, core->dev, core->control_file, c, err);
    if (!rc)
        core->control = *c;
    return rc;
}

/* After an unclean stop the control block is written twice. The first write states the new
 * incarnation before records use it, because otherwise the next open would use the same incarnation
 * (LOG-2). The second write states the LSN where the log continues, as the watermark, before a
 * caller can learn this LSN. Until the second write, the next open may drop an empty segment and
 * continue the log below this segment (REC-3). After the second write it may not. */
static int start_log(struct ll_core *core, struct lladd_error *err)
{
    if (core->control.clean)
        return start_or_go_on(core, err);
    struct ll_control c = core->control;
    c.incarnation = ll_log_incarnation(core->log);
    c.atomic_pages = c.atomic_pages || core->no_images;
    c.incompatible |= LL_FEATURE_WRITE_BACK;
    int rc = put_control(core, &c, err);
    if (rc)
        return rc;
    lladd_atomic_store32(&core->marked, 1);
    rc = start_or_go_on(core, err);
    if (rc)
        return rc;
    c.watermark = ll_log_durable(core->log);
    return put_control(core, &c, err);
}

/* ---- objects ----------------------------------------------------------------------------- */

/* While a class is registered, checkpoints keep the log from its durable LSN on. So if the log
 * begins above that LSN, log is missing, with two exceptions. First exception: the class was first
 * used after that LSN. Then its catalogue record comes before its object records. Second exception:
 * programs in which the class is not registered have used the database after that LSN. Then the log
 * had no object record of the class (analysis.c), and has none now. In the second case the
 * catalogue record is logged again before the next object record of the class (log_again), because
 * the class may log object records before its durable LSN moves. */
static bool may_lack_log(struct ll_core *core, uint64_t durable)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = durable ? ll_log_reaches(core->log, lladd_lsn_of(durable), &why) : 0;
    return lladd_code_root(rc) == LLADD_ROOT_DATA; /* the pass itself meets other errors again */
}

/* Are the records of this class redone before those of other classes? */
static bool is_first(const struct ll_name *n)
{
    const struct lladd_object_class *c = n && n->kind == LL_NAME_CLASS ? n->desc : NULL;
    return c && LL_HAS(c, first) && c->first;
}

/* Where the pass over the records of these classes starts. */
static lladd_lsn class_start(struct ll_core *core, bool first)
{
    uint64_t low = UINT64_MAX;
    for (size_t i = 0; i < core->cat.n_classes; i++) {
        struct ll_name *n = core->cat.classes[i];
        const struct lladd_object_class *c = n->desc;
        if (is_first(n) != first || !lladd_atomic_load32(&n->number))
            continue;
        uint64_t from = UINT64_MAX; /* UINT64_MAX: the class has no redo, and reads the log by
                                     * itself */
        if (c->redo)
            from = c->durable_lsn ? c->durable_lsn(c->ctx, core->db).v : 0;
        /* Both fields are free during the pass, because statistics start later. `bytes` 1: log may
         * be missing, and no catalogue record of the class has been read yet. */
        n->count = from;
        n->bytes = c->redo && may_lack_log(core, from);
        low = from < low ? from : low;
    }
    return lladd_lsn_of(low);
}

static void observe_object(const struct ll_name *class, const struct ll_record *rec,
                           enum lladd_dst_found found)
{
    LLADD_OBSERVE(.what = rec->kind == LL_REC_OBJECT_CLR ? LLADD_DST_REDO_CLR : LLADD_DST_REDO,
                  .detail = found, .op = class->name, .op_version = class->version, .lsn = rec->lsn,
                  .txn = rec->txn, .page = rec->page, .depth = rec->depth);
}

static int redo_object(struct ll_core *core, const struct ll_record *rec, uint64_t *done,
                       struct lladd_error *err)
{
    struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
    int rc = ll_analysis_check_op(core, rec, err);
    if (rc)
        return rc;
    const struct lladd_object_class *c = n->desc;
    if (rec->lsn.v < n->count) {
        observe_object(n, rec, LLADD_DST_PRESENT);
        return 0;
    }
    if (rec->kind == LL_REC_OBJECT_CLR && !c->undo)
        return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn, "LSN %llu: class \"%s\" has no undo",
                           (unsigned long long)rec->lsn.v, c->name);
    (*done)++;
    if (rec->kind == LL_REC_OBJECT)
        rc = c->redo(c->ctx, core->db, rec->lsn, rec->page, rec->redo);
    else
        rc = c->undo(c->ctx, core->db, NULL, rec->lsn, rec->page, rec->undo);
    observe_object(n, rec, rc ? LLADD_DST_REFUSED : LLADD_DST_STALE);
    if (rc)
        return ll_fail_lsn(err, rc, rec->lsn, "class \"%s\" cannot redo LSN %llu", c->name,
                           (unsigned long long)rec->lsn.v);
    return 0;
}

static int fail_class(struct ll_core *core, const struct ll_name *n, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = ll_log_reaches(core->log, lladd_lsn_of(n->count), &why);
    return ll_fail_lsn(err, rc, why.lsn, "class \"%s\" needs the log from LSN %llu on: %.200s",
                       n->name, (unsigned long long)n->count, why.message);
}

static int pass_record(struct ll_core *core, const struct ll_record *rec, bool first,
                       uint64_t *done, struct lladd_error *err)
{
    bool object = rec->kind == LL_REC_OBJECT || rec->kind == LL_REC_OBJECT_CLR;
    struct ll_name *n = object || rec->kind == LL_REC_CATALOGUE
                            ? ll_op_catalog_by_number(core, rec->op)
                            : NULL;
    if (is_first(n) != first)
        return 0;
    if (n && n->kind == LL_NAME_CLASS && n->bytes) {
        if (object)
            return fail_class(core, n, err);
        n->bytes = 0;
    }
    return object ? redo_object(core, rec, done, err) : 0;
}

static int pass_objects(struct ll_core *core, lladd_lsn from, bool first, struct lladd_error *err)
{
    /* Lists the log, if a clean open has not needed the log so far. Files below the oldest LSN were
     * given up, and are kept for reuse. */
    lladd_lsn oldest = ll_log_oldest(core->log);
    from = from.v < oldest.v ? oldest : from;
    struct ll_log_cursor *cursor;
    struct ll_record rec;
    uint64_t done = 0;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in recovery");
    ll_core_progress(core, LLADD_PHASE_OBJECTS, from, 0);
    enter(LLADD_DST_REDO_OBJECTS);
    for (rc = ll_log_cursor_follow(cursor, from, &rec, err); !rc;
         rc = ll_log_cursor_next(cursor, &rec, err))
        if ((rc = pass_record(core, &rec, first, &done, err)) != 0)
            break;
    ll_log_cursor_close(cursor);
    if (rc != LLADD_END)
        return rc;
    ll_core_trace(core, "objects: %llu records from LSN %llu", (unsigned long long)done,
                  (unsigned long long)from.v);
    return 0;
}

/* Redoes the records of the classes that come first, then those of the others. */
static int redo_objects(struct ll_core *core, struct lladd_error *err)
{
    int rc = 0;
    for (int pass = 0; !rc && pass < 2; pass++) {
        lladd_lsn from = class_start(core, pass == 0);
        rc = from.v == UINT64_MAX ? 0 : pass_objects(core, from, pass == 0, err);
    }
    for (size_t i = 0; i < core->cat.n_classes; i++) {
        struct ll_name *n = core->cat.classes[i];
        lladd_atomic_store32(&n->log_again, n->bytes != 0);
        n->count = n->bytes = 0;
    }
    return rc;
}

/* ---- transactions in doubt --------------------------------------------------------------- */

struct blob {
    unsigned char *bytes;
    size_t total;
};

static int give_blob(struct lladd_txn *txn, const struct ll_record *rec, struct blob *b,
                     struct lladd_error *err)
{
    const unsigned char *p = rec->redo.data;
    size_t total = rec->redo.len >= BLOB_HEAD ? lladd_get32(p) : 0;
    size_t at = rec->redo.len >= BLOB_HEAD ? lladd_get32(p + 4) : 1;
    size_t len = rec->redo.len - BLOB_HEAD;
    struct ll_name *n = ll_op_catalog_by_number(txn->core, rec->op);
    if (rec->redo.len < BLOB_HEAD || at > total || len > total - at || !n ||
        n->kind != LL_NAME_PARTICIPANT || (b->bytes && b->total != total))
        return ll_fail_lsn(
            err, LLADD_BAD_RECORD, rec->lsn,
            "LSN %llu: invalid prepare blob: expected a part of a participant's state",
            (unsigned long long)rec->lsn.v);
    if (!b->bytes) {
        b->bytes = ll_alloc_zero(&txn->core->env, total + 1);
        b->total = total;
        if (!b->bytes)
            return ll_fail(err, LLADD_NO_MEMORY, "out of memory in recovery");
    }
    memcpy(b->bytes + at, p + BLOB_HEAD, len);
    if (at != 0)
        return 0;
    const struct lladd_participant *participant = n->desc;
    int rc = 0;
    if (!participant)
        rc = ll_analysis_check_blob(txn->core, rec, err);
    else if (participant->in_doubt) {
        txn->err.code = 0;
        rc = participant->in_doubt(participant->ctx, txn, lladd_span_of(b->bytes, total));
        if (rc && txn->err.code == rc)
            ll_fail_lsn(err, rc, rec->lsn, "participant \"%s\": %s", participant->name,
                        txn->err.message);
        else if (rc)
            ll_fail_lsn(err, rc, rec->lsn, "participant \"%s\" refused its blob",
                        participant->name);
    }
    ll_free(&txn->core->env, b->bytes);
    b->bytes = NULL;
    return rc;
}

static int restore_in_doubt(struct ll_core *core, struct lladd_error *err)
{
    struct ll_log_cursor *cursor;
    enter(LLADD_DST_IN_DOUBT);
    if (lladd_atomic_load64(&core->txns.in_doubt) == 0)
        return 0;
    int rc = ll_log_cursor_open(core->log, &cursor);
    if (rc)
        return ll_fail(err, rc, "out of memory in recovery");
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); !rc && txn; txn = ll_txns_next(txn)) {
        if (!txn->prepared)
            continue;
        struct ll_record rec;
        struct blob b = {NULL, 0};
        rc = ll_log_cursor_need(cursor, txn->prepared->lsn, &rec, err);
        for (uint32_t i = txn->prepared->blobs; !rc && i; i--) {
            rc = ll_log_cursor_need(cursor, rec.prev, &rec, err);
            if (!rc && rec.kind != LL_REC_PREPARE_BLOB)
                rc = ll_fail_lsn(err, LLADD_BAD_RECORD, rec.lsn, "LSN %llu is not a prepare blob",
                                 (unsigned long long)rec.lsn.v);
            if (!rc)
                rc = give_blob(txn, &rec, &b, err);
        }
        ll_free(&core->env, b.bytes);
        if (!rc && (rc = ll_core_want_rollback(txn)) != 0 && err)
            *err = txn->err;
        ll_core_trace(core, "in doubt: transaction %llu", (unsigned long long)txn->id.v);
    }
    ll_log_cursor_close(cursor);
    return rc;
}

/* ---- undo -------------------------------------------------------------------------------- */

/* A loser and its next record to undo. Losers are in a heap in descending order of depth, then of
 * LSN (REC-5). */
struct loser {
    struct lladd_txn *txn;
    uint32_t depth;
    bool stays; /* left for later when only records at depth 0 remain */
    uint64_t lsn;
};

static bool before(const struct loser *a, const struct loser *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->lsn > b->lsn;
}

static void sift_down(struct loser *heap, size_t n, size_t i)
{
    for (;;) {
        size_t best = i;
        for (size_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (before(&heap[c], &heap[best]))
                best = c;
        if (best == i)
            return;
        struct loser t = heap[i];
        heap[i] = heap[best];
        heap[best] = t;
        i = best;
    }
}

static void describe_step(struct ll_core *core, const struct lladd_txn *txn,
                          const struct ll_record *rec)
{
    if (!core->trace)
        return;
    struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
    char page[32] = "";
    if (rec->page != LLADD_NO_PAGE)
        (void)snprintf(page, sizeof page, ", page %llu", (unsigned long long)rec->page);
    ll_core_trace(core, "undo: transaction %llu, LSN %llu, depth %u, %s%s",
                  (unsigned long long)txn->id.v, (unsigned long long)rec->lsn.v, rec->depth,
                  n ? n->name : "?", page);
}

/* Finds the loser's next record to undo. Ends the loser if there is none. *gone: the loser was
 * ended, or stays for later. */
static int advance(struct ll_core *core, struct loser *l, bool *gone, struct lladd_error *err)
{
    struct ll_record rec;
    int rc = ll_rollback_peek(l->txn, lladd_lsn_of(0), &rec, err);
    *gone = rc == LLADD_END;
    if (rc == 0) {
        *gone = l->stays && rec.depth == 0;
        if (*gone)
            ll_deferred_leave(core->losers, l->txn);
        l->depth = rec.depth;
        l->lsn = rec.lsn.v;
        return 0;
    }
    if (rc != LLADD_END)
        return rc;
    uint64_t id = l->txn->id.v;
    rc = ll_txn_abort(l->txn);
    if (rc)
        return ll_core_check(core, err);
    (void)lladd_atomic_add64(&core->recovered_undone, 1);
    ll_core_trace(core, "undone: transaction %llu", (unsigned long long)id);
    return 0;
}

/* Progress of undo, measured in log bytes that undo may have to write. */
struct undone {
    uint64_t all, left;
    uint64_t steps;
};

static void tell_undone(struct ll_core *core, const struct undone *u)
{
    ll_core_progress(core, LLADD_PHASE_UNDO, ll_log_tail(core->log),
                     u->all ? (unsigned)((u->all - u->left) * 100 / u->all) : 0);
}

static int undo_next(struct ll_core *core, struct lladd_txn *txn, struct undone *u,
                     struct lladd_error *err)
{
    enum { TELL_EVERY = 0x400 };
    struct ll_record rec;
    uint64_t used = txn->undo_used;
    int rc = ll_rollback_peek(txn, lladd_lsn_of(0), &rec, err);
    if (rc)
        return rc;
    describe_step(core, txn, &rec);
    rc = ll_rollback_step(txn, &rec);
    if (rc && err)
        *err = txn->err;
    used -= txn->undo_used < used ? txn->undo_used : used;
    u->left -= used < u->left ? used : u->left;
    if (++u->steps % TELL_EVERY == 0)
        tell_undone(core, u);
    return rc;
}

static int undo_all(struct ll_core *core, struct loser *heap, size_t n, struct lladd_error *err)
{
    struct undone u = {0, 0, 0};
    int rc = 0;
    bool gone;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        u.all += heap[i].stays ? 0 : heap[i].txn->undo_used;
    u.left = u.all;
    for (size_t i = 0; !rc && i < n; i++) {
        rc = advance(core, &heap[i], &gone, err);
        if (!rc && !gone)
            heap[kept++] = heap[i];
    }
    n = kept;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
    while (!rc && n) {
        rc = undo_next(core, heap[0].txn, &u, err);
        if (!rc)
            rc = advance(core, &heap[0], &gone, err);
        if (!rc && gone) {
            heap[0] = heap[--n];
            tell_undone(core, &u);
        }
        if (!rc)
            sift_down(heap, n, 0);
    }
    return rc;
}

static void gather(struct ll_core *core, struct loser *heap, size_t n)
{
    size_t i = 0;
    core->losers = core->instant && !core->undo_short ? ll_deferred_new(core, n) : NULL;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn)) {
        if (txn->prepared)
            continue;
        heap[i++] = (struct loser){.txn = txn,
                                   .stays = core->losers && ll_deferred_protect(core->losers, txn)};
    }
}

/* Undo fetches the pages of losers singly, and redo at each fetch would read the log once for each
 * pending record. This function redoes these pages first if that is faster. */
static int redo_for_undo(struct ll_core *core, const struct loser *heap, size_t n,
                         struct ll_redo *r, struct lladd_error *err)
{
    struct ll_log_cursor *cursor;
    if (ll_instant_left(core) == 0 || ll_log_cursor_open(core->log, &cursor))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!heap[i].stays)
            ll_instant_expect(core, cursor, heap[i].txn);
    ll_log_cursor_close(cursor);
    return ll_instant_redo_expected(core, r, err);
}

static int undo(struct ll_core *core, struct ll_redo *r, struct lladd_error *err)
{
    size_t n = 0;
    for (struct lladd_txn *txn = ll_txns_first(&core->txns); txn; txn = ll_txns_next(txn))
        n += !txn->prepared;
    if (n == 0)
        return 0;
    /* Even a cleanly closed database may have losers: an earlier version could leave a transaction
     * open. */
    int rc = ll_core_mark(core, err);
    if (rc)
        return rc;
    struct loser *heap = ll_alloc(&core->env, n * sizeof *heap);
    if (!heap)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory in recovery");
    ll_core_progress(core, LLADD_PHASE_UNDO, ll_log_tail(core->log), 0);
    gather(core, heap, n);
    rc = redo_for_undo(core, heap, n, r, err);
    /* A loser may have freed a page without a base. Whether the page is in use is known only when
     * the loser is undone, so no loser stays for later. */
    for (size_t i = 0; i < n; i++)
        heap[i].stays = heap[i].stays && r->baseless.count == 0;
    n -= LLADD_PLANTED(LLADD_BUG_LOSER);
    enter(LLADD_DST_UNDO_LOSERS);
    if (!rc) {
        struct lladd_error why = LLADD_ERROR_INIT;
        rc = undo_all(core, heap, n, &why);
        if (rc && core->undo_short && ll_io_code(-why.sys_errno, true) == LLADD_NO_SPACE)
            rc = why.code = LLADD_NO_SPACE; /* not damage: with more space the open will succeed */
        const uint64_t *skipped = rc ? ll_hashmap_find(&r->baseless, why.page.v) : NULL;
        if (skipped)
            rc = ll_redo_refuse(core, why.page.v, *skipped, &why);
        if (rc && err)
            *err = why;
    }
    ll_deferred_asked(core);
    ll_free(&core->env, heap);
    return rc;
}

/* ---- the whole recovery ------------------------------------------------------------------- */

static int before_redo(struct ll_core *core, uint64_t pages, struct lladd_error *err)
{
    uint64_t restored = 0;
    enter(LLADD_DST_DOUBLE_WRITE);
    int rc = ll_buffer_double_write_restore(core->buffer, &restored, err);
    if (!rc && restored)
        ll_core_trace(core, "double-write area: %llu pages restored", (unsigned long long)restored);
    return rc ? rc : ll_buffer_confirm_end(core->buffer, pages, err);
}

static int redo(struct ll_core *core, struct ll_analysis *a, struct ll_redo *r,
                struct lladd_error *err)
{
    uint64_t start = ll_now_ns(&core->env);
    bool later = false;
    enter(LLADD_DST_REDO_PAGES);
    int rc = core->recover_instantly ? ll_instant_begin(core, a, r, &later, err) : 0;
    if (!rc && !later) {
        rc = ll_redo(core, r, err);
        if (!rc)
            rc = ll_redo_rebuild(core, r, err);
        lladd_atomic_store64(&core->recovered_redone, r->redone);
        core->recovered_records = r->seen;
    }
    core->redo_ns = ll_now_ns(&core->env) - start;
    return rc;
}

static int redo_and_undo(struct ll_core *core, struct ll_analysis *a, struct lladd_error *err)
{
    struct ll_redo r = {0};
    int rc = 0;
    ll_hashmap_init(&r.baseless, &core->env);
    r.bases = &a->bases;
    if (!core->control.clean) {
        rc = before_redo(core, a->pages, err);
        if (!rc)
            rc = redo(core, a, &r, err);
    }
    if (!rc)
        rc = redo_objects(core, err);
    if (!rc)
        rc = restore_in_doubt(core, err);
    if (!rc)
        rc = undo(core, &r, err);
    enter(LLADD_DST_CHECK);
    if (!rc)
        rc = ll_redo_baseless(core, &r, err);
    core->baseless = NULL;
    ll_hashmap_free(&r.baseless);
    return rc;
}

/* Called if only checkpoint records and seals were logged after the last complete checkpoint.
 * Another checkpoint would state the same, and on a full disk each crash would cost a segment. So
 * the database counts as settled. Allocates the log's ring now instead of with the first credit,
 * because a rollback must not need memory for the ring (REC-3). */
static int settle(struct ll_core *core, struct lladd_error *err)
{
    lladd_atomic_store64(&core->settled_tail, core->began);
    return ll_log_make_ring(core->log, err);
}

int ll_restart(struct ll_core *core, struct lladd_error *err)
{
    struct ll_analysis a;
    uint64_t start = ll_now_ns(&core->env);
    /* A clean close has written every page, so this run needs no log from before the checkpoint. If
     * the close took no new checkpoint (checkpoint_again), the start of redo may be earlier. */
    if (core->control.clean)
        core->control.redo = core->control.checkpoint;
    core->redo_start = core->control.redo.v;
    core->tore_unprotected = core->control.atomic_pages && !core->control.clean;
    ll_core_progress(core, LLADD_PHASE_ANALYSIS, core->control.checkpoint, 0);
    enter(LLADD_DST_ANALYSIS);
    int rc = ll_analysis(core, ll_buffer_page_count(core->buffer), &a, err);
    core->analysis_ns = ll_now_ns(&core->env) - start;
    if (!rc && !LLADD_PLANTED(LLADD_BUG_WITNESS))
        rc = ll_core_hear_witness(core, ll_log_scan_end(core->log), err);
    enter(LLADD_DST_LOG_START);
    if (!rc)
        rc = want_ring(core, err);
    if (!rc)
        rc = start_log(core, err);
    if (rc) {
        ll_analysis_free(&a);
        return rc;
    }
    core->accepted = core->control.clean ? core->control.end.v : ll_log_scan_end(core->log).v;
    core->began = ll_log_tail(core->log).v;
    lladd_atomic_store64(&core->last_checkpoint, core->control.checkpoint.v);
    lladd_atomic_store64(&core->checkpoint_ns, start);
    /* The next redo will start here or later, so a page with an older base needs protection. */
    if (!LLADD_PLANTED(LLADD_BUG_PROTECTION))
        ll_buffer_protect(core->buffer, core->control.redo);
    rc = redo_and_undo(core, &a, err);
    if (!rc && !core->control.clean && !a.matters)
        rc = settle(core, err);
    ll_analysis_free(&a);
    core->recovery_ns = ll_now_ns(&core->env) - start;
    if (!rc) {
        ll_core_progress(core, LLADD_PHASE_DONE, ll_log_tail(core->log), 100);
        enter(LLADD_DST_RECOVERED);
    }
    return rc;
}
