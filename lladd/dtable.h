/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_H
#define LLADD_DTABLE_H
/**
 * @file
 * @brief dTables: ordered tables that are put together from layers (Anvil, SOSP 2009).
 *
 * A *dTable* maps keys of one type to byte strings, in the order of the keys. Most are read-only: a
 * *run* is built once, from rows in ascending order, by a tree of layers that a configuration
 * describes (an array of states, a dictionary over it, exceptions beside it), and is then looked up
 * and walked through. An *overlay* makes one table of several, newer ones in front of older ones. A
 * *memory* table can be written to.
 *
 * What a key has is one of three things, everywhere: nothing (LLADD_DTABLE_ABSENT: ask an older
 * table), a tombstone (it has been deleted, do not ask), or a value, which may be empty.
 *
 * Who wants to write a layer of his own includes <lladd/dtable_class.h>; docs/dtables.md tells of
 * the layers there are.
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

/* ---- keys ------------------------------------------------------------------------------------ */

enum lladd_dtable_type {
    LLADD_DTABLE_U32 = 1,    /**< unsigned integers below 2^32 */
    LLADD_DTABLE_U64 = 2,    /**< unsigned integers */
    LLADD_DTABLE_DOUBLE = 3, /**< by value: -0.0 is 0.0, and what is not a number is no key */
    LLADD_DTABLE_STRING = 4, /**< bytes other than 0, as unsigned bytes; a prefix comes first */
    LLADD_DTABLE_BYTES = 5   /**< any bytes, likewise, or as a named comparator has it */
};

/** A key. Numbers of all three types are in `number`, in a form whose order as an unsigned integer
 *  is theirs; strings and bytes in `bytes`, which is the caller's. */
struct lladd_dtable_key {
    enum lladd_dtable_type type;
    uint64_t number;
    struct lladd_span bytes;
};

static inline struct lladd_dtable_key lladd_dtable_u32(uint32_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U32, v, {NULL, 0}};
    return k;
}
static inline struct lladd_dtable_key lladd_dtable_u64(uint64_t v)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_U64, v, {NULL, 0}};
    return k;
}
static inline struct lladd_dtable_key lladd_dtable_bytes(const void *bytes, size_t len)
{
    struct lladd_dtable_key k = {LLADD_DTABLE_BYTES, 0, {bytes, len}};
    return k;
}
/** Of a text that ends with a zero byte, which does not count. */
LLADD_API struct lladd_dtable_key lladd_dtable_string(const char *text);
/** -0.0 becomes 0.0. NaN becomes a key that every call refuses with LLADD_BAD_ARGUMENT. */
LLADD_API struct lladd_dtable_key lladd_dtable_double(double v);
/** The number a key of type LLADD_DTABLE_DOUBLE was made of. */
LLADD_API double lladd_dtable_as_double(const struct lladd_dtable_key *);
/** "u32", "u64", "double", "string", "bytes"; NULL for what is no type. */
LLADD_API const char *lladd_dtable_type_name(enum lladd_dtable_type);

/** An order of byte strings other than the usual one, known by its name: a table that was built
 *  with it can only be opened where it is registered. */
struct lladd_dtable_comparator {
    size_t struct_size;
    const char *name; /**< at most 63 bytes of [a-z0-9_.-] */
    void *ctx;
    /** Below 0, 0, above 0: a total order, the same for ever. */
    int (*compare)(void *ctx, struct lladd_span a, struct lladd_span b);
    /** A hash that is equal for keys that compare equal. Nullable: only equal bytes do */
    uint64_t (*hash)(void *ctx, struct lladd_span);
};
/** Makes a comparator known to the handle; it must outlive it. LLADD_EXISTS if another one has the
 *  name, LLADD_BAD_REGISTRATION if something is missing. */
LLADD_API int lladd_dtable_comparator_add(struct lladd_db *, const struct lladd_dtable_comparator *,
                                          struct lladd_error *);

/* ---- values ---------------------------------------------------------------------------------- */

