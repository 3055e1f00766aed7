/* SPDX-License-Identifier: BSD-2-Clause */
/* The layout of rows: reads the configuration, and splits and joins keys and values.
 *
 * In a page all columns are unsigned numbers. The highest bit of a signed number is inverted, so
 * that numbers near 0 are near each other. A text of at most 12 characters is a number, too: five
 * bits for each character, the first one highest; then bit 60 says whether its letters are
 * capitals. */
#include "operations/dtables/multicolumn/multicolumn.h"

enum { CHARACTER = 5, CAPITALS = 60 };

/* Characters by their numbers; 0 ends a text. Numbers 1 to 26 are the letters. */
static const char alphabet[] = "\0abcdefghijklmnopqrstuvwxyz -._/";

const struct ll_layout *ll_multicolumn__layout(const struct lladd_dtable_config *c)
{
    return lladd_dtable_config_state(c);
}

/* ---- configured ------------------------------------------------------------------------------ */

static int bad(struct lladd_error *err, const char *parameter, size_t i, const char *what)
{
    return lladd_error_set(err, LLADD_BAD_CONFIG, "multicolumn_dtable: word %zu of \"%s\" %s", i,
                           parameter, what);
}

static bool is(struct lladd_span word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.data, text, word.len) == 0;
}

/* Reads a type such as "u16". */
static bool read_type(struct lladd_span word, struct ll_column *c)
{
    static const char *const types[] = {"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"};
    *c = (struct ll_column){.width = 0};
    if (is(word, "text12")) {
        *c = (struct ll_column){.width = 8, .bits = 64, .bytes = LL_TEXT_LENGTH, .text = true};
        return true;
    }
    for (unsigned i = 0; i < 8; i++)
        if (is(word, types[i])) {
            c->width = c->bytes = (uint8_t)(1u << i % 4);
            c->bits = (uint8_t)(8 * c->width);
            c->is_signed = i >= 4;
            c->flip = c->is_signed ? UINT64_C(1) << (c->bits - 1) : 0;
            return true;
        }
    return false;
}

/* Reads a number of bits, 1 to 64. */
static bool read_bits(struct lladd_span word, struct ll_column *c)
{
    const unsigned char *p = word.data;
    unsigned bits = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (p[i] < '0' || p[i] > '9' || i == 2)
            return false;
        bits = bits * 10 + (p[i] - '0');
    }
    uint8_t width = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
    *c = (struct ll_column){.width = width, .bits = (uint8_t)bits, .bytes = width};
    return bits >= 1 && bits <= 64;
}

/* Fields of a number key: bits, which add up to 32 or to 64. */
static int number_fields(struct ll_layout *l, const struct lladd_dtable_config *c,
                         struct lladd_dtable_caps *caps, struct lladd_error *err)
{
    unsigned bits = 0;
    for (uint32_t i = 0; i < l->n_key; i++) {
        if (!read_bits(lladd_dtable_param_word(c, "key", i), &l->column[i]))
            return bad(err, "key", i, "is not a number of bits from 1 to 64, as the first is");
        bits += l->column[i].bits;
    }
    if (bits != 32 && bits != 64)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "multicolumn_dtable: the words of \"key\" add up to %u bits, not to "
                               "32 or 64",
                               bits);
    caps->types &= bits == 32 ? 1u << LLADD_DTABLE_U32
                              : 1u << LLADD_DTABLE_U64 | 1u << LLADD_DTABLE_DOUBLE;
    for (uint32_t i = 0; i < l->n_key; i++) {
        bits -= l->column[i].bits;
        l->column[i].at = bits;
    }
    return 0;
}

/* Fields of a bytes key: types, big-endian. */
static int bytes_fields(struct ll_layout *l, const struct lladd_dtable_config *c,
                        struct lladd_dtable_caps *caps, struct lladd_error *err)
{
    for (uint32_t i = 0; i < l->n_key; i++) {
        struct ll_column *f = &l->column[i];
        if (!read_type(lladd_dtable_param_word(c, "key", i), f) || f->text)
            return bad(err, "key", i, "is not one of u8, u16, u32, u64, i8, i16, i32 and i64");
        f->at = l->key_size;
        f->flip = 0; /* in an ordered key the highest bit is inverted already */
        l->key_size += f->bytes;
    }
    l->fields = true;
    caps->types &= 1u << LLADD_DTABLE_STRING | 1u << LLADD_DTABLE_BYTES;
    return 0;
}

