/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_CLASS_H
#define LLADD_DTABLE_CLASS_H
/**
 * @file
 * @brief For authors of dTable classes: the callbacks of a layer, and the functions that they may
 * call.
 *
 * A class declares its capabilities, a builder that adds rows, and a reader that finds rows. The
 * library does the rest: it parses and checks configurations, and manages cursors, blocks and their
 * checksums, the cache, extents, and the run's descriptor.
 *
 * A class implements one of three ways of reading, the simplest first:
 *
 *  - a *transforming* class has `encode`, `decode` and one child, "base", that stores the encoded
 *    values. It needs no other callback.
 *  - a *storing* class has `find` and `at`. Rows have places, 0, 1, 2 ... in the order of their
 *    keys. `find` returns the place of a key or of the next key after it, `at` returns the row at a
 *    place.
 *  - any other class has `lookup`, `cursor_size` and the cursor callbacks. If it also has `find` or
 *    `at`, its rows have places.
 *
 * A class with a child "base" and none of these callbacks passes every call to the base. A class
 * with a base and only the callback `lookup` is an index or a filter. Threads share a reader, so a
 * lookup keeps its state on the stack, in the pin, or in the cursor, never in the reader.
 *
 * The library's own classes (operations/dtables/class/ and operations/dtables/pack/) use only
 * public headers, besides small helpers of operations/shared/.
 * @ingroup operations
 */
#include <lladd/bytes.h>
#include <lladd/dtable_row.h>
#include <lladd/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A result of `add`, `encode` and `accepts` that is neither 0 nor an error: this layer cannot
 *  store the value, and has changed nothing. The nearest layer above that can handle rejected
 *  values stores the value elsewhere; without such a layer the application gets LLADD_REJECTED. */
#define LLADD_DTABLE_REJECT 1

#define LLADD_DTABLE_ANY_SIZE UINT64_MAX
#define LLADD_DTABLE_NUMBERS \
    (1u << LLADD_DTABLE_U32 | 1u << LLADD_DTABLE_U64 | 1u << LLADD_DTABLE_DOUBLE)
#define LLADD_DTABLE_ALL_TYPES \
    (LLADD_DTABLE_NUMBERS | 1u << LLADD_DTABLE_STRING | 1u << LLADD_DTABLE_BYTES)

/** The capabilities of a configured layer. */
struct lladd_dtable_caps {
    unsigned types;      /**< types of keys: 1u << LLADD_DTABLE_U32 and so on, or'ed */
    bool places;         /**< a row can be read by its place */
    bool tombstones;     /**< tombstones can be stored */
    bool empty;          /**< values of no bytes can be stored */
    uint64_t value_size; /**< bytes of every value, or LLADD_DTABLE_ANY_SIZE */
    bool all_values;     /**< the layer rejects a value only because of its size. `configure` sets
                              this member; a class without `encode` gets it from its base */
    bool ranges;         /**< deleted ranges can be stored, by `add_range` of the class or of its
                              base; all layers above pass every call on unchanged */
    bool learned;        /**< the layer takes the size of all values from the first value of a run.
                              A class that knows the size of its base's values tells the base this
                              size: it calls lladd_dtable_accepts with a value of this size */
    bool absent;         /**< keys without a row, state ABSENT, can be added. Such a layer must be
                              the outermost one */
};

/* ---- configuration --------------------------------------------------------------------------- */

enum lladd_dtable_param_type {
    LLADD_DTABLE_PARAM_END = 0,
    LLADD_DTABLE_PARAM_BOOL = 1,
    LLADD_DTABLE_PARAM_INT = 2,
    LLADD_DTABLE_PARAM_BYTES = 3, /**< written as string "..." or blob 616263 */
    LLADD_DTABLE_PARAM_WORDS = 4, /**< a list of BYTES: words [ "a" "b" ] */
    LLADD_DTABLE_PARAM_CHILD = 5, /**< a layer below: "base" class(dt) x "base_config" config [ ] */
    /** A list of layers below: "groups" layers [ class(dt) x config [ ] class(dt) y ] */
    LLADD_DTABLE_PARAM_LAYERS = 6
};
/** One parameter of a class. Arrays end with type END. */
struct lladd_dtable_param {
    const char *name;
    enum lladd_dtable_param_type type;
    bool required;
    int64_t otherwise; /**< default of a BOOL or INT */
    int64_t min, max;  /**< limits of an INT */
    const char *about; /**< one line */
};

