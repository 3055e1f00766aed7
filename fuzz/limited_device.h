/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FUZZ_LIMITED_DEVICE_H
#define FUZZ_LIMITED_DEVICE_H
/* A device in memory that refuses writes and sizes beyond DEVICE_MAX, so that a forged page number
 * cannot make a file that takes all memory. limited_device sets static variables, so only one
 * thread may call it. */
#include "fuzz.h"
#include "io/io.h"

#include <stdlib.h>

/* The limit of each file's size. It is not exact: a write is refused if it begins beyond the limit,
 * and appends are not limited. */
enum { DEVICE_MAX = 64 << 20 };

struct file {
    char name[64];
    unsigned char *bytes;
    size_t len;
};

static inline int world_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0x42, len);
    return 0;
}

/* Random numbers are constant, so that each run makes the same databases. */
static const struct lladd_environment fuzz_world = {.random = world_random};

static const struct lladd_device_ops *memory_ops;

static inline int limited_pwritev(struct lladd_device *dev, struct lladd_file *file,
                                  const struct lladd_iovec *pieces, int n, uint64_t off)
{
    return off > DEVICE_MAX ? -ENOSPC : memory_ops->pwritev(dev, file, pieces, n, off);
}

static inline int limited_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return size > DEVICE_MAX ? -ENOSPC : memory_ops->truncate(dev, file, size);
}

static inline int limited_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return size > DEVICE_MAX ? -ENOSPC : memory_ops->allocate(dev, file, size);
}

/* Makes a device that contains the directory "log" and copies of these files. */
static inline struct lladd_device *limited_device(const struct file *files, size_t n)
{
    static struct lladd_device_ops limited;
    struct lladd_device *dev;
    MUST(lladd_device_memory(&dev) == 0 && dev->ops->mkdir(dev, "log") == 0);
    memory_ops = dev->ops;
    limited = *dev->ops;
    limited.pwritev = limited_pwritev;
    limited.truncate = limited_truncate;
    limited.allocate = limited_allocate;
    dev->ops = &limited;
    for (size_t i = 0; i < n; i++) {
        struct lladd_file *file;
        MUST(ll_io_open(dev, files[i].name, LLADD_OPEN_CREATE, &file) == 0);
        MUST(files[i].len == 0 || ll_io_pwrite(dev, file, files[i].bytes, files[i].len, 0) == 0);
        MUST(ll_io_close(dev, file) == 0);
    }
    return dev;
}

static inline void limited_device_close(struct lladd_device *dev)
{
    dev->ops = memory_ops; /* lladd_device_close compares ops to see the device's kind */
    lladd_device_close(dev);
}

#endif
