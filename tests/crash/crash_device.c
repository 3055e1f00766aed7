/* SPDX-License-Identifier: BSD-2-Clause */
/* See crash_device.h. */
#include "crash_device.h"

#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct crash_device {
    struct lladd_device dev;
    struct lladd_device *base;
    char *dir;
    int trace;
    uint32_t piece;
    uint64_t files; /* how many files have got a number */
    _Atomic uint64_t capacity;
    _Atomic uint64_t *calls;
    _Atomic uint32_t *killed;
    _Atomic uint64_t die_at;
    _Atomic uint32_t how;
    bool serial;         /* one changing call at a time */
    pthread_mutex_t one; /* held during a changing call, if `serial` */
};

struct crash_file {
    struct lladd_file *base;
    uint64_t number;
};

static struct crash_device *of(struct lladd_device *dev)
{
    return (struct crash_device *)dev;
}

static struct crash_file *file_of(struct lladd_file *file)
{
    return (struct crash_file *)file;
}

/* ---- killing the process --------------------------------------------------------------------- */

/* Ends a test that cannot go on. The message goes to the output of the test. */
static void give_up(const char *what)
{
    (void)fprintf(stderr, "crash device: %s: %s\n", what, strerror(errno));
    abort();
}

static void die(struct crash_device *cd)
{
    atomic_store(cd->killed, 1);
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

static void enter(struct crash_device *cd)
{
    if (cd->serial)
        (void)pthread_mutex_lock(&cd->one);
}

static void leave(struct crash_device *cd)
{
    if (cd->serial)
        (void)pthread_mutex_unlock(&cd->one);
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void put(int fd, const void *bytes, size_t len)
{
    for (const char *p = bytes; len > 0;) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            give_up("trace");
        p += n;
        len -= (size_t)n;
    }
}

struct call {
    enum trace_kind kind;
    uint64_t file, at;
    const char *name, *to; /* nullable */
    const struct lladd_iovec *pieces;
    int n;
    size_t len; /* how many bytes of the pieces are written */
};

static void note(struct crash_device *cd, const struct call *c)
{
    if (cd->trace < 0)
        return;
    size_t from = c->name ? strlen(c->name) + 1 : 0, to = c->to ? strlen(c->to) + 1 : 0;
    struct trace_head head = {(uint32_t)c->kind, (uint32_t)(from + to), c->file, c->at, c->len};
    put(cd->trace, &head, sizeof head);
    put(cd->trace, c->name, from);
    put(cd->trace, c->to, to);
    size_t left = c->len;
    for (int i = 0; i < c->n && left > 0; i++) {
        size_t part = c->pieces[i].len < left ? c->pieces[i].len : left;
        put(cd->trace, c->pieces[i].data, part);
        left -= part;
    }
}

/* ---- calls that count ------------------------------------------------------------------------ */

/* Counts a call that changes or persists something. Returns true if the process dies after it. */
static bool count(struct crash_device *cd, const struct call *c)
{
    uint64_t number = atomic_fetch_add(cd->calls, 1) + 1;
    if (number != atomic_load(&cd->die_at))
        return false;
    switch (atomic_load(&cd->how)) {
    case DEATH_POWER:
        /* a sync in progress is not recorded */
        if (c->kind != TRACE_SYNC && c->kind != TRACE_SYNC_DIR)
            note(cd, c);
        die(cd);
        break;
    case DEATH_BEFORE:
        die(cd);
        break;
    default:
        break;
    }
    return true;
}

static bool begin(struct crash_device *cd, const struct call *c)
{
    enter(cd);
    return count(cd, c);
}

static int end(struct crash_device *cd, const struct call *c, bool last, int rc)
{
    if (rc == 0)
        note(cd, c);
    if (last)
        die(cd);
    leave(cd);
    return rc;
}

/* ---- space ----------------------------------------------------------------------------------- */

static uint64_t bytes_in(const char *dir)
{
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    if (!d)
        return 0;
    const struct dirent *entry;
    while ((entry = readdir(d))) {
        struct stat st;
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    (void)closedir(d);
    return sum;
}

uint64_t crash_device_used(const char *dir)
{
    char *log;
    if (asprintf(&log, "%s/log", dir) < 0)
        give_up("path");
    uint64_t sum = bytes_in(dir) + bytes_in(log);
    free(log);
    return sum;
}

/* Returns 0 if there is room for the file to become `size` bytes long, or an error. */
static int check_room(struct crash_device *cd, struct lladd_file *file, uint64_t size)
{
    uint64_t capacity = atomic_load(&cd->capacity), now = 0;
    if (capacity == UINT64_MAX)
        return 0;
    int rc = cd->base->ops->size(cd->base, file, &now);
    if (rc != 0 || size <= now)
        return rc;
    uint64_t used = crash_device_used(cd->dir);
    return used + (size - now) > capacity ? -ENOSPC : 0;
}

/* Keeps the mutex. So no thread makes another call, and no record stays incomplete. */
void crash_device_stop(struct crash_device *cd)
{
    enter(cd);
}

/* ---- contents -------------------------------------------------------------------------------- */

static int crash_pwritev(struct lladd_device *dev, struct lladd_file *file,
                         const struct lladd_iovec *pieces, int n, uint64_t off)
{
    struct crash_device *cd = of(dev);
    struct crash_file *f = file_of(file);
    struct call c = {TRACE_WRITE, f->number, off, NULL, NULL, pieces, n, 0};
    for (int i = 0; i < n; i++)
        c.len += pieces[i].len;
    bool last = begin(cd, &c);
    int rc = check_room(cd, f->base, off + c.len);
    if (rc != 0)
        return end(cd, &(struct call){.kind = TRACE_WRITE}, last, rc);
    if (!last || atomic_load(&cd->how) != DEATH_WITHIN)
        return end(cd, &c, last, cd->base->ops->pwritev(cd->base, f->base, pieces, n, off));

    /* The offset of the write and the number of calls determine how many pieces are written. */
    uint64_t first = cd->piece - off % cd->piece;
    uint64_t ends = c.len > first ? 1 + (c.len - first - 1) / cd->piece : 0;
    uint64_t kept = ends ? (off / cd->piece + atomic_load(cd->calls)) % (ends + 1) : 0;
    c.len = kept ? (size_t)(first + (kept - 1) * cd->piece) : 0;
    uint64_t at = off;
    size_t left = c.len;
    for (int i = 0; i < n && left > 0; i++) {
        struct lladd_iovec part = {pieces[i].data, pieces[i].len < left ? pieces[i].len : left};
        if (cd->base->ops->pwritev(cd->base, f->base, &part, 1, at) != 0)
            give_up("write");
        at += part.len;
        left -= part.len;
    }
    return end(cd, &c, true, 0);
}

static int crash_append(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                        size_t len, uint64_t *off)
{
    struct crash_device *cd = of(dev);
    struct crash_file *f = file_of(file);
    struct lladd_iovec piece = {buf, len};
    struct call c = {TRACE_WRITE, f->number, 0, NULL, NULL, &piece, 1, len};
    enter(cd);
    int rc = cd->base->ops->size(cd->base, f->base, &c.at);
    if (rc != 0) {
        leave(cd);
        return rc;
    }
    bool last = count(cd, &c);
    rc = check_room(cd, f->base, c.at + len);
    if (rc == 0)
        rc = cd->base->ops->append(cd->base, f->base, buf, len, &c.at);
    if (rc == 0 && off)
        *off = c.at;
    return end(cd, &c, last, rc);
}

static int crash_sync(struct lladd_device *dev, struct lladd_file *file)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_SYNC, .file = file_of(file)->number};
    bool last = begin(cd, &c);
    return end(cd, &c, last, cd->base->ops->sync(cd->base, file_of(file)->base));
}

