/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_BLOBS_H
#define LL_SIM_BLOBS_H
/* Cells that are blobs, each under a name; shared by the subjects blobs and bulk. Zeros that were
 * never written precede the contents of a cell: so many that the contents begin at the end of the
 * root page, and for LL_SIM_BLOB_FAR so many that the entries are in index pages. Contents are
 * short, because every byte of log is a crash state. */
#include "sim/subjects/cells.h"

#include <lladd/blob.h>

enum { LL_SIM_BLOB_FAR = 5 };

int ll_sim_blob_make(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                     size_t len);
/* Writes all `len` bytes of its contents. */
int ll_sim_blob_write(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                      size_t len);
int ll_sim_blob_replace(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                        size_t len);
/* Extends the contents from `was` to `len` bytes. */
int ll_sim_blob_append(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                       size_t was, size_t len);
int ll_sim_blob_drop(struct ll_sim_work *, struct lladd_txn *, unsigned cell);

/* Members of a subject. */
int ll_sim_blobs_check(void *ctx, struct lladd_db *, struct lladd_error *);
int ll_sim_blobs_dump(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
int ll_sim_blobs_pages(void *ctx, struct lladd_db *, int (*fn)(void *arg, lladd_pageno), void *arg,
                       struct lladd_error *);

#endif
