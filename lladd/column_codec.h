/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_COLUMN_CODEC_H
#define LLADD_COLUMN_CODEC_H
/**
 * @file
 * @brief For authors of codecs: how a multicolumn_dtable stores one column of one page.
 *
 * A page of a multicolumn_dtable has at most LLADD_CODEC_ROWS rows. Each column of a page is an
 * array of unsigned numbers of 1, 2, 4 or 8 bytes, in the byte order of the machine. A codec
 * stores such an array as a *segment*, and perhaps *exceptions*: values that its form cannot store.
 * Any scheme will do that compresses in one pass and gives random access. For each column of each
 * page the library asks all codecs for the size that they need (`plan`), and uses the codec with
 * the smallest one.
 *
 * The bytes that a codec writes must not depend on the machine: <lladd/bytes.h> helps. Their
 * meaning is that of the codec's name and version, which each run stores.
 *
 * Threads: the functions of a codec are pure. They allocate nothing and, except `check`, cannot
 * fail.
 * @ingroup operations
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The maximum number of rows in a page. */
#define LLADD_CODEC_ROWS 65535u
/** Bytes of a plan's memory. */
#define LLADD_CODEC_MEMORY 4096u
/** The size that `plan` returns if the codec cannot store the values. */
#define LLADD_CODEC_CANNOT SIZE_MAX

/** The values of one column of one page. */
struct lladd_codec_input {
    const void *values; /**< `rows` numbers; aligned to `width` */
    uint32_t rows;      /**< 1 to LLADD_CODEC_ROWS */
    uint32_t width;     /**< bytes of a number: 1, 2, 4 or 8 */
    size_t limit;       /**< another codec needs only so many bytes: a plan that needs as many or
                             more may return LLADD_CODEC_CANNOT early */
};

/** What `plan` found out, for `encode`. */
struct lladd_codec_plan {
    size_t segment;    /**< bytes of the segment */
    size_t exceptions; /**< bytes of the exceptions */
    uint8_t own;       /**< a byte of the codec's own; the page stores it */
    void *memory;      /**< LLADD_CODEC_MEMORY bytes, aligned to 8, for what `encode` needs to know;
                            the caller's */
    bool again;        /**< `memory` is as the last call of `plan` has left it, and the values are
                            those of that call. Only `rows` and `limit` may differ: rows were added
                            or taken away at the end. A codec may go on from what it knows; the plan
                            must be the same as a plan from the beginning. Set by the caller */
};

/** The stored values of one column of one page. */
struct lladd_codec_segment {
    const unsigned char *data; /**< the segment; its address has any alignment */
    size_t len;                /**< bytes of the segment; up to seven more than were planned */
    const unsigned char *exceptions;
    size_t exceptions_len; /**< bytes of the exceptions, as planned */
    uint32_t rows, width;  /**< as in the input */
    uint32_t version;      /**< version of the codec that wrote the segment: the present version or
                                an older one */
    uint8_t own;           /**< the byte of the plan */
};

/** A codec. All members are required except `find`. */
struct lladd_codec {
    size_t struct_size;
    const char *name; /**< "for"; at most 31 bytes of [a-z0-9_.-] */
    uint32_t version; /**< version of the stored form */
    const char *about; /**< one line */
    /** Fills in the plan. Returns the bytes of the segment and of the exceptions together, or
     *  LLADD_CODEC_CANNOT. */
    size_t (*plan)(const struct lladd_codec_input *, struct lladd_codec_plan *);
    /** Writes the segment and the exceptions, exactly as many bytes as planned. Both addresses have
     *  any alignment. */
    void (*encode)(const struct lladd_codec_input *, const struct lladd_codec_plan *,
                   unsigned char *segment, unsigned char *exceptions);
    /** Is the segment sound? It may have any bytes. After true, no call below reads outside the
     *  segment and its exceptions. Called once each time a page is loaded. */
    bool (*check)(const struct lladd_codec_segment *);
    /** Returns the value of a row below `rows`. */
    uint64_t (*at)(const struct lladd_codec_segment *, uint32_t row);
    /** Writes the values of n rows from `from` on to `out`, an array of numbers of `width` bytes;
     *  `out` has any alignment. */
    void (*decode)(const struct lladd_codec_segment *, uint32_t from, uint32_t n, void *out);
    /** The values of rows *first to *end - 1 ascend. Sets *first to the first of these rows with
     *  a value not below v, and *end to the first one with a value above v; if there is none, to
     *  the old *end. Nullable: then `at` is called for a binary search. */
    void (*find)(const struct lladd_codec_segment *, uint32_t *first, uint32_t *end, uint64_t v);
};

/** Registers a codec with the handle; the codec must outlive the handle. A multicolumn_dtable then
 *  uses it if the name is in its parameter `codecs`. Register it before configurations with its
 *  name are parsed, and before runs that use it are opened. LLADD_EXISTS if another codec has the
 *  name, LLADD_BAD_REGISTRATION if this codec is incomplete. Any thread. */
LLADD_API int lladd_codec_add(struct lladd_db *, const struct lladd_codec *, struct lladd_error *);
/** Returns the codec of this name, one of the library's own or a registered one; NULL: there is
 *  none. The name has `len` bytes. Any thread. */
LLADD_API const struct lladd_codec *lladd_codec_find(struct lladd_db *, const char *name,
                                                     size_t len);

#ifdef __cplusplus
}
#endif
#endif
