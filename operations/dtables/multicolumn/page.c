/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages: finding one's way in them, and checking them.
 *
 *     0  u8 version, u8 flags, u16 rows, u8 columns, u8 0
 *     6  u16 where the free bytes begin, u16 where the exceptions begin
 *    10  u48 place of the first row
 *    16  for each column: u16 where its segment begins, u8 codec (number in the footer's list;
 *        0x80: with exceptions), u8 the codec's own
 *        the tombstones, a bit for each row (if flagged)
 *        a bit for each column of the values: has it a bitmap?; these bitmaps of rows without a
 *        value (if flagged)
 *        for each row u16 where its key ends, and the bytes of the keys (if flagged; then the
 *        fields of the key are not among the columns)
 *        the segments, each at a multiple of 8; free bytes; the exceptions, those of the first
 *        column last
 *
 * A segment with exceptions begins with u16 where they begin, u16 bytes of them, u32 0. Bits are
 * numbered from the lowest of a byte. */
#include "operations/dtables/multicolumn/multicolumn.h"

static size_t bitmap_size(uint32_t bits)
{
    return (bits + 7) / 8;
}

struct ll_page_front ll_page__front(const struct ll_layout *l, unsigned flags, uint32_t rows,
                                    uint32_t marked, size_t key_bytes)
{
    uint32_t columns = flags & LL_PAGE_KEYS ? l->n - l->n_key : l->n;
    struct ll_page_front f;
    f.tombstones = LL_PAGE_HEAD + (size_t)columns * LL_PAGE_COLUMN;
    f.absent = f.tombstones + (flags & LL_PAGE_TOMBSTONES ? bitmap_size(rows) : 0);
    f.bitmaps = f.absent + (flags & LL_PAGE_ABSENT ? bitmap_size(l->n - l->n_key) : 0);
    f.keys = f.bitmaps + marked * bitmap_size(rows);
    f.segments = f.keys + (flags & LL_PAGE_KEYS ? 2 * (size_t)rows + key_bytes : 0);
    f.segments = ll_up_to_8(f.segments);
    return f;
}

/* Counts the bits before bit n. */
static uint32_t bits_before(const unsigned char *bits, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n / 8; i++)
        count += (uint32_t)__builtin_popcount(bits[i]);
    return n % 8 ? count + (uint32_t)__builtin_popcount(bits[n / 8] & ((1u << n % 8) - 1)) : count;
}

static uint32_t marked_of(const struct ll_layout *l, const struct ll_page *p, size_t absent)
{
    return ll_page_flags(p) & LL_PAGE_ABSENT ? bits_before(p->bytes + absent, l->n - l->n_key) : 0;
}

/* The front of a page that was checked; without the bytes of the keys. */
static struct ll_page_front front_of(const struct ll_pages *pages, const struct ll_page *p)
{
    const struct ll_layout *l = pages->layout;
    unsigned flags = ll_page_flags(p);
    uint32_t rows = ll_page_rows(p);
    struct ll_page_front f = ll_page__front(l, flags, rows, 0, 0);
    uint32_t marked = marked_of(l, p, f.absent);
    return marked ? ll_page__front(l, flags, rows, marked, 0) : f;
}

const unsigned char *ll_page__tombstones(const struct ll_pages *pages, const struct ll_page *p)
{
    uint32_t columns = pages->layout->n - ll_page_skips(pages, ll_page_flags(p));
    return ll_page_flags(p) & LL_PAGE_TOMBSTONES
               ? p->bytes + LL_PAGE_HEAD + (size_t)columns * LL_PAGE_COLUMN
               : NULL;
}

const unsigned char *ll_page__absent(const struct ll_pages *pages, const struct ll_page *p,
                                     uint32_t column)
{
    if (!(ll_page_flags(p) & LL_PAGE_ABSENT))
        return NULL;
    struct ll_page_front f = ll_page__front(pages->layout, ll_page_flags(p), ll_page_rows(p), 0, 0);
    const unsigned char *mask = p->bytes + f.absent;
    column -= pages->layout->n_key;
    return ll_bit(mask, column) ? p->bytes + f.bitmaps +
                                      bits_before(mask, column) * bitmap_size(ll_page_rows(p))
                                : NULL;
}

