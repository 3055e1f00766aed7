/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_IMAGE_PRIVATE_H
#define SHIP_IMAGE_PRIVATE_H
/* The log of a database at a target, as the objects of a store have it.
 *
 *   image.c   the segments of the log, and the objects with their bytes
 *   replay.c  reads the records of an image, and notes what a restore must know
 *   chain.c   the archived segments and timelines, and their order
 *   laid.c    pages that were written in bulk, which the log does not have
 *   target.c  finds the backup and the image for a target */
#include "ship/ship_private.h"

/* ---- image.c -------------------------------------------------------------------------------- */

#define LL_SHIP_BLOCK_MOST 65536u

enum ll_ship_source {
    LL_SHIP_IN_BASE = 1, /* base/<name>/log.<first>.<k> */
    LL_SHIP_IN_SEGMENT,  /* t<n>/log/<first>.seg */
    LL_SHIP_IN_PART      /* t<n>/log/<first>.<from>-<end>.part */
};

/* Bytes of a segment's file, and the object that has them. */
struct ll_ship_piece {
    enum ll_ship_source source;
    uint32_t timeline;
    uint64_t first;         /* first LSN of the segment */
    uint64_t from, end;     /* of a part: the two LSNs in its name */
    uint64_t offset, bytes; /* their place in the segment's file, and their number */
    uint32_t crc;           /* in a base: CRC of the whole object */
};

struct ll_ship_image_segment {
    uint64_t first, cut, incarnation;
    uint32_t size, block;
    uint64_t limit; /* the log in the segment ends here; the bytes after it are read as zeros */
    uint64_t start; /* of the first segment: where the first record that begins in it does, as its
                       index says; 0: not known */
    uint64_t next;  /* of the last segment: where the last record that begins in it ends, which
                       may be above the segment; 0: not known */
    size_t piece, pieces;
};

struct ll_ship_image {
    struct ll_ship_mem mem;
    struct lladd_store *store;
    char base[64];
    unsigned char uuid[16];
    struct ll_ship_buf segments; /* struct ll_ship_image_segment, ascending */
    struct ll_ship_buf pieces;   /* struct ll_ship_piece */
    struct ll_ship_buf window;   /* bytes of the object of one piece */
    size_t window_piece;         /* number of this piece; SIZE_MAX: none */
    uint64_t window_offset;
};

void ll_ship_image_init(struct ll_ship_image *, struct ll_ship_mem, struct lladd_store *,
                        const unsigned char uuid[16]);
void ll_ship_image_free(struct ll_ship_image *);
/* Appends a segment with no pieces yet. */
int ll_ship_image_add(struct ll_ship_image *, const struct ll_ship_image_segment *,
                      struct lladd_error *);
/* Appends a piece to the last segment. */
int ll_ship_image_piece(struct ll_ship_image *, const struct ll_ship_piece *, struct lladd_error *);
/* Removes the last segment. */
void ll_ship_image_drop(struct ll_ship_image *);
/* Appends a segment of another image. */
int ll_ship_image_take(struct ll_ship_image *, const struct ll_ship_image *from, size_t segment,
                       struct lladd_error *);
/* Adds the segments of a backup. Their headers are not read, so `cut` and `incarnation` are 0. */
int ll_ship_image_of_base(struct ll_ship_image *, const struct ll_ship_manifest *,
                          struct lladd_error *);
/* Reads bytes of a segment's file. Bytes without a piece, and those above the limit, are zeros. */
int ll_ship_image_read(struct ll_ship_image *, size_t segment, void *out, size_t len, uint64_t at,
                       struct lladd_error *);
/* Reads and checks the header of a segment, and fills cut, incarnation, size and block. */
int ll_ship_image_head(struct ll_ship_image *, size_t segment, struct lladd_error *);
/* Checks the header of a block. */
int ll_ship_image_block(const struct ll_ship_image *, size_t segment, uint32_t index,
                        const unsigned char header[LL_SHIP_BLOCK_HEADER], struct lladd_error *);
