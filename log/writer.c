/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer: writes the ring to the files. A thread that walks or writes holds the write mutex
 * (group.c).
 *
 * Walk. The writer steps from published record to published record. When a record begins in a new
 * block or crosses into it, the writer builds the block's header: now it is known which record is
 * the first to start in the block. A walk ends at the end of a record, and so does a write.
 *
 * Write. The pieces of one segment, [header] payload [header] payload ..., are contiguous in its
 * file, so one pwritev writes them. The header of a segment's first block was written when the file
 * was made.
 */
#include "log/log_private.h"

enum { HEADERS = 256, PIECES_PER_BLOCK = 3 };
/* Payload bytes of a block of the greatest size. A segment with smaller blocks has only one
 * block. */
enum { ROOM = LL_LOG_BLOCK_MAX - LL_LOG_BLOCK_HEADER };
/* The device is asked to start writeback when this number of bytes was written since the last
 * request. Such a request takes longer than many small writes into the operating system's cache. */
enum { WRITEBACK = 1 << 20 };

int ll_log__writer_alloc(struct ll_log *log)
{
    struct ll_log__writer *w = &log->writer;
    uint64_t room = ll_log__block_size((uint32_t)log->cfg.segment_min) - LL_LOG_BLOCK_HEADER;
    uint64_t blocks = log->ring_size / room + 2;
    uint64_t most = log->record_max / ROOM + 2; /* enough for the headers of any one record
                                                 * (begin_blocks) */
    most = most < HEADERS ? HEADERS : most;
    w->header_capacity = (uint32_t)(blocks < most ? blocks : most);
    w->piece_capacity = w->header_capacity * 2 + PIECES_PER_BLOCK;
    w->headers = ll_alloc(log->env, w->header_capacity * sizeof *w->headers);
    w->pieces = ll_alloc(log->env, w->piece_capacity * sizeof *w->pieces);
    if (w->headers && w->pieces)
        return 0;
    ll_log__writer_free(log);
    return LLADD_NO_MEMORY;
}

void ll_log__writer_free(struct ll_log *log)
{
    struct ll_log__writer *w = &log->writer;
    ll_free(log->env, w->headers);
    ll_free(log->env, w->pieces);
    w->headers = NULL;
    w->pieces = NULL;
}

void ll_log__writer_init(struct ll_log *log, struct ll_log__seg *seg, uint64_t lsn)
{
    struct ll_log__writer *w = &log->writer;
    LL_ASSERT(lsn >= seg->first && lsn <= seg->end);
    uint64_t into = (lsn - seg->first) % seg->room;
    w->walked = lsn;
    w->writeback = lsn;
    w->next_block = into == 0 ? lsn : lsn - into + seg->room;
    w->seg = NULL;
    w->ahead = NULL;
    w->header_count = 0;
    w->header_used = 0;
}

/* Makes *seg the segment that holds lsn. Credit for lsn was granted, so the segment exists; opening
 * its file may still fail. */
static int move_to(struct ll_log *log, struct ll_log__seg **seg, uint64_t lsn,
                   struct lladd_error *err)
{
    if (LL_LIKELY(*seg && lsn >= (*seg)->first && lsn < (*seg)->end))
        return 0;
    struct ll_log__seg *found;
    uint64_t where;
    int rc = ll_log__seg_find(log, lsn, &found, &where, err);
    if (rc)
        return rc;
    LL_ASSERT(where == lsn);
    ll_log__seg_release(log, *seg);
    *seg = found;
    return 0;
}

/* ---- walking ---- */

/* Builds the headers of all blocks that begin within the record [at, next), or of none: *room is
 * false if earlier headers must be written first. If there are no earlier headers, all of them
 * fit. */
static int begin_blocks(struct ll_log *log, uint64_t at, uint64_t next, bool *room,
                        struct lladd_error *err)
{
    struct ll_log__writer *w = &log->writer;
    uint64_t blocks = (next - w->next_block + ROOM - 1) / ROOM;
    *room = w->header_count == 0 || blocks <= w->header_capacity - w->header_count;
    if (!*room)
        return 0;
    while (w->next_block < next) {
        uint64_t lsn = w->next_block;
        int rc = move_to(log, &w->ahead, lsn, err);
        if (rc)
            return rc;
        const struct ll_log__seg *seg = w->ahead;
        uint32_t index = (uint32_t)((lsn - seg->first) / seg->room);
        if (index > 0) {
            LL_ASSERT(w->header_count < w->header_capacity);
            struct ll_log__header *h = &w->headers[w->header_count++];
            uint64_t first = at == lsn ? 0 : next - lsn;
            struct ll_log__block b = {
                .incarnation = seg->incarnation,
                .lsn = lsn,
                .first_record = first < seg->room ? (uint32_t)first : LL_LOG_BLOCK_NONE,
                .block_size = seg->block_size,
                .segment_first = seg->first,
                .cut = seg->cut,
                .segment_size = seg->size,
                .index = index,
                .uuid_hash = log->uuid_hash,
            };
            h->lsn = lsn;
            ll_log__block_encode(&b, h->bytes);
        }
        w->next_block = lsn + seg->room;
    }
    return 0;
}

int ll_log__walk(struct ll_log *log, uint64_t end, struct lladd_error *err)
{
    struct ll_log__writer *w = &log->writer;
    uint64_t at = w->walked;
    uint64_t records = 0;
    bool room = true;
    int rc = 0;
    while (at < end) {
        if (LLADD_LE64(lladd_atomic_load64(ll_log__ring_lsn(log, at))) != at)
            break;
        uint64_t next = at + ll_log__peek_size(ll_log__ring_at(log, at));
        if (LL_UNLIKELY(next > w->next_block)) {
            rc = begin_blocks(log, at, next, &room, err);
            if (rc || !room)
                break;
        }
        at = next;
        records++;
    }
    w->walked = at;
    lladd_atomic_max64(&log->visible, at);
    lladd_atomic_count64(&log->records, records);
    return rc;
}

