/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_H
#define LLADD_DTABLE_H
/**
 * @file
 * @brief dTables: ordered tables that are composed of layers (Anvil, SOSP 2009).
 *
 * A *dTable* maps keys of one type to byte strings, in the order of the keys. Most are read-only. A
 * *run* (a sorted run) is built once, from rows in ascending order, by a tree of layers that a
 * configuration describes (an array of states, a dictionary over it, exceptions beside it); then it
 * can be searched and scanned. An *overlay* merges several tables into one; a newer table hides the
 * rows of older ones. A *memory* table can be written to.
 *
 * A table has one of three things for a key: nothing (LLADD_DTABLE_ABSENT: an older table may have
 * it), a tombstone (the key was deleted; older tables do not count), or a value, which may be
 * empty.
 *
 * Authors of layers include <lladd/dtable_class.h>; docs/dtables.md describes the library's layers.
 *
 * Threads: tables may be used by any number of threads; a cursor, a pin and a builder by one at a
 * time. Tables, cursors and pins are released before the database is closed.
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
    LLADD_DTABLE_DOUBLE = 3, /**< by value: -0.0 equals 0.0, NaN is not a key */
    LLADD_DTABLE_STRING = 4, /**< bytes other than 0, as unsigned bytes; a prefix comes first */
    LLADD_DTABLE_BYTES = 5   /**< any bytes, in the same order or in that of a named comparator */
};

/** A key. Numbers of all three types are in `number`, encoded so that unsigned comparison gives
 *  their order; strings and bytes are in `bytes`, which the caller owns. */
struct lladd_dtable_key {
    enum lladd_dtable_type type;
    uint64_t number;
    struct lladd_span bytes;
};

/** A key of type LLADD_DTABLE_U32. */
static inline struct lladd_dtable_key lladd_dtable_u32(uint32_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U32, v, {NULL, 0}};
    return k;
}
/** A key of type LLADD_DTABLE_U64. */
static inline struct lladd_dtable_key lladd_dtable_u64(uint64_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U64, v, {NULL, 0}};
    return k;
}
/** A key of type LLADD_DTABLE_BYTES; it refers to the caller's bytes. */
static inline struct lladd_dtable_key lladd_dtable_bytes(const void *bytes, size_t len)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_BYTES, 0, {bytes, len}};
    return k;
}
/** The key of a NUL-terminated text, without the NUL. */
LLADD_API struct lladd_dtable_key lladd_dtable_string(const char *text);
/** -0.0 becomes 0.0. NaN becomes a key that every call refuses with LLADD_BAD_ARGUMENT. */
LLADD_API struct lladd_dtable_key lladd_dtable_double(double v);
/** The number from which a key of type LLADD_DTABLE_DOUBLE was made. */
LLADD_API double lladd_dtable_as_double(const struct lladd_dtable_key *);
/** "u32", "u64", "double", "string", "bytes"; NULL for any other number. */
LLADD_API const char *lladd_dtable_type_name(enum lladd_dtable_type);

/** A named order of byte strings other than the usual one. A table that was built with it can only
 *  be opened where the comparator is registered. */
struct lladd_dtable_comparator {
    size_t struct_size;
    const char *name; /**< at most 63 bytes of [a-z0-9_.-] */
    void *ctx;
    /** Below 0, 0, above 0: a total order that never changes. */
    int (*compare)(void *ctx, struct lladd_span a, struct lladd_span b);
    /** A hash that is equal for keys that compare equal. NULL: only equal bytes compare equal */
    uint64_t (*hash)(void *ctx, struct lladd_span);
};
/** Registers a comparator with the handle; it must outlive the handle. LLADD_EXISTS if another one
 *  has the name, LLADD_BAD_REGISTRATION if it is incomplete. */
LLADD_API int lladd_dtable_comparator_add(struct lladd_db *, const struct lladd_dtable_comparator *,
                                          struct lladd_error *);

/* ---- values ---------------------------------------------------------------------------------- */

enum lladd_dtable_state {
    LLADD_DTABLE_ABSENT = 0,    /**< this table has nothing for the key */
    LLADD_DTABLE_TOMBSTONE = 1, /**< the key was deleted: older tables do not count */
    LLADD_DTABLE_FOUND = 2      /**< there is a value, of 0 bytes or more */
};

