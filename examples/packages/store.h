/* SPDX-License-Identifier: BSD-2-Clause */
/* The database of the demonstration: the stanzas (paragraphs of a Debian package list) in a hash
 * table, and a page that tallies their number and bytes by the first letter of their first field.
 */
#ifndef PACKAGES_STORE_H
#define PACKAGES_STORE_H
#include "stanzas.h"
#include "tally.h"

#include <lladd/hash.h>

struct store {
    struct lladd_db *db;
    struct lladd_hash *table; /**< keys are made by stanzas_key; values are the stanzas' text */
    lladd_pageno tally;
    lladd_op_id count;
};

/** Opens the database in `dir`: creates it if it does not exist, and recovers it if it was not
 *  closed. `trace` (nullable) gets each line of recovery's trace. */
int store_open(struct store *, const char *dir, lladd_trace_fn *trace, void *ctx,
               struct lladd_error *);
int store_close(struct store *);
/** Releases the database as if the process had died. */
void store_kill(struct store *);
/** Puts a stanza into the table, in the transaction. Does not count the stanza: store_count does.
 *  Errors are in lladd_txn_error. */
int store_put(struct store *, struct lladd_txn *, const struct stanzas *, uint64_t sequence);
/** Adds the stanza to the tally. */
int store_count(struct store *, struct lladd_txn *, const struct stanzas *, uint64_t sequence);
#endif
