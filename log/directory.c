/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory: reads the log's directory.
 *
 * A file gets the name <lsn>.seg when it is complete and synced (create.c). A <lsn>.seg file with
 * an invalid header is therefore damaged. A file that is being made is named <lsn>.new or new.tmp;
 * such a file is never part of the log. A loss of power may bring back removed files, in any
 * combination.
 *
 * A header that cannot be read may be readable the next time. So its segment keeps its place in the
 * list, and its file is kept until truncation passes it. It is taken for a part of the chain: the
 * chain goes on with the file below it. If the chain ended above it, the log below would no longer
 * count as there, and an archive could leave it out for ever. A caller that needs the segment, or
 * the end of the log in the segment before it, reads the header again (ll_log__header_again). Open
 * fails if the segment may hold records at or above the LSN from which recovery reads.
 *
 * The chain of segments is therefore followed from the highest segment downwards. A segment says in
 * `cut` where the log before it ends; the segment that holds the byte before that LSN is its
 * predecessor. The chain ends at a segment without predecessor. Segments in a gap that a cut
 * declares are dead: their files may be reused. Segments below the chain are kept until truncation
 * passes them, and their records can still be read. The chain must reach down to the LSN from which
 * recovery reads, in analysis or in redo; otherwise open fails and names the missing file (unless
 * the config is `lenient`).
 *
 * Earlier versions of the library wrote the header of a reused file before they renamed the file. A
 * crash between the two steps left a header with an LSN above the LSN in the file's name. Such a
 * file is dead and covers the LSNs from its name on. If its header declares a cut, an earlier
 * recovery found the end of the log at the cut, and made the log durable up to the cut. The
 * segments that begin in the declared gap are therefore dead, too.
 *
 * highest_end (LOG-1) is the highest end of a segment, or the LSN in the name of a file being made,
 * if that is higher.
 */
#include "log/log_private.h"

#include <errno.h>
#include <stdlib.h>

int ll_log__fail_io(struct lladd_error *err, int rc, bool writing, const char *what,
                    const struct ll_log__seg *seg)
{
    char name[LL_LOG_NAME_SIZE];
    ll_log__segment_name(seg->name, name);
    return ll_fail_io(err, rc, writing, what, name);
}

int ll_log__fail_seg(struct lladd_error *err, const struct ll_log__seg *seg)
{
    char name[LL_LOG_NAME_SIZE];
    ll_log__file_name(seg, name);
    (void)ll_fail_lsn(err, seg->code, lladd_lsn_of(seg->name), "log segment \"%s\" (LSN %llu): %s",
                      name, (unsigned long long)seg->name, seg->why);
    if (err)
        err->sys_errno = seg->sys_errno;
    return seg->code;
}

/* ---- one file ---------------------------------------------------------------------------- */

static void mark_bad(struct ll_log__seg *seg, int code, const char *why)
{
    seg->state = LL_LOG__BAD;
    seg->code = code;
    seg->why = why;
}

static void judge(struct ll_log *log, struct ll_log__seg *seg, const struct ll_log__block *b,
                  bool whole, uint64_t file_size)
{
    if (!whole || b->index != 0)
        mark_bad(seg, LLADD_CORRUPT_LOG, "its first block header is damaged");
    else if (b->uuid_hash != log->uuid_hash)
        mark_bad(seg, LLADD_FOREIGN_FILE, "it belongs to another database");
    else if (file_size < b->segment_size)
        mark_bad(seg, LLADD_MISSING_FILE, "it is shorter than its header says");
    else if (b->segment_first < seg->name)
        mark_bad(seg, LLADD_CORRUPT_LOG, "its header is that of an earlier segment");
    else if (b->segment_first > seg->name) { /* an earlier version was about to reuse it */
        seg->state = LL_LOG__DEAD;
        seg->cut = b->cut;
        seg->until = b->segment_first;
    }
}

static int fail_memory(struct lladd_error *err, const char *path)
{
    return ll_fail(err, LLADD_NO_MEMORY, "no memory for log segment \"%s\"", path);
}

/* Reads the header of log/<name>.seg into a new segment. *out is NULL if the file does not exist. A
 * file that is damaged or cannot be read is no error here: its segment is LL_LOG__BAD. */
