/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_HASH_TABLE_H
#define LL_OPERATIONS_HASH_TABLE_H
/* Hash tables in memory: see table.c. */
#include "operations/hash/page.h"
#include "operations/hash/siphash.h"
#include "operations/shared/extents.h"
#include "operations/shared/txn_state.h"

#include <lladd/hash.h>

/* The root page, page type "lladd.hash": offsets in the page. */
enum {
    HR_LAYOUT = LLADD_PAGE_HEADER,       /* u32 2 */
    HR_STATE = LLADD_PAGE_HEADER + 4,    /* u32 0; 1: destroyed, at once or in steps */
    HR_KEY = LLADD_PAGE_HEADER + 8,      /* u32 length of every key, 0: any */
    HR_VALUE = LLADD_PAGE_HEADER + 12,   /* u32 length of every value, 0: any */
    HR_SEED = LLADD_PAGE_HEADER + 16,    /* 16 bytes */
    HR_BUCKETS = LLADD_PAGE_HEADER + 32, /* u64 */
    HR_RUN = LLADD_PAGE_HEADER + 40,
    HR_GONE = HR_RUN + LL_RUN_BYTES /* u64 0; between steps: 1 + pages of the run freed so far */
};
#define HR_SEED_BYTES 16u

struct ll_hash_owner;

struct ll_hash_table {
    uint64_t buckets; /* atomic; 0: read the root page */
    uint32_t unsure;  /* atomic: `buckets` may be wrong by one because of a damaged page */
    uint64_t version; /* atomic, changed under the mutex: incremented whenever `buckets` is set */
    struct ll_hashes *hashes;
    struct lladd_db *db;
    lladd_pageno root;
    struct ll_siphash_key seed;
    uint16_t type; /* number of its bucket pages' type */
    bool fixed;
    uint32_t key_size, value_size;
    uint32_t fixed_slots;
    struct ll_extents run;
    struct ll_hash_table *next;
    bool loaded;        /* the members above are filled in; under `loading` */
    bool physical;      /* the open handles of the table ask for physical undo; under the mutex */
    uint32_t handles;   /* under the mutex */
    uint32_t destroyed; /* atomic; 0 again if the destruction is rolled back */
    uint64_t owner;     /* atomic: struct ll_hash_owner * of the transaction that has it alone,
                         * or 0 */
    uint64_t changers;  /* atomic: the number of transactions that have not ended and may undo
                         * changes by key */
    struct lladd_mutex loading; /* held while the root page is read */
    struct lladd_mutex shape;   /* held by the thread that splits, merges or rebuilds (split.c) */
    uint64_t splits, merges;    /* atomic */
};

struct lladd_hash {
    struct ll_hash_table *table;
};

/* A table that a transaction has alone until the transaction ends. */
struct ll_hash_own {
    struct ll_hash_table *table;
    lladd_savepoint_id claimed;   /* number of the transaction's next savepoint when it claimed the
                                   * table; 0: the transaction is in doubt, or a compensation made
                                   * the claim */
    lladd_savepoint_id destroyed; /* 0, or the number of the transaction's next savepoint when it
                                   * began to destroy the table */
};

/* The state of a transaction that uses tables: a participant. */
struct ll_hash_owner {
    struct ll_txn_part owner;
    struct ll_reservation_txn hold; /* reservations of keys: see table.c */
    struct ll_hash_own *own;
    size_t n_own, cap_own;
    /* Tables in which it may undo changes by key. noted() moves the table it finds to the front. */
    struct ll_hash_table **changed, *one;
    size_t n_changed, cap_changed; /* cap_changed 0: `changed` is NULL, or points to `one` */
    /* Not NULL: the transaction is in doubt, and its prepare record does not say which tables it
     * has changed. Then this member points to ll_hashes.untold, which counts the transaction. */
    uint64_t *untold;
};

/* The state of a database. */
struct ll_hashes {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf: protects the list of tables, their handles, and writes of
                               * `buckets` */
    struct ll_hash_table *tables;
    struct ll_txn_parts owners;
    struct ll_reservations holds;
    uint64_t untold; /* atomic: the number of transactions that ll_hash_owner.untold describes */
    struct ll_operations *ops;
    lladd_op_id format, destroy, count, bucket, put, remove, mark, restore, narrow, widen, slot,
        bytes;
};

