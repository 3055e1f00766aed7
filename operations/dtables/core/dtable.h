/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_DTABLE_H
#define LL_OPERATIONS_DTABLE_DTABLE_H
/* dTables: the internal interface. dtable.c has an overview. */
#include "operations/shared/grow.h"
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/column_codec.h>
#include <lladd/dtable_class.h>
#include <lladd/dtable_row.h>
#include <lladd/extension.h>
#include <lladd/sync.h>

struct ll_dtables;

/* ---- growing buffers ------------------------------------------------------------------------- */

struct ll_dtable_bytes {
    struct lladd_db *db;
    unsigned char *data;
    size_t len, cap;
};
/* Grows `len` by n. Returns the address of the n new bytes, which the caller fills in. NULL: out of
 * memory. */
unsigned char *ll_dtable__more(struct ll_dtable_bytes *, size_t n);
int ll_dtable__append(struct ll_dtable_bytes *, const void *, size_t n);
/* Allocates n + 1 zeroed elements, so that n may be 0. */
void *ll_dtable__zeros(struct lladd_db *, size_t n, size_t element);
int ll_dtable__no_memory(struct lladd_error *);

/* ---- configurations: config.c, config_parse.c, config_print.c -------------------------------- */

/* Do the capabilities allow a value of this state and size? */
static inline bool ll_dtable__can_store(const struct lladd_dtable_caps *caps,
                                        const struct lladd_dtable_value *v)
{
    if (v->state != LLADD_DTABLE_FOUND)
        return v->state == LLADD_DTABLE_TOMBSTONE ? caps->tombstones : caps->absent;
    return (v->bytes.len || caps->empty) &&
           (caps->value_size == LLADD_DTABLE_ANY_SIZE || v->bytes.len == caps->value_size);
}

struct ll_dtable_word {
    unsigned char *bytes;
    size_t len;
};
struct ll_dtable_param {
    bool set;
    int64_t number;
    struct ll_dtable_word bytes;
    struct ll_dtable_word *words;
    size_t n_words, cap_words;
    struct lladd_dtable_config *child, *last; /* the first and the last child; only a list of layers
                                               * has more than one */
};
struct lladd_dtable_config {
    struct lladd_db *db;
    const struct lladd_dtable_class *kind;
    struct ll_dtable_param *params; /* one for each parameter of the class */
    struct lladd_dtable_caps caps;
    void *state;
    uint32_t line, column; /* where the text names the class; 0: made by calls, not from a text */
    bool checked;
    unsigned height; /* layers on the longest path from here down; valid when checked */
    unsigned layers; /* number of layers from here down; valid when checked */
    bool settled;    /* lladd_dtable_settle_int has set a number since the last check */
    bool done;       /* checked completely, and immutable from now on */
    const struct lladd_dtable_config *parent; /* NULL: owned by the caller */
    struct lladd_dtable_config *next; /* the next child in the parent's list of layers */
};
enum { LL_DTABLE_DEPTH_MAX = 32 };

size_t ll_dtable__n_params(const struct lladd_dtable_class *);
/* Returns LLADD_BAD_CONFIG if the checked configuration cannot have keys of this type. Type 0
 * always passes. */
int ll_dtable__config_has(const struct lladd_dtable_config *, enum lladd_dtable_type,
                          struct lladd_error *);
/* Returns LLADD_BAD_CONFIG. The message has the line and column of this layer, which is nested too
 * deeply. */
int ll_dtable__too_deep(const struct lladd_dtable_config *, struct lladd_error *);
/* Makes `child` the value of the parameter, or the next value of a list. */
void ll_dtable__adopt(struct lladd_dtable_config *, struct ll_dtable_param *,
                      struct lladd_dtable_config *child);
/* Returns the parameter's index in the class, or -1. */
int ll_dtable__param(const struct lladd_dtable_class *, const char *name, size_t len);
int ll_dtable__word_set(struct lladd_db *, struct ll_dtable_word *, struct lladd_span);
int ll_dtable__config_of(struct lladd_db *, const struct lladd_dtable_class *,
                         struct lladd_dtable_config **out, struct lladd_error *);

/* ---- descriptors of runs: describe.c --------------------------------------------------------- */