static int probe(struct ll_log *log, uint64_t name, struct ll_log__seg **out,
                 struct lladd_error *err)
{
    char path[LL_LOG_NAME_SIZE];
    unsigned char bytes[LL_LOG_BLOCK_HEADER];
    struct ll_log__block b;
    struct ll_log__block place = {
        .segment_first = name, .cut = name, .segment_size = LL_LOG_SEGMENT_MIN};
    struct lladd_file *file;
    uint64_t size = 0;
    *out = NULL;
    ll_log__segment_name(name, path);
    int rc = ll_io_open(log->dev, path, log->cfg.read_only ? LLADD_OPEN_READ_ONLY : 0u, &file);
    if (rc == -ENOENT)
        return 0;
    if (rc)
        return ll_fail_io(err, rc, false, "open", path);
    rc = ll_io_size(log->dev, file, &size);
    int got = rc ? rc : ll_io_read_full(log->dev, file, bytes, sizeof bytes, 0);
    if (got == -ENODATA)
        got = 0, size = 0;
    if (got && ll_io_code(got, false) != LLADD_READ_FAILED) {
        (void)ll_io_close(log->dev, file); /* the read's error is returned */
        return ll_fail_io(err, got, false, "read", path);
    }
    bool whole = !got && size >= LL_LOG_SEGMENT_MIN && ll_log__block_decode(bytes, &b);
    if (whole) {
        place.incarnation = b.incarnation;
        place.segment_size = b.segment_size;
        if (b.segment_first == name)
            place.cut = b.cut;
    }
    struct ll_log__seg *seg = ll_log__seg_new(log, &place, name);
    if (!seg) {
        (void)ll_io_close(log->dev, file);
        return fail_memory(err, path);
    }
    seg->file = file;
    seg->sys_errno = got < 0 ? -got : 0;
    if (got)
        mark_bad(seg, LLADD_READ_FAILED,
                 "its first block header cannot be read; nothing is lost if a later try succeeds");
    else if (size == 0)
        mark_bad(seg, LLADD_MISSING_FILE, "it is empty");
    else
        judge(log, seg, &b, whole, size);
    *out = seg;
    return 0;
}

