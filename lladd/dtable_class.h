/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_DTABLE_CLASS_H
#define LLADD_DTABLE_CLASS_H
/**
 * @file
 * @brief For authors of dTable classes: the callbacks of a layer, and what they may call.
 *
 * A class declares what it can do (capabilities), how a row is added (a builder), and how it is
 * found (a reader). The library does the rest: parsing and checking of configurations, cursors,
 * blocks and their checksums, the cache, extents, the run's descriptor.
 *
 * A class implements one of three ways of reading, the simplest first:
 *
 *  - a *transforming* class has `encode` and `decode` and one child, "base", that stores the
 *    encoded values. It needs nothing else.
 *  - a *storing* class has `find` and `at`: rows have places, 0, 1, 2 ... in the order of their
 * keys;
 *    find gives the place of a key or of its successor, at gives what is at a place.
 *  - any other class has `cursor_size` and the functions below it, and a `lookup`; with a `find` or
 *    an `at` besides, its rows have places all the same.
 *
 * A class with a child "base" and none of these passes every call to the base; a `lookup` alone
 * makes an index or a filter. Threads share a reader, so the state of a lookup is on the stack, in
 * the pin, or in the cursor (trap 26 of the prototype).
 *
 * All classes of the library are written with this header alone: operations/dtables/class/ and
 * operations/dtables/pack/.
 * @ingroup operations
 */
#include <lladd/bytes.h>
#include <lladd/dtable_row.h>
#include <lladd/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A result of `add`, `encode` and `accepts`, besides 0 and errors: this layer cannot store the
 *  value, and has changed nothing. The nearest layer above that can handle it does; if there is
 *  none, the caller gets LLADD_REJECTED. */
#define LLADD_DTABLE_REJECT 1

#define LLADD_DTABLE_ANY_SIZE UINT64_MAX
#define LLADD_DTABLE_NUMBERS \
    (1u << LLADD_DTABLE_U32 | 1u << LLADD_DTABLE_U64 | 1u << LLADD_DTABLE_DOUBLE)
#define LLADD_DTABLE_ALL_TYPES \
    (LLADD_DTABLE_NUMBERS | 1u << LLADD_DTABLE_STRING | 1u << LLADD_DTABLE_BYTES)

/** What a layer can do, as it is configured. */
struct lladd_dtable_caps {
    unsigned types;      /**< of keys: 1u << LLADD_DTABLE_U32, or'ed */
    bool places;         /**< rows can be found by their place */
    bool tombstones;     /**< can be stored */
    bool empty;          /**< values of no bytes can be stored */
    uint64_t value_size; /**< of every value, or LLADD_DTABLE_ANY_SIZE */
    bool all_values;     /**< none is rejected for anything but its size. False until `configure`
                              says so, but for a class with a base that has it and no `encode` */
    bool ranges;         /**< that are deleted can be stored, by `add_range` of the class or of its
                              base: above it there are only classes that change nothing */
    bool learned;        /**< the first value of a run says how long all are. A class that knows how
                              long the values are that it gives to its base says so by asking it
                              whether it takes one (lladd_dtable_accepts) */
};

/* ---- configuration --------------------------------------------------------------------------- */

enum lladd_dtable_param_type {
    LLADD_DTABLE_PARAM_END = 0,
    LLADD_DTABLE_PARAM_BOOL = 1,
    LLADD_DTABLE_PARAM_INT = 2,
    LLADD_DTABLE_PARAM_BYTES = 3, /**< written as string "..." or blob 616263 */
    LLADD_DTABLE_PARAM_WORDS = 4, /**< a list of these: words [ "a" "b" ] */
    LLADD_DTABLE_PARAM_CHILD = 5, /**< a layer below: "base" class(dt) x "base_config" config [ ] */
    /** Any number of them: "groups" layers [ class(dt) x config [ ] class(dt) y ] */
    LLADD_DTABLE_PARAM_LAYERS = 6
};
/** One parameter of a class. Arrays end with type END. */
struct lladd_dtable_param {
    const char *name;
    enum lladd_dtable_param_type type;
    bool required;
    int64_t otherwise; /**< BOOL and INT that are not given */
    int64_t min, max;  /**< of an INT */
    const char *about; /**< one line */
};

