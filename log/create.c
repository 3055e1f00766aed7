/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * create: makes segment files.
 *
 * A file is named log/<first LSN>.seg when it is ready for use: its space and header are written
 * and synced under another name, then it is renamed, and the directory is synced. A new file is
 * first named log/new.tmp. The file of a dead segment that is reused is first renamed to log/<first
 * LSN>.new, durably, before a byte of it is changed. A .seg file therefore has the header with
 * which it was made, and a .new file has the space of a whole segment. Old blocks and records in a
 * reused file are not taken for new ones: a block holds its LSN and incarnation, a record its LSN
 * and a salted checksum.
 *
 * At a start after a crash, until the new segment is durable, the segments above the end of the log
 * are needed for three things:
 * - a segment with a cut declares that the segments in its gap are dead;
 * - a lower segment connects the segments above it with the log;
 * - the highest segment shows which LSNs were handed out (LOG-1).
 *
 * Of these segments only damaged ones are removed before the new segment is durable. The new
 * segment reuses the file of a segment in a gap or, if no segment is in a gap, that of the highest
 * segment. While the file is being made, its name states the highest LSN, and the other segments
 * stay as they were. After a crash at any step the log opens and ends where it ended before
 * (docs/decisions/files-renamed-before-reuse.md).
 *
 * If groups are synced often, a preallocated new file is also filled with zeros. The fdatasync of a
 * commit then writes data only; without the zeros the file system must also record which blocks
 * have been written. Zeroing stops when a thread waits for the segment
 * (docs/decisions/log-segments-allocated.md).
 *
 * Credit is granted only from segments that were durably created (LOG-1). After a crash, every LSN
 * that was ever handed out therefore belongs to an existing file or is below the LSN in a file
 * name, and the log continues above these LSNs.
 *
 * A failure to make a segment does not poison the database: no acknowledged commit depends on the
 * new file.
 *
 * Threads. seg_mutex guards lists and sizes. A thread that makes a file sets `creating` and
 * releases the mutex meanwhile; only one thread at a time makes a file.
 */
#include "log/log_private.h"

#include <errno.h>

static const unsigned char zeros[16384];
/* Zeroing pays if groups are at least this frequent: groups per mebibyte of segment. */
enum { OFTEN = 16 };

/* ---- making a file ----------------------------------------------------------------------- */

/* LLADD_WRITE_FAILED becomes LLADD_NO_SPACE, a failure that does not poison the database. */
static int fail_create(struct lladd_error *err, int rc, const char *what, const char *name)
{
    int code = ll_fail_io(err, rc, true, what, name);
    if (code != LLADD_WRITE_FAILED)
        return code;
    if (err)
        err->code = LLADD_NO_SPACE;
    return LLADD_NO_SPACE;
}

static void encode_first_header(struct ll_log *log, const struct ll_log__seg *seg,
                                unsigned char out[LL_LOG_BLOCK_HEADER])
{
    struct ll_log__block b = {
        .incarnation = seg->incarnation,
        .lsn = seg->first,
        .first_record =
            seg->cut < seg->first || seg->first == log->cfg.first.v ? 0 : LL_LOG_BLOCK_UNKNOWN,
        .block_size = seg->block_size,
        .segment_first = seg->first,
        .cut = seg->cut,
        .segment_size = seg->size,
        .uuid_hash = log->uuid_hash,
    };
    ll_log__block_encode(&b, out);
}

int ll_log__write_zeros(struct ll_log *log, struct lladd_file *file, uint64_t off, uint64_t size,
                        bool idly)
{
    struct lladd_iovec v[64];
    while (off < size && !(idly && lladd_atomic_load32(&log->segs->hurry))) {
        int n = 0;
        uint64_t start = off;
        for (; n < 64 && off < size; n++) {
            size_t len = size - off < sizeof zeros ? (size_t)(size - off) : sizeof zeros;
            v[n] = (struct lladd_iovec){zeros, len};
            off += len;
        }
        int rc = ll_io_pwritev(log->dev, file, v, n, start);
        if (rc)
            return rc;
    }
    return 0;
}

