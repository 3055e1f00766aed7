/* SPDX-License-Identifier: BSD-2-Clause */
#include "spool_extension.h"

uint32_t spool_timeline;
struct ll_ship_spool *opened_spool;

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct ll_ship_mem mem = {NULL};
    (void)ctx;
    int rc = ll_ship_spool_open(db, mem, spool_timeline, &opened_spool, err);
    *state = rc ? NULL : opened_spool;
    return rc;
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    (void)ctx, (void)db;
    ll_ship_spool_close(state);
    if (state == opened_spool)
        opened_spool = NULL;
}

static int bulk_written(void *ctx, struct lladd_db *db, void *state, struct lladd_txn *txn,
                        lladd_lsn barrier, lladd_pageno first, uint64_t n, bool typed,
                        const void *bytes)
{
    (void)ctx, (void)db;
    return ll_ship_spool_write(state, txn, barrier, first, n, typed, bytes);
}

static const struct lladd_participant *const participants[] = {&ll_ship_spool_participant, NULL};

const struct lladd_extension spool_extension = {
    .struct_size = sizeof spool_extension,
    .name = "test.spool",
    .version = 1,
    .participants = participants,
    .attach = attach,
    .detach = detach,
    .bulk_written = bulk_written,
};
