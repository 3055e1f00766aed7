/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * double_write: the double-write area, for pages that no image in the log protects (BUF-5).
 *
 * A loss of power may tear a page that is being written. Redo rebuilds the page from its base,
 * unless redo starts after the base. So before the writer writes a page with such an old base, it
 * logs an image, which is a new base. If the writer cannot log an image (BUF-5 lists the reasons),
 * it first writes the page to this area, which is a small file. The file's blocks are allocated
 * when the file is made or extended, so writing to it needs no disk space (REC-3).
 *
 * Protocol, one batch at a time; a batch that is larger than the area is divided:
 *   1. write two equal headers and the copies to the area; sync the area.
 *   2. write the pages to their places; sync the page file.
 *   3. write zeros over both headers; sync the area.
 *
 * A crash in step 1 may leave inconsistent headers or copies, but no torn page in the page file.
 * A crash in step 2 leaves copies of all pages that may be torn, and two equal headers. So if a
 * header is empty, or the headers are whole and differ, no page is torn. If one header cannot be
 * read or is damaged, the other one decides. Step 3 is needed because the same
 * pages may later be written without the area, after an image of them was logged. Without step 3,
 * after a crash that tore such a write, restoring would put the old copy in place of the torn page.
 * Redo of a torn page begins at its base. The old copy is intact but older than the base, so redo
 * would apply records of newer contents to the old copy. For the same reason the copies that an
 * earlier open left are restored and cleared before the first page is written.
 *
 * Data that can be read are not always durable (REC-4). Restoring therefore first rewrites and
 * syncs the area, then rewrites every page that has a copy, syncs the page file, and does step 3. A
 * crash during the rewriting leaves the area as it was, because the bytes are the same. An area
 * that is read as empty is emptied once more.
 *
 * Earlier versions wrote one header. Where their header can be read, it decides alone; otherwise
 * their area counts as empty, and a page that is torn is found by its checksum.
 *
 * The bytes of the area: docs/disk-format.md, "dwb". dwb_latch is held for a whole batch.
 */
#include "buffer/buffer_private.h"
#include "util/crc32c.h"

#include <errno.h>

static const unsigned char MAGIC[8] = {'L', 'L', 'A', 'D', 'D', 'd', 'w', 'b'};

enum {
    VERSION = 3,
    HEADERS = 2,
    PAGES_MOST = 257,
    AT_VERSION = 8,
    AT_SALT = 12,
    AT_PAGE_SIZE = 16,
    AT_COUNT = 20,
    AT_ENTRIES = 24,
    ENTRY = 12
};

static unsigned char *header(const struct ll_buffer *b)
{
    return b->dwb_scratch;
}

static unsigned char *room_for_copy(const struct ll_buffer *b)
{
    return b->dwb_scratch + HEADERS * (size_t)b->page_size;
}

/* The most pages of an area, with its headers. */
static uint32_t most_pages(uint32_t page_size)
{
    uint32_t n = (1u << 20) / page_size + 1;
    return n < PAGES_MOST ? n : PAGES_MOST;
}

static int get_scratch(struct ll_buffer *b, struct lladd_error *err)
{
    if (!b->dwb_scratch)
        b->dwb_scratch = ll_alloc(b->env, (HEADERS + 1) * (size_t)b->page_size);
    if (b->dwb_scratch)
        return 0;
    return ll_fail(err, LLADD_NO_MEMORY, "no memory for the double-write area");
}

/* ---- create, open, close ---- */

int ll_buffer__double_write_create(struct ll_buffer *b, struct lladd_error *err)
{
    struct lladd_device *dev = b->cfg.dev;
    const char *name = b->cfg.dwb_name;
    int rc = get_scratch(b, err);
    if (rc != 0)
        return rc;
    rc = dev->ops->open(dev, name, LLADD_OPEN_CREATE | LLADD_OPEN_EXCLUSIVE, &b->dwb);
    if (rc != 0) {
        b->dwb = NULL;
        if (rc == -EEXIST)
            return ll_fail(err, LLADD_EXISTS, "\"%s\" exists already", name);
        return ll_fail_io(err, rc, true, "create", name);
    }
    memset(header(b), 0, b->page_size);
    for (uint64_t i = 0; i < DWB_LEAST; i++) {
        rc = ll_io_pwrite(dev, b->dwb, header(b), b->page_size, i * b->page_size);
        if (rc != 0)
            return ll_fail_io(err, rc, true, "write to", name);
    }
    rc = ll_io_sync(dev, b->dwb);
    if (rc != 0)
        return ll_fail_io(err, rc, true, "sync", name);
    b->dwb_pages = DWB_LEAST - HEADERS;
    lladd_atomic_store32(&b->dwb_checked, 1);
    return 0;
}