/* Writes zeros if `zeros_too` is true, or if the device cannot allocate space. */
static int fill_file(struct ll_log *log, struct ll_log__seg *seg, bool zeros_too)
{
    unsigned char header[LL_LOG_BLOCK_HEADER];
    encode_first_header(log, seg, header);
    int rc = ll_io_allocate(log->dev, seg->file, seg->size);
    bool cannot = rc == -EOPNOTSUPP;
    if (!rc || cannot)
        rc = ll_io_pwrite(log->dev, seg->file, header, sizeof header, 0);
    if (!rc && (cannot || zeros_too))
        rc = ll_log__write_zeros(log, seg->file, LL_LOG_BLOCK_HEADER, seg->size, !cannot);
    return rc;
}

static int fill_new(struct ll_log *log, struct ll_log__seg *seg, bool zeros_too,
                    struct lladd_error *err)
{
    uint64_t size = 0;
    char name[LL_LOG_NAME_SIZE];
    ll_log__name(LL_LOG__TMP, 0, name);
    int rc = ll_io_open(log->dev, name, LLADD_OPEN_CREATE, &seg->file);
    if (rc)
        return fail_create(err, rc, "create", name);
    rc = ll_io_size(log->dev, seg->file, &size);
    if (!rc && size > 0) /* the file is left over from an interrupted attempt */
        rc = ll_io_truncate(log->dev, seg->file, 0);
    if (!rc)
        rc = fill_file(log, seg, zeros_too);
    if (!rc)
        rc = ll_point(log->env, "log.segment.create");
    if (!rc)
        rc = ll_io_sync(log->dev, seg->file);
    return rc ? fail_create(err, rc, "make a log segment in", name) : 0;
}

/* Renames a dead file durably to <first>.new. From then on the log ignores a gap that the header of
 * this file declares. */
static int take_over(struct ll_log *log, uint64_t first, struct ll_log__seg *old,
                     struct lladd_error *err)
{
    char from[LL_LOG_NAME_SIZE], name[LL_LOG_NAME_SIZE];
    int rc = 0;
    ll_log__file_name(old, from);
    ll_log__name(LL_LOG__NEW, first, name);
    if (strcmp(from, name) != 0)
        rc = ll_io_rename(log->dev, from, name);
    if (rc == -ENOENT)
        old->size = 0;
    if (rc)
        return fail_create(err, rc, "rename for its next use", from);
    old->kind = LL_LOG__NEW;
    old->name = old->cut = old->until = first;
    rc = ll_point(log->env, "log.segment.take");
    if (!rc && !LLADD_PLANTED(LLADD_BUG_TAKE_SYNC))
        rc = ll_io_sync_dir(log->dev, LL_LOG_DIR);
    return rc ? fail_create(err, rc, "make durable the name of", name) : 0;
}

static int fill_old(struct ll_log *log, struct ll_log__seg *seg, struct ll_log__seg *old,
                    struct lladd_error *err)
{
    unsigned char header[LL_LOG_BLOCK_HEADER];
    char name[LL_LOG_NAME_SIZE];
    ll_log__name(LL_LOG__NEW, seg->first, name);
    encode_first_header(log, seg, header);
    int rc = take_over(log, seg->first, old, err);
    if (rc)
        return rc;
    rc = ll_io_open(log->dev, name, 0, &seg->file);
    if (rc == -ENOENT)
        old->size = 0;
    if (!rc)
        rc = ll_point(log->env, "log.segment.recycle");
    if (!rc && !LLADD_PLANTED(LLADD_BUG_RECYCLE))
        rc = ll_io_pwrite(log->dev, seg->file, header, sizeof header, 0);
    if (!rc)
        rc = ll_io_sync(log->dev, seg->file);
    return rc ? fail_create(err, rc, "use again for a log segment", name) : 0;
}

