/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_CLASS_KEYS_H
#define LL_OPERATIONS_DTABLE_CLASS_KEYS_H
/* A column of sorted keys, each with a number, its mark: used by linear, fixed-size and automatic
 * dTables. A mark is twice a number that never decreases from row to row (where the value ends, how
 * many tombstones there were), plus one if the row is a tombstone. See keys.c. */
#include <lladd/dtable_class.h>

struct ll_keys_builder {
    struct lladd_dtable_builder *owner;
    struct lladd_dtable_writer *out;
    bool numbers;
    uint32_t block_size;
    uint64_t rows, blocks;
    /* The block being filled. */
    size_t n, cap;
    uint64_t *key;  /* of a row, or the offset where its bytes end */
    uint64_t *mark; /* of a row */
    uint64_t base;  /* mark of the row before the block, without the flag */
    uint64_t odd;   /* 1: one of the rows is a tombstone */
    bool even;      /* keys are evenly spaced by `step`, or of that length */
    bool marked;    /* marks are evenly spaced, from `base` on */
    uint64_t step;
    unsigned char *bytes;
    size_t bytes_len, bytes_cap;
    /* Of all blocks written: their first keys and places. */
    size_t index_cap;
    uint64_t *first, *place;
    unsigned char *index_bytes;
    size_t index_len, index_bytes_cap;
    unsigned char *scratch; /* a block */
};
int ll_keys_begin(struct ll_keys_builder *, struct lladd_dtable_builder *owner);
int ll_keys_add(struct ll_keys_builder *, const struct lladd_dtable_key *, uint64_t mark);
/* Writes the rest, and sets the layer's footer: what ll_keys_open needs, then `more`. */
int ll_keys_finish(struct ll_keys_builder *, const void *more, size_t len);
void ll_keys_discard(struct ll_keys_builder *);

struct ll_keys {
    const struct lladd_dtable *owner;
    const struct lladd_dtable_source *in;
    uint64_t rows, blocks;
    const unsigned char *first, *place; /* u64 per block */
    const unsigned char *index_bytes;
    size_t index_len;
    const uint64_t *heads; /* of keys that are bytes, see keys.c; or NULL */
    size_t common;
    bool numbers;
};
/* What readers of classes with their keys in a column begin with: the first member of struct
 * reader. */
struct ll_keys_reader {
    struct lladd_dtable base;
    struct ll_keys keys;
};
/* The `find`, `at` and `lookup` of such a class; values by its `at_mark`, with the column's
 * marks. */
int ll_keys_class_find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                       struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                       struct lladd_error *);
int ll_keys_class_at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                     struct lladd_dtable_key *, struct lladd_dtable_value *, struct lladd_error *);
int ll_keys_class_lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                         struct lladd_dtable_pin *, struct lladd_dtable_value *,
                         struct lladd_error *);
/* Called in a class's `open`. *more is what ll_keys_finish was given. */
int ll_keys_open(struct ll_keys *, struct lladd_dtable *owner, struct lladd_span *more,
                 struct lladd_error *);
/* Like a class's `find`. */
int ll_keys_find(const struct ll_keys *, const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                 uint64_t *place, bool *exact, struct lladd_error *);
/* The key (nullable), the mark of a row, and the mark of the row before it (0 for the first
 * row). */
int ll_keys_at(const struct ll_keys *, uint64_t place, struct lladd_dtable_pin *,
               struct lladd_dtable_key *, uint64_t *before, uint64_t *mark, struct lladd_error *);

#endif
