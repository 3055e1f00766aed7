/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_H
#define LLADD_DTABLE_H
/**
 * @file
 * @brief dTables: ordered tables that are composed of layers (Anvil, SOSP 2009).
 *
 * A *dTable* maps keys of one type to byte strings, in the order of the keys. Most dTables are
 * read-only. A *run* (a sorted run) is built once, from rows in ascending order, and can then be
 * searched and scanned. A tree of layers stores the run; a configuration describes the tree (for
 * example an array, a dictionary above the array, and a layer for exceptional values). An *overlay*
 * merges several tables into one; a newer table hides the rows of older ones. A *memory* table can
 * be written to.
 *
 * In a table each key is in one of three states. LLADD_DTABLE_ABSENT: the table has nothing for the
 * key; an older table may have a value. LLADD_DTABLE_TOMBSTONE: the key is deleted; the tombstone
 * hides values in older tables. LLADD_DTABLE_FOUND: the key has a value, which may be empty.
 *
 * Authors of layers include <lladd/dtable_class.h>; docs/dtables.md describes the library's layers.
 *
 * Threads: any number of threads may use a table; one thread at a time may use a cursor, a pin or a
 * builder. Release tables, cursors and pins before the database is closed.
 * @ingroup operations
 */
#include <lladd/lladd.h>
#include <lladd/pages.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lladd_sink;

/* ---- keys ------------------------------------------------------------------------------------ */

enum lladd_dtable_type {
    LLADD_DTABLE_U32 = 1,    /**< unsigned integers below 2^32 */
    LLADD_DTABLE_U64 = 2,    /**< unsigned integers */
    LLADD_DTABLE_DOUBLE = 3, /**< in numerical order: -0.0 equals 0.0, NaN is not a key */
    LLADD_DTABLE_STRING = 4, /**< bytes other than 0, in the order of unsigned bytes; a prefix sorts
                                  first */
    LLADD_DTABLE_BYTES = 5   /**< any bytes, in the order of STRING or of a named comparator */
};

/** A key. `number` holds a key of the three number types, encoded so that unsigned comparison gives
 *  the order of the keys. `bytes` holds a key of the other types; the caller owns the bytes. */
struct lladd_dtable_key {
    enum lladd_dtable_type type;
    uint64_t number;
    struct lladd_span bytes;
};

/** Returns a key of type LLADD_DTABLE_U32. */
static inline struct lladd_dtable_key lladd_dtable_u32(uint32_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U32, v, {NULL, 0}};
    return k;
}
/** Returns a key of type LLADD_DTABLE_U64. */
static inline struct lladd_dtable_key lladd_dtable_u64(uint64_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U64, v, {NULL, 0}};
    return k;
}
/** Returns a key of type LLADD_DTABLE_BYTES, which refers to the caller's bytes. */
static inline struct lladd_dtable_key lladd_dtable_bytes(const void *bytes, size_t len)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_BYTES, 0, {bytes, len}};
    return k;
}
/** Returns a key of type LLADD_DTABLE_STRING, which refers to a NUL-terminated text; the key does
 *  not include the NUL. */
LLADD_API struct lladd_dtable_key lladd_dtable_string(const char *text);
/** Returns a key of type LLADD_DTABLE_DOUBLE. -0.0 becomes 0.0. NaN becomes a key that every call
 *  refuses with LLADD_BAD_ARGUMENT. */
LLADD_API struct lladd_dtable_key lladd_dtable_double(double v);
/** Returns the number from which a key of type LLADD_DTABLE_DOUBLE was made. */
LLADD_API double lladd_dtable_as_double(const struct lladd_dtable_key *);
/** Returns "u32", "u64", "double", "string", "bytes"; NULL for any other number. */
LLADD_API const char *lladd_dtable_type_name(enum lladd_dtable_type);

/** A named order of byte strings, other than the order of unsigned bytes. A table built with a
 *  comparator can only be opened with a handle with which the comparator is registered. */
struct lladd_dtable_comparator {
    size_t struct_size;
    const char *name; /**< at most 63 bytes of [a-z0-9_.-] */
    void *ctx;
    /** Returns a negative number if a comes before b, 0 if they are equal, else a positive number.
     *  Must define a total order that never changes. */
    int (*compare)(void *ctx, struct lladd_span a, struct lladd_span b);
    /** Returns equal numbers for keys that compare equal. May be NULL if only equal bytes compare
     *  equal */
    uint64_t (*hash)(void *ctx, struct lladd_span);
};
/** Registers a comparator with the handle; the comparator must outlive the handle. LLADD_EXISTS if
 *  another comparator has the name, LLADD_BAD_REGISTRATION if the comparator is incomplete. */
