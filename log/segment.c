/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segment: the list of segment files and their users.
 *
 * A pointer to a struct ll_log__seg is valid under seg_mutex, or while the caller is counted as a
 * user of the segment. A segment with users keeps its file open, and its file is not reused.
 */
#include "log/log_private.h"

#include <errno.h>

/* ---- allocation of the structs ---- */

uint64_t ll_log__segment_room(uint32_t size)
{
    uint32_t block = ll_log__block_size(size);
    return (uint64_t)(size / block) * (block - LL_LOG_BLOCK_HEADER);
}

struct ll_log__seg *ll_log__seg_new(struct ll_log *log, const struct ll_log__block *b,
                                    uint64_t name)
{
    struct ll_log__seg *seg = ll_alloc_zero(log->env, sizeof *seg);
    if (!seg)
        return NULL;
    seg->first = b->segment_first;
    seg->end = b->segment_first + ll_log__segment_room(b->segment_size);
    seg->cut = b->cut;
    seg->until = b->segment_first;
    seg->name = name;
    seg->kind = LL_LOG__SEGMENT;
    seg->incarnation = b->incarnation;
    seg->size = seg->step = b->segment_size;
    seg->block_size = ll_log__block_size(b->segment_size);
    seg->room = seg->block_size - LL_LOG_BLOCK_HEADER;
    seg->salt = ll_record_salt(log->cfg.uuid, b->incarnation);
    return seg;
}

void ll_log__seg_delete(struct ll_log *log, struct ll_log__seg *seg)
{
    /* An error of close does not matter: all acknowledged bytes have been synced. */
    if (seg->file)
        (void)ll_io_close(log->dev, seg->file);
    ll_free(log->env, seg);
}

int ll_log__seg_insert(struct ll_log *log, struct ll_log__seg *seg)
{
    struct ll_vec *live = &log->segs->live;
    if (!ll_vec_push(live))
        return LLADD_NO_MEMORY;
    size_t i = live->len - 1;
    struct ll_log__seg **v = live->data;
    for (; i > 0 && v[i - 1]->first > seg->first; i--)
        v[i] = v[i - 1];
    v[i] = seg;
    return 0;
}

int ll_log__segments_init(struct ll_log *log)
{
    struct ll_log__segments *segs = ll_alloc_zero(log->env, sizeof *segs);
    if (!segs)
        return LLADD_NO_MEMORY;
    if (lladd_mutex_init(&segs->mutex, LLADD_RANK_LOG_SEGMENTS, "log segments") ||
        lladd_cond_init(&segs->changed)) {
        lladd_mutex_destroy(&segs->mutex);
        ll_free(log->env, segs);
        return LLADD_NO_MEMORY;
    }
    ll_vec_init(&segs->live, log->env, sizeof(struct ll_log__seg *));
    ll_vec_init(&segs->dead, log->env, sizeof(struct ll_log__seg *));
    log->segs = segs;
    return 0;
}

void ll_log__segments_free(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    if (!segs)
        return;
    for (size_t i = 0; i < segs->live.len; i++)
        ll_log__seg_delete(log, ll_log__at(&segs->live, i));
    for (size_t i = 0; i < segs->dead.len; i++)
        ll_log__seg_delete(log, ll_log__at(&segs->dead, i));
    ll_vec_free(&segs->live);
    ll_vec_free(&segs->dead);
    lladd_cond_destroy(&segs->changed);
    lladd_mutex_destroy(&segs->mutex);
    ll_free(log->env, segs);
    log->segs = NULL;
}

void ll_log__seg_retire(struct ll_log *log, struct ll_log__seg *seg)
{
    if (seg->state == LL_LOG__BAD) {
        log->segs->disk_bytes -= seg->size;
        seg->size = 0;
    }
    seg->state = LL_LOG__DEAD;
}

/* ---- finding ---- */

int ll_log__open_file(struct ll_log *log, struct ll_log__seg *seg, struct lladd_error *err)
{
    char name[LL_LOG_NAME_SIZE];
    if (seg->file)
        return 0;
    ll_log__segment_name(seg->name, name);
    int rc = ll_io_open(log->dev, name, log->cfg.read_only ? LLADD_OPEN_READ_ONLY : 0u, &seg->file);
    if (rc == -ENOENT)
        return ll_fail_lsn(err, LLADD_MISSING_FILE, lladd_lsn_of(seg->name),
                           "log segment \"%s\" is missing", name);
    return rc ? ll_fail_io(err, rc, false, "open", name) : 0;
}

/* Index of the first live segment in which the log ends above lsn; live.len: no such segment. (The
 * cut of a later segment may end the log in a segment before the segment's end.) */
static size_t index_of(const struct ll_log__segments *segs, uint64_t lsn)
{
    size_t low = 0, high = segs->live.len;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (ll_log__at(&segs->live, mid)->end > lsn)
            high = mid;
        else
            low = mid + 1;
    }
    while (low + 1 < segs->live.len && ll_log__at(&segs->live, low + 1)->cut <= lsn)
        low++;
    return low;
}

int ll_log__seg_find(struct ll_log *log, uint64_t lsn, struct ll_log__seg **out, uint64_t *where,
                     struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    struct ll_log__seg *seg = NULL;
    *out = NULL;
    lladd_mutex_lock(&segs->mutex);
    size_t i = index_of(segs, lsn);
    int rc = 0;
    if (!segs->listed && (i == segs->live.len || lsn < ll_log__at(&segs->live, i)->first)) {
        rc = ll_log__ensure_listed(log, err);
        i = index_of(segs, lsn);
    }
    if (!rc && i < segs->live.len) {
        rc = ll_log__header_again(log, i, err);
        i = index_of(segs, lsn);
    }
    if (!rc && i == segs->live.len)
        rc = ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "LSN %llu is beyond the log",
                         (unsigned long long)lsn);
    if (!rc) {
        seg = ll_log__at(&segs->live, i);
        *where = lsn < seg->first ? seg->first : lsn;
        if (seg->state == LL_LOG__BAD)
            rc = ll_log__fail_seg(err, seg);
        else if (i > 0 && lsn < seg->cut)
            rc = ll_log__fail_missing(segs, lsn, err);
        else
            rc = ll_log__open_file(log, seg, err);
    }
    if (!rc) {
        seg->users++;
        *out = seg;
    }
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