static int publish_file(struct ll_log *log, const struct ll_log__seg *seg, struct ll_log__seg *old,
                        struct lladd_error *err)
{
    char from[LL_LOG_NAME_SIZE], name[LL_LOG_NAME_SIZE];
    ll_log__name(old ? LL_LOG__NEW : LL_LOG__TMP, seg->first, from);
    ll_log__segment_name(seg->first, name);
    int rc = ll_io_rename(log->dev, from, name);
    if (rc)
        return fail_create(err, rc, "rename a file to", name);
    if (old) { /* for take_stale, if the sync of the directory fails */
        old->kind = LL_LOG__SEGMENT;
        old->cut = seg->cut;
        old->until = seg->first;
    }
    rc = ll_point(log->env, "log.segment.rename");
    if (!rc && !LLADD_PLANTED(LLADD_BUG_SYNC_DIR))
        rc = ll_io_sync_dir(log->dev, LL_LOG_DIR);
    if (!rc)
        return 0;
    /* After a crash the file may exist or not; ll_log__disown_above handles the case in which this
     * matters. */
    if (!old)
        (void)ll_io_unlink(log->dev, name);
    return fail_create(err, rc, "make durable the name of", name);
}

/* Makes the file of a segment, from the file of `old` or a new one. Sets seg->file on success.
 * `old` gets the name that its file has now, and size 0 if the file can no longer be used. Without
 * the mutex. */
static int make_file(struct ll_log *log, struct ll_log__seg *seg, struct ll_log__seg *old,
                     bool zeros_too, struct lladd_error *err)
{
    int rc = old ? fill_old(log, seg, old, err) : fill_new(log, seg, zeros_too, err);
    if (!rc)
        rc = publish_file(log, seg, old, err);
    if (rc && seg->file) {
        (void)ll_io_close(log->dev, seg->file); /* its contents are not needed */
        seg->file = NULL;
    }
    if (rc && !old) {
        char name[LL_LOG_NAME_SIZE];
        ll_log__name(LL_LOG__TMP, 0, name);
        (void)ll_io_unlink(log->dev, name); /* frees the space if possible */
    }
    return rc;
}

/* ---- choice and size of the file --------------------------------------------------------- */

uint32_t ll_log__next_size(const struct ll_log *log, bool goes_on, unsigned why)
{
    const struct ll_log__segments *segs = log->segs;
    uint64_t size = log->cfg.segment_min;
    /* The first segment after a cut is small again, because open waits for it. Segments for undo
     * grow faster once several exist: a transaction with a large undo reserve will probably reserve
     * more, and it waits for each segment made. */
    if (goes_on && segs->live.len > 0)
        size = (uint64_t)ll_log__last(segs)->step *
               (why & LL_LOG__FOR_UNDO && segs->live.len > 1 ? 4 : 2);
    if (size > log->cfg.segment_max)
        size = log->cfg.segment_max;
    /* Only whole segments can be truncated, so a log with a byte limit has many small ones. */
    while (log->cfg.limit_bytes && size > log->cfg.limit_bytes / 8)
        size /= 2;
    return (uint32_t)(size < log->cfg.segment_min ? log->cfg.segment_min : size);
}

/* Takes a dead segment without users: one of this size, or any usable one if size is 0. */
static struct ll_log__seg *take_dead(struct ll_log *log, uint32_t size)
{
    struct ll_vec *dead = &log->segs->dead;
    for (size_t i = 0; i < dead->len; i++) {
        struct ll_log__seg *seg = ll_log__at(dead, i);
        if (seg->users == 0 && (size ? seg->size == size : seg->size >= LL_LOG_SEGMENT_MIN)) {
            ll_vec_remove_unordered(dead, i);
            return seg;
        }
    }
    return NULL;
}

/* Takes the dead file <name>.seg or <name>.new, left over from an attempt that failed or that a
 * crash interrupted. */
static struct ll_log__seg *take_named(struct ll_log *log, uint64_t name)
{
    struct ll_vec *dead = &log->segs->dead;
    for (size_t i = 0; i < dead->len; i++) {
        struct ll_log__seg *seg = ll_log__at(dead, i);
        if (seg->name == name && seg->kind != LL_LOG__TMP) {
            ll_vec_remove_unordered(dead, i);
            return seg;
        }
    }
    return NULL;
}

/* Is the segment in a gap that another dead segment declares? */
static bool is_covered(const struct ll_vec *dead, const struct ll_log__seg *seg)
{
    bool covered = false;
    for (size_t i = 0; i < dead->len; i++) {
        const struct ll_log__seg *by = ll_log__at(dead, i);
        covered |= by != seg && by->cut <= seg->name && seg->name < by->until;
    }
    return covered;
}

