/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_BWTREE_H
#define LLADD_BWTREE_H
/**
 * @file
 * @brief Bw-trees: ordered indexes without latches, in memory or stored and transactional.
 *
 * A tree maps byte strings to byte strings, in the order of the keys' bytes. lladd/keys.h encodes
 * numbers, strings and tuples such that this order is the order of the values. A thread changes a
 * page by a compare-and-swap of one word, which puts a *delta* in front of the page. So no call
 * waits for another thread, and a preempted thread delays no other call.
 *
 * A *volatile* tree lives in memory, from lladd_bwtree_open_volatile to lladd_bwtree_close. It has
 * no transactions and no log; nothing of it is stored. A *logged* tree belongs to the database:
 *
 *     lladd_bwtree_register(&options, err);                 before lladd_open
 *     lladd_bwtree_create(txn, "orders", &o);               once; then commit
 *     lladd_bwtree_open(db, "orders", &tree, err);
 *     lladd_bwtree_txn_put(txn, tree, key, 8, value, 8);    in any transaction
 *     lladd_bwtree_get(tree, key, 8, buf, sizeof buf, &len, err);
 *
 * Its changes are part of the transaction: logged, rolled back, committed in two phases, recovered.
 * Its pages are written to the store of the database now and then (lladd_bwtree_flush).
 *
 * Limits. Keys have at most LLADD_BWTREE_KEY_MAX bytes, values at most LLADD_BWTREE_VALUE_MAX. In a
 * volatile tree a page that has lost most of its rows is merged into a neighbour, if both have the
 * same parent and there is room; the number of levels does not fall. In a logged tree such a page
 * stays, and takes new rows of its range. A logged tree, too, is in memory with all its rows once
 * it is opened, until the database is closed. Nothing limits the memory of a tree;
 * lladd_bwtree_stats_get says how much it uses.
 *
 * Reading gives no isolation: it shows changes of transactions that have not committed. Two
 * transactions that change one key at a time are a fault of the caller (lock.h). Each call reads or
 * changes one row at one moment during the call: the tree is linearizable. The calls for several
 * rows do this row by row. A cursor's move over the end of a leaf reads the leaves one after the
 * other, so it has no such moment: if other threads move the only row to and fro,
 * lladd_bwtree_cursor_first can return LLADD_END of a tree that was never empty.
 *
 * Threads: any number may use a tree; a cursor belongs to one thread. No call on a volatile tree
 * waits for another thread, nor does a read of a logged tree; a thread may make these calls while
 * it holds pages or mutexes. A change of a logged tree may wait for log space, and may flush; it is
 * made without a page, as lladd_update is. A thread that sleeps between calls holds nothing. A
 * thread that is preempted in a call keeps the memory that other threads replace meanwhile
 * (lladd/epoch.h). A forked child must not use the trees of its parent.
 * @ingroup operations
 */
#include <lladd/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_db;
struct lladd_log_entry;
struct lladd_options;
struct lladd_txn;
struct lladd_bwtree;
struct lladd_bwtree_cursor;

/** Maximum length of a key in bytes. */
#define LLADD_BWTREE_KEY_MAX 1000u
/** Maximum length of a value in bytes. */
#define LLADD_BWTREE_VALUE_MAX 65536u

/** Options of a tree. Zero means the default, for every member. */
struct lladd_bwtree_options {
    size_t struct_size;
    uint32_t key_size;   /**< length of every key, at most LLADD_BWTREE_KEY_MAX; 0: any length. A
                              tree with keys of 1 to 8 bytes and values of a fixed length is faster
                              and smaller */
    uint32_t value_size; /**< length of every value, at most LLADD_BWTREE_VALUE_MAX; 0: any */
    uint32_t page_bytes; /**< a page is split if its rows take more bytes; 64 to 2^20, default 8192.
                              A consolidation copies all rows of a page */
    uint32_t leaf_chain; /**< number of deltas after which a writer consolidates a leaf; 1 to 1000.
                              By default 16 for rows of up to 32 bytes, else 8 */
    uint32_t inner_chain; /**< the same for inner pages; default 2 */
};
#define LLADD_BWTREE_OPTIONS_INIT LLADD_SIZED_INIT(lladd_bwtree_options)

/** Makes an empty tree in the memory of the database handle; options may be NULL. Close it before
 *  the database. LLADD_BAD_ARGUMENT for options beyond their limits. LLADD_NO_MEMORY. */
