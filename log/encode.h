/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_ENCODE_H
#define LL_LOG_ENCODE_H
/*
 * encode: encodes records (log_format.h). record.c has the general case and the decoder.
 *
 * A record is written in the narrow form unless a field does not fit: a distance of 32 GiB or more
 * to the previous record of the transaction, to its first, or to the page's previous one; a nesting
 * depth above 7; a redo span of 64 KiB or more. Both forms hold the same information. Only this
 * file, record.c and reserve.c distinguish them.
 *
 * Header fields are stored as words of eight bytes: the checksum reads them back at once, and a
 * load that spans several recent smaller stores would stall. Most records are updates, which are
 * narrow and a few words long: they are copied and checksummed in one pass.
 */
#include "log/log_private.h"
#include "util/crc32c.h"

#include <string.h>

enum {
    FORM_WIDE = LL_RECORD_FORM_WIDE,
    FORM_PADDING_SHIFT = 1,
    FORM_PADDING_MASK = 7,
    FORM_UNDO_NEXT = 16,
    FORM_DEPTH_SHIFT = 5
};

#define NARROW_NO_TXN UINT32_MAX
#define NARROW_NO_PAGE ((UINT64_C(1) << 48) - 1)

static inline uint64_t ll_encode__first_word(unsigned flags, unsigned form, uint32_t op,
                                             uint32_t high)
{
    return flags | form << 8 | op << 16 | (uint64_t)high << 32;
}

/* A distance back in the log, as the narrow form stores it; `none` encodes "no LSN". */
static inline uint32_t ll_encode__back(uint64_t lsn, lladd_lsn to, uint32_t none)
{
    return to.v ? (uint32_t)((lsn - to.v) / LL_RECORD_ALIGN) : none;
}

/* The three words after the LSN of a narrow record. */
static inline void ll_encode__narrow_words(const struct ll_record *rec, unsigned padding,
                                           uint64_t word[3])
{
    uint64_t lsn = rec->lsn.v;
    unsigned form = padding << FORM_PADDING_SHIFT | (rec->undo_next.v ? FORM_UNDO_NEXT : 0u) |
                    rec->depth << FORM_DEPTH_SHIFT;
    word[0] = ll_encode__first_word(rec->flags, form, rec->op, ll_encode__back(lsn, rec->prev, 0));
    word[1] = ll_encode__back(lsn, rec->txn, NARROW_NO_TXN) |
              (uint64_t)ll_encode__back(lsn, rec->page_prev, 0) << 32;
    /* LLADD_NO_PAGE becomes all ones. */
    word[2] = (rec->page & NARROW_NO_PAGE) | (uint64_t)rec->redo.len << 48;
}

static inline uint32_t ll_encode__size_and_kind(uint32_t size, unsigned kind)
{
    return size | kind << 24;
}

/* Encodes any record, all bytes but its LSN. The caller writes the LSN last, because the group
 * writer polls it. rec->lsn and rec->size are set. */
void ll_log__record_encode(const struct ll_record *, uint32_t salt, unsigned char *out);

/* The same for a narrow record with known header words and a contiguous payload. */
static inline void ll_log__encode_words(uint32_t salt, uint32_t head, uint64_t lsn,
                                        const uint64_t word[3], const unsigned char *from, size_t n,
                                        unsigned char *out)
{
    unsigned char *p = out + LL_RECORD_NARROW;
    lladd_put32(out + 4, head);
    lladd_put64(out + 16, word[0]);
    lladd_put64(out + 24, word[1]);
    lladd_put64(out + 32, word[2]);
#ifdef LL_CRC32C_STEPS
    /* A short payload is copied and checksummed in one pass; a longer one is faster in three
     * lanes. */
    if (LL_LIKELY(n <= 64) && ll_crc32c_steps()) {
        uint64_t crc = ll_crc32c_step32((uint32_t)~salt, head);
        crc = ll_crc32c_step64(crc, lsn);
        crc = ll_crc32c_step64(crc, word[0]);
        crc = ll_crc32c_step64(crc, word[1]);
        crc = ll_crc32c_step64(crc, word[2]);
        for (; n >= 8; n -= 8, from += 8, p += 8) {
            uint64_t w = lladd_get64(from);
            lladd_put64(p, w);
            crc = ll_crc32c_step64(crc, w);
        }
        if (n) {
            uint64_t w = lladd_get_few(from, n);
            lladd_put64(p, w); /* the padding too */
            crc = ll_crc32c_step64(crc, w);
        }
        lladd_put32(out, ~(uint32_t)crc);
        return;
    }
#endif
    size_t size = ll_log__align(LL_RECORD_NARROW + n);
    lladd_put64(out + size - 8, n ? 0 : word[2]); /* the padding is in the last eight bytes */
    if (n)
        memcpy(p, from, n);
    lladd_put32(out, ll_crc32c_split(salt, head, lsn, out + 16, size - 16));
}

#endif
