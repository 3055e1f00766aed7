/* SPDX-License-Identifier: BSD-2-Clause */
/* The background checkpointer: a thread that takes a checkpoint after much log, or when the log is
 * near its byte limit. After an instant recovery the thread first finishes the deferred undo,
 * because transactions may be waiting for the losers' locks. Without threads lladd_maintain does
 * the same work.
 *
 * A checkpoint that is due makes pauses, so that its writes and images do not slow down the
 * transactions all at once. It spreads its pages over half of the interval until the next
 * checkpoint is due. This interval has a length in log bytes and a length in time, and the shorter
 * one counts. The checkpoint makes no pause while the log fills, while the database is being
 * closed, or while a thread waits for the checkpoint. */
#include "db/db_private.h"

/* A checkpoint is due when the log since the last checkpoint has reached checkpoint_bytes and is
 * large compared with two sets of pages: the dirty pages, and the pages that were logged as images
 * since the last checkpoint. The log must have at least LOG_FOR_DIRTY times as many bytes as each
 * of these sets. When the log since the last checkpoint has reached checkpoint_most, a checkpoint
 * is due in any case. A checkpoint that is due writes only the pages that have been dirty since
 * before the previous checkpoint, most of them with an image. */
enum { LOG_FOR_DIRTY = 4 };

/* Bytes of losers' log that one step undoes: UNDO_AT_ONCE in the background, UNDO_A_STEP in
 * lladd_maintain. */
enum { UNDO_AT_ONCE = 256 << 10, UNDO_A_STEP = 4 << 10 };

/* In nanoseconds: the longest interval that is assumed between two checkpoints, and the longest
 * wait in a pause. A checkpoint is spread over half of the interval. */
#define PACED_MOST (UINT64_C(300) * 1000000000)
#define PAUSE_MOST (UINT64_C(100) * 1000000)

/* Does the log in use exceed half of the byte limit, together with the dirty pages? Each dirty page
 * may become an image in the log. At the limit, pages are written without images, and such writes
 * are slow. The answer is false until the log has grown by log_growth after the last checkpoint,
 * and by log_growth after wanted() last found that a checkpoint would free no log. */
static bool fills(struct ll_core *core, uint64_t since)
{
    uint64_t limit = ll_db_of(core)->log_limit_bytes, tail = ll_log_tail(core->log).v;
    if (LL_LIKELY(since < core->log_growth) || limit == UINT64_MAX ||
        tail - lladd_atomic_load64(&core->filled_in_vain) < core->log_growth)
        return false;
    uint64_t used = tail - ll_log_oldest(core->log).v;
    return used + ll_buffer_dirty_count(core->buffer) * core->page_size > limit / 2;
}

static bool due(const struct ll_core *core, uint64_t since)
{
    if (LL_LIKELY(since < core->checkpoint_bytes))
        return false;
    uint64_t dirty = ll_buffer_dirty_count(core->buffer);
    uint64_t imaged = lladd_atomic_load64_relaxed(&core->images) -
                      lladd_atomic_load64_relaxed(&core->images_before);
    return since >= core->checkpoint_most ||
           since / LOG_FOR_DIRTY >= (dirty > imaged ? dirty : imaged) * core->page_size;
}

static uint64_t log_since_checkpoint(const struct ll_core *core)
{
    return ll_log_tail(core->log).v - lladd_atomic_load64(&core->last_checkpoint);
}

/* Is a checkpoint due? A log that fills is a reason only if a checkpoint would free log. A pin or a
 * transaction may prevent that. */
static bool wanted(struct ll_core *core)
{
    uint64_t since = log_since_checkpoint(core);
    bool full = fills(core, since);
    if (full && !ll_checkpoint_frees(core)) {
        lladd_atomic_store64(&core->filled_in_vain, ll_log_tail(core->log).v);
        full = false;
    }
    return full || due(core, since);
}

void ll_background_pressed(void *ctx)
{
    struct ll_core *core = ctx;
    lladd_atomic_store32(&core->pressed, 1);
    lladd_atomic_fence(); /* before ll_background_want reads `signalled` (see rest()) */
    ll_background_want(core);
    ll_background_hurry(core);
}

/* Is the log near its byte limit, and would a checkpoint let the log be truncated? */
static bool pressed(struct ll_core *core)
{
    if (!lladd_atomic_load32(&core->pressed))
        return false;
    if (ll_checkpoint_frees(core))
        return true;
    lladd_atomic_store32(&core->pressed, 0);
    return false;
}

void ll_background_want(struct ll_core *core)
{
    struct lladd_db *db = ll_db_of(core);
    if (!lladd_atomic_load32(&db->checkpoints_on) || lladd_atomic_load32(&db->signalled))
        return;
    lladd_mutex_lock(&db->wake_mutex);
    db->wanted = true;
    lladd_atomic_store32(&db->signalled, 1);
    lladd_cond_signal(&db->wake);
    lladd_mutex_unlock(&db->wake_mutex);
}

