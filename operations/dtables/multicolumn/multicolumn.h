/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLES_MULTICOLUMN_MULTICOLUMN_H
#define LL_OPERATIONS_DTABLES_MULTICOLUMN_MULTICOLUMN_H
/* multicolumn_dtable: what its files share. class.c has an overview. */
#include "operations/dtables/multicolumn/codec.h"
#include "operations/shared/try.h"

#include <lladd/dtable_class.h>
#include <lladd/dtable_multicolumn.h>
#include <lladd/dtable_row.h>
#include <lladd/extension.h>

/* ---- the layout of rows: layout.c ------------------------------------------------------------ */

enum {
    LL_COLUMNS_MAX = 255,
    LL_FIELDS_MAX = 32,           /* of the key */
    LL_KEY_MAX = 8 * LL_FIELDS_MAX, /* bytes of a key in fields */
    LL_CODECS_MAX = 127,
    LL_TEXT_LENGTH = 12
};

/* A column of a page: a field of the key, or a column of the values. */
struct ll_column {
    uint64_t flip;   /* XORed to the number of a value, so that signed numbers ascend as unsigned
                      * ones */
    uint32_t at;     /* values: bytes of the columns before it; key fields: bits (number keys) or
                      * bytes after it */
    uint8_t width;   /* bytes of a number in the page: 1, 2, 4 or 8 */
    uint8_t bits;    /* bits of a field of a number key */
    uint8_t bytes;   /* bytes in a value or key; LL_TEXT_LENGTH for a text */
    bool text, is_signed;
};

/* What the configuration says. Columns of the page: the fields of the key, then the columns of the
 * values. */
struct ll_layout {
    bool rows;           /* values are packed rows */
    bool texts;          /* a column is a text */
    bool fields;         /* bytes keys have fields */
    uint32_t n_key;      /* fields of the key; 1, a number of 64 bits, if none are configured */
    uint32_t n;          /* all columns */
    uint32_t value_size; /* bytes of a value, if not `rows` */
    uint32_t key_size;   /* bytes of a bytes key that has fields */
    uint32_t n_codecs;
    const struct lladd_codec **codecs; /* n_codecs */
    struct ll_column column[];
};

/* `configure` of the class. */
int ll_multicolumn__configure(struct lladd_dtable_config *, struct lladd_dtable_caps *,
                              struct lladd_error *);
const struct ll_layout *ll_multicolumn__layout(const struct lladd_dtable_config *);

/* A row as numbers. */
struct ll_row {
    uint64_t *number; /* one for each column of the page */
    bool *absent;     /* one for each column of the values */
};
/* Splits a value into its columns. Returns false if a column cannot store its part. Columns without
 * a value keep their numbers. Sets `absent` only if values are packed rows. */
bool ll_multicolumn__split(const struct ll_layout *, struct lladd_span value, struct ll_row *);
/* Splits a key into its fields. Returns false if its bytes are not those of the fields. */
bool ll_multicolumn__split_key(const struct ll_layout *, const struct lladd_dtable_key *,
                               uint64_t *number);
/* Assembles a number key, or the bytes of a key (key_size bytes in `room`). */
uint64_t ll_multicolumn__join_number(const struct ll_layout *, const uint64_t *number);
void ll_multicolumn__join_bytes(const struct ll_layout *, const uint64_t *number,
                                unsigned char *room);
/* Writes a column's part of a value: at most LL_TEXT_LENGTH bytes. Returns their number. */
uint32_t ll_multicolumn__put(const struct ll_column *, uint64_t number, unsigned char *out);

/* ---- pages: page.c --------------------------------------------------------------------------- */

enum {
    LL_PAGE_VERSION = 1,
    LL_PAGE_HEAD = 16,
    LL_PAGE_COLUMN = 4,
    LL_PAGE_MARKS = 8, /* before the segment of a column with exceptions */
    LL_PAGE_TOMBSTONES = 1,
    LL_PAGE_ABSENT = 2,
    LL_PAGE_KEYS = 4, /* the page has the bytes of its keys instead of fields */
    LL_PAGE_HAS_EXCEPTIONS = 0x80,
};
#define LL_PAGE_MAX 65535u

