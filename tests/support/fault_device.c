/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See fault_device.h. All functions of the device have the same structure. begin() counts the call,
 * decides whether it fails, and takes the mutex. Then the base does the call, and the model records
 * it. end() releases the mutex.
 */
#include "support/fault_device.h"

#include "support/crash_model.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The result of begin() for the call that is in progress at a crash. The model records the call,
 * the base does not do it, and the caller gets -EIO. The value is not an errno. */
enum { UNDER_WAY = 1 };

enum {
    CRASH_KINDS = FAULT_OPEN | FAULT_PWRITEV | FAULT_APPEND | FAULT_SYNC | FAULT_TRUNCATE |
                  FAULT_RENAME | FAULT_UNLINK | FAULT_SYNC_DIR | FAULT_MKDIR | FAULT_LOCK
};

struct fault_file {
    struct fault_file *next;
    struct lladd_file *base; /* NULL: the file was opened before the power cycle */
    struct model_file *model;
    char *name;
};

struct bad_sector {
    struct bad_sector *next;
    char *name;
    uint64_t off;
};

struct lost_writes {
    char *name;
    uint64_t off, n; /* n: the writes that are still lost */
    size_t len;
};

struct fault_device {
    struct lladd_device dev;
    struct lladd_device *base;
    pthread_mutex_t mutex;
    struct crash_model *model;
    struct fault_file *files;
    uint64_t number; /* number of the last call */
    uint64_t calls[FAULT_KINDS];
    char *prefix;

    uint64_t fail_in; /* matching calls until the failure; 0: none planned */
    unsigned fail_kinds;
    int fail_errno;
    bool fail_forever;
    uint64_t fired;
    uint64_t capacity;
    bool cannot_allocate;
    struct bad_sector *bad;
    struct lost_writes lost;

    uint64_t crash_in;
    bool crashed;

    fault_hook *hook;
    void *hook_ctx;
};

static struct fault_device *of(struct lladd_device *dev)
{
    return (struct fault_device *)dev;
}

static int kind_index(unsigned kind)
{
    return __builtin_ctz(kind);
}

/* ---- whether a call fails ---- */

static bool plan_hits(struct fault_device *fd, unsigned kind, const char *name)
{
    if (fd->fail_in == 0 || !(fd->fail_kinds & kind))
        return false;
    if (fd->prefix && strncmp(name, fd->prefix, strlen(fd->prefix)) != 0)
        return false;
    if (fd->fail_in > 1) {
        fd->fail_in--;
        return false;
    }
    if (!fd->fail_forever)
        fd->fail_in = 0;
    fd->fired++;
    return true;
}

static int begin(struct fault_device *fd, unsigned kind, const char *name,
                 const struct fault_file *file)
{
    pthread_mutex_lock(&fd->mutex);
    uint64_t number = ++fd->number;
    fault_hook *hook = fd->hook;
    void *hook_ctx = fd->hook_ctx;
    pthread_mutex_unlock(&fd->mutex);
    if (hook)
        hook(hook_ctx, number, kind, name);

    pthread_mutex_lock(&fd->mutex);
    if (!fd->prefix || strncmp(name, fd->prefix, strlen(fd->prefix)) == 0)
        fd->calls[kind_index(kind)]++;
    if (fd->crashed || (file && !file->base))
        return -EIO;
    if ((kind & CRASH_KINDS) && fd->crash_in > 0 && --fd->crash_in == 0) {
        fd->crashed = true;
        return UNDER_WAY;
    }
    return plan_hits(fd, kind, name) ? -fd->fail_errno : 0;
}

static int end(struct fault_device *fd, int rc)
{
    pthread_mutex_unlock(&fd->mutex);
    return rc == UNDER_WAY ? -EIO : rc;
}

/* Returns true if the model must record a call with this result. */
static bool happened(int rc)
{
    return rc == 0 || rc == UNDER_WAY;
}

static int check_room(struct fault_device *fd, const struct model_file *f, uint64_t size)
{
    uint64_t now = model_file_size(f);
    if (size <= now || model_bytes(fd->model) + (size - now) <= fd->capacity)
        return 0;
    fd->fired++;
    return -ENOSPC;
}

