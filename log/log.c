/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log: an append-only sequence of records, made durable by group commit.
 *
 * Terms. A *segment* is a file that holds a range of LSNs; it consists of *blocks* with a header
 * each. A *group* is the records that one leader makes durable together. `tail` is the next LSN to
 * be handed out. The operating system has the bytes below `written`; the bytes below `durable`
 * survive a loss of power. durable <= written <= tail.
 *
 *   Append  credit -> reserve -> publish     (reserve.c: ring, LSN, checksum)
 *           walk -> write -> sync -> durable (group.c leads, writer.c writes)
 *   Space   create.c makes files, space.c grants credit from them, truncate.c frees them.
 *   Read    directory.c finds the files, scan.c reads them and finds the end of the log, reader.c
 *           and cursor.c read single records.
 *   Start   this file decides how the log continues after a stop.
 *
 * Invariants, by rule:
 *   LOG-1  granted <= end of the last durably created segment (space.c, create.c). After an unclean
 *          stop the log continues at the end of the highest segment, or at the LSN in the name of a
 *          file being made. So an LSN that was handed out and lost is not handed out again.
 *          Exception: ll_log_start_here, on a full disk.
 *   LOG-2  All records of a segment have one incarnation, which salts their checksums. After an
 *          unclean stop the log continues in a new segment, of a new incarnation, with a header
 *          that says where the log before it ends (a cut). Exception: ll_log_start_here.
 *   LOG-3  The last record of a synced group is a seal if there is space for one (group.c); scan.c
 *          says what proves damage.
 *   LOG-4  A failed write or sync of records poisons the database (group.c).
 *   REC-3  The undo reserve (undo_reserve.c).
 *   REC-4  ll_log_start rewrites and syncs the accepted records above the newest watermark: a
 *          record that can be read need not be durable.
 *
 * Start after an unclean stop: a cut (cut_at). Let X be the end of the log that the scan found, and
 * E the end of the highest segment that ever existed. The log makes a segment with first LSN E and
 * a header that says "the log before ends at X". LSNs in [X, E) do not exist. The accepted records
 * are made durable first, so if a crash comes before the segment's name is durable, the next scan
 * finds the same X. The new segment may reuse a file wholly inside the gap (create.c defines the
 * order), so one recovery on a full disk needs no space. If nothing was written after a cut, the
 * next cut names the same X, and the gap of the next cut contains the empty segment.
 *
 * Start after an unclean stop on a full disk (ll_log_start_here). A cut would waste the rest of the
 * segment that holds X, so the log continues in that segment, in the middle of the block that holds
 * X. (If the last segment is empty, the log continues at that segment's first LSN. This LSN may
 * already be recorded as the end of the log.) The remains of a torn group above X in the segment
 * could be taken for later records, because they have the segment's incarnation. These remains are
 * cleared first, and the file is synced. The segments above X are renamed to <first>.new, durably,
 * in such an order that after any number of renames the log still ends at X (create.c). Nothing is
 * logged until all these steps are done, so a crash finds the same X. The segment keeps its
 * incarnation, and records that begin in it have its salt. Segments made later have the incarnation
 * of this open, which no old block has. The LSNs of these segments may have been used before, so an
 * old record in a reused file may hold the LSN of its place. The salt of its checksum distinguishes
 * the old record from a new one.
 *
 * Start after a clean stop: the log continues in the same segment, whatever its incarnation, in the
 * middle of a block. If the control file names that segment, open reads only that file, and the
 * directory is listed when it is first needed.
 *
 * Threads. Locks in order: the write mutex (just below LLADD_RANK_LOG), ring_mutex
 * (LLADD_RANK_LOG), seg_mutex (LLADD_RANK_LOG_SEGMENTS). A leader of a group needs no lock to lead;
 * `word` says that a leader exists. Once the log is started, two locks are held during I/O. A
 * thread that writes holds the write mutex; the threads that wait for this mutex need a write in
 * any case. A thread that opens or removes a file, or lists the directory, holds seg_mutex. No
 * thread sleeps under ring_mutex.
 */
