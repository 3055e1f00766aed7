/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_H
#define LL_BUFFER_H
/* The face of the buffer manager: pages of one file, cached within a byte budget, STEAL/NO-FORCE
 * behind a WAL gate. Knows no log: the gate is two functions (BUF-1). */
#include <lladd/glance.h>

#include "buffer/page_format.h"
#include "util/env.h"

struct ll_buffer;

/* What stands between a dirty page and the disk. */
struct ll_gate {
    void *ctx;
    lladd_lsn (*durable_lsn)(void *ctx); /* a page with page LSN >= this may not be written */
    int (*force)(void *ctx, lladd_lsn lsn,
                 struct lladd_error *); /* make the record at lsn durable */
    /* Nullable: a page with this page LSN, which is durable, is about to be written. */
    int (*passes)(void *ctx, lladd_pageno, lladd_lsn, struct lladd_error *);
};

enum ll_frames { LL_FRAMES_AUTO, LL_FRAMES_RESERVED, LL_FRAMES_HEAP };

/* A cached page. Begins with what redo, undo and the public interface get. Everything but `page`,
 * `private_`, `flags` and the accessors below belongs to the buffer manager. One cache line. */
struct ll_frame {
    struct lladd_page page;
    uint64_t latch;    /* state word: buffer/latch.h */
    uint64_t rec_lsn;  /* 0: clean. Else no record older than this is missing on disk (BUF-4) */
    uint64_t base_lsn; /* of a dirty page: baseLSN in its header when the latch was last released */
    void *private_;    /* the page type's own (DESIGN 2a) */
    uint32_t flags;    /* LL_FRAME_*, changed under the exclusive latch */
    uint32_t slot;     /* its right to be resident */
};

enum {
    LL_FRAME_BASELESS = 1 /* redo only: failed verification, contents are zeros (BUF-5) */
};

enum ll_behind_how {
    LL_NOT_BEHIND,
    LL_BEHIND,
    LL_BEHIND_WITH_BASE /* what it lacks gives it all its contents: it need not be read */
};

struct ll_buffer_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    const char *name;         /* of the page file, "pages" */
    const char *dwb_name;     /* of the double-write area, "dwb"; NULL: none */
    uint32_t page_size;
    uint64_t budget;          /* bytes, page tables and state words included */
    uint32_t salt;            /* of checksums, from the database uuid */
    enum ll_frames frames;
    struct ll_gate gate;
    bool create;              /* make the files (durable when open returns) */
    bool no_images; /* pages reach the disk atomically: redo starts at recLSN, not baseLSN, and no
                       page needs the double-write area */
    void *ctx;                /* for the functions below, all nullable */
    /* A page failed verification outside redo. Rebuild it into bytes (page_size, checksum not
     * needed) and say from which LSN on it must be considered dirty; 0 or the error the fixer gets.
     * Called with no latch but the frame's own (exclusive, not yet visible to others). */
    int (*repair)(void *ctx, lladd_pageno, unsigned char *bytes, lladd_lsn *rec_lsn,
                  struct lladd_error *why_and_result);
    /* Redo of a page when it is fetched. behind: is there anything to redo? catch_up: brings the
     * bytes up to date; *baseless: they failed verification or need not be read, and are zeros; if
     * it still says so
     * afterwards, the page is one that failed verification. From *rec_lsn on the page is dirty.
     * caught_up: it is about to be seen by others; or it is formatted, and need not be brought up
     * to date. All under the frame's own latch, as above; after an error the page is behind as
     * before. */
    enum ll_behind_how (*behind)(void *ctx, lladd_pageno);
    int (*catch_up)(void *ctx, lladd_pageno, unsigned char *bytes, bool *baseless,
                    lladd_lsn *rec_lsn, struct lladd_error *);
    void (*caught_up)(void *ctx, lladd_pageno);
    /* Is the LSN in a part of the log that a recovery has not found any more? Such a page is newer
     * than its log: LLADD_LOG_LOST. */
    bool (*lost)(void *ctx, lladd_lsn);
    /* Page type callbacks (DESIGN 2a). loaded: after verification, before anybody sees the frame;
     * flushed: on the writer's private copy, before the checksum, no core latch held;
     * evicted: before the frame is given up, private_ must be freed. */
    int (*loaded)(void *ctx, struct ll_frame *, struct lladd_error *);
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    void (*evicted)(void *ctx, struct ll_frame *);
    /* A write or sync of the page file failed for good (LOG-4). */
    void (*poisoned)(void *ctx, const struct lladd_error *);
};

