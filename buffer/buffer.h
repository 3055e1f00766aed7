/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_H
#define LL_BUFFER_H
/* Interface of the buffer manager: the pages of one file, cached within a byte budget, with STEAL
 * and NO-FORCE. The buffer manager calls log and recovery only through the functions of
 * ll_page_recovery. */
#include <lladd/optimistic.h>

#include "buffer/page_format.h"
#include "util/poison.h"

struct ll_buffer;

/* The progress of the fetch of a page. */
enum ll_fetch_state {
    LL_FETCH_UNREAD,  /* the page is not read yet; `bytes` are undefined */
    LL_FETCH_READ,    /* the page was read and is intact; redo may be pending */
    LL_FETCH_DAMAGED, /* the page could not be read, or failed verification */
    LL_FETCH_DONE     /* `bytes` are the current page */
};

struct ll_fetch {
    lladd_pageno page;
    unsigned char *bytes; /* page_size bytes; recovery does not update the checksum */
    struct ll_frame *frame; /* the frame into which the page is loaded */
    enum ll_fetch_state state;
    lladd_lsn dirty_since;     /* out, with DONE: the recLSN; 0: the page is not dirty */
    bool rebuilt;              /* out: the stored page is damaged, and was rebuilt from the log.
                                * fetch has then made the frame dirty */
    struct lladd_error damage; /* with DAMAGED: what is wrong with the stored page */
};

/* How write-back protects the pages of a batch that redo could not rebuild after a torn write
 * (BUF-5). */
struct ll_images {
    unsigned n;         /* the log credit is enough for this number of page images */
    bool area;          /* n is 0, so the pages go through the double-write area */
    uint64_t credit[2]; /* log credit; only recovery uses it */
    void *room;         /* memory to build an image in; only recovery uses it */
};

/* The functions of recovery that the buffer manager calls.
 *
 *     a miss      fetch(UNREAD) ► read ► verify, lost ► fetch(READ or DAMAGED) ► fetched
 *     write-back  images ► copy, image ► images_end ► may_write ► write
 *
 * A miss with LL_FIX_REDO does not call fetch. A miss with LL_FIX_FRESH calls neither fetch nor
 * fetched: redo stays pending until the page is formatted. During fetch and fetched the thread
 * holds the new frame exclusively, and the pages that it had fixed before. It holds no other latch
 * of this layer. may_write must be set. `images`, `image` and `images_end` are all set, or all
 * NULL. If they are NULL, no image is logged, and pages that need an image go through the
 * double-write area. The other functions may be NULL. */
struct ll_page_recovery {
    void *ctx;
    /* Brings the page up to date: applies pending redo, rebuilds a damaged page (BUF-2). In state
     * UNREAD, fetch sets DONE if it can make the page from the log alone; otherwise it changes
     * nothing, and the page is read. In the other states it sets DONE or fails. If fetch fails,
     * redo of the page is still pending. */
    int (*fetch)(void *ctx, struct ll_fetch *, struct lladd_error *);
    /* Called when the page is about to become visible to other threads: from now on redo of the
     * page is not pending. */
    void (*fetched)(void *ctx, lladd_pageno);
    /* Is the LSN in a part of the log that recovery did not find? If yes, a page with this page LSN
     * is newer than the log: LLADD_LOG_LOST. Also called during redo and for bulk reads. */
    bool (*lost)(void *ctx, lladd_lsn);
    /* Gets log credit for images of up to n > 0 pages. `wait`: the caller holds no page and no
     * credit, so this call may wait. Without `wait` this call does not wait. */
    int (*images)(void *ctx, unsigned n, bool wait, struct ll_images *, struct lladd_error *);
    /* Appends an image of the copy, which has all changes that are logged of its page. The copy's
     * page LSN and baseLSN become the LSN of the image. */
    void (*image)(void *ctx, struct ll_images *, struct lladd_page *copy);
    void (*images_end)(void *ctx, struct ll_images *);
    /* The LSN is the page LSN of this page (0: no record). Makes the log durable up to and
     * including the record at that LSN. Then pages with this or a lower page LSN may be written
     * (BUF-1). *durable: the log's durable LSN. */
    int (*may_write)(void *ctx, lladd_pageno, lladd_lsn, lladd_lsn *durable, struct lladd_error *);
};

