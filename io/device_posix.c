/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device_posix: files below a directory of the operating system.
 *
 * All names are relative to a descriptor of the directory, so that the device keeps using this
 * directory even if the program changes its working directory or a parent directory is renamed. I/O
 * goes through the operating system's cache; a sync is fdatasync for files and fsync for
 * directories.
 *
 * This file continues short transfers, and repeats transfers that a signal interrupts. So a read
 * returns fewer bytes than requested only at the end of the file, and a write either writes all
 * bytes or returns an error. A write that fails may have written a part.
 *
 * The lock is an open-file-description lock, which belongs to the open file. (The older kind of
 * lock belongs to the process.) So a second `lock` in one process is refused, and the lock stays
 * when other code of the process opens and closes the file. The kernel releases the lock with the
 * last descriptor of the open file, and closes the descriptors of a process that ends, so a crash
 * leaves no lock.
 *
 * Other users may be able to write to the directory. The device therefore follows no symbolic link
 * in any component of a name. Every file that it opens must be a plain file, and every file and
 * subdirectory must be owned by this user or by the owner of the database's directory. If the mode
 * lets group or others write, any owner is accepted.
 *
 * Threads. Descriptors allow concurrent calls. Only `append` has a latch, one for each file,
 * because it finds the end of the file and writes in two steps. (O_APPEND needs only one, but on
 * Linux pwrite ignores its offset for a descriptor with O_APPEND.)
 */
#include "io/io_private.h"
#include "util/env.h"

#include <lladd/sync.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct posix_device {
    struct lladd_device base;
    int dir;
    mode_t mode; /* mode of new files */
    uid_t owner; /* owner of the directory */
};

struct posix_file {
    int fd;
    struct lladd_mutex append;
};

/* The most pieces passed to the kernel in one call; more pieces take several calls. */
enum { PIECES_AT_ONCE = 64 };

/* Length of the owner's pid in the lock file: digits, padded with blanks to a fixed length, so that
 * one write replaces an old pid without truncation. */
enum { PID_FIELD = 20 };

static int dir_of(struct lladd_device *dev)
{
    return ((struct posix_device *)dev)->dir;
}

static int fd_of(const struct lladd_file *file)
{
    return ((const struct posix_file *)file)->fd;
}

/* Called before the file is opened or created, so that a call that returns -ENOMEM has changed
 * nothing (API-1). */
static struct posix_file *new_file(void)
{
    struct posix_file *file = malloc(sizeof *file);
    if (file && lladd_mutex_init(&file->append, LLADD_RANK_DEVICE, "posix file append") != 0) {
        free(file);
        return NULL;
    }
    if (file)
        file->fd = -1;
    return file;
}

/* Returns the result of close. */
static int free_file(struct posix_file *file)
{
    /* Not repeated on EINTR: on Linux the descriptor is gone either way. */
    int rc = file->fd >= 0 && close(file->fd) != 0 && errno != EINTR ? -errno : 0;
    lladd_mutex_destroy(&file->append);
    free(file);
    return rc;
}

/* Is the name a symbolic link? An open with O_DIRECTORY | O_NOFOLLOW gives the error ENOTDIR for a
 * link and for a file. Keeps errno. */
static bool is_link(int at, const char *name)
{
    struct stat st;
    int was = errno;
    bool link = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    errno = was;
    return link;
}

static const mode_t others_write = S_IWGRP | S_IWOTH;

/* Returns an error if the descriptor is of the wrong type or owner. -EISDIR: a directory was opened
 * as a file. */
static int refuse_foreign(const struct posix_device *dev, int fd, bool directory)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (S_ISDIR(st.st_mode) != directory)
        return directory ? -ENOTDIR : -EISDIR;
    bool plain = directory || S_ISREG(st.st_mode);
    bool ours = st.st_uid == geteuid() || st.st_uid == dev->owner || dev->mode & others_write;
    return plain && ours ? 0 : -EPERM;
}

static int close_with(int fd, int rc)
{
    (void)close(fd); /* the descriptor was not written to */
    return rc;
}

static void close_parent(const struct lladd_device *device, int fd)
{
    if (fd != ((const struct posix_device *)device)->dir)
        (void)close(fd);
}