void ll_log__seg_release(struct ll_log *log, struct ll_log__seg *seg)
{
    if (!seg)
        return;
    lladd_mutex_lock(&log->segs->mutex);
    LL_ASSERT(seg->users > 0);
    /* A file that may still have to be synced stays open: a sync through a new descriptor might not
     * report an earlier failed write. */
    if (--seg->users == 0 && seg->file &&
        (log->cfg.read_only || seg->end <= lladd_atomic_load64(&log->durable))) {
        (void)ll_io_close(log->dev, seg->file);
        seg->file = NULL;
    }
    lladd_mutex_unlock(&log->segs->mutex);
}

uint64_t ll_log__seg_stop(struct ll_log *log, const struct ll_log__seg *seg)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t stop = seg->end;
    lladd_mutex_lock(&segs->mutex);
    size_t i = index_of(segs, seg->first);
    if (i + 1 < segs->live.len && ll_log__at(&segs->live, i) == seg) {
        const struct ll_log__seg *next = ll_log__at(&segs->live, i + 1);
        stop = next->cut < stop ? next->cut : stop;
    }
    lladd_mutex_unlock(&segs->mutex);
    return stop;
}

/* The name of the missing file is the end of the segment before it. */
int ll_log__fail_missing(const struct ll_log__segments *segs, uint64_t lsn, struct lladd_error *err)
{
    const struct ll_log__seg *before = NULL, *after = NULL;
    char missing[LL_LOG_NAME_SIZE], other[LL_LOG_NAME_SIZE];
    unsigned long long at = lsn;
    for (size_t i = 0; i < segs->live.len && !after; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->first <= lsn)
            before = seg;
        else
            after = seg;
    }
    if (before && before->state == LL_LOG__LIVE) {
        ll_log__segment_name(before->end, missing);
        ll_log__segment_name(before->name, other);
        return ll_fail_lsn(err, LLADD_MISSING_FILE, lladd_lsn_of(lsn),
                           "the log segment that holds LSN %llu is missing: \"%s\" should follow "
                           "\"%s\", which ends at %llu",
                           at, missing, other, (unsigned long long)before->end);
    }
    if (!after)
        return ll_fail_lsn(err, LLADD_MISSING_FILE, lladd_lsn_of(lsn),
                           "the log segment that holds LSN %llu is missing", at);
    ll_log__segment_name(after->name, other);
    return ll_fail_lsn(err, LLADD_MISSING_FILE, lladd_lsn_of(lsn),
                       "the log segment that holds LSN %llu is missing: the log begins at %llu, "
                       "with \"%s\"",
                       at, (unsigned long long)after->first, other);
}

/* ---- queries ---- */

bool ll_log__file_of(struct ll_log *log, uint64_t lsn, char name[LL_LOG_NAME_SIZE])
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    size_t i = index_of(segs, lsn);
    bool found = i < segs->live.len && lsn >= ll_log__at(&segs->live, i)->first;
    if (found)
        ll_log__segment_name(ll_log__at(&segs->live, i)->name, name);
    lladd_mutex_unlock(&segs->mutex);
    return found;
}

bool ll_log__goes_over(struct ll_log *log, uint64_t lsn, int rc)
{
    struct ll_log__segments *segs = log->segs;
    if (rc != LLADD_READ_FAILED || !log->cfg.lenient)
        return false;
    lladd_mutex_lock(&segs->mutex);
    size_t i = index_of(segs, lsn);
    bool is = i < segs->live.len && ll_log__unread(ll_log__at(&segs->live, i));
    lladd_mutex_unlock(&segs->mutex);
    return is;
}

bool ll_log__given_up(struct ll_log *log, uint64_t lsn)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    bool gone = segs->live.len > 0 && lsn < ll_log__at(&segs->live, 0)->first;
    lladd_mutex_unlock(&segs->mutex);
    return gone;
}

int ll_log__seg_after(struct ll_log *log, uint64_t lsn, uint64_t *first)
{
    struct ll_log__segments *segs = log->segs;
    int rc = LLADD_END;
    lladd_mutex_lock(&segs->mutex);
    for (size_t i = segs->live.len; i > 0 && ll_log__at(&segs->live, i - 1)->first > lsn; i--) {
        *first = ll_log__at(&segs->live, i - 1)->first;
        rc = 0;
    }
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

bool ll_log_lost(struct ll_log *log, lladd_lsn lsn)
{
    struct ll_log__segments *segs = log->segs;
    bool lost = false;
    lladd_mutex_lock(&segs->mutex);
    for (size_t i = 0; !lost && i < segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        lost = lsn.v >= seg->cut && lsn.v < seg->first;
    }
    lladd_mutex_unlock(&segs->mutex);
    return lost;
}

uint64_t ll_log__cut_above(struct ll_log *log, uint64_t lsn)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t cut = 0;
    lladd_mutex_lock(&segs->mutex);
    for (size_t i = 0; i < segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->state == LL_LOG__LIVE && seg->cut < seg->first && seg->cut > lsn)
            cut = seg->cut;
    }
    lladd_mutex_unlock(&segs->mutex);
    return cut;
}
