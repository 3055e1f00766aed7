/* SPDX-License-Identifier: BSD-2-Clause */
/* A read-only device over a store: the files of a database as a crash at a backup's end, or at a
 * later target, would have left them.
 *
 *     control         two copies of the backup's control block, marked as not closed cleanly; no
 *                     witness
 *     pages           the pages of the backup's frames; a later frame replaces pages of earlier
 *                     ones. Zeros follow, for pages that only the log after the backup names. The
 *                     pages that were written in bulk between the backup and the target are laid
 *                     over all these pages
 *     dwb             zeros: the double-write area has no copies
 *     log/X.seg       the stored bytes of a segment, then zeros
 *
 * Memory holds the index of the frames, which takes 32 bytes for 16 pages. It also holds one frame,
 * and three windows: of frames, of the log, and of the laid pages. Everything that is read is
 * checked.
 *
 * A read of the device holds the device's mutex. The threads of a restore read pages without the
 * mutex: each thread has a window and a frame of its own (struct ll_ship_reader). Their store is
 * one that several threads may use. */
#include "ship/image_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <lladd/sync.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 20 };

enum kind { CONTROL = 1, PAGES, DWB, SEGMENT };

struct ship_file {
    enum kind kind;
    uint64_t size;
    size_t segment; /* its number in the image */
};

/* A page in a frame that was stored after the first copy of all pages. */
struct later {
    uint64_t page;
    uint64_t frame;
};

/* A reader of "pages". */
struct ll_ship_reader {
    bool own; /* of one thread; else the device's mutex guards it */
    uint64_t to; /* with `own`: the window has no frames of pages from this one on */
    struct ll_ship_buf window; /* bytes of pages.N */
    uint32_t window_part;
    uint64_t window_offset;
    unsigned char *page;  /* a page with what is laid over it */
    unsigned char *frame; /* the pages of frame `frame_number` */
    uint64_t frame_number;
    struct ll_ship_frame frame_entry;
};

struct ship_device {
    struct lladd_device base;
    struct ll_ship_mem mem;
    struct lladd_store *store;
    struct ll_ship_manifest m;
    unsigned char control[LL_SHIP_CONTROL_FILE];
    struct ll_ship_buf index; /* entries of frames */
    uint64_t frames;
    uint64_t in_order;         /* below this number, frame i has the pages from 16 * i on */
    struct ll_ship_buf later;  /* struct later, sorted */
    struct lladd_mutex mutex; /* guards what follows, and the store */
    struct ll_ship_reader reader;
    struct ll_ship_image log;
    struct ll_ship_goal goal;
    struct lladd_error error; /* the first error of the device */
};

static struct ship_device *device_of(struct lladd_device *d)
{
    return (struct ship_device *)d;
}

static struct ship_file *file_of(struct lladd_file *f)
{
    return (struct ship_file *)f;
}

static const char *base_of(const struct ship_device *d)
{
    return d->m.info.name;
}

/* ---- frames --------------------------------------------------------------------------------- */

static void entry_of(const struct ship_device *d, uint64_t i, struct ll_ship_frame *out)
{
    ll_ship_frame_decode(d->index.data + i * LL_SHIP_FRAME_ENTRY, out);
}