/* Opens the directory that holds the last component of a name; *leaf points at that component. The
 * caller closes *fd with close_parent. */
static int open_parent(struct lladd_device *device, const char *name, int *fd, const char **leaf)
{
    const struct posix_device *dev = (const struct posix_device *)device;
    char part[NAME_MAX + 1];
    int rc = 0;
    *fd = dev->dir;
    for (size_t len; rc == 0 && name[len = strcspn(name, "/")] != '\0'; name += len + 1) {
        if (len >= sizeof part)
            rc = -ENAMETOOLONG;
        memcpy(part, name, rc ? 0 : len);
        part[rc ? 0 : len] = '\0';
        int next = rc ? -1 : openat(*fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (rc == 0 && next < 0)
            rc = errno == ENOTDIR && is_link(*fd, part) ? -ELOOP : -errno;
        if (next < 0)
            break;
        close_parent(device, *fd);
        *fd = next;
        rc = refuse_foreign(dev, next, true);
    }
    if (rc != 0)
        close_parent(device, *fd);
    *leaf = name;
    return rc;
}

/* `how`: flags of open(). */
static int open_file(struct lladd_device *device, const char *name, int how)
{
    const struct posix_device *dev = (const struct posix_device *)device;
    const char *leaf;
    int parent;
    int rc = open_parent(device, name, &parent, &leaf);
    if (rc != 0)
        return rc;
    /* Without O_NONBLOCK the open of a pipe would wait. */
    int fd = openat(parent, leaf, how | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, dev->mode);
    rc = fd < 0 ? -errno : refuse_foreign(dev, fd, false);
    close_parent(device, parent);
    if (fd < 0)
        return rc;
    return rc != 0 ? close_with(fd, rc) : fd;
}

static int posix_open(struct lladd_device *dev, const char *name, unsigned flags,
                      struct lladd_file **out)
{
    int rc = ll_io__check_flags(flags);
    if (rc != 0 || !ll_io__name_ok(name, false))
        return -EINVAL;

    int how = flags & LLADD_OPEN_READ_ONLY ? O_RDONLY : O_RDWR;
    if (flags & LLADD_OPEN_CREATE)
        how |= O_CREAT;
    if (flags & LLADD_OPEN_EXCLUSIVE)
        how |= O_EXCL;
    struct posix_file *file = new_file();
    if (!file)
        return -ENOMEM;
    rc = file->fd = open_file(dev, name, how);
    if (rc < 0) {
        (void)free_file(file); /* the file was not written to */
        return rc;
    }
    *out = (struct lladd_file *)file;
    return 0;
}

/* Not posix_close: musl has a function of that name. */
static int posix_close_file(struct lladd_device *dev, struct lladd_file *handle)
{
    (void)dev;
    return free_file((struct posix_file *)handle);
}

static int64_t posix_pread(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                           uint64_t off)
{
    (void)dev;
    if (off > INT64_MAX || len > INT64_MAX - off)
        return -EINVAL;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd_of(file), (char *)buf + done, len - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

/* Modifies v. */
static int write_all(int fd, struct iovec *v, int n, uint64_t off)
{
    while (n > 0) {
        if (v->iov_len == 0) {
            v++, n--;
            continue;
        }
        ssize_t done = n == 1 ? pwrite(fd, v->iov_base, v->iov_len, (off_t)off)
                              : pwritev(fd, v, n, (off_t)off);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (done == 0)
            return -EIO; /* no progress and no error: do not repeat for ever */
        off += (uint64_t)done;
        for (size_t left = (size_t)done; left > 0;) {
            size_t part = left < v->iov_len ? left : v->iov_len;
            v->iov_base = (char *)v->iov_base + part;
            v->iov_len -= part;
            left -= part;
            if (v->iov_len == 0)
                v++, n--;
        }
    }
    return 0;
}

static int posix_pwritev(struct lladd_device *dev, struct lladd_file *file,
                         const struct lladd_iovec *pieces, int n, uint64_t off)
{
    (void)dev;
    uint64_t end = off;
    for (int i = 0; i < n; i++) {
        if (end > INT64_MAX || pieces[i].len > INT64_MAX - end)
            return -EFBIG;
        end += pieces[i].len;
    }
    for (int from = 0; from < n; from += PIECES_AT_ONCE) {
        int count = n - from < PIECES_AT_ONCE ? n - from : PIECES_AT_ONCE;
        struct iovec v[PIECES_AT_ONCE];
        uint64_t total = 0;
        for (int i = 0; i < count; i++) {
            v[i].iov_base = (void *)(uintptr_t)pieces[from + i].data;
            v[i].iov_len = pieces[from + i].len;
            total += pieces[from + i].len;
        }
        int rc = write_all(fd_of(file), v, count, off);
        if (rc != 0)
            return rc;
        off += total;
    }
    return 0;
}

static int posix_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    (void)dev;
    struct stat st;
    if (fstat(fd_of(file), &st) != 0)
        return -errno;
    *out = (uint64_t)st.st_size;
    return 0;
}

static int posix_append(struct lladd_device *dev, struct lladd_file *handle, const void *buf,
                        size_t len, uint64_t *off)
{
    struct posix_file *file = (struct posix_file *)handle;
    struct lladd_iovec piece = {buf, len};
    uint64_t end;
    lladd_mutex_lock(&file->append);
    int rc = posix_size(dev, handle, &end);
    if (rc == 0)
        rc = posix_pwritev(dev, handle, &piece, 1, end);
    lladd_mutex_unlock(&file->append);
    if (rc == 0 && off)
        *off = end;
    return rc;
}

/* fdatasync writes the data and the metadata needed to read the data (a new size, new blocks).
 * fsync would also write the modification time, which can cost a commit of the file system's
 * journal. After an error fdatasync is not repeated (LOG-4): the kernel may have marked the pages
 * clean, and a second call would falsely return 0. */
static int posix_sync(struct lladd_device *dev, struct lladd_file *file)
{
    (void)dev;
    return fdatasync(fd_of(file)) != 0 ? -errno : 0;
}

static int posix_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    (void)dev;
    if (size > INT64_MAX)
        return -EFBIG;
    int rc;
    do {
        rc = ftruncate(fd_of(file), (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? -errno : 0;
}

/* Not posix_fallocate: if the file system cannot allocate, posix_fallocate writes to every block
 * itself. */
static int posix_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    (void)dev;
    if (size > INT64_MAX)
        return -EFBIG;
    if (size == 0)
        return 0;
    int rc;
    do {
        rc = fallocate(fd_of(file), 0, 0, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && (errno == ENOSYS || errno == EINVAL)) /* these also mean: not supported */
        return -EOPNOTSUPP;
    return rc != 0 ? -errno : 0;
}

static int posix_rename(struct lladd_device *dev, const char *from, const char *to)
{
    const char *old, *new;
    int from_dir, to_dir;
    if (!ll_io__name_ok(from, false) || !ll_io__name_ok(to, false))
        return -EINVAL;
    int rc = open_parent(dev, from, &from_dir, &old);
    if (rc != 0)
        return rc;
    rc = open_parent(dev, to, &to_dir, &new);
    if (rc == 0) {
        rc = renameat(from_dir, old, to_dir, new) != 0 ? -errno : 0;
        close_parent(dev, to_dir);
    }
    close_parent(dev, from_dir);
    return rc;
}

static int posix_unlink(struct lladd_device *dev, const char *name)
{
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    const char *leaf;
    int parent;
    int rc = open_parent(dev, name, &parent, &leaf);
    if (rc != 0)
        return rc;
    rc = unlinkat(parent, leaf, 0) != 0 ? -errno : 0;
    close_parent(dev, parent);
    return rc;
}

/* Opens a new descriptor even for the database's own directory: each list needs its own read
 * position. */
static int open_dir(struct lladd_device *dev, const char *name, int *fd)
{
    if (!ll_io__name_ok(name, true))
        return -EINVAL;
    const char *leaf;
    int parent;
    int rc = open_parent(dev, *name ? name : ".", &parent, &leaf);
    if (rc != 0)
        return rc;
    *fd = openat(parent, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    rc = *fd >= 0 ? refuse_foreign((struct posix_device *)dev, *fd, true)
         : errno == ENOTDIR && is_link(parent, leaf) ? -ELOOP
                                                     : -errno;
    if (rc != 0 && *fd >= 0)
        (void)close(*fd);
    close_parent(dev, parent);
    return rc;
}

static int posix_sync_dir(struct lladd_device *dev, const char *name)
{
    int fd;
    int rc = open_dir(dev, name, &fd);
    if (rc != 0)
        return rc;
    rc = fsync(fd) != 0 ? -errno : 0;
    (void)close(fd); /* opened for reading: no write can fail at the close */
    return rc;
}

/* A user with permission to read files gets permission to search the directory. */
static mode_t dir_mode(mode_t mode)
{
    return mode | S_IXUSR | (mode & (S_IRGRP | S_IROTH)) >> 2;
}

static int posix_mkdir(struct lladd_device *dev, const char *name)
{
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    const char *leaf;
    int parent;
    int rc = open_parent(dev, name, &parent, &leaf);
    if (rc != 0)
        return rc;
    mode_t mode = dir_mode(((struct posix_device *)dev)->mode);
    rc = mkdirat(parent, leaf, mode) != 0 ? -errno : 0;
    close_parent(dev, parent);
    return rc;
}

static int posix_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    int fd;
    int rc = open_dir(dev, name, &fd);
    if (rc != 0)
        return rc;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    while (rc == 0) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = fn(ctx, entry->d_name);
    }
    (void)closedir(dir); /* only read */
    return rc;
}

static int64_t read_owner(int fd)
{
    char text[PID_FIELD + 1];
    ssize_t n = pread(fd, text, PID_FIELD, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    char *end;
    errno = 0;
    long long pid = strtoll(text, &end, 10);
    return errno == 0 && end != text && pid > 0 ? pid : 0;
}

static int write_owner(int fd)
{
    char text[PID_FIELD + 1];
    (void)snprintf(text, sizeof text, "%-*lld\n", PID_FIELD - 1, (long long)getpid());
    struct iovec v = {text, PID_FIELD};
    return write_all(fd, &v, 1, 0);
}

/* Writes the pid, which tells other processes which process has the lock. The lock works without
 * the pid, so lack of disk space is not an error; then an old pid is removed from the file. */
static int leave_owner(int fd)
{
    int rc = write_owner(fd);
    if (rc == 0 || ll_io_code(rc, true) != LLADD_NO_SPACE)
        return rc;
    return ftruncate(fd, 0) != 0 ? -errno : 0;
}

static int take_lock(int fd, int64_t *owner)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
        return leave_owner(fd);
    if (errno != EAGAIN && errno != EACCES) /* POSIX allows either for a lock that is held */
        return -errno;
    /* The pid in the file is that of a process with an exclusive lock; a process with a shared lock
     * has not written its pid. */
    whole.l_type = F_RDLCK;
    if (fcntl(fd, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK)
        *owner = read_owner(fd);
    return -EAGAIN;
}

static int posix_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                      int64_t *owner)
{
    *owner = 0;
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    struct posix_file *file = new_file();
    if (!file)
        return -ENOMEM;
    int rc = file->fd = open_file(dev, name, O_RDWR | O_CREAT);
    if (rc >= 0)
        rc = take_lock(file->fd, owner);
    if (rc != 0) {
        (void)free_file(file); /* releases the lock if it was taken */
        return rc;
    }
    *out = (struct lladd_file *)file;
    return 0;
}

/* A missing file is not locked. */
static int posix_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    *owner = 0;
    if (!ll_io__name_ok(name, false))
        return -EINVAL;
    int fd = open_file(dev, name, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int rc = fcntl(fd, F_OFD_GETLK, &whole) != 0 ? -errno : 0;
    if (rc == 0 && whole.l_type != F_UNLCK) {
        *owner = read_owner(fd);
        rc = -EAGAIN;
    }
    (void)close(fd); /* only read */
    return rc;
}

static void posix_prefetch(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                           uint64_t len)
{
    (void)dev;
    if (off <= INT64_MAX && len <= INT64_MAX - off) /* a hint: the result does not matter */
        (void)posix_fadvise(fd_of(file), (off_t)off, (off_t)len, POSIX_FADV_WILLNEED);
}

/* Whole pages only: the library will write to a partial last page again, and that write would wait
 * for the writeback. */
static void posix_start_writeback(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                               uint64_t len)
{
    (void)dev;
    const uint64_t page = 4096;
    uint64_t first = off & ~(page - 1), end = (off + len) & ~(page - 1);
    if (off <= INT64_MAX && len <= INT64_MAX - off && end > first) /* a hint, like prefetch */
        (void)sync_file_range(fd_of(file), (off_t)first, (off_t)(end - first),
                              SYNC_FILE_RANGE_WRITE);
}

const struct lladd_device_ops ll_io__posix_ops = {
    .struct_size = sizeof ll_io__posix_ops,
    .open = posix_open,
    .close = posix_close_file,
    .pread = posix_pread,
    .pwritev = posix_pwritev,
    .append = posix_append,
    .sync = posix_sync,
    .truncate = posix_truncate,
    .size = posix_size,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .sync_dir = posix_sync_dir,
    .mkdir = posix_mkdir,
    .list = posix_list,
    .lock = posix_lock,
    .prefetch = posix_prefetch,
    .holder = posix_holder,
    .allocate = posix_allocate,
    .start_writeback = posix_start_writeback,
};

/* Makes the entry of a new directory durable in its parent. */
static int sync_parent(const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    while (len > 0 && dir[len - 1] != '/')
        len--;
    char *parent = strndup(len > 0 ? dir : ".", len > 0 ? len : 1);
    if (!parent)
        return -ENOMEM;
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0)
        (void)close(fd); /* only read */
    free(parent);
    return rc;
}

static int create_dir(const char *dir, mode_t mode, struct lladd_error *err)
{
    if (mkdir(dir, dir_mode(mode)) == 0) {
        int rc = sync_parent(dir);
        if (rc == 0)
            return 0;
        (void)rmdir(dir); /* best effort: an empty directory that remains is harmless */
        return ll_fail_io(err, rc, true, "sync the parent of", dir);
    }
    if (errno == EEXIST)
        return 0; /* the following open returns an error if it is not a directory */
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "cannot create directory \"%s\": %s", dir,
                       errno == ENAMETOOLONG ? "the name is too long"
                                             : "its parent directory does not exist");
    return ll_fail_io(err, -errno, true, "create directory", dir);
}

