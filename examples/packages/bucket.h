/* SPDX-License-Identifier: BSD-2-Clause */
/* packages.bucket: a page type of our own, and the two operations on it. */
#ifndef PACKAGES_BUCKET_H
#define PACKAGES_BUCKET_H
#include <lladd/lladd.h>
#include <lladd/records.h>

#define BUCKET_TYPE "packages.bucket"

/** What a caller of packages.index_put says: where the record of `sequence` is. */
struct bucket_put {
    uint64_t sequence;
    struct lladd_rid rid;
};

/** Makes page type and operations known; before lladd_open, which may need them to recover. */
int bucket_register(struct lladd_options *, struct lladd_error *);
/** Ids of "packages.index_put" and "packages.bucket.format" on this handle. */
int bucket_lookup(struct lladd_db *, lladd_op_id *put, lladd_op_id *format, struct lladd_error *);
/** Entries of one bucket. */
uint32_t bucket_capacity(uint32_t page_size);
/** The entry of a sequence number; false if there is none. */
bool bucket_find(struct lladd_view, uint64_t sequence, struct lladd_rid *out);
#endif