/* Takes a dead segment above the cut: one in a gap or, if none is in a gap, the highest. */
static struct ll_log__seg *take_stale(struct ll_log *log, uint64_t cut)
{
    struct ll_vec *dead = &log->segs->dead;
    size_t found = dead->len;
    bool covered = false;
    for (size_t i = 0; i < dead->len; i++) {
        const struct ll_log__seg *seg = ll_log__at(dead, i);
        if (seg->kind != LL_LOG__SEGMENT || seg->name < cut || seg->size == 0)
            continue;
        bool is = is_covered(dead, seg);
        bool higher = found < dead->len && seg->name > ll_log__at(dead, found)->name;
        if (found == dead->len || is > covered ||
            (is == covered && higher != LLADD_PLANTED(LLADD_BUG_LOWEST_FIRST))) {
            found = i;
            covered = is;
        }
    }
    if (found == dead->len)
        return NULL;
    struct ll_log__seg *seg = ll_log__at(dead, found);
    LL_ASSERT(seg->users == 0); /* the log is not ready, so it has no readers */
    ll_vec_remove_unordered(dead, found);
    return seg;
}

static void put_dead(struct ll_log *log, struct ll_log__seg *seg)
{
    int rc = ll_vec_append(&log->segs->dead, &seg, 1);
    LL_ASSERT(rc == 0); /* the segment came from this vector, so it has room */
    (void)rc;
}

bool ll_log__has_useless(const struct ll_log *log)
{
    const struct ll_vec *dead = &log->segs->dead;
    bool has = false;
    for (size_t i = 0; i < dead->len; i++)
        has |= ll_log__at(dead, i)->size == 0;
    return has;
}

/* A file of the size that the next segment will have is more useful than any other. */
static bool less_useful(const struct ll_log__seg *a, const struct ll_log__seg *b, uint32_t wanted)
{
    if ((a->size == wanted) != (b->size == wanted))
        return b->size == wanted;
    return a->size < b->size;
}

/* Index of the dead file that is least useful for reuse; dead.len if none can be removed. */
static size_t least_useful(const struct ll_log *log)
{
    const struct ll_vec *dead = &log->segs->dead;
    uint32_t wanted = ll_log__next_size(log, true, LL_LOG__NEEDED);
    size_t found = dead->len;
    for (size_t i = 0; i < dead->len; i++) {
        const struct ll_log__seg *seg = ll_log__at(dead, i);
        if (seg->users > 0)
            continue;
        if (seg->size == 0)
            return i;
        if (found == dead->len || less_useful(seg, ll_log__at(dead, found), wanted))
            found = i;
    }
    return found;
}

static int remove_file(struct ll_log *log, size_t i, struct lladd_error *err)
{
    char name[LL_LOG_NAME_SIZE];
    struct ll_vec *dead = &log->segs->dead;
    struct ll_log__seg *seg = ll_log__at(dead, i);
    ll_log__file_name(seg, name);
    int rc = ll_io_unlink(log->dev, name);
    if (rc && rc != -ENOENT)
        return fail_create(err, rc, "remove", name);
    log->segs->disk_bytes -= seg->size;
    ll_vec_remove_unordered(dead, i);
    ll_log__seg_delete(log, seg);
    return 0;
}

bool ll_log__remove_dead(struct ll_log *log, int *rc, struct lladd_error *err)
{
    size_t i = least_useful(log);
    *rc = 0;
    if (i == log->segs->dead.len)
        return false;
    *rc = remove_file(log, i, err);
    return *rc == 0;
}

/* Removes damaged segments above a cut, before the file of the segment that declares their gap may
 * be reused. */