enum lladd_dtable_state {
    LLADD_DTABLE_ABSENT = 0,    /**< nothing is known of the key here */
    LLADD_DTABLE_TOMBSTONE = 1, /**< the key was deleted: what older tables say does not count */
    LLADD_DTABLE_FOUND = 2      /**< there is a value, of 0 bytes or more */
};

struct lladd_dtable_value {
    enum lladd_dtable_state state;
    struct lladd_span bytes; /**< of a state FOUND */
};
static inline struct lladd_dtable_value lladd_dtable_value(const void *bytes, size_t len)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_FOUND, {bytes, len}};
    return v;
}
static inline struct lladd_dtable_value lladd_dtable_tombstone(void)
{
    struct lladd_dtable_value v = {LLADD_DTABLE_TOMBSTONE, {NULL, 0}};
    return v;
}
/** The longest value and the longest key of any table, in bytes. */
#define LLADD_DTABLE_VALUE_MAX (UINT32_C(1) << 30)
#define LLADD_DTABLE_KEY_MAX 2048u

/** Keeps in place what a lookup gives. Zeroed (LLADD_DTABLE_PIN_INIT) it holds nothing; used again
 *  it lets go what it held, so one pin does for any number of lookups; lladd_dtable_unpin in the
 *  end. */
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
LLADD_API void lladd_dtable_unpin(struct lladd_dtable_pin *);

/** A stretch of keys, from <= key < to, all of which are deleted in older tables, or none. */
struct lladd_dtable_stretch {
    bool deleted;
    bool has_from, has_to; /**< else it has no such end */
    struct lladd_dtable_key from, to;
};

/* ---- tables ---------------------------------------------------------------------------------- */

/** A run, an overlay, a table in memory: whatever can be looked up. */
struct lladd_dtable;

/** What the table has for a key. The value's bytes live until the pin is used again or released.
 *  0 whatever the state; LLADD_WRONG_TYPE if the table's keys are of another type. */
LLADD_API int lladd_dtable_lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                  struct lladd_dtable_pin *, struct lladd_dtable_value *out,
                                  struct lladd_error *);
/** For who only wants the value: *len (nullable) gets its length, `buf` as much of it as `size`
 *  allows. LLADD_NOT_FOUND if there is none. */
LLADD_API int lladd_dtable_get(const struct lladd_dtable *, const struct lladd_dtable_key *,
                               void *buf, size_t size, size_t *len, struct lladd_error *);
/** Beside rows a table may have ranges of keys that are deleted: what older tables have there does
 *  not count. A lookup says of such a key that it has a tombstone; cursors do not show it. This
 *  gives the stretch around a key, or, if that is NULL, the one that comes first; the next one
 *  begins where it ends. It may be a part of a longer one. The ends' bytes live until the two pins
 *  are used again or released. */
LLADD_API int lladd_dtable_stretch_at(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                      struct lladd_dtable_pin pins[2],
                                      struct lladd_dtable_stretch *out, struct lladd_error *);
LLADD_API enum lladd_dtable_type lladd_dtable_key_type(const struct lladd_dtable *);
/** Indexed access, where all layers can do it (lladd_dtable_places tells): rows have places from 0
 *  up in the order of their keys. A place may be a hole: its state is ABSENT. `key` and `value` may
 *  be NULL. LLADD_OUT_OF_RANGE beyond the last place, LLADD_BAD_STATE if there are none. */
LLADD_API int lladd_dtable_at(const struct lladd_dtable *, uint64_t place,
                              struct lladd_dtable_pin *, struct lladd_dtable_key *key,
                              struct lladd_dtable_value *value, struct lladd_error *);
/** How many places there are; false if rows have none. */
LLADD_API bool lladd_dtable_places(const struct lladd_dtable *, uint64_t *n);
/** Releases the table; no cursor of it is open any more, and no pin holds anything of it. Of an
 *  overlay the tables below it are their owners' to close. */
LLADD_API void lladd_dtable_close(struct lladd_dtable *);