int ll_buffer__double_write_close(struct ll_buffer *b)
{
    ll_free(b->env, b->dwb_scratch);
    return b->dwb ? ll_io_close(b->cfg.dev, b->dwb) : 0;
}

/* Under dwb_latch. */
static int open_area(struct ll_buffer *b, struct lladd_error *err)
{
    struct lladd_device *dev = b->cfg.dev;
    int rc = get_scratch(b, err);
    if (rc != 0 || b->dwb)
        return rc;
    rc = dev->ops->open(dev, b->cfg.dwb_name, 0, &b->dwb);
    if (rc != 0) {
        b->dwb = NULL;
        if (rc == -ENOENT)
            return ll_fail(err, LLADD_MISSING_FILE, "the double-write area \"%s\" is missing",
                           b->cfg.dwb_name);
        return ll_fail_io(err, rc, false, "open", b->cfg.dwb_name);
    }
    uint64_t size = 0, pages = most_pages(b->page_size);
    rc = ll_io_size(dev, b->dwb, &size);
    if (rc != 0)
        return ll_fail_io(err, rc, false, "get the size of", b->cfg.dwb_name);
    size /= b->page_size;
    pages = size < pages ? size : pages;
    b->dwb_pages = (uint32_t)(pages < DWB_LEAST ? DWB_LEAST : pages) - HEADERS;
    return 0;
}

/* ---- restoring ---- */

static bool is_intact(const unsigned char *h, uint32_t page_size)
{
    return memcmp(h, MAGIC, sizeof MAGIC) == 0 &&
           lladd_get32(h + page_size - 4) == ll_crc32c(0, h, page_size - 4);
}

lladd_pageno ll_double_write_page(const void *header, uint32_t i)
{
    return lladd_page_of(lladd_get64((const unsigned char *)header + AT_ENTRIES + i * ENTRY));
}

static int decode(struct ll_double_write *a, struct lladd_error *err)
{
    const unsigned char *h = a->header;
    uint32_t version = lladd_get32(h + AT_VERSION), n = lladd_get32(h + AT_COUNT);
    if (version == 0 || version > VERSION)
        return ll_fail(err, LLADD_NEWER_FORMAT,
                       "the double-write area \"%s\": its header has version %u", a->name, version);
    if (lladd_get32(h + AT_SALT) != a->salt || lladd_get32(h + AT_PAGE_SIZE) != a->page_size)
        return ll_fail(err, LLADD_FOREIGN_FILE,
                       "the double-write area \"%s\": it belongs to another database", a->name);
    a->first = version == VERSION ? HEADERS : 1;
    bool fits = n <= (version == 1 ? DWB_LEAST : most_pages(a->page_size)) - a->first;
    for (uint32_t i = 0; fits && i < n; i++)
        fits = ll_double_write_page(h, i).v < (uint64_t)INT64_MAX / a->page_size;
    if (!fits)
        return ll_fail(err, LLADD_CORRUPT_PAGE,
                       "the double-write area \"%s\": its header is inconsistent", a->name);
    a->count = n;
    return 0;
}

enum found { ZEROS, WHOLE, TORN, UNREAD };

/* Returns an error if the area cannot be used at all. */
static int read_header(const struct ll_double_write *a, unsigned which, enum found *is,
                       struct lladd_error *err)
{
    unsigned char *h = a->header + which * (size_t)a->page_size;
    int io = ll_io_read_full(a->dev, a->file, h, a->page_size, which * (uint64_t)a->page_size);
    if (io == -ENODATA && which == 0)
        return ll_fail(err, LLADD_MISSING_FILE, "the double-write area \"%s\" is too short",
                       a->name);
    if (io == 0)
        *is = ll_page_is_zero(h, a->page_size) ? ZEROS : is_intact(h, a->page_size) ? WHOLE : TORN;
    else
        *is = io == -ENODATA ? TORN : UNREAD;
    int rc = *is == UNREAD ? ll_fail_io(err, io, false, "read", a->name) : 0;
    return rc == LLADD_READ_FAILED ? 0 : rc;
}

