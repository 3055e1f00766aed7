/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the log of an open database for a backup, and copies its segments.
 *
 * The segments of the backup are found from its end downwards: a segment says in `cut` where the
 * log before it ends (docs/disk-format.md). Their bytes below the end are durable, and never
 * change. The hold keeps their files. */
#include "ship/backup_private.h"
#include "ship/image_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = LL_SHIP_BLOCK_HEADER };

/* ---- pages written in bulk ------------------------------------------------------------------ */

static struct ll_ship_writer *writer(const struct ll_ship_backup *b, size_t i)
{
    return (struct ll_ship_writer *)(void *)b->writers.data + i;
}

static size_t writers(const struct ll_ship_backup *b)
{
    return b->writers.len / sizeof(struct ll_ship_writer);
}

static size_t writer_of(const struct ll_ship_backup *b, uint64_t txn)
{
    size_t i = 0;
    while (i < writers(b) && writer(b, i)->txn != txn)
        i++;
    return i;
}

static int note_barrier(struct ll_ship_backup *b, const struct lladd_log_entry *e)
{
    struct ll_ship_range range = {lladd_get64(e->redo.data),
                                  lladd_get64((const unsigned char *)e->redo.data + 8), e->lsn.v};
    size_t i = writer_of(b, e->txn.v);
    if (i == writers(b)) {
        struct ll_ship_writer w = {.txn = e->txn.v, .ranges = {.mem = b->mem}};
        int rc = ll_ship_append(&b->writers, &w, sizeof w, b->err);
        if (rc)
            return rc;
    }
    return ll_ship_append(&writer(b, i)->ranges, &range, sizeof range, b->err);
}

/* Notes that the transaction has ended or is prepared. `taken`: the transaction's pages belong to
 * the backup. */
static int note_end(struct ll_ship_backup *b, uint64_t txn, bool taken)
{
    size_t i = writer_of(b, txn);
    if (i == writers(b))
        return 0;
    struct ll_ship_writer w = *writer(b, i);
    int rc = taken ? ll_ship_append(&b->again, w.ranges.data, w.ranges.len, b->err) : 0;
    ll_ship_buf_free(&w.ranges);
    *writer(b, i) = *writer(b, writers(b) - 1);
    b->writers.len -= sizeof w;
    return rc;
}

static int see(struct ll_ship_backup *b, const struct lladd_log_entry *e, uint64_t since)
{
    switch (e->kind) {
    case LL_SHIP_REC_REDO_BARRIER:
        return e->redo.len == 16 ? note_barrier(b, e) : 0;
    case LL_SHIP_REC_PREPARE:
    case LL_SHIP_REC_COMMIT:
        /* A commit record with a payload ends a transaction that was ended heuristically. */
        b->m.heuristic = b->m.heuristic || (e->kind == LL_SHIP_REC_COMMIT && e->redo.len != 0);
        return note_end(b, e->txn.v, e->lsn.v >= since);
    case LL_SHIP_REC_END:
        return note_end(b, e->txn.v, false);
    case LL_SHIP_REC_HEURISTIC:
        b->m.heuristic = true;
        return 0;
    default:
        return 0;
    }
}

int ll_ship_read_log(struct ll_ship_backup *b, uint64_t to, uint64_t since)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = lladd_log_open(b->db, lladd_lsn_of(b->read_to), NULL, &cursor, b->err);
    if (rc)
        return rc;
    while ((rc = lladd_log_next(cursor, &e, b->err)) == 0 && e.lsn.v < to &&
           (rc = see(b, &e, since)) == 0)
        b->read_to = e.lsn.v + 8; /* the next record begins here or later */
    lladd_log_close(cursor);
    b->read_to = rc == 0 || rc == LLADD_END ? to : b->read_to;
    return rc == LLADD_END ? 0 : rc;
}

static bool meets(const struct ll_ship_buf *ranges, uint64_t first, uint64_t n)
{
    const struct ll_ship_range *r = (const void *)ranges->data;
    for (size_t i = 0; i < ranges->len / sizeof *r; i++)
        if (r[i].first < first + n && first < r[i].first + r[i].n)
            return true;
    return false;
}

