/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred undo: rolls losers back after open, while new transactions run
 * (docs/decisions/instant-recovery.md).
 *
 * The core does not isolate transactions, so without help it must undo all losers before open
 * returns. Some participants can protect a change that will be undone. For example, a lock kept
 * other transactions away from the change before the crash; the participant acquires this lock
 * again. A loser with only protected changes is like the transaction that it was before the crash,
 * and can be aborted at any time.
 *
 *   - Only changes at depth 0 can wait. An unfinished top action or compensation has changed the
 *     structure of pages, which is not locked, so its changes are undone before open returns
 *     (REC-5). If such a change is older than a change at depth 0 that must be undone, the loser
 *     cannot wait.
 *   - Losers with records of objects, notes or redo barriers, losers that were prepared, and system
 *     transactions cannot wait. The log does not say what their records mean to an extension.
 *   - Losers that have changed an allocation bitmap cannot wait. Until the undo, a page that such a
 *     loser has freed counts as free, and recovery does not miss the contents of a free page.
 *   - The undo of a loser may need the space that the loser has freed, so extensions do not use
 *     freed space again until the last loser is gone (lladd_losers_left).
 *
 * From open on a loser is an ordinary active transaction. It has its undo reserve, checkpoints list
 * it, and the log that it needs is kept. After another crash it is a loser again. Threads: one
 * thread at a time takes a step, and only that thread changes losers. */
#include "recovery/core.h"

#include <string.h>

#define LONG (8u << 20) /* a rollback that may need more log bytes than this is long */

struct ll_deferred {
    struct ll_core *core;
    struct ll_log_cursor *cursor; /* during open */
    const struct lladd_participant **protectors;
    size_t n_protectors;
    struct lladd_txn **left; /* the n losers left; used by the thread that takes a step */
    uint64_t n;              /* atomic */
    uint32_t stepping;       /* atomic: a thread takes a step */
};

static const struct lladd_participant *protector(const struct ll_name *name)
{
    const struct lladd_participant *p = name->kind == LL_NAME_PARTICIPANT ? name->desc : NULL;
    return p && LL_HAS(p, protect) ? p : NULL;
}

static void drop(struct ll_deferred *l)
{
    struct ll_env env = l->core->env;
    ll_log_cursor_close(l->cursor);
    ll_free(&env, l->protectors);
    ll_free(&env, l->left);
    ll_free(&env, l);
}

struct ll_deferred *ll_deferred_new(struct ll_core *core, size_t n)
{
    size_t names = core->cat.n_registered;
    struct ll_deferred *l = ll_alloc_zero(&core->env, sizeof *l);
    if (!l)
        return NULL;
    l->core = core;
    l->protectors = ll_alloc(&core->env, names * sizeof *l->protectors);
    l->left = ll_alloc(&core->env, n * sizeof *l->left);
    for (size_t i = 0; l->protectors && i < names; i++)
        if (protector(core->cat.all[i]))
            l->protectors[l->n_protectors++] = protector(core->cat.all[i]);
    if (l->n_protectors && l->left && ll_log_cursor_open(core->log, &l->cursor) == 0)
        return l;
    drop(l);
    return NULL;
}

/* ---- protection --------------------------------------------------------------------------- */

static bool ask(struct ll_deferred *l, struct lladd_txn *txn, const struct ll_record *rec)
{
    struct lladd_log_entry e = ll_log_entry_of(l->core, rec);
    if (LLADD_PLANTED(LLADD_BUG_UNPROTECTED))
        return true;
    if (e.op && strncmp(e.op, "lladd.map.", 10) == 0)
        return false;
    for (size_t i = 0; e.op && i < l->n_protectors; i++)
        if (l->protectors[i]->protect(l->protectors[i]->ctx, txn, &e) == 0)
            return true;
    return false;
}

/* Does the record concern changes of pages only? Another record, such as a note, may mean more to
 * an extension than the log says. */
static bool is_plain(const struct ll_record *rec)
{
    switch (rec->kind) {
    case LL_REC_UPDATE:
    case LL_REC_CLR:
    case LL_REC_CLR_END:
    case LL_REC_UNDO_ONLY:
    case LL_REC_ACTION_END:
    case LL_REC_IMAGE:
        return true;
    default:
        return false;
    }
}

/* Reads all records of the loser, and asks participants to protect the changes that undo will undo.
 * Records that undo skips only have to be plain. */
