/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_DTABLE_H
#define LL_OPERATIONS_DTABLE_DTABLE_H
/* dTables, the inside: see dtable.c. */
#include <lladd/bytes.h>
#include <lladd/dtable_class.h>
#include <lladd/dtable_row.h>
#include <lladd/sync.h>

struct ll_dtables;

/* ---- bytes that grow ------------------------------------------------------------------------- */

struct ll_dtable_bytes {
    struct lladd_db *db;
    unsigned char *data;
    size_t len, cap;
};
/* Room for n more, behind what is there: NULL: out of memory. */
unsigned char *ll_dtable__more(struct ll_dtable_bytes *, size_t n);
int ll_dtable__append(struct ll_dtable_bytes *, const void *, size_t n);
/* An array of `n` elements gets room for one more. */
int ll_dtable__grow(struct lladd_db *, void **array, size_t n, size_t *cap, size_t element);
/* n + 1 elements of zeros. */
void *ll_dtable__zeros(struct lladd_db *, size_t n, size_t element);
int ll_dtable__no_memory(struct lladd_error *);

/* ---- configurations: config.c, config_parse.c, config_print.c -------------------------------- */

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
    struct lladd_dtable_config *child, *last; /* of LAYERS: the first, the last of them */
};
struct lladd_dtable_config {
    struct lladd_db *db;
    const struct lladd_dtable_class *kind;
    struct ll_dtable_param *params; /* as many as the class has */
    struct lladd_dtable_caps caps;
    void *state;
    uint32_t line, column; /* 0: not from a text */
    bool checked;
    unsigned height; /* layers, from here down; of a checked one */
    bool settled;    /* a number was settled since it was looked at */
    bool done;       /* all of it was checked, and is not changed any more */
    const struct lladd_dtable_config *parent; /* whose it is; NULL: its maker's */
    struct lladd_dtable_config *next; /* of one parameter's */
};
enum { LL_DTABLE_DEPTH_MAX = 32 };

size_t ll_dtable__n_params(const struct lladd_dtable_class *);
/* Of a checked one: LLADD_BAD_CONFIG if it has no keys of the type. 0: any will do. */
int ll_dtable__config_has(const struct lladd_dtable_config *, enum lladd_dtable_type,
                          struct lladd_error *);
/* Below it, as the value, or the next one, of its parameter. */
void ll_dtable__adopt(struct lladd_dtable_config *, struct ll_dtable_param *,
                      struct lladd_dtable_config *child);
/* Its number, or -1. */
int ll_dtable__param(const struct lladd_dtable_class *, const char *name, size_t len);
int ll_dtable__word_set(struct lladd_db *, struct ll_dtable_word *, struct lladd_span);
int ll_dtable__config_of(struct lladd_db *, const struct lladd_dtable_class *,
                         struct lladd_dtable_config **out, struct lladd_error *);

/* ---- what is stored of a run: describe.c ----------------------------------------------------- */

struct ll_dtable_extent {
    uint64_t first, pages;
    uint64_t block; /* the first in it */
};
struct ll_dtable_stream {
    char name[32];
    uint32_t layer;
    uint64_t size;
    struct ll_dtable_extent *extents;
    size_t n_extents, cap_extents;
    uint32_t *crcs; /* of its blocks */
    size_t n_blocks, cap_blocks;
};
/* A run's descriptor. Its parts live in `memory`, apart from extents and checksums. */
struct ll_dtable_descriptor {
    struct lladd_db *db;
    uint64_t id, rows, tombstones, row_bytes;
    uint32_t version, block_pages, block_size;
    enum lladd_dtable_type type;
    const char *name, *comparator, *config; /* comparator "": none */
    struct lladd_dtable_key min, max;
    uint32_t n_layers, n_streams;
    struct lladd_span *footers;   /* of its layers */
    uint32_t *versions;           /* of their classes */
    struct ll_dtable_stream *streams;
    unsigned char *memory;
};
enum { LL_DTABLE_FORMAT = 1, LL_DTABLE_LAYERS_MAX = 1024, LL_DTABLE_STREAMS_MAX = 4096 };

/* Appends it to the bytes, checksum and all. */
int ll_dtable__describe(const struct ll_dtable_descriptor *, struct ll_dtable_bytes *);
/* What the bytes say, which become the descriptor's if it is 0: any bytes. `page_size` settles what
 * a block is. */
int ll_dtable__understand(struct lladd_db *, unsigned char *bytes, size_t len,
                          struct ll_dtable_descriptor *, struct lladd_error *);
int ll_dtable__read_descriptor(struct lladd_db *, lladd_pageno root, struct ll_dtable_descriptor *,
                               struct lladd_error *);
