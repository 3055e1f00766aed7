/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_TEXTS_H
#define TESTS_DTABLE_TEXTS_H
/* Small runs: keys are u32, values are texts. */
#include "op_fixture.h"

#include <lladd/dtable_class.h>

/* "no-case": upper-case and lower-case letters compare equal. */
extern const struct lladd_dtable_comparator no_case;

struct lladd_dtable *open_run(struct fixture *, lladd_pageno root);
/* Begins a run with the smallest blocks. */
struct lladd_dtable_run_builder *begin_run(struct lladd_txn *, enum lladd_dtable_type,
                                           const char *config);
/* Adds a row; if the value is NULL, a tombstone. */
int add_text(struct lladd_dtable_run_builder *, uint32_t key, const char *value);
/* Builds a run with keys from `first` on. "(gone)" makes a tombstone, "(none)" leaves the key out,
 * and NULL ends the values. */
struct lladd_dtable *run_of(struct fixture *, const char *config, uint32_t first,
                            const char *const *values);
/* Returns the state of a key. If the key has a value, `text` (nullable) receives the value as a
 * string. */
enum lladd_dtable_state state_of(struct fixture *, const struct lladd_dtable *, uint32_t key,
                                 char *text);

#endif
