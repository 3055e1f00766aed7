/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzzy checkpoints: they bound recovery and allow truncation of the log.
 *
 * A is the LSN of the checkpoint's first record, where analysis begins. H, the horizon, is the LSN
 * where redo will start: the A of the previous checkpoint or, if all pages are flushed, the log's
 * tail. H is not above A.
 *
 *   0. finish the pending redo of instant recovery
 *   1. write back each dirty page with a recLSN below H. Redo starts at its old place until step 6,
 *      so a page with a base after that place needs no image
 *   2. raise the horizon to H: from now on a page with a base below H is written with an image or
 *      through the double-write area (BUF-5). Wait until the copies that were taken before are
 *      written, then sync. Afterwards no page on disk, torn or not, needs a record below H, so
 *      redo can start at H
 *   3. append an empty record at A, then the catalogue. Although updates go on, a reader that
 *      starts at A then meets each name before the first transaction record that it has to
 *      interpret. If there is no space for the redo barriers between H and A, H becomes the log's
 *      tail, and steps 1 to 3 are repeated
 *   4. append BEGIN at B and wait until every record below B is published: the transaction table
 *      now includes all records below B
 *   5. append the transaction table, the redo barriers between H and A, the pins and the heuristic
 *      outcomes; append END; force. (A reader that starts at A meets later barriers in the log)
 *   6. write A and the start of redo, which is H, to both copies of the control block, durably
 *   7. truncate the log below what redo, undo, classes, pins and holds need. Undo needs the records
 *      of all transactions that were open at step 5, because a crash may lose the commit record of
 *      a transaction that commits later
 *
 * Updates go on, so other records are between A and END. Analysis reads from A, and follows
 * transactions from B on. If pages cannot tear (no_images), redo starts at the smallest recLSN, or
 * at H if this LSN is below H, or at A if this LSN is above A. */
#include "recovery/analysis.h"

#include "util/vec.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

#define BATCH 16384u

/* ---- the data of a checkpoint -------------------------------------------------------------- */

/* Adds a part, and returns the place of its payload; NULL: out of memory. */
static unsigned char *add(struct ll_vec *parts, unsigned kind, size_t len)
{
    size_t at = parts->len;
    if (ll_vec_reserve(parts, at + LL_CKPT_PART_HEAD + len))
        return NULL;
    parts->len += LL_CKPT_PART_HEAD + len;
    unsigned char *head = ll_vec_at(parts, at);
    head[0] = (unsigned char)kind;
    lladd_put32(head + 1, (uint32_t)len);
    return head + LL_CKPT_PART_HEAD;
}

static int keep(struct ll_vec *parts, unsigned kind, const void *bytes, size_t len)
{
    unsigned char *at = add(parts, kind, len);
    if (at)
        memcpy(at, bytes, len);
    return at ? 0 : LLADD_NO_MEMORY;
}

static int keep_names(struct ll_core *core, struct ll_vec *parts)
{
    int rc = 0;
    lladd_mutex_lock(&core->cat.mutex);
    for (size_t i = 0; !rc && i < core->cat.n_all; i++) {
        const struct ll_name *name = core->cat.all[i];
        if (!name->number || (name->kind == LL_NAME_OP && LLADD_PLANTED(LLADD_BUG_NAMES)))
            continue;
        unsigned char *at = add(parts, LL_CKPT_NAME, ll_op_catalog_payload(name));
        if (at)
            ll_op_catalog_encode(name, at);
        rc = at ? 0 : LLADD_NO_MEMORY;
    }
    lladd_mutex_unlock(&core->cat.mutex);
    return rc;
}

/* `barriers`: the barriers from the horizon to A. */
static int keep_barriers(const struct ll_vec *barriers, lladd_lsn redo, struct ll_vec *parts)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < barriers->len && !LLADD_PLANTED(LLADD_BUG_REDO_BARRIER); i++) {
        const struct ll_redo_barrier *barrier = ll_vec_at(barriers, i);
        unsigned char b[24];
        if (barrier->lsn.v < redo.v)
            continue;
        lladd_put64(b, barrier->first);
        lladd_put64(b + 8, barrier->n);
        lladd_put64(b + 16, barrier->lsn.v);
        rc = keep(parts, LL_CKPT_REDO_BARRIER, b, sizeof b);
    }
    return rc;
}

