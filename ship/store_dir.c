/* SPDX-License-Identifier: BSD-2-Clause */
/* The store in a directory, also on NFS.
 *
 * An object is a file. It is written under a temporary name that begins with a dot, and synced.
 * Then it gets its name by link(2), which never replaces a file. Then the directory is synced. So
 * an object is whole when it has its name, and durable when `put` has returned.
 *
 * On NFS the reply to a link that succeeded may be lost, and the repeated request says EEXIST. The
 * temporary file shows whether the link has succeeded: if so, the file has 2 names. Where there are
 * no hard links, renameat2(RENAME_NOREPLACE) takes the place of link. Where there is neither, `put`
 * is refused, because a plain rename would replace an object. */
#include "ship/ship_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, TMP_RANDOM = 8, SYNC_BYTES = 1 << 20 };
enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE */
#define TMP_PREFIX ".tmp-"

struct store_dir {
    struct lladd_store base;
    struct ll_ship_mem mem;
    struct lladd_environment world;
    struct ll_ship_calls calls;
    uint32_t file_mode, dir_mode;
    bool made;   /* the store's own directory exists; only a put makes it */
    char path[]; /* without '/' at the end */
};

static struct store_dir *dir_of(struct lladd_store *s)
{
    return (struct store_dir *)s;
}

/* ---- the system's calls --------------------------------------------------------------------- */

static int posix_open_new(void *ctx, const char *path, uint32_t mode)
{
    (void)ctx;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode);
}

static int64_t posix_write(void *ctx, int fd, const void *bytes, size_t len)
{
    (void)ctx;
    return write(fd, bytes, len);
}

static int posix_sync(void *ctx, int fd)
{
    (void)ctx;
    return fsync(fd) ? -errno : 0;
}

static int posix_links(void *ctx, int fd, uint64_t *out)
{
    struct stat st;
    (void)ctx;
    if (fstat(fd, &st))
        return -errno;
    *out = st.st_nlink;
    return 0;
}

static int posix_link(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return link(from, to) ? -errno : 0;
}

static int posix_rename_new(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    /* Some C libraries have no function for this call. */
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, NO_REPLACE) ? -errno : 0;
}

static int posix_unlink(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) ? -errno : 0;
}

static int posix_mkdir(void *ctx, const char *path, uint32_t mode)
{
    (void)ctx;
    return mkdir(path, (mode_t)mode) ? -errno : 0;
}

static int posix_sync_dir(void *ctx, const char *path)
{
    (void)ctx;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = fsync(fd) ? -errno : 0;
    if (close(fd) && !rc)
        rc = -errno;
    return rc;
}

const struct ll_ship_calls ll_ship_posix = {
    .open_new = posix_open_new,
    .write = posix_write,
    .sync = posix_sync,
    .links = posix_links,
    .link = posix_link,
    .rename_new = posix_rename_new,
    .unlink = posix_unlink,
    .mkdir = posix_mkdir,
    .sync_dir = posix_sync_dir,
};

/* ---- names ---------------------------------------------------------------------------------- */

static int path_of(const struct store_dir *d, const char *name, char out[PATH_SIZE],
                   struct lladd_error *err)
{
    if (!ll_ship_name_ok(name))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%.100s\" is no name of an object", name);
    int n = snprintf(out, PATH_SIZE, "%s/%s", d->path, name);
    if (n < 0 || n >= PATH_SIZE)
        return lladd_error_set(err, LLADD_TOO_LARGE, "the path of \"%.100s\" is too long", name);
    return 0;
}

/* The directory with the store's own one. */
static bool dir_above(const struct store_dir *d, char out[PATH_SIZE])
{
    const char *slash = strrchr(d->path, '/');
    int n = snprintf(out, PATH_SIZE, "%.*s", slash ? (int)(slash - d->path) + 1 : 1,
                     slash ? d->path : ".");
    return n >= 0 && n < PATH_SIZE;
}

