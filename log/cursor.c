/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cursor: reads single records of a log in any state.
 *
 * A record is read from the ring while the ring holds it, so a rollback of recent work reads no
 * file. The record is copied under ring_mutex, which prevents the reuse of its space.
 *
 * In a log that is in use, every record below `written` must be good. The end of a log that is only
 * inspected is not known: the log ends at the first place without a good record, unless a record
 * there is known to have been durable (scan.c).
 */
#include "log/log_private.h"

#include <errno.h>

struct ll_log_cursor {
    struct ll_log *log;
    struct ll_log__reader reader;
    uint64_t at;               /* end of the last record read */
    struct lladd_error failed; /* of ll_log_cursor_walk: the first sector that this walk could not
                                * read, if it has reported no gap since */
};

int ll_log_cursor_open(struct ll_log *log, struct ll_log_cursor **out)
{
    struct ll_log_cursor *c = ll_alloc_zero(log->env, sizeof *c);
    if (!c)
        return LLADD_NO_MEMORY;
    c->log = log;
    ll_log__reader_init(&c->reader, log);
    *out = c;
    return 0;
}

void ll_log_cursor_close(struct ll_log_cursor *c)
{
    if (!c)
        return;
    ll_log__reader_free(&c->reader);
    ll_free(c->log->env, c);
}

int ll_log_cursor_prepare(struct ll_log_cursor *c, size_t record_bytes)
{
    return ll_log__reader_prepare(&c->reader, record_bytes, NULL);
}

void ll_log_cursor_rest(struct ll_log_cursor *c)
{
    ll_log__reader_forget(&c->reader);
}

/* ---- the ring ---------------------------------------------------------------------------- */

enum place { IN_RING, IN_FILES, NOWHERE };

static int copy_from_ring(struct ll_log_cursor *c, uint64_t lsn, enum place *place, uint32_t *size,
                          struct lladd_error *err)
{
    struct ll_log *log = c->log;
    for (;;) {
        bool copied = false;
        lladd_mutex_lock(&log->ring_mutex);
        bool published = ll_log__ring_published(log, lsn, size);
        if (published && *size <= c->reader.scratch_capacity)
            copied = ll_log__ring_read(log, lsn, c->reader.scratch, *size);
        lladd_mutex_unlock(&log->ring_mutex);
        *place = IN_RING;
        if (copied)
            return 0;
        if (!published) {
            *place = lsn < lladd_atomic_load64(&log->written) ? IN_FILES : NOWHERE;
            return 0;
        }
        /* The record is longer than any read before. (If no record begins at lsn, `size` is
         * arbitrary, but has at most 24 bits.) */
        int rc = ll_log__reader_scratch(&c->reader, *size, err);
        if (rc)
            return rc;
    }
}

