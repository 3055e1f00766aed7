/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space: which part of the segments credit may use, and the undo reserve.
 *
 * Undo reserve (REC-3). After a crash the log does not continue in a segment that was written to
 * (LOG-1), except on a full disk, where no new segment can be made either. The files of *untouched*
 * segments can be reused, however, so the undo reserve is in untouched segments. undo_left counts
 * their unreserved bytes, in eighths; each reserved byte takes one more eighth, for the seals
 * between the CLRs. Credit moves on to the next segment only if undo_left can bear the loss of that
 * segment. Credit for reserved records may always move on, because these records use the reserve
 * up; undo_left may then become negative.
 *
 * Slack. A compensation that a crash interrupts is undone and logged again, for which nothing is
 * reserved. Users therefore leave some more space free, the slack: they cannot reserve it for undo.
 * If reserved records have left less than the slack in untouched segments (undo_floor), users, and
 * the page images of a rollback, get credit only if the slack stays free.
 *
 * The last bytes of a segment (seal_pool) are for seals only, until credit moves on to the next
 * one, so that records that got credit before the disk was full can still be sealed. If even these
 * bytes are used up, groups get no seal, and damage in one more group looks like a torn tail
 * (LOG-3).
 *
 * Threads. With env->threads the log has a worker thread. It keeps two segments preallocated (one
 * more when the undo reserve is low), removes dead files, writes when a megabyte is unwritten and
 * no commit writes it, and syncs for commits that do not wait. It is started when a segment is used
 * up for the first time, when more than two segments are reserved, or when a sync is requested;
 * small and short-lived logs have none. Without a worker, ll_log_maintain or a caller that needs
 * the space makes segments and removes files, and an appender that finds half of the ring unwritten
 * writes it.
 */
#include "log/log_private.h"

/* Segments kept ready after the current one, once a segment was used up: the next, and one for the
 * undo reserve when the next becomes current. */
enum { AHEAD = 2 };
/* Dead files kept for reuse. */
enum { KEEP_DEAD = 2 };

/* ---- granting space ---- */

/* End of the part of the segment that credit may use before it must move on to the next one; the
 * rest is for seals. */
static uint64_t limit_of(const struct ll_log *log, const struct ll_log__seg *seg)
{
    return seg->end - log->seal_pool;
}

/* Adds the segments that an earlier open preallocated to undo_left. */
static void adopt(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    if (!segs->granted)
        return;
    uint64_t ahead = 0;
    for (size_t i = 0; i < segs->live.len; i++) {
        if (ll_log__at(&segs->live, i)->first > segs->granted->first)
            ahead += ll_log__at(&segs->live, i)->end - ll_log__at(&segs->live, i)->first;
    }
    lladd_atomic_add64(&log->undo_left, ahead * LL_LOG__FREE_BYTE);
}

int ll_log__ensure_listed(struct ll_log *log, struct lladd_error *err)
{
    if (log->segs->listed)
        return 0;
    int rc = ll_log__list(log, err);
    if (!rc)
        adopt(log);
    return rc;
}

/* Sets the threshold so that the next segment is made in time for transactions that keep reserving
 * at the present rate. */
static void set_undo_low(struct ll_log *log)
{
    const struct ll_log__seg *in_use = log->segs->granted, *last = ll_log__last(log->segs);
    uint64_t half = (in_use->end - in_use->first) / 2, quarter = (last->end - last->first) / 4;
    lladd_atomic_store64(&log->undo_low, (half > quarter ? half : quarter) * LL_LOG__FREE_BYTE);
}

/* Grants credit from this segment from now on. */
static void grant_from(struct ll_log *log, struct ll_log__seg *seg)
{
    log->segs->granted = seg;
    lladd_atomic_store64(&log->disk_limit, limit_of(log, seg));
    set_undo_low(log);
}

void ll_log__start_granting(struct ll_log *log, struct ll_log__seg *seg)
{
    grant_from(log, seg);
    seg->users++; /* keeps its file open */
    adopt(log);
}

