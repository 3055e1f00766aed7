/* SPDX-License-Identifier: BSD-2-Clause */
/* See disk.h. */
#include "disk.h"

#include "support/crash_model.h"
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct disk {
    struct crash_model *model;
    struct model_file **open; /* the element with index i is file number i + 1; NULL: the file is
                               * closed */
    size_t count;
};

struct disk *disk_new(void)
{
    struct disk *d = model_alloc(sizeof *d);
    d->model = model_new();
    return d;
}

void disk_free(struct disk *d)
{
    if (!d)
        return;
    model_free(d->model);
    free(d->open);
    free(d);
}

static void set_open(struct disk *d, uint64_t number, struct model_file *f, const char *name)
{
    if (!f || number != d->count + 1)
        model_fatal("trace", name, -EINVAL);
    d->open = realloc(d->open, (d->count + 1) * sizeof(struct model_file *));
    if (!d->open)
        model_fatal("allocate", name, -ENOMEM);
    model_hold(f);
    d->open[d->count++] = f;
}

static struct model_file *file_of(const struct disk *d, const struct trace_head *h)
{
    if (h->file == 0 || h->file > d->count || !d->open[h->file - 1])
        model_fatal("trace", "a file that is not open", -EINVAL);
    return d->open[h->file - 1];
}

static void replay_file(struct disk *d, const struct trace_head *h, const char *bytes)
{
    struct model_file *f = file_of(d, h);
    struct lladd_iovec piece = {bytes, h->len};
    if (h->kind == TRACE_WRITE) {
        model_write(d->model, f, &piece, 1, h->at);
    } else if (h->kind == TRACE_TRUNCATE) {
        model_truncate(d->model, f, h->at);
    } else if (h->kind == TRACE_SYNC) {
        model_sync(d->model, f);
    } else if (h->kind == TRACE_CLOSE) {
        d->open[h->file - 1] = NULL;
        model_release(d->model, f);
    } else {
        model_fatal("trace", "kind", -EINVAL);
    }
}

static void replay_one(struct disk *d, const struct trace_head *h, const char *name,
                       const char *bytes)
{
    switch (h->kind) {
    case TRACE_CREATE:
        (void)model_create(d->model, name);
        break;
    case TRACE_MKDIR:
        model_mkdir(d->model, name);
        break;
    case TRACE_RENAME:
        model_rename(d->model, name, name + strlen(name) + 1);
        break;
    case TRACE_UNLINK:
        model_unlink(d->model, name);
        break;
    case TRACE_SYNC_DIR:
        model_sync_dir(d->model, name);
        break;
    case TRACE_OPEN:
        set_open(d, h->file, model_find(d->model, name), name);
        break;
    default:
        replay_file(d, h, bytes);
        break;
    }
}

void disk_replay(struct disk *d, const void *trace, size_t len)
{
    const char *p = trace, *ends = p + len;
    while (p < ends) {
        struct trace_head h;
        if ((size_t)(ends - p) < sizeof h)
            model_fatal("trace", "cut off", -EINVAL);
        memcpy(&h, p, sizeof h);
        p += sizeof h;
        if ((uint64_t)(ends - p) < h.name_len + h.len)
            model_fatal("trace", "cut off", -EINVAL);
        replay_one(d, &h, p, p + h.name_len);
        p += h.name_len + h.len;
    }
    for (size_t i = 0; i < d->count; i++) {
        if (d->open[i])
            model_release(d->model, d->open[i]);
    }
    free(d->open);
    d->open = NULL;
    d->count = 0;
}

uint64_t disk_pending(const struct disk *d)
{
    return model_pending(d->model);
}

void disk_power(const struct disk *d, const struct fault_crash *how, const char *dir,
                struct disk **after)
{
    struct lladd_device *into;
    struct crash_model *left = NULL;
    if (lladd_device_posix(dir, true, &into, NULL) != 0)
        model_fatal("make", dir, -EIO);
    model_crash(d->model, how, into, after ? &left : NULL);
    lladd_device_close(into);
    if (after) {
        *after = model_alloc(sizeof **after);
        (*after)->model = left;
    }
}