extern const struct lladd_extension ll_hash__extension;
extern const struct lladd_page_type ll_hash__root_page;

/* Ranks of mutexes. A thread holds `shape` while a run grows, `loading` while it reads pages. */
enum {
    LL_HASH_RANK_SHAPE = LLADD_RANK_EXTENSION + 0,
    LL_HASH_RANK_LOADING = LLADD_RANK_EXTENSION + 1
};

static inline struct ll_hashes *ll_hashes_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_hash__extension);
}

/* The bucket of a hash, with n buckets. */
static inline uint64_t ll_hash__bucket(uint64_t hash, uint64_t n)
{
    unsigned level = 63 - (unsigned)__builtin_clzll(n);
    uint64_t b = hash & ((UINT64_C(2) << level) - 1);
    return b < n ? b : b & ((UINT64_C(1) << level) - 1);
}
/* The number of low hash bits that the keys of bucket b share, with n buckets. */
static inline unsigned ll_hash__level(uint64_t b, uint64_t n)
{
    unsigned level = 63 - (unsigned)__builtin_clzll(n);
    uint64_t full = UINT64_C(1) << level;
    return b >= full || b < n - full ? level + 1 : level;
}
/* The bucket from which b was split, or into which it will be merged. */
static inline uint64_t ll_hash__parent(uint64_t b)
{
    return b ^ (UINT64_C(1) << (63 - (unsigned)__builtin_clzll(b)));
}

static inline bool ll_hash__is_bucket(const struct ll_hash_table *t, struct lladd_view v,
                                      uint64_t hash)
{
    return v.type == t->type && lladd_get48(v.bytes + HB_ROOT) == t->root.v &&
           v.bytes[HB_FLAGS] == 0 && hb_covers(v.bytes, hash) &&
           hb_get(v.bytes, HB_KEY) == t->key_size && hb_get(v.bytes, HB_VALUE) == t->value_size &&
           (t->fixed ? hb_get(v.bytes, HB_SLOTS) == t->fixed_slots : ll_hash__head_fine(v));
}

/* Is a page with this type and header the only page of this key's bucket? For tables with fixed
 * lengths. */
static inline bool ll_hash__is_whole_bucket(const struct ll_hash_table *t, uint16_t type,
                                            const struct hb_head *h, uint64_t hash)
{
    uint64_t rest = h->root ^ t->root.v; /* level and flags; the flags must be 0 */
    unsigned level = (unsigned)(rest >> 48);
    return type == t->type && rest << 16 == 0 && level <= HB_LEVEL_MAX &&
           h->bucket == ((hash & ((UINT64_C(1) << level) - 1)) | (uint64_t)t->key_size << 48) &&
           h->next == (uint64_t)t->value_size << 48 && (h->slots & 0xffff) == t->fixed_slots;
}

/* The hash of an entry's key. */
static inline uint64_t ll_hash__of(const struct ll_hash_table *t, const unsigned char *key,
                                   uint16_t len)
{
    return len & HB_BLOB ? lladd_get64(key) : ll_siphash(&t->seed, key, len);
}

/* Is any key reserved? Is the key with this hash reserved? May this ghost be dropped? Until all
 * losers are rolled back, every key counts as reserved. */
bool ll_hash__any_held(const struct ll_hash_table *);
bool ll_hash__held(const struct ll_hash_table *, uint64_t hash);
bool ll_hash__may_forget(const struct ll_hash_table *, const struct hb_entry *);
static inline bool ll_hash__may_reuse(const struct ll_hash_table *t, struct lladd_view v,
                                      uint32_t slot)
{
    struct hb_entry e;
    return ll_hash__entry(v, slot, &e) && ll_hash__may_forget(t, &e);
}

/* ---- table.c --------------------------------------------------------------------------------- */