/* The place of the first bad sector in this range of the file, or the place of the list's end. */
static struct bad_sector **find_bad(struct fault_device *fd, const char *name, uint64_t from,
                                    uint64_t to)
{
    struct bad_sector **place = &fd->bad;
    while (*place && !(strcmp((*place)->name, name) == 0 && from <= (*place)->off &&
                       (*place)->off < to))
        place = &(*place)->next;
    return place;
}

static void repair(struct bad_sector **place)
{
    struct bad_sector *s = *place;
    *place = s->next;
    free(s->name);
    free(s);
}

/* If this write will lose bytes, returns these bytes as they are now. The caller frees them. */
static unsigned char *keep_lost(struct fault_device *fd, const struct fault_file *f, uint64_t from,
                                uint64_t to)
{
    struct lost_writes *l = &fd->lost;
    if (l->n == 0 || strcmp(l->name, f->name) != 0 || from >= l->off + l->len || l->off >= to)
        return NULL;
    unsigned char *bytes = model_alloc(l->len);
    int64_t got = fd->base->ops->pread(fd->base, f->base, bytes, l->len, l->off);
    if (got != (int64_t)l->len)
        model_fatal("read", f->name, got);
    l->n--;
    return bytes;
}

/* ---- files ---- */

static struct fault_file *new_file(struct fault_device *fd, const char *name,
                                   struct lladd_file *base)
{
    struct fault_file *f = model_alloc(sizeof *f);
    f->base = base;
    f->name = model_strdup(name);
    f->model = model_find(fd->model, name);
    if (!f->model)
        f->model = model_create(fd->model, name);
    model_hold(f->model);
    f->next = fd->files;
    fd->files = f;
    return f;
}

static int fault_open(struct lladd_device *dev, const char *name, unsigned flags,
                      struct lladd_file **out)
{
    struct fault_device *fd = of(dev);
    struct lladd_file *base = NULL;
    int rc = begin(fd, FAULT_OPEN, name, NULL);
    /* The base may still have a directory that was lost in a crash. */
    if (rc >= 0 && !model_has_parent(fd->model, name))
        rc = -ENOENT;
    if (rc == 0)
        rc = fd->base->ops->open(fd->base, name, flags, &base);
    if (rc == 0)
        *out = (struct lladd_file *)new_file(fd, name, base);
    else if (rc == UNDER_WAY && (flags & LLADD_OPEN_CREATE) && !model_find(fd->model, name))
        model_create(fd->model, name);
    return end(fd, rc);
}

static int fault_close(struct lladd_device *dev, struct lladd_file *handle)
{
    struct fault_device *fd = of(dev);
    struct fault_file *f = (struct fault_file *)handle;
    int rc = begin(fd, FAULT_CLOSE, f->name, NULL);
    struct fault_file **place = &fd->files;
    while (*place != f)
        place = &(*place)->next;
    *place = f->next;
    if (f->base) {
        int closed = fd->base->ops->close(fd->base, f->base);
        rc = rc == 0 ? closed : rc;
        model_release(fd->model, f->model);
    }
    free(f->name);
    free(f);
    return end(fd, fd->crashed ? 0 : rc);
}

static int64_t fault_pread(struct lladd_device *dev, struct lladd_file *handle, void *buf,
                           size_t len, uint64_t off)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    int64_t n = begin(fd, FAULT_PREAD, f->name, f);
    if (n == 0 && *find_bad(fd, f->name, off, off + len))
        n = -EIO;
    if (n == 0)
        n = fd->base->ops->pread(fd->base, f->base, buf, len, off);
    pthread_mutex_unlock(&fd->mutex);
    return n;
}