/** The configured boolean, or the parameter's default. The name must be one of the class's
 *  parameters, here and below. */
LLADD_API bool lladd_dtable_param_bool(const struct lladd_dtable_config *, const char *name);
/** The configured integer, or the parameter's default. */
LLADD_API int64_t lladd_dtable_param_int(const struct lladd_dtable_config *, const char *name);
/** The configured bytes; false if they were not given. They live as long as the configuration. */
LLADD_API bool lladd_dtable_param_bytes(const struct lladd_dtable_config *, const char *name,
                                        struct lladd_span *out);
/** The number of words in a parameter that is a list; 0 if it was not given. */
LLADD_API size_t lladd_dtable_param_words(const struct lladd_dtable_config *, const char *name);
/** The i-th word of a list. The bytes live as long as the configuration. */
LLADD_API struct lladd_span lladd_dtable_param_word(const struct lladd_dtable_config *,
                                                    const char *name, size_t i);
/** Sets a number that was not given, so that the printed configuration has it. For `configure` and
 *  `accepts`. */
LLADD_API void lladd_dtable_settle_int(struct lladd_dtable_config *, const char *name, int64_t);
/** The layer below, NULL if the parameter was not given. */
LLADD_API struct lladd_dtable_config *lladd_dtable_param_child(const struct lladd_dtable_config *,
                                                               const char *name);
/** The i-th layer of a list; NULL if there are not so many. */
LLADD_API struct lladd_dtable_config *lladd_dtable_param_layer(const struct lladd_dtable_config *,
                                                               const char *name, size_t i);
/** What `configure` has answered. */
LLADD_API const struct lladd_dtable_caps *lladd_dtable_caps_get(const struct lladd_dtable_config *);
/** What `configure` has put there, freed with lladd_mem_free when the configuration is. */
LLADD_API void lladd_dtable_config_state_set(struct lladd_dtable_config *, void *state);
/** The state set with lladd_dtable_config_state_set; NULL: none. */
LLADD_API void *lladd_dtable_config_state(const struct lladd_dtable_config *);
/** True once the whole configuration has been checked: threads share it from then on, and it must
 *  not change. */
LLADD_API bool lladd_dtable_config_done(const struct lladd_dtable_config *);
/** 0 if the layer and those below could store the value, else LLADD_DTABLE_REJECT. For trying a
 *  placeholder at configuration (trap 9). */
LLADD_API int lladd_dtable_accepts(struct lladd_dtable_config *, const struct lladd_dtable_value *,
                                   struct lladd_error *);
/** Memory for a configuration's state. */
LLADD_API struct lladd_db *lladd_dtable_config_db(const struct lladd_dtable_config *);

/* ---- the order of keys ----------------------------------------------------------------------- */

/** The order of a table's keys. */
struct lladd_dtable_order {
    enum lladd_dtable_type type;
    const struct lladd_dtable_comparator *comparator; /**< NULL: the usual one */
};
/** The order of keys of a type; `comparator` as in lladd_dtable_run_options. LLADD_BAD_ARGUMENT for
 *  a comparator of keys that are not bytes, LLADD_NO_COMPARATOR. */
LLADD_API int lladd_dtable_order_of(struct lladd_db *, enum lladd_dtable_type,
                                    const char *comparator, struct lladd_dtable_order *out,
                                    struct lladd_error *);
/** 0 if it can be a key of a table with this order; else LLADD_WRONG_TYPE, LLADD_BAD_ARGUMENT or
 *  LLADD_TOO_LARGE. */
LLADD_API int lladd_dtable_check_key(const struct lladd_dtable_order *,
                                     const struct lladd_dtable_key *, struct lladd_error *);