/** Returns the configured boolean, or the parameter's default. Here and below, the name must be
 *  that of a parameter of the class. */
LLADD_API bool lladd_dtable_param_bool(const struct lladd_dtable_config *, const char *name);
/** Returns the configured integer, or the parameter's default. */
LLADD_API int64_t lladd_dtable_param_int(const struct lladd_dtable_config *, const char *name);
/** Gets the configured bytes; returns false if they were not given. They live as long as the
 *  configuration. */
LLADD_API bool lladd_dtable_param_bytes(const struct lladd_dtable_config *, const char *name,
                                        struct lladd_span *out);
/** Returns the number of words in a parameter that is a list; 0 if it was not given. */
LLADD_API size_t lladd_dtable_param_words(const struct lladd_dtable_config *, const char *name);
/** Returns the i-th word of a list. The bytes live as long as the configuration. */
LLADD_API struct lladd_span lladd_dtable_param_word(const struct lladd_dtable_config *,
                                                    const char *name, size_t i);
/** Sets an integer parameter that was not given, so that the printed configuration contains the
 *  parameter. For `configure` and `accepts`. */
LLADD_API void lladd_dtable_settle_int(struct lladd_dtable_config *, const char *name, int64_t);
/** Returns the layer below; NULL if the parameter was not given. */
LLADD_API struct lladd_dtable_config *lladd_dtable_param_child(const struct lladd_dtable_config *,
                                                               const char *name);
/** Returns the i-th layer of a list; NULL if the list is shorter. */
LLADD_API struct lladd_dtable_config *lladd_dtable_param_layer(const struct lladd_dtable_config *,
                                                               const char *name, size_t i);
/** Returns the capabilities that `configure` has set. */
LLADD_API const struct lladd_dtable_caps *lladd_dtable_caps_get(const struct lladd_dtable_config *);
/** Sets the class's state in the configuration, for `configure`. The library frees it with
 *  lladd_mem_free when it frees the configuration. */
LLADD_API void lladd_dtable_config_state_set(struct lladd_dtable_config *, void *state);
/** Returns the state set with lladd_dtable_config_state_set; NULL: none. */
LLADD_API void *lladd_dtable_config_state(const struct lladd_dtable_config *);
/** Returns true when the whole configuration has been checked. From then on threads share the
 *  configuration, and it must not change. */
LLADD_API bool lladd_dtable_config_done(const struct lladd_dtable_config *);
/** Returns 0 if the layer and the layers below it could store the value, else LLADD_DTABLE_REJECT.
 *  A class calls it in `configure`, to test whether the layer below can store the class's
 *  placeholder values. */
LLADD_API int lladd_dtable_accepts(struct lladd_dtable_config *, const struct lladd_dtable_value *,
                                   struct lladd_error *);
/** Returns the handle of the configuration, for lladd_mem_alloc. */
LLADD_API struct lladd_db *lladd_dtable_config_db(const struct lladd_dtable_config *);

/* ---- the order of keys ----------------------------------------------------------------------- */

/** The order of a table's keys. */
struct lladd_dtable_order {
    enum lladd_dtable_type type;
    const struct lladd_dtable_comparator *comparator; /**< NULL: the order of unsigned bytes, or of
                                                           numbers */
};
/** *out gets the order of keys of a type; `comparator` as in lladd_dtable_run_options.
 *  LLADD_BAD_ARGUMENT for a comparator with a type other than LLADD_DTABLE_BYTES;
 *  LLADD_NO_COMPARATOR if the comparator is not registered. */
LLADD_API int lladd_dtable_order_of(struct lladd_db *, enum lladd_dtable_type,
                                    const char *comparator, struct lladd_dtable_order *out,
                                    struct lladd_error *);
/** Returns 0 if the key can be in a table with this order; else LLADD_WRONG_TYPE,
 *  LLADD_BAD_ARGUMENT or LLADD_TOO_LARGE. */
