/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec "nop": the numbers as they are, little-endian. It can store any column. */
#include "operations/dtables/multicolumn/codec.h"

static size_t plan(const struct lladd_codec_input *in, struct lladd_codec_plan *p)
{
    p->segment = (size_t)in->rows * in->width;
    p->exceptions = 0;
    p->own = 0;
    return p->segment;
}

static void encode(const struct lladd_codec_input *in, const struct lladd_codec_plan *p,
                   unsigned char *segment, unsigned char *exceptions)
{
    (void)p;
    (void)exceptions;
    ll_numbers_copy(segment, in->values, in->width, in->rows);
}

static bool check(const struct lladd_codec_segment *s)
{
    return s->len >= (size_t)s->rows * s->width && s->own == 0 && s->exceptions_len == 0;
}

static uint64_t at(const struct lladd_codec_segment *s, uint32_t row)
{
    return ll_stored(s->data + (size_t)row * s->width, s->width);
}

static void decode(const struct lladd_codec_segment *s, uint32_t from, uint32_t n, void *out)
{
    ll_numbers_copy(out, s->data + (size_t)from * s->width, s->width, n);
}

const struct lladd_codec ll_codec_nop = {
    .struct_size = sizeof(struct lladd_codec),
    .name = "nop",
    .version = 1,
    .about = "the numbers as they are",
    .plan = plan,
    .encode = encode,
    .check = check,
    .at = at,
    .decode = decode,
};
