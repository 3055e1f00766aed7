/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_BWTREE_STORED_H
#define LL_OPERATIONS_BWTREE_STORED_H
/* Logged Bw-trees and the store of a database that has their pages: see store.c. */
#include "operations/bwtree/bwtree.h"
#include "operations/shared/grow.h"
#include "operations/shared/txn_state.h"

#include <lladd/dst.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>

/* ---- formats (docs/structures-bwtree.md) ----------------------------------------------------- */

#define BW_STORE_ROOT "lladd.bwtree.store"
#define BW_TREE_ROOT "bw:" /* and the tree's name */

enum bw_info_kind { BW_INFO_STORE = 1, BW_INFO_SEGMENTS, BW_INFO_TREE, BW_INFO_MAP, BW_INFO_KINDS };
enum {
    BW_VERSION = 1,
    BW_INFO_NEXT = 8,  /* u64 next page of the chain */
    BW_INFO_OWN = 16,  /* what the kind says */
    BW_INFO_HEAD = 48, /* then come entries of 16 bytes */
    BW_ENTRY = 16,
    BW_FRAGMENT_HEAD = 48,
    BW_RECORD_HEAD = 8,
    BW_RECORD_ENTRY = 20,
    BW_RECORD_FIRST = 1,
    BW_RECORD_LAST = 2,
    BW_CHANGE_HEAD = 3,
    BW_CHANGE_PUT = 1,
    BW_CHANGE_DELETE = 2,
    BW_NAME_MAX = LLADD_ROOT_NAME_MAX - 3
};

/* An address: number of the page (36 bits), offset in its body in units of 16 bytes (12 bits),
 * length in units of 64 bytes, rounded up (16 bits; BW_LONG: at least so many). 0: no address. */