#include "log/log_private.h"

#include <errno.h>

enum { CACHE_LINE = 64, REWRITE_CHUNK = 65536, REWRITE_ALIGN = 512 };

/* ---- create and close ---- */

static int check_config(const struct ll_log_config *c, struct lladd_error *err)
{
    if (!ll_power_of_two(c->segment_min) || c->segment_min < LL_LOG_SEGMENT_MIN ||
        !ll_power_of_two(c->segment_max) || c->segment_max > LL_LOG_SEGMENT_MAX ||
        c->segment_min > c->segment_max)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "log segments of %llu to %llu bytes: expected powers of two from %u to %u, "
                       "the first not above the second",
                       (unsigned long long)c->segment_min, (unsigned long long)c->segment_max,
                       LL_LOG_SEGMENT_MIN, LL_LOG_SEGMENT_MAX);
    if (!ll_power_of_two(c->ring_bytes) || c->ring_bytes < LL_LOG_RING_MIN ||
        c->ring_bytes > LL_LOG_RING_MAX)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "a log buffer of %llu bytes: not a power of two from %u to %u",
                       (unsigned long long)c->ring_bytes, LL_LOG_RING_MIN, LL_LOG_RING_MAX);
    if (c->limit_bytes && c->limit_bytes < 4 * c->segment_min)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "a log limit of %llu bytes: less than four segments of %llu",
                       (unsigned long long)c->limit_bytes, (unsigned long long)c->segment_min);
    if (c->first.v % LL_RECORD_ALIGN != 0 || c->first.v >= LL_LOG_LSN_END)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "a log cannot begin at LSN %llu",
                       (unsigned long long)c->first.v);
    return 0;
}

static uint64_t at_most(uint64_t v, uint64_t most)
{
    return v < most ? v : most;
}

static void set_ring(struct ll_log *log, uint64_t bytes)
{
    log->ring_size = (size_t)bytes;
    log->ring_chunk = at_most(bytes / 8, 65536);
    log->record_max = (size_t)at_most(bytes / 4, LL_RECORD_SIZE_MAX);
}

static int make(const struct ll_log_config *cfg, struct ll_log **out, struct lladd_error *err)
{
    int rc = check_config(cfg, err);
    if (rc)
        return rc;
    void *memory = ll_alloc_zero(cfg->env, sizeof(struct ll_log) + CACHE_LINE);
    if (!memory)
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for a log");
    struct ll_log *log = (struct ll_log *)(void *)(((uintptr_t)memory + CACHE_LINE - 1) &
                                                   ~(uintptr_t)(CACHE_LINE - 1));
    log->memory = memory;
    log->cfg = *cfg;
    log->env = cfg->env;
    log->dev = cfg->dev;
    log->uuid_hash = ll_log__uuid_hash(cfg->uuid);
    log->incarnation = cfg->incarnation;
    log->salt = ll_record_salt(cfg->uuid, cfg->incarnation);
    set_ring(log, cfg->ring_bytes);
    log->seal_pool = at_most(cfg->segment_min / 16, 4096);
    if (lladd_mutex_init(&log->write_mutex, LLADD_RANK_LOG - 5, "log write") ||
        lladd_mutex_init(&log->ring_mutex, LLADD_RANK_LOG, "log ring") ||
        ll_log__segments_init(log)) {
        lladd_mutex_destroy(&log->write_mutex);
        lladd_mutex_destroy(&log->ring_mutex);
        ll_free(cfg->env, memory);
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for a log");
    }
    *out = log;
    return 0;
}

void ll_log_want_record(struct ll_log *log, size_t bytes)
{
    LL_ASSERT(!log->ring);
    if (bytes > log->record_max)
        set_ring(log, ll_log_ring_for(bytes, 0));
}

