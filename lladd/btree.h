/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BTREE_H
#define LLADD_BTREE_H
/**
 * @file
 * @brief B+trees: ordered tables with updates in place.
 *
 * A tree maps byte strings to byte strings, in the order of the keys' bytes. lladd/keys.h encodes
 * numbers, strings and tuples such that this order is the order of the values. Keys have at most
 * 1000 bytes (993 with pages of 4 KiB); long values go to blobs.
 *
 * Changes are undone by key: an undo searches the tree for the key, and changes the row in the leaf
 * in which the search finds it. Any number of transactions may change the tree at a time. Splits
 * and merges stay when the transaction in which they happened is rolled back.
 *
 * Leaves that have lost most of their rows are merged by later removals and splits. The pages of
 * the merged leaves are used for later splits of the same tree; the tree gives no page back before
 * it is destroyed.
 *
 * Threads: any number may use a handle; a cursor belongs to one thread. Inner nodes are read
 * without a latch. A writer latches one leaf to change a row. A split or a merge latches at most
 * three pages at a time. A transaction must not change a key that another active transaction has
 * changed (LLADD paper, section 2.1).
 *
 * Reading needs no lock and gives no isolation. A call reads the value of one row as it is at one
 * moment during the call; the value may be uncommitted. With locks (lladd/lock.h) a reader sees no
 * uncommitted values, and the rows that it has read do not change before its transaction ends.
 *
 * A tree can be used when the transaction that has created it has committed. Before that, calls
 * return LLADD_BUSY.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_log_entry;
struct lladd_btree;
struct lladd_btree_cursor;

/** Options of a new tree. Zero means the default, for every member. */
struct lladd_btree_options {
    size_t struct_size;
    uint32_t key_size;   /**< length of every key, at most lladd_btree_key_max; 0: any length */
    uint32_t value_size; /**< length of every value, at most 1000 bytes; 0: any length */
};
#define LLADD_BTREE_OPTIONS_INIT_SIZE sizeof(struct lladd_btree_options)
#define LLADD_BTREE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_btree_options)

/** Returns the maximum length of a key: 1000 bytes; 993 bytes with pages of 4 KiB. */
LLADD_API uint32_t lladd_btree_key_max(const struct lladd_db *);

/** Makes an empty tree; options may be NULL. A tree is identified by its root page; the page's
 *  number may be stored under a name (lladd_root_set). LLADD_KEY_SIZE for sizes beyond the
 *  maximum. */
LLADD_API int lladd_btree_create(struct lladd_txn *, const struct lladd_btree_options *,
                                 lladd_pageno *root);
/** Frees all pages and blobs of the tree, in the transaction. Later calls on the tree return
 *  LLADD_DESTROYED; if the transaction is rolled back, the tree exists again. No other thread may
 *  use the tree. LLADD_BUSY while another transaction that has changed the tree is open or in
 *  doubt, because the rollback of that transaction needs the tree; LLADD_BUSY also while
 *  lladd_losers_left is not 0. Reads every node. */
LLADD_API int lladd_btree_destroy(struct lladd_txn *, lladd_pageno root);

/** Opens a handle; close it before the database. LLADD_WRONG_TYPE if the page is not a tree's root;
 *  LLADD_BUSY if the transaction that creates the tree has not committed. */
LLADD_API int lladd_btree_open(struct lladd_db *, lladd_pageno root, struct lladd_btree **out,
                               struct lladd_error *);
/** Makes a tree as lladd_btree_create does, and a handle that can be used when the transaction has
 *  committed. Until then calls with the handle return LLADD_BUSY. If the transaction is rolled
 *  back, they return LLADD_DESTROYED; the handle must still be closed. A call that fails makes
 *  neither tree nor handle. */
LLADD_API int lladd_btree_create_open(struct lladd_txn *, const struct lladd_btree_options *,
                                      lladd_pageno *root, struct lladd_btree **out);
