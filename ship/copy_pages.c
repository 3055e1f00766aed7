/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies pages of an open database into frames.
 *
 * The page file is read past the cache, while pages are written to it. A read of a page that is
 * being written may return a torn page, with a wrong checksum; then the page is read again. If the
 * checksum stays wrong and the page is raw or free, its bytes are taken as they are. Any other page
 * may be damaged; copy_damage.c finds out whether it is, and repairs it. */
#include "ship/backup_private.h"

#include <errno.h>
#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/sync.h>
#include <lz4.h>
#include <string.h>

enum { TRIES = 3, PAGE_LSN = 8 };

/* ---- reading -------------------------------------------------------------------------------- */

/* A read at `at` has given no bytes. Does the file end there? A faulty device may give no bytes
 * although the file goes on (lladd/device.h). Then the missing bytes must not be taken for
 * zeros. */
static int file_ends(struct ll_ship_backup *b, uint64_t at, bool *out)
{
    uint64_t size;
    int rc = b->dev->ops->size(b->dev, b->pages, &size);
    *out = !rc && size <= at;
    return rc ? ll_ship_fail_io(b->err, rc, "read the size of", "pages") : 0;
}

int ll_ship_read_pages(struct ll_ship_backup *b, uint64_t first, uint64_t n, unsigned char *out)
{
    size_t size = b->m.info.page_size, len = (size_t)n * size, done = 0;
    bool again = false, ends = false;
    while (done < len && !ends) {
        int64_t got =
            b->dev->ops->pread(b->dev, b->pages, out + done, len - done, first * size + done);
        if (got < 0)
            return ll_ship_fail_io(b->err, (int)got, "read", "pages");
        if (got == 0) {
            int rc = file_ends(b, first * size + done, &ends);
            if (!rc && !ends && again)
                rc = ll_ship_fail_io(b->err, -EIO, "read", "pages");
            if (rc)
                return rc;
        }
        again = got == 0; /* the file may just have grown */
        done += (size_t)got;
    }
    memset(out + done, 0, len - done);
    return 0;
}

static bool page_ok(const struct ll_ship_backup *b, uint64_t number, const unsigned char *page)
{
    return ll_ship_page_ok(b->m.info.uuid, number, page, b->m.info.page_size);
}

/* *ok: the page's checksum is right. */
static int read_again(struct ll_ship_backup *b, uint64_t number, unsigned char *page, bool *ok)
{
    int rc = 0;
    *ok = false;
    for (int i = 0; i < TRIES && !rc && !*ok; i++) {
        lladd_yield(); /* the writer of the page may be waiting for this processor */
        rc = ll_ship_read_pages(b, number, 1, page);
        *ok = !rc && page_ok(b, number, page);
    }
    return rc;
}

int ll_ship_look_closer(struct ll_ship_backup *b, uint64_t number, unsigned char *page)
{
    enum lladd_page_use use = LLADD_USE_NONE;
    bool ok = false;
    int rc = read_again(b, number, page, &ok);
    if (rc || ok)
        return rc;
    rc = lladd_page_use_get(b->db, lladd_page_of(number), &use, b->err);
    if (lladd_code_root(rc) == LLADD_ROOT_DATA) /* the allocation bitmap is damaged */
        use = LLADD_USE_SYSTEM;
    else if (rc || use == LLADD_USE_RAW || use == LLADD_USE_NONE)
        return rc;
    if (!b->repairing)
        return ll_ship_suspect(b, number);
    return use == LLADD_USE_FREED ? 0
                                  : ll_ship_append(&b->damaged, &number, sizeof number, b->err);
}

/* ---- frames --------------------------------------------------------------------------------- */

static int store_object(struct ll_ship_backup *b)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_iovec piece = {b->object.data, b->object.len};
    struct ll_ship_pages_part part = {b->object.len,
                                      lladd_crc32c(0, b->object.data, b->object.len)};
    if (b->object.len == 0)
        return 0;
    ll_ship_pages_name(b->m.info.name, ll_ship_pages_parts(&b->m), name);
    int rc = ll_ship_put(b->store, b->mem, name, &piece, 1, b->err);
    if (!rc)
        rc = ll_ship_append(&b->m.pages, &part, sizeof part, b->err);
    b->m.info.stored_bytes += b->object.len;
    b->object.len = 0;
    return rc;
}

static int add_entry(struct ll_ship_backup *b, uint64_t number, const unsigned char *page)
{
    unsigned char entry[LL_SHIP_PAGE_ENTRY];
    ll_ship_page_entry_encode(page_ok(b, number, page) ? lladd_get64(page + PAGE_LSN) : 0,
                              lladd_crc32c(0, page, b->m.info.page_size), entry);
    return ll_ship_append(&b->entries, entry, sizeof entry, b->err);
}

