/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_CLASS_KEYS_H
#define LL_OPERATIONS_DTABLE_CLASS_KEYS_H
/* A column of sorted keys (keys.c). Each key has a number, its mark. linear_dtable, fixed_dtable
 * and auto_dtable use it. A mark is twice a number that never decreases from row to row, such as
 * the offset where the value ends, or the number of tombstones so far. If the row is a tombstone,
 * the mark is one more. */
#include "operations/shared/try.h"

#include <lladd/dtable_class.h>

struct ll_keys_builder {
    struct lladd_dtable_builder *owner;
    struct lladd_dtable_writer *out;
    bool numbers;
    uint32_t block_size;
    uint64_t rows, blocks;
    /* The block being filled. */
    size_t n, cap;
    uint64_t *key;  /* for each row the key, or the offset where its bytes end */
    uint64_t *mark; /* for each row its mark */
    uint64_t base;  /* mark of the row before the block, without the flag */
    uint64_t odd;   /* 1: a row of the block is a tombstone */
    bool even;      /* keys are evenly spaced by `step` or, if bytes, all have this length */
    bool marked;    /* marks are evenly spaced, from `base` on */
    uint64_t step;
    unsigned char *bytes;
    size_t bytes_len, bytes_cap;
    /* The index: first keys and first places of all blocks written. */
    size_t index_cap;
    uint64_t *first, *place;
    unsigned char *index_bytes;
    size_t index_len, index_bytes_cap;
    unsigned char *scratch; /* a block */
};
int ll_keys_begin(struct ll_keys_builder *, struct lladd_dtable_builder *owner);
int ll_keys_add(struct ll_keys_builder *, const struct lladd_dtable_key *, uint64_t mark);
/* Writes the last block and the index, and sets the layer's footer, which ends with `more`. */
int ll_keys_finish(struct ll_keys_builder *, const void *more, size_t len);
void ll_keys_discard(struct ll_keys_builder *);

struct ll_keys {
    const struct lladd_dtable *owner;
    const struct lladd_dtable_source *in;
    uint64_t rows, blocks;
    const unsigned char *first, *place; /* u64 per block */
    const unsigned char *index_bytes;
    size_t index_len;
    const uint64_t *heads; /* heads of the blocks' first keys, or NULL: see keys.c */
    size_t common;         /* length of the prefix that all these first keys have in common */
    bool numbers;
};
/* The first member of struct reader in a class that uses the functions below. */
struct ll_keys_reader {
    struct lladd_dtable base;
    struct ll_keys keys;
};
/* `find`, `at` and `lookup` of such a class. They call the class's `at_mark` to fetch a value. */
int ll_keys_class_find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                       struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                       struct lladd_error *);
int ll_keys_class_at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                     struct lladd_dtable_key *, struct lladd_dtable_value *, struct lladd_error *);
int ll_keys_class_lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                         struct lladd_dtable_pin *, struct lladd_dtable_value *,
                         struct lladd_error *);
/* Called by a class's `open`. *more becomes the bytes that ll_keys_finish got as `more`. */
int ll_keys_open(struct ll_keys *, struct lladd_dtable *owner, struct lladd_span *more,
                 struct lladd_error *);
int ll_keys_find(const struct ll_keys *, const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                 uint64_t *place, bool *exact, struct lladd_error *);
/* Reads the row at a place: its key (nullable), its mark, and the mark of the row before it (0 for
 * the first row). *before may lack the tombstone flag. */
int ll_keys_at(const struct ll_keys *, uint64_t place, struct lladd_dtable_pin *,
               struct lladd_dtable_key *, uint64_t *before, uint64_t *mark, struct lladd_error *);

#endif