/* Returns the table of a root page, created in memory if necessary. Reads no page. */
int ll_hash__find_table(struct ll_hashes *, lladd_pageno root, struct ll_hash_table **out);
/* Returns a new table for this root page; marks an older table of that page as destroyed. */
int ll_hash__new_table(struct ll_hashes *, lladd_pageno root, struct ll_hash_table **out);
/* Returns the number of buckets; reads the root page if necessary. LLADD_DESTROYED: the table was
 * destroyed. LLADD_WRONG_TYPE: the page is not a table's root. */
int ll_hash__buckets_slow(struct ll_hash_table *, uint64_t *out, struct lladd_error *);
static inline int ll_hash__buckets(struct ll_hash_table *t, uint64_t *out, struct lladd_error *err)
{
    *out = lladd_atomic_load64(&t->buckets);
    return __builtin_expect(*out != 0, 1) ? 0 : ll_hash__buckets_slow(t, out, err);
}
/* What is left to destroy. ll_hash__rest returns LLADD_DESTROYED if nothing is. */
struct ll_hash_rest {
    bool begun;       /* the root page says that the table is destroyed */
    uint64_t buckets; /* number of buckets before the first step */
    uint64_t pages;   /* number of the run's pages before the first step */
    uint64_t gone;    /* number of pages freed so far, from the run's first one on */
};
int ll_hash__rest(struct ll_hash_table *, struct ll_hash_rest *, struct lladd_error *);
/* Sets the number of buckets. A thread that is reading the number from pages at that time reads it
 * again. */
void ll_hash__set_buckets(struct ll_hash_table *, uint64_t n);
/* Forgets the number of buckets; the next use reads it from the root page. */
void ll_hash__forget(struct ll_hash_table *);
extern const struct lladd_participant ll_hash__participant; /* txn.c */
void ll_hash__owner_drop(struct ll_txn_part *);
/* The transaction's state, created if necessary. */
int ll_hash__owner(struct lladd_txn *, struct ll_hashes *, struct ll_hash_owner **out);
/* Gives the table to the transaction alone, until the transaction ends or rolls back to a savepoint
 * before this call. LLADD_BUSY: another transaction has the table alone, or may still undo a change
 * of the table by key. */
int ll_hash__claim(struct lladd_txn *, struct ll_hash_table *);
/* Notes that the transaction, which has claimed the table, has destroyed all or a part of the table
 * after this savepoint. From now on calls return LLADD_DESTROYED, unless the transaction rolls back
 * to the savepoint. */
void ll_hash__set_destroyed(struct lladd_txn *, struct ll_hash_table *, lladd_savepoint_id before);
/* If the transaction's changes of the table must be undone byte by byte: sets *physical and claims
 * the table. Otherwise: clears *physical and notes that the transaction changes the table. */
int ll_hash__how(struct lladd_txn *, struct ll_hash_table *, bool *physical);
/* Is another transaction in doubt with a prepare record of an earlier version, which does not name
 * the tables it has changed? Earlier versions wrote no such record for a transaction that had only
 * inserted. */
bool ll_hash__untold(struct lladd_txn *, struct ll_hashes *);
/* Reserves the key with this hash for the transaction. Called before the transaction latches the
 * key's page. */
int ll_hash__reserve(struct lladd_txn *, struct ll_hash_table *, uint64_t hash);

int ll_hash__corrupt(struct lladd_error *, lladd_pageno, const char *what);

/* ---- find.c ---------------------------------------------------------------------------------- */

/* Called when a page is not the expected bucket of `believed` buckets. Forgets the number in memory
 * from the third call on, if it is still `believed`. LLADD_CORRUPT_PAGE after too many calls. */
int ll_hash__again(struct ll_hash_table *, uint64_t believed, unsigned *tries,
                   struct lladd_error *);
/* Latches the head page of a key's bucket. */
int ll_hash__fix_bucket(struct ll_hash_table *, uint64_t hash, enum lladd_latch,
                        struct lladd_page **out, struct lladd_error *);
/* Latches the head page exclusively, with log credit for one record of the operation. The caller
 * returns unused credit (lladd_log_credit for 0). */