static int keep_misc(struct ll_core *core, struct ll_vec *parts)
{
    int rc = 0;
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; !rc && i < core->n_pins; i++) {
        unsigned char b[LL_PIN_MAX];
        rc = keep(parts, LL_CKPT_PIN, b, ll_pin_encode(core->pins[i].name, core->pins[i].lsn, b));
    }
    for (size_t i = 0; !rc && i < core->n_heuristics && !LLADD_PLANTED(LLADD_BUG_OUTCOMES); i++) {
        unsigned char b[LL_HEURISTIC_MAX];
        rc = keep(parts, LL_CKPT_HEURISTIC, b, ll_heuristic_encode(&core->heuristics[i], b));
    }
    lladd_mutex_unlock(&core->misc);
    return rc;
}

static int keep_txns(struct ll_core *core, struct ll_vec *parts)
{
    struct ll_txn_table *t = &core->txns;
    int rc = 0;
    lladd_mutex_lock(&t->mutex);
    for (struct lladd_txn *txn = ll_txns_first(t); !rc && txn; txn = ll_txns_next(txn)) {
        struct ll_txn_values now;
        unsigned char b[44];
        uint64_t prepare = 0;
        if (!ll_txn_values(txn, &now))
            continue;
        if (now.state == LL_TXN_PREPARED && LLADD_PLANTED(LLADD_BUG_PREPARED))
            continue;
        /* A transaction that is already rolling back is not in doubt. */
        if (now.state == LL_TXN_PREPARED && txn->prepared && now.last == txn->prepared->lsn.v)
            prepare = now.last;
        lladd_put64(b, now.id);
        lladd_put64(b + 8, now.last);
        lladd_put64(b + 16, now.undo_next);
        lladd_put64(b + 24, now.undo_used);
        lladd_put64(b + 32, prepare);
        lladd_put32(b + 40, now.system);
        rc = keep(parts, LL_CKPT_TXN, b, sizeof b);
    }
    lladd_mutex_unlock(&t->mutex);
    return rc;
}

/* Appends the parts and empties the array. `kept`: the result of collecting the parts. Parts are
 * collected under mutexes, and appended after the mutexes are unlocked. Reason: the append may wait
 * for credit, and the thread that has the credit may wait for a mutex. */
static int append_parts(struct ll_core *core, struct ll_vec *parts, int kept,
                        struct lladd_error *err)
{
    size_t half = ll_log_record_max(core->log) / 2, most = half < BATCH ? half : BATCH;
    const unsigned char *at = parts->data;
    int rc = kept ? ll_fail(err, kept, "out of memory for a checkpoint") : 0;
    for (size_t left = parts->len, len; !rc && left; at += len, left -= len) {
        len = LL_CKPT_PART_HEAD + lladd_get32(at + 1);
        while (len < left && len + LL_CKPT_PART_HEAD + lladd_get32(at + len + 1) <= most)
            len += LL_CKPT_PART_HEAD + lladd_get32(at + len + 1);
        struct ll_record rec = {.kind = LL_REC_CHECKPOINT_DATA,
                                .page = LLADD_NO_PAGE,
                                .redo = lladd_span_of(at, len)};
        rc = ll_core_append(core, &rec, true, err);
    }
    ll_vec_truncate(parts, 0);
    return rc;
}

/* ---- what needs the log -------------------------------------------------------------------- */

static int each_class(struct ll_core *core, bool ask_checkpoint, lladd_lsn advance,
                      struct lladd_error *err)
{
    int rc = 0;
    lladd_atomic_store64(&core->asking_class, lladd_thread_self());
    for (size_t i = 0; !rc && i < core->cat.n_classes; i++) {
        const struct lladd_object_class *c = core->cat.classes[i]->desc;
        if (ask_checkpoint && c->checkpoint && (rc = c->checkpoint(c->ctx, core->db)) != 0)
            ll_fail(err, rc, "checkpoint of class \"%s\" failed", c->name);
        if (advance.v && c->advance)
            c->advance(c->ctx, core->db, advance);
    }
    lladd_atomic_store64(&core->asking_class, 0);
    return rc;
}