LLADD_API int lladd_dtable_check_key(const struct lladd_dtable_order *,
                                     const struct lladd_dtable_key *, struct lladd_error *);
/** Compares the bytes of two keys of the order's type: returns a negative number, 0, or a positive
 *  number. */
LLADD_API int lladd_dtable_compare_bytes(const struct lladd_dtable_order *, struct lladd_span,
                                         struct lladd_span);
/** Compares two keys of the order's type: returns a negative number, 0, or a positive number. */
static inline int lladd_dtable_compare(const struct lladd_dtable_order *o,
                                       const struct lladd_dtable_key *a,
                                       const struct lladd_dtable_key *b)
{
    if (o->type >= LLADD_DTABLE_STRING)
        return lladd_dtable_compare_bytes(o, a->bytes, b->bytes);
    return a->number < b->number ? -1 : a->number > b->number;
}
/** Returns the prefix of a key: a number key itself, else the first bytes of the key as a number; 0
 *  with a comparator. A smaller key never has a larger prefix. */
static inline uint64_t lladd_dtable_prefix(const struct lladd_dtable_order *o,
                                           const struct lladd_dtable_key *key)
{
    const size_t len = key->bytes.len;
    if (o->type < LLADD_DTABLE_STRING)
        return key->number;
    if (o->comparator || len == 0)
        return 0;
    return __builtin_bswap64(len < sizeof(uint64_t) ? lladd_get_few(key->bytes.data, len)
                                                    : lladd_get64(key->bytes.data));
}
/** The smallest and the largest prefix of a table's keys, including tombstones. Overlays and
 *  managed tables skip a table if a key's prefix is outside of the range. `low` is the smallest
 *  prefix, `over` is UINT64_MAX minus the largest; both 0: unknown. The fields are accessed
 *  atomically. */
struct lladd_dtable_key_range {
    uint64_t low, over;
};
/** The key range of a table without keys. */
#define LLADD_DTABLE_KEY_RANGE_EMPTY \
    { \
        UINT64_MAX, UINT64_MAX \
    }
/** Returns false if no key of the table has the prefix. Any thread. */
static inline bool lladd_dtable_key_range_has(const struct lladd_dtable_key_range *f,
                                              uint64_t prefix)
{
    uint64_t low = lladd_atomic_load64(&f->low);
    return prefix - low <= UINT64_MAX - lladd_atomic_load64(&f->over) - low;
}
/** Extends the range to include the prefix; call it before the key is inserted. One thread at a
 *  time. */
static inline void lladd_dtable_key_range_widen(struct lladd_dtable_key_range *f, uint64_t prefix)
{
    if (prefix < lladd_atomic_load64(&f->low))
        lladd_atomic_store64(&f->low, prefix);
    if (UINT64_MAX - prefix < lladd_atomic_load64(&f->over))
        lladd_atomic_store64(&f->over, UINT64_MAX - prefix);
}
/** Returns a hash of a key. Keys that compare equal have equal hashes, and the hash does not depend
 *  on the machine. */
LLADD_API uint64_t lladd_dtable_hash(const struct lladd_dtable_order *,
                                     const struct lladd_dtable_key *);

/* ---- building -------------------------------------------------------------------------------- */

/** The head of a class's builder, filled in before `begin`. */
struct lladd_dtable_builder {
    const struct lladd_dtable_class *kind;
    const struct lladd_dtable_config *config;
    struct lladd_db *db;
    struct lladd_error *error; /**< where callbacks report errors */
    struct lladd_dtable_order order;
    uint64_t place;                    /**< place of the row just added, if the layer has places.
                                            The library counts the rows; `add` sets the place if the
                                            places of the layer do not count rows */
    uint64_t mark;                     /**< mark of the row just added, if the class has `at_mark`;
                                            set by `add` */
    struct lladd_dtable_builder *base; /**< child "base"; NULL: no base */
    struct lladd_dtable_run_builder *run_;
    struct lladd_dtable_builder *parent_, *next_;
    const char *slot_;
    unsigned char *footer_;
    size_t footer_len_;
    uint64_t rows_;
    uint32_t number_;
    bool begun_, packed_;
};

