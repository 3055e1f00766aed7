/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists what a store has of a database's past: timelines, ranges, gaps and marks. */
#include "ship/image_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct telling {
    struct ll_ship_past past;
    struct ll_ship_buf timelines; /* uint32_t */
    struct ll_ship_buf marks;     /* struct lladd_archive_item */
    lladd_archive_fn *fn;
    void *ctx;
    struct lladd_error *err;
};

/* Notes the timeline of an object. If the object is a mark, notes the mark. */
static int see(void *ctx, const char *name, uint64_t size)
{
    struct telling *t = ctx;
    struct lladd_archive_item mark = {.kind = LLADD_ARCHIVE_MARK};
    char *end;
    (void)size;
    unsigned long long v = strtoull(name + 1, &end, 16);
    if (end != name + 9 || *end != '/')
        return 0;
    uint32_t timeline = (uint32_t)v;
    int rc = ll_ship_append(&t->timelines, &timeline, sizeof timeline, t->err);
    if (rc || strncmp(end, "/mark/", 6) != 0 || strlen(end + 6) >= sizeof mark.name)
        return rc;
    mark.timeline = timeline;
    memcpy(mark.name, end + 6, strlen(end + 6));
    return ll_ship_append(&t->marks, &mark, sizeof mark, t->err);
}