/* The name of the object with the segment's bytes at an LSN, for messages. */
void ll_ship_image_name(const struct ll_ship_image *, size_t segment, uint64_t lsn,
                        char out[LL_SHIP_NAME_MAX]);
/* The LSN up to which the pieces of the segment have its bytes, without a hole. */
uint64_t ll_ship_image_have(const struct ll_ship_image *, size_t segment);

static inline struct ll_ship_image_segment *ll_ship_image_at(const struct ll_ship_image *im,
                                                             size_t i)
{
    return (struct ll_ship_image_segment *)(void *)im->segments.data + i;
}
static inline size_t ll_ship_image_segments(const struct ll_ship_image *im)
{
    return im->segments.len / sizeof(struct ll_ship_image_segment);
}
static inline uint64_t ll_ship_image_end(const struct ll_ship_image_segment *s)
{
    return s->first + (uint64_t)(s->size / s->block) * (s->block - LL_SHIP_BLOCK_HEADER);
}
/* Offset in the segment's file at which the payload below the LSN ends. */
uint64_t ll_ship_image_offset(const struct ll_ship_image_segment *, uint64_t lsn);

/* ---- replay.c ------------------------------------------------------------------------------- */

/* A transaction that has written pages in bulk, and that has committed or prepared. */
struct ll_ship_bulk {
    uint64_t txn, lsn; /* lsn: LSN of its commit or prepare record */
};
/* A redo barrier in the log. */
struct ll_ship_barrier {
    uint64_t first, n; /* pages */
    uint64_t lsn, txn;
};

/* What the log up to a target says. */
struct ll_ship_facts {
    uint32_t page_size;          /* set before ll_ship_replay; 0: not known */
    uint64_t end;                /* end of the last record that does not go beyond the target */
    bool more;                   /* the image has more log: the target is in a record or a gap */
    bool heuristic;              /* there are heuristic records */
    uint64_t pages;              /* the page file has at least this many pages */
    struct ll_ship_buf bulk;     /* struct ll_ship_bulk, of commits and prepares from `since` on */
    struct ll_ship_buf barriers; /* struct ll_ship_barrier */
    struct ll_ship_buf prepared; /* struct lladd_in_doubt_info */
};
void ll_ship_facts_free(struct ll_ship_facts *);
/* A scan of the marks of a log for a time. It stops at the first mark with a later time. */
struct ll_ship_clock {
    int64_t target_us;
    uint64_t lsn;    /* the LSN that the last mark before the later mark states */
    int64_t last_us; /* time of this last mark; 0: there is none */
    bool later;      /* there is a mark with a later time */
};
/* A record as the image has it. */
struct ll_ship_logged {
    uint64_t lsn, txn, page;
    uint32_t size;
    unsigned kind;
    const unsigned char *redo;
    size_t redo_len;
    const unsigned char *bytes; /* the whole record */
    uint64_t incarnation;       /* of its segment */
};
/* Does an allocation bitmap take pages with this record? Its op is "lladd.map.take"
 * (docs/disk-format.md). */
bool ll_ship_taken(uint32_t page_size, const struct ll_ship_logged *, uint64_t *first,
                   uint64_t *n);
/* LLADD_END ends the scan without an error. */
typedef int ll_ship_scan_fn(void *ctx, const struct ll_ship_logged *, struct lladd_error *);
/* Calls fn for all records that begin at `from` or above, and end at `to` or below. Every block
 * header and every record is checked. The log may end below `to` only after the last whole record
 * that the image has. *end: end of the last record that was read. *more: see struct
 * ll_ship_facts. */
int ll_ship_scan(struct ll_ship_image *, uint64_t from, uint64_t to, ll_ship_scan_fn *, void *ctx,
                 uint64_t *end, bool *more, struct lladd_error *);
/* Scans, and notes the facts. With a clock (nullable), the scan stops at the first mark that is
 * later than the clock's target. */
int ll_ship_replay(struct ll_ship_image *, uint64_t from, uint64_t since, uint64_t to,
                   struct ll_ship_clock *, struct ll_ship_facts *, struct lladd_error *);