static int fault_pwritev(struct lladd_device *dev, struct lladd_file *handle,
                         const struct lladd_iovec *pieces, int n, uint64_t off)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    uint64_t after = off;
    for (int i = 0; i < n; i++)
        after += pieces[i].len;
    int rc = begin(fd, FAULT_PWRITEV, f->name, f);
    if (rc == 0 && after > off)
        rc = check_room(fd, f->model, after);
    unsigned char *lost = rc == 0 ? keep_lost(fd, f, off, after) : NULL;
    struct lladd_iovec back = {lost, fd->lost.len};
    if (rc == 0)
        rc = fd->base->ops->pwritev(fd->base, f->base, pieces, n, off);
    if (rc == 0 && lost)
        rc = fd->base->ops->pwritev(fd->base, f->base, &back, 1, fd->lost.off);
    for (struct bad_sector **s; rc == 0 && *(s = find_bad(fd, f->name, off, after)) != NULL;)
        repair(s);
    if (happened(rc))
        model_write(fd->model, f->model, pieces, n, off);
    if (happened(rc) && lost)
        model_write(fd->model, f->model, &back, 1, fd->lost.off);
    free(lost);
    return end(fd, rc);
}

static int fault_append(struct lladd_device *dev, struct lladd_file *handle, const void *buf,
                        size_t len, uint64_t *off)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    struct lladd_iovec piece = {buf, len};
    int rc = begin(fd, FAULT_APPEND, f->name, f);
    if (rc == 0)
        rc = check_room(fd, f->model, model_file_size(f->model) + len);
    if (rc == 0)
        rc = fd->base->ops->append(fd->base, f->base, buf, len, off);
    if (happened(rc))
        model_write(fd->model, f->model, &piece, 1, model_file_size(f->model));
    return end(fd, rc);
}

static int fault_sync(struct lladd_device *dev, struct lladd_file *handle)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    int rc = begin(fd, FAULT_SYNC, f->name, f);
    if (rc == 0)
        rc = fd->base->ops->sync(fd->base, f->base);
    if (rc == 0)
        model_sync(fd->model, f->model);
    else if (rc != UNDER_WAY && !fd->crashed && f->base)
        model_sync_failed(fd->model, f->model);
    return end(fd, rc);
}

static int fault_truncate(struct lladd_device *dev, struct lladd_file *handle, uint64_t size)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    int rc = begin(fd, FAULT_TRUNCATE, f->name, f);
    if (rc == 0)
        rc = check_room(fd, f->model, size);
    if (rc == 0)
        rc = fd->base->ops->truncate(fd->base, f->base, size);
    if (happened(rc))
        model_truncate(fd->model, f->model, size);
    return end(fd, rc);
}

/* Acts like a truncation to a larger size: the new part reads as zeros, and after a crash it is
 * there if the file was synced. */
static int fault_allocate(struct lladd_device *dev, struct lladd_file *handle, uint64_t size)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    uint64_t now = 0;
    if (fd->cannot_allocate)
        return -EOPNOTSUPP;
    int rc = begin(fd, FAULT_TRUNCATE, f->name, f);
    if (rc == 0)
        rc = fd->base->ops->size(fd->base, f->base, &now);
    bool larger = rc == 0 && size > now;
    if (larger)
        rc = check_room(fd, f->model, size);
    if (larger && rc == 0)
        rc = fd->base->ops->truncate(fd->base, f->base, size);
    if (larger && happened(rc))
        model_truncate(fd->model, f->model, size);
    return end(fd, rc);
}

static int fault_size(struct lladd_device *dev, struct lladd_file *handle, uint64_t *out)
{
    struct fault_device *fd = of(dev);
    const struct fault_file *f = (struct fault_file *)handle;
    int rc = begin(fd, FAULT_SIZE, f->name, f);
    if (rc == 0)
        rc = fd->base->ops->size(fd->base, f->base, out);
    return end(fd, rc);
}

/* ---- names ---- */

static int fault_rename(struct lladd_device *dev, const char *from, const char *to)
{
    struct fault_device *fd = of(dev);
    int rc = begin(fd, FAULT_RENAME, from, NULL);
    if (rc == 0 && !model_has_parent(fd->model, to))
        rc = -ENOENT;
    if (rc == 0)
        rc = fd->base->ops->rename(fd->base, from, to);
    if (happened(rc))
        model_rename(fd->model, from, to);
    return end(fd, rc);
}

static int fault_unlink(struct lladd_device *dev, const char *name)
{
    struct fault_device *fd = of(dev);
    int rc = begin(fd, FAULT_UNLINK, name, NULL);
    if (rc == 0)
        rc = fd->base->ops->unlink(fd->base, name);
    if (happened(rc))
        model_unlink(fd->model, name);
    return end(fd, rc);
}

