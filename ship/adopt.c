/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives a database a new timeline, so that the database can archive into a store that another copy
 * of the database has claimed. The log of the old timeline below the fork is common to both copies
 * (same_log.c), and stays a part of the new timeline.
 *
 * The order makes every crash harmless. First the note "files/ship/adopt" gets the new number and
 * the text of the object "history". Then the store gets that object, and then the block in
 * "control" is replaced. Until the block is replaced, the database is on its old timeline, and the
 * next call goes on with the same number and text. Afterwards the database is on the new timeline,
 * on which no other copy has a claim. The log is stored last, as lladd_archive_push stores it. This
 * part can be repeated.
 *
 * The new block says that the database was not closed cleanly. So the log goes on in a
 * new segment, with the incarnation of the new timeline. Otherwise both copies of a database that
 * was closed cleanly would go on in the same segment with the same incarnation. */
#include "ship/archive_private.h"
#include "ship/image_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <stdio.h>
#include <string.h>

#define NOTE "files/ship/adopt"
#define NOTE_MAGIC "LLADOPT"
enum { NOTE_HEAD = 16, NOTE_MOST = 1024, TRIES = 1000 };

struct adopt {
    struct lladd_device *dev;
    struct lladd_store *store;
    struct lladd_adopt_options opt;
    struct ll_ship_mem mem;
    struct lladd_archive *a;
    uint32_t timeline;       /* the new timeline */
    struct ll_ship_buf text; /* the text of its history */
    bool adopted;
    struct lladd_error *err;
};

static int io(struct adopt *d, int rc, const char *what, const char *name)
{
    return rc ? ll_ship_fail_io(d->err, rc, what, name) : 0;
}

/* ---- the note ------------------------------------------------------------------------------- */