static int crash_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    struct crash_device *cd = of(dev);
    struct crash_file *f = file_of(file);
    struct call c = {.kind = TRACE_TRUNCATE, .file = f->number, .at = size};
    bool last = begin(cd, &c);
    int rc = check_room(cd, f->base, size);
    if (rc == 0)
        rc = cd->base->ops->truncate(cd->base, f->base, size);
    return end(cd, &c, last, rc);
}

/* The new part of the file reads as zeros, like a truncation to a larger size. */
static int crash_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    struct crash_device *cd = of(dev);
    struct crash_file *f = file_of(file);
    uint64_t now;
    int rc = cd->base->ops->size(cd->base, f->base, &now);
    if (rc != 0)
        return rc;
    if (size <= now)
        return cd->base->ops->allocate(cd->base, f->base, size);
    struct call c = {.kind = TRACE_TRUNCATE, .file = f->number, .at = size};
    bool last = begin(cd, &c);
    rc = check_room(cd, f->base, size);
    if (rc == 0)
        rc = cd->base->ops->allocate(cd->base, f->base, size);
    return end(cd, &c, last, rc);
}

static int64_t crash_pread(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                           uint64_t off)
{
    return of(dev)->base->ops->pread(of(dev)->base, file_of(file)->base, buf, len, off);
}

static int crash_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    return of(dev)->base->ops->size(of(dev)->base, file_of(file)->base, out);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_there(struct crash_device *cd, const char *name)
{
    struct lladd_file *file;
    int rc = cd->base->ops->open(cd->base, name, LLADD_OPEN_READ_ONLY, &file);
    if (rc == 0)
        (void)cd->base->ops->close(cd->base, file); /* the file was only read */
    return rc == 0;
}

static struct lladd_file *wrap(struct crash_device *cd, struct lladd_file *base, const char *name)
{
    struct crash_file *f = malloc(sizeof *f);
    if (!f)
        give_up("memory");
    f->base = base;
    f->number = 0;
    if (cd->trace >= 0) {
        f->number = ++cd->files;
        note(cd, &(struct call){.kind = TRACE_OPEN, .file = f->number, .name = name});
    }
    return (struct lladd_file *)f;
}

