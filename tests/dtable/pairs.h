/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_PAIRS_H
#define TESTS_DTABLE_PAIRS_H
/* A selection of compositions. It contains every possible pair of two layers at two levels, every
 * possible pair of a layer and a type of keys, and every possible pair of a layer and a shape of
 * data. A layer is a class with one of several sets of parameters. */
#include "compose.h"
#include "model.h"

struct trial {
    struct composition what;
    struct shape shape;
    unsigned types; /* the types that the keys may have; one bit for each type */
};
struct trials {
    struct trial *all;
    size_t n, cap;
    /* - met: the number of pairs of layers that are in the selection.
     * - unmet: the number of pairs of layers for which no valid composition was found.
     * - met_data, unmet_data: the same for pairs of a layer and a type of keys or a shape of
     *   data. */
    size_t met, unmet, met_data, unmet_data;
    size_t refused; /* how many compositions were tried and were invalid */
};

/* Shapes of data: all kinds of rows, for a type of keys. */
enum { SHAPE_KINDS = 7, SHAPE_TYPES = 5 };
struct shape shape_of(enum lladd_dtable_type, unsigned kind);
/* Returns a shape of rows that the composition can store. (A column_dtable stores only packed
 * rows.) */
struct shape shape_for(const struct composition *, enum lladd_dtable_type, unsigned kind);

/* Returns true if the configuration is valid. *types becomes the possible types of keys, in the
 * form of caps.types. If `open` is false, the configuration must also be possible in a managed
 * table: all sizes of values must be known, and the layers must be able to store tombstones. With a
 * column_dtable, all sizes must be known in any case. */
bool pairs_admit(struct fixture *, const struct composition *, bool open, unsigned *types);
/* Returns all valid compositions of a depth. */
struct compositions pairs_all(struct fixture *, unsigned depth, bool open);
/* Returns the selection of the compositions that have one layer more than those in `below`. When
 * `patience` compositions with a pair were refused, the pair is given up. With patience 0 no pair
 * is given up. */
struct trials pairs_select(struct fixture *, const struct compositions *below, bool open,
                           unsigned patience);
void pairs_free(struct trials *);
/* Draws a type of keys and a shape of data for the composition. Returns false if the composition is
 * invalid or has no possible type of keys. */
bool pairs_draw(struct fixture *, const struct composition *, bool open, uint64_t *random,
                struct trial *out);

#endif
