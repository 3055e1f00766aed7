/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REDO_INDEX_H
#define LL_RECOVERY_REDO_INDEX_H
/* Which pages are behind the log, and by which records: for each page, in LSN order, the LSNs of
 * the records that change it. Made while the log is read from redo's start on; eight bytes for a
 * record, and a place in a map for a page.
 *
 * It takes at most the bytes it is given. When they are full, it gives up half of its pages, chosen
 * by a hash of their number, and takes no more records of those: they are left to a pass over the
 * log. Memory may run out, and LSNs may lie too far apart for so few bytes: then the index says
 * that it is lost, and recovery does without. Threads: none of its own. */
#include "log/log.h"
#include "util/hashmap.h"
#include "util/vec.h"

struct ll_redo_index {
    uint64_t origin;     /* no record is older */
    struct ll_vec links; /* struct link, see redo_index.c */
    struct ll_hashmap pages; /* page -> its first link + 1, and its last one + 1 above */
    struct ll_hashmap older; /* the same of records that were met later but come first */
    uint32_t unused;     /* a link + 1 whose page was given up, and which leads to the next; or 0 */
    uint64_t budget;     /* bytes at most */
    uint64_t share;      /* pages whose hash lies below have their records here */
    uint64_t seen;       /* records that count, of all pages */
    uint64_t payload;    /* bytes of these that redo needs */
    uint64_t marked;     /* pages that are */
    uint64_t page_max;
    uint32_t record_max; /* bytes of the longest record */
    bool lost;
};

void ll_redo_index_init(struct ll_redo_index *, const struct ll_env *, lladd_lsn origin,
                        uint64_t budget);
void ll_redo_index_free(struct ll_redo_index *);
/* Does the record change a page? (A fence may say that it is not for this life of it.) */
bool ll_redo_index_counts(const struct ll_record *);
/* The record, if it counts; in LSN order. `older`: of the part of the log that lies before what was
 * added without; to be joined. */
void ll_redo_index_add(struct ll_redo_index *, const struct ll_record *, bool older);
void ll_redo_index_join(struct ll_redo_index *);
/* Bytes it holds, with those of a list of its pages. */
uint64_t ll_redo_index_bytes(const struct ll_redo_index *);
/* Has it given up pages? */
bool ll_redo_index_is_part(const struct ll_redo_index *);
/* The bytes of the record that redo needs. */
struct lladd_span ll_redo_index_payload(const struct ll_record *);

/* Marks a page that is behind. False: it is not, or was marked before. No more records are added
 * then. */
bool ll_redo_index_mark(struct ll_redo_index *, uint64_t page);
/* Does a pass over the log redo the page? If pages are marked, these; if none is, those that the
 * index does not have. */
bool ll_redo_index_in_pass(const struct ll_redo_index *, uint64_t page);

/* Walks over the records of one page. Good until the next add or free; pages may be taken out of
 * the map meanwhile. */
struct ll_redo_index_walk {
    uint32_t next; /* link + 1; 0: that was the last one */
    lladd_lsn lsn;
    bool base; /* image or format record: nothing before it is needed */
};
/* False: the page is not behind. */
bool ll_redo_index_find(const struct ll_redo_index *, uint64_t page, struct ll_redo_index_walk *);
bool ll_redo_index_next(const struct ll_redo_index *, struct ll_redo_index_walk *);
/* The newest record of a page that is behind. */
lladd_lsn ll_redo_index_newest(const struct ll_redo_index *, uint64_t page);

#endif