/* Opening changes something only if it creates the file. */
static int crash_open(struct lladd_device *dev, const char *name, unsigned flags,
                      struct lladd_file **out)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_CREATE, .name = name};
    struct lladd_file *base;
    enter(cd);
    bool makes = (flags & LLADD_OPEN_CREATE) && !is_there(cd, name);
    bool last = makes && count(cd, &c);
    int rc = cd->base->ops->open(cd->base, name, flags, &base);
    if (rc == 0 && makes)
        note(cd, &c);
    if (rc == 0)
        *out = wrap(cd, base, name);
    if (last)
        die(cd);
    leave(cd);
    return rc;
}

static int crash_close(struct lladd_device *dev, struct lladd_file *file)
{
    struct crash_device *cd = of(dev);
    struct crash_file *f = file_of(file);
    enter(cd);
    note(cd, &(struct call){.kind = TRACE_CLOSE, .file = f->number});
    leave(cd);
    int rc = cd->base->ops->close(cd->base, f->base);
    free(f);
    return rc;
}

static int crash_rename(struct lladd_device *dev, const char *from, const char *to)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_RENAME, .name = from, .to = to};
    bool last = begin(cd, &c);
    return end(cd, &c, last, cd->base->ops->rename(cd->base, from, to));
}

static int crash_unlink(struct lladd_device *dev, const char *name)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_UNLINK, .name = name};
    bool last = begin(cd, &c);
    return end(cd, &c, last, cd->base->ops->unlink(cd->base, name));
}

static int crash_sync_dir(struct lladd_device *dev, const char *name)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_SYNC_DIR, .name = name};
    bool last = begin(cd, &c);
    return end(cd, &c, last, cd->base->ops->sync_dir(cd->base, name));
}

static int crash_mkdir(struct lladd_device *dev, const char *name)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_MKDIR, .name = name};
    bool last = begin(cd, &c);
    return end(cd, &c, last, cd->base->ops->mkdir(cd->base, name));
}

static int crash_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    return of(dev)->base->ops->list(of(dev)->base, name, fn, ctx);
}

/* The lock file contains the owner's pid. It is not needed after a crash, so the trace does not
 * have it. */
static int crash_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                      int64_t *owner)
{
    struct crash_device *cd = of(dev);
    struct call c = {.kind = TRACE_CREATE, .name = name};
    struct lladd_file *base;
    enter(cd);
    bool makes = !is_there(cd, name);
    bool last = makes && count(cd, &c);
    int rc = cd->base->ops->lock(cd->base, name, &base, owner);
    if (rc == 0 && makes)
        note(cd, &c);
    if (rc == 0)
        *out = wrap(cd, base, name);
    if (last)
        die(cd);
    leave(cd);
    return rc;
}

static int crash_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    return of(dev)->base->ops->holder(of(dev)->base, name, owner);
}

static const struct lladd_device_ops crash_ops = {
    .struct_size = sizeof crash_ops,
    .open = crash_open,
    .close = crash_close,
    .pread = crash_pread,
    .pwritev = crash_pwritev,
    .append = crash_append,
    .sync = crash_sync,
    .truncate = crash_truncate,
    .size = crash_size,
    .rename = crash_rename,
    .unlink = crash_unlink,
    .sync_dir = crash_sync_dir,
    .mkdir = crash_mkdir,
    .list = crash_list,
    .lock = crash_lock,
    .holder = crash_holder,
    .allocate = crash_allocate,
};

/* ---- the test's interface -------------------------------------------------------------------- */

struct crash_device *crash_device_new(const struct crash_device_config *config)
{
    struct crash_device *cd = calloc(1, sizeof *cd);
    if (!cd || lladd_device_posix(config->dir, true, &cd->base, NULL) != 0) {
        free(cd);
        return NULL;
    }
    cd->dev.ops = &crash_ops;
    cd->dir = strdup(config->dir);
    cd->trace = config->trace;
    cd->piece = config->piece;
    cd->serial = config->serial || config->trace >= 0;
    cd->capacity = config->capacity;
    cd->calls = config->calls;
    cd->killed = config->killed;
    if (!cd->dir || pthread_mutex_init(&cd->one, NULL) != 0)
        give_up("memory");
    return cd;
}

void crash_device_free(struct crash_device *cd)
{
    if (!cd)
        return;
    lladd_device_close(cd->base);
    (void)pthread_mutex_destroy(&cd->one);
    free(cd->dir);
    free(cd);
}

struct lladd_device *crash_device_dev(struct crash_device *cd)
{
    return &cd->dev;
}

void crash_device_arm(struct crash_device *cd, uint64_t n, enum death how)
{
    atomic_store(&cd->die_at, 0);
    atomic_store(&cd->calls[0], 0);
    atomic_store(&cd->how, (uint32_t)how);
    atomic_store(&cd->die_at, n);
}

void crash_device_capacity(struct crash_device *cd, uint64_t bytes)
{
    atomic_store(&cd->capacity, bytes);
}