/* Makes the store's own directory, durably. */
static int make_store(struct store_dir *d, struct lladd_error *err)
{
    char above[PATH_SIZE];
    int rc = d->calls.mkdir(d->calls.ctx, d->path, d->dir_mode);
    if (!rc || rc == -EEXIST)
        rc = dir_above(d, above) ? d->calls.sync_dir(d->calls.ctx, above) : -ENAMETOOLONG;
    d->made = rc == 0;
    return rc ? ll_ship_fail_io(err, rc, "make the store", d->path) : 0;
}

/* Makes the directories of the path, below the store's own, and syncs the directory above each. A
 * directory that exists may not be durable yet, so the directory above it is synced, too. */
static int make_parents(struct store_dir *d, char path[PATH_SIZE], const char *name,
                        struct lladd_error *err)
{
    int rc = 0;
    char *above = path + strlen(d->path);
    for (char *at = strchr(above + 1, '/'); at && !rc; at = strchr(at + 1, '/')) {
        *at = 0;
        rc = d->calls.mkdir(d->calls.ctx, path, d->dir_mode);
        if (rc == -EEXIST)
            rc = 0;
        *at = '/';
        if (!rc) {
            *above = 0;
            rc = d->calls.sync_dir(d->calls.ctx, path);
            *above = '/';
        }
        above = at;
    }
    return rc ? ll_ship_fail_io(err, rc, "make the directory of", name) : 0;
}

/* ---- put ------------------------------------------------------------------------------------ */

/* Each MiB is synced before the next one is written. A sync of the database's log, if it is on the
 * same disk, waits for the writes that are queued before it, so these must be few. */
static int write_all(struct store_dir *d, int fd, const struct lladd_iovec *pieces, int n)
{
    size_t room = SYNC_BYTES;
    for (int i = 0; i < n; i++) {
        const unsigned char *at = pieces[i].data;
        size_t left = pieces[i].len;
        while (left) {
            int64_t done = d->calls.write(d->calls.ctx, fd, at, left < room ? left : room);
            if (done < 0 && errno == EINTR)
                continue;
            if (done <= 0)
                return done ? -errno : -EIO;
            at += done;
            left -= (size_t)done;
            room -= (size_t)done;
            int rc = room ? 0 : d->calls.sync(d->calls.ctx, fd);
            if (rc)
                return rc;
            room = room ? room : SYNC_BYTES;
        }
    }
    return d->calls.sync(d->calls.ctx, fd);
}

/* Gives the file its name. -EEXIST: the name is taken. *renamed: the temporary name is gone. */
static int give_name(struct store_dir *d, int fd, const char *tmp, const char *path, bool *renamed)
{
    uint64_t links = 0;
    int rc = d->calls.link(d->calls.ctx, tmp, path);
    if (rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EMLINK) {
        rc = d->calls.rename_new(d->calls.ctx, tmp, path);
        *renamed = rc == 0;
        return rc == -EINVAL ? -EOPNOTSUPP : rc;
    }
    /* The link may have been made although its reply says otherwise. */
    if (rc && d->calls.links(d->calls.ctx, fd, &links) == 0 && links == 2)
        rc = 0;
    return rc;
}

static int put_file(struct store_dir *d, char *path, char *tmp, const char *name,
                    const struct lladd_iovec *pieces, int n, struct lladd_error *err)
{
    bool renamed = false;
    const char *what = "create";
    int fd = d->calls.open_new(d->calls.ctx, tmp, d->file_mode);
    if (fd < 0)
        return ll_ship_fail_io(err, -errno, what, name);
    what = "write";
    int rc = write_all(d, fd, pieces, n);
    rc = rc == -EEXIST ? -EIO : rc; /* -EEXIST is for a taken name */
    if (!rc) {
        what = "name";
        rc = give_name(d, fd, tmp, path, &renamed);
    }
    /* Everything was synced before; NFS may report a failed write only here. */
    if (close(fd) && !rc)
        rc = -errno;
    if (!renamed)
        (void)d->calls.unlink(d->calls.ctx, tmp); /* a temporary file is never an object */
    if (rc && rc != -EEXIST)
        return rc == -EOPNOTSUPP
                   ? lladd_error_set(err, LLADD_NO_ACCESS,
                                     "the file system of \"%.150s\" has neither hard links nor a "
                                     "rename that replaces nothing",
                                     d->path)
                   : ll_ship_fail_io(err, rc, what, name);
    /* The directory is synced even if the name was taken: the process that made the name may have
     * died before it synced the directory. */
    char *slash = strrchr(path, '/');
    *slash = 0;
    int synced = d->calls.sync_dir(d->calls.ctx, path);
    *slash = '/';
    if (synced)
        return ll_ship_fail_io(err, synced, "sync the directory of", name);
    return rc ? lladd_error_set(err, LLADD_EXISTS, "\"%.150s\" is in the store already", name) : 0;
}

