/* SPDX-License-Identifier: BSD-2-Clause */
/* The segments of a log, with bytes in objects of a store.
 *
 * Memory has one window of bytes of one object. The bytes of a backup's objects are checked against
 * the checksum in the manifest. The bytes of the archive's objects have only the checksums of their
 * block headers and records, which replay.c checks. */
#include "ship/image_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

enum { HEADER = LL_SHIP_BLOCK_HEADER, WINDOW = 1 << 20 };
enum {
    AT_INCARNATION = 8,
    AT_LSN = 16,
    AT_BLOCK = 28,
    AT_FIRST = 32,
    AT_CUT = 40,
    AT_SIZE = 48,
    AT_INDEX = 52,
    AT_UUID = 56
};

void ll_ship_image_init(struct ll_ship_image *im, struct ll_ship_mem mem, struct lladd_store *store,
                        const unsigned char uuid[16])
{
    memset(im, 0, sizeof *im);
    im->mem = im->segments.mem = im->pieces.mem = im->window.mem = mem;
    im->store = store;
    im->window_piece = SIZE_MAX;
    memcpy(im->uuid, uuid, sizeof im->uuid);
}

void ll_ship_image_free(struct ll_ship_image *im)
{
    ll_ship_buf_free(&im->segments);
    ll_ship_buf_free(&im->pieces);
    ll_ship_buf_free(&im->window);
}

static struct ll_ship_piece *piece_at(const struct ll_ship_image *im, size_t i)
{
    return (struct ll_ship_piece *)(void *)im->pieces.data + i;
}

static size_t pieces_of(const struct ll_ship_image *im)
{
    return im->pieces.len / sizeof(struct ll_ship_piece);
}

int ll_ship_image_add(struct ll_ship_image *im, const struct ll_ship_image_segment *segment,
                      struct lladd_error *err)
{
    struct ll_ship_image_segment s = *segment;
    s.piece = pieces_of(im);
    s.pieces = 0;
    return ll_ship_append(&im->segments, &s, sizeof s, err);
}

int ll_ship_image_piece(struct ll_ship_image *im, const struct ll_ship_piece *piece,
                        struct lladd_error *err)
{
    int rc = ll_ship_append(&im->pieces, piece, sizeof *piece, err);
    if (!rc)
        ll_ship_image_at(im, ll_ship_image_segments(im) - 1)->pieces++;
    return rc;
}

void ll_ship_image_drop(struct ll_ship_image *im)
{
    size_t last = ll_ship_image_segments(im) - 1;
    im->pieces.len = ll_ship_image_at(im, last)->piece * sizeof(struct ll_ship_piece);
    im->segments.len = last * sizeof(struct ll_ship_image_segment);
    im->window_piece = SIZE_MAX;
}

int ll_ship_image_take(struct ll_ship_image *im, const struct ll_ship_image *from, size_t segment,
                       struct lladd_error *err)
{
    const struct ll_ship_image_segment *s = ll_ship_image_at(from, segment);
    int rc = ll_ship_image_add(im, s, err);
    for (size_t i = 0; i < s->pieces && !rc; i++)
        rc = ll_ship_image_piece(im, piece_at(from, s->piece + i), err);
    return rc;
}

int ll_ship_image_of_base(struct ll_ship_image *im, const struct ll_ship_manifest *m,
                          struct lladd_error *err)
{
    int rc = 0;
    memcpy(im->base, m->info.name, sizeof im->base);
    for (size_t i = 0; i < ll_ship_log_parts(m) && !rc; i++) {
        const struct ll_ship_log_part *p = ll_ship_log_part(m, i);
        struct ll_ship_image_segment s = {
            .first = p->first, .size = (uint32_t)p->segment_size, .limit = UINT64_MAX};
        struct ll_ship_piece piece = {.source = LL_SHIP_IN_BASE,
                                      .first = p->first,
                                      .offset = p->offset,
                                      .bytes = p->bytes,
                                      .crc = p->crc};
        s.block = s.size < LL_SHIP_BLOCK_MOST ? s.size : LL_SHIP_BLOCK_MOST;
        rc = p->offset ? 0 : ll_ship_image_add(im, &s, err);
        if (!rc)
            rc = ll_ship_image_piece(im, &piece, err);
    }
    return rc;
}