LLADD_API int lladd_bwtree_open_volatile(struct lladd_db *, const struct lladd_bwtree_options *,
                                         struct lladd_bwtree **out, struct lladd_error *);
/** Registers logged trees. Call it before lladd_open, always if the database has such trees. */
LLADD_API int lladd_bwtree_register(struct lladd_options *, struct lladd_error *);
/** Makes an empty logged tree with a name of 1 to 60 bytes; options may be NULL. The tree can be
 *  opened when the transaction has committed. The first call in a database also makes the store.
 *  LLADD_EXISTS if the database has the name; LLADD_BAD_ARGUMENT for a name or options beyond their
 *  limits; LLADD_BAD_STATE without lladd_bwtree_register; the errors of lladd_page_alloc and
 *  lladd_root_set. Two open transactions must not make trees with the same name. */
LLADD_API int lladd_bwtree_create(struct lladd_txn *, const char *name,
                                  const struct lladd_bwtree_options *);
/** Opens a logged tree; close it before the database. If the tree is open already, gives the same
 *  pointer, which is closed as often as it is opened. The first open reads all of the tree.
 *  LLADD_NOT_FOUND; LLADD_BUSY if the transaction that makes the tree has not committed;
 *  LLADD_CORRUPT_PAGE, LLADD_NEWER_FORMAT, LLADD_READ_FAILED for its pages in the store;
 *  LLADD_NO_MEMORY. */
LLADD_API int lladd_bwtree_open(struct lladd_db *, const char *name, struct lladd_bwtree **out,
                                struct lladd_error *);
/** Closes a tree; NULL does nothing. No other thread may be using this handle, and its cursors must
 *  be closed. A volatile tree is freed with all its rows. A logged tree stays in memory, so
 *  transactions that have changed it can still be rolled back; the last close flushes. If this
 *  flush fails, nothing is lost, and the next open of the database has more to repeat. */
LLADD_API void lladd_bwtree_close(struct lladd_bwtree *);
/** Writes all changes of the database's logged trees to the store, and waits until recovery need
 *  not repeat them. Then they keep no log. Writers flush by themselves if they have written much
 *  log, and so do checkpoints if the store has room. LLADD_NO_SPACE, LLADD_NO_MEMORY,
 *  LLADD_TOO_LARGE (one page needs more than lladd_extent_max pages): the log keeps the changes. */
LLADD_API int lladd_bwtree_flush(struct lladd_db *, struct lladd_error *);
/** Calls fn(arg, page) for each page of the database that belongs to logged trees or their store.
 *  If `fn` does not return 0, stops and returns that value. No transaction may make a tree
 *  meanwhile, and no thread may flush. */
LLADD_API int lladd_bwtree_pages(struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                                 struct lladd_error *);
/** Returns the length of every key in bytes; 0: keys have any length. */
LLADD_API uint32_t lladd_bwtree_key_size(const struct lladd_bwtree *);
/** Returns the length of every value in bytes; 0: values have any length. */
LLADD_API uint32_t lladd_bwtree_value_size(const struct lladd_bwtree *);

/* ---- rows ------------------------------------------------------------------------------------ */

/* The first four calls change a volatile tree; LLADD_BAD_STATE for a logged one.
 *
 * Errors of the calls below. LLADD_KEY_SIZE: a key or value does not have the tree's fixed length.
 * LLADD_TOO_LARGE: a key or value is too long. LLADD_NO_MEMORY. A call that fails has changed no
 * row. The error struct may be NULL; for LLADD_EXISTS, LLADD_NOT_FOUND and LLADD_END only its code
 * is certain, not the message. */

/** Inserts a new row; LLADD_EXISTS if the tree has the key. */
LLADD_API int lladd_bwtree_insert(struct lladd_bwtree *, const void *key, size_t key_len,
                                  const void *value, size_t value_len, struct lladd_error *);
/** One of several rows. */
struct lladd_bwtree_row {
    const void *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};
/** Calls lladd_bwtree_insert for n rows in turn. Stops at the first row that cannot be inserted,
 *  and returns its error. *done (nullable) gets the number of rows inserted before that row; these
 *  rows stay inserted. */
LLADD_API int lladd_bwtree_insert_many(struct lladd_bwtree *, const struct lladd_bwtree_row *,
                                       size_t n, size_t *done, struct lladd_error *);