/** Compares the bytes of two keys of the order's type: below 0, 0, above 0. */
LLADD_API int lladd_dtable_compare_bytes(const struct lladd_dtable_order *, struct lladd_span,
                                         struct lladd_span);
/** Compares two keys of the order's type: below 0, 0, above 0. */
static inline int lladd_dtable_compare(const struct lladd_dtable_order *o,
                                       const struct lladd_dtable_key *a,
                                       const struct lladd_dtable_key *b)
{
    if (o->type >= LLADD_DTABLE_STRING)
        return lladd_dtable_compare_bytes(o, a->bytes, b->bytes);
    return a->number < b->number ? -1 : a->number > b->number;
}
/** The first bytes of a key as a number; prefixes ascend with the keys. */
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
/** The smallest and the largest prefix of a table's keys, tombstones included. Overlays and managed
 *  tables skip a table if the key is outside. Zeros: unknown. The fields are atomic; `over` is
 *  UINT64_MAX minus the largest. */
struct lladd_dtable_key_range {
    uint64_t low, over;
};
/** The key range of a table without keys. */
#define LLADD_DTABLE_KEY_RANGE_EMPTY \
    { \
        UINT64_MAX, UINT64_MAX \
    }
/** False if no key of the table has the prefix. Any thread. */
static inline bool lladd_dtable_key_range_has(const struct lladd_dtable_key_range *f,
                                              uint64_t prefix)
{
    uint64_t low = lladd_atomic_load64(&f->low);
    return prefix - low <= UINT64_MAX - lladd_atomic_load64(&f->over) - low;
}
/** Includes the prefix in the range; call it before the key is inserted. One thread at a time. */
static inline void lladd_dtable_key_range_widen(struct lladd_dtable_key_range *f, uint64_t prefix)
{
    if (prefix < lladd_atomic_load64(&f->low))
        lladd_atomic_store64(&f->low, prefix);
    if (UINT64_MAX - prefix < lladd_atomic_load64(&f->over))
        lladd_atomic_store64(&f->over, UINT64_MAX - prefix);
}
/** A hash of a key, equal for keys that compare equal, the same on all machines. */
LLADD_API uint64_t lladd_dtable_hash(const struct lladd_dtable_order *,
                                     const struct lladd_dtable_key *);

/* ---- building -------------------------------------------------------------------------------- */

/** The head of a class's builder, filled in before `begin`. */
struct lladd_dtable_builder {
    const struct lladd_dtable_class *kind;
    const struct lladd_dtable_config *config;
    struct lladd_db *db;
    struct lladd_error *error; /**< where to report */
    struct lladd_dtable_order order;
    uint64_t place;                    /**< of the row just added, if the layer has places; `add`
                                            changes it where it is not just one more */
    uint64_t mark;                     /**< likewise, if the class has `at_mark` */
    struct lladd_dtable_builder *base; /**< child "base", NULL if there is none */
    struct lladd_dtable_run_builder *run_;
    struct lladd_dtable_builder *parent_, *next_;
    const char *slot_;
    unsigned char *footer_;
    size_t footer_len_;
    uint64_t rows_;
    uint32_t number_;
    bool begun_, packed_;
};

/** The builder of a layer below. */
LLADD_API struct lladd_dtable_builder *lladd_dtable_builder_child(struct lladd_dtable_builder *,
                                                                  const char *name);
/** The builder of the i-th layer of a list. */
LLADD_API struct lladd_dtable_builder *lladd_dtable_builder_layer(struct lladd_dtable_builder *,
                                                                  const char *name, size_t i);
/** Adds a row to a layer below: 0, LLADD_DTABLE_REJECT or an error. */
LLADD_API int lladd_dtable_add(struct lladd_dtable_builder *, const struct lladd_dtable_key *,
                               const struct lladd_dtable_value *);

/** Writes one of a layer's streams. */
struct lladd_dtable_writer;
/** Begins a stream of the layer with this name, at most 31 bytes. It is finished with the layer. */
LLADD_API int lladd_dtable_stream(struct lladd_dtable_builder *, const char *name,
                                  struct lladd_dtable_writer **out);
