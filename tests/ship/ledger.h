/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_LEDGER_H
#define TESTS_SHIP_LEDGER_H
/*
 * A database with an archive, for tests of the archive: transactions with records of many sizes.
 */
#include "memory_store.h"

#include <lladd/lladd.h>

struct ledger {
    struct lladd_options options;
    struct lladd_archive_options archive_options; /* set before ledger_init */
    struct lladd_archive *archive;
    struct lladd_db *db;
    uint64_t n; /* transactions that committed in this run */
};

/* `segment`: bytes of a segment. */
void ledger_init(struct ledger *, struct lladd_device *, struct lladd_store *, uint64_t segment);
/* Opens the database with its archive. Asserts success. */
void ledger_open(struct ledger *);
void ledger_close(struct ledger *);
void ledger_kill(struct ledger *);
/* Runs a transaction with a note of `bytes` bytes, and with changes of some pages. Returns 0 or the
 * first error. */
int ledger_try(struct ledger *, size_t bytes);
void ledger_write(struct ledger *, size_t bytes);
/* Runs a transaction that writes pages in bulk. */
void ledger_bulk(struct ledger *);
/* Steps until there is nothing more to store. Asserts success. */
void ledger_archive(struct ledger *);
struct lladd_archive_status ledger_status(struct ledger *);
/* Copies all files of a database that no process has open. */
void ledger_copy(struct lladd_device *from, struct lladd_device *to);
#endif