/** Returns the builder of a layer below. */
LLADD_API struct lladd_dtable_builder *lladd_dtable_builder_child(struct lladd_dtable_builder *,
                                                                  const char *name);
/** Returns the builder of the i-th layer of a list. */
LLADD_API struct lladd_dtable_builder *lladd_dtable_builder_layer(struct lladd_dtable_builder *,
                                                                  const char *name, size_t i);
/** Adds a row to a layer below: 0, LLADD_DTABLE_REJECT or an error. */
LLADD_API int lladd_dtable_add(struct lladd_dtable_builder *, const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *);

/** A stream of a layer, while it is being written. */
struct lladd_dtable_writer;
/** Begins a stream of the layer; `name` has at most 31 bytes. The library finishes the stream with
 *  the layer. */
LLADD_API int lladd_dtable_stream(struct lladd_dtable_builder *, const char *name,
                                  struct lladd_dtable_writer **out);
/** Returns the number of bytes of contents in a block. */
LLADD_API uint32_t lladd_dtable_block_size(const struct lladd_dtable_builder *);
/** Returns the number of bytes written so far, including padding: the offset of the next byte. */
LLADD_API uint64_t lladd_dtable_written(const struct lladd_dtable_writer *);
/** Appends bytes. */
LLADD_API int lladd_dtable_write(struct lladd_dtable_writer *, const void *bytes, size_t len);
/** Fills the current block up with zeros, so that the next byte begins a block. */
LLADD_API int lladd_dtable_pad(struct lladd_dtable_writer *);
/** Appends a cell for lladd_dtable_cell. All cells of a stream have the same length, at most a
 *  block; a cell never crosses the end of a block. */
LLADD_API int lladd_dtable_write_cell(struct lladd_dtable_writer *, const void *bytes, size_t len);
/** Sets the layer's footer (at most 64 KiB), which the reader always has in memory. Call it in
 *  `finish`. */
LLADD_API int lladd_dtable_footer(struct lladd_dtable_builder *, const void *bytes, size_t len);

/* ---- reading --------------------------------------------------------------------------------- */

/** The head of a class's reader, filled in before `open`. A table is a reader. */
struct lladd_dtable {
    const struct lladd_dtable_class *kind;
    const struct lladd_dtable_config *config; /**< NULL for tables that are not runs */
    struct lladd_db *db;
    struct lladd_dtable_order order;
    bool has_places;
    uint64_t places; /**< number of places. `open` of a storing class sets it; other layers have the
                          number of their base */
    uint64_t ranges; /**< number of deleted intervals, set in the same way; 0: `interval` is not
                          called */
    /** Key range of the whole run; for other tables, the known part of the key range. */
    struct lladd_dtable_key_range key_range;
    uint32_t version; /**< version of the class that wrote the layer: the present version or an
                           older one */
    struct lladd_span footer;
    struct lladd_dtable *base; /**< child "base"; NULL: no base */
    struct lladd_dtable *parent_, *next_;
    const char *slot_;
    struct ll_dtable_run *run_;
    uint32_t number_;
    bool opened_, packed_;
};

/** Returns the reader of a layer below; NULL if there is no layer of that name. */
LLADD_API struct lladd_dtable *lladd_dtable_child(const struct lladd_dtable *, const char *name);

/** Returns the reader of the i-th layer of a list; NULL if the list is shorter. */
LLADD_API struct lladd_dtable *lladd_dtable_layer(const struct lladd_dtable *, const char *name,
                                                  size_t i);

/** A stream of a layer, for reading. */
struct lladd_dtable_source;
/** Opens the layer's stream of that name; LLADD_CORRUPT_RUN if the layer has no such stream. Call
 *  it in `open`. */
LLADD_API int lladd_dtable_source_open(const struct lladd_dtable *, const char *name,
                                       const struct lladd_dtable_source **out,
                                       struct lladd_error *);
