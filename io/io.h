/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_IO_H
#define LL_IO_H
/* Interface of the io layer: short names for the functions of a device (<lladd/device.h>). The
 * results are the same, too: 0 or a count, or a negative errno. */
#include <lladd/device.h>

#include <errno.h>
#include <stddef.h>

static inline int ll_io_open(struct lladd_device *dev, const char *name, unsigned flags,
                             struct lladd_file **out)
{
    return dev->ops->open(dev, name, flags, out);
}

static inline int ll_io_close(struct lladd_device *dev, struct lladd_file *file)
{
    return dev->ops->close(dev, file);
}

static inline int ll_io_pwrite(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                               size_t len, uint64_t off)
{
    struct lladd_iovec piece = {buf, len};
    return dev->ops->pwritev(dev, file, &piece, 1, off);
}

static inline int ll_io_pwritev(struct lladd_device *dev, struct lladd_file *file,
                                const struct lladd_iovec *pieces, int n, uint64_t off)
{
    return dev->ops->pwritev(dev, file, pieces, n, off);
}

static inline int ll_io_sync(struct lladd_device *dev, struct lladd_file *file)
{
    return dev->ops->sync(dev, file);
}

static inline int ll_io_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return dev->ops->truncate(dev, file, size);
}

static inline int ll_io_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    return dev->ops->size(dev, file, out);
}

static inline int ll_io_sync_dir(struct lladd_device *dev, const char *name)
{
    return dev->ops->sync_dir(dev, name);
}

static inline int ll_io_append(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                               size_t len, uint64_t *off)
{
    return dev->ops->append(dev, file, buf, len, off);
}

static inline int ll_io_rename(struct lladd_device *dev, const char *from, const char *to)
{
    return dev->ops->rename(dev, from, to);
}

static inline int ll_io_unlink(struct lladd_device *dev, const char *name)
{
    return dev->ops->unlink(dev, name);
}

static inline int ll_io_mkdir(struct lladd_device *dev, const char *name)
{
    return dev->ops->mkdir(dev, name);
}

static inline int ll_io_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn,
                             void *ctx)
{
    return dev->ops->list(dev, name, fn, ctx);
}

static inline int ll_io_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                             int64_t *owner)
{
    return dev->ops->lock(dev, name, out, owner);
}

static inline void ll_io_prefetch(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                                  uint64_t len)
{
    if (dev->ops->prefetch)
        dev->ops->prefetch(dev, file, off, len);
}

/* Does the device have this nullable function? A device may be compiled against an older header
 * with fewer functions. */
#define LL_IO_HAS(ops, call) \
    ((ops)->struct_size >= offsetof(struct lladd_device_ops, call) + sizeof (ops)->call && \
     (ops)->call)

/* Returns -EOPNOTSUPP if the device cannot allocate. */
static inline int ll_io_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return LL_IO_HAS(dev->ops, allocate) ? dev->ops->allocate(dev, file, size) : -EOPNOTSUPP;
}

static inline void ll_io_start_writeback(struct lladd_device *dev, struct lladd_file *file,
                                      uint64_t off, uint64_t len)
{
    if (LL_IO_HAS(dev->ops, start_writeback))
        dev->ops->start_writeback(dev, file, off, len);
}

/* Reads len bytes, or fewer if the file ends before off + len. A short read within the file must
 * not be mistaken for the end of the file: the log could be truncated, or a used page could look
 * unused. A device must return all bytes that the file has in the range. If it returns fewer,
 * ll_io_pread reads once more, and returns -EIO if bytes are still missing. */
int64_t ll_io_pread(struct lladd_device *, struct lladd_file *, void *buf, size_t len,
                    uint64_t off);
/* Reads exactly len bytes. Returns 0, -ENODATA if the file ends before off + len, or the device's
 * error. */
int ll_io_read_full(struct lladd_device *, struct lladd_file *, void *buf, size_t len,
                    uint64_t off);

/* ll_io_deferred_new makes a device that postpones syncs, for the creation of a database
 * (device_deferred.c). ll_io_deferred_free frees such a device and returns the device below; for
 * any other device the function returns its argument. */
struct ll_env;
int ll_io_deferred_new(const struct ll_env *, struct lladd_device *below,
                       struct lladd_device **out);
struct lladd_device *ll_io_deferred_free(struct lladd_device *);
/* Does all postponed syncs; from then on the device passes every sync on. A second call, or a call
 * for any other device, does nothing and returns 0. If a sync returns an error, the remaining syncs
 * are skipped; the error is final, like the error of any sync. */
int ll_io_settle(struct lladd_device *);

#endif