/** Bytes of contents in a block. */
LLADD_API uint32_t lladd_dtable_block_size(const struct lladd_dtable_builder *);
/** Bytes written so far, padding included: the offset of the next one. */
LLADD_API uint64_t lladd_dtable_written(const struct lladd_dtable_writer *);
/** Appends bytes. */
LLADD_API int lladd_dtable_write(struct lladd_dtable_writer *, const void *bytes, size_t len);
/** Fills the block up with zeros: the next byte begins a block. */
LLADD_API int lladd_dtable_pad(struct lladd_dtable_writer *);
/** Appends a cell, of at most a block and always of the same length, that does not go over the end
 *  of a block: how lladd_dtable_cell finds it again. */
LLADD_API int lladd_dtable_write_cell(struct lladd_dtable_writer *, const void *bytes, size_t len);
/** Sets the bytes (at most 64 KiB) that the reader has in memory. In `finish`. */
LLADD_API int lladd_dtable_footer(struct lladd_dtable_builder *, const void *bytes, size_t len);

/* ---- reading --------------------------------------------------------------------------------- */

/** The head of a class's reader, filled in before `open`. A table is a reader. */
struct lladd_dtable {
    const struct lladd_dtable_class *kind;
    const struct lladd_dtable_config *config; /**< NULL for tables that are no runs */
    struct lladd_db *db;
    struct lladd_dtable_order order;
    bool has_places;
    uint64_t places; /**< set by `open` of a storing class; else the base's */
    uint64_t ranges; /**< deleted intervals, likewise; 0: `interval` is not called */
    struct lladd_dtable_key_range fence; /**< of the whole run; of other tables as far as known */
    uint32_t version; /**< of the class that has written it: the class's own, or an older one */
    struct lladd_span footer;
    struct lladd_dtable *base; /**< child "base", NULL if there is none */
    struct lladd_dtable *parent_, *next_;
    const char *slot_;
    struct ll_dtable_run *run_;
    uint32_t number_;
    bool opened_, packed_;
};

/** The reader of a layer below; NULL if there is none of the name. */
LLADD_API struct lladd_dtable *lladd_dtable_child(const struct lladd_dtable *, const char *name);

/** The reader of the i-th one of a list; NULL if there are not so many. */
LLADD_API struct lladd_dtable *lladd_dtable_layer(const struct lladd_dtable *, const char *name,
                                                  size_t i);

/** A stream, for reading. */
struct lladd_dtable_source;
/** The layer's stream of that name; LLADD_CORRUPT_RUN if there is none. In `open`. */
LLADD_API int lladd_dtable_source_open(const struct lladd_dtable *, const char *name,
                                       const struct lladd_dtable_source **out,
                                       struct lladd_error *);
/** Bytes of the stream. */
LLADD_API uint64_t lladd_dtable_source_size(const struct lladd_dtable_source *);
/** Bytes of the stream in one block, without the block's header. */
LLADD_API uint32_t lladd_dtable_source_block(const struct lladd_dtable_source *);
/** The number of blocks of the stream. */
LLADD_API uint64_t lladd_dtable_source_blocks(const struct lladd_dtable_source *);
/** Pins a block in memory, without a copy: all its bytes, and eight after them, may be read. A pin
 *  holds two blocks (`which` is 0 or 1), each until the next call with the same `which`. */
LLADD_API int lladd_dtable_block(struct lladd_dtable_pin *, int which,
                                 const struct lladd_dtable_source *, uint64_t block,
                                 const unsigned char **out, uint32_t *len, struct lladd_error *);
/** Pins bytes in memory, copied only if they cross the end of a block. LLADD_CORRUPT_RUN if the
 *  stream is shorter. */
LLADD_API int lladd_dtable_read(struct lladd_dtable_pin *, int which,
                                const struct lladd_dtable_source *, uint64_t at, size_t len,
                                const unsigned char **out, struct lladd_error *);