/* Puts the class's name into `out` and, if the class has the callback `pins`, the text of the
 * callback about what needs the log. */
static void name_class(struct ll_core *core, const struct lladd_object_class *c, char out[64])
{
    int n = snprintf(out, 64, "%s", c->name);
    if (!LL_HAS(c, pins) || n >= 62)
        return;
    out[n] = ' ';
    out[n + 1] = 0;
    c->pins(c->ctx, core->db, out + n + 1, 63 - (size_t)n);
    if (!out[n + 1])
        out[n] = 0;
}

/* The oldest LSN that recovery, a transaction, a class or a pin needs. If `holds` is true, holds
 * (lladd_log_keep) count too. *pinner (nullable): describes what needs this LSN. */
static lladd_lsn needed_by(struct ll_core *core, lladd_lsn redo, bool holds,
                           struct lladd_pinner *pinner)
{
    struct lladd_pinner txn = {0};
    lladd_lsn low = redo;
    if (pinner) {
        memset(pinner, 0, sizeof *pinner);
        pinner->kind = "checkpoint";
        pinner->page = LLADD_NO_PAGE;
    }
    lladd_lsn oldest = ll_txns_oldest(core, &txn);
    if (oldest.v < low.v) {
        low = oldest;
        if (pinner) {
            *pinner = txn;
            pinner->page = LLADD_NO_PAGE;
        }
    }
    for (size_t i = 0; i < core->cat.n_classes; i++) {
        const struct ll_name *n = core->cat.classes[i];
        const struct lladd_object_class *c = n->desc;
        if (!lladd_atomic_load32(&n->number) || !c->durable_lsn)
            continue;
        lladd_lsn need = c->durable_lsn(c->ctx, core->db);
        if (need.v < low.v) {
            low = need;
            if (pinner) {
                pinner->kind = "class";
                name_class(core, c, pinner->name);
            }
        }
    }
    low = ll_pin_lowest(core, low, holds, pinner);
    if (pinner)
        pinner->lsn = low;
    return low;
}

static lladd_lsn needed(struct ll_core *core, lladd_lsn redo, struct lladd_pinner *pinner)
{
    return needed_by(core, redo, true, pinner);
}

lladd_lsn ll_core_needed(struct ll_core *core)
{
    lladd_lsn low = needed_by(core, ll_core_redo(core), false, NULL);
    lladd_lsn oldest = ll_log_oldest(core->log);
    return low.v < oldest.v ? oldest : low; /* a class may need log that there never was */
}

/* Names the undo reserve if the reserve is larger than the part of the log that is needed. */
static void name_undo(struct ll_core *core, struct lladd_pinner *out)
{
    struct ll_log_stats s;
    uint64_t n = 0;
    ll_log_stats(core->log, &s);
    lladd_lsn most = ll_txns_most_undo(core, &n);
    if (n == 0 || s.undo_reserved <= out->age_bytes)
        return;
    out->kind = "undo";
    out->txn = most;
    snprintf(out->name, sizeof out->name, "%llu bytes for %u transactions",
             (unsigned long long)s.undo_reserved, (unsigned)n);
}

/* The next checkpoint moves the start of redo. If that move would free no log, something else holds
 * the log, and this function names it. */
int ll_core_pinner(struct ll_core *core, struct lladd_pinner *out, struct lladd_error *err)
{
    int rc = ll_core_check(core, err);
    if (rc)
        return rc;
    lladd_lsn tail = ll_log_tail(core->log);
    bool held = ll_log_would_free(core->log, tail) && !ll_checkpoint_frees(core);
    needed(core, held ? tail : ll_core_redo(core), out);
    if (strcmp(out->kind, "checkpoint") == 0) {
        /* The start of redo does not move past dirty pages, so the kind is "page". */
        if (ll_buffer_dirty_min(core->buffer).v != UINT64_MAX)
            out->kind = "page";
    }
    out->age_bytes = ll_log_tail(core->log).v - out->lsn.v;
    name_undo(core, out);
    return 0;
}