/* ---- cursors --------------------------------------------------------------------------------- */

enum {
    LLADD_DTABLE_TOMBSTONES = 1 /**< rows that are tombstones are shown, too */
};

/** A place in the order of the keys: at a row, before the first, or behind the last. */
struct lladd_dtable_cursor;

/** Opens a cursor, before the first row. */
LLADD_API int lladd_dtable_cursor_open(const struct lladd_dtable *, unsigned flags,
                                       struct lladd_dtable_cursor **out, struct lladd_error *);
LLADD_API void lladd_dtable_cursor_close(struct lladd_dtable_cursor *);
/* Each of these moves the cursor: 0 if it is at a row now, LLADD_END if it ran off the table, and
 * is before the first row (prev, seek_for_prev, last) or behind the last (the others). From there,
 * next and prev lead back to the first and the last row. After any other error it is before the
 * first. */
/** To the first row. */
LLADD_API int lladd_dtable_first(struct lladd_dtable_cursor *, struct lladd_error *);
LLADD_API int lladd_dtable_last(struct lladd_dtable_cursor *, struct lladd_error *);
LLADD_API int lladd_dtable_next(struct lladd_dtable_cursor *, struct lladd_error *);
LLADD_API int lladd_dtable_prev(struct lladd_dtable_cursor *, struct lladd_error *);
/** To the row of the key, or the next one behind it. */
LLADD_API int lladd_dtable_seek(struct lladd_dtable_cursor *, const struct lladd_dtable_key *,
                                struct lladd_error *);
/** To the row of the key, or the next one before it. */
LLADD_API int lladd_dtable_seek_for_prev(struct lladd_dtable_cursor *,
                                         const struct lladd_dtable_key *, struct lladd_error *);
/** The row the cursor is at; `key` and `value` may be NULL. What it gives lives until the cursor
 *  moves. LLADD_BAD_STATE if it is at none. */
LLADD_API int lladd_dtable_row(struct lladd_dtable_cursor *, struct lladd_dtable_key *key,
                               struct lladd_dtable_value *value, struct lladd_error *);

/** Rows by the column. Zeroed before its first use; lladd_dtable_batch_free in the end. Row i has
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
/** The next rows, at most `max`, copied: the cursor is at the last of them afterwards. LLADD_END,
 *  and n is 0, if there are none. */
LLADD_API int lladd_dtable_next_n(struct lladd_dtable_cursor *, size_t max,
                                  struct lladd_dtable_batch *, struct lladd_error *);
LLADD_API void lladd_dtable_batch_free(struct lladd_dtable_batch *);

/* ---- configurations -------------------------------------------------------------------------- */

/** A tree of layers with their parameters, all of it checked. */
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
/** The same without a text: a layer of a class, whose parameters are then set; a child belongs to
 *  its parent once it is set. Checked by lladd_dtable_config_check, which whoever is given it
 * does. */
LLADD_API int lladd_dtable_config_new(struct lladd_db *, const char *class_name,
                                      struct lladd_dtable_config **out, struct lladd_error *);
LLADD_API int lladd_dtable_config_set_bool(struct lladd_dtable_config *, const char *name, bool,
                                           struct lladd_error *);
LLADD_API int lladd_dtable_config_set_int(struct lladd_dtable_config *, const char *name, int64_t,
                                          struct lladd_error *);
LLADD_API int lladd_dtable_config_set_bytes(struct lladd_dtable_config *, const char *name,
                                            struct lladd_span, struct lladd_error *);
/** Adds one to a list of words. */
LLADD_API int lladd_dtable_config_add_word(struct lladd_dtable_config *, const char *name,
                                           struct lladd_span, struct lladd_error *);
/** A list of layers gets one more. */
LLADD_API int lladd_dtable_config_set_child(struct lladd_dtable_config *, const char *name,
                                            struct lladd_dtable_config *child,
                                            struct lladd_error *);