/** The i-th cell; *out NULL after an error. */
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
/** Cells of one length in a stream, prepared so that a cell is found without a division. */
struct lladd_dtable_cells {
    const struct lladd_dtable_source *in;
    uint32_t cell, per; /**< bytes of one, how many in a block */
    uint64_t inverse;   /**< of `per`, times 2^64, rounded up */
};
/** For cells of 1 byte up to a block. */
static inline struct lladd_dtable_cells lladd_dtable_cells_of(const struct lladd_dtable_source *in,
                                                              uint32_t cell)
{
    uint32_t per = lladd_dtable_source_block(in) / cell;
    struct lladd_dtable_cells c = {in, cell, per, UINT64_MAX / per + 1};
    return c;
}
/** The i-th cell: as lladd_dtable_cell. */
static inline int lladd_dtable_cells_at(struct lladd_dtable_pin *pin, int which,
                                        const struct lladd_dtable_cells *c, uint64_t i,
                                        const unsigned char **out, struct lladd_error *err)
{
    uint64_t block, high = c->inverse >> 32, low = c->inverse & UINT32_MAX;
    uint32_t len;
    const unsigned char *bytes;
    /* i * inverse / 2^64. The inverse is too large by less than per / 2^64: nothing, for i * per
     * below 2^64. */
    if (i <= UINT32_MAX && c->per > 1)
        block = (i * high + (i * low >> 32)) >> 32;
    else
        block = i / c->per;
    int rc = lladd_dtable_block(pin, which, c->in, block, &bytes, &len, err);
    *out = rc ? NULL : bytes + (i - block * c->per) * c->cell;
    return rc;
}
/** Loads a whole stream into memory until the table is closed: for small streams that every lookup
 *  needs. Eight bytes after it may be read. In `open`. */
LLADD_API int lladd_dtable_load(struct lladd_dtable *, const struct lladd_dtable_source *,
                                const unsigned char **out, struct lladd_error *);
/** Memory for as long as the table is open, for what a class makes of a stream; counted as the
 *  cache's. In `open`. NULL: out of memory. */
LLADD_API void *lladd_dtable_keep(struct lladd_dtable *, size_t size);
/** Memory for a value that is made: lives as long as what the pin holds, and is not the piece that
 *  was given out before it, so that a value can be made of another one. NULL: out of memory. */
LLADD_API void *lladd_dtable_room(struct lladd_db *, struct lladd_dtable_pin *, size_t len);
/** Reports that stored bytes make no sense: LLADD_CORRUPT_RUN with the run and the layer. */
LLADD_API int lladd_dtable_corrupt(const struct lladd_dtable *, struct lladd_error *,
                                   const char *what);
/** Looks up in a layer below: by the class's lookup, or as lladd_dtable_ask_anyhow. The key has
 *  been checked. The value lives as long as the pin holds it. */
static inline int lladd_dtable_ask(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                   struct lladd_dtable_pin *, struct lladd_dtable_value *,
                                   struct lladd_error *);

/** Copies values, as a class's `copy`; places after the last one are ignored. */
LLADD_API int lladd_dtable_copy(const struct lladd_dtable *, uint64_t place, size_t n,
                                unsigned char *out, size_t room, size_t *width, size_t *got,
                                struct lladd_error *);
/** The first place with a key that is not before this one, as a class's `find`. For a class that
 *  has a base with places and reads around a key (lladd_dtable_at). */
LLADD_API int lladd_dtable_find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                                struct lladd_error *);

/** The target of a cursor's move. */
enum lladd_dtable_where {
    LLADD_DTABLE_FIRST = 0,
    LLADD_DTABLE_LAST = 1,
    LLADD_DTABLE_NOT_BEFORE = 2, /**< to the key or the next one after it */
    LLADD_DTABLE_NOT_AFTER = 3   /**< to the key or the next one before it */
};
/** Moves the cursor of another table: for a class with cursors of other tables in its own. */
LLADD_API int lladd_dtable_go(struct lladd_dtable_cursor *, enum lladd_dtable_where,
                              const struct lladd_dtable_key *, struct lladd_error *);