#define BW_PAGE_BITS 36
#define BW_LONG 0xffffu
static inline uint64_t bw_address(uint64_t page, uint32_t offset, uint32_t len)
{
    uint64_t units = ((uint64_t)len + 63) / 64;
    return page << 28 | (uint64_t)(offset / 16) << 16 | (units < BW_LONG ? units : BW_LONG);
}
static inline uint64_t bw_address_page(uint64_t address)
{
    return address >> 28;
}
static inline uint32_t bw_address_offset(uint64_t address)
{
    return (uint32_t)(address >> 16 & 0xfff) * 16;
}
static inline uint32_t bw_address_units(uint64_t address)
{
    return (uint32_t)(address & 0xffff);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* Where a page of a tree is. Only the thread that flushes uses it, and recovery. */
struct bw_place {
    uint64_t at;      /* address of the page's fragment; 0: the store does not have the page */
    uint64_t settled; /* the same in the tree's map pages */
    uint64_t number;  /* of the state that the fragment has; UINT64_MAX: of none */
};

/* What a store record says of a page. */
struct bw_assigned {
    uint32_t pid;
    uint64_t at, number;
};

struct bw_list {
    struct bw_assigned *rows;
    size_t n, cap;
};

/* A logged tree of the database. Lives as long as the handle. */
struct bw_stored {
    struct bw_stored *next;
    struct bw_store *store;
    uint64_t id;       /* of its object records; never used again */
    lladd_pageno root; /* its page of kind BW_INFO_TREE */
    struct lladd_bwtree_options options;
    struct lladd_bwtree *tree; /* atomic pointer; NULL: not in memory */
    uint32_t handles;          /* under `make` */
    bool there;                /* used while the trees are listed */
    bool damaged;              /* recovery could not read the tree, and has repeated no changes */
    struct bw_place *places;
    size_t n_places, cap_places;
    lladd_pageno *maps; /* its map pages, in order */
    size_t n_maps, cap_maps;
    struct bw_list list; /* recovery: a group that is not complete; a flush: what it has written */
    bool group;          /* recovery: `list` has the beginning of a group */
};

struct bw_segment {
    lladd_pageno first, listed; /* `listed`: the page with the segment's entry */
    uint32_t offset;            /* of the entry */
    uint64_t pages, used;       /* used: pages that have been written */
    uint64_t live;              /* number of addresses in the segment */
};

/* The state of a handle. */
struct bw_store {
    struct lladd_db *db;
    struct lladd_mutex mutex;    /* a leaf: the members up to `make` */
    struct ll_txn_parts parts;   /* of transactions that have changed or made trees */
    struct lladd_cond ended;     /* `flushing` has become false */
    bool flushing;               /* a thread owns the members from `segments` on */
    struct bw_stored *trees;     /* newest first */
    uint64_t redo, since;        /* durable marks: redo of changes and of store records begins
                                  * there */
    uint64_t grouped; /* LSN after the last group of store records; the flushing thread's */
    uint64_t next_redo, next_since, commit; /* the newest marks, durable with this commit; 0: they
                                             * are `redo` and `since` */
    struct lladd_mutex make; /* held over I/O: trees are made, opened and read in */
    bool known, recovered;
    bool damaged;  /* a tree is: then no flush moves the marks, and the log keeps its changes */
    bool unlisted; /* so are the pages that list the trees: none can be used */
    int failed;    /* why recovery cannot go on */
    struct lladd_error why;
    lladd_pageno page; /* of kind BW_INFO_STORE; LLADD_NO_PAGE: there is none */
    _Alignas(8) uint64_t flushed; /* atomic: bound of the last complete flush */
    _Alignas(8) uint64_t retry;   /* atomic: after a flush that failed, none is tried below this
                                   * LSN */
    uint64_t due;      /* a writer flushes when the log is so many bytes beyond `flushed` */
    uint64_t step;     /* marks move by so many bytes */
    struct bw_segment *segments;
    size_t n_segments, cap_segments, current;
    lladd_pageno *lists; /* pages with entries of segments; the first one is `page` */
    size_t n_lists, cap_lists;
    unsigned char *fragment; /* the fragment that is being made */
    size_t cap_fragment;
    _Alignas(8) uint64_t flushes; /* atomic: counts for statistics */
    _Alignas(8) uint64_t bytes;
};

/* Memory for the delta that undoes a change, at the beginning of that memory. */
struct bw_spare {
    struct bw_spare *next;
    struct lladd_bwtree *t;
    size_t size;
};

/* A transaction's part: the trees that it has made, and memory to undo its changes. */
struct bw_part {
    struct ll_txn_part part;
    uint64_t *ids; /* under the store's mutex */
    size_t n, cap;
    struct bw_spare *undo; /* of the newest change first */
};
/* The transaction's part; the first call makes it. */
int ll_bwtree__part_of(struct bw_store *, struct lladd_txn *, struct bw_part **);
/* Takes the memory for a delta of this size out of the part of a transaction that rolls back; NULL:
 * recovery has found the transaction. */
void *ll_bwtree__undo_take(struct lladd_txn *, const struct lladd_bwtree *, size_t size);
/* The transaction makes the tree. */
int ll_bwtree__created_add(struct bw_store *, struct lladd_txn *, uint64_t id);
/* Has the transaction that makes the tree not committed yet? */
bool ll_bwtree__is_fresh(struct bw_store *, uint64_t id);

extern const struct lladd_object_class ll_bwtree__rows_class, ll_bwtree__store_class;
extern const struct lladd_extension ll_bwtree__extension;
extern const struct lladd_structure ll_bwtree__structure; /* named.c */

/* Returns the state of the handle; LLADD_BAD_STATE if Bw-trees are not registered. */
int ll_bwtree__store_of(struct lladd_db *, struct bw_store **, struct lladd_error *);
/* The tree with this number, or NULL. */
struct bw_stored *ll_bwtree__stored_of(struct bw_store *, uint64_t id);
/* Adds a tree with this root page, and reads its map pages. The caller holds `make`, or is in
 * recovery. */
int ll_bwtree__stored_add(struct bw_store *, lladd_pageno root, uint64_t id, struct bw_stored **,
                          struct lladd_error *);
/* Makes room for the places of PIDs below n. */
int ll_bwtree__places(struct bw_stored *, uint64_t n);
/* Begins a system transaction. */
int ll_bwtree__begin(struct bw_store *, struct lladd_txn **, struct lladd_error *);
/* Commits it if rc is 0, else rolls it back. Returns rc, or the error of the commit or the abort;
 * fills in the error struct. *commit (nullable) gets the commit's LSN. */
int ll_bwtree__end(struct lladd_txn *, int rc, lladd_lsn *commit, struct lladd_error *);
void ll_bwtree__close_stored(struct bw_stored *);

/* ---- info.c: pages of page type "lladd.bwtree" ----------------------------------------------- */

extern const struct lladd_page_type ll_bwtree__info_page, ll_bwtree__segment_page;
extern const struct lladd_op ll_bwtree__info_format, ll_bwtree__info_set;
/* Allocates a page of this kind. `own`: its bytes from BW_INFO_OWN to BW_INFO_HEAD. */
int ll_bwtree__info_new(struct lladd_txn *, enum bw_info_kind, const unsigned char *own,
                        lladd_pageno *out);
/* Sets bytes of a page's body. Without `undo` they stay if the transaction is rolled back. */
int ll_bwtree__info_put(struct lladd_txn *, lladd_pageno, uint32_t offset, const void *bytes,
                        size_t len, bool undo);
/* Copies a page's body to `body`. LLADD_CORRUPT_PAGE, LLADD_NEWER_FORMAT. */
int ll_bwtree__info_get(struct lladd_db *, lladd_pageno, enum bw_info_kind, unsigned char *body,
                        struct lladd_error *);
static inline uint32_t bw_entries_of(const struct lladd_db *db)
{
    return (lladd_body_size(lladd_page_size(db)) - BW_INFO_HEAD) / BW_ENTRY;
}

/* ---- segment.c ------------------------------------------------------------------------------- */

/* Reads the list of segments, and counts what is live in each. In recovery. */
int ll_bwtree__segments_read(struct bw_store *, struct lladd_error *);
/* Makes `current` a segment with room for so many pages. Allocates one only if `allocate` is set;
 * else LLADD_NO_SPACE. `within` (nullable): allocates in this transaction, a planted bug. */
int ll_bwtree__segment_room(struct bw_store *, uint64_t pages, bool allocate,
                            struct lladd_txn *within, struct lladd_error *);
/* The address of a page changes: counts it. */
void ll_bwtree__segment_moved(struct bw_store *, uint64_t old, uint64_t at);
/* Frees the segments in which nothing is live, but one. */
int ll_bwtree__segments_free(struct bw_store *, struct lladd_error *);
/* Makes map pages for the tree's PIDs. */
int ll_bwtree__maps_grow(struct bw_stored *, struct lladd_error *);

/* ---- fragment.c ------------------------------------------------------------------------------ */

/* Writes the page as a fragment to store->fragment, with this bound. LLADD_NO_MEMORY. */
int ll_bwtree__fragment_make(struct bw_stored *, uint32_t pid, const struct bw_page *,
                             uint64_t bound, uint32_t *len);
/* Makes a page of a fragment of `len` bytes. LLADD_CORRUPT_PAGE, LLADD_NEWER_FORMAT. */
int ll_bwtree__fragment_read(struct lladd_bwtree *, uint32_t pid, const unsigned char *bytes,
                             size_t len, struct bw_page **, struct lladd_error *);

/* ---- load.c, flush.c ------------------------------------------------------------------------- */

/* Reads the tree into memory, if it is not there. The caller holds `make`, or is in recovery. */
int ll_bwtree__load(struct bw_stored *, struct lladd_error *);

enum bw_flush {
    BW_FLUSH_ALLOCATE = 1, /* may allocate pages: not in a checkpoint */
    BW_FLUSH_WAIT = 2,     /* waits for a flush of another thread; else LLADD_BUSY */
    BW_FLUSH_FORCE = 4     /* the marks are durable afterwards */
};
/* Writes what is not in the store, and moves the marks. */
int ll_bwtree__flush(struct bw_store *, unsigned flags, struct lladd_error *);
/* Allocates what the next flush in a checkpoint needs. */
int ll_bwtree__provide(struct bw_store *, struct lladd_error *);
/* Flushes if much log has been written since the last flush; `lsn`: of the newest change. */
void ll_bwtree__flush_if_due(struct bw_store *, uint64_t lsn);
/* Fills in the members of the store. */
void ll_bwtree__store_stats(struct bw_store *, struct lladd_bwtree_stats *);
/* Callbacks of the class of rows. */
int ll_bwtree__checkpoint(void *ctx, struct lladd_db *);
void ll_bwtree__advance(void *ctx, struct lladd_db *, lladd_lsn);
/* Under the mutex: takes over marks that have become durable. */
void ll_bwtree__marks_settle(struct bw_store *);

/* ---- logged.c -------------------------------------------------------------------------------- */

/* Writes the bytes of a record as text. */
void ll_bwtree__rows_describe(void *ctx, struct lladd_sink *, enum lladd_span_kind,
                              struct lladd_span);
/* Repeats a change of a record: the key has this value, or no row. `txn` (nullable) rolls back. */
int ll_bwtree__repeat(struct bw_stored *, struct lladd_txn *, lladd_lsn, struct lladd_span);

#endif