/** Returns the length of the stream in bytes. */
LLADD_API uint64_t lladd_dtable_source_size(const struct lladd_dtable_source *);
/** Returns the number of bytes of the stream in one block, without the block's header. */
LLADD_API uint32_t lladd_dtable_source_block(const struct lladd_dtable_source *);
/** Returns the number of blocks of the stream. */
LLADD_API uint64_t lladd_dtable_source_blocks(const struct lladd_dtable_source *);
/** Pins a block in memory, without a copy. All its bytes, and eight bytes after its end, may be
 *  read. A pin holds two blocks (`which` is 0 or 1), each until the next call with the same
 *  `which`. */
LLADD_API int lladd_dtable_block(struct lladd_dtable_pin *, int which,
                                 const struct lladd_dtable_source *, uint64_t block,
                                 const unsigned char **out, uint32_t *len, struct lladd_error *);
/** Sets a function that checks the blocks of a stream. From then on it is called each time a block
 *  has been loaded into memory, after the checksums were verified and before a caller sees the
 *  block. After 0, callers may rely on what was checked. Call it in `open`. The function may read
 *  blocks of other streams of the same layer, with a pin of its own; those streams must not have a
 *  function that reads this stream. Any thread may be in the function. */
LLADD_API void lladd_dtable_source_check(const struct lladd_dtable *,
                                         const struct lladd_dtable_source *,
                                         int (*check)(const struct lladd_dtable *, uint64_t block,
                                                      const unsigned char *bytes, uint32_t len,
                                                      struct lladd_error *));
/** Returns true if the pin holds a block of the stream with this `which`; *block gets the block's
 *  number. So a class can find out whether the block that it needs is at hand. */
LLADD_API bool lladd_dtable_held(const struct lladd_dtable_pin *, int which,
                                 const struct lladd_dtable_source *, uint64_t *block);
/** Pins bytes [at, at + len) of the stream in memory; copies them only if they cross the end of a
 *  block. LLADD_CORRUPT_RUN if the stream is shorter. */
LLADD_API int lladd_dtable_read(struct lladd_dtable_pin *, int which,
                                const struct lladd_dtable_source *, uint64_t at, size_t len,
                                const unsigned char **out, struct lladd_error *);
/** Gets the i-th cell of a stream of cells of `cell` bytes; pinned as by lladd_dtable_block. *out
 *  is NULL after an error. */
static inline int lladd_dtable_cell(struct lladd_dtable_pin *pin, int which,
                                    const struct lladd_dtable_source *s, uint32_t block_size,
                                    uint32_t cell, uint64_t i, const unsigned char **out,
                                    struct lladd_error *err)
{
    uint32_t per = block_size / cell;
    uint64_t block = i <= UINT32_MAX ? (uint32_t)i / per : i / per;
    uint32_t len;
    const unsigned char *bytes;
    int rc = lladd_dtable_block(pin, which, s, block, &bytes, &len, err);
    *out = rc ? NULL : bytes + (i - block * per) * cell;
    return rc;
}
/** Used to access the cells of a stream: the block of a cell is found without a division. */
struct lladd_dtable_cells {
    const struct lladd_dtable_source *in;
    uint32_t cell, per; /**< bytes of a cell, number of cells in a block */
    uint64_t inverse;   /**< 2^64 / per, rounded up */
};
/** Prepares access to cells of `cell` bytes, from 1 byte to a whole block. */
static inline struct lladd_dtable_cells lladd_dtable_cells_of(const struct lladd_dtable_source *in,
                                                              uint32_t cell)
{
    uint32_t per = lladd_dtable_source_block(in) / cell;
    struct lladd_dtable_cells c = {in, cell, per, UINT64_MAX / per + 1};
    return c;
}
/** Gets the i-th cell, as lladd_dtable_cell does. */
static inline int lladd_dtable_cells_at(struct lladd_dtable_pin *pin, int which,
                                        const struct lladd_dtable_cells *c, uint64_t i,
                                        const unsigned char **out, struct lladd_error *err)
{
    uint64_t block, high = c->inverse >> 32, low = c->inverse & UINT32_MAX;
    uint32_t len;
    const unsigned char *bytes;
    /* The block is i * inverse / 2^64. Rounding makes the inverse too large by less than 1, which
     * does not change the quotient while i * per is below 2^64. */
    if (i <= UINT32_MAX && c->per > 1)
        block = (i * high + (i * low >> 32)) >> 32;
    else
        block = i / c->per;
    int rc = lladd_dtable_block(pin, which, c->in, block, &bytes, &len, err);
    *out = rc ? NULL : bytes + (i - block * c->per) * c->cell;
    return rc;
}
/** Loads a whole stream into memory until the table is closed; for a small stream that every lookup
 *  needs. Eight bytes after the stream's end may be read. Call it in `open`. */