int ll_double_write_look(struct ll_double_write *a, struct lladd_error *err)
{
    unsigned char *second = a->header + a->page_size;
    enum found one, two;
    a->count = 0;
    a->flaw = 0;
    int rc = read_header(a, 0, &one, err);
    if (rc == 0)
        rc = read_header(a, 1, &two, err);
    if (rc != 0)
        return rc;
    if (one == UNREAD && two == UNREAD)
        return LLADD_READ_FAILED; /* *err is set */
    if (one == WHOLE && lladd_get32(a->header + AT_VERSION) < VERSION)
        return decode(a, err);
    bool same = one == WHOLE && two == WHOLE && memcmp(a->header, second, a->page_size) == 0;
    if (one == UNREAD || two == UNREAD)
        a->flaw = LLADD_READ_FAILED;
    else if (!same && (one != ZEROS || two == WHOLE))
        a->flaw = LLADD_CORRUPT_PAGE;
    if (one == ZEROS && two != WHOLE) /* in place of the second, earlier versions had a copy */
        return LLADD_END;
    if (one == ZEROS || two == ZEROS || (one != WHOLE && two != WHOLE) ||
        (one == two && one == WHOLE && !same))
        return 0;
    if (one != WHOLE)
        memcpy(a->header, second, a->page_size);
    return decode(a, err);
}

static bool is_whole(const struct ll_buffer *b, lladd_pageno n, const unsigned char *bytes)
{
    return ll_page_verify(b->cfg.salt, n, bytes, b->page_size, b->cfg.name, NULL) == 0;
}

static int put_page(struct ll_buffer *b, lladd_pageno n, unsigned char *bytes,
                    struct lladd_error *err)
{
    struct lladd_iovec piece = {bytes, b->page_size};
    int rc = ll_buffer__write_run(b, &piece, 1, n.v, 1, err);
    if (rc == 0)
        ll_buffer__note_write(b);
    return rc;
}

/* Reads copy i (page n). LLADD_END: the copy is not complete, so step 2 did not begin. */
static int read_copy(struct ll_buffer *b, const struct ll_double_write *a, uint32_t i,
                     lladd_pageno n, unsigned char *bytes, struct lladd_error *err)
{
    const unsigned char *entry = header(b) + AT_ENTRIES + i * ENTRY;
    int rc = ll_io_read_full(b->cfg.dev, b->dwb, bytes, b->page_size,
                             (a->first + i) * (uint64_t)b->page_size);
    if (rc == -ENODATA)
        return LLADD_END;
    if (rc != 0)
        return ll_fail_io(err, rc, false, "read", b->cfg.dwb_name);
    bool whole = ll_page_checksum(bytes) == lladd_get32(entry + 8) && is_whole(b, n, bytes);
    return whole ? 0 : LLADD_END;
}

/* Rewrites the page of copy i, even if the page in the file is intact. After a failed sync the page
 * may exist only in the operating system's cache (REC-4). A page that cannot be read counts as
 * torn. */
static int restore_one(struct ll_buffer *b, const struct ll_double_write *a, uint32_t i,
                       uint64_t *restored, struct lladd_error *err)
{
    lladd_pageno n = ll_double_write_page(header(b), i);
    unsigned char *bytes = room_for_copy(b);
    if (n.v >= ll_buffer_file_pages(b))
        return 0; /* the file has no page n that could be torn */
    int rc = ll_buffer__read_pages(b, n.v, 1, bytes, err);
    if (rc != 0 && rc != LLADD_READ_FAILED)
        return rc;
    bool torn = rc || !is_whole(b, n, bytes);
    uint64_t lsn = ll_page_lsn(bytes).v;
    rc = read_copy(b, a, i, n, bytes, err);
    if (rc == LLADD_END)
        return 0;
    /* A whole page is rewritten as it is, if it is newer than the copy, or the copy is lost. */
    if (!torn && (rc == LLADD_READ_FAILED || (rc == 0 && lsn > ll_page_lsn(bytes).v)))
        rc = ll_buffer__read_pages(b, n.v, 1, bytes, err);
    if (rc == 0)
        rc = put_page(b, n, bytes, err);
    *restored += rc == 0 && torn;
    return rc;
}

