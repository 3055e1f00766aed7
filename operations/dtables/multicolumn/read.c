/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading: pages, and the rows in them.
 *
 * A page is checked once, when its block is loaded (check_block): its header and segments, and that
 * its rows and its first key are those of its node. After that nothing here checks again, and
 * nothing can lead outside of the page. A reader is not changed; a call keeps the page in its
 * pin. */
#include "operations/dtables/multicolumn/read.h"

#include <stdio.h>

static const struct ll_multicolumn_reader *reader_of(const struct lladd_dtable *t)
{
    return (const struct ll_multicolumn_reader *)t;
}

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a multicolumn_dtable");
}

/* ---- the check of a page --------------------------------------------------------------------- */

static int bad_page(const struct lladd_dtable *t, uint64_t page, uint32_t column, const char *why,
                    struct lladd_error *err)
{
    char text[80], where[24] = "";
    if (column != UINT32_MAX)
        (void)snprintf(where, sizeof where, ", column %u", column);
    (void)snprintf(text, sizeof text, "page %llu%s: %s", (unsigned long long)page, where, why);
    return lladd_dtable_corrupt(t, err, text);
}

/* Compares a page with its node: the first key, and the places. */
static int check_node(const struct ll_multicolumn_reader *r, uint64_t number,
                      const struct ll_page *p, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_key node = {.number = 0}, first;
    unsigned char room[LL_KEY_MAX];
    uint64_t before = 0, mark = 0, from = ll_page_first(p);
    int rc = ll_keys_at(&r->nodes, number, &pin, &node, &before, &mark, err);
    ll_page__key_at(&r->pages, r->base.order.type, p, 0, room, &first);
    bool same = first.number == node.number && first.bytes.len == node.bytes.len &&
                (first.bytes.len == 0 ||
                 memcmp(first.bytes.data, node.bytes.data, first.bytes.len) == 0);
    if (!rc && (before / 2 != from || mark / 2 - before / 2 != ll_page_rows(p) || !same))
        rc = bad_page(&r->base, number, UINT32_MAX, "its rows are not those of its node", err);
    lladd_dtable_unpin(&pin);
    return rc;
}