int lladd_device_posix(const char *dir, bool create, struct lladd_device **out,
                       struct lladd_error *err)
{
    return lladd_device_posix_mode(dir, create, 0, out, err);
}

int lladd_device_posix_mode(const char *dir, bool create, uint32_t mode, struct lladd_device **out,
                            struct lladd_error *err)
{
    if (!dir || !*dir || !out)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "no directory is named");
    mode = mode ? mode : S_IRUSR | S_IWUSR;
    if ((mode & 0600) != 0600 || mode & ~0666u)
        return ll_fail(err, LLADD_BAD_ARGUMENT,
                       "file_mode 0%o: expected bits of 0666, with 0600 set", mode);
    if (create) {
        int rc = create_dir(dir, mode, err);
        if (rc != 0)
            return rc;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ll_fail(err, LLADD_NOT_A_DATABASE, "\"%s\" is not a directory", dir);
    if (fd < 0)
        return ll_fail_io(err, -errno, false, "open directory", dir);
    struct posix_device *dev = malloc(sizeof *dev);
    struct stat st;
    if (dev && fstat(fd, &st) != 0) {
        int rc = ll_fail_io(err, -errno, false, "look at directory", dir);
        free(dev);
        return close_with(fd, rc);
    }
    if (!dev) {
        (void)close(fd); /* only read */
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    }
    dev->base.ops = &ll_io__posix_ops;
    dev->dir = fd;
    dev->mode = mode;
    dev->owner = st.st_uid;
    *out = &dev->base;
    return 0;
}

void ll_io__posix_close_device(struct lladd_device *dev)
{
    (void)close(dir_of(dev)); /* only read */
    free(dev);
}
