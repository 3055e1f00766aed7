/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BLOB_H
#define LL_OPERATIONS_BLOB_H
/* What the files of blobs share: where things are on their pages (blob_page.c), which page of a
 * blob is where (blob_map.c). */
#include "operations/operations_private.h"

#include <lladd/blob.h>

/* Operations by their place in ll_operations__blob_extension, and so by their distance to the id of
 * the first. */
enum ll_blob_op {
    LL_BLOB_FORMAT,
    LL_BLOB_WRITE,
    LL_BLOB_LINK,
    LL_BLOB_INDEX_FORMAT,
    LL_BLOB_INDEX_LINK,
    LL_BLOB_DATA_FORMAT,
    LL_BLOB_DATA_SET,
    LL_BLOB_OPS
};

extern const struct lladd_op ll_operations__blob_format;
extern const struct lladd_op ll_operations__blob_write;
extern const struct lladd_op ll_operations__blob_link_op;
extern const struct lladd_op ll_operations__blob_index_format;
extern const struct lladd_op ll_operations__blob_index_link;
extern const struct lladd_op ll_operations__blob_data_format;
extern const struct lladd_op ll_operations__blob_data_set;
extern const struct lladd_page_type ll_operations__blob_page;
extern const struct lladd_page_type ll_operations__blob_index_page;
extern const struct lladd_page_type ll_operations__blob_data_page;
extern const struct lladd_extension ll_operations__blob_extension;

/* What an open database has. */
struct ll_blobs {
    uint32_t first_op;  /* atomic; id of the first operation, 0: not looked up yet */
    uint64_t bulk_from; /* atomic; writes of at least so many bytes go past the log */
};

static inline struct ll_blobs *ll_blobs_of(struct lladd_db *db)
{
    return lladd_state(db, &ll_operations__blob_extension);
}
lladd_op_id ll_operations__blob_op(struct lladd_db *, enum ll_blob_op);
static inline lladd_op_id ll_blob_op(struct lladd_txn *txn, enum ll_blob_op op)
{
    return ll_operations__blob_op(lladd_txn_db(txn), op);
}

/* ---- pages ----------------------------------------------------------------------------------- */

#define BLOB_DIRECT 32u /* data pages whose numbers the root page has */
#define BLOB_LEVELS 4u  /* trees of index pages below the root page: of one level, two ... */

/* The root page. */
#define BLOB_LENGTH LLADD_PAGE_HEADER
#define BLOB_ENTRIES (LLADD_PAGE_HEADER + 8u)
#define BLOB_ENTRY 6u
#define BLOB_FIRST (BLOB_ENTRIES + (BLOB_DIRECT + BLOB_LEVELS) * BLOB_ENTRY) /* contents */

/* Index and data pages. */
#define BLOB_ROOT LLADD_PAGE_HEADER
#define BLOB_WHERE (LLADD_PAGE_HEADER + 8u)
#define BLOB_REST (LLADD_PAGE_HEADER + 16u) /* entries, or contents */

#define BLOB_PIECE 4096u /* most contents one record carries */

/* Bytes in the root page, and in each data page; entries of an index page. */
static inline uint32_t ll_blob_head_room(uint32_t page_size)
{
    return page_size - BLOB_FIRST;
}
static inline uint32_t ll_blob_page_room(uint32_t page_size)
{
    return page_size - BLOB_REST;
}
static inline uint32_t ll_blob_fan(uint32_t page_size)
{
    return (page_size - BLOB_REST) / BLOB_ENTRY;
}
/* Data pages that so many bytes take. */
static inline uint64_t ll_blob_pages_for(uint32_t page_size, uint64_t len)
{
    uint32_t head = ll_blob_head_room(page_size), room = ll_blob_page_room(page_size);
    return len <= head ? 0 : (len - head + room - 1) / room;
}
/* What a page is in its blob: level 0: data page number `first`; else an index page of the data
 * pages from `first` on. */
static inline uint64_t ll_blob_where(unsigned level, uint64_t first)
{
    return (uint64_t)level << 56 | first;
}