static int read_file(struct adopt *d, unsigned char bytes[NOTE_MOST], size_t *len)
{
    struct lladd_file *file;
    *len = 0;
    int rc = d->dev->ops->open(d->dev, NOTE, LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return 0;
    if (rc)
        return io(d, rc, "open", NOTE);
    int64_t got = d->dev->ops->pread(d->dev, file, bytes, NOTE_MOST, 0);
    rc = d->dev->ops->close(d->dev, file);
    *len = got < 0 ? 0 : (size_t)got;
    return io(d, got < 0 ? (int)got : rc, "read", NOTE);
}

/* Is the text the history of a timeline that leaves the database's own timeline, and does the
 * database's log reach the fork? An older copy of the files may have the note, too. */
static bool leaves(const struct adopt *d, const void *text, size_t len)
{
    unsigned long long parent, fork;
    char line[128] = "";
    memcpy(line, text, len < sizeof line - 1 ? len : sizeof line - 1);
    return sscanf(line, "parent %llu\nfork %llu\n", &parent, &fork) == 2 &&
           parent == d->a->timeline && fork <= d->a->closed_end;
}

/* *noted: an earlier call has chosen number and text. A note of an earlier adoption does not count.
 * A damaged note does not count either: its text is in the store, or is not needed. */
static int read_note(struct adopt *d, bool *noted)
{
    unsigned char bytes[NOTE_MOST];
    size_t len;
    *noted = false;
    int rc = read_file(d, bytes, &len);
    if (rc || len < NOTE_HEAD + 4 || memcmp(bytes, NOTE_MAGIC, sizeof NOTE_MAGIC) != 0 ||
        lladd_get32(bytes + 12) != len - NOTE_HEAD - 4 ||
        lladd_get32(bytes + len - 4) != lladd_crc32c(0, bytes, len - 4) ||
        !leaves(d, bytes + NOTE_HEAD, len - NOTE_HEAD - 4))
        return rc;
    d->timeline = lladd_get32(bytes + 8);
    *noted = true;
    return ll_ship_append(&d->text, bytes + NOTE_HEAD, len - NOTE_HEAD - 4, d->err);
}

static int write_note(struct adopt *d)
{
    unsigned char bytes[NOTE_MOST] = NOTE_MAGIC;
    size_t len = NOTE_HEAD + d->text.len;
    if (len + 4 > sizeof bytes)
        return lladd_error_set(d->err, LLADD_TOO_LARGE, "\"%s\" is too long", NOTE);
    lladd_put32(bytes + 8, d->timeline);
    lladd_put32(bytes + 12, (uint32_t)d->text.len);
    memcpy(bytes + NOTE_HEAD, d->text.data, d->text.len);
    lladd_put32(bytes + len, lladd_crc32c(0, bytes, len));
    return ll_ship_file_replace(d->dev, NOTE, bytes, len + 4, d->err);
}

/* ---- the number ----------------------------------------------------------------------------- */

static int put_history(struct adopt *d)
{
    return ll_ship_timeline_put(d->a->store, d->mem, d->timeline, &d->text, d->err);
}

/* Takes the number of the note, or the next one that the store has not given away. */
static int take_number(struct adopt *d, bool noted)
{
    int rc = noted ? put_history(d) : LLADD_EXISTS;
    if (rc != LLADD_EXISTS)
        return rc;
    rc = ll_ship_timelines(d->a->store, d->a->timeline, &d->timeline, d->err);
    for (unsigned i = 0; !rc && i < TRIES; i++) {
        d->timeline++;
        rc = write_note(d);
        if (!rc)
            rc = put_history(d);
        if (rc != LLADD_EXISTS || d->timeline == UINT32_MAX)
            return rc;
        rc = 0;
    }
    return rc ? rc : lladd_error_set(d->err, LLADD_EXISTS, "other copies take each timeline");
}

/* ---- control -------------------------------------------------------------------------------- */

/* First writes the copy of the block that is not the newest copy, so a valid copy stays. */
static int write_copies(struct adopt *d, struct lladd_file *file,
                        unsigned char control[LL_SHIP_CONTROL])
{
    unsigned char copy[LL_SHIP_CONTROL];
    struct lladd_iovec piece = {control, LL_SHIP_CONTROL};
    int64_t got = d->dev->ops->pread(d->dev, file, copy, sizeof copy, 0);
    bool newest = got == LL_SHIP_CONTROL && memcmp(copy, control, sizeof copy) == 0;
    int rc = got < 0 ? (int)got : 0;
    ll_ship_control_fork(control, d->timeline);
    for (unsigned i = 0; i < 2 && !rc; i++) {
        uint64_t at = newest == (i == 0) ? LL_SHIP_CONTROL_COPY : 0;
        rc = d->dev->ops->pwritev(d->dev, file, &piece, 1, at);
        if (!rc)
            rc = d->dev->ops->sync(d->dev, file);
    }
    return rc;
}

static int write_control(struct adopt *d)
{
    unsigned char control[LL_SHIP_CONTROL];
    struct lladd_file *file;
    int rc = ll_ship_control_read(d->dev, control, d->err);
    if (!rc)
        rc = io(d, d->dev->ops->open(d->dev, "control", 0, &file), "open", "control");
    if (rc)
        return rc;
    rc = write_copies(d, file, control);
    int late = d->dev->ops->close(d->dev, file);
    return io(d, rc ? rc : late, "write", "control");
}

/* ---- taking over ---------------------------------------------------------------------------- */

static int see_txn(void *ctx, const struct lladd_inspect_txn *t)
{
    const struct adopt *d = ctx;
    return t->prepared ? d->opt.in_doubt(d->opt.in_doubt_ctx, &t->doubt) : 0;
}

static int tell_in_doubt(struct adopt *d, struct lladd_inspect *view)
{
    int rc = d->opt.in_doubt ? lladd_inspect_txns(view, see_txn, d) : 0;
    return rc ? lladd_error_set(d->err, rc, "the function for transactions in doubt has stopped "
                                            "the call")
              : 0;
}

static int take_over(struct adopt *d, struct lladd_inspect *view)
{
    bool noted = false;
    uint64_t fork = 0;
    int rc = tell_in_doubt(d, view);
    if (!rc)
        rc = read_note(d, &noted);
    if (!rc && !noted)
        rc = ll_ship_same_log(d->a, view, &fork, d->err);
    if (!rc && !noted)
        rc = ll_ship_history(&d->text, d->a->timeline, fork, "adopted", d->opt.world, d->err);
    if (!rc)
        rc = take_number(d, noted);
    if (!rc) /* the claim is of the old timeline, and may be damaged */
        rc = ll_ship_claim_forget(d->dev, d->err);
    if (!rc)
        rc = write_control(d);
    d->adopted = rc == 0;
    return rc;
}

/* *refused: the archive of the database cannot go on in the store, because the store's archive is
 * of another copy. */
static int is_refused(struct adopt *d, bool *refused)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct ll_ship_claim claim;
    unsigned char uuid[16];
    *refused = false;
    int rc = ll_ship_store_uuid(d->a->store, uuid, d->err);
    if (rc == LLADD_NOT_FOUND)
        return lladd_error_set(d->err, rc, "the store is empty: there is nothing to adopt");
    if (!rc)
        rc = ll_ship_claim_store(d->a->store, d->mem, d->a->uuid, d->a->page_size, d->err);
    if (rc)
        return rc;
    rc = ll_ship_claim_own(d->a->store, d->dev, d->a->timeline, &claim, &why);
    *refused = rc == LLADD_DIVERGED || rc == LLADD_CORRUPT_BACKUP;
    if (!rc) {
        rc = ll_ship_archive_begin(d->a, &why);
        *refused = rc == LLADD_DIVERGED;
    }
    if (rc && !*refused)
        *d->err = why;
    return *refused ? 0 : rc;
}