/* ---- chain.c -------------------------------------------------------------------------------- */

/* An archived object with bytes of the log. */
struct ll_ship_stored {
    uint64_t first, from, end; /* as in its name */
    uint32_t timeline;
    enum ll_ship_source source;
    uint64_t size; /* that the store lists; see ll_ship_stored_contents */
};
/* Number of bytes of the object's contents. */
int ll_ship_stored_contents(struct lladd_store *, const struct ll_ship_stored *, uint64_t *out,
                            struct lladd_error *);
void ll_ship_stored_name(const struct ll_ship_stored *, char out[LL_SHIP_NAME_MAX]);

/* Where a timeline leaves its parent. */
struct ll_ship_fork {
    uint32_t timeline, parent;
    uint64_t lsn;
    int64_t when_us;
};

/* A timeline, or one of its ancestors. Only the ancestor's log below `top` belongs to the
 * timeline. */
struct ll_ship_step {
    uint32_t timeline;
    uint64_t top;
};

/* What a store has of a database: its backups, and its archived log. */
struct ll_ship_past {
    struct ll_ship_mem mem;
    struct lladd_store *store;
    unsigned char uuid[16];
    struct ll_ship_buf stored; /* struct ll_ship_stored, by first LSN */
    struct ll_ship_buf bases;  /* struct lladd_backup_info, by the time of their end */
    struct ll_ship_buf broken; /* struct ll_ship_broken: backups that cannot be used */
    struct lladd_error damage; /* code not 0: what ll_ship_past_reach last found above its result is
                                  damaged */
};
/* Lists what the store has. */
int ll_ship_past_open(struct ll_ship_past *, struct lladd_store *, struct ll_ship_mem,
                      struct lladd_error *);
void ll_ship_past_free(struct ll_ship_past *);
/* LLADD_NOT_FOUND: there is no such timeline. */
int ll_ship_past_fork(const struct ll_ship_past *, uint32_t timeline, struct ll_ship_fork *,
                      struct lladd_error *);
/* Reads a mark's object. */
int ll_ship_past_mark(const struct ll_ship_past *, const char *name, uint64_t *lsn,
                      int64_t *time_us, struct lladd_error *);
/* The timeline and its ancestors, the timeline first: struct ll_ship_step. */
int ll_ship_past_path(const struct ll_ship_past *, uint32_t timeline, struct ll_ship_buf *steps,
                      struct lladd_error *);
/* Is the timeline on the path, and does its log below `end` belong to the path? */
bool ll_ship_on_path(const struct ll_ship_buf *steps, uint32_t timeline, uint64_t end);
/* Lists the archived log again. */
int ll_ship_past_again(struct ll_ship_past *, struct lladd_error *);
/* The LSN up to which the store has log of the path's first timeline; at least the timeline's
 * fork. */
int ll_ship_past_top(struct ll_ship_past *, const struct ll_ship_buf *steps, uint64_t *out,
                     struct lladd_error *);
/* Appends to `down` the archived segments with the log from `from` to *to, the highest first.
 * If *to is in a gap that a segment's cut declares, *to is lowered to the cut. If the archive lacks
 * log between `from` and *to, *reached is the end of the highest such gap; otherwise `from`. */
int ll_ship_past_chain(struct ll_ship_past *, const struct ll_ship_buf *steps, uint64_t from,
                       uint64_t *to, struct ll_ship_image *down, uint64_t *reached,
                       struct lladd_error *);
/* *out: the cut of the segment that begins at `first`; `first` if its header is damaged. */
int ll_ship_past_cut(struct ll_ship_past *, const struct ll_ship_buf *steps, uint64_t first,
                     uint64_t *out, struct lladd_error *);
/* The LSN up to which the archive goes on from `from` without a gap. */
int ll_ship_past_reach(struct ll_ship_past *, const struct ll_ship_buf *steps, uint64_t from,
                       uint64_t *out, struct lladd_error *);

/* ---- laid.c --------------------------------------------------------------------------------- */