/* ---- writing ---- */

/* Two pieces if the range wraps around in the ring. */
static uint32_t add_payload(struct ll_log *log, uint32_t n, uint64_t lsn, uint64_t len)
{
    struct lladd_iovec *v = log->writer.pieces;
    uint64_t at = lsn & (log->ring_size - 1);
    uint64_t first = len < log->ring_size - at ? len : log->ring_size - at;
    v[n++] = (struct lladd_iovec){log->ring + at, (size_t)first};
    if (first < len)
        v[n++] = (struct lladd_iovec){log->ring, (size_t)(len - first)};
    return n;
}

/* The file offset of a payload byte or, for the first byte of a block, of the block's header. */
static uint64_t place_of(const struct ll_log__seg *seg, uint64_t lsn)
{
    uint64_t index = (lsn - seg->first) / seg->room;
    uint64_t into = (lsn - seg->first) % seg->room;
    return index * seg->block_size + (index > 0 && into == 0 ? 0 : LL_LOG_BLOCK_HEADER + into);
}

/* Collects the pieces of the part of [lsn, to) that is in w->seg, as many as fit. Returns the LSN
 * where they end; *off: their offset in the file. */
static uint64_t gather_pieces(struct ll_log *log, uint64_t lsn, uint64_t to, uint32_t *count,
                              uint64_t *off)
{
    struct ll_log__writer *w = &log->writer;
    const struct ll_log__seg *seg = w->seg;
    uint64_t index = (lsn - seg->first) / seg->room;
    uint64_t into = (lsn - seg->first) % seg->room;
    uint32_t n = 0;
    *off = place_of(seg, lsn);
    if (to > seg->end)
        to = seg->end;
    while (lsn < to && n + PIECES_PER_BLOCK <= w->piece_capacity) {
        if (into == 0 && index > 0) {
            const struct ll_log__header *h = &w->headers[w->header_used++];
            LL_ASSERT(h->lsn == lsn && w->header_used <= w->header_count);
            w->pieces[n++] = (struct lladd_iovec){h->bytes, LL_LOG_BLOCK_HEADER};
        }
        uint64_t len = to - lsn < seg->room - into ? to - lsn : seg->room - into;
        n = add_payload(log, n, lsn, len);
        lsn += len;
        index++;
        into = 0;
    }
    *count = n;
    return lsn;
}

/* Called when no sync follows soon. Asks the device to start writeback up to `lsn` if WRITEBACK
 * bytes or more were written since the last request. Bytes left at the end of a segment wait for
 * the sync. */
static void start_writeback(struct ll_log *log, uint64_t lsn)
{
    struct ll_log__writer *w = &log->writer;
    uint64_t from = lladd_atomic_load64(&log->durable);
    if (from < w->writeback)
        from = w->writeback;
    if (lsn - from < WRITEBACK)
        return;
    if (from < w->seg->first)
        from = w->seg->first;
    uint64_t off = place_of(w->seg, from);
    ll_io_start_writeback(log->dev, w->seg->file, off, place_of(w->seg, lsn) - off);
    w->writeback = lsn;
}

int ll_log__write_walked(struct ll_log *log, bool sync_comes, struct lladd_error *err)
{
    struct ll_log__writer *w = &log->writer;
    uint64_t from = log->written;
    uint64_t lsn = from;
    while (lsn < w->walked) {
        uint32_t n;
        uint64_t off;
        int rc = move_to(log, &w->seg, lsn, err);
        if (rc)
            return rc;
        lsn = gather_pieces(log, lsn, w->walked, &n, &off);
        rc = ll_point(log->env, "log.group.before_write");
        if (!rc)
            rc = ll_io_pwritev(log->dev, w->seg->file, w->pieces, (int)n, off);
        if (rc)
            return ll_log__fail_io(err, rc, true, "write", w->seg);
        if (!sync_comes)
            start_writeback(log, lsn);
        lladd_atomic_count64(&log->writes, 1);
    }
    LL_ASSERT(w->header_used == w->header_count);
    w->header_used = 0;
    w->header_count = 0;
    lladd_atomic_count64(&log->bytes_written, lsn - from);
    /* Raised once, to the end of a record: ring space below `written` may be reused, so the records
     * there must be wholly in the files. */
    lladd_atomic_store64(&log->written, lsn);
    return 0;
}

static int sync_one(struct ll_log *log, struct ll_log__seg *seg, struct lladd_error *err)
{
    int rc = LLADD_PLANTED(LLADD_BUG_LOG_SYNC) ? 0 : ll_io_sync(log->dev, seg->file);
    if (rc && LLADD_PLANTED(LLADD_BUG_SYNC_AGAIN))
        rc = ll_io_sync(log->dev, seg->file);
    lladd_atomic_count64(&log->syncs, 1);
    return rc ? ll_log__fail_io(err, rc, true, "sync", seg) : 0;
}

int ll_log__sync_range(struct ll_log *log, uint64_t from, uint64_t to, struct lladd_error *err)
{
    while (from < to) {
        struct ll_log__seg *seg;
        uint64_t where;
        int rc = ll_log__seg_find(log, from, &seg, &where, err);
        if (rc)
            return rc;
        from = seg->end;
        rc = sync_one(log, seg, err);
        ll_log__seg_release(log, seg);
        if (rc)
            return rc;
    }
    return 0;
}