enum ll_frames { LL_FRAMES_AUTO, LL_FRAMES_RESERVED, LL_FRAMES_HEAP };

/* A cached page. Other layers use only `page`, `private_`, `flags` and the functions below. With
 * pointers of 64 bits a frame fills one cache line of the processor. */
struct ll_frame {
    struct lladd_page page;
    uint64_t latch;     /* state word (buffer/latch.h) */
    uint64_t rec_lsn;   /* 0: clean. Else the recLSN: the changes of older records are in the page
                        * file or in copies in flight (BUF-4) */
    uint64_t image_lsn; /* LSN of the newest image that write-back has logged of the page; the page
                         * header gets this LSN when the page becomes dirty again */
    void *private_;     /* owned by the page type */
    uint32_t flags;     /* LL_FRAME_*, changed under the exclusive latch */
    uint32_t slot;      /* slot number (slots.c) */
};

enum {
    LL_FRAME_BASELESS = 1, /* redo only: the page was cleared, because it failed verification,
                            * could not be read, lacked changes that precede redo, or was not read
                            * (LL_FIX_BASE; BUF-5) */
    LL_FRAME_UNREAD = 2    /* with BASELESS: the page could not be read */
};

struct ll_buffer_config {
    const struct ll_env *env;
    struct lladd_device *dev;
    struct ll_poison *poison; /* set when a write or sync fails (LOG-4) */
    const char *name;         /* name of the page file, "pages" */
    const char *dwb_name;     /* name of the double-write area, "dwb"; NULL: none */
    uint32_t page_size;
    uint64_t budget; /* bytes, for pages, frames and tables */
    uint32_t salt;   /* checksum salt, derived from the database uuid */
    enum ll_frames frames;
    struct ll_page_recovery recovery;
    bool create;    /* create the files; they are durable when open returns */
    bool no_images; /* the device writes pages atomically: every page is written in place without an
                     * image */
    /* Callbacks of page types, nullable; `ctx` is their first argument. loaded is called after a
     * page was read and verified, and after `fetch` has brought the page up to date. Other threads
     * cannot fix the page before loaded returns. With LL_FIX_REDO the page may still lack changes;
     * with LL_FIX_FRESH or LL_FIX_BASE loaded is not called. flushed may change the copy that will
     * be written, before the checksum of the copy is computed; the page is not latched meanwhile.
     * evicted is called before a page leaves its frame, and when LL_FIX_FRESH clears a cached page
     * that has a private_; evicted frees private_. */
    void *ctx;
    int (*loaded)(void *ctx, struct ll_frame *, struct lladd_error *);
    void (*flushed)(void *ctx, struct lladd_page *copy, void *private_);
    void (*evicted)(void *ctx, struct ll_frame *);
};

int ll_buffer_open(const struct ll_buffer_config *, struct ll_buffer **out, struct lladd_error *);
/* Stops the background writer and frees all memory. Writes no page. */
void ll_buffer_close(struct ll_buffer *);
/* Starts the background writer if env->threads is set. Call this function after redo. */
int ll_buffer_start(struct ll_buffer *, struct lladd_error *);

/* Allocates the memory that is needed to fix one page after another and to write it back. Without
 * this call the first fix or write allocates that memory. */
int ll_buffer_want_memory(struct ll_buffer *, struct lladd_error *);
/* Reserves address space for the pages of the file, so that no fix has to reserve any. Stops when
 * the counters of this address space would take more than an eighth of the budget. Does nothing
 * with heap frames. */
