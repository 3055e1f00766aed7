/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the log of an open database for a backup, and copies its segments.
 *
 * The segments of the backup are found from its end downwards: a segment says in `cut` where the
 * log before it ends (docs/disk-format.md). Their bytes below the end are durable, and nothing
 * changes them any more; the hold keeps their files. */
#include "ship/backup_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of records (docs/disk-format.md). */
enum { COMMIT = 6, END = 7, PREPARE = 8, REDO_BARRIER = 18, HEURISTIC = 20 };
enum { AT_LSN = 16, AT_BLOCK = 28, AT_FIRST = 32, AT_CUT = 40, AT_SIZE = 48, AT_INDEX = 52 };
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

/* Notes that the transaction has ended or is prepared. `taken`: its pages belong to the backup. */
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
    case REDO_BARRIER:
        return e->redo.len == 16 ? note_barrier(b, e) : 0;
    case PREPARE:
    case COMMIT:
        /* A commit record with a payload ends a transaction that was ended heuristically. */
        b->m.heuristic = b->m.heuristic || (e->kind == COMMIT && e->redo.len != 0);
        return note_end(b, e->txn.v, e->lsn.v >= since);
    case END:
        return note_end(b, e->txn.v, false);
    case HEURISTIC:
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
        b->read_to = e.lsn.v + 8; /* no record begins before */
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
        *out = e.kind == REDO_BARRIER && e.redo.len == 16 &&
               meets(ranges, lladd_get64(e.redo.data),
                     lladd_get64((const unsigned char *)e.redo.data + 8));
    lladd_log_close(cursor);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- segments ------------------------------------------------------------------------------- */

struct segment {
    uint64_t first, cut, size, block;
};

struct names {
    struct ll_ship_buf firsts; /* uint64_t */
    struct lladd_error *err;
};

static int see_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    char *end;
    if (strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
        return 0;
    uint64_t first = strtoull(name, &end, 16);
    return end == name + 16 ? ll_ship_append(&n->firsts, &first, sizeof first, n->err) : 0;
}

static int open_segment(struct ll_ship_backup *b, uint64_t first, struct lladd_file **out)
{
    char name[40];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    int rc = b->dev->ops->open(b->dev, name, LLADD_OPEN_READ_ONLY, out);
    return rc ? ll_ship_fail_io(b->err, rc, "open", name) : 0;
}

static int fail_segment(struct ll_ship_backup *b, uint64_t first, const char *what)
{
    int rc = lladd_error_set(b->err, LLADD_CORRUPT_LOG, "log segment %016llx.seg: %s",
                             (unsigned long long)first, what);
    if (b->err)
        b->err->lsn = lladd_lsn_of(first);
    return rc;
}

static int read_segment(struct ll_ship_backup *b, uint64_t first, struct segment *out)
{
    unsigned char h[HEADER];
    struct lladd_file *file;
    int rc = open_segment(b, first, &file);
    if (rc)
        return rc;
    int64_t got = b->dev->ops->pread(b->dev, file, h, sizeof h, 0);
    rc = b->dev->ops->close(b->dev, file);
    if (got < 0 || rc)
        return ll_ship_fail_io(b->err, got < 0 ? (int)got : rc, "read", "a segment of the log");
    if (got != HEADER || memcmp(h + 4, "LLB1", 4) != 0 ||
        lladd_get32(h) != lladd_crc32c(0, h + 4, HEADER - 4) || lladd_get32(h + AT_INDEX) != 0 ||
        lladd_get64(h + AT_FIRST) != first)
        return fail_segment(b, first, "its header is damaged");
    *out = (struct segment){first, lladd_get64(h + AT_CUT), lladd_get32(h + AT_SIZE),
                            lladd_get32(h + AT_BLOCK)};
    if (out->block <= HEADER || out->size < out->block || out->size % out->block)
        return fail_segment(b, first, "its header is inconsistent");
    return 0;
}

static uint64_t segment_end(const struct segment *s)
{
    return s->first + s->size / s->block * (s->block - HEADER);
}

