/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec "dict": a dictionary of at most 256 numbers. A row has the index of its number.
 *
 * Segment: u16 numbers, zeros up to 8 bytes; the numbers, ascending; zeros up to a multiple of 8;
 * the packed groups of indexes, each index with `own` bits. Indexes are packed as numbers of one
 * byte. Since the numbers ascend, so do the indexes of rows that ascend. */
#include "operations/dtables/multicolumn/codec.h"

enum { HEAD = 8, MOST = 256, BUCKETS = 512 };

/* What a plan knows of the first `rows` rows: the different numbers, the row in which each of them
 * comes first, and where each of them is in a hash table. A bucket has the index of a number, plus
 * 1; 0: none. `place` is for encode. */
struct words {
    uint64_t number[MOST];
    uint16_t first[MOST];
    uint16_t bucket[BUCKETS];
    uint8_t place[MOST];
    uint32_t n, rows;
};
_Static_assert(sizeof(struct words) <= LLADD_CODEC_MEMORY, "the plan fits into its memory");

/* Returns the bucket of a number, or the empty bucket where it belongs. */
static uint32_t bucket_of(const struct words *w, uint64_t v)
{
    uint32_t b = (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 55);
    while (w->bucket[b] && w->number[w->bucket[b] - 1] != v)
        b = (b + 1) % BUCKETS;
    return b;
}

static unsigned bits_for(uint32_t numbers)
{
    return ll_bits_of(numbers - 1);
}

static size_t head_size(uint32_t numbers, uint32_t width)
{
    return HEAD + ll_up_to_8((size_t)numbers * width);
}

static size_t packed_size(uint32_t rows, unsigned bits)
{
    uint32_t last = ll_group_rows(rows, ll_groups(rows) - 1);
    return (size_t)(ll_groups(rows) - 1) * ll_bits_size(1, bits, LL_GROUP) +
           ll_bits_size(1, bits, last);
}

static size_t size_of(uint32_t numbers, uint32_t width, uint32_t rows)
{
    return head_size(numbers, width) + packed_size(rows, bits_for(numbers));
}

/* Returns the most numbers with which the segment is smaller than the limit. */
static uint32_t most_within(const struct lladd_codec_input *in)
{
    uint32_t low = 0, high = MOST;
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if (size_of(middle, in->width, in->rows) < in->limit)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Reads rows on from w->rows, up to one with more than `most` different numbers. Often a number is
 * that of the row before; this spares the search. */
#define READ(T, B) \
    static void read_##B(struct words *w, const void *values, uint32_t rows, uint32_t most) \
    { \
        const T *v = values; \
        uint32_t i = w->rows; \
        for (; i < rows; i++) { \
            if (i && v[i] == v[i - 1]) \
                continue; \
            uint32_t b = bucket_of(w, v[i]); \
            if (w->bucket[b]) \
                continue; \
            if (w->n >= most) \
                break; \
            w->first[w->n] = (uint16_t)i; \
            w->number[w->n++] = v[i]; \
            w->bucket[b] = (uint16_t)w->n; \
        } \
        w->rows = i; \
    }
READ(uint8_t, 8)
READ(uint16_t, 16)
READ(uint32_t, 32)
READ(uint64_t, 64)

/* Returns the number of different numbers in the first rows. */
static uint32_t numbers_in(const struct words *w, uint32_t rows)
{
    uint32_t low = 0, high = w->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->first[middle] < rows)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    struct words *w = p->memory;
    uint32_t most = most_within(in);
    if (!p->again) {
        memset(w->bucket, 0, sizeof w->bucket);
        w->n = w->rows = 0;
    }
    if (in->width == 1)
        read_8(w, in->values, in->rows, most);
    else if (in->width == 2)
        read_16(w, in->values, in->rows, most);
    else if (in->width == 4)
        read_32(w, in->values, in->rows, most);
    else
        read_64(w, in->values, in->rows, most);
    uint32_t n = numbers_in(w, in->rows);
    if (w->rows < in->rows || n > most)
        return LLADD_CODEC_CANNOT;
    p->exceptions = 0;
    p->own = (uint8_t)bits_for(n);
    p->segment = size_of(n, in->width, in->rows);
    return p->segment;
}

/* Sorts the numbers (Shell's sort), and finds the place that each of them gets. */
static void sort(struct words *w, uint32_t n, uint64_t *sorted)
{
    memcpy(sorted, w->number, n * sizeof *sorted);
    for (uint32_t gap = n / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            uint64_t x = sorted[i];
            uint32_t k = i;
            for (; k >= gap && sorted[k - gap] > x; k -= gap)
                sorted[k] = sorted[k - gap];
            sorted[k] = x;
        }
    for (uint32_t i = 0; i < n; i++)
        w->place[w->bucket[bucket_of(w, sorted[i])] - 1] = (uint8_t)i;
}

/* Finds the indexes of n rows. */
#define CODES(T, B) \
    static void codes_##B(const struct words *w, const void *values, uint32_t from, uint32_t n, \
                          unsigned char *codes) \
    { \
        const T *v = (const T *)values + from; \
        for (uint32_t i = 0; i < n; i++) \
            codes[i] = i && v[i] == v[i - 1] ? codes[i - 1] \
                                             : w->place[w->bucket[bucket_of(w, v[i])] - 1]; \
    }