void ll_dtable__descriptor_free(struct ll_dtable_descriptor *);
/* CRC-32C of a block's contents, in front of which stands whose it is. */
uint32_t ll_dtable__block_seed(uint64_t run, uint32_t stream, uint64_t block);

/* ---- the cache of blocks: cache.c ------------------------------------------------------------ */

/* A block that can be in memory. `word` has what is going on, and how many hold it. */
struct ll_dtable_slot {
    uint32_t word; /* atomic */
    uint32_t len;  /* of its contents, when it is there */
    unsigned char *bytes;
};
struct lladd_dtable_source {
    struct ll_dtable_run *run;
    const struct ll_dtable_stream *stream;
    uint32_t number, block_size;
    uint64_t size, n_blocks; /* as its layer has written it */
    bool packed;             /* it is stored compressed: pack.c */
    struct ll_dtable_place {
        uint64_t from; /* in what is stored */
        uint32_t len, crc;
    } *map; /* of each block, if it is */
    struct ll_dtable_slot *slots; /* as many as blocks */
};

struct ll_dtable_cache {
    struct lladd_mutex mutex; /* eviction, the list of open runs, registries */
    uint64_t limit, used;     /* atomic */
    uint64_t fixed;           /* atomic; of used: what open runs have whatever the limit is */
    uint64_t reads, evictions; /* atomic */
    struct ll_dtable_run *hand;
    uint32_t hand_source;
    uint64_t hand_block;
};
/* Bytes that an open run has whatever the limit is; and given back. */
void ll_dtable__cache_take(struct ll_dtables *, uint64_t bytes);
void ll_dtable__cache_give(struct ll_dtables *, uint64_t bytes);
/* Reads a block, as it is stored, into `buffer`, which has room for its pages, and verifies it. */
int ll_dtable__fetch(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                     uint32_t *len, struct lladd_error *);
/* Of a source that is compressed: reads its map; a block, as its layer has written it: pack.c. */
int ll_dtable__packed_open(struct lladd_dtable_source *, struct lladd_error *);
int ll_dtable__unpack(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                      uint32_t *len, struct lladd_error *);
/* A block as its layer has written it, in whatever way it is stored. */
int ll_dtable__read_block(const struct lladd_dtable_source *, uint64_t block, unsigned char *buffer,
                          uint32_t *len, struct lladd_error *);
const struct ll_dtable_extent *ll_dtable__extent_of(const struct ll_dtable_stream *,
                                                    uint64_t block);
/* The code of what went wrong below, with the block's name. */
int ll_dtable__damaged(const struct lladd_dtable_source *, uint64_t block, lladd_pageno, int code,
                       const char *why, struct lladd_error *);
/* Nobody holds any block of the run any more. */
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
    unsigned char **loaded;      /* streams that are all in memory, by number */
    struct ll_dtable_kept *kept; /* what classes keep besides, a list */
    uint64_t fixed_bytes;        /* what of the cache's budget is taken while it is open */
    char *config_text;
    struct ll_dtable_run *next;
};
/* "run 5 "name" of page 7, layer base (fixed_dtable), stream keys" for messages. */
void ll_dtable__where(const struct ll_dtable_run *, uint32_t layer, const char *stream, char *out,
                      size_t size);

/* ---- per handle: dtable.c -------------------------------------------------------------------- */

struct ll_dtables {
    struct lladd_db *db;
    struct ll_dtable_cache cache;
    struct ll_dtable_run *runs; /* open; under the cache's mutex */
    struct ll_dtable_run *opening; /* likewise: not to be freed yet, and nobody else's business */
    const struct lladd_dtable_class **classes;
    size_t n_classes, cap_classes;
    const struct lladd_dtable_comparator **comparators;
    size_t n_comparators, cap_comparators;
};
extern const struct lladd_extension ll_dtable__extension;
extern const struct lladd_page_type ll_dtable__page;
enum {
    LL_DTABLE_RANK = LLADD_RANK_EXTENSION + 60,
    LL_DTABLE_RANK_MEMORY = LLADD_RANK_EXTENSION + 59
};
static inline struct ll_dtables *ll_dtables_of(struct lladd_db *db)
{
    return lladd_state(db, &ll_dtable__extension);
}
const struct lladd_dtable_class *ll_dtable__class(struct ll_dtables *, const char *name,
                                                  size_t len);
/* NULL for no name. */
int ll_dtable__comparator(struct ll_dtables *, const char *name,
                          const struct lladd_dtable_comparator **out, struct lladd_error *);

int ll_dtable__at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                  struct lladd_dtable_key *, struct lladd_dtable_value *, struct lladd_error *);

/* Is the value of the row it is at work that nobody may want? */
bool ll_dtable__value_later(const struct lladd_dtable_cursor *);

extern const struct lladd_dtable_class ll_dtable__memory_class, ll_dtable__overlay_class;

#endif