LLADD_API int lladd_dtable_load(struct lladd_dtable *, const struct lladd_dtable_source *,
                                const unsigned char **out, struct lladd_error *);
/** Allocates memory that lives as long as the table is open, for data that a class derives from a
 *  stream. The memory counts as memory of the block cache. Call it in `open`. NULL: out of
 *  memory. */
LLADD_API void *lladd_dtable_keep(struct lladd_dtable *, size_t size);
/** Returns memory for a value that a class computes. The memory lives as long as the pin holds it.
 *  It is never the memory that the previous call for the pin returned, so a value can be computed
 *  from the previous value. NULL: out of memory. */
LLADD_API void *lladd_dtable_room(struct lladd_db *, struct lladd_dtable_pin *, size_t len);
/** Returns memory for a key that a class assembles. It lives until the next call for the pin, or
 *  until lladd_dtable_read with 0 for `which`, or until the pin is released. NULL: out of
 *  memory. */
LLADD_API void *lladd_dtable_key_room(struct lladd_db *, struct lladd_dtable_pin *, size_t len);
/** Reports that stored bytes are invalid: returns LLADD_CORRUPT_RUN, with a message that names the
 *  run and the layer. */
LLADD_API int lladd_dtable_corrupt(const struct lladd_dtable *, struct lladd_error *,
                                   const char *what);
/** Looks a key up in a layer below, with its class's `lookup` or lladd_dtable_ask_anyhow. The
 *  caller has checked the key. The value lives as long as the pin holds it. */
static inline int lladd_dtable_ask(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                   struct lladd_dtable_pin *, struct lladd_dtable_value *,
                                   struct lladd_error *);

/** Copies values as a class's `copy` does; ignores places after the last place. */
LLADD_API int lladd_dtable_copy(const struct lladd_dtable *, uint64_t place, size_t n,
                                unsigned char *out, size_t room, size_t *width, size_t *got,
                                struct lladd_error *);
/** Gets the first place with a key that is not before `key`, as a class's `find` returns it. A
 *  class over a base with places can then read the rows around the place (lladd_dtable_at). */
LLADD_API int lladd_dtable_find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                                struct lladd_error *);

/** The target of a cursor's move. */
enum lladd_dtable_where {
    LLADD_DTABLE_FIRST = 0,
    LLADD_DTABLE_LAST = 1,
    LLADD_DTABLE_NOT_BEFORE = 2, /**< the key or the next key after it */
    LLADD_DTABLE_NOT_AFTER = 3   /**< the key or the next key before it */
};
/** Moves a cursor on another table; for a class with cursors that contain cursors on other
 *  tables. */
LLADD_API int lladd_dtable_go(struct lladd_dtable_cursor *, enum lladd_dtable_where,
                              const struct lladd_dtable_key *, struct lladd_error *);

/** A caller may move `cursor` instead of another cursor, the led cursor, in either direction. At
 *  places [from, to) both cursors show the same rows, as long as *word does not change. */
struct lladd_dtable_lead {
    struct lladd_dtable_cursor *cursor;
    uint64_t from, to;
    const uint64_t *word; /**< read atomically */
    bool led_columns;     /**< columns of the rows are read with the led cursor; its class has
                               `cursor_columns` */
};
/** Finds the cursor that may be moved instead of `cursor`: `cursor` itself if it moves by place, or
 *  the result of its class's `cursor_lead`. Returns false if there is no such cursor. */
LLADD_API bool lladd_dtable_cursor_lead(struct lladd_dtable_cursor *, struct lladd_dtable_lead *);
/** Narrows the interval of places: it begins at the place of the lead's cursor, extends in the
 *  given direction, and ends before the first row at or beyond `key` or, if `key` is NULL, at the
 *  end of the table. Returns false if the limit is unknown. */
