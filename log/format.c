/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes and decodes block headers and file names (log_format.h). */
#include "log/log_format.h"
#include "util/crc32c.h"
#include "util/env.h"

#include <string.h>

void ll_log__block_encode(const struct ll_log__block *b, unsigned char out[LL_LOG_BLOCK_HEADER])
{
    lladd_put32(out + 4, LL_LOG_BLOCK_MAGIC);
    lladd_put64(out + 8, b->incarnation);
    lladd_put64(out + 16, b->lsn);
    lladd_put32(out + 24, b->first_record);
    lladd_put32(out + 28, b->block_size);
    lladd_put64(out + 32, b->segment_first);
    lladd_put64(out + 40, b->cut);
    lladd_put32(out + 48, b->segment_size);
    lladd_put32(out + 52, b->index);
    lladd_put64(out + 56, b->uuid_hash);
    lladd_put32(out, ll_crc32c(0, out + 4, LL_LOG_BLOCK_HEADER - 4));
}

static bool consistent(const struct ll_log__block *b)
{
    if (!ll_power_of_two(b->segment_size) || b->segment_size < LL_LOG_SEGMENT_MIN ||
        b->segment_size > LL_LOG_SEGMENT_MAX ||
        b->block_size != ll_log__block_size(b->segment_size))
        return false;
    uint32_t room = b->block_size - LL_LOG_BLOCK_HEADER;
    bool first_known = b->first_record == LL_LOG_BLOCK_NONE ||
                       (b->first_record == LL_LOG_BLOCK_UNKNOWN && b->index == 0) ||
                       (b->first_record < room && b->first_record % LL_RECORD_ALIGN == 0);
    return first_known && b->segment_first < LL_LOG_LSN_END &&
           b->segment_first % LL_RECORD_ALIGN == 0 && b->cut <= b->segment_first &&
           b->cut % LL_RECORD_ALIGN == 0 && b->index < b->segment_size / b->block_size &&
           b->lsn == b->segment_first + (uint64_t)b->index * room;
}

bool ll_log__block_decode(const unsigned char in[LL_LOG_BLOCK_HEADER], struct ll_log__block *b)
{
    if (lladd_get32(in + 4) != LL_LOG_BLOCK_MAGIC ||
        lladd_get32(in) != ll_crc32c(0, in + 4, LL_LOG_BLOCK_HEADER - 4))
        return false;
    b->incarnation = lladd_get64(in + 8);
    b->lsn = lladd_get64(in + 16);
    b->first_record = lladd_get32(in + 24);
    b->block_size = lladd_get32(in + 28);
    b->segment_first = lladd_get64(in + 32);
    b->cut = lladd_get64(in + 40);
    b->segment_size = lladd_get32(in + 48);
    b->index = lladd_get32(in + 52);
    b->uuid_hash = lladd_get64(in + 56);
    return consistent(b);
}

uint64_t ll_log__uuid_hash(const unsigned char uuid[16])
{
    /* Any function that uses all bits would do. */
    uint64_t h = lladd_get64(uuid) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32) + lladd_get64(uuid + 8) * 0xc2b2ae3d27d4eb4fu;
}

void ll_log__name(enum ll_log__kind kind, uint64_t first, char out[LL_LOG_NAME_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    memcpy(out, LL_LOG_DIR "/", 4);
    if (kind == LL_LOG__TMP) {
        memcpy(out + 4, LL_LOG_TMP_NAME, sizeof LL_LOG_TMP_NAME);
        return;
    }
    for (unsigned i = 0; i < 16; i++)
        out[4 + i] = digits[first >> (60 - 4 * i) & 15];
    memcpy(out + 20, kind == LL_LOG__NEW ? LL_LOG_NEW_SUFFIX : LL_LOG_SUFFIX, sizeof LL_LOG_SUFFIX);
}

enum ll_log__kind ll_log__parse_name(const char *name, uint64_t *first)
{
    uint64_t v = 0;
    *first = 0;
    if (strcmp(name, LL_LOG_TMP_NAME) == 0)
        return LL_LOG__TMP;
    for (unsigned i = 0; i < 16; i++) {
        char c = name[i];
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        else
            return LL_LOG__OTHER;
    }
    bool new = strcmp(name + 16, LL_LOG_NEW_SUFFIX) == 0;
    if (v >= LL_LOG_LSN_END || (!new &&strcmp(name + 16, LL_LOG_SUFFIX) != 0))
        return LL_LOG__OTHER;
    *first = v;
    return new ? LL_LOG__NEW : LL_LOG__SEGMENT;
}
