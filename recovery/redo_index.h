/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REDO_INDEX_H
#define LL_RECOVERY_REDO_INDEX_H
/* The redo index: for each page with pending redo, in LSN order, the LSNs of the records that
 * change it. Built while recovery reads the log from the start of redo. It takes eight bytes for a
 * record, and an entry in a map for a page.
 *
 * Its memory is bounded. When it is full, the index gives up half of its pages, chosen by a hash of
 * their number, and takes no more records of those; a pass over the log redoes them. If memory runs
 * out, or LSNs are too far apart for eight bytes, the index is `lost`, and recovery does without
 * it. Threads: the caller synchronises. */
#include "log/log.h"
#include "util/hashmap.h"
#include "util/vec.h"

struct ll_redo_index {
    uint64_t origin;     /* LSN of the oldest record */
    struct ll_vec links; /* struct link, see redo_index.c */
    struct ll_hashmap pages; /* page -> first link + 1, and in the upper half last link + 1 */
    struct ll_hashmap older; /* the same for older records, read later */
    uint32_t unused;     /* head of the list of free links, + 1; or 0 */
    uint64_t budget;     /* bytes at most */
    uint64_t share;      /* pages with a smaller hash are in the index */
    uint64_t seen;       /* records that count, of all pages, also those given up */
    uint64_t payload;    /* their bytes that redo needs */
    uint64_t marked;     /* number of marked pages */
    uint64_t page_max;
    uint32_t record_max; /* bytes of the longest record */
    bool lost;
};

void ll_redo_index_init(struct ll_redo_index *, const struct ll_env *, lladd_lsn origin,
                        uint64_t budget);
void ll_redo_index_free(struct ll_redo_index *);
/* Does the record change a page? (It may be older than the page's redo barrier.) */
bool ll_redo_index_counts(const struct ll_record *);
/* Adds the record if it counts; in LSN order. `older`: the record precedes those that were added
 * without `older`; ll_redo_index_join puts the two together. */
void ll_redo_index_add(struct ll_redo_index *, const struct ll_record *, bool older);
void ll_redo_index_join(struct ll_redo_index *);
/* Bytes in use, with those of a list of its pages. */
uint64_t ll_redo_index_bytes(const struct ll_redo_index *);
/* Has it given up pages? */
bool ll_redo_index_is_part(const struct ll_redo_index *);
/* The bytes of the record that redo needs: the undo bytes of a CLR. */
struct lladd_span ll_redo_index_payload(const struct ll_record *);

/* Marks a page of the index. False: it is not there, or marked already. After this no more records
 * are added. */
bool ll_redo_index_mark(struct ll_redo_index *, uint64_t page);
/* Does a pass over the log redo the page? If pages are marked: the marked ones. Otherwise: those
 * that are not in the index. */
bool ll_redo_index_in_pass(const struct ll_redo_index *, uint64_t page);

/* Iterates over the records of one page. Valid until the next add or free; pages may be removed
 * from the map meanwhile. */
struct ll_redo_index_walk {
    uint32_t next; /* link + 1; 0: no more */
    lladd_lsn lsn;
    bool base; /* image or format record: redo needs no earlier record */
};
/* False: the page is not in the index. */
bool ll_redo_index_find(const struct ll_redo_index *, uint64_t page, struct ll_redo_index_walk *);
bool ll_redo_index_next(const struct ll_redo_index *, struct ll_redo_index_walk *);
/* LSN of the page's newest record; 0: the page is not in the index. */
lladd_lsn ll_redo_index_newest(const struct ll_redo_index *, uint64_t page);

#endif