/* `rc`: the result of the write to the area. */
static int sync_area(struct ll_buffer *b, int rc, struct lladd_error *err)
{
    if (rc != 0)
        return ll_buffer__poison(b, rc, "write to", b->cfg.dwb_name, err);
    rc = ll_io_sync(b->cfg.dev, b->dwb);
    return rc == 0 ? 0 : ll_buffer__poison(b, rc, "sync", b->cfg.dwb_name, err);
}

/* Writes header(b) over the first n headers. One call for each header, so that a single lost write
 * leaves the other header right. */
static int write_headers(struct ll_buffer *b, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = ll_io_pwrite(b->cfg.dev, b->dwb, header(b), b->page_size, i * (uint64_t)b->page_size);
    return rc;
}

/* Makes the area durable before pages are restored from it (REC-4). */
static int rewrite_area(struct ll_buffer *b, const struct ll_double_write *a,
                        struct lladd_error *err)
{
    unsigned char *bytes = room_for_copy(b);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < a->count; i++) {
        uint64_t at = (a->first + i) * (uint64_t)b->page_size;
        rc = ll_io_read_full(b->cfg.dev, b->dwb, bytes, b->page_size, at);
        if (rc == -ENODATA) { /* the area ends here: no more copies */
            rc = 0;
            break;
        }
        if (rc != 0 && ll_io_code(rc, false) != LLADD_READ_FAILED)
            return ll_fail_io(err, rc, false, "read", b->cfg.dwb_name);
        /* A copy that cannot be read is needed only if its page is torn (restore_one). */
        rc = rc == 0 ? ll_io_pwrite(b->cfg.dev, b->dwb, bytes, b->page_size, at) : 0;
    }
    return sync_area(b, rc == 0 ? write_headers(b, a->first) : rc, err);
}

static int clear(struct ll_buffer *b, struct lladd_error *err)
{
    memset(header(b), 0, b->page_size);
    return sync_area(b, write_headers(b, HEADERS), err);
}

/* Under dwb_latch. */
static int restore(struct ll_buffer *b, bool unclean, uint64_t *restored, struct lladd_error *err)
{
    int rc = open_area(b, err);
    if (rc != 0)
        return rc;
    struct ll_double_write a = {.dev = b->cfg.dev,
                                .file = b->dwb,
                                .name = b->cfg.dwb_name,
                                .page_size = b->page_size,
                                .salt = b->cfg.salt,
                                .header = header(b)};
    rc = ll_double_write_look(&a, err);
    if (rc == LLADD_END && !unclean && a.flaw == 0)
        return 0;
    /* After a clean stop no page is torn, so a header that cannot be read is not needed.
     *
     * An empty header may be only in the operating system's cache (REC-4). After another crash the
     * copies must not come back, because their pages may have newer contents then. So after an
     * unclean stop step 3 is repeated. Before a clean stop the sync of step 3 has succeeded. A torn
     * header is cleared, because `lladd verify` would report it after the next clean stop. */
    if (rc == LLADD_END || (rc == LLADD_READ_FAILED && !unclean) || (rc == 0 && a.count == 0))
        return clear(b, err);
    if (rc == 0)
        rc = rewrite_area(b, &a, err);
    for (uint32_t i = 0; rc == 0 && i < a.count; i++)
        rc = restore_one(b, &a, i, restored, err);
    if (rc == 0)
        rc = ll_buffer_sync(b, err);
    return rc == 0 ? clear(b, err) : rc;
}

static int restore_once(struct ll_buffer *b, bool unclean, uint64_t *restored,
                        struct lladd_error *err)
{
    int rc = 0;
    lladd_mutex_lock(&b->dwb_latch);
    if (!lladd_atomic_load32(&b->dwb_checked))
        rc = restore(b, unclean, restored, err);
    if (rc == 0)
        lladd_atomic_store32(&b->dwb_checked, 1);
    lladd_mutex_unlock(&b->dwb_latch);
    return rc;
}

int ll_buffer__double_write_ready(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t restored = 0;
    if (!b->cfg.dwb_name || lladd_atomic_load32(&b->dwb_checked))
        return 0;
    return restore_once(b, false, &restored, err);
}

int ll_buffer_double_write_restore(struct ll_buffer *b, uint64_t *restored, struct lladd_error *err)
{
    uint64_t n = 0;
    int rc = ll_buffer__check(b, err);
    if (rc == 0 && b->cfg.dwb_name)
        rc = restore_once(b, true, &n, err);
    if (restored)
        *restored = n;
    return rc;
}

/* ---- writing ---- */

