/* SPDX-License-Identifier: BSD-2-Clause */
/* Checkpoints in the background: one thread that sleeps until enough log was written since the last
 * one. Before that it finishes what an instant recovery has left of undo, for somebody may be
 * waiting. Handles without threads do the same in lladd_maintain. */
#include "db/db_private.h"

/* So many bytes of log for each byte of pages that are dirty or were imaged since the last one:
 * what a checkpoint costs is that each of them is written, and logged as an image when it changes
 * the next time. (Those that are both count once: where all is cached they are the same.) */
enum { LOG_FOR_DIRTY = 4 };

/* Of the log of losers: so much is undone before somebody looks for what else is to be done. */
enum { UNDO_AT_ONCE = 256 << 10, UNDO_A_STEP = 4 << 10 };

static bool due(const struct ll_core *core)
{
    uint64_t since = ll_log_tail(core->log).v - lladd_atomic_load64(&core->last_checkpoint);
    if (LL_LIKELY(since < core->checkpoint_bytes))
        return false;
    uint64_t dirty = ll_buffer_dirty_count(core->buffer);
    uint64_t imaged = lladd_atomic_load64_relaxed(&core->images) -
                      lladd_atomic_load64_relaxed(&core->images_before);
    return since >= core->checkpoint_most ||
           since / LOG_FOR_DIRTY >= (dirty > imaged ? dirty : imaged) * core->page_size;
}

void ll_background_pressed(struct ll_core *core)
{
    lladd_atomic_store32(&core->pressed, 1);
    lladd_atomic_fence(); /* before the look at `signalled` (rest) */
    ll_background_want(core);
}

/* Is the log near its limit, and can a checkpoint help? Else what holds it has to go first, and
 * one after the other would be taken for nothing. */
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
    if (LL_UNLIKELY(due(&db->core)))
        ll_background_want(&db->core);
}

/* The checkpoint that saves the next crash this recovery: it writes back everything. */
static int settle_recovery(struct ll_core *core, struct lladd_error *err)
{
    int rc = ll_checkpoint(core, true, err);
    if (!rc)
        lladd_atomic_store32(&core->owes_checkpoint, 0);
    return rc;
}

/* What there is to do, or of undo a part. A failure is either the poison, which everybody will see,
 * or a resource: the next wake-up tries again, and whoever runs into the log's limit gets the
 * error. *more: and then all that one was woken for. */
static int work(struct ll_core *core, bool *more)
{
    struct lladd_error ignored = LLADD_ERROR_INIT;
    bool left;
    *more = ll_deferred_left(core) != 0;
    if (*more)
        return ll_deferred_step(core, UNDO_AT_ONCE, &left, &ignored);
    if (lladd_atomic_load32(&core->owes_checkpoint))
        return settle_recovery(core, &ignored);
    bool near = pressed(core);
    return near || due(core) ? ll_checkpoint(core, near, &ignored) : 0;
}

/* The checkpointer is about to sleep. The thread that found the log near its limit meanwhile woke
 * nothing, for it saw `signalled`: it sees that reset, or is seen here. Under `wake_mutex`. */
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
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_may_checkpoint(db, err, "lladd_checkpoint");
    return rc ? rc : ll_checkpoint(&db->core, true, err);
}

/* Some of the undo that instant recovery has left; then some pages, and the checkpoint when there
 * are none any more. */
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
    int rc = ll_db_enter(db, err);
    if (!rc)
        rc = ll_db_may_checkpoint(db, err, "lladd_maintain");
    if (more)
        *more = false;
    /* A page that cannot be redone is said, but is no reason to leave the rest undone. */
    bool alone = !lladd_atomic_load32(&db->checkpoints_on);
    int behind = !rc && alone ? recover_some(&db->core, &redo_more, err) : 0;
    if (behind && lladd_code_root(behind) != LLADD_ROOT_DATA)
        rc = behind;
    if (!rc && !behind && !lladd_atomic_load32(&db->signalled)) {
        bool near = alone && pressed(&db->core);
        rc = near || due(&db->core) ? ll_checkpoint(&db->core, near, err) : 0;
    }
    if (!rc)
        rc = ll_log_maintain(db->core.log, &log_more, err);
    if (!rc)
        rc = ll_buffer_step(db->core.buffer, &pages_more, err);
    if (!rc)
        ll_txns_drain(&db->core);
    if (!rc && more)
        *more = log_more || pages_more || redo_more;
    return rc ? rc : behind;
}