int ll_hash__fix_to_change(struct lladd_txn *, struct ll_hash_table *, uint64_t hash, lladd_op_id,
                           struct lladd_page **out);
/* The next page of a chain; the caller holds the head. LLADD_END after the last page. */
int ll_hash__fix_next(struct ll_hash_table *, const struct lladd_page *head,
                      const struct lladd_page *from, enum lladd_latch, struct lladd_page **out,
                      struct lladd_error *);

/* The place of a key: the head of its bucket, and the page with the key, which may be the head. */
struct ll_hash_found {
    struct lladd_page *head, *page;
    struct hb_entry entry;
    uint32_t slot;
    enum lladd_latch latch; /* the latch held on the head and on the page */
};
static inline void ll_hash__let_go(const struct ll_hash_table *t, struct ll_hash_found *f)
{
    if (f->page != f->head)
        lladd_page_unfix(t->db, f->page, f->latch);
    lladd_page_unfix(t->db, f->head, f->latch);
}
/* Searches the chain; the caller holds the head. 0: `page` has the key, perhaps as a ghost.
 * LLADD_END: no page has the key, and `page` is the last page. Other errors: only the head is
 * held. */
int ll_hash__find_in_chain(struct ll_hash_table *, struct ll_hash_found *, const struct hb_key *,
                           struct lladd_error *);

/* Finds an element; its page and the head are latched shared. LLADD_NOT_FOUND without a message. */
int ll_hash__find_element(struct ll_hash_table *, const struct hb_key *, uint64_t hash,
                          struct ll_hash_found *, struct lladd_error *);

/* ---- read.c ---------------------------------------------------------------------------------- */

/* A key or a value stored in a blob. */
struct hb_part {
    unsigned char ref[HB_VALUE_REF]; /* u64 length, u64 root page of the blob */
    unsigned char *into;             /* buffer for its first n bytes */
    uint64_t n;                      /* 0: the part is not read */
    uint64_t version;                /* version of the blob's root page before the blob's bytes were
                                      * read */
};

/* Reads of an element: the caller embeds this struct. */
struct ll_hash_reader {
    struct ll_hash_table *table;
    const struct hb_key *key;
    uint64_t hash;
    /* Called under the latch of the element's page. Copies the parts that are on the page, and sets
     * ref, into and n of the parts that are in blobs. ll_hash__read may call the function several
     * times; the result of the last call is used. */
    int (*see)(struct ll_hash_reader *, const struct hb_entry *, struct lladd_error *);
    struct hb_part key_part, value_part;
};

/* Reads an element, blobs included, as it is at one moment. LLADD_NOT_FOUND without a message; an
 * error of `see` ends the call. A failed call may have written to `into`. */
int ll_hash__read(struct ll_hash_reader *, struct lladd_error *);

/* Sets the part to the blob that this reference in an entry names. */
static inline void ll_hash__set_part(struct hb_part *part, const unsigned char *ref,
                                     unsigned char *into, uint64_t n)
{
    memcpy(part->ref, ref, sizeof part->ref);
    part->into = into;
    part->n = n;
}

/* ---- parts.c --------------------------------------------------------------------------------- */

/* The place of a page: its bucket, of n buckets, and its position in the chain, 0 for the head. */
struct ll_hash_place {
    uint64_t bucket, n;
    uint32_t in_chain;
};
typedef int ll_hash_page_fn(void *ctx, struct ll_hash_table *, const struct ll_hash_place *,
                            struct lladd_view, struct lladd_error *);
/* Calls fn for each page of the bucket, overflow pages included, under a shared latch. */
int ll_hash__each_in_bucket(struct ll_hash_table *, struct ll_hash_place, ll_hash_page_fn *fn,
                            void *ctx, struct lladd_error *);
/* Calls fn for each page of each bucket. */
int ll_hash__each_page(struct ll_hash_table *, ll_hash_page_fn *fn, void *ctx,
                       struct lladd_error *);

/* Page numbers, collected under latches and used after these are released. */
struct ll_hash_numbers {
    uint64_t *at;
    size_t n, cap;
};
struct ll_hash_parts {
    struct ll_hash_numbers overflow;
    struct ll_hash_numbers blobs; /* root pages */
};
/* An ll_hash_page_fn; ctx is a struct ll_hash_parts. Adds the page itself if it is an overflow
 * page, and the blobs of its elements. */