static int fault_sync_dir(struct lladd_device *dev, const char *name)
{
    struct fault_device *fd = of(dev);
    int rc = begin(fd, FAULT_SYNC_DIR, name, NULL);
    if (rc == 0 && !model_is_dir(fd->model, name) && !model_find(fd->model, name))
        rc = -ENOENT;
    if (rc == 0)
        rc = fd->base->ops->sync_dir(fd->base, name);
    if (rc == 0)
        model_sync_dir(fd->model, name);
    return end(fd, rc);
}

static int fault_mkdir(struct lladd_device *dev, const char *name)
{
    struct fault_device *fd = of(dev);
    int rc = begin(fd, FAULT_MKDIR, name, NULL);
    if (rc >= 0 && !model_has_parent(fd->model, name))
        rc = -ENOENT;
    bool known = model_is_dir(fd->model, name) || model_find(fd->model, name);
    if (rc == 0)
        rc = fd->base->ops->mkdir(fd->base, name);
    if (rc == -EEXIST && !known) /* the crash has lost the directory, but the base cannot remove
                                  * it */
        rc = 0;
    if (happened(rc) && !known)
        model_mkdir(fd->model, name);
    return end(fd, rc);
}

struct listing {
    struct fault_device *fd;
    const char *dir;
    char *names; /* concatenated, each with its 0 byte */
    size_t len;
};

static int collect(void *ctx, const char *name)
{
    struct listing *l = ctx;
    size_t dir_len = strlen(l->dir), len = strlen(name) + 1;
    char *full = model_alloc(dir_len + 1 + len);
    if (dir_len > 0) {
        memcpy(full, l->dir, dir_len);
        full[dir_len] = '/';
        memcpy(full + dir_len + 1, name, len);
    } else {
        memcpy(full, name, len);
    }
    bool known = model_is_dir(l->fd->model, full) || model_find(l->fd->model, full);
    free(full);
    if (!known)
        return 0;
    char *more = realloc(l->names, l->len + len);
    if (!more)
        model_fatal("list", l->dir, -ENOMEM);
    memcpy(more + l->len, name, len);
    l->names = more;
    l->len += len;
    return 0;
}

static int fault_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    struct fault_device *fd = of(dev);
    struct listing l = {fd, name, NULL, 0};
    int rc = begin(fd, FAULT_LIST, name, NULL);
    if (rc == 0 && !model_is_dir(fd->model, name) && !model_find(fd->model, name))
        rc = -ENOENT;
    if (rc == 0)
        rc = fd->base->ops->list(fd->base, name, collect, &l);
    (void)end(fd, rc);
    for (const char *p = l.names; rc == 0 && p < l.names + l.len; p += strlen(p) + 1)
        rc = fn(ctx, p);
    free(l.names);
    return rc;
}

static int fault_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                      int64_t *owner)
{
    struct fault_device *fd = of(dev);
    struct lladd_file *base = NULL;
    *owner = 0;
    int rc = begin(fd, FAULT_LOCK, name, NULL);
    if (rc == 0)
        rc = fd->base->ops->lock(fd->base, name, &base, owner);
    if (rc == 0) {
        struct fault_file *f = new_file(fd, name, base);
        char content[64]; /* the owner's pid, which the base has written by itself */
        int64_t n = fd->base->ops->pread(fd->base, base, content, sizeof content, 0);
        if (n < 0)
            model_fatal("read", name, n);
        struct lladd_iovec piece = {content, (size_t)n};
        model_write(fd->model, f->model, &piece, 1, 0);
        *out = (struct lladd_file *)f;
    } else if (rc == UNDER_WAY && !model_find(fd->model, name)) {
        model_create(fd->model, name);
    }
    return end(fd, rc);
}

/* Asks the base. If the base does not support this call, there is no holder. */
static int fault_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    struct fault_device *fd = of(dev);
    *owner = 0;
    int rc = begin(fd, FAULT_HOLDER, name, NULL);
    if (rc == 0 && fd->base->ops->holder)
        rc = fd->base->ops->holder(fd->base, name, owner);
    return end(fd, rc);
}

