/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_BLOBS_H
#define LL_SIM_BLOBS_H
/* Cells that are named blobs; for the subjects blobs and bulk. A blob begins with zeros that are
 * never written; then follow the contents of the cell. In most cells the contents begin near the
 * end of the blob's root page. In cell LL_SIM_BLOB_FAR there are so many zeros that the blob needs
 * index pages. Contents are short, because every byte of log adds a crash state. */
#include "sim/subjects/cells.h"

#include <lladd/blob.h>

enum { LL_SIM_BLOB_FAR = 5 };

int ll_sim_blob_make(struct ll_sim_work *, struct lladd_txn *, unsigned cell, char letter,
                     size_t len);
/* Overwrites all `len` bytes of the cell's contents. */
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
