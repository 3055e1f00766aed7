/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec "rle": run lengths. Rows in succession with one number are stored once.
 *
 * Segment: u16 runs, zeros up to 8 bytes; for each run its number; for each run u16 the row where
 * it ends. */
#include "operations/dtables/multicolumn/codec.h"

enum { HEAD = 8 };

/* The changes before the end of each group of 256 rows that is planned. */
struct groups {
    uint32_t changes[LL_GROUPS_MAX], whole;
};
_Static_assert(sizeof(struct groups) <= LLADD_CODEC_MEMORY, "the plan fits into its memory");

/* Counts the rows from `first` to `end` - 1 with another number than the row before. */
static uint32_t changes(const struct lladd_codec_input *in, uint32_t first, uint32_t end)
{
    uint32_t from = first ? first - 1 : 0;
    const unsigned char *values = in->values;
    return ll_bits_changes(values + (size_t)from * in->width, in->width, end - from);
}

static uint32_t runs_in(const struct lladd_codec_input *in, const struct lladd_codec_plan *p)
{
    struct groups *g = p->memory;
    uint32_t i = ll_groups_planned(in, p, g->whole), n = i ? g->changes[i - 1] : 0;
    for (; i < in->rows / LL_GROUP; i++) {
        n += changes(in, i * LL_GROUP, (i + 1) * LL_GROUP);
        g->changes[i] = n;
    }
    g->whole = i;
    return 1 + n + (i * LL_GROUP < in->rows ? changes(in, i * LL_GROUP, in->rows) : 0);
}

static size_t plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    uint32_t runs = runs_in(in, p);
    p->segment = HEAD + (size_t)runs * (in->width + 2);
    p->exceptions = 0;
    p->own = 0;
    return p->segment < in->limit ? p->segment : LLADD_CODEC_CANNOT;
}

/* Returns the end of the run that begins at a row. */
#define RUN(T, B) \
    static uint32_t run_##B(const void *values, uint32_t from, uint32_t rows) \
    { \
        const T *v = values, first = v[from]; \
        while (++from < rows && v[from] == first) \
            continue; \
        return from; \
    }
RUN(uint8_t, 8)
RUN(uint16_t, 16)
RUN(uint32_t, 32)
RUN(uint64_t, 64)

static uint32_t end_of_run(const struct lladd_codec_input *in, uint32_t from)
{
    return in->width == 1   ? run_8(in->values, from, in->rows)
           : in->width == 2 ? run_16(in->values, from, in->rows)
           : in->width == 4 ? run_32(in->values, from, in->rows)
                            : run_64(in->values, from, in->rows);
}

static void encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                   unsigned char *segment, unsigned char *exceptions)
{
    uint32_t width = in->width, runs = (uint32_t)((p->segment - HEAD) / (width + 2)), run = 0;
    unsigned char *numbers = segment + HEAD, *ends = numbers + (size_t)runs * width;
    (void)exceptions;
    memset(segment, 0, HEAD);
    lladd_put16(segment, (uint16_t)runs);
    for (uint32_t i = 0, end; i < in->rows; i = end, run++) {
        end = end_of_run(in, i);
        ll_stored_set(numbers + (size_t)run * width, width, ll_number(in->values, width, i));
        lladd_put16(ends + 2 * (size_t)run, (uint16_t)end);
    }
}

struct runs {
    uint32_t n;
    const unsigned char *numbers, *ends;
};

static struct runs runs_of(const struct lladd_codec_segment *s)
{
    struct runs r = {lladd_get16(s->data), s->data + HEAD, NULL};
    r.ends = r.numbers + (size_t)r.n * s->width;
    return r;
}

static uint32_t end_of(const struct runs *r, uint32_t run)
{
    return lladd_get16(r->ends + 2 * (size_t)run);
}

static bool check(const struct lladd_codec_segment *s)
{
    uint32_t last = 0;
    if (s->own || s->exceptions_len || s->len < HEAD)
        return false;
    struct runs r = runs_of(s);
    if (HEAD + (size_t)r.n * (s->width + 2) > s->len)
        return false;
    for (uint32_t i = 0; i < r.n; i++) {
        if (end_of(&r, i) <= last)
            return false;
        last = end_of(&r, i);
    }
    return last == s->rows;
}

/* Returns the run that has the row. */
static uint32_t run_of(const struct runs *r, uint32_t row)
{
    uint32_t low = 0, high = r->n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (end_of(r, middle) <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t at(const struct lladd_codec_segment *s, uint32_t row)
{
    struct runs r = runs_of(s);
    return ll_stored(r.numbers + (size_t)run_of(&r, row) * s->width, s->width);
}

#define FILL(T, B) \
    static void fill_##B(unsigned char *out, uint64_t v, uint32_t n) \
    { \
        const T one = (T)v; \
        for (uint32_t i = 0; i < n; i++) \
            memcpy(out + i * sizeof one, &one, sizeof one); \
    }
FILL(uint16_t, 16)
FILL(uint32_t, 32)
FILL(uint64_t, 64)

static void fill(unsigned char *out, uint32_t width, uint64_t v, uint32_t n)
{
    if (width == 1)
        memset(out, (int)v, n);
    else if (width == 2)
        fill_16(out, v, n);
    else if (width == 4)
        fill_32(out, v, n);
    else
        fill_64(out, v, n);
}

static void decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *to)
{
    struct runs r = runs_of(s);
    unsigned char *out = to;
    for (uint32_t run = run_of(&r, from), end = from + n; from < end; run++) {
        uint32_t until = end_of(&r, run) < end ? end_of(&r, run) : end;
        fill(out, s->width, ll_stored(r.numbers + (size_t)run * s->width, s->width), until - from);
        out += (size_t)(until - from) * s->width;
        from = until;
    }
}

static void find(const struct lladd_codec_segment *s, uint32_t *first, uint32_t *end, uint64_t v)
{
    struct runs r = runs_of(s);
    if (*first == *end)
        return;
    uint32_t from = run_of(&r, *first), to = run_of(&r, *end - 1) + 1;
    uint32_t low = ll_stored_first(r.numbers, s->width, from, to, v, false);
    uint32_t high = ll_stored_first(r.numbers, s->width, low, to, v, true);
    if (low > from)
        *first = end_of(&r, low - 1) < *end ? end_of(&r, low - 1) : *end;
    if (high < to)
        *end = high > from ? end_of(&r, high - 1) : *first;
}

const struct lladd_codec ll_codec_rle = {
    .struct_size = sizeof(struct lladd_codec),
    .name = "rle",
    .version = 1,
    .about = "equal numbers in succession once",
    .plan = plan,
    .encode = encode,
    .check = check,
    .at = at,
    .decode = decode,
    .find = find,
};
