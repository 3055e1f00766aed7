/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_CTABLE_H
#define LLADD_CTABLE_H
/**
 * @file
 * @brief cTables: tables with rows of named columns (Anvil, SOSP 2009, section 3.3).
 *
 * A cTable is a managed dTable (dtable_managed.h) with stored column names; its values are packed
 * rows (dtable_row.h). So a write of a row is one journal entry, however many columns it has.
 * Snapshots, conflicts, savepoints, transactions in doubt, digests, combines, errors and the thread
 * rules are those of managed dTables.
 *
 *     lladd_managed_register(&options, err);                   before lladd_open
 *     ...
 *     lladd_ctable_create(txn, "parts", &o);                   once
 *     lladd_ctable_open(db, "parts", &parts, err);
 *     lladd_ctable_put(txn, parts, &key, values);              sets all columns
 *     lladd_ctable_update(txn, parts, &key, changes, n);       sets some columns
 *     lladd_ctable_get(txn, parts, &key, column, buf, size, &len);
 *     lladd_ctable_cursor_open(txn, parts, columns, n, &cursor);
 *
 * In an existing row, each column has a value, which may be empty, or no value
 * (LLADD_DTABLE_ABSENT). A row may exist without any value. The columns are numbered from 0, in the
 * order of `columns` in the options. A *row store* stores whole packed rows. A *column store*
 * stores the values of each column, or of each group of columns, in a layer of its own.
 * @ingroup operations
 */
#include <lladd/dtable_managed.h>
#include <lladd/dtable_row.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLADD_CTABLE_NAME_MAX 56u         /**< bytes of a table's name */
#define LLADD_CTABLE_COLUMN_NAME_MAX 255u /**< bytes of a column's name */

/* ---- tables ---------------------------------------------------------------------------------- */

struct lladd_ctable;

/** Columns that are stored together, apart from the table's other columns. */
struct lladd_ctable_group {
    const char *const *columns; /**< names of the columns */
    size_t n;
    const char *config; /**< configuration of the group's layer, which stores the plain values if
                             the group has one column, else packed rows. NULL: a linear_dtable */
};
/** Options of a new table; stored with it. */
struct lladd_ctable_options {
    size_t struct_size;
    const char *const *columns; /**< column names: at least 1 byte each, all different */
    size_t n_columns;           /**< 1 to LLADD_DTABLE_COLUMNS_MAX */
    /** Options of the managed table; `type` must be given. In a row store `config` and
     *  `combine_config` must store packed rows. In a column store `combine_config` must be NULL:
     *  combines make runs with the layers of the groups. If `config` is NULL, digests make such
     *  runs too; otherwise digests use `config`, which must store packed rows. */
    struct lladd_managed_options managed;
    /** For a column store: each group has its own layer, and each column that is in no group has
     *  its own layer. If `groups` and `keys` are both NULL, the table is a row store. */
    const struct lladd_ctable_group *groups;
    size_t n_groups;
    const char *keys; /**< for a column store: configuration of the layer that stores all keys, with
                           empty values. NULL: a linear_dtable */
};
#define LLADD_CTABLE_OPTIONS_INIT_SIZE sizeof(struct lladd_ctable_options)
#ifdef __cplusplus
#define LLADD_CTABLE_OPTIONS_INIT lladd_ctable_options_init()
/** @cond */
inline lladd_ctable_options lladd_ctable_options_init()
{
    lladd_ctable_options o = LLADD_SIZED_INIT(lladd_ctable_options);
    o.managed = LLADD_MANAGED_OPTIONS_INIT;
    return o;
}
/** @endcond */
#else
#define LLADD_CTABLE_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_ctable_options), .managed = LLADD_MANAGED_OPTIONS_INIT \
    }
#endif

/** Makes an empty table, in the transaction: a managed table of that name, and the named root
 *  `ctable:` followed by the name. Errors as for lladd_managed_create, and: LLADD_BAD_ARGUMENT for
 *  empty or duplicate column names, LLADD_NOT_FOUND if a group names an unknown column,
 *  LLADD_TOO_LARGE for too many columns, LLADD_BAD_CONFIG if the layer of a group needs the size of
 *  its values and the configuration does not give the size. */
LLADD_API int lladd_ctable_create(struct lladd_txn *, const char *name,
                                  const struct lladd_ctable_options *);
/** Gives an open table new groups, keys and configurations, and the options of `managed` that
 *  `which` selects. Without groups and keys the table becomes a row store. All changes are atomic.
 *  Columns and type in the options are ignored. Errors and durability as for lladd_managed_alter.
 *  To change only options of the managed table, call lladd_managed_alter on
 *  lladd_ctable_managed. */
