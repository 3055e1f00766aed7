/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_HASH_H
#define LLADD_HASH_H
/**
 * @file
 * @brief Linear hash tables (LLADD paper, section 4.1).
 *
 * A table maps byte strings to byte strings. All keys of a table have one fixed length, or keys
 * have any length; the same holds for the values. A table grows and shrinks by one bucket at a
 * time, with h_n(x) = h(x) mod 2^n. The hash function h is keyed with a random secret of the table,
 * so that an attacker cannot choose keys that collide. Long keys and values go to blobs.
 *
 * A flag of lladd_hash_open chooses how changes are undone; the flag does not change the layout on
 * disk:
 *
 *  - LLADD_HASH_LOGICAL, the default: an undo searches the table for the key, and changes the
 *    element on the page on which the search finds it. Any number of transactions may change the
 *    table at a time. Splits and merges stay when the transaction in which they happened is rolled
 *    back.
 *  - LLADD_HASH_PHYSICAL: changes are undone byte by byte. This is the intermediate design of the
 *    LLADD paper, and the baseline of its comparison. Only one active transaction may have changed
 *    the table; a second one gets LLADD_BUSY. The table grows and does not shrink.
 *
 * Threads: any number may use a handle. Lookups latch pages shared, so they do not exclude each
 * other. A transaction must not change a key that another active transaction has changed (LLADD
 * paper, section 2.1).
 *
 * Reading needs no lock and gives no isolation. A call reads the key and the value of one element
 * as they are at one moment during the call, whatever their length and whatever other transactions
 * do meanwhile. At that moment the value may be uncommitted: the transaction that has written the
 * value may still replace it, or abort. Two elements, or the results of two calls, may be from
 * different moments. With locks (lladd/lock.h) a reader sees no uncommitted values, and the
 * elements that it has read do not change before its transaction ends. If other transactions keep
 * replacing a value while a reader reads it from its blob, after some attempts the reader holds the
 * latch of the element's page while it reads the blob; writers of that page wait meanwhile.
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
    uint32_t value_size; /**< length of every value, at most 1000 bytes; 0: any length */
    uint64_t expected;   /**< a hint: lladd_hash_create makes the buckets for this many elements */
};
#define LLADD_HASH_OPTIONS_INIT_SIZE sizeof(struct lladd_hash_options)
#define LLADD_HASH_OPTIONS_INIT LLADD_SIZED_INIT(lladd_hash_options)

enum {
    LLADD_HASH_LOGICAL = 0,
    LLADD_HASH_PHYSICAL = 1 /**< all open handles of a table must have the same mode */
};

/** Makes an empty table; options may be NULL. A table is identified by its root page; the page's
 *  number may be stored under a name (lladd_root_set). LLADD_KEY_SIZE for sizes beyond the
 *  maximum. */
LLADD_API int lladd_hash_create(struct lladd_txn *, const struct lladd_hash_options *,
                                lladd_pageno *root);
/** Frees all pages and blobs of the table, in the transaction. Later calls on the table return
 *  LLADD_DESTROYED; if the transaction is rolled back, the table exists again. No other thread may
 *  use the table. LLADD_BUSY while another transaction that has changed the table is open or in
 *  doubt, because the rollback of that transaction needs the table; LLADD_BUSY also while
 *  lladd_losers_left is not 0. Reads every bucket. lladd_hash_destroy_some destroys a large table
 *  in parts; lladd_hash_destroy also destroys what lladd_hash_destroy_some has left. */
LLADD_API int lladd_hash_destroy(struct lladd_txn *, lladd_pageno root);
/** Frees about `pages` pages of the table (1 or more; else LLADD_BAD_ARGUMENT), in the transaction.
 *  A program calls it in one transaction after the other, until *left is 0; then all of the table
 *  is freed. *left gets the number of bucket pages that are left, for a progress report. The call
 *  needs time, log and memory for `pages` pages. It may need more if one bucket, with its overflow
 *  pages and one page of each of its blobs, has more than `pages` pages. A blob with more pages
 *  than the call may free is truncated from its end, over several calls. From the first call on,
 *  all other calls on the table, including lladd_hash_open, return LLADD_DESTROYED; the exceptions
 *  are lladd_hash_destroy and lladd_hash_destroy_pages. After the first commit the table cannot be
 *  used again, not even after a crash: the program must destroy the rest, with this call or with
 *  lladd_hash_destroy. Keep the name that leads to the root page until the table is gone. If a call
 *  is rolled back, the pages that it has freed are in use again. No other thread may use the table.
 *  LLADD_BUSY as for lladd_hash_destroy, and while another transaction that has called
 *  lladd_hash_destroy_some for the table is open or in doubt. LLADD_DESTROYED: nothing is left. */
