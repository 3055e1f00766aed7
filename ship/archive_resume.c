/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds where an archive goes on: after the log that the store has, or at the oldest log. The last
 * objects in the store are compared with the log of the database. If two copies of a database have
 * different log, one copy must not continue the archive of the other. */
#include "ship/archive_private.h"

#include <errno.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ll_ship_diverged(struct lladd_error *err, const char *what)
{
    return lladd_error_set(err, LLADD_DIVERGED,
                           "the archive is of another copy of this database: %s", what);
}

void ll_ship_part_prefix(uint32_t timeline, uint64_t first, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/log/%016llx.", timeline,
                   (unsigned long long)first);
}

void ll_ship_part_name(uint32_t timeline, uint64_t first, uint64_t from, uint64_t end,
                       char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/log/%016llx.%016llx-%016llx.part", timeline,
                   (unsigned long long)first, (unsigned long long)from, (unsigned long long)end);
}

int ll_ship_archive_read(struct lladd_archive *a, const struct ll_ship_segment *s, uint64_t from,
                         uint64_t to, struct ll_ship_buf *out, struct lladd_error *err)
{
    struct lladd_file *file;
    out->len = 0;
    unsigned char *room = ll_ship_room(out, to - from);
    if (!room)
        return ll_ship_no_memory(err);
    int rc = ll_ship_segment_open(a->dev, s->first, &file, err);
    if (rc)
        return rc;
    rc = ll_ship_segment_read(a->dev, file, s->first, from, room, to - from, err);
    out->len = rc ? 0 : to - from;
    int late = a->dev->ops->close(a->dev, file);
    return rc || !late ? rc : ll_ship_fail_io(err, late, "close", "a segment of the log");
}

void ll_ship_archive_gap(struct lladd_archive *a, uint64_t from, uint64_t to)
{
    lladd_mutex_lock(&a->state);
    if (!a->status.gap)
        a->status.gap_from = lladd_lsn_of(from);
    a->status.gap = true;
    a->status.gap_to = lladd_lsn_of(to);
    lladd_mutex_unlock(&a->state);
}

/* Uses a log cursor to find the first record at or after `first`. */
static int first_record(struct lladd_archive *a, uint64_t first, uint64_t *out,
                        struct lladd_error *err)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    *out = ll_ship_archive_end(a);
    int rc = lladd_log_open(a->db, lladd_lsn_of(first), NULL, &cursor, err);
    if (rc)
        return rc;
    rc = lladd_log_next(cursor, &e, err);
    if (!rc)
        *out = e.lsn.v;
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* Finds the first record that begins in the segment `first`, for a database that is not open. */
static int first_record_closed(struct lladd_archive *a, uint64_t first, uint64_t *out,
                               struct lladd_error *err)
{
    struct ll_ship_walk w = {.scratch.mem = a->mem};
    uint64_t end = ll_ship_archive_end(a);
    int rc = ll_ship_segment_get(a->dev, first, &w.seg, err);
    uint64_t full = rc ? 0 : ll_ship_segment_end(&w.seg);
    w.stop = end < full ? end : full;
    *out = w.stop;
    if (rc || w.stop <= first)
        return rc;
    rc = ll_ship_archive_read(a, &w.seg, 0, ll_ship_segment_offset(&w.seg, w.stop), &a->bytes, err);
    if (rc)
        return rc;
    w.bytes = a->bytes.data;
    memcpy(w.uuid, a->uuid, sizeof w.uuid);
    if (!w.seg.start && ll_ship_find_record(&w))
        *out = w.start;
    else if (w.seg.start)
        *out = w.seg.start;
    ll_ship_buf_free(&w.scratch);
    return 0;
}

int ll_ship_archive_place(struct lladd_archive *a, uint64_t first, struct lladd_error *err)
{
    uint64_t start;
    int rc =
        a->db ? first_record(a, first, &start, err) : first_record_closed(a, first, &start, err);
    if (rc)
        return rc;
    a->start = a->seen = start;
    a->done = a->pos = first;
    a->open.len = 0;
    return 0;
}

/* The lowest segment that is needed to read the log from `from` on. */
static int lowest(struct lladd_archive *a, uint64_t from, uint64_t end, struct ll_ship_segment *out,
                  struct lladd_error *err)
{
    struct ll_ship_buf list = {.mem = a->mem};
    int rc = ll_ship_segments(a->dev, from, end, &list, err);
    if (!rc)
        memcpy(out, list.data + list.len - sizeof *out, sizeof *out);
    ll_ship_buf_free(&list);
    return rc;
}

/* ---- compared with the store ---------------------------------------------------------------- */

/* Compares the object's bytes with those of the segment's file from `from` to `to`. LLADD_EXISTS:
 * they differ. */
static int compare(struct lladd_archive *a, const char *name, const struct ll_ship_segment *s,
                   uint64_t from, uint64_t to, struct lladd_error *err)
{
    int rc = ll_ship_archive_read(a, s, from, to, &a->bytes, err);
    a->object.len = 0;
    unsigned char *room = rc ? NULL : ll_ship_room(&a->object, to - from);
    if (!rc && !room)
        rc = ll_ship_no_memory(err);
    if (!rc)
        rc = ll_ship_get(a->store, name, 0, room, to - from, err);
    if (!rc && memcmp(room, a->bytes.data, to - from) != 0)
        rc = LLADD_EXISTS;
    return rc;
}

struct pieces {
    struct lladd_archive *a;
    uint64_t first, from;
    uint64_t end; /* the end of the longest piece that begins at `from`; 0: no piece does */
};