LLADD_API int lladd_ctable_alter(struct lladd_ctable *, unsigned which,
                                 const struct lladd_ctable_options *, struct lladd_error *);
/** Drops the table, in the transaction, as lladd_managed_destroy does. LLADD_NOT_FOUND for a
 *  managed table that is not a cTable. */
LLADD_API int lladd_ctable_destroy(struct lladd_txn *, const char *name);
/** Opens a table, as lladd_managed_open: a second call for an open table returns the same handle,
 *  which must then be closed twice. LLADD_WRONG_TYPE for a managed table that is not a cTable. */
LLADD_API int lladd_ctable_open(struct lladd_db *, const char *name, struct lladd_ctable **out,
                                struct lladd_error *);
/** lladd_ctable_create in a transaction of its own, then lladd_ctable_open: as
 *  lladd_managed_create_open. */
LLADD_API int lladd_ctable_create_open(struct lladd_db *, const char *name,
                                       const struct lladd_ctable_options *,
                                       struct lladd_ctable **out, struct lladd_error *);
/** Closes the table, as lladd_managed_close does: LLADD_BUSY while the table is in use; then the
 *  table stays open. Closing the database closes tables that are still open. */
LLADD_API int lladd_ctable_close(struct lladd_ctable *, struct lladd_error *);
/** Returns the managed table under this cTable, for maintenance and statistics; valid until the
 *  cTable is closed. Values written to the managed table must be packed rows. */
LLADD_API struct lladd_managed *lladd_ctable_managed(const struct lladd_ctable *);
/** Calls `fn` for each page that stores the column names; the pages of the managed table are not
 *  among them. If `fn` does not return 0, stops and returns that value. */
LLADD_API int lladd_ctable_pages(struct lladd_db *, const char *name,
                                 int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                 struct lladd_error *);

/** Returns the number of columns. Column numbers are less than this. */
LLADD_API size_t lladd_ctable_columns(const struct lladd_ctable *);
/** Returns the name of a column, valid as long as the handle; NULL if the table has no such
 *  column. */
LLADD_API const char *lladd_ctable_column_name(const struct lladd_ctable *, uint32_t column);
/** Finds the column numbers of n names. LLADD_NOT_FOUND: the message has the unknown name. */
LLADD_API int lladd_ctable_named(const struct lladd_ctable *, const char *const *names, size_t n,
                                 uint32_t *out, struct lladd_error *);

/* ---- rows ------------------------------------------------------------------------------------ */

/** Puts a row, which replaces the present row of the key. `values` has one element for each column,
 *  in the order of column numbers, each in the state FOUND or ABSENT. LLADD_REJECTED if the
 *  configuration cannot store one of the values. */
LLADD_API int lladd_ctable_put(struct lladd_txn *, struct lladd_ctable *,
                               const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *values);
struct lladd_ctable_change {
    uint32_t column;
    struct lladd_dtable_value value; /**< ABSENT: removes the value */
};
/** Changes some columns of a row; if a column is named twice, the last change takes effect. If the
 *  row does not exist, it is created, and the other columns have no value. */
LLADD_API int lladd_ctable_update(struct lladd_txn *, struct lladd_ctable *,
                                  const struct lladd_dtable_key *,
                                  const struct lladd_ctable_change *, size_t n);
/** Deletes a row; 0 also if the row does not exist. */
LLADD_API int lladd_ctable_delete(struct lladd_txn *, struct lladd_ctable *,
                                  const struct lladd_dtable_key *);

/** Values of a row. Zero the struct before the first use. Each use releases the values of the
 *  previous use; call lladd_ctable_row_free after the last use, before the transaction ends. */
struct lladd_ctable_row {
    size_t n;
    const struct lladd_dtable_value *values; /**< in the order of the call's `columns` */
    struct lladd_dtable_columns all_;
    size_t cap_;
    struct lladd_db *db_;
};
/** Reads `n` columns of a row, as the transaction sees it. LLADD_NOT_FOUND if the row does not
 *  exist. */
LLADD_API int lladd_ctable_lookup(struct lladd_txn *, struct lladd_ctable *,
                                  const struct lladd_dtable_key *, const uint32_t *columns,
                                  size_t n, struct lladd_ctable_row *);
/** Frees the memory of a row; the struct may be used again afterwards. */
LLADD_API void lladd_ctable_row_free(struct lladd_ctable_row *);
/** Reads one column of a row: *len (nullable) gets the length of the value, `buf` as much of the
 *  value as `size` allows. LLADD_NOT_FOUND if the row does not exist, or has no value in that
 *  column. */