int ll_buffer_open(const struct ll_buffer_config *, struct ll_buffer **out, struct lladd_error *);
/* Stops the writer and releases everything; writes nothing. */
void ll_buffer_close(struct ll_buffer *);
/* Starts the background writer (if env->threads); not before recovery is done with redo. */
int ll_buffer_start(struct ll_buffer *, struct lladd_error *);

/* ---- fixing -------------------------------------------------------------------------------- */

enum {
    LL_FIX_SHARED = 0,
    LL_FIX_EXCLUSIVE = 1,
    LL_FIX_FRESH = 2, /* with EXCLUSIVE: do not read, contents become zeros; may lie beyond the
                         end */
    LL_FIX_REDO = 4, /* with EXCLUSIVE: a page that fails verification is handed out as zeros with
                        LL_FRAME_BASELESS, one beyond the end as zeros without it */
    LL_FIX_TRY = 8,  /* LLADD_BUSY instead of waiting for a latch */
    LL_FIX_BASE = 16 /* with REDO: what comes now gives the page all its contents. If it is not
                        cached it is not read, but handed out as if it had failed verification */
};

/* Pins and latches page n. LLADD_OUT_OF_RANGE beyond the end, LLADD_CORRUPT_PAGE, LLADD_LOG_LOST,
 * LLADD_READ_FAILED, LLADD_NO_FRAME, LLADD_NO_MEMORY, or the poison. A thread may hold several
 * pages; the order is its own affair. A hit takes one atomic on the frame's word and no other lock.
 */
int ll_buffer_fix(struct ll_buffer *, lladd_pageno n, unsigned how, struct ll_frame **out,
                  struct lladd_error *);
/* Page n will be fixed and changed soon: lets the processor fetch the frame and the page's header.
 * Does nothing for a page that is not cached. */
void ll_buffer_expect(const struct ll_buffer *, lladd_pageno n);
/* how: LL_FIX_SHARED or LL_FIX_EXCLUSIVE, as it was fixed. */
void ll_buffer_unfix(struct ll_buffer *, struct ll_frame *, unsigned how);
/* Is the frame held exclusively? The caller holds it one way or the other. */
bool ll_frame_exclusive(const struct ll_frame *);

/* The frame, held exclusively, is about to be changed by a record not yet reserved; `frontier` is
 * the log's tail read now. Enters the dirty-page table if it was clean (BUF-4). Cannot fail. */
void ll_buffer_dirty(struct ll_buffer *, struct ll_frame *, lladd_lsn frontier);

static inline struct ll_frame *ll_frame_of(struct lladd_page *page)
{
    return (struct ll_frame *)page;
}

/* ---- the page file ----------------------------------------------------------------------- */

uint64_t ll_buffer_page_count(const struct ll_buffer *); /* pages below this exist */
/* Pages that the file itself has room for by now; durable after the next ll_buffer_flush. */
uint64_t ll_buffer_file_pages(const struct ll_buffer *);
/* Forgets n pages from first: frames and dirty entries go, nothing is written. LLADD_BUSY if one is
 * fixed. */
