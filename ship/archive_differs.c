/* SPDX-License-Identifier: BSD-2-Clause */
/* Called when an object of the archive has other bytes than the log of the database. Finds out
 * whether another copy of the database has stored the object, or whether the object is damaged.
 *
 * Damage breaks a checksum: each block header and each record has one, and so have the parts of a
 * spool. So an object that is whole was put by another copy. The index of a
 * segment says at which LSN the segment's first record begins; the records are checked from there.
 * Without an index, the check begins where the first record begins in the database's log. If the
 * object has no record there, its first record is searched for. */
#include "ship/archive_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 16, CHECKSUM = 4 }; /* a record begins with its checksum, length, kind and LSN */
#define SEGMENT_MOST (UINT64_C(1) << 31)

/* The object. */
struct stored {
    struct lladd_archive *a;
    const char *name;
    char quoted[LL_SHIP_NAME_MAX + 32]; /* the name, for messages of the walk */
    struct ll_ship_buf bytes;
    struct ll_ship_walk walk;
    uint64_t next; /* where the last record ends, as the index says; 0: not known */
    struct lladd_error *err;
};

static int see_record(void *ctx, const struct ll_ship_record *r, struct lladd_error *err)
{
    (void)ctx, (void)r, (void)err;
    return 0;
}

static int corrupt(struct stored *o, const char *what)
{
    return ll_ship_corrupt(o->err, o->name, what);
}

static void begin(struct stored *o, struct lladd_archive *a, const char *name,
                  struct lladd_error *err)
{
    *o = (struct stored){.a = a, .name = name, .err = err, .bytes.mem = a->mem};
    (void)snprintf(o->quoted, sizeof o->quoted, "\"%s\" in the store", name);
    o->walk = (struct ll_ship_walk){.name = o->quoted,
                                    .code = LLADD_CORRUPT_BACKUP,
                                    .fn = see_record,
                                    .scratch.mem = a->mem};
    memcpy(o->walk.uuid, a->uuid, sizeof o->walk.uuid);
}

static void end(struct stored *o)
{
    ll_ship_buf_free(&o->bytes);
    ll_ship_buf_free(&o->walk.scratch);
}

/* Reads the first header, which is at the begin of the bytes. */
static int read_head(struct stored *o, uint64_t first)
{
    const char *why = o->bytes.len < LL_SHIP_BLOCK_HEADER
                          ? "it is too short"
                          : ll_ship_segment_head(o->bytes.data, first, &o->walk.seg);
    return why ? corrupt(o, why) : 0;
}

/* Sets where the first record of the object begins. `start`: where it begins in the
 * database's log. */
static void find_start(struct stored *o, uint64_t start, uint64_t stop)
{
    unsigned char head[HEAD];
    o->walk.start = start;
    if (start + HEAD > stop)
        return;
    ll_ship_segment_payload(&o->walk.seg, o->bytes.data, o->walk.skip, start, HEAD, head);
    if (lladd_get64(head + 8) != start && o->walk.skip == 0)
        (void)ll_ship_find_record(&o->walk);
}

/* *same: the database has the same log from `from` to `to`. */
static int same_log(struct stored *o, uint64_t from, uint64_t to, bool *same)
{
    enum { CHUNK = 4096 };
    unsigned char own[CHUNK], stored[CHUNK];
    struct ll_ship_segment mine;
    uint64_t skip = o->walk.skip;
    *same = false;
    int rc = ll_ship_segment_get(o->a->dev, o->walk.seg.first, &mine, o->err);
    if (rc || mine.size != o->walk.seg.size || from >= to || to > ll_ship_archive_end(o->a))
        return rc;
    rc = ll_ship_archive_read(o->a, &mine, skip, ll_ship_segment_offset(&mine, to), &o->a->bytes,
                              o->err);
    *same = rc == 0;
    while (*same && from < to) {
        uint64_t len = to - from < CHUNK ? to - from : CHUNK;
        ll_ship_segment_payload(&mine, o->a->bytes.data, skip, from, len, own);
        ll_ship_segment_payload(&o->walk.seg, o->bytes.data, skip, from, len, stored);
        *same = memcmp(own, stored, len) == 0;
        from += len;
    }
    return rc;
}

/* The object is whole, as far as its own checksums tell. Those of two records cannot be computed:
 * of the record that began before the object, and of the one that goes on after it. If the
 * database has the same log after the first of these, only that record differs, so it is damaged.
 * If the database has, in the place of the last one, a record with the same checksum and other
 * bytes, the last one is damaged. */
static int check_ends(struct stored *o)
{
    const struct ll_ship_walk *w = &o->walk;
    bool same = false, checksum = false;
    int rc = same_log(o, w->start, w->stop, &same);
    if (!rc && same)
        return corrupt(o, "the rest of its first record is damaged");
    if (!rc && w->partial_at)
        rc = same_log(o, w->partial_at, w->partial_at + CHECKSUM, &checksum);
    if (!rc && checksum)
        rc = same_log(o, w->partial_at, w->stop, &same);
    return !rc && checksum && !same ? corrupt(o, "its last record is damaged") : rc;
}