static int read_key(struct ll_layout *l, const struct lladd_dtable_config *c,
                    struct lladd_dtable_caps *caps, struct lladd_error *err)
{
    struct ll_column first;
    if (lladd_dtable_param_words(c, "key") == 0) {
        l->column[0] = (struct ll_column){.width = 8, .bits = 64, .bytes = 8};
        return 0;
    }
    return read_bits(lladd_dtable_param_word(c, "key", 0), &first)
               ? number_fields(l, c, caps, err)
               : bytes_fields(l, c, caps, err);
}

static int read_columns(struct ll_layout *l, const struct lladd_dtable_config *c,
                        struct lladd_error *err)
{
    for (uint32_t i = l->n_key; i < l->n; i++) {
        struct ll_column *v = &l->column[i];
        if (!read_type(lladd_dtable_param_word(c, "columns", i - l->n_key), v))
            return bad(err, "columns", i - l->n_key,
                       "is not one of u8, u16, u32, u64, i8, i16, i32, i64 and text12");
        v->at = l->value_size;
        l->value_size += v->bytes;
        l->texts = l->texts || v->text;
    }
    return 0;
}

/* Reads the names of codecs. "nop" is always among them, because it can store anything. */
static int read_codecs(struct ll_layout *l, const struct lladd_dtable_config *c,
                       struct lladd_error *err)
{
#define ONE(name) &ll_codec_##name,
    static const struct lladd_codec *const all[] = {LL_CODECS(ONE)};
#undef ONE
    size_t n = lladd_dtable_param_words(c, "codecs");
    if (n == 0) {
        memcpy(l->codecs, all, sizeof all);
        l->n_codecs = sizeof all / sizeof all[0];
        return 0;
    }
    l->codecs[l->n_codecs++] = &ll_codec_nop;
    for (size_t i = 0; i < n; i++) {
        struct lladd_span word = lladd_dtable_param_word(c, "codecs", i);
        const struct lladd_codec *codec =
            lladd_codec_find(lladd_dtable_config_db(c), word.data, word.len);
        if (!codec)
            return bad(err, "codecs", i, "is not the name of a codec");
        if (codec != &ll_codec_nop)
            l->codecs[l->n_codecs++] = codec;
        for (uint32_t k = 1; codec != &ll_codec_nop && k + 1 < l->n_codecs; k++)
            if (l->codecs[k] == codec)
                return bad(err, "codecs", i, "is there twice");
    }
    return 0;
}

/* Allocates a layout for the words of the configuration. */
static int allocate(struct lladd_dtable_config *c, struct ll_layout **out, struct lladd_error *err)
{
    size_t n_key = lladd_dtable_param_words(c, "key"), n = lladd_dtable_param_words(c, "columns");
    size_t codecs = lladd_dtable_param_words(c, "codecs") + 8;
    n_key = n_key ? n_key : 1;
    if (n_key + n > LL_COLUMNS_MAX || n_key > LL_FIELDS_MAX || codecs > LL_CODECS_MAX)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "multicolumn_dtable: %zu fields of the key, %zu columns or %zu "
                               "codecs; possible are %d, %d together, and %d",
                               n_key, n, codecs - 8, LL_FIELDS_MAX, LL_COLUMNS_MAX,
                               LL_CODECS_MAX - 8);
    struct ll_layout *l = lladd_mem_alloc(
        lladd_dtable_config_db(c),
        sizeof *l + (n_key + n) * sizeof l->column[0] + codecs * sizeof *l->codecs);
    if (!l)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a multicolumn_dtable");
    *l = (struct ll_layout){.n_key = (uint32_t)n_key, .n = (uint32_t)(n_key + n)};
    l->codecs = (const struct lladd_codec **)(void *)(l->column + l->n);
    lladd_dtable_config_state_set(c, l);
    *out = l;
    return 0;
}

int ll_multicolumn__configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                              struct lladd_error *err)
{
    struct ll_layout *l = NULL;
    TRY(allocate(c, &l, err));
    l->rows = lladd_dtable_param_bool(c, "rows");
    TRY(read_key(l, c, caps, err));
    TRY(read_columns(l, c, err));
    TRY(read_codecs(l, c, err));
    caps->value_size = l->rows ? LLADD_DTABLE_ANY_SIZE : l->value_size;
    caps->empty = !l->rows && l->value_size == 0; /* a packed row is never empty */
    caps->all_values = !l->rows && !l->texts;
    return 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int character_of(unsigned char c)
{
    const char *there = c ? memchr(alphabet, c, sizeof alphabet - 1) : NULL;
    return there ? (int)(there - alphabet) : -1;
}

/* Packs a text. Returns false if it is too long, has other characters, or mixes small letters and
 * capitals. */
static bool pack_text(struct lladd_span text, uint64_t *out)
{
    const unsigned char *p = text.data;
    bool small = false, capitals = false;
    *out = 0;
    if (text.len > LL_TEXT_LENGTH)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool capital = p[i] >= 'A' && p[i] <= 'Z';
        int c = character_of(capital ? (unsigned char)(p[i] - 'A' + 'a') : p[i]);
        if (c < 0)
            return false;
        capitals = capitals || capital;
        small = small || (!capital && p[i] >= 'a' && p[i] <= 'z');
        *out |= (uint64_t)c << (CAPITALS - CHARACTER - CHARACTER * i);
    }
    *out |= (uint64_t)capitals << CAPITALS;
    return !(small && capitals);
}