/* ---- places --------------------------------------------------------------------------------- */

uint64_t ll_ship_image_offset(const struct ll_ship_image_segment *s, uint64_t lsn)
{
    uint64_t payload = s->block - HEADER, at = lsn - s->first, rest = at % payload;
    return at / payload * s->block + (rest ? HEADER + rest : 0);
}

uint64_t ll_ship_image_have(const struct ll_ship_image *im, size_t segment)
{
    const struct ll_ship_image_segment *s = ll_ship_image_at(im, segment);
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->pieces; i++) {
        const struct ll_ship_piece *p = piece_at(im, s->piece + i);
        if (p->offset > bytes)
            break;
        bytes = p->offset + p->bytes > bytes ? p->offset + p->bytes : bytes;
    }
    uint64_t rest = bytes % s->block;
    uint64_t lsn =
        s->first + bytes / s->block * (s->block - HEADER) + (rest > HEADER ? rest - HEADER : 0);
    return lsn < ll_ship_image_end(s) ? lsn : ll_ship_image_end(s);
}

static void piece_name(const struct ll_ship_image *im, const struct ll_ship_piece *p,
                       char out[LL_SHIP_NAME_MAX])
{
    struct ll_ship_log_part part = {.first = p->first, .offset = p->offset};
    struct ll_ship_stored stored = {p->first, p->from, p->end, p->timeline, p->source, 0};
    if (p->source == LL_SHIP_IN_BASE)
        ll_ship_log_name(im->base, &part, out);
    else
        ll_ship_stored_name(&stored, out);
}

/* The piece with the byte at this offset. If no piece has the byte, the last piece before it. */
static const struct ll_ship_piece *piece_with(const struct ll_ship_image *im, size_t segment,
                                              uint64_t offset)
{
    const struct ll_ship_image_segment *s = ll_ship_image_at(im, segment);
    size_t i = s->pieces;
    while (i > 1 && piece_at(im, s->piece + i - 1)->offset > offset)
        i--;
    return piece_at(im, s->piece + i - 1);
}