static int see_piece(void *ctx, const char *name, uint64_t size)
{
    struct pieces *p = ctx;
    char want[LL_SHIP_NAME_MAX];
    const char *dash = strrchr(name, '-');
    (void)size;
    uint64_t end = dash ? strtoull(dash + 1, NULL, 16) : 0;
    ll_ship_part_name(p->a->timeline, p->first, p->from, end, want);
    if (end > p->from && end > p->end && strcmp(want, name) == 0)
        p->end = end;
    return 0;
}

/* Goes on after the pieces that the store has of the current segment. */
static int take_pieces(struct lladd_archive *a, const struct ll_ship_segment *s, uint64_t end,
                       struct lladd_error *err)
{
    char prefix[LL_SHIP_NAME_MAX], name[LL_SHIP_NAME_MAX];
    struct pieces p = {a, s->first, s->first, 0};
    ll_ship_part_prefix(a->timeline, s->first, prefix);
    for (;;) {
        p.end = 0;
        int rc = a->store->ops->list(a->store, prefix, see_piece, &p, err);
        if (rc || !p.end)
            return rc;
        if (p.end > end || p.end > ll_ship_segment_end(s))
            return ll_ship_diverged(err, "it has log beyond the end of this one");
        ll_ship_part_name(a->timeline, s->first, p.from, p.end, name);
        rc = compare(a, name, s, ll_ship_segment_offset(s, p.from),
                     ll_ship_segment_offset(s, p.end), err);
        if (rc == LLADD_EXISTS)
            rc = ll_ship_differs_piece(a, name, s, p.from, p.end, a->seen, err);
        if (rc)
            return rc;
        p.from = a->pos = p.end;
        a->seen = p.end > a->seen ? p.end : a->seen;
    }
}

/* ---- begin ---------------------------------------------------------------------------------- */

static int go_on(struct lladd_archive *a, const struct ll_ship_index *ix, uint64_t end,
                 struct lladd_error *err)
{
    struct ll_ship_segment s;
    uint64_t stop = ix->stop.v, from = stop > a->done ? stop : a->done;
    int rc = lowest(a, from, end, &s, err);
    if (rc)
        return rc;
    if (s.cut != stop && end != stop) {
        ll_ship_archive_gap(a, stop, s.first);
        rc = ll_ship_bulk_drop(a, s.first, err);
        return rc ? rc : ll_ship_archive_place(a, s.first, err);
    }
    a->done = a->pos = stop;
    a->start = a->seen = ix->next.v;
    a->open.len = 0;
    rc = ll_ship_append(&a->open, ix->open.data, ix->open.len, err);
    return !rc && s.cut == stop ? take_pieces(a, &s, end, err) : rc;
}

/* *there: the log still has a file for the segment. */
static int in_log(struct lladd_archive *a, uint64_t first, bool *there, struct lladd_error *err)
{
    struct lladd_file *file;
    char name[LL_SHIP_NAME_MAX];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    int rc = a->dev->ops->open(a->dev, name, LLADD_OPEN_READ_ONLY, &file);
    *there = rc == 0;
    if (rc)
        return rc == -ENOENT ? 0 : ll_ship_fail_io(err, rc, "open", name);
    rc = a->dev->ops->close(a->dev, file);
    return rc ? ll_ship_fail_io(err, rc, "close", name) : 0;
}

/* Goes on after a segment that the store has. */
static int after_segment(struct lladd_archive *a, uint64_t end, struct ll_ship_index *ix,
                         struct lladd_error *err)
{
    struct ll_ship_segment s;
    char name[LL_SHIP_NAME_MAX];
    bool there;
    if (ix->stop.v > end)
        return ll_ship_diverged(err, "it has log beyond the end of this one");
    int rc = in_log(a, ix->first.v, &there, err);
    if (!rc && there) {
        rc = ll_ship_segment_get(a->dev, ix->first.v, &s, err);
        ll_ship_seg_name(a->timeline, ix->first.v, name);
        if (!rc)
            rc = compare(a, name, &s, 0, ll_ship_segment_offset(&s, ix->stop.v), err);
        if (rc == LLADD_EXISTS)
            rc = ll_ship_differs_segment(a, name, ix->first.v, ix->start.v, err);
    }
    return rc ? rc : go_on(a, ix, end, err);
}

int ll_ship_archive_resume(struct lladd_archive *a, uint64_t end, struct lladd_error *err)
{
    struct ll_ship_buf firsts = {.mem = a->mem};
    struct ll_ship_segment s;
    struct ll_ship_index ix;
    bool there = true;
    int rc = ll_ship_archived(a->store, a->timeline, &firsts, err);
    while (!rc && firsts.len) {
        uint64_t last = ((const uint64_t *)(const void *)(firsts.data + firsts.len))[-1];
        rc = ll_ship_index_read(a->store, a->mem, a->timeline, lladd_lsn_of(last), &ix, err);
        if (rc == LLADD_NOT_FOUND || rc == LLADD_CORRUPT_BACKUP) {
            /* A crash may have come between the puts of a segment and of its index. Then the log
             * has the segment, and the segment is stored again, with its index. */
            rc = in_log(a, last, &there, err);
            if (!rc && there) {
                firsts.len -= sizeof last;
                continue;
            }
            if (!rc)
                rc =
                    ll_ship_index_load(a->store, a->mem, a->timeline, lladd_lsn_of(last), &ix, err);
        }
        if (!rc) {
            rc = after_segment(a, end, &ix, err);
            ll_ship_index_free(&ix);
        }
        break;
    }
    if (!rc && !firsts.len) {
        rc = lowest(a, a->done, end, &s, err);
        if (!rc)
            rc = ll_ship_archive_place(a, s.first, err);
        if (!rc)
            rc = take_pieces(a, &s, end, err);
    }
    ll_ship_buf_free(&firsts);
    return rc;
}
