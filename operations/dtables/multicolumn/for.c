/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec "for": patched frame of reference (PFOR), bit-packed.
 *
 * Each group of 256 rows has a base and a number of bits. A row's number minus the base has so many
 * bits, or the row is an exception. So a few numbers that are far from the others do not make the
 * others larger, and a number is found without reading other rows.
 *
 * Segment: for each group its base (a number of the column's width); for each group u8 bits; if
 * `own` is 1, for each group u8 exceptions; zeros up to a multiple of 8; the packed groups. The
 * exceptions of one group: u8 row in the group, for each of them, ascending; then their numbers. */
#include "operations/dtables/multicolumn/codec.h"

/* Samples of a group, at equal distances. The smallest and the largest of them are set aside: if
 * the others need fewer bits than the group, exceptions may pay. */
enum { SAMPLES = 16, EXCEPTIONS = 1, FEW_BITS = 3 };

struct groups {
    uint64_t base[LL_GROUPS_MAX];
    uint8_t bits[LL_GROUPS_MAX], exceptions[LL_GROUPS_MAX];
    uint32_t whole; /* groups of 256 rows that are planned */
};
_Static_assert(sizeof(struct groups) <= LLADD_CODEC_MEMORY, "the plan fits into its memory");

/* ---- planned --------------------------------------------------------------------------------- */

struct choice {
    uint64_t base;
    unsigned bits, exceptions;
    size_t bytes; /* of the packed group and its exceptions */
};

/* The two smallest and the two largest samples. */
struct sample {
    uint64_t low[2], high[2];
};
#define SAMPLE(T, B) \
    static struct sample sample_##B(const unsigned char *values, uint32_t rows) \
    { \
        const uint32_t step = rows / SAMPLES * (uint32_t)sizeof(T); \
        T low = (T) ~(T)0, second = low, high = 0, other = 0, v; \
        for (unsigned i = 0; i < SAMPLES; i++) { \
            memcpy(&v, values + i * step, sizeof v); \
            T above = v > low ? v : low, below = v < high ? v : high; \
            second = above < second ? above : second; \
            low = v < low ? v : low; \
            other = below > other ? below : other; \
            high = v > high ? v : high; \
        } \
        return (struct sample){{low, second}, {high, other}}; \
    }
SAMPLE(uint8_t, 8)
SAMPLE(uint16_t, 16)
SAMPLE(uint32_t, 32)
SAMPLE(uint64_t, 64)

static struct sample sample_of(const unsigned char *values, uint32_t width, uint32_t rows)
{
    return width == 1   ? sample_8(values, rows)
           : width == 2 ? sample_16(values, rows)
           : width == 4 ? sample_32(values, rows)
                        : sample_64(values, rows);
}

/* Tries every number of bits with this base. A number below the base counts as one that needs all
 * bits, because the difference wraps around. */
static void try_base(const unsigned char *values, uint32_t width, uint32_t rows, uint64_t base,
                     struct choice *best)
{
    uint32_t with[65] = {0}, above = 0;
    for (uint32_t i = 0; i < rows; i++)
        with[ll_bits_of((ll_number(values, width, i) - base) & ll_all_bits(width))]++;
    for (unsigned bits = 8 * width; above < UINT8_MAX; above += with[bits--]) {
        size_t bytes = ll_bits_size(width, bits, rows) + above * (size_t)(1 + width);
        if (bytes < best->bytes)
            *best = (struct choice){base, bits, above, bytes};
        if (bits == 0)
            return;
    }
}

static struct choice choose(const unsigned char *values, uint32_t width, uint32_t rows)
{
    uint64_t min, max;
    ll_bits_range(values, width, rows, &min, &max);
    unsigned bits = ll_bits_of(max - min);
    struct choice best = {min, bits, 0, ll_bits_size(width, bits, rows)};
    if (bits <= FEW_BITS || rows < SAMPLES) /* exceptions would save little */
        return best;
    struct sample s = sample_of(values, width, rows);
    uint64_t high = s.high[1];
    if (ll_bits_of(high - s.low[1]) + 1 >= bits)
        return best;
    try_base(values, width, rows, min, &best);
    for (unsigned i = 0; i < 2; i++) /* another base: only if that makes most numbers smaller */
        if (ll_bits_of(high - s.low[i]) < ll_bits_of(high - (i ? s.low[0] : min)))
            try_base(values, width, rows, s.low[i], &best);
    return best;
}

static size_t head_size(uint32_t rows, uint32_t width, bool exceptions)
{
    return ll_up_to_8((size_t)ll_groups(rows) * (width + 1 + exceptions));
}

static void plan_groups(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                        struct groups *g)
{
    const unsigned char *values = in->values;
    for (uint32_t i = ll_groups_planned(in, p, g->whole); i < ll_groups(in->rows); i++) {
        struct choice c = choose(values + (size_t)i * LL_GROUP * in->width, in->width,
                                 ll_group_rows(in->rows, i));
        g->base[i] = c.base;
        g->bits[i] = (uint8_t)c.bits;
        g->exceptions[i] = (uint8_t)c.exceptions;
    }
    g->whole = in->rows / LL_GROUP;
}

static size_t plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    struct groups *g = p->memory;
    size_t packed = 0;
    plan_groups(in, p, g);
    p->exceptions = 0;
    for (uint32_t i = 0; i < ll_groups(in->rows); i++) {
        packed += ll_bits_size(in->width, g->bits[i], ll_group_rows(in->rows, i));
        p->exceptions += g->exceptions[i] * (size_t)(1 + in->width);
    }
    p->own = p->exceptions ? EXCEPTIONS : 0;
    p->segment = head_size(in->rows, in->width, p->own) + packed;
    return p->segment + p->exceptions;
}