static int remove_damaged(struct ll_log *log, uint64_t cut, struct lladd_error *err)
{
    struct ll_vec *dead = &log->segs->dead;
    bool removed = false;
    for (size_t i = dead->len; i-- > 0;) {
        const struct ll_log__seg *seg = ll_log__at(dead, i);
        if (seg->size > 0 || seg->kind != LL_LOG__SEGMENT || seg->name < cut)
            continue;
        int rc = remove_file(log, i, err);
        if (rc)
            return rc;
        removed = true;
    }
    int rc = removed ? ll_io_sync_dir(log->dev, LL_LOG_DIR) : 0;
    return rc ? fail_create(err, rc, "make durable the removal of damaged files in", LL_LOG_DIR)
              : 0;
}

/* Removes the new file of an attempt that failed at its last step, because the file's name may
 * exist, or reappear after a loss of power. (If the attempt reused a file, that file is in the dead
 * list and is renamed with the others.) */
static int remove_attempt(struct ll_log *log, struct lladd_error *err)
{
    char name[LL_LOG_NAME_SIZE];
    const struct ll_vec *dead = &log->segs->dead;
    uint64_t first = log->segs->highest_end;
    bool old = false;
    for (size_t i = 0; i < dead->len; i++)
        old |= ll_log__at(dead, i)->kind == LL_LOG__SEGMENT && ll_log__at(dead, i)->name == first;
    ll_log__segment_name(first, name);
    int rc = old ? 0 : ll_io_unlink(log->dev, name);
    if (rc && rc != -ENOENT)
        return fail_create(err, rc, "remove", name);
    return ll_log__settle_names(log, err);
}

int ll_log__disown_above(struct ll_log *log, uint64_t lsn, struct lladd_error *err)
{
    int rc = LLADD_PLANTED(LLADD_BUG_DISOWN) ? 0 : remove_attempt(log, err);
    struct ll_log__seg *old;
    if (!rc)
        rc = remove_damaged(log, lsn, err);
    while (!rc && (old = take_stale(log, lsn)) != NULL) {
        if (!LLADD_PLANTED(LLADD_BUG_DISOWN))
            rc = take_over(log, old->name, old, err);
        else
            old->kind = LL_LOG__NEW;
        put_dead(log, old);
    }
    return rc;
}

bool ll_log__over_limit(const struct ll_log *log)
{
    return log->cfg.limit_bytes && log->segs->disk_bytes > log->cfg.limit_bytes;
}

/* The part of the limit that only owed records may use: an eighth, at most 64 MiB. */
static uint64_t kept_of(uint64_t limit)
{
    const uint64_t most = UINT64_C(64) << 20;
    return limit / 8 < most ? limit / 8 : most;
}

uint64_t ll_log__kept(const struct ll_log *log)
{
    return kept_of(log->cfg.limit_bytes);
}

/* Besides `bytes` the limit must hold three segments of the largest size that it allows: the
 * segment in which a checkpoint began, the segment in which it ended, and the one to which credit
 * has moved on. It must also hold a segment of the smallest size, which stays untouched. */
static bool limit_is_enough(uint64_t limit, uint64_t least, uint64_t most, uint64_t bytes)
{
    uint64_t size = limit / 8 < most ? limit / 8 : most;
    size = size < least ? least : size;
    return limit - kept_of(limit) >= 3 * size + least + bytes;
}

uint64_t ll_log_limit_for(uint64_t segment_min, uint64_t segment_max, uint64_t credit,
                          uint64_t undo)
{
    uint64_t block = segment_min < LL_LOG_BLOCK_MAX ? segment_min : LL_LOG_BLOCK_MAX;
    uint64_t payload = block - LL_LOG_BLOCK_HEADER - block / 16; /* less what only seals may use */
    uint64_t bytes = credit + undo * LL_LOG__UNDO_BYTE / LL_LOG__FREE_BYTE;
    uint64_t low = 0, high = 4;
    bytes = (bytes / payload + 1) * block;
    while (!limit_is_enough(high * segment_min, segment_min, segment_max, bytes)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (limit_is_enough(middle * segment_min, segment_min, segment_max, bytes))
            high = middle;
        else
            low = middle;
    }
    return high * segment_min;
}

/* Reduces *size, but not below the smallest size, until the log with the new segment is within the
 * limit. If the log exceeds the limit even so: LLADD_LOG_FULL, except for owed records. */
