/* SPDX-License-Identifier: BSD-2-Clause */
/* Code common to all devices: the check of names and flags, complete reads, close. */
#include "io/io.h"

#include "io/io_private.h"

#include <errno.h>
#include <string.h>

/* Refuses names that leave the database's directory, and second names of a file, such as a//b. */
bool ll_io__name_ok(const char *name, bool directory)
{
    if (*name == '\0')
        return directory;
    for (const char *part = name;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += len;
        if (*part == '\0')
            return true;
    }
}

int ll_io__check_flags(unsigned flags)
{
    const unsigned known = LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE | LLADD_OPEN_READ_ONLY;
    if (flags & ~known)
        return -EINVAL;
    if ((flags & LLADD_OPEN_CREATE) && (flags & LLADD_OPEN_READ_ONLY))
        return -EINVAL;
    if ((flags & LLADD_OPEN_EXCLUSIVE) && !(flags & LLADD_OPEN_CREATE))
        return -EINVAL;
    return 0;
}

/* The first `done` of the `len` bytes were read. Reads the remaining bytes that the file has. */
static int64_t read_on(struct lladd_device *dev, struct lladd_file *file, char *buf, size_t len,
                       uint64_t off, uint64_t done)
{
    for (int again = 0;; again++) {
        uint64_t size;
        int rc = ll_io_size(dev, file, &size);
        if (rc != 0)
            return rc;
        if (done == len || off + done >= size)
            return (int64_t)done;
        if (again)
            return -EIO;
        int64_t n = dev->ops->pread(dev, file, buf + done, (size_t)(len - done), off + done);
        if (n < 0)
            return n;
        done += (uint64_t)n;
    }
}

int64_t ll_io_pread(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                    uint64_t off)
{
    int64_t n = dev->ops->pread(dev, file, buf, len, off);
    return n < 0 || (uint64_t)n >= len ? n : read_on(dev, file, buf, len, off, (uint64_t)n);
}

int ll_io_read_full(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                    uint64_t off)
{
    int64_t n = ll_io_pread(dev, file, buf, len, off);
    if (n < 0)
        return (int)n;
    return (uint64_t)n == len ? 0 : -ENODATA;
}

void lladd_device_close(struct lladd_device *dev)
{
    if (!dev)
        return;
    if (dev->ops == &ll_io__posix_ops)
        ll_io__posix_close_device(dev);
    else if (dev->ops == &ll_io__memory_ops)
        ll_io__memory_close_device(dev);
    else if (dev->ops == &ll_io__overlay_ops)
        ll_io__overlay_close_device(dev);
    /* A device that the application has implemented is closed by the application. */
}