static bool ask_for_all(struct ll_deferred *l, struct lladd_txn *txn)
{
    struct ll_record rec;
    lladd_lsn undo = txn->undo_next;
    bool shallow = false;
    uint64_t seen = 0;
    for (lladd_lsn at = txn->last; at.v; at = rec.prev) {
        if (ll_log_cursor_need(l->cursor, at, &rec, NULL) || rec.txn.v != txn->id.v ||
            rec.prev.v >= at.v || rec.undo_next.v >= at.v || !is_plain(&rec))
            return false;
        if ((++seen & 0xfff) == 0)
            ll_core_progress(l->core, LLADD_PHASE_UNDO, at, 0);
        if (at.v > undo.v)
            continue;
        undo = ll_rollback_passes_over(&rec) ? rec.undo_next : rec.prev;
        if (!ll_rollback_needs(&rec))
            continue;
        if (rec.depth ? shallow : !ask(l, txn, &rec))
            return false;
        shallow = rec.depth == 0;
    }
    return true;
}

bool ll_deferred_protect(struct ll_deferred *l, struct lladd_txn *txn)
{
    bool ready =
        !txn->system && ll_core_want_rollback(txn) == 0 && ask_for_all(l, txn) &&
        ll_log_credit_reserved(l->core->log, &txn->credit, ll_record_bound(0, 0), NULL) == 0;
    ll_log_credit_trim(l->core->log, &txn->credit);
    return ready;
}

void ll_deferred_leave(struct ll_deferred *l, struct lladd_txn *txn)
{
    txn->n_actions = 0;
    txn->depth = 0;
    ll_core_trace(l->core, "undo: transaction %llu, from LSN %llu on, after open",
                  (unsigned long long)txn->id.v, (unsigned long long)txn->undo_next.v);
    l->left[l->n] = txn;
    lladd_atomic_store64(&l->n, l->n + 1);
}

void ll_deferred_asked(struct ll_core *core)
{
    struct ll_deferred *l = core->losers;
    if (l && l->n == 0) {
        ll_deferred_free(core);
    } else if (l) {
        ll_log_cursor_close(l->cursor);
        l->cursor = NULL;
    }
}

/* ---- after open --------------------------------------------------------------------------- */

uint64_t ll_deferred_left(const struct ll_core *core)
{
    return core->losers ? lladd_atomic_load64(&core->losers->n) : 0;
}

/* A long undo would fetch most pages anyway. Redo of all pages first, in order, is several times as
 * fast as redo of each page at its fetch. */
void ll_deferred_expect(struct ll_core *core)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    uint64_t bytes = 0, n = ll_deferred_left(core);
    for (uint64_t i = 0; i < n; i++)
        bytes += core->losers->left[i]->undo_used;
    if (bytes > LONG)
        (void)ll_instant_finish(core, &ignored); /* the fetch of a page will report the error */
}

/* Rolls back a part of one loser. Ends the loser if no record is left to undo. */
static int step(struct ll_deferred *l, uint64_t bytes, struct lladd_error *err)
{
    struct ll_core *core = l->core;
    struct lladd_txn *txn = l->left[l->n - 1];
    uint64_t at = txn->undo_next.v;
    int rc = ll_core_check(core, err);
    if (!rc && ll_point(&core->env, "recovery.undo"))
        return ll_fail(err, LLADD_BUSY, "stopped at a named point");
    if (!rc && at && ll_rollback(txn, lladd_lsn_of(at > bytes ? at - bytes : 0)) != 0)
        return ll_core_check(core, err);
    if (rc || txn->undo_next.v)
        return rc;
    if (ll_txn_abort(txn))
        return ll_core_check(core, err);
    (void)lladd_atomic_add64(&core->recovered_undone, 1);
    lladd_atomic_store64(&l->n, l->n - 1);
    return 0;
}

int ll_deferred_step(struct ll_core *core, uint64_t bytes, bool *more, struct lladd_error *err)
{
    struct ll_deferred *l = core->losers;
    uint32_t none = 0;
    int rc = 0;
    *more = ll_deferred_left(core) != 0;
    if (!*more)
        return 0;
    if (lladd_atomic_cas32(&l->stepping, &none, 1)) {
        rc = l->n ? step(l, bytes, err) : 0;
        lladd_atomic_store32(&l->stepping, 0);
    } else {
        lladd_yield();
    }
    *more = ll_deferred_left(core) != 0;
    return rc;
}

void ll_deferred_free(struct ll_core *core)
{
    if (core->losers)
        drop(core->losers);
    core->losers = NULL;
}
