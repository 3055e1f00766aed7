/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_H
#define LL_BUFFER_H
/* Interface of the buffer manager: the pages of one file, cached within a byte budget.
 * STEAL/NO-FORCE. It knows log and recovery only as the four functions of ll_page_recovery. */
#include <lladd/optimistic.h>

#include "buffer/page_format.h"
#include "util/poison.h"

struct ll_buffer;

/* How far the fetch of a page is. */
enum ll_fetch_state {
    LL_FETCH_UNREAD,  /* the page was not read yet; the bytes are undefined */
    LL_FETCH_READ,    /* it was read and is intact, but redo may be pending */
    LL_FETCH_DAMAGED, /* it failed verification */
    LL_FETCH_DONE     /* the bytes are the page */
};

struct ll_fetch {
    lladd_pageno page;
    unsigned char *bytes; /* page_size; recovery writes no checksum */
    enum ll_fetch_state state;
    lladd_lsn dirty_since; /* out, with DONE; 0: the page is on the device as it is */
    bool rebuilt;          /* out: from all the log there is, because the stored page is damaged */
    struct lladd_error damage; /* what is wrong with the stored page */
};

/* What the buffer manager asks recovery, which knows the log.
 *
 *     a miss      fetch(UNREAD) ► read ► verify, lost ► fetch(READ or DAMAGED) ► fetched
 *     write-back  copy ► may_write ► write
 *
 * fetch and fetched are called with no latch but the frame's own (exclusive; other threads do not
 * see the frame yet). fetch, fetched and lost are nullable. */
struct ll_page_recovery {
    void *ctx;
    /* Brings the page up to date: applies pending redo, rebuilds a damaged page (BUF-2). In state
     * UNREAD it leaves the page as it is, to be read, unless the log holds all its contents. In the
     * other states it sets DONE or fails. After an error pending redo is still pending. */
    int (*fetch)(void *ctx, struct ll_fetch *, struct lladd_error *);
    /* Redo of the page is no longer pending: the page is about to become visible, or it is
     * formatted. */
    void (*fetched)(void *ctx, lladd_pageno);
    /* Is the LSN in a part of the log that recovery did not find? A page with this LSN is newer
     * than its log: LLADD_LOG_LOST. Also called in redo and for bulk reads. */
    bool (*lost)(void *ctx, lladd_lsn);
    /* Makes the log durable up to the record at this LSN (0: none), so that the page, which has
     * this page LSN, and pages with lower ones may be written (BUF-1). *durable: how far the log is
     * durable. */
    int (*may_write)(void *ctx, lladd_pageno, lladd_lsn, lladd_lsn *durable, struct lladd_error *);
};

enum ll_frames { LL_FRAMES_AUTO, LL_FRAMES_RESERVED, LL_FRAMES_HEAP };

/* A cached page. Its first field is what redo, undo and the public interface use. Everything but
 * `page`, `private_`, `flags` and the accessors below belongs to the buffer manager. One cache
 * line. */
struct ll_frame {
    struct lladd_page page;
    uint64_t latch;    /* state word (buffer/latch.h) */
    uint64_t rec_lsn;  /* 0: clean. Else the recLSN: all effects of older records are on disk
                        * (BUF-4) */
    uint64_t base_lsn; /* baseLSN of a dirty page, as in its header when the exclusive latch was
                        * last released */
    void *private_;    /* owned by the page type */
    uint32_t flags;    /* LL_FRAME_*, changed under the exclusive latch */
    uint32_t slot;     /* number of its slot (slots.c) */
};

enum {
    LL_FRAME_BASELESS = 1 /* redo only: the page failed verification, its contents are zeros
                           * (BUF-5) */
};

struct ll_buffer_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    struct ll_poison *poison; /* set when a write or sync fails (LOG-4) */
    const char *name;         /* name of the page file, "pages" */
    const char *dwb_name;     /* name of the double-write area, "dwb"; NULL: none */
    uint32_t page_size;
    uint64_t budget;          /* bytes, page tables and state words included */
    uint32_t salt;            /* checksum salt, derived from the database uuid */
    enum ll_frames frames;
    struct ll_page_recovery recovery;
    bool create;              /* create the files (durable when open returns) */
    bool no_images; /* pages reach the disk atomically: redo starts at recLSN, not baseLSN, and no
                       page needs the double-write area */
    /* Page type callbacks, nullable, with their ctx. loaded: after verification, before
     * other threads see the frame. flushed: on the writer's private copy, before the checksum, with
     * no core latch held. evicted: before the frame is released; must free private_. */
    void *ctx;
    int (*loaded)(void *ctx, struct ll_frame *, struct lladd_error *);
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    void (*evicted)(void *ctx, struct ll_frame *);
};

