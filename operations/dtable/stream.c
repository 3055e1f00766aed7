/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes streams of bytes into extents.
 *
 * A stream is a sequence of blocks of `block_pages` whole pages; the last block has only as many
 * pages as it needs. A page has a header and then contents; the contents of a block are read as one
 * piece. Each block has a checksum in the run's descriptor, over the run, the stream, the number of
 * the block and its contents. Unlike the page checksums, it detects pages that are intact but
 * stale, or that belong to another block.
 *
 * Bytes are staged in page layout, up to 256 KiB per stream. If all streams of a run fit into their
 * stages, the run allocates exactly the pages it needs, at once. A longer run allocates extents,
 * each as long as all before it together, up to 8 MiB, and distributes their pages to its streams.
 * Streams share extents because each extent costs a force of the log (its redo barrier must be
 * durable before its pages are written), and a run may have a hundred streams. Unused pages are
 * freed in the end. */
#include "operations/dtable/build.h"

#define STAGE_BYTES (256u << 10)
#define EXTENT_BYTES (8u << 20)

static uint32_t body_of(const struct lladd_dtable_writer *w)
{
    return lladd_body_size(lladd_page_size(w->run->db));
}

int ll_dtable__writer(struct lladd_dtable_run_builder *run, uint32_t layer, bool packs,
                      const char *name, struct lladd_dtable_writer **out)
{
    size_t len = strlen(name);
    struct lladd_dtable_writer *w = lladd_alloc(run->db, sizeof *w);
    if (!w)
        return ll_dtable__no_memory(run->error);
    *w = (struct lladd_dtable_writer){.run = run, .number = run->d.n_streams, .packs = packs};
    w->stream.layer = layer;
    if (len == 0 || len >= sizeof w->stream.name || run->d.n_streams == LL_DTABLE_STREAMS_MAX) {
        lladd_free(run->db, w);
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT, "a stream \"%s\", number %u", name,
                               run->d.n_streams);
    }
    memcpy(w->stream.name, name, len + 1);
    run->d.n_streams++;
    if (run->last_writer)
        run->last_writer->next = w;
    else
        run->writers = w;
    run->last_writer = w;
    *out = w;
    return 0;
}

/* ---- extents --------------------------------------------------------------------------------- */