/* ---- at the byte limit ------------------------------------------------------------------- */

/* The number of checkpoints until log that a class needs is truncated. At the first checkpoint the
 * class asks its users to release the log. At the second the class itself releases the log. The
 * third checkpoint truncates the log. After this number of checkpoints that free no log, another
 * checkpoint is tried only when the log has grown. */
enum { CLASS_NEEDS = 3 };

bool ll_core_settled(struct ll_core *core)
{
    return ll_log_tail(core->log).v == lladd_atomic_load64(&core->settled_tail) &&
           ll_buffer_dirty_count(core->buffer) == 0;
}

bool ll_checkpoint_frees(struct ll_core *core)
{
    /* Where redo would start after the next checkpoint. If the next checkpoint would state the same
     * as the last one, the start of redo does not move. */
    lladd_lsn tail = ll_log_tail(core->log);
    lladd_lsn redo = ll_core_settled(core) ? ll_core_redo(core) : tail;
    lladd_lsn low = needed(core, redo, NULL);
    if (ll_log_would_free(core->log, low))
        return true;
    lladd_lsn hard = ll_txns_oldest(core, NULL);
    hard = ll_pin_lowest(core, hard.v < redo.v ? hard : redo, true, NULL);
    return ll_log_would_free(core->log, hard) &&
           (low.v != lladd_atomic_load64(&core->in_vain_low) ||
            lladd_atomic_load32(&core->in_vain) < CLASS_NEEDS ||
            tail.v - lladd_atomic_load64(&core->in_vain_since) >= core->log_growth);
}

static int fail_full(struct ll_core *core, struct lladd_error *err)
{
    struct lladd_pinner pinner;
    struct ll_log_stats s;
    char by[160];
    if (!err || err->code != LLADD_LOG_FULL || ll_core_pinner(core, &pinner, NULL))
        return LLADD_LOG_FULL;
    struct lladd_error log = *err;
    ll_log_stats(core->log, &s);
    int n = snprintf(by, sizeof by, "%s%s%.63s", pinner.kind, *pinner.name ? " " : "", pinner.name);
    if (pinner.txn.v && n > 0)
        snprintf(by + n, sizeof by - (size_t)n, ", transaction %llu",
                 (unsigned long long)pinner.txn.v);
    return ll_fail_lsn(err, LLADD_LOG_FULL, pinner.lsn,
                       "%.100s; undo reserve %llu bytes; the log from LSN %llu on is held by %s",
                       log.message, (unsigned long long)s.undo_reserved,
                       (unsigned long long)pinner.lsn.v, by);
}

static int take_checkpoint(struct ll_core *, enum ll_checkpoint_kind, struct lladd_error *);

/* Runs no `durable` callback: the caller may hold mutexes that callbacks take. */
int ll_core_relieve_log(struct ll_core *core, uint64_t *oldest, struct lladd_error *err)
{
    uint64_t seen = *oldest;
    *oldest = ll_log_oldest(core->log).v;
    if (*oldest != seen)
        return 0;
    if (!ll_core_may_checkpoint(core))
        return fail_full(core, err);
    if (ll_point(&core->env, "log_limit.before_checkpoint"))
        return ll_fail(err, LLADD_BUSY, "stopped at a named point");
    bool pending = lladd_atomic_load64_relaxed(&core->txns.pending_undo) != 0;
    if (ll_checkpoint_frees(core)) {
        int rc = take_checkpoint(core, LL_CHECKPOINT_ALL, err);
        if (rc)
            return rc;
        if (pending || ll_log_oldest(core->log).v != seen || ll_checkpoint_frees(core))
            return 0;
    } else if (pending) {
        int rc = ll_log_force(core->log, lladd_lsn_of(ll_log_tail(core->log).v - 1), err);
        if (!rc)
            ll_txns_release_undo(core);
        return rc;
    }
    /* Another thread's checkpoint may have truncated the log since `oldest` was read. Then space is
     * free, although this thread's checkpoint would free nothing. */
    return ll_log_oldest(core->log).v != seen ? 0 : fail_full(core, err);
}

