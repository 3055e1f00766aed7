/* SPDX-License-Identifier: BSD-2-Clause */
/* truncate: segments that are no longer needed become dead; their files are reused or removed. */
#include "log/log_private.h"

int ll_log_truncate(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (log->cfg.read_only)
        return ll_fail(err, LLADD_READ_ONLY, "the log is open for reading");
    lladd_mutex_lock(&segs->mutex);
    int rc = ll_log__ensure_listed(log, err);
    uint64_t below = lsn.v;
    /* Before the log is ready, the end of the scan counts as durable: ll_log_start makes the
     * accepted records durable before it looks for space. */
    uint64_t durable =
        log->life == LL_LOG__READY ? lladd_atomic_load64(&log->durable) : log->scan_end;
    if (below > durable)
        below = durable;
    while (!rc && segs->live.len > 1) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, 0);
        /* The next segment's cut, not this segment's end, says where the log in this segment
         * ends. */
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
    /* Owed records may have exceeded the limit: free the excess as soon as possible. */
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
    /* If listing fails, the result is 0: a caller that then reads the log gets the error. */
    uint64_t oldest = ll_log__ensure_listed(log, NULL) ? 0 : segs->chain;
    lladd_mutex_unlock(&segs->mutex);
    return lladd_lsn_of(oldest);
}

lladd_lsn ll_log_whole_from(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    uint64_t from = ll_log__ensure_listed(log, NULL) ? 0 : ll_log__whole_from(segs);
    lladd_mutex_unlock(&segs->mutex);
    return lladd_lsn_of(from);
}
