/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies pages of an open database into frames.
 *
 * The page file is read past the cache, while pages are written to it. A read of a page that is
 * being written may return a torn page, with a wrong checksum; then the page is read again, unless
 * it is raw or free: the bytes of such a page are taken as they are. If the checksum stays wrong,
 * the page may be damaged; copy_damage.c finds out whether it is, and repairs it. */
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

/* *out: LLADD_USE_SYSTEM if the allocation bitmap is damaged. */
static int use_of(struct ll_ship_backup *b, uint64_t number, enum lladd_page_use *out)
{
    int rc = lladd_page_use_get(b->db, lladd_page_of(number), out, b->err);
    if (lladd_code_root(rc) != LLADD_ROOT_DATA)
        return rc;
    *out = LLADD_USE_SYSTEM;
    return 0;
}

/* The bytes of such a page count as they are, even if another page was in its place when they were
 * read: that page was freed before E, and a bulk write of this one is copied again. */
static bool is_taken_as_it_is(enum lladd_page_use use)
{
    return use == LLADD_USE_RAW || use == LLADD_USE_NONE;
}

/* The use of the page is found out first, because a raw page has a wrong checksum each time that it
 * is read. */
int ll_ship_look_closer(struct ll_ship_backup *b, uint64_t number, unsigned char *page)
{
    enum lladd_page_use use = LLADD_USE_NONE;
    bool ok = false;
    if (!b->db) /* outside.c copies the page again, and finds out whether it is damaged */
        return ll_ship_append(&b->damaged, &number, sizeof number, b->err);
    int rc = use_of(b, number, &use);
    if (rc || is_taken_as_it_is(use))
        return rc;
    rc = read_again(b, number, page, &ok);
    if (rc || ok)
        return rc;
    rc = use_of(b, number, &use);
    if (rc || is_taken_as_it_is(use))
        return rc;
    if (!b->repairing)
        return ll_ship_suspect(b, number);
    return use == LLADD_USE_FREED ? 0
                                  : ll_ship_append(&b->damaged, &number, sizeof number, b->err);
}

/* ---- objects -------------------------------------------------------------------------------- */

static int put_pages(const struct ll_ship_backup *b, const struct ll_ship_buf *object, size_t part,
                     struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct lladd_iovec piece = {object->data, object->len};
    ll_ship_pages_name(b->m.info.name, part, name);
    return ll_ship_put(b->store, b->mem, name, &piece, 1, err);
}

/* Notes the object of frames; its number is that of the last part. */
static int note_object(struct ll_ship_backup *b)
{
    struct ll_ship_pages_part part = {b->object.len,
                                      lladd_crc32c(0, b->object.data, b->object.len)};
    b->m.info.stored_bytes += b->object.len;
    return ll_ship_append(&b->m.pages, &part, sizeof part, b->err);
}

int ll_ship_flush_pages(struct ll_ship_backup *b)
{
    if (b->object.len == 0)
        return 0;
    int rc = put_pages(b, &b->object, ll_ship_pages_parts(&b->m), b->err);
    if (!rc)
        rc = note_object(b);
    b->object.len = 0;
    return rc;
}

/* ---- a chunk -------------------------------------------------------------------------------- */

/* The copy of a range of pages. Each thread reads and compresses chunks of pages, with buffers of
 * its own. The frames are then added to the backup in the order of the pages, so the objects are
 * the same with any number of threads. */
struct copying {
    struct ll_ship_backup *b;
    uint64_t first, n, each; /* the range; pages of a chunk */
    struct copier *copiers;  /* one for each thread */
};

struct copier {
    /* With buffers, suspects, damaged pages and a page LSN of its own. `index` has struct
     * ll_ship_frame: where the frames will be is not known yet. */
    struct ll_ship_backup own;
    struct ll_ship_buf full; /* an object that has no room for more frames */
    size_t part;             /* its number */
};

