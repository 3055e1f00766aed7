/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_OPTIMISTIC_H
#define LLADD_OPTIMISTIC_H
/**
 * @file
 * @brief Optimistic reads: a few words of a cached page, read without a latch.
 * @ingroup lladd
 *
 * A shared latch is a counter in the page's frame. If two processors latch the same page again and
 * again, the cache line with the counter moves between them each time. An optimistic reader writes
 * no shared memory: it samples the frame's version, copies words, and checks whether the version is
 * unchanged. If the version is unchanged, all words of the copy are from one moment, as if they had
 * been copied under the latch. If the version has changed, or if the page is not cached or is being
 * changed, the reader fixes the page instead:
 *
 *     struct lladd_read g;
 *     uint64_t words[4];
 *     if (lladd_read_begin(db, page, &g) && (lladd_read_copy(&g, 32, words, 4), true) &&
 *         lladd_read_validate(&g))
 *         ...                       the words are valid
 *     else
 *         lladd_page_fix(...)
 *
 * Until lladd_read_validate has returned true, the copied words may have any value. Code that uses
 * the words earlier must tolerate any value; for example, it must check an index before using the
 * index.
 *
 * Use optimistic reads for one or two cache lines of pages that many threads read. Statistics do
 * not count them as page fixes.
 */
#include <lladd/lladd.h>
#include <lladd/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An optimistic read; belongs to one thread. No call ends it. */
struct lladd_read {
    const unsigned char *bytes; /**< the page's frame; only for lladd_read_copy */
    uint32_t size;              /**< size of the page */
    const uint64_t *version_;   /**< this and the next members are private */
    const uint64_t *evictions_;
    uint64_t was_, departed_;
};

/** Begins an optimistic read. Returns false if the page is not cached or is being changed, or the
 *  handle is poisoned; then call lladd_page_fix. Never waits, reads no file, may be called under
 *  any latch. */
LLADD_API bool lladd_read_begin(struct lladd_db *, lladd_pageno, struct lladd_read *out);

/** Returns true if all words copied since lladd_read_begin were in the page at one moment. */
LLADD_API bool lladd_read_validate(const struct lladd_read *);

/** Copies `n` words of eight bytes from the page, from `offset` on. The offset counts from the
 *  start of the page header and is a multiple of 8; all words must be inside the page. Another
 *  thread may be writing the words; then lladd_read_validate returns false. */
static inline void lladd_read_copy(const struct lladd_read *g, uint32_t offset, uint64_t *into,
                                   uint32_t n)
{
    lladd_atomic_copy64((const uint64_t *)(const void *)(g->bytes + offset), into, n);
}

/** Returns the page type number, from the first eight bytes of a page. */
static inline uint16_t lladd_view_type(const unsigned char *header)
{
    return (uint16_t)(header[4] | header[5] << 8);
}

#ifdef __cplusplus
}
#endif
#endif