struct marks {
    lladd_lsn start; /* A, where analysis begins */
    lladd_lsn redo;
    /* id of the oldest transaction that may be a loser if the log ends with this checkpoint */
    lladd_lsn undo;
    lladd_lsn end;
};

/* Collects the barriers from the horizon on. If they are at most `most`, also appends the record at
 * A. Barriers are logged under the same mutex, so every barrier before A is collected. */
static int append_start(struct ll_core *core, lladd_lsn horizon, size_t most,
                        struct ll_vec *barriers, lladd_lsn *start, struct lladd_error *err)
{
    struct ll_record rec = {.kind = LL_REC_CHECKPOINT_DATA, .page = LLADD_NO_PAGE};
    struct ll_credit credit = {0};
    int rc = ll_core_credit_aside(core, &credit, ll_record_bound(0, 0), err);
    if (rc)
        return rc;
    ll_vec_truncate(barriers, 0);
    lladd_mutex_lock(&core->misc);
    for (size_t i = 0; !rc && i < core->n_barriers; i++)
        if (core->barriers[i].lsn.v >= horizon.v)
            rc = ll_vec_append(barriers, &core->barriers[i], 1);
    if (!rc && barriers->len <= most) {
        ll_log_reserve(core->log, &credit, &rec, false);
        ll_log_publish(core->log, &rec);
    }
    lladd_mutex_unlock(&core->misc);
    ll_log_credit_return(core->log, &credit);
    *start = rec.lsn;
    return rc ? ll_fail(err, rc, "out of memory for a checkpoint") : 0;
}

static int flush_below(struct ll_core *core, lladd_lsn horizon, struct lladd_error *err)
{
    return LLADD_PLANTED(LLADD_BUG_FLUSH)
               ? 0
               : ll_buffer_flush_below(core->buffer, horizon, &core->flush, err);
}

/* Does steps 1 and 2, and appends the record at A. The loop ends: other threads can add barriers
 * only while there is log space. Then this thread gets space for twice as many barriers as it has
 * found. */
static int flush_and_start(struct ll_core *core, lladd_lsn *horizon, struct ll_vec *barriers,
                           lladd_lsn *start, struct lladd_error *err)
{
    size_t most = LL_CHECKPOINT_BARRIERS;
    int rc = flush_below(core, *horizon, err);
    while (!rc && (rc = append_start(core, *horizon, most, barriers, start, err)) == 0 &&
           barriers->len > most) {
        if (ll_core_set_aside_barriers(core, 2 * barriers->len)) {
            most = 2 * barriers->len;
        } else {
            *horizon = ll_log_tail(core->log);
            rc = flush_below(core, *horizon, err);
        }
    }
    return rc;
}

/* Appends the records after A up to END (steps 3 to 5). The caller forces END. */
static int write_records(struct ll_core *core, lladd_lsn horizon, uint64_t pages,
                         const struct ll_vec *barriers, struct marks *marks,
                         struct lladd_error *err)
{
    lladd_lsn *start = &marks->start, *redo = &marks->redo;
    struct ll_record rec = {.kind = LL_REC_CHECKPOINT_BEGIN, .page = LLADD_NO_PAGE};
    unsigned char b[16];
    struct ll_vec parts;
    ll_vec_init(&parts, &core->env, 1);
    int rc = append_parts(core, &parts, keep_names(core, &parts), err);
    if (!rc && ll_point(&core->env, "checkpoint.before_begin"))
        rc = ll_fail(err, LLADD_BUSY, "stopped at a named point");
    if (!rc)
        rc = ll_core_append(core, &rec, true, err);
    if (rc) {
        ll_vec_free(&parts);
        return rc;
    }
    ll_log_wait_published(core->log, lladd_lsn_of(rec.lsn.v + rec.size));
    *redo = horizon.v < start->v ? horizon : *start;
    if (core->no_images) {
        lladd_lsn low = ll_buffer_dirty_min(core->buffer);
        *redo = low.v < start->v ? low : *start;
        /* The start of redo never moves below the horizon, because the checkpoint does not repeat
         * redo barriers that are below the horizon. A page with an older recLSN is a damaged page
         * that was rebuilt during this checkpoint; after a crash the page is rebuilt again. */
        if (redo->v < horizon.v)
            *redo = horizon;
    }
    /* marks->undo is read here and not at the truncation. A transaction that ends later may be a
     * loser: its last record may be above END, and a crash may lose this record. A transaction that
     * has ended before this point has its last record below END. A transaction that began below
     * BEGIN is in the table, because all records below BEGIN are published. */
    marks->undo = ll_txns_oldest(core, NULL);
    rc = keep_txns(core, &parts);
    if (!rc)
        rc = keep_barriers(barriers, *redo, &parts);
    if (!rc)
        rc = keep_misc(core, &parts);
    lladd_put64(b, pages);
    if (!rc)
        rc = keep(&parts, LL_CKPT_PAGES, b, 8);
    rc = append_parts(core, &parts, rc, err);
    ll_vec_free(&parts);
    lladd_put64(b, start->v);
    lladd_put64(b + 8, redo->v);
    struct ll_record last = {
        .kind = LL_REC_CHECKPOINT_END, .page = LLADD_NO_PAGE, .redo = lladd_span_of(b, sizeof b)};
    if (!rc)
        rc = ll_core_append(core, &last, true, err);
    marks->end = last.lsn;
    return rc;
}

