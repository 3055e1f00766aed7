/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reader: reads records from segment files.
 *
 * A reader has a few windows. Each window holds raw bytes of one segment, from the beginning of a
 * block as far as was needed. If a record is within one block its spans point into the window;
 * otherwise the record is assembled in `scratch`. A read backwards along a chain finds the last few
 * places still in a window.
 *
 * Unless it is lenient, the reader uses a block only if its header is valid, names this place, and
 * has the segment's incarnation: a reused file holds old blocks (LOG-2). A window holds no bytes
 * beyond the LSN where a cut ended the segment. In a log that is in use it holds none beyond
 * `written`, because a record may be written there later.
 *
 * A window may hold more than is needed: the beginning of the block, and bytes that are read in
 * advance. So if a read fails, the window is read sector by sector, and an error is returned only
 * if a needed byte, or the header of its block, is in a sector that cannot be read.
 */
#include "log/log_private.h"

#include <errno.h>

/* One block of the largest size. */
enum { WINDOW = LL_LOG_BLOCK_MAX, SECTOR = 4096 };

void ll_log__reader_init(struct ll_log__reader *r, struct ll_log *log)
{
    memset(r, 0, sizeof *r);
    r->log = log;
}

void ll_log__reader_forget(struct ll_log__reader *r)
{
    for (unsigned i = 0; i < LL_LOG__WINDOWS; i++) {
        ll_log__seg_release(r->log, r->windows[i].seg);
        r->windows[i].seg = NULL;
    }
    r->available = 0;
}

void ll_log__reader_free(struct ll_log__reader *r)
{
    ll_log__reader_forget(r);
    for (unsigned i = 0; i < LL_LOG__WINDOWS; i++)
        ll_free(r->log->env, r->windows[i].bytes);
    ll_free(r->log->env, r->scratch);
    memset(r->windows, 0, sizeof r->windows);
    r->scratch = NULL;
    r->scratch_capacity = 0;
}

int ll_log__reader_scratch(struct ll_log__reader *r, size_t size, struct lladd_error *err)
{
    if (size <= r->scratch_capacity)
        return 0;
    unsigned char *p = ll_resize(r->log->env, r->scratch, size);
    if (!p)
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for a log record of %zu bytes", size);
    r->scratch = p;
    r->scratch_capacity = size;
    return 0;
}

int ll_log__reader_prepare(struct ll_log__reader *r, size_t record, struct lladd_error *err)
{
    int rc = ll_log__reader_scratch(r, record, err);
    for (unsigned i = 0; !rc && i < 2; i++) {
        if (!r->windows[i].bytes)
            r->windows[i].bytes = ll_alloc(r->log->env, WINDOW);
        if (!r->windows[i].bytes)
            rc = ll_fail(err, LLADD_NO_MEMORY, "no memory to read the log");
    }
    return rc;
}

/* ---- windows ---- */

/* Offset in the window of the byte at lsn; may be beyond the window's end. */
static uint64_t offset_in(const struct ll_log__window *w, uint64_t lsn)
{
    const struct ll_log__seg *seg = w->seg;
    uint64_t index = (lsn - seg->first) / seg->room;
    uint64_t into = (lsn - seg->first) % seg->room;
    return (index - w->block) * seg->block_size + LL_LOG_BLOCK_HEADER + into;
}

static bool covers(const struct ll_log__window *w, uint64_t lsn)
{
    return w->seg && lsn >= w->begin && lsn < w->stop && offset_in(w, lsn) < WINDOW;
}

/* Chooses the window to use next: an unused one if there is memory for it, else the least recently
 * used. NULL: no memory. */
static struct ll_log__window *choose(struct ll_log__reader *r)
{
    struct ll_log__window *oldest = NULL;
    for (unsigned i = 0; i < LL_LOG__WINDOWS; i++) {
        struct ll_log__window *w = &r->windows[i];
        if (!w->bytes)
            w->bytes = ll_alloc(r->log->env, WINDOW);
        if (!w->bytes)
            continue;
        if (!w->seg)
            return w;
        if (!oldest || w->used < oldest->used)
            oldest = w;
    }
    return oldest;
}