void ll_ship_image_name(const struct ll_ship_image *im, size_t segment, uint64_t lsn,
                        char out[LL_SHIP_NAME_MAX])
{
    uint64_t offset = ll_ship_image_offset(ll_ship_image_at(im, segment), lsn);
    piece_name(im, piece_with(im, segment, offset), out);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Reads bytes [at, at+len) of the piece's object into the window, if the window does not have them;
 * *out points to them. */
static int look(struct ll_ship_image *im, size_t piece, uint64_t at, size_t len,
                const unsigned char **out, struct lladd_error *err)
{
    const struct ll_ship_piece *p = piece_at(im, piece);
    bool checked = p->source == LL_SHIP_IN_BASE;
    char name[LL_SHIP_NAME_MAX];
    if (im->window_piece != piece || at < im->window_offset ||
        at + len > im->window_offset + im->window.len) {
        uint64_t from = checked ? 0 : at;
        uint64_t bytes = p->bytes - from;
        if (!checked && bytes > WINDOW)
            bytes = len > WINDOW ? len : WINDOW;
        im->window_piece = SIZE_MAX;
        im->window.len = 0;
        unsigned char *room = ll_ship_room(&im->window, bytes);
        if (!room)
            return ll_ship_no_memory(err);
        piece_name(im, p, name);
        int rc = ll_ship_get(im->store, name, from, room, bytes, err);
        if (rc)
            return rc == LLADD_NOT_FOUND ? ll_ship_corrupt(err, name, "it is missing") : rc;
        if (checked && lladd_crc32c(0, room, bytes) != p->crc)
            return ll_ship_corrupt(err, name, "it is damaged");
        im->window.len = bytes;
        im->window_offset = from;
        im->window_piece = piece;
    }
    *out = im->window.data + (at - im->window_offset);
    return 0;
}

int ll_ship_image_read(struct ll_ship_image *im, size_t segment, void *out, size_t len, uint64_t at,
                       struct lladd_error *err)
{
    const struct ll_ship_image_segment *s = ll_ship_image_at(im, segment);
    uint64_t most = s->limit < ll_ship_image_end(s) ? ll_ship_image_offset(s, s->limit) : s->size;
    unsigned char *bytes = out;
    int rc = 0;
    if (most < HEADER)
        most = HEADER;
    if (at + len < most)
        most = at + len;
    memset(bytes, 0, len);
    for (size_t i = 0; i < s->pieces && !rc; i++) {
        const struct ll_ship_piece *p = piece_at(im, s->piece + i);
        uint64_t from = at > p->offset ? at : p->offset, end = p->offset + p->bytes;
        while (!rc && from < end && from < most) {
            uint64_t n = (end < most ? end : most) - from;
            const unsigned char *here = NULL;
            n = n < WINDOW ? n : WINDOW;
            rc = look(im, s->piece + i, from - p->offset, n, &here, err);
            if (!rc)
                memcpy(bytes + (from - at), here, n);
            from += n;
        }
    }
    return rc;
}

/* ---- headers -------------------------------------------------------------------------------- */

static uint64_t uuid_hash(const unsigned char uuid[16])
{
    uint64_t h = lladd_get64(uuid) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ h >> 32) + lladd_get64(uuid + 8) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

static bool power_of_two(uint64_t v)
{
    return v && (v & (v - 1)) == 0;
}

int ll_ship_image_block(const struct ll_ship_image *im, size_t segment, uint32_t index,
                        const unsigned char h[HEADER], struct lladd_error *err)
{
    const struct ll_ship_image_segment *s = ll_ship_image_at(im, segment);
    uint64_t lsn = s->first + (uint64_t)index * (s->block - HEADER);
    char name[LL_SHIP_NAME_MAX], what[80];
    ll_ship_image_name(im, segment, lsn, name);
    (void)snprintf(what, sizeof what, "the header of the block at byte %llu is damaged",
                   (unsigned long long)index * s->block);
    if (memcmp(h + 4, "LLB1", 4) != 0 || lladd_get32(h) != lladd_crc32c(0, h + 4, HEADER - 4))
        return ll_ship_corrupt(err, name, what);
    if (lladd_get64(h + AT_UUID) != uuid_hash(im->uuid))
        return lladd_error_set(err, LLADD_FOREIGN_FILE,
                               "\"%.150s\" in the store belongs to another database", name);
    if (lladd_get64(h + AT_FIRST) != s->first || lladd_get32(h + AT_INDEX) != index ||
        lladd_get64(h + AT_LSN) != lsn ||
        (s->incarnation && (lladd_get64(h + AT_INCARNATION) != s->incarnation ||
                            lladd_get32(h + AT_SIZE) != s->size)))
        return ll_ship_corrupt(err, name, what);
    return 0;
}

int ll_ship_image_head(struct ll_ship_image *im, size_t segment, struct lladd_error *err)
{
    unsigned char h[HEADER];
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_image_segment *s = ll_ship_image_at(im, segment);
    s->incarnation = 0;
    int rc = ll_ship_image_read(im, segment, h, sizeof h, 0, err);
    if (!rc)
        rc = ll_ship_image_block(im, segment, 0, h, err);
    if (rc)
        return rc;
    uint32_t size = lladd_get32(h + AT_SIZE), block = lladd_get32(h + AT_BLOCK);
    bool fits = power_of_two(size) && size >= 4096 && size <= UINT32_C(1) << 31 &&
                block == (size < LL_SHIP_BLOCK_MOST ? size : LL_SHIP_BLOCK_MOST) &&
                (s->size == 0 || s->size == size) && lladd_get64(h + AT_CUT) <= s->first &&
                lladd_get64(h + AT_INCARNATION) != 0;
    ll_ship_image_name(im, segment, s->first, name);
    if (!fits)
        return ll_ship_corrupt(err, name, "its first header is inconsistent");
    s->cut = lladd_get64(h + AT_CUT);
    s->incarnation = lladd_get64(h + AT_INCARNATION);
    s->size = size;
    s->block = block;
    return 0;
}