CODES(uint8_t, 8)
CODES(uint16_t, 16)
CODES(uint32_t, 32)
CODES(uint64_t, 64)

static void encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                   unsigned char *segment, unsigned char *exceptions)
{
    struct words *w = p->memory;
    uint32_t n = numbers_in(w, in->rows);
    unsigned char codes[LL_GROUP], *packed = segment + head_size(n, in->width);
    uint64_t sorted[MOST];
    (void)exceptions;
    sort(w, n, sorted);
    memset(segment, 0, head_size(n, in->width));
    lladd_put16(segment, (uint16_t)n);
    for (uint32_t i = 0; i < n; i++)
        ll_stored_set(segment + HEAD + (size_t)i * in->width, in->width, sorted[i]);
    for (uint32_t i = 0; i < ll_groups(in->rows); i++) {
        uint32_t rows = ll_group_rows(in->rows, i), from = i * LL_GROUP;
        if (in->width == 1)
            codes_8(w, in->values, from, rows, codes);
        else if (in->width == 2)
            codes_16(w, in->values, from, rows, codes);
        else if (in->width == 4)
            codes_32(w, in->values, from, rows, codes);
        else
            codes_64(w, in->values, from, rows, codes);
        ll_bits_pack(codes, 1, 0, p->own, rows, packed);
        packed += ll_bits_size(1, p->own, rows);
    }
}

static uint32_t numbers_of(const struct lladd_codec_segment *s)
{
    return lladd_get16(s->data);
}

static uint64_t number_at(const struct lladd_codec_segment *s, uint32_t i)
{
    return ll_stored(s->data + HEAD + (size_t)i * s->width, s->width);
}

static const unsigned char *group_at(const struct lladd_codec_segment *s, uint32_t i)
{
    return s->data + head_size(numbers_of(s), s->width) +
           i * ll_bits_size(1, s->own, LL_GROUP);
}

/* Is each index that of a number? */
static bool indexes_good(const struct lladd_codec_segment *s)
{
    unsigned char codes[LL_GROUP];
    uint64_t min, max;
    for (uint32_t i = 0; i < ll_groups(s->rows); i++) {
        uint32_t rows = ll_group_rows(s->rows, i);
        ll_bits_unpack(group_at(s, i), 1, 0, s->own, rows, codes);
        ll_bits_range(codes, 1, rows, &min, &max);
        if (max >= numbers_of(s))
            return false;
    }
    return true;
}

static bool check(const struct lladd_codec_segment *s)
{
    if (s->exceptions_len || s->len < HEAD)
        return false;
    uint32_t n = numbers_of(s);
    if (n == 0 || n > MOST || s->own != bits_for(n) || s->len < size_of(n, s->width, s->rows))
        return false;
    for (uint32_t i = 1; i < n; i++)
        if (number_at(s, i) <= number_at(s, i - 1))
            return false;
    return indexes_good(s);
}

static uint64_t at(const struct lladd_codec_segment *s, uint32_t row)
{
    return number_at(s, (uint32_t)ll_bits_at(group_at(s, row / LL_GROUP), 1, s->own,
                                             row % LL_GROUP));
}

/* Replaces indexes by numbers. */
#define NUMBERS(T, B) \
    static void numbers_##B(const struct lladd_codec_segment *s, const unsigned char *codes, \
                            uint32_t n, unsigned char *out) \
    { \
        T number[MOST]; \
        for (uint32_t i = 0; i < numbers_of(s); i++) \
            number[i] = (T)number_at(s, i); \
        for (uint32_t i = 0; i < n; i++) \
            memcpy(out + i * sizeof(T), &number[codes[i]], sizeof(T)); \
    }
NUMBERS(uint8_t, 8)
NUMBERS(uint16_t, 16)
NUMBERS(uint32_t, 32)
NUMBERS(uint64_t, 64)

static void decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *to)
{
    unsigned char codes[LL_GROUP], *out = to;
    uint32_t i = from / LL_GROUP;
    for (from %= LL_GROUP; n; from = 0, i++) {
        uint32_t rows = ll_group_rows(s->rows, i), some = rows - from < n ? rows - from : n;
        ll_bits_unpack(group_at(s, i), 1, 0, s->own, rows, codes);
        if (s->width == 1)
            numbers_8(s, codes + from, some, out);
        else if (s->width == 2)
            numbers_16(s, codes + from, some, out);
        else if (s->width == 4)
            numbers_32(s, codes + from, some, out);
        else
            numbers_64(s, codes + from, some, out);
        out += (size_t)some * s->width;
        n -= some;
    }
}

const struct lladd_codec ll_codec_dict = {
    .struct_size = sizeof(struct lladd_codec),
    .name = "dict",
    .version = 1,
    .about = "a dictionary of at most 256 numbers",
    .plan = plan,
    .encode = encode,
    .check = check,
    .at = at,
    .decode = decode,
};