void ll_background_poll(struct lladd_db *db)
{
    uint64_t since = log_since_checkpoint(&db->core);
    if (LL_UNLIKELY(due(&db->core, since) || fills(&db->core, since)))
        ll_background_want(&db->core);
}

void ll_background_hurry(struct ll_core *core)
{
    struct lladd_db *db = ll_db_of(core);
    if (!lladd_atomic_look32(&db->pausing))
        return;
    lladd_mutex_lock(&db->wake_mutex);
    lladd_cond_signal(&db->wake);
    lladd_mutex_unlock(&db->wake_mutex);
}

/* Is the checkpoint ahead of its schedule? Yes, if it has pages left to write, and the share of its
 * pages that are written is larger than the share of its time that has passed. Its time is half of
 * the interval between two checkpoints. */
static bool ahead(struct lladd_db *db)
{
    struct ll_core *core = &db->core;
    uint64_t written = lladd_atomic_load64(&core->flush.written);
    uint64_t pages = lladd_atomic_load64(&core->flush.pages);
    double bytes = (double)(ll_log_tail(core->log).v - db->paced_tail) / (double)db->paced_bytes;
    double ns = (double)(ll_now_ns(&core->env) - db->paced_ns) / (double)db->paced_span;
    return written < pages && (double)written > 2 * (bytes > ns ? bytes : ns) * (double)pages;
}

/* Makes one pause if there is reason for one. `full`: the log fills. */
static bool pause_once(struct lladd_db *db, bool full)
{
    struct ll_core *core = &db->core;
    lladd_mutex_lock(&db->wake_mutex);
    /* `pausing` is set before `pressed` and `checkpoint_waiters` are read. So a thread that changes
     * one of them later reads `pausing` as 1 and ends the pause. */
    (void)lladd_atomic_exchange32(&db->pausing, 1);
    bool pause = !full && !db->stopping && !lladd_atomic_look32(&core->pressed) &&
                 !lladd_atomic_look32(&core->checkpoint_waiters) && ahead(db) &&
                 ll_point(&core->env, "checkpoint.pause") == 0;
    if (pause)
        (void)lladd_cond_wait_for(&db->wake, &db->wake_mutex, PAUSE_MOST);
    lladd_atomic_store32(&db->pausing, 0);
    lladd_mutex_unlock(&db->wake_mutex);
    return pause;
}

void ll_background_pace(void *ctx)
{
    struct ll_core *core = ctx;
    while (pause_once(ll_db_of(core), fills(core, log_since_checkpoint(core))))
        continue;
}

/* Takes the checkpoint that checkpoint_recovery (db/open.c) has postponed. */
static int settle_recovery(struct ll_core *core, struct lladd_error *err)
{
    int rc = ll_checkpoint(core, LL_CHECKPOINT_ALL, err);
    if (!rc)
        lladd_atomic_store32(&core->owes_checkpoint, 0);
    return rc;
}

static int take_due(struct ll_core *core, struct lladd_error *err)
{
    struct lladd_db *db = ll_db_of(core);
    db->paced_tail = ll_log_tail(core->log).v;
    db->paced_ns = ll_now_ns(&core->env);
    db->paced_bytes = db->paced_tail - lladd_atomic_load64(&core->last_checkpoint) + 1;
    db->paced_span = db->paced_ns - lladd_atomic_load64(&core->checkpoint_ns) + 1;
    if (db->paced_span > PACED_MOST)
        db->paced_span = PACED_MOST;
    return ll_checkpoint(core, LL_CHECKPOINT_PACED, err);
}

/* Does one step of deferred undo or, if none is left, the checkpoint that is due. *more: call
 * again. If an error poisons the handle, every later call reports it. After any other error, the
 * next wake-up tries again, and a writer that reaches the byte limit reports the cause. */
static int work(struct ll_core *core, bool *more)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    bool left;
    *more = ll_deferred_left(core) != 0;
    if (*more)
        return ll_deferred_step(core, UNDO_AT_ONCE, &left, &ignored);
    if (lladd_atomic_load32(&core->owes_checkpoint))
        return settle_recovery(core, &ignored);
    if (pressed(core))
        return ll_checkpoint(core, LL_CHECKPOINT_ALL, &ignored);
    return wanted(core) ? take_due(core, &ignored) : 0;
}

/* Called with `wake_mutex`, before the checkpointer sleeps. A thread that finds the log near its
 * byte limit sets `pressed`, but sends no wake-up while `signalled` is set. Both threads have a
 * memory fence between their store and their load. So either the other thread reads `signalled` as
 * 0 and sends a wake-up, or this thread reads `pressed` as 1 and goes on unless rc is an error. */
