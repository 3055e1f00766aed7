/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space: decides which part of the segments credit may use.
 *
 * The last bytes of a segment (seal_pool) are for seals, until credit moves on to the next segment.
 * So records that got credit before the disk was full can still be sealed. (As a last resort
 * reserved records use these bytes, too: last_reserve.) Once these bytes are used up, groups get no
 * seal. Then damage in the group before the newest group cannot be told from a torn tail, either
 * (LOG-3).
 */
#include "log/log_private.h"

#include <lladd/dst.h>

static uint64_t limit_of(const struct ll_log *log, const struct ll_log__seg *seg)
{
    return seg->end - log->seal_pool;
}

/* Adds to undo_left the bytes of segments that an earlier open preallocated. */
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

/* Sets undo_low high enough that the next segment is usually ready before transactions have
 * reserved the rest. */
static void set_undo_low(struct ll_log *log)
{
    const struct ll_log__seg *in_use = log->segs->granted, *last = ll_log__last(log->segs);
    uint64_t half = (in_use->end - in_use->first) / 2, quarter = (last->end - last->first) / 4;
    lladd_atomic_store64(&log->undo_low, (half > quarter ? half : quarter) * LL_LOG__FREE_BYTE);
}

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

static struct ll_log__seg *next_of(const struct ll_log__segments *segs)
{
    size_t i = segs->live.len;
    while (i > 0 && ll_log__at(&segs->live, i - 1) != segs->granted)
        i--;
    return i < segs->live.len ? ll_log__at(&segs->live, i) : NULL;
}

/* Moves credit on to the next segment if undo_left stays at least `rest`. Credit for reserved
 * records moves on whatever undo_left is. Credit for other records does not enter the last segment:
 * after a crash on a full disk the log needs an untouched file in which it can continue. */
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
    if (!ll_log__take_undo(log, eighths, rest)) {
        if (!reserved)
            return 0;
        lladd_atomic_sub64(&log->undo_left, eighths);
    }
    ll_log__set_undo_floor(log);
    next->users++;
    segs->granted->users--; /* the writer is still a user, or has written all of it */
    grant_from(log, next);
    *entered = true;
    return 0;
}

/* When no other segment can be made, reserved records may use the last segment to its end. */
static bool last_reserve(struct ll_log *log, uint64_t need)
{
    if (need > log->segs->granted->end)
        return false;
    lladd_atomic_max64(&log->disk_limit, log->segs->granted->end);
    return true;
}

int ll_log__add_segment(struct ll_log *log, unsigned why, struct lladd_error *err)
{
    uint64_t end = ll_log__last(log->segs)->end;
    int rc = ll_log__seg_create(log, end, end, why, err);
    if (!rc && log->segs->granted) {
        set_undo_low(log);
        ll_log__set_undo_floor(log);
    }
    return rc;
}

bool ll_log__beside_undo(const struct ll_log *log, uint64_t to, uint64_t rest)
{
    uint64_t limit = limit_of(log, log->segs->granted);
    int64_t here = to <= limit ? (int64_t)(limit - to) : 0;
    return (int64_t)lladd_atomic_load64(&log->undo_left) + here * LL_LOG__FREE_BYTE >=
           (int64_t)rest;
}

/* Would page images take log that the byte limit keeps for transactions? The images, all other log
 * and the undo reserve together may use seven eighths of the users' part of the limit. */
static bool is_for_users(const struct ll_log *log, uint64_t need)
{
    uint64_t limit = log->cfg.limit_bytes;
    uint64_t used = need - log->segs->chain + ll_log__undo_reserved(log);
    return limit && used > (limit - ll_log__kept(log)) / 8 * 7 &&
           !LLADD_PLANTED(LLADD_BUG_LAST_EIGHTH);
}

/* Takes one step towards granting credit up to LSN `need`: moves on to the next segment, or makes
 * one. *enough: no step is needed. */
static int advance(struct ll_log *log, uint64_t need, enum ll_log__claim claim, bool *enough,
                   struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    bool reserved = claim == LL_LOG__RESERVED;
    bool images = claim <= LL_LOG__IMAGES, users = claim <= LL_LOG__USERS;
    if (images && is_for_users(log, need))
        return ll_fail(err, LLADD_LOG_FULL, "no log to spare for page images");
    uint64_t rest = users ? ll_log__slack(log) : 0;
    bool reached = need <= lladd_atomic_load64(&log->disk_limit);
    struct ll_log__seg *next = next_of(segs);
    /* Page images need a spare segment: after them users must still be able to move on. */
    bool spare = !images || (next && next != ll_log__last(segs));
    *enough = reached && spare && (reserved || ll_log__beside_undo(log, need, rest));
    if (*enough)
        return 0;
    bool entered = false;
    int rc = next && !reached && spare ? enter_next(log, next, reserved, rest, &entered, err) : 0;
    if (rc || entered)
        return rc;
    /* A rollback must not wait for images, so no segment is made for them here if the last attempt
     * failed, or if the log's thread can make it. */
    if (images && (segs->gave_up || (claim == LL_LOG__IMAGES_NOW && log->env->threads))) {
        ll_log__wake_worker(log);
        return ll_fail(err, LLADD_NO_SPACE, "no log segment to spare for page images");
    }
    rc = ll_log__add_segment(log, users ? LL_LOG__NEEDED : LL_LOG__OWED, err);
    segs->gave_up |= images && rc;
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

/* A seal may use the eighths of the undo reserve that are meant for seals, but no other part of
 * it. */
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
