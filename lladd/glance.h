/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_GLANCE_H
#define LLADD_GLANCE_H
/**
 * @file
 * @brief Glances: a few words of a cached page, read without a latch.
 * @ingroup lladd
 *
 * A shared latch is a counter in the page's frame, and two processors that read one page take the
 * line with it from each other. Who glances writes nothing: he notes the frame's version, copies
 * what he wants, and looks whether the version is still the same. If so, what he has copied stood
 * in the page at one moment, as if he had held the latch (DESIGN section 6). If not, or if the page
 * is not cached, or being changed, he fixes it instead:
 *
 *     struct lladd_glance g;
 *     uint64_t words[4];
 *     if (lladd_glance_begin(db, page, &g) && (lladd_glance_copy(&g, 32, words, 4), true) &&
 *         lladd_glance_end(&g))
 *         ...                       words are good
 *     else
 *         lladd_fix(...)
 *
 * Until lladd_glance_end has said so, what was copied may be anything at all: nothing may be
 * computed from it that cannot bear that (an index is checked before it is used).
 *
 * It pays for one or two cache lines of pages that many read. Glances count as no fix in the
 * statistics.
 */
#include <lladd/lladd.h>
#include <lladd/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A page being glanced at. Needs no end if it is given up. Belongs to one thread. */
struct lladd_glance {
    const unsigned char *bytes; /**< where the page is; only for lladd_glance_copy */
    uint32_t size;              /**< of the page */
    const uint64_t *version_;   /**< private, like the rest */
    const uint64_t *departures_;
    uint64_t was_, departed_;
};

/** Begins. False: the page is not cached, or somebody is changing it, or the handle is poisoned;
 *  fix it, which will say. Never waits, reads no file, and may be called under any latch. */
LLADD_API bool lladd_glance_begin(struct lladd_db *, lladd_pageno, struct lladd_glance *out);

/** Was everything that was copied since the beginning in the page at one moment? */
LLADD_API bool lladd_glance_end(const struct lladd_glance *);

/** Copies `n` words of eight bytes from `offset`, a multiple of 8, of the page (header included).
 *  Offset and words must be inside the page. Somebody may be writing there at this moment: that is
 *  what the end is for. */
static inline void lladd_glance_copy(const struct lladd_glance *g, uint32_t offset, uint64_t *into,
                                     uint32_t n)
{
    lladd_atomic_glance64((const uint64_t *)(const void *)(g->bytes + offset), into, n);
}

/** The page type number among the first eight bytes of a page. */
static inline uint16_t lladd_view_type(const unsigned char *header)
{
    return (uint16_t)(header[4] | header[5] << 8);
}

#ifdef __cplusplus
}
#endif
#endif