LLADD_API int lladd_dtable_comparator_add(struct lladd_db *, const struct lladd_dtable_comparator *,
                                          struct lladd_error *);

/* ---- values ---------------------------------------------------------------------------------- */

enum lladd_dtable_state {
    LLADD_DTABLE_ABSENT = 0,    /**< this table has nothing for the key */
    LLADD_DTABLE_TOMBSTONE = 1, /**< the key was deleted: values in older tables are hidden */
    LLADD_DTABLE_FOUND = 2      /**< the key has a value, of 0 bytes or more */
};

struct lladd_dtable_value {
    enum lladd_dtable_state state;
    struct lladd_span bytes; /**< valid if the state is FOUND */
};
/** Returns a value in the state FOUND, which refers to the caller's bytes. */
static inline struct lladd_dtable_value lladd_dtable_value_of(const void *bytes, size_t len)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_FOUND, {bytes, len}};
    return v;
}
/** Returns a tombstone. */
static inline struct lladd_dtable_value lladd_dtable_tombstone(void)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_TOMBSTONE, {NULL, 0}};
    return v;
}
/** The maximum lengths of a value and of a key in bytes, in any table. */
#define LLADD_DTABLE_VALUE_MAX (UINT32_C(1) << 30)
#define LLADD_DTABLE_KEY_MAX 2048u

/** Keeps the result of a lookup in memory. A zeroed pin (LLADD_DTABLE_PIN_INIT) holds nothing. Each
 *  use releases the previous result, so one pin serves any number of lookups; call
 *  lladd_dtable_unpin after the last use. */
struct lladd_dtable_pin {
    struct lladd_db *db_;
    void *held_[2];
    unsigned char *room_[4];
    size_t room_size_[4];
    unsigned turn_;
    unsigned char small_[2][16];
};
#ifdef __cplusplus
#define LLADD_DTABLE_PIN_INIT \
    lladd_dtable_pin \
    { \
    }
#else
#define LLADD_DTABLE_PIN_INIT \
    { \
        .db_ = NULL \
    }
#endif
/** Releases the result that the pin holds, and the pin's memory; the pin may be used again. */
LLADD_API void lladd_dtable_unpin(struct lladd_dtable_pin *);

/** An interval of keys, from <= key < to. `deleted`: the interval hides all rows of older tables;
 *  otherwise it hides none. */
struct lladd_dtable_interval {
    bool deleted;
    bool has_from, has_to; /**< false: unbounded on that side */
    struct lladd_dtable_key from, to;
};

/* ---- tables ---------------------------------------------------------------------------------- */

/** A table: a run, an overlay or a table in memory. */
struct lladd_dtable;

/** Looks a key up. Returns 0 in each of the three states. The value's bytes live until the pin is
 *  used again or released. LLADD_WRONG_TYPE if the table's keys are of another type. */
LLADD_API int lladd_dtable_lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                  struct lladd_dtable_pin *, struct lladd_dtable_value *out,
                                  struct lladd_error *);
/** Copies the value of a key: *len (nullable) gets its length, `buf` as much of the value as `size`
 *  allows. LLADD_NOT_FOUND if the key has no value. */
LLADD_API int lladd_dtable_get(const struct lladd_dtable *, const struct lladd_dtable_key *,
                               void *buf, size_t size, size_t *len, struct lladd_error *);
/** Gets the interval that contains the key, or the first interval if `key` is NULL. Besides rows a
 *  table may have deleted ranges (range tombstones), which hide all rows of older tables in the
 *  range. A lookup of a key that has no row and is in a deleted range returns a tombstone; cursors
 *  do not show such tombstones. Intervals, deleted and not deleted, follow each other without a
 *  gap; two neighbouring intervals may both be deleted. The endpoints' bytes live until the two
 *  pins are used again or released. */
LLADD_API int lladd_dtable_interval_at(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                       struct lladd_dtable_pin pins[2],
                                       struct lladd_dtable_interval *out, struct lladd_error *);