/* Grows the area once, at the first need, if the disk has room. */
static int grow(struct ll_buffer *b, struct lladd_error *err)
{
    uint64_t had = b->dwb_pages + HEADERS, pages = most_pages(b->page_size);
    if (b->dwb_grown || had >= pages)
        return 0;
    b->dwb_grown = true;
    int rc = ll_buffer__grow(b, b->dwb, had * b->page_size, pages * b->page_size);
    if (rc != 0 && lladd_code_root(ll_io_code(rc, true)) == LLADD_ROOT_RESOURCE)
        return 0;
    rc = sync_area(b, rc, err);
    b->dwb_pages = rc == 0 ? (uint32_t)pages - HEADERS : b->dwb_pages;
    return rc;
}

/* Writes the pieces at *at and advances *at. */
static int write_pieces(struct ll_buffer *b, const struct lladd_iovec *pieces, unsigned n,
                        uint64_t *at)
{
    int rc = ll_io_pwritev(b->cfg.dev, b->dwb, pieces, (int)n, *at);
    *at += n * (uint64_t)b->page_size;
    return rc;
}

/* `n`: the number of copies with `dwb`. */
static int write_area(struct ll_buffer *b, const struct ll_buffer__copy *copies, unsigned n,
                      struct lladd_error *err)
{
    unsigned char *h = header(b);
    struct lladd_iovec pieces[RUN_MAX];
    uint64_t at = 0;
    memset(h, 0, b->page_size);
    memcpy(h, MAGIC, sizeof MAGIC);
    lladd_put32(h + AT_VERSION, VERSION);
    lladd_put32(h + AT_SALT, b->cfg.salt);
    lladd_put32(h + AT_PAGE_SIZE, b->page_size);
    lladd_put32(h + AT_COUNT, n);
    const struct ll_buffer__copy *c = copies;
    for (unsigned i = 0; i < n; c++) {
        if (!c->dwb)
            continue;
        lladd_put64(h + AT_ENTRIES + i * ENTRY, c->page);
        lladd_put32(h + AT_ENTRIES + i++ * ENTRY + 8, ll_page_checksum(c->bytes));
    }
    lladd_put32(h + b->page_size - 4, ll_crc32c(0, h, b->page_size - 4));
    int rc = ll_point(b->env, "buffer.dwb.before");
    unsigned some = 0;
    while (some < HEADERS)
        pieces[some++] = (struct lladd_iovec){h, b->page_size};
    for (c = copies; rc == 0 && n > 0; c++) {
        if (!c->dwb)
            continue;
        if (some == RUN_MAX) {
            rc = write_pieces(b, pieces, some, &at);
            some = 0;
        }
        pieces[some++] = (struct lladd_iovec){c->bytes, b->page_size};
        n--;
    }
    return sync_area(b, rc == 0 ? write_pieces(b, pieces, some, &at) : rc, err);
}

/* Does steps 1 to 3 for all copies with `dwb`, in portions for which the area has room. Under
 * dwb_latch. */
static int write_through(struct ll_buffer *b, const struct ll_buffer__copy *copies, unsigned n,
                         struct lladd_error *err)
{
    int rc = 0;
    while (rc == 0 && n > 0) {
        unsigned some = 0, end = 0;
        for (; end < n && some < b->dwb_pages; end++)
            some += copies[end].dwb;
        if (some == 0)
            break;
        rc = write_area(b, copies, some, err);
        if (rc == 0)
            rc = ll_buffer__write_copies(b, copies, end, true, err);
        if (rc != 0)
            break;
        ll_buffer__in_flight_done(b, copies, end, true);
        rc = ll_buffer_sync(b, err);
        if (rc == 0)
            rc = clear(b, err);
        copies += end;
        n -= end;
    }
    return rc;
}

int ll_buffer__double_write(struct ll_buffer *b, const struct ll_buffer__copy *copies, unsigned n,
                            struct lladd_error *err)
{
    unsigned all = 0;
    for (unsigned i = 0; i < n; i++)
        all += copies[i].dwb;
    if (all == 0)
        return 0;
    LL_ASSERT(lladd_atomic_load32(&b->dwb_checked));
    lladd_mutex_lock(&b->dwb_latch);
    int rc = all > b->dwb_pages ? grow(b, err) : 0;
    if (rc == 0)
        rc = write_through(b, copies, n, err);
    lladd_mutex_unlock(&b->dwb_latch);
    return rc;
}