static int write_control(struct ll_core *core, const struct marks *m, struct lladd_error *err)
{
    lladd_mutex_lock(&core->control_mutex);
    struct ll_control c = core->control;
    c.checkpoint = m->start;
    c.redo = m->redo;
    c.watermark = ll_log_durable(core->log);
    c.clean = false;
    c.segment = lladd_lsn_of(c.segment_bytes = 0);
    /* Redo has made the pages of earlier runs dirty again. If the next redo starts in the log of
     * these runs, some of the pages may not be written yet. */
    c.atomic_pages = core->no_images || (core->tore_unprotected && m->redo.v < core->began);
    c.incompatible |= LL_FEATURE_WRITE_BACK;
    c.incarnation = ll_log_incarnation(core->log);
    int rc = ll_core_put_control(core, &c, err);
    lladd_mutex_unlock(&core->control_mutex);
    return rc;
}

/* Forgets redo barriers below the start of redo. Called only after the control block is durable:
 * after an earlier crash, recovery would start redo earlier, and would redo records that the
 * barriers exclude. */
static void forget_barriers(struct ll_core *core, lladd_lsn redo)
{
    lladd_mutex_lock(&core->misc);
    size_t kept = 0;
    for (size_t i = 0; i < core->n_barriers; i++)
        if (core->barriers[i].lsn.v >= redo.v)
            core->barriers[kept++] = core->barriers[i];
    core->n_barriers = kept;
    lladd_mutex_unlock(&core->misc);
}

/* A damaged page that was rebuilt after the flush has the LSN of its base as its recLSN. If the
 * base is below `low`, this function writes the page, before the log with the base is truncated. If
 * another such page is rebuilt meanwhile, the log is kept from that page's base on. */
static int cut_log(struct ll_core *core, lladd_lsn low, struct lladd_error *err)
{
    int rc = ll_buffer_dirty_min(core->buffer).v < low.v ? ll_buffer_flush(core->buffer, low, err)
                                                         : 0;
    if (rc)
        return rc;
    lladd_mutex_lock(&core->cut);
    lladd_lsn min = ll_buffer_dirty_min(core->buffer);
    rc = ll_log_truncate(core->log, min.v < low.v ? min : low, err);
    lladd_mutex_unlock(&core->cut);
    return rc;
}

/* Counts checkpoints that free no log. `seen`: in_vain before the truncation. If a commit has reset
 * in_vain after that read, in_vain stays 0. */
static void note_vain(struct ll_core *core, uint64_t before, uint64_t need, uint32_t seen)
{
    uint64_t tail = ll_log_tail(core->log).v;
    bool same = ll_log_oldest(core->log).v == before && need == core->in_vain_low &&
                tail - core->in_vain_since < core->log_growth;
    (void)lladd_atomic_cas32(&core->in_vain, &seen, same ? seen + 1 : 1);
    lladd_atomic_store64(&core->in_vain_low, need);
    if (!same)
        lladd_atomic_store64(&core->in_vain_since, tail);
}

