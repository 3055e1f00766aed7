/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLES_MULTICOLUMN_CODEC_H
#define LL_OPERATIONS_DTABLES_MULTICOLUMN_CODEC_H
/* What the library's own codecs share. */
#include <lladd/bytes.h>
#include <lladd/column_codec.h>

/* The codecs that every database has. If two of them need equally many bytes, the earlier one is
 * used, because it is read faster. */
#define LL_CODECS(X) \
    X(nop) \
    X(for) \
    X(rle) \
    X(dict) \
    X(delta)

#define LL_CODEC(name) extern const struct lladd_codec ll_codec_##name;
LL_CODECS(LL_CODEC)
#undef LL_CODEC

/* Values are packed in groups of this many rows. The last group of a column may be shorter. */
enum { LL_GROUP = 256, LL_GROUP_BYTES = 8 * LL_GROUP };
#define LL_GROUPS_MAX (LLADD_CODEC_ROWS / LL_GROUP + 1)

static inline uint32_t ll_groups(uint32_t rows)
{
    return (rows + LL_GROUP - 1) / LL_GROUP;
}
/* Returns the number of rows in a group. */
static inline uint32_t ll_group_rows(uint32_t rows, uint32_t group)
{
    uint32_t left = rows - group * LL_GROUP;
    return left < LL_GROUP ? left : LL_GROUP;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Reads and writes one number of an array in the byte order of the machine. */
static inline uint64_t ll_number(const void *values, uint32_t width, size_t i)
{
    const unsigned char *p = (const unsigned char *)values + i * width;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (width) {
    case 1:
        return *p;
    case 2:
        memcpy(&two, p, sizeof two);
        return two;
    case 4:
        memcpy(&four, p, sizeof four);
        return four;
    default:
        memcpy(&eight, p, sizeof eight);
        return eight;
    }
}
static inline void ll_number_set(void *values, uint32_t width, size_t i, uint64_t v)
{
    unsigned char *p = (unsigned char *)values + i * width;
    uint16_t two = (uint16_t)v;
    uint32_t four = (uint32_t)v;
    switch (width) {
    case 1:
        *p = (unsigned char)v;
        return;
    case 2:
        memcpy(p, &two, sizeof two);
        return;
    case 4:
        memcpy(p, &four, sizeof four);
        return;
    default:
        memcpy(p, &v, sizeof v);
    }
}
/* Reads and writes one little-endian number. */
static inline uint64_t ll_stored(const unsigned char *p, uint32_t width)
{
    return width == 4   ? lladd_get32(p)
           : width == 8 ? lladd_get64(p)
           : width == 2 ? lladd_get16(p)
                        : *p;
}
static inline void ll_stored_set(unsigned char *p, uint32_t width, uint64_t v)
{
    if (width == 1)
        *p = (unsigned char)v;
    else if (width == 2)
        lladd_put16(p, (uint16_t)v);
    else if (width == 4)
        lladd_put32(p, (uint32_t)v);
    else
        lladd_put64(p, v);
}
/* Returns the first of the sorted numbers from index `low` up to `high` that is not below v or, if
 * `above`, that is above v; `high` if there is none. */
static inline uint32_t ll_stored_first(const unsigned char *numbers, uint32_t width, uint32_t low,
                                       uint32_t high, uint64_t v, bool above)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t there = ll_stored(numbers + (size_t)middle * width, width);
        if (there < v || (above && there == v))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
/* Copies n numbers, and changes them between the byte order of the machine and little-endian. */
static inline void ll_numbers_copy(void *to, const void *from, uint32_t width, size_t n)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < n; i++)
        ll_stored_set((unsigned char *)to + i * width, width, ll_number(from, width, i));
#else
    if (to != from)
        memcpy(to, from, n * width);
#endif
}
/* All bits of a number of `width` bytes. */
static inline uint64_t ll_all_bits(uint32_t width)
{
    return UINT64_MAX >> (64 - 8 * width);
}
static inline unsigned ll_bits_of(uint64_t v)
{
    return v ? 64u - (unsigned)__builtin_clzll(v) : 0;
}
/* Returns how many groups at the beginning need not be planned again, if the last plan with this
 * memory has planned `whole` groups of 256 rows. */
static inline uint32_t ll_groups_planned(const struct lladd_codec_input *in,
                                         const struct lladd_codec_plan *p, uint32_t whole)
{
    uint32_t now = in->rows / LL_GROUP;
    return !p->again ? 0 : whole < now ? whole : now;
}
static inline size_t ll_up_to_8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* ---- packed groups: bits.c ------------------------------------------------------------------- */

/* A group of 256 numbers of `width` bytes is packed with `bits` bits a number, 0 to 8 * width. The
 * packed form is made of vectors of 32 bytes, so that processors pack and unpack many numbers with
 * one instruction; docs/disk-format.md describes it. */

/* Bytes that the first `rows` numbers of a group take. */
size_t ll_bits_size(uint32_t width, unsigned bits, uint32_t rows);
/* Packs the low `bits` bits of each number minus `base`. If `rows` is less than 256, the others
 * count as 0. Writes ll_bits_size bytes. */
void ll_bits_pack(const void *values, uint32_t width, uint64_t base, unsigned bits, uint32_t rows,
                  unsigned char *out);
/* Unpacks numbers, and adds `base`; reads ll_bits_size bytes and writes `rows` numbers. */
void ll_bits_unpack(const unsigned char *in, uint32_t width, uint64_t base, unsigned bits,
                    uint32_t rows, void *out);
/* Gets one number of a packed group, without the base. */
uint64_t ll_bits_at(const unsigned char *in, uint32_t width, unsigned bits, uint32_t i);
/* The smallest and the largest number; n is at least 1. */
void ll_bits_range(const void *values, uint32_t width, uint32_t n, uint64_t *min, uint64_t *max);
/* The smallest and the largest difference of neighbours, as signed numbers of `width` bytes, for
 * values[first] to values[first + n - 1] and the value before each of them; `first` and n are at
 * least 1. */
void ll_bits_steps(const void *values, uint32_t width, uint32_t first, uint32_t n, int64_t *min,
                   int64_t *max);
/* Counts the rows, without the first one, with another value than the row before. */
uint32_t ll_bits_changes(const void *values, uint32_t width, uint32_t n);

#endif
