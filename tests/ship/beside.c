/* SPDX-License-Identifier: BSD-2-Clause */
#include "beside.h"

#include <check.h>
#include <string.h>

enum { PAGE = 4096, AT_ONCE = 4 * PAGE };

static struct beside *of(struct lladd_device *dev)
{
    return (struct beside *)dev;
}

static struct lladd_device *below(struct lladd_device *dev)
{
    return of(dev)->below;
}

/* The place of a handle of the page file; NULL: the handle is of another file. */
static struct lladd_file **place(struct beside *b, const struct lladd_file *file)
{
    for (size_t i = 0; i < BESIDE_FILES; i++)
        if (b->pages[i] == file)
            return &b->pages[i];
    return NULL;
}

static int beside_open(struct lladd_device *dev, const char *name, unsigned flags,
                       struct lladd_file **out)
{
    ck_assert_uint_eq(flags & LLADD_OPEN_CREATE, 0);
    int rc = below(dev)->ops->open(below(dev), name, flags, out);
    if (!rc && strcmp(name, "pages") == 0) {
        struct lladd_file **free_place = place(of(dev), NULL);
        ck_assert_ptr_nonnull(free_place);
        *free_place = *out;
    }
    return rc;
}

static int beside_close(struct lladd_device *dev, struct lladd_file *file)
{
    struct lladd_file **at = place(of(dev), file);
    if (at)
        *at = NULL;
    return below(dev)->ops->close(below(dev), file);
}

/* Tears the page: its first half is old, its second half is something else. */
static void tear(struct beside *b, unsigned char *bytes, uint64_t off, int64_t got)
{
    uint64_t at = b->torn * PAGE;
    if (!b->times || at < off || got < PAGE || at - off > (uint64_t)got - PAGE)
        return;
    memset(bytes + (at - off) + PAGE / 2, 0xee, PAGE / 2);
    b->times--;
}

static int64_t beside_pread(struct lladd_device *dev, struct lladd_file *file, void *bytes,
                            size_t len, uint64_t off)
{
    struct beside *b = of(dev);
    if (!place(b, file))
        return b->below->ops->pread(b->below, file, bytes, len, off);
    b->reads++;
    if (b->on_read)
        b->on_read(b->reads);
    int64_t got = b->below->ops->pread(b->below, file, bytes, len < AT_ONCE ? len : AT_ONCE, off);
    tear(b, bytes, off, got);
    return got;
}

static int beside_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    return below(dev)->ops->size(below(dev), file, out);
}

static int beside_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    return below(dev)->ops->list(below(dev), name, fn, ctx);
}

static int beside_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    return below(dev)->ops->holder(below(dev), name, owner);
}

/* A call that would change a file is a NULL pointer. */
static const struct lladd_device_ops ops = {
    .struct_size = sizeof ops,
    .open = beside_open,
    .close = beside_close,
    .pread = beside_pread,
    .size = beside_size,
    .list = beside_list,
    .holder = beside_holder,
};

void beside_init(struct beside *b, struct lladd_device *device)
{
    *b = (struct beside){.base.ops = &ops, .below = device};
}