/* `diverged`: lladd_archive_push was refused. */
static int adopt_closed(struct adopt *d, bool diverged)
{
    struct lladd_inspect *view;
    bool refused = false;
    int rc = ll_ship_archive_look(d->a, true, &view, d->err);
    if (rc)
        return rc;
    rc = ll_ship_archive_identify(d->a, d->err);
    if (!rc)
        rc = ll_ship_spool_look(d->dev, d->mem, d->a->uuid, d->a->page_size, &d->a->spool, d->err);
    if (!rc)
        rc = is_refused(d, &refused);
    if (!rc && (refused || diverged))
        rc = take_over(d, view);
    if (!rc)
        rc = ll_ship_file_remove(d->dev, NOTE, d->err);
    lladd_inspect_close(view);
    return rc;
}

/* A directory without a database does not get a lock file. */
static int want_control(struct adopt *d)
{
    struct lladd_file *file;
    int rc = d->dev->ops->open(d->dev, "control", LLADD_OPEN_READ_ONLY, &file);
    if (rc == -ENOENT)
        return lladd_error_set(d->err, LLADD_MISSING_FILE, "there is no \"control\"");
    if (!rc)
        rc = d->dev->ops->close(d->dev, file);
    return io(d, rc, "open", "control");
}

static int adopt_locked(struct adopt *d, bool diverged)
{
    struct lladd_archive_options o = LLADD_ARCHIVE_OPTIONS_INIT;
    struct lladd_file *lock;
    int64_t owner = 0;
    o.allocator = d->opt.allocator;
    o.world = d->opt.world;
    int rc = want_control(d);
    if (rc)
        return rc;
    rc = d->dev->ops->lock(d->dev, "lock", &lock, &owner);
    if (rc == -EAGAIN)
        return lladd_error_set(d->err, LLADD_LOCKED, "process %lld has the database open",
                               (long long)owner);
    if (rc)
        return io(d, rc, "lock", "lock");
    rc = ll_ship_archive_new(d->store, &o, &d->a, d->err);
    if (!rc) {
        d->a->dev = d->dev;
        d->text = (struct ll_ship_buf){.mem = d->mem};
        rc = adopt_closed(d, diverged);
        ll_ship_buf_free(&d->text);
        lladd_archive_free(d->a);
    }
    int late = d->dev->ops->close(d->dev, lock);
    return rc ? rc : io(d, late, "unlock", "lock");
}

