/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BLOB_H
#define LL_OPERATIONS_BLOB_H
/* The declarations that the source files of operations/blob/ share: the layout of pages (page.c),
 * and the tree that maps data page numbers to pages (tree.c). */
#include "operations/operations_private.h"

#include <lladd/blob.h>

/* Operations by their index in ll_operations__blob_extension. An operation's id is the first
 * operation's id plus the index. */
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

/* The state of an open database. */
struct ll_blobs {
    uint32_t first_op;  /* atomic; id of the first operation, 0: not looked up yet */
    uint64_t bulk_from; /* atomic; a write of this many bytes or more to data pages is not logged */
};

static inline struct ll_blobs *ll_blobs_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_operations__blob_extension);
}
lladd_op_id ll_operations__blob_op(struct lladd_db *, enum ll_blob_op);
static inline lladd_op_id ll_blob_op(struct lladd_txn *txn, enum ll_blob_op op)
{
    return ll_operations__blob_op(lladd_txn_db(txn), op);
}

/* ---- pages ----------------------------------------------------------------------------------- */

#define BLOB_DIRECT 32u /* data pages listed in the root page */
#define BLOB_LEVELS 4u  /* trees of index pages; tree l has l levels */

/* The root page. */
#define BLOB_LENGTH LLADD_PAGE_HEADER
#define BLOB_ENTRIES (LLADD_PAGE_HEADER + 8u)
#define BLOB_ENTRY 6u
#define BLOB_FIRST (BLOB_ENTRIES + (BLOB_DIRECT + BLOB_LEVELS) * BLOB_ENTRY) /* contents */

/* Index and data pages. */
#define BLOB_ROOT LLADD_PAGE_HEADER
#define BLOB_WHERE (LLADD_PAGE_HEADER + 8u)
#define BLOB_REST (LLADD_PAGE_HEADER + 16u) /* entries, or contents */

#define BLOB_PIECE 4096u /* the most bytes of contents in one log record */

/* head_room returns the bytes of contents in the root page, page_room those in a data page, and fan
 * the number of entries of an index page. */
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
/* Number of data pages that a blob of `len` bytes has. */
static inline uint64_t ll_blob_pages_for(uint32_t page_size, uint64_t len)
{
    uint32_t head = ll_blob_head_room(page_size), room = ll_blob_page_room(page_size);
    return len <= head ? 0 : (len - head + room - 1) / room;
}
/* A page's role in its blob, the word at BLOB_WHERE. Level 0: data page number `first`. Other
 * levels: the index page for the data pages from `first` on. */
static inline uint64_t ll_blob_where(unsigned level, uint64_t first)
{
    return (uint64_t)level << 56 | first;
}

/* Arguments of the operations. */
struct ll_blob_write { /* format, write */
    uint64_t length;   /* the blob's new length */
    uint32_t at;       /* offset in the page */
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
    uint32_t at;     /* offset in the page */
    uint32_t n;
    const unsigned char *bytes; /* NULL: zeros */
};
/* link: the n entries from entry `at` on become n consecutive pages from `first` on, or empty if
 * `first` is 0. The old values of these entries must also be consecutive pages, or all be empty;
 * otherwise the result is LLADD_CONFLICT. */
struct ll_blob_link {
    uint32_t at, n;
    uint64_t first;
};

/* Entry i of a page with entries from `base` on. */
static inline uint64_t ll_blob_entry(const unsigned char *page, uint32_t base, uint32_t i)
{
    return lladd_get48(page + base + i * BLOB_ENTRY);
}
/* The length, at most n, of the run that begins at entry i. A run is consecutive pages, or empty
 * entries. */
uint32_t ll_operations__blob_run(const unsigned char *page, uint32_t base, uint32_t i, uint32_t n);

/* ---- the tree of data pages: tree.c ------------------------------------------------------ */

/* Fixes the root page of a blob that exists. */
int ll_operations__blob_root(struct lladd_db *, lladd_pageno root, struct lladd_page **out,
                             struct lladd_error *);
/* The version of the root page. Hash tables only create, truncate and destroy blobs. While the
 * version of such a blob's root page stays the same, the blob has the same pages in the same
 * roles. */
int ll_operations__blob_version(struct lladd_db *, lladd_pageno root, uint64_t *out,
                                struct lladd_error *);
/* Fixes a page of the blob for reading. LLADD_CONFLICT: the page does not have this role in the
 * blob, perhaps because it has been replaced. */
int ll_operations__blob_fix(struct lladd_db *, lladd_pageno root, lladd_pageno, uint64_t where,
                            struct lladd_page **out, struct lladd_error *);
/* Reports damage: a page does not have its role in the blob, and no transaction has replaced it. */
int ll_operations__blob_broken(struct lladd_error *, lladd_pageno root, lladd_pageno);

/* n consecutive pages from `first` on, or n data pages that do not exist. */
struct ll_blob_run {
    lladd_pageno first; /* 0: never written, reads as zeros */
    uint64_t n;
};
/* Finds the run that begins with data page i, at most `max` long. */
int ll_operations__blob_find(struct lladd_db *, lladd_pageno root, uint64_t i, uint64_t max,
                             struct ll_blob_run *, struct lladd_error *);

/* The place of a data page's entry. ll_operations__blob_place finds the place for data page i, and
 * creates missing index pages. */
struct ll_blob_place {
    lladd_pageno node; /* the root, or an index page of level 1 */
    uint64_t where;    /* role of the node; 0: the root */
    uint32_t slot, room;
};
int ll_operations__blob_place(struct lladd_txn *, lladd_pageno root, uint64_t i,
                              struct ll_blob_place *);
/* The run of entries at a place, at most `max` long. */
int ll_operations__blob_at(struct lladd_db *, lladd_pageno root, struct ll_blob_place, uint64_t max,
                           struct ll_blob_run *, struct lladd_error *);
/* The n consecutive pages from `first` on become the blob's data pages from data page i on. Frees
 * the pages that they replace. */
int ll_operations__blob_link(struct lladd_txn *, lladd_pageno root, uint64_t i, lladd_pageno first,
                             uint64_t n);
/* Frees the data pages from `keep` on, and index pages that become empty. */
int ll_operations__blob_cut(struct lladd_txn *, lladd_pageno root, uint64_t keep);
/* Calls fn for each page below the root, in the order of the data pages. An index page comes before
 * the pages below it. `where` is the page's role. No latch is held meanwhile. */
int ll_operations__blob_each(struct lladd_db *, lladd_pageno root,
                             int (*fn)(void *ctx, lladd_pageno, uint64_t where,
                                       struct lladd_error *),
                             void *ctx, struct lladd_error *);

#endif