/** Is it complete, and can each layer be where it is? Fills in what was left to be settled. Of type
 *  0: whatever the keys are. */
LLADD_API int lladd_dtable_config_check(struct lladd_dtable_config *, enum lladd_dtable_type,
                                        struct lladd_error *);
/** Writes it as text, all parameters included; parsed again, it is the same. */
LLADD_API int lladd_dtable_config_print(const struct lladd_dtable_config *, struct lladd_sink *);
/** The same as a string, which lladd_free frees. */
LLADD_API int lladd_dtable_config_text(const struct lladd_dtable_config *, char **out,
                                       struct lladd_error *);
LLADD_API void lladd_dtable_config_free(struct lladd_dtable_config *);

/* ---- runs ------------------------------------------------------------------------------------ */

/** Of a new run. Zero means default, everywhere. */
struct lladd_dtable_run_options {
    size_t struct_size;
    enum lladd_dtable_type type; /**< of its keys; must be given */
    const char *comparator;      /**< for LLADD_DTABLE_BYTES; NULL: the usual order */
    const struct lladd_dtable_config *config; /**< or, if NULL: */
    const char *text;                         /**< default: a linear_dtable */
    uint32_t block_bytes; /**< what is read, verified and kept at a time, at most 1 MiB. Default
                               8 KiB; whole pages */
    const char *name;     /**< for messages, at most 63 bytes */
};
#define LLADD_DTABLE_RUN_OPTIONS_INIT_SIZE sizeof(struct lladd_dtable_run_options)
#ifdef __cplusplus
#define LLADD_DTABLE_RUN_OPTIONS_INIT \
    lladd_dtable_run_options \
    { \
        sizeof(struct lladd_dtable_run_options) \
    }
#else
#define LLADD_DTABLE_RUN_OPTIONS_INIT \
    { \
        .struct_size = sizeof(struct lladd_dtable_run_options) \
    }
#endif

struct lladd_dtable_run_builder;

/** Begins a run in a transaction. Its contents go past the log, to extents taken in the
 *  transaction; the builder is used by the thread that uses the transaction. Errors of the
 * builder's  calls are the transaction's. */
LLADD_API int lladd_dtable_run_begin(struct lladd_txn *, const struct lladd_dtable_run_options *,
                                     struct lladd_dtable_run_builder **out);
/** Adds a row, FOUND or TOMBSTONE; keys ascend. LLADD_REJECTED if no layer can store the value, and
 *  nothing has changed; after any other error but misuse, only discard is possible. */
LLADD_API int lladd_dtable_run_add(struct lladd_dtable_run_builder *,
                                   const struct lladd_dtable_key *,
                                   const struct lladd_dtable_value *);
/** Adds a range that is deleted, from <= key < to, in older tables; NULL: that end is open. Ranges
 *  ascend, and do not touch; they may come before rows, among them, or later. LLADD_REJECTED if the
 *  outermost layer is no ranges_dtable. */
LLADD_API int lladd_dtable_run_add_range(struct lladd_dtable_run_builder *,
                                         const struct lladd_dtable_key *from,
                                         const struct lladd_dtable_key *to);
/** Writes the rest, makes all of it durable, and the run can be reached by its root when the
 *  transaction commits; if that is rolled back, every page is free again. Releases the builder if
 * it  returns 0. */
LLADD_API int lladd_dtable_run_finish(struct lladd_dtable_run_builder *, lladd_pageno *root);
/** Gives back what the run has taken, and releases the builder whatever it returns; pages that
 *  could not be given back are when the transaction rolls back. To be called before the transaction
 *  ends, or rolls back to before lladd_dtable_run_begin. NULL is fine. */
LLADD_API int lladd_dtable_run_discard(struct lladd_dtable_run_builder *);

/** Opens a run. LLADD_NO_COMPARATOR and LLADD_BAD_CONFIG if it needs a comparator or a class that
 *  is not registered here, LLADD_NEWER_FORMAT, LLADD_CORRUPT_RUN; LLADD_DESTROYED, LLADD_WRONG_TYPE
 *  and LLADD_CORRUPT_RUN if the page is no run's root. */