/* ---- what came of it ------------------------------------------------------------------------ */

/* Can the timeline be restored up to the end of its log? */
static int look_for_backup(struct ll_ship_past *past, const struct ll_ship_fork *fork,
                           struct lladd_adopt_info *out, struct lladd_error *err)
{
    struct ll_ship_buf steps = {.mem = past->mem}, ranges = {.mem = past->mem};
    struct ll_ship_step own = {out->timeline, UINT64_MAX};
    int rc = fork ? ll_ship_past_path(past, out->timeline, &steps, err)
                  : ll_ship_append(&steps, &own, sizeof own, err);
    if (!rc)
        rc = ll_ship_ranges(past, &steps, &ranges, err);
    const struct ll_ship_reach *r = (const void *)ranges.data;
    size_t n = ranges.len / sizeof *r;
    out->needs_backup = out->needs_backup || n == 0 || r[n - 1].end < out->stored.v;
    ll_ship_buf_free(&ranges);
    ll_ship_buf_free(&steps);
    return rc;
}

static int describe(struct adopt *d, struct lladd_adopt_info *out)
{
    unsigned char control[LL_SHIP_CONTROL];
    struct ll_ship_past past;
    struct ll_ship_fork fork = {.timeline = 0};
    int rc = ll_ship_control_read(d->dev, control, d->err);
    if (!rc)
        rc = ll_ship_past_open(&past, d->store, d->mem, d->err);
    if (rc)
        return rc;
    out->timeline = ll_ship_control_timeline(control);
    if (out->timeline)
        rc = ll_ship_past_fork(&past, out->timeline, &fork, d->err);
    /* The store of a restored copy may lack the origin's timelines. */
    bool known = rc != LLADD_NOT_FOUND;
    out->parent = fork.parent;
    out->fork = lladd_lsn_of(fork.lsn);
    if (!rc || !known)
        rc = look_for_backup(&past, known ? &fork : NULL, out, d->err);
    ll_ship_past_free(&past);
    return rc;
}

/* An archive that is not refused when it begins may find later that a name is taken. */
static int adopt_and_push(struct adopt *d, struct lladd_archive_status *s)
{
    struct lladd_archive_options o = LLADD_ARCHIVE_OPTIONS_INIT;
    o.allocator = d->opt.allocator;
    o.world = d->opt.world;
    int rc = LLADD_DIVERGED;
    for (unsigned i = 0; i < 2 && rc == LLADD_DIVERGED && !d->adopted; i++) {
        rc = adopt_locked(d, i > 0);
        if (!rc)
            rc = lladd_archive_push(d->dev, d->store, &o, s, d->err);
    }
    return rc;
}

int lladd_archive_adopt(struct lladd_device *dev, struct lladd_store *store,
                        const struct lladd_adopt_options *options, struct lladd_adopt_info *out,
                        struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    struct lladd_archive_status s = {.struct_size = sizeof s};
    struct lladd_adopt_info info = {.struct_size = sizeof info};
    struct adopt d = {.dev = dev, .store = store, .err = &local};
    d.opt = (struct lladd_adopt_options)LLADD_ADOPT_OPTIONS_INIT;
    if (!dev || !store)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the device or the store is NULL");
    ll_ship_take_options(&d.opt, sizeof d.opt, options);
    d.mem.allocator = d.opt.allocator;
    int rc = adopt_and_push(&d, &s);
    info.adopted = d.adopted;
    info.stored = s.stored;
    info.needs_backup = s.gap;
    if (!rc && out)
        rc = describe(&d, &info);
    if (rc && err)
        *err = local;
    if (rc || !out)
        return rc;
    size_t size = out->struct_size;
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
    out->struct_size = size;
    return 0;
}