void ll_log_close(struct ll_log *log)
{
    if (!log)
        return;
    ll_log__stop_worker(log);
    ll_log__segments_free(log);
    ll_log__writer_free(log);
    ll_free(log->env, log->ring);
    lladd_mutex_destroy(&log->write_mutex);
    lladd_mutex_destroy(&log->ring_mutex);
    ll_free(log->env, log->memory);
}

/* ---- start ---- */

/* Makes the log ready to append at lsn, in seg. */
static int begin_at(struct ll_log *log, struct ll_log__seg *seg, uint64_t lsn,
                    struct lladd_error *err)
{
    LL_ASSERT(lladd_mutex_mine(&log->segs->mutex));
    int rc = ll_log__open_file(log, seg, err);
    if (rc)
        return rc;
    log->old_end = seg->incarnation != log->incarnation ? seg->end : 0;
    log->old_salt = seg->salt;
    ll_log__reserve_init(log, lsn);
    ll_log__writer_init(log, seg, lsn);
    ll_log__start_granting(log, seg);
    log->life = LL_LOG__READY;
    return 0;
}

int ll_log_create(const struct ll_log_config *cfg, struct ll_log **out, struct lladd_error *err)
{
    struct ll_log *log;
    if (cfg->read_only)
        return ll_fail(err, LLADD_READ_ONLY, "a log cannot be created for reading");
    int rc = make(cfg, &log, err);
    if (rc)
        return rc;
    if (log->cfg.first.v == 0)
        log->cfg.first.v = LL_LOG_FIRST_LSN;
    uint64_t first = log->cfg.first.v;
    struct ll_log__segments *segs = log->segs;
    int io = log->dev->ops->mkdir(log->dev, LL_LOG_DIR);
    if (io == 0 || io == -EEXIST)
        io = ll_io_sync_dir(log->dev, "");
    if (io)
        rc = ll_fail_io(err, io, true, "create the directory", LL_LOG_DIR);
    lladd_mutex_lock(&segs->mutex);
    if (!rc)
        rc = ll_log__seg_create(log, first, first, LL_LOG__NEEDED, err);
    if (!rc) {
        segs->listed = true;
        segs->chain = first;
        rc = begin_at(log, ll_log__last(segs), first, err);
    }
    lladd_mutex_unlock(&segs->mutex);
    if (rc) {
        ll_log_close(log);
        return rc;
    }
    *out = log;
    return 0;
}

static uint64_t offset_of(const struct ll_log__seg *seg, uint64_t lsn)
{
    uint64_t rel = lsn - seg->first;
    return rel / seg->room * seg->block_size + LL_LOG_BLOCK_HEADER + rel % seg->room;
}

static int look_for_record(struct ll_log *log, uint64_t lsn, bool *is, struct lladd_error *err)
{
    struct ll_log__reader r;
    struct ll_record rec;
    ll_log__reader_init(&r, log);
    int rc = ll_log__reader_record(&r, lsn, &rec, err);
    ll_log__reader_free(&r);
    *is = rc == 0;
    return rc == LLADD_END || rc == LLADD_CORRUPT_LOG || rc == LLADD_OUT_OF_RANGE ? 0 : rc;
}

/* Fails if a record begins where the cleanly stopped log should end: the control file is older than
 * the log. (An old record of a reused file has another salt.) If the first bytes cannot be read,
 * nothing says that there is a record. May release the mutex meanwhile. */
static int check_clean_end(struct ll_log *log, const struct ll_log__seg *seg,
                           struct lladd_error *err)
{
    uint64_t end = log->start.end.v;
    struct lladd_error why = LLADD_ERROR_INIT;
    unsigned char own[8];
    bool is = false;
    if (end + 16 > seg->end)
        return 0;
    int rc = ll_io_read_full(log->dev, seg->file, own, sizeof own, offset_of(seg, end + 8));
    if (rc && ll_io_code(rc, false) != LLADD_READ_FAILED)
        return ll_log__fail_io(err, rc, false, "read", seg);
    if (rc || lladd_get64(own) != end)
        return 0;
    lladd_mutex_unlock(&log->segs->mutex);
    rc = look_for_record(log, end, &is, &why);
    lladd_mutex_lock(&log->segs->mutex);
    if (rc && err)
        *err = why;
    if (rc || !is)
        return rc;
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, log->start.end,
                       "the log continues after LSN %llu, where the control file says it ends",
                       (unsigned long long)end);
}