static int check_block(const struct lladd_dtable *t, uint64_t block, const unsigned char *bytes,
                       uint32_t len, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(t);
    struct ll_page p = {bytes, len};
    uint32_t column = UINT32_MAX;
    const char *why = ll_page__check(&r->pages, &p, &column);
    if (why)
        return bad_page(t, block, column, why, err);
    return check_node(r, block, &p, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Finds the codecs that the footer names, from `at` on. */
static int open_codecs(struct ll_multicolumn_reader *r, struct lladd_span f, size_t at,
                       struct lladd_error *err)
{
    struct ll_pages *p = &r->pages;
    const unsigned char *bytes = f.data;
    const struct lladd_codec **codecs =
        lladd_dtable_keep(&r->base, p->n_codecs * (sizeof *codecs + sizeof *p->versions));
    if (!codecs)
        return no_memory(err);
    uint32_t *versions = (uint32_t *)(void *)(codecs + p->n_codecs);
    p->codecs = codecs;
    p->versions = versions;
    for (uint32_t i = 0; i < p->n_codecs; i++) {
        size_t len = f.len - at > LL_FOOTER_CODEC ? bytes[at + 4] : 0;
        if (len == 0 || len > f.len - at - LL_FOOTER_CODEC)
            return lladd_dtable_corrupt(&r->base, err, "its footer ends in a list of codecs");
        const char *name = (const char *)bytes + at + LL_FOOTER_CODEC;
        versions[i] = lladd_get32(bytes + at);
        codecs[i] = lladd_codec_find(r->base.db, name, len);
        if (!codecs[i])
            return lladd_error_set(err, LLADD_BAD_CONFIG,
                                   "multicolumn_dtable: the codec \"%.*s\" is not registered",
                                   (int)len, name);
        if (versions[i] > codecs[i]->version)
            return lladd_error_set(err, LLADD_NEWER_FORMAT, "codec %s of version %u; %u is known",
                                   codecs[i]->name, versions[i], codecs[i]->version);
        at += LL_FOOTER_CODEC + len;
    }
    return at == f.len ? 0 : lladd_dtable_corrupt(&r->base, err, "its footer is too long");
}

int ll_multicolumn__open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct ll_multicolumn_reader *r = (struct ll_multicolumn_reader *)base;
    const struct ll_layout *l = ll_multicolumn__layout(base->config);
    struct lladd_span f;
    TRY(ll_keys_open(&r->nodes, base, &f, err));
    TRY(lladd_dtable_source_open(base, "pages", &r->in, err));
    const unsigned char *p = f.data;
    if (f.len < LL_FOOTER_HEAD || p[0] == 0)
        return lladd_dtable_corrupt(base, err, "its footer is too short");
    if (p[0] > LL_FOOTER_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "a footer of a multicolumn_dtable of version %u; %d is known", p[0],
                               LL_FOOTER_VERSION);
    if (p[1] != l->n_key || lladd_get16(p + 2) != l->n || f.len < LL_FOOTER_HEAD + (size_t)l->n)
        return lladd_dtable_corrupt(base, err,
                                    "its footer does not have the columns of its configuration");
    for (uint32_t i = 0; i < l->n; i++)
        if (p[LL_FOOTER_HEAD + i] != l->column[i].width)
            return lladd_dtable_corrupt(base, err, "a column has another width");
    r->pages = (struct ll_pages){.layout = l, .n_codecs = p[4]};
    r->n_pages = lladd_dtable_source_blocks(r->in);
    base->places = lladd_get64(p + 8);
    if (r->nodes.rows != r->n_pages || base->places > r->n_pages * LLADD_CODEC_ROWS)
        return lladd_dtable_corrupt(base, err, "it has another number of pages than of nodes");
    TRY(open_codecs(r, f, LL_FOOTER_HEAD + l->n, err));
    lladd_dtable_source_check(base, r->in, check_block);
    return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Like the blocks of other classes' keys, a page is held with 0 for `which`: layers above that
 * decode a value use 1, and the key must stay. */
int ll_multicolumn__page(const struct ll_multicolumn_reader *r, uint64_t page,
                         struct lladd_dtable_pin *pin, struct ll_page *out, struct lladd_error *err)
{
    return lladd_dtable_block(pin, 0, r->in, page, &out->bytes, &out->len, err);
}

/* Is the place in the page? *by gets -1 or 1 if it is the place before or after the page, else
 * 0. */
static bool has(const struct ll_page *p, uint64_t place, int *by)
{
    uint64_t first = ll_page_first(p), rows = ll_page_rows(p);
    *by = place + 1 == first ? -1 : place == first + rows;
    return place >= first && place - first < rows;
}

/* Finds the page of a place among the nodes. Pages have similar numbers of rows, so the search
 * interpolates, and halves the range in every third step. */
static int page_of(const struct ll_multicolumn_reader *r, uint64_t place,
                   struct lladd_dtable_pin *pin, uint64_t *out, struct lladd_error *err)
{
    uint64_t low = 0, high = r->n_pages, from = 0, to = r->base.places;
    for (unsigned turn = 1; low < high; turn++) {
        uint64_t before, mark, wide = high - low, guess = low + wide / 2;
        if (turn % 3 && place >= from && place < to)
            guess = low + (uint64_t)((double)wide * (double)(place - from) / (double)(to - from));
        guess = guess < high ? guess : high - 1;
        TRY(ll_keys_at(&r->nodes, guess, pin, NULL, &before, &mark, err));
        if (place >= before / 2 && place < mark / 2) {
            *out = guess;
            return 0;
        }
        if (place < before / 2) {
            high = guess;
            to = before / 2;
        } else {
            low = guess + 1;
            from = mark / 2;
        }
    }
    return lladd_dtable_corrupt(&r->base, err, "no page has a place");
}

/* Most callers stay in the page that their pin has, or go on to the next one. */
int ll_multicolumn__hold(const struct ll_multicolumn_reader *r, uint64_t place,
                         struct lladd_dtable_pin *pin, uint64_t *page, struct ll_page *p,
                         uint32_t *row, struct lladd_error *err)
{
    int by;
    bool there = false;
    if (lladd_dtable_held(pin, 0, r->in, page)) {
        TRY(ll_multicolumn__page(r, *page, pin, p, err));
        there = has(p, place, &by);
        if (by && *page + (uint64_t)by < r->n_pages) {
            *page += (uint64_t)by;
            TRY(ll_multicolumn__page(r, *page, pin, p, err));
            there = has(p, place, &by);
        }
    }
    if (!there) {
        TRY(page_of(r, place, pin, page, err));
        TRY(ll_multicolumn__page(r, *page, pin, p, err));
    }
    if (!has(p, place, &by))
        return lladd_dtable_corrupt(&r->base, err, "a page does not have its rows");
    *row = (uint32_t)(place - ll_page_first(p));
    return 0;
}

static int hold(const struct ll_multicolumn_reader *r, uint64_t place,
                struct lladd_dtable_pin *pin, struct ll_page *p, uint32_t *row,
                struct lladd_error *err)
{
    uint64_t page;
    return ll_multicolumn__hold(r, place, pin, &page, p, row, err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Finds the page and the row of a key, or of the next one. If this is the first row of the page
 * after the one that was searched, *row is the number of rows. */
static int search(const struct ll_multicolumn_reader *r, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct ll_page *p, uint32_t *row, bool *exact,
                  struct lladd_error *err)
{
    unsigned char room[LL_KEY_MAX];
    uint64_t page;
    TRY(ll_keys_find(&r->nodes, key, pin, &page, exact, err));
    if (!*exact && page > 0)
        page--;
    TRY(ll_multicolumn__page(r, page, pin, p, err));
    *row = *exact ? 0 : ll_page__find(&r->pages, &r->base.order, p, key, room, exact);
    return 0;
}

int ll_multicolumn__find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                         struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                         struct lladd_error *err)
{
    struct ll_page p;
    uint32_t row;
    *place = 0;
    *exact = false;
    if (base->places == 0)
        return 0;
    TRY(search(reader_of(base), key, pin, &p, &row, exact, err));
    *place = ll_page_first(&p) + row;
    return 0;
}

static int key_at(const struct ll_multicolumn_reader *r, const struct ll_page *p, uint32_t row,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_key *key,
                  struct lladd_error *err)
{
    const struct ll_layout *l = r->pages.layout;
    unsigned char *room = NULL;
    if (r->base.order.type >= LLADD_DTABLE_STRING && l->fields) {
        room = lladd_dtable_key_room(r->base.db, pin, l->key_size);
        if (!room)
            return no_memory(err);
    }
    ll_page__key_at(&r->pages, r->base.order.type, p, row, room, key);
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Assembles a packed row. */
static int packed_row(const struct ll_source *s, uint32_t row, struct lladd_dtable_pin *pin,
                      struct lladd_dtable_value *out, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = s->r;
    const struct ll_layout *l = r->pages.layout;
    uint32_t n = l->n - l->n_key;
    size_t size;
    struct lladd_dtable_value *v =
        lladd_dtable_room(r->base.db, pin, n * (sizeof *v + LL_TEXT_LENGTH) + 1);
    if (!v)
        return no_memory(err);
    unsigned char *bytes = (unsigned char *)(v + n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column = l->n_key + i, len;
        v[i] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
        if (ll_bit(ll_page__absent(&r->pages, &s->p, column), row))
            continue;
        len = ll_multicolumn__put(&l->column[column], ll_multicolumn__number(s, column, row),
                                  bytes);
        v[i] = lladd_dtable_value_of(bytes, len);
        bytes += len;
    }
    TRY(lladd_dtable_row_size(v, n, &size, err));
    void *packed = lladd_dtable_room(r->base.db, pin, size);
    if (!packed)
        return no_memory(err);
    lladd_dtable_row_pack(v, n, packed);
    *out = lladd_dtable_value_of(packed, size);
    return 0;
}

int ll_multicolumn__value(const struct ll_source *s, uint32_t row, struct lladd_dtable_pin *pin,
                          struct lladd_dtable_value *out, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = s->r;
    const struct ll_layout *l = r->pages.layout;
    if (l->rows)
        return packed_row(s, row, pin, out, err);
    *out = lladd_dtable_value_of("", 0);
    if (l->value_size == 0)
        return 0;
    unsigned char *bytes = lladd_dtable_room(r->base.db, pin, l->value_size);
    if (!bytes)
        return no_memory(err);
    if (l->texts)
        memset(bytes, 0, l->value_size);
    for (uint32_t i = l->n_key; i < l->n; i++)
        (void)ll_multicolumn__put(&l->column[i], ll_multicolumn__number(s, i, row),
                                  bytes + l->column[i].at); /* its length is known */
    *out = lladd_dtable_value_of(bytes, l->value_size);
    return 0;
}

static int value_at(const struct ll_multicolumn_reader *r, const struct ll_page *p, uint32_t row,
                    struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                    struct lladd_error *err)
{
    const struct ll_source alone = {.r = r, .p = *p};
    if (ll_bit(ll_page__tombstones(&r->pages, p), row)) {
        *out = lladd_dtable_tombstone();
        return 0;
    }
    return ll_multicolumn__value(&alone, row, pin, out, err);
}

int ll_multicolumn__at(const struct lladd_dtable *base, uint64_t place,
                       struct lladd_dtable_pin *pin, struct lladd_dtable_key *key,
                       struct lladd_dtable_value *value, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    struct ll_page p;
    uint32_t row;
    TRY(hold(r, place, pin, &p, &row, err));
    if (key)
        TRY(key_at(r, &p, row, pin, key, err));
    return value ? value_at(r, &p, row, pin, value, err) : 0;
}

int ll_multicolumn__lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                           struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                           struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    struct ll_page p;
    uint32_t row;
    bool exact = false;
    if (base->places == 0)
        return 0;
    TRY(search(r, key, pin, &p, &row, &exact, err));
    return exact ? value_at(r, &p, row, pin, out, err) : 0;
}

/* ---- some columns ---------------------------------------------------------------------------- */

int ll_multicolumn__columns(const struct ll_source *s, uint32_t row,
                            const struct lladd_dtable_columns *want,
                            enum lladd_dtable_state *state, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = s->r;
    const struct ll_page *p = &s->p;
    const struct ll_layout *l = r->pages.layout;
    *state = ll_bit(ll_page__tombstones(&r->pages, p), row) ? LLADD_DTABLE_TOMBSTONE
                                                            : LLADD_DTABLE_FOUND;
    for (size_t i = 0; i < want->n && *state == LLADD_DTABLE_FOUND; i++) {
        uint32_t column = l->n_key + want->numbers[i];
        want->values[i] = (struct lladd_dtable_value){.state = LLADD_DTABLE_ABSENT};
        if (want->numbers[i] >= l->n - l->n_key ||
            ll_bit(ll_page__absent(&r->pages, p, column), row))
            continue;
        unsigned char *bytes = lladd_dtable_room(r->base.db, &want->pins[i], LL_TEXT_LENGTH);
        if (!bytes)
            return no_memory(err);
        uint32_t len = ll_multicolumn__put(&l->column[column],
                                           ll_multicolumn__number(s, column, row), bytes);
        want->values[i] = lladd_dtable_value_of(bytes, len);
    }
    return 0;
}

int ll_multicolumn__columns_at(const struct lladd_dtable *base, uint64_t place,
                               const struct lladd_dtable_columns *want,
                               enum lladd_dtable_state *state, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    struct lladd_dtable_value value;
    struct ll_page p;
    uint32_t row;
    if (!r->pages.layout->rows && want->n) { /* perhaps the value is a packed row all the same */
        TRY(ll_multicolumn__at(base, place, &want->pins[want->n], NULL, &value, err));
        return lladd_dtable_row_unpack(&value, want, state, err);
    }
    TRY(hold(r, place, &want->pins[want->n], &p, &row, err));
    const struct ll_source alone = {.r = r, .p = p};
    return ll_multicolumn__columns(&alone, row, want, state, err);
}

int ll_multicolumn__lookup_columns(const struct lladd_dtable *base,
                                   const struct lladd_dtable_key *key,
                                   const struct lladd_dtable_columns *want,
                                   enum lladd_dtable_state *state, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    struct ll_page p;
    uint32_t row;
    bool exact = false;
    *state = LLADD_DTABLE_ABSENT;
    if (base->places == 0)
        return 0;
    TRY(search(r, key, &want->pins[want->n], &p, &row, &exact, err));
    if (!exact)
        return 0;
    const struct ll_source alone = {.r = r, .p = p};
    if (r->pages.layout->rows || want->n == 0)
        return ll_multicolumn__columns(&alone, row, want, state, err);
    return ll_multicolumn__columns_at(base, ll_page_first(&p) + row, want, state, err);
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* The first row from `from` up to `to` with its bit set, or `to`. */
static uint32_t first_bit(const unsigned char *bits, uint32_t from, uint32_t to)
{
    while (bits && from < to && !ll_bit(bits, from))
        from += from % 8 == 0 && bits[from / 8] == 0 ? 8 : 1;
    return bits && from < to ? from : to;
}

#define FLIP(width) \
    for (uint32_t i = 0; i < n; i++) \
    ll_stored_set(out + (size_t)i * (width), width, ll_number(out, width, i) ^ c->flip)

/* Decodes numbers, inverts the highest bits of signed ones, and makes them little-endian. For each
 * width there is a loop, which compilers turn into vector instructions. */
static void put_numbers(const struct ll_multicolumn_reader *r, const struct ll_page *p,
                        uint32_t column, uint32_t from, uint32_t n, unsigned char *out)
{
    const struct ll_column *c = &r->pages.layout->column[column];
    ll_page__numbers(&r->pages, p, column, from, n, out);
    if (c->flip == 0)
        ll_numbers_copy(out, out, c->width, n);
    else if (c->width == 1)
        FLIP(1);
    else if (c->width == 2)
        FLIP(2);
    else if (c->width == 4)
        FLIP(4);
    else
        FLIP(8);
}

#define SCATTER(width) \
    for (uint32_t k = 0; k < n; k++, to += step) \
    ll_stored_set(to, width, ll_number(numbers, width, k) ^ c->flip)

/* Puts a column's part of n values, `step` bytes apart. */
static void put_column(const struct ll_column *c, const unsigned char *numbers, uint32_t n,
                       size_t step, unsigned char *to)
{
    if (c->text) {
        for (uint32_t k = 0; k < n; k++, to += step) {
            memset(to, 0, LL_TEXT_LENGTH);
            (void)ll_multicolumn__put(c, ll_number(numbers, c->width, k), to); /* its length is
                                                                                * known */
        }
    } else if (c->width == 1) {
        SCATTER(1);
    } else if (c->width == 2) {
        SCATTER(2);
    } else if (c->width == 4) {
        SCATTER(4);
    } else {
        SCATTER(8);
    }
}

void ll_multicolumn__values(const struct ll_multicolumn_reader *r, const struct ll_page *p,
                            uint32_t from, uint32_t n, unsigned char *out)
{
    const struct ll_layout *l = r->pages.layout;
    unsigned char numbers[LL_GROUP_BYTES];
    for (uint32_t i = l->n_key; i < l->n; i++) {
        ll_page__numbers(&r->pages, p, i, from, n, numbers);
        put_column(&l->column[i], numbers, n, l->value_size, out + l->column[i].at);
    }
}

enum { WHOLE_VALUES = UINT32_MAX };

/* Copies the values of n rows from `place` on, or the numbers of one column. Stops before the first
 * tombstone or absent number. */
static int copy_rows(const struct ll_multicolumn_reader *r, uint32_t column, uint64_t place,
                     size_t n, unsigned char *out, size_t width, size_t *got,
                     struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    int rc = 0;
    while (*got < n) {
        struct ll_page p;
        uint32_t row, end;
        rc = hold(r, place + *got, &pin, &p, &row, err);
        if (rc)
            break;
        end = ll_page_rows(&p) - row < n - *got ? ll_page_rows(&p) : row + (uint32_t)(n - *got);
        uint32_t stop = first_bit(ll_page__tombstones(&r->pages, &p), row, end);
        if (column != WHOLE_VALUES)
            stop = first_bit(ll_page__absent(&r->pages, &p, column), row, stop);
        while (row < stop) { /* a group at a time */
            uint32_t some = LL_GROUP - row % LL_GROUP;
            some = some < stop - row ? some : stop - row;
            if (column == WHOLE_VALUES)
                ll_multicolumn__values(r, &p, row, some, out + *got * width);
            else
                put_numbers(r, &p, column, row, some, out + *got * width);
            *got += some;
            row += some;
        }
        if (stop < end)
            break;
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

int ll_multicolumn__copy(const struct lladd_dtable *base, uint64_t place, size_t n,
                         unsigned char *out, size_t room, size_t *width, size_t *got,
                         struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    const struct ll_layout *l = r->pages.layout;
    if (l->rows || l->value_size == 0)
        return 0;
    *width = l->value_size;
    n = n < room / *width ? n : room / *width;
    return copy_rows(r, WHOLE_VALUES, place, n, out, *width, got, err);
}

int ll_multicolumn__copy_column(const struct lladd_dtable *base, uint32_t column, uint64_t place,
                                size_t n, unsigned char *out, size_t room, size_t *width,
                                size_t *got, struct lladd_error *err)
{
    const struct ll_multicolumn_reader *r = reader_of(base);
    const struct ll_layout *l = r->pages.layout;
    *width = *got = 0;
    if (!l->rows || column >= l->n - l->n_key || l->column[l->n_key + column].text)
        return 0;
    column += l->n_key;
    *width = l->column[column].width;
    n = n < room / *width ? n : room / *width;
    n = place < base->places ? n < base->places - place ? n : (size_t)(base->places - place) : 0;
    return copy_rows(r, column, place, n, out, *width, got, err);
}