static int truncate_log(struct ll_core *core, const struct marks *m, struct lladd_error *err)
{
    lladd_lsn low = needed(core, m->redo, NULL);
    uint64_t before = ll_log_oldest(core->log).v;
    uint32_t in_vain = lladd_atomic_load32(&core->in_vain);
    uint64_t need = needed(core, ll_log_tail(core->log), NULL).v;
    int rc = 0;
    if (low.v < m->redo.v && !core->closing) {
        rc = each_class(core, false, m->redo, err);
        low = needed(core, m->redo, NULL); /* a class may have advanced immediately */
    }
    if (m->undo.v < low.v && !LLADD_PLANTED(LLADD_BUG_UNDO_LATE))
        low = m->undo;
    if (!rc && LLADD_PLANTED(LLADD_BUG_TRUNCATE))
        rc = ll_log_truncate(core->log, m->end, err);
    else if (!rc)
        rc = cut_log(core, low, err);
    note_vain(core, before, need, in_vain);
    return rc;
}

/* Called instead of a checkpoint that would state the same as the last one. Syncs the pages
 * nevertheless: a page that was written after the last checkpoint may be only in the system's
 * cache, and a clean close states that all pages are durable. */
static int checkpoint_again(struct ll_core *core, const struct marks *same, struct lladd_error *err)
{
    int rc = ll_buffer_flush(core->buffer, lladd_lsn_of(UINT64_MAX), err);
    return rc ? rc : truncate_log(core, same, err);
}

/* Would a checkpoint free log even if no class releases any? */
static bool frees_certainly(struct ll_core *core)
{
    return ll_log_would_free(core->log, needed(core, ll_log_tail(core->log), NULL));
}

/* Called after the classes were asked, before the checkpoint logs a record. A checkpoint that frees
 * no log must leave space for a checkpoint that frees log, and for records that clear pins. If no
 * other space is left, this checkpoint is refused. */
static int want_space(struct ll_core *core, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = ll_core_set_aside_again(core, &why);
    if (rc != LLADD_NO_SPACE || frees_certainly(core))
        return 0;
    if (!core->closing) { /* a refused checkpoint does not reach truncate_log, which asks the
                           * classes to advance */
        rc = each_class(core, false, ll_core_redo(core), err);
        if (rc || frees_certainly(core))
            return rc;
    }
    return ll_fail(err, LLADD_NO_SPACE,
                   "%.150s; this checkpoint would free no log, and the space that is set aside is "
                   "for a checkpoint that frees some",
                   why.message);
}