LLADD_API bool lladd_dtable_cursor_lead_to(struct lladd_dtable_lead *, bool forward,
                                           const struct lladd_dtable_key *);

/** A class. All members are nullable except `name`, `version` and the callbacks of its way of
 *  reading. */
struct lladd_dtable_class {
    size_t struct_size;
    const char *name; /**< "array_dtable"; at most 63 bytes of [a-z0-9_.-] */
    uint32_t version; /**< version of the stored format; a reader gets this one or an older one */
    const char *about;
    const struct lladd_dtable_param *params;
    bool packs; /**< true: the library compresses the streams of the layers below, block by
                     block */

    /** Checks the parameters and the layers below. *caps has the base's capabilities, or all
     *  capabilities if there is no base; the callback changes the capabilities that differ. */
    int (*configure)(struct lladd_dtable_config *, struct lladd_dtable_caps *caps,
                     struct lladd_error *);
    /** Returns 0 if the value could be stored, else LLADD_DTABLE_REJECT. Default: the capabilities,
     *  `encode` and the base decide. */
    int (*accepts)(struct lladd_dtable_config *, const struct lladd_dtable_value *,
                   struct lladd_error *);

    size_t builder_size; /**< size of a struct that begins with struct lladd_dtable_builder;
                              allocated zeroed. 0: only that struct */
    int (*begin)(struct lladd_dtable_builder *);
    /** Adds a row; keys ascend. The value's state is FOUND or TOMBSTONE, or ABSENT if the layer's
     *  capabilities include this. Default: encodes the value and adds the row to the base. */
    int (*add)(struct lladd_dtable_builder *, const struct lladd_dtable_key *,
               const struct lladd_dtable_value *);
    /** Adds a deleted range; NULL: unbounded on that side. Ranges ascend and do not touch. */
    int (*add_range)(struct lladd_dtable_builder *, const struct lladd_dtable_key *from,
                     const struct lladd_dtable_key *to);
    int (*finish)(struct lladd_dtable_builder *);   /**< called after `finish` of the layers
                                                         below */
    void (*discard)(struct lladd_dtable_builder *); /**< frees what `begin` and `add` allocated;
                                                         always called, also after `finish` */

    size_t reader_size; /**< size of a struct that begins with struct lladd_dtable; allocated
                             zeroed. 0: only that struct */
    int (*open)(struct lladd_dtable *, struct lladd_error *); /**< called after `open` of the layers
                                                                   below */
    void (*close)(struct lladd_dtable *);

