/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_TYPES_H
#define LLADD_TYPES_H
/**
 * @file
 * @brief The basic types of all other headers: LSNs, page numbers, spans, views.
 * @ingroup lladd
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Initialises a struct of options: `struct_size` is set, all other members are zero. */
#ifdef __cplusplus
#define LLADD_SIZED_INIT(type) lladd_sized_init<type>()
/** @cond */
template <typename T> inline T lladd_sized_init()
{
    T all_zero = {};
    all_zero.struct_size = sizeof(T);
    return all_zero;
}
/** @endcond */
#else
#define LLADD_SIZED_INIT(type) \
    { \
        .struct_size = sizeof(struct type) \
    }
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LLADD_API __attribute__((visibility("default")))
#define LLADD_MUST_CHECK __attribute__((warn_unused_result))
#define LLADD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LLADD_API
#define LLADD_MUST_CHECK
#define LLADD_PRINTF(f, a)
#endif

/** Log sequence number: bytes of log payload since the database was created. Starts above 0 and
 *  never wraps; the LSN of a durable record is never reused (rule LOG-1). 0 means "none". */
typedef struct {
    uint64_t v;
} lladd_lsn;

/** Number of a page in the page file. Page 0 is the root page. */
typedef struct {
    uint64_t v;
} lladd_pageno;

/** The number of an operation in one database handle: the index of its registration, with the
 *  library's own operations first. Other handles may have other numbers; the log stores names and
 *  versions. */
typedef uint32_t lladd_op_id;

/** Identifies a savepoint within its transaction. */
typedef uint64_t lladd_savepoint_id;

/** Returns an LSN from its number. */
static inline lladd_lsn lladd_lsn_of(uint64_t v)
{
    lladd_lsn lsn;
    lsn.v = v;
    return lsn;
}

/** Returns a page number from its number. */
static inline lladd_pageno lladd_page_of(uint64_t v)
{
    lladd_pageno page;
    page.v = v;
    return page;
}

/** The page number that no page has. */
#define LLADD_NO_PAGE UINT64_MAX

/** Bytes that the receiver does not own; unless stated otherwise, valid during the call to which
 *  they are passed. */
struct lladd_span {
    const void *data;
    size_t len;
};

/** Returns a span of the caller's bytes. */
static inline struct lladd_span lladd_span_of(const void *data, size_t len)
{
    struct lladd_span s;
    s.data = data;
    s.len = len;
    return s;
}

/** The number of bytes of a page before the part that belongs to the page type
 *  (docs/disk-format.md). */
#define LLADD_PAGE_HEADER 32u

/** A page: a latched frame, or a scratch copy (in debug builds, and while a page is rebuilt). Only
 *  an operation's `redo` and `undo` may change a page, and only its bytes from LLADD_PAGE_HEADER on
 *  (OP-1). Exception: pages written in bulk (lladd_page_type.flushed). */
struct lladd_page {
    unsigned char *bytes; /**< `size` bytes, including the header */
    uint32_t size;        /**< the database's page size */
    uint32_t reserved;
    lladd_pageno number;
};

/** A read-only page. */
struct lladd_view {
    const unsigned char *bytes;
    uint32_t size;
    uint16_t type; /**< page type number in this database; 0 = never formatted */
    lladd_pageno number;
};

/** Returns the address of the first byte of a page that belongs to the page type. */
static inline unsigned char *lladd_page_body(struct lladd_page *p)
{
    return p->bytes + LLADD_PAGE_HEADER;
}
/** Returns the address of the first byte of a view that belongs to the page type. */
static inline const unsigned char *lladd_view_body(struct lladd_view v)
{
    return v.bytes + LLADD_PAGE_HEADER;
}
/** Returns the number of bytes of a page that belong to the page type. */
static inline uint32_t lladd_body_size(uint32_t page_size)
{
    return page_size - LLADD_PAGE_HEADER;
}

#ifdef __cplusplus
}
#endif
#endif