static int place_window(struct ll_log__reader *r, uint64_t lsn, struct ll_log__window **out,
                        struct lladd_error *err)
{
    struct ll_log__seg *seg;
    uint64_t where = 0;
    int rc = ll_log__seg_find(r->log, lsn, &seg, &where, err);
    if (rc)
        return rc;
    if (where != lsn) {
        r->exists = where;
        r->jump = lsn >= seg->cut ? where : 0;
        ll_log__seg_release(r->log, seg);
        return ll_fail_lsn(err, LLADD_OUT_OF_RANGE, lladd_lsn_of(lsn), "LSN %llu is not in the log",
                           (unsigned long long)lsn);
    }
    struct ll_log__window *w = choose(r);
    if (!w) {
        ll_log__seg_release(r->log, seg);
        return ll_fail(err, LLADD_NO_MEMORY, "no memory to read the log");
    }
    ll_log__seg_release(r->log, w->seg);
    w->seg = seg;
    w->block = (lsn - seg->first) / seg->room;
    w->begin = seg->first + w->block * seg->room;
    w->stop = ll_log__seg_stop(r->log, seg);
    w->have = 0;
    w->checked = 0;
    w->bad = 0;
    *out = w;
    return 0;
}

/* The number of bytes of the window that may have been written by now. */
static uint64_t present(const struct ll_log *log, const struct ll_log__window *w)
{
    uint64_t end = w->stop;
    uint64_t written = lladd_atomic_load64(&log->written);
    if (log->life == LL_LOG__READY && written < end)
        end = written;
    if (end <= w->begin)
        return 0;
    uint64_t into = (end - w->seg->first) % w->seg->room;
    return into == 0 ? offset_in(w, end) - LL_LOG_BLOCK_HEADER : offset_in(w, end);
}

static void check_blocks(struct ll_log__reader *r, struct ll_log__window *w)
{
    const struct ll_log__seg *seg = w->seg;
    while (w->checked < w->have) {
        size_t at = w->checked - w->checked % seg->block_size;
        uint64_t index = w->block + at / seg->block_size;
        struct ll_log__block b;
        if (w->checked == at && !r->lenient) {
            if (w->have - at < LL_LOG_BLOCK_HEADER || !ll_log__block_decode(w->bytes + at, &b) ||
                b.lsn != seg->first + index * seg->room || b.segment_first != seg->first ||
                b.segment_size != seg->size || b.incarnation != seg->incarnation ||
                b.uuid_hash != r->log->uuid_hash)
                return;
        }
        w->checked = at + seg->block_size < w->have ? at + seg->block_size : w->have;
    }
}

/* Reads the window's bytes from w->have up to `to`. Zeros take the place of sectors that cannot be
 * read. */
static int64_t read_bytes(struct ll_log__reader *r, struct ll_log__window *w, uint64_t to)
{
    struct lladd_device *dev = r->log->dev;
    struct lladd_file *file = w->seg->file;
    uint64_t begin = w->block * w->seg->block_size, at = w->have;
    int64_t n = ll_io_pread(dev, file, w->bytes + at, (size_t)(to - at), begin + at);
    if (n >= 0 || ll_io_code((int)n, false) != LLADD_READ_FAILED)
        return n;
    w->why_bad = (int)n;
    if (r->failed && r->failed->code == 0)
        (void)ll_log__fail_io(r->failed, (int)n, false, "read", w->seg);
    for (uint64_t len; at < to; at += len) {
        len = SECTOR - at % SECTOR < to - at ? SECTOR - at % SECTOR : to - at;
        n = ll_io_pread(dev, file, w->bytes + at, (size_t)len, begin + at);
        if (n < 0 && ll_io_code((int)n, false) != LLADD_READ_FAILED)
            return n;
        if (n < 0) {
            memset(w->bytes + at, 0, (size_t)len);
            w->bad |= 1u << at / SECTOR;
        } else if ((uint64_t)n < len)
            return (int64_t)(at - w->have) + n;
    }
    return (int64_t)(to - w->have);
}

