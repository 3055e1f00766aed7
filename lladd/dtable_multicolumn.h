/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_MULTICOLUMN_H
#define LLADD_DTABLE_MULTICOLUMN_H
/**
 * @file
 * @brief What the pages of a multicolumn_dtable consist of, for tools and statistics.
 *
 * docs/multicolumn.md describes the class.
 * @ingroup operations
 */
#include <lladd/dtable.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A page. */
struct lladd_multicolumn_page {
    size_t struct_size;
    uint64_t first;      /**< place of its first row */
    uint32_t rows;       /**< number of rows, tombstones included */
    uint32_t tombstones; /**< number of tombstones */
    uint32_t bytes;      /**< bytes of the page, free bytes included */
    uint32_t used;       /**< bytes in use */
    uint32_t key_fields; /**< number of columns that are fields of the key; 0: the page has the
                              bytes of its keys */
    uint32_t columns;    /**< number of columns, key fields included */
    uint32_t key_bytes;  /**< bytes of keys that are not in columns */
};
/** A column of a page. */
struct lladd_multicolumn_column {
    const char *codec;   /**< name of its codec; lives as long as the table is open */
    uint32_t width;      /**< bytes of a number */
    uint32_t segment;    /**< bytes of its segment */
    uint32_t exceptions; /**< bytes of its exceptions */
    uint32_t absent;     /**< number of rows without a value in this column */
    bool is_key;         /**< the column is a field of the key */
    bool is_text;        /**< the column is a text of at most 12 characters */
    bool is_signed;
    uint64_t min, max; /**< the smallest and the largest number, as they are stored; not for texts.
                            The highest bit of a signed number is inverted */
};

/** Returns the multicolumn_dtable among the layers of a run, the first one in the order of layers;
 *  NULL: there is none. */
LLADD_API const struct lladd_dtable *lladd_multicolumn_layer(const struct lladd_dtable *);
/** Returns the number of pages of a multicolumn_dtable. */
LLADD_API uint64_t lladd_multicolumn_pages(const struct lladd_dtable *);
/** Describes a page of a multicolumn_dtable, and at most n of its columns (`columns` may be NULL if
 *  n is 0). LLADD_OUT_OF_RANGE if there is no such page, LLADD_WRONG_TYPE if the table is of
 *  another class. Any thread. */
LLADD_API int lladd_multicolumn_page_get(const struct lladd_dtable *, uint64_t page,
                                         struct lladd_multicolumn_page *out,
                                         struct lladd_multicolumn_column *columns, size_t n,
                                         struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
