/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_BACKUP_PRIVATE_H
#define SHIP_BACKUP_PRIVATE_H
/* A backup while it is made: backup.c decides what is copied, copy_pages.c and copy_log.c copy, and
 * copy_damage.c repairs damaged pages. roll.c makes a backup without the primary database. */
#include "ship/ship_private.h"

struct ll_ship_range {
    uint64_t first, n;
    uint64_t lsn; /* LSN of the redo barrier */
};

/* A transaction that has redo barriers and has not ended, as far as the log was read. */
struct ll_ship_writer {
    uint64_t txn;
    struct ll_ship_buf ranges; /* struct ll_ship_range */
};

struct ll_ship_backup {
    struct lladd_db *db;
    struct lladd_device *dev;
    struct lladd_store *store;
    struct lladd_backup_options opt;
    struct ll_ship_mem mem;
    struct ll_ship_pace pace;
    struct ll_ship_manifest m;
    struct lladd_error *err;
    unsigned threads;
    uint64_t bytes_done, bytes_all;
    const char *what; /* for `progress` */
    /* pages */
    struct lladd_file *pages;
    unsigned char *chunk;  /* bytes of pages as the file has them */
    unsigned char *packed; /* a frame */
    void *lz4;
    struct ll_ship_buf object;  /* frames that are not stored yet */
    struct ll_ship_buf index;   /* entries of frames */
    struct ll_ship_buf entries; /* entries of the pages in the frames */
    uint64_t newest;            /* the highest page LSN that was copied since it was reset */
    struct ll_ship_buf suspects; /* of copy_damage.c: pages in use with wrong checksums */
    bool repairing;              /* ll_ship_repair_pages copies repaired pages */
    struct ll_ship_buf damaged;  /* uint64_t: pages that were damaged when they were copied last */
    /* the log, as far as it was read for pages written in bulk */
    uint64_t read_to;
    struct ll_ship_buf writers; /* struct ll_ship_writer */
    struct ll_ship_buf again;   /* struct ll_ship_range: to be copied again */
};

/* Size of the buffer `chunk`, unless one frame is larger. Each read takes as many whole frames as
 * fit into the buffer. */
#define LL_SHIP_CHUNK (1u << 20)

int ll_ship_progress(struct ll_ship_backup *, uint64_t bytes);

/* Takes the options, and initialises. `err` must be set. Release the backup also after an error. */
int ll_ship_backup_options(struct ll_ship_backup *, const struct lladd_backup_options *);
void ll_ship_backup_release(struct ll_ship_backup *);
/* Allocates the buffers for pages, after page_size is known. */
int ll_ship_backup_room(struct ll_ship_backup *);
/* Names the backup, and puts its first objects. Its `from`, redo and timeline are known. */
int ll_ship_backup_start(struct ll_ship_backup *, const unsigned char control[LL_SHIP_CONTROL]);
/* Puts the manifest. */
int ll_ship_backup_finish(struct ll_ship_backup *);
/* LLADD_BAD_STATE: the directory "files" has files of an extension. */
int ll_ship_refuse_files(struct ll_ship_backup *);
/* Call it after an error. Deletes the objects that were stored, as far as the store allows. */
void ll_ship_backup_take_back(struct ll_ship_backup *);

/* Reads n pages. A page beyond the end of the file was never written, and reads as zeros. */
int ll_ship_read_pages(struct ll_ship_backup *, uint64_t first, uint64_t n, unsigned char *out);
/* Reads a page again that had a wrong checksum, unless it is raw or free; but if no database is
 * open, the page is only appended to `damaged`. If the checksum stays wrong, copy_damage.c finds
 * out why. A page with a wrong checksum after its repair is appended to `damaged`, unless it was
 * freed and so belongs to no structure. */
int ll_ship_look_closer(struct ll_ship_backup *, uint64_t number, unsigned char *page);
/* Copies pages [first, first+n). */
int ll_ship_copy_pages(struct ll_ship_backup *, uint64_t first, uint64_t n);
/* Notes a page in use with a wrong checksum, for ll_ship_repair_pages. */
int ll_ship_suspect(struct ll_ship_backup *, uint64_t page);
/* Reads the suspects again, after a checkpoint that began when `durable` was the durable LSN. Drops
 * the pages that are not in use any more. Also drops the pages that are whole now, and calls fn for
 * each of them. The right bytes of such a page were only in the cache, or the page's owner has
 * written them since. If the owner of a page commits above `durable`, ll_ship_repair_pages does not
 * take the page for damaged. */
typedef int ll_ship_whole_fn(void *ctx, uint64_t page, const unsigned char *bytes);
int ll_ship_recheck(struct ll_ship_backup *, uint64_t durable, ll_ship_whole_fn *, void *ctx);
/* Finds the damaged pages among the suspects, by the log from m.info.from on, and repairs them.
 * Then calls fn for each damaged page. fn reads the page again, because the repair may have
 * failed. `why`: nothing gives the page, for this reason; "": the page was written again. */
typedef int ll_ship_repaired_fn(struct ll_ship_backup *, void *ctx, uint64_t page, const char *why);
int ll_ship_repair_pages(struct ll_ship_backup *, ll_ship_repaired_fn *, void *ctx);
/* Reports that the page is damaged to a function for findings, which is nullable. Returns what the
 * function returns. */
int ll_ship_tell_damaged(const struct ll_ship_backup *, uint64_t page, const char *why,
                         lladd_finding_fn *, void *ctx);
/* Appends a frame with up to LL_SHIP_FRAME pages. */
int ll_ship_add_frame(struct ll_ship_backup *, uint64_t first, uint32_t n,
                      const unsigned char *pages);
/* Stores the frames that are not stored yet. */
int ll_ship_flush_pages(struct ll_ship_backup *);
/* Stores the last object of pages, and the index. */
int ll_ship_finish_pages(struct ll_ship_backup *);
/* Stores the index, "pages.idx". */
int ll_ship_put_index(struct ll_ship_backup *);

/* Reads the log from read_to to `to`, which must be durable. A transaction that commits or prepares
 * at or after `since` adds the ranges that it has written in bulk to `again`. */
int ll_ship_read_log(struct ll_ship_backup *, uint64_t to, uint64_t since);
/* Does the log [from, to) have a redo barrier for a page of `ranges`? Stops at the first such
 * barrier. */
int ll_ship_overlaps(struct ll_ship_backup *, const struct ll_ship_buf *ranges, uint64_t from,
                     uint64_t to, bool *out);
/* Copies the segments with the LSNs from info.from to info.end. */
int ll_ship_copy_log(struct ll_ship_backup *);
/* The same, from an archive. The last segment of the image ends at info.end. */
struct ll_ship_image;
int ll_ship_take_log(struct ll_ship_backup *, struct ll_ship_image *);

/* ---- scrub.c: every backup is a scrub ------------------------------------------------------- */

/* Finds out which version of each page the page file must have. Does nothing if the store has no
 * backup, or if what it has is damaged. Call it after the control block was read. Free *out also
 * after an error; it may be NULL. */
struct ll_ship_watch;
int ll_ship_watch_begin(struct ll_ship_backup *, struct ll_ship_watch **out);
/* After all pages were copied once: looks for lost writes as a scrub does, and copies the pages
 * again that it has repaired. Notes the others as damaged. */
int ll_ship_watch_end(struct ll_ship_watch *);
void ll_ship_watch_free(struct ll_ship_watch *);
#endif
