/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_BLOBS_H
#define LL_SIM_BLOBS_H
/* Cells that are blobs, each under a name: what the subjects blobs and bulk share. A cell's contents
 * are behind zeros that nobody has written: so many that they begin at the end of the root page, for
 * LL_SIM_BLOB_FAR so many that its entries are in index pages. (Every byte of log is a state.) */
#include "sim/subjects/cells.h"

#include <lladd/blob.h>

enum { LL_SIM_BLOB_FAR = 5 };

int ll_sim_blob_make(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                     size_t len);
/* All `len` bytes of its contents anew. */
int ll_sim_blob_write(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                      size_t len);
int ll_sim_blob_replace(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                        size_t len);
/* From `was` to `len` bytes. */
int ll_sim_blob_append(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                       size_t was, size_t len);
int ll_sim_blob_drop(struct ll_sim_work *, struct lladd_txn *, unsigned cell);

/* Members of a subject. */
int ll_sim_blobs_check(void *ctx, struct lladd_db *, struct lladd_error *);
int ll_sim_blobs_dump(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
int ll_sim_blobs_pages(void *ctx, struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                       struct lladd_error *);

#endif