static int dir_put(struct lladd_store *s, const char *name, const struct lladd_iovec *pieces, int n,
                   struct lladd_error *err)
{
    struct store_dir *d = dir_of(s);
    char path[PATH_SIZE], tmp[PATH_SIZE];
    unsigned char random[TMP_RANDOM];
    int rc = path_of(d, name, path, err);
    if (!rc && !d->made)
        rc = make_store(d, err);
    if (!rc)
        rc = make_parents(d, path, name, err);
    if (!rc)
        rc = ll_ship_random(&d->world, random, sizeof random, err);
    if (rc)
        return rc;
    int head = (int)(strrchr(path, '/') - path) + 1;
    int len = snprintf(tmp, sizeof tmp, "%.*s" TMP_PREFIX "%02x%02x%02x%02x%02x%02x%02x%02x", head,
                       path, random[0], random[1], random[2], random[3], random[4], random[5],
                       random[6], random[7]);
    if (len < 0 || len >= PATH_SIZE)
        return lladd_error_set(err, LLADD_TOO_LARGE, "the path of \"%.100s\" is too long", name);
    return put_file(d, path, tmp, name, pieces, n, err);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static int read_at(int fd, unsigned char *at, size_t left, uint64_t offset)
{
    while (left) {
        ssize_t got = pread(fd, at, left, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? -errno : -ENODATA;
        at += got;
        left -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static int dir_get(struct lladd_store *s, const char *name, uint64_t offset, void *bytes,
                   size_t len, struct lladd_error *err)
{
    char path[PATH_SIZE];
    int rc = path_of(dir_of(s), name, path, err);
    if (rc)
        return rc;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return lladd_error_set(err, LLADD_NOT_FOUND, "\"%.150s\" is not in the store", name);
    if (fd < 0)
        return ll_ship_fail_io(err, -errno, "open", name);
    rc = read_at(fd, bytes, len, offset);
    (void)close(fd); /* the file was only read */
    if (rc == -ENODATA)
        return ll_ship_corrupt(err, name, "it is too short");
    return rc ? ll_ship_fail_io(err, rc, "read", name) : 0;
}

struct walk {
    const struct store_dir *dir;
    const char *prefix;
    lladd_store_list_fn *fn;
    void *ctx;
    struct lladd_error *err;
};

/* Visits the directory `name`, a path of `len` bytes; "" is the store's own directory. */
static int walk_in(struct walk *w, char name[LL_SHIP_NAME_MAX], size_t len);

static int walk_entry(struct walk *w, char name[LL_SHIP_NAME_MAX], size_t len)
{
    char path[PATH_SIZE];
    struct stat st;
    size_t prefix = strlen(w->prefix);
    int n = snprintf(path, sizeof path, "%s/%s", w->dir->path, name);
    if (n < 0 || n >= PATH_SIZE)
        return lladd_error_set(w->err, LLADD_TOO_LARGE, "the path of \"%.100s\" is too long", name);
    /* ENOENT: the file was deleted after the directory was read. */
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : ll_ship_fail_io(w->err, -errno, "look at", name);
    if (S_ISDIR(st.st_mode))
        return strncmp(name, w->prefix, len < prefix ? len : prefix) == 0 ? walk_in(w, name, len)
                                                                          : 0;
    return S_ISREG(st.st_mode) && strncmp(name, w->prefix, prefix) == 0
               ? w->fn(w->ctx, name, (uint64_t)st.st_size)
               : 0;
}

static int walk_in(struct walk *w, char name[LL_SHIP_NAME_MAX], size_t len)
{
    char path[PATH_SIZE];
    int rc = 0, n = snprintf(path, sizeof path, "%s%s%s", w->dir->path, len ? "/" : "", name);
    if (n < 0 || n >= PATH_SIZE)
        return lladd_error_set(w->err, LLADD_TOO_LARGE, "the path of \"%.100s\" is too long", name);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : ll_ship_fail_io(w->err, -errno, "list", path);
    while (!rc) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (!e) {
            rc = errno ? ll_ship_fail_io(w->err, -errno, "list", path) : 0;
            break;
        }
        n = snprintf(name + len, LL_SHIP_NAME_MAX - len, "%s%s", len ? "/" : "", e->d_name);
        if (n > 0 && (size_t)n < LL_SHIP_NAME_MAX - len && ll_ship_name_ok(name))
            rc = walk_entry(w, name, len + (size_t)n);
        name[len] = 0;
    }
    (void)closedir(dir); /* the directory was only read */
    return rc;
}

static int dir_list(struct lladd_store *s, const char *prefix, lladd_store_list_fn *fn, void *ctx,
                    struct lladd_error *err)
{
    struct walk w = {dir_of(s), prefix, fn, ctx, err};
    char name[LL_SHIP_NAME_MAX] = "";
    return walk_in(&w, name, 0);
}

static int dir_remove(struct lladd_store *s, const char *name, struct lladd_error *err)
{
    struct store_dir *d = dir_of(s);
    char path[PATH_SIZE];
    int rc = path_of(d, name, path, err);
    if (rc)
        return rc;
    rc = d->calls.unlink(d->calls.ctx, path);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return lladd_error_set(err, LLADD_NOT_FOUND, "\"%.150s\" is not in the store", name);
    if (!rc) {
        *strrchr(path, '/') = 0;
        rc = d->calls.sync_dir(d->calls.ctx, path);
    }
    return rc ? ll_ship_fail_io(err, rc, "delete", name) : 0;
}

static void dir_close(struct lladd_store *s)
{
    struct store_dir *d = dir_of(s);
    ll_ship_delete(d->mem, d);
}

static const struct lladd_store_ops dir_ops = {
    .struct_size = sizeof dir_ops,
    .put = dir_put,
    .get = dir_get,
    .list = dir_list,
    .remove = dir_remove,
    .close = dir_close,
};

/* Looks at the store's own directory. It may be absent, if the directory above it exists. */
static int look_at_store(struct store_dir *d)
{
    char above[PATH_SIZE];
    struct stat st;
    int rc = stat(d->path, &st) ? -errno : 0;
    d->made = rc == 0;
    if (rc == -ENOENT && dir_above(d, above))
        rc = stat(above, &st) ? -errno : 0;
    return rc ? rc : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int ll_ship_dir_open(const char *path, const struct lladd_store_options *options,
                     const struct ll_ship_calls *calls, struct lladd_store **out,
                     struct lladd_error *err)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    ll_ship_take_options(&o, sizeof o, options);
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len == 0 || len > PATH_SIZE - LL_SHIP_NAME_MAX - 64)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%.100s\" is no path for a store", path);
    struct ll_ship_mem mem = {o.allocator};
    struct store_dir *d = ll_ship_new(mem, sizeof *d + len + 1);
    if (!d)
        return ll_ship_no_memory(err);
    d->base.ops = &dir_ops;
    d->mem = mem;
    if (o.world)
        d->world = *o.world;
    d->calls = *calls;
    d->file_mode = o.file_mode ? o.file_mode : 0600;
    d->dir_mode = d->file_mode | (d->file_mode & 0444) >> 2;
    memcpy(d->path, path, len);
    int rc = look_at_store(d);
    if (rc) {
        rc = ll_ship_fail_io(err, rc, "use the store", d->path);
        ll_ship_delete(mem, d);
        return rc;
    }
    *out = &d->base;
    return 0;
}
