/* SPDX-License-Identifier: BSD-2-Clause */
/* Building: rows are staged, and scattered into one array for each column, some at a time. A page
 * ends before the row that no longer fits.
 *
 * How many rows fit is known only after they were planned. `next` is the number of rows at which
 * the page is planned again; it comes from the bytes that the rows so far need, and reaches the end
 * in a few steps. When the rows need more than a page even with the best codecs, the last row that
 * fits is looked for by interpolation, to within 1/128 of the rows. Rows after it stay in the
 * arrays, and begin the next page. Between these plans a column keeps its codec: only a page that
 * is full chooses anew (ROSE-6: what is written was planned for exactly its rows). */
#include "operations/dtables/multicolumn/build.h"

enum { ROOM = 512, FIRST = 256, PRECISION = 128, STEP = 64, STEP_LEAST = 8, STAGED = 32 };

static int no_memory(const struct ll_multicolumn_builder *b)
{
    return lladd_error_set(b->base.error, LLADD_NO_MEMORY,
                           "out of memory for a multicolumn_dtable");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool resize(struct ll_multicolumn_builder *b, void *array, size_t size)
{
    void *old, *p;
    memcpy(&old, array, sizeof old);
    p = lladd_mem_resize(b->base.db, old, size);
    if (p)
        memcpy(array, &p, sizeof p);
    return p != NULL;
}

static int more_room(struct ll_multicolumn_builder *b)
{
    const struct ll_layout *l = b->l;
    uint32_t cap = b->cap ? b->cap * 2 : ROOM;
    bool good = resize(b, &b->tombstone, cap) && resize(b, &b->key_end, cap * sizeof *b->key_end);
    for (uint32_t i = 0; i < l->n && good; i++) {
        good = resize(b, &b->values[i], (size_t)cap * l->column[i].width);
        if (l->rows && i >= l->n_key && good)
            good = resize(b, &b->absent[i], cap);
    }
    b->cap = good ? cap : b->cap;
    return good ? 0 : no_memory(b);
}

/* Allocates all that has a fixed size. */
static int allocate(struct ll_multicolumn_builder *b)
{
    struct lladd_db *db = b->base.db;
    size_t n = b->l->n, n_plans = n * b->l->n_codecs, own = n_plans * LLADD_CODEC_MEMORY;
    size_t one = (STAGED + 2) * sizeof *b->staged + sizeof *b->values + sizeof *b->absent +
                 sizeof *b->chosen + sizeof *b->first_absent + sizeof *b->absent_now;
    size_t heads = n_plans * sizeof *b->plans + n * one;
    b->memory = lladd_mem_alloc(db, own + heads);
    if (!b->memory)
        return no_memory(b);
    memset(b->memory + own, 0, heads);
    b->plans = (void *)(b->memory + own);
    b->staged = (void *)(b->plans + n_plans);
    b->chosen = (void *)(b->staged + (STAGED + 2) * n);
    b->values = (void *)(b->chosen + n);
    b->absent = (void *)(b->values + n);
    b->first_absent = (void *)(b->absent + n);
    b->absent_now = (void *)(b->first_absent + n);
    for (size_t i = 0; i < n_plans; i++)
        b->plans[i].memory = b->memory + i * LLADD_CODEC_MEMORY;
    for (size_t i = 0; i < n; i++) {
        b->chosen[i].plans = b->plans + i * b->l->n_codecs;
        b->first_absent[i] = UINT32_MAX;
    }
    b->page = lladd_mem_alloc(db, b->limit + LL_FOOTER_MAX); /* a page, or the footer */
    return b->page ? 0 : no_memory(b);
}

/* The most bytes that one row can take. */
static size_t most(const struct ll_layout *l, enum lladd_dtable_type type)
{
    bool bytes = type >= LLADD_DTABLE_STRING;
    uint32_t columns = bytes && !l->fields ? l->n - l->n_key : l->n;
    size_t keys = bytes ? 2 + LLADD_DTABLE_KEY_MAX : 0;
    return LL_PAGE_HEAD + keys + (size_t)columns * (LL_PAGE_COLUMN + 8) + l->n + 64;
}

int ll_multicolumn__begin(struct lladd_dtable_builder *base)
{
    struct ll_multicolumn_builder *b = (struct ll_multicolumn_builder *)base;
    b->l = ll_multicolumn__layout(base->config);
    b->limit = lladd_dtable_block_size(base);
    b->next = FIRST;
    b->first_odd = b->first_tombstone = UINT32_MAX;
    if (b->limit > LL_PAGE_MAX || b->limit < most(b->l, base->order.type))
        return lladd_error_set(base->error, LLADD_TOO_LARGE,
                               "multicolumn_dtable: blocks of %u bytes; possible are at most %u, "
                               "and at least %zu for the columns that are configured",
                               b->limit, LL_PAGE_MAX, most(b->l, base->order.type));
    TRY(ll_keys_begin(&b->nodes, base));
    TRY(lladd_dtable_stream(base, "pages", &b->out));
    return allocate(b);
}

void ll_multicolumn__discard(struct lladd_dtable_builder *base)
{
    struct ll_multicolumn_builder *b = (struct ll_multicolumn_builder *)base;
    struct lladd_db *db = base->db;
    for (uint32_t i = 0; b->memory && i < b->l->n; i++) {
        lladd_mem_free(db, b->values[i]);
        lladd_mem_free(db, b->absent[i]);
    }
    ll_keys_discard(&b->nodes);
    lladd_mem_free(db, b->tombstone);
    lladd_mem_free(db, b->key_end);
    lladd_mem_free(db, b->key);
    lladd_mem_free(db, b->page);
    lladd_mem_free(db, b->memory);
}

/* ---- staged rows ----------------------------------------------------------------------------- */

#define SCATTER(T, B) \
    static void scatter_##B(const uint64_t *from, size_t step, uint32_t n, unsigned char *to) \
    { \
        for (uint32_t i = 0; i < n; i++) { \
            T v = (T)from[i * step]; \
            memcpy(to + i * sizeof v, &v, sizeof v); \
        } \
    }
SCATTER(uint8_t, 8)
SCATTER(uint16_t, 16)
SCATTER(uint32_t, 32)
SCATTER(uint64_t, 64)

/* Puts the numbers of the staged rows into the arrays of the columns. The last of them becomes the
 * row before; the row that is being added follows it. */
static void scatter(struct ll_multicolumn_builder *b)
{
    uint32_t columns = b->l->n, n = b->n_staged;
    for (uint32_t i = 0; i < columns && n; i++) {
        const uint64_t *from = b->staged + columns + i;
        uint32_t width = b->l->column[i].width;
        unsigned char *to = b->values[i] + (size_t)(b->n - n) * width;
        if (width == 1)
            scatter_8(from, columns, n, to);
        else if (width == 2)
            scatter_16(from, columns, n, to);
        else if (width == 4)
            scatter_32(from, columns, n, to);
        else
            scatter_64(from, columns, n, to);
    }
    memmove(b->staged, b->staged + (size_t)n * columns, 2 * columns * sizeof *b->staged);
    b->n_staged = 0;
}

/* ---- the size of a page ---------------------------------------------------------------------- */

/* The parts of a page with the first n rows. */
struct shape {
    uint32_t rows, marked;
    unsigned flags;
    struct ll_page_front front;
};

static struct shape shape_of(const struct ll_multicolumn_builder *b, uint32_t n)
{
    struct shape s = {.rows = n};
    for (uint32_t i = b->l->n_key; i < b->l->n; i++)
        s.marked += b->first_absent[i] < n;
    s.flags = (b->first_tombstone < n ? LL_PAGE_TOMBSTONES : 0u) |
              (s.marked ? LL_PAGE_ABSENT : 0u) | (b->first_odd < n ? LL_PAGE_KEYS : 0u);
    s.front = ll_page__front(b->l, s.flags, n, s.marked,
                             s.flags & LL_PAGE_KEYS ? b->key_end[n - 1] : 0);
    return s;
}

static uint32_t first_column(const struct ll_multicolumn_builder *b, const struct shape *s)
{
    return s->flags & LL_PAGE_KEYS ? b->l->n_key : 0;
}

static struct lladd_codec_input input(const struct ll_multicolumn_builder *b, uint32_t column,
                                      uint32_t n)
{
    return (struct lladd_codec_input){b->values[column], n, b->l->column[column].width, SIZE_MAX};
}

/* Plans a page with the first n rows, 1 or more. Returns its size. */
static size_t plan(struct ll_multicolumn_builder *b, uint32_t n, bool anew)
{
    struct shape s = shape_of(b, n);
    size_t size = s.front.segments;
    for (uint32_t i = first_column(b, &s); i < b->l->n; i++) {
        struct lladd_codec_input in = input(b, i, n);
        size += ll_multicolumn__plan(b->l, &in, &b->chosen[i], anew);
    }
    return size;
}

/* ---- writing a page -------------------------------------------------------------------------- */

static void put_bits(unsigned char *bits, const unsigned char *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        bits[i / 8] |= (unsigned char)(rows[i] << i % 8);
}

/* Writes what is before the segments. */
static void put_front(const struct ll_multicolumn_builder *b, const struct shape *s)
{
    unsigned char *p = b->page;
    uint32_t values = b->l->n - b->l->n_key, k = 0, bitmap = (s->rows + 7) / 8;
    p[0] = LL_PAGE_VERSION;
    p[1] = (unsigned char)s->flags;
    lladd_put16(p + 2, (uint16_t)s->rows);
    p[4] = (unsigned char)(b->l->n - first_column(b, s));
    lladd_put48(p + 10, b->place);
    if (s->flags & LL_PAGE_TOMBSTONES)
        put_bits(p + s->front.tombstones, b->tombstone, s->rows);
    for (uint32_t i = 0; i < values && s->marked; i++) {
        if (b->first_absent[b->l->n_key + i] >= s->rows)
            continue;
        p[s->front.absent + i / 8] |= (unsigned char)(1u << i % 8);
        put_bits(p + s->front.bitmaps + (size_t)k++ * bitmap, b->absent[b->l->n_key + i], s->rows);
    }
    if (!(s->flags & LL_PAGE_KEYS))
        return;
    for (uint32_t i = 0; i < s->rows; i++)
        lladd_put16(p + s->front.keys + 2 * (size_t)i, (uint16_t)b->key_end[i]);
    if (b->key_end[s->rows - 1])
        memcpy(p + s->front.keys + 2 * (size_t)s->rows, b->key, b->key_end[s->rows - 1]);
}

/* Writes the segments and exceptions as planned. `len`: bytes of the page. */
static void put_columns(const struct ll_multicolumn_builder *b, const struct shape *s, size_t len)
{
    unsigned char *p = b->page, *entry = p + LL_PAGE_HEAD;
    size_t at = s->front.segments, exceptions = len;
    for (uint32_t i = first_column(b, s); i < b->l->n; i++, entry += LL_PAGE_COLUMN) {
        uint32_t codec = b->chosen[i].codec;
        const struct lladd_codec_plan *c = &b->chosen[i].plans[codec];
        struct lladd_codec_input in = input(b, i, s->rows);
        size_t marks = c->exceptions ? LL_PAGE_MARKS : 0;
        exceptions -= c->exceptions;
        lladd_put16(entry, (uint16_t)at);
        entry[2] = (unsigned char)(codec | (marks ? LL_PAGE_HAS_EXCEPTIONS : 0u));
        entry[3] = c->own;
        if (marks) {
            lladd_put16(p + at, (uint16_t)exceptions);
            lladd_put16(p + at + 2, (uint16_t)c->exceptions);
        }
        b->l->codecs[codec]->encode(&in, c, p + at + marks, p + exceptions);
        at += ll_up_to_8(c->segment + marks);
    }
    lladd_put16(p + 6, (uint16_t)at);
    lladd_put16(p + 8, (uint16_t)exceptions);
}

/* Reads the fields of a key. */
static void fields_of(const struct ll_multicolumn_builder *b, uint32_t row, uint64_t *number)
{
    for (uint32_t i = 0; i < b->l->n_key; i++)
        number[i] = ll_number(b->values[i], b->l->column[i].width, row);
}

/* The first key of the page; its bytes are in the builder's memory or in `room`. */
static struct lladd_dtable_key first_key(const struct ll_multicolumn_builder *b,
                                         unsigned char *room)
{
    struct lladd_dtable_key key = {.type = b->base.order.type};
    uint64_t number[LL_FIELDS_MAX];
    if (b->first_odd != UINT32_MAX) {
        key.bytes = lladd_span_of(b->key, b->key_end[0]);
        return key;
    }
    fields_of(b, 0, number);
    if (key.type < LLADD_DTABLE_STRING) {
        key.number = ll_multicolumn__join_number(b->l, number);
        return key;
    }
    ll_multicolumn__join_bytes(b->l, number, room);
    key.bytes = lladd_span_of(room, b->l->key_size);
    return key;
}

/* Moves the bytes of the keys from row n on to the beginning. Whether a row after the first odd one
 * is odd is known from the length of its key. */
static void drop_keys(struct ll_multicolumn_builder *b, uint32_t n, uint32_t left)
{
    uint32_t keys = b->key_end[n - 1], from = 0, odd = 0;
    memmove(b->key, b->key + keys, b->key_len - keys);
    b->key_len -= keys;
    for (uint32_t i = 0; i < left; i++)
        b->key_end[i] = b->key_end[n + i] - keys;
    for (; odd < left && b->l->fields && b->key_end[odd] - from == b->l->key_size; odd++)
        from = b->key_end[odd];
    b->first_odd = odd < left ? odd : UINT32_MAX;
}

/* Moves the rows from n on to the beginning. */
static void drop(struct ll_multicolumn_builder *b, uint32_t n)
{
    const struct ll_layout *l = b->l;
    uint32_t left = b->n - n;
    for (uint32_t i = 0; i < l->n; i++) {
        size_t w = l->column[i].width;
        memmove(b->values[i], b->values[i] + n * w, left * w);
        if (l->rows && i >= l->n_key)
            memmove(b->absent[i], b->absent[i] + n, left);
        const unsigned char *next =
            b->first_absent[i] == UINT32_MAX ? NULL : memchr(b->absent[i], 1, left);
        b->first_absent[i] = next ? (uint32_t)(next - b->absent[i]) : UINT32_MAX;
    }
    memmove(b->tombstone, b->tombstone + n, left);
    const unsigned char *next = memchr(b->tombstone, 1, left);
    b->first_tombstone = next ? (uint32_t)(next - b->tombstone) : UINT32_MAX;
    if (b->first_odd != UINT32_MAX)
        drop_keys(b, n, left);
    b->n = left;
    b->place += n;
    for (size_t i = 0; i < (size_t)l->n * l->n_codecs; i++)
        b->plans[i].again = false;
}

/* Writes a page with the first n rows. The last plan was for them; it needs `size` bytes. */
static int write_page(struct ll_multicolumn_builder *b, uint32_t n, size_t size, bool last)
{
    struct shape s = shape_of(b, n);
    unsigned char room[LL_KEY_MAX];
    struct lladd_dtable_key key = first_key(b, room);
    size_t len = last ? size : b->limit;
    memset(b->page, 0, len);
    put_front(b, &s);
    put_columns(b, &s, len);
    TRY(lladd_dtable_write(b->out, b->page, len));
    TRY(ll_keys_add(&b->nodes, &key, 2 * (b->place + n)));
    drop(b, n);
    return 0;
}

/* ---- where a page ends ----------------------------------------------------------------------- */

/* Finds the number of rows that fit, from `low` (which fits, or 0) up to, not including, `high`,
 * which needs `size` bytes. Returns it; *size gets what it needs, or more than the limit if not
 * even one row fits. */
static uint32_t cut(struct ll_multicolumn_builder *b, uint32_t low, uint32_t high, size_t *size)
{
    size_t low_size = low ? plan(b, low, false) : 0, high_size = *size;
    for (unsigned turn = 1; high - low > 1 && (low == 0 || high - low > low / PRECISION); turn++) {
        uint32_t wide = high - low, guess = low + wide / 2;
        if (turn % 3 && high_size > low_size && b->limit > low_size)
            guess = low + (uint32_t)((double)wide * (double)(b->limit - low_size) /
                                     (double)(high_size - low_size));
        guess = guess <= low ? low + 1 : guess >= high ? high - 1 : guess;
        size_t needs = plan(b, guess, false);
        if (needs <= b->limit) {
            low = guess;
            low_size = needs;
        } else {
            high = guess;
            high_size = needs;
        }
    }
    low = low ? low : 1;
    *size = plan(b, low, false);
    while (*size > b->limit && low > 1) { /* `low` was planned with other codecs */
        low -= low / 16 + 1;
        low = low ? low : 1;
        *size = plan(b, low, false);
    }
    if (*size > b->limit)
        *size = plan(b, low, true);
    return low;
}

/* The number of rows at which to plan again, if n rows need `size` bytes. */
static uint32_t next_of(const struct ll_multicolumn_builder *b, uint32_t n, size_t size)
{
    uint64_t all = (uint64_t)n * b->limit / size, room = all > n ? all - n : 0;
    uint64_t least = n / STEP > STEP_LEAST ? n / STEP : STEP_LEAST;
    room -= room / 16;
    room = room > least ? room : least;
    room = room < 3 * (uint64_t)n + STEP_LEAST ? room : 3 * (uint64_t)n + STEP_LEAST;
    return n + room < LLADD_CODEC_ROWS ? (uint32_t)(n + room) : LLADD_CODEC_ROWS;
}

/* Writes the pages that are full; if `end`, all rows. */
static int write_pages(struct ll_multicolumn_builder *b, bool end)
{
    scatter(b);
    while (b->n && (end || b->n >= b->next)) {
        uint32_t n = b->n;
        size_t size = plan(b, n, end);
        if (size > b->limit)
            size = plan(b, n, true);
        bool fits = size <= b->limit;
        if (fits && !end && n < LLADD_CODEC_ROWS) {
            b->good = n;
            b->next = next_of(b, n, size);
            return 0;
        }
        if (!fits)
            n = cut(b, b->good < n ? b->good : 0, n, &size);
        if (size > b->limit)
            return lladd_error_set(b->base.error, LLADD_TOO_LARGE,
                                   "multicolumn_dtable: a row needs %zu bytes; pages have %u", size,
                                   b->limit);
        TRY(write_page(b, n, size, end && n == b->n));
        b->good = 0;
        b->next = n - n / 16 > FIRST / 16 ? n - n / 16 : FIRST / 16;
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int add_bytes(struct ll_multicolumn_builder *b, const void *bytes, size_t len, uint32_t row)
{
    if (ll_operations__grow(b->base.db, &b->key, b->key_len + len, &b->key_cap, 1))
        return no_memory(b);
    if (len)
        memcpy(b->key + b->key_len, bytes, len);
    b->key_len += len;
    b->key_end[row] = (uint32_t)b->key_len;
    return 0;
}

/* Keeps the bytes of a key, because it is odd, or comes after an odd one. The keys before the first
 * odd one are assembled. */
static int add_key(struct ll_multicolumn_builder *b, struct lladd_span key)
{
    unsigned char room[LL_KEY_MAX];
    uint64_t number[LL_FIELDS_MAX];
    if (b->first_odd == UINT32_MAX) {
        scatter(b);
        b->key_len = 0;
        for (uint32_t i = 0; i < b->n; i++) {
            fields_of(b, i, number);
            ll_multicolumn__join_bytes(b->l, number, room);
            TRY(add_bytes(b, room, b->l->key_size, i));
        }
        b->first_odd = b->n;
    }
    return add_bytes(b, key.data, key.len, b->n);
}

/* Notes what the row is besides its numbers. */
static void mark(struct ll_multicolumn_builder *b, bool tombstone)
{
    const struct ll_layout *l = b->l;
    uint32_t n = b->n;
    b->tombstone[n] = tombstone;
    if (tombstone && b->first_tombstone == UINT32_MAX)
        b->first_tombstone = n;
    for (uint32_t i = l->n_key; i < l->n && l->rows; i++) {
        bool absent = !tombstone && b->absent_now[i - l->n_key];
        b->absent[i][n] = absent;
        if (absent && b->first_absent[i] == UINT32_MAX)
            b->first_absent[i] = n;
    }
}

/* Columns without a value, and all columns of a tombstone, keep the numbers of the row before:
 * these take the least space. */
int ll_multicolumn__add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
                        const struct lladd_dtable_value *value)
{
    struct ll_multicolumn_builder *b = (struct ll_multicolumn_builder *)base;
    const struct ll_layout *l = b->l;
    bool tombstone = value->state == LLADD_DTABLE_TOMBSTONE;
    if (b->n == b->cap)
        TRY(more_room(b));
    if (b->n_staged == STAGED)
        scatter(b);
    uint64_t *before = b->staged + (size_t)b->n_staged * l->n;
    struct ll_row row = {before + l->n, b->absent_now};
    if (tombstone || l->rows)
        memcpy(row.number, before, l->n * sizeof *before);
    if (!tombstone && !ll_multicolumn__split(l, value->bytes, &row))
        return LLADD_DTABLE_REJECT;
    if (!ll_multicolumn__split_key(l, key, row.number) || b->first_odd != UINT32_MAX)
        TRY(add_key(b, key->bytes));
    mark(b, tombstone);
    b->n_staged++;
    b->n++;
    b->rows++;
    return b->n >= b->next ? write_pages(b, false) : 0;
}

/* The end of the footer: u8 version, u8 key fields, u16 columns, u8 codecs, u8[3] 0, u64 rows; for
 * each column u8 its width; for each codec u32 version, u8 length of its name, the name. */
int ll_multicolumn__finish(struct lladd_dtable_builder *base)
{
    struct ll_multicolumn_builder *b = (struct ll_multicolumn_builder *)base;
    const struct ll_layout *l = b->l;
    unsigned char *p = b->page, *end = p + LL_FOOTER_HEAD;
    TRY(write_pages(b, true));
    memset(p, 0, LL_FOOTER_HEAD);
    p[0] = LL_FOOTER_VERSION;
    p[1] = (unsigned char)l->n_key;
    lladd_put16(p + 2, (uint16_t)l->n);
    p[4] = (unsigned char)l->n_codecs;
    lladd_put64(p + 8, b->rows);
    for (uint32_t i = 0; i < l->n; i++)
        *end++ = l->column[i].width;
    for (uint32_t i = 0; i < l->n_codecs; i++) {
        size_t len = strlen(l->codecs[i]->name);
        lladd_put32(end, l->codecs[i]->version);
        end[4] = (unsigned char)len;
        memcpy(end + LL_FOOTER_CODEC, l->codecs[i]->name, len);
        end += LL_FOOTER_CODEC + len;
    }
    return ll_keys_finish(&b->nodes, p, (size_t)(end - p));
}
