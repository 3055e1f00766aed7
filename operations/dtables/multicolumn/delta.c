/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec "delta": differences of neighbours, bit-packed.
 *
 * Each group of 256 rows has the number of its first row, a base, and a number of bits. Every other
 * row has its difference from the row before it, minus the base. So one number costs the addition
 * of up to 255 differences, unless the differences of the group are all the same (0 bits).
 *
 * Segment: for each group the number of its first row; for each group its base (both are numbers of
 * the column's width); for each group u8 bits; zeros up to a multiple of 8; the packed groups. In
 * a packed group the first row has 0. All additions are modulo 2 to the power of the width. */
#include "operations/dtables/multicolumn/codec.h"

struct groups {
    uint64_t base[LL_GROUPS_MAX];
    uint8_t bits[LL_GROUPS_MAX];
    uint32_t whole; /* groups of 256 rows that are planned */
};
_Static_assert(sizeof(struct groups) <= LLADD_CODEC_MEMORY, "the plan fits into its memory");

static size_t head_size(uint32_t rows, uint32_t width)
{
    return ll_up_to_8((size_t)ll_groups(rows) * (2 * width + 1));
}

static void plan_group(const struct lladd_codec_input *in, uint32_t i, struct groups *g)
{
    uint32_t rows = ll_group_rows(in->rows, i);
    int64_t min = 0, max = 0;
    if (rows > 1)
        ll_bits_steps(in->values, in->width, i * LL_GROUP + 1, rows - 1, &min, &max);
    g->base[i] = (uint64_t)min & ll_all_bits(in->width);
    g->bits[i] = (uint8_t)ll_bits_of((uint64_t)max - (uint64_t)min);
    if (rows == LL_GROUP)
        g->whole = i + 1;
}

static size_t plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    struct groups *g = p->memory;
    size_t size = head_size(in->rows, in->width);
    p->exceptions = 0;
    p->own = 0;
    g->whole = ll_groups_planned(in, p, g->whole);
    for (uint32_t i = 0; i < ll_groups(in->rows); i++) {
        if (i >= g->whole)
            plan_group(in, i, g);
        size += ll_bits_size(in->width, g->bits[i], ll_group_rows(in->rows, i));
        if (size >= in->limit)
            return LLADD_CODEC_CANNOT;
    }
    p->segment = size;
    return size;
}

#define STEPS(T, B) \
    static void steps_##B(const unsigned char *in, uint32_t n, uint64_t base, unsigned char *out) \
    { \
        T before, here, step = (T)base; \
        memcpy(&before, in, sizeof before); \
        memcpy(out, &step, sizeof step); \
        for (uint32_t i = 1; i < n; i++) { \
            memcpy(&here, in + i * sizeof here, sizeof here); \
            step = (T)(here - before); \
            memcpy(out + i * sizeof step, &step, sizeof step); \
            before = here; \
        } \
    } \
    static void sums_##B(unsigned char *v, uint32_t n, uint64_t first) \
    { \
        T sum = (T)first, step; \
        memcpy(v, &sum, sizeof sum); \
        for (uint32_t i = 1; i < n; i++) { \
            memcpy(&step, v + i * sizeof step, sizeof step); \
            sum = (T)(sum + step); \
            memcpy(v + i * sizeof sum, &sum, sizeof sum); \
        } \
    }
STEPS(uint8_t, 8)
STEPS(uint16_t, 16)
STEPS(uint32_t, 32)
STEPS(uint64_t, 64)

/* The differences of n rows. The first row counts as the base, which is packed as 0. */
static void steps(const unsigned char *in, uint32_t width, uint32_t n, uint64_t base,
                  unsigned char *out)
{
    if (width == 1)
        steps_8(in, n, base, out);
    else if (width == 2)
        steps_16(in, n, base, out);
    else if (width == 4)
        steps_32(in, n, base, out);
    else
        steps_64(in, n, base, out);
}

/* Adds up differences, in place, from the first number on. */
static void sums(unsigned char *v, uint32_t width, uint32_t n, uint64_t first)
{
    if (width == 1)
        sums_8(v, n, first);
    else if (width == 2)
        sums_16(v, n, first);
    else if (width == 4)
        sums_32(v, n, first);
    else
        sums_64(v, n, first);
}

static void encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                   unsigned char *segment, unsigned char *exceptions)
{
    const struct groups *g = p->memory;
    uint32_t n = ll_groups(in->rows), width = in->width;
    const unsigned char *values = in->values;
    unsigned char own[LL_GROUP_BYTES], *bases = segment + (size_t)n * width;
    unsigned char *bits = bases + (size_t)n * width, *packed = segment + head_size(in->rows, width);
    (void)exceptions;
    memset(segment, 0, head_size(in->rows, width));
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *group = values + (size_t)i * LL_GROUP * width;
        uint32_t rows = ll_group_rows(in->rows, i);
        ll_stored_set(segment + (size_t)i * width, width, ll_number(group, width, 0));
        ll_stored_set(bases + (size_t)i * width, width, g->base[i]);
        bits[i] = g->bits[i];
        steps(group, width, rows, g->base[i], own);
        ll_bits_pack(own, width, g->base[i], g->bits[i], rows, packed);
        packed += ll_bits_size(width, g->bits[i], rows);
    }
}