static int from_ring(struct ll_log_cursor *c, uint64_t lsn, enum place *place,
                     struct ll_record *rec, struct lladd_error *err)
{
    uint32_t size;
    *place = IN_FILES;
    if (c->log->life != LL_LOG__READY)
        return 0;
    int rc = copy_from_ring(c, lsn, place, &size, err);
    if (!rc && *place == IN_RING) {
        c->reader.available = 0; /* no buffered bytes follow this record */
        rc = ll_record_decode(c->reader.scratch, size, lladd_lsn_of(lsn), ll_log__salt(c->log, lsn),
                              rec, err);
    }
    return rc;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int out_of_range(struct lladd_error *err, uint64_t lsn, const char *why)
{
    return ll_fail_lsn(err, LLADD_OUT_OF_RANGE, lladd_lsn_of(lsn), "LSN %llu %s",
                       (unsigned long long)lsn, why);
}

/* Of ll_log_cursor_walk: may buffered bytes be zeros that took the place of a bad sector before the
 * last gap, or in an earlier walk? If a read has failed since, it is the reason of the next gap,
 * and another read would only take time. */
static bool may_be_zeros(const struct ll_log_cursor *c)
{
    return c->reader.failed && c->failed.code == 0;
}

/* Reads the record at lsn. LLADD_END if no record was written there yet; LLADD_OUT_OF_RANGE if the
 * LSN is truncated or in a gap (for a gap, reader.jump says where the log continues). */
static int record_at(struct ll_log_cursor *c, uint64_t lsn, struct ll_record *rec,
                     struct lladd_error *err)
{
    struct ll_log *log = c->log;
    struct lladd_error what = LLADD_ERROR_INIT;
    enum place place;
    int rc;
    if (LL_LIKELY(ll_log__reader_has(&c->reader, lsn))) {
        rc = ll_log__reader_record(&c->reader, lsn, rec, NULL);
        if (LL_LIKELY(rc == 0))
            return 0;
        ll_log__reader_forget(&c->reader);
    }
    c->reader.jump = 0;
    rc = from_ring(c, lsn, &place, rec, err);
    if (rc || place == IN_RING)
        return rc;
    bool live = log->life == LL_LOG__READY;
    if (place == NOWHERE)
        return ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "nothing was logged at LSN %llu yet",
                           (unsigned long long)lsn);
    rc = ll_log__reader_record(&c->reader, lsn, rec, &what);
    bool none = rc == LLADD_END || rc == LLADD_CORRUPT_LOG;
    if (none || rc == LLADD_MISSING_FILE) {
        /* A header that could not be read may say that the log ends at lsn and where it goes on. */
        uint64_t tried;
        int unread = ll_log__headers_above(log, lsn, &tried, &what);
        if (unread) {
            rc = unread;
        } else if (tried || (none && (!live || may_be_zeros(c)))) {
            /* Or another process may have written there since the bytes were buffered. */
            ll_log__reader_forget(&c->reader);
            rc = ll_log__reader_record(&c->reader, lsn, rec, &what);
        }
    }
    if (!rc)
        return 0;
    /* The segment may have been truncated and reused during the read. If it still exists, the
     * record is damaged, even below a hole in the chain of segments. */
    if (live && rc != LLADD_OUT_OF_RANGE && ll_log__given_up(log, lsn))
        return out_of_range(err, lsn, "was truncated");
    if (live && rc == LLADD_END)
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(lsn), "%s", what.message);
    if (!live && (rc == LLADD_END || rc == LLADD_CORRUPT_LOG)) {
        int damage = ll_log__judge(log, lsn, &what, err);
        if (damage)
            return damage;
        return ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "%s", what.message);
    }
    if (err)
        *err = what;
    return rc;
}

int ll_log_cursor_read(struct ll_log_cursor *c, lladd_lsn lsn, struct ll_record *rec,
                       struct lladd_error *err)
{
    if (lsn.v % LL_RECORD_ALIGN != 0 || lsn.v >= LL_LOG_LSN_END)
        return out_of_range(err, lsn.v, "is not the LSN of a record");
    int rc = record_at(c, lsn.v, rec, err);
    if (rc == LLADD_END)
        return out_of_range(err, lsn.v, "is beyond the end of the log");
    if (!rc)
        c->at = lsn.v + rec->size;
    return rc;
}