/* Raises the incarnation above that of all segments: the control file may be an old one. */
static void raise_incarnation(struct ll_log *log)
{
    const struct ll_vec *lists[] = {&log->segs->live, &log->segs->dead};
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < lists[k]->len; i++) {
            const struct ll_log__seg *seg = ll_log__at(lists[k], i);
            if (seg->state != LL_LOG__BAD && seg->incarnation >= log->incarnation)
                log->incarnation = seg->incarnation + 1;
        }
    }
    log->salt = ll_record_salt(log->cfg.uuid, log->incarnation);
}

int ll_log_open(const struct ll_log_config *cfg, const struct ll_log_start *start,
                struct ll_log **out, struct lladd_error *err)
{
    struct ll_log *log;
    int rc = make(cfg, &log, err);
    if (rc)
        return rc;
    struct ll_log__segments *segs = log->segs;
    log->cfg.first.v = 0;
    log->start = *start;
    lladd_mutex_lock(&segs->mutex);
    if (start->clean && start->segment.v && !cfg->lenient) {
        rc = ll_log__list_one(log, start->segment.v, start->segment_bytes, err);
        if (!rc && cfg->read_only) /* otherwise it is listed when it is needed */
            rc = ll_log__ensure_listed(log, err);
    } else {
        rc = ll_log__ensure_listed(log, err);
        if (!rc && !start->clean)
            raise_incarnation(log);
    }
    lladd_mutex_unlock(&segs->mutex);
    if (rc) {
        ll_log_close(log);
        return rc;
    }
    *out = log;
    return 0;
}

/* ---- after a clean stop ---- */

/* Returns the segment in which the log can continue at `end`, or NULL. If `end` is the border of
 * two segments, returns the later one. */
static struct ll_log__seg *resumable(const struct ll_log *log, uint64_t end)
{
    const struct ll_log__segments *segs = log->segs;
    struct ll_log__seg *found = NULL;
    for (size_t i = 0; i < segs->live.len; i++) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->state == LL_LOG__LIVE && end % LL_RECORD_ALIGN == 0 && end >= seg->first &&
            end <= seg->end && seg->incarnation <= log->incarnation) {
            found = seg;
        } else if (found) { /* a preallocated segment, or this was no clean stop */
            const struct ll_log__seg *before = ll_log__at(&segs->live, i - 1);
            if (seg->first != before->end || seg->cut != seg->first ||
                seg->incarnation != log->incarnation || seg->state != LL_LOG__LIVE)
                return NULL;
        }
    }
    return found;
}

/* ---- after an unclean stop ---- */

static int rewrite_file(struct ll_log *log, const struct ll_log__seg *seg, uint64_t from,
                        uint64_t to, struct lladd_error *err)
{
    unsigned char *buf = ll_alloc(log->env, REWRITE_CHUNK);
    int rc = 0;
    if (!buf)
        return ll_fail(err, LLADD_NO_MEMORY, "no memory to rewrite the end of the log");
    while (!rc && from < to) {
        size_t len = (size_t)at_most(to - from, REWRITE_CHUNK);
        rc = ll_io_read_full(log->dev, seg->file, buf, len, from);
        if (rc) {
            rc = ll_log__fail_io(err, rc, false, "read", seg);
            break;
        }
        rc = ll_io_pwrite(log->dev, seg->file, buf, len, from);
        if (rc)
            rc = ll_log__fail_io(err, rc, true, "rewrite the end of the log in", seg);
        from += len;
    }
    ll_free(log->env, buf);
    if (rc)
        return rc;
    rc = ll_point(log->env, "log.start.before_sync");
    if (!rc)
        rc = ll_io_sync(log->dev, seg->file);
    return rc ? ll_log__fail_io(err, rc, true, "sync", seg) : 0;
}

