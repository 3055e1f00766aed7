/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_RANDOM_OPTIONS_H
#define SUPPORT_RANDOM_OPTIONS_H
/*
 * Draws options of a database from a seed: page size, ring, segments, limit of the log, cache,
 * checkpoints, frames, threads of redo, kind of recovery and its memory. Sizes are small, so that
 * even little work crosses segments, fills the cache and takes checkpoints.
 */
#include <lladd/lladd.h>

/* Changes these fields of *o. About one seed in three gives no limit of the log. Otherwise the
 * limit is at least `limit` bytes, and large enough for an open. */
void random_options(uint64_t seed, uint64_t limit, struct lladd_options *o);
/* Prints the seed and the drawn options on one line, which ctest shows if the test fails. */
void random_options_print(uint64_t seed, const struct lladd_options *o);

#endif