/* probe for a file that was being made. Reads only its size. */
static int probe_new(struct ll_log *log, enum ll_log__kind kind, uint64_t name,
                     struct ll_log__seg **out, struct lladd_error *err)
{
    char path[LL_LOG_NAME_SIZE];
    struct ll_log__block place = {
        .segment_first = name, .cut = name, .segment_size = LL_LOG_SEGMENT_MIN};
    struct lladd_file *file;
    uint64_t size = 0;
    *out = NULL;
    ll_log__name(kind, name, path);
    int rc = ll_io_open(log->dev, path, LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return 0;
    if (rc)
        return ll_fail_io(err, rc, false, "open", path);
    rc = ll_io_size(log->dev, file, &size);
    (void)ll_io_close(log->dev, file); /* only read through this handle */
    if (rc)
        return ll_fail_io(err, rc, false, "read", path);
    bool usable = kind == LL_LOG__NEW && size >= LL_LOG_SEGMENT_MIN && size <= LL_LOG_SEGMENT_MAX &&
                  ll_power_of_two(size);
    if (usable)
        place.segment_size = (uint32_t)size;
    struct ll_log__seg *seg = ll_log__seg_new(log, &place, name);
    if (!seg)
        return fail_memory(err, path);
    seg->kind = kind;
    seg->state = LL_LOG__DEAD;
    seg->end = seg->first; /* lower LSNs may have been handed out, but none of this segment */
    seg->size = usable ? seg->size : 0;
    *out = seg;
    return 0;
}

int ll_log__list_one(struct ll_log *log, uint64_t first, uint64_t size, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    struct ll_log__seg *seg;
    int rc = probe(log, first, &seg, err);
    if (rc)
        return rc;
    if (!seg) {
        char path[LL_LOG_NAME_SIZE];
        ll_log__segment_name(first, path);
        return ll_fail_lsn(err, LLADD_MISSING_FILE, lladd_lsn_of(first),
                           "log segment \"%s\" is missing", path);
    }
    if (seg->state == LL_LOG__LIVE && seg->size != size)
        mark_bad(seg, LLADD_CORRUPT_LOG, "its size is not what the control file says");
    else if (seg->state == LL_LOG__DEAD)
        mark_bad(seg, LLADD_CORRUPT_LOG, "its header is that of a later segment");
    if (seg->state == LL_LOG__BAD)
        rc = ll_log__fail_seg(err, seg);
    else if (ll_log__seg_insert(log, seg))
        rc = ll_fail(err, LLADD_NO_MEMORY, "no memory for a log segment");
    if (rc) {
        ll_log__seg_delete(log, seg);
        return rc;
    }
    segs->chain = seg->first;
    segs->highest_end = seg->end;
    segs->disk_bytes = seg->size;
    return 0;
}

/* ---- the directory ----------------------------------------------------------------------- */

struct name {
    uint64_t first;
    enum ll_log__kind kind;
};

static int note_name(void *ctx, const char *text)
{
    struct ll_vec *names = ctx;
    struct name name;
    name.kind = ll_log__parse_name(text, &name.first);
    if (name.kind == LL_LOG__OTHER)
        return 0;
    struct name *slot = ll_vec_push(names);
    if (!slot)
        return -ENOMEM;
    *slot = name;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static bool has_name(const struct ll_vec *v, const struct name *name)
{
    for (size_t i = 0; i < v->len; i++) {
        const struct ll_log__seg *seg = ll_log__at(v, i);
        if (seg->name == name->first && seg->kind == name->kind)
            return true;
    }
    return false;
}

/* Moves a probed segment into one of the lists. A file of another database is an error. */
static int take(struct ll_log *log, struct ll_log__seg *seg, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (seg->state == LL_LOG__BAD && seg->code == LLADD_FOREIGN_FILE) {
        int rc = ll_log__fail_seg(err, seg);
        ll_log__seg_delete(log, seg);
        return rc;
    }
    int rc = seg->state == LL_LOG__DEAD ? ll_vec_append(&segs->dead, &seg, 1)
                                        : ll_log__seg_insert(log, seg);
    if (rc) {
        ll_log__seg_delete(log, seg);
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for the list of log segments");
    }
    segs->disk_bytes += seg->size;
    /* The end of a damaged segment is unknown, but segments above it have known ends. */
    if (seg->state != LL_LOG__BAD && seg->end > segs->highest_end)
        segs->highest_end = seg->end;
    return 0;
}

/* The segment has no users yet, so its file need not stay open. */
static void close_file(struct ll_log *log, struct ll_log__seg *seg)
{
    if (seg->file)
        (void)ll_io_close(log->dev, seg->file); /* only read through this handle */
    seg->file = NULL;
}

/* An earlier attempt to list the directory has failed, so their headers are read again. */
static void forget_unread(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    for (size_t i = segs->live.len; i-- > 0;) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (!ll_log__unread(seg))
            continue;
        segs->disk_bytes -= seg->size;
        ll_vec_remove(&segs->live, i);
        ll_log__seg_delete(log, seg);
    }
}

static int read_headers(struct ll_log *log, struct lladd_error *err)
{
    struct ll_vec names;
    ll_vec_init(&names, log->env, sizeof(struct name));
    forget_unread(log);
    int rc = log->dev->ops->list(log->dev, LL_LOG_DIR, note_name, &names);
    if (rc)
        rc = rc == -ENOENT ? ll_fail(err, LLADD_MISSING_FILE, "there is no directory \"log\"")
                           : ll_fail_io(err, rc, false, "list", LL_LOG_DIR);
    if (!rc && names.len > 1)
        qsort(names.data, names.len, sizeof(struct name), compare_names);
    for (size_t i = 0; !rc && i < names.len; i++) {
        struct ll_log__seg *seg = NULL;
        const struct name *name = ll_vec_at(&names, i);
        if (has_name(&log->segs->live, name) || has_name(&log->segs->dead, name))
            continue;
        rc = name->kind == LL_LOG__SEGMENT ? probe(log, name->first, &seg, err)
                                           : probe_new(log, name->kind, name->first, &seg, err);
        if (!rc && seg) {
            close_file(log, seg);
            rc = take(log, seg, err);
        }
    }
    ll_vec_free(&names);
    return rc;
}

/* ---- the chain --------------------------------------------------------------------------- */

/* Index of the predecessor of live[at]: the valid segment that holds the byte before its cut. The
 * cut or the end of a segment with an unread header is not known, so its neighbour counts. If there
 * is no predecessor: live.len. */
static size_t predecessor(const struct ll_log__segments *segs, size_t at)
{
    const struct ll_log__seg *seg = ll_log__at(&segs->live, at);
    for (size_t i = at; i-- > 0;) {
        const struct ll_log__seg *before = ll_log__at(&segs->live, i);
        bool reaches = seg->cut <= before->end || ll_log__unread(seg);
        if (before->first < seg->cut)
            return (before->state == LL_LOG__LIVE && reaches) || ll_log__unread(before)
                       ? i
                       : segs->live.len;
    }
    return segs->live.len;
}

/* Moves live[from..to), the segments in a gap, to `dead`. */
static int bury(struct ll_log *log, size_t from, size_t to)
{
    struct ll_log__segments *segs = log->segs;
    int rc = ll_vec_reserve(&segs->dead, segs->dead.len + (to - from));
    if (rc)
        return rc;
    for (size_t i = from; i < to; i++) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, from);
        ll_log__seg_retire(log, seg);
        rc = ll_vec_append(&segs->dead, &seg, 1);
        LL_ASSERT(rc == 0); /* reserved */
        ll_vec_remove(&segs->live, from);
    }
    return rc;
}