struct ll_dtable_extent {
    uint64_t first, pages;
    uint64_t block; /* number of its first block */
};
struct ll_dtable_stream {
    char name[32];
    uint32_t layer;
    uint64_t size;
    struct ll_dtable_extent *extents;
    size_t n_extents, cap_extents;
    uint32_t *crcs; /* one per block */
    size_t n_blocks, cap_blocks;
};
/* A run's descriptor. In a descriptor that was read, texts, keys and footers point into
 * `memory`. */
struct ll_dtable_descriptor {
    struct lladd_db *db;
    uint64_t id, rows, tombstones, row_bytes;
    uint32_t version, block_pages, block_size;
    enum lladd_dtable_type type;
    const char *name, *comparator, *config; /* comparator "": none */
    struct lladd_dtable_key min, max;
    uint32_t n_layers, n_streams;
    struct lladd_span *footers;   /* one per layer */
    uint32_t *versions;           /* one per layer: the version of its class */
    struct ll_dtable_stream *streams;
    unsigned char *memory;
};
enum { LL_DTABLE_FORMAT = 1, LL_DTABLE_LAYERS_MAX = 1024, LL_DTABLE_STREAMS_MAX = 4096 };

/* Appends the descriptor with its checksum to the buffer. */
int ll_dtable__describe(const struct ll_dtable_descriptor *, struct ll_dtable_bytes *);
/* Parses and checks a descriptor that may be damaged. On 0 the descriptor owns `bytes`, otherwise
 * the caller does. */
int ll_dtable__understand(struct lladd_db *, unsigned char *bytes, size_t len,
                          struct ll_dtable_descriptor *, struct lladd_error *);
int ll_dtable__read_descriptor(struct lladd_db *, lladd_pageno root, struct ll_dtable_descriptor *,
                               struct lladd_error *);
void ll_dtable__descriptor_free(struct ll_dtable_descriptor *);
/* Returns the seed for the CRC-32C of a block's contents. It depends on the run, the stream and the
 * number of the block. */
uint32_t ll_dtable__block_seed(uint64_t run, uint32_t stream, uint64_t block);

/* ---- the block cache: cache.c ---------------------------------------------------------------- */

/* The slot of a block, which may be in memory. `word` holds the block's state and the number of its
 * holders (cache.c). */
struct ll_dtable_slot {
    uint32_t word; /* atomic */
    uint32_t len;  /* length of the contents while they are in memory */
    unsigned char *bytes;
};
struct lladd_dtable_source {
    struct ll_dtable_run *run;
    const struct ll_dtable_stream *stream;
    uint32_t number, block_size;
    uint64_t size, n_blocks; /* size and number of blocks of the uncompressed stream */
    bool packed;             /* the stored stream is compressed: pack.c */
    struct ll_dtable_place {
        uint64_t from; /* offset in the stored stream */
        uint32_t len, crc;
    } *map; /* one per block, if compressed */
    struct ll_dtable_slot *slots; /* one per block */
    /* Checks a block that was loaded (lladd_dtable_source_check); NULL: nothing to check. */
    int (*check)(const struct lladd_dtable *, uint64_t block, const unsigned char *bytes,
                 uint32_t len, struct lladd_error *);
    const struct lladd_dtable *checker;
};

struct ll_dtable_cache {
    struct lladd_mutex mutex; /* protects the hand, runs, classes, comparators and codecs */
    uint64_t limit, used;     /* atomic */
    uint64_t fixed; /* atomic; the part of `used` that eviction cannot free: memory of open runs */
    uint64_t reads, evictions; /* atomic */
    struct ll_dtable_run *hand;
    uint32_t hand_source;
    uint64_t hand_block;
};
/* Memory of an open run that eviction cannot free: cache_take adds `bytes` to `used` and `fixed`
 * of the cache, cache_give subtracts them. */
void ll_dtable__cache_take(struct ll_dtables *, uint64_t bytes);
void ll_dtable__cache_give(struct ll_dtables *, uint64_t bytes);
/* Reads a block of the stored stream into `buffer` and verifies its checksums. `buffer` has room
 * for the block's pages. */
int ll_dtable__fetch(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                     uint32_t *len, struct lladd_error *);
/* For compressed sources (pack.c). ll_dtable__packed_open reads the map. ll_dtable__unpack reads a
 * block and decompresses it. */