/* Pages of spools, laid over the pages of a backup. */
struct ll_ship_laid {
    struct ll_ship_mem mem;
    struct lladd_store *store;
    unsigned char uuid[16];
    uint32_t page_size;
    struct ll_ship_buf objects, pages;
    struct ll_ship_buf window; /* bytes of one object */
    size_t window_object;
    uint64_t window_offset;
};
void ll_ship_laid_init(struct ll_ship_laid *, struct ll_ship_mem, struct lladd_store *,
                       const unsigned char uuid[16], uint32_t page_size);
void ll_ship_laid_free(struct ll_ship_laid *);
/* The timeline of the path that has the transaction's spool. This timeline has the transaction's
 * first LSN, and that LSN is also the transaction's id. From the fork on, an ancestor may have
 * another transaction with this id. */
uint32_t ll_ship_lay_timeline(const struct ll_ship_buf *steps, uint64_t txn);
/* Reads and checks the spool of a transaction, and adds its pages. LLADD_NOT_FOUND: the store does
 * not have all parts of it. */
int ll_ship_lay(struct ll_ship_laid *, const struct ll_ship_buf *steps, uint64_t txn,
                struct lladd_error *);
/* Call it after the last ll_ship_lay. `barriers`: struct ll_ship_barrier. */
void ll_ship_laid_sort(struct ll_ship_laid *, const struct ll_ship_buf *barriers);
/* Calls fn for each page, in the order of their numbers. `barrier`: the highest of the page. If it
 * does not return 0, the call stops and returns that value. */
typedef int ll_ship_laid_fn(void *ctx, uint64_t page, uint64_t barrier);
int ll_ship_laid_each(const struct ll_ship_laid *, ll_ship_laid_fn *, void *ctx);
bool ll_ship_laid_has(const struct ll_ship_laid *, uint64_t page);
/* Replaces the bytes of the page by those of a spool, if these are newer. */
int ll_ship_laid_page(struct ll_ship_laid *, uint64_t page, unsigned char *bytes,
                      struct lladd_error *);

/* ---- target.c ------------------------------------------------------------------------------- */

/* The LSNs from `from` to `end` can be restored. */
struct ll_ship_reach {
    uint64_t from, end;
};
/* Appends the ranges that can be restored on a path, ascending: struct ll_ship_reach. */
int ll_ship_ranges(struct ll_ship_past *, const struct ll_ship_buf *steps, struct ll_ship_buf *out,
                   struct lladd_error *);

/* What was found for a target. */
struct ll_ship_goal {
    uint32_t timeline;
    bool archived; /* false: the target is LLADD_TO_BASE, and needs no archive */
    struct ll_ship_facts facts;
    struct ll_ship_laid laid;
};
void ll_ship_goal_free(struct ll_ship_goal *);
/* Assembles the log from the backup's begin to `to`. `im`: initialised, and without segments.
 * LLADD_OUT_OF_RANGE: the archive has a gap. */
int ll_ship_collect(const struct ll_ship_past *, const struct ll_ship_buf *steps, uint32_t timeline,
                    const struct ll_ship_manifest *, uint64_t to, struct ll_ship_image *im,
                    struct lladd_error *);
/* For a backup that is being made: assembles the log of the archive from m->info.from to `to`,
 * reads it, and finds the pages that transactions with a commit or prepare record at `since` or
 * above have written in bulk. Sets goal->facts.end to the end of the last whole record. The caller
 * has initialised the image. */
int ll_ship_gather(const struct ll_ship_past *, const struct ll_ship_buf *steps,
                   const struct ll_ship_manifest *m, uint64_t since, uint64_t to,
                   struct ll_ship_image *, struct ll_ship_goal *, struct lladd_error *);
/* Finds the backup and the log for the target of the options. Initialises the image. */
int ll_ship_target(struct lladd_store *, const struct lladd_restore_options *,
                   struct ll_ship_manifest *, struct ll_ship_image *, struct ll_ship_goal *,
                   struct lladd_error *);
#endif