/** Returns the type of the table's keys. Any thread. */
LLADD_API enum lladd_dtable_type lladd_dtable_key_type(const struct lladd_dtable *);
/** Gets the row at a place, if all layers support places (lladd_dtable_places). Places count from
 *  0, in the order of the keys. A place may have no row: then the state is ABSENT. `key` and
 *  `value` may be NULL. LLADD_OUT_OF_RANGE beyond the last place, LLADD_BAD_STATE if rows have no
 *  places. */
LLADD_API int lladd_dtable_at(const struct lladd_dtable *, uint64_t place,
                              struct lladd_dtable_pin *, struct lladd_dtable_key *key,
                              struct lladd_dtable_value *value, struct lladd_error *);
/** Returns true if the rows have places; *n gets the number of places. */
LLADD_API bool lladd_dtable_places(const struct lladd_dtable *, uint64_t *n);
/** Closes the table. No cursor on it may be open, and no pin may hold a value of it. Closing an
 *  overlay does not close the tables it merges. */
LLADD_API void lladd_dtable_close(struct lladd_dtable *);

/* ---- cursors --------------------------------------------------------------------------------- */

enum {
    LLADD_DTABLE_TOMBSTONES = 1 /**< also show rows that are tombstones */
};

/** A position in the order of the keys: at a row, before the first row, or after the last row. */
struct lladd_dtable_cursor;

/** Opens a cursor, before the first row. */
LLADD_API int lladd_dtable_cursor_open(const struct lladd_dtable *, unsigned flags,
                                       struct lladd_dtable_cursor **out, struct lladd_error *);
/** Closes the cursor; NULL does nothing. The rows that it has returned are no longer valid. */
LLADD_API void lladd_dtable_cursor_close(struct lladd_dtable_cursor *);
/* Each of the six calls below moves the cursor, and returns 0 if the cursor is then at a row. It
 * returns LLADD_END if there is no such row: then the cursor is after the last row (first, next,
 * seek) or before the first row (last, prev, seek_for_prev). A misuse error, for example a key of
 * another type, does not move the cursor. After any other error the cursor is before the first
 * row. */