static int by_page(const void *a, const void *b)
{
    const struct later *x = a, *y = b;
    if (x->page != y->page)
        return x->page < y->page ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static bool frame_fits(const struct ship_device *d, const struct ll_ship_frame *f)
{
    uint64_t pages = d->m.info.pages, bytes = f->n * (uint64_t)d->m.info.page_size;
    return f->n > 0 && f->n <= LL_SHIP_FRAME && f->first < pages && f->n <= pages - f->first &&
           f->bytes > 0 && f->bytes <= bytes && f->part < ll_ship_pages_parts(&d->m) &&
           f->offset + (uint64_t)f->bytes <= ll_ship_pages_part(&d->m, f->part)->bytes;
}

static int sort_frames(struct ship_device *d, const char *name, struct lladd_error *err)
{
    struct ll_ship_frame f;
    bool in_order = true;
    int rc = 0;
    for (uint64_t i = 0; i < d->frames && !rc; i++) {
        entry_of(d, i, &f);
        if (!frame_fits(d, &f))
            return ll_ship_corrupt(err, name, "an entry is inconsistent");
        in_order = in_order && f.first == i * LL_SHIP_FRAME;
        if (in_order)
            d->in_order = i + 1;
        for (uint32_t k = 0; k < f.n && !in_order && !rc; k++) {
            struct later one = {f.first + k, i};
            rc = ll_ship_append(&d->later, &one, sizeof one, err);
        }
        in_order = in_order && f.n == LL_SHIP_FRAME;
    }
    if (!rc && d->later.len)
        qsort(d->later.data, d->later.len / sizeof(struct later), sizeof(struct later), by_page);
    return rc;
}

static int read_index(struct ship_device *d, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    int rc = ll_ship_base_frames(d->store, &d->m, &d->index, err);
    if (rc)
        return rc;
    ll_ship_base_name(base_of(d), "pages.idx", name);
    d->frames = d->index.len / LL_SHIP_FRAME_ENTRY;
    return sort_frames(d, name, err);
}

/* The number of the page's frame. *found is false if no frame has the page: then the page was never
 * written. */
static uint64_t frame_of(const struct ship_device *d, uint64_t page, bool *found)
{
    const struct later *later = (const void *)d->later.data;
    size_t low = 0, high = d->later.len / sizeof *later;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (later[mid].page <= page)
            low = mid + 1;
        else
            high = mid;
    }
    *found = true;
    if (low && later[low - 1].page == page)
        return later[low - 1].frame;
    uint64_t i = page / LL_SHIP_FRAME;
    struct ll_ship_frame f;
    *found = i < d->in_order;
    if (*found) {
        entry_of(d, i, &f);
        *found = page - f.first < f.n;
    }
    return i;
}

/* The offset after the last frame that the reader's window should have. */
static uint64_t window_end(const struct ship_device *d, const struct ll_ship_reader *r,
                           const struct ll_ship_frame *f)
{
    struct ll_ship_frame last;
    bool found = false;
    uint64_t all = ll_ship_pages_part(&d->m, f->part)->bytes;
    uint64_t number = r->own ? frame_of(d, r->to - 1, &found) : 0;
    if (!found)
        return all;
    entry_of(d, number, &last);
    return last.part == f->part && last.offset >= f->offset ? last.offset + (uint64_t)last.bytes
                                                            : all;
}

/* Reads the frame's bytes into the window, unless the window has them. */
static int move_window(struct ship_device *d, struct ll_ship_reader *r,
                       const struct ll_ship_frame *f, const char *name, struct lladd_error *err)
{
    if (r->window.len && r->window_part == f->part && f->offset >= r->window_offset &&
        f->offset + (uint64_t)f->bytes <= r->window_offset + r->window.len)
        return 0;
    r->window.len = 0;
    uint64_t len = window_end(d, r, f) - f->offset;
    if (len > WINDOW)
        len = f->bytes > WINDOW ? f->bytes : WINDOW;
    unsigned char *room = ll_ship_room(&r->window, len);
    if (!room)
        return ll_ship_no_memory(err);
    int rc = ll_ship_get(d->store, name, f->offset, room, len, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
    r->window.len = len;
    r->window_part = f->part;
    r->window_offset = f->offset;
    return 0;
}

static int load_frame(struct ship_device *d, struct ll_ship_reader *r, uint64_t number,
                      struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX], what[80];
    struct ll_ship_frame f;
    if (r->frame_number == number)
        return 0;
    entry_of(d, number, &f);
    ll_ship_pages_name(base_of(d), f.part, name);
    int rc = move_window(d, r, &f, name, err);
    if (rc)
        return rc;
    const unsigned char *bytes = r->window.data + (f.offset - r->window_offset);
    int plain = (int)(f.n * d->m.info.page_size);
    r->frame_number = UINT64_MAX;
    bool ok = lladd_crc32c(0, bytes, f.bytes) == f.crc;
    if (ok && (int)f.bytes == plain)
        memcpy(r->frame, bytes, f.bytes);
    else if (ok)
        ok = LZ4_decompress_safe((const char *)bytes, (char *)r->frame, (int)f.bytes, plain) ==
             plain;
    if (!ok) {
        (void)snprintf(what, sizeof what, "the pages from %llu on, at byte %u, are damaged",
                       (unsigned long long)f.first, f.offset);
        return ll_ship_corrupt(err, name, what);
    }
    r->frame_number = number;
    r->frame_entry = f;
    return 0;
}