/** Sets the value of a key; inserts the row if the tree does not have the key. */
LLADD_API int lladd_bwtree_put(struct lladd_bwtree *, const void *key, size_t key_len,
                               const void *value, size_t value_len, struct lladd_error *);
/** Removes a row; LLADD_NOT_FOUND if the tree does not have the key. */
LLADD_API int lladd_bwtree_delete(struct lladd_bwtree *, const void *key, size_t key_len,
                                  struct lladd_error *);

/* These calls change a logged tree in a transaction, and set its error. LLADD_BAD_STATE for a
 * volatile tree; LLADD_OTHER_DATABASE; LLADD_TOO_LARGE, too, if the old and the new row are longer
 * than a log record; the errors of lladd_log_object. An abort or a rollback to a savepoint brings
 * the old rows back. Each change has memory for its undo until the transaction ends, so a rollback
 * needs no other memory, except for a transaction that recovery has found. */

/** Inserts a new row; LLADD_EXISTS if the tree has the key. */
LLADD_API int lladd_bwtree_txn_insert(struct lladd_txn *, struct lladd_bwtree *, const void *key,
                                      size_t key_len, const void *value, size_t value_len);
/** Sets the value of a key; inserts the row if the tree does not have the key. */
LLADD_API int lladd_bwtree_txn_put(struct lladd_txn *, struct lladd_bwtree *, const void *key,
                                   size_t key_len, const void *value, size_t value_len);
/** Removes a row; LLADD_NOT_FOUND if the tree does not have the key. */
LLADD_API int lladd_bwtree_txn_delete(struct lladd_txn *, struct lladd_bwtree *, const void *key,
                                      size_t key_len);
/** Returns true, the tree's number and the key if the log record describes a change of a row; the
 *  key's bytes belong to the record. Use it in lladd_participant.protect: the callback then locks
 *  the tree and the key. lladd_bwtree_id says the number of an open tree. */
LLADD_API bool lladd_bwtree_logged_key(const struct lladd_log_entry *, uint64_t *tree,
                                       struct lladd_span *key);
/** Returns the number of a logged tree, which no other tree of the database ever has; 0 for a
 *  volatile tree. */
LLADD_API uint64_t lladd_bwtree_id(const struct lladd_bwtree *);

/** Looks a key up: *len (nullable) gets the length of the value, `buf` as much of the value as
 *  `size` allows. LLADD_NOT_FOUND if the tree does not have the key. */
LLADD_API int lladd_bwtree_get(struct lladd_bwtree *, const void *key, size_t key_len, void *buf,
                               size_t size, size_t *len, struct lladd_error *);
/** One of several keys to be looked up together. */
struct lladd_bwtree_query {
    const void *key;
    size_t key_len;
    void *buf; /**< gets as much of the value as `size` allows */
    size_t size;
    size_t len; /**< out: the value's length */
    int rc;     /**< out: 0, LLADD_NOT_FOUND, or another error */
};
/** Looks up n keys. Returns 0 if each query's rc is 0 or LLADD_NOT_FOUND; otherwise the first other
 *  rc. */
LLADD_API int lladd_bwtree_get_many(struct lladd_bwtree *, struct lladd_bwtree_query *, size_t n,
                                    struct lladd_error *);

/* ---- cursors --------------------------------------------------------------------------------- */

/** Opens a cursor, before the first row. A cursor moves through the rows in order, in both
 *  directions. It has a copy of one leaf. Each move compares the number of the leaf's state with
 *  that of the copy; if the leaf has changed, the cursor copies it again, and goes on from the key
 *  of its present row. So a row that exists during the whole walk is met exactly once. A row that
 *  is inserted or removed during the walk may be met or not. */
LLADD_API int lladd_bwtree_cursor_open(struct lladd_bwtree *, struct lladd_bwtree_cursor **out,
                                       struct lladd_error *);
/** Closes the cursor; NULL does nothing. */
LLADD_API void lladd_bwtree_cursor_close(struct lladd_bwtree_cursor *);
/** From now on the cursor only meets keys k with low <= k < high; NULL: no bound. A move copies no
 *  leaf beyond the bounds. Call it before the first move. LLADD_BAD_STATE: the cursor has been
 *  moved. */
LLADD_API int lladd_bwtree_cursor_bounds(struct lladd_bwtree_cursor *, const void *low,
                                         size_t low_len, const void *high, size_t high_len,
                                         struct lladd_error *);