int ll_log_cursor_need(struct ll_log_cursor *c, lladd_lsn lsn, struct ll_record *rec,
                       struct lladd_error *err)
{
    struct ll_log__segments *segs = c->log->segs;
    int rc = ll_log_cursor_read(c, lsn, rec, err);
    if (rc != LLADD_OUT_OF_RANGE)
        return rc;
    lladd_mutex_lock(&segs->mutex);
    if (lsn.v < segs->chain)
        rc = ll_log__fail_missing(segs, lsn.v, err);
    else
        rc = ll_fail_lsn(err, LLADD_CORRUPT_LOG, lsn,
                         "LSN %llu is needed, and the log has no such record",
                         (unsigned long long)lsn.v);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

int ll_log_cursor_begin(struct ll_log_cursor *c, lladd_lsn lsn, struct ll_record *rec,
                        struct lladd_error *err)
{
    int rc = ll_log_cursor_read(c, lsn, rec, err);
    if (rc != LLADD_OUT_OF_RANGE)
        return rc;
    rc = ll_log_reaches(c->log, lsn, err);
    return rc ? rc : ll_log_cursor_seek(c, lsn, rec, err);
}

int ll_log_cursor_next(struct ll_log_cursor *c, struct ll_record *rec, struct lladd_error *err)
{
    if (c->at == 0)
        return ll_fail(err, LLADD_BAD_STATE, "the cursor has no position");
    int rc;
    do {
        rc = record_at(c, c->at, rec, err);
        if (rc == LLADD_OUT_OF_RANGE && c->reader.jump > c->at)
            c->at = c->reader.jump;
        else
            break;
    } while (true);
    if (!rc)
        c->at += rec->size;
    return rc;
}

/* ---- batches ----------------------------------------------------------------------------- */

/* The share of a record, computed from bytes that are not verified. Without a branch, like
 * ll_log__peek_page. */
static inline uint32_t share_of(unsigned kind, uint64_t page, uint32_t n)
{
    const uint32_t paged = 1u << LL_REC_UPDATE | 1u << LL_REC_CLR | 1u << LL_REC_IMAGE;
    uint32_t hash = (uint32_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    uint32_t share = (uint32_t)((uint64_t)hash * n >> 32);
    return share & (0u - (paged >> (kind & 31) & 1));
}

bool ll_log_share_has(struct ll_log_share share, const struct ll_record *rec)
{
    return share_of(rec->kind, rec->page & ((UINT64_C(1) << 48) - 1), share.n) == share.index;
}

/* Walks over the buffered records that follow the last record read, until it has found `most`
 * records of the share. Stores their places in at[]. */
static uint32_t pick(const struct ll_log__reader *r, struct ll_log_share share, uint32_t most,
                     const unsigned char **at, uint64_t *passed, size_t *walked)
{
    const unsigned char *p = r->bytes;
    size_t left = r->available;
    uint64_t lsn = r->next;
    uint32_t n = 0;
    while (n < most && left >= LL_RECORD_NARROW) {
        uint32_t size = ll_log__peek_size(p);
        if (LL_UNLIKELY(size < LL_RECORD_NARROW || size % LL_RECORD_ALIGN != 0 || size > left ||
                        ll_log__peek_lsn(p) != lsn))
            break;
        at[n] = p;
        n += share_of(p[7], ll_log__peek_page(p, size), share.n) == share.index;
        p += size;
        left -= size;
        lsn += size;
        (*passed)++;
    }
    *walked = r->available - left;
    return n;
}

/* Takes only records that are buffered. False: the cursor did not move. */
static bool batch_ahead(struct ll_log_cursor *c, struct ll_log_share share, uint32_t most,
                        struct ll_log_batch *out)
{
    struct ll_log__reader *r = &c->reader;
    const unsigned char *at[LL_LOG_BATCH];
    size_t walked;
    uint32_t n = pick(r, share, most, at, &out->passed, &walked);
    for (uint32_t i = 0; i < n; i++) {
        if (LL_UNLIKELY(ll_record_decode(at[i], ll_log__peek_size(at[i]),
                                         lladd_lsn_of(ll_log__peek_lsn(at[i])), r->salt,
                                         &out->record[i], NULL) != 0)) {
            walked = (size_t)(at[i] - r->bytes);
            break;
        }
        out->n = i + 1;
    }
    r->bytes += walked;
    r->available -= walked;
    r->next += walked;
    c->at = r->next;
    return walked > 0;
}

int ll_log_cursor_batch(struct ll_log_cursor *c, struct ll_log_share share, unsigned most,
                        struct ll_log_batch *out, struct lladd_error *err)
{
    LL_ASSERT(share.index < share.n && most > 0);
    most = most < LL_LOG_BATCH ? most : LL_LOG_BATCH;
    out->n = 0;
    out->passed = 0;
    if (c->at == c->reader.next && batch_ahead(c, share, most, out)) {
        out->end = lladd_lsn_of(c->at);
        return 0;
    }
    int rc = ll_log_cursor_next(c, &out->record[0], err);
    if (rc)
        return rc;
    out->passed = 1;
    out->n = ll_log_share_has(share, &out->record[0]);
    out->end = lladd_lsn_of(c->at);
    return 0;
}

/* ---- seeking ----------------------------------------------------------------------------- */

/* *begin: the first LSN of the block that holds lsn. *before: an LSN in the block before, or *begin
 * if no such block is known. LLADD_END: the block has no valid header. */
static int read_header(struct ll_log *log, uint64_t lsn, struct ll_log__block *b, uint64_t *begin,
                       uint64_t *before, struct lladd_error *err)
{
    unsigned char bytes[LL_LOG_BLOCK_HEADER];
    struct ll_log__seg *seg;
    uint64_t where;
    int rc = ll_log__seg_find(log, lsn, &seg, &where, err);
    if (rc)
        return rc;
    uint64_t index = (where - seg->first) / seg->room;
    *begin = seg->first + index * seg->room;
    *before = index > 0 || seg->first > ll_log_oldest(log).v ? *begin - LL_RECORD_ALIGN : *begin;
    rc = ll_io_read_full(log->dev, seg->file, bytes, sizeof bytes, index * seg->block_size);
    if (rc && rc != -ENODATA)
        rc = ll_log__fail_io(err, rc, false, "read", seg);
    else if (rc || !ll_log__block_decode(bytes, b) || b->lsn != *begin)
        rc = LLADD_END;
    ll_log__seg_release(log, seg);
    return rc;
}

/* Finds the first record that begins in the block that holds lsn. If no record begins in that
 * block, or its first record is unknown, tries earlier blocks. LLADD_OUT_OF_RANGE: the oldest
 * block, or a gap, was reached and no beginning of a record is known. LLADD_CORRUPT_LOG or
 * LLADD_READ_FAILED: the same, and a header was damaged or could not be read. */
static int boundary_near(struct ll_log_cursor *c, uint64_t lsn, uint64_t *boundary,
                         struct lladd_error *err)
{
    struct lladd_error unread = LLADD_ERROR_INIT;
    bool whole = true;
    for (;;) {
        struct lladd_error why = LLADD_ERROR_INIT;
        struct ll_log__block b;
        uint64_t begin = 0, before = 0;
        int rc = read_header(c->log, lsn, &b, &begin, &before, &why);
        if (rc == LLADD_READ_FAILED && begin) {
            unread = why;
            rc = LLADD_END;
        }
        if (rc && rc != LLADD_END) {
            if (err)
                *err = why;
            return rc;
        }
        if (!rc && b.first_record != LL_LOG_BLOCK_NONE && b.first_record != LL_LOG_BLOCK_UNKNOWN) {
            *boundary = begin + b.first_record;
            return 0;
        }
        whole = whole && !rc;
        if (before >= begin || before >= lsn) /* the oldest block, or a gap left by a cut */
            break;
        lsn = before;
    }
    if (unread.code && err)
        *err = unread;
    return unread.code
               ? unread.code
               : ll_fail_lsn(
                     err, whole ? LLADD_OUT_OF_RANGE : LLADD_CORRUPT_LOG, lladd_lsn_of(lsn),
                     "no record is known to begin at or before LSN %llu", (unsigned long long)lsn);
}

/* Reads the first good record at or after lsn, wherever it is. */
static int resynchronise(struct ll_log_cursor *c, uint64_t lsn, struct ll_record *rec,
                         struct lladd_error *err)
{
    struct ll_log__reader lenient;
    ll_log__reader_init(&lenient, c->log);
    lenient.lenient = true;
    lenient.failed = c->reader.failed;
    int rc = ll_log__find_record(&lenient, lsn, rec, err);
    uint64_t found = rc ? 0 : rec->lsn.v;
    ll_log__reader_free(&lenient);
    if (rc)
        return rc;
    rc = record_at(c, found, rec, err);
    if (!rc)
        c->at = found + rec->size;
    return rc;
}

int ll_log_cursor_seek(struct ll_log_cursor *c, lladd_lsn lsn, struct ll_record *rec,
                       struct lladd_error *err)
{
    struct ll_log__seg *seg;
    uint64_t goal = (lsn.v + LL_RECORD_ALIGN - 1) & ~(uint64_t)(LL_RECORD_ALIGN - 1);
    uint64_t where = goal;
    if (lsn.v >= LL_LOG_LSN_END) /* rounding up could wrap around to 0 */
        return ll_fail_lsn(err, LLADD_END, lsn, "LSN %llu is beyond every log",
                           (unsigned long long)lsn.v);
    int rc = ll_log__seg_find(c->log, goal, &seg, &where, err);
    if (rc && rc != LLADD_CORRUPT_LOG && rc != LLADD_MISSING_FILE &&
        !ll_log__goes_over(c->log, goal, rc))
        return rc;
    if (!rc) {
        ll_log__seg_release(c->log, seg);
        goal = where;
        rc = boundary_near(c, goal, &c->at, err);
    }
    while (!rc) {
        rc = ll_log_cursor_next(c, rec, err);
        if (!rc && rec->lsn.v >= goal)
            return 0;
        /* The record at c->at is damaged. Only damage before the goal may be skipped. */
        if (rc == LLADD_END || (rc && c->at >= goal))
            return rc;
    }
    return rc == LLADD_NO_MEMORY ? rc : resynchronise(c, goal, rec, err);
}

/* Moves *from to the end of the last segment with a header that cannot be read. The log below it
 * does not count: where it ends is known only from such a header, so it may have records that are
 * in a gap. */
static int begin_walk(struct ll_log_cursor *c, lladd_lsn *from, struct lladd_error *err)
{
    uint64_t end;
    c->failed.code = 0;
    int rc = ll_log__headers_above(c->log, from->v, &end, err);
    if (rc != LLADD_READ_FAILED)
        return rc;
    c->failed = *err;
    from->v = end > from->v ? end : from->v;
    return 0;
}

int ll_log_cursor_walk(struct ll_log_cursor *c, lladd_lsn from, struct ll_record *rec,
                       struct lladd_error *gap)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    lladd_lsn asked = from;
    c->reader.failed = &c->failed;
    int rc = from.v ? begin_walk(c, &from, &why) : 0;
    if (!rc)
        rc = from.v ? ll_log_cursor_seek(c, from, rec, &why) : ll_log_cursor_next(c, rec, &why);
    bool passed = asked.v && c->failed.code && (rc || rec->lsn.v > asked.v);
    gap->code = 0;
    if (passed || (rc && rc != LLADD_END))
        *gap = c->failed.code ? c->failed : why;
    from.v = from.v ? from.v : c->at;
    while (rc == LLADD_CORRUPT_LOG || rc == LLADD_MISSING_FILE) {
        from.v = (why.lsn.v > from.v ? why.lsn.v : from.v) + 1;
        from.v = c->reader.skip > from.v ? c->reader.skip : from.v;
        rc = ll_log_cursor_seek(c, from, rec, &why);
    }
    if (rc && rc != LLADD_END)
        *gap = why;
    if (gap->code)
        c->failed.code = 0;
    return rc;
}

/* In a log that is in use, no record begins where the written log has no space for a header. But a
 * record that began before may end there. */
static bool no_space(const struct ll_log *log, uint64_t lsn)
{
    return log->life == LL_LOG__READY &&
           lsn + LL_RECORD_NARROW > lladd_atomic_load64(&log->written);
}

/* Reads the record at the goal. If no record begins there, reads the first good record of the log,
 * because it is unknown where the log's first record begins. */
static int follow_from_start(struct ll_log_cursor *c, uint64_t goal, struct ll_record *rec,
                             struct lladd_error *err)
{
    uint64_t oldest = ll_log_oldest(c->log).v;
    int rc = record_at(c, goal, rec, err);
    if (rc == 0)
        c->at = goal + rec->size;
    bool none = rc && (no_space(c->log, goal) ||
                       ll_log__reader_record(&c->reader, goal, rec, NULL) == LLADD_END);
    if (rc == 0 || (rc == LLADD_CORRUPT_LOG && !none) || rc == LLADD_NO_MEMORY ||
        rc == LLADD_READ_FAILED)
        return rc;
    return resynchronise(c, goal < oldest ? goal : oldest, rec, err);
}

int ll_log_cursor_follow(struct ll_log_cursor *c, lladd_lsn lsn, struct ll_record *rec,
                         struct lladd_error *err)
{
    struct lladd_error ignored;
    struct ll_log__seg *seg;
    uint64_t goal = (lsn.v + LL_RECORD_ALIGN - 1) & ~(uint64_t)(LL_RECORD_ALIGN - 1);
    if (lsn.v >= LL_LOG_LSN_END)
        return ll_log_cursor_seek(c, lsn, rec, err);
    int rc = ll_log__seg_find(c->log, goal, &seg, &goal, err);
    if (rc)
        return rc;
    ll_log__seg_release(c->log, seg);
    c->at = 0;
    rc = boundary_near(c, goal, &c->at, err);
    bool first = rc == LLADD_OUT_OF_RANGE;
    if (first)
        rc = follow_from_start(c, goal, rec, err);
    else if (!rc)
        rc = ll_log_cursor_next(c, rec, err);
    while (!rc && rec->lsn.v < goal)
        rc = ll_log_cursor_next(c, rec, err);
    if (rc == 0 || rc == LLADD_END || rc == LLADD_NO_MEMORY)
        return rc;
    /* Damage before the goal hides no record if a good record begins at the goal. */
    if (first || c->at >= goal || record_at(c, goal, rec, &ignored) != 0)
        return rc;
    c->at = goal + rec->size;
    return 0;
}