/* Arguments of the operations. */
struct ll_blob_write { /* format, write */
    uint64_t length;   /* of the blob, from now on */
    uint32_t at;       /* in the page */
    uint32_t n;
    const unsigned char *bytes; /* NULL: zeros */
};
struct ll_blob_data { /* index.format, data.format */
    lladd_pageno root;
    uint64_t where;
    const unsigned char *bytes;
    uint32_t n;
};
struct ll_blob_set { /* data.set */
    uint32_t at;     /* in the page */
    uint32_t n;
    const unsigned char *bytes; /* NULL: zeros */
};
/* link: entries at ... at + n - 1 become first, first + 1, ... or all none (first 0). What they
 * were must have the same form: else LLADD_CONFLICT. */
struct ll_blob_link {
    uint32_t at, n;
    uint64_t first;
};

/* Entry i of a page with entries from `base` on. */
static inline uint64_t ll_blob_entry(const unsigned char *page, uint32_t base, uint32_t i)
{
    return lladd_get48(page + base + i * BLOB_ENTRY);
}
/* How many of the entries i ... i + n - 1 are one run: none, or pages that follow each other. */
uint32_t ll_operations__blob_run(const unsigned char *page, uint32_t base, uint32_t i, uint32_t n);

/* ---- which page is where: blob_map.c --------------------------------------------------------- */

/* Fixes the root page of a blob that exists. */
int ll_operations__blob_root(struct lladd_db *, lladd_pageno root, struct lladd_page **out,
                             struct lladd_error *);
/* The version of its root page: if that stays the same, so does which page is where. */
int ll_operations__blob_version(struct lladd_db *, lladd_pageno root, uint64_t *out,
                                struct lladd_error *);
/* Fixes a page of the blob, for reading. LLADD_CONFLICT: it is not what it should be, perhaps not
 * any more. */
int ll_operations__blob_fix(struct lladd_db *, lladd_pageno root, lladd_pageno, uint64_t where,
                            struct lladd_page **out, struct lladd_error *);
/* The page at a place is not what it should be, and nobody has changed that meanwhile. */
int ll_operations__blob_broken(struct lladd_error *, lladd_pageno root, lladd_pageno);

/* Data pages from i on, at most `max`: `n` of them follow each other from *first on, or are not
 * there (*first 0). */
struct ll_blob_run {
    lladd_pageno first; /* 0: zeros that were never written */
    uint64_t n;
};
int ll_operations__blob_find(struct lladd_db *, lladd_pageno root, uint64_t i, uint64_t max,
                             struct ll_blob_run *, struct lladd_error *);

/* Where the entry of data page i is; makes index pages on the way. */
struct ll_blob_place {
    lladd_pageno node; /* the root, or an index page of level 1 */
    uint64_t where;    /* what the node is; 0: the root */
    uint32_t slot, room;
};
int ll_operations__blob_place(struct lladd_txn *, lladd_pageno root, uint64_t i,
                              struct ll_blob_place *);
/* The run at a place, at most `max`. */
int ll_operations__blob_at(struct lladd_db *, lladd_pageno root, struct ll_blob_place, uint64_t max,
                           struct ll_blob_run *, struct lladd_error *);
/* Data pages i ... i + n - 1 are from now on first, first + 1, ...; what was there is freed. */
int ll_operations__blob_link(struct lladd_txn *, lladd_pageno root, uint64_t i, lladd_pageno first,
                             uint64_t n);
/* Data pages from `keep` on are freed, and index pages that have no others. */
int ll_operations__blob_cut(struct lladd_txn *, lladd_pageno root, uint64_t keep);
/* Calls fn for each page below the root that is there: in order, index pages first; `where` says
 * what it is. The caller's fn may use the library. */
int ll_operations__blob_each(struct lladd_db *, lladd_pageno root,
                             int (*fn)(void *ctx, lladd_pageno, uint64_t where,
                                       struct lladd_error *),
                             void *ctx, struct lladd_error *);

#endif
