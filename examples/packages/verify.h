/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the database with the file and with what has been promised. */
#ifndef PACKAGES_VERIFY_H
#define PACKAGES_VERIFY_H
#include "ledger.h"
#include "stanzas.h"
#include "store.h"

#define VERDICT_SHOWN 5u

struct verdict {
    uint64_t whole;                 /**< acknowledged commits that are there, every byte */
    uint64_t nothing;               /**< aborted on purpose, and not a trace of them */
    uint64_t found;                 /**< nobody had heard of the commit yet; there, every byte */
    uint64_t elements;              /**< of the table */
    uint64_t discrepancies;         /**< everything else */
    char shown[VERDICT_SHOWN][160]; /**< the first of them, in words */
};

/** Reads the whole database. Transactions that were found are LEDGER_COMMITTED afterwards: what one
 *  recovery has brought back, the next one must. 0, or an error of the library. */
int verify(struct store *, const struct stanzas *, struct ledger *, struct verdict *,
           struct lladd_error *);
#endif
