/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FUZZ_LIMITED_DEVICE_H
#define FUZZ_LIMITED_DEVICE_H
/* Files in memory with a limited size: a forged page number must not make the device as large as
 * the number says. One at a time, as fuzzers have one thread. */
#include "fuzz.h"
#include "io/io.h"

#include <stdlib.h>

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

/* Every database gets the same numbers. */
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

/* A device with these files. */
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
    dev->ops = memory_ops; /* the library recognises its device by this */
    lladd_device_close(dev);
}

#endif