/* What users leave free beside the undo reserve, in eighths: for compensations that crashes
 * interrupt, which are undone and logged again. It is as much as a segment of the smallest size
 * holds, but at most SLACK. */
static uint64_t slack(const struct ll_log *log)
{
    enum { SLACK = 16384 };
    uint64_t room = ll_log__segment_room((uint32_t)log->cfg.segment_min);
    return (room < SLACK ? room : SLACK) * LL_LOG__FREE_BYTE;
}

/* Credit is granted without a further check while undo_left is not below this. When the last
 * segments are in use, users must leave the slack; see beside_undo. */
static void set_floor(struct ll_log *log)
{
    uint64_t rest = slack(log);
    bool enough = (int64_t)lladd_atomic_load64(&log->undo_left) >= (int64_t)rest;
    lladd_atomic_store64(&log->undo_floor, enough ? 0 : rest);
}

/* Subtracts from undo_left, unless it would become less than `rest`. */
static bool take_undo(struct ll_log *log, uint64_t eighths, uint64_t rest)
{
    uint64_t now = lladd_atomic_load64(&log->undo_left);
    do {
        if ((int64_t)now < (int64_t)(eighths + rest))
            return false;
    } while (!lladd_atomic_cas64(&log->undo_left, &now, now - eighths));
    return true;
}

static struct ll_log__seg *next_of(const struct ll_log__segments *segs)
{
    size_t i = segs->live.len;
    while (i > 0 && ll_log__at(&segs->live, i - 1) != segs->granted)
        i--;
    return i < segs->live.len ? ll_log__at(&segs->live, i) : NULL;
}

/* Moves credit on to the next segment if it may, and `rest` stays. Only reserved records may enter
 * the last segment: after a crash on a full disk the log needs an untouched file to continue in. */
static int enter_next(struct ll_log *log, struct ll_log__seg *next, bool reserved, uint64_t rest,
                      bool *entered, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t eighths = (next->end - next->first) * LL_LOG__FREE_BYTE;
    *entered = false;
    int rc = ll_log__open_file(log, next, err);
    if (rc)
        return rc;
    if (!reserved && next == ll_log__last(segs))
        return 0;
    if (!take_undo(log, eighths, rest)) {
        if (!reserved)
            return 0;
        lladd_atomic_sub64(&log->undo_left, eighths);
    }
    set_floor(log);
    next->users++;
    segs->granted->users--; /* the writer is still its user, or has written it */
    grant_from(log, next);
    *entered = true;
    return 0;
}

/* Reserved records may use the last segment to its end when no other can be made. */
static bool last_reserve(struct ll_log *log, uint64_t need)
{
    if (need > log->segs->granted->end)
        return false;
    lladd_atomic_max64(&log->disk_limit, log->segs->granted->end);
    return true;
}

/* Makes a segment after the last one. */
static int go_on(struct ll_log *log, unsigned why, struct lladd_error *err)
{
    uint64_t end = ll_log__last(log->segs)->end;
    int rc = ll_log__seg_create(log, end, end, why, err);
    if (!rc && log->segs->granted) {
        set_undo_low(log);
        set_floor(log);
    }
    return rc;
}

/* If credit reaches `to` in the current segment, is there still space for the undo reserve and the
 * rest? */
static bool beside_undo(const struct ll_log *log, uint64_t to, uint64_t rest)
{
    uint64_t limit = limit_of(log, log->segs->granted);
    int64_t here = to <= limit ? (int64_t)(limit - to) : 0;
    return (int64_t)lladd_atomic_load64(&log->undo_left) + here * LL_LOG__FREE_BYTE >=
           (int64_t)rest;
}

/* Takes one step towards credit up to `need`: moves on to the next segment, or makes one. *enough:
 * no step is needed. */
