/* SPDX-License-Identifier: BSD-2-Clause */
/* Restore: copies the files that store_device.c makes from a backup into an empty device.
 *
 * The order makes every crash harmless: lladd_restore takes the lock, writes the note
 * "files/ship/restoring", writes and syncs the files, writes "control", and removes the note.
 * Without a whole "control" lladd_open refuses the directory.
 * Restore never writes a file "creating", which would let lladd_open begin a new database. A second
 * restore removes the files that the first restore has left, but only if the note exists. Without
 * the note the files are not those of an interrupted restore.
 *
 * The copy gets a timeline: a number that the store has given to no other copy, noted in the store
 * before "control" is written. The timeline is part of the incarnation, so the log of the copy and
 * the log of the original database are never taken for each other. */
#include "ship/image_private.h"

#include <errno.h>
#include <lladd/dst.h>
#include <stdio.h>
#include <string.h>

#define NOTE "files/ship/restoring"
enum { CHUNK = 1 << 20, TRIES = 1000 };

struct restore {
    struct lladd_store *store;
    struct lladd_device *from, *to;
    struct lladd_restore_options opt;
    struct ll_ship_mem mem;
    struct ll_ship_pace pace;
    unsigned threads;
    unsigned char *chunk;
    const char *what;
    uint64_t done, all;
    struct lladd_error *err;
};

/* ---- an empty place ------------------------------------------------------------------------- */

struct seen {
    bool ours, others, files, control;
};

static int see(void *ctx, const char *name)
{
    struct seen *s = ctx;
    if (strcmp(name, "pages") == 0 || strcmp(name, "dwb") == 0 || strcmp(name, "log") == 0)
        s->ours = true;
    else if (strcmp(name, "files") == 0)
        s->files = true;
    else if (strcmp(name, "control") == 0)
        s->control = true;
    else if (strcmp(name, "lock") != 0)
        s->others = true;
    return 0;
}

static int see_other_files(void *ctx, const char *name)
{
    struct seen *s = ctx;
    s->others = s->others || (strcmp(name, "ship") != 0 && strcmp(name, "restoring") != 0);
    return 0;
}

static int io(struct restore *r, int rc, const char *what, const char *name)
{
    return rc ? ll_ship_fail_io(r->err, rc, what, name) : 0;
}

static int exists(struct restore *r, const char *name, bool *out)
{
    struct lladd_file *file;
    int rc = r->to->ops->open(r->to, name, LLADD_OPEN_READ_ONLY, &file);
    *out = rc == 0;
    if (!rc)
        rc = r->to->ops->close(r->to, file);
    return rc == -ENOENT || rc == -ENOTDIR ? 0 : io(r, rc, "look for", name);
}

static int unlink_if_there(struct restore *r, const char *name)
{
    int rc = r->to->ops->unlink(r->to, name);
    return rc == -ENOENT ? 0 : io(r, rc, "delete", name);
}

static int collect(void *ctx, const char *name)
{
    struct ll_ship_buf *names = ctx;
    return ll_ship_append(names, name, strlen(name) + 1, NULL);
}

/* Removes the files that an interrupted restore has left. */
static int sweep(struct restore *r)
{
    struct ll_ship_buf names = {.mem = r->mem};
    char path[300];
    int rc = r->to->ops->list(r->to, "log", collect, &names);
    if (rc == LLADD_NO_MEMORY)
        rc = ll_ship_no_memory(r->err);
    else
        rc = rc == -ENOENT ? 0 : io(r, rc, "list", "log");
    for (size_t at = 0; at < names.len && !rc; at += strlen((char *)names.data + at) + 1) {
        int n = snprintf(path, sizeof path, "log/%s", (char *)names.data + at);
        rc = n > 0 && (size_t)n < sizeof path
                 ? unlink_if_there(r, path)
                 : lladd_error_set(r->err, LLADD_TOO_LARGE, "a name in \"log\" is too long");
    }
    ll_ship_buf_free(&names);
    if (!rc)
        rc = unlink_if_there(r, "control"); /* want_empty has found no valid copy in it */
    if (!rc)
        rc = unlink_if_there(r, "pages");
    return rc ? rc : unlink_if_there(r, "dwb");
}

