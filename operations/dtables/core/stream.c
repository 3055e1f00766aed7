/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes streams of bytes into extents.
 *
 * A stream is a sequence of blocks of `block_pages` pages; the last block of a stream has only the
 * pages that it needs. The run's descriptor has a checksum for each block, over the run's id, the
 * numbers of the stream and the block, and the contents. Unlike a page's checksum, a block's
 * checksum detects pages that are intact but stale, or that belong to another block.
 *
 * Each stream stages up to 256 KiB in page layout, or one block if that is longer. If all streams
 * of a run fit into their stages, the run is written when it ends, to exactly the pages that it
 * needs. A longer run allocates extents of up to 8 MiB (refill), divides their pages among its
 * streams, and frees the pages that it does not use. Streams share extents because each extent
 * costs a force of the log (its redo barrier must be durable before its pages are written), and a
 * run may have many streams. */
#include "operations/dtables/core/build.h"

#include <lladd/bulk.h>

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
    struct lladd_dtable_writer *w = lladd_mem_alloc(run->db, sizeof *w);
    if (!w)
        return ll_dtable__no_memory(run->error);
    *w = (struct lladd_dtable_writer){.run = run, .number = run->d.n_streams, .packs = packs};
    w->stream.layer = layer;
    if (len == 0 || len >= sizeof w->stream.name || run->d.n_streams == LL_DTABLE_STREAMS_MAX) {
        lladd_mem_free(run->db, w);
        return lladd_error_set(run->error, LLADD_BAD_ARGUMENT,
                               "stream \"%s\" of a run, after %u others: its name is empty or "
                               "too long, or the run has too many streams",
                               name, run->d.n_streams);
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

static size_t staged_pages(const struct lladd_dtable_writer *w)
{
    return (w->fill + body_of(w) - 1) / body_of(w);
}

/* Allocates another extent for all streams: `need` pages for the caller, and the pages that the
 * other streams have staged. Unless the run is ending, the extent is at least as long as all
 * earlier ones together. Three limits may make it shorter, even shorter than `need`: EXTENT_BYTES,
 * the longest possible extent, and the space in the page file. */
static int refill(struct lladd_dtable_run_builder *run, uint64_t need)
{
    uint64_t page = lladd_page_size(run->db), unit = run->d.block_pages;
    uint64_t max = EXTENT_BYTES / page, want = need;
    TRY(ll_dtable__give_spare(run)); /* frees the remaining spare pages, fewer than a block */
    for (const struct lladd_dtable_writer *w = run->writers; w; w = w->next)
        want += w->flushing ? 0 : staged_pages(w);
    max = max < lladd_extent_max(run->db) ? max : lladd_extent_max(run->db);
    want = want > run->taken || run->ending ? want : run->taken;
    want = want < max ? want : max;
    lladd_pageno first;
    int rc = lladd_extent_alloc(run->txn, want, LLADD_EXTENT_BULK, &first);
    while (rc == LLADD_NO_SPACE && want > unit) {
        want = want / 2 > unit ? want / 2 - want / 2 % unit : unit;
        rc = lladd_extent_alloc(run->txn, want, LLADD_EXTENT_BULK, &first);
    }
    if (rc)
        return rc;
    run->spare_from = run->spare = first.v;
    run->spare_pages = want;
    run->taken += want;
    return 0;
}

/* Gives the stream *n spare pages, at most `need`: whole blocks, except that the stream's last
 * block may be shorter. If these pages follow the stream's last pages in the same allocation, they
 * lengthen the stream's last extent. */
static int take_pages(struct lladd_dtable_writer *w, uint64_t need, uint64_t *n)
{
    struct lladd_dtable_run_builder *run = w->run;
    struct ll_dtable_stream *s = &w->stream;
    uint64_t unit = run->d.block_pages;
    if (run->spare_pages < (need < unit ? need : unit))
        TRY(refill(run, need));
    if (ll_operations__grow(run->db, &s->extents, s->n_extents + 1, &s->cap_extents,
                            sizeof *s->extents))
        return ll_dtable__no_memory(run->error);
    *n = need <= run->spare_pages ? need : run->spare_pages - run->spare_pages % unit;
    struct ll_dtable_extent *last = s->n_extents ? &s->extents[s->n_extents - 1] : NULL;
    if (last && last->first + last->pages == run->spare && run->spare > run->spare_from)
        last->pages += *n;
    else
        s->extents[s->n_extents++] = (struct ll_dtable_extent){run->spare, *n, s->n_blocks};
    run->spare += *n;
    run->spare_pages -= *n;
    return 0;
}

int ll_dtable__give_spare(struct lladd_dtable_run_builder *run)
{
    int rc = run->spare_pages
                 ? lladd_extent_free(run->txn, lladd_page_of(run->spare), run->spare_pages)
                 : 0;
    run->taken -= rc ? 0 : run->spare_pages;
    run->spare_pages = rc ? run->spare_pages : 0;
    return rc;
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

/* Writes `pages` pages of the stage, from `page` on, to the page file, from page `to` on. The pages
 * hold `len` bytes of the stream. */
static int write_blocks(struct lladd_dtable_writer *w, size_t page, size_t pages, size_t len,
                        uint64_t to)
{
    struct lladd_dtable_run_builder *run = w->run;
    struct ll_dtable_stream *s = &w->stream;
    uint32_t unit = run->d.block_pages, body = body_of(w);
    for (size_t i = 0; i < pages; i += unit) {
        size_t left = len - i * body, n = left < (size_t)unit * body ? left : (size_t)unit * body;
        if (ll_operations__grow(run->db, &s->crcs, s->n_blocks + 1, &s->cap_blocks,
                            sizeof *s->crcs))
            return ll_dtable__no_memory(run->error);
        s->crcs[s->n_blocks] = checksum(w, page + i, n);
        s->n_blocks++;
    }
    return lladd_bulk_write(run->txn, lladd_page_of(to), pages, ll_dtable__page.name,
                            w->stage + page * lladd_page_size(run->db));
}

/* Writes all that is staged. The caller has staged whole blocks, or the end of the stream. */
static int flush(struct lladd_dtable_writer *w)
{
    uint32_t body = body_of(w);
    size_t pages = staged_pages(w), page = 0, len = w->fill;
    int rc = 0;
    w->flushing = true;
    while (page < pages && !rc) {
        uint64_t n = 0;
        rc = take_pages(w, pages - page, &n);
        if (rc)
            break;
        size_t bytes = n * body < len ? (size_t)n * body : len;
        rc = write_blocks(w, page, (size_t)n, bytes, w->run->spare - n);
        page += (size_t)n;
        len -= bytes;
    }
    w->flushing = false;
    w->fill = 0;
    return rc;
}

/* Makes room in the stage. On 0, *out is the number of bytes that fit, at least one. */
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
        unsigned char *stage = lladd_mem_resize(run->db, w->stage, pages * size);
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
                               "a cell of %zu bytes is longer than a block of %u", len, block);
    if (block - lladd_dtable_written(w) % block < len)
        rc = lladd_dtable_pad(w);
    return rc ? rc : lladd_dtable_write(w, bytes, len);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Writes the rest of a stream. Called when all streams are complete: the number of pages is not
 * known earlier. */
static int end_writer(struct lladd_dtable_writer *w)
{
    uint32_t body = body_of(w), size = lladd_page_size(w->run->db);
    if (w->fill % body) { /* writes zeros to the end of the last page */
        unsigned char *page = w->stage + w->fill / body * size + LLADD_PAGE_HEADER;
        memset(page + w->fill % body, 0, body - w->fill % body);
    }
    return flush(w);
}

int ll_dtable__writers_end(struct lladd_dtable_run_builder *run)
{
    int rc = 0;
    for (struct lladd_dtable_writer *w = run->writers; w && !rc; w = w->next)
        rc = w->packs ? ll_dtable__pack_end(w) : 0;
    run->ending = true;
    for (struct lladd_dtable_writer *w = run->writers; w && !rc; w = w->next)
        rc = end_writer(w);
    return rc ? rc : ll_dtable__give_spare(run);
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
    lladd_mem_free(db, w->stage);
    lladd_mem_free(db, w->lz4);
    lladd_mem_free(db, w->map);
    lladd_mem_free(db, w->stream.extents);
    lladd_mem_free(db, w->stream.crcs);
    lladd_mem_free(db, w);
}