static int advance(struct ll_log *log, uint64_t need, enum ll_log__claim claim, bool *enough,
                   struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    bool reserved = claim == LL_LOG__RESERVED;
    uint64_t rest = claim == LL_LOG__USERS ? slack(log) : 0;
    bool reached = need <= lladd_atomic_load64(&log->disk_limit);
    *enough = reached && (reserved || beside_undo(log, need, rest));
    if (*enough)
        return 0;
    struct ll_log__seg *next = next_of(segs);
    bool entered = false;
    int rc = next && !reached ? enter_next(log, next, reserved, rest, &entered, err) : 0;
    if (rc || entered)
        return rc;
    rc = go_on(log, claim == LL_LOG__USERS ? LL_LOG__NEEDED : LL_LOG__OWED, err);
    if (rc && reserved && !next_of(segs) && last_reserve(log, need))
        rc = 0;
    return rc;
}

int ll_log__disk_room(struct ll_log *log, uint64_t bytes, enum ll_log__claim claim,
                      enum ll_log__grant *grant, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (log->life != LL_LOG__READY)
        return ll_fail(err, log->cfg.read_only ? LLADD_READ_ONLY : LLADD_BAD_STATE,
                       "the log is not ready for records");
    lladd_mutex_lock(&segs->mutex);
    int rc = ll_log__ensure_listed(log, err);
    bool enough = false;
    while (!rc && !enough)
        rc = advance(log, lladd_atomic_load64(&log->granted) + bytes, claim, &enough, err);
    if (!rc) {
        *grant = ll_log__try_grant(log, bytes, true);
        ll_log__wake_worker(log);
    }
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

/* A seal may use the part of the undo reserve that is kept for seals, not the rest. */
static bool seal_beside_undo(const struct ll_log *log, uint64_t to)
{
    const struct ll_log__segments *segs = log->segs;
    int64_t left = (int64_t)lladd_atomic_load64(&log->undo_left);
    if (left >= 0)
        return true;
    uint64_t here = segs->granted->end - to;
    uint64_t ahead = ll_log__last(segs)->end - segs->granted->end;
    return left + (int64_t)(here * LL_LOG__UNDO_BYTE + ahead) >= 0;
}

bool ll_log__disk_room_now(struct ll_log *log, uint64_t to)
{
    struct ll_log__segments *segs = log->segs;
    bool entered = true;
    lladd_mutex_lock(&segs->mutex);
    while (to > segs->granted->end && entered) {
        struct ll_log__seg *next = next_of(segs);
        if (!next || enter_next(log, next, false, 0, &entered, NULL) != 0)
            entered = false;
    }
    bool room = to <= segs->granted->end && seal_beside_undo(log, to);
    lladd_mutex_unlock(&segs->mutex);
    return room;
}

/* ---- undo reserve ---- */

/* `rest`: what stays free, in eighths. `here`: free space of the current segment counts, too. */
static int reserve_undo_slow(struct ll_log *log, uint64_t need, uint64_t rest, unsigned owed,
                             bool here, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (log->life != LL_LOG__READY)
        return ll_fail(err, log->cfg.read_only ? LLADD_READ_ONLY : LLADD_BAD_STATE,
                       "the log is not ready for records");
    lladd_mutex_lock(&segs->mutex);
    int rc = ll_log__check(log, err);
    if (!rc)
        rc = ll_log__ensure_listed(log, err);
    while (!rc && !take_undo(log, need, rest)) {
        if (here) {
            lladd_atomic_sub64(&log->undo_left, need);
            if (beside_undo(log, lladd_atomic_load64(&log->granted), rest))
                break;
            lladd_atomic_add64(&log->undo_left, need);
        }
        rc = go_on(log, LL_LOG__FOR_UNDO | owed, err);
    }
    /* Only users leave the slack beside the reserve. */
    if (owed || here)
        set_floor(log);
    if (!rc && !here && segs->live.len > AHEAD) /* the worker preallocates the following ones */
        ll_log__wake_worker(log);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

static int reserve_undo(struct ll_log *log, uint64_t bytes, uint64_t rest, unsigned owed,
                        bool here, struct lladd_error *err)
{
    if (bytes >= LL_LOG_LSN_END / 16)
        return ll_fail(err, LLADD_TOO_LARGE, "an undo of %llu bytes", (unsigned long long)bytes);
    return reserve_undo_slow(log, bytes * LL_LOG__UNDO_BYTE, rest, owed, here, err);
}

int ll_log_undo_reserve(struct ll_log *log, uint64_t bytes, struct lladd_error *err)
{
    uint64_t rest = slack(log);
    if (LL_LIKELY(bytes < LL_LOG_LSN_END / 16 && take_undo(log, bytes * LL_LOG__UNDO_BYTE, rest)))
        return ll_log__check(log, err);
    return reserve_undo(log, bytes, rest, 0, false, err);
}

int ll_log_undo_reserve_owed(struct ll_log *log, uint64_t bytes, struct lladd_error *err)
{
    return reserve_undo(log, bytes, 0, LL_LOG__OWED, false, err);
}

int ll_log_undo_reserve_recovery(struct ll_log *log, uint64_t bytes, bool spare,
                                 struct lladd_error *err)
{
    int rc = reserve_undo(log, bytes, 0, LL_LOG__OWED, true, err);
    if (rc || !spare)
        return rc;
    uint64_t more = ll_log__segment_room(log->segs->granted->size);
    rc = reserve_undo(log, more, 0, 0, true, err);
    if (rc == LLADD_LOG_FULL) { /* but the disk may be full, too */
        more = slack(log) / LL_LOG__UNDO_BYTE;
        rc = reserve_undo(log, more, 0, LL_LOG__OWED, true, err);
    }
    ll_log_undo_release(log, rc ? bytes : more);
    return rc;
}

void ll_log_undo_reserve_short(struct ll_log *log, uint64_t bytes)
{
    lladd_mutex_lock(&log->segs->mutex);
    lladd_atomic_sub64(&log->undo_left, bytes * LL_LOG__UNDO_BYTE);
    set_floor(log);
    lladd_mutex_unlock(&log->segs->mutex);
}

void ll_log_undo_release(struct ll_log *log, uint64_t bytes)
{
    lladd_atomic_add64(&log->undo_left, bytes * LL_LOG__UNDO_BYTE);
}

/* ---- truncation and background work ---- */

int ll_log_truncate(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (log->cfg.read_only)
        return ll_fail(err, LLADD_READ_ONLY, "the log is open for reading");
    lladd_mutex_lock(&segs->mutex);
    int rc = ll_log__ensure_listed(log, err);
    if (!rc && lsn.v > segs->truncated)
        segs->truncated = lsn.v;
    uint64_t below = segs->truncated;
    /* ll_log_start forces what the scan accepted before it looks for space. */
    uint64_t durable = log->life == LL_LOG__READY ? lladd_atomic_load64(&log->durable)
                                                  : log->scan_end;
    if (below > durable)
        below = durable;
    while (!rc && segs->live.len > 1) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, 0);
        /* A cut may have ended the segment before its capacity. */
        if (ll_log__at(&segs->live, 1)->cut > below || seg == segs->granted || seg->first >= below)
            break;
        rc = ll_vec_append(&segs->dead, &seg, 1);
        if (rc) {
            rc = ll_fail(err, rc, "no memory for the list of log segments");
            break;
        }
        ll_log__seg_retire(log, seg);
        ll_vec_remove(&segs->live, 0);
    }
    if (segs->live.len > 0 && segs->chain < ll_log__at(&segs->live, 0)->first)
        segs->chain = ll_log__at(&segs->live, 0)->first;
    /* Owed records may have exceeded the limit; free the excess as soon as possible. If a file
     * cannot be removed now, removal is retried when the next segment is made. */
    int removed = 0;
    while (!rc && ll_log__over_limit(log) && ll_log__remove_dead(log, &removed, NULL)) {
    }
    ll_log__note_scarce(log);
    segs->gave_up = false;
    lladd_cond_broadcast(&segs->changed);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

bool ll_log_would_free(struct ll_log *log, lladd_lsn lsn)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    bool would = ll_log__ensure_listed(log, NULL) == 0 && segs->live.len > 1;
    if (would) {
        const struct ll_log__seg *oldest = ll_log__at(&segs->live, 0);
        would = oldest != segs->granted && oldest->first < lsn.v &&
                ll_log__at(&segs->live, 1)->cut <= lsn.v;
    }
    lladd_mutex_unlock(&segs->mutex);
    return would;
}

