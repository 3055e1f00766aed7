/* SPDX-License-Identifier: BSD-2-Clause */
/* What a page consists of: <lladd/dtable_multicolumn.h>. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/multicolumn/read.h"

const struct lladd_dtable *lladd_multicolumn_layer(const struct lladd_dtable *t)
{
    if (t->kind == &ll_dtable_class_multicolumn)
        return t;
    for (const struct lladd_dtable_param *p = t->kind->params; t->config && p && p->type; p++) {
        const struct lladd_dtable *below;
        for (size_t i = 0; (below = lladd_dtable_layer(t, p->name, i)) != NULL; i++) {
            const struct lladd_dtable *found = lladd_multicolumn_layer(below);
            if (found)
                return found;
        }
    }
    return NULL;
}

uint64_t lladd_multicolumn_pages(const struct lladd_dtable *t)
{
    return t->kind == &ll_dtable_class_multicolumn
               ? ((const struct ll_multicolumn_reader *)t)->n_pages
               : 0;
}

static uint32_t count(const unsigned char *bits, uint32_t rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows; i++)
        n += ll_bit(bits, i);
    return n;
}

/* The smallest and the largest number of a column. */
static void range(const struct ll_pages *pages, const struct ll_page *p, uint32_t column,
                  uint64_t *min, uint64_t *max)
{
    uint64_t numbers[LL_GROUP], low, high; /* aligned for every width */
    uint32_t width = pages->layout->column[column].width;
    *min = UINT64_MAX;
    *max = 0;
    for (uint32_t from = 0; from < ll_page_rows(p); from += LL_GROUP) {
        uint32_t n = ll_group_rows(ll_page_rows(p), from / LL_GROUP);
        ll_page__numbers(pages, p, column, from, n, numbers);
        ll_bits_range(numbers, width, n, &low, &high);
        *min = low < *min ? low : *min;
        *max = high > *max ? high : *max;
    }
}

static struct lladd_multicolumn_column column_of(const struct ll_pages *pages,
                                                 const struct ll_page *p, uint32_t column)
{
    const struct ll_column *c = &pages->layout->column[column];
    struct lladd_codec_segment s;
    struct lladd_multicolumn_column out = {.width = c->width,
                                           .is_key = column < pages->layout->n_key,
                                           .is_text = c->text,
                                           .is_signed = c->is_signed};
    out.codec = ll_page__segment(pages, p, column, &s)->name;
    out.segment = (uint32_t)s.len + (s.exceptions_len ? LL_PAGE_MARKS : 0);
    out.exceptions = (uint32_t)s.exceptions_len;
    if (!out.is_key)
        out.absent = count(ll_page__absent(pages, p, column), ll_page_rows(p));
    range(pages, p, column, &out.min, &out.max);
    return out;
}

static struct lladd_multicolumn_page page_of(const struct ll_pages *pages, const struct ll_page *p)
{
    uint32_t rows = ll_page_rows(p), skips = ll_page_skips(pages, ll_page_flags(p));
    struct lladd_multicolumn_page out = {.first = ll_page_first(p),
                                         .rows = rows,
                                         .bytes = p->len,
                                         .key_fields = pages->layout->n_key - skips,
                                         .columns = ll_page_columns(p)};
    out.tombstones = count(ll_page__tombstones(pages, p), rows);
    for (uint32_t i = 0; i < rows && skips; i++)
        out.key_bytes += (uint32_t)ll_page__key(pages, p, i).len;
    out.used = p->len - (ll_page_exceptions(p) - ll_page_free(p));
    return out;
}

int lladd_multicolumn_page_get(const struct lladd_dtable *t, uint64_t page,
                               struct lladd_multicolumn_page *out,
                               struct lladd_multicolumn_column *columns, size_t n,
                               struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = (const struct ll_multicolumn_reader *)t;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct ll_page p;
    TRY(lladd_check_process(t->db, err));
    if (t->kind != &ll_dtable_class_multicolumn)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "a %s has no pages of columns",
                               t->kind->name);
    if (page >= r->n_pages)
        return lladd_error_set(err, LLADD_OUT_OF_RANGE, "there is no page %llu; there are %llu",
                               (unsigned long long)page, (unsigned long long)r->n_pages);
    int rc = ll_multicolumn__page(r, page, &pin, &p, err);
    if (!rc) {
        struct lladd_multicolumn_page all = page_of(&r->pages, &p);
        uint32_t first = r->pages.layout->n_key - all.key_fields;
        all.struct_size = out->struct_size;
        for (uint32_t i = 0; i < all.columns && i < n; i++)
            columns[i] = column_of(&r->pages, &p, first + i);
        memcpy(out, &all, all.struct_size < sizeof all ? all.struct_size : sizeof all);
    }
    lladd_dtable_unpin(&pin);
    return rc;
}