static int fit_limit(struct ll_log *log, unsigned why, uint32_t *size, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t limit = log->cfg.limit_bytes, live = ll_log__live_bytes(segs);
    uint64_t most = why & LL_LOG__OWED ? limit : limit - ll_log__kept(log);
    while (limit && live + *size > most && *size > log->cfg.segment_min)
        *size /= 2;
    if (!limit || live + *size <= most || why & LL_LOG__OWED)
        return 0;
    return ll_fail(err, LLADD_LOG_FULL,
                   "the log takes %llu bytes; the limit is %llu, of which %llu are reserved for "
                   "checkpoints and rollbacks",
                   (unsigned long long)live, (unsigned long long)limit,
                   (unsigned long long)ll_log__kept(log));
}

/* fit_limit for a new file: counts the dead files, too, and removes some to make room. */
static int fit_beside_dead(struct ll_log *log, unsigned why, uint32_t size, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t limit = log->cfg.limit_bytes;
    int rc = 0;
    while (limit && segs->disk_bytes + size > limit && ll_log__remove_dead(log, &rc, NULL)) {
    }
    if (!limit || segs->disk_bytes + size <= limit || why & LL_LOG__OWED)
        return 0;
    return ll_fail(err, LLADD_LOG_FULL,
                   "the files of the log take %llu bytes, and some of these files are still being "
                   "read; the limit is %llu",
                   (unsigned long long)segs->disk_bytes, (unsigned long long)limit);
}

/* ---- making a segment -------------------------------------------------------------------- */

struct making {
    uint64_t first, cut;
    unsigned why;
    bool zeros;    /* fill a new file with zeros */
    uint32_t step; /* the size of a new file, and the preferred size of a reused one */
};

/* `old` NULL: makes a new file. */
static int try_make(struct ll_log *log, const struct making *m, uint32_t size,
                    struct ll_log__seg *old, struct ll_log__seg **out, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    struct ll_log__block b = {.incarnation = log->incarnation,
                              .segment_first = m->first,
                              .cut = m->cut,
                              .segment_size = size};
    struct ll_log__seg *seg = ll_log__seg_new(log, &b, m->first);
    uint32_t old_size = old ? old->size : 0;
    int rc;
    if (seg) {
        seg->step = old && size > m->step ? m->step : size;
        lladd_mutex_unlock(&segs->mutex);
        rc = make_file(log, seg, old, m->zeros, err);
        lladd_mutex_lock(&segs->mutex);
    } else {
        rc = ll_fail(err, LLADD_NO_MEMORY, "no memory for a log segment");
    }
    if (rc) {
        if (seg)
            ll_log__seg_delete(log, seg);
        if (old) {
            segs->disk_bytes -= old_size - old->size;
            put_dead(log, old);
        }
        return rc;
    }
    if (old)
        ll_log__seg_delete(log, old);
    else
        segs->disk_bytes += seg->size;
    *out = seg;
    return 0;
}

/* Chooses a dead file; NULL: make a new one. The choices, in this order: a file that already has
 * the segment's name, because a new file would overwrite it; after a cut, a segment above the cut;
 * a file of the right size; for owed records at the limit, any file. */
static struct ll_log__seg *choose_dead(struct ll_log *log, const struct making *m)
{
    struct ll_log__seg *old = take_named(log, m->first);
    if (old && old->size == 0) { /* the file made next replaces it */
        ll_log__seg_delete(log, old);
        old = NULL;
    }
    if (!old && m->cut < m->first)
        old = take_stale(log, m->cut);
    if (!old)
        old = take_dead(log, m->step);
    if (!old && m->why & LL_LOG__OWED && log->cfg.limit_bytes &&
        log->segs->disk_bytes + m->step > log->cfg.limit_bytes)
        old = take_dead(log, 0);
    return old;
}

static int make_new(struct ll_log *log, const struct making *m, struct ll_log__seg **out,
                    struct lladd_error *err)
{
    uint32_t size = m->step;
    int rc = fit_beside_dead(log, m->why, size, err);
    if (!rc)
        rc = try_make(log, m, size, NULL, out, err);
    /* A disk that is nearly full may have room for a smaller file. */
    while (rc == LLADD_NO_SPACE && size / 2 >= log->cfg.segment_min) {
        size /= 2;
        rc = try_make(log, m, size, NULL, out, err);
    }
    return rc;
}

