/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_REDO_INDEX_H
#define LL_RECOVERY_REDO_INDEX_H
/* The redo index: for each page with pending redo, the LSNs of the records that change the page, in
 * LSN order. Recovery builds the index while it reads the log from the start of redo. A record
 * takes eight bytes, and a page takes an entry in a map.
 *
 * Its memory is bounded. When the index is full, it gives up half of its pages, chosen by a hash of
 * the page number. It takes no more records of these pages; a pass over the log redoes these pages.
 * If memory runs out, or if two LSNs are too far apart for the format of a link, the index is
 * `lost`, and recovery works without the index. Threads: the caller synchronises. */
#include "log/log.h"
#include "util/hashmap.h"
#include "util/vec.h"

struct ll_redo_index {
    uint64_t origin;         /* lower bound of the records' LSNs */
    struct ll_vec links;     /* struct link, see redo_index.c */
    struct ll_hashmap pages; /* page -> first link + 1; in the upper 32 bits last link + 1 */
    struct ll_hashmap older; /* like `pages`, for records that are older but were read later */
    uint32_t unused;         /* head of the list of free links + 1, or 0 */
    uint64_t budget;         /* maximum bytes that may be used */
    uint64_t share;          /* pages with a hash below this are in the index */
    uint64_t seen;           /* number of all records that change pages, also of pages given up */
    uint64_t payload;        /* bytes of these records that redo needs */
    uint64_t marked;         /* number of pages marked by ll_redo_index_mark */
    uint64_t page_max;
    uint32_t record_max; /* bytes of the longest record */
    bool lost;
};

void ll_redo_index_init(struct ll_redo_index *, const struct ll_env *, lladd_lsn origin,
                        uint64_t budget);
void ll_redo_index_free(struct ll_redo_index *);
/* Does the record change a page? (Redo barriers are not considered.) */
static inline bool ll_redo_index_counts(const struct ll_record *rec)
{
    return rec->page != LLADD_NO_PAGE &&
           (rec->kind == LL_REC_UPDATE || rec->kind == LL_REC_CLR || rec->kind == LL_REC_IMAGE);
}
/* Does the record determine the page's whole contents? */
static inline bool ll_redo_is_base(const struct ll_record *rec)
{
    return rec->kind == LL_REC_IMAGE || (rec->flags & LL_REC_FORMATS);
}
/* Adds the record if it changes a page. Records are added in two parts: first the newer part of the
 * log, then, with `older`, the older part. Within each part, records are added in LSN order.
 * ll_redo_index_join joins the parts. */
void ll_redo_index_add(struct ll_redo_index *, const struct ll_record *, bool older);
void ll_redo_index_join(struct ll_redo_index *);
/* Bytes in use, plus the bytes that a list of all pages in the index would take. */
uint64_t ll_redo_index_bytes(const struct ll_redo_index *);
/* Has the index given up pages? */
bool ll_redo_index_is_part(const struct ll_redo_index *);
/* The part of a record that redo needs: the undo bytes of a CLR, the redo bytes of others. */
struct lladd_span ll_redo_index_payload(const struct ll_record *);

/* Marks a page for the next pass over the log (ll_redo_index_in_pass). False: the page is not in
 * the index, or was marked before. No records may be added after the first mark. */
bool ll_redo_index_mark(struct ll_redo_index *, uint64_t page);
/* Does a pass over the log redo the page? If pages are marked, a pass redoes the marked pages.
 * Otherwise it redoes the pages that are not in the index. */
bool ll_redo_index_in_pass(const struct ll_redo_index *, uint64_t page);

/* Iterates over the records of one page. A walk is valid until the next add or free. The caller may
 * remove pages from the map during a walk. */
struct ll_redo_index_walk {
    uint32_t next; /* link + 1; 0: no more */
    lladd_lsn lsn;
    bool base; /* an image or format record: redo needs no record before it */
};
/* Sets the walk to the page's first record. False: the page is not in the index. */
bool ll_redo_index_find(const struct ll_redo_index *, uint64_t page, struct ll_redo_index_walk *);
bool ll_redo_index_next(const struct ll_redo_index *, struct ll_redo_index_walk *);
/* LSN of the page's newest record; 0: the page is not in the index. */
lladd_lsn ll_redo_index_newest(const struct ll_redo_index *, uint64_t page);

#endif
