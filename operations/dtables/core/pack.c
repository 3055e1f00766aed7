/* SPDX-License-Identifier: BSD-2-Clause */
/* Compressed streams. If a class `packs`, the streams of all layers below it are compressed, each
 * block by itself.
 *
 * A layer sees the uncompressed length and the uncompressed blocks, so array_dtable and
 * fixed_dtable find rows by arithmetic as in any stream. The stored stream consists of:
 *
 *   - the blocks without gaps, compressed by LZ4; a block of which LZ4 saves less than an eighth is
 *     stored uncompressed
 *   - the map: for each block the u32 length and the u32 CRC-32C of its stored bytes
 *   - the u64 uncompressed length of the stream
 *
 * If the stream is empty, nothing is stored. The stored stream is divided into blocks and pages
 * like any other, with the same checksums. Opening a run reads the map by whole blocks: their
 * checksums show that the map belongs to the run. The map stays in memory. Reading a compressed
 * block reads only the pages that contain it: the pages' checksums, and the CRC in the map, show
 * that the block is intact and the right one (CACHE-3). */
#include "operations/dtables/core/build.h"

#include <lladd/bulk.h>
#include <lz4.h>

enum { ENTRY = 8, TAIL = 8 };

/* ---- written --------------------------------------------------------------------------------- */

static int pack_block(struct lladd_dtable_writer *w)
{
    struct lladd_dtable_run_builder *run = w->run;
    size_t len = w->plain_len;
    const unsigned char *out = w->plain;
    if (ll_operations__grow(run->db, &w->map, w->n_map + 1, &w->cap_map, sizeof *w->map))
        return ll_dtable__no_memory(run->error);
    int packed = LZ4_compress_fast_extState(w->lz4, (const char *)w->plain, (char *)w->packed,
                                            (int)len, (int)(len - len / 8), 1);
    if (packed > 0 && len >= 8) {
        out = w->packed;
        len = (size_t)packed;
    }
    w->map[w->n_map++] = (struct ll_dtable_packed){(uint32_t)len, lladd_crc32c(0, out, len)};
    w->plain_len = 0;
    return ll_dtable__write(w, out, len);
}

int ll_dtable__pack(struct lladd_dtable_writer *w, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    size_t block = w->run->d.block_size;
    int rc = 0;
    if (len && !w->plain) {
        /* On the heap: the caller's stack may be as small as 16 KiB. */
        w->lz4 = lladd_mem_alloc(w->run->db, (size_t)LZ4_sizeofState() + 2 * block);
        w->plain = w->lz4 ? (unsigned char *)w->lz4 + LZ4_sizeofState() : NULL;
        w->packed = w->plain ? w->plain + block : NULL;
        rc = w->plain ? 0 : ll_dtable__no_memory(w->run->error);
    }
    while (len && !rc) {
        size_t n = block - w->plain_len < len ? block - w->plain_len : len;
        lladd_copy(w->plain + w->plain_len, from, n);
        w->plain_len += n;
        w->size += n;
        from += n;
        len -= n;
        if (w->plain_len == block)
            rc = pack_block(w);
    }
    return rc;
}

int ll_dtable__pack_end(struct lladd_dtable_writer *w)
{
    unsigned char entry[ENTRY];
    int rc = w->plain_len ? pack_block(w) : 0;
    for (size_t i = 0; i < w->n_map && !rc; i++) {
        lladd_put32(entry, w->map[i].len);
        lladd_put32(entry + 4, w->map[i].crc);
        rc = ll_dtable__write(w, entry, sizeof entry);
    }
    lladd_put64(entry, w->size);
    return rc || w->size == 0 ? rc : ll_dtable__write(w, entry, TAIL);
}

/* ---- read ------------------------------------------------------------------------------------ */

static int bad_map(const struct lladd_dtable_source *s, struct lladd_error *err)
{
    return ll_dtable__damaged(s, s->stream->n_blocks ? s->stream->n_blocks - 1 : 0,
                              lladd_page_of(LLADD_NO_PAGE), LLADD_CORRUPT_RUN,
                              "invalid map of compressed blocks", err);
}

/* Reads bytes of the stored stream. Reads whole blocks, to verify their checksums. */
static int stored(const struct lladd_dtable_source *s, uint64_t at, size_t len, unsigned char *out,
                  struct lladd_error *err)
{
    struct lladd_db *db = s->run->all->db;
    unsigned char *block = lladd_mem_alloc(db, (size_t)s->run->d.block_pages * lladd_page_size(db));
    int rc = block ? 0 : ll_dtable__no_memory(err);
    while (len && !rc) {
        uint32_t from = (uint32_t)(at % s->block_size), have;
        rc = ll_dtable__fetch(s, at / s->block_size, block, &have, err);
        if (rc)
            break;
        size_t n = have - from < len ? have - from : len;
        memcpy(out, block + from, n);
        out += n;
        at += n;
        len -= n;
    }
    lladd_mem_free(db, block);
    return rc;
}