/* Reads bytes of a page as the backup has it. */
static int read_page(struct ship_device *d, struct ll_ship_reader *r, uint64_t page,
                     unsigned char *out, size_t in, size_t n, struct lladd_error *err)
{
    bool found;
    uint64_t frame = frame_of(d, page, &found);
    int rc = found ? load_frame(d, r, frame, err) : 0;
    if (!found)
        memset(out, 0, n);
    else if (!rc)
        memcpy(out, r->frame + (page - r->frame_entry.first) * d->m.info.page_size + in, n);
    return rc;
}

static int read_laid(struct ship_device *d, struct ll_ship_reader *r, uint64_t page,
                     unsigned char *out, size_t in, size_t n, struct lladd_error *err)
{
    int rc = read_page(d, r, page, r->page, 0, d->m.info.page_size, err);
    if (r->own)
        lladd_mutex_lock(&d->mutex); /* the laid pages have one window */
    if (!rc)
        rc = ll_ship_laid_page(&d->goal.laid, page, r->page, err);
    if (r->own)
        lladd_mutex_unlock(&d->mutex);
    if (!rc)
        memcpy(out, r->page + in, n);
    return rc;
}

static int read_pages(struct ship_device *d, struct ll_ship_reader *r, unsigned char *out,
                      size_t len, uint64_t at, struct lladd_error *err)
{
    uint32_t size = d->m.info.page_size;
    int rc = 0;
    while (len && !rc) {
        uint64_t page = at / size;
        size_t in = (size_t)(at % size), n = size - in < len ? size - in : len;
        rc = ll_ship_laid_has(&d->goal.laid, page) ? read_laid(d, r, page, out, in, n, err)
                                                   : read_page(d, r, page, out, in, n, err);
        out += n;
        at += n;
        len -= n;
    }
    return rc;
}

/* ---- readers of threads --------------------------------------------------------------------- */

static int reader_room(const struct ship_device *d, struct ll_ship_reader *r,
                       struct lladd_error *err)
{
    r->window.mem = d->mem;
    r->frame_number = UINT64_MAX;
    r->frame = ll_ship_new(d->mem, (size_t)LL_SHIP_FRAME * d->m.info.page_size);
    r->page = ll_ship_new(d->mem, d->m.info.page_size);
    return r->frame && r->page ? 0 : ll_ship_no_memory(err);
}

static void reader_free(const struct ship_device *d, struct ll_ship_reader *r)
{
    ll_ship_buf_free(&r->window);
    ll_ship_delete(d->mem, r->frame);
    ll_ship_delete(d->mem, r->page);
}

int ll_ship_reader_open(struct lladd_device *dev, struct ll_ship_reader **out,
                        struct lladd_error *err)
{
    const struct ship_device *d = device_of(dev);
    struct ll_ship_reader *r = ll_ship_new(d->mem, sizeof *r);
    if (!r)
        return ll_ship_no_memory(err);
    r->own = true;
    int rc = reader_room(d, r, err);
    if (rc)
        ll_ship_reader_close(dev, r);
    else
        *out = r;
    return rc;
}

