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

static void swap(struct ll_chosen *c)
{
    struct lladd_codec_plan was = c->plan;
    c->plan = c->other;
    c->other = was;
}

/* All plans begin with "nop", which can store anything. */
static size_t best(const struct ll_layout *l, const struct lladd_codec_input *values,
                   struct ll_chosen *c)
{
    struct lladd_codec_input in = *values;
    in.limit = SIZE_MAX;
    c->codec = 0;
    (void)l->codecs[0]->plan(&in, &c->plan);
    size_t least = in_page(&c->plan);
    for (uint32_t i = 1; i < l->n_codecs; i++) {
        in.limit = least;
        if (l->codecs[i]->plan(&in, &c->other) == LLADD_CODEC_CANNOT)
            continue;
        size_t size = in_page(&c->other);
        if (size + size / LEAST_GAIN >= least)
            continue;
        least = size;
        c->codec = i;
        swap(c);
    }
    return least;
}

size_t ll_multicolumn__plan(const struct ll_layout *l, const struct lladd_codec_input *values,
                            struct ll_chosen *c, bool anew)
{
    struct lladd_codec_input in = *values;
    in.limit = SIZE_MAX;
    if (anew || l->codecs[c->codec]->plan(&in, &c->plan) == LLADD_CODEC_CANNOT)
        return best(l, values, c);
    return in_page(&c->plan);
}