static int add_frame(struct ll_ship_backup *b, uint64_t first, uint32_t n,
                     const unsigned char *pages)
{
    unsigned char entry[LL_SHIP_FRAME_ENTRY];
    int plain = (int)(n * b->m.info.page_size), rc = 0;
    if (b->object.len + (size_t)plain > LL_SHIP_OBJECT_MAX)
        rc = store_object(b);
    if (rc)
        return rc;
    int len = LZ4_compress_fast_extState(b->lz4, (const char *)pages, (char *)b->packed, plain,
                                         plain - 1, 1);
    const void *bytes = len > 0 ? b->packed : pages;
    struct ll_ship_frame f = {.first = first,
                              .n = n,
                              .part = (uint32_t)ll_ship_pages_parts(&b->m),
                              .offset = (uint32_t)b->object.len,
                              .bytes = (uint32_t)(len > 0 ? len : plain)};
    f.crc = lladd_crc32c(0, bytes, f.bytes);
    ll_ship_frame_encode(&f, entry);
    rc = ll_ship_append(&b->object, bytes, f.bytes, b->err);
    if (!rc)
        rc = ll_ship_append(&b->index, entry, sizeof entry, b->err);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_entry(b, first + i, pages + (size_t)i * b->m.info.page_size);
    return rc;
}

static int take_page(struct ll_ship_backup *b, uint64_t number, unsigned char *page)
{
    int rc = 0;
    if (!page_ok(b, number, page))
        rc = ll_ship_look_closer(b, number, page);
    if (!rc && page_ok(b, number, page)) {
        uint64_t lsn = lladd_get64(page + PAGE_LSN);
        b->newest = lsn > b->newest ? lsn : b->newest;
    }
    return rc;
}

/* Forgets damage of pages that are copied again. */
static void forget_damage(struct ll_ship_backup *b, uint64_t first, uint64_t n)
{
    uint64_t *at = (void *)b->damaged.data;
    size_t kept = 0, have = b->damaged.len / sizeof *at;
    for (size_t i = 0; i < have; i++)
        if (at[i] < first || at[i] - first >= n)
            at[kept++] = at[i];
    b->damaged.len = kept * sizeof *at;
}

int ll_ship_copy_pages(struct ll_ship_backup *b, uint64_t first, uint64_t n)
{
    uint32_t size = b->m.info.page_size;
    uint64_t most = LL_SHIP_CHUNK / size / LL_SHIP_FRAME * LL_SHIP_FRAME;
    int rc = 0;
    if (most == 0)
        most = LL_SHIP_FRAME;
    forget_damage(b, first, n);
    while (n && !rc) {
        uint64_t now = n < most ? n : most;
        rc = ll_ship_read_pages(b, first, now, b->chunk);
        for (uint64_t i = 0; i < now && !rc; i++)
            rc = take_page(b, first + i, b->chunk + i * size);
        for (uint64_t i = 0; i < now && !rc; i += LL_SHIP_FRAME)
            rc = add_frame(b, first + i,
                           (uint32_t)(now - i < LL_SHIP_FRAME ? now - i : LL_SHIP_FRAME),
                           b->chunk + i * size);
        if (!rc)
            rc = ll_ship_progress(b, now * size);
        first += now;
        n -= now;
    }
    return rc;
}

int ll_ship_put_index(struct ll_ship_backup *b)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_iovec pieces[] = {{b->index.data, b->index.len},
                                   {b->entries.data, b->entries.len}};
    ll_ship_base_name(b->m.info.name, "pages.idx", name);
    return ll_ship_put(b->store, b->mem, name, pieces, 2, b->err);
}

int ll_ship_finish_pages(struct ll_ship_backup *b)
{
    int rc = store_object(b);
    if (rc)
        return rc;
    b->m.index_bytes = b->index.len;
    b->m.index_crc = lladd_crc32c(0, b->index.data, b->index.len);
    b->m.page_entries = b->entries.len;
    b->m.page_entries_crc = lladd_crc32c(0, b->entries.data, b->entries.len);
    b->m.info.stored_bytes += b->index.len + b->entries.len;
    b->m.info.damaged_pages = b->damaged.len / sizeof(uint64_t);
    /* With this planted bug, `copy` puts the index after the manifest. */
    return LLADD_PLANTED(LLADD_BUG_MANIFEST_FIRST) ? 0 : ll_ship_put_index(b);
}