static const struct lladd_device_ops fault_ops = {
    .struct_size = sizeof fault_ops,
    .open = fault_open,
    .close = fault_close,
    .pread = fault_pread,
    .pwritev = fault_pwritev,
    .append = fault_append,
    .sync = fault_sync,
    .truncate = fault_truncate,
    .size = fault_size,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .sync_dir = fault_sync_dir,
    .mkdir = fault_mkdir,
    .list = fault_list,
    .lock = fault_lock,
    .prefetch = NULL,
    .holder = fault_holder,
    .allocate = fault_allocate,
};

/* ---- the test's interface ---- */

struct fault_device *fault_device_new(struct lladd_device *base)
{
    struct fault_device *fd = model_alloc(sizeof *fd);
    fd->dev.ops = &fault_ops;
    fd->base = base;
    fd->capacity = UINT64_MAX;
    fd->model = model_new();
    model_load(fd->model, base);
    if (pthread_mutex_init(&fd->mutex, NULL) != 0)
        model_fatal("mutex", "", -ENOMEM);
    return fd;
}

/* Closes every open file in the base. The handles of these files stay until they are closed. */
static void kill_files(struct fault_device *fd)
{
    for (struct fault_file *f = fd->files; f; f = f->next) {
        if (!f->base)
            continue;
        (void)fd->base->ops->close(fd->base, f->base);
        model_release(fd->model, f->model);
        f->base = NULL;
        f->model = NULL;
    }
}

void fault_device_free(struct fault_device *fd)
{
    kill_files(fd);
    while (fd->files) {
        struct fault_file *f = fd->files;
        fd->files = f->next;
        free(f->name);
        free(f);
    }
    fault_device_bad_sector(fd, NULL, 0);
    free(fd->lost.name);
    model_free(fd->model);
    pthread_mutex_destroy(&fd->mutex);
    free(fd->prefix);
    free(fd);
}

struct lladd_device *fault_device_dev(struct fault_device *fd)
{
    return &fd->dev;
}

uint64_t fault_device_calls(struct fault_device *fd, unsigned kinds)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&fd->mutex);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        sum += kinds & 1u << i ? fd->calls[i] : 0;
    pthread_mutex_unlock(&fd->mutex);
    return sum;
}

void fault_device_reset_calls(struct fault_device *fd)
{
    pthread_mutex_lock(&fd->mutex);
    memset(fd->calls, 0, sizeof fd->calls);
    pthread_mutex_unlock(&fd->mutex);
}

uint64_t fault_device_open_files(struct fault_device *fd)
{
    uint64_t n = 0;
    pthread_mutex_lock(&fd->mutex);
    for (const struct fault_file *f = fd->files; f; f = f->next)
        n++;
    pthread_mutex_unlock(&fd->mutex);
    return n;
}

void fault_device_fail(struct fault_device *fd, uint64_t n, unsigned kinds, int err, bool forever)
{
    pthread_mutex_lock(&fd->mutex);
    fd->fail_in = n;
    fd->fail_kinds = kinds;
    fd->fail_errno = err;
    fd->fail_forever = forever;
    fd->fired = 0;
    pthread_mutex_unlock(&fd->mutex);
}

void fault_device_only(struct fault_device *fd, const char *prefix)
{
    pthread_mutex_lock(&fd->mutex);
    free(fd->prefix);
    fd->prefix = prefix && *prefix ? model_strdup(prefix) : NULL;
    pthread_mutex_unlock(&fd->mutex);
}

void fault_device_bad_sector(struct fault_device *fd, const char *name, uint64_t off)
{
    pthread_mutex_lock(&fd->mutex);
    while (!name && fd->bad)
        repair(&fd->bad);
    if (name) {
        struct bad_sector *s = model_alloc(sizeof *s);
        *s = (struct bad_sector){fd->bad, model_strdup(name), off};
        fd->bad = s;
    }
    pthread_mutex_unlock(&fd->mutex);
}