static int add_entry(struct ll_ship_backup *own, uint64_t number, const unsigned char *page)
{
    unsigned char entry[LL_SHIP_PAGE_ENTRY];
    ll_ship_page_entry_encode(page_ok(own, number, page) ? lladd_get64(page + PAGE_LSN) : 0,
                              lladd_crc32c(0, page, own->m.info.page_size), entry);
    return ll_ship_append(&own->entries, entry, sizeof entry, own->err);
}

static int make_frame(struct ll_ship_backup *own, uint64_t first, uint32_t n,
                      const unsigned char *pages)
{
    int plain = (int)(n * own->m.info.page_size);
    int len = LZ4_compress_fast_extState(own->lz4, (const char *)pages, (char *)own->packed, plain,
                                         plain - 1, 1);
    const void *bytes = len > 0 ? own->packed : pages;
    struct ll_ship_frame f = {
        .first = first, .n = n, .bytes = (uint32_t)(len > 0 ? len : plain)};
    f.crc = lladd_crc32c(0, bytes, f.bytes);
    int rc = ll_ship_append(&own->object, bytes, f.bytes, own->err);
    if (!rc)
        rc = ll_ship_append(&own->index, &f, sizeof f, own->err);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_entry(own, first + i, pages + (size_t)i * own->m.info.page_size);
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

static uint64_t pages_in(const struct copying *y, uint64_t ticket)
{
    uint64_t left = y->n - ticket * y->each;
    return left < y->each ? left : y->each;
}

static int make_chunk(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct copying *y = ctx;
    struct ll_ship_backup *own = &y->copiers[thread].own;
    uint64_t first = y->first + ticket * y->each, n = pages_in(y, ticket);
    uint32_t size = own->m.info.page_size;
    own->err = err;
    own->object.len = own->index.len = own->entries.len = 0;
    own->suspects.len = own->damaged.len = 0;
    int rc = ll_ship_read_pages(own, first, n, own->chunk);
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = take_page(own, first + i, own->chunk + i * size);
    for (uint64_t i = 0; i < n && !rc; i += LL_SHIP_FRAME)
        rc = make_frame(own, first + i, (uint32_t)(n - i < LL_SHIP_FRAME ? n - i : LL_SHIP_FRAME),
                        own->chunk + i * size);
    return rc;
}

/* With several threads, the thread that ends an object stores it while others go on. A chunk is
 * much smaller than an object, so it ends at most one. */
static int end_object(struct ll_ship_backup *b, struct copier *c)
{
    struct ll_ship_buf ended = b->object;
    if (b->threads <= 1)
        return ll_ship_flush_pages(b);
    c->part = ll_ship_pages_parts(&b->m);
    int rc = note_object(b);
    if (rc)
        return rc;
    b->object = c->full;
    b->object.len = 0;
    c->full = ended;
    return 0;
}

static int add_frames(struct ll_ship_backup *b, struct copier *c)
{
    const unsigned char *bytes = c->own.object.data;
    size_t n = c->own.index.len / sizeof(struct ll_ship_frame);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct ll_ship_frame f = ((const struct ll_ship_frame *)(const void *)c->own.index.data)[i];
        unsigned char entry[LL_SHIP_FRAME_ENTRY];
        if (b->object.len + (size_t)f.n * b->m.info.page_size > LL_SHIP_OBJECT_MAX)
            rc = end_object(b, c);
        f.part = (uint32_t)ll_ship_pages_parts(&b->m);
        f.offset = (uint32_t)b->object.len;
        ll_ship_frame_encode(&f, entry);
        if (!rc)
            rc = ll_ship_append(&b->object, bytes, f.bytes, b->err);
        if (!rc)
            rc = ll_ship_append(&b->index, entry, sizeof entry, b->err);
        bytes += f.bytes;
    }
    return rc;
}