static uint32_t unpack_text(uint64_t number, unsigned char *out)
{
    bool capitals = number >> CAPITALS & 1;
    uint32_t n = 0;
    for (; n < LL_TEXT_LENGTH; n++) {
        char c = alphabet[number >> (CAPITALS - CHARACTER - CHARACTER * n) & 31];
        if (!c)
            break;
        out[n] = (unsigned char)(capitals && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    return n;
}

/* The text in a value of 12 bytes: up to its zeros. Returns false if other bytes follow a zero. */
static bool padded_text(const unsigned char *p, struct lladd_span *out)
{
    size_t n = 0;
    while (n < LL_TEXT_LENGTH && p[n])
        n++;
    *out = lladd_span_of(p, n);
    for (size_t i = n; i < LL_TEXT_LENGTH; i++)
        if (p[i])
            return false;
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool split_row(const struct ll_layout *l, struct lladd_span value, struct ll_row *r)
{
    struct lladd_dtable_value v;
    size_t n;
    if (!lladd_dtable_row_check(value, &n) || n > l->n - l->n_key)
        return false;
    for (uint32_t i = l->n_key; i < l->n; i++) {
        const struct ll_column *c = &l->column[i];
        bool *absent = &r->absent[i - l->n_key];
        (void)lladd_dtable_row_column(value, i - l->n_key, &v); /* the row was checked */
        *absent = v.state != LLADD_DTABLE_FOUND;
        if (*absent)
            continue;
        if (c->text ? !pack_text(v.bytes, &r->number[i]) : v.bytes.len != c->bytes)
            return false;
        if (!c->text)
            r->number[i] = ll_stored(v.bytes.data, c->width) ^ c->flip;
    }
    return true;
}

bool ll_multicolumn__split(const struct ll_layout *l, struct lladd_span value, struct ll_row *r)
{
    const unsigned char *p = value.data;
    const struct ll_column *c = l->column + l->n_key, *end = l->column + l->n;
    uint64_t *number = r->number + l->n_key;
    if (l->rows)
        return split_row(l, value, r);
    if (value.len != l->value_size)
        return false;
    for (; c < end; c++, number++) {
        struct lladd_span text;
        if (!c->text)
            *number = ll_stored(p + c->at, c->width) ^ c->flip;
        else if (!padded_text(p + c->at, &text) || !pack_text(text, number))
            return false;
    }
    return true;
}

uint32_t ll_multicolumn__put(const struct ll_column *c, uint64_t number, unsigned char *out)
{
    if (c->text)
        return unpack_text(number, out);
    ll_stored_set(out, c->width, number ^ c->flip);
    return c->bytes;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* `n` is 1, 2, 4 or 8, as in all fields of bytes keys. */
static uint64_t big_endian(const unsigned char *p, uint32_t n)
{
    return __builtin_bswap64(ll_stored(p, n)) >> (64 - 8 * n);
}

bool ll_multicolumn__split_key(const struct ll_layout *l, const struct lladd_dtable_key *key,
                               uint64_t *number)
{
    if (key->type < LLADD_DTABLE_STRING) {
        for (uint32_t i = 0; i < l->n_key; i++)
            number[i] = key->number >> l->column[i].at & UINT64_MAX >> (64 - l->column[i].bits);
        return true;
    }
    if (!l->fields || key->bytes.len != l->key_size)
        return false;
    const unsigned char *p = key->bytes.data;
    for (const struct ll_column *f = l->column, *end = f + l->n_key; f < end; f++)
        *number++ = big_endian(p + f->at, f->bytes);
    return true;
}

uint64_t ll_multicolumn__join_number(const struct ll_layout *l, const uint64_t *number)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < l->n_key; i++)
        v |= number[i] << l->column[i].at;
    return v;
}

void ll_multicolumn__join_bytes(const struct ll_layout *l, const uint64_t *number,
                                unsigned char *room)
{
    for (uint32_t i = 0; i < l->n_key; i++)
        for (uint32_t k = 0; k < l->column[i].bytes; k++)
            room[l->column[i].at + k] =
                (unsigned char)(number[i] >> 8 * (l->column[i].bytes - 1 - k));
}