LLADD_API int lladd_hash_destroy_some(struct lladd_txn *, lladd_pageno root, uint64_t pages,
                                      uint64_t *left);
/** Calls `fn` for each page that lladd_hash_destroy_some has left, including blobs and the root
 *  page; if `fn` does not return 0, stops and returns that value. No thread may destroy the table
 *  meanwhile. LLADD_DESTROYED if no page is left. */
LLADD_API int lladd_hash_destroy_pages(struct lladd_db *, lladd_pageno root,
                                       int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                       struct lladd_error *);

/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is not a table's
 *  root. */
LLADD_API int lladd_hash_open(struct lladd_db *, lladd_pageno root, unsigned flags,
                              struct lladd_hash **out, struct lladd_error *);
/** lladd_hash_create and lladd_hash_open in one: *root is the root page, *out a handle. If the
 *  transaction is rolled back, calls with the handle return LLADD_DESTROYED; the handle must still
 *  be closed. A call that fails makes neither table nor handle. */
LLADD_API int lladd_hash_create_open(struct lladd_txn *, const struct lladd_hash_options *,
                                     unsigned flags, lladd_pageno *root, struct lladd_hash **out);
/** Closes the handle; NULL does nothing. No other thread may be using it. */
LLADD_API void lladd_hash_close(struct lladd_hash *);
/** Returns the length of every key in bytes; 0: keys have any length. */
LLADD_API uint32_t lladd_hash_key_size(const struct lladd_hash *);
/** Returns the length of every value in bytes; 0: values have any length. */
LLADD_API uint32_t lladd_hash_value_size(const struct lladd_hash *);

/* Errors of the calls below. LLADD_KEY_SIZE: a key or value does not have the table's fixed length.
 * LLADD_TOO_LARGE: in a table without fixed lengths, a key longer than 2^32 - 1 bytes or a value
 * longer than LLADD_BLOB_MAX. LLADD_OTHER_DATABASE: the transaction is of another database. A call
 * that fails has changed nothing. */

/** Inserts a new key; LLADD_EXISTS if the table has the key. */
LLADD_API int lladd_hash_insert(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len, const void *value, size_t value_len);
/** One of several elements to be inserted together. */
struct lladd_hash_element {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};
/** Calls lladd_hash_insert for n elements in turn. In a table with fixed lengths the call meanwhile
 *  prefetches the pages of later elements into the processor's cache. Stops at the first element
 *  that cannot be inserted, and returns its error. *done (nullable) gets the number of elements
 *  inserted before that element; these elements stay inserted. */
LLADD_API int lladd_hash_insert_many(struct lladd_txn *, struct lladd_hash *,
                                     const struct lladd_hash_element *, size_t n, size_t *done);
/** Sets the value of a key; inserts the key if the table does not have it. */
LLADD_API int lladd_hash_put(struct lladd_txn *, struct lladd_hash *, const void *key,
                             size_t key_len, const void *value, size_t value_len);
/** Does the same as lladd_hash_put. *replaced gets true if the key had a value before. */
LLADD_API int lladd_hash_put_report(struct lladd_txn *, struct lladd_hash *, const void *key,
                                    size_t key_len, const void *value, size_t value_len,
                                    bool *replaced);
/** Inserts a key if the table does not have it, and sets *inserted. Otherwise copies the key's
 *  value as lladd_hash_get does. A value that is not in a blob is copied under the latch under
 *  which the key was found. */
LLADD_API int lladd_hash_insert_if_absent(struct lladd_txn *, struct lladd_hash *, const void *key,
                                          size_t key_len, const void *value, size_t value_len,
                                          bool *inserted, void *buf, size_t size, size_t *len);
/** Removes a key; LLADD_NOT_FOUND if the table does not have it. The key's space stays reserved
 *  until the transaction has ended, so that undoing the removal needs no new space. */
LLADD_API int lladd_hash_delete(struct lladd_txn *, struct lladd_hash *, const void *key,
                                size_t key_len);