static int make_segment(struct ll_log *log, struct making *m, struct ll_log__seg **out,
                        struct lladd_error *err)
{
    struct ll_log__seg *old = NULL;
    int rc = fit_limit(log, m->why, &m->step, err);
    if (!rc && m->cut < m->first)
        rc = remove_damaged(log, m->cut, err);
    if (rc)
        return rc;
    do {
        old = choose_dead(log, m);
        rc = old ? try_make(log, m, old->size, old, out, err) : make_new(log, m, out, err);
    } while (rc && old && old->size == 0); /* the old file turned out to be unusable */
    if (!rc || old)
        return rc;
    old = take_dead(log, 0);
    return old ? try_make(log, m, old->size, old, out, err) : rc;
}

/* Releases the mutex meanwhile. */
static void want_checkpoint(struct ll_log *log)
{
    if (!log->cfg.wants_checkpoint)
        return;
    lladd_mutex_unlock(&log->segs->mutex);
    log->cfg.wants_checkpoint(log->cfg.ctx);
    lladd_mutex_lock(&log->segs->mutex);
}

uint64_t ll_log__live_bytes(const struct ll_log__segments *segs)
{
    uint64_t dead = 0;
    for (size_t i = 0; i < segs->dead.len; i++)
        dead += ll_log__at(&segs->dead, i)->size;
    return segs->disk_bytes - dead;
}

void ll_log__note_scarce(struct ll_log *log)
{
    uint64_t limit = log->cfg.limit_bytes;
    bool scarce = limit && ll_log__live_bytes(log->segs) > limit / 2;
    lladd_atomic_store32(&log->scarce, scarce);
}

bool ll_log_is_scarce(const struct ll_log *log)
{
    return lladd_atomic_load32(&log->scarce) != 0;
}

/* Were there enough groups since the last segment was made that zeroing pays for the next one? */
static bool syncs_often(struct ll_log *log, unsigned why)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t groups = lladd_atomic_load64(&log->groups), before = segs->groups;
    uint64_t mebibytes = ll_log__next_size(log, true, why) >> 20;
    segs->groups = groups;
    return groups - before >= OFTEN * (mebibytes ? mebibytes : 1);
}

int ll_log__seg_create(struct ll_log *log, uint64_t first, uint64_t cut, unsigned why,
                       struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    LL_ASSERT(lladd_mutex_mine(&segs->mutex));
    if (segs->creating) {
        lladd_atomic_store32(&segs->hurry, 1);
        lladd_cond_wait(&segs->changed, &segs->mutex);
        return 0;
    }
    if (LLADD_PLANTED(LLADD_BUG_OWED))
        why &= ~(unsigned)LL_LOG__OWED;
    if (first + log->cfg.segment_max >= LL_LOG_LSN_END)
        return ll_fail(err, LLADD_NO_SPACE, "no LSNs are left");
    struct making m = {first, cut, why, syncs_often(log, why) && why & LL_LOG__AHEAD,
                       ll_log__next_size(log, cut == first, why)};
    struct ll_log__seg *seg = NULL;
    segs->creating = true;
    lladd_atomic_store32(&segs->hurry, segs->stop);
    int rc = ll_vec_reserve(&segs->live, segs->live.len + 1);
    if (rc)
        rc = ll_fail(err, rc, "no memory for the list of log segments");
    else
        rc = make_segment(log, &m, &seg, err);
    if (!rc) {
        rc = ll_log__seg_insert(log, seg);
        LL_ASSERT(rc == 0); /* reserved; no other thread inserts while `creating` is set */
        segs->highest_end = seg->end;
        segs->gave_up = false;
        if (segs->granted)
            lladd_atomic_add64(&log->undo_left, (seg->end - seg->first) * LL_LOG__FREE_BYTE);
    }
    segs->creating = false;
    lladd_cond_broadcast(&segs->changed);
    ll_log__note_scarce(log);
    if (rc == LLADD_LOG_FULL || ll_log_is_scarce(log))
        want_checkpoint(log);
    return rc;
}
