/* SPDX-License-Identifier: BSD-2-Clause */
/* See under.h. */
#include "sim/subjects/under.h"

#include <errno.h>
#include <stdio.h>

enum { PATH = 200 };

static struct ll_sim_under *of(struct lladd_device *d)
{
    return (struct ll_sim_under *)d;
}

static struct lladd_device *outer_of(struct lladd_device *d)
{
    return of(d)->outer;
}

/* The name on the outer device; "" is the folder. */
static int path_of(struct lladd_device *d, const char *name, char out[PATH])
{
    const char *folder = of(d)->folder;
    int n = snprintf(out, PATH, "%s%s%s", folder, *name && *folder ? "/" : "", name);
    return n >= 0 && n < PATH ? 0 : -ENAMETOOLONG;
}

static int under_open(struct lladd_device *d, const char *name, unsigned flags,
                      struct lladd_file **out)
{
    char path[PATH];
    int rc = path_of(d, name, path);
    return rc ? rc : outer_of(d)->ops->open(outer_of(d), path, flags, out);
}

static int under_close(struct lladd_device *d, struct lladd_file *file)
{
    if (file == (struct lladd_file *)d) {
        of(d)->locked = false;
        return 0;
    }
    return outer_of(d)->ops->close(outer_of(d), file);
}

static int64_t under_pread(struct lladd_device *d, struct lladd_file *file, void *buf, size_t len,
                           uint64_t off)
{
    struct ll_sim_under *u = of(d);
    if (u->on_read && u->most < len) {
        len = u->most;
        if (u->on_read(u->ctx))
            return -EIO;
    }
    return u->outer->ops->pread(u->outer, file, buf, len, off);
}

static int under_pwritev(struct lladd_device *d, struct lladd_file *file,
                         const struct lladd_iovec *pieces, int n, uint64_t off)
{
    return outer_of(d)->ops->pwritev(outer_of(d), file, pieces, n, off);
}

static int under_append(struct lladd_device *d, struct lladd_file *file, const void *buf,
                        size_t len, uint64_t *off)
{
    return outer_of(d)->ops->append(outer_of(d), file, buf, len, off);
}

static int under_sync(struct lladd_device *d, struct lladd_file *file)
{
    return outer_of(d)->ops->sync(outer_of(d), file);
}

static int under_truncate(struct lladd_device *d, struct lladd_file *file, uint64_t size)
{
    return outer_of(d)->ops->truncate(outer_of(d), file, size);
}

static int under_size(struct lladd_device *d, struct lladd_file *file, uint64_t *out)
{
    return outer_of(d)->ops->size(outer_of(d), file, out);
}

static int under_allocate(struct lladd_device *d, struct lladd_file *file, uint64_t size)
{
    struct lladd_device *outer = outer_of(d);
    return outer->ops->allocate ? outer->ops->allocate(outer, file, size) : -EOPNOTSUPP;
}

static int under_rename(struct lladd_device *d, const char *from, const char *to)
{
    char path[PATH], path_to[PATH];
    int rc = path_of(d, from, path);
    if (!rc)
        rc = path_of(d, to, path_to);
    return rc ? rc : outer_of(d)->ops->rename(outer_of(d), path, path_to);
}

static int under_unlink(struct lladd_device *d, const char *name)
{
    char path[PATH];
    int rc = path_of(d, name, path);
    return rc ? rc : outer_of(d)->ops->unlink(outer_of(d), path);
}

static int under_sync_dir(struct lladd_device *d, const char *name)
{
    char path[PATH];
    int rc = path_of(d, name, path);
    return rc ? rc : outer_of(d)->ops->sync_dir(outer_of(d), path);
}

static int under_mkdir(struct lladd_device *d, const char *name)
{
    char path[PATH];
    int rc = path_of(d, name, path);
    return rc ? rc : outer_of(d)->ops->mkdir(outer_of(d), path);
}

static int under_list(struct lladd_device *d, const char *name, lladd_list_fn *fn, void *ctx)
{
    char path[PATH];
    int rc = path_of(d, name, path);
    return rc ? rc : outer_of(d)->ops->list(outer_of(d), path, fn, ctx);
}

static int under_lock(struct lladd_device *d, const char *name, struct lladd_file **out,
                      int64_t *owner)
{
    (void)name;
    *owner = 0;
    if (of(d)->locked)
        return -EAGAIN;
    of(d)->locked = true;
    *out = (struct lladd_file *)d;
    return 0;
}

static int under_holder(struct lladd_device *d, const char *name, int64_t *owner)
{
    (void)name;
    *owner = 0;
    return of(d)->locked ? -EAGAIN : 0;
}

static const struct lladd_device_ops under_ops = {
    .struct_size = sizeof under_ops,
    .open = under_open,
    .close = under_close,
    .pread = under_pread,
    .pwritev = under_pwritev,
    .append = under_append,
    .sync = under_sync,
    .truncate = under_truncate,
    .size = under_size,
    .rename = under_rename,
    .unlink = under_unlink,
    .sync_dir = under_sync_dir,
    .mkdir = under_mkdir,
    .list = under_list,
    .lock = under_lock,
    .holder = under_holder,
    .allocate = under_allocate,
};

void ll_sim_under_init(struct ll_sim_under *u, struct lladd_device *outer, const char *folder)
{
    *u = (struct ll_sim_under){.face = {&under_ops}, .outer = outer, .folder = folder};
}

int ll_sim_under_make(struct ll_sim_under *u)
{
    int rc = u->outer->ops->mkdir(u->outer, u->folder);
    return rc && rc != -EEXIST ? rc : u->outer->ops->sync_dir(u->outer, "");
}