struct lladd_dtable_value {
    enum lladd_dtable_state state;
    struct lladd_span bytes; /**< if the state is FOUND */
};
/** A value in the state FOUND; it refers to the caller's bytes. */
static inline struct lladd_dtable_value lladd_dtable_value_of(const void *bytes, size_t len)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_FOUND, {bytes, len}};
    return v;
}
/** A tombstone. */
static inline struct lladd_dtable_value lladd_dtable_tombstone(void)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_TOMBSTONE, {NULL, 0}};
    return v;
}
/** The longest value and the longest key of any table, in bytes. */
#define LLADD_DTABLE_VALUE_MAX (UINT32_C(1) << 30)
#define LLADD_DTABLE_KEY_MAX 2048u

/** Keeps the result of a lookup in memory. A zeroed pin (LLADD_DTABLE_PIN_INIT) holds nothing. Each
 *  use releases the previous result, so one pin serves any number of lookups; call
 *  lladd_dtable_unpin at the end. */
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
/** Releases what the pin holds, and its memory; the pin may be used again. */
LLADD_API void lladd_dtable_unpin(struct lladd_dtable_pin *);

/** An interval of keys, from <= key < to, in which older tables' rows are all deleted, or none. */
struct lladd_dtable_interval {
    bool deleted;
    bool has_from, has_to; /**< false: unbounded on that side */
    struct lladd_dtable_key from, to;
};

/* ---- tables ---------------------------------------------------------------------------------- */

/** A table: a run, an overlay or a table in memory. */
struct lladd_dtable;

/** What the table has for a key. The value's bytes live until the pin is used again or released.
 *  0 whatever the state; LLADD_WRONG_TYPE if the table's keys are of another type. */
LLADD_API int lladd_dtable_lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                  struct lladd_dtable_pin *, struct lladd_dtable_value *out,
                                  struct lladd_error *);
/** The value only: *len (nullable) gets its length, `buf` as much of it as `size` allows.
 *  LLADD_NOT_FOUND if there is none. */
LLADD_API int lladd_dtable_get(const struct lladd_dtable *, const struct lladd_dtable_key *,
                               void *buf, size_t size, size_t *len, struct lladd_error *);
/** Besides rows a table may have deleted ranges (range tombstones): rows of older tables in them do
 *  not count. A lookup of such a key finds a tombstone; cursors do not show it. This call returns
 *  the interval that contains the key, or the first one if `key` is NULL; the next one begins where
 *  it ends. It may be part of a longer deleted range. The endpoints' bytes live until the two pins
 *  are used again or released. */
LLADD_API int lladd_dtable_interval_at(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                       struct lladd_dtable_pin pins[2],
                                       struct lladd_dtable_interval *out, struct lladd_error *);
/** The type of the table's keys. Any thread. */
LLADD_API enum lladd_dtable_type lladd_dtable_key_type(const struct lladd_dtable *);
/** Access by position, if all layers support it (lladd_dtable_places): rows have places from 0 up
 *  in the order of their keys. A place may be empty: its state is ABSENT. `key` and `value` may be
 *  NULL. LLADD_OUT_OF_RANGE beyond the last place, LLADD_BAD_STATE if rows have no places. */
LLADD_API int lladd_dtable_at(const struct lladd_dtable *, uint64_t place,
                              struct lladd_dtable_pin *, struct lladd_dtable_key *key,
                              struct lladd_dtable_value *value, struct lladd_error *);
/** The number of places; false if rows have none. */
LLADD_API bool lladd_dtable_places(const struct lladd_dtable *, uint64_t *n);
/** Closes the table. No cursor of it may be open, and no pin may hold anything of it. Closing an
 *  overlay does not close the tables it merges. */
LLADD_API void lladd_dtable_close(struct lladd_dtable *);

/* ---- cursors --------------------------------------------------------------------------------- */

enum {
    LLADD_DTABLE_TOMBSTONES = 1 /**< also show rows that are tombstones */
};

/** A position in the order of the keys: at a row, before the first, or after the last. */
struct lladd_dtable_cursor;

/** Opens a cursor, before the first row. */
LLADD_API int lladd_dtable_cursor_open(const struct lladd_dtable *, unsigned flags,
                                       struct lladd_dtable_cursor **out, struct lladd_error *);