/* Each of the next six calls returns LLADD_END if there is no such row. After a move forward that
 * has found no row, the cursor is after the last row; after such a move backward, it is before the
 * first row. From there the cursor can be moved back. After another error the cursor is at no row,
 * as before its first move. */

/** Moves to the first row. */
LLADD_API int lladd_bwtree_cursor_first(struct lladd_bwtree_cursor *, struct lladd_error *);
/** Moves to the last row. */
LLADD_API int lladd_bwtree_cursor_last(struct lladd_bwtree_cursor *, struct lladd_error *);
/** Moves to the row of the key, or to the first row after the key. */
LLADD_API int lladd_bwtree_cursor_seek(struct lladd_bwtree_cursor *, const void *key,
                                       size_t key_len, struct lladd_error *);
/** Moves to the row of the key, or to the last row before the key. */
LLADD_API int lladd_bwtree_cursor_seek_for_prev(struct lladd_bwtree_cursor *, const void *key,
                                                size_t key_len, struct lladd_error *);
/** Moves to the next row; before the first move: to the first row. */
LLADD_API int lladd_bwtree_cursor_next(struct lladd_bwtree_cursor *, struct lladd_error *);
/** Moves to the previous row; before the first move: to the last row. */
LLADD_API int lladd_bwtree_cursor_prev(struct lladd_bwtree_cursor *, struct lladd_error *);
/** Gets the row at which the cursor is, as it was at the cursor's last move; the spans live until
 *  the cursor's next call. `value` may be NULL. LLADD_BAD_STATE if the cursor is at no row. */
LLADD_API int lladd_bwtree_cursor_row(struct lladd_bwtree_cursor *, struct lladd_span *key,
                                      struct lladd_span *value, struct lladd_error *);

/* ---- the whole tree -------------------------------------------------------------------------- */

/** The number of lengths of chains that lladd_bwtree_stats distinguishes. */
#define LLADD_BWTREE_CHAINS 33u

/** Sizes and counts of a tree. The sizes are approximate if other threads change the tree
 *  meanwhile. The counters count since the tree was opened. Each pair of counters tells how often
 *  the compare-and-swap of such a change succeeded, and how often another thread's came first: a
 *  change of a row and an index term are then tried again, so is a consolidation if it can take the
 *  other thread's change along, and a split is left to a later thread. So is a merge, also if
 *  another merge or a split of an inner page is under way. */
struct lladd_bwtree_stats {
    size_t struct_size;
    uint64_t rows;
    uint64_t leaves, inner; /**< pages */
    uint32_t levels;        /**< 1: the root is a leaf */
    uint64_t deltas;        /**< of all pages */
    uint64_t chains[LLADD_BWTREE_CHAINS]; /**< chains[i]: the number of leaves with i deltas; the
                                               last one: with as many or more */
    uint64_t memory;  /**< bytes of pages, deltas and tables, with those that wait */
    uint64_t waiting; /**< of these, bytes that were replaced and wait for threads in calls */
    uint64_t updates, updates_failed; /**< insertions, replacements and deletions */
    uint64_t splits, splits_failed;
    uint64_t terms, terms_failed; /**< index terms that parents got */
    uint64_t consolidations, consolidations_failed;
    uint64_t helped; /**< index terms that a thread added for another thread's split */
    uint64_t merges, merges_failed; /**< pages that were merged into others */
    /* of the store, for all logged trees of the handle */
    uint64_t flushes;       /**< that have written something or moved the marks */
    uint64_t flushed_bytes; /**< that they have written to segments */
    uint64_t segments, segment_pages;
    uint64_t redo_lsn; /**< recovery would repeat the changes of rows from here on */
};
/** Fills as much as out->struct_size says. Reads every page. */
LLADD_API int lladd_bwtree_stats_get(struct lladd_bwtree *, struct lladd_bwtree_stats *,
                                     struct lladd_error *);
/** Checks that the keys of each page are in order and in the page's range, that the ranges of each
 *  level meet, that parents name the pages that begin at their terms, that no merge is unfinished
 *  except for want of memory, and that chains are linked right. LLADD_BUG: the message says what is
 *  wrong. No thread may change the tree meanwhile. */
LLADD_API int lladd_bwtree_check(struct lladd_bwtree *, struct lladd_error *);

#ifdef __cplusplus
}
#endif
#endif