    /** Encodes a value for the base. The encoded value may be stored in `room` (16 bytes) or in the
     *  configuration. */
    int (*encode)(const struct lladd_dtable_config *, struct lladd_span in, unsigned char *room,
                  struct lladd_span *out);
    /** Decodes a value of the base in the state FOUND; may change the state. Bytes that cannot be
     *  decoded must give an error, never the state ABSENT. */
    int (*decode)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                  struct lladd_dtable_pin *, struct lladd_dtable_value *inout,
                  struct lladd_error *);

    /** Gets the first place with a key that is not before `key`; `places` if there is no such
     *  place. *exact gets true if the keys are equal. */
    int (*find)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                struct lladd_dtable_pin *, uint64_t *place, bool *exact, struct lladd_error *);
    /** Gets the row at a place below `places`; `key` and `value` are each nullable. */
    int (*at)(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value, struct lladd_error *);
    /** Gets the value at a place, with the help of the row's mark. A mark is twice a number that
     *  never decreases from row to row, plus 0 or 1. `add` sets it in the builder's `mark`, and an
     *  index stores it. `before` is the mark of the previous row, possibly with a lowest bit of 0
     *  instead of 1; it is 0 for the first row. If a class lacks this callback, an index stores
     *  places instead of marks. */
    int (*at_mark)(const struct lladd_dtable *, uint64_t place, uint64_t before, uint64_t mark,
                   struct lladd_dtable_pin *, struct lladd_dtable_value *value,
                   struct lladd_error *);

    /** Looks a key up; the caller has set *out to ABSENT. Default: uses `find` and `at`, or the
     *  base and `decode`. */
    int (*lookup)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                  struct lladd_dtable_pin *, struct lladd_dtable_value *out, struct lladd_error *);

    /** Does the same as lladd_dtable_interval_at, for a table that has ranges. The caller has
     *  checked the key. */
    int (*interval)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                    struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                    struct lladd_error *);

    /** The next three callbacks read some columns of a packed row, for a class that can do this
     *  without reading the whole row: `columns_at` reads the row at a place, `lookup_columns` the
     *  row of a key, `cursor_columns` the row at the class's cursor. *state gets the row's state.
     *  If a class has `columns_at`, a cursor reads only the requested columns. */
    int (*columns_at)(const struct lladd_dtable *, uint64_t place,
                      const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                      struct lladd_error *);
    int (*lookup_columns)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                          const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                          struct lladd_error *);
    int (*cursor_columns)(const struct lladd_dtable *, void *cursor,
                          const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                          struct lladd_error *);

    /** Copies the values of at most n rows from a place on, as many as fit into `room` bytes, for a
     *  class that stores values next to each other. *width gets the size of each value, *got the
     *  number copied. The copy ends before a row without a value, and before a value of another
     *  size. Nullable */
    int (*copy)(const struct lladd_dtable *, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *);
    /** Does the same as `copy`, for one column of the packed rows. */
    int (*copy_column)(const struct lladd_dtable *, uint32_t column, uint64_t place, size_t n,
                       unsigned char *out, size_t room, size_t *width, size_t *got,
                       struct lladd_error *);
    /** If all rows now come from one table below, returns that table. NULL: the rows come from
     *  several tables. */
    const struct lladd_dtable *(*only)(const struct lladd_dtable *);

    size_t cursor_size; /**< size of the class's part of a cursor; allocated zeroed */
    int (*cursor_open)(const struct lladd_dtable *, void *cursor, struct lladd_error *);
    void (*cursor_close)(const struct lladd_dtable *, void *cursor);
    /** Moves the cursor to the target: 0 or LLADD_END. */
    int (*cursor_seek)(const struct lladd_dtable *, void *cursor, enum lladd_dtable_where,
                       const struct lladd_dtable_key *, struct lladd_error *);
    /** Moves the cursor to the next or previous row: 0 or LLADD_END. */
    int (*cursor_step)(const struct lladd_dtable *, void *cursor, bool forward,
                       struct lladd_error *);
    /** Gets the row at the cursor; `key` and `value` are each nullable. */
    int (*cursor_row)(const struct lladd_dtable *, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *);

    /** Returns false if this layer knows that the key is absent; then a filter's `lookup` does not
     *  call the layers below. Statistics count these results. NULL: the class is not a filter. */
    bool (*may_have)(const struct lladd_dtable *, const struct lladd_dtable_key *);
    /** For a class that shows rows of other tables. If the rows around this cursor's position are
     *  exactly the rows of one other table, *out gets the class's cursor on that table, and the
     *  callback returns true. The caller may then move the other cursor instead; at the next call
     *  on this cursor, this cursor takes over the position of that other cursor. False, the
     *  default: the caller must move this cursor. */
    bool (*cursor_lead)(const struct lladd_dtable *, void *cursor, struct lladd_dtable_lead *out);
};

/** Registers a class with the handle; the class must outlive the handle. LLADD_EXISTS if another
 *  class has the name, LLADD_BAD_REGISTRATION if this class is incomplete. */
LLADD_API int lladd_dtable_class_add(struct lladd_db *, const struct lladd_dtable_class *,
                                     struct lladd_error *);

/** lladd_dtable_ask for a class without a `lookup`. */
LLADD_API int lladd_dtable_ask_anyhow(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                      struct lladd_dtable_pin *, struct lladd_dtable_value *,
                                      struct lladd_error *);
/** Declared in the section "reading". */
static inline int lladd_dtable_ask(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                                   struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                                   struct lladd_error *err)
{
    if (!t->kind->lookup)
        return lladd_dtable_ask_anyhow(t, key, pin, out, err);
    out->state = LLADD_DTABLE_ABSENT;
    return t->kind->lookup(t, key, pin, out, err);
}

#ifdef __cplusplus
}
#endif
#endif