/* ---- written --------------------------------------------------------------------------------- */

/* Writes the exceptions of a group. Returns their end. */
static unsigned char *put_exceptions(const unsigned char *values, uint32_t width, uint32_t rows,
                                     uint64_t base, unsigned bits, unsigned n, unsigned char *out)
{
    unsigned char *numbers = out + n;
    unsigned k = 0;
    for (uint32_t i = 0; i < rows && k < n; i++) {
        uint64_t v = ll_number(values, width, i);
        if (ll_bits_of((v - base) & ll_all_bits(width)) <= bits)
            continue;
        out[k] = (unsigned char)i;
        ll_stored_set(numbers + (size_t)k * width, width, v);
        k++;
    }
    return numbers + (size_t)n * width;
}

static void encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                   unsigned char *segment, unsigned char *exceptions)
{
    const struct groups *g = p->memory;
    const unsigned char *values = in->values;
    uint32_t n = ll_groups(in->rows), width = in->width;
    size_t head = head_size(in->rows, width, p->own);
    unsigned char *bits = segment + (size_t)n * width, *packed = segment + head;
    memset(segment, 0, head);
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *group = values + (size_t)i * LL_GROUP * width;
        uint32_t rows = ll_group_rows(in->rows, i);
        ll_stored_set(segment + (size_t)i * width, width, g->base[i]);
        bits[i] = g->bits[i];
        if (p->own)
            bits[n + i] = g->exceptions[i];
        ll_bits_pack(group, width, g->base[i], g->bits[i], rows, packed);
        packed += ll_bits_size(width, g->bits[i], rows);
        if (g->exceptions[i])
            exceptions = put_exceptions(group, width, rows, g->base[i], g->bits[i],
                                        g->exceptions[i], exceptions);
    }
}

/* ---- read ------------------------------------------------------------------------------------ */

/* A group of a segment. */
struct group {
    const unsigned char *packed, *exceptions;
    uint64_t base;
    uint32_t rows;
    unsigned bits, n; /* n: exceptions */
};

/* Moves on from one group to the next. Before the first one all members but the addresses are 0. */
static void group_read(const struct lladd_codec_segment *s, uint32_t i, struct group *g)
{
    uint32_t n = ll_groups(s->rows);
    const unsigned char *bits = s->data + (size_t)n * s->width;
    g->base = ll_stored(s->data + (size_t)i * s->width, s->width);
    g->bits = bits[i];
    g->n = s->own ? bits[n + i] : 0;
    g->rows = ll_group_rows(s->rows, i);
}

