/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_HASH_H
#define LLADD_HASH_H
/**
 * @file
 * @brief Linear hash tables (paper, section 4.1).
 *
 * A table maps byte strings to byte strings; keys and values have a fixed length or any length. It
 * grows one bucket at a time, h_n(x) = h(x) mod 2^n, and shrinks likewise. h is keyed with a secret
 * of the table, so that an attacker cannot choose keys that collide. Long keys and values go to
 * blobs.
 *
 * There is one layout on disk and two ways to undo a change, chosen when the table is opened:
 *
 *  - LLADD_HASH_LOGICAL, the default: changes are undone by key, wherever the key is by then. Any
 *    number of transactions may change the table; splits and merges stay when the transaction in
 *    which they happened is rolled back.
 *  - LLADD_HASH_PHYSICAL: changes are undone byte by byte. It is the intermediate design that the
 *    paper describes, and the baseline of its comparison. Only one active transaction may have
 *    changed the table; a second one gets LLADD_BUSY. The table grows and does not shrink.
 *
 * Threads: any number may use a handle. Lookups of different threads never wait for each other. Two
 * transactions must not change the same key (paper, section 2.1).
 *
 * Reading needs no lock and gives no isolation. The key and value that a call reads of one element
 * are whole, and are those of one moment during the call, whatever their length is and whatever
 * other transactions put or remove meanwhile. That moment may be inside another transaction: then
 * the value is uncommitted, a later step may replace it and an abort undoes it. Two elements, or
 * two calls, may show two moments. Locks (lladd/lock.h) prevent that. If other transactions keep
 * replacing a value while it is read from its blob, the reader finally reads it under the page's
 * latch; writers of that bucket wait until it has done so.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_log_entry;
struct lladd_hash;

/** Options of a new table. Zero means the default, for every member. */
struct lladd_hash_options {
    size_t struct_size;
    uint32_t key_size;   /**< length of every key, at most 1000 bytes; 0: any length */
    uint32_t value_size; /**< length of every value, likewise; 0: any length */
    uint64_t expected;   /**< the buckets for this many elements are made at once; a hint */
};
#define LLADD_HASH_OPTIONS_INIT_SIZE sizeof(struct lladd_hash_options)
#define LLADD_HASH_OPTIONS_INIT LLADD_SIZED_INIT(lladd_hash_options)

enum {
    LLADD_HASH_LOGICAL = 0,
    LLADD_HASH_PHYSICAL = 1 /**< for handles opened with it; all open handles of a table agree */
};

/** Makes an empty table; options may be NULL. It is identified by its root page, which may be
 *  stored under a name (lladd_root_set). LLADD_KEY_SIZE for sizes beyond the maximum. */
LLADD_API int lladd_hash_create(struct lladd_txn *, const struct lladd_hash_options *,
                                lladd_pageno *root);
/** Frees all its pages and blobs, in the transaction. From then on other calls return
 *  LLADD_DESTROYED (until the transaction is rolled back, if it is). No other thread may use the
 *  table. LLADD_BUSY while another transaction that is open or in doubt has changed the table: its
 *  rollback needs it; also while lladd_losers_left is not 0. Reads every bucket;
 *  lladd_hash_destroy_some destroys a large table in parts, and this call can finish what it
 *  began. */
LLADD_API int lladd_hash_destroy(struct lladd_txn *, lladd_pageno root);
/** Frees about `pages` of its pages (1 or more; else LLADD_BAD_ARGUMENT), in the transaction. A
 *  program calls it in one transaction after the other, until *left is 0 and the table is gone.
 *  Time, log and memory are those of that many pages, or of one bucket with its overflow pages and
 *  one page of each of its blobs if that is more: a longer blob is truncated from its end, step by
 *  step. *left is the number of pages for buckets that are left, for showing progress.
 *  From the first call on other calls return LLADD_DESTROYED, lladd_hash_open included. What has
 *  committed is durable like any change: after a crash the only thing that can be done with the
 *  table is to destroy the rest, by this call or by lladd_hash_destroy. Keep the name that leads to
 *  the root page until the table is gone. A call that is rolled back has freed nothing. No other
 *  thread may use the table. LLADD_BUSY as for lladd_hash_destroy, and while another transaction
 *  that has called this is open or in doubt.
 *  LLADD_DESTROYED: nothing is left. */