static int make_dir(struct restore *r, const char *name)
{
    int rc = r->to->ops->mkdir(r->to, name);
    return rc == -EEXIST ? 0 : io(r, rc, "make the directory", name);
}

static int write_note(struct restore *r)
{
    struct lladd_file *file;
    int rc = make_dir(r, "files");
    if (!rc)
        rc = make_dir(r, "files/ship");
    if (!rc)
        rc = io(r, r->to->ops->open(r->to, NOTE, LLADD_OPEN_CREATE, &file), "create", NOTE);
    if (rc)
        return rc;
    rc = r->to->ops->sync(r->to, file);
    int late = r->to->ops->close(r->to, file);
    rc = io(r, rc ? rc : late, "sync", NOTE);
    if (!rc)
        rc = io(r, r->to->ops->sync_dir(r->to, "files/ship"), "sync", "files/ship");
    if (!rc)
        rc = io(r, r->to->ops->sync_dir(r->to, "files"), "sync", "files");
    return rc ? rc : io(r, r->to->ops->sync_dir(r->to, ""), "sync", "the directory");
}

/* Is there a control block? If so, the restore was complete although the note exists, and the
 * database may have been used after it. */
static int has_control(struct restore *r, bool *out)
{
    unsigned char copy[LL_SHIP_CONTROL];
    struct lladd_file *file;
    int rc =
        io(r, r->to->ops->open(r->to, "control", LLADD_OPEN_READ_ONLY, &file), "open", "control");
    *out = false;
    if (rc)
        return rc;
    for (unsigned i = 0; i < 2 && !rc; i++) {
        int64_t got =
            r->to->ops->pread(r->to, file, copy, sizeof copy, (uint64_t)i * LL_SHIP_CONTROL_COPY);
        rc = got < 0 ? (int)got : 0;
        *out = *out || (got == LL_SHIP_CONTROL && ll_ship_control_ok(copy));
    }
    int late = r->to->ops->close(r->to, file);
    return io(r, rc ? rc : late, "read", "control");
}

static int want_empty(struct restore *r)
{
    struct seen s = {false, false, false, false};
    bool note = false;
    int rc = io(r, r->to->ops->list(r->to, "", see, &s), "list", "the directory");
    if (!rc && s.files) {
        rc = r->to->ops->list(r->to, "files", see_other_files, &s);
        if (!rc)
            rc = r->to->ops->list(r->to, "files/ship", see_other_files, &s);
        rc = rc == -ENOENT ? 0 : io(r, rc, "list", "files");
    }
    if (!rc)
        rc = exists(r, NOTE, &note);
    bool complete = s.control;
    if (!rc && s.control && note)
        rc = has_control(r, &complete);
    if (rc)
        return rc;
    if (s.others || complete || (s.ours && !note))
        return lladd_error_set(r->err, LLADD_EXISTS,
                               "the directory is not empty, and its files are not those of an "
                               "interrupted restore");
    rc = write_note(r);
    return rc ? rc : sweep(r);
}

/* ---- copying -------------------------------------------------------------------------------- */

static int step(struct restore *r, uint64_t bytes)
{
    r->done += bytes;
    int rc = ll_ship_pace(&r->pace, bytes, r->err);
    if (rc || !r->opt.progress)
        return rc;
    rc = r->opt.progress(r->opt.progress_ctx, r->what, r->done, r->all);
    return rc ? lladd_error_set(r->err, rc, "the progress function has stopped the restore") : 0;
}

static int copy_bytes(struct restore *r, struct lladd_file *from, struct lladd_file *to,
                      const char *name)
{
    uint64_t size = 0;
    int rc = io(r, r->from->ops->size(r->from, from, &size), "read", name);
    for (uint64_t at = 0; at < size && !rc;) {
        size_t len = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        int64_t got = r->from->ops->pread(r->from, from, r->chunk, len, at);
        if (got != (int64_t)len) /* lladd_store_device_error says why */
            return lladd_store_device_error(r->from, r->err)
                       ? lladd_store_device_error(r->from, NULL)
                       : lladd_error_set(r->err, LLADD_STORE_FAILED, "cannot read \"%s\"", name);
        struct lladd_iovec piece = {r->chunk, len};
        rc = io(r, r->to->ops->pwritev(r->to, to, &piece, 1, at), "write", name);
        if (!rc)
            rc = step(r, len);
        at += len;
    }
    return rc ? rc : io(r, r->to->ops->sync(r->to, to), "sync", name);
}