/* REC-4: forces the accepted log above the newest watermark to the disk. */
static int rewrite_accepted(struct ll_log *log, uint64_t end, struct lladd_error *err)
{
    uint64_t from = log->start.watermark.v > log->sealed ? log->start.watermark.v : log->sealed;
    if (from < log->start.from.v)
        from = log->start.from.v;
    while (from < end) {
        struct ll_log__seg *seg;
        uint64_t where;
        int rc = ll_log__seg_find(log, from, &seg, &where, err);
        if (rc)
            return rc;
        uint64_t to = at_most(end, ll_log__seg_stop(log, seg));
        if (where < to) {
            uint64_t off = offset_of(seg, where);
            rc = rewrite_file(log, seg, off - off % REWRITE_ALIGN, offset_of(seg, to - 1) + 1, err);
        }
        ll_log__seg_release(log, seg);
        if (rc)
            return rc;
        from = where < to ? to : end;
    }
    return 0;
}

/* Where the log could continue without a cut: the first LSN of an empty last segment, or `end`. */
static uint64_t here(const struct ll_log *log, uint64_t end)
{
    const struct ll_log__seg *last = ll_log__last(log->segs);
    return last->first > end ? last->first : end;
}

/* Moves the i-th live segment to `dead`: from now on only its file is of use. */
static int give_up(struct ll_log *log, size_t i, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    struct ll_log__seg *seg = ll_log__at(&segs->live, i);
    if (ll_vec_append(&segs->dead, &seg, 1))
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for the list of log segments");
    ll_log__seg_retire(log, seg);
    ll_vec_remove(&segs->live, i);
    return 0;
}

/* Moves the segments above *end to `dead`: they hold no records. If the segment at *end is empty
 * and began with a cut, the log ends at that cut: sets *end to it, unless the watermark is above
 * the cut. The last live segment stays. */
static int forget_above(struct ll_log *log, uint64_t *end, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    int rc = 0;
    for (size_t i = segs->live.len; i-- > 0 && !rc;) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->first < *end || (seg->first == *end && seg->cut < log->start.watermark.v))
            break;
        if (seg->first == *end)
            *end = seg->cut;
        if (i == 0)
            break;
        rc = give_up(log, i, err);
    }
    return rc;
}

/* Continues in a new segment with a header that says that the log before it ends at `end`. An empty
 * segment at `end` stays until ll_log_started if ll_log_start_here would need it. */
static int cut_at(struct ll_log *log, uint64_t end, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    raise_incarnation(log);
    int rc = ll_point(log->env, "log.cut.before_header");
    if (rc)
        return ll_fail_io(err, rc, true, "cut the log in", LL_LOG_DIR);
    rc = forget_above(log, &end, err);
    log->scan_end = end; /* for a second call, if this one fails */
    uint64_t place = here(log, end);
    log->here = log->start.clean || place < log->start.watermark.v ? 0 : place;
    bool empty = segs->live.len > 1 && ll_log__last(segs)->first == end;
    end = empty ? ll_log__last(segs)->cut : end;
    log->start.end.v = end;
    if (!rc && LLADD_PLANTED(LLADD_BUG_LSN_REUSE))
        return begin_at(log, ll_log__last(segs), end, err);
    if (!rc)
        rc = ll_log__seg_create(log, segs->highest_end, end, LL_LOG__OWED, err);
    if (rc)
        return rc;
    return begin_at(log, ll_log__last(segs), ll_log__last(segs)->first, err);
}

