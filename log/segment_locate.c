/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segment_locate: lists the segment files, and maps an LSN to a file and its bytes, for tools.
 *
 * The list of segments, with the damaged ones, is copied under seg_mutex and visited without it,
 * because the visitor may call the log.
 */
#include "log/log_private.h"

static void describe(const struct ll_log__seg *seg, struct ll_log_file *out)
{
    *out = (struct ll_log_file){.first = lladd_lsn_of(seg->first),
                                .end = lladd_lsn_of(seg->end),
                                .cut = lladd_lsn_of(seg->cut),
                                .incarnation = seg->incarnation,
                                .size = seg->size,
                                .in_use = seg->state != LL_LOG__DEAD,
                                .code = seg->state == LL_LOG__BAD ? seg->code : 0,
                                .why = seg->state == LL_LOG__BAD ? seg->why : NULL};
    ll_log__file_name(seg, out->name);
}

static int gather(const struct ll_vec *segs, struct ll_vec *rows)
{
    for (size_t i = 0; i < segs->len; i++) {
        struct ll_log_file *row = ll_vec_push(rows);
        if (!row)
            return LLADD_NO_MEMORY;
        describe(ll_log__at(segs, i), row);
    }
    return 0;
}

int ll_log_file_each(struct ll_log *log, ll_log_file_fn *fn, void *ctx, struct lladd_error *err)
{
    struct ll_vec rows;
    ll_vec_init(&rows, log->env, sizeof(struct ll_log_file));
    lladd_mutex_lock(&log->segs->mutex);
    int rc = ll_log__ensure_listed(log, err);
    if (!rc && (gather(&log->segs->live, &rows) || gather(&log->segs->dead, &rows)))
        rc = ll_fail(err, LLADD_NO_MEMORY, "no memory for the list of log segments");
    lladd_mutex_unlock(&log->segs->mutex);
    for (size_t i = 0; !rc && i < rows.len; i++)
        rc = fn(ctx, ll_vec_at(&rows, i));
    ll_vec_free(&rows);
    return rc;
}

bool ll_log_place(struct ll_log *log, lladd_lsn lsn, struct ll_log_place *out)
{
    bool found = false;
    lladd_mutex_lock(&log->segs->mutex);
    const struct ll_vec *live = &log->segs->live;
    for (size_t i = live->len; i-- > 0 && !found;) {
        const struct ll_log__seg *seg = ll_log__at(live, i);
        if (lsn.v < seg->first || lsn.v >= seg->end)
            continue;
        uint64_t block = (lsn.v - seg->first) / seg->room;
        ll_log__segment_name(seg->name, out->name);
        out->offset =
            block * seg->block_size + LL_LOG_BLOCK_HEADER + (lsn.v - seg->first) % seg->room;
        out->next_block = lladd_lsn_of(seg->first + (block + 1) * seg->room);
        found = true;
    }
    lladd_mutex_unlock(&log->segs->mutex);
    return found;
}

bool ll_log_begins_at_record(struct ll_log *log)
{
    bool begins = false;
    uint64_t oldest = ll_log_oldest(log).v;
    lladd_mutex_lock(&log->segs->mutex);
    for (size_t i = 0; i < log->segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&log->segs->live, i);
        /* The first segment of the log, or the first after a cut, begins with a record. */
        if (seg->first == oldest && seg->state == LL_LOG__LIVE)
            begins = seg->first == LL_LOG_FIRST_LSN || seg->cut < seg->first;
    }
    lladd_mutex_unlock(&log->segs->mutex);
    return begins;
}