/** A cursor that may be moved in place of another one, in either direction: over the rows at places
 *  from `from` on and below `to`, as long as *word does not change. */
struct lladd_dtable_lead {
    struct lladd_dtable_cursor *cursor;
    uint64_t from, to;
    const uint64_t *word;
};
/** Asks `cursor_lead` for the cursor of another table: the result is that cursor, if it moves by
 *  place, or the one that leads it. False: none leads. */
LLADD_API bool lladd_dtable_cursor_lead(struct lladd_dtable_cursor *, struct lladd_dtable_lead *);
/** Narrows the lead to the places from its cursor on in this direction, and before the first row of
 *  this key or beyond it; NULL: to the end. False: the limit is unknown. */
LLADD_API bool lladd_dtable_cursor_lead_to(struct lladd_dtable_lead *, bool forward,
                                           const struct lladd_dtable_key *);

/** A class. All members are nullable except name, version and what its way of reading needs. */
struct lladd_dtable_class {
    size_t struct_size;
    const char *name; /**< "array_dtable"; at most 63 bytes of [a-z0-9_.-] */
    uint32_t version; /**< of what it writes; a reader gets its own version or an older one */
    const char *about;
    const struct lladd_dtable_param *params;
    bool packs; /**< what the layers below write is compressed, block by block */

    /** Checks the parameters and the layers below. *caps has the base's capabilities, or all if
     *  there is no base; the callback changes those that differ. */
    int (*configure)(struct lladd_dtable_config *, struct lladd_dtable_caps *caps,
                     struct lladd_error *);
    /** 0 if the value could be stored, else LLADD_DTABLE_REJECT. Default: by the capabilities,
     *  `encode`, and the base. */
    int (*accepts)(struct lladd_dtable_config *, const struct lladd_dtable_value *,
                   struct lladd_error *);

    size_t builder_size; /**< of a struct that begins with struct lladd_dtable_builder; zeroed. 0:
                              nothing but that */
    int (*begin)(struct lladd_dtable_builder *);
    /** Adds a row; keys ascend. The value is FOUND or a TOMBSTONE. Default: `encode`, and the base.
     *  */
    int (*add)(struct lladd_dtable_builder *, const struct lladd_dtable_key *,
               const struct lladd_dtable_value *);
    /** Adds a deleted range; NULL is an open end. Ranges ascend and do not touch. */
    int (*add_range)(struct lladd_dtable_builder *, const struct lladd_dtable_key *from,
                     const struct lladd_dtable_key *to);
    int (*finish)(struct lladd_dtable_builder *);   /**< the layers below have finished */
    void (*discard)(struct lladd_dtable_builder *); /**< frees what begin and add took; always
                                                         called, after finish as well */

    size_t reader_size; /**< of a struct that begins with struct lladd_dtable; zeroed. 0: only
                             that */
    int (*open)(struct lladd_dtable *, struct lladd_error *); /**< the layers below are open */
    void (*close)(struct lladd_dtable *);