static int see_base(struct telling *t)
{
    int rc = 0;
    for (size_t at = 0; at < t->past.bases.len && !rc; at += sizeof(struct lladd_backup_info)) {
        const struct lladd_backup_info *b = (const void *)(t->past.bases.data + at);
        rc = ll_ship_append(&t->timelines, &b->timeline, sizeof b->timeline, t->err);
    }
    return rc;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int by_lsn(const void *a, const void *b)
{
    const struct lladd_archive_item *x = a, *y = b;
    return x->from.v < y->from.v ? -1 : x->from.v > y->from.v;
}

/* ---- a timeline ----------------------------------------------------------------------------- */

/* Tells the ranges that can be restored on the timeline, without what lies below its fork. */
static int tell_ranges(struct telling *t, const struct ll_ship_buf *steps,
                       const struct ll_ship_fork *fork)
{
    struct ll_ship_buf ranges = {.mem = t->past.mem};
    int rc = ll_ship_ranges(&t->past, steps, &ranges, t->err);
    for (size_t at = 0; at < ranges.len && !rc; at += sizeof(struct ll_ship_reach)) {
        const struct ll_ship_reach *r = (const void *)(ranges.data + at);
        struct lladd_archive_item item = {.kind = LLADD_ARCHIVE_RANGE, .timeline = fork->timeline};
        item.from = lladd_lsn_of(r->from > fork->lsn ? r->from : fork->lsn);
        item.end = lladd_lsn_of(r->end);
        rc = r->end >= fork->lsn ? t->fn(t->ctx, &item) : 0;
    }
    ll_ship_buf_free(&ranges);
    return rc;
}

/* Of the timeline's segments that begin at `lsn` or above, finds the lowest. */
static bool next_segment(const struct telling *t, uint32_t timeline, uint64_t lsn, uint64_t *first)
{
    const struct ll_ship_stored *s = (const void *)t->past.stored.data;
    for (size_t i = 0; i < t->past.stored.len / sizeof *s; i++)
        if (s[i].timeline == timeline && s[i].first >= lsn) {
            *first = s[i].first;
            return true;
        }
    return false;
}

static int tell_gaps(struct telling *t, const struct ll_ship_fork *fork)
{
    struct ll_ship_buf steps = {.mem = t->past.mem};
    struct ll_ship_step own = {fork->timeline, UINT64_MAX};
    struct lladd_archive_item gap = {.kind = LLADD_ARCHIVE_GAP, .timeline = fork->timeline};
    uint64_t at = 0, first;
    int rc = ll_ship_append(&steps, &own, sizeof own, t->err);
    while (!rc && next_segment(t, fork->timeline, at, &first)) {
        rc = ll_ship_past_cut(&t->past, &steps, first, &gap.end.v, t->err);
        gap.from = lladd_lsn_of(at);
        if (!rc && at && gap.end.v > at)
            rc = t->fn(t->ctx, &gap);
        if (!rc)
            rc = ll_ship_past_reach(&t->past, &steps, first, &at, t->err);
        at = at > first ? at : first + 1; /* nothing can be restored from a damaged segment */
    }
    ll_ship_buf_free(&steps);
    return rc;
}

static int tell_marks(struct telling *t, uint32_t timeline)
{
    struct lladd_archive_item *mark = (void *)t->marks.data;
    int rc = 0;
    for (size_t i = 0; i < t->marks.len / sizeof *mark && !rc; i++)
        if (mark[i].timeline == timeline)
            rc = t->fn(t->ctx, &mark[i]);
    return rc;
}

static int tell_timeline(struct telling *t, uint32_t timeline)
{
    struct ll_ship_buf steps = {.mem = t->past.mem};
    struct ll_ship_fork fork = {.timeline = 0};
    struct lladd_archive_item item = {.kind = LLADD_ARCHIVE_TIMELINE, .timeline = timeline};
    int rc = ll_ship_past_path(&t->past, timeline, &steps, t->err);
    if (!rc && timeline)
        rc = ll_ship_past_fork(&t->past, timeline, &fork, t->err);
    item.parent = fork.parent;
    item.from = lladd_lsn_of(fork.lsn);
    item.time_us = fork.when_us;
    if (!rc)
        rc = t->fn(t->ctx, &item);
    if (!rc)
        rc = tell_ranges(t, &steps, &fork);
    if (!rc)
        rc = tell_gaps(t, &fork);
    ll_ship_buf_free(&steps);
    return rc ? rc : tell_marks(t, timeline);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int read_marks(struct telling *t)
{
    struct lladd_archive_item *mark = (void *)t->marks.data;
    size_t n = t->marks.len / sizeof *mark;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        char name[LL_SHIP_NAME_MAX];
        (void)snprintf(name, sizeof name, "t%08x/mark/%.64s", mark[i].timeline, mark[i].name);
        rc = ll_ship_past_mark(&t->past, name, &mark[i].from.v, &mark[i].time_us, t->err);
    }
    if (!rc && n > 1)
        qsort(mark, n, sizeof *mark, by_lsn);
    return rc;
}

static int tell(struct telling *t)
{
    int rc = t->past.store->ops->list(t->past.store, "t", see, t, t->err);
    if (!rc)
        rc = see_base(t);
    if (!rc)
        rc = read_marks(t);
    if (rc)
        return rc;
    const uint32_t *timeline = (const void *)t->timelines.data;
    size_t n = t->timelines.len / sizeof *timeline;
    if (n > 1)
        qsort(t->timelines.data, n, sizeof *timeline, by_number);
    for (size_t i = 0; i < n && !rc; i++)
        if (i == 0 || timeline[i] != timeline[i - 1])
            rc = tell_timeline(t, timeline[i]);
    return rc;
}

int lladd_archive_each(struct lladd_store *store, const struct lladd_allocator *allocator,
                       lladd_archive_fn *fn, void *ctx, struct lladd_error *err)
{
    struct telling t = {.fn = fn, .ctx = ctx, .err = err};
    struct ll_ship_mem mem = {allocator};
    if (!store || !fn)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the store or the function is NULL");
    t.timelines.mem = t.marks.mem = mem;
    int rc = ll_ship_past_open(&t.past, store, mem, err);
    if (rc)
        return rc;
    rc = tell(&t);
    if (!rc && t.past.broken.len)
        rc = ll_ship_broken_fail((const void *)t.past.broken.data, err);
    ll_ship_buf_free(&t.timelines);
    ll_ship_buf_free(&t.marks);
    ll_ship_past_free(&t.past);
    return rc;
}