/* A page in memory. After ll_page__check has accepted it, all else may rely on its contents. */
struct ll_page {
    const unsigned char *bytes;
    uint32_t len;
};
/* What a run's pages have in common. */
struct ll_pages {
    const struct ll_layout *layout;
    const struct lladd_codec **codecs; /* by the numbers in the run */
    const uint32_t *versions;          /* of the codecs */
    uint32_t n_codecs;
};

static inline unsigned ll_page_flags(const struct ll_page *p)
{
    return p->bytes[1];
}
static inline uint32_t ll_page_rows(const struct ll_page *p)
{
    return lladd_get16(p->bytes + 2);
}
static inline uint32_t ll_page_columns(const struct ll_page *p)
{
    return p->bytes[4];
}
/* Where the free bytes begin, and where the exceptions begin. */
static inline uint32_t ll_page_free(const struct ll_page *p)
{
    return lladd_get16(p->bytes + 6);
}
static inline uint32_t ll_page_exceptions(const struct ll_page *p)
{
    return lladd_get16(p->bytes + 8);
}
static inline uint64_t ll_page_first(const struct ll_page *p)
{
    return lladd_get48(p->bytes + 10);
}
/* The columns that a page with these flags has not: the fields of the key, or none. */
static inline uint32_t ll_page_skips(const struct ll_pages *pages, unsigned flags)
{
    return flags & LL_PAGE_KEYS ? pages->layout->n_key : 0;
}
/* Bytes of the parts of a page before its segments. */
struct ll_page_front {
    size_t tombstones, absent, bitmaps, keys, segments; /* where they begin */
};
/* `marked`: the number of columns with a bitmap of rows without a value. */
struct ll_page_front ll_page__front(const struct ll_layout *, unsigned flags, uint32_t rows,
                                    uint32_t marked, size_t key_bytes);
/* Checks all of a page that may have any bytes. Returns what is wrong; NULL: nothing. *column gets
 * the column that is wrong, or UINT32_MAX. */
const char *ll_page__check(const struct ll_pages *, const struct ll_page *, uint32_t *column);
/* The segment of a column. */
const struct lladd_codec *ll_page__segment(const struct ll_pages *, const struct ll_page *,
                                           uint32_t column, struct lladd_codec_segment *);
/* The bitmap of tombstones, or of the rows in which a column of the values has no value; NULL:
 * there are none. */
const unsigned char *ll_page__tombstones(const struct ll_pages *, const struct ll_page *);
const unsigned char *ll_page__absent(const struct ll_pages *, const struct ll_page *,
                                     uint32_t column);
/* The bytes of a key, in a page with LL_PAGE_KEYS. */
struct lladd_span ll_page__key(const struct ll_pages *, const struct ll_page *, uint32_t row);
static inline bool ll_bit(const unsigned char *bits, uint32_t i)
{
    return bits && (bits[i / 8] >> i % 8 & 1);
}
/* One number of a page. */
uint64_t ll_page__number(const struct ll_pages *, const struct ll_page *, uint32_t column,
                         uint32_t row);
/* Numbers of rows in succession. */
void ll_page__numbers(const struct ll_pages *, const struct ll_page *, uint32_t column,
                      uint32_t from, uint32_t n, void *out);

/* ---- searching: find.c ----------------------------------------------------------------------- */

/* A key in memory, assembled. The bytes are in the page, or in `room` (key_size bytes). */
void ll_page__key_at(const struct ll_pages *, enum lladd_dtable_type, const struct ll_page *,
                     uint32_t row, unsigned char *room, struct lladd_dtable_key *);
/* Finds the first row with a key not below the key, or the number of rows. `room`: key_size
 * bytes. */
uint32_t ll_page__find(const struct ll_pages *, const struct lladd_dtable_order *,
                       const struct ll_page *, const struct lladd_dtable_key *,
                       unsigned char *room, bool *exact);

/* ---- choosing codecs: choose.c --------------------------------------------------------------- */

/* How a column is stored. Each codec has a plan with memory of its own, because planning goes on
 * from the last plan of the same codec (`again`). */
struct ll_chosen {
    uint32_t codec; /* its number */
    struct lladd_codec_plan *plans; /* for each codec */
};
/* Plans the column with the codec chosen before; if `anew`, with the best of all. Returns the bytes
 * that the column takes in a page, without its entry in the header. */
size_t ll_multicolumn__plan(const struct ll_layout *, const struct lladd_codec_input *,
                            struct ll_chosen *, bool anew);

#endif