int ll_dtable__packed_open(struct lladd_dtable_source *, struct lladd_error *);
int ll_dtable__unpack(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                      uint32_t *len, struct lladd_error *);
/* Reads a block of any source, and decompresses it if the source is compressed. */
int ll_dtable__read_block(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                          uint32_t *len, struct lladd_error *);
const struct ll_dtable_extent *ll_dtable__extent_of(const struct ll_dtable_stream *,
                                                    uint64_t block);
/* Returns `code` with a message that names the block. For a corrupt page, or for misuse, the code
 * becomes LLADD_CORRUPT_RUN. */
int ll_dtable__damaged(const struct lladd_dtable_source *, uint64_t block, lladd_pageno, int code,
                       const char *why, struct lladd_error *);
/* Frees all blocks of the run. No thread may hold one. */
void ll_dtable__cache_drop(struct ll_dtable_run *);

/* ---- open runs: run.c ------------------------------------------------------------------------ */

struct ll_dtable_run {
    struct ll_dtables *all;
    lladd_pageno root;
    struct ll_dtable_descriptor d;
    struct lladd_dtable_config *config;
    struct lladd_dtable_order order;
    struct lladd_dtable_source *sources;
    struct lladd_dtable *layers; /* linked by next_, the root's first */
    unsigned char **loaded;      /* streams loaded as a whole, by number */
    struct ll_dtable_kept *kept; /* list of memory that classes allocated */
    uint64_t fixed_bytes;        /* memory of the run that eviction cannot free */
    const uint32_t *alive; /* from lladd_db_alive */
    struct ll_dtable_run *next;
};
/* Writes where an error is, for messages, e.g. run "name" of page 7, layer base (fixed_dtable),
 * stream keys. */
void ll_dtable__where(const struct ll_dtable_run *, uint32_t layer, const char *stream, char *out,
                      size_t size);

/* Returns LLADD_FORKED if this process was forked after the table was opened. A public call that
 * may fail calls this before it takes a mutex: a thread of the parent process may have held the
 * mutex during the fork. */
static inline int ll_dtable__here(const struct lladd_dtable *t, struct lladd_error *err)
{
    if (t->run_ && t->run_->alive && lladd_atomic_load32(t->run_->alive))
        return 0;
    return lladd_check_process(t->db, err);
}

/* ---- per handle: dtable.c -------------------------------------------------------------------- */

struct ll_dtables {
    struct lladd_db *db;
    struct ll_dtable_cache cache;
    struct ll_dtable_run *runs; /* open runs; under the cache's mutex */
    struct ll_dtable_run *opening; /* runs being opened, each used by one thread only; under the
                                    * mutex */
    const struct lladd_dtable_class **classes;
    size_t n_classes, cap_classes;
    const struct lladd_dtable_comparator **comparators;
    size_t n_comparators, cap_comparators;
    const struct lladd_codec **codecs;
    size_t n_codecs, cap_codecs;
};
extern const struct lladd_extension ll_dtable__extension;
extern const struct lladd_page_type ll_dtable__page;
enum {
    LL_DTABLE_RANK = LLADD_RANK_EXTENSION + 60,
    LL_DTABLE_RANK_MEMORY = LLADD_RANK_EXTENSION + 59
};
static inline struct ll_dtables *ll_dtables_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_dtable__extension);
}
const struct lladd_dtable_class *ll_dtable__class(struct ll_dtables *, const char *name,
                                                  size_t len);
/* Does the name have 1 to 63 characters of [a-z0-9_.-]? */
bool ll_dtable__good_name(const char *name);
/* Finds a registered comparator. A NULL or empty name sets *out to NULL. */
int ll_dtable__comparator(struct ll_dtables *, const char *name,
                          const struct lladd_dtable_comparator **out, struct lladd_error *);

int ll_dtable__at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                  struct lladd_dtable_key *, struct lladd_dtable_value *, struct lladd_error *);

/* True if the class assembles the current row's value from columns. A caller then fetches the value
 * only if it needs it. False for a cursor that decodes the values of its base. */
bool ll_dtable__value_later(const struct lladd_dtable_cursor *);

extern const struct lladd_dtable_class ll_dtable__memory_class;

#endif