/* Makes durable what must be durable before the log continues. *end: where the log ends. */
static int make_sure(struct ll_log *log, uint64_t *end, struct lladd_error *err)
{
    int rc = 0;
    if (log->cfg.read_only)
        return ll_fail(err, LLADD_READ_ONLY, "the log is open for reading");
    if (!log->start.clean && log->life != LL_LOG__SCANNED)
        return ll_fail(err, LLADD_BAD_STATE, "the end of the log has not been searched");
    *end = log->start.clean ? log->start.end.v : log->scan_end;
    /* A process may have died between a rename and the sync of the directory. The file names decide
     * which files are reused, so they must be durable first. */
    if (!log->start.clean && !LLADD_PLANTED(LLADD_BUG_SETTLE))
        rc = ll_log__settle_names(log, err);
    if (!rc && !log->start.clean && !LLADD_PLANTED(LLADD_BUG_REWRITE))
        rc = rewrite_accepted(log, *end, err);
    return rc;
}

int ll_log_start(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t end = 0;
    if (log->life == LL_LOG__READY)
        return 0;
    int rc = make_sure(log, &end, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&segs->mutex);
    struct ll_log__seg *seg = log->start.clean ? resumable(log, end) : NULL;
    if (!seg) {
        rc = ll_log__ensure_listed(log, err);
        seg = !rc && log->start.clean ? resumable(log, end) : NULL;
    }
    if (!rc && seg) {
        rc = ll_log__open_file(log, seg, err);
        if (!rc)
            rc = check_clean_end(log, seg, err);
        if (!rc)
            rc = begin_at(log, seg, end, err);
    } else if (!rc) {
        rc = cut_at(log, end, err);
    }
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

/* ---- on a full disk ---- */

static int clear_above(struct ll_log *log, const struct ll_log__seg *seg, uint64_t lsn,
                       struct lladd_error *err)
{
    uint64_t from = offset_of(seg, lsn);
    if (lsn > seg->first && (lsn - seg->first) % seg->room == 0)
        from -= LL_LOG_BLOCK_HEADER; /* also clears the header of the block that begins here */
    int rc = 0;
    if (from < seg->size)
        rc = ll_log__write_zeros(log, seg->file, from, seg->size, false);
    if (!rc)
        rc = ll_io_sync(log->dev, seg->file);
    return rc ? ll_log__fail_io(err, rc, true, "clear the end of", seg) : 0;
}

/* Undoes ll_log_start, after which nothing was logged. */
static void step_back(struct ll_log *log)
{
    LL_ASSERT(log->tail == log->first_lsn && !log->ring && !log->segs->thread.started);
    log->segs->granted->users--;
    log->segs->granted = NULL;
    lladd_atomic_store64(&log->undo_left, 0);
    lladd_atomic_store64(&log->undo_floor, 0);
    log->life = LL_LOG__SCANNED;
}

static int go_on_at(struct ll_log *log, uint64_t end, struct lladd_error *err)
{
    int rc = forget_above(log, &end, err);
    if (rc)
        return rc;
    struct ll_log__seg *seg = ll_log__last(log->segs);
    end = here(log, end);
    rc = ll_log__open_file(log, seg, err);
    if (!rc)
        rc = clear_above(log, seg, end, err);
    if (!rc)
        rc = ll_log__disown_above(log, end, err);
    return rc ? rc : begin_at(log, seg, end, err);
}

bool ll_log_could_stay(const struct ll_log *log)
{
    return log->here != 0;
}

int ll_log_start_here(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t end = 0;
    LL_ASSERT(ll_log_could_stay(log));
    if (log->life == LL_LOG__READY)
        step_back(log);
    int rc = make_sure(log, &end, err);
    if (rc)
        return rc;
    lladd_mutex_lock(&segs->mutex);
    rc = go_on_at(log, end, err);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

int ll_log_started(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    int rc = 0;
    lladd_mutex_lock(&segs->mutex);
    if (segs->live.len > 1) {
        size_t i = segs->live.len - 1;
        while (i > 1 && ll_log__at(&segs->live, i)->cut == ll_log__at(&segs->live, i)->first)
            i--; /* segments made for the undo reserve */
        if (ll_log__at(&segs->live, i)->cut < ll_log__at(&segs->live, i - 1)->first)
            rc = give_up(log, i - 1, err);
    }
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

/* ---- clean close ---- */

int ll_log_finish(struct ll_log *log, lladd_lsn *end, struct lladd_error *err)
{
    if (log->life != LL_LOG__READY)
        return ll_fail(err, LLADD_BAD_STATE, "the log is not started");
    ll_log__stop_worker(log);
    for (;;) {
        int rc = ll_log__check(log, err);
        uint64_t tail = lladd_atomic_load64(&log->tail);
        if (!rc && lladd_atomic_load64(&log->durable) < tail)
            rc = ll_log_force(log, lladd_lsn_of(tail - 1), err);
        if (rc)
            return rc;
        tail = lladd_atomic_load64(&log->tail);
        if (lladd_atomic_load64(&log->durable) == tail) {
            ll_log__remove_excess(log);
            end->v = tail;
            return 0;
        }
    }
}

void ll_log_newest_segment(const struct ll_log *log, lladd_lsn *first, uint64_t *bytes)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t tail = lladd_atomic_load64(&log->tail);
    first->v = 0;
    *bytes = 0;
    lladd_mutex_lock(&segs->mutex);
    for (size_t i = segs->live.len; i > 0 && first->v == 0; i--) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i - 1);
        if (tail >= seg->first && tail <= seg->end) {
            first->v = seg->first;
            *bytes = seg->size;
        }
    }
    lladd_mutex_unlock(&segs->mutex);
}