LLADD_API int lladd_ctable_get(struct lladd_txn *, struct lladd_ctable *,
                               const struct lladd_dtable_key *, uint32_t column, void *buf,
                               size_t size, size_t *len);

/* ---- cursors --------------------------------------------------------------------------------- */

/** A position in the order of the keys, for reading some of the columns; like lladd_dtable_cursor.
 *  The cursor also shows rows that the transaction writes after the cursor was opened. */
struct lladd_ctable_cursor;

/** Opens a cursor, before the first row. A column may be named twice; n may be 0. */
LLADD_API int lladd_ctable_cursor_open(struct lladd_txn *, struct lladd_ctable *,
                                       const uint32_t *columns, size_t n,
                                       struct lladd_ctable_cursor **out);
/** Closes the cursor; NULL does nothing. Close it before the transaction ends. */
LLADD_API void lladd_ctable_cursor_close(struct lladd_ctable_cursor *);
/** Moves to the first row: as lladd_dtable_first. */
LLADD_API int lladd_ctable_first(struct lladd_ctable_cursor *, struct lladd_error *);
/** Moves to the last row: as lladd_dtable_last. */
LLADD_API int lladd_ctable_last(struct lladd_ctable_cursor *, struct lladd_error *);
/** Moves to the next row: as lladd_dtable_next. */
LLADD_API int lladd_ctable_next(struct lladd_ctable_cursor *, struct lladd_error *);
/** Moves to the previous row: as lladd_dtable_prev. */
LLADD_API int lladd_ctable_prev(struct lladd_ctable_cursor *, struct lladd_error *);
/** Moves to the row of the key, or to the next row after the key: as lladd_dtable_seek. */
LLADD_API int lladd_ctable_seek(struct lladd_ctable_cursor *, const struct lladd_dtable_key *,
                                struct lladd_error *);
/** Moves to the row of the key, or to the last row before the key: as
 *  lladd_dtable_seek_for_prev. */
LLADD_API int lladd_ctable_seek_for_prev(struct lladd_ctable_cursor *,
                                         const struct lladd_dtable_key *, struct lladd_error *);
/** Gets the row at the cursor: its key, and the values of the columns given to
 *  lladd_ctable_cursor_open, in that order. `key` and `values` are each nullable; the bytes and the
 *  array are valid until the cursor moves or this call is repeated. LLADD_BAD_STATE if the cursor
 *  is at no row. */
LLADD_API int lladd_ctable_row_read(struct lladd_ctable_cursor *, struct lladd_dtable_key *key,
                                    const struct lladd_dtable_value **values, struct lladd_error *);

/* ---- many rows ------------------------------------------------------------------------------- */

enum {
    LLADD_CTABLE_KEYS = 1 /**< copy the keys too */
};
/** One column of many rows. If `width` is not 0, every row has a value of `width` bytes; the value
 *  of row i is at bytes + i * width. If `width` is 0, row i has the state states[i], FOUND or
 *  ABSENT, and the value bytes[ends[i - 1], ends[i]); the value of row 0 begins at 0. */
struct lladd_ctable_values {
    size_t width;
    const unsigned char *bytes;
    const uint8_t *states;
    const size_t *ends;
};
/** Rows by column. Zero the struct before the first use; call lladd_ctable_batch_free after the
 *  last use. */
struct lladd_ctable_batch {
    size_t n;
    const struct lladd_ctable_values *columns; /**< in the order of the cursor's columns */
    /** With LLADD_CTABLE_KEYS: `numbers` for keys that are numbers; otherwise key i is
     *  key_bytes[key_ends[i - 1], key_ends[i]). */
    const uint64_t *numbers;
    const unsigned char *key_bytes;
    const size_t *key_ends;
    void *room_;
};
/** Copies the next rows, at most `max`; the cursor is then at the last row copied. LLADD_END, with
 *  n 0, if no row is left. If all rows that the transaction sees are in one run of a column store
 *  without tombstones, layers with the callback `copy` copy their columns block by block. */
LLADD_API int lladd_ctable_next_n(struct lladd_ctable_cursor *, size_t max, unsigned flags,
                                  struct lladd_ctable_batch *, struct lladd_error *);
/** Frees the memory of a batch; the struct may be used again afterwards. */
LLADD_API void lladd_ctable_batch_free(struct lladd_ctable_batch *);

#ifdef __cplusplus
}
#endif
#endif
