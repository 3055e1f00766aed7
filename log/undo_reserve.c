/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * undo_reserve: reserves log space for undo before it is needed (REC-3).
 *
 * Normally the log does not continue after a crash in a segment that was written to (LOG-1), and on
 * a full disk no new segment can be made. But the files of *untouched* segments can always be
 * reused. The undo reserve therefore consists of space in untouched segments: those above the
 * segment from which credit is granted. undo_left counts their unreserved bytes, in eighths of a
 * byte: a free byte adds 8 eighths, and a reserved byte takes 9. The ninth eighth is for the seals
 * between the CLRs. When credit moves on to the next segment, undo_left loses the bytes of that
 * segment. Credit for users moves on only if the slack (below) stays free, and credit for owed
 * records only if undo_left does not become negative. Credit for reserved records may always move
 * on, because these records consume the reserve; undo_left may then become negative.
 *
 * Slack. A compensation that a crash interrupts is undone and logged again, and no space is
 * reserved for this. Users (callers without owed or reserved records) therefore cannot reserve the
 * last bytes, the slack. If reserved records have left less than the slack in untouched segments,
 * users and the page images of a rollback get credit only if the slack stays free (undo_floor).
 */
#include "log/log_private.h"

/* In eighths of a byte: as much as a segment of the smallest size holds, but at most SLACK. */
uint64_t ll_log__slack(const struct ll_log *log)
{
    enum { SLACK = 16384 };
    uint64_t room = ll_log__segment_room((uint32_t)log->cfg.segment_min);
    return (room < SLACK ? room : SLACK) * LL_LOG__FREE_BYTE;
}

/* While undo_left is below undo_floor, a user gets credit only after ll_log__beside_undo has found
 * that the slack stays free. */
void ll_log__set_undo_floor(struct ll_log *log)
{
    uint64_t rest = ll_log__slack(log);
    bool enough = (int64_t)lladd_atomic_load64(&log->undo_left) >= (int64_t)rest;
    lladd_atomic_store64(&log->undo_floor, enough ? 0 : rest);
}

/* Subtracts from undo_left, unless it would become less than `rest`. */
bool ll_log__take_undo(struct ll_log *log, uint64_t eighths, uint64_t rest)
{
    uint64_t now = lladd_atomic_load64(&log->undo_left);
    do {
        if ((int64_t)now < (int64_t)(eighths + rest))
            return false;
    } while (!lladd_atomic_cas64(&log->undo_left, &now, now - eighths));
    return true;
}

/* `rest`: this number of eighths must stay free. `here`: free space of the current segment may be
 * reserved, too. */
static int reserve_undo(struct ll_log *log, uint64_t bytes, uint64_t rest, unsigned owed, bool here,
                        struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t need = bytes * LL_LOG__UNDO_BYTE;
    if (bytes >= LL_LOG_LSN_END / 16)
        return ll_fail(err, LLADD_TOO_LARGE, "no log has %llu bytes for undo",
                       (unsigned long long)bytes);
    if (log->life != LL_LOG__READY)
        return ll_fail(err, log->cfg.read_only ? LLADD_READ_ONLY : LLADD_BAD_STATE,
                       "the log is not ready for records");
    lladd_mutex_lock(&segs->mutex);
    int rc = ll_log__check(log, err);
    if (!rc)
        rc = ll_log__ensure_listed(log, err);
    while (!rc && !ll_log__take_undo(log, need, rest)) {
        if (here) {
            lladd_atomic_sub64(&log->undo_left, need);
            if (ll_log__beside_undo(log, lladd_atomic_load64(&log->granted), rest))
                break;
            lladd_atomic_add64(&log->undo_left, need);
        }
        rc = ll_log__add_segment(log, LL_LOG__FOR_UNDO | owed, err);
    }
    /* These calls may have used the slack. */
    if (owed || here)
        ll_log__set_undo_floor(log);
    /* The worker preallocates further segments. */
    if (!rc && !here && segs->live.len > LL_LOG__KEPT_AHEAD)
        ll_log__wake_worker(log);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

int ll_log_undo_reserve(struct ll_log *log, uint64_t bytes, struct lladd_error *err)
{
    uint64_t rest = ll_log__slack(log);
    if (LL_LIKELY(bytes < LL_LOG_LSN_END / 16 &&
                  ll_log__take_undo(log, bytes * LL_LOG__UNDO_BYTE, rest)))
        return ll_log__check(log, err);
    return reserve_undo(log, bytes, rest, 0, false, err);
}

int ll_log_undo_reserve_owed(struct ll_log *log, uint64_t bytes, struct lladd_error *err)
{
    return reserve_undo(log, bytes, 0, LL_LOG__OWED, true, err);
}

int ll_log_undo_reserve_recovery(struct ll_log *log, uint64_t bytes, bool spare,
                                 struct lladd_error *err)
{
    int rc = reserve_undo(log, bytes, 0, LL_LOG__OWED, true, err);
    if (rc || !spare)
        return rc;
    uint64_t more = ll_log__segment_room(log->segs->granted->size);
    rc = reserve_undo(log, more, 0, 0, true, err);
    if (rc == LLADD_LOG_FULL) { /* tries again with less; a full disk fails again */
        more = ll_log__slack(log) / LL_LOG__UNDO_BYTE;
        rc = reserve_undo(log, more, 0, LL_LOG__OWED, true, err);
    }
    ll_log_undo_release(log, rc ? bytes : more);
    return rc;
}

void ll_log_undo_reserve_short(struct ll_log *log, uint64_t bytes)
{
    lladd_mutex_lock(&log->segs->mutex);
    lladd_atomic_sub64(&log->undo_left, bytes * LL_LOG__UNDO_BYTE);
    ll_log__set_undo_floor(log);
    lladd_mutex_unlock(&log->segs->mutex);
}

void ll_log_undo_release(struct ll_log *log, uint64_t bytes)
{
    lladd_atomic_add64(&log->undo_left, bytes * LL_LOG__UNDO_BYTE);
}
