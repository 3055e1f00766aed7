/* SPDX-License-Identifier: BSD-2-Clause */
/* "pages.idx" of a backup has two parts. The first part says where the frames are. The second part
 * has an entry for each page in the frames: its page LSN and the CRC of its bytes. With these
 * entries a scrub need not read the pages themselves. The manifest has a CRC of each part, because
 * a reader of pages needs only the first part.
 *
 * With a manifest of version 1 there are no entries of pages. Then the pages are read. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <lladd/device.h>
#include <string.h>

enum { WINDOW = 1 << 20, PAGE_LSN = 8 };

void ll_ship_page_entry_encode(uint64_t lsn, uint32_t crc, unsigned char out[LL_SHIP_PAGE_ENTRY])
{
    lladd_put64(out, lsn);
    lladd_put32(out + 8, crc);
}

static int get(struct lladd_store *store, const struct ll_ship_manifest *m, uint64_t at, void *out,
               size_t len, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    ll_ship_base_name(m->info.name, "pages.idx", name);
    int rc = ll_ship_get(store, name, at, out, len, err);
    return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
}

static int damaged(const struct ll_ship_manifest *m, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    ll_ship_base_name(m->info.name, "pages.idx", name);
    return ll_ship_corrupt(err, name, "it is damaged");
}

int ll_ship_base_frames(struct lladd_store *store, const struct ll_ship_manifest *m,
                        struct ll_ship_buf *out, struct lladd_error *err)
{
    uint64_t size = 0;
    char name[LL_SHIP_NAME_MAX];
    ll_ship_base_name(m->info.name, "pages.idx", name);
    int rc = ll_ship_size(store, name, &size, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
    if (size != m->index_bytes + m->page_entries)
        return ll_ship_corrupt(err, name, "its length is wrong");
    void *room = ll_ship_room(out, m->index_bytes + 1);
    if (!room)
        return ll_ship_no_memory(err);
    rc = get(store, m, 0, room, m->index_bytes, err);
    if (!rc && lladd_crc32c(0, room, m->index_bytes) != m->index_crc)
        rc = damaged(m, err);
    if (!rc)
        out->len += m->index_bytes;
    return rc;
}

/* ---- entries of pages ----------------------------------------------------------------------- */

struct reading {
    struct lladd_store *store;
    const struct ll_ship_manifest *m;
    struct ll_ship_buf window;
    uint64_t at; /* number of bytes of entries that were read so far */
    size_t used; /* bytes of the window */
    uint32_t crc;
    struct lladd_error *err;
};

/* *out: the next entry. */
static int next_entry(struct reading *r, const unsigned char **out)
{
    const size_t most = WINDOW / LL_SHIP_PAGE_ENTRY * LL_SHIP_PAGE_ENTRY;
    uint64_t left = r->m->page_entries - r->at;
    if (r->used == r->window.len) {
        size_t len = left < most ? (size_t)left : most;
        r->used = r->window.len = 0;
        if (len == 0)
            return damaged(r->m, r->err);
        void *room = ll_ship_room(&r->window, len);
        if (!room)
            return ll_ship_no_memory(r->err);
        int rc = get(r->store, r->m, r->m->index_bytes + r->at, room, len, r->err);
        if (rc)
            return rc;
        r->crc = lladd_crc32c(r->crc, room, len);
        r->window.len = len;
        r->at += len;
    }
    *out = r->window.data + r->used;
    r->used += LL_SHIP_PAGE_ENTRY;
    return 0;
}

static int read_entries(struct reading *r, const struct ll_ship_buf *frames,
                        ll_ship_base_page_fn *fn, void *ctx)
{
    int rc = 0;
    for (size_t at = 0; at < frames->len && !rc; at += LL_SHIP_FRAME_ENTRY) {
        struct ll_ship_frame f;
        ll_ship_frame_decode(frames->data + at, &f);
        for (uint32_t i = 0; i < f.n && !rc; i++) {
            const unsigned char *entry = NULL;
            rc = next_entry(r, &entry);
            if (!rc)
                rc = fn(ctx, f.first + i, lladd_get64(entry), lladd_get32(entry + 8));
        }
    }
    if (!rc && (r->at != r->m->page_entries || r->used != r->window.len ||
                r->crc != r->m->page_entries_crc))
        rc = damaged(r->m, r->err);
    return rc;
}

/* ---- a backup without them ------------------------------------------------------------------ */

static int see_pages(const struct ll_ship_manifest *m, uint64_t first, uint64_t n,
                     const unsigned char *bytes, ll_ship_base_page_fn *fn, void *ctx)
{
    uint32_t size = m->info.page_size;
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        const unsigned char *page = bytes + i * size;
        bool ok = ll_ship_page_ok(m->info.uuid, first + i, page, size);
        rc = fn(ctx, first + i, ok ? lladd_get64(page + PAGE_LSN) : 0, lladd_crc32c(0, page, size));
    }
    return rc;
}

static int fail_read(struct reading *r, struct lladd_device *dev)
{
    int rc = lladd_store_device_error(dev, r->err);
    return rc ? rc : damaged(r->m, r->err);
}

static int read_device(struct reading *r, struct lladd_device *dev, ll_ship_base_page_fn *fn,
                       void *ctx)
{
    uint64_t pages = r->m->info.pages, most = WINDOW / r->m->info.page_size;
    struct lladd_file *file;
    unsigned char *bytes = ll_ship_room(&r->window, WINDOW);
    int rc = 0;
    if (!bytes || dev->ops->open(dev, "pages", LLADD_OPEN_READ_ONLY, &file))
        return ll_ship_no_memory(r->err);
    for (uint64_t at = 0; at < pages && !rc; at += most) {
        uint64_t n = pages - at < most ? pages - at : most, size = r->m->info.page_size;
        if (dev->ops->pread(dev, file, bytes, n * size, at * size) != (int64_t)(n * size))
            rc = fail_read(r, dev);
        else
            rc = see_pages(r->m, at, n, bytes, fn, ctx);
    }
    (void)dev->ops->close(dev, file);
    return rc;
}

static int read_pages(struct reading *r, ll_ship_base_page_fn *fn, void *ctx)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *dev;
    o.base = r->m->info.name;
    o.allocator = r->window.mem.allocator;
    int rc = lladd_store_device(r->store, &o, &dev, r->err);
    if (rc)
        return rc;
    rc = read_device(r, dev, fn, ctx);
    lladd_store_device_close(dev);
    return rc;
}

int ll_ship_base_pages(struct lladd_store *store, const struct ll_ship_manifest *m,
                       ll_ship_base_page_fn *fn, void *ctx, struct lladd_error *err)
{
    struct reading r = {.store = store, .m = m, .window.mem = m->pages.mem, .err = err};
    struct ll_ship_buf frames = {.mem = m->pages.mem};
    int rc;
    if (m->page_entries) {
        rc = ll_ship_base_frames(store, m, &frames, err);
        if (!rc)
            rc = read_entries(&r, &frames, fn, ctx);
    } else {
        rc = read_pages(&r, fn, ctx);
    }
    ll_ship_buf_free(&frames);
    ll_ship_buf_free(&r.window);
    return rc;
}

static int see_nothing(void *ctx, uint64_t page, uint64_t lsn, uint32_t crc)
{
    (void)ctx, (void)page, (void)lsn, (void)crc;
    return 0;
}

int ll_ship_base_check(struct lladd_store *store, const struct ll_ship_manifest *m,
                       struct lladd_error *err)
{
    return m->page_entries ? ll_ship_base_pages(store, m, see_nothing, NULL, err) : 0;
}