LLADD_API int lladd_hash_destroy_some(struct lladd_txn *, lladd_pageno root, uint64_t pages,
                                      uint64_t *left);
/** Calls fn for each page that lladd_hash_destroy_some has left, blobs and root page included; if
 *  fn does not return 0, stops and returns that value. No thread may destroy it meanwhile.
 *  LLADD_DESTROYED if no page is left. */
LLADD_API int lladd_hash_destroy_pages(struct lladd_db *, lladd_pageno root,
                                       int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                       struct lladd_error *);

/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is no table's
 *  root. */
LLADD_API int lladd_hash_open(struct lladd_db *, lladd_pageno root, unsigned flags,
                              struct lladd_hash **out, struct lladd_error *);
/** lladd_hash_create and lladd_hash_open in one: *root is the root page, *out a handle. If the
 *  transaction is rolled back, calls with the handle return LLADD_DESTROYED; it must be closed
 *  nevertheless. After an error there is neither table nor handle. */
LLADD_API int lladd_hash_create_open(struct lladd_txn *, const struct lladd_hash_options *,
                                     unsigned flags, lladd_pageno *root, struct lladd_hash **out);
/** Closes the handle; NULL does nothing. No other thread may be using it. */
LLADD_API void lladd_hash_close(struct lladd_hash *);
/** Bytes of every key; 0: keys of any length. */
LLADD_API uint32_t lladd_hash_key_size(const struct lladd_hash *);
/** Bytes of every value; 0: values of any length. */
LLADD_API uint32_t lladd_hash_value_size(const struct lladd_hash *);

/* In a table with fixed lengths, keys and values must have them: LLADD_KEY_SIZE. Otherwise keys may
 * be up to 2^32 - 1 bytes long and values up to LLADD_BLOB_MAX: LLADD_TOO_LARGE. A transaction of
 * another database is LLADD_OTHER_DATABASE. A call that fails has changed nothing. */

/** Inserts a new key; LLADD_EXISTS if it is there already. */
LLADD_API int lladd_hash_insert(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len, const void *value, size_t value_len);
/** One of several elements to be inserted together. */
struct lladd_hash_element {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};
/** lladd_hash_insert of n elements in turn; it prefetches the pages of later elements from memory
 *  meanwhile. Stops at the first element that cannot be inserted, with its error; *done (nullable)
 *  is the number inserted before it. These stay. */
LLADD_API int lladd_hash_insert_many(struct lladd_txn *, struct lladd_hash *,
                                     const struct lladd_hash_element *, size_t n, size_t *done);
/** Sets the value of a key, which may or may not be there. */
LLADD_API int lladd_hash_put(struct lladd_txn *, struct lladd_hash *, const void *key,
                             size_t key_len, const void *value, size_t value_len);
/** As lladd_hash_put; *replaced tells whether the key had a value. */
LLADD_API int lladd_hash_put_report(struct lladd_txn *, struct lladd_hash *, const void *key,
                                    size_t key_len, const void *value, size_t value_len,
                                    bool *replaced);
/** Inserts a key if it is not there; *inserted tells. If it is there, its value is copied as by
 *  lladd_hash_get, under the same latch. */
LLADD_API int lladd_hash_insert_if_absent(struct lladd_txn *, struct lladd_hash *, const void *key,
                                          size_t key_len, const void *value, size_t value_len,
                                          bool *inserted, void *buf, size_t size, size_t *len);
/** Removes a key; LLADD_NOT_FOUND if it is not there. Its space stays reserved until the
 *  transaction has ended, so that undoing the removal needs none. */
LLADD_API int lladd_hash_delete(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len);

