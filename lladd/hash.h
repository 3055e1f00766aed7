/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_HASH_H
#define LLADD_HASH_H
/**
 * @file
 * @brief Linear hash tables (paper, section 4.1).
 *
 * A table maps byte strings to byte strings, each of one length or of any. It grows one bucket at a
 * time, h_n(x) = h(x) mod 2^n, and shrinks likewise; h is keyed with a secret of the table, so that
 * nobody can choose keys that collide. Long keys and values go to blobs.
 *
 * One layout on disk, two ways to change it, chosen when the table is opened:
 *
 *  - LLADD_HASH_LOGICAL, the default: changes are taken back by key, wherever the key is by then.
 *    Any number of transactions may be changing the table; splits and merges stay when the
 *    transaction in which they happened is rolled back.
 *  - LLADD_HASH_PHYSICAL: changes are taken back byte by byte. The stepping stone the paper
 *    describes, and the baseline of its comparison. One transaction at a time may have changed the
 *    table and not ended; a second one is LLADD_BUSY. It grows, and does not shrink.
 *
 * Threads: a handle may be used by any number of them. Lookups of different threads never wait for
 * each other. Two transactions that change one key are a fault of the caller (paper, section 2.1).
 *
 * Reading needs no lock and gives no isolation. What a call reads of one element, key and value,
 * is whole and what the table had at one moment of the call, whatever its length is, and whatever
 * others put or remove meanwhile. That moment may lie inside another transaction: then the value is
 * one that its commit, or a later step of it, has not confirmed, and that an abort takes back. Two
 * elements, or two calls, may show two moments. Locks (lladd/lock.h) are what keeps that away. A
 * value that others replace again and again while it is read from its blob is read under its page's
 * latch in the end; writers of that bucket wait so long.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_hash;

/** Of a new table. Zero means default, everywhere. */
struct lladd_hash_options {
    size_t struct_size;
    uint32_t key_size;   /**< length of every key, at most 1000 bytes; 0: any length */
    uint32_t value_size; /**< length of every value, likewise; 0: any length */
    uint64_t expected;   /**< that many elements get their buckets at once; a hint */
};
#define LLADD_HASH_OPTIONS_INIT_SIZE sizeof(struct lladd_hash_options)
#ifdef __cplusplus
#define LLADD_HASH_OPTIONS_INIT \
    lladd_hash_options \
    { \
        sizeof(struct lladd_hash_options) \
    }
#else
#define LLADD_HASH_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_hash_options) \
    }
#endif

enum {
    LLADD_HASH_LOGICAL = 0,
    LLADD_HASH_PHYSICAL = 1 /**< for handles opened with it; all open handles of a table agree */
};

/** Makes an empty table; options may be NULL. It is known by its root page, which may be kept under
 *  a name (lladd_root_set). LLADD_KEY_SIZE for sizes beyond the maximum. */
LLADD_API int lladd_hash_create(struct lladd_txn *, const struct lladd_hash_options *,
                                lladd_pageno *root);
/** Frees all its pages and blobs, in the transaction. Other calls are LLADD_DESTROYED from now on
 *  (until the transaction is rolled back, if it is). Nobody else may be using the table. */
LLADD_API int lladd_hash_destroy(struct lladd_txn *, lladd_pageno root);

/** A handle; close it before the database. LLADD_WRONG_TYPE if the page is no table's root. */
LLADD_API int lladd_hash_open(struct lladd_db *, lladd_pageno root, unsigned flags,
                              struct lladd_hash **out, struct lladd_error *);
LLADD_API void lladd_hash_close(struct lladd_hash *);
LLADD_API uint32_t lladd_hash_key_size(const struct lladd_hash *);
LLADD_API uint32_t lladd_hash_value_size(const struct lladd_hash *);

/* Keys and values of a table with fixed lengths must have them: LLADD_KEY_SIZE. Elsewhere keys may
 * be up to 2^32 - 1 bytes long and values up to LLADD_BLOB_MAX: LLADD_TOO_LARGE. A transaction of
 * another database is LLADD_OTHER_DATABASE. A call that fails has changed nothing. */

/** Puts in a key that is not there: LLADD_EXISTS if it is. */
LLADD_API int lladd_hash_insert(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len, const void *value, size_t value_len);
/** One of several elements to be inserted together. */
struct lladd_hash_element {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};
/** lladd_hash_insert of n elements in turn, with the pages of those that follow fetched from memory
 *  meanwhile. Ends at the first that cannot be inserted, with its error; *done (nullable) says how
 *  many were inserted before it. These stay. */
LLADD_API int lladd_hash_insert_many(struct lladd_txn *, struct lladd_hash *,
                                     const struct lladd_hash_element *, size_t n, size_t *done);
/** Gives a key a value, whether it has one or not. */
LLADD_API int lladd_hash_put(struct lladd_txn *, struct lladd_hash *, const void *key,
                             size_t key_len, const void *value, size_t value_len);