/* Offset in the file up to which it has the payload below the LSN. */
static uint64_t offset_of(const struct segment *s, uint64_t lsn)
{
    uint64_t payload = s->block - HEADER, at = lsn - s->first, rest = at % payload;
    return at / payload * s->block + (rest ? HEADER + rest : 0);
}

/* Finds the segment with the byte before `lsn`. With `begins`, a segment that begins at `lsn` is
 * preferred. After an unclean stop the log goes on in a new segment, and only its header says where
 * the log before it was cut. So that header belongs to the backup, also if the segment has no
 * record yet. */
static int find_segment(struct ll_ship_backup *b, const struct ll_ship_buf *firsts, uint64_t lsn,
                        bool begins, struct segment *out)
{
    const uint64_t *at = (const void *)firsts->data;
    uint64_t best = 0;
    for (size_t i = 0; i < firsts->len / sizeof *at; i++)
        if ((at[i] < lsn || (begins && at[i] == lsn)) && at[i] > best)
            best = at[i];
    int rc = read_segment(b, best, out);
    return !rc && segment_end(out) < lsn ? fail_segment(b, best, "the log after it is missing")
                                         : rc;
}

/* The segments of the backup, lowest last. */
static int list_segments(struct ll_ship_backup *b, struct ll_ship_buf *out)
{
    struct names n = {{.mem = b->mem}, b->err};
    struct segment s = {0};
    uint64_t end = b->m.info.end.v;
    int rc = b->dev->ops->list(b->dev, "log", see_name, &n);
    if (rc < 0 && !lladd_code_name(rc))
        rc = ll_ship_fail_io(b->err, rc, "list", "log");
    while (!rc) {
        rc = find_segment(b, &n.firsts, end, end == b->m.info.end.v && out->len == 0, &s);
        if (!rc)
            rc = ll_ship_append(out, &s, sizeof s, b->err);
        if (s.first <= b->m.info.from.v || s.cut <= b->m.info.from.v)
            break;
        end = s.cut;
    }
    ll_ship_buf_free(&n.firsts);
    return rc;
}

static int store_part(struct ll_ship_backup *b, struct lladd_file *file,
                      struct ll_ship_log_part *part)
{
    char name[LL_SHIP_NAME_MAX];
    b->object.len = 0;
    unsigned char *bytes = ll_ship_room(&b->object, part->bytes);
    if (!bytes)
        return ll_ship_no_memory(b->err);
    for (uint64_t done = 0; done < part->bytes;) {
        int64_t got =
            b->dev->ops->pread(b->dev, file, bytes + done, part->bytes - done, part->offset + done);
        if (got <= 0)
            return got ? ll_ship_fail_io(b->err, (int)got, "read", "a segment of the log")
                       : fail_segment(b, part->first, "it is too short");
        done += (uint64_t)got;
    }
    part->crc = lladd_crc32c(0, bytes, part->bytes);
    struct lladd_iovec piece = {bytes, part->bytes};
    ll_ship_log_name(b->m.info.name, part, name);
    int rc = ll_ship_put(b->store, b->mem, name, &piece, 1, b->err);
    if (!rc)
        rc = ll_ship_append(&b->m.log, part, sizeof *part, b->err);
    b->m.info.stored_bytes += part->bytes;
    return rc ? rc : ll_ship_progress(b, part->bytes);
}

static int copy_segment(struct ll_ship_backup *b, const struct segment *s, uint64_t end)
{
    struct lladd_file *file;
    uint64_t bytes = offset_of(s, end < segment_end(s) ? end : segment_end(s));
    int rc = open_segment(b, s->first, &file);
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
    int rc = list_segments(b, &list);
    const struct segment *s = (const void *)list.data;
    b->what = "log";
    b->bytes_done = 0;
    b->bytes_all = b->m.info.end.v - b->m.info.from.v;
    for (size_t i = list.len / sizeof *s; i-- > 0 && !rc;)
        rc = copy_segment(b, &s[i], i ? s[i - 1].cut : b->m.info.end.v);
    ll_ship_buf_free(&list);
    return rc;
}
