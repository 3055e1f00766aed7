/* SPDX-License-Identifier: BSD-2-Clause */
/* The database of the demonstration: stanzas in a heap, and an index by sequence number. */
#ifndef PACKAGES_STORE_H
#define PACKAGES_STORE_H
#include "index.h"

struct store {
    struct lladd_db *db;
    lladd_pageno heap;
    struct index index;
    uint32_t piece_max; /**< most bytes of a stanza in one record */
};

/** One record of the heap: a stanza, or a piece of one that is too long for a page. */
struct piece {
    uint64_t sequence;
    uint32_t total;        /**< length of the stanza */
    uint32_t offset;       /**< of the piece in it */
    struct lladd_rid next; /**< the next piece; page 0: this is the last */
    const char *text;
    size_t len;
};

/** Opens the database in `dir`, making it if there is none; recovers it if it was not closed.
 *  `transcript` (nullable) gets recovery's account, line by line. */
int store_open(struct store *, const char *dir, lladd_transcript_fn *transcript, void *ctx,
               struct lladd_error *);
int store_close(struct store *);
/** Adds a stanza to the heap, in the transaction; *out is its first record. The index does not know
 *  it yet: that is index_put's part. Errors: lladd_txn_error. */
int store_put(struct store *, struct lladd_txn *, uint64_t sequence, const char *text, size_t len,
              struct lladd_rid *out);
/** Reads the stanza of a sequence number by way of the index. *len gets its length, `buf` the first
 *  `size` bytes. LLADD_NOT_FOUND. */
int store_get(struct store *, uint64_t sequence, char *buf, size_t size, size_t *len,
              struct lladd_error *);
/** Takes a record of the heap apart; false if it is none of ours. */
bool piece_parse(const struct lladd_record *, struct piece *out);
#endif