/** lladd_hash_put that tells whether the key had a value, which is replaced. */
LLADD_API int lladd_hash_put_tell(struct lladd_txn *, struct lladd_hash *, const void *key,
                                  size_t key_len, const void *value, size_t value_len,
                                  bool *replaced);
/** Puts in a key if it is not there: *inserted says so. If it is there, its value is copied as
 *  lladd_hash_get does, from under the same latch. */
LLADD_API int lladd_hash_insert_if_absent(struct lladd_txn *, struct lladd_hash *, const void *key,
                                          size_t key_len, const void *value, size_t value_len,
                                          bool *inserted, void *buf, size_t size, size_t *len);
/** Takes a key away: LLADD_NOT_FOUND if it is not there. The room it had stays reserved until the
 *  transaction has ended, so that taking the removal back needs none. */
LLADD_API int lladd_hash_remove(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len);

/** Looks a key up: *len gets the length of its value, `buf` as much of it as `size` allows; what is
 *  behind that in `buf`, and all of it where the call fails, may have been written to.
 *  LLADD_NOT_FOUND. */
LLADD_API int lladd_hash_get(struct lladd_hash *, const void *key, size_t key_len, void *buf,
                             size_t size, size_t *len, struct lladd_error *);
/** Without a copy: calls fn with the value's bytes while the page is latched shared. Not 0 from
 *  fn is what the call returns. fn must be short and must not call the library. A value that lives
 *  in a blob is read into memory first. */
typedef int lladd_hash_value_fn(void *ctx, struct lladd_span value);
LLADD_API int lladd_hash_look(struct lladd_hash *, const void *key, size_t key_len,
                              lladd_hash_value_fn *fn, void *ctx, struct lladd_error *);
/** One of several keys to be looked up together. */
struct lladd_hash_query {
    const void *key;
    size_t key_len;
    void *buf; /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another error */
};
/** Looks up n keys, fetching their pages from memory side by side: several times as fast as one by
 *  one where the table is larger than the processor's cache. 0 if each query's rc is 0 or
 *  LLADD_NOT_FOUND; else the first other one. */
LLADD_API int lladd_hash_get_many(struct lladd_hash *, struct lladd_hash_query *, size_t n,
                                  struct lladd_error *);
/** How many keys there are, uncommitted ones included. Reads every bucket's head. */
LLADD_API int lladd_hash_count(struct lladd_hash *, uint64_t *out, struct lladd_error *);

/** Is the record a change of an element that would be taken back by its key, and of which? The
 *  key's bytes are the record's. False also if they live in a blob. For lladd_participant.protect:
 *  what to lock is the table, and the key in it. */
LLADD_API bool lladd_hash_logged_key(const struct lladd_log_entry *, lladd_pageno *root,
                                     struct lladd_span *key);

/** A walk through all elements, in no order one could use. Every element that is there from the
 *  first call to the last comes exactly once, with one of the values it has had meanwhile, whatever
 *  others insert, put, remove, split or merge. No latch is held between calls. Zeroed is a walk
 *  that has not begun; release with lladd_hash_walk_end. */
struct lladd_hash_walk {
    uint64_t private_[4];
    unsigned char *buffer;
    size_t size;
};
/** The next element; the spans live until the walk's next call. LLADD_END behind the last. */
LLADD_API int lladd_hash_next(struct lladd_hash *, struct lladd_hash_walk *, struct lladd_span *key,
                              struct lladd_span *value, struct lladd_error *);
/** Behind an lladd_hash_next that failed: lets the walk go on behind what could not be read. What
 *  is left of a bucket with a damaged page comes next, then the bucket after it; of an element
 *  whose blob is damaged, the element after it. For programs that save what they can: how many
 *  elements are passed over, it cannot know. An error: the walk is where it was. */
LLADD_API int lladd_hash_walk_past(struct lladd_hash *, struct lladd_hash_walk *,
                                   struct lladd_error *);
LLADD_API void lladd_hash_walk_end(struct lladd_hash *, struct lladd_hash_walk *);

/** What a table consists of, by and large if others change it meanwhile. */
struct lladd_hash_stats {
    size_t struct_size;
    uint64_t elements, buckets, pages, overflow_pages, ghosts, blobs;
    uint64_t splits, merges; /**< since the database was opened */
    uint32_t longest_chain;  /**< pages */
};
/** Fills as much as out->struct_size says. Reads every bucket. */
LLADD_API int lladd_hash_stats(struct lladd_hash *, struct lladd_hash_stats *,
                               struct lladd_error *);
/** Calls fn for each page the table consists of, blobs included; not 0 stops and is what it
 *  returns. Nobody may be changing the table. */
LLADD_API int lladd_hash_pages(struct lladd_hash *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                               struct lladd_error *);
/** Is everything in order: every key in its bucket and once, chains, counts, blobs?
 *  LLADD_CORRUPT_PAGE with what and where, if not. Nobody may be changing it. */
LLADD_API int lladd_hash_check(struct lladd_hash *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