static int fill(struct ll_log__reader *r, struct ll_log__window *w, uint64_t want,
                struct lladd_error *err)
{
    uint64_t most = present(r->log, w);
    most = most < WINDOW ? most : WINDOW;
    if (want > most)
        want = most;
    if (w->have >= want)
        return 0;
    /* A read that goes forward will need the whole window. */
    uint64_t first = r->next && w->begin - r->next < WINDOW ? WINDOW : 4096;
    uint64_t to = w->have ? 2 * (uint64_t)w->have : first;
    to = to < want ? want : to;
    to = to > most ? most : to;
    int64_t n = read_bytes(r, w, to);
    if (n < 0)
        return ll_log__fail_io(err, (int)n, false, "read", w->seg);
    w->have += (size_t)n;
    check_blocks(r, w);
    return 0;
}

/* The offset of the first byte in [from, to) that could not be read, or `to`. */
static uint64_t first_bad(const struct ll_log__window *w, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += SECTOR - at % SECTOR)
        if (w->bad >> at / SECTOR & 1)
            return at;
    return to;
}

/* Forgets the window, so that the next read tries again. */
static int fail_bad(struct ll_log__reader *r, struct ll_log__window *w, struct lladd_error *err)
{
    int rc = ll_log__fail_io(err, w->why_bad, false, "read", w->seg);
    ll_log__seg_release(r->log, w->seg);
    w->seg = NULL;
    r->available = 0;
    return rc;
}

/* The block that holds `lsn` has no header of this segment and place. LLADD_END: the header is
 * blank, or it is the valid header of an old block. Otherwise LLADD_CORRUPT_LOG. */
static int fail_block(const struct ll_log__window *w, uint64_t off, uint64_t lsn,
                      struct lladd_error *err)
{
    size_t at = (size_t)(off - off % w->seg->block_size);
    struct ll_log__block b;
    bool blank = true;
    for (size_t i = at; i < at + LL_LOG_BLOCK_HEADER && i < w->have; i++)
        blank = blank && w->bytes[i] == 0;
    bool stale =
        !blank && w->have >= at + LL_LOG_BLOCK_HEADER && ll_log__block_decode(w->bytes + at, &b);
    if (blank || stale)
        return ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "nothing was written at LSN %llu",
                           (unsigned long long)lsn);
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(lsn),
                       "the header of the block that holds LSN %llu is damaged",
                       (unsigned long long)lsn);
}

int ll_log__reader_bytes(struct ll_log__reader *r, uint64_t lsn, size_t need,
                         const unsigned char **bytes, size_t *len, struct ll_log__seg **seg,
                         struct lladd_error *err)
{
    struct ll_log__window *w = NULL;
    for (unsigned i = 0; i < LL_LOG__WINDOWS && !w; i++)
        w = covers(&r->windows[i], lsn) ? &r->windows[i] : NULL;
    int rc = w ? 0 : place_window(r, lsn, &w, err);
    if (rc)
        return rc;
    w->used = ++r->clock;
    uint64_t off = offset_in(w, lsn);
    uint64_t end = off - off % w->seg->block_size + w->seg->block_size;
    if (w->stop - lsn < end - off)
        end = off + (w->stop - lsn);
    uint64_t want = need < end - off ? off + need : end;
    if (w->have < want) {
        rc = fill(r, w, want, err);
        if (rc)
            return rc;
    }
    uint64_t stop = end < w->checked ? end : w->checked;
    if (LL_UNLIKELY(w->bad != 0) && !r->failed && off < w->have) {
        uint64_t header = r->lenient ? off : off - off % w->seg->block_size;
        if (first_bad(w, header, header + 1) == header || first_bad(w, off, off + 1) == off)
            return fail_bad(r, w, err);
        stop = off < stop ? first_bad(w, off, stop) : stop;
    }
    if (off < w->checked) {
        *bytes = w->bytes + off;
        *len = (size_t)(stop - off);
        *seg = w->seg;
        return 0;
    }
    if (off < w->have) {
        r->skip = lsn - (lsn - w->seg->first) % w->seg->room + w->seg->room;
        return fail_block(w, off, lsn, err);
    }
    return ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "nothing was written at LSN %llu",
                       (unsigned long long)lsn);
}