int ll_buffer_want_address_space(struct ll_buffer *, struct lladd_error *);

/* ---- fixing -------------------------------------------------------------------------------- */

enum {
    LL_FIX_SHARED = 0,
    LL_FIX_EXCLUSIVE = 1,
    LL_FIX_FRESH = 2, /* with EXCLUSIVE: fills the page with zeros instead of reading it; the page
                       * may be beyond the end */
    LL_FIX_REDO = 4,  /* with EXCLUSIVE: a page that fails verification or cannot be read is
                       * returned as zeros, with LL_FRAME_BASELESS (but LLADD_LOG_LOST is an
                       * error). A page beyond the end is returned as zeros, without that flag */
    LL_FIX_TRY = 8,   /* return LLADD_BUSY instead of waiting for a latch */
    LL_FIX_BASE = 16  /* with REDO: the next record rewrites the whole page. So a page that is not
                       * cached is not read: it is returned like a page that fails verification */
};

/* Latches page n. The latch also pins the page. Errors: LLADD_OUT_OF_RANGE (beyond the end),
 * LLADD_CORRUPT_PAGE, LLADD_LOG_LOST, LLADD_READ_FAILED, LLADD_NO_FRAME, LLADD_NO_MEMORY,
 * LLADD_BUSY (with TRY), the poison, or an error of a callback. A thread that holds several pages
 * must fix them in an order that avoids deadlock. A hit that need not wait costs one atomic
 * operation on the frame's state word and takes no other latch. */
int ll_buffer_fix(struct ll_buffer *, lladd_pageno n, unsigned how, struct ll_frame **out,
                  struct lladd_error *);
/* Prefetches the frame and the header of page n, if the page is cached. For a caller that is about
 * to change the page. */
void ll_buffer_expect(const struct ll_buffer *, lladd_pageno n);
/* how: LL_FIX_SHARED or LL_FIX_EXCLUSIVE, as in the call of ll_buffer_fix. */
void ll_buffer_unfix(struct ll_buffer *, struct ll_frame *, unsigned how);
/* Does the caller, which holds the frame, hold it exclusively? */
bool ll_frame_exclusive(const struct ll_frame *);

/* Enters a clean page into the dirty page table (BUF-4). If write-back has logged an image of the
 * page, the page header gets the LSN of the image. Does nothing if the page is dirty. Call it
 * with the frame held exclusively, before reserving the record of the change. `frontier`: the log's
 * tail, read after the frame was latched. Cannot fail. */
void ll_buffer_dirty(struct ll_buffer *, struct ll_frame *, lladd_lsn frontier);
/* Enters a rebuilt page, with the LSN of its base as recLSN. A page that is dirty already keeps the
 * lower recLSN. */
void ll_buffer_enter(struct ll_buffer *, struct ll_frame *, lladd_lsn rec_lsn);

/* Prepares a page without a base for redo. Fills the page with zeros, sets LL_FRAME_BASELESS, and
 * takes the page out of the dirty page table, so that the zeros are not written. The caller holds
 * the frame exclusively. */
void ll_buffer_clear(struct ll_buffer *, struct ll_frame *);

/* Gives the frame's private_ back to its page type, before the page is formatted again. A copy that
 * is being written may use the pointer, so the call waits until the copy is written. The caller
 * holds the frame exclusively. */
void ll_buffer_forget_private(struct ll_buffer *, struct ll_frame *);

static inline struct ll_frame *ll_frame_of(struct lladd_page *page)
{
    return (struct ll_frame *)page;
}

/* ---- the page file ----------------------------------------------------------------------- */

uint64_t ll_buffer_page_count(const struct ll_buffer *); /* pages below this exist */
/* The length of the file in pages; durable after the next ll_buffer_flush. */
uint64_t ll_buffer_file_pages(const struct ll_buffer *);
/* Drops n pages from `first` on and writes nothing. Removes their frames and their entries in the
 * dirty page table, except entries that are summed up (dirty.c). If one of the pages is fixed, the
 * result is LLADD_BUSY, and nothing is dropped. */