/* Fills in the map. False if a block's length is impossible, or if the lengths do not add up to
 * `all`, the bytes stored before the map. */
static bool fill_map(struct lladd_dtable_source *s, const unsigned char *entries, uint64_t all)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < s->n_blocks; i++) {
        uint64_t left = s->size - i * s->block_size;
        uint32_t len = lladd_get32(entries + ENTRY * i);
        if (len == 0 || len > (left < s->block_size ? left : s->block_size))
            return false;
        s->map[i] = (struct ll_dtable_place){end, len, lladd_get32(entries + ENTRY * i + 4)};
        end += len;
    }
    return end == all;
}

int ll_dtable__packed_open(struct lladd_dtable_source *s, struct lladd_error *err)
{
    struct lladd_db *db = s->run->all->db;
    uint64_t all = s->stream->size;
    unsigned char tail[TAIL];
    s->packed = true;
    s->size = s->n_blocks = 0;
    if (all == 0)
        return 0;
    TRY(all < TAIL ? bad_map(s, err) : stored(s, all - TAIL, TAIL, tail, err));
    s->size = lladd_get64(tail);
    uint64_t n = s->size / s->block_size + (s->size % s->block_size != 0);
    if (n == 0 || n > (all - TAIL) / (ENTRY + 1) || n > SIZE_MAX / 64) {
        s->size = 0;
        return bad_map(s, err);
    }
    s->n_blocks = n;
    unsigned char *entries = lladd_mem_alloc(db, (size_t)n * ENTRY);
    s->map = ll_dtable__zeros(db, (size_t)n, sizeof *s->map);
    int rc = entries && s->map ? stored(s, all - TAIL - n * ENTRY, (size_t)n * ENTRY, entries, err)
                               : ll_dtable__no_memory(err);
    if (!rc && !fill_map(s, entries, all - TAIL - n * ENTRY))
        rc = bad_map(s, err);
    lladd_mem_free(db, entries);
    return rc;
}

/* Reads pages of the stored stream from `page` on, and removes the page headers. */
static int read_pages(const struct lladd_dtable_source *s, uint64_t block, uint64_t page,
                      uint32_t pages, unsigned char *out, struct lladd_error *err)
{
    struct lladd_db *db = s->run->all->db;
    struct lladd_error why = LLADD_ERROR_INIT;
    uint32_t size = lladd_page_size(db), body = lladd_body_size(size), done = 0;
    while (done < pages) {
        uint32_t unit = s->run->d.block_pages;
        const struct ll_dtable_extent *e = ll_dtable__extent_of(s->stream, (page + done) / unit);
        uint64_t skip = page + done - e->block * unit;
        uint32_t n = e->pages - skip < pages - done ? (uint32_t)(e->pages - skip) : pages - done;
        lladd_pageno first = lladd_page_of(e->first + skip);
        int rc = lladd_bulk_read(db, first, n, false, out + (size_t)done * size, &why);
        if (rc)
            return ll_dtable__damaged(s, block, first, rc, why.message, err);
        done += n;
    }
    for (uint32_t i = 0; i < pages; i++)
        memmove(out + (size_t)i * body, out + (size_t)i * size + LLADD_PAGE_HEADER, body);
    return 0;
}

int ll_dtable__unpack(const struct lladd_dtable_source *s, uint64_t block, unsigned char *buffer,
                      uint32_t *len, struct lladd_error *err)
{
    struct lladd_db *db = s->run->all->db;
    const struct ll_dtable_place *at = &s->map[block];
    uint32_t size = lladd_page_size(db), body = lladd_body_size(size);
    uint64_t left = s->size - block * s->block_size, page = at->from / body;
    uint32_t n = left < s->block_size ? (uint32_t)left : s->block_size;
    uint32_t pages = (uint32_t)((at->from + at->len - 1) / body - page + 1);
    unsigned char *room = lladd_mem_alloc(db, (size_t)pages * size);
    if (!room)
        return ll_dtable__no_memory(err);
    int rc = read_pages(s, block, page, pages, room, err);
    const unsigned char *bytes = room + at->from % body;
    const char *why = NULL;
    if (!rc && lladd_crc32c(0, bytes, at->len) != at->crc)
        why = "the checksum is wrong";
    else if (!rc && at->len == n)
        memcpy(buffer, bytes, n);
    else if (!rc && LZ4_decompress_safe((const char *)bytes, (char *)buffer, (int)at->len,
                                        (int)n) != (int)n)
        why = "it cannot be decompressed";
    if (why) {
        const struct ll_dtable_extent *e =
            ll_dtable__extent_of(s->stream, page / s->run->d.block_pages);
        rc = ll_dtable__damaged(s, block,
                                lladd_page_of(e->first + page -
                                              e->block * s->run->d.block_pages),
                                LLADD_CORRUPT_RUN, why, err);
    }
    lladd_mem_free(db, room);
    *len = n;
    return rc;
}
