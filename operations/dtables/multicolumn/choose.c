/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the codec of a column of a page: the one that needs the fewest bytes. */
#include "operations/dtables/multicolumn/multicolumn.h"

/* A codec is preferred to an earlier one only if it saves more than one byte in so many. */
enum { LEAST_GAIN = 64 };

/* Bytes in a page: the segment begins at a multiple of 8. */
static size_t in_page(const struct lladd_codec_plan *p)
{
    return ll_up_to_8(p->segment + (p->exceptions ? LL_PAGE_MARKS : 0)) + p->exceptions;
}

/* Plans with one codec. Returns the bytes in a page, or LLADD_CODEC_CANNOT. */
static size_t plan_with(const struct ll_layout *l, const struct lladd_codec_input *in,
                        struct lladd_codec_plan *plans, uint32_t codec)
{
    struct lladd_codec_plan *p = &plans[codec];
    size_t size = l->codecs[codec]->plan(in, p);
    p->again = true;
    return size == LLADD_CODEC_CANNOT ? size : in_page(p);
}

/* All plans begin with "nop", which can store anything. */
static size_t best(const struct ll_layout *l, const struct lladd_codec_input *values,
                   struct ll_chosen *c)
{
    struct lladd_codec_input in = *values;
    in.limit = SIZE_MAX;
    c->codec = 0;
    size_t least = plan_with(l, &in, c->plans, 0);
    for (uint32_t i = 1; i < l->n_codecs; i++) {
        in.limit = least;
        size_t size = plan_with(l, &in, c->plans, i);
        if (size == LLADD_CODEC_CANNOT || size + size / LEAST_GAIN >= least)
            continue;
        least = size;
        c->codec = i;
    }
    return least;
}

size_t ll_multicolumn__plan(const struct ll_layout *l, const struct lladd_codec_input *values,
                            struct ll_chosen *c, bool anew)
{
    struct lladd_codec_input in = *values;
    in.limit = SIZE_MAX;
    size_t size = anew ? LLADD_CODEC_CANNOT : plan_with(l, &in, c->plans, c->codec);
    return size == LLADD_CODEC_CANNOT ? best(l, values, c) : size;
}