/* A damaged segment ends at the cut of the next segment, because its own header is unreliable. */
static void end_the_bad(struct ll_log__segments *segs)
{
    for (size_t i = 0; i + 1 < segs->live.len; i++) {
        struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->state == LL_LOG__BAD)
            seg->end = ll_log__at(&segs->live, i + 1)->cut;
        if (seg->end < seg->first)
            seg->end = seg->first;
    }
}

/* Moves to `dead` the segments that begin in a gap declared by the header of a dead segment. The
 * lowest live segment stays, because a log needs at least one. */
static int bury_declared(struct ll_log *log)
{
    struct ll_log__segments *segs = log->segs;
    int rc = 0;
    for (size_t d = 0, n = segs->dead.len; !rc && d < n; d++) {
        const struct ll_log__seg *dead = ll_log__at(&segs->dead, d);
        size_t from = 1, to;
        while (from < segs->live.len && ll_log__at(&segs->live, from)->first < dead->cut)
            from++;
        to = from;
        while (to < segs->live.len && ll_log__at(&segs->live, to)->first < dead->until)
            to++;
        rc = bury(log, from, to);
    }
    return rc;
}

static int follow_chain(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    if (segs->live.len == 0)
        return ll_fail(err, LLADD_MISSING_FILE, "there is no log segment in \"log\"");
    if (bury_declared(log))
        return ll_fail(err, LLADD_NO_MEMORY, "no memory for the list of log segments");
    size_t i = segs->live.len - 1;
    if (ll_log__at(&segs->live, i)->state == LL_LOG__BAD && !log->cfg.lenient)
        return ll_log__fail_seg(err, ll_log__at(&segs->live, i));
    while (i > 0 && (ll_log__at(&segs->live, i)->state == LL_LOG__LIVE ||
                     ll_log__unread(ll_log__at(&segs->live, i)))) {
        size_t before = predecessor(segs, i);
        if (before == segs->live.len)
            break;
        if (before + 1 < i && bury(log, before + 1, i))
            return ll_fail(err, LLADD_NO_MEMORY, "no memory for the list of log segments");
        i = before;
    }
    segs->chain = ll_log__at(&segs->live, i)->first;
    end_the_bad(segs);
    return 0;
}

int ll_log__header_again(struct ll_log *log, size_t i, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    struct ll_log__seg *old = ll_log__at(&segs->live, i), *seg;
    if (!ll_log__unread(old))
        return 0;
    int rc = probe(log, old->name, &seg, err);
    if (rc)
        return rc;
    if (!seg || ll_log__unread(seg)) {
        if (seg)
            ll_log__seg_delete(log, seg);
        return ll_log__fail_seg(err, old);
    }
    close_file(log, seg);
    if (seg->state == LL_LOG__DEAD)
        mark_bad(seg, LLADD_CORRUPT_LOG, "its header is that of a later segment");
    segs->disk_bytes += (uint64_t)seg->size - old->size;
    *(struct ll_log__seg **)ll_vec_at(&segs->live, i) = seg;
    ll_log__seg_delete(log, old); /* it was never found, so it has no users */
    return follow_chain(log, err);
}

int ll_log__fail_unread(const struct ll_log__segments *segs, uint64_t lsn, struct lladd_error *err)
{
    for (size_t i = segs->live.len; i-- > 0 && ll_log__at(&segs->live, i)->end > lsn;)
        if (ll_log__unread(ll_log__at(&segs->live, i)))
            return ll_log__fail_seg(err, ll_log__at(&segs->live, i));
    return 0;
}

/* Under the mutex. */
static int headers_above(struct ll_log *log, uint64_t lsn, uint64_t *end, struct lladd_error *err)
{
    const struct ll_vec *live = &log->segs->live;
    int rc = 0;
    *end = 0;
    /* If segments below i turn out to be in a gap, i is that of a later segment in the next
     * round. */
    for (size_t i = live->len; !rc && i-- > 0 && ll_log__at(live, i)->end > lsn;) {
        if (ll_log__unread(ll_log__at(live, i)))
            *end = ll_log__at(live, i)->end;
        rc = ll_log__header_again(log, i, err);
        i = i < live->len ? i : live->len;
    }
    return rc;
}

int ll_log__headers_above(struct ll_log *log, uint64_t lsn, uint64_t *end, struct lladd_error *err)
{
    lladd_mutex_lock(&log->segs->mutex);
    int rc = headers_above(log, lsn, end, err);
    lladd_mutex_unlock(&log->segs->mutex);
    return rc;
}