/** Looks a key up: *len gets the length of its value, `buf` as much of it as `size` allows. Bytes
 *  of `buf` after the value, and all of it if the call fails, may have been overwritten.
 *  LLADD_NOT_FOUND. */
LLADD_API int lladd_hash_get(struct lladd_hash *, const void *key, size_t key_len, void *buf,
                             size_t size, size_t *len, struct lladd_error *);
/** Gets a value; must be short and must not call the library. The bytes are valid during the
 *  call. */
typedef int lladd_hash_value_fn(void *ctx, struct lladd_span value);
/** Looks up without a copy: calls fn with the value's bytes while the page is latched shared, and
 *  returns what fn returns, if it is not 0. A value in a blob is read into memory first. */
LLADD_API int lladd_hash_get_in_place(struct lladd_hash *, const void *key, size_t key_len,
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
/** Looks up n keys and fetches their pages from memory in parallel: several times as fast as single
 *  lookups if the table is larger than the processor's cache. 0 if each query's rc is 0 or
 *  LLADD_NOT_FOUND; otherwise the first other one. */
LLADD_API int lladd_hash_get_many(struct lladd_hash *, struct lladd_hash_query *, size_t n,
                                  struct lladd_error *);
/** The number of keys, uncommitted ones included. Reads the first page of every bucket. */
LLADD_API int lladd_hash_count(struct lladd_hash *, uint64_t *out, struct lladd_error *);

/** Is the record a change of an element that would be undone by key, and of which element? The
 *  key's bytes are the record's. False also if the key is in a blob. For lladd_participant.protect:
 *  lock the table, and the key in it. */
LLADD_API bool lladd_hash_logged_key(const struct lladd_log_entry *, lladd_pageno *root,
                                     struct lladd_span *key);

/** A walk through all elements, in no useful order. Every element that is there from the first call
 *  to the last comes exactly once, with one of the values it has had meanwhile, whatever other
 *  threads insert, put, remove, split or merge. No latch is held between calls. A zeroed struct is
 *  a walk that has not begun; release it with lladd_hash_cursor_close. */
struct lladd_hash_cursor {
    uint64_t private_[4];
    unsigned char *buffer;
    size_t size;
};
/** The next element; the spans live until the walk's next call. LLADD_END after the last. */
LLADD_API int lladd_hash_cursor_next(struct lladd_hash *, struct lladd_hash_cursor *,
                                     struct lladd_span *key, struct lladd_span *value,
                                     struct lladd_error *);
/** After lladd_hash_cursor_next has failed: moves the walk past what could not be read. After a
 *  damaged page the rest of its bucket comes next, then the following bucket; after a damaged blob,
 *  the next element. For programs that salvage data; it cannot know how many elements it skips.
 *  After an error the walk is where it was. */
LLADD_API int lladd_hash_cursor_skip(struct lladd_hash *, struct lladd_hash_cursor *,
                                     struct lladd_error *);
/** Ends the walk and frees what it holds. Needed after each walk, also after an error. */
LLADD_API void lladd_hash_cursor_close(struct lladd_hash *, struct lladd_hash_cursor *);

/** What a table consists of; approximate if other threads change it meanwhile. */
struct lladd_hash_stats {
    size_t struct_size;
    uint64_t elements, buckets, pages, overflow_pages, ghosts, blobs;
    uint64_t splits, merges; /**< since the database was opened */
    uint32_t longest_chain;  /**< pages */
};
/** Fills as much as out->struct_size says. Reads every bucket. */
LLADD_API int lladd_hash_stats_get(struct lladd_hash *, struct lladd_hash_stats *,
                                   struct lladd_error *);
/** Calls fn for each page of the table, blobs included; if fn does not return 0, stops and returns
 *  that value. No thread may be changing the table. */
LLADD_API int lladd_hash_pages(struct lladd_hash *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                               struct lladd_error *);
/** Checks the table: every key in its bucket and only once, chains, counts, blobs.
 *  LLADD_CORRUPT_PAGE, with what is wrong and where. No thread may be changing it. */
LLADD_API int lladd_hash_check(struct lladd_hash *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