/** Closes the handle; NULL does nothing. No other thread may be using it, and its cursors must be
 *  closed. */
LLADD_API void lladd_btree_close(struct lladd_btree *);
/** Returns the length of every key in bytes; 0: keys have any length. */
LLADD_API uint32_t lladd_btree_key_size(const struct lladd_btree *);
/** Returns the length of every value in bytes; 0: values have any length. */
LLADD_API uint32_t lladd_btree_value_size(const struct lladd_btree *);

/* ---- loading a new tree ---------------------------------------------------------------------- */

struct lladd_btree_loader;

/** Begins the load of a new tree; options may be NULL. The caller adds the rows in ascending order
 *  of the keys, and the loader fills each leaf completely. The loader does not log rows: it writes
 *  them to extents that it allocates in the transaction. Values in blobs are written as by
 *  lladd_blob_create. An existing tree cannot be loaded, even if it is empty: a rollback of the
 *  load frees the loaded pages, so no reader may see these pages before the commit. Use
 *  lladd_btree_insert_many for an existing tree. Only the thread that uses the transaction may use
 *  the loader. The errors of the loader's calls are stored in the transaction. */
LLADD_API int lladd_btree_load_begin(struct lladd_txn *, const struct lladd_btree_options *,
                                     struct lladd_btree_loader **out);
/** Adds a row. LLADD_BAD_ARGUMENT if its key is not greater than the key of the previous row; after
 *  this or another misuse error nothing has changed. After any other error call
 *  lladd_btree_load_discard. LLADD_BAD_STATE if the transaction has ended, or has been rolled back
 *  to a savepoint that it made before an earlier call on the loader. */
LLADD_API int lladd_btree_load_add(struct lladd_btree_loader *, const void *key, size_t key_len,
                                   const void *value, size_t value_len);
/** Writes the remaining pages, makes all pages durable, and makes the tree. Like any new tree, this
 *  tree can be used when the transaction has committed; a rollback frees all of its pages. If the
 *  call returns 0, it has released the loader. If the transaction commits before this call or
 *  lladd_btree_load_discard, the loader's pages stay allocated and belong to no structure. */
LLADD_API int lladd_btree_load_finish(struct lladd_btree_loader *, lladd_pageno *root);
/** Releases the loader, and rolls the transaction back to its state at the call of
 *  lladd_btree_load_begin. This undoes all that the transaction has done since that call. If the
 *  transaction has ended, only releases the loader. LLADD_DEAD_SAVEPOINT if the transaction has
 *  released a savepoint from before the load: the loader is released, and only a rollback of the
 *  whole transaction undoes the load. NULL does nothing. */
LLADD_API int lladd_btree_load_discard(struct lladd_btree_loader *);

/* ---- rows ------------------------------------------------------------------------------------ */

/* Errors of the calls below. LLADD_KEY_SIZE: a key or value does not have the tree's fixed length.
 * LLADD_TOO_LARGE: a key longer than lladd_btree_key_max, or a value longer than LLADD_BLOB_MAX.
 * LLADD_OTHER_DATABASE: the transaction is of another database. A call that fails has changed no
 * row. */

/** Inserts a new row; LLADD_EXISTS if the tree has the key. */
LLADD_API int lladd_btree_insert(struct lladd_txn *, struct lladd_btree *, const void *key,
                                 size_t key_len, const void *value, size_t value_len);
/** One of several rows. */
struct lladd_btree_row {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};
/** Calls lladd_btree_insert for n rows in turn; faster if the keys ascend, because short rows that
 *  belong in one leaf are inserted and logged together. Stops at the first row that cannot be
 *  inserted, and returns its error. *done (nullable) gets the number of rows inserted before that
 *  row; these rows stay inserted. */
LLADD_API int lladd_btree_insert_many(struct lladd_txn *, struct lladd_btree *,
                                      const struct lladd_btree_row *, size_t n, size_t *done);
