/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_RECOVERY_FORGE_H
#define TESTS_RECOVERY_FORGE_H
/*
 * Appends any record to the log of a closed database, with good checksums, as if a process had
 * logged it and then died. The test then opens the database.
 *
 *     fixture_close(&r);
 *     forge_open(&f, &r);
 *     struct ll_record rec = {...};
 *     lladd_lsn lsn = forge_append(&f, &rec);
 *     forge_close(&f);
 *     ... fixture_try_open(&r) ...
 */
#include "recovery/core.h"
#include "db_fixture.h"

struct forge {
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
    unsigned char *parts; /* the catalogue record, as a checkpoint writes it */
    size_t parts_len;
};

/* Clean databases only. Asserts. */
void forge_open(struct forge *, struct fixture *);
lladd_lsn forge_tail(const struct forge *); /* LSN of the next record */
/* `starts`: the first record of a transaction; its txn becomes its LSN. */
lladd_lsn forge_append(struct forge *, struct ll_record *, bool starts);
/* Appends the data record at the beginning of a checkpoint: the catalogue. Recovery will begin
 * here. */
lladd_lsn forge_checkpoint(struct forge *);
/* Makes it durable; the control block says "in use". */
void forge_close(struct forge *);
/* The catalogue number of an operation, class or page type; asserts that it has one. */
uint32_t forge_number(const struct forge *, const char *name);
/* The page's LSN in the page file. */
lladd_lsn forge_page_lsn(const struct forge *, lladd_pageno);

#endif
