/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the log that a database and its timeline in a store have in common.
 *
 * Two copies of a database have the same identity, and their logs begin with the same bytes. So the
 * bytes are compared, from the lowest segment that both logs have up to the first byte that differs
 * or that one of the logs lacks. The common log ends with the last record that lies wholly below
 * it.
 *
 * Log below that segment may have differed, for example in the value of a row, although the records
 * after it are the same. A common mark proves that this log is the same: a mark has a time in
 * microseconds, and two copies do not log the same mark. Without a common mark, the common log must
 * begin with the first record of the database.
 *
 * Pages that are written in bulk are not in the log. So equal records do not prove that a
 * transaction has written the same pages in both copies. A common mark proves this for the
 * transactions that ended before the mark. Of a transaction that ended after the last common mark,
 * the spools are compared. If they differ, or one is missing, the common log ends where the
 * transaction begins. */
#include "ship/archive_private.h"
#include "ship/image_private.h"

#include <lladd/inspect.h>
#include <string.h>

enum { CHUNK = 65536, HEADER = LL_SHIP_BLOCK_HEADER, FIRST_LSN = 8 };

/* A transaction that has logged a redo barrier in the common log. */
struct writer {
    uint64_t txn;
    bool ended; /* it has committed, prepared or ended */
};

struct same {
    struct lladd_archive *a;
    struct lladd_inspect *view;
    struct ll_ship_past past;
    struct ll_ship_buf steps; /* struct ll_ship_step: the timeline and its ancestors */
    struct ll_ship_buf log;   /* struct ll_ship_segment: the database's log, the highest first */
    uint64_t oldest, newest;  /* begin and end of the database's log */
    uint64_t from, to;        /* the bytes of both logs are the same here */
    uint64_t end;             /* of the last common record; 0: there is none */
    bool marked;              /* there is a common mark */
    struct ll_ship_buf writers;
    struct lladd_error *err;
};

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The LSN at an offset of the segment's file. */
static uint64_t lsn_at(const struct ll_ship_segment *s, uint64_t offset)
{
    uint64_t in = offset % s->block;
    return s->first + offset / s->block * (s->block - HEADER) + (in > HEADER ? in - HEADER : 0);
}

static int next_chunk(struct same *s, struct lladd_file *file, struct ll_ship_image *im, size_t k,
                      uint64_t at, size_t len, size_t *equal)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    s->a->bytes.len = s->a->object.len = 0;
    unsigned char *mine = ll_ship_room(&s->a->bytes, CHUNK);
    unsigned char *stored = ll_ship_room(&s->a->object, CHUNK);
    *equal = 0;
    if (!mine || !stored)
        return ll_ship_no_memory(s->err);
    uint64_t first = ll_ship_image_at(im, k)->first;
    int rc = ll_ship_segment_read(s->a->dev, file, first, at, mine, len, s->err);
    if (rc)
        return rc;
    rc = ll_ship_image_read(im, k, stored, len, at, &why);
    if (rc && !ll_ship_unusable(rc))
        *s->err = why;
    while (!rc && *equal < len && mine[*equal] == stored[*equal])
        ++*equal;
    return ll_ship_unusable(rc) ? 0 : rc;
}

/* *same: how many of the first `len` bytes of the segment's file are the same in segment k of the
 * image. */
static int compare_file(struct same *s, const struct ll_ship_segment *seg, struct ll_ship_image *im,
                        size_t k, uint64_t len, uint64_t *same)
{
    struct lladd_file *file;
    size_t n = 0, equal = 0;
    *same = 0;
    int rc = ll_ship_segment_open(s->a->dev, seg->first, &file, s->err);
    if (rc)
        return rc;
    while (!rc && equal == n && *same < len) {
        n = len - *same < CHUNK ? (size_t)(len - *same) : CHUNK;
        rc = next_chunk(s, file, im, k, *same, n, &equal);
        *same += equal;
    }
    int late = s->a->dev->ops->close(s->a->dev, file);
    return rc || !late ? rc : ll_ship_fail_io(s->err, late, "close", "a segment of the log");
}

