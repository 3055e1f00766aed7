/* SPDX-License-Identifier: BSD-2-Clause */
/* Packed rows: see <lladd/dtable_row.h>.
 *
 * All end offsets of a row have the same width, so that a column is found without reading the
 * columns before it. The head takes 3 bytes and, for each column, one bit and an end offset:
 * usually one byte. */
#include <lladd/bytes.h>
#include <lladd/dtable_row.h>

enum { VERSION = 1, HEAD = 3 };

static unsigned width_code(uint64_t bytes)
{
    return bytes <= UINT8_MAX ? 0 : bytes <= UINT16_MAX ? 1 : 2;
}

/* Counts the columns up to the last one with a value, and the bytes of all values. */
static size_t extent(const struct lladd_dtable_value *columns, size_t n, uint64_t *bytes)
{
    size_t last = 0;
    *bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (columns[i].state == LLADD_DTABLE_FOUND) {
            last = i + 1;
            *bytes += columns[i].bytes.len;
        }
    return last;
}

static size_t ahead(size_t n, unsigned code)
{
    return HEAD + (n + 7) / 8 + (n << code);
}

int lladd_dtable_row_size(const struct lladd_dtable_value *columns, size_t n, size_t *out,
                          struct lladd_error *err)
{
    uint64_t bytes;
    if (n > LLADD_DTABLE_COLUMNS_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a row of %zu columns; %u are possible", n,
                               LLADD_DTABLE_COLUMNS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (columns[i].state != LLADD_DTABLE_FOUND && columns[i].state != LLADD_DTABLE_ABSENT)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "column %zu of a row has an invalid state", i);
        if (columns[i].state == LLADD_DTABLE_FOUND &&
            columns[i].bytes.len > LLADD_DTABLE_VALUE_MAX)
            return lladd_error_set(err, LLADD_TOO_LARGE, "column %zu of a row has %zu bytes", i,
                                   columns[i].bytes.len);
    }
    size_t last = extent(columns, n, &bytes), before = ahead(last, width_code(bytes));
    if (bytes > LLADD_DTABLE_VALUE_MAX - before)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a row of %llu bytes",
                               (unsigned long long)bytes);
    *out = before + (size_t)bytes;
    return 0;
}

static void put_end(unsigned char *p, unsigned code, uint32_t end)
{
    if (code == 0)
        *p = (unsigned char)end;
    else if (code == 1)
        lladd_put16(p, (uint16_t)end);
    else
        lladd_put32(p, end);
}

static uint32_t get_end(const unsigned char *ends, unsigned code, size_t i)
{
    const unsigned char *p = ends + (i << code);
    return code == 0 ? *p : code == 1 ? lladd_get16(p) : lladd_get32(p);
}

void lladd_dtable_row_pack(const struct lladd_dtable_value *columns, size_t n, void *out)
{
    unsigned char *p = out;
    uint64_t bytes;
    size_t last = extent(columns, n, &bytes);
    unsigned code = width_code(bytes);
    unsigned char *bits = p + HEAD, *ends = bits + (last + 7) / 8, *values = ends + (last << code);
    uint32_t at = 0;
    p[0] = (unsigned char)(VERSION | code << 4);
    lladd_put16(p + 1, (uint16_t)last);
    memset(bits, 0, (last + 7) / 8);
    for (size_t i = 0; i < last; i++) {
        if (columns[i].state == LLADD_DTABLE_FOUND) {
            bits[i / 8] |= (unsigned char)(1u << i % 8);
            lladd_copy(values + at, columns[i].bytes.data, columns[i].bytes.len);
            at += (uint32_t)columns[i].bytes.len;
        }
        put_end(ends + (i << code), code, at);
    }
}

struct row {
    size_t n, len; /* len: bytes of all values */
    unsigned code;
    const unsigned char *bits, *ends, *values;
};

static bool head(struct lladd_span s, struct row *r)
{
    const unsigned char *p = s.data;
    if (s.len < HEAD || (p[0] & 15) != VERSION || p[0] >> 4 > 2)
        return false;
    r->code = p[0] >> 4;
    r->n = lladd_get16(p + 1);
    size_t before = ahead(r->n, r->code);
    if (r->n > LLADD_DTABLE_COLUMNS_MAX || s.len < before)
        return false;
    r->bits = p + HEAD;
    r->ends = r->bits + (r->n + 7) / 8;
    r->values = p + before;
    r->len = s.len - before;
    return true;
}

static bool has(const struct row *r, size_t i)
{
    return r->bits[i / 8] >> i % 8 & 1;
}

bool lladd_dtable_row_check(struct lladd_span s, size_t *n)
{
    struct row r;
    uint32_t at = 0;
    if (!head(s, &r) || width_code(r.len) != r.code)
        return false;
    if (r.n && (!has(&r, r.n - 1) || (r.n % 8 && r.bits[r.n / 8] >> r.n % 8)))
        return false;
    for (size_t i = 0; i < r.n; i++) {
        uint32_t end = get_end(r.ends, r.code, i);
        if (end < at || (end != at && !has(&r, i)))
            return false;
        at = end;
    }
    if (n)
        *n = r.n;
    return at == r.len;
}

bool lladd_dtable_row_column(struct lladd_span s, uint32_t column, struct lladd_dtable_value *out)
{
    struct row r;
    *out = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
    if (!head(s, &r))
        return false;
    if (column >= r.n || !has(&r, column))
        return true;
    uint32_t from = column ? get_end(r.ends, r.code, column - 1) : 0,
             to = get_end(r.ends, r.code, column);
    if (from > to || to > r.len)
        return false;
    *out = lladd_dtable_value_of(r.values + from, to - from);
    return true;
}