/* ---- positions ---- */

lladd_lsn ll_log_tail(const struct ll_log *log)
{
    return lladd_lsn_of(lladd_atomic_load64(&log->tail));
}

lladd_lsn ll_log_scan_end(const struct ll_log *log)
{
    return lladd_lsn_of(log->scan_end);
}

lladd_lsn ll_log_durable(const struct ll_log *log)
{
    return lladd_lsn_of(lladd_atomic_load64(&log->durable));
}

lladd_lsn ll_log_written(const struct ll_log *log)
{
    return lladd_lsn_of(lladd_atomic_load64(&log->written));
}

uint64_t ll_log_incarnation(const struct ll_log *log)
{
    return log->incarnation;
}

uint64_t ll_log__undo_reserved(const struct ll_log *log)
{
    const struct ll_log__segments *segs = log->segs;
    uint64_t free_eighths = 0;
    for (size_t i = segs->live.len;
         segs->granted && ll_log__at(&segs->live, i - 1) != segs->granted; i--)
        free_eighths +=
            (ll_log__at(&segs->live, i - 1)->end - ll_log__at(&segs->live, i - 1)->first) *
            LL_LOG__FREE_BYTE;
    int64_t left = (int64_t)lladd_atomic_load64(&log->undo_left);
    return (uint64_t)((int64_t)free_eighths - left) / LL_LOG__UNDO_BYTE;
}

void ll_log_stats(struct ll_log *log, struct ll_log_stats *out)
{
    struct ll_log__segments *segs = log->segs;
    lladd_mutex_lock(&segs->mutex);
    (void)ll_log__ensure_listed(log, NULL); /* if that fails, unlisted segments are not counted */
    out->segments = segs->live.len + segs->dead.len;
    out->segment_bytes = segs->disk_bytes;
    out->undo_reserved = ll_log__undo_reserved(log);
    lladd_mutex_unlock(&segs->mutex);
    out->bytes = lladd_atomic_load64(&log->tail) - log->first_lsn;
    out->records = lladd_atomic_load64_relaxed(&log->records);
    out->groups = lladd_atomic_load64_relaxed(&log->groups);
    out->syncs = lladd_atomic_load64_relaxed(&log->syncs);
    out->writes = lladd_atomic_load64_relaxed(&log->writes);
    out->bytes_written = lladd_atomic_load64_relaxed(&log->bytes_written);
    out->waits_for_space = lladd_atomic_load64_relaxed(&log->waits);
}