struct group {
    const unsigned char *packed;
    uint64_t first, base;
    uint32_t rows;
    unsigned bits;
};

static void group_read(const struct lladd_codec_segment *s, uint32_t i, struct group *g)
{
    size_t n = ll_groups(s->rows), width = s->width;
    g->first = ll_stored(s->data + i * width, s->width);
    g->base = ll_stored(s->data + (n + i) * width, s->width);
    g->bits = s->data[2 * n * width + i];
    g->rows = ll_group_rows(s->rows, i);
}

static struct group group_at(const struct lladd_codec_segment *s, uint32_t i)
{
    const unsigned char *bits = s->data + 2 * (size_t)ll_groups(s->rows) * s->width;
    uint32_t before = 0;
    for (uint32_t k = 0; k < i; k++)
        before += bits[k];
    struct group g = {s->data + head_size(s->rows, s->width) + (size_t)before * 32, 0, 0, 0, 0};
    group_read(s, i, &g);
    return g;
}

static bool check(const struct lladd_codec_segment *s)
{
    size_t size = head_size(s->rows, s->width);
    struct group g;
    if (s->own || s->exceptions_len || s->len < size)
        return false;
    for (uint32_t i = 0; i < ll_groups(s->rows); i++) {
        group_read(s, i, &g);
        if (g.bits > 8 * s->width)
            return false;
        size += ll_bits_size(s->width, g.bits, g.rows);
    }
    return size <= s->len;
}

/* Unpacks a group up to a row. */
static void unpack(const struct lladd_codec_segment *s, const struct group *g, uint32_t rows,
                   unsigned char *out)
{
    ll_bits_unpack(g->packed, s->width, g->base, g->bits, g->rows, out);
    sums(out, s->width, rows, g->first);
}

static uint64_t at(const struct lladd_codec_segment *s, uint32_t row)
{
    unsigned char all[LL_GROUP_BYTES];
    struct group g = group_at(s, row / LL_GROUP);
    row %= LL_GROUP;
    if (g.bits == 0)
        return (g.first + row * g.base) & ll_all_bits(s->width);
    unpack(s, &g, row + 1, all);
    return ll_number(all, s->width, row);
}

static void decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *to)
{
    unsigned char own[LL_GROUP_BYTES], *out = to;
    uint32_t i = from / LL_GROUP;
    struct group g = group_at(s, i);
    from %= LL_GROUP;
    while (n) {
        uint32_t some = g.rows - from < n ? g.rows - from : n;
        bool whole = some == g.rows;
        unpack(s, &g, from + some, whole ? out : own);
        if (!whole)
            memcpy(out, own + (size_t)from * s->width, (size_t)some * s->width);
        out += (size_t)some * s->width;
        n -= some;
        from = 0;
        if (n) {
            g.packed += ll_bits_size(s->width, g.bits, g.rows);
            group_read(s, ++i, &g);
        }
    }
}

/* Narrows [*first, *end), rows of one group, by binary search in the unpacked group. */
static void find_in(const struct lladd_codec_segment *s, uint32_t group, uint32_t *first,
                    uint32_t *end, uint64_t v)
{
    unsigned char all[LL_GROUP_BYTES];
    uint32_t start = group * LL_GROUP, low = *first - start, high = *end - start, last = high;
    struct group g = group_at(s, group);
    unpack(s, &g, g.rows, all);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ll_number(all, s->width, middle) < v)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < last && ll_number(all, s->width, high) == v;)
        high++;
    *first = start + low;
    *end = start + high;
}

/* The rows with v begin in the last group with a first row below v, and end in the last group with
 * a first row not above v. */
static void find(const struct lladd_codec_segment *s, uint32_t *first, uint32_t *end, uint64_t v)
{
    if (*first == *end)
        return;
    uint32_t from = *first / LL_GROUP, to = (*end - 1) / LL_GROUP;
    uint32_t a = ll_stored_first(s->data, s->width, from + 1, to + 1, v, false) - 1;
    uint32_t z = ll_stored_first(s->data, s->width, a + 1, to + 1, v, true) - 1;
    uint32_t low = a == from ? *first : a * LL_GROUP, high = a == to ? *end : (a + 1) * LL_GROUP;
    uint32_t top = z == to ? *end : (z + 1) * LL_GROUP, bottom = z * LL_GROUP;
    find_in(s, a, &low, &high, v);
    *first = low;
    *end = high;
    if (z != a) {
        find_in(s, z, &bottom, &top, v);
        *end = top;
    }
}

const struct lladd_codec ll_codec_delta = {
    .struct_size = sizeof(struct lladd_codec),
    .name = "delta",
    .version = 1,
    .about = "differences of neighbours, bit-packed",
    .plan = plan,
    .encode = encode,
    .check = check,
    .at = at,
    .decode = decode,
    .find = find,
};