void fault_device_lose(struct fault_device *fd, const char *name, uint64_t off, size_t len,
                       uint64_t n)
{
    pthread_mutex_lock(&fd->mutex);
    free(fd->lost.name);
    fd->lost = (struct lost_writes){model_strdup(name), off, n, len};
    pthread_mutex_unlock(&fd->mutex);
}

uint64_t fault_device_fired(struct fault_device *fd)
{
    pthread_mutex_lock(&fd->mutex);
    uint64_t n = fd->fired;
    pthread_mutex_unlock(&fd->mutex);
    return n;
}

void fault_device_can_allocate(struct fault_device *fd, bool can)
{
    fd->cannot_allocate = !can;
}

void fault_device_capacity(struct fault_device *fd, uint64_t bytes)
{
    pthread_mutex_lock(&fd->mutex);
    fd->capacity = bytes;
    fd->fired = 0;
    pthread_mutex_unlock(&fd->mutex);
}

uint64_t fault_device_bytes(struct fault_device *fd)
{
    pthread_mutex_lock(&fd->mutex);
    uint64_t n = model_bytes(fd->model);
    pthread_mutex_unlock(&fd->mutex);
    return n;
}

void fault_device_hook(struct fault_device *fd, fault_hook *hook, void *ctx)
{
    pthread_mutex_lock(&fd->mutex);
    fd->hook = hook;
    fd->hook_ctx = ctx;
    pthread_mutex_unlock(&fd->mutex);
}

void fault_device_crash_at(struct fault_device *fd, uint64_t n)
{
    pthread_mutex_lock(&fd->mutex);
    fd->crash_in = n;
    pthread_mutex_unlock(&fd->mutex);
}

bool fault_device_crashed(struct fault_device *fd)
{
    pthread_mutex_lock(&fd->mutex);
    bool crashed = fd->crashed;
    pthread_mutex_unlock(&fd->mutex);
    return crashed;
}

uint64_t fault_device_pending(struct fault_device *fd)
{
    pthread_mutex_lock(&fd->mutex);
    uint64_t n = model_pending(fd->model);
    pthread_mutex_unlock(&fd->mutex);
    return n;
}

void fault_device_crash(struct fault_device *fd, const struct fault_crash *how,
                        struct lladd_device *into)
{
    pthread_mutex_lock(&fd->mutex);
    model_crash(fd->model, how, into, NULL);
    pthread_mutex_unlock(&fd->mutex);
}

struct wiping {
    struct lladd_device *base;
    const char *dir;
};

/* Removes a file, or every file below a directory, from the base. */
static int wipe_one(void *ctx, const char *last)
{
    const struct wiping *w = ctx;
    size_t dir_len = strlen(w->dir);
    char *name = model_alloc(dir_len + strlen(last) + 2);
    if (dir_len > 0) {
        memcpy(name, w->dir, dir_len);
        name[dir_len++] = '/';
    }
    strcpy(name + dir_len, last);
    int rc = w->base->ops->unlink(w->base, name);
    if (rc == -EISDIR) {
        struct wiping below = {w->base, name};
        rc = w->base->ops->list(w->base, name, wipe_one, &below);
    }
    free(name);
    return rc;
}

/* The death of a process makes nothing durable, so pending operations stay pending. After a power
 * failure everything that is left is durable.
 *
 * Directories that the crash removed cannot be removed from the base. Until they are made again
 * they are hidden from the program (fault_open, fault_mkdir, collect). */
void fault_device_power_cycle(struct fault_device *fd, const struct fault_crash *how)
{
    pthread_mutex_lock(&fd->mutex);
    kill_files(fd);
    struct wiping all = {fd->base, ""};
    int rc = fd->base->ops->list(fd->base, "", wipe_one, &all);
    if (rc != 0)
        model_fatal("wipe", "", rc);
    struct crash_model *before = fd->model, *after = NULL;
    model_crash(before, how, fd->base, how->mode == FAULT_KILL ? NULL : &after);
    if (after) {
        model_free(before);
        fd->model = after;
    }
    fd->crashed = false;
    fd->crash_in = 0;
    fd->fail_in = 0;
    fd->fired = 0;
    pthread_mutex_unlock(&fd->mutex);
}