/* ---- pages, by several threads -------------------------------------------------------------- */

struct sharing {
    struct restore *r;
    struct lladd_file *to;
    uint64_t size;
    struct sharer {
        struct ll_ship_reader *reader;
        unsigned char *chunk;
    } *sharers; /* one for each thread */
};

static size_t length_at(const struct sharing *s, uint64_t ticket)
{
    uint64_t left = s->size - ticket * CHUNK;
    return left < CHUNK ? (size_t)left : CHUNK;
}

static int copy_chunk(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct sharing *s = ctx;
    struct restore *r = s->r;
    const struct sharer *own = &s->sharers[thread];
    struct lladd_iovec piece = {own->chunk, length_at(s, ticket)};
    int rc = ll_ship_reader_get(r->from, own->reader, ticket * CHUNK, own->chunk, piece.len, err);
    if (rc)
        return rc;
    rc = r->to->ops->pwritev(r->to, s->to, &piece, 1, ticket * CHUNK);
    return rc ? ll_ship_fail_io(err, rc, "write", "pages") : 0;
}

static int count_chunk(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct sharing *s = ctx;
    struct lladd_error *had = s->r->err;
    (void)thread;
    s->r->err = err;
    int rc = step(s->r, length_at(s, ticket));
    s->r->err = had;
    return rc;
}

static int share(struct restore *r, struct lladd_file *from, struct lladd_file *to)
{
    struct sharing s = {.r = r, .to = to};
    int rc = io(r, r->from->ops->size(r->from, from, &s.size), "read", "pages");
    struct ll_ship_job job = {&s, (s.size + CHUNK - 1) / CHUNK, copy_chunk, count_chunk, NULL};
    s.sharers = ll_ship_new(r->mem, r->threads * sizeof *s.sharers);
    if (!s.sharers)
        return ll_ship_no_memory(r->err);
    for (unsigned i = 0; i < r->threads && !rc; i++) {
        s.sharers[i].chunk = ll_ship_new(r->mem, CHUNK);
        rc = s.sharers[i].chunk ? ll_ship_reader_open(r->from, &s.sharers[i].reader, r->err)
                                : ll_ship_no_memory(r->err);
    }
    if (!rc)
        rc = ll_ship_crew(&job, r->threads, r->mem, r->err);
    for (unsigned i = 0; i < r->threads; i++) {
        ll_ship_reader_close(r->from, s.sharers[i].reader);
        ll_ship_delete(r->mem, s.sharers[i].chunk);
    }
    ll_ship_delete(r->mem, s.sharers);
    return rc ? rc : io(r, r->to->ops->sync(r->to, to), "sync", "pages");
}

/* ---- files ---------------------------------------------------------------------------------- */

static int copy_file(struct restore *r, const char *name)
{
    struct lladd_file *from, *to;
    int rc = io(r, r->from->ops->open(r->from, name, LLADD_OPEN_READ_ONLY, &from), "read", name);
    if (rc)
        return rc;
    rc = io(r, r->to->ops->open(r->to, name, LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE, &to),
            "create", name);
    if (!rc) {
        rc = r->threads > 1 && strcmp(name, "pages") == 0 ? share(r, from, to)
                                                          : copy_bytes(r, from, to, name);
        int late = r->to->ops->close(r->to, to);
        if (!rc)
            rc = io(r, late, "write", name);
    }
    int late = r->from->ops->close(r->from, from);
    return rc ? rc : io(r, late, "read", name);
}

static int copy_log(struct restore *r)
{
    const struct ll_ship_image *log = ll_ship_device_log(r->from);
    char name[40];
    int rc = make_dir(r, "log");
    r->what = "log";
    r->done = r->all = 0;
    for (size_t i = 0; i < ll_ship_image_segments(log); i++)
        r->all += ll_ship_image_at(log, i)->size;
    for (size_t i = 0; i < ll_ship_image_segments(log) && !rc; i++) {
        (void)snprintf(name, sizeof name, "log/%016llx.seg",
                       (unsigned long long)ll_ship_image_at(log, i)->first);
        rc = copy_file(r, name);
    }
    return rc ? rc : io(r, r->to->ops->sync_dir(r->to, "log"), "sync", "log");
}