void ll_ship_reader_close(struct lladd_device *dev, struct ll_ship_reader *r)
{
    if (!r)
        return;
    reader_free(device_of(dev), r);
    ll_ship_delete(device_of(dev)->mem, r);
}

int ll_ship_reader_get(struct lladd_device *dev, struct ll_ship_reader *r, uint64_t at, void *out,
                       size_t len, struct lladd_error *err)
{
    uint32_t size = device_of(dev)->m.info.page_size;
    r->to = (at + len + size - 1) / size;
    return read_pages(device_of(dev), r, out, len, at, err);
}

/* ---- the device ----------------------------------------------------------------------------- */

/* Redo expects the page file to have each page that the log names, because a database extends the
 * file before it logs a record of a new page. */
static uint64_t pages_of(const struct ship_device *d)
{
    uint64_t logged = d->goal.facts.pages;
    return d->m.info.pages > logged ? d->m.info.pages : logged;
}

static int find(const struct ship_device *d, const char *name, struct ship_file *out)
{
    uint64_t size = d->m.info.page_size;
    char segment[40];
    *out = (struct ship_file){0};
    if (strcmp(name, "control") == 0)
        *out = (struct ship_file){CONTROL, sizeof d->control, 0};
    else if (strcmp(name, "pages") == 0)
        *out = (struct ship_file){PAGES, pages_of(d) * size, 0};
    else if (strcmp(name, "dwb") == 0)
        *out = (struct ship_file){DWB, LL_SHIP_DWB_PAGES * size, 0};
    for (size_t i = 0; i < ll_ship_image_segments(&d->log) && !out->kind; i++) {
        const struct ll_ship_image_segment *s = ll_ship_image_at(&d->log, i);
        (void)snprintf(segment, sizeof segment, "log/%016llx.seg", (unsigned long long)s->first);
        if (strcmp(segment, name) == 0)
            *out = (struct ship_file){SEGMENT, s->size, i};
    }
    return out->kind ? 0 : -ENOENT;
}

static int ship_open(struct lladd_device *dev, const char *name, unsigned flags,
                     struct lladd_file **out)
{
    struct ship_device *d = device_of(dev);
    struct ship_file f;
    int rc = find(d, name, &f);
    if (rc && strcmp(name, "log") == 0)
        return -EISDIR;
    if (rc)
        return flags & LLADD_OPEN_CREATE ? -EROFS : rc;
    if (flags & LLADD_OPEN_EXCLUSIVE)
        return -EEXIST;
    struct ship_file *file = ll_ship_new(d->mem, sizeof *file);
    if (!file)
        return -ENOMEM;
    *file = f;
    *out = (struct lladd_file *)file;
    return 0;
}

static int ship_close(struct lladd_device *dev, struct lladd_file *file)
{
    ll_ship_delete(device_of(dev)->mem, file);
    return 0;
}

static int64_t ship_pread(struct lladd_device *dev, struct lladd_file *file, void *buf, size_t len,
                          uint64_t off)
{
    struct ship_device *d = device_of(dev);
    const struct ship_file *f = file_of(file);
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = 0;
    if (off >= f->size)
        return 0;
    if (len > f->size - off)
        len = (size_t)(f->size - off);
    lladd_mutex_lock(&d->mutex);
    if (f->kind == CONTROL)
        memcpy(buf, d->control + off, len);
    else if (f->kind == DWB)
        memset(buf, 0, len);
    else if (f->kind == PAGES)
        rc = read_pages(d, &d->reader, buf, len, off, &err);
    else
        rc = ll_ship_image_read(&d->log, f->segment, buf, len, off, &err);
    if (rc && !d->error.code)
        d->error = err;
    lladd_mutex_unlock(&d->mutex);
    return !rc ? (int64_t)len : rc == LLADD_CORRUPT_BACKUP ? -EBADMSG : -EIO;
}

