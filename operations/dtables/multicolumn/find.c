/* SPDX-License-Identifier: BSD-2-Clause */
/* Searching in a page. The fields of the key narrow the range of rows, one field after the other:
 * within the rows that have the same fields before it, a field ascends. So only fields of the key
 * are read, and of a later field only a few rows. Keys with another order, and keys that are not in
 * fields, are compared as a whole. */
#include "operations/dtables/multicolumn/multicolumn.h"

void ll_page__key_at(const struct ll_pages *pages, enum lladd_dtable_type type,
                     const struct ll_page *p, uint32_t row, unsigned char *room,
                     struct lladd_dtable_key *key)
{
    const struct ll_layout *l = pages->layout;
    uint64_t number[LL_FIELDS_MAX];
    *key = (struct lladd_dtable_key){.type = type};
    if (ll_page_flags(p) & LL_PAGE_KEYS) {
        key->bytes = ll_page__key(pages, p, row);
        return;
    }
    for (uint32_t i = 0; i < l->n_key; i++)
        number[i] = ll_page__number(pages, p, i, row);
    if (type < LLADD_DTABLE_STRING) {
        key->number = ll_multicolumn__join_number(l, number);
    } else {
        ll_multicolumn__join_bytes(l, number, room);
        key->bytes = lladd_span_of(room, l->key_size);
    }
}

/* ---- by fields ------------------------------------------------------------------------------- */

/* The first row from `low` up to `high` with a number not below v (or, if `above`, above v). */
static uint32_t halve(const struct lladd_codec *c, const struct lladd_codec_segment *s,
                      uint32_t low, uint32_t high, uint64_t v, bool above)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t there = c->at(s, middle);
        if (there < v || (above && there == v))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Most searches end at one row, so the end of a range is looked for in growing steps. */
static uint32_t end_from(const struct lladd_codec *c, const struct lladd_codec_segment *s,
                         uint32_t first, uint32_t end, uint64_t v)
{
    uint32_t step = 1;
    while (first < end && c->at(s, first) == v) {
        uint32_t far = end - first > step ? first + step : end;
        if (far == end || c->at(s, far) != v)
            return halve(c, s, first + 1, far, v, true);
        first = far;
        step *= 2;
    }
    return first;
}

static void narrow(const struct lladd_codec *c, const struct lladd_codec_segment *s,
                   uint32_t *first, uint32_t *end, uint64_t v)
{
    if (c->find) {
        uint32_t from = *first, to = *end;
        c->find(s, first, end, v);
        /* A codec that is wrong, or numbers that do not ascend, must not lead outside. */
        *end = *end > to ? to : *end < from ? from : *end;
        *first = *first > *end ? *end : *first < from ? from : *first;
        return;
    }
    *first = halve(c, s, *first, *end, v, false);
    *end = end_from(c, s, *first, *end, v);
}

static uint32_t by_fields(const struct ll_pages *pages, const struct ll_page *p,
                          const uint64_t *number, bool *exact)
{
    uint32_t first = 0, end = ll_page_rows(p);
    for (uint32_t i = 0; i < pages->layout->n_key && first < end; i++) {
        struct lladd_codec_segment s;
        const struct lladd_codec *c = ll_page__segment(pages, p, i, &s);
        narrow(c, &s, &first, &end, number[i]);
    }
    *exact = first < end;
    return first;
}

/* ---- as a whole ------------------------------------------------------------------------------ */

static uint32_t by_keys(const struct ll_pages *pages, const struct lladd_dtable_order *order,
                        const struct ll_page *p, const struct lladd_dtable_key *key,
                        unsigned char *room, bool *exact)
{
    uint32_t low = 0, high = ll_page_rows(p);
    *exact = false;
    while (low < high) {
        struct lladd_dtable_key there;
        uint32_t middle = low + (high - low) / 2;
        ll_page__key_at(pages, order->type, p, middle, room, &there);
        int c = lladd_dtable_compare(order, &there, key);
        *exact = *exact || c == 0;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ll_page__find(const struct ll_pages *pages, const struct lladd_dtable_order *order,
                       const struct ll_page *p, const struct lladd_dtable_key *key,
                       unsigned char *room, bool *exact)
{
    uint64_t number[LL_FIELDS_MAX];
    if (!(ll_page_flags(p) & LL_PAGE_KEYS) && !order->comparator &&
        ll_multicolumn__split_key(pages->layout, key, number))
        return by_fields(pages, p, number, exact);
    return by_keys(pages, order, p, key, room, exact);
}