static int add_made(struct ll_ship_backup *b, struct copier *c)
{
    const struct ll_ship_backup *own = &c->own;
    int rc = add_frames(b, c);
    if (!rc)
        rc = ll_ship_append(&b->entries, own->entries.data, own->entries.len, b->err);
    if (!rc)
        rc = ll_ship_append(&b->suspects, own->suspects.data, own->suspects.len, b->err);
    if (!rc)
        rc = ll_ship_append(&b->damaged, own->damaged.data, own->damaged.len, b->err);
    b->newest = own->newest > b->newest ? own->newest : b->newest;
    return rc;
}

static int add_chunk(void *ctx, unsigned thread, uint64_t ticket, struct lladd_error *err)
{
    const struct copying *y = ctx;
    struct ll_ship_backup *b = y->b;
    struct lladd_error *had = b->err;
    b->err = err;
    int rc = add_made(b, &y->copiers[thread]);
    if (!rc)
        rc = ll_ship_progress(b, pages_in(y, ticket) * b->m.info.page_size);
    b->err = had;
    return rc;
}

static int put_full(const struct ll_ship_backup *b, struct copier *c, struct lladd_error *err)
{
    int rc = c->full.len ? put_pages(b, &c->full, c->part, err) : 0;
    c->full.len = 0;
    return rc;
}

static int store_ended(void *ctx, unsigned thread, struct lladd_error *err)
{
    const struct copying *y = ctx;
    return put_full(y->b, &y->copiers[thread], err);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int prepare(struct copier *c, const struct ll_ship_backup *b, unsigned threads)
{
    struct ll_ship_buf none = {.mem = b->mem};
    c->own = *b;
    c->own.object = c->own.index = c->own.entries = c->own.suspects = c->own.damaged = none;
    c->own.newest = 0;
    c->full = none;
    if (threads <= 1) /* the buffers of the backup */
        return 0;
    c->own.chunk = c->own.packed = c->own.lz4 = NULL;
    return ll_ship_backup_room(&c->own);
}

static void release(struct copier *c, unsigned threads)
{
    if (threads > 1) {
        ll_ship_delete(c->own.mem, c->own.chunk);
        ll_ship_delete(c->own.mem, c->own.packed);
        ll_ship_delete(c->own.mem, c->own.lz4);
    }
    ll_ship_buf_free(&c->own.object);
    ll_ship_buf_free(&c->own.index);
    ll_ship_buf_free(&c->own.entries);
    ll_ship_buf_free(&c->own.suspects);
    ll_ship_buf_free(&c->own.damaged);
    ll_ship_buf_free(&c->full);
}

int ll_ship_add_frame(struct ll_ship_backup *b, uint64_t first, uint32_t n,
                      const unsigned char *pages)
{
    struct copier c;
    int rc = prepare(&c, b, 1);
    if (!rc)
        rc = make_frame(&c.own, first, n, pages);
    if (!rc)
        rc = add_made(b, &c);
    if (!rc)
        rc = put_full(b, &c, b->err);
    release(&c, 1);
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
    struct copying y = {.b = b, .first = first, .n = n};
    y.each = LL_SHIP_CHUNK / b->m.info.page_size / LL_SHIP_FRAME * LL_SHIP_FRAME;
    if (y.each == 0)
        y.each = LL_SHIP_FRAME;
    struct ll_ship_job job = {&y, (n + y.each - 1) / y.each, make_chunk, add_chunk, store_ended};
    unsigned threads = job.tickets < b->threads ? (unsigned)job.tickets : b->threads;
    forget_damage(b, first, n);
    if (threads == 0)
        return 0;
    y.copiers = ll_ship_new(b->mem, threads * sizeof *y.copiers);
    if (!y.copiers)
        return ll_ship_no_memory(b->err);
    int rc = 0;
    for (unsigned i = 0; i < threads; i++)
        rc = rc ? rc : prepare(&y.copiers[i], b, threads);
    if (!rc)
        rc = ll_ship_crew(&job, threads, b->mem, b->err);
    for (unsigned i = 0; i < threads; i++)
        release(&y.copiers[i], threads);
    ll_ship_delete(b->mem, y.copiers);
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
    int rc = ll_ship_flush_pages(b);
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
