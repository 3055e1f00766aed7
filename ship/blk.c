/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of a part of a spool: pages that a transaction has written in bulk (docs/backup.md).
 *
 *   header      "LLBLK1", uuid, timeline, page size, transaction, number of the part, CRC
 *   pieces      barrier, first page, number of pages, CRC of the pages, CRC of all these fields;
 *               then the pages
 *   end         a piece without pages: it says how many pages the part has, and whether it is the
 *               last part
 *
 * So a reader notices a part that was cut off anywhere, and a part that is missing. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = "LLBLK1";
enum {
    AT_UUID = 8,
    AT_TIMELINE = 24,
    AT_SIZE = 28,
    AT_TXN = 32,
    AT_PART = 40,
    AT_CRC = 44,
    PIECE_PAGE = 8,
    PIECE_N = 16,
    PIECE_FLAGS = 20,
    PIECE_PAGES_CRC = 24,
    PIECE_CRC = 28,
    TYPED = 1,
    LAST = 2
};

static int fail(const char *name, const char *what, struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%.150s\": %s", name, what);
}

void ll_ship_blk_name(uint32_t timeline, uint64_t txn, uint32_t part, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "t%08x/bulk/%016llx.%04x.blk", timeline,
                   (unsigned long long)txn, part);
}

void ll_ship_blk_header(const struct ll_ship_blk *b, unsigned char out[LL_SHIP_BLK_HEADER])
{
    memcpy(out, magic, sizeof magic);
    memcpy(out + AT_UUID, b->uuid, sizeof b->uuid);
    lladd_put32(out + AT_TIMELINE, b->timeline);
    lladd_put32(out + AT_SIZE, b->page_size);
    lladd_put64(out + AT_TXN, b->txn);
    lladd_put32(out + AT_PART, b->part);
    lladd_put32(out + AT_CRC, lladd_crc32c(0, out, AT_CRC));
}

static void encode(uint64_t barrier, uint64_t page, uint32_t n, uint32_t flags, uint32_t pages_crc,
                   unsigned char out[LL_SHIP_BLK_PIECE])
{
    lladd_put64(out, barrier);
    lladd_put64(out + PIECE_PAGE, page);
    lladd_put32(out + PIECE_N, n);
    lladd_put32(out + PIECE_FLAGS, flags);
    lladd_put32(out + PIECE_PAGES_CRC, pages_crc);
    lladd_put32(out + PIECE_CRC, lladd_crc32c(0, out, PIECE_CRC));
}

void ll_ship_blk_piece(const struct ll_ship_blk_piece *p, uint32_t page_size,
                       unsigned char out[LL_SHIP_BLK_PIECE])
{
    encode(p->barrier, p->page, p->n, p->typed ? TYPED : 0,
           lladd_crc32c(0, p->bytes, (size_t)p->n * page_size), out);
}

void ll_ship_blk_end(uint64_t pages, bool last, unsigned char out[LL_SHIP_BLK_PIECE])
{
    encode(0, pages, 0, last ? LAST : 0, 0, out);
}

int ll_ship_blk_begin(struct ll_ship_blk *b, const char *name, const void *bytes, size_t len,
                      struct lladd_error *err)
{
    const unsigned char *h = bytes;
    if (len < LL_SHIP_BLK_HEADER || memcmp(h, magic, sizeof magic) != 0 ||
        lladd_get32(h + AT_CRC) != lladd_crc32c(0, h, AT_CRC))
        return fail(name, "its header is damaged", err);
    *b = (struct ll_ship_blk){.timeline = lladd_get32(h + AT_TIMELINE),
                              .page_size = lladd_get32(h + AT_SIZE),
                              .txn = lladd_get64(h + AT_TXN),
                              .part = lladd_get32(h + AT_PART),
                              .name = name,
                              .bytes = h,
                              .len = len,
                              .at = LL_SHIP_BLK_HEADER};
    memcpy(b->uuid, h + AT_UUID, sizeof b->uuid);
    return b->page_size < 512 ? fail(name, "its page size is wrong", err) : 0;
}

bool ll_ship_blk_head(const unsigned char p[LL_SHIP_BLK_PIECE], struct ll_ship_blk_piece *out,
                      uint32_t *pages_crc, bool *last)
{
    uint32_t n = lladd_get32(p + PIECE_N), flags = lladd_get32(p + PIECE_FLAGS);
    *out = (struct ll_ship_blk_piece){lladd_get64(p), lladd_get64(p + PIECE_PAGE), n,
                                      (flags & TYPED) != 0, NULL};
    *pages_crc = lladd_get32(p + PIECE_PAGES_CRC);
    *last = n == 0 && (flags & LAST) != 0;
    return lladd_get32(p + PIECE_CRC) == lladd_crc32c(0, p, PIECE_CRC);
}

int ll_ship_blk_next(struct ll_ship_blk *b, struct ll_ship_blk_piece *out, struct lladd_error *err)
{
    const unsigned char *p = b->bytes + b->at;
    if (b->ended)
        return LLADD_END;
    if (b->len - b->at < LL_SHIP_BLK_PIECE)
        return fail(b->name, "it ends too early", err);
    uint32_t crc;
    bool last;
    if (!ll_ship_blk_head(p, out, &crc, &last))
        return fail(b->name, "the header of a piece is damaged", err);
    b->at += LL_SHIP_BLK_PIECE;
    if (out->n == 0) {
        if (out->page != b->pages)
            return fail(b->name, "pages are missing", err);
        b->last = last;
        b->ended = true;
        return LLADD_END;
    }
    if (out->n > (b->len - b->at) / b->page_size)
        return fail(b->name, "it ends too early", err);
    size_t len = (size_t)out->n * b->page_size;
    if (crc != lladd_crc32c(0, b->bytes + b->at, len))
        return fail(b->name, "pages are damaged", err);
    out->bytes = b->bytes + b->at;
    b->at += len;
    b->pages += out->n;
    return 0;
}

int ll_ship_blk_open(struct ll_ship_blk *b, const char *name, const struct ll_ship_buf *bytes,
                     const struct ll_ship_blk *want, struct lladd_error *err)
{
    int rc = ll_ship_blk_begin(b, name, bytes->data, bytes->len, err);
    if (rc)
        return rc;
    if (memcmp(b->uuid, want->uuid, sizeof b->uuid) != 0)
        return lladd_error_set(err, LLADD_FOREIGN_FILE,
                               "\"%.150s\" in the store belongs to another database", name);
    return b->page_size != want->page_size || b->txn != want->txn || b->part != want->part
               ? ll_ship_corrupt(err, name, "its header does not fit its name")
               : 0;
}
