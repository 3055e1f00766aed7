/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the database with the file and with the ledger. */
#ifndef PACKAGES_VERIFY_H
#define PACKAGES_VERIFY_H
#include "ledger.h"
#include "stanzas.h"
#include "store.h"

#define VERDICT_SHOWN 5u

struct verdict {
    uint64_t whole;                 /**< acknowledged commits that are there, every byte */
    uint64_t nothing;               /**< aborted on purpose, and completely absent */
    uint64_t found;                 /**< not acknowledged before the crash, but there, every byte */
    uint64_t elements;              /**< of the table */
    uint64_t discrepancies;         /**< everything else */
    char shown[VERDICT_SHOWN][160]; /**< the first of them, in words */
};

/** Reads the whole database. Transactions that were found become LEDGER_COMMITTED: what one
 *  recovery has brought back, every later one must. 0, or an error of the library. */
int verify(struct store *, const struct stanzas *, struct ledger *, struct verdict *,
           struct lladd_error *);
#endif