/* For a log that was opened with its newest file only: checks that the segments above it can have
 * been preallocated: they must be contiguous and of this incarnation. */
static int check_ahead(struct ll_log *log, const struct ll_log__seg *newest,
                       struct lladd_error *err)
{
    const struct ll_log__segments *segs = log->segs;
    uint64_t end = newest->end;
    for (size_t i = 0; i < segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->first <= newest->first)
            continue;
        if (seg->state == LL_LOG__BAD)
            return ll_log__fail_seg(err, seg);
        if (seg->first != end || seg->cut != end || seg->incarnation != log->incarnation) {
            char name[LL_LOG_NAME_SIZE];
            ll_log__segment_name(seg->first, name);
            return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(seg->first),
                               "log segment \"%s\" does not go on where the log ends", name);
        }
        end = seg->end;
    }
    /* The name of the highest segment may not be durable, if making it failed at the last step
     * (create.c). */
    return end > newest->end && !log->cfg.read_only ? ll_log__settle_names(log, err) : 0;
}

uint64_t ll_log__whole_from(const struct ll_log__segments *segs)
{
    uint64_t from = segs->chain;
    for (size_t i = 0; i < segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        if (seg->first == segs->chain && seg->state != LL_LOG__BAD && seg->cut < from)
            from = seg->cut;
    }
    return from;
}

/* Returns the error for a chain that does not reach down to lsn. The error names the damaged
 * segment that may hold the records below the chain. If no segment is damaged, the chain ends above
 * a hole; files below the hole may exist. */
static int fail_reach(const struct ll_log__segments *segs, uint64_t lsn, struct lladd_error *err)
{
    uint64_t from = ll_log__whole_from(segs);
    const struct ll_log__seg *bad = NULL;
    for (size_t i = 0; i < segs->live.len; i++) {
        const struct ll_log__seg *seg = ll_log__at(&segs->live, i);
        /* The header of a damaged base may have named another cut. */
        if (seg->state == LL_LOG__BAD && seg->first <= segs->chain && seg->end > lsn)
            bad = seg;
    }
    return bad ? ll_log__fail_seg(err, bad)
               : ll_log__fail_missing(segs, from > lsn ? from - 1 : lsn, err);
}

static int check_reach(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t from = log->start.from.v, redo = log->start.redo.v;
    uint64_t lowest = redo && redo < from ? redo : from;
    if (from > segs->highest_end)
        return ll_log__fail_missing(segs, from, err);
    int rc = ll_log__fail_unread(segs, lowest, err);
    if (rc || from == 0)
        return rc;
    uint64_t whole = ll_log__whole_from(segs);
    if (from > whole && from < segs->chain) /* a record begins at `from`, so it is not in a gap */
        return fail_reach(segs, from, err);
    return lowest >= whole ? 0 : fail_reach(segs, lowest, err);
}

int ll_log_reaches(struct ll_log *log, lladd_lsn lsn, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    uint64_t end;
    int rc = 0;
    lladd_mutex_lock(&segs->mutex);
    if (lsn.v < segs->chain) /* the first LSN of the newest file, before the others are listed */
        rc = ll_log__ensure_listed(log, err);
    if (!rc)
        rc = headers_above(log, lsn.v, &end, err);
    if (!rc && lsn.v < segs->chain && lsn.v < ll_log__whole_from(segs))
        rc = fail_reach(segs, lsn.v, err);
    lladd_mutex_unlock(&segs->mutex);
    return rc;
}

int ll_log__settle_names(struct ll_log *log, struct lladd_error *err)
{
    int rc = ll_io_sync_dir(log->dev, LL_LOG_DIR);
    return rc ? ll_fail_io(err, rc, true, "make durable the names in", LL_LOG_DIR) : 0;
}

int ll_log__list(struct ll_log *log, struct lladd_error *err)
{
    struct ll_log__segments *segs = log->segs;
    LL_ASSERT(lladd_mutex_mine(&segs->mutex));
    if (segs->listed)
        return 0;
    const struct ll_log__seg *newest = segs->granted;
    if (log->cfg.read_only && segs->live.len) /* ll_log_open has opened it */
        newest = ll_log__last(segs);
    int rc = read_headers(log, err);
    if (!rc && newest)
        rc = check_ahead(log, newest, err);
    if (!rc)
        rc = follow_chain(log, err);
    if (!rc && !log->cfg.lenient)
        rc = check_reach(log, err);
    if (!rc)
        segs->listed = true;
    return rc;
}
