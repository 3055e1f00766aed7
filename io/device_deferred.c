/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device_deferred: wraps another device and postpones syncs. ll_io_settle does all postponed syncs
 * together.
 *
 * A database is created on this device. The new files may become durable in any order, as long as
 * all of them are durable before the control block is written. A sync is therefore recorded as a
 * debt (several syncs of one file are one debt), and ll_io_settle does the recorded syncs. Before
 * it has returned 0, callers must not rely on any write being durable, nor on the order in which
 * writes become durable. After ll_io_settle the device passes every call on. If ll_io_settle
 * returns an error, the remaining postponed syncs are never done, not even at close. A later call
 * of ll_io_settle then does nothing and returns 0, which does not mean that anything is durable.
 *
 * Before ll_io_settle, closing a file does its postponed sync. The ll_io_settle or close that does
 * a postponed sync returns the error of the sync. If there is no memory to record a debt, the sync
 * is done immediately.
 *
 * Threads. `latch` guards the debts. `deferring` becomes false once, under the latch; calls that
 * find it false do not use the debts.
 */
#include "io/io_private.h"
#include "util/env.h"
#include "util/vec.h"

#include <lladd/sync.h>

#include <string.h>

struct debt {
    struct lladd_file *file; /* NULL: a directory */
    char *directory;
};

struct deferred_device {
    struct lladd_device base;
    struct lladd_device *below;
    const struct ll_env *env;
    struct lladd_mutex latch;
    struct ll_vec debts;
    uint32_t deferring; /* atomic */
};

static struct deferred_device *device_of(struct lladd_device *dev)
{
    return (struct deferred_device *)dev;
}

static struct lladd_device *below(struct lladd_device *dev)
{
    return device_of(dev)->below;
}

/* ---- debts ---- */

/* Returns the index of the debt, or debts.len if no such debt is recorded. Under the latch. */
static size_t find(const struct deferred_device *d, const struct lladd_file *file,
                   const char *directory)
{
    size_t i = 0;
    for (; i < d->debts.len; i++) {
        const struct debt *debt = ll_vec_at(&d->debts, i);
        bool both_named = debt->directory && directory;
        if (both_named ? strcmp(debt->directory, directory) == 0 : file && debt->file == file)
            break;
    }
    return i;
}

/* Records a debt. False: no memory. Under the latch. */
static bool note(struct deferred_device *d, struct lladd_file *file, const char *directory)
{
    if (find(d, file, directory) < d->debts.len)
        return true;
    struct debt debt = {file, file ? NULL : ll_strdup(d->env, directory)};
    if ((file || debt.directory) && ll_vec_append(&d->debts, &debt, 1) == 0)
        return true;
    ll_free(d->env, debt.directory);
    return false;
}

/* True: the sync is postponed. False: the caller must sync. */
static bool put_off(struct deferred_device *d, struct lladd_file *file, const char *directory)
{
    bool noted = false;
    if (!lladd_atomic_load32(&d->deferring))
        return false;
    lladd_mutex_lock(&d->latch);
    if (lladd_atomic_load32(&d->deferring))
        noted = note(d, file, directory);
    lladd_mutex_unlock(&d->latch);
    return noted;
}

/* Removes the debt of a file that is about to be closed; true if the file had a debt. */
static bool take(struct deferred_device *d, struct lladd_file *file)
{
    if (!lladd_atomic_load32(&d->deferring))
        return false;
    lladd_mutex_lock(&d->latch);
    size_t i = find(d, file, NULL);
    bool owes = i < d->debts.len;
    if (owes)
        ll_vec_remove_unordered(&d->debts, i);
    lladd_mutex_unlock(&d->latch);
    return owes;
}

int ll_io_settle(struct lladd_device *dev)
{
    if (dev->ops != &ll_io__deferred_ops || !lladd_atomic_load32(&device_of(dev)->deferring))
        return 0;
    struct deferred_device *d = device_of(dev);
    int rc = 0;
    lladd_mutex_lock(&d->latch);
    /* Files first, then directories. Callers must not rely on the order. */
    for (int directories = 0; directories < 2; directories++) {
        for (size_t i = 0; i < d->debts.len && !rc; i++) {
            const struct debt *debt = ll_vec_at(&d->debts, i);
            if (!debt->file == (directories == 1))
                rc = debt->file ? ll_io_sync(d->below, debt->file)
                                : ll_io_sync_dir(d->below, debt->directory);
        }
    }
    lladd_atomic_store32(&d->deferring, 0);
    lladd_mutex_unlock(&d->latch);
    return rc;
}

/* ---- the table of functions ---- */

static int deferred_open(struct lladd_device *dev, const char *name, unsigned flags,
                         struct lladd_file **out)
{
    return ll_io_open(below(dev), name, flags, out);
}