/* ---- records ---- */

static int collect(struct ll_log__reader *r, uint64_t lsn, void *out, size_t len,
                   struct lladd_error *err)
{
    unsigned char *to = out;
    while (len > 0) {
        const unsigned char *bytes;
        struct ll_log__seg *seg;
        size_t n;
        int rc = ll_log__reader_bytes(r, lsn, len, &bytes, &n, &seg, err);
        if (rc)
            return rc;
        n = n < len ? n : len;
        memcpy(to, bytes, n);
        to += n;
        lsn += n;
        len -= n;
    }
    return 0;
}

static int fail_short(struct lladd_error *err, uint64_t lsn, int rc)
{
    if (rc != LLADD_END && rc != LLADD_OUT_OF_RANGE)
        return rc;
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(lsn),
                       "the record at LSN %llu is damaged: its end is missing",
                       (unsigned long long)lsn);
}

static int spread_record(struct ll_log__reader *r, uint64_t lsn, uint32_t salt,
                         struct ll_record *rec, struct lladd_error *err)
{
    unsigned char head[16];
    int rc = collect(r, lsn, head, sizeof head, err);
    if (rc)
        return fail_short(err, lsn, rc);
    size_t size = ll_log__peek_size(head);
    if (ll_log__peek_lsn(head) != lsn)
        return ll_fail_lsn(err, LLADD_END, lladd_lsn_of(lsn), "no record begins at LSN %llu",
                           (unsigned long long)lsn);
    if (size < LL_RECORD_NARROW || size % LL_RECORD_ALIGN != 0)
        return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(lsn),
                           "the record at LSN %llu is damaged: its length is invalid",
                           (unsigned long long)lsn);
    rc = ll_log__reader_scratch(r, size, err);
    if (!rc)
        rc = collect(r, lsn, r->scratch, size, err);
    r->skip = 0; /* the length may be damaged */
    r->available = 0;
    return rc ? fail_short(err, lsn, rc)
              : ll_record_decode(r->scratch, size, lladd_lsn_of(lsn), salt, rec, err);
}

int ll_log__reader_record(struct ll_log__reader *r, uint64_t lsn, struct ll_record *rec,
                          struct lladd_error *err)
{
    r->exists = 0;
    r->jump = 0;
    r->skip = 0;
    if (LL_LIKELY(ll_log__reader_has(r, lsn))) {
        int rc = ll_record_decode(r->bytes, r->available, lladd_lsn_of(lsn), r->salt, rec, err);
        if (LL_UNLIKELY(rc))
            return rc;
    } else {
        const unsigned char *bytes;
        struct ll_log__seg *seg;
        size_t len;
        int rc = ll_log__reader_bytes(r, lsn, LL_RECORD_NARROW, &bytes, &len, &seg, err);
        if (!rc && len >= LL_RECORD_NARROW && ll_log__peek_lsn(bytes) == lsn &&
            ll_log__peek_size(bytes) > len)
            rc = ll_log__reader_bytes(r, lsn, ll_log__peek_size(bytes), &bytes, &len, &seg, err);
        if (rc)
            return rc;
        if (len < LL_RECORD_NARROW || ll_log__peek_size(bytes) > len)
            return spread_record(r, lsn, seg->salt, rec, err);
        r->bytes = bytes;
        r->available = len;
        r->salt = seg->salt;
        rc = ll_record_decode(bytes, len, lladd_lsn_of(lsn), seg->salt, rec, err);
        if (rc)
            return rc;
    }
    r->next = lsn + rec->size;
    r->bytes += rec->size;
    r->available -= rec->size;
    return 0;
}