/** Closes the cursor; NULL does nothing. The rows that it has returned are no longer valid. */
LLADD_API void lladd_dtable_cursor_close(struct lladd_dtable_cursor *);
/* Each of these moves the cursor. 0: it is at a row now. LLADD_END: it has left the table, and is
 * before the first row (prev, seek_for_prev, last) or after the last (the others); from there next
 * and prev lead back to the first and the last row. After any other error it is before the first
 * row. */
/** Moves to the first row. */
LLADD_API int lladd_dtable_first(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the last row. */
LLADD_API int lladd_dtable_last(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the next row; from before the first row, to the first. */
LLADD_API int lladd_dtable_next(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the previous row; from after the last row, to the last. */
LLADD_API int lladd_dtable_prev(struct lladd_dtable_cursor *, struct lladd_error *);
/** Moves to the row of the key, or the next one after it. */
LLADD_API int lladd_dtable_seek(struct lladd_dtable_cursor *, const struct lladd_dtable_key *,
                                struct lladd_error *);
/** Moves to the row of the key, or the last one before it. */
LLADD_API int lladd_dtable_seek_for_prev(struct lladd_dtable_cursor *,
                                         const struct lladd_dtable_key *, struct lladd_error *);
/** The row at the cursor; `key` and `value` may be NULL. The bytes live until the cursor moves.
 *  LLADD_BAD_STATE if it is at no row. */
LLADD_API int lladd_dtable_row(struct lladd_dtable_cursor *, struct lladd_dtable_key *key,
                               struct lladd_dtable_value *value, struct lladd_error *);

/** Rows by column. Zero it before the first use; call lladd_dtable_batch_free at the end. Row i has
 *  the number numbers[i] or the key bytes[key_end[i - 1], key_end[i]), the state states[i], and the
 *  value bytes[value_begin[i], value_end[i]). */
struct lladd_dtable_batch {
    size_t n;
    uint64_t *numbers;
    uint8_t *states;
    size_t *key_begin, *key_end, *value_begin, *value_end;
    unsigned char *bytes;
    size_t rows_, used_, size_;
    struct lladd_db *db_;
};
/** Copies the next rows, at most `max`; the cursor is then at the last of them. LLADD_END, with n
 *  0, if there are none. */
LLADD_API int lladd_dtable_next_n(struct lladd_dtable_cursor *, size_t max,
                                  struct lladd_dtable_batch *, struct lladd_error *);
/** Frees the memory of a batch; it may be used again afterwards. */
LLADD_API void lladd_dtable_batch_free(struct lladd_dtable_batch *);

/* ---- configurations -------------------------------------------------------------------------- */

/** A tree of layers with their parameters. */
struct lladd_dtable_config;

/** Reads a configuration in the paper's notation, or the longer one of docs/dtables.md:
 *
 *     config [ "base" class(dt) exception_dtable "base_config" config [
 *         "base" class(dt) array_dtable "base_config" config [ "value_size" int 5 ]
 *         "alt" class(dt) linear_dtable  # everything else
 *         "reject_value" string "_____" ] ]
 *
 *  LLADD_BAD_CONFIG names line, column and what was expected there. */
LLADD_API int lladd_dtable_config_parse(struct lladd_db *, const char *text,
                                        struct lladd_dtable_config **out, struct lladd_error *);
/** Makes a configuration without a text: a layer of a class; set its parameters afterwards. A child
 *  belongs to its parent once it is set there. Each call that takes a configuration checks it with
 *  lladd_dtable_config_check. */
LLADD_API int lladd_dtable_config_new(struct lladd_db *, const char *class_name,
                                      struct lladd_dtable_config **out, struct lladd_error *);
/** Sets a parameter that is a boolean. LLADD_BAD_CONFIG if the class has no such parameter of that
 *  type. */
LLADD_API int lladd_dtable_config_set_bool(struct lladd_dtable_config *, const char *name, bool,
                                           struct lladd_error *);
/** Sets a parameter that is an integer; errors as above. */
LLADD_API int lladd_dtable_config_set_int(struct lladd_dtable_config *, const char *name, int64_t,
                                          struct lladd_error *);
/** Sets a parameter that is a string or bytes, which are copied; errors as above. */
LLADD_API int lladd_dtable_config_set_bytes(struct lladd_dtable_config *, const char *name,
                                            struct lladd_span, struct lladd_error *);
/** Appends a word to a parameter that is a list of words. */
LLADD_API int lladd_dtable_config_add_word(struct lladd_dtable_config *, const char *name,
                                           struct lladd_span, struct lladd_error *);
/** Sets a child layer; a parameter that is a list of layers gets one more. */
LLADD_API int lladd_dtable_config_set_child(struct lladd_dtable_config *, const char *name,
                                            struct lladd_dtable_config *child,
                                            struct lladd_error *);
/** Checks that the configuration is complete and that each layer may be where it is, and fills in
 *  parameters that depend on other layers. Type 0: for any type of keys. */
LLADD_API int lladd_dtable_config_check(struct lladd_dtable_config *, enum lladd_dtable_type,
                                        struct lladd_error *);
/** For a checked configuration: does each layer that needs the size of values know it? If not,
 *  LLADD_BAD_CONFIG names the first layer that would learn it from the first value of a run, with
 *  line and column if the configuration was a text. */
LLADD_API int lladd_dtable_config_settled(const struct lladd_dtable_config *, struct lladd_error *);
/** Likewise: can tombstones of any key be stored? LLADD_BAD_CONFIG names the layer that cannot. */
LLADD_API int lladd_dtable_config_deletes(struct lladd_dtable_config *, struct lladd_error *);
/** Writes it as text with all parameters; parsing the text gives the same configuration. */
LLADD_API int lladd_dtable_config_print(const struct lladd_dtable_config *, struct lladd_sink *);
/** The same as a string; free it with lladd_mem_free. */
LLADD_API int lladd_dtable_config_text(const struct lladd_dtable_config *, char **out,
                                       struct lladd_error *);
/** Frees a configuration with its children; NULL does nothing. One that was set as a child is freed
 *  with its parent. */
LLADD_API void lladd_dtable_config_free(struct lladd_dtable_config *);

/* ---- runs ------------------------------------------------------------------------------------ */

/** Options of a new run. Zero means the default, for every member. */
struct lladd_dtable_run_options {
    size_t struct_size;
    enum lladd_dtable_type type;              /**< of its keys; must be given */
    const char *comparator;                   /**< for LLADD_DTABLE_BYTES; NULL: the usual order */
    const struct lladd_dtable_config *config; /**< or, if NULL: */
    const char *text;                         /**< default: a linear_dtable */
    uint32_t block_bytes; /**< unit of reading, verification and caching, at most 1 MiB; rounded to
                               whole pages. Default 8 KiB */
    const char *name;     /**< for messages, at most 63 bytes */
};
#define LLADD_DTABLE_RUN_OPTIONS_INIT_SIZE sizeof(struct lladd_dtable_run_options)
#define LLADD_DTABLE_RUN_OPTIONS_INIT LLADD_SIZED_INIT(lladd_dtable_run_options)

struct lladd_dtable_run_builder;

/** Begins a run in a transaction. Its contents are not logged; they are written to extents
 *  allocated in the transaction. The thread that uses the transaction uses the builder. Errors of
 *  the builder's calls are stored in the transaction. */
LLADD_API int lladd_dtable_run_begin(struct lladd_txn *, const struct lladd_dtable_run_options *,
                                     struct lladd_dtable_run_builder **out);
/** Adds a row, FOUND or TOMBSTONE, in ascending order of keys. LLADD_REJECTED if no layer can store
 *  the value; nothing has changed then. After any other error but misuse, only discard is
 *  possible. */
LLADD_API int lladd_dtable_run_add(struct lladd_dtable_run_builder *,
                                   const struct lladd_dtable_key *,
                                   const struct lladd_dtable_value *);
/** Adds a deleted range, from <= key < to, that hides rows of older tables; NULL: unbounded on that
 *  side. Ranges ascend and do not touch; they may be added before, between or after rows.
 *  LLADD_REJECTED if the outermost layer is not a ranges_dtable. */
LLADD_API int lladd_dtable_run_add_range(struct lladd_dtable_run_builder *,
                                         const struct lladd_dtable_key *from,
                                         const struct lladd_dtable_key *to);
/** Writes the rest and makes the run durable. When the transaction commits, the run can be opened
 *  by its root; if it is rolled back, all pages are free again. Releases the builder if it returns
 *  0. */
LLADD_API int lladd_dtable_run_finish(struct lladd_dtable_run_builder *, lladd_pageno *root);
/** Frees the run's pages and releases the builder whatever it returns; pages that could not be
 *  freed are freed when the transaction rolls back. Call it before the transaction ends or rolls
 *  back to a point before lladd_dtable_run_begin. NULL is allowed. */
LLADD_API int lladd_dtable_run_discard(struct lladd_dtable_run_builder *);

/** Opens a run. LLADD_NO_COMPARATOR, LLADD_BAD_CONFIG: it needs a comparator or a class that is not
 *  registered here. LLADD_OTHER_ORDER: under the registered comparator its first key does not come
 *  before its last one. LLADD_NEWER_FORMAT, LLADD_CORRUPT_RUN. LLADD_DESTROYED, LLADD_WRONG_TYPE or
 *  LLADD_CORRUPT_RUN if the page is not a run's root. */
LLADD_API int lladd_dtable_run_open(struct lladd_db *, lladd_pageno root, struct lladd_dtable **out,
                                    struct lladd_error *);
/** Is the page a run's root? *out says only that the page is the root of a blob that begins as a
 *  run's descriptor does. */
LLADD_API int lladd_dtable_run_there(struct lladd_db *, lladd_pageno, bool *out,
                                     struct lladd_error *);
/** Frees a run in the transaction. LLADD_BUSY if it is open on this handle. */
LLADD_API int lladd_dtable_run_free(struct lladd_txn *, lladd_pageno root);

struct lladd_dtable_run_info {
    size_t struct_size;
    uint64_t id, rows, tombstones;
    uint64_t bytes;      /**< of its contents, before they are divided into pages */
    uint64_t pages;      /**< all but the descriptor's */
    uint64_t row_bytes;  /**< of all keys and values, as they were added */
    uint32_t block_size; /**< bytes of contents in a block */
    uint32_t version;
    enum lladd_dtable_type type;
    const char *comparator;           /**< NULL: none; lives as long as the table */
    const char *config;               /**< resolved; likewise */
    const char *name;                 /**< likewise */
    struct lladd_dtable_key min, max; /**< if there are rows; likewise */
    uint64_t ranges;                  /**< number of deleted ranges */
};
/** Information on an open run. LLADD_WRONG_TYPE if the table is not a run. */
LLADD_API int lladd_dtable_run_info_get(const struct lladd_dtable *, struct lladd_dtable_run_info *,
                                        struct lladd_error *);
/** Calls fn for each page of a run, the descriptor's included; not 0 stops. */
LLADD_API int lladd_dtable_run_pages(struct lladd_db *, lladd_pageno root,
                                     int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                     struct lladd_error *);
/** Reads every block and every row, looks each key up, and compares with the descriptor.
 *  LLADD_CORRUPT_RUN names the run, the layer and the block. */
LLADD_API int lladd_dtable_run_check(const struct lladd_dtable *, struct lladd_error *);

/* ---- other tables ---------------------------------------------------------------------------- */

/** An empty table in memory. It can be written to, belongs to no transaction, and disappears when
 *  it is closed. `comparator`: as in lladd_dtable_run_options. */
LLADD_API int lladd_dtable_memory(struct lladd_db *, enum lladd_dtable_type, const char *comparator,
                                  struct lladd_dtable **out, struct lladd_error *);
/** Gives a key a value or a tombstone; state ABSENT removes the key. LLADD_WRONG_TYPE if the table
 *  is not in memory. */
LLADD_API int lladd_dtable_put(struct lladd_dtable *, const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *, struct lladd_error *);
/** Merges several tables with keys of one type and order: tables[0] is the newest. The caller keeps
 *  owning them and closes them after the overlay. */
LLADD_API int lladd_dtable_overlay(struct lladd_db *, struct lladd_dtable *const *tables, size_t n,
                                   struct lladd_dtable **out, struct lladd_error *);

/* ---- the cache of blocks --------------------------------------------------------------------- */

/** Sets the size of this handle's block cache. A block of a run is read once, verified once and
 *  kept in memory; together the blocks take at most `bytes`, but the cache always holds four
 *  blocks, also if what open runs keep in memory leaves no room for them. Pinned blocks count.
 *  Default 64 MiB. */
LLADD_API void lladd_dtable_cache_limit(struct lladd_db *, uint64_t bytes);
struct lladd_dtable_cache_stats {
    size_t struct_size;
    uint64_t limit, used; /**< bytes; `used` includes what open runs always keep in memory */
    uint64_t reads, evictions;
};
/** Fills as much as out->struct_size says. */
LLADD_API void lladd_dtable_cache_stats_get(struct lladd_db *, struct lladd_dtable_cache_stats *);

#ifdef __cplusplus
}
#endif
#endif