int ll_buffer_open(const struct ll_buffer_config *, struct ll_buffer **out, struct lladd_error *);
/* Stops the writer and releases everything; writes nothing. */
void ll_buffer_close(struct ll_buffer *);
/* Starts the background writer (if env->threads); call it after redo is complete. */
int ll_buffer_start(struct ll_buffer *, struct lladd_error *);

/* Allocates what the cache needs to fix pages and to write them back, one after the other. Without
 * this call the first use does. */
int ll_buffer_want_memory(struct ll_buffer *, struct lladd_error *);

/* ---- fixing -------------------------------------------------------------------------------- */

enum {
    LL_FIX_SHARED = 0,
    LL_FIX_EXCLUSIVE = 1,
    LL_FIX_FRESH = 2, /* with EXCLUSIVE: do not read; the contents become zeros; the page may be
                       * beyond the end */
    LL_FIX_REDO = 4, /* with EXCLUSIVE: a page that fails verification is returned as zeros with
                      * LL_FRAME_BASELESS, a page beyond the end as zeros without it */
    LL_FIX_TRY = 8,  /* return LLADD_BUSY instead of waiting for a latch */
    LL_FIX_BASE = 16 /* with REDO: the next record rewrites the whole page. A page that is not
                      * cached is not read but returned as if it had failed verification */
};

/* Pins and latches page n. Errors: LLADD_OUT_OF_RANGE (beyond the end), LLADD_CORRUPT_PAGE,
 * LLADD_LOG_LOST, LLADD_READ_FAILED, LLADD_NO_FRAME, LLADD_NO_MEMORY, or the poison. A thread may
 * hold several pages and chooses their order itself. A hit takes one atomic on the frame's word and
 * no other lock. */
int ll_buffer_fix(struct ll_buffer *, lladd_pageno n, unsigned how, struct ll_frame **out,
                  struct lladd_error *);
/* Prefetches the frame and the header of page n, which will be fixed and changed soon. Does nothing
 * for a page that is not cached. */
void ll_buffer_expect(const struct ll_buffer *, lladd_pageno n);
/* how: LL_FIX_SHARED or LL_FIX_EXCLUSIVE, as it was fixed. */
void ll_buffer_unfix(struct ll_buffer *, struct ll_frame *, unsigned how);
/* Is the frame held exclusively? The caller holds it, shared or exclusively. */
bool ll_frame_exclusive(const struct ll_frame *);

/* Call before a frame, held exclusively, is changed by a record that is not yet reserved.
 * `frontier` is the log's tail, read now. Enters the page into the dirty page table if it was clean
 * (BUF-4). Cannot fail. */
void ll_buffer_dirty(struct ll_buffer *, struct ll_frame *, lladd_lsn frontier);

static inline struct ll_frame *ll_frame_of(struct lladd_page *page)
{
    return (struct ll_frame *)page;
}

/* ---- the page file ----------------------------------------------------------------------- */

uint64_t ll_buffer_page_count(const struct ll_buffer *); /* pages below this exist */
/* Number of pages for which the file has room; durable after the next ll_buffer_flush. */
uint64_t ll_buffer_file_pages(const struct ll_buffer *);
/* Drops n pages from first: their frames and dirty page table entries are removed, nothing is
 * written. LLADD_BUSY if one of them is fixed. */