/* Raises `to` as far as the store has the segment, which has log up to `stop`. *on: the store has
 * the whole segment. `reach`: the store has log up to this LSN. */
static int compare_segment(struct same *s, const struct ll_ship_segment *seg, uint64_t stop,
                           uint64_t reach, bool *on)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_image im;
    uint64_t to = stop < reach ? stop : reach, reached = UINT64_MAX, same = 0;
    *on = false;
    if (to <= seg->first)
        return 0;
    ll_ship_image_init(&im, s->a->mem, s->a->store, s->a->uuid);
    int rc = ll_ship_past_chain(&s->past, &s->steps, seg->first, &to, &im, &reached, &why);
    size_t n = ll_ship_image_segments(&im);
    if (rc && !ll_ship_unusable(rc))
        *s->err = why;
    if (!rc && n && reached <= seg->first && ll_ship_image_at(&im, n - 1)->first == seg->first) {
        uint64_t limit = ll_ship_image_at(&im, n - 1)->limit;
        to = limit < to ? limit : to;
        rc = compare_file(s, seg, &im, n - 1, ll_ship_segment_offset(seg, to), &same);
        if (!rc && same > HEADER) {
            uint64_t lsn = lsn_at(seg, same);
            s->to = lsn < to ? lsn : to;
            *on = s->to == stop;
        }
    }
    ll_ship_image_free(&im);
    return ll_ship_unusable(rc) ? 0 : rc;
}

/* Compares the segments upwards, from the first segment of which the store has log, too. */
static int compare_log(struct same *s)
{
    const struct ll_ship_segment *seg = (const void *)s->log.data;
    size_t i = s->log.len / sizeof *seg;
    uint64_t reach = 0;
    bool on = true;
    int rc = 0;
    while (!rc && i > 0 && reach <= s->from) {
        s->from = seg[--i].first;
        rc = ll_ship_past_reach(&s->past, &s->steps, s->from, &reach, s->err);
    }
    for (i++; !rc && on && i-- > 0;) {
        uint64_t full = ll_ship_segment_end(&seg[i]), stop = i ? seg[i - 1].cut : s->newest;
        rc = compare_segment(s, &seg[i], stop < full ? stop : full, reach, &on);
    }
    return rc;
}

/* ---- records -------------------------------------------------------------------------------- */

static struct writer *writer_of(struct same *s, uint64_t txn)
{
    struct writer *w = (void *)s->writers.data;
    for (size_t i = 0; i < s->writers.len / sizeof *w; i++)
        if (w[i].txn == txn)
            return &w[i];
    return NULL;
}

/* Called for a common mark. In both copies the ended transactions have written the same. */
static void pass_mark(struct same *s)
{
    s->marked = true;
    struct writer *w = (void *)s->writers.data;
    size_t n = s->writers.len / sizeof *w, kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].ended)
            w[kept++] = w[i];
    s->writers.len = kept * sizeof *w;
}

static int see_record(void *ctx, const struct lladd_inspect_record *r)
{
    struct same *s = ctx;
    const struct lladd_log_entry *e = &r->entry;
    if (e->lsn.v + r->size > s->to)
        return LLADD_END;
    s->end = e->lsn.v + r->size;
    struct writer *w = writer_of(s, e->txn.v);
    switch (e->kind) {
    case LL_SHIP_REC_REDO_BARRIER:
        if (!w)
            return ll_ship_append(&s->writers, &(struct writer){e->txn.v, false}, sizeof *w,
                                  s->err);
        break;
    case LL_SHIP_REC_COMMIT:
    case LL_SHIP_REC_END:
    case LL_SHIP_REC_PREPARE:
        if (w)
            w->ended = true;
        break;
    case LL_SHIP_REC_NOTE:
        if (ll_ship_mark_is(e->redo))
            pass_mark(s);
        break;
    default:
        break;
    }
    return 0;
}