int ll_ship_overlaps(struct ll_ship_backup *b, const struct ll_ship_buf *ranges, uint64_t from,
                     uint64_t to, bool *out)
{
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    int rc = lladd_log_open(b->db, lladd_lsn_of(from), NULL, &cursor, b->err);
    *out = false;
    if (rc)
        return rc;
    while (!*out && (rc = lladd_log_next(cursor, &e, b->err)) == 0 && e.lsn.v < to)
        *out = e.kind == LL_SHIP_REC_REDO_BARRIER && e.redo.len == 16 &&
               meets(ranges, lladd_get64(e.redo.data),
                     lladd_get64((const unsigned char *)e.redo.data + 8));
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- segments ------------------------------------------------------------------------------- */

static int put_part(struct ll_ship_backup *b, struct ll_ship_log_part *part,
                    const unsigned char *bytes)
{
    char name[LL_SHIP_NAME_MAX];
    part->crc = lladd_crc32c(0, bytes, part->bytes);
    struct lladd_iovec piece = {bytes, part->bytes};
    ll_ship_log_name(b->m.info.name, part, name);
    int rc = ll_ship_put(b->store, b->mem, name, &piece, 1, b->err);
    if (!rc)
        rc = ll_ship_append(&b->m.log, part, sizeof *part, b->err);
    b->m.info.stored_bytes += part->bytes;
    return rc ? rc : ll_ship_progress(b, part->bytes);
}

static int store_part(struct ll_ship_backup *b, struct lladd_file *file,
                      struct ll_ship_log_part *part)
{
    b->object.len = 0;
    unsigned char *bytes = ll_ship_room(&b->object, part->bytes);
    if (!bytes)
        return ll_ship_no_memory(b->err);
    int rc =
        ll_ship_segment_read(b->dev, file, part->first, part->offset, bytes, part->bytes, b->err);
    return rc ? rc : put_part(b, part, bytes);
}

static int copy_segment(struct ll_ship_backup *b, const struct ll_ship_segment *s, uint64_t end)
{
    struct lladd_file *file;
    uint64_t bytes =
        ll_ship_segment_offset(s, end < ll_ship_segment_end(s) ? end : ll_ship_segment_end(s));
    int rc = ll_ship_segment_open(b->dev, s->first, &file, b->err);
    if (rc)
        return rc;
    if (bytes < HEADER)
        bytes = HEADER;
    for (uint64_t at = 0; at < bytes && !rc; at += LL_SHIP_OBJECT_MAX) {
        struct ll_ship_log_part part = {.first = s->first, .segment_size = s->size, .offset = at};
        part.bytes = bytes - at < LL_SHIP_OBJECT_MAX ? bytes - at : LL_SHIP_OBJECT_MAX;
        rc = store_part(b, file, &part);
    }
    int late = b->dev->ops->close(b->dev, file);
    return rc || !late ? rc : ll_ship_fail_io(b->err, late, "close", "a segment of the log");
}

int ll_ship_copy_log(struct ll_ship_backup *b)
{
    struct ll_ship_buf list = {.mem = b->mem};
    /* After an unclean stop the log goes on in a new segment, and only its header says where the
     * log before it was cut. So that header belongs to the backup, even if the segment has no
     * record yet. */
    int rc = ll_ship_segments(b->dev, b->m.info.from.v, b->m.info.end.v, &list, b->err);
    const struct ll_ship_segment *s = (const void *)list.data;
    b->what = "log";
    b->bytes_done = 0;
    b->bytes_all = b->m.info.end.v - b->m.info.from.v;
    for (size_t i = list.len / sizeof *s; i-- > 0 && !rc;)
        rc = copy_segment(b, &s[i], i ? s[i - 1].cut : b->m.info.end.v);
    ll_ship_buf_free(&list);
    return rc;
}

/* ---- segments of an archive ----------------------------------------------------------------- */

static int take_segment(struct ll_ship_backup *b, struct ll_ship_image *im, size_t segment)
{
    const struct ll_ship_image_segment s = *ll_ship_image_at(im, segment);
    uint64_t bytes = ll_ship_image_offset(&s, s.limit);
    int rc = 0;
    if (bytes < HEADER)
        bytes = HEADER;
    for (uint64_t at = 0; at < bytes && !rc; at += LL_SHIP_OBJECT_MAX) {
        struct ll_ship_log_part part = {.first = s.first, .segment_size = s.size, .offset = at};
        part.bytes = bytes - at < LL_SHIP_OBJECT_MAX ? bytes - at : LL_SHIP_OBJECT_MAX;
        b->object.len = 0;
        unsigned char *room = ll_ship_room(&b->object, part.bytes);
        rc = room ? ll_ship_image_read(im, segment, room, part.bytes, at, b->err)
                  : ll_ship_no_memory(b->err);
        if (!rc)
            rc = put_part(b, &part, room);
    }
    return rc;
}

int ll_ship_take_log(struct ll_ship_backup *b, struct ll_ship_image *im)
{
    int rc = 0;
    b->what = "log";
    b->bytes_done = 0;
    b->bytes_all = b->m.info.end.v - b->m.info.from.v;
    for (size_t i = 0; i < ll_ship_image_segments(im) && !rc; i++)
        rc = take_segment(b, im, i);
    return rc;
}