/** Sets the value of a key; inserts the row if the tree does not have the key. */
LLADD_API int lladd_btree_put(struct lladd_txn *, struct lladd_btree *, const void *key,
                              size_t key_len, const void *value, size_t value_len);
/** Does the same as lladd_btree_put. *replaced gets true if the key had a value before. */
LLADD_API int lladd_btree_put_report(struct lladd_txn *, struct lladd_btree *, const void *key,
                                     size_t key_len, const void *value, size_t value_len,
                                     bool *replaced);
/** Removes a row; LLADD_NOT_FOUND if the tree does not have the key. The row's space stays reserved
 *  until the transaction has ended, so that undoing the removal needs no new space. */
LLADD_API int lladd_btree_delete(struct lladd_txn *, struct lladd_btree *, const void *key,
                                 size_t key_len);

/** Looks a key up: *len (nullable) gets the length of the value, `buf` as much of the value as
 *  `size` allows. The call may overwrite any byte of `buf` if it returns an error. LLADD_NOT_FOUND
 *  if the tree does not have the key. */
LLADD_API int lladd_btree_get(struct lladd_btree *, const void *key, size_t key_len, void *buf,
                              size_t size, size_t *len, struct lladd_error *);
/** One of several keys to be looked up together. */
struct lladd_btree_query {
    const void *key;
    size_t key_len;
    void *buf; /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another error */
};
/** Looks up n keys. Returns 0 if each query's rc is 0 or LLADD_NOT_FOUND; otherwise the first other
 *  rc. */
LLADD_API int lladd_btree_get_many(struct lladd_btree *, struct lladd_btree_query *, size_t n,
                                   struct lladd_error *);

/** Finds a row near `key`. If `after` is true: the first row with a key greater than `key`. If
 *  `after` is false: the first row with a key not less than `key`. *len gets the length of the
 *  row's key, `buf` as much of that key as `size` allows. LLADD_END: no such row.
 *
 *  This call finds the key to lock against phantoms. A transaction that reads a range locks the
 *  keys that it reads, and the key that follows the range. Each insertion and each deletion locks
 *  its own key, and the key that follows it. Then no other transaction inserts into the range or
 *  deletes from it. A deletion must lock the following key, too: a reader does not find the deleted
 *  key, so it does not wait for that key's lock, but the deletion may be rolled back. */
LLADD_API int lladd_btree_next_key(struct lladd_btree *, const void *key, size_t key_len,
                                   bool after, void *buf, size_t size, size_t *len,
                                   struct lladd_error *);

/** Returns true, the tree's root page and the key if the log record describes a change that is
 *  undone by key; the key's bytes belong to the record. Returns false for any other record, and for
 *  a record with several keys (lladd_btree_insert_many). Use it in lladd_participant.protect: the
 *  callback then locks the tree and the key. */
LLADD_API bool lladd_btree_logged_key(const struct lladd_log_entry *, lladd_pageno *root,
                                      struct lladd_span *key);
/** Does the same as lladd_btree_logged_key, for a record with any number of keys: returns the key
 *  number `which`, counted from 0. Returns false if the record has no such key. A callback for
 *  lladd_participant.protect must lock all keys of the record. */
LLADD_API bool lladd_btree_logged_key_at(const struct lladd_log_entry *, size_t which,
                                         lladd_pageno *root, struct lladd_span *key);

/* ---- cursors --------------------------------------------------------------------------------- */

/** Opens a cursor, before the first row. A cursor moves through the rows in order, in both
 *  directions. It holds no latch between calls. Each move starts from the key of the present row,
 *  and finds the next row in the tree as the tree is at that moment. So a row that exists during
 *  the whole walk is met exactly once. A row that is inserted or removed during the walk may be met
 *  or not. The cursor sees the changes of all transactions, also uncommitted changes. */
LLADD_API int lladd_btree_cursor_open(struct lladd_btree *, struct lladd_btree_cursor **out,
                                      struct lladd_error *);