/* ---- a segment ------------------------------------------------------------------------------ */

/* Says where the records of the segment begin and end. */
static int take_index(struct stored *o, uint64_t start)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_index ix;
    const struct ll_ship_segment *s = &o->walk.seg;
    int rc = ll_ship_index_read(o->a->store, o->a->mem, o->a->timeline, lladd_lsn_of(s->first),
                                &ix, &why);
    if (!rc) {
        o->walk.start = ix.start.v;
        o->walk.stop = ix.stop.v;
        o->next = ix.next.v;
        ll_ship_index_free(&ix);
        return o->walk.stop > ll_ship_segment_end(s) ? corrupt(o, "it does not fit its index") : 0;
    }
    if (rc == LLADD_NOT_FOUND || rc == LLADD_CORRUPT_BACKUP) {
        find_start(o, s->cut == s->first && start > s->first ? start : s->first,
                   ll_ship_segment_end(s));
        return 0;
    }
    if (o->err)
        *o->err = why;
    return rc;
}

static int check_segment(struct stored *o, uint64_t first, uint64_t start)
{
    int rc = ll_ship_get_all(o->a->store, o->name, SEGMENT_MOST, &o->bytes, o->err);
    if (!rc)
        rc = read_head(o, first);
    if (!rc && o->bytes.len != o->walk.seg.size)
        rc = corrupt(o, "its length is wrong");
    o->walk.bytes = o->bytes.data;
    if (!rc)
        rc = take_index(o, start);
    if (!rc)
        rc = ll_ship_walk(&o->walk, o->err);
    if (!rc && o->next && o->walk.next != o->next)
        rc = corrupt(o, "its last record is not where its index says");
    return rc ? rc : check_ends(o);
}

int ll_ship_differs_segment(struct lladd_archive *a, const char *name, uint64_t first,
                            uint64_t start, struct lladd_error *err)
{
    struct stored o;
    begin(&o, a, name, err);
    int rc = check_segment(&o, first, start);
    end(&o);
    return rc ? rc : ll_ship_diverged(err, name);
}

/* ---- a piece -------------------------------------------------------------------------------- */

/* Reads the bytes that precede the piece in its first block from the database's log, and then the
 * piece. The archive has the same bytes before it: the piece with them was compared before. */
static int read_piece(struct stored *o, const struct ll_ship_segment *s, uint64_t from,
                      uint64_t to)
{
    uint64_t begin = from > s->first ? ll_ship_segment_offset(s, from) : 0;
    o->walk.skip = begin / s->block * s->block;
    int rc = begin > o->walk.skip
                 ? ll_ship_archive_read(o->a, s, o->walk.skip, begin, &o->bytes, o->err)
                 : 0;
    if (!rc)
        rc = ll_ship_get_all(o->a->store, o->name, SEGMENT_MOST, &o->bytes, o->err);
    if (rc)
        return rc;
    o->walk.seg = *s;
    if (begin == 0)
        rc = read_head(o, s->first);
    if (!rc && (o->walk.seg.size != s->size || to > ll_ship_segment_end(s) ||
                o->bytes.len + o->walk.skip != ll_ship_segment_offset(s, to)))
        rc = corrupt(o, "its length is wrong");
    o->walk.bytes = o->bytes.data;
    return rc;
}

int ll_ship_differs_piece(struct lladd_archive *a, const char *name,
                          const struct ll_ship_segment *s, uint64_t from, uint64_t to,
                          uint64_t start, struct lladd_error *err)
{
    struct stored o;
    begin(&o, a, name, err);
    int rc = read_piece(&o, s, from, to);
    o.walk.stop = to;
    if (!rc) {
        find_start(&o, start > from ? start : from, to);
        rc = ll_ship_walk(&o.walk, err);
    }
    if (!rc && o.walk.partial_at) /* a piece ends after a record */
        rc = corrupt(&o, "its last record is damaged");
    if (!rc)
        rc = check_ends(&o);
    end(&o);
    return rc ? rc : ll_ship_diverged(err, name);
}

/* ---- a part of a spool ---------------------------------------------------------------------- */

int ll_ship_differs_spool(struct lladd_archive *a, const char *name, uint64_t txn, uint32_t part,
                          struct lladd_error *err)
{
    struct ll_ship_buf bytes = {.mem = a->mem};
    struct ll_ship_blk b, want = {.page_size = a->page_size, .txn = txn, .part = part};
    struct ll_ship_blk_piece piece;
    memcpy(want.uuid, a->uuid, sizeof want.uuid);
    int rc = ll_ship_get_all(a->store, name, LL_SHIP_OBJECT_MAX, &bytes, err);
    if (!rc)
        rc = ll_ship_blk_open(&b, name, &bytes, &want, err);
    while (!rc)
        rc = ll_ship_blk_next(&b, &piece, err);
    ll_ship_buf_free(&bytes);
    return rc == LLADD_END ? ll_ship_diverged(err, name) : rc;
}