static void rest(struct lladd_db *db, int rc)
{
    lladd_atomic_store32(&db->signalled, 0);
    lladd_atomic_fence();
    if (rc || !lladd_atomic_load32(&db->core.pressed))
        return;
    db->wanted = true;
    lladd_atomic_store32(&db->signalled, 1);
}

static void *checkpointer(void *arg)
{
    struct lladd_db *db = arg;
    ll_deferred_expect(&db->core);
    lladd_mutex_lock(&db->wake_mutex);
    while (!db->stopping) {
        if (!db->wanted) {
            lladd_cond_wait(&db->wake, &db->wake_mutex);
            continue;
        }
        db->wanted = false;
        lladd_mutex_unlock(&db->wake_mutex);
        bool more;
        int rc = work(&db->core, &more);
        lladd_mutex_lock(&db->wake_mutex);
        db->wanted = db->wanted || (more && !rc);
        if (!db->wanted)
            rest(db, rc);
        if (rc && lladd_code_root(rc) == LLADD_ROOT_POISONED)
            break;
    }
    lladd_mutex_unlock(&db->wake_mutex);
    return NULL;
}

int ll_background_start(struct lladd_db *db, struct lladd_error *err)
{
    if (!db->core.env.threads)
        return 0;
    lladd_atomic_store32(&db->checkpoints_on, 1);
    if (lladd_thread_start(&db->checkpointer, checkpointer, db)) {
        lladd_atomic_store32(&db->checkpoints_on, 0);
        return ll_fail(err, LLADD_NO_THREAD, "the checkpointer could not be started");
    }
    return 0;
}

void ll_background_stop(struct lladd_db *db)
{
    if (!db->checkpointer.started)
        return;
    lladd_mutex_lock(&db->wake_mutex);
    db->stopping = true;
    lladd_cond_signal(&db->wake);
    lladd_mutex_unlock(&db->wake_mutex);
    lladd_atomic_store32(&db->core.instant_stop, 1);
    lladd_thread_join(&db->checkpointer);
    lladd_atomic_store32(&db->core.instant_stop, 0);
    lladd_atomic_store32(&db->checkpoints_on, 0);
}

int lladd_checkpoint(struct lladd_db *db, struct lladd_error *err)
{
    int rc = ll_db_enter_checkpoint(db, err, "lladd_checkpoint");
    return rc ? rc : ll_checkpoint(&db->core, LL_CHECKPOINT_ALL, err);
}

/* Does one step of deferred undo. When undo is complete, does one step of pending redo. After the
 * last page, takes the postponed checkpoint. */
static int recover_some(struct ll_core *core, bool *more, struct lladd_error *err)
{
    enum { PAGES = 16 };
    if (!lladd_atomic_load32(&core->owes_checkpoint) && !ll_deferred_left(core))
        return 0;
    int rc = ll_deferred_step(core, UNDO_A_STEP, more, err);
    if (rc || *more)
        return rc;
    if (!lladd_atomic_load32(&core->owes_checkpoint))
        return 0;
    rc = ll_instant_left(core) ? ll_instant_step(core, PAGES, more, err) : 0;
    return rc || *more ? rc : settle_recovery(core, err);
}

int lladd_maintain(struct lladd_db *db, bool *more, struct lladd_error *err)
{
    bool log_more = false, pages_more = false, redo_more = false;
    int rc = ll_db_enter_checkpoint(db, err, "lladd_maintain");
    if (more)
        *more = false;
    /* If a step of recovery fails without poisoning, or a checkpoint lacks a resource, this call
     * does the work on the log and the page cache nevertheless, and then returns the error. */
    bool alone = !lladd_atomic_load32(&db->checkpoints_on);
    int pending_rc = !rc && alone ? recover_some(&db->core, &redo_more, err) : 0;
    if (lladd_code_root(pending_rc) == LLADD_ROOT_POISONED)
        rc = pending_rc;
    if (!rc && !pending_rc && !lladd_atomic_load32(&db->signalled)) {
        bool near = alone && pressed(&db->core);
        int taken = 0;
        if (near || wanted(&db->core))
            taken = ll_checkpoint(&db->core, near ? LL_CHECKPOINT_ALL : LL_CHECKPOINT_DUE, err);
        if (lladd_code_root(taken) == LLADD_ROOT_RESOURCE)
            pending_rc = taken;
        else
            rc = taken;
    }
    if (!rc)
        rc = ll_log_maintain(db->core.log, &log_more, err);
    if (!rc)
        rc = ll_buffer_step(db->core.buffer, &pages_more, err);
    if (!rc)
        ll_txns_drain(&db->core);
    if (!rc && more)
        *more = log_more || pages_more || redo_more;
    return rc ? rc : pending_rc;
}