/* ---- the timeline --------------------------------------------------------------------------- */

/* Takes the next number that the store has not given away. */
static int new_timeline(struct restore *r, uint32_t *out)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct ll_ship_buf text = {.mem = r->mem};
    lladd_store_device_info(r->from, &info);
    int rc = ll_ship_timelines(r->store, info.timeline, out, r->err);
    if (!rc)
        rc = ll_ship_history(&text, info.timeline, info.end.v, info.name, r->opt.world, r->err);
    bool taken = !rc;
    for (unsigned i = 0; taken; i++) {
        (*out)++;
        rc = ll_ship_timeline_put(r->store, r->mem, *out, &text, r->err);
        taken = rc == LLADD_EXISTS && i < TRIES && *out < UINT32_MAX;
    }
    ll_ship_buf_free(&text);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int finish(struct restore *r)
{
    uint32_t timeline = 0;
    int rc = io(r, r->to->ops->sync_dir(r->to, ""), "sync", "the directory");
    if (!rc)
        rc = new_timeline(r, &timeline);
    if (rc)
        return rc;
    ll_ship_device_timeline(r->from, timeline);
    r->what = "control";
    r->done = 0;
    r->all = LL_SHIP_CONTROL_FILE;
    rc = copy_file(r, "control");
    if (!rc)
        rc = io(r, r->to->ops->sync_dir(r->to, ""), "sync", "the directory");
    if (!rc)
        rc = unlink_if_there(r, NOTE);
    return rc ? rc : io(r, r->to->ops->sync_dir(r->to, "files/ship"), "sync", "files/ship");
}

static int copy_all(struct restore *r)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    int rc = want_empty(r);
    if (!rc)
        rc = copy_log(r);
    r->what = "pages";
    r->done = 0;
    lladd_store_device_info(r->from, &info);
    r->all = (info.pages + LL_SHIP_DWB_PAGES) * info.page_size;
    bool early = LLADD_PLANTED(LLADD_BUG_RESTORE_ORDER);
    if (!rc && early)
        rc = finish(r);
    if (!rc)
        rc = copy_file(r, "dwb");
    if (!rc)
        rc = copy_file(r, "pages");
    if (!rc)
        rc = ll_ship_device_check(r->from, r->err);
    return rc || early ? rc : finish(r);
}

static int locked(struct restore *r)
{
    struct lladd_file *lock;
    int64_t owner = 0;
    int rc = r->to->ops->lock(r->to, "lock", &lock, &owner);
    if (rc == -EAGAIN)
        return lladd_error_set(r->err, LLADD_LOCKED, "process %lld uses the directory",
                               (long long)owner);
    if (rc)
        return ll_ship_fail_io(r->err, rc, "lock", "lock");
    rc = copy_all(r);
    int late = r->to->ops->close(r->to, lock);
    return rc ? rc : io(r, late, "unlock", "lock");
}

int lladd_restore(struct lladd_store *store, const struct lladd_restore_options *options,
                  struct lladd_device *empty, struct lladd_backup_info *info,
                  struct lladd_error *err)
{
    struct restore r = {.store = store, .to = empty, .err = err};
    struct lladd_store *shared = NULL;
    r.opt = (struct lladd_restore_options)LLADD_RESTORE_OPTIONS_INIT;
    if (!store || !empty)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a restore needs a store and a device");
    ll_ship_take_options(&r.opt, sizeof r.opt, options);
    r.mem.allocator = r.opt.allocator;
    r.pace =
        (struct ll_ship_pace){r.opt.bytes_per_second, ll_ship_now_ns(r.opt.world), 0, r.opt.world};
    int rc = ll_ship_threads(r.opt.threads, &r.threads, err);
    if (rc)
        return rc;
    r.chunk = ll_ship_new(r.mem, CHUNK);
    if (!r.chunk)
        return ll_ship_no_memory(err);
    rc = ll_ship_store_share(&r.store, r.threads, r.mem, &shared, err);
    if (!rc)
        rc = lladd_store_device(r.store, &r.opt, &r.from, err);
    if (!rc) {
        rc = locked(&r);
        if (!rc && info)
            lladd_store_device_info(r.from, info);
        lladd_store_device_close(r.from);
    }
    lladd_store_close(shared);
    ll_ship_delete(r.mem, r.chunk);
    return rc;
}