static void group_pass(const struct lladd_codec_segment *s, struct group *g)
{
    g->packed += ll_bits_size(s->width, g->bits, g->rows);
    g->exceptions += (size_t)g->n * (1 + s->width);
}

/* Finds a group: adds up the lengths of those before it, which all have 256 rows. */
static struct group group_at(const struct lladd_codec_segment *s, uint32_t i)
{
    uint32_t n = ll_groups(s->rows), before = 0, exceptions = 0;
    const unsigned char *bits = s->data + (size_t)n * s->width;
    for (uint32_t k = 0; k < i; k++)
        before += bits[k];
    for (uint32_t k = 0; k < i && s->own; k++)
        exceptions += bits[n + k];
    struct group g = {s->data + head_size(s->rows, s->width, s->own) + (size_t)before * 32,
                      s->exceptions + (size_t)exceptions * (1 + s->width), 0, 0, 0, 0};
    group_read(s, i, &g);
    return g;
}

static bool ascend(const struct group *g)
{
    for (unsigned k = 0; k < g->n; k++)
        if (g->exceptions[k] >= g->rows || (k && g->exceptions[k] <= g->exceptions[k - 1]))
            return false;
    return true;
}

static bool check(const struct lladd_codec_segment *s)
{
    size_t head = head_size(s->rows, s->width, s->own), exceptions = 0, packed = head;
    struct group g = {s->data, s->exceptions, 0, 0, 0, 0};
    if (s->own > EXCEPTIONS || s->len < head)
        return false;
    for (uint32_t i = 0; i < ll_groups(s->rows); i++) {
        group_read(s, i, &g);
        if (g.bits > 8 * s->width)
            return false;
        packed += ll_bits_size(s->width, g.bits, g.rows);
        exceptions += (size_t)g.n * (1 + s->width);
        if (packed > s->len || exceptions > s->exceptions_len || !ascend(&g))
            return false;
        group_pass(s, &g);
    }
    return exceptions == s->exceptions_len;
}

static uint64_t at(const struct lladd_codec_segment *s, uint32_t row)
{
    struct group g = group_at(s, row / LL_GROUP);
    uint32_t i = row % LL_GROUP;
    const unsigned char *there = g.n ? memchr(g.exceptions, (int)i, g.n) : NULL;
    if (there)
        return ll_stored(g.exceptions + g.n + (size_t)(there - g.exceptions) * s->width, s->width);
    return (g.base + ll_bits_at(g.packed, s->width, g.bits, i)) & ll_all_bits(s->width);
}

static void patch(const struct group *g, uint32_t width, unsigned char *out)
{
    for (unsigned k = 0; k < g->n; k++)
        ll_number_set(out, width, g->exceptions[k],
                      ll_stored(g->exceptions + g->n + (size_t)k * width, width));
}

static void decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *to)
{
    unsigned char own[LL_GROUP_BYTES], *out = to;
    uint32_t width = s->width, i = from / LL_GROUP;
    struct group g = group_at(s, i);
    from %= LL_GROUP;
    while (n) {
        uint32_t some = g.rows - from < n ? g.rows - from : n;
        bool whole = some == g.rows;
        unsigned char *all = whole ? out : own;
        ll_bits_unpack(g.packed, width, g.base, g.bits, g.rows, all);
        patch(&g, width, all);
        if (!whole)
            memcpy(out, own + (size_t)from * width, (size_t)some * width);
        out += (size_t)some * width;
        n -= some;
        from = 0;
        if (n) {
            group_pass(s, &g);
            group_read(s, ++i, &g);
        }
    }
}

const struct lladd_codec ll_codec_for = {
    .struct_size = sizeof(struct lladd_codec),
    .name = "for",
    .version = 1,
    .about = "differences from a base, bit-packed, with exceptions (PFOR)",
    .plan = plan,
    .encode = encode,
    .check = check,
    .at = at,
    .decode = decode,
};