int ll_buffer_drop(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* For the processor's cache: that byte of the page, if it is cached, will be wanted soon. */
void ll_buffer_touch(const struct ll_buffer *, lladd_pageno, uint32_t offset);
/* Those of the header, too, and the last of `len` bytes. */
void ll_buffer_touch_span(const struct ll_buffer *, lladd_pageno, uint32_t offset, uint32_t len);
void ll_buffer_prefetch(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* See lladd/glance.h. */
bool ll_buffer_glance(const struct ll_buffer *, lladd_pageno, struct lladd_glance *out);
bool ll_buffer_glanced(const struct lladd_glance *);
/* Bulk access past the cache, for extents: whole pages, `bytes` as they are (checksums are added if
 * `paged`: the rest of each header must be there). The pages must not be cached dirty; cached
 * copies are dropped. Not durable before ll_buffer_sync. */
int ll_buffer_bulk_write(struct ll_buffer *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                         bool paged, struct lladd_error *);
int ll_buffer_bulk_read(struct ll_buffer *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                        bool paged, struct lladd_error *);
/* The file has page n, though perhaps not yet on the device; false: it cannot. */
bool ll_buffer_include(struct ll_buffer *, uint64_t n);
/* Extends the file to `pages` pages on the device, so that later writes there need no space. */
int ll_buffer_extend(struct ll_buffer *, uint64_t pages, struct lladd_error *);
/* After an unclean stop: if the file is longer than the `pages` it is known to have had, its end is
 * written again, so that the next sync makes it durable. A sync that failed may have left it in the
 * operating system's cache only, marked clean (REC-4). */
int ll_buffer_confirm_end(struct ll_buffer *, uint64_t pages, struct lladd_error *);

/* Checksum of a page image as stored. */
uint32_t ll_page_crc(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size);
/* 0, or LLADD_CORRUPT_PAGE with what is wrong; all zeros are fine. */
int ll_page_verify(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size,
                   const char *file, struct lladd_error *);

/* ---- writing back ------------------------------------------------------------------------ */

/* Writes every page that is dirty now and has rec_lsn < rec_below or baseLSN < base_below, then
 * syncs: when it returns 0 they are durable and out of the dirty-page table (unless dirtied again).
 */
int ll_buffer_flush(struct ll_buffer *, lladd_lsn rec_below, lladd_lsn base_below,
                    struct lladd_error *);
/* The same for a checkpoint from which redo will start at `horizon`: also, when it returns 0, no
 * write of a page with an older base is waiting to become durable, and later ones are protected. */
int ll_buffer_flush_below(struct ll_buffer *, lladd_lsn horizon, struct lladd_error *);
/* From now on a page whose baseLSN is below this is written through the double-write area: redo
 * starts there, so nothing else would rebuild it if the write were torn (BUF-5). Never goes
 * back. */
void ll_buffer_protect(struct ll_buffer *, lladd_lsn below);
/* Syncs the page file: everything written before is durable and leaves the in-flight set. */
int ll_buffer_sync(struct ll_buffer *, struct lladd_error *);
/* Makes durable what ll_buffer_bulk_write has written. Does nothing if that is so. */
int ll_buffer_sync_bulk(struct ll_buffer *, struct lladd_error *);
/* One step of background writing, for callers without threads. */
int ll_buffer_step(struct ll_buffer *, bool *more, struct lladd_error *);
/* Restores pages from the double-write area that the page file holds torn; before redo. */
int ll_buffer_dwb_restore(struct ll_buffer *, uint64_t *restored, struct lladd_error *);

/* For inspection: what the first page of a double-write area says. 0: copies of *count pages follow
 * it, one page each; LLADD_END: it is empty; LLADD_CORRUPT_PAGE, LLADD_FOREIGN_FILE,
 * LLADD_NEWER_FORMAT: it says nothing that can be used. */
int ll_dwb_look(const void *first_page, uint32_t page_size, uint32_t salt, uint32_t *count,
                struct lladd_error *);
/* Which page copy i < count is of. */
lladd_pageno ll_dwb_page(const void *first_page, uint32_t i);

/* One dirty or in-flight page, but none of those that were summed up and wait for a sync; not 0
 * stops. No latch is held that the callback could need. */
typedef int ll_dirty_fn(void *ctx, lladd_pageno, lladd_lsn rec_lsn, lladd_lsn base_lsn);
int ll_buffer_dirty_each(struct ll_buffer *, ll_dirty_fn *, void *ctx, struct lladd_error *);
/* Smallest recLSN and baseLSN over dirty and in-flight pages, of those that go through the
 * double-write area the recLSN for both; UINT64_MAX if there are none. A page
 * that is about to be changed for the first time since its base was truncated has that old base
 * until its image is logged (BUF-5): *base may be less than the oldest LSN of the log. It never
 * says more than what redo needs; as a bound for truncation it would only be too careful. */
void ll_buffer_dirty_min(struct ll_buffer *, lladd_lsn *rec, lladd_lsn *base);

/* Dirty pages now, about. */
uint64_t ll_buffer_dirty_count(const struct ll_buffer *);

struct ll_buffer_stats {
    uint64_t hits, misses, reads, writes, pages_written, syncs, evictions, repairs;
    uint64_t lost_writes; /* pages that were read older than they had been written */
    uint64_t frames, frames_used, dirty, in_flight, bytes;
};
void ll_buffer_stats(const struct ll_buffer *, struct ll_buffer_stats *);

#endif