static int read_records(struct same *s)
{
    int rc = s->to > s->from
                 ? lladd_inspect_log(s->view, lladd_lsn_of(s->from), see_record, s, s->err)
                 : 0;
    if (!s->marked && s->from > FIRST_LSN)
        s->end = 0;
    return rc == LLADD_END ? 0 : rc;
}

/* ---- spools --------------------------------------------------------------------------------- */

/* Reads a part of the spool from the database and from the store. */
static int read_both(struct same *s, uint64_t txn, uint32_t part, bool *last,
                     struct lladd_error *why)
{
    char name[LL_SHIP_NAME_MAX];
    s->a->bytes.len = s->a->object.len = 0;
    ll_ship_blk_name(ll_ship_lay_timeline(&s->steps, txn), txn, part, name);
    int rc = ll_ship_spool_read(s->a->spool, txn, part, &s->a->bytes, last, why);
    return rc ? rc
              : ll_ship_get_all(s->a->store, name, LL_SHIP_OBJECT_MAX, &s->a->object, why);
}

/* *same: the database and the store have the whole spool, with the same bytes. */
static int same_spool(struct same *s, uint64_t txn, bool *same)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    bool last = false;
    int rc = 0;
    *same = true;
    for (uint32_t part = 0; !rc && *same && !last; part++) {
        rc = read_both(s, txn, part, &last, &why);
        *same = !rc && s->a->bytes.len == s->a->object.len &&
                memcmp(s->a->bytes.data, s->a->object.data, s->a->object.len) == 0;
    }
    if (ll_ship_unusable(rc))
        return 0;
    if (rc)
        *s->err = why;
    return rc;
}

/* Ends the common log where the transaction begins, unless its spools are the same. */
static int check_writer(struct same *s, uint64_t txn)
{
    bool same = true;
    int rc = txn < s->end ? same_spool(s, txn, &same) : 0;
    if (!rc && !same)
        s->end = txn;
    return rc;
}

static int see_spool(void *ctx, uint64_t txn, bool live)
{
    (void)live;
    return check_writer(ctx, txn);
}

static int check_writers(struct same *s)
{
    const struct writer *w = (const void *)s->writers.data;
    int rc = 0;
    for (size_t i = 0; i < s->writers.len / sizeof *w && !rc; i++)
        rc = check_writer(s, w[i].txn);
    /* A spool that the store lacks is stored with the log of the new timeline, if the transaction
     * began there. */
    return rc ? rc : ll_ship_spool_each(s->a->spool, see_spool, s, s->err);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int find(struct same *s)
{
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    int rc = lladd_inspect_info_get(s->view, &info);
    if (rc)
        return lladd_error_set(s->err, rc, "the log cannot be looked at");
    s->oldest = info.log_oldest.v;
    s->newest = info.log_end.v;
    rc = ll_ship_past_path(&s->past, s->a->timeline, &s->steps, s->err);
    if (!rc)
        rc = ll_ship_segments(s->a->dev, s->oldest, s->newest, &s->log, s->err);
    if (!rc)
        rc = compare_log(s);
    if (!rc)
        rc = read_records(s);
    return rc ? rc : check_writers(s);
}

int ll_ship_same_log(struct lladd_archive *a, struct lladd_inspect *view, uint64_t *out,
                     struct lladd_error *err)
{
    struct same s = {.a = a, .view = view, .err = err};
    s.steps.mem = s.log.mem = s.writers.mem = a->mem;
    int rc = ll_ship_past_open(&s.past, a->store, a->mem, err);
    if (rc)
        return rc;
    rc = find(&s);
    *out = s.end;
    ll_ship_buf_free(&s.steps);
    ll_ship_buf_free(&s.log);
    ll_ship_buf_free(&s.writers);
    ll_ship_past_free(&s.past);
    return rc;
}