LLADD_API int lladd_dtable_run_open(struct lladd_db *, lladd_pageno root, struct lladd_dtable **out,
                                    struct lladd_error *);
/** Is a run's root there? *out: no more than that the page is the root of a blob that begins as its
 *  descriptor does. */
LLADD_API int lladd_dtable_run_there(struct lladd_db *, lladd_pageno, bool *out,
                                     struct lladd_error *);
/** Frees a run in the transaction. LLADD_BUSY if it is open on this handle. */
LLADD_API int lladd_dtable_run_free(struct lladd_txn *, lladd_pageno root);

struct lladd_dtable_run_info {
    size_t struct_size;
    uint64_t id, rows, tombstones;
    uint64_t bytes;      /**< of its contents, before they are cut into pages */
    uint64_t pages;      /**< all of them, the descriptor's not */
    uint64_t row_bytes;  /**< of all keys and values, as they were added */
    uint32_t block_size; /**< bytes of contents in a block */
    uint32_t version;
    enum lladd_dtable_type type;
    const char *comparator; /**< NULL: none; lives as long as the table */
    const char *config;     /**< resolved; likewise */
    const char *name;       /**< likewise */
    struct lladd_dtable_key min, max; /**< if there are rows; likewise */
    uint64_t ranges; /**< that are deleted */
};
/** Of an open run. LLADD_WRONG_TYPE if the table is none. */
LLADD_API int lladd_dtable_run_info(const struct lladd_dtable *, struct lladd_dtable_run_info *,
                                    struct lladd_error *);
/** Calls fn for each page of a run, the descriptor's included; not 0 stops. */
LLADD_API int lladd_dtable_run_pages(struct lladd_db *, lladd_pageno root,
                                     int (*fn)(void *ctx, lladd_pageno), void *ctx,
                                     struct lladd_error *);
/** Reads every block and every row, and looks each key up: does it hold what its descriptor says,
 *  in order, and is it found? LLADD_CORRUPT_RUN names the run, the layer and the block. */
LLADD_API int lladd_dtable_run_check(const struct lladd_dtable *, struct lladd_error *);

/* ---- other tables ---------------------------------------------------------------------------- */

/** A table in memory, empty. Can be written to, is no part of any transaction, and gone when it is
 *  closed. `comparator`: as in lladd_dtable_run_options. */
LLADD_API int lladd_dtable_memory(struct lladd_db *, enum lladd_dtable_type, const char *comparator,
                                  struct lladd_dtable **out, struct lladd_error *);
/** Gives a key a value or a tombstone; state ABSENT takes it out. LLADD_WRONG_TYPE if the table is
 *  not in memory. */
LLADD_API int lladd_dtable_put(struct lladd_dtable *, const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *, struct lladd_error *);
/** One table of several with keys of one type and order: tables[0] is the newest. They stay their
 *  owner's, who closes them later than the overlay. */
LLADD_API int lladd_dtable_overlay(struct lladd_db *, struct lladd_dtable *const *tables, size_t n,
                                   struct lladd_dtable **out, struct lladd_error *);

/* ---- the cache of blocks --------------------------------------------------------------------- */

/** Blocks of runs are read once, verified once, and kept in memory up to so many bytes in all, on
 *  this handle; or, where what open runs always have leaves no room for them, four blocks. Default
 *  64 MiB. Who pins takes from it. */
LLADD_API void lladd_dtable_cache_limit(struct lladd_db *, uint64_t bytes);
struct lladd_dtable_cache_stats {
    size_t struct_size;
    uint64_t limit, used; /**< bytes; used: with what open runs always have in memory */
    uint64_t reads, evictions;
};
/** Fills as much as out->struct_size says. */
LLADD_API void lladd_dtable_cache_stats(struct lladd_db *, struct lladd_dtable_cache_stats *);

#ifdef __cplusplus
}
#endif
#endif