/** Closes the cursor; NULL does nothing. */
LLADD_API void lladd_btree_cursor_close(struct lladd_btree_cursor *);
/** From now on the cursor only meets keys k with low <= k < high; NULL: no bound. LLADD_BAD_STATE
 *  after the first move. LLADD_TOO_LARGE: a bound is longer than lladd_btree_key_max. After an
 *  error the cursor has the bounds that it had before. */
LLADD_API int lladd_btree_cursor_bounds(struct lladd_btree_cursor *, const void *low,
                                        size_t low_len, const void *high, size_t high_len,
                                        struct lladd_error *);
/* Each of the next six calls returns LLADD_END if there is no such row. After a move forward that
 * has found no row, the cursor is after the last row; after such a move backward, it is before the
 * first row. From there the cursor can be moved back. After another error the cursor is at no row,
 * as before its first move. */

/** Moves to the first row. */
LLADD_API int lladd_btree_cursor_first(struct lladd_btree_cursor *, struct lladd_error *);
/** Moves to the last row. */
LLADD_API int lladd_btree_cursor_last(struct lladd_btree_cursor *, struct lladd_error *);
/** Moves to the row of the key, or to the first row after the key. */
LLADD_API int lladd_btree_cursor_seek(struct lladd_btree_cursor *, const void *key, size_t key_len,
                                      struct lladd_error *);
/** Moves to the row of the key, or to the last row before the key. */
LLADD_API int lladd_btree_cursor_seek_for_prev(struct lladd_btree_cursor *, const void *key,
                                               size_t key_len, struct lladd_error *);
/** Moves to the next row; before the first move: to the first row. */
LLADD_API int lladd_btree_cursor_next(struct lladd_btree_cursor *, struct lladd_error *);
/** Moves to the previous row; before the first move: to the last row. */
LLADD_API int lladd_btree_cursor_prev(struct lladd_btree_cursor *, struct lladd_error *);
/** Gets the row at which the cursor is; the spans live until the cursor's next call. `value` may be
 *  NULL. The value is the one that the row had at the cursor's last move. But a value in a blob is
 *  read now; LLADD_NOT_FOUND then means that the row has been removed since the move.
 *  LLADD_BAD_STATE if the cursor is at no row. */
LLADD_API int lladd_btree_cursor_row(struct lladd_btree_cursor *, struct lladd_span *key,
                                     struct lladd_span *value, struct lladd_error *);

/* ---- the whole tree -------------------------------------------------------------------------- */

/** Sizes and counts of a tree. They are approximate if other threads change the tree meanwhile. */
struct lladd_btree_stats {
    size_t struct_size;
    uint64_t rows, ghosts, blobs;
    uint64_t leaves, inner, spare; /**< pages */
    uint64_t used_bytes;           /**< bytes used in the leaves, without ghosts */
    uint64_t splits;               /**< since the database was opened */
    uint32_t height;               /**< levels; 1: the top node is a leaf */
    uint64_t merges;               /**< since the database was opened */
    uint64_t free_pages;           /**< pages that the tree has for its next splits */
};
/** Fills as much as out->struct_size says. Reads every node. */
LLADD_API int lladd_btree_stats_get(struct lladd_btree *, struct lladd_btree_stats *,
                                    struct lladd_error *);
/** Calls `fn` for each page of the tree, including spare pages, free pages and blobs; if `fn` does
 *  not return 0, stops and returns that value. No thread may be changing the tree. */
LLADD_API int lladd_btree_pages(struct lladd_btree *, int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                struct lladd_error *);
/** Checks that the keys are in order, that there is no gap between the key intervals of
 *  neighbouring nodes, that each child has the keys that its parent says, and that counts, pages
 *  and blobs are right. LLADD_CORRUPT_PAGE: the message says what is wrong and where. No thread may
 *  change the tree meanwhile. */
LLADD_API int lladd_btree_check(struct lladd_btree *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
