/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_RECOVERY_FORGED_LOG_H
#define TESTS_RECOVERY_FORGED_LOG_H
/*
 * Appends any record to the log of a closed database, with good checksums, as if a process had
 * logged it and then died. The test then opens the database.
 *
 *     fixture_close(&r);
 *     forged_open(&f, &r);
 *     struct ll_record rec = {...};
 *     lladd_lsn lsn = forged_append(&f, &rec, true);
 *     forged_close(&f);
 *     ... fixture_try_open(&r) ...
 */
#include "recovery/core.h"
#include "db_fixture.h"

struct forged_log {
    struct fixture *r;
    struct ll_env env;
    struct lladd_device *dev;
    struct lladd_file *control_file;
    struct ll_control control;
    struct ll_poison poison;
    struct ll_log *log;
    struct {
        char name[64];
        uint32_t number;
    } names[128];
    unsigned n_names;
    unsigned char *parts; /* the names of the catalogue, as parts of checkpoint data */
    size_t parts_len;
};

/* The database must have been closed. Asserts success. */
void forged_open(struct forged_log *, struct fixture *);
lladd_lsn forged_tail(const struct forged_log *); /* LSN of the next record */
/* `starts`: this is the first record of a transaction, and its LSN becomes the transaction's id. */
lladd_lsn forged_append(struct forged_log *, struct ll_record *, bool starts);
/* Appends a checkpoint record with the catalogue. Recovery begins at this record. */
lladd_lsn forged_checkpoint(struct forged_log *);
/* Makes the records durable, and marks the database in the control block as in use. */
void forged_close(struct forged_log *);
/* The catalogue number of an operation, class or page type; asserts that it has one. */
uint32_t forged_number(const struct forged_log *, const char *name);
/* Returns the page LSN of the page in the page file. */
lladd_lsn forged_page_lsn(const struct forged_log *, lladd_pageno);

#endif
