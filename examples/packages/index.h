/* SPDX-License-Identifier: BSD-2-Clause */
/* An index of sequence numbers: as many buckets as it takes. */
#ifndef PACKAGES_INDEX_H
#define PACKAGES_INDEX_H
#include <lladd/lladd.h>
#include <lladd/records.h>
#include <lladd/sync.h>

struct index {
    struct lladd_db *db;
    lladd_op_id put, format;
    uint32_t per_bucket;
    struct lladd_mutex lock; /**< guards what follows */
    lladd_pageno *extents;   /**< extent i holds the buckets from i * INDEX_EXTENT on */
    size_t n;
};

/** Finds the extents of an open database. Any number of threads may use the index. */
int index_open(struct index *, struct lladd_db *, struct lladd_error *);
void index_close(struct index *);
/** Sets the entry of a sequence number, as part of the transaction. Errors: lladd_txn_error. */
int index_put(struct index *, struct lladd_txn *, uint64_t sequence, struct lladd_rid);
/** LLADD_NOT_FOUND if there is no entry. */
int index_get(struct index *, uint64_t sequence, struct lladd_rid *out, struct lladd_error *);
#endif