struct lladd_span ll_page__key(const struct ll_pages *pages, const struct ll_page *p, uint32_t row)
{
    const unsigned char *ends = p->bytes + front_of(pages, p).keys;
    uint32_t from = row ? lladd_get16(ends + 2 * (size_t)(row - 1)) : 0;
    uint32_t to = lladd_get16(ends + 2 * (size_t)row);
    return lladd_span_of(ends + 2 * (size_t)ll_page_rows(p) + from, to - from);
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Reads the entry of a column, without a check. */
static uint32_t entry(const struct ll_page *p, uint32_t i, struct lladd_codec_segment *s)
{
    const unsigned char *e = p->bytes + LL_PAGE_HEAD + (size_t)i * LL_PAGE_COLUMN;
    uint32_t from = lladd_get16(e), last = ll_page_free(p);
    uint32_t to = i + 1 < ll_page_columns(p) ? lladd_get16(e + LL_PAGE_COLUMN) : last;
    *s = (struct lladd_codec_segment){.data = p->bytes + from,
                                      .len = to - from,
                                      .exceptions = p->bytes + p->len,
                                      .rows = ll_page_rows(p),
                                      .own = e[3]};
    return e[2];
}

static void marks(const struct ll_page *p, struct lladd_codec_segment *s)
{
    s->exceptions = p->bytes + lladd_get16(s->data);
    s->exceptions_len = lladd_get16(s->data + 2);
    s->data += LL_PAGE_MARKS;
    s->len -= LL_PAGE_MARKS;
}

const struct lladd_codec *ll_page__segment(const struct ll_pages *pages, const struct ll_page *p,
                                           uint32_t column, struct lladd_codec_segment *s)
{
    uint32_t codec = entry(p, column - ll_page_skips(pages, ll_page_flags(p)), s);
    if (codec & LL_PAGE_HAS_EXCEPTIONS)
        marks(p, s);
    codec &= ~(uint32_t)LL_PAGE_HAS_EXCEPTIONS;
    s->width = pages->layout->column[column].width;
    s->version = pages->versions[codec];
    return pages->codecs[codec];
}

uint64_t ll_page__number(const struct ll_pages *pages, const struct ll_page *p, uint32_t column,
                         uint32_t row)
{
    struct lladd_codec_segment s;
    return ll_page__segment(pages, p, column, &s)->at(&s, row);
}

void ll_page__numbers(const struct ll_pages *pages, const struct ll_page *p, uint32_t column,
                      uint32_t from, uint32_t n, void *out)
{
    struct lladd_codec_segment s;
    const struct lladd_codec *c = ll_page__segment(pages, p, column, &s);
    if (n)
        c->decode(&s, from, n, out);
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Checks the keys that are not in columns. *len gets the number of their bytes. */
static const char *check_keys(const struct ll_page *p, size_t at, size_t *len)
{
    uint32_t rows = ll_page_rows(p), last = 0;
    if (at + 2 * (size_t)rows > p->len)
        return "its keys do not fit";
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t end = lladd_get16(p->bytes + at + 2 * (size_t)i);
        if (end < last || end - last > LLADD_DTABLE_KEY_MAX)
            return "its keys are out of order";
        last = end;
    }
    *len = last;
    return NULL;
}

/* Checks all that is before the segments. *segments gets where they begin. */
static const char *check_front(const struct ll_pages *pages, const struct ll_page *p,
                               size_t *segments)
{
    const struct ll_layout *l = pages->layout;
    unsigned flags = ll_page_flags(p);
    uint32_t rows = ll_page_rows(p), values = l->n - l->n_key, marked = 0;
    size_t len = 0;
    struct ll_page_front f = ll_page__front(l, flags, rows, 0, 0);
    if (f.segments > p->len)
        return "its header does not fit";
    if (flags & LL_PAGE_ABSENT) {
        marked = bits_before(p->bytes + f.absent, values);
        if (bits_before(p->bytes + f.absent, (uint32_t)bitmap_size(values) * 8) != marked)
            return "it has bitmaps for columns that there are not";
        f = ll_page__front(l, flags, rows, marked, 0);
    }
    const char *why = flags & LL_PAGE_KEYS ? check_keys(p, f.keys, &len) : NULL;
    *segments = ll_page__front(l, flags, rows, marked, len).segments;
    return why ? why : *segments > p->len ? "its bitmaps or keys do not fit" : NULL;
}

/* Checks a column. *to is where its exceptions have to end, and becomes where they begin. */
static const char *check_column(const struct ll_pages *pages, const struct ll_page *p, uint32_t i,
                                uint32_t *to)
{
    struct lladd_codec_segment s;
    uint32_t codec = entry(p, i, &s);
    if (codec & LL_PAGE_HAS_EXCEPTIONS) {
        if (s.len < LL_PAGE_MARKS)
            return "a segment is too short";
        marks(p, &s);
        uint32_t from = (uint32_t)(s.exceptions - p->bytes);
        if (from < ll_page_exceptions(p) || from > *to || s.exceptions_len != *to - from)
            return "exceptions overlap";
        *to = from;
    }
    codec &= ~(uint32_t)LL_PAGE_HAS_EXCEPTIONS;
    if (codec >= pages->n_codecs)
        return "a column has an unknown codec";
    s.width = pages->layout->column[i + ll_page_skips(pages, ll_page_flags(p))].width;
    s.version = pages->versions[codec];
    return pages->codecs[codec]->check(&s) ? NULL : "a segment is invalid";
}

const char *ll_page__check(const struct ll_pages *pages, const struct ll_page *p, uint32_t *column)
{
    size_t segments = 0;
    *column = UINT32_MAX;
    if (p->len < LL_PAGE_HEAD || p->len > LL_PAGE_MAX)
        return "it is too short, or too long";
    if (p->bytes[0] != LL_PAGE_VERSION)
        return "it has an unknown version";
    unsigned flags = ll_page_flags(p);
    uint32_t columns = pages->layout->n - ll_page_skips(pages, flags), to = p->len;
    uint32_t last = ll_page_free(p), exceptions = ll_page_exceptions(p);
    if (flags > (LL_PAGE_TOMBSTONES | LL_PAGE_ABSENT | LL_PAGE_KEYS) || ll_page_rows(p) == 0 ||
        ll_page_columns(p) != columns || last > exceptions || exceptions > p->len || p->bytes[5])
        return "its header is invalid";
    const char *why = check_front(pages, p, &segments);
    const unsigned char *e = p->bytes + LL_PAGE_HEAD;
    if (!why && columns == 0 && last != segments)
        why = "segments overlap";
    for (uint32_t i = 0; i < columns && !why; i++) {
        uint32_t from = lladd_get16(e + (size_t)i * LL_PAGE_COLUMN);
        uint32_t next = i + 1 < columns ? lladd_get16(e + (size_t)(i + 1) * LL_PAGE_COLUMN) : last;
        if (from % 8 || next < from || next > last || (i == 0 && from != segments))
            why = "segments overlap";
    }
    for (uint32_t i = 0; i < columns && !why; i++) {
        why = check_column(pages, p, i, &to);
        *column = why ? i + ll_page_skips(pages, flags) : UINT32_MAX;
    }
    return why ? why : to != exceptions ? "exceptions overlap" : NULL;
}