/** Looks a key up: *len (nullable) gets the length of the value, `buf` as much of the value as
 *  `size` allows. The call may overwrite bytes of `buf` after the value, and any byte of `buf` if
 *  it returns an error. LLADD_NOT_FOUND if the table does not have the key. */
LLADD_API int lladd_hash_get(struct lladd_hash *, const void *key, size_t key_len, void *buf,
                             size_t size, size_t *len, struct lladd_error *);
/** Receives the bytes of a value, which are valid during the call. The function must be short and
 *  must not call the library. */
typedef int lladd_hash_value_fn(void *ctx, struct lladd_span value);
/** Looks a key up without a copy: calls `fn` with the value's bytes while the page is latched
 *  shared, and returns the result of `fn`. A value in a blob is read into memory first, and `fn` is
 *  called without the latch. */
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
/** Looks up n keys, and prefetches their pages into the processor's cache in parallel: several
 *  times as fast as n calls of lladd_hash_get if the table is larger than the processor's cache.
 *  Returns 0 if each query's rc is 0 or LLADD_NOT_FOUND; otherwise the first other rc. */
LLADD_API int lladd_hash_get_many(struct lladd_hash *, struct lladd_hash_query *, size_t n,
                                  struct lladd_error *);
/** Gets the number of keys, including uncommitted insertions. Reads the first page of every
 *  bucket. */
LLADD_API int lladd_hash_count(struct lladd_hash *, uint64_t *out, struct lladd_error *);

/** Returns true, the table's root page and the key if the log record describes a change that is
 *  undone by key; the key's bytes belong to the record. Returns false for any other record, and if
 *  the key is in a blob. Use it in lladd_participant.protect: the callback then locks the table and
 *  the key. */
LLADD_API bool lladd_hash_logged_key(const struct lladd_log_entry *, lladd_pageno *root,
                                     struct lladd_span *key);

/** A walk through all elements, in no useful order. Every element that exists from the first call
 *  to the last is returned exactly once, with one of the values that it has had between these two
 *  calls, whatever other threads do. No latch is held between calls. Zero the struct before the
 *  first call; release it with lladd_hash_cursor_close. */
struct lladd_hash_cursor {
    uint64_t private_[4];
    unsigned char *buffer;
    size_t size;
};
/** Gets the next element; the spans live until the walk's next call. LLADD_END after the last
 *  element. */
LLADD_API int lladd_hash_cursor_next(struct lladd_hash *, struct lladd_hash_cursor *,
                                     struct lladd_span *key, struct lladd_span *value,
                                     struct lladd_error *);
/** After lladd_hash_cursor_next has returned an error other than LLADD_END: moves the walk past the
 *  page or blob that could not be read. After a damaged page the walk returns the elements on the
 *  bucket's pages before that page, and goes on with another bucket; the rest of the bucket is
 *  skipped. After a damaged blob the walk goes on with the next element. Use it in programs that
 *  salvage data; the number of skipped elements is unknown. If the call returns an error, the walk
 *  has not moved. */
LLADD_API int lladd_hash_cursor_skip(struct lladd_hash *, struct lladd_hash_cursor *,
                                     struct lladd_error *);
/** Ends the walk and frees its memory. Needed after each walk, also after an error. */
LLADD_API void lladd_hash_cursor_close(struct lladd_hash *, struct lladd_hash_cursor *);

/** Sizes and counts of a table; they are approximate if other threads change it meanwhile. */
struct lladd_hash_stats {
    size_t struct_size;
    uint64_t elements, buckets, pages, overflow_pages, ghosts, blobs;
    uint64_t splits, merges; /**< since the database was opened */
    uint32_t longest_chain;  /**< the maximum number of pages of a bucket */
};
/** Fills as much as out->struct_size says. Reads every bucket. */
LLADD_API int lladd_hash_stats_get(struct lladd_hash *, struct lladd_hash_stats *,
                                   struct lladd_error *);
/** Calls `fn` for each page of the table, including blobs; if `fn` does not return 0, stops and
 *  returns that value. No thread may be changing the table. */
LLADD_API int lladd_hash_pages(struct lladd_hash *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                               struct lladd_error *);
/** Checks that every key is in its bucket and exists once, and that page chains, counts and blobs
 *  are right. LLADD_CORRUPT_PAGE: the message says what is wrong and where. No thread may change
 *  the table meanwhile. */
LLADD_API int lladd_hash_check(struct lladd_hash *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