static int checkpoint(struct ll_core *core, enum ll_checkpoint_kind kind, struct lladd_error *err)
{
    int rc = ll_core_check(core, err);
    if (!rc)
        rc = ll_core_mark(core, err);
    /* Sets space aside before the checkpoint logs a record. If space is missing, want_space reports
     * it. */
    struct lladd_error ignored = LLADD_ERROR_INIT;
    if (!rc)
        (void)ll_core_set_aside_again(core, &ignored);
    /* Pending redo needs the log from the start of redo. */
    if (!rc && !LLADD_PLANTED(LLADD_BUG_REDO_LEFT))
        rc = ll_instant_finish(core, err);
    /* A commit may release log that a class needs, but only when the commit is durable. So the
     * commits are forced before the classes are asked. */
    if (!rc)
        rc = ll_log_force(core->log, lladd_lsn_of(lladd_atomic_load64(&core->txns.visible)), err);
    /* The classes are asked before the horizon is chosen, so that a close also flushes the pages
     * that classes change. */
    if (!rc)
        rc = each_class(core, true, lladd_lsn_of(0), err);
    if (rc)
        return rc;
    lladd_atomic_store32(&core->pressed, 0);
    /* Reads the oldest transaction before ll_core_settled reads the tail. A transaction that is not
     * found here has logged its end below that tail, or has logged nothing yet. */
    struct marks same = {{0}, ll_core_redo(core), ll_txns_oldest(core, NULL), {0}};
    if (ll_core_settled(core))
        return checkpoint_again(core, &same, err);
    rc = want_space(core, err);
    if (rc)
        return rc;
    lladd_lsn horizon = kind == LL_CHECKPOINT_ALL
                            ? ll_log_tail(core->log)
                            : lladd_lsn_of(lladd_atomic_load64(&core->last_checkpoint));
    lladd_atomic_store64(&core->flush.written, 0);
    lladd_atomic_store64(&core->flush.pages, 0);
    core->flush.pace = kind == LL_CHECKPOINT_PACED ? core->pace_checkpoint : NULL;
    core->flush.ctx = core;
    struct marks m = {{0}, {0}, {0}, {0}};
    struct ll_vec barriers;
    ll_vec_init(&barriers, &core->env, sizeof(struct ll_redo_barrier));
    uint64_t pages = ll_buffer_file_pages(core->buffer); /* the flush makes this length durable */
    rc = ll_point(&core->env, "checkpoint.before_flush")
             ? ll_fail(err, LLADD_BUSY, "stopped at a named point")
             : 0;
    if (!rc)
        rc = flush_and_start(core, &horizon, &barriers, &m.start, err);
    lladd_atomic_store64_relaxed(&core->images_before, lladd_atomic_load64_relaxed(&core->images));
    if (!rc)
        rc = write_records(core, horizon, pages, &barriers, &m, err);
    ll_vec_free(&barriers);
    if (!rc && !LLADD_PLANTED(LLADD_BUG_CONTROL_FIRST))
        rc = ll_log_force(core->log, m.end, err);
    if (!rc && ll_point(&core->env, "checkpoint.before_control"))
        rc = ll_fail(err, LLADD_BUSY, "stopped at a named point");
    /* A transaction that could not be rolled back may have left the table before its row was
     * written. Such a transaction has poisoned the database before. */
    if (!rc)
        rc = ll_core_check(core, err);
    if (!rc)
        rc = write_control(core, &m, err);
    if (!rc && LLADD_PLANTED(LLADD_BUG_FLUSH))
        rc = ll_buffer_flush_below(core->buffer, horizon, &core->flush, err);
    if (rc)
        return rc;
    LLADD_OBSERVE(.what = LLADD_DST_CHECKPOINT, .lsn = m.start,
                  .detail = ll_log_tail(core->log).v - m.redo.v);
    lladd_atomic_store64(&core->last_checkpoint, m.start.v);
    lladd_atomic_store64(&core->checkpoint_ns, ll_now_ns(&core->env));
    lladd_atomic_count64(&core->checkpoints, 1);
    forget_barriers(core, m.redo);
    /* This is the durable end, not the tail. A transaction that the checkpoint lists as open may
     * have committed meanwhile, and its commit record may not be durable yet. */
    lladd_atomic_store64(&core->settled_tail, ll_log_durable(core->log).v);
    return truncate_log(core, &m, err);
}

void ll_checkpoint_begin(struct ll_core *core)
{
    (void)lladd_atomic_add32(&core->checkpoint_waiters, 1);
    if (core->hurry_checkpoint)
        core->hurry_checkpoint(core);
    lladd_mutex_lock(&core->checkpointing);
    (void)lladd_atomic_add32(&core->checkpoint_waiters, UINT32_MAX);
}

void ll_checkpoint_end(struct ll_core *core)
{
    lladd_mutex_unlock(&core->checkpointing);
}

static int take_checkpoint(struct ll_core *core, enum ll_checkpoint_kind kind,
                           struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    ll_checkpoint_begin(core);
    int rc = checkpoint(core, kind, err ? err : &local);
    if (!rc) {
        /* Sets space aside for the next checkpoint. On a full disk the next transaction that writes
         * reports the error. */
        struct lladd_error ignored = LLADD_ERROR_INIT;
        (void)ll_core_set_aside(core, true, &ignored);
    }
    ll_checkpoint_end(core);
    if (!rc)
        ll_txns_release_undo(core);
    return rc;
}

int ll_checkpoint(struct ll_core *core, enum ll_checkpoint_kind kind, struct lladd_error *err)
{
    int rc = take_checkpoint(core, kind, err);
    if (!rc)
        ll_txns_drain(core);
    return rc;
}