int ll_buffer_drop(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* Prefetches the cache line of that byte, if the page is cached. */
void ll_buffer_touch(const struct ll_buffer *, lladd_pageno, uint32_t offset);
/* Prefetches the cache lines of the page header and, of the `len` bytes at offset, of the first 256
 * and the last. */
void ll_buffer_touch_span(const struct ll_buffer *, lladd_pageno, uint32_t offset, uint32_t len);
void ll_buffer_prefetch(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* Optimistic reads: see lladd/optimistic.h. */
bool ll_buffer_read_begin(const struct ll_buffer *, lladd_pageno, struct lladd_read *out);
bool ll_buffer_read_valid(const struct lladd_read *);
/* Bulk access for extents, without the cache. Whole pages; `bytes` are written as they are, with
 * checksums added if `paged` (the caller fills in the rest of each header). The pages must not be
 * cached dirty; cached copies are dropped. Durable after ll_buffer_sync. */
int ll_buffer_bulk_write(struct ll_buffer *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                         bool paged, struct lladd_error *);
int ll_buffer_bulk_read(struct ll_buffer *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                        bool paged, struct lladd_error *);
/* Makes page n part of the file, perhaps not yet on the device; false if the number is too high. */
bool ll_buffer_include(struct ll_buffer *, uint64_t n);
/* Extends the file to `pages` pages on the device, durably, so that later writes there need no
 * space. */
int ll_buffer_extend(struct ll_buffer *, uint64_t pages, struct lladd_error *);
/* After an unclean stop: if the file has more than `pages` pages, the number known to be durable,
 * rewrites its last page, so that the next sync makes the length durable. A failed sync may have
 * left the end of the file only in the operating system's cache, marked clean (REC-4). */
int ll_buffer_confirm_end(struct ll_buffer *, uint64_t pages, struct lladd_error *);

/* Checksum of a page image as stored. */
uint32_t ll_page_crc(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size);
/* 0, or LLADD_CORRUPT_PAGE with the reason. A page of zeros is valid. */
int ll_page_verify(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size,
                   const char *file, struct lladd_error *);

/* ---- write-back -------------------------------------------------------------------------- */

/* Writes every page that is dirty now and has rec_lsn < rec_below or baseLSN < base_below, then
 * syncs. When it returns 0 these pages are durable and out of the dirty page table (unless they
 * were dirtied again). */
int ll_buffer_flush(struct ll_buffer *, lladd_lsn rec_below, lladd_lsn base_below,
                    struct lladd_error *);
/* ll_buffer_flush for a checkpoint from which redo will start at `horizon`. In addition, when it
 * returns 0, no write of a page with an older base is still waiting to become durable, and later
 * such writes are protected. */
int ll_buffer_flush_below(struct ll_buffer *, lladd_lsn horizon, struct lladd_error *);
/* From now on a page with a baseLSN below this is written through the double-write area: redo
 * starts there, so nothing else could rebuild the page after a torn write (BUF-5). A lower value
 * than before has no effect. */
void ll_buffer_protect(struct ll_buffer *, lladd_lsn below);
/* Syncs the page file: everything written before is durable and leaves the in-flight set. */
int ll_buffer_sync(struct ll_buffer *, struct lladd_error *);
/* Makes the writes of ll_buffer_bulk_write durable; does nothing if they are. */
int ll_buffer_sync_bulk(struct ll_buffer *, struct lladd_error *);
/* One step of background writing, for callers without threads. *more: another step may be
 * useful. */
int ll_buffer_step(struct ll_buffer *, bool *more, struct lladd_error *);
/* Before redo: restores from the double-write area the pages that are torn in the page file. */
int ll_buffer_double_write_restore(struct ll_buffer *, uint64_t *restored, struct lladd_error *);

/* For inspection: decodes the first page of a double-write area. 0: copies of *count pages follow
 * it, one page each. LLADD_END: the area is empty. LLADD_CORRUPT_PAGE, LLADD_FOREIGN_FILE,
 * LLADD_NEWER_FORMAT: the header cannot be used. */
int ll_double_write_look(const void *first_page, uint32_t page_size, uint32_t salt, uint32_t *count,
                struct lladd_error *);
/* The page number of copy i < count. */
lladd_pageno ll_double_write_page(const void *first_page, uint32_t i);

/* Visits one page that is dirty or in flight, except those that were summed up and wait for a sync;
 * a result other than 0 stops. No latch is held that the callback could need. */
typedef int ll_dirty_fn(void *ctx, lladd_pageno, lladd_lsn rec_lsn, lladd_lsn base_lsn);
int ll_buffer_dirty_each(struct ll_buffer *, ll_dirty_fn *, void *ctx, struct lladd_error *);
/* Smallest recLSN and baseLSN over the dirty and in-flight pages; UINT64_MAX if there are none. A
 * page that goes through the double-write area counts with its recLSN for both. A page about to be
 * changed for the first time since its base was truncated keeps that old base until its image is
 * logged (BUF-5), so *base may be less than the oldest LSN of the log. *base never exceeds what
 * redo needs; as a truncation bound it may only be too low. */
void ll_buffer_dirty_min(struct ll_buffer *, lladd_lsn *rec, lladd_lsn *base);

/* Approximate number of dirty pages. */
uint64_t ll_buffer_dirty_count(const struct ll_buffer *);

struct ll_buffer_stats {
    uint64_t hits, misses, reads, writes, pages_written, syncs, evictions, repairs;
    uint64_t lost_writes; /* pages that were read in an older state than was written */
    uint64_t frames, frames_used, dirty, in_flight, bytes;
};
void ll_buffer_stats(const struct ll_buffer *, struct ll_buffer_stats *);

#endif
