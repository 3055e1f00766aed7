/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker: the log's thread, and the same work for logs without a thread.
 *
 * With env->threads the log may have a worker thread. The worker keeps two segments preallocated,
 * makes more while the undo reserve is low (both within half of the byte limit), and removes dead
 * files except two. It writes when more than a mebibyte is unwritten and no other thread is
 * writing, and syncs for ll_log_force_soon. The worker is started when it is first needed. It is
 * needed when a segment is used up, when no segment is left for the credit of page images, when the
 * undo reserve needs more segments, or when a sync is requested. ll_log_maintain does the same work
 * with segments and dead files. A caller that needs space and finds no segment makes one.
 */
#include "log/log_private.h"

/* Dead files kept for reuse. */
enum { KEEP_DEAD = 2 };

static size_t ahead(const struct ll_log__segments *segs)
{
    size_t n = 0;
    for (size_t i = segs->live.len; i > 0 && ll_log__at(&segs->live, i - 1) != segs->granted; i--)
        n++;
    return n;
}

/* Would the log with another preallocated segment take at most half of the byte limit? The other
 * half is left to callers that need a segment now. */
static bool may_preallocate(const struct ll_log *log, unsigned why)
{
    const struct ll_log__segments *segs = log->segs;
    uint64_t limit = log->cfg.limit_bytes;
    return limit == 0 || ll_log__live_bytes(segs) + ll_log__next_size(log, true, why) <= limit / 2;
}

static bool has_excess(const struct ll_log *log)
{
    return log->segs->dead.len > KEEP_DEAD || ll_log__has_useless(log);
}

/* *did: there was work, and it succeeded. Under the mutex. */
static int step(struct ll_log *log, bool *did, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    int rc = 0;
    *did = false;
    if (!segs->listed || !segs->granted || segs->creating)
        return 0;
    bool low = ll_log__undo_is_low(log);
    unsigned why = low ? LL_LOG__AHEAD | LL_LOG__FOR_UNDO : LL_LOG__AHEAD;
    if ((low || ahead(segs) < LL_LOG__KEPT_AHEAD) && !segs->gave_up && may_preallocate(log, why)) {
        rc = ll_log__add_segment(log, why, err);
        segs->gave_up = rc != 0;
        *did = rc == 0;
    } else if (has_excess(log)) {
        *did = ll_log__remove_dead(log, &rc, err);
    }
    return rc;
}

int ll_log_maintain(struct ll_log *log, bool *more, struct lladd_error *err)
{
    bool did = false;
    int rc = ll_log__check(log, err);
    *more = false;
    if (rc)
        return rc;
    lladd_mutex_lock(&log->segs->mutex);
    rc = step(log, &did, err);
    lladd_mutex_unlock(&log->segs->mutex);
    *more = did;
    return rc;
}

/* Writes if much is unwritten. A failure poisons the database, so the error reaches the callers
 * that need the write. Releases the mutex meanwhile. */
static bool write_some(struct ll_log *log)
{
    bool progress = false;
    int rc;
    if (ll_log__unwritten(log) <= LL_LOG__MUCH || ll_log__check(log, NULL))
        return false;
    lladd_mutex_unlock(&log->segs->mutex);
    (void)ll_log__write_unless_busy(log, &progress, NULL, &rc);
    lladd_mutex_lock(&log->segs->mutex);
    return progress;
}

/* Syncs what ll_log_force_soon asked for. Releases the mutex meanwhile. Errors as in write_some. */
static bool sync_some(struct ll_log *log)
{
    uint64_t wanted = log->segs->wanted;
    if (wanted <= lladd_atomic_load64(&log->durable) || ll_log__check(log, NULL))
        return false;
    lladd_mutex_unlock(&log->segs->mutex);
    (void)ll_log_force(log, lladd_lsn_of(wanted - 1), NULL);
    lladd_mutex_lock(&log->segs->mutex);
    return true;
}

bool ll_log_force_soon(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    segs->wanted = lladd_atomic_load64(&log->tail);
    ll_log__wake_worker(log);
    bool will = segs->thread.started;
    lladd_mutex_unlock(&segs->mutex);
    return will;
}

void ll_log__ask_worker(struct ll_log *log)
{
    lladd_mutex_lock(&log->segs->mutex);
    log->segs->calls++;
    lladd_cond_broadcast(&log->segs->changed);
    lladd_mutex_unlock(&log->segs->mutex);
}

static void *worker(void *arg)
{
    struct ll_log *log = arg;
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    while (!segs->stop) {
        /* The work releases the mutex. A call meanwhile changes `calls`, so `heard` differs. */
        uint64_t heard = segs->calls;
        bool did = sync_some(log) || write_some(log);
        /* An error is ignored: a caller that needs the space will ask for it and get the error. */
        if (!did)
            (void)step(log, &did, NULL);
        if (!did && !segs->stop && segs->calls == heard) {
            lladd_atomic_store32(&segs->idle, 1);
            lladd_cond_wait(&segs->changed, &segs->mutex);
            lladd_atomic_store32(&segs->idle, 0);
        }
    }
    lladd_mutex_unlock(&segs->mutex);
    return NULL;
}

void ll_log__wake_worker(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    LL_ASSERT(lladd_mutex_mine(&segs->mutex));
    if (!log->env->threads || segs->stop)
        return;
    /* No error: without a thread the log is slower, not wrong. */
    if (!segs->thread.started)
        (void)lladd_thread_start(&segs->thread, worker, log);
    segs->calls++;
    lladd_cond_broadcast(&segs->changed);
}

void ll_log__stop_worker(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    segs->stop = true;
    lladd_atomic_store32(&segs->hurry, 1);
    lladd_cond_broadcast(&segs->changed);
    lladd_mutex_unlock(&segs->mutex);
    lladd_thread_join(&segs->thread);
}

void ll_log__remove_excess(struct ll_log *log)
{
    int rc = 0;
    lladd_mutex_lock(&log->segs->mutex);
    while (has_excess(log) && ll_log__remove_dead(log, &rc, NULL)) {
    }
    lladd_mutex_unlock(&log->segs->mutex);
}