static int take_extent(struct lladd_dtable_writer *w, uint64_t need)
{
    struct lladd_dtable_run_builder *run = w->run;
    struct ll_dtable_stream *s = &w->stream;
    uint64_t page = lladd_page_size(run->db), unit = run->d.block_pages;
    uint64_t max = EXTENT_BYTES / page, all = 0;
    if (ll_dtable__grow(run->db, (void **)&s->extents, s->n_extents, &s->cap_extents,
                        sizeof *s->extents))
        return ll_dtable__no_memory(run->error);
    for (size_t i = 0; i < s->n_extents; i++)
        all += s->extents[i].pages;
    max = max < lladd_extent_max(run->db) ? max : lladd_extent_max(run->db);
    uint64_t want = all > need ? all : need;
    want = want < max ? want : max;
    if (want > unit)
        want -= want % unit; /* blocks do not go over the end of an extent */
    struct ll_dtable_extent e = {0, want, s->n_blocks};
    lladd_pageno first;
    int rc = lladd_extent_alloc(run->txn, e.pages, LLADD_EXTENT_BULK, &first);
    while (rc == LLADD_NO_SPACE && e.pages > unit) {
        e.pages = e.pages / 2 > unit ? e.pages / 2 - e.pages / 2 % unit : unit;
        rc = lladd_extent_alloc(run->txn, e.pages, LLADD_EXTENT_BULK, &first);
    }
    if (rc)
        return rc;
    e.first = first.v;
    s->extents[s->n_extents++] = e;
    w->spare = e.pages;
    return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The checksum of a staged block of `len` bytes that begins on page `page` of the stage. */
static uint32_t checksum(const struct lladd_dtable_writer *w, size_t page, size_t len)
{
    uint32_t size = lladd_page_size(w->run->db), body = body_of(w);
    uint32_t crc = ll_dtable__block_seed(w->run->d.id, w->number, w->stream.n_blocks);
    while (len) {
        size_t n = len < body ? len : body;
        crc = lladd_crc32c(crc, w->stage + page * size + LLADD_PAGE_HEADER, n);
        len -= n;
        page++;
    }
    return crc;
}

/* Writes `pages` of the stage from `page` on, which hold `len` bytes. */
static int write_blocks(struct lladd_dtable_writer *w, size_t page, size_t pages, size_t len)
{
    struct lladd_dtable_run_builder *run = w->run;
    struct ll_dtable_stream *s = &w->stream;
    uint32_t unit = run->d.block_pages, body = body_of(w);
    const struct ll_dtable_extent *e = &s->extents[s->n_extents - 1];
    lladd_pageno to = lladd_page_of(e->first + e->pages - w->spare);
    for (size_t i = 0; i < pages; i += unit) {
        size_t left = len - i * body, n = left < (size_t)unit * body ? left : (size_t)unit * body;
        if (ll_dtable__grow(run->db, (void **)&s->crcs, s->n_blocks, &s->cap_blocks,
                            sizeof *s->crcs))
            return ll_dtable__no_memory(run->error);
        s->crcs[s->n_blocks] = checksum(w, page + i, n);
        s->n_blocks++;
    }
    int rc = lladd_bulk_write(run->txn, to, pages, ll_dtable__page.name,
                              w->stage + page * lladd_page_size(run->db));
    w->spare -= pages;
    return rc;
}

/* Writes all that is staged: whole blocks, except for the last one of the stream. */
static int flush(struct lladd_dtable_writer *w)
{
    uint32_t body = body_of(w);
    size_t pages = (w->fill + body - 1) / body, page = 0, len = w->fill;
    int rc = 0;
    while (page < pages && !rc) {
        if (w->spare == 0)
            rc = take_extent(w, pages - page);
        if (rc)
            break;
        size_t n = pages - page < w->spare ? pages - page : (size_t)w->spare;
        size_t bytes = n * body < len ? n * body : len;
        rc = write_blocks(w, page, n, bytes);
        page += n;
        len -= bytes;
    }
    w->fill = 0;
    return rc;
}

/* Makes room in the stage: for *out bytes, at least one. */
static int room(struct lladd_dtable_writer *w, size_t *out)
{
    struct lladd_dtable_run_builder *run = w->run;
    uint32_t size = lladd_page_size(run->db), unit = run->d.block_pages, body = body_of(w);
    size_t most = STAGE_BYTES / size > unit ? STAGE_BYTES / size : unit;
    most -= most % unit;
    int rc = 0;
    if (w->fill == w->stage_pages * body && w->stage_pages < most) {
        size_t pages = w->stage_pages ? w->stage_pages * 2 : 1;
        pages = pages < most ? pages : most;
        unsigned char *stage = lladd_resize(run->db, w->stage, pages * size);
        if (!stage)
            return ll_dtable__no_memory(run->error);
        w->stage = stage;
        w->stage_pages = pages;
    } else if (w->fill == w->stage_pages * body) {
        rc = flush(w);
    }
    *out = w->stage_pages * body - w->fill;
    return rc;
}

int ll_dtable__write(struct lladd_dtable_writer *w, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    uint32_t size = lladd_page_size(w->run->db), body = body_of(w);
    int rc = 0;
    while (len && !rc) {
        size_t there;
        rc = room(w, &there);
        if (rc)
            break;
        size_t page = w->fill / body, at = w->fill % body, n = body - at < len ? body - at : len;
        lladd_copy(w->stage + page * size + LLADD_PAGE_HEADER + at, from, n);
        w->fill += n;
        w->stream.size += n;
        from += n;
        len -= n;
    }
    return rc;
}

int lladd_dtable_write(struct lladd_dtable_writer *w, const void *bytes, size_t len)
{
    int rc = w->run->broken;
    if (!rc)
        rc = w->packs ? ll_dtable__pack(w, bytes, len) : ll_dtable__write(w, bytes, len);
    if (rc)
        w->run->broken = rc;
    return rc;
}

uint64_t lladd_dtable_written(const struct lladd_dtable_writer *w)
{
    return w->packs ? w->size : w->stream.size;
}

int lladd_dtable_pad(struct lladd_dtable_writer *w)
{
    static const unsigned char zeros[64];
    uint32_t block = w->run->d.block_size;
    int rc = 0;
    while (lladd_dtable_written(w) % block && !rc) {
        uint64_t left = block - lladd_dtable_written(w) % block;
        rc = lladd_dtable_write(w, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros);
    }
    return rc;
}

int lladd_dtable_write_cell(struct lladd_dtable_writer *w, const void *bytes, size_t len)
{
    uint32_t block = w->run->d.block_size;
    int rc = 0;
    if (len > block)
        return lladd_error_set(w->run->error, LLADD_TOO_LARGE,
                               "a cell of %zu bytes, and blocks have %u", len, block);
    if (block - lladd_dtable_written(w) % block < len)
        rc = lladd_dtable_pad(w);
    return rc ? rc : lladd_dtable_write(w, bytes, len);
}

/* ---- the end --------------------------------------------------------------------------------- */

int ll_dtable__writer_end(struct lladd_dtable_writer *w)
{
    struct ll_dtable_stream *s = &w->stream;
    uint32_t body = body_of(w), size = lladd_page_size(w->run->db);
    int rc = w->packs ? ll_dtable__pack_end(w) : 0;
    if (rc)
        return rc;
    if (w->fill % body) { /* of the last page the rest: zeros */
        unsigned char *page = w->stage + w->fill / body * size + LLADD_PAGE_HEADER;
        memset(page + w->fill % body, 0, body - w->fill % body);
    }
    rc = flush(w);
    if (rc || w->spare == 0)
        return rc;
    struct ll_dtable_extent *e = &s->extents[s->n_extents - 1];
    rc = lladd_extent_free(w->run->txn, lladd_page_of(e->first + e->pages - w->spare), w->spare);
    e->pages -= rc ? 0 : w->spare;
    w->spare = rc ? w->spare : 0;
    s->n_extents -= e->pages == 0;
    return rc;
}

int ll_dtable__writer_discard(struct lladd_dtable_writer *w)
{
    int rc = 0;
    for (size_t i = 0; i < w->stream.n_extents; i++) {
        const struct ll_dtable_extent *e = &w->stream.extents[i];
        int freed = lladd_extent_free(w->run->txn, lladd_page_of(e->first), e->pages);
        rc = rc ? rc : freed;
    }
    w->stream.n_extents = 0;
    return rc;
}

void ll_dtable__writer_free(struct lladd_dtable_writer *w)
{
    struct lladd_db *db = w->run->db;
    lladd_free(db, w->stage);
    lladd_free(db, w->lz4);
    lladd_free(db, w->map);
    lladd_free(db, w->stream.extents);
    lladd_free(db, w->stream.crcs);
    lladd_free(db, w);
}