static int ship_pwritev(struct lladd_device *dev, struct lladd_file *file,
                        const struct lladd_iovec *pieces, int n, uint64_t off)
{
    (void)dev, (void)file, (void)pieces, (void)n, (void)off;
    return -EROFS;
}

static int ship_append(struct lladd_device *dev, struct lladd_file *file, const void *buf,
                       size_t len, uint64_t *off)
{
    (void)dev, (void)file, (void)buf, (void)len, (void)off;
    return -EROFS;
}

static int ship_sync(struct lladd_device *dev, struct lladd_file *file)
{
    (void)dev, (void)file;
    return 0;
}

static int ship_truncate(struct lladd_device *dev, struct lladd_file *file, uint64_t size)
{
    (void)dev, (void)file, (void)size;
    return -EROFS;
}

static int ship_size(struct lladd_device *dev, struct lladd_file *file, uint64_t *out)
{
    (void)dev;
    *out = file_of(file)->size;
    return 0;
}

static int ship_rename(struct lladd_device *dev, const char *from, const char *to)
{
    (void)dev, (void)from, (void)to;
    return -EROFS;
}

static int ship_no_change(struct lladd_device *dev, const char *name)
{
    (void)dev, (void)name;
    return -EROFS;
}

static int ship_sync_dir(struct lladd_device *dev, const char *name)
{
    (void)dev, (void)name;
    return 0;
}

static int ship_list(struct lladd_device *dev, const char *name, lladd_list_fn *fn, void *ctx)
{
    struct ship_device *d = device_of(dev);
    static const char *const top[] = {"control", "pages", "dwb", "log"};
    char segment[40];
    int rc = 0;
    if (!*name) {
        for (size_t i = 0; i < sizeof top / sizeof *top && !rc; i++)
            rc = fn(ctx, top[i]);
        return rc;
    }
    if (strcmp(name, "log") != 0)
        return -ENOENT;
    for (size_t i = 0; i < ll_ship_image_segments(&d->log) && !rc; i++) {
        (void)snprintf(segment, sizeof segment, "%016llx.seg",
                       (unsigned long long)ll_ship_image_at(&d->log, i)->first);
        rc = fn(ctx, segment);
    }
    return rc;
}

static int ship_lock(struct lladd_device *dev, const char *name, struct lladd_file **out,
                     int64_t *owner)
{
    (void)dev, (void)name, (void)out, (void)owner;
    return -EROFS;
}

static int ship_holder(struct lladd_device *dev, const char *name, int64_t *owner)
{
    (void)dev, (void)name;
    *owner = 0;
    return 0;
}

static const struct lladd_device_ops ship_ops = {
    .struct_size = sizeof ship_ops,
    .open = ship_open,
    .close = ship_close,
    .pread = ship_pread,
    .pwritev = ship_pwritev,
    .append = ship_append,
    .sync = ship_sync,
    .truncate = ship_truncate,
    .size = ship_size,
    .rename = ship_rename,
    .unlink = ship_no_change,
    .sync_dir = ship_sync_dir,
    .mkdir = ship_no_change,
    .list = ship_list,
    .lock = ship_lock,
    .holder = ship_holder,
};

/* ---- opening -------------------------------------------------------------------------------- */