/** Moves to the first row. */
LLADD_API int lladd_dtable_first(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the last row. */
LLADD_API int lladd_dtable_last(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the next row; from before the first row, to the first row. */
LLADD_API int lladd_dtable_next(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the previous row; from after the last row, to the last row. */
LLADD_API int lladd_dtable_prev(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the row of the key, or to the next row after the key. */
LLADD_API int lladd_dtable_seek(struct lladd_dtable_cursor *, const struct lladd_dtable_key *,
                                struct lladd_error *);
/** Moves to the row of the key, or to the last row before the key. */
LLADD_API int lladd_dtable_seek_for_prev(struct lladd_dtable_cursor *,
                                         const struct lladd_dtable_key *, struct lladd_error *);
/** Gets the row at the cursor; `key` and `value` may be NULL. The bytes live until the cursor
 *  moves. LLADD_BAD_STATE if the cursor is at no row. */
LLADD_API int lladd_dtable_row(struct lladd_dtable_cursor *, struct lladd_dtable_key *key,
                               struct lladd_dtable_value *value, struct lladd_error *);

/** Many rows, in arrays. Zero the struct before the first use; call lladd_dtable_batch_free after
 *  the last use. Row i has the key numbers[i], or bytes[key_begin[i], key_end[i]) if keys are not
 *  numbers; the state states[i]; and the value bytes[value_begin[i], value_end[i]). */
struct lladd_dtable_batch {
    size_t n;
    uint64_t *numbers;
    uint8_t *states;
    size_t *key_begin, *key_end, *value_begin, *value_end;
    unsigned char *bytes;
    size_t rows_, used_, size_;
    struct lladd_db *db_;
};
/** Copies the next rows, at most `max`, into the batch's memory; the cursor is then at the last row
 *  copied. LLADD_END, with n 0, if no row is left. LLADD_BAD_ARGUMENT if `max` is 0. */
LLADD_API int lladd_dtable_next_n(struct lladd_dtable_cursor *, size_t max,
                                  struct lladd_dtable_batch *, struct lladd_error *);
/** Frees the memory of a batch; the struct may be used again afterwards. */
LLADD_API void lladd_dtable_batch_free(struct lladd_dtable_batch *);

/* ---- configurations -------------------------------------------------------------------------- */

/** A configuration: a tree of layers with their parameters. */
struct lladd_dtable_config;

/** Parses a configuration in the notation of the Anvil paper, with the additions of
 *  docs/dtables.md:
 *
 *     config [ "base" class(dt) exception_dtable "base_config" config [
 *         "base" class(dt) array_dtable "base_config" config [ "value_size" int 5 ]
 *         "alt" class(dt) linear_dtable  # everything else
 *         "reject_value" string "_____" ] ]
 *
 *  LLADD_BAD_CONFIG: the message has the line, the column and the expected text. */
LLADD_API int lladd_dtable_config_parse(struct lladd_db *, const char *text,
                                        struct lladd_dtable_config **out, struct lladd_error *);
/** Makes a configuration of one layer of a class; set its parameters afterwards.
 *  lladd_dtable_config_set_child gives a child configuration to its parent, which frees it. Call
 *  lladd_dtable_config_check before you use the configuration for a run: lladd_dtable_run_begin
 *  returns LLADD_BAD_STATE if that has not been done. A parsed configuration has been checked. */
LLADD_API int lladd_dtable_config_new(struct lladd_db *, const char *class_name,
                                      struct lladd_dtable_config **out, struct lladd_error *);
/** Sets a parameter that is a boolean. LLADD_BAD_CONFIG if the class has no such parameter of that
 *  type; LLADD_BAD_STATE if the configuration has been checked. */
LLADD_API int lladd_dtable_config_set_bool(struct lladd_dtable_config *, const char *name, bool,
                                           struct lladd_error *);
/** Sets a parameter that is an integer; errors as for lladd_dtable_config_set_bool. */
LLADD_API int lladd_dtable_config_set_int(struct lladd_dtable_config *, const char *name, int64_t,
                                          struct lladd_error *);
/** Sets a parameter that is a string or bytes, which are copied; errors as for
 *  lladd_dtable_config_set_bool. */
LLADD_API int lladd_dtable_config_set_bytes(struct lladd_dtable_config *, const char *name,
                                            struct lladd_span, struct lladd_error *);
/** Appends a word to a parameter that is a list of words. */
LLADD_API int lladd_dtable_config_add_word(struct lladd_dtable_config *, const char *name,
                                           struct lladd_span, struct lladd_error *);
/** Sets a child layer; for a parameter that is a list of layers, appends the child. */
LLADD_API int lladd_dtable_config_set_child(struct lladd_dtable_config *, const char *name,
                                            struct lladd_dtable_config *child,
                                            struct lladd_error *);
/** Checks that the configuration is complete and that each layer is allowed in its place, and fills
 *  in parameters that depend on other layers. Type 0 means any type of keys. */
LLADD_API int lladd_dtable_config_check(struct lladd_dtable_config *, enum lladd_dtable_type,
                                        struct lladd_error *);
/** For a checked configuration: 0 if each layer that needs the size of values knows the size.
 *  Otherwise LLADD_BAD_CONFIG: the message names the first layer that would take the size from the
 *  first value of a run, with line and column if the configuration was a text. */
LLADD_API int lladd_dtable_config_settled(const struct lladd_dtable_config *, struct lladd_error *);
/** For a checked configuration: 0 if it can store a tombstone for any key. Otherwise
 *  LLADD_BAD_CONFIG: the message names the layer that cannot. */
LLADD_API int lladd_dtable_config_deletes(struct lladd_dtable_config *, struct lladd_error *);
/** Writes the configuration as text, with all parameters; parsing the text gives the same
 *  configuration. */
LLADD_API int lladd_dtable_config_print(const struct lladd_dtable_config *, struct lladd_sink *);
/** Returns the text of lladd_dtable_config_print as a string; free the string with
 *  lladd_mem_free. */
LLADD_API int lladd_dtable_config_text(const struct lladd_dtable_config *, char **out,
                                       struct lladd_error *);
/** Frees a configuration with its children; NULL does nothing. Do not call it for a child that has
 *  a parent. */
LLADD_API void lladd_dtable_config_free(struct lladd_dtable_config *);

/* ---- runs ------------------------------------------------------------------------------------ */

/** Options of a new run. Zero means the default, for every member. */
struct lladd_dtable_run_options {
    size_t struct_size;
    enum lladd_dtable_type type;              /**< type of the keys; must be given */
    const char *comparator;                   /**< for LLADD_DTABLE_BYTES; NULL: the order of
                                                   unsigned bytes */
    const struct lladd_dtable_config *config; /**< NULL: `text` is used */
    const char *text;                         /**< configuration as text. Default: a
                                                   linear_dtable */
    uint32_t block_bytes; /**< unit of reading, verification and caching: a multiple of the page
                               size, at most 1 MiB, else LLADD_BAD_ARGUMENT. Default 8 KiB, or a
                               page if that is larger */
    const char *name;     /**< for messages, at most 63 bytes */
};
#define LLADD_DTABLE_RUN_OPTIONS_INIT_SIZE sizeof(struct lladd_dtable_run_options)
#define LLADD_DTABLE_RUN_OPTIONS_INIT LLADD_SIZED_INIT(lladd_dtable_run_options)

struct lladd_dtable_run_builder;

/** Begins a run in a transaction. The contents of the run are not logged; they are written to
 *  extents allocated in the transaction. Only the thread that uses the transaction may use the
 *  builder. Errors of the builder's calls are stored in the transaction. */
LLADD_API int lladd_dtable_run_begin(struct lladd_txn *, const struct lladd_dtable_run_options *,
                                     struct lladd_dtable_run_builder **out);
/** Adds a row in the state FOUND or TOMBSTONE; keys must ascend. A versions_dtable also takes the
 *  state ABSENT: the older version had no row for the key. LLADD_REJECTED if no layer can store the
 *  value. After LLADD_REJECTED or another misuse error nothing has changed, with one
 *  exception: a layer of a column_dtable may take the size of all its values from the first value,
 *  and then reject a value of another size. After this LLADD_REJECTED, as after any error that is
 *  not a misuse error, call lladd_dtable_run_discard; further calls return LLADD_BAD_STATE. */
LLADD_API int lladd_dtable_run_add(struct lladd_dtable_run_builder *,
                                   const struct lladd_dtable_key *,
                                   const struct lladd_dtable_value *);
/** Adds a deleted range, from <= key < to, which hides rows of older tables; NULL: unbounded on
 *  that side. Ranges must ascend and not touch; they may be added before, between or after rows.
 *  LLADD_REJECTED if the configuration stores no ranges; then nothing has changed. A configuration
 *  stores ranges if its outermost layer is a ranges_dtable, or if all layers above a ranges_dtable
 *  pass ranges on, as a compress_dtable does. LLADD_REJECTED also if the layer that stores the
 *  ranges cannot store this range; then, as after any error but a misuse error, call
 *  lladd_dtable_run_discard. */
LLADD_API int lladd_dtable_run_add_range(struct lladd_dtable_run_builder *,
                                         const struct lladd_dtable_key *from,
                                         const struct lladd_dtable_key *to);
/** Writes the remaining blocks and makes them durable. When the transaction has committed, the run
 *  can be opened with its root; a rollback of the transaction frees all pages. If the call returns
 *  0, it has released the builder. */
LLADD_API int lladd_dtable_run_finish(struct lladd_dtable_run_builder *, lladd_pageno *root);
/** Frees the run's pages. Releases the builder even if the call returns an error; then a rollback
 *  of the transaction frees the remaining pages. Call it before the transaction ends or rolls back
 *  to a point before lladd_dtable_run_begin. NULL does nothing. */
LLADD_API int lladd_dtable_run_discard(struct lladd_dtable_run_builder *);

/** Opens a run. LLADD_NO_COMPARATOR or LLADD_BAD_CONFIG: the run needs a comparator or a class that
 *  is not registered with this handle. LLADD_OTHER_ORDER: in the registered comparator's order, the
 *  run's first key does not come before its last key. LLADD_NEWER_FORMAT, LLADD_CORRUPT_RUN.
 *  LLADD_DESTROYED, LLADD_WRONG_TYPE or LLADD_CORRUPT_RUN if the page is not a run's root. */
LLADD_API int lladd_dtable_run_open(struct lladd_db *, lladd_pageno root, struct lladd_dtable **out,
                                    struct lladd_error *);
/** Sets *out to whether the page is a run's root. Checks only whether the page is the root of a
 *  blob that begins like a run's descriptor. */
LLADD_API int lladd_dtable_run_there(struct lladd_db *, lladd_pageno, bool *out,
                                     struct lladd_error *);
/** Frees a run in the transaction. LLADD_BUSY if the run is open on this handle. */
LLADD_API int lladd_dtable_run_free(struct lladd_txn *, lladd_pageno root);

struct lladd_dtable_run_info {
    size_t struct_size;
    uint64_t id, rows, tombstones; /**< `rows` counts tombstones, and keys without a row */
    uint64_t bytes;      /**< bytes of the contents, before their division into pages */
    uint64_t pages;      /**< pages without those of the descriptor */
    uint64_t row_bytes;  /**< sum of the lengths of all keys and values, as they were added */
    uint32_t block_size; /**< bytes of contents in a block */
    uint32_t version;
    enum lladd_dtable_type type;
    const char *comparator;           /**< NULL: none. The strings `comparator`, `config` and `name`
                                           live as long as the table */
    const char *config;               /**< complete text of the configuration */
    const char *name;                 /**< the name from lladd_dtable_run_options */
    struct lladd_dtable_key min, max; /**< smallest and largest key, if the run has rows; the bytes
                                           live as long as the table */
    uint64_t ranges;                  /**< number of deleted ranges */
};
/** Describes an open run; fills as much as out->struct_size says. LLADD_WRONG_TYPE if the
 *  table is not a run. */
LLADD_API int lladd_dtable_run_info_get(const struct lladd_dtable *, struct lladd_dtable_run_info *,
                                        struct lladd_error *);
/** Calls `fn` for each page of a run, including the pages of the descriptor. If `fn` does not
 *  return 0, stops and returns that value. */
LLADD_API int lladd_dtable_run_pages(struct lladd_db *, lladd_pageno root,
                                     int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                     struct lladd_error *);
/** Reads every block and every row, looks up each key, and compares the results with the
 *  descriptor. LLADD_CORRUPT_RUN: the message names the run, the layer and the block. */
LLADD_API int lladd_dtable_run_check(const struct lladd_dtable *, struct lladd_error *);

/* ---- other tables ---------------------------------------------------------------------------- */

/** Makes an empty table in memory, which can be written to. The table belongs to no transaction and
 *  is freed when it is closed. `comparator`: as in lladd_dtable_run_options. */
LLADD_API int lladd_dtable_memory(struct lladd_db *, enum lladd_dtable_type, const char *comparator,
                                  struct lladd_dtable **out, struct lladd_error *);
/** Gives a key a value or a tombstone; state ABSENT removes the key from the table.
 *  LLADD_WRONG_TYPE if the table is not a memory table. */
LLADD_API int lladd_dtable_put(struct lladd_dtable *, const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *, struct lladd_error *);
/** Makes an overlay of tables with keys of the same type and order; tables[0] is the newest. The
 *  caller still owns the tables, and must close them after the overlay. */
LLADD_API int lladd_dtable_overlay(struct lladd_db *, struct lladd_dtable *const *tables, size_t n,
                                   struct lladd_dtable **out, struct lladd_error *);

/** Makes a table that shows an older version of the table `newer`. `difference` is a run with the
 *  configuration versions_dtable, which has the rows of the older version where it differs from
 *  `newer`. The result shows these rows, and all other rows of `newer`. `newer` may be such a
 *  result itself. Any number of threads may read it. The caller still owns both tables, and must
 *  close them after the result. LLADD_WRONG_TYPE if `difference` is no versions_dtable, or if the
 *  tables have keys of different types or orders; LLADD_BAD_ARGUMENT if `newer` has deleted
 *  ranges. */
LLADD_API int lladd_dtable_version(struct lladd_db *, struct lladd_dtable *difference,
                                   struct lladd_dtable *newer, struct lladd_dtable **out,
                                   struct lladd_error *);

/* ---- the cache of blocks --------------------------------------------------------------------- */

/** Sets the size limit of this handle's block cache, which keeps blocks of runs that were read and
 *  verified. Default 64 MiB. Pinned blocks count towards the limit, and so does the memory that
 *  each open run needs all the time. If open runs leave too little of `bytes`, the cache still
 *  holds four blocks. */
LLADD_API void lladd_dtable_cache_limit(struct lladd_db *, uint64_t bytes);
struct lladd_dtable_cache_stats {
    size_t struct_size;
    uint64_t limit, used; /**< bytes; `used` includes the memory that each open run needs all the
                               time */
    uint64_t reads, evictions; /**< numbers of blocks, since the database was opened */
};
/** Fills as much as out->struct_size says. */
LLADD_API void lladd_dtable_cache_stats_get(struct lladd_db *, struct lladd_dtable_cache_stats *);

#ifdef __cplusplus
}
#endif
#endif