int ll_hash__list_parts(void *ctx, struct ll_hash_table *, const struct ll_hash_place *,
                        struct lladd_view, struct lladd_error *);
void ll_hash__parts_free(struct ll_hash_table *, struct ll_hash_parts *);

/* ---- optimistic.c ---------------------------------------------------------------------------- */

/* Looks a key up with an optimistic read. 0: buf has up to `size` bytes of the value, and *len
 * (nullable) is the value's length. LLADD_NOT_FOUND. LLADD_BUSY: no answer, buf is unchanged. */
int ll_hash__read_optimistic(struct ll_hash_table *, const struct hb_key *, uint64_t hash,
                             lladd_pageno, void *buf, size_t size, size_t *len);

/* ---- undo.c ----------------------------------------------------------------------------- */

enum hb_undo_what { HB_UNDO_PUT, HB_UNDO_INSERT, HB_UNDO_REMOVE };
struct hb_undo {
    enum hb_undo_what what;
    const unsigned char *key, *value;
    uint16_t key_len, value_len;
    bool ghost;
};
/* Undoes a change of a key. */
int ll_hash__undo(struct lladd_txn *, lladd_pageno root, const struct hb_undo *);

/* ---- partition.c ----------------------------------------------------------------------------- */

/* The entries of a page that are dropped, and those that move. */
struct hb_sorted {
    unsigned char *drop, *trim; /* bitmaps of slots; drop: also the slots of entries that move */
    unsigned char *packed;      /* the entries that move */
    unsigned char *image;       /* room for a page, allocated before anything is changed */
    size_t len;
    uint32_t moved, dropped, kept; /* numbers of entries; dropped: they neither move nor stay */
    uint32_t trimmed;              /* entries that lose slack */
    uint64_t kept_bytes;           /* bytes of the entries that stay */
};

/* NULL: out of memory. The caller frees it with lladd_mem_free. */
struct hb_sorted *ll_hash__sorted_new(struct ll_hash_table *, uint32_t page_size);
/* Sorts the entries of a page: those with `bit` set in their hash move. The caller holds the page's
 * latch, so every reservation of a transaction that has changed the page is seen: a transaction
 * reserves a key before it latches the page. */
int ll_hash__sort(struct ll_hash_table *, struct lladd_view, uint64_t bit, struct hb_sorted *,
                  struct lladd_error *);

/* ---- split.c --------------------------------------------------------------------------------- */

/* Adds a bucket by a split, removes one by a merge. Does nothing if another thread holds `shape`;
 * with physical undo, a merge does nothing either. */
int ll_hash__split(struct lladd_txn *, struct ll_hash_table *, bool physical);
int ll_hash__merge(struct lladd_txn *, struct ll_hash_table *, bool physical);
/* Drops ghosts and slack without reservations from the head page of a key's bucket. Does nothing
 * with physical undo. */
int ll_hash__clear(struct lladd_txn *, struct ll_hash_table *, uint64_t hash, bool physical);
/* Makes room in a key's bucket for the change: drops ghosts and slack from the head page. Writes
 * the bucket's chain again if that gains nothing. The caller tries the change again. */
int ll_hash__make_room(struct lladd_txn *, struct ll_hash_table *, const struct hb_change *,
                       bool physical);
/* Packs the chain of a key's bucket if that makes the chain shorter. For logical undo. */
int ll_hash__shorten(struct lladd_txn *, struct ll_hash_table *, uint64_t hash);
/* Gives the held page the body of `image`, with byte-by-byte undo. */
int ll_hash__write(struct lladd_txn *, struct ll_hash_table *, struct lladd_page *held,
                   const unsigned char *image);
/* Builds the first HB_HEAD_BYTES of a bucket page's header. */
void ll_hash__head(const struct ll_hash_table *, unsigned char head[HB_HEAD_BYTES], unsigned level,
                   uint64_t bucket, unsigned flags, uint64_t next);

#endif