int ll_buffer_drop(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* Prefetch parts of a cached page; no effect for heap frames. touch: the byte at `offset`.
 * touch_span: the header, and of the `len` bytes at `offset` the first 256 bytes and the last
 * byte. */
void ll_buffer_touch(const struct ll_buffer *, lladd_pageno, uint32_t offset);
void ll_buffer_touch_span(const struct ll_buffer *, lladd_pageno, uint32_t offset, uint32_t len);
void ll_buffer_prefetch(struct ll_buffer *, lladd_pageno first, uint64_t n);
/* Optimistic reads: see lladd/optimistic.h. */
bool ll_buffer_read_begin(const struct ll_buffer *, lladd_pageno, struct lladd_read *out);
bool ll_buffer_read_valid(const struct lladd_read *);
/* Bulk access to extents, without the cache. Between bulk_begin and bulk_end no page of the range
 * is cached. A thread that fixes such a page waits; with LL_FIX_TRY it gets LLADD_BUSY. bulk_begin
 * drops the cached pages, also dirty pages. It returns LLADD_BUSY if a page is fixed. If bulk_begin
 * fails, no bulk_end follows. With `paged`, bulk_write adds page number and checksum to each page
 * (the caller has filled in the rest of the header), and bulk_read verifies each page. Without
 * `paged`, `bytes` are written and read unchanged. bulk_read returns LLADD_BAD_STATE if a cached
 * page of the range is dirty, or if a copy of such a page is being written. Writes are durable
 * after ll_buffer_sync. A write that fails poisons, except with LLADD_NO_SPACE. */
struct ll_bulk_range {
    uint64_t first, n;
    /* Called when bulk_begin can no longer fail, before it drops the cached pages. No checkpoint
     * misses a dirty page until this call has returned. Must not wait. NULL: not needed. */
    void (*before_drop)(void *ctx);
    void *ctx;
    struct ll_bulk_range *next; /* for the buffer manager */
};
int ll_buffer_bulk_begin(struct ll_buffer *, struct ll_bulk_range *, struct lladd_error *);
int ll_buffer_bulk_write(struct ll_buffer *, const struct ll_bulk_range *, unsigned char *bytes,
                         bool paged, struct lladd_error *);
void ll_buffer_bulk_end(struct ll_buffer *, struct ll_bulk_range *);
int ll_buffer_bulk_read(struct ll_buffer *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                        bool paged, struct lladd_error *);
/* Raises the page count so that page n exists; the file on the device may stay shorter. False if n
 * is too large for a page number. */
bool ll_buffer_include(struct ll_buffer *, uint64_t n);
/* Extends the file on the device to `pages` pages and makes the new length durable, so that later
 * writes to these pages need no space. Raises the page count, too. */
int ll_buffer_extend(struct ll_buffer *, uint64_t pages, struct lladd_error *);
/* Recovery calls this before redo. `pages`: the file length that is known to be durable. If the
 * file is longer, cuts off an incomplete last page, and makes the file's length and blocks durable.
 * After a failed sync, or a kill during an extension, length and blocks may exist only in the
 * operating system's cache (REC-4). */
int ll_buffer_confirm_end(struct ll_buffer *, uint64_t pages, struct lladd_error *);

/* The checksum that page n with these bytes must have. */
uint32_t ll_page_crc(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size);
bool ll_page_is_zero(const void *bytes, size_t len);
/* 0, or LLADD_CORRUPT_PAGE with the reason. A page of zeros is valid. */
int ll_page_verify(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size,
                   const char *file, struct lladd_error *);

/* ---- write-back -------------------------------------------------------------------------- */

/* Writes every page that is dirty now and has recLSN < rec_below, then syncs. When it returns 0,
 * these pages are durable. A page that was changed after its copy was taken is dirty again. */
int ll_buffer_flush(struct ll_buffer *, lladd_lsn rec_below, struct lladd_error *);
/* Writes the dirty pages among the n pages from `first` on, then syncs. The caller holds no page.
 * It may hold log credit, so this function does not wait for credit for images. Pages that need an
 * image and get no credit go through the double-write area. */
int ll_buffer_write_range(struct ll_buffer *, lladd_pageno first, uint64_t n, struct lladd_error *);
/* The progress of a flush. */
struct ll_flush {
    uint64_t written, pages; /* both atomic: the pages written so far, and the pages found so far */
    /* Nullable: called between writes, without a latch of this layer; may wait. */
    void (*pace)(void *ctx);
    void *ctx;
};
/* ll_buffer_flush for a checkpoint that moves the start of redo to `horizon`. When it returns 0,
 * every earlier write of a page with a base below `horizon` is durable, too. Later writes of such
 * pages are protected (ll_buffer_protect). */
int ll_buffer_flush_below(struct ll_buffer *, lladd_lsn horizon, struct ll_flush *,
                          struct lladd_error *);
/* Raises the horizon to `below`; a lower value has no effect. A page that is copied for writing and
 * has a baseLSN below the horizon gets an image, or is written through the double-write area. Redo
 * will start at `below`, so redo alone could not rebuild the page after a torn write (BUF-5). */
void ll_buffer_protect(struct ll_buffer *, lladd_lsn below);
/* Syncs the page file, unless every write is durable already; removes the in-flight entries of
 * earlier writes. */
int ll_buffer_sync(struct ll_buffer *, struct lladd_error *);
/* Does one step of background writing. *more: another step may have work to do. */
int ll_buffer_step(struct ll_buffer *, bool *more, struct lladd_error *);
/* Called before redo: restores from the double-write area the pages that are torn in the page
 * file. */
int ll_buffer_double_write_restore(struct ll_buffer *, uint64_t *restored, struct lladd_error *);

/* A double-write area that is looked at, for restoring and for inspection. */
struct ll_double_write {
    struct lladd_device *dev;
    struct lladd_file *file;
    const char *name;
    uint32_t page_size, salt;
    unsigned char *header; /* room for two pages; the first gets the header that counts */
    uint32_t count;        /* number of copies that may be needed */
    uint32_t first;        /* the page of the area that has the first copy */
    int flaw;              /* LLADD_READ_FAILED: one of the two headers cannot be read;
                            * LLADD_CORRUPT_PAGE: they differ, or are damaged; else 0 */
};
/* Reads the two headers. 0: there are `count` copies, or none. LLADD_END: the area is empty. *err
 * also tells of a header that cannot be read if the result is 0 or LLADD_END.
 * LLADD_READ_FAILED: no header can be read. LLADD_MISSING_FILE, LLADD_CORRUPT_PAGE,
 * LLADD_FOREIGN_FILE, LLADD_NEWER_FORMAT: the area cannot be used. */
int ll_double_write_look(struct ll_double_write *, struct lladd_error *);
/* The number of the page of copy i < count. */
lladd_pageno ll_double_write_page(const void *header, uint32_t i);

/* The smallest recLSN of the dirty and in-flight pages; UINT64_MAX without such pages. */
lladd_lsn ll_buffer_dirty_min(struct ll_buffer *);

/* Approximate. */
uint64_t ll_buffer_dirty_count(const struct ll_buffer *);

struct ll_buffer_stats {
    uint64_t hits, misses, reads, writes, pages_written, syncs, evictions, repairs;
    uint64_t lost_writes; /* reads that returned an older page than was written */
    uint64_t frames, frames_used, dirty, in_flight, bytes;
};
void ll_buffer_stats(const struct ll_buffer *, struct ll_buffer_stats *);

#endif
