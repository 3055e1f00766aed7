/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_BEHIND_H
#define LL_RECOVERY_BEHIND_H
/* Which pages are behind the log, and by which records: for each page, in LSN order, the LSNs of
 * the records that change it. Made while the log is read from redo's start on; eight bytes for a
 * record, and a place in a map for a page.
 *
 * Memory may run out, and LSNs may lie too far apart for so few bytes: then the index says that it
 * is lost, and recovery does without. Threads: none of its own. */
#include "log/log.h"
#include "util/map.h"
#include "util/vec.h"

struct ll_behind {
    uint64_t origin;     /* no record is older */
    struct ll_vec links; /* struct link, see behind.c */
    struct ll_map pages; /* page -> its first link + 1, and its last one + 1 above */
    struct ll_map older; /* the same of records that were met later but come first */
    uint64_t page_max;
    uint32_t record_max; /* bytes of the longest record */
    bool lost;
};

void ll_behind_init(struct ll_behind *, const struct ll_env *, lladd_lsn origin);
void ll_behind_free(struct ll_behind *);
/* Does the record change a page? (A fence may say that it is not for this life of it.) */
bool ll_behind_counts(const struct ll_record *);
/* The record, if it counts; in LSN order. `older`: of the part of the log that lies before what was
 * added without; to be joined. */
void ll_behind_add(struct ll_behind *, const struct ll_record *, bool older);
void ll_behind_join(struct ll_behind *);

/* Walks over the records of one page. Good until the next add or free; pages may be taken out of
 * the map meanwhile. */
struct ll_behind_walk {
    uint32_t next; /* link + 1; 0: that was the last one */
    lladd_lsn lsn;
    bool base; /* image or format record: nothing before it is needed */
};
/* False: the page is not behind. */
bool ll_behind_find(const struct ll_behind *, uint64_t page, struct ll_behind_walk *);
bool ll_behind_next(const struct ll_behind *, struct ll_behind_walk *);
/* The newest record of a page that is behind. */
lladd_lsn ll_behind_newest(const struct ll_behind *, uint64_t page);

#endif