    /** Encodes a value for the base; the result may be in `room` (16 bytes), or in the
     *  configuration. */
    int (*encode)(const struct lladd_dtable_config *, struct lladd_span in, unsigned char *room,
                  struct lladd_span *out);
    /** Decodes a value of the base in the state FOUND. May change the state. Bytes that cannot be
     *  decoded are an error, never an absence (trap 4). */
    int (*decode)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                  struct lladd_dtable_pin *, struct lladd_dtable_value *inout,
                  struct lladd_error *);

    /** The first place with a key that is not before this one, `places` if there is none. *exact:
     *  the keys are equal. */
    int (*find)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                struct lladd_dtable_pin *, uint64_t *place, bool *exact, struct lladd_error *);
    /** The row at a place below `places`. key and value are each nullable. */
    int (*at)(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value, struct lladd_error *);
    /** The value at a place, found by the row's mark that an index has stored: `add` left it in the
     *  builder's `mark`, twice a number that never decreases from row to row, plus 0 or 1. `before`
     *  is the previous row's mark, with or without the 1; 0 for the first row. Default: none, and
     *  an index stores places. */
    int (*at_mark)(const struct lladd_dtable *, uint64_t place, uint64_t before, uint64_t mark,
                   struct lladd_dtable_pin *, struct lladd_dtable_value *value,
                   struct lladd_error *);

    /** Looks a key up; *out is ABSENT at the call. Default: by find and at, or the base and
     *  decode. */
    int (*lookup)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                  struct lladd_dtable_pin *, struct lladd_dtable_value *out, struct lladd_error *);

    /** As lladd_dtable_interval_at, for a table that has ranges. The key has been checked. */
    int (*interval)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                    struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                    struct lladd_error *);

    /** Reads some columns of packed rows, for a class that need not unpack them: at a place, by
     *  key, at its own cursor. *state gets the row's state. With columns_at, a cursor reads only
     *  the columns asked for. */
    int (*columns_at)(const struct lladd_dtable *, uint64_t place,
                      const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                      struct lladd_error *);
    int (*lookup_columns)(const struct lladd_dtable *, const struct lladd_dtable_key *,
                          const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                          struct lladd_error *);
    int (*cursor_columns)(const struct lladd_dtable *, void *cursor,
                          const struct lladd_dtable_columns *, enum lladd_dtable_state *state,
                          struct lladd_error *);

    /** Copies the values of at most n rows from a place on, for a class that stores them next to
     *  each other: all of *width bytes, as many as fit into `room`. *got is how many; the copy ends
     *  at a row without a value, or with one of another size. Default: none. */
    int (*copy)(const struct lladd_dtable *, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *);
    /** The same for one column of packed rows. */
    int (*copy_column)(const struct lladd_dtable *, uint32_t column, uint64_t place, size_t n,
                       unsigned char *out, size_t room, size_t *width, size_t *got,
                       struct lladd_error *);
    /** The only table that this one shows rows of at present; NULL: there are several. */
    const struct lladd_dtable *(*only)(const struct lladd_dtable *);

    size_t cursor_size; /**< of the class's own part of a cursor; zeroed */
    int (*cursor_open)(const struct lladd_dtable *, void *cursor, struct lladd_error *);
    void (*cursor_close)(const struct lladd_dtable *, void *cursor);
    /** Moves the cursor to the target: 0 or LLADD_END. */
    int (*cursor_seek)(const struct lladd_dtable *, void *cursor, enum lladd_dtable_where,
                       const struct lladd_dtable_key *, struct lladd_error *);
    /** Moves the cursor to the next or previous row: 0 or LLADD_END. */
    int (*cursor_step)(const struct lladd_dtable *, void *cursor, bool forward,
                       struct lladd_error *);
    /** The row at the cursor; key and value are each nullable. */
    int (*cursor_row)(const struct lladd_dtable *, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *);

    /** False if this layer knows that the key is absent. A filter's `lookup` then does not ask the
     *  layers below; statistics count that. NULL: no filter. */
    bool (*may_have)(const struct lladd_dtable *, const struct lladd_dtable_key *);
    /** For a class that shows rows of other tables: the cursor of another table if this one's rows
     *  around the position are exactly that table's. The caller may then move that cursor in place
     *  of this one; at the next call this cursor's position is that one's. False, the default: ask
     *  for each row. */
    bool (*cursor_lead)(const struct lladd_dtable *, void *cursor, struct lladd_dtable_lead *out);
};

/** Registers a class with the handle; the class must outlive it. LLADD_EXISTS if another class has
 *  the name, LLADD_BAD_REGISTRATION if it is incomplete. */
LLADD_API int lladd_dtable_class_add(struct lladd_db *, const struct lladd_dtable_class *,
                                     struct lladd_error *);

/** lladd_dtable_ask for a class without a `lookup`. */
LLADD_API int lladd_dtable_ask_anyhow(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                      struct lladd_dtable_pin *, struct lladd_dtable_value *,
                                      struct lladd_error *);
/** Declared above, where classes begin. */
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