lladd_lsn ll_log_oldest(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    /* After a clean stop the directory may not be listed yet. If listing fails, return 0, as if no
     * log were missing: a caller that reads it gets the error. */
    uint64_t oldest = ll_log__ensure_listed(log, NULL) ? 0 : segs->chain;
    lladd_mutex_unlock(&segs->mutex);
    return lladd_lsn_of(oldest);
}

static size_t ahead(const struct ll_log__segments *segs)
{
    size_t n = 0;
    for (size_t i = segs->live.len; i > 0 && ll_log__at(&segs->live, i - 1) != segs->granted; i--)
        n++;
    return n;
}

/* Would another preallocated segment leave enough of the byte limit to callers that need it now? */
static bool may_preallocate(const struct ll_log *log, unsigned why)
{
    const struct ll_log__segments *segs = log->segs;
    uint64_t limit = log->cfg.limit_bytes;
    return limit == 0 || ll_log__live_bytes(segs) + ll_log__next_size(log, true, why) <= limit / 2;
}

/* Does one step of background work, if there is one. Under the mutex. */
static int step(struct ll_log *log, bool *did, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    int rc = 0;
    *did = false;
    if (!segs->listed || !segs->granted || segs->creating)
        return 0;
    bool low = ll_log__undo_is_low(log);
    unsigned why = low ? LL_LOG__AHEAD | LL_LOG__FOR_UNDO : LL_LOG__AHEAD;
    if ((low || ahead(segs) < AHEAD) && !segs->gave_up && may_preallocate(log, why)) {
        rc = go_on(log, why, err);
        segs->gave_up = rc != 0;
        *did = rc == 0;
    } else if (segs->dead.len > KEEP_DEAD || ll_log__has_useless(log)) {
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

/* Writes if much is unwritten, while appends continue. A failure poisons the log, so the error
 * reaches the callers that need the write. Releases the mutex meanwhile. */
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

/* Syncs what ll_log_force_soon asked for. Releases the mutex meanwhile. A failure poisons the log,
 * so the error reaches the callers that need durability. */
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
        /* Notes calls that arrive while this thread works without the mutex. */
        uint64_t heard = segs->calls;
        bool did = sync_some(log) || write_some(log);
        /* The error is ignored: a caller that needs the space asks for it and gets the error. */
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

void ll_log_stats(struct ll_log *log, struct ll_log_stats *out)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t free_eighths = 0;
    lladd_mutex_lock(&segs->mutex);
    (void)ll_log__ensure_listed(log, NULL); /* if that fails, unlisted segments are not counted */
    out->segments = segs->live.len + segs->dead.len;
    out->segment_bytes = segs->disk_bytes;
    for (size_t i = segs->live.len;
         segs->granted && ll_log__at(&segs->live, i - 1) != segs->granted; i--)
        free_eighths +=
            (ll_log__at(&segs->live, i - 1)->end - ll_log__at(&segs->live, i - 1)->first) *
            LL_LOG__FREE_BYTE;
    int64_t left = (int64_t)lladd_atomic_load64(&log->undo_left);
    out->undo_reserved = (uint64_t)((int64_t)free_eighths - left) / LL_LOG__UNDO_BYTE;
    lladd_mutex_unlock(&segs->mutex);
    out->bytes = lladd_atomic_load64(&log->tail) - log->first_lsn;
    out->records = lladd_atomic_load64_relaxed(&log->records);
    out->groups = lladd_atomic_load64_relaxed(&log->groups);
    out->syncs = lladd_atomic_load64_relaxed(&log->syncs);
    out->writes = lladd_atomic_load64_relaxed(&log->writes);
    out->bytes_written = lladd_atomic_load64_relaxed(&log->bytes_written);
    out->waits_for_space = lladd_atomic_load64_relaxed(&log->waits);
}