static int read_control(struct ship_device *d, struct lladd_error *err)
{
    enum { PAGE_SIZE = 12, UUID = 40 };
    char name[LL_SHIP_NAME_MAX];
    unsigned char *c = d->control;
    ll_ship_base_name(base_of(d), "control", name);
    int rc = ll_ship_get(d->store, name, 0, c, LL_SHIP_CONTROL, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
    if (!ll_ship_control_ok(c) || lladd_crc32c(0, c, LL_SHIP_CONTROL) != d->m.control_crc)
        return ll_ship_corrupt(err, name, "it is damaged");
    if (memcmp(c + UUID, d->m.info.uuid, 16) != 0 ||
        lladd_get32(c + PAGE_SIZE) != d->m.info.page_size || ll_ship_control_redo(c) != d->m.redo.v)
        return ll_ship_corrupt(err, name, "it does not fit the manifest");
    ll_ship_device_timeline(&d->base,
                            d->goal.archived ? d->goal.timeline : ll_ship_control_timeline(c));
    return 0;
}

void ll_ship_device_timeline(struct lladd_device *dev, uint32_t timeline)
{
    struct ship_device *d = device_of(dev);
    ll_ship_control_copy(d->control, timeline, d->m.heuristic || d->goal.facts.heuristic);
    memcpy(d->control + LL_SHIP_CONTROL_COPY, d->control, LL_SHIP_CONTROL);
}

int ll_ship_device_check(struct lladd_device *dev, struct lladd_error *err)
{
    struct ship_device *d = device_of(dev);
    lladd_mutex_lock(&d->mutex);
    int rc = ll_ship_base_check(d->store, &d->m, err);
    lladd_mutex_unlock(&d->mutex);
    return rc;
}

struct ll_ship_image *ll_ship_device_log(struct lladd_device *dev)
{
    return &device_of(dev)->log;
}

static int open_parts(struct ship_device *d, const struct lladd_restore_options *o,
                      struct lladd_error *err)
{
    int rc = ll_ship_target(d->store, o, &d->m, &d->log, &d->goal, err);
    if (!rc) {
        rc = reader_room(d, &d->reader, err);
        rc = rc ? rc : read_control(d, err);
    }
    return rc ? rc : read_index(d, err);
}

int lladd_store_device(struct lladd_store *store, const struct lladd_restore_options *options,
                       struct lladd_device **out, struct lladd_error *err)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    if (!store || !out)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the store or the result is NULL");
    ll_ship_take_options(&o, sizeof o, options);
    struct ll_ship_mem mem = {o.allocator};
    struct ship_device *d = ll_ship_new(mem, sizeof *d);
    if (!d)
        return ll_ship_no_memory(err);
    if (lladd_mutex_init(&d->mutex, LLADD_RANK_DEVICE, "device over a store")) {
        ll_ship_delete(mem, d);
        return ll_ship_no_memory(err);
    }
    d->base.ops = &ship_ops;
    d->mem = mem;
    d->store = store;
    d->index.mem = d->later.mem = mem;
    ll_ship_manifest_init(&d->m, mem);
    int rc = open_parts(d, &o, err);
    if (rc)
        lladd_store_device_close(&d->base);
    else
        *out = &d->base;
    return rc;
}

void lladd_store_device_info(struct lladd_device *dev, struct lladd_backup_info *out)
{
    size_t size = out->struct_size;
    const struct ship_device *d = device_of(dev);
    struct lladd_backup_info info = d->m.info;
    info.struct_size = size;
    info.timeline = d->goal.timeline;
    info.end = lladd_lsn_of(d->goal.facts.end);
    info.pages = pages_of(d);
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
}

int lladd_store_device_error(struct lladd_device *dev, struct lladd_error *err)
{
    struct ship_device *d = device_of(dev);
    lladd_mutex_lock(&d->mutex);
    int rc = d->error.code;
    if (rc && err)
        *err = d->error;
    lladd_mutex_unlock(&d->mutex);
    return rc;
}

void lladd_store_device_close(struct lladd_device *dev)
{
    if (!dev)
        return;
    struct ship_device *d = device_of(dev);
    ll_ship_manifest_free(&d->m);
    ll_ship_buf_free(&d->index);
    ll_ship_buf_free(&d->later);
    reader_free(d, &d->reader);
    ll_ship_image_free(&d->log);
    ll_ship_goal_free(&d->goal);
    lladd_mutex_destroy(&d->mutex);
    ll_ship_delete(d->mem, d);
}