static int deferred_close(struct lladd_device *dev, struct lladd_file *file)
{
    int rc = take(device_of(dev), file) ? ll_io_sync(below(dev), file) : 0;
    int closed = ll_io_close(below(dev), file);
    return rc ? rc : closed;
}

static int64_t deferred_pread(struct lladd_device *dev, struct lladd_file *file, void *buf,
                              size_t len, uint64_t off)
{
    return below(dev)->ops->pread(below(dev), file, buf, len, off);
}

static int deferred_pwritev(struct lladd_device *dev, struct lladd_file *file,
                            const struct lladd_iovec *pieces, int n, uint64_t off)
{
    return ll_io_pwritev(below(dev), file, pieces, n, off);
}

static int deferred_append(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                           size_t len, uint64_t *off)
{
    return ll_io_append(below(dev), file, buf, len, off);
}

static int deferred_sync(struct lladd_device *dev, struct lladd_file *file)
{
    return put_off(device_of(dev), file, NULL) ? 0 : ll_io_sync(below(dev), file);
}

static int deferred_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return ll_io_truncate(below(dev), file, size);
}

static int deferred_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    return ll_io_size(below(dev), file, out);
}

static int deferred_rename(struct lladd_device *dev, const char *from, const char *to)
{
    return ll_io_rename(below(dev), from, to);
}

static int deferred_unlink(struct lladd_device *dev, const char *name)
{
    return ll_io_unlink(below(dev), name);
}

static int deferred_sync_dir(struct lladd_device *dev, const char *name)
{
    return put_off(device_of(dev), NULL, name) ? 0 : ll_io_sync_dir(below(dev), name);
}

static int deferred_mkdir(struct lladd_device *dev, const char *name)
{
    return ll_io_mkdir(below(dev), name);
}

static int deferred_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    return ll_io_list(below(dev), name, fn, ctx);
}

static int deferred_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                         int64_t *owner)
{
    return ll_io_lock(below(dev), name, out, owner);
}

static void deferred_prefetch(struct lladd_device *dev, struct lladd_file *file, uint64_t off,
                              uint64_t len)
{
    ll_io_prefetch(below(dev), file, off, len);
}

static int deferred_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    *owner = 0;
    return LL_IO_HAS(below(dev)->ops, holder) ? below(dev)->ops->holder(below(dev), name, owner)
                                              : 0;
}

static int deferred_allocate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    return ll_io_allocate(below(dev), file, size);
}

static void deferred_start_writeback(struct lladd_device *dev, struct lladd_file *file,
                                     uint64_t off, uint64_t len)
{
    ll_io_start_writeback(below(dev), file, off, len);
}

const struct lladd_device_ops ll_io__deferred_ops = {
    .struct_size = sizeof(struct lladd_device_ops),
    .open = deferred_open,
    .close = deferred_close,
    .pread = deferred_pread,
    .pwritev = deferred_pwritev,
    .append = deferred_append,
    .sync = deferred_sync,
    .truncate = deferred_truncate,
    .size = deferred_size,
    .rename = deferred_rename,
    .unlink = deferred_unlink,
    .sync_dir = deferred_sync_dir,
    .mkdir = deferred_mkdir,
    .list = deferred_list,
    .lock = deferred_lock,
    .prefetch = deferred_prefetch,
    .holder = deferred_holder,
    .allocate = deferred_allocate,
    .start_writeback = deferred_start_writeback,
};

/* ---- create and free ---- */

int ll_io_deferred_new(const struct ll_env *env, struct lladd_device *device,
                       struct lladd_device **out)
{
    struct deferred_device *d = ll_alloc_zero(env, sizeof *d);
    if (!d)
        return -ENOMEM;
    /* ll_io_settle holds the latch while the device below syncs, so the latch must rank below every
     * mutex of that device. The device may be a stack of n overlays: the lowest rank is then
     * LLADD_RANK_DEVICE - 2n. 500 is enough for 249 overlays. */
    if (lladd_mutex_init(&d->latch, LLADD_RANK_DEVICE - 500, "deferred syncs") != 0) {
        ll_free(env, d);
        return -ENOMEM;
    }
    d->base.ops = &ll_io__deferred_ops;
    d->below = device;
    d->env = env;
    d->deferring = 1;
    ll_vec_init(&d->debts, env, sizeof(struct debt));
    *out = &d->base;
    return 0;
}

struct lladd_device *ll_io_deferred_free(struct lladd_device *dev)
{
    if (!dev || dev->ops != &ll_io__deferred_ops)
        return dev;
    struct deferred_device *d = device_of(dev);
    struct lladd_device *device = d->below;
    for (size_t i = 0; i < d->debts.len; i++)
        ll_free(d->env, ((struct debt *)ll_vec_at(&d->debts, i))->directory);
    ll_vec_free(&d->debts);
    lladd_mutex_destroy(&d->latch);
    ll_free(d->env, d);
    return device;
}
